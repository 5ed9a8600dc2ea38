//! Virtual time on one thread: a FIFO of ready tasks, and events in the order (nanosecond, sequence number).
//!
//! Events lie in an ordered map and not in a heap, because most timers (deadlines) are cancelled before they fire.
//!
//! A task or event may be charged for time ([`Executor::spend_until`]): its own clock moves on, and everything that it
//! causes from there on (tasks it spawns or wakes, events) happens no earlier. A task is not polled again before its
//! own clock.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::future::Future;
use std::net::SocketAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

use crate::limits::{STEPS_MAX, TIME_MAX_NS};
use crate::world::NodeId;
use gannet_runtime::LocalFuture;

type TaskId = u64;
type EventKey = (u64, u64);

/// An event of the simulator that a task waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wait {
    Sleep(u64),
    Readable(u64),
    Writable(u64),
    Accept(SocketAddr),
    Completions(u64),
}

impl fmt::Display for Wait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Wait::Sleep(deadline) => write!(f, "time {deadline}"),
            Wait::Readable(stream) => write!(f, "bytes from stream {stream}"),
            Wait::Writable(stream) => write!(f, "room in stream {stream}"),
            Wait::Accept(address) => write!(f, "a connection to {address}"),
            Wait::Completions(endpoint) => write!(f, "completions of endpoint {endpoint}"),
        }
    }
}

/// The reason why a world stopped before its main task ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Halt {
    Deadlock,
    Endless(&'static str),
    Panic { task: String, message: String },
}

struct Task {
    name: &'static str,
    node: NodeId,
    future: Option<LocalFuture<()>>,
    waker: Arc<TaskWaker>,
    waits: Vec<Wait>,
    polled_at: u64,
    /// Its own clock after its last poll.
    busy_until: u64,
}

struct TaskWaker {
    id: TaskId,
    /// The time of its next poll; [`NOT_QUEUED`] without a wake-up. A queue entry with another time is out of date and
    /// skipped: an earlier wake-up has replaced it.
    queued_for: AtomicU64,
    ready: Arc<ReadyQueue>,
}

const NOT_QUEUED: u64 = u64::MAX;

/// Tasks to be polled, each with the time from which on.
#[derive(Default)]
struct ReadyQueue {
    /// The clock of the running task or event.
    now: AtomicU64,
    queue: Mutex<VecDeque<(TaskId, u64)>>,
}

impl ReadyQueue {
    fn now(&self) -> u64 {
        self.now.load(Ordering::Relaxed)
    }

    fn push(&self, id: TaskId, at: u64) {
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        queue.push_back((id, at));
    }

    fn pop(&self) -> Option<(TaskId, u64)> {
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        queue.pop_front()
    }
}

impl Wake for TaskWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let now = self.ready.now();
        // The task is queued again only for an earlier time, so that a task woken many times is polled once.
        if self.queued_for.fetch_min(now, Ordering::Relaxed) > now {
            self.ready.push(self.id, now);
        }
    }
}

enum Event {
    Wake(Waker),
    /// A task may be polled that was woken, or ran, ahead of the clock.
    Ready(TaskId),
    Run {
        /// A crash of this node drops the event.
        owner: Option<NodeId>,
        action: Box<dyn FnOnce()>,
    },
}

#[derive(Default)]
pub(crate) struct Executor {
    /// The time of the event loop; the clock of the running task or event may be ahead of it.
    clock: Cell<u64>,
    sequence: Cell<u64>,
    steps: Cell<u64>,
    events: RefCell<BTreeMap<EventKey, Event>>,
    tasks: RefCell<BTreeMap<TaskId, Task>>,
    ready: Arc<ReadyQueue>,
    waits: RefCell<Vec<Wait>>,
    /// Frozen nodes, each with its tasks that became due meanwhile.
    frozen: RefCell<BTreeMap<NodeId, Vec<(TaskId, u64)>>>,
}

impl Executor {
    /// The clock of the running task or event, in nanoseconds.
    pub(crate) fn now(&self) -> u64 {
        self.ready.now()
    }

    /// The time of the event loop: no later event or poll happens before it.
    pub(crate) fn clock(&self) -> u64 {
        self.clock.get()
    }

    /// Charges the running task or event: it is busy until `at`.
    pub(crate) fn spend_until(&self, at: u64) {
        self.ready.now.fetch_max(at, Ordering::Relaxed);
    }

    fn set_clock(&self, at: u64) {
        self.clock.set(at);
        self.ready.now.store(at, Ordering::Relaxed);
    }

    fn next_sequence(&self) -> u64 {
        let sequence = self.sequence.get();
        self.sequence.set(sequence + 1);
        sequence
    }

