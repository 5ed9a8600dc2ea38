//! Files whose short writes the session's thread answers by itself.
//!
//! A write(2) that leaves behind its answer needs nothing of the core but memory. The session's thread queues such a
//! write and answers it, which spares the program one change of threads. Requests that follow are queued behind it. The
//! core closes the window of a file while it has little room, or has a failure to tell.

use std::collections::HashSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The files with an open window, by the kernel's number. The session's thread and the core share it.
#[derive(Debug, Default)]
pub(crate) struct Windows {
    open: Mutex<HashSet<u64>>,
}

impl Windows {
    fn files(&self) -> MutexGuard<'_, HashSet<u64>> {
        // No holder of the lock can panic in between and leave half a change.
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// True if a short write to the file may be answered before the core has it.
    pub(crate) fn is_open(&self, number: u64) -> bool {
        self.files().contains(&number)
    }

    /// Opens or closes the window of a file.
    pub(crate) fn set(&self, number: u64, is_open: bool) {
        let mut files = self.files();
        if is_open {
            files.insert(number);
        } else {
            files.remove(&number);
        }
    }
}
