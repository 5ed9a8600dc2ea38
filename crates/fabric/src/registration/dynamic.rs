//! Registered before each use, revoked after it: the only strategy without exposure, and the most expensive.

use super::counters::Meter;
use super::{Counters, Keeper, Parts, Registered, Strategy, StrategyKind};
use crate::{Access, Backing, DeregisterError, Domain, RegisterError, Revocation, Scope};
use gannet_runtime::{Buffer, Handle, Instant};
use std::rc::Rc;

/// The strategy `dynamic`: it keeps no registrations, so `reclaim` has nothing to do.
pub(super) struct Dynamic {
    domain: Rc<dyn Domain>,
    meter: Meter,
}

impl Dynamic {
    pub(super) fn new(domain: Rc<dyn Domain>, runtime: Handle) -> Rc<Dynamic> {
        Rc::new(Dynamic {
            domain,
            meter: Meter::new(runtime),
        })
    }
}

impl Strategy for Dynamic {
    fn kind(&self) -> StrategyKind {
        StrategyKind::Dynamic
    }

    fn register(
        self: Rc<Self>,
        buffer: Buffer,
        access: Access,
        scope: Scope,
    ) -> Result<Registered, RegisterError> {
        let parts = register(&*self.domain, &self.meter, buffer, access, scope)?;
        Ok(Registered::new(self, parts))
    }

    fn counters(&self) -> Counters {
        self.meter.get()
    }
}

impl Keeper for Dynamic {
    fn meter(&self) -> &Meter {
        &self.meter
    }

    fn release(self: Rc<Self>, parts: Parts, _written: usize) -> Revocation<Option<Buffer>> {
        release(&self.meter, parts)
    }
}

/// Registers for one use.
pub(super) fn register(
    domain: &dyn Domain,
    meter: &Meter,
    buffer: Buffer,
    access: Access,
    scope: Scope,
) -> Result<Parts, RegisterError> {
    let (start, len) = (meter.now(), buffer.len());
    let region = domain.register_now(Backing::Buffer(buffer), access, scope)?;
    meter.registered(len, start);
    Ok(Parts::whole(region, len, access))
}

/// Registers for one use and counts a fallback, for a strategy whose own way is not possible.
pub(super) fn fall_back(
    domain: &dyn Domain,
    meter: &Meter,
    buffer: Buffer,
    access: Access,
    scope: Scope,
) -> Result<Parts, RegisterError> {
    let mut parts = register(domain, meter, buffer, access, scope)?;
    parts.fallback = true;
    meter.update(|counters| counters.fallbacks += 1);
    Ok(parts)
}

/// Revokes a registration of [`register`] or [`fall_back`]. The result is `None` when the memory was taken otherwise,
/// or is lost.
pub(super) fn release(meter: &Meter, parts: Parts) -> Revocation<Option<Buffer>> {
    let ending = Ending {
        start: meter.now(),
        meter: meter.clone(),
        len: parts.len,
        was_valid: parts.region.is_valid(),
        is_lost: false,
    };
    let deregistering = parts.region.deregister();
    deregistering.map(|outcome| ending.end(outcome))
}

/// A registration that is being taken back. Its drop counts it, so that a caller that does not wait for the end leaves
/// the counters right too.
struct Ending {
    meter: Meter,
    start: Instant,
    len: usize,
    was_valid: bool,
    is_lost: bool,
}

impl Ending {
    fn end(mut self, outcome: Result<Option<Buffer>, DeregisterError>) -> Option<Buffer> {
        self.is_lost = outcome.is_err();
        outcome.unwrap_or_default()
    }
}

impl Drop for Ending {
    fn drop(&mut self) {
        if self.is_lost {
            self.meter.update(|counters| counters.lost += 1);
        } else {
            self.meter
                .deregistered(self.len, self.was_valid, self.start);
        }
    }
}
