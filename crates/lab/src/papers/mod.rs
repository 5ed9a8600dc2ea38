//! The papers' experiments on their simulated testbeds, row by row beside what was published.
//!
//! A [`Row`] is a sentence of a paper with a number or an order in it. The simulation runs the code that serves real
//! files on machines whose constants are those of the paper's hardware ([`crate::profiles`]); what comes out is
//! held against the sentence. Ratios, orders and counts are what is judged; a level that one constant of the testbed
//! decides is shown and does not count. Which those are, and what each row hangs on, is found out by running all again
//! with one thing changed ([`Study`]).
//!
//! First function to read: [`Study::run`].

pub(crate) mod command;
mod kept;
mod laboratory;
mod nfs_rdma;
mod odafs;
mod page;
mod pvfs_ib;
mod row;
mod sandia;
mod sendfile;
mod study;

pub use crate::experiment::Failure;
pub use row::{Published, Row, Verdict};
pub use study::{Ablated, Judged, Move, Study};

use laboratory::{Change, Done, Extent, Laboratory, OwnConstant, Used};

/// A paper whose experiments are run again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Paper {
    /// Noronha, Chai, Talpey, Panda: Better NFS through RDMA and efficient memory registration (2007).
    NfsRdma,
    /// Chen, Fischer, Leininger, Williams: Experiences with NFS over IB and iWARP RDMA (2007).
    Sandia,
    /// Wu, Wyckoff, Panda: PVFS over InfiniBand: design and performance evaluation (2003).
    PvfsIb,
    /// Dalessandro, Wyckoff: Memory management strategies for data serving with RDMA (2007).
    Sendfile,
    /// Magoutis: The Optimistic Direct Access File System (2002).
    Odafs,
}

/// The results of a paper's experiments.
#[derive(Debug, Clone, PartialEq)]
pub struct Report {
    /// Its sentences, in its order.
    pub rows: Vec<Row>,
    /// Its figures, redrawn from the simulation.
    pub figures: Vec<Figure>,
}

/// The results of a laboratory, and the machines and constants that it used.
struct Ran {
    report: Report,
    used: Vec<Used>,
    own: Vec<OwnConstant>,
    done: Done,
}

/// Lines in one pair of axes.
#[derive(Debug, Clone, PartialEq)]
pub struct Figure {
    /// A name for its file, without an ending.
    pub file: &'static str,
    /// The title, with the number of the paper's figure.
    pub title: String,
    /// The name of the horizontal axis, with the unit.
    pub x: &'static str,
    /// The name of the vertical axis, with the unit.
    pub y: &'static str,
    /// Its lines.
    pub series: Vec<Series>,
}

/// The names of a figure's axes, each with its unit.
#[derive(Debug, Clone, Copy)]
struct Axes {
    /// The horizontal axis.
    x: &'static str,
    /// The vertical axis.
    y: &'static str,
}

/// A figure of these lines, named by its file.
fn figure(file: &'static str, title: &str, axes: Axes, series: Vec<Series>) -> Figure {
    Figure {
        file,
        title: title.to_string(),
        x: axes.x,
        y: axes.y,
        series,
    }
}

/// A line of a figure.
#[derive(Debug, Clone, PartialEq)]
pub struct Series {
    /// Its name in the legend.
    pub name: String,
    /// The points from left to right.
    pub points: Vec<(f64, f64)>,
}

impl Paper {
    /// All of them.
    pub const ALL: [Paper; 5] = [
        Paper::NfsRdma,
        Paper::Sandia,
        Paper::PvfsIb,
        Paper::Sendfile,
        Paper::Odafs,
    ];

    /// Its name on the command line and in rows.
    pub fn name(self) -> &'static str {
        match self {
            Paper::NfsRdma => "nfs-rdma",
            Paper::Sandia => "sandia",
            Paper::PvfsIb => "pvfs-ib",
            Paper::Sendfile => "sendfile",
            Paper::Odafs => "odafs",
        }
    }

    /// Runs its experiments, and reports each one to `progress` before it starts.
    ///
    /// # Errors
    /// See [`Failure`].
    pub fn run(self, progress: &mut dyn FnMut(&str)) -> Result<Report, Failure> {
        let ran = self.run_with(Change::Nothing, Extent::Full, Done::default(), progress)?;
        Ok(ran.report)
    }

    /// Runs its experiments on machines that differ from its own as `change` says, but for those that are `done`.
    fn run_with(
        self,
        change: Change,
        extent: Extent,
        done: Done,
        progress: &mut dyn FnMut(&str),
    ) -> Result<Ran, Failure> {
        let mut laboratory = Laboratory::new(progress, change, extent, done);
        let report = match self {
            Paper::NfsRdma => nfs_rdma::run(&mut laboratory),
            Paper::Sandia => sandia::run(&mut laboratory),
            Paper::PvfsIb => pvfs_ib::run(&mut laboratory),
            Paper::Sendfile => sendfile::run(&mut laboratory),
            Paper::Odafs => odafs::run(&mut laboratory),
        }?;
        let (used, own, done) = laboratory.into_parts();
        Ok(Ran {
            report,
            used,
            own,
            done,
        })
    }
}
