//! Places of changes behind those of the same things that were asked for before.
//!
//! Who gives a change up when the connection to a server was lost does not know what becomes of it: the request may
//! have left, and the server read it later. His place is kept until he has connected to that server again, which by
//! then has done, or will never do, what came by earlier connections of his. Until then, others who would change the
//! same through another core are told to come again.

use super::VolumeFs;
use crate::calls::{Call, Entry};
use crate::client::doubts::Cutting;
use crate::client::order::{Part, Place};
use crate::client::servers::Servers;
use crate::client::trouble::Trouble;
use crate::limits::ATTEMPT_PAUSE;
use gannet_runtime::{Handle, sleep, timeout};
use gannet_vfs::Status;
use gannet_wire::volume::LayoutRecord;
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::{Rc, Weak};

/// A server that changes are asked of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Asked {
    Manager,
    IoServer(u32),
}

/// A change in its place.
pub(super) struct Turn {
    place: Place,
    /// To whom requests of it may be on their way, by connections that have ended.
    owing: RefCell<BTreeSet<Asked>>,
}

impl Turn {
    /// A connection has ended before the answer came.
    pub(super) fn lost(&self, server: Asked) {
        self.owing.borrow_mut().insert(server);
    }

    /// There is a connection: what came by earlier ones is over.
    pub(super) fn reached(&self, server: Asked) {
        self.owing.borrow_mut().remove(&server);
    }

    /// As [`Turn::lost`], with some server of a file.
    pub(super) fn lost_some(&self, layout: &LayoutRecord) {
        let servers = layout.servers.iter().copied();
        servers.for_each(|number| self.lost(Asked::IoServer(number)));
    }

    /// As [`Turn::reached`], of all servers of a file.
    pub(super) fn reached_all(&self, layout: &LayoutRecord) {
        let servers = layout.servers.iter().copied();
        servers.for_each(|number| self.reached(Asked::IoServer(number)));
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
            entered.map_err(|too_many| self.trouble.note_if_none(&too_many.into()))?;
        if !earlier.is_empty() {
            let over = timeout(&self.runtime, self.patience, earlier.over());
            over.await
                .map_err(|_| self.trouble.note_if_none(&Trouble::Behind))?;
            place.begins();
        }
        let owing = RefCell::default();
        Ok(Turn { place, owing })
    }

    /// A change is over, or given up; what it may have cut is in doubt for as long as it has its place.
    pub(super) fn leave(&self, turn: Turn, cutting: Option<Cutting>) {
        let Turn { place, owing } = turn;
        let owing = owing.into_inner();
        if owing.is_empty() {
            // The doubt goes before the place does.
            drop(cutting);
            return;
        }
        if let Some(cutting) = &cutting {
            // Not all who write have a place.
            cutting.doubt();
        }
        let servers = Rc::downgrade(&self.servers);
        let runtime = Handle::clone(&self.runtime);
        let task = async move {
            settle(&runtime, &servers, owing).await;
            drop(cutting);
            drop(place);
        };
        self.runtime.spawn("settling", Box::pin(task));
    }
}

/// Waits until there are connections to all of `owing`, or nobody to connect.
async fn settle(runtime: &Handle, servers: &Weak<Servers>, owing: BTreeSet<Asked>) {
    for server in owing {
        while let Some(servers) = servers.upgrade() {
            let reached = match server {
                Asked::Manager => servers.manager().await,
                Asked::IoServer(number) => servers.io_server(number).await,
            };
            if reached.is_ok() {
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
