//! One line of the result.

use super::super::median::{median, median_interval};
use super::Case;
use gannet_cli::bench::measure::rounded;
use gannet_cli::failure::Failure;
use gannet_cli::{output, size, table};
use serde::Serialize;

/// See the options' help.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Row {
    /// `local` or `profile:NAME`.
    target: String,
    /// The row was measured in virtual time.
    simulated: bool,
    engine: &'static str,
    /// CRC-32C over every FPDU; null on testbeds.
    crc: Option<bool>,
    connections: usize,
    pipes: usize,
    /// Bytes of a pipe.
    depth: usize,
    /// Bytes of a file.
    size: usize,
    /// Samples.
    repeats: usize,
    /// 10^6 bytes per second of all connections together: the median, and the interval that holds it.
    mb_per_s: f64,
    mb_per_s_low: f64,
    mb_per_s_high: f64,
    /// Seconds of the server's processors for each 10^9 bytes, the same way.
    server_cpu_s_per_gb: f64,
    server_cpu_s_per_gb_low: f64,
    server_cpu_s_per_gb_high: f64,
    /// The most bytes that the pieces under way of one connection took.
    memory_peak: usize,
    /// Copies of each file's bytes by the sender, without its provider's. Registrations and work requests follow.
    copies: f64,
    registrations: f64,
    work: f64,
}

/// The samples of a case.
#[derive(Debug, Clone, Default)]
pub(super) struct Samples {
    /// 10^6 bytes per second.
    pub(super) mb_per_s: Vec<f64>,
    /// Seconds for each 10^9 bytes.
    pub(super) cpu_s_per_gb: Vec<f64>,
    pub(super) memory_peak: usize,
    /// Files sent in all samples.
    pub(super) files: u64,
    pub(super) copied_bytes: u64,
    pub(super) registrations: u64,
    pub(super) work: u64,
}

impl Row {
    /// A row of this machine, where `crc` is known, or of a testbed.
    pub(super) fn new(target: String, crc: Option<bool>, case: &Case, samples: &Samples) -> Row {
        let spread = |values: &[f64], digits| {
            let mut sorted = values.to_vec();
            sorted.sort_by(f64::total_cmp);
            let (low, high) = median_interval(&sorted);
            [median(&sorted), low, high].map(|value| rounded(value, digits))
        };
        let [mb_per_s, mb_per_s_low, mb_per_s_high] = spread(&samples.mb_per_s, 1);
        let [cpu, cpu_low, cpu_high] = spread(&samples.cpu_s_per_gb, 4);
        let each = |count: u64| rounded(count as f64 / samples.files.max(1) as f64, 3);
        Row {
            target,
            simulated: crc.is_none(),
            engine: case.engine.name(),
            crc,
            connections: case.connections,
            pipes: case.pipes,
            depth: case.depth,
            size: case.size,
            repeats: samples.mb_per_s.len(),
            mb_per_s,
            mb_per_s_low,
            mb_per_s_high,
            server_cpu_s_per_gb: cpu,
            server_cpu_s_per_gb_low: cpu_low,
            server_cpu_s_per_gb_high: cpu_high,
            memory_peak: samples.memory_peak,
            copies: rounded(each(samples.copied_bytes) / case.size.max(1) as f64, 3),
            registrations: each(samples.registrations),
            work: each(samples.work),
        }
    }
}

/// Prints rows as a table.
///
/// # Errors
/// Standard output is closed.
pub(super) fn show(rows: &[Row]) -> Result<(), Failure> {
    let header = [
        "target", "engine", "conns", "pipes", "depth", "MB/s", "low-high", "CPU s/GB", "memory",
        "copies", "regs",
    ];
    let cells = rows.iter().map(|row| {
        [
            row.target.clone(),
            row.engine.to_owned(),
            row.connections.to_string(),
            row.pipes.to_string(),
            size::human(row.depth as u64),
            format!("{:.0}", row.mb_per_s),
            format!("{:.0}-{:.0}", row.mb_per_s_low, row.mb_per_s_high),
            format!("{:.3}", row.server_cpu_s_per_gb),
            size::human(row.memory_peak as u64),
            row.copies.to_string(),
            row.registrations.to_string(),
        ]
    });
    output::line(&table::render(5, header, &cells.collect::<Vec<_>>()))
}
