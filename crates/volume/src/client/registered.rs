//! Memory of a program that stays registered for a volume's servers until the program takes it back.
//!
//! Meanwhile the memory is the provider's: the program has no reference to it, so servers may read and write any of it.
//! [`RegisteredMemory::take_back`] revokes the registration first, so no late Write lands in memory of the program.
//!
//! A read that its caller gives up may still be under way, and its bytes may land after those of a later transfer. So
//! the next transfer waits until the server has answered, or the connection has ended.

use super::pin_down::Exposed;
use gannet_fabric::DeregisterError;
use gannet_runtime::Buffer;
use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Poll, Waker};

/// Memory that stays registered; see [`super::VolumeFs::register`]. Any number of transfers may use it at once.
///
/// Dropped, its registration is revoked and the memory freed.
pub struct RegisteredMemory {
    exposed: Rc<Exposed>,
    len: usize,
    late: Rc<LateCalls>,
}

/// Calls that may still reach the memory, and whose callers have given up.
#[derive(Default)]
struct LateCalls {
    count: Cell<u32>,
    waiting: RefCell<Vec<Waker>>,
}

impl RegisteredMemory {
    pub(super) fn new(exposed: Exposed, len: usize) -> RegisteredMemory {
        RegisteredMemory {
            exposed: Rc::new(exposed),
            len,
            late: Rc::default(),
        }
    }

    /// Bytes of the memory.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether it has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Revokes the registration, and returns the same memory with all that was read into it. A transfer that was given
    /// up and is still under way ends its connection, which is made again.
    ///
    /// # Errors
    /// The adapter could not revoke the registration, and keeps the memory: servers may still reach it.
    pub async fn take_back(self) -> Result<Buffer, DeregisterError> {
        let taken = self.exposed.deregister().await?;
        taken.ok_or(DeregisterError::Adapter)
    }

    pub(super) fn exposed(&self) -> Rc<Exposed> {
        Rc::clone(&self.exposed)
    }

    /// Ready when no call of an earlier transfer can reach the memory.
    pub(super) async fn no_late_calls(&self) {
        self.late.over().await;
    }

    /// Begins a transfer.
    pub(super) fn begin_use(&self) -> MemoryUse {
        MemoryUse::begin(&self.late)
    }
}

impl LateCalls {
    /// Ready when there are none.
    async fn over(&self) {
        poll_fn(|context| {
            if self.count.get() == 0 {
                return Poll::Ready(());
            }
            let waker = context.waker().clone();
            self.waiting.borrow_mut().push(waker);
            Poll::Pending
        })
        .await;
    }
}

impl Drop for RegisteredMemory {
    fn drop(&mut self) {
        // Calls that were given up keep the region. Taken back, it is revoked already.
        self.exposed.invalidate();
    }
}

/// The calls of one transfer.
#[derive(Default)]
struct Calls {
    are_over: Cell<bool>,
    /// The transfer ended before them.
    are_late: Cell<bool>,
}

/// A transfer of the memory, until it ends or is given up.
pub(super) struct MemoryUse {
    late: Rc<LateCalls>,
    calls: Rc<Calls>,
}

impl MemoryUse {
    fn begin(late: &Rc<LateCalls>) -> MemoryUse {
        MemoryUse {
            late: Rc::clone(late),
            calls: Rc::default(),
        }
    }

    /// The value that the calls of the transfer keep until they are over.
    pub(super) fn end(&self) -> CallEnd {
        CallEnd {
            late: Rc::clone(&self.late),
            calls: Rc::clone(&self.calls),
        }
    }
}

impl Drop for MemoryUse {
    fn drop(&mut self) {
        if !self.calls.are_over.get() {
            self.calls.are_late.set(true);
            self.late.count.set(self.late.count.get() + 1);
        }
    }
}

/// Dropped when all calls of a transfer are over.
pub(super) struct CallEnd {
    late: Rc<LateCalls>,
    calls: Rc<Calls>,
}

impl Drop for CallEnd {
    fn drop(&mut self) {
        self.calls.are_over.set(true);
        if !self.calls.are_late.get() {
            return;
        }
        let left = self.late.count.get() - 1;
        self.late.count.set(left);
        if left == 0 {
            self.late.waiting.take().into_iter().for_each(Waker::wake);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::pin::pin;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::task::{Context, Wake};

    struct Flag(AtomicBool);

    impl Wake for Flag {
        fn wake(self: Arc<Self>) {
            self.0.store(true, Ordering::Relaxed);
        }
    }

    #[test]
    fn a_transfer_waits_for_the_calls_of_one_that_was_given_up() {
        let late = Rc::<LateCalls>::default();
        let woken = Arc::new(Flag(AtomicBool::new(false)));
        let waker = Waker::from(Arc::clone(&woken));
        let mut context = Context::from_waker(&waker);
        let mut is_free = || pin!(late.over()).poll(&mut context).is_ready();

        let (whole, given_up) = (MemoryUse::begin(&late), MemoryUse::begin(&late));
        let (answered, kept) = (whole.end(), given_up.end());
        assert!(is_free(), "transfers at the same time do not wait");
        drop(answered);
        drop(whole);
        assert!(is_free(), "a transfer that ended leaves nothing");
        drop(given_up);
        assert!(!is_free(), "its call is under way");
        assert!(!woken.0.load(Ordering::Relaxed));
        drop(kept);
        assert!(woken.0.load(Ordering::Relaxed) && is_free());
    }
}
