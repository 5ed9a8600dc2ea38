//! Arguments and results, procedure by procedure in the order of their numbers (RFC 1813 section 3.3).

use super::{
    Attributes, DATA_MAX, Device, DirectoryListing, DirectoryName, Entry, EntryPlus, Failed,
    FileHandle, FileType, Path, PostOpAttributes, SetAttributes, Stable, Time, WccData,
    access_bits,
};
use crate::xdr::{
    Decode, Decoder, Encode, Encoder, Length, Print, Printed, XdrError, print_as_display, printed,
    record,
};
use crate::{Hex, NamedBits};
use core::fmt;

/// GETATTR's arguments (section 3.3.1): the object.
pub type GetattrArgs<'a> = FileHandle<'a>;

/// GETATTR's results.
pub type GetattrResult = Result<Attributes, Failed<()>>;

record! {
    /// SETATTR's arguments (section 3.3.2).
    SetattrArgs<'a> = "SETATTR3args" {
        /// The object.
        object: FileHandle<'a>,
        /// The attributes to set.
        change: SetAttributes as "new_attributes",
        /// The change time that the object must have; the server answers NOT_SYNC if it has another.
        guard: Option<Time>,
    }
}

/// SETATTR's results: the object's consistency data.
pub type SetattrResult = Result<WccData, Failed<WccData>>;

/// LOOKUP's arguments (section 3.3.3).
pub type LookupArgs<'a> = DirectoryName<'a>;

record! {
    /// The object that LOOKUP found.
    LookupOk<'a> = "LOOKUP3resok" {
        /// The object.
        object: FileHandle<'a>,
        /// The object's attributes.
        attributes: PostOpAttributes as "obj_attributes",
        /// The directory's attributes.
        directory: PostOpAttributes as "dir_attributes",
    }
}

/// LOOKUP's results; of a failed one the directory's attributes.
pub type LookupResult<'a> = Result<LookupOk<'a>, Failed<PostOpAttributes>>;

record! {
    /// ACCESS's arguments (section 3.3.4).
    AccessArgs<'a> = "ACCESS3args" {
        /// The object.
        object: FileHandle<'a>,
        /// The rights asked about, as bits that [`access_bits`] names.
        access: u32 as "access" via access_bits,
    }
}

record! {
    /// The rights that a caller has.
    AccessOk = "ACCESS3resok" {
        /// The object's attributes.
        attributes: PostOpAttributes as "obj_attributes",
        /// The requested rights that the caller has.
        access: u32 as "access" via access_bits,
    }
}

/// ACCESS's results; of a failed one the object's attributes.
pub type AccessResult = Result<AccessOk, Failed<PostOpAttributes>>;

/// READLINK's arguments (section 3.3.5): the link.
pub type ReadlinkArgs<'a> = FileHandle<'a>;

record! {
    /// The text of a link.
    ReadlinkOk<'a> = "READLINK3resok" {
        /// The link's attributes.
        attributes: PostOpAttributes as "symlink_attributes",
        /// The text.
        target: Path<'a> as "data",
    }
}

/// READLINK's results; of a failed one the link's attributes.
pub type ReadlinkResult<'a> = Result<ReadlinkOk<'a>, Failed<PostOpAttributes>>;

record! {
    /// READLINK's results up to and including the text's length word.
    ReadlinkHead = "READLINK3resok" {
        /// The link's attributes.
        attributes: PostOpAttributes as "symlink_attributes",
        /// Bytes of text that follow, at most [`PATH_MAX`](super::PATH_MAX) from a server that keeps to it.
        length: u32 as "data_length",
    }
}

/// READLINK's results with the text travelling apart.
pub type ReadlinkHeadResult = Result<ReadlinkHead, Failed<PostOpAttributes>>;

record! {
    /// READ's arguments (section 3.3.6).
    ReadArgs<'a> = "READ3args" {
        /// The file.
        file: FileHandle<'a>,
        /// The position of the first byte to read, in bytes from the file's start.
        offset: u64,
        /// Bytes to read.
        count: u32,
    }
}

