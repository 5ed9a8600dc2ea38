//! A volume that keeps each byte on two I/O servers, while one of them is killed and loses its disk.

#![allow(clippy::unwrap_used)]

mod under_load;

use crate::support;

use std::fs;
use std::time::{Duration, Instant};
use support::{FREE_PORT, Place, Server, bytes, fail, run, succeed};

/// How long a server may take to be filled.
const FILLING_TIME_MAX: Duration = Duration::from_secs(60);

struct Bed {
    place: Place,
    volume: String,
    key: String,
    manager: Server,
    io_servers: Vec<Option<Server>>,
}

impl Bed {
    /// A volume of four I/O servers, which is created with these options.
    fn new(options: &[&str]) -> Bed {
        let place = Place::new();
        let volume = place.text("volume");
        let create = ["volume", "create", &volume, "--io-servers", "4"];
        succeed(&[&create[..], options].concat());
        let manager = Server::with(&[
            "--volume", &volume, "--role", "manager", "--native", FREE_PORT,
        ]);
        let mut bed = Bed {
            key: place.text("volume/client-key"),
            place,
            volume,
            manager,
            io_servers: Vec::new(),
        };
        bed.io_servers = (0..4)
            .map(|number| Some(bed.io_server(number, &[])))
            .collect();
        bed
    }

    fn io_server(&self, number: usize, more: &[&str]) -> Server {
        let role = format!("io-server={number}");
        let words = ["--volume", &self.volume, "--role", &role];
        let places = ["--native", FREE_PORT, "--manager", &self.manager.native];
        Server::with(&[&words[..], &places, more].concat())
    }

    fn url(&self, name: &str) -> String {
        format!("gannet://{}/{name}", self.manager.native)
    }

    fn with_key(&self, words: &[&str]) -> String {
        succeed(&[words, &["--volume-key", &self.key]].concat())
    }

    /// Writes a file, and reads it back.
    fn write(&self, name: &str, seed: usize) {
        let file = self.place.text("local");
        fs::write(&file, bytes(seed, 3_000_000)).unwrap();
        self.with_key(&["cp", "--verify", &file, &self.url(name)]);
    }

    fn read(&self, name: &str, seed: usize) {
        let back = self.place.text("back");
        self.with_key(&["cp", &self.url(name), &back]);
        assert!(fs::read(&back).unwrap() == bytes(seed, 3_000_000), "{name}");
    }

    /// Waits until `volume status` finds all data twice, and finds nothing else.
    fn is_whole(&self) {
        self.shows("copies      2 of all data");
    }

    /// Waits until `volume status` finds nothing, and shows this of copies.
    fn shows(&self, copies: &str) {
        let url = self.url("");
        let words = ["volume", "status", &url, "--volume-key", &self.key];
        let until = Instant::now() + FILLING_TIME_MAX;
        loop {
            let status = run(&words);
            let text = String::from_utf8(status.stdout).unwrap();
            if status.status.success() {
                assert!(text.contains(copies), "{text}");
                return;
            }
            assert!(Instant::now() < until, "{text}");
        }
    }
}

#[test]
fn files_outlive_a_server_and_its_disk() {
    let mut bed = Bed::new(&["--copies", "2", "--same-host"]);
    bed.write("before", 1);
    bed.is_whole();
    bed.io_servers[1].take().unwrap().kill();
    bed.write("during", 2);
    bed.read("before", 1);
    let status = ["volume", "status", &bed.url(""), "--volume-key", &bed.key];
    let text = String::from_utf8(run(&status).stdout).unwrap();
    assert!(text.contains("8 of 16 groups lack one"), "{text}");
    // Its disk is gone.
    let folder = bed.place.path("volume/io/1");
    fs::remove_dir_all(&folder).unwrap();
    fs::create_dir(&folder).unwrap();
    bed.io_servers[1] = Some(bed.io_server(1, &["--lost-disk", "1"]));
    bed.is_whole();
    // Now the bytes that it was filled with count.
    for number in [0, 2] {
        bed.io_servers[number].take().unwrap().kill();
        bed.read("before", 1);
        bed.read("during", 2);
        bed.write("after", 3);
        bed.io_servers[number] = Some(bed.io_server(number, &[]));
        bed.is_whole();
    }
    bed.read("after", 3);
    let checked = bed.with_key(&["volume", "check", &bed.url("")]);
    assert!(checked.contains("0 findings"), "{checked}");
}

