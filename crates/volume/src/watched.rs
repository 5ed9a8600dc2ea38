//! A value that tasks wait for. Tasks are woken in the order in which they began to wait, so that the simulator can
//! repeat a run by its seed; tokio's `watch` wakes them in a random order.

use std::cell::{Ref, RefCell};
use tokio::sync::Notify;

/// A value, and the tasks that wait for it.
pub(crate) struct Watched<T> {
    value: RefCell<T>,
    changed: Notify,
}

impl<T> Watched<T> {
    pub(crate) fn new(value: T) -> Watched<T> {
        Watched {
            value: RefCell::new(value),
            changed: Notify::new(),
        }
    }

    pub(crate) fn borrow(&self) -> Ref<'_, T> {
        self.value.borrow()
    }

    pub(crate) fn set(&self, value: T) {
        self.set_if(|it| {
            *it = value;
            true
        });
    }

    /// Changes the value, and wakes all tasks if `change` returns true.
    pub(crate) fn set_if(&self, change: impl FnOnce(&mut T) -> bool) {
        if change(&mut self.value.borrow_mut()) {
            self.changed.notify_waiters();
        }
    }

    /// Waits until the value satisfies `is_such`.
    pub(crate) async fn wait_for(&self, mut is_such: impl FnMut(&T) -> bool) {
        loop {
            // Registered before the look: a change between the two would otherwise be missed.
            let changed = self.changed.notified();
            if is_such(&self.value.borrow()) {
                return;
            }
            changed.await;
        }
    }
}
