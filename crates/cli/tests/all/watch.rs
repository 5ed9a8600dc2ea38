//! `gannet top` and `gannet clients`: what an administrator sees of a server at work.

#![allow(clippy::unwrap_used)]

use crate::support;

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};
use serde_json::Value;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::process::{Child, Command};
use support::{FREE_PORT, Load, Place, Server, fail, succeed};

fn watched(place: &Place, options: &[&str]) -> Server {
    let share = place.text("share");
    let arguments = [&[&*share, "--no-root-squash"], options].concat();
    Server::start(&place.path("state"), &arguments)
}

/// The first answer of `top --once --json` that a test waits for.
fn look_until(server: &Server, is_there: impl Fn(&Value) -> bool) -> Value {
    let look = || {
        let arguments = ["top", &server.admin, "--once", "--json", "--every", "0.2"];
        serde_json::from_str::<Value>(&succeed(&arguments)).unwrap()
    };
    let looks = (0..200).map(|_| look());
    looks.into_iter().find(|rates| is_there(rates)).unwrap()
}

fn reads(rates: &Value) -> Option<&Value> {
    let mut operations = rates["operations"].as_array()?.iter();
    operations.find(|it| it["procedure"] == "READ" && it["per_second"].as_f64() > Some(0.0))
}

#[test]
fn a_look_for_scripts_has_rates_latencies_and_clients() {
    let place = Place::new();
    let server = watched(
        &place,
        &["--admin", FREE_PORT, "--admin-allow", "127.0.0.0/8"],
    );
    let _loads = server.urls().map(|url| Load::of(&url));
    let rates = look_until(&server, |rates| {
        // A client that was not listed at the first look has no rates yet.
        let client = rates["clients"][0]["operations_per_second"].as_f64();
        let has_clients = rates["connections"].as_u64() >= Some(2) && client > Some(0.0);
        reads(rates).is_some() && has_clients
    });
    let read = reads(&rates).unwrap();
    assert_eq!(
        (&read["protocol"], &read["failures_per_second"]),
        (&"nfs3".into(), &0.0.into())
    );
    let (half, most) = (read["p50_seconds"].as_f64(), read["p99_seconds"].as_f64());
    assert!(half > Some(0.0) && half <= most, "{rates}");
    // Each READ sends 64 KiB; READs on both sides of a look are few.
    let sent = rates["sent_bytes_per_second"].as_f64().unwrap();
    assert!(
        sent > 32768.0 * read["per_second"].as_f64().unwrap(),
        "{rates}"
    );
    let client = &rates["clients"][0];
    assert_eq!(client["name"], "127.0.0.1", "{rates}");
    assert!(
        client["operations_per_second"].as_f64() > Some(0.0),
        "{rates}"
    );
}

#[test]
fn a_screen_fits_a_terminal_and_ends_with_a_key() {
    let place = Place::new();
    let server = watched(&place, &["--admin", FREE_PORT]);
    let _load = Load::of(&server.urls()[1]);
    look_until(&server, |rates| reads(rates).is_some());
    let once = succeed(&["top", &server.admin, "--once", "--every", "0.2"]);
    let (mut master, mut top) = on_a_terminal(&["top", &server.admin, "--every", "0.2"]);
    let mut screen = vt100::Parser::new(24.try_into().unwrap(), 80.try_into().unwrap(), 0);
    let mut read_until = |text: &str, absent: bool| {
        let mut bytes = [0; 4096];
        while screen.screen().contents().contains(text) == absent {
            let len = master.read(&mut bytes).unwrap();
            screen.process(&bytes[..len]);
        }
        screen.screen().contents()
    };
    let shown = read_until("nfs3 READ", false);
    for text in [&*once, &*shown] {
        let lines: Vec<_> = text.lines().map(str::trim_end).collect();
        assert!(
            lines.iter().all(|line| line.chars().count() <= 80),
            "{text}"
        );
        assert!(lines.len() <= 24, "{text}");
        assert_eq!(lines[1], "ready", "{text}");
        assert!(lines[2].contains(" ops/s  in "), "{text}");
        // Users of the machine see no addresses.
        assert!(text.contains("\nclient 1 "), "{text}");
        assert!(lines.last().unwrap().ends_with("q quit"), "{text}");
    }
    keep_capture(&shown);
    // A server that is gone is said on the screen, and the last rates stay.
    drop(server);
    assert!(read_until("no answer: ", false).contains(" ops/s  in "));
    master.write_all(b"q").unwrap();
    assert!(top.wait().unwrap().success());
}

