//! Open files as transports read them: the source of an RDMA Write or of a READ reply.

use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

/// A shared reference to an open file.
pub type FileRef = Arc<dyn FileSource>;

/// An open file whose content a transport may send. Positions are bytes from the start of the file.
pub trait FileSource: Send + Sync {
    /// The kernel's descriptor, for sendfile(2) and mappings; `None` for a simulated file.
    fn descriptor(&self) -> Option<BorrowedFd<'_>>;

    /// At most `len` bytes from `offset` on, if they are in this process's own memory, so that no read is needed.
    /// `None` for files of the system, and for ranges that are not in memory.
    fn memory(&self, _offset: u64, _len: usize) -> Option<&[u8]> {
        None
    }

    /// Reads bytes that are in the page cache at `offset`: up to `buffer.len()`, 0 at or past the end of the file.
    ///
    /// # Errors
    /// `WouldBlock` when the first byte would have to come from the disk; then use [`FileSource::read_at`] on the
    /// blocking pool. Others as read(2).
    fn try_read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize>;

    /// Reads at `offset`, waiting for the disk if it must; also leaves the pages in the cache. Only for the
    /// blocking pool.
    ///
    /// # Errors
    /// As read(2).
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize>;

    /// True when the whole range (clipped to the file) is in the page cache. Then sendfile(2), or a copy from a
    /// mapping, does not wait for the disk. It is a hint: pages may be evicted a moment later, and now and then a
    /// kernel misses pages that are there.
    fn is_resident(&self, offset: u64, len: u64) -> bool;

    /// Length, disk use and times of the file at this moment. Never waits for the disk.
    ///
    /// # Errors
    /// `Unsupported` for files that keep no times; others as fstat(2).
    fn status(&self) -> io::Result<FileStatus> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

/// Length, disk use and times of an open file at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FileStatus {
    /// Length in bytes, holes included.
    pub size: u64,
    /// Bytes of disk that the file takes.
    pub used: u64,
    /// Time of the last write.
    pub modified: FileTime,
    /// Time of the last change of content or attributes.
    pub changed: FileTime,
}

/// A time that a file keeps: seconds since the Unix epoch, and nanoseconds after that second.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FileTime {
    /// Seconds; negative before 1970.
    pub seconds: i64,
    /// Nanoseconds after the second, below 10^9.
    pub nanoseconds: u32,
}

/// Brings `len` bytes of `file` at `offset` into memory on the blocking pool and returns them; shorter at the end
/// of the file.
///
/// # Errors
/// As read(2), or when the runtime is shutting down.
pub async fn read_cold(
    runtime: &crate::Handle,
    file: FileRef,
    offset: u64,
    mut buffer: Vec<u8>,
) -> io::Result<(Vec<u8>, usize)> {
    crate::run_blocking(runtime, move || {
        let mut filled = 0;
        while let Some(rest) = buffer.get_mut(filled..).filter(|rest| !rest.is_empty()) {
            match file.read_at(offset + filled as u64, rest)? {
                0 => break,
                count => filled += count,
            }
        }
        Ok((buffer, filled))
    })
    .await
    .map_err(|_| io::Error::other("the runtime is shutting down"))?
}
