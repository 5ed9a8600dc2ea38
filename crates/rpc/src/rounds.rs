//! The turns of a connection's task.

use std::task::{Context, Poll};

/// Rounds of receiving and sending before other connections get their turn.
const ROUNDS_MAX: usize = 4;

/// Runs a connection: `round` does what can be done, and says whether there may be more. Why it ended.
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