    pub(crate) fn spawn(&self, node: NodeId, name: &'static str, future: LocalFuture<()>) {
        let id = self.next_sequence();
        let waker = Arc::new(TaskWaker {
            id,
            queued_for: AtomicU64::new(self.now()),
            ready: Arc::clone(&self.ready),
        });
        let task = Task {
            name,
            node,
            future: Some(future),
            waker,
            waits: Vec::new(),
            polled_at: self.now(),
            busy_until: 0,
        };
        self.tasks.borrow_mut().insert(id, task);
        self.ready.push(id, self.now());
    }

    /// Runs `action` at `at`, or never if `owner` crashes before. Events of one time run in the order of their numbers,
    /// which makes the order a function of the seed.
    pub(crate) fn schedule(&self, at: u64, owner: Option<NodeId>, action: impl FnOnce() + 'static) {
        let key = (at.max(self.now()), self.next_sequence());
        let action = Box::new(action);
        self.events
            .borrow_mut()
            .insert(key, Event::Run { owner, action });
    }

    /// Polls no task of a node until [`Executor::thaw`]. Events, which belong to its kernel and network, go on.
    pub(crate) fn freeze(&self, node: NodeId) {
        self.frozen.borrow_mut().entry(node).or_default();
    }

    /// Lets a frozen node go on: its due tasks are queued in the order in which they became due.
    pub(crate) fn thaw(&self, node: NodeId) {
        let due = self.frozen.borrow_mut().remove(&node);
        for (id, at) in due.unwrap_or_default() {
            self.ready.push(id, at);
        }
    }

    /// Keeps a due task until its node goes on; false if the node is not frozen.
    fn hold_back(&self, id: TaskId, at: u64) -> bool {
        let mut frozen = self.frozen.borrow_mut();
        if frozen.is_empty() {
            return false;
        }
        let node = self.tasks.borrow().get(&id).map(|task| task.node);
        let due = node.and_then(|node| frozen.get_mut(&node));
        let is_frozen = due.is_some();
        if let Some(due) = due {
            due.push((id, at));
        }
        is_frozen
    }

    /// Drops the tasks and events of a node.
    pub(crate) fn kill(&self, node: NodeId) {
        self.frozen.borrow_mut().remove(&node);
        let tasks: Vec<Task> = {
            let mut tasks = self.tasks.borrow_mut();
            let ids = tasks.iter().filter(|(_, task)| task.node == node);
            let ids: Vec<TaskId> = ids.map(|(id, _)| *id).collect();
            ids.iter().filter_map(|id| tasks.remove(id)).collect()
        };
        let is_owned =
            |event: &Event| matches!(event, Event::Run { owner, .. } if *owner == Some(node));
        let events: Vec<Event> = {
            let mut events = self.events.borrow_mut();
            let keys = events.iter().filter(|(_, event)| is_owned(event));
            let keys: Vec<EventKey> = keys.map(|(key, _)| *key).collect();
            keys.iter().filter_map(|key| events.remove(key)).collect()
        };
        // The drop comes after the borrows end: destructors of tasks cancel timers and wake others, which borrow these
        // tables.
        drop((tasks, events));
    }

    /// Drops all tasks and events, which ends reference cycles through them. It repeats, since destructors may spawn
    /// tasks or schedule events.
    pub(crate) fn clear(&self) {
        loop {
            let tasks = std::mem::take(&mut *self.tasks.borrow_mut());
            let events = std::mem::take(&mut *self.events.borrow_mut());
            if tasks.is_empty() && events.is_empty() {
                return;
            }
            drop((tasks, events));
        }
    }

    /// Notes an event that the running task waits for, for the report of a deadlock.
    pub(crate) fn note_wait(&self, wait: Wait) {
        self.waits.borrow_mut().push(wait);
    }

    pub(crate) fn sleep_until(self: &Rc<Self>, deadline: u64) -> Sleep {
        Sleep {
            executor: Rc::clone(self),
            deadline,
            key: None,
        }
    }

