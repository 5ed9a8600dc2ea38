//! Short queues in front of the blocking pool.
//!
//! A visit to the pool costs about ten microseconds of waking and switching. Changes of one directory or file exclude
//! each other in the kernel anyway, so they wait in one queue (a lane), and one visit runs all jobs in it.
//! Different objects mostly have different lanes and run in parallel. Jobs that find an object need no order: they
//! have a lane of their own, which several visits work off together.
//!
//! Results go back in batches too: the core is woken once for all jobs that ended within a short time. A wake-up for
//! each would take the processor from the visit as often (measured with 32 creations in flight on tmpfs:
//! 25 us of CPU per creation then, see docs/decisions). Any job may wait for the disk and so hold back the results of
//! the jobs before it. So the core itself looks after a lane in which jobs wait behind others, and hands over results
//! that are overdue.

use super::clock_map::lock;
use super::counters::TreeCounters;
use super::tree::LocalTree;
use crate::limits::{CHANGE_LANES, LOOKUPS_MAX};
use gannet_runtime::Handle;
use gannet_runtime::stages::{self, Stage};
use gannet_vfs::{Credentials, Status};
use std::collections::VecDeque;
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::sync::oneshot;

/// Time for which the results of a lane are collected before they go back.
const GATHER: Duration = Duration::from_micros(100);
/// Greatest number of results that are collected.
const GATHER_MAX: usize = 64;
/// Time between two looks of the core at its lanes. A look each millisecond cost 6 % more CPU with 32 creations in
/// flight, because the core then armed a timer each time it went to sleep; at this pace the cost cannot be measured.
const LOOK_AFTER: Duration = Duration::from_millis(10);

/// The lanes of one core.
pub(crate) struct Lanes {
    runtime: Handle,
    tree: Arc<LocalTree>,
    changes: [Arc<Lane>; CHANGE_LANES],
    lookups: Arc<Lane>,
    searches: Arc<Lane>,
}

/// A queue, and the number of visits to the pool that work it off at a time. Only a single visit keeps the order.
struct Lane {
    visits_max: usize,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    jobs: VecDeque<Box<dyn Job>>,
    /// Visits that run or are submitted to the pool.
    visits: usize,
    /// The task [`look_after`] runs for the lane.
    is_looked_after: bool,
    /// Jobs that were run and have not been handed over, and the time since which the first of them waits.
    done: Vec<Box<dyn Job>>,
    since: Option<Instant>,
}

/// The task that the core must start for a job that it put into a lane.
enum Start {
    Visit,
    LookingAfter,
    Nothing,
}

/// The next step of a visit.
enum Turn {
    Run(Box<dyn Job>),
    /// Hand results over, and then look for jobs once more.
    Idle,
    End,
}

/// A unit of work, whose result is handed over in a step of its own.
trait Job: Send {
    fn run(&mut self);
    fn hand_over(self: Box<Self>);
}

/// The sender of a job's result to the task that waits for it.
pub(crate) struct Answer<T>(oneshot::Sender<Result<T, Status>>);

impl<T> Answer<T> {
    /// Hands the result over.
    pub(crate) fn give(self, result: Result<T, Status>) {
        // The send fails only if the waiter was dropped.
        let _ = self.0.send(result);
    }
}

/// A job with the sender of its result.
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
            // The send fails only if the waiter was dropped.
            let _ = self.sender.send(value);
        }
    }
}

/// One visit to the pool. Dropped before its end (the runtime shuts down), it drops the jobs too. That drops their
/// senders and ends the waits; otherwise the waiters would never end.
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

    /// Puts a job at the end. The returned task counts as started: the caller must start it, or the lane stands still.
    fn enqueue(&self, job: Box<dyn Job>) -> Start {
        let mut state = lock(&self.state);
        state.jobs.push_back(job);
        if state.visits < self.visits_max {
            state.visits += 1;
            return Start::Visit;
        }
        if std::mem::replace(&mut state.is_looked_after, true) {
            Start::Nothing
        } else {
            Start::LookingAfter
        }
    }

    /// Takes the job that a visit has just run, returns its next step, and puts jobs that must be handed over before
    /// into `ready`. Locks once, because the core uses the lane too. A visit ends under the same lock that finds the
    /// queue empty: a job that came between would have no visit.
    fn turn(&self, run: Option<Box<dyn Job>>, ready: &mut Vec<Box<dyn Job>>) -> Turn {
        let now = Instant::now();
        let mut state = lock(&self.state);
        state.done.extend(run);
        if let Some(job) = state.jobs.pop_front() {
            state.take_overdue(now, ready);
            return Turn::Run(job);
        }
        if state.done.is_empty() {
            state.visits -= 1;
            return Turn::End;
        }
        state.take_done(ready);
        Turn::Idle
    }
}

