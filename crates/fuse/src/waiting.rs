//! The requests that wait for servers: since when the oldest of them does, and how long they did.

use crate::requests::{Kind, Requests, WAIT_MIN};
use gannet_client::{Wait, Waits};
use gannet_runtime::Instant;
use std::cell::Cell;

/// The requests under way, and the time for which requests have waited.
///
/// FLUSH, FSYNC and RELEASE of much data last for many WRITEs, and a server that answers these is not silent. Such a
/// request waits only since the last reply to a WRITE or COMMIT of the mount, which each method gets as `last_reply`.
#[derive(Default)]
pub(crate) struct Waiting {
    writing: Waits,
    others: Waits,
    /// The end of the last wait that was counted.
    counted: Cell<Option<Instant>>,
}

impl Kind {
    /// Whether a request of the kind lasts until the bytes of a file have been written.
    fn is_for_writes(self) -> bool {
        matches!(self, Kind::Flush | Kind::Fsync | Kind::Release)
    }
}

impl Waiting {
    /// Begins a request, which is under way until the result is dropped.
    pub(crate) fn begin(&self, kind: Kind, now: Instant) -> Wait<'_> {
        if kind.is_for_writes() {
            self.writing.begin(now)
        } else {
            self.others.begin(now)
        }
    }

    /// The number of requests under way.
    pub(crate) fn count(&self) -> usize {
        self.writing.count() + self.others.count()
    }

    /// Since when the oldest request under way has waited; `None` when there is none.
    pub(crate) fn since(&self, last_reply: Instant) -> Option<Instant> {
        let writing = self.writing.oldest().map(|since| since.max(last_reply));
        writing.into_iter().chain(self.others.oldest()).min()
    }

    /// Counts the time of a request that has ended now, if it has waited. Requests that overlap are one wait.
    pub(crate) fn ended(
        &self,
        requests: &Requests,
        kind: Kind,
        begun: Instant,
        now: Instant,
        last_reply: Instant,
    ) {
        let start = if kind.is_for_writes() {
            begun.max(last_reply)
        } else {
            begun
        };
        // An older request under way has waited all this time too. Its end counts it.
        let is_covered = self.others.oldest().is_some_and(|oldest| oldest < start);
        if now.duration_since(start) < WAIT_MIN || is_covered {
            return;
        }
        let before = self.counted.replace(Some(now));
        let overlap = before.filter(|before| start <= *before);
        let more = now.duration_since(overlap.unwrap_or(start));
        requests.note_wait(overlap.is_none(), more);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn at(seconds: u64) -> Instant {
        Instant::START + Duration::from_secs(seconds)
    }

    #[test]
    fn overlapping_waits_are_one_time() {
        let (requests, waiting) = (Requests::default(), Waiting::default());
        let begin = |seconds| waiting.begin(Kind::Read, at(seconds));
        let end = |wait: Wait<'_>, from, to| {
            drop(wait);
            waiting.ended(&requests, Kind::Read, at(from), at(to), at(0));
            requests.waited()
        };
        let oldest = begin(8);
        // Within the oldest, which is under way.
        assert_eq!(end(begin(10), 10, 14), (0, 0));
        assert_eq!(end(begin(20), 20, 23), (0, 0));
        let later = begin(28);
        assert_eq!(end(oldest, 8, 30), (1, 22));
        assert_eq!(end(later, 28, 33), (1, 25));
        assert_eq!(end(begin(40), 40, 42), (1, 25));
        assert_eq!(end(begin(40), 40, 43), (2, 28));
    }

    #[test]
    fn a_flush_waits_since_the_last_reply_to_a_write() {
        for kind in [Kind::Flush, Kind::Fsync, Kind::Release] {
            let (requests, waiting) = (Requests::default(), Waiting::default());
            let flush = waiting.begin(kind, at(10));
            assert_eq!(waiting.since(at(5)), Some(at(10)));
            // A slow server that answers.
            assert_eq!(waiting.since(at(19)), Some(at(19)));
            let read = waiting.begin(Kind::Read, at(16));
            assert_eq!((waiting.since(at(19)), waiting.count()), (Some(at(16)), 2));
            drop(read);
            drop(flush);
            waiting.ended(&requests, kind, at(10), at(20), at(20));
            assert_eq!(requests.waited(), (0, 0));
            // One that does not.
            waiting.ended(&requests, kind, at(30), at(40), at(32));
            assert_eq!(requests.waited(), (1, 8));
            assert_eq!((waiting.since(at(20)), waiting.count()), (None, 0));
        }
    }
}
