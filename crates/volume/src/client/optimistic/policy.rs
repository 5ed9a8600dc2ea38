//! Whether the next access to a server is tried by a reference or made as a call (paper 003, section III-B).
//!
//! ```text
//! benefit     N_DirHit * (T1 - T2)
//! ------- = -----------------------
//!  cost      N_DirHitStale * T_Stale
//! ```
//!
//! Below 1 the policy makes calls, and the formula has no new numbers. The policy therefore probes again after a time
//! that doubles up to a bound. It probes earlier if the server reports that its cache serves nearly all reads. It
//! probes with a few accesses, and stays on if they were worth it.
//!
//! **Durations under a load.** With many accesses under way each waits for the others, so a duration says something
//! only beside another of the same load:
//!
//! - Durations of other loads are not compared. While too few are known, the policy stays on.
//! - While it is on it makes some calls now and then, and after each change of the load, to time them.
//! - Calls are timed among calls alone. Behind each change of the way, those accesses are not timed that the other
//!   way still delays.
//! - The median of the last durations counts, and of those that were under way together one. A process that loses its
//!   processor makes some a hundred times longer, whatever the way.
//!
//! **The bound of its cost.** Stale accesses are a debt in time, which successful ones pay off, down to 0. While the
//! policy makes calls, their durations must pay [`REPAY`] times the debt before it probes again. Over any run, the
//! lost time is at most the sum of two parts:
//!
//! - 1/32 of the time of the calls;
//! - the loss since the last switch: a window of stale accesses and those that were under way.
//!
//! While it is on, calls for timing come at most each [`PolicyOptions::interval_min`], and less often as time goes by.

use gannet_runtime::Instant;
use std::ops::Add;
use std::time::Duration;

/// Most outcomes in the window: the bits of a word.
const WINDOW_MAX: u32 = u64::BITS;
/// The durations of calls that pay for one lost duration.
const REPAY: u64 = 32;
/// The last durations of a way that count.
const TIMED: usize = 15;
/// Accesses that are timed behind a change of the way, at least.
const TIMED_MIN: u32 = 8;
/// An access that took so many times the usual duration counts as one that took this.
const OUTLIER: u64 = 4;
/// The whole of a hit rate in thousandths.
const ALL: u64 = 1000;
/// A hit rate that counts as high where durations are not known, in thousandths.
const HIGH_PERMILLE: u64 = 900;

/// The way of an access.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReadPath {
    /// A one-sided read with a reference, if there is one.
    Optimistic,
    /// A call.
    Call,
}

/// Settings of a policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PolicyOptions {
    /// The last outcomes that count; at most 64.
    pub window: u32,
    /// Outcomes before the first decision.
    pub outcomes_min: u32,
    /// Accesses of a probe after a time of calls.
    pub probes: u32,
    /// The first time of calls before a probe.
    pub interval_min: Duration,
    /// The longest time of calls before a probe.
    pub interval_max: Duration,
}

impl Default for PolicyOptions {
    fn default() -> PolicyOptions {
        PolicyOptions {
            window: WINDOW_MAX,
            outcomes_min: 8,
            probes: 4,
            interval_min: Duration::from_millis(100),
            interval_max: Duration::from_secs(30),
        }
    }
}

/// Counters of a policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PolicyCounters {
    /// Switches from optimistic accesses to calls.
    pub switches_off: u64,
    /// Switches back to optimistic accesses after successful probes.
    pub switches_on: u64,
    /// Probes.
    pub probings: u64,
    /// Probes that a server's hit rate caused.
    pub probings_by_hit_rate: u64,
}

impl Add for PolicyCounters {
    type Output = PolicyCounters;

    fn add(self, other: PolicyCounters) -> PolicyCounters {
        PolicyCounters {
            switches_off: self.switches_off + other.switches_off,
            switches_on: self.switches_on + other.switches_on,
            probings: self.probings + other.probings,
            probings_by_hit_rate: self.probings_by_hit_rate + other.probings_by_hit_rate,
        }
    }
}

/// The last durations of one way, all of them under about one load.
#[derive(Debug, Clone, Copy, Default)]
struct Durations {
    nanos: [u64; TIMED],
    len: usize,
    next: usize,
    class: u32,
}

impl Durations {
    fn add(&mut self, duration: Duration, class: u32) {
        if !self.is_of(class) {
            *self = Durations {
                class,
                ..Durations::default()
            };
        }
        if let Some(place) = self.nanos.get_mut(self.next) {
            *place = nanos(duration);
        }
        self.next = (self.next + 1) % TIMED;
        self.len = (self.len + 1).min(TIMED);
    }

