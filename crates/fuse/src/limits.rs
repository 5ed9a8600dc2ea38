//! Bounds of the mount front end, in one place.

use gannet_vfs::limits::TRANSFER_MAX;
use std::time::Duration;

/// Requests of the kernel that wait for the core.
pub(crate) const QUEUE_MAX: usize = 256;
/// Requests under way at a time; others wait in the queue and then in the kernel.
pub(crate) const REQUESTS_MAX: usize = 1024;
/// Requests that the kernel sends on its own account at a time: readahead and writeback.
pub(crate) const BACKGROUND_MAX: u16 = 64;
/// Most bytes of one READ or WRITE.
pub(crate) const REQUEST_BYTES_MAX: u32 = TRANSFER_MAX;
/// Bytes of long READs and WRITEs of the kernel's own that are under way at a time: two requests, so that one is on its
/// way while the other is answered. 4 MiB at a time made cached reading slower by a quarter.
pub(crate) const MOVING_MAX: u32 = 2 * REQUEST_BYTES_MAX;
/// Bytes up to which a READ or WRITE counts as short.
pub(crate) const SHORT_MAX: usize = 64 << 10;
/// Kibibytes that the kernel reads ahead, where it lets us say so: four requests.
pub(crate) const READAHEAD_KIB: u32 = 4 * (REQUEST_BYTES_MAX >> 10);

/// How much of what was written unstably is kept until COMMITs, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeptBounds {
    /// Of one file, when a COMMIT is asked for beside the writes that follow.
    pub commit_ahead: u64,
    /// Of one file, before its writers wait for a COMMIT.
    pub file_max: u64,
    /// Of all files, before writers wait.
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
pub(crate) const COMMIT_AHEAD: u64 = 8 << 20;
/// Bytes of one file that were written unstably and are kept until a COMMIT.
pub(crate) const FILE_KEPT_MAX: u64 = 32 << 20;
/// Bytes of all files that were written unstably and are kept until COMMITs.
pub(crate) const KEPT_MAX: u64 = 128 << 20;
/// How often lost data is written again before one COMMIT gives up.
pub(crate) const RESENDS_MAX: u32 = 8;
/// Buffers of [`REQUEST_BYTES_MAX`] that are used again.
pub(crate) const BUFFERS_MAX: usize = 192;
/// Names that one page of a listing has in memory.
pub(crate) const LISTING_NAMES_MAX: usize = 1024;

/// Callers whose supplementary groups are remembered.
pub(crate) const CALLERS_MAX: usize = 1024;
/// For how long.
pub(crate) const CALLER_AGE: Duration = Duration::from_secs(1);
/// How long an operation may take once another one has waited in vain.
pub(crate) const AWAY_DEADLINE: Duration = Duration::from_secs(2);
/// How long a listing waits for what is not known of a name, the first time that it is in vain.
pub(crate) const LISTED_DEADLINE: Duration = Duration::from_secs(1);
/// How long an open waits for closes that are on their way, if the file has changed. One that comes later leaves the
/// kernel the length that it knew.
pub(crate) const CLOSING_AGE: Duration = Duration::from_millis(20);
/// How long it is remembered whose open was refused so that the kernel looks the file up: it comes back as soon as that
/// is answered.
pub(crate) const REFUSAL_AGE: Duration = Duration::from_secs(120);
/// How long after that lookup it keeps its number, so that the kernel can come back with it.
pub(crate) const RETURN_AGE: Duration = Duration::from_secs(1);
/// How long a file that a process was told of, and that lost its name since, is kept for it to come back: beyond any
/// pause of a busy machine.
pub(crate) const KEPT_FOR_RETURN_AGE: Duration = Duration::from_secs(10);
/// How often a name is looked up again whose file has gone before its attributes were known.
pub(crate) const LOOKED_UP_AGAIN_MAX: u32 = 8;
/// Objects of which is known, after the kernel forgot them, when something was learnt of them: lookups that were asked
/// for before may be on their way.
pub(crate) const FORGOTTEN_MAX: usize = 256;
/// How often attributes are asked for again that something has overtaken.
pub(crate) const ASKED_AGAIN_MAX: u32 = 4;

const _: () = assert!(COMMIT_AHEAD < FILE_KEPT_MAX && FILE_KEPT_MAX <= KEPT_MAX);
const _: () = assert!(REQUEST_BYTES_MAX as u64 <= FILE_KEPT_MAX);
/// Programs of a mount that wait for file locks at a time; one more is told that there are too many.
pub(crate) const LOCK_WAITS_MAX: usize = 1024;
