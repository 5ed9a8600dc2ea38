//! Changes of the same bytes of a file happen in the order in which they were asked for.
//!
//! A change that meets a server which is away is tried again for a while, also when nobody waits for it any more: a
//! client of an NFS server that dies leaves its requests behind. When it is back and writes the same bytes anew, what
//! it had asked for before must not come to them behind that.

use crate::meta::FileId;
use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};
use tokio::sync::oneshot;

/// The changes of files' bytes that are under way.
#[derive(Default)]
pub(crate) struct ChangeOrder {
    under_way: Mutex<UnderWay>,
}

#[derive(Default)]
struct UnderWay {
    /// So many were ever asked for.
    asked: u64,
    files: HashMap<FileId, Vec<Change>>,
}

struct Change {
    number: u64,
    bytes: Range<u64>,
    /// Dropped when it is over.
    waited_for: Vec<oneshot::Sender<()>>,
}

/// A change's place in the order. The change is over when this is dropped.
pub(crate) struct Place<'a> {
    order: &'a ChangeOrder,
    file: FileId,
    number: u64,
}

/// The changes that were asked for before another one, of the same bytes.
#[derive(Default)]
pub(crate) struct Earlier(Vec<oneshot::Receiver<()>>);

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
    /// Asks for a change of these bytes, which must wait for the earlier ones.
    pub(crate) fn enter(&self, file: FileId, bytes: Range<u64>) -> (Place<'_>, Earlier) {
        let mut under_way = self.lock();
        let number = under_way.asked;
        under_way.asked += 1;
        let changes = under_way.files.entry(file).or_default();
        let overlaps = |it: &&mut Change| it.bytes.start < bytes.end && bytes.start < it.bytes.end;
        let earlier = changes.iter_mut().filter(overlaps).map(|change| {
            let (over, waits) = oneshot::channel();
            change.waited_for.push(over);
            waits
        });
        let earlier = Earlier(earlier.collect());
        changes.push(Change {
            number,
            bytes,
            waited_for: Vec::new(),
        });
        let place = Place {
            order: self,
            file,
            number,
        };
        (place, earlier)
    }

    fn lock(&self) -> MutexGuard<'_, UnderWay> {
        self.under_way
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let over = {
            let mut under_way = self.order.lock();
            let Some(changes) = under_way.files.get_mut(&self.file) else {
                return;
            };
            let own = changes.iter().position(|it| it.number == self.number);
            let over = own.map(|index| changes.swap_remove(index));
            if changes.is_empty() {
                under_way.files.remove(&self.file);
            }
            over
        };
        // Wakes those who wait, not under the lock.
        drop(over);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::pin::{Pin, pin};
    use std::task::{Context, Poll, Waker};

    const FILE: FileId = FileId(1);

    fn poll(waits: Pin<&mut impl Future<Output = ()>>) -> Poll<()> {
        waits.poll(&mut Context::from_waker(Waker::noop()))
    }

    #[test]
    fn changes_wait_for_earlier_ones_of_the_same_bytes_alone() {
        let order = ChangeOrder::default();
        let (first, none) = order.enter(FILE, 10..20);
        assert!(none.is_empty());
        assert!(order.enter(FILE, 0..10).1.is_empty());
        assert!(order.enter(FILE, 20..30).1.is_empty());
        assert!(order.enter(FileId(2), 10..20).1.is_empty());
        let (second, earlier) = order.enter(FILE, 19..25);
        let mut waits = pin!(earlier.over());
        let (third, both) = order.enter(FILE, 0..u64::MAX);
        let mut waits_for_both = pin!(both.over());
        assert!(poll(waits.as_mut()).is_pending());
        drop(first);
        assert!(poll(waits.as_mut()).is_ready());
        assert!(poll(waits_for_both.as_mut()).is_pending());
        drop(second);
        assert!(poll(waits_for_both.as_mut()).is_ready());
        drop(third);
        assert!(order.lock().files.is_empty(), "nothing is kept");
    }
}
