//! A volume on a disk that others fill.

#![allow(clippy::unwrap_used)]

use crate::support;

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use support::{Place, Server, assert_same, bytes, run, succeed};

/// A small disk, unmounted when dropped.
struct Disk(PathBuf);

impl Disk {
    /// A disk of 48 MiB at `place`; `None`, which is printed, where this user may not mount one.
    fn at(place: PathBuf) -> Option<Disk> {
        fs::create_dir(&place).unwrap();
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", "size=48m", "none"]);
        let mounted = mount.arg(&place).status();
        if mounted.is_ok_and(|status| status.success()) {
            return Some(Disk(place));
        }
        gannet_testing::left_out("a disk cannot be mounted here, or not by this user");
        None
    }

    /// Leaves no byte of it to others.
    fn fill(&self) {
        let mut file = File::options();
        let file = file.create(true).append(true).open(self.0.join("others"));
        let (mut file, block) = (file.unwrap(), [7; 4096]);
        while file.write_all(&block).is_ok() {}
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let unmounted = Command::new("umount").arg("-l").arg(&self.0).status();
        assert!(unmounted.is_ok_and(|status| status.success()));
    }
}

/// The volume of `path`, served.
fn serve(volume: &str) -> Server {
    let off = ["--nfs-tcp", "off", "--nfs-rdma", "off"];
    Server::with(&[&["--volume", volume, "--native", "127.0.0.1:0"][..], &off].concat())
}

/// More directories than the journal has room for, so that the metadata have to grow.
fn many_directories(place: &Path) {
    for number in 0..25_000 {
        let name = format!("a directory with a name that is rather long, {number}");
        fs::create_dir_all(place.join(name)).unwrap();
    }
}

#[test]
fn on_a_full_disk_nothing_is_made_and_everything_can_be_removed() {
    let place = Place::new();
    let Some(disk) = Disk::at(place.path("disk")) else {
        return;
    };
    let volume = place.text("disk/volume");
    succeed(&["volume", "create", &volume, "--io-servers", "2"]);
    let key = format!("{volume}/client-key");
    let with_key = |words: &[&str]| {
        let output = run(&[words, &["--volume-key", &key]].concat());
        let said = [output.stdout, output.stderr].concat();
        (output.status.success(), String::from_utf8(said).unwrap())
    };
    fs::write(place.path("file"), bytes(1, 300_000)).unwrap();
    many_directories(&place.path("tree"));

    let server = serve(&volume);
    let url = |name: &str| format!("gannet://{}/{name}", server.native);
    assert!(with_key(&["cp", &place.text("file"), &url("file")]).0);
    disk.fill();
    let (done, said) = with_key(&["cp", "-r", &place.text("tree"), &url("tree")]);
    assert!(!done && said.contains("no space left on device"), "{said}");
    disk.fill();
    drop(server);

    // It is served again as it is: that is how room is made.
    let server = serve(&volume);
    let url = |name: &str| format!("gannet://{}/{name}", server.native);
    assert!(with_key(&["cp", &url("file"), &place.text("back")]).0);
    assert_same(&place.path("file"), &place.path("back"));
    let (_, listed) = with_key(&["ls", &url("tree")]);
    assert!(listed.lines().count() > 1000, "{listed}");
    let (done, said) = with_key(&["rm", "-r", &url("tree")]);
    assert!(done, "{said}");
    disk.fill();
    assert!(with_key(&["rm", &url("file")]).0);
    drop(server);
    let checked = succeed(&["volume", "check", &volume]);
    assert!(checked.contains("1 directories, 0 names"), "{checked}");

    fs::remove_file(place.path("disk/others")).unwrap();
    let server = serve(&volume);
    let url = format!("gannet://{}/file", server.native);
    let (done, said) = with_key(&["cp", &place.text("file"), &url]);
    assert!(done, "{said}");
}
