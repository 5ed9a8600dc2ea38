//! What trees count: their syncs, and the operations that wait for a thread.

use gannet_metrics::{Counter, Exposition, Family, Gauge, Latency, Source};
use std::time::Duration;

const SYNC_SECONDS: Family = Family::latency(
    "gannet_directory_sync_seconds",
    "Times of the syncs of exported directories, each with its wait for a thread.",
);
const SYNC_REQUESTS: Family = Family::counter(
    "gannet_directory_sync_requests",
    "Calls that waited for these syncs; several share one.",
);
const FAILED_SYNCS: Family = Family::counter(
    "gannet_directory_sync_errors",
    "Syncs of exported directories that failed.",
);
const WAITING: Family = Family::gauge(
    "gannet_directory_jobs_waiting",
    "Operations of exported directories that wait for a thread or their turn.",
);

/// Counters of one or more trees; see [`LocalOptions::counters`](super::LocalOptions::counters).
#[derive(Debug, Default)]
pub struct TreeCounters {
    syncs: Latency,
    requests: Counter,
    failed: Counter,
    pub(crate) waiting: Gauge,
}

impl TreeCounters {
    /// Counts a sync that answers so many requests.
    pub(crate) fn synced(&self, took: Duration, requests: usize, has_failed: bool) {
        self.syncs.add(took);
        self.requests.add(requests as u64);
        self.failed.add(u64::from(has_failed));
    }
}

impl Source for TreeCounters {
    fn collect(&self, into: &mut Exposition) {
        into.whole_latency(&SYNC_SECONDS, &[], &self.syncs);
        into.counter(&SYNC_REQUESTS, &[], &self.requests);
        into.counter(&FAILED_SYNCS, &[], &self.failed);
        into.gauge(&WAITING, &[], &self.waiting);
    }
}
