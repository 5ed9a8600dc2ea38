//! Several managers over one engine: they are killed, paused and cut off in turn, while clients work.
#![allow(clippy::unwrap_used)]

use crate::common;

use common::history::{History, Seen, twice};
use common::{VOLUME_UNIT, root};
use gannet_dst::volume::{Bed, Carrier, Managers};
use gannet_runtime::{Handle, Instant, all, sleep};
use gannet_sim::fabric::{FabricProfile, SimFabric};
use gannet_sim::{Node, World};
use gannet_vfs::{
    ByteLock, CreateMode, Credentials, EntryName, FileHandle, LockKind, LockRequest, Locked,
    SetAttributes, Status, Vfs,
};
use gannet_volume::client::VolumeFs;
use gannet_wire::volume::ManagersOutcome;
use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::rc::Rc;
use std::time::Duration;

const MANAGERS: usize = 3;
/// Longer than another manager takes to answer.
const TAKES_OVER: Duration = Duration::from_secs(12);
/// The longest wait for three changes, of which one may be refused until the manager yields.
const WAIT_MAX: Duration = Duration::from_secs(20);
/// The same where requests to the engine are lost. A manager that stands by counts the lease anew after each, and may
/// have the next fault before it answers.
const WAIT_MAX_OF_LOSSES: Duration = Duration::from_secs(40);

/// A fault of the active manager's process, machine or network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    Killed,
    Paused,
    /// Neither the engine nor an I/O server can be reached.
    CutOff,
    WithoutEngine,
    WithoutServers,
    /// An operator has another one take over.
    Switched,
    /// The wall clock is an hour ahead, or behind.
    ClockJumps,
}

const FAULTS: [Fault; 7] = [
    Fault::Killed,
    Fault::Paused,
    Fault::CutOff,
    Fault::WithoutEngine,
    Fault::WithoutServers,
    Fault::Switched,
    Fault::ClockJumps,
];

struct Story {
    world: World,
    bed: Rc<Bed>,
    managers: Rc<Managers>,
    clients: Vec<Node>,
}

impl Story {
    /// A volume of two I/O servers and three managers, each of which loses one of `loses` requests to the engine.
    fn new(seed: u64, loses: u64) -> Rc<Story> {
        let world = World::new(seed);
        let carrier = Carrier::Memory(SimFabric::new(&world, FabricProfile::default()));
        let bed = Rc::new(Bed::new(&world, carrier, 2, VOLUME_UNIT));
        let managers = Managers::new(&world, &bed, MANAGERS, loses);
        managers.start(&world.add_node("supervisor"));
        let clients = (0..2).map(|_| world.add_node("client")).collect();
        Rc::new(Story {
            world,
            bed,
            managers,
            clients,
        })
    }

    fn run<F: Future<Output = ()> + 'static>(self: &Rc<Self>, story: impl FnOnce(Rc<Story>) -> F) {
        self.world.run(story(Rc::clone(self))).unwrap();
    }

    fn mount(&self, client: usize) -> VolumeFs {
        self.bed.mount(&self.clients[client])
    }

    fn clock(&self) -> Handle {
        self.clients[0].runtime()
    }

    /// The active manager has a fault for a while.
    async fn strike(&self, fault: Fault, lasts: Duration) {
        let faults = self.world.faults();
        let Some(active) = self.managers.active() else {
            return;
        };
        let manager = &self.managers.nodes[active];
        let cut = |is_cut: bool| {
            for server in &self.bed.io_servers {
                if is_cut {
                    faults.partition(manager.node.id(), server.node.id());
                } else {
                    faults.heal(manager.node.id(), server.node.id());
                }
            }
        };
        let (engine, servers) = match fault {
            Fault::Killed => {
                self.managers.kill(active);
                sleep(&self.clock(), lasts).await;
                self.managers.start_manager(active);
                return;
            }
            Fault::Paused => {
                faults.freeze(manager.node.id());
                sleep(&self.clock(), lasts).await;
                faults.thaw(manager.node.id());
                return;
            }
            Fault::ClockJumps => {
                for ahead in [3600, -3600, 0] {
                    faults.set_clock(manager.node.id(), ahead);
                    sleep(&self.clock(), lasts / 3).await;
                }
                return;
            }
            Fault::Switched => {
                let fs = self.mount(0);
                let before = insist(&self.clock(), async || fs.managers(&root(), 0).await).await;
                // It may end before its answer leaves, or the next one answers.
                let switched = fs.managers(&root(), before.term).await;
                let outcome = switched.map(|it| it.outcome);
                assert_ne!(outcome, Ok(ManagersOutcome::Told));
                sleep(&self.clock(), lasts).await;
                return;
            }
            Fault::CutOff => (true, true),
            Fault::WithoutEngine => (true, false),
            Fault::WithoutServers => (false, true),
        };
        manager.engine.cut_off(engine);
        cut(servers);
        sleep(&self.clock(), lasts).await;
        manager.engine.cut_off(false);
        cut(false);
    }
}

