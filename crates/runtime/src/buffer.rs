//! Memory that can be handed to the fabric: owned, movable, recycled.

mod program;

pub use program::ProgramSlot;

use bytes::{Buf, BytesMut};
use memmap2::MmapMut;
use program::ProgramShared;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// An owned piece of memory: the application's own (from a `Vec`) or a slot of an [`Arena`] or of [`crate::Slabs`].
///
/// Always initialised. Moving it into an operation or a region hands it to the fabric until it comes back. A slot
/// returns to its arena when dropped, wherever that happens.
#[derive(Default)]
pub struct Buffer {
    bytes: Memory,
    home: Option<(Home, SlotId)>,
}

/// Bytes, from the allocator, mapped, or the program's own.
///
/// Mapped memory goes back to the system when it is dropped. The allocator (glibc) keeps freed pieces that are not at
/// the end of its heap, and its threshold for mapping pieces grows with each large piece that is freed.
enum Memory {
    Heap(BytesMut),
    Mapped(MmapMut),
    Lent(Box<dyn Lent>),
}

/// Memory that a program has already: a mapping, a boxed slice, an array of its own.
///
/// An implementation must return the same bytes at the same address from both methods until it is dropped: the fabric
/// registers that address.
pub trait Lent: AsRef<[u8]> + AsMut<[u8]> + Send + Sync {}

impl<T: AsRef<[u8]> + AsMut<[u8]> + Send + Sync> Lent for T {}

impl Default for Memory {
    fn default() -> Memory {
        Memory::Heap(BytesMut::new())
    }
}

impl Memory {
    /// Zeroed memory for a slot: whole pages are mapped.
    fn of_slot(len: usize) -> Memory {
        if len > 0
            && len.is_multiple_of(PAGE_LEN)
            && let Ok(pages) = MmapMut::map_anon(len)
        {
            return Memory::Mapped(pages);
        }
        Memory::Heap(page_aligned(len))
    }
}

impl Deref for Memory {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        match self {
            Memory::Heap(bytes) => bytes,
            Memory::Mapped(bytes) => bytes,
            Memory::Lent(bytes) => (**bytes).as_ref(),
        }
    }
}

impl DerefMut for Memory {
    fn deref_mut(&mut self) -> &mut [u8] {
        match self {
            Memory::Heap(bytes) => bytes,
            Memory::Mapped(bytes) => bytes,
            Memory::Lent(bytes) => (**bytes).as_mut(),
        }
    }
}

/// The owner to which memory returns when it is dropped.
enum Home {
    Arena(Arc<ArenaShared>),
    /// The slot that this is a part of, and the index of the part.
    Part(Arc<Split>, usize),
    /// None any more: the memory has left its arena, and only the slot's name stays.
    Left,
    Program(Arc<ProgramShared>),
}

/// The name of the memory of one slot of an arena, as long as that memory exists. It is never given to other memory,
/// so a registration that is kept by name cannot be mistaken for one of other memory at the same address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SlotId(u64);

impl SlotId {
    fn fresh() -> SlotId {
        SlotId(SLOTS_MADE.fetch_add(1, Ordering::Relaxed))
    }
}

impl Buffer {
    /// Zeroed memory of its own, `len` bytes; long ones start on a page.
    pub fn zeroed(len: usize) -> Buffer {
        Buffer {
            bytes: Memory::Heap(page_aligned(len)),
            home: None,
        }
    }

    /// Takes over the application's memory without copying it.
    pub fn from_vec(bytes: Vec<u8>) -> Buffer {
        let bytes = bytes::Bytes::from(bytes);
        Buffer {
            bytes: Memory::Heap(BytesMut::from(bytes)),
            home: None,
        }
    }

    /// Takes over memory that the program has already, without copying it. The drop of the buffer drops `memory`, which
    /// unmaps a mapping.
    pub fn from_lent(memory: impl Lent + 'static) -> Buffer {
        Buffer {
            bytes: Memory::Lent(Box::new(memory)),
            home: None,
        }
    }

    /// The name of its slot; `None` for memory that is no slot.
    pub fn slot(&self) -> Option<SlotId> {
        self.home.as_ref().map(|(_, slot)| *slot)
    }

    /// Gives the memory up as a `Vec`: without a copy when it came from one, with a copy out of an arena slot.
    pub fn into_vec(mut self) -> Vec<u8> {
        match std::mem::take(&mut self.bytes) {
            Memory::Heap(bytes) if self.home.is_none() => Vec::from(bytes.freeze()),
            bytes => {
                let copy = bytes.to_vec();
                self.bytes = bytes;
                copy
            }
        }
    }
}

