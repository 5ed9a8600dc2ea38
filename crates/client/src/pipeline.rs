//! Several futures at a time, with their values in the order of their starts.

use gannet_runtime::LocalFuture;
use std::collections::VecDeque;
use std::task::Poll;

/// Futures under way. All of them make progress while [`InOrder::next`] waits for the first. Its drop drops them all.
pub(super) struct InOrder<T> {
    slots: VecDeque<Slot<T>>,
}

enum Slot<T> {
    Running(LocalFuture<T>),
    Done(T),
}

impl<T> InOrder<T> {
    pub(super) fn new() -> InOrder<T> {
        InOrder {
            slots: VecDeque::new(),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.slots.len()
    }

    /// Starts another one: it is polled once, so that its request is sent when this returns. Without the poll, requests
    /// would be sent only in `next`, one round trip late.
    pub(super) async fn start(&mut self, mut future: LocalFuture<T>) {
        // Its waker is that of this call. `next` polls every running future again, which replaces the waker.
        let first = std::future::poll_fn(|context| match future.as_mut().poll(context) {
            Poll::Ready(value) => Poll::Ready(Some(value)),
            Poll::Pending => Poll::Ready(None),
        })
        .await;
        self.slots.push_back(match first {
            Some(value) => Slot::Done(value),
            None => Slot::Running(future),
        });
    }

    /// The value of the oldest future; `None` when none is under way.
    pub(super) async fn next(&mut self) -> Option<T> {
        std::future::poll_fn(|context| {
            // All are polled, not the first alone: a wake-up does not say whose it is, and one that is not polled would
            // neither move on nor register the waker of this call.
            for slot in &mut self.slots {
                if let Slot::Running(future) = slot
                    && let Poll::Ready(value) = future.as_mut().poll(context)
                {
                    *slot = Slot::Done(value);
                }
            }
            match self.slots.pop_front() {
                None => Poll::Ready(None),
                Some(Slot::Done(value)) => Poll::Ready(Some(value)),
                Some(running) => {
                    self.slots.push_front(running);
                    Poll::Pending
                }
            }
        })
        .await
    }
}
