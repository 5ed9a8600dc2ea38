//! Bounds of the store, in one place.

use std::time::Duration;

/// Most descriptors that all served directories keep open by default, if the process may have twice as many.
pub const DESCRIPTORS_MAX: usize = 1 << 17;
/// Fewest descriptors that make sense for a directory.
pub(crate) const DESCRIPTORS_MIN: usize = 64;
/// Names that the local store remembers.
pub(crate) const NAMES_MAX: usize = 1 << 17;
/// Inodes whose place in the tree is remembered where the kernel has no handles (some 100 bytes each).
pub(crate) const PLACES_MAX: usize = 1 << 21;
/// Directory entries that one search of the tree looks at.
pub(crate) const SEARCH_ENTRIES_MAX: usize = 1 << 23;
/// Longest path, from the root, of a directory that is searched: the kernel takes none that is longer.
pub(crate) const SEARCH_PATH_MAX: usize = 4095;
/// Directories that wait to be searched.
pub(crate) const SEARCH_QUEUE_MAX: usize = 1 << 18;
/// Handles remembered as those of removed objects.
pub(crate) const ABSENT_MAX: usize = 1 << 15;
/// Tries to open a kernel's handle while the kernel says that it lacks memory, and the time between two of them.
pub(crate) const REOPENINGS_MAX: u32 = 500;
pub(crate) const REOPENING_PAUSE: Duration = Duration::from_micros(100);
/// Time for which a directory is used after it was last known to lie below the root. A local program may move it out of
/// the tree meanwhile.
pub(crate) const DIRECTORY_CHECKED_AGE: Duration = Duration::from_secs(5);
/// Deepest place in the tree that a handle is followed to.
pub(crate) const DEPTH_MAX: usize = 1 << 10;
/// Entries of one window of a directory listing, by default.
pub(crate) const LISTING_ENTRIES_MAX: usize = 1 << 16;
/// Windows of one directory kept in memory.
pub(crate) const LISTING_WINDOWS_MAX: usize = 16;
/// Bytes of all directory listings in memory.
pub(crate) const LISTINGS_BYTES_MAX: usize = 256 << 20;
/// Entries whose attributes are taken in one visit to the blocking pool.
pub(crate) const LISTING_FILL: usize = 1024;
/// Greatest age of the attributes in a listing.
pub(crate) const LISTING_ATTRIBUTES_AGE: Duration = Duration::from_secs(1);
/// Time for which a listing of a directory that has changed since still serves the pages behind its first.
pub(crate) const LISTING_CONTINUED_AGE: Duration = Duration::from_secs(5);
/// A time stamp younger than this may still be given to a later change (the kernel's clock for them ticks every 1 to
/// 10 ms); caches validated by it would be wrong.
pub(crate) const STAMP_GRANULARITY: Duration = Duration::from_millis(25);
/// As [`STAMP_GRANULARITY`], for a stamp of whole seconds. Some file systems keep no part of a second (ext3, ext4 with
/// inodes of 128 bytes), and FAT every other second alone. With others, one stamp in millions is of a whole second.
pub(crate) const STAMP_GRANULARITY_OF_SECONDS: Duration = Duration::from_millis(2025);
/// Queues of one core in which changes wait for the blocking pool. With [`LOOKUPS_MAX`] and a search below the pool's
/// 16 threads, which leaves some for reading, listing and syncing.
pub(crate) const CHANGE_LANES: usize = 6;
/// Names and handles that one core looks up on the blocking pool at a time.
pub(crate) const LOOKUPS_MAX: usize = 4;
/// Time for which a descriptor open for writing is kept without use: local programs cannot execute the file meanwhile.
pub(crate) const WRITE_DESCRIPTOR_IDLE: Duration = Duration::from_secs(5);
/// Files that can be synced at the same time; others share a turn with one of them now and then.
pub(crate) const SYNC_TURNS: usize = 1 << 10;
/// Directories that can be synced at the same time; others share a turn with one of them now and then.
pub(crate) const DIRECTORY_SYNC_TURNS: usize = 1 << 7;
/// Syncs that one core has under way; others wait, and clients take turns. Fewer would leave a disk idle that works on
/// several at once; all of them together must leave threads of the pool to lookups and reads.
pub(crate) const SYNCS_MAX: usize = 4;
/// Time between two log lines about failed syncs.
pub(crate) const SYNC_FAILURE_LOG_INTERVAL: Duration = Duration::from_secs(10);
/// Descriptors that were written through and wait to be synced before they are closed.
pub(crate) const UNSYNCED_MAX: usize = 1 << 10;
/// Symbolic links shorter than this lie in the inode, which an open descriptor keeps in memory.
pub(crate) const SYMLINK_INLINE_MAX: u64 = 60;
/// Callers whose rights are remembered for each object.
pub(crate) const DECISIONS_MAX: usize = 4;
/// Objects whose attributes the operations of one core can share at a time.
pub(crate) const SNAPSHOTS_MAX: usize = 32;

/// Bytes of a WRITE from which on it may bypass the page cache: a stream, and not a block that is read again soon.
pub const UNCACHED_WRITE_MIN: usize = 256 << 10;
