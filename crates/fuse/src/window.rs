//! Files whose short writes the session's thread answers by itself.
//!
//! A write(2) that leaves behind its answer needs nothing of the core but memory. The session's thread queues such a
//! write and answers it, which spares the program one change of threads. Requests that follow are queued behind it. The
//! core closes the window of a file while it has little room, has a failure to tell, or has set-ID bits: a write takes
//! those.

use std::collections::HashSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The files with an open window, by the kernel's number. The session's thread and the core share it.
#[derive(Debug, Default)]
pub(crate) struct Windows {
    open: Mutex<HashSet<u64>>,
    /// The keys of what root opened, by which other users may write.
    of_root: Mutex<HashSet<u64>>,
}

/// No holder of the lock can panic in between and leave half a change.
fn locked(files: &Mutex<HashSet<u64>>) -> MutexGuard<'_, HashSet<u64>> {
    files.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Windows {
    /// True if a short write to the file may be answered before the core has it.
    pub(crate) fn is_open(&self, number: u64) -> bool {
        locked(&self.open).contains(&number)
    }

    /// True if root opened the file with this key.
    pub(crate) fn is_of_root(&self, key: u64) -> bool {
        locked(&self.of_root).contains(&key)
    }

    /// Notes that root opens a file with this key.
    pub(crate) fn root_opens(&self, key: u64) {
        locked(&self.of_root).insert(key);
    }

    /// The file with this key is closed.
    pub(crate) fn closed(&self, key: u64) {
        locked(&self.of_root).remove(&key);
    }

    /// Opens or closes the window of a file.
    pub(crate) fn set(&self, number: u64, is_open: bool) {
        let mut files = locked(&self.open);
        if is_open {
            files.insert(number);
        } else {
            files.remove(&number);
        }
    }
}
