//! The values that file operations take and give. Shapes follow RFC 1813 section 2.

use crate::Status;
use crate::limits::{CALL_GROUPS_MAX, GROUPS_MAX, HANDLE_MAX, TRANSFER_MAX};
use gannet_runtime::{FileRef, FileTime};
use std::fmt;
use std::hash::{Hash, Hasher};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

/// Names one object of a store for ever: opaque outside the store, at most [`HANDLE_MAX`] bytes, equal bytes for equal
/// objects.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct FileHandle {
    len: u8,
    bytes: [u8; HANDLE_MAX],
}

impl FileHandle {
    /// The handle with these bytes; `None` when there are none or too many.
    pub fn new(bytes: &[u8]) -> Option<FileHandle> {
        let mut handle = FileHandle {
            len: u8::try_from(bytes.len()).ok()?,
            bytes: [0; HANDLE_MAX],
        };
        handle
            .bytes
            .get_mut(..bytes.len())
            .filter(|to| !to.is_empty())?
            .copy_from_slice(bytes);
        Some(handle)
    }

    /// Its bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }
}

impl fmt::Debug for FileHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_bytes()
            .iter()
            .try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// The caller of an operation, after the export's squashing. Two are equal when they have the same rights, whichever
/// clients they come from.
#[derive(Debug, Clone)]
pub struct Credentials {
    /// User.
    pub uid: u32,
    /// Primary group.
    pub gid: u32,
    groups: GroupList,
    client: Option<IpAddr>,
    xid: Option<u32>,
}

impl PartialEq for Credentials {
    fn eq(&self, other: &Credentials) -> bool {
        (self.uid, self.gid) == (other.uid, other.gid) && self.groups() == other.groups()
    }
}

impl Eq for Credentials {}

impl Hash for Credentials {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.uid, self.gid, self.groups()).hash(state);
    }
}

/// Supplementary groups. As many as a call carries are held in place: nothing is allocated for each call.
#[derive(Clone)]
enum GroupList {
    Few([u32; CALL_GROUPS_MAX], u8),
    Many(Arc<[u32]>),
}

impl GroupList {
    fn as_slice(&self) -> &[u32] {
        match self {
            GroupList::Few(groups, count) => &groups[..usize::from(*count)],
            GroupList::Many(groups) => groups,
        }
    }
}

impl fmt::Debug for GroupList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_slice().fmt(f)
    }
}

impl Credentials {
    /// A caller with its supplementary groups; those beyond [`GROUPS_MAX`] are ignored.
    pub fn new(uid: u32, gid: u32, groups: &[u32]) -> Credentials {
        let groups = groups.get(..GROUPS_MAX).unwrap_or(groups);
        let mut few = [0; CALL_GROUPS_MAX];
        let groups = match few.get_mut(..groups.len()) {
            Some(kept) => {
                kept.copy_from_slice(groups);
                GroupList::Few(few, groups.len() as u8)
            }
            None => GroupList::Many(groups.into()),
        };
        Credentials {
            uid,
            gid,
            groups,
            client: None,
            xid: None,
        }
    }

    /// The same caller with group `to` in place of `from` among the supplementary ones.
    #[must_use]
    pub fn replacing_group(mut self, from: u32, to: u32) -> Credentials {
        let replace = |group: &mut u32| {
            if *group == from {
                *group = to;
            }
        };
        match &mut self.groups {
            GroupList::Few(groups, _) => groups.iter_mut().for_each(replace),
            GroupList::Many(groups) => Arc::make_mut(groups).iter_mut().for_each(replace),
        }
        self
    }

    /// The same caller at the client with this address.
    pub fn at(self, client: IpAddr) -> Credentials {
        Credentials {
            client: Some(client),
            ..self
        }
    }

    /// The address of the client; `None` for the server's own work. Stores share the disk out among clients by it.
    pub fn client(&self) -> Option<IpAddr> {
        self.client
    }

    /// The same caller, for its call with this XID. A store may know by it that the call was done before.
    #[must_use]
    pub fn calling(self, xid: u32) -> Credentials {
        Credentials {
            xid: Some(xid),
            ..self
        }
    }

