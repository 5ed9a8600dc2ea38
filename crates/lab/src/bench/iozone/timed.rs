//! A store that says how long its data operations take.

use super::stopwatch::Sum;
use gannet_runtime::Buffer;
use gannet_vfs::{
    AccessMask, Attributes, BytesRead, Changed, Commit, CreateMode, Created, Credentials,
    DirectoryPage, Entries, EntryName, FileHandle, FileSystemLimits, FileSystemUsage, NodeKind,
    ReadReply, SetAttributes, Stability, Status, Time, Verifier, Vfs, Wcc, WriteDone,
};
use std::ops::Range;
use std::sync::Arc;

/// `V`, whose READ, WRITE and COMMIT are timed from call to answer.
pub(super) struct Timed<V> {
    store: V,
    clocks: Arc<StoreClocks>,
}

/// The time spent in the stores of all cores.
#[derive(Default)]
pub(super) struct StoreClocks {
    /// The time from call to reply.
    pub(super) whole: Sum,
    /// The part of that time that is work of the cores, without waits for disks.
    pub(super) work: Sum,
}

impl<V: Vfs> Timed<V> {
    /// Adds what `store` takes to `clocks`.
    pub(super) fn new(store: V, clocks: Arc<StoreClocks>) -> Timed<V> {
        Timed { store, clocks }
    }

    async fn timed<T>(&self, work: impl Future<Output = T>) -> T {
        let StoreClocks {
            whole,
            work: polled,
        } = &*self.clocks;
        whole.whole(polled.polled(work)).await
    }
}

impl<V: Vfs> Vfs for Timed<V> {
    fn root(&self) -> FileHandle {
        self.store.root()
    }

    async fn resolve(&self, cred: &Credentials, path: &[&[u8]]) -> Result<FileHandle, Status> {
        self.store.resolve(cred, path).await
    }

    async fn attributes(&self, file: &FileHandle) -> Result<Attributes, Status> {
        self.store.attributes(file).await
    }

    async fn set_attributes(
        &self,
        cred: &Credentials,
        file: &FileHandle,
        change: &SetAttributes,
        guard: Option<Time>,
    ) -> Changed<()> {
        self.store.set_attributes(cred, file, change, guard).await
    }

    async fn lookup(
        &self,
        cred: &Credentials,
        directory: &FileHandle,
        name: &[u8],
    ) -> (Result<(FileHandle, Attributes), Status>, Option<Attributes>) {
        self.store.lookup(cred, directory, name).await
    }

    async fn access(
        &self,
        cred: &Credentials,
        file: &FileHandle,
        wanted: AccessMask,
    ) -> Result<(AccessMask, Attributes), Status> {
        self.store.access(cred, file, wanted).await
    }

    async fn read_link(
        &self,
        cred: &Credentials,
        file: &FileHandle,
    ) -> Result<(Vec<u8>, Attributes), Status> {
        self.store.read_link(cred, file).await
    }

    async fn read(
        &self,
        cred: &Credentials,
        file: &FileHandle,
        offset: u64,
        count: u32,
    ) -> Result<ReadReply, Status> {
        self.timed(self.store.read(cred, file, offset, count)).await
    }

    async fn read_into(
        &self,
        cred: &Credentials,
        file: &FileHandle,
        offset: u64,
        count: u32,
        buffer: Buffer,
    ) -> (Result<BytesRead, Status>, Option<Buffer>) {
        let work = self.store.read_into(cred, file, offset, count, buffer);
        self.timed(work).await
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
        let work = (self.store).write_and_return(cred, file, offset, data, range, stability);
        self.timed(work).await
    }

    async fn commit(
        &self,
        cred: &Credentials,
        file: &FileHandle,
        offset: u64,
        count: u32,
    ) -> Changed<Commit> {
        self.timed(self.store.commit(cred, file, offset, count))
            .await
    }

    async fn create(
        &self,
        cred: &Credentials,
        directory: &FileHandle,
        name: &[u8],
        mode: &CreateMode,
    ) -> Changed<Created> {
        self.store.create(cred, directory, name, mode).await
    }

    async fn make_directory(
        &self,
        cred: &Credentials,
        directory: &FileHandle,
        name: &[u8],
        attributes: &SetAttributes,
    ) -> Changed<Created> {
        self.store
            .make_directory(cred, directory, name, attributes)
            .await
    }

    async fn make_symlink(
        &self,
        cred: &Credentials,
        directory: &FileHandle,
        name: &[u8],
        target: &[u8],
        attributes: &SetAttributes,
    ) -> Changed<Created> {
        self.store
            .make_symlink(cred, directory, name, target, attributes)
            .await
    }

    async fn make_node(
        &self,
        cred: &Credentials,
        directory: &FileHandle,
        name: &[u8],
        kind: NodeKind,
        attributes: &SetAttributes,
    ) -> Changed<Created> {
        self.store
            .make_node(cred, directory, name, kind, attributes)
            .await
    }

    async fn remove(&self, cred: &Credentials, directory: &FileHandle, name: &[u8]) -> Changed<()> {
        self.store.remove(cred, directory, name).await
    }

    async fn remove_directory(
        &self,
        cred: &Credentials,
        directory: &FileHandle,
        name: &[u8],
    ) -> Changed<()> {
        self.store.remove_directory(cred, directory, name).await
    }

    async fn rename(
        &self,
        cred: &Credentials,
        from: EntryName<'_>,
        to: EntryName<'_>,
    ) -> (Result<(), Status>, Wcc, Wcc) {
        self.store.rename(cred, from, to).await
    }

    async fn link(
        &self,
        cred: &Credentials,
        file: &FileHandle,
        directory: &FileHandle,
        name: &[u8],
    ) -> (Changed<()>, Option<Attributes>) {
        self.store.link(cred, file, directory, name).await
    }

    async fn read_directory(
        &self,
        cred: &Credentials,
        directory: &FileHandle,
        cookie: u64,
        verifier: Verifier,
        entries: &mut dyn Entries,
    ) -> Result<DirectoryPage, Status> {
        self.store
            .read_directory(cred, directory, cookie, verifier, entries)
            .await
    }

    async fn usage(&self, file: &FileHandle) -> Result<FileSystemUsage, Status> {
        self.store.usage(file).await
    }

    fn limits(&self) -> FileSystemLimits {
        self.store.limits()
    }

    fn write_verifier(&self) -> Verifier {
        self.store.write_verifier()
    }
}
