//! The disk of an I/O server is moved to another host, which is another folder here.

use super::Bed;
use crate::support::mount::must;
use crate::support::{Server, bytes, fail};
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

/// The end of a lease, and as long again for a slow machine.
const LEASE_ENDS: Duration = Duration::from_secs(60);

fn options<'a>(volume: &'a str, manager: &'a str) -> [&'a str; 8] {
    [
        "--volume",
        volume,
        "--role",
        "io-server=1",
        "--native",
        "127.0.0.1:0",
        "--manager",
        manager,
    ]
}

/// Reads the file, and compares it.
fn read(bed: &Bed, expected: &[u8]) {
    let back = bed.place.text("back");
    bed.succeed(&["cp", &bed.url("/file"), &back]);
    assert!(fs::read(&back).unwrap() == expected);
}

fn move_disk(from: &str, to: &str) {
    let moved = fs::rename(Path::new(from).join("io/1"), Path::new(to).join("io/1"));
    moved.unwrap();
}

#[test]
fn one_process_at_a_time_serves_a_disk_wherever_it_is() {
    let mut bed = Bed::apart(2);
    let (here, there) = (bed.volume.clone(), bed.place.text("there"));
    fs::create_dir_all(Path::new(&there).join("io")).unwrap();
    for name in ["volume.toml", "secret"] {
        let from = Path::new(&here).join(name);
        fs::copy(from, Path::new(&there).join(name)).unwrap();
    }
    let (file, contents) = (bed.place.text("file"), bytes(3, 200_000));
    fs::write(&file, &contents).unwrap();
    bed.succeed(&["cp", &file, &bed.url("/file")]);

    // A copy of the disk, while the first process serves it.
    let disk = |volume: &str| Path::new(volume).join("io/1");
    let mut copy = Command::new("cp");
    must(copy.arg("-a").arg(disk(&here)).arg(disk(&there)));
    let manager = bed.native.clone();
    let words = [&["serve", "--log", "error"][..], &options(&there, &manager)].concat();
    let refused = fail(&words, 1);
    for part in [
        "cannot start I/O server 1",
        "another process, at 127.0.0.1:",
        "stop that one",
    ] {
        assert!(refused.contains(part), "{refused}");
    }
    read(&bed, &contents);
    fs::remove_dir_all(disk(&there)).unwrap();

    // A process that was asked to end gives its number back.
    let mut first = bed.io_servers[1].take().unwrap();
    first.signal("TERM");
    assert!(first.wait().success());
    move_disk(&here, &there);
    let began = Instant::now();
    let moved = Server::with(&options(&there, &manager));
    read(&bed, &contents);
    let took = began.elapsed();
    assert!(took < Duration::from_secs(20), "{took:?}");

    // One that was killed does not, and might still run on its host.
    drop(moved);
    move_disk(&there, &here);
    let began = Instant::now();
    bed.start_io_server(1);
    read(&bed, &contents);
    let took = began.elapsed();
    assert!(took > Duration::from_secs(20), "{took:?}");
    assert!(took < LEASE_ENDS, "{took:?}");
}
