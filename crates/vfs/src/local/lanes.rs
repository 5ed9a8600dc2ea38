//! Short queues in front of the blocking pool.
//!
//! A visit to the pool costs about ten microseconds of waking and switching. Changes of one directory or file exclude
//! each other in the kernel anyway, so they stand in one queue (a lane), and one visit works off all that is in it.
//! Different objects mostly have different lanes and go on in parallel.
//!
//! Results go back in batches too: the core is woken once for all the jobs that were done within a short time. Woken
//! for each, it would take the processor away from the visit as often (measured with 32 creations in flight on tmpfs:
//! 25 us of CPU per creation then, see docs/decisions).

use super::clock_map::lock;
use super::tree::LocalTree;
use crate::Status;
use crate::limits::LANES;
use gannet_runtime::Handle;
use std::collections::VecDeque;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::sync::oneshot;

/// How long the results of a visit are gathered before they go back.
const GATHER: Duration = Duration::from_micros(100);
/// Most results that are gathered.
const GATHER_MAX: usize = 64;

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
    jobs: VecDeque<Box<dyn Job>>,
    visiting: bool,
}

/// Something to do, whose result is handed over in a step of its own.
trait Job: Send {
    fn run(&mut self);
    fn hand_over(self: Box<Self>);
}

/// A job with the place its waiter looks at.
struct Answered<T, F> {
    job: Option<F>,
    value: Option<T>,
    sender: oneshot::Sender<T>,
}

impl<T: Send, F: FnOnce() -> T + Send> Job for Answered<T, F> {
    fn run(&mut self) {
        self.value = self.job.take().map(|job| job());
    }

    fn hand_over(self: Box<Self>) {
        if let Some(value) = self.value {
            // The waiter may be gone.
            let _ = self.sender.send(value);
        }
    }
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
        let (sender, answer) = oneshot::channel();
        let job = Box::new(Answered {
            job: Some(move || job(&tree)),
            value: None,
            sender,
        });
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
        answer.await.map_err(|_| Status::Jukebox)
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

/// No thread goes back to the pool as somebody else.
fn end_visit(tree: &LocalTree) {
    drop(tree.take_retired(0));
    if tree.identities.assume_own().is_err() {
        tracing::warn!("a thread could not take its own identity back");
    }
}

impl Visit {
    fn work_off(mut self) {
        let mut done = Vec::new();
        let mut since = Instant::now();
        while let Some(mut job) = self.next(&mut done) {
            if done.is_empty() {
                since = Instant::now();
            }
            // A job that panicked hands nothing over, which tells its waiter.
            if std::panic::catch_unwind(AssertUnwindSafe(|| job.run())).is_err() {
                tracing::error!("a file operation panicked; its caller is told to try again");
            }
            done.push(job);
            if done.len() == GATHER_MAX || since.elapsed() >= GATHER {
                hand_over(&mut done);
            }
        }
        self.finished = true;
        end_visit(&self.tree);
    }

    /// The next job; before the visit ends, what is done goes back.
    fn next(&self, done: &mut Vec<Box<dyn Job>>) -> Option<Box<dyn Job>> {
        if let Some(job) = lock(&self.lane.state).jobs.pop_front() {
            return Some(job);
        }
        hand_over(done);
        let mut state = lock(&self.lane.state);
        let job = state.jobs.pop_front();
        state.visiting = job.is_some();
        job
    }
}

fn hand_over(done: &mut Vec<Box<dyn Job>>) {
    for job in done.drain(..) {
        job.hand_over();
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
