//! Registered memory for messages: slots that are made as they are needed, and given back when they are not.

use crate::sys::{Chunk, ProtectionDomain, Slot};
use std::cell::{Cell, RefCell};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Slots of one length, up to a bound. Their memory is registered a chunk at a time.
pub(crate) struct SlotPool {
    domain: Arc<ProtectionDomain>,
    slot_len: usize,
    chunk_slots: u32,
    slots_max: u32,
    made: Cell<u32>,
    chunks: RefCell<Vec<Kept>>,
    taken: Arc<AtomicUsize>,
}

/// Some slots, registered together.
struct Kept {
    chunk: Arc<Chunk>,
    slots: u32,
    /// A slot of it was taken since the last [`SlotPool::trim_unused`].
    was_used: bool,
}

impl SlotPool {
    /// An empty pool.
    pub(crate) fn new(
        domain: &Arc<ProtectionDomain>,
        slot_len: usize,
        chunk_slots: u32,
        slots_max: u32,
    ) -> SlotPool {
        SlotPool {
            domain: Arc::clone(domain),
            slot_len,
            chunk_slots: chunk_slots.max(1),
            slots_max,
            made: Cell::new(0),
            chunks: RefCell::default(),
            taken: Arc::default(),
        }
    }

    /// Bytes of one slot.
    pub(crate) fn slot_len(&self) -> usize {
        self.slot_len
    }

    /// Slots in use.
    pub(crate) fn taken(&self) -> usize {
        self.taken.load(Ordering::Relaxed)
    }

    /// An unused slot; `None` at the bound, or when the device has no room for more.
    pub(crate) fn take(&self) -> Option<Slot> {
        let mut chunks = self.chunks.borrow_mut();
        for index in (0..chunks.len()).rev() {
            if let Some(slot) = chunks[index].chunk.take() {
                chunks[index].was_used = true;
                // The next search begins here.
                let last = chunks.len() - 1;
                chunks.swap(index, last);
                return Some(slot);
            }
        }
        drop(chunks);
        match self.grow() {
            Ok(slot) => slot,
            Err(error) => {
                tracing::warn!(%error, "no more memory could be registered for messages");
                None
            }
        }
    }

    fn grow(&self) -> io::Result<Option<Slot>> {
        let slots = self.chunk_slots.min(self.slots_max - self.made.get());
        if slots == 0 {
            return Ok(None);
        }
        let chunk = Chunk::new(&self.domain, self.slot_len, slots, &self.taken)?;
        let slot = chunk.take();
        self.made.set(self.made.get() + slots);
        self.chunks.borrow_mut().push(Kept {
            chunk,
            slots,
            was_used: true,
        });
        Ok(slot)
    }

    /// True when [`SlotPool::trim_unused`] may find something, now or later.
    pub(crate) fn has_spare(&self) -> bool {
        self.chunks.borrow().len() > 1
    }

    /// Takes back the registrations of slots that were unused since the last call of this, all but the first.
    pub(crate) fn trim_unused(&self) {
        let mut chunks = self.chunks.borrow_mut();
        let mut left = chunks.len();
        chunks.retain_mut(|kept| {
            let is_unused = !kept.was_used && kept.chunk.is_unused(kept.slots);
            kept.was_used = false;
            if !is_unused || left == 1 {
                return true;
            }
            left -= 1;
            self.made.set(self.made.get() - kept.slots);
            false
        });
    }
}
