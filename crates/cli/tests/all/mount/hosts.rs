//! Two mounts of one volume, as two hosts have them: locks and appends hold for both.

use super::MODES;
use super::support::mount::{Mount, is_left_out};
use super::support::{Place, Server, succeed};
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::process::Command;
use std::time::Duration;

/// A volume with two I/O servers, and directories to mount it on.
struct TwoMounts {
    place: Place,
    volume: Server,
}

impl TwoMounts {
    fn new() -> TwoMounts {
        let place = Place::new();
        let volume = place.text("volume");
        succeed(&["volume", "create", &volume, "--io-servers", "2"]);
        let native = ["--native", "127.0.0.1:0"];
        let volume = Server::with(&[&["--volume", &volume][..], &native].concat());
        fs::create_dir(place.path("other")).unwrap();
        TwoMounts { place, volume }
    }

    /// Has `story` done with both mounts, cached and not.
    fn with_each(&self, story: impl Fn(&Mount, &Mount)) {
        let key = self.place.text("volume/client-key");
        let url = format!("gannet://{}/", self.volume.native);
        for mode in MODES {
            let options = [&["--volume-key", &key][..], mode].concat();
            let one = Mount::of(&url, &self.place.path("mnt"), &options);
            let other = Mount::of(&url, &self.place.path("other"), &options);
            story(&one, &other);
            one.unmount();
            other.unmount();
        }
    }
}

#[test]
fn a_file_locked_on_one_host_is_locked_on_the_other() {
    if is_left_out() {
        return;
    }
    TwoMounts::new().with_each(|one, other| {
        fs::write(one.path("locked"), "content").unwrap();
        let open = |mount: &Mount| File::open(mount.path("locked")).unwrap();
        let (here, there) = (open(one), open(other));
        here.lock().unwrap();
        assert!(there.try_lock().is_err(), "two hosts hold it");
        assert!(there.try_lock_shared().is_err());
        here.unlock().unwrap();
        there.try_lock_shared().unwrap();
        here.try_lock_shared().unwrap();
        assert!(here.try_lock().is_err(), "the other still shares it");
        // The last close ends a lock, also without an unlock.
        drop(there);
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| open(other).lock());
            drop(here);
            waits.join().unwrap().unwrap();
        });
        // The kernel tells the mount of a close when it gets to it.
        while open(one).try_lock().is_err() {
            std::thread::yield_now();
        }
    });
}

#[test]
fn a_program_that_waits_for_a_lock_can_be_interrupted() {
    if is_left_out() {
        return;
    }
    TwoMounts::new().with_each(|one, other| {
        fs::write(one.path("held"), "content").unwrap();
        let held = File::open(one.path("held")).unwrap();
        held.lock().unwrap();
        let mut waits = Command::new("flock");
        let Ok(mut waits) = waits.arg(other.path("held")).arg("true").spawn() else {
            return;
        };
        while !is_asleep_in_lock(waits.id()) {
            assert!(waits.try_wait().unwrap().is_none(), "it did not wait");
            std::thread::sleep(Duration::from_millis(20));
        }
        waits.kill().unwrap();
        assert!(!waits.wait().unwrap().success());
    });
}

/// Whether a process has come to its system call: flock(2) is number 73 where this runs.
fn is_asleep_in_lock(process: u32) -> bool {
    let call = fs::read_to_string(format!("/proc/{process}/syscall")).unwrap_or_default();
    call.starts_with("73 ") || !cfg!(target_arch = "x86_64")
}

#[test]
fn appends_of_two_hosts_in_turns_are_all_there() {
    if is_left_out() {
        return;
    }
    TwoMounts::new().with_each(|one, other| {
        let name = "log";
        fs::write(one.path(name), "").unwrap();
        let open = |mount: &Mount| {
            let mut options = OpenOptions::new();
            options.append(true).open(mount.path(name)).unwrap()
        };
        let (mut here, mut there) = (open(one), open(other));
        let mut expected = Vec::new();
        for turn in 0..40_u32 {
            // Short lines, and some that lie on both I/O servers.
            let len = if turn % 7 == 0 { 100_000 } else { 30 };
            let mut line = format!("{turn:08} ").into_bytes();
            line.resize(len, b'a' + (turn % 26) as u8);
            let file = if turn % 2 == 0 { &mut here } else { &mut there };
            file.write_all(&line).unwrap();
            file.sync_all().unwrap();
            expected.extend(line);
        }
        // The file shows what both have appended, without being opened anew.
        assert_eq!(there.metadata().unwrap().len() as usize, expected.len());
        drop((here, there));
        for mount in [one, other] {
            assert!(fs::read(mount.path(name)).unwrap() == expected);
        }
        fs::remove_file(one.path(name)).unwrap();
    });
}
