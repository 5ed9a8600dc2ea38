//! The page cache and the disk of a machine: what they cost, and when.
#![allow(clippy::unwrap_used)]

use gannet_lab::profiles::OPENSOLARIS;
use gannet_runtime::{Buffer, Handle};
use gannet_sim::nic::{Activity, Constant, FileSystem, Host, Source};
use gannet_sim::store::{Disk, SimStore};
use gannet_sim::{Faults, World};
use gannet_vfs::{CreateMode, Credentials, FileHandle, SetAttributes, Stability, Vfs};
use std::cell::RefCell;
use std::future::Future;
use std::rc::Rc;
use std::time::Duration;

const BLOCK: u64 = 4096;
const SEEK_NS: u64 = 5_000_000;
/// A block takes so long at 100 MB/s.
const BLOCK_NS: u64 = BLOCK * 10;

fn constant(value: u64) -> Constant {
    let source = Source::Assumed("a test");
    Constant { value, source }
}

/// A file system behind a cache of `blocks` blocks, whose processor time is free.
fn file_system(blocks: u64, read_ahead_blocks: u64) -> FileSystem {
    FileSystem {
        operation_ns: constant(0),
        read_bytes_per_s: constant(0),
        write_bytes_per_s: constant(0),
        threads: constant(0),
        cache_bytes: constant(blocks * BLOCK),
        block_bytes: constant(BLOCK),
        read_ahead_bytes: constant(read_ahead_blocks * BLOCK),
        seek_ns: constant(SEEK_NS),
        disk_bytes_per_s: constant(100_000_000),
    }
}

/// A server's store with one file in it.
#[derive(Clone)]
struct Bench {
    runtime: Handle,
    host: Rc<Host>,
    store: Rc<SimStore>,
    file: FileHandle,
    faults: Faults,
}

impl Bench {
    /// Reads and says how long that took.
    async fn read(&self, block: u64, blocks: u64) -> u64 {
        let starts = self.runtime.now();
        let count = u32::try_from(blocks * BLOCK).unwrap();
        let caller = Credentials::new(0, 0, &[]);
        let read = self.store.read(&caller, &self.file, block * BLOCK, count);
        assert_eq!(read.await.unwrap().count, count);
        (self.runtime.now() - starts).as_nanos() as u64
    }

    /// Writes and says how long that took.
    async fn write(&self, block: u64, blocks: u64, stability: Stability) -> u64 {
        let starts = self.runtime.now();
        let len = usize::try_from(blocks * BLOCK).unwrap();
        let caller = Credentials::new(0, 0, &[]);
        let (data, at) = (Buffer::zeroed(len), block * BLOCK);
        let store = &self.store;
        let done = store.write(&caller, &self.file, at, data, 0..len, stability);
        done.await.result.unwrap();
        (self.runtime.now() - starts).as_nanos() as u64
    }

    async fn commit(&self) -> u64 {
        let starts = self.runtime.now();
        let caller = Credentials::new(0, 0, &[]);
        let done = self.store.commit(&caller, &self.file, 0, 0).await;
        done.result.unwrap();
        (self.runtime.now() - starts).as_nanos() as u64
    }

    fn disk_ns(&self) -> u64 {
        self.host.usage().of(Activity::Disk).busy_ns
    }
}

/// Runs `test` on a machine with this file system and a file of `file_blocks` blocks.
fn with_bench<F: Future<Output = ()> + 'static>(
    file_system: FileSystem,
    file_blocks: u64,
    test: impl FnOnce(Bench) -> F + 'static,
) {
    let world = World::new(3);
    let node = world.add_node("server");
    let mut profile = OPENSOLARIS;
    profile.file_system = file_system;
    let host = Host::install(&node, &profile);
    let runtime = node.runtime();
    let store = SimStore::open(&Disk::new(&world), Handle::clone(&runtime)).charged_to(&host);
    let faults = world.faults();
    let main = async move {
        let caller = Credentials::new(0, 0, &[]);
        let mode = CreateMode::Guarded(SetAttributes {
            size: Some(file_blocks * BLOCK),
            ..SetAttributes::default()
        });
        let made = store.create(&caller, &store.root(), b"file", &mode).await;
        let file = made.result.unwrap().handle;
        let bench = Bench {
            runtime,
            host,
            store: Rc::new(store),
            file,
            faults,
        };
        test(bench).await;
    };
    world.run(main).unwrap();
}

