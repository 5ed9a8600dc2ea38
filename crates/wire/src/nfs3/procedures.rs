//! Arguments and results, procedure by procedure in the order of their numbers (RFC 1813 section 3.3).

use super::{
    Attributes, DATA_MAX, Device, DirectoryListing, DirectoryName, Entry, EntryPlus, Failed,
    FileHandle, FileType, Path, PostOpAttributes, SetAttributes, Stable, Time, WccData,
};
use crate::xdr::{Decode, Decoder, Encode, Encoder, XdrError, record};

/// GETATTR's arguments: the object.
pub type GetattrArgs<'a> = FileHandle<'a>;

/// GETATTR's results.
pub type GetattrResult = Result<Attributes, Failed<()>>;

record! {
    /// SETATTR's arguments.
    SetattrArgs<'a> {
        /// The object.
        object: FileHandle<'a>,
        /// What to change.
        change: SetAttributes,
        /// The change time the object must have, or nothing is done.
        guard: Option<Time>,
    }
}

/// SETATTR's results.
pub type SetattrResult = Result<WccData, Failed<WccData>>;

/// LOOKUP's arguments.
pub type LookupArgs<'a> = DirectoryName<'a>;

record! {
    /// What LOOKUP found.
    LookupOk<'a> {
        /// The object.
        object: FileHandle<'a>,
        /// Its attributes.
        attributes: PostOpAttributes,
        /// The directory's.
        directory: PostOpAttributes,
    }
}

/// LOOKUP's results.
pub type LookupResult<'a> = Result<LookupOk<'a>, Failed<PostOpAttributes>>;

record! {
    /// ACCESS's arguments.
    AccessArgs<'a> {
        /// The object.
        object: FileHandle<'a>,
        /// The rights asked about.
        access: u32,
    }
}

record! {
    /// The rights a caller has.
    AccessOk {
        /// The object's attributes.
        attributes: PostOpAttributes,
        /// The subset of the rights asked about.
        access: u32,
    }
}

/// ACCESS's results.
pub type AccessResult = Result<AccessOk, Failed<PostOpAttributes>>;

/// READLINK's arguments: the link.
pub type ReadlinkArgs<'a> = FileHandle<'a>;

record! {
    /// The text of a link.
    ReadlinkOk<'a> {
        /// The link's attributes.
        attributes: PostOpAttributes,
        /// The text.
        target: Path<'a>,
    }
}

/// READLINK's results.
pub type ReadlinkResult<'a> = Result<ReadlinkOk<'a>, Failed<PostOpAttributes>>;

record! {
    /// READLINK's results up to and including the text's length word.
    ReadlinkHead {
        /// The link's attributes.
        attributes: PostOpAttributes,
        /// Bytes of text that follow.
        length: u32,
    }
}

/// READLINK's results with the text travelling apart.
pub type ReadlinkHeadResult = Result<ReadlinkHead, Failed<PostOpAttributes>>;

record! {
    /// READ's arguments.
    ReadArgs<'a> {
        /// The file.
        file: FileHandle<'a>,
        /// Where, in bytes from its start.
        offset: u64,
        /// How many bytes.
        count: u32,
    }
}

record! {
    /// READ's results up to and including the data's length word.
    ReadHead {
        /// The file's attributes.
        attributes: PostOpAttributes,
        /// Bytes read.
        count: u32,
        /// The last of them is the last of the file.
        eof: bool,
        /// Bytes that follow; equal to `count` if the server is right.
        length: u32,
    }
}

/// READ's results with the data travelling apart.
pub type ReadHeadResult = Result<ReadHead, Failed<PostOpAttributes>>;

/// READ's results with the data in the message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReadOk<'a> {
    /// The file's attributes.
    pub attributes: PostOpAttributes,
    /// Bytes read.
    pub count: u32,
    /// The last of them is the last of the file.
    pub eof: bool,
    /// The bytes.
    pub data: &'a [u8],
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

/// READ's results.
pub type ReadResult<'a> = Result<ReadOk<'a>, Failed<PostOpAttributes>>;

