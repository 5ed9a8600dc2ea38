//! Places of changes behind those of the same things that were asked for before.
//!
//! Who gives a change up when the connection to a server was lost does not know what becomes of it: the request may
//! have left, and the server read it later. His place is kept until that server has answered him on a new connection:
//! whoever lets a peer in has done, or will never do, what came by the peer's earlier connections. Until then, others
//! who would change the same through another core are told to come again.

use super::VolumeFs;
use crate::calls::{Call, Entry};
use crate::client::doubts::Cutting;
use crate::client::order::{Part, Place};
use crate::client::servers::Servers;
use crate::client::trouble::Trouble;
use crate::limits::ATTEMPT_PAUSE;
use gannet_runtime::{Handle, sleep, timeout};
use gannet_vfs::Status;
use gannet_wire::volume::{Class, Hello, LayoutRecord, Operation};
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::{Rc, Weak};

/// A server that changes are asked of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Peer {
    Manager,
    IoServer(u32),
}

/// A change in its place. Whoever has it works on it to its end, and then [leaves](VolumeFs::leave): dropped before, it
/// frees the place though requests may be on their way.
pub(super) struct Turn {
    place: Place,
    /// Servers that have failed to answer: requests of it may be on their way to them.
    unheard: RefCell<BTreeSet<Peer>>,
}

impl Turn {
    /// This server, or one of those that were asked at the same time, has not answered.
    pub(super) fn failed(&self, server: Peer) {
        self.unheard.borrow_mut().insert(server);
    }

    /// As [`Turn::failed`], of the servers of a file.
    pub(super) fn failed_at(&self, layout: &LayoutRecord) {
        let servers = layout.servers.iter().copied();
        servers.for_each(|number| self.failed(Peer::IoServer(number)));
    }

    /// All that were asked have answered, on connections that were made since they had failed to.
    pub(super) fn answered(&self) {
        self.unheard.borrow_mut().clear();
    }
}

impl Peer {
    fn is_let_in(self, servers: &Servers) -> bool {
        servers.is_let_in(match self {
            Peer::Manager => Hello::MANAGER,
            Peer::IoServer(number) => Hello::io_server(number),
        })
    }

    /// Asks for something small; nobody cares for the answer.
    async fn ask(self, servers: &Servers) {
        let (link, operation) = match self {
            Peer::Manager => (servers.manager().await, Operation::Volume),
            Peer::IoServer(number) => (servers.io_server(number).await, Operation::Usage),
        };
        let body = 0_u32.to_be_bytes();
        if let Ok(link) = link {
            let _ = link.call(operation, Class::Background, &body, &[]).await;
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
        let unheard = RefCell::default();
        Ok(Turn { place, unheard })
    }

    /// A change is over, or given up. Until its place is free, what it may have cut is in doubt, if `cutting` says so.
    pub(super) fn leave(&self, turn: Turn, cutting: Option<Cutting>) {
        let Turn { place, unheard } = turn;
        let mut unheard = unheard.into_inner();
        unheard.retain(|server| !server.is_let_in(&self.servers));
        if unheard.is_empty() {
            // The doubt goes before the place does.
            drop(cutting);
            return;
        }
        if let Some(cutting) = &cutting {
            // Also now: not all who write have a place.
            cutting.doubt();
        }
        let servers = Rc::downgrade(&self.servers);
        let runtime = Handle::clone(&self.runtime);
        let task = async move {
            hear_all(&runtime, &servers, unheard).await;
            drop(cutting);
            drop(place);
        };
        self.runtime.spawn("given up changes", Box::pin(task));
    }
}

/// Waits until all of `unheard` have answered on connections that last, or nobody is there to hear them.
async fn hear_all(runtime: &Handle, servers: &Weak<Servers>, unheard: BTreeSet<Peer>) {
    for server in unheard {
        while let Some(servers) = servers.upgrade() {
            if server.is_let_in(&servers) {
                break;
            }
            server.ask(&servers).await;
            if server.is_let_in(&servers) {
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
    let name = |(directory, name): &Entry| Part::name(*directory, name);
    match change {
        Call::Setattr(file, ..) | Call::Stripes(file, _) => vec![Part::attributes(*file)],
        Call::Create(entry, _)
        | Call::CreateStriped(entry, ..)
        | Call::Mkdir(entry, _)
        | Call::Symlink(entry, ..)
        | Call::Mknod(entry, ..)
        | Call::Remove(entry)
        | Call::Rmdir(entry)
        | Call::Link(_, entry) => vec![name(entry)],
        Call::Rename(from, to) => vec![name(from), name(to)],
        // Questions.
        _ => Vec::new(),
    }
}
