//! Two processes with the number of one I/O server: a disk is moved to another host, while its former process is dead,
//! paused, cut off from the manager, or as well as ever.
#![allow(clippy::unwrap_used)]

use crate::common::{Bed, VOLUME_UNIT, noise, read, root, write};
use gannet_runtime::{sleep, timeout};
use gannet_sim::{Crash, Node, World};
use gannet_vfs::{CreateMode, FileHandle, SetAttributes, Vfs};
use gannet_volume::client::VolumeFs;
use gannet_volume::host::ClaimFailure;
use gannet_volume::limits::{NUMBER_LEASE, NUMBER_LEASE_OVER};
use gannet_volume::manager::ClaimError;
use std::rc::Rc;
use std::time::Duration;

const MOVED: usize = 1;
const LEN: usize = 6 * VOLUME_UNIT as usize;
/// Longer than a process needs to get its number, or to hear that it does not.
const SOON: Duration = Duration::from_secs(5);

/// A volume of two I/O servers with a file on both, and other hosts for their disks.
struct Story {
    bed: Rc<Bed>,
    other_host: Node,
    third_host: Node,
    file: FileHandle,
    fs: VolumeFs,
}

fn run<F: Future<Output = ()> + 'static>(seed: u64, told: impl FnOnce(Story) -> F + 'static) {
    let world = World::new(seed);
    let other_host = world.add_node("other host");
    let third_host = world.add_node("third host");
    let bed = Bed::new(&world, 2);
    let telling = async move {
        let fs = bed.mount();
        let mode = CreateMode::Guarded(SetAttributes::default());
        let made = fs.create(&root(), &fs.root(), b"file", &mode).await;
        let file = made.result.unwrap().handle;
        write(&fs, &file, 0, &noise(LEN, 1)).await.unwrap();
        fs.commit(&root(), &file, 0, 0).await.result.unwrap();
        let story = Story {
            bed,
            other_host,
            third_host,
            file,
            fs,
        };
        told(story).await;
    };
    world.run(telling).unwrap();
}

impl Story {
    async fn wait(&self, time: Duration) {
        sleep(&self.bed.client.runtime(), time).await;
    }

    fn move_disk(&self) {
        self.bed.start_io_server_on(MOVED, &self.other_host);
    }

    /// Whether a new client reads the whole file soon, with these bytes.
    async fn has(&self, seed: u8) -> bool {
        let fs = self.bed.mount();
        let reading = async {
            loop {
                let found = fs.read(&root(), &self.file, 0, LEN as u32).await;
                if found.is_ok_and(|it| it.count as usize == LEN) {
                    return;
                }
                sleep(&self.bed.client.runtime(), Duration::from_millis(100)).await;
            }
        };
        if timeout(&self.bed.client.runtime(), SOON, reading)
            .await
            .is_err()
        {
            return false;
        }
        assert!(read(&fs, &self.file, 0, LEN).await == noise(LEN, seed));
        true
    }

    /// Where clients look for the server.
    async fn port_host(&self) -> String {
        let volume = self.bed.mount().volume().await.unwrap();
        volume.servers[MOVED].host.clone()
    }

    /// Why the last process on the disk has ended, if it has.
    fn end(&self) -> Option<ClaimError> {
        match self.bed.io_server_error(MOVED).as_deref() {
            Some(ClaimFailure::Refused(error)) => Some(error.clone()),
            _ => None,
        }
    }
}

#[test]
fn a_second_process_with_a_number_is_refused() {
    run(1, |story| async move {
        let place = story.port_host().await;
        story.move_disk();
        story.wait(SOON).await;
        assert!(matches!(story.end(), Some(ClaimError::Taken { .. })));
        assert_eq!(story.port_host().await, place);
        assert!(story.has(1).await);
    });
}

#[test]
fn a_process_that_starts_again_has_its_number_at_once() {
    run(2, |story| async move {
        story.bed.kill_io_server(MOVED);
        story.bed.start_io_server(MOVED);
        assert!(story.has(1).await);
        // Also from a manager that knows nothing but its metadata.
        story.bed.kill_manager(Crash::Process);
        story.bed.volume.kill_io_server(MOVED, Crash::Process);
        story.bed.start_manager();
        story.bed.start_io_server(MOVED);
        assert!(story.has(1).await);
    });
}

