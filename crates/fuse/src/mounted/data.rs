//! Reads, writes and commits of file data.

use super::Mounted;
use crate::session::{Caching, Closing};
use crate::status::errno;
use fuser::Errno;
use gannet_client::write_behind::Description;
use gannet_runtime::file::read_cold;
use gannet_runtime::{Buffer, FileRef};
use gannet_vfs::{Stability, Vfs};
use std::io;

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
        let open = self.writes.descriptions.borrow();
        open.get(key).cloned().ok_or(Errno::EBADF)
    }

    pub(crate) async fn read(&self, key: u64, offset: u64, count: u32) -> Result<Data, Errno> {
        let Description { file, caller } = self.open_file(key)?;
        self.writes.drain(&file).await.map_err(errno)?;
        let _turn = self.writes.turns().take(count as usize).await;
        let read = self.vfs.read(&caller, file.handle(), offset, count).await;
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
    /// Servers take them by themselves unless root opened it. The kernel would show them for the age of attributes.
    pub(crate) async fn take_set_id(&self, key: u64) -> Result<(), Errno> {
        let Description { file, caller } = self.open_file(key)?;
        let number = file.number();
        if self.with_inode(number, |inode| inode.sets_id)? {
            self.pages.drop_attributes(number).await;
        }
        if caller.uid != 0 {
            return Ok(());
        }
        let attributes = self.attributes(file.handle()).await?;
        let taken = self.without_set_id(&caller, file.handle(), attributes);
        taken.await.map(|_| ())
    }

    /// Writes the first `len` bytes of `data` at `offset`, and keeps them until a COMMIT unless they are durable at
    /// once. Where the kernel caches, a write that need not be durable leaves behind the answer.
    ///
    /// # Errors
    /// The errors of the WRITE, or of an earlier one of the same open file that left behind its answer.
    pub(crate) async fn write(
        &self,
        key: u64,
        offset: u64,
        data: Buffer,
        len: usize,
        stability: Stability,
    ) -> Result<u32, Errno> {
        let open = self.open_file(key)?;
        if stability != Stability::Unstable {
            // Earlier writes are committed first: a resend of them would overwrite this one.
            let committed = self.writes.commit(&open.file).await;
            committed.map_err(errno)?;
        }
        self.take_failure(key)?;
        if stability == Stability::Unstable && self.options.caching == Caching::Cached {
            let kept = self.writes.write_behind(&open, offset, data, len);
            kept.await.map_err(errno)?;
        } else {
            let written = self.writes.write(&open, offset, data, len, stability);
            written.await.map_err(errno)?;
        }
        u32::try_from(len).map_err(|_| Errno::EINVAL)
    }

    /// Keeps a write that the session's thread has answered, since the window of its file was open.
    pub(crate) fn keep_answered(&self, key: u64, offset: u64, data: Buffer, len: usize) {
        let Ok(open) = self.open_file(key) else {
            // The kernel sends no WRITE after a RELEASE.
            debug_assert!(false, "a write to a file that is not open");
            return;
        };
        self.writes.add(&open, offset, data, len);
    }

    /// Waits until the store has answered the writes of a file that the kernel has an answer for.
    ///
    /// # Errors
    /// `ESTALE`: the kernel has forgotten the file. `EIO`: a server is silent.
    pub(super) async fn drain(&self, number: u64) -> Result<(), Errno> {
        match self.known_unstable(number)? {
            Some(file) => self.writes.drain(&file).await.map_err(errno),
            None => Ok(()),
        }
    }

    /// Drops the writes of a file that are kept, and those that the store has not seen; gives their bytes.
    pub(super) fn drop_kept(&self, number: u64) -> u64 {
        let file = self.known_unstable(number).ok().flatten();
        file.map_or(0, |file| self.writes.drop_kept(&file))
    }

    /// Makes the writes of a file durable, as [`WriteBehind::commit`](gannet_client::write_behind::WriteBehind::commit)
    /// does.
    ///
    /// # Errors
    /// `ESTALE`: the kernel has forgotten the file. `EIO`: a server is silent.
    pub(super) async fn commit(&self, number: u64) -> Result<(), Errno> {
        match self.known_unstable(number)? {
            Some(file) => self.writes.commit(&file).await.map_err(errno),
            None => Ok(()),
        }
    }

    /// Makes the writes of a file durable. The program of the open file `key` learns why bytes that it wrote were
    /// refused.
    pub(crate) async fn sync(&self, key: u64) -> Result<(), Errno> {
        let file = self.open_file(key)?.file;
        let committed = self.writes.commit(&file).await;
        self.take_failure(key)?;
        committed.map_err(errno)
    }

    /// As [`Mounted::sync`], for a close(2). With [`Closing::Async`] the last close sends what is kept, and no program
    /// waits.
    pub(crate) async fn flush(&self, key: u64) -> Result<(), Errno> {
        match self.options.closing {
            Closing::Sync => self.sync(key).await,
            Closing::Async => self.take_failure(key),
        }
    }

    /// Tells the program of an open file, once, why bytes that it wrote did not reach the store.
    pub(super) fn take_failure(&self, key: u64) -> Result<(), Errno> {
        let failure = self.writes.descriptions.borrow_mut().take_failure(key);
        failure.map_or(Ok(()), |status| Err(errno(status)))
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::inodes::Fetched;
    use crate::limits::KeptBounds;
    use crate::mounted::IfThere;
    use crate::session::{Caching, Closing, Locks, MountOptions};
    use gannet_localfs::{LocalOptions, LocalStore, LocalTree};
    use gannet_runtime::{timeout, tokio_plug};
    use gannet_vfs::{Credentials, Status};
    use std::path::Path;
    use std::rc::Rc;
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
            let bounds = KeptBounds::default();
            let mounted = Rc::new(Mounted::new(runtime, Rc::new(store), root, options, bounds));
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
                mounted.writes.kept()
            };
            assert_eq!(write(0, Stability::FileSync).await, 0);
            assert_eq!(write(100, Stability::Unstable).await, 5000);
            assert_eq!(write(5000, Stability::Unstable).await, 10_000);
            // It commits the earlier writes first: a resend of them would overwrite it.
            assert_eq!(write(3000, Stability::DataSync).await, 0);
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
            assert!(mounted.writes.waiting() > 0, "it left behind the answers");
            let attributes = mounted.attr_of(number, 1).await.unwrap();
            assert_eq!((attributes.size, mounted.writes.waiting()), (1000, 0));
            let read = mounted.read(key, 990, 100).await.unwrap();
            assert_eq!(read.bytes(), [99; 10]);
            assert_eq!(mounted.sync(key).await, Ok(()));
            assert_eq!(std::fs::read(share.join("file")).unwrap().len(), 1000);
        });
    }

    #[test]
    fn while_own_bytes_are_under_way_only_their_replies_are_judged() {
        on_a_file(Caching::Cached, async |_, mounted, key| {
            let number = mounted.open_file(key).unwrap().file.number();
            let handle = mounted.handle(number).unwrap();
            let attributes = mounted.attributes(&handle).await.unwrap();
            let data = Buffer::from_vec(vec![7; 10]);
            let written = mounted.write(key, 0, data, 10, Stability::Unstable);
            assert_eq!(written.await, Ok(10));
            // A reply that overtook the write's.
            let asked = mounted.epoch();
            let attributes = gannet_vfs::Attributes {
                size: 5,
                ..attributes
            };
            let fetched = Fetched { attributes, asked };
            mounted.inodes.borrow_mut().learn(number, &fetched);
            assert_eq!(mounted.inodes.borrow().stale(number), None);
            assert_eq!(mounted.sync(key).await, Ok(()));
            assert_eq!(mounted.attr_of(number, 1).await.unwrap().size, 10);
            assert_eq!(mounted.inodes.borrow().stale(number), None);
        });
    }

    #[test]
    fn the_window_of_a_file_is_open_while_there_is_room_and_nothing_to_tell() {
        on_a_file(Caching::Cached, async |share, mounted, key| {
            let file = mounted.open_file(key).unwrap();
            let number = file.file.number();
            assert!(
                !mounted.pages.windows.is_open(number),
                "nothing was written yet"
            );
            let write = async |offset, len: usize| {
                let data = Buffer::from_vec(vec![7; len]);
                let written = mounted.write(key, offset, data, len, Stability::Unstable);
                assert_eq!(written.await, Ok(len as u32));
                mounted.pages.windows.is_open(number)
            };
            assert!(write(0, 10).await);
            // The session's thread answers the next ones.
            mounted.keep_answered(key, 10, Buffer::from_vec(vec![8; 10]), 10);
            assert!(mounted.pages.windows.is_open(number));
            assert!(!write(20, 9 << 20).await, "much waits for the store");
            assert_eq!(mounted.sync(key).await, Ok(()));
            assert!(mounted.pages.windows.is_open(number));
            assert_eq!(std::fs::read(share.join("file")).unwrap()[10..20], [8; 10]);
            let told = (mounted.writes.descriptions.borrow_mut()).fail(
                &file.file,
                &file.caller,
                Status::Nospc,
            );
            assert!(told);
            mounted.keep_answered(key, 0, Buffer::from_vec(vec![9; 10]), 10);
            assert!(
                !mounted.pages.windows.is_open(number),
                "a failure is to be told"
            );
            assert_eq!(mounted.sync(key).await, Err(Errno::ENOSPC));
            assert!(write(0, 10).await);
            mounted.close(key).await;
            assert!(!mounted.pages.windows.is_open(number));
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
            mounted
                .writes
                .descriptions
                .borrow_mut()
                .open(stranger, other);
            let data = Buffer::from_vec(vec![7; 5000]);
            let written = mounted.write(stranger, 0, data, 5000, Stability::Unstable);
            assert_eq!(written.await, Ok(5000));
            // The writer's own open file succeeds; the stranger is told.
            assert_eq!(mounted.sync(key).await, Ok(()));
            let refused = if gannet_testing::is_root() {
                Err(Errno::EACCES)
            } else {
                Ok(())
            };
            assert_eq!(mounted.sync(stranger).await, refused);
            assert_eq!(mounted.sync(stranger).await, Ok(()));
            let len = std::fs::read(share.join("file")).unwrap().len();
            assert_eq!(len == 0, gannet_testing::is_root());
        });
    }

    #[test]
    fn many_kept_bytes_are_committed_without_a_sync() {
        on_a_file(Caching::Direct, async |_, mounted, key| {
            const LEN: u64 = 1 << 20;
            for place in 0..KeptBounds::default().commit_ahead / LEN {
                let data = Buffer::from_vec(vec![7; LEN as usize]);
                let (offset, len) = (place * LEN, LEN as usize);
                let written = mounted.write(key, offset, data, len, Stability::Unstable);
                assert_eq!(written.await, Ok(LEN as u32));
            }
            let all_durable = async {
                while mounted.writes.kept() > 0 {
                    gannet_runtime::yield_now().await;
                }
            };
            let durable = timeout(&mounted.runtime, Duration::from_secs(60), all_durable);
            assert!(durable.await.is_ok());
        });
    }
}
