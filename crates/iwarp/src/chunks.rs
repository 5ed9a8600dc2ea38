//! Buffers for bytes that leave as a copy, shared by the connections of a core.
//!
//! A connection holds one while the bytes in it have not left, so memory grows with the bytes being sent. The next
//! user gets the buffer that is still in the cache.

use crate::limits::{CHUNK_LEN, CHUNK_SHORT_LEN, CHUNKS_LONG_MAX, CHUNKS_SPARE_MAX, RARE_USES_MAX};
use gannet_runtime::Buffer;
use std::cell::{Cell, RefCell};
use std::ops::{Deref, DerefMut};
use std::rc::Rc;

/// The chunks of one core.
#[derive(Clone, Default)]
pub(crate) struct ChunkPool {
    shared: Rc<Shared>,
}

#[derive(Default)]
struct Shared {
    short: RefCell<Vec<Buffer>>,
    long: RefCell<Vec<Buffer>>,
    /// Long ones that connections hold.
    long_held: Cell<usize>,
    /// Chunks taken since the last [`ChunkPool::trim_unused`].
    uses: Cell<u32>,
}

/// A buffer that goes back to its pool when it is dropped.
pub(crate) struct Chunk {
    bytes: Buffer,
    shared: Rc<Shared>,
}

impl ChunkPool {
    /// A chunk with the bytes of its last user in it: of [`CHUNK_LEN`] bytes if more than half of a short one is
    /// `wanted` and connections hold fewer than [`CHUNKS_LONG_MAX`], else of [`CHUNK_SHORT_LEN`].
    pub(crate) fn take(&self, wanted: usize) -> Chunk {
        let shared = &self.shared;
        shared.uses.set(shared.uses.get().saturating_add(1));
        let is_long = wanted > CHUNK_SHORT_LEN / 2 && shared.long_held.get() < CHUNKS_LONG_MAX;
        let (spare, len) = if is_long {
            shared.long_held.set(shared.long_held.get() + 1);
            (&shared.long, CHUNK_LEN)
        } else {
            (&shared.short, CHUNK_SHORT_LEN)
        };
        let bytes = spare.borrow_mut().pop();
        Chunk {
            bytes: bytes.unwrap_or_else(|| Buffer::zeroed(len)),
            shared: Rc::clone(shared),
        }
    }

    /// Gives all spare ones but a short one back if hardly any was taken since the last call of this; returns their
    /// bytes.
    pub(crate) fn trim_unused(&self) -> usize {
        if self.shared.uses.replace(0) > RARE_USES_MAX {
            return 0;
        }
        self.keep(1)
    }

    /// Gives spare ones back to the allocator; returns their bytes.
    pub(crate) fn trim(&self) -> usize {
        self.keep(0)
    }

    fn keep(&self, kept_short: usize) -> usize {
        let long = self.shared.long.take();
        let mut short = self.shared.short.borrow_mut();
        let freed = short.len().saturating_sub(kept_short);
        short.truncate(kept_short);
        freed * CHUNK_SHORT_LEN + long.len() * CHUNK_LEN
    }

    #[cfg(test)]
    pub(crate) fn spare(&self) -> usize {
        self.shared.short.borrow().len() + self.shared.long.borrow().len()
    }
}

impl Deref for Chunk {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

impl DerefMut for Chunk {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.bytes
    }
}

impl std::fmt::Debug for Chunk {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Chunk({})", self.bytes.len())
    }
}

impl Drop for Chunk {
    fn drop(&mut self) {
        let shared = &self.shared;
        let spare = if self.bytes.len() == CHUNK_LEN {
            shared.long_held.set(shared.long_held.get() - 1);
            &shared.long
        } else {
            &shared.short
        };
        let mut spare = spare.borrow_mut();
        if spare.len() < CHUNKS_SPARE_MAX {
            spare.push(std::mem::take(&mut self.bytes));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_holders_get_short_ones_and_what_comes_back_is_used_again() {
        let pool = ChunkPool::default();
        assert_eq!(pool.take(1).len(), CHUNK_SHORT_LEN);
        let mut held: Vec<Chunk> = (0..CHUNKS_LONG_MAX + 10)
            .map(|_| pool.take(CHUNK_LEN))
            .collect();
        let long = held.iter().filter(|chunk| chunk.len() == CHUNK_LEN);
        assert_eq!(long.count(), CHUNKS_LONG_MAX);
        let last = held.pop().unwrap().as_ptr();
        assert_eq!(pool.take(CHUNK_LEN).as_ptr(), last);
        held.clear();
        assert_eq!(pool.spare(), 2 * CHUNKS_SPARE_MAX);
        assert_eq!(pool.take(CHUNK_LEN).len(), CHUNK_LEN);
        assert_eq!(pool.shared.long_held.get(), 0);
    }

    #[test]
    fn spare_ones_go_back_when_hardly_any_was_used() {
        let pool = ChunkPool::default();
        for _ in 0..=RARE_USES_MAX {
            pool.take(CHUNK_LEN);
        }
        assert_eq!(pool.trim_unused(), 0, "many uses since the start");
        assert_eq!(pool.spare(), 1);
        pool.take(CHUNK_LEN);
        assert_eq!(pool.trim_unused(), CHUNK_LEN);
        assert_eq!(pool.spare(), 0);
        let held = pool.take(CHUNK_LEN);
        assert_eq!(pool.trim(), 0, "it is in use");
        drop(held);
        assert_eq!(pool.trim(), CHUNK_LEN);
        assert_eq!(pool.trim(), 0);
        // A short one is for a peer that says now and then that it is there.
        drop((pool.take(0), pool.take(CHUNK_LEN)));
        assert_eq!((pool.trim_unused(), pool.spare()), (CHUNK_LEN, 1));
    }
}
