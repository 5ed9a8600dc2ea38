//! Metadata of volumes: names, attributes and layouts, in a store of key-value pairs with transactions.
//!
//! [`MetaStore`] is the seam: [`RedbStore`] keeps a volume's metadata in a file of the manager's machine, and
//! [`JournaledStore`] makes changes durable in a journal before it; a distributed store can take their place.
//! [`namespace`] is what a file system is in terms of it. Values are the protocol's own ([`gannet_wire::volume`]): an
//! inode lies in the store as it travels.
//!
//! What this crate refuses: connections, clocks, and files' data. The caller and the time come in as arguments.
//!
//! First type to read: [`MetaStore`].

pub mod check;
pub mod claims;
pub mod copies_setting;
pub mod empty_members;
#[cfg(test)]
mod fixture;
mod format;
pub mod group_placement;
pub mod group_wishes;
pub mod groups;
pub mod inode_allocator;
mod journal;
pub mod limits;
pub mod lock_sessions;
mod memory_store;
pub mod namespace;
pub mod orphan_check;
mod permissions;
mod redb_store;
pub mod reply_cache;
pub mod terms;

pub use format::OtherFormat;
pub use journal::{
    Engine, EngineError, EngineJournalError, EngineMemory, EngineState, Follower, FollowerNote,
    Followers, JournalError, JournalFile, JournalMemory, JournaledStore, ManagerName, RecordHash,
    RequestFate, Row, RowState, RowWatch, Sight, Standby, StoreCopy, pairs_from,
};
pub use memory_store::MemoryStore;
pub use permissions::gives_privileges;
pub use redb_store::{DamagedValue, RedbStore};

use std::time::Duration;
use thiserror::Error;

/// A set of pairs within a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Table {
    /// Inodes by file number.
    Inodes,
    /// File numbers by directory and name.
    Names,
    /// Names by directory and cookie: the order of listings.
    Listing,
    /// Intents that are not done, by their numbers.
    Pending,
    /// The reply cache, by the client's slot.
    Replies,
    /// The volume itself: its identity, servers, counters.
    Volume,
}

impl Table {
    /// Each of them once.
    pub const ALL: [Table; 6] = [
        Table::Inodes,
        Table::Names,
        Table::Listing,
        Table::Pending,
        Table::Replies,
        Table::Volume,
    ];

    /// Its number in files.
    pub(crate) fn number(self) -> u32 {
        match self {
            Table::Inodes => 1,
            Table::Names => 2,
            Table::Listing => 3,
            Table::Pending => 4,
            Table::Replies => 5,
            Table::Volume => 6,
        }
    }

    pub(crate) fn from_number(number: u32) -> Option<Table> {
        Table::ALL.into_iter().find(|it| it.number() == number)
    }
}

/// The store failed. Nothing of the transaction is in it.
#[derive(Debug, Error)]
#[error("the metadata store failed: {0}")]
pub struct StoreError(#[source] pub Box<dyn std::error::Error + Send + Sync>);

/// Pairs as they were at some moment.
pub trait View {
    /// The value of a key.
    ///
    /// # Errors
    /// [`StoreError`]: the store failed.
    fn get(&self, table: Table, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError>;

    /// Shows the pairs from key `from` on, in the order of their keys' bytes, to `each` until it wants no more.
    ///
    /// # Errors
    /// [`StoreError`]: the store failed.
    fn scan(
        &self,
        table: Table,
        from: &[u8],
        each: &mut dyn FnMut(&[u8], &[u8]) -> bool,
    ) -> Result<(), StoreError>;
}

/// Pairs while they are being changed; sees its own changes.
pub trait Transaction: View {
    /// Sets the value of a key.
    ///
    /// # Errors
    /// [`StoreError`]: the store failed.
    fn put(&mut self, table: Table, key: &[u8], value: &[u8]) -> Result<(), StoreError>;

    /// Removes a key, if it is there.
    ///
    /// # Errors
    /// [`StoreError`]: the store failed.
    fn delete(&mut self, table: Table, key: &[u8]) -> Result<(), StoreError>;
}

/// The lengths of a store's files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StoreLengths {
    /// Bytes of changes that are in the journal alone.
    pub journal: u64,
    /// Bytes of the file below the journal, without its reserve.
    pub file: u64,
}

/// A store of metadata. Calls may block for the disk.
pub trait MetaStore: Send + Sync + 'static {
    /// Shows `look` everything that was committed.
    ///
    /// # Errors
    /// [`StoreError`]: the store failed.
    fn read(&self, look: &mut dyn FnMut(&dyn View)) -> Result<(), StoreError>;

    /// Has `work` change pairs; when this returns, all of its changes are durable, or none was made.
    ///
    /// Many operations can share a transaction: each must have checked all that can go wrong before its first change.
    ///
    /// # Errors
    /// [`StoreError`]: the store failed, or the error of `work`.
    fn commit(
        &self,
        work: &mut dyn FnMut(&mut dyn Transaction) -> Result<(), StoreError>,
    ) -> Result<(), StoreError>;

    /// Whether it may grow. If not, there is room to change and remove what is in it, and nothing new is to be put
    /// there. May look at the disk.
    fn has_room(&self) -> bool {
        true
    }

    /// Pairs that a commit may change for which there is room in any case; one that takes several pages counts for as
    /// many.
    fn pairs_at_once(&self) -> usize {
        usize::MAX
    }

    /// Whether [`MetaStore::checkpoint`] has changes to move down.
    fn needs_checkpoint(&self) -> bool {
        false
    }

    /// A checkpoint: moves changes that are in the journal alone into the store below. Without one, a later commit
    /// would have to wait for that. May take long; commits go on beside it.
    ///
    /// # Errors
    /// [`StoreError`]: the store failed; what was committed stays durable.
    fn checkpoint(&self) -> Result<(), StoreError> {
        Ok(())
    }

    /// How long this process alone has the store after a [`MetaStore::renew`] that succeeded, from its beginning on.
    /// Another process may take the store over then. `None`: nobody can, as long as this one has it open.
    fn lease(&self) -> Option<Duration> {
        None
    }

    /// Whether the process that had the store before this one has given it up, when it answered nobody any more.
    fn follows_release(&self) -> bool {
        false
    }

    /// The journal that other processes follow, and those; `None` if none can. Blocks.
    ///
    /// # Errors
    /// [`StoreError`]: it cannot be known.
    fn followers(&self) -> Result<Option<Followers>, StoreError> {
        Ok(None)
    }

    /// The number and the hash of the last record of a journal that other processes follow. All its changes are seen
    /// by [`MetaStore::read`].
    fn last_record(&self) -> Option<(u64, RecordHash)> {
        None
    }

    /// Renews the lease. Blocks, perhaps for long.
    ///
    /// # Errors
    /// [`StoreError`]: another process has the store, or it cannot be known. No change is possible any more.
    fn renew(&self) -> Result<(), StoreError> {
        Ok(())
    }

    /// The lengths of its files; 0 for a store without. Never waits for the disk or a lock.
    fn lengths(&self) -> StoreLengths {
        StoreLengths::default()
    }
}
