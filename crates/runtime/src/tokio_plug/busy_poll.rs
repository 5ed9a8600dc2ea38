//! Busy polling: a core without work polls for a short time before it sleeps, if that was measured to
//! pay (docs/decisions/0015-busy-polling.md).
//!
//! A sleeping thread takes tens of microseconds to wake on a virtual machine, longer than a short operation. A client
//! with one request at a time waits for that twice, at both ends.
//!
//! Mechanism: the runtime calls [`before_park`] when no task can run. If polling pays, it wakes the task [`look`], so
//! that the thread goes on without parking, until an event comes or the time is over. Each time it looks at the queues
//! of adapters too, whose events need no system call.

use crate::EventSource;
use rustix::time::{ClockId, clock_gettime};
use std::cell::RefCell;
use std::future::Future;
use std::pin::Pin;
use std::rc::Weak;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

/// The longest time of polling for this process, in nanoseconds.
static LONGEST: AtomicU64 = AtomicU64::new(0);

/// Sets how long each core of this process polls before it sleeps. A core polls only while events used to come within
/// about that time, and while work and waits take about 1.5 times the processor time of sleeping at most, with that of
/// who wakes it. Zero, the default, disables it. A polling core uses its processor, but yields to other threads.
pub fn set_busy_poll(longest: Duration) {
    let nanos = u64::try_from(longest.as_nanos()).unwrap_or(u64::MAX);
    LONGEST.store(nanos, Ordering::Relaxed);
}

fn longest() -> Duration {
    Duration::from_nanos(LONGEST.load(Ordering::Relaxed))
}

/// The length of a short look; zero while looks have taken more time than they may.
pub(super) fn short_look() -> Duration {
    let may_look = CORE.with(|core| core.patience.borrow().credit >= 0);
    match may_look {
        true => Look::Short.limit(longest()),
        false => Duration::ZERO,
    }
}

/// The runtime calls this when no task of the core can run. If it wakes the task [`look`], the thread polls without
/// sleeping.
pub(super) fn before_park() {
    let longest = longest();
    if longest.is_zero() {
        return;
    }
    CORE.with(|core| {
        let mut patience = core.patience.borrow_mut();
        if !patience.idle(Instant::now(), longest) {
            return patience.price.sleep_begins();
        }
        if let Some(waker) = &*core.looker.borrow() {
            waker.wake_by_ref();
            // Other threads of the processor go first: the peer may be one of them.
            std::thread::yield_now();
        }
    });
}

/// The runtime calls this when the thread has slept.
pub(super) fn after_park() {
    CORE.with(|core| core.patience.borrow_mut().price.sleep_ended());
}

/// A task of a core. Its poll means that the core had work, which ends the wait that [`Patience`] measures.
pub(super) struct Task<F>(pub(super) F);

impl<F: Future + Unpin> Future for Task<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        CORE.with(|core| core.patience.borrow_mut().busy(Instant::now, longest()));
        Pin::new(&mut self.0).poll(context)
    }
}

/// The task that is woken in place of sleeping. It is no [`Task`], so its poll does not count as work. It never ends,
/// and each core needs one.
pub(super) async fn look() {
    std::future::poll_fn(|context| {
        CORE.with(|core| {
            let mut looker = core.looker.borrow_mut();
            if !matches!(&*looker, Some(waker) if waker.will_wake(context.waker())) {
                *looker = Some(context.waker().clone());
            }
            drop(looker);
            core.look_at_sources();
        });
        Poll::<()>::Pending
    })
    .await;
}

#[derive(Default)]
struct Core {
    patience: RefCell<Patience>,
    looker: RefCell<Option<Waker>>,
    sources: RefCell<Vec<Weak<dyn EventSource>>>,
}

