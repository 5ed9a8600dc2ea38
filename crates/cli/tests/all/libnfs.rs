//! Debian's libnfs tools, a client that shares no code with Gannet, on a served tree.
//!
//! Where they are not installed the test is left out.

#![allow(clippy::unwrap_used)]

use crate::support;

use std::fs;
use std::process::Command;
use support::{Place, Server, make_tree};

fn tools_are_there() -> bool {
    let found = Command::new("nfs-ls").output().is_ok();
    if !found {
        gannet_testing::left_out(
            "the libnfs tools are not installed (apt-get install libnfs-utils)",
        );
    }
    found
}

/// Runs one of the tools, which must succeed; its standard output.
fn tool(name: &str, arguments: &[&str]) -> Vec<u8> {
    let output = Command::new(name).args(arguments).output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{name} {arguments:?}: {error}");
    output.stdout
}

#[test]
fn libnfs_lists_reads_and_writes_a_served_tree() {
    if !tools_are_there() {
        return;
    }
    let place = Place::new();
    make_tree(&place.path("share/tree"), 30);
    let server = Server::of(&place.path("share"), &place.path("state"));
    let port = server.tcp.rsplit(':').next().unwrap();
    // libnfs wants a double slash where the root itself is exported.
    let url =
        |path: &str| format!("nfs://127.0.0.1//{path}?nfsport={port}&mountport={port}&version=3");
    let listed = String::from_utf8(tool("nfs-ls", &["-R", &url("tree")])).unwrap();
    for name in ["large", "link", "sparse", "file-29"] {
        assert!(listed.contains(name), "{listed}");
    }
    let large = place.path("share/tree/a/large");
    assert!(tool("nfs-cat", &[&url("tree/a/large")]) == fs::read(&large).unwrap());
    tool("nfs-cp", &[large.to_str().unwrap(), &url("written")]);
    assert!(fs::read(place.path("share/written")).unwrap() == fs::read(&large).unwrap());
    let out = place.path("out/read");
    tool("nfs-cp", &[&url("written"), out.to_str().unwrap()]);
    assert!(fs::read(out).unwrap() == fs::read(&large).unwrap());
}
