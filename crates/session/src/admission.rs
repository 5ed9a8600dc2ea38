//! Listeners and connections of a core: their bounds, the eviction of connections for others, and the stop.
//!
//! A connection is unauthenticated until its server reports a request of a peer that may use an export. When there is
//! no room for one more connection, an unauthenticated one is evicted first: the oldest of the origin that has most of
//! them. When there is none, the connection is evicted that has been idle for longest, of the origin that has most
//! connections. Of several origins with as many, the one with the oldest or idlest connection loses it. So a host that
//! takes all the places it can loses its own connections, and others keep theirs. The order is the same when the budget
//! has no room.

use crate::limits::{
    CONNECTION_BYTES, CONNECTIONS_MAX, CONNECTIONS_PART, CONNECTIONS_PER_ORIGIN_MAX,
    UNAUTHENTICATED_MAX,
};
use crate::{Account, Budget, Origin};
use gannet_runtime::{Instant, Notify};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::net::IpAddr;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

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

impl ConnectionLimits {
    /// The default bounds of each of `cores` cores, as far as `budget` has room for the connections of all of them.
    pub fn within(budget: &Budget, cores: usize) -> ConnectionLimits {
        let each = (budget.connections_max() / cores.max(1)).max(1);
        let defaults = ConnectionLimits::default();
        ConnectionLimits {
            total_max: defaults.total_max.min(each),
            per_origin_max: defaults.per_origin_max.min(each.div_ceil(2)),
            unauthenticated_max: defaults.unauthenticated_max.min(each.div_ceil(4)),
        }
    }

    /// The bytes of the smallest budget that has room for `connections` connections of a process.
    pub fn budget_for(connections: usize) -> usize {
        connections
            .saturating_mul(CONNECTION_BYTES)
            .saturating_mul(CONNECTIONS_PART)
    }
}

/// The listeners and connections of a core, for which its stop waits.
pub struct Activities {
    budget: Budget,
    limits: Cell<ConnectionLimits>,
    /// See [`Activities::keep_busy`].
    busy_within: Cell<Duration>,
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
            busy_within: Cell::default(),
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

