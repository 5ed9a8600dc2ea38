//! A value that tasks wait for. Those that wait are woken in the order in which they came, so that the simulator can
//! repeat a run; tokio's `watch` wakes them in a random one.

use std::cell::{Cell, Ref, RefCell};
use tokio::sync::Notify;

/// See the module.
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

    /// Wakes those that wait if `change` says that it changed something.
    pub(super) fn set_if(&self, change: impl FnOnce(&mut T) -> bool) {
        if change(&mut self.value.borrow_mut()) {
            self.version.set(self.version.get() + 1);
            self.changed.notify_waiters();
        }
    }

    /// Waits until the value is such.
    pub(super) async fn wait_for(&self, mut is_such: impl FnMut(&T) -> bool) {
        loop {
            let changed = self.changed.notified();
            if is_such(&self.value.borrow()) {
                return;
            }
            changed.await;
        }
    }

    /// How often it was changed.
    pub(super) fn version(&self) -> u64 {
        self.version.get()
    }

    /// Waits until it is another version than `seen`.
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
