//! Results of registering and revoking memory: ready at once in software, later on hardware.

use crate::{Region, RegisterError};
use gannet_runtime::LocalFuture;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

/// A result that is here, or that the provider reports later. Its work has begun when this exists; polling it only
/// waits for the result.
pub enum Later<T> {
    /// Done. Providers in software return this variant alone, so that a request allocates nothing for it.
    Ready(T),
    /// Under way; the provider reports the end later.
    Pending(LocalFuture<T>),
    /// The result was taken.
    Taken,
}

/// The end of a registration.
///
/// Dropping it does not stop the revocation. The memory stays with its provider, which drops it at the end: until
/// then a peer may write it.
pub type Revocation<T> = Later<T>;

/// The beginning of a registration. Dropping it undoes the registration, now or when it is done.
pub type Registering = Later<Result<Region, RegisterError>>;

impl<T> Later<T> {
    /// The result, if it is here.
    ///
    /// # Errors
    /// The value itself, to await it.
    pub fn now(self) -> Result<T, Later<T>> {
        match self {
            Later::Ready(value) => Ok(value),
            later => Err(later),
        }
    }
}

impl<T: Unpin + 'static> Later<T> {
    /// Applies `change` to the result, now or when it comes.
    pub fn map<U: 'static>(self, change: impl FnOnce(T) -> U + 'static) -> Later<U> {
        match self {
            Later::Ready(value) => Later::Ready(change(value)),
            later => Later::Pending(Box::pin(async move { change(later.await) })),
        }
    }
}

impl<T: Unpin> Future for Later<T> {
    type Output = T;

    /// # Panics
    /// When it is polled again after it was ready.
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        if let Later::Pending(later) = &mut *self {
            let value = std::task::ready!(later.as_mut().poll(context));
            *self = Later::Taken;
            return Poll::Ready(value);
        }
        match std::mem::replace(&mut *self, Later::Taken) {
            Later::Ready(value) => Poll::Ready(value),
            Later::Pending(_) | Later::Taken => {
                panic!("a result is polled after it was taken")
            }
        }
    }
}

impl<T> fmt::Debug for Later<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Later::Ready(_) => "Ready",
            Later::Pending(_) => "Pending",
            Later::Taken => "Taken",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_that_is_here_needs_no_waiting() {
        assert_eq!(Later::Ready(7).map(|it| it + 1).now().unwrap(), 8);
        let mut ready = Later::Ready(7);
        let context = &mut Context::from_waker(std::task::Waker::noop());
        assert_eq!(Pin::new(&mut ready).poll(context), Poll::Ready(7));
        assert!(matches!(ready, Later::Taken));
    }

    #[test]
    fn a_result_that_comes_later_is_mapped_then() {
        let (sender, receiver) = std::sync::mpsc::channel();
        let later =
            std::future::poll_fn(move |_| receiver.try_recv().map_or(Poll::Pending, Poll::Ready));
        let later = Later::Pending(Box::pin(later)).map(|it: u32| it + 1);
        let mut later = later.now().unwrap_err();
        let context = &mut Context::from_waker(std::task::Waker::noop());
        assert_eq!(Pin::new(&mut later).poll(context), Poll::Pending);
        sender.send(7).unwrap();
        assert_eq!(Pin::new(&mut later).poll(context), Poll::Ready(8));
    }
}
