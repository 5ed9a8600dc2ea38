//! Durability: syncs of data to the disk, and the detection of losses.
//!
//! The kernel writes dirty pages back at any time. When that fails it drops the pages and keeps an error with the
//! file, which the next sync of each open descriptor reports, once. close(2) reports nothing. A descriptor that is
//! opened later reports the error only if no other has. When no process has the file open, the kernel may drop the
//! inode and the error with it. But a client whose UNSTABLE write was accepted must see a loss in the write verifier
//! (RFC 1813 sections 3.3.7 and 3.3.21). So:
//!
//! - A descriptor that was written through is not closed before a sync of it succeeded: a [`WriteFile`] that is dropped
//!   before is put aside, and synced on the pool. If this fails the verifier changes, and clients send uncommitted
//!   writes again. Most writes are committed already, and the sync has nothing to do.
//! - Syncs of one file take turns, and the verifier is changed before the turn ends: of two syncs at once only one
//!   reports a loss, and the other must not be answered with the old verifier meanwhile. A request that waited while a
//!   later sync succeeded needs none of its own; one that waited for a sync that failed gets its error.
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
use std::fmt;
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

/// The subject of a sync. Files are known by their number in the tree; directories of an overlay may have a file's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Subject {
    File(u64),
    Directory(u64, FileHandle),
    Journal,
    FileSystem,
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Subject::File(number) => write!(f, "file {number}"),
            Subject::Directory(number, _) => write!(f, "directory {number}"),
            Subject::Journal => f.write_str("journal"),
            Subject::FileSystem => f.write_str("file system"),
        }
    }
}

/// 2^64 divided by the golden ratio: its products spread numbers that differ in few bits.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

impl Subject {
    /// The turn in which the subject is synced. Directories share none with files, whose syncs may write gigabytes.
    pub(crate) fn turn(self) -> usize {
        // XFS numbers the first inodes of its allocation groups by multiples of a power of two: all its new directories
        // would share one turn by their lowest bits.
        let spread = |fileid: u64| (fileid.wrapping_mul(SPREAD) >> 40) as usize;
        match self {
            Subject::Journal => 0,
            Subject::FileSystem => 1,
            Subject::Directory(fileid, _) => 2 + spread(fileid) % DIRECTORY_SYNC_TURNS,
            Subject::File(fileid) => 2 + DIRECTORY_SYNC_TURNS + spread(fileid) % SYNC_TURNS,
        }
    }
}

/// The write verifier and the syncs of a tree, over all cores.
pub(crate) struct Durability {
    verifier: AtomicU64,
    /// The turns by [`Subject::turn`].
    turns: Vec<Turn>,
    /// Descriptors to sync before they are closed, at most [`UNSYNCED_MAX`].
    unsynced: Mutex<Vec<Unsynced>>,
    /// The length of `unsynced`, outside the lock, because each change of the budget reads it.
    unsynced_count: AtomicUsize,
    /// The time of the last logged failure, and the number of failures since.
    logged: Mutex<(Option<Instant>, u64)>,
    call: Box<SyncCall>,
}

struct Unsynced {
    number: u64,
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
    /// The last that succeeded.
    last: Option<Synced>,
    /// The last that failed.
    failed: Option<Failure>,
}

/// A sync that succeeded: its subject, its number within the turn, and its extent.
#[derive(Clone, Copy)]
struct Synced {
    subject: Subject,
    number: u64,
    extent: Extent,
}

/// A sync that failed: its subject, its number within the turn, and its error.
#[derive(Clone, Copy)]
struct Failure {
    subject: Subject,
    number: u64,
    errno: Errno,
}

/// The guard of a turn, with the sync that succeeded or failed in it. Its drop records the sync and wakes the waiters.
struct Taken<'a> {
    turn: &'a Turn,
    number: u64,
    done: Option<Synced>,
    failed: Option<Failure>,
}

impl Turn {
    /// Waits for a turn to sync `subject`; `None` when a sync that began after this call has done it.
    ///
    /// # Errors
    /// The error of a sync of the same subject that was under way at this call or began later. The kernel reports a
    /// page that it could not write to one sync alone, and the page may hold this caller's data.
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
    /// Whether it serves a request that came when `begun` syncs had begun: only a later sync can have its data.
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

    /// A durability whose syncs are `call`.
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

    /// Changes the verifier, because unstable data may be lost.
    fn lose_writes(&self) {
        self.verifier.store(key::random(), Ordering::Release);
    }

    /// A descriptor for writing, of the file with this number.
    pub(crate) fn write_file(self: &Arc<Self>, number: u64, file: Arc<OpenFile>) -> Arc<WriteFile> {
        Arc::new(WriteFile {
            number,
            file,
            is_unsynced: AtomicBool::new(false),
            durability: Arc::clone(self),
        })
    }

