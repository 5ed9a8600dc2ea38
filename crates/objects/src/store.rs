//! What holds objects: the seam below [`Objects`](super::Objects).

use gannet_runtime::{Buffer, FileRef};
use gannet_vfs::{FileHandle, FileSystemUsage, Stability, Status};
use gannet_wire::volume::{ObjectId, ObjectPage, ObjectState, Timestamp};
use std::ops::Range;

/// An object that was opened for a read.
pub struct Opened {
    /// The object's bytes, as long as it is held.
    pub file: FileRef,
    /// How many of the wanted bytes lie before its end.
    pub count: u32,
    /// Its state at the opening.
    pub state: ObjectState,
}

/// Room on the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Room {
    /// Bytes and files in all, and free ones.
    pub usage: FileSystemUsage,
    /// The file system, so that servers that share one are known.
    pub fsid: u64,
}

/// A store of objects and a few small notes, all of which belong to one server.
///
/// It decides nothing: not the order of writes, not who may read. Each call fails with the status of the disk, and
/// each waits for the disk alone.
#[allow(async_fn_in_trait)] // used generically, on one core
pub trait ObjectStore: 'static {
    /// The object with this name, if there is one.
    ///
    /// # Errors
    /// `Io`: something else has the object's name.
    async fn find(&self, object: ObjectId) -> Result<Option<FileHandle>, Status>;

    /// Makes an object; gives the one that there is otherwise.
    async fn make(&self, object: ObjectId) -> Result<FileHandle, Status>;

    /// Opens an object to read `count` bytes from `offset` on.
    async fn open(&self, object: &FileHandle, offset: u64, count: u32) -> Result<Opened, Status>;

    /// The state of an object.
    async fn state(&self, object: &FileHandle) -> Result<ObjectState, Status>;

    /// Stores the bytes `data` of a buffer. Gives how many of them were stored, and the buffer.
    ///
    /// # Errors
    /// Any failure of the disk. Some bytes may have been stored.
    async fn put(
        &self,
        object: &FileHandle,
        offset: u64,
        buffer: Buffer,
        data: Range<usize>,
        stability: Stability,
    ) -> Result<(u32, Option<Buffer>), Status>;

    /// Sets the length of an object; its time of modification becomes the present.
    async fn cut(&self, object: &FileHandle, len: u64) -> Result<(), Status>;

    /// Sets an object's time of modification.
    async fn stamp(&self, object: &FileHandle, time: Timestamp) -> Result<(), Status>;

    /// Makes an object durable.
    async fn sync(&self, object: &FileHandle) -> Result<(), Status>;

    /// Removes an object, durably. No object: that is well.
    async fn remove(&self, object: ObjectId) -> Result<(), Status>;

    /// Adds objects to a page that has room, from its position on, and moves that behind them. Adds none from more than
    /// one folder, so that its caller may let others go first. Names that are no object's are counted.
    async fn list(&self, page: &mut ObjectPage) -> Result<(), Status>;

    /// Room on the disk.
    async fn usage(&self) -> Result<Room, Status>;

    /// Changes when bytes that are not durable may have been lost.
    fn verifier(&self) -> u64;

    /// The first `len` bytes of a note, which are durable from now on; `None` if it was never written.
    async fn note(&self, name: &'static str, len: usize) -> Result<Option<Vec<u8>>, Status>;

    /// Writes to a note from `offset` on; makes it if it was never written. A write may be torn.
    async fn write_note(
        &self,
        name: &'static str,
        offset: u64,
        bytes: Vec<u8>,
        stability: Stability,
    ) -> Result<(), Status>;
}