#[test]
fn a_served_volume_gets_copies_and_loses_them_again() {
    let mut bed = Bed::new(&[]);
    bed.write("before", 1);
    let url = bed.url("");
    let shown = bed.with_key(&["volume", "copies", &url]);
    assert_eq!(shown, "copies      1 of all data\n");
    // All I/O servers are on this host.
    let apart = ["volume", "copies", &url, "2", "--volume-key", &bed.key];
    let refused = fail(&apart, 1);
    assert!(refused.contains("--same-host"), "{refused}");
    let two = ["volume", "copies", &url, "2", "--same-host"];
    let stranger = ["--uid", "77777", "--volume-key", &bed.key];
    let refused = fail(&[&two[..], &stranger].concat(), 1);
    assert!(
        refused.contains("only root and the volume's owner"),
        "{refused}"
    );
    let changed = bed.with_key(&two);
    assert!(
        changed.contains("16 groups get a second member"),
        "{changed}"
    );
    bed.is_whole();
    for number in [0, 3] {
        bed.io_servers[number].take().unwrap().kill();
        bed.read("before", 1);
        bed.write("during", 2);
        bed.io_servers[number] = Some(bed.io_server(number, &[]));
        bed.is_whole();
    }
    let changed = bed.with_key(&["volume", "copies", &url, "1"]);
    assert!(changed.contains("16 second members are gone"), "{changed}");
    let shown = bed.with_key(&["volume", "copies", &url, "--json"]);
    assert!(shown.contains("\"copies\":1"), "{shown}");
    for (name, seed) in [("before", 1), ("during", 2)] {
        bed.read(name, seed);
    }
}

#[test]
fn a_directory_chooses_two_copies() {
    let mut bed = Bed::new(&[]);
    let (url, d) = (bed.url(""), bed.url("d"));
    bed.with_key(&["mkdir", &d]);
    let two = ["volume", "stripes", &d, "--copies", "2"];
    // All I/O servers are on this host.
    let refused = fail(&[&two[..], &["--volume-key", &bed.key]].concat(), 1);
    assert!(refused.contains("copies URL 1 --same-host"), "{refused}");
    bed.with_key(&["volume", "copies", &url, "1", "--same-host"]);
    let shown = bed.with_key(&two);
    assert!(shown.contains("of 4 I/O servers, 2 copies\n"), "{shown}");
    let chosen = "copies      1, and 2 where a directory chose so\n";
    bed.shows(chosen);
    bed.write("d/kept", 1);
    bed.write("plain", 2);
    let shown = bed.with_key(&["volume", "stripes", &bed.url("d/kept"), "--json"]);
    assert!(shown.contains("\"copies\":2"), "{shown}");
    let shown = bed.with_key(&["volume", "stripes", &bed.url("plain")]);
    assert!(!shown.contains("cop"), "{shown}");
    for number in 0..4 {
        bed.io_servers[number].take().unwrap().kill();
        bed.read("d/kept", 1);
        bed.write("d/during", 3);
        bed.io_servers[number] = Some(bed.io_server(number, &[]));
        bed.shows(chosen);
    }
    // What it chose stays when the volume gets another number.
    let one = ["volume", "stripes", &bed.url("single"), "--copies", "1"];
    bed.with_key(&one);
    let changed = bed.with_key(&["volume", "copies", &url, "2"]);
    assert!(
        changed.contains("16 groups get a second member"),
        "{changed}"
    );
    bed.shows("copies      2, and 1 where a directory chose so\n");
    let shown = bed.with_key(&["volume", "heal", &url]);
    assert_eq!(shown, "all data have their copies\n");
    let shown = bed.with_key(&["volume", "stripes", &bed.url("single"), "--json"]);
    assert!(shown.contains("\"copies\":1"), "{shown}");
    let changed = bed.with_key(&["volume", "copies", &url, "1"]);
    assert!(changed.contains("16 second members are gone"), "{changed}");
    bed.shows(chosen);
    let checked = bed.with_key(&["volume", "check", &url, "--repair"]);
    assert!(!checked.contains("missing"), "{checked}");
    bed.read("d/kept", 1);
    bed.read("plain", 2);
    let shown = bed.with_key(&["volume", "stripes", &d, "--default"]);
    assert!(shown.contains("(as the volume says)"), "{shown}");
    // Servers that are added get groups for the choice, too.
    bed.io_servers.clear();
    bed.manager.kill();
    succeed(&["volume", "extend", &bed.volume, "--io-servers", "1"]);
    let server = Server::with(&["--volume", &bed.volume, "--native", FREE_PORT]);
    let url = |name: &str| format!("gannet://{}/{name}", server.native);
    let two = ["--copies", "2", "--servers", "4"];
    bed.with_key(&[&["volume", "stripes", &url("new")], &two[..]].concat());
    let shown = bed.with_key(&["volume", "stripes", &url("new"), "--json"]);
    assert!(shown.contains("\"io_servers\":[4],\"copies\":2"), "{shown}");
}

