//! A [`MetaStore`] in memory, for simulations and tests: durable for as long as it lives.

use super::{MetaStore, StoreError, Table, Transaction, View};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

type Key = (Table, Vec<u8>);
type Pairs = BTreeMap<Key, Vec<u8>>;

/// A store in memory.
#[derive(Default)]
pub struct MemoryStore {
    pairs: Mutex<Pairs>,
    is_full: AtomicBool,
}

/// So few that tests see what a store with little room sees.
const PAIRS_AT_ONCE: usize = 3;

impl MemoryStore {
    /// Another store with the same pairs.
    #[must_use]
    pub fn copy(&self) -> MemoryStore {
        MemoryStore {
            pairs: Mutex::new(self.pairs().clone()),
            is_full: AtomicBool::default(),
        }
    }

    /// Has it be full, or no more.
    pub fn be_full(&self, is_full: bool) {
        self.is_full.store(is_full, Ordering::Relaxed);
    }

    fn pairs(&self) -> MutexGuard<'_, Pairs> {
        self.pairs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Pairs and what a transaction did to them, so that it can be undone.
struct Changing<'a> {
    pairs: &'a mut Pairs,
    before: Vec<(Key, Option<Vec<u8>>)>,
}

impl View for Pairs {
    fn get(&self, table: Table, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        Ok(BTreeMap::get(self, &(table, key.to_vec())).cloned())
    }

    fn scan(
        &self,
        table: Table,
        from: &[u8],
        each: &mut dyn FnMut(&[u8], &[u8]) -> bool,
    ) -> Result<(), StoreError> {
        for ((at, key), value) in self.range((table, from.to_vec())..) {
            if *at != table || !each(key, value) {
                break;
            }
        }
        Ok(())
    }
}

impl View for Changing<'_> {
    fn get(&self, table: Table, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        View::get(self.pairs, table, key)
    }

    fn scan(
        &self,
        table: Table,
        from: &[u8],
        each: &mut dyn FnMut(&[u8], &[u8]) -> bool,
    ) -> Result<(), StoreError> {
        self.pairs.scan(table, from, each)
    }
}

impl Transaction for Changing<'_> {
    fn put(&mut self, table: Table, key: &[u8], value: &[u8]) -> Result<(), StoreError> {
        let key = (table, key.to_vec());
        let before = self.pairs.insert(key.clone(), value.to_vec());
        self.before.push((key, before));
        Ok(())
    }

    fn delete(&mut self, table: Table, key: &[u8]) -> Result<(), StoreError> {
        let key = (table, key.to_vec());
        let before = self.pairs.remove(&key);
        self.before.push((key, before));
        Ok(())
    }
}

impl MetaStore for MemoryStore {
    fn read(&self, look: &mut dyn FnMut(&dyn View)) -> Result<(), StoreError> {
        look(&*self.pairs());
        Ok(())
    }

    fn commit(
        &self,
        work: &mut dyn FnMut(&mut dyn Transaction) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let mut pairs = self.pairs();
        let mut changing = Changing {
            pairs: &mut pairs,
            before: Vec::new(),
        };
        let done = work(&mut changing);
        if done.is_err() {
            let Changing { pairs, before } = changing;
            for (key, value) in before.into_iter().rev() {
                match value {
                    Some(value) => pairs.insert(key, value),
                    None => pairs.remove(&key),
                };
            }
        }
        done
    }

    fn has_room(&self) -> bool {
        !self.is_full.load(Ordering::Relaxed)
    }

    fn pairs_at_once(&self) -> usize {
        PAIRS_AT_ONCE
    }
}