/// Retries what is refused only because no manager answers yet.
async fn insist<T>(clock: &Handle, ask: impl AsyncFn() -> Result<T, Status>) -> T {
    loop {
        match ask().await {
            Ok(done) => return done,
            Err(Status::Jukebox) => sleep(clock, Duration::from_millis(50)).await,
            Err(status) => panic!("{status}"),
        }
    }
}

/// Names that must be there, and that must not.
#[derive(Default)]
struct Known {
    there: BTreeSet<String>,
    removed: BTreeSet<String>,
    longest: Duration,
}

/// Makes, moves and removes files until `ends`. The kernel sends a request again that was refused for now, with the
/// same outcome if it was done.
async fn work(story: &Story, client: usize, ends: &Cell<bool>) -> Known {
    let (fs, clock) = (story.mount(client), story.clients[client].runtime());
    let (caller, top) = (root(), fs.root());
    let mut known = Known::default();
    let mut number = 0;
    while !ends.get() {
        let (made, moved) = (
            format!("{client}-{number}"),
            format!("moved-{client}-{number}"),
        );
        let began = clock.now();
        let create = async || {
            let how = CreateMode::Unchecked(SetAttributes::default());
            fs.create(&caller, &top, made.as_bytes(), &how).await.result
        };
        insist(&clock, create).await;
        let rename = async || {
            let (from, to) = (
                EntryName::new(&top, made.as_bytes()),
                EntryName::new(&top, moved.as_bytes()),
            );
            match fs.rename(&caller, from, to).await.0 {
                // An earlier attempt, which was refused for now, has done it.
                Err(Status::Noent)
                    if fs.lookup(&caller, &top, moved.as_bytes()).await.0.is_ok() =>
                {
                    Ok(())
                }
                done => done,
            }
        };
        insist(&clock, rename).await;
        known.there.insert(moved);
        if number % 2 == 1 {
            let old = format!("moved-{client}-{}", number - 1);
            let remove = async || match fs.remove(&caller, &top, old.as_bytes()).await.result {
                Err(Status::Noent) => Ok(()),
                done => done,
            };
            insist(&clock, remove).await;
            known.there.remove(&old);
            known.removed.insert(old);
        }
        known.longest = known.longest.max(clock.now() - began);
        number += 1;
        sleep(&clock, Duration::from_millis(20)).await;
    }
    known
}

/// Names that all clients make, look up and remove.
const SHARED: usize = 3;
type Histories = [RefCell<History>; SHARED];