/// A command on a terminal of 80 columns and 24 lines, which is the whole terminal that it has.
fn on_a_terminal(arguments: &[&str]) -> (File, Child) {
    let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&master).unwrap();
    unlockpt(&master).unwrap();
    let size = Winsize {
        ws_row: 24,
        ws_col: 80,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    tcsetwinsize(&master, size).unwrap();
    let name = ptsname(&master, Vec::new()).unwrap();
    let path = std::ffi::OsStr::from_bytes(name.as_bytes());
    let end = || {
        let mut options = fs::OpenOptions::new();
        options.read(true).write(true).open(path).unwrap()
    };
    let mut command = Command::new("setsid");
    command.args(["--ctty", "--wait"]).arg(support::binary());
    command.args(arguments).env("TERM", "xterm");
    command.stdin(end()).stdout(end()).stderr(end());
    (File::from(master), command.spawn().unwrap())
}

/// Where the capture is asked for, it is written there.
fn keep_capture(shown: &str) {
    if let Some(path) = std::env::var_os("GANNET_TOP_CAPTURE") {
        let lines: Vec<_> = shown.lines().map(str::trim_end).collect();
        fs::write(path, lines.join("\n") + "\n").unwrap();
    }
}

#[test]
fn clients_are_listed_with_their_work() {
    let place = Place::new();
    let socket = place.text("admin.sock");
    let server = watched(&place, &["--admin", &socket]);
    assert_eq!(
        succeed(&["clients", &socket]),
        "no client has a connection\n"
    );
    succeed(&["ls", &server.urls()[0]]);
    let _load = Load::of(&server.urls()[1]);
    look_until(&server, |rates| reads(rates).is_some());
    let text = succeed(&["clients", &socket]);
    assert!(text.starts_with("client  "), "{text}");
    assert!(text.contains("\n127.0.0.1  "), "{text}");
    let row: Value = serde_json::from_str(&succeed(&["clients", &socket, "--json"])).unwrap();
    assert_eq!(
        (&row["address"], &row["rdma_connections"]),
        (&"127.0.0.1".into(), &1.into())
    );
    let (all, lately) = (&row["operations"], &row["minute"]["operations"]);
    assert!(
        lately.as_u64() > Some(0) && lately.as_u64() <= all.as_u64(),
        "{row}"
    );
}

/// The names in a table of `top --once --json`.
fn names(rates: &Value, table: &str) -> Vec<String> {
    let rows = rates[table].as_array().unwrap().iter();
    rows.map(|row| row["name"].as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn the_busiest_exports_and_files_have_names_at_the_unix_socket_alone() {
    let place = Place::new();
    let socket = place.text("admin.sock");
    fs::create_dir(place.path("share/dir")).unwrap();
    fs::write(place.path("share/dir/often \x1b[2J"), vec![7; 1 << 20]).unwrap();
    let server = watched(&place, &["--admin", &socket]);
    let often = format!("{}/dir/often%20%1b[2J", server.urls()[0]);
    for copy in 0..20 {
        succeed(&["cp", &often, &place.text(&format!("out/{copy}"))]);
    }
    let rates = look_until(&server, |_| true);
    assert_eq!(names(&rates, "exports"), ["/"]);
    let files = names(&rates, "files");
    let expected = "/dir/often \\u{1b}[2J";
    assert!(files.iter().any(|name| name == expected), "{files:?}");
    assert!(files.iter().any(|name| name == "/dir"), "{files:?}");
    let rows = rates["files"].as_array().unwrap();
    let often = rows.iter().find(|row| row["name"] == expected).unwrap();
    let (sent, operations) = (
        &often["sent_bytes_per_second"],
        &often["operations_per_second"],
    );
    // A READ of 1 MiB for each copy, and few other calls about the file.
    let bytes_of_each = sent.as_f64().unwrap() / operations.as_f64().unwrap();
    assert!((100e3..1.1e6).contains(&bytes_of_each), "{often}");
    for (table, name) in [("exports", "\n/    "), ("files", expected)] {
        let text = succeed(&["top", &socket, "--once", "--every", "0.1", "--show", table]);
        assert!(text.contains(name), "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= 80));
    }

    let server = watched(&place, &["--admin", FREE_PORT]);
    succeed(&["ls", &server.urls()[0]]);
    let rates = look_until(&server, |_| true);
    assert_eq!(names(&rates, "exports"), ["export 0"]);
    assert_eq!(names(&rates, "files"), ["file 1"]);
}

#[test]
fn the_address_of_no_server_is_explained() {
    let place = Place::new();
    let error = fail(&["clients", &place.text("missing")], 1);
    assert!(error.contains("gannet serve --admin ADDR"), "{error}");
    let server = watched(&place, &["--admin", FREE_PORT]);
    let error = fail(&["top", &server.tcp, "--once"], 1);
    assert!(error.contains("after `admin=`"), "{error}");
    let error = fail(&["top", &server.admin], 2);
    assert!(error.contains("--once"), "{error}");
}