    /// Descriptors that wait to be synced and closed.
    pub(crate) fn unsynced_count(&self) -> usize {
        self.unsynced_count.load(Ordering::Relaxed)
    }

    /// Syncs `subject` in its turn; `begin` runs in the turn, right before the sync.
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
            // EINVAL of a file system without a sync operation: it has no storage that survives a crash.
            Ok(()) | Err(Errno::INVAL) => {
                taken.done = Some(Synced {
                    subject,
                    number,
                    extent,
                });
                Ok(())
            }
            Err(errno) => {
                // Within the turn: the next sync of the file succeeds, and must not be answered with the old verifier.
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

    /// Changes the verifier after a failed sync if data may be lost, and logs one failure at most every
    /// [`SYNC_FAILURE_LOG_INTERVAL`].
    fn failed(&self, subject: Subject, errno: Errno) {
        match subject {
            // Its pages hold names, and no data of WRITEs.
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
            %subject, error = %errno, left_out,
            "a sync failed: its callers get the error, and clients send uncommitted writes again; \
             see the kernel's log for errors of the disk"
        );
    }

    /// Puts a descriptor aside to be synced. Beyond [`UNSYNCED_MAX`] it is closed, and its data counts as lost.
    fn put_aside(&self, unsynced: Unsynced) {
        let mut all = lock(&self.unsynced);
        if all.len() < UNSYNCED_MAX {
            all.push(unsynced);
            self.unsynced_count.store(all.len(), Ordering::Relaxed);
            return;
        }
        drop(all);
        tracing::warn!("unstable writes outrun the disk; clients send uncommitted writes again");
        self.lose_writes();
    }

    /// Syncs and closes the descriptors that were put aside, if there are more than `at_least`. Blocks.
    pub(crate) fn close_unsynced(&self, at_least: usize) {
        if self.unsynced_count() <= at_least {
            return;
        }
        let all = {
            let mut all = lock(&self.unsynced);
            self.unsynced_count.store(0, Ordering::Relaxed);
            std::mem::take(&mut *all)
        };
        for Unsynced { number, file } in all {
            // No client can commit or read a file without a name.
            if !file.is_gone() {
                // A failure has changed the verifier, and no caller waits for the error.
                let subject = Subject::File(number);
                let _ = self.sync(subject, file.as_fd(), Extent::Data, || Ok(()));
            }
        }
    }
}

/// A descriptor for writing, which is not closed before its writes are known to be durable or lost.
pub(crate) struct WriteFile {
    number: u64,
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

    /// Notes a write. Call it after the write: a sync that begins between note and write would clear the note without
    /// the data.
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
                number: self.number,
                file: Arc::clone(&self.file),
            });
        }
    }
}

impl LocalTree {
    /// Checks that a write is durable, after a sync of its file that succeeded.
    ///
    /// # Errors
    /// `Io` when any sync since the write began failed: the kernel reports a lost page to one sync alone, and the page
    /// may be this write's.
    pub(crate) fn require_kept(&self, done: &WriteDone) -> Result<(), Status> {
        (done.verifier == self.write_verifier())
            .then_some(())
            .ok_or(Status::Io)
    }

    /// Makes a regular file's data durable, and all its attributes too for `FileSync`. A job that began as the
    /// server; it blocks.
    ///
    /// # Errors
    /// `Io` when the disk failed; unstable writes may be lost then, and the verifier has changed.
    pub(crate) fn sync(&self, object: &Object, stability: Stability) -> Result<(), Status> {
        let (subject, extent) = (Subject::File(object.number), Extent::of(stability));
        if let Some(write) = object.open_for_writing() {
            return (self.durability).sync(subject, write.as_fd(), extent, || {
                // Before the sync and not after it: a write that comes meanwhile must set it again.
                write.is_unsynced.store(false, Ordering::Release);
                Ok(())
            });
        }
        let file = match object.open_for_reading() {
            Some(file) => file,
            None => {
                object.require_regular()?;
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

    /// A disk whose syncs end as ordered, and succeed without an order.
    #[derive(Default)]
    struct Disk {
        orders: Mutex<VecDeque<Errno>>,
        /// The extents of the calls, with the number of names that the file had.
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
            "another caller gets the error"
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
    fn directories_of_different_allocation_groups_share_few_turns() {
        let handle = gannet_vfs::FileHandle::new(&[1]).unwrap();
        let turns = (0..16_u64).map(|group| Subject::Directory(137 + (group << 19), handle).turn());
        let turns: std::collections::HashSet<usize> = turns.collect();
        assert!(turns.len() > 12, "{turns:?}");
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
