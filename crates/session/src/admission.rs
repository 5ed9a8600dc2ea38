//! Listeners and connections of a core: their bounds, the eviction of connections for others, and the stop.
//!
//! A connection is unauthenticated until its server reports a request of a peer that may use an export. When there is
//! no room for one more connection, an unauthenticated one is evicted first: the oldest of the origin that has most of
//! them. When there is none, the connection is evicted that has been idle for longest, of the origin that has most
//! connections. So a host that takes all the places it can loses its own connections, and others keep theirs.

use crate::limits::{CONNECTIONS_MAX, CONNECTIONS_PER_ORIGIN_MAX, UNAUTHENTICATED_MAX};
use crate::{Account, Budget, Origin};
use gannet_runtime::{Instant, Notify};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::net::IpAddr;
use std::rc::Rc;
use std::task::{Context, Poll};

/// The bounds of a core's connections, over all transports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConnectionLimits {
    /// Most connections from all origins together.
    pub total_max: usize,
    /// Most connections from one [`Origin`].
    pub per_origin_max: usize,
    /// Unauthenticated ones, from all origins together.
    pub unauthenticated_max: usize,
}

impl Default for ConnectionLimits {
    fn default() -> ConnectionLimits {
        ConnectionLimits {
            total_max: CONNECTIONS_MAX,
            per_origin_max: CONNECTIONS_PER_ORIGIN_MAX,
            unauthenticated_max: UNAUTHENTICATED_MAX,
        }
    }
}

/// The listeners and connections of a core, for which its stop waits.
pub struct Activities {
    budget: Budget,
    limits: Cell<ConnectionLimits>,
    /// The id of the next activity.
    next: Cell<u64>,
    /// All activities, by age. An evicted connection stays until its task has ended.
    running: RefCell<BTreeMap<u64, Rc<Seat>>>,
    /// The connections that count against the limits. An evicted one leaves at once, so that its place is free for the
    /// new connection before its task has run.
    crowd: RefCell<Crowd>,
    stopping: Cell<bool>,
    drained: Notify,
}

/// The state that a core shares with one of its activities.
struct Seat {
    id: u64,
    /// `None` for a listener.
    origin: Option<Origin>,
    admission: Cell<Admission>,
    /// The time of its last activity.
    active: Cell<Instant>,
    /// Wakes its task when it must end. The flags (`admission`, `Activities::stopping`) are set before.
    wake_up: Notify,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Admission {
    Unauthenticated,
    Authenticated,
    /// Another connection has its place, and it does not count any more.
    Evicted,
}

/// Why one more connection is too many.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shortage {
    /// Too many of its origin.
    Origin,
    /// Too many unauthenticated connections.
    Unauthenticated,
    /// Too many in all.
    Total,
    /// The budget is used up.
    Memory,
}

impl Shortage {
    /// The reason as a text for logs.
    pub fn why(self) -> &'static str {
        match self {
            Shortage::Origin => "too many connections of its address",
            Shortage::Unauthenticated => {
                "too many connections that have not asked for anything yet"
            }
            Shortage::Total => "too many connections",
            Shortage::Memory => "the memory for peers is in use",
        }
    }
}

impl Activities {
    /// A core without activities, whose connections draw from `budget`.
    pub fn new(budget: Budget) -> Rc<Activities> {
        Rc::new(Activities {
            budget,
            limits: Cell::default(),
            next: Cell::default(),
            running: RefCell::default(),
            crowd: RefCell::default(),
            stopping: Cell::default(),
            drained: Notify::default(),
        })
    }

    /// Sets how many connections there may be from now on; those that are there already may stay.
    pub fn limit(&self, limits: ConnectionLimits) {
        self.limits.set(limits);
    }

    /// Starts a listener.
    pub fn listener(self: &Rc<Self>) -> Listening {
        let seat = self.start(None, Instant::default());
        Listening {
            place: Place {
                activities: Rc::clone(self),
                seat,
            },
        }
    }

