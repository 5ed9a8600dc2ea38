//! `-` for standard input and output.

#![allow(clippy::unwrap_used)]

use crate::support::{Place, Server, bytes, fail, gannet, run, succeed};
use std::fs;
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::process::{Child, Output, Stdio};
use std::time::{Duration, Instant};

fn begin(words: &[&str]) -> Child {
    let mut command = gannet();
    command.args(words).stdin(Stdio::piped());
    command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Runs a command on `input`.
fn feed(words: &[&str], input: &[u8]) -> Output {
    let mut child = begin(words);
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(input).unwrap();
    drop(stdin);
    child.wait_with_output().unwrap()
}

#[test]
fn streams_go_in_and_out_unchanged() {
    let place = Place::new();
    let server = Server::of(&place.path("share"), &place.path("state"));
    for url in server.urls() {
        for (name, len) in [("empty", 0), ("short", 5), ("long", (5 << 20) + 17)] {
            let (there, content) = (format!("{url}/{name}"), bytes(len, len));
            let copied = feed(&["cp", "-", &there], &content);
            assert!(copied.status.success(), "{copied:?}");
            assert!(copied.stdout.is_empty() && copied.stderr.is_empty());
            let file = place.path("share").join(name);
            assert!(fs::read(&file).unwrap() == content, "{name}");
            let back = run(&["cp", &there, "-"]);
            assert!(back.status.success() && back.stderr.is_empty());
            assert!(back.stdout == content, "{name}");
            assert_eq!(run(&["cat", &there]).stdout.len(), len);
        }
    }
    assert_eq!(fs::read_dir(place.path("share")).unwrap().count(), 3);
}

#[test]
fn a_new_file_has_the_mode_of_the_umask_and_an_old_one_keeps_its_own() {
    let place = Place::new();
    let server = Server::of(&place.path("share"), &place.path("state"));
    let url = format!("{}/file", server.urls()[0]);
    let file = place.path("share/file");
    let mode = || fs::metadata(&file).unwrap().mode() & 0o7777;
    fs::write(place.path("plain"), b"").unwrap();
    let usual = fs::metadata(place.path("plain")).unwrap().mode() & 0o7777;
    assert!(feed(&["cp", "-", &url], b"one").status.success());
    assert_eq!(mode(), usual);
    let other = std::os::unix::fs::PermissionsExt::from_mode(0o640);
    fs::set_permissions(&file, other).unwrap();
    assert!(feed(&["cp", "-", &url], b"two").status.success());
    assert_eq!((mode(), fs::read(&file).unwrap()), (0o640, b"two".to_vec()));
}

#[test]
fn streams_refuse_recursion_verification_and_several_sources() {
    let place = Place::new();
    let server = Server::of(&place.path("share"), &place.path("state"));
    let url = server.urls()[0].clone();
    let file = format!("{url}/file");
    fs::write(place.path("share/file"), b"content").unwrap();
    for (words, code, why) in [
        (&["-", &file, "-r"][..], 2, "leave out -r"),
        (&[&file, "-", "-r"], 2, "leave out -r"),
        (&["-", &file, "--verify"], 2, "leave out --verify"),
        (&[&file, "-", "--verify"], 2, "leave out --verify"),
        (&["-", &file, &url], 2, "it is the only source"),
        (&[&file, &file, "-"], 2, "`gannet cat`"),
        (&["-", "-"], 2, "neither is on a server"),
        (&["-", &url], 1, "it names a directory"),
        (&["-", &format!("{url}/new/")], 1, "it names a directory"),
        (&["-", &format!("{url}/new/file")], 1, "does not exist"),
        (&[&url, "-"], 1, "`gannet ls`"),
        (&[&format!("{url}/none"), "-"], 1, "no such file"),
    ] {
        let error = fail(&[&["cp"], words].concat(), code);
        assert!(error.contains(why), "{words:?}: {error}");
    }
    assert_eq!(fs::read(place.path("share/file")).unwrap(), b"content");
    assert_eq!(succeed(&["ls", "-a", &url]), "file\n");
}

/// Waits until `has_come` holds.
fn wait_for(mut has_come: impl FnMut() -> bool) {
    let began = Instant::now();
    while !has_come() {
        assert!(began.elapsed() < Duration::from_secs(300));
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_stream_takes_little_memory_and_leaves_nothing_when_it_is_interrupted() {
    let place = Place::new();
    let server = Server::of(&place.path("share"), &place.path("state"));
    let mut child = begin(&["cp", "-", &format!("{}/file", server.urls()[1])]);
    let mut stdin = child.stdin.take().unwrap();
    let block = bytes(1, 1 << 20);
    for _ in 0..256 {
        stdin.write_all(&block).unwrap();
    }
    let status = fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let peak = peak.unwrap().trim().trim_end_matches(" kB");
    let peak: u64 = peak.parse().unwrap();
    assert!(peak < 160 << 10, "{peak} KiB for 256 MiB");
    let names = || {
        let entries = fs::read_dir(place.path("share")).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names.collect::<Vec<_>>()
    };
    wait_for(|| names().iter().any(|name| name.starts_with(".gannet-cp-")));
    // The input is open, and a read of it under way.
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    wait_for(|| child.try_wait().unwrap().is_some());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(error.contains("interrupted by SIGTERM"), "{error}");
    assert!(names().is_empty(), "{:?}", names());
}

#[test]
fn a_closed_standard_output_ends_the_copy_without_an_error() {
    let place = Place::new();
    let server = Server::of(&place.path("share"), &place.path("state"));
    fs::write(place.path("share/file"), bytes(1, 16 << 20)).unwrap();
    for command in [&["cp"][..], &["cat"]] {
        let url = format!("{}/file", server.urls()[0]);
        let target = ["-"];
        let target = &target[..usize::from(command == ["cp"])];
        let mut child = begin(&[command, &[&url], target].concat());
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(0));
        assert!(output.stderr.is_empty(), "{output:?}");
    }
}
