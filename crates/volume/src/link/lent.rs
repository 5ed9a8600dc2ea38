//! Memory that an I/O server lends to its clients for client-based RDMA, and what a client has been lent.
//!
//! Each piece has a key of its own, good on its connection alone, which is revoked before the memory is used for
//! anything else: when the client says that it is done, when [`LENT_AGE`] is over, or with the connection. A client
//! that never says anything more holds its memory for that long and no longer.
//!
//! The memory is the connection's own as long as it is lent any: [`LENT_TO_ONE_MAX`] bytes for each of [`LENT_TO_MAX`]
//! connections. Shared with others, it would show a client what they have left in it: one that says that it has written
//! bytes which it has not.

use super::Link;
use crate::limits::{
    LENT_AGE, LENT_PIECES_MAX, LENT_TO_MAX, LENT_TO_ONE_MAX, LENT_USE_AGE, ZONE_LEN_MIN,
};
use gannet_fabric::{Access, Backing, DeregisterError, Region, Revocation, Scope};
use gannet_runtime::{Buffer, Handle, Instant, Zones, sleep};
use gannet_wire::volume::{Class, LENT_LEN_MAX, Lent, Operation};
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// One permit for each connection of a core that may yet be lent memory.
pub(super) fn room() -> Arc<Semaphore> {
    Arc::new(Semaphore::new(LENT_TO_MAX))
}

/// What a connection has of lent memory: on the server what it has lent, on the client what it may use.
#[derive(Default)]
pub(super) struct Lending {
    /// Where the memory comes from, as long as some is lent or about to be.
    home: Option<Home>,
    /// The last number given.
    last: u64,
    given: BTreeMap<u64, Given>,
    /// Memory to write to, and until when that may begin.
    usable: Vec<(Lent, Instant)>,
}

/// Memory of one connection's own.
struct Home {
    zones: Zones,
    _room: OwnedSemaphorePermit,
}

/// Memory on its way back.
type Returning = Revocation<Result<Option<Buffer>, DeregisterError>>;

/// Memory that is lent.
struct Given {
    region: Region,
    until: Instant,
}

impl Lending {
    /// Takes memory back: once it is here no byte of it is read or written by its key any more.
    fn take_back(&mut self, number: u64) -> Option<Returning> {
        Some(self.given.remove(&number)?.region.deregister())
    }

    /// Takes back what was lent for too long, and gives the memory up when none is in use. When to look again.
    fn expire(&mut self, now: Instant) -> Option<Instant> {
        // Numbers go up with time.
        while let Some((number, until)) = self.given.iter().next().map(|(at, it)| (*at, it.until)) {
            if until > now {
                return Some(until);
            }
            tracing::debug!(number, "memory was lent for too long");
            drop(self.take_back(number));
        }
        if self.home.as_ref()?.zones.in_use() > 0 {
            return Some(now + LENT_AGE);
        }
        self.home = None;
        None
    }
}

impl Link {
    /// Memory for `len` bytes that may be lent to the peer, with whatever the peer has left in it. `None`: it has been
    /// lent enough, or too many others have.
    pub(crate) fn lendable(&self, len: u64) -> Option<Buffer> {
        let len = usize::try_from(len).ok()?;
        let mut lending = self.shared.lending().borrow_mut();
        if self.is_over() {
            return None;
        }
        if lending.home.is_none() {
            let room = Arc::clone(&self.shared.pool.lenders);
            let room = room.try_acquire_owned().ok()?;
            // Bounded by ZONE_LEN_MAX.
            let longest = LENT_LEN_MAX as usize;
            lending.home = Some(Home {
                zones: Zones::new(ZONE_LEN_MIN, longest, LENT_TO_ONE_MAX),
                _room: room,
            });
            let watching = watch(self.clone(), Handle::clone(&self.shared.runtime));
            self.shared.runtime.spawn("lent memory", Box::pin(watching));
        }
        let zones = &lending.home.as_ref()?.zones;
        zones.take_or_split(len).or_else(|| {
            zones.trim();
            zones.take_or_split(len)
        })
    }

    /// Lends memory to the peer, for `access`.
    pub(crate) fn lend(&self, buffer: Buffer, access: Access) -> Option<Lent> {
        let endpoint = &self.shared.endpoint;
        let (backing, scope) = (Backing::Buffer(buffer), Scope::Endpoint(endpoint.id()));
        let region = endpoint.domain().register(backing, access, scope).ok()?;
        let mut lending = self.shared.lending().borrow_mut();
        lending.last += 1;
        let number = lending.last;
        let lent = Lent {
            number,
            key: region.remote_key().0,
            offset: region.base(),
            len: u32::try_from(region.len()).ok()?,
        };
        let until = self.shared.runtime.now() + LENT_AGE;
        lending.given.insert(number, Given { region, until });
        Some(lent)
    }

    /// Takes back what was lent under this number, with what the peer has written to it: no byte is read or written by
    /// its key any more. `None`: there is no such memory, it was lent for too long, or the adapter has lost it.
    pub(crate) async fn take_back(&self, number: u64) -> Option<Buffer> {
        let returning = self.shared.lending().borrow_mut().take_back(number)?;
        returning.await.unwrap_or_default()
    }

    /// Takes note of memory that may be written to.
    pub(crate) fn may_use(&self, lent: Lent) {
        let mut lending = self.shared.lending().borrow_mut();
        if lending.usable.len() < LENT_PIECES_MAX {
            let until = self.shared.runtime.now() + LENT_USE_AGE;
            lending.usable.push((lent, until));
        }
    }

    /// Memory for `len` bytes that the peer has lent, if it has; nobody else gets it.
    pub(crate) fn usable(&self, len: u64) -> Option<Lent> {
        let now = self.shared.runtime.now();
        let mut lending = self.shared.lending().borrow_mut();
        lending.usable.retain(|(_, until)| *until > now);
        let fitting = |(lent, _): &(Lent, Instant)| u64::from(lent.len) >= len;
        let at = lending.usable.iter().position(fitting)?;
        Some(lending.usable.swap_remove(at).0)
    }

    /// Sends a request whose answer says nothing, and does not wait for it.
    pub(crate) fn tell(&self, operation: Operation, class: Class, body: Vec<u8>) {
        let link = self.clone();
        let telling = async move {
            // If it does not arrive, the connection is over, and with it what it was about.
            let _ = link.call(operation, class, &body, &[]).await;
        };
        self.shared.runtime.spawn("volume word", Box::pin(telling));
    }
}

/// Takes back what a connection was lent for too long, until it has no such memory any more.
async fn watch(link: Link, runtime: Handle) {
    let mut next = runtime.now() + LENT_AGE;
    loop {
        sleep(&runtime, next - runtime.now()).await;
        let expired = link.shared.lending().borrow_mut().expire(runtime.now());
        match expired {
            Some(at) => next = at,
            None => return,
        }
    }
}