/// Makes, finds and removes shared files until `ends`, and takes down what it is told.
async fn race(story: &Story, client: usize, histories: &Histories, ends: &Cell<bool>) {
    let (fs, clock) = (story.mount(client), story.clients[client].runtime());
    let (caller, top) = (root(), fs.root());
    // The second word of a handle is the number of the file.
    let file =
        |handle: &FileHandle| u64::from_be_bytes(handle.as_bytes()[8..16].try_into().unwrap());
    while !ends.get() {
        let number = clock.random() as usize % SHARED;
        let name = format!("shared-{number}");
        let called = clock.now();
        let seen = match clock.random() % 4 {
            0 => {
                let how = CreateMode::Guarded(SetAttributes::default());
                let made = fs.create(&caller, &top, name.as_bytes(), &how).await.result;
                match made {
                    Ok(made) => Seen::Made(file(&made.handle)),
                    Err(Status::Exist) => Seen::Exists,
                    Err(Status::Jukebox) => Seen::MayMake,
                    Err(status) => panic!("{status}"),
                }
            }
            1 => match fs.remove(&caller, &top, name.as_bytes()).await.result {
                Ok(()) => Seen::Removed,
                Err(Status::Noent) => Seen::NotThere,
                Err(Status::Jukebox) => Seen::MayRemove,
                Err(status) => panic!("{status}"),
            },
            _ => match fs.lookup(&caller, &top, name.as_bytes()).await.0 {
                Ok((found, _)) => Seen::Found(file(&found)),
                Err(Status::Noent) => Seen::NotThere,
                Err(Status::Jukebox) => {
                    sleep(&clock, Duration::from_millis(50)).await;
                    continue;
                }
                Err(status) => panic!("{status}"),
            },
        };
        let answered = clock.now();
        histories[number].borrow_mut().add(called, answered, seen);
        sleep(&clock, Duration::from_millis(clock.random() % 40)).await;
    }
}

/// Takes and leaves a lock until `ends`, and sees that nobody else has it meanwhile.
async fn contend(
    story: &Story,
    client: usize,
    file: FileHandle,
    holder: &RefCell<Option<(usize, Instant)>>,
    ends: &Cell<bool>,
) -> u64 {
    let (fs, clock) = (story.mount(client), story.clients[client].runtime());
    let mut grants = 0;
    while !ends.get() {
        let lock = ByteLock {
            owner: grants + 1,
            kind: LockKind::Exclusive,
            start: 0,
            end: u64::MAX,
            process: 1,
        };
        let locked = insist(&clock, async || {
            fs.lock(&root(), &file, &lock, LockRequest::Wait).await
        });
        if locked.await != Locked::Done {
            continue;
        }
        let before = holder.replace(Some((client, clock.now())));
        assert_eq!(before, None, "client {client} has the lock of another one");
        sleep(&clock, Duration::from_millis(5)).await;
        holder.replace(None);
        insist(&clock, async || {
            fs.lock(&root(), &file, &lock, LockRequest::Unlock).await
        })
        .await;
        grants += 1;
    }
    grants
}

