//! Fetches: RDMA Reads of a client's bytes, and the memory that they take meanwhile. Stalled clients could hold all of
//! it. When another fetch needs memory, the client with the oldest fetch loses its connection.

use crate::limits::FETCH_AGE_MAX;
use crate::link::{EndReason, Link};
use gannet_runtime::{Handle, Instant, LogLimit};
use gannet_session::limits::LOG_INTERVAL;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use tokio::sync::oneshot;

/// The fetches of a core.
pub(super) struct Fetches {
    runtime: Handle,
    next: Cell<u64>,
    /// Fetches by their numbers, the oldest first.
    under_way: RefCell<BTreeMap<u64, UnderWay>>,
    log: LogLimit,
}

struct UnderWay {
    since: Instant,
    link: Link,
    /// Dropped at its end: that wakes the fetches that wait for its memory.
    waited_for: Vec<oneshot::Sender<()>>,
}

/// A fetch that is under way until this is dropped.
pub(super) struct Fetch<'a> {
    fetches: &'a Fetches,
    number: u64,
}

impl Fetches {
    pub(super) fn new(runtime: Handle) -> Fetches {
        Fetches {
            runtime,
            next: Cell::new(0),
            under_way: RefCell::default(),
            log: LogLimit::new(LOG_INTERVAL),
        }
    }

    /// A fetch from the peer of `link` begins.
    pub(super) fn begin(&self, link: &Link) -> Fetch<'_> {
        let number = self.next.get();
        self.next.set(number + 1);
        let fetch = UnderWay {
            since: self.runtime.now(),
            link: link.clone(),
            waited_for: Vec::new(),
        };
        self.under_way.borrow_mut().insert(number, fetch);
        let fetches = self;
        Fetch { fetches, number }
    }

    /// Ends the oldest fetch with its connection, if it has lasted for [`FETCH_AGE_MAX`]. The sender of the result is
    /// dropped when the memory is free.
    pub(super) fn end_oldest(&self) -> Option<oneshot::Receiver<()>> {
        let (link, over) = {
            let mut under_way = self.under_way.borrow_mut();
            let oldest = under_way.first_entry()?.into_mut();
            if self.runtime.now() < oldest.since + FETCH_AGE_MAX {
                return None;
            }
            let (waited_for, over) = oneshot::channel();
            oldest.waited_for.push(waited_for);
            (oldest.link.clone(), over)
        };
        let peer = link.endpoint().peer_address();
        if let Some(left_out) = self.log.admit(self.runtime.now()) {
            tracing::warn!(%peer, left_out, "a peer lost its connection: others need the memory for its bytes, which do not come");
        }
        link.abort(EndReason::MemoryForBytes);
        Some(over)
    }
}

impl Drop for Fetch<'_> {
    fn drop(&mut self) {
        self.fetches.under_way.borrow_mut().remove(&self.number);
    }
}
