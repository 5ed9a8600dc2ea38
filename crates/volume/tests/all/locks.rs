//! File locks and appends of several clients, over crashes of clients and restarts of the manager.
#![allow(clippy::unwrap_used)]

use crate::common;

use common::{Bed, VOLUME_UNIT, noise, read, root, shared_file};
use gannet_runtime::{Buffer, both, sleep};
use gannet_sim::{Crash, World};
use gannet_vfs::{
    ByteLock, Credentials, FileHandle, LockKind, LockRequest, Locked, SetAttributes, Stability,
    Status, Vfs,
};
use gannet_volume::client::VolumeFs;
use gannet_volume::limits::{LOCK_LEASE, LOCK_RENEW, LOCK_SWEEP, LOCK_WAIT};
use std::rc::Rc;
use std::time::Duration;

fn run<F: Future<Output = ()> + 'static>(seed: u64, story: impl FnOnce(Rc<Bed>) -> F) {
    let world = World::new(seed);
    let bed = Bed::new(&world, 4);
    world.run(story(bed)).unwrap();
}

fn lock(owner: u64, start: u64, end: u64) -> ByteLock {
    ByteLock {
        owner,
        kind: LockKind::Exclusive,
        start,
        end,
        process: 42,
    }
}

fn whole(owner: u64) -> ByteLock {
    lock(owner, 0, u64::MAX)
}

async fn ask(
    fs: &VolumeFs,
    file: &FileHandle,
    lock: &ByteLock,
    request: LockRequest,
) -> Result<Locked, Status> {
    fs.lock(&root(), file, lock, request).await
}

#[test]
fn a_lock_of_one_client_keeps_others_out_until_it_is_released() {
    run(1, |bed| async move {
        let (one, other) = (bed.mount(), bed.mount());
        let file = shared_file(&[&one, &other]).await;
        let try_ = |fs, lock| async move { ask(fs, &file, &lock, LockRequest::Try).await };
        assert_eq!(try_(&one, lock(1, 10, 19)).await, Ok(Locked::Done));
        assert_eq!(try_(&other, lock(1, 0, 9)).await, Ok(Locked::Done));
        let denied = Ok(Locked::Denied(lock(1, 10, 19)));
        assert_eq!(try_(&other, whole(1)).await, denied);
        assert_eq!(try_(&one, lock(2, 10, 10)).await, denied, "another owner");
        let tested = ask(&other, &file, &whole(1), LockRequest::Test).await;
        assert_eq!(tested, denied);
        let (released, waited) = both(
            async {
                sleep(&bed.client.runtime(), LOCK_WAIT / 2).await;
                ask(&one, &file, &whole(1), LockRequest::Unlock).await
            },
            ask(&other, &file, &whole(1), LockRequest::Wait),
        )
        .await;
        assert_eq!((released, waited), (Ok(Locked::Done), Ok(Locked::Done)));
        let last = try_(&one, lock(1, 5, 5)).await;
        assert_eq!(last, Ok(Locked::Denied(whole(1))));
    });
}

#[test]
fn a_file_that_the_caller_may_not_use_is_not_locked() {
    run(2, |bed| async move {
        let fs = bed.mount();
        let file = shared_file(&[&fs]).await;
        let private = SetAttributes {
            mode: Some(0o600),
            ..SetAttributes::default()
        };
        let changed = fs.set_attributes(&root(), &file, &private, None).await;
        changed.result.unwrap();
        let stranger = Credentials::new(7, 7, &[]);
        let asked = fs.lock(&stranger, &file, &whole(1), LockRequest::Try).await;
        assert_eq!(asked, Err(Status::Acces));
        let backwards = lock(1, 5, 4);
        let asked = ask(&fs, &file, &backwards, LockRequest::Try).await;
        assert_eq!(asked, Err(Status::Inval));
        let directory = ask(&fs, &fs.root(), &whole(1), LockRequest::Try).await;
        assert_eq!(directory, Err(Status::Inval));
    });
}

