//! Intents: pending operations at I/O servers, which the manager runs until they are done.

use super::Manager;
use super::term::Office;
use crate::layout::{object_size, placements};
use crate::limits::{
    CAPABILITY_AGE, CLOCK_SKEW_MAX, INTENT_DEADLINE, INTENT_RETRY, INTENTS_AT_A_SERVER,
    INTENTS_AT_A_TIME, REFUSED_MAX, SIZE_DEADLINE, UNLINK_AGAIN_AFTER, UNLINKED_MAX,
};
use crate::link::{Link, LinkError, Message, Unreachable};
use crate::secret::ServerKeys;
use gannet_meta::MetaStore;
use gannet_meta::groups::Groups;
use gannet_meta::namespace::{self, Intent};
use gannet_runtime::all;
use gannet_runtime::{Handle, Instant, LocalFuture, Notify, run_blocking, sleep, timeout};
use gannet_wire::volume::{
    Capability, Class, FileId, LayoutRecord, ObjectRange, Operation, Placement, Status,
};
use gannet_wire::xdr::to_bytes;
use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::fmt;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Semaphore, oneshot};

/// The I/O servers of a volume, as the manager reaches them.
pub trait IoServers {
    /// How many there are; their numbers are 0, 1, 2 ...
    fn count(&self) -> u32;

    /// The groups that they are in.
    fn groups(&self) -> Arc<Groups>;

    /// Another record of a group counts from now on.
    fn use_groups(&self, groups: Arc<Groups>);

    /// A connection to one of them, made if there is none.
    fn link(self: Rc<Self>, number: u32) -> LocalFuture<Result<Link, LinkError>>;

    /// The manager's term with this number begins: each request tells it from now on.
    fn begin_term(&self, number: u64);

    /// Ends the connection to one of them, if there is one: another process serves under its number.
    fn leave(&self, number: u32);
}

/// Changes objects.
pub(super) struct ObjectChanger {
    runtime: Handle,
    keys: ServerKeys,
    servers: Rc<dyn IoServers>,
    office: Rc<Office>,
    /// How many more requests each may have now.
    room: RefCell<BTreeMap<u32, Arc<Semaphore>>>,
}

impl ObjectChanger {
    pub(super) fn new(
        runtime: Handle,
        keys: ServerKeys,
        servers: Rc<dyn IoServers>,
        office: Rc<Office>,
    ) -> Rc<ObjectChanger> {
        Rc::new(ObjectChanger {
            runtime,
            keys,
            servers,
            office,
            room: RefCell::default(),
        })
    }

    pub(super) fn count(&self) -> u32 {
        self.servers.count()
    }

    /// Runs an intent at all servers of its file.
    async fn run(self: Rc<Self>, intent: Intent) -> Progress {
        let (file, layout, size) = match &intent {
            Intent::Unlink { file, layout } => (*file, layout, None),
            Intent::Truncate { file, layout, size } => (*file, layout, Some(*size)),
        };
        let calls = placements(layout).map(|(group, placement)| {
            let (objects, size) = (Rc::clone(&self), size);
            let call: LocalFuture<Progress> = Box::pin(async move {
                match objects.change(file, group, placement, size).await {
                    Ok(progress) => progress,
                    Err(error) => {
                        tracing::debug!(file = file.0, group, %error, "an object is not changed yet");
                        Progress::Away
                    }
                }
            });
            call
        });
        all(calls)
            .await
            .into_iter()
            .fold(Progress::Done, Progress::and)
    }

    /// Makes what was written to a file durable at all of its servers.
    pub(super) async fn commit(
        self: Rc<Self>,
        file: FileId,
        layout: &LayoutRecord,
    ) -> Result<(), LinkError> {
        let calls = placements(layout).map(|(group, _)| {
            let objects = Rc::clone(&self);
            let call: LocalFuture<Result<(), LinkError>> = Box::pin(async move {
                let range = objects.range(group, file, 0);
                let asked = objects.ask_primary(Operation::Commit, &range);
                let answer = timeout(&objects.runtime, SIZE_DEADLINE, asked).await;
                let answer = answer.unwrap_or(Err(LinkError::TimedOut))?;
                answer.header.status.map_err(LinkError::Refused)
            });
            call
        });
        all(calls).await.into_iter().collect()
    }

