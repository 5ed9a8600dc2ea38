//! The division of a client's memory between references and data (paper 003, section III, question 2).
//!
//! The adaptive balance compares the value of the last bytes of each side. The list of use of each side has a tail, at
//! most a quarter of the side. A hit in a tail is one that a somewhat smaller side would have missed:
//!
//! - A hit of data saves an optimistic read.
//! - A hit of a reference saves the difference between a call and an optimistic read.
//! - A refused reference loses about an optimistic read.
//!
//! The saving for each byte of a tail is the marginal benefit. Memory moves to the side where it is higher, in steps,
//! between two bounds. References that are mostly stale therefore lose their memory. If the server replaces its pages
//! by use, the directory ends at about as many references as the server has pages.
//!
//! A reference to a block is worth nothing while the block's data are here, and the first references in the list are
//! of such blocks. A measurement is possible only beyond them, so the bound stays a quarter above them.
//!
//! The balance has a limit: a loop over more blocks than fit has no hits in any tail. It does not find memory that
//! would help only when it is enough for the whole loop.

use std::time::Duration;

/// Lookups between two decisions.
const EPOCH: u32 = 1024;
/// Quarters of one marginal benefit that the other must exceed before memory moves, so that near equality moves
/// nothing.
const CLEAR_QUARTERS: i128 = 5;
/// Hits in both tails below which there is no decision: they would be chance.
const HITS_MIN: u64 = 8;
/// The divisor of the directory's share that a step moves.
const STEP: u64 = 8;
/// The divisor of the budget that gives the first directory of an adaptive balance.
const FIRST: u64 = 32;
/// A tail is at most this part of its side, as a divisor.
pub(super) const TAIL: u64 = 4;
/// A tail is at most this part of the budget, as a divisor.
const TAIL_OF_BUDGET: u64 = 32;
/// Durations until the caller reports its own: a volume's call and optimistic read as measured in November 2026.
const CALL: Duration = Duration::from_micros(33);
const OPTIMISTIC: Duration = Duration::from_micros(10);

/// The bound between references and data in one budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Balance {
    /// References take at most this part of the budget, and data at most the rest. Neither side uses room of the
    /// other.
    Fixed {
        /// Bytes for references, at most the whole budget.
        directory: u64,
    },
    /// The bound moves to where a byte saves more time. Either side uses room that the other leaves free.
    Adaptive {
        /// The least part for references in thousandths of the budget. 0 counts as 1: without references the balance
        /// could not measure their worth.
        least_permille: u16,
        /// The greatest part for references in thousandths of the budget.
        most_permille: u16,
    },
}

impl Default for Balance {
    /// Adaptive, from a thousandth to half of the budget.
    fn default() -> Balance {
        Balance::Adaptive {
            least_permille: 1,
            most_permille: 500,
        }
    }
}

/// The state of the bound. All sizes are in bytes.
pub(super) struct Balancer {
    budget: u64,
    balance: Balance,
    least: u64,
    most: u64,
    directory: u64,
    lookups: u32,
    /// An entry was evicted to make room since the last decision.
    is_full: bool,
    data_hits: u64,
    reference_hits: u64,
    /// Hits of references that were refused.
    stale_hits: u64,
    call: Duration,
    optimistic: Duration,
}

/// Bytes of the two sides and of their tails.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sides {
    pub(super) references: u64,
    /// Bytes that references to all blocks with data would take.
    pub(super) references_of_data: u64,
    pub(super) data_tail: u64,
    pub(super) reference_tail: u64,
}

impl Balancer {
    pub(super) fn new(budget: u64, balance: Balance) -> Balancer {
        let part = |permille: u16| budget / 1000 * u64::from(permille.min(1000));
        let (least, most, directory) = match balance {
            Balance::Fixed { directory } => {
                let fixed = directory.min(budget);
                (fixed, fixed, fixed)
            }
            Balance::Adaptive {
                least_permille,
                most_permille,
            } => {
                let most = part(most_permille);
                let least = part(least_permille.max(1)).min(most);
                (least, most, (budget / FIRST).clamp(least, most))
            }
        };
        Balancer {
            budget,
            balance,
            least,
            most,
            directory,
            lookups: 0,
            is_full: false,
            data_hits: 0,
            reference_hits: 0,
            stale_hits: 0,
            call: CALL,
            optimistic: OPTIMISTIC,
        }
    }

