//! The result of revoking memory: ready at once in software, later on hardware.

use gannet_runtime::LocalFuture;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

/// The end of a registration, as a future. Revoking has begun when this exists; polling it only waits for the result.
///
/// Dropping it does not stop the revocation. The memory stays with its provider, which drops it at the end: until
/// then a peer may write it.
pub enum Revocation<T> {
    /// Done. Providers in software return this variant alone, so that a request allocates nothing for it.
    Ready(T),
    /// Under way; the provider reports the end later.
    Pending(LocalFuture<T>),
    /// The result was taken.
    Taken,
}

impl<T> Revocation<T> {
    /// The result, if the revocation is done.
    ///
    /// # Errors
    /// The revocation itself, to await it.
    pub fn now(self) -> Result<T, Revocation<T>> {
        match self {
            Revocation::Ready(value) => Ok(value),
            later => Err(later),
        }
    }
}

impl<T: Unpin + 'static> Revocation<T> {
    /// Applies `change` to the result, now or at the end of the revocation.
    pub fn map<U: 'static>(self, change: impl FnOnce(T) -> U + 'static) -> Revocation<U> {
        match self {
            Revocation::Ready(value) => Revocation::Ready(change(value)),
            later => Revocation::Pending(Box::pin(async move { change(later.await) })),
        }
    }
}

impl<T: Unpin> Future for Revocation<T> {
    type Output = T;

    /// # Panics
    /// When it is polled again after it was ready.
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        if let Revocation::Pending(later) = &mut *self {
            let value = std::task::ready!(later.as_mut().poll(context));
            *self = Revocation::Taken;
            return Poll::Ready(value);
        }
        match std::mem::replace(&mut *self, Revocation::Taken) {
            Revocation::Ready(value) => Poll::Ready(value),
            Revocation::Pending(_) | Revocation::Taken => {
                panic!("a revocation is polled after its result was taken")
            }
        }
    }
}

impl<T> fmt::Debug for Revocation<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Revocation::Ready(_) => "Ready",
            Revocation::Pending(_) => "Pending",
            Revocation::Taken => "Taken",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_that_is_here_needs_no_waiting() {
        assert_eq!(Revocation::Ready(7).map(|it| it + 1).now().unwrap(), 8);
        let mut ready = Revocation::Ready(7);
        let context = &mut Context::from_waker(std::task::Waker::noop());
        assert_eq!(Pin::new(&mut ready).poll(context), Poll::Ready(7));
        assert!(matches!(ready, Revocation::Taken));
    }

    #[test]
    fn a_result_that_comes_later_is_mapped_then() {
        let (sender, receiver) = std::sync::mpsc::channel();
        let later =
            std::future::poll_fn(move |_| receiver.try_recv().map_or(Poll::Pending, Poll::Ready));
        let later = Revocation::Pending(Box::pin(later)).map(|it: u32| it + 1);
        let mut later = later.now().unwrap_err();
        let context = &mut Context::from_waker(std::task::Waker::noop());
        assert_eq!(Pin::new(&mut later).poll(context), Poll::Pending);
        sender.send(7).unwrap();
        assert_eq!(Pin::new(&mut later).poll(context), Poll::Ready(8));
    }
}
