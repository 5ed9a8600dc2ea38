//! Operations under way: since when the oldest of them has no reply.

use gannet_runtime::Instant;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;

/// The start times of operations under way, oldest first, without an allocation for each. Numbers grow, so that the end
/// of one finds its entry by binary search.
#[derive(Debug, Default)]
pub struct Waits {
    since: RefCell<VecDeque<(u64, Instant)>>,
    begun: Cell<u64>,
}

/// A guard of an operation under way. Its drop ends the wait also for a future that a deadline drops: an entry that
/// stays would be reported as the oldest wait for ever.
#[derive(Debug)]
pub struct Wait<'a> {
    waits: &'a Waits,
    number: u64,
}

impl Waits {
    /// Begins an operation, which is under way until the result is dropped.
    pub fn begin(&self, now: Instant) -> Wait<'_> {
        let number = self.begun.get() + 1;
        self.begun.set(number);
        self.since.borrow_mut().push_back((number, now));
        Wait {
            waits: self,
            number,
        }
    }

    /// The start of the oldest operation under way; `None` when there is none.
    pub fn oldest(&self) -> Option<Instant> {
        self.since.borrow().front().map(|(_, since)| *since)
    }

    /// How many are under way.
    pub fn count(&self) -> usize {
        self.since.borrow().len()
    }
}

impl Drop for Wait<'_> {
    fn drop(&mut self) {
        let mut since = self.waits.since.borrow_mut();
        if let Ok(index) = since.binary_search_by_key(&self.number, |(number, _)| *number) {
            since.remove(index);
        }
    }
}
