//! The kernel's requests. The session's thread reads them and hands each to the core, which does it and replies.

use crate::callers::Asker;
use crate::device::wanted_flags;
use crate::flags::{
    F_RDLCK, F_UNLCK, F_WRLCK, LAST_OFFSET, O_APPEND, O_EXCL, O_TRUNC, byte_lock, file_use,
    wanted_stability,
};
use crate::limits::{BACKGROUND_MAX, REQUEST_BYTES_MAX};
use crate::listing::{Portion, PortionPlus};
use crate::mounted::{Entry, IfThere, Job, Mounted, Setting};
use crate::requests::Kind;
use crate::session::{Caching, Locks, MountOptions};
use crate::window::Windows;
use fuser::{
    AccessFlags, BsdFileFlags, Errno, FileHandle, FileType, Filesystem, FopenFlags, Generation,
    INodeNo, KernelConfig, LockOwner, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData,
    ReplyDirectory, ReplyDirectoryPlus, ReplyEmpty, ReplyEntry, ReplyLock, ReplyOpen, ReplyStatfs,
    ReplyWrite, Request, TimeOrNow, WriteFlags,
};
use gannet_client::limits::SHORT_MAX;
use gannet_runtime::{Arena, Buffer};
use gannet_vfs::{Credentials, LockKind, LockRequest, Locked, Stability, Vfs};
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use tokio::sync::{mpsc, oneshot};

/// Bytes in which space is counted.
const BLOCK_BYTES: u64 = 4096;
/// The result of an operation, as its reply carries it.
type Done<T> = Result<T, Errno>;

/// The mounted store's end on the session's thread. It shares no state with the core: all goes through the queue.
pub(crate) struct Front<V> {
    jobs: mpsc::Sender<Job<V>>,
    arena: Arena,
    windows: Arc<Windows>,
    caching: Caching,
    locks: Locks,
    age: Duration,
}

impl<V: Vfs> Front<V> {
    pub(crate) fn new(
        jobs: mpsc::Sender<Job<V>>,
        arena: Arena,
        windows: Arc<Windows>,
        options: &MountOptions,
    ) -> Front<V> {
        Front {
            jobs,
            arena,
            windows,
            caching: options.caching,
            locks: options.locks,
            age: options.cache_age,
        }
    }

