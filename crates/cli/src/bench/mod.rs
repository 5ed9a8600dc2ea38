//! `gannet bench`: a server under load.

mod interrupt;
pub mod load;
pub mod measure;
pub mod prepare;
mod tile;

use crate::cli::{BenchOp, BenchOptions, BenchWhat, ClientOptions, OptimisticSwitch};
use crate::failure::Failure;
use crate::table::{self, short};
use crate::{output, size};
use gannet::url::{Scheme, Url};
use load::{Load, LoadEnd, Measured, ReadCounters};
use measure::{Interrupt, check_records, in_folder, micros_at, rounded};
use prepare::Prepared;
use serde::Serialize;
use std::time::Duration;

/// For `stat`, this many bytes of `--size` stand for one file.
const BYTES_PER_FILE: u64 = 64 << 10;
/// Files of a `stat` row, at most.
const FILES_MAX: u64 = 16384;
/// One line of the result.
#[derive(Debug, Serialize)]
struct Row {
    /// `nfs+rdma` or `nfs`.
    path: &'static str,
    op: String,
    threads: u16,
    /// Operations in flight on each stream.
    in_flight: u16,
    /// Whether volumes are read without asking.
    #[serde(skip_serializing_if = "Option::is_none")]
    optimistic: Option<&'static str>,
    /// Bytes per operation; none for operations that move no data.
    record: u64,
    ops: u64,
    seconds: f64,
    mb_per_s: f64,
    ops_per_s: f64,
    p50_us: f64,
    p99_us: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    client_cpu_s_per_gb: Option<f64>,
    client_cpu_us_per_op: f64,
    /// How long calls of all streams together waited for credits; only RDMA has them.
    #[serde(skip_serializing_if = "Option::is_none")]
    credit_starved_ms: Option<f64>,
    /// Connections that were lost and made anew.
    reconnects: u64,
    /// Only RDMA registers memory.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    memory: Option<Memory>,
    /// Only volumes are read without asking.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    reads: Option<Reads>,
}

/// The counters of optimistic reads, over all streams of a row.
#[derive(Debug, Serialize)]
struct Reads {
    client_cache_hits: u64,
    directory_hits: u64,
    stale_hits: u64,
    directory_misses: u64,
    optimistic_reads: u64,
    refused_reads: u64,
    policy_switches: u64,
    attribute_hits: u64,
    attribute_stale: u64,
}

impl Reads {
    fn new(counters: &ReadCounters) -> Reads {
        let ReadCounters { data, attributes } = counters;
        let memory = &data.memory;
        Reads {
            client_cache_hits: memory.cache_hits,
            directory_hits: memory.directory_hits(),
            stale_hits: memory.stale_hits,
            directory_misses: memory.misses,
            optimistic_reads: data.reads,
            refused_reads: data.refused,
            policy_switches: data.policy.switches_off + data.policy.switches_on,
            attribute_hits: attributes.hits,
            attribute_stale: attributes.stale,
        }
    }
}

/// The counters of memory registration, over all streams of a row.
#[derive(Debug, Serialize)]
struct Memory {
    registration: &'static str,
    /// The design that the server agreed to.
    design: &'static str,
    registrations: u64,
    registration_hits: u64,
    pinned_bytes_peak: u64,
    register_ms: f64,
    deregister_ms: f64,
    copy_ms: f64,
    /// The longest that a key outlived its use.
    longest_exposure_ms: f64,
}

impl Memory {
    fn new(measured: &Measured, options: &BenchOptions) -> Option<Memory> {
        let counters = measured.registration?;
        let milliseconds = |time: Duration| rounded(time.as_secs_f64() * 1e3, 3);
        Some(Memory {
            registration: options.client.memory.registration.name(),
            design: measured.design.name(),
            registrations: counters.registrations,
            registration_hits: counters.hits,
            pinned_bytes_peak: counters.bytes_peak,
            register_ms: milliseconds(counters.register_time),
            deregister_ms: milliseconds(counters.deregister_time),
            copy_ms: milliseconds(counters.copy_time),
            longest_exposure_ms: milliseconds(counters.longest_exposure),
        })
    }
}

/// Measures what the command line says.
///
/// # Errors
/// The server cannot be reached, or an operation failed.
pub fn run(options: &BenchOptions) -> Result<(), Failure> {
    match (&options.what, &options.url) {
        (Some(BenchWhat::Tile(options)), _) => tile::run(options),
        (None, Some(url)) => run_server(url, options),
        // The parser insists on one of them.
        (None, None) => {
            Err(Failure::usage("wrong usage", "a URL is missing").hint("see `gannet bench --help`"))
        }
    }
}

