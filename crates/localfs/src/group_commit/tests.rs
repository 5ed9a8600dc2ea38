//! A store over a disk whose syncs are held, counted and failed by order.

use super::*;
use crate::clock_map::lock;
use crate::durable::MetadataSync;
use crate::sync::{Durability, Extent, Subject};
use crate::{LocalOptions, LocalStore, LocalTree};
use gannet_runtime::Buffer;
use gannet_runtime::tokio_plug::block_on;
use gannet_vfs::{CreateMode, EntryName, FileHandle, NodeKind, SetAttributes, SetTime, Time, Vfs};
use rustix::fd::BorrowedFd;
use rustix::io::Errno;
use std::collections::HashSet;
use std::future::Future;
use std::net::Ipv4Addr;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::pin::Pin;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::task::Poll;
use std::time::Duration;

/// Longer than any machine takes: a test that waits this long has failed.
const HANGS: Duration = Duration::from_secs(60);

#[derive(Default)]
struct Disk {
    state: Mutex<DiskState>,
    changed: Condvar,
}

#[derive(Default)]
struct DiskState {
    is_held: bool,
    /// Inode numbers, in the order in which their syncs began.
    begun: Vec<u64>,
    ended: usize,
    failing: HashSet<u64>,
}

impl Disk {
    fn sync(&self, file: BorrowedFd<'_>, extent: Extent) -> rustix::io::Result<()> {
        assert_ne!(
            extent,
            Extent::FileSystem,
            "no request waits for a sync of the whole file system"
        );
        let inode = rustix::fs::fstat(file)?.st_ino;
        let mut state = lock(&self.state);
        state.begun.push(inode);
        let waiting = self
            .changed
            .wait_timeout_while(state, HANGS, |state| state.is_held);
        let mut state = waiting.unwrap_or_else(PoisonError::into_inner).0;
        state.ended += 1;
        if state.failing.contains(&inode) {
            return Err(Errno::IO);
        }
        Ok(())
    }

    fn hold(&self) {
        lock(&self.state).is_held = true;
    }

    fn release(&self) {
        lock(&self.state).is_held = false;
        self.changed.notify_all();
    }

    fn fail(&self, inode: u64) {
        lock(&self.state).failing.insert(inode);
    }

    fn heal(&self) {
        lock(&self.state).failing.clear();
    }

    fn begun(&self) -> Vec<u64> {
        lock(&self.state).begun.clone()
    }

    fn forget(&self) {
        lock(&self.state).begun.clear();
    }
}

struct Bench {
    runtime: Handle,
    store: LocalStore,
    disk: Arc<Disk>,
    path: std::path::PathBuf,
}

/// How a tree's metadata becomes durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    Later,
    Journal,
    Directories,
    DirectoriesAndInodes,
}

fn on_a_disk<F: Future<Output = ()>>(way: Way, story: impl FnOnce(Rc<Bench>) -> F) {
    let directory = tempfile::tempdir().unwrap();
    let options = LocalOptions {
        state_dir: Some(directory.path().join("state")),
        ..LocalOptions::default()
    };
    let path = directory.path().join("served");
    std::fs::create_dir(&path).unwrap();
    let mut tree = LocalTree::open(&path, &options).unwrap();
    let disk = Arc::<Disk>::default();
    let called = Arc::clone(&disk);
    let call = move |file: BorrowedFd<'_>, how| called.sync(file, how);
    let opened = Arc::get_mut(&mut tree).unwrap();
    opened.durability = Durability::with(Box::new(call));
    opened.metadata_sync = match way {
        Way::Later => MetadataSync::Later,
        Way::Journal => {
            MetadataSync::Journal(tempfile::tempfile_in(directory.path()).unwrap().into())
        }
        Way::Directories => MetadataSync::Objects { new_inodes: false },
        Way::DirectoriesAndInodes => MetadataSync::Objects { new_inodes: true },
    };
    block_on(|runtime| {
        let store = LocalStore::new(tree, Handle::clone(&runtime));
        let bench = Bench {
            runtime,
            store,
            disk,
            path,
        };
        story(Rc::new(bench))
    })
    .unwrap();
}

impl Bench {
    async fn within<T>(&self, work: impl Future<Output = T>) -> T {
        let done = gannet_runtime::timeout(&self.runtime, HANGS, work).await;
        done.expect("it hangs")
    }