    /// Has the core do `operation` with the credentials of the request, within the mount's deadline, and passes the
    /// result to `reply`. It counts as one of `kind`.
    fn submit<T: 'static>(
        &self,
        kind: Kind,
        request: &Request,
        reply: impl FnOnce(Result<T, Errno>) + Send + 'static,
        operation: impl AsyncFnOnce(Rc<Mounted<V>>, Credentials) -> Done<T> + Send + 'static,
    ) {
        let asker = Asker {
            uid: request.uid(),
            gid: request.gid(),
            process: request.pid(),
        };
        self.send(Box::new(move |mounted| {
            Box::pin(async move {
                let done = async {
                    let caller = mounted.caller(asker);
                    let done = operation(Rc::clone(&mounted), caller);
                    mounted.within_life(asker.process, done).await
                };
                reply(mounted.counted(kind, Some(asker.process), done).await);
            })
        }));
    }

    /// Waits for room in the queue, which bounds the requests in memory. After the core has ended the request is
    /// dropped, and its drop replies `EIO`: a request without a reply would block its program.
    fn send(&self, job: Job<V>) {
        let _ = self.jobs.blocking_send(job);
    }

    /// Has an object made or found, and replies with its entry.
    fn submit_entry(
        &self,
        kind: Kind,
        request: &Request,
        reply: ReplyEntry,
        operation: impl AsyncFnOnce(Rc<Mounted<V>>, Credentials) -> Result<Entry, Errno>
        + Send
        + 'static,
    ) {
        let answer = |outcome: Result<Entry, Errno>| match outcome {
            Ok(entry) => reply.entry(&entry.age, &entry.attr, entry.generation),
            Err(errno) => reply.error(errno),
        };
        self.submit(kind, request, answer, operation);
    }

    fn submit_empty(
        &self,
        kind: Kind,
        request: &Request,
        reply: ReplyEmpty,
        operation: impl AsyncFnOnce(Rc<Mounted<V>>, Credentials) -> Done<()> + Send + 'static,
    ) {
        let answer = move |outcome| match outcome {
            Ok(()) => reply.ok(),
            Err(errno) => reply.error(errno),
        };
        self.submit(kind, request, answer, operation);
    }

    /// Queues a short write, and answers it. Requests that follow come after it.
    fn answer_at_once(&self, key: u64, offset: u64, data: &[u8], reply: ReplyWrite) {
        let (len, copy) = (data.len(), self.copy(data));
        let queued = self.jobs.blocking_send(Box::new(move |mounted| {
            mounted.look_after_copies();
            mounted.keep_answered(key, offset, copy, len);
            // Its program has not waited for the mount.
            mounted.requests.note(Kind::Write, None, Duration::ZERO);
            mounted.requests.written_bytes.add(len as u64);
            Box::pin(std::future::ready(()))
        }));
        match (queued, u32::try_from(len)) {
            (Ok(()), Ok(count)) => reply.written(count),
            _ => reply.error(Errno::EIO),
        }
    }

    /// How an open file is cached.
    fn open_flags(&self, is_unchanged: bool, flags: OpenFlags) -> FopenFlags {
        match self.caching {
            // The offset is known at the write, so the kernel cannot cache the bytes at one.
            Caching::Cached if flags.0 & O_APPEND != 0 => FopenFlags::FOPEN_DIRECT_IO,
            Caching::Direct => {
                FopenFlags::FOPEN_DIRECT_IO | FopenFlags::FOPEN_PARALLEL_DIRECT_WRITES
            }
            Caching::Cached if is_unchanged => FopenFlags::FOPEN_KEEP_CACHE,
            Caching::Cached => FopenFlags::empty(),
        }
    }

    /// A copy of the bytes: in a slot of the arena if they fill more than half of one, else in memory of their own.
    /// Copied, since the session's thread reads the next request into the same memory.
    fn copy(&self, data: &[u8]) -> Buffer {
        let is_long = data.len() > self.arena.slot_len() / 2;
        let slot = if is_long { self.arena.take() } else { None };
        let Some(mut buffer) = slot.filter(|slot| data.len() <= slot.len()) else {
            return Buffer::from_vec(data.to_vec());
        };
        if let Some(to) = buffer.get_mut(..data.len()) {
            to.copy_from_slice(data);
        }
        buffer
    }
}

/// A name as its bytes.
fn owned(name: &OsStr) -> Vec<u8> {
    name.as_bytes().to_vec()
}

impl<V: Vfs> Filesystem for Front<V> {
    fn init(&mut self, _request: &Request, config: &mut KernelConfig) -> io::Result<()> {
        for flag in wanted_flags(self.locks) {
            if config.add_capabilities(flag).is_err() {
                let name = flag.iter_names().next().map_or("unnamed", |(name, _)| name);
                tracing::info!(flag = name, "this kernel's FUSE does not have it");
            }
        }
        // Both values are below the limits of the library, so these calls do not fail.
        let _ = config.set_max_write(REQUEST_BYTES_MAX);
        let _ = config.set_max_background(BACKGROUND_MAX);
        Ok(())
    }

    fn lookup(&self, request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let (name, process) = (owned(name), request.pid());
        self.submit_entry(Kind::Lookup, request, reply, async move |it, caller| {
            it.lookup(&caller, process, parent.0, &name).await
        });
    }

    fn forget(&self, _request: &Request, number: INodeNo, lookups: u64) {
        self.send(Box::new(move |mounted| {
            mounted.forget(number.0, lookups);
            Box::pin(std::future::ready(()))
        }));
    }

    fn getattr(
        &self,
        request: &Request,
        number: INodeNo,
        _key: Option<FileHandle>,
        reply: ReplyAttr,
    ) {
        let process = request.pid();
        self.submit(
            Kind::Getattr,
            request,
            attr_answer(reply, self.age),
            async move |it, _| it.attr_of(number.0, process).await,
        );
    }

