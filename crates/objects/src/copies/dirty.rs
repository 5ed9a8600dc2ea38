//! What the other member of a group has, and the primary may not have stored yet.
//!
//! The primary numbers its changes, and says with each message how many it had begun and how many are over. So the
//! other member knows which of its bytes the primary has too. When it takes over, those can be read at once, from
//! either. All else waits until the primary's right is over.

use super::Copies;
use crate::limits::DIRTY_RANGES_MAX;
use gannet_wire::volume::ObjectId;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// The changes of a group that this server has begun as its primary.
#[derive(Default)]
pub(super) struct Numbered {
    begun: u64,
    open: BTreeSet<u64>,
    over: u64,
}

/// The changes of a group that the primary has passed on in an epoch.
#[derive(Default)]
pub(super) struct Dirty {
    epoch: u64,
    over: u64,
    /// Ranges of files, by the number of changes that must be over before they are clean.
    ranges: BTreeMap<u64, Vec<(u64, Range<u64>)>>,
    count: usize,
    /// The same number for all bytes, after there were too many ranges.
    all_until: u64,
}

impl Dirty {
    /// The primary says in `epoch` how many changes it had begun, and how many are over.
    fn are_over(&mut self, epoch: u64, begun: u64, over: u64) {
        if epoch > self.epoch {
            // Changes that began in an earlier epoch may still be under way.
            *self = Dirty {
                epoch,
                all_until: begun,
                ..Dirty::default()
            };
        }
        if epoch == self.epoch && over > self.over {
            self.over = over;
            let left = self.ranges.split_off(&over.saturating_add(1));
            let clean = std::mem::replace(&mut self.ranges, left);
            self.count -= clean.values().map(Vec::len).sum::<usize>();
        }
    }

    fn add(&mut self, file: u64, bytes: Range<u64>, until: u64) {
        if until <= self.over {
            return;
        }
        if self.count >= DIRTY_RANGES_MAX {
            self.all_until = self.all_until.max(until);
        } else {
            self.ranges.entry(until).or_default().push((file, bytes));
            self.count += 1;
        }
    }

    /// Whether the primary of this epoch has these bytes, too.
    fn is_clean(&self, epoch: u64, file: u64, bytes: &Range<u64>) -> bool {
        let overlaps = |dirty: &Range<u64>| dirty.start < bytes.end && bytes.start < dirty.end;
        let mut ranges = self.ranges.values().flatten();
        self.epoch == epoch
            && self.all_until <= self.over
            && !ranges.any(|(dirty, range)| *dirty == file && overlaps(range))
    }
}

impl<S> Copies<S> {
    /// Begins a change of a group; its number.
    pub(super) fn begin(&self, group: u32) -> u64 {
        self.note(group, |passing| {
            let numbered = &mut passing.numbered;
            numbered.begun += 1;
            numbered.open.insert(numbered.begun);
            numbered.begun
        })
    }

    /// A change of a group is over. If it has failed, what may be at the other member was noted before.
    pub(super) fn end(&self, group: u32, number: u64) {
        self.note(group, |passing| passing.numbered.open.remove(&number));
    }

    /// How many changes of a group have begun, and how many of the first ones are over.
    pub(in super::super) fn begun_and_over(&self, group: u32) -> (u64, u64) {
        let is_uneven = self.uneven.borrow().has(group);
        self.note(group, |passing| {
            let numbered = &mut passing.numbered;
            let first = numbered.open.first();
            let over = first.map_or(numbered.begun, |first| first - 1);
            // One that has failed is over when its bytes have been copied again.
            if !is_uneven {
                numbered.over = numbered.over.max(over);
            }
            (numbered.begun, numbered.over)
        })
    }

    /// The primary of a group says in `epoch` how many changes it had begun, and how many are over.
    pub(in super::super) fn are_over(&self, group: u32, epoch: u64, begun: u64, over: u64) {
        self.note(group, |passing| passing.dirty.are_over(epoch, begun, over));
    }

    /// Bytes change that the primary may not have stored before `until` of its changes are over.
    pub(super) fn become_dirty(&self, object: ObjectId, bytes: Range<u64>, until: u64) {
        let ObjectId { group, file } = object;
        self.note(group, |passing| passing.dirty.add(file, bytes, until));
    }

    /// Whether the primary of the group in `epoch` has these bytes of an object, too.
    pub(in super::super) fn is_clean(
        &self,
        object: ObjectId,
        epoch: u64,
        bytes: &Range<u64>,
    ) -> bool {
        let ObjectId { group, file } = object;
        self.note(group, |passing| passing.dirty.is_clean(epoch, file, bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_clean_when_the_changes_before_them_are_over() {
        let mut dirty = Dirty::default();
        dirty.are_over(5, 0, 0);
        dirty.add(7, 100..200, 3);
        dirty.add(7, 300..400, 9);
        let is_clean = |dirty: &Dirty, bytes| dirty.is_clean(5, 7, &bytes);
        assert!(is_clean(&dirty, 0..100) && is_clean(&dirty, 200..300));
        assert!(!is_clean(&dirty, 199..201) && !is_clean(&dirty, 0..u64::MAX));
        assert!(dirty.is_clean(5, 8, &(100..200)), "another file");
        assert!(
            !dirty.is_clean(6, 7, &(0..1)),
            "nothing is known of this epoch"
        );
        dirty.are_over(5, 9, 3);
        assert!(is_clean(&dirty, 100..200) && !is_clean(&dirty, 300..301));
        // It came late.
        dirty.are_over(5, 9, 2);
        dirty.add(7, 0..10, 3);
        assert!(is_clean(&dirty, 0..300));
        dirty.are_over(4, 99, 99);
        assert!(!is_clean(&dirty, 300..400));
        // Those of the epoch before may still be under way.
        dirty.are_over(6, 10, 9);
        assert!(!dirty.is_clean(6, 8, &(0..1)));
        dirty.are_over(6, 11, 10);
        assert!(dirty.is_clean(6, 7, &(300..400)));
    }

    #[test]
    fn with_too_many_ranges_nothing_is_clean() {
        let mut dirty = Dirty::default();
        dirty.are_over(1, 0, 0);
        for until in 1..=DIRTY_RANGES_MAX as u64 + 1 {
            dirty.add(7, until..until + 1, until);
        }
        assert!(!dirty.is_clean(1, 8, &(0..1)));
        dirty.are_over(1, 0, DIRTY_RANGES_MAX as u64);
        assert!(!dirty.is_clean(1, 8, &(0..1)) && dirty.count == 0);
        dirty.are_over(1, 0, DIRTY_RANGES_MAX as u64 + 1);
        assert!(dirty.is_clean(1, 7, &(0..u64::MAX)));
    }
}
