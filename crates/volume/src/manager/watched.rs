//! A value that tasks wait for. Tasks are woken in the order in which they began to wait, so that the simulator can
//! repeat a run by its seed; tokio's `watch` wakes them in a random order.

use std::cell::{Cell, Ref, RefCell};
use tokio::sync::Notify;

/// A value with a version, and the tasks that wait for it.
pub(super) struct Watched<T> {
    value: RefCell<T>,
    version: Cell<u64>,
    changed: Notify,
}

impl<T> Watched<T> {
    pub(super) fn new(value: T) -> Watched<T> {
        Watched {
            value: RefCell::new(value),
            version: Cell::new(0),
            changed: Notify::new(),
        }
    }

    pub(super) fn borrow(&self) -> Ref<'_, T> {
        self.value.borrow()
    }

    pub(super) fn set(&self, value: T) {
        self.set_if(|it| {
            *it = value;
            true
        });
    }

    /// Changes the value, and wakes all tasks if `change` returns true.
    pub(super) fn set_if(&self, change: impl FnOnce(&mut T) -> bool) {
        if change(&mut self.value.borrow_mut()) {
            self.version.set(self.version.get() + 1);
            self.changed.notify_waiters();
        }
    }

    /// Waits until the value satisfies `is_such`.
    pub(super) async fn wait_for(&self, mut is_such: impl FnMut(&T) -> bool) {
        loop {
            // Registered before the look: a change between the two would otherwise be missed.
            let changed = self.changed.notified();
            if is_such(&self.value.borrow()) {
                return;
            }
            changed.await;
        }
    }

    /// The number of changes so far.
    pub(super) fn version(&self) -> u64 {
        self.version.get()
    }

    /// Waits until the version is another than `seen`.
    pub(super) async fn changed_since(&self, seen: u64) {
        loop {
            let changed = self.changed.notified();
            if self.version.get() != seen {
                return;
            }
            changed.await;
        }
    }
}
