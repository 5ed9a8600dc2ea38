//! The audit log and refusals, by real servers: who did what, who was refused by which check, hostile names, bounds.

#![allow(clippy::unwrap_used)]

use crate::admin::get;
use crate::support;

use serde_json::Value;
use std::ffi::OsStr;
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::{Duration, Instant};
use support::{FREE_PORT, Place, Server, fail, succeed};

/// A directory that is served with an audit log, for this machine.
fn audited(place: &Place, file: &str, options: &[&str]) -> Server {
    let (share, socket) = (place.text("share"), place.text("admin.sock"));
    let fixed = [&*share, "--admin", &*socket, "--audit-log", file];
    Server::start(&place.path("state"), &[&fixed[..], options].concat())
}

/// The lines of a file. Each is an object.
fn lines(file: &Path) -> Vec<Value> {
    let text = fs::read_to_string(file).unwrap_or_default();
    let whole = text
        .split_inclusive('\n')
        .filter(|line| line.ends_with('\n'));
    whole
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

/// Waits for a result that another thread or process brings about.
fn wait_for<T>(mut look: impl FnMut() -> Option<T>) -> T {
    let until = Instant::now() + Duration::from_secs(30);
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < until, "it does not come");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The first line with these values, which may come late.
fn line_with(file: &Path, values: &[(&str, &str)]) -> Value {
    let is_wanted = |line: &Value| values.iter().all(|(key, value)| line[*key] == *value);
    wait_for(|| lines(file).into_iter().find(is_wanted))
}

/// The answer to a metric of `/metrics`, asked at the Unix socket.
fn metric(server: &Server, name: &str) -> f64 {
    let request = "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let stream = std::os::unix::net::UnixStream::connect(&server.admin).unwrap();
    let (_, _, text) = crate::admin::ask(stream, request);
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    line.unwrap_or_else(|| panic!("no {name}"))
        .trim()
        .parse()
        .unwrap()
}

#[test]
fn mounts_changes_reloads_and_the_servers_life_are_lines() {
    let place = Place::new();
    fs::set_permissions(place.path("share"), PermissionsExt::from_mode(0o777)).unwrap();
    let audit = place.path("audit");
    let mut server = audited(&place, audit.to_str().unwrap(), &[]);
    fs::write(place.path("file"), "text").unwrap();
    for url in server.urls() {
        succeed(&["mkdir", &format!("{url}/a")]);
        succeed(&["cp", &place.text("file"), &format!("{url}/a/b")]);
        succeed(&["cat", &format!("{url}/a/b")]);
        succeed(&["rm", "-r", &format!("{url}/a")]);
    }
    let mode = fs::metadata(&audit).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    for transport in ["tcp", "rdma"] {
        let of = |event, procedure| {
            let wanted = [
                ("transport", transport),
                ("event", event),
                ("procedure", procedure),
            ];
            line_with(&audit, &wanted)
        };
        let mounted = of("mount", "MNT");
        assert_eq!(mounted["client"], "127.0.0.1");
        assert_eq!(
            (&mounted["path"], &mounted["status"]),
            (&"/".into(), &"OK".into())
        );
        let made = of("change", "MKDIR");
        assert_eq!((&made["name"], &made["export"]), (&"a".into(), &"/".into()));
        let own = rustix::process::geteuid().as_raw();
        assert_eq!(made["uid"], own);
        assert_eq!(made["as_uid"], if own == 0 { 65534 } else { own });
        assert!(made["handle"].as_str().unwrap().len() > 8);
        of("write", "WRITE");
        of("change", "RENAME");
        assert_eq!(of("change", "RMDIR")["name"], "a");
    }
    let reads = ["READ", "LOOKUP", "GETATTR"];
    let is_read = |line: &Value| reads.iter().any(|name| line["procedure"] == *name);
    assert!(!lines(&audit).iter().any(is_read));

    succeed(&["reload", &server.admin]);
    let reload = line_with(&audit, &[("event", "reload"), ("by", "admin")]);
    assert_eq!(reload["status"], "OK");
    assert_eq!(reload["outcome"], "exports: 0 new, 0 changed, 0 removed");
    server.signal("TERM");
    server.wait();
    let all = lines(&audit);
    assert_eq!(all[0]["event"], "start");
    assert_eq!(all[all.len() - 1]["event"], "stop");
}

#[test]
fn hostile_names_stay_in_their_lines() {
    let place = Place::new();
    let audit = place.path("audit");
    let server = audited(&place, audit.to_str().unwrap(), &["--no-root-squash"]);
    let name = OsStr::from_bytes(b"x\",\"event\":\"y\n\x1b[2J\xff\\");
    fs::create_dir(place.path("tree")).unwrap();
    fs::write(place.path("tree").join(name), "text").unwrap();
    let url = format!("{}/tree", server.urls()[0]);
    succeed(&["cp", "-r", &place.text("tree"), &url]);
    succeed(&["rm", "-r", &url]);
    let removed = line_with(&audit, &[("procedure", "REMOVE")]);
    assert_eq!(removed["event"], "change");
    assert_eq!(removed["name"], r#"x\",\"event\":\"y\n\u{1b}[2J\xff\\"#);
    let text = fs::read(&audit).unwrap();
    assert!(
        text.iter()
            .all(|byte| *byte == b'\n' || (b' '..0x7f).contains(byte))
    );
}

#[test]
fn the_file_is_rotated_and_opened_again() {
    let place = Place::new();
    let audit = place.path("audit");
    let config = format!(
        "[audit]\nfile = \"{}\"\nmax_size = \"16K\"\nkeep = 2\n",
        audit.display()
    );
    fs::write(place.path("config"), config).unwrap();
    let config = place.text("config");
    let options = [
        &*place.text("share"),
        "--config",
        &*config,
        "--no-root-squash",
    ];
    let server = Server::start(&place.path("state"), &options);
    support::make_tree(&place.path("tree"), 100);
    let url = server.urls()[0].clone();
    let size = |name: &str| fs::metadata(place.path(name)).map_or(0, |it| it.len());
    for round in 0..3 {
        succeed(&["cp", "-r", &place.text("tree"), &format!("{url}/{round}")]);
    }
    wait_for(|| (size("audit.2") > 0).then_some(()));
    for name in ["audit", "audit.1", "audit.2"] {
        assert!(size(name) <= 16 << 10, "{name}: {}", size(name));
        lines(&place.path(name));
    }
    assert!(!place.path("audit.3").exists());

    fs::rename(&audit, place.path("moved")).unwrap();
    server.signal("USR1");
    wait_for(|| audit.exists().then_some(()));
    // More than one: behind so many changes in a second, that of one directory may be left out.
    let mut number = 0;
    wait_for(|| {
        number += 1;
        succeed(&["mkdir", &format!("{url}/last-{number}")]);
        let is_last = |line: &Value| {
            line["name"]
                .as_str()
                .is_some_and(|name| name.starts_with("last-"))
        };
        lines(&audit).iter().any(is_last).then_some(())
    });
}

#[test]
fn older_files_survive_a_server_that_can_open_no_file() {
    let place = Place::new();
    let audit = place.path("audit");
    let config = format!(
        "[audit]\nfile = \"{}\"\nmax_size = \"16K\"\nkeep = 2\n",
        audit.display()
    );
    fs::write(place.path("config"), config).unwrap();
    for name in ["audit.1", "audit.2"] {
        fs::write(place.path(name), name).unwrap();
    }
    let (share, config) = (place.text("share"), place.text("config"));
    let options = [&*share, "--config", &*config];
    let server = Server::start(&place.path("state"), &options);
    let mut stream = TcpStream::connect(&server.tcp).unwrap();
    refused_call(&mut stream, 6, b"");
    // The connection is there already; nothing new can be opened.
    let pid = rustix::process::Pid::from_raw(server.pid().cast_signed());
    let limit_to = |files: Option<u64>| {
        let before = rustix::process::getrlimit(rustix::process::Resource::Nofile);
        let limit = rustix::process::Rlimit {
            current: files.or(before.current),
            maximum: before.maximum,
        };
        rustix::process::prlimit(pid, rustix::process::Resource::Nofile, limit).unwrap();
    };
    limit_to(Some(3));
    let size = || fs::metadata(&audit).map_or(0, |it| it.len());
    // Until the file is full, and then several batches more.
    wait_for(|| {
        refused_call(&mut stream, 6, b"");
        (size() > 15 << 10).then_some(())
    });
    for _ in 0..100 {
        refused_call(&mut stream, 6, b"");
        std::thread::sleep(Duration::from_millis(5));
    }
    assert!(size() > 15 << 10);
    for name in ["audit.1", "audit.2"] {
        assert_eq!(fs::read_to_string(place.path(name)).unwrap(), name);
    }
    limit_to(None);
    wait_for(|| {
        refused_call(&mut stream, 6, b"");
        (size() < 8 << 10).then_some(())
    });
    line_with(&audit, &[("event", "dropped")]);
    let moved = fs::read_to_string(place.path("audit.2")).unwrap();
    assert_eq!(moved, "audit.1");
    assert_eq!(lines(&place.path("audit.1"))[0]["event"], "start");
}

#[test]
fn a_full_disk_stops_no_call_and_is_counted() {
    let place = Place::new();
    let log = place.path("log");
    let logged = ["--no-root-squash", "--log-file", log.to_str().unwrap()];
    let server = audited(&place, "/dev/full", &logged);
    for name in ["a", "b", "c"] {
        succeed(&["mkdir", &format!("{}/{name}", server.urls()[0])]);
    }
    let lost = "gannet_audit_dropped_lines_total{reason=\"disk\"}";
    // The start, and a mount and a MKDIR of each command at least.
    wait_for(|| (metric(&server, lost) >= 7.0).then_some(()));
    assert_eq!(metric(&server, "gannet_audit_lines_total"), 0.0);
    let text = fs::read_to_string(log).unwrap();
    assert_eq!(
        text.matches("cannot write the audit log").count(),
        1,
        "{text}"
    );
}

#[test]
fn an_audit_log_that_cannot_be_written_is_an_error_at_the_start() {
    let place = Place::new();
    let share = place.text("share");
    std::os::unix::fs::symlink(place.path("out"), place.path("link")).unwrap();
    for path in [place.text("link"), place.text("missing/audit")] {
        let error = fail(&["serve", &share, "--audit-log", &path], 1);
        assert!(error.contains("cannot write the audit log"), "{error}");
    }
    fs::write(place.path("config"), "[audit]\nkeep = 2\n").unwrap();
    let error = fail(&["serve", &share, "--config", &place.text("config")], 2);
    assert!(error.contains("[audit] has no effect"), "{error}");
}

/// The reply to a call with this flavor and body of a credential.
fn refused_call(stream: &mut TcpStream, flavor: u32, credential: &[u8]) -> Vec<u8> {
    let words =
        |words: &[u32]| -> Vec<u8> { words.iter().flat_map(|word| word.to_be_bytes()).collect() };
    let mut message = words(&[7, 0, 2, 100_003, 3, 0, flavor, credential.len() as u32]);
    message.extend_from_slice(credential);
    message.extend(words(&[0, 0]));
    let mark = 1 << 31 | message.len() as u32;
    stream.write_all(&words(&[mark])).unwrap();
    stream.write_all(&message).unwrap();
    let mut reply = [0; 24];
    stream.read_exact(&mut reply).unwrap();
    reply.to_vec()
}

/// The same, over a connection of its own.
fn call(address: &str, flavor: u32, credential: &[u8]) -> Vec<u8> {
    refused_call(
        &mut TcpStream::connect(address).unwrap(),
        flavor,
        credential,
    )
}

#[test]
fn the_log_names_the_check_and_the_user_of_each_refusal() {
    let place = Place::new();
    let (audit, log) = (place.path("audit"), place.path("log"));
    fs::create_dir(place.path("share/closed")).unwrap();
    fs::set_permissions(place.path("share/closed"), PermissionsExt::from_mode(0o700)).unwrap();
    let config = format!(
        "[[export]]\npath = \"{0}\"\nname = \"/open\"\n\
         [[export]]\npath = \"{0}\"\nname = \"/fixed\"\nread_only = true\n\
         [[export]]\npath = \"{0}\"\nname = \"/port\"\nsecure = true\n\
         [[export]]\npath = \"{0}\"\nname = \"/else\"\nclients = [\"192.0.2.0/24\"]\n",
        place.text("share")
    );
    fs::write(place.path("config"), config).unwrap();
    let (text, config) = (log.to_str().unwrap(), place.text("config"));
    let options = [
        "--config",
        &*config,
        "--admin",
        FREE_PORT,
        "--audit-log",
        audit.to_str().unwrap(),
        "--log-file",
        text,
        "--log",
        "info",
    ];
    let server = Server::start(&place.path("state"), &options);
    let url = |path: &str| format!("{}{path}", server.urls()[0]);
    for (arguments, check, said) in [
        (
            ["mkdir", "/fixed/a"],
            "read_only_export",
            "call=MKDIR export=\"/fixed\"",
        ),
        (
            ["ls", "/port"],
            "port",
            "call=MNT export=\"/port\" path=\"/port\"",
        ),
        (
            ["ls", "/else"],
            "clients",
            "call=MNT export=\"/else\" path=\"/else\"",
        ),
    ] {
        fail(&[arguments[0], &url(arguments[1])], 1);
        let line = line_with(&audit, &[("event", "refusal"), ("check", check)]);
        assert_eq!(line["client"], "127.0.0.1");
        let log = fs::read_to_string(&log).unwrap();
        let line = log.lines().find(|line| line.contains(said)).unwrap();
        assert!(line.contains(&format!("check=\"{check}\"")), "{line}");
    }
    // Root of the client is nobody here.
    if rustix::process::geteuid().is_root() {
        fail(&["mkdir", &url("/open/closed/a")], 1);
        let line = line_with(&audit, &[("check", "permission")]);
        assert_eq!((&line["uid"], &line["as_uid"]), (&0.into(), &65534.into()));
        let log = fs::read_to_string(&log).unwrap();
        let said = "the file system's permissions deny it to this user";
        let line = log.lines().find(|line| line.contains(said)).unwrap();
        assert!(line.contains("uid=0 as_uid=65534"), "{line}");
    }
    // Stamp, name, user, group and 17 groups; then no credential at all, and RPCSEC_GSS.
    let many: Vec<u8> = [[0, 0, 1000, 100, 17], [0; 5]]
        .concat()
        .into_iter()
        .chain([0; 12])
        .flat_map(u32::to_be_bytes)
        .collect();
    for (flavor, body, check) in [
        (1, &*many, "too_many_groups"),
        (1, b"\0\0\0\0".as_slice(), "credential"),
        (6, b"", "flavor"),
    ] {
        // Denied, because of the credential.
        let reply = call(&server.tcp, flavor, body);
        assert_eq!(reply[12..20], [0, 0, 0, 1, 0, 0, 0, 1]);
        let line = line_with(&audit, &[("check", check)]);
        assert_eq!(line["status"], "REFUSED");
        let count = get(&server, "/metrics").2;
        let counted = format!("gannet_nfs_refusals_total{{check=\"{check}\"}} 1");
        assert!(count.contains(&counted), "{count}");
    }
    let line = line_with(&audit, &[("check", "too_many_groups")]);
    assert_eq!((&line["uid"], &line["gid"]), (&1000.into(), &100.into()));
}