    /// The same caller, for work that its call needs once more.
    #[must_use]
    pub fn again(self) -> Credentials {
        Credentials { xid: None, ..self }
    }

    /// The client and the XID of the call that asks for this work; `None` if that may be done as often as it is asked
    /// for.
    pub fn request(&self) -> Option<(IpAddr, u32)> {
        Some((self.client?, self.xid?))
    }

    /// Supplementary groups.
    pub fn groups(&self) -> &[u32] {
        self.groups.as_slice()
    }
}

/// A moment: seconds since the Unix epoch, and nanoseconds after that second. NFSv3 has fewer bits for seconds; where
/// it meets the store, moments outside 1970 to 2106 become the nearest that it can say.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Time {
    /// Seconds; before 1970 negative.
    pub seconds: i64,
    /// Nanoseconds after the second, below 10^9.
    pub nanoseconds: u32,
}

impl From<Time> for FileTime {
    fn from(time: Time) -> FileTime {
        FileTime {
            seconds: time.seconds,
            nanoseconds: time.nanoseconds,
        }
    }
}

impl From<FileTime> for Time {
    fn from(time: FileTime) -> Time {
        Time {
            seconds: time.seconds,
            nanoseconds: time.nanoseconds,
        }
    }
}

impl Time {
    /// The moment that is this long after the Unix epoch.
    pub fn since_epoch(time: Duration) -> Time {
        Time {
            seconds: i64::try_from(time.as_secs()).unwrap_or(i64::MAX),
            nanoseconds: time.subsec_nanos(),
        }
    }

    /// The change id of an object that keeps none and was changed last at this moment: it is as fine as the store's
    /// clock for such changes.
    pub fn change_id(self) -> u64 {
        // As Linux's NFS server makes it: seconds above 30 bits of nanoseconds.
        (self.seconds.cast_unsigned() << 30).wrapping_add(self.nanoseconds.into())
    }

    /// Seconds in 32 bits without a sign, as NFSv3 has them; `None` before 1970 and after 2106.
    pub fn unsigned_seconds(self) -> Option<u32> {
        u32::try_from(self.seconds).ok()
    }
}

/// The kind of an object (`ftype3`; values are NFSv3's).
#[allow(missing_docs)] // the names say it
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum FileKind {
    Regular = 1,
    Directory = 2,
    BlockDevice = 3,
    CharacterDevice = 4,
    Symlink = 5,
    Socket = 6,
    Fifo = 7,
}

impl FileKind {
    /// Its name in listings, in JSON and in logs.
    pub fn name(self) -> &'static str {
        match self {
            FileKind::Regular => "file",
            FileKind::Directory => "directory",
            FileKind::BlockDevice => "block device",
            FileKind::CharacterDevice => "character device",
            FileKind::Symlink => "symbolic link",
            FileKind::Socket => "socket",
            FileKind::Fifo => "fifo",
        }
    }
}

/// Attributes of an object (`fattr3`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attributes {
    /// Its kind.
    pub kind: FileKind,
    /// Permission bits, 0o7777.
    pub mode: u32,
    /// Names it has.
    pub link_count: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Bytes.
    pub size: u64,
    /// Bytes of disk it takes.
    pub used: u64,
    /// Major and minor number of a device.
    pub device: (u32, u32),
    /// The file system.
    pub fsid: u64,
    /// Its number there, never 0.
    pub fileid: u64,
    /// Last read.
    pub access_time: Time,
    /// Last write.
    pub modify_time: Time,
    /// Last change of data or attributes.
    pub change_time: Time,
    /// Another number after each change of data, names or attributes (what NFSv4 calls `change`, RFC 8881 section
    /// 5.8.1.4). Numbers are compared for being equal, and not for their order.
    pub change_id: u64,
}

impl Attributes {
    /// The part that weak cache consistency compares.
    pub fn wcc(&self) -> WccBefore {
        WccBefore {
            size: self.size,
            modify_time: self.modify_time,
            change_time: self.change_time,
        }
    }
}

/// A name in a directory (`diropargs3`, RFC 1813 section 2.6).
#[derive(Debug, Clone, Copy)]
pub struct EntryName<'a> {
    /// The directory.
    pub directory: &'a FileHandle,
    /// One component of a path.
    pub name: &'a [u8],
}

