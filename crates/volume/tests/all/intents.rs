//! Intents of the manager while an I/O server is away.
#![allow(clippy::unwrap_used)]

use crate::common;

use common::{Bed, root};
use gannet_runtime::{Buffer, timeout};
use gannet_sim::World;
use gannet_sim::store::DiskProfile;
use gannet_vfs::{CreateMode, SetAttributes, Stability, Status, Vfs};
use gannet_volume::client::VolumeFs;
use gannet_volume::limits::{INTENT_DEADLINE, OPERATION_DEADLINE, SESSION_SLOTS};
use gannet_wire::volume::{Chosen, Stripes};
use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

/// Waits until no intent is pending.
async fn all_is_kept(bed: &Bed) {
    let runtime = bed.client.runtime();
    let all_kept = async {
        while bed.intents() > 0 {
            gannet_runtime::sleep(&runtime, Duration::from_secs(1)).await;
        }
    };
    let kept = timeout(&runtime, Duration::from_secs(600), all_kept).await;
    kept.expect("the intents are done");
}

/// A new file on one I/O server.
async fn create(fs: &VolumeFs, name: &str, server: u32) -> gannet_vfs::FileHandle {
    create_on(fs, name, vec![server]).await
}

async fn create_on(fs: &VolumeFs, name: &str, servers: Vec<u32>) -> gannet_vfs::FileHandle {
    let stripes = Stripes {
        unit: 8192,
        on: Chosen::Listed(servers),
        copies: None,
    };
    let (root_of_volume, plain) = (fs.root(), SetAttributes::default());
    let name = name.as_bytes();
    let caller = root();
    let made = fs.create_striped(&caller, &root_of_volume, name, &plain, stripes);
    made.await.unwrap()
}

/// A client removes many files of an I/O server that is down. A truncation of another server's file does not wait.
#[test]
fn a_server_that_is_away_holds_up_its_own_files_alone() {
    for removed in [1, 63, 64, 200] {
        let world = World::new(2);
        let bed = Bed::new(&world, 2);
        let done = world.run(async move {
            let (runtime, fs) = (bed.client.runtime(), bed.mount());
            for number in 0..removed {
                create(&fs, &format!("file {number}"), 0).await;
            }
            let healthy = create(&fs, "healthy", 1).await;
            bed.kill_io_server(0);
            for number in 0..removed {
                let name = format!("file {number}");
                let removing = fs.remove(&root(), &fs.root(), name.as_bytes()).await;
                removing.result.unwrap();
            }
            let cut = SetAttributes {
                size: Some(100),
                ..SetAttributes::default()
            };
            let caller = root();
            let cutting = fs.set_attributes(&caller, &healthy, &cut, None);
            let done = timeout(&runtime, Duration::from_millis(500), cutting).await;
            done.expect("it waits for the other server").result.unwrap();
            bed.start_io_server(0);
            all_is_kept(&bed).await;
        });
        done.unwrap();
    }
}

/// A client removes files on many sets of I/O servers; a slow server is part of each set. A request for the length of
/// one of its files does not wait for the removals.
#[test]
fn questions_are_answered_between_removals() {
    const FILES: usize = 64;
    const SLOWEST: Duration = Duration::from_millis(100);
    let world = World::new(2);
    let bed = Bed::new(&world, 8);
    let done = world.run(async move {
        let (runtime, fs) = (bed.client.runtime(), bed.mount());
        let sets = || (0..8).map(|other| [0, other]);
        let name = |other, file| format!("file {file} of {other}");
        for [slow, other] in sets() {
            let mut servers = vec![slow, other];
            servers.dedup();
            for file in 0..FILES {
                create_on(&fs, &name(other, file), servers.clone()).await;
            }
        }
        let asked = create(&fs, "asked", 0).await;
        let data = Buffer::from_vec(vec![1; 100]);
        let caller = root();
        let writing = fs.write(&caller, &asked, 0, data, 0..100, Stability::Unstable);
        writing.await.result.unwrap();
        bed.io_servers[0].disk.set_profile(DiskProfile {
            slow_per_mille: 1000,
            delay_max_ns: SLOWEST.as_nanos() as u64,
            ..DiskProfile::default()
        });
        for [_, other] in sets() {
            for file in 0..FILES {
                let name = name(other, file);
                let removing = fs.remove(&root(), &fs.root(), name.as_bytes()).await;
                removing.result.unwrap();
            }
        }
        // The first removal of each set is over, and the rest is under way.
        gannet_runtime::sleep(&runtime, SLOWEST).await;
        let began = runtime.now();
        fs.attributes(&asked).await.unwrap();
        runtime.now().duration_since(began)
    });
    let lasted = done.unwrap();
    assert!(lasted < 3 * SLOWEST, "{lasted:?}");
}

