//! Benchmarks on simulated testbeds: of files behind NFS, of volumes, of files that are sent by one call, and of
//! optimistic reads.

pub mod caching;
mod copies;
pub mod nfs;
pub mod optimistic;
pub mod serving;
mod testbed;
pub mod volume;

use gannet_nfs::client;
use thiserror::Error;

/// The transport of the calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Transport {
    /// The adapter's RDMA. I/O nodes of a volume poll.
    #[default]
    Rdma,
    /// Byte streams, by the processors.
    Tcp,
}

/// Why there is no outcome.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Failure {
    /// No machine could do it.
    #[error("the workload makes no sense: {0}")]
    Workload(&'static str),
    /// The simulation came to a halt.
    #[error("the simulation stopped: {0}")]
    Stopped(#[from] gannet_sim::Stopped),
    /// An operation failed.
    #[error("an operation failed: {0}")]
    Operation(String),
}

impl From<client::Error> for Failure {
    fn from(error: client::Error) -> Failure {
        Failure::Operation(error.to_string())
    }
}
