//! A range of an open file, and the ways of its bytes into memory.

use crate::limits::WARM_LEN;
use gannet_fabric::Source;
use gannet_runtime::{Buffer, FileRef, Handle, run_blocking};
use std::io;

/// `len` bytes of a file from `offset` on. The length is fixed: behind the end of the file are zeros.
#[derive(Clone)]
pub struct FileRange {
    /// The file.
    pub file: FileRef,
    /// Bytes from the start of the file.
    pub offset: u64,
    /// Length of the range in bytes.
    pub len: usize,
}

impl FileRange {
    /// The range without its first `start` bytes.
    #[must_use]
    pub fn rest(&self, start: usize) -> FileRange {
        let start = start.min(self.len);
        FileRange {
            file: FileRef::clone(&self.file),
            offset: self.offset + start as u64,
            len: self.len - start,
        }
    }

    /// `len` bytes of the range from its byte `start` on, fewer at its end.
    #[must_use]
    pub fn part(&self, start: u64, len: usize) -> FileRange {
        let rest = self.rest(usize::try_from(start).unwrap_or(usize::MAX));
        FileRange {
            len: len.min(rest.len),
            ..rest
        }
    }

    /// Bytes of memory that the range holds itself: none for a file, its length for bytes that a store has in memory.
    pub fn memory(&self) -> usize {
        let memory = self.file.memory(self.offset, self.len);
        memory.map_or(0, <[u8]>::len)
    }

    /// Whether all of it is in the page cache. A hint, as [`gannet_runtime::FileSource::is_resident`].
    pub fn is_resident(&self) -> bool {
        self.file.is_resident(self.offset, self.len as u64)
    }

    /// `len` bytes of the range from its byte `start` on, as the source of an RDMA Write.
    pub fn source(&self, start: u64, len: u32) -> Source {
        Source::File {
            file: FileRef::clone(&self.file),
            offset: self.offset + start,
            len,
        }
    }

    /// Copies all of it to the start of `target`, which has room for it.
    ///
    /// # Errors
    /// `WouldBlock` when some of it is not in the page cache: then [`FileRange::read`] it. `InvalidInput` for a target
    /// that is too short. Others as read(2). The content of `target` is undefined then.
    pub fn copy(&self, target: &mut [u8]) -> io::Result<()> {
        self.fill(target, |offset, rest| self.file.try_read_at(offset, rest))
    }

    /// Copies to the start of `target` as much of it as one system call reads; returns the number of bytes.
    ///
    /// # Errors
    /// As [`FileRange::copy`], for its first byte.
    pub fn copy_some(&self, target: &mut [u8]) -> io::Result<usize> {
        let wanted = self.len.min(target.len());
        let target = target.get_mut(..wanted).unwrap_or_default();
        match self.file.try_read_at(self.offset, target)? {
            0 => {
                target.fill(0);
                Ok(wanted)
            }
            count => Ok(count.min(wanted)),
        }
    }

    /// Reads all of it to `buffer` from `at` on, where there is room for it, waiting for the disk on the blocking pool.
    ///
    /// # Errors
    /// As read(2), or the runtime is shutting down; the buffer is dropped then.
    pub async fn read(self, runtime: &Handle, mut buffer: Buffer, at: usize) -> io::Result<Buffer> {
        on_pool(runtime, move || {
            let target = buffer.get_mut(at..).unwrap_or_default();
            self.fill(target, |offset, rest| self.file.read_at(offset, rest))?;
            Ok(buffer)
        })
        .await
    }

    /// Brings the range into the page cache, unless it is there.
    ///
    /// # Errors
    /// As [`FileRange::read`].
    pub async fn warm(self, runtime: &Handle) -> io::Result<()> {
        if self.is_resident() {
            return Ok(());
        }
        on_pool(runtime, move || {
            let mut scratch = vec![0; WARM_LEN.min(self.len)];
            let mut done = 0;
            while done < self.len {
                match self.file.read_at(self.offset + done as u64, &mut scratch)? {
                    0 => break,
                    count => done += count,
                }
            }
            Ok(())
        })
        .await
    }

    /// Fills the start of `target` by calls of `read`, which gets a file offset and returns the number of bytes read.
    fn fill(
        &self,
        target: &mut [u8],
        mut read: impl FnMut(u64, &mut [u8]) -> io::Result<usize>,
    ) -> io::Result<()> {
        let target = target.get_mut(..self.len);
        let target = target.ok_or(io::ErrorKind::InvalidInput)?;
        let mut filled = 0;
        while let Some(rest) = target.get_mut(filled..).filter(|rest| !rest.is_empty()) {
            match read(self.offset + filled as u64, rest)? {
                // The file became shorter.
                0 => {
                    rest.fill(0);
                    break;
                }
                count => filled += count,
            }
        }
        Ok(())
    }
}

async fn on_pool<T: Send + 'static>(
    runtime: &Handle,
    job: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    let done = run_blocking(runtime, job).await;
    done.map_err(|_| io::Error::other("the runtime is shutting down"))?
}