    pub(super) fn is_fixed(&self) -> bool {
        matches!(self.balance, Balance::Fixed { .. })
    }

    /// Bytes that references may have, or should have under an adaptive balance.
    pub(super) fn directory(&self) -> u64 {
        self.directory
    }

    /// Sets the durations of a call and of an optimistic read.
    pub(super) fn set_costs(&mut self, call: Duration, optimistic: Duration) {
        (self.call, self.optimistic) = (call, optimistic);
    }

    /// Bytes of the tail of a side that has `bytes`.
    pub(super) fn tail_of(&self, bytes: u64) -> u64 {
        match self.balance {
            Balance::Fixed { .. } => 0,
            Balance::Adaptive { .. } => (bytes / TAIL).min(self.budget / TAIL_OF_BUDGET),
        }
    }

    pub(super) fn hit_data_tail(&mut self) {
        self.data_hits += 1;
    }

    pub(super) fn hit_reference_tail(&mut self) {
        self.reference_hits += 1;
    }

    /// Notes that the reference of such a hit was stale.
    pub(super) fn reference_was_stale(&mut self) {
        self.stale_hits += 1;
    }

    /// Notes an eviction: without any there is nothing to decide.
    pub(super) fn evicted(&mut self) {
        self.is_full = true;
    }

    /// Notes a lookup; decides after every [`EPOCH`] of them.
    pub(super) fn looked_up(&mut self, sides: Sides) {
        self.lookups += 1;
        if self.is_fixed() || self.lookups < EPOCH {
            return;
        }
        self.lookups = 0;
        let was_full = std::mem::take(&mut self.is_full);
        if was_full && self.data_hits + self.reference_hits >= HITS_MIN {
            self.decide(sides);
        }
        // Half of the past counts, so that few hits in an epoch add up.
        self.data_hits /= 2;
        self.reference_hits /= 2;
        self.stale_hits /= 2;
    }

