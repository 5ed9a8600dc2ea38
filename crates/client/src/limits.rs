//! Bounds of a program's use of files, in one place.

use gannet_vfs::limits::TRANSFER_MAX;
use std::time::Duration;

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
/// Time for which transfers wait for one that has its turn as long.
pub const TURN_AGE: Duration = Duration::from_secs(1);
/// Bytes up to which a READ or WRITE counts as short.
pub const SHORT_MAX: usize = 64 << 10;
/// Bytes that a run of them counts as at least, which bounds their number.
pub const RUN_CHARGE_MIN: u64 = 4 << 10;
/// Runs of one file that are under way at a time.
pub const RUNS_UNDER_WAY_MAX: usize = 4;

/// Bounds for unstable writes that are kept until COMMITs, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeptBounds {
    /// Kept bytes of one file from which a COMMIT is sent beside the writes that follow.
    pub commit_ahead: u64,
    /// Kept bytes of one file beyond which its writers wait for a COMMIT.
    pub file_max: u64,
    /// Kept bytes of all files beyond which writers wait for a COMMIT of their file, and the fullest is committed
    /// beside.
    pub all_max: u64,
}

impl Default for KeptBounds {
    fn default() -> KeptBounds {
        KeptBounds {
            commit_ahead: COMMIT_AHEAD,
            file_max: FILE_KEPT_MAX,
            all_max: KEPT_MAX,
        }
    }
}

/// Bytes of one file that are kept when a COMMIT is asked for beside the writes that follow.
pub const COMMIT_AHEAD: u64 = 8 << 20;
/// Bytes of one file that were written unstably and are kept until a COMMIT.
pub const FILE_KEPT_MAX: u64 = 32 << 20;
/// Bytes of all files that were written unstably and are kept until COMMITs.
pub const KEPT_MAX: u64 = 128 << 20;
/// Bytes of one file that wait for the store behind the answers to write(2).
pub const FILE_BEHIND_MAX: u64 = 16 << 20;
/// Bytes of all files that wait for the store behind the answers to write(2).
pub const BEHIND_MAX: u64 = 64 << 20;
/// Bytes of writes that a front end may have answered before it passes them on.
pub const ANSWERED_EARLY_MAX: u64 = 16 << 20;
/// Time before a write is sent again for which the store has waited for a silent server in vain.
pub const SILENCE_PAUSE: Duration = Duration::from_millis(250);

const _: () = assert!(COMMIT_AHEAD < FILE_KEPT_MAX && FILE_KEPT_MAX <= KEPT_MAX);
const _: () = assert!(TRANSFER_MAX as u64 <= FILE_KEPT_MAX);
