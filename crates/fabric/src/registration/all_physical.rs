//! One key for all memory: nothing is registered per use, and the peer can reach all memory of transfers under way.
//!
//! Where the key names pages (`Domain::physical_segment_len`), each page is a segment of its own for the peer. Memory
//! of more than [`PHYSICAL_SEGMENTS_MAX`] pages is registered for the one use; so is all memory where the provider has
//! no such key ([`Domain::has_map`]).
//!
//! In software the key reaches what is placed in the map. On a device it reaches all memory at all times, so each use
//! counts as an exposure, as long as the key. That is why the peer must be trusted.

use super::counters::Meter;
use super::dynamic;
use super::{Counters, Keeper, Parts, Registered, Strategy, StrategyKind};
use crate::limits::PHYSICAL_SEGMENTS_MAX;
use crate::{Access, Backing, Domain, Region, RegisterError, Revocation, Scope};
use gannet_runtime::{Buffer, Handle, Instant};
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// The strategy `all-physical`.
pub(super) struct AllPhysical {
    domain: Rc<dyn Domain>,
    meter: Meter,
    /// The map with the one key; `None` before the first use and after `reclaim`.
    everything: RefCell<Option<Region>>,
    /// The time at which a peer first had the key to memory that was with its user. Devices alone.
    exposed_since: Cell<Option<Instant>>,
}

impl AllPhysical {
    pub(super) fn new(domain: Rc<dyn Domain>, runtime: Handle) -> Rc<AllPhysical> {
        Rc::new(AllPhysical {
            domain,
            meter: Meter::new(runtime),
            everything: RefCell::default(),
            exposed_since: Cell::default(),
        })
    }

    /// Pages that name memory of this length to a peer; `None` where the one key cannot serve it.
    fn pages(&self, len: usize) -> Option<usize> {
        let page = self.domain.physical_segment_len();
        let pages = page.map_or(1, |page| len.div_ceil(page.max(1) as usize).max(1));
        (self.domain.has_map() && pages <= PHYSICAL_SEGMENTS_MAX).then_some(pages)
    }

    /// The region of the one key; registered on first use, and again after a peer revoked it.
    fn everything(&self) -> Result<Region, RegisterError> {
        let mut everything = self.everything.borrow_mut();
        if let Some(region) = everything.as_ref() {
            if region.is_valid() {
                self.meter.update(|counters| counters.hits += 1);
                return Ok(region.clone());
            }
            self.meter.deregistered(0, false, self.meter.now());
        }
        let start = self.meter.now();
        let region =
            self.domain
                .register_now(Backing::Map, Access::RemoteReadWrite, Scope::Domain)?;
        self.meter.registered(0, start);
        *everything = Some(region.clone());
        Ok(region)
    }
}

impl Strategy for AllPhysical {
    fn kind(&self) -> StrategyKind {
        StrategyKind::AllPhysical
    }

    fn register(
        self: Rc<Self>,
        buffer: Buffer,
        access: Access,
        scope: Scope,
    ) -> Result<Registered, RegisterError> {
        let len = buffer.len();
        if self.pages(len).is_none() {
            let parts = dynamic::fall_back(&*self.domain, &self.meter, buffer, access, scope)?;
            return Ok(Registered::new(self, parts));
        }
        let region = self.everything()?;
        let placed = match region.map() {
            Some(map) => map.place(buffer),
            None => Err(buffer),
        };
        let parts = match placed {
            Ok(offset) => Parts {
                offset,
                segment_len: self.domain.physical_segment_len(),
                ..Parts::whole(region, len, access)
            },
            Err(buffer) => dynamic::fall_back(&*self.domain, &self.meter, buffer, access, scope)?,
        };
        Ok(Registered::new(self, parts))
    }

    fn segments(&self, len: usize) -> usize {
        self.pages(len).unwrap_or(1)
    }

    fn reclaim(&self) {
        // Not while memory is placed in the map: its users' keys would end in the middle of their transfers.
        if self.meter.get().in_use == 0
            && let Some(region) = self.everything.borrow_mut().take()
        {
            let (start, was_valid) = (self.meter.now(), region.is_valid());
            drop(region.invalidate());
            self.meter.deregistered(0, was_valid, start);
            if let Some(since) = self.exposed_since.take() {
                let exposure = self.meter.since(since);
                self.meter.update(|counters| {
                    counters.longest_exposure = counters.longest_exposure.max(exposure);
                });
            }
        }
    }

    fn counters(&self) -> Counters {
        self.meter.get()
    }
}

impl Keeper for AllPhysical {
    fn meter(&self) -> &Meter {
        &self.meter
    }

    fn release(self: Rc<Self>, parts: Parts, _written: usize) -> Revocation<Option<Buffer>> {
        if parts.fallback {
            return dynamic::release(&self.meter, parts);
        }
        if !self.domain.has_software_regions() {
            self.meter.update(|counters| counters.exposures += 1);
            self.exposed_since
                .set(self.exposed_since.get().or(Some(self.meter.now())));
        }
        let map = parts.region.map();
        Revocation::Ready(map.and_then(|map| map.displace(parts.offset)))
    }
}

impl Drop for AllPhysical {
    fn drop(&mut self) {
        self.reclaim();
    }
}
