//! Bounds of a program's use of files, in one place.

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