record! {
    /// READ's results up to and including the data's length word.
    ReadHead = "READ3resok" {
        /// The file's attributes.
        attributes: PostOpAttributes as "file_attributes",
        /// Bytes read.
        count: u32,
        /// The bytes read reach the end of the file.
        eof: bool,
        /// Bytes that follow; equal to `count` from a server that keeps to the standard.
        length: u32 as "data_length",
    }
}

/// READ's results with the data travelling apart.
pub type ReadHeadResult = Result<ReadHead, Failed<PostOpAttributes>>;

/// READ's results with the data in the message. The printer shows the length of the data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReadOk<'a> {
    /// The file's attributes.
    pub attributes: PostOpAttributes,
    /// Bytes read.
    pub count: u32,
    /// The bytes read reach the end of the file.
    pub eof: bool,
    /// The bytes read, at most [`DATA_MAX`]; as many as `count` from a server that keeps to the standard.
    pub data: &'a [u8],
}

printed! {
    ReadOk<'a> = "READ3resok" {
        attributes as "file_attributes",
        count,
        eof,
        data as "data" via Length,
    }
}

impl Encode for ReadOk<'_> {
    fn encode(&self, encoder: &mut Encoder<'_>) {
        self.attributes.encode(encoder);
        encoder.u32(self.count);
        encoder.bool(self.eof);
        encoder.opaque(self.data);
    }
}

impl<'a> Decode<'a> for ReadOk<'a> {
    fn decode(decoder: &mut Decoder<'a>) -> Result<Self, XdrError> {
        Ok(ReadOk {
            attributes: Decode::decode(decoder)?,
            count: decoder.u32()?,
            eof: decoder.bool()?,
            data: decoder.opaque(DATA_MAX)?,
        })
    }
}

/// READ's results; of a failed one the file's attributes.
pub type ReadResult<'a> = Result<ReadOk<'a>, Failed<PostOpAttributes>>;

record! {
    /// WRITE's arguments up to and including the data's length word.
    WriteHead<'a> = "WRITE3args" {
        /// The file.
        file: FileHandle<'a>,
        /// The position of the first byte to write, in bytes from the file's start.
        offset: u64,
        /// Bytes to write.
        count: u32,
        /// The durability that the data has to have before the reply.
        stable: Stable,
        /// Bytes that follow; must equal `count`.
        length: u32 as "data_length",
    }
}

/// WRITE's arguments (section 3.3.7) with the data in the message. The printer shows the length of the data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WriteArgs<'a> {
    /// The file.
    pub file: FileHandle<'a>,
    /// The position of the first byte to write, in bytes from the file's start.
    pub offset: u64,
    /// Bytes to write.
    pub count: u32,
    /// The durability that the data has to have before the reply.
    pub stable: Stable,
    /// The bytes to write, at most [`DATA_MAX`]; must be as many as `count`.
    pub data: &'a [u8],
}

printed! {
    WriteArgs<'a> = "WRITE3args" {
        file,
        offset,
        count,
        stable,
        data as "data" via Length,
    }
}

impl Encode for WriteArgs<'_> {
    fn encode(&self, encoder: &mut Encoder<'_>) {
        self.file.encode(encoder);
        encoder.u64(self.offset);
        encoder.u32(self.count);
        self.stable.encode(encoder);
        encoder.opaque(self.data);
    }
}

impl<'a> Decode<'a> for WriteArgs<'a> {
    fn decode(decoder: &mut Decoder<'a>) -> Result<Self, XdrError> {
        Ok(WriteArgs {
            file: Decode::decode(decoder)?,
            offset: decoder.u64()?,
            count: decoder.u32()?,
            stable: Decode::decode(decoder)?,
            data: decoder.opaque(DATA_MAX)?,
        })
    }
}

record! {
    /// The outcome of a WRITE.
    WriteOk = "WRITE3resok" {
        /// The file's consistency data.
        wcc: WccData as "file_wcc",
        /// Bytes written, from 1 to the count of the arguments; 0 for a count of 0.
        count: u32,
        /// The durability that they have.
        committed: Stable,
        /// The write verifier: another one after unstable data may have been lost.
        verifier: [u8; 8] as "verf",
    }
}

