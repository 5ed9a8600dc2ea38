//! Turns of long transfers: few at a time, in the order in which the kernel asked.
//!
//! The kernel sends its whole readahead at once, and all of its write-back. Done at the same time, these requests end
//! at the same time: the reading program waits for the last of them, and no request is under way while it works.

use crate::limits::{MOVING_MAX, SHORT_MAX};
use tokio::sync::{Semaphore, SemaphorePermit};

/// The bytes of long transfers that may be under way, as permits of a fair semaphore.
pub struct Turns {
    /// Bytes that may still be under way. `None` where nothing waits for a turn.
    room: Option<Semaphore>,
}

impl Turns {
    /// Turns in which the requests of a cache are done: readahead and the like.
    pub fn ordered() -> Turns {
        Turns {
            room: Some(Semaphore::new(MOVING_MAX as usize)),
        }
    }

    /// Turns for which no transfer waits, where no cache asks: programs then choose their own order.
    pub fn unordered() -> Turns {
        Turns { room: None }
    }

    /// Waits for the turn of a transfer of `len` bytes, which lasts until the permit is dropped. Transfers of up to
    /// [`SHORT_MAX`] bytes take none.
    pub async fn take(&self, len: usize) -> Option<SemaphorePermit<'_>> {
        if len <= SHORT_MAX {
            return None;
        }
        // More permits than the semaphore has would wait for ever.
        let len = u32::try_from(len).unwrap_or(MOVING_MAX).min(MOVING_MAX);
        // The semaphore is never closed, so this does not fail.
        self.room.as_ref()?.acquire_many(len).await.ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::Future;
    use std::pin::{Pin, pin};
    use std::task::{Context, Poll, Waker};

    const LONG: usize = MOVING_MAX as usize / 2;

    fn poll<T>(future: Pin<&mut impl Future<Output = T>>) -> Poll<T> {
        future.poll(&mut Context::from_waker(Waker::noop()))
    }

    #[test]
    fn long_transfers_are_done_in_order_and_short_ones_at_once() {
        let turns = Turns::ordered();
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
    fn transfers_past_the_cache_wait_for_no_turn() {
        let turns = Turns::unordered();
        for _ in 0..8 {
            assert!(poll(pin!(turns.take(LONG))).is_ready());
        }
    }
}
