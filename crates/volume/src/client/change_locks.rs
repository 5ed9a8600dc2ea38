//! Range locks of changes: changes of the same bytes, attributes or name run in the locks of their requests.
//!
//! A change that meets a server which is away is tried again for a while, also when no caller waits for it any more: a
//! client of an NFS server that dies leaves its requests behind. When that client is back and writes the same bytes, or
//! makes a file under the same name, its earlier request must not run after the later one.

use crate::limits::CHANGES_BEFORE_MAX;
use gannet_wire::volume::FileId;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::oneshot;

/// The object of a lock.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum LockTarget {
    Bytes(FileId),
    /// The attributes of a file or directory at the manager.
    Attributes(FileId),
    /// A name in a directory.
    Name {
        directory: FileId,
        name: Vec<u8>,
    },
}

/// The range of a lock: all of its target, or some bytes of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LockRange {
    target: LockTarget,
    bytes: Range<u64>,
}

impl LockRange {
    /// Bytes of a file.
    pub(crate) fn bytes(file: FileId, bytes: Range<u64>) -> LockRange {
        let target = LockTarget::Bytes(file);
        LockRange { target, bytes }
    }

    /// The attributes of a file or directory at the manager.
    pub(crate) fn attributes(file: FileId) -> LockRange {
        LockRange::all(LockTarget::Attributes(file))
    }

    /// A name in a directory, and the file that it stands for.
    pub(crate) fn name(directory: FileId, name: &[u8]) -> LockRange {
        let name = name.to_vec();
        LockRange::all(LockTarget::Name { directory, name })
    }

    fn all(target: LockTarget) -> LockRange {
        let bytes = 0..u64::MAX;
        LockRange { target, bytes }
    }
}

/// The locks of all changes that are under way.
#[derive(Default)]
pub(crate) struct ChangeLocks {
    under_way: Mutex<UnderWay>,
}

#[derive(Default)]
struct UnderWay {
    /// How many were ever requested.
    requested: u64,
    changes: BTreeMap<LockTarget, Vec<Change>>,
}

/// The lock of a change on one of its ranges.
struct Change {
    number: u64,
    bytes: Range<u64>,
    /// It waits for earlier locks; otherwise it is held.
    is_waiting: bool,
    /// Dropped when the lock is released: that wakes the later changes.
    waited_for: Vec<oneshot::Sender<()>>,
}

impl Change {
    fn overlaps(&self, range: &LockRange) -> bool {
        self.bytes.start < range.bytes.end && range.bytes.start < self.bytes.end
    }
}

/// The locks of one change, waiting or held. They are released when this is dropped.
pub(crate) struct ChangeLock {
    locks: Arc<ChangeLocks>,
    ranges: Vec<LockRange>,
    number: u64,
}

/// The earlier changes that a lock waits for.
#[derive(Default)]
pub(crate) struct Earlier(Vec<oneshot::Receiver<()>>);

/// [`CHANGES_BEFORE_MAX`] earlier changes of the same ranges wait themselves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("too many changes of the same file or name are under way")]
pub(crate) struct TooMany;

impl Earlier {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Waits until all of them are over.
    pub(crate) async fn over(self) {
        for change in self.0 {
            // An error is the release: the sender is dropped, nothing is sent.
            let _ = change.await;
        }
    }
}

impl ChangeLocks {
    /// Requests locks of all these ranges for one change, which must wait for the earlier ones.
    ///
    /// All locks of a change are requested at once, under one mutex. So each change waits for earlier numbers alone,
    /// and no two wait for each other.
    ///
    /// # Errors
    /// [`TooMany`]: nothing has been requested.
    pub(crate) fn request(
        self: &Arc<Self>,
        ranges: &[LockRange],
    ) -> Result<(ChangeLock, Earlier), TooMany> {
        let mut under_way = self.lock();
        let before = |range: &LockRange| {
            let changes = under_way.changes.get(&range.target).into_iter().flatten();
            let waiting = changes.filter(|it| it.is_waiting && it.overlaps(range));
            waiting.count()
        };
        if ranges.iter().map(before).sum::<usize>() >= CHANGES_BEFORE_MAX {
            return Err(TooMany);
        }
        let number = under_way.requested;
        under_way.requested += 1;
        let mut earlier = Vec::new();
        for range in ranges {
            let changes = under_way.changes.entry(range.target.clone()).or_default();
            // Without this, a rename of a name to itself would wait for its own lock.
            let others = changes.iter_mut().filter(|it| it.number != number);
            earlier.extend(others.filter(|it| it.overlaps(range)).map(|change| {
                let (over, waits) = oneshot::channel();
                change.waited_for.push(over);
                waits
            }));
            changes.push(Change {
                number,
                bytes: range.bytes.clone(),
                is_waiting: true,
                waited_for: Vec::new(),
            });
        }
        drop(under_way);
        let lock = ChangeLock {
            locks: Arc::clone(self),
            ranges: ranges.to_vec(),
            number,
        };
        if earlier.is_empty() {
            lock.acquired();
        }
        Ok((lock, Earlier(earlier)))
    }

