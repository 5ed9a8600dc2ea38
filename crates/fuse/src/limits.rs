//! Bounds of the mount front end, in one place.

pub use gannet_client::limits::KeptBounds;
use gannet_client::limits::{ANSWERED_EARLY_MAX, SHORT_MAX};
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
/// Kibibytes that the kernel reads ahead, where this user may set it: four requests.
pub(crate) const READAHEAD_KIB: u32 = 4 * (REQUEST_BYTES_MAX >> 10);

/// Changes of one file by this mount that are kept until the changes before them are known.
pub(crate) const OWN_CHANGES_MAX: usize = 64;
/// Buffers of [`REQUEST_BYTES_MAX`] that are used again.
pub(crate) const BUFFERS_MAX: usize = 192;
/// Names that one page of a listing has in memory.
pub(crate) const LISTING_NAMES_MAX: usize = 1024;

/// Names of a listed directory from which on its attributes are listed again for programs that ask one by one: one page
/// of a listing takes less than the cache age.
pub(crate) const AHEAD_NAMES_MIN: usize = LISTING_NAMES_MAX;
/// Names above which they are not, some 300 bytes each.
pub(crate) const AHEAD_NAMES_MAX: usize = 64 << 10;
/// Names that are asked for before that.
pub(crate) const ASKED_BEFORE_AHEAD: usize = 16;
/// Time without such listings of a directory after one that answered few questions.
pub(crate) const AHEAD_PAUSE: Duration = Duration::from_secs(30);
/// The same after one that a change of names ended early.
pub(crate) const AHEAD_PAUSE_CUT: Duration = Duration::from_secs(2);

/// Open files whose state is asked for each time that the age of attributes has passed; with more, each has its turn.
pub(crate) const FOLLOWED_MAX: usize = 256;
/// Number of them that are asked for together.
pub(crate) const FOLLOWED_AT_A_TIME: usize = 64;
/// Time for which the answers are waited for.
pub(crate) const FOLLOW_DEADLINE: Duration = Duration::from_secs(2);
/// Time for which their pages wait for requests for attributes that are under way.
pub(crate) const FOLLOW_DELAY_MAX: Duration = Duration::from_millis(250);
/// The shortest time between two such rounds.
pub(crate) const FOLLOW_EVERY_MIN: Duration = Duration::from_millis(250);

/// Callers whose supplementary groups are remembered.
pub(crate) const CALLERS_MAX: usize = 1024;
/// Time for which a caller's supplementary groups are remembered.
pub(crate) const CALLER_AGE: Duration = Duration::from_secs(1);
/// Time that an operation may take after another one ran into its deadline.
pub(crate) const AWAY_DEADLINE: Duration = Duration::from_secs(2);
/// Time after which a waiting request looks whether its thread was killed, and again.
pub(crate) const LIFE_CHECK_AGE: Duration = Duration::from_millis(250);
/// Time for which the removal of a directory waits for last closes of removed files in it. The kernel tells of a close
/// after close(2) has returned.
pub(crate) const UNHIDE_AGE: Duration = Duration::from_secs(1);
/// Time for which a listing waits for the attributes of one name. After the first that takes longer it waits for no
/// other.
pub(crate) const LISTED_DEADLINE: Duration = Duration::from_secs(1);
/// Time for which a process that got `ESTALE` is remembered. The kernel repeats the request after its lookup is
/// answered.
pub(crate) const REFUSAL_AGE: Duration = Duration::from_secs(120);
/// Time for which a file that lost its name after such a lookup is kept for the repeated request. It is longer than any
/// pause of a busy machine.
pub(crate) const KEPT_FOR_RETURN_AGE: Duration = Duration::from_secs(10);
/// Number of times that a name is looked up again whose file was removed before its attributes were read.
pub(crate) const LOOKED_UP_AGAIN_MAX: u32 = 8;
/// Forgotten objects whose last epochs are remembered, because earlier lookups of them may still be under way.
pub(crate) const FORGOTTEN_MAX: usize = 256;
/// Objects whose room the table of objects keeps.
pub(crate) const SHRINK_MIN: usize = 1024;
/// Number of times that overtaken attributes are asked for again.
pub(crate) const ASKED_AGAIN_MAX: u32 = 4;

/// Requests of a mount that wait for file locks at a time; one more fails with `ENOLCK`.
pub(crate) const LOCK_WAITS_MAX: usize = 1024;

// Short writes in the queue may all be answered.
const _: () = assert!(QUEUE_MAX as u64 * SHORT_MAX as u64 <= ANSWERED_EARLY_MAX);
