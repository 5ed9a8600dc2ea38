//! Counters of registration strategies.

use crate::Region;
use gannet_runtime::stages::{self, Stage};
use gannet_runtime::{Handle, Instant};
use std::cell::Cell;
use std::iter::Sum;
use std::ops::Add;
use std::rc::Rc;
use std::time::Duration;

/// Counters of a strategy, since its start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counters {
    /// Uses that made a registration.
    pub registrations: u64,
    /// Uses that found one.
    pub hits: u64,
    /// Uses that the strategy could not serve its own way and registered dynamically (counted above too).
    pub fallbacks: u64,
    /// Registrations that this end revoked.
    pub deregistrations: u64,
    /// Registrations that the peer's invalidation ended.
    pub invalidated_by_peer: u64,
    /// Registrations that the provider failed to revoke: it keeps their memory for good.
    pub lost: u64,
    /// Times that several were revoked together.
    pub batches: u64,
    /// Uses now: registered and not released.
    pub in_use: u64,
    /// Bytes of the registrations of now, in use or kept.
    pub bytes: u64,
    /// The most that [`Counters::bytes`] ever was.
    pub bytes_peak: u64,
    /// Time spent registering.
    pub register_time: Duration,
    /// Time spent revoking.
    pub deregister_time: Duration,
    /// Bytes copied between application memory and slabs.
    pub copied_bytes: u64,
    /// Time spent copying them.
    pub copy_time: Duration,
    /// Keys that were valid after their memory was released.
    pub exposures: u64,
    /// The longest time of one. On hardware the peer could reach the memory for as long.
    pub longest_exposure: Duration,
}

impl Counters {
    /// Uses served by a registration that was there already, from 0 to 1.
    pub fn hit_rate(&self) -> f64 {
        let uses = self.hits + self.registrations;
        if uses == 0 {
            return 0.0;
        }
        #[allow(clippy::cast_precision_loss)] // a rate
        {
            self.hits as f64 / uses as f64
        }
    }
}

impl Add for Counters {
    type Output = Counters;

    /// The sum over two strategies. The peak is the sum of both peaks: an upper bound of what they had at a time.
    fn add(self, other: Counters) -> Counters {
        Counters {
            registrations: self.registrations + other.registrations,
            hits: self.hits + other.hits,
            fallbacks: self.fallbacks + other.fallbacks,
            deregistrations: self.deregistrations + other.deregistrations,
            invalidated_by_peer: self.invalidated_by_peer + other.invalidated_by_peer,
            lost: self.lost + other.lost,
            batches: self.batches + other.batches,
            in_use: self.in_use + other.in_use,
            bytes: self.bytes + other.bytes,
            bytes_peak: self.bytes_peak + other.bytes_peak,
            register_time: self.register_time + other.register_time,
            deregister_time: self.deregister_time + other.deregister_time,
            copied_bytes: self.copied_bytes + other.copied_bytes,
            copy_time: self.copy_time + other.copy_time,
            exposures: self.exposures + other.exposures,
            longest_exposure: self.longest_exposure.max(other.longest_exposure),
        }
    }
}

impl Sum for Counters {
    fn sum<I: Iterator<Item = Counters>>(counters: I) -> Counters {
        counters.fold(Counters::default(), Counters::add)
    }
}

/// The running counters of a strategy; clones share them.
#[derive(Clone)]
pub(super) struct Meter(Rc<MeterState>);

struct MeterState {
    runtime: Handle,
    counters: Cell<Counters>,
}

impl Meter {
    pub(super) fn new(runtime: Handle) -> Meter {
        Meter(Rc::new(MeterState {
            runtime,
            counters: Cell::default(),
        }))
    }

    pub(super) fn now(&self) -> Instant {
        self.0.runtime.now()
    }

    pub(super) fn since(&self, start: Instant) -> Duration {
        self.0.runtime.now().duration_since(start)
    }

    pub(super) fn get(&self) -> Counters {
        self.0.counters.get()
    }

    pub(super) fn update(&self, change: impl FnOnce(&mut Counters)) {
        let mut counters = self.0.counters.get();
        change(&mut counters);
        self.0.counters.set(counters);
    }

    /// Counts a registration of `len` bytes, which began at `start` and ends now.
    pub(super) fn registered(&self, len: usize, start: Instant) {
        let took = self.since(start);
        stages::took(Stage::Registration, took);
        self.update(|counters| {
            counters.registrations += 1;
            counters.register_time += took;
            counters.bytes += len as u64;
            counters.bytes_peak = counters.bytes_peak.max(counters.bytes);
        });
    }

    /// Counts the end of a registration of `len` bytes, whose revocation began at `start`; `was_valid` is false if the
    /// peer had revoked it before.
    pub(super) fn deregistered(&self, len: usize, was_valid: bool, start: Instant) {
        let took = self.since(start);
        stages::took(Stage::Registration, took);
        self.update(|counters| {
            if was_valid {
                counters.deregistrations += 1;
            } else {
                counters.invalidated_by_peer += 1;
            }
            counters.deregister_time += took;
            counters.bytes -= len as u64;
        });
    }

    /// Ends a registration whose memory is with its user, and counts that. The revocation goes on by itself.
    pub(super) fn forget(&self, region: &Region) {
        let (start, was_valid) = (self.now(), region.is_valid());
        drop(region.invalidate());
        // The length of a buffer, which fits `usize`.
        let len = usize::try_from(region.len()).unwrap_or(0);
        self.deregistered(len, was_valid, start);
    }
}

#[cfg(test)]
mod tests {
    use super::super::{NotTrusted, Registration, StrategyKind, Trust};

    #[test]
    fn one_key_to_everything_takes_trust() {
        let all = StrategyKind::AllPhysical;
        assert_eq!(Registration::new(all, Trust::Untrusted), Err(NotTrusted));
        assert!(Registration::new(all, Trust::Trusted).is_ok());
        for kind in StrategyKind::ALL.into_iter().filter(|kind| *kind != all) {
            assert!(Registration::new(kind, Trust::Untrusted).is_ok());
            assert_eq!(kind.name().parse(), Ok(kind));
        }
        assert!("fastest".parse::<StrategyKind>().is_err());
    }
}
