//! A line of the result, as JSON and in the table.

use gannet_cli::bench::measure::rounded;
use gannet_cli::failure::Failure;
use gannet_cli::{output, size, table};
use gannet_rpc::Design;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// One line of the result.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Row {
    pub(super) target: String,
    /// Measured in virtual time, on machines that are constants.
    pub(super) simulated: bool,
    pub(super) op: Cow<'static, str>,
    /// Client machines.
    pub(super) clients: u16,
    /// Threads of each.
    pub(super) threads: u16,
    /// Bytes of an operation.
    pub(super) record: u32,
    /// Bytes of each thread's file.
    pub(super) size: u64,
    /// How the clients registered; null on TCP.
    pub(super) registration: Option<Cow<'static, str>>,
    /// How the server did; null on TCP, and where that is not known.
    pub(super) server_registration: Option<Cow<'static, str>>,
    /// The end that moves the bulk data; null on TCP.
    pub(super) design: Option<Cow<'static, str>>,
    /// Operations that count.
    pub(super) ops: u64,
    pub(super) seconds: f64,
    /// The rate of the median repeat, from which all other numbers come too.
    pub(super) mb_per_s: f64,
    /// The rate of the slowest repeat.
    pub(super) mb_per_s_min: f64,
    /// The rate of the fastest repeat.
    pub(super) mb_per_s_max: f64,
    pub(super) repeats: u16,
    pub(super) ops_per_s: f64,
    pub(super) mean_us: f64,
    pub(super) p50_us: f64,
    pub(super) p99_us: f64,
    #[serde(flatten)]
    pub(super) cpu: Cpu,
    /// Mean time of one operation, by what it went into.
    pub(super) breakdown_us: Breakdown,
}

/// Processor time: 100 per cent is one processor all the time. Null where it is not known.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Cpu {
    pub(super) client_cpu_percent: Option<f64>,
    pub(super) server_cpu_percent: Option<f64>,
    pub(super) client_cpu_s_per_gb: Option<f64>,
    pub(super) server_cpu_s_per_gb: Option<f64>,
    /// Paper 002's measure, the sum of %cpu / 100 / file size: processor seconds of all machines for each megabyte.
    pub(super) cpu_s_per_mb: Option<f64>,
}

impl Cpu {
    /// The shares for processor seconds of each side, during `seconds` in which `bytes` moved.
    pub(super) fn new(client: Option<f64>, server: Option<f64>, seconds: f64, bytes: f64) -> Cpu {
        let percent = |cpu: f64| rounded(cpu / seconds.max(f64::MIN_POSITIVE) * 100.0, 2);
        let per_gb = |cpu: f64| rounded(cpu / (bytes.max(1.0) / 1e9), 4);
        Cpu {
            client_cpu_percent: client.map(percent),
            server_cpu_percent: server.map(percent),
            client_cpu_s_per_gb: client.map(per_gb),
            server_cpu_s_per_gb: server.map(per_gb),
            cpu_s_per_mb: (client.zip(server))
                .map(|(client, server)| rounded((client + server) / (bytes.max(1.0) / 1e6), 7)),
        }
    }
}

/// Where the time of an operation went, on either side.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct Breakdown {
    pub(super) client: Side,
    pub(super) server: Side,
    /// The mean time less all parts of both sides. Above zero it is unknown; below zero, parts overlap: both ends work
    /// at the same time, or the server behind its reply.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) rest: Option<f64>,
}

impl Breakdown {
    /// The parts of both sides, and the rest of a mean time in microseconds.
    pub(super) fn of(client: Side, server: Side, mean_us: f64) -> Breakdown {
        let known: f64 = client.parts().iter().chain(&server.parts()).sum();
        Breakdown {
            rest: Some(rounded(mean_us - known, 3)),
            client,
            server,
        }
    }
}

/// Microseconds of an operation on one side; what is not known is left out.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct Side {
    /// Real: revoking too.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) registration: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) deregistration: Option<f64>,
    /// Copies outside of the file system.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) copy: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) file_system: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) disk: Option<f64>,
    /// All other work of the side's cores.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) protocol: Option<f64>,
    /// Real: for a server its own receiving and sending; for a client its waits for replies, less the time of the
    /// server where that is known. Simulated: bytes on their way, on the side that sent them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) wire: Option<f64>,
    /// Waiting: for credits and places on real clients, for memory, threads and turns on real servers; simulated, for
    /// processors, adapters, links and disks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) queueing: Option<f64>,
}

