//! Files sent by one call: what data serving with RDMA found, in a coarse form, and `gannet-lab bench serving`.

use crate::support::{fail, succeed};
use gannet_datapath::Engine;
use gannet_lab::experiment::serving::{Pipes, Registered, ServingLoad, registration, run};
use gannet_lab::profiles::{SENDFILE_IB, SENDFILE_IB_4X};
use gannet_sim::nic::{Activity, Profile};
use serde_json::Value;

const FILE_LEN: usize = 16 << 20;

fn on(profile: &Profile, engine: Engine, pipes: Pipes, len: usize) -> f64 {
    run(profile, &ServingLoad::of(engine, pipes, len))
        .unwrap()
        .mb_per_s
}

fn rate(engine: Engine, pipes: Pipes, len: usize) -> f64 {
    on(&SENDFILE_IB, engine, pipes, len)
}

#[test]
fn pipes_pay_for_long_files_and_change_nothing_for_short_ones() {
    let pipes = Pipes {
        count: 6,
        len: 1 << 20,
    };
    for len in [16 << 10, 256 << 10, 1 << 20] {
        let dynamic = rate(Engine::Dynamic, Pipes { count: 1, len }, len);
        let pipelined = rate(Engine::Pipelined, pipes, len);
        assert!((0.95..1.05).contains(&(pipelined / dynamic)), "{len}");
    }
    let whole = Pipes {
        count: 1,
        len: FILE_LEN,
    };
    let dynamic = rate(Engine::Dynamic, whole, FILE_LEN);
    let pipelined = rate(Engine::Pipelined, pipes, FILE_LEN);
    let sendfile = rate(Engine::Sendfile, pipes, FILE_LEN);
    assert!(pipelined > 1.05 * dynamic, "{pipelined}, {dynamic}");
    assert!(sendfile > pipelined, "{sendfile}, {pipelined}");
    let [pipelined, sendfile] = [Engine::Pipelined, Engine::Sendfile]
        .map(|engine| on(&SENDFILE_IB_4X, engine, pipes, FILE_LEN));
    assert!(sendfile > 1.5 * pipelined, "{sendfile}, {pipelined}");
}

#[test]
fn sendfile_needs_less_memory_for_the_same_rate() {
    let pipes = Pipes {
        count: 4,
        len: 64 << 10,
    };
    let [pipelined, sendfile] =
        [Engine::Pipelined, Engine::Sendfile].map(|engine| rate(engine, pipes, FILE_LEN));
    assert!(sendfile > 1.15 * pipelined, "{sendfile}, {pipelined}");
    let gain = |engine| {
        let len = 1 << 20;
        let [one, two] = [1, 2].map(|count| rate(engine, Pipes { count, len }, FILE_LEN));
        two / one - 1.0
    };
    assert!(gain(Engine::Pipelined) > 2.0 * gain(Engine::Sendfile));
}

/// The paper's senders map a file that is open for writing. [`gannet_datapath::FileSender`] reads every piece.
#[test]
fn every_engine_but_sendfile_copies_each_byte_of_the_file() {
    let count = |engine, is_prepared| {
        let pipes = Pipes {
            count: 2,
            len: 64 << 10,
        };
        let load = ServingLoad {
            is_prepared,
            connections: 3,
            rounds: 2,
            ..ServingLoad::of(engine, pipes, 1 << 20)
        };
        let outcome = run(&SENDFILE_IB, &load).unwrap();
        assert_eq!(outcome, run(&SENDFILE_IB, &load).unwrap(), "it replays");
        assert_eq!((outcome.bytes, outcome.work), (6 << 20, 6 * 16));
        let pipes = if engine == Engine::Dynamic { 1 } else { 2 };
        assert_eq!(outcome.memory_peak, pipes * (64 << 10), "{engine}");
        (
            outcome.copied_bytes >> 20,
            outcome.server.events.registrations,
        )
    };
    for (engine, counted) in [
        (Engine::Static, (6, 0)),
        (Engine::Dynamic, (6, 96)),
        (Engine::Pipelined, (6, 96)),
        (Engine::Sendfile, (0, 96)),
    ] {
        for is_prepared in [false, true] {
            assert_eq!(count(engine, is_prepared), counted, "{engine}");
        }
    }
}

