//! The rights of a caller to an open object: the kernel's answer, remembered.
//!
//! The answer depends on the inode (mode, owner, access control list, immutable flag, security label) and on the
//! caller. Whatever changes the former changes the inode's change time, so an answer stays good while that is the same,
//! provided that it was old enough when asked that no later change could carry the same stamp.
//!
//! A write of data changes the change time too, and its stamp replaces that of a change of rights just before it. Mode,
//! owner and group do not show such a change: an entry of the list, the flag and the label change with all three as
//! they were. So no answer from before a write is good behind it (test
//! `rights_that_leave_the_mode_as_it_was_end_at_once`). To read list and label again would cost no fewer system calls
//! than to ask again. It would miss lists of other kinds and checks of the file system's own. The kernel is asked again
//! then, but only for the right that the operation needs. Owners may read and write their data whatever the answer, so
//! it is not asked for them. Not even they write to a file with the flag, which each change of data looks at itself
//! (`Facts::require_unprotected`).
//!
//! A new policy of a security module changes no stamp. Remembered answers are those of the old policy, until the object
//! changes or is closed. A file system that becomes read-only refuses the operations themselves; no refusal for that
//! reason is remembered.

use super::attributes::status;
use super::clock_map::lock;
use super::object::Object;
use super::tree::LocalTree;
use crate::limits::{DECISIONS_MAX, STAMP_GRANULARITY, STAMP_GRANULARITY_OF_SECONDS};
use crate::sys;
use gannet_vfs::{AccessMask, Attributes, Credentials, FileKind, Status, Time};
use rustix::io::Errno;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Rights that the kernel was asked for, and those that it grants, as bits: 4 read, 2 write, 1 execute or search.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Rights {
    asked: u8,
    granted: u8,
}

impl Rights {
    pub(crate) const READ: u8 = 4;
    pub(crate) const WRITE: u8 = 2;
    pub(crate) const EXECUTE: u8 = 1;

    /// Each right, with its name in access(2).
    const EACH: [(u8, libc::c_int); 3] = [
        (Rights::READ, libc::R_OK),
        (Rights::WRITE, libc::W_OK),
        (Rights::EXECUTE, libc::X_OK),
    ];

    /// Whether all of `bits` are granted; no right is that was not asked for.
    pub(crate) fn has(self, bits: u8) -> bool {
        self.granted & bits == bits
    }

