//! The exports and files with the most work. Paths are no labels of metrics: a reader gets these apart from them.
//!
//! A core keeps a table of its busiest files by the space-saving algorithm of Metwally, Agrawal and El Abbadi (2005).
//! Where it has much to do it looks at one operation of eight, which then stands for all since the one before.

use crate::Work;
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Files in the table of a core.
pub const FILES_MAX: usize = 128;
/// Operations of a window that are all looked at.
const EXACT: u32 = 4096;
/// One of so many is looked at from then on, on average.
const SAMPLED: u32 = 8;
/// Looks at a file after which its name is asked for, where they are many.
const NAMED_AFTER: u32 = 4;

/// An operation that is looked at.
#[derive(Debug)]
pub struct Operation<'a> {
    /// The path of its export.
    pub export: Arc<str>,
    /// Its object: the bytes by which clients know it; `None` where there is none with these bytes.
    pub file: Option<&'a [u8]>,
    /// Bytes that came with it.
    pub received_bytes: u64,
    /// Bytes that it was answered with.
    pub sent_bytes: u64,
}

/// The exports and files of a core with the most work, in two windows of time: this one, and that before it.
///
/// Nothing is counted before the first [`Busy::turn`]: it costs a process nothing that has no readers.
#[derive(Debug, Default)]
pub struct Busy {
    /// Operations until the next that is looked at; 0 while nothing is counted.
    left: AtomicU32,
    table: Mutex<Table>,
}

#[derive(Debug, Default)]
struct Table {
    now: Window,
    before: Window,
    /// How many operations the next look stands for.
    weight: u32,
    /// The state of a generator of random numbers (Knuth's MMIX).
    random: u64,
}

#[derive(Debug, Default)]
struct Window {
    looks: u32,
    exports: BTreeMap<Arc<str>, Work>,
    files: HashMap<Box<[u8]>, File>,
}

#[derive(Debug)]
struct File {
    export: Arc<str>,
    label: Option<String>,
    work: Work,
    looks: u32,
    /// Operations of the files that had this place before: it may have had as many itself, unnoticed.
    inherited: u64,
}

/// An export or a file with its work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BusyFile {
    /// The path of its export.
    pub export: Arc<str>,
    /// The place that the file had when it was first looked at in a window, for people; `None` where the store does not
    /// know.
    pub label: Option<String>,
    /// About its work in both windows; without that before it got its place.
    pub work: Work,
}

/// The exports and files of a process with the most work.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct BusyList {
    /// The work of exports, by their paths.
    pub exports: BTreeMap<Arc<str>, Work>,
    /// Files, by the bytes by which clients know them.
    pub files: BTreeMap<Box<[u8]>, BusyFile>,
}

impl Busy {
    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a new window, and forgets that before the last.
    pub fn turn(&self) {
        let mut table = self.table();
        table.before = std::mem::take(&mut table.now);
        if self.left.load(Ordering::Relaxed) == 0 {
            table.weight = 1;
            self.left.store(1, Ordering::Relaxed);
        }
    }

    /// Counts an operation. `look` tells about it when it is looked at, `None` if it is about no file; `label` gives
    /// the place of its object when that is not known yet. Only the core that owns this calls it.
    pub fn note<'a>(
        &self,
        look: impl FnOnce() -> Option<Operation<'a>>,
        label: impl FnOnce() -> Option<String>,
    ) {
        match self.left.load(Ordering::Relaxed) {
            0 => return,
            1 => {}
            left => return self.left.store(left - 1, Ordering::Relaxed),
        }
        // While somebody reads, the next operation is looked at instead.
        let Ok(mut table) = self.table.try_lock() else {
            return;
        };
        let weight = table.weight;
        table.weight = table.next_gap();
        self.left.store(table.weight, Ordering::Relaxed);
        let is_exact = table.now.looks < EXACT;
        table.now.looks = table.now.looks.saturating_add(1);
        if let Some(operation) = look() {
            table
                .now
                .add(&operation, u64::from(weight), is_exact, label);
        }
    }

    /// Adds what this core has, of both windows.
    pub fn read(&self, into: &mut BusyList) {
        let table = self.table();
        for window in [&table.before, &table.now] {
            for (export, work) in &window.exports {
                let sum = into.exports.entry(Arc::clone(export)).or_default();
                *sum = sum.plus(*work);
            }
            for (handle, file) in &window.files {
                let entry = into.files.entry(handle.clone());
                let sum = entry.or_insert_with(|| BusyFile {
                    export: Arc::clone(&file.export),
                    label: None,
                    work: Work::default(),
                });
                sum.work = sum.work.plus(file.work);
                // The later window has the newer name.
                if file.label.is_some() {
                    sum.label.clone_from(&file.label);
                }
            }
        }
    }
}

impl Table {
    /// Operations until the next look, that one included.
    fn next_gap(&mut self) -> u32 {
        if self.now.looks < EXACT {
            return 1;
        }
        let state = self.random;
        self.random = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        // From 1 to 15, by the highest bits, which are the most random ones.
        1 + u32::try_from(state >> 33).unwrap_or(0) % (2 * SAMPLED - 1)
    }
}