/// WRITE's results; of a failed one the file's consistency data.
pub type WriteResult = Result<WriteOk, Failed<WccData>>;

/// The treatment of a name that exists (`createhow3`, section 3.3.8).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CreateHow {
    /// UNCHECKED (0): CREATE succeeds with the existing file; these attributes apply.
    Unchecked(SetAttributes),
    /// GUARDED (1): CREATE fails with EXIST; a new file gets these attributes.
    Guarded(SetAttributes),
    /// EXCLUSIVE (2): CREATE succeeds only if a CREATE with this verifier made the file.
    Exclusive([u8; 8]),
}

/// `createmode3`.
mod createmode {
    pub(super) const UNCHECKED: u32 = 0;
    pub(super) const GUARDED: u32 = 1;
    pub(super) const EXCLUSIVE: u32 = 2;
}

impl fmt::Display for CreateHow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (mode, attributes) = match self {
            CreateHow::Unchecked(attributes) => ("UNCHECKED", attributes),
            CreateHow::Guarded(attributes) => ("GUARDED", attributes),
            CreateHow::Exclusive(verifier) => return write!(f, "EXCLUSIVE({})", Hex(verifier)),
        };
        f.write_str(mode)?;
        if !attributes.is_absent() {
            write!(f, "{}", Printed(attributes))?;
        }
        Ok(())
    }
}

impl Encode for CreateHow {
    fn encode(&self, encoder: &mut Encoder<'_>) {
        match self {
            CreateHow::Unchecked(attributes) => {
                encoder.u32(createmode::UNCHECKED);
                attributes.encode(encoder);
            }
            CreateHow::Guarded(attributes) => {
                encoder.u32(createmode::GUARDED);
                attributes.encode(encoder);
            }
            CreateHow::Exclusive(verifier) => {
                encoder.u32(createmode::EXCLUSIVE);
                verifier.encode(encoder);
            }
        }
    }
}

impl Decode<'_> for CreateHow {
    fn decode(decoder: &mut Decoder<'_>) -> Result<Self, XdrError> {
        match decoder.u32()? {
            createmode::UNCHECKED => Decode::decode(decoder).map(CreateHow::Unchecked),
            createmode::GUARDED => Decode::decode(decoder).map(CreateHow::Guarded),
            createmode::EXCLUSIVE => Decode::decode(decoder).map(CreateHow::Exclusive),
            _ => Err(XdrError::Value),
        }
    }
}

record! {
    /// CREATE's arguments (section 3.3.8).
    CreateArgs<'a> = "CREATE3args" {
        /// The name of the file.
        place: DirectoryName<'a> as "where",
        /// The treatment of a name that exists, and the attributes of a new file.
        how: CreateHow,
    }
}

record! {
    /// The object that CREATE, MKDIR, SYMLINK or MKNOD made.
    CreateOk<'a> = "CREATE3resok" {
        /// The object's handle, if the server gives it (`post_op_fh3`).
        object: Option<FileHandle<'a>> as "obj",
        /// The object's attributes.
        attributes: PostOpAttributes as "obj_attributes",
        /// The directory's consistency data.
        directory: WccData as "dir_wcc",
    }
}

/// The results of CREATE, MKDIR, SYMLINK and MKNOD; of a failed one the directory's consistency data.
pub type CreateResult<'a> = Result<CreateOk<'a>, Failed<WccData>>;

record! {
    /// MKDIR's arguments (section 3.3.9).
    MkdirArgs<'a> = "MKDIR3args" {
        /// The name of the new directory.
        place: DirectoryName<'a> as "where",
        /// The attributes of the new directory.
        attributes: SetAttributes,
    }
}

record! {
    /// SYMLINK's arguments (section 3.3.10).
    SymlinkArgs<'a> = "SYMLINK3args" {
        /// The name of the new link.
        place: DirectoryName<'a> as "where",
        /// The attributes of the new link.
        attributes: SetAttributes as "symlink_attributes",
        /// The text of the new link.
        target: Path<'a> as "symlink_data",
    }
}

