//! The syncs of one core: how many are under way, in which order clients get them, and which requests share one.
//!
//! A request names what it wants durable. While a sync of that is under way, requests for it gather; the next sync
//! answers all of them. At most [`SYNCS_MAX`] syncs are under way, so a client that does nothing but sync leaves the
//! blocking pool's other threads to lookups and reads. Clients take turns: the next sync is the oldest that the client
//! in turn asked for, and whoever else waits for the same goes along.

use super::durable::{Target, TargetKey};
use super::lanes::Lanes;
use crate::limits::SYNCS_MAX;
use gannet_runtime::{FairQueue, Handle};
use gannet_vfs::{Changed, Credentials, Stability, Status};
use std::cell::RefCell;
use std::collections::HashMap;
use std::net::IpAddr;
use std::rc::Rc;
use tokio::sync::oneshot;

/// Whoever waits for a sync.
type Waiter = oneshot::Sender<Result<(), Status>>;
/// Where it looks for the result.
type Promised = oneshot::Receiver<Result<(), Status>>;
/// Whose turn: a client, or the server itself.
type Client = Option<IpAddr>;

/// See the module.
pub(crate) struct GroupCommit {
    runtime: Handle,
    lanes: Rc<Lanes>,
    state: RefCell<State>,
}

#[derive(Default)]
struct State {
    /// What each client waits for; every entry has a batch, and every client of a batch an entry.
    queue: FairQueue<Client, TargetKey>,
    batches: HashMap<TargetKey, Batch>,
    /// At most [`SYNCS_MAX`].
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
    fn request(&mut self, client: Client, target: Target, stability: Stability) -> Promised {
        let (waiter, promised) = oneshot::channel();
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
        promised
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

    /// A sync has ended. If it failed, gives the batch that gathered meanwhile: the kernel reports what it could not
    /// write to one sync alone, and that may be what these requests wait for.
    fn ended(&mut self, key: TargetKey, has_failed: bool) -> Option<Batch> {
        self.under_way.retain(|other| *other != key);
        match has_failed {
            true => self.take_batch(key),
            false => None,
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
            // The waiter may be gone.
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

    /// Makes what was done to a target up to now durable.
    ///
    /// # Errors
    /// As fsync(2); `Jukebox` when the runtime shuts down meanwhile.
    pub(crate) async fn sync(
        self: &Rc<Self>,
        caller: &Credentials,
        target: Target,
        stability: Stability,
    ) -> Result<(), Status> {
        let promised = self.request(caller, target, stability);
        promised.await.unwrap_or(Err(Status::Jukebox))
    }

    /// Waits until a change is durable, which these targets make it. A change that failed has nothing to wait for.
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

    /// Makes what was done to all of these durable.
    ///
    /// # Errors
    /// As [`GroupCommit::sync`].
    pub(crate) async fn sync_all(
        self: &Rc<Self>,
        caller: &Credentials,
        targets: Vec<Target>,
    ) -> Result<(), Status> {
        let request = |target| self.request(caller, target, Stability::FileSync);
        let promised: Vec<Promised> = targets.into_iter().map(request).collect();
        for promised in promised {
            promised.await.unwrap_or(Err(Status::Jukebox))?;
        }
        Ok(())
    }

    fn request(
        self: &Rc<Self>,
        caller: &Credentials,
        target: Target,
        stability: Stability,
    ) -> Promised {
        let mut state = self.state.borrow_mut();
        let promised = state.request(caller.client(), target, stability);
        drop(state);
        self.start();
        promised
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
        let synced = self
            .lanes
            .run_beside(move |tree| tree.sync_target(&target, stability))
            .await
            .and_then(|synced| synced);
        let failed_too = self.state.borrow_mut().ended(key, synced.is_err());
        batch.answer(synced);
        if let Some(batch) = failed_too {
            batch.answer(synced);
        }
        self.start();
    }
}

#[cfg(test)]
mod tests;
