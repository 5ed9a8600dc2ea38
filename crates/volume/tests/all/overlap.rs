//! Concurrent writes of the same bytes: all end soon, and overwritten bytes do not come back.
#![allow(clippy::unwrap_used)]

use crate::common;

use common::{Bed, root};
use gannet_runtime::{Buffer, both};
use gannet_sim::World;
use gannet_sim::store::DiskProfile;
use gannet_vfs::{CreateMode, FileHandle, SetAttributes, Stability, Vfs};
use gannet_volume::client::VolumeFs;
use std::time::Duration;

const LONG: usize = 4 << 20;

/// A new file on a disk that takes up to 50 ms for each operation, and two clients.
fn run(seed: u64, story: impl AsyncFnOnce(&Bed, [VolumeFs; 2], FileHandle) + 'static) {
    let world = World::new(seed);
    let bed = Bed::new(&world, 1);
    let done = world.run(async move {
        let clients = [bed.mount(), bed.mount()];
        let mode = CreateMode::Guarded(SetAttributes::default());
        let (fs, caller) = (&clients[0], root());
        let made = fs.create(&caller, &fs.root(), b"file", &mode).await;
        let file = made.result.unwrap().handle;
        put(fs, &file, 0, LONG).await;
        bed.io_servers[0].disk.set_profile(DiskProfile {
            slow_per_mille: 1000,
            delay_max_ns: 50_000_000,
            ..DiskProfile::default()
        });
        story(&bed, clients, file).await;
    });
    done.unwrap();
}

/// Writes `len` bytes of `byte` from the start of a file.
async fn put(fs: &VolumeFs, file: &FileHandle, byte: u8, len: usize) {
    let (caller, buffer) = (root(), Buffer::from_vec(vec![byte; len]));
    let written = fs.write(&caller, file, 0, buffer, 0..len, Stability::FileSync);
    assert_eq!(written.await.result.unwrap().count as usize, len);
}

async fn first_byte(fs: &VolumeFs, file: &FileHandle) -> u8 {
    let buffer = Buffer::zeroed(1);
    let (read, buffer) = fs.read_into(&root(), file, 0, 1, buffer).await;
    assert_eq!(read.unwrap().count, 1);
    buffer.unwrap()[0]
}

#[test]
fn clients_that_write_the_same_at_once_come_to_an_end() {
    for seed in 1..10 {
        run(seed, async |bed, [one, two], file| {
            let runtime = bed.client.runtime();
            let before = runtime.now();
            put(&one, &file, 1, LONG).await;
            let alone = runtime.now() - before;
            let before = runtime.now();
            both(put(&one, &file, 1, LONG), put(&two, &file, 2, LONG)).await;
            let together = runtime.now() - before;
            assert!(together < 4 * alone, "{together:?}, and {alone:?} alone");
            // Two writes of one client too.
            let before = runtime.now();
            both(put(&one, &file, 1, LONG), put(&one, &file, 2, LONG)).await;
            let together = runtime.now() - before;
            assert!(together < 4 * alone, "{together:?}, and {alone:?} alone");
        });
    }
}

/// A long write is under way, and its first bytes are visible. Another client overwrites them, and they do not come
/// back.
#[test]
fn overwritten_bytes_do_not_come_back() {
    for seed in 1..20 {
        run(seed, async |bed, [one, two], file| {
            let short = async {
                while first_byte(&two, &file).await != 1 {}
                put(&two, &file, 2, 100).await;
            };
            both(put(&one, &file, 1, LONG), short).await;
            gannet_runtime::sleep(&bed.client.runtime(), Duration::from_secs(1)).await;
            assert_eq!(first_byte(&one, &file).await, 2);
        });
    }
}
