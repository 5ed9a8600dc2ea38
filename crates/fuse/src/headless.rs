//! A mounted store without a kernel: the same core, with requests from a program.

use crate::inodes::NOBODY;
use crate::limits::KeptBounds;
use crate::listing::{PortionPlus, is_unknown};
use crate::mounted::{Entry, FileUse, IfThere, Mounted, Setting};
use crate::session::MountOptions;
use fuser::Errno;
use gannet_runtime::{Buffer, Handle};
use gannet_vfs::{Credentials, FileHandle, Stability, Vfs};
use std::future::Future;
use std::io;
use std::rc::Rc;

/// The kernel's number of the directory that is mounted.
pub const ROOT: u64 = crate::inodes::ROOT;

/// A file that [`Headless::open`] or [`Headless::create`] has opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Opened {
    /// The kernel's number of the file.
    pub number: u64,
    /// The key of this opening.
    pub key: u64,
}

/// A name in a directory, the number of its object, and the size in bytes, if the listing had it.
pub type Named = (Vec<u8>, u64, Option<u64>);

/// A portion of a listing.
struct Names {
    /// How many more names fit.
    room: usize,
    /// The position behind the last name.
    position: u64,
    names: Vec<Named>,
}

impl PortionPlus for Names {
    fn add(&mut self, entry: &Entry, next: u64, name: &[u8]) -> bool {
        if self.room == 0 {
            return true;
        }
        (self.room, self.position) = (self.room - 1, next);
        // The kernel counts no lookup for these.
        if !matches!(name, b"." | b"..") {
            let (number, size) = (entry.attr.ino.0, entry.attr.size);
            let size = (!is_unknown(number)).then_some(size);
            self.names.push((name.to_vec(), number, size));
        }
        false
    }
}

/// The core of a mount for a simulation, which has no kernel. Each function is one request with the mount's deadline,
/// and fails with the error number that a program would see. Its caller does the kernel's part: it repeats an open that
/// fails with `ESTALE` after a lookup, and forgets an object as often as it was looked up or made.
///
/// All operations have the credentials of the options, or root's.
pub struct Headless<V> {
    mounted: Rc<Mounted<V>>,
    caller: Credentials,
}

impl<V: Vfs> Headless<V> {
    /// The core of a mount of the directory `root` of `vfs`, with these bounds for kept writes.
    pub fn new(
        runtime: &Handle,
        vfs: V,
        root: FileHandle,
        options: MountOptions,
        bounds: KeptBounds,
    ) -> Headless<V> {
        let caller = options.caller.clone();
        let mounted = Mounted::new(Handle::clone(runtime), Rc::new(vfs), root, options, bounds);
        Headless {
            mounted: Rc::new(mounted),
            caller: caller.unwrap_or_else(|| Credentials::new(0, 0, &[])),
        }
    }

    async fn ask<T>(&self, request: impl Future<Output = Result<T, Errno>>) -> io::Result<T> {
        let done = self.mounted.within(request).await;
        done.map_err(|errno| io::Error::from_raw_os_error(errno.code()))
    }

    /// The number and the size of a name's object, for the process with this number.
    ///
    /// # Errors
    /// As stat(2).
    pub async fn lookup(&self, parent: u64, name: &[u8], process: u32) -> io::Result<(u64, u64)> {
        let looking = self.mounted.lookup(&self.caller, process, parent, name);
        let entry = self.ask(looking).await?;
        Ok((entry.attr.ino.0, entry.attr.size))
    }

    /// Takes back `lookups` of an object, as the kernel's FORGET does.
    pub fn forget(&self, number: u64, lookups: u64) {
        self.mounted.forget(number, lookups);
    }

    /// Makes a file that must not be there, and opens it.
    ///
    /// # Errors
    /// As open(2) with O_EXCL.
    pub async fn create(&self, parent: u64, name: &[u8]) -> io::Result<Opened> {
        let (caller, how) = (&self.caller, IfThere::Refuse);
        let making = self.mounted.create(caller, parent, name, 0o644, how);
        let (entry, key) = self.ask(making).await?;
        let number = entry.attr.ino.0;
        Ok(Opened { number, key })
    }

