//! What was changed since the store below was told: newer values before older ones, and gaps where keys were removed.

use crate::{StoreError, Table, View};
use std::collections::BTreeMap;
use std::collections::btree_map::Range;
use std::iter::Peekable;
use std::ops::Bound;

type Pairs = BTreeMap<Vec<u8>, Option<Vec<u8>>>;
type Rest<'a> = Peekable<Range<'a, Vec<u8>, Option<Vec<u8>>>>;

/// The last value of each key that was changed; `None`: it is gone.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct Changes {
    tables: [Pairs; Table::ALL.len()],
}

/// The change of one key.
#[derive(Clone, Copy)]
pub(super) struct ChangedPair<'a> {
    pub(super) table: Table,
    pub(super) key: &'a [u8],
    /// The last value; `None` if the key was removed.
    pub(super) value: Option<&'a [u8]>,
}

impl Changes {
    fn pairs(&self, table: Table) -> &Pairs {
        &self.tables[table as usize]
    }

    pub(super) fn set(&mut self, table: Table, key: Vec<u8>, value: Option<Vec<u8>>) {
        self.tables[table as usize].insert(key, value);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.tables.iter().all(BTreeMap::is_empty)
    }

    /// All of them, in the order of tables and keys.
    pub(super) fn iter(&self) -> impl Iterator<Item = ChangedPair<'_>> {
        Table::ALL.into_iter().flat_map(|table| {
            let pairs = self.pairs(table).iter();
            pairs.map(move |(key, value)| ChangedPair {
                table,
                key,
                value: value.as_deref(),
            })
        })
    }

    /// Adds those that came after.
    pub(super) fn absorb(&mut self, later: Changes) {
        for (pairs, later) in self.tables.iter_mut().zip(later.tables) {
            // `append` would build the larger of the two anew.
            pairs.extend(later);
        }
    }
}

/// A view with changes over it, the newest first.
pub(super) struct Layered<'a, const N: usize> {
    pub(super) layers: [&'a Changes; N],
    pub(super) base: &'a dyn View,
}

impl<const N: usize> View for Layered<'_, N> {
    fn get(&self, table: Table, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        let changed = (self.layers.iter()).find_map(|layer| layer.pairs(table).get(key));
        match changed {
            Some(value) => Ok(value.clone()),
            None => self.base.get(table, key),
        }
    }

    fn scan(
        &self,
        table: Table,
        from: &[u8],
        each: &mut dyn FnMut(&[u8], &[u8]) -> bool,
    ) -> Result<(), StoreError> {
        let mut changed = Merged::new(self.layers, table, from);
        let mut wants_more = true;
        self.base.scan(table, from, &mut |key, value| {
            while wants_more && let Some((before, value)) = changed.next_if(|next| next < key) {
                wants_more = value.is_none_or(|value| each(before, value));
            }
            if wants_more {
                wants_more = match changed.next_if(|next| next == key) {
                    Some((_, value)) => value.is_none_or(|value| each(key, value)),
                    None => each(key, value),
                };
            }
            wants_more
        })?;
        while wants_more && let Some((key, value)) = changed.next_if(|_| true) {
            wants_more = value.is_none_or(|value| each(key, value));
        }
        Ok(())
    }
}

/// The pairs of several layers in the order of their keys; the first layer that has a key says what it is.
struct Merged<'a, const N: usize> {
    layers: [Rest<'a>; N],
}

impl<'a, const N: usize> Merged<'a, N> {
    fn new(layers: [&'a Changes; N], table: Table, from: &[u8]) -> Merged<'a, N> {
        let range = (Bound::Included(from), Bound::Unbounded);
        Merged {
            layers: layers.map(|layer| layer.pairs(table).range::<[u8], _>(range).peekable()),
        }
    }

    /// Takes the next pair, if `wanted` says so of its key.
    fn next_if(
        &mut self,
        wanted: impl FnOnce(&[u8]) -> bool,
    ) -> Option<(&'a [u8], Option<&'a [u8]>)> {
        let next = (self.layers.iter_mut()).filter_map(|layer| layer.peek().map(|pair| pair.0));
        let key = next.min()?;
        if !wanted(key) {
            return None;
        }
        let mut found = None;
        for layer in &mut self.layers {
            let pair = layer.next_if(|pair| pair.0 == key);
            found = found.or(pair);
        }
        found.map(|(key, value)| (&key[..], value.as_deref()))
    }
}
