//! What hosts do in turn: locks that hold for all of them, and appending to the end that all agree on.

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

/// Bytes of the kernel's pages, for what is rounded down to their starts; larger pages lose nothing by it.
const PAGE_LEN: u64 = 4096;

impl<V: Vfs> Mounted<V> {
    /// Locks, unlocks or tests bytes of an open file, for all hosts. Waiting ends with the lock, or with a signal to
    /// the thread that waits: the kernel then has it come back, or tells the program.
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
            // The store waits for about a second; nothing else ends a wait, so `within` bounds each attempt alone.
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

    /// As [`Mounted::lock`], in a task of its own: requests that wait must not take the places of those that end the
    /// wait. What comes of it goes to `reply`.
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

    /// Lets go of all that an owner has locked of a file: it is closed.
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

    /// Writes the first `len` bytes of `data` behind the end of a file, wherever other hosts have moved that. The
    /// kernel believes that it is at `believed`.
    pub(crate) async fn append(
        self: &Rc<Self>,
        key: u64,
        believed: u64,
        (data, len): (Buffer, usize),
        stability: Stability,
    ) -> Result<u32, Errno> {
        let file = self.open_file(key)?;
        let (handle, unstable) = self.with_inode(file.number, |inode| {
            (inode.handle, Rc::clone(&inode.unstable))
        })?;
        if stability != Stability::Unstable {
            self.commit(file.number, &file.caller).await?;
        }
        // Bytes that others here have written may lie in the kernel's cache alone, before this end.
        let is_cached = self.options.caching == Caching::Writeback
            && self.open.borrow().has_cached_writers(file.number);
        let at_least = if is_cached { believed } else { 0 };
        let last;
        let offset = {
            let _writing = unstable.turn.read().await;
            let _turn = self.turns.take(len).await;
            last = data.get(len.saturating_sub(1)).copied().unwrap_or(0);
            let (caller, data) = (&file.caller, (data, len));
            let appended = self.vfs.append(caller, &handle, at_least, data, stability);
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
        // Not while a turn is held: the kernel may write back pages before it lets go of them.
        if offset != believed && self.options.caching == Caching::Writeback {
            let end = offset + len as u64;
            self.move_end(file.number, believed, (end, last)).await;
        }
        self.bound_kept(&file, &unstable).await?;
        u32::try_from(len).map_err(|_| Errno::EINVAL)
    }

    /// Tells the kernel, which takes the sizes of files from itself, that a file ends at `end`, and that pages from
    /// `believed` on are not what it has in memory.
    async fn move_end(&self, number: u64, believed: u64, (end, last): (u64, u8)) {
        let Some(notifier) = self.notifier.borrow().clone() else {
            return;
        };
        let reported = run_blocking(&self.runtime, move || {
            // The last byte moves the end.
            let at = end.saturating_sub(1);
            notifier.store(INodeNo(number), at, &[last])?;
            let start = believed.min(at) / PAGE_LEN * PAGE_LEN;
            let range = (start.cast_signed(), (end - start).cast_signed());
            notifier.inval_inode(INodeNo(number), range.0, range.1)
        });
        // A kernel that forgets the file meanwhile has nothing wrong of it.
        if let Ok(Err(error)) = reported.await {
            tracing::debug!(%error, "the kernel was not told of an appended file's end");
        }
    }
}
