//! Listeners and connections of a core: how many there may be, who makes room for whom, and how all hear of its end.

use crate::limits::{CONNECTIONS_MAX, CONNECTIONS_PER_ADDRESS_MAX};
use gannet_runtime::Notify;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::Future;
use std::net::IpAddr;
use std::rc::Rc;
use std::task::{Context, Poll};

/// How many connections a core holds at a time, over both transports.
///
/// One more takes the place of the oldest that has made no valid call yet, if there is one; otherwise it is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConnectionLimits {
    /// From all addresses together.
    pub total_max: usize,
    /// From one address.
    pub per_address_max: usize,
}

impl Default for ConnectionLimits {
    fn default() -> ConnectionLimits {
        ConnectionLimits {
            total_max: CONNECTIONS_MAX,
            per_address_max: CONNECTIONS_PER_ADDRESS_MAX,
        }
    }
}

/// What a stop of a core waits for.
#[derive(Default)]
pub struct Activities {
    /// How many connections there may be.
    pub limits: Cell<ConnectionLimits>,
    next: Cell<u64>,
    /// By age.
    running: RefCell<BTreeMap<u64, Rc<Seat>>>,
    connections: Cell<usize>,
    of_address: RefCell<BTreeMap<IpAddr, usize>>,
    stopping: Cell<bool>,
    drained: Notify,
}

/// What a core has to tell one of its activities.
struct Seat {
    /// `None` for a listener.
    address: Option<IpAddr>,
    standing: Cell<Standing>,
    news: Notify,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Standing {
    /// It has made no valid call yet.
    Stranger,
    Established,
    /// Its place was given to another, and it does not count any more.
    Evicted,
}

/// Why there is no room for a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Crowd {
    /// Too many of its address.
    Address(IpAddr),
    /// Too many in all.
    All,
}

impl Activities {
    /// Starts what takes connections.
    pub fn listener(self: &Rc<Self>) -> Activity {
        self.start(None)
    }

    /// Starts a connection from `address`, whether there is room for it or not.
    pub fn connection(self: &Rc<Self>, address: IpAddr) -> Activity {
        let address = address.to_canonical();
        self.connections.set(self.connections.get() + 1);
        *self.of_address.borrow_mut().entry(address).or_default() += 1;
        self.start(Some(address))
    }

    fn start(self: &Rc<Self>, address: Option<IpAddr>) -> Activity {
        let id = self.next.get();
        self.next.set(id + 1);
        let seat = Rc::new(Seat {
            address,
            standing: Cell::new(Standing::Stranger),
            news: Notify::default(),
        });
        self.running.borrow_mut().insert(id, Rc::clone(&seat));
        Activity {
            activities: Rc::clone(self),
            id,
            seat,
        }
    }

    /// What stands against another connection from `address`.
    pub fn crowd(&self, address: IpAddr) -> Option<Crowd> {
        let (address, limits) = (address.to_canonical(), self.limits.get());
        let of_address = self.of_address.borrow().get(&address).copied();
        if of_address.unwrap_or(0) >= limits.per_address_max {
            Some(Crowd::Address(address))
        } else {
            (self.connections.get() >= limits.total_max).then_some(Crowd::All)
        }
    }

    /// Ends the oldest connection of `crowd` that has made no valid call yet; false when there is none.
    pub fn evict_stranger(&self, crowd: Crowd) -> bool {
        let running = self.running.borrow();
        let stranger = running.values().find(|seat| {
            seat.standing.get() == Standing::Stranger
                && match crowd {
                    Crowd::Address(address) => seat.address == Some(address),
                    Crowd::All => seat.address.is_some(),
                }
        });
        let Some(stranger) = stranger else {
            return false;
        };
        self.leave(stranger);
        stranger.standing.set(Standing::Evicted);
        stranger.news.notify();
        true
    }

    /// A connection counts no more.
    fn leave(&self, seat: &Seat) {
        let (Some(address), true) = (seat.address, seat.standing.get() != Standing::Evicted) else {
            return;
        };
        self.connections.set(self.connections.get() - 1);
        let mut of_address = self.of_address.borrow_mut();
        if let Some(count) = of_address.get_mut(&address) {
            *count -= 1;
            if *count == 0 {
                of_address.remove(&address);
            }
        }
    }

    /// Connections that count.
    pub fn connections(&self) -> usize {
        self.connections.get()
    }

    /// Tells all to end when they have answered what is under way.
    pub fn stop(&self) {
        self.stopping.set(true);
        for seat in self.running.borrow().values() {
            seat.news.notify();
        }
    }

    /// True when all have to end.
    pub fn is_stopping(&self) -> bool {
        self.stopping.get()
    }

    /// Waits until all have ended. One waiter at a time.
    pub async fn drained(&self) {
        while !self.running.borrow().is_empty() {
            self.drained.notified().await;
        }
    }
}

/// A listener or a connection.
pub struct Activity {
    activities: Rc<Activities>,
    id: u64,
    seat: Rc<Seat>,
}

impl Activity {
    /// Tells it from all others of its core.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// A valid call came.
    pub fn establish(&self) {
        if self.seat.standing.get() == Standing::Stranger {
            self.seat.standing.set(Standing::Established);
        }
    }

    /// True when a valid call came before the place was needed.
    pub fn is_established(&self) -> bool {
        self.seat.standing.get() == Standing::Established
    }

    /// True when the connection has to end for another.
    pub fn is_evicted(&self) -> bool {
        self.seat.standing.get() == Standing::Evicted
    }

    /// True when all have to end.
    pub fn is_stopping(&self) -> bool {
        self.activities.is_stopping()
    }

    /// Sees that the task is woken when it has to end.
    pub fn register(&self, context: &mut Context<'_>) {
        if self.seat.news.poll_notified(context).is_ready() {
            context.waker().wake_by_ref();
        }
    }

    /// What `future` gives, or `None` when the server stops first.
    pub async fn unless_stopped<T>(&self, future: impl Future<Output = T>) -> Option<T> {
        let mut future = std::pin::pin!(future);
        std::future::poll_fn(|context| {
            if self.is_stopping() {
                return Poll::Ready(None);
            }
            self.register(context);
            future.as_mut().poll(context).map(Some)
        })
        .await
    }
}

impl Drop for Activity {
    fn drop(&mut self) {
        self.activities.leave(&self.seat);
        self.activities.running.borrow_mut().remove(&self.id);
        self.activities.drained.notify();
    }
}
