//! A bounded map shared by all cores: least recently used entries leave by the clock algorithm.

use std::borrow::Borrow;
use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher, Hash};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Parts with a lock each, so that two cores seldom meet. A power of two.
pub(crate) const PARTS: usize = 32;

/// Takes a lock, also after a panic of another holder: all state under these locks is valid after every step.
pub(crate) fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A map of at most `entries_max` entries.
pub(crate) struct ClockMap<K, V, S> {
    hasher: S,
    shards: Vec<Mutex<Shard<K, V, S>>>,
    shard_entries_max: usize,
}

struct Shard<K, V, S> {
    map: HashMap<K, Slot<V>, S>,
    /// Candidates for eviction, oldest first; those whose ticket is not the slot's are leftovers.
    ring: VecDeque<(K, u64)>,
    tickets: u64,
}

struct Slot<V> {
    value: V,
    used: bool,
    ticket: u64,
}

impl<K: Hash + Eq + Clone, V: Clone, S: BuildHasher + Clone> ClockMap<K, V, S> {
    /// An empty map.
    pub(crate) fn new(entries_max: usize, hasher: S) -> ClockMap<K, V, S> {
        let shards = (0..PARTS).map(|_| {
            Mutex::new(Shard {
                map: HashMap::with_hasher(hasher.clone()),
                ring: VecDeque::new(),
                tickets: 0,
            })
        });
        ClockMap {
            shards: shards.collect(),
            hasher,
            shard_entries_max: entries_max.div_ceil(PARTS).max(1),
        }
    }

    fn shard<Q: Hash + ?Sized>(&self, key: &Q) -> MutexGuard<'_, Shard<K, V, S>> {
        // The map itself uses the low and the highest bits.
        let index = (self.hasher.hash_one(key) >> 40) as usize % PARTS;
        lock(&self.shards[index])
    }

    /// The value of `key`, which now counts as used.
    pub(crate) fn get<Q>(&self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        let mut shard = self.shard(key);
        let slot = shard.map.get_mut(key)?;
        slot.used = true;
        Some(slot.value.clone())
    }

    /// Sets a value; gives the one it replaces and those that had to leave, for the caller to drop.
    pub(crate) fn insert(&self, key: K, value: V) -> Vec<V> {
        let mut shard = self.shard(&key);
        let mut out = Vec::new();
        if let Some(slot) = shard.map.get_mut(&key) {
            slot.used = true;
            out.push(std::mem::replace(&mut slot.value, value));
            return out;
        }
        shard.insert_new(key, value);
        while shard.map.len() > self.shard_entries_max {
            out.extend(shard.evict());
        }
        out
    }

    /// The present value of `key`, or `value` after inserting it; with the values that were evicted for it.
    pub(crate) fn get_or_insert(&self, key: K, value: V) -> (V, Vec<V>) {
        let mut shard = self.shard(&key);
        if let Some(slot) = shard.map.get_mut(&key) {
            slot.used = true;
            return (slot.value.clone(), vec![value]);
        }
        shard.insert_new(key, value.clone());
        let mut out = Vec::new();
        while shard.map.len() > self.shard_entries_max {
            out.extend(shard.evict());
        }
        (value, out)
    }

    /// Removes a key.
    pub(crate) fn remove<Q>(&self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        Some(self.shard(key).map.remove(key)?.value)
    }

    /// Makes the least recently used entry of some shard leave; `turn` picks the shard.
    pub(crate) fn evict_one(&self, turn: usize) -> Option<V> {
        (0..PARTS).find_map(|step| lock(&self.shards[(turn + step) % PARTS]).evict())
    }

    /// The values of one of the [`PARTS`] of the map. For sweeps.
    pub(crate) fn part(&self, part: usize) -> Vec<V> {
        let shard = lock(&self.shards[part % PARTS]);
        shard.map.values().map(|slot| slot.value.clone()).collect()
    }

    /// Entries.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.shards.iter().map(|shard| lock(shard).map.len()).sum()
    }
}

impl<K: Hash + Eq + Clone, V, S: BuildHasher> Shard<K, V, S> {
    fn insert_new(&mut self, key: K, value: V) {
        self.tickets += 1;
        let ticket = self.tickets;
        self.ring.push_back((key.clone(), ticket));
        // A second use earns the stay: passing through everything once does not drive out what is in use.
        let slot = Slot {
            value,
            used: false,
            ticket,
        };
        self.map.insert(key, slot);
        // Removals leave their place in the ring behind.
        if self.ring.len() > 2 * self.map.len() + 16 {
            let map = &self.map;
            self.ring
                .retain(|(key, ticket)| map.get(key).is_some_and(|slot| slot.ticket == *ticket));
        }
    }

    fn evict(&mut self) -> Option<V> {
        while let Some((key, ticket)) = self.ring.pop_front() {
            match self.map.get_mut(&key) {
                Some(slot) if slot.ticket == ticket && slot.used => {
                    slot.used = false;
                    self.ring.push_back((key, ticket));
                }
                Some(slot) if slot.ticket == ticket => {
                    return self.map.remove(&key).map(|slot| slot.value);
                }
                _ => {}
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::hash::RandomState;

    #[test]
    fn stays_within_its_bound_and_keeps_what_is_used() {
        let map = ClockMap::new(32 * PARTS, RandomState::new());
        map.insert(0, 0);
        for key in 1..20_000 {
            map.insert(key, key);
            assert_eq!(map.get(&0), Some(0), "used between any two insertions");
        }
        assert!(map.len() <= 32 * PARTS);
    }

    #[test]
    fn removals_leave_nothing_behind() {
        let map = ClockMap::new(1000, RandomState::new());
        for round in 0..10_000 {
            map.insert(1, round);
            assert_eq!(map.remove(&1), Some(round));
        }
        let left: usize = map.shards.iter().map(|shard| lock(shard).ring.len()).sum();
        assert!(left <= 16 + 2, "{left} leftovers");
    }
}
