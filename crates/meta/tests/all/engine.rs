//! A journal in an engine: answers that are lost, two managers, an engine that was restored from a backup.

use super::journal::{change, copy_of, state_of, states};
use gannet_meta::{
    Engine, EngineError, EngineMemory, EngineState, FollowerNote, JournaledStore, ManagerName,
    MemoryStore, MetaStore, RequestFate as Fate, Row, Standby, StoreError, Table, Transaction,
    View,
};
use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

const VOLUME: [u8; 16] = [7; 16];

/// An engine in memory, which several managers use, and the fates of their next requests.
struct Bench {
    engine: EngineMemory,
    fates: Arc<Mutex<VecDeque<Fate>>>,
}

impl Bench {
    fn new() -> Bench {
        let fates = Arc::<Mutex<VecDeque<Fate>>>::default();
        let next = Arc::clone(&fates);
        let fate = move || next.lock().unwrap().pop_front().unwrap_or(Fate::Answered);
        Bench {
            engine: EngineMemory::new(fate, 3),
            fates,
        }
    }

    fn state(&self) -> MutexGuard<'_, EngineState> {
        self.engine.state()
    }

    fn stand_by(&self, base: &Arc<MemoryStore>, owner: u8) -> Result<Standby, StoreError> {
        let base = Arc::clone(base) as Arc<dyn MetaStore>;
        Standby::over(base, Box::new(self.engine.clone()), VOLUME, manager(owner))
    }

    fn open(&self, base: &Arc<MemoryStore>, owner: u8) -> Result<JournaledStore, StoreError> {
        let mut standby = self.stand_by(base, owner)?;
        standby.follow()?;
        standby.take_over()
    }
}

fn manager(owner: u8) -> ManagerName {
    ManagerName {
        name: format!("manager {owner}"),
        owner: [owner; 16],
    }
}

/// An engine that does not get more than two records through in time.
struct Slow(EngineMemory);

impl Engine for Slow {
    fn name(&self) -> &'static str {
        self.0.name()
    }

    fn row(&mut self) -> Result<Option<Row>, EngineError> {
        self.0.row()
    }

    fn replace(
        &mut self,
        old: Option<&Row>,
        row: &[u8],
        record: Option<(u64, &[u8])>,
    ) -> Result<Option<u64>, EngineError> {
        self.0.replace(old, row, record)
    }

    fn records(&mut self, after: u64, count: usize) -> Result<Vec<(u64, Vec<u8>)>, EngineError> {
        if count > 2 {
            return Err(EngineError::Unavailable(String::from("no answer in time")));
        }
        self.0.records(after, count)
    }

    fn remove(&mut self, up_to: u64) -> Result<(), EngineError> {
        self.0.remove(up_to)
    }

    fn note(&mut self, name: &str, note: FollowerNote) -> Result<(), EngineError> {
        self.0.note(name, note)
    }

    fn notes(&mut self) -> Result<BTreeMap<String, FollowerNote>, EngineError> {
        self.0.notes()
    }

    fn wait(&mut self, attempt: u32) -> bool {
        self.0.wait(attempt)
    }
}

#[test]
fn a_manager_that_stands_by_asks_for_fewer_records_on_a_slow_way() {
    let (engine, base) = (Bench::new(), Arc::<MemoryStore>::default());
    let empty = copy_of(&base);
    let store = engine.open(&base, 1).unwrap();
    for step in 0..12 {
        store.commit(&mut |it| change(it, step)).unwrap();
    }
    let slow = Box::new(Slow(engine.engine.clone()));
    let mut standby = Standby::over(Arc::clone(&empty) as _, slow, VOLUME, manager(2)).unwrap();
    let looks = (1..100).find(|_| standby.follow().is_ok());
    assert!(looks.is_some_and(|looks| looks > 1), "{looks:?}");
    assert!(state_of(&standby.take_over().unwrap()) == states(12)[12]);
}

/// Metadata on a disk that may refuse writes.
#[derive(Default)]
struct Disk {
    store: MemoryStore,
    is_broken: AtomicBool,
}

impl MetaStore for Disk {
    fn read(&self, look: &mut dyn FnMut(&dyn View)) -> Result<(), StoreError> {
        self.store.read(look)
    }

    fn commit(
        &self,
        work: &mut dyn FnMut(&mut dyn Transaction) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        if self.is_broken.load(Ordering::Relaxed) {
            return Err(StoreError("the disk refuses it".into()));
        }
        self.store.commit(work)
    }
}

