//! Durability: when data is on the disk, and how a loss is noticed.
//!
//! The kernel writes dirty pages back when it likes. When that fails it drops them, and leaves an error with the file
//! that the next sync of each open descriptor is told, once. close(2) tells nothing; a descriptor that is opened later
//! is told only what no other was; and with the inode, when nobody has the file open, the error goes too. But whoever
//! got an UNSTABLE write accepted must see a loss in the write verifier (RFC 1813 sections 3.3.7 and 3.3.21). So:
//!
//! - A descriptor that was written through is not closed before a sync of it went well, whoever closes it: a
//!   [`WriteFile`] dropped before that is put aside, and synced on the pool. If this fails the verifier changes, and
//!   clients send again what they have not committed. Most committed already, and nothing is to be done.
//! - Syncs of one file take turns, and the verifier is changed before the turn ends: of two at once only one is told
//!   of a loss, and the other must not be answered with the old verifier meanwhile. Whoever waited while a later sync
//!   than asked for went well is done without one; whoever waited for one that failed gets its error.
//!
//! Rejected: changing the verifier whenever such a descriptor is closed (all clients would send everything again every
//! few seconds); keeping it until a COMMIT (which may never come, and local programs cannot execute the file);
//! sync_file_range(2) instead of fdatasync(2) (needs no journal commit, but does nothing on overlays).

use super::attributes::status;
use super::clock_map::lock;
use super::key;
use super::object::{Object, OpenFile};
use super::tree::LocalTree;
use crate::limits::{DIRECTORY_SYNC_TURNS, SYNC_FAILURE_LOG_INTERVAL, SYNC_TURNS, UNSYNCED_MAX};
use gannet_vfs::{FileHandle, Stability, Status, Verifier, WriteDone};
use rustix::fd::{AsFd, BorrowedFd};
use rustix::io::Errno;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Instant;

/// fdatasync(2), fsync(2) and syncfs(2), or what stands in for them in a test of their failure.
type SyncCall = dyn Fn(BorrowedFd<'_>, Extent) -> rustix::io::Result<()> + Send + Sync;

/// How much one sync makes durable, the least first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Extent {
    /// A file's data, and the attributes without which it cannot be found.
    Data,
    /// An object's data and attributes.
    File,
    /// All that the file system has.
    FileSystem,
}

impl Extent {
    fn of(stability: Stability) -> Extent {
        match stability {
            Stability::Unstable | Stability::DataSync => Extent::Data,
            Stability::FileSync => Extent::File,
        }
    }
}

/// What a sync is of. Files are known by their number; directories of an overlay may have a file's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Subject {
    File(u64),
    Directory(u64, FileHandle),
    Journal,
    FileSystem,
}

impl Subject {
    /// Its turn. Directories share none with files, whose syncs may write gigabytes.
    fn turn(self) -> usize {
        match self {
            Subject::Journal => 0,
            Subject::FileSystem => 1,
            Subject::Directory(fileid, _) => 2 + fileid as usize % DIRECTORY_SYNC_TURNS,
            Subject::File(fileid) => 2 + DIRECTORY_SYNC_TURNS + fileid as usize % SYNC_TURNS,
        }
    }
}

/// What a tree has promised to keep.
pub(crate) struct Durability {
    verifier: AtomicU64,
    /// See [`Subject::turn`].
    turns: Vec<Turn>,
    /// To be synced before they are closed.
    unsynced: Mutex<Vec<Unsynced>>,
    unsynced_count: AtomicUsize,
    /// When a failure was logged last, and how many were not since.
    logged: Mutex<(Option<Instant>, u64)>,
    call: Box<SyncCall>,
}

struct Unsynced {
    fileid: u64,
    file: Arc<OpenFile>,
}

/// The turns of syncing a file.
#[derive(Default)]
struct Turn {
    state: Mutex<TurnState>,
    ended: Condvar,
}