/// Buffers from this length on start on a page; for shorter ones the page lost would weigh more than the copy.
const ALIGNED_MIN: usize = 32 << 10;
/// Bytes of a page.
const PAGE_LEN: usize = 4096;

/// Zeroed memory that starts on a page, unless it is short.
///
/// Not for DMA's sake: a copy whose target lies 1 to 31 bytes behind its source, modulo 4096, runs at a third of
/// the speed on processors that mistake the two for overlapping. Large `Vec`s start 16 bytes into a page, and the
/// page cache's pages at 0 (docs/decisions/0004-aligned-buffers.md has the figures).
fn page_aligned(len: usize) -> BytesMut {
    if len < ALIGNED_MIN {
        return BytesMut::zeroed(len);
    }
    let mut bytes = BytesMut::zeroed(len + PAGE_LEN);
    let skip = bytes.as_ptr().align_offset(PAGE_LEN);
    if skip <= PAGE_LEN {
        bytes.advance(skip);
    }
    bytes.truncate(len);
    bytes
}

impl Deref for Buffer {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.bytes
    }
}

impl std::fmt::Debug for Buffer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Buffer")
            .field("len", &self.len())
            .finish_non_exhaustive()
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        let bytes = std::mem::take(&mut self.bytes);
        match self.home.take() {
            Some((Home::Arena(home), slot)) => home.put_back(bytes, slot),
            Some((Home::Program(home), _)) => home.put_back(bytes),
            Some((Home::Part(split, part), _)) => {
                if let Memory::Heap(bytes) = bytes {
                    split.part_is_back(part, bytes);
                }
            }
            Some((Home::Left, _)) | None => {}
        }
    }
}

/// A slot that is cut into several shorter ones while some of them are in use.
pub(crate) struct Split {
    home: Arc<ArenaShared>,
    slot: SlotId,
    /// The parts; `None` for one in use, and empty once they are one slot again.
    parts: Mutex<Vec<Option<BytesMut>>>,
}

impl Split {
    fn parts(&self) -> MutexGuard<'_, Vec<Option<BytesMut>>> {
        self.parts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether it is one slot again.
    pub(crate) fn is_joined(&self) -> bool {
        self.parts().is_empty()
    }

    /// An unused part, under a fresh name that ends with this use.
    pub(crate) fn take(self: &Arc<Split>) -> Option<Buffer> {
        let mut parts = self.parts();
        let mut numbered = parts.iter_mut().enumerate();
        let (part, bytes) = numbered.find_map(|(part, it)| Some((part, it.take()?)))?;
        drop(parts);
        Some(Buffer {
            bytes: Memory::Heap(bytes),
            home: Some((Home::Part(Arc::clone(self), part), SlotId::fresh())),
        })
    }

    fn part_is_back(&self, part: usize, bytes: BytesMut) {
        let mut parts = self.parts();
        if let Some(place) = parts.get_mut(part) {
            *place = Some(bytes);
        }
        if !parts.iter().all(Option::is_some) {
            return;
        }
        let mut whole = BytesMut::new();
        // Adjacent parts of one allocation join without a copy, in order.
        parts
            .drain(..)
            .flatten()
            .for_each(|part| whole.unsplit(part));
        self.home.put_back(Memory::Heap(whole), self.slot);
    }
}

/// Slots of one size, recycled last-in first-out so that the next one used is still in the CPU's cache.
///
/// Grows on demand up to its bound: memory grows with the messages in flight and not with the number of connections.
#[derive(Clone)]
pub struct Arena {
    shared: Arc<ArenaShared>,
}

struct ArenaShared {
    slot_len: usize,
    /// Slots may be cut, so they come from the allocator: mapped pages cannot be split and joined.
    splits: bool,
    budget: Arc<SlotBudget>,
    /// A lock, because buffers may be dropped on other threads (the blocking pool, other cores).
    state: Mutex<ArenaState>,
    /// Slots in use, outside the lock, because each message reads it.
    in_use: AtomicUsize,
}

struct ArenaState {
    free: Vec<(Memory, SlotId)>,
    /// Slots that exist, in use or free.
    made: usize,
    /// The least number of free slots since the last [`Arena::trim_unused`]: that many were not needed.
    unused: usize,
}

/// A bound for the bytes of several arenas, unused slots included.
pub struct SlotBudget {
    bytes_max: usize,
    made: AtomicUsize,
}

impl SlotBudget {
    /// A budget of `bytes_max` bytes, none of them taken.
    pub fn new(bytes_max: usize) -> Arc<SlotBudget> {
        Arc::new(SlotBudget {
            bytes_max,
            made: AtomicUsize::new(0),
        })
    }

