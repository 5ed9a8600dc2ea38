//! Changes of the same thing happen in the order in which they were asked for.
//!
//! A change that meets a server which is away is tried again for a while, also when nobody waits for it any more: a
//! client of an NFS server that dies leaves its requests behind. When it is back and writes the same bytes anew, or
//! makes a file under the same name, what it had asked for before must not come to them behind that.

use crate::limits::CHANGES_BEFORE_MAX;
use gannet_wire::volume::FileId;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::oneshot;

/// What a change is of.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Thing {
    Bytes(FileId),
    /// What the manager knows of a file or directory.
    Attributes(FileId),
    /// A name in a directory.
    Name(FileId, Vec<u8>),
}

/// All of a thing, or some bytes of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Part {
    thing: Thing,
    bytes: Range<u64>,
}

impl Part {
    /// Bytes of a file.
    pub(crate) fn bytes(file: FileId, bytes: Range<u64>) -> Part {
        let thing = Thing::Bytes(file);
        Part { thing, bytes }
    }

    /// What the manager knows of a file or directory.
    pub(crate) fn attributes(file: FileId) -> Part {
        Part::all(Thing::Attributes(file))
    }

    /// A name in a directory, and what it stands for.
    pub(crate) fn name(directory: FileId, name: &[u8]) -> Part {
        Part::all(Thing::Name(directory, name.to_vec()))
    }

    fn all(thing: Thing) -> Part {
        let bytes = 0..u64::MAX;
        Part { thing, bytes }
    }
}

/// The changes that are under way.
#[derive(Default)]
pub(crate) struct ChangeOrder {
    under_way: Mutex<UnderWay>,
}

#[derive(Default)]
struct UnderWay {
    /// So many were ever asked for.
    asked: u64,
    changes: BTreeMap<Thing, Vec<Change>>,
}

/// A change of one part, among all that its place is for.
struct Change {
    number: u64,
    bytes: Range<u64>,
    /// It waits for earlier ones itself.
    is_waiting: bool,
    /// Dropped when it is over.
    waited_for: Vec<oneshot::Sender<()>>,
}

impl Change {
    fn touches(&self, part: &Part) -> bool {
        self.bytes.start < part.bytes.end && part.bytes.start < self.bytes.end
    }
}

/// A change's place in the order. The change is over when this is dropped.
pub(crate) struct Place {
    order: Arc<ChangeOrder>,
    parts: Vec<Part>,
    number: u64,
}

/// The changes that were asked for before another one, of the same parts.
#[derive(Default)]
pub(crate) struct Earlier(Vec<oneshot::Receiver<()>>);

/// [`CHANGES_BEFORE_MAX`] earlier changes of the same parts wait themselves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("too many changes of the same file or name are under way")]
pub(crate) struct TooMany;

impl Earlier {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Waits for all of them.
    pub(crate) async fn over(self) {
        for change in self.0 {
            // It says so by going.
            let _ = change.await;
        }
    }
}

impl ChangeOrder {
    /// Asks for a change of all these parts, which must wait for the earlier ones.
    ///
    /// # Errors
    /// [`TooMany`]: nothing has been asked for.
    pub(crate) fn enter(self: &Arc<Self>, parts: &[Part]) -> Result<(Place, Earlier), TooMany> {
        let mut under_way = self.lock();
        let before = |part: &Part| {
            let changes = under_way.changes.get(&part.thing).into_iter().flatten();
            let waiting = changes.filter(|it| it.is_waiting && it.touches(part));
            waiting.count()
        };
        if parts.iter().map(before).sum::<usize>() >= CHANGES_BEFORE_MAX {
            return Err(TooMany);
        }
        let number = under_way.asked;
        under_way.asked += 1;
        let mut earlier = Vec::new();
        for part in parts {
            let changes = under_way.changes.entry(part.thing.clone()).or_default();
            // The same thing may be there twice: a name that is moved to itself.
            let others = changes.iter_mut().filter(|it| it.number != number);
            earlier.extend(others.filter(|it| it.touches(part)).map(|change| {
                let (over, waits) = oneshot::channel();
                change.waited_for.push(over);
                waits
            }));
            changes.push(Change {
                number,
                bytes: part.bytes.clone(),
                is_waiting: true,
                waited_for: Vec::new(),
            });
        }
        drop(under_way);
        let place = Place {
            order: Arc::clone(self),
            parts: parts.to_vec(),
            number,
        };
        if earlier.is_empty() {
            place.begins();
        }
        Ok((place, Earlier(earlier)))
    }

