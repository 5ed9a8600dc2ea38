use super::*;
use crate::limits::CHANGES_OF_OBJECT_MAX;
use gannet_wire::volume::{Level, Piece};
use std::future::Future;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};

const ALONE: Placement = Placement {
    unit: 4096,
    width: 1,
    index: 0,
};

fn object(file: u64) -> ObjectId {
    ObjectId { group: 0, file }
}

fn poll<T>(future: Pin<&mut impl Future<Output = T>>) -> Poll<T> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

fn bytes(offset: u64, len: u32) -> Shape {
    Shape::contiguous(offset, len).unwrap()
}

fn rows(offset: u64, stride: u64, count: u32) -> Shape {
    let level = Level { count, stride };
    Shape::nested(Piece { offset, len: 10 }, vec![level]).unwrap()
}

fn locked<'a>(write: &'a Write<'a>, bytes: Range<u64>) -> RangeGuard<'a> {
    match poll(pin!(write.lock(bytes))) {
        Poll::Ready(Some(guard)) => guard,
        _ => panic!("something is in the way"),
    }
}

fn is_refused(write: &Write<'_>, bytes: Range<u64>) -> bool {
    matches!(poll(pin!(write.lock(bytes))), Poll::Ready(None))
}

fn left(guard: &RangeGuard<'_>) -> Vec<(u64, u64)> {
    let left = guard.left().into_iter();
    left.map(|it| (it.start, it.end)).collect()
}

#[test]
fn a_truncation_waits_for_what_is_being_stored_and_refuses_what_had_only_begun() {
    let locks = RangeLocks::default();
    let write = || locks.write(object(7), &bytes(0, 100), ALONE).unwrap();
    let late = write();
    let early = locks.write(object(7), &bytes(500, 100), ALONE).unwrap();
    let guard = locked(&early, 500..600);
    let truncation = locks.truncate(object(7));
    let mut truncating = pin!(truncation.lock());
    assert!(poll(truncating.as_mut()).is_pending());
    drop(guard);
    let Poll::Ready(alone) = poll(truncating.as_mut()) else {
        panic!("nothing is in the way any more");
    };
    let after = write();
    let mut locked_after = pin!(after.lock(0..100));
    assert!(poll(locked_after.as_mut()).is_pending());
    assert!(is_refused(&late, 0..100) && is_refused(&early, 500..600));
    drop(alone);
    assert!(matches!(poll(locked_after.as_mut()), Poll::Ready(Some(_))));
}

#[test]
fn truncations_run_in_order_and_an_abandoned_one_delays_no_other() {
    let locks = RangeLocks::default();
    let (first, second) = (locks.truncate(object(7)), locks.truncate(object(7)));
    let write = locks.write(object(7), &bytes(0, 100), ALONE).unwrap();
    let mut waits = pin!(second.lock());
    assert!(poll(waits.as_mut()).is_pending());
    drop(first);
    let Poll::Ready(guard) = poll(waits.as_mut()) else {
        panic!("nothing is in the way any more");
    };
    assert!(poll(pin!(write.lock(0..100))).is_pending());
    drop(guard);
    locked(&write, 0..100).stored();
}

#[test]
fn ranges_that_a_later_write_stored_are_left_out_of_earlier_writes() {
    let locks = RangeLocks::default();
    let old = locks.write(object(7), &bytes(0, 10_000), ALONE).unwrap();
    let guard = locked(&old, 0..5000);
    let new = locks.write(object(7), &bytes(4000, 2000), ALONE).unwrap();
    let mut waits = pin!(new.lock(4000..6000));
    assert!(poll(waits.as_mut()).is_pending());
    assert_eq!(left(&guard), [(0, 5000)]);
    guard.stored();
    let Poll::Ready(Some(guard)) = poll(waits.as_mut()) else {
        panic!("nothing is in the way any more");
    };
    assert!(poll(pin!(old.lock(5000..10_000))).is_pending());
    guard.stored();
    assert_eq!(left(&locked(&old, 5000..10_000)), [(6000, 10_000)]);
    // The later write may be over before the earlier one stores its bytes.
    let newest = locks.write(object(7), &bytes(9000, 100), ALONE).unwrap();
    locked(&newest, 9000..9100).stored();
    drop(newest);
    let both = [(6000, 9000), (9100, 10_000)];
    assert_eq!(left(&locked(&old, 5000..10_000)), both);
}

