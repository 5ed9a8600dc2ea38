//! What files are like and who may use them, as the manager is asked for it and tells it.

use crate::xdr::{Decode, Decoder, Encode, Encoder, XdrError, enumeration, record};
use core::time::Duration;

/// A file's number in its volume, never given to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FileId(pub u64);

/// The directory that all others are in.
pub const ROOT: FileId = FileId(1);

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
    /// A moment: seconds since the Unix epoch, and nanoseconds after that second.
    #[derive(PartialOrd, Ord, Hash, Default)]
    Timestamp {
        /// Seconds; before 1970 negative.
        seconds: i64,
        /// Nanoseconds after the second, below 10^9 where the sender keeps to that.
        nanoseconds: u32,
    }
}

impl Timestamp {
    /// The moment that is this long after the Unix epoch.
    pub fn since_epoch(time: Duration) -> Timestamp {
        Timestamp {
            seconds: i64::try_from(time.as_secs()).unwrap_or(i64::MAX),
            nanoseconds: time.subsec_nanos(),
        }
    }
}

/// A time to set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SetTimestamp {
    /// Leave it.
    #[default]
    Keep,
    /// The manager's now.
    Now,
    /// This time.
    To(Timestamp),
}

impl Encode for SetTimestamp {
    fn encode(&self, encoder: &mut Encoder<'_>) {
        match self {
            SetTimestamp::Keep => encoder.u32(0),
            SetTimestamp::Now => encoder.u32(1),
            SetTimestamp::To(time) => {
                encoder.u32(2);
                time.encode(encoder);
            }
        }
    }
}

impl Decode<'_> for SetTimestamp {
    fn decode(decoder: &mut Decoder<'_>) -> Result<SetTimestamp, XdrError> {
        Ok(match decoder.u32()? {
            0 => SetTimestamp::Keep,
            1 => SetTimestamp::Now,
            2 => SetTimestamp::To(Timestamp::decode(decoder)?),
            _ => return Err(XdrError::Value),
        })
    }
}

record! {
    /// Attributes to set; `None` leaves one as it is.
    #[derive(Default)]
    AttributeChanges {
        /// Permission bits.
        mode: Option<u32>,
        /// Owner.
        uid: Option<u32>,
        /// Group.
        gid: Option<u32>,
        /// Length in bytes: truncates, or extends with zeros.
        size: Option<u64>,
        /// Last read.
        access_time: SetTimestamp,
        /// Last write.
        modify_time: SetTimestamp,
    }
}

/// How CREATE treats a name that exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CreateMode {
    /// Takes the existing file.
    Unchecked(AttributeChanges),
    /// Fails.
    Guarded(AttributeChanges),
    /// Succeeds only if the same verifier made it.
    Exclusive([u8; 8]),
}

impl Encode for CreateMode {
    fn encode(&self, encoder: &mut Encoder<'_>) {
        match self {
            CreateMode::Unchecked(attributes) => {
                encoder.u32(0);
                attributes.encode(encoder);
            }
            CreateMode::Guarded(attributes) => {
                encoder.u32(1);
                attributes.encode(encoder);
            }
            CreateMode::Exclusive(verifier) => {
                encoder.u32(2);
                verifier.encode(encoder);
            }
        }
    }
}

impl Decode<'_> for CreateMode {
    fn decode(decoder: &mut Decoder<'_>) -> Result<CreateMode, XdrError> {
        Ok(match decoder.u32()? {
            0 => CreateMode::Unchecked(AttributeChanges::decode(decoder)?),
            1 => CreateMode::Guarded(AttributeChanges::decode(decoder)?),
            2 => CreateMode::Exclusive(*decoder.fixed()?),
            _ => return Err(XdrError::Value),
        })
    }
}

enumeration! {
    /// What a file is: NFSv3's numbers (RFC 1813 section 2.6, `ftype3`).
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

/// What MKNOD makes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NodeKind {
    /// A block device with its major and minor number.
    BlockDevice(u32, u32),
    /// A character device with its major and minor number.
    CharacterDevice(u32, u32),
    /// A socket.
    Socket,
    /// A FIFO.
    Fifo,
}

impl NodeKind {
    /// The kind of the file that it makes.
    pub fn kind(self) -> FileKind {
        match self {
            NodeKind::BlockDevice(..) => FileKind::BlockDevice,
            NodeKind::CharacterDevice(..) => FileKind::CharacterDevice,
            NodeKind::Socket => FileKind::Socket,
            NodeKind::Fifo => FileKind::Fifo,
        }
    }

    /// Major and minor number; zeros of what is no device.
    pub fn device(self) -> (u32, u32) {
        match self {
            NodeKind::BlockDevice(major, minor) | NodeKind::CharacterDevice(major, minor) => {
                (major, minor)
            }
            NodeKind::Socket | NodeKind::Fifo => (0, 0),
        }
    }
}

impl Encode for NodeKind {
    fn encode(&self, encoder: &mut Encoder<'_>) {
        let (major, minor) = self.device();
        self.kind().encode(encoder);
        encoder.u32(major);
        encoder.u32(minor);
    }
}

impl Decode<'_> for NodeKind {
    fn decode(decoder: &mut Decoder<'_>) -> Result<NodeKind, XdrError> {
        let kind = FileKind::decode(decoder)?;
        let (major, minor) = (decoder.u32()?, decoder.u32()?);
        Ok(match kind {
            FileKind::BlockDevice => NodeKind::BlockDevice(major, minor),
            FileKind::CharacterDevice => NodeKind::CharacterDevice(major, minor),
            FileKind::Socket => NodeKind::Socket,
            FileKind::Fifo => NodeKind::Fifo,
            FileKind::Regular | FileKind::Directory | FileKind::Symlink => {
                return Err(XdrError::Value);
            }
        })
    }
}

/// Rights of ACCESS, as NFSv3's bits (RFC 1813 section 3.3.4).
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
