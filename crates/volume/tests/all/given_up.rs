//! Changes that one core of an NFS server abandons do not run after later changes that were answered.
//!
//! The tests make and lose connections at any point. The core that abandons a change reports its own reason.
#![allow(clippy::unwrap_used)]

use crate::common;

use common::{VOLUME_UNIT, noise, read, root, shared_file, write};
use gannet_dst::volume::{Bed, Carrier};
use gannet_runtime::{all, both, sleep};
use gannet_sim::{Crash, LinkProfile, World};
use gannet_vfs::{CreateMode, SetAttributes, SetTime, Status, Time, Vfs};
use gannet_volume::client::{Siblings, VolumeFs};
use gannet_volume::limits::OVERDUE_MAX;
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

const LATER: Duration = Duration::from_secs(30);

/// The requests of a core of an NFS server.
#[derive(Clone, Copy, PartialEq)]
enum Asks {
    Write,
    Cut,
    Remove,
}

/// A change that one core has abandoned is still on its way when another core requests the same. The other core must
/// retry until the first one has connected to its server again. Its change then stays.
fn what_one_core_gave_up(asks: Asks) {
    let world = World::new(5);
    let faults = world.faults();
    let bed = Rc::new(Bed::new(&world, Carrier::iwarp(), 2, VOLUME_UNIT));
    let (one_node, other_node) = (world.add_node("core 1"), world.add_node("core 2"));
    let done = world.run(async move {
        bed.start();
        let shared = Siblings::new(1);
        let one = bed.mount_with(&one_node, Arc::clone(&shared));
        let other = bed.mount_with(&other_node, shared);
        let how = CreateMode::Guarded(SetAttributes::default());
        let (caller, top) = (root(), one.root());
        let file = shared_file(&[&one, &other]).await;
        let server = match asks {
            Asks::Write => bed.io_servers[0].node.id(),
            Asks::Cut | Asks::Remove => bed.manager.id(),
        };
        let offset = u64::from(2 * VOLUME_UNIT);
        let ask = async |fs: &VolumeFs, seed| match asks {
            Asks::Write => write(fs, &file, offset, &noise(1000, seed)).await,
            Asks::Cut => {
                let cut = SetAttributes {
                    size: Some(10),
                    ..SetAttributes::default()
                };
                fs.set_attributes(&caller, &file, &cut, None).await.result
            }
            Asks::Remove => fs.remove(&caller, &top, b"file").await.result,
        };
        let after = async || match asks {
            Asks::Write => ask(&other, 2).await,
            Asks::Cut => write(&other, &file, offset, &noise(1000, 2)).await,
            Asks::Remove => match ask(&other, 0).await {
                Ok(()) | Err(Status::Noent) => {
                    let made = other.create(&caller, &top, b"file", &how).await;
                    made.result.map(|_| ())
                }
                Err(status) => Err(status),
            },
        };
        faults.partition(one_node.id(), server);
        assert_eq!(ask(&one, 3).await, Err(Status::Jukebox));
        assert_eq!(
            after().await,
            Err(Status::Jukebox),
            "the first may come later"
        );
        faults.heal(one_node.id(), server);
        sleep(&other_node.runtime(), Duration::from_secs(5)).await;
        after().await.unwrap();
        sleep(&other_node.runtime(), LATER).await;
        match asks {
            Asks::Remove => other.lookup(&caller, &top, b"file").await.0.is_ok(),
            _ => read(&other, &file, offset, 1000).await == noise(1000, 2),
        }
    });
    assert!(done.unwrap(), "what was answered is gone");
}

#[test]
fn a_write_that_one_core_gave_up_does_not_come_later() {
    what_one_core_gave_up(Asks::Write);
}

#[test]
fn a_cut_that_one_core_gave_up_does_not_come_later() {
    what_one_core_gave_up(Asks::Cut);
}

#[test]
fn a_removal_that_one_core_gave_up_does_not_come_later() {
    what_one_core_gave_up(Asks::Remove);
}

