//! Two managers of one volume: a copy of the metadata is started while the other one is cut off, stopped, or killed.

use super::common::{Bed, noise, root, until};
use super::{create, read, write};
use gannet_dst::volume::Carrier;
use gannet_meta::{claims, terms};
use gannet_runtime::sleep;
use gannet_sim::fabric::{FabricProfile, SimFabric};
use gannet_sim::{Crash, Node, World};
use gannet_vfs::{ByteLock, LockKind, LockRequest, Locked};
use gannet_vfs::{Status, Vfs};
use gannet_volume::client::VolumeFs;
use gannet_volume::limits::{TERM_HEARTBEAT, TERM_LEASE};
use gannet_volume::manager::TermError;
use std::rc::Rc;
use std::time::Duration;

/// A volume, a machine for another manager, and one for its clients.
struct Story {
    bed: Rc<Bed>,
    rival: Node,
    client: Node,
    world: World,
}

fn run<F: Future<Output = ()> + 'static>(
    seed: u64,
    servers: usize,
    tell: impl FnOnce(Rc<Story>) -> F,
) {
    let world = World::new(seed);
    let story = Rc::new(Story {
        bed: Bed::new(&world, servers),
        rival: world.add_node("rival"),
        client: world.add_node("client of the rival"),
        world,
    });
    let told = tell(Rc::clone(&story));
    story.world.run(told).unwrap();
}

impl Story {
    async fn wait(&self, time: Duration) {
        sleep(&self.client.runtime(), time).await;
    }

    /// Cuts the first manager off from I/O servers, or joins them again.
    fn cut_off(&self, is_cut: bool) {
        let (faults, manager) = (self.world.faults(), self.bed.manager.id());
        for server in &self.bed.io_servers {
            if is_cut {
                faults.partition(manager, server.node.id())
            } else {
                faults.heal(manager, server.node.id())
            }
        }
    }

    /// Why the first manager has ended.
    async fn end_of_the_first(&self) -> TermError {
        loop {
            if let Some(error) = self.bed.manager_error() {
                return error;
            }
            self.wait(Duration::from_millis(50)).await;
        }
    }

    fn by_rival(&self) -> VolumeFs {
        self.bed.mount_of(&self.client, &self.rival)
    }
}

async fn names(fs: &VolumeFs, names: &[&str]) -> Vec<bool> {
    let mut found = Vec::new();
    for name in names {
        let looked = fs.lookup(&root(), &fs.root(), name.as_bytes()).await.0;
        found.push(match looked {
            Ok(_) => true,
            Err(Status::Noent) => false,
            Err(status) => panic!("{name}: {status}"),
        });
    }
    found
}

#[test]
fn a_manager_that_was_cut_off_answers_no_change_once_a_copy_of_it_has_begun() {
    run(1, 3, |story| async move {
        let first = story.bed.mount();
        let file = create(&first, "file").await;
        let (old, new) = (noise(20_000, 1), noise(20_000, 2));
        write(&first, &file, 0, &old).await.unwrap();
        story.cut_off(true);
        let copy = story.bed.copy_metadata();
        let end = story.bed.start_rival(&story.rival, &copy, false);
        story.bed.tell_io_servers_of(&story.rival);
        let second = story.by_rival();
        create(&second, "new").await;
        let there = second.lookup(&root(), &second.root(), b"file").await.0;
        let there = there.unwrap().0;
        write(&second, &there, 0, &new).await.unwrap();
        // The first one does not know yet. Its client hears of nothing that would be lost.
        let mode = gannet_vfs::CreateMode::Guarded(Default::default());
        let root_of = first.root();
        let made = first.create(&root(), &root_of, b"lost", &mode).await;
        assert_eq!(made.result.err(), Some(Status::Jukebox));
        // Nor are its capabilities good any more, old ones or new.
        let written = write(&first, &file, 0, &old).await;
        assert_eq!(written.err(), Some(Status::Jukebox));
        assert!(read(&second, &there, 0, 20_000).await == new);
        assert_eq!(story.bed.manager_error(), None);
        story.cut_off(false);
        let error = story.end_of_the_first().await;
        assert!(matches!(error, TermError::Replaced { .. }), "{error}");
        let found = names(&second, &["file", "new", "lost"]).await;
        assert_eq!(found, [true, true, false]);
        assert_eq!(*end.borrow(), None);
        // Started again, it is no better.
        story.bed.kill_manager(Crash::Process);
        story.world.faults().restart(story.bed.manager.id());
        let (first, metadata) = (&story.bed.manager, story.bed.copy_metadata());
        let error = story.bed.start_rival(first, &metadata, false);
        story.wait(Duration::from_secs(2)).await;
        let error = error.borrow().clone();
        assert!(
            matches!(error, Some(TermError::Superseded { .. })),
            "{error:?}"
        );
        create(&second, "more").await;
    });
}

