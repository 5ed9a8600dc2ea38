//! Turns of long transfers: few at a time, in the order in which the kernel asked.
//!
//! The kernel asks for its whole readahead at once, and for all that it writes back. Done at the same time, all of them
//! end at the same time: whoever reads has nothing until then, and nothing is under way while he works it off.

use crate::limits::{MOVING_MAX, SHORT_MAX};
use crate::session::Caching;
use tokio::sync::{Semaphore, SemaphorePermit};

/// See the module.
pub(crate) struct Turns {
    /// Bytes that may still be under way; none where the kernel caches nothing: programs ask for what they want then.
    room: Option<Semaphore>,
}

impl Turns {
    pub(crate) fn new(caching: Caching) -> Turns {
        let room = || Semaphore::new(MOVING_MAX as usize);
        Turns {
            room: (caching == Caching::Writeback).then(room),
        }
    }

    /// Waits for the turn of a transfer of `len` bytes, which lasts until what is given is dropped. Short ones take
    /// none.
    pub(crate) async fn take(&self, len: usize) -> Option<SemaphorePermit<'_>> {
        if len <= SHORT_MAX {
            return None;
        }
        let len = u32::try_from(len).unwrap_or(MOVING_MAX).min(MOVING_MAX);
        // Nobody closes it.
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
        let turns = Turns::new(Caching::Writeback);
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
    fn what_programs_ask_for_themselves_waits_for_nothing() {
        let turns = Turns::new(Caching::Direct);
        for _ in 0..8 {
            assert!(poll(pin!(turns.take(LONG))).is_ready());
        }
    }
}