/// A core abandons a request while the manager works at it. The core's new "connection" exists long before it is
/// admitted.
#[test]
fn a_connection_that_is_not_let_in_yet_frees_no_place() {
    let world = World::new(5);
    let faults = world.faults();
    let bed = Rc::new(Bed::new(&world, Carrier::iwarp(), 2, VOLUME_UNIT));
    let (one_node, other_node) = (world.add_node("core 1"), world.add_node("core 2"));
    let mode = world.run(async move {
        bed.start();
        let shared = Siblings::new(1);
        let one = bed.mount_with(&one_node, Arc::clone(&shared));
        let one = Rc::new(one.patient(Duration::from_millis(500)));
        let other = bed.mount_with(&other_node, shared);
        let caller = root();
        let file = shared_file(&[&one, &other]).await;
        let (manager, io) = (bed.manager.id(), bed.io_servers[0].node.id());
        let runtime = other_node.runtime();
        // The manager waits for sizes for up to 8 s.
        faults.partition(manager, io);
        let first = SetAttributes {
            mode: Some(0o600),
            modify_time: SetTime::To(Time {
                seconds: 1000,
                nanoseconds: 0,
            }),
            ..SetAttributes::default()
        };
        let result = Rc::new(RefCell::new(None));
        let task = {
            let (one, result) = (Rc::clone(&one), Rc::clone(&result));
            async move {
                let set = one.set_attributes(&root(), &file, &first, None).await;
                result.replace(Some(set.result));
            }
        };
        one_node.runtime().spawn("first", Box::pin(task));
        sleep(&runtime, Duration::from_secs(1)).await;
        while faults.reset_a_connection(one_node.id()) {}
        sleep(&runtime, Duration::from_millis(50)).await;
        assert_eq!(result.borrow_mut().take(), Some(Err(Status::Jukebox)));
        let second = SetAttributes {
            mode: Some(0o644),
            ..SetAttributes::default()
        };
        let set = other.set_attributes(&caller, &file, &second, None);
        let heals = async {
            sleep(&runtime, Duration::from_secs(1)).await;
            faults.heal(manager, io);
        };
        let (set, ()) = both(set, heals).await;
        if set.result.is_err() {
            return 0o644;
        }
        sleep(&runtime, LATER).await;
        other.attributes(&file).await.unwrap().mode
    });
    assert_eq!(mode.unwrap() & 0o777, 0o644, "what was answered is undone");
}

/// The abandoned request is unread when the core makes a new connection, which is cut off before it is admitted.
#[test]
fn a_connection_whose_hello_is_lost_frees_no_place() {
    let mut answered = 0;
    for ms in (0..1000).step_by(10) {
        let world = World::new(5);
        world.set_links(LinkProfile {
            latency_ns: 20_000_000,
            ..LinkProfile::default()
        });
        let faults = world.faults();
        let bed = Rc::new(Bed::new(&world, Carrier::iwarp(), 2, VOLUME_UNIT));
        let (one_node, other_node) = (world.add_node("core 1"), world.add_node("core 2"));
        let stays = world.run(async move {
            bed.start();
            let shared = Siblings::new(1);
            let one = bed.mount_with(&one_node, Arc::clone(&shared));
            let other = bed.mount_with(&other_node, shared);
            let how = CreateMode::Guarded(SetAttributes::default());
            let (caller, top) = (root(), one.root());
            one.create(&caller, &top, b"file", &how)
                .await
                .result
                .unwrap();
            other.lookup(&caller, &top, b"file").await.0.unwrap();
            let (manager, core) = (bed.manager.id(), one_node.id());
            let runtime = other_node.runtime();
            faults.partition(core, manager);
            let removed = one.remove(&caller, &top, b"file").await.result;
            assert_eq!(removed, Err(Status::Jukebox));
            faults.heal(core, manager);
            sleep(&runtime, Duration::from_millis(ms)).await;
            faults.partition(core, manager);
            sleep(&runtime, Duration::from_millis(100)).await;
            let again = other.remove(&caller, &top, b"file").await.result;
            if again == Err(Status::Jukebox) {
                return None;
            }
            let made = other.create(&caller, &top, b"file", &how).await.result;
            if made.is_err() {
                return None;
            }
            faults.heal(core, manager);
            sleep(&runtime, LATER).await;
            Some(other.lookup(&caller, &top, b"file").await.0.is_ok())
        });
        answered += usize::from(stays.is_ok_and(|stays| {
            stays.is_some_and(|stays| {
                assert!(
                    stays,
                    "the new file is gone, {ms} ms after the network came back"
                );
                stays
            })
        }));
    }
    assert!(answered > 0, "nobody was ever answered");
}

