//! A volume by its native protocol: every command on gannet:// URLs, keys, roles in processes of their own that crash.

#![allow(clippy::unwrap_used)]

mod support;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};
use support::{Place, Server, assert_same, bytes, fail, gannet, make_tree, run, succeed};

/// A volume and its servers.
struct Bed {
    place: Place,
    volume: String,
    key: String,
    manager: Option<Server>,
    io_servers: Vec<Option<Server>>,
    native: String,
}

impl Bed {
    /// All servers in one process.
    fn embedded(io_servers: &str) -> Bed {
        let mut bed = Bed::made(io_servers);
        let words = ["--volume", &bed.volume.clone(), "--native", "127.0.0.1:0"];
        let more = ["--no-root-squash", "--nfs-tcp", "127.0.0.1:0"];
        let rest = ["--nfs-rdma", "127.0.0.1:0", "--cores", "2"];
        let server = Server::with(&[&words[..], &more, &rest].concat());
        bed.native = server.native.clone();
        bed.manager = Some(server);
        bed
    }

    /// Every server in a process of its own.
    fn apart(io_servers: usize) -> Bed {
        let mut bed = Bed::made(&io_servers.to_string());
        bed.native = String::from("127.0.0.1:0");
        bed.start_manager();
        for number in 0..io_servers {
            bed.io_servers.push(None);
            bed.start_io_server(number);
        }
        bed
    }

    fn made(io_servers: &str) -> Bed {
        let place = Place::new();
        let volume = place.text("volume");
        succeed(&["volume", "create", &volume, "--io-servers", io_servers]);
        Bed {
            key: format!("{volume}/client-key"),
            place,
            volume,
            manager: None,
            io_servers: Vec::new(),
            native: String::new(),
        }
    }

    fn start_manager(&mut self) {
        let words = ["--volume", &self.volume, "--role", "manager"];
        let native = ["--native", &self.native, "--cores", "1"];
        let nfs = ["--nfs-tcp", "127.0.0.1:0", "--nfs-rdma", "off"];
        let server = Server::with(&[&words[..], &native, &nfs].concat());
        self.native = server.native.clone();
        self.manager = Some(server);
    }

    /// On a port that the system picks.
    fn start_io_server(&mut self, number: usize) {
        let role = format!("io-server={number}");
        let words = ["--volume", &self.volume, "--role", &role, "--cores", "1"];
        let native = ["--native", "127.0.0.1:0", "--manager", &self.native];
        self.io_servers[number] = Some(Server::with(&[&words[..], &native].concat()));
    }

    fn url(&self, path: &str) -> String {
        format!("gannet://{}{path}", self.native)
    }

    /// Runs a command that must succeed, with the key.
    fn succeed(&self, arguments: &[&str]) -> String {
        succeed(&[arguments, &["--volume-key", &self.key]].concat())
    }

    fn fail(&self, arguments: &[&str]) -> String {
        fail(&[arguments, &["--volume-key", &self.key]].concat(), 1)
    }

    fn start_copy(&self, from: &str, to: &str) -> Child {
        let words = ["cp", "-r", "--log", "error", "--volume-key", &self.key];
        let mut command = gannet();
        command.args(words).args([from, to]).stderr(Stdio::piped());
        command.spawn().unwrap()
    }

    /// Bytes of all objects.
    fn stored(&self) -> u64 {
        size_below(&self.place.path("volume/io"))
    }
}

fn size_below(path: &std::path::Path) -> u64 {
    let Ok(entries) = fs::read_dir(path) else {
        return 0;
    };
    let sizes = entries.flatten().map(|entry| match entry.metadata() {
        Ok(found) if found.is_dir() => size_below(&entry.path()),
        Ok(found) => found.len(),
        // It is gone.
        Err(_) => 0,
    });
    sizes.sum()
}

fn wait_until(what: &str, happened: impl Fn() -> bool) {
    let start = Instant::now();
    while !happened() {
        assert!(start.elapsed() < Duration::from_secs(60), "{what}");
        std::thread::yield_now();
    }
}

fn finish(copy: Child) {
    let output = copy.wait_with_output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{error}");
}