/// A lock of a whole file.
fn lock_of(owner: u64) -> ByteLock {
    ByteLock {
        owner,
        kind: LockKind::Exclusive,
        start: 0,
        end: u64::MAX,
        process: 1,
    }
}

/// Its I/O servers are out of its reach, its clients are not.
#[test]
fn a_manager_that_was_cut_off_is_silent_before_its_successor_speaks() {
    run(7, 3, |story| async move {
        let patient = |fs: VolumeFs| fs.patient(Duration::from_millis(100));
        let first = patient(story.bed.mount());
        let file = create(&first, "file").await;
        story.cut_off(true);
        let copy = story.bed.copy_metadata();
        let end = story.bed.start_rival(&story.rival, &copy, false);
        let runtime = story.client.runtime();
        let (second, began) = (story.by_rival(), runtime.now());
        let (mut last_of_first, top) = (began, first.root());
        let asking = async {
            // A new client each time: none of them answers by itself.
            loop {
                let asks = patient(story.bed.mount());
                if asks.lookup(&root(), &top, b"file").await.0.is_ok() {
                    last_of_first = runtime.now();
                }
                story.wait(Duration::from_millis(20)).await;
            }
        };
        let waiting = async { names(&second, &["file"]).await };
        let found = until(waiting, asking).await;
        assert_eq!((found, end.borrow().clone()), (vec![true], None));
        let first_of_second = runtime.now();
        assert!(last_of_first > began, "it goes on for a while");
        assert!(last_of_first < first_of_second);
        assert!(last_of_first < began + TERM_LEASE);
        assert!(
            first_of_second < began + 2 * TERM_LEASE,
            "it does not wait for long"
        );
        // Nor does it grant locks, which would bind nobody.
        let (caller, lock) = (root(), lock_of(1));
        let locked = first.lock(&caller, &file, &lock, LockRequest::Try).await;
        assert_eq!(locked.err(), Some(Status::Jukebox));
        let there = second.lookup(&root(), &second.root(), b"file").await.0;
        let there = there.unwrap().0;
        let locked = second.lock(&caller, &there, &lock, LockRequest::Try).await;
        assert!(matches!(locked, Ok(Locked::Done)));
        // Joined again, it learns why.
        story.cut_off(false);
        let error = story.end_of_the_first().await;
        assert!(matches!(error, TermError::Replaced { .. }), "{error}");
    });
}

/// Requests wait at a machine that is paused. Its copy answers others meanwhile.
#[test]
fn a_manager_that_was_paused_answers_nothing_from_before() {
    run(10, 3, |story| async move {
        let first = story.bed.mount().patient(Duration::from_secs(1));
        create(&first, "file").await;
        let top = first.root();
        // Their connections are there before the pause.
        assert!(first.attributes(&top).await.is_ok());
        let copy = story.bed.copy_metadata();
        story.world.faults().freeze(story.bed.manager.id());
        let end = story.bed.start_rival(&story.rival, &copy, false);
        let second = story.by_rival();
        let resuming = async {
            create(&second, "new").await;
            story.world.faults().thaw(story.bed.manager.id());
            story.end_of_the_first().await
        };
        let asking = async {
            loop {
                let looked = first.lookup(&root(), &top, b"new").await.0;
                assert_eq!(
                    looked.err(),
                    Some(Status::Jukebox),
                    "it denies the new name"
                );
            }
        };
        let error = until(resuming, asking).await;
        assert!(matches!(error, TermError::Replaced { .. }), "{error}");
        assert_eq!(*end.borrow(), None);
    });
}

