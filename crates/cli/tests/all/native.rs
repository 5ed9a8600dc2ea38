//! A volume by its native protocol: every command on gannet:// URLs, keys, roles in processes of their own that crash.

#![allow(clippy::unwrap_used)]

mod again;
mod keys;
mod moved;
mod tiles;

use crate::support;

use clap::Parser;
use gannet_cli::cli::ClientOptions;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant, UNIX_EPOCH};
use support::{
    Place, Server, assert_same, bytes, fail, fail_at_length, gannet, make_tree, objects_below, run,
    succeed,
};

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
        self.start_manager_with(&[]);
    }

    fn start_manager_with(&mut self, options: &[&str]) {
        let words = ["--volume", &self.volume, "--role", "manager"];
        let native = ["--native", &self.native, "--cores", "1"];
        let nfs = ["--nfs-tcp", "127.0.0.1:0", "--nfs-rdma", "off"];
        let server = Server::with(&[&words[..], &native, &nfs, options].concat());
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
        // These files name the owner of the folder, its manager and its groups.
        Ok(_) if entry.file_name() == "io-server.toml" => 0,
        Ok(_) if entry.file_name() == "manager-term" => 0,
        Ok(_) if entry.file_name() == "groups" => 0,
        Ok(found) => found.len(),
        // It was removed meanwhile.
        Err(_) => 0,
    });
    sizes.sum()
}

