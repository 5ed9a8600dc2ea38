//! A journal before metadata: crashes at every step, torn and damaged bytes, files that do not belong together.
#![allow(clippy::unwrap_used)]

use gannet_meta::{
    JournalFile, JournalMemory, JournaledStore, MemoryStore, MetaStore, StoreError, Table,
    Transaction, View,
};
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

const VOLUME: [u8; 16] = [7; 16];
/// Halves so short that commits turn often.
const HALF_BLOCKS: u32 = 4;

type State = BTreeMap<(Table, Vec<u8>), Vec<u8>>;

/// All pairs but the journal's own mark.
pub(super) fn state_of(store: &dyn MetaStore) -> State {
    let mut state = State::new();
    let tables = [Table::Inodes, Table::Names, Table::Replies, Table::Volume];
    let look = &mut |view: &dyn View| {
        for table in tables {
            let each = &mut |key: &[u8], value: &[u8]| {
                state.insert((table, key.to_vec()), value.to_vec());
                true
            };
            view.scan(table, b"", each).unwrap();
        }
    };
    store.read(look).unwrap();
    state.remove(&(Table::Volume, b"journal".to_vec()));
    state
}

pub(super) fn copy_of(store: &MemoryStore) -> Arc<MemoryStore> {
    let copy = MemoryStore::default();
    let look = &mut |view: &dyn View| {
        let commit = &mut |it: &mut dyn Transaction| {
            for table in [Table::Inodes, Table::Names, Table::Replies, Table::Volume] {
                let each = &mut |key: &[u8], value: &[u8]| it.put(table, key, value).is_ok();
                view.scan(table, b"", each)?;
            }
            Ok(())
        };
        copy.commit(commit).unwrap();
    };
    store.read(look).unwrap();
    Arc::new(copy)
}

fn open(base: &Arc<MemoryStore>, journal: &JournalMemory) -> Result<JournaledStore, StoreError> {
    let (base, file) = (Arc::clone(base), Box::new(journal.clone()));
    JournaledStore::over(base, file, VOLUME)
}

fn put(store: &dyn MetaStore, key: &[u8], value: &[u8]) -> Result<(), StoreError> {
    store.commit(&mut |it| it.put(Table::Names, key, value))
}

/// A step of a story; each changes something that later ones change again.
pub(super) fn change(it: &mut dyn Transaction, step: u32) -> Result<(), StoreError> {
    let key = |number: u32| number.to_be_bytes();
    it.put(Table::Volume, b"step", &step.to_be_bytes())?;
    it.put(Table::Inodes, &key(step % 5), &[step as u8; 40])?;
    it.delete(Table::Names, &key(step.wrapping_sub(2)))?;
    // One in five fills a half, one in eleven is longer than that.
    let len = match step {
        step if step % 11 == 10 => 30_000,
        step if step % 5 == 4 => 13_000,
        _ => 100,
    };
    it.put(Table::Names, &key(step), &vec![step as u8; len])
}

/// The states after none, one, ... of `steps`.
pub(super) fn states(steps: u32) -> Vec<State> {
    let model = MemoryStore::default();
    let after = (0..steps).map(|step| {
        model.commit(&mut |it| change(it, step)).unwrap();
        state_of(&model)
    });
    std::iter::once(State::new()).chain(after).collect()
}

/// The number of operations that the machine still does before it goes down.
#[derive(Clone)]
struct Fuel(Arc<AtomicI64>);

impl Fuel {
    fn burn(&self) -> io::Result<()> {
        if self.0.fetch_sub(1, Ordering::Relaxed) > 0 {
            Ok(())
        } else {
            Err(io::Error::other("the machine is down"))
        }
    }
}

/// A file or store of a machine that goes down; a write that is under way then is not known to be done or not.
struct Mortal<T>(T, Fuel);

impl JournalFile for Mortal<JournalMemory> {
    fn length(&self) -> io::Result<u64> {
        self.0.length()
    }

    fn read(&self, offset: u64, into: &mut [u8]) -> io::Result<()> {
        self.0.read(offset, into)
    }

    fn write(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.1.burn()?;
        self.0.write(offset, bytes)?;
        self.1.burn()
    }

