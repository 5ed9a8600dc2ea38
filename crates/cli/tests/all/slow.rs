//! Operations that took long, with where their time went: `--slow`, its log, `gannet trace`.

#![allow(clippy::unwrap_used)]

use super::admin::{ask, metric};
use crate::support;

use serde_json::Value;
use std::fs::File;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::Command;
use support::{FREE_PORT, Place, Server, bytes, fail, gannet, mount, succeed};

/// A server whose calls of `slow` for a disk take 200 ms longer each, as strace(1) has them.
fn with_slow_disk(place: &Place, options: &[&str]) -> Server {
    let mut command = Command::new("strace");
    // -D: the server stays this process's child.
    command.args(["-D", "-f", "-qq", "-o", "/dev/null"]);
    command.args(["-e", "trace=fsync,fdatasync,syncfs,sync_file_range"]);
    command.args(["-e", "inject=fsync,fdatasync,syncfs:delay_enter=200000"]);
    command.arg(support::binary());
    command.env_remove("GANNET_LOG");
    serve(command, place, options)
}

/// Serves the share by a command that begins with these words, with the log in a file.
fn serve(mut command: Command, place: &Place, options: &[&str]) -> Server {
    command.stderr(File::create(place.path("log")).unwrap());
    let (share, state) = (place.text("share"), place.text("state"));
    let listen = [
        "--nfs-tcp",
        FREE_PORT,
        "--nfs-rdma",
        FREE_PORT,
        "--state-dir",
        &state,
    ];
    Server::of_command(
        command,
        &[&listen[..], &[&share, "--no-root-squash"], options].concat(),
    )
}

pub(crate) fn strace_is_there() -> bool {
    let is_there = Command::new("strace").arg("-V").output().is_ok();
    if !is_there {
        gannet_testing::left_out("strace is not installed (apt-get install strace)");
    }
    is_there
}

fn plain(place: &Place, options: &[&str]) -> Server {
    serve(gannet(), place, options)
}

fn log(place: &Place) -> String {
    std::fs::read_to_string(place.path("log")).unwrap()
}

