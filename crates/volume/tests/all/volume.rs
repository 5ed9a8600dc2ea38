//! A whole volume in the simulator, manager, I/O servers and clients, under many events.
#![allow(clippy::unwrap_used)]

use crate::common;
mod change_ids;
mod lost_disks;
mod managers;
mod names;

use common::{Bed, noise, root};
use gannet_runtime::{Buffer, both, sleep};
use gannet_sim::store::DiskProfile;
use gannet_sim::{Crash, World};
use gannet_vfs::{
    CreateMode, Credentials, DirectoryEntry, Entries, EntryName, FileHandle, SetAttributes,
    SetTime, Stability, Status, Time, Verifier, Vfs,
};
use gannet_volume::client::{Siblings, VolumeFs};
use gannet_volume::limits::{TERM_LEASE_OVER, UNLINK_AGAIN_AFTER};
use gannet_wire::volume::{
    self as wire, AttributeChanges, Call, Caller, Class, Entry, ROOT, SYMLINK_MAX, SlotSequence,
};
use std::cell::Cell;
use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

fn run<F: Future<Output = ()> + 'static>(
    seed: u64,
    servers: usize,
    story: impl FnOnce(Rc<Bed>) -> F,
) {
    let world = World::new(seed);
    let bed = Bed::new(&world, servers);
    world.run(story(bed)).unwrap();
}

#[test]
fn names_beyond_255_bytes_fail_with_nametoolong() {
    run(41, 1, |bed| async move {
        let (fs, caller) = (bed.mount(), root());
        let (top, plain) = (fs.root(), SetAttributes::default());
        let file = create(&fs, &"n".repeat(255)).await;
        for len in [256, 257, 1024, 4096, 100_000] {
            let name = vec![b'n'; len];
            let too_long = Status::Nametoolong;
            let found = fs.lookup(&caller, &top, &name).await.0;
            assert_eq!(found.err(), Some(too_long), "{len}");
            for mode in [
                CreateMode::Guarded(plain),
                CreateMode::Unchecked(SetAttributes {
                    size: Some(0),
                    ..plain
                }),
            ] {
                let made = fs.create(&caller, &top, &name, &mode).await.result;
                assert_eq!(made.err(), Some(too_long), "{len}");
            }
            let made = fs.make_directory(&caller, &top, &name, &plain).await;
            assert_eq!(made.result.err(), Some(too_long), "{len}");
            let linked = fs.link(&caller, &file, &top, &name).await;
            assert_eq!(linked.0.result.err(), Some(too_long), "{len}");
            let removed = fs.remove(&caller, &top, &name).await.result;
            assert_eq!(removed.err(), Some(too_long), "{len}");
        }
    });
}

async fn create(fs: &VolumeFs, name: &str) -> FileHandle {
    let mode = CreateMode::Guarded(SetAttributes {
        mode: Some(0o644),
        ..SetAttributes::default()
    });
    let made = fs.create(&root(), &fs.root(), name.as_bytes(), &mode).await;
    made.result.unwrap().handle
}

async fn write(
    fs: &VolumeFs,
    file: &FileHandle,
    offset: u64,
    bytes: &[u8],
) -> Result<Verifier, Status> {
    let (buffer, range) = (Buffer::from_vec(bytes.to_vec()), 0..bytes.len());
    let written = fs
        .write(&root(), file, offset, buffer, range, Stability::Unstable)
        .await;
    let done = written.result?;
    assert_eq!(done.count as usize, bytes.len());
    Ok(done.verifier)
}

async fn read(fs: &VolumeFs, file: &FileHandle, offset: u64, len: u32) -> Vec<u8> {
    let reply = fs.read(&root(), file, offset, len).await.unwrap();
    let mut bytes = vec![0; reply.count as usize];
    assert_eq!(
        reply.file.try_read_at(offset, &mut bytes).unwrap(),
        bytes.len()
    );
    bytes
}

async fn resize(fs: &VolumeFs, file: &FileHandle, size: u64) -> Result<(), Status> {
    let change = SetAttributes {
        size: Some(size),
        ..SetAttributes::default()
    };
    fs.set_attributes(&root(), file, &change, None).await.result
}

/// All names of a directory, read in pages of a few.
struct Few {
    names: Vec<String>,
    room: usize,
    cookie: u64,
}