impl State {
    fn take_done(&mut self, ready: &mut Vec<Box<dyn Job>>) {
        self.since = None;
        ready.append(&mut self.done);
    }

    fn take_overdue(&mut self, now: Instant, ready: &mut Vec<Box<dyn Job>>) {
        if self.done.is_empty() {
            return;
        }
        let since = *self.since.get_or_insert(now);
        if self.done.len() >= GATHER_MAX || now.saturating_duration_since(since) >= GATHER {
            self.take_done(ready);
        }
    }
}

/// Hands over results that a slow job holds back, until the lane is empty.
async fn look_after(lane: Arc<Lane>, runtime: Handle) {
    let mut overdue = Vec::new();
    loop {
        gannet_runtime::sleep(&runtime, LOOK_AFTER).await;
        {
            let mut state = lock(&lane.state);
            if state.visits == 0 {
                state.is_looked_after = false;
                return;
            }
            state.take_overdue(Instant::now(), &mut overdue);
        }
        hand_over(&mut overdue);
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

    /// Runs `caller`'s change as the caller, after those before it in the lane that `key` picks.
    ///
    /// # Errors
    /// `Acces` when the caller's identity cannot be taken on; `Jukebox` when the runtime shuts down meanwhile.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        key: u64,
        caller: &Credentials,
        job: impl FnOnce(&Arc<LocalTree>, &Credentials) -> T + Send + 'static,
    ) -> Result<T, Status> {
        let lane = &self.changes[key as usize % CHANGE_LANES];
        let caller = caller.clone();
        let as_caller = move |tree: &Arc<LocalTree>| {
            tree.identities.begin_job(Some(&caller))?;
            Ok(job(tree, &caller))
        };
        self.run_in(lane, as_caller).await?
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
        self.run_in(&self.lookups, as_server(job)).await?
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
        self.run_in(&self.searches, as_server(job)).await?
    }

    async fn run_in<T: Send + 'static>(
        &self,
        lane: &Arc<Lane>,
        job: impl FnOnce(&Arc<LocalTree>) -> T + Send + 'static,
    ) -> Result<T, Status> {
        let tree = Arc::clone(&self.tree);
        let (sender, answer) = oneshot::channel();
        let waited = Waited::start();
        let begun = waited.begin();
        tree.counters.waiting.raise(1);
        let job = Box::new(Answered {
            job: Some(move || {
                tree.counters.waiting.lower(1);
                begun();
                job(&tree)
            }),
            value: None,
            sender,
        });
        match lane.enqueue(job) {
            Start::Visit => {
                let visit = Visit {
                    lane: Arc::clone(lane),
                    tree: Arc::clone(&self.tree),
                    finished: false,
                };
                self.runtime
                    .submit_blocking(Box::new(move || visit.work_off()));
            }
            Start::LookingAfter => {
                let looking = look_after(Arc::clone(lane), Handle::clone(&self.runtime));
                self.runtime.spawn("late results", Box::pin(looking));
            }
            Start::Nothing => {}
        }
        let answered = answer.await.map_err(|_| Status::Jukebox);
        waited.tell();
        answered
    }

    /// The counters of the tree.
    pub(crate) fn counters(&self) -> &TreeCounters {
        &self.tree.counters
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
        let waited = Waited::start();
        let begun = waited.begin();
        let done = gannet_runtime::run_blocking(&self.runtime, move || {
            begun();
            let value = as_server(job)(&tree);
            end_visit(&tree);
            value
        });
        let done = done.await.unwrap_or(Err(Status::Jukebox));
        waited.tell();
        done
    }

    /// As [`Lanes::run_beside`], for a job that may go on after it has answered.
    ///
    /// # Errors
    /// As [`Lanes::run`], and the job's own.
    pub(crate) async fn run_ahead<T: Send + 'static>(
        &self,
        job: impl FnOnce(&Arc<LocalTree>, Answer<T>) + Send + 'static,
    ) -> Result<T, Status> {
        let tree = Arc::clone(&self.tree);
        let (sender, answer) = oneshot::channel();
        let waited = Waited::start();
        let begun = waited.begin();
        self.runtime.submit_blocking(Box::new(move || {
            begun();
            match tree.identities.begin_job(None) {
                Ok(()) => job(&tree, Answer(sender)),
                Err(reason) => Answer(sender).give(Err(reason)),
            }
            end_visit(&tree);
        }));
        let answered = answer.await.unwrap_or(Err(Status::Jukebox));
        waited.tell();
        answered
    }

    /// Drops values on the pool: closing the last descriptor of a removed file frees its blocks, which takes time.
    pub(crate) fn drop_beside<T: Send + 'static>(&self, values: Vec<T>) {
        if !values.is_empty() {
            self.runtime.submit_blocking(Box::new(move || drop(values)));
        }
    }
}

