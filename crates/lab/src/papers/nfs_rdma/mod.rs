//! Paper 000: Better NFS through RDMA and efficient memory registration.

mod breakdown;
mod client_cache;
mod designs;
mod linux;
mod strategies;

use super::laboratory::{Laboratory, whole};
use super::row::Table;
use super::{Failure, Paper, Report, Series};
use crate::experiment::nfs::{Operation, Outcome, Workload};
use gannet_fabric::registration::{Registration, StrategyKind, Trust};
use std::time::Duration;

/// Threads of the figures.
const THREADS: [usize; 8] = [1, 2, 3, 4, 5, 6, 7, 8];
const SMALL: u32 = 128 << 10;
const LARGE: u32 = 1 << 20;
const MEMORY: &str = "The server's memory is the bound here, with or without registration: a copy out of tmpfs and \
    the adapter's own reading. The paper's server reached half of that. No primitive operation \
    of any paper explains the difference.";

pub(super) fn run(laboratory: &mut Laboratory<'_>) -> Result<Report, Failure> {
    let mut table = Table::new(Paper::NfsRdma);
    let mut figures = designs::run(laboratory, &mut table)?;
    figures.push(breakdown::run(laboratory, &mut table)?);
    figures.extend(strategies::run(laboratory, &mut table)?);
    figures.push(client_cache::run(laboratory, &mut table)?);
    figures.extend(linux::run(laboratory, &mut table)?);
    Ok(Report {
        rows: table.into_rows(),
        figures,
    })
}

/// A load of records of 128 KiB with registration for each use at both ends.
fn load(operation: Operation, threads: usize) -> Workload {
    Workload {
        operation,
        threads,
        record_len: SMALL,
        time: Duration::from_millis(200),
        ..Workload::default()
    }
}

/// A strategy between peers that trust each other.
fn registration(kind: StrategyKind) -> Registration {
    Registration::new(kind, Trust::Trusted).unwrap_or_default()
}

fn rate(outcome: &Outcome) -> f64 {
    outcome.mb_per_s
}

/// Percent of the client's processors.
fn client_cpu(outcome: &Outcome) -> f64 {
    100.0 * outcome.client_cpu
}

/// The highest point of a line.
fn peak(line: &Series) -> f64 {
    line.points.iter().map(|(_, y)| *y).fold(0.0, f64::max)
}

/// The mean of a line's points.
fn mean(line: &Series) -> f64 {
    let sum: f64 = line.points.iter().map(|(_, y)| *y).sum();
    sum / whole(line.points.len().max(1))
}

/// A line's value at `threads`.
fn at(line: &Series, threads: usize) -> f64 {
    let x = whole(threads);
    let point = line.points.iter().find(|point| point.0 >= x);
    point.map_or(0.0, |point| point.1)
}
