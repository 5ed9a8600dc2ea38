//! A mount as its administrator sees it: numbers, health while its server is away, and `gannet top`.

use super::super::admin::{get_at, metric};
use super::Bed;
use super::support::mount::{Mount, is_left_out};
use super::support::{FREE_PORT, Place, Server, bytes, fail, succeed};
use serde_json::Value;
use std::fs::{self, File};
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

const READ_LEN: usize = 64 << 10;
const READS: usize = 200;

fn metrics(mount: &Mount) -> String {
    get_at(&mount.admin, "/metrics").2
}

fn json(mount: &Mount, path: &str) -> Value {
    serde_json::from_str(&get_at(&mount.admin, path).2).unwrap()
}

/// Requests of one kind with success.
fn answered(text: &str, kind: &str) -> f64 {
    let labels = format!(r#"protocol="fuse",procedure="{kind}",status="OK""#);
    metric(text, &format!("gannet_mount_operations_total{{{labels}}}"))
}

/// Asks again until `is_there`, for half a minute.
fn until<T>(mut ask: impl FnMut() -> T, is_there: impl Fn(&T) -> bool) -> T {
    let deadline = Instant::now() + Duration::from_secs(30);
    loop {
        let answer = ask();
        if is_there(&answer) {
            return answer;
        }
        assert!(Instant::now() < deadline, "it never came");
    }
}

/// Reads a file with as many READs, and returns the bytes.
fn read_in_parts(mount: &Mount, name: &str) {
    let file = File::open(mount.path(name)).unwrap();
    let mut part = vec![0; READ_LEN];
    for index in 0..READS {
        let offset = index * READ_LEN;
        file.read_exact_at(&mut part, offset as u64).unwrap();
    }
}

#[test]
fn requests_of_a_mount_are_counted_as_its_programs_make_them() {
    if is_left_out() {
        return;
    }
    let bed = Bed::new();
    let content = bytes(1, READS * READ_LEN);
    fs::write(bed.share("file"), &content).unwrap();
    // Without the kernel's cache each read(2) is one READ.
    let mount = bed.mount(&["--direct", "--admin", FREE_PORT]);
    assert!(get_at(&mount.admin, "/health").0.ends_with("200 OK"));
    read_in_parts(&mount, "file");
    fs::write(mount.path("written"), &content[..READ_LEN]).unwrap();
    fs::metadata(mount.path("missing")).unwrap_err();
    let text = metrics(&mount);
    let read = (READS * READ_LEN) as f64;
    assert_eq!(answered(&text, "READ"), READS as f64, "{text}");
    assert_eq!(metric(&text, "gannet_mount_read_bytes_total"), read);
    assert_eq!(
        metric(&text, "gannet_mount_written_bytes_total"),
        READ_LEN as f64
    );
    let labels = r#"{protocol="fuse",procedure="READ"}"#;
    let timed = format!("gannet_mount_operation_seconds_count{labels}");
    assert_eq!(metric(&text, &timed), READS as f64, "{text}");
    let missing = r#"{protocol="fuse",procedure="LOOKUP",status="ENOENT"}"#;
    let missing = metric(&text, &format!("gannet_mount_operations_total{missing}"));
    assert!(missing >= 1.0, "{text}");
    // The server has counted the same.
    for name in ["gannet_mount_waits_total", "gannet_mount_dirty_bytes"] {
        assert!(text.contains(&format!("\n{name} 0")), "{name}: {text}");
    }
    let status = json(&mount, "/status.json");
    assert_eq!(status["mount"]["protocol"], "nfs+rdma", "{status}");
    assert_eq!(status["mount"]["waiting_seconds"], Value::Null, "{status}");
    // Neither paths nor the server's name.
    let whole = status.to_string();
    assert!(!whole.contains(bed.place.path("mnt").to_str().unwrap()));
    mount.unmount();
}

#[test]
fn losses_of_the_kernels_pages_are_counted() {
    if is_left_out() {
        return;
    }
    let bed = Bed::new();
    fs::write(bed.share("file"), "first").unwrap();
    let mount = bed.mount(&["--admin", FREE_PORT, "--cache-age", "0.001"]);
    let dropped = || metric(&metrics(&mount), "gannet_mount_dropped_pages_total");
    fs::read(mount.path("file")).unwrap();
    let before = dropped();
    fs::read(mount.path("file")).unwrap();
    assert_eq!(dropped(), before);
    fs::write(bed.share("file"), "another").unwrap();
    assert_eq!(fs::read(mount.path("file")).unwrap(), b"another");
    assert!(dropped() > before);
    mount.unmount();
}

#[test]
fn a_mount_that_waits_for_its_server_says_since_when() {
    if is_left_out() {
        return;
    }
    let mut bed = Bed::new();
    fs::write(bed.share("file"), bytes(1, READ_LEN)).unwrap();
    let mount = bed.mount(&["--direct", "--admin", FREE_PORT]);
    let (path, addresses) = (mount.path("file"), bed.server.addresses());
    bed.server.kill();
    let reader = std::thread::spawn(move || fs::read(path).unwrap().len());
    let health = || get_at(&mount.admin, "/health");
    let (status, _, text) = until(health, |(status, ..)| !status.ends_with("200 OK"));
    assert!(status.ends_with("503 Service Unavailable"), "{status}");
    let health: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(health["state"], "waiting", "{text}");
    assert!(
        health["why"].as_str().unwrap().contains(" for 3 s"),
        "{text}"
    );
    let waiting = metric(&metrics(&mount), "gannet_mount_waiting_seconds");
    assert!(waiting >= 3.0, "{waiting}");
    let share = bed.place.text("share");
    let arguments = [&*share, "--no-root-squash"];
    bed.server = Server::start_at(&addresses, &bed.place.path("state"), &arguments);
    assert_eq!(reader.join().unwrap(), READ_LEN);
    assert!(get_at(&mount.admin, "/health").0.ends_with("200 OK"));
    let text = metrics(&mount);
    assert_eq!(metric(&text, "gannet_mount_waits_total"), 1.0, "{text}");
    assert!(
        metric(&text, "gannet_mount_wait_seconds_total") >= 3.0,
        "{text}"
    );
    assert!(
        metric(&text, "gannet_mount_reconnects_total") >= 1.0,
        "{text}"
    );
    mount.unmount();
}

#[test]
fn top_shows_a_mount_of_a_volume() {
    if is_left_out() {
        return;
    }
    let place = Place::new();
    let volume = place.text("volume");
    succeed(&["volume", "create", &volume, "--io-servers", "2"]);
    let served = Server::with(&["--volume", &volume, "--native", FREE_PORT]);
    let key = place.text("volume/client-key");
    let socket = place.text("admin.sock");
    let options = ["--volume-key", &key, "--admin", &socket, "--direct"];
    let url = format!("gannet://{}/", served.native);
    let mount = Mount::of(&url, &place.path("mnt"), &options);
    assert_eq!(mount.admin, socket);
    let mode = fs::metadata(&socket).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    fs::write(mount.path("file"), bytes(1, READS * READ_LEN)).unwrap();
    let look = || {
        read_in_parts(&mount, "file");
        let arguments = ["top", &socket, "--once", "--json", "--every", "0.2"];
        serde_json::from_str::<Value>(&succeed(&arguments)).unwrap()
    };
    // The READs fall into the time between both looks, or another time is needed.
    let stop = std::sync::atomic::AtomicBool::new(false);
    let is_read = |it: &&Value| it["procedure"] == "READ" && it["per_second"].as_f64() > Some(0.0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                read_in_parts(&mount, "file");
            }
        });
        let rates = until(look, |rates| {
            rates["operations"]
                .as_array()
                .unwrap()
                .iter()
                .any(|it| is_read(&it))
        });
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        let operations = rates["operations"].as_array().unwrap();
        let read = operations.iter().find(is_read).unwrap();
        assert_eq!(read["protocol"], "fuse", "{rates}");
        assert!(read["p50_seconds"].as_f64() > Some(0.0), "{rates}");
        assert!(rates["received_bytes_per_second"].as_f64() > Some(0.0));
    });
    let screen = succeed(&["top", &socket, "--once", "--every", "0.2"]);
    assert_eq!(screen.lines().nth(1), Some("ready"), "{screen}");
    let request = "GET /metrics HTTP/1.0\r\n\r\n";
    let text = super::super::admin::ask(UnixStream::connect(&socket).unwrap(), request).2;
    let registered = r#"gannet_volume_client_registrations_total{result="made"}"#;
    assert!(text.contains(registered), "{text}");
    mount.unmount();
    assert!(!fs::exists(&socket).unwrap(), "its socket stays");
}

#[test]
fn an_admin_address_that_cannot_be_is_explained_before_anything_is_mounted() {
    let place = Place::new();
    let directory = place.text("mnt");
    fs::create_dir_all(&directory).unwrap();
    let mount = ["mount", "nfs://127.0.0.1:1/", &directory];
    if is_left_out() {
        return;
    }
    let error = fail(&[&mount[..], &["--admin", "0.0.0.0:0"]].concat(), 1);
    assert!(error.contains("--admin-allow"), "{error}");
    let error = fail(
        &[&mount[..], &["--admin-allow", "192.0.2.0/24"]].concat(),
        2,
    );
    assert!(error.contains("--admin-allow has no effect"), "{error}");
}
