//! Rights that a change of owner or mode takes away: from the reply on, nobody reads or writes by them.
#![allow(clippy::unwrap_used)]

use crate::common::{Bed, root};
use gannet_runtime::{Buffer, sleep};
use gannet_sim::World;
use gannet_vfs::{CreateMode, Credentials, FileHandle, SetAttributes, Stability, Status, Vfs};
use gannet_volume::client::VolumeFs;
use std::rc::Rc;
use std::time::Duration;

const OWNER: u32 = 10;
const OTHER: u32 = 12;

fn run<F: Future<Output = ()> + 'static>(seed: u64, story: impl FnOnce(Rc<Bed>) -> F) {
    let world = World::new(seed);
    let bed = Bed::new(&world, 3);
    world.run(story(bed)).unwrap();
}

fn user(uid: u32) -> Credentials {
    Credentials::new(uid, 100, &[])
}

async fn write(fs: &VolumeFs, uid: u32, file: &FileHandle) -> Result<(), Status> {
    let (buffer, caller) = (Buffer::from_vec(b"secret".to_vec()), user(uid));
    let written = fs.write(&caller, file, 0, buffer, 0..6, Stability::FileSync);
    written.await.result.map(|_| ())
}

async fn read(fs: &VolumeFs, uid: u32, file: &FileHandle) -> Result<u32, Status> {
    let reply = fs.read(&user(uid), file, 0, 6).await;
    reply.map(|reply| reply.count)
}

/// A file of OWNER, which OTHER may read and write.
async fn shared(fs: &VolumeFs) -> FileHandle {
    let open = SetAttributes {
        mode: Some(0o777),
        ..SetAttributes::default()
    };
    let top = fs.root();
    let opened = fs.set_attributes(&root(), &top, &open, None).await;
    opened.result.unwrap();
    let mode = CreateMode::Guarded(SetAttributes {
        mode: Some(0o666),
        ..SetAttributes::default()
    });
    let made = fs.create(&user(OWNER), &top, b"file", &mode).await;
    let file = made.result.unwrap().handle;
    write(fs, OWNER, &file).await.unwrap();
    file
}

async fn set(fs: &VolumeFs, caller: &Credentials, file: &FileHandle, change: SetAttributes) {
    let set = fs.set_attributes(caller, file, &change, None).await;
    set.result.unwrap();
}

fn mode(mode: u32) -> SetAttributes {
    SetAttributes {
        mode: Some(mode),
        ..SetAttributes::default()
    }
}

#[test]
fn a_right_that_chmod_takes_away_ends_with_its_reply() {
    run(31, |bed| async move {
        let (fs, elsewhere) = (bed.mount(), bed.mount());
        let file = shared(&fs).await;
        for _ in 0..3 {
            for fs in [&fs, &elsewhere] {
                // Often enough that the next read would need no call.
                for _ in 0..5 {
                    assert_eq!(read(fs, OTHER, &file).await, Ok(6));
                }
                assert_eq!(write(fs, OTHER, &file).await, Ok(()));
            }
            set(&fs, &user(OWNER), &file, mode(0o600)).await;
            for fs in [&fs, &elsewhere] {
                assert_eq!(read(fs, OTHER, &file).await, Err(Status::Acces));
                assert_eq!(write(fs, OTHER, &file).await, Err(Status::Acces));
                assert_eq!(read(fs, OWNER, &file).await, Ok(6));
                assert_eq!(write(fs, OWNER, &file).await, Ok(()));
            }
            set(&fs, &user(OWNER), &file, mode(0o666)).await;
        }
    });
}

#[test]
fn the_former_owner_loses_the_file_with_the_reply_to_chown() {
    run(32, |bed| async move {
        let (fs, elsewhere) = (bed.mount(), bed.mount());
        let file = shared(&fs).await;
        set(&fs, &user(OWNER), &file, mode(0o600)).await;
        assert_eq!(write(&elsewhere, OWNER, &file).await, Ok(()));
        let given = SetAttributes {
            uid: Some(OTHER),
            ..SetAttributes::default()
        };
        set(&fs, &root(), &file, given).await;
        for fs in [&fs, &elsewhere] {
            assert_eq!(read(fs, OWNER, &file).await, Err(Status::Acces));
            assert_eq!(write(fs, OWNER, &file).await, Err(Status::Acces));
            assert_eq!(write(fs, OTHER, &file).await, Ok(()));
        }
    });
}

/// An I/O server that restarts forgets what was revoked, and hears of it again.
#[test]
fn a_restarted_server_refuses_what_was_revoked_before() {
    run(33, |bed| async move {
        let (fs, elsewhere) = (bed.mount(), bed.mount());
        let file = shared(&fs).await;
        assert_eq!(read(&elsewhere, OTHER, &file).await, Ok(6));
        set(&fs, &user(OWNER), &file, mode(0o600)).await;
        for number in 0..3 {
            bed.kill_io_server(number);
            bed.faults().restart(bed.io_servers[number].node.id());
            bed.start_io_server(number);
        }
        sleep(&bed.client.runtime(), Duration::from_secs(2)).await;
        assert_eq!(read(&elsewhere, OTHER, &file).await, Err(Status::Acces));
    });
}