/// How long a job waited for its turn, if its operation has a stopwatch.
struct Waited(Option<(Instant, Arc<AtomicU64>)>);

impl Waited {
    fn start() -> Waited {
        let is_wanted = stages::current().is_some();
        Waited(is_wanted.then(|| (Instant::now(), Arc::default())))
    }

    /// For the job: its turn has come.
    fn begin(&self) -> impl FnOnce() + Send + 'static {
        let wanted = self.0.clone();
        move || {
            if let Some((since, waited_ns)) = wanted {
                let waited = u64::try_from(since.elapsed().as_nanos());
                waited_ns.store(waited.unwrap_or(u64::MAX), Ordering::Relaxed);
            }
        }
    }

    /// For the operation, behind the job.
    fn tell(self) {
        if let Some((_, waited_ns)) = self.0 {
            let waited = Duration::from_nanos(waited_ns.load(Ordering::Relaxed));
            stages::took(Stage::Queue, waited);
        }
    }
}

/// A job that begins as the server.
fn as_server<T>(
    job: impl FnOnce(&Arc<LocalTree>) -> T,
) -> impl FnOnce(&Arc<LocalTree>) -> Result<T, Status> {
    move |tree| {
        tree.identities.begin_job(None)?;
        Ok(job(tree))
    }
}

/// Takes the thread's own identity back before it returns to the pool, where jobs of other crates run too.
fn end_visit(tree: &LocalTree) {
    tree.close_retired();
    if tree.identities.begin_job(None).is_err() {
        tracing::warn!("a thread could not take its own identity back");
    }
}

impl Visit {
    fn work_off(mut self) {
        let (mut run, mut ready) = (None, Vec::new());
        loop {
            let turn = self.lane.turn(run.take(), &mut ready);
            hand_over(&mut ready);
            match turn {
                Turn::Run(mut job) => {
                    // A job that panicked has no value to hand over, and the drop of its sender ends the wait. Without
                    // the catch the lane's visit would be lost, and all jobs behind it would wait for ever.
                    if std::panic::catch_unwind(AssertUnwindSafe(|| job.run())).is_err() {
                        tracing::error!(
                            "a file operation panicked; its caller gets JUKEBOX and tries again"
                        );
                    }
                    run = Some(job);
                    // A visit may last as long as there is work. Descriptors that left the caches must not wait for its
                    // end (test `one_long_visit_keeps_to_the_budget_of_descriptors`).
                    self.tree.close_overdue();
                }
                Turn::Idle => {}
                Turn::End => break,
            }
        }
        self.finished = true;
        end_visit(&self.tree);
    }
}

