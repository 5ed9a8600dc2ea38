//! Files that several users or programs of one machine share through a mount.

use super::MODES;
use super::support::mount::{Mount, is_left_out};
use super::support::{Place, Server, succeed};
use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// A user other than root, who owns no file.
const USER: u32 = 54_321;
/// A group of that user.
const TEAM: u32 = 54_400;

/// An export and a volume, and a directory to mount them on.
struct Shares {
    place: Place,
    export: Server,
    volume: Server,
}

impl Shares {
    fn new() -> Shares {
        let place = Place::new();
        fs::set_permissions(place.path(""), Permissions::from_mode(0o755)).unwrap();
        let export = Server::of(&place.path("share"), &place.path("state"));
        let volume = place.text("volume");
        succeed(&["volume", "create", &volume, "--io-servers", "2"]);
        let ports = ["--nfs-tcp", "127.0.0.1:0", "--nfs-rdma", "127.0.0.1:0"];
        let native = ["--native", "127.0.0.1:0", "--no-root-squash"];
        let volume = Server::with(&[&["--volume", &volume][..], &ports, &native].concat());
        Shares {
            place,
            export,
            volume,
        }
    }

    /// Has `story` done with each of them mounted, cached and not, for all users.
    fn with_each(&self, story: impl Fn(&Mount, &str)) {
        let key = self.place.text("volume/client-key");
        let sources: [(String, &[&str]); 2] = [
            (format!("nfs+rdma://{}/", self.export.rdma), &[]),
            (
                format!("gannet://{}/", self.volume.native),
                &["--volume-key", &key],
            ),
        ];
        for (url, with_key) in sources {
            for mode in MODES {
                let options = [with_key, mode, &["--allow-other"]].concat();
                let mount = Mount::of(&url, &self.place.path("mnt"), &options);
                story(&mount, &format!("{url} {mode:?}"));
                mount.unmount();
            }
        }
    }
}

/// Has a member of the team, not root, run a script in the mounted directory.
fn by_member(mount: &Mount, script: &str) -> Output {
    let mut shell = Command::new("sh");
    shell.args(["-ec", script]).current_dir(mount.path(""));
    shell.uid(USER).gid(TEAM).stdin(Stdio::null());
    shell.output().unwrap()
}

#[test]
fn a_group_member_rewrites_cuts_and_touches_a_file_of_another_owner() {
    if is_left_out() {
        return;
    }
    let shares = Shares::new();
    shares.with_each(|mount, how| {
        let shared = mount.path("shared");
        fs::write(&shared, "what was there before").unwrap();
        fs::write(mount.path("new"), "copied").unwrap();
        chown(&shared, None, Some(TEAM)).unwrap();
        fs::set_permissions(&shared, Permissions::from_mode(0o664)).unwrap();
        let long_ago = fs::FileTimes::new().set_modified(std::time::UNIX_EPOCH);
        let set_back = || {
            let file = fs::File::options().write(true).open(&shared).unwrap();
            file.set_times(long_ago).unwrap();
        };
        for (script, content) in [
            ("echo x > shared", "x\n"),
            ("truncate -s 1 shared", "x"),
            ("cp new shared", "copied"),
            ("touch shared", "copied"),
            ("echo more >> shared", "copiedmore\n"),
        ] {
            set_back();
            let output = by_member(mount, script);
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{script}: {said} {how}");
            assert_eq!(fs::read_to_string(&shared).unwrap(), content, "{how}");
            let age = fs::metadata(&shared).unwrap().mtime();
            assert!(age > 1_000_000, "{script} leaves the time alone, {how}");
        }
        for script in ["touch -d 2001-01-01 shared", "chmod 600 shared"] {
            assert!(!by_member(mount, script).status.success(), "{script} {how}");
        }
        assert_eq!(fs::read_to_string(&shared).unwrap(), "copiedmore\n");
        fs::set_permissions(&shared, Permissions::from_mode(0o644)).unwrap();
        for script in ["echo y > shared", "truncate -s 0 shared", "touch shared"] {
            assert!(!by_member(mount, script).status.success(), "{script} {how}");
        }
        assert_eq!(
            fs::read_to_string(&shared).unwrap(),
            "copiedmore\n",
            "{how}"
        );
    });
}

#[test]
fn a_file_that_is_replaced_all_the_time_can_be_opened_all_the_time() {
    const OPENS: usize = 150;
    if is_left_out() {
        return;
    }
    let shares = Shares::new();
    shares.with_each(|mount, how| {
        let (target, new) = (mount.path("target"), mount.path("new"));
        fs::write(&target, "complete").unwrap();
        let readers_left = AtomicUsize::new(2);
        std::thread::scope(|scope| {
            let replacing = scope.spawn(|| {
                while readers_left.load(Ordering::Relaxed) > 0 {
                    fs::write(&new, "complete").unwrap();
                    fs::rename(&new, &target).unwrap();
                }
            });
            let reading = || {
                let read = || {
                    fs::metadata(&target)?;
                    fs::read_to_string(&target)
                };
                let all: Vec<_> = (0..OPENS).map(|_| read()).collect();
                readers_left.fetch_sub(1, Ordering::Relaxed);
                all
            };
            let readers = [scope.spawn(reading), scope.spawn(reading)];
            let all: Vec<_> = readers
                .into_iter()
                .flat_map(|it| it.join().unwrap())
                .collect();
            replacing.join().unwrap();
            let failed: Vec<_> = all.iter().filter_map(|read| read.as_ref().err()).collect();
            assert!(
                failed.is_empty(),
                "{} of {}: {:?} {how}",
                failed.len(),
                all.len(),
                failed[0]
            );
            let complete = |read: &std::io::Result<String>| read.as_ref().unwrap() == "complete";
            assert!(all.iter().all(complete), "{how}");
        });
        assert_eq!(fs::read_to_string(&target).unwrap(), "complete");
    });
}