    fn lock(&self) -> MutexGuard<'_, UnderWay> {
        self.under_way
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl ChangeLock {
    /// The change waits no longer: it holds its locks.
    pub(crate) fn acquired(&self) {
        let mut under_way = self.locks.lock();
        for LockRange { target, .. } in &self.ranges {
            let changes = under_way.changes.get_mut(target).into_iter().flatten();
            let own = changes.filter(|it| it.number == self.number);
            own.for_each(|it| it.is_waiting = false);
        }
    }
}

impl Drop for ChangeLock {
    fn drop(&mut self) {
        let mut over = Vec::new();
        {
            let mut under_way = self.locks.lock();
            for LockRange { target, .. } in &self.ranges {
                let Some(changes) = under_way.changes.get_mut(target) else {
                    continue;
                };
                over.extend(changes.extract_if(.., |it| it.number == self.number));
                if changes.is_empty() {
                    under_way.changes.remove(target);
                }
            }
        }
        // Wakes later changes, after the mutex is unlocked: they take it.
        drop(over);
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use std::pin::{Pin, pin};
    use std::task::{Context, Poll, Waker};

    const FILE: FileId = FileId(1);

    fn poll(waits: Pin<&mut impl Future<Output = ()>>) -> Poll<()> {
        waits.poll(&mut Context::from_waker(Waker::noop()))
    }

    fn bytes(range: Range<u64>) -> [LockRange; 1] {
        [LockRange::bytes(FILE, range)]
    }

    fn name(name: &[u8]) -> LockRange {
        LockRange::name(FILE, name)
    }

    #[test]
    fn changes_wait_for_earlier_ones_of_the_same_bytes_alone() {
        let locks = Arc::new(ChangeLocks::default());
        let (first, none) = locks.request(&bytes(10..20)).unwrap();
        assert!(none.is_empty());
        let others = [
            LockRange::bytes(FILE, 0..10),
            LockRange::bytes(FILE, 20..30),
            LockRange::bytes(FileId(2), 10..20),
            LockRange::attributes(FILE),
            name(b"file"),
        ];
        for other in others {
            assert!(locks.request(&[other]).unwrap().1.is_empty());
        }
        let (second, earlier) = locks.request(&bytes(19..25)).unwrap();
        let mut waits = pin!(earlier.over());
        let (third, both) = locks.request(&bytes(0..u64::MAX)).unwrap();
        let mut waits_for_both = pin!(both.over());
        assert!(poll(waits.as_mut()).is_pending());
        drop(first);
        assert!(poll(waits.as_mut()).is_ready());
        assert!(poll(waits_for_both.as_mut()).is_pending());
        drop(second);
        assert!(poll(waits_for_both.as_mut()).is_ready());
        drop(third);
        assert!(locks.lock().changes.is_empty(), "nothing is kept");
    }

    #[test]
    fn a_change_of_two_names_waits_for_both_and_not_for_itself() {
        let locks = Arc::new(ChangeLocks::default());
        let (itself, none) = locks.request(&[name(b"a"), name(b"a")]).unwrap();
        assert!(none.is_empty());
        drop(itself);
        let (one, _) = locks.request(&[name(b"a")]).unwrap();
        let (other, _) = locks.request(&[name(b"b")]).unwrap();
        let (moved, both) = locks.request(&[name(b"a"), name(b"b")]).unwrap();
        let mut waits = pin!(both.over());
        drop(one);
        assert!(poll(waits.as_mut()).is_pending());
        drop(other);
        assert!(poll(waits.as_mut()).is_ready());
        let (_last, after) = locks.request(&[name(b"b")]).unwrap();
        let mut waits = pin!(after.over());
        assert!(poll(waits.as_mut()).is_pending());
        drop(moved);
        assert!(poll(waits.as_mut()).is_ready());
    }

    #[test]
    fn no_change_waits_for_too_many() {
        let locks = Arc::new(ChangeLocks::default());
        let ranges = bytes(0..1);
        let enter = || locks.request(&ranges);
        let first = enter().unwrap();
        let places: Vec<_> = (0..CHANGES_BEFORE_MAX).map(|_| enter().unwrap()).collect();
        assert!(enter().is_err());
        drop((first, places));
        assert!(enter().unwrap().1.is_empty());
    }

    #[test]
    fn a_change_of_all_waits_for_as_many_as_are_under_way() {
        let locks = Arc::new(ChangeLocks::default());
        let many = 2 * CHANGES_BEFORE_MAX as u64;
        let writes = (0..many).map(|at| locks.request(&bytes(at..at + 1)).unwrap());
        let writes: Vec<_> = writes.collect();
        assert!(writes.iter().all(|(_, earlier)| earlier.is_empty()));
        let (cut, earlier) = locks.request(&bytes(0..u64::MAX)).unwrap();
        let mut waits = pin!(earlier.over());
        assert!(poll(waits.as_mut()).is_pending());
        drop(writes);
        assert!(poll(waits.as_mut()).is_ready());
        cut.acquired();
    }
}