#[test]
fn a_manager_whose_disk_fails_makes_room_for_one_that_stands_by() {
    for stands_by in [true, false] {
        let (engine, disk) = (Bench::new(), Arc::<Disk>::default());
        let mut other = engine.stand_by(&Arc::default(), 2).unwrap();
        if !stands_by {
            other.be_silent();
        }
        let base = Arc::clone(&disk) as Arc<dyn MetaStore>;
        let first = Standby::over(base, Box::new(engine.engine.clone()), VOLUME, manager(1));
        let mut first = first.unwrap();
        first.follow().unwrap();
        let first = first.take_over().unwrap();
        first.renew().unwrap();
        other.follow().unwrap();
        let fill = |number: u32| {
            // Records are compressed.
            let mut next = u64::from(number) + 1;
            let noise = std::iter::repeat_with(|| {
                next = next.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                (next >> 56) as u8
            });
            let noise: Vec<u8> = noise.take(900_000).collect();
            first.commit(&mut |it| it.put(Table::Names, &number.to_be_bytes(), &noise))
        };
        disk.is_broken.store(true, Ordering::Relaxed);
        assert!((0..30).any(|number| fill(number).is_err()));
        assert_eq!(first.renew().is_err(), stands_by);
        disk.is_broken.store(false, Ordering::Relaxed);
        assert_eq!(fill(30).is_err(), stands_by);
    }
}

fn why(opened: Result<JournaledStore, StoreError>) -> String {
    opened.err().unwrap().to_string()
}

#[test]
fn acknowledged_changes_outlive_managers_and_answers_that_are_lost() {
    const STEPS: u32 = 12;
    let states = states(STEPS);
    for at in 0..STEPS as usize + 4 {
        for fates in [
            &[Fate::Lost][..],
            &[Fate::AnswerLost],
            &[Fate::Lost, Fate::AnswerLost],
            &[Fate::AnswerLost, Fate::Lost],
            &[Fate::Lost; 8],
            &[Fate::AnswerLost; 8],
            &[Fate::Late],
            &[Fate::Doubled],
            &[Fate::Late, Fate::AnswerLost],
            &[Fate::Late, Fate::Late, Fate::Doubled],
            &[Fate::Late; 8],
        ] {
            let (engine, base) = (Bench::new(), Arc::<MemoryStore>::default());
            let before = std::iter::repeat_n(Fate::Answered, at);
            *engine.fates.lock().unwrap() = before.chain(fates.iter().copied()).collect();
            let mut answered = 0;
            if let Ok(store) = engine.open(&base, 1) {
                while answered < STEPS && store.commit(&mut |it| change(it, answered)).is_ok() {
                    answered += 1;
                }
                assert!(answered == STEPS || fates.len() == 8, "{at} {fates:?}");
            }
            engine.fates.lock().unwrap().clear();
            // Another one begins, with what the first one had in its store below.
            let store = engine.open(&base, 2).unwrap();
            let now = states.iter().position(|it| *it == state_of(&store));
            let now = now.unwrap() as u32;
            assert!((answered..=answered + 1).contains(&now), "{at} {fates:?}");
        }
    }
}

#[test]
fn of_two_managers_the_later_one_appends() {
    let (engine, base) = (Bench::new(), Arc::<MemoryStore>::default());
    let first = engine.open(&base, 1).unwrap();
    first.commit(&mut |it| change(it, 0)).unwrap();
    let copy = copy_of(&base);
    let second = engine.open(&copy, 2).unwrap();
    let refused = first.commit(&mut |it| change(it, 1)).err().unwrap();
    assert!(refused.is_journal_lost());
    assert!(!second.follows_release());
    let by = "taken the journal over: manager 2";
    assert!(refused.to_string().contains(by), "{refused}");
    assert!(first.renew().err().unwrap().to_string().contains(by));
    let refused = first.commit(&mut |it| change(it, 1)).err().unwrap();
    assert!(refused.is_journal_lost());
    second.commit(&mut |it| change(it, 1)).unwrap();
    // An attempt of the first one whose answer was lost does not count as one of the second.
    let third = engine.open(&copy_of(&base), 3).unwrap();
    assert!(state_of(&third) == states(2)[2]);
    assert!(second.commit(&mut |it| change(it, 2)).is_err());
}

