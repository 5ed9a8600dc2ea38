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
const STEPS: u32 = 45;
const STEP: Duration = Duration::from_micros(10);
/// Objects of removed files are gone after this time.
const REMOVAL_TIME: Duration = Duration::from_secs(240);

/// Removes the open file of one mount. The first removal is dropped after `patience`; the file is removed once more, by
/// the other mount if `by_other`. Gives whether the first was dropped.
fn remove_twice(seed: u64, patience: Duration, by_other: bool) -> bool {
    let world = World::new(seed);
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
        let removal = timeout(&runtime, patience, one.remove(ROOT, b"file"));
        let is_dropped = removal.await.is_err();
        let remover = if by_other { &other } else { &one };
        let _ = remover.remove(ROOT, b"file").await;
        // Longer than between two renewals, with which the manager hears what it missed.
        sleep(&runtime, Duration::from_secs(25)).await;
        let read = one.read(open, 0, 10_000).await;
        // The other mount may have been first.
        if !(is_dropped && by_other) {
            assert_eq!(read.unwrap(), [7; 10_000], "dropped after {patience:?}");
        }
        one.release(open).await;
        sleep(&runtime, REMOVAL_TIME).await;
        assert_eq!(bed.objects(), 0, "dropped after {patience:?}");
        is_dropped
    });
    told.unwrap()
}

/// Nobody knows at which moment the manager keeps the file and its name goes.
#[test]
fn a_removal_that_is_dropped_at_any_moment_neither_loses_an_open_file_nor_keeps_it() {
    for by_other in [false, true] {
        let dropped = (0..STEPS)
            .filter(|step| remove_twice(u64::from(*step), *step * STEP, by_other))
            .count();
        let some = STEPS as usize / 4..STEPS as usize;
        assert!(some.contains(&dropped), "{dropped} were dropped");
    }
}
