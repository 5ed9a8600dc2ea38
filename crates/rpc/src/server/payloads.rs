//! The memory of a core in which payloads of calls and replies wait for their users.

use super::MemoryInUse;
use crate::limits::{
    LONG_CALL_SLOTS_MAX, PAYLOAD_BYTES_MAX, PAYLOAD_IDLE_MAX, PAYLOAD_MAX, PAYLOAD_SLOT_MIN,
    RECORD_MAX,
};
use gannet_fabric::registration::{Counters, Strategy};
use gannet_fabric::{Arena, Buffer, Zones};
use gannet_runtime::{Handle, sleep};
use std::cell::{Cell, RefCell};
use std::rc::{Rc, Weak};

/// Payload memory and what is registered of it.
///
/// It is kept while there are calls, since making and registering it costs. It is given back, with its registrations,
/// when the bound is reached by slots of lengths that nobody wants just then, when nobody wanted any for
/// [`PAYLOAD_IDLE_MAX`], and when the embedding program says that memory is short ([`super::Server::reclaim`]).
pub(super) struct PayloadMemory {
    runtime: Handle,
    /// One slot per payload received or sent apart.
    zones: Zones,
    /// The same for RDMA calls that bring more than a payload in their Read chunks.
    long_calls: Arena,
    /// How the payloads of each RDMA listener are registered.
    strategies: RefCell<Vec<Rc<dyn Strategy>>>,
    uses: Cell<u64>,
    /// Somebody will look whether it idles.
    watched: Cell<bool>,
}

impl PayloadMemory {
    pub(super) fn new(runtime: Handle) -> Rc<PayloadMemory> {
        Rc::new(PayloadMemory {
            runtime,
            zones: Zones::new(PAYLOAD_SLOT_MIN, PAYLOAD_MAX, PAYLOAD_BYTES_MAX),
            long_calls: Arena::new(RECORD_MAX, LONG_CALL_SLOTS_MAX),
            strategies: RefCell::default(),
            uses: Cell::new(0),
            watched: Cell::new(false),
        })
    }

    /// From now on `strategy` may hold registrations of this memory.
    pub(super) fn add_strategy(&self, strategy: &Rc<dyn Strategy>) {
        self.strategies.borrow_mut().push(Rc::clone(strategy));
    }

    pub(super) fn registrations(&self) -> Vec<Counters> {
        let strategies = self.strategies.borrow();
        strategies.iter().map(|it| it.counters()).collect()
    }

    /// Memory for a payload of `len` bytes. When all is in use, the `only` payload of a connection gets memory of its
    /// own: others who are slow to fill theirs cannot keep it waiting.
    pub(super) fn take(self: &Rc<Self>, len: usize, only: bool) -> Option<Buffer> {
        self.note_use();
        let slot = self.zones.take(len).or_else(|| {
            if self.zones.idle() < len {
                return None;
            }
            // Slots of other lengths hold the room.
            self.reclaim();
            self.zones.take(len)
        });
        slot.or_else(|| only.then(|| Buffer::zeroed(len)))
    }

    /// The same for an RDMA call that brings more than a payload.
    pub(super) fn take_long_call(self: &Rc<Self>, len: usize, only: bool) -> Option<Buffer> {
        self.note_use();
        let slot = self.long_calls.take();
        slot.or_else(|| only.then(|| Buffer::zeroed(len)))
    }

    /// Gives up registrations and memory that serve nobody now.
    pub(super) fn reclaim(&self) {
        for strategy in &*self.strategies.borrow() {
            strategy.reclaim();
        }
        self.zones.trim();
        self.long_calls.trim();
    }

    pub(super) fn in_use(&self, inline: &Arena) -> MemoryInUse {
        let bytes = |arena: &Arena| arena.in_use() * arena.slot_len();
        MemoryInUse {
            payloads: self.zones.in_use(),
            long_calls: bytes(&self.long_calls),
            inline: bytes(inline),
        }
    }

    /// Bytes that are kept for nobody.
    pub(super) fn idle(&self) -> usize {
        self.zones.idle() + self.long_calls.idle() * self.long_calls.slot_len()
    }

    fn note_use(self: &Rc<Self>) {
        self.uses.set(self.uses.get().wrapping_add(1));
        if !self.watched.replace(true) {
            let watch = watch(Rc::downgrade(self), Handle::clone(&self.runtime));
            self.runtime
                .spawn("reclaim payload memory", Box::pin(watch));
        }
    }
}

/// Gives memory back once nobody has wanted any for a while; ends then, until the next use.
async fn watch(memory: Weak<PayloadMemory>, runtime: Handle) {
    let mut seen = None;
    loop {
        sleep(&runtime, PAYLOAD_IDLE_MAX).await;
        let Some(memory) = memory.upgrade() else {
            return;
        };
        let uses = memory.uses.get();
        let in_use = memory.zones.in_use() + memory.long_calls.in_use();
        if seen.replace(uses) == Some(uses) && in_use == 0 {
            memory.reclaim();
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
            let memory = PayloadMemory::new(runtime);
            memory.add_strategy(&strategy);
            let slots = (0..PAYLOAD_BYTES_MAX >> 17).map(|_| memory.take(100_000, false));
            let slots: Vec<Buffer> = slots.flatten().collect();
            assert_eq!(memory.zones.in_use(), PAYLOAD_BYTES_MAX);
            assert!(memory.take(1 << 20, false).is_none(), "all is in use");
            assert_eq!(memory.take(1 << 20, true).unwrap().slot(), None);
            for slot in slots {
                let strategy = Rc::clone(&strategy);
                let registered = strategy.register(slot, Access::Local, Scope::Domain);
                registered.unwrap().release(0).unwrap();
            }
            assert_eq!(memory.idle(), PAYLOAD_BYTES_MAX);
            let large = memory.take(1 << 20, false);
            assert!(large.is_some());
            assert_eq!((memory.idle(), memory.registrations()[0].bytes), (0, 0));
        };
        world.run(test).unwrap();
    }
}
