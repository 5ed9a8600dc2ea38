//! A file of the system for the cases.

use gannet_runtime::{FileSource, FileStatus};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::FileExt;

/// A file with a descriptor, whose pages are in the page cache or seem not to be.
pub struct DiskFile<F> {
    /// The file.
    pub file: F,
    is_slow: bool,
}

impl<F> DiskFile<F> {
    /// A file that was just written, and so is in the page cache.
    pub fn cached(file: F) -> DiskFile<F> {
        DiskFile {
            file,
            is_slow: false,
        }
    }

    /// A file that waits for the disk.
    pub fn slow(file: F) -> DiskFile<F> {
        DiskFile {
            file,
            is_slow: true,
        }
    }
}

impl<F: AsFd + FileExt + Send + Sync> FileSource for DiskFile<F> {
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.file.as_fd())
    }

    fn try_read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        if self.is_slow {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        self.file.read_at(buffer, offset)
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        self.file.read_at(buffer, offset)
    }

    fn is_resident(&self, _offset: u64, _len: u64) -> bool {
        !self.is_slow
    }

    fn status(&self) -> io::Result<FileStatus> {
        let size = rustix::fs::fstat(&self.file)?.st_size;
        Ok(FileStatus {
            size: u64::try_from(size).unwrap_or(0),
            ..FileStatus::default()
        })
    }
}
