//! Commits of the writes that the store has answered, and resends of those that it lost.

use super::file::KeptWrite;
use super::{Description, FileWrites, FrontEnd, WriteBehind};
use crate::limits::{RESENDS_MAX, SILENCE_PAUSE};
use gannet_runtime::stages::{self, Stage};
use gannet_runtime::{Buffer, sleep};
use gannet_vfs::{Credentials, Stability, Status, Vfs};
use std::rc::Rc;
use tokio::sync::oneshot;

impl<V: Vfs, F: FrontEnd> WriteBehind<V, F> {
    /// Makes the writes of a file durable, after the store has answered all of them so far, and resends those that the
    /// server lost in a restart. Each WRITE has the credentials of its writer, and a COMMIT those of a writer whose
    /// bytes it is for.
    ///
    /// A refusal (no space, no right any more) drops the bytes of that writer. Its open descriptions are told, so this
    /// call succeeds. When the server does not answer, the caller's deadline drops this future, and the writes stay for
    /// the next attempt.
    ///
    /// # Errors
    /// `Jukebox`: the store waits for a silent server no longer. The writes stay too.
    pub async fn commit(self: &Rc<Self>, file: &Rc<FileWrites>) -> Result<(), Status> {
        let _stage = stages::enter(Stage::Sync);
        self.drain(file).await?;
        self.commit_kept(file).await
    }

    /// As [`WriteBehind::commit`], of the writes that the store has answered.
    async fn commit_kept(self: &Rc<Self>, file: &Rc<FileWrites>) -> Result<(), Status> {
        if file.is_empty() && file.committing.try_lock().is_ok() {
            return Ok(());
        }
        {
            // The order of the locks is that of `commit_alone`.
            let _turn = file.turn.write().await;
            let _committing = file.committing.lock().await;
            let Some(writer) = file.writer() else {
                return Ok(());
            };
            match self.commit_once(file, &writer).await {
                Ok(0) => return Ok(()),
                Ok(_) => {}
                Err(status) => self.drop_refused(file, &writer, status)?,
            }
        }
        // A task of its own, since the caller's deadline may drop this future: a resend that is cut short could reach
        // the server after newer bytes.
        let (sender, committed) = oneshot::channel();
        let (writes, file) = (Rc::clone(self), Rc::clone(file));
        let resend = async move {
            // Exclusive: a write during the resend could be overwritten by the older bytes that are sent again.
            let _turn = file.turn.write().await;
            // The caller may wait no longer.
            let _ = sender.send(writes.commit_alone(&file).await);
        };
        self.runtime.spawn("resend", Box::pin(resend));
        // Without an answer the runtime is ending.
        committed.await.unwrap_or(Err(Status::Jukebox))
    }

    /// Commits a file that no program has open any more, in a task, however long its server is silent.
    pub fn commit_in_time(self: &Rc<Self>, file: &Rc<FileWrites>) {
        if file.is_left.replace(true) {
            return;
        }
        let (writes, file) = (Rc::clone(self), Rc::clone(file));
        let commit = async move {
            while writes.commit(&file).await.is_err() {
                sleep(&writes.runtime, SILENCE_PAUSE).await;
            }
            file.is_left.set(false);
        };
        self.runtime.spawn("commit in time", Box::pin(commit));
    }

    /// The files with writes that the store has not answered or not confirmed, in the order in which they came.
    pub fn unfinished(&self) -> Vec<Rc<FileWrites>> {
        let mut files = self.files.all();
        files.retain(|file| !file.is_idle());
        files.sort_by_key(|file| file.age());
        files
    }

    /// Changes the kept writes of a file. Every change goes through here, since the sum over all files is updated by
    /// the difference. A change past it would leave `kept` wrong for ever.
    pub(super) fn keep<T>(&self, file: &FileWrites, change: impl FnOnce(&FileWrites) -> T) -> T {
        let before = file.bytes();
        let changed = change(file);
        self.kept.set(self.kept.get() + file.bytes() - before);
        changed
    }

    /// Keeps a write that the store has answered, until a COMMIT. A stable one is kept too while unstable ones are: a
    /// resend of an older overlapping write would undo it.
    pub(super) fn keep_written(&self, file: &FileWrites, write: KeptWrite, is_stable: bool) {
        if !is_stable || !file.is_empty() {
            self.keep(file, |file| file.keep(write));
        }
    }

    /// Commits the kept writes of a file that exceed one of the [`KeptBounds`](crate::limits::KeptBounds). The caller
    /// must not hold the file's `turn`, which the commit takes exclusively.
    ///
    /// A writer waits for the server of its own file only: where all files keep too much, the fullest is committed
    /// beside.
    pub(super) async fn bound_kept(self: &Rc<Self>, file: &Rc<FileWrites>) -> Result<(), Status> {
        self.commit_ahead(file);
        let is_full = self.kept.get() > self.bounds.all_max;
        if is_full {
            self.commit_fullest();
        }
        if is_full || file.bytes() > self.bounds.file_max {
            self.commit_kept(file).await?;
        }
        Ok(())
    }

    /// Commits the file with the most kept bytes of those that are not being committed like this, in a task.
    fn commit_fullest(self: &Rc<Self>) {
        let Some(file) = self.files.fullest() else {
            return;
        };
        file.is_relieved.set(true);
        let writes = Rc::clone(self);
        let commit = async move {
            // What a silent server holds stays for the next commit.
            let _ = writes.commit_kept(&file).await;
            file.is_relieved.set(false);
        };
        self.runtime.spawn("commit fullest", Box::pin(commit));
    }