#[test]
fn every_command_works_on_a_volume() {
    let bed = Bed::embedded("3");
    let place = &bed.place;
    make_tree(&place.path("tree"), 40);
    for (number, len) in [0, 1, 4097, 65536, 196_608, 196_609, 9_999_991]
        .into_iter()
        .enumerate()
    {
        fs::write(place.path(&format!("tree/{len}")), bytes(number, len)).unwrap();
    }
    bed.succeed(&["mkdir", "-p", &bed.url("/a/b")]);
    let there = bed.url("/a/b/tree");
    bed.succeed(&["cp", "-r", "--verify", &place.text("tree"), &there]);
    let within = bed.url("/a/again");
    bed.succeed(&["cp", "-r", "--verify", &there, &within]);
    let back = place.text("out/back");
    bed.succeed(&["cp", "-r", "--verify", &within, &back]);
    assert_same(&place.path("tree"), &place.path("out/back"));
    // Through NFS it is the same tree, and copies go between the two.
    let nfs = format!("nfs://{}", bed.manager.as_ref().unwrap().tcp);
    let other = format!("{nfs}/a/other");
    bed.succeed(&["cp", "-r", "--verify", &within, &other]);
    bed.succeed(&["cp", "-r", &other, &place.text("out/other")]);
    assert_same(&place.path("tree"), &place.path("out/other"));

    let names = bed.succeed(&["ls", &bed.url("/a")]);
    assert_eq!(names, "again\nb\nother\n");
    let file = format!("{there}/9999991");
    let text = bed.succeed(&["stat", "--json", &file]);
    let shown: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(shown["size_bytes"], 9_999_991);
    let output = run(&["cat", &file, "--volume-key", &bed.key]);
    assert!(output.stdout == fs::read(place.path("tree/9999991")).unwrap());
    bed.succeed(&["mv", &file, &bed.url("/a/moved")]);
    let error = bed.fail(&["stat", &file]);
    assert!(error.contains("no such file"), "{error}");
    assert!(bed.succeed(&["df", &bed.url("/")]).contains("gannet://"));
    bed.succeed(&["rm", "-r", &bed.url("/a")]);
    assert_eq!(bed.succeed(&["ls", &bed.url("/")]), "");
    wait_until("objects of removed files stay", || bed.stored() == 0);
}

#[test]
fn a_volume_is_measured_like_other_servers() {
    let bed = Bed::embedded("2");
    let words = ["bench", &bed.url("/"), "--json", "--threads", "1,2"];
    let what = ["--op", "write,read,randread,stat,create", "--record", "64K"];
    let short = ["--size", "4M", "--seconds", "0.05"];
    let rows = bed.succeed(&[&words[..], &what, &short].concat());
    assert_eq!(rows.lines().count(), 10, "{rows}");
    for row in rows.lines() {
        let row: serde_json::Value = serde_json::from_str(row).unwrap();
        assert_eq!(row["path"], "gannet");
        assert!(row["ops"].as_u64().unwrap() > 0, "{row}");
    }
    let words = ["bench", "iozone", &bed.url("/"), "--json", "--threads", "2"];
    let short = ["--size", "1M", "--record", "64K", "--op", "write,read"];
    let rows = bed.succeed(&[&words[..], &short].concat());
    assert_eq!(rows.lines().count(), 2, "{rows}");
    assert_eq!(bed.succeed(&["ls", &bed.url("/")]), "");
}

#[test]
fn only_who_has_the_key_of_the_volume_gets_in() {
    let bed = Bed::embedded("1");
    let list = ["ls", &bed.url("/")];
    let error = fail(&list, 1);
    assert!(error.contains("--volume-key"), "{error}");
    let with = |key: &str| fail(&[&list[..], &["--volume-key", key]].concat(), 1);
    let error = with(&bed.place.text("nowhere"));
    assert!(error.contains("nowhere"), "{error}");
    // Another volume's.
    let other = bed.place.text("other");
    succeed(&["volume", "create", &other]);
    let error = with(&format!("{other}/client-key"));
    assert!(error.contains("client-key"), "{error}");
    // The right volume, and another key.
    let text = |path: &str| fs::read_to_string(path).unwrap();
    let (ours, theirs) = (text(&bed.key), text(&format!("{other}/client-key")));
    let lines = |text: &str| text.lines().map(str::to_owned).collect::<Vec<_>>();
    let mixed = [&lines(&ours)[..2], &lines(&theirs)[2..]]
        .concat()
        .join("\n");
    let forged = bed.place.text("forged");
    fs::write(&forged, mixed).unwrap();
    fs::set_permissions(&forged, fs::Permissions::from_mode(0o600)).unwrap();
    let error = with(&forged);
    assert!(error.contains("does not know its key"), "{error}");
    fs::set_permissions(&forged, fs::Permissions::from_mode(0o644)).unwrap();
    let error = with(&forged);
    assert!(error.contains("chmod 600"), "{error}");
    fs::write(&forged, "nothing").unwrap();
    fs::set_permissions(&forged, fs::Permissions::from_mode(0o600)).unwrap();
    let error = with(&forged);
    assert!(error.contains("client-key"), "{error}");
    assert_eq!(bed.succeed(&list), "");
    let key = fs::metadata(&bed.key).unwrap();
    assert_eq!(key.permissions().mode() & 0o777, 0o600);
}

