//! The attributes and rights of files, in requests to the manager and in its replies.

use crate::Hex;
use crate::nfs3::access_bits;
use crate::xdr::{
    Decode, Decoder, Encode, Encoder, Octal, Print, Printed, XdrError, enumeration,
    print_as_display, record,
};
use core::fmt;
use core::time::Duration;

/// The number of a file in its volume (`file`), which no other file ever gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FileId(pub u64);

/// The root directory of a volume.
pub const ROOT: FileId = FileId(1);

impl fmt::Display for FileId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

impl Encode for FileId {
    fn encode(&self, encoder: &mut Encoder<'_>) {
        encoder.u64(self.0);
    }
}

impl Decode<'_> for FileId {
    fn decode(decoder: &mut Decoder<'_>) -> Result<FileId, XdrError> {
        decoder.u64().map(FileId)
    }
}

record! {
    /// A moment since the Unix epoch (`time`). It prints as seconds, a dot, and nine digits of nanoseconds.
    #[derive(PartialOrd, Ord, Hash, Default)]
    Timestamp {
        /// Whole seconds, rounded down; negative before 1970.
        seconds: i64,
        /// Nanoseconds after that second, below 10^9 from a sender that keeps to the format.
        nanoseconds: u32,
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:09}", self.seconds, self.nanoseconds)
    }
}

impl Timestamp {
    /// The moment that is `time` after the Unix epoch.
    pub fn since_epoch(time: Duration) -> Timestamp {
        Timestamp {
            seconds: i64::try_from(time.as_secs()).unwrap_or(i64::MAX),
            nanoseconds: time.subsec_nanos(),
        }
    }
}

/// A time to set (`set_time`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SetTimestamp {
    /// 0: the time stays.
    #[default]
    Keep,
    /// 1: the current time of the manager.
    Now,
    /// 2: this time.
    To(Timestamp),
}

impl Print for SetTimestamp {
    fn print(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SetTimestamp::Keep => f.write_str("-"),
            SetTimestamp::Now => f.write_str("now"),
            SetTimestamp::To(time) => write!(f, "{time}"),
        }
    }

    fn is_absent(&self) -> bool {
        *self == SetTimestamp::Keep
    }
}

/// The numbers of [`SetTimestamp`].
mod set_time {
    pub(super) const KEEP: u32 = 0;
    pub(super) const NOW: u32 = 1;
    pub(super) const TO: u32 = 2;
}

impl Encode for SetTimestamp {
    fn encode(&self, encoder: &mut Encoder<'_>) {
        match self {
            SetTimestamp::Keep => encoder.u32(set_time::KEEP),
            SetTimestamp::Now => encoder.u32(set_time::NOW),
            SetTimestamp::To(time) => {
                encoder.u32(set_time::TO);
                time.encode(encoder);
            }
        }
    }
}

impl Decode<'_> for SetTimestamp {
    fn decode(decoder: &mut Decoder<'_>) -> Result<SetTimestamp, XdrError> {
        Ok(match decoder.u32()? {
            set_time::KEEP => SetTimestamp::Keep,
            set_time::NOW => SetTimestamp::Now,
            set_time::TO => SetTimestamp::To(Timestamp::decode(decoder)?),
            _ => return Err(XdrError::Value),
        })
    }
}

record! {
    /// Attributes to set (`change`); `None` leaves one as it is.
    #[derive(Default)]
    AttributeChanges = "change" {
        /// Permission bits, 0o7777.
        mode: Option<u32> as "mode" via Octal,
        /// The number of the owner.
        uid: Option<u32>,
        /// The number of the group.
        gid: Option<u32>,
        /// The length in bytes: truncates, or extends with zeros.
        size: Option<u64>,
        /// The time of the last read.
        access_time: SetTimestamp as "accessed",
        /// The time of the last write.
        modify_time: SetTimestamp as "modified",
    }
}

/// The treatment of a name that exists by CREATE (`mode`), as NFSv3's `createhow3`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CreateMode {
    /// 0: CREATE succeeds with the existing file; a new file gets these attributes.
    Unchecked(AttributeChanges),
    /// 1: CREATE fails; a new file gets these attributes.
    Guarded(AttributeChanges),
    /// 2: CREATE succeeds only if a CREATE with this verifier made the file.
    Exclusive([u8; 8]),
}

impl fmt::Display for CreateMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (mode, changes) = match self {
            CreateMode::Unchecked(changes) => ("unchecked", changes),
            CreateMode::Guarded(changes) => ("guarded", changes),
            CreateMode::Exclusive(verifier) => return write!(f, "exclusive({})", Hex(verifier)),
        };
        f.write_str(mode)?;
        if !changes.is_absent() {
            write!(f, "{}", Printed(changes))?;
        }
        Ok(())
    }
}

/// The numbers of [`CreateMode`].
mod create_mode {
    pub(super) const UNCHECKED: u32 = 0;
    pub(super) const GUARDED: u32 = 1;
    pub(super) const EXCLUSIVE: u32 = 2;
}

impl Encode for CreateMode {
    fn encode(&self, encoder: &mut Encoder<'_>) {
        match self {
            CreateMode::Unchecked(attributes) => {
                encoder.u32(create_mode::UNCHECKED);
                attributes.encode(encoder);
            }
            CreateMode::Guarded(attributes) => {
                encoder.u32(create_mode::GUARDED);
                attributes.encode(encoder);
            }
            CreateMode::Exclusive(verifier) => {
                encoder.u32(create_mode::EXCLUSIVE);
                verifier.encode(encoder);
            }
        }
    }
}