    fn decide(&mut self, sides: Sides) {
        // Nanoseconds that a million bytes of a tail have saved; negative where stale references lose more.
        let worth = |hits: u64, each: Duration, tail: u64| {
            let saved = u128::from(hits) * each.as_nanos() * 1_000_000 / u128::from(tail.max(1));
            i128::try_from(saved).unwrap_or(i128::MAX)
        };
        let data = worth(self.data_hits, self.optimistic, sides.data_tail);
        let each = self.call.saturating_sub(self.optimistic);
        let valid = self.reference_hits.saturating_sub(self.stale_hits);
        let lost = worth(self.stale_hits, self.optimistic, sides.reference_tail);
        let references = worth(valid, each, sides.reference_tail).saturating_sub(lost);
        let is_clear = |more: i128, less: i128| {
            more > less && more.saturating_mul(4) > less.saturating_mul(CLEAR_QUARTERS)
        };
        let step = (self.directory / STEP).max(1);
        // The bound stays within a step above the references in use: a larger one would measure nothing.
        let used = sides.references + sides.references / STEP;
        let wanted = if is_clear(references, data) {
            (self.directory + step).min(used.max(self.directory.saturating_sub(step)))
        } else if is_clear(data, references) {
            let now = self.directory.min(used);
            now.saturating_sub(step)
        } else {
            return;
        };
        let of_data = sides.references_of_data + sides.references_of_data / TAIL;
        self.directory = wanted.max(of_data).clamp(self.least, self.most);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BUDGET: u64 = 64 << 20;

    fn sides(references: u64) -> Sides {
        Sides {
            references,
            references_of_data: 0,
            data_tail: 1 << 20,
            reference_tail: references / TAIL,
        }
    }

    /// Hits in the tails of both sides within an epoch.
    struct TailHits {
        data: u64,
        references: u64,
    }

    const MOSTLY_REFERENCES: TailHits = TailHits {
        data: 1,
        references: 900,
    };

    fn epoch(balancer: &mut Balancer, hits: TailHits, references: u64) {
        (0..hits.data).for_each(|_| balancer.hit_data_tail());
        (0..hits.references).for_each(|_| balancer.hit_reference_tail());
        balancer.evicted();
        (0..EPOCH).for_each(|_| balancer.looked_up(sides(references)));
    }

    #[test]
    fn memory_goes_where_a_byte_saves_more_within_its_bounds() {
        let mut balancer = Balancer::new(BUDGET, Balance::default());
        let first = balancer.directory();
        assert_eq!(first, BUDGET / FIRST);
        for _ in 0..64 {
            let full = balancer.directory();
            epoch(&mut balancer, MOSTLY_REFERENCES, full);
        }
        assert_eq!(balancer.directory(), BUDGET / 1000 * 500);
        for _ in 0..128 {
            let full = balancer.directory();
            epoch(
                &mut balancer,
                TailHits {
                    data: 900,
                    references: 1,
                },
                full,
            );
        }
        assert_eq!(balancer.directory(), BUDGET / 1000);
    }

    #[test]
    fn chance_moves_nothing() {
        let mut balancer = Balancer::new(BUDGET, Balance::default());
        let first = balancer.directory();
        epoch(
            &mut balancer,
            TailHits {
                data: 2,
                references: 1,
            },
            first,
        );
        assert_eq!(balancer.directory(), first);
    }

    #[test]
    fn nothing_moves_while_nothing_has_to_leave() {
        let mut balancer = Balancer::new(BUDGET, Balance::default());
        let first = balancer.directory();
        (0..900).for_each(|_| balancer.hit_data_tail());
        (0..EPOCH).for_each(|_| balancer.looked_up(sides(first)));
        assert_eq!(balancer.directory(), first);
    }

    #[test]
    fn the_bound_stays_above_the_references_of_what_is_cached() {
        let mut balancer = Balancer::new(BUDGET, Balance::default());
        for _ in 0..128 {
            let full = Sides {
                references_of_data: 800 << 10,
                ..sides(balancer.directory())
            };
            balancer.evicted();
            (0..900).for_each(|_| balancer.hit_data_tail());
            (0..EPOCH).for_each(|_| balancer.looked_up(full));
        }
        assert_eq!(balancer.directory(), 1000 << 10);
    }

    #[test]
    fn references_that_take_little_do_not_raise_the_bound() {
        let mut balancer = Balancer::new(BUDGET, Balance::default());
        for _ in 0..64 {
            epoch(&mut balancer, MOSTLY_REFERENCES, 80 << 10);
        }
        assert!(
            balancer.directory() <= 100 << 10,
            "{}",
            balancer.directory()
        );
    }

    #[test]
    fn a_reference_that_saves_nothing_is_worth_nothing() {
        let mut balancer = Balancer::new(BUDGET, Balance::default());
        let time = Duration::from_micros(20);
        balancer.set_costs(time, time);
        for _ in 0..128 {
            let full = balancer.directory();
            epoch(
                &mut balancer,
                TailHits {
                    data: 8,
                    references: 900,
                },
                full,
            );
        }
        assert_eq!(balancer.directory(), BUDGET / 1000);
    }

    #[test]
    fn references_that_are_mostly_stale_lose_their_memory() {
        let mut balancer = Balancer::new(BUDGET, Balance::default());
        let time = Duration::from_micros(100);
        balancer.set_costs(time * 2, time);
        for _ in 0..128 {
            let full = balancer.directory();
            (0..600).for_each(|_| balancer.reference_was_stale());
            epoch(
                &mut balancer,
                TailHits {
                    data: 0,
                    references: 1000,
                },
                full,
            );
        }
        assert_eq!(balancer.directory(), BUDGET / 1000);
    }

    #[test]
    fn a_fixed_balance_stays() {
        let fixed = Balance::Fixed {
            directory: BUDGET / 4,
        };
        let mut balancer = Balancer::new(BUDGET, fixed);
        epoch(&mut balancer, MOSTLY_REFERENCES, 1 << 20);
        assert_eq!(balancer.directory(), BUDGET / 4);
        assert_eq!(balancer.tail_of(1 << 20), 0);
    }
}
