//! `gannet locks`: who has and who waits for locks of a volume.

#![allow(clippy::unwrap_used)]

use crate::admin::ask;
use crate::support;

use serde_json::Value;
use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};
use support::mount::{Mount, is_left_out};
use support::{FREE_PORT, Place, Server, succeed};

/// The rows that the command prints.
fn rows(admin: &str) -> Vec<Value> {
    let text = succeed(&["locks", admin, "--json"]);
    let lines = text.lines();
    lines
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

/// The rows when `is_right` holds for one; the manager lists them every three seconds.
fn rows_with(admin: &str, is_right: impl Fn(&Value) -> bool) -> Vec<Value> {
    let until = Instant::now() + Duration::from_secs(30);
    loop {
        let rows = rows(admin);
        if rows.iter().any(&is_right) {
            return rows;
        }
        assert!(Instant::now() < until, "{rows:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The requests that the manager has answered.
fn requests(admin: &str) -> f64 {
    let request = "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let (_, _, text) = ask(UnixStream::connect(admin).unwrap(), request);
    let name = "gannet_volume_requests_total{role=\"manager\"}";
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    line.unwrap().trim().parse().unwrap()
}

#[test]
fn a_server_of_directories_has_no_locks() {
    let place = Place::new();
    let share = place.text("share");
    let server = Server::start(&place.path("state"), &[&share, "--admin", FREE_PORT]);
    assert!(succeed(&["locks", &server.admin]).starts_with("no locks: "));
    assert_eq!(rows(&server.admin), [Value::Null; 0]);
}

#[test]
fn locks_of_clients_and_those_that_wait_are_listed() {
    if is_left_out() {
        return;
    }
    let place = Place::new();
    let (volume, socket) = (place.text("volume"), place.text("admin.sock"));
    succeed(&["volume", "create", &volume, "--io-servers", "2"]);
    let fixed = ["--volume", &*volume, "--native", "127.0.0.1:0"];
    let server = Server::with(&[&fixed[..], &["--admin", &socket]].concat());
    assert_eq!(
        succeed(&["locks", &socket]),
        "no client has a lock or a grant\n"
    );
    fs::create_dir(place.path("other")).unwrap();
    let key = format!("{volume}/client-key");
    let url = format!("gannet://{}/", server.native);
    let options = ["--volume-key", &*key];
    let one = Mount::of(&url, &place.path("mnt"), &options);
    let other = Mount::of(&url, &place.path("other"), &options);
    fs::write(one.path("file"), "content").unwrap();
    let number = fs::metadata(one.path("file")).unwrap().ino();
    let held = File::open(one.path("file")).unwrap();
    held.lock().unwrap();
    let is_exclusive =
        |row: &Value, waits: bool| row["kind"] == "exclusive" && row["waits"] == waits;
    let listed = rows_with(&socket, |row| is_exclusive(row, false));
    let lock = listed.iter().find(|row| is_exclusive(row, false)).unwrap();
    assert_eq!(lock["file"], number);
    assert_eq!(
        (&lock["address"], &lock["end"]),
        (&"127.0.0.1".into(), &Value::Null)
    );
    assert!(lock["client"].as_u64() > Some(0), "{lock}");

    let before = requests(&socket);
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| File::open(other.path("file")).unwrap().lock());
        let listed = rows_with(&socket, |row| is_exclusive(row, true));
        // Those that wait are the first.
        assert!(is_exclusive(&listed[0], true), "{listed:?}");
        assert_eq!(listed[0]["file"], number);
        let text = succeed(&["locks", &socket]);
        assert!(text.starts_with("client "), "{text}");
        assert!(text.lines().any(|line| line.contains(" waits ")), "{text}");
        // The server answers a request that waits once a second, and not at once: the client would ask in a loop.
        let asked = requests(&socket) - before;
        assert!(asked < 1000.0, "{asked} requests while one waited");
        drop(held);
        waits.join().unwrap().unwrap();
    });
    one.unmount();
    other.unmount();
}