impl Side {
    /// Names of the parts, as charts and tables have them.
    pub(super) const PARTS: [&'static str; 8] = [
        "registration",
        "deregistration",
        "copy",
        "file system",
        "disk",
        "protocol",
        "wire",
        "queueing",
    ];

    /// Their values in that order, 0 where nothing is known.
    pub(super) fn parts(&self) -> [f64; 8] {
        [
            self.registration,
            self.deregistration,
            self.copy,
            self.file_system,
            self.disk,
            self.protocol,
            self.wire,
            self.queueing,
        ]
        .map(|part| part.unwrap_or(0.0))
    }
}

/// Microseconds to a thousandth.
pub(super) fn micros(nanos: f64) -> f64 {
    rounded(nanos / 1e3, 3)
}

/// Prints the rows for people.
pub(super) fn show(rows: &[Row]) -> Result<(), Failure> {
    let header = [
        "target",
        "op",
        "record",
        "threads",
        "registration",
        "MB/s",
        "ops/s",
        "mean us",
        "p99 us",
        "client CPU %",
        "server CPU %",
        "register us",
        "copy us",
        "file system us",
        "queueing us",
    ];
    let cells: Vec<_> = rows.iter().map(cells).collect();
    output::line(&table::render(4, header, &cells))?;
    output::line(
        "Times: means of one operation, of both sides together as far as known.\n\
         CPU: 100 % is one processor.",
    )
}

fn cells(row: &Row) -> [String; 15] {
    let optional =
        |value: Option<f64>| value.map_or_else(|| String::from("-"), |it| format!("{it:.1}"));
    let Breakdown { client, server, .. } = &row.breakdown_us;
    let both = |part: fn(&Side) -> Option<f64>| {
        let known: Vec<f64> = [part(client), part(server)].into_iter().flatten().collect();
        optional((!known.is_empty()).then(|| known.iter().sum()))
    };
    let threads = match row.clients {
        1 => row.threads.to_string(),
        clients => format!("{clients}x{}", row.threads),
    };
    [
        row.target.clone(),
        row.op.clone().into_owned(),
        size::human(u64::from(row.record)),
        threads,
        row.strategies(),
        format!("{:.1}", row.mb_per_s),
        format!("{:.0}", row.ops_per_s),
        format!("{:.1}", row.mean_us),
        format!("{:.1}", row.p99_us),
        optional(row.cpu.client_cpu_percent),
        optional(row.cpu.server_cpu_percent),
        both(|side| Some(side.registration? + side.deregistration.unwrap_or(0.0))),
        both(|side| side.copy),
        both(|side| side.file_system),
        both(|side| side.queueing),
    ]
}

impl Row {
    /// The identity of its measurement: rows with the same one can be put together.
    pub(super) fn is_about(&self) -> (&str, &str, u16, u32, u64, String) {
        let Row {
            target,
            op,
            threads,
            record,
            size,
            ..
        } = self;
        (target, op, *threads, *record, *size, self.strategies())
    }

    /// The row in the middle of several of the same, which says how many there were and how far they lie apart.
    pub(super) fn middle_of(mut rows: Vec<Row>) -> Option<Row> {
        rows.sort_by(|one, other| one.mb_per_s.total_cmp(&other.mb_per_s));
        let (least, most) = (rows.first()?.mb_per_s, rows.last()?.mb_per_s);
        let repeats = u16::try_from(rows.len()).unwrap_or(u16::MAX);
        let middle = rows.swap_remove((rows.len() - 1) / 2);
        Some(Row {
            mb_per_s_min: least,
            mb_per_s_max: most,
            repeats,
            ..middle
        })
    }

    /// How the sides registered, in few words, and the design, unless it is the usual one; empty on TCP.
    pub(super) fn strategies(&self) -> String {
        let registration = match (&self.registration, &self.server_registration) {
            (Some(client), Some(server)) if client != server => {
                format!("{client}, server {server}")
            }
            (Some(client), _) => client.clone().into_owned(),
            (None, _) => String::new(),
        };
        match &self.design {
            Some(design) if *design != Design::default().name() => {
                format!("{registration}, {design}")
            }
            _ => registration,
        }
    }
}
