//! What users do with a server, on the file system of TMPDIR. `cargo xtask disks` runs it on ext4 with a journal, on
//! XFS and on btrfs. Elsewhere it is ignored, because it fills the disk.

#![allow(clippy::unwrap_used)]

#[path = "../all/support/mod.rs"]
mod support;

use std::fs::{self, File, Permissions};
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::time::Duration;
use support::{Place, Server, assert_same, bytes, gannet, make_tree, succeed};

/// The small files of a tree, and the folders that they are in.
const FILES: usize = 5000;
const FOLDERS: usize = 50;
/// The number of an ordinary user.
const USER: u32 = 65_533;
/// A thread of the pool without work ends after ten seconds. The next one inherits from the thread that starts it.
const POOL_REST: Duration = Duration::from_secs(11);

/// A tree as source code has it: many small files.
fn make_small_files(root: &Path, owner: u32) {
    for folder in 0..FOLDERS {
        let path = root.join(format!("folder-{folder}"));
        fs::create_dir_all(&path).unwrap();
        for file in 0..FILES / FOLDERS {
            let path = path.join(format!("file-{file}"));
            fs::write(&path, bytes(folder * 1000 + file, file * 37 % 3000)).unwrap();
            chown(path, Some(owner), Some(owner)).unwrap();
        }
        chown(&path, Some(owner), Some(owner)).unwrap();
    }
    chown(root, Some(owner), Some(owner)).unwrap();
}

/// A client command of this user, which must succeed.
fn succeed_as(user: u32, binary: &Path, arguments: &[&str]) {
    let mut command = Command::new(binary);
    command
        .args(arguments)
        .current_dir("/")
        .env_remove("GANNET_LOG");
    let output = command.uid(user).gid(user).output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{user}: {arguments:?}: {error}");
}

/// The binary where any user may execute it.
fn binary_for_all(place: &Place) -> std::path::PathBuf {
    fs::set_permissions(place.path(""), Permissions::from_mode(0o755)).unwrap();
    fs::set_permissions(place.path("share"), Permissions::from_mode(0o1777)).unwrap();
    let binary = place.path("gannet");
    fs::copy(support::binary(), &binary).unwrap();
    fs::set_permissions(&binary, Permissions::from_mode(0o755)).unwrap();
    binary
}

fn leftovers(root: &Path) -> Vec<String> {
    let names = fs::read_dir(root).unwrap();
    let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name.starts_with(".gannet")).collect()
}

#[test]
#[ignore = "cargo xtask disks"]
fn five_thousand_small_files_are_copied_by_each_transport_by_root_and_by_a_user() {
    if !gannet_testing::is_root() {
        return;
    }
    let place = Place::new();
    let binary = binary_for_all(&place);
    let server = Server::of(&place.path("share"), &place.path("state"));
    for user in [0, USER] {
        let tree = place.path(&format!("tree-{user}"));
        make_small_files(&tree, user);
        for (url, transport) in server.urls().iter().zip(["tcp", "rdma"]) {
            let name = format!("copy-{user}-{transport}");
            let (from, to) = (tree.to_str().unwrap(), format!("{url}/{name}"));
            succeed_as(user, &binary, &["cp", "-r", from, &to]);
            assert_same(&tree, &place.path("share").join(name));
        }
    }
    assert_eq!(leftovers(&place.path("share")), [""; 0]);
}

#[test]
#[ignore = "cargo xtask disks"]
fn after_a_rest_everybody_can_make_move_and_remove_names() {
    if !gannet_testing::is_root() {
        return;
    }
    let place = Place::new();
    let binary = binary_for_all(&place);
    let server = Server::of(&place.path("share"), &place.path("state"));
    fs::write(place.path("share/file"), "read by a user").unwrap();
    let [url, _] = server.urls();
    for round in 0..3 {
        std::thread::sleep(POOL_REST);
        // The identity that the core has when the pool starts its next thread.
        succeed_as(USER, &binary, &["cat", &format!("{url}/file")]);
        for user in [0, USER + 1] {
            let at = |name: &str| format!("{url}/{name}-{round}-{user}");
            succeed_as(user, &binary, &["mkdir", &at("directory")]);
            succeed_as(user, &binary, &["mv", &at("directory"), &at("moved")]);
            succeed_as(user, &binary, &["rm", "-r", &at("moved")]);
        }
    }
}

