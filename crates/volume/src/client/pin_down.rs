//! The pin-down cache: memory of a client that stays registered.
//!
//! Only memory that the cache itself has made is kept, by its [`SlotId`] and not by its address, so that memory which
//! was freed and reused can never be taken for registered memory (Wyckoff and Wu, CCGrid 2005). Between transfers the
//! memory is with its user and out of its registration.
//!
//! In software a late access by an old key finds nothing. On a device it reaches the memory. So there only memory that
//! servers may read, and not write, stays registered: the servers of one volume may read what its client writes. What
//! they may write is registered for each transfer, or has a window for it where the device has windows and one server
//! alone moves the bytes. No registration serves another right than its own.
//!
//! A device pins all of an allocation, however few of its bytes a transfer moves. So a short part of a long allocation
//! is moved through memory of the part's length, and copied ([`PinDownCache::stand_in`]).

use super::registered::RegisteredMemory;
use crate::limits::{
    CLIENT_MEMORY_LEN_MAX, CLIENT_MEMORY_LEN_MIN, CLIENT_MEMORY_MAX, STAND_IN_MEMORY_MAX,
};
use gannet_fabric::{
    Access, Backing, DeregisterError, Domain, Region, RegisterError, Revocation, Scope, Span,
};
use gannet_runtime::{Buffer, Handle, IdleWatch, Idles, Slabs, SlotId};
use gannet_wire::volume::{Memory, Shape};
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::ops::Add;
use std::rc::Rc;

/// Allocations that are at least so many times as long as the part that a transfer moves are not registered for it.
/// A device pins and unpins a page in about the time of a copy of it. The memory of the part is up to twice as long as
/// the part, so at most half of the allocations' pages are pinned, and a quarter copied.
const PART_OF: u64 = 4;

/// The pin-down cache of one domain.
pub struct PinDownCache {
    domain: Rc<dyn Domain>,
    slabs: Slabs,
    /// Memory in place of allocations that servers write. Its registrations end with each use.
    stand_ins: Slabs,
    /// All memory that was given out, by its slot; with its registration while the memory is with its user.
    kept: RefCell<HashMap<SlotId, Option<Kept>>>,
    counters: Rc<Cell<PinDownCounters>>,
    /// Gives memory back that is idle, with its registrations.
    idle: IdleWatch,
}

/// A registration that memory left to its user.
struct Kept {
    region: Region,
    /// The rights that it was registered for.
    registered: Access,
}

/// How many requests a cache has seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PinDownCounters {
    /// Memory was registered for a request.
    pub registrations: u64,
    /// Bytes of the memory that was registered.
    pub registered_bytes: u64,
    /// It already was.
    pub hits: u64,
}

impl Add for PinDownCounters {
    type Output = PinDownCounters;

    fn add(self, other: PinDownCounters) -> PinDownCounters {
        PinDownCounters {
            registrations: self.registrations + other.registrations,
            registered_bytes: self.registered_bytes + other.registered_bytes,
            hits: self.hits + other.hits,
        }
    }
}

impl PinDownCache {
    /// An empty cache, of memory that peers of `domain` may reach.
    pub fn new(domain: Rc<dyn Domain>) -> PinDownCache {
        PinDownCache {
            domain,
            slabs: Slabs::new(
                CLIENT_MEMORY_LEN_MIN,
                CLIENT_MEMORY_LEN_MAX,
                CLIENT_MEMORY_MAX,
            ),
            stand_ins: Slabs::new(
                CLIENT_MEMORY_LEN_MIN,
                STAND_IN_MEMORY_MAX,
                STAND_IN_MEMORY_MAX,
            ),
            kept: RefCell::default(),
            counters: Rc::default(),
            idle: IdleWatch::default(),
        }
    }

    /// Memory of at least `len` bytes, with whatever its last user left in it. It is registered with its first transfer
    /// and stays so. Dropped, it is there for the next call. When the cache is full, this is ordinary memory, which is
    /// registered for each transfer.
    pub fn memory(&self, len: usize) -> Buffer {
        match self.slabs.take(len) {
            Some(buffer) => {
                self.note_slot(&buffer);
                buffer
            }
            None => Buffer::zeroed(len),
        }
    }

    /// Memory is about to be used: from now on, what is idle goes back to the system, until all of it has.
    pub(super) fn look_after(self: &Rc<Self>, runtime: &Handle) {
        self.idle.look_after(runtime, self);
    }

    /// Has the memory of a slot stay registered from its first transfer on.
    fn note_slot(&self, buffer: &Buffer) {
        if let Some(slot) = buffer.slot() {
            self.kept.borrow_mut().entry(slot).or_default();
        }
    }

