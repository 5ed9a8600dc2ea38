//! The deadline of replies.

use super::{Lost, Shared};
use gannet_runtime::{Instant, LocalFuture};
use std::task::Context;

/// The deadline of the oldest call under way.
pub(super) struct ReplyTimer {
    timer: LocalFuture<()>,
    at: Instant,
}

impl ReplyTimer {
    pub(super) fn new(shared: &Shared) -> ReplyTimer {
        let at = shared.calls.runtime.now() + shared.patience.get().reply_timeout;
        ReplyTimer {
            timer: shared.calls.runtime.sleep_until(at),
            at,
        }
    }

    /// Registers for waking when a reply is overdue.
    ///
    /// # Errors
    /// [`Lost::Overdue`] when the reply to a call has not come before its deadline.
    pub(super) fn poll(&mut self, shared: &Shared, context: &mut Context<'_>) -> Result<(), Lost> {
        loop {
            let due = shared.calls.pending.borrow().next_deadline();
            let now = shared.calls.runtime.now();
            if due.is_some_and(|due| due <= now) {
                return Err(Lost::Overdue);
            }
            // Only an earlier deadline sets a new timer: the timer then finds a later one when it fires.
            if let Some(due) = due.filter(|due| *due < self.at) {
                self.set(shared, due);
            }
            if self.timer.as_mut().poll(context).is_pending() {
                return Ok(());
            }
            self.set(
                shared,
                due.unwrap_or(now + shared.patience.get().reply_timeout),
            );
        }
    }

    fn set(&mut self, shared: &Shared, at: Instant) {
        self.timer = shared.calls.runtime.sleep_until(at);
        self.at = at;
    }
}
