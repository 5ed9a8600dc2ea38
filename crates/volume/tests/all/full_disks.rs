//! Disks without room: for a moment, because removed files are about to go, or to stay.
#![allow(clippy::unwrap_used)]

use crate::common::{Bed, root, write};
use gannet_runtime::{both, sleep};
use gannet_sim::World;
use gannet_sim::store::DiskProfile;
use gannet_vfs::{CreateMode, FileHandle, SetAttributes, Status, Vfs};
use gannet_volume::client::VolumeFs;
use gannet_volume::limits::FULL_PATIENCE;
use std::rc::Rc;
use std::time::Duration;

async fn make(fs: &VolumeFs) -> FileHandle {
    let mode = CreateMode::Guarded(SetAttributes::default());
    let made = fs.create(&root(), &fs.root(), b"file", &mode).await;
    made.result.unwrap().handle
}

fn be_full(bed: &Bed, is_full: bool) {
    for server in &bed.io_servers {
        server.disk.set_profile(DiskProfile {
            no_space_per_mille: if is_full { 1000 } else { 0 },
            ..DiskProfile::default()
        });
    }
}

#[test]
fn a_write_waits_for_the_space_of_removed_files_and_not_for_a_disk_that_stays_full() {
    let world = World::new(41);
    let bed = Bed::new(&world, 2);
    let story = async move {
        let (fs, runtime) = (Rc::new(bed.mount()), bed.client.runtime());
        let file = make(&fs).await;
        write(&fs, &file, 0, b"before").await.unwrap();
        be_full(&bed, true);
        let room = async {
            sleep(&runtime, FULL_PATIENCE / 2).await;
            be_full(&bed, false);
        };
        let (written, ()) = both(write(&fs, &file, 0, &[7; 9000]), room).await;
        assert_eq!(written, Ok(()));
        be_full(&bed, true);
        for most in [2 * FULL_PATIENCE, FULL_PATIENCE / 10] {
            let began = runtime.now();
            let refused = write(&fs, &file, 9000, &[7; 9000]).await;
            assert_eq!(refused, Err(Status::Nospc));
            assert!(runtime.now() - began < most, "the second one waits no more");
        }
        be_full(&bed, false);
        sleep(&runtime, Duration::from_secs(5)).await;
        write(&fs, &file, 9000, &[7; 9000]).await.unwrap();
    };
    world.run(story).unwrap();
}
