//! Paper 001: PVFS over InfiniBand.
//!
//! Its I/O daemon was one thread with blocking file operations, its client a library without a thread, its transfers a
//! stripe long: facts of the profile and of the loads here. Our requests take lists, strides
//! and nested strides; over TCP, data of a write are asked for.

mod bandwidth;
mod scale;
mod small;
mod tiles;

use super::laboratory::Laboratory;
use super::row::Table;
use super::{Failure, Paper, Report, Series};
use crate::experiment::Transport;
use crate::experiment::volume::{Load, VolumeOutcome};
use crate::profiles::PVFS_IB;

pub(super) fn run(laboratory: &mut Laboratory<'_>) -> Result<Report, Failure> {
    let mut table = Table::new(Paper::PvfsIb);
    let mut figures = bandwidth::run(laboratory, &mut table)?;
    figures.extend(small::run(laboratory, &mut table)?);
    figures.extend(tiles::run(laboratory, &mut table)?);
    if !laboratory.is_short() {
        figures.push(scale::run(laboratory, &mut table)?);
    }
    Ok(Report {
        rows: table.into_rows(),
        figures,
    })
}

/// A line: `y` of what comes of `load` at each of `xs`.
fn line(
    laboratory: &mut Laboratory<'_>,
    name: &str,
    xs: &[u32],
    load: impl Fn(usize) -> Load,
    y: impl Fn(&VolumeOutcome) -> f64,
) -> Result<Series, Failure> {
    let mut points = Vec::with_capacity(xs.len());
    for x in laboratory.points(xs) {
        let outcome = laboratory.run_volume(&PVFS_IB, &load(x as usize))?;
        points.push((f64::from(x), y(&outcome)));
    }
    Ok(Series {
        name: name.to_string(),
        points,
    })
}

fn rate(outcome: &VolumeOutcome) -> f64 {
    outcome.mib_per_s
}

fn transport_name(transport: Transport) -> &'static str {
    match transport {
        Transport::Rdma => "RDMA",
        Transport::Tcp => "TCP",
    }
}

/// The gain of a line for each step of its axis, on the whole.
fn slope(line: &Series) -> f64 {
    match (line.points.first(), line.points.last()) {
        (Some(first), Some(last)) => (last.1 - first.1) / (last.0 - first.0).max(1.0),
        _ => 0.0,
    }
}

/// A line's last value.
fn last(line: &Series) -> f64 {
    line.points.last().map_or(0.0, |point| point.1)
}
