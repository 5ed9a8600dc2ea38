//! fio on a mount, while I/O servers of the volume are killed, stopped, and lose a disk. `cargo xtask copies` runs it
//! on the release binary. Elsewhere it is ignored, because it bounds a time.

use super::Bed;
use crate::support;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use support::mount::{Mount, is_left_out};

/// The longest wait of a program for a server that dies, beyond what the same program waits without that.
const STALL_MAX: Duration = Duration::from_secs(3);
/// Longer than the right of a server to serve its groups (2 s), so that others take these over.
const PAUSE: Duration = Duration::from_secs(5);
/// From the start of fio to the first fault, and between two of them.
const INTERVAL: Duration = Duration::from_secs(2);
/// The bytes of both files.
const FILE_BYTES: u64 = (12 + 96) << 20;
/// Two files, of small and of large writes. Each write is followed by fsync(2), so that no wait is hidden in the
/// mount, and fio reads each block back at once and at the end.
const JOBS: &str = "\
[global]
ioengine=psync
direct=1
verify=crc32c
verify_fatal=1
verify_state_save=0
fsync=1
[small]
bs=4k
size=12m
verify_backlog=16
[large]
bs=256k
size=96m
verify_backlog=4
";
/// Twelve seconds of writes.
const PACE: [&str; 2] = ["rate=,1m", "rate=,8m"];

/// fio, killed when dropped.
struct Fio {
    child: Child,
    report: PathBuf,
}

/// The longest waits that fio reported.
struct Waits {
    read: Duration,
    write: Duration,
    sync: Duration,
}

impl Waits {
    fn longest(&self) -> Duration {
        self.read.max(self.write).max(self.sync)
    }
}

impl Fio {
    /// Writes both files at [`PACE`] and verifies them, or reads and verifies them as fast as possible.
    fn start(bed: &Bed, mount: &Mount, mode: &str) -> Fio {
        let [small, large] = if mode == "randwrite" { PACE } else { ["", ""] };
        let jobs = JOBS.replace("[small]", &format!("rw={mode}\n[small]\n{small}"));
        let jobs = jobs.replace("[large]", &format!("[large]\n{large}"));
        let file = bed.place.path("jobs.fio");
        fs::write(&file, jobs).unwrap();
        let report = bed.place.path("fio.json");
        let mut command = Command::new("fio");
        command
            .args(["--output-format=json", "--output"])
            .arg(&report)
            .arg("--directory")
            .arg(&mount.directory)
            .arg(file)
            .current_dir(bed.place.path("out"))
            .stdin(Stdio::null());
        Fio {
            child: command.spawn().unwrap(),
            report,
        }
    }

    /// A fault has no meaning after fio's end.
    fn must_run(&mut self) {
        assert!(self.child.try_wait().unwrap().is_none(), "fio has ended");
    }

    /// Waits for its end, which must be without an error.
    fn finish(mut self, name: &str) -> Waits {
        let began = Instant::now();
        let status = self.child.wait().unwrap();
        let report = fs::read_to_string(&self.report).unwrap();
        assert!(status.success(), "{name}: {status}: {report}");
        let waits = waits_of(&self.report);
        println!(
            "fio, {name}: longest read {:?}, write {:?}, fsync {:?}; it ended {:?} later",
            waits.read,
            waits.write,
            waits.sync,
            began.elapsed()
        );
        waits
    }
}

impl Drop for Fio {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Reads fio's report: all bytes must have been read without an error.
fn waits_of(report: &Path) -> Waits {
    let text = fs::read_to_string(report).unwrap();
    // Warnings may come first.
    let json = &text[text.find('{').unwrap()..];
    let report: serde_json::Value = serde_json::from_str(json).unwrap();
    let jobs = report["jobs"].as_array().unwrap();
    let longest = |part: &str, of: &str| {
        let of_job = |job: &serde_json::Value| job[part][of]["max"].as_u64().unwrap_or(0);
        Duration::from_nanos(jobs.iter().map(of_job).max().unwrap())
    };
    assert!(jobs.iter().all(|job| job["error"] == 0), "{text}");
    let read = |job: &serde_json::Value| job["read"]["io_bytes"].as_u64().unwrap();
    assert_eq!(jobs.iter().map(read).sum::<u64>(), FILE_BYTES, "{text}");
    Waits {
        read: longest("read", "clat_ns"),
        write: longest("write", "clat_ns"),
        sync: longest("sync", "lat_ns"),
    }
}

impl Bed {
    fn kill(&mut self, number: usize) {
        self.io_servers[number].take().unwrap().kill();
    }

    fn start(&mut self, number: usize, more: &[&str]) {
        self.io_servers[number] = Some(self.io_server(number, more));
    }

    /// Reads all bytes of both files from the servers that are there.
    fn verify(&self, mount: &Mount, name: &str) {
        Fio::start(self, mount, "read").finish(name);
    }
}

#[test]
#[ignore = "cargo xtask copies"]
fn fio_sees_no_error_and_no_long_wait() {
    if is_left_out() || !fio_is_there() {
        return;
    }
    let mut bed = Bed::new(&["--copies", "2", "--same-host"]);
    bed.is_whole();
    let key = ["--volume-key", &bed.key];
    let mount = Mount::of(&bed.url(""), &bed.place.path("mnt"), &key);
    let control = Fio::start(&bed, &mount, "randwrite").finish("without a fault");
    let bound = STALL_MAX + control.longest();

    let mut fio = Fio::start(&bed, &mount, "randwrite");
    std::thread::sleep(INTERVAL);
    fio.must_run();
    bed.kill(1);
    let folder = bed.place.path("volume/io/1");
    fs::remove_dir_all(&folder).unwrap();
    std::thread::sleep(INTERVAL);
    fs::create_dir(&folder).unwrap();
    bed.start(1, &["--lost-disk", "1"]);
    fio.must_run();
    let lost = fio.finish("a lost disk").longest();
    bed.is_whole();

    let mut fio = Fio::start(&bed, &mount, "randwrite");
    std::thread::sleep(INTERVAL);
    let paused = bed.io_servers[2].as_ref().unwrap();
    paused.signal("STOP");
    std::thread::sleep(PAUSE);
    paused.signal("CONT");
    // It finds that it is out, and others begin to fill it.
    std::thread::sleep(INTERVAL / 2);
    bed.kill(2);
    std::thread::sleep(INTERVAL);
    fio.must_run();
    bed.start(2, &[]);
    let paused = fio.finish("a paused and killed server").longest();
    bed.is_whole();

    // Now the bytes that they were filled with count.
    for number in [0, 3] {
        bed.kill(number);
        bed.verify(&mount, &format!("without server {number}"));
        bed.start(number, &[]);
        bed.is_whole();
    }
    mount.unmount();
    let checked = bed.with_key(&["volume", "check", &bed.url("")]);
    assert!(checked.contains("0 findings"), "{checked}");
    println!("the longest wait: {lost:?} and {paused:?}, of {bound:?} allowed");
    assert!(lost.max(paused) < bound);
}

fn fio_is_there() -> bool {
    let found = Command::new("fio").arg("--version").output().is_ok();
    if !found {
        gannet_testing::left_out("fio is not installed (apt-get install fio)");
    }
    found
}
