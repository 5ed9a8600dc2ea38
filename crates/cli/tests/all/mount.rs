//! Servers mounted in the tree of this machine: what programs do with files, close-to-open, restarts, and the end.
//!
//! Mounts for real where FUSE may be used, and says that it was left out elsewhere (GANNET_REQUIRE_FUSE makes that an
//! error).

#![allow(clippy::unwrap_used)]

mod background;
mod consistency;
mod hosts;
mod shared;
mod sight;
mod watched;
use crate::support;

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use support::mount::{Mount, is_left_out, must};
use support::{Place, Server, assert_same, bytes, fail, make_tree, objects_below, succeed};

/// The ways to mount: cached and not.
const MODES: [&[&str]; 2] = [&[], &["--direct"]];

/// A server of `share`, and the directory `mnt` to mount it on.
struct Bed {
    place: Place,
    server: Server,
}

impl Bed {
    fn new() -> Bed {
        let place = Place::new();
        let server = Server::of(&place.path("share"), &place.path("state"));
        Bed { place, server }
    }

    /// A server that does not wait for the disk after each change of names: for tests with thousands of them.
    fn without_syncs() -> Bed {
        let place = Place::new();
        let share = place.text("share");
        let options = [&share, "--no-root-squash", "--async-metadata"];
        let server = Server::start(&place.path("state"), &options);
        Bed { place, server }
    }

    fn rdma(&self) -> String {
        format!("nfs+rdma://{}/", self.server.rdma)
    }

    fn mount(&self, options: &[&str]) -> Mount {
        Mount::of(&self.rdma(), &self.place.path("mnt"), options)
    }

    fn share(&self, name: &str) -> PathBuf {
        self.place.path("share").join(name)
    }

    /// Kills the server and starts it again where it was.
    fn restart(&mut self) {
        let addresses = self.server.addresses();
        self.server.kill();
        let (share, state) = (self.place.text("share"), self.place.path("state"));
        let arguments = [share.as_str(), "--no-root-squash"];
        self.server = Server::start_at(&addresses, &state, &arguments);
    }
}

fn in_path(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|directory| directory.join(program).is_file())
}

/// Counts the files that are hidden because they were removed while open.
fn hidden_files(directory: &Path) -> usize {
    let entries = fs::read_dir(directory).unwrap();
    let hidden = |name: &std::ffi::OsStr| name.to_string_lossy().starts_with(".gannet-");
    entries
        .filter(|entry| hidden(&entry.as_ref().unwrap().file_name()))
        .count()
}

#[test]
fn a_tree_copied_in_and_out_is_the_same() {
    if is_left_out() {
        return;
    }
    let bed = Bed::new();
    let tree = bed.place.path("tree");
    make_tree(&tree, 120);
    let tcp = format!("nfs://{}/", bed.server.tcp);
    for (url, mode) in [
        (bed.rdma(), MODES[0]),
        (bed.rdma(), MODES[1]),
        (tcp, MODES[0]),
    ] {
        let mount = Mount::of(&url, &bed.place.path("mnt"), mode);
        must(
            Command::new("cp")
                .arg("-a")
                .arg(&tree)
                .arg(mount.path("tree")),
        );
        assert_same(&tree, &bed.share("tree"));
        let out = bed.place.path("out").join("tree");
        must(
            Command::new("cp")
                .arg("-a")
                .arg(mount.path("tree"))
                .arg(&out),
        );
        assert_same(&tree, &out);
        fs::remove_dir_all(&out).unwrap();
        must(Command::new("rm").arg("-r").arg(mount.path("tree")));
        assert!(!bed.share("tree").exists());
        mount.unmount();
    }
}

