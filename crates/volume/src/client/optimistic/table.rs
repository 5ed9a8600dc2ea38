//! Entries by the name of a block, in lists of their use and in one list for each file.
//!
//! All operations are O(1); those that make the index grow are O(1) on average. Entries lie in chunks that never move.
//! A table therefore grows without a copy, and without memory for twice its entries.

use super::slots::{NONE, SlotIndex, spread};

/// Entries of a chunk; a power of two.
const CHUNK_LEN: u32 = 256;
/// The number of a table's lists of use.
const LISTS: usize = 3;
/// Most entries of a table: the number of a slot has four bytes.
pub(super) const ENTRIES_MAX: u32 = NONE - CHUNK_LEN;

/// A block of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct BlockName {
    pub(super) file: u64,
    pub(super) block: u64,
}

/// A value of a table.
pub(super) trait Charged {
    /// The entry's part in the sum of its list. It must not change while the entry is in a table: the sum would be
    /// wrong.
    fn charge(&self) -> u64;
}

/// A list of use: entries from the most to the least recently used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Use {
    /// The first part of the list.
    Recent,
    /// The last part: the entries that a somewhat shorter list would evict.
    Tail,
    /// Entries that are known to be stale.
    Stale,
}

/// An end of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    Front,
    Back,
}

/// The neighbours in a list.
#[derive(Debug, Clone, Copy)]
struct Links {
    before: u32,
    after: u32,
}

const UNLINKED: Links = Links {
    before: NONE,
    after: NONE,
};

pub(super) struct Entry<V> {
    name: BlockName,
    by_use: Links,
    of_file: Links,
    /// Absent in a free entry, whose `by_use.after` is the next free one.
    value: Option<V>,
    list: Use,
}

#[derive(Debug, Clone, Copy)]
struct List {
    front: u32,
    back: u32,
    charge: u64,
}

/// A table of entries by the name of a block, with its lists and indexes.
pub(super) struct Table<V> {
    chunks: Vec<Vec<Entry<V>>>,
    /// Slots that were made, free ones included.
    made: u32,
    free: u32,
    len: u32,
    by_name: SlotIndex,
    /// The first entry of each file.
    by_file: SlotIndex,
    lists: [List; LISTS],
}

impl<V: Charged> Table<V> {
    pub(super) fn new() -> Table<V> {
        let list = List {
            front: NONE,
            back: NONE,
            charge: 0,
        };
        Table {
            chunks: Vec::new(),
            made: 0,
            free: NONE,
            len: 0,
            by_name: SlotIndex::new(),
            by_file: SlotIndex::new(),
            lists: [list; LISTS],
        }
    }

    /// The number of entries.
    pub(super) fn len(&self) -> u32 {
        self.len
    }

    /// Slots in use and free; [`Table::slot_if_taken`] knows no others.
    pub(super) fn slots_made(&self) -> u32 {
        self.made
    }

    /// Bytes that the table occupies, without those that its values point to.
    pub(super) fn memory_len(&self) -> usize {
        let entries = self.chunks.iter().map(Vec::capacity).sum::<usize>() * size_of::<Entry<V>>();
        let chunks = self.chunks.capacity() * size_of::<Vec<Entry<V>>>();
        entries + chunks + self.by_name.memory_len() + self.by_file.memory_len()
    }

    /// The sum of the charges of a list.
    pub(super) fn charge_of(&self, list: Use) -> u64 {
        self.list(list).charge
    }

    /// The sum of all charges.
    pub(super) fn charge(&self) -> u64 {
        self.lists.iter().map(|list| list.charge).sum()
    }

    pub(super) fn find(&self, name: BlockName) -> Option<u32> {
        let is_it = |slot| self.entry(slot).is_some_and(|entry| entry.name == name);
        self.by_name.find(spread(name.file, name.block), is_it)
    }

    pub(super) fn name(&self, slot: u32) -> Option<BlockName> {
        self.entry(slot).map(|entry| entry.name)
    }

    pub(super) fn value(&self, slot: u32) -> Option<&V> {
        self.entry(slot)?.value.as_ref()
    }

    pub(super) fn value_mut(&mut self, slot: u32) -> Option<&mut V> {
        self.entry_mut(slot)?.value.as_mut()
    }

