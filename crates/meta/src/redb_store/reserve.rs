//! Blocks of the disk that a growing file has before it needs them, so that a full disk does not stop its next writes.
//!
//! They lie behind the last byte that was written, within the file's length or beyond it. No other program can take
//! them, as it could take those of a spare file that is deleted just then. A copy of the file does not have them.

use crate::limits::{RESERVE_LEN, RESERVE_STEP};
use rustix::fs::{FallocateFlags, SeekFrom, fallocate, seek};
use rustix::io::Errno;
use std::fs::File;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// The reserve of a store's file.
#[derive(Debug)]
pub(super) struct Reserve {
    file: File,
    /// Where what was ever written ends.
    end: AtomicU64,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Up to here the file has its blocks.
    allocated: u64,
    is_short: bool,
    /// The file system does not know how.
    is_unable: bool,
}

impl Reserve {
    /// The reserve of a database file; `file` is a handle of its own.
    ///
    /// # Errors
    /// The file cannot be asked for its length.
    pub(super) fn of(file: File) -> io::Result<Reserve> {
        let end = AtomicU64::new(data_end(&file)?);
        let state = Mutex::default();
        Ok(Reserve { file, end, state })
    }

    /// The file was written up to `end`.
    pub(super) fn was_written(&self, end: u64) {
        self.end.fetch_max(end, Ordering::Relaxed);
    }

    /// Where the bytes end that were ever written.
    pub(super) fn end(&self) -> u64 {
        self.end.load(Ordering::Relaxed)
    }

    /// The file was cut to `len`, or made longer: a cut takes all blocks behind it.
    pub(super) fn has_length(&self, len: u64, before: u64) {
        if len > before {
            return;
        }
        self.end.fetch_min(len, Ordering::Relaxed);
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.allocated = state.allocated.min(len);
    }

    /// Takes blocks in place of those that were used. Whether at least [`RESERVE_LEN`] bytes are there now, or the file
    /// system has no such thing.
    pub(super) fn renew(&self) -> bool {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let needed = self.end.load(Ordering::Relaxed).saturating_add(RESERVE_LEN);
        if state.is_unable || state.allocated >= needed {
            return true;
        }
        let wanted = needed.saturating_add(RESERVE_STEP);
        match self.allocate(state.allocated, wanted) {
            Ok(()) => {
                state.allocated = wanted;
                if std::mem::take(&mut state.is_short) {
                    tracing::info!("there is room for the metadata again");
                }
                true
            }
            Err(Errno::NOSPC | Errno::DQUOT | Errno::FBIG) => {
                if !std::mem::replace(&mut state.is_short, true) {
                    tracing::warn!(
                        "the disk of the metadata is full: nothing new can be made in the volume until there is \
                         room again; what is there can be used and removed"
                    );
                }
                false
            }
            Err(error) => {
                state.is_unable = true;
                tracing::info!(
                    %error,
                    "the file system of the metadata sets no room aside: should it become full, the manager stops"
                );
                true
            }
        }
    }

    fn allocate(&self, from: u64, to: u64) -> Result<(), Errno> {
        loop {
            match fallocate(&self.file, FallocateFlags::KEEP_SIZE, from, to - from) {
                Err(Errno::INTR) => {}
                outcome => return outcome,
            }
        }
    }
}

/// Where the last data of a file ends that may have holes.
fn data_end(file: &File) -> io::Result<u64> {
    let len = file.metadata()?.len();
    let mut end = 0;
    while end < len {
        let data = match seek(file, SeekFrom::Data(end)) {
            Ok(data) => data,
            // No more of it.
            Err(Errno::NXIO) => return Ok(end),
            // Holes are not known of here.
            Err(_) => return Ok(len),
        };
        end = seek(file, SeekFrom::Hole(data)).map_or(len, |hole| hole.max(end + 1));
    }
    Ok(end)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{FileExt, MetadataExt};

    #[test]
    fn blocks_are_there_before_they_are_needed_and_after_a_cut() {
        let file = tempfile::tempfile().unwrap();
        let reserve = Reserve::of(file.try_clone().unwrap()).unwrap();
        let blocks = || file.metadata().unwrap().blocks() * 512;
        assert!(reserve.renew());
        let is_able = !reserve.state.lock().unwrap().is_unable;
        let has = |bytes: u64| assert!(!is_able || blocks() >= bytes, "{} {bytes}", blocks());
        has(RESERVE_LEN);
        assert_eq!(file.metadata().unwrap().len(), 0);
        // It grows at once to where most of it is a hole.
        file.set_len(4 * RESERVE_LEN).unwrap();
        reserve.has_length(4 * RESERVE_LEN, 0);
        file.write_all_at(&[7; 4096], 2 * RESERVE_LEN).unwrap();
        reserve.was_written(2 * RESERVE_LEN + 4096);
        assert!(reserve.renew());
        has(3 * RESERVE_LEN);
        file.set_len(RESERVE_LEN).unwrap();
        reserve.has_length(RESERVE_LEN, 4 * RESERVE_LEN);
        assert!(reserve.renew());
        has(2 * RESERVE_LEN);
    }

    #[test]
    fn the_end_of_what_was_written_is_found_again() {
        let file = tempfile::tempfile().unwrap();
        assert_eq!(data_end(&file).unwrap(), 0);
        file.write_all_at(&[1; 10], 0).unwrap();
        file.write_all_at(&[1; 100], 1 << 20).unwrap();
        file.set_len(1 << 24).unwrap();
        let reserve = Reserve::of(file.try_clone().unwrap()).unwrap();
        assert!(reserve.renew());
        let end = data_end(&file).unwrap();
        // Blocks that were set aside are no data; file systems without holes say all of it is.
        let all = 1 << 24;
        assert!((1_048_676..1_200_000).contains(&end) || end == all, "{end}");
    }
}
