//! What was written unstably and is kept, in case the server forgets it, until a COMMIT has confirmed it.

use fuser::Errno;
use gannet_runtime::Buffer;
use gannet_vfs::Verifier;
use std::cell::{Cell, RefCell};
use tokio::sync::{Mutex, RwLock};

/// The unconfirmed writes of one file.
#[derive(Default)]
pub(crate) struct Unstable {
    /// Writers share it; whoever commits has it alone, so that nothing newer is overwritten by what is written again.
    pub(crate) turn: RwLock<()>,
    /// One COMMIT at a time: none is taken to confirm what is written again while it is under way.
    pub(crate) committing: Mutex<()>,
    /// In the order in which they were done, with numbers that grow.
    kept: RefCell<Vec<(u64, Kept)>>,
    kept_ever: Cell<u64>,
    bytes: Cell<u64>,
    /// Why what was kept was given up when nobody was there to be told.
    pub(crate) refused: Cell<Option<Errno>>,
}

/// One write.
pub(crate) struct Kept {
    pub(crate) offset: u64,
    pub(crate) buffer: Buffer,
    pub(crate) len: usize,
    /// Of the server's incarnation in which it was written; `None` if that were two.
    pub(crate) verifier: Option<Verifier>,
}

impl Kept {
    fn covers(&self, other: &Kept) -> bool {
        let end = |kept: &Kept| kept.offset.saturating_add(kept.len as u64);
        self.offset <= other.offset && end(self) >= end(other)
    }

    /// Its bytes.
    pub(crate) fn data(&self) -> &[u8] {
        self.buffer.get(..self.len).unwrap_or(&self.buffer)
    }
}