    /// Starts a COMMIT beside the writes that follow, once [`KeptBounds::commit_ahead`](crate::limits::KeptBounds)
    /// bytes are kept, so that the disks work meanwhile.
    fn commit_ahead(self: &Rc<Self>, file: &Rc<FileWrites>) {
        let is_much = file.bytes() >= self.bounds.commit_ahead;
        if !is_much || file.committing.try_lock().is_err() {
            return;
        }
        let (writes, file) = (Rc::clone(self), Rc::clone(file));
        // No deadline applies: a resend that is cut short could still reach the server after newer bytes.
        let ahead = async move { writes.commit_beside(&file).await };
        self.runtime.spawn("commit ahead", Box::pin(ahead));
    }

    /// One COMMIT while writes go on; resends, if the server lost any, exclude writes.
    async fn commit_beside(&self, file: &Rc<FileWrites>) {
        let lost = match (file.committing.try_lock(), file.writer()) {
            (Ok(_committing), Some(writer)) => self.commit_once(file, &writer).await,
            _ => return,
        };
        // A failure is for the next commit that a caller waits for, which tries again.
        if lost.is_ok_and(|lost| lost > 0) {
            // `committing` is released by now. A task that holds `turn` waits for `committing` in `commit_alone`, so
            // waiting here for `turn` with `committing` held would be a deadlock.
            let _turn = file.turn.write().await;
            let _ = self.commit_alone(file).await;
        }
    }

    /// Sends one COMMIT; gives the number of writes to resend.
    async fn commit_once(&self, file: &FileWrites, writer: &Credentials) -> Result<usize, Status> {
        // Read before the request is sent: the COMMIT may not cover writes that end while it is under way.
        let asked = file.kept_ever();
        let done = self.vfs.commit(writer, file.handle(), 0, 0).await;
        self.replied(&done.result);
        // A file system reports a lost page once (fsync(2)), and the next COMMIT may succeed without it.
        let verifier = (done.result)
            .inspect_err(|_| file.commit_failed(asked))?
            .verifier;
        Ok(self.keep(file, |file| file.confirm(asked, verifier)))
    }

    /// Commits all kept writes, and resends lost ones. The caller holds `turn` exclusively.
    async fn commit_alone(&self, file: &Rc<FileWrites>) -> Result<(), Status> {
        // A COMMIT ahead that is still under way must not confirm a write that is being resent.
        let _committing = file.committing.lock().await;
        let mut resends = 0;
        while let Some(writer) = file.writer() {
            let lost = match self.commit_once(file, &writer).await {
                Ok(0) => break,
                Ok(lost) => lost,
                Err(status) => {
                    self.drop_refused(file, &writer, status)?;
                    continue;
                }
            };
            if resends >= RESENDS_MAX {
                tracing::error!("the server keeps losing what was written");
                self.drop_refused(file, &writer, Status::Io)?;
                continue;
            }
            tracing::info!(
                writes = lost,
                "the server lost unstable data: writing it again"
            );
            match self.resend(file, lost).await {
                Ok(()) => resends += 1,
                Err((writer, status)) => self.drop_refused(file, &writer, status)?,
            }
        }
        Ok(())
    }

    /// Resends the first `count` kept writes, in their order.
    ///
    /// # Errors
    /// The status of the first refused one, with its writer.
    async fn resend(
        &self,
        file: &Rc<FileWrites>,
        count: usize,
    ) -> Result<(), (Credentials, Status)> {
        for index in 0..count {
            let copy = file.with(index, |kept| {
                (kept.caller.clone(), kept.offset, kept.data().to_vec())
            });
            let Some((caller, offset, bytes)) = copy else {
                break;
            };
            let open = Description {
                file: Rc::clone(file),
                caller,
            };
            let (len, data) = (bytes.len(), Buffer::from_vec(bytes));
            let written = self.write_all(&open, offset, data, len, Stability::Unstable);
            match written.await {
                Ok((write, _)) => file.rewritten(index, write.verifier),
                Err(error) => return Err((open.caller, error.status)),
            }
        }
        Ok(())
    }

    /// Drops the kept bytes of a writer, since the server refused them; tells the writer's open descriptions.
    ///
    /// # Errors
    /// `Jukebox`: that is no answer, and nothing was dropped.
    fn drop_refused(
        &self,
        file: &Rc<FileWrites>,
        writer: &Credentials,
        status: Status,
    ) -> Result<(), Status> {
        if status == Status::Jukebox {
            return Err(status);
        }
        let before = file.bytes();
        self.keep(file, |file| file.drop_of(writer));
        self.tell(file, writer, before - file.bytes(), status);
        self.report_room(file);
        Ok(())
    }

    /// Tells the open descriptions of a writer, and the front end, that the server refused bytes.
    pub(super) fn tell(
        &self,
        file: &Rc<FileWrites>,
        writer: &Credentials,
        bytes: u64,
        status: Status,
    ) {
        let is_told = (self.descriptions.borrow_mut()).fail(file, writer, status);
        if !is_told {
            let uid = writer.uid;
            tracing::error!(uid, bytes, %status, "the server refused bytes of a closed file");
        }
        self.front.refused(file);
    }
}