#[test]
fn a_repository_lives_there() {
    if is_left_out() || !in_path("git") {
        return;
    }
    let bed = Bed::without_syncs();
    for mode in MODES {
        let mount = bed.mount(mode);
        let git = |directory: &Path, arguments: &[&str]| {
            let mut command = Command::new("git");
            command
                .arg("-C")
                .arg(directory)
                .args(["-c", "user.name=a", "-c", "user.email=a@b"]);
            must(command.args(arguments))
        };
        let work = mount.path("work");
        fs::create_dir(&work).unwrap();
        git(&work, &["init", "-q"]);
        for number in 0..60 {
            fs::write(
                work.join(format!("file-{number}")),
                bytes(number, number * 501),
            )
            .unwrap();
        }
        git(&work, &["add", "."]);
        git(&work, &["commit", "-q", "-m", "first"]);
        fs::write(work.join("file-7"), "changed").unwrap();
        assert_eq!(git(&work, &["status", "--porcelain"]).trim(), "M file-7");
        git(&work, &["commit", "-q", "-a", "-m", "second"]);
        git(&work, &["gc", "-q"]);
        git(&mount.path(""), &["clone", "-q", "work", "copy"]);
        git(&mount.path("copy"), &["fsck", "--full", "--strict"]);
        assert_eq!(git(&mount.path("copy"), &["status", "--porcelain"]), "");
        assert_eq!(fs::read(mount.path("copy/file-7")).unwrap(), b"changed");
        fs::remove_dir_all(mount.path("work")).unwrap();
        fs::remove_dir_all(mount.path("copy")).unwrap();
        mount.unmount();
    }
}

