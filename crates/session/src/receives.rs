//! The receives of a core, and their division among its connections.
//!
//! iWARP has no "receiver not ready": a message that finds no receive ends its connection. So the messages that all
//! peers together may send never exceed the posted receives. Each connection has a reserve; busy connections borrow the
//! others, and a message's receive goes back to the connection that it came on.
//!
//! An origin may borrow as many as it leaves to all others. Each of its connections may borrow a quarter of the rest of
//! that share. The last third of a share goes out in small parts alone, because an idle connection returns nothing.

use crate::Origin;
use gannet_fabric::{Endpoint, PostError, Receives, SharedReceiveQueue};
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
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

/// A connection may borrow one in this many of the receives that are left to its origin, so that some are left for the
/// next.
const BORROWED_PART: u32 = 4;
/// One in this many of an origin's receives goes out in small parts alone.
const LAST_PART: u32 = 3;

/// The receives that the connections of one listener's core share.
pub struct ReceivePool {
    queue: Rc<dyn SharedReceiveQueue>,
    limits: PoolLimits,
    /// Receives granted to endpoints whose messages have not been seen yet; the sum over all shares.
    granted: Cell<u32>,
    connections: Cell<u32>,
    /// Receives beyond the reserves that the connections of each origin hold. An origin is here while it has one.
    pub(crate) borrowed: RefCell<HashMap<Origin, Rc<Cell<u32>>>>,
}

impl ReceivePool {
    /// A pool of the receives of `queue`, none of them granted.
    pub fn new(queue: Rc<dyn SharedReceiveQueue>, limits: PoolLimits) -> Rc<ReceivePool> {
        Rc::new(ReceivePool {
            queue,
            limits,
            granted: Cell::new(0),
            connections: Cell::new(0),
            borrowed: RefCell::default(),
        })
    }

    /// The receives of a new connection from `origin`: its reserve. `None` when more than
    /// [`PoolLimits::connections_max`] connections, or the messages that they hold, leave fewer.
    pub fn join(self: &Rc<Self>, origin: Origin) -> Option<Share> {
        self.take(self.limits.reserve).ok()?;
        self.connections.set(self.connections.get() + 1);
        let of_origin = Rc::clone(self.borrowed.borrow_mut().entry(origin).or_default());
        Some(Share {
            pool: Rc::clone(self),
            origin,
            of_origin,
            granted: self.limits.reserve,
            under_way: 0,
            borrowed: 0,
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
    origin: Origin,
    /// Receives that the connections of its origin have borrowed.
    of_origin: Rc<Cell<u32>>,
    /// Receives granted to its endpoint whose messages have not been seen yet.
    granted: u32,
    /// Requests whose memory counts as held.
    under_way: u32,
    /// Its part of `of_origin`.
    borrowed: u32,
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

    /// Receives that the connection may have beyond its reserve, if it has none now. In the last third of its origin's
    /// share, these are at most `small`.
    pub(crate) fn fair_part(&self, small: u32) -> u32 {
        let borrowed = self.of_origin.get();
        let share = self.pool.borrowable().saturating_add(borrowed) / 2;
        let left = share.saturating_sub(borrowed);
        let ample = left.saturating_sub(share / LAST_PART);
        (left / BORROWED_PART).min(ample.max(small))
    }

    /// Counts a message, which has taken a granted receive.
    pub(crate) fn message_came(&mut self) {
        // Saturating never happens: the endpoint takes no more than its grant.
        self.granted = self.granted.saturating_sub(1);
        let granted = &self.pool.granted;
        granted.set(granted.get().saturating_sub(1));
        self.count_borrowed();
    }

    /// The same for a request, which holds the memory of its receive until [`Share::request_ended`].
    pub(crate) fn request_came(&mut self) {
        self.under_way += 1;
        self.message_came();
    }

    /// Counts a request whose memory was dropped.
    pub(crate) fn request_ended(&mut self) {
        self.under_way = self.under_way.saturating_sub(1);
        self.count_borrowed();
    }

    fn count_borrowed(&mut self) {
        let held = self.granted + self.under_way;
        let borrowed = held.saturating_sub(self.pool.limits.reserve);
        let others = self.of_origin.get() - self.borrowed;
        self.of_origin.set(others + borrowed);
        self.borrowed = borrowed;
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
        self.count_borrowed();
        endpoint.grant_receives(count)
    }

    /// Grants the endpoint up to `wanted` more, at most the fair part. `small` is as in [`Share::fair_part`].
    ///
    /// # Errors
    /// [`PostError::Closed`].
    pub(crate) fn borrow(
        &mut self,
        endpoint: &dyn Endpoint,
        wanted: u32,
        small: u32,
    ) -> Result<(), PostError> {
        if wanted == 0 {
            return Ok(());
        }
        let part = self.fair_part(small.saturating_sub(self.borrowed));
        self.renew(endpoint, wanted.min(part))
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let ReceivePool {
            granted,
            connections,
            borrowed,
            ..
        } = &*self.pool;
        granted.set(granted.get() - self.granted);
        connections.set(connections.get() - 1);
        self.of_origin.set(self.of_origin.get() - self.borrowed);
        // Two references are the map's and this one.
        if Rc::strong_count(&self.of_origin) == 2 {
            borrowed.borrow_mut().remove(&self.origin);
        }
    }
}
