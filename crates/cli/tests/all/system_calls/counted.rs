//! The system calls of an operation at server and client, beside the table `counts.txt`.
//!
//! One client has one operation under way, neither end polls, and the server has one core. A run of [`MANY`] operations
//! has the calls of a run of [`FEW`], and those of the operations between: set-up and end cancel out. What is left are
//! whole calls an operation, also on a busy machine: each call's count is rounded to a quarter, and the noise that this
//! takes away is below 0.1. Changes below an eighth of a call stay unseen. A volume's server rounds to whole calls.
//!
//! Calls that wait or wake a thread are not counted ([`NOT_COUNTED`]), nor those of memory: the scheduler decides their
//! number. Neither are some calls of operations with much data ([`Row::by_arrival`]).

use super::super::slow::strace_is_there;
use super::support::{self, FREE_PORT, Place, Server, succeed};

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// Operations of the two runs. The shorter one lasts until the names in the directory that the benchmark has just made
/// are old enough to be remembered: else the longer one would look more of them up anew.
const FEW: u32 = 410;
const MANY: u32 = 610;
/// The part by which a count may grow.
const GROWTH_MAX: f64 = 0.02;
/// Runs after one in which a count has grown.
const RUNS_MORE: usize = 6;
/// A variable that has the table written anew.
const RENEW: &str = "GANNET_RENEW_COUNTS";
/// Calls that wait, that wake another thread (an event descriptor is written), that manage memory or start threads.
const NOT_COUNTED: &str = "epoll_wait,epoll_pwait,epoll_pwait2,poll,ppoll,futex,write,sched_yield,restart_syscall,\
     mmap,munmap,mprotect,madvise,brk,clone3,rseq,set_robust_list,rt_sigprocmask,sigaltstack,prctl,gettid";

/// An operation that is counted over one transport.
#[derive(Debug, Clone, Copy)]
struct Row {
    transport: &'static str,
    name: &'static str,
    /// Its words for `gannet bench`.
    words: &'static [&'static str],
}

const GETATTR: &[&str] = &["stat", "--size", "1M"];
const LOOKUP: &[&str] = &["lookup", "--size", "1M"];
const READ_4K: &[&str] = &["randread", "--record", "4K", "--size", "1M"];
const READ_1M: &[&str] = &["read", "--record", "1M", "--size", "4M"];
const WRITE_4K: &[&str] = &["write", "--record", "4K", "--size", "1M"];
const WRITE_1M: &[&str] = &["write", "--record", "1M", "--size", "4M"];
const OPERATIONS: [(&str, &[&str]); 6] = [
    ("getattr", GETATTR),
    ("lookup", LOOKUP),
    ("randread-4k", READ_4K),
    ("read-1m", READ_1M),
    ("write-4k", WRITE_4K),
    ("write-1m", WRITE_1M),
];

impl Row {
    fn all_of(transport: &'static str) -> impl Iterator<Item = Row> {
        // A volume's other operations ask other servers, or none.
        let is_counted = move |name: &str| transport != "gannet" || name.ends_with("-1m");
        OPERATIONS
            .into_iter()
            .filter(move |(name, _)| is_counted(name))
            .map(move |(name, words)| Row {
                transport,
                name,
                words,
            })
    }

    /// Calls whose number depends on how much of a payload has arrived when an end looks: a mebibyte is more than a
    /// socket holds. An end of RDMA knows the length of each frame, and reads it in one call.
    fn by_arrival(&self, end: End) -> &'static [&'static str] {
        match (self.transport, end) {
            _ if !self.name.ends_with("-1m") => &[],
            ("tcp", _) => &["readv", "recvfrom"],
            ("rdma", _) => &["recvfrom"],
            // Messages of several I/O servers share a call if they are ready at the same time.
            (_, End::Client) => &["recvfrom", "sendto"],
            (_, End::Server) => &["recvfrom", "sendto", "readv"],
        }
    }

    /// The parts of a call to which counts are rounded. A volume's servers do some work by time.
    fn parts(&self, end: End) -> f64 {
        match (self.transport, end) {
            ("gannet", End::Server) => 1.0,
            _ => 4.0,
        }
    }
}

/// An end of a connection.
#[derive(Debug, Clone, Copy)]
enum End {
    Server,
    Client,
}

/// Calls by name.
type Calls = BTreeMap<String, f64>;

/// The calls of a row at one end, an operation.
struct Counted {
    /// Transport, operation and end.
    key: String,
    calls: Calls,
}