#[test]
#[ignore = "cargo xtask disks"]
fn what_was_copied_is_there_after_the_server_was_killed() {
    let place = Place::new();
    make_tree(&place.path("tree"), 40);
    let mut server = Server::of(&place.path("share"), &place.path("state"));
    for (number, url) in server.urls().iter().enumerate() {
        let copy = format!("{url}/copy-{number}");
        succeed(&["cp", "-r", &place.text("tree"), &copy]);
    }
    let addresses = server.addresses();
    server.kill();
    let arguments = [&place.text("share"), "--no-root-squash"];
    let server = Server::start_at(&addresses, &place.path("state"), &arguments);
    for (number, url) in server.urls().iter().enumerate() {
        let out = place.text(&format!("out/back-{number}"));
        succeed(&[
            "cp",
            "-r",
            "--verify",
            &format!("{url}/copy-{number}"),
            &out,
        ]);
        assert_same(&place.path("tree"), Path::new(&out));
    }
}

#[test]
#[ignore = "cargo xtask disks"]
fn a_volume_keeps_a_tree_over_a_crash() {
    let place = Place::new();
    make_tree(&place.path("tree"), 40);
    let volume = place.text("volume");
    succeed(&["volume", "create", &volume, "--io-servers", "3"]);
    let serve = |native: &str| {
        let off = ["--nfs-tcp", "off", "--nfs-rdma", "off"];
        Server::with(&[&["--volume", &volume, "--native", native][..], &off].concat())
    };
    let mut server = serve("127.0.0.1:0");
    let address = server.native.clone();
    let url = format!("gannet://{address}/copy");
    let key = format!("{volume}/client-key");
    succeed(&["cp", "-r", &place.text("tree"), &url, "--volume-key", &key]);
    server.kill();
    let _server = serve(&address);
    let out = place.text("out/back");
    succeed(&["cp", "-r", "--verify", &url, &out, "--volume-key", &key]);
    assert_same(&place.path("tree"), Path::new(&out));
}

#[test]
#[ignore = "cargo xtask disks"]
fn a_full_disk_refuses_writes_and_takes_them_again_when_there_is_room() {
    let place = Place::new();
    fs::write(place.path("out/large"), bytes(1, 8 << 20)).unwrap();
    let server = Server::of(&place.path("share"), &place.path("state"));
    let ballast = place.path("ballast");
    fill(&ballast);
    for (number, url) in server.urls().iter().enumerate() {
        let (from, to) = (place.text("out/large"), format!("{url}/large-{number}"));
        let refused = gannet().args(["cp", &from, &to]).output().unwrap();
        let why = String::from_utf8_lossy(&refused.stderr);
        assert_eq!(refused.status.code(), Some(1), "{why}");
        assert!(why.contains("no space left"), "{why}");
    }
    fs::remove_file(&ballast).unwrap();
    for (number, url) in server.urls().iter().enumerate() {
        let name = format!("large-{number}");
        succeed(&["cp", &place.text("out/large"), &format!("{url}/{name}")]);
        let copy = fs::read(place.path("share").join(name)).unwrap();
        assert!(copy == fs::read(place.path("out/large")).unwrap());
    }
    assert_eq!(leftovers(&place.path("share")), [""; 0]);
}

/// Takes all room of the disk but less than a mebibyte.
fn fill(ballast: &Path) {
    let file = File::create(ballast).unwrap();
    let (mut end, mut step) = (0, 1 << 30);
    // Blocks that a file system holds back for its own changes come free by and by.
    while step >= 1 << 12 {
        let flags = rustix::fs::FallocateFlags::empty();
        match rustix::fs::fallocate(&file, flags, end, step) {
            Ok(()) => end += step,
            Err(_) => step /= 2,
        }
    }
    let _ = file.sync_all();
}