    /// Takes `bytes` from it; returns false, and takes none, when fewer are left. One atomic update: two cores that
    /// checked and then added would exceed the bound together.
    fn spend(&self, bytes: usize) -> bool {
        let more = |made: usize| made.checked_add(bytes).filter(|it| *it <= self.bytes_max);
        let spent = self
            .made
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
        spent.is_ok()
    }

    fn give_back(&self, bytes: usize) {
        self.made.fetch_sub(bytes, Ordering::Relaxed);
    }
}

impl Drop for ArenaShared {
    fn drop(&mut self) {
        // No buffer of it exists any more, because each holds a reference to its arena.
        let made = self.state().made;
        self.budget.give_back(made * self.slot_len);
    }
}

/// The number of slots and parts of slots made so far in this process; the next one's name.
static SLOTS_MADE: AtomicU64 = AtomicU64::new(0);

impl Arena {
    /// An arena of at most `slots_max` slots of `slot_len` bytes each, none of them made yet.
    pub fn new(slot_len: usize, slots_max: usize) -> Arena {
        let budget = SlotBudget::new(slot_len.saturating_mul(slots_max));
        Arena::build(&budget, slot_len, false)
    }

    /// An arena whose slots are paid for from a budget that it may share with others, and can be cut.
    pub(crate) fn within(budget: &Arc<SlotBudget>, slot_len: usize) -> Arena {
        Arena::build(budget, slot_len, true)
    }

    fn build(budget: &Arc<SlotBudget>, slot_len: usize, splits: bool) -> Arena {
        let state = Mutex::new(ArenaState {
            free: Vec::new(),
            made: 0,
            unused: 0,
        });
        Arena {
            shared: Arc::new(ArenaShared {
                slot_len,
                splits,
                budget: Arc::clone(budget),
                state,
                in_use: AtomicUsize::new(0),
            }),
        }
    }

    /// Bytes of one slot.
    pub fn slot_len(&self) -> usize {
        self.shared.slot_len
    }

    /// A slot with the bytes of its last user in it; `None` when all are in use (wait for one to come back).
    pub fn take(&self) -> Option<Buffer> {
        let mut state = self.shared.state();
        let recycled = state.free.pop();
        state.unused = state.unused.min(state.free.len());
        if recycled.is_none() {
            if !self.shared.budget.spend(self.shared.slot_len) {
                return None;
            }
            state.made += 1;
        }
        drop(state);
        self.shared.in_use.fetch_add(1, Ordering::Relaxed);
        let (bytes, slot) = recycled.unwrap_or_else(|| (self.shared.fresh(), SlotId::fresh()));
        Some(Buffer {
            bytes,
            home: Some((Home::Arena(Arc::clone(&self.shared)), slot)),
        })
    }

    /// Cuts an unused slot into parts of `part_len` bytes. The slot is in use until all parts are back, so the caller
    /// must take one at once: without a part that comes back it would stay in use for ever. `None` when no slot is
    /// unused, or it does not hold several parts.
    pub(crate) fn split_idle(&self, part_len: usize) -> Option<Arc<Split>> {
        let count = self.shared.slot_len.checked_div(part_len)?;
        if count < 2 || !self.shared.slot_len.is_multiple_of(part_len) {
            return None;
        }
        let mut state = self.shared.state();
        // Slots that are to be cut are never mapped.
        let (Memory::Heap(mut bytes), slot) = state.free.pop()? else {
            return None;
        };
        state.unused = state.unused.min(state.free.len());
        drop(state);
        self.shared.in_use.fetch_add(1, Ordering::Relaxed);
        let parts = (0..count).map(|_| Some(bytes.split_to(part_len)));
        Some(Arc::new(Split {
            home: Arc::clone(&self.shared),
            slot,
            parts: Mutex::new(parts.collect()),
        }))
    }

    /// Slots in use now.
    pub fn in_use(&self) -> usize {
        self.shared.in_use.load(Ordering::Relaxed)
    }

    /// Unused slots, whose memory is kept.
    pub fn idle(&self) -> usize {
        self.shared.state().free.len()
    }

    /// Gives the memory of unused slots back to the system. Revoke registrations of them before: one that outlived its
    /// memory would let a peer reach the memory's next user.
    pub fn trim(&self) {
        let mut state = self.shared.state();
        state.unused = 0;
        let free = std::mem::take(&mut state.free);
        state.made -= free.len();
        self.shared
            .budget
            .give_back(free.len() * self.shared.slot_len);
    }

