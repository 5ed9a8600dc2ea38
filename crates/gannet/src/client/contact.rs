//! Counts the connections that servers have accepted, and bounds those that are being made. The count distinguishes a
//! server that went away from one that was never there.

use crate::url::Scheme;
use gannet_runtime::stream::Follow;
use gannet_runtime::{
    BlockingJob, ByteStream, DescriptorWatch, Dscp, EventSource, FileSource, Handle, Instant,
    Listener, LocalFuture, PoolCounters, Runtime, Stream,
};
use gannet_wire::volume::WIDTH_MAX;
use std::cell::Cell;
use std::io::{self, IoSlice, IoSliceMut};
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::sync::{Semaphore, SemaphorePermit};

/// Connections of this process to NFS servers that may be under way at a time, first ones and those made anew.
///
/// Linux knfsd forgets what comes over RDMA when ten others wait to be accepted (its backlog), and with siw never
/// answers again after it has.
const NFS_CONNECTS_MAX: usize = 8;
/// Bounds the connects that all sessions of this process with NFS servers have under way together.
static NFS_CONNECTS: Semaphore = Semaphore::const_new(NFS_CONNECTS_MAX);
/// The same with the servers of volumes: as many as a volume has. The wait for a permit is part of the deadline of an
/// attempt, so with fewer permits servers that are silent would make those that live miss theirs.
static VOLUME_CONNECTS: Semaphore = Semaphore::const_new(WIDTH_MAX);

/// A runtime that counts the byte streams it opened, and opens a bounded number at a time.
///
/// A stream is being opened until the first bytes have come from the server, or the stream has ended: a listener that
/// has accepted it may still have to look at it.
pub(super) struct Contact {
    runtime: Handle,
    streams: Rc<Cell<u64>>,
    connects: &'static Semaphore,
}

impl Contact {
    /// For a session with the server of a URL of this scheme.
    pub(super) fn new(runtime: &Handle, scheme: Scheme) -> Rc<Contact> {
        let connects = match scheme {
            Scheme::Native => &VOLUME_CONNECTS,
            Scheme::Tcp | Scheme::Rdma => &NFS_CONNECTS,
        };
        Contact::bounded(runtime, connects)
    }

    fn bounded(runtime: &Handle, connects: &'static Semaphore) -> Rc<Contact> {
        Rc::new(Contact {
            runtime: Rc::clone(runtime),
            streams: Rc::default(),
            connects,
        })
    }

    /// Streams opened so far, which is the number of accepted connections.
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

    fn look_max(&self) -> Duration {
        self.runtime.look_max()
    }

    fn random(&self) -> u64 {
        self.runtime.random()
    }

    fn submit_blocking(&self, job: BlockingJob) {
        self.runtime.submit_blocking(job);
    }

    fn pool(&self) -> Option<Arc<PoolCounters>> {
        self.runtime.pool()
    }

    fn connect(&self, address: SocketAddr) -> LocalFuture<io::Result<Stream>> {
        let runtime = Rc::clone(&self.runtime);
        let streams = Rc::clone(&self.streams);
        let connects = self.connects;
        Box::pin(async move {
            let permit = connects.acquire().await.map_err(io::Error::other)?;
            let stream = runtime.connect(address).await?;
            streams.set(streams.get() + 1);
            let permit = Cell::new(Some(permit));
            Ok(Rc::new(Opened { stream, permit }) as Stream)
        })
    }

    fn listen(&self, address: SocketAddr) -> io::Result<Box<dyn Listener>> {
        self.runtime.listen(address)
    }

    fn watch(&self, descriptor: BorrowedFd<'_>) -> io::Result<Box<dyn DescriptorWatch>> {
        self.runtime.watch(descriptor)
    }

    fn look_at(&self, source: Weak<dyn EventSource>) {
        self.runtime.look_at(source);
    }
}

/// A stream that returns its permit when the server has sent the first bytes.
struct Opened {
    stream: Stream,
    permit: Cell<Option<SemaphorePermit<'static>>>,
}

impl Opened {
    /// Passes on the result of a read.
    fn came(&self, read: io::Result<usize>) -> io::Result<usize> {
        let is_nothing = |error: &io::Error| error.kind() == io::ErrorKind::WouldBlock;
        if !read.as_ref().is_err_and(is_nothing) {
            self.permit.take();
        }
        read
    }
}

impl ByteStream for Opened {
    fn peer_address(&self) -> SocketAddr {
        self.stream.peer_address()
    }

    fn local_address(&self) -> SocketAddr {
        self.stream.local_address()
    }

    fn poll_readable(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream.poll_readable(context)
    }

