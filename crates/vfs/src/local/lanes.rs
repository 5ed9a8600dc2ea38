//! Short queues in front of the blocking pool.
//!
//! A visit to the pool costs about ten microseconds of waking and switching. Changes of one directory or file exclude
//! each other in the kernel anyway, so they stand in one queue (a lane), and one visit works off all that is in it.
//! Different objects mostly have different lanes and go on in parallel. Jobs that find an object need no order: they
//! have a lane of their own, and several visits work it off together.
//!
//! Results go back in batches too: the core is woken once for all the jobs that were done within a short time. Woken
//! for each, it would take the processor away from the visit as often (measured with 32 creations in flight on tmpfs:
//! 25 us of CPU per creation then, see docs/decisions).

use super::clock_map::lock;
use super::tree::LocalTree;
use crate::Status;
use crate::limits::{CHANGE_LANES, LOOKUPS_MAX};
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
    changes: [Arc<Lane>; CHANGE_LANES],
    lookups: Arc<Lane>,
    searches: Arc<Lane>,
}

/// A queue, and how many visits to the pool work it off at a time. One alone keeps the order.
struct Lane {
    visits_max: usize,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    jobs: VecDeque<Box<dyn Job>>,
    visits: usize,
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

impl Lane {
    fn new(visits_max: usize) -> Arc<Lane> {
        Arc::new(Lane {
            visits_max,
            state: Mutex::default(),
        })
    }

    /// Puts a job at the end; true when the lane has room for another visit, which then counts as begun.
    fn enqueue(&self, job: Box<dyn Job>) -> bool {
        let mut state = lock(&self.state);
        state.jobs.push_back(job);
        let has_room = state.visits < self.visits_max;
        state.visits += usize::from(has_room);
        has_room
    }
}

impl Lanes {
    pub(crate) fn new(tree: Arc<LocalTree>, runtime: Handle) -> Lanes {
        Lanes {
            runtime,
            tree,
            changes: std::array::from_fn(|_| Lane::new(1)),
            lookups: Lane::new(LOOKUPS_MAX),
            searches: Lane::new(1),
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
        let lane = &self.changes[key as usize % CHANGE_LANES];
        self.run_in(lane, job).await
    }

    /// Runs a job that finds an object, in no order: one that waits for a disk holds up no other, unless
    /// [`LOOKUPS_MAX`] do.
    ///
    /// # Errors
    /// As [`Lanes::run`].
    pub(crate) async fn look_up<T: Send + 'static>(
        &self,
        job: impl FnOnce(&Arc<LocalTree>) -> T + Send + 'static,
    ) -> Result<T, Status> {
        self.run_in(&self.lookups, job).await
    }

    /// Runs a job that may have to search the tree. Searches go one by one anyway; here those that wait take no
    /// threads from others.
    ///
    /// # Errors
    /// As [`Lanes::run`].
    pub(crate) async fn search<T: Send + 'static>(
        &self,
        job: impl FnOnce(&Arc<LocalTree>) -> T + Send + 'static,
    ) -> Result<T, Status> {
        self.run_in(&self.searches, job).await
    }

    async fn run_in<T: Send + 'static>(
        &self,
        lane: &Arc<Lane>,
        job: impl FnOnce(&Arc<LocalTree>) -> T + Send + 'static,
    ) -> Result<T, Status> {
        let tree = Arc::clone(&self.tree);
        let (sender, answer) = oneshot::channel();
        let job = Box::new(Answered {
            job: Some(move || job(&tree)),
            value: None,
            sender,
        });
        if lane.enqueue(job) {
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
        state.visits -= usize::from(job.is_none());
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
            state.visits -= 1;
            std::mem::take(&mut state.jobs)
        };
        drop(abandoned);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::local::LocalOptions;
    use gannet_runtime::tokio_plug::block_on;
    use std::future::Future;
    use std::pin::Pin;
    use std::rc::Rc;
    use std::sync::mpsc::{Sender, channel};
    use std::task::Poll;

    /// Longer than any machine takes; a test that waits so long has failed.
    const HANGS: Duration = Duration::from_secs(30);

    fn with_lanes<F: Future<Output = ()>>(story: impl FnOnce(Rc<Lanes>, Handle) -> F) {
        let directory = tempfile::tempdir().unwrap();
        let options = LocalOptions {
            state_dir: Some(directory.path().join("state")),
            ..LocalOptions::default()
        };
        let tree = LocalTree::open(directory.path(), &options).unwrap();
        block_on(|runtime| {
            let lanes = Rc::new(Lanes::new(tree, Handle::clone(&runtime)));
            story(lanes, runtime)
        })
        .unwrap();
    }

    /// A job that ends when told to, or when nobody is left to tell it.
    fn held() -> (Sender<()>, impl FnOnce(&Arc<LocalTree>) + Send + 'static) {
        let (end, ended) = channel();
        let wait = move |_: &Arc<LocalTree>| {
            let _ = ended.recv();
        };
        (end, wait)
    }

    /// Puts a job into its lane.
    async fn start<T>(mut job: Pin<&mut impl Future<Output = Result<T, Status>>>) {
        std::future::poll_fn(|context| {
            assert!(job.as_mut().poll(context).is_pending());
            Poll::Ready(())
        })
        .await;
    }

    #[test]
    fn a_slow_lookup_holds_up_no_other() {
        with_lanes(|lanes, runtime| async move {
            let (end, slow) = held();
            let mut slow = std::pin::pin!(lanes.look_up(slow));
            start(slow.as_mut()).await;
            let (end_search, searching) = held();
            let mut searching = std::pin::pin!(lanes.search(searching));
            start(searching.as_mut()).await;
            for key in 0..100 {
                let quick = gannet_runtime::timeout(&runtime, HANGS, lanes.look_up(move |_| key));
                assert_eq!(quick.await, Ok(Ok(key)));
                let change = gannet_runtime::timeout(&runtime, HANGS, lanes.run(key, |_| ()));
                assert_eq!(change.await, Ok(Ok(())));
            }
            drop((end, end_search));
            assert_eq!((slow.await, searching.await), (Ok(()), Ok(())));
        });
    }
}
