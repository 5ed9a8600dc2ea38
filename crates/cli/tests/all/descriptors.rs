//! Servers of more objects than they may have open files.

#![allow(clippy::unwrap_used)]

use crate::support;

use std::fs;
use std::path::Path;
use support::{Place, Server, assert_same, bytes, limited, succeed};

/// The number of files that a process may have open here: fewer than a tree has.
const FILES: u32 = 700;

/// More files than that, each on two I/O servers of a volume.
fn tree(place: &Place, name: &str) -> String {
    let tree = place.path(name);
    fs::create_dir(&tree).unwrap();
    for number in 0..800 {
        fs::write(tree.join(number.to_string()), bytes(number, 70_000)).unwrap();
    }
    place.text(name)
}

/// Half of them are kept open; beside those there are some for sockets and the like. The kernel never refused one.
fn assert_half(server: &Server, log: &Path) {
    assert_eq!(fs::read_to_string(log).unwrap(), "");
    let open = fs::read_dir(format!("/proc/{}/fd", server.pid())).unwrap();
    let open = open.count();
    assert!(open < FILES as usize * 3 / 4, "{open} are open");
}

#[test]
fn the_io_servers_of_a_process_share_its_descriptors() {
    let place = Place::new();
    let (tree, volume) = (tree(&place, "tree"), place.text("volume"));
    succeed(&["volume", "create", &volume, "--io-servers", "4"]);
    let listen = ["--native", "127.0.0.1:0", "--nfs-tcp", "127.0.0.1:0"];
    let words = ["--volume", &volume, "--nfs-rdma", "off"];
    let log = place.path("log");
    let server = Server::limited(FILES, &log, &[&words[..], &listen].concat());
    let (url, key) = (
        format!("gannet://{}/", server.native),
        format!("{volume}/client-key"),
    );
    let there = format!("{url}tree");
    succeed(&["cp", "-r", "--verify", &tree, &there, "--volume-key", &key]);
    succeed(&[
        "cp",
        "-r",
        &there,
        &place.text("back"),
        "--volume-key",
        &key,
    ]);
    assert_same(&place.path("tree"), &place.path("back"));
    assert!(succeed(&["ls", &server.urls()[0]]).contains("tree"));
    assert_half(&server, &log);
}

#[test]
fn the_exports_of_a_process_share_its_descriptors() {
    let place = Place::new();
    let mut config = String::new();
    for name in ["one", "two", "three"] {
        let path = tree(&place, name);
        config += &format!("[[export]]\npath = \"{path}\"\nname = \"/{name}\"\n");
    }
    fs::write(place.path("config.toml"), config).unwrap();
    let listen = ["--nfs-tcp", "127.0.0.1:0", "--nfs-rdma", "off"];
    let rest = [
        "--config",
        &place.text("config.toml"),
        "--state-dir",
        &place.text("state"),
    ];
    let log = place.path("log");
    let server = Server::limited(FILES, &log, &[&listen[..], &rest].concat());
    for name in ["one", "two", "three"] {
        let from = format!("{}/{name}", server.urls()[0]);
        succeed(&["cp", "-r", &from, &place.text("back")]);
        assert_same(&place.path(name), &place.path("back"));
        fs::remove_dir_all(place.path("back")).unwrap();
        assert_half(&server, &log);
    }
}

#[test]
fn too_few_are_refused_at_the_start() {
    let place = Place::new();
    let volume = place.text("volume");
    succeed(&["volume", "create", &volume, "--io-servers", "4"]);
    let output = limited(400)
        .args([
            "serve",
            "--log",
            "error",
            "--volume",
            &volume,
            "--native",
            "127.0.0.1:0",
        ])
        .args(["--nfs-tcp", "off", "--nfs-rdma", "off"])
        .output()
        .unwrap();
    let error = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{error}");
    let said = "gannet: cannot start the I/O servers: 400 open files are too few (raise the hard limit to 512 at least";
    assert!(error.starts_with(said), "{error}");
}
