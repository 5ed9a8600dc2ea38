//! Time as protocol code sees it: nanoseconds since the runtime's own start.

use std::ops::{Add, AddAssign, Sub};
use std::time::Duration;

/// A point in time of one runtime, in nanoseconds since its start.
///
/// It is not the system's `Instant`, since the simulator makes its own. Values of two runtimes do not compare.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Instant(u64);

impl Instant {
    /// The start of the runtime.
    pub const START: Instant = Instant(0);

    /// The point `nanoseconds` after the start.
    pub const fn from_nanos(nanoseconds: u64) -> Instant {
        Instant(nanoseconds)
    }

    /// Nanoseconds since the start.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// The point `duration` before this one, or the start.
    pub fn before(self, duration: Duration) -> Instant {
        Instant(self.0.saturating_sub(nanos(duration)))
    }

    /// The time since `earlier`; zero when `earlier` is later than this.
    pub fn duration_since(self, earlier: Instant) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

impl Add<Duration> for Instant {
    type Output = Instant;
    fn add(self, duration: Duration) -> Instant {
        Instant(self.0.saturating_add(nanos(duration)))
    }
}

impl AddAssign<Duration> for Instant {
    fn add_assign(&mut self, duration: Duration) {
        *self = *self + duration;
    }
}

impl Sub<Instant> for Instant {
    type Output = Duration;
    fn sub(self, earlier: Instant) -> Duration {
        self.duration_since(earlier)
    }
}