    /// Whether they are of about this load, as far as there are any.
    fn is_of(&self, class: u32) -> bool {
        self.len > 0 && self.class.abs_diff(class) <= 1
    }

    /// The upper median.
    fn usual(&self) -> Option<Duration> {
        let mut nanos = self.nanos;
        let nanos = nanos.get_mut(..self.len)?;
        nanos.sort_unstable();
        nanos.get(self.len / 2).copied().map(Duration::from_nanos)
    }
}

/// The class of a load: accesses under way, to a factor of two.
fn class_of(load: u32) -> u32 {
    load.max(1).ilog2()
}

/// The last outcomes, a bit for each: 1 is stale.
#[derive(Debug, Clone, Copy, Default)]
struct Outcomes {
    bits: u64,
    len: u32,
}

impl Outcomes {
    fn push(&mut self, is_stale: bool, window: u32) {
        let all = u64::MAX >> (WINDOW_MAX - window);
        self.bits = ((self.bits << 1) | u64::from(is_stale)) & all;
        self.len = (self.len + 1).min(window);
    }

    fn stale(self) -> u64 {
        u64::from(self.bits.count_ones())
    }

    fn valid(self) -> u64 {
        u64::from(self.len) - self.stale()
    }
}

#[derive(Debug, Clone, Copy)]
enum State {
    On,
    /// On, but for so many calls that are to be timed.
    Timing {
        left: u32,
    },
    /// Calls until `until`, and until the debt is paid off.
    Off {
        until: Instant,
    },
    /// A few accesses are tried, of which so many have not begun and not ended. If their outcomes have not come by
    /// `until`, some are tried again.
    Probing {
        left: u32,
        open: u32,
        until: Instant,
    },
}

/// The policy for one server and one way of its calls.
///
/// The caller asks [`AdaptivePolicy::decide`] before each access for which it has a reference. It reports the duration
/// of every access, even if it did not follow the decision.
#[derive(Debug, Clone)]
pub struct AdaptivePolicy {
    options: PolicyOptions,
    state: State,
    interval: Duration,
    outcomes: Outcomes,
    call: Durations,
    optimistic: Durations,
    stale: Durations,
    /// Accesses under way at the client.
    load: u32,
    /// Accesses to come that are not timed.
    untimed: u32,
    /// The next time at which calls may be timed while the policy is on, and the time from there to the one behind it.
    timing_at: Option<Instant>,
    timing_interval: Duration,
    /// The last time at which a call was timed.
    timed_at: Option<Instant>,
    /// Nanoseconds lost, and neither won back nor paid for. While off, in nanoseconds of calls.
    debt: u64,
    /// The load for which it went off.
    off_class: u32,
    /// The last hit rate that the server reported since the policy went off.
    hit_permille: Option<u16>,
    counters: PolicyCounters,
}

impl Default for AdaptivePolicy {
    fn default() -> AdaptivePolicy {
        AdaptivePolicy::new(PolicyOptions::default())
    }
}

impl AdaptivePolicy {
    /// A policy without measurements, which is optimistic.
    pub fn new(options: PolicyOptions) -> AdaptivePolicy {
        let window = options.window.clamp(1, WINDOW_MAX);
        AdaptivePolicy {
            options: PolicyOptions {
                window,
                outcomes_min: options.outcomes_min.clamp(1, window),
                probes: options.probes.clamp(1, window),
                ..options
            },
            state: State::On,
            interval: options.interval_min,
            outcomes: Outcomes::default(),
            call: Durations::default(),
            optimistic: Durations::default(),
            stale: Durations::default(),
            load: 1,
            untimed: 0,
            timing_at: None,
            timing_interval: options.interval_min,
            timed_at: None,
            debt: 0,
            off_class: 0,
            hit_permille: None,
            counters: PolicyCounters::default(),
        }
    }

    /// Sets how many accesses the client has under way, for what follows.
    pub fn set_load(&mut self, load: u32) {
        self.load = load.max(1);
        self.untimed = self.untimed.min(self.delayed());
    }

