//! Unpredictable numbers of a core.

use std::cell::{Cell, RefCell};
use std::io;

/// Numbers of one system call: a page of them. An RDMA client takes two for each short operation.
const FETCHED: usize = 512;

/// Numbers of the system's generator, fetched several at a time: a key and a base for every registration would
/// otherwise be two system calls. A number that was returned is erased, so that a memory dump shows no key.
pub(super) struct Random {
    fetched: RefCell<Box<[[u8; size_of::<u64>()]]>>,
    /// The number of them that no caller has had. They are at the front.
    left: Cell<usize>,
    mixed: Cell<u64>,
}

impl Random {
    /// # Errors
    /// The system has no randomness.
    pub(super) fn new() -> io::Result<Random> {
        let seed = getrandom::u64().map_err(|error| io::Error::other(error.to_string()))?;
        Ok(Random {
            fetched: RefCell::new(vec![[0; size_of::<u64>()]; FETCHED].into()),
            left: Cell::new(0),
            mixed: Cell::new(seed),
        })
    }

    pub(super) fn next(&self) -> u64 {
        let mut fetched = self.fetched.borrow_mut();
        if self.left.get() == 0 && getrandom::fill(fetched.as_flattened_mut()).is_ok() {
            self.left.set(FETCHED);
        }
        let last = self.left.get().checked_sub(1);
        let taken = last.and_then(|last| {
            self.left.set(last);
            fetched.get_mut(last).map(std::mem::take)
        });
        if let Some(bytes) = taken {
            let value = u64::from_ne_bytes(bytes);
            self.mixed.set(self.mixed.get() ^ value.rotate_left(32));
            return value;
        }
        // The source worked when the runtime started; mixing its output keeps values distinct.
        let next = split_mix(self.mixed.get());
        self.mixed.set(next);
        next
    }
}

/// One step of the SplitMix64 generator.
fn split_mix(state: u64) -> u64 {
    let mut value = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn no_number_comes_twice_and_none_is_kept() {
        let random = Random::new().unwrap();
        let found: HashSet<u64> = (0..3 * FETCHED).map(|_| random.next()).collect();
        assert_eq!(found.len(), 3 * FETCHED);
        assert!(!found.contains(&0) && random.left.get() == 0);
        let is_erased = |bytes: &[u8; 8]| *bytes == [0; 8];
        assert!(random.fetched.borrow().iter().all(is_erased));
        random.next();
        assert_eq!(random.left.get(), FETCHED - 1);
        let left = random.fetched.borrow();
        assert_eq!(left.iter().filter(|bytes| is_erased(bytes)).count(), 1);
    }
}
