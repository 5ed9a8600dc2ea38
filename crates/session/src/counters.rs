//! Numbers that cores count together.

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
    /// Adds `count`.
    pub fn raise(&self, count: u64) {
        let now = self.now.fetch_add(count, Ordering::Relaxed) + count;
        self.peak.fetch_max(now, Ordering::Relaxed);
    }

    /// Takes `count` away.
    pub fn lower(&self, count: u64) {
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
