//! What a connection leaves behind when it breaks, and who comes after it.
#![allow(clippy::unwrap_used)]

#[path = "common/servers.rs"]
mod servers;

use gannet_runtime::{Handle, sleep, timeout};
use gannet_sim::store::{Disk, DiskProfile};
use gannet_volume::client::data::Target;
use gannet_volume::link::Session;
use servers::{Bed, connect_all, connect_as, noise, read, write};
use std::time::Duration;

const UNIT: u32 = 1 << 20;
const LEN: usize = 10_000;
/// How long the disk takes when it is slow, at most.
const SLOW: Duration = Duration::from_secs(2);

/// Breaks the connection when a write is on its way to the disk, which is slow for that one alone.
async fn leave_a_write(runtime: &Handle, targets: &[Target], disk: &Disk) {
    write(targets, 0, noise(LEN, 1)).await;
    disk.set_profile(DiskProfile {
        slow_per_mille: 1000,
        delay_max_ns: SLOW.as_nanos() as u64,
        ..DiskProfile::default()
    });
    let first = write(targets, 0, noise(LEN, 2));
    let first = timeout(runtime, Duration::from_millis(5), first).await;
    assert!(first.is_err(), "the disk is slow");
    targets[0].link.abort("the test breaks it");
    disk.set_profile(DiskProfile::default());
}

/// A write is on its way to a slow disk when its connection breaks. Its client connects again, writes something else to
/// the same place, and the first write must not come to the disk behind it.
#[test]
fn a_write_of_a_broken_connection_does_not_happen_after_later_ones() {
    for seed in 1..20 {
        let bed = Bed::new(seed, 1);
        let (addresses, disk) = (bed.addresses(), bed.disks[0].clone());
        let (fabric, client) = (bed.fabric, bed.client);
        let done = bed.world.run(async move {
            let runtime = client.runtime();
            let session = Session::new(&runtime);
            let targets = connect_as(session, &fabric, &client, &addresses, UNIT).await;
            leave_a_write(&runtime, &targets, &disk).await;
            let targets = connect_as(session, &fabric, &client, &addresses, UNIT).await;
            write(&targets, 0, noise(LEN, 3)).await;
            sleep(&runtime, 2 * SLOW).await;
            assert!(read(&targets, 0, LEN).await == noise(LEN, 3));
        });
        done.unwrap();
    }
}

/// Others need not wait for what a broken connection has left.
#[test]
fn other_clients_are_let_in_meanwhile() {
    let bed = Bed::new(1, 1);
    let (addresses, disk) = (bed.addresses(), bed.disks[0].clone());
    let (fabric, client) = (bed.fabric, bed.client);
    let faults = bed.world.faults();
    let done = bed.world.run(async move {
        let runtime = client.runtime();
        let session = Session::new(&runtime);
        let targets = connect_as(session, &fabric, &client, &addresses, UNIT).await;
        leave_a_write(&runtime, &targets, &disk).await;
        let before = faults.now_ns();
        let others = connect_all(&fabric, &client, &addresses, UNIT).await;
        write(&others, UNIT.into(), noise(LEN, 3)).await;
        assert!(faults.now_ns() - before < 50_000_000);
    });
    done.unwrap();
}
