//! A WRITE counts only if its answer comes before the end of the lease by which it was made.
#![allow(clippy::unwrap_used)]

use crate::common;

use common::{VOLUME_UNIT, noise, read, root, write};
use gannet_dst::volume::{Bed, Carrier};
use gannet_runtime::{both, sleep};
use gannet_sim::World;
use gannet_vfs::{CreateMode, SetAttributes, Status, Vfs};
use gannet_volume::limits::{CAPABILITY_AGE, GIVE_BACK_AFTER, OPERATION_DEADLINE};
use std::time::Duration;

/// The remaining time of a lease at which the client stops using it for new writes.
const LAST_USE: Duration = CAPABILITY_AGE.checked_div(4).unwrap();
/// A short time before that.
const SHORTLY: Duration = Duration::from_secs(1);

/// Writes by a lease with some 16 seconds to go. The answer is delayed by `held_up`, and the manager cannot grant
/// another lease. Returns the client's result and whether the bytes are there.
fn write_answered_after(held_up: Duration) -> (Result<(), Status>, bool) {
    let world = World::new(7);
    let faults = world.faults();
    let bed = Bed::new(&world, Carrier::iwarp(), 1, VOLUME_UNIT);
    let node = world.add_node("client");
    let done = world.run(async move {
        bed.start();
        let (runtime, fs) = (node.runtime(), bed.mount(&node));
        let how = CreateMode::Guarded(SetAttributes::default());
        let (caller, top) = (root(), fs.root());
        let made = fs.create(&caller, &top, b"file", &how).await;
        let file = made.result.unwrap().handle;
        // The client keeps the lease as long as it uses it.
        let began = runtime.now();
        while runtime.now() + SHORTLY < began + (CAPABILITY_AGE - LAST_USE) {
            write(&fs, &file, 0, &noise(1000, 1)).await.unwrap();
            sleep(&runtime, GIVE_BACK_AFTER / 2).await;
        }
        let (manager, server) = (bed.manager.id(), bed.io_servers[0].node.id());
        faults.partition(node.id(), manager);
        faults.partition(node.id(), server);
        let late = async {
            sleep(&runtime, held_up).await;
            faults.heal(node.id(), server);
        };
        let second = noise(1000, 2);
        let written = write(&fs, &file, 0, &second);
        let (written, ()) = both(written, late).await;
        faults.heal(node.id(), manager);
        sleep(&runtime, OPERATION_DEADLINE).await;
        let there = read(&fs, &file, 0, 1000).await == second;
        (written, there)
    });
    done.unwrap()
}

#[test]
fn an_answer_within_the_lease_counts() {
    let (written, there) = write_answered_after(LAST_USE - SHORTLY);
    assert_eq!((written, there), (Ok(()), true));
}

#[test]
fn an_answer_after_the_lease_does_not_count() {
    let (written, there) = write_answered_after(LAST_USE + 2 * SHORTLY);
    assert_eq!(written, Err(Status::Jukebox));
    assert!(
        there,
        "the server has done it, and its client does not know"
    );
}
