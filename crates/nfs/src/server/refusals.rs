//! Refusals: the check that refused a call or a connection, its count, and its line in the log.

use super::audit::{Event, EventKind, User};
use super::{Server, Subject};
use crate::limits::{DENIAL_LOG_INTERVAL, MOUNT_LOG_INTERVAL};
use gannet_rpc::{Call, Credential, CredentialFault, Refused, Reply, Transport};
use gannet_runtime::{Handle, LogLimit};
use gannet_vfs::{Status, Vfs};
use gannet_wire::mount3::{self, MountProcedure};
use gannet_wire::nfs3::{self, Nfsstat};
use std::array;
use std::net::SocketAddr;

/// The check that refuses a call or a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Check {
    /// No export admits the address of a connection.
    Address,
    /// The export does not admit the client's address.
    Clients,
    /// The export serves ports below 1024 alone, and the client's is higher.
    Port,
    /// The handle names no export: one that is gone, or that never was.
    UnknownExport,
    /// The export is read-only for this client.
    ReadOnlyExport,
    /// The file system is read-only.
    ReadOnlyFileSystem,
    /// The server never gave the handle out: its signature is wrong.
    Handle,
    /// The file system's permissions: mode bits, an ACL, or a file in use.
    Permission,
    /// The file system reserves the change for the owner of the object, or for root.
    Ownership,
    /// The credential cannot be read.
    Credential,
    /// The credential has more than the 16 groups of AUTH_SYS.
    TooManyGroups,
    /// The flavor of the credential is not supported.
    Flavor,
}

impl Check {
    /// All checks, in the order of the enumeration.
    pub const ALL: [Check; 12] = [
        Check::Address,
        Check::Clients,
        Check::Port,
        Check::UnknownExport,
        Check::ReadOnlyExport,
        Check::ReadOnlyFileSystem,
        Check::Handle,
        Check::Permission,
        Check::Ownership,
        Check::Credential,
        Check::TooManyGroups,
        Check::Flavor,
    ];

    /// A word for labels and scripts.
    pub const fn name(self) -> &'static str {
        match self {
            Check::Address => "address",
            Check::Clients => "clients",
            Check::Port => "port",
            Check::UnknownExport => "unknown_export",
            Check::ReadOnlyExport => "read_only_export",
            Check::ReadOnlyFileSystem => "read_only_file_system",
            Check::Handle => "handle",
            Check::Permission => "permission",
            Check::Ownership => "ownership",
            Check::Credential => "credential",
            Check::TooManyGroups => "too_many_groups",
            Check::Flavor => "flavor",
        }
    }

    /// The reason, for people.
    pub const fn why(self) -> &'static str {
        match self {
            Check::Address => "no export admits the client's address",
            Check::Clients => "the export does not admit the client's address",
            Check::Port => "the export wants a port below 1024",
            Check::UnknownExport => "the handle is of no export",
            Check::ReadOnlyExport => "the export is read-only for this client",
            Check::ReadOnlyFileSystem => "the file system is read-only",
            Check::Handle => "the server never gave this handle out",
            Check::Permission => "the file system's permissions deny it to this user",
            Check::Ownership => "only the owner or root may do that",
            Check::Credential => "the credential cannot be read",
            Check::TooManyGroups => "the credential has more than 16 groups",
            Check::Flavor => "the credential is neither AUTH_SYS nor AUTH_NONE",
        }
    }

    /// Notes in `call` that this check of an export refuses it; the status of the reply.
    pub(super) fn refuse(self, call: &Call) -> Status {
        // Zero stands for none.
        call.note(self as u8 + 1);
        match self {
            Check::UnknownExport => Status::Stale,
            Check::ReadOnlyExport => Status::Rofs,
            _ => Status::Acces,
        }
    }

    /// The check that refused an executed call: the noted one, or that of the store by the status.
    fn of(call: &Call, status: u32) -> Option<Check> {
        let noted = usize::from(call.noted()).checked_sub(1);
        if let Some(noted) = noted.and_then(|index| Check::ALL.get(index)) {
            return Some(*noted);
        }
        match Nfsstat::new(status)? {
            Nfsstat::ACCES => Some(Check::Permission),
            Nfsstat::PERM => Some(Check::Ownership),
            Nfsstat::ROFS => Some(Check::ReadOnlyFileSystem),
            Nfsstat::BADHANDLE => Some(Check::Handle),
            _ => None,
        }
    }

    /// The checks of a file system refuse users every day; those of exports are about whole clients.
    fn is_daily(self) -> bool {
        matches!(
            self,
            Check::ReadOnlyFileSystem | Check::Permission | Check::Ownership | Check::Flavor
        )
    }
}

/// The bounds of the log lines, check by check: many refusals of one kind must not hide another.
pub(super) struct RefusalLog {
    clock: Handle,
    limits: [LogLimit; Check::ALL.len()],
}

impl RefusalLog {
    pub(super) fn new(clock: Handle) -> RefusalLog {
        let interval = |index: usize| match Check::ALL.get(index) {
            Some(check) if check.is_daily() => DENIAL_LOG_INTERVAL,
            _ => MOUNT_LOG_INTERVAL,
        };
        RefusalLog {
            clock,
            limits: array::from_fn(|index| LogLimit::new(interval(index))),
        }
    }