/// Clients work through these faults. Afterwards all that was acknowledged is there.
fn survive(seed: u64, loses: u64, faults: &'static [Fault]) {
    let story = Story::new(seed, loses);
    let longest = if loses == 0 {
        WAIT_MAX
    } else {
        WAIT_MAX_OF_LOSSES
    };
    story.run(move |story| async move {
        let first = story.mount(0);
        let clock = story.clock();
        let made = insist(&clock, async || {
            let how = CreateMode::Unchecked(SetAttributes::default());
            let made = first.create(&root(), &first.root(), b"lock", &how).await;
            made.result.map(|made| made.handle)
        })
        .await;
        let (ends, holder) = (Cell::new(false), RefCell::new(None));
        let (story, ends, holder) = (&story, &ends, &holder);
        let working = all((0..2).map(|client| Box::pin(work(story, client, ends))));
        let contending =
            all((0..2).map(|client| Box::pin(contend(story, client, made, holder, ends))));
        let striking = async {
            for turn in 0..faults.len() {
                // Another order for each seed.
                let fault = faults[(turn * 2 + seed as usize) % faults.len()];
                sleep(&clock, Duration::from_millis(2500 + seed * 137 % 1000)).await;
                story.strike(fault, TAKES_OVER).await;
            }
            sleep(&clock, TAKES_OVER).await;
            ends.set(true);
        };
        let histories = Histories::default();
        let racing = all((0..2).map(|client| Box::pin(race(story, client, &histories, ends))));
        let clients = gannet_runtime::both(working, gannet_runtime::both(contending, racing));
        let ((known, (grants, _)), ()) = gannet_runtime::both(clients, striking).await;
        let made = histories.iter().flat_map(|it| {
            let history = it.borrow();
            history.made().collect::<Vec<u64>>()
        });
        assert_eq!(twice(made), None, "one file has two names");
        for history in &histories {
            let history = history.borrow();
            assert!(history.len() > 100, "{}", history.len());
            assert_eq!(history.misfit(), None);
        }
        assert!(grants.iter().sum::<u64>() > 20, "{grants:?}");
        let fresh = story.mount(1);
        for known in known {
            assert!(known.there.len() > 20);
            for (name, is_there) in known
                .there
                .iter()
                .map(|it| (it, true))
                .chain(known.removed.iter().map(|it| (it, false)))
            {
                let found = insist(&clock, async || {
                    match fresh
                        .lookup(&root(), &fresh.root(), name.as_bytes())
                        .await
                        .0
                    {
                        Ok(_) => Ok(true),
                        Err(Status::Noent) => Ok(false),
                        Err(status) => Err(status),
                    }
                });
                assert_eq!(found.await, is_there, "{name}");
            }
            assert!(known.longest < longest, "{:?}", known.longest);
        }
    });
}

#[test]
fn another_manager_takes_over_from_one_that_was_killed() {
    survive(1, 0, &[Fault::Killed, Fault::Killed, Fault::Killed]);
}

#[test]
fn another_manager_takes_over_when_it_is_asked_to() {
    let story = Story::new(6, 0);
    story.run(|story| async move {
        let (fs, clock) = (story.mount(0), story.clock());
        let ask = async |caller: &Credentials, ended: u64| {
            let answer = insist(&clock, async || match fs.managers(caller, ended).await {
                Err(Status::Jukebox) => Err(Status::Jukebox),
                answer => Ok(answer),
            });
            answer.await
        };
        let first = ask(&root(), 0).await.unwrap();
        // The others have looked at the row by then.
        sleep(&clock, Duration::from_secs(2)).await;
        let told = ask(&root(), 0).await.unwrap();
        assert_eq!(
            (told.outcome, told.term),
            (ManagersOutcome::Told, first.term)
        );
        assert_eq!(told.standbys.iter().filter(|it| it.is_there).count(), 2);
        assert!(told.standbys.iter().all(|it| it.has == told.record));
        assert!((1..=4000).contains(&told.lease_ms), "{}", told.lease_ms);
        let user = Credentials::new(1000, 1000, &[]);
        assert_eq!(ask(&user, told.term).await, Err(Status::Perm));
        let other = ask(&root(), told.term + 1).await.unwrap();
        assert_eq!(other.outcome, ManagersOutcome::OtherTerm);
        let began = clock.now();
        let switched = ask(&root(), told.term).await.unwrap();
        assert_eq!(switched.outcome, ManagersOutcome::Switches);
        let next = loop {
            let next = ask(&root(), 0).await.unwrap();
            if next.term > told.term {
                break next;
            }
        };
        assert_ne!(next.active, told.active);
        let took = clock.now() - began;
        assert!(took < Duration::from_secs(2), "{took:?}");
        // The request again, as after a lost answer, moves nothing.
        let again = ask(&root(), told.term).await.unwrap();
        assert_eq!(again.outcome, ManagersOutcome::OtherTerm);
        // The former manager is there again. Then nobody is left.
        sleep(&clock, Duration::from_secs(5)).await;
        let active = story.managers.active().unwrap();
        (0..MANAGERS)
            .filter(|number| *number != active)
            .for_each(|number| story.managers.kill(number));
        sleep(&clock, Duration::from_secs(6)).await;
        let alone = ask(&root(), next.term).await.unwrap();
        assert_eq!(alone.outcome, ManagersOutcome::NoStandby);
    });
    survive(7, 0, &[Fault::Switched, Fault::Switched]);
}