fn wait_until(what: &str, happened: impl Fn() -> bool) {
    let start = Instant::now();
    while !happened() {
        assert!(start.elapsed() < Duration::from_secs(300), "{what}");
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

/// NFSv3 cannot say some of them; volumes can.
#[test]
fn copies_to_a_volume_and_back_keep_times_of_all_centuries() {
    let bed = Bed::embedded("2");
    let place = &bed.place;
    fs::create_dir(place.path("tree")).unwrap();
    let moments = [
        UNIX_EPOCH - Duration::new(315_619_200, 250_000_000),
        UNIX_EPOCH + Duration::new(2_208_988_800, 7),
        UNIX_EPOCH + Duration::new(1 << 32, 0),
    ];
    for (number, moment) in moments.iter().enumerate() {
        let file = fs::File::create(place.path(&format!("tree/{number}"))).unwrap();
        file.set_modified(*moment).unwrap();
    }
    let (there, back) = (bed.url("/tree"), place.text("back"));
    bed.succeed(&["cp", "-r", &place.text("tree"), &there]);
    bed.succeed(&["cp", "-r", &there, &back]);
    for (number, moment) in moments.iter().enumerate() {
        let kept = fs::metadata(place.path(&format!("back/{number}"))).unwrap();
        assert_eq!(kept.modified().unwrap(), *moment);
    }
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
    // More than a call of NFS moves.
    let url = bed.url("/");
    let large = [
        "bench",
        &url,
        "--json",
        "--record",
        "5M",
        "--size",
        "11M",
        "--op",
        "write,read",
    ];
    let rows = bed.succeed(&[&large[..], &["--threads", "1"]].concat());
    assert_eq!(rows.matches("\"record\":5242880").count(), 2, "{rows}");
    assert_eq!(bed.succeed(&["ls", &bed.url("/")]), "");
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
fn commands_name_the_io_server_that_is_away_and_list_known_entries() {
    let mut bed = Bed::apart(2);
    fs::write(bed.place.path("file"), bytes(1, 300_000)).unwrap();
    bed.succeed(&["mkdir", &bed.url("/directory")]);
    bed.succeed(&["cp", &bed.place.text("file"), &bed.url("/file")]);
    bed.io_servers[1].take().unwrap().kill();
    let failed = |what: &[&str]| {
        let words = [what, &["--timeout", "1", "--volume-key", &bed.key]].concat();
        let output = run(&words);
        assert_eq!(output.status.code(), Some(1), "{what:?}");
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (text(output.stdout), text(output.stderr))
    };
    let root = bed.url("/");
    let names = bed.succeed(&["ls", &root]);
    assert_eq!(names, "directory\nfile\n");
    let (listed, why) = failed(&["ls", "-l", &root]);
    assert!(
        listed.contains(" directory\n") && listed.contains("??? "),
        "{listed}"
    );
    assert!(listed.contains(" file\n"), "{listed}");
    let is_named = |why: &str| why.contains("/file: I/O server 1 is away: ");
    assert!(is_named(&why), "{why}");
    // Nor is it waited for as long as other commands would: this would be for ever.
    let key = bed.key.clone();
    let for_ever = ["--timeout", "1000000", "--volume-key", &key];
    let output = run(&[&["ls", "-l", &root], &for_ever[..]].concat());
    assert_eq!(output.status.code(), Some(1));
    let why = String::from_utf8(output.stderr).unwrap();
    assert!(is_named(&why), "{why}");
    // The space of the others is known, and the one that is left out is named.
    let output = run(&["df", &root, "--volume-key", &bed.key]);
    assert_eq!(output.status.code(), Some(0));
    let why = String::from_utf8(output.stderr).unwrap();
    assert!(why.contains("I/O server 1: "), "{why}");
    let doctor = run(&["doctor", &root, "--volume-key", &bed.key]);
    let said = String::from_utf8(doctor.stdout).unwrap();
    assert!(said.contains("I/O server 1"), "{said}");
    bed.start_io_server(1);
    bed.succeed(&["ls", "-l", &root]);

    // One that is there, and says nothing.
    let silent = bed.io_servers[1].as_ref().unwrap();
    silent.signal("STOP");
    let output = run(&[&["ls", "-l", &root], &for_ever[..]].concat());
    let [listed, why] = [output.stdout, output.stderr].map(|it| String::from_utf8(it).unwrap());
    assert!(listed.contains(" directory\n"), "{listed}");
    assert!(is_named(&why), "{why}");
    silent.signal("CONT");
    bed.succeed(&["ls", "-l", &root]);
}

#[test]
fn a_volume_is_not_served_with_fewer_io_servers_than_it_had() {
    let mut bed = Bed::embedded("3");
    bed.manager.take().unwrap().kill();
    let description = bed.place.path("volume/volume.toml");
    let text = fs::read_to_string(&description).unwrap();
    let cut = text.rfind("[[io_server]]").unwrap();
    fs::write(&description, &text[..cut]).unwrap();
    let words = ["--volume", &bed.volume, "--native", "127.0.0.1:0"];
    let nfs = ["--nfs-tcp", "127.0.0.1:0", "--nfs-rdma", "off"];
    let words = [&words[..], &nfs].concat();
    let error = fail(&[&["serve", "--log", "error"], &words[..]].concat(), 1);
    assert!(error.contains("has had 3 I/O servers"), "{error}");
    fs::write(&description, text).unwrap();
    Server::with(&words);
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
    assert!(error.contains("--role nfs"), "{error}");
    let off = ["--role", "nfs", "--manager", "h:1", "--nfs-tcp", "off"];
    let error = wrong(&[&off[..], &["--nfs-rdma", "off"]].concat());
    assert!(error.contains("nothing to serve"), "{error}");
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

#[test]
fn a_check_of_a_served_volume_sees_the_objects_of_all_its_servers() {
    let mut bed = Bed::apart(3);
    make_tree(&bed.place.path("tree"), 30);
    let there = bed.url("/tree");
    bed.succeed(&["cp", "-r", &bed.place.text("tree"), &there]);
    let (root, key) = (bed.url("/"), bed.key.clone());
    let words = ["volume", "check", &root, "--volume-key", &key];
    let check = |more: &[&str]| {
        let output = run(&[&words[..], more].concat());
        let text = String::from_utf8(output.stdout).unwrap();
        (output.status.code(), text)
    };
    let (code, text) = check(&[]);
    assert!(code == Some(0) && text.contains(" 0 findings"), "{text}");

    // An object whose file went just now: its removal will be done once more.
    let big = bed.place.path("big");
    fs::write(&big, bytes(1, 1 << 20)).unwrap();
    let io = |number: u32| bed.place.path(&format!("volume/io/{number}"));
    let before = objects_below(&io(1));
    bed.succeed(&["cp", big.to_str().unwrap(), &bed.url("/new")]);
    let mut new = objects_below(&io(1));
    new.retain(|path| !before.contains(path));
    bed.succeed(&["rm", &bed.url("/new")]);
    wait_until("objects of removed files stay", || {
        new.iter().all(|path| !path.exists())
    });
    fs::write(&new[0], b"just written").unwrap();
    // One of no file, for a long time: the number is the root directory's.
    let left = io(1).join("01/0000000000000001");
    fs::create_dir_all(left.parent().unwrap()).unwrap();
    fs::write(&left, b"left").unwrap();
    let long_ago = std::time::SystemTime::now() - Duration::from_secs(3600);
    let object = fs::File::options().write(true).open(&left).unwrap();
    object.set_modified(long_ago).unwrap();
    drop(object);
    // Many with numbers that no file has had yet, and something else. The folder may have an object of the tree.
    let folder = io(2).join("ff");
    fs::create_dir_all(&folder).unwrap();
    let names = (0..450).map(|number| format!("{:016x}", 0xff_0000_00ff_u64 | number << 8));
    let ahead: Vec<_> = names.map(|name| folder.join(name)).collect();
    for object in &ahead {
        fs::write(object, b"ahead").unwrap();
    }
    fs::write(io(2).join("notes"), b"mine").unwrap();

    let (code, text) = check(&[]);
    assert_eq!(code, Some(1));
    let orphan = "I/O server 1: the object of file 1, 4 bytes, belongs to no file";
    assert!(text.contains(orphan), "{text}");
    assert!(
        text.contains("a file that the manager never made"),
        "{text}"
    );
    assert!(
        text.contains("I/O server 2: 1 foreign files in its folder"),
        "{text}"
    );
    assert!(text.contains(": 452 findings, 0 repaired"), "{text}");
    let (code, text) = check(&["--repair", "--uid", "4711"]);
    assert!(
        code == Some(1) && text.contains("not removed: only root"),
        "{text}"
    );
    assert!(left.exists());
    let (code, text) = check(&["--repair"]);
    assert_eq!(code, Some(1), "what is ahead and notes stay");
    assert!(text.contains(&format!("{orphan}: removed")), "{text}");
    assert!(text.contains(": 452 findings, 1 repaired"), "{text}");
    assert!(!left.exists() && new[0].exists());
    assert!(ahead.iter().all(|object| object.exists()));
    let error = fail(
        &["volume", "check", &there, "--repair", "--volume-key", &key],
        2,
    );
    assert!(error.contains("as a whole"), "{error}");
    for object in &ahead {
        fs::remove_file(object).unwrap();
    }
    fs::remove_file(io(2).join("notes")).unwrap();
    let (code, text) = check(&[]);
    assert!(code == Some(0) && text.contains(" 0 findings"), "{text}");

    // The test removes an object, and then a whole disk.
    let largest = objects_below(&io(0)).into_iter();
    let largest = largest.max_by_key(|path| path.metadata().unwrap().len());
    let largest = largest.unwrap();
    let file = u64::from_str_radix(largest.file_name().unwrap().to_str().unwrap(), 16).unwrap();
    fs::remove_file(&largest).unwrap();
    let (code, text) = check(&[]);
    assert!(code == Some(0), "it may be a hole: {text}");
    let note = format!("note: file {file}: no object on I/O server 0 for ");
    assert!(text.contains(&note) && text.contains("or lost"), "{text}");
    for path in objects_below(&io(0)) {
        fs::remove_file(path).unwrap();
    }
    let (code, text) = check(&[]);
    assert_eq!(code, Some(1));
    assert!(
        text.contains("I/O server 0 has no objects at all"),
        "{text}"
    );
    // For a server that is away, the check reports that alone.
    bed.io_servers[0].take().unwrap().kill();
    let (code, text) = check(&[]);
    assert_eq!(code, Some(1));
    assert!(text.contains("I/O server 0 cannot be reached"), "{text}");
    assert!(text.contains(": 1 findings"), "{text}");
}

#[test]
fn foreign_files_at_paths_of_objects_are_reported_and_not_followed() {
    let mut bed = Bed::apart(1);
    fs::write(bed.place.path("source"), "ten bytes.").unwrap();
    let names = ["/directory", "/link", "/pipe"].map(|name| bed.url(name));
    for name in &names {
        bed.succeed(&["cp", &bed.place.text("source"), name]);
    }
    // The server would know their handles.
    bed.io_servers[0].take().unwrap().kill();
    let mut objects = objects_below(&bed.place.path("volume/io/0"));
    objects.sort_by_key(|path| path.file_name().unwrap().to_owned());
    objects
        .iter()
        .for_each(|path| fs::remove_file(path).unwrap());
    fs::create_dir(&objects[0]).unwrap();
    std::os::unix::fs::symlink(bed.place.path("source"), &objects[1]).unwrap();
    let made = Command::new("mkfifo").arg(&objects[2]).status();
    assert!(made.unwrap().success());
    bed.start_io_server(0);
    for name in &names {
        let error = run(&["cat", name, "--volume-key", &bed.key]);
        assert_eq!(error.status.code(), Some(1), "{name}");
        assert!(error.stdout.is_empty(), "{name}");
    }
    let check = |what: &str| {
        let checked = run(&["volume", "check", what, "--volume-key", &bed.key]);
        assert_eq!(checked.status.code(), Some(1));
        String::from_utf8(checked.stdout).unwrap()
    };
    let text = check(&bed.url("/"));
    assert!(text.contains("3 foreign files in its folder"), "{text}");
    bed.io_servers[0].take().unwrap().kill();
    bed.manager.take().unwrap().kill();
    let text = check(&bed.volume);
    for object in objects {
        let finding = format!("I/O server 0: {} is a foreign file", object.display());
        assert!(text.contains(&finding), "{text}");
    }
}

#[test]
fn restored_metadata_gives_no_file_the_bytes_of_another() {
    let mut bed = Bed::apart(1);
    let files = ["metadata", "metadata.journal"].map(|name| bed.place.path("volume").join(name));
    let backup = bed.place.path("backup");
    fs::create_dir(&backup).unwrap();
    let kept = ["metadata", "metadata.journal"].map(|name| backup.join(name));
    let stop = |bed: &mut Bed| {
        let mut manager = bed.manager.take().unwrap();
        manager.signal("TERM");
        assert_eq!(manager.wait().code(), Some(0));
    };
    let write = |bed: &Bed, name: &str, text: &str| {
        fs::write(bed.place.path("source"), text).unwrap();
        bed.succeed(&["cp", &bed.place.text("source"), &bed.url(name)]);
    };
    write(&bed, "/before", "kept");
    stop(&mut bed);
    (files.iter().zip(&kept)).for_each(|(from, to)| _ = fs::copy(from, to).unwrap());
    bed.start_manager();
    write(&bed, "/lost", "much longer than what comes next");
    stop(&mut bed);
    (kept.iter().zip(&files)).for_each(|(from, to)| _ = fs::copy(from, to).unwrap());
    bed.start_manager_with(&["--force-term"]);
    write(&bed, "/after", "short");
    assert_eq!(bed.succeed(&["cat", &bed.url("/after")]), "short");
    assert_eq!(bed.succeed(&["cat", &bed.url("/before")]), "kept");
    assert!(!bed.succeed(&["ls", &bed.url("/")]).contains("lost"));
    // The check reports the rest of the file and keeps it: the metadata may be the wrong one.
    let url = bed.url("/");
    let words = [
        "volume",
        "check",
        &url,
        "--repair",
        "--volume-key",
        &bed.key,
    ];
    let checked = String::from_utf8(run(&words).stdout).unwrap();
    let whose = "32 bytes, belongs to a file that the manager never made: not removed";
    assert!(checked.contains(whose), "{checked}");
    assert!(checked.contains("1 findings, 0 repaired"), "{checked}");
}

/// Options as the command line has them.
#[derive(clap::Parser)]
struct Options {
    #[command(flatten)]
    client: ClientOptions,
}

#[test]
fn an_io_server_whose_disk_is_not_mounted_does_not_serve() {
    let mut bed = Bed::apart(2);
    let (file, back) = (bed.place.text("file"), bed.place.text("back"));
    fs::write(&file, bytes(3, 200_000)).unwrap();
    bed.succeed(&["cp", &file, &bed.url("/file")]);
    bed.io_servers[1] = None;
    let (folder, disk) = (bed.place.path("volume/io/1"), bed.place.path("disk"));
    fs::rename(&folder, &disk).unwrap();
    fs::create_dir(&folder).unwrap();
    let role = ["serve", "--volume", &bed.volume, "--role", "io-server=1"];
    let rest = ["--native", "127.0.0.1:0", "--manager", &bed.native];
    let words = [&role[..], &rest, &["--log", "error"]].concat();
    let refused = fail(&words, 1);
    for part in ["cannot start I/O server 1", "is empty", "--lost-disk 1"] {
        assert!(refused.contains(part), "{refused}");
    }
    // Before its manager it listens, and ends when it hears what is missing.
    bed.manager = None;
    bed.start_io_server(1);
    assert!(!folder.join("io-server.toml").exists());
    bed.start_manager();
    let mut refused = bed.io_servers[1].take().unwrap();
    assert_eq!(refused.wait().code(), Some(1));
    fs::remove_dir(&folder).unwrap();
    fs::rename(&disk, &folder).unwrap();
    bed.start_io_server(1);
    bed.succeed(&["cp", &bed.url("/file"), &back]);
    assert!(fs::read(&back).unwrap() == bytes(3, 200_000));

    // The disk dies.
    bed.io_servers[1] = None;
    fs::remove_dir_all(&folder).unwrap();
    fs::create_dir(&folder).unwrap();
    let rest = ["--native", "127.0.0.1:0", "--manager", &bed.native];
    let words = [
        "--volume",
        &bed.volume,
        "--role",
        "io-server=1",
        "--lost-disk",
        "1",
    ];
    bed.io_servers[1] = Some(Server::with(&[&words[..], &rest].concat()));
    let (there, root) = (bed.url("/file"), bed.url("/"));
    let again = bed.place.text("again");
    let copy = ["cp", "--verify", &there, &again, "--volume-key", &bed.key];
    let error = fail_at_length(&copy, 1);
    assert!(error.contains("disk of I/O server 1"), "{error}");
    let check = ["volume", "check", "--lost", &root, "--volume-key", &bed.key];
    let output = run(&check);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(
        String::from_utf8(output.stdout).unwrap(),
        format!("{there}\n")
    );
    bed.succeed(&["cp", "--verify", &file, &there]);
    assert_eq!(succeed(&check), "");
}

#[test]
fn servers_of_a_new_volume_start_in_any_order() {
    let mut bed = Bed::apart(2);
    bed.manager = None;
    succeed(&["volume", "extend", &bed.volume, "--io-servers", "1"]);
    // Files may be made to lie on a server that was never there.
    bed.start_manager();
    let there = bed.url("/file");
    // The file is made; its length is not known yet.
    let stripes = ["volume", "stripes", &there, "--servers", "2"];
    bed.fail(&[&stripes[..], &["--timeout", "1", "--log", "error"]].concat());
    bed.manager = None;
    bed.io_servers = vec![None, None, None];
    bed.start_io_server(2);
    bed.start_io_server(1);
    bed.start_io_server(0);
    bed.start_manager();
    let file = bed.place.text("file");
    fs::write(&file, bytes(3, 200_000)).unwrap();
    bed.succeed(&["cp", "--verify", &file, &there]);
    let shown = bed.succeed(&stripes[..3]);
    assert!(shown.contains("over 1 of 3 I/O servers: 2"), "{shown}");
    assert!(bed.place.path("volume/io/2/io-server.toml").exists());
}

/// The manager's host has no folders of I/O servers, and an administrator elsewhere has no folder at all.
#[test]
fn show_asks_the_servers_of_a_url() {
    let mut bed = Bed::apart(2);
    let url = bed.url("/");
    let text = bed.succeed(&["volume", "show", &url]);
    assert!(text.contains("64.0 KiB over 2 of 2 I/O servers"), "{text}");
    let text = bed.succeed(&["volume", "show", "--json", &url]);
    let shown: serde_json::Value = serde_json::from_str(&text).unwrap();
    let by_folder = succeed(&["volume", "show", "--json", &bed.volume]);
    let by_folder: serde_json::Value = serde_json::from_str(&by_folder).unwrap();
    for field in ["name", "stripe_unit_bytes", "stripe_width", "total_bytes"] {
        assert_eq!(shown[field], by_folder[field], "{field}");
    }
    bed.io_servers[1].take();
    let key = ["--volume-key", &bed.key];
    let output = run(&[&["volume", "show", &url][..], &key].concat());
    assert_eq!(output.status.code(), Some(1));
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(
        error.contains("1 of 2 I/O servers do not answer"),
        "{error}"
    );
    let text = String::from_utf8(output.stdout).unwrap();
    let line = text
        .lines()
        .find(|line| line.trim_start().starts_with("1 "))
        .unwrap();
    assert!(line.contains("does not answer"), "{text}");
}
