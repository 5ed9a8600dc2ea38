//! Reads from servers' page caches without calls, while pages are evicted, servers crash, and files are truncated,
//! removed and created again.

use crate::common::{Bed, noise, read, root, until, write};
use gannet_runtime::{Buffer, both, sleep};
use gannet_sim::store::DiskProfile;
use gannet_sim::{Crash, World};
use gannet_vfs::{CreateMode, EntryName, FileHandle, SetAttributes, Stability, Vfs};
use gannet_volume::client::{Optimistic, ReadOptions, VolumeFs};
use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

const BLOCK: usize = 4096;
const LEN: usize = 64 * BLOCK;

fn run<F: Future<Output = ()> + 'static>(
    seed: u64,
    servers: usize,
    story: impl FnOnce(Rc<Bed>) -> F,
) {
    let world = World::new(seed);
    let bed = Bed::new(&world, servers);
    world.run(story(bed)).unwrap();
}

fn client(bed: &Bed, optimistic: Optimistic) -> VolumeFs {
    bed.mount().with_reads(ReadOptions {
        optimistic,
        ..ReadOptions::default()
    })
}

async fn create(fs: &VolumeFs, name: &str) -> FileHandle {
    let mode = CreateMode::Guarded(SetAttributes::default());
    let made = fs.create(&root(), &fs.root(), name.as_bytes(), &mode).await;
    made.result.unwrap().handle
}

async fn write_sync(fs: &VolumeFs, file: &FileHandle, offset: u64, bytes: Vec<u8>) {
    let (caller, len) = (root(), bytes.len());
    let buffer = Buffer::from_vec(bytes);
    let written = fs.write(&caller, file, offset, buffer, 0..len, Stability::FileSync);
    written.await.result.unwrap();
}

async fn resize(fs: &VolumeFs, file: &FileHandle, size: u64) {
    let change = SetAttributes {
        size: Some(size),
        ..SetAttributes::default()
    };
    let set = fs.set_attributes(&root(), file, &change, None).await;
    set.result.unwrap();
}

async fn block(fs: &VolumeFs, file: &FileHandle, block: usize) -> Vec<u8> {
    read(fs, file, (block * BLOCK) as u64, BLOCK).await
}

/// Makes a client know the references of a whole file, and checks that it reads by them.
async fn warm(fs: &VolumeFs, file: &FileHandle, bytes: &[u8]) {
    for _ in 0..3 {
        for (at, expected) in bytes.chunks(BLOCK).enumerate() {
            assert!(block(fs, file, at).await == expected, "block {at}");
        }
    }
    let before = fs.optimistic_counters().reads;
    for (at, expected) in bytes.chunks(BLOCK).enumerate() {
        assert!(block(fs, file, at).await == expected, "block {at}");
    }
    let by_reference = fs.optimistic_counters().reads - before;
    assert_eq!(by_reference, bytes.len().div_ceil(BLOCK) as u64);
}

fn page_out(bed: &Bed, per_mille: u64) {
    bed.io_servers
        .iter()
        .for_each(|it| it.disk.page_out(per_mille));
}

/// Blocks whose bytes are the numbers of their writes.
struct Versions {
    acknowledged: RefCell<Vec<u8>>,
    begun: RefCell<Vec<u8>>,
}

impl Versions {
    async fn write(&self, fs: &VolumeFs, file: &FileHandle, at: usize) {
        let version = self.begun.borrow()[at] + 1;
        self.begun.borrow_mut()[at] = version;
        let bytes = vec![version; BLOCK];
        write_sync(fs, file, (at * BLOCK) as u64, bytes).await;
        self.acknowledged.borrow_mut()[at] = version;
    }

