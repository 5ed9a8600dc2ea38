//! Reads, writes and commits of file data.

use super::Mounted;
use crate::limits::RESENDS_MAX;
use crate::session::{Caching, Closing};
use crate::status::errno;
use fuser::Errno;
use gannet_client::write_behind::{Description, FileWrites, KeptWrite, Runs};
use gannet_runtime::file::read_cold;
use gannet_runtime::{Buffer, FileRef};
use gannet_vfs::{Changed, Credentials, FileHandle, Stability, Status, Verifier, Vfs, WriteDone};
use std::io;
use std::rc::Rc;

/// The bytes of a reply to READ.
pub(crate) enum Data {
    /// `len` bytes from `offset` on of a file that lies in memory; the reference keeps them there until the reply.
    InMemory(FileRef, u64, usize),
    /// A copy in its first `len` bytes.
    Copied(Vec<u8>, usize),
}

impl Data {
    pub(crate) fn bytes(&self) -> &[u8] {
        match self {
            Data::InMemory(file, offset, len) => file.memory(*offset, *len).unwrap_or_default(),
            Data::Copied(bytes, len) => bytes.get(..*len).unwrap_or(bytes),
        }
    }
}

impl<V: Vfs> Mounted<V> {
    pub(crate) fn open_file(&self, key: u64) -> Result<Description, Errno> {
        let open = self.descriptions.borrow();
        open.get(key).cloned().ok_or(Errno::EBADF)
    }