impl<'a> EntryName<'a> {
    /// `name` in `directory`.
    #[must_use]
    pub fn new(directory: &'a FileHandle, name: &'a [u8]) -> Self {
        Self { directory, name }
    }
}

/// Attributes before an operation (`wcc_attr`); given only if taken atomically with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WccBefore {
    /// Bytes.
    pub size: u64,
    /// Last write.
    pub modify_time: Time,
    /// Last change.
    pub change_time: Time,
}

/// Weak cache consistency data (`wcc_data`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Wcc {
    /// Before, if known for sure.
    pub before: Option<WccBefore>,
    /// After, if obtainable.
    pub after: Option<Attributes>,
}

/// The outcome of an operation that changes an object, with that object's (or directory's) consistency data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Changed<T> {
    /// The result of the operation.
    pub result: Result<T, Status>,
    /// The attributes before and after: of the file, or of the directory for operations on names.
    pub wcc: Wcc,
}

/// A time to set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SetTime {
    /// Leave it.
    #[default]
    Keep,
    /// The server's now.
    Now,
    /// This time.
    To(Time),
}

/// Attributes to set (`sattr3`); `None` leaves one as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SetAttributes {
    /// Permission bits.
    pub mode: Option<u32>,
    /// Owner.
    pub uid: Option<u32>,
    /// Group.
    pub gid: Option<u32>,
    /// Length in bytes: truncates, or extends with zeros.
    pub size: Option<u64>,
    /// Last read.
    pub access_time: SetTime,
    /// Last write.
    pub modify_time: SetTime,
}

/// Rights of ACCESS, as NFSv3's bits: 1 READ, 2 LOOKUP, 4 MODIFY, 8 EXTEND, 16 DELETE, 32 EXECUTE.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct AccessMask(pub u32);

impl AccessMask {
    /// Read data, or list a directory.
    pub const READ: u32 = 1;
    /// Look a name up in a directory.
    pub const LOOKUP: u32 = 2;
    /// Change data or entries.
    pub const MODIFY: u32 = 4;
    /// Add data or entries.
    pub const EXTEND: u32 = 8;
    /// Remove entries of a directory.
    pub const DELETE: u32 = 16;
    /// Run a file.
    pub const EXECUTE: u32 = 32;
}

/// How durable a WRITE must be (`stable_how`; values are NFSv3's).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u32)]
pub enum Stability {
    /// The data is in the page cache; COMMIT makes it durable.
    Unstable = 0,
    /// Data durable, and what is needed to find it.
    DataSync = 1,
    /// Data and all attributes durable.
    FileSync = 2,
}

/// Eight opaque bytes by which a client notices a restart (`writeverf3`, `cookieverf3`).
pub type Verifier = [u8; 8];

/// A range opened for reading.
#[derive(Clone)]
pub struct ReadReply {
    /// The file; its bytes at the offset of the call are the data.
    pub file: FileRef,
    /// Bytes to take: the count of the call, clipped to the file.
    pub count: u32,
    /// The range reaches the end of the file.
    pub eof: bool,
    /// Attributes, always (clients place READ data by their presence).
    pub attributes: Attributes,
}

/// The result of a read into the caller's memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BytesRead {
    /// Bytes, at the start of the memory.
    pub count: u32,
    /// The last of them is the last of the file, or the file ends before them.
    pub eof: bool,
    /// The file's attributes, where they came with the data.
    pub attributes: Option<Attributes>,
}

/// How many bytes a file system moves at a time (FSINFO), each at least 1 and at most
/// [`TRANSFER_MAX`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TransferSizes {
    /// Bytes of a read that suit the file system best.
    pub read_preferred: u32,
    /// Most bytes of a read.
    pub read_max: u32,
    /// Bytes of a write that suit the file system best.
    pub write_preferred: u32,
    /// Most bytes of a write.
    pub write_max: u32,
}

impl Default for TransferSizes {
    fn default() -> TransferSizes {
        TransferSizes {
            read_preferred: TRANSFER_MAX,
            read_max: TRANSFER_MAX,
            write_preferred: TRANSFER_MAX,
            write_max: TRANSFER_MAX,
        }
    }
}

