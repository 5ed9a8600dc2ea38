//! Places of changes behind those of the same things that were asked for before.
//!
//! Who gives a change up does not know what becomes of it: the request may have left, and the server read it later,
//! even behind what others ask for afterwards, through another core's connection. So the place is kept until that
//! server has answered something that was asked for later. On the same connection, it has begun what it was asked
//! before that; and whoever lets a peer in on a new one has done, or will never do, what came by the peer's earlier
//! connections. Until then, others who would change the same are told to come again.

use super::VolumeFs;
use crate::client::fences::FenceGuard;
use crate::client::order::{Part, Place};
use crate::client::servers::Servers;
use crate::client::trouble::Trouble;
use crate::limits::ATTEMPT_PAUSE;
use gannet_runtime::{Handle, sleep, timeout};
use gannet_vfs::Status;
use gannet_wire::volume::{Call, Class, Entry, Hello, LayoutRecord, Operation};
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::{Rc, Weak};

/// A server that changes are asked of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Peer {
    Manager,
    IoServer(u32),
}

/// A change in its place. Dropped when the change is over or given up: the place is free once no request for the change
/// can be on its way any more.
pub(super) struct Turn {
    runtime: Handle,
    servers: Weak<Servers>,
    /// Until this is dropped.
    place: Option<Place>,
    unheard: RefCell<Unheard>,
    fence: Option<FenceGuard>,
}

/// Servers to which requests of a change may be on their way.
#[derive(Default)]
struct Unheard {
    /// They have been asked, and have neither answered nor failed to.
    manager: bool,
    layout: Option<Rc<LayoutRecord>>,
    /// They have failed to answer.
    failed: BTreeSet<Peer>,
}

impl Turn {
    /// The manager is asked now.
    pub(super) fn asks_manager(&self) {
        self.unheard.borrow_mut().manager = true;
    }

    /// The servers of a file are asked now.
    pub(super) fn asks_servers_of(&self, layout: &Rc<LayoutRecord>) {
        self.unheard.borrow_mut().layout = Some(Rc::clone(layout));
    }

    /// All that were asked have answered, on connections that were made since they had failed to.
    pub(super) fn answered(&self) {
        *self.unheard.borrow_mut() = Unheard::default();
    }

    /// One of those that were asked at the same time has not answered.
    pub(super) fn failed(&self) {
        let mut unheard = self.unheard.borrow_mut();
        let asked = unheard.asked();
        unheard.failed.extend(asked);
        (unheard.manager, unheard.layout) = (false, None);
    }

    /// The change may cut a file: unless the fence is disarmed, it is raised before the place is free.
    pub(super) fn fence_with(&mut self, fence: FenceGuard) {
        self.fence = Some(fence);
    }

    /// The outcome of the change is known.
    pub(super) fn disarm_fence(&mut self) {
        self.fence.take().into_iter().for_each(FenceGuard::disarm);
    }
}

impl Unheard {
    fn asked(&self) -> Vec<Peer> {
        let servers = self.layout.iter().flat_map(|layout| &layout.servers);
        let asked = servers.map(|number| Peer::IoServer(*number));
        asked.chain(self.manager.then_some(Peer::Manager)).collect()
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let (place, fence) = (self.place.take(), self.fence.take());
        let mut unheard = self.unheard.take();
        let asked: BTreeSet<Peer> = unheard.asked().into_iter().collect();
        let is_let_in = |server: &Peer| {
            let servers = self.servers.upgrade();
            servers.is_none_or(|servers| server.is_let_in(&servers))
        };
        (unheard.failed).retain(|server| !asked.contains(server) && !is_let_in(server));
        if asked.is_empty() && unheard.failed.is_empty() {
            // The fence is raised before the place is free: a write that comes next must see it.
            drop(fence);
            drop(place);
            return;
        }
        if let Some(fence) = &fence {
            // Also now: not every write has a place.
            fence.raise();
        }
        let (runtime, servers) = (Rc::clone(&self.runtime), Weak::clone(&self.servers));
        let task = async move {
            hear_all(&runtime, &servers, asked, unheard.failed).await;
            drop(fence);
            drop(place);
        };
        self.runtime.spawn("given up changes", Box::pin(task));
    }
}

impl Peer {
    fn is_let_in(self, servers: &Servers) -> bool {
        servers.is_let_in(match self {
            Peer::Manager => Hello::MANAGER,
            Peer::IoServer(number) => Hello::io_server(number),
        })
    }

    /// Asks for something small; whether there is an answer.
    async fn answers(self, servers: &Servers) -> bool {
        let (link, operation) = match self {
            Peer::Manager => (servers.manager().await, Operation::Volume),
            Peer::IoServer(number) => (servers.io_server(number).await, Operation::Usage),
        };
        let body = 0_u32.to_be_bytes();
        match link {
            Ok(link) => {
                let answer = link.call(operation, Class::Background, &body, &[]);
                answer.await.is_ok()
            }
            Err(_) => false,
        }
    }
}

impl VolumeFs {
    /// The turn of a change of these parts behind those that were asked for before, once they are over.
    ///
    /// # Errors
    /// `Jukebox` when they last longer than an operation is tried, or are too many.
    pub(super) async fn turn_of(&self, parts: &[Part]) -> Result<Turn, Status> {
        // Who has no place must not wait: what comes later would go before him.
        let entered = self.siblings.changes.enter(parts);
        let (place, earlier) =
            entered.map_err(|too_many| self.trouble.note_behind(self.now(), &too_many.into()))?;
        if !earlier.is_empty() {
            let over = timeout(&self.runtime, self.patience, earlier.over());
            let over = over.await;
            over.map_err(|_| self.trouble.note_behind(self.now(), &Trouble::Behind))?;
            place.begins();
        }
        Ok(Turn {
            runtime: Rc::clone(&self.runtime),
            servers: Rc::downgrade(&self.servers),
            place: Some(place),
            unheard: RefCell::default(),
            fence: None,
        })
    }
}

/// Waits until all that were `asked` have answered something else, and all that `failed` have answered on connections
/// that last; or until nobody is there to hear them.
async fn hear_all(
    runtime: &Handle,
    servers: &Weak<Servers>,
    asked: BTreeSet<Peer>,
    failed: BTreeSet<Peer>,
) {
    let asked = asked.into_iter().map(|server| (server, false));
    let failed = failed.into_iter().map(|server| (server, true));
    for (server, has_failed) in asked.chain(failed) {
        while let Some(servers) = servers.upgrade() {
            if (has_failed && server.is_let_in(&servers)) || server.answers(&servers).await {
                break;
            }
            drop(servers);
            sleep(runtime, ATTEMPT_PAUSE).await;
        }
    }
}

/// What a change of the manager's is of. Of one that cuts a file, bytes are not among it: who asks for that has a
/// place among those already.
pub(super) fn parts_of(change: &Call) -> Vec<Part> {
    let name = |entry: &Entry| Part::name(entry.directory, &entry.name);
    match change {
        Call::Setattr { file, .. }
        | Call::Stripes {
            directory: file, ..
        } => vec![Part::attributes(*file)],
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
