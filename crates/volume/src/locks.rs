//! Locks of the byte ranges of one file, and their conflicts.
//!
//! The manager decides with this table; a client keeps one of its own locks, to reclaim them when the manager has
//! restarted. Rules of POSIX fcntl(2): a lock replaces what its owner had of the same bytes, unlocking may cut a
//! range in two, and owners that touch are kept as one range.

use gannet_wire::volume::LockKind;
use std::ops::RangeInclusive;

/// A lock that is held. Owners are only compared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeldLock<O> {
    /// The owner.
    pub owner: O,
    /// The kind, which decides the conflicts.
    pub kind: LockKind,
    /// First and last byte.
    pub range: RangeInclusive<u64>,
    /// The process that asked for it, for the reports to others.
    pub process: u32,
}

impl<O: PartialEq> HeldLock<O> {
    fn meets(&self, range: &RangeInclusive<u64>) -> bool {
        self.range.start() <= range.end() && range.start() <= self.range.end()
    }

    /// Whether it conflicts with `other`.
    fn excludes(&self, other: &HeldLock<O>) -> bool {
        let is_exclusive = self.kind == LockKind::Exclusive || other.kind == LockKind::Exclusive;
        self.owner != other.owner && is_exclusive && self.meets(&other.range)
    }

    /// Whether both are one lock of the bytes of both.
    fn continues(&self, other: &HeldLock<O>) -> bool {
        let is_like =
            self.owner == other.owner && self.kind == other.kind && self.process == other.process;
        let touches = self.range.end().checked_add(1) == Some(*other.range.start());
        is_like && touches
    }
}

/// The locks of a file, by their first bytes. The ranges of one owner never overlap.
#[derive(Debug, Clone)]
pub struct RangeLocks<O> {
    held: Vec<HeldLock<O>>,
}

impl<O> Default for RangeLocks<O> {
    fn default() -> RangeLocks<O> {
        RangeLocks { held: Vec::new() }
    }
}

impl<O: PartialEq + Clone> RangeLocks<O> {
    /// The conflicting lock of another owner with the lowest first byte.
    pub fn conflict(&self, wanted: &HeldLock<O>) -> Option<&HeldLock<O>> {
        self.held.iter().find(|it| it.excludes(wanted))
    }

    /// Adds a lock, in place of its owner's locks of these bytes. The caller has looked for a [`RangeLocks::conflict`].
    /// The time grows with the number of locks, not with its square.
    pub fn hold(&mut self, mut lock: HeldLock<O>) {
        self.release(&lock.owner, lock.range.clone());
        // Ranges of one owner that touch are one lock already, so at most one ends where this begins, and one begins
        // where it ends.
        if let Some(at) = self.held.iter().position(|it| it.continues(&lock)) {
            let before = self.held.remove(at);
            lock.range = *before.range.start()..=*lock.range.end();
        }
        if let Some(at) = self.held.iter().position(|it| lock.continues(it)) {
            let after = self.held.remove(at);
            lock.range = *lock.range.start()..=*after.range.end();
        }
        let start = *lock.range.start();
        let at = self.held.partition_point(|it| *it.range.start() < start);
        self.held.insert(at, lock);
    }

    /// Releases an owner's locks of these bytes. A range around them becomes two.
    pub fn release(&mut self, owner: &O, range: RangeInclusive<u64>) {
        let mut rests = Vec::new();
        self.held.retain(|it| {
            if it.owner != *owner || !it.meets(&range) {
                return true;
            }
            if it.range.start() < range.start() {
                let before = *it.range.start()..=range.start() - 1;
                rests.push(HeldLock {
                    range: before,
                    ..it.clone()
                });
            }
            if it.range.end() > range.end() {
                let after = range.end() + 1..=*it.range.end();
                rests.push(HeldLock {
                    range: after,
                    ..it.clone()
                });
            }
            false
        });
        if rests.is_empty() {
            return;
        }
        self.held.extend(rests);
        self.held.sort_by_key(|it| *it.range.start());
    }

    /// Releases all locks of the owners for which `is_gone` holds.
    pub fn release_all(&mut self, mut is_gone: impl FnMut(&O) -> bool) {
        self.held.retain(|it| !is_gone(&it.owner));
    }

    /// All that are held.
    pub fn iter(&self) -> impl Iterator<Item = &HeldLock<O>> {
        self.held.iter()
    }

    /// How many are held.
    pub fn len(&self) -> usize {
        self.held.len()
    }

    /// Whether none is held.
    pub fn is_empty(&self) -> bool {
        self.held.is_empty()
    }
}

#[cfg(test)]
mod tests;
