//! `gannet-lab bench peers`: servers beside each other.

use crate::support;

use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader};
use std::process::Stdio;
use support::{Place, Server, fail, gannet_lab, succeed};

/// Small enough for a test.
const SMALL: [&str; 7] = [
    "--seconds",
    "0.05",
    "--size",
    "1M",
    "--names",
    "100",
    "--json",
];

fn start(place: &Place) -> Server {
    Server::of(&place.path("share"), &place.path("state"))
}

fn rows(lines: &str) -> Vec<Value> {
    let lines = lines.lines();
    lines
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

#[test]
fn servers_are_measured_beside_each_other() {
    let places = [Place::new(), Place::new()];
    let servers = [start(&places[0]), start(&places[1])];
    let first = format!("first={}", servers[0].urls()[0]);
    // RDMA beside TCP.
    let second = format!("second={}", servers[1].urls()[1]);
    let pid = format!("second={}", servers[1].pid());
    let cells = "null-x32,getattr-64conn,readdirplus,rand4k-x1,write1m-x16,create-x32";
    let arguments = [
        ["bench", "peers", &first, &second, "--pid", &pid].as_slice(),
        &["--cell", cells, "--rounds", "2"],
        &SMALL,
    ]
    .concat();
    let rows = rows(&succeed(&arguments));
    let of_rows: Vec<String> = rows
        .iter()
        .map(|row| format!("{} {}", row["cell"].as_str().unwrap(), row["server"]))
        .collect();
    let wanted = cells
        .split(',')
        .flat_map(|cell| ["first", "second"].map(|server| format!("{cell} \"{server}\"")));
    assert_eq!(of_rows, wanted.collect::<Vec<_>>());
    for row in &rows {
        for key in ["rate", "ops", "p50_us", "p99_us", "client_cpu_us_per_op"] {
            assert!(row[key].as_f64().unwrap() > 0.0, "{key}: {row}");
        }
        assert_eq!(row["rounds"], 2, "{row}");
        let is_second = row["server"] == "second";
        for key in ["ratio", "ratio_low", "ratio_high", "server_cpu_us_per_op"] {
            assert_eq!(
                row[key].as_f64().is_some_and(|it| it > 0.0),
                is_second,
                "{key}: {row}"
            );
        }
    }
    for place in &places {
        let left = fs::read_dir(place.path("share")).unwrap().count();
        assert_eq!(left, 0, "it cleans up");
    }
}

#[test]
fn a_server_beside_itself_has_a_ratio_within_its_interval() {
    let place = Place::new();
    let server = start(&place);
    let [url, _] = server.urls();
    let (one, other) = (format!("one={url}"), format!("other={url}"));
    let cells = ["--cell", "getattr-x1,lookup-x32", "--rounds", "8"];
    let arguments = [&["bench", "peers", &one, &other], &cells[..], &SMALL].concat();
    for row in rows(&succeed(&arguments)) {
        let Some(ratio) = row["ratio"].as_f64() else {
            continue;
        };
        // Wide: other tests take the processor from one of both for most of a sample.
        assert!((0.05..20.0).contains(&ratio), "{row}");
        let [low, high] = ["ratio_low", "ratio_high"].map(|key| row[key].as_f64().unwrap());
        assert!(low <= ratio && ratio <= high, "{row}");
    }
}

#[test]
fn a_cell_that_a_server_cannot_do_is_a_row_that_says_why() {
    let (place, ends) = (Place::new(), Place::new());
    let server = start(&place);
    let ending = start(&ends);
    let stays = format!("stays={}", server.urls()[0]);
    let ends = format!("ends={}", ending.urls()[0]);
    let mut bench = gannet_lab()
        .args(["bench", "peers", &stays, &ends, "--timeout", "1"])
        .args(["--cell", "null-x1,getattr-x1,null-x32", "--rounds", "1"])
        .args(SMALL)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(bench.stdout.take().unwrap()).lines();
    let first = lines.next().unwrap().unwrap();
    drop(ending);
    let rest: Vec<String> = lines.map(Result::unwrap).collect();
    let rows = rows(&[&[first], &rest[..]].concat().join("\n"));
    assert_eq!(rows.len(), 6, "{rows:?}");
    for row in &rows {
        if row["server"] == "stays" {
            assert!(row["rate"].as_f64().unwrap() > 0.0, "{row}");
        }
    }
    let error = rows[5]["error"].as_str().unwrap();
    assert!(
        error.contains("doctor") || error.contains("check"),
        "{error}"
    );
    // Its folder cannot be removed.
    let output = bench.wait_with_output().unwrap();
    let error = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{error}");
    assert!(error.lines().last().unwrap().contains("ends: "), "{error}");
}

#[test]
fn names_that_no_server_has_are_refused() {
    let one = "one=nfs://127.0.0.1:1/";
    let arguments = |more: &[&'static str]| [&["bench", "peers", one], more].concat();
    let twice = fail(&arguments(&[one]), 2);
    assert!(twice.contains("two servers are called `one`"), "{twice}");
    let unknown = fail(&arguments(&["--pid", "two=1"]), 2);
    assert!(
        unknown.contains("`two`") && unknown.contains("one"),
        "{unknown}"
    );
    let cell = fail(&arguments(&["--cell", "null-x2"]), 2);
    assert!(cell.contains("null-x2"), "{cell}");
    let bare = fail(&["bench", "peers", "nfs://127.0.0.1:1/"], 2);
    assert!(bare.contains("NAME=URL"), "{bare}");
    let away = fail(&["bench", "peers", one], 1);
    assert!(away.contains("one: "), "{away}");
}
