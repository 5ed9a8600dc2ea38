//! Paths, listings, whole files and write-behind over any file system.
//!
//! [`Files`] is a file system for one caller by path; [`Objects`] below it is the same by handle. [`Reader`] and
//! [`Writer`] move whole files with many operations in flight. All of them work over any [`gannet_vfs::Vfs`]: an export
//! reached by NFS, a volume, a directory of this machine, the simulator's store. [`write_behind`] keeps the writes of
//! front ends until the store has them. This crate caches nothing else.
//!
//! Listings are checked. One that does not move on, or has a name twice or with a slash in it, is an error.
//!
//! This crate has no protocol, no transport and no local path: its caller decides where else a file's bytes go.
//!
//! Layers, top down: [`Files`] and its walk over symbolic links; [`Reader`] and [`Writer`] over a pipeline; listings;
//! [`Objects`]. First type to read: [`Files`].

mod error;
mod files;
pub mod limits;
mod listing;
mod objects;
mod pipeline;
mod reader;
mod waits;
mod walk;
pub mod write_behind;
mod writer;

pub use error::Error;
pub use files::{Existing, Files, Listed, Node};
pub use listing::Item;
pub use objects::Objects;
pub use reader::{Block, Reader};
pub use waits::{Wait, Waits};
pub use walk::Follow;
pub use writer::{Writer, Written, Zeros};

use limits::PIPELINE_DEPTH;

/// The size and the number of a file's reads or writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Transfer {
    /// Bytes per read or write; `None` for the file system's preferred size. Its greatest size is the bound.
    pub block: Option<u32>,
    /// Reads or writes in flight; at least 1, at most [`limits::PIPELINE_DEPTH_MAX`].
    pub depth: usize,
}

impl Default for Transfer {
    fn default() -> Transfer {
        Transfer {
            block: None,
            depth: PIPELINE_DEPTH,
        }
    }
}