#[derive(Default)]
struct TurnState {
    /// Syncs begun so far.
    begun: u64,
    /// The last of them has not ended.
    is_taken: bool,
    /// The last that went well.
    last: Option<Synced>,
    /// The last that failed.
    failed: Option<Failure>,
}

/// A sync: of which file, the how many-th of its turn, and of what.
#[derive(Clone, Copy)]
struct Synced {
    subject: Subject,
    number: u64,
    extent: Extent,
}

/// A sync that failed: of which subject, the how many-th of its turn, and why.
#[derive(Clone, Copy)]
struct Failure {
    subject: Subject,
    number: u64,
    errno: Errno,
}

/// A turn that somebody has, until dropped; with the sync that went well or failed meanwhile.
struct Taken<'a> {
    turn: &'a Turn,
    number: u64,
    done: Option<Synced>,
    failed: Option<Failure>,
}

impl Turn {
    /// Waits for a turn to sync something; `None` when a sync that began later than this question did it.
    ///
    /// # Errors
    /// That of a sync of the same subject that was under way at this question or began later. The kernel reports a
    /// page that it could not write to one sync alone, and it may hold what this question is about.
    fn take(&self, subject: Subject, extent: Extent) -> rustix::io::Result<Option<Taken<'_>>> {
        let mut state = lock(&self.state);
        let begun = state.begun;
        while state.is_taken {
            state = (self.ended.wait(state)).unwrap_or_else(PoisonError::into_inner);
            let concerns = |failed: &Failure| failed.subject == subject && failed.number >= begun;
            if let Some(failed) = state.failed.filter(concerns) {
                return Err(failed.errno);
            }
            let is_done = |last: Synced| last.covers(subject, begun, extent);
            if state.last.is_some_and(is_done) {
                return Ok(None);
            }
        }
        state.is_taken = true;
        state.begun += 1;
        Ok(Some(Taken {
            turn: self,
            number: state.begun,
            done: None,
            failed: None,
        }))
    }
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        let mut state = lock(&self.turn.state);
        state.is_taken = false;
        state.last = self.done.or(state.last);
        state.failed = self.failed.or(state.failed);
        drop(state);
        self.turn.ended.notify_all();
    }
}

impl Synced {
    /// Whether it did what is asked for by somebody who came when `begun` syncs had begun.
    fn covers(&self, subject: Subject, begun: u64, extent: Extent) -> bool {
        self.subject == subject && self.number > begun && self.extent >= extent
    }
}

impl Durability {
    pub(crate) fn new() -> Arc<Durability> {
        Durability::with(Box::new(|file, extent| match extent {
            Extent::Data => rustix::fs::fdatasync(file),
            Extent::File => rustix::fs::fsync(file),
            Extent::FileSystem => rustix::fs::syncfs(file),
        }))
    }

    /// One whose syncs are `call`.
    pub(crate) fn with(call: Box<SyncCall>) -> Arc<Durability> {
        Arc::new(Durability {
            verifier: AtomicU64::new(key::random()),
            turns: (0..2 + DIRECTORY_SYNC_TURNS + SYNC_TURNS)
                .map(|_| Turn::default())
                .collect(),
            unsynced: Mutex::default(),
            unsynced_count: AtomicUsize::new(0),
            logged: Mutex::default(),
            call,
        })
    }

    /// The verifier of WRITE and COMMIT.
    pub(crate) fn verifier(&self) -> Verifier {
        self.verifier.load(Ordering::Acquire).to_be_bytes()
    }

    /// Unstable data may be lost: clients must learn it from the verifier.
    fn lose_writes(&self) {
        self.verifier.store(key::random(), Ordering::Release);
    }

    /// A descriptor for writing, of the file with this number.
    pub(crate) fn write_file(self: &Arc<Self>, fileid: u64, file: Arc<OpenFile>) -> Arc<WriteFile> {
        Arc::new(WriteFile {
            fileid,
            file,
            is_unsynced: AtomicBool::new(false),
            durability: Arc::clone(self),
        })
    }