fn traced(admin: &str, options: &[&str]) -> Vec<Value> {
    let arguments = [&["trace", admin, "--once", "--json"], options].concat();
    let lines = succeed(&arguments);
    lines
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

fn copy_in_and_out(place: &Place, server: &Server) {
    let file = place.text("file");
    std::fs::write(&file, bytes(1, 3 << 20)).unwrap();
    for (number, url) in server.urls().iter().enumerate() {
        let there = format!("{url}/file-{number}");
        succeed(&["cp", &file, &there]);
        succeed(&["cp", &there, &place.text(&format!("back-{number}"))]);
    }
}

fn part(operation: &Value, name: &str) -> f64 {
    operation["parts"][name].as_f64().unwrap_or(0.0)
}

#[test]
fn the_parts_of_each_operation_add_up_to_it_on_both_transports() {
    let place = Place::new();
    let socket = place.text("admin");
    let server = plain(&place, &["--admin", &socket, "--slow", "1us"]);
    copy_in_and_out(&place, &server);
    let operations = traced(&socket, &[]);
    assert!(operations.len() > 20, "{operations:?}");
    for operation in &operations {
        let whole = operation["seconds"].as_f64().unwrap();
        let parts = operation["parts"].as_object().unwrap().values();
        let sum: f64 = parts.map(|part| part.as_f64().unwrap()).sum();
        assert!((sum - whole).abs() < 1e-6 && whole > 0.0, "{operation}");
        assert_eq!(operation["client"], "127.0.0.1", "{operation}");
    }
    for transport in ["tcp", "rdma"] {
        for procedure in ["READ", "WRITE", "COMMIT"] {
            let is_it = |it: &&Value| it["transport"] == transport && it["procedure"] == procedure;
            let found = operations.iter().find(is_it);
            let found = found.unwrap_or_else(|| panic!("no {procedure} over {transport}"));
            let subject = found["subject"].as_str().unwrap();
            assert!(
                subject.contains("export=\"/\"") && subject.contains(" offset="),
                "{found}"
            );
            assert!(part(found, "file_system") > 0.0, "{found}");
            // A WRITE of 1 MiB comes in pieces, and a READ of 1 MiB leaves in pieces.
            assert!(
                procedure == "COMMIT" || part(found, "wire") > 0.0,
                "{found}"
            );
        }
    }
    let counted = succeed(&["top", &socket, "--once", "--json", "--every", "0.1"]);
    assert!(counted.contains("READ"), "{counted}");
    assert!(log(&place).contains("slow operation"), "{}", log(&place));
}

#[test]
fn a_slow_disk_is_seen_as_the_part_that_took_long() {
    if !strace_is_there() {
        return;
    }
    let place = Place::new();
    let socket = place.text("admin");
    let server = with_slow_disk(&place, &["--admin", &socket, "--slow", "50ms"]);
    copy_in_and_out(&place, &server);
    let operations = traced(&socket, &[]);
    let commits = operations.iter().filter(|it| it["procedure"] == "COMMIT");
    let commits: Vec<&Value> = commits.collect();
    assert!(commits.len() >= 2, "{operations:?}");
    for commit in commits {
        let sync = part(commit, "sync");
        let whole = commit["seconds"].as_f64().unwrap();
        assert!(sync >= 0.2 && sync > 0.5 * whole, "{commit}");
    }
    let shown = succeed(&["trace", &socket, "--once"]);
    let line = shown
        .lines()
        .find(|line| line.contains(" COMMIT "))
        .unwrap();
    assert!(
        line.contains("127.0.0.1") && line.contains(" OK: sync="),
        "{line}"
    );
    let request = "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let metrics = ask(UnixStream::connect(&socket).unwrap(), request).2;
    let syncs = metric(&metrics, "gannet_directory_sync_seconds_count");
    let seconds = metric(&metrics, "gannet_directory_sync_seconds_sum");
    assert!(syncs >= 2.0 && seconds >= 0.2 * syncs, "{metrics}");
    let logged = log(&place);
    let line = logged.lines().find(|line| line.contains("COMMIT")).unwrap();
    assert!(
        line.contains("slow operation") && line.contains("sync "),
        "{line}"
    );
}

#[test]
fn a_reader_over_tcp_sees_neither_paths_nor_clients() {
    let place = Place::new();
    let server = plain(&place, &["--admin", FREE_PORT, "--slow", "1us"]);
    copy_in_and_out(&place, &server);
    let operations = traced(&server.admin, &[]);
    assert!(operations.len() > 20, "{operations:?}");
    for operation in &operations {
        assert!(
            operation["client"].is_null() && operation["subject"].is_null(),
            "{operation}"
        );
    }
    let refused = fail(&["trace", &server.admin, "--over", "1us"], 2);
    assert!(refused.contains("Unix socket"), "{refused}");
}

#[test]
fn a_watcher_names_a_bound_of_its_own_which_does_not_fill_the_log() {
    let place = Place::new();
    let socket = place.text("admin");
    let server = plain(&place, &["--admin", &socket]);
    copy_in_and_out(&place, &server);
    assert_eq!(traced(&socket, &[]), Vec::<Value>::new());
    assert_eq!(traced(&socket, &["--over", "1us"]), Vec::<Value>::new());
    copy_in_and_out(&place, &server);
    assert!(traced(&socket, &["--over", "1us"]).len() > 20);
    assert!(!log(&place).contains("slow operation"), "{}", log(&place));
}

#[test]
fn a_trace_goes_on_until_it_is_ended_and_shows_what_comes() {
    let place = Place::new();
    let socket = place.text("admin");
    let server = plain(&place, &["--admin", &socket, "--slow", "1us"]);
    let shown: PathBuf = place.path("shown");
    let mut tracing = gannet();
    tracing
        .args(["trace", &socket])
        .stdout(File::create(&shown).unwrap());
    let mut tracing = tracing.spawn().unwrap();
    for round in 0.. {
        assert!(round < 200 && tracing.try_wait().unwrap().is_none());
        copy_in_and_out(&place, &server);
        if std::fs::read_to_string(&shown)
            .unwrap()
            .contains(" COMMIT ")
        {
            break;
        }
    }
    tracing.kill().unwrap();
    tracing.wait().unwrap();
}

#[test]
fn a_mount_tells_that_its_program_waited_for_a_disk_elsewhere() {
    if mount::is_left_out() || !strace_is_there() {
        return;
    }
    let place = Place::new();
    let server = with_slow_disk(&place, &[]);
    let socket = place.text("mount-admin");
    let options = ["--admin", &socket, "--slow", "50ms"];
    let mounted = mount::Mount::of(&server.urls()[0], &place.path("mnt"), &options);
    let file = File::create(mounted.path("file")).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&file, &bytes(1, 100_000), 0).unwrap();
    file.sync_all().unwrap();
    let operations = traced(&socket, &[]);
    let fsync = operations.iter().find(|it| it["procedure"] == "FSYNC");
    let fsync = fsync.unwrap_or_else(|| panic!("{operations:?}"));
    // The COMMIT's way there and back, with the server's disk.
    assert!(part(fsync, "wire") >= 0.2, "{fsync}");
    // FUSE names the thread.
    let thread = rustix::thread::gettid().as_raw_nonzero();
    assert_eq!(fsync["subject"], format!("FSYNC pid={thread}"), "{fsync}");
    drop(file);
    mounted.unmount();
}
