//! The types that NFSv3's procedures are made of (RFC 1813 sections 2.5 and 2.6).

use super::{HANDLE_MAX, PATH_MAX};
use crate::xdr::{
    Decode, Decoder, Encode, Encoder, Octal, Print, Printed, XdrError, enumeration,
    print_as_display, printed, record,
};
use crate::{Hex, NamedBits, printable};
use core::fmt;
use core::num::NonZeroU32;

/// A file handle as it lies in a message (`nfs_fh3`, RFC 1813 section 2.6): up to [`HANDLE_MAX`] bytes, opaque to
/// clients. It prints as hexadecimal digits.
///
/// A length of 0 is legal XDR and no server's handle: servers answer BADHANDLE, clients refuse it.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct FileHandle<'a>(pub &'a [u8]);

impl fmt::Debug for FileHandle<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for FileHandle<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&Hex(self.0), f)
    }
}

/// A name in a directory (`filename3`, RFC 1813 section 2.6): bytes without a promised encoding. RFC 1813 sets no
/// bound, and a server refuses names from 256 bytes on with NAMETOOLONG, so a decoder accepts any length. It prints in
/// quotes, with escapes for control characters.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Name<'a>(pub &'a [u8]);

/// The text of a symbolic link (`nfspath3`, RFC 1813 section 2.6), at most [`PATH_MAX`] bytes on decode. It prints as a
/// [`Name`] does.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Path<'a>(pub &'a [u8]);

/// Prints bytes in quotes.
macro_rules! quoted {
    ($name:ident) => {
        impl fmt::Debug for $name<'_> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "\"{}\"", self.0.escape_ascii())
            }
        }

        impl fmt::Display for $name<'_> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "\"{}\"", printable(self.0))
            }
        }
    };
}

quoted!(Name);
quoted!(Path);
print_as_display!(FileHandle<'_>, Name<'_>, Path<'_>, NamedBits);

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
bounded_opaque!(Name, u32::MAX as usize);
bounded_opaque!(Path, PATH_MAX);

/// The reason for the failure of a procedure (`nfsstat3`, RFC 1813 section 2.6): never 0, which stands for success.
/// Codes of other versions stay as they came. It prints by the RFC's names, without their prefix.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Nfsstat(NonZeroU32);

macro_rules! statuses {
    ($($name:ident = $code:literal,)*) => {
        #[allow(missing_docs)] // the names are the specification's
        impl Nfsstat {
            /// All statuses of RFC 1813, in the order of their codes.
            pub const ALL: &[Nfsstat] = &[$(Nfsstat::$name,)*];

            $(pub const $name: Nfsstat = Nfsstat(
                NonZeroU32::new($code).expect("a status of the table is not 0"),
            );)*

            /// The name in RFC 1813, without the prefix; `None` for a code that RFC 1813 does not have.
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

    /// The code, as on the wire.
    pub const fn code(self) -> u32 {
        self.0.get()
    }
}

impl fmt::Debug for Nfsstat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for Nfsstat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None => write!(f, "nfsstat {}", self.0),
        }
    }
}

/// The result of a procedure that failed (`resfail`): a status that is not OK, and the attributes sent with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Failed<E> {
    /// The reason.
    pub status: Nfsstat,
    /// Attributes or consistency data, by the procedure.
    pub body: E,
}

impl<E: Print> fmt::Display for Failed<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.status)?;
        if !self.body.is_absent() {
            write!(f, " {}", Printed(&self.body))?;
        }
        Ok(())
    }
}

/// Prints as `OK` and the results, or as [`Failed`] does.
impl<T: Print, E: Print> Print for Result<T, Failed<E>> {
    fn print(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Ok(value) if value.is_absent() => f.write_str("OK"),
            Ok(value) => write!(f, "OK {}", Printed(value)),
            Err(failed) => write!(f, "{failed}"),
        }
    }
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
    /// The type of an object (`ftype3`, RFC 1813 section 2.6).
    #[allow(missing_docs)] // the names say it
    FileType {
        Regular = 1 => "file",
        Directory = 2 => "dir",
        BlockDevice = 3 => "blockdev",
        CharacterDevice = 4 => "chardev",
        Symlink = 5 => "symlink",
        Socket = 6 => "socket",
        Fifo = 7 => "fifo",
    }
}

enumeration! {
    /// The durability that a WRITE asks for or has (`stable_how`, RFC 1813 section 3.3.7).
    Stable {
        /// A crash before the next COMMIT may lose the data.
        Unstable = 0 => "unstable",
        /// The data is durable, and so are the attributes needed to find it.
        DataSync = 1 => "data_sync",
        /// The data and all attributes are durable.
        FileSync = 2 => "file_sync",
    }
}

record! {
    /// A time since the Unix epoch (`nfstime3`, RFC 1813 section 2.6). It prints as seconds with nine decimals.
    #[derive(PartialOrd, Ord, Hash, Default)]
    Time {
        /// Whole seconds, unsigned.
        seconds: u32,
        /// Nanoseconds after that second, below 10^9 where the sender keeps to the standard.
        nanoseconds: u32,
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:09}", self.seconds, self.nanoseconds)
    }
}

record! {
    /// The numbers of a device (`specdata3`, RFC 1813 section 2.6). It prints as `major:minor`.
    #[derive(Default)]
    Device {
        /// The major number (specdata1).
        major: u32,
        /// The minor number (specdata2).
        minor: u32,
    }
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.major, self.minor)
    }
}

