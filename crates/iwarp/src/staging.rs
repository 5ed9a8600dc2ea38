//! Receive buffers shared by the connections of a core.
//!
//! A connection takes one when its stream becomes readable and gives it back in the same turn,
//! unless part of an FPDU is left over. So memory grows with the bytes being received and not with the number of
//! connections, and the next user gets the buffer that is still in the cache.

use crate::limits::{RARE_USES_MAX, STAGING_HELD_MAX, STAGING_LEN, STAGING_SPARE_MAX};
use gannet_runtime::Buffer;
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// The staging buffers of one core.
#[derive(Default)]
pub(crate) struct StagingPool {
    spare: RefCell<Vec<Buffer>>,
    /// Buffers of [`STAGING_LEN`] that connections hold.
    held: Cell<usize>,
    /// Buffers taken since the last [`StagingPool::trim_unused`].
    uses: Cell<u32>,
}

/// The bytes that one connection has received and not yet used.
pub(crate) struct Staging {
    pool: Rc<StagingPool>,
    /// The buffer; empty while nothing is held.
    bytes: Buffer,
    /// Bytes used up, from the front.
    start: usize,
    /// Bytes received, from the front.
    end: usize,
}

impl Staging {
    /// An empty stage; it takes a buffer from `pool` when bytes come.
    pub(crate) fn new(pool: Rc<StagingPool>) -> Staging {
        Staging {
            pool,
            bytes: Buffer::default(),
            start: 0,
            end: 0,
        }
    }

    /// The space for the next bytes, behind those left over.
    pub(crate) fn space(&mut self) -> &mut [u8] {
        if self.bytes.len() < STAGING_LEN {
            let mut whole = self.pool.take();
            let left = self.end - self.start;
            whole[..left].copy_from_slice(&self.bytes[self.start..self.end]);
            (self.bytes, self.start, self.end) = (whole, 0, left);
        } else if self.start > 0 {
            self.bytes.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        &mut self.bytes[self.end..]
    }

    /// Notes that `count` bytes of the space were filled.
    pub(crate) fn filled(&mut self, count: usize) {
        self.end = (self.end + count).min(self.bytes.len());
    }

    /// The bytes received and not yet used.
    pub(crate) fn received(&self) -> &[u8] {
        &self.bytes[self.start..self.end]
    }

    /// Notes that `count` of the received bytes are used up.
    pub(crate) fn used(&mut self, count: usize) {
        self.start = (self.start + count).min(self.end);
    }

    /// Nothing more will come: gives the buffer back at once. Connections that end together would each hold one.
    pub(crate) fn clear(&mut self) {
        (self.start, self.end) = (0, 0);
        self.rest();
    }

    /// Ends a turn: gives the buffer back, unless bytes are left over. Beyond [`STAGING_HELD_MAX`] holders, these move
    /// to a buffer of their own size: else each peer that sends a part of an FPDU would hold 256 KiB.
    pub(crate) fn rest(&mut self) {
        if self.bytes.len() < STAGING_LEN {
            return;
        }
        let left = self.end - self.start;
        if left > 0 && self.pool.held.get() <= STAGING_HELD_MAX {
            return;
        }
        let kept = Buffer::from_vec(self.received().to_vec());
        self.pool
            .give_back(std::mem::replace(&mut self.bytes, kept));
        (self.start, self.end) = (0, left);
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        if self.bytes.len() == STAGING_LEN {
            self.pool.give_back(std::mem::take(&mut self.bytes));
        }
    }
}

impl StagingPool {
    fn take(&self) -> Buffer {
        self.held.set(self.held.get() + 1);
        self.uses.set(self.uses.get().saturating_add(1));
        let spare = self.spare.borrow_mut().pop();
        spare.unwrap_or_else(|| Buffer::zeroed(STAGING_LEN))
    }

    fn give_back(&self, bytes: Buffer) {
        self.held.set(self.held.get() - 1);
        let mut spare = self.spare.borrow_mut();
        if spare.len() < STAGING_SPARE_MAX {
            spare.push(bytes);
        }
    }

    /// Gives all spare buffers but one back if hardly any was taken since the last call of this; returns their bytes.
    pub(crate) fn trim_unused(&self) -> usize {
        let kept = if self.uses.replace(0) <= RARE_USES_MAX {
            1
        } else {
            STAGING_SPARE_MAX
        };
        self.keep(kept)
    }

    /// Gives spare buffers back to the allocator; returns their bytes.
    pub(crate) fn trim(&self) -> usize {
        self.keep(0)
    }

    fn keep(&self, kept: usize) -> usize {
        let mut spare = self.spare.borrow_mut();
        let freed = spare.len().saturating_sub(kept);
        spare.truncate(kept);
        freed * STAGING_LEN
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_idle_connection_holds_nothing_and_a_left_over_part_is_kept() {
        let pool = Rc::new(StagingPool::default());
        let mut staging = Staging::new(Rc::clone(&pool));
        staging.space()[..5].copy_from_slice(b"hello");
        staging.filled(5);
        staging.used(5);
        staging.rest();
        assert_eq!((pool.held.get(), staging.bytes.len()), (0, 0));
        staging.space()[..5].copy_from_slice(b"again");
        staging.filled(5);
        staging.used(2);
        staging.rest();
        assert_eq!(staging.received(), b"ain");
        staging.space()[0] = b'!';
        staging.filled(1);
        assert_eq!(staging.received(), b"ain!");
        staging.clear();
        assert_eq!((pool.held.get(), staging.received().len()), (0, 0));
        drop(staging);
        assert_eq!(pool.held.get(), 0);
        assert_eq!(pool.trim_unused(), 0, "one stays for those that are few");
        assert_eq!(pool.trim(), STAGING_LEN);
        assert_eq!(pool.trim(), 0, "it had one spare buffer");
    }

    #[test]
    fn many_unfinished_frames_take_only_their_own_size() {
        let pool = Rc::new(StagingPool::default());
        let mut all: Vec<Staging> = (0..STAGING_HELD_MAX + 50)
            .map(|_| Staging::new(Rc::clone(&pool)))
            .collect();
        for staging in &mut all {
            staging.space()[0] = 7;
            staging.filled(1);
            staging.rest();
            assert_eq!(staging.received(), [7]);
        }
        assert_eq!(pool.held.get(), STAGING_HELD_MAX);
    }
}