    /// Runs until `done`; `observe` gets the id and the name of each task before its poll.
    pub(crate) fn run(
        &self,
        mut done: impl FnMut() -> bool,
        mut observe: impl FnMut(u64, &'static str),
    ) -> Result<(), Halt> {
        loop {
            while let Some((id, at)) = self.ready.pop() {
                if at > self.clock() {
                    self.postpone(id, at);
                    continue;
                }
                if self.hold_back(id, at) {
                    continue;
                }
                self.count_step()?;
                self.poll_task(id, at, &mut observe)?;
                if done() {
                    return Ok(());
                }
            }
            let Some((key, event)) = self.events.borrow_mut().pop_first() else {
                return Err(Halt::Deadlock);
            };
            self.set_clock(key.0);
            if key.0 > TIME_MAX_NS {
                return Err(Halt::Endless("virtual time"));
            }
            self.count_step()?;
            match event {
                Event::Wake(waker) => waker.wake(),
                Event::Ready(id) => self.ready.push(id, key.0),
                Event::Run { action, .. } => guarded("an event", action)?,
            }
            self.set_clock(key.0);
        }
    }

    /// Queues a task again at `at`.
    fn postpone(&self, id: TaskId, at: u64) {
        let key = (at, self.next_sequence());
        self.events.borrow_mut().insert(key, Event::Ready(id));
    }

    fn count_step(&self) -> Result<(), Halt> {
        self.steps.set(self.steps.get() + 1);
        if self.steps.get() > STEPS_MAX {
            return Err(Halt::Endless("steps"));
        }
        Ok(())
    }

    fn poll_task(
        &self,
        id: TaskId,
        at: u64,
        observe: &mut impl FnMut(u64, &'static str),
    ) -> Result<(), Halt> {
        // The future is taken out of the table for its poll: a poll that spawns or kills tasks borrows the table.
        let taken = self.tasks.borrow_mut().get_mut(&id).and_then(|task| {
            let queued_for = &task.waker.queued_for;
            // An earlier wake-up has already polled it.
            if queued_for.load(Ordering::Relaxed) != at {
                return None;
            }
            if task.busy_until > self.clock() {
                queued_for.store(task.busy_until, Ordering::Relaxed);
                self.postpone(id, task.busy_until);
                return None;
            }
            // Before the poll: a wake-up during the poll must queue the task again, or it would be lost.
            queued_for.store(NOT_QUEUED, Ordering::Relaxed);
            let future = task.future.take()?;
            Some((future, Waker::from(Arc::clone(&task.waker)), task.name))
        });
        // A task that crashed with its node may still be in the queue.
        let Some((mut future, waker, name)) = taken else {
            return Ok(());
        };
        observe(id, name);
        self.waits.borrow_mut().clear();
        let mut context = Context::from_waker(&waker);
        let polled = guarded(name, || future.as_mut().poll(&mut context))?;
        let busy_until = self.now();
        let finished = if polled.is_ready() {
            self.tasks.borrow_mut().remove(&id)
        } else {
            let mut tasks = self.tasks.borrow_mut();
            if let Some(task) = tasks.get_mut(&id) {
                task.future = Some(future);
                task.polled_at = busy_until;
                task.busy_until = busy_until;
                task.waits.clone_from(&self.waits.borrow());
            }
            // Without an entry, the task has killed its own node; its future is dropped at the end.
            None
        };
        // The drop comes after the borrow of the table, as in `kill`.
        drop(finished);
        self.set_clock(self.clock());
        Ok(())
    }

    /// Every task with the events that it waits for.
    pub(crate) fn report(&self, node_name: impl Fn(NodeId) -> String) -> String {
        let mut report = String::new();
        for (id, task) in &*self.tasks.borrow() {
            let waits: Vec<String> = task.waits.iter().map(Wait::to_string).collect();
            let waits = if waits.is_empty() {
                String::from("another task")
            } else {
                waits.join(", ")
            };
            report.push_str(&format!(
                "  {}/{} #{id}: since {} ns waits for {waits}\n",
                node_name(task.node),
                task.name,
                task.polled_at,
            ));
        }
        report
    }
}

/// Runs `body`; a panic in it halts the world with its message instead of the process.
fn guarded<T>(what: &str, body: impl FnOnce() -> T) -> Result<T, Halt> {
    catch_unwind(AssertUnwindSafe(body)).map_err(|payload| Halt::Panic {
        task: what.to_string(),
        message: panic_message(&*payload),
    })
}

fn panic_message(payload: &(dyn Any + Send)) -> String {
    payload
        .downcast_ref::<&str>()
        .map(ToString::to_string)
        .or_else(|| payload.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| String::from("a panic without text"))
}

/// A timer; cancelled when dropped.
pub(crate) struct Sleep {
    executor: Rc<Executor>,
    deadline: u64,
    key: Option<EventKey>,
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if self.executor.now() >= self.deadline {
            return Poll::Ready(());
        }
        self.executor.note_wait(Wait::Sleep(self.deadline));
        let executor = Rc::clone(&self.executor);
        let mut events = executor.events.borrow_mut();
        // A second poll replaces the waker under the same key: another key would leave the old event, which wakes a
        // task that may have ended.
        let key = match self.key {
            Some(key) => key,
            None => (self.deadline, executor.next_sequence()),
        };
        events.insert(key, Event::Wake(context.waker().clone()));
        self.key = Some(key);
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        if let Some(key) = self.key {
            // The event's waker is dropped after the borrow ends, since its destructor may be foreign code that uses
            // the executor.
            let event = self.executor.events.borrow_mut().remove(&key);
            drop(event);
        }
    }
}
