//! Slots of arenas, registered once: the paper's server registration cache.
//!
//! A slot is known by its [`SlotId`], never by its address, so that memory that moved, was unmapped or was allocated
//! anew can never be mistaken for registered memory (Wyckoff and Wu, CCGrid 2005). Its key is for our own
//! operations and is sent to no peer. Registrations end when memory is short ([`Strategy::reclaim`]).
//!
//! In the Read-Read design the key must be sent. Such a slot has a registration of its own, for remote reading, by the
//! connection alone whose reply is in it. Every peer of an earlier use knows its key. In software the key is useless to
//! it. On a device it would read later replies in the slot. So there each such use has a window over the slot's
//! registration, where the device has windows, and a registration of its own elsewhere.

use super::counters::Meter;
use super::dynamic;
use super::kept::Kept;
use super::{Counters, Keeper, Parts, Registered, Strategy, StrategyKind, restrict};
use crate::{Access, Backing, Domain, EndpointId, Region, RegisterError, Revocation, Scope};
use gannet_runtime::{Buffer, Handle, SlotId};
use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

/// The strategy `server-cache`.
pub(super) struct ServerCache {
    domain: Rc<dyn Domain>,
    meter: Meter,
    /// Registrations whose memory is moved out, to its user or to the arena. `reclaim` must revoke them before the
    /// arena frees the memory. None serves another right than its own.
    idle: RefCell<HashMap<(SlotId, Access), Region>>,
}

impl ServerCache {
    pub(super) fn new(domain: Rc<dyn Domain>, runtime: Handle) -> Rc<ServerCache> {
        Rc::new(ServerCache {
            domain,
            meter: Meter::new(runtime),
            idle: RefCell::default(),
        })
    }

    /// The slot in its registration, kept or new.
    fn region_of(
        &self,
        slot: SlotId,
        buffer: Buffer,
        access: Access,
        scope: Scope,
    ) -> Result<Region, RegisterError> {
        let kept = self.idle.borrow_mut().remove(&(slot, access));
        let (start, len) = (self.meter.now(), buffer.len());
        let buffer = match kept {
            Some(region) => match region.restore(buffer) {
                Ok(()) => {
                    restrict(&region, access, scope);
                    self.meter.update(|counters| counters.hits += 1);
                    return Ok(region);
                }
                Err(buffer) => {
                    self.meter.forget(&region);
                    buffer
                }
            },
            None => buffer,
        };
        // For the domain: the registration outlives the connection that uses it first. `restrict` grants it to that
        // connection alone.
        let backing = Backing::Buffer(buffer);
        let region = self.domain.register_now(backing, access, Scope::Domain)?;
        restrict(&region, access, scope);
        self.meter.registered(len, start);
        Ok(region)
    }

    /// The slot under a window for one connection. Its registration, kept or new, has no rights for peers.
    fn window_of(
        &self,
        slot: SlotId,
        buffer: Buffer,
        access: Access,
        endpoint: EndpointId,
    ) -> Result<Parts, RegisterError> {
        let len = buffer.len();
        let region = self.region_of(slot, buffer, Access::Local, Scope::Domain)?;
        let buffer = region.lend().unwrap_or_default();
        match region.bind(buffer, access, endpoint) {
            Ok(window) => Ok(Parts {
                kept: Some(region),
                ..Parts::whole(window, len, access)
            }),
            Err(buffer) => {
                self.idle.borrow_mut().insert((slot, Access::Local), region);
                let scope = Scope::Endpoint(endpoint);
                dynamic::fall_back(&*self.domain, &self.meter, buffer, access, scope)
            }
        }
    }

    /// Revokes a window; its registration stays with the slot.
    fn unbind(self: Rc<Self>, window: &Region, kept: Region) -> Revocation<Option<Buffer>> {
        let cache = Rc::clone(&self);
        let kept = Kept::new(kept, move |region| cache.meter.forget(&region));
        window.deregister().map(move |outcome| {
            let buffer = outcome.unwrap_or_default()?;
            // Without a slot, or without its memory, the registration is forgotten.
            let slot = buffer.slot();
            if let Some((slot, region)) = slot.and_then(|slot| Some((slot, kept.take()?))) {
                self.idle.borrow_mut().insert((slot, Access::Local), region);
            }
            Some(buffer)
        })
    }
}

impl Strategy for ServerCache {
    fn kind(&self) -> StrategyKind {
        StrategyKind::ServerCache
    }

    fn register(
        self: Rc<Self>,
        buffer: Buffer,
        access: Access,
        scope: Scope,
    ) -> Result<Registered, RegisterError> {
        let windowed = self.domain.has_windows() && access == Access::RemoteRead;
        if let (true, Some(slot), Scope::Endpoint(endpoint)) = (windowed, buffer.slot(), scope) {
            let parts = self.window_of(slot, buffer, access, endpoint)?;
            return Ok(Registered::new(self, parts));
        }
        let may_stay = match access {
            Access::Local => true,
            Access::RemoteRead => self.domain.has_software_regions(),
            Access::RemoteWrite | Access::RemoteReadWrite => false,
        };
        let Some(slot) = buffer.slot().filter(|_| may_stay) else {
            let parts = dynamic::fall_back(&*self.domain, &self.meter, buffer, access, scope)?;
            return Ok(Registered::new(self, parts));
        };
        let len = buffer.len();
        let region = self.region_of(slot, buffer, access, scope)?;
        let parts = Parts::whole(region, len, access);
        Ok(Registered::new(self, parts))
    }

    fn reclaim(&self) {
        let idle = std::mem::take(&mut *self.idle.borrow_mut());
        idle.values().for_each(|region| self.meter.forget(region));
    }

    fn counters(&self) -> Counters {
        self.meter.get()
    }
}

impl Keeper for ServerCache {
    fn meter(&self) -> &Meter {
        &self.meter
    }

    fn release(self: Rc<Self>, parts: Parts, _written: usize) -> Revocation<Option<Buffer>> {
        if parts.fallback {
            return dynamic::release(&self.meter, parts);
        }
        if let Some(kept) = parts.kept {
            return self.unbind(&parts.region, kept);
        }
        let buffer = parts.region.lend();
        match buffer.as_ref().and_then(Buffer::slot) {
            Some(slot) => {
                let mut idle = self.idle.borrow_mut();
                idle.insert((slot, parts.access), parts.region);
            }
            None => self.meter.forget(&parts.region),
        }
        Revocation::Ready(buffer)
    }
}

impl Drop for ServerCache {
    fn drop(&mut self) {
        self.reclaim();
    }
}
