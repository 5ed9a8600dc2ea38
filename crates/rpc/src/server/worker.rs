//! Running calls in place: futures are kept and reused, so that a call costs no task and no allocation.
//!
//! A [`Worker`] is one boxed future that executes one call after the other. A connection takes one from its core's
//! pool, puts a call in, and polls it once; if the call is finished, the worker goes straight back. Otherwise the
//! worker stays in the connection's [`CallTable`] until its wake-up sets the call's bit and wakes the connection.

use super::Core;
use crate::limits::{CALLS_MAX, DEPARTING_ARGUMENTS};
use crate::reply_cache::Begin;
use crate::service::{Call, Reply, Service};
use gannet_runtime::stages::{self, Stage, Stopwatch};
use gannet_runtime::{Instant, LocalFuture};
use gannet_session::Charge;
use std::cell::Cell;
use std::rc::{Rc, Weak};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

/// A call, its reply, and the transport's notes about it.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) call: Call,
    pub(crate) reply: Reply,
    /// The transport's note: over RDMA the place of the call's context, over TCP the bytes of its arguments.
    pub(crate) tag: usize,
    /// Bytes that its reply may take.
    pub(crate) reserved: usize,
    /// Takes its time apart, where the service wants to know that.
    pub(crate) watch: Option<Rc<Stopwatch>>,
    /// The first word of the results of its execution.
    pub(crate) first_word: Option<u32>,
}

impl Job {
    pub(crate) fn empty() -> Job {
        Job {
            call: Call::empty(),
            reply: Reply::empty(),
            tag: 0,
            reserved: 0,
            watch: None,
            first_word: None,
        }
    }

    /// The call is in `stage` now.
    pub(crate) fn enter(&self, stage: Stage) {
        if let Some(watch) = &self.watch {
            watch.enter(stage);
        }
    }

    /// Frees what its way out does not need. [`DEPARTING_LEN`](crate::limits::DEPARTING_LEN) is charged for the rest.
    pub(crate) fn depart(&mut self) {
        self.call.placed.get_mut().take();
        self.reply.clear();
        let arguments = &mut self.call.arguments;
        if arguments.capacity() > DEPARTING_ARGUMENTS {
            arguments.truncate(DEPARTING_ARGUMENTS);
            arguments.shrink_to_fit();
        }
        if self.reply.head.capacity() > DEPARTING_ARGUMENTS {
            self.reply.head = Vec::new();
        }
    }

    /// Bytes of memory that it keeps when it is cleared.
    pub(crate) fn kept(&self) -> usize {
        self.call.arguments.capacity() + self.reply.head.capacity()
    }
}

/// The way of a call into a worker's future and of its result out of it.
#[derive(Default)]
struct Mailbox {
    inbox: Cell<Option<Box<Job>>>,
    outbox: Cell<Option<Box<Job>>>,
}

/// A future that executes calls, one at a time.
pub(crate) struct Worker {
    mailbox: Rc<Mailbox>,
    future: LocalFuture<()>,
    alarm: Arc<Alarm>,
    waker: Waker,
    /// The stopwatch of the call.
    watch: Option<Rc<Stopwatch>>,
    /// The call table and slot that the alarm points to. A worker that goes back to the same slot needs no new target.
    attached: (u64, usize),
}

impl Worker {
    pub(crate) fn new<S: Service>(core: &Rc<Core<S>>) -> Worker {
        let mailbox = Rc::<Mailbox>::default();
        let future = Box::pin(work(Rc::downgrade(core), Rc::clone(&mailbox)));
        let alarm = Arc::<Alarm>::default();
        let waker = Waker::from(Arc::clone(&alarm));
        Worker {
            mailbox,
            future,
            alarm,
            waker,
            watch: None,
            attached: (0, 0),
        }
    }

