//! Bytes that are fetched, and the memory that they take meanwhile. Clients that stand still may come to hold all of
//! it: when others need some, who was asked for his bytes first and has not sent them loses his connection.

use crate::limits::FETCH_AGE_MAX;
use crate::link::Link;
use gannet_runtime::{Handle, Instant, LogLimit};
use gannet_session::limits::LOG_INTERVAL;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use tokio::sync::oneshot;

/// See the module.
pub(super) struct Fetches {
    runtime: Handle,
    next: Cell<u64>,
    /// By their numbers, the oldest first.
    under_way: RefCell<BTreeMap<u64, UnderWay>>,
    log: LogLimit,
}

struct UnderWay {
    since: Instant,
    link: Link,
    /// Dropped when it is over.
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

    /// Ends the oldest fetch with its connection, if it has lasted for [`FETCH_AGE_MAX`]: what comes back is dropped
    /// when its memory is free.
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
            tracing::warn!(%peer, left_out, "others need the memory for bytes that do not come");
        }
        link.abort("no bytes, and others need the memory for them");
        Some(over)
    }
}

impl Drop for Fetch<'_> {
    fn drop(&mut self) {
        self.fetches.under_way.borrow_mut().remove(&self.number);
    }
}