#[test]
fn what_lacks_a_copy_is_listed_and_an_older_copy_can_be_accepted() {
    let mut bed = Bed::new(&["--copies", "2", "--same-host"]);
    bed.write("before", 1);
    bed.is_whole();
    let url = bed.url("");
    let heal = ["volume", "heal", &url, "--volume-key", &bed.key];
    assert_eq!(succeed(&heal), "all data have their copies\n");
    bed.io_servers[1].take().unwrap().kill();
    bed.write("before", 2);
    let healed = run(&heal);
    let text = String::from_utf8(healed.stdout).unwrap();
    assert!(
        text.contains("I/O server 1 does not answer: start it"),
        "{text}"
    );
    assert!(text.contains(&bed.url("before")), "{text}");
    assert!(
        !healed.status.success() && !text.contains("--accept-stale"),
        "{text}"
    );
    // The only servers with what was written meanwhile are gone for good.
    for number in [0, 2, 3] {
        bed.io_servers[number].take().unwrap().kill();
        let folder = bed.place.path(&format!("volume/io/{number}"));
        // Another disk: a folder that is made at once has another inode than the one that it replaces.
        let other = bed.place.path(&format!("volume/io/other-{number}"));
        fs::create_dir(&other).unwrap();
        fs::remove_dir_all(&folder).unwrap();
        fs::rename(&other, &folder).unwrap();
    }
    bed.io_servers[1] = Some(bed.io_server(1, &[]));
    for number in [0, 2, 3] {
        let lost = number.to_string();
        bed.io_servers[number] = Some(bed.io_server(number, &["--lost-disk", &lost]));
    }
    let until = Instant::now() + FILLING_TIME_MAX;
    loop {
        let text = String::from_utf8(run(&heal).stdout).unwrap();
        // Each server says for itself, and again after each change of a group, that it has lost its disk.
        if text.matches("I/O server 1 has older data").count() == 8 {
            assert!(text.contains("--accept-stale"), "{text}");
            break;
        }
        assert!(Instant::now() < until, "{text}");
    }
    let stranger = fail(
        &[&heal[..], &["--accept-stale", "--uid", "77777"]].concat(),
        1,
    );
    assert!(
        stranger.contains("only root and the volume's owner"),
        "{stranger}"
    );
    let accepted = run(&[&heal[..], &["--accept-stale"]].concat());
    // Other groups have lost both of their disks.
    assert!(!accepted.status.success());
    let accepted = String::from_utf8(accepted.stdout).unwrap();
    assert!(
        accepted.contains("8 groups have their older data from now on"),
        "{accepted}"
    );
}

#[test]
fn copies_are_in_different_zones() {
    let zones = ["--zones", "a,a,b,b", "--min-copies", "2"];
    let mut bed = Bed::new(&[&["--copies", "2"], &zones[..]].concat());
    bed.write("before", 1);
    let shown = bed.with_key(&["volume", "copies", &bed.url("")]);
    assert_eq!(shown, "copies      2 of all data; writes wait for both\n");
    bed.is_whole();
    // A whole zone goes away.
    for number in [2, 3] {
        bed.io_servers[number].take().unwrap().kill();
    }
    bed.read("before", 1);
    drop(bed.io_servers);
    bed.manager.kill();
    // What is added has a zone, too.
    let extend = ["volume", "extend", &bed.volume, "--io-servers", "2"];
    let refused = fail(&[&extend[..], &["--zones", "a"]].concat(), 2);
    assert!(
        refused.contains("1 zones are given for 2 I/O servers"),
        "{refused}"
    );
    succeed(&[&extend[..], &["--zones", "a,b"]].concat());
    let described = fs::read_to_string(bed.place.path("volume/volume.toml")).unwrap();
    assert_eq!(described.matches("zone = \"b\"").count(), 3, "{described}");
}

#[test]
fn copies_in_one_zone_are_reported() {
    let mut bed = Bed::new(&["--copies", "2", "--zones", "a,a,b,b"]);
    bed.is_whole();
    bed.io_servers.clear();
    bed.manager.kill();
    let file = bed.place.path("volume/volume.toml");
    let described = fs::read_to_string(&file).unwrap();
    fs::write(&file, described.replace("zone = \"b\"", "zone = \"a\"")).unwrap();
    let words = ["--volume", &bed.volume, "--native", FREE_PORT];
    let server = Server::with(&words);
    let url = format!("gannet://{}/", server.native);
    let status = ["volume", "status", &url, "--volume-key", &bed.key];
    let text = String::from_utf8(run(&status).stdout).unwrap();
    assert!(text.contains("16 groups have both copies"), "{text}");
    let allow = [
        "volume",
        "copies",
        &url,
        "2",
        "--same-host",
        "--volume-key",
        &bed.key,
    ];
    succeed(&allow);
    let text = String::from_utf8(run(&status).stdout).unwrap();
    assert!(!text.contains("have both copies"), "{text}");
}

#[test]
fn copies_on_one_host_must_be_asked_for() {
    let place = Place::new();
    let volume = place.text("volume");
    let create = ["volume", "create", &volume, "--copies", "2"];
    let two = ["--io-servers", "2"];
    let refused = fail(&[&create[..], &two].concat(), 2);
    assert!(refused.contains("--same-host"), "{refused}");
    let refused = fail(&[&create[..], &["--same-host"]].concat(), 1);
    assert!(refused.contains("two I/O servers"), "{refused}");
}
