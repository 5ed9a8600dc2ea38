//! A file of the system for the cases.

use gannet_runtime::{FileSource, FileStatus};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::FileExt;

/// A file with a descriptor, whose pages are in the page cache or seem not to be.
pub struct DiskFile {
    /// The file.
    pub file: File,
    is_slow: bool,
}

impl DiskFile {
    /// A file that was just written, and so is in the page cache.
    pub fn cached(file: File) -> DiskFile {
        DiskFile {
            file,
            is_slow: false,
        }
    }

    /// A file that waits for the disk.
    pub fn slow(file: File) -> DiskFile {
        DiskFile {
            file,
            is_slow: true,
        }
    }
}

impl FileSource for DiskFile {
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
        let size = self.file.metadata()?.len();
        Ok(FileStatus {
            size,
            ..FileStatus::default()
        })
    }
}
