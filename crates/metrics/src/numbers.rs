//! Numbers that cores update and other threads read. Updates are relaxed: readers need no order between numbers.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// One number that only grows.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds `count`.
    pub fn add(&self, count: u64) {
        self.0.fetch_add(count, Ordering::Relaxed);
    }

    /// The sum so far.
    pub fn total(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// A number that rises and falls, with its peak.
#[derive(Debug, Default)]
pub struct Gauge {
    now: AtomicU64,
    peak: AtomicU64,
}

impl Gauge {
    /// Adds `count`.
    pub fn raise(&self, count: u64) {
        let now = self.now.fetch_add(count, Ordering::Relaxed) + count;
        self.peak.fetch_max(now, Ordering::Relaxed);
    }

    /// Takes `count` away.
    pub fn lower(&self, count: u64) {
        self.now.fetch_sub(count, Ordering::Relaxed);
    }

    /// Makes `count` the present value.
    pub fn set(&self, count: u64) {
        self.now.store(count, Ordering::Relaxed);
        self.peak.fetch_max(count, Ordering::Relaxed);
    }

    /// The present value.
    pub fn now(&self) -> u64 {
        self.now.load(Ordering::Relaxed)
    }

    /// The largest value so far.
    pub fn peak(&self) -> u64 {
        self.peak.load(Ordering::Relaxed)
    }
}

/// Upper bounds of the buckets of a [`Latency`]: powers of two from 1 us to 16.8 s. One more bucket has what took
/// longer.
pub const LATENCY_BOUNDS: usize = 25;

/// How long things took: how many took up to each bound, and the sum of all.
#[derive(Debug, Default)]
pub struct Latency {
    buckets: [AtomicU64; LATENCY_BOUNDS + 1],
    sum_ns: AtomicU64,
}

impl Latency {
    /// Adds one that took `time`.
    pub fn add(&self, time: Duration) {
        let nanoseconds = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        // The least n with time <= 2^n us.
        let microseconds = nanoseconds.div_ceil(1000).max(1);
        let bound = microseconds.next_power_of_two().trailing_zeros() as usize;
        if let Some(bucket) = self.buckets.get(bound.min(LATENCY_BOUNDS)) {
            bucket.fetch_add(1, Ordering::Relaxed);
        }
        self.sum_ns.fetch_add(nanoseconds, Ordering::Relaxed);
    }

    /// Its present counts.
    pub fn read(&self) -> LatencyReading {
        let bucket = |index: usize| {
            let bucket = self.buckets.get(index);
            bucket.map_or(0, |count| count.load(Ordering::Relaxed))
        };
        LatencyReading {
            buckets: std::array::from_fn(bucket),
            sum: Duration::from_nanos(self.sum_ns.load(Ordering::Relaxed)),
        }
    }
}

/// A [`Latency`] at one time, or the sum of several.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LatencyReading {
    /// How many took more than the bound before and up to this one; the last has those beyond all bounds.
    pub buckets: [u64; LATENCY_BOUNDS + 1],
    /// The time of all together.
    pub sum: Duration,
}

impl LatencyReading {
    /// How many there were.
    pub fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }

    /// The bound of a bucket; `None` for the last, which has none.
    pub fn bound(index: usize) -> Option<Duration> {
        (index < LATENCY_BOUNDS).then(|| Duration::from_micros(1 << index))
    }

    /// The bound that a share of all did not exceed, from 0 to 1: at most twice their true quantile. `None` where
    /// nothing was counted, or the quantile is beyond all bounds.
    pub fn quantile(&self, share: f64) -> Option<Duration> {
        let mut left = share_of(self.count(), share);
        if self.count() == 0 {
            return None;
        }
        for (index, count) in self.buckets.iter().enumerate() {
            left = left.saturating_sub(*count);
            if left == 0 {
                return Self::bound(index);
            }
        }
        None
    }

    /// Adds another reading to this one.
    pub fn add(&mut self, other: &LatencyReading) {
        for (bucket, more) in self.buckets.iter_mut().zip(other.buckets) {
            *bucket += more;
        }
        self.sum += other.sum;
    }

    /// The counts added since an earlier reading of the same counters.
    #[must_use]
    pub fn since(&self, earlier: &LatencyReading) -> LatencyReading {
        let mut since = *self;
        for (bucket, less) in since.buckets.iter_mut().zip(earlier.buckets) {
            *bucket = bucket.saturating_sub(less);
        }
        since.sum = since.sum.saturating_sub(earlier.sum);
        since
    }
}

/// How many make up a share of `count`: at least one.
fn share_of(count: u64, share: f64) -> u64 {
    #[allow(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss
    )]
    let part = (count as f64 * share.clamp(0.0, 1.0)).ceil() as u64;
    part.clamp(1, count.max(1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_latency_is_counted_below_its_bound() {
        let latency = Latency::default();
        for (nanoseconds, bucket) in [
            (0, 0),
            (1000, 0),
            (1001, 1),
            (2000, 1),
            (2001, 2),
            (16_777_216_000, 24),
        ] {
            let before = latency.read();
            latency.add(Duration::from_nanos(nanoseconds));
            let since = latency.read().since(&before);
            assert_eq!(since.buckets[bucket], 1, "{nanoseconds} ns: {since:?}");
            assert_eq!(since.sum, Duration::from_nanos(nanoseconds));
        }
        latency.add(Duration::MAX);
        let reading = latency.read();
        assert_eq!(reading.buckets[LATENCY_BOUNDS], 1);
        assert_eq!(reading.count(), 7);
        assert_eq!(reading.quantile(1.0), None);
    }

    #[test]
    fn nothing_counted_has_no_quantile() {
        assert_eq!(LatencyReading::default().quantile(0.5), None);
    }

    proptest! {
        #[test]
        fn quantiles_are_at_most_twice_the_true_ones(
            mut times in prop::collection::vec(1_u64..16_000_000, 1..200),
            per_cent in 1_u32..=100,
        ) {
            let latency = Latency::default();
            times.iter().for_each(|time| latency.add(Duration::from_micros(*time)));
            times.sort_unstable();
            let rank = (times.len() * per_cent as usize).div_ceil(100);
            let exact = Duration::from_micros(times[rank - 1]);
            let found = latency.read().quantile(f64::from(per_cent) / 100.0).unwrap();
            // The rank in floating point may be one more.
            let next = Duration::from_micros(times[rank.min(times.len() - 1)]);
            prop_assert!(exact <= found && found < 2 * next.max(exact), "{exact:?} {found:?}");
        }
    }
}
