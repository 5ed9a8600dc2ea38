//! Operations that the store coordinates between hosts: file locks, and appending at the common end of a file.

use super::Mounted;
use crate::callers::has_signal;
use crate::limits::LOCK_WAITS_MAX;
use crate::session::Caching;
use crate::status::errno;
use crate::unstable::Kept;
use fuser::{Errno, INodeNo};
use gannet_runtime::{Buffer, Handle, run_blocking};
use gannet_vfs::{ByteLock, LockRequest, Locked, Stability, Vfs};
use std::rc::Rc;

/// Bytes of a page of the kernel, to which offsets are rounded down; the kernel rounds further where pages are larger.
const PAGE_LEN: u64 = 4096;

/// The end of a file that an append has moved.
struct MovedEnd {
    /// The end in the kernel's cache, in bytes.
    believed: u64,
    /// The end in the store, in bytes.
    end: u64,
    /// The last byte of the file.
    last: u8,
}

impl<V: Vfs> Mounted<V> {
    /// Locks, unlocks or tests bytes of an open file, for all hosts. A wait ends with the lock, or with a signal to the
    /// waiting thread: the kernel then restarts the system call, or the program gets `EINTR`.
    pub(crate) async fn lock(
        &self,
        key: u64,
        lock: ByteLock,
        request: LockRequest,
        thread: u32,
    ) -> Result<Locked, Errno> {
        let file = self.open_file(key)?;
        let handle = self.handle(file.number)?;
        loop {
            // The store answers a wait after about a second. `within` bounds each attempt and not the whole wait, which
            // may last as long as another host holds the lock.
            let asked = self.vfs.lock(&file.caller, &handle, &lock, request);
            let locked = self.within(async { asked.await.map_err(errno) }).await?;
            match (locked, request) {
                (Locked::Denied(_), LockRequest::Wait) if !has_signal(thread) => {}
                (Locked::Denied(_), LockRequest::Wait) => return Err(Errno::EINTR),
                (Locked::Denied(_), LockRequest::Try) => return Err(Errno::EAGAIN),
                (Locked::TooMany, _) => return Err(Errno::ENOLCK),
                _ => return Ok(locked),
            }
        }
    }

    /// As [`Mounted::lock`], in a task of its own, with the result given to `reply`. A wait as an ordinary request
    /// would hold one of the [`REQUESTS_MAX`](crate::limits::REQUESTS_MAX) places: enough of them would leave none for
    /// the unlock that ends the wait.
    pub(crate) fn lock_in_time(
        self: Rc<Self>,
        key: u64,
        lock: ByteLock,
        thread: u32,
        reply: impl FnOnce(Result<Locked, Errno>) + 'static,
    ) {
        if self.lock_waits.get() >= LOCK_WAITS_MAX {
            return reply(Err(Errno::ENOLCK));
        }
        self.lock_waits.set(self.lock_waits.get() + 1);
        let runtime = Handle::clone(&self.runtime);
        let task = async move {
            let locked = self.lock(key, lock, LockRequest::Wait, thread).await;
            self.lock_waits.set(self.lock_waits.get() - 1);
            reply(locked);
        };
        runtime.spawn("file lock", Box::pin(task));
    }

    /// Releases all locks of an owner on a file, when it is closed.
    pub(crate) async fn unlock_all(&self, key: u64, owner: u64) -> Result<(), Errno> {
        let all = ByteLock {
            owner,
            kind: gannet_vfs::LockKind::Exclusive,
            start: 0,
            end: u64::MAX,
            process: 0,
        };
        let unlocked = self.lock(key, all, LockRequest::Unlock, 0).await;
        unlocked.map(|_| ())
    }

    /// Writes the first `len` bytes of `data` at the end of a file, which the store decides. `believed` is the end in
    /// the kernel's cache; other hosts may have moved it.
    pub(crate) async fn append(
        self: &Rc<Self>,
        key: u64,
        believed: u64,
        data: Buffer,
        len: usize,
        stability: Stability,
    ) -> Result<u32, Errno> {
        let file = self.open_file(key)?;
        let (handle, unstable) = self.with_inode(file.number, |inode| {
            (inode.handle, Rc::clone(&inode.unstable))
        })?;
        if stability != Stability::Unstable {
            self.commit(file.number, &file.caller).await?;
        }
        // Other programs of this host may have bytes before `believed` in the kernel's cache alone. An append at the
        // store's shorter end would be overwritten when the kernel writes them back.
        let is_cached = self.options.caching == Caching::Writeback
            && self.open.borrow().has_cached_writers(file.number);
        let at_least = if is_cached { believed } else { 0 };
        let last;
        let offset = {
            // As in `write`: a resend must not run beside it.
            let _writing = unstable.turn.read().await;
            let _turn = self.turns.take(len).await;
            last = data.get(len.saturating_sub(1)).copied().unwrap_or(0);
            let caller = &file.caller;
            let appended = self
                .vfs
                .append(caller, &handle, at_least, data, len, stability);
            let (done, buffer) = appended.await;
            let (offset, done) = done.map_err(errno)?;
            if done.committed == Stability::Unstable || !unstable.is_empty() {
                let verifier = Some(done.verifier);
                let write = Kept {
                    offset,
                    buffer,
                    len,
                    verifier,
                };
                self.keep(&unstable, |unstable| unstable.keep(write));
            }
            offset
        };
        self.inodes.borrow_mut().appended(file.number);
        // After both turns are released: the kernel may write pages back before it drops them, and those writes need
        // turns. With a turn held here, neither would end.
        if offset != believed && self.options.caching == Caching::Writeback {
            let moved = MovedEnd {
                believed,
                end: offset + len as u64,
                last,
            };
            self.move_end(file.number, &moved).await;
        }
        self.bound_kept(&file, &unstable).await?;
        u32::try_from(len).map_err(|_| Errno::EINVAL)
    }

    /// Moves the end of a file in the kernel's cache, and invalidates its pages from the former end on. With its
    /// write-back cache the kernel ignores the sizes in replies.
    async fn move_end(&self, number: u64, moved: &MovedEnd) {
        let MovedEnd {
            believed,
            end,
            last,
        } = *moved;
        let Some(notifier) = self.notifier.borrow().clone() else {
            return;
        };
        // On another thread: the kernel may block the notification until this core has answered a WRITE.
        let reported = run_blocking(&self.runtime, move || {
            // Storing the last byte moves the end.
            let at = end.saturating_sub(1);
            notifier.store(INodeNo(number), at, &[last])?;
            let start = believed.min(at) / PAGE_LEN * PAGE_LEN;
            let range = (start.cast_signed(), (end - start).cast_signed());
            notifier.inval_inode(INodeNo(number), range.0, range.1)
        });
        // An error is harmless if the kernel has forgotten the file: it caches nothing of it then.
        if let Ok(Err(error)) = reported.await {
            tracing::debug!(%error, "the kernel was not notified of an appended file's end");
        }
    }
}