impl Core {
    /// Looks at all queues, and forgets those that are gone.
    fn look_at_sources(&self) {
        // Taken out meanwhile: a source wakes tasks, and anything may be called from there.
        let mut sources = self.sources.take();
        sources.retain(|source| {
            let source = source.upgrade();
            source.is_some_and(|source| {
                source.look();
                true
            })
        });
        let added = self.sources.replace(sources);
        self.sources.borrow_mut().extend(added);
    }
}

/// Looks at `source` from now on, when this core polls before it sleeps.
pub(super) fn look_at(source: Weak<dyn EventSource>) {
    CORE.with(|core| core.sources.borrow_mut().push(source));
}

thread_local! {
    static CORE: Core = Core::default();
}

/// The most points.
const POINTS_MAX: u32 = 16;
/// The points from which a core looks.
const POINTS_TO_LOOK: u32 = 8;
/// The points that a look without an event costs.
const POINTS_IN_VAIN: u32 = 4;
/// The length of a short look: answers of a peer that polls too come within it.
const SHORT: Duration = Duration::from_micros(50);
/// The time by which a wait is longer while both ends sleep.
const WAKING: Duration = Duration::from_micros(50);

/// The price of a sleep before one was measured.
const SLEEP_PRICE: Duration = Duration::from_micros(10);
/// The highest price that is believed: the processor does other things beside a sleep too.
const SLEEP_PRICE_MAX: Duration = Duration::from_micros(50);
/// One of so many sleeps is measured.
const SLEEPS_MEASURED: u32 = 16;
/// The longest work between two waits that counts: other threads may have had the processor meanwhile.
const WORK_MAX: Duration = Duration::from_millis(1);
/// The most processor time that is saved for later waits.
const CREDIT_MAX: Duration = Duration::from_millis(1);

/// Decides whether polling pays, and for how long, by the times at which events came.
#[derive(Default)]
struct Patience {
    /// The present wait; `None` while there is work.
    idle: Option<Idle>,
    /// Points of short looks, for answers of a peer that polls too.
    short: u32,
    /// Points of long looks, for answers that take longer, such as a disk's.
    long: u32,
    /// The end of the last wait.
    busy_since: Option<Instant>,
    /// The processor time that waits may take, in nanoseconds; below 0 where they took more.
    credit: i64,
    price: SleepPrice,
}

