//! Log lines that a peer can cause at will.

use crate::Instant;
use std::cell::Cell;
use std::time::Duration;

/// Lets one line of a kind through per interval and counts the others.
pub struct LogLimit {
    interval: Duration,
    next: Cell<Instant>,
    left_out: Cell<u64>,
}

impl LogLimit {
    /// Lets the first line through at once.
    pub fn new(interval: Duration) -> LogLimit {
        LogLimit {
            interval,
            next: Cell::default(),
            left_out: Cell::default(),
        }
    }

    /// `Some` if this line may be logged, with the number of lines left out since the last one. `None` if it must be
    /// left out.
    pub fn admit(&self, now: Instant) -> Option<u64> {
        if now < self.next.get() {
            self.left_out.set(self.left_out.get() + 1);
            return None;
        }
        self.next.set(now + self.interval);
        Some(self.left_out.take())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INTERVAL: Duration = Duration::from_secs(10);

    #[test]
    fn the_first_line_of_an_interval_counts_those_before_it() {
        let limit = LogLimit::new(INTERVAL);
        let start = Instant::from_nanos(3);
        assert_eq!(limit.admit(start), Some(0));
        assert_eq!(limit.admit(start), None);
        let end = start + INTERVAL;
        assert_eq!(
            limit.admit(start + (INTERVAL - Duration::from_nanos(1))),
            None
        );
        assert_eq!(limit.admit(end), Some(2));
        assert_eq!(limit.admit(end), None);
        assert_eq!(limit.admit(end + INTERVAL + INTERVAL), Some(1));
    }
}