    /// Lets the store work until `condition` holds.
    async fn until(&self, what: &str, condition: impl Fn() -> bool) {
        let deadline = self.runtime.now() + HANGS;
        while !condition() {
            assert!(self.runtime.now() < deadline, "never: {what}");
            gannet_runtime::sleep(&self.runtime, Duration::from_millis(1)).await;
        }
    }

    /// As `until`, while it polls `works`. None of them may end before.
    async fn until_with<F: Future>(
        &self,
        what: &str,
        works: &mut [Pin<Box<F>>],
        condition: impl Fn() -> bool,
    ) {
        let deadline = self.runtime.now() + HANGS;
        loop {
            for work in &mut *works {
                assert!(!is_ready(work).await, "answered too early: before {what}");
            }
            if condition() {
                return;
            }
            assert!(self.runtime.now() < deadline, "never: {what}");
            gannet_runtime::sleep(&self.runtime, Duration::from_millis(1)).await;
        }
    }

    fn inode(&self, name: &str) -> u64 {
        std::fs::symlink_metadata(self.path.join(name))
            .unwrap()
            .ino()
    }

    async fn directory(&self, name: &str) -> FileHandle {
        self.within(self.make(&self.store.root(), name)).await
    }

    /// A directory that is synced in another turn than `other`, so that both can be synced at once.
    async fn directory_beside(&self, other: &str, name: &str) -> FileHandle {
        for attempt in 0.. {
            let made = self.directory(name).await;
            if self.turn(name) != self.turn(other) {
                return made;
            }
            let aside = self.path.join(format!("{name}-{attempt}"));
            std::fs::rename(self.path.join(name), aside).unwrap();
        }
        unreachable!("there are many turns")
    }

    /// The turn in which the object of a name is synced. Two inode numbers that a file system gives out may share one.
    fn turn(&self, name: &str) -> usize {
        let number = self.inode(name);
        if self.path.join(name).is_dir() {
            Subject::Directory(number, self.store.root()).turn()
        } else {
            Subject::File(number).turn()
        }
    }

    async fn make(&self, parent: &FileHandle, name: &str) -> FileHandle {
        let nothing = SetAttributes::default();
        let made = self
            .store
            .make_directory(&me(), parent, name.as_bytes(), &nothing)
            .await;
        made.result.unwrap().handle
    }

    async fn file(&self, directory: &FileHandle, name: &str) -> FileHandle {
        self.within(self.create(directory, name)).await.unwrap()
    }

    /// Files of the root, each of which is synced in a turn of its own. Their names are numbers.
    async fn files_apart(&self, count: usize) -> Vec<(String, FileHandle)> {
        let (mut files, mut turns) = (Vec::new(), HashSet::new());
        for number in 0.. {
            let name = number.to_string();
            let file = self.file(&self.store.root(), &name).await;
            if turns.insert(self.turn(&name)) {
                files.push((name, file));
            }
            if files.len() == count {
                break;
            }
        }
        files
    }

    async fn create(&self, directory: &FileHandle, name: &str) -> Result<FileHandle, Status> {
        let mode = CreateMode::Guarded(SetAttributes::default());
        let made = (self.store)
            .create(&me(), directory, name.as_bytes(), &mode)
            .await;
        Ok(made.result?.handle)
    }

    fn entries(&self, name: &str) -> usize {
        std::fs::read_dir(self.path.join(name)).unwrap().count()
    }
}

fn me() -> Credentials {
    Credentials::new(
        rustix::process::geteuid().as_raw(),
        rustix::process::getegid().as_raw(),
        &[],
    )
}

fn client(number: u8) -> Credentials {
    me().at(Ipv4Addr::new(10, 0, 0, number).into())
}

fn is_ready<T>(work: &mut Pin<Box<impl Future<Output = T>>>) -> impl Future<Output = bool> {
    std::future::poll_fn(|context| Poll::Ready(work.as_mut().poll(context).is_ready()))
}

/// An operation, and the objects to sync before it is answered: where each is synced, and where new inodes are too.
struct Case {
    name: &'static str,
    directories: &'static [&'static str],
    new: &'static [&'static str],
    has_happened: fn(&Path) -> bool,
}

