//! The pin-down cache: memory of a client that stays registered.
//!
//! Only memory that the cache itself has made is kept, by its [`SlotId`] and not by its address, so that memory which
//! was freed and reused can never be taken for registered memory (Wyckoff and Wu, CCGrid 2005). Between transfers the
//! memory is with its user and out of its registration.
//!
//! In software a late access by an old key finds nothing. On a device it reaches the memory. So there only memory that
//! servers may read, and not write, stays registered: the servers of one volume may read what its client writes. What
//! they may write is registered for each transfer. No registration serves another right than its own.

use crate::limits::{CLIENT_MEMORY_LEN_MAX, CLIENT_MEMORY_LEN_MIN, CLIENT_MEMORY_MAX};
use gannet_fabric::{Access, Backing, Domain, Region, RegisterError, Scope, Span};
use gannet_runtime::{Buffer, Slabs, SlotId};
use gannet_wire::volume::{Memory, Shape};
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;

/// The pin-down cache of one domain.
pub struct PinDownCache {
    domain: Rc<dyn Domain>,
    slabs: Slabs,
    /// All memory that was given out, by its slot; with its registration while the memory is with its user.
    kept: RefCell<HashMap<SlotId, Option<Kept>>>,
    counters: Cell<PinDownCounters>,
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
    /// It already was.
    pub hits: u64,
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
            kept: RefCell::default(),
            counters: Cell::default(),
        }
    }

    /// Memory of at least `len` bytes, with whatever its last user left in it. It is registered with its first transfer
    /// and stays so. Dropped, it is there for the next call. When the cache is full, this is ordinary memory, which is
    /// registered for each transfer.
    pub fn memory(&self, len: usize) -> Buffer {
        match self.slabs.take(len) {
            Some(buffer) => {
                let slots = buffer.slot().into_iter();
                slots.for_each(|slot| {
                    self.kept.borrow_mut().entry(slot).or_default();
                });
                buffer
            }
            None => Buffer::zeroed(len),
        }
    }

    /// Whether a transfer of this memory needs no registration (`check_if_registered` of Wu, Wyckoff and Panda).
    pub fn is_registered(&self, buffer: &Buffer) -> bool {
        let kept = self.kept.borrow();
        let found = buffer.slot().and_then(|slot| kept.get(&slot)?.as_ref());
        found.is_some_and(|kept| kept.region.is_valid())
    }

    /// The counters.
    pub fn counters(&self) -> PinDownCounters {
        self.counters.get()
    }

    fn count(&self, change: impl FnOnce(&mut PinDownCounters)) {
        let mut counters = self.counters.get();
        change(&mut counters);
        self.counters.set(counters);
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
        let stays = in_software || matches!(access, Access::Local | Access::RemoteRead);
        let own = buffer
            .slot()
            .filter(|slot| stays && self.kept.borrow().contains_key(slot));
        let Some(slot) = own else {
            self.count(|counters| counters.registrations += 1);
            let region = (self.domain)
                .register(Backing::Buffer(buffer), access, scope)
                .await?;
            let kept = None;
            return Ok(Exposed { region, kept });
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
                    return Ok(Exposed { region, kept });
                }
                // The region was revoked meanwhile, so the memory is registered again.
                Err(buffer) => buffer,
            },
            None => buffer,
        };
        self.count(|counters| counters.registrations += 1);
        let backing = Backing::Buffer(buffer);
        let region = (self.domain)
            .register(backing, registered, Scope::Domain)
            .await?;
        restrict(&region, access, scope);
        let kept = Some(Slot { slot, registered });
        Ok(Exposed { region, kept })
    }

    /// Takes memory back: no peer can write it once it is here. `None`: the adapter has lost it.
    pub(super) async fn take_back(&self, exposed: Exposed) -> Option<Buffer> {
        let Exposed { region, kept } = exposed;
        let Some(Slot { slot, registered }) = kept else {
            return region.deregister().await.unwrap_or_default();
        };
        let buffer = region.lend();
        let kept = Kept { region, registered };
        self.kept.borrow_mut().insert(slot, Some(kept));
        buffer
    }
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

    /// Part of it, as the source of an RDMA Write.
    pub(super) fn span(&self, offset: u64, len: u32) -> Span {
        Span {
            region: self.region.clone(),
            offset,
            len,
        }
    }
}