    /// Has memory of this slot, which the program has brought, stay registered from its first transfer on, as that of
    /// [`PinDownCache::memory`]. It ends with [`PinDownCache::take_out`] or [`PinDownCache::forget`].
    pub fn keep(&self, slot: SlotId) {
        self.kept.borrow_mut().entry(slot).or_default();
    }

    /// Ends the registration of memory that stays registered, and returns the memory.
    ///
    /// # Errors
    /// The adapter could not revoke the registration, and keeps the memory.
    pub async fn take_out(&self, buffer: Buffer) -> Result<Buffer, DeregisterError> {
        let slot = buffer.slot();
        let kept = slot.and_then(|slot| self.kept.borrow_mut().remove(&slot));
        let Some(Kept { region, .. }) = kept.flatten() else {
            return Ok(buffer);
        };
        match region.restore(buffer) {
            Ok(()) => (region.deregister().await?).ok_or(DeregisterError::Adapter),
            // It was revoked meanwhile.
            Err(buffer) => Ok(buffer),
        }
    }

    /// Ends the registration of memory that its program has dropped. That of memory in a transfer ends with it.
    pub fn forget(&self, slot: SlotId) {
        let kept = self.kept.borrow_mut().remove(&slot);
        if let Some(Kept { region, .. }) = kept.flatten() {
            drop(region.invalidate());
        }
    }

    /// The slot of memory that stays registered after a transfer with these rights.
    fn kept_slot(&self, buffer: &Buffer, access: Access) -> Option<SlotId> {
        let stays = self.domain.has_software_regions() || stays_registered(access);
        let slot = buffer.slot().filter(|_| stays)?;
        self.kept.borrow().contains_key(&slot).then_some(slot)
    }

    /// Whether a transfer of this memory needs no registration (`check_if_registered` of Wu, Wyckoff and Panda).
    pub fn is_registered(&self, buffer: &Buffer) -> bool {
        let kept = self.kept.borrow();
        let found = buffer.slot().and_then(|slot| kept.get(&slot)?.as_ref());
        found.is_some_and(|kept| kept.region.is_valid())
    }

    /// Whether a transfer of this memory with these rights needs no registration.
    pub(super) fn is_registered_for(&self, buffer: &Buffer, access: Access) -> bool {
        self.kept_slot(buffer, access).is_some() && self.is_registered(buffer)
    }

