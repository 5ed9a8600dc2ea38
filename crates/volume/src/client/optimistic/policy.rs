//! Whether the next access to a server is tried by a reference or made as a call (paper 003, section III-B).
//!
//! ```text
//! benefit     N_DirHit * (T1 - T2)
//! ------- = -----------------------
//!  cost      N_DirHitStale * T_Stale
//! ```
//!
//! Below 1 the policy makes calls. Then the formula has no more numbers, so the policy comes back by itself after a
//! time that doubles up to a bound, or earlier when the server says that its cache serves nearly all; it comes back
//! with a few accesses, and stays if they were worth it.
//!
//! **What it can cost.** Stale accesses are a debt, which accesses that succeed pay off, down to 0. While the policy
//! makes calls, their durations pay [`REPAY`] times the debt before anything is tried again. So over any run the time
//! lost is at most 1/32 of the time of the calls, and what was lost since the last switch: a window of stale accesses
//! and those that were under way.

use gannet_runtime::Instant;
use std::ops::Add;
use std::time::Duration;

/// Outcomes in the window at most: a word of bits.
const WINDOW_MAX: u32 = u64::BITS;
/// Durations of calls that pay for a lost duration.
const REPAY: u64 = 32;
/// The share of a new duration in a mean, one over.
const WEIGHT: u64 = 8;
/// Of a hit rate in thousandths, all.
const ALL: u64 = 1000;
/// A hit rate that is high where durations are not known.
const HIGH_PERMILLE: u64 = 900;

/// How an access is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReadPath {
    /// By a one-sided read with a reference, if there is one.
    Optimistic,
    /// By a call.
    Call,
}

/// What a policy goes by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PolicyOptions {
    /// Outcomes that count, the last ones; at most 64.
    pub window: u32,
    /// Outcomes before anything is decided.
    pub outcomes_min: u32,
    /// Accesses that are tried after a time of calls.
    pub probes: u32,
    /// The first time of calls.
    pub interval_min: Duration,
    /// The longest one.
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

/// What a policy did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PolicyCounters {
    /// It gave up optimistic accesses.
    pub switches_off: u64,
    /// It took them up again for good, after probes.
    pub switches_on: u64,
    /// Times that it probed.
    pub probings: u64,
    /// Of these, those that a server's hit rate brought about.
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

/// A mean of durations, in which the last ones weigh more.
#[derive(Debug, Clone, Copy, Default)]
struct Mean {
    nanos: Option<u64>,
}

impl Mean {
    fn add(&mut self, duration: Duration) {
        let new = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        self.nanos = Some(match self.nanos {
            None => new,
            Some(mean) if new >= mean => mean + (new - mean) / WEIGHT,
            Some(mean) => mean - (mean - new) / WEIGHT,
        });
    }

