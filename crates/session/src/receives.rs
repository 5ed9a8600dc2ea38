//! The receives of a core, and which connection may use how many.
//!
//! iWARP knows no "receiver not ready": a message that finds no receive ends its connection. So what peers may send,
//! all taken together, never exceeds the receives that are posted. Each connection has a few for itself; all others are
//! given for a time to those that are busy, and a message's receive goes back to the connection that it came on.

use gannet_fabric::{Endpoint, PostError, Receives, SharedReceiveQueue};
use std::cell::Cell;
use std::rc::Rc;

/// The number of receives, and the shares that are guaranteed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PoolLimits {
    /// Receives posted, and messages that hold the memory of one; the bound of the queue.
    pub receives_max: u32,
    /// Receives that each connection has, however many others there are.
    pub reserve: u32,
    /// Connections for which that many are kept.
    pub connections_max: u32,
}

impl PoolLimits {
    /// Whether every connection can have its reserve.
    pub const fn hold(self) -> bool {
        self.reserve as u64 * self.connections_max as u64 <= self.receives_max as u64
    }
}

/// A connection may borrow this part of what can be lent, so that some are left for the next.
const LENT_PART: u32 = 4;

/// The receives that the connections of one listener's core share.
pub struct ReceivePool {
    queue: Rc<dyn SharedReceiveQueue>,
    limits: PoolLimits,
    /// Granted to endpoints, and not seen to be taken by a message.
    granted: Cell<u32>,
    connections: Cell<u32>,
}

impl ReceivePool {
    /// Divides the receives of `queue`.
    pub fn new(queue: Rc<dyn SharedReceiveQueue>, limits: PoolLimits) -> Rc<ReceivePool> {
        Rc::new(ReceivePool {
            queue,
            limits,
            granted: Cell::new(0),
            connections: Cell::new(0),
        })
    }

    /// The receives of a new connection: its reserve. `None` when more connections than were reckoned with, or what
    /// they hold, leave less.
    pub fn join(self: &Rc<Self>) -> Option<Share> {
        self.take(self.limits.reserve).ok()?;
        self.connections.set(self.connections.get() + 1);
        Some(Share {
            pool: Rc::clone(self),
            granted: self.limits.reserve,
        })
    }

    /// The queue.
    pub fn queue(&self) -> &Rc<dyn SharedReceiveQueue> {
        &self.queue
    }

    /// Receives that the peers of all connections may use up.
    pub fn granted(&self) -> u32 {
        self.granted.get()
    }

    /// Bytes of memory that messages hold now.
    pub fn in_use(&self) -> usize {
        self.queue.in_use()
    }

    /// Gives memory back to the system that no message has used since the last call of this.
    pub fn trim_unused(&self) {
        self.queue.trim_unused();
    }

    /// Receives that no connection was granted and no message holds.
    fn free(&self) -> u32 {
        // A message that its owner has not seen yet counts twice here: as granted, and as neither posted nor room.
        let unused = self.queue.posted().saturating_add(self.queue.room());
        unused.saturating_sub(self.granted.get())
    }

    /// What of them may be lent: the reserves of connections to come are not.
    fn lendable(&self) -> u32 {
        let to_come = self.limits.connections_max;
        let to_come = to_come.saturating_sub(self.connections.get());
        self.free()
            .saturating_sub(to_come.saturating_mul(self.limits.reserve))
    }

    /// What a connection may have beside its reserve, at this moment.
    pub(crate) fn fair_part(&self) -> u32 {
        self.lendable() / LENT_PART
    }

    /// Grants `count` receives, for which the queue posts as many as are missing.
    fn take(&self, count: u32) -> Result<(), PostError> {
        if count > self.free() {
            return Err(PostError::QueueFull);
        }
        let granted = self.granted.get() + count;
        let missing = granted.saturating_sub(self.queue.posted());
        self.queue.post(missing)?;
        self.granted.set(granted);
        Ok(())
    }
}

/// The receives of one connection. Dropped, those that no message has taken go back to the pool.
pub struct Share {
    pool: Rc<ReceivePool>,
    /// Granted to its endpoint, and not seen to be taken.
    granted: u32,
}

impl Share {
    /// For [`gannet_fabric::ConnectOptions`]: what the endpoint is granted to begin with.
    pub fn receives(&self) -> Receives {
        Receives::Shared {
            queue: Rc::clone(&self.pool.queue),
            granted: self.granted,
        }
    }

    /// Receives that the peer may use up.
    pub fn granted(&self) -> u32 {
        self.granted
    }

    pub(crate) fn pool(&self) -> &ReceivePool {
        &self.pool
    }

    /// A message has taken one.
    pub(crate) fn message_came(&mut self) {
        // The endpoint takes no more than it was granted.
        self.granted = self.granted.saturating_sub(1);
        let granted = &self.pool.granted;
        granted.set(granted.get().saturating_sub(1));
    }

    /// Grants the endpoint `count` more, whether it may borrow or not: in place of messages whose memory was dropped.
    ///
    /// # Errors
    /// There are not so many, or the endpoint is closed.
    pub(crate) fn renew(&mut self, endpoint: &dyn Endpoint, count: u32) -> Result<(), PostError> {
        if count == 0 {
            return Ok(());
        }
        self.pool.take(count)?;
        // From here on they are dropped with the share, also when the endpoint is closed.
        self.granted += count;
        endpoint.grant_receives(count)
    }

    /// Grants the endpoint up to `wanted` more from what may be lent.
    ///
    /// # Errors
    /// The endpoint is closed.
    pub(crate) fn borrow(&mut self, endpoint: &dyn Endpoint, wanted: u32) -> Result<(), PostError> {
        if wanted == 0 {
            return Ok(());
        }
        self.renew(endpoint, wanted.min(self.pool.fair_part()))
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let ReceivePool {
            granted,
            connections,
            ..
        } = &*self.pool;
        granted.set(granted.get() - self.granted);
        connections.set(connections.get() - 1);
    }
}
