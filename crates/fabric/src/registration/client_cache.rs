//! Slabs that stay registered, and a copy between them and the application's memory: the client registration cache.
//!
//! A copy is cheaper than a registration for little memory and more expensive for much. The limit depends on the
//! fabric, the machine and the load of both. So both are timed, by size class, and the cheaper one is used; one use in
//! [`TRY_THE_OTHER`] takes the other, so that a change is noticed.
//!
//! In software one slab serves all connections in turn, each with the rights of its use. A device cannot narrow rights:
//! there a slab serves one connection and one right, and a peer that had its key reaches later bytes of its own
//! connection in it. Where the device has memory windows a slab has no rights for peers, and each use has a window.

use super::counters::Meter;
use super::dynamic;
use super::kept::Kept;
use super::{Counters, Keeper, Parts, Registered, Strategy, StrategyKind, restrict};
use crate::limits::{SLAB_CLASSES, SLAB_LEN_MIN, SLABS_IDLE_MAX};
use crate::{Access, Backing, Domain, EndpointId, Region, RegisterError, Revocation, Scope};
use gannet_runtime::stages::{self, Stage};
use gannet_runtime::{Buffer, Handle};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::time::Duration;

/// One use in this many takes the way that measured more expensive.
const TRY_THE_OTHER: u64 = 64;
/// The weight of a new measurement in the moving average is one in this many.
const AVERAGE_OVER: u32 = 8;

/// The strategy `client-cache`.
pub(super) struct ClientCache {
    domain: Rc<dyn Domain>,
    meter: Meter,
    classes: [SizeClass; SLAB_CLASSES],
}

#[derive(Default)]
struct SizeClass {
    /// Unused slabs, at most [`SLABS_IDLE_MAX`], the oldest first.
    idle: RefCell<VecDeque<Slab>>,
    uses: Cell<u64>,
    copying: Average,
    registering: Average,
}

/// A registration and its memory, which is moved out of it.
struct Slab {
    region: Region,
    memory: Buffer,
    /// The rights of the use that it was registered for.
    rights: Rights,
}

/// The rights of one use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Rights {
    access: Access,
    scope: Scope,
}

impl Rights {
    /// No rights for peers: a window gives them.
    const OWN: Rights = Rights {
        access: Access::Local,
        scope: Scope::Domain,
    };
}

impl Slab {
    /// Whether it can serve a use with these rights, and no peer but those of that use.
    fn fits(&self, rights: Rights) -> bool {
        self.region.software().is_some() || self.rights == rights
    }
}

/// A moving average of the time of a use.
#[derive(Default)]
struct Average(Cell<Option<Duration>>);

impl Average {
    fn add(&self, value: Duration) {
        let next = match self.0.get() {
            Some(old) => (old * (AVERAGE_OVER - 1) + value) / AVERAGE_OVER,
            None => value,
        };
        self.0.set(Some(next));
    }
}

impl SizeClass {
    /// Whether this use should go through a slab.
    fn copies(&self) -> bool {
        let uses = self.uses.get();
        self.uses.set(uses.wrapping_add(1));
        let cheaper = match (self.copying.0.get(), self.registering.0.get()) {
            (Some(copying), Some(registering)) => copying < registering,
            // Each way is measured once first.
            (copying, _) => return copying.is_none(),
        };
        cheaper != (uses % TRY_THE_OTHER == TRY_THE_OTHER - 1)
    }

    /// Takes the unused slab that fits and was used last.
    fn take(&self, rights: Rights) -> Option<Slab> {
        let mut idle = self.idle.borrow_mut();
        let place = idle.iter().rposition(|slab| slab.fits(rights))?;
        idle.remove(place)
    }

    /// Keeps a slab for later uses; gives the oldest if there are too many.
    fn keep(&self, slab: Slab) -> Option<Slab> {
        let mut idle = self.idle.borrow_mut();
        idle.push_back(slab);
        if idle.len() > SLABS_IDLE_MAX {
            idle.pop_front()
        } else {
            None
        }
    }
}

