//! The types that NFSv3's procedures are made of (RFC 1813 section 2.5 and 2.6).

use super::{HANDLE_MAX, NAME_MAX, PATH_MAX};
use crate::xdr::{Decode, Decoder, Encode, Encoder, XdrError, enumeration, record};
use core::fmt;
use core::num::NonZeroU32;

/// A file handle as it lies in a message (`nfs_fh3`): up to [`HANDLE_MAX`] bytes, opaque to clients.
///
/// A length of 0 is legal XDR and no server's handle: servers answer BADHANDLE, clients refuse it.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct FileHandle<'a>(pub &'a [u8]);

impl fmt::Debug for FileHandle<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// A name in a directory (`filename3`): bytes without a promised encoding, at most [`NAME_MAX`] on decode.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Name<'a>(pub &'a [u8]);

impl fmt::Debug for Name<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", self.0.escape_ascii())
    }
}

/// The text of a symbolic link (`nfspath3`), at most [`PATH_MAX`] bytes on decode.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Path<'a>(pub &'a [u8]);

impl fmt::Debug for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", self.0.escape_ascii())
    }
}

macro_rules! bounded_opaque {
    ($name:ident, $max:expr) => {
        impl Encode for $name<'_> {
            #[inline]
            fn encode(&self, encoder: &mut Encoder<'_>) {
                encoder.opaque(self.0);
            }
        }

        impl<'a> Decode<'a> for $name<'a> {
            #[inline]
            fn decode(decoder: &mut Decoder<'a>) -> Result<Self, XdrError> {
                decoder.opaque($max).map($name)
            }
        }
    };
}

bounded_opaque!(FileHandle, HANDLE_MAX);
bounded_opaque!(Name, NAME_MAX);
bounded_opaque!(Path, PATH_MAX);

/// Why a procedure failed (`nfsstat3`): never 0, which is success and not one of these. Codes of other versions or
/// of the future are kept as they came.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Nfsstat(NonZeroU32);

macro_rules! statuses {
    ($($name:ident = $code:literal,)*) => {
        #[allow(missing_docs)] // the names are the specification's
        impl Nfsstat {
            $(pub const $name: Nfsstat = Nfsstat(
                NonZeroU32::new($code).expect("a status of the table is not 0"),
            );)*

            /// Its name in RFC 1813, without the prefix; `None` for a code that is not there.
            pub const fn name(self) -> Option<&'static str> {
                match self.0.get() {
                    $($code => Some(stringify!($name)),)*
                    _ => None,
                }
            }
        }
    };
}

statuses! {
    PERM = 1,
    NOENT = 2,
    IO = 5,
    NXIO = 6,
    ACCES = 13,
    EXIST = 17,
    XDEV = 18,
    NODEV = 19,
    NOTDIR = 20,
    ISDIR = 21,
    INVAL = 22,
    FBIG = 27,
    NOSPC = 28,
    ROFS = 30,
    MLINK = 31,
    NAMETOOLONG = 63,
    NOTEMPTY = 66,
    DQUOT = 69,
    STALE = 70,
    REMOTE = 71,
    BADHANDLE = 10001,
    NOT_SYNC = 10002,
    BAD_COOKIE = 10003,
    NOTSUPP = 10004,
    TOOSMALL = 10005,
    SERVERFAULT = 10006,
    BADTYPE = 10007,
    JUKEBOX = 10008,
}

impl Nfsstat {
    /// The status with this code; `None` for 0.
    pub const fn new(code: u32) -> Option<Nfsstat> {
        match NonZeroU32::new(code) {
            Some(code) => Some(Nfsstat(code)),
            None => None,
        }
    }

    /// Its code.
    pub const fn code(self) -> u32 {
        self.0.get()
    }
}

impl fmt::Debug for Nfsstat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None => write!(f, "nfsstat {}", self.0),
        }
    }
}

/// The other side of a result: a status that is not OK, and what the procedure sends along with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Failed<E> {
    /// Why.
    pub status: Nfsstat,
    /// Attributes or consistency data, as the procedure has it.
    pub body: E,
}

impl<T: Encode, E: Encode> Encode for Result<T, Failed<E>> {
    #[inline]
    fn encode(&self, encoder: &mut Encoder<'_>) {
        match self {
            Ok(value) => {
                encoder.u32(0);
                value.encode(encoder);
            }
            Err(failed) => {
                encoder.u32(failed.status.code());
                failed.body.encode(encoder);
            }
        }
    }
}

impl<'a, T: Decode<'a>, E: Decode<'a>> Decode<'a> for Result<T, Failed<E>> {
    #[inline]
    fn decode(decoder: &mut Decoder<'a>) -> Result<Self, XdrError> {
        match Nfsstat::new(decoder.u32()?) {
            None => T::decode(decoder).map(Ok),
            Some(status) => {
                let body = E::decode(decoder)?;
                Ok(Err(Failed { status, body }))
            }
        }
    }
}

enumeration! {
    /// What an object is (`ftype3`).
    #[allow(missing_docs)] // the names say it
    FileType {
        Regular = 1,
        Directory = 2,
        BlockDevice = 3,
        CharacterDevice = 4,
        Symlink = 5,
        Socket = 6,
        Fifo = 7,
    }
}

enumeration! {
    /// How durable a WRITE has to be, or became (`stable_how`).
    Stable {
        /// Perhaps lost in a crash until a COMMIT.
        Unstable = 0,
        /// Data, and what is needed to find it.
        DataSync = 1,
        /// Data and all attributes.
        FileSync = 2,
    }
}

