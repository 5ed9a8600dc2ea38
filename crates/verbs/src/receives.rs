//! Receives: those that a connection owns, and queues that connections share.
//!
//! A receive of a connection's own takes a message slot and is copied into its buffer when its message comes. The
//! memory of buffers that are longer than a slot is registered for the time that they are posted.

use crate::messages::SlotPool;
use crate::region::VerbsDomain;
use crate::sys::{
    CompletionQueue, Piece, ProtectionDomain, ReceiveWork, Registration, SharedQueue, Slot,
};
use crate::work::name_of_shared;
use gannet_fabric::{PostError, SharedReceiveQueue, SharedReceives, WorkId};
use gannet_runtime::Buffer;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::io;
use std::rc::Rc;
use std::sync::Arc;

/// Slots of a shared queue that are registered at once.
const CHUNK_SLOTS: u32 = 256;

/// A receive of a connection's own, in the device. The place is dropped before the buffer, whose memory it may pin.
struct OwnReceive {
    id: WorkId,
    place: Place,
    buffer: Buffer,
}

/// The memory that the device fills.
enum Place {
    Slot(Slot),
    Buffer(Registration),
}

/// The receives of one connection without a shared queue, oldest first.
#[derive(Default)]
pub(crate) struct OwnReceives {
    posted: VecDeque<OwnReceive>,
    /// Receives that were ever posted.
    count: u64,
}

impl OwnReceives {
    pub(crate) fn len(&self) -> usize {
        self.posted.len()
    }

    /// Adds a receive, and returns its number and its memory for the post.
    ///
    /// # Errors
    /// Its memory could not be registered.
    pub(crate) fn add(
        &mut self,
        id: WorkId,
        mut buffer: Buffer,
        slots: &SlotPool,
        domain: &VerbsDomain,
    ) -> io::Result<(u64, Piece)> {
        let too_long = || io::Error::from(io::ErrorKind::InvalidInput);
        let len = u32::try_from(buffer.len()).map_err(|_| too_long())?;
        let slot = (buffer.len() <= slots.slot_len()).then(|| slots.take());
        let place = match slot.flatten() {
            Some(slot) => Place::Slot(slot),
            None if len == 0 => return Err(io::ErrorKind::OutOfMemory.into()),
            None => Place::Buffer(domain.register_message(&mut buffer)?),
        };
        let piece = match &place {
            // Not every device takes a receive of no bytes: that of an empty buffer has one.
            Place::Slot(slot) => slot.piece(len.max(1)),
            Place::Buffer(registration) => registration.piece(0, len),
        };
        let piece = piece.ok_or_else(too_long)?;
        self.posted.push_back(OwnReceive { id, place, buffer });
        self.count += 1;
        Ok((self.count - 1, piece))
    }

    /// Takes back the receive that was added last, because it could not be posted.
    pub(crate) fn take_last(&mut self) {
        if self.posted.pop_back().is_some() {
            self.count -= 1;
        }
    }

    /// Takes the oldest receive, whose message of `len` bytes has come.
    pub(crate) fn take(&mut self, len: u32) -> Option<(WorkId, Buffer)> {
        let receive = self.posted.pop_front()?;
        let OwnReceive {
            id,
            place,
            mut buffer,
        } = receive;
        if let Place::Slot(slot) = &place {
            let len = (len as usize).min(buffer.len());
            buffer[..len].copy_from_slice(&slot.as_ref()[..len]);
        }
        drop(place);
        Some((id, buffer))
    }

    /// Takes all receives, whose queue pair is destroyed.
    pub(crate) fn drain(&mut self) -> Vec<(WorkId, Buffer)> {
        let posted = std::mem::take(&mut self.posted).into_iter();
        posted
            .map(|OwnReceive { id, place, buffer }| {
                drop(place);
                (id, buffer)
            })
            .collect()
    }
}

/// A shared receive queue of a device.
pub(crate) struct VerbsReceiveQueue {
    id: WorkId,
    serial: u32,
    // Destroyed before the slots that are posted to it.
    queue: Rc<SharedQueue>,
    /// Room for the completions of all its receives, so that no message overruns it.
    completions: Rc<CompletionQueue>,
    receives_max: u32,
    slots: SlotPool,
    posted: RefCell<PostedSlots>,
    /// Posted receives that no message has taken.
    count: Cell<u32>,
}

/// The slots in the device, by the number that their completions bear.
#[derive(Default)]
struct PostedSlots {
    slots: Vec<Option<Slot>>,
    free: Vec<u32>,
}

impl PostedSlots {
    fn put(&mut self, slot: Slot) -> u32 {
        if let Some(index) = self.free.pop() {
            self.slots[index as usize] = Some(slot);
            return index;
        }
        self.slots.push(Some(slot));
        (self.slots.len() - 1) as u32
    }