#[test]
fn an_engine_and_metadata_of_different_times_are_refused() {
    let (engine, base) = (Bench::new(), Arc::<MemoryStore>::default());
    let store = engine.open(&base, 1).unwrap();
    let (empty, early) = (copy_of(&base), engine.state().clone());
    for step in 0..6 {
        store.commit(&mut |it| change(it, step)).unwrap();
    }
    drop(store);
    drop(engine.open(&base, 1).unwrap());
    let late = engine.state().clone();
    // Restored from a backup.
    *engine.state() = early;
    let error = why(engine.open(&base, 1));
    assert!(error.contains("restored from a backup"), "{error}");
    // The operator has the journal go on from here.
    let lost = engine.state().clone();
    for state in [lost.clone(), EngineState::default()] {
        *engine.state() = state;
        let mut standby = engine.stand_by(&copy_of(&base), 1).unwrap();
        standby.force();
        standby.follow().unwrap();
        let forced = standby.take_over().unwrap();
        forced.commit(&mut |it| change(it, 6)).unwrap();
        assert!(state_of(&forced) == states(7)[7]);
        let again = engine.open(&copy_of(&base), 2).unwrap();
        assert!(state_of(&again) == states(7)[7]);
    }
    *engine.state() = lost;
    // And then it went another way.
    let other = engine.open(&empty, 1).unwrap();
    for step in 10..17 {
        other.commit(&mut |it| change(it, step)).unwrap();
    }
    let error = why(engine.open(&base, 1));
    assert!(error.contains("do not belong"), "{error}");
    // Records are gone that the metadata lack, or one is damaged.
    for spoil in [
        &mut (|state: &mut EngineState| drop(state.records.remove(&1)))
            as &mut dyn FnMut(&mut EngineState),
        &mut |state| state.records.get_mut(&3).unwrap().push(0),
        &mut |state| drop(state.records.remove(&6)),
    ] {
        *engine.state() = late.clone();
        spoil(&mut engine.state());
        let error = why(engine.open(&copy_of(&MemoryStore::default()), 1));
        assert!(error.contains("do not belong"), "{error}");
    }
    *engine.state() = late;
    let whole = engine.open(&copy_of(&MemoryStore::default()), 1).unwrap();
    assert!(state_of(&whole) == states(6)[6]);
    // Another volume's, and another release's.
    let row = engine.state().row.clone().unwrap();
    for (at, expected) in [(5, "another volume"), (3, "format")] {
        engine.state().row.as_mut().unwrap().bytes[at] ^= 2;
        let error = why(engine.open(&base, 1));
        assert!(error.contains(expected), "{error}");
        engine.state().row = Some(row.clone());
    }
}

#[test]
fn records_that_the_metadata_have_are_removed() {
    let (engine, base) = (Bench::new(), Arc::<MemoryStore>::default());
    let store = engine.open(&base, 1).unwrap();
    for step in 0..60u32 {
        let long = vec![step as u8; 500_000];
        let put = store.commit(&mut |it| it.put(Table::Names, &step.to_be_bytes(), &long));
        put.unwrap();
        if store.needs_checkpoint() {
            store.checkpoint().unwrap();
        }
    }
    assert!(engine.state().records.len() < 40);
    assert!(store.lengths().journal < 20 << 20);
    let again = engine.open(&base, 2).unwrap();
    assert_eq!(state_of(&again).len(), 60);
    let long = vec![0; 2 << 20];
    let refused = again.commit(&mut |it| it.put(Table::Names, b"long", &long));
    assert!(refused.err().unwrap().to_string().contains("longer than"));
    // It is refused, and others go on.
    again.commit(&mut |it| change(it, 3)).unwrap();
}

#[test]
fn a_volume_moves_its_journal_from_the_file_into_an_engine() {
    let folder = tempfile::tempdir().unwrap();
    let (path, engine) = (folder.path().join("metadata"), Bench::new());
    let store = JournaledStore::open(&path, 1 << 20, VOLUME).unwrap();
    store.commit(&mut |it| change(it, 0)).unwrap();
    drop(store);
    let open = || {
        let engine = Box::new(engine.engine.clone());
        let mut standby = Standby::open(&path, 1 << 20, engine, VOLUME, manager(1))?;
        standby.follow()?;
        standby.take_over()
    };
    let store = open().unwrap();
    store.commit(&mut |it| change(it, 1)).unwrap();
    drop(store);
    assert!(state_of(&open().unwrap()) == states(2)[2]);
    let error = why(JournaledStore::open(&path, 1 << 20, VOLUME));
    assert!(error.contains("in an engine"), "{error}");
}