    async fn check(&self, fs: &VolumeFs, file: &FileHandle, at: usize) {
        let least = self.acknowledged.borrow()[at];
        let bytes = block(fs, file, at).await;
        let most = self.begun.borrow()[at];
        assert_eq!(bytes.len(), BLOCK);
        let right = bytes.iter().all(|byte| (least..=most).contains(byte));
        assert!(right, "block {at}: {} of {least} to {most}", bytes[0]);
    }
}

#[test]
fn every_byte_comes_right_while_the_page_cache_is_dropped() {
    run(1, 3, |bed| async move {
        let ways = [
            Optimistic::On,
            Optimistic::On,
            Optimistic::Auto,
            Optimistic::Off,
        ];
        let clients: Vec<VolumeFs> = ways.iter().map(|way| client(&bed, *way)).collect();
        let file = create(&clients[0], "file").await;
        write_sync(&clients[0], &file, 0, vec![0; LEN]).await;
        // The third decides by itself: here a call takes as long as a read by reference.
        for fs in &clients[..2] {
            warm(fs, &file, &vec![0; LEN]).await;
        }
        let before: Vec<_> = clients.iter().map(VolumeFs::optimistic_counters).collect();
        let versions = Versions {
            acknowledged: RefCell::new(vec![0; LEN / BLOCK]),
            begun: RefCell::new(vec![0; LEN / BLOCK]),
        };
        let work = async |number: usize| {
            let fs = &clients[number];
            for turn in 0..400 {
                let random = bed.client.runtime().random() as usize;
                let at = random % (LEN / BLOCK);
                // Each client writes blocks of its own, and all clients read all blocks.
                if turn % 8 == 0 {
                    versions.write(fs, &file, at / 4 * 4 + number).await;
                }
                versions.check(fs, &file, at).await;
            }
        };
        let dropping = async {
            for turn in 0.. {
                page_out(&bed, [1000, 100, 500][turn % 3]);
                sleep(&bed.client.runtime(), Duration::from_micros(500)).await;
            }
        };
        let loads = both(both(work(0), work(1)), both(work(2), work(3)));
        until(loads, dropping).await;
        for (fs, before) in clients[..2].iter().zip(&before) {
            let now = fs.optimistic_counters();
            assert!(now.reads > before.reads, "{now:?}");
            assert!(now.refused > before.refused, "{now:?}");
        }
        assert_eq!(clients[3].optimistic_counters().reads, 0);
        // References work as before, once pages stay in memory.
        let written = versions.acknowledged.borrow().clone();
        let bytes: Vec<u8> = written.iter().flat_map(|it| [*it; BLOCK]).collect();
        for fs in &clients[..2] {
            warm(fs, &file, &bytes).await;
        }
    });
}

#[test]
fn a_server_that_was_restarted_is_reached_anew() {
    run(2, 2, |bed| async move {
        let (fs, other) = (client(&bed, Optimistic::On), client(&bed, Optimistic::On));
        let file = create(&fs, "file").await;
        write_sync(&fs, &file, 0, noise(LEN, 1)).await;
        warm(&fs, &file, &noise(LEN, 1)).await;
        for how in [Crash::Process, Crash::Power] {
            bed.volume.kill_io_server(1, how);
            bed.faults().restart(bed.io_servers[1].node.id());
            bed.start_io_server(1);
            // Another client meets the new incarnation first.
            write_sync(&other, &file, 0, noise(LEN, 2)).await;
            for at in 0..LEN / BLOCK {
                let expected = &noise(LEN, 2)[at * BLOCK..][..BLOCK];
                assert!(block(&fs, &file, at).await == expected);
            }
            warm(&fs, &file, &noise(LEN, 2)).await;
            write_sync(&other, &file, 0, noise(LEN, 1)).await;
            warm(&fs, &file, &noise(LEN, 1)).await;
        }
    });
}

