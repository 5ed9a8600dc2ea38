//! Writes whose answer waits for the store's.

use super::file::KeptWrite;
use super::{Description, FileWrites, FrontEnd, WriteBehind};
use gannet_runtime::Buffer;
use gannet_vfs::{Changed, Stability, Status, Vfs, Wcc, WriteDone};
use std::rc::Rc;

/// The error of a WRITE, with the memory of its bytes if the store gave it back.
pub(super) struct NotWritten {
    pub(super) status: Status,
    pub(super) memory: Option<Buffer>,
}

impl From<NotWritten> for Status {
    fn from(error: NotWritten) -> Status {
        error.status
    }
}

impl<V: Vfs, F: FrontEnd> WriteBehind<V, F> {
    /// Writes the first `len` bytes of `data` at `offset`, and keeps them until a COMMIT unless they are durable at
    /// once. Before a write with another stability than `Unstable`, the caller commits the file: a resend of earlier
    /// writes would overwrite it.
    ///
    /// # Errors
    /// The errors of the WRITE, or `Jukebox` if too much is kept and a server is silent.
    pub async fn write(
        self: &Rc<Self>,
        open: &Description,
        offset: u64,
        data: Buffer,
        len: usize,
        stability: Stability,
    ) -> Result<(), Status> {
        {
            // Shared with other writes and exclusive to a resend, which would otherwise overwrite these bytes with
            // older ones. It comes before the transfer's turn: a resend waits for all holders of it, and needs no turn
            // itself.
            let _writing = open.file.turn.read().await;
            let _turn = self.turns.take(len).await;
            let written = self.write_all(open, offset, data, len, stability);
            let (write, is_stable) = written.await?;
            self.keep_written(&open.file, write, is_stable);
        }
        self.bound_kept(&open.file).await
    }

    /// Writes the first `len` bytes of `data` at the end of a file, which the store decides, or this front end where
    /// the store does not. `size` asks for the size that the store has. `placed` is called with the offset.
    ///
    /// # Errors
    /// As [`WriteBehind::write`], and those of `size`.
    pub async fn append(
        self: &Rc<Self>,
        open: &Description,
        data: Buffer,
        len: usize,
        stability: Stability,
        size: impl AsyncFnOnce() -> Result<u64, Status>,
        placed: impl FnOnce(u64),
    ) -> Result<(), Status> {
        let file = &open.file;
        let offset = {
            let _alone = file.appending.lock().await;
            // As in `write`: a resend must not run beside it.
            let _writing = file.turn.read().await;
            let _turn = self.turns.take(len).await;
            let (write, is_stable) = if self.vfs.is_coordinated() {
                let end = file.end();
                self.append_there(open, end, data, len, stability).await?
            } else {
                let end = size().await?.max(file.end());
                let written = self.write_all(open, end, data, len, stability);
                written.await?
            };
            let offset = write.offset;
            self.keep_written(file, write, is_stable);
            offset
        };
        placed(offset);
        self.bound_kept(&open.file).await
    }

    /// Appends where the store decides the offset, at `end` or further: bytes up to there are on their way.
    async fn append_there(
        &self,
        open: &Description,
        end: u64,
        data: Buffer,
        len: usize,
        stability: Stability,
    ) -> Result<(KeptWrite, bool), Status> {
        let (vfs, handle) = (&self.vfs, open.file.handle());
        let appended = vfs.append(&open.caller, handle, end, data, len, stability);
        let (done, buffer) = appended.await;
        self.replied(&done);
        let (offset, done) = done?;
        self.front.changed(&open.file, &Wcc::default());
        let write = KeptWrite {
            offset,
            buffer,
            len,
            caller: open.caller.clone(),
            verifier: Some(done.verifier),
        };
        Ok((write, done.committed != Stability::Unstable))
    }

    /// Writes the first `len` bytes of `data`; servers may take less at a time. Gives the write to keep, and true if it
    /// needs no COMMIT.
    ///
    /// # Errors
    /// The status of the reply, with the memory if the store gave it back.
    pub(super) async fn write_all(
        &self,
        open: &Description,
        offset: u64,
        data: Buffer,
        len: usize,
        stability: Stability,
    ) -> Result<(KeptWrite, bool), NotWritten> {
        let (vfs, caller, handle) = (&self.vfs, &open.caller, open.file.handle());
        let first = vfs.write_and_return(caller, handle, offset, data, 0..len, stability);
        let (written, memory) = first.await;
        let outcome = match self.written(&open.file, &written) {
            Ok(outcome) => outcome,
            Err(status) => return Err(NotWritten { status, memory }),
        };
        let no_memory = NotWritten {
            status: Status::Io,
            memory: None,
        };
        let mut write = KeptWrite {
            offset,
            buffer: memory.ok_or(no_memory)?,
            len,
            caller: open.caller.clone(),
            verifier: Some(outcome.verifier),
        };
        let mut is_stable = outcome.committed != Stability::Unstable;
        let mut done = outcome.count as usize;
        while done < len {
            let rest = write.data().get(done..).unwrap_or_default().to_vec();
            let (at, range) = (offset.saturating_add(done as u64), 0..rest.len());
            let rest = Buffer::from_vec(rest);
            let written = vfs.write(caller, handle, at, rest, range, stability).await;
            let outcome = match self.written(&open.file, &written) {
                Ok(outcome) => outcome,
                Err(status) => {
                    let memory = Some(write.buffer);
                    return Err(NotWritten { status, memory });
                }
            };
            // Parts with different verifiers were written in two incarnations: no COMMIT can confirm the whole.
            write.verifier = write.verifier.filter(|it| *it == outcome.verifier);
            is_stable &= outcome.committed != Stability::Unstable;
            done += outcome.count as usize;
        }
        Ok((write, is_stable))
    }

    /// The outcome of a WRITE of at least one byte, reported to the front end.
    ///
    /// # Errors
    /// The status of the reply, or `Io` for a reply that no byte was written.
    fn written(
        &self,
        file: &FileWrites,
        written: &Changed<WriteDone>,
    ) -> Result<WriteDone, Status> {
        self.replied(&written.result);
        let outcome = written.result?;
        self.front.changed(file, &written.wcc);
        match outcome.count {
            0 => Err(Status::Io),
            _ => Ok(outcome),
        }
    }
}