    fn sync(&self) -> io::Result<()> {
        self.1.burn()?;
        self.0.sync()?;
        self.1.burn()
    }
}

impl MetaStore for Mortal<Arc<MemoryStore>> {
    fn read(&self, look: &mut dyn FnMut(&dyn View)) -> Result<(), StoreError> {
        self.0.read(look)
    }

    fn commit(
        &self,
        work: &mut dyn FnMut(&mut dyn Transaction) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let burn = || self.1.burn().map_err(|error| StoreError(Box::new(error)));
        burn()?;
        self.0.commit(work)?;
        burn()
    }

    fn pairs_at_once(&self) -> usize {
        self.0.pairs_at_once()
    }
}

/// The metadata of a machine that goes down now and then.
struct Machine {
    base: Arc<MemoryStore>,
    journal: JournalMemory,
    random: u64,
}

impl Machine {
    fn new(seed: u64) -> Machine {
        Machine {
            base: Arc::default(),
            journal: JournalMemory::new(VOLUME, HALF_BLOCKS),
            random: seed,
        }
    }

    fn draw(&mut self) -> u64 {
        // Knuth's MMIX generator.
        self.random = (self.random)
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        self.random >> 33
    }

    /// Does steps from `from` on until the fuel is gone or `to` is reached; gives how many were answered then.
    fn live(&mut self, fuel: i64, from: u32, to: u32) -> u32 {
        let fuel = Fuel(Arc::new(AtomicI64::new(fuel)));
        let base = Mortal(Arc::clone(&self.base), fuel.clone());
        let file = Mortal(self.journal.clone(), fuel);
        let Ok(store) = JournaledStore::over(Arc::new(base), Box::new(file), VOLUME) else {
            return from;
        };
        for step in from..to {
            if store.commit(&mut |it| change(it, step)).is_err() {
                // Once more: nothing may be made of it.
                assert!(store.commit(&mut |it| change(it, step)).is_err());
                return step;
            }
            if self.draw().is_multiple_of(3) {
                let _ = store.checkpoint();
            }
        }
        to
    }

    /// The machine goes down; gives how many steps are there when it is up again.
    fn restart(&mut self, answered: u32, states: &[State]) -> u32 {
        let (journal, keeps) = (self.journal.clone(), self.draw());
        journal.crash(&mut || match keeps % 4 {
            0 => false,
            1 => true,
            _ => self.draw().is_multiple_of(2),
        });
        let store = open(&self.base, &journal).unwrap();
        let state = state_of(&store);
        let now = [answered, answered + 1]
            .into_iter()
            .find(|count| states.get(*count as usize) == Some(&state));
        now.unwrap_or_else(|| panic!("{answered} changes were answered, but are not there"))
    }
}

#[test]
fn answered_changes_survive_a_power_failure_at_any_time() {
    const STEPS: u32 = 24;
    let states = states(STEPS + 1);
    for fuel in 0..200 {
        for seed in 0..6 {
            let mut machine = Machine::new(seed << 16 | fuel as u64);
            let answered = machine.live(fuel, 0, STEPS);
            // It goes down again while it recovers, or soon after.
            let again = (machine.draw() % 9) as i64;
            let (journal, keeps) = (machine.journal.clone(), machine.draw());
            journal.crash(&mut || keeps.is_multiple_of(2));
            let survived = open(
                &copy_of(&machine.base),
                &JournalMemory::holding(journal.bytes()),
            );
            let survived = state_of(&survived.unwrap());
            let known = states.iter().position(|state| *state == survived);
            let known = known.expect("a state that was one") as u32;
            assert!((answered..=answered + 1).contains(&known), "{fuel} {seed}");
            let answered = machine.live(again, known, STEPS);
            let now = machine.restart(answered, &states);
            // And now it stays up.
            assert_eq!(machine.live(i64::MAX, now, STEPS), STEPS);
            assert_eq!(machine.restart(STEPS, &states), STEPS, "{fuel} {seed}");
        }
    }
}

