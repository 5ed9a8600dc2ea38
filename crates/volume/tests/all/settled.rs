//! Sizes that are settled in the metadata: an I/O server that is away takes only its own bytes with it.
#![allow(clippy::unwrap_used)]

use crate::common::{Bed, VOLUME_UNIT, read, root, write};
use gannet_runtime::{Buffer, sleep, timeout};
use gannet_sim::{Crash, World};
use gannet_vfs::{CreateMode, Credentials, EntryName, FileHandle, SetAttributes, Stability, Vfs};
use gannet_volume::client::VolumeFs;
use gannet_volume::limits::{
    GIVE_BACK_AFTER, GRANT_AGE, GRANTS_SWEEP, SETTLE_AFTER, SETTLE_EVERY, SIZE_DEADLINE,
};
use gannet_wire::volume::{Chosen, Stripes};
use std::rc::Rc;
use std::time::Duration;

const SOON: Duration = Duration::from_secs(2);

fn run<F: Future<Output = ()> + 'static>(seed: u64, story: impl FnOnce(Rc<Bed>) -> F) {
    let world = World::new(seed);
    let bed = Bed::new(&world, 4);
    world.run(story(bed)).unwrap();
}

async fn make(fs: &VolumeFs, name: &str, bytes: &[u8]) -> FileHandle {
    let mode = CreateMode::Guarded(SetAttributes::default());
    let made = fs.create(&root(), &fs.root(), name.as_bytes(), &mode).await;
    let file = made.result.unwrap().handle;
    write(fs, &file, 0, bytes).await.unwrap();
    fs.commit(&root(), &file, 0, 0).await.result.unwrap();
    file
}

/// Waits until the sizes of files that nobody writes are settled.
async fn settle(bed: &Bed) {
    let pauses = 2 * GIVE_BACK_AFTER + SETTLE_AFTER + 2 * SETTLE_EVERY;
    sleep(&bed.client.runtime(), pauses).await;
}

/// One of four I/O servers dies. Each file whose bytes are elsewhere is listed, looked at, read, renamed, and made
/// anew, without an operation over two seconds.
#[test]
fn a_dead_server_takes_only_its_own_bytes_with_it() {
    run(11, |bed| async move {
        let (fs, runtime) = (bed.mount(), bed.client.runtime());
        let mut files = Vec::new();
        for number in 0..12 {
            let name = format!("file {number}");
            files.push((make(&fs, &name, name.as_bytes()).await, name));
        }
        settle(&bed).await;
        bed.kill_io_server(2);
        // This client knows nothing of the files.
        let fs = bed.mount();
        let (mut read_files, mut lost) = (0, 0);
        for (file, name) in &files {
            let began = runtime.now();
            let found = fs.lookup(&root(), &fs.root(), name.as_bytes()).await.0;
            let (found, attributes) = found.unwrap();
            assert_eq!((found, attributes.size), (*file, name.len() as u64));
            assert!(runtime.now() - began < SOON);
            let caller = root();
            let reading = fs.read(&caller, file, 0, 1 << 20);
            match timeout(&runtime, SOON, reading).await {
                Ok(Ok(reply)) => {
                    assert_eq!(reply.count as usize, name.len());
                    read_files += 1;
                }
                _ => lost += 1,
            }
        }
        assert_eq!((read_files, lost), (9, 3), "each server has a quarter");
        for number in 0..12 {
            let began = runtime.now();
            let name = format!("new {number}");
            let made = make(&fs, &name, b"bytes").await;
            assert_eq!(fs.attributes(&made).await.unwrap().size, 5);
            let top = fs.root();
            let to = EntryName::new(&top, b"renamed");
            let from = EntryName::new(&top, name.as_bytes());
            fs.rename(&root(), from, to).await.0.unwrap();
            assert_eq!(read(&fs, &made, 0, 9).await, b"bytes");
            assert!(runtime.now() - began < SOON, "{:?}", runtime.now() - began);
        }
    });
}

/// A settled size is in the metadata: a manager that has just started asks no server for it.
#[test]
fn settled_sizes_outlive_the_manager() {
    run(12, |bed| async move {
        let fs = bed.mount();
        let file = make(&fs, "file", b"bytes").await;
        settle(&bed).await;
        bed.kill_manager(Crash::Power);
        bed.faults().restart(bed.manager.id());
        bed.start_manager();
        fs.attributes(&fs.root()).await.unwrap();
        bed.kill_io_server(3);
        assert_eq!(fs.attributes(&file).await.unwrap().size, 5);
    });
}

