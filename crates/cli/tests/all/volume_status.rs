//! The state of a volume as its administrator sees it, while an I/O server is killed and comes back.

#![allow(clippy::unwrap_used)]

use crate::support;

use serde_json::Value;
use std::fs;
use std::net::TcpStream;
use std::time::{Duration, Instant};
use support::{FREE_PORT, Place, Server, bytes, run, succeed};

/// A manager with an address for administrators, and I/O servers in processes of their own.
struct Bed {
    place: Place,
    volume: String,
    manager: Server,
    io_servers: Vec<Server>,
}

impl Bed {
    fn new(count: usize) -> Bed {
        let place = Place::new();
        let volume = place.text("volume");
        succeed(&[
            "volume",
            "create",
            &volume,
            "--io-servers",
            &count.to_string(),
        ]);
        let manager = Server::with(&[
            "--volume", &volume, "--role", "manager", "--native", FREE_PORT, "--admin", FREE_PORT,
        ]);
        let mut bed = Bed {
            place,
            volume,
            manager,
            io_servers: Vec::new(),
        };
        bed.io_servers = (0..count).map(|number| bed.io_server(number)).collect();
        bed
    }

    fn io_server(&self, number: usize) -> Server {
        let role = format!("io-server={number}");
        let words = [
            "--volume",
            &self.volume,
            "--role",
            &role,
            "--native",
            FREE_PORT,
        ];
        let places = ["--manager", &self.manager.native, "--admin", FREE_PORT];
        Server::with(&[&words[..], &places].concat())
    }

    fn url(&self) -> String {
        format!("gannet://{}/", self.manager.native)
    }

    /// The exit status and the output of a command with the key.
    fn run(&self, arguments: &[&str]) -> (Option<i32>, String) {
        let key = format!("{}/client-key", self.volume);
        let output = run(&[arguments, &["--volume-key", &key]].concat());
        let text = String::from_utf8(output.stdout).unwrap();
        (output.status.code(), text)
    }

    fn status(&self) -> (Option<i32>, Value) {
        let (code, text) = self.run(&["volume", "status", "--json", &self.url()]);
        (code, serde_json::from_str(&text).unwrap())
    }

    /// The volume in `/status.json`.
    fn told(&self) -> Value {
        let (_, text) = get(&self.manager.admin, "/status.json");
        let told: Value = serde_json::from_str(&text).unwrap();
        told["volume"].clone()
    }
}

/// The status line and the body.
fn get(admin: &str, path: &str) -> (String, String) {
    let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n");
    let (status, _, body) = super::admin::ask(TcpStream::connect(admin).unwrap(), &request);
    (status, body)
}

/// The value of a line of `/metrics`.
fn metric(admin: &str, name: &str) -> Option<f64> {
    let (_, text) = get(admin, "/metrics");
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    line.map(|value| value.trim().parse().unwrap())
}

fn wait_until(what: &str, happened: impl Fn() -> bool) {
    let start = Instant::now();
    while !happened() {
        assert!(start.elapsed() < Duration::from_secs(120), "{what}");
        std::thread::yield_now();
    }
}

const READY: [&str; 2] = [
    "gannet_volume_io_server_ready{io_server=\"0\"}",
    "gannet_volume_io_server_ready{io_server=\"1\"}",
];

#[test]
fn a_killed_io_server_is_told_everywhere_until_it_is_back() {
    let mut bed = Bed::new(2);
    let admin = bed.manager.admin.clone();
    let ready = |number: usize| metric(&admin, READY[number]) == Some(1.0);
    wait_until("two I/O servers are ready", || ready(0) && ready(1));
    wait_until("the manager serves", || {
        get(&admin, "/health").0.ends_with("200 OK")
    });
    let (code, status) = bed.status();
    assert_eq!(code, Some(0), "{status}");
    assert_eq!(status["findings"], Value::Array(vec![]), "{status}");
    assert!(status["io_servers"][1]["space_bytes"].as_u64() > Some(0));
    wait_until("the manager knows the space", || {
        bed.told()["io_servers"][1]["free_bytes"].as_u64() > Some(0)
    });

    bed.io_servers[1].kill();
    wait_until("the killed I/O server counts", || !ready(1));
    assert!(ready(0));
    let told = bed.told();
    let server = &told["io_servers"][1];
    assert_eq!(server["state"], "silent", "{told}");
    assert!(server["since_seconds"].as_f64() < Some(120.0), "{told}");
    let next = server["next"].as_str().unwrap();
    assert!(next.contains("--role io-server=1"), "{next}");
    // Half of two servers confirm the term: names are served, and the finding is told.
    let (head, health) = get(&admin, "/health");
    assert!(head.ends_with("200 OK"), "{head} {health}");
    assert!(health.contains("I/O server 1 does not answer"), "{health}");
    let (code, status) = bed.status();
    assert_eq!(code, Some(1), "{status}");
    assert_eq!(status["io_servers"][1]["state"], "silent", "{status}");
    let (code, text) = bed.run(&["volume", "status", &bed.url()]);
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert_eq!(code, Some(1), "{text}");
    assert!(
        words.contains("gannet serve --volume PATH --role io-server=1"),
        "{text}"
    );
    let (_, text) = bed.run(&["volume", "status", &bed.url(), "--admin", &admin]);
    assert!(text.contains("since"), "{text}");
    let (code, text) = bed.run(&["doctor", &bed.url()]);
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("0 answers at 127.0.0.1"), "{text}");
    assert!(text.contains("I/O server 1 does not answer"), "{text}");

    bed.io_servers[1] = bed.io_server(1);
    wait_until("the I/O server is back", || ready(1));
    wait_until("nothing is wrong any more", || bed.status().0 == Some(0));
}

