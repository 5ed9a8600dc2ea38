//! Seeded randomness: SplitMix64, one stream per use, so that a draw more in one place shifts nothing elsewhere.

use std::cell::Cell;

/// A stream of numbers that depends on its seed alone.
#[derive(Debug)]
pub struct Random {
    state: Cell<u64>,
}

impl Random {
    /// The stream of `seed`.
    pub fn new(seed: u64) -> Random {
        Random {
            state: Cell::new(seed),
        }
    }

    /// A stream of its own, named by `label`: equal seeds and labels give equal streams.
    pub fn fork(&self, label: &str) -> Random {
        let mut seed = self.state.get() ^ 0xcbf2_9ce4_8422_2325;
        for byte in label.bytes() {
            seed = (seed ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
        let fork = Random::new(seed);
        fork.next();
        fork
    }

    /// The next sixty-four bits.
    pub fn next(&self) -> u64 {
        let state = self.state.get().wrapping_add(0x9e37_79b9_7f4a_7c15);
        self.state.set(state);
        let mut value = state;
        value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        value ^ (value >> 31)
    }

    /// A number below `bound`; 0 when there is none.
    pub fn below(&self, bound: u64) -> u64 {
        let wide = u128::from(self.next()) * u128::from(bound);
        u64::try_from(wide >> 64).expect("the upper half of a 128-bit product fits 64 bits")
    }

    /// An index of a list of `len`; 0 when it is empty.
    pub fn index(&self, len: usize) -> usize {
        usize::try_from(self.below(len as u64)).unwrap_or(0)
    }

    /// A number from `low` to `high`, both included.
    pub fn between(&self, low: u64, high: u64) -> u64 {
        low + self.below(high.saturating_sub(low).saturating_add(1))
    }

    /// True `per_mille` times in a thousand.
    pub fn chance(&self, per_mille: u64) -> bool {
        self.below(1000) < per_mille
    }

    /// `len` random bytes, from one draw per eight.
    pub fn bytes(&self, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        for chunk in bytes.chunks_mut(8) {
            let value = self.next().to_le_bytes();
            chunk.copy_from_slice(&value[..chunk.len()]);
        }
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_seeds_and_labels_give_equal_streams() {
        let draw = |label: &str| Random::new(7).fork(label).bytes(20);
        assert_eq!(draw("disk"), draw("disk"));
        assert_ne!(draw("disk"), draw("link"));
    }

    #[test]
    fn draws_stay_below_their_bound_and_reach_all_of_it() {
        let random = Random::new(1);
        let mut seen = [false; 5];
        for _ in 0..200 {
            seen[random.index(5)] = true;
        }
        assert_eq!(seen, [true; 5]);
        assert_eq!(random.below(0), 0);
        assert!((0..100).all(|_| (3..=4).contains(&random.between(3, 4))));
    }
}
