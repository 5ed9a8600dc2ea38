//! Functions that wait for several futures at once.

use std::future::Future;
use std::pin::pin;
use std::task::Poll;

/// Polls both futures to their ends.
pub async fn both<A, B>(first: impl Future<Output = A>, second: impl Future<Output = B>) -> (A, B) {
    let (mut first, mut second) = (pin!(first), pin!(second));
    let (mut left, mut right) = (None, None);
    std::future::poll_fn(move |context| {
        if left.is_none()
            && let Poll::Ready(value) = first.as_mut().poll(context)
        {
            left = Some(value);
        }
        if right.is_none()
            && let Poll::Ready(value) = second.as_mut().poll(context)
        {
            right = Some(value);
        }
        match (left.take(), right.take()) {
            (Some(left), Some(right)) => Poll::Ready((left, right)),
            (one, other) => {
                (left, right) = (one, other);
                Poll::Pending
            }
        }
    })
    .await
}

/// Polls all futures until the first of them ends, and drops the others. Never ends if there are none.
pub async fn first<F: Future + Unpin>(futures: impl IntoIterator<Item = F>) -> F::Output {
    let mut waiting: Vec<F> = futures.into_iter().collect();
    std::future::poll_fn(|context| {
        let mut polled = waiting.iter_mut();
        let ready = polled.find_map(|it| match std::pin::Pin::new(it).poll(context) {
            Poll::Ready(value) => Some(value),
            Poll::Pending => None,
        });
        ready.map_or(Poll::Pending, Poll::Ready)
    })
    .await
}

/// Polls all futures to their ends; their values come in the order of the futures.
pub async fn all<F: Future + Unpin>(futures: impl IntoIterator<Item = F>) -> Vec<F::Output> {
    let mut waiting: Vec<Result<F::Output, F>> = futures.into_iter().map(Err).collect();
    std::future::poll_fn(|context| {
        let mut ready = true;
        for slot in &mut waiting {
            if let Err(future) = slot {
                match std::pin::Pin::new(future).poll(context) {
                    Poll::Ready(value) => *slot = Ok(value),
                    Poll::Pending => ready = false,
                }
            }
        }
        if ready {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    })
    .await;
    waiting.into_iter().filter_map(Result::ok).collect()
}
