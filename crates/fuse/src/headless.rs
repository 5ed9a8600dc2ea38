//! A mounted store without a kernel: the same core, with requests from a program and a model of the kernel's cache.

mod kernel;

use crate::inodes::NOBODY;
use crate::limits::KeptBounds;
use crate::listing::{PortionPlus, is_unknown};
use crate::mounted::{Entry, FileUse, IfThere, Mounted, Setting};
use crate::session::{Caching, MountOptions};
use fuser::Errno;
use gannet_runtime::{Buffer, Handle};
use gannet_vfs::{ByteLock, Credentials, FileHandle, LockKind, LockRequest, Stability, Vfs};
use kernel::{Forgotten, PageCache, Requests};
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

/// The core of a mount for a simulation, which has no kernel. Each function is a system call or a request, with the
/// mount's deadline, and fails with the error number that a program would see. Its caller does a part of the kernel's
/// work: it repeats an open that fails with `ESTALE` after a lookup, and lets an object go as often as it was looked up
/// or made.
///
/// With [`Caching::Cached`], reads and writes go through a model of the kernel's cache, which the mount notifies.
///
/// All operations have the credentials of the options, or root's.
pub struct Headless<V> {
    mounted: Rc<Mounted<V>>,
    caller: Credentials,
    /// The kernel's cache; `None` for a mount without one.
    cache: Option<Rc<PageCache>>,
}

/// The requests of an open file for the kernel's cache.
struct FileRequests<'a, V> {
    headless: &'a Headless<V>,
    file: Opened,
    stability: Stability,
}

