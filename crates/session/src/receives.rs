//! The receives of a core, and their division among its connections.
//!
//! iWARP has no "receiver not ready": a message that finds no receive ends its connection. So the messages that all
//! peers together may send never exceed the posted receives. Each connection has a reserve; busy connections borrow the
//! others, and a message's receive goes back to the connection that it came on.

use gannet_fabric::{Endpoint, PostError, Receives, SharedReceiveQueue};
use std::cell::Cell;
use std::rc::Rc;

/// The number of receives, and the shares that are guaranteed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PoolLimits {
    /// Receives posted, and messages that hold the memory of one; the bound of the queue.
    pub receives_max: u32,
    /// Receives that each connection has, whatever the number of others.
    pub reserve: u32,
    /// Connections for which the reserve is kept.
    pub connections_max: u32,
}

impl PoolLimits {
    /// Whether every connection can have its reserve.
    pub const fn hold(self) -> bool {
        self.reserve as u64 * self.connections_max as u64 <= self.receives_max as u64
    }
}

/// A connection may borrow one in this many of the free receives, so that some are left for the next.
const BORROWED_PART: u32 = 4;

/// The receives that the connections of one listener's core share.
pub struct ReceivePool {
    queue: Rc<dyn SharedReceiveQueue>,
    limits: PoolLimits,
    /// Receives granted to endpoints whose messages have not been seen yet; the sum over all shares.
    granted: Cell<u32>,
    connections: Cell<u32>,
}

impl ReceivePool {
    /// A pool of the receives of `queue`, none of them granted.
    pub fn new(queue: Rc<dyn SharedReceiveQueue>, limits: PoolLimits) -> Rc<ReceivePool> {
        Rc::new(ReceivePool {
            queue,
            limits,
            granted: Cell::new(0),
            connections: Cell::new(0),
        })
    }

    /// The receives of a new connection: its reserve. `None` when more than [`PoolLimits::connections_max`]
    /// connections, or the messages that they hold, leave fewer.
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
        // A message that its connection has not seen yet counts twice: as granted, and as neither posted nor room. The
        // result is then too small by one for a moment, which is the safe side.
        let unused = self.queue.posted().saturating_add(self.queue.room());
        unused.saturating_sub(self.granted.get())
    }

    /// The free receives that may be borrowed: the reserves of connections to come may not.
    fn borrowable(&self) -> u32 {
        let to_come = self.limits.connections_max;
        let to_come = to_come.saturating_sub(self.connections.get());
        self.free()
            .saturating_sub(to_come.saturating_mul(self.limits.reserve))
    }

    /// The receives that a connection may borrow now.
    pub(crate) fn fair_part(&self) -> u32 {
        self.borrowable() / BORROWED_PART
    }

    /// Counts `count` receives as granted. The queue posts the missing ones first, so that the grant never exceeds the
    /// posted receives.
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

/// The receives of one connection. Dropping it returns those that no message has taken to the pool.
pub struct Share {
    pool: Rc<ReceivePool>,
    /// Receives granted to its endpoint whose messages have not been seen yet.
    granted: u32,
}

impl Share {
    /// The receives for [`gannet_fabric::ConnectOptions`], with the first grant.
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

    /// Counts a message, which has taken a granted receive.
    pub(crate) fn message_came(&mut self) {
        // Saturating never happens: the endpoint takes no more than its grant.
        self.granted = self.granted.saturating_sub(1);
        let granted = &self.pool.granted;
        granted.set(granted.get().saturating_sub(1));
    }

    /// Grants the endpoint `count` more without regard to the fair part: in place of messages whose memory was dropped.
    ///
    /// # Errors
    /// [`PostError::QueueFull`] with fewer free receives, [`PostError::Closed`].
    pub(crate) fn renew(&mut self, endpoint: &dyn Endpoint, count: u32) -> Result<(), PostError> {
        if count == 0 {
            return Ok(());
        }
        self.pool.take(count)?;
        // Before the call that may fail: the drop of the share must return them also when the endpoint is closed.
        self.granted += count;
        endpoint.grant_receives(count)
    }

    /// Grants the endpoint up to `wanted` more, at most the fair part.
    ///
    /// # Errors
    /// [`PostError::Closed`].
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
