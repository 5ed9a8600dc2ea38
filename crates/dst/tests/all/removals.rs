//! Removals of open files that a deadline drops.

use crate::mounts::mount;
use gannet_dst::volume::{Bed, Carrier};
use gannet_fuse::headless::ROOT;
use gannet_runtime::{sleep, timeout};
use gannet_sim::World;
use gannet_sim::fabric::{FabricProfile, SimFabric};
use gannet_vfs::Stability;
use std::time::Duration;

/// A removal has ended within this many steps.
const STEPS: u32 = 60;
const STEP: Duration = Duration::from_micros(10);
/// Objects of removed files are gone after this time.
const REMOVAL_TIME: Duration = Duration::from_secs(240);

/// Nobody knows at which moment the manager keeps the file and its name goes.
#[test]
fn a_removal_that_is_dropped_at_any_moment_keeps_no_file() {
    let mut dropped = 0;
    for step in 0..STEPS {
        let world = World::new(u64::from(step));
        let carrier = Carrier::Memory(SimFabric::new(&world, FabricProfile::default()));
        let bed = Bed::new(&world, carrier, 2, 4096);
        let (here, there) = (world.add_node("here"), world.add_node("there"));
        let told = world.run(async move {
            bed.start();
            let (one, other) = (mount(&bed, &here), mount(&bed, &there));
            // An empty file without a name: the manager hears of this client all the time.
            one.create(ROOT, b"first").await.unwrap();
            one.remove(ROOT, b"first").await.unwrap();
            let open = one.create(ROOT, b"file").await.unwrap();
            let written = one.write(open, 0, &[7; 10_000], Stability::FileSync);
            written.await.unwrap();
            let runtime = here.runtime();
            let removal = timeout(&runtime, step * STEP, one.remove(ROOT, b"file"));
            let is_dropped = removal.await.is_err();
            let _ = other.remove(ROOT, b"file").await;
            // Open, it has its bytes.
            sleep(&runtime, Duration::from_secs(20)).await;
            let is_there = one.read(open, 0, 10_000).await;
            one.release(open).await;
            sleep(&runtime, REMOVAL_TIME).await;
            assert_eq!(bed.objects(), 0, "dropped after {:?}", step * STEP);
            (is_dropped, is_there)
        });
        let (is_dropped, read) = told.unwrap();
        dropped += u32::from(is_dropped);
        if !is_dropped {
            assert_eq!(read.unwrap(), [7; 10_000]);
        }
    }
    assert!(
        (STEPS / 4..STEPS).contains(&dropped),
        "{dropped} were dropped"
    );
}