#[test]
fn locks_of_a_client_that_died_go_with_its_lease_and_no_sooner() {
    let world = World::new(3);
    let bed = Bed::new(&world, 2);
    let dying = world.add_node("dying");
    let faults = world.faults();
    let done = world.run(async move {
        let (one, other) = (gannet_dst::volume::Bed::mount(&bed, &dying), bed.mount());
        let file = shared_file(&[&one, &other]).await;
        let locked = ask(&one, &file, &whole(1), LockRequest::Try).await;
        assert_eq!(locked, Ok(Locked::Done));
        // The client is up, and keeps its locks.
        sleep(&bed.client.runtime(), 3 * LOCK_LEASE).await;
        let denied = Ok(Locked::Denied(whole(1)));
        let tried = ask(&other, &file, &whole(1), LockRequest::Try).await;
        assert_eq!(tried, denied);
        faults.crash(dying.id(), Crash::Process);
        sleep(&bed.client.runtime(), LOCK_LEASE / 2).await;
        let tried = ask(&other, &file, &whole(1), LockRequest::Try).await;
        assert_eq!(tried, denied);
        sleep(&bed.client.runtime(), LOCK_LEASE / 2 + 2 * LOCK_SWEEP).await;
        let tried = ask(&other, &file, &whole(1), LockRequest::Try).await;
        assert_eq!(tried, Ok(Locked::Done));
    });
    done.unwrap();
}

#[test]
fn a_restarted_manager_gives_no_lock_to_another_before_it_was_reclaimed() {
    run(4, |bed| async move {
        let (one, other) = (bed.mount(), bed.mount());
        let file = shared_file(&[&one, &other]).await;
        let locked = ask(&one, &file, &whole(1), LockRequest::Try).await;
        assert_eq!(locked, Ok(Locked::Done));
        bed.kill_manager(Crash::Process);
        bed.start_manager();
        // The request comes at once, and the manager answers it when the other client has reclaimed its lock.
        let tried = ask(&other, &file, &lock(9, 5, 5), LockRequest::Try).await;
        assert_eq!(tried, Ok(Locked::Denied(whole(1))));
        let released = ask(&one, &file, &whole(1), LockRequest::Unlock).await;
        assert_eq!(released, Ok(Locked::Done));
        let tried = ask(&other, &file, &lock(9, 5, 5), LockRequest::Try).await;
        assert_eq!(tried, Ok(Locked::Done));
        // The manager learns the lock of the remaining client too.
        bed.kill_manager(Crash::Process);
        bed.start_manager();
        let tried = ask(&one, &file, &whole(1), LockRequest::Try).await;
        assert_eq!(tried, Ok(Locked::Denied(lock(9, 5, 5))));
    });
}

/// The unlock is the first request that the client sends to the restarted manager, which does not know the lock yet.
#[test]
fn a_lock_that_is_released_after_a_restart_is_not_reclaimed() {
    run(6, |bed| async move {
        let (one, other) = (bed.mount(), bed.mount());
        let file = shared_file(&[&one, &other]).await;
        for locked in [whole(1), lock(2, 5, 9)] {
            let tried = ask(&one, &file, &locked, LockRequest::Try).await;
            assert_eq!(tried, Ok(Locked::Done));
            bed.kill_manager(Crash::Process);
            bed.start_manager();
            // Until the manager answers, an unlock is owed. Later the client renews its lease, and reclaims the lock.
            sleep(&bed.client.runtime(), LOCK_RENEW / 2).await;
            let released = ask(&one, &file, &locked, LockRequest::Unlock).await;
            assert_eq!(released, Ok(Locked::Done));
            sleep(&bed.client.runtime(), LOCK_LEASE / 2).await;
            let tried = ask(&other, &file, &whole(9), LockRequest::Try).await;
            assert_eq!(tried, Ok(Locked::Done));
            let released = ask(&other, &file, &whole(9), LockRequest::Unlock).await;
            assert_eq!(released, Ok(Locked::Done));
        }
    });
}

