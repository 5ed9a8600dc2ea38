//! Work at I/O servers that the manager has promised: done until it is done.

use super::Manager;
use crate::calls::encode;
use crate::layout::{object_size, placements};
use crate::limits::{
    CAPABILITY_AGE, CLOCK_SKEW_MAX, PROMISE_DEADLINE, PROMISE_RETRY, PROMISES_AT_A_SERVER,
    PROMISES_AT_A_TIME, UNLINK_AGAIN_AFTER, UNLINKED_MAX,
};
use crate::link::{Link, LinkError};
use crate::meta::namespace::{self, Promise};
use crate::meta::{FileId, MetaStore};
use crate::secret::ServerKeys;
use gannet_runtime::all;
use gannet_runtime::{Handle, Instant, LocalFuture, Notify, run_blocking, sleep, timeout};
use gannet_vfs::Status;
use gannet_wire::volume::{Capability, Class, ObjectRange, Operation, Placement};
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
}

/// Changes objects.
pub(super) struct Objects {
    runtime: Handle,
    keys: ServerKeys,
    servers: Rc<dyn IoServers>,
    /// How many more requests each may have now.
    room: RefCell<BTreeMap<u32, Arc<Semaphore>>>,
}

impl Objects {
    pub(super) fn new(
        runtime: Handle,
        keys: ServerKeys,
        servers: Rc<dyn IoServers>,
    ) -> Rc<Objects> {
        Rc::new(Objects {
            runtime,
            keys,
            servers,
            room: RefCell::default(),
        })
    }

    pub(super) fn count(&self) -> u32 {
        self.servers.count()
    }

    /// Does what was promised, at all servers of the file; true when all have done it.
    async fn keep(self: Rc<Self>, promise: Promise) -> bool {
        let (file, layout, size) = match &promise {
            Promise::Unlink(file, layout) => (*file, layout, None),
            Promise::Truncate(file, layout, size) => (*file, layout, Some(*size)),
        };
        let calls = placements(layout).map(|(number, placement)| {
            let (objects, size) = (Rc::clone(&self), size);
            let call: LocalFuture<bool> = Box::pin(async move {
                let done = objects.change(file, number, placement, size).await;
                if let Err(error) = &done {
                    tracing::debug!(?file, number, %error, "an object is not changed yet");
                }
                done.is_ok()
            });
            call
        });
        all(calls).await.into_iter().all(|done| done)
    }

    async fn change(
        &self,
        file: FileId,
        number: u32,
        placement: Placement,
        size: Option<u64>,
    ) -> Result<(), LinkError> {
        let room = Arc::clone(self.room.borrow_mut().entry(number).or_insert_with(room));
        // Never closed.
        let _permit = room.acquire().await;
        let expires = self.runtime.wall_clock() + CAPABILITY_AGE + CLOCK_SKEW_MAX;
        let (operation, size) = match size {
            None => (Operation::Unlink, 0),
            Some(size) => (Operation::Truncate, object_size(size, placement)),
        };
        let range = ObjectRange {
            capability: self.keys.grant(file.0, Capability::WRITE, expires),
            size,
        };
        let link = Rc::clone(&self.servers).link(number).await?;
        let answer = link
            .call(operation, Class::Metadata, &encode(&range), &[])
            .await?;
        match answer.header.status.0 {
            0 => Ok(()),
            status => Err(LinkError::Ended(format!("status {status}"))),
        }
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
    waiting: RefCell<BTreeMap<u64, oneshot::Sender<()>>>,
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
            self.open(number, Open { promise, last });
        }
        self.news.notify();
    }

    fn open(&self, number: u64, open: Open) {
        let mut lanes = self.open.borrow_mut();
        let lane = lanes.entry(lane_of(&open.promise)).or_default();
        lane.insert(number, open);
    }

    /// What a file is cut to by the oldest promise to cut it, if there is one.
    pub(super) fn cuts_to(&self, file: FileId) -> Option<u64> {
        let truncating = self.truncating.borrow();
        truncating.get(&file)?.values().next().copied()
    }

    /// Waits until a promise is kept.
    ///
    /// # Errors
    /// `Jukebox`: an I/O server is away. The promise stays.
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
            Ok(Ok(())) => Ok(()),
            _ => Err(Status::Jukebox),
        }
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
            let last = true;
            self.open(number, Open { promise, last });
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

    fn close(&self, lane: &Lane, number: u64) {
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
            let _ = waiter.send(());
        }
    }

    /// Lanes with promises that nobody works on: whoever asks does.
    fn lanes(&self) -> Vec<Lane> {
        let (open, mut worked_on) = (self.open.borrow(), self.worked_on.borrow_mut());
        let idle = open.keys().filter(|lane| !worked_on.contains(*lane));
        let idle: Vec<Lane> = idle.cloned().collect();
        worked_on.extend(idle.iter().cloned());
        idle
    }

    /// The oldest promise of a lane for each file: those for one file are kept in their order. None are there when the
    /// lane is empty, and nobody works on it any more.
    fn next(&self, lane: &Lane) -> Vec<(u64, Promise)> {
        let (mut files, mut next) = (HashSet::new(), Vec::new());
        let mut lanes = self.open.borrow_mut();
        for (number, Open { promise, .. }) in lanes.get(lane).into_iter().flatten() {
            if next.len() == PROMISES_AT_A_TIME {
                break;
            }
            if files.insert(promise.file()) {
                next.push((*number, promise.clone()));
            }
        }
        if next.is_empty() {
            lanes.remove(lane);
            self.worked_on.borrow_mut().remove(lane);
        }
        next
    }
}

impl Manager {
    /// Keeps promises, old and new, until the runtime ends.
    pub async fn keep_promises(self: Rc<Self>) {
        loop {
            let pause = self.promises.open_again(self.runtime.now());
            for lane in self.promises.lanes() {
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
            let next = self.promises.next(lane);
            if next.is_empty() {
                return;
            }
            let work = next.iter().map(|(_, promise)| {
                let objects = Rc::clone(&self.objects);
                let work: LocalFuture<bool> = Box::pin(objects.keep(promise.clone()));
                work
            });
            let done = all(work).await;
            let kept: Vec<u64> = (next.iter().zip(&done))
                .filter_map(|((number, _), done)| done.then_some(*number))
                .collect();
            let failed = kept.len() < next.len();
            let now = self.runtime.now();
            let ended = kept.into_iter();
            let ended = ended.filter(|number| self.promises.keep(lane, *number, now));
            if !self.forget(lane, ended.collect()).await || failed {
                sleep(&self.runtime, PROMISE_RETRY).await;
            }
        }
    }

    /// Takes promises that are kept out of the store, and then tells those who wait for them; false if that fails.
    /// Nobody may be told before: kept once more after a restart, a promise to cut a file would cut what was written
    /// since.
    async fn forget(&self, lane: &Lane, kept: Vec<u64>) -> bool {
        if kept.is_empty() {
            return true;
        }
        let (store, numbers) = (Arc::clone(&self.store), kept.clone());
        let removed = run_blocking(&self.runtime, move || remove(&*store, &numbers)).await;
        let removed = removed.unwrap_or(false);
        match removed {
            true => (kept.into_iter()).for_each(|number| self.promises.close(lane, number)),
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
