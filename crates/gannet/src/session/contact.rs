//! Whether anybody was ever reached: what tells a server that went away from one that never was there.

use gannet_runtime::{BlockingJob, Handle, Instant, Listener, LocalFuture, Runtime, Stream};
use std::cell::Cell;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

/// A runtime that counts the byte streams it opened.
pub(super) struct Contact {
    runtime: Handle,
    streams: Rc<Cell<u64>>,
}

impl Contact {
    pub(super) fn new(runtime: &Handle) -> Rc<Contact> {
        Rc::new(Contact {
            runtime: Rc::clone(runtime),
            streams: Rc::default(),
        })
    }

    /// Streams opened so far: so often did somebody accept a connection.
    pub(super) fn streams(&self) -> u64 {
        self.streams.get()
    }
}

impl Runtime for Contact {
    fn now(&self) -> Instant {
        self.runtime.now()
    }

    fn wall_clock(&self) -> Duration {
        self.runtime.wall_clock()
    }

    fn sleep_until(&self, deadline: Instant) -> LocalFuture<()> {
        self.runtime.sleep_until(deadline)
    }

    fn spawn(&self, name: &'static str, task: LocalFuture<()>) {
        self.runtime.spawn(name, task);
    }

    fn random(&self) -> u64 {
        self.runtime.random()
    }

    fn submit_blocking(&self, job: BlockingJob) {
        self.runtime.submit_blocking(job);
    }

    fn connect(&self, address: SocketAddr) -> LocalFuture<io::Result<Stream>> {
        let connecting = self.runtime.connect(address);
        let streams = Rc::clone(&self.streams);
        Box::pin(async move {
            let stream = connecting.await?;
            streams.set(streams.get() + 1);
            Ok(stream)
        })
    }

    fn listen(&self, address: SocketAddr) -> io::Result<Box<dyn Listener>> {
        self.runtime.listen(address)
    }
}