    /// Starts a connection from `address`, perhaps in the place of another. The second value is the bound that was
    /// reached, if one was; the first is `None` if there is no room nevertheless.
    pub fn connection(
        self: &Rc<Self>,
        address: IpAddr,
        now: Instant,
    ) -> (Option<Activity>, Option<Shortage>) {
        let origin = Origin::from(address);
        let shortage = self.make_room(origin);
        let Some(account) = self.budget.open(address) else {
            return (None, Some(Shortage::Memory));
        };
        let seat = self.start(Some(origin), now);
        self.crowd.borrow_mut().enter(origin, &seat);
        let place = Place {
            activities: Rc::clone(self),
            seat,
        };
        (Some(Activity { place, account }), shortage)
    }

    fn start(&self, origin: Option<Origin>, now: Instant) -> Rc<Seat> {
        let id = self.next.get();
        self.next.set(id + 1);
        let seat = Rc::new(Seat {
            id,
            origin,
            admission: Cell::new(Admission::Unauthenticated),
            active: Cell::new(now),
            wake_up: Notify::default(),
        });
        self.running.borrow_mut().insert(id, Rc::clone(&seat));
        seat
    }

    /// Ends a connection if one more from `origin` would be too many.
    fn make_room(&self, origin: Origin) -> Option<Shortage> {
        let limits = self.limits.get();
        let mut crowd = self.crowd.borrow_mut();
        let shortage = if crowd.of(origin) >= limits.per_origin_max {
            Shortage::Origin
        } else if crowd.unauthenticated >= limits.unauthenticated_max {
            Shortage::Unauthenticated
        } else if crowd.total >= limits.total_max {
            Shortage::Total
        } else {
            return None;
        };
        let victim = match shortage {
            Shortage::Origin => crowd.least_of(origin),
            _ => crowd.least(),
        };
        if let Some(seat) = victim {
            crowd.leave(&seat);
            seat.admission.set(Admission::Evicted);
            seat.wake_up.notify();
        }
        Some(shortage)
    }

    /// The number of connections that count: not evicted ones.
    pub fn connections(&self) -> usize {
        self.crowd.borrow().total
    }

    /// Has all activities end when they have answered the calls under way.
    pub fn stop(&self) {
        self.stopping.set(true);
        for seat in self.running.borrow().values() {
            seat.wake_up.notify();
        }
    }

    /// Waits until all have ended. At most one task may wait: a second one would take the first one's wake-up.
    pub async fn drained(&self) {
        while !self.running.borrow().is_empty() {
            self.drained.notified().await;
        }
    }
}

/// The connections that count, by origin.
#[derive(Default)]
struct Crowd {
    origins: BTreeMap<Origin, Members>,
    /// Origins by how many unauthenticated connections, and by how many connections they have.
    by_unauthenticated: BTreeSet<(usize, Origin)>,
    by_total: BTreeSet<(usize, Origin)>,
    unauthenticated: usize,
    total: usize,
}

/// The connections of one origin, by age.
#[derive(Default)]
struct Members {
    unauthenticated: BTreeMap<u64, Rc<Seat>>,
    authenticated: BTreeMap<u64, Rc<Seat>>,
}

impl Members {
    fn len(&self) -> usize {
        self.unauthenticated.len() + self.authenticated.len()
    }

    /// The oldest unauthenticated connection; when there is none, the one that has been idle for longest.
    fn least(&self) -> Option<Rc<Seat>> {
        let unauthenticated = self.unauthenticated.values().next();
        let idlest = || (self.authenticated.values()).min_by_key(|seat| seat.active.get());
        unauthenticated.or_else(idlest).cloned()
    }
}

impl Crowd {
    fn of(&self, origin: Origin) -> usize {
        self.origins.get(&origin).map_or(0, Members::len)
    }

    fn least_of(&self, origin: Origin) -> Option<Rc<Seat>> {
        self.origins.get(&origin)?.least()
    }

    fn least(&self) -> Option<Rc<Seat>> {
        let largest = match self.unauthenticated {
            0 => &self.by_total,
            _ => &self.by_unauthenticated,
        };
        let (_, origin) = largest.last()?;
        self.least_of(*origin)
    }

    fn enter(&mut self, origin: Origin, seat: &Rc<Seat>) {
        self.change(origin, |members| {
            members.unauthenticated.insert(seat.id, Rc::clone(seat));
        });
    }