    fn setattr(
        &self,
        request: &Request,
        number: INodeNo,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        size: Option<u64>,
        access_time: Option<TimeOrNow>,
        modify_time: Option<TimeOrNow>,
        _change_time: Option<SystemTime>,
        key: Option<FileHandle>,
        _creation_time: Option<SystemTime>,
        _change_flags_time: Option<SystemTime>,
        _backup_time: Option<SystemTime>,
        _flags: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let setting = Setting {
            mode,
            uid,
            gid,
            size,
            access_time,
            modify_time,
            open_file: key.map(|key| key.0),
        };
        let (answer, process) = (attr_answer(reply, self.age), request.pid());
        self.submit(Kind::Setattr, request, answer, async move |it, caller| {
            it.set(&caller, process, number.0, setting).await
        });
    }

    fn readlink(&self, request: &Request, number: INodeNo, reply: ReplyData) {
        let answer = move |outcome: Result<Vec<u8>, Errno>| match outcome {
            Ok(target) => reply.data(&target),
            Err(errno) => reply.error(errno),
        };
        self.submit(Kind::Readlink, request, answer, async move |it, caller| {
            it.read_link(&caller, number.0).await
        });
    }

    fn mknod(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _umask: u32,
        device: u32,
        reply: ReplyEntry,
    ) {
        let name = owned(name);
        self.submit_entry(Kind::Mknod, request, reply, async move |it, caller| {
            it.make_node(&caller, parent.0, &name, mode, device).await
        });
    }

    fn mkdir(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _umask: u32,
        reply: ReplyEntry,
    ) {
        let name = owned(name);
        self.submit_entry(Kind::Mkdir, request, reply, async move |it, caller| {
            it.make_directory(&caller, parent.0, &name, mode).await
        });
    }

    fn unlink(&self, request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let name = owned(name);
        self.submit_empty(Kind::Unlink, request, reply, async move |it, caller| {
            it.remove(&caller, parent.0, &name).await
        });
    }

    fn rmdir(&self, request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let name = owned(name);
        self.submit_empty(Kind::Rmdir, request, reply, async move |it, caller| {
            it.remove_directory(&caller, parent.0, &name).await
        });
    }

    fn symlink(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        target: &Path,
        reply: ReplyEntry,
    ) {
        let (name, target) = (owned(name), owned(target.as_os_str()));
        self.submit_entry(Kind::Symlink, request, reply, async move |it, caller| {
            it.make_symlink(&caller, parent.0, &name, &target).await
        });
    }

    fn rename(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        new_parent: INodeNo,
        new_name: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        if !flags.is_empty() {
            // Servers have no rename that fails if the target exists, and no exchange of two names.
            reply.error(Errno::EINVAL);
            return;
        }
        let (name, new_name) = (owned(name), owned(new_name));
        self.submit_empty(Kind::Rename, request, reply, async move |it, caller| {
            it.rename(&caller, parent.0, &name, new_parent.0, &new_name)
                .await
        });
    }

    fn link(
        &self,
        request: &Request,
        number: INodeNo,
        parent: INodeNo,
        name: &OsStr,
        reply: ReplyEntry,
    ) {
        let name = owned(name);
        self.submit_entry(Kind::Link, request, reply, async move |it, caller| {
            it.link(&caller, number.0, parent.0, &name).await
        });
    }

    fn open(&self, request: &Request, number: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        let (unchanged, changed) = (self.open_flags(true, flags), self.open_flags(false, flags));
        let use_of = file_use(flags);
        let answer = move |outcome: Result<(u64, bool), Errno>| match outcome {
            Ok((key, is_unchanged)) => {
                let flags = if is_unchanged { unchanged } else { changed };
                reply.opened(FileHandle(key), flags);
            }
            Err(errno) => reply.error(errno),
        };
        let process = request.pid();
        self.submit(Kind::Open, request, answer, async move |it, caller| {
            it.open(&caller, process, number.0, use_of).await
        });
    }

