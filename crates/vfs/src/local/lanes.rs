//! Short queues in front of the blocking pool.
//!
//! A visit to the pool costs about ten microseconds of waking and switching. Changes of one directory or file exclude
//! each other in the kernel anyway, so they stand in one queue (a lane), and one visit works off all that is in it.
//! Different objects mostly have different lanes and go on in parallel.

use super::clock_map::lock;
use super::tree::LocalTree;
use crate::Status;
use crate::limits::LANES;
use gannet_runtime::{BlockingJob, Handle};
use std::collections::VecDeque;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex};

/// The lanes of one core.
pub(crate) struct Lanes {
    runtime: Handle,
    tree: Arc<LocalTree>,
    lanes: [Arc<Lane>; LANES],
}

#[derive(Default)]
struct Lane {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    jobs: VecDeque<BlockingJob>,
    visiting: bool,
}

/// One visit to the pool. Dropped before its end (the runtime shuts down), it drops the jobs too, and whoever waits
/// for them hears of it.
struct Visit {
    lane: Arc<Lane>,
    tree: Arc<LocalTree>,
    finished: bool,
}

impl Lanes {
    pub(crate) fn new(tree: Arc<LocalTree>, runtime: Handle) -> Lanes {
        Lanes {
            runtime,
            tree,
            lanes: Default::default(),
        }
    }

    /// Runs `job` after those before it in the lane that `key` picks. Its thread may take on any identity.
    ///
    /// # Errors
    /// `Jukebox` when the runtime shuts down meanwhile.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        key: u64,
        job: impl FnOnce(&Arc<LocalTree>) -> T + Send + 'static,
    ) -> Result<T, Status> {
        let tree = Arc::clone(&self.tree);
        let (job, answer) = answered(move || job(&tree));
        let lane = &self.lanes[key as usize % LANES];
        let first = {
            let mut state = lock(&lane.state);
            state.jobs.push_back(job);
            !std::mem::replace(&mut state.visiting, true)
        };
        if first {
            let visit = Visit {
                lane: Arc::clone(lane),
                tree: Arc::clone(&self.tree),
                finished: false,
            };
            self.runtime
                .submit_blocking(Box::new(move || visit.work_off()));
        }
        answer.await
    }

    /// Runs `job` on the pool beside all others.
    ///
    /// # Errors
    /// As [`Lanes::run`].
    pub(crate) async fn run_beside<T: Send + 'static>(
        &self,
        job: impl FnOnce(&Arc<LocalTree>) -> T + Send + 'static,
    ) -> Result<T, Status> {
        let tree = Arc::clone(&self.tree);
        gannet_runtime::run_blocking(&self.runtime, move || {
            let value = job(&tree);
            end_visit(&tree);
            value
        })
        .await
        .map_err(|_| Status::Jukebox)
    }

    /// Drops values on the pool: closing the last descriptor of a removed file frees its blocks, which takes time.
    pub(crate) fn drop_beside<T: Send + 'static>(&self, values: Vec<T>) {
        if !values.is_empty() {
            self.runtime.submit_blocking(Box::new(move || drop(values)));
        }
    }
}

/// A job that hands its value to whoever waits for it.
fn answered<T: Send + 'static>(
    job: impl FnOnce() -> T + Send + 'static,
) -> (BlockingJob, impl Future<Output = Result<T, Status>>) {
    let (sender, receiver) = tokio::sync::oneshot::channel();
    let job = Box::new(move || {
        // The waiter may be gone.
        let _ = sender.send(job());
    });
    (job, async { receiver.await.map_err(|_| Status::Jukebox) })
}

/// No thread goes back to the pool as somebody else.
fn end_visit(tree: &LocalTree) {
    drop(tree.take_retired(0));
    if tree.identities.assume_own().is_err() {
        tracing::warn!("a thread could not take its own identity back");
    }
}

impl Visit {
    fn work_off(mut self) {
        while let Some(job) = self.next() {
            if std::panic::catch_unwind(AssertUnwindSafe(job)).is_err() {
                tracing::error!("a file operation panicked; its caller is told to try again");
            }
        }
        self.finished = true;
        end_visit(&self.tree);
    }

    fn next(&self) -> Option<BlockingJob> {
        let mut state = lock(&self.lane.state);
        let job = state.jobs.pop_front();
        state.visiting = job.is_some();
        job
    }
}

impl Drop for Visit {
    fn drop(&mut self) {
        if self.finished {
            return;
        }
        let abandoned = {
            let mut state = lock(&self.lane.state);
            state.visiting = false;
            std::mem::take(&mut state.jobs)
        };
        drop(abandoned);
    }
}