    fn try_read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        self.came(self.stream.try_read(buffer))
    }

    fn look(&self, buffers: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        self.came(self.stream.look(buffers))
    }

    fn try_read_vectored(&self, buffers: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        self.came(self.stream.try_read_vectored(buffers))
    }

    fn poll_writable(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream.poll_writable(context)
    }

    fn try_write(&self, buffers: &[IoSlice<'_>], follow: Follow) -> io::Result<usize> {
        self.stream.try_write(buffers, follow)
    }

    fn try_send_file(&self, file: &dyn FileSource, offset: u64, len: usize) -> io::Result<usize> {
        self.stream.try_send_file(file, offset, len)
    }

    fn shutdown_write(&self) {
        self.stream.shutdown_write();
    }

    fn abort(&self) {
        self.permit.take();
        self.stream.abort();
    }

    fn set_traffic_class(&self, class: Dscp) -> io::Result<()> {
        self.stream.set_traffic_class(class)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gannet_runtime::{stream::readable, timeout, tokio_plug};
    use std::io::Write;
    use std::net::TcpListener;
    use std::task::Waker;

    /// The state of a connect, without waiting.
    fn poll(connect: &mut LocalFuture<io::Result<Stream>>) -> Poll<io::Result<Stream>> {
        connect
            .as_mut()
            .poll(&mut Context::from_waker(Waker::noop()))
    }

    #[test]
    fn connects_wait_until_servers_have_answered_others() {
        static CONNECTS: Semaphore = Semaphore::const_new(NFS_CONNECTS_MAX);
        let server = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = server.local_addr().unwrap();
        let done = tokio_plug::block_on(async |runtime| {
            let contact = Contact::bounded(&runtime, &CONNECTS);
            let mut open = Vec::new();
            for _ in 0..NFS_CONNECTS_MAX {
                open.push(contact.connect(address).await.unwrap());
            }
            let (mut first, _) = server.accept().unwrap();
            let mut late = contact.connect(address);
            assert!(poll(&mut late).is_pending());
            assert_eq!(CONNECTS.available_permits(), 0);
            assert_eq!(contact.streams(), NFS_CONNECTS_MAX as u64);

            // One is answered.
            let would_block = open[0].try_read(&mut [0; 8]).unwrap_err().kind();
            assert_eq!(would_block, io::ErrorKind::WouldBlock);
            assert!(poll(&mut late).is_pending());
            first.write_all(b"reply").unwrap();
            readable(&*open[0]).await.unwrap();
            assert_eq!(open[0].try_read(&mut [0; 8]).unwrap(), 5);
            open.push(late.await.unwrap());

            // One is given up, one ends, one is broken off.
            let mut late = contact.connect(address);
            assert!(poll(&mut late).is_pending());
            open.pop();
            open.push(late.await.unwrap());
            let mut late = contact.connect(address);
            assert!(poll(&mut late).is_pending());
            drop(server.accept().unwrap());
            readable(&*open[1]).await.unwrap();
            assert_eq!(open[1].try_read(&mut [0; 8]).unwrap(), 0);
            open.push(late.await.unwrap());
            open[2].abort();
            open.push(contact.connect(address).await.unwrap());
            assert_eq!(CONNECTS.available_permits(), 0);
        });
        done.unwrap();
    }

    #[test]
    fn silent_servers_of_a_volume_leave_room_to_others() {
        let silent = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = silent.local_addr().unwrap();
        let done = tokio_plug::block_on(async |runtime| {
            let contact = Contact::new(&runtime, Scheme::Native);
            let mut open = Vec::new();
            for _ in 0..2 * NFS_CONNECTS_MAX {
                let connected =
                    timeout(&runtime, Duration::from_secs(10), contact.connect(address));
                open.push(connected.await.unwrap().unwrap());
            }
            // Nor do they hold up other sessions with NFS servers.
            let nfs = Contact::new(&runtime, Scheme::Rdma);
            assert!(std::ptr::eq(nfs.connects, &NFS_CONNECTS));
            assert!(!std::ptr::eq(nfs.connects, contact.connects));
        });
        done.unwrap();
    }

    #[test]
    fn a_connect_that_fails_is_not_under_way() {
        static CONNECTS: Semaphore = Semaphore::const_new(1);
        // The listener is closed.
        let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr();
        let address = address.unwrap();
        let done = tokio_plug::block_on(async |runtime| {
            let contact = Contact::bounded(&runtime, &CONNECTS);
            for _ in 0..2 {
                assert!(contact.connect(address).await.is_err());
            }
            assert_eq!(contact.streams(), 0);
        });
        done.unwrap();
    }
}
