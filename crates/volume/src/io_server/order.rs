//! Writes and truncations of one object: what was asked for before a truncation is not stored after it.
//!
//! A write may be under way for long: its bytes have to be fetched, or the disk is slow. Meanwhile its client may die,
//! others may cut the file, and be told how long it is; stored after that, it would make the file longer again. So a
//! truncation waits for what is being stored, and what had only begun is refused: a client that still waits for it
//! tries again.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use tokio::sync::{RwLock, RwLockReadGuard, RwLockWriteGuard};

/// The objects that are being written or truncated, by file.
#[derive(Default)]
pub(super) struct Orders {
    objects: RefCell<HashMap<u64, Rc<Order>>>,
}

#[derive(Default)]
struct Order {
    truncations: Cell<u64>,
    turn: RwLock<()>,
}

/// A write or a truncation that is under way.
pub(super) struct Begun<'a> {
    orders: &'a Orders,
    file: u64,
    order: Rc<Order>,
    /// How many truncations had begun before it.
    after: u64,
}

impl Orders {
    /// Something begins to change a file's object.
    pub(super) fn begin(&self, file: u64) -> Begun<'_> {
        let order = Rc::clone(self.objects.borrow_mut().entry(file).or_default());
        Begun {
            orders: self,
            file,
            after: order.truncations.get(),
            order,
        }
    }
}

impl Begun<'_> {
    /// A write stores bytes while it has this; `None` when the object has been truncated since the write began.
    pub(super) async fn store(&self) -> Option<RwLockReadGuard<'_, ()>> {
        let turn = self.order.turn.read().await;
        (self.order.truncations.get() == self.after).then_some(turn)
    }

    /// A truncation is done while it has this.
    pub(super) async fn truncate(&self) -> RwLockWriteGuard<'_, ()> {
        let truncations = &self.order.truncations;
        truncations.set(truncations.get() + 1);
        self.order.turn.write().await
    }
}

impl Drop for Begun<'_> {
    fn drop(&mut self) {
        // The table's and this one.
        if Rc::strong_count(&self.order) == 2 {
            self.orders.objects.borrow_mut().remove(&self.file);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    fn poll<T>(future: std::pin::Pin<&mut impl Future<Output = T>>) -> Poll<T> {
        future.poll(&mut Context::from_waker(Waker::noop()))
    }

    #[test]
    fn a_truncation_waits_for_what_is_being_stored_and_refuses_what_had_only_begun() {
        let orders = Orders::default();
        let (early, late) = (orders.begin(7), orders.begin(7));
        let Poll::Ready(Some(storing)) = poll(pin!(early.store())) else {
            panic!("nothing is in the way");
        };
        let cut = orders.begin(7);
        let mut truncating = pin!(cut.truncate());
        assert!(poll(truncating.as_mut()).is_pending());
        drop(storing);
        let Poll::Ready(alone) = poll(truncating.as_mut()) else {
            panic!("nothing is in the way any more");
        };
        let after = orders.begin(7);
        let mut stored_after = pin!(after.store());
        assert!(poll(stored_after.as_mut()).is_pending());
        drop(alone);
        assert!(matches!(poll(pin!(late.store())), Poll::Ready(None)));
        assert!(matches!(poll(stored_after.as_mut()), Poll::Ready(Some(_))));
    }

    #[test]
    fn other_objects_do_not_wait_and_nothing_is_left_behind() {
        let orders = Orders::default();
        let (one, other) = (orders.begin(7), orders.begin(8));
        assert!(poll(pin!(one.truncate())).is_ready());
        assert!(matches!(poll(pin!(other.store())), Poll::Ready(Some(_))));
        drop((one, other));
        assert!(orders.objects.borrow().is_empty());
    }
}