impl<V: Vfs> Requests for FileRequests<'_, V> {
    async fn attributes(&self) -> io::Result<u64> {
        let (headless, number) = (self.headless, self.file.number);
        let attr = headless.ask(headless.mounted.attr_of(number, NOBODY));
        Ok(attr.await?.size)
    }

    async fn read(&self, offset: u64, count: u32) -> io::Result<Vec<u8>> {
        self.headless.read_core(self.file, offset, count).await
    }

    async fn write(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let writing = (self.headless).write_core(self.file, offset, bytes, self.stability);
        writing.await
    }

    async fn set_size(&self, size: u64) -> io::Result<u64> {
        self.headless.truncate_core(self.file, size).await
    }
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
        let cache = match options.caching {
            Caching::Cached => Some(Rc::new(PageCache::new(runtime, options.cache_age))),
            Caching::Direct => None,
        };
        let mounted = Mounted::new(Handle::clone(runtime), Rc::new(vfs), root, options, bounds);
        let mounted = Rc::new(mounted);
        if let Some(cache) = &cache {
            let kernel = Rc::new(Rc::clone(cache));
            mounted.pages.kernel.replace(Some(kernel));
            let following = Mounted::follow_open_files(Rc::downgrade(&mounted));
            runtime.spawn("open files", Box::pin(following));
        }
        Headless {
            mounted,
            caller: caller.unwrap_or_else(|| Credentials::new(0, 0, &[])),
            cache,
        }
    }

    fn requests(&self, file: Opened, stability: Stability) -> FileRequests<'_, V> {
        FileRequests {
            headless: self,
            file,
            stability,
        }
    }

    async fn ask<T>(&self, request: impl Future<Output = Result<T, Errno>>) -> io::Result<T> {
        let done = self.mounted.within(request).await;
        done.map_err(|errno| io::Error::from_raw_os_error(errno.code()))
    }

    /// The number of a name's object, for the process with this number.
    ///
    /// # Errors
    /// As stat(2).
    pub async fn lookup(&self, parent: u64, name: &[u8], process: u32) -> io::Result<u64> {
        let (number, _) = self.look_up(parent, name, process).await?;
        Ok(number)
    }

    async fn look_up(&self, parent: u64, name: &[u8], process: u32) -> io::Result<(u64, u64)> {
        let asked = self.cache.as_ref().map(|cache| cache.version());
        let looking = self.mounted.lookup(&self.caller, process, parent, name);
        let attr = self.ask(looking).await?.attr;
        if let Some(cache) = &self.cache {
            cache.looked_up(attr.ino.0, attr.size, asked).await;
        }
        Ok((attr.ino.0, attr.size))
    }

    /// The number of a name's object and its size in bytes, for the process with this number. It counts as one lookup.
    ///
    /// # Errors
    /// As stat(2).
    pub async fn stat(&self, parent: u64, name: &[u8], process: u32) -> io::Result<(u64, u64)> {
        let (number, shown) = self.look_up(parent, name, process).await?;
        let Some(cache) = &self.cache else {
            return Ok((number, shown));
        };
        // GETATTR needs no open file.
        let requests = self.requests(Opened { number, key: 0 }, Stability::Unstable);
        let size = cache.stat(number, &requests).await;
        if size.is_err() {
            self.forget(number, 1);
        }
        Ok((number, size?))
    }

    /// The size of an open file in bytes.
    ///
    /// # Errors
    /// As fstat(2).
    pub async fn size(&self, file: Opened) -> io::Result<u64> {
        let requests = self.requests(file, Stability::Unstable);
        match &self.cache {
            Some(cache) => cache.stat(file.number, &requests).await,
            None => requests.attributes().await,
        }
    }

    /// Lets an object go that was looked up so many times. The kernel may keep it in its cache before its FORGET.
    pub fn forget(&self, number: u64, lookups: u64) {
        let Some(cache) = &self.cache else {
            return self.mounted.forget(number, lookups);
        };
        for Forgotten { number, lookups } in cache.let_go(number, lookups) {
            self.mounted.forget(number, lookups);
        }
    }

    /// Makes a file that must not be there, and opens it.
    ///
    /// # Errors
    /// As open(2) with O_EXCL.
    pub async fn create(&self, parent: u64, name: &[u8]) -> io::Result<Opened> {
        let (caller, how) = (&self.caller, IfThere::Refuse);
        let making = self.mounted.create(caller, parent, name, 0o644, how);
        let (entry, key) = self.ask(making).await?;
        let (number, size) = (entry.attr.ino.0, entry.attr.size);
        if let Some(cache) = &self.cache {
            cache.looked_up(number, size, None).await;
            cache.opened(number, false).await;
        }
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
        let (key, is_unchanged) = self.ask(opening).await?;
        if let Some(cache) = &self.cache {
            cache.opened(number, is_unchanged).await;
        }
        Ok(Opened { number, key })
    }

    /// Reads up to `count` bytes at `offset`; fewer at the end of the file.
    ///
    /// # Errors
    /// As pread(2).
    pub async fn read(&self, file: Opened, offset: u64, count: u32) -> io::Result<Vec<u8>> {
        let Some(cache) = &self.cache else {
            return self.read_core(file, offset, count).await;
        };
        let requests = self.requests(file, Stability::Unstable);
        cache.read(file.number, offset, count, &requests).await
    }

    async fn read_core(&self, file: Opened, offset: u64, count: u32) -> io::Result<Vec<u8>> {
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
        let Some(cache) = &self.cache else {
            return self.write_core(file, offset, bytes, stability).await;
        };
        let requests = self.requests(file, stability);
        cache.write(file.number, offset, bytes, &requests).await
    }

    async fn write_core(
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

    /// Locks all of an open file for its process, without a wait, or unlocks it.
    ///
    /// # Errors
    /// As fcntl(2) with F_SETLK: `EAGAIN` while another process has a lock.
    pub async fn lock(&self, file: Opened, process: u32, is_wanted: bool) -> io::Result<()> {
        let whole = ByteLock {
            owner: u64::from(process),
            kind: LockKind::Exclusive,
            start: 0,
            end: u64::MAX,
            process,
        };
        let request = if is_wanted {
            LockRequest::Try
        } else {
            LockRequest::Unlock
        };
        let locking = self.mounted.lock(file.key, whole, request, process);
        self.ask(locking).await.map(|_| ())
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
        let Some(cache) = &self.cache else {
            return self.truncate_core(file, size).await.map(|_| ());
        };
        let requests = self.requests(file, Stability::Unstable);
        cache.truncate(file.number, size, &requests).await
    }

    /// Gives the size of the reply.
    async fn truncate_core(&self, file: Opened, size: u64) -> io::Result<u64> {
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
        Ok(set.await?.size)
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
            let asked = self.cache.as_ref().map(|cache| cache.version());
            let done = self.ask(self.mounted.list_plus(key, position, &mut portion));
            let done = done.await;
            if let Some(cache) = &self.cache {
                for (_, number, size) in &portion.names {
                    // A name whose attributes are unknown has no number.
                    if let Some(size) = size {
                        cache.looked_up(*number, *size, asked).await;
                    }
                }
            }
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
