//! Mounts of a volume whose I/O servers' clocks differ.

use crate::mounts::{CACHE_AGE, mount};
use gannet_dst::volume::{Bed, Carrier};
use gannet_fuse::headless::{Headless, ROOT};
use gannet_runtime::sleep;
use gannet_sim::World;
use gannet_sim::fabric::{FabricProfile, SimFabric};
use gannet_vfs::Stability;
use gannet_volume::client::VolumeFs;

/// Bytes of a stripe.
const UNIT: u32 = 4096;
/// How far the clock of one server is ahead.
const SKEW_SECONDS: i64 = 5;

/// A program with a mounted file that every process of its machine looks up and opens.
async fn write(mount: &Headless<VolumeFs>, number: u64, offset: u64, bytes: &[u8]) {
    let file = mount.open(number, 1).await.unwrap();
    let written = mount.write(file, offset, bytes, Stability::Unstable);
    written.await.unwrap();
    mount.sync(file).await.unwrap();
    mount.release(file).await;
}

/// A write at a server whose clock is behind leaves the file's time as it is, and here its length too.
#[test]
fn a_write_that_moves_no_time_is_seen_by_the_next_open_and_by_an_open_file() {
    for ahead in 0..2 {
        let world = World::new(ahead as u64);
        let carrier = Carrier::Memory(SimFabric::new(&world, FabricProfile::default()));
        let bed = Bed::new(&world, carrier, 2, UNIT);
        let (here, there) = (world.add_node("here"), world.add_node("there"));
        let told = world.run(async move {
            let node = bed.io_servers[ahead].node.id();
            bed.faults().set_clock(node, SKEW_SECONDS);
            bed.start();
            let (one, other) = (mount(&bed, &here), mount(&bed, &there));
            let made = other.create(ROOT, b"file").await.unwrap();
            other.release(made).await;
            let number = one.lookup(ROOT, b"file", 1).await.unwrap();
            let kept = one.open(number, 1).await.unwrap();
            for (round, letter) in (b'a'..b'g').enumerate() {
                // Both stripes in turn: one of the two servers is behind.
                let offset = u64::from(UNIT) * (round as u64 % 2);
                write(&other, made.number, 0, &[letter; 2 * UNIT as usize]).await;
                let first = one.open(number, 1).await.unwrap();
                assert_eq!(one.read(first, offset, 1).await.unwrap(), [letter]);
                one.release(first).await;

                write(&other, made.number, offset, b"+").await;
                let next = one.open(number, 1).await.unwrap();
                assert_eq!(one.read(next, offset, 1).await.unwrap(), b"+", "{ahead}");
                one.release(next).await;

                write(&other, made.number, offset, b"-").await;
                sleep(&here.runtime(), 2 * CACHE_AGE).await;
                assert_eq!(one.read(kept, offset, 1).await.unwrap(), b"-", "{ahead}");
            }
        });
        told.unwrap();
    }
}
