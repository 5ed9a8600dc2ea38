//! Journals in a real etcd, which the test starts: `cargo xtask failover` runs it.
#![allow(clippy::unwrap_used)]

use gannet_engines::Etcd;
use gannet_meta::{
    Engine, FollowerNote, JournaledStore, ManagerName, MemoryStore, MetaStore, Standby, StoreError,
    Table, View,
};
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long a cluster may take to begin, or to find another leader.
const PATIENCE: Duration = Duration::from_secs(30);

/// A cluster of three on this host.
struct Cluster {
    members: Vec<Option<Child>>,
    commands: Vec<Vec<String>>,
    clients: Vec<String>,
    _folder: tempfile::TempDir,
}

fn free_address() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    format!("http://{}", listener.local_addr().unwrap())
}

impl Cluster {
    fn start() -> Cluster {
        let folder = tempfile::tempdir().unwrap();
        let peers: Vec<String> = (0..3).map(|_| free_address()).collect();
        let clients: Vec<String> = (0..3).map(|_| free_address()).collect();
        let all = (0..)
            .zip(&peers)
            .map(|(number, peer)| format!("m{number}={peer}"));
        let all = all.collect::<Vec<String>>().join(",");
        let commands = (0..3).map(|number: usize| {
            let data = folder.path().join(format!("m{number}"));
            let words = [
                ("--name", format!("m{number}")),
                ("--data-dir", data.display().to_string()),
                ("--listen-client-urls", clients[number].clone()),
                ("--advertise-client-urls", clients[number].clone()),
                ("--listen-peer-urls", peers[number].clone()),
                ("--initial-advertise-peer-urls", peers[number].clone()),
                ("--initial-cluster", all.clone()),
                ("--log-level", String::from("error")),
            ];
            words
                .into_iter()
                .flat_map(|(name, value)| [name.to_owned(), value])
                .collect()
        });
        let mut cluster = Cluster {
            commands: commands.collect(),
            members: vec![None, None, None],
            clients,
            _folder: folder,
        };
        (0..3).for_each(|number| cluster.begin(number));
        cluster.wait();
        cluster
    }

    fn begin(&mut self, number: usize) {
        let command = Command::new("etcd")
            .args(&self.commands[number])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        self.members[number] = Some(command.expect("etcd is installed"));
    }

    fn kill(&mut self, number: usize) {
        let mut member = self.members[number].take().unwrap();
        member.kill().unwrap();
        member.wait().unwrap();
    }

    fn engine(&self) -> Etcd {
        let patience = Duration::from_secs(4);
        Etcd::new(self.clients.clone(), "/gannet/test", patience).unwrap()
    }

    /// Waits until the cluster has a leader.
    fn wait(&self) {
        let (mut engine, until) = (self.engine(), Instant::now() + PATIENCE);
        while let Err(error) = engine.row() {
            assert!(Instant::now() < until, "{error}");
        }
    }

    fn open(&self, base: &Arc<MemoryStore>, owner: u8) -> Result<JournaledStore, StoreError> {
        let base = Arc::clone(base) as Arc<dyn MetaStore>;
        let manager = ManagerName {
            name: format!("manager {owner}"),
            owner: [owner; 16],
        };
        let mut standby = Standby::over(base, Box::new(self.engine()), [7; 16], manager)?;
        // Records would stay for those that have ended.
        standby.be_silent();
        standby.follow()?;
        standby.take_over()
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        for member in self.members.iter_mut().flatten() {
            let _ = member.kill();
            let _ = member.wait();
        }
    }
}

fn put(store: &JournaledStore, number: u32, len: usize) -> Result<(), StoreError> {
    let value = vec![number as u8; len];
    store.commit(&mut |it| it.put(Table::Names, &number.to_be_bytes(), &value))
}

fn count(store: &dyn MetaStore) -> usize {
    let mut count = 0;
    let look = &mut |view: &dyn View| {
        let each = &mut |_: &[u8], _: &[u8]| {
            count += 1;
            true
        };
        view.scan(Table::Names, b"", each).unwrap();
    };
    store.read(look).unwrap();
    count
}

#[test]
#[ignore = "needs etcd: `cargo xtask failover` runs it"]
fn changes_outlive_managers_and_members_of_etcd() {
    let mut cluster = Cluster::start();
    let base = Arc::<MemoryStore>::default();
    let first = cluster.open(&base, 1).unwrap();
    for number in 0..20 {
        put(&first, number, 1000).unwrap();
    }
    // The longest record, as it is encoded.
    put(&first, 20, (1 << 20) - 200).unwrap();
    // One member is away: the others go on.
    cluster.kill(0);
    for number in 21..40 {
        put(&first, number, 1000).unwrap();
    }
    // Another manager, whose store below has nothing.
    let second = cluster.open(&Arc::default(), 2).unwrap();
    assert_eq!(count(&second), 40);
    let refused = put(&first, 40, 10).err().unwrap().to_string();
    assert!(refused.contains("another manager"), "{refused}");
    put(&second, 40, 1000).unwrap();
    // Without a majority nothing is acknowledged.
    cluster.kill(1);
    let refused = put(&second, 41, 10).err().unwrap().to_string();
    assert!(refused.contains("etcd does not answer"), "{refused}");
    let refused = cluster.open(&base, 3).err().unwrap().to_string();
    assert!(refused.contains("etcd does not answer"), "{refused}");
    (0..2).for_each(|number| cluster.begin(number));
    cluster.wait();
    let third = cluster.open(&base, 3).unwrap();
    assert!((41..=42).contains(&count(&third)));
    // Generations of records go.
    for number in 100..140 {
        put(&third, number, 500_000).unwrap();
        third.checkpoint().unwrap();
    }
    assert!(cluster.engine().records(0, 100).unwrap().len() < 40);
    let again = cluster.open(&base, 4).unwrap();
    assert!(count(&again) >= 81);
    again.renew().unwrap();
    let mut engine = cluster.engine();
    let note = |has| FollowerNote { has, seen: 9 };
    engine.note("a/b c", note(7)).unwrap();
    engine.note("d", note(8)).unwrap();
    let notes = engine.notes().unwrap();
    assert_eq!((notes["a/b c"], notes["d"]), (note(7), note(8)));
    again.release().unwrap();
}
