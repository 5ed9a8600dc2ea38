//! A hash index from names to slots of a [`super::table::Table`]: open addressing, four bytes for a place.
//!
//! The names lie in the table, and the index asks for their hashes. Its order of places never shows to a caller.

/// The number of no slot.
pub(super) const NONE: u32 = u32::MAX;
/// Places of the smallest index that is not empty.
const PLACES_MIN: usize = 16;
/// At most this share of the places is taken, so that a search ends soon.
const LOAD: (usize, usize) = (7, 8);

/// The hash index of a table.
pub(super) struct SlotIndex {
    /// Slots or [`NONE`]; the length is 0 or a power of two.
    places: Vec<u32>,
    taken: usize,
}

/// Spreads the bits of two numbers (the finalizer of SplitMix64, twice). Callers choose both numbers; collisions that
/// they seek slow down their own client alone.
pub(super) fn spread(one: u64, other: u64) -> u64 {
    let mix = |value: u64| {
        let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        value ^ (value >> 31)
    };
    mix(mix(one.wrapping_add(0x9e37_79b9_7f4a_7c15)).wrapping_add(other))
}

impl SlotIndex {
    pub(super) fn new() -> SlotIndex {
        SlotIndex {
            places: Vec::new(),
            taken: 0,
        }
    }

    /// Bytes that the index occupies.
    pub(super) fn memory_len(&self) -> usize {
        self.places.capacity() * size_of::<u32>()
    }

    /// The slot with this hash for which `is_it` is true.
    pub(super) fn find(&self, hash: u64, is_it: impl Fn(u32) -> bool) -> Option<u32> {
        let place = self.place_of(hash, is_it)?;
        self.places.get(place).copied()
    }

    /// Adds a slot that is not in the index; `hash_of` gives the hashes of the slots in it.
    pub(super) fn insert(&mut self, hash: u64, slot: u32, hash_of: impl Fn(u32) -> u64) {
        if (self.taken + 1) * LOAD.1 > self.places.len() * LOAD.0 {
            self.grow(hash_of);
        }
        self.put(hash, slot);
        self.taken += 1;
    }

    /// Replaces slot `old` by `new`; both have this hash.
    pub(super) fn replace(&mut self, hash: u64, old: u32, new: u32) {
        let place = self.place_of(hash, |slot| slot == old);
        if let Some(place) = place.and_then(|place| self.places.get_mut(place)) {
            *place = new;
        }
    }

    /// Removes a slot.
    pub(super) fn remove(&mut self, hash: u64, slot: u32, hash_of: impl Fn(u32) -> u64) {
        let Some(mut hole) = self.place_of(hash, |it| it == slot) else {
            return;
        };
        self.taken -= 1;
        // The slots behind the hole move back over it as far as their hashes allow. Otherwise a search would end at
        // the hole and miss them.
        let mut place = hole;
        loop {
            place = self.next(place);
            let moved = self.at(place);
            if moved == NONE {
                break;
            }
            let home = self.home(hash_of(moved));
            let reach = |from: usize| place.wrapping_sub(from) & self.mask();
            if reach(home) >= reach(hole) {
                self.set(hole, moved);
                hole = place;
            }
        }
        self.set(hole, NONE);
    }

    fn place_of(&self, hash: u64, is_it: impl Fn(u32) -> bool) -> Option<usize> {
        if self.places.is_empty() {
            return None;
        }
        let mut place = self.home(hash);
        loop {
            match self.at(place) {
                NONE => return None,
                slot if is_it(slot) => return Some(place),
                _ => place = self.next(place),
            }
        }
    }

    fn grow(&mut self, hash_of: impl Fn(u32) -> u64) {
        let len = (self.places.len() * 2).max(PLACES_MIN);
        let old = std::mem::replace(&mut self.places, vec![NONE; len]);
        for slot in old.into_iter().filter(|slot| *slot != NONE) {
            self.put(hash_of(slot), slot);
        }
    }

    /// Puts a slot at a free place, of which [`LOAD`] leaves some.
    fn put(&mut self, hash: u64, slot: u32) {
        let mut place = self.home(hash);
        while self.at(place) != NONE {
            place = self.next(place);
        }
        self.set(place, slot);
    }

    fn mask(&self) -> usize {
        self.places.len().wrapping_sub(1)
    }

    #[allow(clippy::cast_possible_truncation)] // the low bits are what is wanted
    fn home(&self, hash: u64) -> usize {
        hash as usize & self.mask()
    }

    fn next(&self, place: usize) -> usize {
        (place + 1) & self.mask()
    }

    fn at(&self, place: usize) -> u32 {
        self.places.get(place).copied().unwrap_or(NONE)
    }

    fn set(&mut self, place: usize, slot: u32) {
        if let Some(place) = self.places.get_mut(place) {
            *place = slot;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        /// Few hashes, so that chains collide and wrap around.
        #[test]
        fn it_finds_what_is_there(
            steps in prop::collection::vec((0..60u32, any::<bool>()), 1..200),
        ) {
            let hash_of = |slot: u32| u64::from(slot % 7) * 5;
            let (mut index, mut model) = (SlotIndex::new(), BTreeSet::new());
            for (slot, add) in steps {
                if add && model.insert(slot) {
                    index.insert(hash_of(slot), slot, hash_of);
                } else if !add && model.remove(&slot) {
                    index.remove(hash_of(slot), slot, hash_of);
                }
                for slot in 0..60 {
                    let found = index.find(hash_of(slot), |it| it == slot);
                    prop_assert_eq!(found.is_some(), model.contains(&slot));
                }
            }
        }
    }

    #[test]
    fn a_slot_takes_another_ones_place() {
        let mut index = SlotIndex::new();
        index.insert(3, 1, |_| 3);
        index.replace(3, 1, 2);
        assert_eq!(index.find(3, |it| it == 2), Some(2));
        assert_eq!(index.find(3, |it| it == 1), None);
    }
}
