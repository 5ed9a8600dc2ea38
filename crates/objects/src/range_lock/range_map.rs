//! An interval map: the version that stored each range of bytes last.

use super::Version;
use std::collections::BTreeMap;
use std::ops::Range;

/// Ranges of bytes that do not overlap, each with the version that stored it last.
#[derive(Debug, Default)]
pub(super) struct RangeMap {
    /// Ends and versions by starts.
    ranges: BTreeMap<u64, (u64, Version)>,
    /// The highest version noted since the map was empty.
    newest: Version,
}

impl RangeMap {
    pub(super) fn len(&self) -> usize {
        self.ranges.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    pub(super) fn newest(&self) -> Version {
        self.newest
    }

    pub(super) fn clear(&mut self) {
        *self = RangeMap::default();
    }

    /// Notes that `version` stored `bytes`. Bytes of a newer version keep it, because the write left them out.
    pub(super) fn note(&mut self, bytes: &Range<u64>, version: Version) {
        for range in self.without_newer(bytes, version) {
            self.replace(range, version);
        }
        self.newest = self.newest.max(version);
    }

    /// The parts of `bytes` that no version after `version` has stored, in order.
    pub(super) fn without_newer(&self, bytes: &Range<u64>, version: Version) -> Vec<Range<u64>> {
        let (mut left, mut at) = (Vec::new(), bytes.start);
        for (Range { start, end }, other) in self.overlapping(bytes) {
            if other <= version {
                continue;
            }
            if at < start {
                left.push(at..start);
            }
            at = at.max(end);
        }
        if at < bytes.end {
            left.push(at..bytes.end);
        }
        left
    }

    fn overlapping(&self, bytes: &Range<u64>) -> impl Iterator<Item = (Range<u64>, Version)> {
        let before = self.ranges.range(..bytes.start).next_back();
        let before = before.filter(|(_, (end, _))| *end > bytes.start);
        let within = self.ranges.range(bytes.start..bytes.end);
        let all = before.into_iter().chain(within);
        all.map(|(start, (end, version))| (*start..*end, *version))
    }

    /// Assigns `range` to `version`, and merges it with neighbours of the same version.
    fn replace(&mut self, range: Range<u64>, version: Version) {
        let under: Vec<_> = self.overlapping(&range).collect();
        for (Range { start, end }, other) in under {
            self.ranges.remove(&start);
            if start < range.start {
                self.ranges.insert(start, (range.start, other));
            }
            if range.end < end {
                self.ranges.insert(range.end, (end, other));
            }
        }
        let Range { mut start, mut end } = range;
        if let Some((before, reach)) = self.ranges.range(..start).next_back()
            && *reach == (start, version)
        {
            start = *before;
        }
        if let Some((after, next)) = self.ranges.get(&end)
            && *next == version
        {
            let after = *after;
            self.ranges.remove(&end);
            end = after;
        }
        self.ranges.insert(start, (end, version));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Each byte has the highest version that was noted for it.
        #[test]
        fn a_byte_has_the_newest_version_that_stored_it(
            noted in prop::collection::vec((0u64..64, 1u64..16, 1u64..6), 0..24),
            (start, len, version) in (0u64..64, 1u64..64, 0u64..6),
        ) {
            let mut map = RangeMap::default();
            let mut newest = [0; 128];
            for (start, len, version) in noted {
                map.note(&(start..start + len), Version(version));
                let bytes = &mut newest[start as usize..(start + len) as usize];
                bytes.iter_mut().for_each(|it| *it = version.max(*it));
            }
            let bytes = start..start + len;
            let left = map.without_newer(&bytes, Version(version)).into_iter().flatten();
            let expected = bytes.filter(|at| newest[*at as usize] <= version);
            prop_assert_eq!(left.collect::<Vec<_>>(), expected.collect::<Vec<_>>());
            // There are at most as many ranges as changes of version between neighbouring bytes.
            let borders = newest.windows(2).filter(|it| it[0] != it[1]).count();
            prop_assert!(map.len() <= borders + 1, "{map:?}");
        }
    }
}
