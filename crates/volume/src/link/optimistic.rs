//! Optimistic reads of what the peer exports.
//!
//! A lone read is polled for: its poster looks at the socket itself, for as long as such answers used to take to come,
//! so that neither the runtime nor the connection's task is between them. Any other goes the way of all work.

use super::error::EndReason;
use super::queue::Outgoing;
use super::{Link, LinkError, Shared};
use crate::limits::{LOOK_POINTS_IN_VAIN, LOOK_POINTS_MAX, LOOK_POINTS_MIN, LOOKS_IN_A_ROW_MAX};
use gannet_fabric::{AccessError, Reference, Span};
use gannet_runtime::Instant;
use std::cell::Cell;
use tokio::sync::oneshot;

/// The receiver of the outcome of an optimistic read.
type Waiter = oneshot::Receiver<Result<(), AccessError>>;

/// A read of exported memory.
pub(crate) struct ExportedRead {
    /// Where the bytes go.
    pub(crate) sink: Span,
    /// The source, of as many bytes.
    pub(crate) source: Reference,
}

/// Whether polling for an answer pays: one point more for each that came in time, some less for one that did not.
#[derive(Default)]
pub(super) struct Looking {
    points: Cell<u32>,
    /// Answers that came so, one after the other: others want to run as well.
    in_a_row: Cell<u32>,
}

impl Looking {
    fn pays(&self) -> bool {
        let others_first = self.in_a_row.get() >= LOOKS_IN_A_ROW_MAX;
        if others_first {
            self.in_a_row.set(0);
        }
        !others_first && self.points.get() >= LOOK_POINTS_MIN
    }

    fn came(&self) {
        self.points
            .set((self.points.get() + 1).min(LOOK_POINTS_MAX));
    }

    /// Reads come several at a time: one that is polled for would hold up the others, which leave together.
    fn has_company(&self) {
        self.points.set(0);
    }

    fn looked(&self, found: bool) {
        if found {
            self.came();
            self.in_a_row.set(self.in_a_row.get() + 1);
        } else {
            self.points
                .set(self.points.get().saturating_sub(LOOK_POINTS_IN_VAIN));
        }
    }
}

impl Link {
    /// Whether the connection survives refused Reads, so that its two sides can export and read optimistically.
    pub(crate) fn has_exceptions(&self) -> bool {
        self.shared.endpoint.attributes().exceptions
    }

    /// The time, as deadlines of the connection count it.
    pub(crate) fn now(&self) -> Instant {
        self.shared.runtime.now()
    }

    /// Whether a later term than `term` of the peer, a manager, was heard of: it may not know.
    pub(crate) fn is_of_earlier_term(&self, term: u64) -> bool {
        self.shared.pool.terms.successor_of(term).is_some()
    }

    /// Reads from what the peer exports, at `since`: all bytes of the sink, or the exception. An abandoned read goes on
    /// at the peer; its bytes come to a sink that no other read uses.
    ///
    /// # Errors
    /// The connection has ended: any variant of [`LinkError`] but `TooLong` and `Memory`.
    pub(crate) async fn read_exported(
        &self,
        read: ExportedRead,
        since: Instant,
    ) -> Result<Result<(), AccessError>, LinkError> {
        let shared = &self.shared;
        let limit = shared.runtime.look_max();
        let is_alone = shared.is_quiet();
        if !is_alone {
            shared.looking.has_company();
        }
        let mut waiter = self.post_exported(read)?;
        if !limit.is_zero() && is_alone && shared.looking.pays() {
            if let Some(outcome) = shared.post_and_look(&mut waiter, since + limit)? {
                return Ok(outcome);
            }
        } else {
            shared.queued.notify();
        }
        let outcome = waiter.await.map_err(|_| self.why_over());
        if is_alone && shared.runtime.now() < since + limit + limit {
            shared.looking.came();
        }
        outcome
    }

    fn post_exported(&self, read: ExportedRead) -> Result<Waiter, LinkError> {
        let ExportedRead { sink, source } = read;
        let (sender, receiver) = oneshot::channel();
        let mut state = self.shared.state.borrow_mut();
        state.check()?;
        let id = state.expect_read(sender);
        state
            .outgoing
            .push_back(Outgoing::ReadExported { id, sink, source });
        Ok(receiver)
    }
}

impl Shared {
    /// Nothing of ours is on its way or about to be.
    fn is_quiet(&self) -> bool {
        let state = self.state.borrow();
        state.outgoing.is_empty() && state.owed.is_empty()
    }

    /// Posts what is queued, and looks for what `waiter` waits for until `until`.
    fn post_and_look(
        self: &std::rc::Rc<Self>,
        waiter: &mut Waiter,
        until: Instant,
    ) -> Result<Option<Result<(), AccessError>>, LinkError> {
        if let Err(error) = self.post() {
            let why = LinkError::from(EndReason::from(error));
            self.end(why.clone());
            return Err(why);
        }
        self.endpoint.flush();
        let mut completions = Vec::new();
        let mut found = None;
        while found.is_none() && self.runtime.now() < until {
            if self.endpoint.look(&mut completions) == 0 {
                std::hint::spin_loop();
                continue;
            }
            for completion in completions.drain(..) {
                if let Err(why) = self.complete(completion) {
                    self.endpoint.abort(&why.to_string());
                    self.end(why.clone().into());
                    return Err(why.into());
                }
            }
            found = waiter.try_recv().ok();
            if found.is_none() {
                // Something else came, and may have made work.
                self.queued.notify();
            }
        }
        self.looking.looked(found.is_some());
        Ok(found)
    }

    /// A Read is over.
    pub(super) fn read_ended(&self, id: u64, outcome: Result<(), AccessError>) {
        let mut state = self.state.borrow_mut();
        state.posted = state.posted.saturating_sub(1);
        state.owed.remove(&id);
        if let Some(waiter) = state.reads.remove(&id) {
            // Who waited may be gone.
            let _ = waiter.send(outcome);
        }
    }
}
