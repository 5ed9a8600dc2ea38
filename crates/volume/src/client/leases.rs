//! Leases: the capabilities and grants that the manager has given this client, and until when each is usable.
//!
//! A write counts only if its answer comes within the lease by which it was sent: after that, the manager may have
//! reported another size of the file. A lease begins before its grant was asked for, so no clock but this machine's is
//! needed.

use super::fences::Epoch;
use super::servers::Servers;
use super::written::{Asked, WriteOutcome, Written};
use crate::limits::{CAPABILITIES_MAX, CAPABILITY_AGE, GIVE_BACK_AFTER};
use gannet_runtime::{Handle, Instant, sleep};
use gannet_vfs::Credentials;
use gannet_wire::volume::{
    Call, Caller, Capability, Class, FileId, Granted, LayoutRecord, SlotSequence,
};
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;

/// The key of a lease: a file, a caller, and the rights of a [`Capability`].
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct LeaseKey {
    file: FileId,
    caller: Credentials,
    rights: u32,
}

impl LeaseKey {
    pub(super) fn new(file: FileId, caller: &Credentials, rights: u32) -> LeaseKey {
        LeaseKey {
            file,
            caller: caller.clone(),
            rights,
        }
    }
}

/// When a lease was asked for.
#[derive(Debug, Clone, Copy)]
pub(super) struct AskedAt {
    pub(super) time: Instant,
    pub(super) epoch: Epoch,
}

/// The right to a file's objects for some time.
#[derive(Clone)]
pub(super) struct Lease {
    pub(super) capability: Capability,
    pub(super) layout: Rc<LayoutRecord>,
    /// The end: no write that is answered later counts.
    pub(super) until: Instant,
    /// The epoch in which it was asked for.
    since: Epoch,
    /// The manager's number of the grant; 0 for a right to read.
    number: u64,
}

/// The state of a lease that this client holds.
///
/// | state | on | becomes |
/// |---|---|---|
/// | none | the manager grants one | `Active` |
/// | `Active` | three quarters of [`CAPABILITY_AGE`] are over | `Expiring` |
/// | `Expiring` | [`CAPABILITY_AGE`] is over | `Expired` |
/// | `Active`, `Expiring` | the file's fence is raised, the right is to write | `Fenced` |
/// | any | the manager grants another for the same key | `Active` |
/// | any | a server refuses its capability, its grant goes back, or others need the room | none |
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LeaseState {
    /// Operations begin by it.
    Active,
    /// Operations under way still count. A new one could end too late, so it asks for another lease.
    Expiring,
    /// No answer counts any more.
    Expired,
    /// A truncation that was given up may still run, and would cut what is written by this lease.
    Fenced,
}

impl Lease {
    /// Its state at `now`, of a file with this fence.
    fn state(&self, now: Instant, fence: Epoch) -> LeaseState {
        if self.until <= now {
            LeaseState::Expired
        } else if self.since < fence {
            LeaseState::Fenced
        } else if self.until <= now + CAPABILITY_AGE / 4 {
            LeaseState::Expiring
        } else {
            LeaseState::Active
        }
    }
}

/// The leases of a client.
pub(super) struct Leases {
    runtime: Handle,
    servers: Rc<Servers>,
    held: RefCell<HashMap<LeaseKey, Lease>>,
    written: RefCell<Written>,
    give_back: Cell<GiveBack>,
}

/// The task that gives grants back.
///
/// | state | on | becomes |
/// |---|---|---|
/// | `Idle` | all data of a file are durable | `Running` |
/// | `Running` | no file is left whose grants may go back by time alone | `Idle` |
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum GiveBack {
    Idle,
    Running,
}

impl Leases {
    pub(super) fn new(runtime: Handle, servers: Rc<Servers>) -> Rc<Leases> {
        Rc::new(Leases {
            runtime,
            servers,
            held: RefCell::default(),
            written: RefCell::default(),
            give_back: Cell::new(GiveBack::Idle),
        })
    }

    /// The lease of this key, if it is [`LeaseState::Active`] with this fence.
    pub(super) fn get(&self, key: &LeaseKey, fence: Epoch) -> Option<Lease> {
        let held = self.held.borrow();
        let lease = held.get(key)?;
        let state = lease.state(self.runtime.now(), fence);
        (state == LeaseState::Active).then(|| lease.clone())
    }

    /// All leases to read that are [`LeaseState::Active`], of any caller, in no order. A fence is for writes alone.
    pub(super) fn readable(&self) -> Vec<Lease> {
        let now = self.runtime.now();
        let held = self.held.borrow();
        let readable = held.iter().filter(|(key, lease)| {
            let state = lease.state(now, Epoch::default());
            key.rights & Capability::READ != 0 && state == LeaseState::Active
        });
        readable.map(|(_, lease)| lease.clone()).collect()
    }

    /// Keeps what the manager granted when it was asked at `asked`.
    pub(super) fn keep(&self, key: LeaseKey, granted: Granted, asked: AskedAt) -> Lease {
        let lease = Lease {
            capability: granted.capability,
            layout: Rc::new(granted.layout),
            until: asked.time + CAPABILITY_AGE,
            since: asked.epoch,
            number: granted.number,
        };
        let mut held = self.held.borrow_mut();
        if held.len() >= CAPABILITIES_MAX {
            let now = self.runtime.now();
            held.retain(|_, lease| now < lease.until);
        }
        if held.len() >= CAPABILITIES_MAX {
            held.clear();
        }
        held.insert(key, lease.clone());
        lease
    }

