//! Writes and truncations of one object: what came first is not stored over what came later.
//!
//! A write may be under way for long: its bytes have to be fetched, or the disk is slow. Meanwhile its client may have
//! died, or may not wait any more; others go on, write the same bytes, or cut the file and are told how long it is.
//! Stored after that, it would bring old bytes back, or make the file longer again. So what a later write has stored is
//! left out of the earlier ones, which are then as if they had been stored just before it. A truncation waits for what
//! is being stored, and the rest of that is refused: a client that still waits for it tries again.

mod ranges;

use crate::layout::{Parts, parts, runs};
use gannet_wire::volume::{Placement, Shape};
use ranges::Ranges;
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::ops::Range;
use std::rc::Rc;
use tokio::sync::Notify;

/// The objects that are being written or truncated, by file.
#[derive(Default)]
pub(super) struct Orders {
    objects: RefCell<HashMap<u64, Rc<Order>>>,
}

/// What is under way with one object, in the order in which it came.
#[derive(Default)]
struct Order {
    changes: RefCell<Vec<Rc<Change>>>,
    /// Something of it is stored, or over.
    news: Notify,
}

enum What {
    /// Of these bytes of the file, as far as an object of this placement has them.
    Write(Shape, Placement),
    Truncation,
}

struct Change {
    what: What,
    /// Of a write: others that have bytes of it, and came before it.
    earlier: RefCell<Vec<Rc<Change>>>,
    /// Of a write: others that have bytes of it, and came after it.
    later: RefCell<Vec<Rc<Change>>>,
    /// Of a write: what is being stored.
    storing: RefCell<Vec<Range<u64>>>,
    /// Of a write: what later ones have stored.
    taken: RefCell<Ranges>,
    /// Of a write: the object has been cut since it came, or is to be.
    is_cut: Cell<bool>,
    /// Of a truncation: it is not yet done.
    is_due: Cell<bool>,
}

/// A write or a truncation that is under way, until it is dropped.
pub(super) struct Begun<'a> {
    orders: &'a Orders,
    file: u64,
    order: Rc<Order>,
    change: Rc<Change>,
}

/// Bytes of an object are being stored: no other write stores any of them.
pub(super) struct Storing<'a> {
    begun: &'a Begun<'a>,
    bytes: Range<u64>,
}

/// An object is being cut.
pub(super) struct Cutting<'a> {
    begun: &'a Begun<'a>,
}

impl Orders {
    /// A write begins of the bytes of `file_shape` that an object of `placement` has.
    pub(super) fn write(&self, file: u64, file_shape: &Shape, placement: Placement) -> Begun<'_> {
        self.begin(file, What::Write(file_shape.clone(), placement))
    }

    /// A truncation begins.
    pub(super) fn truncate(&self, file: u64) -> Begun<'_> {
        self.begin(file, What::Truncation)
    }

    fn begin(&self, file: u64, what: What) -> Begun<'_> {
        let order = Rc::clone(self.objects.borrow_mut().entry(file).or_default());
        let mut changes = order.changes.borrow_mut();
        let is_due = matches!(what, What::Truncation);
        if is_due {
            changes.iter().for_each(|it| it.is_cut.set(true));
            // Those that wait hear it at once: they have turns and memory.
            order.news.notify_waiters();
        }
        let earlier = changes.iter().filter(|it| it.what.meets(&what));
        let change = Rc::new(Change {
            earlier: RefCell::new(earlier.cloned().collect()),
            what,
            later: RefCell::default(),
            storing: RefCell::default(),
            taken: RefCell::default(),
            is_cut: Cell::new(false),
            is_due: Cell::new(is_due),
        });
        for it in &*change.earlier.borrow() {
            it.later.borrow_mut().push(Rc::clone(&change));
        }
        changes.push(Rc::clone(&change));
        drop(changes);
        Begun {
            orders: self,
            file,
            order,
            change,
        }
    }
}

impl What {
    /// Whether both write the same byte.
    fn meets(&self, other: &What) -> bool {
        let (What::Write(one, place), What::Write(another, other_place)) = (self, other) else {
            return false;
        };
        let apart = one.end() <= another.start() || another.end() <= one.start();
        place != other_place || !apart && overlap(parts(one, *place), parts(another, *place))
    }
}

