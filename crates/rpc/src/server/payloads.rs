//! The memory of a core for payloads of calls and replies.

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

/// Payload memory and its registrations.
///
/// It is kept while there are calls, because allocating and registering it costs. It is given back, with its
/// registrations, in three cases:
///
/// - unused slots of other lengths hold all of the bound;
/// - no call used any for [`PAYLOAD_IDLE_MAX`];
/// - the embedding program reports that memory is short ([`super::Server::reclaim`]).
pub(super) struct PayloadMemory {
    runtime: Handle,
    /// One slot per payload received or sent apart.
    slabs: Slabs,
    /// Sends of RDMA connections. They are never registered: slots are freed at any time, and a registration must end
    /// before its memory.
    pub(super) inline: Arena,
    /// Receives of each RDMA listener's connections.
    receives: RefCell<Vec<Rc<ReceivePool>>>,
    /// The registration strategy of each RDMA listener.
    strategies: RefCell<Vec<Rc<dyn Strategy>>>,
    /// Slots taken so far; unchanged between two looks of [`watch`], the memory is idle.
    uses: Cell<u64>,
    /// The task [`watch`] runs.
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

    /// Counts the receives of an RDMA listener's connections as memory in use, and trims them with the rest.
    pub(super) fn add_receives(&self, receives: &Rc<ReceivePool>) {
        self.receives.borrow_mut().push(Rc::clone(receives));
    }

    pub(super) fn registrations(&self) -> Vec<Counters> {
        let strategies = self.strategies.borrow();
        strategies.iter().map(|it| it.counters()).collect()
    }

    /// Memory for a payload of `len` bytes, or for all Read chunks of a call. It is a slot that is kept for the next
    /// payload if the bound of these allows it, else memory of its own. The caller has charged it to the budget.
    pub(super) fn take(self: &Rc<Self>, len: usize) -> Buffer {
        self.note_use();
        let slot = self.slabs.take(len).or_else(|| {
            if self.slabs.idle() < len {
                return None;
            }
            // Unused slots of other lengths hold the bound.
            self.reclaim();
            self.slabs.take(len)
        });
        slot.unwrap_or_else(|| Buffer::zeroed(len))
    }

    /// Gives up unused registrations, and then the unused memory under them.
    pub(super) fn reclaim(&self) {
        // First the registrations: one that outlived its memory would let a peer reach what the allocator puts there.
        for strategy in &*self.strategies.borrow() {
            strategy.reclaim();
        }
        self.slabs.trim();
        self.inline.trim();
        self.trim_messages();
    }

    /// Gives up memory for messages that was not used since the last call of this.
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

    /// Bytes of slots that are kept and unused.
    pub(super) fn idle(&self) -> usize {
        self.slabs.idle()
    }

    fn note_use(self: &Rc<Self>) {
        self.uses.set(self.uses.get().wrapping_add(1));
        self.look_after();
    }

    /// Notes that a connection has ended or has freed its tables, so that the allocator is asked to give memory back.
    pub(super) fn note_freed(self: &Rc<Self>) {
        self.freed.note();
        self.look_after();
    }

    /// Starts the task that gives memory back, unless it runs. Call it when memory comes into use, for payloads or
    /// messages.
    pub(super) fn look_after(self: &Rc<Self>) {
        if !self.watched.replace(true) {
            let watch = watch(Rc::downgrade(self), Handle::clone(&self.runtime));
            self.runtime
                .spawn("reclaim payload memory", Box::pin(watch));
        }
    }
}

/// Gives memory back that was not used for a while; ends when all is given back, until the next use. It holds the
/// memory weakly, so that a dropped server does not stay for the length of a sleep.
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
            // No await from here to the return: a use meanwhile would find a task that no longer looks.
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
    fn unused_slots_make_room_for_other_lengths() {
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