    /// Drops the leases of a file: a server refuses their capabilities, or its grants may not go back any more.
    pub(super) fn drop_all(&self, file: FileId) {
        self.held.borrow_mut().retain(|key, _| key.file != file);
    }

    /// A write begins; it ends when the result is dropped.
    pub(super) fn writing(self: &Rc<Self>, file: FileId) -> Writing {
        let forgotten = self.written.borrow_mut().begins(file);
        if !forgotten.is_empty() {
            let mut held = self.held.borrow_mut();
            // Given back, a grant whose writes are forgotten would tell the manager that none can be stored any more.
            held.retain(|key, _| !forgotten.contains(&key.file));
        }
        Writing {
            leases: Rc::clone(self),
            file,
            outcome: Cell::new(WriteOutcome::Abandoned),
        }
    }

    /// See [`Written::note_unstable`].
    pub(super) fn note_unstable(&self, file: FileId) {
        self.written.borrow_mut().note_unstable(file);
    }

    /// See [`Written::is_uncertain`].
    pub(super) fn is_uncertain(&self, file: FileId) -> bool {
        self.written.borrow().is_uncertain(file)
    }

    /// See [`Written::asked`].
    pub(super) fn asked(&self) -> Asked {
        self.written.borrow().asked()
    }

    /// See [`Written::note_durable`]. If that was all, and no more is written, the file's grants go back soon.
    pub(super) fn note_durable(self: &Rc<Self>, file: FileId, asked: Asked) {
        let now = self.runtime.now();
        if !(self.written.borrow_mut()).note_durable(file, asked, now) {
            return;
        }
        if self.give_back.replace(GiveBack::Running) == GiveBack::Idle {
            let leases = Rc::clone(self);
            let task = async move { leases.give_back_all().await };
            self.runtime.spawn("grants", Box::pin(task));
        }
    }

    /// Gives grants back until none is left that may go back by time alone.
    async fn give_back_all(self: Rc<Self>) {
        loop {
            let ready = self.runtime.now();
            sleep(&self.runtime, GIVE_BACK_AFTER).await;
            let idle = self.written.borrow_mut().take_idle(ready);
            if !idle.files.is_empty() {
                self.give_back_of(&idle.files).await;
            }
            if !idle.has_more {
                self.give_back.set(GiveBack::Idle);
                return;
            }
        }
    }

    /// Gives back the grants of all files without writes whose data are durable.
    pub(super) async fn give_back_idle(&self) {
        let idle = self.written.borrow_mut().take_idle(self.runtime.now());
        self.give_back_of(&idle.files).await;
    }

    async fn give_back_of(&self, files: &[FileId]) {
        let mut grants = Vec::new();
        // Dropped before they go back: after that, the manager takes the size of the file as final, and a write by one
        // of them would change it.
        self.held.borrow_mut().retain(|key, lease| {
            let goes = key.rights & Capability::WRITE != 0 && files.contains(&key.file);
            if goes {
                grants.push((key.file, lease.number));
            }
            !goes
        });
        // Sorted: the order of a hash map would differ from run to run of one seed.
        grants.sort_unstable();
        let nobody = Caller::new(0, 0, &[]);
        for (file, number) in grants {
            let call = Call::GiveBack { file, number };
            let body = call.to_body(&nobody, &SlotSequence::default());
            // A grant that is not given back ends by itself.
            let Ok(link) = self.servers.manager().await else {
                return;
            };
            let _ = link
                .call(call.operation(), Class::Background, &body, &[])
                .await;
        }
    }
}

/// A write that is under way.
pub(super) struct Writing {
    leases: Rc<Leases>,
    file: FileId,
    pub(super) outcome: Cell<WriteOutcome>,
}

impl Drop for Writing {
    fn drop(&mut self) {
        let (outcome, now) = (self.outcome.get(), self.leases.runtime.now());
        let mut written = self.leases.written.borrow_mut();
        written.ends(self.file, outcome, now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::fences::Fences;
    use std::sync::Arc;
    use std::time::Duration;

    fn lease(since: Epoch) -> Lease {
        Lease {
            capability: Capability {
                file: 7,
                rights: Capability::WRITE,
                expires: 0,
                term: 1,
                proof: [0; 16],
            },
            layout: Rc::new(LayoutRecord {
                unit: 4096,
                groups: vec![0],
            }),
            until: Instant::START + CAPABILITY_AGE,
            since,
            number: 1,
        }
    }

    #[test]
    fn a_lease_expires_in_two_steps() {
        let (lease, fence) = (lease(Epoch::default()), Epoch::default());
        let moment = Duration::from_nanos(1);
        let state = |age| lease.state(Instant::START + age, fence);
        assert_eq!(state(CAPABILITY_AGE * 3 / 4 - moment), LeaseState::Active);
        assert_eq!(state(CAPABILITY_AGE * 3 / 4), LeaseState::Expiring);
        assert_eq!(state(CAPABILITY_AGE - moment), LeaseState::Expiring);
        assert_eq!(state(CAPABILITY_AGE), LeaseState::Expired);
    }

    #[test]
    fn a_fence_is_for_leases_from_before_it() {
        let (fences, file) = (Arc::new(Fences::default()), FileId(7));
        let before = lease(fences.epoch());
        drop(fences.guard(file));
        let after = lease(fences.epoch());
        let state = |lease: &Lease| lease.state(Instant::START, fences.fence(file));
        assert_eq!(state(&before), LeaseState::Fenced);
        assert_eq!(state(&after), LeaseState::Active);
    }
}
