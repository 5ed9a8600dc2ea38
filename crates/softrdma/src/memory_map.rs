//! Many buffers under one key, for all-physical registration.

use crate::limits::MAP_SLOTS_MAX;
use gannet_runtime::Buffer;
use std::collections::VecDeque;

/// Buffers that come and go at offsets of one region. Each has a slot of its own, far from its neighbours, so that an
/// access can never run from one buffer into the next.
#[derive(Default)]
pub(crate) struct MemoryMap {
    slots: Vec<Option<Buffer>>,
    /// Slots that were in use. The one that has been free longest is used next: a late access by an old offset should
    /// find no other buffer.
    free: VecDeque<usize>,
    held: u64,
}

impl MemoryMap {
    const SLOT_BITS: u32 = 32;
    /// Offsets that a map can have.
    pub(crate) const SPAN: u64 = (MAP_SLOTS_MAX as u64) << MemoryMap::SLOT_BITS;

    /// An empty map.
    pub(crate) fn new() -> MemoryMap {
        MemoryMap::default()
    }

    /// Bytes of the buffers in it.
    pub(crate) fn held(&self) -> u64 {
        self.held
    }

    /// Puts `buffer` in and returns its offset; gives it back when the map is full or the buffer longer than 4 GiB.
    pub(crate) fn place(&mut self, buffer: Buffer) -> Result<u64, Buffer> {
        if buffer.len() as u64 > 1 << MemoryMap::SLOT_BITS {
            return Err(buffer);
        }
        let index = match self.free.pop_front() {
            Some(index) => index,
            None if self.slots.len() < MAP_SLOTS_MAX => {
                self.slots.push(None);
                self.slots.len() - 1
            }
            None => return Err(buffer),
        };
        self.held += buffer.len() as u64;
        self.slots[index] = Some(buffer);
        Ok((index as u64) << MemoryMap::SLOT_BITS)
    }

    /// Takes out the buffer that was placed at `offset`.
    pub(crate) fn displace(&mut self, offset: u64) -> Option<Buffer> {
        let (index, _) = split(offset);
        let buffer = self.slots.get_mut(index)?.take()?;
        self.free.push_back(index);
        self.held -= buffer.len() as u64;
        Some(buffer)
    }

    /// `len` bytes at `offset`, if one buffer holds them all.
    pub(crate) fn bytes(&self, offset: u64, len: usize) -> Option<&[u8]> {
        let (index, start) = split(offset);
        let buffer = self.slots.get(index)?.as_ref()?;
        buffer.get(start..start.checked_add(len)?)
    }

    /// As [`MemoryMap::bytes`].
    pub(crate) fn bytes_mut(&mut self, offset: u64, len: usize) -> Option<&mut [u8]> {
        let (index, start) = split(offset);
        let buffer = self.slots.get_mut(index)?.as_mut()?;
        buffer.get_mut(start..start.checked_add(len)?)
    }
}

/// The slot of `offset`, and the offset within it.
fn split(offset: u64) -> (usize, usize) {
    let index = offset >> MemoryMap::SLOT_BITS;
    let start = offset & ((1 << MemoryMap::SLOT_BITS) - 1);
    let or_nowhere = |value: u64| usize::try_from(value).unwrap_or(usize::MAX);
    (or_nowhere(index), or_nowhere(start))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_come_and_go_without_seeing_each_other() {
        let mut map = MemoryMap::new();
        let first = map.place(Buffer::from_vec(vec![1; 10])).unwrap();
        let second = map.place(Buffer::from_vec(vec![2; 20])).unwrap();
        assert_eq!(map.bytes(second + 4, 16), Some(&[2; 16][..]));
        assert_eq!(map.bytes(first + 4, 7), None, "runs past the buffer");
        assert_eq!(map.held(), 30);
        assert_eq!(map.displace(first).unwrap().len(), 10);
        assert_eq!(map.bytes(first, 1), None);
        assert!(map.displace(first).is_none());
        assert_eq!(map.held(), 20);
    }

    #[test]
    fn a_slot_rests_before_it_is_used_again() {
        let mut map = MemoryMap::new();
        let offsets: Vec<u64> = (0..3)
            .map(|_| map.place(Buffer::zeroed(1)).unwrap())
            .collect();
        map.displace(offsets[2]);
        map.displace(offsets[0]);
        assert_eq!(map.place(Buffer::zeroed(1)).unwrap(), offsets[2]);
    }

    #[test]
    fn offsets_from_nowhere_name_nothing() {
        let map = MemoryMap::new();
        assert_eq!(map.bytes(0, 0), None);
        assert_eq!(map.bytes(u64::MAX, 1), None);
    }
}
