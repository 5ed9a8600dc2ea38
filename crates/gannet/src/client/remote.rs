//! The target of a connection: an export reached by NFS, or a volume.

use gannet_fabric::{DeregisterError, RegisterError};
use gannet_nfs::client::NfsFs;
use gannet_runtime::{Buffer, SlotId};
use gannet_vfs::{
    AccessMask, Attributes, ByteLock, BytesRead, Changed, Commit, CreateMode, Created, Credentials,
    DirectoryPage, Entries, EntryName, FileHandle, FileSystemLimits, FileSystemUsage, LockRequest,
    Locked, NodeKind, ReadReply, SetAttributes, Stability, Status, Time, TransferSizes, Verifier,
    Vfs, Wcc, WriteDone,
};
#[cfg(feature = "volumes")]
use gannet_volume::client::VolumeFs;
use std::ops::Range;

/// A file system of another machine.
// One of them for each session: the space that the smaller one leaves is no matter.
#[allow(clippy::large_enum_variant)]
pub enum Remote {
    /// An export.
    Nfs(NfsFs),
    /// A volume, which has many connections.
    #[cfg(feature = "volumes")]
    Volume(VolumeFs),
}

impl Remote {
    /// The volume, if it is one.
    #[cfg(feature = "volumes")]
    pub fn volume(&self) -> Option<&VolumeFs> {
        match self {
            Remote::Nfs(_) => None,
            Remote::Volume(volume) => Some(volume),
        }
    }

    /// The procedures of NFS, if it is reached by them.
    pub fn nfs(&self) -> Option<&gannet_nfs::client::Client> {
        match self {
            Remote::Nfs(export) => Some(export.client()),
            #[cfg(feature = "volumes")]
            Remote::Volume(_) => None,
        }
    }
}

/// Memory that a program registers for many transfers.
impl Remote {
    /// Registers memory of a slot until [`Remote::take_back`] or [`Remote::forget`]. It goes back to its slot.
    ///
    /// # Errors
    /// Any [`RegisterError`].
    pub(crate) async fn keep(&self, buffer: Buffer) -> Result<(), RegisterError> {
        match self {
            Remote::Nfs(export) => export.client().rpc().keep(buffer).await,
            // The first transfer registers it, with the rights that it needs.
            #[cfg(feature = "volumes")]
            Remote::Volume(volume) => {
                buffer
                    .slot()
                    .into_iter()
                    .for_each(|slot| volume.keep_registered(slot));
                Ok(())
            }
        }
    }

    /// Ends the registration of memory of [`Remote::keep`], and returns the memory.
    ///
    /// # Errors
    /// The adapter could not end it, and keeps the memory.
    pub(crate) async fn take_back(&self, buffer: Buffer) -> Result<Buffer, DeregisterError> {
        match self {
            Remote::Nfs(export) => export.client().rpc().take_back(buffer).await,
            #[cfg(feature = "volumes")]
            Remote::Volume(volume) => volume.end_registration(buffer).await,
        }
    }

    /// Ends the registration of memory that its program has dropped.
    pub(crate) fn forget(&self, slot: SlotId) {
        match self {
            Remote::Nfs(export) => export.client().rpc().forget(slot),
            #[cfg(feature = "volumes")]
            Remote::Volume(volume) => volume.forget_registration(slot),
        }
    }
}

/// Runs an operation on the export or the volume.
///
/// The futures of a volume are on the heap: they are many times as large as those of an export, and a caller of either
/// would move as many bytes with each operation.
macro_rules! either_waits {
    ($remote:expr, $fs:ident => $done:expr) => {
        match $remote {
            Remote::Nfs($fs) => $done.await,
            #[cfg(feature = "volumes")]
            Remote::Volume($fs) => Box::pin($done).await,
        }
    };
}

/// As [`either_waits`], without waiting.
macro_rules! either {
    ($remote:expr, $fs:ident => $done:expr) => {
        match $remote {
            Remote::Nfs($fs) => $done,
            #[cfg(feature = "volumes")]
            Remote::Volume($fs) => $done,
        }
    };
}

impl Vfs for Remote {
    fn root(&self) -> FileHandle {
        either!(self, fs => fs.root())
    }

    async fn resolve(&self, cred: &Credentials, path: &[&[u8]]) -> Result<FileHandle, Status> {
        either_waits!(self, fs => fs.resolve(cred, path))
    }

    async fn attributes(&self, file: &FileHandle) -> Result<Attributes, Status> {
        either_waits!(self, fs => fs.attributes(file))
    }

    async fn set_attributes(
        &self,
        cred: &Credentials,
        file: &FileHandle,
        change: &SetAttributes,
        guard: Option<Time>,
    ) -> Changed<()> {
        either_waits!(self, fs => fs.set_attributes(cred, file, change, guard))
    }

    async fn lookup(
        &self,
        cred: &Credentials,
        directory: &FileHandle,
        name: &[u8],
    ) -> (Result<(FileHandle, Attributes), Status>, Option<Attributes>) {
        either_waits!(self, fs => fs.lookup(cred, directory, name))
    }

    async fn access(
        &self,
        cred: &Credentials,
        file: &FileHandle,
        wanted: AccessMask,
    ) -> Result<(AccessMask, Attributes), Status> {
        either_waits!(self, fs => fs.access(cred, file, wanted))
    }

