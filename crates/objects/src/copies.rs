//! The primary of a group passes its changes on to the other member.
//!
//! The primary orders the changes. A write goes to the other member under the lock of its range, before the primary
//! stores it: no reader of the primary sees bytes that the member may still refuse. A write that has failed on the way
//! may be at the member alone. Its range is noted then ([`uneven`]), and the primary's bytes are copied there again.
//!
//! The order holds at the member because changes of the same bytes follow each other here, and because it takes the
//! first request of a new connection after the last one of the connection before.

mod dirty;
mod filling;
mod member;
mod settling;
mod uneven;

use super::Objects;
use super::groups::Standing;
use super::limits::{COPY_PATIENCE, COPY_RETRY, SLOW_AFTER, SLOW_BYTES_MAX, VERSIONS_OF_EPOCH};
use super::store::ObjectStore;
use dirty::{Dirty, Numbered};
use gannet_runtime::{Buffer, Instant, LocalFuture, sleep, timeout};
use gannet_vfs::{FileHandle, Status};
use gannet_wire::volume::{
    ObjectChange, ObjectId, ObjectPage, ObjectPosition, ObjectState, Replicated, Replication,
    Timestamp,
};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::hash::Hasher;
use std::pin::Pin;
use std::rc::{Rc, Weak};
use tokio::sync::Mutex;
use uneven::Uneven;

pub use member::PutBytes;

/// The other servers of this one's groups.
pub trait Peers {
    /// Passes a change on to server `to`, with the bytes of a put: a range of a buffer. Ends within seconds.
    fn replicate(
        self: Rc<Self>,
        to: u32,
        change: Replication,
        bytes: Option<PutBytes>,
    ) -> LocalFuture<PassedOn>;

    /// Ends what is under way to a server.
    fn leave(&self, server: u32);

    /// A page of the objects of server `of`, from this position on; `None`: it does not answer.
    fn list(self: Rc<Self>, of: u32, from: ObjectPosition) -> LocalFuture<Option<ObjectPage>>;
}

/// The fate of a change that was passed on.
pub struct PassedOn {
    /// The answer of the member.
    pub answer: Result<Replicated, PeerFailure>,
    /// The buffer of a put; `None` also if the adapter has lost it.
    pub buffer: Option<Buffer>,
}

/// Why a member did not take a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PeerFailure {
    /// It has no connection: it has not heard of the change.
    Away,
    /// It has not answered in time, or its connection has ended: it may have the change.
    Silent,
    /// It refuses. Of a put it may have stored some bytes.
    Refused(Status),
}

/// The other members of the server's groups.
pub(super) struct Copies<S> {
    objects: Weak<Objects<S>>,
    peers: RefCell<Option<Rc<dyn Peers>>>,
    groups: RefCell<BTreeMap<u32, Passing>>,
    uneven: RefCell<Uneven>,
    is_levelling: Cell<bool>,
    /// One part of an object at a time is copied to a member that is being filled.
    filling: Mutex<()>,
    /// Requests that clients have sent.
    requests: Cell<u64>,
    /// Some came while a part was copied last.
    clients_ask: Cell<bool>,
}

/// The changes of a group on their way to the other member.
#[derive(Default)]
struct Passing {
    /// The last words of the member about itself, and the epoch in which it did.
    said: Option<(u64, Replicated)>,
    /// The changes of this server as the primary.
    numbered: Numbered,
    /// The changes of the primary, whose other member this server is.
    dirty: Dirty,
    /// The latest time that a primary has said: no change of this server is earlier.
    latest: Timestamp,
    /// The last epoch in which the member's disk has failed.
    broken: u64,
    /// Bytes of the puts on their way.
    bytes: usize,
    /// Puts on their way for longer than [`SLOW_AFTER`].
    slow: usize,
}