    /// Has a server refuse the capabilities of a file that expire at `fence` or earlier, in seconds since the Unix
    /// epoch.
    pub(super) async fn revoke(
        &self,
        number: u32,
        file: FileId,
        fence: u64,
    ) -> Result<(), LinkError> {
        // A right is one to all objects of a file.
        let range = self.range(0, file, fence);
        let answer = self.ask(number, Operation::Revoke, &range).await?;
        answer.header.status.map_err(LinkError::Refused)
    }

    /// A length of an object, with the right to change the object.
    fn range(&self, group: u32, file: FileId, size: u64) -> ObjectRange {
        let expires = self.runtime.wall_clock() + CAPABILITY_AGE + CLOCK_SKEW_MAX;
        let (term, rights) = (self.office.number(), Capability::WRITE);
        ObjectRange {
            group,
            capability: self.keys.grant(term, file.0, rights, expires),
            size,
        }
    }

    /// Asks the server that is the primary of the object's group.
    async fn ask_primary(
        &self,
        operation: Operation,
        range: &ObjectRange,
    ) -> Result<Message, LinkError> {
        let primary = self.servers.groups().primary(range.group);
        let number = primary.ok_or(Unreachable::NoPrimary { group: range.group })?;
        self.ask(number, operation, range).await
    }

    async fn ask(
        &self,
        number: u32,
        operation: Operation,
        range: &ObjectRange,
    ) -> Result<Message, LinkError> {
        let room = Arc::clone(self.room.borrow_mut().entry(number).or_insert_with(room));
        // Never closed.
        let _permit = room.acquire().await;
        let link = Rc::clone(&self.servers).link(number).await?;
        link.call(operation, Class::Metadata, &to_bytes(range), &[])
            .await
    }

    async fn change(
        &self,
        file: FileId,
        group: u32,
        placement: Placement,
        size: Option<u64>,
    ) -> Result<Progress, LinkError> {
        let (operation, size) = match size {
            None => (Operation::Unlink, 0),
            Some(size) => (Operation::Truncate, object_size(size, placement)),
        };
        let range = self.range(group, file, size);
        let answer = self.ask_primary(operation, &range).await?;
        let progress = Progress::by(operation, answer.header.status);
        if progress != Progress::Done {
            tracing::debug!(file = file.0, group, %progress, "an object is not changed");
        }
        Ok(progress)
    }
}

/// The progress of an intent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Progress {
    /// All servers have done it.
    Done,
    /// An I/O server can never do it: the intent ends, and its waiting caller gets the status.
    Never(Status),
    /// An I/O server refuses it for now, with this status. Other intents of the queue do not wait for that.
    Refused(Status),
    /// An I/O server is away, and the whole queue waits for it.
    Away,
}

impl fmt::Display for Progress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Progress::Done => f.write_str("done"),
            Progress::Never(status) => write!(f, "never possible: {status}"),
            Progress::Refused(status) => write!(f, "refused: {status}"),
            Progress::Away => f.write_str("an I/O server is away"),
        }
    }
}

impl Progress {
    /// The progress that an I/O server's status stands for.
    fn by(operation: Operation, outcome: Result<(), Status>) -> Progress {
        match outcome {
            Ok(()) => Progress::Done,
            Err(Status::Jukebox) => Progress::Away,
            // Its file system has no files of that size, or the object was lost with its disk.
            Err(status @ (Status::Fbig | Status::Nxio)) if operation == Operation::Truncate => {
                Progress::Never(status)
            }
            Err(status) => Progress::Refused(status),
        }
    }

    /// The progress at two servers together: the lesser one.
    fn and(self, other: Progress) -> Progress {
        let weight = |progress: &Progress| match progress {
            Progress::Done => 0,
            Progress::Never(_) => 1,
            Progress::Refused(_) => 2,
            Progress::Away => 3,
        };
        std::cmp::max_by_key(self, other, weight)
    }
}