#[test]
fn a_file_made_anew_never_has_bytes_of_the_old_one() {
    run(3, 2, |bed| async move {
        let (fs, writer) = (client(&bed, Optimistic::On), client(&bed, Optimistic::Auto));
        let caller = root();
        let mut old = create(&writer, "file").await;
        write_sync(&writer, &old, 0, noise(LEN, 0)).await;
        for salt in 1..12_u8 {
            warm(&fs, &old, &noise(LEN, salt - 1)).await;
            let (new, len) = match salt % 2 {
                0 => {
                    let removed = writer.remove(&caller, &writer.root(), b"file").await;
                    removed.result.unwrap();
                    (create(&writer, "file").await, LEN)
                }
                _ => {
                    let new = create(&writer, "other").await;
                    let directory = writer.root();
                    let from = EntryName::new(&directory, b"other");
                    let to = EntryName::new(&directory, b"file");
                    let renamed = writer.rename(&caller, from, to).await;
                    renamed.0.unwrap();
                    (new, LEN)
                }
            };
            let (found, _) = fs.lookup(&caller, &fs.root(), b"file").await.0.unwrap();
            assert_eq!(found, new);
            assert!(block(&fs, &found, 0).await.is_empty());
            write_sync(&writer, &new, 0, noise(len, salt)).await;
            warm(&fs, &found, &noise(len, salt)).await;
            // The old handle reads bytes of the old file or none.
            let reply = fs.read(&caller, &old, 0, BLOCK as u32).await;
            if let Ok(reply) = reply {
                let mut bytes = vec![0; reply.count as usize];
                reply.file.try_read_at(0, &mut bytes).unwrap();
                assert!(noise(LEN, salt - 1).starts_with(&bytes));
            }
            old = new;
        }
        assert!(fs.optimistic_counters().reads > 0);
    });
}

#[test]
fn what_was_cut_away_reads_as_zeros() {
    run(4, 3, |bed| async move {
        let (fs, writer) = (client(&bed, Optimistic::On), client(&bed, Optimistic::Auto));
        let file = create(&writer, "file").await;
        for (salt, cut) in [
            (1, 100),
            (2, BLOCK),
            (3, 0),
            (4, 5 * BLOCK + 1),
            (5, LEN - 1),
        ] {
            let mut expected = noise(LEN, salt);
            write_sync(&writer, &file, 0, expected.clone()).await;
            warm(&fs, &file, &expected).await;
            resize(&writer, &file, cut as u64).await;
            assert!(block(&fs, &file, LEN / BLOCK - 1).await.len() < BLOCK);
            match salt % 2 {
                0 => resize(&writer, &file, LEN as u64).await,
                _ => write_sync(&writer, &file, LEN as u64 - 1, vec![0]).await,
            }
            expected[cut..].fill(0);
            for (at, expected) in expected.chunks(BLOCK).enumerate() {
                let bytes = block(&fs, &file, at).await;
                assert!(bytes == expected, "block {at}, cut to {cut}");
            }
        }
    });
}

#[test]
fn a_new_term_of_the_manager_ends_references() {
    run(5, 2, |bed| async move {
        let (fs, other) = (client(&bed, Optimistic::On), client(&bed, Optimistic::On));
        let file = create(&fs, "file").await;
        write_sync(&fs, &file, 0, noise(LEN, 1)).await;
        warm(&fs, &file, &noise(LEN, 1)).await;
        bed.kill_manager(Crash::Process);
        bed.faults().restart(bed.manager.id());
        bed.start_manager();
        // The servers hear of the new term with the first write.
        write_sync(&other, &file, 0, noise(LEN, 2)).await;
        let before = fs.optimistic_counters();
        for at in 0..LEN / BLOCK {
            let expected = &noise(LEN, 2)[at * BLOCK..][..BLOCK];
            assert!(block(&fs, &file, at).await == expected);
        }
        let now = fs.optimistic_counters();
        assert!(now.refused_keys > before.refused_keys, "{now:?}");
        warm(&fs, &file, &noise(LEN, 2)).await;
    });
}