impl Decode<'_> for CreateMode {
    fn decode(decoder: &mut Decoder<'_>) -> Result<CreateMode, XdrError> {
        Ok(match decoder.u32()? {
            create_mode::UNCHECKED => CreateMode::Unchecked(AttributeChanges::decode(decoder)?),
            create_mode::GUARDED => CreateMode::Guarded(AttributeChanges::decode(decoder)?),
            create_mode::EXCLUSIVE => CreateMode::Exclusive(*decoder.fixed()?),
            _ => return Err(XdrError::Value),
        })
    }
}

enumeration! {
    /// The type of a file, with NFSv3's numbers (`ftype3`, RFC 1813 section 2.6).
    #[allow(missing_docs)] // the names say it
    FileKind {
        Regular = 1 => "file",
        Directory = 2 => "dir",
        BlockDevice = 3 => "blockdev",
        CharacterDevice = 4 => "chardev",
        Symlink = 5 => "symlink",
        Socket = 6 => "socket",
        Fifo = 7 => "fifo",
    }
}

/// The numbers of a device; zeros of a file that is no device. They print as `major:minor`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DeviceNumbers {
    /// The major number.
    pub major: u32,
    /// The minor number.
    pub minor: u32,
}

impl fmt::Display for DeviceNumbers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.major, self.minor)
    }
}

/// The kind of the file that MKNOD makes (`node`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NodeKind {
    /// A block device.
    BlockDevice(DeviceNumbers),
    /// A character device.
    CharacterDevice(DeviceNumbers),
    /// A socket.
    Socket,
    /// A FIFO.
    Fifo,
}

impl fmt::Display for NodeKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.kind())?;
        match self {
            NodeKind::BlockDevice(device) | NodeKind::CharacterDevice(device) => {
                write!(f, "({device})")
            }
            NodeKind::Socket | NodeKind::Fifo => Ok(()),
        }
    }
}

impl NodeKind {
    /// The type of the file.
    pub fn kind(self) -> FileKind {
        match self {
            NodeKind::BlockDevice(..) => FileKind::BlockDevice,
            NodeKind::CharacterDevice(..) => FileKind::CharacterDevice,
            NodeKind::Socket => FileKind::Socket,
            NodeKind::Fifo => FileKind::Fifo,
        }
    }

    /// The numbers of a device; zeros of a socket or FIFO.
    pub fn device(self) -> DeviceNumbers {
        match self {
            NodeKind::BlockDevice(device) | NodeKind::CharacterDevice(device) => device,
            NodeKind::Socket | NodeKind::Fifo => DeviceNumbers::default(),
        }
    }
}

impl Encode for DeviceNumbers {
    fn encode(&self, encoder: &mut Encoder<'_>) {
        encoder.u32(self.major);
        encoder.u32(self.minor);
    }
}

impl Decode<'_> for DeviceNumbers {
    fn decode(decoder: &mut Decoder<'_>) -> Result<DeviceNumbers, XdrError> {
        Ok(DeviceNumbers {
            major: decoder.u32()?,
            minor: decoder.u32()?,
        })
    }
}

impl Encode for NodeKind {
    fn encode(&self, encoder: &mut Encoder<'_>) {
        self.kind().encode(encoder);
        self.device().encode(encoder);
    }
}

impl Decode<'_> for NodeKind {
    fn decode(decoder: &mut Decoder<'_>) -> Result<NodeKind, XdrError> {
        let kind = FileKind::decode(decoder)?;
        let device = DeviceNumbers::decode(decoder)?;
        Ok(match kind {
            FileKind::BlockDevice => NodeKind::BlockDevice(device),
            FileKind::CharacterDevice => NodeKind::CharacterDevice(device),
            FileKind::Socket => NodeKind::Socket,
            FileKind::Fifo => NodeKind::Fifo,
            FileKind::Regular | FileKind::Directory | FileKind::Symlink => {
                return Err(XdrError::Value);
            }
        })
    }
}

/// Rights of ACCESS, as NFSv3's bits (RFC 1813 section 3.3.4), by whose names it prints.
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
    /// Execute a file.
    pub const EXECUTE: u32 = 32;
}

impl fmt::Display for AccessMask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", access_bits(&self.0))
    }
}

print_as_display!(
    FileId,
    Timestamp,
    CreateMode,
    NodeKind,
    AccessMask,
    DeviceNumbers
);

impl Encode for AccessMask {
    fn encode(&self, encoder: &mut Encoder<'_>) {
        encoder.u32(self.0);
    }
}

impl Decode<'_> for AccessMask {
    fn decode(decoder: &mut Decoder<'_>) -> Result<AccessMask, XdrError> {
        decoder.u32().map(AccessMask)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::xdr::from_bytes;
    use alloc::string::ToString;

    #[test]
    fn attributes_print_on_a_line() {
        let changes = b"\0\0\0\x01\0\0\x01\xa4\0\0\0\0\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0\x05\
            \0\0\0\x01\0\0\0\x02\0\0\0\0\0\0\0\x07\0\0\0\x09";
        let changes = from_bytes::<AttributeChanges>(changes).unwrap();
        assert_eq!(
            changes.to_string(),
            "change mode=0644 size=5 accessed=now modified=7.000000009"
        );
        assert_eq!(
            CreateMode::Unchecked(changes).to_string(),
            "unchecked(mode=0644 size=5 accessed=now modified=7.000000009)"
        );
        let exclusive = CreateMode::Exclusive([1; 8]).to_string();
        assert_eq!(exclusive, "exclusive(0101010101010101)");
        let device = DeviceNumbers { major: 8, minor: 1 };
        assert_eq!(NodeKind::BlockDevice(device).to_string(), "blockdev(8:1)");
        assert_eq!(AccessMask(0x21).to_string(), "read,execute");
    }
}