struct Idle {
    since: Instant,
    until: Wait,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Look {
    Short,
    Long,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Wait {
    Looking(Look),
    Sleeping,
    /// Sleeping after a look without an event.
    SleepingAfter(Look),
}

impl Look {
    /// Its length, at most `longest`.
    fn limit(self, longest: Duration) -> Duration {
        match self {
            Look::Short => longest.min(SHORT),
            Look::Long => longest,
        }
    }
}

impl Patience {
    /// Notes that there is no work at `now`; returns whether to poll and not sleep yet.
    fn idle(&mut self, now: Instant, longest: Duration) -> bool {
        if self.idle.is_none() {
            self.earn(now);
        }
        let until = match (self.short, self.long) {
            _ if self.credit < 0 => Wait::Sleeping,
            (_, POINTS_TO_LOOK..) => Wait::Looking(Look::Long),
            (POINTS_TO_LOOK.., _) => Wait::Looking(Look::Short),
            _ => Wait::Sleeping,
        };
        if self.idle.is_none() && until == Wait::Sleeping {
            self.pay(self.price.of_both());
        }
        let idle = self.idle.get_or_insert(Idle { since: now, until });
        let Wait::Looking(look) = idle.until else {
            return false;
        };
        if now.duration_since(idle.since) < look.limit(longest) {
            return true;
        }
        idle.until = Wait::SleepingAfter(look);
        self.pay(look.limit(longest) + self.price.of_both());
        let points = match look {
            Look::Short => &mut self.short,
            Look::Long => &mut self.long,
        };
        *points = points.saturating_sub(POINTS_IN_VAIN);
        false
    }

    /// Notes that there was work at `now`. The clock is read only if a wait ended: tasks run far more often.
    fn busy(&mut self, now: impl FnOnce() -> Instant, longest: Duration) {
        let Some(idle) = self.idle.take() else {
            return;
        };
        let now = now();
        let waited = now.duration_since(idle.since);
        self.busy_since = Some(now);
        if let Wait::Looking(look) = idle.until {
            // No more: whatever else took the processor meanwhile was no look.
            self.pay(waited.min(look.limit(longest)));
        }
        let (waking, in_vain) = match idle.until {
            Wait::Looking(_) => (Duration::ZERO, None),
            Wait::Sleeping => (WAKING, None),
            Wait::SleepingAfter(look) => (WAKING, Some(look)),
        };
        // An event that a look did not find was not within it, whatever the time of waking adds.
        let is_short = in_vain.is_none() && waited <= Look::Short.limit(longest) + waking;
        if in_vain != Some(Look::Short) {
            self.short = judged(self.short, is_short);
        }
        if !is_short && in_vain != Some(Look::Long) {
            self.long = judged(self.long, waited <= longest + waking);
        }
    }
}

impl Patience {
    /// Earns the processor time that this wait may take, by a look or by a sleep: with it, work and waits take about
    /// one and a half times as much at most as if the thread slept each time.
    fn earn(&mut self, now: Instant) {
        let worked = self.busy_since.map_or(Duration::ZERO, |since| {
            now.duration_since(since).min(WORK_MAX)
        });
        let earned = worked / 2 + self.price.of_both() * 3 / 2;
        let most = nanoseconds(CREDIT_MAX);
        self.credit = (self.credit + nanoseconds(earned)).min(most);
    }

    /// Pays for a look or a sleep. Debts have a bound: a core must not sleep for minutes because of one bad look.
    fn pay(&mut self, price: Duration) {
        let least = -nanoseconds(CREDIT_MAX);
        self.credit = (self.credit - nanoseconds(price)).max(least);
    }
}

fn nanoseconds(time: Duration) -> i64 {
    i64::try_from(time.as_nanos()).unwrap_or(i64::MAX)
}

/// The processor time that it takes this thread to sleep and to wake, measured at some of its sleeps.
#[derive(Default)]
struct SleepPrice {
    sleeps: u32,
    began: Option<Duration>,
    average: Option<Duration>,
}

impl SleepPrice {
    fn now(&self) -> Duration {
        self.average.unwrap_or(SLEEP_PRICE)
    }

    /// With what it takes the thread that wakes this one, about as much: it puts the sleeper into a queue and
    /// interrupts its processor. Most often that is the other end, whose work is as dear.
    fn of_both(&self) -> Duration {
        self.now() * 2
    }

    fn sleep_begins(&mut self) {
        self.sleeps = self.sleeps.wrapping_add(1);
        if self.sleeps.is_multiple_of(SLEEPS_MEASURED) {
            self.began = Some(processor_time());
        }
    }

    fn sleep_ended(&mut self) {
        if let Some(began) = self.began.take() {
            self.took(processor_time().saturating_sub(began));
        }
    }

    fn took(&mut self, price: Duration) {
        let before = self.now();
        self.average = Some((before * 7 + price.min(SLEEP_PRICE_MAX)) / 8);
    }
}

/// The processor time of this thread.
fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    let (seconds, nanoseconds) = (u64::try_from(time.tv_sec), u32::try_from(time.tv_nsec));
    Duration::new(seconds.unwrap_or(0), nanoseconds.unwrap_or(0))
}

/// The points after a wait for which a look would have paid or not.
fn judged(points: u32, pays: bool) -> u32 {
    if pays {
        (points + 1).min(POINTS_MAX)
    } else {
        points.saturating_sub(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::rc::Rc;

    const LONGEST: Duration = Duration::from_micros(300);
    const SOON: Duration = Duration::from_micros(20);

    /// One whose sleeps are so dear that any look pays.
    fn patient() -> Patience {
        let mut patience = Patience::default();
        patience.price.average = Some(LONGEST);
        patience
    }

    /// The processor time of `times` waits that end after `gap`, each behind `work`, against that of sleeping each
    /// time; and how often it looked. A sleep takes `sleep` of this thread, and as much of the one that wakes it.
    fn price(work: Duration, gap: Duration, sleep: Duration, times: u32) -> (f64, u32) {
        let mut patience = Patience::default();
        patience.price.average = Some(sleep);
        let (mut now, mut taken, mut looks) = (Instant::now(), Duration::ZERO, 0);
        for _ in 0..times {
            now += work;
            taken += work;
            let has_looked = patience.idle(now, LONGEST);
            let looks_on = has_looked && patience.idle(now + gap.min(LONGEST), LONGEST);
            looks += u32::from(has_looked);
            if has_looked {
                taken += gap.min(LONGEST);
            }
            if !looks_on {
                taken += 2 * sleep;
            }
            now += gap;
            patience.busy(|| now, LONGEST);
        }
        let sleeping = (work + 2 * sleep) * times;
        (taken.as_secs_f64() / sleeping.as_secs_f64(), looks)
    }

    #[test]
    fn looks_cost_at_most_half_as_much_again_as_sleeping() {
        let micros = Duration::from_micros;
        for work in [1, 10, 50, 200] {
            for gap in [5, 20, 45, 100, 250, 299, 1000] {
                for sleep in [2, 10, 30] {
                    let (price, _) = price(micros(work), micros(gap), micros(sleep), 10_000);
                    assert!(price <= 1.52, "{work} {gap} {sleep}: {price}");
                }
            }
        }
    }

    #[test]
    fn a_lone_short_operation_is_always_looked_for() {
        let micros = Duration::from_micros;
        let (_, looks) = price(micros(12), micros(20), micros(10), 1000);
        assert!(looks >= 990, "{looks}");
        // A client that pauses: a look for each would cost a core.
        let (_, looks) = price(micros(15), micros(250), micros(10), 1000);
        assert!((20..200).contains(&looks), "{looks}");
    }

    #[test]
    fn the_price_of_a_sleep_follows_what_sleeps_took() {
        let mut price = SleepPrice::default();
        (0..100).for_each(|_| price.took(Duration::from_micros(4)));
        assert!(price.now() < Duration::from_micros(5));
        price.took(Duration::from_secs(1));
        assert!(price.now() <= Duration::from_micros(10));
        let mut price = SleepPrice::default();
        for _ in 1..SLEEPS_MEASURED {
            price.sleep_begins();
            price.sleep_ended();
            assert_eq!(price.average, None);
        }
        price.sleep_begins();
        assert!(price.began.is_some());
        price.sleep_ended();
        assert!(price.began.is_none() && price.average.is_some());
    }

    #[test]
    fn one_look_of_an_hour_does_not_end_all_looks() {
        let micros = Duration::from_micros;
        let (patience, mut now) = (&mut Patience::default(), Instant::now());
        let mut waits = |patience: &mut Patience, gap: Duration, times: usize| {
            let waits = (0..times).map(|_| {
                now += micros(12);
                let has_looked = patience.idle(now, LONGEST);
                now += gap;
                patience.busy(|| now, LONGEST);
                has_looked
            });
            waits.filter(|has_looked| *has_looked).count()
        };
        assert!(waits(patience, SOON, 100) > 80);
        assert_eq!(waits(patience, Duration::from_secs(3600), 1), 1);
        waits(patience, SOON, 200);
        assert!(waits(patience, SOON, 100) > 90);
    }

    /// A core to which an event comes `gap` after it runs out of work, `times` times; returns how often it looked, and
    /// how often without an event.
    fn wait(patience: &mut Patience, gap: Duration, times: usize) -> (usize, usize) {
        let (mut looked, mut in_vain) = (0, 0);
        let start = Instant::now();
        for _ in 0..times {
            if patience.idle(start, LONGEST) {
                looked += 1;
                in_vain += usize::from(!patience.idle(start + gap, LONGEST));
            }
            patience.busy(|| start + gap, LONGEST);
        }
        (looked, in_vain)
    }

    #[test]
    fn a_core_whose_events_come_soon_polls() {
        let patience = &mut patient();
        assert_eq!(wait(patience, SOON, POINTS_TO_LOOK as usize), (0, 0));
        assert_eq!(wait(patience, SOON, 100), (100, 0));
    }

    #[test]
    fn a_core_whose_events_are_rare_sleeps() {
        let patience = &mut patient();
        wait(patience, SOON, 100);
        wait(patience, LONGEST / 2, 100);
        let (looked, in_vain) = wait(patience, LONGEST * 100, 1000);
        assert!(looked <= 6 && looked == in_vain, "{looked} {in_vain}");
    }

    #[test]
    fn answers_of_a_disk_are_looked_for_between_short_ones() {
        let patience = &mut patient();
        for _ in 0..POINTS_TO_LOOK {
            wait(patience, LONGEST / 2, 1);
            wait(patience, SOON, 1);
        }
        assert_eq!(wait(patience, LONGEST / 2, 100), (100, 0));
        assert_eq!(wait(patience, SOON, 100), (100, 0));
    }

    #[test]
    fn short_waits_teach_no_long_looks() {
        let patience = &mut patient();
        wait(patience, SOON, 1000);
        assert!(patience.idle(Instant::now(), LONGEST));
        assert!(!patience.idle(Instant::now() + SHORT, LONGEST));
    }

    #[test]
    fn events_that_a_short_look_misses_are_found_by_a_long_one() {
        for gap in [60, 80, 100, 150, 290] {
            let patience = &mut patient();
            wait(patience, SOON, 100);
            wait(patience, Duration::from_micros(gap), 100);
            let (looked, in_vain) = wait(patience, Duration::from_micros(gap), 100);
            assert_eq!((looked, in_vain), (100, 0), "{gap} us");
        }
    }

    #[test]
    fn a_short_limit_has_one_look() {
        let (patience, longest) = (&mut patient(), SHORT);
        let start = Instant::now();
        for gap in [99, 99, 99, 99, 99, 99, 99, 99, 20] {
            patience.idle(start, longest);
            patience.busy(|| start + Duration::from_micros(gap), longest);
        }
        assert!(patience.idle(start, longest));
        assert!(!patience.idle(start + longest, longest));
    }

    #[test]
    fn events_that_come_a_little_too_late_cost_a_look_one_time_in_five() {
        let patience = &mut patient();
        let (looked, in_vain) = wait(patience, LONGEST + SOON, 1000);
        assert!((100..=250).contains(&looked), "{looked}");
        assert_eq!(looked, in_vain);
    }

    #[derive(Default)]
    struct Queue(std::cell::Cell<usize>);

    impl EventSource for Queue {
        fn look(&self) {
            self.0.update(|looks| looks + 1);
        }
    }

    #[test]
    fn sources_are_looked_at_until_they_are_gone() {
        let (core, kept, gone) = (
            Core::default(),
            Rc::<Queue>::default(),
            Rc::<Queue>::default(),
        );
        for queue in [&kept, &gone] {
            let queue: Rc<dyn EventSource> = Rc::<Queue>::clone(queue);
            core.sources.borrow_mut().push(Rc::downgrade(&queue));
        }
        core.look_at_sources();
        drop(gone);
        core.look_at_sources();
        assert_eq!((kept.0.get(), core.sources.borrow().len()), (2, 1));
    }

    #[test]
    fn work_that_takes_long_is_no_wait() {
        let patience = &mut patient();
        wait(patience, SOON, 100);
        let start = Instant::now();
        patience.busy(|| start, LONGEST);
        patience.busy(|| start + LONGEST * 1000, LONGEST);
        assert_eq!(patience.short, POINTS_MAX);
    }
}
