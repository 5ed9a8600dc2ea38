//! How the servers of a volume start, by production's wiring: in any order, at other addresses, with disks that are
//! empty, lost, swapped or exchanged meanwhile.

use gannet_dst::volume::{Bed, Carrier, DiskError};
use gannet_runtime::{Buffer, sleep};
use gannet_sim::fabric::{FabricProfile, SimFabric};
use gannet_sim::store::DiskProfile;
use gannet_sim::{Crash, LinkProfile, Node, World};
use gannet_testing::noise;
use gannet_vfs::{CreateMode, Credentials, SetAttributes, Stability, Status, Vfs};
use gannet_volume::client::VolumeFs;
use gannet_volume::host::ClaimFailure;
use gannet_volume::limits::CLAIM_PATIENCE;
use gannet_volume::manager::ClaimError;
use std::time::Duration;

/// Bytes of a stripe.
const UNIT: u32 = 4096;
/// Bytes of a file that lies on all I/O servers.
const LEN: usize = 10 * UNIT as usize;
/// Long enough for a claim to end.
const A_WHILE: Duration = Duration::from_secs(10);

/// A volume none of whose servers runs, and the machine of a client.
struct Story {
    bed: Bed,
    client: Node,
}

fn run(servers: usize, tell: impl AsyncFnOnce(Story) + 'static) {
    run_over(LinkProfile::default(), servers, tell);
}

fn run_over(links: LinkProfile, servers: usize, tell: impl AsyncFnOnce(Story) + 'static) {
    let world = World::new(servers as u64);
    world.set_links(links);
    let carrier = Carrier::Memory(SimFabric::new(&world, FabricProfile::default()));
    let story = Story {
        bed: Bed::new(&world, carrier, servers, UNIT),
        client: world.add_node("client"),
    };
    world.run(async move { tell(story).await }).unwrap();
}

fn root() -> Credentials {
    Credentials::new(0, 0, &[])
}

async fn write(fs: &VolumeFs, name: &str, salt: u8) {
    let mode = CreateMode::Unchecked(SetAttributes::default());
    let made = fs.create(&root(), &fs.root(), name.as_bytes(), &mode).await;
    let file = made.result.unwrap().handle;
    let (buffer, how) = (Buffer::from_vec(noise(LEN, salt)), Stability::FileSync);
    let caller = root();
    let written = fs.write(&caller, &file, 0, buffer, 0..LEN, how).await;
    written.result.unwrap();
}

async fn read(fs: &VolumeFs, name: &str) -> Result<Vec<u8>, Status> {
    let found = fs.lookup(&root(), &fs.root(), name.as_bytes()).await.0;
    let (file, _) = found?;
    let buffer = Buffer::zeroed(LEN);
    let (read, buffer) = fs.read_into(&root(), &file, 0, LEN as u32, buffer).await;
    let count = read?.count as usize;
    Ok(buffer.unwrap()[..count].to_vec())
}

impl Story {
    async fn wait(&self, time: Duration) {
        sleep(&self.client.runtime(), time).await;
    }

    fn mount(&self) -> VolumeFs {
        self.bed.mount(&self.client)
    }

    /// Kills an I/O server; it can be started again.
    fn kill(&self, number: usize) {
        self.bed.kill_io_server(number, Crash::Power);
        let node = self.bed.io_servers[number].node.id();
        self.bed.faults().restart(node);
    }

    fn kill_manager(&self) {
        self.bed.kill_manager(Crash::Power);
        self.bed.faults().restart(self.bed.manager.id());
    }

    /// True if an I/O server was refused because it had a disk with data before.
    fn was_served_before(&self, number: usize) -> bool {
        let error = self.bed.io_server_error(number);
        let error = error.as_deref();
        matches!(error, Some(ClaimFailure::Refused(ClaimError::ServedBefore)))
    }
}

