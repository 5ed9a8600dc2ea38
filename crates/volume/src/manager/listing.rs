//! The file locks and grants that clients have, as a list for administrators on other threads.
//!
//! A manager that somebody may watch writes the list at each sweep over its leases. It adds no call and no note to the
//! way of a request, so the list is up to three seconds old, and so is the begin of each row.

use crate::limits::LOCKS_LISTED_MAX;
use gannet_wire::volume::FileId;
use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::time::Duration;

/// The kind of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum LeaseKind {
    /// A lock of bytes that others may have too.
    Shared,
    /// A lock of bytes that excludes others.
    Exclusive,
    /// A client keeps the file when its last name goes.
    Open,
    /// The grant to write the file.
    Write,
}

impl LeaseKind {
    /// A word for scripts.
    pub const fn word(self) -> &'static str {
        match self {
            LeaseKind::Shared => "shared",
            LeaseKind::Exclusive => "exclusive",
            LeaseKind::Open => "open",
            LeaseKind::Write => "write",
        }
    }
}

/// A lock or grant that a client has, or waits for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaseRow {
    /// The file.
    pub file: FileId,
    /// The kind.
    pub kind: LeaseKind,
    /// First and last byte of a lock.
    pub range: Option<RangeInclusive<u64>>,
    /// The address of the client; grants are noted by user alone.
    pub client: Option<IpAddr>,
    /// The client's process that asked for a lock.
    pub process: Option<u32>,
    /// The client's number of the owner of a lock.
    pub owner: Option<u64>,
    /// The user who may write.
    pub uid: Option<u32>,
    /// The client waits for others' locks.
    pub waits: bool,
    /// When the list had the row for the first time, since the Unix epoch.
    pub since: Duration,
}

/// The place of a row in the list. Rows of one key are one lock at two times.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    is_granted: bool,
    file: FileId,
    kind: u8,
    first_and_last: Option<[u64; 2]>,
    client: Option<IpAddr>,
    process: Option<u32>,
    owner: Option<u64>,
    uid: Option<u32>,
}

impl LeaseRow {
    /// All of the row but its age: a thousand shared locks of one file have a thousand keys.
    fn key(&self) -> Key {
        Key {
            is_granted: !self.waits,
            file: self.file,
            kind: self.kind as u8,
            first_and_last: self.range.as_ref().map(|it| [*it.start(), *it.end()]),
            client: self.client,
            process: self.process,
            owner: self.owner,
            uid: self.uid,
        }
    }
}

/// The locks and grants at one time: those that wait first, then by file.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LeaseList {
    /// At most [`LOCKS_LISTED_MAX`].
    pub rows: Vec<LeaseRow>,
    /// The number of those that are left out.
    pub more: usize,
}

impl LeaseList {
    /// Adds the first of `count` rows, as far as there is room, and counts the others. Without room a row is not even
    /// looked for: there may be 100 times more.
    pub(super) fn add(&mut self, count: usize, rows: impl Iterator<Item = LeaseRow>) {
        let before = self.rows.len();
        self.rows.extend(rows.take(LOCKS_LISTED_MAX - before));
        self.more += count.saturating_sub(self.rows.len() - before);
    }

    /// Rows that were there `before` are as old as there. `before` is such a list itself, so it is in order.
    pub(super) fn aged_by(mut self, before: &LeaseList) -> LeaseList {
        self.rows.sort_by_cached_key(LeaseRow::key);
        for row in &mut self.rows {
            let key = row.key();
            let found = before.rows.binary_search_by(|old| old.key().cmp(&key));
            if let Some(old) = found.ok().and_then(|place| before.rows.get(place)) {
                row.since = old.since;
            }
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    fn row(file: u64, process: u32, since: u64) -> LeaseRow {
        LeaseRow {
            file: FileId(file),
            kind: LeaseKind::Exclusive,
            range: Some(0..=9),
            client: None,
            process: Some(process),
            owner: Some(1),
            uid: None,
            waits: false,
            since: Duration::from_secs(since),
        }
    }

    fn list(rows: &[LeaseRow]) -> LeaseList {
        let mut list = LeaseList::default();
        list.add(rows.len(), rows.iter().cloned());
        list
    }

    #[test]
    fn rows_keep_their_first_time_and_new_ones_have_their_own() {
        let first = list(&[row(2, 7, 10), row(1, 7, 10)]).aged_by(&LeaseList::default());
        let waits = LeaseRow {
            waits: true,
            ..row(9, 7, 20)
        };
        let second = list(&[row(1, 7, 20), row(2, 8, 20), row(2, 7, 20), waits]).aged_by(&first);
        let seen = second.rows.iter();
        let seen: Vec<_> = seen
            .map(|row| (row.file.0, row.process, row.since.as_secs()))
            .collect();
        assert_eq!(
            seen,
            [
                (9, Some(7), 20),
                (1, Some(7), 10),
                (2, Some(7), 10),
                (2, Some(8), 20)
            ]
        );
    }

    /// Before, each of them was compared with all others.
    #[test]
    fn locks_of_one_range_are_told_apart_by_their_keys() {
        let locks = |since| (0..LOCKS_LISTED_MAX as u32).map(move |process| row(1, process, since));
        let rows: Vec<_> = locks(1).collect();
        let first = list(&rows).aged_by(&LeaseList::default());
        let keys = first.rows.windows(2);
        assert!(
            keys.map(|two| (two[0].key(), two[1].key()))
                .all(|(one, next)| one < next)
        );
        let rows: Vec<_> = locks(2).rev().collect();
        assert_eq!(list(&rows).aged_by(&first), first);
    }

    #[test]
    fn the_list_has_a_bound_and_counts_the_others() {
        let mut list = LeaseList::default();
        let seen = Cell::new(0);
        let rows = |count| (0..count).map(|file| row(file, 1, seen.replace(seen.get() + 1)));
        list.add(5, rows(5));
        list.add(LOCKS_LISTED_MAX + 5, rows(LOCKS_LISTED_MAX as u64 + 5));
        list.add(7, rows(7));
        assert_eq!((list.rows.len(), list.more), (LOCKS_LISTED_MAX, 17));
        assert_eq!(seen.get(), LOCKS_LISTED_MAX as u64);
    }
}
