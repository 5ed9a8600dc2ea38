//! Turns of long transfers: few at a time, in the order in which the kernel asked.
//!
//! The kernel sends its whole readahead at once, and all of its write-back. Done at the same time, these requests end
//! at the same time: the reading program waits for the last of them, and no request is under way while it works.

use crate::limits::{MOVING_MAX, SHORT_MAX, TURN_AGE};
use gannet_runtime::{Handle, Instant, timeout};
use std::cell::{Cell, RefCell};
use std::pin::pin;
use tokio::sync::Semaphore;

/// Permits that are added while turns do not count: more than all requests of a front end can take.
const UNBOUNDED: usize = 1 << 30;

/// The bytes of long transfers that may be under way, as permits of a fair semaphore.
///
/// A transfer that waits for a silent server keeps its turn, and others would wait with it. Once others have waited for
/// [`TURN_AGE`] for a turn as old, nothing waits until that transfer ends.
pub struct Turns {
    /// `None` where nothing waits for a turn.
    room: Option<Room>,
}

struct Room {
    runtime: Handle,
    /// Bytes that may still be under way.
    free: Semaphore,
    taken: RefCell<Vec<Taken>>,
    last: Cell<u64>,
    /// Permits of [`UNBOUNDED`] that are not taken back yet.
    owed: Cell<usize>,
}

/// A turn that is not over.
struct Taken {
    number: u64,
    since: Instant,
    len: u32,
    /// Others waited for it in vain.
    is_stuck: bool,
}

/// The turn of a transfer, until it is dropped.
pub struct Turn<'a> {
    room: &'a Room,
    number: u64,
}

impl Turns {
    /// Turns in which the requests of a cache are done: readahead and the like.
    pub fn ordered(runtime: &Handle) -> Turns {
        let room = Room {
            runtime: Handle::clone(runtime),
            free: Semaphore::new(MOVING_MAX as usize),
            taken: RefCell::default(),
            last: Cell::new(0),
            owed: Cell::new(0),
        };
        Turns { room: Some(room) }
    }

    /// Turns for which no transfer waits, where no cache asks: programs then choose their own order.
    pub fn unordered() -> Turns {
        Turns { room: None }
    }

    /// Waits for the turn of a transfer of `len` bytes, which lasts until it is dropped. Transfers of up to
    /// [`SHORT_MAX`] bytes take none.
    pub async fn take(&self, len: usize) -> Option<Turn<'_>> {
        if len <= SHORT_MAX {
            return None;
        }
        // More permits than the semaphore has would wait for ever.
        let len = u32::try_from(len).unwrap_or(MOVING_MAX).min(MOVING_MAX);
        Some(self.room.as_ref()?.take(len).await)
    }
}

impl Room {
    async fn take(&self, len: u32) -> Turn<'_> {
        // The semaphore is never closed: an error is no reason to wait.
        let permit = match self.free.try_acquire_many(len) {
            Ok(permit) => Some(permit),
            Err(_) => {
                let mut acquired = pin!(self.free.acquire_many(len));
                loop {
                    match timeout(&self.runtime, TURN_AGE, acquired.as_mut()).await {
                        Ok(acquired) => break acquired.ok(),
                        Err(_) => self.find_stuck(),
                    }
                }
            }
        };
        // The turn gives the permits back.
        permit.into_iter().for_each(|permit| permit.forget());
        let number = self.last.get() + 1;
        self.last.set(number);
        let since = self.runtime.now();
        self.taken.borrow_mut().push(Taken {
            number,
            since,
            len,
            is_stuck: false,
        });
        Turn { room: self, number }
    }

    fn has_stuck(&self) -> bool {
        self.taken.borrow().iter().any(|turn| turn.is_stuck)
    }

    /// Lets everything pass if a turn is old.
    fn find_stuck(&self) {
        let now = self.runtime.now();
        let had_stuck = self.has_stuck();
        for turn in self.taken.borrow_mut().iter_mut() {
            turn.is_stuck |= now >= turn.since + TURN_AGE;
        }
        if !had_stuck && self.has_stuck() {
            self.free.add_permits(UNBOUNDED);
            self.owed.set(self.owed.get() + UNBOUNDED);
        }
    }

    /// Ends a turn. Turns count again after the last that was stuck.
    fn end(&self, number: u64) {
        let mut taken = self.taken.borrow_mut();
        let Some(index) = taken.iter().position(|turn| turn.number == number) else {
            return;
        };
        let ended = taken.swap_remove(index);
        drop(taken);
        self.free.add_permits(ended.len as usize);
        if self.owed.get() > 0 && !self.has_stuck() {
            let taken_back = self.free.forget_permits(self.owed.get());
            self.owed.set(self.owed.get() - taken_back);
        }
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.room.end(self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gannet_sim::World;
    use std::future::Future;
    use std::pin::Pin;
    use std::task::{Context, Poll, Waker};

    const LONG: usize = MOVING_MAX as usize / 2;

    fn poll<T>(future: Pin<&mut impl Future<Output = T>>) -> Poll<T> {
        future.poll(&mut Context::from_waker(Waker::noop()))
    }

    #[test]
    fn long_transfers_are_done_in_order_and_short_ones_at_once() {
        let world = World::new(1);
        let runtime = world.add_node("client").runtime();
        let turns = Turns::ordered(&runtime);
        let first = poll(pin!(turns.take(LONG)));
        let second = poll(pin!(turns.take(LONG)));
        assert!(first.is_ready() && second.is_ready());
        let (mut third, mut fourth) = (pin!(turns.take(LONG)), pin!(turns.take(LONG)));
        assert!(poll(third.as_mut()).is_pending() && poll(fourth.as_mut()).is_pending());
        assert!(matches!(
            poll(pin!(turns.take(SHORT_MAX))),
            Poll::Ready(None)
        ));
        drop(first);
        assert!(poll(fourth.as_mut()).is_pending());
        assert!(poll(third.as_mut()).is_ready());
    }

    #[test]
    fn turns_count_again_once_no_transfer_is_stuck() {
        let world = World::new(1);
        let runtime = world.add_node("client").runtime();
        let done = world.run(async move {
            let turns = Turns::ordered(&runtime);
            let stuck = [turns.take(LONG).await, turns.take(LONG).await];
            let began = runtime.now();
            let _waited = turns.take(LONG).await;
            assert!(runtime.now() >= began + TURN_AGE);
            let passed = [turns.take(LONG).await, turns.take(LONG).await];
            assert!(runtime.now() < began + 2 * TURN_AGE);
            drop(stuck);
            assert!(
                poll(pin!(turns.take(LONG))).is_pending(),
                "three have turns"
            );
            drop(passed);
            assert!(poll(pin!(turns.take(LONG))).is_ready(), "one has");
        });
        assert!(done.is_ok());
    }

    #[test]
    fn transfers_past_the_cache_wait_for_no_turn() {
        let turns = Turns::unordered();
        for _ in 0..8 {
            assert!(poll(pin!(turns.take(LONG))).is_ready());
        }
    }
}
