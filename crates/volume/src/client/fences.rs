//! Fences: files whose truncation was given up with an unknown outcome.
//!
//! A caller that gives up a truncation goes on, and the truncation may run later all the same, once an I/O server is
//! back. It must not cut what the caller writes from then on. So the client raises the file's fence and writes by no
//! grant from an earlier epoch. The manager grants again when the truncation is done.

use crate::limits::FENCES_MAX;
use gannet_wire::volume::FileId;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The fences of a client and its siblings.
#[derive(Default)]
pub(crate) struct Fences {
    raised: Mutex<Raised>,
}

#[derive(Default)]
struct Raised {
    /// How many fences were ever raised.
    count: u64,
    /// The number of the last fence of each file.
    files: BTreeMap<FileId, u64>,
    /// The highest number that a fence may have of which there was no room to note the file: it counts for all files.
    others: u64,
}

/// The time between two fences, or before the first.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Epoch(u64);

impl Fences {
    /// The present epoch.
    pub(crate) fn epoch(&self) -> Epoch {
        Epoch(self.lock().count)
    }

    /// The fence of a file: the first epoch from which a grant to write it is usable.
    pub(crate) fn fence(&self, file: FileId) -> Epoch {
        let raised = self.lock();
        let last = raised.files.get(&file).copied();
        Epoch(last.unwrap_or(0).max(raised.others))
    }

    /// A guard for a change that may cut a file: it raises the file's fence when it is dropped, unless it is disarmed.
    pub(crate) fn guard(self: &Arc<Self>, file: FileId) -> FenceGuard {
        FenceGuard {
            fences: Arc::clone(self),
            file,
            is_disarmed: false,
        }
    }

    fn raise(&self, file: FileId) {
        let mut raised = self.lock();
        if raised.files.len() >= FENCES_MAX {
            // A forgotten fence would let an old grant write what a late truncation cuts: it becomes all files' fence.
            raised.others = raised.count;
            raised.files.clear();
        }
        raised.count += 1;
        let number = raised.count;
        raised.files.insert(file, number);
    }

    fn lock(&self) -> MutexGuard<'_, Raised> {
        self.raised.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Raises the fence of a file when it is dropped.
pub(crate) struct FenceGuard {
    fences: Arc<Fences>,
    file: FileId,
    is_disarmed: bool,
}

impl FenceGuard {
    /// The outcome of the change is known: no fence is needed.
    pub(crate) fn disarm(mut self) {
        self.is_disarmed = true;
    }

    /// Raises the fence now, and once more when this is dropped.
    pub(crate) fn raise(&self) {
        self.fences.raise(self.file);
    }
}

impl Drop for FenceGuard {
    fn drop(&mut self) {
        if !self.is_disarmed {
            self.fences.raise(self.file);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_that_is_given_up_raises_the_fence() {
        let fences = Arc::new(Fences::default());
        let (file, other) = (FileId(1), FileId(2));
        let before = fences.epoch();
        fences.guard(file).disarm();
        assert!(fences.fence(file) <= before);
        drop(fences.guard(file));
        assert!(fences.fence(file) > before);
        assert!(fences.fence(other) <= before);
        assert!(fences.fence(file) <= fences.epoch());
    }

    #[test]
    fn no_fence_is_forgotten_for_want_of_room() {
        let fences = Arc::new(Fences::default());
        let before = fences.epoch();
        let files = || (0..=FENCES_MAX as u64).map(FileId);
        files().for_each(|file| drop(fences.guard(file)));
        assert!(files().all(|file| fences.fence(file) > before));
        assert!(fences.lock().files.len() <= FENCES_MAX);
        let now = fences.epoch();
        assert!(files().all(|file| fences.fence(file) <= now));
    }
}