impl<S> Copies<S> {
    pub(super) fn new(objects: Weak<Objects<S>>) -> Copies<S> {
        Copies {
            objects,
            peers: RefCell::default(),
            groups: RefCell::default(),
            uneven: RefCell::default(),
            is_levelling: Cell::new(false),
            filling: Mutex::default(),
            requests: Cell::new(0),
            clients_ask: Cell::new(false),
        }
    }

    /// The last words of the other member of a group about itself, in this epoch.
    fn said(&self, group: u32, epoch: u64) -> Option<Replicated> {
        let said = self.note(group, |passing| passing.said);
        said.and_then(|(at, said)| (at == epoch).then_some(said))
    }

    fn note<T>(&self, group: u32, note: impl FnOnce(&mut Passing) -> T) -> T {
        note(self.groups.borrow_mut().entry(group).or_default())
    }
}

/// A put on its way to the other member.
pub(super) struct Way<'a, S> {
    copies: &'a Copies<S>,
    group: u32,
    bytes: usize,
    is_slow: Cell<bool>,
}

impl<S> Way<'_, S> {
    fn becomes_slow(&self) {
        if !self.is_slow.replace(true) {
            self.copies.note(self.group, |passing| passing.slow += 1);
        }
    }
}

impl<S> Drop for Way<'_, S> {
    fn drop(&mut self) {
        let (bytes, slow) = (self.bytes, usize::from(self.is_slow.get()));
        self.copies.note(self.group, |passing| {
            passing.bytes -= bytes;
            passing.slow -= slow;
        });
    }
}

impl<S: ObjectStore> Objects<S> {
    /// Reaches the other servers of its groups through `peers` from now on.
    pub fn reach_peers(&self, peers: Rc<dyn Peers>) {
        self.copies.peers.replace(Some(peers));
    }

    /// Notes that a client asks for something: who is filled waits the longer.
    pub fn note_request(&self) {
        self.copies.requests.set(self.copies.requests.get() + 1);
    }

    /// The write verifier of a group: another one after any member may have lost data that was not durable.
    pub fn verifier_of(&self, group: u32) -> u64 {
        let own = self.verifier();
        match self.groups.standing(group) {
            Ok(Standing::Primary { epoch, .. }) => {
                let said = self.copies.said(group, epoch);
                mixed(own, epoch, said.map_or(0, |said| said.verifier))
            }
            Ok(Standing::Alone { epoch }) => mixed(own, epoch, 0),
            _ => own,
        }
    }

    /// The state of an object of a group as others get it: with the verifier of the group, and a version that does not
    /// fall when another member with another clock is the primary.
    pub fn as_told(&self, group: u32, state: ObjectState) -> ObjectState {
        if self.groups.is_single(group) {
            return state;
        }
        let epoch = match self.groups.standing(group) {
            Ok(Standing::Alone { epoch } | Standing::Primary { epoch, .. }) => epoch,
            _ => return state,
        };
        let shift = epoch.wrapping_mul(VERSIONS_OF_EPOCH);
        let version = match state.version {
            // There is no object.
            0 => 0,
            version => version.wrapping_add(shift),
        };
        ObjectState {
            version,
            verifier: self.verifier_of(group),
            ..state
        }
    }

    /// As [`Objects::verifier_of`], for a write that begins: the other member is asked for its own once.
    ///
    /// # Errors
    /// `Jukebox`: it does not answer.
    pub async fn verifier_for_write(&self, object: ObjectId) -> Result<u64, Status> {
        if let Standing::Primary { epoch, .. } = self.groups.standing(object.group)?
            && self.copies.said(object.group, epoch).is_none()
        {
            self.pass_on(object, ObjectChange::Greet).await?;
        }
        Ok(self.verifier_of(object.group))
    }

    /// Passes a change without bytes on to the other member of the object's group, if there is one.
    ///
    /// # Errors
    /// `Stale`: the server is not the primary. `Jukebox`: the member does not answer. Others: its own.
    pub(super) async fn pass_on(
        &self,
        object: ObjectId,
        change: ObjectChange,
    ) -> Result<(), Status> {
        self.pass_on_bytes(object, change, None).await.map(|_| ())
    }