#[test]
fn what_is_read_once_is_in_memory() {
    with_bench(file_system(100, 0), 50, |bench| async move {
        assert_eq!(bench.read(0, 10).await, SEEK_NS + 10 * BLOCK_NS);
        assert_eq!(
            bench.read(10, 1).await,
            BLOCK_NS,
            "the disk goes on where it is"
        );
        assert_eq!(bench.read(40, 1).await, SEEK_NS + BLOCK_NS);
        assert_eq!(bench.read(0, 11).await, 0);
        assert_eq!(bench.read(40, 1).await, 0);
        assert_eq!(bench.store.cache_hits_and_misses(), (2, 3));
        assert_eq!(bench.disk_ns(), 2 * SEEK_NS + 12 * BLOCK_NS);
    });
}

#[test]
fn only_what_is_missing_is_fetched() {
    with_bench(file_system(100, 0), 50, |bench| async move {
        bench.read(4, 2).await;
        // Blocks 0 to 3, then 6 and 7: the disk stands behind 5, goes to 0, then to 6.
        let took = bench.read(0, 8).await;
        assert_eq!(took, 2 * SEEK_NS + 6 * BLOCK_NS);
    });
}

#[test]
fn a_file_larger_than_memory_never_stays() {
    with_bench(file_system(10, 0), 20, |bench| async move {
        for _ in 0..2 {
            for block in 0..20 {
                assert!(bench.read(block, 1).await >= BLOCK_NS);
            }
        }
        assert_eq!(bench.store.cache_hits_and_misses(), (0, 40));
        // The youngest ten are there.
        assert_eq!(bench.read(10, 10).await, 0);
    });
}

#[test]
fn reading_ahead_takes_one_seek_for_many_reads() {
    with_bench(file_system(100, 8), 20, |bench| async move {
        assert_eq!(bench.read(0, 1).await, SEEK_NS + 8 * BLOCK_NS);
        for block in 1..8 {
            assert_eq!(bench.read(block, 1).await, 0);
        }
        assert_eq!(bench.read(8, 1).await, 8 * BLOCK_NS);
        assert_eq!(
            bench.read(16, 1).await,
            4 * BLOCK_NS,
            "no further than the file goes"
        );
    });
}

#[test]
fn two_that_want_the_same_wait_for_the_same() {
    with_bench(file_system(100, 0), 20, |bench| async move {
        let times = Rc::<RefCell<Vec<u64>>>::default();
        for _ in 0..2 {
            let (bench, times) = (bench.clone(), Rc::clone(&times));
            let runtime = Handle::clone(&bench.runtime);
            let reads = async move {
                let took = bench.read(0, 5).await;
                times.borrow_mut().push(took);
            };
            runtime.spawn("reads", Box::pin(reads));
        }
        bench.faults.sleep(Duration::from_millis(100)).await;
        assert_eq!(*times.borrow(), [SEEK_NS + 5 * BLOCK_NS; 2]);
        assert_eq!(bench.disk_ns(), SEEK_NS + 5 * BLOCK_NS);
    });
}

#[test]
fn writes_wait_for_the_disk_when_they_must_be_durable() {
    with_bench(file_system(100, 0), 0, |bench| async move {
        assert_eq!(bench.write(0, 10, Stability::Unstable).await, 0);
        assert_eq!(bench.write(20, 10, Stability::Unstable).await, 0);
        assert_eq!(bench.disk_ns(), 0);
        assert_eq!(
            bench.commit().await,
            2 * SEEK_NS + 20 * BLOCK_NS,
            "two runs"
        );
        assert_eq!(bench.commit().await, 0, "nothing is dirty any more");
        let durable = bench.write(30, 1, Stability::FileSync).await;
        assert_eq!(durable, BLOCK_NS, "right behind the last");
    });
}

#[test]
fn dirty_blocks_are_written_back_before_they_leave() {
    with_bench(file_system(10, 0), 0, |bench| async move {
        assert_eq!(bench.write(0, 10, Stability::Unstable).await, 0);
        let took = bench.write(10, 5, Stability::Unstable).await;
        assert_eq!(
            took,
            SEEK_NS + 5 * BLOCK_NS,
            "room for five by writing the oldest five"
        );
        assert_eq!(bench.commit().await, 10 * BLOCK_NS, "the rest follows them");
    });
}
