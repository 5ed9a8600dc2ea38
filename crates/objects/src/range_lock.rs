//! Range locks: writes and truncations of one object run in the order in which they came.
//!
//! A write may be under way for long, because its bytes must be fetched or the disk is slow. Meanwhile its client may
//! crash or abandon it. Other clients may write the same bytes, or truncate the file and read its new size. A store of
//! the old write after that would bring old bytes back or make the file longer again. Therefore:
//!
//! - A range that is being stored is locked: no other write stores any of its bytes meanwhile.
//! - Earlier writes leave out the bytes that a later write has stored, as if they had been stored just before it. An
//!   interval map has the version that stored each range last, for ranges that an earlier write may still store.
//! - A truncation waits for ranges that are being stored. It refuses the rest of the earlier writes, and a client that
//!   still waits for one retries it. Later writes wait for the truncation.
//!
//! A write that waits for a range waits only for the disk. It does not wait for memory, a permit or a peer of another
//! request, so two writes never wait for each other.

mod changes;
mod overlap;
mod range_map;

use crate::limits::NOTED_RANGES_MAX;
use changes::{Changes, Lock, TooMany};
use gannet_vfs::Status;
use gannet_wire::volume::{ObjectId, Placement, Shape};
use overlap::WriteSet;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;
use tokio::sync::Notify;

/// The version of an object after a change. It rises with each change that the server accepts, of any object, and
/// exists in the server's memory alone.
///
/// Bytes of an object never go back to an older version: a write leaves out the bytes that a newer version has stored.
/// A false overlap of two writes is safe, because the map then only notes more than any write needs.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Version(u64);

/// The objects that writes or truncations are changing.
#[derive(Default)]
pub(crate) struct RangeLocks {
    objects: RefCell<BTreeMap<ObjectId, Rc<Object>>>,
    newest: Cell<Version>,
    /// The number of ranges in the interval maps of all objects.
    noted: Cell<usize>,
}

/// The changes of one object that are under way.
#[derive(Default)]
struct Object {
    changes: RefCell<Changes>,
    /// A range was unlocked, a change was refused, or a truncation ended.
    wake_up: Notify,
}

/// A change that was accepted; its drop ends it.
struct Accepted<'a> {
    locks: &'a RangeLocks,
    name: ObjectId,
    object: Rc<Object>,
    version: Version,
}

/// A write that was accepted; its drop ends it.
pub struct Write<'a>(Accepted<'a>);

/// A truncation that was accepted; its drop ends it, done or not.
pub(crate) struct Truncation<'a>(Accepted<'a>);

/// The lock of a range of an object for a write.
pub(crate) struct RangeGuard<'a> {
    write: &'a Accepted<'a>,
    bytes: Range<u64>,
}

/// The lock of a whole object for a truncation.
pub(crate) struct ObjectGuard<'a> {
    truncation: &'a Accepted<'a>,
}