/// Maps a file shared, changes it there, and reads that back by read(2).
const MAPPER: &str = r#"
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
int main(int count, char **names) {
    char back[8] = {0};
    int file = open(names[1], O_RDWR);
    char *map = mmap(0, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (map == MAP_FAILED || memcmp(map, "before", 6)) return 1;
    memcpy(map, "after!", 6);
    memcpy(map + 5000, "second", 6);
    if (msync(map, 8192, MS_SYNC)) return 2;
    if (pread(file, back, 6, 5000) != 6 || memcmp(back, "second", 6)) return 3;
    return munmap(map, 8192) || close(file) ? 4 : 0;
}
"#;

#[test]
fn a_program_is_built_there_and_runs_and_maps_files() {
    if is_left_out() || !in_path("cc") {
        return;
    }
    let bed = Bed::new();
    for mode in MODES {
        let mount = bed.mount(mode);
        fs::write(mount.path("mapper.c"), MAPPER).unwrap();
        let build = |from: &str, to: &str, extra: &[&str]| {
            let mut command = Command::new("cc");
            must(
                command
                    .args(extra)
                    .arg("-o")
                    .arg(mount.path(to))
                    .arg(mount.path(from)),
            );
        };
        build("mapper.c", "mapper.o", &["-c"]);
        build("mapper.o", "mapper", &[]);
        let mut content = bytes(5, 9000);
        content[..6].copy_from_slice(b"before");
        fs::write(mount.path("data"), &content).unwrap();
        must(Command::new(mount.path("mapper")).arg(mount.path("data")));
        content[..6].copy_from_slice(b"after!");
        content[5000..5006].copy_from_slice(b"second");
        assert!(fs::read(bed.share("data")).unwrap() == content);
        mount.unmount();
    }
}

#[test]
fn writes_through_a_mount_are_the_bytes_at_the_server() {
    if is_left_out() {
        return;
    }
    let bed = Bed::new();
    for mode in MODES {
        let mount = bed.mount(mode);
        let mut file = File::create(mount.path("file")).unwrap();
        file.write_all(&bytes(1, 300_000)).unwrap();
        file.sync_all().unwrap();
        // Durable after fsync(2), long before it is closed.
        assert!(fs::read(bed.share("file")).unwrap() == bytes(1, 300_000));
        file.set_len(1000).unwrap();
        file.write_all_at(b"behind a hole", 5000).unwrap();
        drop(file);
        let mut expected = bytes(1, 1000);
        expected.resize(5000, 0);
        expected.extend_from_slice(b"behind a hole");
        assert!(fs::read(bed.share("file")).unwrap() == expected);
        for line in 0..50 {
            let mut log = OpenOptions::new();
            let mut log = log.append(true).open(mount.path("file")).unwrap();
            writeln!(log, "line {line}").unwrap();
            expected.extend_from_slice(format!("line {line}\n").as_bytes());
        }
        assert!(fs::read(mount.path("file")).unwrap() == expected);
        assert!(fs::read(bed.share("file")).unwrap() == expected);
        let small = File::options()
            .write(true)
            .open(mount.path("file"))
            .unwrap();
        small.set_len(10).unwrap();
        drop(small);
        assert_eq!(fs::metadata(bed.share("file")).unwrap().len(), 10);
        mount.unmount();
    }
}

#[test]
fn a_file_removed_or_replaced_while_open_stays_readable() {
    if is_left_out() {
        return;
    }
    let bed = Bed::new();
    for mode in MODES {
        let mount = bed.mount(mode);
        fs::write(mount.path("removed"), "still here").unwrap();
        let mut open = File::options()
            .read(true)
            .write(true)
            .open(mount.path("removed"))
            .unwrap();
        fs::remove_file(mount.path("removed")).unwrap();
        assert!(!mount.path("removed").exists());
        assert_eq!(open.metadata().unwrap().nlink(), 0);
        let mut text = String::new();
        open.read_to_string(&mut text).unwrap();
        open.write_all(b", and longer").unwrap();
        open.seek(SeekFrom::Start(0)).unwrap();
        text.clear();
        open.read_to_string(&mut text).unwrap();
        assert_eq!(text, "still here, and longer");
        drop(open);

        fs::write(mount.path("target"), "old").unwrap();
        fs::write(mount.path("source"), "new").unwrap();
        let mut open = File::open(mount.path("target")).unwrap();
        fs::rename(mount.path("source"), mount.path("target")).unwrap();
        assert_eq!(fs::read(mount.path("target")).unwrap(), b"new");
        text.clear();
        open.read_to_string(&mut text).unwrap();
        assert_eq!(text, "old");
        drop(open);
        mount.unmount();
        assert_eq!(hidden_files(&bed.share("")), 0);
        assert_eq!(fs::read(bed.share("target")).unwrap(), b"new");
    }
}

#[test]
fn open_shows_the_writes_of_other_clients() {
    if is_left_out() {
        return;
    }
    let bed = Bed::new();
    for mode in MODES {
        let mount = bed.mount(mode);
        for round in 1..40 {
            // Longer and shorter in turn, and of the same length with other bytes.
            let len = [40_000, 10, 90_000, 90_000][round % 4];
            fs::write(bed.share("file"), bytes(round, len)).unwrap();
            let read = fs::read(mount.path("file")).unwrap();
            assert_eq!(read.len(), len, "round {round} {mode:?}");
            assert!(read == bytes(round, len), "round {round} {mode:?}");
            let mut appended = OpenOptions::new();
            let mut appended = appended.append(true).open(mount.path("file")).unwrap();
            appended.write_all(b"ours").unwrap();
            drop(appended);
            let both = [bytes(round, len), b"ours".to_vec()].concat();
            assert!(
                fs::read(bed.share("file")).unwrap() == both,
                "round {round} {mode:?}"
            );
        }
        mount.unmount();
    }
}

#[test]
fn ten_thousand_names_are_listed_once_each() {
    if is_left_out() {
        return;
    }
    let bed = Bed::without_syncs();
    fs::create_dir(bed.share("many")).unwrap();
    let name = |number: usize| format!("a name of some length {number:05}");
    for number in 0..10_000 {
        File::create(bed.share("many").join(name(number))).unwrap();
    }
    let mount = bed.mount(&[]);
    let mut names: Vec<_> = fs::read_dir(mount.path("many"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert_eq!(names.len(), 10_000);
    assert!(
        names
            .iter()
            .enumerate()
            .all(|(number, found)| *found == name(number))
    );
    let all = must(Command::new("ls").arg("-a").arg(mount.path("many")));
    assert_eq!(all.lines().count(), 10_002);
    must(Command::new("rm").arg("-r").arg(mount.path("many")));
    assert!(!bed.share("many").exists());
    mount.unmount();
}

#[test]
fn two_processes_share_a_mount() {
    if is_left_out() {
        return;
    }
    let bed = Bed::new();
    let mount = bed.mount(&[]);
    let script = "for n in $(seq 200); do echo \"$0 $n\" >> \"$1/log\"; done";
    let start = |name: &str| {
        let mut command = Command::new("sh");
        command
            .args(["-c", script, name])
            .arg(mount.path(""))
            .spawn()
            .unwrap()
    };
    let both = [start("first"), start("second")];
    for mut child in both {
        assert!(child.wait().unwrap().success());
    }
    let log = fs::read_to_string(bed.share("log")).unwrap();
    assert_eq!(log.lines().count(), 400, "no line over another");
    for name in ["first", "second"] {
        let lines: Vec<_> = log.lines().filter(|line| line.starts_with(name)).collect();
        assert_eq!(lines.len(), 200);
        assert_eq!(lines[199], format!("{name} 200"));
    }
    mount.unmount();
}

#[test]
fn a_copy_outlives_restarts_of_the_server() {
    if is_left_out() {
        return;
    }
    for mode in MODES {
        let mut bed = Bed::new();
        let mount = bed.mount(mode);
        let source = bed.place.path("source");
        fs::write(&source, bytes(3, 100 << 20)).unwrap();
        let mut copy = Command::new("cp")
            .arg(&source)
            .arg(mount.path("copy"))
            .spawn()
            .unwrap();
        for part in 1..4 {
            wait_for_size(&bed.share("copy"), part * (20 << 20), &mut copy);
            bed.restart();
        }
        assert!(copy.wait().unwrap().success());
        assert!(fs::read(bed.share("copy")).unwrap() == fs::read(&source).unwrap());
        mount.unmount();
    }
}

/// Waits until a file has grown so far, or its writer has ended.
fn wait_for_size(path: &Path, size: u64, writer: &mut Child) {
    wait_until(writer, || {
        fs::metadata(path).is_ok_and(|metadata| metadata.len() >= size)
    });
}

#[test]
fn without_its_server_operations_fail_in_time_and_unmounting_works() {
    if is_left_out() {
        return;
    }
    let mut bed = Bed::new();
    fs::write(bed.share("file"), "text").unwrap();
    let mount = bed.mount(&["--timeout", "2", "--cache-age", "0.01"]);
    let patient = ["--timeout", "100000", "--cache-age", "0.01"];
    let patient = Mount::of(&bed.rdma(), &bed.place.path("patient"), &patient);
    for mount in [&mount, &patient] {
        assert_eq!(fs::read(mount.path("file")).unwrap(), b"text");
    }
    let addresses = bed.server.addresses();
    bed.server.kill();
    let path = patient.path("file");
    let waiting = std::thread::spawn(move || fs::read(path));
    let error = fs::read(mount.path("other")).unwrap_err();
    assert_eq!(
        error.raw_os_error(),
        Some(rustix::io::Errno::IO.raw_os_error())
    );
    assert!(!waiting.is_finished(), "this one waits for the server");
    let (share, state) = (bed.place.text("share"), bed.place.path("state"));
    bed.server = Server::start_at(&addresses, &state, &[&share, "--no-root-squash"]);
    assert_eq!(waiting.join().unwrap().unwrap(), b"text");
    patient.unmount();
    // Each fails after two seconds, until the mount has found the server.
    while fs::read(mount.path("file")).is_err() {}
    bed.server.kill();
    mount.unmount();
}

#[test]
fn a_signal_unmounts_even_under_load() {
    if is_left_out() {
        return;
    }
    let bed = Bed::new();
    let mut idle = bed.mount(&[]);
    idle.signal("TERM");
    assert!(idle.wait().success());
    assert!(!is_mounted(&idle.directory));

    let mut busy = bed.mount(&[]);
    let mut writer = Command::new("dd")
        .args(["if=/dev/zero", "bs=1M", "count=2000"])
        .arg(format!("of={}", busy.path("file").display()))
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    wait_for_size(&bed.share("file"), 4 << 20, &mut writer);
    busy.signal("INT");
    assert!(busy.wait().success());
    assert!(!is_mounted(&busy.directory));
    // It got an error, or was done; it does not hang.
    let _ = writer.wait().unwrap();
}

#[test]
fn open_files_are_served_until_their_last_close_after_a_signal() {
    if is_left_out() {
        return;
    }
    let bed = Bed::new();
    let mut mount = bed.mount(&[]);
    fs::write(mount.path("gone"), "x").unwrap();
    fs::remove_file(mount.path("gone")).unwrap();
    let mut open = File::create(mount.path("open")).unwrap();
    open.write_all(&bytes(3, 1 << 20)).unwrap();
    mount.signal("TERM");
    let directory = mount.directory.clone();
    wait_until(&mut mount.child, || !is_mounted(&directory));
    open.write_all(b"more").unwrap();
    drop(open);
    assert!(mount.wait().success());
    assert_eq!(
        fs::metadata(bed.share("open")).unwrap().len(),
        (1 << 20) + 4
    );
}

#[test]
fn a_mount_in_use_ends_without_its_server() {
    if is_left_out() {
        return;
    }
    let mut bed = Bed::new();
    let mut mount = bed.mount(&["--timeout", "1"]);
    let _open = File::create(mount.path("open")).unwrap();
    bed.server.kill();
    mount.signal("TERM");
    assert!(mount.wait().success());
    assert!(!is_mounted(&mount.directory));
}

fn is_mounted(directory: &Path) -> bool {
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
    let directory = directory.to_str().unwrap();
    mounts
        .lines()
        .any(|line| line.split(' ').nth(4) == Some(directory))
}

#[test]
fn a_volume_is_mounted_by_its_native_protocol() {
    if is_left_out() {
        return;
    }
    let place = Place::new();
    let volume = place.text("volume");
    succeed(&["volume", "create", &volume, "--io-servers", "4"]);
    let ports = ["--nfs-tcp", "127.0.0.1:0", "--nfs-rdma", "127.0.0.1:0"];
    let native = ["--native", "127.0.0.1:0", "--no-root-squash"];
    let server = Server::with(&[&["--volume", &volume][..], &ports, &native].concat());
    let (url, key) = (
        format!("gannet://{}/", server.native),
        format!("{volume}/client-key"),
    );
    let tree = place.path("tree");
    make_tree(&tree, 40);
    for mode in MODES {
        let options = [&["--volume-key", &key][..], mode].concat();
        let mount = Mount::of(&url, &place.path("mnt"), &options);
        must(
            Command::new("cp")
                .arg("-a")
                .arg(&tree)
                .arg(mount.path("tree")),
        );
        assert_same(&tree, &mount.path("tree"));
        mount.unmount();
        let mount = Mount::of(&url, &place.path("mnt"), &options);
        assert_same(&tree, &mount.path("tree"));
        must(Command::new("rm").arg("-r").arg(mount.path("tree")));
        mount.unmount();
    }
}

/// A volume of two I/O servers, each server a process.
struct VolumeBed {
    place: Place,
    volume: String,
    manager: Server,
    io_servers: Vec<Server>,
}

impl VolumeBed {
    fn new() -> VolumeBed {
        let place = Place::new();
        let volume = place.text("volume");
        succeed(&["volume", "create", &volume, "--io-servers", "2"]);
        let words = ["--volume", &volume, "--role", "manager"];
        let native = ["--native", "127.0.0.1:0", "--nfs-rdma", "off"];
        let manager = [&words[..], &native, &["--nfs-tcp", "127.0.0.1:0"]].concat();
        let mut bed = VolumeBed {
            manager: Server::with(&manager),
            place,
            volume,
            io_servers: Vec::new(),
        };
        for number in 0..2 {
            let server = bed.io_server(number);
            bed.io_servers.push(server);
        }
        bed
    }

    fn io_server(&self, number: usize) -> Server {
        let role = format!("io-server={number}");
        let words = ["--volume", &self.volume, "--role", &role, "--cores", "1"];
        let native = ["--native", "127.0.0.1:0", "--manager", &self.manager.native];
        Server::with(&[&words[..], &native].concat())
    }

    /// The largest object of an I/O server.
    fn largest(&self, number: usize) -> PathBuf {
        let folder = self.place.path(&format!("volume/io/{number}"));
        let objects = objects_below(&folder).into_iter();
        let sizes = objects.map(|path| (fs::metadata(&path).map_or(0, |it| it.len()), path));
        sizes.max().map_or(PathBuf::from("none"), |(_, path)| path)
    }
}

#[test]
fn a_copy_into_a_mounted_volume_outlives_crashes_of_its_io_servers() {
    if is_left_out() {
        return;
    }
    for mode in MODES {
        let mut bed = VolumeBed::new();
        let key = format!("{}/client-key", bed.volume);
        let url = format!("gannet://{}/", bed.manager.native);
        let options = [&["--volume-key", &key][..], mode].concat();
        let mount = Mount::of(&url, &bed.place.path("mnt"), &options);
        let (source, there) = (bed.place.path("source"), mount.path("copy"));
        fs::write(&source, bytes(3, 96 << 20)).unwrap();
        let copy = |from: &Path, to: &Path| Command::new("cp").arg(from).arg(to).spawn().unwrap();
        let mut writer = copy(&source, &there);
        for part in 1..5 {
            let victim = part as usize % 2;
            wait_until(&mut writer, || {
                fs::metadata(bed.largest(victim)).is_ok_and(|it| it.len() >= part * (8 << 20))
            });
            bed.io_servers[victim].kill();
            bed.io_servers[victim] = bed.io_server(victim);
        }
        assert!(writer.wait().unwrap().success());
        // Another mount reads the data from the servers, also while they crash.
        mount.unmount();
        let mount = Mount::of(&url, &bed.place.path("mnt"), &options);
        let back = bed.place.path("back");
        let mut reader = copy(&there, &back);
        for part in 1..3 {
            let victim = part as usize % 2;
            wait_until(&mut reader, || {
                fs::metadata(&back).is_ok_and(|it| it.len() >= part * (16 << 20))
            });
            bed.io_servers[victim].kill();
            bed.io_servers[victim] = bed.io_server(victim);
        }
        assert!(reader.wait().unwrap().success());
        assert!(fs::read(&back).unwrap() == fs::read(&source).unwrap());
        mount.unmount();
    }
}

#[test]
fn names_are_listed_while_an_io_server_is_away() {
    if is_left_out() {
        return;
    }
    let mut bed = VolumeBed::new();
    let key = format!("{}/client-key", bed.volume);
    let url = format!("gannet://{}/", bed.manager.native);
    let mount = || {
        let options = ["--volume-key", &key, "--timeout", "3"];
        Mount::of(&url, &bed.place.path("mnt"), &options)
    };
    let before = mount();
    let names = ["directory", "one", "two"].map(std::ffi::OsString::from);
    fs::create_dir(before.path("directory")).unwrap();
    names[1..]
        .iter()
        .for_each(|name| fs::write(before.directory.join(name), "x").unwrap());
    before.unmount();
    let mount = mount();
    bed.io_servers[1].kill();
    let list = || {
        let listed = fs::read_dir(&mount.directory).unwrap();
        let mut listed: Vec<_> = listed.map(|entry| entry.unwrap().file_name()).collect();
        listed.sort();
        listed
    };
    assert_eq!(list(), names);
    assert!(fs::metadata(mount.path("directory")).unwrap().is_dir());
    let error = fs::metadata(mount.path("one")).unwrap_err();
    assert_eq!(
        error.raw_os_error(),
        Some(rustix::io::Errno::IO.raw_os_error())
    );
    bed.io_servers[1] = bed.io_server(1);
    assert_eq!(list(), names);
    assert_eq!(fs::read(mount.path("one")).unwrap(), b"x");
    mount.unmount();
}

/// Waits until something has happened, or a program is done.
fn wait_until(program: &mut Child, happened: impl Fn() -> bool) {
    let began = Instant::now();
    while !happened() && program.try_wait().unwrap().is_none() {
        assert!(
            began.elapsed() < Duration::from_secs(300),
            "it does not go on"
        );
        std::thread::yield_now();
    }
}

#[test]
fn a_failure_to_mount_is_reported_on_one_line() {
    if is_left_out() {
        return;
    }
    let bed = Bed::new();
    let (url, mnt) = (bed.rdma(), bed.place.text("mnt"));
    let error = fail(&["mount", &url, &mnt], 1);
    assert!(error.contains("make the directory first"), "{error}");
    fs::write(&mnt, "a file").unwrap();
    assert!(fail(&["mount", &url, &mnt], 1).contains("not a directory"));
    fs::remove_file(&mnt).unwrap();
    fs::write(bed.share("file"), "text").unwrap();
    fs::create_dir(&mnt).unwrap();
    let error = fail(&["mount", &format!("{url}file"), &mnt], 1);
    assert!(error.contains("not a directory"), "{error}");
    let mount = bed.mount(&["--read-only"]);
    assert!(fail(&["mount", &url, &mnt], 1).contains("umount"));
    let refused = fs::write(mount.path("file"), "other").unwrap_err();
    assert_eq!(
        refused.raw_os_error(),
        Some(rustix::io::Errno::ROFS.raw_os_error())
    );
    assert_eq!(fs::read(mount.path("file")).unwrap(), b"text");
    mount.unmount();
}
