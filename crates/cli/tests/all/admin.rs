//! A server as its administrator sees it: metrics, health, status, and readers who misbehave.

#![allow(clippy::unwrap_used)]

use crate::support;

use rustix::net::{AddressFamily, SocketType, bind, connect, socket};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde_json::Value;
use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};
use support::{FREE_PORT, Place, Server, bytes, fail, succeed};

/// A directory that is served, with an address for administrators.
fn watched(place: &Place, options: &[&str]) -> Server {
    let share = place.text("share");
    let arguments = [
        &[&*share, "--no-root-squash", "--admin", FREE_PORT],
        options,
    ]
    .concat();
    Server::start(&place.path("state"), &arguments)
}

/// The status line, the head and the body of an answer.
pub(crate) fn ask(mut stream: impl Read + Write, request: &str) -> (String, String, String) {
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let (status, head) = head.split_once("\r\n").unwrap();
    (status.to_owned(), head.to_lowercase(), body.to_owned())
}

pub(crate) fn get(server: &Server, path: &str) -> (String, String, String) {
    get_at(&server.admin, path)
}

/// The answer of the server or the mount at an admin address.
pub(crate) fn get_at(admin: &str, path: &str) -> (String, String, String) {
    let request = format!("GET {path} HTTP/1.1\r\nHost: {admin}\r\n\r\n");
    ask(TcpStream::connect(admin).unwrap(), &request)
}

/// The value of a line of `/metrics`, without which the count is 0.
pub(crate) fn metric(text: &str, name: &str) -> f64 {
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    line.map_or(0.0, |value| value.trim().parse().unwrap())
}