impl Window {
    fn add(
        &mut self,
        operation: &Operation<'_>,
        weight: u64,
        is_exact: bool,
        label: impl FnOnce() -> Option<String>,
    ) {
        let work = Work {
            operations: weight,
            received_bytes: weight.saturating_mul(operation.received_bytes),
            sent_bytes: weight.saturating_mul(operation.sent_bytes),
        };
        match self.exports.get_mut(&operation.export) {
            Some(sum) => *sum = sum.plus(work),
            None => drop(self.exports.insert(Arc::clone(&operation.export), work)),
        }
        let Some(handle) = operation.file else { return };
        let file = match self.files.get_mut(handle) {
            Some(file) => file,
            None => {
                let inherited = self.make_room();
                let file = File {
                    export: Arc::clone(&operation.export),
                    label: None,
                    work: Work::default(),
                    looks: 0,
                    inherited,
                };
                self.files.entry(handle.into()).or_insert(file)
            }
        };
        file.work = file.work.plus(work);
        file.looks = file.looks.saturating_add(1);
        // Once a window: whoever has no name now has none later.
        if file.label.is_none() && file.looks == if is_exact { 1 } else { NAMED_AFTER } {
            file.label = label();
        }
    }

    /// Forgets the file with the least work where the table is full; the operations that its successor inherits.
    fn make_room(&mut self) -> u64 {
        if self.files.len() < FILES_MAX {
            return 0;
        }
        let operations = |file: &File| file.work.operations + file.inherited;
        let least = self.files.iter().min_by_key(|(_, file)| operations(file));
        let Some((handle, file)) = least else {
            return 0;
        };
        let (handle, inherited) = (handle.clone(), operations(file));
        self.files.remove(&handle);
        inherited
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(busy: &Busy, file: u32, bytes: u64) {
        let handle = file.to_be_bytes();
        let operation = || Operation {
            export: "/data".into(),
            file: Some(&handle),
            received_bytes: bytes,
            sent_bytes: 2 * bytes,
        };
        busy.note(|| Some(operation()), || Some(format!("/{file}")));
    }

    fn read(busy: &Busy) -> BusyList {
        let mut list = BusyList::default();
        busy.read(&mut list);
        list
    }

    fn work_of(list: &BusyList, file: u32) -> Work {
        let file = list.files.get(&file.to_be_bytes()[..]);
        file.map_or_else(Work::default, |file| file.work)
    }

    #[test]
    fn nothing_is_counted_before_somebody_reads() {
        let busy = Busy::default();
        note(&busy, 1, 10);
        assert_eq!(read(&busy), BusyList::default());
        busy.turn();
        note(&busy, 1, 10);
        let list = read(&busy);
        let work = Work {
            operations: 1,
            received_bytes: 10,
            sent_bytes: 20,
        };
        assert_eq!(list.exports, BTreeMap::from([("/data".into(), work)]));
        let expected = BusyFile {
            export: "/data".into(),
            label: Some("/1".into()),
            work,
        };
        assert_eq!(list.files[&1u32.to_be_bytes()[..]], expected);
    }

    #[test]
    fn two_windows_are_kept() {
        let busy = Busy::default();
        busy.turn();
        note(&busy, 1, 0);
        busy.turn();
        note(&busy, 1, 0);
        assert_eq!(work_of(&read(&busy), 1).operations, 2);
        busy.turn();
        assert_eq!(work_of(&read(&busy), 1).operations, 1);
        busy.turn();
        assert_eq!(read(&busy), BusyList::default());
    }

    #[test]
    fn few_operations_are_counted_exactly_and_many_nearly() {
        let busy = Busy::default();
        busy.turn();
        (0..EXACT / 2).for_each(|_| note(&busy, 7, 1));
        assert_eq!(work_of(&read(&busy), 7).operations, u64::from(EXACT / 2));
        // One that is looked at in every eighth place must not be counted eight times, or never.
        for _ in 0..100_000 {
            note(&busy, 1, 1);
            (0..7).for_each(|_| note(&busy, 2, 1));
        }
        let list = read(&busy);
        let operations = work_of(&list, 1).operations;
        assert!((95_000..105_000).contains(&operations), "{operations}");
        let all = list.exports["/data"];
        let exact = 800_000 + u64::from(EXACT / 2);
        assert!((exact - 16..=exact).contains(&all.operations), "{all:?}");
        assert_eq!(all.sent_bytes, 2 * all.operations);
    }

    #[test]
    fn operations_about_no_file_are_sampled_too() {
        let busy = Busy::default();
        busy.turn();
        let looks = std::cell::Cell::new(0);
        for _ in 0..100_000 {
            let look = || {
                looks.set(looks.get() + 1);
                None
            };
            busy.note(look, || None);
        }
        assert!(looks.get() < EXACT + 100_000 / 6, "{}", looks.get());
        assert_eq!(read(&busy), BusyList::default());
    }

    #[test]
    fn a_busy_file_is_found_among_a_million_others() {
        let busy = Busy::default();
        busy.turn();
        for number in 0..500_000 {
            note(&busy, 1000 + number, 1);
            if number % 10 == 0 {
                note(&busy, 1, 1);
            }
        }
        let list = read(&busy);
        assert_eq!(list.files.len(), FILES_MAX);
        let busiest = list.files.values().max_by_key(|file| file.work.operations);
        let busiest = busiest.unwrap();
        assert_eq!(busiest.label.as_deref(), Some("/1"));
        let operations = busiest.work.operations;
        assert!((45_000..=55_000).contains(&operations), "{operations}");
    }
}
