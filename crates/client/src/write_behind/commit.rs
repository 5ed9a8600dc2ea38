//! Commits of the writes that the store has answered, and resends of those that it lost.

use super::file::KeptWrite;
use super::{Description, FileWrites, FrontEnd, WriteBehind};
use crate::limits::RESENDS_MAX;
use gannet_runtime::Buffer;
use gannet_vfs::{Credentials, Stability, Status, Verifier, Vfs};
use std::rc::Rc;

impl<V: Vfs, F: FrontEnd> WriteBehind<V, F> {
    /// Makes the writes of a file durable, after the store has answered all of them so far, and resends those that the
    /// server lost in a restart.
    ///
    /// # Errors
    /// A refusal (no space, no right any more) drops the kept writes, and this call alone returns it. An error that a
    /// writer of another file caused to be recorded is returned once.
    ///
    /// When the server does not answer, the caller's deadline drops this future, and the writes stay for the next
    /// attempt.
    pub async fn commit(
        self: &Rc<Self>,
        file: &Rc<FileWrites>,
        caller: &Credentials,
    ) -> Result<(), Status> {
        self.drain(file).await;
        self.commit_kept(file, caller).await?;
        file.refused.take().map_or(Ok(()), Err)
    }

    /// As [`WriteBehind::commit`], of the writes that the store has answered.
    async fn commit_kept(&self, file: &Rc<FileWrites>, caller: &Credentials) -> Result<(), Status> {
        if file.is_empty() && file.committing.try_lock().is_ok() {
            return Ok(());
        }
        let open = Description {
            file: Rc::clone(file),
            caller: caller.clone(),
        };
        // Exclusive: a write during the resend could be overwritten by the older bytes that are sent again.
        let _turn = file.turn.write().await;
        let committed = self.commit_alone(&open).await;
        if committed.is_err() {
            self.keep(file, FileWrites::clear);
        }
        committed
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

    /// Commits kept writes that exceed one of the [`KeptBounds`](crate::limits::KeptBounds). The caller must not hold
    /// the file's `turn`, which the commit takes exclusively.
    pub(super) async fn bound_kept(self: &Rc<Self>, open: &Description) -> Result<(), Status> {
        self.commit_ahead(open);
        if open.file.bytes() > self.bounds.file_max {
            self.commit_kept(&open.file, &open.caller).await?;
        }
        while self.kept.get() > self.bounds.all_max {
            if !self.commit_fullest(open).await? {
                break;
            }
        }
        Ok(())
    }

    /// Starts a COMMIT beside the writes that follow, once [`KeptBounds::commit_ahead`](crate::limits::KeptBounds)
    /// bytes are kept, so that the disks work meanwhile.
    fn commit_ahead(self: &Rc<Self>, open: &Description) {
        let is_much = open.file.bytes() >= self.bounds.commit_ahead;
        if !is_much || open.file.committing.try_lock().is_err() {
            return;
        }
        let (writes, open) = (Rc::clone(self), open.clone());
        let ahead = async move {
            // A failure is reported by the next commit that a caller waits for, which tries again. No deadline applies:
            // a resend that is cut short could still reach the server after newer bytes.
            let _ = writes.commit_beside(&open).await;
        };
        self.runtime.spawn("commit ahead", Box::pin(ahead));
    }

    /// One COMMIT while writes go on; resends, if the server lost any, exclude writes.
    async fn commit_beside(&self, open: &Description) -> Result<(), Status> {
        let lost = match open.file.committing.try_lock() {
            Ok(_committing) => self.commit_once(open).await?,
            Err(_) => return Ok(()),
        };
        if lost > 0 {
            // `committing` is released by now. A task that holds `turn` waits for `committing` in `commit_alone`, so
            // waiting here for `turn` with `committing` held would be a deadlock.
            let _turn = open.file.turn.write().await;
            self.commit_alone(open).await?;
        }
        Ok(())
    }

    /// Sends one COMMIT; gives the number of writes to resend.
    async fn commit_once(&self, open: &Description) -> Result<usize, Status> {
        let file = &open.file;
        // Read before the request is sent: the COMMIT may not cover writes that end while it is under way.
        let asked = file.kept_ever();
        let done = self.vfs.commit(&open.caller, file.handle(), 0, 0).await;
        // A file system reports a lost page once (fsync(2)), and the next COMMIT may succeed without it.
        let verifier = (done.result)
            .inspect_err(|_| file.commit_failed(asked))?
            .verifier;
        Ok(self.keep(file, |file| file.confirm(asked, verifier)))
    }

    /// Commits all kept writes, and resends lost ones. The caller holds `turn` exclusively.
    async fn commit_alone(&self, open: &Description) -> Result<(), Status> {
        let file = &open.file;
        // A COMMIT ahead that is still under way must not confirm a write that is being resent.
        let _committing = file.committing.lock().await;
        let mut resends = 0;
        while !file.is_empty() {
            let lost = self.commit_once(open).await?;
            if lost == 0 {
                break;
            }
            resends += 1;
            if resends > RESENDS_MAX {
                tracing::error!("the server keeps losing what was written");
                return Err(Status::Io);
            }
            tracing::info!(
                writes = lost,
                "the server lost unstable data: writing it again"
            );
            for index in 0..lost {
                let verifier = self.rewrite(open, index).await?;
                file.rewritten(index, verifier);
            }
        }
        Ok(())
    }

    /// Resends one kept write; gives the verifier of the incarnation that took it.
    async fn rewrite(&self, open: &Description, index: usize) -> Result<Option<Verifier>, Status> {
        let copy = (open.file).with(index, |kept| (kept.offset, kept.data().to_vec()));
        let (offset, bytes) = copy.ok_or(Status::Io)?;
        let (len, data) = (bytes.len(), Buffer::from_vec(bytes));
        let written = self.write_all(open, offset, data, len, Stability::Unstable);
        let (write, _) = written.await?;
        Ok(write.verifier)
    }

    /// Commits the file with the most kept bytes, for a writer of another one; false if no file has any.
    ///
    /// # Errors
    /// The errors of the writer's own file. An error of another file is recorded there, and the next sync of that file
    /// reports it.
    async fn commit_fullest(&self, open: &Description) -> Result<bool, Status> {
        let Some(fullest) = self.files.fullest() else {
            return Ok(false);
        };
        let writer = fullest.writer().unwrap_or_else(|| open.caller.clone());
        match self.commit_kept(&fullest, &writer).await {
            Err(status) if !Rc::ptr_eq(&fullest, &open.file) => fullest.refused.set(Some(status)),
            committed => committed?,
        }
        Ok(true)
    }
}
