//! Hits and misses of clients with caches and directories of references ([`ClientMemory`]) at a server whose page cache
//! is bounded (paper 003, section VI-A).
//!
//! The client's side is what serves real files. The server is a page cache: blocks leave in the order of their last
//! use, by a call or by an optimistic read (the paper's reference()). A reference names a block, and is good while the
//! block is in that cache. Time does not pass: what is counted are accesses by their kind, and messages. The page cache
//! of [`gannet_sim::store`] is no use here, for it exists to take a disk's time.

mod pattern;
mod server;

use gannet_runtime::Instant;
use gannet_volume::client::optimistic::{
    ATTRIBUTE_BLOCK, BlockLookup, ClientMemory, ClientMemoryCounters, ClientMemoryOptions,
};
pub use pattern::Pattern;
use pattern::{Accesses, Place};
use server::PageCache;
use std::ops::Sub;
use std::time::Duration;

/// Bytes of an attribute record.
pub const ATTRIBUTES_LEN: u32 = 128;

/// How clients have attributes, which they ask for with every access to a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Attributes {
    /// They do not ask.
    Unused,
    /// Attributes come by a call.
    ByCall,
    /// Attributes come by an optimistic read where the directory has a reference. Replies bring references.
    ByReference,
}

/// The contents of the caches at the beginning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start {
    /// Nothing.
    Cold,
    /// The server has read all files once.
    WarmServer,
    /// It has, and clients have a reference to each block.
    References,
}

/// The accesses of clients, and the sizes of the caches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CachingLoad {
    /// Clients, which take turns.
    pub clients: usize,
    /// Blocks of all files together.
    pub blocks: u64,
    /// Blocks of a file.
    pub file_blocks: u64,
    /// Blocks that the server's page cache holds.
    pub server_blocks: u64,
    /// Files whose attributes the server has in memory.
    pub server_files: u64,
    /// Each client's memory. Data are charged with its block length.
    pub memory: ClientMemoryOptions,
    /// The blocks that are accessed.
    pub pattern: Pattern,
    /// The contents of the caches at the beginning.
    pub start: Start,
    /// References to so many blocks behind the one that was asked for come with a call's reply, of those that are in
    /// the server's memory.
    pub prefetch: u64,
    /// The server reports the blocks that left its memory, so many in a message; 0: it does not.
    pub invalidations: u64,
    /// How clients have attributes.
    pub attributes: Attributes,
    /// The durations of a call and an optimistic read: an adaptive balance weighs with them.
    pub costs: (Duration, Duration),
    /// Accesses of all clients that are counted.
    pub accesses: u64,
    /// Accesses before.
    pub warm_up: u64,
}

/// The counts of the accesses, by their outcome.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CachingOutcome {
    /// Accesses to blocks.
    pub accesses: u64,
    /// Answered by the client's cache.
    pub cache_hits: u64,
    /// Accesses by an optimistic read.
    pub directory_hits: u64,
    /// Accesses by a call after an optimistic read was refused.
    pub stale_hits: u64,
    /// Accesses by a call at once.
    pub misses: u64,
    /// Calls whose block the server did not have in memory.
    pub server_misses: u64,
    /// Attributes that were asked for.
    pub stats: u64,
    /// Directory hits of stats that an optimistic read answered.
    pub stat_directory_hits: u64,
    /// Accesses by a call after an optimistic read was refused.
    pub stat_stale_hits: u64,
    /// Messages with invalidations.
    pub messages: u64,
    /// References that came ahead of any use.
    pub prefetched: u64,
    /// Prefetched references that were used.
    pub prefetched_used: u64,
    /// Bytes of references of all clients at the end.
    pub reference_bytes: u64,
    /// Bytes of data of all clients at the end.
    pub data_bytes: u64,
}

/// Durations of accesses, in microseconds; a hit in the client's cache takes none.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AccessTimes {
    /// A call (T1).
    pub call: f64,
    /// An optimistic read (T2).
    pub optimistic: f64,
    /// A refused one, without the call that follows (T_Stale).
    pub stale: f64,
}

impl CachingOutcome {
    /// So many of a hundred accesses to blocks.
    pub fn percent(&self, count: u64) -> f64 {
        100.0 * per(count, self.accesses)
    }

    /// The mean time of an access to a block, disks apart.
    pub fn access_us(&self, times: &AccessTimes) -> f64 {
        let calls = self.misses + self.stale_hits;
        let spent = times.of(calls, self.directory_hits, self.stale_hits);
        spent / number(self.accesses.max(1))
    }

