//! A file system behind the client that is reached by another protocol than NFS.

use super::{Committed, Error, Found, Item, ReadDone, WriteOutcome};
use gannet_runtime::Buffer;
use gannet_vfs::{
    AccessMask, Attributes, CreateMode, FileHandle, FileSystemUsage, NodeKind, SetAttributes,
    Stability, Time,
};
use std::future::Future;
use std::pin::Pin;

/// What a procedure comes to.
pub type DirectAnswer<'a, T> = Pin<Box<dyn Future<Output = Result<T, Error>> + 'a>>;

/// The procedures that [`super::Client`] has, done otherwise than by RPC: with it, paths, listings and pipelines
/// ([`super::Files`], [`super::Reader`], [`super::Writer`]) work on other file systems too. Each does what the method
/// of the same name says.
#[allow(missing_docs)] // the client's methods say it
pub trait Direct {
    fn null(&self) -> DirectAnswer<'_, ()>;

    fn getattr<'a>(&'a self, object: &'a FileHandle) -> DirectAnswer<'a, Attributes>;

    fn setattr<'a>(
        &'a self,
        object: &'a FileHandle,
        change: &'a SetAttributes,
        guard: Option<Time>,
    ) -> DirectAnswer<'a, Option<Attributes>>;

    fn lookup<'a>(&'a self, directory: &'a FileHandle, name: &'a [u8]) -> DirectAnswer<'a, Found>;

    fn access<'a>(
        &'a self,
        object: &'a FileHandle,
        wanted: AccessMask,
    ) -> DirectAnswer<'a, AccessMask>;

    fn readlink<'a>(&'a self, link: &'a FileHandle) -> DirectAnswer<'a, Vec<u8>>;

    fn read<'a>(
        &'a self,
        file: &'a FileHandle,
        offset: u64,
        count: u32,
        buffer: Buffer,
    ) -> DirectAnswer<'a, ReadDone>;

    fn write<'a>(
        &'a self,
        file: &'a FileHandle,
        offset: u64,
        part: (Buffer, u32),
        stability: Stability,
    ) -> DirectAnswer<'a, WriteOutcome>;

    fn create<'a>(
        &'a self,
        directory: &'a FileHandle,
        name: &'a [u8],
        mode: &'a CreateMode,
    ) -> DirectAnswer<'a, Found>;

    fn mkdir<'a>(
        &'a self,
        directory: &'a FileHandle,
        name: &'a [u8],
        attributes: &'a SetAttributes,
    ) -> DirectAnswer<'a, Found>;

    fn symlink<'a>(
        &'a self,
        directory: &'a FileHandle,
        name: &'a [u8],
        target: &'a [u8],
        attributes: &'a SetAttributes,
    ) -> DirectAnswer<'a, Found>;

    fn mknod<'a>(
        &'a self,
        directory: &'a FileHandle,
        name: &'a [u8],
        kind: NodeKind,
        attributes: &'a SetAttributes,
    ) -> DirectAnswer<'a, Found>;

    fn remove<'a>(&'a self, directory: &'a FileHandle, name: &'a [u8]) -> DirectAnswer<'a, ()>;

    fn rmdir<'a>(&'a self, directory: &'a FileHandle, name: &'a [u8]) -> DirectAnswer<'a, ()>;

    fn rename<'a>(
        &'a self,
        from: (&'a FileHandle, &'a [u8]),
        to: (&'a FileHandle, &'a [u8]),
    ) -> DirectAnswer<'a, ()>;

    fn link<'a>(
        &'a self,
        file: &'a FileHandle,
        directory: &'a FileHandle,
        name: &'a [u8],
    ) -> DirectAnswer<'a, ()>;

    fn fsstat<'a>(&'a self, object: &'a FileHandle) -> DirectAnswer<'a, FileSystemUsage>;

    fn commit<'a>(&'a self, file: &'a FileHandle) -> DirectAnswer<'a, Committed>;

    fn list<'a>(&'a self, directory: &'a FileHandle) -> DirectAnswer<'a, Vec<Item>>;

    /// As `list`, without attributes.
    fn names<'a>(&'a self, directory: &'a FileHandle) -> DirectAnswer<'a, Vec<Item>>;
}