impl Unstable {
    /// Bytes that are kept.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.get()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.kept.borrow().is_empty()
    }

    /// Keeps a write that has been done, in place of those that it covers.
    pub(crate) fn keep(&self, write: Kept) {
        let mut kept = self.kept.borrow_mut();
        kept.retain(|(_, older)| !write.covers(older));
        kept.push((self.kept_ever.get(), write));
        self.kept_ever.set(self.kept_ever.get() + 1);
        self.count(&kept);
    }

    /// How many writes were ever kept: what a COMMIT that is asked for now can confirm.
    pub(crate) fn kept_ever(&self) -> u64 {
        self.kept_ever.get()
    }

    /// A COMMIT that was asked for when `asked` writes had been kept has answered with `verifier`: drops what it
    /// confirms, and gives the number of writes that it should have confirmed too. All of them are to be done again, in
    /// order, even those with that verifier: they may lie over ones that were lost. None of them is confirmed before
    /// that, also if whoever does it stops in between.
    pub(crate) fn confirm(&self, asked: u64, verifier: Verifier) -> usize {
        let mut kept = self.kept.borrow_mut();
        let older = kept.partition_point(|(number, _)| *number < asked);
        let confirmed = (kept.iter().take(older))
            .position(|(_, write)| write.verifier != Some(verifier))
            .unwrap_or(older);
        kept.drain(..confirmed);
        let lost = kept.iter_mut().take(older - confirmed);
        lost.for_each(|(_, write)| write.verifier = None);
        self.count(&kept);
        older - confirmed
    }

    /// A COMMIT that was asked for when `asked` writes had been kept has failed: none of them is confirmed before it is
    /// done again.
    pub(crate) fn doubt(&self, asked: u64) {
        let mut kept = self.kept.borrow_mut();
        let older = kept.iter_mut().filter(|(number, _)| *number < asked);
        older.for_each(|(_, write)| write.verifier = None);
    }

    /// Looks at a kept write.
    pub(crate) fn with<T>(&self, index: usize, look: impl FnOnce(&Kept) -> T) -> Option<T> {
        (self.kept.borrow().get(index)).map(|(_, write)| look(write))
    }

    /// A kept write was done again, in the server's incarnation with this verifier.
    pub(crate) fn rewritten(&self, index: usize, verifier: Option<Verifier>) {
        if let Some((_, write)) = self.kept.borrow_mut().get_mut(index) {
            write.verifier = verifier;
        }
    }

    /// Gives up on everything; how many bytes that were.
    pub(crate) fn clear(&self) -> u64 {
        self.kept.borrow_mut().clear();
        self.bytes.take()
    }

    fn count(&self, kept: &[(u64, Kept)]) {
        let lengths = kept.iter().map(|(_, write)| write.len as u64);
        self.bytes.set(lengths.sum());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: Verifier = [1; 8];
    const SECOND: Verifier = [2; 8];

    fn write(offset: u64, bytes: &[u8], verifier: Verifier) -> Kept {
        Kept {
            offset,
            buffer: Buffer::from_vec(bytes.to_vec()),
            len: bytes.len(),
            verifier: Some(verifier),
        }
    }

    fn confirm(unstable: &Unstable, verifier: Verifier) -> usize {
        unstable.confirm(unstable.kept_ever(), verifier)
    }

    fn offsets(unstable: &Unstable) -> Vec<u64> {
        (0..)
            .map_while(|index| unstable.with(index, |write| write.offset))
            .collect()
    }

    #[test]
    fn what_a_commit_confirms_is_kept_no_longer() {
        let unstable = Unstable::default();
        unstable.keep(write(0, b"abcd", FIRST));
        unstable.keep(write(4, b"efgh", FIRST));
        assert_eq!(unstable.bytes(), 8);
        assert_eq!(confirm(&unstable, FIRST), 0);
        assert!(unstable.is_empty() && unstable.bytes() == 0);
    }

    #[test]
    fn everything_from_the_first_lost_write_on_is_done_again_in_order() {
        let unstable = Unstable::default();
        unstable.keep(write(0, b"abcd", SECOND));
        unstable.keep(write(8, b"lost", FIRST));
        // Lies over the lost one: writing only that again would undo this.
        unstable.keep(write(10, b"newer", SECOND));
        assert_eq!(confirm(&unstable, SECOND), 2);
        assert_eq!(offsets(&unstable), [8, 10]);
        unstable.rewritten(0, Some(SECOND));
        unstable.rewritten(1, Some(SECOND));
        assert_eq!(confirm(&unstable, SECOND), 0);
    }

    #[test]
    fn what_lies_over_a_lost_write_is_not_confirmed_until_it_is_done_again_too() {
        let unstable = Unstable::default();
        unstable.keep(write(0, b"lost", FIRST));
        unstable.keep(write(2, b"newer", SECOND));
        assert_eq!(confirm(&unstable, SECOND), 2);
        // Time is up when the first has been written again, over the second.
        unstable.rewritten(0, Some(SECOND));
        assert_eq!(confirm(&unstable, SECOND), 1);
        assert_eq!(offsets(&unstable), [2]);
    }

    #[test]
    fn what_a_commit_failed_for_is_done_again() {
        let unstable = Unstable::default();
        unstable.keep(write(0, b"abcd", FIRST));
        unstable.doubt(unstable.kept_ever());
        unstable.keep(write(4, b"efgh", FIRST));
        assert_eq!(confirm(&unstable, FIRST), 2);
    }

    #[test]
    fn a_commit_confirms_nothing_that_was_written_after_it_was_asked_for() {
        let unstable = Unstable::default();
        unstable.keep(write(0, b"abcd", FIRST));
        let asked = unstable.kept_ever();
        unstable.keep(write(4, b"efgh", FIRST));
        assert_eq!(unstable.confirm(asked, FIRST), 0);
        assert_eq!(offsets(&unstable), [4]);
        // In its own place, but newer than the COMMIT.
        let asked = unstable.kept_ever();
        unstable.keep(write(4, b"EFGH", FIRST));
        assert_eq!(unstable.confirm(asked, FIRST), 0);
        assert_eq!(offsets(&unstable), [4]);
        let asked = unstable.kept_ever();
        unstable.keep(write(8, b"ijkl", SECOND));
        assert_eq!(unstable.confirm(asked, SECOND), 1);
        assert_eq!(offsets(&unstable), [4, 8]);
    }

    #[test]
    fn a_write_takes_the_place_of_those_it_covers() {
        let unstable = Unstable::default();
        unstable.keep(write(4, b"old", FIRST));
        unstable.keep(write(2, b"old", FIRST));
        unstable.keep(write(4, b"newer", FIRST));
        assert_eq!(offsets(&unstable), [2, 4]);
        assert_eq!(unstable.bytes(), 8);
        assert_eq!(unstable.clear(), 8);
        assert!(unstable.is_empty());
    }
}
