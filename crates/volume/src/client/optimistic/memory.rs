//! Blocks of files and references to blocks in servers' memory, under one budget of bytes.

use super::balance::{Balance, Balancer, Sides};
use super::slots::spread;
use super::table::{BlockName, Charged, ENTRIES_MAX, End, Table, Use};
use gannet_runtime::Instant;
use std::ops::{Add, Range};
use std::time::Duration;

#[cfg(test)]
mod model;
#[cfg(test)]
mod tests;

/// The default length of a block in bytes.
const BLOCK_LEN: u32 = 4096;
/// Most bytes that an entry takes with its share of the indexes; a test measures it.
const ENTRY_COST: u32 = 64;
/// Counters of changed files. Several files may share one: a write to one file then keeps a block of another out once.
const CHANGE_COUNTERS: usize = 256;
/// Random slots to try for an eviction before the oldest entry is taken.
const RANDOM_TRIES: u32 = 32;

/// The block number under which a file's attributes can be kept, as data and as a reference.
pub const ATTRIBUTE_BLOCK: u64 = u64::MAX - 1;

/// The order in which references are evicted. Data are evicted in the order of their last use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReplacementOrder {
    /// The least recently used one. Only uses that reach the server count, not hits in the client's own cache, so that
    /// the order is that of the server's pages.
    LeastRecentlyUsed,
    /// The oldest one that was not used since it was last passed over.
    SecondChance,
    /// A random one.
    Random {
        /// The start of the sequence of choices.
        seed: u64,
    },
}

/// The size of a client's memory, and its use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClientMemoryOptions {
    /// Bytes for all entries, of data and of references.
    pub budget: u64,
    /// Bytes of a block.
    pub block_len: u32,
    /// Bytes that an entry is charged: all that a reference is charged, and an addition to the length of data. An
    /// entry takes at most 64 bytes; other values serve studies.
    pub entry_cost: u32,
    /// The order in which references are evicted.
    pub order: ReplacementOrder,
    /// Whether references known to be stale are evicted before all others.
    pub stale_first: bool,
    /// The division of the budget between references and data.
    pub balance: Balance,
}

impl ClientMemoryOptions {
    /// The default options for `budget` bytes.
    pub fn new(budget: u64) -> ClientMemoryOptions {
        ClientMemoryOptions {
            budget,
            block_len: BLOCK_LEN,
            entry_cost: ENTRY_COST,
            order: ReplacementOrder::LeastRecentlyUsed,
            stale_first: true,
            balance: Balance::default(),
        }
    }
}

/// A block that a server is believed to have in its memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RemoteReference {
    /// The index of the server in the volume.
    pub server: u16,
    /// The reference was added ahead of any use, and is not used yet.
    pub prefetched: bool,
}

/// The result of a lookup.
#[derive(Debug, PartialEq, Eq)]
pub enum BlockLookup<'a, D> {
    /// The block's bytes.
    Data {
        /// The bytes as passed to [`ClientMemory::insert_data`].
        data: &'a D,
        /// The begin of the read that brought the bytes: they include every write acknowledged before.
        read_at: Instant,
    },
    /// A reference and no bytes.
    Reference(RemoteReference),
    /// Neither bytes nor a valid reference.
    Missing,
}

/// The begin of a read, which [`ClientMemory::insert_data`] compares with changes of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReadStart {
    file: u64,
    at: Instant,
    changes: u64,
}

/// Counters of a [`ClientMemory`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ClientMemoryCounters {
    /// Lookups that found data (the paper's cache hits).
    pub cache_hits: u64,
    /// Lookups that found a reference and no data; see [`ClientMemoryCounters::directory_hits`].
    pub references_found: u64,
    /// References that a server refused (the paper's stale directory hits).
    pub stale_hits: u64,
    /// Lookups that found neither.
    pub misses: u64,
    /// Data that a lookup dropped because they were too old.
    pub expired: u64,
    /// Blocks that were evicted to make room.
    pub data_evictions: u64,
    /// References that were evicted to make room, stale ones included.
    pub reference_evictions: u64,
    /// Evicted references that were known to be stale.
    pub stale_evictions: u64,
    /// References that a server withdrew before a use found them stale ([`ClientMemory::note_invalidated`]).
    pub invalidations: u64,
    /// References that were added ahead of any use.
    pub prefetched: u64,
    /// Prefetched references that a lookup found.
    pub prefetched_used: u64,
    /// Bytes that data are charged at present.
    pub data_bytes: u64,
    /// Bytes that references are charged at present.
    pub reference_bytes: u64,
}