#[test]
fn servers_start_in_any_order() {
    // The manager is 2.
    let orders = [
        [0, 1, 2],
        [0, 2, 1],
        [1, 0, 2],
        [1, 2, 0],
        [2, 0, 1],
        [2, 1, 0],
    ];
    for order in orders {
        run(2, async move |story| {
            for server in order {
                match server {
                    2 => story.bed.start_manager(),
                    number => story.bed.start_io_server(number),
                }
                // The pause is longer than a process waits for the manager before it reports that it listens.
                story.wait(Duration::from_secs(5)).await;
            }
            let fs = story.mount();
            write(&fs, "file", 1).await;
            // The orders work as well when all servers know their disks.
            story.kill_manager();
            (0..2).for_each(|number| story.kill(number));
            for server in order {
                match server {
                    2 => story.bed.start_manager(),
                    number => story.bed.start_io_server(number),
                }
                story.wait(Duration::from_secs(5)).await;
            }
            assert!(
                read(&story.mount(), "file").await.unwrap() == noise(LEN, 1),
                "{order:?}"
            );
            assert!(
                read(&fs, "file").await.unwrap() == noise(LEN, 1),
                "{order:?}"
            );
        });
    }
}

#[test]
fn a_server_that_comes_back_at_another_address_registers_there() {
    run(2, async |story| {
        story.bed.start();
        let fs = story.mount();
        write(&fs, "file", 1).await;
        assert_eq!(fs.volume().await.unwrap().servers[1].port, 20050);
        story.kill(1);
        story.bed.start_io_server_at(1, 30_001);
        // A client with the old address finds the server, and so does the manager, which asks all servers for sizes.
        assert!(read(&fs, "file").await.unwrap() == noise(LEN, 1));
        write(&fs, "file", 2).await;
        assert_eq!(fs.volume().await.unwrap().servers[1].port, 30_001);
        // A new manager process learns the address again by a registration.
        story.kill_manager();
        story.bed.start_manager();
        assert!(read(&story.mount(), "file").await.unwrap() == noise(LEN, 2));
    });
}

#[test]
fn an_empty_disk_of_a_server_that_was_served_is_refused() {
    run(2, async |story| {
        story.bed.start();
        let fs = story.mount();
        write(&fs, "file", 1).await;
        let removed = fs.remove(&root(), &fs.root(), b"file").await;
        removed.result.unwrap();
        write(&fs, "other", 2).await;
        story.kill(1);
        // Its disk is not mounted.
        story.bed.io_servers[1].disk.replace();
        story.bed.start_io_server(1);
        story.wait(A_WHILE).await;
        assert!(story.was_served_before(1));
        // A restart of all servers does not help.
        story.kill(1);
        story.kill_manager();
        story.bed.start_io_server(1);
        story.wait(A_WHILE).await;
        assert!(
            story.bed.io_server_error(1).is_none(),
            "nobody has answered"
        );
        story.bed.start_manager();
        story.wait(A_WHILE).await;
        assert!(story.was_served_before(1));
        assert_eq!(story.bed.io_servers[1].disk.files_in_folders(), 0);
    });
}

#[test]
fn a_server_that_was_never_served_has_a_first_disk_whenever_it_comes() {
    run(3, async |story| {
        story.bed.start_manager();
        story.bed.start_io_server(0);
        story.bed.start_io_server(1);
        let fs = story.mount();
        // The new file has stripes on all three servers.
        let mode = CreateMode::Guarded(SetAttributes::default());
        let made = fs.create(&root(), &fs.root(), b"file", &mode).await;
        made.result.unwrap();
        story.wait(A_WHILE).await;
        story.bed.start_io_server(2);
        write(&fs, "file", 1).await;
        assert!(read(&story.mount(), "file").await.unwrap() == noise(LEN, 1));
    });
}

#[test]
fn a_new_disk_in_place_of_a_lost_one_answers_for_what_was_lost() {
    run(2, async |story| {
        story.bed.start();
        let fs = story.mount();
        write(&fs, "lost", 1).await;
        story.kill(1);
        story.kill_manager();
        // The I/O server asks until the manager replies.
        story.bed.start_on_a_new_disk(1);
        story.wait(A_WHILE).await;
        story.bed.start_manager();
        assert_eq!(read(&fs, "lost").await.err(), Some(Status::Io));
        write(&fs, "new", 2).await;
        assert!(read(&story.mount(), "new").await.unwrap() == noise(LEN, 2));
        // The server knows its new disk after a restart, and which files lost objects with the old one.
        story.kill(1);
        story.bed.start_io_server(1);
        assert!(read(&fs, "new").await.unwrap() == noise(LEN, 2));
        assert_eq!(read(&fs, "lost").await.err(), Some(Status::Io));
        // A second report of a lost disk is refused.
        story.kill(1);
        story.bed.start_having_lost_a_disk(1);
        story.wait(A_WHILE).await;
        let error = story.bed.io_server_error(1);
        assert!(matches!(error.as_deref(), Some(ClaimFailure::NotLost)));
    });
}

