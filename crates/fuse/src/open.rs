//! The open files and directories of a mount, by the keys that the kernel sends with each request.

use crate::listing::Listing;
use fuser::Errno;
use gannet_vfs::{Attributes, Credentials};
use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap};
use std::rc::Rc;

/// An open file. Its reads and writes have the credentials of its open, also those that the kernel sends for others.
#[derive(Debug, Clone)]
pub(crate) struct OpenFile {
    pub(crate) number: u64,
    pub(crate) caller: Credentials,
}

/// An open directory.
pub(crate) struct OpenDirectory {
    pub(crate) number: u64,
    pub(crate) caller: Credentials,
    /// Held by one request at a time, since requests share the page.
    pub(crate) listing: tokio::sync::Mutex<Listing>,
}

/// The open files and directories. Their keys share one sequence, and none is used twice.
#[derive(Default)]
pub(crate) struct Open {
    last: u64,
    files: HashMap<u64, OpenFile>,
    /// Why bytes of an open file did not reach the store, until its program is told, by key.
    failures: HashMap<u64, Errno>,
    /// The owners of locks that were granted by each open file, by key, and not released by a close yet.
    lock_owners: HashMap<u64, BTreeSet<u64>>,
    directories: HashMap<u64, Rc<OpenDirectory>>,
    /// The last attributes of directories that were removed while open, by number.
    removed_directories: HashMap<u64, Attributes>,
}

impl Open {
    fn next(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    pub(crate) fn add_file(&mut self, file: OpenFile) -> u64 {
        let key = self.next();
        self.files.insert(key, file);
        key
    }

    pub(crate) fn add_directory(&mut self, directory: OpenDirectory) -> u64 {
        let key = self.next();
        self.directories.insert(key, Rc::new(directory));
        key
    }

    /// Records that bytes which `caller` wrote to a file did not reach the store, for each of its open files of it.
    /// False if there is none.
    pub(crate) fn fail(&mut self, number: u64, caller: &Credentials, errno: Errno) -> bool {
        let of_caller = |file: &OpenFile| file.number == number && file.caller == *caller;
        let keys = self.files.iter().filter(|(_, file)| of_caller(file));
        let keys: Vec<u64> = keys.map(|(key, _)| *key).collect();
        keys.iter().for_each(|key| {
            self.failures.entry(*key).or_insert(errno);
        });
        !keys.is_empty()
    }

    /// True if a failure was not told yet to a program that has the file open.
    pub(crate) fn has_failure(&self, number: u64) -> bool {
        let of_file = |key: &u64| {
            let file = self.files.get(key);
            file.is_some_and(|file| file.number == number)
        };
        self.failures.keys().any(of_file)
    }

    /// Takes the failure that the program of an open file was not told yet.
    pub(crate) fn take_failure(&mut self, key: u64) -> Option<Errno> {
        self.failures.remove(&key)
    }

    /// Records that a lock was granted through an open file.
    pub(crate) fn note_lock(&mut self, key: u64, owner: u64) {
        self.lock_owners.entry(key).or_default().insert(owner);
    }

    /// Strikes an owner whose locks on the file of `key` are all released.
    pub(crate) fn strike_lock(&mut self, key: u64, owner: u64) {
        let number = self.files.get(&key).map(|file| file.number);
        for (key, owners) in &mut self.lock_owners {
            if self.files.get(key).map(|file| file.number) == number {
                owners.remove(&owner);
            }
        }
    }

    /// The owners whose locks end with the last close of an open file: those of flock(2) and of F_OFD_SETLK.
    pub(crate) fn take_lock_owners(&mut self, key: u64) -> BTreeSet<u64> {
        self.lock_owners.remove(&key).unwrap_or_default()
    }

    pub(crate) fn file(&self, key: u64) -> Option<&OpenFile> {
        self.files.get(&key)
    }

    pub(crate) fn directory(&self, key: u64) -> Option<Rc<OpenDirectory>> {
        self.directories.get(&key).map(Rc::clone)
    }

    pub(crate) fn remove_file(&mut self, key: u64) -> Option<OpenFile> {
        self.failures.remove(&key);
        self.lock_owners.remove(&key);
        self.files.remove(&key)
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

/// The open files and directories of a mount, which all its requests share.
pub(crate) type OpenTable = RefCell<Open>;

#[cfg(test)]
mod tests {
    use super::*;

    fn open_by(open: &mut Open, number: u64, uid: u32) -> u64 {
        open.add_file(OpenFile {
            number,
            caller: Credentials::new(uid, uid, &[]),
        })
    }

    #[test]
    fn a_failure_is_told_once_to_each_open_file_of_the_writer() {
        let mut open = Open::default();
        let [first, second, other, elsewhere] =
            [(7, 1), (7, 1), (7, 2), (8, 1)].map(|(number, uid)| open_by(&mut open, number, uid));
        let writer = Credentials::new(1, 1, &[]);
        assert!(open.fail(7, &writer, Errno::ENOSPC));
        // The first of several is told.
        assert!(open.fail(7, &writer, Errno::EIO) && open.has_failure(7) && !open.has_failure(8));
        for key in [first, second] {
            assert_eq!(open.take_failure(key), Some(Errno::ENOSPC));
            assert_eq!(open.take_failure(key), None);
        }
        assert_eq!(
            (open.take_failure(other), open.take_failure(elsewhere)),
            (None, None)
        );
        assert!(!open.has_failure(7));
        assert!(!open.fail(9, &writer, Errno::EIO), "nobody has it open");
    }

    #[test]
    fn owners_of_locks_are_released_by_the_last_close_unless_a_close_before_did() {
        let mut open = Open::default();
        let (first, second) = (open_by(&mut open, 7, 1), open_by(&mut open, 7, 1));
        open.note_lock(first, 100);
        open.note_lock(first, 200);
        open.note_lock(second, 100);
        // A close of the process with all locks of owner 100, through any of its open files.
        open.strike_lock(second, 100);
        assert_eq!(open.take_lock_owners(first), BTreeSet::from([200]));
        assert_eq!(open.take_lock_owners(first), BTreeSet::new());
        assert_eq!(open.take_lock_owners(second), BTreeSet::new());
    }
}
