//! The turns of a connection's task.

use std::task::{Context, Poll};

/// Rounds of receiving and sending before other tasks of the core run.
const ROUNDS_MAX: usize = 4;

/// Runs a connection until it ends; returns why.
///
/// `round` does what it can and returns true if there may be more to do. It may return false only after it has
/// registered a waker for everything that the connection waits for: the task would never run again otherwise.
pub(crate) async fn run<E>(mut round: impl FnMut(&mut Context<'_>) -> Result<bool, E>) -> E {
    std::future::poll_fn(|context| {
        for _ in 0..ROUNDS_MAX {
            match round(context) {
                Ok(true) => {}
                Ok(false) => return Poll::Pending,
                Err(end) => return Poll::Ready(end),
            }
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await
}