record! {
    /// SYMLINK's arguments up to and including the text's length word.
    SymlinkHead<'a> = "SYMLINK3args" {
        /// The name of the new link.
        place: DirectoryName<'a> as "where",
        /// The attributes of the new link.
        attributes: SetAttributes as "symlink_attributes",
        /// Bytes of text that follow.
        length: u32 as "symlink_data_length",
    }
}

/// The kind of the object that MKNOD makes (`mknoddata3`, section 3.3.11).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MknodData {
    /// NF3CHR: a character device.
    CharacterDevice {
        /// The attributes of the device's file (dev_attributes).
        attributes: SetAttributes,
        /// The numbers of the device (spec).
        device: Device,
    },
    /// NF3BLK: a block device.
    BlockDevice {
        /// The attributes of the device's file (dev_attributes).
        attributes: SetAttributes,
        /// The numbers of the device (spec).
        device: Device,
    },
    /// NF3SOCK: a socket with these attributes.
    Socket(SetAttributes),
    /// NF3FIFO: a FIFO with these attributes.
    Fifo(SetAttributes),
    /// A type that other procedures make; the answer is BADTYPE. Never one of the above.
    Other(FileType),
}

impl MknodData {
    /// The type of the object.
    pub fn file_type(&self) -> FileType {
        match self {
            MknodData::CharacterDevice { .. } => FileType::CharacterDevice,
            MknodData::BlockDevice { .. } => FileType::BlockDevice,
            MknodData::Socket(_) => FileType::Socket,
            MknodData::Fifo(_) => FileType::Fifo,
            MknodData::Other(other) => *other,
        }
    }

    /// The attributes of the object; `None` for [`MknodData::Other`].
    pub fn attributes(&self) -> Option<&SetAttributes> {
        match self {
            MknodData::CharacterDevice { attributes, .. }
            | MknodData::BlockDevice { attributes, .. }
            | MknodData::Socket(attributes)
            | MknodData::Fifo(attributes) => Some(attributes),
            MknodData::Other(_) => None,
        }
    }

    /// The numbers of a device; `None` for other types.
    pub fn device(&self) -> Option<&Device> {
        match self {
            MknodData::CharacterDevice { device, .. } | MknodData::BlockDevice { device, .. } => {
                Some(device)
            }
            MknodData::Socket(_) | MknodData::Fifo(_) | MknodData::Other(_) => None,
        }
    }
}

impl fmt::Display for MknodData {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.file_type())?;
        if let Some(device) = self.device() {
            write!(f, " {device}")?;
        }
        match self.attributes() {
            Some(attributes) if !attributes.is_absent() => write!(f, " {}", Printed(attributes)),
            _ => Ok(()),
        }
    }
}

print_as_display!(CreateHow, MknodData);

impl Encode for MknodData {
    fn encode(&self, encoder: &mut Encoder<'_>) {
        self.file_type().encode(encoder);
        if let Some(attributes) = self.attributes() {
            attributes.encode(encoder);
        }
        if let Some(device) = self.device() {
            device.encode(encoder);
        }
    }
}

impl Decode<'_> for MknodData {
    fn decode(decoder: &mut Decoder<'_>) -> Result<Self, XdrError> {
        // Fields are decoded in the order in which they stand here.
        Ok(match FileType::decode(decoder)? {
            FileType::CharacterDevice => MknodData::CharacterDevice {
                attributes: Decode::decode(decoder)?,
                device: Decode::decode(decoder)?,
            },
            FileType::BlockDevice => MknodData::BlockDevice {
                attributes: Decode::decode(decoder)?,
                device: Decode::decode(decoder)?,
            },
            FileType::Socket => MknodData::Socket(Decode::decode(decoder)?),
            FileType::Fifo => MknodData::Fifo(Decode::decode(decoder)?),
            other => MknodData::Other(other),
        })
    }
}

record! {
    /// MKNOD's arguments (section 3.3.11).
    MknodArgs<'a> = "MKNOD3args" {
        /// The name of the new object.
        place: DirectoryName<'a> as "where",
        /// The kind of the new object, and its attributes.
        what: MknodData,
    }
}