fn room() -> Arc<Semaphore> {
    Arc::new(Semaphore::new(INTENTS_AT_A_SERVER))
}

/// The key of a work queue: the groups of a file, in the order of their numbers. Intents for files in the same groups
/// share a queue and wait for no other: a server that is away blocks the queues of its groups, and no others. Those of
/// one file share a queue whoever serves its groups, and so run in their order.
type WorkQueue = Vec<u32>;

fn queue_of(intent: &Intent) -> WorkQueue {
    let (Intent::Unlink { layout, .. } | Intent::Truncate { layout, .. }) = intent;
    let mut queue = layout.groups.clone();
    queue.sort_unstable();
    queue.dedup();
    queue
}

/// The queues that no task runs.
struct IdleQueues {
    queues: Vec<WorkQueue>,
    /// The time until there may be more, if no intent comes before.
    more_after: Option<Duration>,
}

/// An intent that is not done.
struct Open {
    intent: Intent,
    /// Whether the intent ends when it is done. Objects are removed twice: a client with a grant may make one again
    /// after the first time, also at a server that has restarted and lost its tombstone.
    last: bool,
    /// How often a server refused it, and when it is tried again.
    refused: u32,
    not_before: Option<Instant>,
}

impl Open {
    fn new(intent: Intent, last: bool) -> Open {
        Open {
            intent,
            last,
            refused: 0,
            not_before: None,
        }
    }
}

/// The intents that are not done, by work queue.
pub(super) struct Intents {
    open: RefCell<BTreeMap<WorkQueue, BTreeMap<u64, Open>>>,
    /// Queues that a task runs.
    running: RefCell<HashSet<WorkQueue>>,
    /// Removals that were done once, and when, the earliest first: they run once more.
    again: RefCell<VecDeque<(Instant, u64, Intent)>>,
    /// Files that are being truncated: to which size, by the number of the intent.
    truncating: RefCell<HashMap<FileId, BTreeMap<u64, u64>>>,
    waiting: RefCell<BTreeMap<u64, oneshot::Sender<Result<(), Status>>>>,
    /// Queues of which servers refused all intents, and when they run again.
    resting: RefCell<BTreeMap<WorkQueue, Instant>>,
    wake_up: Notify,
}

impl Intents {
    pub(super) fn new(open: Vec<(u64, Intent)>) -> Intents {
        let intents = Intents {
            open: RefCell::default(),
            running: RefCell::default(),
            again: RefCell::default(),
            truncating: RefCell::default(),
            waiting: RefCell::default(),
            resting: RefCell::default(),
            wake_up: Notify::default(),
        };
        intents.learn(open);
        intents
    }

    /// Takes new intents.
    pub(super) fn learn(&self, made: Vec<(u64, Intent)>) {
        for (number, intent) in made {
            if let Intent::Truncate { file, size, .. } = &intent {
                let mut truncating = self.truncating.borrow_mut();
                truncating.entry(*file).or_default().insert(number, *size);
            }
            let last = matches!(intent, Intent::Truncate { .. });
            self.open(number, Open::new(intent, last));
        }
        self.wake_up.notify();
    }

    fn open(&self, number: u64, open: Open) {
        let mut queues = self.open.borrow_mut();
        let queue = queue_of(&open.intent);
        self.resting.borrow_mut().remove(&queue);
        queues.entry(queue).or_default().insert(number, open);
    }

    /// The size that the oldest truncation of a file has, if one is open.
    pub(super) fn cuts_to(&self, file: FileId) -> Option<u64> {
        let truncating = self.truncating.borrow();
        truncating.get(&file)?.values().next().copied()
    }