/// Kills one server after the other while a tree is copied, and starts each again.
fn copy_with_crashes(
    victim: impl Fn(&mut Bed, usize) -> Server,
    restart: impl Fn(&mut Bed, usize),
) {
    let mut bed = Bed::apart(4);
    make_tree(&bed.place.path("tree"), 200);
    for number in 0..4 {
        let path = bed.place.path(&format!("tree/huge-{number}"));
        fs::write(path, bytes(number, 24 << 20)).unwrap();
    }
    let (tree, there) = (bed.place.text("tree"), bed.url("/copy"));
    let copy = bed.start_copy(&tree, &there);
    for number in 0..4 {
        let goal = (number as u64 + 1) << 22;
        wait_until("the copy does not go on", || bed.stored() > goal);
        victim(&mut bed, number).kill();
        restart(&mut bed, number);
    }
    finish(copy);
    let out = bed.place.path("out");
    let copy = bed.start_copy(&there, &bed.place.text("out/back"));
    for number in 0..4 {
        let goal = (number as u64 + 1) << 22;
        wait_until("the copy does not go on", || size_below(&out) > goal);
        victim(&mut bed, number).kill();
        restart(&mut bed, number);
    }
    finish(copy);
    assert_same(&bed.place.path("tree"), &bed.place.path("out/back"));
}

#[test]
fn a_copy_survives_crashes_of_every_io_server_in_both_directions() {
    copy_with_crashes(
        |bed, number| bed.io_servers[number].take().unwrap(),
        |bed, number| bed.start_io_server(number),
    );
}

#[test]
fn a_copy_survives_crashes_of_the_manager_in_both_directions() {
    copy_with_crashes(
        |bed, _| bed.manager.take().unwrap(),
        |bed, _| bed.start_manager(),
    );
}

#[test]
fn roles_end_at_sigterm_and_run_once() {
    let mut bed = Bed::apart(2);
    let volume = bed.volume.clone();
    let words = ["serve", "--volume", &volume, "--log", "error"];
    let role = |role: &str| {
        let rest = ["--native", "127.0.0.1:0", "--manager", "127.0.0.1:1"];
        fail(&[&words[..], &["--role", role], &rest].concat(), 1)
    };
    let error = role("io-server=1");
    assert!(
        error.contains("another process serves its folder"),
        "{error}"
    );
    let error = role("manager");
    assert!(
        error.contains("another process serves this volume"),
        "{error}"
    );
    let wrong = |more: &[&str]| fail(&[&words[..], more].concat(), 2);
    let error = wrong(&["--role", "io-server=2", "--manager", "h:1"]);
    assert!(error.contains("the volume has 2"), "{error}");
    let error = wrong(&["--role", "io-server=0"]);
    assert!(error.contains("[manager]"), "{error}");
    let nfs = [
        "--role",
        "io-server=0",
        "--manager",
        "h:1",
        "--nfs-tcp",
        ":1",
    ];
    let error = wrong(&nfs);
    assert!(error.contains("manager"), "{error}");
    bed.succeed(&["mkdir", &bed.url("/a")]);
    let text = bed.succeed(&["volume", "check", &bed.url("/")]);
    assert!(
        text.contains("checked 2 I/O servers, 2 directories"),
        "{text}"
    );
    let text = bed.succeed(&["doctor", &bed.url("/")]);
    assert!(text.contains("1 answers at 127.0.0.1"), "{text}");
    for server in bed.io_servers.iter_mut().flatten() {
        server.signal("TERM");
        assert_eq!(server.wait().code(), Some(0));
    }
    let output = run(&["volume", "check", &bed.url("/"), "--volume-key", &bed.key]);
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("I/O server 1 cannot be reached"), "{text}");
    // Names are there without I/O servers; data is waited for, as long as one likes.
    assert_eq!(bed.succeed(&["ls", &bed.url("/")]), "a\n");
    let file = bed.place.path("file");
    fs::write(&file, bytes(1, 100_000)).unwrap();
    let there = bed.url("/a/file");
    let short = ["cp", file.to_str().unwrap(), &there, "--timeout", "1"];
    let error = run(&[&short[..], &["--volume-key", &bed.key]].concat());
    assert_eq!(error.status.code(), Some(1));
    bed.io_servers.clear();
    for number in 0..2 {
        bed.io_servers.push(None);
        bed.start_io_server(number);
    }
    bed.succeed(&["cp", "--verify", file.to_str().unwrap(), &there]);
    let manager = bed.manager.as_mut().unwrap();
    manager.signal("TERM");
    assert_eq!(manager.wait().code(), Some(0));
}