    /// The rights on which [`Rights::mask`] depends.
    pub(crate) fn for_mask(kind: FileKind, wanted: AccessMask) -> u8 {
        let directory = kind == FileKind::Directory;
        let execute = if directory {
            AccessMask::LOOKUP | AccessMask::DELETE
        } else {
            AccessMask::EXECUTE
        };
        let write = AccessMask::MODIFY | AccessMask::EXTEND;
        let write = if directory {
            write | AccessMask::DELETE
        } else {
            write
        };
        [
            (AccessMask::READ, Rights::READ),
            (write, Rights::WRITE),
            (execute, Rights::EXECUTE),
        ]
        .into_iter()
        .filter(|(mask, _)| wanted.0 & mask != 0)
        .fold(0, |bits, (_, bit)| bits | bit)
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
    /// The answers that are known; none is the default.
    fn find(&self, change_time: Time, caller: Option<&Credentials>) -> Rights {
        if self.change_time != change_time {
            return Rights::default();
        }
        (self.answers.iter())
            .find(|(known, _)| known.as_ref() == caller)
            .map(|(_, rights)| *rights)
            .unwrap_or_default()
    }

    fn remember(&mut self, change_time: Time, caller: Option<&Credentials>, rights: Rights) {
        if self.change_time != change_time {
            self.answers.clear();
            self.change_time = change_time;
        }
        let mut answers = self.answers.iter_mut();
        if let Some((_, known)) = answers.find(|(known, _)| known.as_ref() == caller) {
            // Some rights of this caller were asked for before.
            *known = rights;
            return;
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
    is_settled_at(stamp, now)
}

fn is_settled_at(stamp: Time, now: Duration) -> bool {
    // A stamp does not tell its file system, and whole seconds may be all that this one keeps.
    let granularity = if stamp.nanoseconds == 0 {
        STAMP_GRANULARITY_OF_SECONDS
    } else {
        STAMP_GRANULARITY
    };
    let seconds = u64::try_from(stamp.seconds).unwrap_or(0);
    let settled = Duration::new(seconds, stamp.nanoseconds).checked_add(granularity);
    settled.is_some_and(|settled| settled < now)
}

impl Object {
    /// The rights of `caller` to it, of which those in `bits` are known; `attributes` are those just taken, or
    /// taken behind its request.
    ///
    /// # Errors
    /// The caller's identity cannot be assumed, or the kernel fails to answer.
    pub(crate) fn rights(
        &self,
        tree: &LocalTree,
        caller: &Credentials,
        attributes: &Attributes,
        bits: u8,
    ) -> Result<Rights, Status> {
        let deciding = tree.identities.deciding(caller);
        let change_time = attributes.change_time;
        let mut rights = lock(&self.decisions).find(change_time, deciding);
        let mut missing = bits & !rights.asked;
        if missing == 0 {
            return Ok(rights);
        }
        let settled = is_settled(change_time);
        tree.identities.assume(caller)?;
        for (bit, mode) in Rights::EACH {
            if missing & bit == 0 {
                continue;
            }
            match sys::may_access(self.descriptor(), mode) {
                Ok(true) => rights.granted |= bit,
                Ok(false) => {}
                // No right, and nothing to remember: the next mount for writing changes no stamp.
                Err(Errno::ROFS) => missing &= !bit,
                Err(errno) => return Err(status(errno)),
            }
        }
        rights.asked |= missing;
        if settled {
            lock(&self.decisions).remember(change_time, deciding, rights);
        }
        Ok(rights)
    }

    /// Checks that `caller` may read its data: as owner (it may have opened the file before it changed the mode), by
    /// right, or by the right to execute it (RFC 1813 section 4.4).
    ///
    /// # Errors
    /// `Acces` otherwise.
    pub(crate) fn require_read(
        &self,
        tree: &LocalTree,
        caller: &Credentials,
        attributes: &Attributes,
    ) -> Result<(), Status> {
        if tree.is_owner(caller, attributes) {
            return Ok(());
        }
        for bits in [Rights::READ, Rights::EXECUTE] {
            if self.rights(tree, caller, attributes, bits)?.has(bits) {
                return Ok(());
            }
        }
        Err(Status::Acces)
    }

    /// Checks that `caller` may write its data: as owner, or by right.
    ///
    /// # Errors
    /// `Acces` otherwise.
    pub(crate) fn require_write(
        &self,
        tree: &LocalTree,
        caller: &Credentials,
        attributes: &Attributes,
    ) -> Result<(), Status> {
        if tree.is_owner(caller, attributes) {
            return Ok(());
        }
        let rights = self.rights(tree, caller, attributes, Rights::WRITE)?;
        let granted = rights.has(Rights::WRITE);
        granted.then_some(()).ok_or(Status::Acces)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stamp_of_whole_seconds_is_settled_later() {
        let settled = |nanoseconds, age| {
            let stamp = Time {
                seconds: 1_000,
                nanoseconds,
            };
            let at = Duration::new(1_000, nanoseconds) + Duration::from_millis(age);
            is_settled_at(stamp, at)
        };
        for nanoseconds in [1, 500_000_000, 999_999_999] {
            assert!(!settled(nanoseconds, 25) && settled(nanoseconds, 26));
        }
        // A change within the same second has the same stamp.
        assert!(!settled(0, 26) && !settled(0, 999) && !settled(0, 2_025));
        assert!(settled(0, 2_026));
    }
}
