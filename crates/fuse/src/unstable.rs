//! What was written unstably and is kept, in case the server forgets it, until a COMMIT has confirmed it.

use gannet_fabric::Buffer;
use gannet_vfs::Verifier;
use std::cell::{Cell, RefCell};
use tokio::sync::RwLock;

/// The unconfirmed writes of one file.
#[derive(Default)]
pub(crate) struct Unstable {
    /// Writers share it; whoever commits has it alone, so that nothing newer is overwritten by what is written again.
    pub(crate) turn: RwLock<()>,
    kept: RefCell<Vec<Kept>>,
    bytes: Cell<u64>,
}

/// One write.
pub(crate) struct Kept {
    pub(crate) offset: u64,
    pub(crate) buffer: Buffer,
    pub(crate) len: usize,
    /// Of the server's life in which it was written; `None` if that were two.
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
        kept.retain(|older| !write.covers(older));
        kept.push(write);
        self.count(&kept);
    }

    /// A COMMIT has answered with `verifier`: drops what it confirms, and gives the number of writes that are left. All
    /// of them are to be done again, in order, even those it does confirm: they may lie over ones that were lost.
    pub(crate) fn confirm(&self, verifier: Verifier) -> usize {
        let mut kept = self.kept.borrow_mut();
        let lost = kept
            .iter()
            .position(|write| write.verifier != Some(verifier))
            .unwrap_or(kept.len());
        kept.drain(..lost);
        self.count(&kept);
        kept.len()
    }

    /// Looks at a kept write.
    pub(crate) fn with<T>(&self, index: usize, look: impl FnOnce(&Kept) -> T) -> Option<T> {
        self.kept.borrow().get(index).map(look)
    }

    /// A kept write was done again, in the server's life with this verifier.
    pub(crate) fn rewritten(&self, index: usize, verifier: Option<Verifier>) {
        if let Some(write) = self.kept.borrow_mut().get_mut(index) {
            write.verifier = verifier;
        }
    }

    /// Gives up on everything; how many bytes that were.
    pub(crate) fn clear(&self) -> u64 {
        self.kept.borrow_mut().clear();
        self.bytes.take()
    }

    fn count(&self, kept: &[Kept]) {
        self.bytes
            .set(kept.iter().map(|write| write.len as u64).sum());
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
        assert_eq!(unstable.confirm(FIRST), 0);
        assert!(unstable.is_empty() && unstable.bytes() == 0);
    }

    #[test]
    fn everything_from_the_first_lost_write_on_is_done_again_in_order() {
        let unstable = Unstable::default();
        unstable.keep(write(0, b"abcd", SECOND));
        unstable.keep(write(8, b"lost", FIRST));
        // Lies over the lost one: writing only that again would undo this.
        unstable.keep(write(10, b"newer", SECOND));
        assert_eq!(unstable.confirm(SECOND), 2);
        assert_eq!(offsets(&unstable), [8, 10]);
        unstable.rewritten(0, Some(SECOND));
        unstable.rewritten(1, Some(SECOND));
        assert_eq!(unstable.confirm(SECOND), 0);
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