impl Entries for Few {
    fn wants_objects(&self) -> bool {
        true
    }

    fn push(&mut self, entry: &DirectoryEntry<'_>) -> bool {
        if self.room == 0 {
            return false;
        }
        assert!(entry.object.is_some());
        self.room -= 1;
        self.cookie = entry.cookie;
        self.names
            .push(String::from_utf8(entry.name.to_vec()).unwrap());
        true
    }
}

async fn list(fs: &VolumeFs) -> Vec<String> {
    let mut entries = Few {
        names: Vec::new(),
        room: 0,
        cookie: 0,
    };
    loop {
        entries.room = 100;
        let at = entries.cookie;
        let page = fs
            .read_directory(&root(), &fs.root(), at, Verifier::default(), &mut entries)
            .await;
        if page.unwrap().eof {
            return entries.names;
        }
    }
}

#[test]
fn a_completed_write_is_seen_by_everybody() {
    run(1, 4, |bed| async move {
        let (one, other) = (bed.mount(), bed.mount());
        let file = create(&one, "file").await;
        assert_eq!(other.attributes(&file).await.unwrap().size, 0);
        for (offset, len) in [(0u64, 100usize), (100, 50_000), (1 << 20, 1 << 20)] {
            let bytes = noise(len, offset as u8);
            write(&one, &file, offset, &bytes).await.unwrap();
            let size = offset + len as u64;
            assert_eq!(other.attributes(&file).await.unwrap().size, size);
            assert!(read(&other, &file, offset, len as u32).await == bytes);
        }
        assert!(
            read(&other, &file, 60_000, 1000)
                .await
                .iter()
                .all(|byte| *byte == 0),
            "a hole"
        );
        let end = other
            .read(&root(), &file, (2 << 20) - 10, 100)
            .await
            .unwrap();
        assert_eq!((end.count, end.eof), (10, true));
    });
}

#[test]
fn a_file_can_be_cut_and_stretched() {
    run(2, 3, |bed| async move {
        let fs = bed.mount();
        let file = create(&fs, "file").await;
        let bytes = noise(100_000, 1);
        write(&fs, &file, 0, &bytes).await.unwrap();
        for size in [50_001u64, 4096, 4095, 1, 0] {
            resize(&fs, &file, size).await.unwrap();
            assert_eq!(fs.attributes(&file).await.unwrap().size, size);
            let kept = read(&fs, &file, 0, 100_000).await;
            assert!(kept == bytes[..size as usize]);
        }
        resize(&fs, &file, 1_000_000).await.unwrap();
        let grown = read(&fs, &file, 0, 1_000_000).await;
        assert!(
            grown.len() == 1_000_000 && grown.iter().all(|byte| *byte == 0),
            "no old bytes"
        );
    });
}

#[test]
fn nothing_is_cut_when_what_comes_with_the_size_is_refused() {
    run(23, 2, |bed| async move {
        let fs = bed.mount();
        let mode = CreateMode::Guarded(SetAttributes {
            mode: Some(0o666),
            ..SetAttributes::default()
        });
        let made = fs.create(&root(), &fs.root(), b"shared", &mode).await;
        let file = made.result.unwrap().handle;
        write(&fs, &file, 0, &noise(1000, 1)).await.unwrap();
        let ann = Credentials::new(1000, 1000, &[]);
        let cut = SetAttributes {
            size: Some(0),
            ..SetAttributes::default()
        };
        let with_time = SetAttributes {
            modify_time: SetTime::To(Time::default()),
            ..cut
        };
        let refused = fs.set_attributes(&ann, &file, &with_time, None).await;
        assert_eq!(
            refused.result,
            Err(Status::Perm),
            "only the owner sets times"
        );
        assert_eq!(read(&fs, &file, 0, 1000).await, noise(1000, 1));
        let done = fs.set_attributes(&ann, &file, &cut, None).await;
        assert_eq!(done.result, Ok(()), "but who may write may cut");
        assert_eq!(fs.attributes(&file).await.unwrap().size, 0);
    });
}

