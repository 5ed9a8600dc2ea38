//! A [`MetaStore`](super::MetaStore) that is durable after one short write: a journal before another store.
//!
//! A commit appends what it changed to the journal, a file of fixed length, and syncs it: one write to consecutive
//! blocks that were written before, where a tree writes a dozen pages anywhere. The changes are kept in memory over the
//! store below until that has them too. The journal has two halves. When one is full, commits go on in the other while
//! [`checkpoint`](super::MetaStore::checkpoint) moves the full one's changes down, in commits for which there is room
//! below.
//!
//! [`Journal`] is the seam: records of changes, one for each commit. Below it, `file` is the journal in a file, with
//! `record` its bytes. Above it, `changes` is the view of what the store below lacks, and `store` the whole.
//! docs/formats/journal.md has the bytes, docs/decisions/0014-journal.md the reasons.

mod changes;
mod copy;
mod disk;
mod engine;
mod engine_memory;
mod file;
mod memory;
mod record;
mod standby;
mod store;

pub use copy::{StoreCopy, pairs_from};
pub use engine::{
    Engine, EngineError, EngineJournalError, Follower, FollowerNote, Followers, ManagerName,
    RecordHash, Row, RowState,
};
pub use engine_memory::{EngineMemory, EngineState, RequestFate};
pub use memory::JournalMemory;
pub use standby::{RowWatch, Sight, Standby};
pub use store::JournaledStore;

use crate::{OtherFormat, StoreError};
use changes::Changes;
use std::io;
use std::time::Duration;
use thiserror::Error;

/// The progress of the store below a journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Mark {
    /// The number of openings of the store with its journal.
    epoch: u64,
    /// The last record of that epoch that the store has; of all epochs if the journal is in an engine.
    applied: u64,
    /// The hash of that record, if the journal is in an engine.
    chain: Option<RecordHash>,
}

/// The records that the store below lacks.
struct Unapplied {
    /// The changes of all these records.
    changes: Changes,
    /// The mark of a store that has them.
    mark: Mark,
}

/// The outcome of an attempt to append a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Appended {
    /// It is durable behind the last one.
    Durable,
    /// It has no place before the store below has older records, and [`Journal::trim`] frees theirs.
    Full,
    /// It never has a place, with so many bytes: the store below is to have it at once, after all others.
    TooLong(usize),
}

/// Where changes are durable before the store below has them: numbered records, each of one commit.
///
/// The records are of two generations. Those of the older one go to the store below while new ones are appended.
trait Journal: Send + 'static {
    /// The records behind those that the store below has, by its mark. Called once, before all else.
    ///
    /// # Errors
    /// The journal fails, or is not of the same time as the store.
    fn recover(&mut self, mark: Mark) -> Result<Unapplied, StoreError>;

    /// Begins the next epoch, durably, when the store below has all records. Returns the store's new mark.
    ///
    /// # Errors
    /// The journal fails.
    fn begin(&mut self) -> Result<Mark, StoreError>;

    /// Makes a record of these changes durable behind the last one.
    ///
    /// # Errors
    /// The journal fails: the record may be there or not, and none can follow it.
    fn append(&mut self, changes: &Changes) -> Result<Appended, StoreError>;

    /// The present generation becomes the older one. The store below has all records of that which was older so far:
    /// they may go.
    fn trim(&mut self);

    /// The mark of a store that has all records so far.
    fn mark(&self) -> Mark;

    /// Bytes of the records of the present generation.
    fn used(&self) -> u64;

    /// As [`MetaStore::lease`](super::MetaStore::lease).
    fn lease(&self) -> Option<Duration> {
        None
    }

    /// As [`MetaStore::renew`](super::MetaStore::renew).
    ///
    /// # Errors
    /// The journal fails, or another manager has it.
    fn renew(&mut self) -> Result<(), StoreError> {
        Ok(())
    }

    /// As [`MetaStore::follows_release`](super::MetaStore::follows_release).
    fn follows_release(&self) -> bool {
        false
    }

    /// As [`MetaStore::followers`](super::MetaStore::followers).
    ///
    /// # Errors
    /// The journal fails.
    fn followers(&mut self) -> Result<Option<Followers>, StoreError> {
        Ok(None)
    }

    /// Lets another manager have the journal at once. Nothing is appended after this.
    ///
    /// # Errors
    /// The journal fails.
    fn release(&mut self) -> Result<(), StoreError> {
        Ok(())
    }
}

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
    /// It is in an engine, and the description of the volume says nothing of that.
    #[error("its journal is in an engine, which volume.toml does not name (`journal`)")]
    InEngine,
    /// A write failed earlier, for this reason. What it was to keep may be in the journal or not; opening the store
    /// again shows.
    #[error("its journal could not be written earlier: {0} (restart the manager)")]
    Failed(String),
}
