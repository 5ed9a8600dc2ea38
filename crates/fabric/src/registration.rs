//! Registration as policy: the way in which a peer gets access to memory, and the time for which it lasts.
//!
//! The NFS/RDMA paper of 2007 (section 4.3 and chapter 8) compares five ways. All are a [`Strategy`] here, so that a
//! protocol asks for registered memory and never for a particular way to register it. The exposure under each:
//!
//! | strategy | key is valid | a peer's late access |
//! |---|---|---|
//! | dynamic | one use | refused |
//! | fmr | until the next batch of revocations, [`EXPOSURE_MAX`] at the latest | on a device: reaches it until then |
//! | server-cache | as long as the slot | has no key |
//! | server-cache for Read-Read | in software as long as the slot, on a device one use | refused |
//! | client-cache | as long as the slab, with windows one use | on a device without: reaches the slab alone |
//! | all-physical | as long as the domain, for all memory (one use without such a key) | on a device: reaches all |
//!
//! A provider in software refuses late accesses under every strategy: released memory is moved out of the region
//! ([`MemoryRegion::lend`], [`MapRegion::displace`]) even while its key is valid. On a device lent memory can be
//! reached by its key. So there a user gets memory back that is without rights for peers, or was revoked: that of a
//! fast mapping comes back with its batch. What needs more gets a memory window for one use where the device has them
//! ([`MemoryRegion::bind`]), over memory that stays registered without rights. Elsewhere it is registered for one use,
//! and counted ([`Counters::fallbacks`]). The exception is a device's key to all memory, which trusted peers alone get.
//!
//! [`EXPOSURE_MAX`]: crate::limits::EXPOSURE_MAX
//! [`MemoryRegion::bind`]: crate::MemoryRegion::bind
//! [`MemoryRegion::lend`]: crate::MemoryRegion::lend
//! [`MapRegion::displace`]: crate::MapRegion::displace

mod all_physical;
mod client_cache;
mod counters;
mod dynamic;
mod fast_pool;
mod kept;
mod program;
mod server_cache;

pub use counters::Counters;
pub use program::ProgramMemory;

use crate::{Access, Domain, Region, RegisterError, RemoteAddress, Revocation, Scope, Span};
use counters::Meter;
use gannet_runtime::{Buffer, Handle};
use std::fmt;
use std::rc::Rc;
use std::str::FromStr;
use std::time::Duration;
use thiserror::Error;

/// The names of the strategies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum StrategyKind {
    /// Registered before each use, revoked after it.
    #[default]
    Dynamic,
    /// A bounded pool of pre-allocated mappings, revoked in batches.
    Fmr,
    /// Slots of arenas are registered once, for our own use only.
    ServerCache,
    /// Application memory is copied through slabs that stay registered, where that is cheaper than registering it.
    ClientCache,
    /// One key for all memory; for trusted peers only.
    AllPhysical,
}

impl StrategyKind {
    /// All of them, in the paper's order.
    pub const ALL: [StrategyKind; 5] = [
        StrategyKind::Dynamic,
        StrategyKind::Fmr,
        StrategyKind::ServerCache,
        StrategyKind::ClientCache,
        StrategyKind::AllPhysical,
    ];

    /// Its name on the command line and in tables.
    pub fn name(self) -> &'static str {
        match self {
            StrategyKind::Dynamic => "dynamic",
            StrategyKind::Fmr => "fmr",
            StrategyKind::ServerCache => "server-cache",
            StrategyKind::ClientCache => "client-cache",
            StrategyKind::AllPhysical => "all-physical",
        }
    }

    /// True when keys sent to a peer are valid for one use, so that the peer may revoke them with its answer.
    pub fn keys_are_single_use(self) -> bool {
        matches!(self, StrategyKind::Dynamic | StrategyKind::ServerCache)
    }
}

impl fmt::Display for StrategyKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// No strategy has this name.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error(
    "no registration strategy is called {0:?} (use dynamic, fmr, server-cache, client-cache or all-physical)"
)]
pub struct UnknownStrategy(String);

impl FromStr for StrategyKind {
    type Err = UnknownStrategy;
    fn from_str(name: &str) -> Result<StrategyKind, UnknownStrategy> {
        StrategyKind::ALL
            .into_iter()
            .find(|kind| kind.name() == name)
            .ok_or_else(|| UnknownStrategy(name.to_owned()))
    }
}

/// Whether a peer may get one key to all memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trust {
    /// It may not.
    Untrusted,
    /// The administrator has marked the peer as trusted.
    Trusted,
}

/// All-physical registration was asked for towards a peer that is not marked as trusted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error(
    "all-physical registration gives the peer one key to all of this process's transfer memory, and the peer is not \
     marked as trusted"
)]
pub struct NotTrusted;

/// A way to register memory for transfers.
pub trait Strategy {
    /// Its name.
    fn kind(&self) -> StrategyKind;

    /// Registers all of `buffer`. The fabric owns it until [`Registered::release`].
    ///
    /// # Errors
    /// Any [`RegisterError`]; the buffer is dropped then.
    fn register(
        self: Rc<Self>,
        buffer: Buffer,
        access: Access,
        scope: Scope,
    ) -> Result<Registered, RegisterError>;

    /// The number of segments that name memory of `len` bytes to a peer; see [`Registered::segments`].
    fn segments(&self, _len: usize) -> usize {
        1
    }

    /// Revokes registrations that are not in use. Servers call it when their memory is unused, when memory of other
    /// lengths holds a bound, and when memory is short; clients call it when a connection has ended. It must come
    /// before the memory itself is freed.
    fn reclaim(&self) {}

    /// The counters since its start.
    fn counters(&self) -> Counters;
}

/// A choice of strategy that the peer's trust allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Registration(StrategyKind);