    /// Descriptors that wait to be synced and closed.
    pub(crate) fn unsynced_count(&self) -> usize {
        self.unsynced_count.load(Ordering::Relaxed)
    }

    /// Syncs something in its turn; `begin` runs right before.
    ///
    /// # Errors
    /// As fsync(2), and those of `begin`.
    pub(crate) fn sync(
        &self,
        subject: Subject,
        file: BorrowedFd<'_>,
        extent: Extent,
        begin: impl FnOnce() -> rustix::io::Result<()>,
    ) -> Result<(), Status> {
        let turn = &self.turns[subject.turn()];
        let Some(mut taken) = turn.take(subject, extent).map_err(status)? else {
            return Ok(());
        };
        let number = taken.number;
        match begin().and_then(|()| (self.call)(file, extent)) {
            // A file system without a sync operation answers so: it has nothing that outlives the machine.
            Ok(()) | Err(Errno::INVAL) => {
                taken.done = Some(Synced {
                    subject,
                    number,
                    extent,
                });
                Ok(())
            }
            Err(errno) => {
                self.failed(subject, errno);
                taken.failed = Some(Failure {
                    subject,
                    number,
                    errno,
                });
                Err(status(errno))
            }
        }
    }

    /// A sync failed: logs it, now and then, and changes the verifier if data may be lost.
    fn failed(&self, subject: Subject, errno: Errno) {
        match subject {
            // Its pages hold names alone.
            Subject::Directory(..) => {}
            Subject::File(_) | Subject::Journal | Subject::FileSystem => self.lose_writes(),
        }
        let mut logged = lock(&self.logged);
        let now = Instant::now();
        if (logged.0).is_some_and(|last| now - last < SYNC_FAILURE_LOG_INTERVAL) {
            logged.1 += 1;
            return;
        }
        let (_, left_out) = std::mem::replace(&mut *logged, (Some(now), 0));
        tracing::error!(
            ?subject, error = %errno, left_out,
            "a sync failed: its callers get the error, and clients send again what they have not committed; \
             see the kernel's log for what is wrong with the disk"
        );
    }

    /// Puts a descriptor aside. With too many of them there already, its data counts as lost.
    fn put_aside(&self, unsynced: Unsynced) {
        let mut all = lock(&self.unsynced);
        if all.len() < UNSYNCED_MAX {
            all.push(unsynced);
            self.unsynced_count.store(all.len(), Ordering::Relaxed);
            return;
        }
        drop(all);
        tracing::warn!("unstable writes outrun the disk; clients are told to write them again");
        self.lose_writes();
    }

    /// Syncs and closes what was put aside, if there are more than `at_least`. Blocks.
    pub(crate) fn close_unsynced(&self, at_least: usize) {
        if self.unsynced_count() <= at_least {
            return;
        }
        let all = {
            let mut all = lock(&self.unsynced);
            self.unsynced_count.store(0, Ordering::Relaxed);
            std::mem::take(&mut *all)
        };
        for Unsynced { fileid, file } in all {
            // Of a file without a name nobody can ask for anything.
            if !file.is_gone() {
                // A failure has changed the verifier, which is all that it means here.
                let subject = Subject::File(fileid);
                let _ = self.sync(subject, file.as_fd(), Extent::Data, || Ok(()));
            }
        }
    }
}

/// A descriptor for writing, which does not close before what was written through it is known to be safe or lost.
pub(crate) struct WriteFile {
    fileid: u64,
    file: Arc<OpenFile>,
    /// Written to since the last sync began.
    is_unsynced: AtomicBool,
    durability: Arc<Durability>,
}

impl WriteFile {
    /// The descriptor.
    pub(crate) fn file(&self) -> &Arc<OpenFile> {
        &self.file
    }

