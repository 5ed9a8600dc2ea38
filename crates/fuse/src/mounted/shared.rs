//! Operations that the store coordinates between hosts: file locks, and appending at the common end of a file.

use super::Mounted;
use crate::callers::has_signal;
use crate::limits::LOCK_WAITS_MAX;
use crate::session::Caching;
use crate::status::errno;
use fuser::Errno;
use gannet_client::write_behind::Description;
use gannet_runtime::{Buffer, Handle};
use gannet_vfs::{ByteLock, FileHandle, LockRequest, Locked, Stability, Vfs};
use std::rc::Rc;

impl<V: Vfs> Mounted<V> {
    /// Locks, unlocks or tests bytes of an open file, for all hosts. A wait ends with the lock, or with a signal to the
    /// waiting thread: the kernel then restarts the system call, or the program gets `EINTR`.
    pub(crate) async fn lock(
        self: &Rc<Self>,
        key: u64,
        lock: ByteLock,
        request: LockRequest,
        thread: u32,
    ) -> Result<Locked, Errno> {
        let Description { file, caller } = self.open_file(key)?;
        let (number, handle) = (file.number(), file.handle());
        if request == LockRequest::Unlock {
            // The next holder must find what this one wrote. An error is told at the next sync or close.
            let _ = self.within(self.drain(number)).await;
            // From here on the file is followed again. If the request is dropped, the last close unlocks once more.
            self.open.borrow_mut().note_unlock(number, &lock);
        }
        loop {
            // The store answers a wait after about a second. `within` bounds each attempt and not the whole wait, which
            // may last as long as another host holds the lock.
            let asked = self.vfs.lock(&caller, handle, &lock, request);
            let locked = self.within(async { asked.await.map_err(errno) }).await?;
            match (locked, request) {
                (Locked::Denied(_), LockRequest::Wait) if !has_signal(thread) => {}
                (Locked::Denied(_), LockRequest::Wait) => return Err(Errno::EINTR),
                (Locked::Denied(_), LockRequest::Try) => return Err(Errno::EAGAIN),
                (Locked::TooMany, _) => return Err(Errno::ENOLCK),
                (Locked::Done, LockRequest::Try | LockRequest::Wait) => {
                    self.open.borrow_mut().note_lock(key, number, &lock);
                    self.renew_after_lock(number, handle).await;
                    return Ok(locked);
                }
                _ => return Ok(locked),
            }
        }
    }

    /// Has the kernel drop its pages and attributes of a file that was just locked. Another host may have written under
    /// this lock a moment ago, within one tick of the store's clock.
    ///
    /// The new state is learnt before that. If the kernel's next GETATTR found it, pages would be dropped during that
    /// request. The kernel ignores the attributes of such a request: a read behind the former end would find nothing.
    async fn renew_after_lock(self: &Rc<Self>, number: u64, handle: &FileHandle) {
        let learning = async {
            self.drain(number).await?;
            let newest = self.newest(handle, None).await?;
            self.inodes.borrow_mut().learn(number, &newest);
            Ok(())
        };
        // A drop from here on could meet a request of the holder, whose attributes the kernel would ignore.
        self.following.over(number).await;
        // Without the state, the next request for attributes judges the pages.
        let _ = self.within(learning).await;
        let stale = self.inodes.borrow().stale(number);
        self.pages.drop_from(number, 0).await;
        if let Some(stale) = stale {
            self.inodes.borrow_mut().dropped(number, stale);
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
    pub(crate) async fn unlock_all(self: &Rc<Self>, key: u64, owner: u64) -> Result<(), Errno> {
        let number = self.open_file(key)?.file.number();
        self.open.borrow_mut().strike_lock(number, owner);
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

    /// Writes the first `len` bytes of `data` at the end of a file, which the store decides, or this mount where the
    /// store does not. `believed` is the end in the kernel's cache; other hosts may have moved it.
    pub(crate) async fn append(
        self: &Rc<Self>,
        key: u64,
        believed: u64,
        data: Buffer,
        len: usize,
        stability: Stability,
    ) -> Result<u32, Errno> {
        let open = self.open_file(key)?;
        if stability == Stability::Unstable {
            self.writes.drain(&open.file).await.map_err(errno)?;
        } else {
            let committed = self.writes.commit(&open.file).await;
            committed.map_err(errno)?;
        }
        self.take_failure(key)?;
        let size = async || {
            let newest = self.ask_newest(open.file.handle(), None).await?;
            Ok(newest.attributes.size)
        };
        let placed = |offset: u64| {
            if self.options.caching == Caching::Cached {
                // The page at the former end ends in zeros, and the kernel may have taken the bytes for others at
                // `believed`. It may hold their pages until the reply.
                let (pages, number) = (Rc::clone(&self.pages), open.file.number());
                let dropping = async move { pages.drop_from(number, believed.min(offset)).await };
                self.runtime.spawn("pages of an append", Box::pin(dropping));
            }
        };
        let appended = (self.writes).append(&open, data, len, stability, size, placed);
        appended.await.map_err(errno)?;
        u32::try_from(len).map_err(|_| Errno::EINVAL)
    }
}
