//! Truncations that a client abandons: they may still run, and must not truncate later data.
#![allow(clippy::unwrap_used)]

use crate::common;

use common::{Bed, VOLUME_UNIT, noise, read, root, shared_file, write};
use gannet_runtime::{both, sleep, timeout};
use gannet_sim::store::DiskProfile;
use gannet_sim::{Crash, World};
use gannet_vfs::{CreateMode, EntryName, FileHandle, SetAttributes, Status, Vfs};
use gannet_volume::client::{Siblings, VolumeFs};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

const CUT: SetAttributes = SetAttributes {
    mode: None,
    uid: None,
    gid: None,
    size: Some(10),
    access_time: gannet_vfs::SetTime::Keep,
    modify_time: gannet_vfs::SetTime::Keep,
};
/// Enough time for all intents.
const LATER: Duration = Duration::from_secs(30);

/// The ways to truncate a file.
#[derive(Debug, Clone, Copy)]
enum Way {
    SetSize,
    Create,
}

async fn cut(fs: &VolumeFs, file: &FileHandle, way: Way) -> Result<(), Status> {
    let caller = root();
    match way {
        Way::SetSize => fs.set_attributes(&caller, file, &CUT, None).await.result,
        Way::Create => {
            let how = CreateMode::Unchecked(CUT);
            let made = fs.create(&caller, &fs.root(), b"file", &how).await.result;
            made.map(|made| assert_eq!(made.handle, *file))
        }
    }
}

/// A file on two I/O servers, and two clients that act as one server and have the right to write it.
async fn clients(bed: &Bed) -> ([VolumeFs; 2], FileHandle) {
    let shared = Siblings::new(1);
    let clients = [bed.mount_with(Arc::clone(&shared)), bed.mount_with(shared)];
    let file = shared_file(&[&clients[0], &clients[1]]).await;
    (clients, file)
}

fn run<F: Future<Output = ()> + 'static>(story: impl FnOnce(Rc<Bed>) -> F) {
    let world = World::new(5);
    let bed = Bed::new(&world, 2);
    world.run(story(bed)).unwrap();
}

/// One of the file's servers is down, and returns at any moment between two attempts to truncate its object.
#[test]
fn writes_after_an_abandoned_truncation_stay() {
    let ways = [Way::SetSize, Way::Create];
    let back_after = (0..1500).step_by(50).map(Duration::from_millis);
    for (way, back_after) in ways
        .iter()
        .flat_map(|way| back_after.clone().map(|it| (*way, it)))
    {
        run(async move |bed| {
            let (runtime, bytes) = (bed.client.runtime(), noise(1000, 2));
            let ([one, other], file) = clients(&bed).await;
            bed.kill_io_server(1);
            let given_up = timeout(&runtime, Duration::from_secs(1), cut(&one, &file, way)).await;
            assert!(given_up.is_err(), "a server is away");
            let offset = u64::from(2 * VOLUME_UNIT);
            let coming_back = async {
                sleep(&runtime, back_after).await;
                bed.start_io_server(1);
            };
            let writing = write(&other, &file, offset, &bytes);
            both(writing, coming_back).await.0.unwrap();
            sleep(&runtime, LATER).await;
            let there = read(&one, &file, offset, 2000).await;
            assert!(there == bytes, "{way:?}, back after {back_after:?}");
        });
    }
}

/// A client abandons a truncation at any moment: on its way to the manager, or while it waits for a disk or I/O
/// servers.
#[test]
fn a_cut_can_be_given_up_at_any_moment() {
    for way in [Way::SetSize, Way::Create] {
        let (mut given_up, mut cuts) = (0, 0);
        for moment in (0..).map(|step| Duration::from_micros(10 * step)) {
            let (sender, done) = std::sync::mpsc::channel();
            run(async move |bed| {
                let (runtime, bytes) = (bed.client.runtime(), noise(1000, 2));
                let ([one, other], file) = clients(&bed).await;
                let slow = DiskProfile {
                    slow_per_mille: 1000,
                    delay_max_ns: 1_000_000,
                    ..DiskProfile::default()
                };
                bed.io_servers[1].disk.set_profile(slow);
                let cutting = timeout(&runtime, moment, cut(&one, &file, way)).await;
                let offset = u64::from(2 * VOLUME_UNIT);
                write(&other, &file, offset, &bytes).await.unwrap();
                sleep(&runtime, LATER).await;
                let there = read(&one, &file, offset, 1000).await;
                assert!(there == bytes, "{way:?} given up after {moment:?}");
                let end = read(&one, &file, 0, 20).await;
                let _ = sender.send((cutting.is_ok(), end[10..] == [0; 10]));
            });
            let (is_done, is_cut) = done.recv().unwrap();
            assert!(is_cut || !is_done);
            if is_done {
                break;
            }
            given_up += 1;
            cuts += u32::from(is_cut);
        }
        assert!(given_up > cuts && cuts > 10, "{way:?}: {given_up}, {cuts}");
    }
}

/// CREATE with a size takes its turn among changes of the name too: it does not truncate a later file of that name.
#[test]
fn a_file_renamed_over_another_is_not_truncated_in_its_place() {
    for back_after in (10..260).step_by(10).map(Duration::from_millis) {
        run(async move |bed| {
            let (runtime, bytes) = (bed.client.runtime(), noise(5000, 3));
            let ([one, other], _) = clients(&bed).await;
            let (caller, top) = (root(), one.root());
            let how = CreateMode::Guarded(SetAttributes::default());
            let made = other.create(&caller, &top, b"next", &how).await;
            let next = made.result.unwrap().handle;
            write(&other, &next, 0, &bytes).await.unwrap();
            bed.kill_manager(Crash::Process);
            let cut = CreateMode::Unchecked(CUT);
            let changes = both(one.create(&caller, &top, b"file", &cut), async {
                sleep(&runtime, Duration::from_millis(5)).await;
                let from = EntryName::new(&top, b"next");
                let to = EntryName::new(&top, b"file");
                other.rename(&caller, from, to).await.0
            });
            let coming_back = async {
                sleep(&runtime, back_after).await;
                bed.start_manager();
            };
            let ((cut, moved), ()) = both(changes, coming_back).await;
            assert_ne!(cut.result.map(|cut| cut.handle), Ok(next), "{back_after:?}");
            moved.unwrap();
            assert!(read(&one, &next, 0, 6000).await == bytes, "{back_after:?}");
        });
    }
}

/// An unrelated client gives the name to another file at any moment: CREATE truncates one of the two files.
#[test]
fn a_create_never_returns_a_file_that_was_replaced() {
    let mut later = 0;
    for moment in (0..2000).step_by(10).map(Duration::from_micros) {
        let (sender, done) = std::sync::mpsc::channel();
        run(async move |bed| {
            let ([one, _], file) = clients(&bed).await;
            let (stranger, caller, top) = (bed.mount(), root(), one.root());
            let how = CreateMode::Guarded(SetAttributes::default());
            let made = stranger.create(&caller, &top, b"next", &how).await;
            made.result.unwrap();
            let cut = CreateMode::Unchecked(CUT);
            let cutting = one.create(&caller, &top, b"file", &cut);
            let runtime = bed.client.runtime();
            let (made, ()) = both(cutting, async {
                sleep(&runtime, moment).await;
                let from = EntryName::new(&top, b"next");
                let to = EntryName::new(&top, b"file");
                stranger.rename(&caller, from, to).await.0.unwrap();
            })
            .await;
            let _ = sender.send(made.result.unwrap().handle == file);
        });
        later += u32::from(!done.recv().unwrap());
    }
    assert!(later > 0, "it is always the first");
}
