//! Files of which nobody knows whether they will still be cut.
//!
//! Who gives up cutting a file goes on, and what was asked for may be done later all the same, as soon as an I/O server
//! is back. It must not cut what he writes from then on. So he writes by no grant from before; the manager gives a new
//! one when the file is as it will be.

use crate::limits::DOUBTS_MAX;
use gannet_wire::volume::FileId;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// See the module.
#[derive(Default)]
pub(crate) struct Doubts {
    noted: Mutex<Noted>,
}

#[derive(Default)]
struct Noted {
    /// So many were ever noted.
    count: u64,
    /// Up to which number the last one of each file is.
    files: BTreeMap<FileId, u64>,
    /// Up to which number any file's may be: there was no room for them.
    others: u64,
}

/// A moment between two doubts, or before the first.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Moment(u64);

impl Doubts {
    /// The moment that it is.
    pub(crate) fn moment(&self) -> Moment {
        Moment(self.lock().count)
    }

    /// From when on nobody was in doubt about a file any more.
    pub(crate) fn last(&self, file: FileId) -> Moment {
        let noted = self.lock();
        let last = noted.files.get(&file).copied();
        Moment(last.unwrap_or(0).max(noted.others))
    }

    /// A file may be cut from now on. It is in doubt when what comes back is dropped, unless that knows better.
    pub(crate) fn cutting(self: &Arc<Self>, file: FileId) -> Cutting {
        Cutting {
            doubts: Arc::clone(self),
            file,
            is_done: false,
        }
    }

    fn note(&self, file: FileId) {
        let mut noted = self.lock();
        if noted.files.len() >= DOUBTS_MAX {
            noted.others = noted.count;
            noted.files.clear();
        }
        noted.count += 1;
        let number = noted.count;
        noted.files.insert(file, number);
    }

    fn lock(&self) -> MutexGuard<'_, Noted> {
        self.noted.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A file is being cut.
pub(crate) struct Cutting {
    doubts: Arc<Doubts>,
    file: FileId,
    is_done: bool,
}

impl Cutting {
    /// It is cut.
    pub(crate) fn done(mut self) {
        self.is_done = true;
    }

    /// It is in doubt from now on, and once more when this is dropped.
    pub(crate) fn doubt(&self) {
        self.doubts.note(self.file);
    }
}

impl Drop for Cutting {
    fn drop(&mut self) {
        if !self.is_done {
            self.doubts.note(self.file);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_given_up_is_in_doubt_from_then_on() {
        let doubts = Arc::new(Doubts::default());
        let (file, other) = (FileId(1), FileId(2));
        let before = doubts.moment();
        doubts.cutting(file).done();
        assert!(doubts.last(file) <= before);
        drop(doubts.cutting(file));
        assert!(doubts.last(file) > before);
        assert!(doubts.last(other) <= before);
        assert!(doubts.last(file) <= doubts.moment());
    }

    #[test]
    fn no_doubt_is_forgotten_for_want_of_room() {
        let doubts = Arc::new(Doubts::default());
        let before = doubts.moment();
        let files = || (0..=DOUBTS_MAX as u64).map(FileId);
        files().for_each(|file| drop(doubts.cutting(file)));
        assert!(files().all(|file| doubts.last(file) > before));
        assert!(doubts.lock().files.len() <= DOUBTS_MAX);
        let now = doubts.moment();
        assert!(files().all(|file| doubts.last(file) <= now));
    }
}
