//! Work at I/O servers that the manager has promised: done until it is done.

use super::Manager;
use super::term::Office;
use crate::layout::{object_size, placements};
use crate::limits::{
    CAPABILITY_AGE, CLOCK_SKEW_MAX, PROMISE_DEADLINE, PROMISE_RETRY, PROMISES_AT_A_SERVER,
    PROMISES_AT_A_TIME, REFUSED_MAX, UNLINK_AGAIN_AFTER, UNLINKED_MAX,
};
use crate::link::{Link, LinkError};
use crate::secret::ServerKeys;
use gannet_meta::MetaStore;
use gannet_meta::namespace::{self, Promise};
use gannet_runtime::all;
use gannet_runtime::{Handle, Instant, LocalFuture, Notify, run_blocking, sleep, timeout};
use gannet_wire::volume::{Capability, Class, FileId, ObjectRange, Operation, Placement, Status};
use gannet_wire::xdr::to_bytes;
use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Semaphore, oneshot};

/// The I/O servers of a volume, as the manager reaches them.
pub trait IoServers {
    /// How many there are; their numbers are 0, 1, 2 ...
    fn count(&self) -> u32;

    /// A connection to one of them, made if there is none.
    fn link(self: Rc<Self>, number: u32) -> LocalFuture<Result<Link, LinkError>>;

    /// The manager's term with this number begins: each request tells it from now on.
    fn begin_term(&self, number: u64);
}

/// Changes objects.
pub(super) struct Objects {
    runtime: Handle,
    keys: ServerKeys,
    servers: Rc<dyn IoServers>,
    office: Rc<Office>,
    /// How many more requests each may have now.
    room: RefCell<BTreeMap<u32, Arc<Semaphore>>>,
}