impl ClientMemoryCounters {
    /// References that were found and not refused (the paper's directory hits). Reads under way count as hits.
    pub fn directory_hits(&self) -> u64 {
        self.references_found.saturating_sub(self.stale_hits)
    }
}

impl Add for ClientMemoryCounters {
    type Output = ClientMemoryCounters;

    fn add(self, other: ClientMemoryCounters) -> ClientMemoryCounters {
        ClientMemoryCounters {
            cache_hits: self.cache_hits + other.cache_hits,
            references_found: self.references_found + other.references_found,
            stale_hits: self.stale_hits + other.stale_hits,
            misses: self.misses + other.misses,
            expired: self.expired + other.expired,
            data_evictions: self.data_evictions + other.data_evictions,
            reference_evictions: self.reference_evictions + other.reference_evictions,
            stale_evictions: self.stale_evictions + other.stale_evictions,
            invalidations: self.invalidations + other.invalidations,
            prefetched: self.prefetched + other.prefetched,
            prefetched_used: self.prefetched_used + other.prefetched_used,
            data_bytes: self.data_bytes + other.data_bytes,
            reference_bytes: self.reference_bytes + other.reference_bytes,
        }
    }
}

/// A block's bytes.
struct Held<D> {
    data: D,
    read_at: Instant,
    charge: u32,
}

impl<D> Charged for Held<D> {
    fn charge(&self) -> u64 {
        u64::from(self.charge)
    }
}

/// A reference. Its charge is 1, so that its table counts entries.
struct Known {
    server: u16,
    is_stale: bool,
    is_prefetched: bool,
    /// Used since it was last passed over.
    is_used: bool,
    /// The last lookup found the reference in the tail of its list.
    hit_in_tail: bool,
}

impl Charged for Known {
    fn charge(&self) -> u64 {
        1
    }
}

/// A client's memory for the files of its volume: a cache of data and a directory of references.
///
/// A block is named by its file and its number. Its data and its reference are two separate entries: the eviction of
/// data leaves the reference. `D` is the owner's form of a block's data, which is charged with the length that the
/// owner passes.
///
/// The owner looks a block up, reads it by the result, and reports the outcome:
///
/// - [`ClientMemory::insert_data`] and [`ClientMemory::note_reference`] after a success;
/// - [`ClientMemory::note_stale`] after a refusal.
pub struct ClientMemory<D> {
    options: ClientMemoryOptions,
    data: Table<Held<D>>,
    references: Table<Known>,
    balancer: Balancer,
    random: u64,
    changes: [u64; CHANGE_COUNTERS],
    counters: ClientMemoryCounters,
}

impl<D> ClientMemory<D> {
    /// An empty memory.
    pub fn new(options: ClientMemoryOptions) -> ClientMemory<D> {
        let options = ClientMemoryOptions {
            block_len: options.block_len.max(1),
            entry_cost: options.entry_cost.max(1),
            ..options
        };
        let random = match options.order {
            ReplacementOrder::Random { seed } => seed,
            _ => 0,
        };
        ClientMemory {
            options,
            data: Table::new(),
            references: Table::new(),
            balancer: Balancer::new(options.budget, options.balance),
            random,
            changes: [0; CHANGE_COUNTERS],
            counters: ClientMemoryCounters::default(),
        }
    }

    /// Bytes of a block.
    pub fn block_len(&self) -> u32 {
        self.options.block_len
    }

    /// The counters, with the bytes that are charged at present.
    pub fn counters(&self) -> ClientMemoryCounters {
        ClientMemoryCounters {
            data_bytes: self.data.charge(),
            reference_bytes: self.reference_bytes(),
            ..self.counters
        }
    }

    /// Blocks with data.
    pub fn data_len(&self) -> u32 {
        self.data.len()
    }

    /// Blocks with a reference, stale ones included.
    pub fn references_len(&self) -> u32 {
        self.references.len()
    }

    /// Bytes of references beyond which references are evicted before data.
    pub fn directory_limit(&self) -> u64 {
        self.balancer.directory()
    }

    /// Bytes that the directory occupies.
    pub fn directory_memory_len(&self) -> usize {
        self.references.memory_len()
    }

    /// Sets the present durations of a call and of an optimistic read, which weigh data against references.
    pub fn set_costs(&mut self, call: Duration, optimistic: Duration) {
        self.balancer.set_costs(call, optimistic);
    }

