//! Files that lose their last name while a client keeps them.
#![allow(clippy::unwrap_used)]

use crate::common::{Bed, read, root, write};
use gannet_runtime::sleep;
use gannet_sim::{Crash, World};
use gannet_vfs::{
    ByteLock, CreateMode, FileHandle, LockKind, LockRequest, Locked, SetAttributes, Status, Vfs,
};
use gannet_volume::client::VolumeFs;
use gannet_volume::limits::{LOCK_LEASE, LOCK_RENEW, LOCK_SWEEP, UNLINK_AGAIN_AFTER};
use std::rc::Rc;
use std::time::Duration;

/// A lock of a whole file.
const LOCK: ByteLock = ByteLock {
    owner: 1,
    kind: LockKind::Exclusive,
    start: 0,
    end: u64::MAX,
    process: 1,
};

fn run<F: Future<Output = ()> + 'static>(seed: u64, story: impl FnOnce(Rc<Bed>) -> F) {
    let world = World::new(seed);
    let bed = Bed::new(&world, 2);
    world.run(story(bed)).unwrap();
}

async fn make(fs: &VolumeFs) -> FileHandle {
    let mode = CreateMode::Guarded(SetAttributes::default());
    let made = fs.create(&root(), &fs.root(), b"file", &mode).await;
    let file = made.result.unwrap().handle;
    write(fs, &file, 0, b"bytes").await.unwrap();
    fs.commit(&root(), &file, 0, 0).await.result.unwrap();
    file
}

async fn remove(fs: &VolumeFs) {
    let removed = fs.remove(&root(), &fs.root(), b"file").await;
    removed.result.unwrap();
}

async fn pause(bed: &Bed, time: Duration) {
    sleep(&bed.client.runtime(), time).await;
}

#[test]
fn a_kept_file_is_written_and_read_after_its_removal_until_it_is_let_go() {
    run(21, |bed| async move {
        let (fs, other) = (bed.mount(), bed.mount());
        let file = make(&fs).await;
        fs.keep(&file).await.unwrap();
        remove(&fs).await;
        assert_eq!(fs.attributes(&file).await.unwrap().link_count, 0);
        write(&fs, &file, 5, b"more").await.unwrap();
        pause(&bed, 2 * LOCK_LEASE).await;
        assert_eq!(read(&other, &file, 0, 99).await, b"bytesmore");
        // The name is free, and the file lies in no directory.
        let second = make(&other).await;
        assert_ne!(second, file);
        fs.let_go(&file, false).await;
        pause(&bed, Duration::from_secs(1)).await;
        assert_eq!(fs.attributes(&file).await.err(), Some(Status::Stale));
        pause(&bed, UNLINK_AGAIN_AFTER * 2).await;
        assert_eq!(bed.intents(), 0);
        assert_eq!(read(&fs, &second, 0, 99).await, b"bytes");
    });
}

#[test]
fn a_file_that_nobody_keeps_goes_with_its_name() {
    run(22, |bed| async move {
        let fs = bed.mount();
        let file = make(&fs).await;
        fs.keep(&file).await.unwrap();
        fs.let_go(&file, false).await;
        remove(&fs).await;
        assert_eq!(fs.attributes(&file).await.err(), Some(Status::Stale));
    });
}

/// Whoever lets it go does not know that the removal failed. Its writes must not lose their COMMIT by that.
#[test]
fn a_file_that_keeps_its_name_is_committed_after_it_was_let_go() {
    run(29, |bed| async move {
        let fs = bed.mount();
        let file = make(&fs).await;
        fs.keep(&file).await.unwrap();
        write(&fs, &file, 0, b"later").await.unwrap();
        fs.let_go(&file, true).await;
        fs.commit(&root(), &file, 0, 0).await.result.unwrap();
        for number in 0..2 {
            bed.volume.kill_io_server(number, Crash::Power);
            bed.faults().restart(bed.io_servers[number].node.id());
            bed.start_io_server(number);
        }
        assert_eq!(read(&fs, &file, 0, 99).await, b"later");
    });
}