impl Objects {
    pub(super) fn new(
        runtime: Handle,
        keys: ServerKeys,
        (servers, office): (Rc<dyn IoServers>, Rc<Office>),
    ) -> Rc<Objects> {
        Rc::new(Objects {
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

    /// Does what was promised, at all servers of the file, and says how far that is.
    async fn keep(self: Rc<Self>, promise: Promise) -> Kept {
        let (file, layout, size) = match &promise {
            Promise::Unlink(file, layout) => (*file, layout, None),
            Promise::Truncate(file, layout, size) => (*file, layout, Some(*size)),
        };
        let calls = placements(layout).map(|(number, placement)| {
            let (objects, size) = (Rc::clone(&self), size);
            let call: LocalFuture<Kept> = Box::pin(async move {
                match objects.change(file, number, placement, size).await {
                    Ok(kept) => kept,
                    Err(error) => {
                        tracing::debug!(?file, number, %error, "an object is not changed yet");
                        Kept::Away
                    }
                }
            });
            call
        });
        all(calls).await.into_iter().fold(Kept::Done, Kept::and)
    }

    async fn change(
        &self,
        file: FileId,
        number: u32,
        placement: Placement,
        size: Option<u64>,
    ) -> Result<Kept, LinkError> {
        let room = Arc::clone(self.room.borrow_mut().entry(number).or_insert_with(room));
        // Never closed.
        let _permit = room.acquire().await;
        let expires = self.runtime.wall_clock() + CAPABILITY_AGE + CLOCK_SKEW_MAX;
        let (operation, size) = match size {
            None => (Operation::Unlink, 0),
            Some(size) => (Operation::Truncate, object_size(size, placement)),
        };
        let range = ObjectRange {
            capability: self
                .keys
                .grant(self.office.number(), file.0, Capability::WRITE, expires),
            size,
        };
        let link = Rc::clone(&self.servers).link(number).await?;
        let answer = link
            .call(operation, Class::Metadata, &to_bytes(&range), &[])
            .await?;
        let kept = Kept::by(operation, answer.header.status);
        if kept != Kept::Done {
            tracing::debug!(?file, number, ?kept, "an object is not changed");
        }
        Ok(kept)
    }
}

/// How far a promise is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kept {
    /// It is kept.
    Done,
    /// An I/O server will never be able to keep it: that is the end of it, and whoever waits hears why.
    Never(Status),
    /// An I/O server refuses now, with this status, for a reason of its own. Others of the lane need not wait for that.
    Refused(Status),
    /// An I/O server is away, and with it the lane.
    Away,
}

impl Kept {
    /// What an I/O server's status says of it.
    fn by(operation: Operation, outcome: Result<(), Status>) -> Kept {
        match outcome {
            Ok(()) => Kept::Done,
            Err(Status::Jukebox) => Kept::Away,
            // Its file system has no files of that size, or the object was lost with its disk.
            Err(status @ (Status::Fbig | Status::Nxio)) if operation == Operation::Truncate => {
                Kept::Never(status)
            }
            Err(status) => Kept::Refused(status),
        }
    }

    /// What that of two servers comes to.
    fn and(self, other: Kept) -> Kept {
        let weight = |kept: &Kept| match kept {
            Kept::Done => 0,
            Kept::Never(_) => 1,
            Kept::Refused(_) => 2,
            Kept::Away => 3,
        };
        std::cmp::max_by_key(self, other, weight)
    }
}

fn room() -> Arc<Semaphore> {
    Arc::new(Semaphore::new(PROMISES_AT_A_SERVER))
}

/// The I/O servers of a file, in the order of their numbers. Promises for files on the same ones are kept together, and
/// wait for no others: a server that is away holds up what it has a part in, and nothing else.
type Lane = Vec<u32>;

fn lane_of(promise: &Promise) -> Lane {
    let (Promise::Unlink(_, layout) | Promise::Truncate(_, layout, _)) = promise;
    let mut lane: Lane = placements(layout).map(|(number, _)| number).collect();
    lane.sort_unstable();
    lane.dedup();
    lane
}

/// A promise to be kept.
struct Open {
    promise: Promise,
    /// That is the end of it. Objects are removed twice: whoever had the right to write may make one again after the
    /// first time, also at a server that was restarted meanwhile and knows nothing of it.
    last: bool,
    /// How often it was refused, and until when it waits for that.
    refused: u32,
    not_before: Option<Instant>,
}

impl Open {
    fn new(promise: Promise, last: bool) -> Open {
        Open {
            promise,
            last,
            refused: 0,
            not_before: None,
        }
    }
}

/// Promises that are not kept yet.
#[derive(Default)]
pub(super) struct Promises {
    open: RefCell<BTreeMap<Lane, BTreeMap<u64, Open>>>,
    /// Lanes that somebody works on.
    worked_on: RefCell<HashSet<Lane>>,
    /// Those that were kept, and when, the earliest first: they are kept once more.
    again: RefCell<VecDeque<(Instant, u64, Promise)>>,
    /// Files whose size is being changed: to what, by the number of the promise.
    truncating: RefCell<HashMap<FileId, BTreeMap<u64, u64>>>,
    waiting: RefCell<BTreeMap<u64, oneshot::Sender<Result<(), Status>>>>,
    /// Lanes of which all promises were refused just now, until when nobody works on them.
    resting: RefCell<BTreeMap<Lane, Instant>>,
    news: Notify,
}

impl Promises {
    pub(super) fn new(open: Vec<(u64, Promise)>) -> Promises {
        let promises = Promises::default();
        promises.learn(open);
        promises
    }

    /// Takes new promises.
    pub(super) fn learn(&self, made: Vec<(u64, Promise)>) {
        for (number, promise) in made {
            if let Promise::Truncate(file, _, size) = &promise {
                let mut truncating = self.truncating.borrow_mut();
                truncating.entry(*file).or_default().insert(number, *size);
            }
            let last = matches!(promise, Promise::Truncate(..));
            self.open(number, Open::new(promise, last));
        }
        self.news.notify();
    }

    fn open(&self, number: u64, open: Open) {
        let (mut lanes, lane) = (self.open.borrow_mut(), lane_of(&open.promise));
        self.resting.borrow_mut().remove(&lane);
        lanes.entry(lane).or_default().insert(number, open);
    }

    /// What a file is cut to by the oldest promise to cut it, if there is one.
    pub(super) fn cuts_to(&self, file: FileId) -> Option<u64> {
        let truncating = self.truncating.borrow();
        truncating.get(&file)?.values().next().copied()
    }

    /// Waits until a promise is kept.
    ///
    /// # Errors
    /// `Jukebox`: an I/O server is away. The promise stays. Others: it can never be kept, and is gone.
    pub(super) async fn kept(&self, runtime: &Handle, number: u64) -> Result<(), Status> {
        let (sender, receiver) = oneshot::channel();
        let is_open = |lane: &BTreeMap<u64, Open>| lane.contains_key(&number);
        if !self.open.borrow().values().any(is_open) {
            return Ok(());
        }
        self.waiting.borrow_mut().insert(number, sender);
        let kept = timeout(runtime, PROMISE_DEADLINE, receiver).await;
        self.waiting.borrow_mut().remove(&number);
        match kept {
            Ok(Ok(outcome)) => outcome,
            _ => Err(Status::Jukebox),
        }
    }

    /// An I/O server has refused to keep a promise: it is tried again later, and less and less often. True if it is the
    /// first time.
    fn refuse(&self, lane: &Lane, number: u64, now: Instant) -> bool {
        let mut lanes = self.open.borrow_mut();
        let Some(open) = lanes.get_mut(lane).and_then(|open| open.get_mut(&number)) else {
            return false;
        };
        open.not_before = Some(now + PROMISE_RETRY * (1 << open.refused.min(REFUSED_MAX)));
        open.refused += 1;
        open.refused == 1
    }

    /// Opens those again that are due; in how long the next will be.
    fn open_again(&self, now: Instant) -> Option<Duration> {
        let mut again = self.again.borrow_mut();
        loop {
            let due = again.front()?.0 + UNLINK_AGAIN_AFTER;
            if now < due && again.len() <= UNLINKED_MAX {
                return Some(due.duration_since(now));
            }
            let (_, number, promise) = again.pop_front()?;
            self.open(number, Open::new(promise, true));
        }
    }

    /// A promise was kept; whether that was the end of it.
    fn keep(&self, lane: &Lane, number: u64, now: Instant) -> bool {
        let mut lanes = self.open.borrow_mut();
        let Some(open) = lanes.get_mut(lane) else {
            return true;
        };
        if open.get(&number).is_none_or(|open| open.last) {
            return true;
        }
        if let Some(Open { promise, .. }) = open.remove(&number) {
            self.again.borrow_mut().push_back((now, number, promise));
            self.news.notify();
        }
        false
    }

    fn close(&self, lane: &Lane, number: u64, outcome: Result<(), Status>) {
        let mut lanes = self.open.borrow_mut();
        let closed = lanes.get_mut(lane).and_then(|open| open.remove(&number));
        drop(lanes);
        if let Some(Promise::Truncate(file, ..)) = closed.map(|open| open.promise) {
            let mut truncating = self.truncating.borrow_mut();
            if let Some(promises) = truncating.get_mut(&file) {
                promises.remove(&number);
                if promises.is_empty() {
                    truncating.remove(&file);
                }
            }
        }
        if let Some(waiter) = self.waiting.borrow_mut().remove(&number) {
            // Who waited may be gone.
            let _ = waiter.send(outcome);
        }
    }

    /// Lanes with promises that nobody works on: whoever asks does. And in how long there may be more of them if nobody
    /// promises anything before.
    fn lanes(&self, now: Instant) -> (Vec<Lane>, Option<Duration>) {
        let again = self.open_again(now);
        let (open, mut worked_on) = (self.open.borrow(), self.worked_on.borrow_mut());
        let mut resting = self.resting.borrow_mut();
        resting.retain(|_, due| now < *due);
        let idle = open
            .keys()
            .filter(|lane| !worked_on.contains(*lane) && !resting.contains_key(*lane));
        let idle: Vec<Lane> = idle.cloned().collect();
        worked_on.extend(idle.iter().cloned());
        let rested = resting.values().min().map(|due| due.duration_since(now));
        (idle, [again, rested].into_iter().flatten().min())
    }

    /// The oldest promise of a lane for each file: those for one file are kept in their order. None are there when the
    /// lane is empty, or all were refused just now; nobody works on it any more then.
    fn next(&self, lane: &Lane, now: Instant) -> Vec<(u64, Promise)> {
        let (mut files, mut next, mut due) = (HashSet::new(), Vec::new(), None);
        let mut lanes = self.open.borrow_mut();
        for (number, open) in lanes.get(lane).into_iter().flatten() {
            if next.len() == PROMISES_AT_A_TIME {
                break;
            }
            if !files.insert(open.promise.file()) {
                continue;
            }
            match open.not_before.filter(|time| now < *time) {
                None => next.push((*number, open.promise.clone())),
                Some(time) => due = Some(due.map_or(time, |it: Instant| it.min(time))),
            }
        }
        if next.is_empty() {
            self.worked_on.borrow_mut().remove(lane);
            match due {
                None => drop(lanes.remove(lane)),
                Some(due) => {
                    self.resting.borrow_mut().insert(lane.clone(), due);
                    self.news.notify();
                }
            }
        }
        next
    }
}

impl Manager {
    /// Keeps promises, old and new, until the runtime ends.
    pub(super) async fn keep_promises(self: Rc<Self>) {
        loop {
            let (lanes, pause) = self.promises.lanes(self.runtime.now());
            for lane in lanes {
                let manager = Rc::clone(&self);
                let work = async move { manager.keep_lane(&lane).await };
                self.runtime.spawn("promises of a lane", Box::pin(work));
            }
            let news = self.promises.news.notified();
            match pause {
                // Either is a reason to look again.
                Some(pause) => drop(timeout(&self.runtime, pause, news).await),
                None => news.await,
            }
        }
    }

    async fn keep_lane(&self, lane: &Lane) {
        loop {
            let next = self.promises.next(lane, self.runtime.now());
            if next.is_empty() {
                return;
            }
            let work = next.iter().map(|(_, promise)| {
                let objects = Rc::clone(&self.objects);
                let work: LocalFuture<Kept> = Box::pin(objects.keep(promise.clone()));
                work
            });
            let outcomes = all(work).await;
            let (now, mut ended, mut is_away) = (self.runtime.now(), Vec::new(), false);
            let (mut refused, mut refusals) = (None, 0_u32);
            for ((number, promise), kept) in next.iter().zip(outcomes) {
                match kept {
                    Kept::Done if self.promises.keep(lane, *number, now) => {
                        ended.push((*number, Ok(())))
                    }
                    Kept::Done => {}
                    Kept::Never(status) => {
                        tracing::warn!(
                            file = promise.file().0,
                            ?status,
                            "an I/O server cannot cut it to that size"
                        );
                        ended.push((*number, Err(status)));
                    }
                    Kept::Refused(status) => {
                        if self.promises.refuse(lane, *number, now) {
                            refused = Some((promise.file().0, status));
                            refusals += 1;
                        }
                    }
                    Kept::Away => is_away = true,
                }
            }
            if let Some((file, status)) = refused {
                tracing::warn!(
                    file,
                    ?status,
                    servers = ?lane,
                    refusals,
                    "an I/O server refuses to remove or cut an object: trying again (its log, or `gannet volume check`, may tell why)"
                );
            }
            if !self.forget(lane, ended).await || is_away {
                sleep(&self.runtime, PROMISE_RETRY).await;
            }
        }
    }

    /// Takes promises that are kept, or never will be, out of the store, and then tells those who wait for them; false
    /// if that fails. Nobody may be told before: kept once more after a restart, a promise to cut a file would cut what
    /// was written since.
    async fn forget(&self, lane: &Lane, ended: Vec<(u64, Result<(), Status>)>) -> bool {
        if ended.is_empty() {
            return true;
        }
        let numbers: Vec<u64> = ended.iter().map(|(number, _)| *number).collect();
        let store = Arc::clone(&self.store);
        let removed = run_blocking(&self.runtime, move || remove(&*store, &numbers)).await;
        let removed = removed.unwrap_or(false);
        match removed {
            true => {
                for (number, outcome) in ended {
                    self.promises.close(lane, number, outcome);
                }
            }
            false => tracing::warn!("kept promises stay in the metadata store: trying again"),
        }
        removed
    }
}

fn remove(store: &dyn MetaStore, numbers: &[u64]) -> bool {
    let mut removed = true;
    let committed = store.commit(&mut |transaction| {
        for number in numbers {
            removed &= namespace::keep_promise(transaction, *number).is_ok();
        }
        Ok(())
    });
    removed && committed.is_ok()
}