#[test]
fn changes_that_a_dead_process_had_not_synced_are_whole_or_missing() {
    const STEPS: u32 = 24;
    let states = states(STEPS + 1);
    for first in 0..60 {
        for second in 0..40 {
            let mut machine = Machine::new(first << 16 | second as u64);
            let answered = machine.live(first as i64, 0, STEPS);
            // The next process reads what the first one wrote, and its machine goes down while it recovers.
            machine.live(second, answered, answered);
            let now = machine.restart(answered, &states);
            assert_eq!(machine.live(i64::MAX, now, STEPS), STEPS);
            assert_eq!(machine.restart(STEPS, &states), STEPS, "{first} {second}");
        }
    }
}

/// A store with two changes in its journal: base, journal with the first, with both, and the states.
fn two_changes() -> (Arc<MemoryStore>, [Vec<u8>; 2], [State; 2]) {
    let base = Arc::<MemoryStore>::default();
    let journal = JournalMemory::new(VOLUME, HALF_BLOCKS);
    let store = open(&base, &journal).unwrap();
    put(&store, b"first", &[1; 300]).unwrap();
    let (first, after_first) = (journal.bytes(), state_of(&store));
    put(&store, b"second", &[2; 5000]).unwrap();
    let states = [after_first, state_of(&store)];
    (base, [first, journal.bytes()], states)
}

#[test]
fn a_record_that_is_torn_at_any_byte_is_no_record() {
    let (base, [before, after], states) = two_changes();
    let mut changed = (0..before.len()).filter(|at| before[*at] != after[*at]);
    let (start, end) = (changed.next().unwrap(), changed.next_back().unwrap() + 1);
    for cut in start..=end {
        let bytes = [&after[..cut], &before[cut..]].concat();
        let store = open(&copy_of(&base), &JournalMemory::holding(bytes)).unwrap();
        let whole = usize::from(cut == end);
        assert!(state_of(&store) == states[whole], "cut at {cut}");
    }
}

#[test]
fn a_damaged_record_is_noticed_when_others_follow_it() {
    let (base, [before, after], states) = two_changes();
    let block = |number: usize| number * 4096..(number + 1) * 4096;
    let is_used = |range: &std::ops::Range<usize>| before[range.clone()].iter().any(|it| *it != 0);
    // Behind the header and the opening record, in whichever half.
    let first = (1..9).map(block).filter(is_used).nth(1).unwrap();
    for at in first.start..first.start + 400 {
        let mut bytes = after.clone();
        bytes[at] ^= 1 << (at % 8);
        let opened = open(&copy_of(&base), &JournalMemory::holding(bytes));
        match opened {
            // Padding.
            Ok(store) => assert!(state_of(&store) == states[1], "byte {at}"),
            Err(error) => assert!(error.to_string().contains("damaged"), "{error}"),
        }
    }
    let mut bytes = after;
    bytes[first.start + 20] ^= 1;
    assert!(open(&base, &JournalMemory::holding(bytes)).is_err());
}

#[test]
fn a_first_block_with_any_bit_wrong_is_refused() {
    let (base, [_, after], _) = two_changes();
    for at in 0..4096 {
        let mut bytes = after.clone();
        bytes[at] ^= 1 << (at % 8);
        assert!(open(&copy_of(&base), &JournalMemory::holding(bytes)).is_err());
    }
    for len in [0, 1, 4095, 4096, after.len() - 1] {
        let short = JournalMemory::holding(after[..len].to_vec());
        assert!(open(&base, &short).is_err(), "{len} bytes");
    }
}

fn refusal(base: &Arc<MemoryStore>, journal: &JournalMemory) -> String {
    let error = open(base, journal).err().expect("it must be refused");
    error.to_string()
}

