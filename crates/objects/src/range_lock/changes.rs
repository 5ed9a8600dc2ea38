//! The changes of one object that are under way, and the next steps each may take. Nothing waits here: [`super`] does.

use super::Version;
use super::overlap::WriteSet;
use super::range_map::RangeMap;
use crate::limits::{CHANGES_OF_OBJECT_MAX, OVERLAP_STEPS_MAX};
use std::collections::BTreeMap;
use std::ops::Range;

/// The state of a change.
///
/// | state        | event                                                       | next state   |
/// |--------------|-------------------------------------------------------------|--------------|
/// | -            | a write is accepted                                         | `Writing`    |
/// | -            | a truncation is accepted                                    | `Truncating` |
/// | `Writing`    | a range is locked: older truncations done, none stores it   | `Writing`    |
/// | `Writing`    | a later truncation is accepted                              | `Refused`    |
/// | `Writing`    | the server forgets what later writes have stored            | `Refused`    |
/// | `Refused`    | a range that it has locked is stored                        | `Refused`    |
/// | `Refused`    | it asks for a range                                         | `Refused`    |
/// | `Truncating` | no range is locked, older ones are done; its guard is dropped | `Truncated` |
/// | any          | its handle is dropped                                       | -            |
#[derive(Debug)]
#[allow(clippy::large_enum_variant)] // Most are writes: a box for each would cost an allocation.
enum Change {
    /// A write that may lock ranges.
    Writing {
        set: WriteSet,
        /// The write may overlap an older one, which must leave out the bytes stored by it.
        is_noted: bool,
    },
    /// A write that may lock no more ranges.
    Refused,
    /// A truncation that is not done yet: later writes wait for it.
    Truncating,
    /// A truncation that is done or abandoned.
    Truncated,
}

/// The answer to a write that asks for the lock of a range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lock {
    /// The write has the range until it unlocks it.
    Granted,
    /// Another write is storing some of the range, or an older truncation is not done. Retry after the next wake-up.
    Wait,
    /// The write must store nothing more.
    Refused,
}

/// The object has [`CHANGES_OF_OBJECT_MAX`] changes under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TooMany;

/// The changes of one object that are under way, in the order of their versions.
#[derive(Debug, Default)]
pub(super) struct Changes {
    /// Changes by version, which is the order in which they came.
    changes: BTreeMap<Version, Change>,
    /// The number of changes in [`Change::Truncating`].
    truncating: usize,
    /// Ends of ranges that are being stored, by starts. No two of them overlap: two stores would race on the disk.
    locked: BTreeMap<u64, u64>,
    /// Ranges stored while an older write was under way that may have some of their bytes.
    stored: RangeMap,
}

impl Changes {
    /// Accepts a write, the newest change so far.
    pub(super) fn accept_write(&mut self, version: Version, set: WriteSet) -> Result<(), TooMany> {
        if self.changes.len() >= CHANGES_OF_OBJECT_MAX {
            return Err(TooMany);
        }
        let mut steps = OVERLAP_STEPS_MAX;
        let is_noted = self.changes.values().any(|older| match older {
            Change::Writing { set: older, .. } => set.may_overlap(older, &mut steps),
            _ => false,
        });
        let writing = Change::Writing { set, is_noted };
        self.changes.insert(version, writing);
        Ok(())
    }

    /// Accepts a truncation, the newest change so far: older writes lock nothing from now on.
    pub(super) fn accept_truncation(&mut self, version: Version) {
        self.refuse_before(version);
        self.changes.insert(version, Change::Truncating);
        self.truncating += 1;
    }

    fn refuse_before(&mut self, version: Version) {
        for (_, change) in self.changes.range_mut(..version) {
            if matches!(change, Change::Writing { .. }) {
                *change = Change::Refused;
            }
        }
        self.stored.clear();
    }

    /// Locks `bytes` for a write, which has locked none of them.
    pub(super) fn lock(&mut self, version: Version, bytes: &Range<u64>) -> Lock {
        if !matches!(self.changes.get(&version), Some(Change::Writing { .. })) {
            return Lock::Refused;
        }
        let before = self.locked.range(..bytes.end).next_back();
        let is_locked = before.is_some_and(|(_, end)| *end > bytes.start);
        if is_locked || self.is_truncated_before(version) {
            return Lock::Wait;
        }
        self.locked.insert(bytes.start, bytes.end);
        Lock::Granted
    }

    /// The parts of the locked range `bytes` that no newer write has stored.
    pub(super) fn left(&self, version: Version, bytes: &Range<u64>) -> Vec<Range<u64>> {
        self.stored.without_newer(bytes, version)
    }

    /// Notes that the object has the bytes of a locked range: those of this write or of newer ones.
    pub(super) fn note_stored(&mut self, version: Version, bytes: &Range<u64>) {
        let is_noted = matches!(
            self.changes.get(&version),
            Some(Change::Writing { is_noted: true, .. })
        );
        if is_noted && self.oldest_write().is_some_and(|oldest| oldest < version) {
            self.stored.note(bytes, version);
        }
    }

    /// Unlocks a range.
    pub(super) fn unlock(&mut self, bytes: &Range<u64>) {
        self.locked.remove(&bytes.start);
    }

    /// Whether a truncation may run now. Later writes wait for it, so no range can be locked before its end.
    pub(super) fn may_truncate(&self, version: Version) -> bool {
        self.locked.is_empty() && !self.is_truncated_before(version)
    }

    /// Ends a truncation, done or abandoned.
    pub(super) fn end_truncation(&mut self, version: Version) {
        if let Some(change) = self.changes.get_mut(&version)
            && matches!(change, Change::Truncating)
        {
            *change = Change::Truncated;
            self.truncating -= 1;
        }
    }

    /// Ends a change, whose ranges are unlocked.
    pub(super) fn end(&mut self, version: Version) {
        self.end_truncation(version);
        self.changes.remove(&version);
        // Only an older write can need the noted ranges.
        let newest = self.stored.newest();
        if !self.stored.is_empty() && self.oldest_write().is_none_or(|oldest| oldest >= newest) {
            self.stored.clear();
        }
    }

    /// Forgets the stored ranges, and refuses the older writes that had to leave them out. Their clients retry.
    pub(super) fn forget_stored(&mut self) {
        self.refuse_before(self.stored.newest());
    }

    /// The number of noted ranges.
    pub(super) fn noted(&self) -> usize {
        self.stored.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }

    fn is_truncated_before(&self, version: Version) -> bool {
        let is_truncating = |change: &Change| matches!(change, Change::Truncating);
        self.truncating > 0 && (self.changes.range(..version)).any(|(_, it)| is_truncating(it))
    }

    fn oldest_write(&self) -> Option<Version> {
        let mut changes = self.changes.iter();
        let oldest = changes.find(|(_, change)| matches!(change, Change::Writing { .. }));
        oldest.map(|(version, _)| *version)
    }
}