    fn poll(&mut self) -> Option<Box<Job>> {
        let (future, mut context) = (self.future.as_mut(), Context::from_waker(&self.waker));
        // The future never ends: it waits for the next call.
        let _ = stages::within(self.watch.as_ref(), || future.poll(&mut context));
        let done = self.mailbox.outbox.take();
        if done.is_some() {
            self.watch = None;
        }
        done
    }
}

/// The future of a worker. It holds the core weakly, because the core keeps idle workers: a cycle would keep both.
async fn work<S: Service>(core: Weak<Core<S>>, mailbox: Rc<Mailbox>) {
    loop {
        let mut job =
            std::future::poll_fn(|_| mailbox.inbox.take().map_or(Poll::Pending, Poll::Ready)).await;
        // Cannot fail: the connection that put the call in holds the core.
        let Some(core) = core.upgrade() else { continue };
        execute(&core, &mut job).await;
        job.first_word = job.reply.first_word();
        mailbox.outbox.set(Some(job));
    }
}

async fn execute<S: Service>(core: &Core<S>, job: &mut Job) {
    let Job { call, reply, .. } = job;
    let start = core.latest.get();
    if !core.service.is_cached(call.program, call.procedure) {
        perform(core, call, reply, start).await;
        return;
    }
    match core.cache.begin(call, start) {
        Begin::Execute(execution) => {
            let end = perform(core, call, reply, start).await;
            // Before the reply leaves: the client may lose it and ask again on another core at once.
            execution.finish(reply, end);
        }
        Begin::Replay(cached) => {
            core.counters.replays.add(1);
            cached.write_to(reply);
        }
        Begin::Wait(result) => {
            core.counters.replays.add(1);
            match result.await {
                Ok(cached) => cached.write_to(reply),
                // The execution ended without a reply. Its effects are unknown, so no reply can be right.
                Err(_) => call.drop_reply(),
            }
        }
        Begin::Drop => call.drop_reply(),
    }
}

/// Has the service execute a call, and tells it the time since `start`; gives the time of the end.
async fn perform<S: Service>(
    core: &Core<S>,
    call: &Call,
    reply: &mut Reply,
    start: Instant,
) -> Instant {
    core.service.call(call, reply).await;
    let end = core.now();
    core.service.observe(call, reply, end.duration_since(start));
    end
}

/// The target of a worker's waker: the slot of the call and the connection that has it. A late wake-up for an earlier
/// call rings the slot of the present one, which costs a poll and does no harm.
#[derive(Default)]
struct Alarm {
    target: Mutex<Option<(Arc<Wakeups>, usize)>>,
}

impl Wake for Alarm {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let target = self.target.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((wakeups, slot)) = target.as_ref() {
            wakeups.ring(*slot);
        }
    }
}

const WORDS: usize = CALLS_MAX.div_ceil(64);

/// The calls of a connection that are to be polled, a bit for each slot. Wakers may be called on other threads (the
/// blocking pool), hence the atomics and the lock.
#[derive(Default)]
struct Wakeups {
    slots: [AtomicU64; WORDS],
    task: Mutex<Option<Waker>>,
}

impl Wakeups {
    fn ring(&self, slot: usize) {
        // The bit first: the task that this wakes must find it.
        if let Some(word) = self.slots.get(slot / 64) {
            word.fetch_or(1 << (slot % 64), Ordering::AcqRel);
        }
        let task = self.task.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(waker) = task.as_ref() {
            waker.wake_by_ref();
        }
    }

    fn register(&self, waker: &Waker) {
        let mut task = self.task.lock().unwrap_or_else(PoisonError::into_inner);
        if !task.as_ref().is_some_and(|known| known.will_wake(waker)) {
            *task = Some(waker.clone());
        }
    }
}

/// The calls of one connection that are under way.
pub(crate) struct CallTable {
    id: u64,
    slots: Vec<Option<Worker>>,
    free: Vec<usize>,
    busy: usize,
    wakeups: Arc<Wakeups>,
}

