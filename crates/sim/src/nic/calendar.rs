//! The times at which users occupy a processor, an adapter or a link, and for which others wait.

use std::collections::VecDeque;

/// The times at which a resource that serves one user at a time is taken.
///
/// Users ask ahead of the clock, each from its own time on, and not in the order of those times. So the free time
/// between two of them must stay available.
#[derive(Debug, Default)]
pub(crate) struct Calendar {
    /// The taken spans, each with begin and end, in order and not touching each other.
    taken: VecDeque<(u64, u64)>,
}

/// A span of nanoseconds in a calendar.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Gap {
    pub(crate) start: u64,
    pub(crate) len: u64,
}

impl Gap {
    pub(crate) fn end(self) -> u64 {
        self.start + self.len
    }
}

impl Calendar {
    /// The first gap of at least `least` free nanoseconds from `from` on, cut to `most`.
    pub(crate) fn find(&self, from: u64, least: u64, most: u64) -> Gap {
        let mut start = from;
        for &(begins, ends) in &self.taken {
            if start + least <= begins {
                let len = most.min(begins - start);
                return Gap { start, len };
            }
            start = start.max(ends);
        }
        Gap { start, len: most }
    }

    /// Takes a gap that [`Calendar::find`] gave. Entries before `clock` are dropped, since no later call asks for them.
    pub(crate) fn take(&mut self, clock: u64, gap: Gap) {
        while self.taken.front().is_some_and(|&(_, ends)| ends <= clock) {
            self.taken.pop_front();
        }
        if gap.len > 0 {
            self.enter(gap);
        }
    }

    /// Takes the first `len` nanoseconds from `from` on.
    pub(crate) fn take_first(&mut self, clock: u64, from: u64, len: u64) -> Gap {
        let gap = self.find(from, len, len);
        self.take(clock, gap);
        gap
    }

    fn enter(&mut self, gap: Gap) {
        let (start, end) = (gap.start, gap.end());
        let place = self.taken.partition_point(|&(begins, _)| begins < start);
        let touches_next = self.taken.get(place).is_some_and(|next| next.0 == end);
        let touches_last = place > 0 && self.taken[place - 1].1 == start;
        if touches_last && touches_next {
            let next = self.taken.remove(place);
            self.taken[place - 1].1 = next.map_or(end, |(_, ends)| ends);
        } else if touches_last {
            self.taken[place - 1].1 = end;
        } else if touches_next {
            self.taken[place].0 = start;
        } else {
            self.taken.insert(place, (start, end));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_queue_up_and_free_time_is_used() {
        let mut calendar = Calendar::default();
        let mut take = |from, len| calendar.take_first(0, from, len).start;
        assert_eq!(take(100, 50), 100);
        assert_eq!(take(100, 50), 150, "behind the first");
        assert_eq!(take(0, 100), 0, "fits before them");
        assert_eq!(take(300, 10), 300);
        assert_eq!(take(0, 101), 310, "too long for the gap");
        assert_eq!(take(0, 100), 200, "fills the gap");
        assert_eq!(calendar.taken, [(0, 411)], "touching times are one");
    }

    #[test]
    fn part_of_a_gap_is_taken_if_it_is_enough() {
        let mut calendar = Calendar::default();
        calendar.take_first(0, 10, 10);
        calendar.take_first(0, 50, 10);
        assert_eq!(calendar.find(0, 5, 100), Gap { start: 0, len: 10 });
        assert_eq!(calendar.find(0, 11, 100), Gap { start: 20, len: 30 });
        assert_eq!(
            calendar.find(0, 31, 100),
            Gap {
                start: 60,
                len: 100
            }
        );
        assert_eq!(calendar.find(15, 1, 7), Gap { start: 20, len: 7 });
        assert_eq!(calendar.taken, [(10, 20), (50, 60)]);
    }

    #[test]
    fn the_past_is_forgotten() {
        let mut calendar = Calendar::default();
        for start in [0, 20, 40] {
            calendar.take_first(0, start, 10);
        }
        assert_eq!(calendar.take_first(50, 50, 10).start, 50);
        assert_eq!(calendar.taken, [(50, 60)]);
    }
}
