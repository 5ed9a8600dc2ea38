//! The bytes of a simulated file: the visible content, the durable content, and the unsynced writes between them.

use crate::limits::FILE_MAX;
use crate::random::Random;
use gannet_runtime::{FileSource, FileStatus};
use gannet_vfs::{Status, Time};
use std::collections::BTreeSet;
use std::io;
use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Bytes of a page.
const PAGE: usize = 4096;

/// A simulated file's content. It has a lock because transports read it through [`FileSource`], which is `Sync`.
#[derive(Default)]
pub(super) struct FileBytes {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    data: Vec<u8>,
    durable: Vec<u8>,
    /// Writes that are in `data` and not in `durable`, oldest first, with their offsets. A crash keeps a subset.
    unsynced: Vec<(usize, Vec<u8>)>,
    /// Pages that are not in the page cache: a read of them must wait for the disk.
    cold: BTreeSet<usize>,
    /// Times of the last write and of the last change, as the inode has them.
    modified: Time,
    changed: Time,
}

impl FileBytes {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn len(&self) -> u64 {
        self.state().data.len() as u64
    }

    /// Writes unstably.
    pub(super) fn write(&self, offset: u64, bytes: &[u8]) -> Result<(), Status> {
        if bytes.is_empty() {
            return Ok(());
        }
        let start = position(offset, bytes.len())?;
        let mut state = self.state();
        place(&mut state.data, start, bytes);
        state.bring(start..start + bytes.len());
        state.unsynced.push((start, bytes.to_vec()));
        Ok(())
    }

    /// Makes everything written so far durable.
    pub(super) fn sync(&self) {
        let mut state = self.state();
        for (start, bytes) in std::mem::take(&mut state.unsynced) {
            place(&mut state.durable, start, &bytes);
        }
    }

    /// Cuts the file, or extends it with zeros; durable at once, with all that was written before.
    pub(super) fn set_len(&self, len: u64) -> Result<(), Status> {
        let len = position(len, 0)?;
        self.sync();
        let mut state = self.state();
        resize(&mut state.data, len);
        resize(&mut state.durable, len);
        state.cold.split_off(&len.div_ceil(PAGE));
        Ok(())
    }

    /// Notes the inode's times, which [`FileSource::status`] reports.
    pub(super) fn note_times(&self, modified: Time, changed: Time) {
        let mut state = self.state();
        (state.modified, state.changed) = (modified, changed);
    }

    /// Drops the file from the page cache.
    pub(super) fn evict(&self) {
        self.state().drop_pages(|| true);
    }

    /// Drops `per_mille` of a thousand of its pages from the page cache.
    pub(super) fn evict_pages(&self, random: &Random, per_mille: u64) {
        self.state().drop_pages(|| random.chance(per_mille));
    }

    /// Loses or keeps each unsynced write, as the seed says, as a power failure does.
    pub(super) fn crash(&self, random: &Random) {
        let mut state = self.state();
        for (start, bytes) in std::mem::take(&mut state.unsynced) {
            if random.chance(500) {
                place(&mut state.durable, start, &bytes);
            }
        }
        state.data = state.durable.clone();
        state.cold.clear();
        state.drop_pages(|| true);
    }
}

/// Bytes of disk that a file of `size` bytes takes: whole pages.
pub(super) fn disk_use(size: u64) -> u64 {
    size.next_multiple_of(PAGE as u64)
}

/// The start of a write of `len` bytes at `offset`, if the file may become so long.
fn position(offset: u64, len: usize) -> Result<usize, Status> {
    let end = offset.checked_add(len as u64).ok_or(Status::Fbig)?;
    if end > FILE_MAX {
        return Err(Status::Fbig);
    }
    usize::try_from(offset).map_err(|_| Status::Fbig)
}

/// Cuts `data`, or extends it with zeros: by whole pieces of memory, because `Vec::resize` goes byte by byte in builds
/// without optimization, and simulated files have gigabytes.
fn resize(data: &mut Vec<u8>, len: usize) {
    match len.checked_sub(data.len()) {
        None => data.truncate(len),
        Some(more) if data.is_empty() => *data = vec![0; more],
        Some(more) => data.append(&mut vec![0; more]),
    }
}

fn place(data: &mut Vec<u8>, start: usize, bytes: &[u8]) {
    let end = start + bytes.len();
    if data.len() < end {
        resize(data, end);
    }
    data[start..end].copy_from_slice(bytes);
}

/// The pages that bytes lie in.
fn pages(bytes: Range<usize>) -> Range<usize> {
    bytes.start / PAGE..bytes.end.div_ceil(PAGE)
}

impl State {
    fn drop_pages(&mut self, mut drops: impl FnMut() -> bool) {
        let dropped = pages(0..self.data.len()).filter(|_| drops());
        self.cold.extend(dropped);
    }

    /// Enters these bytes into the page cache.
    fn bring(&mut self, bytes: Range<usize>) {
        if !self.cold.is_empty() {
            pages(bytes).for_each(|page| {
                self.cold.remove(&page);
            });
        }
    }

    /// The part of these bytes that lies within the file.
    fn there(&self, offset: u64, len: usize) -> Range<usize> {
        let start = usize::try_from(offset).unwrap_or(usize::MAX);
        let start = start.min(self.data.len());
        start..start.saturating_add(len).min(self.data.len())
    }

    /// The first of these bytes that is not in the page cache.
    fn first_cold(&self, bytes: &Range<usize>) -> Option<usize> {
        let page = *self.cold.range(pages(bytes.clone())).next()?;
        Some((page * PAGE).max(bytes.start)).filter(|_| !bytes.is_empty())
    }

    fn copy(&self, offset: u64, buffer: &mut [u8]) -> usize {
        let start = usize::try_from(offset).unwrap_or(usize::MAX);
        let rest = self.data.get(start..).unwrap_or_default();
        let count = rest.len().min(buffer.len());
        buffer[..count].copy_from_slice(&rest[..count]);
        count
    }
}

impl FileSource for FileBytes {
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    fn try_read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let state = self.state();
        let bytes = state.there(offset, buffer.len());
        let len = match state.first_cold(&bytes) {
            Some(cold) if cold == bytes.start => return Err(io::ErrorKind::WouldBlock.into()),
            Some(cold) => cold - bytes.start,
            None => bytes.len(),
        };
        Ok(state.copy(offset, &mut buffer[..len]))
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let mut state = self.state();
        let bytes = state.there(offset, buffer.len());
        state.bring(bytes);
        Ok(state.copy(offset, buffer))
    }

    fn is_resident(&self, offset: u64, len: u64) -> bool {
        let state = self.state();
        let bytes = state.there(offset, usize::try_from(len).unwrap_or(usize::MAX));
        state.first_cold(&bytes).is_none()
    }

    fn status(&self) -> io::Result<FileStatus> {
        let state = self.state();
        let size = state.data.len() as u64;
        Ok(FileStatus {
            size,
            used: disk_use(size),
            modified: state.modified.into(),
            changed: state.changed.into(),
        })
    }
}