    async fn read_link(
        &self,
        cred: &Credentials,
        file: &FileHandle,
    ) -> Result<(Vec<u8>, Attributes), Status> {
        either_waits!(self, fs => fs.read_link(cred, file))
    }

    async fn read(
        &self,
        cred: &Credentials,
        file: &FileHandle,
        offset: u64,
        count: u32,
    ) -> Result<ReadReply, Status> {
        either_waits!(self, fs => fs.read(cred, file, offset, count))
    }

    async fn read_into(
        &self,
        cred: &Credentials,
        file: &FileHandle,
        offset: u64,
        count: u32,
        buffer: Buffer,
    ) -> (Result<BytesRead, Status>, Option<Buffer>) {
        either_waits!(self, fs => fs.read_into(cred, file, offset, count, buffer))
    }

    async fn write_and_return(
        &self,
        cred: &Credentials,
        file: &FileHandle,
        offset: u64,
        data: Buffer,
        range: Range<usize>,
        stability: Stability,
    ) -> (Changed<WriteDone>, Option<Buffer>) {
        either_waits!(self, fs => fs.write_and_return(cred, file, offset, data, range, stability))
    }

    async fn commit(
        &self,
        cred: &Credentials,
        file: &FileHandle,
        offset: u64,
        count: u32,
    ) -> Changed<Commit> {
        either_waits!(self, fs => fs.commit(cred, file, offset, count))
    }

    async fn create(
        &self,
        cred: &Credentials,
        directory: &FileHandle,
        name: &[u8],
        mode: &CreateMode,
    ) -> Changed<Created> {
        either_waits!(self, fs => fs.create(cred, directory, name, mode))
    }

    async fn make_directory(
        &self,
        cred: &Credentials,
        directory: &FileHandle,
        name: &[u8],
        attributes: &SetAttributes,
    ) -> Changed<Created> {
        either_waits!(self, fs => fs.make_directory(cred, directory, name, attributes))
    }

    async fn make_symlink(
        &self,
        cred: &Credentials,
        directory: &FileHandle,
        name: &[u8],
        target: &[u8],
        attributes: &SetAttributes,
    ) -> Changed<Created> {
        either_waits!(self, fs => fs.make_symlink(cred, directory, name, target, attributes))
    }

    async fn make_node(
        &self,
        cred: &Credentials,
        directory: &FileHandle,
        name: &[u8],
        kind: NodeKind,
        attributes: &SetAttributes,
    ) -> Changed<Created> {
        either_waits!(self, fs => fs.make_node(cred, directory, name, kind, attributes))
    }

    async fn remove(&self, cred: &Credentials, directory: &FileHandle, name: &[u8]) -> Changed<()> {
        either_waits!(self, fs => fs.remove(cred, directory, name))
    }

    async fn remove_directory(
        &self,
        cred: &Credentials,
        directory: &FileHandle,
        name: &[u8],
    ) -> Changed<()> {
        either_waits!(self, fs => fs.remove_directory(cred, directory, name))
    }

    async fn rename(
        &self,
        cred: &Credentials,
        from: EntryName<'_>,
        to: EntryName<'_>,
    ) -> (Result<(), Status>, Wcc, Wcc) {
        either_waits!(self, fs => fs.rename(cred, from, to))
    }

    async fn link(
        &self,
        cred: &Credentials,
        file: &FileHandle,
        directory: &FileHandle,
        name: &[u8],
    ) -> (Changed<()>, Option<Attributes>) {
        either_waits!(self, fs => fs.link(cred, file, directory, name))
    }

    async fn read_directory(
        &self,
        cred: &Credentials,
        directory: &FileHandle,
        cookie: u64,
        verifier: Verifier,
        entries: &mut dyn Entries,
    ) -> Result<DirectoryPage, Status> {
        either_waits!(self, fs => fs.read_directory(cred, directory, cookie, verifier, entries))
    }

    async fn usage(&self, file: &FileHandle) -> Result<FileSystemUsage, Status> {
        either_waits!(self, fs => fs.usage(file))
    }

    fn limits(&self) -> FileSystemLimits {
        either!(self, fs => fs.limits())
    }

    fn transfer_sizes(&self) -> TransferSizes {
        either!(self, fs => fs.transfer_sizes())
    }

    fn cause(&self, status: Status) -> Option<String> {
        either!(self, fs => fs.cause(status))
    }

    fn write_verifier(&self) -> Verifier {
        either!(self, fs => fs.write_verifier())
    }

    fn is_coordinated(&self) -> bool {
        either!(self, fs => fs.is_coordinated())
    }

    async fn lock(
        &self,
        cred: &Credentials,
        file: &FileHandle,
        lock: &ByteLock,
        request: LockRequest,
    ) -> Result<Locked, Status> {
        either_waits!(self, fs => fs.lock(cred, file, lock, request))
    }

    async fn keep(&self, file: &FileHandle) -> Result<(), Status> {
        either_waits!(self, fs => fs.keep(file))
    }

    async fn let_go(&self, file: &FileHandle, may_have_name: bool) {
        either_waits!(self, fs => fs.let_go(file, may_have_name))
    }

    async fn rest(&self) {
        either_waits!(self, fs => fs.rest())
    }

    async fn append(
        &self,
        cred: &Credentials,
        file: &FileHandle,
        at_least: u64,
        data: Buffer,
        len: usize,
        stability: Stability,
    ) -> (Result<(u64, WriteDone), Status>, Buffer) {
        either_waits!(self, fs => fs.append(cred, file, at_least, data, len, stability))
    }
}
