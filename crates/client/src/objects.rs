//! Operations of a file system by handle, for one caller.

use super::{Error, Node, Waits};
use gannet_runtime::{Buffer, Handle, Instant};
use gannet_vfs::{
    Attributes, BytesRead, Changed, Commit, CreateMode, Created, Credentials, EntryName,
    FileHandle, FileSystemUsage, NodeKind, SetAttributes, Stability, Status, Vfs, WriteDone,
};
use std::ops::Range;
use std::rc::Rc;

/// The operations of a file system for one caller, with errors that have a cause. Clones share the file system.
pub struct Objects<V> {
    shared: Rc<Shared<V>>,
}

struct Shared<V> {
    file_system: Rc<V>,
    caller: Credentials,
    runtime: Handle,
    waits: Waits,
}

impl<V> Clone for Objects<V> {
    fn clone(&self) -> Objects<V> {
        Objects {
            shared: Rc::clone(&self.shared),
        }
    }
}

impl<V: Vfs> Objects<V> {
    /// The objects of `file_system` with the rights of `caller`, on the core of `runtime`.
    pub fn new(runtime: Handle, file_system: V, caller: Credentials) -> Objects<V> {
        Objects {
            shared: Rc::new(Shared {
                file_system: Rc::new(file_system),
                caller,
                runtime,
                waits: Waits::default(),
            }),
        }
    }

    /// The file system itself.
    pub fn file_system(&self) -> &Rc<V> {
        &self.shared.file_system
    }

    /// The credentials of all operations.
    pub fn caller(&self) -> &Credentials {
        &self.shared.caller
    }

    /// The start of the oldest operation without a reply; `None` when none is under way.
    pub fn waits_since(&self) -> Option<Instant> {
        self.shared.waits.oldest()
    }

    /// The error for a status, with the cause if the file system knows one. Call it before another operation is polled:
    /// the file system keeps the cause of its last failure alone.
    pub fn error(&self, status: Status) -> Error {
        match self.file_system().cause(status) {
            Some(cause) => Error::Failed { status, cause },
            None => Error::Status(status),
        }
    }

    /// Awaits `operation`, which counts as under way until then, or until this future is dropped.
    pub(crate) async fn wait<T>(&self, operation: impl Future<Output = T>) -> T {
        let _wait = self.shared.waits.begin(self.shared.runtime.now());
        operation.await
    }

    fn done<T>(&self, result: Result<T, Status>) -> Result<T, Error> {
        result.map_err(|status| self.error(status))
    }

    /// An object with its attributes, fetched if they did not come along.
    pub(crate) async fn node(&self, made: Created) -> Result<Node, Error> {
        let handle = made.handle;
        let attributes = match made.attributes {
            Some(attributes) => attributes,
            None => self.attributes(&handle).await?,
        };
        Ok(Node { handle, attributes })
    }

    /// Attributes of an object.
    ///
    /// # Errors
    /// [`Error::Status`] and [`Error::Failed`]; so for all that follow.
    pub async fn attributes(&self, object: &FileHandle) -> Result<Attributes, Error> {
        let found = self.wait(self.file_system().attributes(object)).await;
        self.done(found)
    }

    /// Changes attributes; gives them as they are afterwards, if they came along.
    pub async fn set_attributes(
        &self,
        object: &FileHandle,
        change: &SetAttributes,
    ) -> Result<Option<Attributes>, Error> {
        let (fs, caller) = (self.file_system(), self.caller());
        let changed = self.wait(fs.set_attributes(caller, object, change, None));
        let changed = changed.await;
        self.done(changed.result)?;
        Ok(changed.wcc.after)
    }

    /// The object of a name in a directory.
    pub async fn lookup(&self, directory: &FileHandle, name: &[u8]) -> Result<Node, Error> {
        let (fs, caller) = (self.file_system(), self.caller());
        let (found, _) = self.wait(fs.lookup(caller, directory, name)).await;
        let (handle, attributes) = self.done(found)?;
        Ok(Node { handle, attributes })
    }

    /// The text of a symbolic link.
    pub async fn read_link(&self, link: &FileHandle) -> Result<Vec<u8>, Error> {
        let (fs, caller) = (self.file_system(), self.caller());
        let read = self.wait(fs.read_link(caller, link)).await;
        Ok(self.done(read)?.0)
    }

