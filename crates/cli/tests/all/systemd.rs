//! A server as a service of systemd: the test listens in its place, and stops a core.

#![allow(clippy::unwrap_used)]

use crate::support;

use nix::sys::ptrace;
use nix::sys::wait::{WaitPidFlag, waitpid};
use nix::unistd::Pid;
use std::fs;
use std::os::unix::net::UnixDatagram;
use std::time::{Duration, Instant};
use support::{FREE_PORT, Place, Server, gannet};

/// Half of it is longer than a server waits for a core.
const WATCHDOG: Duration = Duration::from_secs(3);

/// The next notification; `None` if there is none within this time.
fn next(systemd: &UnixDatagram, within: Duration) -> Option<String> {
    systemd.set_read_timeout(Some(within)).unwrap();
    let mut state = [0; 64];
    let length = systemd.recv(&mut state).ok()?;
    Some(String::from_utf8(state[..length].to_vec()).unwrap())
}

/// The thread of a server's first core.
fn core_thread(server: &Server) -> Pid {
    let tasks = fs::read_dir(format!("/proc/{}/task", server.pid())).unwrap();
    let tasks = tasks.map(|task| task.unwrap().path());
    let is_core = |path: &std::path::PathBuf| {
        fs::read_to_string(path.join("comm")).unwrap().trim() == "core-0"
    };
    let path = tasks.into_iter().find(is_core).unwrap();
    let name = path.file_name().unwrap().to_str().unwrap();
    Pid::from_raw(name.parse().unwrap())
}

#[test]
fn the_watchdog_hears_of_a_server_while_every_core_answers() {
    let place = Place::new();
    let socket = place.path("notify");
    let systemd = UnixDatagram::bind(&socket).unwrap();
    let mut command = gannet();
    command.env("NOTIFY_SOCKET", &socket);
    command.env("WATCHDOG_USEC", WATCHDOG.as_micros().to_string());
    let share = place.text("share");
    let arguments = [&*share, "--cores", "2", "--admin", FREE_PORT];
    let addresses = ["--nfs-tcp", FREE_PORT, "--nfs-rdma", FREE_PORT];
    let mut server = Server::of_command(command, &[&arguments[..], &addresses].concat());
    let second = Duration::from_secs(1);
    let ready = next(&systemd, second);
    assert_eq!(ready.as_deref(), Some("READY=1\nSTATUS=serves"));
    assert_eq!(next(&systemd, second).as_deref(), Some("WATCHDOG=1"));
    let began = Instant::now();
    assert_eq!(next(&systemd, WATCHDOG).as_deref(), Some("WATCHDOG=1"));
    assert!(began.elapsed() < WATCHDOG * 3 / 4, "{:?}", began.elapsed());

    // One thread of the process stops, as one does that waits for a disk.
    let core = core_thread(&server);
    ptrace::seize(core, ptrace::Options::empty()).unwrap();
    ptrace::interrupt(core).unwrap();
    waitpid(core, Some(WaitPidFlag::__WALL)).unwrap();
    assert_eq!(next(&systemd, WATCHDOG), None);
    let (status, _, why) = super::admin::get(&server, "/health");
    assert!(status.ends_with("503 Service Unavailable"), "{status}");
    assert!(why.contains("cores [0] did not answer"), "{why}");
    ptrace::detach(core, None).unwrap();
    assert_eq!(next(&systemd, 3 * second).as_deref(), Some("WATCHDOG=1"));

    server.signal("TERM");
    let mut last = next(&systemd, second);
    while last.as_deref() == Some("WATCHDOG=1") {
        last = next(&systemd, second);
    }
    assert_eq!(last.as_deref(), Some("STOPPING=1"));
    assert!(server.wait().success());
}