#[test]
fn an_engine_that_lost_changes_stops_all_managers_that_have_them() {
    for seed in 9..13 {
        let story = Story::new(seed, 0);
        story.run(|story| async move {
            let (fs, clock) = (story.mount(0), story.clock());
            let create = async |name: &[u8]| {
                let how = CreateMode::Unchecked(SetAttributes::default());
                let made = insist(&clock, async || {
                    fs.create(&root(), &fs.root(), name, &how).await.result
                });
                made.await;
            };
            create(b"before").await;
            let before = story.managers.engine_state();
            create(b"after").await;
            // All of them have it.
            sleep(&clock, Duration::from_secs(1)).await;
            story.managers.undo(before);
            let until = clock.now() + Duration::from_secs(20);
            let mut last = Ok(());
            while clock.now() < until {
                last = fs.lookup(&root(), &fs.root(), b"after").await.0.map(|_| ());
                // Found by the old manager within its lease, and by nobody after that.
                assert!(matches!(last, Ok(()) | Err(Status::Jukebox)), "{last:?}");
                sleep(&clock, Duration::from_millis(100)).await;
            }
            assert_eq!(last, Err(Status::Jukebox));
        });
    }
}

#[test]
fn a_thousand_clients_go_on_with_the_next_manager() {
    let story = Story::new(21, 0);
    story.run(|story| async move {
        let clock = story.clock();
        let mounts: Vec<VolumeFs> = (0..1000).map(|number| story.mount(number % 2)).collect();
        let make = |round: &'static str| {
            let (clock, mounts) = (&clock, &mounts);
            let each = (0..).zip(mounts).map(move |(number, fs)| {
                Box::pin(async move {
                    let name = format!("{round}-{number}");
                    let how = CreateMode::Unchecked(SetAttributes::default());
                    insist(clock, async || {
                        fs.create(&root(), &fs.root(), name.as_bytes(), &how)
                            .await
                            .result
                    })
                    .await;
                    clock.now()
                })
            });
            all(each)
        };
        make("before").await;
        let active = story.managers.active().unwrap();
        story.managers.kill(active);
        let began = clock.now();
        let last = make("after").await.into_iter().max().unwrap();
        let took = last - began;
        assert!(took < Duration::from_secs(10), "{took:?}");
    });
}

#[test]
fn a_volume_with_its_journal_in_a_file_has_one_manager() {
    let world = World::new(8);
    let bed = common::Bed::new(&world, 2);
    let story = async move {
        let (fs, clock) = (bed.mount(), bed.client.runtime());
        let answer = insist(&clock, async || fs.managers(&root(), 0).await).await;
        assert!(answer.engine.is_empty() && answer.standbys.is_empty());
        let answer = fs.managers(&root(), answer.term).await.unwrap();
        assert_eq!(answer.outcome, ManagersOutcome::NoEngine);
    };
    world.run(story).unwrap();
}

#[test]
fn another_manager_takes_over_from_one_that_stood_still() {
    survive(2, 0, &[Fault::Paused, Fault::Paused]);
}

#[test]
fn another_manager_takes_over_from_one_that_is_cut_off() {
    survive(3, 0, &[Fault::CutOff, Fault::WithoutEngine]);
}

#[test]
fn a_manager_yields_to_one_that_reaches_the_io_servers() {
    survive(4, 0, &[Fault::WithoutServers]);
}

#[test]
fn requests_to_the_engine_and_answers_are_lost_meanwhile() {
    for seed in seeds() {
        survive(seed, 40, &FAULTS);
    }
}

/// Two seeds, or as many as `GANNET_TAKEOVER_SEEDS` says: numbers from 5 on.
fn seeds() -> std::ops::Range<u64> {
    let count = std::env::var("GANNET_TAKEOVER_SEEDS").ok();
    5..5 + count.map_or(2, |text| text.parse().unwrap())
}
