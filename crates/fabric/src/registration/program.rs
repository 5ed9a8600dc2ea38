//! Memory of a program that stays registered for many transfers, beside the memory of any strategy.
//!
//! Between two transfers the program has the memory, so its registration gives peers no rights. A transfer that a peer
//! makes has a window over it, for that connection and that use. Without windows such a transfer registers the memory
//! itself and counts a fallback. Our own operations (sinks of RDMA Reads) need no window. In software a registration is
//! a table entry, and is made for each use.

use super::counters::Meter;
use super::dynamic;
use super::kept::Kept;
use super::{Counters, Keeper, Parts, Registered, Strategy, StrategyKind};
use crate::{
    Access, Backing, DeregisterError, Domain, EndpointId, Region, RegisterError, Revocation, Scope,
};
use gannet_runtime::{Buffer, Handle, SlotId};
use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

/// A strategy, and memory of the program that is kept registered whatever that strategy is.
pub struct ProgramMemory {
    strategy: Rc<dyn Strategy>,
    domain: Rc<dyn Domain>,
    meter: Meter,
    /// The slots of memory that the program has brought. A registration is `None` while a transfer has the memory, and
    /// where none can be kept.
    kept: RefCell<HashMap<SlotId, Option<Region>>>,
}

impl ProgramMemory {
    /// Over `domain`, in which `strategy` registers all other memory.
    pub fn over(
        strategy: Rc<dyn Strategy>,
        domain: Rc<dyn Domain>,
        runtime: Handle,
    ) -> Rc<ProgramMemory> {
        Rc::new(ProgramMemory {
            strategy,
            domain,
            meter: Meter::new(runtime),
            kept: RefCell::default(),
        })
    }

    /// True when transfers of a peer find the memory registered, or a registration costs nothing.
    pub fn serves_peers(&self) -> bool {
        self.domain.has_windows() || self.domain.has_software_regions()
    }

    /// Registers memory of a slot until [`ProgramMemory::take_back`] or [`ProgramMemory::forget`], and gives it back to
    /// its slot. Does nothing with other memory.
    ///
    /// # Errors
    /// Any [`RegisterError`].
    pub async fn keep(&self, buffer: Buffer) -> Result<(), RegisterError> {
        let Some(slot) = buffer.slot() else {
            return Ok(());
        };
        let mut kept = None;
        if self.domain.has_windows() {
            let (start, len) = (self.meter.now(), buffer.len());
            let backing = Backing::Buffer(buffer);
            let registering = (self.domain).register(backing, Access::Local, Scope::Domain);
            let region = registering.await?;
            self.meter.registered(len, start);
            drop(region.lend());
            kept = Some(region);
        }
        self.kept.borrow_mut().insert(slot, kept);
        Ok(())
    }

    /// Ends the registration of a slot's memory, and returns the memory.
    ///
    /// # Errors
    /// The provider could not end it, and keeps the memory.
    pub async fn take_back(&self, buffer: Buffer) -> Result<Buffer, DeregisterError> {
        let slot = buffer.slot();
        let kept = slot.and_then(|slot| self.kept.borrow_mut().remove(&slot));
        let Some(region) = kept.flatten() else {
            return Ok(buffer);
        };
        // Revoked meanwhile, it has ended already.
        if let Err(buffer) = region.restore(buffer) {
            self.meter.forget(&region);
            return Ok(buffer);
        }
        let (start, was_valid) = (self.meter.now(), region.is_valid());
        let len = usize::try_from(region.len()).unwrap_or(0);
        let taken = region.deregister().await?;
        self.meter.deregistered(len, was_valid, start);
        taken.ok_or(DeregisterError::Adapter)
    }

    /// Ends the registration of memory that its program has dropped. That of memory in a transfer ends with it.
    pub fn forget(&self, slot: SlotId) {
        let kept = self.kept.borrow_mut().remove(&slot);
        if let Some(region) = kept.flatten() {
            self.meter.forget(&region);
        }
    }

    /// The registration of a slot's memory without rights for peers, kept or new, and the memory.
    fn local(&self, slot: SlotId, buffer: Buffer) -> Result<(Region, Buffer), RegisterError> {
        let mut kept = self.kept.borrow_mut();
        let idle = kept.get_mut(&slot).and_then(Option::take);
        drop(kept);
        if let Some(region) = idle {
            if region.is_valid() {
                self.meter.update(|counters| counters.hits += 1);
                return Ok((region, buffer));
            }
            self.meter.forget(&region);
        }
        let (start, len) = (self.meter.now(), buffer.len());
        let backing = Backing::Buffer(buffer);
        let region = (self.domain).register_now(backing, Access::Local, Scope::Domain)?;
        self.meter.registered(len, start);
        let buffer = region.lend().ok_or(RegisterError::TableFull)?;
        Ok((region, buffer))
    }