    /// Gives the memory of slots that were not used since the last call of this back to the system. Revoke
    /// registrations of them before, as for [`Arena::trim`].
    pub fn trim_unused(&self) {
        drop(self.take_unused());
    }

    /// As [`Arena::trim_unused`], but their memory and their names go to the caller, who revokes their registrations
    /// and drops them.
    pub fn take_unused(&self) -> Vec<Buffer> {
        let mut state = self.shared.state();
        // Slots are used last in, first out, so those at the front of the list were not used.
        let count = state.unused.min(state.free.len());
        let unused = state.free.drain(..count).map(|(bytes, slot)| Buffer {
            bytes,
            home: Some((Home::Left, slot)),
        });
        let unused: Vec<Buffer> = unused.collect();
        state.made -= count;
        state.unused = state.free.len();
        if count > 0 {
            state.free.shrink_to_fit();
        }
        drop(state);
        self.shared.budget.give_back(count * self.shared.slot_len);
        unused
    }
}

impl ArenaShared {
    fn put_back(&self, bytes: Memory, slot: SlotId) {
        self.state().free.push((bytes, slot));
        self.in_use.fetch_sub(1, Ordering::Relaxed);
    }

    fn fresh(&self) -> Memory {
        if self.splits {
            Memory::Heap(page_aligned(self.slot_len))
        } else {
            Memory::of_slot(self.slot_len)
        }
    }

    fn state(&self) -> MutexGuard<'_, ArenaState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_applications_memory_comes_back_as_the_same_memory() {
        let vec = vec![7u8; 1000];
        let address = vec.as_ptr();
        let mut buffer = Buffer::from_vec(vec);
        buffer[3] = 9;
        let vec = buffer.into_vec();
        assert_eq!((vec.as_ptr(), vec[3], vec[4]), (address, 9, 7));
    }

    #[test]
    fn long_memory_starts_on_a_page() {
        let arena = Arena::new(100_000, 1);
        for buffer in [
            Buffer::zeroed(32 << 10),
            Buffer::zeroed(1 << 20),
            arena.take().unwrap(),
        ] {
            assert_eq!(buffer.as_ptr().addr() % 4096, 0);
            assert!(buffer.iter().all(|byte| *byte == 0));
        }
    }

    #[test]
    fn an_arena_is_bounded_and_hands_out_the_slot_used_last() {
        let arena = Arena::new(4096, 2);
        let (first, second) = (arena.take().unwrap(), arena.take().unwrap());
        assert!(arena.take().is_none());
        let address = first.as_ptr();
        drop(second);
        drop(first);
        assert_eq!(arena.in_use(), 0);
        assert_eq!(arena.take().unwrap().as_ptr(), address);
    }

    #[test]
    fn slots_that_were_not_used_for_a_while_are_given_back() {
        let arena = Arena::new(4096, 100);
        let slots: Vec<Buffer> = std::iter::from_fn(|| arena.take()).collect();
        assert_eq!((slots.len(), arena.idle()), (100, 0));
        drop(slots);
        arena.trim_unused();
        assert_eq!(arena.idle(), 100, "all were in use");
        for _ in 0..3 {
            let some: Vec<Buffer> = (0..10).filter_map(|_| arena.take()).collect();
            drop(some);
        }
        arena.trim_unused();
        assert_eq!((arena.idle(), arena.in_use()), (10, 0));
        arena.trim_unused();
        assert_eq!(arena.idle(), 0);
        let again: Vec<Buffer> = std::iter::from_fn(|| arena.take()).collect();
        assert_eq!(again.len(), 100, "the bound holds over it");
    }

    #[test]
    fn mapped_memory_is_a_buffer_like_any_other() {
        let arena = Arena::new(8192, 1);
        let mut slot = arena.take().unwrap();
        assert!(slot.len() == 8192 && slot.iter().all(|byte| *byte == 0));
        slot[8191] = 7;
        assert_eq!(slot.into_vec()[8191], 7);
        assert_eq!((arena.in_use(), arena.idle()), (0, 1));
    }

    #[test]
    fn a_slot_keeps_its_name_until_its_memory_goes() {
        let arena = Arena::new(4096, 2);
        let (first, second) = (arena.take().unwrap(), arena.take().unwrap());
        let (name, other) = (first.slot(), second.slot());
        assert_ne!(name, other);
        drop(first);
        let first = arena.take().unwrap();
        assert_eq!(first.slot(), name);
        drop(first);
        arena.trim();
        let fresh = arena.take().unwrap();
        assert!(fresh.slot() != name && fresh.slot() != other);
        assert_eq!(arena.in_use(), 2);
        assert!(arena.take().is_none(), "the bound holds over a trim");
    }
}
