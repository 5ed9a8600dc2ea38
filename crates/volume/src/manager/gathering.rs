//! Whether a transaction waits a moment for changes that are about to come.
//!
//! Callers that wait for their changes fall into two groups, each of which comes while the other's transaction is being
//! made durable: every caller then waits for up to two of them, and the disk syncs twice for what it could sync once.
//! Callers who were just answered mostly ask again at once. So a transaction may wait for them, but only if it was seen
//! that it pays: for a while now, all have come much sooner than a transaction takes. A lone caller never waits.

use crate::limits::GATHERING_SEEN_MIN;
use gannet_runtime::Instant;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Gathering {
    /// Changes of as many callers as seem to ask one after the other.
    expected: usize,
    /// Those that have come.
    come: usize,
    /// When the next transaction could begin, or did.
    ready: Option<Instant>,
    /// When all that are expected had come after that.
    complete: Option<Instant>,
    /// Transactions in a row for which waiting paid, or would have.
    seen: u32,
}

impl Gathering {
    /// A change has come. True when it was the last that a transaction waits for.
    pub(super) fn comes(&mut self, now: Instant) -> bool {
        self.ready.get_or_insert(now);
        self.come = self.come.saturating_add(1);
        if self.come < self.expected || self.complete.is_some() {
            return false;
        }
        self.complete = Some(now);
        true
    }

    /// Whether a transaction that could begin now should wait until the expected changes have come.
    pub(super) fn should_wait(&self) -> bool {
        self.complete.is_none() && self.seen >= GATHERING_SEEN_MIN
    }

    /// It has waited in vain: nobody does so again until it has paid for a while.
    pub(super) fn waited_in_vain(&mut self) {
        self.seen = 0;
    }

    /// A transaction that began at `began` has ended now; its `answered` callers may ask again, while `waiting` changes
    /// have come meanwhile.
    pub(super) fn ends(
        &mut self,
        (began, now): (Instant, Instant),
        (answered, waiting): (usize, usize),
    ) {
        let lasted = now.duration_since(began);
        let came_after =
            (self.ready.zip(self.complete)).map(|(ready, complete)| complete.duration_since(ready));
        // Waiting for `came_after` spares every other transaction: a gain if it is shorter, by a margin.
        let pays = came_after.is_some_and(|it| it <= lasted / 4 * 3);
        self.seen = match pays {
            true => self.seen.saturating_add(1),
            false => 0,
        };
        self.expected = answered + waiting;
        self.come = waiting;
        self.ready = (waiting > 0).then_some(now);
        self.complete = self.ready.filter(|_| waiting >= self.expected);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    /// Microseconds that a transaction takes here.
    const LASTS: u64 = 200;

    struct Story {
        gathering: Gathering,
        now: Instant,
    }

    impl Story {
        fn new() -> Story {
            Story {
                gathering: Gathering::default(),
                now: Instant::START,
            }
        }

        fn passes(&mut self, micros: u64) {
            self.now += Duration::from_micros(micros);
        }

        /// `count` changes come `after` the last event.
        fn come(&mut self, count: usize, after: u64) {
            self.passes(after);
            (0..count).for_each(|_| {
                self.gathering.comes(self.now);
            });
        }

        /// A transaction of `answered` changes; `others` come meanwhile, `after` its begin.
        fn transaction(&mut self, answered: usize, (others, after): (usize, u64)) {
            let began = self.now;
            self.come(others, after);
            self.passes(LASTS - after);
            self.gathering.ends((began, self.now), (answered, others));
        }
    }

    #[test]
    fn a_lone_caller_never_waits() {
        let mut story = Story::new();
        for _ in 0..100 {
            story.come(1, 50);
            assert!(!story.gathering.should_wait());
            story.transaction(1, (0, 0));
        }
    }

    #[test]
    fn two_groups_become_one() {
        let mut story = Story::new();
        story.come(4, 0);
        for _ in 0..GATHERING_SEEN_MIN {
            assert!(!story.gathering.should_wait());
            story.transaction(4, (4, 60));
        }
        // The four that were answered now come again: all eight share the next one.
        assert!(story.gathering.should_wait());
        story.come(3, 60);
        assert!(story.gathering.should_wait());
        assert!(story.gathering.comes(story.now));
        assert!(!story.gathering.should_wait());
        story.transaction(8, (0, 0));
        // Nobody is left over; the first who comes waits for the other seven.
        story.come(1, 60);
        assert!(story.gathering.should_wait());
        story.come(7, 20);
        assert!(!story.gathering.should_wait());
    }

    #[test]
    fn nobody_waits_for_callers_who_take_their_time() {
        let mut story = Story::new();
        story.come(4, 0);
        for _ in 0..100 {
            assert!(!story.gathering.should_wait());
            story.transaction(4, (4, LASTS - 20));
        }
    }

    #[test]
    fn who_waited_in_vain_does_not_do_so_again_soon() {
        let mut story = Story::new();
        story.come(4, 0);
        (0..GATHERING_SEEN_MIN).for_each(|_| story.transaction(4, (4, 60)));
        assert!(story.gathering.should_wait());
        story.gathering.waited_in_vain();
        assert!(!story.gathering.should_wait());
        story.transaction(4, (0, 0));
        story.come(1, 1000);
        assert!(!story.gathering.should_wait());
    }
}
