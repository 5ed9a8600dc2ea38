//! What a server has done, for whoever wants to know.

use std::sync::atomic::{AtomicU64, Ordering};

/// One number that only grows; shared between cores.
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

/// A number that comes and goes; shared between cores.
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

    /// What it is now.
    pub fn now(&self) -> u64 {
        self.now.load(Ordering::Relaxed)
    }

    /// The most it ever was.
    pub fn peak(&self) -> u64 {
        self.peak.load(Ordering::Relaxed)
    }
}

/// Counters of a server, over all its connections.
#[derive(Debug, Default)]
pub struct Counters {
    /// Connections accepted.
    pub connections: Counter,
    /// Connections for which there was no room: refused, or let in for another that had made no call yet.
    pub refused: Counter,
    /// Calls answered or under way.
    pub calls: Counter,
    /// Bytes of calls received, with what was read for them by RDMA.
    pub bytes_in: Counter,
    /// Bytes of replies sent, with what was written for them by RDMA or given to the peer to read.
    pub bytes_out: Counter,
    /// Connections ended because of something the peer did or failed to do.
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
    /// Replies that peers were to read by themselves (the Read-Read design).
    pub exposures: Counter,
    /// Bytes of memory that peers can read now.
    pub exposed: Gauge,
    /// Connections ended because their peers were not done with such a reply in time.
    pub overdue: Counter,
}