const CASES: [Case; 11] = [
    Case {
        name: "create",
        directories: &["d"],
        new: &["d/new"],
        has_happened: |path| path.join("d/new").is_file(),
    },
    Case {
        name: "create exclusive",
        directories: &["d", "d/new"],
        new: &[],
        has_happened: |path| path.join("d/new").is_file(),
    },
    Case {
        name: "mkdir",
        directories: &["d"],
        new: &["d/new"],
        has_happened: |path| path.join("d/new").is_dir(),
    },
    Case {
        name: "symlink",
        directories: &["d"],
        new: &[],
        has_happened: |path| path.join("d/new").is_symlink(),
    },
    Case {
        name: "mknod",
        directories: &["d"],
        new: &[],
        has_happened: |path| path.join("d/new").exists(),
    },
    Case {
        name: "remove",
        directories: &["d"],
        new: &[],
        has_happened: |path| !path.join("d/old").exists(),
    },
    Case {
        name: "rmdir",
        directories: &["d"],
        new: &[],
        has_happened: |path| !path.join("d/empty").exists(),
    },
    Case {
        name: "rename",
        directories: &["d", "e"],
        new: &[],
        has_happened: |path| path.join("e/new").is_file(),
    },
    Case {
        name: "link",
        directories: &["e"],
        new: &[],
        has_happened: |path| path.join("e/new").is_file(),
    },
    Case {
        name: "setattr of a file",
        directories: &["d/old"],
        new: &[],
        has_happened: |path| path.join("d/old").metadata().unwrap().mtime() == 77,
    },
    Case {
        name: "setattr of a directory",
        directories: &["d"],
        new: &[],
        has_happened: |path| path.join("d").metadata().unwrap().mtime() == 77,
    },
];

async fn operate(store: &LocalStore, name: &str, d: &FileHandle, e: &FileHandle, old: &FileHandle) {
    let (me, nothing) = (me(), SetAttributes::default());
    let stamp = SetAttributes {
        modify_time: SetTime::To(Time {
            seconds: 77,
            nanoseconds: 0,
        }),
        ..nothing
    };
    let create = |mode| async move { store.create(&client(1), d, b"new", &mode).await };
    match name {
        "create" => drop(create(CreateMode::Guarded(nothing)).await.result.unwrap()),
        "create exclusive" => drop(create(CreateMode::Exclusive([1; 8])).await.result.unwrap()),
        "mkdir" => {
            let made = store.make_directory(&me, d, b"new", &nothing).await;
            made.result.unwrap();
        }
        "symlink" => {
            let made = store.make_symlink(&me, d, b"new", b"old", &nothing).await;
            made.result.unwrap();
        }
        "mknod" => {
            let made = store.make_node(&me, d, b"new", NodeKind::Fifo, &nothing);
            made.await.result.unwrap();
        }
        "remove" => store.remove(&me, d, b"old").await.result.unwrap(),
        "rmdir" => {
            let removed = store.remove_directory(&me, d, b"empty").await;
            removed.result.unwrap();
        }
        "rename" => store
            .rename(&me, EntryName::new(d, b"old"), EntryName::new(e, b"new"))
            .await
            .0
            .unwrap(),
        "link" => store.link(&me, old, e, b"new").await.0.result.unwrap(),
        "setattr of a file" => {
            let set = store.set_attributes(&me, old, &stamp, None).await;
            set.result.unwrap();
        }
        "setattr of a directory" => {
            let set = store.set_attributes(&me, d, &stamp, None).await;
            set.result.unwrap();
        }
        other => unreachable!("{other}"),
    }
}