#[test]
fn a_handle_is_good_everywhere_and_cannot_be_made_up() {
    run(10, 1, |bed| async move {
        let (one, other) = (bed.mount(), bed.mount());
        let file = create(&one, "file").await;
        let own = one.attributes(&file).await.unwrap();
        assert_eq!(other.attributes(&file).await.unwrap(), own);
        for at in 0..file.as_bytes().len() {
            let mut bytes = file.as_bytes().to_vec();
            bytes[at] ^= 1;
            let forged = FileHandle::new(&bytes).unwrap();
            let refused = other.attributes(&forged).await;
            assert!(matches!(refused, Err(Status::Badhandle | Status::Stale)));
        }
        let shorter = FileHandle::new(&file.as_bytes()[..16]).unwrap();
        let refused = other.attributes(&shorter).await;
        assert_eq!(refused.map(|_| ()), Err(Status::Badhandle));
    });
}

#[test]
fn a_long_directory_is_listed_once_from_end_to_end() {
    run(3, 2, |bed| async move {
        let fs = bed.mount();
        let mut expected = vec![".".to_owned(), "..".to_owned()];
        for number in 0..250 {
            expected.push(format!("a file with a rather long name, number {number}"));
            create(&fs, expected.last().unwrap()).await;
        }
        assert_eq!(list(&fs).await, expected);
    });
}

#[test]
fn removed_files_leave_no_objects_behind() {
    run(4, 3, |bed| async move {
        let fs = bed.mount();
        let file = create(&fs, "file").await;
        write(&fs, &file, 0, &noise(100_000, 1)).await.unwrap();
        let with_objects = bed.used().await;
        fs.remove(&root(), &fs.root(), b"file")
            .await
            .result
            .unwrap();
        assert_eq!(fs.attributes(&file).await, Err(Status::Stale));
        gannet_runtime::sleep(&bed.client.runtime(), Duration::from_secs(2)).await;
        assert_eq!(
            bed.used().await,
            with_objects - 3,
            "one object on each server"
        );
    });
}

#[test]
fn an_io_server_that_restarts_loses_what_was_not_committed_and_says_so() {
    run(5, 2, |bed| async move {
        let fs = bed.mount();
        let file = create(&fs, "file").await;
        let bytes = noise(200_000, 1);
        let before = write(&fs, &file, 0, &bytes).await.unwrap();
        bed.kill_io_server(1);
        bed.start_io_server(1);
        let committed = fs.commit(&root(), &file, 0, 0).await.result.unwrap();
        assert_ne!(committed.verifier, before, "the client must write again");
        let again = write(&fs, &file, 0, &bytes).await.unwrap();
        let committed = fs.commit(&root(), &file, 0, 0).await.result.unwrap();
        assert_eq!(committed.verifier, again);
        assert!(read(&fs, &file, 0, 200_000).await == bytes);
    });
}

#[test]
fn the_cores_of_a_server_answer_with_one_verifier() {
    run(8, 2, |bed| async move {
        let shared = Siblings::new(1);
        let (one, other) = (bed.mount_with(Arc::clone(&shared)), bed.mount_with(shared));
        let file = create(&one, "file").await;
        let bytes = noise(200_000, 1);
        let before = write(&one, &file, 0, &bytes).await.unwrap();
        let committed = other.commit(&root(), &file, 0, 0).await.result.unwrap();
        assert_eq!(committed.verifier, before, "nothing to send again");
        write(&one, &file, 0, &bytes).await.unwrap();
        bed.kill_io_server(1);
        bed.start_io_server(1);
        // The core that has not written is the first to notice the restart.
        let committed = other.commit(&root(), &file, 0, 0).await.result.unwrap();
        assert_ne!(committed.verifier, before);
        let again = write(&one, &file, 0, &bytes).await.unwrap();
        assert_eq!(again, committed.verifier);
        let committed = other.commit(&root(), &file, 0, 0).await.result.unwrap();
        assert_eq!(committed.verifier, again);
    });
}

