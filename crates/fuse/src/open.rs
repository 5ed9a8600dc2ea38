//! The keys of open files and directories, which the kernel sends with each request, and what is open besides file
//! data: locks and directories.

use crate::listing::Listing;
use gannet_vfs::{Attributes, ByteLock, Credentials};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::RangeInclusive;
use std::rc::Rc;

/// An open directory.
pub(crate) struct OpenDirectory {
    pub(crate) number: u64,
    pub(crate) caller: Credentials,
    /// Held by one request at a time, since requests share the page.
    pub(crate) listing: tokio::sync::Mutex<Listing>,
}

/// The owners of locks that were granted through one open file.
struct Locked {
    /// The number of the file.
    number: u64,
    /// The bytes that each has locked. One that has unlocked all of its own stays: the last close unlocks them again,
    /// in case that the store has not heard of it.
    owners: BTreeMap<u64, LockedBytes>,
}

/// The bytes that an owner has locked, in order. Neighbours are one range: the store bounds the number of its ranges,
/// and these are as many.
#[derive(Debug, Default)]
struct LockedBytes(Vec<RangeInclusive<u64>>);

impl LockedBytes {
    fn lock(&mut self, lock: &ByteLock) {
        let (mut start, mut end) = (lock.start, lock.end);
        let LockedBytes(ranges) = self;
        ranges.retain(|it| {
            let touches =
                *it.start() <= end.saturating_add(1) && start <= it.end().saturating_add(1);
            if touches {
                (start, end) = (start.min(*it.start()), end.max(*it.end()));
            }
            !touches
        });
        let place = ranges.partition_point(|it| *it.start() < start);
        ranges.insert(place, start..=end);
    }

    fn unlock(&mut self, lock: &ByteLock) {
        let LockedBytes(ranges) = self;
        let rest = ranges.iter().flat_map(|it| {
            let before = (lock.start.checked_sub(1)).map(|end| *it.start()..=end.min(*it.end()));
            let behind = (lock.end.checked_add(1)).map(|start| start.max(*it.start())..=*it.end());
            [before, behind].into_iter().flatten()
        });
        *ranges = rest.filter(|it| !it.is_empty()).collect();
    }

    fn is_empty(&self) -> bool {
        let LockedBytes(ranges) = self;
        ranges.is_empty()
    }
}

/// The locks of open files, and the open directories. The keys of both share one sequence, and none is used twice.
#[derive(Default)]
pub(crate) struct Open {
    last: u64,
    /// The locks that were granted by each open file, by key, and not released yet.
    locked: HashMap<u64, Locked>,
    directories: HashMap<u64, Rc<OpenDirectory>>,
    /// The last attributes of directories that were removed while open, by number.
    removed_directories: HashMap<u64, Attributes>,
}

impl Open {
    /// A new key.
    pub(crate) fn next(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    pub(crate) fn add_directory(&mut self, directory: OpenDirectory) -> u64 {
        let key = self.next();
        self.directories.insert(key, Rc::new(directory));
        key
    }

    /// Records that a lock on the file with this number was granted through an open file.
    pub(crate) fn note_lock(&mut self, key: u64, number: u64, lock: &ByteLock) {
        let unlocked = || Locked {
            number,
            owners: BTreeMap::new(),
        };
        let locked = self.locked.entry(key).or_insert_with(unlocked);
        locked.owners.entry(lock.owner).or_default().lock(lock);
    }

    /// Whether a lock on the file with this number was granted through a file that is still open, and not released.
    pub(crate) fn is_locked(&self, number: u64) -> bool {
        let mut of_file = self.locked.values().filter(|it| it.number == number);
        of_file.any(|it| it.owners.values().any(|bytes| !bytes.is_empty()))
    }

    /// Records that an owner unlocks these bytes of the file with this number, through whatever open file.
    pub(crate) fn note_unlock(&mut self, number: u64, lock: &ByteLock) {
        let of_file = self.locked.values_mut().filter(|it| it.number == number);
        of_file
            .filter_map(|it| it.owners.get_mut(&lock.owner))
            .for_each(|bytes| bytes.unlock(lock));
    }

    /// Strikes an owner whose locks on the file with this number are all released by a close.
    pub(crate) fn strike_lock(&mut self, number: u64, owner: u64) {
        let of_file = self.locked.values_mut().filter(|it| it.number == number);
        of_file.for_each(|locked| {
            locked.owners.remove(&owner);
        });
    }

    /// The owners whose locks end with the last close of an open file: those of flock(2) and of F_OFD_SETLK.
    pub(crate) fn take_lock_owners(&mut self, key: u64) -> BTreeSet<u64> {
        let locked = self.locked.remove(&key);
        (locked.into_iter())
            .flat_map(|locked| locked.owners.into_keys())
            .collect()
    }

    /// Drops what a closed file had.
    pub(crate) fn remove_file(&mut self, key: u64) {
        self.locked.remove(&key);
    }

    pub(crate) fn directory(&self, key: u64) -> Option<Rc<OpenDirectory>> {
        self.directories.get(&key).map(Rc::clone)
    }

    pub(crate) fn remove_directory(&mut self, key: u64) {
        let Some(closed) = self.directories.remove(&key) else {
            return;
        };
        if !self.is_directory_open(closed.number) {
            self.removed_directories.remove(&closed.number);
        }
    }

    pub(crate) fn has_directories(&self) -> bool {
        !self.directories.is_empty()
    }

    fn is_directory_open(&self, number: u64) -> bool {
        self.directories.values().any(|it| it.number == number)
    }

    /// Records that a directory was removed from the tree, for the programs that have it open.
    pub(crate) fn note_removed(&mut self, number: u64, last: Attributes) {
        if self.is_directory_open(number) {
            let links = Attributes {
                link_count: 0,
                ..last
            };
            self.removed_directories.insert(number, links);
        }
    }

    /// The attributes of a directory that was removed while open.
    pub(crate) fn removed_directory(&self, number: u64) -> Option<Attributes> {
        self.removed_directories.get(&number).copied()
    }
}

/// The locks and open directories of a mount, which all its requests share.
pub(crate) type OpenTable = RefCell<Open>;

#[cfg(test)]
mod tests {
    use super::*;
    use gannet_vfs::LockKind;

