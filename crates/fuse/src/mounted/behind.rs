//! Writes that leave behind the answer to write(2), and pages of the kernel that are of no use any more.

use super::Mounted;
use crate::inodes::Inode;
use crate::limits::{BEHIND_MAX, FILE_BEHIND_MAX};
use crate::session::Caching;
use fuser::{Errno, INodeNo};
use gannet_client::write_behind::{Description, FileWrites, Run, Runs};
use gannet_runtime::{Buffer, run_blocking};
use gannet_vfs::{Stability, Vfs};
use std::rc::Rc;

impl<V: Vfs> Mounted<V> {
    /// Waits until there is room for writes of a file behind their answers.
    pub(super) async fn room_behind(&self, unstable: &FileWrites) {
        loop {
            // Registered before the look, so that no wake-up is missed.
            let room = self.room.notified();
            let of_file = unstable.runs.borrow().charged();
            if of_file < FILE_BEHIND_MAX && self.behind.get() < BEHIND_MAX {
                return;
            }
            room.await;
        }
    }

    /// Keeps the first `len` bytes of `data` for the store.
    pub(super) fn add_behind(
        self: &Rc<Self>,
        file: &Description,
        offset: u64,
        data: Buffer,
        len: usize,
    ) {
        let unstable = &file.file;
        self.change_behind(unstable, |behind| {
            behind.add(&file.caller, offset, data, len)
        });
        self.send_behind(unstable);
        self.set_window(unstable);
    }

    /// Keeps a write that the session's thread has answered, since the window of its file was open.
    pub(crate) fn keep_answered(self: &Rc<Self>, key: u64, offset: u64, data: Buffer, len: usize) {
        let Ok(file) = self.open_file(key) else {
            // The kernel sends no WRITE after a RELEASE.
            debug_assert!(false, "a write to a file that is not open");
            return;
        };
        self.add_behind(&file, offset, data, len);
    }

    /// Opens or closes the window of a file, as [`Windows`](crate::window::Windows) has it. It closes at half of each
    /// bound, since writes in the queue come on top.
    pub(super) fn set_window(&self, unstable: &Rc<FileWrites>) {
        let number = unstable.number();
        let of_file = unstable.runs.borrow().charged();
        let has_room = of_file < FILE_BEHIND_MAX / 2 && self.behind.get() < BEHIND_MAX / 2;
        let is_open = self.options.caching == Caching::Cached
            && has_room
            && self.with_inode(number, Inode::is_open) == Ok(true)
            && !self.descriptions.borrow().has_failure(unstable);
        self.windows.set(number, is_open);
    }

    /// Changes what waits for the store. Every change goes through here, since the sum over all files is updated by the
    /// difference.
    pub(super) fn change_behind<T>(
        &self,
        unstable: &FileWrites,
        change: impl FnOnce(&mut Runs) -> T,
    ) -> T {
        let mut behind = unstable.runs.borrow_mut();
        let before = behind.charged();
        let changed = change(&mut behind);
        let after = behind.charged();
        debug_assert!(
            self.behind.get() + after >= before,
            "the sum counts all files"
        );
        self.behind.set(self.behind.get() + after - before);
        if after < before {
            self.room.notify_waiters();
        }
        changed
    }

    /// Starts the runs of a file that may leave now.
    fn send_behind(self: &Rc<Self>, unstable: &Rc<FileWrites>) {
        loop {
            // A variable of its own ends the borrow before the task may run.
            let next = unstable.runs.borrow_mut().take_next();
            let Some(run) = next else {
                return;
            };
            let (mounted, unstable) = (Rc::clone(self), Rc::clone(unstable));
            let sending = async move { mounted.send_run(unstable, run).await };
            self.runtime.spawn("write behind", Box::pin(sending));
        }
    }

    /// Sends one run. No deadline applies: a WRITE that is cut short could reach the server after newer bytes. Those
    /// who wait for it have deadlines.
    async fn send_run(self: Rc<Self>, unstable: Rc<FileWrites>, run: Run) {
        let Run {
            number: run,
            caller,
            offset,
            bytes,
        } = run;
        let number = unstable.number();
        let file = Description {
            file: Rc::clone(&unstable),
            caller,
        };
        let (data, len) = bytes.into_buffer();
        let sent = {
            // As in `Mounted::write`.
            let _writing = unstable.turn.read().await;
            let _turn = self.turns.take(len).await;
            let unstable_way = Stability::Unstable;
            let written = self.write_all(&file, unstable.handle(), offset, data, len, unstable_way);
            let written = written.await;
            written.map(|(write, is_stable)| self.keep_written(&unstable, write, is_stable))
        };
        let sent = match sent {
            Ok(()) => self.bound_kept(&file, &unstable).await,
            refused => refused,
        };
        if let Err(status) = sent {
            self.windows.set(number, false);
            let is_told = (self.descriptions.borrow_mut()).fail(&unstable, &file.caller, status);
            if !is_told {
                let uid = file.caller.uid;
                tracing::error!(uid, bytes = len, %status, "the server refused bytes of a closed file");
            }
            // The kernel's pages have bytes that the file will never have.
            self.inodes.borrow_mut().set_stale(number);
        }
        self.change_behind(&unstable, |behind| behind.answered(run));
        self.set_window(&unstable);
        unstable.answered.notify_waiters();
        self.send_behind(&unstable);
        if sent.is_err() {
            // After the wake-up: a READ that holds pages may have waited for it.
            self.drop_stale_pages(number).await;
        }
    }

    /// Waits until the store has answered the writes of a file that the kernel has an answer for.
    ///
    /// # Errors
    /// `ESTALE`: the kernel has forgotten the file.
    pub(super) async fn drain(self: &Rc<Self>, number: u64) -> Result<(), Errno> {
        let Some(unstable) = self.known_unstable(number)? else {
            return Ok(());
        };
        let until = unstable.runs.borrow_mut().hurry();
        loop {
            // Registered before the look, so that no wake-up is missed.
            let answered = unstable.answered.notified();
            if unstable.runs.borrow().is_past(until) {
                return Ok(());
            }
            self.send_behind(&unstable);
            answered.await;
        }
    }

    /// Drops the kernel's pages of a file, and its attributes, if they may be of an older state than the replies show.
    /// No request may wait for this that holds pages: the kernel waits for those.
    pub(super) async fn drop_stale_pages(&self, number: u64) {
        let stale = self.inodes.borrow().stale(number);
        if let Some(stale) = stale {
            self.drop_pages(number, 0).await;
            self.inodes.borrow_mut().dropped(number, stale);
        }
    }

    /// Drops the kernel's pages of a file from `start` on, in bytes, and its attributes.
    pub(super) async fn drop_pages(&self, number: u64, start: u64) {
        let Some(notifier) = self.notifier.borrow().clone() else {
            return;
        };
        // On another thread: the kernel may block the notification until this core has answered a READ or WRITE.
        let dropped = run_blocking(&self.runtime, move || {
            notifier.inval_inode(INodeNo(number), start.cast_signed(), 0)
        });
        // An error is harmless if the kernel has forgotten the file: it caches nothing of it then.
        if let Ok(Err(error)) = dropped.await {
            tracing::debug!(%error, "the kernel did not drop its pages of a file");
        }
    }
}