    fn get(self) -> Option<Duration> {
        self.nanos.map(Duration::from_nanos)
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
    /// Calls until `until`, and until the debt is paid.
    Off {
        until: Instant,
    },
    /// A few accesses are tried; when their outcomes have not come by `until`, some are tried again.
    Probing {
        left: u32,
        until: Instant,
    },
}

/// Decides for one server and one way of its calls.
///
/// The caller asks [`AdaptivePolicy::decide`] before each access for which it has a reference, and reports how long
/// each access took, whoever decided it.
#[derive(Debug, Clone)]
pub struct AdaptivePolicy {
    options: PolicyOptions,
    state: State,
    interval: Duration,
    outcomes: Outcomes,
    call: Mean,
    optimistic: Mean,
    stale: Mean,
    /// Nanoseconds lost and not won back or paid for; in units of calls' durations while off.
    debt: u64,
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
    /// A policy that knows nothing, and is optimistic.
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
            call: Mean::default(),
            optimistic: Mean::default(),
            stale: Mean::default(),
            debt: 0,
            hit_permille: None,
            counters: PolicyCounters::default(),
        }
    }

    /// The way of the next access. [`ReadPath::Optimistic`] must be followed by such an access while the policy is
    /// probing: it counts them.
    pub fn decide(&mut self, now: Instant) -> ReadPath {
        match &mut self.state {
            State::On => ReadPath::Optimistic,
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

    /// True while optimistic accesses are the rule.
    pub fn is_on(&self) -> bool {
        matches!(self.state, State::On)
    }

    /// A call took so long (T1). Calls that a disk made wait should be left out where the server says so: a reference
    /// would not have spared them.
    pub fn call_took(&mut self, duration: Duration) {
        self.call.add(duration);
        if let State::Off { .. } = self.state {
            self.debt = self.debt.saturating_sub(nanos(duration));
        }
    }

    /// An optimistic read brought its bytes in so long (T2).
    pub fn optimistic_took(&mut self, duration: Duration, now: Instant) {
        self.optimistic.add(duration);
        if let Some(call) = self.call.get() {
            let (call, own) = (nanos(call), nanos(duration));
            let lost = self.debt.saturating_add(own.saturating_sub(call));
            self.debt = lost.saturating_sub(call.saturating_sub(own));
        }
        self.outcome(false, now);
    }

    /// An optimistic read was refused after so long (T_Stale); the call that follows is reported as any other.
    pub fn stale_took(&mut self, duration: Duration, now: Instant) {
        self.stale.add(duration);
        self.debt = self.debt.saturating_add(nanos(duration));
        self.outcome(true, now);
    }

    /// A reply said how many of a thousand reads the server has answered from its cache of late.
    pub fn server_hit_rate(&mut self, permille: u16) {
        self.hit_permille = Some(permille);
    }

    /// The paper's benefit over cost for the accesses in the window. Infinite where nothing was stale; `None` while
    /// too little is known, which is no reason to stop.
    pub fn benefit_over_cost(&self) -> Option<f64> {
        let Outcomes { len, .. } = self.outcomes;
        if len == 0 || (self.outcomes.valid() > 0 && self.saved().is_none()) {
            return None;
        }
        let benefit = factor(self.outcomes.valid()) * self.saved().unwrap_or(0.0);
        if benefit <= 0.0 {
            return Some(0.0);
        }
        let stale = self.stale.get().unwrap_or_default().as_secs_f64();
        let cost = factor(self.outcomes.stale()) * stale;
        Some(if cost > 0.0 {
            benefit / cost
        } else {
            f64::INFINITY
        })
    }

    /// What calls, optimistic reads and refused ones take (T1, T2, T_Stale), as far as they were measured.
    pub fn durations(&self) -> [Option<Duration>; 3] {
        [self.call.get(), self.optimistic.get(), self.stale.get()]
    }

    /// What it did so far.
    pub fn counters(&self) -> PolicyCounters {
        self.counters
    }

    /// Seconds that an optimistic read saves; negative where it costs more than a call.
    fn saved(&self) -> Option<f64> {
        Some(self.call.get()?.as_secs_f64() - self.optimistic.get()?.as_secs_f64())
    }

    fn probe(&mut self, now: Instant) -> ReadPath {
        self.counters.probings += 1;
        self.outcomes = Outcomes::default();
        self.state = State::Probing {
            left: self.options.probes - 1,
            until: now + self.options.interval_min,
        };
        ReadPath::Optimistic
    }

    fn outcome(&mut self, is_stale: bool, now: Instant) {
        if let State::Off { .. } = self.state {
            // Of an access that was under way when the policy went off: it is paid for as the others are.
            if is_stale {
                let last = self.stale.get().map_or(0, nanos);
                self.debt = self.debt.saturating_add(last.saturating_mul(REPAY - 1));
            }
            return;
        }
        self.outcomes.push(is_stale, self.options.window);
        let is_worth_it = self.benefit_over_cost().is_none_or(|ratio| ratio >= 1.0);
        match self.state {
            State::Probing { .. } if self.outcomes.len >= self.options.probes => {
                if is_worth_it {
                    self.counters.switches_on += 1;
                    self.interval = self.options.interval_min;
                    self.state = State::On;
                } else {
                    self.interval = (self.interval * 2).min(self.options.interval_max);
                    self.go_off(now);
                }
            }
            State::On if self.outcomes.len >= self.options.outcomes_min && !is_worth_it => {
                self.counters.switches_off += 1;
                self.go_off(now);
            }
            _ => {}
        }
    }

    fn go_off(&mut self, now: Instant) {
        self.debt = self.debt.saturating_mul(REPAY);
        self.hit_permille = None;
        self.state = State::Off {
            until: now + self.interval,
        };
    }

    /// True where references to all that the server has in its cache would be worth more than they cost.
    fn hit_rate_is_high(&self) -> bool {
        let Some(hits) = self.hit_permille.map(u64::from) else {
            return false;
        };
        match (self.saved(), self.stale.get()) {
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
