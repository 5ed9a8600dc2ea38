//! The right of a primary to serve a group of two members, which the other one gives it for a while.
//!
//! | who | what | until |
//! |---|---|---|
//! | the primary | serves | [`RIGHT`] after it asked, by its clock |
//! | the next primary | serves reads of clean bytes alone | [`RIGHT_OVER`] after it answered, by its clock |
//!
//! Clean bytes are those that the former primary has stored, too. Both clocks run on while a machine is suspended. So a
//! primary that was paused is silent before the other member changes anything. A primary that is alone, or whose other
//! member is being filled, needs no right: that one cannot take over.

use super::Objects;
use super::groups::Standing;
use super::limits::{RIGHT, RIGHT_OVER};
use super::store::ObjectStore;
use gannet_runtime::Instant;
use gannet_vfs::Status;
use gannet_wire::volume::{ObjectId, Renewal, Renewals};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::Range;

/// The rights of and to the groups of a server.
pub(super) struct Leases {
    groups: RefCell<BTreeMap<u32, Lease>>,
    /// When this process began.
    began: Instant,
}

#[derive(Debug, Clone, Copy, Default)]
struct Lease {
    /// Until when this server may serve, and the epoch of the right.
    right: (u64, Instant),
    /// Until when the other one may serve by what this one has answered.
    promised: Instant,
    /// The last epoch in which the other one has asked, and when it did last.
    met: (u64, Instant),
}

impl Leases {
    /// None, of a process that begins now ([`Runtime::now_with_suspend`](gannet_runtime::Runtime::now_with_suspend)).
    pub(super) fn new(began: Instant) -> Leases {
        Leases {
            groups: RefCell::default(),
            began,
        }
    }

    fn of(&self, group: u32) -> Lease {
        self.groups
            .borrow()
            .get(&group)
            .copied()
            .unwrap_or_default()
    }

    /// A right of the epoch before goes on in this one.
    pub(super) fn keep(&self, group: u32, before: u64, epoch: u64) {
        self.change(group, |lease| {
            if lease.right.0 == before {
                lease.right.0 = epoch;
            }
        });
    }

    fn change(&self, group: u32, change: impl FnOnce(&mut Lease)) {
        change(self.groups.borrow_mut().entry(group).or_default());
    }
}

impl<S: ObjectStore> Objects<S> {
    /// Whether the server may answer for a group now.
    ///
    /// # Errors
    /// `Stale`: it is not the primary. `Jukebox`: nobody is, its right is over, or that of the former primary is not.
    pub fn may_serve(&self, group: u32) -> Result<(), Status> {
        if self.groups.is_single(group) {
            return Ok(());
        }
        let standing = self.groups.standing(group)?;
        let (lease, now) = (self.leases.of(group), self.runtime.now_with_suspend());
        let has_right = match standing {
            Standing::Single | Standing::Alone { .. } => true,
            Standing::Primary {
                is_filling: true, ..
            } => true,
            Standing::Primary { epoch, .. } => lease.right.0 == epoch && now < lease.right.1,
            Standing::Second { .. } | Standing::Out => return Err(Status::Stale),
            Standing::Restarted | Standing::Lost | Standing::Unserved => false,
        };
        if has_right && now >= lease.promised && !self.may_have_promised(group) {
            Ok(())
        } else {
            Err(Status::Jukebox)
        }
    }

    /// Whether the server may answer a read of these bytes of an object now. One that takes over may also while the
    /// former primary has the right to serve, if that one has stored the bytes: it changes nothing any more.
    ///
    /// # Errors
    /// As [`Objects::may_serve`].
    pub fn may_read(
        &self,
        object: ObjectId,
        bytes: impl FnOnce() -> Range<u64>,
    ) -> Result<(), Status> {
        let served = self.may_serve(object.group);
        if served != Err(Status::Jukebox) || !self.takes_over(object.group) {
            return served;
        }
        let (epoch, _) = self.leases.of(object.group).met;
        if self.copies.is_clean(object, epoch, &bytes()) {
            Ok(())
        } else {
            served
        }
    }

    /// Whether the server waits for the end of the right that it gave to the former primary, and for nothing else.
    fn takes_over(&self, group: u32) -> bool {
        let serves = match self.groups.standing(group) {
            Ok(
                Standing::Alone { epoch }
                | Standing::Primary {
                    epoch,
                    is_filling: true,
                    ..
                },
            ) => epoch > self.leases.of(group).met.0,
            _ => false,
        };
        serves && !self.may_have_promised(group)
    }

    /// Whether an earlier process may have given a right that lasts.
    fn may_have_promised(&self, group: u32) -> bool {
        let until = self.leases.began + RIGHT_OVER;
        self.groups.has_restarted(group) && self.runtime.now_with_suspend() < until
    }

    /// Gives the primary of groups the right to serve them a while longer: those that it may serve.
    pub fn renew(&self, asked: &Renewals) -> Vec<u32> {
        let (until, now) = (
            self.runtime.now_with_suspend() + RIGHT_OVER,
            self.runtime.now(),
        );
        let is_second = |it: &&Renewal| {
            let standing = self.groups.standing(it.group);
            matches!(standing, Ok(Standing::Second { epoch, primary, .. })
                if epoch == it.epoch && primary == asked.primary)
        };
        let groups = asked.groups.iter().filter(is_second).map(|it| {
            self.copies.are_over(it.group, it.epoch, it.begun, it.over);
            self.leases.change(it.group, |lease| {
                lease.promised = lease.promised.max(until);
                lease.met = (it.epoch, now);
            });
            it.group
        });
        groups.collect()
    }

    /// The other member of a group has given this server the right to serve, which it asked for at `asked`
    /// ([`Runtime::now_with_suspend`](gannet_runtime::Runtime::now_with_suspend)), in `epoch`.
    pub fn is_renewed(&self, group: u32, epoch: u64, asked: Instant) {
        self.leases.change(group, |lease| {
            let until = asked + RIGHT;
            if lease.right.0 != epoch || lease.right.1 < until {
                lease.right = (epoch, until);
            }
        });
    }

    /// The request of this primary for the right to serve a group on.
    pub fn renewal(&self, group: u32, epoch: u64) -> Renewal {
        let (begun, over) = self.copies.begun_and_over(group);
        Renewal {
            group,
            epoch,
            begun,
            over,
        }
    }

    /// When the primary of a group has last asked for the right to serve in this epoch. If it has, it believes in no
    /// earlier one.
    pub fn last_renewal(&self, group: u32, epoch: u64) -> Option<Instant> {
        let (met, at) = self.leases.of(group).met;
        (met == epoch).then_some(at)
    }
}
