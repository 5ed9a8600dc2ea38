//! A [`MetaStore`](super::MetaStore) that is durable after one short write: a journal before another store.
//!
//! A commit appends what it changed to the journal, a file of fixed length, and syncs it: one write to consecutive
//! blocks that were written before, where a tree writes a dozen pages anywhere. The changes are kept in memory over the
//! store below until that has them too. The journal has two halves. When one is full, commits go on in the other while
//! [`checkpoint`](super::MetaStore::checkpoint) moves the full one's changes down, in commits for which there is room
//! below.
//!
//! Layers: `record` is bytes, `log` the two halves and what is found in them, `changes` the view from above, and
//! `store` the whole. docs/formats/journal.md has the bytes, docs/decisions/0014-journal.md the reasons.

mod changes;
mod disk;
mod log;
mod memory;
mod record;
mod store;

pub use memory::JournalMemory;
pub use store::JournaledStore;

use crate::OtherFormat;
use std::io;
use thiserror::Error;

/// The file that a journal is in, of a length that never changes.
pub trait JournalFile: Send + 'static {
    /// Its length in bytes.
    ///
    /// # Errors
    /// The disk fails.
    fn length(&self) -> io::Result<u64>;

    /// Fills `into` with the bytes from `offset` on.
    ///
    /// # Errors
    /// The disk fails, or there are not so many.
    fn read(&self, offset: u64, into: &mut [u8]) -> io::Result<()>;

    /// Replaces bytes that are there. They may be durable only after [`JournalFile::sync`].
    ///
    /// # Errors
    /// The disk fails; any of them may have been replaced.
    fn write(&self, offset: u64, bytes: &[u8]) -> io::Result<()>;

    /// Makes all that was written durable.
    ///
    /// # Errors
    /// The disk fails; any of it may be lost.
    fn sync(&self) -> io::Result<()>;
}

/// Why a journal cannot be used.
#[derive(Debug, Error)]
pub enum JournalError {
    /// It is not there, but the metadata below needs it.
    #[error("its journal metadata.journal is missing")]
    Missing,
    /// The file is none.
    #[error("its journal is damaged, or no journal at all")]
    Damaged,
    /// It was written by another version of this program.
    #[error("its journal metadata.journal: {0}")]
    Version(#[from] OtherFormat),
    /// It is another volume's.
    #[error("its journal belongs to another volume")]
    Foreign,
    /// Journal and metadata are of different times: one of them is from a backup.
    #[error("its journal and its metadata are not of the same time")]
    Apart,
    /// A write failed earlier. What it was to keep may be in the journal or not; opening the store again shows.
    #[error("its journal could not be written earlier (restart the manager)")]
    Failed,
}