    fn create(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _umask: u32,
        flags: i32,
        reply: ReplyCreate,
    ) {
        let if_there = match flags {
            flags if flags & O_EXCL != 0 => IfThere::Refuse,
            flags if flags & O_TRUNC != 0 => IfThere::Truncate,
            _ => IfThere::Keep,
        };
        let flags = self.open_flags(false, OpenFlags(flags));
        let name = owned(name);
        let answer = move |outcome: Result<(Entry, u64), Errno>| match outcome {
            Ok((entry, key)) => {
                let (age, generation) = (entry.age, entry.generation);
                reply.created(&age, &entry.attr, generation, FileHandle(key), flags);
            }
            Err(errno) => reply.error(errno),
        };
        self.submit(Kind::Create, request, answer, async move |it, caller| {
            it.create(&caller, parent.0, &name, mode, if_there).await
        });
    }

    fn read(
        &self,
        request: &Request,
        _number: INodeNo,
        key: FileHandle,
        offset: u64,
        count: u32,
        _flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let answer = move |outcome: Result<crate::mounted::Data, Errno>| match outcome {
            Ok(data) => reply.data(data.bytes()),
            Err(errno) => reply.error(errno),
        };
        self.submit(Kind::Read, request, answer, async move |it, _| {
            let data = it.read(key.0, offset, count).await?;
            it.requests.read_bytes.add(data.bytes().len() as u64);
            Ok(data)
        });
    }

    fn write(
        &self,
        request: &Request,
        number: INodeNo,
        key: FileHandle,
        offset: u64,
        data: &[u8],
        write_flags: WriteFlags,
        flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let (len, stability) = (data.len(), wanted_stability(flags));
        // By the flags of now: F_SETFL changes them. What a mapping wrote has its place already.
        let is_cached = write_flags.contains(WriteFlags::FUSE_WRITE_CACHE);
        let appends = flags.0 & O_APPEND != 0 && !is_cached;
        let takes_set_id = write_flags.contains(WriteFlags::FUSE_WRITE_KILL_SUIDGID);
        // The kernel asks that of each write by a user. A file with an open window has no bits.
        let by_root = takes_set_id && self.windows.is_of_root(key.0);
        let is_plain = stability == Stability::Unstable && !appends && !by_root;
        if is_plain && len <= SHORT_MAX && self.windows.is_open(number.0) {
            return self.answer_at_once(key.0, offset, data, reply);
        }
        // The request is queued before its bytes are copied, so that the core wakes during the copy.
        let (copied, copy) = oneshot::channel();
        let answer = move |outcome: Result<u32, Errno>| match outcome {
            Ok(count) => reply.written(count),
            Err(errno) => reply.error(errno),
        };
        self.submit(Kind::Write, request, answer, async move |it, _| {
            let data = copy.await.map_err(|_| Errno::EIO)?;
            it.look_after_copies();
            let written = if appends {
                it.append(key.0, offset, data, len, stability).await?
            } else {
                it.write(key.0, offset, data, len, stability).await?
            };
            if takes_set_id {
                it.take_set_id(key.0).await?;
            }
            it.requests.written_bytes.add(u64::from(written));
            Ok(written)
        });
        // It fails if the core has dropped the request, at its deadline or at its end.
        let _ = copied.send(self.copy(data));
    }

    fn flush(
        &self,
        request: &Request,
        _number: INodeNo,
        key: FileHandle,
        lock_owner: LockOwner,
        reply: ReplyEmpty,
    ) {
        let has_locks = self.locks == Locks::Shared;
        self.submit_empty(Kind::Flush, request, reply, async move |it, _| {
            let synced = it.flush(key.0).await;
            if has_locks {
                // fcntl(2)'s locks end with the first close of the process, also when the sync failed.
                it.unlock_all(key.0, lock_owner.0).await?;
            }
            synced
        });
    }

    fn fsync(
        &self,
        request: &Request,
        _number: INodeNo,
        key: FileHandle,
        _data_only: bool,
        reply: ReplyEmpty,
    ) {
        self.submit_empty(Kind::Fsync, request, reply, async move |it, _| {
            it.sync(key.0).await
        });
    }

