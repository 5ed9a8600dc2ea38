//! The instructions of an operation, counted by valgrind(1), beside the table `instructions.txt`.
//!
//! A child of this test replays operations in the simulator: client and server in one thread, one operation under way,
//! whole segments. Each operation is done some times before it is counted. The instructions are those of an unoptimized
//! build, of both ends and the simulator together: they tell that the way of an operation became longer, and not by how
//! much a server slows down.

use crate::support::{self, Addresses, Files, Running, export};

use gannet_iwarp::IwarpConfig;
use gannet_nfs::server::Server;
use gannet_rpc::Transport;
use gannet_runtime::Buffer;
use gannet_sim::store::{Disk, SimStore};
use gannet_sim::{LinkProfile, World};
use gannet_vfs::{CreateMode, SetAttributes, Stability};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::rc::Rc;

/// Operations before those that are counted, and those.
const BEFORE: u64 = 8;
const COUNTED: u64 = 32;
/// The part by which a count may grow.
const GROWTH_MAX: f64 = 0.02;
/// A variable that has the table written anew.
const RENEW: &str = "GANNET_RENEW_COUNTS";
/// The word to a child: the transport.
const REPLAY: &str = "GANNET_TEST_REPLAY";
/// The C library of another processor copies memory in another way, unless it is told to use the oldest one.
const TUNABLES: &str =
    "glibc.cpu.hwcaps=-AVX,-AVX2,-AVX512F,-AVX512VL,-ERMS,-FSRM,-SSSE3,-Fast_Unaligned_Copy";
/// Two frames of RDMA. In longer ones, the simulator's own copies hide what the engine does.
const LONG: u32 = 64 << 10;
const TRANSPORTS: [&str; 2] = ["tcp", "rdma"];
const OPERATIONS: [&str; 5] = ["getattr", "read-4k", "read-64k", "write-4k", "write-64k"];

/// A child's work; nothing else comes here with a word to follow.
#[test]
fn a_replay_of_another_test() {
    let Ok(transport) = std::env::var(REPLAY) else {
        return;
    };
    support::use_transport(match transport.as_str() {
        "tcp" => Transport::Tcp,
        _ => Transport::Rdma,
    });
    let world = World::new(7);
    world.set_links(LinkProfile {
        jitter_ns: 0,
        kibibyte_ns: 0,
        // Whole messages: a segment is what one end wrote.
        window: 8 << 20,
        reslice_per_mille: 0,
        ..LinkProfile::default()
    });
    let machine = world.add_node("machine");
    let store = SimStore::open(&Disk::new(&world), machine.runtime());
    let service = Rc::new(Server::new(vec![(export("/"), store)]).unwrap());
    let (runtime, addresses) = (machine.runtime(), Addresses::of(machine.ip()));
    let replayed = world.run(async move {
        let iwarp = IwarpConfig {
            crc: false,
            ..IwarpConfig::default()
        };
        let running = Running::share_by(&runtime, service, addresses, iwarp);
        replay(&running.mount(&runtime).await).await;
    });
    replayed.unwrap();
}

/// Does each operation, with a mark before and after those that are counted.
async fn replay(files: &Files) {
    let objects = files.objects();
    let how = CreateMode::Unchecked(SetAttributes::default());
    let made = objects.create(&files.root(), b"file", &how).await;
    let file = made.unwrap().handle;
    let memory = Buffer::zeroed(LONG as usize);
    let written = objects.write(&file, 0, memory, LONG, Stability::Unstable);
    let mut memory = written.await.unwrap().1;
    for operation in OPERATIONS {
        let len = if operation.ends_with("-4k") {
            4096
        } else {
            LONG
        };
        for number in 0..BEFORE + COUNTED {
            if number == BEFORE {
                mark();
            }
            if operation.starts_with("read") {
                let (read, back) = objects.read_into(&file, 0, len, memory).await.unwrap();
                assert_eq!(read.count, len);
                memory = back;
            } else if operation.starts_with("write") {
                let written = objects.write(&file, 0, memory, len, Stability::Unstable);
                let (written, back) = written.await.unwrap();
                assert_eq!(written.count, len);
                memory = back;
            } else {
                objects.attributes(&file).await.unwrap();
            }
        }
        mark();
    }
}

/// Has valgrind write down what it counted since the last mark.
#[inline(never)]
fn mark() {
    std::hint::black_box(0);
}

/// The instructions of each operation over a transport.
fn count(transport: &str) -> Vec<(String, u64)> {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--dump-before=*instructions::mark*"])
        .arg(format!("--callgrind-out-file={}", out.display()))
        .arg(std::env::current_exe().unwrap())
        // One thread of the harness runs the test itself.
        .args([
            "--exact",
            "instructions::a_replay_of_another_test",
            "--test-threads=1",
        ])
        .env(REPLAY, transport)
        .env("GLIBC_TUNABLES", TUNABLES)
        .output()
        .unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{error}");
    // The first part is that before the first mark; each operation has two, of which the second one counts.
    let counted = OPERATIONS.iter().enumerate().map(|(at, operation)| {
        let part = folder.path().join(format!("out.{}", 2 * at + 2));
        let part = std::fs::read_to_string(part).unwrap();
        let totals = part.lines().find_map(|line| line.strip_prefix("totals: "));
        let total: u64 = totals.unwrap().trim().parse().unwrap();
        (format!("{transport} {operation}"), total / COUNTED)
    });
    counted.collect()
}

fn table() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/all/instructions.txt")
}

#[test]
fn an_operation_takes_no_more_instructions_than_the_table_says() {
    if !cfg!(all(target_arch = "x86_64", target_env = "gnu")) {
        gannet_testing::left_out("the table has the instructions of x86-64 with the GNU C library");
        return;
    }
    if Command::new("valgrind").arg("--version").output().is_err() {
        gannet_testing::left_out("valgrind is not installed (apt-get install valgrind)");
        return;
    }
    let counted: Vec<(String, u64)> = std::thread::scope(|scope| {
        let threads = TRANSPORTS.map(|it| scope.spawn(|| count(it)));
        let counted = threads.map(|thread| thread.join().unwrap());
        counted.into_iter().flatten().collect()
    });
    let mut text =
        String::from("# Instructions of an operation, both ends and the simulator, unoptimized.\n");
    for (key, count) in &counted {
        writeln!(text, "{key}: {count}").unwrap();
    }
    if std::env::var_os(RENEW).is_some() {
        return std::fs::write(table(), text).unwrap();
    }
    // A tool that counted nothing would find no growth.
    assert!(counted.iter().all(|(_, count)| *count > 0), "{counted:?}");
    let table = std::fs::read_to_string(table()).unwrap();
    let lines = table.lines().filter_map(|line| line.split_once(": "));
    let before: BTreeMap<&str, f64> = lines
        .map(|(key, count)| (key, count.parse().unwrap()))
        .collect();
    let has_grown = |(key, count): &&(String, u64)| {
        let before = before.get(key.as_str()).copied().unwrap_or_default();
        *count as f64 > before * (1.0 + GROWTH_MAX)
    };
    let grown: Vec<&(String, u64)> = counted.iter().filter(has_grown).collect();
    assert!(
        grown.is_empty(),
        "these grew by more than 2 %: {grown:?}, beside\n{table}\nIf that is meant, renew the table and commit it: \
         {RENEW}=1 cargo test -p gannet-nfs --test all instructions"
    );
}
