//! Optimistic reads of what the peer exports, and what this side exports to it.

use super::queue::Outgoing;
use super::{Link, LinkError, Shared};
use gannet_fabric::{AccessError, Reference, Span};
use tokio::sync::oneshot;

impl Link {
    /// Whether the connection survives refused Reads, so that its two sides can export and read optimistically.
    pub(crate) fn has_exceptions(&self) -> bool {
        self.shared.endpoint.attributes().exceptions
    }

    /// Reads each of `wanted` from what the peer exports: all their bytes, or why not, in their order. What is given up
    /// goes on at the peer, and its bytes come to memory that nobody has any more.
    ///
    /// # Errors
    /// The connection has ended.
    pub(crate) async fn read_exported(
        &self,
        wanted: impl IntoIterator<Item = (Span, Reference)>,
    ) -> Result<Result<(), AccessError>, LinkError> {
        let mut receivers = Vec::new();
        for (sink, source) in wanted {
            let (sender, receiver) = oneshot::channel();
            receivers.push(receiver);
            let id = {
                let mut state = self.shared.state.borrow_mut();
                state.check()?;
                let id = state.take_id();
                state.optimistic.insert(id, sender);
                id
            };
            self.push(Outgoing::ReadExported { id, sink, source });
        }
        let mut outcome = Ok(());
        for receiver in receivers {
            let read = receiver.await.map_err(|_| self.why_over())?;
            outcome = outcome.and(read);
        }
        Ok(outcome)
    }
}

impl Shared {
    /// An optimistic read is over.
    pub(super) fn read_exported(&self, id: u64, outcome: Result<(), AccessError>) {
        let mut state = self.state.borrow_mut();
        state.posted = state.posted.saturating_sub(1);
        state.owed.remove(&id);
        if let Some(waiter) = state.optimistic.remove(&id) {
            // Who waited may be gone.
            let _ = waiter.send(outcome);
        }
    }
}
