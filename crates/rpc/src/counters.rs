//! Counters of a server.

use std::sync::atomic::{AtomicU64, Ordering};

/// One number that only grows; shared between cores. Updates are relaxed: readers need no order between counters.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds `count`.
    pub fn add(&self, count: u64) {
        self.0.fetch_add(count, Ordering::Relaxed);
    }

    /// The sum so far.
    pub fn total(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// A number that rises and falls, with its peak; shared between cores.
#[derive(Debug, Default)]
pub struct Gauge {
    now: AtomicU64,
    peak: AtomicU64,
}

impl Gauge {
    pub(crate) fn raise(&self, count: u64) {
        let now = self.now.fetch_add(count, Ordering::Relaxed) + count;
        self.peak.fetch_max(now, Ordering::Relaxed);
    }

    pub(crate) fn lower(&self, count: u64) {
        self.now.fetch_sub(count, Ordering::Relaxed);
    }

    /// The present value.
    pub fn now(&self) -> u64 {
        self.now.load(Ordering::Relaxed)
    }

    /// The largest value so far.
    pub fn peak(&self) -> u64 {
        self.peak.load(Ordering::Relaxed)
    }
}

/// Counters of a server, over all its connections.
#[derive(Debug, Default)]
pub struct Counters {
    /// Connections accepted.
    pub connections: Counter,
    /// Connections for which there was no room: refused, or admitted in the place of an evicted one.
    pub refused: Counter,
    /// Calls answered or under way.
    pub calls: Counter,
    /// Bytes of calls received, including those read by RDMA.
    pub bytes_in: Counter,
    /// Bytes of replies sent, including those written by RDMA or exposed for the peer to read.
    pub bytes_out: Counter,
    /// Connections ended because the peer broke the protocol or missed a deadline.
    pub drops: Counter,
    /// Calls answered from the duplicate request cache, or by waiting for their first execution.
    pub replays: Counter,
    /// Nanoseconds during which connections did not read because a bound was reached (calls or bytes in flight, or
    /// receive memory).
    pub starved_ns: Counter,
    /// Replies that could not be sent because their files could not be read.
    pub unreadable: Counter,
    /// RPC/RDMA transport errors answered (ERR_VERS, ERR_CHUNK).
    pub transport_errors: Counter,
    /// Replies exposed for peers to read (the Read-Read design).
    pub exposures: Counter,
    /// Bytes of memory that peers can read now.
    pub exposed: Gauge,
    /// Connections ended because their peers did not release such a reply in time.
    pub overdue: Counter,
}
