//! Unpredictable numbers of a core.

use std::cell::{Cell, RefCell};
use std::io;

/// Numbers of one system call: a page of them. An RDMA client takes two for each short operation.
const FETCHED: usize = 512;

/// Numbers of the system's generator, fetched several at a time: a key and a base for every registration would
/// otherwise be two system calls. A number that was returned is erased, so that a memory dump shows no key.
pub(super) struct Random {
    fetched: RefCell<Vec<u64>>,
    mixed: Cell<u64>,
}

impl Random {
    /// # Errors
    /// The system has no randomness.
    pub(super) fn new() -> io::Result<Random> {
        let seed = getrandom::u64().map_err(|error| io::Error::other(error.to_string()))?;
        Ok(Random {
            fetched: RefCell::new(Vec::with_capacity(FETCHED)),
            mixed: Cell::new(seed),
        })
    }

    pub(super) fn next(&self) -> u64 {
        let mut fetched = self.fetched.borrow_mut();
        if fetched.is_empty() {
            fetch(&mut fetched);
        }
        let taken = fetched.last_mut().map(std::mem::take);
        fetched.pop();
        if let Some(value) = taken {
            self.mixed.set(self.mixed.get() ^ value.rotate_left(32));
            return value;
        }
        // The source worked when the runtime started; mixing its output keeps values distinct.
        let next = split_mix(self.mixed.get());
        self.mixed.set(next);
        next
    }
}

/// Fills `numbers` unless the system has none.
fn fetch(numbers: &mut Vec<u64>) {
    let mut bytes = [0; FETCHED * size_of::<u64>()];
    if getrandom::fill(&mut bytes).is_ok() {
        let (words, _) = bytes.as_chunks();
        numbers.extend(words.iter().map(|word| u64::from_ne_bytes(*word)));
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
        assert!(!found.contains(&0) && random.fetched.borrow().is_empty());
        random.next();
        let left = random.fetched.borrow();
        assert_eq!((left.len(), left.capacity()), (FETCHED - 1, FETCHED));
    }
}