    fn lock(&self) -> MutexGuard<'_, UnderWay> {
        self.under_way
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl Place {
    /// It waits no longer.
    pub(crate) fn begins(&self) {
        let mut under_way = self.order.lock();
        for Part { thing, .. } in &self.parts {
            let changes = under_way.changes.get_mut(thing).into_iter().flatten();
            let own = changes.filter(|it| it.number == self.number);
            own.for_each(|it| it.is_waiting = false);
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut over = Vec::new();
        {
            let mut under_way = self.order.lock();
            for Part { thing, .. } in &self.parts {
                let Some(changes) = under_way.changes.get_mut(thing) else {
                    continue;
                };
                over.extend(changes.extract_if(.., |it| it.number == self.number));
                if changes.is_empty() {
                    under_way.changes.remove(thing);
                }
            }
        }
        // Wakes those who wait, not under the lock.
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

    fn bytes(range: Range<u64>) -> [Part; 1] {
        [Part::bytes(FILE, range)]
    }

    fn name(name: &[u8]) -> Part {
        Part::name(FILE, name)
    }

    #[test]
    fn changes_wait_for_earlier_ones_of_the_same_bytes_alone() {
        let order = Arc::new(ChangeOrder::default());
        let (first, none) = order.enter(&bytes(10..20)).unwrap();
        assert!(none.is_empty());
        let others = [
            Part::bytes(FILE, 0..10),
            Part::bytes(FILE, 20..30),
            Part::bytes(FileId(2), 10..20),
            Part::attributes(FILE),
            name(b"file"),
        ];
        for other in others {
            assert!(order.enter(&[other]).unwrap().1.is_empty());
        }
        let (second, earlier) = order.enter(&bytes(19..25)).unwrap();
        let mut waits = pin!(earlier.over());
        let (third, both) = order.enter(&bytes(0..u64::MAX)).unwrap();
        let mut waits_for_both = pin!(both.over());
        assert!(poll(waits.as_mut()).is_pending());
        drop(first);
        assert!(poll(waits.as_mut()).is_ready());
        assert!(poll(waits_for_both.as_mut()).is_pending());
        drop(second);
        assert!(poll(waits_for_both.as_mut()).is_ready());
        drop(third);
        assert!(order.lock().changes.is_empty(), "nothing is kept");
    }

    #[test]
    fn a_change_of_two_names_waits_for_both_and_not_for_itself() {
        let order = Arc::new(ChangeOrder::default());
        let (itself, none) = order.enter(&[name(b"a"), name(b"a")]).unwrap();
        assert!(none.is_empty());
        drop(itself);
        let (one, _) = order.enter(&[name(b"a")]).unwrap();
        let (other, _) = order.enter(&[name(b"b")]).unwrap();
        let (moved, both) = order.enter(&[name(b"a"), name(b"b")]).unwrap();
        let mut waits = pin!(both.over());
        drop(one);
        assert!(poll(waits.as_mut()).is_pending());
        drop(other);
        assert!(poll(waits.as_mut()).is_ready());
        let (_last, after) = order.enter(&[name(b"b")]).unwrap();
        let mut waits = pin!(after.over());
        assert!(poll(waits.as_mut()).is_pending());
        drop(moved);
        assert!(poll(waits.as_mut()).is_ready());
    }

    #[test]
    fn no_change_waits_for_too_many() {
        let order = Arc::new(ChangeOrder::default());
        let parts = bytes(0..1);
        let enter = || order.enter(&parts);
        let first = enter().unwrap();
        let places: Vec<_> = (0..CHANGES_BEFORE_MAX).map(|_| enter().unwrap()).collect();
        assert!(enter().is_err());
        drop((first, places));
        assert!(enter().unwrap().1.is_empty());
    }

    #[test]
    fn a_change_of_all_waits_for_as_many_as_are_under_way() {
        let order = Arc::new(ChangeOrder::default());
        let many = 2 * CHANGES_BEFORE_MAX as u64;
        let writes = (0..many).map(|at| order.enter(&bytes(at..at + 1)).unwrap());
        let writes: Vec<_> = writes.collect();
        assert!(writes.iter().all(|(_, earlier)| earlier.is_empty()));
        let (cut, earlier) = order.enter(&bytes(0..u64::MAX)).unwrap();
        let mut waits = pin!(earlier.over());
        assert!(poll(waits.as_mut()).is_pending());
        drop(writes);
        assert!(poll(waits.as_mut()).is_ready());
        cut.begins();
    }
}