    fn release(
        &self,
        _request: &Request,
        _number: INodeNo,
        key: FileHandle,
        _flags: OpenFlags,
        lock_owner: Option<LockOwner>,
        _flush: bool,
        reply: ReplyEmpty,
    ) {
        let owner = lock_owner.filter(|_| self.locks == Locks::Shared);
        self.send(Box::new(move |mounted| {
            Box::pin(async move {
                let mut owners = mounted.open.borrow_mut().take_lock_owners(key.0);
                owners.extend(owner.map(|owner| owner.0));
                let closed = async {
                    for owner in owners {
                        // flock(2)'s locks end with the last close, and those of F_OFD_SETLK. The store retries an
                        // unlock that fails here.
                        let _ = mounted.unlock_all(key.0, owner).await;
                    }
                    mounted.close(key.0).await;
                    Ok(())
                };
                // It has no error.
                let _ = mounted.counted(Kind::Release, None, closed).await;
                reply.ok();
            })
        }));
    }

    fn opendir(&self, request: &Request, number: INodeNo, _flags: OpenFlags, reply: ReplyOpen) {
        let answer = move |outcome| match outcome {
            Ok(key) => reply.opened(FileHandle(key), FopenFlags::empty()),
            Err(errno) => reply.error(errno),
        };
        self.submit(Kind::Opendir, request, answer, async move |it, caller| {
            it.open_directory(&caller, number.0)
        });
    }

    fn readdir(
        &self,
        request: &Request,
        _number: INodeNo,
        key: FileHandle,
        position: u64,
        mut reply: ReplyDirectory,
    ) {
        let thread = request.pid();
        self.send(Box::new(move |mounted| {
            Box::pin(async move {
                let listed = mounted.list(key.0, position, &mut reply);
                let listed = mounted.within_life(thread, listed);
                match mounted.counted(Kind::Readdir, Some(thread), listed).await {
                    Ok(()) => reply.ok(),
                    Err(errno) => reply.error(errno),
                }
            })
        }));
    }

    fn readdirplus(
        &self,
        request: &Request,
        _number: INodeNo,
        key: FileHandle,
        position: u64,
        mut reply: ReplyDirectoryPlus,
    ) {
        let thread = request.pid();
        self.send(Box::new(move |mounted| {
            Box::pin(async move {
                let listed = mounted.list_plus(key.0, position, &mut reply);
                let listed = mounted.within_life(thread, listed);
                match mounted
                    .counted(Kind::Readdirplus, Some(thread), listed)
                    .await
                {
                    Ok(()) => reply.ok(),
                    Err(errno) => reply.error(errno),
                }
            })
        }));
    }

    fn releasedir(
        &self,
        _request: &Request,
        _number: INodeNo,
        key: FileHandle,
        _flags: OpenFlags,
        reply: ReplyEmpty,
    ) {
        self.send(Box::new(move |mounted| {
            mounted.open.borrow_mut().remove_directory(key.0);
            reply.ok();
            Box::pin(std::future::ready(()))
        }));
    }

    fn fsyncdir(
        &self,
        _request: &Request,
        _number: INodeNo,
        _key: FileHandle,
        _data_only: bool,
        reply: ReplyEmpty,
    ) {
        // Changes of names are durable before their replies.
        reply.ok();
    }

    fn statfs(&self, request: &Request, _number: INodeNo, reply: ReplyStatfs) {
        let answer = move |outcome: Result<(gannet_vfs::FileSystemUsage, u32), Errno>| {
            let (usage, name_max) = match outcome {
                Ok(usage) => usage,
                Err(errno) => return reply.error(errno),
            };
            reply.statfs(
                usage.bytes_total / BLOCK_BYTES,
                usage.bytes_free / BLOCK_BYTES,
                usage.bytes_available / BLOCK_BYTES,
                usage.files_total,
                usage.files_free,
                BLOCK_BYTES as u32,
                name_max,
                BLOCK_BYTES as u32,
            );
        };
        self.submit(Kind::Statfs, request, answer, async move |it, _| {
            Ok((it.usage().await?, it.vfs.limits().name_max))
        });
    }