/// Tries to lock `file` with flock(2) and lockf(3), and names the errors; prints `locked` where it could.
const LOCKER: &str = r#"
import errno, fcntl
with open("file", "r+") as file:
    for lock in fcntl.flock, fcntl.lockf:
        try:
            lock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            print("locked")
        except OSError as error:
            print(errno.errorcode[error.errno])
"#;

#[test]
fn locks_hold_between_programs_of_this_machine_or_are_refused() {
    if is_left_out() {
        return;
    }
    let place = Place::new();
    let server = Server::of(&place.path("share"), &place.path("state"));
    fs::write(place.path("share/file"), "").unwrap();
    let url = format!("nfs+rdma://{}/", server.rdma);
    let locker = |directory: &Path| {
        let mut python = Command::new("python3");
        python.args(["-c", LOCKER]).current_dir(directory);
        python
            .output()
            .map(|output| String::from_utf8_lossy(&output.stdout).into_owned())
    };
    for mode in MODES {
        let mount = Mount::of(&url, &place.path("mnt"), mode);
        let file = fs::File::open(mount.path("file")).unwrap();
        assert!(file.try_lock().is_ok(), "{mode:?}");
        let other = fs::File::open(mount.path("file")).unwrap();
        assert!(other.try_lock().is_err(), "it holds, {mode:?}");
        drop((file, other));
        mount.unmount();
        let options = [mode, &["--locks", "none"]].concat();
        let mount = Mount::of(&url, &place.path("mnt"), &options);
        if let Ok(said) = locker(&mount.path("")) {
            assert_eq!(said, "ENOLCK\nENOLCK\n", "{mode:?}");
        }
        mount.unmount();
    }
}

#[test]
fn the_table_of_mounts_names_the_file_system() {
    if is_left_out() {
        return;
    }
    let place = Place::new();
    let server = Server::of(&place.path("share"), &place.path("state"));
    let [url, _] = server.urls();
    let mount = Mount::of(&url, &place.path("mnt"), &["--read-only"]);
    let table = fs::read_to_string("/proc/self/mounts").unwrap();
    let directory = place.text("mnt");
    let line = table
        .lines()
        .find(|line| line.split(' ').nth(1) == Some(&directory));
    let words: Vec<_> = line.unwrap().split(' ').collect();
    assert_eq!(
        (words[0].trim_end_matches('/'), words[2]),
        (url.as_str(), "fuse.gannet")
    );
    for option in ["ro", "nosuid", "nodev", "default_permissions"] {
        assert!(
            words[3].split(',').any(|it| it == option),
            "{option}: {words:?}"
        );
    }
    mount.unmount();
}

#[test]
fn a_write_of_another_user_clears_the_set_uid_bit() {
    if is_left_out() {
        return;
    }
    let shares = Shares::new();
    shares.with_each(|mount, how| {
        // Of a volume, I/O servers see the writes and only the manager knows the mode.
        if how.starts_with("gannet:") {
            return;
        }
        let program = mount.path("program");
        for script in [
            "echo x >> program",
            "echo x > program",
            "truncate -s 1 program",
        ] {
            fs::write(&program, "a program").unwrap();
            chown(&program, Some(USER + 1), Some(TEAM)).unwrap();
            fs::set_permissions(&program, Permissions::from_mode(0o6775)).unwrap();
            let output = by_member(mount, script);
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{script}: {said} {how}");
            let mode = fs::metadata(&program).unwrap().mode() & 0o7777;
            assert_eq!(mode, 0o775, "{script} {how}");
        }
    });
}

/// Only exports refuse times: NFSv3 has 32 bits for seconds. Volumes keep times of all centuries.
#[test]
fn times_that_cannot_be_kept_are_refused() {
    if is_left_out() {
        return;
    }
    let shares = Shares::new();
    shares.with_each(|mount, how| {
        let path = mount.path("file");
        let file = fs::File::create(&path).unwrap();
        let set = |time| file.set_times(fs::FileTimes::new().set_modified(time));
        let is = || fs::metadata(&path).unwrap().modified().unwrap();
        let epoch = std::time::UNIX_EPOCH;
        let last = epoch + Duration::from_secs(u32::MAX.into());
        for inside in [epoch + Duration::new(2_208_988_800, 7), last] {
            set(inside).unwrap();
            assert_eq!(is(), inside, "{how}");
        }
        for outside in [
            epoch - Duration::from_secs(1),
            epoch - Duration::new(315_619_200, 250_000_000),
            last + Duration::from_secs(1),
        ] {
            let done = set(outside).map_err(|error| error.kind());
            if how.starts_with("gannet") {
                assert_eq!((done, is()), (Ok(()), outside), "{how}");
            } else {
                let refused = Err(std::io::ErrorKind::InvalidInput);
                assert_eq!((done, is()), (refused, last), "{how}");
            }
        }
    });
}
