//! Ranges of files on their way.

#![allow(clippy::unwrap_used)]

mod datapath;
mod range;

use gannet_datapath::FileRange;
use gannet_runtime::FileSource;
use gannet_testing::pattern;
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A file of which the first `resident` bytes are in the page cache, until it is read.
struct TestFile {
    bytes: Vec<u8>,
    resident: AtomicUsize,
    /// Bytes that one system call brings.
    step: usize,
}

impl TestFile {
    fn read(&self, offset: u64, buffer: &mut [u8]) -> usize {
        let rest = self.bytes.get(offset as usize..).unwrap_or_default();
        let count = rest.len().min(buffer.len()).min(self.step);
        buffer[..count].copy_from_slice(&rest[..count]);
        count
    }
}

impl FileSource for TestFile {
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    fn try_read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let (offset_len, resident) = (offset as usize, self.resident.load(Ordering::Relaxed));
        if offset_len >= resident && offset_len < self.bytes.len() {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        Ok(self.read(offset, buffer))
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        self.resident.store(self.bytes.len(), Ordering::Relaxed);
        Ok(self.read(offset, buffer))
    }

    fn is_resident(&self, offset: u64, len: u64) -> bool {
        let end = (offset + len).min(self.bytes.len() as u64);
        end <= self.resident.load(Ordering::Relaxed) as u64
    }
}

/// `len` bytes from `offset` on of a file of 1000 bytes, of which the first `resident` are in the page cache.
fn range(resident: usize, offset: u64, len: usize) -> FileRange {
    let file = TestFile {
        bytes: pattern(1000),
        resident: AtomicUsize::new(resident),
        step: 300,
    };
    let file = Arc::new(file);
    FileRange { file, offset, len }
}

/// The expected bytes of a range, with zeros behind the end of the file.
fn expected(range: &FileRange) -> Vec<u8> {
    let start = range.offset as usize;
    let mut bytes = pattern(1000);
    bytes.resize(start + range.len, 0);
    bytes.split_off(start)
}
