//! The open descriptions of files, and the errors that their programs were not told yet.

use super::FileWrites;
use gannet_vfs::{Credentials, Status};
use std::collections::HashMap;
use std::rc::Rc;

/// An open description of a file. Its reads and writes have the credentials of its open, also those that a cache sends
/// for others.
#[derive(Clone)]
pub struct Description {
    /// The file, with its writes.
    pub file: Rc<FileWrites>,
    /// The caller who opened it.
    pub caller: Credentials,
}

/// The open descriptions of files, by keys of the front end.
#[derive(Default)]
pub struct Descriptions {
    open: HashMap<u64, Description>,
    /// Why bytes of an open file did not reach the store, until its program is told, by key.
    failures: HashMap<u64, Status>,
}

impl Descriptions {
    /// Adds an open description under a key that no other had.
    pub fn open(&mut self, key: u64, description: Description) {
        self.open.insert(key, description);
    }

    /// The open description with this key.
    pub fn get(&self, key: u64) -> Option<&Description> {
        self.open.get(&key)
    }

    /// The files that have an open description, each as often as it has one, in no order.
    pub fn files(&self) -> impl Iterator<Item = &Rc<FileWrites>> {
        self.open.values().map(|description| &description.file)
    }

    /// Removes a description. A failure that its program was not told goes with it.
    pub fn close(&mut self, key: u64) -> Option<Description> {
        self.failures.remove(&key);
        self.open.remove(&key)
    }

    /// Records that bytes which `caller` wrote to a file did not reach the store, for each of its open descriptions of
    /// it. False if there is none.
    pub fn fail(&mut self, file: &Rc<FileWrites>, caller: &Credentials, status: Status) -> bool {
        let of_caller = |it: &Description| Rc::ptr_eq(&it.file, file) && it.caller == *caller;
        let keys = self.open.iter().filter(|(_, it)| of_caller(it));
        let keys: Vec<u64> = keys.map(|(key, _)| *key).collect();
        keys.iter().for_each(|key| {
            self.failures.entry(*key).or_insert(status);
        });
        !keys.is_empty()
    }

    /// True if a failure was not told yet to a program that has the file open.
    pub fn has_failure(&self, file: &Rc<FileWrites>) -> bool {
        let of_file = |key: &u64| {
            let description = self.open.get(key);
            description.is_some_and(|it| Rc::ptr_eq(&it.file, file))
        };
        self.failures.keys().any(of_file)
    }

    /// Takes the failure that the program of an open description was not told yet.
    pub fn take_failure(&mut self, key: u64) -> Option<Status> {
        self.failures.remove(&key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::write_behind::FileTable;
    use gannet_vfs::FileHandle;

    #[test]
    fn a_failure_is_told_once_to_each_open_description_of_the_writer() {
        let table = FileTable::default();
        let [file, another, closed] = [[7], [8], [9]].map(|name| {
            let handle = FileHandle::new(&name).expect("it is short");
            table.file(&handle)
        });
        let caller = |uid| Credentials::new(uid, uid, &[]);
        let mut descriptions = Descriptions::default();
        let [first, second, other, elsewhere] = [0, 1, 2, 3];
        let opens = [(&file, 1), (&file, 1), (&file, 2), (&another, 1)];
        for (key, (file, uid)) in opens.into_iter().enumerate() {
            let description = Description {
                file: Rc::clone(file),
                caller: caller(uid),
            };
            descriptions.open(key as u64, description);
        }
        assert!(descriptions.fail(&file, &caller(1), Status::Nospc));
        // The first of several is told.
        assert!(descriptions.fail(&file, &caller(1), Status::Io));
        assert!(descriptions.has_failure(&file) && !descriptions.has_failure(&another));
        for key in [first, second] {
            assert_eq!(descriptions.take_failure(key), Some(Status::Nospc));
            assert_eq!(descriptions.take_failure(key), None);
        }
        assert_eq!(descriptions.take_failure(other), None);
        assert_eq!(descriptions.take_failure(elsewhere), None);
        assert!(!descriptions.has_failure(&file));
        assert!(
            !descriptions.fail(&closed, &caller(1), Status::Io),
            "nobody has it open"
        );
    }
}