/// Each write, append and truncation of a settled file shows at once, also at another client.
#[test]
fn a_settled_size_ends_before_a_change() {
    run(13, |bed| async move {
        let (fs, other) = (bed.mount(), bed.mount());
        let file = make(&fs, "file", b"bytes").await;
        for round in 0..3_u64 {
            settle(&bed).await;
            let size = fs.attributes(&file).await.unwrap().size;
            write(&fs, &file, size, &[7; 10]).await.unwrap();
            assert_eq!(other.attributes(&file).await.unwrap().size, size + 10);
            fs.commit(&root(), &file, 0, 0).await.result.unwrap();
            settle(&bed).await;
            assert_eq!(other.attributes(&file).await.unwrap().size, size + 10);
            let cut = SetAttributes {
                size: Some(round),
                ..SetAttributes::default()
            };
            let cut = other.set_attributes(&root(), &file, &cut, None).await;
            cut.result.unwrap();
            assert_eq!(fs.attributes(&file).await.unwrap().size, round);
        }
    });
}

/// Makes a file on one I/O server.
async fn make_on(fs: &VolumeFs, server: u32, name: &str) -> FileHandle {
    let (caller, plain) = (root(), SetAttributes::default());
    let stripes = Stripes {
        unit: VOLUME_UNIT,
        on: Chosen::Listed(vec![server]),
        copies: None,
    };
    let (top, name) = (fs.root(), name.as_bytes());
    let made = fs.create_striped(&caller, &top, name, &plain, stripes);
    let file = made.await.unwrap();
    write(fs, &file, 0, b"bytes").await.unwrap();
    fs.commit(&caller, &file, 0, 0).await.result.unwrap();
    file
}

/// The manager asks for the sizes of two files together, and one I/O server keeps it waiting. Meanwhile `change` makes
/// the other file `expected` bytes long, which is the size that gets settled.
fn change_while_another_size_is_asked_for(
    change: impl AsyncFn(&VolumeFs, &FileHandle) + Copy + 'static,
    expected: u64,
) {
    // In some of the runs the change comes while the manager waits.
    for seconds in 0..SIZE_DEADLINE.as_secs() {
        run(17, move |bed| async move {
            let (fs, runtime, faults) = (bed.mount(), bed.client.runtime(), bed.faults());
            let file = make_on(&fs, 0, "file").await;
            make_on(&fs, 1, "another").await;
            // Both grants end at the same time, so both sizes are asked for at the same time.
            fs.rest().await;
            let [manager, silent] = [bed.manager.id(), bed.io_servers[1].node.id()];
            faults.partition(manager, silent);
            sleep(&runtime, Duration::from_secs(seconds)).await;
            let writer = bed.mount();
            change(&writer, &file).await;
            writer.rest().await;
            sleep(&runtime, SIZE_DEADLINE).await;
            settle(&bed).await;
            let size = bed.mount().attributes(&file).await.unwrap().size;
            assert_eq!(size, expected, "changed after {seconds} s");
            // It is settled, so nobody is asked.
            bed.kill_io_server(0);
            let size = bed.mount().attributes(&file).await.unwrap().size;
            assert_eq!(size, expected, "changed after {seconds} s");
        });
    }
}

/// The settled size was from before the write: other clients did not see the bytes.
#[test]
fn a_write_while_another_size_is_asked_for_is_not_lost() {
    let write = async |fs: &VolumeFs, file: &FileHandle| {
        write(fs, file, 5, &[7; 10]).await.unwrap();
        fs.commit(&root(), file, 0, 0).await.result.unwrap();
    };
    change_while_another_size_is_asked_for(write, 15);
}

/// The settled size was from before the truncation: the file went on behind its end.
#[test]
fn a_truncation_while_another_size_is_asked_for_is_not_lost() {
    let cut = async |fs: &VolumeFs, file: &FileHandle| {
        let cut = SetAttributes {
            size: Some(2),
            ..SetAttributes::default()
        };
        let cut = fs.set_attributes(&root(), file, &cut, None).await;
        cut.result.unwrap();
    };
    change_while_another_size_is_asked_for(cut, 2);
}

