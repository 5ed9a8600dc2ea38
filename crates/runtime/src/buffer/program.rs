//! Memory that a program has brought, as a slot that serves one transfer after the other.

use super::{Buffer, Home, Memory, SlotId};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A slot whose memory a program has brought: it has one name for all its uses, so a registration of it can be kept.
///
/// One user has it at a time. Its [`Buffer`] comes back when it is dropped, wherever that happens: also by an operation
/// that failed, or whose caller has given it up. Clones are the same slot.
#[derive(Clone)]
pub struct ProgramSlot {
    shared: Arc<ProgramShared>,
}

pub(super) struct ProgramShared {
    id: SlotId,
    len: usize,
    state: Mutex<ProgramState>,
}

struct ProgramState {
    /// `None` while a user has the memory, and after it was taken out.
    bytes: Option<Memory>,
    /// The owner to which the memory belonged before.
    former: Option<(Home, SlotId)>,
}

impl ProgramSlot {
    /// Takes memory over, under a name that no other memory ever has.
    pub fn new(mut memory: Buffer) -> ProgramSlot {
        let (bytes, former) = (std::mem::take(&mut memory.bytes), memory.home.take());
        ProgramSlot {
            shared: Arc::new(ProgramShared {
                id: SlotId::fresh(),
                len: bytes.len(),
                state: Mutex::new(ProgramState {
                    bytes: Some(bytes),
                    former,
                }),
            }),
        }
    }

    /// Its name; that of its buffers too.
    pub fn id(&self) -> SlotId {
        self.shared.id
    }

    /// Bytes of the memory.
    pub fn len(&self) -> usize {
        self.shared.len
    }

    /// Whether it has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The memory; `None` while its last user has it. A user that an adapter has lost it to has it for ever.
    pub fn take(&self) -> Option<Buffer> {
        Some(Buffer {
            bytes: self.shared.state().bytes.take()?,
            home: Some((Home::Program(Arc::clone(&self.shared)), self.id())),
        })
    }

    /// The memory as it was before it became a slot, without its name. The slot has no memory any more.
    ///
    /// # Errors
    /// The buffer is not of this slot, and comes back.
    pub fn take_out(&self, mut buffer: Buffer) -> Result<Buffer, Buffer> {
        if buffer.slot() != Some(self.id()) {
            return Err(buffer);
        }
        let former = self.shared.state().former.take();
        buffer.home = former;
        Ok(buffer)
    }
}

impl ProgramShared {
    pub(super) fn put_back(&self, bytes: Memory) {
        self.state().bytes = Some(bytes);
    }

    fn state(&self) -> MutexGuard<'_, ProgramState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for ProgramShared {
    fn drop(&mut self) {
        let mut state = self.state();
        let (bytes, home) = (state.bytes.take(), state.former.take());
        drop(state);
        // A slot of an arena goes back to it.
        drop(bytes.map(|bytes| Buffer { bytes, home }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Arena;

    #[test]
    fn memory_of_a_program_has_one_name_and_one_user_at_a_time() {
        let own = vec![7u8; 100];
        let address = own.as_ptr();
        let slot = ProgramSlot::new(Buffer::from_vec(own));
        for round in 0..3 {
            let mut buffer = slot.take().unwrap();
            assert_eq!((buffer.slot(), buffer.len()), (Some(slot.id()), slot.len()));
            assert_eq!((buffer.as_ptr(), buffer[0]), (address, 7 + round));
            assert!(slot.take().is_none(), "it has a user");
            buffer[0] += 1;
        }
        let other = ProgramSlot::new(Buffer::zeroed(1));
        let buffer = other.take_out(slot.take().unwrap()).unwrap_err();
        let own = slot.take_out(buffer).unwrap();
        assert_eq!((own.as_ptr(), own[0], own.slot()), (address, 10, None));
        drop(own);
        assert!(slot.take().is_none(), "the slot is empty");
    }

    #[test]
    fn memory_comes_back_from_another_thread() {
        let slot = ProgramSlot::new(Buffer::zeroed(8));
        let buffer = slot.take().unwrap();
        std::thread::spawn(move || drop(buffer)).join().unwrap();
        assert!(slot.take().is_some());
    }

    #[test]
    fn a_slot_of_an_arena_goes_back_to_it() {
        let arena = Arena::new(4096, 1);
        let first = arena.take().unwrap();
        let name = first.slot();
        let slot = ProgramSlot::new(first);
        assert_ne!(Some(slot.id()), name);
        drop(slot.take());
        assert_eq!(arena.in_use(), 1);
        drop(slot);
        assert_eq!((arena.in_use(), arena.idle()), (0, 1));
        let slot = ProgramSlot::new(arena.take().unwrap());
        let buffer = slot.take_out(slot.take().unwrap()).unwrap();
        assert_eq!(buffer.slot(), name);
        drop(buffer);
        assert_eq!(arena.in_use(), 0);
    }
}