    /// Waits until an intent is done.
    ///
    /// # Errors
    /// `Jukebox`: an I/O server is away, and the intent stays. Others: it can never be done, and has ended.
    pub(super) async fn wait(&self, runtime: &Handle, number: u64) -> Result<(), Status> {
        let (sender, receiver) = oneshot::channel();
        let is_open = |queue: &BTreeMap<u64, Open>| queue.contains_key(&number);
        if !self.open.borrow().values().any(is_open) {
            return Ok(());
        }
        self.waiting.borrow_mut().insert(number, sender);
        let done = timeout(runtime, INTENT_DEADLINE, receiver).await;
        self.waiting.borrow_mut().remove(&number);
        match done {
            Ok(Ok(outcome)) => outcome,
            _ => Err(Status::Jukebox),
        }
    }

    /// Notes that an I/O server refused an intent: it is tried again after a pause that doubles. True the first time.
    fn refuse(&self, queue: &WorkQueue, number: u64, now: Instant) -> bool {
        let mut queues = self.open.borrow_mut();
        let Some(open) = queues.get_mut(queue).and_then(|open| open.get_mut(&number)) else {
            return false;
        };
        open.not_before = Some(now + INTENT_RETRY * (1 << open.refused.min(REFUSED_MAX)));
        open.refused += 1;
        open.refused == 1
    }

    /// Opens removals again that are due; the time until the next is.
    fn open_again(&self, now: Instant) -> Option<Duration> {
        let mut again = self.again.borrow_mut();
        loop {
            let due = again.front()?.0 + UNLINK_AGAIN_AFTER;
            if now < due && again.len() <= UNLINKED_MAX {
                return Some(due.duration_since(now));
            }
            let (_, number, intent) = again.pop_front()?;
            self.open(number, Open::new(intent, true));
        }
    }

    /// Notes that an intent was done; whether it ends with that.
    fn complete(&self, queue: &WorkQueue, number: u64, now: Instant) -> bool {
        let mut queues = self.open.borrow_mut();
        let Some(open) = queues.get_mut(queue) else {
            return true;
        };
        if open.get(&number).is_none_or(|open| open.last) {
            return true;
        }
        if let Some(Open { intent, .. }) = open.remove(&number) {
            self.again.borrow_mut().push_back((now, number, intent));
            self.wake_up.notify();
        }
        false
    }

    fn close(&self, queue: &WorkQueue, number: u64, outcome: Result<(), Status>) {
        let mut queues = self.open.borrow_mut();
        let closed = queues.get_mut(queue).and_then(|open| open.remove(&number));
        drop(queues);
        if let Some(Intent::Truncate { file, .. }) = closed.map(|open| open.intent) {
            let mut truncating = self.truncating.borrow_mut();
            if let Some(intents) = truncating.get_mut(&file) {
                intents.remove(&number);
                if intents.is_empty() {
                    truncating.remove(&file);
                }
            }
        }
        if let Some(waiter) = self.waiting.borrow_mut().remove(&number) {
            // Who waited may be gone.
            let _ = waiter.send(outcome);
        }
    }

    /// Takes the queues that no task runs, for the caller to run them.
    fn take_idle(&self, now: Instant) -> IdleQueues {
        let again = self.open_again(now);
        let (open, mut running) = (self.open.borrow(), self.running.borrow_mut());
        let mut resting = self.resting.borrow_mut();
        resting.retain(|_, due| now < *due);
        let idle = open
            .keys()
            .filter(|queue| !running.contains(*queue) && !resting.contains_key(*queue));
        let queues: Vec<WorkQueue> = idle.cloned().collect();
        running.extend(queues.iter().cloned());
        let rested = resting.values().min().map(|due| due.duration_since(now));
        IdleQueues {
            queues,
            more_after: [again, rested].into_iter().flatten().min(),
        }
    }