/// Changes requested while the manager is down run in the order of the requests when it returns, for any core.
#[test]
fn changes_of_the_same_name_keep_their_order_while_the_manager_is_away() {
    for back_after in (10..260).step_by(10).map(Duration::from_millis) {
        run(9, 1, |bed| async move {
            let (runtime, shared) = (bed.client.runtime(), Siblings::new(1));
            let (one, other) = (bed.mount_with(Arc::clone(&shared)), bed.mount_with(shared));
            let (caller, top) = (root(), one.root());
            let first = create(&one, "file").await;
            // Both cores are connected.
            other.attributes(&first).await.unwrap();
            bed.kill_manager(Crash::Process);
            let after = |milliseconds| sleep(&runtime, Duration::from_millis(milliseconds));
            let changes = async {
                let (removed, rest) = both(one.remove(&caller, &top, b"file"), async {
                    after(30).await;
                    let how = CreateMode::Guarded(SetAttributes::default());
                    let made = other.create(&caller, &top, b"file", &how);
                    both(made, async {
                        after(30).await;
                        let from = EntryName::new(&top, b"file");
                        let to = EntryName::new(&top, b"moved");
                        one.rename(&caller, from, to).await.0
                    })
                    .await
                })
                .await;
                (
                    removed.result,
                    rest.0.result.map(|made| made.handle),
                    rest.1,
                )
            };
            let coming_back = async {
                sleep(&runtime, back_after).await;
                bed.start_manager();
            };
            let ((removed, second, moved), ()) = both(changes, coming_back).await;
            let context = format!("{back_after:?}");
            assert_eq!((removed, moved), (Ok(()), Ok(())), "{context}");
            assert_ne!(second, Ok(first), "{context}");
            let found = other.lookup(&caller, &top, b"moved").await.0;
            assert_eq!(found.map(|found| found.0), second, "{context}");
        });
    }
}

/// Changes requested while a server is down run in the order of the requests when it returns, for any core. The caller
/// of the first may have abandoned it and request something else now.
#[test]
fn changes_of_the_same_bytes_keep_their_order_while_a_server_is_away() {
    for back_after in (10..260).step_by(10).map(Duration::from_millis) {
        run(9, 1, |bed| async move {
            let (runtime, shared) = (bed.client.runtime(), Siblings::new(1));
            let (one, other) = (bed.mount_with(Arc::clone(&shared)), bed.mount_with(shared));
            let file = create(&one, "file").await;
            let (first, last) = (noise(5000, 1), noise(3000, 2));
            for fs in [&one, &other] {
                write(fs, &file, 0, &first).await.unwrap();
            }
            bed.kill_io_server(0);
            let cut = SetAttributes {
                size: Some(10),
                ..SetAttributes::default()
            };
            let after = |milliseconds| sleep(&runtime, Duration::from_millis(milliseconds));
            let changes = async {
                let (written, rest) = both(write(&one, &file, 0, &first), async {
                    after(30).await;
                    let caller = root();
                    let cutting = other.set_attributes(&caller, &file, &cut, None);
                    both(cutting, async {
                        after(30).await;
                        write(&one, &file, 1000, &last).await
                    })
                    .await
                })
                .await;
                written.and(rest.1).unwrap();
                rest.0.result.unwrap();
            };
            let coming_back = async {
                sleep(&runtime, back_after).await;
                bed.start_io_server(0);
            };
            both(changes, coming_back).await;
            let mut right = [&first[..10], &[0; 990], &last].concat();
            assert_eq!(read(&one, &file, 0, 9000).await.len(), right.len());
            right.truncate(4000);
            assert!(
                read(&other, &file, 0, 9000).await == right,
                "{back_after:?}"
            );
        });
    }
}

#[test]
fn truncation_is_finished_when_the_server_is_back() {
    run(6, 2, |bed| async move {
        let fs = bed.mount();
        let file = create(&fs, "file").await;
        write(&fs, &file, 0, &noise(100_000, 1)).await.unwrap();
        fs.commit(&root(), &file, 0, 0).await.result.unwrap();
        bed.kill_io_server(0);
        assert_eq!(
            resize(&fs, &file, 10).await,
            Err(Status::Jukebox),
            "a server is away"
        );
        // The manager is killed too, before it can run its intent.
        bed.kill_manager(Crash::Process);
        bed.start_manager();
        bed.start_io_server(0);
        let mut size = 100_000;
        for _ in 0..20 {
            gannet_runtime::sleep(&bed.client.runtime(), Duration::from_secs(1)).await;
            size = fs.attributes(&file).await.unwrap().size;
            if size == 10 {
                break;
            }
        }
        assert_eq!(size, 10);
    });
}

