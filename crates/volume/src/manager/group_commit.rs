//! Group commit (DeWitt and others, SIGMOD 1984): whether a transaction waits for changes that are about to come.
//!
//! Without waiting, callers fall into two groups, each of which comes while the other's transaction is being made
//! durable. Every caller then waits for up to two transactions, and the disk syncs twice for what it could sync once.
//! Callers that were just answered mostly ask again at once. So a transaction may wait for them, but only after a
//! series of transactions in which all came much sooner than a transaction takes. A lone caller never waits.

use crate::limits::GROUP_COMMIT_SEEN_MIN;
use gannet_runtime::Instant;

/// The state of group commit: what to expect of callers, and whether waiting has paid.
#[derive(Debug, Default)]
pub(super) struct GroupCommit {
    /// How many changes are expected: those of the callers of the last transaction, and those that came meanwhile.
    expected: usize,
    /// How many of them have come.
    come: usize,
    /// When the next transaction could begin, or did.
    ready: Option<Instant>,
    /// When the last expected change came after that.
    complete: Option<Instant>,
    /// Transactions in a row for which waiting paid, or would have.
    seen: u32,
}

/// A transaction that has ended.
pub(super) struct Ended {
    pub(super) began: Instant,
    pub(super) now: Instant,
    /// Changes that it had.
    pub(super) answered: usize,
    /// Changes that came meanwhile.
    pub(super) waiting: usize,
}

impl GroupCommit {
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
        self.complete.is_none() && self.seen >= GROUP_COMMIT_SEEN_MIN
    }

    /// A transaction has waited in vain: none does so again until waiting has paid for a while.
    pub(super) fn waited_in_vain(&mut self) {
        self.seen = 0;
    }

    /// A transaction has ended: its callers may ask again.
    pub(super) fn ends(&mut self, transaction: Ended) {
        let Ended {
            began,
            now,
            answered,
            waiting,
        } = transaction;
        let lasted = now.duration_since(began);
        let came_after =
            (self.ready.zip(self.complete)).map(|(ready, complete)| complete.duration_since(ready));
        // Waiting for `came_after` spares every other transaction: a gain if it is shorter, by a margin.
        let pays = came_after.is_some_and(|it| it <= lasted / 4 * 3);
        self.seen = if pays { self.seen.saturating_add(1) } else { 0 };
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

    /// Changes that come at one time.
    struct Arrivals {
        count: usize,
        /// Microseconds since the transaction's begin.
        after: u64,
    }

    const NONE: Arrivals = Arrivals { count: 0, after: 0 };

    struct Story {
        group_commit: GroupCommit,
        now: Instant,
    }

    impl Story {
        fn new() -> Story {
            Story {
                group_commit: GroupCommit::default(),
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
                self.group_commit.comes(self.now);
            });
        }

        /// A transaction of `answered` changes, during which others come.
        fn transaction(&mut self, answered: usize, others: Arrivals) {
            let began = self.now;
            let Arrivals { count, after } = others;
            self.come(count, after);
            self.passes(LASTS - after);
            self.group_commit.ends(Ended {
                began,
                now: self.now,
                answered,
                waiting: count,
            });
        }
    }

    #[test]
    fn a_lone_caller_never_waits() {
        let mut story = Story::new();
        for _ in 0..100 {
            story.come(1, 50);
            assert!(!story.group_commit.should_wait());
            story.transaction(1, NONE);
        }
    }

    #[test]
    fn two_groups_become_one() {
        let mut story = Story::new();
        story.come(4, 0);
        for _ in 0..GROUP_COMMIT_SEEN_MIN {
            assert!(!story.group_commit.should_wait());
            story.transaction(
                4,
                Arrivals {
                    count: 4,
                    after: 60,
                },
            );
        }
        // The four that were just answered come again: all eight share the next one.
        assert!(story.group_commit.should_wait());
        story.come(3, 60);
        assert!(story.group_commit.should_wait());
        assert!(story.group_commit.comes(story.now));
        assert!(!story.group_commit.should_wait());
        story.transaction(8, NONE);
        // None is left over; the first that comes waits for the other seven.
        story.come(1, 60);
        assert!(story.group_commit.should_wait());
        story.come(7, 20);
        assert!(!story.group_commit.should_wait());
    }

    #[test]
    fn no_transaction_waits_for_slow_callers() {
        let mut story = Story::new();
        story.come(4, 0);
        for _ in 0..100 {
            assert!(!story.group_commit.should_wait());
            story.transaction(
                4,
                Arrivals {
                    count: 4,
                    after: LASTS - 20,
                },
            );
        }
    }

    #[test]
    fn a_transaction_that_waited_in_vain_does_not_do_so_again_soon() {
        let mut story = Story::new();
        story.come(4, 0);
        (0..GROUP_COMMIT_SEEN_MIN).for_each(|_| {
            story.transaction(
                4,
                Arrivals {
                    count: 4,
                    after: 60,
                },
            )
        });
        assert!(story.group_commit.should_wait());
        story.group_commit.waited_in_vain();
        assert!(!story.group_commit.should_wait());
        story.transaction(4, NONE);
        story.come(1, 1000);
        assert!(!story.group_commit.should_wait());
    }
}
