//! Group commit on one core: the number of syncs under way, their order, and the requests that share one.
//!
//! A request names its target. While a sync of the target is under way, further requests for it wait in a batch; the
//! next sync answers all of them. A request never joins the sync under way, which may have begun before the request's
//! change. At most [`SYNCS_MAX`] syncs are under way, so a client that does nothing but sync leaves the
//! blocking pool's other threads to lookups and reads. Clients take turns: the next sync is the oldest request of the
//! client in turn, and answers the other clients that wait for the same target.
//!
//! The state is borrowed within one step, never across an await: requests and ended syncs of other tasks come
//! meanwhile.

use super::durable::{Target, TargetKey};
use super::lanes::Lanes;
use crate::limits::SYNCS_MAX;
use gannet_runtime::stages::{self, Stage};
use gannet_runtime::{FairQueue, Handle};
use gannet_vfs::{Changed, Credentials, Stability, Status};
use std::cell::RefCell;
use std::collections::HashMap;
use std::net::IpAddr;
use std::rc::Rc;
use tokio::sync::oneshot;

/// The sender of a sync's result to a request that waits.
type Waiter = oneshot::Sender<Result<(), Status>>;
/// The receiver of the request.
type Outcome = oneshot::Receiver<Result<(), Status>>;
/// The owner of a turn: a client, or `None` for the server itself.
type Client = Option<IpAddr>;

/// The syncs of one core.
pub(crate) struct GroupCommit {
    runtime: Handle,
    lanes: Rc<Lanes>,
    state: RefCell<State>,
}

#[derive(Default)]
struct State {
    /// The targets for which each client waits. Each entry has a batch, and each client of a batch has an entry: an
    /// entry without a batch would use up a turn, and a batch without an entry would wait for ever.
    queue: FairQueue<Client, TargetKey>,
    batches: HashMap<TargetKey, Batch>,
    /// Targets of the syncs under way, at most [`SYNCS_MAX`].
    under_way: Vec<TargetKey>,
}

/// Requests that the next sync of a target answers.
struct Batch {
    target: Target,
    stability: Stability,
    clients: Vec<Client>,
    waiters: Vec<Waiter>,
}

impl State {
    fn request(&mut self, client: Client, target: Target, stability: Stability) -> Outcome {
        let (waiter, outcome) = oneshot::channel();
        let key = target.key();
        let batch = self.batches.entry(key).or_insert_with(|| Batch {
            target,
            stability,
            clients: Vec::new(),
            waiters: Vec::new(),
        });
        batch.stability = batch.stability.max(stability);
        batch.waiters.push(waiter);
        if !batch.clients.contains(&client) {
            batch.clients.push(client);
            self.queue.push(client, key);
        }
        outcome
    }

    /// The batch to sync next, if there is room for one.
    fn next(&mut self) -> Option<Batch> {
        if self.under_way.len() >= SYNCS_MAX {
            return None;
        }
        let under_way = &self.under_way;
        let key = self.queue.take(|key| !under_way.contains(key))?;
        self.under_way.push(key);
        self.take_batch(key)
    }

    /// Notes the end of a sync. If it failed, returns the batch that came meanwhile, which must fail too: the kernel
    /// reports a page that it could not write to one sync alone, and these requests may wait for that page.
    fn ended(&mut self, key: TargetKey, has_failed: bool) -> Option<Batch> {
        self.under_way.retain(|other| *other != key);
        if has_failed {
            self.take_batch(key)
        } else {
            None
        }
    }

    fn take_batch(&mut self, key: TargetKey) -> Option<Batch> {
        let batch = self.batches.remove(&key)?;
        for client in &batch.clients {
            self.queue.remove(*client, &key);
        }
        Some(batch)
    }
}

impl Batch {
    fn answer(self, synced: Result<(), Status>) {
        for waiter in self.waiters {
            // The send fails only if the request does not wait any more.
            let _ = waiter.send(synced);
        }
    }
}

impl GroupCommit {
    pub(crate) fn new(runtime: Handle, lanes: Rc<Lanes>) -> Rc<GroupCommit> {
        Rc::new(GroupCommit {
            runtime,
            lanes,
            state: RefCell::default(),
        })
    }

    /// Makes all changes of a target up to now durable.
    ///
    /// # Errors
    /// As fsync(2); `Jukebox` when the runtime shuts down meanwhile.
    pub(crate) async fn sync(
        self: &Rc<Self>,
        caller: &Credentials,
        target: Target,
        stability: Stability,
    ) -> Result<(), Status> {
        let _stage = stages::enter(Stage::Sync);
        let outcome = self.request(caller, target, stability);
        outcome.await.unwrap_or(Err(Status::Jukebox))
    }

    /// Waits until a change is durable, by syncs of `targets`. A change that failed waits for none.
    pub(crate) async fn settle<T>(
        self: &Rc<Self>,
        caller: &Credentials,
        mut changed: Changed<T>,
        targets: Vec<Target>,
    ) -> Changed<T> {
        if changed.result.is_ok()
            && let Err(reason) = self.sync_all(caller, targets).await
        {
            changed.result = Err(reason);
        }
        changed
    }

    /// Makes all changes of several targets up to now durable.
    ///
    /// # Errors
    /// As [`GroupCommit::sync`].
    pub(crate) async fn sync_all(
        self: &Rc<Self>,
        caller: &Credentials,
        targets: Vec<Target>,
    ) -> Result<(), Status> {
        let _stage = stages::enter(Stage::Sync);
        let request = |target| self.request(caller, target, Stability::FileSync);
        let outcomes: Vec<Outcome> = targets.into_iter().map(request).collect();
        for outcome in outcomes {
            outcome.await.unwrap_or(Err(Status::Jukebox))?;
        }
        Ok(())
    }

    fn request(
        self: &Rc<Self>,
        caller: &Credentials,
        target: Target,
        stability: Stability,
    ) -> Outcome {
        let mut state = self.state.borrow_mut();
        let outcome = state.request(caller.client(), target, stability);
        drop(state);
        self.start();
        outcome
    }

    /// Starts syncs while there is room for more.
    fn start(self: &Rc<Self>) {
        loop {
            let next = self.state.borrow_mut().next();
            let Some(batch) = next else { return };
            let syncing = Rc::clone(self).run(batch);
            self.runtime.spawn("sync", Box::pin(syncing));
        }
    }

    async fn run(self: Rc<Self>, batch: Batch) {
        let (target, stability) = (batch.target.clone(), batch.stability);
        let key = target.key();
        let begun = self.runtime.now();
        let synced = self
            .lanes
            .run_beside(move |tree| tree.sync_target(&target, stability))
            .await
            .and_then(|synced| synced);
        let took = self.runtime.now().duration_since(begun);
        let (requests, has_failed) = (batch.waiters.len(), synced.is_err());
        self.lanes.counters().synced(took, requests, has_failed);
        // Before the answers: a client that gets one may ask for the next sync of the target at once.
        let failed_too = self.state.borrow_mut().ended(key, has_failed);
        batch.answer(synced);
        if let Some(batch) = failed_too {
            batch.answer(synced);
        }
        self.start();
    }
}

#[cfg(test)]
mod tests;