print_as_display!(Nfsstat, Time, Device);

/// The attributes of an object (`fattr3`, RFC 1813 section 2.6), [`Attributes::LEN`] bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attributes {
    /// The type of the object.
    pub kind: FileType,
    /// Permission bits, 0o7777. Some servers send others, which mean nothing.
    pub mode: u32,
    /// The number of its hard links.
    pub link_count: u32,
    /// The number of its owner.
    pub uid: u32,
    /// The number of its group.
    pub gid: u32,
    /// Its length in bytes.
    pub size: u64,
    /// Bytes of disk that it takes.
    pub used: u64,
    /// The numbers of a device; without meaning for other types.
    pub device: Device,
    /// The number of its file system.
    pub fsid: u64,
    /// Its number in that file system.
    pub fileid: u64,
    /// The time of the last read.
    pub access_time: Time,
    /// The time of the last write.
    pub modify_time: Time,
    /// The time of the last change of data or attributes.
    pub change_time: Time,
}

printed! {
    Attributes = "fattr3" {
        kind as "type",
        mode as "mode" via Octal,
        link_count as "nlink",
        uid,
        gid,
        size,
        used,
        device as "rdev",
        fsid,
        fileid,
        access_time as "atime",
        modify_time as "mtime",
        change_time as "ctime",
    }
}

impl Attributes {
    /// Bytes of encoded attributes.
    pub const LEN: usize = 84;

    /// The words of the encoded attributes.
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

/// Appends all words at once, because GETATTR, LOOKUP and directory listings spend most of their encoding here.
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

/// Attributes that a server sends if it has them (`post_op_attr`, RFC 1813 section 2.6).
pub type PostOpAttributes = Option<Attributes>;

record! {
    /// The attributes that weak cache consistency compares (`wcc_attr`, RFC 1813 section 2.6).
    WccAttributes = "wcc_attr" {
        /// The length in bytes.
        size: u64,
        /// The time of the last write.
        modify_time: Time as "mtime",
        /// The time of the last change of data or attributes.
        change_time: Time as "ctime",
    }
}

record! {
    /// Weak cache consistency data (`wcc_data`, RFC 1813 section 2.6).
    #[derive(Default)]
    WccData = "wcc_data" {
        /// The attributes before the operation, only if the server took them atomically with it.
        before: Option<WccAttributes>,
        /// The attributes after the operation, if the server has them.
        after: PostOpAttributes,
    }
}

/// A time to set (`set_atime`, `set_mtime`, RFC 1813 section 2.6).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SetTime {
    /// DONT_CHANGE (0).
    #[default]
    Keep,
    /// SET_TO_SERVER_TIME (1).
    Server,
    /// SET_TO_CLIENT_TIME (2): this time.
    Client(Time),
}

/// `time_how`.
mod time_how {
    pub(super) const DONT_CHANGE: u32 = 0;
    pub(super) const SET_TO_SERVER_TIME: u32 = 1;
    pub(super) const SET_TO_CLIENT_TIME: u32 = 2;
}

impl Print for SetTime {
    fn print(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SetTime::Keep => f.write_str("-"),
            SetTime::Server => f.write_str("server"),
            SetTime::Client(time) => write!(f, "{time}"),
        }
    }

    fn is_absent(&self) -> bool {
        *self == SetTime::Keep
    }
}

impl Encode for SetTime {
    fn encode(&self, encoder: &mut Encoder<'_>) {
        match self {
            SetTime::Keep => encoder.u32(time_how::DONT_CHANGE),
            SetTime::Server => encoder.u32(time_how::SET_TO_SERVER_TIME),
            SetTime::Client(time) => {
                encoder.u32(time_how::SET_TO_CLIENT_TIME);
                time.encode(encoder);
            }
        }
    }
}

impl Decode<'_> for SetTime {
    fn decode(decoder: &mut Decoder<'_>) -> Result<Self, XdrError> {
        match decoder.u32()? {
            time_how::DONT_CHANGE => Ok(SetTime::Keep),
            time_how::SET_TO_SERVER_TIME => Ok(SetTime::Server),
            time_how::SET_TO_CLIENT_TIME => Time::decode(decoder).map(SetTime::Client),
            _ => Err(XdrError::Value),
        }
    }
}

record! {
    /// Attributes to set (`sattr3`, RFC 1813 section 2.6); `None` leaves one as it is.
    #[derive(Default)]
    SetAttributes = "sattr3" {
        /// Permission bits, 0o7777.
        mode: Option<u32> as "mode" via Octal,
        /// The number of the owner.
        uid: Option<u32>,
        /// The number of the group.
        gid: Option<u32>,
        /// The length in bytes: truncates, or extends with zeros.
        size: Option<u64>,
        /// The time of the last read.
        access_time: SetTime as "atime",
        /// The time of the last write.
        modify_time: SetTime as "mtime",
    }
}

record! {
    /// A name in a directory (`diropargs3`, RFC 1813 section 2.6).
    DirectoryName<'a> = "diropargs3" {
        /// The directory.
        directory: FileHandle<'a> as "dir",
        /// The name in it.
        name: Name<'a>,
    }
}

/// The bits of ACCESS (RFC 1813 section 3.3.4), from the least significant on.
const ACCESS_NAMES: &[&str] = &["read", "lookup", "modify", "extend", "delete", "execute"];

/// Rights of ACCESS by name.
pub fn access_bits(bits: &u32) -> NamedBits {
    NamedBits::new(*bits, ACCESS_NAMES)
}