#[test]
fn ranges_that_a_later_write_did_not_store_are_not_left_out() {
    let locks = RangeLocks::default();
    let old = locks.write(object(7), &bytes(0, 100), ALONE).unwrap();
    let new = locks.write(object(7), &bytes(0, 100), ALONE).unwrap();
    // The disk is full, so the new write stores nothing.
    drop(locked(&new, 0..100));
    assert_eq!(left(&locked(&old, 0..100)), [(0, 100)]);
}

#[test]
fn interleaved_rows_leave_no_noted_ranges() {
    let locks = RangeLocks::default();
    let ranks = (0..30).map(|rank| {
        locks
            .write(object(7), &rows(10 * rank, 300, 1 << 20), ALONE)
            .unwrap()
    });
    let ranks: Vec<Write<'_>> = ranks.collect();
    for (rank, at) in ranks.iter().zip(0u64..) {
        locked(rank, 10 * at..10 * at + 10).stored();
    }
    assert_eq!(locks.noted.get(), 0);
    let across = locks
        .write(object(7), &rows(5, 300, 1 << 20), ALONE)
        .unwrap();
    locked(&across, 5..15).stored();
    assert_eq!(locks.noted.get(), 1);
    assert_eq!(left(&locked(&ranks[0], 0..10)), [(0, 5)]);
    drop((ranks, across));
    assert_eq!(locks.noted.get(), 0);
}

#[test]
fn noted_ranges_are_bounded_and_writes_that_needed_more_are_refused() {
    let locks = RangeLocks::default();
    let stride = 20;
    let all = rows(0, stride, 1 << 20);
    let (other, elsewhere) = (
        locks.write(object(8), &all, ALONE).unwrap(),
        locks.write(object(8), &all, ALONE).unwrap(),
    );
    locked(&elsewhere, 0..10).stored();
    let old = locks.write(object(7), &all, ALONE).unwrap();
    let new = locks.write(object(7), &all, ALONE).unwrap();
    let mut waits = pin!(old.lock(0..10));
    let guard = locked(&new, 0..10);
    assert!(poll(waits.as_mut()).is_pending());
    guard.stored();
    for row in 1..=NOTED_RANGES_MAX as u64 {
        locked(&new, row * stride..row * stride + 10).stored();
        assert!(locks.noted.get() <= NOTED_RANGES_MAX);
    }
    assert!(matches!(poll(waits), Poll::Ready(None)), "it hears of it");
    assert!(is_refused(&old, 0..10));
    // Other writes go on: the one that stored the ranges, and those of other objects.
    locked(&new, 0..10).stored();
    assert_eq!(left(&locked(&other, 0..20)), [(10, 20)]);
}

#[test]
fn no_object_has_too_many_changes() {
    let locks = RangeLocks::default();
    let write = |file| locks.write(file, &bytes(0, 100), ALONE);
    let writes: Vec<_> = (0..CHANGES_OF_OBJECT_MAX)
        .map(|_| write(object(7)).unwrap())
        .collect();
    assert!(matches!(write(object(7)), Err(Status::Jukebox)));
    drop(write(object(8)).unwrap());
    drop(writes);
    drop(write(object(7)).unwrap());
    assert!(locks.objects.borrow().is_empty());
}

#[test]
fn other_objects_do_not_wait_and_nothing_is_left_behind() {
    let locks = RangeLocks::default();
    let one = locks.truncate(object(7));
    let other = locks.write(object(8), &bytes(0, 100), ALONE).unwrap();
    let same = locks.write(object(8), &bytes(0, 100), ALONE).unwrap();
    assert!(poll(pin!(one.lock())).is_ready());
    drop(locked(&other, 0..100));
    locked(&same, 0..100).stored();
    let weak = Rc::downgrade(&same.0.object);
    drop((one, other, same));
    assert!(locks.objects.borrow().is_empty());
    assert!(weak.upgrade().is_none());
    assert_eq!(locks.noted.get(), 0);
}