    fn getlk(
        &self,
        request: &Request,
        _number: INodeNo,
        key: FileHandle,
        owner: LockOwner,
        start: u64,
        end: u64,
        kind: i32,
        process: u32,
        reply: ReplyLock,
    ) {
        let lock = byte_lock(owner, start..=end, kind, process);
        let Some(lock) = lock.filter(|_| self.locks == Locks::Shared) else {
            return reply.error(Errno::ENOLCK);
        };
        let answer = move |outcome: Result<Locked, Errno>| match outcome {
            Ok(Locked::Denied(other)) => {
                let kind = match other.kind {
                    LockKind::Shared => F_RDLCK,
                    LockKind::Exclusive => F_WRLCK,
                };
                let end = other.end.min(LAST_OFFSET);
                reply.locked(other.start, end, kind, other.process);
            }
            Ok(_) => reply.locked(0, 0, F_UNLCK, 0),
            Err(errno) => reply.error(errno),
        };
        let thread = request.pid();
        self.submit(Kind::Getlk, request, answer, async move |it, _| {
            it.lock(key.0, lock, LockRequest::Test, thread).await
        });
    }

    fn setlk(
        &self,
        request: &Request,
        _number: INodeNo,
        key: FileHandle,
        owner: LockOwner,
        start: u64,
        end: u64,
        kind: i32,
        process: u32,
        waits: bool,
        reply: ReplyEmpty,
    ) {
        let lock = byte_lock(owner, start..=end, kind, process);
        let thread = request.pid();
        let answer = move |outcome: Result<Locked, Errno>| match outcome {
            Ok(_) => reply.ok(),
            Err(errno) => reply.error(errno),
        };
        match (lock, self.locks) {
            (None, _) => answer(Err(Errno::EINVAL)),
            (Some(lock), Locks::Shared) if kind != F_UNLCK && waits => {
                self.send(Box::new(move |mounted| {
                    let (counting, begun) = (Rc::clone(&mounted), mounted.runtime.now());
                    let answer = move |outcome: Result<Locked, Errno>| {
                        let took = counting.runtime.now().duration_since(begun);
                        let failure = outcome.as_ref().err().copied();
                        counting.requests.note(Kind::Setlkw, failure, took);
                        answer(outcome);
                    };
                    mounted.lock_in_time(key.0, lock, thread, answer);
                    Box::pin(std::future::ready(()))
                }));
            }
            (Some(lock), Locks::Shared) => {
                let asked = match kind {
                    F_UNLCK => LockRequest::Unlock,
                    _ => LockRequest::Try,
                };
                self.submit(Kind::Setlk, request, answer, async move |it, _| {
                    it.lock(key.0, lock, asked, thread).await
                });
            }
            // The kernel sends this only to a mount without locks, which has none to release.
            (Some(lock), _) if kind == F_UNLCK => answer(Ok(Locked::Denied(lock))),
            _ => answer(Err(Errno::ENOLCK)),
        }
    }

    fn access(&self, _request: &Request, _number: INodeNo, _mask: AccessFlags, reply: ReplyEmpty) {
        // The kernel does not send this: it decides by owner and mode (default_permissions), and the server at every
        // operation.
        reply.ok();
    }
}

fn attr_answer(
    reply: ReplyAttr,
    age: Duration,
) -> impl FnOnce(Result<fuser::FileAttr, Errno>) + Send + 'static {
    move |outcome| match outcome {
        Ok(attr) => reply.attr(&age, &attr),
        Err(errno) => reply.error(errno),
    }
}

impl Portion for ReplyDirectory {
    fn add(&mut self, number: u64, next: u64, kind: FileType, name: &[u8]) -> bool {
        ReplyDirectory::add(self, INodeNo(number), next, kind, OsStr::from_bytes(name))
    }
}

impl PortionPlus for ReplyDirectoryPlus {
    fn add(&mut self, entry: &Entry, next: u64, name: &[u8]) -> bool {
        let (number, name) = (entry.attr.ino, OsStr::from_bytes(name));
        let generation: Generation = entry.generation;
        let (age, attr) = (&entry.age, &entry.attr);
        ReplyDirectoryPlus::add(self, number, next, name, age, attr, generation)
    }
}
