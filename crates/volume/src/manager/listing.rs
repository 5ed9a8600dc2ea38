//! The file locks and grants that clients have, as a list for administrators on other threads.
//!
//! The manager writes the list at each sweep over its leases. It adds no call and no note to the way of a request, so
//! the list is up to three seconds old, and so is the begin of each row.

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

impl LeaseRow {
    /// Whether both are one lock at two times.
    fn is_same(&self, other: &LeaseRow) -> bool {
        let other = LeaseRow {
            since: self.since,
            ..other.clone()
        };
        *self == other
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
    /// Adds a row, if there is room. Without room it is not even made: there may be many more.
    pub(super) fn add(&mut self, row: impl FnOnce() -> LeaseRow) {
        if self.rows.len() < LOCKS_LISTED_MAX {
            self.rows.push(row());
        } else {
            self.more += 1;
        }
    }

    /// Rows that were there `before` are as old as there. Both lists are in one order, so a row is near its old place.
    pub(super) fn aged_by(mut self, before: &LeaseList) -> LeaseList {
        let key = |row: &LeaseRow| {
            let start = row.range.as_ref().map(|range| *range.start());
            (!row.waits, row.file, row.kind as u8, start)
        };
        self.rows.sort_by_key(key);
        for row in &mut self.rows {
            let from = before.rows.partition_point(|old| key(old) < key(row));
            let alike = before.rows.iter().skip(from);
            let mut alike = alike.take_while(|old| key(old) == key(row));
            if let Some(old) = alike.find(|old| old.is_same(row)) {
                row.since = old.since;
            }
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        rows.iter().for_each(|row| list.add(|| row.clone()));
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
                (2, Some(8), 20),
                (2, Some(7), 10)
            ]
        );
    }

    #[test]
    fn the_list_has_a_bound_and_counts_the_others() {
        let mut list = LeaseList::default();
        (0..LOCKS_LISTED_MAX as u64 + 5).for_each(|file| list.add(|| row(file, 1, 1)));
        assert_eq!((list.rows.len(), list.more), (LOCKS_LISTED_MAX, 5));
    }
}