fn hand_over(ready: &mut Vec<Box<dyn Job>>) {
    for job in ready.drain(..) {
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
            (
                std::mem::take(&mut state.jobs),
                std::mem::take(&mut state.done),
            )
        };
        drop(abandoned);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::LocalOptions;
    use crate::limits::DESCRIPTORS_MIN;
    use gannet_runtime::tokio_plug::block_on;
    use gannet_vfs::{CreateMode, SetAttributes};
    use std::future::Future;
    use std::pin::Pin;
    use std::rc::Rc;
    use std::sync::LazyLock;
    use std::sync::atomic::Ordering;
    use std::sync::mpsc::{Sender, channel};
    use std::task::Poll;

    /// Longer than any machine takes; a test that waits so long has failed.
    const HANGS: Duration = Duration::from_secs(30);

    static ME: LazyLock<Credentials> = LazyLock::new(|| Credentials::new(0, 0, &[]));

    fn with_lanes<F: Future<Output = ()>>(story: impl FnOnce(Rc<Lanes>, Handle) -> F) {
        let directory = tempfile::tempdir().unwrap();
        let options = LocalOptions {
            state_dir: Some(directory.path().join("state")),
            descriptors_max: Some(DESCRIPTORS_MIN),
            ..LocalOptions::default()
        };
        let tree = LocalTree::open(directory.path(), &options).unwrap();
        block_on(|runtime| {
            let lanes = Rc::new(Lanes::new(tree, Handle::clone(&runtime)));
            story(lanes, runtime)
        })
        .unwrap();
    }

    /// A job that ends at a message of the returned sender, or at its drop.
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

    /// The user whose rights this thread's file operations have.
    fn acting_user() -> u32 {
        let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
        let users = status.lines().find_map(|line| line.strip_prefix("Uid:"));
        users
            .and_then(|it| it.split_whitespace().last()?.parse().ok())
            .unwrap()
    }

    #[test]
    fn a_thread_that_the_pool_starts_has_no_rights_of_the_caller_served_before() {
        // Nobody but root takes on identities.
        let own = rustix::process::geteuid().as_raw();
        with_lanes(|lanes, _| async move {
            let alice = Credentials::new(54_321, 54_321, &[]);
            let of_alice = if own == 0 { alice.uid } else { own };
            lanes.tree.identities.assume(&alice).unwrap();
            assert_eq!(acting_user(), of_alice);
            // Each job gets a thread of its own, which inherits the identity of this one.
            let (end, held) = held();
            let mut held = std::pin::pin!(lanes.run_beside(held));
            start(held.as_mut()).await;
            assert_eq!(lanes.run_beside(|_| acting_user()).await, Ok(own));
            assert_eq!(lanes.look_up(|_| acting_user()).await, Ok(own));
            assert_eq!(lanes.search(|_| acting_user()).await, Ok(own));
            let ahead = lanes.run_ahead(|_, answer| answer.give(Ok(acting_user())));
            assert_eq!(ahead.await, Ok(own));
            let change = lanes.run(7, &alice, |_, _| acting_user());
            assert_eq!(change.await, Ok(of_alice));
            drop(end);
            assert_eq!(held.await, Ok(()));
        });
    }

    #[test]
    fn an_operation_of_the_server_gives_the_callers_identity_back() {
        with_lanes(|lanes, _| async move {
            let own = rustix::process::geteuid().as_raw();
            let bob = Credentials::new(54_322, 54_322, &[]);
            let seen = lanes.run(7, &bob, |tree, _| {
                let before = acting_user();
                let within = tree.identities.as_server(|| Ok(acting_user()));
                (before, within, acting_user())
            });
            let of_bob = if own == 0 { bob.uid } else { own };
            assert_eq!(seen.await, Ok((of_bob, Ok(own), of_bob)));
        });
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
                let change =
                    gannet_runtime::timeout(&runtime, HANGS, lanes.run(key, &ME, |_, _| ()));
                assert_eq!(change.await, Ok(Ok(())));
            }
            drop((end, end_search));
            assert_eq!((slow.await, searching.await), (Ok(()), Ok(())));
        });
    }

    #[test]
    fn a_result_does_not_wait_for_the_slow_job_behind_it() {
        with_lanes(|lanes, runtime| async move {
            let (go, quick) = held();
            let mut quick = std::pin::pin!(lanes.run(7, &ME, |tree, _| quick(tree)));
            start(quick.as_mut()).await;
            let (end, slow) = held();
            let mut slow = std::pin::pin!(lanes.run(7, &ME, |tree, _| slow(tree)));
            start(slow.as_mut()).await;
            drop(go);
            let answer = gannet_runtime::timeout(&runtime, HANGS, quick).await;
            assert_eq!(answer, Ok(Ok(())));
            drop(end);
            assert_eq!(slow.await, Ok(()));
        });
    }

    #[test]
    fn one_long_visit_keeps_to_the_budget_of_descriptors() {
        with_lanes(|lanes, _| async move {
            let (go, first) = held();
            let mut first = std::pin::pin!(lanes.run(7, &ME, |tree, _| first(tree)));
            start(first.as_mut()).await;
            let mut creations: Vec<_> = (0..20 * DESCRIPTORS_MIN)
                .map(|index| {
                    Box::pin(lanes.run(7, &ME, move |tree, me| {
                        let mode = CreateMode::Guarded(SetAttributes::default());
                        let name = index.to_string();
                        let made = tree.create(&tree.root_object, me, name.as_bytes(), &mode);
                        made.result.unwrap();
                        tree.open.load(Ordering::Relaxed)
                    }))
                })
                .collect();
            for creation in &mut creations {
                start(creation.as_mut()).await;
            }
            drop(go);
            first.await.unwrap();
            let mut most = 0;
            for creation in creations {
                most = most.max(creation.await.unwrap());
            }
            assert!(most < 2 * DESCRIPTORS_MIN, "{most} descriptors");
        });
    }

    #[test]
    fn changes_of_one_object_are_made_in_order() {
        with_lanes(|lanes, _| async move {
            let order = Arc::new(Mutex::new(Vec::new()));
            let (go, first) = held();
            let mut first = std::pin::pin!(lanes.run(7, &ME, |tree, _| first(tree)));
            start(first.as_mut()).await;
            let mut changes: Vec<_> = (0..3 * GATHER_MAX)
                .map(|index| {
                    let order = Arc::clone(&order);
                    Box::pin(lanes.run(7, &ME, move |_, _| lock(&order).push(index)))
                })
                .collect();
            for change in &mut changes {
                start(change.as_mut()).await;
            }
            drop(go);
            first.await.unwrap();
            for change in changes {
                change.await.unwrap();
            }
            assert!(lock(&order).iter().copied().eq(0..3 * GATHER_MAX));
        });
    }
}