    /// The way of the next access. While the policy probes, the caller must follow [`ReadPath::Optimistic`], because
    /// the policy counts those accesses.
    pub fn decide(&mut self, now: Instant) -> ReadPath {
        if matches!(self.state, State::On) && self.must_time_calls(now) {
            self.state = State::Timing { left: self.timed() };
            self.call = Durations::default();
            self.change_way();
        }
        self.note_load_while_off(now);
        match &mut self.state {
            State::On => ReadPath::Optimistic,
            State::Timing { left: 0 } => {
                self.state = State::On;
                self.change_way();
                ReadPath::Optimistic
            }
            State::Timing { left } => {
                *left -= 1;
                ReadPath::Call
            }
            State::Probing { left, .. } if *left > 0 => {
                *left -= 1;
                ReadPath::Optimistic
            }
            // The probes' outcomes were lost with their connection.
            State::Probing { until, .. } if *until <= now => self.probe(now),
            State::Off { until } if self.debt == 0 => {
                if *until <= now {
                    return self.probe(now);
                }
                if self.hit_rate_is_high() {
                    self.counters.probings_by_hit_rate += 1;
                    return self.probe(now);
                }
                ReadPath::Call
            }
            State::Probing { .. } | State::Off { .. } => ReadPath::Call,
        }
    }

    /// Whether calls have to be timed again, now that none is made otherwise; notes that it is done.
    fn must_time_calls(&mut self, now: Instant) -> bool {
        let is_of_load = self.call.is_of(class_of(self.load));
        if !is_of_load {
            self.timing_interval = self.options.interval_min;
        }
        // The load may have changed since the last one was set.
        let latest = now + self.timing_interval;
        let due = self.timing_at.map_or(latest, |at| at.min(latest));
        self.timing_at = Some(due);
        if now < due {
            return false;
        }
        let interval = self.timing_interval;
        let is_recent = self.timed_at.is_some_and(|at| at + interval > now);
        self.timing_interval = (interval * 2).min(self.options.interval_max);
        self.timing_at = Some(now + self.timing_interval);
        !(is_of_load && is_recent)
    }

    /// Ends a long time of calls early if they were made for another load.
    fn note_load_while_off(&mut self, now: Instant) {
        let class = class_of(self.load);
        if let State::Off { until } = &mut self.state
            && self.off_class.abs_diff(class) > 1
        {
            (self.off_class, self.interval) = (class, self.options.interval_min);
            *until = (*until).min(now + self.interval);
        }
    }

    /// Accesses of another way, so that some of them are timed.
    fn timed(&self) -> u32 {
        self.delayed() + self.load.saturating_mul(TIMED_MIN)
    }

    /// Accesses that the way before delays: those that are under way, and those that begin beside them.
    fn delayed(&self) -> u32 {
        if self.is_lone() {
            0
        } else {
            self.load.saturating_mul(2)
        }
    }

    /// Whether accesses come one by one, so that none is delayed by another.
    fn is_lone(&self) -> bool {
        self.load <= 1
    }

    fn change_way(&mut self) {
        self.untimed = self.delayed();
    }

    /// Whether the duration of an access that ends now counts. Of those that were under way together one does: what
    /// held up one of them held up all.
    fn is_timed(&mut self) -> bool {
        let is_timed = self.untimed == 0;
        self.untimed = match is_timed {
            true => self.load - 1,
            false => self.untimed - 1,
        };
        is_timed
    }

    /// Whether optimistic accesses are the rule.
    pub fn is_on(&self) -> bool {
        matches!(self.state, State::On | State::Timing { .. })
    }

    /// Notes the duration of a call (T1). Calls that waited for a disk should be left out where the server reports
    /// that: a reference would not have avoided the wait.
    pub fn call_took(&mut self, duration: Duration, now: Instant) {
        let among_calls = matches!(self.state, State::Off { .. } | State::Timing { .. });
        if self.is_timed() && (among_calls || self.is_lone()) {
            self.call.add(duration, class_of(self.load));
            self.timed_at = Some(now);
        }
        if let State::Off { .. } = self.state {
            self.debt = self.debt.saturating_sub(nanos(duration));
        }
    }

    /// Notes the duration of a successful optimistic read (T2).
    pub fn optimistic_took(&mut self, duration: Duration, now: Instant) {
        if self.is_timed() {
            self.optimistic.add(duration, class_of(self.load));
        }
        if let (Some(call), Some(usual)) = (self.call.usual(), self.optimistic.usual()) {
            // A call would have been as long now and then.
            let own = nanos(duration).min(nanos(usual).saturating_mul(OUTLIER));
            let call = nanos(call);
            let lost = self.debt.saturating_add(own.saturating_sub(call));
            self.debt = lost.saturating_sub(call.saturating_sub(own));
        }
        self.outcome(false, now);
    }

    /// Notes the duration of a refused optimistic read (T_Stale). The call that follows is reported as any other.
    pub fn stale_took(&mut self, duration: Duration, now: Instant) {
        self.is_timed();
        self.stale.add(duration, class_of(self.load));
        self.debt = self.debt.saturating_add(nanos(duration));
        self.outcome(true, now);
    }