    fn establish(&mut self, seat: &Rc<Seat>) {
        let Some(origin) = seat.origin else { return };
        self.change(origin, |members| {
            if let Some(seat) = members.unauthenticated.remove(&seat.id) {
                members.authenticated.insert(seat.id, seat);
            }
        });
    }

    /// Removes a connection from the counts.
    fn leave(&mut self, seat: &Rc<Seat>) {
        let Some(origin) = seat.origin else { return };
        self.change(origin, |members| {
            members.unauthenticated.remove(&seat.id);
            members.authenticated.remove(&seat.id);
        });
    }

    /// Changes the connections of `origin`, and the counts and indexes with them.
    fn change(&mut self, origin: Origin, change: impl FnOnce(&mut Members)) {
        let members = self.origins.entry(origin).or_default();
        let (unauthenticated, total) = (members.unauthenticated.len(), members.len());
        change(members);
        let (unauthenticated_now, total_now) = (members.unauthenticated.len(), members.len());
        if total_now == 0 {
            self.origins.remove(&origin);
        }
        self.by_unauthenticated.remove(&(unauthenticated, origin));
        self.by_total.remove(&(total, origin));
        if unauthenticated_now > 0 {
            self.by_unauthenticated
                .insert((unauthenticated_now, origin));
        }
        if total_now > 0 {
            self.by_total.insert((total_now, origin));
        }
        self.unauthenticated = self.unauthenticated - unauthenticated + unauthenticated_now;
        self.total = self.total - total + total_now;
    }
}

/// The place of an activity until it is dropped.
struct Place {
    activities: Rc<Activities>,
    seat: Rc<Seat>,
}

impl Place {
    /// Registers the task to be woken when it must end.
    fn register(&self, context: &mut Context<'_>) {
        // A notification that is already there is consumed here: the task must run again to see the flags.
        if self.seat.wake_up.poll_notified(context).is_ready() {
            context.waker().wake_by_ref();
        }
    }

    async fn unless_over<T>(
        &self,
        is_over: impl Fn() -> bool,
        future: impl Future<Output = T>,
    ) -> Option<T> {
        let mut future = std::pin::pin!(future);
        std::future::poll_fn(|context| {
            if is_over() {
                return Poll::Ready(None);
            }
            self.register(context);
            future.as_mut().poll(context).map(Some)
        })
        .await
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let activities = &self.activities;
        // An evicted connection has left already: its place is another's now.
        if self.seat.admission.get() != Admission::Evicted {
            activities.crowd.borrow_mut().leave(&self.seat);
        }
        activities.running.borrow_mut().remove(&self.seat.id);
        activities.drained.notify();
    }
}

/// A listener.
pub struct Listening {
    place: Place,
}

impl Listening {
    /// The result of `future`, or `None` when the server stops first.
    pub async fn unless_stopped<T>(&self, future: impl Future<Output = T>) -> Option<T> {
        let is_stopping = || self.place.activities.stopping.get();
        self.place.unless_over(is_stopping, future).await
    }
}

/// A connection.
pub struct Activity {
    place: Place,
    account: Account,
}

impl Activity {
    /// Its number, unique on its core.
    pub fn id(&self) -> u64 {
        self.place.seat.id
    }

    /// The account of the memory that the process holds for the peer.
    pub fn account(&self) -> &Account {
        &self.account
    }

    /// Notes that it is active at `now`.
    pub fn note(&self, now: Instant) {
        self.place.seat.active.set(now);
    }

    /// Makes the peer an authenticated one. An evicted connection stays evicted.
    pub fn establish(&self) {
        let seat = &self.place.seat;
        if seat.admission.get() == Admission::Unauthenticated {
            seat.admission.set(Admission::Authenticated);
            self.place.activities.crowd.borrow_mut().establish(seat);
        }
    }

    /// True when the peer is authenticated and the connection not evicted.
    pub fn is_established(&self) -> bool {
        self.place.seat.admission.get() == Admission::Authenticated
    }

    /// True when the connection has to end for another.
    pub fn is_evicted(&self) -> bool {
        self.place.seat.admission.get() == Admission::Evicted
    }