    /// Something was written. To be called after the fact: a sync that begins before it might leave it out.
    pub(crate) fn wrote(&self) {
        self.is_unsynced.store(true, Ordering::Release);
    }
}

impl AsFd for WriteFile {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

impl Drop for WriteFile {
    fn drop(&mut self) {
        if *self.is_unsynced.get_mut() {
            self.durability.put_aside(Unsynced {
                fileid: self.fileid,
                file: Arc::clone(&self.file),
            });
        }
    }
}

impl LocalTree {
    /// That a write is durable after a sync of its file that went well.
    ///
    /// # Errors
    /// `Io` when any sync since the write began failed: the kernel reports a lost page to one sync alone, and it may
    /// have been this write's.
    pub(crate) fn require_kept(&self, done: &WriteDone) -> Result<(), Status> {
        (done.verifier == self.write_verifier())
            .then_some(())
            .ok_or(Status::Io)
    }

    /// Makes a regular file's data durable, and all its attributes too for `FileSync`. Blocks.
    ///
    /// # Errors
    /// `Io` when the disk failed; what was written unstably may be lost then, and the verifier says so.
    pub(crate) fn sync(&self, object: &Object, stability: Stability) -> Result<(), Status> {
        let (subject, extent) = (Subject::File(object.fileid), Extent::of(stability));
        if let Some(write) = object.open_for_writing() {
            return (self.durability).sync(subject, write.as_fd(), extent, || {
                write.is_unsynced.store(false, Ordering::Release);
                Ok(())
            });
        }
        let file = match object.open_for_reading() {
            Some(file) => file,
            None => {
                object.require_regular()?;
                self.identities.assume_own()?;
                match object.readable(self) {
                    Err(Status::Acces | Status::Perm) => Arc::clone(object.writable(self)?.file()),
                    readable => readable?,
                }
            }
        };
        (self.durability).sync(subject, file.as_fd(), extent, || Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::LocalOptions;
    use gannet_vfs::{CreateMode, Credentials, SetAttributes};
    use rustix::fs::AtFlags;
    use std::collections::VecDeque;

    /// A disk whose syncs end as ordered, and well when nothing is ordered.
    #[derive(Default)]
    struct Disk {
        orders: Mutex<VecDeque<Errno>>,
        /// What was asked for, with the names that the file still had.
        calls: Mutex<Vec<(Extent, u64)>>,
        inside: AtomicUsize,
        overlaps: AtomicUsize,
    }

    impl Disk {
        fn sync(&self, file: BorrowedFd<'_>, extent: Extent) -> rustix::io::Result<()> {
            if self.inside.fetch_add(1, Ordering::SeqCst) > 0 {
                self.overlaps.fetch_add(1, Ordering::SeqCst);
            }
            let names = rustix::fs::fstat(file)?.st_nlink;
            lock(&self.calls).push((extent, names as u64));
            std::thread::yield_now();
            self.inside.fetch_sub(1, Ordering::SeqCst);
            lock(&self.orders).pop_front().map_or(Ok(()), Err)
        }

        fn order(&self, errno: Errno) {
            lock(&self.orders).push_back(errno);
        }

        fn calls(&self) -> usize {
            lock(&self.calls).len()
        }
    }

    struct Bench {
        _directory: tempfile::TempDir,
        disk: Arc<Disk>,
        tree: Arc<LocalTree>,
    }

    impl Bench {
        fn new() -> Bench {
            let directory = tempfile::tempdir().unwrap();
            let options = LocalOptions {
                state_dir: Some(directory.path().join("state")),
                descriptors_max: Some(crate::limits::DESCRIPTORS_MIN),
                ..LocalOptions::default()
            };
            let mut tree = LocalTree::open(directory.path(), &options).unwrap();
            let disk = Arc::<Disk>::default();
            let called = Arc::clone(&disk);
            let call = move |file: BorrowedFd<'_>, how| called.sync(file, how);
            Arc::get_mut(&mut tree).unwrap().durability = Durability::with(Box::new(call));
            Bench {
                _directory: directory,
                disk,
                tree,
            }
        }

        fn create(&self, name: &str) -> FileHandle {
            let mode = CreateMode::Guarded(SetAttributes::default());
            let (root, name) = (&self.tree.root_object, name.as_bytes());
            let made = self.tree.create(root, &me(), name, &mode);
            made.result.unwrap().object.handle
        }

        fn write(&self, file: &FileHandle, how: Stability) -> Result<(), Status> {
            let object = self.tree.resolve(file).unwrap().unwrap();
            let done = self.tree.write(&object, &me(), 0, b"data").result?;
            if how == Stability::Unstable {
                return Ok(());
            }
            self.sync_write(&object, how, &done)
        }

        fn sync_write(
            &self,
            object: &Object,
            how: Stability,
            done: &WriteDone,
        ) -> Result<(), Status> {
            self.tree.sync(object, how)?;
            self.tree.require_kept(done)
        }

        fn commit(&self, file: &FileHandle) -> Result<Verifier, Status> {
            let object = self.tree.resolve(file).unwrap().unwrap();
            self.tree.sync(&object, Stability::FileSync)?;
            Ok(self.tree.write_verifier())
        }
    }

    fn me() -> Credentials {
        Credentials::new(
            rustix::process::geteuid().as_raw(),
            rustix::process::getegid().as_raw(),
            &[],
        )
    }

    #[test]
    fn a_sync_that_fails_is_an_error_and_changes_the_verifier() {
        let bench = Bench::new();
        let verifier = || bench.tree.write_verifier();
        let file = bench.create("f");
        let before = verifier();
        bench.write(&file, Stability::Unstable).unwrap();
        bench.disk.order(Errno::IO);
        assert_eq!(bench.commit(&file), Err(Status::Io));
        let after = verifier();
        assert_ne!(after, before, "what was not committed is to be sent again");
        bench.write(&file, Stability::Unstable).unwrap();
        assert_eq!(bench.commit(&file), Ok(after));
        for how in [Stability::DataSync, Stability::FileSync] {
            let before = verifier();
            bench.disk.order(Errno::NOSPC);
            assert_eq!(bench.write(&file, how), Err(Status::Nospc));
            assert_ne!(verifier(), before);
            assert_eq!(bench.write(&file, how), Ok(()));
        }
    }

    #[test]
    fn a_stable_write_fails_if_a_sync_failed_since_it_began() {
        let bench = Bench::new();
        let file = bench.create("f");
        let object = bench.tree.resolve(&file).unwrap().unwrap();
        let done = bench.tree.write(&object, &me(), 0, b"data").result.unwrap();
        bench.disk.order(Errno::IO);
        assert_eq!(
            bench.commit(&file),
            Err(Status::Io),
            "somebody else is told"
        );
        let synced = bench.sync_write(&object, Stability::FileSync, &done);
        assert_eq!(synced, Err(Status::Io));
        assert_eq!(bench.write(&file, Stability::FileSync), Ok(()));
    }

    #[test]
    fn an_idle_descriptor_is_synced_before_it_is_closed() {
        let bench = Bench::new();
        let (disk, tree) = (&bench.disk, &bench.tree);
        let open = || tree.open.load(Ordering::Relaxed);
        let open_at_first = open();
        let committed = bench.create("committed");
        bench.write(&committed, Stability::Unstable).unwrap();
        bench.commit(&committed).unwrap();
        let file = bench.create("f");
        bench.write(&file, Stability::Unstable).unwrap();
        let (calls, before) = (disk.calls(), tree.write_verifier());
        disk.order(Errno::IO);
        tree.close_idle();
        assert_eq!(
            (disk.calls(), tree.write_verifier()),
            (calls, before),
            "in use"
        );
        tree.close_idle();
        assert_eq!(lock(&disk.calls)[calls..], [(Extent::Data, 1)]);
        assert_ne!(tree.write_verifier(), before, "the write-back had failed");
        assert_eq!(open(), open_at_first, "both are closed");

        let before = tree.write_verifier();
        bench.write(&file, Stability::Unstable).unwrap();
        tree.close_idle();
        tree.close_idle();
        assert_eq!(disk.calls(), calls + 2);
        assert_eq!(bench.commit(&file), Ok(before), "nothing was lost");
    }

    #[test]
    fn a_file_pressed_out_of_the_cache_is_synced_before_it_is_closed() {
        let bench = Bench::new();
        let file = bench.create("f");
        bench.write(&file, Stability::Unstable).unwrap();
        let before = bench.tree.write_verifier();
        bench.disk.order(Errno::IO);
        // Which part of the cache a file falls into is chance; so many fill each of them many times.
        for index in 0..16 * crate::limits::DESCRIPTORS_MIN {
            bench.create(&index.to_string());
        }
        bench.tree.close_retired();
        assert_eq!(lock(&bench.disk.calls)[..], [(Extent::Data, 1)]);
        let after = bench.tree.write_verifier();
        assert_ne!(after, before);
        assert_eq!(bench.commit(&file), Ok(after));
    }

    #[test]
    fn a_removed_file_needs_no_sync() {
        let bench = Bench::new();
        let file = bench.create("f");
        bench.write(&file, Stability::Unstable).unwrap();
        let (root, nothing) = (&bench.tree.root_object, AtFlags::empty());
        let removed = bench.tree.remove(root, &me(), b"f", nothing);
        removed.result.unwrap();
        drop(bench.tree.take_retired(0));
        assert_eq!(bench.tree.durability.unsynced_count(), 1);
        bench.tree.close_retired();
        assert_eq!(bench.tree.durability.unsynced_count(), 0);
        assert_eq!(bench.disk.calls(), 0);
    }

    #[test]
    fn more_unsynced_files_than_are_kept_count_as_lost() {
        let bench = Bench::new();
        let durability = &bench.tree.durability;
        let before = durability.verifier();
        let put_aside = || {
            let descriptor = bench.tree.root.try_clone().unwrap();
            let write = durability.write_file(1, OpenFile::new(descriptor, &bench.tree.open));
            write.wrote();
        };
        (0..UNSYNCED_MAX).for_each(|_| put_aside());
        assert_eq!(durability.verifier(), before);
        put_aside();
        assert_ne!(durability.verifier(), before);
        durability.close_unsynced(UNSYNCED_MAX);
        assert_eq!(bench.disk.calls(), 0);
        durability.close_unsynced(0);
        let left = (bench.disk.calls(), durability.unsynced_count());
        assert_eq!(left, (UNSYNCED_MAX, 0));
    }

    #[test]
    fn syncs_of_one_file_take_turns() {
        let bench = Bench::new();
        let (durability, disk) = (&bench.tree.durability, &bench.disk);
        let file = OpenFile::new(bench.tree.root.try_clone().unwrap(), &bench.tree.open);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..200 {
                        let subject = Subject::File(7);
                        let synced =
                            durability.sync(subject, file.as_fd(), Extent::File, || Ok(()));
                        assert_eq!(synced, Ok(()));
                    }
                });
            }
        });
        assert_eq!(disk.overlaps.load(Ordering::SeqCst), 0);
    }

    #[test]
    fn a_sync_that_began_after_the_question_answers_it() {
        let done = Synced {
            subject: Subject::File(7),
            number: 5,
            extent: Extent::Data,
        };
        assert!(done.covers(Subject::File(7), 4, Extent::Data));
        assert!(
            !done.covers(Subject::File(7), 5, Extent::Data),
            "it may have left that out"
        );
        assert!(
            !done.covers(Subject::File(7), 4, Extent::File),
            "it did less"
        );
        assert!(
            !done.covers(Subject::File(8), 4, Extent::Data),
            "another file of the same turn"
        );
    }
}
