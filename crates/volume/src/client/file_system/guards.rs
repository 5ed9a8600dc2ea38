//! Guards of changes: they hold the range locks of a change until its servers have acknowledged it.
//!
//! A caller that gives a change up does not know its outcome: the request may have left, and the server may read it
//! later, even after a later request that came through another core's connection. So the lock is kept until that server
//! has answered a later request. On the same connection, the server has begun what came before that. On a new one, it
//! authenticates a peer only when requests of the peer's earlier connections are done or will never be. Until then,
//! other changes of the same ranges are answered `Jukebox`.

use super::VolumeFs;
use crate::client::change_locks::{ChangeLock, LockRange};
use crate::client::data::Target;
use crate::client::error::OperationError;
use crate::client::fences::FenceGuard;
use crate::client::servers::{Peer, Servers};
use crate::limits::{ATTEMPT_PAUSE, PRIMARY_SILENT_AFTER};
use gannet_runtime::{Handle, sleep, timeout};
use gannet_vfs::Status;
use gannet_wire::volume::{Call, Class, Entry, Operation, VolumeRequest};
use gannet_wire::xdr::to_bytes;
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::{Rc, Weak};

/// The guard of a change, dropped when the change is over or given up. The locks are released once no request of the
/// change can be on its way any more.
pub(super) struct ChangeGuard {
    runtime: Handle,
    servers: Weak<Servers>,
    /// `None` only while this is being dropped.
    lock: Option<ChangeLock>,
    unacknowledged: RefCell<Unacknowledged>,
    fence: Option<FenceGuard>,
}

/// The servers of a change that have not acknowledged it.
#[derive(Default)]
struct Unacknowledged {
    /// The manager has been asked, and has neither answered nor failed to.
    manager: bool,
    /// The same of these I/O servers.
    io_servers: Vec<u32>,
    /// The groups of several members for which I/O servers were asked, after each server. One that is the primary of
    /// none of its groups any more does nothing of the change: the other member refuses what it would pass on.
    groups: Vec<(u32, u32)>,
    /// These have failed to answer: their connection was lost, with the request or its reply.
    failed: BTreeSet<Peer>,
}

impl ChangeGuard {
    /// The manager is asked now.
    pub(super) fn asks_manager(&self) {
        self.unacknowledged.borrow_mut().manager = true;
    }

    /// These I/O servers are asked now.
    pub(super) fn asks(&self, targets: &[Target]) {
        let numbers = targets.iter().map(|target| target.server).collect();
        let mut unacknowledged = self.unacknowledged.borrow_mut();
        unacknowledged.io_servers = numbers;
        let Some(servers) = self.servers.upgrade() else {
            return;
        };
        let several = targets
            .iter()
            .filter(|target| servers.is_of_several(&[target.group]));
        let several = several.map(|target| (target.server, target.group));
        unacknowledged.groups.extend(several);
    }

    /// All that were asked have answered, on connections that were made since they had failed to.
    pub(super) fn answered(&self) {
        *self.unacknowledged.borrow_mut() = Unacknowledged::default();
    }

    /// One of those that were asked at the same time has not answered.
    pub(super) fn failed(&self) {
        let mut unacknowledged = self.unacknowledged.borrow_mut();
        let asked = unacknowledged.asked();
        unacknowledged.failed.extend(asked);
        unacknowledged.manager = false;
        unacknowledged.io_servers.clear();
    }

    /// The change may cut a file: unless the fence is disarmed, it is raised before the locks are released.
    pub(super) fn fence_with(&mut self, fence: FenceGuard) {
        self.fence = Some(fence);
    }

    /// The outcome of the change is known.
    pub(super) fn disarm_fence(&mut self) {
        self.fence.take().into_iter().for_each(FenceGuard::disarm);
    }
}

impl Unacknowledged {
    fn asked(&self) -> Vec<Peer> {
        let servers = self.io_servers.iter();
        let asked = servers.map(|number| Peer::IoServer(*number));
        asked.chain(self.manager.then_some(Peer::Manager)).collect()
    }
}

impl Drop for ChangeGuard {
    fn drop(&mut self) {
        let (lock, fence) = (self.lock.take(), self.fence.take());
        let mut unacknowledged = self.unacknowledged.take();
        let asked: BTreeSet<Peer> = unacknowledged.asked().into_iter().collect();
        let is_authenticated = |server: &Peer| {
            let servers = self.servers.upgrade();
            servers.is_none_or(|servers| servers.is_authenticated(*server))
        };
        (unacknowledged.failed)
            .retain(|server| !asked.contains(server) && !is_authenticated(server));
        if asked.is_empty() && unacknowledged.failed.is_empty() {
            // The fence is raised before the locks are released: the write that gets them next must see it.
            drop(fence);
            drop(lock);
            return;
        }
        if let Some(fence) = &fence {
            // Also now: not every write has a lock (`move_shapes` takes none).
            fence.raise();
        }
        let (runtime, servers) = (Rc::clone(&self.runtime), Weak::clone(&self.servers));
        let task = async move {
            let Unacknowledged { failed, groups, .. } = unacknowledged;
            wait_acknowledged(&runtime, &servers, asked, failed, &groups).await;
            drop(fence);
            drop(lock);
        };
        self.runtime.spawn("abandoned changes", Box::pin(task));
    }
}

