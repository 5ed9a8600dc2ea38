//! Paper 004: Memory Management Strategies for Data Serving with RDMA.
//!
//! Its shared library is [`gannet_datapath::FileSender`] here: the same call with the same four engines. Files are in
//! the page cache. The paper's program maps them; [`gannet_datapath::FileSender`] reads each piece unless the adapter
//! takes it from the file. The pictures are lost; the words about figures 2 to 10 are what remains to compare with.

mod costs;
mod naive;
mod pipes;
mod summary;

use super::laboratory::{Laboratory, whole};
use super::row::Table;
use super::{Axes, Failure, Paper, Report, Series, figure};
use crate::experiment::serving::{Pipes, ServingLoad, ServingOutcome};
use crate::profiles::SENDFILE_IB;
use gannet_datapath::Engine;
use gannet_sim::nic::{PAGE_LEN, Profile};

/// Bytes of the files of sections 5.2 to 5.6.
const FILE_LEN: usize = 16 << 20;
/// The share by which two numbers differ where a figure shows it; less is "the same" or "similar". Chosen before
/// anything was run.
const VISIBLE: f64 = 0.1;
/// A note on rows of the user-space engines that register for each use.
const READS: &str = "The paper's program maps the file and copies nothing. `FileSender` reads each piece into the memory \
    that it registers, so its copy is charged here. No code of Gannet serves mapped files.";

pub(super) fn run(laboratory: &mut Laboratory<'_>) -> Result<Report, Failure> {
    let mut table = Table::new(Paper::Sendfile);
    let mut figures = vec![naive::run(laboratory, &mut table)?];
    figures.extend(pipes::run(laboratory, &mut table)?);
    figures.push(costs::run(laboratory, &mut table)?);
    figures.extend(summary::run(laboratory, &mut table)?);
    Ok(Report {
        rows: table.into_rows(),
        figures,
    })
}

/// Bytes of this many pages.
fn pages(count: usize) -> usize {
    count * usize::try_from(PAGE_LEN).unwrap_or(usize::MAX)
}

/// The paper's file in pieces of so many pages, with so many under way.
fn piped(engine: Engine, pipes: usize, piece_pages: usize) -> ServingLoad {
    ServingLoad::of(
        engine,
        Pipes {
            count: pipes,
            len: pages(piece_pages),
        },
        FILE_LEN,
    )
}

/// The rate of a load on the paper's machines.
fn rate(laboratory: &mut Laboratory<'_>, load: &ServingLoad) -> Result<f64, Failure> {
    Ok(laboratory.serve(&SENDFILE_IB, load)?.mb_per_s)
}

/// The last of some rates over the first, or the largest fall between two neighbours if there is one.
fn rises(rates: &[f64]) -> f64 {
    let steps = rates.windows(2).map(|pair| pair[1] / pair[0].max(1.0));
    let least = steps.fold(f64::INFINITY, f64::min);
    match rates {
        [first, .., last] if least >= 1.0 => last / first.max(1.0),
        _ => least,
    }
}

/// A line: what comes of `load` at each of `xs`.
fn line(
    laboratory: &mut Laboratory<'_>,
    name: &str,
    profile: &Profile,
    xs: &[usize],
    load: impl Fn(usize) -> ServingLoad,
    y: impl Fn(&ServingOutcome) -> f64,
) -> Result<Series, Failure> {
    let mut points = Vec::with_capacity(xs.len());
    for x in laboratory.points(xs) {
        let outcome = laboratory.serve(profile, &load(x))?;
        points.push((whole(x), y(&outcome)));
    }
    Ok(Series {
        name: name.to_string(),
        points,
    })
}