    /// Looks a block up, which counts as a use.
    pub fn lookup(&mut self, file: u64, block: u64) -> BlockLookup<'_, D> {
        self.lookup_since(file, block, Instant::START)
    }

    /// As [`ClientMemory::lookup`], but drops data of a read that began before `oldest`.
    pub fn lookup_since(&mut self, file: u64, block: u64, oldest: Instant) -> BlockLookup<'_, D> {
        let cost = u64::from(self.options.entry_cost);
        self.balancer.looked_up(Sides {
            references: self.reference_bytes(),
            references_of_data: u64::from(self.data.len()) * cost,
            data_tail: self.data.charge_of(Use::Tail),
            reference_tail: self.references.charge_of(Use::Tail) * cost,
        });
        let name = BlockName { file, block };
        let held = self.data.find(name);
        let is_old = |slot: &u32| self.data.value(*slot).is_some_and(|it| it.read_at < oldest);
        if let Some(slot) = held.filter(is_old) {
            self.data.remove(slot);
            self.counters.expired += 1;
        } else if let Some(slot) = held {
            self.counters.cache_hits += 1;
            if self.data.list_of(slot) == Some(Use::Tail) {
                self.balancer.hit_data_tail();
            }
            self.data.move_to(slot, Use::Recent, End::Front);
            self.settle_data();
            return match self.data.value(slot) {
                Some(held) => BlockLookup::Data {
                    data: &held.data,
                    read_at: held.read_at,
                },
                None => BlockLookup::Missing,
            };
        }
        match self.use_reference(name) {
            Some(reference) => {
                self.counters.references_found += 1;
                BlockLookup::Reference(reference)
            }
            None => {
                self.counters.misses += 1;
                BlockLookup::Missing
            }
        }
    }

    /// The valid reference of a block, without a use.
    pub fn reference(&self, file: u64, block: u64) -> Option<RemoteReference> {
        let slot = self.references.find(BlockName { file, block })?;
        let known = self.references.value(slot).filter(|it| !it.is_stale)?;
        Some(RemoteReference {
            server: known.server,
            prefetched: known.is_prefetched,
        })
    }

    /// Whether the last reference to a block was refused and no other one has come since.
    pub fn is_stale(&self, file: u64, block: u64) -> bool {
        let slot = self.references.find(BlockName { file, block });
        let known = slot.and_then(|slot| self.references.value(slot));
        known.is_some_and(|known| known.is_stale)
    }

    /// The start of a read whose bytes may be kept; to be taken before the read is sent.
    pub fn read_starts(&self, file: u64, now: Instant) -> ReadStart {
        ReadStart {
            file,
            at: now,
            changes: self.changes.get(counter_of(file)).copied().unwrap_or(0),
        }
    }

    /// Keeps the `len` bytes of a block. Returns false if they are not kept:
    ///
    /// - the file was changed or forgotten since the read began;
    /// - a later read's bytes are there;
    /// - they do not fit.
    pub fn insert_data(&mut self, read: ReadStart, block: u64, data: D, len: u32) -> bool {
        let ReadStart { file, at, changes } = read;
        // Bytes from before a change would hide it from later reads.
        if self.read_starts(file, at).changes != changes {
            return false;
        }
        let name = BlockName { file, block };
        if let Some(slot) = self.data.find(name) {
            if self.data.value(slot).is_some_and(|it| it.read_at > at) {
                return false;
            }
            self.data.remove(slot);
        }
        let charge = len.saturating_add(self.options.entry_cost);
        let held = Held {
            data,
            read_at: at,
            charge,
        };
        let is_in = self.data.insert(name, held);
        self.make_room(0);
        is_in && self.data.find(name).is_some()
    }

    /// Notes that a server has these blocks in memory: after a read, or ahead of any use if `prefetched`. Notes the
    /// first blocks if the directory cannot hold all. Returns the number of blocks that were noted.
    pub fn note_reference(
        &mut self,
        file: u64,
        blocks: Range<u64>,
        server: u16,
        prefetched: bool,
    ) -> u64 {
        let most = self.directory_most() / u64::from(self.options.entry_cost);
        let end = blocks.end.min(blocks.start.saturating_add(most));
        for block in blocks.start..end {
            self.note_one(BlockName { file, block }, server, prefetched);
        }
        end.saturating_sub(blocks.start)
    }

    /// Notes that the server refused the reference which a lookup had found.
    pub fn note_stale(&mut self, file: u64, block: u64) {
        self.counters.stale_hits += 1;
        let Some(slot) = self.references.find(BlockName { file, block }) else {
            return;
        };
        if let Some(known) = self.references.value_mut(slot)
            && std::mem::take(&mut known.hit_in_tail)
        {
            self.balancer.reference_was_stale();
        }
        self.make_stale(slot);
    }

    /// Notes that the server reported the removal of these blocks from its memory. Data stay, because they are no
    /// older.
    pub fn note_invalidated(&mut self, file: u64, blocks: Range<u64>) {
        for slot in slots_in(&self.references, file, &blocks) {
            if self.references.value(slot).is_some_and(|it| !it.is_stale) {
                self.counters.invalidations += 1;
                self.make_stale(slot);
            }
        }
    }

    /// Drops the data of blocks that the owner changes, and keeps data of reads under way out. References stay,
    /// because the written bytes are in the server's memory. The owner calls this before it sends the change, and
    /// again after the acknowledgement.
    pub fn invalidate(&mut self, file: u64, blocks: Range<u64>) {
        self.note_change(file);
        for slot in slots_in(&self.data, file, &blocks) {
            self.data.remove(slot);
        }
    }

    /// Drops all data and references of a file.
    pub fn forget(&mut self, file: u64) {
        self.note_change(file);
        while let Some(slot) = self.data.first_of_file(file) {
            self.data.remove(slot);
        }
        while let Some(slot) = self.references.first_of_file(file) {
            self.references.remove(slot);
        }
    }

    /// Drops all references to a server that has restarted or has another key. Takes time for each reference.
    pub fn forget_server(&mut self, server: u16) {
        for list in [Use::Recent, Use::Tail, Use::Stale] {
            let mut next = self.references.front(list);
            while let Some(slot) = next {
                next = self.references.after(slot);
                let is_its = |it: &Known| it.server == server;
                if self.references.value(slot).is_some_and(is_its) {
                    self.references.remove(slot);
                }
            }
        }
    }

    fn reference_bytes(&self) -> u64 {
        u64::from(self.references.len()) * u64::from(self.options.entry_cost)
    }

    /// Most bytes that references can have.
    fn directory_most(&self) -> u64 {
        if self.balancer.is_fixed() {
            self.balancer.directory()
        } else {
            self.options.budget
        }
    }

    fn note_change(&mut self, file: u64) {
        if let Some(changes) = self.changes.get_mut(counter_of(file)) {
            *changes += 1;
        }
    }

    fn use_reference(&mut self, name: BlockName) -> Option<RemoteReference> {
        let slot = self.references.find(name)?;
        let in_tail = self.references.list_of(slot) == Some(Use::Tail);
        let known = self.references.value_mut(slot).filter(|it| !it.is_stale)?;
        let reference = RemoteReference {
            server: known.server,
            prefetched: std::mem::take(&mut known.is_prefetched),
        };
        known.hit_in_tail = in_tail;
        if reference.prefetched {
            self.counters.prefetched_used += 1;
        }
        if in_tail {
            self.balancer.hit_reference_tail();
        }
        self.touch_reference(slot);
        Some(reference)
    }

    fn touch_reference(&mut self, slot: u32) {
        if let Some(known) = self.references.value_mut(slot) {
            known.is_used = true;
        }
        if self.options.order == ReplacementOrder::LeastRecentlyUsed {
            self.references.move_to(slot, Use::Recent, End::Front);
            self.settle_references();
        }
    }

    fn note_one(&mut self, name: BlockName, server: u16, prefetched: bool) {
        if let Some(slot) = self.references.find(name) {
            let Some(known) = self.references.value_mut(slot) else {
                return;
            };
            known.server = server;
            let was_stale = std::mem::take(&mut known.is_stale);
            if was_stale {
                known.is_prefetched = prefetched;
                self.counters.prefetched += u64::from(prefetched);
                self.references.move_to(slot, Use::Recent, End::Front);
                self.settle_references();
            }
            if !prefetched {
                self.touch_reference(slot);
            }
            return;
        }
        let known = Known {
            server,
            is_stale: false,
            is_prefetched: prefetched,
            is_used: false,
            hit_in_tail: false,
        };
        // Room is made before the insertion, so that no order evicts the new entry.
        if self.references.len() >= ENTRIES_MAX {
            self.evict_reference();
        }
        self.make_room(u64::from(self.options.entry_cost));
        if self.references.insert(name, known) {
            self.counters.prefetched += u64::from(prefetched);
        }
        self.make_room(0);
    }

    fn make_stale(&mut self, slot: u32) {
        // An entry that is stale already keeps its place among the stale ones.
        if let Some(known) = self.references.value_mut(slot).filter(|it| !it.is_stale) {
            known.is_stale = true;
            if self.options.stale_first {
                self.references.move_to(slot, Use::Stale, End::Front);
            }
        }
    }

    fn settle_data(&mut self) {
        let tail = self.balancer.tail_of(self.data.charge());
        self.data.settle_tail(tail);
    }

    fn settle_references(&mut self) {
        let tail = self.balancer.tail_of(self.reference_bytes());
        let tail = tail / u64::from(self.options.entry_cost);
        self.references.settle_tail(tail);
    }

    /// Evicts entries until both sides are within their bounds with `more` bytes of references.
    fn make_room(&mut self, more: u64) {
        loop {
            let (references, data) = (self.reference_bytes() + more, self.data.charge());
            let directory = self.balancer.directory();
            let was_evicted = if self.balancer.is_fixed() {
                if references > directory {
                    self.evict_reference()
                } else if data > self.options.budget.saturating_sub(directory) {
                    self.evict_data()
                } else {
                    break;
                }
            } else if references + data > self.options.budget {
                let has_stale = self.references.back(Use::Stale).is_some();
                if has_stale || references > directory || data == 0 {
                    self.evict_reference()
                } else {
                    self.evict_data()
                }
            } else {
                break;
            };
            if !was_evicted {
                break;
            }
            self.balancer.evicted();
        }
        self.settle_data();
        self.settle_references();
    }

    fn evict_data(&mut self) -> bool {
        let last = self.data.back(Use::Tail);
        let Some(slot) = last.or_else(|| self.data.back(Use::Recent)) else {
            return false;
        };
        self.counters.data_evictions += 1;
        self.data.remove(slot).is_some()
    }

    fn evict_reference(&mut self) -> bool {
        let Some(slot) = self.worst_reference() else {
            return false;
        };
        let removed = self.references.remove(slot);
        self.counters.reference_evictions += 1;
        if removed.as_ref().is_some_and(|it| it.is_stale) {
            self.counters.stale_evictions += 1;
        }
        removed.is_some()
    }

    fn worst_reference(&mut self) -> Option<u32> {
        let stale = self.references.back(Use::Stale);
        if stale.is_some() {
            return stale;
        }
        match self.options.order {
            ReplacementOrder::LeastRecentlyUsed => self.last_reference(),
            ReplacementOrder::SecondChance => self.last_unused_reference(),
            ReplacementOrder::Random { .. } => self.any_reference(),
        }
    }

    fn last_reference(&self) -> Option<u32> {
        let last = self.references.back(Use::Tail);
        last.or_else(|| self.references.back(Use::Recent))
    }

    /// Passes each entry over at most once, because that clears its mark of use.
    fn last_unused_reference(&mut self) -> Option<u32> {
        loop {
            let slot = self.last_reference()?;
            let known = self.references.value_mut(slot)?;
            if !std::mem::take(&mut known.is_used) {
                return Some(slot);
            }
            self.references.move_to(slot, Use::Recent, End::Front);
        }
    }

    fn any_reference(&mut self) -> Option<u32> {
        for _ in 0..RANDOM_TRIES {
            self.random = self.random.wrapping_add(1);
            let number = spread(self.random, 0) % u64::from(self.references.slots_made().max(1));
            let slot = u32::try_from(number).ok()?;
            if let Some(slot) = self.references.slot_if_taken(slot) {
                return Some(slot);
            }
        }
        // Few slots are taken, for example after a file or server was forgotten.
        self.last_reference()
    }
}

/// The entries of a file within a range, in no order. Takes time for the smaller of the range and the file's entries.
fn slots_in<V: Charged>(table: &Table<V>, file: u64, blocks: &Range<u64>) -> Vec<u32> {
    let len = blocks.end.saturating_sub(blocks.start);
    let mut of_file = Vec::new();
    let mut next = table.first_of_file(file);
    let mut walked = 0;
    while let Some(slot) = next.filter(|_| walked < len) {
        of_file.push(slot);
        next = table.next_of_file(slot);
        walked += 1;
    }
    if next.is_none() {
        let is_in = |slot: &u32| {
            let name = table.name(*slot);
            name.is_some_and(|name| blocks.contains(&name.block))
        };
        of_file.retain(is_in);
        return of_file;
    }
    let blocks = blocks.clone();
    blocks
        .filter_map(|block| table.find(BlockName { file, block }))
        .collect()
}

#[allow(clippy::cast_possible_truncation)] // less than the number of counters
fn counter_of(file: u64) -> usize {
    (spread(file, 0) % CHANGE_COUNTERS as u64) as usize
}