/// The reason of an error is not an old one of an unrelated operation.
#[test]
fn trouble_is_not_that_of_another_operation() {
    let world = World::new(5);
    let faults = world.faults();
    let bed = Rc::new(Bed::new(&world, Carrier::iwarp(), 1, VOLUME_UNIT));
    let (one_node, other_node) = (world.add_node("core 1"), world.add_node("core 2"));
    let why = world.run(async move {
        bed.start();
        let shared = Siblings::new(1);
        let one = bed
            .mount_with(&one_node, Arc::clone(&shared))
            .patient(Duration::from_secs(1));
        let other = bed
            .mount_with(&other_node, shared)
            .patient(Duration::from_secs(1));
        let (caller, top) = (root(), one.root());
        let file = shared_file(&[&one, &other]).await;
        let runtime = one_node.runtime();
        // An I/O server is down for a minute, and returns.
        bed.kill_io_server(0, Crash::Process);
        assert_eq!(
            write(&one, &file, 0, &noise(100, 1)).await,
            Err(Status::Jukebox)
        );
        bed.start_io_server(0);
        sleep(&runtime, Duration::from_secs(60)).await;
        write(&one, &file, 0, &noise(100, 1)).await.unwrap();
        // Much later, another core's change of a name holds the lock: no I/O server is involved.
        faults.partition(other_node.id(), bed.manager.id());
        let removed = other.remove(&caller, &top, b"file").await.result;
        assert_eq!(removed, Err(Status::Jukebox));
        assert_eq!(
            one.remove(&caller, &top, b"file").await.result,
            Err(Status::Jukebox)
        );
        one.cause(Status::Jukebox).unwrap()
    });
    let why = why.unwrap();
    assert!(!why.contains("I/O server"), "{why}");
}

/// A change that the manager has done and cannot confirm is no refusal: NFS clients would repeat it as another call.
#[test]
fn a_change_that_is_done_is_answered_when_the_servers_are_back() {
    for (finishes, expected) in [(true, Ok(())), (false, Err(Status::Jukebox))] {
        let world = World::new(5);
        let bed = Rc::new(Bed::new(&world, Carrier::iwarp(), 1, VOLUME_UNIT));
        let node = world.add_node("core");
        let outcome = world.run(async move {
            bed.start();
            let mut fs = bed.mount_with(&node, Siblings::new(1));
            if finishes {
                fs = fs.finishing_changes(Duration::from_secs(300));
            }
            let (caller, file) = (root(), shared_file(&[&fs]).await);
            let cut = SetAttributes {
                size: Some(10),
                ..SetAttributes::default()
            };
            bed.kill_io_server(0, Crash::Process);
            let cutting = fs.set_attributes(&caller, &file, &cut, None);
            let (runtime, later) = (node.runtime(), Rc::clone(&bed));
            let coming_back = async move {
                sleep(&runtime, Duration::from_secs(60)).await;
                later.start_io_server(0);
            };
            both(Box::pin(cutting), Box::pin(coming_back))
                .await
                .0
                .result
        });
        assert_eq!(outcome.unwrap(), expected, "{finishes}");
    }
}

/// Changes that wait for a dead server leave slots to those of files elsewhere.
#[test]
fn few_changes_wait_for_long() {
    let world = World::new(5);
    let bed = Rc::new(Bed::new(&world, Carrier::iwarp(), 1, VOLUME_UNIT));
    let node = world.add_node("core");
    let done = world.run(async move {
        bed.start();
        let fs = bed.mount_with(&node, Siblings::new(1));
        let fs = fs.finishing_changes(Duration::from_secs(300));
        let (caller, top, mut files) = (root(), fs.root(), Vec::new());
        for number in 0..OVERDUE_MAX + 4 {
            let (name, how) = (
                number.to_string(),
                CreateMode::Guarded(SetAttributes::default()),
            );
            let made = fs.create(&caller, &top, name.as_bytes(), &how).await.result;
            let file = made.unwrap().handle;
            write(&fs, &file, 0, &noise(1000, 1)).await.unwrap();
            files.push(file);
        }
        bed.kill_io_server(0, Crash::Process);
        let cut = SetAttributes {
            size: Some(10),
            ..SetAttributes::default()
        };
        let cuts = files
            .iter()
            .map(|file| Box::pin(fs.set_attributes(&caller, file, &cut, None)));
        let (runtime, later) = (node.runtime(), Rc::clone(&bed));
        let coming_back = async move {
            sleep(&runtime, Duration::from_secs(60)).await;
            later.start_io_server(0);
        };
        let (cuts, ()) = both(Box::pin(all(cuts)), Box::pin(coming_back)).await;
        cuts.iter().filter(|it| it.result.is_ok()).count()
    });
    assert_eq!(done.unwrap(), OVERDUE_MAX);
}