impl Counted {
    fn new(row: Row, end: End, few: &Calls, many: &Calls) -> Counted {
        let operations = f64::from(MANY - FEW);
        let parts = row.parts(end);
        let each = |(name, count): (&String, &f64)| {
            let before = few.get(name).copied().unwrap_or_default();
            let each = ((count - before) / operations * parts).round() / parts;
            let is_kept = each > 0.0 && !row.by_arrival(end).contains(&name.as_str());
            is_kept.then(|| (name.clone(), each))
        };
        Counted {
            key: format!("{} {} {end:?}", row.transport, row.name).to_lowercase(),
            calls: many.iter().filter_map(each).collect(),
        }
    }

    fn total(&self) -> f64 {
        self.calls.values().sum()
    }

    fn line(&self) -> String {
        let calls = self
            .calls
            .iter()
            .map(|(name, count)| format!("{name} {count}"));
        let calls: Vec<String> = calls.collect();
        format!("{}: {} = {}", self.key, self.total(), calls.join(", "))
    }
}

fn strace(log: &Path) -> Command {
    let mut command = Command::new("strace");
    // -D: a server stays this process's child. Calls that are left out do not stop a thread, by --seccomp-bpf.
    command.args(["-D", "-f", "-qq", "--seccomp-bpf", "-s", "0", "-e"]);
    command
        .arg(format!("trace=!{NOT_COUNTED}"))
        .arg("-o")
        .arg(log);
    command.arg(support::binary()).env_remove("GANNET_LOG");
    command
}

/// The calls in a part of a log, by name.
fn calls_in(log: &[u8]) -> Calls {
    let mut calls = Calls::new();
    for line in String::from_utf8_lossy(log).lines() {
        // `PID NAME(...`; a call that another one interrupts has two lines, and the second has no name in this place.
        let words = line.split_once(' ').map(|(_, rest)| rest.trim_start());
        let Some((name, _)) = words.and_then(|rest| rest.split_once('(')) else {
            continue;
        };
        // strace 6.1 is older than the call.
        let name = if name == "syscall_0x1c3" {
            "cachestat"
        } else {
            name
        };
        if name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
        {
            *calls.entry(name.to_owned()).or_default() += 1.0;
        }
    }
    calls
}

/// The log of a server that has done all that its last client asked for.
fn settled(log: &Path) -> Vec<u8> {
    let mut before = std::fs::read(log).unwrap();
    loop {
        std::thread::sleep(Duration::from_millis(100));
        let now = std::fs::read(log).unwrap();
        if now.len() == before.len() {
            return now;
        }
        before = now;
    }
}

/// A server whose calls are written down, on a file system in memory: others differ in the calls for a READ.
struct Traced {
    place: Place,
    /// Its URL, and the options of clients.
    client: Vec<String>,
    _server: Server,
}

impl Traced {
    fn start(transport: &str) -> Traced {
        let place = Place::inside(Path::new("/dev/shm"));
        let (share, state) = (place.text("share"), place.text("state"));
        let quiet = ["--cores", "1", "--busy-poll", "0", "--state-dir", &state];
        let listen = ["--nfs-tcp", FREE_PORT, "--nfs-rdma", FREE_PORT];
        let command = strace(&place.path("calls"));
        if transport == "gannet" {
            let volume = place.text("volume");
            succeed(&["volume", "create", &volume, "--io-servers", "4"]);
            let words = ["--volume", &volume, "--native", FREE_PORT];
            let words = [&words[..], &listen, &quiet].concat();
            let server = Server::of_command(command, &words);
            let url = format!("gannet://{}", server.native);
            let key = format!("{volume}/client-key");
            let client = vec![url, String::from("--volume-key"), key];
            return Traced {
                place,
                client,
                _server: server,
            };
        }
        let words = [&[&share, "--no-root-squash"], &listen[..], &quiet].concat();
        let server = Server::of_command(command, &words);
        let [tcp, rdma] = server.urls();
        let client = vec![if transport == "tcp" { tcp } else { rdma }];
        Traced {
            place,
            client,
            _server: server,
        }
    }

    /// The calls of a benchmark of so many operations: the server's, the client's.
    fn run(&self, row: Row, operations: u32) -> [Calls; 2] {
        let (server, client) = (self.place.path("calls"), self.place.path("client"));
        let before = settled(&server).len();
        let mut bench = strace(&client);
        bench
            .arg("bench")
            .args(&self.client)
            .arg("--op")
            .args(row.words);
        bench.args(["--threads", "1", "--busy-poll", "0"]);
        bench.args(["--operations", &operations.to_string()]);
        let output = bench.output().unwrap();
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{row:?}: {error}");
        let after = settled(&server);
        [calls_in(&after[before..]), calls_in(&settled(&client))]
    }