/// Asks a server for something small; whether there is an answer.
async fn answers(peer: Peer, servers: &Rc<Servers>) -> bool {
    let (link, operation) = match peer {
        Peer::Manager => (servers.manager().await, Operation::Volume),
        Peer::IoServer(number) => (servers.io_server(number).await, Operation::Usage),
    };
    let body = to_bytes(&VolumeRequest::default());
    match link {
        Ok(link) => {
            let answer = link.call(operation, Class::Background, &body, &[]);
            answer.await.is_ok()
        }
        Err(_) => false,
    }
}

impl VolumeFs {
    /// Locks ranges for a change, once the earlier changes of them are over.
    ///
    /// # Errors
    /// `Jukebox` when they last longer than an operation is tried, or are too many.
    pub(super) async fn lock_ranges(&self, ranges: &[LockRange]) -> Result<ChangeGuard, Status> {
        // A change that is refused here must not wait and retry: later changes would overtake it.
        let requested = self.siblings.locks.request(ranges);
        let (lock, earlier) = requested
            .map_err(|too_many| self.last_error.note_behind(self.now(), &too_many.into()))?;
        if !earlier.is_empty() {
            let over = timeout(&self.runtime, self.patience, earlier.over());
            let over = over.await;
            over.map_err(|_| {
                self.last_error
                    .note_behind(self.now(), &OperationError::Behind)
            })?;
            lock.acquired();
        }
        Ok(ChangeGuard {
            runtime: Rc::clone(&self.runtime),
            servers: Rc::downgrade(&self.servers),
            lock: Some(lock),
            unacknowledged: RefCell::default(),
            fence: None,
        })
    }
}

/// Waits until all servers that were `asked` have answered a later request, and all that `failed` have answered one on
/// a new connection; or until the client is gone.
async fn wait_acknowledged(
    runtime: &Handle,
    servers: &Weak<Servers>,
    asked: BTreeSet<Peer>,
    failed: BTreeSet<Peer>,
    groups: &[(u32, u32)],
) {
    let asked = asked.into_iter().map(|server| (server, false));
    let failed = failed.into_iter().map(|server| (server, true));
    for (server, has_failed) in asked.chain(failed) {
        while let Some(servers) = servers.upgrade() {
            if has_failed && servers.is_authenticated(server) {
                break;
            }
            let of_several = match server {
                Peer::IoServer(number) => {
                    let of_server = groups.iter().filter(|(server, _)| *server == number);
                    (number, of_server.map(|(_, group)| *group).collect())
                }
                Peer::Manager => (0, Vec::new()),
            };
            let (number, groups): (u32, Vec<u32>) = of_several;
            if groups.is_empty() {
                if answers(server, &servers).await {
                    break;
                }
                drop(servers);
                sleep(runtime, ATTEMPT_PAUSE).await;
                continue;
            }
            let answering = timeout(runtime, PRIMARY_SILENT_AFTER, answers(server, &servers));
            if answering.await == Ok(true) {
                break;
            }
            servers.look_again().await;
            if servers.is_replaced(number, &groups) {
                // What it has not read yet must not come later, when it may be the primary again.
                servers.leave(number);
                break;
            }
            drop(servers);
            sleep(runtime, ATTEMPT_PAUSE).await;
        }
    }
}

/// The ranges of a change that the manager runs. The bytes that a truncation cuts are not among them: its caller has
/// locked those already.
pub(super) fn ranges_of(change: &Call) -> Vec<LockRange> {
    let name = |entry: &Entry| LockRange::name(entry.directory, &entry.name);
    match change {
        Call::Setattr { file, .. }
        | Call::Stripes {
            directory: file, ..
        } => vec![LockRange::attributes(*file)],
        Call::Create { entry, .. }
        | Call::CreateStriped { entry, .. }
        | Call::Mkdir { entry, .. }
        | Call::Symlink { entry, .. }
        | Call::Mknod { entry, .. }
        | Call::Remove { entry }
        | Call::Rmdir { entry }
        | Call::Link { entry, .. } => vec![name(entry)],
        Call::Rename { from, to } => vec![name(from), name(to)],
        // Questions.
        _ => Vec::new(),
    }
}