#[test]
fn disks_that_were_swapped_are_not_served() {
    run(2, async |mut story| {
        story.bed.start();
        write(&story.mount(), "file", 1).await;
        (0..2).for_each(|number| story.kill(number));
        let [one, other] = &mut story.bed.io_servers[..] else {
            panic!("there are two");
        };
        std::mem::swap(&mut one.disk, &mut other.disk);
        (0..2).for_each(|number| story.bed.start_io_server(number));
        story.wait(A_WHILE).await;
        for number in 0..2 {
            let error = story.bed.io_server_error(number);
            let expected = DiskError::OfAnother(1 - number as u32);
            assert!(
                matches!(error.as_deref(), Some(ClaimFailure::Disk(error)) if *error == expected)
            );
        }
    });
}

#[test]
fn a_disk_that_is_mounted_while_the_manager_is_asked_is_not_taken() {
    run(1, async |story| {
        story.bed.start_io_server(0);
        story.wait(A_WHILE).await;
        story.bed.io_servers[0].disk.replace();
        story.bed.start_manager();
        story.wait(A_WHILE).await;
        let error = story.bed.io_server_error(0);
        assert!(matches!(error.as_deref(), Some(ClaimFailure::Changed)));
    });
}

#[test]
fn a_disk_that_cannot_be_marked_yet_is_served_once_it_can() {
    run(1, async |story| {
        let full = DiskProfile {
            no_space_per_mille: 1000,
            ..DiskProfile::default()
        };
        story.bed.io_servers[0].disk.set_profile(full);
        story.bed.start();
        story.wait(A_WHILE).await;
        assert!(story.bed.io_server_error(0).is_none());
        story.bed.io_servers[0]
            .disk
            .set_profile(DiskProfile::default());
        let fs = story.mount();
        write(&fs, "file", 1).await;
        assert!(read(&fs, "file").await.unwrap() == noise(LEN, 1));
    });
}

/// The claim of an empty disk survives a crash of its server at any moment of the first start.
#[test]
fn a_server_that_dies_while_it_claims_its_disk_claims_it_again() {
    for ms in (0..40).chain((40..2000).step_by(97)) {
        run(1, async move |story| {
            story.bed.io_servers[0].disk.set_profile(DiskProfile {
                slow_per_mille: 1000,
                delay_max_ns: 20_000_000,
                short_writes_per_mille: 500,
                ..DiskProfile::default()
            });
            story.bed.start();
            story.wait(Duration::from_millis(ms)).await;
            story.kill(0);
            if ms % 2 == 0 {
                story.kill_manager();
                story.bed.start_manager();
            }
            story.bed.start_io_server(0);
            let fs = story.mount();
            write(&fs, "file", 1).await;
            assert!(read(&fs, "file").await.unwrap() == noise(LEN, 1), "{ms} ms");
        });
    }
}

/// A manager that stands still at any moment of the first start replies only after the server's process has given its
/// first claim up. By then the manager may have noted that the server has a disk. Seed 3007130 showed it.
#[test]
fn a_first_disk_is_served_when_the_manager_replies_to_its_claim_late() {
    // Messages travel so slowly that one of these moments lies between the registration and its reply.
    let links = LinkProfile {
        latency_ns: 5_000_000,
        ..LinkProfile::default()
    };
    for ms in (0..300).step_by(5) {
        run_over(links, 1, async move |story| {
            story.bed.start();
            story.wait(Duration::from_millis(ms)).await;
            let (faults, manager) = (story.bed.faults(), story.bed.manager.id());
            faults.freeze(manager);
            story.wait(CLAIM_PATIENCE).await;
            faults.thaw(manager);
            story.wait(A_WHILE).await;
            let refused = story.bed.io_server_error(0);
            assert!(refused.is_none(), "{ms} ms: {:?}", refused.as_deref());
            let fs = story.mount();
            write(&fs, "file", 1).await;
            assert!(read(&fs, "file").await.unwrap() == noise(LEN, 1), "{ms} ms");
        });
    }
}
