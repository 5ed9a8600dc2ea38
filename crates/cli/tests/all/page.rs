//! The page for browsers, as a browser shows it: what it says, on wide and narrow windows, in both colour schemes.
//!
//! Where no browser is installed these tests are left out.

#![allow(clippy::unwrap_used)]

use crate::support;

use serde_json::{Value, json};
use std::fs;
use std::net::TcpStream;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};
use support::browser::{self, Browser};
use support::{FREE_PORT, Place, Server, succeed};

/// The least contrast of text with its background (WCAG 2, level AA).
const CONTRAST_MIN: f64 = 4.5;
/// Elements that are wider than what they are in.
const TOO_WIDE: &str = r#"[...document.querySelectorAll("body, header, main, section, table, td, th, dl, .chart")]
    .filter((one) => one.getBoundingClientRect().right > innerWidth
        || (one.clientWidth > 0 && one.scrollWidth > one.clientWidth + 1))
    .map((one) => `${one.tagName} ${one.id}: ${one.scrollWidth} in ${one.clientWidth}`)"#;
/// The least contrast of the colours of text with the backgrounds.
const CONTRAST: &str = r##"(() => {
    const style = getComputedStyle(document.documentElement);
    const light = (name) => {
        const hex = style.getPropertyValue(name).trim().replace(/^#(.)(.)(.)$/, "#$1$1$2$2$3$3");
        const [red, green, blue] = [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16) / 255)
            .map((part) => part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4);
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
    };
    const all = ["--background", "--panel"].flatMap((behind) =>
        ["--text", "--muted", "--link", "--good", "--bad", "--first", "--second", "--third", "--fourth"].map((name) => {
            const [one, other] = [light(name), light(behind)].sort((a, b) => b - a);
            return (one + 0.05) / (other + 0.05);
        }));
    return Math.min(...all);
})()"##;

fn browser_program() -> Option<&'static str> {
    let program = browser::program();
    if program.is_none() {
        gannet_testing::left_out(
            "Chromium is not installed (apt-get install chromium-headless-shell)",
        );
    }
    program
}

fn open(browser: &mut Browser, server: &Server) {
    let url = json!({ "url": format!("http://{}/", server.admin) });
    browser.call("Page.navigate", url);
    browser.wait_for("document.querySelector('#health')?.textContent === 'ready'");
}

/// The texts of the cells of a table's rows.
fn rows(browser: &mut Browser, table: &str) -> Vec<Vec<String>> {
    let rows = format!(
        "[...document.querySelectorAll('#{table} tbody tr')].map((row) => [...row.cells].map((cell) => cell.textContent.replaceAll('\\u00a0', ' ')))"
    );
    serde_json::from_value(browser.evaluate(&rows)).unwrap()
}

/// Has the page get `answer` for a path, in place of the server's own answer.
fn answer_for(browser: &mut Browser, path: &str, answer: &Value) {
    // The first script of a page that is opened from now on.
    let source = format!(
        "const real = window.fetch; window.fetch = (path, options) => path === {} \
         ? Promise.resolve(Response.json({answer})) : real(path, options);",
        Value::from(path)
    );
    let script = json!({ "source": source });
    browser.call("Page.addScriptToEvaluateOnNewDocument", script);
}

/// Calls that read a file of the server.
fn read(server: &Server) {
    succeed(&["cat", &format!("{}/file", server.urls()[1])]);
}

fn watched(place: &Place) -> Server {
    fs::write(place.path("share/file"), "A word, and another one.\n").unwrap();
    let share = place.text("share");
    Server::start(&place.path("state"), &[&share, "--admin", FREE_PORT])
}

/// Nothing came from elsewhere, and the page broke no rule of its own.
fn assert_clean(browser: &Browser, server: &Server) {
    let own = format!("http://{}/", server.admin);
    for event in browser.events("Network.requestWillBeSent") {
        let url = event["request"]["url"].as_str().unwrap();
        assert!(url.starts_with(&own), "{url}");
    }
    let exceptions = browser.events("Runtime.exceptionThrown");
    assert!(exceptions.is_empty(), "{exceptions:?}");
    for event in browser.events("Log.entryAdded") {
        let entry = &event["entry"];
        // A server without a list of clients answers 404, which browsers log.
        let is_missing_list = entry["url"] == format!("{own}clients.json");
        assert!(is_missing_list || entry["level"] != "error", "{entry}");
    }
}

