//! Operations that the store coordinates between hosts: file locks, and appending at the common end of a file.

use super::Mounted;
use crate::callers::has_signal;
use crate::limits::LOCK_WAITS_MAX;
use crate::session::Caching;
use crate::status::errno;
use fuser::Errno;
use gannet_client::write_behind::{Description, KeptWrite};
use gannet_runtime::{Buffer, Handle};
use gannet_vfs::{ByteLock, FileHandle, LockRequest, Locked, Stability, Vfs, Wcc};
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
        let file = self.open_file(key)?;
        let (number, handle) = (file.file.number(), *file.file.handle());
        if request == LockRequest::Unlock {
            // The next holder must find what this one wrote. An error is told at the next sync or close.
            let _ = self.within(self.drain(number)).await;
        }
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
                (Locked::Done, LockRequest::Try | LockRequest::Wait) => {
                    self.open.borrow_mut().note_lock(key, number, lock.owner);
                    self.renew_after_lock(number, &handle).await;
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
        // Without the state, the next request for attributes judges the pages.
        let _ = self.within(learning).await;
        let stale = self.inodes.borrow().stale(number);
        self.drop_pages(number, 0).await;
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
        let file = self.open_file(key)?;
        let (number, handle) = (file.file.number(), *file.file.handle());
        let unstable = Rc::clone(&file.file);
        if stability == Stability::Unstable {
            self.drain(number).await?;
        } else {
            self.commit(number, &file.caller).await?;
        }
        self.take_failure(key)?;
        let offset = {
            let _alone = unstable.appending.lock().await;
            // As in `write`: a resend must not run beside it.
            let _writing = unstable.turn.read().await;
            let _turn = self.turns.take(len).await;
            let (write, is_stable) = if self.vfs.is_coordinated() {
                let end = unstable.runs.borrow().end();
                self.append_there(&file, &handle, end, data, len, stability)
                    .await?
            } else {
                let size = self.newest(&handle, None).await?.attributes.size;
                let end = size.max(unstable.runs.borrow().end());
                let written = self.write_all(&file, &handle, end, data, len, stability);
                written.await.map_err(errno)?
            };
            let offset = write.offset;
            self.keep_written(&unstable, write, is_stable);
            offset
        };
        if self.options.caching == Caching::Cached {
            // The page at the former end ends in zeros, and the kernel may have taken the bytes for others at
            // `believed`. It may hold their pages until the reply.
            let mounted = Rc::clone(self);
            let from = believed.min(offset);
            let dropping = async move { mounted.drop_pages(number, from).await };
            self.runtime.spawn("pages of an append", Box::pin(dropping));
        }
        self.bound_kept(&file, &unstable).await.map_err(errno)?;
        u32::try_from(len).map_err(|_| Errno::EINVAL)
    }

    /// Appends where the store decides the offset, at `end` or further: bytes up to there are on their way.
    async fn append_there(
        &self,
        file: &Description,
        handle: &FileHandle,
        end: u64,
        data: Buffer,
        len: usize,
        stability: Stability,
    ) -> Result<(KeptWrite, bool), Errno> {
        let appended = (self.vfs).append(&file.caller, handle, end, data, len, stability);
        let (done, buffer) = appended.await;
        let (offset, done) = done.map_err(errno)?;
        (self.inodes.borrow_mut()).own_change(file.file.number(), &Wcc::default());
        let write = KeptWrite {
            offset,
            buffer,
            len,
            verifier: Some(done.verifier),
        };
        Ok((write, done.committed != Stability::Unstable))
    }
}
