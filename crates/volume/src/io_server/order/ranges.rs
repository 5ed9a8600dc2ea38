//! A set of bytes.

use std::collections::BTreeMap;
use std::ops::Range;

/// Ranges that do not touch each other: ends by starts.
#[derive(Debug, Default)]
pub(super) struct Ranges(BTreeMap<u64, u64>);

impl Ranges {
    pub(super) fn add(&mut self, Range { start, end }: Range<u64>) {
        let (mut start, mut end) = (start, end);
        // Those that touch it become one with it.
        while let Some((from, to)) = self.last_up_to(end).filter(|(_, to)| *to >= start) {
            self.0.remove(&from);
            (start, end) = (start.min(from), end.max(to));
        }
        self.0.insert(start, end);
    }

    fn last_up_to(&self, end: u64) -> Option<(u64, u64)> {
        let last = self.0.range(..=end).next_back();
        last.map(|(from, to)| (*from, *to))
    }

    /// What of `bytes` is not in it, in order.
    pub(super) fn left_of(&self, bytes: &Range<u64>) -> Vec<Range<u64>> {
        let (mut left, mut at) = (Vec::new(), bytes.start);
        let before = self.0.range(..bytes.start).next_back();
        for (from, to) in before
            .into_iter()
            .chain(self.0.range(bytes.start..bytes.end))
        {
            if at < *from {
                left.push(at..*from);
            }
            at = at.max(*to);
        }
        if at < bytes.end {
            left.push(at..bytes.end);
        }
        left
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn it_has_the_bytes_that_were_added(
            added in prop::collection::vec((0u64..64, 0u64..16), 0..12),
            (start, len) in (0u64..64, 0u64..64),
        ) {
            let mut ranges = Ranges::default();
            let mut has = [false; 128];
            for (start, len) in added {
                ranges.add(start..start + len);
                (start..start + len).for_each(|at| has[at as usize] = true);
            }
            let bytes = start..start + len;
            let left: Vec<u64> = ranges.left_of(&bytes).into_iter().flatten().collect();
            let expected: Vec<u64> = bytes.filter(|at| !has[*at as usize]).collect();
            prop_assert_eq!(left, expected);
        }
    }
}