/// One client creates a file with a size while another opens it, and both changes are in one transaction.
#[test]
fn a_file_that_is_made_and_sized_at_once_has_that_size() {
    for seed in 1..10 {
        run(seed, 2, async |bed| {
            let (fs, other) = (bed.mount(), bed.mount());
            let first = create(&fs, "first").await;
            write(&fs, &first, 0, &noise(10_000, 1)).await.unwrap();
            create(&other, "second").await;
            // Sizes may be cached by then, and all clients are connected.
            gannet_runtime::sleep(&bed.client.runtime(), Duration::from_secs(200)).await;
            fs.attributes(&first).await.unwrap();
            let manager = bed.manager_link(&bed.client).await;
            let make_sized = async {
                let mode = wire::CreateMode::Guarded(AttributeChanges {
                    size: Some(1000),
                    ..AttributeChanges::default()
                });
                let entry = Entry {
                    directory: ROOT,
                    name: b"file".to_vec(),
                };
                let call = Call::Create { entry, mode };
                let slot_sequence = SlotSequence {
                    client: [9; 16],
                    slot: 0,
                    sequence: 1,
                };
                let body = call.to_body(&Caller::new(0, 0, &[]), &slot_sequence);
                let asked = manager.call(call.operation(), Class::Metadata, &body, &[]);
                assert_eq!(asked.await.unwrap().header.status, Ok(()));
            };
            let plain = CreateMode::Unchecked(SetAttributes::default());
            let (caller, top) = (root(), fs.root());
            let make = async {
                // This request comes behind the other.
                gannet_runtime::sleep(&bed.client.runtime(), Duration::from_micros(20)).await;
                fs.create(&caller, &top, b"file", &plain).await
            };
            // The first creation fills a transaction, and the others are in the next one.
            let (_, ((), made)) = both(create(&fs, "x"), both(make_sized, make)).await;
            let made = made.result.unwrap();
            assert!(made.attributes.is_none_or(|it| it.size == 1000));
            let size = fs.attributes(&made.handle).await.unwrap().size;
            assert_eq!(size, 1000);
        });
    }
}

/// A truncation ends in a hole: the server of that end has no bytes yet, and is the last to be done.
#[test]
fn a_file_that_is_being_cut_is_never_seen_shorter_than_that() {
    run(27, 2, async |bed| {
        const CUT: u64 = 5000;
        let (fs, other) = (bed.mount(), bed.mount());
        let file = create(&fs, "cut").await;
        write(&fs, &file, 0, &noise(100, 1)).await.unwrap();
        write(&fs, &file, 8192, &noise(100, 1)).await.unwrap();
        let server = &bed.io_servers[1];
        server.disk.set_profile(DiskProfile {
            slow_per_mille: 1000,
            delay_max_ns: 200_000_000,
            ..DiskProfile::default()
        });
        let is_cut = Cell::new(false);
        let cut = async {
            resize(&fs, &file, CUT).await.unwrap();
            is_cut.set(true);
        };
        let mut seen = BTreeSet::new();
        let look = async {
            while !is_cut.get() {
                seen.insert(other.attributes(&file).await.unwrap().size);
            }
        };
        both(cut, look).await;
        assert!(
            seen.iter().all(|size| [CUT, 8292].contains(size)),
            "{seen:?}"
        );
        assert!(seen.contains(&CUT));
    });
}

#[test]
fn names_that_no_request_holds_are_too_long() {
    run(24, 1, |bed| async move {
        let (fs, caller) = (bed.mount(), root());
        let (root, there) = (fs.root(), create(&fs, "there").await);
        for len in [256, 1000, 100_000] {
            let name = vec![b'n'; len];
            let found = fs.lookup(&caller, &root, &name).await.0;
            assert_eq!(found.map(|_| ()), Err(Status::Nametoolong), "{len}");
            let how = CreateMode::Guarded(SetAttributes::default());
            let made = fs.create(&caller, &root, &name, &how).await.result;
            assert_eq!(made.map(|_| ()), Err(Status::Nametoolong), "{len}");
            let from = EntryName::new(&root, b"there");
            let to = EntryName::new(&root, &name);
            let renamed = fs.rename(&caller, from, to).await.0;
            assert_eq!(renamed, Err(Status::Nametoolong), "{len}");
        }
        fs.attributes(&there).await.unwrap();
    });
}