/// Runs one case, and checks that it is answered once all its objects are synced, in syncs that began when it had
/// happened.
fn reply_waits_for_its_sync(case: &'static Case, way: Way) {
    on_a_disk(way, |bench| async move {
        let d = bench.directory("d").await;
        let e = bench.directory_beside("d", "e").await;
        let old = bench.file(&d, "old").await;
        bench.within(bench.make(&d, "empty")).await;
        bench.disk.forget();
        bench.disk.hold();
        let operation = {
            let bench = Rc::clone(&bench);
            async move { operate(&bench.store, case.name, &d, &e, &old).await }
        };
        let mut operation = [Box::pin(operation)];
        let what = format!("the syncs of {} by {way:?}", case.name);
        let objects = match way {
            Way::Later | Way::Journal => Vec::new(),
            Way::Directories => case.directories.to_vec(),
            Way::DirectoriesAndInodes => [case.directories, case.new].concat(),
        };
        let all_begun = || {
            let begun = bench.disk.begun().len();
            let has_happened = (case.has_happened)(&bench.path);
            assert!(begun == 0 || has_happened, "{what} began too early");
            let at_once = || match way {
                Way::Journal => 1,
                // Objects of one turn are synced one after the other.
                _ => {
                    let turns = objects.iter().map(|name| bench.turn(name));
                    turns.collect::<HashSet<usize>>().len()
                }
            };
            has_happened && begun == at_once()
        };
        if way != Way::Later {
            bench.until_with(&what, &mut operation, all_begun).await;
        }
        bench.disk.release();
        bench.within(gannet_runtime::all(operation)).await;
        let synced: HashSet<u64> = bench.disk.begun().into_iter().collect();
        let expected: HashSet<u64> = objects.iter().map(|name| bench.inode(name)).collect();
        match way {
            Way::Journal => assert_eq!(synced.len(), 1, "{what}"),
            _ => assert_eq!(synced, expected, "{what}"),
        }
    });
}

#[test]
fn no_reply_leaves_before_the_sync_that_covers_it() {
    for case in &CASES {
        reply_waits_for_its_sync(case, Way::Directories);
    }
}

#[test]
fn where_names_imply_no_inodes_new_inodes_are_synced_too() {
    for case in &CASES {
        reply_waits_for_its_sync(case, Way::DirectoriesAndInodes);
    }
}

#[test]
fn one_sync_of_an_ordered_journal_covers_any_change() {
    for case in &CASES {
        reply_waits_for_its_sync(case, Way::Journal);
    }
}

#[test]
fn asynchronous_metadata_waits_for_no_sync() {
    for case in &CASES {
        reply_waits_for_its_sync(case, Way::Later);
    }
}

#[test]
fn many_creations_in_one_directory_share_syncs() {
    const FILES: usize = 256;
    for way in [Way::Directories, Way::Journal] {
        on_a_disk(way, |bench| async move {
            let d = bench.directory("d").await;
            bench.disk.forget();
            bench.disk.hold();
            let names: Vec<String> = (0..FILES).map(|index| index.to_string()).collect();
            let creating = names.iter().map(|name| {
                let bench = &bench;
                Box::pin(async move { bench.create(&d, name).await })
            });
            let releasing = async {
                let all = || bench.entries("d") == FILES;
                bench.until("all are made", all).await;
                bench.disk.release();
            };
            let both = gannet_runtime::both(gannet_runtime::all(creating), releasing);
            let (created, ()) = bench.within(both).await;
            assert!(created.iter().all(Result::is_ok));
            // The first sync was held. The other files share the next, and those that reached the core late share the
            // one after.
            let syncs = bench.disk.begun().len();
            assert!((2..FILES / 16).contains(&syncs), "{way:?}: {syncs} syncs");
        });
    }
}

#[test]
fn a_stable_write_is_answered_after_the_sync_of_its_file() {
    on_a_disk(Way::Later, |bench| async move {
        let file = bench.file(&bench.store.root(), "f").await;
        let bench = &bench;
        let write = |how| {
            Box::pin(async move {
                let data = Buffer::from_vec(vec![7; 100]);
                let caller = client(1);
                let done = (bench.store).write(&caller, &file, 0, data, 0..100, how);
                done.await.result.map(|done| done.committed)
            })
        };
        bench.disk.hold();
        let unstable = bench.within(write(Stability::Unstable)).await;
        assert_eq!(unstable, Ok(Stability::Unstable), "it needs no sync");
        for how in [Stability::DataSync, Stability::FileSync] {
            bench.disk.hold();
            bench.disk.forget();
            let mut works = [write(how)];
            let has_begun = || bench.disk.begun() == [bench.inode("f")];
            bench.until_with("a sync", &mut works, has_begun).await;
            assert!(!is_ready(&mut works[0]).await, "its sync has not ended");
            bench.disk.release();
            let [work] = works;
            assert_eq!(bench.within(work).await, Ok(how));
            bench.disk.fail(bench.inode("f"));
            assert_eq!(bench.within(write(how)).await, Err(Status::Io));
            bench.disk.heal();
        }
    });
}

