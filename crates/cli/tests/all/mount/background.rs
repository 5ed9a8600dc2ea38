//! Mounts whose process stays in the background: by `gannet mount --background`, and as mount(8) asks for them.

use super::{Bed, fail, is_left_out, must};
use crate::support::gannet;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

/// The process that serves `directory`, if there is one.
fn process_of(directory: &Path) -> Option<PathBuf> {
    let directory = directory.to_str().unwrap();
    let processes = fs::read_dir("/proc").unwrap();
    let mut processes = processes.map(|entry| entry.unwrap().path());
    processes.find(|process| {
        let words = fs::read(process.join("cmdline")).unwrap_or_default();
        let words = String::from_utf8_lossy(&words);
        let holds = |wanted: &str| words.split('\0').any(|word| word == wanted);
        holds("--detached") && holds(directory)
    })
}

/// Unmounts, and waits until the process has ended.
fn unmount(directory: &Path) {
    must(Command::new("umount").arg(directory));
    let until = Instant::now() + Duration::from_secs(30);
    while process_of(directory).is_some() {
        assert!(Instant::now() < until, "the process stays");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// The line of the table of mounts about a directory.
fn mounted_on(directory: &Path) -> Option<String> {
    let table = fs::read_to_string("/proc/self/mounts").unwrap();
    let directory = directory.to_str().unwrap();
    let mut lines = table.lines();
    let line = lines.find(|line| line.split(' ').nth(1) == Some(directory));
    line.map(str::to_owned)
}

#[test]
fn the_command_returns_when_the_directory_is_mounted_and_another_process_serves_it() {
    if is_left_out() {
        return;
    }
    let bed = Bed::new();
    fs::write(bed.share("file"), "text").unwrap();
    let (mnt, log) = (bed.place.path("mnt"), bed.place.path("log"));
    fs::create_dir(&mnt).unwrap();
    let mut command = gannet();
    // Names that are relative hold although the process leaves the folder.
    command
        .current_dir(bed.place.path(""))
        .args(["mount", &bed.rdma()]);
    let said = must(
        command
            .arg(&mnt)
            .args(["--background", "--log-file", "log"]),
    );
    assert_eq!(
        said,
        format!("mounted {} at {}\n", bed.rdma(), mnt.display())
    );
    assert_eq!(fs::read_to_string(mnt.join("file")).unwrap(), "text");
    let process = process_of(&mnt).unwrap();
    assert_eq!(fs::read_link(process.join("cwd")).unwrap(), Path::new("/"));
    for stream in ["0", "1", "2"] {
        let target = fs::read_link(process.join("fd").join(stream)).unwrap();
        assert_eq!(target, Path::new("/dev/null"), "{stream}");
    }
    let stat = fs::read_to_string(process.join("stat")).unwrap();
    let (_, fields) = stat.rsplit_once(") ").unwrap();
    let session = fields.split(' ').nth(3).unwrap();
    assert_eq!(process.file_name().unwrap(), session, "it leads a session");
    unmount(&mnt);
    let lines = fs::read_to_string(log).unwrap();
    assert!(
        lines.contains("file locks hold among the programs"),
        "{lines}"
    );
}

#[test]
fn a_failure_is_one_line_and_nothing_stays() {
    let place = crate::support::Place::new();
    let directory = place.text("out");
    // No server has this port.
    let words = ["mount", "nfs://127.0.0.1:1/", &directory, "--background"];
    let log = place.text("log");
    let more = ["--timeout", "5", "--log-file", &log];
    let error = fail(&[&words[..], &more].concat(), 1);
    // Where FUSE cannot be used, that is what it says.
    assert!(
        error.contains("cannot connect") || error.contains("cannot mount"),
        "{error}"
    );
    assert!(process_of(Path::new(&directory)).is_none());
}

/// The binary by the name that mount(8) calls.
fn helper(place: &Path, words: &[&str]) -> Output {
    let program = place.join("mount.gannet");
    if !program.exists() {
        symlink(env!("CARGO_BIN_EXE_gannet"), &program).unwrap();
    }
    Command::new(program).args(words).output().unwrap()
}

#[test]
fn the_helper_of_mount_mounts_as_fstab_says() {
    if is_left_out() {
        return;
    }
    let bed = Bed::new();
    fs::write(bed.share("file"), "text").unwrap();
    let mnt = bed.place.path("mnt");
    fs::create_dir(&mnt).unwrap();
    let directory = mnt.to_str().unwrap();
    let (_, port) = bed.server.tcp.rsplit_once(':').unwrap();
    let log = bed.place.text("log");
    let options = format!(
        "ro,_netdev,noexec,user=root,x-systemd.automount,proto=tcp,port={port},log_file={log}"
    );
    let words = ["127.0.0.1:/", directory, "-o", &options, "-v"];
    let place = bed.place.path("");
    let checked = helper(&place, &[&words[..], &["-f"]].concat());
    assert!(checked.status.success() && mounted_on(&mnt).is_none());
    let mounted = helper(&place, &words);
    let error = String::from_utf8_lossy(&mounted.stderr);
    assert!(mounted.status.success() && error.is_empty(), "{error}");
    assert!(mounted.stdout.starts_with(b"mounted nfs://127.0.0.1:"));
    let line = mounted_on(&mnt).unwrap();
    assert!(line.starts_with("127.0.0.1:/ "), "{line}");
    let (_, flags) = line.split_once(" fuse.gannet ").unwrap();
    for flag in ["ro", "noexec", "nosuid", "nodev", "allow_other"] {
        let mut flags = flags.split([',', ' ']);
        assert!(flags.any(|one| one == flag), "{flag}: {line}");
    }
    assert_eq!(fs::read_to_string(mnt.join("file")).unwrap(), "text");
    let twice = helper(&place, &words);
    assert_eq!(twice.status.code(), Some(32));
    unmount(&mnt);
}

#[test]
fn the_helper_of_mount_has_the_exit_statuses_of_mount() {
    let place = crate::support::Place::new();
    let directory = place.text("out");
    for (spec, options, status, part) in [
        ("nfs://127.0.0.1/", "vers=3", 1, "`vers` cannot be used"),
        (
            "nfs://127.0.0.1/",
            "cache_age=soon",
            1,
            "see `mount.gannet --help`",
        ),
        ("127.0.0.1:/", "port=1,proto=tcp,timeout=5", 32, "cannot "),
    ] {
        let output = helper(&place.path(""), &[spec, &directory, "-o", options]);
        let error = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(status), "{error}");
        assert!(
            error.starts_with("gannet: ") && error.contains(part),
            "{error}"
        );
    }
}