#[test]
fn others_may_not_read_what_is_not_theirs() {
    run(7, 2, |bed| async move {
        let fs = bed.mount();
        let mode = CreateMode::Guarded(SetAttributes {
            mode: Some(0o600),
            ..SetAttributes::default()
        });
        let file = fs
            .create(&root(), &fs.root(), b"secret", &mode)
            .await
            .result
            .unwrap()
            .handle;
        write(&fs, &file, 0, b"of root").await.unwrap();
        let ann = Credentials::new(1000, 1000, &[]);
        let denied = fs.read(&ann, &file, 0, 100).await.map(|_| ());
        assert_eq!(denied, Err(Status::Acces));
        let (data, range) = (Buffer::from_vec(vec![1]), 0..1);
        let denied = fs
            .write(&ann, &file, 0, data, range, Stability::Unstable)
            .await
            .result;
        assert_eq!(denied.map(|_| ()), Err(Status::Acces));
    });
}

async fn chmod(
    fs: &VolumeFs,
    caller: &Credentials,
    file: &FileHandle,
    mode: u32,
) -> Result<(), Status> {
    let change = SetAttributes {
        mode: Some(mode),
        ..SetAttributes::default()
    };
    fs.set_attributes(caller, file, &change, None).await.result
}

async fn mode(fs: &VolumeFs, file: &FileHandle) -> u32 {
    fs.attributes(file).await.unwrap().mode
}

#[test]
fn a_write_by_an_ordinary_user_clears_set_user_id_and_set_group_id() {
    run(7, 2, |bed| async move {
        let (fs, other) = (bed.mount(), bed.mount());
        let ann = Credentials::new(1000, 1000, &[]);
        let bob = Credentials::new(1001, 1001, &[]);
        let write_as = async |fs: &VolumeFs, caller: &Credentials, file: &FileHandle| {
            let (data, range) = (Buffer::from_vec(vec![1]), 0..1);
            let done = fs.write(caller, file, 0, data, range, Stability::FileSync);
            done.await.result.map(|_| ())
        };
        let file = create(&fs, "program").await;
        write_as(&fs, &root(), &file).await.unwrap();
        chmod(&fs, &root(), &file, 0o6777).await.unwrap();
        write_as(&fs, &root(), &file).await.unwrap();
        assert_eq!(mode(&fs, &file).await, 0o6777, "root is trusted");
        write_as(&other, &ann, &file).await.unwrap();
        assert_eq!(mode(&fs, &file).await, 0o777);
        // The change of the mode waits until she returns her grant: a file written by that grant would run as root.
        chmod(&fs, &root(), &file, 0o6777).await.unwrap();
        write_as(&other, &ann, &file).await.unwrap();
        assert_eq!(mode(&fs, &file).await, 0o777);
        // The owner uses an earlier grant, on another core of the same server.
        let siblings = Siblings::new(1);
        let cores = [0, 1].map(|_| bed.mount_with(Arc::clone(&siblings)));
        let how = CreateMode::Guarded(SetAttributes::default());
        let made = fs.create(&bob, &fs.root(), b"own", &how).await;
        assert_eq!(made.result.map(|_| ()), Err(Status::Acces));
        chmod(&fs, &root(), &fs.root(), 0o777).await.unwrap();
        let made = fs.create(&bob, &fs.root(), b"own", &how).await;
        let own = made.result.unwrap().handle;
        write_as(&cores[0], &bob, &own).await.unwrap();
        chmod(&cores[1], &bob, &own, 0o4755).await.unwrap();
        assert_eq!(mode(&fs, &own).await, 0o4755);
        write_as(&cores[0], &bob, &own).await.unwrap();
        assert_eq!(mode(&fs, &own).await, 0o755);
        let last = Credentials::new(u32::MAX, 1000, &[]);
        assert_eq!(write_as(&fs, &last, &file).await, Err(Status::Acces));
    });
}