    /// A place for a put of `len` bytes; `None` where the server is the only member. A member that is slow must not
    /// make the server hold more and more bytes.
    ///
    /// # Errors
    /// `Jukebox`: there is none now. Others: see [`Objects::may_serve`].
    pub(super) fn way(&self, group: u32, len: usize) -> Result<Option<Way<'_, S>>, Status> {
        match self.groups.standing(group)? {
            Standing::Single => return Ok(None),
            standing if self.groups.lacks_copies(standing) => return Err(Status::Jukebox),
            Standing::Primary { .. } => {}
            _ => self.may_serve(group)?,
        }
        let (bytes, slow) = (self.copies).note(group, |passing| (passing.bytes, passing.slow));
        let is_too_much = slow > 0 && bytes + len > SLOW_BYTES_MAX;
        if is_too_much || !self.copies.uneven.borrow().has_room(group) {
            return Err(Status::Jukebox);
        }
        self.copies.note(group, |passing| passing.bytes += len);
        Ok(Some(Way {
            copies: &self.copies,
            group,
            bytes: len,
            is_slow: Cell::new(false),
        }))
    }

    /// Passes a put on to the other member of the object's group, if there is one, and gives the buffer back.
    ///
    /// # Errors
    /// As [`Objects::pass_on`]. The member may have some of the bytes: they are noted.
    pub(super) async fn pass_put_on(
        &self,
        object: ObjectId,
        change: ObjectChange,
        bytes: PutBytes,
    ) -> Result<Buffer, Status> {
        let passed = self.pass_on_bytes(object, change, Some(bytes)).await?;
        passed.ok_or(Status::Jukebox)
    }

    /// Awaits `work` of a put. If it takes long, the put counts as slow, and `permit` is dropped: others need it.
    pub(super) async fn on_the_way<T>(
        &self,
        way: &Option<Way<'_, S>>,
        permit: &mut Option<impl Sized>,
        mut work: Pin<&mut impl Future<Output = T>>,
    ) -> T {
        let Some(way) = way else {
            return work.await;
        };
        match timeout(&self.runtime, SLOW_AFTER, work.as_mut()).await {
            Ok(done) => done,
            Err(_) => {
                way.becomes_slow();
                drop(permit.take());
                work.await
            }
        }
    }

    /// Passes a change on, again until the member has answered or time is over.
    async fn pass_on_bytes(
        &self,
        object: ObjectId,
        change: ObjectChange,
        mut bytes: Option<PutBytes>,
    ) -> Result<Option<Buffer>, Status> {
        let until = self.runtime.now() + COPY_PATIENCE;
        let data = bytes.as_ref().map(|(_, data)| data.clone());
        let mut may_be_there = false;
        loop {
            match self.groups.standing(object.group)? {
                Standing::Primary { .. } => {}
                // The other member has left meanwhile. A change without bytes was begun before that.
                standing if data.is_some() && self.groups.lacks_copies(standing) => {
                    return Err(Status::Jukebox);
                }
                Standing::Single | Standing::Alone { .. } => {
                    return Ok(bytes.map(|(buffer, _)| buffer));
                }
                _ => return Err(Status::Stale),
            }
            let PassedOn { answer, buffer } = self.pass_once(object, change, bytes).await;
            may_be_there |= !matches!(answer, Err(PeerFailure::Away));
            let is_lost = data.is_some() && buffer.is_none();
            let status = match answer {
                Ok(_) if !is_lost => return Ok(buffer),
                Ok(_) => Status::Jukebox,
                Err(PeerFailure::Away | PeerFailure::Silent) => Status::Jukebox,
                Err(PeerFailure::Refused(status)) => status_for_caller(status),
            };
            bytes = buffer.zip(data.clone());
            if !is_lost && !self.has_other(object.group) {
                // Looked at again above: the other member may be out by now.
                continue;
            }
            if status != Status::Jukebox || is_lost || self.is_late(until) {
                if may_be_there
                    && let (ObjectChange::Put { offset, .. }, Some(data)) = (change, data)
                {
                    self.note_uneven(object, offset..offset + data.len() as u64);
                }
                return Err(status);
            }
            sleep(&self.runtime, COPY_RETRY).await;
        }
    }

    /// Whether the disk of the other member of a group has failed in this epoch: it is to be out.
    pub fn is_other_broken(&self, group: u32, epoch: u64) -> bool {
        self.copies.note(group, |passing| passing.broken == epoch)
    }

    /// Whether another member of the group gets changes.
    fn has_other(&self, group: u32) -> bool {
        matches!(self.groups.standing(group), Ok(Standing::Primary { .. }))
    }

    /// No changes are passed on to these servers any more: nobody shall wait for them longer.
    pub(super) fn leave(&self, servers: impl Iterator<Item = u32>) {
        if let Some(peers) = &*self.copies.peers.borrow() {
            servers.for_each(|server| peers.leave(server));
        }
    }

    fn is_late(&self, until: Instant) -> bool {
        self.runtime.now() >= until
    }

    /// The time of a change that begins now. It does not fall when another member with another clock is the primary.
    fn time_of_change(&self, group: u32) -> Timestamp {
        let now = Timestamp::since_epoch(self.runtime.wall_clock());
        now.max(self.copies.note(group, |passing| passing.latest))
    }

    /// Gives an object that has just changed here the time of the group's latest change, if this clock is behind.
    pub(super) async fn stamp_change(&self, group: u32, handle: &FileHandle) -> Result<(), Status> {
        let now = Timestamp::since_epoch(self.runtime.wall_clock());
        let latest = self.copies.note(group, |passing| passing.latest);
        if now < latest {
            self.store.stamp(handle, latest).await?;
        }
        Ok(())
    }

    /// Passes a change on once, and notes what the member says of its verifier.
    async fn pass_once(
        &self,
        object: ObjectId,
        change: ObjectChange,
        bytes: Option<PutBytes>,
    ) -> PassedOn {
        let away = |bytes: Option<PutBytes>| PassedOn {
            answer: Err(PeerFailure::Away),
            buffer: bytes.map(|(buffer, _)| buffer),
        };
        let peers = self.copies.peers.borrow().clone();
        let (Some(peers), Ok(Standing::Primary { epoch, other, .. })) =
            (peers, self.groups.standing(object.group))
        else {
            return away(bytes);
        };
        let (begun, over) = self.copies.begun_and_over(object.group);
        let replication = Replication {
            begun,
            over,
            primary: self.groups.own,
            epoch,
            object,
            time: self.time_of_change(object.group),
            change,
        };
        let passed = peers.replicate(other, replication, bytes).await;
        self.copies
            .note(object.group, |passing| match passed.answer {
                Ok(said) => passing.said = Some((epoch, said)),
                Err(PeerFailure::Refused(Status::Io | Status::Rofs)) => passing.broken = epoch,
                Err(_) => {}
            });
        passed
    }
}

/// The status for a caller when the other member refuses. It has not done anything wrong if the members disagree, or
/// the member's disk fails.
fn status_for_caller(status: Status) -> Status {
    match status {
        Status::Nospc | Status::Dquot | Status::Fbig => status,
        _ => Status::Jukebox,
    }
}

/// One verifier for two servers: it changes with either.
fn mixed(own: u64, epoch: u64, other: u64) -> u64 {
    let mut hasher = siphasher::sip::SipHasher13::new();
    [own, epoch, other]
        .into_iter()
        .for_each(|part| hasher.write_u64(part));
    hasher.finish()
}
