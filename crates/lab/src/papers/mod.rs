//! The papers' experiments on their simulated testbeds, row by row beside what was published.
//!
//! A [`Row`] is a sentence of a paper with a number or an order in it. The simulation runs the code that serves real
//! files on machines whose constants are those of the paper's hardware ([`crate::profiles`]); what comes out is
//! held against the sentence. Constants come from primitive operations; the few that were fitted name the row they
//! were fitted on, and that row is marked and does not count.
//!
//! First function to read: [`Paper::run`].

pub(crate) mod command;
mod laboratory;
mod nfs_rdma;
mod pvfs_ib;
mod row;
mod sandia;

pub use crate::experiment::Failure;
pub use row::{Published, Row, Verdict};

use clap::ValueEnum;
use laboratory::Laboratory;

/// A paper whose experiments are run again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Paper {
    /// Noronha, Chai, Talpey, Panda: Better NFS through RDMA and efficient memory registration (2007).
    NfsRdma,
    /// Chen, Fischer, Leininger, Williams: Experiences with NFS over IB and iWARP RDMA (2007).
    Sandia,
    /// Wu, Wyckoff, Panda: PVFS over InfiniBand: design and performance evaluation (2003).
    PvfsIb,
}

/// What came of a paper's experiments.
#[derive(Debug, Clone, PartialEq)]
pub struct Report {
    /// Its sentences, in its order.
    pub rows: Vec<Row>,
    /// Its figures, redrawn from the simulation.
    pub figures: Vec<Figure>,
}

/// Lines in one pair of axes.
#[derive(Debug, Clone, PartialEq)]
pub struct Figure {
    /// A name for its file, without an ending.
    pub file: &'static str,
    /// What it shows, and which figure of the paper that is.
    pub title: String,
    /// What its horizontal axis counts, with the unit.
    pub x: &'static str,
    /// What its vertical axis measures, with the unit.
    pub y: &'static str,
    /// Its lines.
    pub series: Vec<Series>,
}

/// A line of a figure.
#[derive(Debug, Clone, PartialEq)]
pub struct Series {
    /// Its name in the legend.
    pub name: String,
    /// From left to right.
    pub points: Vec<(f64, f64)>,
}

impl Paper {
    /// All of them.
    pub const ALL: [Paper; 3] = [Paper::NfsRdma, Paper::Sandia, Paper::PvfsIb];

    /// Its name on the command line and in rows.
    pub fn name(self) -> &'static str {
        match self {
            Paper::NfsRdma => "nfs-rdma",
            Paper::Sandia => "sandia",
            Paper::PvfsIb => "pvfs-ib",
        }
    }

    /// Runs its experiments, and tells `progress` what comes next.
    ///
    /// # Errors
    /// See [`Failure`].
    pub fn run(self, progress: &mut dyn FnMut(&str)) -> Result<Report, Failure> {
        let mut laboratory = Laboratory::new(progress);
        match self {
            Paper::NfsRdma => nfs_rdma::run(&mut laboratory),
            Paper::Sandia => sandia::run(&mut laboratory),
            Paper::PvfsIb => pvfs_ib::run(&mut laboratory),
        }
    }
}

impl Report {
    /// Rows with a number that count and came within their tolerance, and rows with a number that count.
    pub fn numbers(&self) -> (usize, usize) {
        let counted = self.rows.iter().filter(|row| row.published.is_number());
        let counted: Vec<_> = counted.collect();
        let within = counted.iter().filter(|row| row.within == Verdict::Within);
        (within.count(), counted.len())
    }
}