#[test]
fn a_manager_without_a_rival_goes_on_when_its_servers_are_back() {
    run(8, 2, |story| async move {
        let fs = story.bed.mount();
        create(&fs, "before").await;
        story.cut_off(true);
        story.wait(2 * TERM_LEASE).await;
        let (began, runtime) = (story.client.runtime().now(), story.client.runtime());
        let mending = async {
            story.wait(Duration::from_secs(3)).await;
            story.cut_off(false);
        };
        until(names(&fs, &["before"]), mending).await;
        assert!(runtime.now() >= began + Duration::from_secs(3));
        create(&fs, "after").await;
        assert_eq!(story.bed.manager_error(), None);
    });
}

/// Before, each lone change waited until half of the I/O servers had confirmed the term once more.
#[test]
fn a_change_waits_for_no_io_server_while_the_term_is_confirmed() {
    run(9, 3, |story| async move {
        let fs = story.bed.mount();
        create(&fs, "first").await;
        story.cut_off(true);
        let (top, runtime) = (fs.root(), story.client.runtime());
        let began = runtime.now();
        for number in 0..100 {
            let name = format!("d{number}");
            let (caller, usual) = (root(), Default::default());
            let made = fs.make_directory(&caller, &top, name.as_bytes(), &usual);
            made.await.result.unwrap();
        }
        assert!(runtime.now() < began + TERM_HEARTBEAT);
    });
}

#[test]
fn a_copy_that_lacks_an_answered_change_is_refused_until_it_is_forced() {
    run(2, 2, |story| async move {
        let first = story.bed.mount();
        create(&first, "kept").await;
        let copy = story.bed.copy_metadata();
        create(&first, "given up").await;
        // The I/O servers hear of it with the next heartbeat.
        story.wait(2 * TERM_HEARTBEAT).await;
        story.bed.kill_manager(Crash::Power);
        let end = story.bed.start_rival(&story.rival, &copy, false);
        story.wait(Duration::from_secs(2)).await;
        let error = end.borrow().clone();
        assert!(matches!(error, Some(TermError::Behind { .. })), "{error:?}");
        story.world.faults().crash(story.rival.id(), Crash::Process);
        story.world.faults().restart(story.rival.id());
        let end = story.bed.start_rival(&story.rival, &copy, true);
        let second = story.by_rival();
        let found = names(&second, &["kept", "given up"]).await;
        assert_eq!((found, end.borrow().clone()), (vec![true, false], None));
        // Now the other one is the copy.
        story.world.faults().restart(story.bed.manager.id());
        story.bed.start_manager();
        let error = story.end_of_the_first().await;
        assert!(matches!(error, TermError::Superseded { .. }), "{error}");
    });
}

#[test]
fn io_servers_remember_the_term_over_a_loss_of_power() {
    run(3, 3, |story| async move {
        let first = story.bed.mount();
        create(&first, "file").await;
        story.bed.kill_manager(Crash::Power);
        let copy = story.bed.copy_metadata();
        // An incarnation of its own.
        story.world.faults().restart(story.bed.manager.id());
        story.bed.start_manager();
        create(&first, "new").await;
        for number in 0..3 {
            story.bed.volume.kill_io_server(number, Crash::Power);
            story
                .world
                .faults()
                .restart(story.bed.io_servers[number].node.id());
            story.bed.start_io_server(number);
        }
        let end = story.bed.start_rival(&story.rival, &copy, false);
        story.wait(Duration::from_secs(3)).await;
        let error = end.borrow().clone();
        assert!(
            matches!(error, Some(TermError::Superseded { .. })),
            "{error:?}"
        );
        create(&first, "still served").await;
    });
}