    fn admit(&self, check: Check) -> Option<u64> {
        let limit = self.limits.get(check as usize)?;
        limit.admit(self.clock.now())
    }
}

/// The status of a reply that says one; `None` for lists, for no results, and for success.
pub(super) fn failure_of(call: &Call, reply: &Reply) -> Option<u32> {
    let status = reply.first_word().filter(|status| *status != 0)?;
    let says_one = match call.program {
        nfs3::PROGRAM => true,
        mount3::PROGRAM => call.procedure == MountProcedure::Mnt.number(),
        _ => false,
    };
    says_one.then_some(status)
}

impl<V: Vfs> Server<V> {
    /// Counts and logs an executed call that failed, if a check refused it; the check.
    pub(super) fn note_failure(&self, call: &Call, status: u32) -> Option<Check> {
        let check = Check::of(call, status)?;
        self.operations.note_refusal(check);
        let left_out = self.refusal_log.as_ref().map(|log| log.admit(check));
        if let Some(left_out) = left_out.unwrap_or(Some(0)) {
            let subject = self.subject(call);
            let (stated, effective) = (User::stated(call), self.effective_user(call));
            let line = Line {
                check,
                peer: call.peer,
                stated,
                effective,
                subject: subject.as_ref(),
                left_out,
            };
            line.write();
        }
        Some(check)
    }

    /// Notes a connection or a call that came to no procedure.
    pub(super) fn note_refused(&self, peer: SocketAddr, refused: Refused) {
        let (check, transport) = match refused {
            Refused::Address => (Check::Address, None),
            Refused::Credential { transport, fault } => {
                let check = match fault {
                    CredentialFault::Malformed => Check::Credential,
                    CredentialFault::TooManyGroups { .. } => Check::TooManyGroups,
                    CredentialFault::Flavor(_) => Check::Flavor,
                };
                (check, Some(transport))
            }
        };
        let stated = match refused {
            Refused::Credential {
                fault: CredentialFault::TooManyGroups { uid, gid },
                ..
            } => Some(User { uid, gid }),
            _ => None,
        };
        self.operations.note_refusal(check);
        self.log_refused(peer, check, stated);
        self.audit_refused(peer, transport, check, stated);
    }

    fn log_refused(&self, peer: SocketAddr, check: Check, stated: Option<User>) {
        // The transport logs connections, with the number of those that there are.
        if check == Check::Address {
            return;
        }
        let left_out = self.refusal_log.as_ref().map(|log| log.admit(check));
        if let Some(left_out) = left_out.unwrap_or(Some(0)) {
            let line = Line {
                check,
                peer,
                stated,
                effective: None,
                subject: None,
                left_out,
            };
            line.write();
        }
    }

    fn audit_refused(
        &self,
        peer: SocketAddr,
        transport: Option<Transport>,
        check: Check,
        stated: Option<User>,
    ) {
        let Some(audit) = &self.audit else { return };
        audit.record(&Event {
            kind: EventKind::Refusal,
            peer,
            transport,
            stated,
            effective: None,
            subject: None,
            status: "REFUSED",
            check: Some(check),
        });
    }

    /// The user and group as which the call is executed at its export; `None` if the export does not admit the client.
    pub(super) fn effective_user(&self, call: &Call) -> Option<User> {
        let subject = Subject::parse(call.program, call.procedure, call.arguments())?;
        let served = self.served_for(&subject)?;
        let rules = served.export.rules_for(call.peer).ok()?;
        let known = match (&self.groups, &call.credential) {
            (Some(groups), Credential::Sys { uid, .. }) => groups.known(*uid),
            _ => None,
        };
        let export = &served.export;
        let effective = export.credentials(rules.squash, &call.credential, known.as_deref());
        Some(User {
            uid: effective.uid,
            gid: effective.gid,
        })
    }
}

/// A line of the log.
struct Line<'a> {
    check: Check,
    peer: SocketAddr,
    stated: Option<User>,
    effective: Option<User>,
    subject: Option<&'a Subject<'a>>,
    left_out: u64,
}

impl Line<'_> {
    fn write(&self) {
        let (peer, check, left_out) = (self.peer, self.check.name(), self.left_out);
        let uid = self.stated.map(|user| user.uid);
        let as_uid = self.effective.map(|user| user.uid);
        let call = self.subject.map(tracing::field::display);
        let why = self.check.why();
        // A client that cannot mount is a fault of the configuration, or an intruder.
        if self
            .subject
            .is_some_and(|subject| subject.protocol == "mount3")
        {
            tracing::warn!(%peer, uid, as_uid, call, check, left_out, "mount refused: {why}");
        } else {
            tracing::info!(%peer, uid, as_uid, call, check, left_out, "refused: {why}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checks_are_listed_in_their_order_with_words_of_their_own() {
        for (index, check) in Check::ALL.into_iter().enumerate() {
            assert_eq!(check as usize, index);
        }
        let mut names = Check::ALL.map(Check::name);
        names.sort_unstable();
        assert!(names.windows(2).all(|pair| pair[0] != pair[1]));
    }
}
