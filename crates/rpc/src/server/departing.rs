//! Calls whose replies leave on a byte stream, for services that want to know where their time goes.

use super::Core;
use super::worker::Job;
use crate::limits::{CALLS_MAX, DEPARTING_LEN};
use crate::service::Service;
use gannet_runtime::stages::Stage;
use std::collections::VecDeque;

/// The calls whose replies are among the outgoing bytes of a stream, in their order.
#[derive(Default)]
pub(super) struct Departing {
    /// Each with the number of bytes that the stream has taken once its reply has left.
    calls: VecDeque<(u64, Box<Job>)>,
    /// Bytes that the stream has taken.
    taken: u64,
}

impl Departing {
    /// Adds a call whose reply ends `waiting` bytes behind those that have left. Without a stopwatch, and beyond
    /// [`CALLS_MAX`], its way ends here.
    pub(super) fn push<S: Service>(&mut self, core: &Core<S>, waiting: usize, mut job: Box<Job>) {
        if job.call.dropped.get() {
            // No bytes of it will leave.
            return core.put_job(job);
        }
        if job.watch.is_none() || self.calls.len() >= CALLS_MAX {
            return core.left(job);
        }
        job.enter(Stage::Wire);
        job.depart();
        self.calls.push_back((self.taken + waiting as u64, job));
    }

    /// The stream has taken `bytes` more.
    pub(super) fn took<S: Service>(&mut self, core: &Core<S>, bytes: usize) {
        self.taken += bytes as u64;
        let taken = self.taken;
        while let Some((_, job)) = self.calls.pop_front_if(|(end, _)| *end <= taken) {
            core.left(job);
        }
    }

    /// The reply that leaves next has become shorter by so many bytes.
    pub(super) fn shortened(&mut self, bytes: usize) {
        for (end, _) in &mut self.calls {
            *end = end.saturating_sub(bytes as u64).max(self.taken);
        }
    }

    /// Bytes of memory of the calls.
    pub(super) fn memory(&self) -> usize {
        self.calls.len() * DEPARTING_LEN
    }

    /// The call whose reply leaves next is in `stage` now.
    pub(super) fn next_enters(&self, stage: Stage) {
        if let Some((_, job)) = self.calls.front() {
            job.enter(stage);
        }
    }

    /// Frees its memory, if no call is left.
    pub(super) fn rest(&mut self) {
        if self.calls.is_empty() && self.calls.capacity() > 0 {
            self.calls = VecDeque::new();
        }
    }
}