    /// Notes that the server has lately answered `permille` of a thousand reads from its cache.
    pub fn server_hit_rate(&mut self, permille: u16) {
        self.hit_permille = Some(permille);
    }

    /// The paper's ratio of benefit to cost for the accesses in the window. It is infinite if none was stale, and
    /// `None` while too little is known, which is no reason to stop.
    pub fn benefit_over_cost(&self) -> Option<f64> {
        let Outcomes { len, .. } = self.outcomes;
        if len == 0 || (self.outcomes.valid() > 0 && self.saved().is_none()) {
            return None;
        }
        let benefit = factor(self.outcomes.valid()) * self.saved().unwrap_or(0.0);
        if benefit <= 0.0 {
            return Some(0.0);
        }
        let stale = self.stale.usual().unwrap_or_default().as_secs_f64();
        let cost = factor(self.outcomes.stale()) * stale;
        Some(if cost > 0.0 {
            benefit / cost
        } else {
            f64::INFINITY
        })
    }

    /// The usual durations of calls, optimistic reads and refused ones (T1, T2, T_Stale), as far as they were measured.
    pub fn durations(&self) -> [Option<Duration>; 3] {
        [&self.call, &self.optimistic, &self.stale].map(Durations::usual)
    }

    /// The counters so far.
    pub fn counters(&self) -> PolicyCounters {
        self.counters
    }

    /// Seconds that an optimistic read saves; negative where it takes longer than a call. `None` while the durations of
    /// both under one load are not known.
    fn saved(&self) -> Option<f64> {
        if !self.call.is_of(self.optimistic.class) {
            return None;
        }
        Some(self.call.usual()?.as_secs_f64() - self.optimistic.usual()?.as_secs_f64())
    }

    fn probe(&mut self, now: Instant) -> ReadPath {
        self.counters.probings += 1;
        self.outcomes = Outcomes::default();
        self.optimistic = Durations::default();
        self.change_way();
        let probes = if self.is_lone() {
            self.options.probes
        } else {
            self.timed()
        };
        self.state = State::Probing {
            left: probes - 1,
            open: probes,
            until: now + self.options.interval_min,
        };
        ReadPath::Optimistic
    }

    fn outcome(&mut self, is_stale: bool, now: Instant) {
        if let State::Off { .. } = self.state {
            // The access was under way when the policy went off: the debt grows as for the earlier ones.
            if is_stale {
                let last = self.stale.usual().map_or(0, nanos);
                self.debt = self.debt.saturating_add(last.saturating_mul(REPAY - 1));
            }
            return;
        }
        self.outcomes.push(is_stale, self.options.window);
        let are_all_stale = self.outcomes.valid() == 0 && self.outcomes.len >= self.options.probes;
        if let State::Probing { open, .. } = &mut self.state {
            *open = open.saturating_sub(1);
        }
        match self.state {
            State::Probing { open, .. } if open == 0 || are_all_stale => {
                if self.is_worth_it() {
                    self.counters.switches_on += 1;
                    self.interval = self.options.interval_min;
                    self.state = State::On;
                    self.change_way();
                } else {
                    self.interval = (self.interval * 2).min(self.options.interval_max);
                    self.go_off(now);
                }
            }
            State::On | State::Timing { .. }
                if self.outcomes.len >= self.options.outcomes_min && !self.is_worth_it() =>
            {
                self.counters.switches_off += 1;
                self.go_off(now);
            }
            _ => {}
        }
    }

    fn is_worth_it(&self) -> bool {
        self.benefit_over_cost().is_none_or(|ratio| ratio >= 1.0)
    }

    fn go_off(&mut self, now: Instant) {
        self.debt = self.debt.saturating_mul(REPAY);
        self.hit_permille = None;
        self.timing_interval = self.options.interval_min;
        self.timing_at = None;
        self.off_class = class_of(self.load);
        self.change_way();
        self.state = State::Off {
            until: now + self.interval,
        };
    }

    /// Whether references to all blocks in the server's cache would save more time than they lose.
    fn hit_rate_is_high(&self) -> bool {
        let Some(hits) = self.hit_permille.map(u64::from) else {
            return false;
        };
        match (self.saved(), self.stale.usual()) {
            (Some(saved), Some(stale)) => {
                let misses = ALL.saturating_sub(hits);
                factor(hits) * saved > factor(misses) * stale.as_secs_f64()
            }
            _ => hits >= HIGH_PERMILLE,
        }
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// A small count as a factor.
#[allow(clippy::cast_precision_loss)] // far below 2^52
fn factor(count: u64) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests;
