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
//! **Durations under a load.** With many accesses under way each waits for the others. So the duration of an access is
//! its share: the time divided by the accesses under way (Little's law). It says something only beside another of about
//! the same load:
//!
//! - Durations of other loads are not compared. While too few are known, the policy stays on unless most are stale.
//! - While it is on, it makes one call of [`TIMING_EVERY`] accesses to time it, many in a row.
//! - Calls are timed among calls alone. Behind each change of the way, those accesses are not timed that the other way
//!   still delays.
//! - The median of the last durations counts, and of those that were under way together one. A process that loses its
//!   processor makes some a hundred times longer, whatever the way.
//!
//! **The bound of its cost.** Stale accesses are a debt in time, which successful ones pay off, down to 0. While the
//! policy makes calls, their durations must pay [`REPAY`] times the debt before it probes again. Over any run, the
//! lost time is at most the sum of three parts:
//!
//! - 1/32 of the time of the calls;
//! - the loss since the last switch: a window of stale accesses and those that were under way;
//! - what one call of [`TIMING_EVERY`] accesses takes longer.

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
/// Accesses for one call that is made to time it.
const TIMING_EVERY: u32 = 128;
/// The parts of one access in a mean load.
const PARTS: u32 = 256;
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
    fn add(&mut self, nanos: u64, class: u32) {
        if !self.is_of(class) {
            *self = Durations {
                class,
                ..Durations::default()
            };
        }
        if let Some(place) = self.nanos.get_mut(self.next) {
            *place = nanos;
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
    /// Accesses under way at the client lately, in [`PARTS`].
    load: u32,
    /// Accesses to come that the way before delays.
    delayed: u32,
    /// Accesses to come that were under way with one that was timed.
    together: u32,
    /// Accesses since calls were timed in a row.
    untimed: u32,
    /// Calls that were timed meanwhile.
    timed: u32,
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
            load: PARTS,
            delayed: 0,
            together: 0,
            untimed: 0,
            timed: 0,
            debt: 0,
            off_class: 0,
            hit_permille: None,
            counters: PolicyCounters::default(),
        }
    }

    /// Sets how many accesses the client has under way, for what follows. A greater number counts at once. A smaller
    /// one counts little by little: a program that waits for all of its accesses has ever fewer under way.
    pub fn set_load(&mut self, load: u32) {
        let wanted = load.max(1).saturating_mul(PARTS);
        if wanted >= self.load {
            self.load = wanted;
            return;
        }
        let more = self.load - wanted;
        let step = u64::from(more) * u64::from(PARTS / 2) / u64::from(self.load);
        self.load -= u32::try_from(step).unwrap_or(more).clamp(1, more);
        let (delay, row) = (self.delay(), self.row());
        self.delayed = self.delayed.min(delay);
        self.together = self.together.min(self.load());
        match &mut self.state {
            State::Timing { left } => *left = (*left).min(row),
            State::Probing { left, open, .. } if *left > row => {
                *open = open.saturating_sub(*left - row);
                *left = row;
            }
            _ => {}
        }
    }

    /// Accesses under way lately.
    fn load(&self) -> u32 {
        ((self.load + PARTS / 2) / PARTS).max(1)
    }

    /// The load to a factor of two.
    fn class(&self) -> u32 {
        self.load().ilog2()
    }

    /// The share of an access in the time that it took, in nanoseconds.
    fn share(&self, duration: Duration) -> u64 {
        nanos(duration) / u64::from(self.load())
    }

    /// The way of the next access. While the policy probes, the caller must follow [`ReadPath::Optimistic`], because
    /// the policy counts those accesses.
    pub fn decide(&mut self, now: Instant) -> ReadPath {
        if matches!(self.state, State::On) && self.must_time_calls() {
            self.state = State::Timing { left: self.row() };
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

    /// Whether calls have to be timed in a row, now that none is made otherwise; counts an access.
    fn must_time_calls(&mut self) -> bool {
        self.untimed = self.untimed.saturating_add(1);
        if self.untimed < self.row().saturating_mul(TIMING_EVERY) {
            return false;
        }
        self.untimed = 0;
        let timed = std::mem::take(&mut self.timed);
        timed < TIMED_MIN || !self.call.is_of(self.class())
    }

    /// Ends a long time of calls early if they were made for another load.
    fn note_load_while_off(&mut self, now: Instant) {
        let class = self.class();
        if let State::Off { until } = &mut self.state
            && self.off_class.abs_diff(class) > 1
        {
            (self.off_class, self.interval) = (class, self.options.interval_min);
            *until = (*until).min(now + self.interval);
        }
    }

    /// Accesses of another way in a row, so that [`TIMED_MIN`] of them are timed.
    fn row(&self) -> u32 {
        self.delay() + self.load().saturating_mul(TIMED_MIN)
    }

    /// Accesses that the way before delays: those that are under way, and those that begin beside them.
    fn delay(&self) -> u32 {
        if self.is_lone() {
            0
        } else {
            self.load().saturating_mul(2)
        }
    }

    /// Whether accesses come one by one, so that none is delayed by another.
    fn is_lone(&self) -> bool {
        self.load() == 1
    }

    fn change_way(&mut self) {
        (self.delayed, self.together) = (self.delay(), 0);
        (self.untimed, self.timed) = (0, 0);
    }

    /// Whether the duration of an access that ends now counts. Of those that were under way together one does: what
    /// held up one of them held up all.
    fn is_timed(&mut self) -> bool {
        if self.delayed > 0 {
            self.delayed -= 1;
            return false;
        }
        if self.together > 0 {
            self.together -= 1;
            return false;
        }
        self.together = self.load() - 1;
        true
    }

    /// Whether optimistic accesses are the rule.
    pub fn is_on(&self) -> bool {
        matches!(self.state, State::On | State::Timing { .. })
    }

    /// Notes the duration of a call (T1). Calls that waited for a disk should be left out where the server reports
    /// that: a reference would not have avoided the wait.
    pub fn call_took(&mut self, duration: Duration) {
        let share = self.share(duration);
        let among_calls = matches!(self.state, State::Off { .. } | State::Timing { .. });
        if self.is_timed() && (among_calls || self.is_lone()) {
            self.call.add(share, self.class());
            self.timed = self.timed.saturating_add(1);
        }
        if let State::Off { .. } = self.state {
            self.debt = self.debt.saturating_sub(share);
        }
    }

    /// Notes the duration of a successful optimistic read (T2).
    pub fn optimistic_took(&mut self, duration: Duration, now: Instant) {
        let (share, class) = (self.share(duration), self.class());
        // The first one counts in any case: without any nothing can be decided.
        if self.is_timed() || (self.delayed == 0 && self.optimistic.len == 0) {
            self.optimistic.add(share, class);
        }
        let is_of_load = self.call.is_of(class) && self.optimistic.is_of(class);
        if let (true, Some(call), Some(usual)) =
            (is_of_load, self.call.usual(), self.optimistic.usual())
        {
            // A call would have been as long now and then.
            let own = share.min(nanos(usual).saturating_mul(OUTLIER));
            let call = nanos(call);
            let lost = self.debt.saturating_add(own.saturating_sub(call));
            self.debt = lost.saturating_sub(call.saturating_sub(own));
        }
        self.outcome(false, now);
    }

    /// Notes the duration of a refused optimistic read (T_Stale). The call that follows is reported as any other.
    pub fn stale_took(&mut self, duration: Duration, now: Instant) {
        let share = self.share(duration);
        self.is_timed();
        self.stale.add(share, self.class());
        self.debt = self.debt.saturating_add(share);
        self.outcome(true, now);
    }

    /// Notes that the server has lately answered `permille` of a thousand reads from its cache.
    pub fn server_hit_rate(&mut self, permille: u16) {
        self.hit_permille = Some(permille);
    }

    /// The paper's ratio of benefit to cost for the accesses in the window. It is infinite if none was stale, and
    /// `None` while too little is known, which is no reason to stop.
    pub fn benefit_over_cost(&self) -> Option<f64> {
        let (valid, stale) = (self.outcomes.valid(), self.outcomes.stale());
        let is_unknown = valid > 0 && self.saved().is_none();
        // Without durations, half of the accesses have to succeed: a success hardly saves more than a failure costs.
        if self.outcomes.len == 0 || (is_unknown && valid >= stale) {
            return None;
        }
        let benefit = factor(valid) * self.saved().unwrap_or(0.0);
        if benefit <= 0.0 {
            return Some(0.0);
        }
        let cost = factor(stale) * self.stale.usual().unwrap_or_default().as_secs_f64();
        Some(if cost > 0.0 {
            benefit / cost
        } else {
            f64::INFINITY
        })
    }

    /// The usual durations of calls, optimistic reads and refused ones (T1, T2, T_Stale), as far as they were measured:
    /// their shares, where several were under way.
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
            self.row()
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
        let (valid, stale, len) = (
            self.outcomes.valid(),
            self.outcomes.stale(),
            self.outcomes.len,
        );
        // A long probe ends before its end if it is clear that it fails.
        let has_failed = (valid == 0 && len >= self.options.probes)
            || (valid < stale && len >= self.options.window);
        if let State::Probing { open, .. } = &mut self.state {
            *open = open.saturating_sub(1);
        }
        match self.state {
            State::Probing { open, .. } if open == 0 || has_failed => {
                let says_something = stale == 0 || self.saved().is_some();
                if says_something && self.is_worth_it() {
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
        self.off_class = self.class();
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
