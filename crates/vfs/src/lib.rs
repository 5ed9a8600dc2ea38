//! One interface to a file system, and its vocabulary.
//!
//! [`Vfs`] is the seam: servers, mounts and the client library speak to it in handles, names, attributes and
//! [`Status`]. Directories of this machine, remote exports, volumes and the simulator implement it. Every operation
//! carries the caller's [`Credentials`]; the file system, not the protocol, decides what they allow.
//!
//! This crate refuses stores, wire formats, transports, and exports and client lists (those are the protocol's policy).
//!
//! First type to read: [`Vfs`].

pub mod limits;
mod locks;
mod memory;
mod status;
mod types;

pub use locks::{ByteLock, LockKind, LockRequest, Locked};
pub use memory::in_memory;
pub use status::Status;
pub use types::{
    AccessMask, Attributes, BytesRead, Changed, Commit, CreateMode, Created, Credentials,
    DirectoryEntry, DirectoryPage, Entries, EntryName, FileHandle, FileKind, FileSystemLimits,
    FileSystemUsage, NodeKind, ReadReply, SetAttributes, SetTime, Stability, Time, TransferSizes,
    Verifier, Wcc, WccBefore, WriteDone,
};

use gannet_runtime::Buffer;

/// A file system to serve. Handles name objects; they stay valid across renames and restarts of the server.
///
/// Futures are local to a core and never block it: an operation that memory cannot answer goes to the blocking pool.
/// An answer that needs no waiting is ready at the first poll. Names are single path components as they came from
/// the wire: the store rejects empty ones, `.`, `..` where they make no sense, `/`, NUL and over-long ones with the
/// right [`Status`]. Mutating calls return weak cache consistency data ([`Wcc`]) whether they succeed or fail. Changes
/// of names and attributes are durable when they are answered (RFC 1813 section 3.3), unless an option of the store
/// says otherwise.
#[allow(async_fn_in_trait)] // used generically, on one core
pub trait Vfs: 'static {
    /// The directory that is served.
    fn root(&self) -> FileHandle;

    /// Bytes by which administrators of the store find an object: its path below the root, its number, or a word on
    /// where else it is. It waits for nothing, so it is `None` for an object that is not open now.
    fn label(&self, _file: &FileHandle) -> Option<Vec<u8>> {
        None
    }

    /// Tells that the operation that begins next, and all that began before it, were requested before the moment with
    /// this number; numbers never fall. Until the next number the store may answer several operations from one look at
    /// an object: that look lies between request and answer of each of them. A store that is told nothing looks anew
    /// for each.
    fn requested_before(&self, _moment: u64) {}

    /// The handle of the directory at `path` (components below the root, already split; symbolic links are not
    /// followed), for MOUNT of a subdirectory.
    ///
    /// # Errors
    /// `Notdir`: the path leads to another kind of object, or through one. Otherwise as LOOKUP.
    async fn resolve(&self, cred: &Credentials, path: &[&[u8]]) -> Result<FileHandle, Status>;

    /// Attributes of an object (GETATTR).
    async fn attributes(&self, file: &FileHandle) -> Result<Attributes, Status>;

    /// Changes attributes; `guard` is the change time the caller believes in (SETATTR).
    async fn set_attributes(
        &self,
        cred: &Credentials,
        file: &FileHandle,
        change: &SetAttributes,
        guard: Option<Time>,
    ) -> Changed<()>;

    /// Finds `name` in a directory; `.` and `..` work, `..` of the root is the root (LOOKUP). Gives the object's handle
    /// and attributes; and the directory's attributes, if obtainable, as they were before the name was looked for:
    /// clients remember that a name is missing for as long as those stay the same.
    async fn lookup(
        &self,
        cred: &Credentials,
        directory: &FileHandle,
        name: &[u8],
    ) -> (Result<(FileHandle, Attributes), Status>, Option<Attributes>);

    /// The subset of `wanted` that the caller has (ACCESS), with attributes.
    async fn access(
        &self,
        cred: &Credentials,
        file: &FileHandle,
        wanted: AccessMask,
    ) -> Result<(AccessMask, Attributes), Status>;

    /// The text of a symbolic link, with the link's attributes (READLINK).
    async fn read_link(
        &self,
        cred: &Credentials,
        file: &FileHandle,
    ) -> Result<(Vec<u8>, Attributes), Status>;

    /// Opens a range for reading: at most `count` bytes at `offset`, clipped to the file (READ). The data itself is
    /// taken from `ReadReply::file` by the transport, or copied by [`gannet_runtime::FileSource::try_read_at`].
    async fn read(
        &self,
        cred: &Credentials,
        file: &FileHandle,
        offset: u64,
        count: u32,
    ) -> Result<ReadReply, Status>;

    /// Reads at most `count` bytes at `offset`, and no more than `buffer` has room for, into its start. Fewer come only
    /// at the end of the file. Remote file systems let their transports place the bytes there, without another copy.
    ///
    /// The buffer is the operation's until it is over, and comes back then; a file system that cannot say whether a
    /// peer may still write to it keeps it. After an error its content is unknown.
    ///
    /// # Errors
    /// As [`Vfs::read`].
    async fn read_into(
        &self,
        cred: &Credentials,
        file: &FileHandle,
        offset: u64,
        count: u32,
        buffer: Buffer,
    ) -> (Result<BytesRead, Status>, Option<Buffer>);

    /// Writes `data[range]` at `offset` (WRITE). The buffer is kept until the operation is over, and dropped then.
    async fn write(
        &self,
        cred: &Credentials,
        file: &FileHandle,
        offset: u64,
        data: Buffer,
        range: std::ops::Range<usize>,
        stability: Stability,
    ) -> Changed<WriteDone> {
        let written = self.write_and_return(cred, file, offset, data, range, stability);
        written.await.0
    }

    /// As [`Vfs::write`], for who needs the memory again: it comes back if the write went well.
    async fn write_and_return(
        &self,
        cred: &Credentials,
        file: &FileHandle,
        offset: u64,
        data: Buffer,
        range: std::ops::Range<usize>,
        stability: Stability,
    ) -> (Changed<WriteDone>, Option<Buffer>);

    /// Makes what was written unstably durable (COMMIT); `count` 0 means to the end.
    async fn commit(
        &self,
        cred: &Credentials,
        file: &FileHandle,
        offset: u64,
        count: u32,
    ) -> Changed<Commit>;

    /// Makes a regular file (CREATE).
    async fn create(
        &self,
        cred: &Credentials,
        directory: &FileHandle,
        name: &[u8],
        mode: &CreateMode,
    ) -> Changed<Created>;

    /// Makes a directory (MKDIR).
    async fn make_directory(
        &self,
        cred: &Credentials,
        directory: &FileHandle,
        name: &[u8],
        attributes: &SetAttributes,
    ) -> Changed<Created>;

    /// Makes a symbolic link to `target`, kept verbatim (SYMLINK).
    async fn make_symlink(
        &self,
        cred: &Credentials,
        directory: &FileHandle,
        name: &[u8],
        target: &[u8],
        attributes: &SetAttributes,
    ) -> Changed<Created>;

    /// Makes a device, socket or FIFO (MKNOD).
    async fn make_node(
        &self,
        cred: &Credentials,
        directory: &FileHandle,
        name: &[u8],
        kind: NodeKind,
        attributes: &SetAttributes,
    ) -> Changed<Created>;

    /// Removes a name that is not a directory (REMOVE).
    async fn remove(&self, cred: &Credentials, directory: &FileHandle, name: &[u8]) -> Changed<()>;

    /// Removes an empty directory (RMDIR).
    async fn remove_directory(
        &self,
        cred: &Credentials,
        directory: &FileHandle,
        name: &[u8],
    ) -> Changed<()>;

    /// Moves a name, atomically replacing what is at the target (RENAME). The two [`Wcc`]s are of the directory left
    /// and of the directory entered.
    async fn rename(
        &self,
        cred: &Credentials,
        from: EntryName<'_>,
        to: EntryName<'_>,
    ) -> (Result<(), Status>, Wcc, Wcc);

    /// Gives an object another name (LINK). The attributes are the object's, if it could be reached.
    async fn link(
        &self,
        cred: &Credentials,
        file: &FileHandle,
        directory: &FileHandle,
        name: &[u8],
    ) -> (Changed<()>, Option<Attributes>);

    /// Part of a directory's listing after `cookie` (0 = from the start), at most as many entries as `entries` accepts
    /// (READDIR, READDIRPLUS). Entries are pushed in order until `entries` refuses one.
    async fn read_directory(
        &self,
        cred: &Credentials,
        directory: &FileHandle,
        cookie: u64,
        verifier: Verifier,
        entries: &mut dyn Entries,
    ) -> Result<DirectoryPage, Status>;

    /// Space and inodes of the file system below `file` (FSSTAT).
    async fn usage(&self, file: &FileHandle) -> Result<FileSystemUsage, Status>;

    /// Fixed properties of the file system (FSINFO, PATHCONF).
    fn limits(&self) -> FileSystemLimits;

    /// How many bytes to read and write at a time.
    fn transfer_sizes(&self) -> TransferSizes {
        TransferSizes::default()
    }

    /// The cause, as a text for people, of the last operation that failed with `status`, where the status alone is not
    /// enough: a lost connection, the server that is away. Exact if it is called before another operation is polled.
    fn cause(&self, _status: Status) -> Option<String> {
        None
    }

    /// The verifier of WRITE and COMMIT: changes whenever unstable data may have been lost.
    fn write_verifier(&self) -> Verifier;

    /// Whether other clients of the file system see what this one locks and appends: [`Vfs::lock`] and [`Vfs::append`]
    /// work. Where they do not, a front end may do both for its own machine alone.
    fn is_coordinated(&self) -> bool {
        false
    }

    /// Locks bytes of a regular file for all clients, unlocks them, or returns a conflicting lock.
    ///
    /// # Errors
    /// `Notsupp`: not [`Vfs::is_coordinated`]. `Jukebox`: the server of the locks is away, or in its grace period after
    /// a restart. Otherwise as ACCESS.
    async fn lock(
        &self,
        _cred: &Credentials,
        _file: &FileHandle,
        _lock: &ByteLock,
        _request: LockRequest,
    ) -> Result<Locked, Status> {
        Err(Status::Notsupp)
    }

    /// Keeps a regular file when its last name goes: it stays usable by its handle, with no link, until
    /// [`Vfs::let_go`]. The store lets go by itself when it has not heard of this client for a while.
    ///
    /// # Errors
    /// `Notsupp`: the store keeps no files without names. Otherwise as ACCESS.
    async fn keep(&self, _file: &FileHandle) -> Result<(), Status> {
        Err(Status::Notsupp)
    }

    /// Ends a [`Vfs::keep`]. A file without a name is gone then. With `may_have_name` the caller does not know that the
    /// last name has gone: writes that are not durable are still committed.
    async fn let_go(&self, _file: &FileHandle, _may_have_name: bool) {}

    /// Gives back what this client holds of the store and does not use now, because it ends. Operations may follow.
    async fn rest(&self) {}

    /// Writes the first `len` bytes of `data` behind the end of a file, at `at_least` or further: no other append gets
    /// the same offset. Returns their offset, and the memory.
    ///
    /// # Errors
    /// `Notsupp`: not [`Vfs::is_coordinated`]. Otherwise as WRITE; some of the bytes may have been written.
    async fn append(
        &self,
        _cred: &Credentials,
        _file: &FileHandle,
        _at_least: u64,
        data: Buffer,
        _len: usize,
        _stability: Stability,
    ) -> (Result<(u64, WriteDone), Status>, Buffer) {
        (Err(Status::Notsupp), data)
    }
}