/// The result of a WRITE.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WriteDone {
    /// Bytes written: at most those of the call, and at least one unless the call had none.
    pub count: u32,
    /// Their durability: at least that of the call.
    pub committed: Stability,
    /// The verifier of this instance.
    pub verifier: Verifier,
}

/// The result of a COMMIT.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Commit {
    /// The verifier of this instance.
    pub verifier: Verifier,
}

/// How CREATE treats a name that exists (`createhow3`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CreateMode {
    /// Takes the existing file, applying only a size.
    Unchecked(SetAttributes),
    /// Fails.
    Guarded(SetAttributes),
    /// Succeeds only if the same verifier made it.
    Exclusive(Verifier),
}

/// A new object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Created {
    /// Its handle.
    pub handle: FileHandle,
    /// Its attributes, if obtainable.
    pub attributes: Option<Attributes>,
}

/// The kind of a new object of MKNOD.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NodeKind {
    /// A block device.
    BlockDevice {
        /// The major device number.
        major: u32,
        /// The minor device number.
        minor: u32,
    },
    /// A character device.
    CharacterDevice {
        /// The major device number.
        major: u32,
        /// The minor device number.
        minor: u32,
    },
    /// A socket.
    Socket,
    /// A FIFO.
    Fifo,
}

impl NodeKind {
    /// The kind of the object that it makes.
    pub fn kind(self) -> FileKind {
        match self {
            NodeKind::BlockDevice { .. } => FileKind::BlockDevice,
            NodeKind::CharacterDevice { .. } => FileKind::CharacterDevice,
            NodeKind::Socket => FileKind::Socket,
            NodeKind::Fifo => FileKind::Fifo,
        }
    }
}

/// One entry of a directory.
pub struct DirectoryEntry<'a> {
    /// Number of the object.
    pub fileid: u64,
    /// Its name.
    pub name: &'a [u8],
    /// The position after it; never 0, and valid while the directory exists.
    pub cookie: u64,
    /// Handle and attributes, when asked for and known; none for `..` of the root.
    pub object: Option<(FileHandle, Attributes)>,
}

/// Takes directory entries until it is full.
pub trait Entries {
    /// Whether [`DirectoryEntry::object`] is wanted (READDIRPLUS).
    fn wants_objects(&self) -> bool;

    /// How many more it may take, for a store that prepares them together; at least one. Too many is no harm.
    fn room(&self) -> usize {
        usize::MAX
    }

    /// Takes one; false when it does not fit (it will come again on the next page).
    fn push(&mut self, entry: &DirectoryEntry<'_>) -> bool;
}

/// How a page of a listing ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DirectoryPage {
    /// The directory's own attributes.
    pub attributes: Attributes,
    /// Nothing comes after the last entry pushed.
    pub eof: bool,
    /// The verifier, which the caller sends back with the next page's cookie.
    pub verifier: Verifier,
}

/// Space of a file system (FSSTAT), in bytes and inodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FileSystemUsage {
    /// Bytes in all.
    pub bytes_total: u64,
    /// Bytes free.
    pub bytes_free: u64,
    /// Bytes free to ordinary users.
    pub bytes_available: u64,
    /// Inodes in all.
    pub files_total: u64,
    /// Inodes free.
    pub files_free: u64,
    /// Inodes free to ordinary users.
    pub files_available: u64,
}

/// Fixed properties of a file system (FSINFO, PATHCONF).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileSystemLimits {
    /// Largest file in bytes.
    pub file_size_max: u64,
    /// Most names one object can have.
    pub link_max: u32,
    /// Longest name in bytes.
    pub name_max: u32,
    /// Resolution of its times.
    pub time_delta: Time,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn different_moments_have_different_change_ids() {
        let mut seen = std::collections::HashSet::new();
        for seconds in [-1, 0, 1, 1 << 31, 1 << 32] {
            for nanoseconds in [0, 1, 999_999_999] {
                let time = Time {
                    seconds,
                    nanoseconds,
                };
                assert!(seen.insert(time.change_id()), "{time:?}");
            }
        }
    }
}