/// The class of memory of `len` bytes, and the length of its slabs; `None` for more than a slab holds.
fn class_of(len: usize) -> Option<(usize, usize)> {
    let slab_len = len.next_power_of_two().max(SLAB_LEN_MIN);
    let class = (slab_len / SLAB_LEN_MIN).trailing_zeros() as usize;
    (class < SLAB_CLASSES).then_some((class, slab_len))
}

impl ClientCache {
    pub(super) fn new(domain: Rc<dyn Domain>, runtime: Handle) -> Rc<ClientCache> {
        Rc::new(ClientCache {
            domain,
            meter: Meter::new(runtime),
            classes: Default::default(),
        })
    }

    fn class(&self, len: usize) -> Option<(&SizeClass, usize)> {
        let (class, slab_len) = class_of(len)?;
        Some((self.classes.get(class)?, slab_len))
    }

    fn slab(
        &self,
        class: &SizeClass,
        slab_len: usize,
        rights: Rights,
    ) -> Result<Slab, RegisterError> {
        while let Some(slab) = class.take(rights) {
            if slab.region.is_valid() {
                self.meter.update(|counters| counters.hits += 1);
                return Ok(slab);
            }
            self.meter.forget(&slab.region);
        }
        let start = self.meter.now();
        let Rights { access, scope } = if self.domain.has_software_regions() {
            // Narrowed for each use.
            Rights {
                access: Access::RemoteReadWrite,
                scope: Scope::Domain,
            }
        } else {
            rights
        };
        let backing = Backing::Buffer(Buffer::zeroed(slab_len));
        let region = self.domain.register_now(backing, access, scope)?;
        self.meter.registered(slab_len, start);
        let memory = region.lend().unwrap_or_default();
        Ok(Slab {
            region,
            memory,
            rights,
        })
    }

    fn copy(&self, from: &[u8], to: &mut [u8]) {
        let start = self.meter.now();
        let len = from.len().min(to.len());
        if let (Some(from), Some(to)) = (from.get(..len), to.get_mut(..len)) {
            to.copy_from_slice(from);
        }
        let copied = |counters: &mut Counters| counters.copied_bytes += len as u64;
        self.meter.update(copied);
        let took = self.meter.since(start);
        stages::took(Stage::Copy, took);
        self.meter.update(|counters| counters.copy_time += took);
    }

    /// Registers the memory itself.
    fn register_directly(
        &self,
        buffer: Buffer,
        access: Access,
        scope: Scope,
    ) -> Result<Parts, RegisterError> {
        dynamic::fall_back(&*self.domain, &self.meter, buffer, access, scope)
    }

    /// Registers a slab in place of `original`.
    fn register_slab(
        &self,
        class: &SizeClass,
        slab_len: usize,
        original: Buffer,
        access: Access,
        scope: Scope,
    ) -> Result<Parts, RegisterError> {
        let window = self.window(access, scope);
        let rights = match window {
            Some(_) => Rights::OWN,
            None => Rights { access, scope },
        };
        let Slab {
            region,
            memory: mut slab,
            ..
        } = self.slab(class, slab_len, rights)?;
        restrict(&region, access, scope);
        // Memory for our own operations is copied too, because it may be their source.
        if access != Access::RemoteWrite {
            self.copy(&original, &mut slab);
        }
        // The peer can reach all of the slab, and it may hold bytes of a transfer with another peer.
        if let (true, Some(rest)) = (access != Access::Local, slab.get_mut(original.len()..)) {
            rest.fill(0);
        }
        let len = original.len();
        let placed = match window {
            Some(endpoint) => region.bind(slab, access, endpoint),
            None => region.restore(slab).map(|()| Region::clone(&region)),
        };
        let Ok(placed) = placed else {
            self.meter.forget(&region);
            return self.register_directly(original, access, scope);
        };
        Ok(Parts {
            original: Some(original),
            kept: window.map(|_| region),
            scope,
            ..Parts::whole(placed, len, access)
        })
    }

