//! Slabs: slots for buffers, in size classes under one bound.

use crate::buffer::{SlotBudget, Split};
use crate::{Arena, Buffer};
use std::sync::{Arc, Mutex, PoisonError};

/// Arenas whose slots are powers of two long, with one bound for the bytes of all of them: memory for messages whose
/// length is known only when they come. A message's slot, which may be registered for it, is at most twice as long.
///
/// Clones share everything. Any mix of lengths may use up the bound; unused slots of one class count against it until
/// [`Slabs::trim`].
#[derive(Clone)]
pub struct Slabs {
    /// The arenas by slab length, each twice the one before.
    classes: Vec<Arena>,
    /// Longer slots that serve as several of a class, by class.
    splits: Arc<Mutex<Vec<Vec<Arc<Split>>>>>,
}

impl Slabs {
    /// Slots from `slot_len_min` to `slot_len_max` bytes, both rounded up to powers of two, `bytes_max` bytes in all;
    /// none of them made yet.
    pub fn new(slot_len_min: usize, slot_len_max: usize, bytes_max: usize) -> Slabs {
        Slabs::within(&SlotBudget::new(bytes_max), slot_len_min, slot_len_max)
    }

    /// The same, with a bound that they share with others.
    pub fn within(budget: &Arc<SlotBudget>, slot_len_min: usize, slot_len_max: usize) -> Slabs {
        let (min, max) = (
            slot_len_min.next_power_of_two(),
            slot_len_max.next_power_of_two(),
        );
        let lens = std::iter::successors(Some(min), |len| len.checked_mul(2));
        let classes: Vec<Arena> = lens
            .take_while(|len| *len <= max)
            .map(|len| Arena::within(budget, len))
            .collect();
        let splits = classes.iter().map(|_| Vec::new()).collect();
        Slabs {
            classes,
            splits: Arc::new(Mutex::new(splits)),
        }
    }

    /// Bytes of the longest slots.
    pub fn slot_len_max(&self) -> usize {
        self.classes.last().map_or(0, Arena::slot_len)
    }

    /// A slot of the smallest class that holds `len` bytes, with the bytes of its last user in it; when the bound is
    /// reached, an unused one of a larger class. `None` when there is neither (wait for one to come back, or trim), and
    /// for more than [`Slabs::slot_len_max`].
    pub fn take(&self, len: usize) -> Option<Buffer> {
        self.fitting(len).iter().find_map(Arena::take)
    }

    /// As [`Slabs::take_or_split`]; idle shorter slots that hold the room are given up for it.
    pub fn take_or_trim(&self, len: usize) -> Option<Buffer> {
        self.take_or_split(len).or_else(|| {
            self.trim();
            self.take_or_split(len)
        })
    }

    /// As [`Slabs::take`]; but a longer slot is cut into several, and becomes one again when all of them are back. Only
    /// for memory whose registrations end with each use: a part has a name of its own in each.
    pub fn take_or_split(&self, len: usize) -> Option<Buffer> {
        let class = self.classes.partition_point(|it| it.slot_len() < len);
        let own = self.classes.get(class)?;
        if let Some(buffer) = own.take() {
            return Some(buffer);
        }
        let mut splits = self.splits.lock().unwrap_or_else(PoisonError::into_inner);
        let splits = splits.get_mut(class)?;
        splits.retain(|split| !split.is_joined());
        if let Some(part) = splits.iter().find_map(Split::take) {
            return Some(part);
        }
        let mut longer = self.classes.iter().skip(class + 1);
        let split = longer.find_map(|it| it.split_idle(own.slot_len()))?;
        let part = split.take();
        splits.push(split);
        part
    }

    /// The classes whose slots hold `len` bytes.
    fn fitting(&self, len: usize) -> &[Arena] {
        let first = self.classes.partition_point(|class| class.slot_len() < len);
        self.classes.get(first..).unwrap_or(&[])
    }

    /// Bytes of slots in use now.
    pub fn in_use(&self) -> usize {
        let bytes = |class: &Arena| class.in_use() * class.slot_len();
        self.classes.iter().map(bytes).sum()
    }

    /// Bytes of unused slots, whose memory is kept.
    pub fn idle(&self) -> usize {
        let bytes = |class: &Arena| class.idle() * class.slot_len();
        self.classes.iter().map(bytes).sum()
    }

    /// Gives the memory of unused slots back to the system, and their bytes to all classes. Revoke registrations of
    /// them before (`Strategy::reclaim` of the fabric): one that outlived its memory would let a peer reach the
    /// memory's next user.
    pub fn trim(&self) {
        self.classes.iter().for_each(Arena::trim);
    }

