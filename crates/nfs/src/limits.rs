//! Bounds of the NFS layer, in one place.

use gannet_rpc::limits::{JOB_BYTES_KEPT, PAYLOAD_MAX, RECORD_MAX, RECORD_SLACK};
use std::time::Duration;

/// Exports of one server, limited by the byte of a file handle that names the export.
pub const EXPORTS_MAX: usize = 256;
/// Networks in one export's client list.
pub const CLIENT_NETWORKS_MAX: usize = 256;
/// The first port that any user can bind, on most systems; ports below take root.
pub const SECURE_PORTS_END: u16 = 1024;
/// Longest path of an export, in bytes: what MOUNT can carry.
pub const EXPORT_PATH_MAX: usize = 1024;
/// Components of a path to mount.
pub const MOUNT_COMPONENTS_MAX: usize = 128;
/// Bytes of the list of mounts in a reply to DUMP; older mounts leave it.
pub const MOUNT_LIST_BYTES_MAX: usize = 60 << 10;
/// Users whose groups one core remembers.
pub const GROUPS_USERS_MAX: usize = 4096;
/// Time for which the groups of a user are used before they are looked up again.
pub const GROUPS_AGE: Duration = Duration::from_secs(300);
/// Time for which a call waits for its caller's groups.
pub const GROUPS_DEADLINE: Duration = Duration::from_secs(5);
/// Lookups of groups under way on one core, which share the blocking pool with files.
pub const GROUPS_LOOKUPS_MAX: usize = 8;
/// Time between two log lines about mounts, and between two about refused mounts, per core.
pub const MOUNT_LOG_INTERVAL: Duration = Duration::from_secs(1);
/// Time between two log lines about calls that one check of a file system refused, per core: users run into them often.
pub const DENIAL_LOG_INTERVAL: Duration = Duration::from_secs(10);

/// Time for which a client's further WRITEs to a file are no events of the audit log.
pub const WRITE_AUDIT_INTERVAL: Duration = Duration::from_secs(60);
/// Files whose WRITEs one core remembers for that.
pub const AUDITED_WRITES_MAX: usize = 1024;

/// Bytes of a file's name that a line about a call shows: no file has a longer one.
pub const NAME_SHOWN_MAX: usize = 255;
/// Bytes of a path that a line about a call shows: all that MOUNT can carry.
pub const PATH_SHOWN_MAX: usize = 1024;

/// Most bytes of one READ or WRITE.
pub const TRANSFER_MAX: u32 = 1 << 20;
/// Largest result of a READDIR or READDIRPLUS; clients that ask for more get this much.
pub const DIRECTORY_PAGE_MAX: u32 = 124 << 10;
/// The length that FSINFO recommends for READDIR, a power of two because Linux rounds it to one. Linux begins with half
/// of it, which is room for some 400 entries with attributes, and takes all for the second page. So 1000 entries take
/// two calls, as with knfsd.
pub const DIRECTORY_PAGE_PREFERRED: u32 = 128 << 10;

/// Bytes of the longest reply without data, entries of directories and texts of links.
pub const SMALL_REPLY_MAX: usize = 1024;
/// Bytes of the longest list that MOUNT answers with.
pub const MOUNT_REPLY_MAX: u32 = 64 << 10;

/// WRITEs up to this many bytes that came among their arguments are copied to a slot.
pub const SMALL_WRITE_MAX: usize = 16 << 10;
/// Slots for small WRITEs under way on one core.
pub const SMALL_SLOTS_MAX: usize = 256;

/// Smallest READ or WRITE into which a client divides a longer range, also if a server states a smaller maximum.
pub const BLOCK_MIN: u32 = 4096;
/// Directory bytes a client asks for at a time.
pub const LISTING_PAGE: u32 = 32 << 10;
/// First pause after a reply of a busy server (JUKEBOX); doubles up to [`JUKEBOX_PAUSE_MAX`].
pub const JUKEBOX_PAUSE_MIN: Duration = Duration::from_millis(100);
/// Longest pause between two attempts at a busy server.
pub const JUKEBOX_PAUSE_MAX: Duration = Duration::from_secs(5);
/// Attempts at a busy server.
pub const JUKEBOX_ATTEMPTS_MAX: u32 = 12;

const _: () = assert!(TRANSFER_MAX as usize <= PAYLOAD_MAX);
const _: () = assert!(TRANSFER_MAX == gannet_vfs::limits::TRANSFER_MAX);
/// A page, which has no payload beside it, and everything around it fit into a record.
const _: () = assert!(DIRECTORY_PAGE_MAX as usize + 1024 <= RECORD_MAX);
/// A call keeps the memory of its page for the next: twice as much as is in use, while it grows.
const _: () = assert!((DIRECTORY_PAGE_MAX as usize).next_power_of_two() < JOB_BYTES_KEPT);
const _: () = assert!(MOUNT_LIST_BYTES_MAX + 1024 <= RECORD_SLACK);
const _: () = assert!(SMALL_WRITE_MAX <= TRANSFER_MAX as usize);