/// A client writes without COMMIT and is gone. The manager makes its bytes durable before it settles their size: an I/O
/// server that loses power afterwards has them.
#[test]
fn bytes_of_a_client_that_died_are_durable_when_their_size_is_settled() {
    let world = World::new(14);
    let bed = Bed::new(&world, 4);
    let faults = world.faults();
    let done = world.run(async move {
        let fs = bed.mount();
        let mode = CreateMode::Guarded(SetAttributes::default());
        let made = fs.create(&root(), &fs.root(), b"file", &mode).await;
        let file = made.result.unwrap().handle;
        let victim = bed.mount();
        // A power failure keeps some of many writes, and never all.
        for piece in 0..32 {
            write(&victim, &file, 5 * piece, b"bytes").await.unwrap();
        }
        drop(victim);
        sleep(&bed.client.runtime(), GRANT_AGE + GRANTS_SWEEP).await;
        settle(&bed).await;
        for number in 0..4 {
            bed.volume.kill_io_server(number, Crash::Power);
        }
        assert_eq!(fs.attributes(&file).await.unwrap().size, 160);
        for number in 0..4 {
            faults.restart(bed.io_servers[number].node.id());
            bed.start_io_server(number);
        }
        assert_eq!(read(&fs, &file, 0, 200).await, b"bytes".repeat(32));
    });
    done.unwrap();
}

/// As above, but the size is asked for when the grant has run out, before the manager looks for such grants.
#[test]
fn bytes_are_durable_when_their_size_is_asked_for_as_the_grant_runs_out() {
    // In one of the runs the manager does not look for a while.
    for step in 0..5 {
        run(18, move |bed| async move {
            let (fs, runtime) = (bed.mount(), bed.client.runtime());
            sleep(&runtime, GRANTS_SWEEP * step / 5).await;
            let mode = CreateMode::Guarded(SetAttributes::default());
            let made = fs.create(&root(), &fs.root(), b"file", &mode).await;
            let file = made.result.unwrap().handle;
            let victim = bed.mount();
            for piece in 0..32 {
                write(&victim, &file, 5 * piece, b"bytes").await.unwrap();
            }
            drop(victim);
            sleep(&runtime, GRANT_AGE).await;
            assert_eq!(fs.attributes(&file).await.unwrap().size, 160);
            settle(&bed).await;
            for number in 0..4 {
                bed.volume.kill_io_server(number, Crash::Power);
            }
            assert_eq!(fs.attributes(&file).await.unwrap().size, 160);
            for number in 0..4 {
                bed.faults().restart(bed.io_servers[number].node.id());
                bed.start_io_server(number);
            }
            assert_eq!(
                read(&fs, &file, 0, 200).await,
                b"bytes".repeat(32),
                "{step}"
            );
        });
    }
}

/// An older copy of the metadata is served by force. Sizes that it settled may be from before a write, so the servers
/// are asked.
#[test]
fn an_older_copy_of_the_metadata_is_not_believed_about_sizes() {
    let world = World::new(15);
    let bed = Bed::new(&world, 4);
    let rival = world.add_node("rival");
    let done = world.run(async move {
        let fs = bed.mount();
        let file = make(&fs, "file", b"bytes").await;
        settle(&bed).await;
        let copy = bed.copy_metadata();
        write(&fs, &file, 5, &[7; 10]).await.unwrap();
        fs.commit(&root(), &file, 0, 0).await.result.unwrap();
        settle(&bed).await;
        bed.kill_manager(Crash::Power);
        bed.start_rival(&rival, &copy, true);
        let fs = bed.mount_of(&bed.client, &rival);
        assert_eq!(fs.attributes(&file).await.unwrap().size, 15);
        settle(&bed).await;
        assert_eq!(fs.attributes(&file).await.unwrap().size, 15);
    });
    done.unwrap();
}

/// A mount or a command that has ended wrote a file as a user. Its grant stayed with the manager for its age, and the
/// owner could not set a set-user-ID bit meanwhile: chmod(2) failed after a minute.
#[test]
fn a_client_that_ends_gives_its_grants_back() {
    run(16, |bed| async move {
        let (fs, runtime) = (bed.mount(), bed.client.runtime());
        let file = make(&fs, "file", b"bytes").await;
        let change = |mode| SetAttributes {
            mode: Some(mode),
            ..SetAttributes::default()
        };
        let (caller, open) = (root(), change(0o666));
        let opened = fs.set_attributes(&caller, &file, &open, None).await;
        opened.result.unwrap();
        let ending = bed.mount();
        let user = Credentials::new(7, 7, &[]);
        let data = Buffer::from_vec(b"BYTES".to_vec());
        let stable = Stability::FileSync;
        let written = ending.write(&user, &file, 0, data, 0..5, stable);
        written.await.result.unwrap();
        ending.rest().await;
        drop(ending);
        let began = runtime.now();
        let privileged = change(0o4755);
        let set = fs.set_attributes(&caller, &file, &privileged, None).await;
        set.result.unwrap();
        assert!(runtime.now() - began < GIVE_BACK_AFTER);
    });
}
