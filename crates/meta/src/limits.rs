//! Bounds of metadata, in one place.

use std::time::Duration;

/// Largest file, as with NFSv3's signed offsets.
pub const FILE_SIZE_MAX: u64 = i64::MAX as u64;
/// Most names of one file.
pub const LINKS_MAX: u32 = 65_000;
/// Most directories between a file and the root.
pub const DEPTH_MAX: usize = 4096;
/// Names that a check looks at together: changes wait for that long.
pub const NAMES_AT_A_TIME: usize = 4096;
/// An object of no file is an orphan when it was last written this long ago: longer than a removal
/// takes to be done a second time, whatever clocks differ.
pub const ORPHAN_AGE_MIN: Duration = Duration::from_secs(300);
/// Bytes of each half of the journal before the metadata: as many changes wait for a checkpoint, and are kept in
/// memory.
pub const JOURNAL_HALF_LEN: u64 = 8 << 20;
/// Bytes of the changes of a transaction, beyond which it takes no further ones: each is one record of a journal, and
/// engines that keep journals take a mebibyte at a time.
pub const RECORD_LEN_MAX: usize = 1 << 20;
/// Bytes of records in an engine after which the store below gets them: as many are read at a start, and kept in
/// memory.
pub const ENGINE_GENERATION_LEN: u64 = 8 << 20;
/// Generations of records that stay in an engine for managers that do not have them: one that lacks more gets a copy of
/// a store.
pub const ENGINE_TAIL_MAX: usize = 16;
/// How long a manager may answer after it has renewed its row in an engine.
pub const ENGINE_LEASE: Duration = Duration::from_secs(4);
/// How often it renews the row.
pub const ENGINE_RENEW_EVERY: Duration = Duration::from_secs(1);
/// How long the row must be the same before another manager takes it over: some more than the lease, since no two
/// clocks run at the same rate.
pub const ENGINE_LEASE_OVER: Duration = Duration::from_millis(4200);
/// Bytes of the name of a manager.
pub const MANAGER_NAME_LEN_MAX: usize = 255;
/// Records of an engine that are read at a time.
pub const RECORDS_AT_A_TIME: usize = 8;
/// Bytes that a pair takes in a record beside its key and its value.
pub const PAIR_HEAD_LEN: usize = 24;
/// Pairs of the metadata that a checkpoint moves in one commit. Each may take a page of 4 KiB and its part of those
/// above (two pages if its value is longer than [`PAGE_VALUE_MAX`]: it counts twice), and what a commit frees is used
/// by the one after the next.
pub const RESERVE_PAIRS: usize = 1024;
/// Bytes of a value that fits a page with its key and all that is said of the two there.
pub const PAGE_VALUE_MAX: usize = 3072;
/// Bytes of disk that the metadata have before they need them: what two such commits take, and half as much again.
pub const RESERVE_LEN: u64 = 16 << 20;
/// They are taken in steps of so many bytes.
pub const RESERVE_STEP: u64 = 1 << 20;
/// Terms of its own that the metadata remembers.
pub const TERMS_KEPT: usize = 16;
/// Replies that are kept for the calls of one NFS client: more than most have under way at a time.
pub const REQUEST_ROWS: u32 = 256;
