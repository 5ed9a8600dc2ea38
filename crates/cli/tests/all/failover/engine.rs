//! A cluster of etcd on this host.

use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};

/// Three members, killed when dropped.
pub(super) struct Etcd {
    /// The members; `None` for one that does not run.
    members: Vec<Option<Child>>,
    commands: Vec<Vec<String>>,
    clients: Vec<String>,
}

/// A port that nobody listens at, below those that the system gives to connections: a process that is away keeps it.
pub(super) fn free_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let own = std::process::id() as u16 % 1000;
    let ports = std::iter::repeat_with(|| NEXT.fetch_add(1, Ordering::Relaxed));
    let mut ports = ports.map(|number| 20_000 + (own * 11 + number) % 12_000);
    let free = ports.find(|port| TcpListener::bind(("127.0.0.1", *port)).is_ok());
    free.unwrap()
}

fn free_address() -> String {
    format!("http://127.0.0.1:{}", free_port())
}

impl Etcd {
    pub(super) fn start(folder: &Path) -> Etcd {
        std::fs::create_dir(folder).unwrap();
        let peers: Vec<String> = (0..3).map(|_| free_address()).collect();
        let clients: Vec<String> = (0..3).map(|_| free_address()).collect();
        let all = peers.iter().enumerate();
        let all = all.map(|(number, peer)| format!("m{number}={peer}"));
        let all = all.collect::<Vec<String>>().join(",");
        let commands: Vec<Vec<String>> = (0..3)
            .map(|number: usize| {
                let data = folder.join(format!("m{number}"));
                let words = [
                    ("--name", format!("m{number}")),
                    ("--data-dir", data.display().to_string()),
                    ("--listen-client-urls", clients[number].clone()),
                    ("--advertise-client-urls", clients[number].clone()),
                    ("--listen-peer-urls", peers[number].clone()),
                    ("--initial-advertise-peer-urls", peers[number].clone()),
                    ("--initial-cluster", all.clone()),
                    ("--auto-compaction-mode", String::from("revision")),
                    ("--auto-compaction-retention", String::from("1000")),
                    ("--log-level", String::from("error")),
                ];
                let words = words.into_iter();
                words
                    .flat_map(|(name, value)| [name.to_owned(), value])
                    .collect()
            })
            .collect();
        Etcd {
            members: commands.iter().map(|it| Some(begin(it))).collect(),
            commands,
            clients,
        }
    }

    pub(super) fn addresses(&self) -> &[String] {
        &self.clients
    }

    /// Kills a member.
    pub(super) fn kill(&mut self, number: usize) {
        let mut member = self.members[number].take().unwrap();
        member.kill().unwrap();
        member.wait().unwrap();
    }

    /// Asks a member to end, and waits for that.
    pub(super) fn end(&mut self, number: usize) {
        let mut member = self.members[number].take().unwrap();
        let asked = Command::new("kill").arg(member.id().to_string()).status();
        assert!(asked.unwrap().success());
        member.wait().unwrap();
    }

    /// Starts a member that does not run.
    pub(super) fn begin(&mut self, number: usize) {
        self.members[number] = Some(begin(&self.commands[number]));
    }
}

fn begin(words: &[String]) -> Child {
    let mut command = Command::new("etcd");
    command
        .args(words)
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command.spawn().expect("etcd is installed")
}

impl Drop for Etcd {
    fn drop(&mut self) {
        for member in self.members.iter_mut().flatten() {
            let _ = member.kill();
            let _ = member.wait();
        }
    }
}