#[test]
fn a_processor_pays_for_the_copies_of_every_engine_but_sendfile() {
    let pipes = Pipes {
        count: 1,
        len: 1 << 20,
    };
    for engine in [Engine::Static, Engine::Dynamic, Engine::Pipelined] {
        let load = ServingLoad::of(engine, pipes, FILE_LEN);
        let free = ServingLoad {
            is_prepared: true,
            ..load
        };
        let [paid, free] = [load, free].map(|load| run(&SENDFILE_IB, &load).unwrap());
        let copied = paid.server.of(Activity::Copy).busy_ns;
        let rate = SENDFILE_IB.machine.copy_bytes_per_s;
        // Each piece is charged in whole nanoseconds.
        assert!(
            100 * copied >= 99 * rate.time_for(paid.copied_bytes),
            "{engine}"
        );
        assert_eq!(free.server.of(Activity::Copy).busy_ns, 0, "{engine}");
        assert!(paid.mb_per_s < 0.8 * free.mb_per_s, "{engine}");
    }
    let sent = run(
        &SENDFILE_IB,
        &ServingLoad::of(Engine::Sendfile, pipes, FILE_LEN),
    )
    .unwrap();
    assert_eq!(sent.server.of(Activity::Copy).busy_ns, 0);
}

#[test]
fn a_kernel_that_registers_its_own_pages_spares_the_walk() {
    let cost = |what, len| registration(&SENDFILE_IB, what, len).unwrap();
    let ratio = |len| {
        let (user, user_freed) = cost(Registered::Memory, len);
        let (kernel, kernel_freed) = cost(Registered::File, len);
        assert_eq!(user_freed, kernel_freed, "{len}");
        user.as_secs_f64() / kernel.as_secs_f64()
    };
    let (small, large) = (ratio(4 << 10), ratio(1 << 20));
    assert!(small < 1.1 && large > 2.0, "{small}, {large}");
}

fn rows(arguments: &[&str]) -> Vec<Value> {
    let words = [&["bench", "serving", "--json"], arguments].concat();
    let lines = succeed(&words);
    let rows = lines.lines();
    rows.map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

const SMALL: [&str; 8] = [
    "--pipes",
    "1,2",
    "--depth",
    "4K,16K",
    "--size",
    "100K",
    "--connections",
    "1,3",
];

#[test]
fn every_engine_is_measured_here_and_on_testbeds() {
    let here = rows(&[&SMALL[..], &["--repeats", "2"]].concat());
    let testbeds = ["--profile", "sendfile-ib,opensolaris"];
    let there = rows(&[&SMALL[..], &testbeds].concat());
    // 2 x 2 x 2 of three engines, 2 x 2 of dynamic; opensolaris has no sendfile.
    assert_eq!((here.len(), there.len()), (28, 28 + 20));
    for row in here.iter().chain(&there) {
        let simulated = row["simulated"] == true;
        assert_eq!(row["target"] == "local", !simulated, "{row}");
        assert_eq!(row["crc"].is_null(), simulated, "{row}");
        assert_eq!(row["repeats"], if simulated { 1 } else { 2 }, "{row}");
        let number = |key: &str| row[key].as_f64().unwrap_or_else(|| panic!("{key}: {row}"));
        assert!(number("mb_per_s") > 0.0 && number("mb_per_s_low") <= number("mb_per_s"));
        assert!(number("mb_per_s_high") >= number("mb_per_s"), "{row}");
        assert!(number("server_cpu_s_per_gb") >= 0.0, "{row}");
        let (pipes, depth) = (number("pipes"), number("depth"));
        assert!(number("memory_peak") <= pipes * depth, "{row}");
        assert_eq!(number("work"), (102_400.0 / depth).ceil(), "{row}");
        let registers = row["engine"] != "static" && (simulated || row["engine"] != "sendfile");
        let registrations = if registers { number("work") } else { 0.0 };
        assert_eq!(number("registrations"), registrations, "{row}");
        let is_copied = row["engine"] != "sendfile";
        assert_eq!(number("copies"), f64::from(u8::from(is_copied)), "{row}");
    }
}

#[test]
fn what_cannot_be_served_is_refused() {
    for (arguments, part) in [
        (["--engine", "magic"], "no engine is called"),
        (["--profile", "nowhere"], "there are opensolaris"),
        (["--depth", "65M"], "at most 64.0 MiB"),
        (["--pipes", "0"], "0 is not in"),
    ] {
        let error = fail(&[&["bench", "serving"][..], &arguments].concat(), 2);
        assert!(error.contains(part), "{arguments:?}: {error}");
    }
}