    /// Memory to move `len` bytes through in place of `parents`, the allocations that hold them. `None`: the
    /// allocations are to be registered, or are already, or cost nothing to register.
    pub(super) fn stand_in<'a>(
        &self,
        len: u64,
        access: Access,
        parents: impl Iterator<Item = &'a Buffer>,
    ) -> Option<Buffer> {
        if self.domain.has_software_regions() {
            return None;
        }
        let pinned = parents.filter(|parent| self.kept_slot(parent, access).is_none());
        let pinned: u64 = pinned.map(|parent| parent.len() as u64).sum();
        if len.saturating_mul(PART_OF) > pinned {
            return None;
        }
        let len = usize::try_from(len).ok()?;
        if !stays_registered(access) {
            let taken = self.stand_ins.take_or_split(len);
            return taken.or_else(|| {
                self.stand_ins.trim();
                self.stand_ins.take_or_split(len)
            });
        }
        let buffer = self.slabs.take(len)?;
        self.note_slot(&buffer);
        Some(buffer)
    }

    /// The counters.
    pub fn counters(&self) -> PinDownCounters {
        self.counters.get()
    }

    /// The counters, for a reader on this core.
    pub(super) fn shared_counters(&self) -> Rc<Cell<PinDownCounters>> {
        Rc::clone(&self.counters)
    }

    fn count(&self, change: impl FnOnce(&mut PinDownCounters)) {
        let mut counters = self.counters.get();
        change(&mut counters);
        self.counters.set(counters);
    }

    fn count_registration(&self, buffer: &Buffer) {
        self.count(|counters| {
            counters.registrations += 1;
            counters.registered_bytes += buffer.len() as u64;
        });
    }

    /// Lets peers within `scope` reach `buffer`. The caller must take it back: memory that is exposed when the region
    /// is dropped goes to no user again.
    ///
    /// # Errors
    /// The errors of [`Domain::register_now`]; the buffer is lost then.
    pub(super) async fn expose(
        &self,
        buffer: Buffer,
        access: Access,
        scope: Scope,
    ) -> Result<Exposed, RegisterError> {
        let in_software = self.domain.has_software_regions();
        let Some(slot) = self.kept_slot(&buffer, access) else {
            let buffer = match self.bind(buffer, access, scope).await? {
                Ok(exposed) => return Ok(exposed),
                Err(buffer) => buffer,
            };
            self.count_registration(&buffer);
            let region = (self.domain)
                .register(Backing::Buffer(buffer), access, scope)
                .await?;
            return Ok(Exposed {
                region,
                kept: None,
                under: None,
            });
        };
        // In software a use gets part of these rights. What an adapter keeps is for all servers of the volume, which
        // are one trust: the next use may be theirs.
        let registered = if in_software {
            Access::RemoteReadWrite
        } else {
            access
        };
        let former = self.kept.borrow_mut().insert(slot, None).flatten();
        let buffer = match former.filter(|it| it.registered == registered) {
            Some(Kept { region, .. }) => match region.restore(buffer) {
                Ok(()) => {
                    self.count(|counters| counters.hits += 1);
                    restrict(&region, access, scope);
                    let kept = Some(Slot { slot, registered });
                    return Ok(Exposed {
                        region,
                        kept,
                        under: None,
                    });
                }
                // The region was revoked meanwhile, so the memory is registered again.
                Err(buffer) => buffer,
            },
            None => buffer,
        };
        self.count_registration(&buffer);
        let backing = Backing::Buffer(buffer);
        let region = (self.domain)
            .register(backing, registered, Scope::Domain)
            .await?;
        restrict(&region, access, scope);
        let kept = Some(Slot { slot, registered });
        Ok(Exposed {
            region,
            kept,
            under: None,
        })
    }

    /// As [`PinDownCache::expose`], by a window for the one server of the request. The registration below it stays,
    /// whatever rights it has: they are the servers' of this volume. `Err` gives memory back that has no slot here, or
    /// where the device has no window.
    ///
    /// # Errors
    /// As [`PinDownCache::expose`].
    async fn bind(
        &self,
        buffer: Buffer,
        access: Access,
        scope: Scope,
    ) -> Result<Result<Exposed, Buffer>, RegisterError> {
        let slot = buffer.slot().filter(|_| self.domain.has_windows());
        let slot = slot.filter(|slot| self.kept.borrow().contains_key(slot));
        let (Some(slot), Scope::Endpoint(endpoint)) = (slot, scope) else {
            return Ok(Err(buffer));
        };
        let former = self.kept.borrow_mut().insert(slot, None).flatten();
        let (kept, buffer) = match former.filter(|it| it.region.is_valid()) {
            Some(kept) => {
                self.count(|counters| counters.hits += 1);
                (kept, buffer)
            }
            None => {
                self.count_registration(&buffer);
                let (backing, registered) = (Backing::Buffer(buffer), Access::Local);
                let region = (self.domain)
                    .register(backing, registered, Scope::Domain)
                    .await?;
                let buffer = region.lend().ok_or(RegisterError::TableFull)?;
                (Kept { region, registered }, buffer)
            }
        };
        let Kept { region, registered } = kept;
        match region.bind(buffer, access, endpoint) {
            Ok(window) => Ok(Ok(Exposed {
                region: window,
                kept: Some(Slot { slot, registered }),
                under: Some(region),
            })),
            Err(buffer) => {
                let kept = Kept { region, registered };
                self.kept.borrow_mut().insert(slot, Some(kept));
                Ok(Err(buffer))
            }
        }
    }

    /// Registers memory until it is taken back from the result, for reads and writes of all servers.
    ///
    /// # Errors
    /// The errors of [`Domain::register`]; the buffer is lost then.
    pub async fn register(&self, buffer: Buffer) -> Result<RegisteredMemory, RegisterError> {
        self.count_registration(&buffer);
        let len = buffer.len();
        let (backing, access) = (Backing::Buffer(buffer), Access::RemoteReadWrite);
        let region = (self.domain)
            .register(backing, access, Scope::Domain)
            .await?;
        let exposed = Exposed {
            region,
            kept: None,
            under: None,
        };
        Ok(RegisteredMemory::new(exposed, len))
    }

    /// Takes memory back: no peer can write it once it is here. `None`: the adapter has lost it.
    pub(super) async fn take_back(&self, exposed: Exposed) -> Option<Buffer> {
        let Exposed {
            region,
            kept,
            under,
        } = exposed;
        let Some(Slot { slot, registered }) = kept else {
            return region.deregister().await.unwrap_or_default();
        };
        let (region, buffer) = match under {
            Some(under) => (under, region.deregister().await.unwrap_or_default()),
            None => {
                let buffer = region.lend();
                (region, buffer)
            }
        };
        // A registration whose memory is lost serves nobody again.
        buffer.as_ref()?;
        match self.kept.borrow_mut().get_mut(&slot) {
            Some(place) => *place = Some(Kept { region, registered }),
            // The program has dropped the memory meanwhile.
            None => drop(region.invalidate()),
        }
        buffer
    }
}