    /// The mean time of asking for attributes.
    pub fn stat_us(&self, times: &AccessTimes) -> f64 {
        let calls = self.stats - self.stat_directory_hits;
        let spent = times.of(calls, self.stat_directory_hits, self.stat_stale_hits);
        spent / number(self.stats.max(1))
    }

    /// The paper's benefit over cost.
    pub fn benefit_over_cost(&self, times: &AccessTimes) -> f64 {
        let benefit = number(self.directory_hits) * (times.call - times.optimistic);
        benefit / (number(self.stale_hits) * times.stale).max(1e-9)
    }
}

impl AccessTimes {
    fn of(&self, calls: u64, optimistic: u64, stale: u64) -> f64 {
        number(calls) * self.call
            + number(optimistic) * self.optimistic
            + number(stale) * self.stale
    }
}

impl Sub for CachingOutcome {
    type Output = CachingOutcome;

    /// The difference of counts. Values of a moment keep those of the end.
    fn sub(self, before: CachingOutcome) -> CachingOutcome {
        CachingOutcome {
            accesses: self.accesses - before.accesses,
            cache_hits: self.cache_hits - before.cache_hits,
            directory_hits: self.directory_hits - before.directory_hits,
            stale_hits: self.stale_hits - before.stale_hits,
            misses: self.misses - before.misses,
            server_misses: self.server_misses - before.server_misses,
            stats: self.stats - before.stats,
            stat_directory_hits: self.stat_directory_hits - before.stat_directory_hits,
            stat_stale_hits: self.stat_stale_hits - before.stat_stale_hits,
            messages: self.messages - before.messages,
            prefetched: self.prefetched - before.prefetched,
            prefetched_used: self.prefetched_used - before.prefetched_used,
            ..self
        }
    }
}

/// A count as a number.
#[allow(clippy::cast_precision_loss)] // far below 2^52
fn number(count: u64) -> f64 {
    count as f64
}

fn per(count: u64, of: u64) -> f64 {
    number(count) / number(of.max(1))
}

/// Does what `load` says, and counts.
pub fn run(load: &CachingLoad) -> CachingOutcome {
    let mut bench = Bench::new(load);
    (0..load.warm_up).for_each(|turn| bench.access(turn));
    let before = bench.outcome();
    (0..load.accesses).for_each(|turn| bench.access(load.warm_up + turn));
    bench.outcome() - before
}

struct Client {
    memory: ClientMemory<()>,
    accesses: Accesses,
    /// Blocks that left the server's memory, which the next message to the client reports.
    untold: Vec<u32>,
}

struct Bench<'a> {
    load: &'a CachingLoad,
    clients: Vec<Client>,
    pages: PageCache,
    inodes: PageCache,
    /// A bit for each client that has been given a reference to the block.
    holders: Vec<u64>,
    counts: CachingOutcome,
}

/// The number of a block or a file among all.
fn id(number: u64) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