    /// The list of an entry.
    pub(super) fn list_of(&self, slot: u32) -> Option<Use> {
        self.entry(slot).map(|entry| entry.list)
    }

    /// The last entry of a list.
    pub(super) fn back(&self, list: Use) -> Option<u32> {
        Some(self.list(list).back).filter(|slot| *slot != NONE)
    }

    /// The first entry of a list.
    pub(super) fn front(&self, list: Use) -> Option<u32> {
        Some(self.list(list).front).filter(|slot| *slot != NONE)
    }

    /// The entry behind `slot` in its list of use.
    pub(super) fn after(&self, slot: u32) -> Option<u32> {
        let after = self.entry(slot)?.by_use.after;
        Some(after).filter(|slot| *slot != NONE)
    }

    /// `slot`, if it has an entry.
    pub(super) fn slot_if_taken(&self, slot: u32) -> Option<u32> {
        self.value(slot).map(|_| slot)
    }

    /// An entry of a file, if it has any.
    pub(super) fn first_of_file(&self, file: u64) -> Option<u32> {
        let is_it = |slot| self.entry(slot).is_some_and(|it| it.name.file == file);
        self.by_file.find(hash_of_file(file), is_it)
    }

    /// The next entry of the same file, in no meaningful order.
    pub(super) fn next_of_file(&self, slot: u32) -> Option<u32> {
        let after = self.entry(slot)?.of_file.after;
        Some(after).filter(|slot| *slot != NONE)
    }

    /// Adds an entry that is not in the table, as the most recently used one. Returns false if there are no more
    /// slots.
    pub(super) fn insert(&mut self, name: BlockName, value: V) -> bool {
        let Some(slot) = self.take_slot(name, value) else {
            return false;
        };
        self.len += 1;
        let hash = spread(name.file, name.block);
        let chunks = &self.chunks;
        let hash_of = |slot| entry_of(chunks, slot).map_or(0, |it| hash_of_name(it.name));
        self.by_name.insert(hash, slot, hash_of);
        self.join_file(slot, name.file);
        self.link(slot, Use::Recent, End::Front);
        true
    }

    /// Removes an entry.
    pub(super) fn remove(&mut self, slot: u32) -> Option<V> {
        let name = self.name(slot).filter(|_| self.value(slot).is_some())?;
        self.unlink(slot);
        self.leave_file(slot, name.file);
        let chunks = &self.chunks;
        let hash_of = |slot| entry_of(chunks, slot).map_or(0, |it| hash_of_name(it.name));
        self.by_name.remove(hash_of_name(name), slot, hash_of);
        self.len -= 1;
        let free = std::mem::replace(&mut self.free, slot);
        let entry = self.entry_mut(slot)?;
        entry.by_use.after = free;
        entry.value.take()
    }

    /// Moves an entry to an end of a list.
    pub(super) fn move_to(&mut self, slot: u32, list: Use, end: End) {
        if self.value(slot).is_some() {
            self.unlink(slot);
            self.link(slot, list, end);
        }
    }

    /// Moves the border between [`Use::Recent`] and [`Use::Tail`] until the tail's charge is about `charge`.
    pub(super) fn settle_tail(&mut self, charge: u64) {
        while self.charge_of(Use::Tail) < charge {
            match self.back(Use::Recent) {
                Some(slot) => self.move_to(slot, Use::Tail, End::Front),
                None => return,
            }
        }
        while let Some(slot) = self.front(Use::Tail) {
            let own = self.value(slot).map_or(0, V::charge);
            if self.charge_of(Use::Tail) < charge + own {
                return;
            }
            self.move_to(slot, Use::Recent, End::Back);
        }
    }

    fn entry(&self, slot: u32) -> Option<&Entry<V>> {
        entry_of(&self.chunks, slot)
    }

    fn entry_mut(&mut self, slot: u32) -> Option<&mut Entry<V>> {
        let chunk = self.chunks.get_mut((slot / CHUNK_LEN) as usize)?;
        chunk.get_mut((slot % CHUNK_LEN) as usize)
    }

    fn list(&self, list: Use) -> List {
        let [recent, tail, stale] = self.lists;
        match list {
            Use::Recent => recent,
            Use::Tail => tail,
            Use::Stale => stale,
        }
    }

    fn list_mut(&mut self, list: Use) -> &mut List {
        let [recent, tail, stale] = &mut self.lists;
        match list {
            Use::Recent => recent,
            Use::Tail => tail,
            Use::Stale => stale,
        }
    }