fn run_server(url: &Url, options: &BenchOptions) -> Result<(), Failure> {
    if options.op.iter().any(|op| op.has_records()) {
        check_records(&options.record, options.size, url.scheme == Scheme::Native)?;
    }
    let interrupt = Interrupt::install()?;
    let client = plain(&options.client);
    let rows = in_folder(url, &client, &interrupt, |folder| {
        measure_all(folder, options, &interrupt)
    })?;
    if options.json {
        rows.iter().try_for_each(output::json)
    } else {
        show(&rows)
    }
}

fn measure_all(
    folder: &Url,
    options: &BenchOptions,
    interrupt: &Interrupt,
) -> Result<Vec<Row>, Failure> {
    let mut rows = Vec::new();
    for op in &options.op {
        let (files, client) = (stat_files(options), plain(&options.client));
        let prepared = Prepared {
            folder,
            size: options.size,
            files,
            client: &client,
        };
        prepared.make(*op, interrupt)?;
        // A record means nothing to an operation without data: one row is enough.
        let records = if op.has_records() {
            &options.record[..]
        } else {
            &[0]
        };
        for record in records {
            for threads in &options.threads {
                for optimistic in &switches(folder, options) {
                    let row = RowKey {
                        op: *op,
                        record: *record,
                        threads: *threads,
                        optimistic: *optimistic,
                    };
                    rows.push(measure(folder, row, options, interrupt)?);
                }
            }
        }
    }
    Ok(rows)
}

/// The variables of a row.
#[derive(Debug, Clone, Copy)]
struct RowKey {
    op: BenchOp,
    record: u64,
    threads: u16,
    /// Whether reads were optimistic, for volumes only.
    optimistic: Option<OptimisticSwitch>,
}

/// The options of the work between rows, which have a switch each.
fn plain(options: &ClientOptions) -> ClientOptions {
    let mut plain = options.clone();
    plain.native.optimistic.clear();
    plain
}

fn switches(folder: &Url, options: &BenchOptions) -> Vec<Option<OptimisticSwitch>> {
    let given = &options.client.native.optimistic;
    match folder.scheme {
        Scheme::Native if given.is_empty() => vec![Some(OptimisticSwitch::default())],
        Scheme::Native => given.iter().copied().map(Some).collect(),
        Scheme::Tcp | Scheme::Rdma => vec![None],
    }
}

fn stat_files(options: &BenchOptions) -> u64 {
    (options.size / BYTES_PER_FILE).clamp(1, FILES_MAX)
}

fn measure(
    folder: &Url,
    row: RowKey,
    options: &BenchOptions,
    interrupt: &Interrupt,
) -> Result<Row, Failure> {
    let RowKey {
        op,
        record,
        threads,
        optimistic,
    } = row;
    let mut client = ClientOptions {
        transfers: options.transfers.clone(),
        ..options.client.clone()
    };
    client.native.optimistic = optimistic.into_iter().collect();
    let load = Load {
        folder: folder.clone(),
        op,
        record: u32::try_from(record).unwrap_or(u32::MAX),
        streams: threads,
        threads,
        size: options.size,
        files: stat_files(options),
        end: (options.operations).map_or(LoadEnd::Time(options.seconds), LoadEnd::Operations),
        client,
        server: None,
        in_flight: options.in_flight,
        interrupt: interrupt.clone(),
    };
    let measured = load.run()?;
    let seconds = measured.seconds.max(f64::MIN_POSITIVE);
    let ops = measured.latency_ns.len();
    let bytes = (ops * record) as f64;
    let quantile = |share| rounded(micros_at(&measured.latency_ns, share), 1);
    let cpu = measured.cpu.as_secs_f64();
    let starved = rounded(measured.credit_starved.as_secs_f64() * 1e3, 3);
    Ok(Row {
        path: folder.scheme.name(),
        op: format!("{op:?}").to_lowercase(),
        threads,
        in_flight: options.in_flight,
        optimistic: optimistic.map(OptimisticSwitch::name),
        record,
        ops,
        seconds: rounded(seconds, 3),
        mb_per_s: rounded(bytes / 1e6 / seconds, 1),
        ops_per_s: rounded(ops as f64 / seconds, 1),
        p50_us: quantile(0.5),
        p99_us: quantile(0.99),
        client_cpu_s_per_gb: (record > 0).then(|| rounded(cpu / (bytes / 1e9), 3)),
        client_cpu_us_per_op: rounded(cpu * 1e6 / ops.max(1) as f64, 2),
        credit_starved_ms: (folder.scheme == Scheme::Rdma).then_some(starved),
        reconnects: measured.reconnects,
        memory: Memory::new(&measured, options),
        reads: measured.reads.as_ref().map(Reads::new),
    })
}

