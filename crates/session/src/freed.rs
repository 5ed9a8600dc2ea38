//! Memory that connections have freed and the allocator keeps.

use crate::limits::RELEASE_AFTER;
use gannet_runtime::Handle;
use std::cell::Cell;

/// Connections of a core that have ended, or given up what they grew to, since the allocator was asked to give memory
/// back to the system. The task that trims a core's memory looks here once in [`crate::limits::REST_AFTER`].
#[derive(Debug, Default)]
pub struct Freed {
    /// Since the last look.
    new: Cell<u32>,
    /// Before it.
    waiting: Cell<u32>,
}

impl Freed {
    /// A connection has ended, or given up what it grew to.
    pub fn note(&self) {
        self.new.set(self.new.get().saturating_add(1));
    }

    /// Whether there are any since the last look.
    pub fn has_new(&self) -> bool {
        self.new.get() > 0
    }

    /// Asks the allocator if [`RELEASE_AFTER`] of them were there at the last look. Those since then wait for the next
    /// one: until then their providers give up theirs as well.
    pub fn look(&self, runtime: &Handle) {
        if self.waiting.get() >= RELEASE_AFTER {
            self.release(runtime);
        }
        let waiting = self.waiting.get().saturating_add(self.new.take());
        self.waiting.set(waiting);
    }

    /// The core idles: asks the allocator if any wait.
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
