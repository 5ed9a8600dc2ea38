//! Refusal of peers that no export admits, before any memory is spent on them.

use gannet_runtime::{Listener, LocalFuture, Stream};
use std::cell::RefCell;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;

/// A listener that aborts the streams of peers which are not admitted.
pub struct Gate<F> {
    address: SocketAddr,
    inner: Rc<RefCell<Box<dyn Listener>>>,
    admits: Rc<F>,
}

impl<F: Fn(SocketAddr) -> bool + 'static> Gate<F> {
    /// Gives the streams of `inner` from the peers that it `admits`.
    pub fn new(inner: Box<dyn Listener>, admits: F) -> Gate<F> {
        Gate {
            address: inner.local_address(),
            inner: Rc::new(RefCell::new(inner)),
            admits: Rc::new(admits),
        }
    }
}

impl<F: Fn(SocketAddr) -> bool + 'static> Listener for Gate<F> {
    fn local_address(&self) -> SocketAddr {
        self.address
    }

    fn accept(&mut self) -> LocalFuture<io::Result<Stream>> {
        let (inner, admits) = (Rc::clone(&self.inner), Rc::clone(&self.admits));
        Box::pin(async move {
            loop {
                let next = inner.borrow_mut().accept();
                let stream = next.await?;
                if admits(stream.peer_address()) {
                    return Ok(stream);
                }
                stream.abort();
            }
        })
    }
}