impl CallTable {
    /// An empty table; `id` must be unique among the tables of this core, because idle workers remember it.
    pub(crate) fn new(id: u64) -> CallTable {
        let wakeups = Arc::default();
        CallTable {
            id,
            slots: Vec::new(),
            free: Vec::new(),
            busy: 0,
            wakeups,
        }
    }

    /// True when no call is under way.
    pub(crate) fn is_empty(&self) -> bool {
        self.busy == 0
    }

    /// Frees the memory of the table, if no call is under way.
    pub(crate) fn rest(&mut self) {
        if self.busy == 0 {
            self.slots = Vec::new();
            self.free = Vec::new();
        }
    }

    /// True when [`CallTable::start`] takes no further call.
    pub(crate) fn is_full(&self) -> bool {
        self.busy == CALLS_MAX
    }

    /// Starts a call: gives it back if it is finished at once. The table must not be full.
    pub(crate) fn start<S: Service>(
        &mut self,
        core: &Rc<Core<S>>,
        job: Box<Job>,
    ) -> Option<Box<Job>> {
        let mut worker = core.take_worker();
        let slot = self.free.pop().unwrap_or(self.slots.len());
        if slot == self.slots.len() {
            self.slots.push(None);
        }
        // Before the poll: a call that wakes itself during it must ring this slot.
        if worker.attached != (self.id, slot) {
            worker.attached = (self.id, slot);
            let target = (Arc::clone(&self.wakeups), slot);
            *worker
                .alarm
                .target
                .lock()
                .unwrap_or_else(PoisonError::into_inner) = Some(target);
        }
        job.enter(Stage::Protocol);
        worker.watch.clone_from(&job.watch);
        worker.mailbox.inbox.set(Some(job));
        if let Some(job) = worker.poll() {
            self.free.push(slot);
            core.put_worker(worker);
            return Some(job);
        }
        self.busy += 1;
        if let Some(place) = self.slots.get_mut(slot) {
            *place = Some(worker);
        }
        None
    }

    /// Has the connection's task woken when a call is to be polled. Call it before [`CallTable::poll_woken`]: a bit set
    /// between the two would otherwise wake no task.
    pub(crate) fn register(&self, context: &Context<'_>) {
        self.wakeups.register(context.waker());
    }

    /// Polls the calls that asked for it and gives the finished ones to `done`.
    pub(crate) fn poll_woken<S: Service>(
        &mut self,
        core: &Rc<Core<S>>,
        mut done: impl FnMut(Box<Job>),
    ) {
        if self.busy == 0 {
            return;
        }
        for index in 0..WORDS {
            let Some(word) = self.wakeups.slots.get(index) else {
                break;
            };
            let mut bits = word.swap(0, Ordering::AcqRel);
            while bits != 0 {
                let slot = index * 64 + bits.trailing_zeros() as usize;
                bits &= bits - 1;
                let Some(place) = self.slots.get_mut(slot) else {
                    continue;
                };
                let Some(job) = place.as_mut().and_then(Worker::poll) else {
                    continue;
                };
                if let Some(worker) = place.take() {
                    core.put_worker(worker);
                }
                self.busy -= 1;
                self.free.push(slot);
                done(job);
            }
        }
    }

    /// Runs the calls under way to their end after the connection ended: a call that was cancelled half done would
    /// leave a change without its reply in the cache. `held` charges their memory to the peer until then.
    pub(crate) fn finish_beside<S: Service>(mut self, core: &Rc<Core<S>>, held: Charge) {
        if self.is_empty() {
            return;
        }
        let finishing = Rc::clone(core);
        let finished = std::future::poll_fn(move |context| {
            self.register(context);
            self.poll_woken(&finishing, |job| finishing.put_job(job));
            if self.is_empty() {
                Poll::Ready(())
            } else {
                Poll::Pending
            }
        });
        let task = async move {
            finished.await;
            drop(held);
        };
        core.runtime
            .spawn("calls without connection", Box::pin(task));
    }
}