#[test]
fn the_page_shows_health_rates_latencies_and_clients_at_every_width() {
    let Some(program) = browser_program() else {
        return;
    };
    let place = Place::new();
    let server = watched(&place);
    let mut browser = Browser::start(program, &place.path("profile"));
    let client = |id: u32, address: Value| {
        json!({ "id": id, "address": address, "tcp_connections": 1, "rdma_connections": 2, "native_connections": 0,
            "operations": 90000, "received_bytes": 1, "sent_bytes": 1,
            "minute": { "seconds": 60.0, "operations": 6000, "received_bytes": 6e6, "sent_bytes": 6e9 } })
    };
    let clients = [
        client(3, json!("2001:db8::1234:5678:9abc")),
        client(4, Value::Null),
        client(5, json!("192.168.100.100")),
    ];
    let list = json!({ "clients": clients, "more": 7 });
    answer_for(&mut browser, "/clients.json", &list);
    read(&server);
    open(&mut browser, &server);
    read(&server);
    // Between two readings, some of which came before the file was read again.
    let read_rate = "[...document.querySelectorAll('#latency tbody tr')].some((row) => row.cells[0].textContent === 'READ' \
        && parseFloat(row.cells[1].textContent) > 0)";
    browser.wait_for(read_rate);
    for width in [1280, 375] {
        browser.resize(width, 800);
        for scheme in ["light", "dark"] {
            browser.prefer(scheme);
            // Charts follow the width of the window a moment later.
            browser.wait_for_value(TOO_WIDE, &json!([]));
            let contrast = browser.evaluate(CONTRAST).as_f64().unwrap();
            assert!(contrast >= CONTRAST_MIN, "{scheme}: {contrast}");
            assert_eq!(
                browser.evaluate("document.querySelector('#health').textContent"),
                "ready"
            );
            let found = rows(&mut browser, "latency");
            let found = found.iter().find(|row| row[0] == "READ").unwrap();
            assert!(
                found[2].ends_with("s") && found[3].ends_with("s"),
                "{found:?}"
            );
            let found = rows(&mut browser, "clients");
            let expected = [
                "2001:db8::1234:5678:9abc",
                "1 TCP, 2 RDMA",
                "100",
                "100 kB/s",
                "100 MB/s",
            ];
            assert_eq!(found[0], expected);
            assert_eq!(found[1][0], "client 4");
        }
    }
    let note = browser.evaluate("document.querySelector('#clients-note').textContent");
    assert_eq!(
        note,
        "7 more clients have done less. Addresses are shown to networks that --admin-allow names."
    );
    let drawn = "[...document.querySelectorAll('.chart canvas')].map((it) => it.getContext('2d') \
        .getImageData(0, 0, it.width, it.height).data.some((byte) => byte !== 0))";
    assert_eq!(browser.evaluate(drawn), json!([true, true]));
    assert!(
        browser
            .evaluate("document.title")
            .as_str()
            .unwrap()
            .starts_with("ready – Gannet")
    );
    assert_clean(&browser, &server);
}

#[test]
fn the_page_shows_a_volume_and_takes_no_text_for_html() {
    let Some(program) = browser_program() else {
        return;
    };
    let place = Place::new();
    let server = watched(&place);
    let mut browser = Browser::start(program, &place.path("profile"));
    let mut status: Value =
        serde_json::from_str(&super::admin::get(&server, "/status.json").2).unwrap();
    let hostile = "<img src=x onerror=alert(1)>";
    status["health"] = json!({ "state": "stuck", "why": "cores [0] did not answer" });
    status["volume"] = json!({ "name": hostile, "term": 4, "io_servers": [
        { "number": 0, "address": "192.0.2.2:7401", "state": "ready", "since_seconds": 7200.0, "version": "0.1.0",
          "space_bytes": 2e12, "free_bytes": 1.5e12 },
        { "number": 1, "address": null, "state": "silent", "since_seconds": 12.5, "why": hostile,
          "next": "systemctl start gannet-volume@srv", "version": null, "space_bytes": null, "free_bytes": null },
    ], "findings": [{ "what": hostile, "next": "shown in the row" }, { "what": "I/O server 1 is silent.", "next": "systemctl start gannet-volume@srv" }] });
    answer_for(&mut browser, "/status.json", &status);
    browser.resize(375, 800);
    browser.call(
        "Page.navigate",
        json!({ "url": format!("http://{}/", server.admin) }),
    );
    browser.wait_for("document.querySelectorAll('#servers tbody tr').length === 2");
    let found = rows(&mut browser, "servers");
    assert_eq!(
        found[0],
        [
            "0",
            "ready ",
            "2 h 0 min",
            "192.0.2.2:7401",
            "1.50 TB of 2.00 TB"
        ]
    );
    let state = format!("silent {hostile} systemctl start gannet-volume@srv");
    assert_eq!(found[1], ["1", &state, "12.5 s", "–", "–"]);
    let health = browser.evaluate("document.querySelector('#health').textContent");
    assert_eq!(health, "stuck: cores [0] did not answer");
    let findings = browser.evaluate("document.querySelector('#findings').textContent");
    assert_eq!(
        findings,
        "I/O server 1 is silent. systemctl start gannet-volume@srv"
    );
    assert_eq!(browser.evaluate("document.images.length"), 0);
    browser.wait_for_value(TOO_WIDE, &json!([]));
    assert_clean(&browser, &server);
}