#[test]
fn a_standby_follows_and_takes_over() {
    const STEPS: u32 = 12;
    let states = states(STEPS);
    let (engine, base) = (Bench::new(), Arc::<MemoryStore>::default());
    let followed = Arc::<MemoryStore>::default();
    let mut standby = engine.stand_by(&followed, 2).unwrap();
    assert_eq!(standby.follow().unwrap(), None, "nobody was ever active");
    let first = engine.open(&base, 1).unwrap();
    let mut last = None;
    for step in 0..STEPS {
        first.commit(&mut |it| change(it, step)).unwrap();
        let row = standby.follow().unwrap().unwrap();
        assert_eq!(row.manager.as_deref(), Some("manager 1"));
        assert_eq!((row.term, row.last), (1, u64::from(step) + 1));
        assert_ne!(
            last.replace(row.version),
            Some(row.version),
            "it was heard of"
        );
        // What it has is in its own store, and the engine knows.
        assert!(state_of(&*followed) == states[step as usize + 1]);
        assert_eq!(engine.state().notes["manager 2"].has, u64::from(step) + 1);
    }
    let version = standby.follow().unwrap().unwrap().version;
    assert_eq!(Some(version), last);
    let is_there = || {
        let all = first.followers().unwrap().unwrap();
        assert_eq!((all.engine, all.manager.as_str()), ("memory", "manager 1"));
        assert_eq!(all.followers[0].name, "manager 2");
        assert_eq!(all.followers[0].has, u64::from(STEPS));
        all.followers[0].is_there
    };
    assert!(is_there());
    // Many changes between two looks do not make it absent, and renewals that it has not seen do.
    for _ in 0..5 {
        let busy = |it: &mut dyn Transaction| it.put(Table::Volume, b"busy", b"");
        first.commit(&mut |it| busy(it)).unwrap();
        first
            .commit(&mut |it| it.delete(Table::Volume, b"busy"))
            .unwrap();
    }
    assert!(is_there());
    (0..3).for_each(|_| first.renew().unwrap());
    assert!(is_there());
    first.renew().unwrap();
    assert!(!is_there());
    assert_ne!(standby.follow().unwrap().unwrap().version, version);
    // It gives the journal up: changes are refused from then on, also by itself.
    first.release().unwrap();
    assert_eq!(standby.follow().unwrap().unwrap().manager, None);
    let refused = first.commit(&mut |it| change(it, STEPS)).err().unwrap();
    assert!(refused.to_string().contains("given up"), "{refused}");
    let second = standby.take_over().unwrap();
    assert!(second.follows_release() && !first.follows_release());
    assert!(state_of(&second) == states[STEPS as usize]);
    assert!(first.renew().is_err());
    second.renew().unwrap();
    assert!(second.lease().is_some());
}

#[test]
fn metadata_of_before_the_engine_are_followed_by_copies_of_them_alone() {
    let (engine, base) = (Bench::new(), Arc::<MemoryStore>::default());
    base.commit(&mut |it| it.put(Table::Names, b"before", b"1"))
        .unwrap();
    let copy = copy_of(&base);
    let store = engine.open(&base, 1).unwrap();
    store.commit(&mut |it| change(it, 0)).unwrap();
    let mut standby = engine.stand_by(&copy, 2).unwrap();
    assert_eq!(standby.follow().unwrap().unwrap().last, 1);
    let error = why(engine.open(&Arc::default(), 3));
    assert!(error.contains("do not belong"), "{error}");
}

#[test]
fn of_two_that_take_over_at_the_same_time_one_does() {
    let engine = Bench::new();
    drop(engine.open(&Arc::default(), 1).unwrap());
    let mut standbys: Vec<Standby> = (2..4)
        .map(|owner| engine.stand_by(&Arc::default(), owner).unwrap())
        .collect();
    standbys
        .iter_mut()
        .for_each(|it| drop(it.follow().unwrap()));
    let later = standbys.pop().unwrap();
    let first = standbys.pop().unwrap().take_over().unwrap();
    // It judged a row that is not there any more.
    let error = why(later.take_over());
    assert!(error.contains("manager 2"), "{error}");
    first.commit(&mut |it| change(it, 0)).unwrap();
}

#[test]
fn records_stay_for_a_standby_that_lacks_them_but_not_for_ever() {
    let (engine, base) = (Bench::new(), Arc::<MemoryStore>::default());
    let store = engine.open(&base, 1).unwrap();
    let mut standby = engine.stand_by(&Arc::default(), 2).unwrap();
    standby.follow().unwrap();
    let put = |step: u32| {
        let long = vec![step as u8; 500_000];
        store
            .commit(&mut |it| it.put(Table::Names, &step.to_be_bytes(), &long))
            .unwrap();
        store.checkpoint().unwrap();
    };
    (0..60).for_each(put);
    assert_eq!(engine.state().records.len(), 60, "the standby is away");
    standby.follow().unwrap();
    (60..120).for_each(put);
    let left = engine.state().records.len();
    assert!((60..80).contains(&left), "{left}");
    (120..600).for_each(put);
    let left = engine.state().records.len();
    assert!(left < 350, "{left}");
    let error = standby.follow().err().unwrap();
    assert!(error.to_string().contains("do not belong"), "{error}");
    assert!(!error.is_engine_unavailable());
    engine.fates.lock().unwrap().push_back(Fate::Lost);
    assert!(standby.follow().err().unwrap().is_engine_unavailable());
}