impl Idles for PinDownCache {
    async fn give_back(&self) {
        drop(self.stand_ins.take_unused());
        for unused in self.slabs.take_unused() {
            // Its registration ends before the memory does. An adapter that cannot revoke it keeps the memory.
            if let Err(error) = self.take_out(unused).await {
                tracing::debug!(%error, "idle memory stays with its adapter");
            }
        }
    }

    fn is_gone(&self) -> bool {
        self.slabs.is_gone() && self.stand_ins.is_gone()
    }
}

/// Whether a device keeps memory registered with these rights while it is with its user.
fn stays_registered(access: Access) -> bool {
    matches!(access, Access::Local | Access::RemoteRead)
}

/// Narrows a region in software, which was registered for all access and scopes, so that this cannot fail.
fn restrict(region: &Region, access: Access, scope: Scope) {
    if let Some(software) = region.software() {
        software.restrict(access, scope);
    }
}

/// Memory that the servers of a request can reach until it is taken back.
///
/// Where a file lies on several servers, its key is good on every connection of this client's domain.
pub(super) struct Exposed {
    region: Region,
    /// The slot of the cache that the registration stays with, if it does.
    kept: Option<Slot>,
    /// The registration below, where the region is a window.
    under: Option<Region>,
}

/// A slot of the cache, and the rights that it is registered for.
struct Slot {
    slot: SlotId,
    registered: Access,
}

impl Exposed {
    /// The bytes of `shape` in the buffer, as a request names them; `None` when there are no such addresses.
    pub(super) fn memory(&self, shape: &Shape) -> Option<Memory> {
        let shape = shape.shifted(self.region.base()).ok()?;
        Some(Memory::Region {
            key: self.region.remote_key().0,
            shape,
        })
    }

    /// The key, and where the first byte is in the key's terms.
    pub(super) fn address(&self) -> (u32, u64) {
        (self.region.remote_key().0, self.region.base())
    }

    /// Revokes the key, and returns the memory.
    pub(super) fn deregister(&self) -> Revocation<Result<Option<Buffer>, DeregisterError>> {
        self.region.deregister()
    }

    /// Revokes the key, if it is not revoked yet.
    pub(super) fn invalidate(&self) {
        if self.region.is_valid() {
            drop(self.region.invalidate());
        }
    }

    /// Part of it, as the source of an RDMA Write.
    pub(super) fn span(&self, offset: u64, len: u32) -> Span {
        Span {
            region: self.region.clone(),
            offset,
            len,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gannet_runtime::{MEMORY_IDLE_MAX, sleep};
    use gannet_sim::World;
    use gannet_sim::fabric::{FabricProfile, SimFabric};

    #[test]
    fn memory_that_idles_goes_back_with_its_registration() {
        let world = World::new(1);
        let node = world.add_node("client");
        let provider = SimFabric::new(&world, FabricProfile::default()).provider(&node);
        let runtime = node.runtime();
        let story = async move {
            let cache = Rc::new(PinDownCache::new(provider.domain()));
            cache.look_after(&runtime);
            let memory = cache.memory(1 << 20);
            let exposed = cache.expose(memory, Access::RemoteWrite, Scope::Domain);
            let memory = cache.take_back(exposed.await.unwrap()).await.unwrap();
            let slot = memory.slot();
            sleep(&runtime, 5 * MEMORY_IDLE_MAX).await;
            assert!(cache.is_registered(&memory), "its user has it");
            drop(memory);
            sleep(&runtime, MEMORY_IDLE_MAX / 2).await;
            assert_eq!(cache.memory(1 << 20).slot(), slot, "it was used lately");
            sleep(&runtime, 3 * MEMORY_IDLE_MAX).await;
            assert!(cache.is_gone() && cache.kept.borrow().is_empty());
            // The next user has it looked after again.
            cache.look_after(&runtime);
            assert_ne!(cache.memory(1 << 20).slot(), slot);
            assert!(!cache.is_gone());
            sleep(&runtime, 3 * MEMORY_IDLE_MAX).await;
            assert!(cache.is_gone());
        };
        world.run(story).unwrap();
    }
}