/// REMOVE's arguments (section 3.3.12).
pub type RemoveArgs<'a> = DirectoryName<'a>;
/// REMOVE's results: the directory's consistency data.
pub type RemoveResult = Result<WccData, Failed<WccData>>;
/// RMDIR's arguments (section 3.3.13).
pub type RmdirArgs<'a> = DirectoryName<'a>;
/// RMDIR's results: the directory's consistency data.
pub type RmdirResult = Result<WccData, Failed<WccData>>;

record! {
    /// RENAME's arguments (section 3.3.14).
    RenameArgs<'a> = "RENAME3args" {
        /// The old name.
        from: DirectoryName<'a>,
        /// The new name.
        to: DirectoryName<'a>,
    }
}

record! {
    /// Consistency data of both directories of a RENAME.
    #[derive(Default)]
    RenameWcc = "RENAME3res" {
        /// The consistency data of the directory with the old name.
        from: WccData as "fromdir_wcc",
        /// The consistency data of the directory with the new name.
        to: WccData as "todir_wcc",
    }
}

/// RENAME's results.
pub type RenameResult = Result<RenameWcc, Failed<RenameWcc>>;

record! {
    /// LINK's arguments (section 3.3.15).
    LinkArgs<'a> = "LINK3args" {
        /// The object.
        file: FileHandle<'a>,
        /// The name that it gets besides the old ones.
        place: DirectoryName<'a> as "link",
    }
}

record! {
    /// The attributes in a reply to LINK, whether it succeeded or failed.
    #[derive(Default)]
    LinkWcc = "LINK3res" {
        /// The object's attributes.
        attributes: PostOpAttributes as "file_attributes",
        /// The directory's consistency data.
        directory: WccData as "linkdir_wcc",
    }
}

/// LINK's results.
pub type LinkResult = Result<LinkWcc, Failed<LinkWcc>>;

record! {
    /// READDIR's arguments (section 3.3.16).
    ReaddirArgs<'a> = "READDIR3args" {
        /// The directory.
        directory: FileHandle<'a> as "dir",
        /// The cookie of the entry before the first one wanted; 0 for the start.
        cookie: u64,
        /// The verifier that came with the cookie; zeros for the start.
        verifier: [u8; 8] as "cookieverf",
        /// Most bytes of `READDIR3resok`.
        count: u32,
    }
}

/// READDIR's results; of a failed one the directory's attributes.
pub type ReaddirResult<'a> = Result<DirectoryListing<'a, Entry<'a>>, Failed<PostOpAttributes>>;

record! {
    /// READDIRPLUS's arguments (section 3.3.17).
    ReaddirplusArgs<'a> = "READDIRPLUS3args" {
        /// The directory.
        directory: FileHandle<'a> as "dir",
        /// The cookie of the entry before the first one wanted; 0 for the start.
        cookie: u64,
        /// The verifier that came with the cookie; zeros for the start.
        verifier: [u8; 8] as "cookieverf",
        /// Most bytes of fileids, names and cookies.
        directory_count: u32 as "dircount",
        /// Most bytes of `READDIRPLUS3resok`.
        max_count: u32 as "maxcount",
    }
}

/// READDIRPLUS's results; of a failed one the directory's attributes.
pub type ReaddirplusResult<'a> =
    Result<DirectoryListing<'a, EntryPlus<'a>>, Failed<PostOpAttributes>>;

/// FSSTAT's arguments (section 3.3.18): any object of the file system.
pub type FsstatArgs<'a> = FileHandle<'a>;

record! {
    /// The space of a file system.
    FsstatOk = "FSSTAT3resok" {
        /// The object's attributes.
        attributes: PostOpAttributes as "obj_attributes",
        /// Bytes of the file system.
        bytes_total: u64 as "tbytes",
        /// Free bytes.
        bytes_free: u64 as "fbytes",
        /// Free bytes that the caller may use.
        bytes_available: u64 as "abytes",
        /// File slots of the file system.
        files_total: u64 as "tfiles",
        /// Free file slots.
        files_free: u64 as "ffiles",
        /// Free file slots that the caller may use.
        files_available: u64 as "afiles",
        /// Seconds for which these numbers will not change; 0 when unknown.
        invariant_seconds: u32 as "invarsec",
    }
}