    /// True when all activities of the core must end.
    pub fn is_stopping(&self) -> bool {
        self.place.activities.stopping.get()
    }

    /// Registers the task to be woken when it must end. Check [`Activity::is_evicted`] and [`Activity::is_stopping`]
    /// after it: a change between check and registration would wake no task.
    pub fn register(&self, context: &mut Context<'_>) {
        self.place.register(context);
    }

    /// The result of `future`, or `None` when the connection must end first.
    pub async fn unless_over<T>(&self, future: impl Future<Output = T>) -> Option<T> {
        let is_over = || self.is_stopping() || self.is_evicted();
        self.place.unless_over(is_over, future).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: ConnectionLimits = ConnectionLimits {
        total_max: 6,
        per_origin_max: 4,
        unauthenticated_max: 5,
    };

    fn activities() -> Rc<Activities> {
        let activities = Activities::new(Budget::default());
        activities.limit(LIMITS);
        activities
    }

    fn connect(activities: &Rc<Activities>, last: u8, at: u64) -> (Activity, Option<Shortage>) {
        let address = IpAddr::from([192, 0, 2, last]);
        let (activity, shortage) = activities.connection(address, Instant::from_nanos(at));
        (activity.unwrap(), shortage)
    }

    fn establish(activities: &Rc<Activities>, last: u8, at: u64) -> Activity {
        let (activity, _) = connect(activities, last, at);
        activity.establish();
        activity
    }

    #[test]
    fn unauthenticated_connections_of_the_largest_origin_go_first() {
        let activities = activities();
        let old = establish(&activities, 1, 0);
        let newcomer = connect(&activities, 2, 1).0;
        let crowd: Vec<Activity> = (0..4).map(|at| connect(&activities, 3, at).0).collect();
        assert_eq!(activities.connections(), 6);
        let (other, shortage) = connect(&activities, 4, 9);
        assert_eq!(shortage, Some(Shortage::Unauthenticated));
        assert!(crowd[0].is_evicted() && !newcomer.is_evicted() && !old.is_evicted());
        newcomer.establish();
        other.establish();
        let (_, shortage) = connect(&activities, 4, 10);
        assert_eq!(shortage, Some(Shortage::Total));
        assert!(crowd[1].is_evicted() && !crowd[2].is_evicted());
        drop(crowd);
        assert_eq!(activities.connections(), 3);
    }

    #[test]
    fn without_unauthenticated_connections_the_idlest_of_the_largest_origin_is_evicted() {
        let activities = activities();
        let quiet = establish(&activities, 1, 0);
        let _second = establish(&activities, 2, 1);
        let many: Vec<Activity> = (2..6).map(|at| establish(&activities, 3, at)).collect();
        many[0].note(Instant::from_nanos(20));
        let (next, shortage) = connect(&activities, 1, 21);
        assert_eq!(shortage, Some(Shortage::Total));
        assert!(many[1].is_evicted(), "the idlest of three");
        assert!(!many[0].is_evicted() && !quiet.is_evicted());
        assert!(!next.is_established());
        assert_eq!(activities.connections(), 6);
    }

    #[test]
    fn an_origin_that_has_all_it_may_have_makes_room_for_itself() {
        let activities = activities();
        let quiet = establish(&activities, 1, 0);
        let many: Vec<Activity> = (1..5).map(|at| establish(&activities, 3, at)).collect();
        let (_next, shortage) = connect(&activities, 3, 9);
        assert_eq!(shortage, Some(Shortage::Origin));
        assert!(many[0].is_evicted() && !quiet.is_evicted());
        assert_eq!(activities.connections(), 5);
    }

    #[test]
    fn no_connection_is_admitted_when_the_budget_is_used_up() {
        let budget = Budget::new(0);
        let activities = Activities::new(budget.clone());
        let holder = establish(&activities, 1, 0);
        let _all = holder.account().charge(budget.bytes_max());
        let (none, shortage) = activities.connection([192, 0, 2, 2].into(), Instant::default());
        assert!(none.is_none());
        assert_eq!(shortage, Some(Shortage::Memory));
    }
}