record! {
    /// WRITE's arguments up to and including the data's length word.
    WriteHead<'a> {
        /// The file.
        file: FileHandle<'a>,
        /// Where, in bytes from its start.
        offset: u64,
        /// How many bytes.
        count: u32,
        /// How durable they must be before the reply.
        stable: Stable,
        /// Bytes that follow; must equal `count`.
        length: u32,
    }
}

/// WRITE's arguments with the data in the message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WriteArgs<'a> {
    /// The file.
    pub file: FileHandle<'a>,
    /// Where, in bytes from its start.
    pub offset: u64,
    /// How many bytes.
    pub count: u32,
    /// How durable they must be before the reply.
    pub stable: Stable,
    /// The bytes; as many as `count`.
    pub data: &'a [u8],
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
    /// What a WRITE did.
    WriteOk {
        /// The file's consistency data.
        wcc: WccData,
        /// Bytes written.
        count: u32,
        /// How durable they are.
        committed: Stable,
        /// Changes when unstable data may have been lost.
        verifier: [u8; 8],
    }
}

/// WRITE's results.
pub type WriteResult = Result<WriteOk, Failed<WccData>>;

/// How CREATE treats a name that is there already (`createhow3`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CreateHow {
    /// Takes it.
    Unchecked(SetAttributes),
    /// Fails.
    Guarded(SetAttributes),
    /// Takes it if this very call made it.
    Exclusive([u8; 8]),
}

impl Encode for CreateHow {
    fn encode(&self, encoder: &mut Encoder<'_>) {
        match self {
            CreateHow::Unchecked(attributes) => {
                encoder.u32(0);
                attributes.encode(encoder);
            }
            CreateHow::Guarded(attributes) => {
                encoder.u32(1);
                attributes.encode(encoder);
            }
            CreateHow::Exclusive(verifier) => {
                encoder.u32(2);
                verifier.encode(encoder);
            }
        }
    }
}

impl Decode<'_> for CreateHow {
    fn decode(decoder: &mut Decoder<'_>) -> Result<Self, XdrError> {
        match decoder.u32()? {
            0 => Decode::decode(decoder).map(CreateHow::Unchecked),
            1 => Decode::decode(decoder).map(CreateHow::Guarded),
            2 => Decode::decode(decoder).map(CreateHow::Exclusive),
            _ => Err(XdrError::Value),
        }
    }
}

record! {
    /// CREATE's arguments.
    CreateArgs<'a> {
        /// The new name.
        place: DirectoryName<'a>,
        /// What to do about an old one.
        how: CreateHow,
    }
}

record! {
    /// What CREATE, MKDIR, SYMLINK and MKNOD made.
    CreateOk<'a> {
        /// Its handle.
        object: Option<FileHandle<'a>>,
        /// Its attributes.
        attributes: PostOpAttributes,
        /// The directory's consistency data.
        directory: WccData,
    }
}

/// The results of CREATE, MKDIR, SYMLINK and MKNOD.
pub type CreateResult<'a> = Result<CreateOk<'a>, Failed<WccData>>;

record! {
    /// MKDIR's arguments.
    MkdirArgs<'a> {
        /// The new name.
        place: DirectoryName<'a>,
        /// The new directory's attributes.
        attributes: SetAttributes,
    }
}

record! {
    /// SYMLINK's arguments.
    SymlinkArgs<'a> {
        /// The new name.
        place: DirectoryName<'a>,
        /// The link's attributes.
        attributes: SetAttributes,
        /// Its text.
        target: Path<'a>,
    }
}

record! {
    /// SYMLINK's arguments up to and including the text's length word.
    SymlinkHead<'a> {
        /// The new name.
        place: DirectoryName<'a>,
        /// The link's attributes.
        attributes: SetAttributes,
        /// Bytes of text that follow.
        length: u32,
    }
}

/// What MKNOD is to make (`mknoddata3`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MknodData {
    /// A character device.
    CharacterDevice(SetAttributes, Device),
    /// A block device.
    BlockDevice(SetAttributes, Device),
    /// A socket.
    Socket(SetAttributes),
    /// A FIFO.
    Fifo(SetAttributes),
    /// A type that other procedures make; the answer is BADTYPE. Never one of the above.
    Other(FileType),
}

