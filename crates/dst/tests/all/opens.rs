//! Programs that open a file which another host has just made longer.

use crate::mounts::{CACHE_AGE, mount};
use gannet_dst::volume::{Bed, Carrier};
use gannet_fuse::headless::ROOT;
use gannet_runtime::sleep;
use gannet_sim::World;
use gannet_sim::fabric::{FabricProfile, SimFabric};
use gannet_vfs::Stability;
use std::time::Duration;

/// A lookup, an open and a read take fewer steps than these.
const STEPS: u32 = 100;
const STEP: Duration = Duration::from_micros(10);

/// The mount follows its open files: at any moment of the open and the first read it may have the kernel drop pages,
/// and the kernel then ignores the attributes that are under way.
#[test]
fn the_first_read_finds_all_bytes_whenever_the_mount_looks_after_open_files() {
    for step in 0..STEPS {
        let world = World::new(u64::from(step));
        let carrier = Carrier::Memory(SimFabric::new(&world, FabricProfile::default()));
        let bed = Bed::new(&world, carrier, 2, 4096);
        let (here, there) = (world.add_node("here"), world.add_node("there"));
        let told = world.run(async move {
            bed.start();
            let runtime = here.runtime();
            let (one, other) = (mount(&bed, &here), mount(&bed, &there));
            let mounted = runtime.now();
            let made = other.create(ROOT, b"file").await.unwrap();
            let number = one.lookup(ROOT, b"file", 1).await.unwrap();
            let written = other.write(made, 0, &[7; 5000], Stability::FileSync);
            written.await.unwrap();
            // The mount looks once in each age.
            let looks = mounted + 8 * CACHE_AGE;
            sleep(&runtime, looks.duration_since(runtime.now()) - step * STEP).await;
            assert_eq!(one.lookup(ROOT, b"file", 1).await.unwrap(), number);
            let open = one.open(number, 1).await.unwrap();
            // The file is of another state than at the open, with the same bytes.
            one.remove(ROOT, b"file").await.unwrap();
            let read = one.read(open, 0, 10_000).await.unwrap();
            assert_eq!(read.len(), 5000, "step {step}");
        });
        told.unwrap();
    }
}
