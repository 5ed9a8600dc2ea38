//! The time that the page cache of a machine and its disk take.
//!
//! Blocks of a fixed length enter when they are read or written and leave in the order of their last use. A dirty one
//! is written back first. The disk does one thing at a time: a seek, unless it goes on where it is, and a transfer.

use crate::nic::calendar::Calendar;
use crate::nic::{Activity, FileSystem, Host};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;

/// A block: its file's inode and its index.
type Place = (u64, u64);

/// The page cache of one machine and its disk, in virtual time. It holds no bytes, only blocks with their times.
pub(super) struct PageCache {
    host: Rc<Host>,
    costs: FileSystem,
    blocks_max: usize,
    state: RefCell<State>,
}

#[derive(Default)]
struct State {
    blocks: BTreeMap<Place, Block>,
    /// The blocks in the order of their last use.
    by_age: BTreeMap<u64, Place>,
    uses: u64,
    disk: Calendar,
    /// The block behind the last transfer: one that starts there needs no seek.
    head: Option<Place>,
    hits: u64,
    misses: u64,
}

struct Block {
    last_use: u64,
    /// The time at which the disk has read it, in nanoseconds.
    ready_at: u64,
    is_dirty: bool,
}

impl PageCache {
    /// The cache of `host`'s testbed; `None` where all files fit into memory.
    pub(super) fn new(host: &Rc<Host>) -> Option<PageCache> {
        let costs = host.profile().file_system;
        let bytes = costs.cache_bytes.as_usize();
        (bytes > 0).then(|| PageCache {
            host: Rc::clone(host),
            costs,
            blocks_max: (bytes / costs.block_bytes.as_usize().max(1)).max(1),
            state: RefCell::default(),
        })
    }

    pub(super) fn hits_and_misses(&self) -> (u64, u64) {
        let state = self.state.borrow();
        (state.hits, state.misses)
    }

    fn blocks_of(&self, bytes: &Range<u64>) -> Range<u64> {
        let len = self.costs.block_bytes.value.max(1);
        bytes.start / len..bytes.end.div_ceil(len)
    }

    /// Reads part of a file of `file_len` bytes; gives the time at which it is all in memory.
    pub(super) fn read(&self, inode: u64, bytes: Range<u64>, file_len: u64) -> u64 {
        let wanted = self.blocks_of(&bytes);
        let file_end = self.blocks_of(&(0..file_len)).end;
        let ahead = self.costs.read_ahead_bytes.value / self.costs.block_bytes.value.max(1);
        let mut state = self.state.borrow_mut();
        let mut ready_at = self.host.now();
        let mut is_hit = true;
        let mut block = wanted.start;
        while block < wanted.end {
            if let Some(there) = state.touch((inode, block)) {
                ready_at = ready_at.max(there.ready_at);
                block += 1;
                continue;
            }
            is_hit = false;
            // The read ends at the next cached block, and after the readahead at most.
            let reach = wanted.end.max(block + ahead).min(file_end.max(block + 1));
            let missing = |&at: &u64| !state.blocks.contains_key(&(inode, at));
            let end = block + (block..reach).take_while(missing).count() as u64;
            let done_at = self.transfer(&mut state, inode, block..end);
            for at in block..end {
                self.insert(&mut state, (inode, at), done_at, false);
            }
            ready_at = ready_at.max(done_at);
            block = end;
        }
        if is_hit {
            state.hits += 1;
        } else {
            state.misses += 1;
        }
        ready_at
    }

    /// Writes part of a file into memory; gives the time at which there was room for it.
    pub(super) fn write(&self, inode: u64, bytes: Range<u64>) -> u64 {
        let mut state = self.state.borrow_mut();
        let mut ready_at = self.host.now();
        for block in self.blocks_of(&bytes) {
            let place = (inode, block);
            match state.touch(place) {
                Some(there) => there.is_dirty = true,
                None => {
                    let made_room_at = self.insert(&mut state, place, 0, true);
                    ready_at = ready_at.max(made_room_at);
                }
            }
        }
        ready_at
    }

    /// Writes a file's dirty blocks back; gives the time at which the disk has them.
    pub(super) fn sync(&self, inode: u64) -> u64 {
        let mut state = self.state.borrow_mut();
        let of_file = state.blocks.range_mut((inode, 0)..=(inode, u64::MAX));
        let mut runs: Vec<Range<u64>> = Vec::new();
        for (&(_, number), block) in of_file {
            if !std::mem::take(&mut block.is_dirty) {
                continue;
            }
            match runs.last_mut() {
                Some(run) if run.end == number => run.end += 1,
                _ => runs.push(number..number + 1),
            }
        }
        let now = self.host.now();
        runs.into_iter().fold(now, |ready_at, run| {
            self.transfer(&mut state, inode, run).max(ready_at)
        })
    }

    /// Moves blocks between disk and memory; gives the time at which that is done.
    fn transfer(&self, state: &mut State, inode: u64, blocks: Range<u64>) -> u64 {
        let len = (blocks.end - blocks.start) * self.costs.block_bytes.value;
        let goes_on = state.head == Some((inode, blocks.start));
        let seek = if goes_on { 0 } else { self.costs.seek_ns.value };
        let time = seek + self.costs.disk_bytes_per_s.time_for(len);
        state.head = Some((inode, blocks.end));
        let (clock, now) = (self.host.clock(), self.host.now());
        let gap = state.disk.take_first(clock, now, time);
        self.host.enter(Activity::Disk, time, gap.start - now);
        gap.end()
    }

    /// Enters a block; gives the time at which there is room for it.
    fn insert(&self, state: &mut State, place: Place, ready_at: u64, is_dirty: bool) -> u64 {
        let mut room_at = 0;
        while state.blocks.len() >= self.blocks_max {
            let Some(((inode, block), evicted)) = state.take_oldest() else {
                break;
            };
            if evicted.is_dirty {
                room_at = self.transfer(state, inode, block..block + 1).max(room_at);
            }
        }
        let last_use = state.next_use();
        state.by_age.insert(last_use, place);
        let block = Block {
            last_use,
            ready_at,
            is_dirty,
        };
        state.blocks.insert(place, block);
        room_at
    }
}

impl State {
    fn next_use(&mut self) -> u64 {
        self.uses += 1;
        self.uses
    }

    /// A cached block, which becomes the last used.
    fn touch(&mut self, place: Place) -> Option<&mut Block> {
        let last_use = self.next_use();
        let block = self.blocks.get_mut(&place)?;
        self.by_age.remove(&block.last_use);
        self.by_age.insert(last_use, place);
        block.last_use = last_use;
        Some(block)
    }

    fn take_oldest(&mut self) -> Option<(Place, Block)> {
        let (_, place) = self.by_age.pop_first()?;
        let block = self.blocks.remove(&place)?;
        Some((place, block))
    }
}