/// Whether two sequences have a byte in common.
fn overlap<'a>(one: Parts<'a>, another: Parts<'a>) -> bool {
    let sorted = |parts: Parts<'a>| {
        let runs = runs(parts.map(|part| (part.object_offset, part.len)), u64::MAX);
        let mut ranges: Vec<(u64, u64)> = runs.map(|(start, len)| (start, start + len)).collect();
        ranges.sort_unstable();
        ranges.into_iter().peekable()
    };
    let (mut one, mut another) = (sorted(one), sorted(another));
    while let (Some(left), Some(right)) = (one.peek(), another.peek()) {
        if left.1 <= right.0 {
            one.next();
        } else if right.1 <= left.0 {
            another.next();
        } else {
            return true;
        }
    }
    false
}

impl Change {
    /// Whether another write is storing some of these bytes.
    fn waits(&self, bytes: &Range<u64>) -> bool {
        let (earlier, later) = (self.earlier.borrow(), self.later.borrow());
        earlier.iter().chain(&*later).any(|it| {
            let storing = it.storing.borrow();
            (storing.iter()).any(|other| other.start < bytes.end && bytes.start < other.end)
        })
    }
}

impl Begun<'_> {
    /// Waits until these bytes of a write can be stored. `None`: the object has been cut since the write came.
    pub(super) async fn store(&self, bytes: Range<u64>) -> Option<Storing<'_>> {
        loop {
            let news = self.order.news.notified();
            if self.change.is_cut.get() {
                return None;
            }
            if !self.comes_after(|it| it.is_due.get()) && !self.change.waits(&bytes) {
                self.change.storing.borrow_mut().push(bytes.clone());
                return Some(Storing { begun: self, bytes });
            }
            news.await;
        }
    }

    /// Waits until a truncation can be done: for what is being stored, and for earlier ones.
    pub(super) async fn cut(&self) -> Cutting<'_> {
        loop {
            let news = self.order.news.notified();
            if !self.comes_after(|it| it.is_due.get() || !it.storing.borrow().is_empty()) {
                return Cutting { begun: self };
            }
            news.await;
        }
    }

    fn comes_after(&self, is_such: impl Fn(&Change) -> bool) -> bool {
        let changes = self.order.changes.borrow();
        let earlier = changes.iter();
        let mut earlier = earlier.take_while(|it| !Rc::ptr_eq(it, &self.change));
        earlier.any(|it| is_such(it))
    }
}

impl Storing<'_> {
    /// Those of the bytes that no later write has stored.
    pub(super) fn left(&self) -> Vec<Range<u64>> {
        self.begun.change.taken.borrow().left_of(&self.bytes)
    }

    /// They are stored, or were by later writes.
    pub(super) fn done(self) {
        for earlier in &*self.begun.change.earlier.borrow() {
            earlier.taken.borrow_mut().add(self.bytes.clone());
        }
    }
}

impl Drop for Storing<'_> {
    fn drop(&mut self) {
        let Begun { order, change, .. } = self.begun;
        let mut storing = change.storing.borrow_mut();
        if let Some(at) = storing.iter().position(|it| *it == self.bytes) {
            storing.swap_remove(at);
        }
        order.news.notify_waiters();
    }
}

impl Drop for Cutting<'_> {
    fn drop(&mut self) {
        self.begun.change.is_due.set(false);
        self.begun.order.news.notify_waiters();
    }
}

