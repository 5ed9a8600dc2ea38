//! Memory that is filled with ranges of files, one behind the other.

use crate::FileRange;
use gannet_runtime::{Buffer, Handle};
use std::io;

/// A buffer that is filled with ranges of files from its start.
pub struct Gather {
    buffer: Buffer,
    /// Bytes of it that are filled.
    filled: usize,
}

impl Gather {
    /// Fills `buffer` from its start.
    pub fn to(buffer: Buffer) -> Gather {
        Gather { buffer, filled: 0 }
    }

    /// Appends a range: at once if it is in the page cache, else from the disk.
    ///
    /// # Errors
    /// As [`FileRange::read`]; the buffer is dropped then.
    pub async fn append(&mut self, range: FileRange, runtime: &Handle) -> io::Result<()> {
        let (at, len) = (self.filled, range.len);
        // Not resident, or an error: the read on the pool reports the error.
        if range.copy(self.room()).is_err() {
            let buffer = std::mem::take(&mut self.buffer);
            // On the heap: rare, and as part of this future it would be moved with each warm read.
            self.buffer = Box::pin(range.read(runtime, buffer, at)).await?;
        }
        self.filled += len;
        Ok(())
    }

    /// Appends `len` zeros.
    ///
    /// # Errors
    /// `InvalidInput`: there is no room for them.
    pub fn append_zeros(&mut self, len: usize) -> io::Result<()> {
        let room = self.room().get_mut(..len);
        room.ok_or(io::ErrorKind::InvalidInput)?.fill(0);
        self.filled += len;
        Ok(())
    }

    /// The memory.
    pub fn into_buffer(self) -> Buffer {
        self.buffer
    }

    fn room(&mut self) -> &mut [u8] {
        self.buffer.get_mut(self.filled..).unwrap_or_default()
    }
}
