//! Events for an audit log: who mounts, who is refused, who changes something.

use super::refusals::Check;
use super::{Server, Subject};
use crate::limits::{AUDITED_WRITES_MAX, WRITE_AUDIT_INTERVAL};
use gannet_rpc::{Call, Credential, Reply, Transport};
use gannet_runtime::{Handle, Instant};
use gannet_vfs::Vfs;
use gannet_wire::mount3::{self, MountProcedure};
use gannet_wire::nfs3::{self, NfsProcedure};
use std::cell::Cell;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::SocketAddr;

/// Learns who does what. All cores share one.
pub trait Audit: Send + Sync {
    /// Takes an event; whether it will be recorded. It runs on the core that executed the call, so it must not wait for
    /// anything.
    fn record(&self, event: &Event<'_>) -> bool;
}

/// The kind of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventKind {
    /// MNT.
    Mount,
    /// UMNT or UMNTALL.
    Unmount,
    /// A procedure that changes names or attributes, whether it succeeded or not.
    Change,
    /// The first WRITE of a client and user to a file in some time that succeeds, and the first that fails.
    Write,
    /// A call or a connection that a check refused.
    Refusal,
}

impl EventKind {
    /// A word for scripts.
    pub const fn name(self) -> &'static str {
        match self {
            EventKind::Mount => "mount",
            EventKind::Unmount => "unmount",
            EventKind::Change => "change",
            EventKind::Write => "write",
            EventKind::Refusal => "refusal",
        }
    }
}

/// A user and a group, by number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct User {
    /// The user.
    pub uid: u32,
    /// The primary group.
    pub gid: u32,
}

impl User {
    /// The user that a call states; `None` with AUTH_NONE.
    pub(super) fn stated(call: &Call) -> Option<User> {
        match call.credential {
            Credential::None => None,
            Credential::Sys { uid, gid, .. } => Some(User { uid, gid }),
        }
    }
}

/// An event.
#[derive(Debug, Clone)]
pub struct Event<'a> {
    /// Its kind.
    pub kind: EventKind,
    /// The client.
    pub peer: SocketAddr,
    /// The transport of the call; `None` for a connection that was refused.
    pub transport: Option<Transport>,
    /// The caller as the call states it.
    pub stated: Option<User>,
    /// The caller as the export sees it, after squashing.
    pub effective: Option<User>,
    /// The object; `None` for a call or connection that was refused before.
    pub subject: Option<Subject<'a>>,
    /// The status of the reply, by its name in RFC 1813 without a prefix; `OK` for success.
    pub status: &'static str,
    /// The check that refused it.
    pub check: Option<Check>,
}

/// The kind of event that an executed call of this procedure is; `None` for procedures that only read.
pub(super) fn kind_of(call: &Call) -> Option<EventKind> {
    match call.program {
        nfs3::PROGRAM => match NfsProcedure::from_number(call.procedure)? {
            NfsProcedure::Write => Some(EventKind::Write),
            NfsProcedure::Setattr
            | NfsProcedure::Create
            | NfsProcedure::Mkdir
            | NfsProcedure::Symlink
            | NfsProcedure::Mknod
            | NfsProcedure::Remove
            | NfsProcedure::Rmdir
            | NfsProcedure::Rename
            | NfsProcedure::Link => Some(EventKind::Change),
            _ => None,
        },
        mount3::PROGRAM => match MountProcedure::from_number(call.procedure)? {
            MountProcedure::Mnt => Some(EventKind::Mount),
            MountProcedure::Umnt | MountProcedure::Umntall => Some(EventKind::Unmount),
            _ => None,
        },
        _ => None,
    }
}

/// The WRITEs of the last time, so that a file that is written for long makes few events. A table without chains: a
/// place that two files want makes more events, and never hides one.
pub(super) struct RecentWrites {
    clock: Handle,
    places: Vec<Cell<(u64, Instant)>>,
}

impl RecentWrites {
    pub(super) fn new(clock: Handle) -> RecentWrites {
        let places = (0..AUDITED_WRITES_MAX).map(|_| Cell::default());
        RecentWrites {
            clock,
            places: places.collect(),
        }
    }

    /// The place of WRITEs like this one: by the client, the user and the file, and by whether they succeed. A failed
    /// one would hide others else.
    fn find(&self, call: &Call, handle: &[u8], is_ok: bool) -> Option<WritePlace<'_>> {
        let mut hasher = DefaultHasher::new();
        let uid = User::stated(call).map(|user| user.uid);
        (call.peer.ip(), uid, handle, is_ok).hash(&mut hasher);
        let (hash, now) = (hasher.finish(), self.clock.now());
        let index = usize::try_from(hash % AUDITED_WRITES_MAX as u64).ok()?;
        let place = self.places.get(index)?;
        Some(WritePlace { place, hash, now })
    }
}

/// A place for a WRITE.
struct WritePlace<'a> {
    place: &'a Cell<(u64, Instant)>,
    hash: u64,
    now: Instant,
}

impl WritePlace<'_> {
    /// Whether a WRITE like this one was recorded within [`WRITE_AUDIT_INTERVAL`].
    fn is_known(&self) -> bool {
        let (known, until) = self.place.get();
        known == self.hash && self.now < until
    }

    /// Notes that it is recorded.
    fn note(&self) {
        self.place.set((self.hash, self.now + WRITE_AUDIT_INTERVAL));
    }
}

impl<V: Vfs> Server<V> {
    /// Records an executed call for the audit log, if it is one to record: `check` refused it, or it changes something.
    pub(super) fn audit(&self, call: &Call, reply: &Reply, check: Option<Check>) {
        let Some(audit) = &self.audit else { return };
        let kind = match check {
            Some(_) => Some(EventKind::Refusal),
            None => kind_of(call),
        };
        let Some(kind) = kind else { return };
        let subject = self.subject(call);
        let status = super::operations::status_of(call, reply);
        let handle = subject.as_ref().and_then(|subject| subject.handle);
        let handle = handle.filter(|_| kind == EventKind::Write);
        let recent = self.recent_writes.as_ref().zip(handle);
        let place = recent.and_then(|(recent, handle)| recent.find(call, handle, status == "OK"));
        if place.as_ref().is_some_and(WritePlace::is_known) {
            return;
        }
        let is_recorded = audit.record(&Event {
            kind,
            peer: call.peer,
            transport: Some(call.transport),
            stated: User::stated(call),
            effective: self.effective_user(call),
            subject,
            status,
            check,
        });
        // One that was left out hides no others.
        if let Some(place) = place.filter(|_| is_recorded) {
            place.note();
        }
    }
}