/// The manager may have granted a lock whose reply was lost, so the client releases it later, unless it has requested
/// it again.
#[test]
fn a_lock_that_is_asked_for_again_after_silence_is_kept() {
    let world = World::new(5);
    let bed = Bed::new(&world, 1);
    let node = world.add_node("cut off");
    let faults = world.faults();
    let done = world.run(async move {
        let (one, other) = (gannet_dst::volume::Bed::mount(&bed, &node), bed.mount());
        let file = shared_file(&[&one, &other]).await;
        for (first, again, third) in [
            (whole(1), whole(1), lock(7, 5, 5)),
            (lock(1, 10, 19), lock(1, 15, 30), lock(7, 15, 15)),
        ] {
            faults.partition(node.id(), bed.manager.id());
            let tried = ask(&one, &file, &first, LockRequest::Try).await;
            assert_eq!(tried, Err(Status::Jukebox));
            faults.heal(node.id(), bed.manager.id());
            let locked = ask(&one, &file, &again, LockRequest::Try).await;
            assert_eq!(locked, Ok(Locked::Done));
            // Longer than the release of lost locks takes.
            sleep(&node.runtime(), LOCK_LEASE).await;
            let tried = ask(&other, &file, &third, LockRequest::Try).await;
            assert_eq!(tried, Ok(Locked::Denied(again)));
            // The part that was not requested again is free.
            if first.start < again.start {
                let free = lock(7, first.start, again.start - 1);
                let tried = ask(&other, &file, &free, LockRequest::Try).await;
                assert_eq!(tried, Ok(Locked::Done));
            }
            let released = ask(&one, &file, &again, LockRequest::Unlock).await;
            assert_eq!(released, Ok(Locked::Done));
        }
    });
    done.unwrap();
}

async fn append(fs: &VolumeFs, file: &FileHandle, bytes: &[u8]) -> u64 {
    let (caller, buffer) = (root(), Buffer::from_vec(bytes.to_vec()));
    let appended = fs.append(&caller, file, 0, buffer, bytes.len(), Stability::FileSync);
    let (offset, done) = appended.await.0.unwrap();
    assert_eq!(done.count as usize, bytes.len());
    offset
}

#[test]
fn appends_of_two_clients_lie_one_behind_the_other() {
    run(5, |bed| async move {
        let (one, other) = (bed.mount(), bed.mount());
        let file = shared_file(&[&one, &other]).await;
        let mut size = one.attributes(&file).await.unwrap().size;
        let mut all = read(&one, &file, 0, size as usize).await;
        // In turns: appends within one stripe unit, and across several.
        for (turn, len) in [10, 5000, 4096, 1, 100_000, 20].into_iter().enumerate() {
            let bytes = noise(len, turn as u8);
            let fs = if turn % 2 == 0 { &one } else { &other };
            assert_eq!(append(fs, &file, &bytes).await, size);
            size += len as u64;
            all.extend(bytes);
        }
        // At the same time: the appends take some order, and no bytes are lost.
        let (left, right) = (noise(3000, 77), noise(6000, 78));
        let (at_left, at_right) =
            both(append(&one, &file, &left), append(&other, &file, &right)).await;
        assert_eq!(at_left.min(at_right), size);
        if at_left < at_right {
            all.extend([left, right].concat())
        } else {
            all.extend([right, left].concat())
        }
        assert_eq!(
            other.attributes(&file).await.unwrap().size,
            all.len() as u64
        );
        assert!(read(&other, &file, 0, all.len()).await == all);
    });
}

#[test]
fn appends_go_on_over_restarts_of_the_manager_and_of_io_servers() {
    run(6, |bed| async move {
        let (one, other) = (bed.mount(), bed.mount());
        let file = shared_file(&[&one, &other]).await;
        let before = one.attributes(&file).await.unwrap().size;
        let len = 2 * VOLUME_UNIT as usize;
        let writes = |fs: VolumeFs, salt: u8| async move {
            let mut places = Vec::new();
            for turn in 0..20 {
                let bytes = noise(len, salt + turn);
                places.push((append(&fs, &file, &bytes).await, bytes));
            }
            (fs, places)
        };
        let restarts = async {
            for turn in 0..6 {
                sleep(&bed.client.runtime(), Duration::from_millis(700)).await;
                if turn % 2 == 0 {
                    bed.kill_manager(Crash::Process);
                    bed.start_manager();
                } else {
                    bed.kill_io_server(turn % 4);
                    bed.start_io_server(turn % 4);
                }
            }
        };
        let appends = both(writes(one, 0), writes(other, 100));
        let ((one_of, other_of), ()) = both(appends, restarts).await;
        let (fs, mut places) = one_of;
        places.extend(other_of.1);
        places.sort_by_key(|(offset, _)| *offset);
        let mut end = before;
        for (offset, bytes) in places {
            assert!(offset >= end, "two have the same bytes");
            end = offset + bytes.len() as u64;
            assert!(read(&fs, &file, offset, bytes.len()).await == bytes);
        }
    });
}