    /// Opens a file for reading and writing, for the process with this number.
    ///
    /// # Errors
    /// As open(2); `ESTALE` requires another lookup first.
    pub async fn open(&self, number: u64, process: u32) -> io::Result<Opened> {
        let use_of = FileUse {
            reads: true,
            writes: true,
            executes: false,
        };
        let opening = self.mounted.open(&self.caller, process, number, use_of);
        let (key, _) = self.ask(opening).await?;
        Ok(Opened { number, key })
    }

    /// Reads up to `count` bytes at `offset`; fewer at the end of the file.
    ///
    /// # Errors
    /// As pread(2).
    pub async fn read(&self, file: Opened, offset: u64, count: u32) -> io::Result<Vec<u8>> {
        let read = self.ask(self.mounted.read(file.key, offset, count)).await?;
        Ok(read.bytes().to_vec())
    }

    /// Writes `bytes` at `offset`: all of them.
    ///
    /// # Errors
    /// As pwrite(2) of a file that was opened with O_SYNC, O_DSYNC or neither.
    pub async fn write(
        &self,
        file: Opened,
        offset: u64,
        bytes: &[u8],
        stability: Stability,
    ) -> io::Result<()> {
        let (data, len) = (Buffer::from_vec(bytes.to_vec()), bytes.len());
        let writing = self.mounted.write(file.key, offset, data, len, stability);
        let written = self.ask(writing).await?;
        if written as usize == len {
            Ok(())
        } else {
            Err(io::Error::from(io::ErrorKind::WriteZero))
        }
    }

    /// Makes all writes durable, as fsync(2) does, and close(2) before it returns.
    ///
    /// # Errors
    /// As fsync(2).
    pub async fn sync(&self, file: Opened) -> io::Result<()> {
        let syncing = self.mounted.sync(file.key);
        self.ask(syncing).await
    }

    /// Releases an open file after its last close(2), as the kernel does.
    pub async fn release(&self, file: Opened) {
        self.mounted.close(file.key).await;
    }

    /// Cuts a file, or makes it longer.
    ///
    /// # Errors
    /// As ftruncate(2).
    pub async fn truncate(&self, file: Opened, size: u64) -> io::Result<()> {
        let setting = Setting {
            mode: None,
            uid: None,
            gid: None,
            size: Some(size),
            access_time: None,
            modify_time: None,
            open_file: Some(file.key),
        };
        let set = self.ask((self.mounted).set(&self.caller, NOBODY, file.number, setting));
        set.await.map(|_| ())
    }

    /// Lists a directory as the kernel does, in portions of up to `portion_max` names: names, numbers and sizes. Each
    /// counts as looked up once.
    ///
    /// # Errors
    /// As readdir(3).
    pub async fn list(&self, number: u64, portion_max: usize) -> io::Result<Vec<Named>> {
        let opened = self.ask(async { self.mounted.open_directory(&self.caller, number) });
        let key = opened.await?;
        let mut listed = Vec::new();
        let done = self.list_open(key, portion_max, &mut listed).await;
        self.mounted.open.borrow_mut().remove_directory(key);
        if done.is_err() {
            let numbers = listed.iter().map(|(_, number, _)| *number);
            numbers.for_each(|number| self.forget(number, 1));
        }
        done.map(|()| listed)
    }

    async fn list_open(
        &self,
        key: u64,
        portion_max: usize,
        listed: &mut Vec<Named>,
    ) -> io::Result<()> {
        let mut position = 0;
        loop {
            let mut portion = Names {
                room: portion_max,
                position,
                names: Vec::new(),
            };
            let done = self.ask(self.mounted.list_plus(key, position, &mut portion));
            let done = done.await;
            // The names are added also after an error: they count as looked up, and the caller forgets them.
            listed.append(&mut portion.names);
            done?;
            if portion.room == portion_max {
                return Ok(());
            }
            position = portion.position;
        }
    }

    /// Removes the name of a file.
    ///
    /// # Errors
    /// As unlink(2).
    pub async fn remove(&self, parent: u64, name: &[u8]) -> io::Result<()> {
        let removing = self.mounted.remove(&self.caller, parent, name);
        self.ask(removing).await
    }

    /// Moves a name.
    ///
    /// # Errors
    /// As rename(2).
    pub async fn rename(
        &self,
        parent: u64,
        name: &[u8],
        new_parent: u64,
        new_name: &[u8],
    ) -> io::Result<()> {
        let renaming = self
            .mounted
            .rename(&self.caller, parent, name, new_parent, new_name);
        self.ask(renaming).await
    }
}
