//! Memory that connections have freed and that the allocator keeps.

use crate::limits::RELEASE_AFTER;
use gannet_runtime::Handle;
use std::cell::Cell;

/// Connections of a core that have ended, or given up what they grew to, since the allocator was asked to give memory
/// back to the system. The task that trims a core's memory looks here once in [`crate::limits::REST_AFTER`].
#[derive(Debug, Default)]
pub struct Freed {
    /// Connections that ended since the last look.
    new: Cell<u32>,
    /// Connections that ended before it.
    waiting: Cell<u32>,
}

impl Freed {
    /// Notes that a connection has ended, or has freed its tables.
    pub fn note(&self) {
        self.new.set(self.new.get().saturating_add(1));
    }

    /// Whether there are any since the last look.
    pub fn has_new(&self) -> bool {
        self.new.get() > 0
    }

    /// Asks the allocator if at least [`RELEASE_AFTER`] of them were counted at the last look. Those since then wait
    /// for the next look, because their providers free memory of theirs in between.
    pub fn look(&self, runtime: &Handle) {
        if self.waiting.get() >= RELEASE_AFTER {
            self.release(runtime);
        }
        let waiting = self.waiting.get().saturating_add(self.new.take());
        self.waiting.set(waiting);
    }

    /// Asks the allocator if any wait; for a core that idles.
    pub fn look_idle(&self, runtime: &Handle) {
        if self.waiting.get() > 0 {
            self.release(runtime);
        }
    }

    fn release(&self, runtime: &Handle) {
        self.waiting.set(0);
        runtime.release_memory();
    }
}
