//! The keys of open files and directories, which the kernel sends with each request, and what is open besides file
//! data: locks and directories.

use crate::listing::Listing;
use gannet_vfs::{Attributes, Credentials};
use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap};
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
    owners: BTreeSet<u64>,
}

/// The locks of open files, and the open directories. The keys of both share one sequence, and none is used twice.
#[derive(Default)]
pub(crate) struct Open {
    last: u64,
    /// The locks that were granted by each open file, by key, and not released by a close yet.
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
    pub(crate) fn note_lock(&mut self, key: u64, number: u64, owner: u64) {
        let unlocked = || Locked {
            number,
            owners: BTreeSet::new(),
        };
        let locked = self.locked.entry(key).or_insert_with(unlocked);
        locked.owners.insert(owner);
    }

    /// Whether a lock on the file with this number was granted through a file that is still open.
    pub(crate) fn is_locked(&self, number: u64) -> bool {
        let has = |locked: &Locked| locked.number == number && !locked.owners.is_empty();
        self.locked.values().any(has)
    }

    /// Strikes an owner whose locks on the file with this number are all released.
    pub(crate) fn strike_lock(&mut self, number: u64, owner: u64) {
        let of_file = |locked: &&mut Locked| locked.number == number;
        self.locked.values_mut().filter(of_file).for_each(|locked| {
            locked.owners.remove(&owner);
        });
    }

    /// The owners whose locks end with the last close of an open file: those of flock(2) and of F_OFD_SETLK.
    pub(crate) fn take_lock_owners(&mut self, key: u64) -> BTreeSet<u64> {
        let locked = self.locked.remove(&key);
        locked.map(|locked| locked.owners).unwrap_or_default()
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

    #[test]
    fn owners_of_locks_are_released_by_the_last_close_unless_a_close_before_did() {
        let mut open = Open::default();
        let (first, second, number) = (open.next(), open.next(), 7);
        open.note_lock(first, number, 100);
        open.note_lock(first, number, 200);
        open.note_lock(second, number, 100);
        assert!(open.is_locked(number) && !open.is_locked(number + 1));
        // A close of the process with all locks of owner 100, through any of its open files.
        open.strike_lock(number, 100);
        assert_eq!(open.take_lock_owners(first), BTreeSet::from([200]));
        assert!(!open.is_locked(number));
        assert_eq!(open.take_lock_owners(first), BTreeSet::new());
        assert_eq!(open.take_lock_owners(second), BTreeSet::new());
    }
}