    /// The oldest intent of a queue for each file: those of one file run in their order. The list is empty when the
    /// queue is, or when servers refused all of it just now; then the queue is not running any more.
    fn next(&self, queue: &WorkQueue, now: Instant) -> Vec<(u64, Intent)> {
        let (mut files, mut next, mut due) = (HashSet::new(), Vec::new(), None);
        let mut queues = self.open.borrow_mut();
        for (number, open) in queues.get(queue).into_iter().flatten() {
            if next.len() == INTENTS_AT_A_TIME {
                break;
            }
            if !files.insert(open.intent.file()) {
                continue;
            }
            match open.not_before.filter(|time| now < *time) {
                None => next.push((*number, open.intent.clone())),
                Some(time) => due = Some(due.map_or(time, |it: Instant| it.min(time))),
            }
        }
        if next.is_empty() {
            self.running.borrow_mut().remove(queue);
            match due {
                None => drop(queues.remove(queue)),
                Some(due) => {
                    self.resting.borrow_mut().insert(queue.clone(), due);
                    self.wake_up.notify();
                }
            }
        }
        next
    }
}

impl Manager {
    /// Runs intents, old and new, until the runtime ends.
    pub(super) async fn run_intents(self: Rc<Self>) {
        loop {
            let idle = self.intents.take_idle(self.runtime.now());
            for queue in idle.queues {
                let manager = Rc::clone(&self);
                let work = async move { manager.run_queue(&queue).await };
                self.runtime.spawn("intents of a queue", Box::pin(work));
            }
            let wake_up = self.intents.wake_up.notified();
            match idle.more_after {
                // Either is a reason to look again.
                Some(pause) => drop(timeout(&self.runtime, pause, wake_up).await),
                None => wake_up.await,
            }
        }
    }

    async fn run_queue(&self, queue: &WorkQueue) {
        loop {
            let next = self.intents.next(queue, self.runtime.now());
            if next.is_empty() {
                return;
            }
            let work = next.iter().map(|(_, intent)| {
                let objects = Rc::clone(&self.objects);
                let work: LocalFuture<Progress> = Box::pin(objects.run(intent.clone()));
                work
            });
            let outcomes = all(work).await;
            let (now, mut ended, mut is_away) = (self.runtime.now(), Vec::new(), false);
            let (mut refused, mut refusals) = (None, 0_u32);
            for ((number, intent), progress) in next.iter().zip(outcomes) {
                match progress {
                    Progress::Done if self.intents.complete(queue, *number, now) => {
                        ended.push((*number, Ok(())))
                    }
                    Progress::Done => {}
                    Progress::Never(status) => {
                        tracing::warn!(
                            file = intent.file().0,
                            %status,
                            "an I/O server cannot cut it to that size"
                        );
                        ended.push((*number, Err(status)));
                    }
                    Progress::Refused(status) => {
                        if self.intents.refuse(queue, *number, now) {
                            refused = Some((intent.file().0, status));
                            refusals += 1;
                        }
                    }
                    Progress::Away => is_away = true,
                }
            }
            if let Some((file, status)) = refused {
                tracing::warn!(
                    file,
                    %status,
                    groups = super::listed(queue),
                    refusals,
                    "an I/O server refuses to remove or cut an object: trying again (its log, or `gannet volume check`, may tell why)"
                );
            }
            if !self.forget(queue, ended).await || is_away {
                sleep(&self.runtime, INTENT_RETRY).await;
            }
        }
    }

    /// Removes intents that have ended from the store, and then wakes their callers; false if that fails. No caller may
    /// hear of the end before: run again after a restart, a truncation would cut off what was written since.
    async fn forget(&self, queue: &WorkQueue, ended: Vec<(u64, Result<(), Status>)>) -> bool {
        if ended.is_empty() {
            return true;
        }
        let numbers: Vec<u64> = ended.iter().map(|(number, _)| *number).collect();
        let store = Arc::clone(&self.store);
        let removed = run_blocking(&self.runtime, move || remove(&*store, &numbers)).await;
        let removed = removed.unwrap_or(false);
        if removed {
            for (number, outcome) in ended {
                self.intents.close(queue, number, outcome);
            }
        } else {
            tracing::warn!("completed intents stay in the metadata store: trying again")
        }
        removed
    }
}

fn remove(store: &dyn MetaStore, numbers: &[u64]) -> bool {
    let mut removed = true;
    let committed = store.commit(&mut |transaction| {
        for number in numbers {
            removed &= namespace::complete_intent(transaction, *number).is_ok();
        }
        Ok(())
    });
    removed && committed.is_ok()
}