impl<'a> Bench<'a> {
    fn new(load: &'a CachingLoad) -> Bench<'a> {
        let files = load.blocks.div_ceil(load.file_blocks.max(1));
        let clients = (0..load.clients as u64).map(|number| {
            let mut memory = ClientMemory::new(load.memory);
            memory.set_costs(load.costs.0, load.costs.1);
            Client {
                memory,
                accesses: Accesses::new(load, number),
                untold: Vec::new(),
            }
        });
        let mut bench = Bench {
            load,
            clients: clients.collect(),
            pages: PageCache::new(load.blocks, load.server_blocks),
            inodes: PageCache::new(files, load.server_files),
            holders: vec![0; usize::try_from(load.blocks).unwrap_or(0)],
            counts: CachingOutcome::default(),
        };
        if load.start != Start::Cold {
            bench.warm();
        }
        bench
    }

    fn warm(&mut self) {
        for block in 0..self.load.blocks {
            self.bring(block);
            let place = Place::of(block, self.load.file_blocks);
            if self.load.start == Start::References {
                (0..self.clients.len()).for_each(|client| self.report(client, place, block, true));
            }
        }
    }

    fn outcome(&self) -> CachingOutcome {
        let each = self.clients.iter().map(|client| client.memory.counters());
        let of_all = |of: fn(&ClientMemoryCounters) -> u64| each.clone().map(|it| of(&it)).sum();
        CachingOutcome {
            prefetched: of_all(|it| it.prefetched),
            prefetched_used: of_all(|it| it.prefetched_used),
            reference_bytes: of_all(|it| it.reference_bytes),
            data_bytes: of_all(|it| it.data_bytes),
            ..self.counts
        }
    }

    fn access(&mut self, turn: u64) {
        let client = usize::try_from(turn).unwrap_or(0) % self.clients.len().max(1);
        let Some(place) = self.clients.get_mut(client).map(|it| it.accesses.next()) else {
            return;
        };
        if self.load.attributes != Attributes::Unused && place.block == 0 {
            self.stat(client, place.file);
        }
        self.read(client, place);
    }

    fn read(&mut self, client: usize, place: Place) {
        let block = place.file * self.load.file_blocks + place.block;
        self.counts.accesses += 1;
        let Some(memory) = self.clients.get_mut(client).map(|it| &mut it.memory) else {
            return;
        };
        match memory.lookup(place.file, place.block) {
            BlockLookup::Data { .. } => {
                self.counts.cache_hits += 1;
                return;
            }
            BlockLookup::Reference(_) if self.pages.touch(id(block)) => {
                self.counts.directory_hits += 1;
            }
            BlockLookup::Reference(_) => {
                self.counts.stale_hits += 1;
                memory.note_stale(place.file, place.block);
                self.call(client, place, block);
            }
            BlockLookup::Missing => {
                self.counts.misses += 1;
                self.call(client, place, block);
            }
        }
        let Some(memory) = self.clients.get_mut(client).map(|it| &mut it.memory) else {
            return;
        };
        let read = memory.read_starts(place.file, Instant::START);
        memory.insert_data(read, place.block, (), self.load.memory.block_len);
    }

    /// The reply has the block, a reference to it, and references to some that follow.
    fn call(&mut self, client: usize, place: Place, block: u64) {
        if !self.pages.touch(id(block)) {
            self.counts.server_misses += 1;
            self.bring(block);
        }
        self.report(client, place, block, false);
        let rest = self.load.file_blocks - 1 - place.block;
        let in_all = (self.load.blocks - 1).saturating_sub(block);
        for more in 1..=self.load.prefetch.min(rest).min(in_all) {
            if self.pages.has(id(block + more)) {
                let place = Place {
                    block: place.block + more,
                    ..place
                };
                self.report(client, place, block + more, true);
            }
        }
    }

    /// Gives a client a reference.
    fn report(&mut self, client: usize, place: Place, block: u64, ahead: bool) {
        if let Some(client) = self.clients.get_mut(client) {
            let blocks = place.block..place.block + 1;
            client.memory.note_reference(place.file, blocks, 0, ahead);
        }
        if let Some(holders) = self.holders.get_mut(id(block) as usize) {
            *holders |= 1 << client;
        }
    }

    /// Brings a block into the server's memory; the one that leaves for it is reported to clients with a reference
    /// to it.
    fn bring(&mut self, block: u64) {
        let Some(left) = self.pages.insert(id(block)) else {
            return;
        };
        if self.load.invalidations == 0 {
            return;
        }
        let holders = self.holders.get_mut(left as usize).map(std::mem::take);
        for client in 0..self.clients.len() {
            if holders.is_some_and(|holders| holders & (1 << client) != 0) {
                self.invalidate(client, left);
            }
        }
    }

    fn invalidate(&mut self, client: usize, left: u32) {
        let Some(client) = self.clients.get_mut(client) else {
            return;
        };
        client.untold.push(left);
        if (client.untold.len() as u64) < self.load.invalidations {
            return;
        }
        self.counts.messages += 1;
        for block in client.untold.drain(..) {
            // A block that came back meanwhile is not reported.
            if !self.pages.has(block) {
                let place = Place::of(u64::from(block), self.load.file_blocks);
                let blocks = place.block..place.block + 1;
                client.memory.note_invalidated(place.file, blocks);
            }
        }
    }

    /// Attributes of a file are current in no cache: they are asked for each time.
    fn stat(&mut self, client: usize, file: u64) {
        self.counts.stats += 1;
        let by_reference = self.load.attributes == Attributes::ByReference;
        let Some(memory) = self.clients.get_mut(client).map(|it| &mut it.memory) else {
            return;
        };
        if by_reference {
            match memory.lookup(file, ATTRIBUTE_BLOCK) {
                BlockLookup::Reference(_) if self.inodes.touch(id(file)) => {
                    self.counts.stat_directory_hits += 1;
                    return;
                }
                BlockLookup::Reference(_) => {
                    self.counts.stat_stale_hits += 1;
                    memory.note_stale(file, ATTRIBUTE_BLOCK);
                }
                _ => {}
            }
            memory.note_reference(file, ATTRIBUTE_BLOCK..ATTRIBUTE_BLOCK + 1, 0, false);
        }
        if !self.inodes.touch(id(file)) {
            self.inodes.insert(id(file));
        }
    }
}

#[cfg(test)]
mod tests;