    /// The connection that gets a window over a slab; `None` where slabs are given in another way.
    fn window(&self, access: Access, scope: Scope) -> Option<EndpointId> {
        match scope {
            Scope::Endpoint(endpoint) if access != Access::Local => {
                self.domain.has_windows().then_some(endpoint)
            }
            _ => None,
        }
    }

    /// Revokes the window over a slab, which stays.
    fn release_window(
        self: Rc<Self>,
        parts: Parts,
        kept: Region,
        written: usize,
    ) -> Revocation<Option<Buffer>> {
        let Parts {
            region,
            len,
            access,
            original,
            ..
        } = parts;
        let cache = Rc::clone(&self);
        let kept = Kept::new(kept, move |region| cache.meter.forget(&region));
        region.deregister().map(move |outcome| {
            let (memory, mut original) = (outcome.unwrap_or_default()?, original?);
            let region = kept.take()?;
            if access != Access::RemoteRead {
                let written = memory.get(..written.min(len)).unwrap_or(&memory);
                self.copy(written, &mut original);
            }
            let rights = Rights::OWN;
            self.keep(
                len,
                Slab {
                    region,
                    memory,
                    rights,
                },
            );
            Some(original)
        })
    }

    /// Keeps a slab that served memory of `len` bytes.
    fn keep(&self, len: usize, slab: Slab) {
        match self.class(len) {
            Some((class, _)) if slab.region.is_valid() => {
                let excess = class.keep(slab);
                excess
                    .iter()
                    .for_each(|slab| self.meter.forget(&slab.region));
            }
            _ => self.meter.forget(&slab.region),
        }
    }

    fn release_slab(&self, parts: Parts, written: usize) -> Option<Buffer> {
        let Parts {
            region,
            len,
            access,
            scope,
            original,
            ..
        } = parts;
        let mut original = original?;
        let Some(slab) = region.lend() else {
            self.meter.forget(&region);
            return Some(original);
        };
        if access != Access::RemoteRead {
            let written = slab.get(..written.min(len)).unwrap_or(&slab);
            self.copy(written, &mut original);
        }
        let slab = Slab {
            region,
            memory: slab,
            rights: Rights { access, scope },
        };
        self.keep(len, slab);
        Some(original)
    }
}

impl Strategy for ClientCache {
    fn kind(&self) -> StrategyKind {
        StrategyKind::ClientCache
    }

    fn register(
        self: Rc<Self>,
        buffer: Buffer,
        access: Access,
        scope: Scope,
    ) -> Result<Registered, RegisterError> {
        let start = self.meter.now();
        let parts = match self.class(buffer.len()) {
            Some((class, slab_len)) if class.copies() => {
                self.register_slab(class, slab_len, buffer, access, scope)?
            }
            _ => self.register_directly(buffer, access, scope)?,
        };
        let spent = self.meter.since(start);
        Ok(Registered::new(self, Parts { spent, ..parts }))
    }

    fn reclaim(&self) {
        for class in &self.classes {
            let idle = std::mem::take(&mut *class.idle.borrow_mut());
            idle.iter().for_each(|slab| self.meter.forget(&slab.region));
        }
    }

    fn counters(&self) -> Counters {
        self.meter.get()
    }
}

impl Keeper for ClientCache {
    fn meter(&self) -> &Meter {
        &self.meter
    }

    fn release(self: Rc<Self>, mut parts: Parts, written: usize) -> Revocation<Option<Buffer>> {
        let (start, spent, len) = (self.meter.now(), parts.spent, parts.len);
        let direct = parts.fallback;
        let released = if direct {
            dynamic::release(&self.meter, parts)
        } else if let Some(kept) = parts.kept.take() {
            Rc::clone(&self).release_window(parts, kept, written)
        } else {
            Revocation::Ready(self.release_slab(parts, written))
        };
        released.map(move |buffer| {
            if let Some((class, _)) = self.class(len) {
                let average = if direct {
                    &class.registering
                } else {
                    &class.copying
                };
                average.add(spent + self.meter.since(start));
            }
            buffer
        })
    }
}

impl Drop for ClientCache {
    fn drop(&mut self) {
        self.reclaim();
    }
}