#[test]
fn a_manager_that_serves_no_names_is_not_healthy() {
    let mut bed = Bed::new(1);
    let admin = bed.manager.admin.clone();
    wait_until("the manager serves", || {
        get(&admin, "/health").0.ends_with("200 OK")
    });
    assert_eq!(metric(&admin, "gannet_ready"), Some(1.0));
    bed.io_servers[0].kill();
    wait_until("the manager's lease is over", || {
        get(&admin, "/health").0.contains("503")
    });
    let (_, health) = get(&admin, "/health");
    let health: Value = serde_json::from_str(&health).unwrap();
    assert_eq!(health["state"], "waiting", "{health}");
    assert_eq!(metric(&admin, "gannet_ready"), Some(0.0));
    let (code, status) = bed.status();
    assert_eq!(code, Some(1), "{status}");
    assert_eq!(status["manager"]["state"], "waiting", "{status}");
}

#[test]
fn an_nfs_server_without_a_manager_is_not_healthy_until_there_is_one() {
    let mut bed = Bed::new(1);
    let at = bed.manager.native.clone();
    let words = ["--volume", &bed.volume, "--role", "nfs", "--manager", &at];
    let nfs = ["--nfs-tcp", FREE_PORT, "--nfs-rdma", "off"];
    let nfs = Server::with(&[&words[..], &nfs, &["--admin", FREE_PORT]].concat());
    let is_well = || get(&nfs.admin, "/health").0.ends_with("200 OK");
    assert!(is_well());
    // No client has asked for anything: the address of NFS is to move before one does.
    bed.manager.signal("STOP");
    wait_until("the server misses a manager that is paused", || !is_well());
    bed.manager.signal("CONT");
    wait_until("the manager goes on", is_well);
    bed.manager.kill();
    wait_until("the server misses the manager", || !is_well());
    let (_, health) = get(&nfs.admin, "/health");
    let health: Value = serde_json::from_str(&health).unwrap();
    assert_eq!(health["state"], "waiting", "{health}");
    assert_eq!(metric(&nfs.admin, "gannet_ready"), Some(0.0));
    let words = ["--volume", &bed.volume, "--role", "manager"];
    bed.manager = Server::with(&[&words[..], &["--native", &at]].concat());
    wait_until("the server has the next manager", is_well);
}

#[test]
fn numbers_of_the_metadata_and_of_disks_are_told() {
    let bed = Bed::new(1);
    let file = bed.place.text("file");
    fs::write(&file, bytes(1, 100_000)).unwrap();
    let (code, text) = bed.run(&["cp", &file, &format!("{}file", bed.url())]);
    assert_eq!(code, Some(0), "{text}");
    let of_manager = |name: &str| metric(&bed.manager.admin, name);
    for name in [
        "gannet_volume_group_commits_total",
        "gannet_volume_changes_total",
        "gannet_volume_journal_bytes",
        "gannet_volume_metadata_bytes",
        "gannet_volume_term",
        "gannet_volume_checkpoint_age_seconds",
    ] {
        assert!(of_manager(name) > Some(0.0), "{name}");
    }
    assert_eq!(of_manager("gannet_volume_lost_disks"), Some(0.0));
    assert_eq!(of_manager("gannet_volume_locks"), Some(0.0));
    let of_server = |name: &str| metric(&bed.io_servers[0].admin, name);
    for name in ["gannet_disk_bytes", "gannet_disk_free_bytes"] {
        let name = format!("{name}{{io_server=\"0\"}}");
        assert!(of_server(&name) > Some(0.0), "{name}");
    }
    assert_eq!(of_server("gannet_disk_errors_total"), Some(0.0));
}