    /// Refuses a connection of an origin at its own bound when all its others were active within this time, and evicts
    /// none of them. By default the idlest is evicted however short its pause is.
    pub fn keep_busy(&self, within: Duration) {
        self.busy_within.set(within);
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

    /// Starts a connection from `address`, perhaps in the place of another. It costs `idle` bytes while it does
    /// nothing. The second value is the bound that was reached, if one was. The first is `None` if there is no room
    /// nevertheless.
    pub fn connection(
        self: &Rc<Self>,
        address: IpAddr,
        idle: usize,
        now: Instant,
    ) -> (Option<Activity>, Option<Shortage>) {
        let origin = Origin::from(address);
        if self.has_only_busy(origin, now) {
            return (None, Some(Shortage::Origin));
        }
        let mut shortage = self.make_room(origin);
        let mut account = self.budget.open(address, idle);
        if account.is_none() {
            // The account of an evicted connection is closed when its task has run. Without one, another core has it.
            let is_evicted = shortage.is_some() || self.crowd.borrow_mut().evict(Crowd::least);
            shortage = shortage.or(Some(Shortage::Memory));
            account = is_evicted.then(|| self.budget.open_beyond(address, idle));
        }
        let Some(account) = account else {
            return (None, shortage);
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

    /// Whether the origin is at its bound, and none of its connections may make room.
    fn has_only_busy(&self, origin: Origin, now: Instant) -> bool {
        let crowd = self.crowd.borrow();
        if crowd.of(origin) < self.limits.get().per_origin_max {
            return false;
        }
        crowd.least_of(origin).is_some_and(|seat| {
            let pause = now.duration_since(seat.active.get());
            seat.admission.get() == Admission::Authenticated && pause < self.busy_within.get()
        })
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
        match shortage {
            Shortage::Origin => crowd.evict(|crowd| crowd.least_of(origin)),
            _ => crowd.evict(Crowd::least),
        };
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
        let idlest =
            || (self.authenticated.values()).min_by_key(|seat| (seat.active.get(), seat.id));
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
        let is_any_unauthenticated = self.unauthenticated > 0;
        let largest = if is_any_unauthenticated {
            &self.by_unauthenticated
        } else {
            &self.by_total
        };
        let (most, _) = *largest.last()?;
        let equals = largest.iter().rev().take_while(|(count, _)| *count == most);
        let candidates = equals.filter_map(|(_, origin)| self.least_of(*origin));
        if is_any_unauthenticated {
            candidates.min_by_key(|seat| seat.id)
        } else {
            candidates.min_by_key(|seat| (seat.active.get(), seat.id))
        }
    }

    /// Evicts the connection that `choose` gives; false if it gives none.
    fn evict(&mut self, choose: impl FnOnce(&Crowd) -> Option<Rc<Seat>>) -> bool {
        let Some(seat) = choose(self) else {
            return false;
        };
        self.leave(&seat);
        seat.admission.set(Admission::Evicted);
        seat.wake_up.notify();
        true
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
    use crate::limits::{BUDGET_BYTES_MIN, STREAM_BYTES};

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
        let (activity, shortage) =
            activities.connection(address, STREAM_BYTES, Instant::from_nanos(at));
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
    fn an_origin_at_its_own_bound_evicts_no_connection_of_another() {
        let activities = activities();
        let unauthenticated = connect(&activities, 1, 0).0;
        let established = establish(&activities, 1, 1);
        let many: Vec<Activity> = (2..6).map(|at| establish(&activities, 3, at)).collect();
        // The places are full as well, and the other origin has the oldest and the only unauthenticated connection.
        let (_next, shortage) = connect(&activities, 3, 9);
        assert_eq!(shortage, Some(Shortage::Origin));
        assert!(many[0].is_evicted());
        assert!(!unauthenticated.is_evicted() && !established.is_evicted());
    }

    #[test]
    fn an_origin_whose_connections_are_all_busy_is_refused_one_more() {
        let activities = activities();
        activities.keep_busy(Duration::from_nanos(10));
        let many: Vec<Activity> = (0..4).map(|_| establish(&activities, 3, 0)).collect();
        let connect = |at| {
            let now = Instant::from_nanos(at);
            activities.connection(IpAddr::from([192, 0, 2, 3]), STREAM_BYTES, now)
        };
        let (none, shortage) = connect(9);
        assert!(none.is_none());
        assert_eq!(shortage, Some(Shortage::Origin));
        assert!(!many.iter().any(Activity::is_evicted));
        many[1..]
            .iter()
            .for_each(|it| it.note(Instant::from_nanos(9)));
        let (one, shortage) = connect(10);
        assert!(one.is_some());
        assert_eq!(shortage, Some(Shortage::Origin));
        assert!(many[0].is_evicted(), "it was idle");
    }

    #[test]
    fn the_idlest_of_equal_origins_is_evicted_whatever_its_address() {
        for (idle, busy) in [(1, 2), (2, 1)] {
            let activities = activities();
            let idlest = establish(&activities, idle, 1);
            let others: Vec<Activity> = (0..2).map(|_| establish(&activities, idle, 5)).collect();
            let busy: Vec<Activity> = (2..5).map(|at| establish(&activities, busy, at)).collect();
            let (_next, shortage) = connect(&activities, 4, 9);
            assert_eq!(shortage, Some(Shortage::Total));
            assert!(idlest.is_evicted(), "origin {idle}");
            assert!(!others.iter().chain(&busy).any(Activity::is_evicted));
        }
    }

    #[test]
    fn the_oldest_unauthenticated_connection_of_equal_origins_is_evicted() {
        for (old, young) in [(1, 2), (2, 1)] {
            let activities = activities();
            let oldest = connect(&activities, old, 0).0;
            let younger: Vec<Activity> =
                (1..3).map(|at| connect(&activities, young, at).0).collect();
            let second = connect(&activities, old, 3).0;
            let _third = connect(&activities, 3, 4).0;
            let (_next, shortage) = connect(&activities, 4, 9);
            assert_eq!(shortage, Some(Shortage::Unauthenticated));
            assert!(oldest.is_evicted(), "origin {old}");
            assert!(!younger.iter().chain([&second]).any(Activity::is_evicted));
        }
    }

    /// Two origins open connections, with one call each, until the budget has no room for another one.
    #[test]
    fn idle_connections_leave_room_for_new_ones_and_for_a_large_request_of_an_old_one() {
        let budget = Budget::new(BUDGET_BYTES_MIN);
        let activities = Activities::new(budget.clone());
        let old = establish(&activities, 9, 0);
        let mut crowd = Vec::new();
        while activities.connections() < budget.connections_max() {
            let last = 1 + (crowd.len() % 2) as u8;
            crowd.push(establish(&activities, last, 1 + crowd.len() as u64));
        }
        let attacking: Vec<Activity> = (0..50)
            .map(|at| establish(&activities, 1, 1 << 20 | at))
            .collect();
        assert!(attacking.iter().all(Activity::is_established));
        for at in 0..20 {
            let (new, shortage) = connect(&activities, 7, 1 << 30 | at);
            assert_eq!(shortage, Some(Shortage::Memory));
            new.establish();
            assert!(new.account().has_room_for(1 << 20), "{budget:?}");
        }
        assert!(!old.is_evicted() && old.account().has_room_for(1 << 20));
        assert_eq!(activities.connections(), budget.connections_max() - 20);
    }

    #[test]
    fn default_bounds_fit_the_budget() {
        let budget = Budget::default();
        for cores in [1, 2, 3, 16, 1000, 100_000] {
            let limits = ConnectionLimits::within(&budget, cores);
            assert!(limits.total_max * cores <= budget.connections_max().max(cores));
            assert!(limits.per_origin_max > 0 && limits.unauthenticated_max > 0);
            let bytes = ConnectionLimits::budget_for(limits.total_max * cores);
            assert!(bytes <= budget.bytes_max() || limits.total_max == 1);
        }
        assert_eq!(
            ConnectionLimits::within(&budget, 1),
            ConnectionLimits::default()
        );
    }

    #[test]
    fn no_connection_is_admitted_when_other_cores_have_used_the_budget_up() {
        let budget = Budget::new(0);
        let activities = Activities::new(budget.clone());
        let _all = budget
            .open([192, 0, 2, 1].into(), 0)
            .unwrap()
            .charge(budget.bytes_max());
        let (none, shortage) =
            activities.connection([192, 0, 2, 2].into(), STREAM_BYTES, Instant::default());
        assert!(none.is_none());
        assert_eq!(shortage, Some(Shortage::Memory));
    }
}
