//! Log lines that a peer can cause at will.

use crate::limits::LOG_INTERVAL;
use gannet_runtime::Instant;
use std::cell::Cell;

/// Lets one line through per [`LOG_INTERVAL`] and counts the others.
#[derive(Default)]
pub(super) struct LogLimit {
    next: Cell<Instant>,
    left_out: Cell<u64>,
}

impl LogLimit {
    /// How many lines were left out since the last, when it is time for one; otherwise this one is left out too.
    pub(super) fn admit(&self, now: Instant) -> Option<u64> {
        if now < self.next.get() {
            self.left_out.set(self.left_out.get() + 1);
            return None;
        }
        self.next.set(now + LOG_INTERVAL);
        Some(self.left_out.take())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn the_first_line_of_an_interval_counts_those_before_it() {
        let limit = LogLimit::default();
        let start = Instant::from_nanos(3);
        assert_eq!(limit.admit(start), Some(0));
        assert_eq!(limit.admit(start), None);
        let end = start + LOG_INTERVAL;
        assert_eq!(
            limit.admit(start + (LOG_INTERVAL - Duration::from_nanos(1))),
            None
        );
        assert_eq!(limit.admit(end), Some(2));
        assert_eq!(limit.admit(end), None);
        assert_eq!(limit.admit(end + LOG_INTERVAL + LOG_INTERVAL), Some(1));
    }
}
