//! Session slots (RFC 8881 section 2.10.6.1): the manager knows a change that it has done by its slot and sequence.

use crate::limits::{SESSION_SLOTS, SESSION_SLOTS_WAITING};
use gannet_wire::volume::{SlotSequence, Token};
use std::cell::RefCell;
use tokio::sync::{Semaphore, SemaphorePermit};

/// A client's slots. A change waits for a free one.
pub(super) struct SessionSlots {
    client: Token,
    /// Free slots and the sequence of the next change in each.
    free: RefCell<Vec<(u32, u64)>>,
    /// One permit for each free slot.
    permits: Semaphore,
    /// One permit for each slot that a change may have which waits for I/O servers: the others stay free for the rest.
    waiting: Semaphore,
}

impl SessionSlots {
    /// `client` must be new, never used by any client: with an old one the manager would answer from its reply cache.
    pub(super) fn new(client: Token) -> SessionSlots {
        SessionSlots {
            client,
            free: RefCell::new((0..SESSION_SLOTS).map(|slot| (slot, 1)).collect()),
            permits: Semaphore::new(SESSION_SLOTS as usize),
            waiting: Semaphore::new(SESSION_SLOTS_WAITING as usize),
        }
    }

    /// A slot for a change, which may have to wait for I/O servers or not.
    pub(super) async fn take(&self, waits_for_servers: bool) -> HeldSlot<'_> {
        // No code closes the semaphores.
        let waits = if waits_for_servers {
            self.waiting.acquire().await.ok()
        } else {
            None
        };
        let permit = self.permits.acquire().await.ok();
        let free = self.free.borrow_mut().pop();
        // There are as many permits as slots.
        let (slot, sequence) = free.unwrap_or((SESSION_SLOTS, 1));
        HeldSlot {
            slot_sequence: SlotSequence {
                client: self.client,
                slot,
                sequence,
            },
            slots: self,
            _permits: (permit, waits),
        }
    }
}

/// A slot in use. Dropped, it is free for the next change.
pub(super) struct HeldSlot<'a> {
    pub(super) slot_sequence: SlotSequence,
    slots: &'a SessionSlots,
    _permits: (Option<SemaphorePermit<'a>>, Option<SemaphorePermit<'a>>),
}

impl Drop for HeldSlot<'_> {
    fn drop(&mut self) {
        let SlotSequence { slot, sequence, .. } = self.slot_sequence;
        // The next sequence, also when the change was given up: the old one would be answered with its reply.
        self.slots.free.borrow_mut().push((slot, sequence + 1));
    }
}