impl Encode for MknodData {
    fn encode(&self, encoder: &mut Encoder<'_>) {
        match self {
            MknodData::CharacterDevice(attributes, device) => {
                FileType::CharacterDevice.encode(encoder);
                attributes.encode(encoder);
                device.encode(encoder);
            }
            MknodData::BlockDevice(attributes, device) => {
                FileType::BlockDevice.encode(encoder);
                attributes.encode(encoder);
                device.encode(encoder);
            }
            MknodData::Socket(attributes) => {
                FileType::Socket.encode(encoder);
                attributes.encode(encoder);
            }
            MknodData::Fifo(attributes) => {
                FileType::Fifo.encode(encoder);
                attributes.encode(encoder);
            }
            MknodData::Other(kind) => kind.encode(encoder),
        }
    }
}

impl Decode<'_> for MknodData {
    fn decode(decoder: &mut Decoder<'_>) -> Result<Self, XdrError> {
        Ok(match FileType::decode(decoder)? {
            FileType::CharacterDevice => {
                MknodData::CharacterDevice(Decode::decode(decoder)?, Decode::decode(decoder)?)
            }
            FileType::BlockDevice => {
                MknodData::BlockDevice(Decode::decode(decoder)?, Decode::decode(decoder)?)
            }
            FileType::Socket => MknodData::Socket(Decode::decode(decoder)?),
            FileType::Fifo => MknodData::Fifo(Decode::decode(decoder)?),
            kind => MknodData::Other(kind),
        })
    }
}

record! {
    /// MKNOD's arguments.
    MknodArgs<'a> {
        /// The new name.
        place: DirectoryName<'a>,
        /// What to make.
        what: MknodData,
    }
}

/// REMOVE's arguments.
pub type RemoveArgs<'a> = DirectoryName<'a>;
/// REMOVE's results: the directory's consistency data.
pub type RemoveResult = Result<WccData, Failed<WccData>>;
/// RMDIR's arguments.
pub type RmdirArgs<'a> = DirectoryName<'a>;
/// RMDIR's results: the directory's consistency data.
pub type RmdirResult = Result<WccData, Failed<WccData>>;

record! {
    /// RENAME's arguments.
    RenameArgs<'a> {
        /// The name it has.
        from: DirectoryName<'a>,
        /// The name it gets.
        to: DirectoryName<'a>,
    }
}

record! {
    /// Consistency data of both directories of a RENAME.
    #[derive(Default)]
    RenameWcc {
        /// Of the directory left.
        from: WccData,
        /// Of the directory entered.
        to: WccData,
    }
}

/// RENAME's results.
pub type RenameResult = Result<RenameWcc, Failed<RenameWcc>>;

record! {
    /// LINK's arguments.
    LinkArgs<'a> {
        /// The object.
        file: FileHandle<'a>,
        /// Its new name.
        place: DirectoryName<'a>,
    }
}

record! {
    /// What LINK tells, done or not.
    #[derive(Default)]
    LinkWcc {
        /// The object's attributes.
        attributes: PostOpAttributes,
        /// The directory's consistency data.
        directory: WccData,
    }
}

/// LINK's results.
pub type LinkResult = Result<LinkWcc, Failed<LinkWcc>>;

record! {
    /// READDIR's arguments.
    ReaddirArgs<'a> {
        /// The directory.
        directory: FileHandle<'a>,
        /// After which entry; 0 for the start.
        cookie: u64,
        /// What came with the cookie; zeros at the start.
        verifier: [u8; 8],
        /// Most bytes of `READDIR3resok`.
        count: u32,
    }
}

/// READDIR's results.
pub type ReaddirResult<'a> = Result<DirectoryListing<'a, Entry<'a>>, Failed<PostOpAttributes>>;