impl Drop for Begun<'_> {
    fn drop(&mut self) {
        let own = &self.change;
        for it in own.earlier.take() {
            it.later.borrow_mut().retain(|it| !Rc::ptr_eq(it, own));
        }
        for it in own.later.take() {
            it.earlier.borrow_mut().retain(|it| !Rc::ptr_eq(it, own));
        }
        let mut changes = self.order.changes.borrow_mut();
        changes.retain(|it| !Rc::ptr_eq(it, own));
        self.order.news.notify_waiters();
        if changes.is_empty() {
            self.orders.objects.borrow_mut().remove(&self.file);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gannet_wire::volume::{Level, Piece};
    use std::future::Future;
    use std::pin::{Pin, pin};
    use std::task::{Context, Poll, Waker};

    const ALONE: Placement = Placement {
        unit: 4096,
        width: 1,
        index: 0,
    };

    fn poll<T>(future: Pin<&mut impl Future<Output = T>>) -> Poll<T> {
        future.poll(&mut Context::from_waker(Waker::noop()))
    }

    fn bytes(offset: u64, len: u32) -> Shape {
        Shape::contiguous(offset, len).unwrap()
    }

    fn stores<'a>(begun: &'a Begun<'a>, bytes: Range<u64>) -> Storing<'a> {
        match poll(pin!(begun.store(bytes))) {
            Poll::Ready(Some(storing)) => storing,
            _ => panic!("something is in the way"),
        }
    }

    fn left(storing: &Storing<'_>) -> Vec<(u64, u64)> {
        let left = storing.left().into_iter();
        left.map(|it| (it.start, it.end)).collect()
    }

    #[test]
    fn a_truncation_waits_for_what_is_being_stored_and_refuses_what_had_only_begun() {
        let orders = Orders::default();
        let write = || orders.write(7, &bytes(0, 100), ALONE);
        let late = write();
        let early = orders.write(7, &bytes(500, 100), ALONE);
        let storing = stores(&early, 500..600);
        let cut = orders.truncate(7);
        let mut truncating = pin!(cut.cut());
        assert!(poll(truncating.as_mut()).is_pending());
        drop(storing);
        let Poll::Ready(alone) = poll(truncating.as_mut()) else {
            panic!("nothing is in the way any more");
        };
        let after = write();
        let mut stored_after = pin!(after.store(0..100));
        assert!(poll(stored_after.as_mut()).is_pending());
        assert!(matches!(poll(pin!(late.store(0..100))), Poll::Ready(None)));
        drop(alone);
        assert!(matches!(poll(stored_after.as_mut()), Poll::Ready(Some(_))));
    }

    #[test]
    fn what_a_later_write_has_stored_is_left_out_of_earlier_ones() {
        let orders = Orders::default();
        let old = orders.write(7, &bytes(0, 10_000), ALONE);
        let storing = stores(&old, 0..5000);
        let new = orders.write(7, &bytes(4000, 2000), ALONE);
        let mut stored = pin!(new.store(4000..6000));
        assert!(poll(stored.as_mut()).is_pending());
        assert_eq!(left(&storing), [(0, 5000)]);
        storing.done();
        let Poll::Ready(Some(storing)) = poll(stored.as_mut()) else {
            panic!("nothing is in the way any more");
        };
        assert!(poll(pin!(old.store(5000..10_000))).is_pending());
        storing.done();
        assert_eq!(left(&stores(&old, 5000..10_000)), [(6000, 10_000)]);
        // It may be over by then.
        let newest = orders.write(7, &bytes(9000, 100), ALONE);
        stores(&newest, 9000..9100).done();
        drop(newest);
        let both = [(6000, 9000), (9100, 10_000)];
        assert_eq!(left(&stores(&old, 5000..10_000)), both);
    }

    #[test]
    fn what_was_not_stored_is_not_left_out() {
        let orders = Orders::default();
        let old = orders.write(7, &bytes(0, 100), ALONE);
        let new = orders.write(7, &bytes(0, 100), ALONE);
        // The disk is full.
        drop(stores(&new, 0..100));
        assert_eq!(left(&stores(&old, 0..100)), [(0, 100)]);
    }

    #[test]
    fn rows_that_lie_between_each_other_do_not_meet() {
        let rows = |offset, stride| {
            let level = Level { count: 100, stride };
            Shape::nested(Piece { offset, len: 10 }, vec![level]).unwrap()
        };
        let orders = Orders::default();
        let one = orders.write(7, &rows(0, 20), ALONE);
        let another = orders.write(7, &rows(10, 20), ALONE);
        assert!(another.change.earlier.borrow().is_empty());
        let across = orders.write(7, &rows(5, 40), ALONE);
        assert_eq!(across.change.earlier.borrow().len(), 2);
        // Bytes in which both meet are on the other one of two servers.
        let half = Placement {
            unit: 10,
            width: 2,
            index: 0,
        };
        let whole = orders.write(8, &bytes(0, 30), half);
        let odd = orders.write(8, &rows(10, 40), half);
        assert!(odd.change.earlier.borrow().is_empty());
        drop((one, whole));
    }

    #[test]
    fn other_objects_do_not_wait_and_nothing_is_left_behind() {
        let orders = Orders::default();
        let one = orders.truncate(7);
        let other = orders.write(8, &bytes(0, 100), ALONE);
        let same = orders.write(8, &bytes(0, 100), ALONE);
        assert!(poll(pin!(one.cut())).is_ready());
        drop(stores(&other, 0..100));
        let weak = Rc::downgrade(&same.change);
        drop((one, other, same));
        assert!(orders.objects.borrow().is_empty());
        assert!(weak.upgrade().is_none());
    }
}