#[test]
fn the_page_lists_the_servers_clients_and_says_when_it_is_gone() {
    let Some(program) = browser_program() else {
        return;
    };
    let place = Place::new();
    let mut server = watched(&place);
    let mut browser = Browser::start(program, &place.path("profile"));
    let _connected = TcpStream::connect(&server.tcp).unwrap();
    open(&mut browser, &server);
    let listed = "document.querySelectorAll('#clients tbody tr').length === 1";
    browser.wait_for(listed);
    assert_eq!(rows(&mut browser, "clients")[0][1], "1 TCP");
    server.kill();
    browser
        .wait_for("document.querySelector('#health').textContent.startsWith('no answer since ')");
    assert_eq!(
        browser.evaluate("document.querySelector('#health').className"),
        "bad"
    );
}

#[test]
fn browsers_get_the_page_and_scripts_the_list_of_paths() {
    let place = Place::new();
    let server = watched(&place);
    let ask = |path: &str, accept: &str| {
        let host = &server.admin;
        let request = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nAccept: {accept}\r\n\r\n");
        super::admin::ask(TcpStream::connect(host).unwrap(), &request)
    };
    let browsers = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8";
    let (_, head, body) = ask("/", browsers);
    assert!(head.contains("content-type: text/html") && body.starts_with("<!doctype html>"));
    for part in [
        "default-src 'none'",
        "script-src 'self'",
        "frame-ancestors 'none'",
    ] {
        assert!(head.contains(part), "{part}: {head}");
    }
    assert!(!head.contains("unsafe"), "{head}");
    let (_, head, body) = ask("/", "*/*");
    assert!(head.contains("content-type: text/plain"), "{head}");
    assert!(body.contains("/metrics\n"), "{body}");
    let (_, head, _) = ask("/page.js", "*/*");
    assert!(head.contains("content-type: text/javascript"), "{head}");
    let (_, head, _) = ask("/metrics", browsers);
    assert!(
        head.contains("content-security-policy: default-src 'none'\r"),
        "{head}"
    );
}

/// Makes the README's picture out of five minutes of work: `cargo test -p gannet-cli --test all picture -- --ignored`.
#[test]
#[ignore = "makes a picture for people"]
fn the_picture_of_the_page() {
    let Some(program) = browser_program() else {
        return;
    };
    let place = Place::new();
    let share = place.text("share");
    let watched = ["--admin", FREE_PORT, "--admin-allow", "127.0.0.0/8"];
    let arguments = [&[&*share, "--no-root-squash"], &watched[..]].concat();
    let server = Server::start(&place.path("state"), &arguments);
    let mut browser = Browser::start(program, &place.path("profile"));
    browser.resize(1280, 860);
    browser.prefer("light");
    open(&mut browser, &server);
    browser.call("Emulation.setScrollbarsHidden", json!({ "hidden": true }));
    let tree = place.path("tree");
    support::make_tree(&tree, 40);
    let [tcp, rdma] = server.urls();
    let ended = Arc::new(AtomicBool::new(false));
    let reader = {
        let ended = Arc::clone(&ended);
        std::thread::spawn(move || {
            let threads = ["1", "2", "4", "3", "2"].iter().cycle();
            for threads in threads.take_while(|_| !ended.load(Relaxed)) {
                let work = ["--op", "randread", "--size", "8M", "--record", "64K"];
                let extent = ["--seconds", "20", "--threads", threads];
                succeed(&[&["bench", &*rdma], &work[..], &extent[..]].concat());
            }
        })
    };
    let began = Instant::now();
    for turn in 0.. {
        let (to, from) = (
            format!("{tcp}/in-{turn}"),
            place.text(&format!("out/{turn}")),
        );
        succeed(&["cp", "-r", tree.to_str().unwrap(), &to]);
        succeed(&["cp", "-r", &to, &from]);
        if began.elapsed() > Duration::from_secs(290) {
            break;
        }
    }
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/images/admin-page.png");
    browser.screenshot(&file);
    ended.store(true, Relaxed);
    reader.join().unwrap();
    assert!(fs::metadata(file).unwrap().len() < 200 << 10);
}
