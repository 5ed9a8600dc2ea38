//! Bounds of a program's use of files, in one place.

use gannet_vfs::limits::TRANSFER_MAX;

/// Symbolic links followed in one path walk, as on Linux.
pub const SYMLINKS_MAX: u32 = 40;
/// Components of a path that is walked, those of symbolic links included.
pub const WALK_COMPONENTS_MAX: usize = 4096;
/// Reads or writes in flight per file by default.
pub const PIPELINE_DEPTH: usize = 16;
/// Upper bound of the reads or writes in flight per file.
pub const PIPELINE_DEPTH_MAX: usize = 64;
/// Bytes written unstably that are kept until a commit.
pub const UNCOMMITTED_BYTES_MAX: u64 = 32 << 20;
/// Number of times that a file is written again because unstable data was lost (a server restarted).
pub const RESENDS_MAX: u32 = 8;
/// Number of times that a listing starts over because its cookies went stale.
pub const LISTING_RESTARTS_MAX: u32 = 4;
/// Bytes of one listing that are collected: about two million names with their attributes.
pub const LISTING_BYTES_MAX: usize = 512 << 20;
/// Names taken from the file system at a time.
pub(crate) const LISTING_PAGE_ENTRIES: usize = 4096;
/// Bytes of long READs and WRITEs of a cache that are under way at a time: two requests, so that one is on its
/// way while the other is answered. 4 MiB at a time made cached reading slower by a quarter.
pub const MOVING_MAX: u32 = 2 * TRANSFER_MAX;
/// Bytes up to which a READ or WRITE counts as short.
pub const SHORT_MAX: usize = 64 << 10;
/// Bytes that a run of them counts as at least, which bounds their number.
pub const RUN_CHARGE_MIN: u64 = 4 << 10;
/// Runs of one file that are under way at a time.
pub const RUNS_UNDER_WAY_MAX: usize = 4;