record! {
    /// READDIRPLUS's arguments.
    ReaddirplusArgs<'a> {
        /// The directory.
        directory: FileHandle<'a>,
        /// After which entry; 0 for the start.
        cookie: u64,
        /// What came with the cookie; zeros at the start.
        verifier: [u8; 8],
        /// Most bytes of fileids, names and cookies.
        directory_count: u32,
        /// Most bytes of `READDIRPLUS3resok`.
        max_count: u32,
    }
}

/// READDIRPLUS's results.
pub type ReaddirplusResult<'a> =
    Result<DirectoryListing<'a, EntryPlus<'a>>, Failed<PostOpAttributes>>;

/// FSSTAT's arguments: any object of the file system.
pub type FsstatArgs<'a> = FileHandle<'a>;

record! {
    /// Space of a file system.
    FsstatOk {
        /// The object's attributes.
        attributes: PostOpAttributes,
        /// Bytes in all.
        bytes_total: u64,
        /// Bytes free.
        bytes_free: u64,
        /// Bytes free to the caller.
        bytes_available: u64,
        /// File slots in all.
        files_total: u64,
        /// File slots free.
        files_free: u64,
        /// File slots free to the caller.
        files_available: u64,
        /// Seconds for which this will not change; 0 when unknown.
        invariant_seconds: u32,
    }
}

/// FSSTAT's results.
pub type FsstatResult = Result<FsstatOk, Failed<PostOpAttributes>>;

/// FSINFO's arguments: the root of the file system.
pub type FsinfoArgs<'a> = FileHandle<'a>;

/// FSINFO's property bits.
pub mod property {
    /// Hard links exist.
    pub const LINK: u32 = 1;
    /// Symbolic links exist.
    pub const SYMLINK: u32 = 2;
    /// PATHCONF is the same for every object.
    pub const HOMOGENEOUS: u32 = 8;
    /// SETATTR can set times.
    pub const CANSETTIME: u32 = 16;
}

record! {
    /// Fixed properties of a file system.
    FsinfoOk {
        /// The object's attributes.
        attributes: PostOpAttributes,
        /// Most bytes of a READ.
        read_max: u32,
        /// Bytes of a READ that work best.
        read_preferred: u32,
        /// Multiple of which a READ should be.
        read_multiple: u32,
        /// Most bytes of a WRITE.
        write_max: u32,
        /// Bytes of a WRITE that work best.
        write_preferred: u32,
        /// Multiple of which a WRITE should be.
        write_multiple: u32,
        /// Bytes of a READDIR that work best.
        directory_preferred: u32,
        /// Largest file.
        file_size_max: u64,
        /// Resolution of times.
        time_delta: Time,
        /// Bits of [`property`].
        properties: u32,
    }
}

/// FSINFO's results.
pub type FsinfoResult = Result<FsinfoOk, Failed<PostOpAttributes>>;

/// PATHCONF's arguments: the object.
pub type PathconfArgs<'a> = FileHandle<'a>;

record! {
    /// What POSIX's pathconf(3) tells.
    PathconfOk {
        /// The object's attributes.
        attributes: PostOpAttributes,
        /// Most names of one object.
        link_max: u32,
        /// Longest name.
        name_max: u32,
        /// Longer names are refused, not cut.
        no_truncation: bool,
        /// Only root gives files away.
        chown_restricted: bool,
        /// "A" and "a" are the same name.
        case_insensitive: bool,
        /// Names keep their case.
        case_preserving: bool,
    }
}

/// PATHCONF's results.
pub type PathconfResult = Result<PathconfOk, Failed<PostOpAttributes>>;

record! {
    /// COMMIT's arguments.
    CommitArgs<'a> {
        /// The file.
        file: FileHandle<'a>,
        /// From where.
        offset: u64,
        /// How many bytes; 0 for all from there.
        count: u32,
    }
}

record! {
    /// What a COMMIT made durable.
    CommitOk {
        /// The file's consistency data.
        wcc: WccData,
        /// The verifier of the WRITEs that are durable now.
        verifier: [u8; 8],
    }
}

/// COMMIT's results.
pub type CommitResult = Result<CommitOk, Failed<WccData>>;
