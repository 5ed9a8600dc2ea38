//! The memory of a core in which payloads of calls and replies wait for their users.

use super::MemoryInUse;
use crate::limits::{
    INLINE_SLOTS_MAX, INLINE_THRESHOLD, PAYLOAD_IDLE_MAX, PAYLOAD_SLOT_MIN, RECORD_MAX,
};
use gannet_fabric::registration::{Counters, Strategy};
use gannet_runtime::{Arena, Buffer, Handle, Slabs, SlotBudget, sleep};
use gannet_session::limits::REST_AFTER;
use gannet_session::{Freed, ReceivePool};
use std::cell::{Cell, RefCell};
use std::rc::{Rc, Weak};
use std::sync::Arc;

/// Payload memory and what is registered of it.
///
/// It is kept while there are calls, since making and registering it costs. It is given back, with its registrations,
/// when the bound is reached by slots of lengths that nobody wants just then, when nobody wanted any for
/// [`PAYLOAD_IDLE_MAX`], and when the embedding program says that memory is short ([`super::Server::reclaim`]).
pub(super) struct PayloadMemory {
    runtime: Handle,
    /// One slot per payload received or sent apart.
    slabs: Slabs,
    /// Sends of RDMA connections. They are never registered, so that slots can go at any time.
    pub(super) inline: Arena,
    /// Receives of each RDMA listener's connections.
    receives: RefCell<Vec<Rc<ReceivePool>>>,
    /// How the payloads of each RDMA listener are registered.
    strategies: RefCell<Vec<Rc<dyn Strategy>>>,
    uses: Cell<u64>,
    /// Somebody will look whether it idles.
    watched: Cell<bool>,
    freed: Freed,
}

impl PayloadMemory {
    pub(super) fn new(runtime: Handle, kept: &Arc<SlotBudget>) -> Rc<PayloadMemory> {
        Rc::new(PayloadMemory {
            runtime,
            slabs: Slabs::within(kept, PAYLOAD_SLOT_MIN, RECORD_MAX),
            inline: Arena::new(INLINE_THRESHOLD as usize, INLINE_SLOTS_MAX),
            receives: RefCell::default(),
            strategies: RefCell::default(),
            uses: Cell::new(0),
            watched: Cell::new(false),
            freed: Freed::default(),
        })
    }

    /// From now on `strategy` may hold registrations of this memory.
    pub(super) fn add_strategy(&self, strategy: &Rc<dyn Strategy>) {
        self.strategies.borrow_mut().push(Rc::clone(strategy));
    }

    /// The messages of these connections hold memory as well.
    pub(super) fn add_receives(&self, receives: &Rc<ReceivePool>) {
        self.receives.borrow_mut().push(Rc::clone(receives));
    }

    pub(super) fn registrations(&self) -> Vec<Counters> {
        let strategies = self.strategies.borrow();
        strategies.iter().map(|it| it.counters()).collect()
    }

    /// Memory for a payload of `len` bytes, or for a call that brings more in its Read chunks: a slot that is kept for
    /// the next one, while the bound of those allows it. The caller has charged it.
    pub(super) fn take(self: &Rc<Self>, len: usize) -> Buffer {
        self.note_use();
        let slot = self.slabs.take(len).or_else(|| {
            if self.slabs.idle() < len {
                return None;
            }
            // Slots of other lengths hold the room.
            self.reclaim();
            self.slabs.take(len)
        });
        slot.unwrap_or_else(|| Buffer::zeroed(len))
    }

    /// Gives up registrations and memory that serve nobody now.
    pub(super) fn reclaim(&self) {
        for strategy in &*self.strategies.borrow() {
            strategy.reclaim();
        }
        self.slabs.trim();
        self.inline.trim();
        self.trim_messages();
    }

    /// Gives up memory for messages that nobody has used for a while.
    fn trim_messages(&self) {
        self.inline.trim_unused();
        let receives = self.receives.borrow();
        receives.iter().for_each(|pool| pool.trim_unused());
    }

    pub(super) fn in_use(&self) -> MemoryInUse {
        let receives = self.receives.borrow();
        let received = receives.iter().map(|pool| pool.in_use()).sum::<usize>();
        MemoryInUse {
            payloads: self.slabs.in_use(),
            inline: self.inline.in_use() * self.inline.slot_len() + received,
        }
    }

    /// Bytes that are kept for nobody.
    pub(super) fn idle(&self) -> usize {
        self.slabs.idle()
    }

    fn note_use(self: &Rc<Self>) {
        self.uses.set(self.uses.get().wrapping_add(1));
        self.look_after();
    }

    /// A connection has ended, or given up what it grew to.
    pub(super) fn note_freed(self: &Rc<Self>) {
        self.freed.note();
        self.look_after();
    }

    /// Memory is in use, be it for messages alone: somebody looks after it until all is given back.
    pub(super) fn look_after(self: &Rc<Self>) {
        if !self.watched.replace(true) {
            let watch = watch(Rc::downgrade(self), Handle::clone(&self.runtime));
            self.runtime
                .spawn("reclaim payload memory", Box::pin(watch));
        }
    }
}

/// Gives memory back that nobody has wanted for a while; ends when that is all, until the next use.
async fn watch(memory: Weak<PayloadMemory>, runtime: Handle) {
    let (mut seen, mut looked) = (None, runtime.now());
    loop {
        sleep(&runtime, REST_AFTER).await;
        let Some(memory) = memory.upgrade() else {
            return;
        };
        memory.trim_messages();
        memory.freed.look(&runtime);
        if runtime.now().duration_since(looked) < PAYLOAD_IDLE_MAX {
            continue;
        }
        looked = runtime.now();
        let uses = memory.uses.get();
        let in_use = memory.in_use();
        if seen.replace(uses) == Some(uses) && in_use.payloads + in_use.inline == 0 {
            memory.reclaim();
            memory.freed.look_idle(&runtime);
            memory.watched.set(false);
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gannet_fabric::registration::{Registration, StrategyKind, Trust};
    use gannet_fabric::{Access, Scope};
    use gannet_sim::World;
    use gannet_sim::fabric::{FabricProfile, SimFabric};

    const KEPT: usize = 32 << 20;

    #[test]
    fn slots_of_lengths_that_nobody_wants_make_room_for_others() {
        let world = World::new(1);
        let node = world.add_node("server");
        let domain = SimFabric::new(&world, FabricProfile::default())
            .provider(&node)
            .domain();
        let runtime = node.runtime();
        let registration = Registration::new(StrategyKind::ServerCache, Trust::Untrusted).unwrap();
        let strategy = registration.over(domain, Handle::clone(&runtime));
        let test = async move {
            let kept = SlotBudget::new(KEPT);
            let memory = PayloadMemory::new(runtime, &kept);
            memory.add_strategy(&strategy);
            let slots = (0..KEPT >> 17).map(|_| memory.take(100_000));
            let slots: Vec<Buffer> = slots.collect();
            assert_eq!(memory.slabs.in_use(), KEPT);
            assert_eq!(memory.take(1 << 20).slot(), None, "all is in use");
            for slot in slots {
                let strategy = Rc::clone(&strategy);
                let registered = strategy.register(slot, Access::Local, Scope::Domain);
                let released = registered.unwrap().release(0);
                released.now().unwrap().unwrap();
            }
            assert_eq!(memory.idle(), KEPT);
            let large = memory.take(1 << 20);
            assert!(large.slot().is_some());
            assert_eq!((memory.idle(), memory.registrations()[0].bytes), (0, 0));
        };
        world.run(test).unwrap();
    }
}