    /// Takes the slots out that were not used since the last call of this; see [`Arena::take_unused`].
    pub fn take_unused(&self) -> Vec<Buffer> {
        self.classes.iter().flat_map(Arena::take_unused).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_takes_the_smallest_slot_that_holds_it() {
        let slabs = Slabs::new(4096, 1 << 20, 8 << 20);
        for (len, slot_len) in [
            (0, 4096),
            (4096, 4096),
            (4097, 8192),
            (100_000, 128 << 10),
            (1 << 20, 1 << 20),
        ] {
            assert_eq!(slabs.take(len).unwrap().len(), slot_len, "{len}");
        }
        assert!(slabs.take((1 << 20) + 1).is_none());
        assert_eq!(slabs.slot_len_max(), 1 << 20);
        assert_eq!(slabs.in_use(), 0);
    }

    #[test]
    fn all_lengths_share_one_bound() {
        let slabs = Slabs::new(4096, 1 << 20, 2 << 20);
        let large = slabs.take(1 << 20).unwrap();
        let small: Vec<Buffer> = std::iter::from_fn(|| slabs.take(4096)).collect();
        assert_eq!(small.len(), 256);
        assert_eq!(slabs.in_use(), 2 << 20);
        drop(small);
        assert_eq!((slabs.in_use(), slabs.idle()), (1 << 20, 1 << 20));
        assert!(slabs.take(1 << 20).is_none(), "small slots hold the room");
        slabs.trim();
        assert_eq!(slabs.idle(), 0);
        assert!(slabs.take(1 << 20).is_some());
        drop(large);
        // A large one that idles will do for a small message.
        let slots: Vec<Buffer> = std::iter::from_fn(|| slabs.take(1)).collect();
        assert_eq!(slots.len(), 2);
        assert!(slots.iter().all(|slot| slot.len() == 1 << 20));
    }

    #[test]
    fn a_slot_that_idles_is_cut_when_shorter_ones_run_out_and_is_whole_again_after() {
        let slabs = Slabs::new(64 << 10, 1 << 20, 1 << 20);
        let mut large = slabs.take(1 << 20).unwrap();
        large.fill(7);
        let (slot, address) = (large.slot(), large.as_ptr());
        drop(large);
        let all =
            || -> Vec<Buffer> { std::iter::from_fn(|| slabs.take_or_split(64 << 10)).collect() };
        for _ in 0..2 {
            let mut parts = all();
            assert_eq!(parts.len(), 16, "no byte is lost");
            assert!(parts.iter().all(|part| part.len() == 64 << 10));
            parts
                .iter_mut()
                .zip(0..)
                .for_each(|(part, it)| part.fill(it));
            for (part, it) in parts.iter().zip(0u8..) {
                assert!(
                    part.iter().all(|byte| *byte == it),
                    "no part overlaps another"
                );
            }
            let names: std::collections::HashSet<_> = parts.iter().map(Buffer::slot).collect();
            assert!(names.len() == 16 && !names.contains(&slot));
            assert_eq!((slabs.in_use(), slabs.idle()), (1 << 20, 0));
            // One that comes back serves again while the others are away.
            parts.pop();
            assert!(slabs.take_or_split(1 << 20).is_none());
            parts.extend(slabs.take_or_split(10));
            assert_eq!(parts.len(), 16);
        }
        let whole = slabs.take(1 << 20).unwrap();
        assert_eq!(
            (whole.slot(), whole.as_ptr(), whole.len()),
            (slot, address, 1 << 20)
        );
        assert!(slabs.take_or_split(64 << 10).is_none());
    }

    #[test]
    fn slots_that_were_not_used_leave_with_their_names() {
        let slabs = Slabs::new(4096, 8192, 8192);
        let name = slabs.take(8192).unwrap().slot();
        assert!(
            slabs.take_unused().is_empty(),
            "it was used since the start"
        );
        let unused = slabs.take_unused();
        assert_eq!(unused.iter().map(Buffer::slot).collect::<Vec<_>>(), [name]);
        assert_eq!((slabs.idle(), slabs.in_use()), (0, 0));
        let next = slabs.take(8192).unwrap();
        assert_ne!(next.slot(), name);
        // They do not come back.
        drop((unused, next));
        assert_eq!(slabs.idle(), 8192);
    }

    #[test]
    fn a_slot_keeps_its_name() {
        let slabs = Slabs::new(4096, 8192, 1 << 20);
        let slot = slabs.take(5000).unwrap().slot();
        assert!(slot.is_some());
        let other = slabs.take(4000).unwrap();
        assert_ne!(other.slot(), slot);
        assert_eq!(slabs.take(8192).unwrap().slot(), slot);
    }
}
