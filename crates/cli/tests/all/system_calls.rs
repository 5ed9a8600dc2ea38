//! The system calls of an operation at the server, counted by strace(1).

#![allow(clippy::unwrap_used)]

mod counted;

use super::slow::strace_is_there;
use crate::support;

use std::fs::Permissions;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::Path;
use std::process::Command;
use support::{FREE_PORT, Place, Server, succeed};

/// A user who calls nothing.
const OTHER: u32 = 54_321;

/// The system calls of these names that a server makes for each WRITE of a benchmark, which has one under way. The
/// files belong to the caller, or to another user who lets everybody write.
fn calls_of_a_write<const N: usize>(names: [&str; N], of_caller: bool) -> [f64; N] {
    let place = Place::new();
    let (share, state, calls) = (
        place.text("share"),
        place.text("state"),
        place.text("calls"),
    );
    let mut command = Command::new("strace");
    let traced = format!("trace=pwrite64,{}", names.join(","));
    // -D: the server stays this process's child.
    command.args(["-D", "-f", "-qq", "-o", &calls, "-e", &traced]);
    command.arg(support::binary()).env_remove("GANNET_LOG");
    let listen = ["--nfs-tcp", FREE_PORT, "--nfs-rdma", FREE_PORT];
    let options = [
        &share,
        "--no-root-squash",
        "--cores",
        "1",
        "--state-dir",
        &state,
    ];
    let server = Server::of_command(command, &[&listen[..], &options].concat());
    let url = server.urls()[0].clone();
    let write = ["--op", "write", "--record", "4K", "--size", "1M"];
    let long = ["--threads", "1", "--seconds", "4"];
    let bench = std::thread::spawn(move || {
        succeed(&[&["bench", &url], &write[..], &long].concat());
    });
    while !bench.is_finished() {
        if !of_caller {
            give_away(Path::new(&share));
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    bench.join().unwrap();
    let calls = std::fs::read_to_string(&calls).unwrap();
    let count = |name: &str| {
        let call = format!(" {name}(");
        calls.lines().filter(|line| line.contains(&call)).count() as f64
    };
    let writes = count("pwrite64");
    // Fewer would let the calls of the set-up count; a busy machine makes some dozens a second.
    assert!(writes >= 64.0, "{writes} WRITEs");
    names.map(|name| count(name) / writes)
}

/// Gives the files of a benchmark to another user, unless they are gone meanwhile.
fn give_away(share: &Path) {
    let directories = std::fs::read_dir(share).unwrap().flatten();
    let files = directories.filter_map(|directory| std::fs::read_dir(directory.path()).ok());
    for file in files.flatten().flatten() {
        // The benchmark removes them at its end.
        let _ = std::fs::set_permissions(file.path(), Permissions::from_mode(0o666));
        let _ = chown(file.path(), Some(OTHER), None);
    }
}

#[test]
fn a_write_asks_for_one_right_and_that_of_its_owner_for_none() {
    if !strace_is_there() {
        return;
    }
    let names = ["faccessat2", "fstat", "statx"];
    let [asked, fstat, statx] = calls_of_a_write(names, true);
    let looked = fstat + statx;
    assert!(asked < 0.1, "{asked} faccessat2 a WRITE of the owner");
    // Before and behind the WRITE, for its weak cache consistency data.
    assert!(
        (1.9..2.2).contains(&looked),
        "{looked} fstat and statx a WRITE"
    );
    // A server that is not root acts as one user, and cannot give files away.
    if gannet_testing::is_root() {
        let [asked, fstat, statx] = calls_of_a_write(names, false);
        let looked = fstat + statx;
        assert!((0.5..1.1).contains(&asked), "{asked} faccessat2 a WRITE");
        assert!(
            (1.9..2.2).contains(&looked),
            "{looked} fstat and statx a WRITE"
        );
    }
}