/// FSSTAT's results; of a failed one the object's attributes.
pub type FsstatResult = Result<FsstatOk, Failed<PostOpAttributes>>;

/// FSINFO's arguments (section 3.3.19): the root of the file system.
pub type FsinfoArgs<'a> = FileHandle<'a>;

/// The property bits of FSINFO (section 3.3.19).
pub mod property {
    /// The file system has hard links.
    pub const LINK: u32 = 1;
    /// The file system has symbolic links.
    pub const SYMLINK: u32 = 2;
    /// PATHCONF is the same for every object.
    pub const HOMOGENEOUS: u32 = 8;
    /// SETATTR can set times.
    pub const CANSETTIME: u32 = 16;

    /// The names of the bits, from the least significant on. RFC 1813 does not define the third.
    pub(super) const NAMES: &[&str] = &["link", "symlink", "0x4", "homogeneous", "cansettime"];
}

fn property_bits(bits: &u32) -> NamedBits {
    NamedBits::new(*bits, property::NAMES)
}

record! {
    /// The fixed properties of a file system.
    FsinfoOk = "FSINFO3resok" {
        /// The object's attributes.
        attributes: PostOpAttributes as "obj_attributes",
        /// Most bytes of a READ.
        read_max: u32 as "rtmax",
        /// Bytes of a READ that work best.
        read_preferred: u32 as "rtpref",
        /// The bytes of a READ should be a multiple of this.
        read_multiple: u32 as "rtmult",
        /// Most bytes of a WRITE.
        write_max: u32 as "wtmax",
        /// Bytes of a WRITE that work best.
        write_preferred: u32 as "wtpref",
        /// The bytes of a WRITE should be a multiple of this.
        write_multiple: u32 as "wtmult",
        /// Bytes of a READDIR that work best.
        directory_preferred: u32 as "dtpref",
        /// Bytes of the largest file.
        file_size_max: u64 as "maxfilesize",
        /// The resolution of times.
        time_delta: Time,
        /// Bits of [`property`].
        properties: u32 as "properties" via property_bits,
    }
}

/// FSINFO's results; of a failed one the object's attributes.
pub type FsinfoResult = Result<FsinfoOk, Failed<PostOpAttributes>>;

/// PATHCONF's arguments (section 3.3.20): the object.
pub type PathconfArgs<'a> = FileHandle<'a>;

record! {
    /// The values of POSIX's pathconf(3).
    PathconfOk = "PATHCONF3resok" {
        /// The object's attributes.
        attributes: PostOpAttributes as "obj_attributes",
        /// Most hard links of one object.
        link_max: u32 as "linkmax",
        /// Most bytes of a name.
        name_max: u32,
        /// The server refuses longer names and does not cut them.
        no_truncation: bool as "no_trunc",
        /// Only root may change the owner of a file.
        chown_restricted: bool,
        /// "A" and "a" are the same name.
        case_insensitive: bool,
        /// The server keeps the case of names.
        case_preserving: bool,
    }
}

/// PATHCONF's results; of a failed one the object's attributes.
pub type PathconfResult = Result<PathconfOk, Failed<PostOpAttributes>>;

record! {
    /// COMMIT's arguments (section 3.3.21).
    CommitArgs<'a> = "COMMIT3args" {
        /// The file.
        file: FileHandle<'a>,
        /// The position of the first byte, in bytes from the file's start.
        offset: u64,
        /// Bytes to make durable; 0 for all from `offset` on.
        count: u32,
    }
}

record! {
    /// The outcome of a COMMIT.
    CommitOk = "COMMIT3resok" {
        /// The file's consistency data.
        wcc: WccData as "file_wcc",
        /// The write verifier: WRITEs that had the same one are durable now.
        verifier: [u8; 8] as "verf",
    }
}

/// COMMIT's results; of a failed one the file's consistency data.
pub type CommitResult = Result<CommitOk, Failed<WccData>>;