#[test]
fn the_disk_of_a_dead_server_is_served_elsewhere_when_its_lease_is_over() {
    run(3, |story| async move {
        story.bed.kill_io_server(MOVED);
        story.move_disk();
        story.wait(NUMBER_LEASE - 2 * SOON).await;
        assert!(!story.has(1).await);
        story.wait(2 * SOON).await;
        assert!(story.has(1).await);
        assert_eq!(story.port_host().await, story.other_host.ip().to_string());
        write(&story.fs, &story.file, 0, &noise(LEN, 2))
            .await
            .unwrap();
        assert!(story.has(2).await);
        // Back again, and the manager has forgotten all that is not durable.
        story
            .bed
            .faults()
            .crash(story.other_host.id(), Crash::Process);
        story.bed.kill_manager(Crash::Process);
        story.bed.start_manager();
        story.bed.start_io_server(MOVED);
        assert!(!story.has(2).await);
        story.wait(NUMBER_LEASE_OVER).await;
        assert!(story.has(2).await);
    });
}

#[test]
fn all_servers_are_replaced_when_all_are_dead_with_their_disks() {
    run(8, |story| async move {
        for (number, host) in [(0, &story.third_host), (MOVED, &story.other_host)] {
            story.bed.kill_io_server(number);
            story.bed.start_on_a_new_disk_of(number, host);
        }
        story.wait(NUMBER_LEASE_OVER + SOON).await;
        // They serve no empty disk without the manager's word, and its term was not confirmed without them.
        let (fs, as_root, runtime) = (story.bed.mount(), root(), story.bed.client.runtime());
        let (mode, parent) = (CreateMode::Guarded(SetAttributes::default()), fs.root());
        let making = fs.create(&as_root, &parent, b"new", &mode);
        let made = timeout(&runtime, SOON, making).await;
        let file = made.unwrap().result.unwrap().handle;
        write(&fs, &file, 0, &noise(LEN, 2)).await.unwrap();
        assert!(read(&fs, &file, 0, LEN).await == noise(LEN, 2));
    });
}

#[test]
fn a_server_that_was_paused_serves_no_more_once_another_has_its_number() {
    run(4, |story| async move {
        let (faults, first) = (story.bed.faults(), story.bed.io_servers[MOVED].node.id());
        faults.freeze(first);
        story.move_disk();
        story.wait(NUMBER_LEASE_OVER + SOON).await;
        let late = story.bed.mount();
        write(&late, &story.file, 0, &noise(LEN, 2)).await.unwrap();
        faults.thaw(first);
        // This client has been connected to the former process all the time.
        assert!(read(&story.fs, &story.file, 0, LEN).await == noise(LEN, 2));
        story.wait(SOON).await;
        assert_eq!(
            story.end(),
            Some(ClaimError::Superseded),
            "it ends by itself"
        );
        assert!(story.has(2).await);
    });
}

#[test]
fn a_server_that_the_manager_cannot_hear_stops_before_another_begins() {
    run(5, |story| async move {
        let (faults, manager) = (story.bed.faults(), story.bed.manager.id());
        let first = story.bed.io_servers[MOVED].node.id();
        faults.partition(first, manager);
        story.move_disk();
        // Clients reach the former process all the time, and use it as long as it has its number.
        let mut serves = 0;
        for second in 0..40 {
            let (bytes, began) = (noise(LEN, second), story.bed.client.runtime().now());
            let writing = write(&story.fs, &story.file, 0, &bytes);
            let written = timeout(&story.bed.client.runtime(), SOON, writing).await;
            if written == Ok(Ok(())) {
                serves += 1;
                let found = read(&story.fs, &story.file, 0, LEN).await;
                assert!(found == bytes, "second {second}");
            }
            let took = story.bed.client.runtime().now() - began;
            story
                .wait(Duration::from_secs(1).saturating_sub(took))
                .await;
        }
        assert!(serves > 20, "{serves}");
        assert_eq!(story.port_host().await, story.other_host.ip().to_string());
        write(&story.fs, &story.file, 0, &noise(LEN, 77))
            .await
            .unwrap();
        assert!(story.has(77).await);
        faults.heal(first, manager);
        story.wait(SOON).await;
        assert_eq!(story.end(), Some(ClaimError::Superseded));
        assert!(story.has(77).await);
    });
}

#[test]
fn a_server_that_comes_back_while_the_next_one_restarts_does_not_take_over() {
    run(6, |story| async move {
        let (faults, first) = (story.bed.faults(), story.bed.io_servers[MOVED].node.id());
        faults.partition(first, story.bed.manager.id());
        story.move_disk();
        story.wait(NUMBER_LEASE_OVER + 3 * SOON).await;
        assert!(story.has(1).await);
        faults.crash(story.other_host.id(), Crash::Process);
        story.wait(NUMBER_LEASE_OVER + SOON).await;
        faults.heal(first, story.bed.manager.id());
        story.wait(SOON).await;
        assert_eq!(story.end(), Some(ClaimError::Superseded));
    });
}