/// A client truncates more files of a server that is down than it may have changes under way. Its other changes do not
/// wait for them.
#[test]
fn changes_that_wait_for_a_server_leave_room_for_others() {
    let world = World::new(2);
    let bed = Bed::new(&world, 2);
    let done = world.run(async move {
        let (runtime, fs) = (bed.client.runtime(), Rc::new(bed.mount()));
        let mut files = Vec::new();
        for number in 0..2 * SESSION_SLOTS {
            files.push(create(&fs, &format!("file {number}"), 0).await);
        }
        bed.kill_io_server(0);
        let answered = Rc::new(Cell::new(0));
        for file in files {
            let (fs, answered) = (Rc::clone(&fs), Rc::clone(&answered));
            let cutting = async move {
                let cut = SetAttributes {
                    size: Some(100),
                    ..SetAttributes::default()
                };
                let _ = fs.set_attributes(&root(), &file, &cut, None).await;
                answered.set(answered.get() + 1);
            };
            runtime.spawn("cut", Box::pin(cutting));
        }
        gannet_runtime::sleep(&runtime, Duration::from_secs(1)).await;
        let soon = Duration::from_millis(500);
        let made = timeout(&runtime, soon, create(&fs, "other", 1)).await;
        made.expect("it waits for those");
        let (caller, top) = (root(), fs.root());
        let empty = CreateMode::Unchecked(SetAttributes {
            size: Some(0),
            ..SetAttributes::default()
        });
        let made = timeout(&runtime, soon, fs.create(&caller, &top, b"empty", &empty)).await;
        made.expect("it waits for those").result.unwrap();
        // Each of those waits for at most its own deadline.
        gannet_runtime::sleep(&runtime, 2 * OPERATION_DEADLINE + INTENT_DEADLINE).await;
        assert_eq!(answered.get(), 2 * SESSION_SLOTS);
    });
    done.unwrap();
}

/// A client truncates files to a length that no I/O server can hold. It gets the error at once, and no other client
/// waits.
#[test]
fn an_impossible_truncation_fails_at_once_and_leaves_no_intent() {
    let world = World::new(2);
    let bed = Bed::new(&world, 2);
    let done = world.run(async move {
        let (runtime, fs) = (bed.client.runtime(), bed.mount());
        let to = |size| SetAttributes {
            size: Some(size),
            ..SetAttributes::default()
        };
        let caller = root();
        for number in 0..100 {
            let file = create_on(&fs, &format!("file {number}"), vec![0, 1]).await;
            let change = to(1 << 60);
            let cutting = fs.set_attributes(&caller, &file, &change, None);
            let cut = timeout(&runtime, Duration::from_millis(500), cutting).await;
            let refused = cut.expect("it is tried again and again").result;
            assert_eq!(refused.err(), Some(Status::Fbig));
            assert_eq!(fs.attributes(&file).await.unwrap().size, 0);
        }
        assert_eq!(bed.intents(), 0);
    });
    done.unwrap();
}

/// An I/O server's disk refuses the intents of many files. Other files' intents run meanwhile, and these run when the
/// disk works again.
#[test]
fn intents_a_disk_refuses_are_retried_beside_the_rest() {
    const FILES: usize = 150;
    let world = World::new(2);
    let bed = Bed::new(&world, 2);
    let done = world.run(async move {
        let (runtime, fs) = (bed.client.runtime(), bed.mount());
        let name = |number| format!("file {number}");
        for number in 0..FILES {
            let file = create(&fs, &name(number), 0).await;
            let (buffer, caller) = (Buffer::from_vec(vec![1; 100]), root());
            let written = fs.write(&caller, &file, 0, buffer, 0..100, Stability::FileSync);
            written.await.result.unwrap();
        }
        let ill = DiskProfile {
            io_errors_per_mille: 1000,
            ..DiskProfile::default()
        };
        bed.io_servers[0].disk.set_profile(ill);
        for number in 0..FILES {
            let name = name(number);
            let removing = fs.remove(&root(), &fs.root(), name.as_bytes()).await;
            removing.result.unwrap();
        }
        gannet_runtime::sleep(&runtime, Duration::from_secs(20)).await;
        assert_eq!(bed.intents(), FILES);
        bed.io_servers[0].disk.set_profile(DiskProfile::default());
        // The manager has not retried the others for a while; this intent is new.
        let new = create(&fs, "new", 0).await;
        let (cut, caller) = (
            SetAttributes {
                size: Some(10),
                ..SetAttributes::default()
            },
            root(),
        );
        let cutting = fs.set_attributes(&caller, &new, &cut, None);
        let cut = timeout(&runtime, Duration::from_millis(500), cutting).await;
        cut.expect("it waits for what was refused").result.unwrap();
        all_is_kept(&bed).await;
    });
    done.unwrap();
}