#[test]
fn a_size_reported_by_a_server_is_dropped_when_the_server_restarts() {
    let lost = Rc::new(Cell::new(0));
    // A power failure loses random writes of a disk.
    for seed in 0..20 {
        let lost = Rc::clone(&lost);
        run(seed, 2, |bed| async move {
            let (fs, other) = (bed.mount(), bed.mount());
            let pause = |seconds| {
                gannet_runtime::sleep(&bed.client.runtime(), Duration::from_secs(seconds))
            };
            let file = create(&fs, "file").await;
            write(&fs, &file, 0, &noise(100_000, 1)).await.unwrap();
            // No client commits; the grant ends, and the manager learns the size.
            pause(70).await;
            for _ in 0..3 {
                assert_eq!(other.attributes(&file).await.unwrap().size, 100_000);
            }
            for server in [0, 1] {
                bed.kill_io_server(server);
                bed.start_io_server(server);
            }
            // The manager notices the restart meanwhile.
            pause(1).await;
            let told = other.attributes(&file).await.unwrap().size;
            bed.kill_manager(Crash::Process);
            bed.start_manager();
            assert_eq!(other.attributes(&file).await.unwrap().size, told);
            lost.set(lost.get() + u32::from(told != 100_000));
        });
    }
    assert!(lost.get() > 0, "nothing was lost in any world");
}

#[test]
fn a_write_to_a_removed_file_leaves_no_objects() {
    run(12, 2, |bed| async move {
        let (fs, other) = (bed.mount(), bed.mount());
        let empty = bed.used().await;
        let file = create(&fs, "file").await;
        write(&fs, &file, 0, &noise(100_000, 1)).await.unwrap();
        let folders = bed.used().await - 2 - empty;
        other
            .remove(&root(), &other.root(), b"file")
            .await
            .result
            .unwrap();
        gannet_runtime::sleep(&bed.client.runtime(), Duration::from_secs(2)).await;
        let late = write(&fs, &file, 0, b"too late").await;
        assert_eq!(late, Err(Status::Stale));
        assert_eq!(bed.used().await, empty + folders, "no objects");
    });
}

#[test]
fn an_object_that_is_made_again_by_a_late_write_goes_again() {
    run(13, 2, |bed| async move {
        let (fs, other) = (bed.mount(), bed.mount());
        let empty = bed.used().await;
        let file = create(&fs, "file").await;
        write(&fs, &file, 0, &noise(100_000, 1)).await.unwrap();
        let folders = bed.used().await - 2 - empty;
        let removed = other.remove(&root(), &other.root(), b"file").await;
        removed.result.unwrap();
        // A restarted server does not know that the file was removed.
        for server in [0, 1] {
            bed.kill_io_server(server);
            bed.start_io_server(server);
        }
        write(&fs, &file, 0, &noise(100_000, 2)).await.unwrap();
        assert_eq!(bed.used().await, empty + folders + 2, "they are back");
        // The second removal runs over a restart of the manager too.
        bed.kill_manager(Crash::Process);
        bed.start_manager();
        let pause = TERM_LEASE_OVER + UNLINK_AGAIN_AFTER + Duration::from_secs(2);
        gannet_runtime::sleep(&bed.client.runtime(), pause).await;
        assert_eq!(bed.used().await, empty + folders, "no objects");
        assert_eq!(bed.intents(), 0, "no intent is open any more");
    });
}

/// The longest texts of symbolic links fit every reply; the manager refuses longer ones at once.
#[test]
fn long_symbolic_links_are_made_read_and_listed() {
    run(1, 4, |bed| async move {
        let fs = bed.mount();
        let (caller, top, plain) = (root(), fs.root(), SetAttributes::default());
        for number in 0..10 {
            let text = vec![b'a' + number; SYMLINK_MAX];
            let name = format!("link {number}{}", "y".repeat(240));
            let made = fs.make_symlink(&caller, &top, name.as_bytes(), &text, &plain);
            let link = made.await.result.unwrap().handle;
            let (read, attributes) = fs.read_link(&caller, &link).await.unwrap();
            assert!(read == text && attributes.size == SYMLINK_MAX as u64);
            let found = fs.lookup(&caller, &top, name.as_bytes()).await.0;
            assert_eq!(found.unwrap(), (link, attributes));
        }
        let names = list(&fs).await;
        assert_eq!(names.iter().filter(|it| it.starts_with("link")).count(), 10);
        let began = bed.client.runtime().now();
        for len in [SYMLINK_MAX + 1, 5000, 10_000] {
            let text = vec![b'x'; len];
            let made = fs
                .make_symlink(&caller, &top, b"longer", &text, &plain)
                .await;
            assert_eq!(made.result.err(), Some(Status::Nametoolong), "{len}");
        }
        let took = bed.client.runtime().now().duration_since(began);
        assert!(took < Duration::from_millis(10), "{took:?}");
    });
}