record! {
    /// Seconds and nanoseconds since the Unix epoch (`nfstime3`).
    #[derive(PartialOrd, Ord, Hash, Default)]
    Time {
        /// Seconds, unsigned.
        seconds: u32,
        /// Nanoseconds.
        nanoseconds: u32,
    }
}

record! {
    /// The numbers of a device (`specdata3`).
    #[derive(Default)]
    Device {
        /// Major number.
        major: u32,
        /// Minor number.
        minor: u32,
    }
}

/// The attributes of an object (`fattr3`), 84 bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attributes {
    /// What it is.
    pub kind: FileType,
    /// Permission bits; others are sent by some servers and mean nothing.
    pub mode: u32,
    /// Names it has.
    pub link_count: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Bytes.
    pub size: u64,
    /// Bytes of disk.
    pub used: u64,
    /// Numbers, of a device.
    pub device: Device,
    /// The file system.
    pub fsid: u64,
    /// Its number there.
    pub fileid: u64,
    /// Last read.
    pub access_time: Time,
    /// Last write.
    pub modify_time: Time,
    /// Last change of anything.
    pub change_time: Time,
}

impl Attributes {
    /// Bytes on the wire.
    pub const LEN: usize = 84;

    /// Its words on the wire.
    #[inline]
    pub fn words(&self) -> [u32; Attributes::LEN / 4] {
        let (size, used) = (halves(self.size), halves(self.used));
        let (fsid, fileid) = (halves(self.fsid), halves(self.fileid));
        [
            self.kind as u32,
            self.mode,
            self.link_count,
            self.uid,
            self.gid,
            size[0],
            size[1],
            used[0],
            used[1],
            self.device.major,
            self.device.minor,
            fsid[0],
            fsid[1],
            fileid[0],
            fileid[1],
            self.access_time.seconds,
            self.access_time.nanoseconds,
            self.modify_time.seconds,
            self.modify_time.nanoseconds,
            self.change_time.seconds,
            self.change_time.nanoseconds,
        ]
    }
}

/// The two words of a hyper integer.
#[inline]
const fn halves(value: u64) -> [u32; 2] {
    [(value >> 32) as u32, (value & 0xffff_ffff) as u32]
}

/// One append for all words: GETATTR, LOOKUP and directory listings spend most of their encoding here.
impl Encode for Attributes {
    #[inline]
    fn encode(&self, encoder: &mut Encoder<'_>) {
        let mut bytes = [0; Attributes::LEN];
        for (place, word) in bytes.as_chunks_mut::<4>().0.iter_mut().zip(self.words()) {
            *place = word.to_be_bytes();
        }
        encoder.fixed(&bytes);
    }
}

impl Decode<'_> for Attributes {
    #[inline]
    fn decode(decoder: &mut Decoder<'_>) -> Result<Self, XdrError> {
        Ok(Attributes {
            kind: FileType::decode(decoder)?,
            mode: decoder.u32()?,
            link_count: decoder.u32()?,
            uid: decoder.u32()?,
            gid: decoder.u32()?,
            size: decoder.u64()?,
            used: decoder.u64()?,
            device: Device::decode(decoder)?,
            fsid: decoder.u64()?,
            fileid: decoder.u64()?,
            access_time: Time::decode(decoder)?,
            modify_time: Time::decode(decoder)?,
            change_time: Time::decode(decoder)?,
        })
    }
}

/// Attributes that a server sends if it can (`post_op_attr`).
pub type PostOpAttributes = Option<Attributes>;

record! {
    /// What weak cache consistency compares (`wcc_attr`).
    WccAttributes {
        /// Bytes.
        size: u64,
        /// Last write.
        modify_time: Time,
        /// Last change.
        change_time: Time,
    }
}

record! {
    /// Weak cache consistency data (`wcc_data`).
    #[derive(Default)]
    WccData {
        /// Before the operation, only if taken atomically with it.
        before: Option<WccAttributes>,
        /// After it, if obtainable.
        after: PostOpAttributes,
    }
}

/// A time to set (`set_atime`, `set_mtime`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SetTime {
    /// Leave it (DONT_CHANGE).
    #[default]
    Keep,
    /// The server's now (SET_TO_SERVER_TIME).
    Server,
    /// This (SET_TO_CLIENT_TIME).
    Client(Time),
}

impl Encode for SetTime {
    fn encode(&self, encoder: &mut Encoder<'_>) {
        match self {
            SetTime::Keep => encoder.u32(0),
            SetTime::Server => encoder.u32(1),
            SetTime::Client(time) => {
                encoder.u32(2);
                time.encode(encoder);
            }
        }
    }
}

impl Decode<'_> for SetTime {
    fn decode(decoder: &mut Decoder<'_>) -> Result<Self, XdrError> {
        match decoder.u32()? {
            0 => Ok(SetTime::Keep),
            1 => Ok(SetTime::Server),
            2 => Time::decode(decoder).map(SetTime::Client),
            _ => Err(XdrError::Value),
        }
    }
}

record! {
    /// Attributes to set (`sattr3`); `None` leaves one as it is.
    #[derive(Default)]
    SetAttributes {
        /// Permission bits.
        mode: Option<u32>,
        /// Owner.
        uid: Option<u32>,
        /// Group.
        gid: Option<u32>,
        /// Length.
        size: Option<u64>,
        /// Last read.
        access_time: SetTime,
        /// Last write.
        modify_time: SetTime,
    }
}

record! {
    /// A name in a directory (`diropargs3`).
    DirectoryName<'a> {
        /// The directory.
        directory: FileHandle<'a>,
        /// The name in it.
        name: Name<'a>,
    }
}
