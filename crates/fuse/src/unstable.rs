//! Unstable writes of a file, kept until a COMMIT confirms them: a server that restarts may have lost them.

use crate::behind::Behind;
use fuser::Errno;
use gannet_runtime::Buffer;
use gannet_vfs::Verifier;
use std::cell::{Cell, RefCell};
use tokio::sync::{Mutex, Notify, RwLock};

/// The unconfirmed writes of one file.
#[derive(Default)]
pub(crate) struct Unstable {
    /// Writes that the store has not answered.
    pub(crate) behind: RefCell<Behind>,
    /// Wakes those who wait for answers to them.
    pub(crate) answered: Notify,
    /// Held by one append at a time, where the mount chooses the offset.
    pub(crate) appending: Mutex<()>,
    /// Writers hold it shared and a commit that may resend holds it alone: a resend beside a newer overlapping write
    /// would overwrite that. It is taken before `committing`.
    pub(crate) turn: RwLock<()>,
    /// A lock held during each COMMIT: one that was sent before a resend must not confirm it.
    pub(crate) committing: Mutex<()>,
    /// The kept writes in the order in which they were done, with numbers that grow.
    kept: RefCell<Vec<(u64, Kept)>>,
    kept_ever: Cell<u64>,
    bytes: Cell<u64>,
    /// Why kept writes were dropped by a commit that no user of this file waited for. The next sync takes it.
    pub(crate) refused: Cell<Option<Errno>>,
}

/// A write that no COMMIT has confirmed.
pub(crate) struct Kept {
    pub(crate) offset: u64,
    pub(crate) buffer: Buffer,
    pub(crate) len: usize,
    /// The verifier of the server's incarnation that took it. `None` if two incarnations have parts of it, or if a
    /// COMMIT failed: no COMMIT then confirms it until it is resent.
    pub(crate) verifier: Option<Verifier>,
}

impl Kept {
    fn covers(&self, other: &Kept) -> bool {
        let end = |kept: &Kept| kept.offset.saturating_add(kept.len as u64);
        self.offset <= other.offset && end(self) >= end(other)
    }

    /// The bytes to resend; the buffer may be longer.
    pub(crate) fn data(&self) -> &[u8] {
        self.buffer.get(..self.len).unwrap_or(&self.buffer)
    }
}

impl Unstable {
    /// True if nothing would be lost with it.
    pub(crate) fn is_idle(&self) -> bool {
        let refused = self.refused.take();
        self.refused.set(refused);
        self.is_empty() && self.behind.borrow().is_empty() && refused.is_none()
    }

    /// Bytes that are kept.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.get()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.kept.borrow().is_empty()
    }

    /// Keeps a finished write, in place of the ones that it covers. The order of the list is that of the replies, and a
    /// resend repeats it, so that the newest bytes win again.
    pub(crate) fn keep(&self, write: Kept) {
        let mut kept = self.kept.borrow_mut();
        kept.retain(|(_, older)| !write.covers(older));
        kept.push((self.kept_ever.get(), write));
        self.kept_ever.set(self.kept_ever.get() + 1);
        self.count(&kept);
    }

    /// How many writes were ever kept. Read before a COMMIT is sent, it bounds the writes that this COMMIT covers.
    pub(crate) fn kept_ever(&self) -> u64 {
        self.kept_ever.get()
    }

    /// Handles the reply, with `verifier`, to a COMMIT that was sent after `asked` writes had been kept. It drops the
    /// confirmed writes, and gives the number of those to resend.
    ///
    /// From the first write with another verifier on, all are resent in order, even those with this one: they may
    /// overlap a lost write. Their verifiers are erased at once, so that a resend which is cut short confirms none of
    /// them.
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

    /// Erases the verifiers of the first `asked` writes after their COMMIT failed: each is resent before a COMMIT may
    /// confirm it.
    pub(crate) fn commit_failed(&self, asked: u64) {
        let mut kept = self.kept.borrow_mut();
        let older = kept.iter_mut().filter(|(number, _)| *number < asked);
        older.for_each(|(_, write)| write.verifier = None);
    }

    /// Runs `look` on the kept write at `index`, counted from the oldest; `None` behind the last. The borrow ends with
    /// it.
    pub(crate) fn with<T>(&self, index: usize, look: impl FnOnce(&Kept) -> T) -> Option<T> {
        (self.kept.borrow().get(index)).map(|(_, write)| look(write))
    }

    /// Records that a kept write was resent, in the incarnation with this verifier.
    pub(crate) fn rewritten(&self, index: usize, verifier: Option<Verifier>) {
        if let Some((_, write)) = self.kept.borrow_mut().get_mut(index) {
            write.verifier = verifier;
        }
    }

    /// Drops all kept writes; gives their bytes.
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
    fn a_commit_drops_the_writes_that_it_confirms() {
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
        // It overlaps the lost write: a resend of that alone would undo it.
        unstable.keep(write(10, b"newer", SECOND));
        assert_eq!(confirm(&unstable, SECOND), 2);
        assert_eq!(offsets(&unstable), [8, 10]);
        unstable.rewritten(0, Some(SECOND));
        unstable.rewritten(1, Some(SECOND));
        assert_eq!(confirm(&unstable, SECOND), 0);
    }

    #[test]
    fn a_write_over_a_lost_one_is_not_confirmed_until_it_is_resent_too() {
        let unstable = Unstable::default();
        unstable.keep(write(0, b"lost", FIRST));
        unstable.keep(write(2, b"newer", SECOND));
        assert_eq!(confirm(&unstable, SECOND), 2);
        // The deadline ends the resends after the first write, which now lies over the second.
        unstable.rewritten(0, Some(SECOND));
        assert_eq!(confirm(&unstable, SECOND), 1);
        assert_eq!(offsets(&unstable), [2]);
    }

    #[test]
    fn writes_of_a_failed_commit_are_resent() {
        let unstable = Unstable::default();
        unstable.keep(write(0, b"abcd", FIRST));
        unstable.commit_failed(unstable.kept_ever());
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
        // It replaces a kept write, but is newer than the COMMIT.
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