impl RangeLocks {
    /// Accepts a write of the bytes of `shape` that an object of `placement` has.
    ///
    /// # Errors
    /// `Jukebox`: too many changes of the object are under way.
    pub(crate) fn write(
        &self,
        name: ObjectId,
        shape: &Shape,
        placement: Placement,
    ) -> Result<Write<'_>, Status> {
        let write = self.accept(name);
        let set = WriteSet::new(shape, placement);
        let accepted = (write.object.changes.borrow_mut()).accept_write(write.version, set);
        accepted.map_err(|TooMany| Status::Jukebox)?;
        Ok(Write(write))
    }

    /// Accepts a truncation.
    pub(crate) fn truncate(&self, name: ObjectId) -> Truncation<'_> {
        let truncation = self.accept(name);
        self.change(&truncation.object, |changes| {
            changes.accept_truncation(truncation.version);
        });
        // Waiting writes are refused at once: they would else keep their permits and memory during the truncation.
        truncation.object.wake_up.notify_waiters();
        Truncation(truncation)
    }

    fn accept(&self, name: ObjectId) -> Accepted<'_> {
        let version = Version(self.newest.get().0 + 1);
        self.newest.set(version);
        let object = Rc::clone(self.objects.borrow_mut().entry(name).or_default());
        Accepted {
            locks: self,
            name,
            object,
            version,
        }
    }

    /// Changes the state of an object, and adjusts the total of ranges in interval maps.
    fn change<T>(&self, object: &Object, change: impl FnOnce(&mut Changes) -> T) -> T {
        let mut changes = object.changes.borrow_mut();
        let before = changes.noted();
        let changed = change(&mut changes);
        self.noted.set(self.noted.get() - before + changes.noted());
        changed
    }

    /// Bounds the interval maps: clears the largest one, which refuses the writes that need it.
    fn bound_noted(&self) {
        if self.noted.get() <= NOTED_RANGES_MAX {
            return;
        }
        let objects = self.objects.borrow();
        let largest = objects
            .values()
            .max_by_key(|it| it.changes.borrow().noted());
        if let Some(object) = largest {
            self.change(object, Changes::forget_stored);
            object.wake_up.notify_waiters();
        }
    }
}

impl Write<'_> {
    /// Waits until these bytes can be stored; this write must not have locked any of them. Returns `None` if the write
    /// is refused, after a truncation or because its interval map was cleared.
    pub(crate) async fn lock(&self, bytes: Range<u64>) -> Option<RangeGuard<'_>> {
        let Write(write) = self;
        loop {
            // Registered before the check: a wake-up between the two would be missed, and the write would wait for
            // ever.
            let wake_up = write.object.wake_up.notified();
            let lock = (write.object.changes.borrow_mut()).lock(write.version, &bytes);
            match lock {
                Lock::Granted => return Some(RangeGuard { write, bytes }),
                Lock::Wait => wake_up.await,
                Lock::Refused => return None,
            }
        }
    }
}

impl Truncation<'_> {
    /// Waits until the object can be truncated: for ranges that are being stored, and for earlier truncations.
    pub(crate) async fn lock(&self) -> ObjectGuard<'_> {
        let Truncation(truncation) = self;
        loop {
            let wake_up = truncation.object.wake_up.notified();
            if (truncation.object.changes.borrow()).may_truncate(truncation.version) {
                return ObjectGuard { truncation };
            }
            wake_up.await;
        }
    }
}

impl RangeGuard<'_> {
    /// The parts of the range that no later write has stored.
    pub(crate) fn left(&self) -> Vec<Range<u64>> {
        let changes = self.write.object.changes.borrow();
        changes.left(self.write.version, &self.bytes)
    }

    /// Notes that the object has the bytes of the range, or those of later writes.
    pub(crate) fn stored(self) {
        let Accepted {
            locks,
            object,
            version,
            ..
        } = self.write;
        locks.change(object, |changes| changes.note_stored(*version, &self.bytes));
        locks.bound_noted();
    }
}

impl Drop for RangeGuard<'_> {
    fn drop(&mut self) {
        let object = &self.write.object;
        object.changes.borrow_mut().unlock(&self.bytes);
        object.wake_up.notify_waiters();
    }
}

impl Drop for ObjectGuard<'_> {
    fn drop(&mut self) {
        let Accepted {
            object, version, ..
        } = self.truncation;
        object.changes.borrow_mut().end_truncation(*version);
        object.wake_up.notify_waiters();
    }
}

impl Drop for Accepted<'_> {
    fn drop(&mut self) {
        let (locks, object) = (self.locks, &self.object);
        locks.change(object, |changes| changes.end(self.version));
        object.wake_up.notify_waiters();
        if object.changes.borrow().is_empty() {
            locks.objects.borrow_mut().remove(&self.name);
        }
    }
}

#[cfg(test)]
mod model;
#[cfg(test)]
mod tests;