    const NUMBER: u64 = 7;

    fn bytes(owner: u64, start: u64, end: u64) -> ByteLock {
        ByteLock {
            owner,
            kind: LockKind::Exclusive,
            start,
            end,
            process: 0,
        }
    }

    #[test]
    fn owners_of_locks_are_released_by_the_last_close_unless_a_close_before_did() {
        let mut open = Open::default();
        let (first, second) = (open.next(), open.next());
        open.note_lock(first, NUMBER, &bytes(100, 0, 9));
        open.note_lock(first, NUMBER, &bytes(200, 20, 29));
        open.note_lock(second, NUMBER, &bytes(100, 40, u64::MAX));
        assert!(open.is_locked(NUMBER) && !open.is_locked(NUMBER + 1));
        // A close of the process with all locks of owner 100, through any of its open files.
        open.strike_lock(NUMBER, 100);
        assert_eq!(open.take_lock_owners(first), BTreeSet::from([200]));
        assert!(!open.is_locked(NUMBER));
        assert_eq!(open.take_lock_owners(first), BTreeSet::new());
        assert_eq!(open.take_lock_owners(second), BTreeSet::new());
    }

    #[test]
    fn a_file_is_locked_until_the_last_byte_is_unlocked() {
        let mut open = Open::default();
        let key = open.next();
        let is_locked_after = |open: &mut Open, start, end| {
            open.note_unlock(NUMBER, &bytes(100, start, end));
            open.is_locked(NUMBER)
        };
        // Neighbours, and bytes that are locked twice.
        open.note_lock(key, NUMBER, &bytes(100, 10, 19));
        open.note_lock(key, NUMBER, &bytes(100, 0, 9));
        open.note_lock(key, NUMBER, &bytes(100, 5, u64::MAX));
        // Another owner's bytes stay locked, and another file's.
        open.note_unlock(NUMBER, &bytes(200, 0, u64::MAX));
        open.note_unlock(NUMBER + 1, &bytes(100, 0, u64::MAX));
        assert!(is_locked_after(&mut open, 1, 100));
        assert!(is_locked_after(&mut open, 102, u64::MAX));
        // Bytes that are not locked.
        assert!(is_locked_after(&mut open, 50, 60));
        assert!(is_locked_after(&mut open, 0, 0));
        assert!(!is_locked_after(&mut open, 101, 101));
        // Did the store hear of it? The last close unlocks once more.
        assert_eq!(open.take_lock_owners(key), BTreeSet::from([100]));
    }

    #[test]
    fn bytes_locked_one_by_one_are_one_range() {
        let mut locked = LockedBytes::default();
        for start in (0..100).rev().step_by(2).chain((0..100).step_by(2)) {
            locked.lock(&bytes(100, start, start));
        }
        let LockedBytes(ranges) = &locked;
        assert_eq!(ranges, &[0..=99]);
        (0..100).for_each(|start| locked.unlock(&bytes(100, start, start)));
        assert!(locked.is_empty());
    }
}