    /// Keeps a registration for the next transfer of this slot, unless the program has taken the memory back or dropped
    /// it.
    fn put_back(&self, slot: SlotId, region: Region) {
        let mut kept = self.kept.borrow_mut();
        if let Some(place) = kept.get_mut(&slot) {
            *place = Some(region);
            return;
        }
        drop(kept);
        self.meter.forget(&region);
    }

    /// A window over the memory, for one use of one connection.
    fn window(
        &self,
        slot: SlotId,
        buffer: Buffer,
        access: Access,
        endpoint: EndpointId,
    ) -> Result<Parts, RegisterError> {
        let len = buffer.len();
        let (region, buffer) = self.local(slot, buffer)?;
        match region.bind(buffer, access, endpoint) {
            Ok(window) => Ok(Parts {
                kept: Some(region),
                ..Parts::whole(window, len, access)
            }),
            Err(buffer) => {
                self.put_back(slot, region);
                let scope = Scope::Endpoint(endpoint);
                dynamic::fall_back(&*self.domain, &self.meter, buffer, access, scope)
            }
        }
    }

    fn expose(
        &self,
        slot: SlotId,
        buffer: Buffer,
        access: Access,
        scope: Scope,
    ) -> Result<Parts, RegisterError> {
        if self.domain.has_software_regions() {
            let mut parts = dynamic::register(&*self.domain, &self.meter, buffer, access, scope)?;
            parts.fallback = true;
            return Ok(parts);
        }
        match scope {
            _ if access == Access::Local => {
                let len = buffer.len();
                let (region, buffer) = self.local(slot, buffer)?;
                match region.restore(buffer) {
                    Ok(()) => Ok(Parts::whole(region, len, access)),
                    Err(buffer) => {
                        self.meter.forget(&region);
                        dynamic::fall_back(&*self.domain, &self.meter, buffer, access, scope)
                    }
                }
            }
            Scope::Endpoint(endpoint) if self.domain.has_windows() => {
                self.window(slot, buffer, access, endpoint)
            }
            _ => dynamic::fall_back(&*self.domain, &self.meter, buffer, access, scope),
        }
    }
}

impl Strategy for ProgramMemory {
    fn kind(&self) -> StrategyKind {
        self.strategy.kind()
    }

    fn register(
        self: Rc<Self>,
        buffer: Buffer,
        access: Access,
        scope: Scope,
    ) -> Result<Registered, RegisterError> {
        let slot = buffer.slot();
        let slot = slot.filter(|slot| self.kept.borrow().contains_key(slot));
        let Some(slot) = slot else {
            return Rc::clone(&self.strategy).register(buffer, access, scope);
        };
        let parts = self.expose(slot, buffer, access, scope)?;
        Ok(Registered::new(self, parts))
    }

    fn segments(&self, len: usize) -> usize {
        self.strategy.segments(len)
    }

    /// Leaves the memory of the program registered.
    fn reclaim(&self) {
        self.strategy.reclaim();
    }

    fn counters(&self) -> Counters {
        self.strategy.counters() + self.meter.get()
    }
}

impl Keeper for ProgramMemory {
    fn meter(&self) -> &Meter {
        &self.meter
    }

    fn release(self: Rc<Self>, parts: Parts, _written: usize) -> Revocation<Option<Buffer>> {
        if parts.fallback {
            return dynamic::release(&self.meter, parts);
        }
        let Some(under) = parts.kept else {
            let buffer = parts.region.lend();
            match buffer.as_ref().and_then(Buffer::slot) {
                Some(slot) => self.put_back(slot, parts.region),
                None => self.meter.forget(&parts.region),
            }
            return Revocation::Ready(buffer);
        };
        let memory = Rc::clone(&self);
        let under = Kept::new(under, move |region| memory.meter.forget(&region));
        parts.region.deregister().map(move |outcome| {
            let buffer = outcome.unwrap_or_default()?;
            if let Some((slot, region)) = buffer.slot().and_then(|it| Some((it, under.take()?))) {
                self.put_back(slot, region);
            }
            Some(buffer)
        })
    }
}

impl Drop for ProgramMemory {
    fn drop(&mut self) {
        let kept = std::mem::take(&mut *self.kept.borrow_mut());
        for region in kept.into_values().flatten() {
            self.meter.forget(&region);
        }
    }
}