#[test]
fn a_journal_of_another_volume_version_or_time_is_refused() {
    let (base, [_, after], _) = two_changes();
    let other = JournalMemory::new([8; 16], HALF_BLOCKS);
    assert!(refusal(&base, &other).contains("another volume"));
    for (version, cure) in [(1, "into a new volume"), (9, "a later one")] {
        let mut bytes = after.clone();
        bytes[11] = version;
        let other = JournalMemory::holding(bytes.clone());
        let error = open(&base, &other).err().unwrap();
        assert!(error.is_other_format(), "{error}");
        let said = error.to_string();
        assert!(
            said.contains(&format!("format is {version}")) && said.contains(cure),
            "{said}"
        );
        assert!(other.bytes() == bytes, "it is left as it is");
    }
    // An empty one, in place of one with changes.
    let empty = JournalMemory::new(VOLUME, HALF_BLOCKS);
    assert!(refusal(&base, &empty).contains("not of the same time"));
    // Metadata from a backup, under a journal that went on.
    let (backup, journal) = (copy_of(&base), JournalMemory::holding(after.clone()));
    drop(open(&base, &journal).unwrap());
    assert!(refusal(&backup, &journal).contains("not of the same time"));
    drop(open(&base, &journal).unwrap());
    assert!(refusal(&backup, &journal).contains("not of the same time"));
    // And the other way round.
    let old = JournalMemory::holding(after);
    assert!(refusal(&base, &old).contains("not of the same time"));
}

#[test]
fn after_a_failed_write_nothing_is_changed_until_the_store_is_opened_again() {
    let (base, journal) = (Arc::default(), JournalMemory::new(VOLUME, HALF_BLOCKS));
    let fuel = Fuel(Arc::new(AtomicI64::new(6)));
    let file = Box::new(Mortal(journal.clone(), fuel.clone()));
    let store = JournaledStore::over(Arc::clone(&base) as _, file, VOLUME).unwrap();
    let failure = put(&store, b"a", b"1").unwrap_err();
    assert!(failure.to_string().contains("down"), "{failure}");
    // The disk works again, but who knows what is on it.
    fuel.0.store(1000, Ordering::Relaxed);
    let failure = put(&store, b"b", b"1").unwrap_err();
    assert!(
        failure.to_string().contains("restart the manager"),
        "{failure}"
    );
    assert!(state_of(&store).is_empty());
    journal.crash(&mut || false);
    let store = open(&base, &journal).unwrap();
    put(&store, b"b", b"1").unwrap();
    assert_eq!(state_of(&store).len(), 1);
}

#[test]
fn readers_see_changes_wherever_they_are() {
    let base = Arc::<MemoryStore>::default();
    let journal = JournalMemory::new(VOLUME, HALF_BLOCKS);
    let store = open(&base, &journal).unwrap();
    let model = MemoryStore::default();
    for step in 0..60 {
        for it in [&store as &dyn MetaStore, &model] {
            it.commit(&mut |it| change(it, step)).unwrap();
        }
        assert!(state_of(&store) == state_of(&model), "step {step}");
        if step % 7 == 0 {
            store.checkpoint().unwrap();
            assert!(!store.needs_checkpoint());
            assert!(
                state_of(&store) == state_of(&model),
                "step {step}, after a checkpoint"
            );
        }
    }
    // A transaction that gives up changes nothing, and one that changes nothing needs no disk.
    let given_up = store.commit(&mut |it| {
        it.put(Table::Names, b"x", b"")?;
        Err(StoreError("no".into()))
    });
    assert!(given_up.is_err());
    let bytes = journal.bytes();
    store.commit(&mut |_| Ok(())).unwrap();
    assert!(journal.bytes() == bytes && state_of(&store) == state_of(&model));
}

#[test]
fn on_a_disk_changes_outlive_a_process_that_ends_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("metadata");
    let open = || JournaledStore::open(&path, 1 << 20, VOLUME);
    let store = open().unwrap();
    put(&store, b"a", b"1").unwrap();
    let twice = open().err();
    assert!(twice.is_some_and(|error| error.is_open_elsewhere()));
    let len = std::fs::metadata(path.with_extension("journal"))
        .unwrap()
        .len();
    drop(store);
    let store = open().unwrap();
    put(&store, b"b", b"2").unwrap();
    assert_eq!(state_of(&store).len(), 2);
    drop(store);
    assert_eq!(
        std::fs::metadata(path.with_extension("journal"))
            .unwrap()
            .len(),
        len
    );
    std::fs::rename(path.with_extension("journal"), folder.path().join("away")).unwrap();
    let missing = open().err().unwrap().to_string();
    assert!(missing.contains("missing"), "{missing}");
    assert!(!path.with_extension("journal").exists());
}