impl Registration {
    /// `kind`, towards a peer of this trust.
    ///
    /// # Errors
    /// [`NotTrusted`] for all-physical registration and an untrusted peer.
    pub fn new(kind: StrategyKind, trust: Trust) -> Result<Registration, NotTrusted> {
        if kind == StrategyKind::AllPhysical && trust == Trust::Untrusted {
            return Err(NotTrusted);
        }
        Ok(Registration(kind))
    }

    /// The chosen strategy.
    pub fn kind(self) -> StrategyKind {
        self.0
    }

    /// The strategy, over `domain`.
    pub fn over(self, domain: Rc<dyn Domain>, runtime: Handle) -> Rc<dyn Strategy> {
        match self.0 {
            StrategyKind::Dynamic => dynamic::Dynamic::new(domain, runtime),
            StrategyKind::Fmr => fast_pool::FastPool::new(domain, runtime),
            StrategyKind::ServerCache => server_cache::ServerCache::new(domain, runtime),
            StrategyKind::ClientCache => client_cache::ClientCache::new(domain, runtime),
            StrategyKind::AllPhysical => all_physical::AllPhysical::new(domain, runtime),
        }
    }
}

/// Registered memory. Dropping it releases the registration and the memory.
pub struct Registered {
    /// `None` only within `release` and `drop`, so that each registration is taken back once.
    parts: Option<Parts>,
    keeper: Rc<dyn Keeper>,
}

/// The parts of a [`Registered`] that its strategy hands out and takes back.
struct Parts {
    region: Region,
    /// The offset of the memory in the region.
    offset: u64,
    len: usize,
    access: Access,
    /// The connections that it was registered for, where its strategy must know that.
    scope: Scope,
    /// Most bytes of it in one segment.
    segment_len: Option<u32>,
    /// The application's memory, when the region's is a slab.
    original: Option<Buffer>,
    /// The registration that stays, when the region is a window over it.
    kept: Option<Region>,
    /// Registered dynamically, because the strategy's own way was not possible.
    fallback: bool,
    /// The time that registering took.
    spent: Duration,
}

impl Parts {
    /// All of a region.
    fn whole(region: Region, len: usize, access: Access) -> Parts {
        Parts {
            region,
            offset: 0,
            len,
            access,
            scope: Scope::Domain,
            segment_len: None,
            original: None,
            kept: None,
            fallback: false,
            spent: Duration::ZERO,
        }
    }
}

/// The side of a strategy that takes memory back.
trait Keeper {
    fn meter(&self) -> &Meter;

    /// As [`Registered::release`].
    fn release(self: Rc<Self>, parts: Parts, written: usize) -> Revocation<Option<Buffer>>;
}

/// See [`crate::SoftwareRegion::restrict`].
fn restrict(region: &Region, access: Access, scope: Scope) -> bool {
    let software = region.software();
    software.is_some_and(|software| software.restrict(access, scope))
}

impl Registered {
    fn new(keeper: Rc<dyn Keeper>, parts: Parts) -> Registered {
        keeper.meter().update(|counters| counters.in_use += 1);
        Registered {
            parts: Some(parts),
            keeper,
        }
    }

    fn give_back(&mut self, written: usize) -> Revocation<Option<Buffer>> {
        let Some(parts) = self.parts.take() else {
            return Revocation::Ready(None);
        };
        self.keeper.meter().update(|counters| counters.in_use -= 1);
        Rc::clone(&self.keeper).release(parts, written)
    }

    fn parts(&self) -> &Parts {
        let Some(parts) = &self.parts else {
            unreachable!("only `release` and `drop` take the parts, and both consume the value");
        };
        parts
    }

    /// The address of its first byte for a peer.
    pub fn address(&self) -> RemoteAddress {
        let Parts { region, offset, .. } = self.parts();
        RemoteAddress {
            key: region.remote_key(),
            offset: region.base() + offset,
        }
    }

    /// The segments that name the first `len` bytes to a peer, address and length each. There is one segment, or one
    /// for each page where the provider's key to all memory names pages ([`Domain::physical_segment_len`]).
    pub fn segments(&self, len: u32) -> impl Iterator<Item = (RemoteAddress, u32)> {
        let RemoteAddress { key, offset } = self.address();
        let most = self.parts().segment_len.unwrap_or(len).max(1);
        let starts = (0..len.max(1)).step_by(most as usize);
        starts.map(move |start| {
            let offset = offset + u64::from(start);
            (RemoteAddress { key, offset }, most.min(len - start))
        })
    }

    /// Its length in bytes.
    pub fn len(&self) -> usize {
        self.parts().len
    }

    /// True when it has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// False once its key was revoked, by either side.
    pub fn is_valid(&self) -> bool {
        self.parts().region.is_valid()
    }

    /// `len` bytes of it from `offset` on, as source or sink of our own operations.
    pub fn span(&self, offset: u64, len: u32) -> Span {
        let parts = self.parts();
        Span {
            region: parts.region.clone(),
            offset: parts.offset + offset,
            len,
        }
    }

    /// Takes the memory back: after the result no access by the old key succeeds (on hardware: see the table above).
    /// The peer, or a Read of ours, may have written the first `written` bytes; bytes of a slab behind them are not
    /// copied back. `None` when the memory was taken otherwise, or is lost ([`Counters::lost`]).
    ///
    /// Ready at once on providers in software. A result that is dropped before leaves the memory with the provider,
    /// which drops it when the revocation is done.
    pub fn release(mut self, written: usize) -> Revocation<Option<Buffer>> {
        self.give_back(written)
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        drop(self.give_back(0));
    }
}

impl fmt::Debug for Registered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Registered")
            .field("region", &self.parts.as_ref().map(|parts| &parts.region))
            .finish_non_exhaustive()
    }
}