#[test]
fn a_client_that_is_gone_keeps_nothing_when_its_lease_is_over() {
    run(23, |bed| async move {
        let fs = bed.mount();
        let file = make(&fs).await;
        fs.keep(&file).await.unwrap();
        remove(&fs).await;
        bed.faults().crash(bed.client.id(), Crash::Power);
        bed.faults().restart(bed.client.id());
        let fs = bed.mount();
        assert!(fs.attributes(&file).await.is_ok());
        pause(&bed, LOCK_LEASE + 2 * LOCK_SWEEP).await;
        assert_eq!(fs.attributes(&file).await.err(), Some(Status::Stale));
    });
}

#[test]
fn a_kept_file_outlives_a_restart_of_the_manager() {
    run(24, |bed| async move {
        let fs = bed.mount();
        let file = make(&fs).await;
        fs.keep(&file).await.unwrap();
        remove(&fs).await;
        for _ in 0..2 {
            bed.kill_manager(Crash::Power);
            bed.faults().restart(bed.manager.id());
            bed.start_manager();
            assert_eq!(read(&fs, &file, 0, 99).await, b"bytes");
            pause(&bed, 3 * LOCK_LEASE).await;
        }
        assert_eq!(read(&fs, &file, 0, 99).await, b"bytes");
        // The manager is away when the file is let go: it hears of that afterwards.
        bed.kill_manager(Crash::Power);
        fs.let_go(&file, false).await;
        bed.faults().restart(bed.manager.id());
        bed.start_manager();
        pause(&bed, LOCK_LEASE).await;
        assert_eq!(fs.attributes(&file).await.err(), Some(Status::Stale));
    });
}

/// A removal that the former manager did not answer is sent again before the client comes back for what it keeps.
#[test]
fn a_file_that_is_kept_outlives_its_removal_by_a_manager_that_has_just_started() {
    run(25, |bed| async move {
        let fs = bed.mount();
        let file = make(&fs).await;
        fs.keep(&file).await.unwrap();
        bed.kill_manager(Crash::Power);
        bed.faults().restart(bed.manager.id());
        bed.start_manager();
        remove(&fs).await;
        assert_eq!(read(&fs, &file, 0, 99).await, b"bytes");
        pause(&bed, 2 * LOCK_LEASE).await;
        assert_eq!(read(&fs, &file, 0, 99).await, b"bytes");
        fs.let_go(&file, false).await;
        pause(&bed, Duration::from_secs(1)).await;
        assert_eq!(fs.attributes(&file).await.err(), Some(Status::Stale));
    });
}

#[test]
fn a_kept_file_outlives_a_manager_that_is_away_longer_than_a_lease() {
    run(26, |bed| async move {
        let fs = bed.mount();
        let file = make(&fs).await;
        fs.keep(&file).await.unwrap();
        remove(&fs).await;
        bed.kill_manager(Crash::Power);
        pause(&bed, 2 * LOCK_LEASE).await;
        bed.faults().restart(bed.manager.id());
        bed.start_manager();
        pause(&bed, 3 * LOCK_LEASE).await;
        assert_eq!(read(&fs, &file, 0, 99).await, b"bytes");
        fs.let_go(&file, false).await;
        pause(&bed, Duration::from_secs(1)).await;
        assert_eq!(fs.attributes(&file).await.err(), Some(Status::Stale));
    });
}

/// A manager without I/O servers hears of a client, and its replies wait for them until the client has given its locks
/// up. Seed 7100088 lost a kept file so.
#[test]
fn a_client_that_a_manager_cannot_answer_keeps_its_files_and_releases_its_locks() {
    run(27, |bed| async move {
        let (fs, other) = (bed.mount(), bed.mount());
        let file = make(&fs).await;
        fs.keep(&file).await.unwrap();
        let locked = fs.lock(&root(), &file, &LOCK, LockRequest::Try).await;
        assert_eq!(locked, Ok(Locked::Done));
        remove(&fs).await;
        let (faults, manager) = (bed.faults(), bed.manager.id());
        let servers = || bed.io_servers.iter().map(|it| it.node.id());
        servers().for_each(|server| faults.partition(manager, server));
        pause(&bed, LOCK_LEASE + 2 * LOCK_RENEW).await;
        servers().for_each(|server| faults.heal(manager, server));
        pause(&bed, 2 * LOCK_LEASE).await;
        assert_eq!(read(&fs, &file, 0, 99).await, b"bytes");
        // The client keeps the file by its lease, which is no lease of the lock that it has given up.
        let locked = other.lock(&root(), &file, &LOCK, LockRequest::Try).await;
        assert_eq!(locked, Ok(Locked::Done));
    });
}