    pub(crate) async fn read(
        self: &Rc<Self>,
        key: u64,
        offset: u64,
        count: u32,
    ) -> Result<Data, Errno> {
        let file = self.open_file(key)?;
        self.drain(file.file.number()).await?;
        let handle = self.handle(file.file.number())?;
        let _turn = self.turns.take(count as usize).await;
        let read = self.vfs.read(&file.caller, &handle, offset, count).await;
        let read = read.map_err(errno)?;
        let len = read.count as usize;
        if read.file.memory(offset, len).is_some() {
            return Ok(Data::InMemory(read.file, offset, len));
        }
        let mut bytes = vec![0; len];
        match read.file.try_read_at(offset, &mut bytes) {
            Ok(count) if count == len => Ok(Data::Copied(bytes, len)),
            Ok(_) => self.read_slowly(read.file, offset, bytes).await,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                self.read_slowly(read.file, offset, bytes).await
            }
            Err(error) => Err(Errno::from(error)),
        }
    }

    async fn read_slowly(&self, file: FileRef, offset: u64, bytes: Vec<u8>) -> Result<Data, Errno> {
        let (bytes, len) = read_cold(&self.runtime, file, offset, bytes).await?;
        Ok(Data::Copied(bytes, len))
    }

    /// Takes the set-uid and set-gid bits from an open file, for a program without root's rights that wrote to it.
    pub(crate) async fn take_set_id(&self, key: u64) -> Result<(), Errno> {
        let file = self.open_file(key)?;
        if file.caller.uid != 0 {
            return Ok(());
        }
        let handle = self.handle(file.file.number())?;
        let attributes = self.attributes(&handle).await?;
        let taken = self.without_set_id(&file.caller, &handle, attributes);
        taken.await.map(|_| ())
    }

    /// Writes the first `len` bytes of `data` at `offset`, and keeps them until a COMMIT unless they are durable at
    /// once. Where the kernel caches, a write that need not be durable leaves behind the answer.
    ///
    /// # Errors
    /// The errors of the WRITE, or of an earlier one of the same open file that left behind its answer.
    pub(crate) async fn write(
        self: &Rc<Self>,
        key: u64,
        offset: u64,
        data: Buffer,
        len: usize,
        stability: Stability,
    ) -> Result<u32, Errno> {
        let file = self.open_file(key)?;
        let (handle, unstable) = (*file.file.handle(), Rc::clone(&file.file));
        if stability != Stability::Unstable {
            // Earlier writes are committed first: a resend of them would overwrite this one.
            self.commit(file.file.number(), &file.caller).await?;
        }
        self.take_failure(key)?;
        if stability == Stability::Unstable && self.options.caching == Caching::Cached {
            self.room_behind(&unstable).await;
            self.add_behind(&file, offset, data, len);
            return u32::try_from(len).map_err(|_| Errno::EINVAL);
        }
        {
            // Shared with other writes and exclusive to a resend, which would otherwise overwrite these bytes with
            // older ones. It comes before the transfer's turn: a resend waits for all holders of it, and needs no turn
            // itself.
            let _writing = unstable.turn.read().await;
            let _turn = self.turns.take(len).await;
            let written = self.write_all(&file, &handle, offset, data, len, stability);
            let (write, is_stable) = written.await.map_err(errno)?;
            self.keep_written(&unstable, write, is_stable);
        }
        self.bound_kept(&file, &unstable).await.map_err(errno)?;
        u32::try_from(len).map_err(|_| Errno::EINVAL)
    }

    /// Commits kept writes that exceed a bound of the mount's [`KeptBounds`](crate::limits::KeptBounds). The caller
    /// must not hold the file's `turn`, which the commit takes exclusively.
    pub(super) async fn bound_kept(
        self: &Rc<Self>,
        file: &Description,
        unstable: &Rc<FileWrites>,
    ) -> Result<(), Status> {
        self.commit_ahead(file, unstable);
        if unstable.bytes() > self.bounds.file_max {
            self.commit_kept(file.file.number(), &file.caller).await?;
        }
        while self.kept.get() > self.bounds.all_max {
            if !self.commit_fullest(file).await? {
                break;
            }
        }
        Ok(())
    }

    /// Writes the first `len` bytes of `data`; servers may take less at a time. Gives the write to keep, and true if it
    /// needs no COMMIT.
    pub(super) async fn write_all(
        &self,
        file: &Description,
        handle: &FileHandle,
        offset: u64,
        data: Buffer,
        len: usize,
        stability: Stability,
    ) -> Result<(KeptWrite, bool), Status> {
        let (vfs, caller) = (&self.vfs, &file.caller);
        let first = vfs.write_and_return(caller, handle, offset, data, 0..len, stability);
        let (written, memory) = first.await;
        let outcome = self.written(file, &written)?;
        let mut write = KeptWrite {
            offset,
            buffer: memory.ok_or(Status::Io)?,
            len,
            verifier: Some(outcome.verifier),
        };
        let mut is_stable = outcome.committed != Stability::Unstable;
        let mut done = outcome.count as usize;
        while done < len {
            let rest = write.data().get(done..).unwrap_or_default().to_vec();
            let (at, range) = (offset.saturating_add(done as u64), 0..rest.len());
            let rest = Buffer::from_vec(rest);
            let written = vfs.write(caller, handle, at, rest, range, stability).await;
            let outcome = self.written(file, &written)?;
            // Parts with different verifiers were written in two incarnations: no COMMIT can confirm the whole.
            write.verifier = write.verifier.filter(|it| *it == outcome.verifier);
            is_stable &= outcome.committed != Stability::Unstable;
            done += outcome.count as usize;
        }
        Ok((write, is_stable))
    }

    /// The outcome of a WRITE of at least one byte, noted in the inode table.
    ///
    /// # Errors
    /// The status of the reply, or `Io` for a reply that no byte was written.
    fn written(
        &self,
        file: &Description,
        written: &Changed<WriteDone>,
    ) -> Result<WriteDone, Status> {
        let outcome = written.result?;
        (self.inodes.borrow_mut()).own_change(file.file.number(), &written.wcc);
        match outcome.count {
            0 => Err(Status::Io),
            _ => Ok(outcome),
        }
    }

    /// Changes the kept writes of a file. Every change goes through here, since the sum over all files is updated by
    /// the difference. A change past it would leave `kept` wrong until the mount ends.
    pub(super) fn keep<T>(
        &self,
        unstable: &FileWrites,
        change: impl FnOnce(&FileWrites) -> T,
    ) -> T {
        let before = unstable.bytes();
        let changed = change(unstable);
        self.kept.set(self.kept.get() + unstable.bytes() - before);
        changed
    }

    /// Keeps a write that the store has answered, until a COMMIT. A stable one is kept too while unstable ones are: a
    /// resend of an older overlapping write would undo it.
    pub(super) fn keep_written(&self, unstable: &FileWrites, write: KeptWrite, is_stable: bool) {
        if !is_stable || !unstable.is_empty() {
            self.keep(unstable, |unstable| unstable.keep(write));
        }
    }

    /// Drops the writes of a file that are kept, and those that the store has not seen; gives their bytes.
    pub(super) fn drop_kept(&self, number: u64) -> u64 {
        let unstable = self.known_unstable(number).ok().flatten();
        unstable.map_or(0, |unstable| {
            let before = self.behind.get();
            self.change_behind(&unstable, Runs::drop_waiting);
            self.keep(&unstable, FileWrites::clear) + before - self.behind.get()
        })
    }

    /// Makes the writes of a file durable, and resends those that the server lost in a restart.
    ///
    /// A refusal (no space, no right any more) drops the kept writes, and this call alone returns the error. When the
    /// server does not answer, the caller's deadline drops this future, and the writes stay for the next attempt.
    async fn commit_kept(&self, number: u64, caller: &Credentials) -> Result<(), Status> {
        let known = self.with_inode(number, |inode| {
            (inode.handle, inode.unstable().map(Rc::clone))
        });
        let (handle, unstable) = known.map_err(|_| Status::Stale)?;
        let Some(unstable) = unstable else {
            return Ok(());
        };
        if unstable.is_empty() && unstable.committing.try_lock().is_ok() {
            return Ok(());
        }
        let file = Description {
            file: Rc::clone(&unstable),
            caller: caller.clone(),
        };
        // Exclusive: a write during the resend could be overwritten by the older bytes that are sent again.
        let _turn = unstable.turn.write().await;
        let committed = self.commit_alone(&file, &handle, &unstable).await;
        if committed.is_err() {
            self.keep(&unstable, FileWrites::clear);
        }
        committed
    }

    /// As [`Mounted::commit_kept`], after the store has answered all writes of the file. It also reports, once, an
    /// error that a writer of another file caused to be recorded.
    ///
    /// # Errors
    /// As [`Mounted::commit_kept`].
    pub(crate) async fn commit(
        self: &Rc<Self>,
        number: u64,
        caller: &Credentials,
    ) -> Result<(), Errno> {
        self.drain(number).await?;
        self.commit_kept(number, caller).await.map_err(errno)?;
        let unstable = self.known_unstable(number)?;
        let refused = unstable.and_then(|unstable| unstable.refused.take());
        refused.map_or(Ok(()), |status| Err(errno(status)))
    }

    /// As [`Mounted::commit`], with the credentials of the open file `key`, whose program also learns why earlier
    /// writes failed.
    pub(crate) async fn sync(self: &Rc<Self>, number: u64, key: u64) -> Result<(), Errno> {
        let caller = self.open_file(key)?.caller;
        let committed = self.commit(number, &caller).await;
        self.take_failure(key)?;
        committed
    }

    /// As [`Mounted::sync`], for a close(2). With [`Closing::Async`] the last close sends what is kept, and no program
    /// waits.
    pub(crate) async fn flush(self: &Rc<Self>, number: u64, key: u64) -> Result<(), Errno> {
        match self.options.closing {
            Closing::Sync => self.sync(number, key).await,
            Closing::Async => self.take_failure(key),
        }
    }

    /// Tells the program of an open file, once, why bytes that it wrote did not reach the store.
    pub(super) fn take_failure(&self, key: u64) -> Result<(), Errno> {
        let failure = self.descriptions.borrow_mut().take_failure(key);
        failure.map_or(Ok(()), |status| Err(errno(status)))
    }

    /// Starts a COMMIT beside the writes that follow, once [`KeptBounds::commit_ahead`](crate::limits::KeptBounds)
    /// bytes are kept, so that the disks work meanwhile.
    fn commit_ahead(self: &Rc<Self>, file: &Description, unstable: &Rc<FileWrites>) {
        let is_much = unstable.bytes() >= self.bounds.commit_ahead;
        if !is_much || unstable.committing.try_lock().is_err() {
            return;
        }
        let (mounted, file, unstable) = (Rc::clone(self), file.clone(), Rc::clone(unstable));
        let ahead = async move {
            // A failure is reported by the next commit that a caller waits for, which tries again. No deadline applies:
            // a resend that is cut short could still reach the server after newer bytes.
            let _ = mounted.commit_beside(&file, &unstable).await;
        };
        self.runtime.spawn("commit ahead", Box::pin(ahead));
    }

    /// One COMMIT while writes go on; resends, if the server lost any, exclude writes.
    async fn commit_beside(&self, file: &Description, unstable: &FileWrites) -> Result<(), Status> {
        let handle = self.handle(file.file.number()).map_err(|_| Status::Stale)?;
        let lost = match unstable.committing.try_lock() {
            Ok(_committing) => self.commit_once(file, &handle, unstable).await?,
            Err(_) => return Ok(()),
        };
        if lost > 0 {
            // `committing` is released by now. A task that holds `turn` waits for `committing` in `commit_alone`, so
            // waiting here for `turn` with `committing` held would be a deadlock.
            let _turn = unstable.turn.write().await;
            self.commit_alone(file, &handle, unstable).await?;
        }
        Ok(())
    }

    /// Sends one COMMIT; gives the number of writes to resend.
    async fn commit_once(
        &self,
        file: &Description,
        handle: &FileHandle,
        unstable: &FileWrites,
    ) -> Result<usize, Status> {
        // Read before the request is sent: the COMMIT may not cover writes that end while it is under way.
        let asked = unstable.kept_ever();
        let done = self.vfs.commit(&file.caller, handle, 0, 0).await;
        // A file system reports a lost page once (fsync(2)), and the next COMMIT may succeed without it.
        let verifier = (done.result)
            .inspect_err(|_| unstable.commit_failed(asked))?
            .verifier;
        Ok(self.keep(unstable, |unstable| unstable.confirm(asked, verifier)))
    }

    /// Commits all kept writes, and resends lost ones. The caller holds `turn` exclusively.
    async fn commit_alone(
        &self,
        file: &Description,
        handle: &FileHandle,
        unstable: &FileWrites,
    ) -> Result<(), Status> {
        // A COMMIT ahead that is still under way must not confirm a write that is being resent.
        let _committing = unstable.committing.lock().await;
        let mut resends = 0;
        while !unstable.is_empty() {
            let lost = self.commit_once(file, handle, unstable).await?;
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
                let verifier = self.rewrite(file, handle, unstable, index).await?;
                unstable.rewritten(index, verifier);
            }
        }
        Ok(())
    }

    /// Resends one kept write; gives the verifier of the incarnation that took it.
    async fn rewrite(
        &self,
        file: &Description,
        handle: &FileHandle,
        unstable: &FileWrites,
        index: usize,
    ) -> Result<Option<Verifier>, Status> {
        let copy = unstable.with(index, |kept| (kept.offset, kept.data().to_vec()));
        let (offset, bytes) = copy.ok_or(Status::Io)?;
        let (len, data) = (bytes.len(), Buffer::from_vec(bytes));
        let written = self.write_all(file, handle, offset, data, len, Stability::Unstable);
        let (write, _) = written.await?;
        Ok(write.verifier)
    }

    /// Commits the file with the most kept bytes, for a writer of `file`; false if no file has any.
    ///
    /// # Errors
    /// The errors of `file` itself. An error of another file is recorded there, and the next sync of that file reports
    /// it.
    async fn commit_fullest(&self, file: &Description) -> Result<bool, Status> {
        // The block ends the borrow of the table before the commit awaits.
        let fullest = {
            let inodes = self.inodes.borrow();
            let kept = inodes.all().map(|(number, inode)| {
                let writer = inode.writer.clone();
                let bytes = inode.unstable().map_or(0, |unstable| unstable.bytes());
                (bytes, number, writer)
            });
            kept.max_by_key(|(bytes, ..)| *bytes)
        };
        let Some((_, number, writer)) = fullest.filter(|(bytes, ..)| *bytes > 0) else {
            return Ok(false);
        };
        let unstable = self.unstable(number).map_err(|_| Status::Stale)?;
        let writer = writer.as_deref().unwrap_or(&file.caller);
        match self.commit_kept(number, writer).await {
            Err(status) if number != file.file.number() => unstable.refused.set(Some(status)),
            committed => committed?,
        }
        Ok(true)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::limits::COMMIT_AHEAD;
    use crate::mounted::IfThere;
    use crate::session::{Caching, Closing, Locks, MountOptions};
    use gannet_localfs::{LocalOptions, LocalStore, LocalTree};
    use gannet_runtime::{timeout, tokio_plug};
    use std::path::Path;
    use std::time::Duration;

    /// The kernel's number of the root.
    const ROOT: u64 = 1;

    /// Has `story` done on a mounted directory, with the key of an empty file in it.
    fn on_a_file(caching: Caching, story: impl AsyncFnOnce(&Path, Rc<Mounted<LocalStore>>, u64)) {
        on_a_file_with_age(caching, Duration::from_secs(1), story);
    }

    /// As [`on_a_file`], with another age of the cache.
    pub(in super::super) fn on_a_file_with_age(
        caching: Caching,
        cache_age: Duration,
        story: impl AsyncFnOnce(&Path, Rc<Mounted<LocalStore>>, u64),
    ) {
        let share = tempfile::tempdir().unwrap();
        let done = tokio_plug::block_on(async |runtime| {
            let tree = LocalTree::open(share.path(), &LocalOptions::default()).unwrap();
            let store = LocalStore::new(tree, runtime.clone());
            let root = store.root();
            let (uid, gid) = (rustix::process::geteuid(), rustix::process::getegid());
            let caller = Credentials::new(uid.as_raw(), gid.as_raw(), &[]);
            let options = MountOptions {
                source: String::from("share"),
                caching,
                read_only: false,
                no_exec: false,
                allow_other: false,
                caller: Some(caller.clone()),
                cache_age,
                locks: Locks::Local,
                closing: Closing::Sync,
                deadline: Duration::from_secs(60),
            };
            let mounted = Rc::new(Mounted::new(runtime, Rc::new(store), root, options));
            let made = mounted.create(&caller, ROOT, b"file", 0o644, IfThere::Refuse);
            let (_, key) = made.await.unwrap();
            story(share.path(), mounted, key).await;
        });
        done.unwrap();
    }

    #[test]
    fn writes_that_are_durable_at_once_are_not_kept() {
        on_a_file(Caching::Direct, async |_, mounted, key| {
            let write = async |offset, stability| {
                let data = Buffer::from_vec(vec![7; 5000]);
                let written = mounted.write(key, offset, data, 5000, stability);
                assert_eq!(written.await, Ok(5000));
                mounted.kept.get()
            };
            assert_eq!(write(0, Stability::FileSync).await, 0);
            assert_eq!(write(100, Stability::Unstable).await, 5000);
            assert_eq!(write(5000, Stability::Unstable).await, 10_000);
            // It commits the earlier writes first: a resend of them would overwrite it.
            assert_eq!(write(3000, Stability::DataSync).await, 0);
        });
    }

    #[test]
    fn a_sync_reports_the_refusal_of_an_earlier_commit_once() {
        on_a_file(Caching::Direct, async |_, mounted, key| {
            let number = mounted.open_file(key).unwrap().file.number();
            let unstable = mounted.unstable(number);
            unstable.unwrap().refused.set(Some(Status::Nospc));
            let data = Buffer::from_vec(vec![7; 5000]);
            let written = mounted.write(key, 0, data, 5000, Stability::Unstable);
            assert_eq!(written.await, Ok(5000));
            // A writer of another file gets no error, and its loop ends.
            let file = Description {
                file: mounted.unstable(ROOT).unwrap(),
                caller: mounted.open_file(key).unwrap().caller,
            };
            assert_eq!(mounted.commit_fullest(&file).await, Ok(true));
            assert_eq!(mounted.commit_fullest(&file).await, Ok(false));
            assert_eq!(mounted.sync(number, key).await, Err(Errno::ENOSPC));
            assert_eq!(mounted.sync(number, key).await, Ok(()));
        });
    }

    #[test]
    fn a_cached_write_is_there_for_reads_sizes_and_syncs_of_this_mount() {
        on_a_file(Caching::Cached, async |share, mounted, key| {
            let number = mounted.open_file(key).unwrap().file.number();
            for offset in 0..100 {
                let data = Buffer::from_vec(vec![offset as u8; 10]);
                let written = mounted.write(key, 10 * offset, data, 10, Stability::Unstable);
                assert_eq!(written.await, Ok(10));
            }
            assert!(mounted.behind.get() > 0, "it left behind the answers");
            let attributes = mounted.attr_of(number, 1).await.unwrap();
            assert_eq!((attributes.size, mounted.behind.get()), (1000, 0));
            let read = mounted.read(key, 990, 100).await.unwrap();
            assert_eq!(read.bytes(), [99; 10]);
            assert_eq!(mounted.sync(number, key).await, Ok(()));
            assert_eq!(std::fs::read(share.join("file")).unwrap().len(), 1000);
        });
    }

    #[test]
    fn the_window_of_a_file_is_open_while_there_is_room_and_nothing_to_tell() {
        on_a_file(Caching::Cached, async |share, mounted, key| {
            let file = mounted.open_file(key).unwrap();
            let number = file.file.number();
            assert!(!mounted.windows.is_open(number), "nothing was written yet");
            let write = async |offset, len: usize| {
                let data = Buffer::from_vec(vec![7; len]);
                let written = mounted.write(key, offset, data, len, Stability::Unstable);
                assert_eq!(written.await, Ok(len as u32));
                mounted.windows.is_open(number)
            };
            assert!(write(0, 10).await);
            // The session's thread answers the next ones.
            mounted.keep_answered(key, 10, Buffer::from_vec(vec![8; 10]), 10);
            assert!(mounted.windows.is_open(number));
            assert!(!write(20, 9 << 20).await, "much waits for the store");
            assert_eq!(mounted.sync(number, key).await, Ok(()));
            assert!(mounted.windows.is_open(number));
            assert_eq!(std::fs::read(share.join("file")).unwrap()[10..20], [8; 10]);
            let told =
                (mounted.descriptions.borrow_mut()).fail(&file.file, &file.caller, Status::Nospc);
            assert!(told);
            mounted.keep_answered(key, 0, Buffer::from_vec(vec![9; 10]), 10);
            assert!(!mounted.windows.is_open(number), "a failure is to be told");
            assert_eq!(mounted.sync(number, key).await, Err(Errno::ENOSPC));
            assert!(write(0, 10).await);
            mounted.close(key).await;
            assert!(!mounted.windows.is_open(number));
        });
    }

    #[test]
    fn a_refused_write_is_told_once_and_changes_nothing() {
        on_a_file(Caching::Cached, async |share, mounted, key| {
            let file = mounted.open_file(key).unwrap();
            let other = Description {
                file: Rc::clone(&file.file),
                caller: Credentials::new(54321, 54321, &[]),
            };
            let stranger = mounted.open.borrow_mut().next();
            mounted.descriptions.borrow_mut().open(stranger, other);
            let data = Buffer::from_vec(vec![7; 5000]);
            let written = mounted.write(stranger, 0, data, 5000, Stability::Unstable);
            assert_eq!(written.await, Ok(5000));
            // The writer's own open file succeeds; the stranger is told.
            assert_eq!(mounted.sync(file.file.number(), key).await, Ok(()));
            let refused = if gannet_testing::is_root() {
                Err(Errno::EACCES)
            } else {
                Ok(())
            };
            assert_eq!(mounted.sync(file.file.number(), stranger).await, refused);
            assert_eq!(mounted.sync(file.file.number(), stranger).await, Ok(()));
            let len = std::fs::read(share.join("file")).unwrap().len();
            assert_eq!(len == 0, gannet_testing::is_root());
        });
    }

    #[test]
    fn many_kept_bytes_are_committed_without_a_sync() {
        on_a_file(Caching::Direct, async |_, mounted, key| {
            const LEN: u64 = 1 << 20;
            for place in 0..COMMIT_AHEAD / LEN {
                let data = Buffer::from_vec(vec![7; LEN as usize]);
                let (offset, len) = (place * LEN, LEN as usize);
                let written = mounted.write(key, offset, data, len, Stability::Unstable);
                assert_eq!(written.await, Ok(LEN as u32));
            }
            let all_durable = async {
                while mounted.kept.get() > 0 {
                    gannet_runtime::yield_now().await;
                }
            };
            let durable = timeout(&mounted.runtime, Duration::from_secs(60), all_durable);
            assert!(durable.await.is_ok());
        });
    }
}