    fn take_slot(&mut self, name: BlockName, value: V) -> Option<u32> {
        let entry = Entry {
            name,
            by_use: UNLINKED,
            of_file: UNLINKED,
            value: Some(value),
            list: Use::Recent,
        };
        let slot = self.free;
        if let Some(free) = self.entry_mut(slot) {
            let next = free.by_use.after;
            *free = entry;
            self.free = next;
            return Some(slot);
        }
        if self.made >= ENTRIES_MAX {
            return None;
        }
        let slot = self.made;
        if slot.is_multiple_of(CHUNK_LEN) {
            self.chunks.push(Vec::with_capacity(CHUNK_LEN as usize));
        }
        self.chunks.last_mut()?.push(entry);
        self.made += 1;
        Some(slot)
    }

    fn link(&mut self, slot: u32, list: Use, end: End) {
        let charge = self.value(slot).map_or(0, V::charge);
        let ends = self.list_mut(list);
        let links = match end {
            End::Front => Links {
                before: NONE,
                after: ends.front,
            },
            End::Back => Links {
                before: ends.back,
                after: NONE,
            },
        };
        if links.before == NONE {
            ends.front = slot;
        }
        if links.after == NONE {
            ends.back = slot;
        }
        ends.charge += charge;
        if let Some(before) = self.entry_mut(links.before) {
            before.by_use.after = slot;
        }
        if let Some(after) = self.entry_mut(links.after) {
            after.by_use.before = slot;
        }
        if let Some(entry) = self.entry_mut(slot) {
            entry.by_use = links;
            entry.list = list;
        }
    }

    fn unlink(&mut self, slot: u32) {
        let charge = self.value(slot).map_or(0, V::charge);
        let Some(entry) = self.entry_mut(slot) else {
            return;
        };
        let list = entry.list;
        let links = std::mem::replace(&mut entry.by_use, UNLINKED);
        match self.entry_mut(links.before) {
            Some(before) => before.by_use.after = links.after,
            None => self.list_mut(list).front = links.after,
        }
        match self.entry_mut(links.after) {
            Some(after) => after.by_use.before = links.before,
            None => self.list_mut(list).back = links.before,
        }
        let ends = self.list_mut(list);
        ends.charge -= charge;
    }

    fn join_file(&mut self, slot: u32, file: u64) {
        let first = self.first_of_file(file);
        match first {
            Some(first) => {
                self.by_file.replace(hash_of_file(file), first, slot);
                if let Some(first) = self.entry_mut(first) {
                    first.of_file.before = slot;
                }
            }
            None => {
                let chunks = &self.chunks;
                let hash_of =
                    |slot| entry_of(chunks, slot).map_or(0, |it| hash_of_file(it.name.file));
                self.by_file.insert(hash_of_file(file), slot, hash_of);
            }
        }
        if let Some(entry) = self.entry_mut(slot) {
            entry.of_file = Links {
                before: NONE,
                after: first.unwrap_or(NONE),
            };
        }
    }

    fn leave_file(&mut self, slot: u32, file: u64) {
        let Some(entry) = self.entry_mut(slot) else {
            return;
        };
        let links = std::mem::replace(&mut entry.of_file, UNLINKED);
        if let Some(after) = self.entry_mut(links.after) {
            after.of_file.before = links.before;
        }
        if let Some(before) = self.entry_mut(links.before) {
            before.of_file.after = links.after;
        } else if links.after == NONE {
            let chunks = &self.chunks;
            let hash_of = |slot| entry_of(chunks, slot).map_or(0, |it| hash_of_file(it.name.file));
            self.by_file.remove(hash_of_file(file), slot, hash_of);
        } else {
            self.by_file.replace(hash_of_file(file), slot, links.after);
        }
    }
}

fn hash_of_name(name: BlockName) -> u64 {
    spread(name.file, name.block)
}

fn hash_of_file(file: u64) -> u64 {
    spread(file, 0)
}

fn entry_of<V>(chunks: &[Vec<Entry<V>>], slot: u32) -> Option<&Entry<V>> {
    let chunk = chunks.get((slot / CHUNK_LEN) as usize)?;
    chunk.get((slot % CHUNK_LEN) as usize)
}
