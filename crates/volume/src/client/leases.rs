//! What this client may do with files' objects, and until when.
//!
//! A write counts only if its answer comes while the grant lasts that it was made by: after that, the manager may have
//! told others how long the file is. Time is counted from before the grant was asked for, so that no clock but this
//! machine's is needed.

use super::fences::Epoch;
use super::servers::Servers;
use super::written::{Asked, Written};
use crate::limits::{CAPABILITIES_MAX, CAPABILITY_AGE, GIVE_BACK_AFTER};
use gannet_runtime::{Handle, Instant, sleep};
use gannet_vfs::Credentials;
use gannet_wire::volume::{
    Call, Caller, Capability, Class, FileId, Granted, LayoutRecord, SlotSequence,
};
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;

/// Whose, and for what: a file, a caller, rights.
type Key = (FileId, Credentials, u32);

/// A right to a file's objects.
#[derive(Clone)]
pub(super) struct Lease {
    pub(super) capability: Capability,
    pub(super) layout: Rc<LayoutRecord>,
    /// Nothing that is answered later counts.
    pub(super) until: Instant,
    /// When it was asked for.
    since: Epoch,
    number: u64,
}

/// See the module.
pub(super) struct Leases {
    runtime: Handle,
    servers: Rc<Servers>,
    held: RefCell<HashMap<Key, Lease>>,
    written: RefCell<Written>,
    giving_back: Cell<bool>,
}

impl Leases {
    pub(super) fn new(runtime: Handle, servers: Rc<Servers>) -> Rc<Leases> {
        Rc::new(Leases {
            runtime,
            servers,
            held: RefCell::default(),
            written: RefCell::default(),
            giving_back: Cell::new(false),
        })
    }

    /// A lease that was asked for at `since` or later, and is good for some time yet.
    pub(super) fn get(
        &self,
        (file, caller, rights): (FileId, &Credentials, u32),
        since: Epoch,
    ) -> Option<Lease> {
        let held = self.held.borrow();
        let lease = held.get(&(file, caller.clone(), rights))?;
        let lasts = self.runtime.now() + CAPABILITY_AGE / 4 < lease.until;
        let good = lasts && since <= lease.since;
        good.then(|| lease.clone())
    }

    /// Leases to read that are good for some time yet, of whatever caller, in no order.
    pub(super) fn readable(&self) -> Vec<Lease> {
        let soon = self.runtime.now() + CAPABILITY_AGE / 4;
        let held = self.held.borrow();
        let readable = held
            .iter()
            .filter(|((.., rights), lease)| rights & Capability::READ != 0 && soon < lease.until);
        readable.map(|(_, lease)| lease.clone()).collect()
    }

    /// Keeps what the manager granted when it was asked at `asked`.
    pub(super) fn keep(
        &self,
        key: Key,
        granted: Granted,
        (asked, since): (Instant, Epoch),
    ) -> Lease {
        let lease = Lease {
            capability: granted.capability,
            layout: Rc::new(granted.layout),
            until: asked + CAPABILITY_AGE,
            since,
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

    /// A server does not honour it.
    pub(super) fn drop_all(&self, file: FileId) {
        self.held.borrow_mut().retain(|(id, ..), _| *id != file);
    }

    /// A write begins.
    pub(super) fn writing(self: &Rc<Self>, file: FileId) -> Writing {
        let forgotten = self.written.borrow_mut().begins(file);
        if !forgotten.is_empty() {
            let mut held = self.held.borrow_mut();
            held.retain(|(id, ..), _| !forgotten.contains(id));
        }
        Writing {
            leases: Rc::clone(self),
            file,
            is_answered: Cell::new(false),
        }
    }

    /// See [`Written::note_unstable`].
    pub(super) fn note_unstable(&self, file: FileId) {
        self.written.borrow_mut().note_unstable(file);
    }

    /// See [`Written::asked`].
    pub(super) fn asked(&self) -> Asked {
        self.written.borrow().asked()
    }

    /// See [`Written::note_durable`]. If that was all, and no more is written, grants for the file go back soon.
    pub(super) fn note_durable(self: &Rc<Self>, file: FileId, asked: Asked) {
        let now = self.runtime.now();
        if !(self.written.borrow_mut()).note_durable(file, asked, now) {
            return;
        }
        if !self.giving_back.replace(true) {
            let leases = Rc::clone(self);
            let task = async move { leases.give_back_all().await };
            self.runtime.spawn("grants", Box::pin(task));
        }
    }

    /// Gives grants back until there are none to be given.
    async fn give_back_all(self: Rc<Self>) {
        loop {
            let ready = self.runtime.now();
            sleep(&self.runtime, GIVE_BACK_AFTER).await;
            let (idle, rest) = self.written.borrow_mut().take_idle(ready);
            if !idle.is_empty() {
                self.give_back(&idle).await;
            }
            if !rest {
                self.giving_back.set(false);
                return;
            }
        }
    }

    async fn give_back(&self, files: &[FileId]) {
        let mut grants = Vec::new();
        self.held.borrow_mut().retain(|(file, _, rights), lease| {
            let goes = rights & Capability::WRITE != 0 && files.contains(file);
            if goes {
                grants.push((*file, lease.number));
            }
            !goes
        });
        // In an order that the simulator can repeat.
        grants.sort_unstable();
        let nobody = Caller::new(0, 0, &[]);
        for (file, number) in grants {
            let call = Call::GiveBack { file, number };
            let body = call.to_body(&nobody, &SlotSequence::default());
            // What is not given back ends by itself.
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
    pub(super) is_answered: Cell<bool>,
}

impl Drop for Writing {
    fn drop(&mut self) {
        let (answered, now) = (self.is_answered.get(), self.leases.runtime.now());
        let mut written = self.leases.written.borrow_mut();
        written.ends(self.file, answered, now);
    }
}