    /// Reads at most `count` bytes at `offset` into the start of `buffer`; gives the memory back. Fewer come only at
    /// the end of the file. A failed read keeps the memory.
    pub async fn read_into(
        &self,
        file: &FileHandle,
        offset: u64,
        count: u32,
        buffer: Buffer,
    ) -> Result<(BytesRead, Buffer), Error> {
        let (fs, caller) = (self.file_system(), self.caller());
        let read = self.wait(fs.read_into(caller, file, offset, count, buffer));
        let (read, buffer) = read.await;
        Ok((self.done(read)?, buffer.unwrap_or_default()))
    }

    /// Writes the first `len` bytes of `buffer` at `offset`; gives the memory back. A failed write keeps it.
    pub async fn write(
        &self,
        file: &FileHandle,
        offset: u64,
        buffer: Buffer,
        len: u32,
        stability: Stability,
    ) -> Result<(WriteDone, Buffer), Error> {
        let range = 0..buffer.len().min(len as usize);
        self.write_part(file, offset, buffer, range, stability)
            .await
    }

    /// As [`Objects::write`], of the bytes of `range` in `buffer`.
    pub async fn write_part(
        &self,
        file: &FileHandle,
        offset: u64,
        buffer: Buffer,
        range: Range<usize>,
        stability: Stability,
    ) -> Result<(WriteDone, Buffer), Error> {
        let (fs, caller) = (self.file_system(), self.caller());
        let written = fs.write_and_return(caller, file, offset, buffer, range, stability);
        let (written, buffer) = self.wait(written).await;
        Ok((self.done(written.result)?, buffer.unwrap_or_default()))
    }

    /// Makes durable all that was written to a file.
    pub async fn commit(&self, file: &FileHandle) -> Result<Commit, Error> {
        let (fs, caller) = (self.file_system(), self.caller());
        let committed = self.wait(fs.commit(caller, file, 0, 0)).await;
        self.done(committed.result)
    }

    fn made(&self, made: Changed<Created>) -> Result<Created, Error> {
        self.done(made.result)
    }

    /// Makes a regular file.
    pub async fn create(
        &self,
        directory: &FileHandle,
        name: &[u8],
        mode: &CreateMode,
    ) -> Result<Created, Error> {
        let (fs, caller) = (self.file_system(), self.caller());
        self.made(self.wait(fs.create(caller, directory, name, mode)).await)
    }

    /// Makes a directory.
    pub async fn make_directory(
        &self,
        directory: &FileHandle,
        name: &[u8],
        attributes: &SetAttributes,
    ) -> Result<Created, Error> {
        let (fs, caller) = (self.file_system(), self.caller());
        let made = fs.make_directory(caller, directory, name, attributes);
        self.made(self.wait(made).await)
    }

    /// Makes a symbolic link with the text `target`.
    pub async fn make_symlink(
        &self,
        directory: &FileHandle,
        name: &[u8],
        target: &[u8],
        attributes: &SetAttributes,
    ) -> Result<Created, Error> {
        let (fs, caller) = (self.file_system(), self.caller());
        let made = fs.make_symlink(caller, directory, name, target, attributes);
        self.made(self.wait(made).await)
    }

    /// Makes a device, socket or FIFO.
    pub async fn make_node(
        &self,
        directory: &FileHandle,
        name: &[u8],
        kind: NodeKind,
        attributes: &SetAttributes,
    ) -> Result<Created, Error> {
        let (fs, caller) = (self.file_system(), self.caller());
        let made = fs.make_node(caller, directory, name, kind, attributes);
        self.made(self.wait(made).await)
    }

    /// Removes a name that is not a directory.
    pub async fn remove(&self, directory: &FileHandle, name: &[u8]) -> Result<(), Error> {
        let (fs, caller) = (self.file_system(), self.caller());
        let removed = self.wait(fs.remove(caller, directory, name)).await;
        self.done(removed.result)
    }

    /// Removes an empty directory.
    pub async fn remove_directory(&self, directory: &FileHandle, name: &[u8]) -> Result<(), Error> {
        let (fs, caller) = (self.file_system(), self.caller());
        let removed = self.wait(fs.remove_directory(caller, directory, name));
        let removed = removed.await;
        self.done(removed.result)
    }

    /// Moves a name from directory to directory, and replaces the object that has the new name.
    pub async fn rename(&self, from: EntryName<'_>, to: EntryName<'_>) -> Result<(), Error> {
        let (moved, ..) = self
            .wait(self.file_system().rename(self.caller(), from, to))
            .await;
        self.done(moved)
    }

    /// Space of the file system that an object is in.
    pub async fn usage(&self, object: &FileHandle) -> Result<FileSystemUsage, Error> {
        let usage = self.wait(self.file_system().usage(object)).await;
        self.done(usage)
    }
}
