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
    fn new() -> Bed {
        let place = Place::new();
        let volume = place.text("volume");
        let copies = ["--copies", "2", "--same-host"];
        let create = ["volume", "create", &volume, "--io-servers", "4"];
        succeed(&[&create[..], &copies].concat());
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
        let file = self.place.text(name);
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
        let url = self.url("");
        let words = ["volume", "status", &url, "--volume-key", &self.key];
        let until = Instant::now() + FILLING_TIME_MAX;
        loop {
            let status = run(&words);
            let text = String::from_utf8(status.stdout).unwrap();
            if status.status.success() {
                assert!(text.contains("copies      2 of all data"), "{text}");
                return;
            }
            assert!(Instant::now() < until, "{text}");
        }
    }
}

#[test]
fn files_outlive_a_server_and_its_disk() {
    let mut bed = Bed::new();
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
