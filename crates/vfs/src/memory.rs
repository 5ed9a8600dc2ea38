//! Bytes in memory as a file that transports can send: what a remote store has read.

use gannet_runtime::{Buffer, FileRef, FileSource};
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

/// Part of a file, in memory.
struct InMemory {
    start: u64,
    buffer: Buffer,
    len: usize,
}

/// The first `len` bytes of `buffer` as those of a file at `start`. The memory is dropped with the last reference.
pub fn in_memory(start: u64, buffer: Buffer, len: usize) -> FileRef {
    let len = len.min(buffer.len());
    Arc::new(InMemory { start, buffer, len })
}

impl FileSource for InMemory {
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    fn memory(&self, offset: u64, len: usize) -> Option<&[u8]> {
        let skip = usize::try_from(offset.checked_sub(self.start)?).ok()?;
        let rest = self.buffer.get(..self.len)?.get(skip..).unwrap_or_default();
        Some(rest.get(..len).unwrap_or(rest))
    }

    fn try_read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let bytes = self.memory(offset, buffer.len()).unwrap_or_default();
        if let Some(to) = buffer.get_mut(..bytes.len()) {
            to.copy_from_slice(bytes);
        }
        Ok(bytes.len())
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        self.try_read_at(offset, buffer)
    }

    fn is_resident(&self, _offset: u64, _len: u64) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_range_that_was_read_is_there() {
        let file = in_memory(100, Buffer::from_vec(b"abcdef".to_vec()), 4);
        let mut taken = [0; 8];
        assert_eq!(file.try_read_at(101, &mut taken).unwrap(), 3);
        assert_eq!(&taken[..3], b"bcd");
        assert_eq!(file.read_at(104, &mut taken).unwrap(), 0);
        assert_eq!(file.read_at(99, &mut taken).unwrap(), 0);
        assert_eq!(file.memory(100, 2), Some(&b"ab"[..]));
        assert_eq!(file.memory(99, 2), None);
    }
}
