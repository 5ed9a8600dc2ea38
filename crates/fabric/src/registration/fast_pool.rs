//! A pool of pre-allocated mappings, revoked in batches: the FMR pool of InfiniBand's drivers.
//!
//! Bounded in entries and in bytes per entry (the paper's Linux: 512 entries of 1 MiB); memory beyond the bounds is
//! registered dynamically. Released mappings are revoked together, once [`FAST_DIRTY_MAX`] of them wait or the oldest
//! has waited for [`EXPOSURE_MAX`]. In software their memory goes back to its user at once, out of the peer's reach. A
//! device still admits the peer until then, so there memory comes back with the batch, which is due as soon as a user
//! waits for its memory.

use super::counters::Meter;
use super::dynamic;
use super::{Counters, Keeper, Parts, Registered, Strategy, StrategyKind};
use crate::limits::{EXPOSURE_MAX, FAST_DIRTY_MAX, FAST_ENTRIES_MAX, FAST_LEN_MAX};
use crate::{Access, Backing, Domain, Region, RegisterError, Revocation, Scope};
use gannet_runtime::{Buffer, Handle, Instant, Notify};
use std::cell::{Cell, RefCell};
use std::rc::{Rc, Weak};

/// The strategy `fmr`.
pub(super) struct FastPool {
    domain: Rc<dyn Domain>,
    runtime: Handle,
    meter: Meter,
    /// Mappings in use or waiting to be revoked, at most [`FAST_ENTRIES_MAX`].
    mapped: Cell<usize>,
    /// Mappings that wait to be revoked, oldest first. A timer runs while there are any.
    dirty: RefCell<Vec<Dirty>>,
}

/// A mapping that was released and not revoked.
struct Dirty {
    region: Region,
    len: usize,
    since: Instant,
    /// Its user waits here for the revocation of the batch to begin, if the memory cannot be lent.
    revoked: Option<Rc<Notify>>,
}

impl FastPool {
    pub(super) fn new(domain: Rc<dyn Domain>, runtime: Handle) -> Rc<FastPool> {
        Rc::new(FastPool {
            domain,
            meter: Meter::new(Handle::clone(&runtime)),
            runtime,
            mapped: Cell::new(0),
            dirty: RefCell::default(),
        })
    }

    /// Revokes all waiting mappings together.
    fn flush(&self) {
        let dirty = std::mem::take(&mut *self.dirty.borrow_mut());
        if dirty.is_empty() {
            return;
        }
        self.mapped.set(self.mapped.get() - dirty.len());
        let start = self.meter.now();
        let (mut regions, mut bytes, mut longest) = (Vec::new(), 0, start);
        let exposures = dirty.len() as u64;
        let mut waiting = Vec::new();
        for it in dirty {
            regions.push(it.region);
            bytes += it.len as u64;
            longest = longest.min(it.since);
            waiting.extend(it.revoked);
        }
        self.domain.revoke_all(&mut regions);
        waiting.iter().for_each(|user| user.notify());
        let took = self.meter.since(start);
        let exposure = self.meter.since(longest);
        self.meter.update(|counters| {
            counters.batches += 1;
            counters.deregistrations += exposures;
            counters.exposures += exposures;
            counters.longest_exposure = counters.longest_exposure.max(exposure);
            counters.deregister_time += took;
            counters.bytes -= bytes;
        });
    }

    /// Starts a task that revokes the waiting mappings after [`EXPOSURE_MAX`]. It holds the pool weakly, so that a
    /// dropped pool does not stay for the length of the sleep; its drop flushes.
    fn flush_in_time(pool: Weak<FastPool>, runtime: &Handle) {
        let deadline = runtime.now() + EXPOSURE_MAX;
        let due = runtime.sleep_until(deadline);
        let flush = async move {
            due.await;
            if let Some(pool) = pool.upgrade() {
                pool.flush();
            }
        };
        runtime.spawn("revoke fast mappings", Box::pin(flush));
    }
}

impl Strategy for FastPool {
    fn kind(&self) -> StrategyKind {
        StrategyKind::Fmr
    }

    fn register(
        self: Rc<Self>,
        buffer: Buffer,
        access: Access,
        scope: Scope,
    ) -> Result<Registered, RegisterError> {
        let len = buffer.len();
        if self.mapped.get() == FAST_ENTRIES_MAX {
            self.flush();
        }
        if len > FAST_LEN_MAX || self.mapped.get() == FAST_ENTRIES_MAX {
            let parts = dynamic::fall_back(&*self.domain, &self.meter, buffer, access, scope)?;
            return Ok(Registered::new(self, parts));
        }
        let start = self.meter.now();
        let backing = Backing::Buffer(buffer);
        let region = self.domain.register_fast(backing, access, scope)?;
        self.meter.registered(len, start);
        self.mapped.set(self.mapped.get() + 1);
        let parts = Parts::whole(region, len, access);
        Ok(Registered::new(self, parts))
    }

    fn reclaim(&self) {
        self.flush();
    }

    fn counters(&self) -> Counters {
        self.meter.get()
    }
}

impl Keeper for FastPool {
    fn meter(&self) -> &Meter {
        &self.meter
    }

    fn release(self: Rc<Self>, parts: Parts, _written: usize) -> Revocation<Option<Buffer>> {
        if parts.fallback {
            return dynamic::release(&self.meter, parts);
        }
        // The peer has revoked the mapping: it needs no batch.
        if !parts.region.is_valid() {
            self.mapped.set(self.mapped.get() - 1);
            return dynamic::release(&self.meter, parts);
        }
        let Parts { region, len, .. } = parts;
        let since = self.meter.now();
        let (revoked, released) = if self.domain.has_software_regions() {
            (None, Revocation::Ready(region.lend()))
        } else {
            let begun = Rc::<Notify>::default();
            let taking = taken(
                Rc::downgrade(&self),
                Region::clone(&region),
                Rc::clone(&begun),
                self.meter.clone(),
            );
            (Some(begun), Revocation::Pending(Box::pin(taking)))
        };
        let waiting = {
            let mut dirty = self.dirty.borrow_mut();
            dirty.push(Dirty {
                region,
                len,
                since,
                revoked,
            });
            dirty.len()
        };
        if waiting == FAST_DIRTY_MAX {
            self.flush();
        } else if waiting == 1 {
            // For the first alone: its deadline is the earliest, and the flush revokes those behind it too.
            FastPool::flush_in_time(Rc::downgrade(&self), &self.runtime);
        }
        released
    }
}

/// The memory of a mapping, once its batch is revoked. `None` when it is lost.
async fn taken(
    pool: Weak<FastPool>,
    region: Region,
    begun: Rc<Notify>,
    meter: Meter,
) -> Option<Buffer> {
    // Somebody waits for the memory. Until the batch is full or old that could be [`EXPOSURE_MAX`].
    if let Some(pool) = pool.upgrade() {
        pool.flush();
    }
    // It comes: the pool's drop revokes the batch too.
    begun.notified().await;
    let taken = region.deregister().await;
    if taken.is_err() {
        meter.update(|counters| {
            counters.lost += 1;
            counters.deregistrations -= 1;
            counters.bytes += region.len();
        });
    }
    taken.unwrap_or_default()
}

impl Drop for FastPool {
    fn drop(&mut self) {
        self.flush();
    }
}
