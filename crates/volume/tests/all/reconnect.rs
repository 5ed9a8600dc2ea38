//! The writes that a broken connection leaves, and later writes of the same bytes.
#![allow(clippy::unwrap_used)]

use crate::servers;

use gannet_runtime::{Handle, all, both, sleep, timeout};
use gannet_sim::Crash;
use gannet_sim::store::{Disk, DiskProfile};
use gannet_volume::client::data::Target;
use gannet_volume::limits::CREDITS;
use gannet_volume::link::{EndReason, Session};
use servers::{Bed, connect_all, connect_as, noise, read, try_write, write};
use std::time::Duration;

const UNIT: u32 = 1 << 20;
const LEN: usize = 10_000;
/// The longest delay of a slow disk.
const SLOW: Duration = Duration::from_secs(2);

fn slow() -> DiskProfile {
    DiskProfile {
        slow_per_mille: 1000,
        delay_max_ns: SLOW.as_nanos() as u64,
        ..DiskProfile::default()
    }
}

/// Breaks the connection during a write to the disk, which is slow for that write alone.
async fn leave_a_write(runtime: &Handle, targets: &[Target], disk: &Disk) {
    give_a_write_up(runtime, targets, disk).await;
    targets[0].link.abort(EndReason::Replaced);
}

/// Abandons a write on its way to the disk, which is slow for that write alone.
async fn give_a_write_up(runtime: &Handle, targets: &[Target], disk: &Disk) {
    write(targets, 0, noise(LEN, 1)).await;
    disk.set_profile(slow());
    let first = write(targets, 0, noise(LEN, 2));
    let first = timeout(runtime, Duration::from_millis(5), first).await;
    assert!(first.is_err(), "the disk is slow");
    disk.set_profile(DiskProfile::default());
}

/// A write is on its way to a slow disk when its connection breaks. Its client connects again, and writes other bytes
/// to the same place. The first write must not reach the disk after them.
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
            let targets = loop {
                let targets = connect_as(session, &fabric, &client, &addresses, UNIT).await;
                // The server refuses the write while the earlier one is under way: the client must connect again.
                if try_write(&targets, 0, noise(LEN, 3)).await.is_ok() {
                    break targets;
                }
            };
            sleep(&runtime, 2 * SLOW).await;
            assert!(read(&targets, 0, LEN).await == noise(LEN, 3));
        });
        done.unwrap();
    }
}

/// A write is on its way to a slow disk when its connection breaks. Its client connects again, sends another write,
/// and crashes before the first is over. Bytes that another client writes there meanwhile stay.
#[test]
fn a_client_that_dies_before_authentication_changes_nothing() {
    for seed in 1..40 {
        let bed = Bed::new(seed, 1);
        let (addresses, disk, another) = (bed.addresses(), bed.disks[0].clone(), bed.add_client());
        let (fabric, client, faults) = (bed.fabric, bed.client, bed.world.faults());
        let how = match seed % 2 {
            0 => Crash::Process,
            _ => Crash::Power,
        };
        let done = bed.world.run(async move {
            let (runtime, session) = (another.runtime(), Session::new(&client.runtime()));
            let targets = connect_as(session, &fabric, &client, &addresses, UNIT).await;
            leave_a_write(&runtime, &targets, &disk).await;
            let targets = connect_as(session, &fabric, &client, &addresses, UNIT).await;
            let second = try_write(&targets, 1000, noise(100, 3));
            let second = timeout(&runtime, Duration::from_millis(5), second).await;
            faults.crash(client.id(), how);
            let others = connect_all(&fabric, &another, &addresses, UNIT).await;
            write(&others, 1000, noise(100, 4)).await;
            sleep(&runtime, 2 * SLOW).await;
            let there = read(&others, 1000, 100).await;
            assert!(there == noise(100, 4), "{seed}: {:?}", second.is_ok());
        });
        done.unwrap();
    }
}

/// A write is on its way to a slow disk when its client crashes or abandons it. A later write to the same place
/// follows, and the first one must not reach the disk after it.
#[test]
fn an_abandoned_write_does_not_happen_after_later_writes() {
    for seed in 1..40 {
        let bed = Bed::new(seed, 1);
        let (addresses, disk) = (bed.addresses(), bed.disks[0].clone());
        let (fabric, client, another) = (&bed.fabric, &bed.client, bed.add_client());
        let (fabric, client) = (fabric.clone(), client.clone());
        let dies = seed % 2 == 0;
        let done = bed.world.run(async move {
            let runtime = client.runtime();
            let mut targets = connect_all(&fabric, &client, &addresses, UNIT).await;
            give_a_write_up(&runtime, &targets, &disk).await;
            if dies {
                targets = connect_all(&fabric, &another, &addresses, UNIT).await;
            }
            write(&targets, 1000, noise(100, 3)).await;
            sleep(&runtime, 2 * SLOW).await;
            assert!(read(&targets, 1000, 100).await == noise(100, 3));
        });
        done.unwrap();
    }
}

/// Writes to a slow disk use up all credits. The client abandons one more write before it is sent, and another client
/// writes the same place. The abandoned write must not be sent after that.
#[test]
fn a_write_abandoned_before_it_is_sent_is_never_sent() {
    // In the message, and through eager buffers.
    for len in [100, LEN] {
        let bed = Bed::new(1, 1);
        let (addresses, disk, another) = (bed.addresses(), bed.disks[0].clone(), bed.add_client());
        let (fabric, client) = (bed.fabric, bed.client);
        let done = bed.world.run(async move {
            let runtime = client.runtime();
            let targets = connect_all(&fabric, &client, &addresses, UNIT).await;
            let others = connect_all(&fabric, &another, &addresses, UNIT).await;
            // The first write makes the buffers.
            for salt in 0..3 {
                write(&targets, 0, noise(len, salt)).await;
                sleep(&runtime, Duration::from_millis(1)).await;
            }
            disk.set_profile(slow());
            let places = (0..u64::from(CREDITS)).map(|index| 100_000 + 1000 * index);
            let many = places.map(|offset| Box::pin(write(&targets, offset, noise(100, 5))));
            let rest = async {
                let given_up = write(&targets, 0, noise(len, 6));
                let given_up = timeout(&runtime, Duration::from_millis(5), given_up).await;
                assert!(given_up.is_err(), "there are no credits");
                disk.set_profile(DiskProfile::default());
                write(&others, 0, noise(len, 7)).await;
            };
            both(all(many), rest).await;
            sleep(&runtime, 2 * SLOW).await;
            assert!(read(&others, 0, len).await == noise(len, 7));
        });
        done.unwrap();
    }
}

/// Other clients do not wait for the writes of a broken connection.
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
