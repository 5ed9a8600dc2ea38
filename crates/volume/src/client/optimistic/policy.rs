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
//! **The bound of its cost.** Stale accesses are a debt in time, which successful ones pay off, down to 0. While the
//! policy makes calls, their durations must pay [`REPAY`] times the debt before it probes again. Over any run, the
//! lost time is at most the sum of two parts:
//!
//! - 1/32 of the time of the calls;
//! - the loss since the last switch: a window of stale accesses and those that were under way.

use gannet_runtime::Instant;
use std::ops::Add;
use std::time::Duration;

/// Most outcomes in the window: the bits of a word.
const WINDOW_MAX: u32 = u64::BITS;
/// The durations of calls that pay for one lost duration.
const REPAY: u64 = 32;
/// The divisor of the share that a new duration has in a mean.
const WEIGHT: u64 = 8;
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

/// A mean of durations in which later ones weigh more.
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
    /// Calls until `until`, and until the debt is paid off.
    Off {
        until: Instant,
    },
    /// A few accesses are tried. If their outcomes have not come by `until`, some are tried again.
    Probing {
        left: u32,
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
    call: Mean,
    optimistic: Mean,
    stale: Mean,
    /// Nanoseconds lost, and neither won back nor paid for. While off, in nanoseconds of calls.
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
            call: Mean::default(),
            optimistic: Mean::default(),
            stale: Mean::default(),
            debt: 0,
            hit_permille: None,
            counters: PolicyCounters::default(),
        }
    }

    /// The way of the next access. While the policy probes, the caller must follow [`ReadPath::Optimistic`], because
    /// the policy counts those accesses.
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

    /// Whether optimistic accesses are the rule.
    pub fn is_on(&self) -> bool {
        matches!(self.state, State::On)
    }

    /// Notes the duration of a call (T1). Calls that waited for a disk should be left out where the server reports
    /// that: a reference would not have avoided the wait.
    pub fn call_took(&mut self, duration: Duration) {
        self.call.add(duration);
        if let State::Off { .. } = self.state {
            self.debt = self.debt.saturating_sub(nanos(duration));
        }
    }

    /// Notes the duration of a successful optimistic read (T2).
    pub fn optimistic_took(&mut self, duration: Duration, now: Instant) {
        self.optimistic.add(duration);
        if let Some(call) = self.call.get() {
            let (call, own) = (nanos(call), nanos(duration));
            let lost = self.debt.saturating_add(own.saturating_sub(call));
            self.debt = lost.saturating_sub(call.saturating_sub(own));
        }
        self.outcome(false, now);
    }

    /// Notes the duration of a refused optimistic read (T_Stale). The call that follows is reported as any other.
    pub fn stale_took(&mut self, duration: Duration, now: Instant) {
        self.stale.add(duration);
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
        let stale = self.stale.get().unwrap_or_default().as_secs_f64();
        let cost = factor(self.outcomes.stale()) * stale;
        Some(if cost > 0.0 {
            benefit / cost
        } else {
            f64::INFINITY
        })
    }

    /// The durations of calls, optimistic reads and refused ones (T1, T2, T_Stale), as far as they were measured.
    pub fn durations(&self) -> [Option<Duration>; 3] {
        [self.call.get(), self.optimistic.get(), self.stale.get()]
    }

    /// The counters so far.
    pub fn counters(&self) -> PolicyCounters {
        self.counters
    }

    /// Seconds that an optimistic read saves; negative where it takes longer than a call.
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
            // The access was under way when the policy went off: the debt grows as for the earlier ones.
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

    /// Whether references to all blocks in the server's cache would save more time than they lose.
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
