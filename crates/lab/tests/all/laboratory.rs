//! The binary: IOzone's mode on this machine and on simulated testbeds, and the papers.

use crate::support;

use serde_json::Value;
use std::fs;
use support::{Place, Server, fail, gannet_lab, succeed};

fn rows(lines: &str) -> Vec<Value> {
    lines
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

/// Panics unless every element is closed in its turn, and text is text.
fn assert_well_formed(document: &str) {
    let mut open = Vec::new();
    let mut rest = document.trim();
    assert!(rest.starts_with("<svg "), "{rest:.40}");
    while let Some(at) = rest.find('<') {
        assert!(!rest[..at].contains('>'), "{rest:.80}");
        let end = at + rest[at..].find('>').expect("a tag that does not end");
        let tag = &rest[at + 1..end];
        assert_eq!(tag.matches('"').count() % 2, 0, "{tag}");
        if let Some(name) = tag.strip_prefix('/') {
            assert_eq!(open.pop(), Some(name));
        } else if !tag.ends_with('/') {
            open.push(tag.split(' ').next().unwrap());
        }
        rest = &rest[end + 1..];
    }
    assert!(open.is_empty() && rest.is_empty(), "{open:?} {rest}");
}

/// Panics unless the parts of a row and its rest are its mean time.
fn assert_accounted(row: &Value) {
    let breakdown = &row["breakdown_us"];
    let parts = ["client", "server"].map(|side| {
        let parts = breakdown[side].as_object().unwrap().values();
        parts.map(|part| part.as_f64().unwrap()).sum::<f64>()
    });
    let whole = parts[0] + parts[1] + breakdown["rest"].as_f64().unwrap();
    // Each part is rounded to a nanosecond.
    assert!(
        (whole - row["mean_us"].as_f64().unwrap()).abs() < 0.1,
        "{row}"
    );
}

const SMALL: [&str; 7] = [
    "--threads",
    "1,2",
    "--record",
    "4K,64K",
    "--size",
    "256K",
    "--json",
];

#[test]
fn the_same_matrix_runs_here_and_on_a_testbed() {
    let place = Place::new();
    let (scratch, chart) = (place.text("out"), place.text("chart.svg"));
    let arguments = [
        ["bench", "iozone", "local", "profile:opensolaris"].as_slice(),
        &[
            "--registration",
            "dynamic,server-cache",
            "--scratch",
            &scratch,
        ],
        &["--simulated-time", "0.005", "--chart", &chart],
        &["--design", "read-write,read-read"],
        &SMALL,
    ]
    .concat();
    let rows = rows(&succeed(&arguments));
    assert_eq!(rows.len(), 2 * 2 * 2 * 4 * 6);
    let with = |design: &str| rows.iter().filter(|row| row["design"] == design).count();
    assert_eq!(with("read-read"), with("read-write"));
    for row in &rows {
        let is_simulated = row["target"] == "profile:opensolaris";
        assert_eq!(row["simulated"], is_simulated, "{row}");
        for key in [
            "mb_per_s",
            "ops_per_s",
            "mean_us",
            "p50_us",
            "p99_us",
            "seconds",
            "ops",
        ] {
            assert!(row[key].as_f64().unwrap() > 0.0, "{key}: {row}");
        }
        for key in ["client_cpu_percent", "server_cpu_percent"] {
            assert!(row[key].is_number(), "{key}: {row}");
        }
        assert_eq!(row["size"], 256 << 10);
        assert_eq!(row["registration"], row["server_registration"]);
        let breakdown = &row["breakdown_us"];
        assert!(breakdown["client"]["registration"].is_number(), "{row}");
        assert!(breakdown["server"]["file_system"].is_number(), "{row}");
        for (side, part) in [
            ("client", "protocol"),
            ("server", "wire"),
            ("server", "protocol"),
        ] {
            assert!(breakdown[side][part].as_f64().unwrap() > 0.0, "{row}");
        }
        assert_accounted(row);
    }
    assert_well_formed(&fs::read_to_string(chart).unwrap());
    assert_eq!(fs::read_dir(scratch).unwrap().count(), 0, "it cleans up");
}

/// A stream has taken a server's reply before the client has it, so the server's time lies within the client's wait. A
/// Send may end later: the client goes on while the server's core does not run yet.
#[test]
fn the_parts_of_a_record_are_its_whole_time() {
    let arguments = [
        "bench",
        "iozone",
        "local:tcp",
        "local",
        "--op",
        "write,read",
    ];
    let shape = [
        "--threads",
        "1",
        "--record",
        "64K,1M",
        "--size",
        "4M",
        "--json",
    ];
    let rows = rows(&succeed(&[&arguments[..], &shape].concat()));
    assert_eq!(rows.len(), 2 * 2 * 2);
    for row in &rows {
        let (mean, rest) = (&row["mean_us"], &row["breakdown_us"]["rest"]);
        let (mean, rest) = (mean.as_f64().unwrap(), rest.as_f64().unwrap());
        let overlap_max = if row["target"] == "local" { 0.5 } else { 0.05 };
        assert!((-overlap_max * mean..0.05 * mean).contains(&rest), "{row}");
    }
}

#[test]
fn a_server_elsewhere_tells_its_parts_at_its_admin_address() {
    let measured = |slow: &[&str]| {
        let place = Place::new();
        let socket = place.text("admin");
        let options = [&["--admin", &*socket], slow].concat();
        let server = Server::with(&place.path("share"), &place.path("state"), &options);
        let [url, _] = server.urls();
        let arguments = ["bench", "iozone", &url, "--server-admin", &socket];
        let shape = ["--threads", "1", "--record", "1M", "--size", "4M", "--json"];
        let arguments = [&arguments[..], &shape, &["--op", "write"]].concat();
        match slow {
            [] => fail(&arguments, 1),
            _ => succeed(&arguments),
        }
    };
    let refused = measured(&[]);
    assert!(refused.contains("--slow"), "{refused}");
    let rows = rows(&measured(&["--slow", "3600s"]));
    let parts = &rows[0]["breakdown_us"]["server"];
    assert!(parts["file_system"].as_f64().unwrap() > 0.0, "{}", rows[0]);
    assert_accounted(&rows[0]);
}

#[test]
fn a_simulated_row_is_the_same_every_time() {
    let arguments = [
        [
            "bench",
            "iozone",
            "profile:linux",
            "profile:sandia-ib:tcp",
            "--clients",
            "2",
        ]
        .as_slice(),
        &["--op", "read,randwrite", "--simulated-time", "0.005"],
        &SMALL,
    ]
    .concat();
    let first = succeed(&arguments);
    assert_eq!(first, succeed(&arguments));
    for row in rows(&first) {
        let is_tcp = row["target"] == "profile:sandia-ib:tcp";
        assert_eq!(row["registration"].is_null(), is_tcp, "{row}");
    }
}

#[test]
fn servers_elsewhere_are_measured_as_far_as_they_can_be_seen() {
    let place = Place::new();
    let server = Server::of(&place.path("share"), &place.path("state"));
    let pid = server.pid().to_string();
    for url in server.urls() {
        let plain = [["bench", "iozone", &url].as_slice(), &SMALL].concat();
        let watched = [plain.as_slice(), &["--server-pid", &pid]].concat();
        for (arguments, sees_server) in [(plain, false), (watched, true)] {
            let rows = rows(&succeed(&arguments));
            assert_eq!(rows.len(), 4 * 6);
            for row in rows {
                assert!(row["mb_per_s"].as_f64().unwrap() > 0.0, "{row}");
                assert_eq!(row["server_cpu_percent"].is_number(), sees_server, "{row}");
                let client = &row["breakdown_us"]["client"];
                assert!(client["wire"].as_f64().unwrap() > 0.0, "{row}");
                assert!(row["server_registration"].is_null(), "{row}");
            }
        }
        let left = fs::read_dir(place.path("share")).unwrap().count();
        assert_eq!(left, 0, "it cleans up");
    }
}

#[test]
fn several_machines_measure_a_server_together_and_repeat_it() {
    let place = Place::new();
    let server = Server::of(&place.path("share"), &place.path("state"));
    let pid = server.pid().to_string();
    let program = env!("CARGO_BIN_EXE_gannet-lab");
    for url in server.urls() {
        let words = [
            "bench", "iozone", &url, "--host", program, "--host", program,
        ];
        let more = ["--op", "write,read", "--repeats", "3", "--server-pid", &pid];
        let rows = rows(&succeed(&[&words[..], &more, &SMALL].concat()));
        assert_eq!(rows.len(), 4 * 2);
        for row in rows {
            let number = |name: &str| row[name].as_f64().unwrap();
            assert_eq!((number("clients"), number("repeats")), (2.0, 3.0), "{row}");
            assert!(number("mb_per_s_min") <= number("mb_per_s"), "{row}");
            assert!(number("mb_per_s") <= number("mb_per_s_max"), "{row}");
            assert!(number("cpu_s_per_mb") > 0.0, "{row}");
        }
    }
    let left = fs::read_dir(place.path("share")).unwrap().count();
    assert_eq!(left, 0, "all clean up");
}

#[test]
fn a_volume_is_measured_like_other_servers() {
    let place = Place::new();
    let (_server, url, key) = Server::of_volume(&place);
    let words = ["bench", "iozone", &url, "--volume-key", &key, "--json"];
    let ops = ["--op", "write,read"];
    // The last are more than a call of NFS moves.
    for [threads, size, record] in [["2", "1M", "64K"], ["1", "11M", "5M"]] {
        let what = ["--threads", threads, "--size", size, "--record", record];
        let lines = succeed(&[&words[..], &what, &ops].concat());
        assert_eq!(rows(&lines).len(), 2, "{lines}");
    }
}

#[test]
fn a_signal_ends_the_benchmark_and_leaves_no_file_behind() {
    let place = Place::new();
    let scratch = place.text("out");
    let mut bench = gannet_lab()
        .args([
            "bench",
            "iozone",
            "local",
            "--threads",
            "2",
            "--record",
            "4K",
        ])
        .args(["--size", "2G", "--scratch", &scratch])
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    // Its files are there as soon as it works.
    let share = || {
        let made = fs::read_dir(&scratch).unwrap().next()?.ok()?;
        let folder = fs::read_dir(made.path().join("share")).ok()?.next()?.ok()?;
        fs::read_dir(folder.path()).ok()?.next()
    };
    while share().is_none() {
        assert!(bench.try_wait().unwrap().is_none(), "it ended too early");
        std::thread::yield_now();
    }
    let sent = std::process::Command::new("kill")
        .args(["-s", "INT", &bench.id().to_string()])
        .status();
    assert!(sent.unwrap().success());
    let output = bench.wait_with_output().unwrap();
    let error = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{error}");
    assert!(error.contains("interrupted"), "{error}");
    assert_eq!(fs::read_dir(&scratch).unwrap().count(), 0, "{error}");
}

#[test]
fn what_makes_no_sense_is_refused_before_anything_is_measured() {
    for (arguments, part) in [
        (["profile:nowhere"].as_slice(), "there are opensolaris"),
        (&["nowhere"], "profile:NAME"),
        (&["http://h/"], "URL"),
        (&["local", "--size", "0"], "at least 1"),
        (&["local", "--record", "0"], "at least 1"),
        (&["local", "--size", "4K"], "--size is too small"),
        (&["local", "--threads", "0"], "0 is not in"),
        (&["local", "--clients", "2"], "simulated"),
        (&["local", "--server-pid", "1"], "processor time"),
        (&["profile:linux", "--simulated-time", "60"], "at most 10 s"),
        (
            &["profile:linux", "--registration", "all-physical"],
            "--trust-peer",
        ),
        (
            &["nfs://h/", "--server-registration", "fmr"],
            "gannet serve",
        ),
    ] {
        let error = fail(&[["bench", "iozone"].as_slice(), arguments].concat(), 2);
        assert!(error.contains(part), "{arguments:?}: {error}");
    }
    for (arguments, part) in [
        (["--record", "2M"], "NFS moves at most 1048576 bytes"),
        (["--size", "512K"], "--size is too small"),
    ] {
        let what = ["bench", "iozone", "nfs://h/"];
        let error = fail(&[&what[..], &arguments[..]].concat(), 2);
        assert!(error.contains(part), "{arguments:?}: {error}");
    }
    fail(&["papers", "nobody"], 2);
}

#[test]
#[ignore = "minutes without optimization: `cargo xtask ci` runs it with the release build"]
fn papers_print_a_row_for_each_claim_and_draw_their_figures() {
    let place = Place::new();
    // The shortest.
    let (paper, charts) = ("sandia", place.text("sandia"));
    let lines = rows(&succeed(&["papers", paper, "--json", "--charts", &charts]));
    let (rows, constants): (Vec<_>, Vec<_>) =
        lines.into_iter().partition(|line| line["row"].is_string());
    assert!(!rows.is_empty() && !constants.is_empty());
    for row in &rows {
        let keys = row.as_object().unwrap();
        for key in [
            "paper",
            "row",
            "kind",
            "published",
            "simulated",
            "within",
            "excluded",
            "sensitivity",
            "ablations",
            "note",
        ] {
            assert!(keys.contains_key(key), "{key}: {row}");
        }
        assert_eq!(row["paper"], paper);
        assert!(row["simulated"].is_number(), "{row}");
        assert!(row["ablations"]["registration cost 0"].is_number(), "{row}");
        assert_eq!(row["within"].is_null(), row["excluded"].is_string());
    }
    // All levels are rates of links and of a bus, which were put in.
    let levels = rows.iter().filter(|row| row["kind"] == "level");
    let excluded = levels.map(|row| row["excluded"].is_string());
    assert_eq!(excluded.collect::<Vec<_>>(), [true; 5]);
    for constant in &constants {
        let label = constant["label"].as_str().unwrap();
        assert!(["given", "derived", "assumed", "fitted"].contains(&label));
        assert!(!constant["source"].as_str().unwrap().is_empty());
    }
    let page = place.path("sandia/sandia.md");
    assert!(
        fs::read_to_string(&page)
            .unwrap()
            .contains("## Not reproduced")
    );
    let written = fs::read_dir(&charts)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let drawn: Vec<_> = written.filter(|path| *path != page).collect();
    for chart in &drawn {
        assert_well_formed(&fs::read_to_string(chart).unwrap());
    }
    // Drawn again it is the same, but for what somebody changed.
    fs::write(&drawn[0], "<svg></svg>").unwrap();
    let told = fail(&["papers", paper, &format!("--check={charts}")], 1);
    assert!(told.contains("1 files differ"), "{told}");
}

#[test]
fn registering_is_measured_for_every_strategy() {
    let measured = succeed(&["bench", "registration", "--json", "--seconds", "0.001"]);
    let rows = rows(&measured);
    for what in [
        "dynamic",
        "fmr",
        "server-cache",
        "client-cache",
        "all-physical",
    ] {
        let of_what = rows.iter().filter(|row| row["what"] == what);
        let (moved, kept): (Vec<_>, Vec<_>) = of_what.partition(|row| row["design"].is_string());
        let times = kept.iter().map(|row| row["register_us"].as_f64().unwrap());
        let times: Vec<f64> = times.collect();
        // Four reaches and five lengths.
        assert_eq!(times.len(), 20, "{what}");
        assert!(times.iter().all(|time| *time > 0.0), "{what}: {times:?}");
        // Two designs and four lengths.
        assert_eq!(moved.len(), 8, "{what}");
        for row in moved {
            assert!(row["mb_per_s"].as_f64().unwrap() > 0.0, "{row}");
            // An RDMA Write of the software RNIC takes memory as it is.
            let ends = match row["design"] == "read-read" {
                true => 2.0,
                false => 1.0,
            };
            match what {
                "dynamic" => assert_eq!(row["registrations"], ends, "{row}"),
                "all-physical" => assert_eq!(row["registrations"], 0.0, "{row}"),
                _ => {}
            }
        }
    }
}

#[test]
fn a_missing_device_is_one_line_with_a_cure() {
    let bench = |what, options: &[&'static str]| [&["bench", what], options].concat();
    for what in ["fabric", "registration"] {
        let device = ["--provider", "verbs", "--device", "127.0.0.1"];
        let told = fail(&bench(what, &device), 1);
        assert!(told.contains("the RDMA device of 127.0.0.1"), "{told}");
        let has_cure = [
            "install rdma-core",
            "rdma link",
            "rdma_ucm",
            "/dev/infiniband",
        ];
        assert!(has_cure.iter().any(|cure| told.contains(cure)), "{told}");
        let told = fail(&bench(what, &["--device", "127.0.0.1"]), 2);
        assert!(told.contains("--provider verbs"), "{told}");
    }
}