/// The time of 4000 reads of a file whose pages are evicted before each read.
async fn time_of_stale_reads(bed: &Bed, fs: &VolumeFs, file: &FileHandle) -> Duration {
    let runtime = bed.client.runtime();
    let mut took = Duration::ZERO;
    for turn in 0..4000 {
        page_out(bed, 1000);
        let since = runtime.now();
        let bytes = block(fs, file, turn % (LEN / BLOCK)).await;
        took += runtime.now() - since;
        assert_eq!(bytes.len(), BLOCK);
    }
    took
}

#[test]
fn where_everything_is_stale_the_policy_goes_back_to_calls() {
    run(6, 1, |bed| async move {
        bed.io_servers[0].disk.set_profile(DiskProfile {
            slow_per_mille: 1000,
            delay_max_ns: 100_000,
            ..DiskProfile::default()
        });
        let [auto, off] = [Optimistic::Auto, Optimistic::Off].map(|way| client(&bed, way));
        let file = create(&off, "file").await;
        write(&off, &file, 0, &noise(LEN, 1)).await.unwrap();
        warm(&auto, &file, &noise(LEN, 1)).await;
        for at in 0..LEN / BLOCK {
            block(&off, &file, at).await;
        }
        let called = time_of_stale_reads(&bed, &off, &file).await;
        let adaptive = time_of_stale_reads(&bed, &auto, &file).await;
        let counters = auto.optimistic_counters();
        assert!(counters.refused > 0, "{counters:?}");
        assert!(
            adaptive < called.mul_f64(1.05),
            "{adaptive:?} against {called:?}, {counters:?}"
        );
    });
}

#[test]
fn a_client_does_not_remember_what_it_has_cut_off() {
    run(9, 2, |bed| async move {
        let fs = bed.mount().with_reads(ReadOptions {
            cache_len: 1 << 20,
            cache_age: Duration::from_secs(60),
            ..ReadOptions::default()
        });
        let file = create(&fs, "file").await;
        write_sync(&fs, &file, 0, vec![7; LEN]).await;
        for at in 0..LEN / BLOCK {
            assert!(block(&fs, &file, at).await == [7; BLOCK]);
        }
        let hits = fs.optimistic_counters().memory.cache_hits;
        assert!(block(&fs, &file, 5).await == [7; BLOCK]);
        assert!(
            fs.optimistic_counters().memory.cache_hits > hits,
            "no cache"
        );
        resize(&fs, &file, BLOCK as u64).await;
        resize(&fs, &file, LEN as u64).await;
        assert!(block(&fs, &file, 0).await == [7; BLOCK]);
        assert!(block(&fs, &file, 5).await == [0; BLOCK]);
    });
}

/// A client knows the references of many small files when its connection breaks. After one read of one of them, it
/// reads all others without a call.
#[test]
fn a_new_connection_brings_the_references_of_all_files_known_before() {
    const FILES: usize = 150;
    run(31, 1, |bed| async move {
        let fs = client(&bed, Optimistic::On);
        let mut files = Vec::new();
        for number in 0..FILES {
            let file = create(&fs, &format!("small {number}")).await;
            write_sync(&fs, &file, 0, noise(BLOCK, number as u8)).await;
            warm(&fs, &file, &noise(BLOCK, number as u8)).await;
            files.push(file);
        }
        let node = bed.io_servers[0].node.id();
        while bed.faults().reset_a_connection(node) {}
        assert!(block(&fs, &files[7], 0).await == noise(BLOCK, 7));
        sleep(&bed.client.runtime(), Duration::from_secs(1)).await;
        let before = fs.optimistic_counters();
        for (number, file) in files.iter().enumerate() {
            assert!(block(&fs, file, 0).await == noise(BLOCK, number as u8));
        }
        let after = fs.optimistic_counters();
        assert_eq!(after.reads - before.reads, FILES as u64, "{after:?}");
        assert_eq!(after.refused, before.refused);
    });
}
