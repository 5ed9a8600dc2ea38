//! The rights of a caller to an open object: the kernel's answer, remembered.
//!
//! The answer depends on the inode (mode, owner, access control list) and on the caller. Whatever changes the former
//! changes the inode's change time, so an answer stays good while that is the same, provided that it was old enough
//! when asked that no later change could carry the same stamp.

use super::attributes::status;
use super::clock_map::lock;
use super::object::Object;
use super::tree::LocalTree;
use crate::limits::{DECISIONS_MAX, STAMP_GRANULARITY};
use crate::sys;
use gannet_vfs::{AccessMask, Attributes, Credentials, FileKind, Status, Time};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Rights that the kernel grants, as bits: 4 read, 2 write, 1 execute or search.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Rights(u8);

impl Rights {
    pub(crate) const READ: u8 = 4;
    pub(crate) const WRITE: u8 = 2;
    pub(crate) const EXECUTE: u8 = 1;

    /// Whether all of `bits` are granted.
    pub(crate) fn has(self, bits: u8) -> bool {
        self.0 & bits == bits
    }

    /// The subset of `wanted` that these rights mean for an object of this kind (RFC 1813 section 3.3.4).
    pub(crate) fn mask(self, kind: FileKind, wanted: AccessMask) -> AccessMask {
        let directory = kind == FileKind::Directory;
        let mut granted = 0;
        if self.has(Rights::READ) {
            granted |= AccessMask::READ;
        }
        if self.has(Rights::WRITE) {
            granted |= AccessMask::MODIFY | AccessMask::EXTEND;
        }
        if self.has(Rights::WRITE | Rights::EXECUTE) && directory {
            granted |= AccessMask::DELETE;
        }
        if self.has(Rights::EXECUTE) {
            granted |= if directory {
                AccessMask::LOOKUP
            } else {
                AccessMask::EXECUTE
            };
        }
        AccessMask(granted & wanted.0)
    }
}

/// The last answers for one object.
#[derive(Default)]
pub(crate) struct Decisions {
    change_time: Time,
    answers: Vec<(Option<Credentials>, Rights)>,
    next: usize,
}

impl Decisions {
    fn find(&self, change_time: Time, caller: Option<&Credentials>) -> Option<Rights> {
        if self.change_time != change_time {
            return None;
        }
        (self.answers.iter())
            .find(|(known, _)| known.as_ref() == caller)
            .map(|(_, rights)| *rights)
    }

    fn remember(&mut self, change_time: Time, caller: Option<&Credentials>, rights: Rights) {
        if self.change_time != change_time {
            self.answers.clear();
            self.change_time = change_time;
        }
        let answer = (caller.cloned(), rights);
        if self.answers.len() < DECISIONS_MAX {
            self.answers.push(answer);
            return;
        }
        self.next = (self.next + 1) % DECISIONS_MAX;
        self.answers[self.next] = answer;
    }
}

/// Whether any later change must carry a stamp different from `stamp`.
pub(crate) fn is_settled(stamp: Time) -> bool {
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    let seconds = u64::try_from(stamp.seconds).unwrap_or(0);
    let settled = Duration::new(seconds, stamp.nanoseconds).checked_add(STAMP_GRANULARITY);
    settled.is_some_and(|settled| settled < now)
}

impl Object {
    /// The rights of `caller` to it; `attributes` are those just taken.
    ///
    /// # Errors
    /// The caller's identity cannot be assumed, or the kernel fails to answer.
    pub(crate) fn rights(
        &self,
        tree: &LocalTree,
        caller: &Credentials,
        attributes: &Attributes,
    ) -> Result<Rights, Status> {
        let deciding = tree.identities.deciding(caller);
        let change_time = attributes.change_time;
        if let Some(rights) = lock(&self.decisions).find(change_time, deciding) {
            return Ok(rights);
        }
        let settled = is_settled(change_time);
        tree.identities.assume(caller)?;
        let mut bits = 0;
        for (bit, mode) in [
            (Rights::READ, libc::R_OK),
            (Rights::WRITE, libc::W_OK),
            (Rights::EXECUTE, libc::X_OK),
        ] {
            if sys::may_access(self.descriptor(), mode).map_err(status)? {
                bits |= bit;
            }
        }
        let rights = Rights(bits);
        if settled {
            lock(&self.decisions).remember(change_time, deciding, rights);
        }
        Ok(rights)
    }

    /// Checks that `caller` may read its data: by right, as owner (it may have opened the file before it changed the
    /// mode), or by the right to execute it (RFC 1813 section 4.4).
    ///
    /// # Errors
    /// `Acces` otherwise.
    pub(crate) fn require_read(
        &self,
        tree: &LocalTree,
        caller: &Credentials,
        attributes: &Attributes,
    ) -> Result<(), Status> {
        let rights = self.rights(tree, caller, attributes)?;
        let granted = rights.has(Rights::READ)
            || rights.has(Rights::EXECUTE)
            || tree.is_owner(caller, attributes);
        granted.then_some(()).ok_or(Status::Acces)
    }

    /// Checks that `caller` may write its data: by right, or as owner.
    ///
    /// # Errors
    /// `Acces` otherwise.
    pub(crate) fn require_write(
        &self,
        tree: &LocalTree,
        caller: &Credentials,
        attributes: &Attributes,
    ) -> Result<(), Status> {
        let rights = self.rights(tree, caller, attributes)?;
        let granted = rights.has(Rights::WRITE) || tree.is_owner(caller, attributes);
        granted.then_some(()).ok_or(Status::Acces)
    }
}