    fn take(&mut self, index: u32) -> Option<Slot> {
        let slot = self.slots.get_mut(index as usize)?.take()?;
        self.free.push(index);
        Some(slot)
    }
}

impl VerbsReceiveQueue {
    /// An empty queue, whose receives complete to `completions`.
    ///
    /// # Errors
    /// The device has no room for it.
    pub(crate) fn new(
        domain: &Arc<ProtectionDomain>,
        options: SharedReceives,
        serial: u32,
        completions: CompletionQueue,
    ) -> io::Result<Rc<VerbsReceiveQueue>> {
        let receives_max = options.receives_max;
        Ok(Rc::new(VerbsReceiveQueue {
            id: options.id,
            serial,
            queue: Rc::new(SharedQueue::new(domain, receives_max.max(1))?),
            completions: Rc::new(completions),
            receives_max,
            slots: SlotPool::new(domain, options.len.max(1), CHUNK_SLOTS, receives_max),
            posted: RefCell::default(),
            count: Cell::new(0),
        }))
    }

    /// The queue in the device, for a new pair.
    pub(crate) fn queue(&self) -> &Rc<SharedQueue> {
        &self.queue
    }

    /// The number of the queue in its provider.
    pub(crate) fn serial(&self) -> u32 {
        self.serial
    }

    /// The completions of its receives.
    pub(crate) fn completions(&self) -> &Rc<CompletionQueue> {
        &self.completions
    }

    /// The receive that a completion names, as its work and memory.
    pub(crate) fn take(&self, index: u32) -> Option<(WorkId, Buffer)> {
        let slot = self.posted.borrow_mut().take(index)?;
        self.count.set(self.count.get().saturating_sub(1));
        Some((self.id, Buffer::from_lent(slot)))
    }

    /// Posts the receive that a completion names again: its message counts for nothing.
    pub(crate) fn post_again(&self, index: u32) {
        let slot = self.posted.borrow_mut().take(index);
        if let Some(slot) = slot
            && self.post_slots(vec![slot]).is_err()
        {
            self.count.set(self.count.get().saturating_sub(1));
            tracing::error!("a receive could not be posted again");
        }
    }

    fn post_slots(&self, slots: Vec<Slot>) -> Result<(), PostError> {
        let mut posted = self.posted.borrow_mut();
        let len = u32::try_from(self.slots.slot_len()).unwrap_or(u32::MAX);
        let mut indices = Vec::with_capacity(slots.len());
        let mut work = Vec::with_capacity(slots.len());
        for slot in slots {
            let Some(piece) = slot.piece(len) else {
                continue;
            };
            let index = posted.put(slot);
            let id = name_of_shared(self.serial, index);
            indices.push(index);
            work.push(ReceiveWork { id, piece });
        }
        let Err(first) = self.queue.post(&work) else {
            return Ok(());
        };
        // Those before it are posted and stay.
        for index in indices.split_off(first) {
            drop(posted.take(index));
        }
        Err(PostError::QueueFull)
    }
}

impl SharedReceiveQueue for VerbsReceiveQueue {
    fn post(&self, count: u32) -> Result<(), PostError> {
        if count > self.room() {
            return Err(PostError::QueueFull);
        }
        let slots: Option<Vec<Slot>> = (0..count).map(|_| self.slots.take()).collect();
        self.post_slots(slots.ok_or(PostError::QueueFull)?)?;
        self.count.set(self.count.get() + count);
        Ok(())
    }

    fn posted(&self) -> u32 {
        self.count.get()
    }

    fn room(&self) -> u32 {
        let taken = u32::try_from(self.slots.taken()).unwrap_or(u32::MAX);
        self.receives_max.saturating_sub(taken)
    }

    fn in_use(&self) -> usize {
        let posted = self.count.get() as usize;
        self.slots.taken().saturating_sub(posted) * self.slots.slot_len()
    }

    fn trim_unused(&self) {
        self.slots.trim_unused();
    }
}

impl std::fmt::Debug for VerbsReceiveQueue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("VerbsReceiveQueue")
            .field("posted", &self.count.get())
            .field("receives_max", &self.receives_max)
            .finish_non_exhaustive()
    }
}

/// The side of a connection that receives.
pub(crate) enum ReceiveSide {
    Own(OwnReceives),
    /// The receives of a shared queue that the peer may still take.
    Shared {
        /// Kept: its slots must outlive the pair.
        _queue: Rc<VerbsReceiveQueue>,
        granted: u32,
    },
}

impl ReceiveSide {
    /// Takes one message off the grant; false when the peer has none left.
    pub(crate) fn use_grant(&mut self) -> bool {
        match self {
            ReceiveSide::Own(_) => false,
            ReceiveSide::Shared { granted, .. } => match granted.checked_sub(1) {
                Some(left) => {
                    *granted = left;
                    true
                }
                None => false,
            },
        }
    }
}
