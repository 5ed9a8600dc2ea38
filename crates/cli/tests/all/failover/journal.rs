//! Journals in a real etcd, while its members are killed and asked to end.

use super::engine::Etcd;
use super::support::Place;
use gannet_meta::{
    Engine, FollowerNote, JournaledStore, ManagerName, MemoryStore, MetaStore, Standby, StoreError,
    Table, View,
};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long a cluster may take to begin, or to find another leader.
const PATIENCE: Duration = Duration::from_secs(30);

fn engine(cluster: &Etcd) -> gannet_engines::Etcd {
    let (addresses, patience) = (cluster.addresses().to_vec(), Duration::from_secs(4));
    gannet_engines::Etcd::new(addresses, "/gannet/test", patience).unwrap()
}

/// Waits until the cluster has a leader.
fn wait(cluster: &Etcd) {
    let (mut engine, until) = (engine(cluster), Instant::now() + PATIENCE);
    while let Err(error) = engine.row() {
        assert!(Instant::now() < until, "{error}");
    }
}

fn open(cluster: &Etcd, base: &Arc<MemoryStore>, owner: u8) -> Result<JournaledStore, StoreError> {
    let base = Arc::clone(base) as Arc<dyn MetaStore>;
    let manager = ManagerName {
        name: format!("manager {owner}"),
        owner: [owner; 16],
    };
    let mut standby = Standby::over(base, Box::new(engine(cluster)), [7; 16], manager)?;
    // Records would stay for those that have ended.
    standby.be_silent();
    standby.follow()?;
    standby.take_over()
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
    let place = Place::new();
    let mut cluster = Etcd::start(&place.path("etcd"));
    wait(&cluster);
    let base = Arc::<MemoryStore>::default();
    let first = open(&cluster, &base, 1).unwrap();
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
    let second = open(&cluster, &Arc::default(), 2).unwrap();
    assert_eq!(count(&second), 40);
    let refused = put(&first, 40, 10).err().unwrap().to_string();
    assert!(refused.contains("another manager"), "{refused}");
    put(&second, 40, 1000).unwrap();
    // Without a majority nothing is acknowledged.
    cluster.kill(1);
    let refused = put(&second, 41, 10).err().unwrap().to_string();
    assert!(refused.contains("etcd does not answer"), "{refused}");
    let refused = open(&cluster, &base, 3).err().unwrap().to_string();
    assert!(refused.contains("etcd does not answer"), "{refused}");
    (0..2).for_each(|number| cluster.begin(number));
    wait(&cluster);
    let third = open(&cluster, &base, 3).unwrap();
    assert!((41..=42).contains(&count(&third)));
    // Generations of records go.
    for number in 100..140 {
        put(&third, number, 500_000).unwrap();
        third.checkpoint().unwrap();
    }
    assert!(engine(&cluster).records(0, 100).unwrap().len() < 40);
    let again = open(&cluster, &base, 4).unwrap();
    assert!(count(&again) >= 81);
    again.renew().unwrap();
    let mut engine = engine(&cluster);
    let note = |has| FollowerNote { has, seen: 9 };
    engine.note("a/b c", note(7)).unwrap();
    engine.note("d", note(8)).unwrap();
    let notes = engine.notes().unwrap();
    assert_eq!((notes["a/b c"], notes["d"]), (note(7), note(8)));
    again.release().unwrap();
}
