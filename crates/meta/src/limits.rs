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