#[test]
fn a_sync_that_fails_fails_the_operations_it_covers_and_no_others() {
    on_a_disk(Way::Directories, |bench| async move {
        let bad = bench.directory("bad").await;
        let good = bench.directory_beside("bad", "good").await;
        bench.disk.forget();
        bench.disk.fail(bench.inode("bad"));
        bench.disk.hold();
        let bench = &bench;
        let create = |directory, name| Box::pin(async move { bench.create(directory, name).await });
        let mut works = vec![create(&bad, "first")];
        let begun = || bench.disk.begun().len();
        bench
            .until_with("a sync", &mut works, || begun() == 1)
            .await;
        // Its entry may be on a page that this sync could not write, and no later sync reports that page.
        works.push(create(&bad, "during"));
        works.push(create(&good, "other"));
        let waiting = || bench.store.syncs.state.borrow().batches.len();
        let both = || (begun(), waiting()) == (2, 1);
        bench.until_with("another", &mut works, both).await;
        bench.disk.release();
        let done = bench.within(gannet_runtime::all(works)).await;
        assert_eq!(done[..2], [Err(Status::Io); 2]);
        assert!(done[2].is_ok());
        bench.disk.heal();
        assert!(bench.within(create(&bad, "later")).await.is_ok());
    });
}

#[test]
fn a_client_that_syncs_many_files_delays_another_clients_sync_by_a_turn() {
    const FILES: usize = 100;
    on_a_disk(Way::Later, |bench| async move {
        let mut files = bench.files_apart(FILES + 1).await;
        let (my_name, mine) = files.pop().unwrap();
        bench.disk.hold();
        let bench = &bench;
        let commit = |caller: Credentials, file| {
            Box::pin(async move { bench.store.commit(&caller, &file, 0, 0).await.result })
        };
        let all = files.iter();
        let mut greedy: Vec<_> = all.map(|(_, file)| commit(client(1), *file)).collect();
        for commit in &mut greedy {
            assert!(!is_ready(commit).await);
        }
        bench
            .until("syncs", || bench.disk.begun().len() == SYNCS_MAX)
            .await;
        let mut modest = commit(client(2), mine);
        assert!(!is_ready(&mut modest).await);
        bench.disk.release();
        bench.within(modest).await.unwrap();
        bench.within(gannet_runtime::all(greedy)).await;
        let begun = bench.disk.begun();
        assert_eq!(begun.len(), FILES + 1);
        let at = begun
            .iter()
            .position(|inode| *inode == bench.inode(&my_name));
        // The syncs under way come first, and perhaps one of the greedy client. Threads report their own starts, so a
        // slow one may come some places later. In the order of the calls this sync would be the last.
        assert!(at.unwrap() < FILES / 4, "{at:?}");
    });
}

#[test]
fn a_client_that_syncs_in_a_loop_leaves_threads_to_anothers_lookups() {
    on_a_disk(Way::Later, |bench| async move {
        let root = bench.store.root();
        let files = bench.files_apart(64).await;
        for index in 0..64 {
            std::fs::write(bench.path.join(format!("unknown-{index}")), "").unwrap();
        }
        bench.disk.hold();
        let bench = &bench;
        let mut syncing: Vec<_> = (files.iter().enumerate())
            .map(|(index, (_, file))| {
                Box::pin(async move {
                    let (greedy, how) = (client(1), Stability::FileSync);
                    if index % 2 == 0 {
                        let done = bench.store.commit(&greedy, file, 0, 0).await;
                        return done.result.map(drop);
                    }
                    let data = Buffer::from_vec(vec![7; 100]);
                    let done = (bench.store).write(&greedy, file, 0, data, 0..100, how);
                    done.await.result.map(drop)
                })
            })
            .collect();
        for sync in &mut syncing {
            assert!(!is_ready(sync).await);
        }
        bench
            .until("syncs", || bench.disk.begun().len() == SYNCS_MAX)
            .await;
        let other = client(2);
        for index in 0..64 {
            let name = format!("unknown-{index}");
            let looking = bench.store.lookup(&other, &root, name.as_bytes());
            bench.within(looking).await.0.unwrap();
        }
        assert_eq!(
            bench.disk.begun().len(),
            SYNCS_MAX,
            "the disk was held meanwhile"
        );
        bench.disk.release();
        let synced = bench.within(gannet_runtime::all(syncing)).await;
        assert!(synced.iter().all(Result::is_ok));
    });
}