#[test]
fn a_manager_waits_for_a_majority_and_its_clients_wait_with_it() {
    run(4, 3, |story| async move {
        let first = story.bed.mount();
        create(&first, "file").await;
        story.bed.kill_manager(Crash::Process);
        for number in [0, 1] {
            story.bed.kill_io_server(number);
        }
        story.world.faults().restart(story.bed.manager.id());
        story.bed.start_manager();
        let waited = std::cell::Cell::new(false);
        let making = async {
            create(&first, "late").await;
            assert!(waited.get(), "made without a majority");
        };
        let mending = async {
            story.wait(Duration::from_secs(4)).await;
            waited.set(true);
            story
                .world
                .faults()
                .restart(story.bed.io_servers[1].node.id());
            story.bed.start_io_server(1);
        };
        until(making, mending).await;
        assert_eq!(story.bed.manager_error(), None);
        // While it rules, half of them are enough: one more goes, one comes.
        story
            .world
            .faults()
            .restart(story.bed.io_servers[0].node.id());
        story.bed.start_io_server(0);
        story.bed.kill_io_server(2);
        create(&first, "with one away").await;
    });
}

/// A volume of two I/O servers gets a third while its first manager, and one server with it, are cut off. Half of two
/// and a majority of three share no server: the second manager must not begin without the former majority.
#[test]
fn an_added_server_gives_no_second_manager_a_majority() {
    let world = World::new(6);
    let carrier = Carrier::Memory(SimFabric::new(&world, FabricProfile::default()));
    let bed = gannet_dst::volume::Bed::new(&world, carrier, 3, 4096);
    let (rival, client) = (world.add_node("rival"), world.add_node("client"));
    let other = world.add_node("client of the rival");
    let faults = world.faults();
    let done = world.run(async move {
        let wait = async |seconds| sleep(&other.runtime(), Duration::from_secs(seconds)).await;
        // All disks get their marks. From then on, the volume has had two servers.
        bed.start();
        wait(3).await;
        bed.kill_manager(Crash::Process);
        faults.restart(bed.manager.id());
        bed.damage(&mut |it| {
            claims::note_servers_count(it, 2)?;
            terms::note_servers_of_term(it, 2)
        });
        bed.start_manager_of(2);
        let first = bed.mount(&client);
        create(&first, "before").await;
        wait(3).await;
        // The first manager keeps server 0, and the second one reaches the others.
        let cut = |is_cut: bool| {
            let (first, second) = (bed.manager.id(), rival.id());
            let pairs = [(first, 1), (first, 2), (second, 0)];
            for (manager, number) in pairs {
                let server = bed.io_servers[number].node.id();
                if is_cut {
                    faults.partition(manager, server);
                } else {
                    faults.heal(manager, server);
                }
            }
        };
        cut(true);
        let copy = bed.copy_metadata();
        let end = bed.start_rival(&rival, &copy, false);
        wait(10).await;
        create(&first, "by the first").await;
        let second = bed.mount_of(&other, &rival).patient(Duration::from_secs(5));
        let mode = gannet_vfs::CreateMode::Guarded(Default::default());
        let top = second.root();
        let made = second.create(&root(), &top, b"by the second", &mode).await;
        assert_eq!(made.result.err(), Some(Status::Jukebox));
        cut(false);
        wait(10).await;
        let error = end.borrow().clone();
        assert!(matches!(error, Some(TermError::Behind { .. })), "{error:?}");
        let found = names(&first, &["before", "by the first"]).await;
        assert_eq!(found, [true, true]);
        // The newest metadata and all servers: the volume has three from now on.
        bed.kill_manager(Crash::Process);
        faults.crash(rival.id(), Crash::Process);
        faults.restart(rival.id());
        let copy = bed.copy_metadata();
        let end = bed.start_rival(&rival, &copy, false);
        let second = bed.mount_of(&other, &rival);
        create(&second, "by the second").await;
        assert_eq!(*end.borrow(), None);
    });
    done.unwrap();
}
