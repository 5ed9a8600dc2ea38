//! `gannet mount` by a user other than root: fusermount3 makes the mount.
//!
//! Where that cannot be tried, the test is left out.

#![allow(clippy::unwrap_used)]

use crate::support;

use std::fs::{self, Permissions};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use support::{Place, Server};

/// The number of the user `nobody` on most systems.
const USER: u32 = 65534;

/// Whether the test runs as root, which can become any user.
fn is_root() -> bool {
    fs::metadata("/proc/self").unwrap().uid() == 0
}

/// A program that runs as another user than root.
fn by_user(program: impl AsRef<std::ffi::OsStr>) -> Command {
    let mut command = Command::new(program);
    command.stdin(Stdio::null()).current_dir("/");
    if is_root() {
        command.uid(USER).gid(USER);
    }
    command
}

/// Why a user cannot mount here.
fn obstacle() -> Option<&'static str> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let helpers = std::env::split_paths(&path).map(|it| it.join("fusermount3"));
    let helper = helpers.filter_map(|it| fs::metadata(it).ok()).next();
    let opens = ["-c", ": <>/dev/fuse"];
    let opened = by_user("sh").args(opens).stderr(Stdio::null()).status();
    match helper {
        None => Some("fusermount3 is not installed (package fuse3)"),
        Some(found) if found.mode() & 0o4000 == 0 => Some("fusermount3 is not set-uid"),
        Some(_) if !opened.unwrap().success() => Some("/dev/fuse is closed to users"),
        Some(_) if is_root() && !may_mount() => Some("nobody may mount here"),
        Some(_) => None,
    }
}

/// Containers may have root, and still not the right.
fn may_mount() -> bool {
    let probe = "mount -t tmpfs none \"$1\" && umount \"$1\"";
    let place = tempfile::tempdir().unwrap();
    let mut mount = Command::new("sh");
    mount.args(["-c", probe, "sh"]).arg(place.path());
    mount.stderr(Stdio::null()).status().unwrap().success()
}

fn is_left_out() -> bool {
    let obstacle = obstacle();
    if let Some(why) = obstacle {
        gannet_testing::left_out(why);
    }
    obstacle.is_some()
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// `gannet mount`, unmounted when dropped.
struct Mounted {
    child: Child,
    directory: PathBuf,
}

impl Drop for Mounted {
    fn drop(&mut self) {
        if self.child.try_wait().unwrap().is_none() {
            let mut unmount = by_user("fusermount3");
            let _ = unmount.arg("-uz").arg(&self.directory).status();
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

/// Mounts, and waits until it is there.
fn mount(gannet: &Path, url: &str, directory: &Path) -> Mounted {
    let mut command = by_user(gannet);
    command.args(["mount", url]).arg(directory);
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    stdout.read_line(&mut line).unwrap();
    assert!(line.starts_with("mounted "), "{line:?}");
    let directory = directory.to_owned();
    Mounted { child, directory }
}

#[test]
fn a_user_mounts_works_and_unmounts_without_root() {
    if is_left_out() {
        return;
    }
    let place = Place::new();
    let open = |name: &str, mode| fs::set_permissions(place.path(name), mode).unwrap();
    open("", Permissions::from_mode(0o755));
    open("share", Permissions::from_mode(0o777));
    // Where the binary was built may be closed to users.
    let gannet = place.path("gannet");
    fs::copy(env!("CARGO_BIN_EXE_gannet"), &gannet).unwrap();
    open("gannet", Permissions::from_mode(0o755));
    fs::write(place.path("share/file"), "for all").unwrap();
    fs::write(place.path("share/secret"), "for root").unwrap();
    open("share/file", Permissions::from_mode(0o644));
    open("share/secret", Permissions::from_mode(0o600));
    let mnt = place.path("mnt");
    fs::create_dir(&mnt).unwrap();
    if is_root() {
        chown(&mnt, Some(USER), Some(USER)).unwrap();
    }
    let server = Server::of(&place.path("share"), &place.path("state"));
    let shell = |script: &str| {
        let mut command = by_user("sh");
        command.args(["-c", script]).current_dir(&mnt);
        command.output().unwrap()
    };
    for (url, by_signal) in server.urls().iter().zip([false, true]) {
        let mut mounted = mount(&gannet, url, &mnt);
        let script = "cat file && mkdir d && echo mine > d/new && mv d/new d/file && cat d/file";
        let output = shell(script);
        assert_eq!(output.stdout, b"for allmine\n", "{}", text(&output));
        if is_root() {
            let made = fs::metadata(place.path("share/d/file")).unwrap();
            assert_eq!((made.uid(), made.gid()), (USER, USER));
            assert!(text(&shell("cat secret")).contains("denied"));
            assert!(fs::read_dir(&mnt).is_err(), "the mount is his alone");
        }
        assert!(shell("rm -r d").status.success());
        let again = by_user(&gannet).args(["mount", url]).arg(&mnt).output();
        let error = text(&again.unwrap());
        assert!(error.contains("`fusermount3 -u "), "{error}");
        let ended = if by_signal {
            let process = mounted.child.id().to_string();
            Command::new("kill").args(["-s", "TERM", &process]).status()
        } else {
            by_user("fusermount3").arg("-u").arg(&mnt).status()
        };
        assert!(ended.unwrap().success());
        assert!(mounted.child.wait().unwrap().success());
        assert_eq!(fs::read_dir(&mnt).unwrap().count(), 0, "still mounted");
    }
}