fn operations(text: &str, procedure: &str, status: &str) -> f64 {
    let labels = format!(r#"protocol="nfs3",procedure="{procedure}",status="{status}""#);
    metric(text, &format!("gannet_nfs_operations_total{{{labels}}}"))
}

fn is_near(figure: f64, counted: f64) -> bool {
    (figure - counted).abs() <= 0.01 * counted
}

#[test]
fn figures_agree_with_what_a_client_counts() {
    let place = Place::new();
    let server = watched(&place, &["--cores", "2"]);
    for (url, transport) in server.urls().into_iter().zip(["tcp", "rdma"]) {
        let before = get(&server, "/metrics").2;
        let measured = [
            "bench",
            &url,
            "--json",
            "--threads",
            "2",
            "--size",
            "4M",
            "--record",
            "64K",
            "--seconds",
            "0.5",
            "--op",
            "randread",
        ];
        let row: Value = serde_json::from_str(&succeed(&measured)).unwrap();
        let after = get(&server, "/metrics").2;
        let reads = operations(&after, "READ", "OK") - operations(&before, "READ", "OK");
        // A READ of each thread may be under way when the time of the measurement is over.
        let counted = row["ops"].as_f64().unwrap();
        assert!(
            is_near(reads, counted) || (counted..=counted + 2.0).contains(&reads),
            "{reads} READs, not {counted}"
        );
        let sent = |text| metric(text, "gannet_rpc_sent_bytes_total");
        let (sent, moved) = (sent(&after) - sent(&before), 65536.0 * reads);
        assert!(is_near(sent, moved), "{sent} bytes sent, for {moved} read");
        // Whether they left by sendfile(2) depends on the transport alone.
        let labels = format!("{{transport=\"{transport}\",engine=\"sendfile\"}}");
        let by_file = |text| metric(text, &format!("gannet_rpc_file_bytes_total{labels}"));
        let by_file = by_file(&after) - by_file(&before);
        assert!(is_near(by_file, moved), "{by_file} of {moved}: {after}");
        let placed = r#"gannet_rpc_rdma_replies_total{form="write-chunk"}"#;
        let placed = metric(&after, placed) - metric(&before, placed);
        let expected = if transport == "rdma" { reads } else { 0.0 };
        assert_eq!(placed, expected, "{after}");
        let times = r#"gannet_nfs_operation_seconds_count{protocol="nfs3",procedure="READ"}"#;
        assert_eq!(metric(&after, times), operations(&after, "READ", "OK"));
    }
    // The server notices the ends of connections in its own time.
    let deadline = Instant::now() + Duration::from_secs(30);
    let text = loop {
        let text = get(&server, "/metrics").2;
        let open = |transport| {
            metric(
                &text,
                &format!("gannet_rpc_open_connections{{transport=\"{transport}\"}}"),
            )
        };
        if open("tcp") + open("rdma") == 0.0 {
            break text;
        }
        assert!(Instant::now() < deadline, "connections stay open: {text}");
    };
    assert_eq!(metric(&text, "gannet_rpc_granted_credits"), 0.0, "{text}");
    assert_eq!(
        metric(&text, "gannet_budget_taken_connections"),
        0.0,
        "{text}"
    );
    assert_eq!(metric(&text, "gannet_ready"), 1.0);
    assert!(metric(&text, "gannet_registrations_total") > 0.0, "{text}");
    assert!(metric(&text, "gannet_pool_jobs_total") > 0.0, "{text}");
    // Nothing is left to do. Jobs whose answers have left may still close descriptors.
    for name in ["gannet_pool_jobs_queued", "gannet_pool_jobs_running"] {
        while metric(&get(&server, "/metrics").2, name) != 0.0 {
            assert!(Instant::now() < deadline, "{name}: {text}");
        }
    }
}

#[test]
fn failures_are_counted_by_their_status() {
    let place = Place::new();
    let server = watched(&place, &[]);
    let missing = format!("{}/missing", server.urls()[0]);
    fail(&["ls", &missing], 1);
    let text = get(&server, "/metrics").2;
    assert_eq!(operations(&text, "LOOKUP", "NOENT"), 1.0, "{text}");
    assert_eq!(operations(&text, "LOOKUP", "OK"), 0.0, "{text}");
    let mounts = r#"gannet_nfs_operations_total{protocol="mount3",procedure="MNT",status="OK"}"#;
    assert_eq!(metric(&text, mounts), 1.0, "{text}");
}

#[test]
fn status_and_health_are_json() {
    let place = Place::new();
    fs::write(place.path("share/file"), bytes(1, 1000)).unwrap();
    let server = watched(&place, &["--cores", "2"]);
    succeed(&["ls", &server.urls()[1]]);
    let (status, head, body) = get(&server, "/health");
    assert_eq!(
        (&*status, &*body),
        ("HTTP/1.1 200 OK", "{\"state\":\"ready\"}\n")
    );
    assert!(head.contains("content-type: application/json"), "{head}");
    let (status, _, body) = get(&server, "/status.json");
    assert_eq!(status, "HTTP/1.1 200 OK");
    let told: Value = serde_json::from_str(&body).unwrap();
    assert_eq!(told["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(
        (&told["cores"], &told["nfs_tcp"]),
        (&Value::from(2), &Value::from(server.tcp.clone()))
    );
    // The one that mounted works too.
    let accepted = &told["metrics"]["gannet_rpc_connections"]["samples"][0]["value"];
    assert_eq!(accepted, &Value::from(1.0), "{body}");
    // No path of this machine is told.
    assert!(!body.contains(&place.text("")), "{body}");
}

#[test]
fn a_volume_counts_for_each_role() {
    let place = Place::new();
    let volume = place.text("volume");
    succeed(&["volume", "create", &volume, "--io-servers", "2"]);
    let state = place.text("state");
    let key = format!("{volume}/client-key");
    let server = Server::with(&[
        "--volume",
        &volume,
        "--native",
        FREE_PORT,
        "--nfs-tcp",
        FREE_PORT,
        "--state-dir",
        &state,
        "--admin",
        FREE_PORT,
    ]);
    let (from, to) = (
        place.text("file"),
        format!("gannet://{}/file", server.native),
    );
    fs::write(&from, bytes(3, 1 << 20)).unwrap();
    succeed(&["cp", &from, &to, "--volume-key", &key]);
    let text = get(&server, "/metrics").2;
    for role in ["manager", "io-server"] {
        let requests = format!("gannet_volume_requests_total{{role=\"{role}\"}}");
        assert!(metric(&text, &requests) > 0.0, "{role}: {text}");
    }
    let received = metric(
        &text,
        r#"gannet_volume_received_bytes_total{role="io-server"}"#,
    );
    assert!(received >= f64::from(1 << 20), "{received}");
    let writes = metric(&text, "gannet_disk_write_seconds_count");
    assert!(writes >= 1.0, "{text}");
    // Each write and each sync is a job, or a part of one that a thread has run.
    assert!(metric(&text, "gannet_pool_jobs_total") > 0.0, "{text}");
    // A file that is complete is durable.
    let syncs = metric(&text, "gannet_disk_sync_seconds_count");
    assert!(syncs >= 2.0, "{text}");
    // A core that exports the volume is a client of it.
    let url = format!("nfs://{}/file", server.tcp);
    succeed(&["cp", &url, &place.text("back")]);
    let text = get(&server, "/metrics").2;
    let bytes = [
        "gannet_volume_client_registered_bytes_total",
        "gannet_volume_client_copied_bytes_total",
    ];
    let bytes: f64 = bytes.iter().map(|name| metric(&text, name)).sum();
    assert!(bytes >= f64::from(1 << 20), "{text}");
    // The servers publish these each second. The READs have asked for references to the objects.
    let entries = r#"gannet_volume_exported_entries{role="io-server"}"#;
    let deadline = Instant::now() + Duration::from_secs(30);
    while metric(&get(&server, "/metrics").2, entries) < 1.0 {
        assert!(Instant::now() < deadline, "no object is exported");
    }
}

/// A page of somebody else, in a browser on this host, can have its own name point here. Its requests have that name.
#[test]
fn requests_under_a_foreign_name_are_refused() {
    let place = Place::new();
    let server = watched(&place, &[]);
    let (address, _) = server.admin.split_once(':').unwrap();
    for (host, expected) in [
        ("attacker.example", 421),
        ("localhost", 200),
        ("localhost:80", 200),
        (address, 200),
        ("[::1]:9", 200),
        ("a b", 421),
    ] {
        let request = format!("GET /health HTTP/1.1\r\nHost: {host}\r\n\r\n");
        let (status, ..) = ask(TcpStream::connect(&server.admin).unwrap(), &request);
        assert!(
            status.starts_with(&format!("HTTP/1.1 {expected}")),
            "{host}: {status}"
        );
    }
    for (request, expected) in [
        ("POST /health", 405),
        ("GET /missing", 404),
        ("HEAD /metrics", 200),
        ("GET /../status.json", 404),
    ] {
        let request = format!("{request} HTTP/1.1\r\nHost: localhost\r\n\r\n");
        let (status, ..) = ask(TcpStream::connect(&server.admin).unwrap(), &request);
        assert!(
            status.starts_with(&format!("HTTP/1.1 {expected}")),
            "{request}: {status}"
        );
    }
}

#[test]
fn the_unix_socket_is_for_the_servers_user_alone_and_goes_with_it() {
    let place = Place::new();
    let (share, socket) = (place.text("share"), place.text("admin.sock"));
    let arguments = [&*share, "--admin", &*socket];
    let mut server = Server::start(&place.path("state"), &arguments);
    assert_eq!(server.admin, socket);
    let metadata = fs::metadata(&socket).unwrap();
    assert!(metadata.file_type().is_socket());
    assert_eq!(metadata.permissions().mode() & 0o777, 0o600);
    let (status, _, body) = ask(
        UnixStream::connect(&socket).unwrap(),
        "GET /health HTTP/1.0\r\n\r\n",
    );
    assert!(status.ends_with("200 OK"), "{status} {body}");

    let second = [
        "serve",
        &share,
        "--nfs-tcp",
        FREE_PORT,
        "--nfs-rdma",
        "off",
        "--admin",
        &socket,
    ];
    let error = fail(&second, 1);
    assert!(error.contains("another server answers"), "{error}");

    // A socket that a killed server left is replaced.
    server.kill();
    assert!(fs::metadata(&socket).is_ok());
    let mut server = Server::start(&place.path("state"), &arguments);
    server.signal("TERM");
    assert!(server.wait().success());
    assert!(fs::metadata(&socket).is_err());
}

#[test]
fn other_machines_are_named_before_they_may_read() {
    let place = Place::new();
    let share = place.text("share");
    let serve = ["serve", &share, "--nfs-tcp", FREE_PORT, "--nfs-rdma", "off"];
    let error = fail(&[&serve[..], &["--admin", "0.0.0.0:0"]].concat(), 1);
    assert!(error.contains("--admin-allow"), "{error}");
    let error = fail(
        &[&serve[..], &["--admin-allow", "192.0.2.0/24"]].concat(),
        2,
    );
    assert!(error.contains("--admin-allow has no effect"), "{error}");
    let error = fail(&[&serve[..], &["--admin", "9100"]].concat(), 2);
    assert!(
        error.contains("neither ADDRESS:PORT nor the path"),
        "{error}"
    );
    let config = place.path("config");
    fs::write(&config, format!("[admin]\nlisten = \"{FREE_PORT}\"\n")).unwrap();
    let config = config.to_str().unwrap().to_owned();
    let server = Server::start(&place.path("state"), &[&share, "--config", &config]);
    assert!(get(&server, "/health").0.ends_with("200 OK"));
}

/// Many readers, silent readers and endless heads cost a bounded number of connections, and clients of NFS nothing.
#[test]
fn readers_who_misbehave_disturb_nobody() {
    let place = Place::new();
    let server = watched(&place, &[]);
    let silent: Vec<_> = (0..200)
        .map(|_| TcpStream::connect(&server.admin).unwrap())
        .collect();
    succeed(&["ls", &server.urls()[0]]);
    // Those without a place are closed; the others are when their time is over.
    let closed = |stream: &TcpStream| {
        let mut stream = stream;
        stream.read(&mut [0]).map_or(true, |read| read == 0)
    };
    assert!(silent.iter().rev().take(100).all(closed));
    drop(silent);
    // Places are free again as soon as their readers have gone.
    let answered = |_| {
        let mut stream = TcpStream::connect(&server.admin).ok()?;
        stream
            .write_all(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
            .ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        answer.starts_with("HTTP/1.1 200").then_some(())
    };
    (0..10_000).find_map(answered).unwrap();
    let mut endless = TcpStream::connect(&server.admin).unwrap();
    endless.write_all(b"GET / HTTP/1.1\r\n").unwrap();
    // The server ends the connection at the bound of a head.
    while endless.write_all(&[b'x'; 4096]).is_ok() {}
    assert!(get(&server, "/health").0.ends_with("200 OK"));
}

/// A thousand clients, each with an address of its own, cost a reader little: neither bytes nor time.
#[test]
fn a_thousand_clients_are_told_in_little_time() {
    // The soft limit of many systems has no room for them beside what other tests open.
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        ..limit
    };
    setrlimit(Resource::Nofile, raised).unwrap();
    let place = Place::new();
    let server = watched(&place, &["--admin-allow", "127.0.0.0/8"]);
    let to: SocketAddr = server.tcp.parse().unwrap();
    let connections: Vec<_> = (0..1000u32)
        .map(|number| connect_from(0x7f01_0001 + number, to))
        .collect();
    let told = || get(&server, "/clients.json").2;
    let all = |text: String| {
        let told: Value = serde_json::from_str(&text).unwrap();
        (told["clients"].as_array().unwrap().len() == 1000).then_some(text)
    };
    // The server takes them in its own time.
    let clients = (0..10_000).find_map(|_| all(told())).unwrap();
    assert!(clients.contains("\"127.1.3.232\""), "{clients}");
    assert!(clients.len() < 1 << 20, "{} bytes", clients.len());
    // The fastest of many: the machine may be busy with something else.
    let time = |path| {
        let one = |_| {
            let begun = Instant::now();
            let text = get(&server, path).2;
            assert!(text.len() < 1 << 20, "{path}: {} bytes", text.len());
            begun.elapsed()
        };
        (0..50).map(one).min().unwrap()
    };
    // Measured with the tests' build: 0.7 ms and 38 ms.
    for (path, milliseconds) in [("/metrics", 50), ("/clients.json", 500)] {
        let took = time(path);
        let most = Duration::from_millis(milliseconds);
        assert!(took < most, "{path}: {took:?}");
    }
    drop(connections);
}

/// A connection from an address of loopback.
fn connect_from(address: u32, to: SocketAddr) -> TcpStream {
    let from = SocketAddr::from((Ipv4Addr::from(address), 0));
    let socket = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    bind(&socket, &from).unwrap();
    connect(&socket, &to).unwrap();
    TcpStream::from(socket)
}