/// Prints the rows, and over RDMA a second table about memory.
fn show(rows: &[Row]) -> Result<(), Failure> {
    let Some(first) = rows.first() else {
        return Ok(());
    };
    let each = match first.in_flight {
        1 => String::from("1 operation"),
        several => format!("{several} operations"),
    };
    output::line(&format!("{}, {each} in flight on each stream:", first.path))?;
    output::line(&table_of(rows))?;
    let reconnects: u64 = rows.iter().map(|row| row.reconnects).sum();
    if reconnects > 0 {
        output::line(&format!(
            "{reconnects} connections were lost and made again"
        ))?;
    }
    let Some(memory) = rows.iter().find_map(|row| row.memory.as_ref()) else {
        return Ok(());
    };
    output::line(&format!(
        "\nmemory registration by the clients ({}, {}):",
        memory.registration, memory.design
    ))?;
    output::line(&memory_table(rows))
}

fn table_of(rows: &[Row]) -> String {
    let header = [
        "op",
        "threads",
        "record",
        "optimistic",
        "MB/s",
        "ops/s",
        "p50 us",
        "p99 us",
        "CPU us/op",
        "starved ms",
    ];
    let none = || table::NONE.to_owned();
    let cells = rows.iter().map(|row| {
        [
            row.op.clone(),
            row.threads.to_string(),
            record_of(row),
            row.optimistic.map_or_else(none, str::to_owned),
            short(row.mb_per_s),
            format!("{:.0}", row.ops_per_s),
            short(row.p50_us),
            short(row.p99_us),
            short(row.client_cpu_us_per_op),
            row.credit_starved_ms.map_or_else(none, short),
        ]
    });
    table::render(3, header, &cells.collect::<Vec<_>>())
}

fn record_of(row: &Row) -> String {
    match row.record {
        0 => table::NONE.to_owned(),
        record => size::human(record),
    }
}

fn memory_table(rows: &[Row]) -> String {
    let header = [
        "op",
        "threads",
        "record",
        "registered",
        "hits",
        "pinned",
        "register ms",
        "deregister ms",
        "copy ms",
        "exposed ms",
    ];
    let rows = rows
        .iter()
        .filter_map(|row| Some((row, row.memory.as_ref()?)));
    let cells = rows.map(|(row, memory)| {
        [
            row.op.clone(),
            row.threads.to_string(),
            record_of(row),
            memory.registrations.to_string(),
            memory.registration_hits.to_string(),
            size::human(memory.pinned_bytes_peak),
            short(memory.register_ms),
            short(memory.deregister_ms),
            short(memory.copy_ms),
            short(memory.longest_exposure_ms),
        ]
    });
    table::render(3, header, &cells.collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(path: &'static str, optimistic: Option<&'static str>, memory: Option<Memory>) -> Row {
        Row {
            path,
            op: String::from("randread"),
            threads: 1024,
            in_flight: 256,
            optimistic,
            record: 1 << 20,
            ops: 1_234_567,
            seconds: 2.0,
            mb_per_s: 12_345.6,
            ops_per_s: 123_456.7,
            p50_us: 12_345.6,
            p99_us: 123_456.7,
            client_cpu_s_per_gb: Some(0.123),
            client_cpu_us_per_op: 1234.5,
            credit_starved_ms: memory.is_some().then_some(123_456.7),
            reconnects: 0,
            memory,
            reads: None,
        }
    }

    #[test]
    fn the_tables_fit_a_terminal() {
        let memory = Memory {
            registration: "server-cache",
            design: "read-write",
            registrations: 1_234_567,
            registration_hits: 1_234_567,
            pinned_bytes_peak: 123 << 20,
            register_ms: 1234.5,
            deregister_ms: 1234.5,
            copy_ms: 12_345.6,
            longest_exposure_ms: 123.4,
        };
        let rdma = [row("nfs+rdma", None, Some(memory))];
        let volume = [row("gannet", Some("auto"), None)];
        for table in [table_of(&rdma), table_of(&volume), memory_table(&rdma)] {
            assert!(table.lines().all(|line| line.len() <= 80), "{table}");
        }
        assert_eq!(table_of(&rdma).lines().count(), 2, "{}", table_of(&rdma));
    }
}