    fn count(&self, row: Row) -> [Counted; 2] {
        let [few_server, few_client] = self.run(row, FEW);
        let [many_server, many_client] = self.run(row, MANY);
        [
            Counted::new(row, End::Server, &few_server, &many_server),
            Counted::new(row, End::Client, &few_client, &many_client),
        ]
    }
}

/// Whether strace can trace here as the test needs it, and there is a file system in memory.
fn can_count() -> bool {
    if !Path::new("/dev/shm").is_dir() {
        gannet_testing::left_out("there is no /dev/shm");
        return false;
    }
    let tried = Command::new("strace")
        .args([
            "-D",
            "-f",
            "-qq",
            "--seccomp-bpf",
            "-o",
            "/dev/null",
            "true",
        ])
        .output();
    let works = tried.is_ok_and(|output| output.status.success());
    if !works {
        gannet_testing::left_out("strace --seccomp-bpf does not work here");
    }
    works
}

/// Whether the kernel tells which pages it has in memory. Where it does not, a server reads samples of them.
fn has_cachestat() -> bool {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    let mut numbers = release.split('.').map_while(|it| it.parse::<u32>().ok());
    let version = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    if version < (6, 5) {
        gannet_testing::left_out("READs of 1 MiB: Linux before 6.5 has no cachestat");
    }
    version >= (6, 5)
}

fn table() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/all/system_calls/counts.txt")
}

/// The totals of the table, by key.
fn totals(table: &str) -> BTreeMap<&str, f64> {
    let lines = table.lines().filter(|line| !line.starts_with('#'));
    let total = |line| {
        let (key, rest): (&str, &str) = str::split_once(line, ": ").unwrap();
        (key, rest.split_once(' ').unwrap().0.parse().unwrap())
    };
    lines.map(total).collect()
}

#[test]
fn an_operation_makes_no_more_calls_than_the_table_says() {
    if !strace_is_there() || !can_count() {
        return;
    }
    let has_cachestat = has_cachestat();
    let count = |transport| {
        let server = Traced::start(transport);
        Row::all_of(transport)
            .filter(|row| has_cachestat || row.name != "read-1m")
            .flat_map(|row| server.count(row))
            .collect::<Vec<_>>()
    };
    // At the same time: the counts do not depend on how busy the machine is.
    let count_all = || -> Vec<Counted> {
        std::thread::scope(|scope| {
            let threads = ["tcp", "rdma", "gannet"].map(|it| scope.spawn(move || count(it)));
            let counted = threads.map(|thread| thread.join().unwrap());
            counted.into_iter().flatten().collect()
        })
    };
    let mut counted = count_all();
    if std::env::var_os(RENEW).is_some() {
        let mut text = String::from(
            "# System calls of an operation: transport, operation, end: all of them = each of them.\n\
             # counted.rs has the rules.\n",
        );
        for counted in &counted {
            writeln!(text, "{}", counted.line()).unwrap();
        }
        return std::fs::write(table(), text).unwrap();
    }
    // A tool that counted nothing would find no growth.
    let nothing: Vec<_> = counted.iter().filter(|it| it.total() < 1.0).collect();
    assert!(nothing.is_empty(), "{}", nothing[0].line());
    let table = std::fs::read_to_string(table()).unwrap();
    let totals = totals(&table);
    let has_grown = |counted: &&Counted| {
        let before = totals.get(counted.key.as_str()).copied();
        counted.total() > before.unwrap_or_default() * (1.0 + GROWTH_MAX)
    };
    // What a server does once in five seconds (it looks whether a directory is still in the tree) may fall among the
    // operations of a slow run. A growth is there in each run.
    for _ in 0..RUNS_MORE {
        if counted.iter().any(|it| has_grown(&it)) {
            let again = count_all().into_iter();
            let pairs = counted.into_iter().zip(again);
            let least = |(one, other): (Counted, Counted)| {
                assert_eq!(one.key, other.key);
                if other.total() < one.total() {
                    other
                } else {
                    one
                }
            };
            counted = pairs.map(least).collect();
        }
    }
    let grown: Vec<String> = counted
        .iter()
        .filter(has_grown)
        .map(Counted::line)
        .collect();
    assert!(
        grown.is_empty(),
        "these grew by more than 2 %:\n{}\nbeside\n{table}\nIf that is meant, renew the table and commit it: \
         {RENEW}=1 cargo test -p gannet-cli --test all system_calls",
        grown.join("\n")
    );
    for counted in &counted {
        if counted.total() < totals[counted.key.as_str()] * (1.0 - GROWTH_MAX) {
            eprintln!(
                "fewer than in the table, renew it ({RENEW}=1): {}",
                counted.line()
            );
        }
    }
}
