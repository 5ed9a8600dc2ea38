//! Byte streams, readiness-driven: wait until the stream is ready, then move as many bytes as it takes.

use crate::{FileSource, LocalFuture};
use std::io::{self, IoSlice, IoSliceMut};
use std::net::SocketAddr;
use std::rc::Rc;
use std::task::{Context, Poll};

/// A shared reference to a byte stream of this core.
pub type Stream = Rc<dyn ByteStream>;

/// A reliable, ordered stream of bytes: a TCP connection or a simulated one.
///
/// One task may wait for reading and one for writing at a time. After `try_*` said `WouldBlock` (or moved less
/// than asked), call the matching `poll_*` before the next try.
pub trait ByteStream {
    /// The address of the other end.
    fn peer_address(&self) -> SocketAddr;

    /// The address of this end.
    fn local_address(&self) -> SocketAddr;

    /// Ready when a read may make progress (bytes, end of stream, or an error to fetch).
    ///
    /// # Errors
    /// The runtime is shutting down.
    fn poll_readable(&self, context: &mut Context<'_>) -> Poll<io::Result<()>>;

    /// Moves bytes that have arrived into `buffer`; 0 means that the peer has closed its side.
    ///
    /// # Errors
    /// `WouldBlock` when no byte has arrived; others when the connection is broken.
    fn try_read(&self, buffer: &mut [u8]) -> io::Result<usize>;

    /// As [`ByteStream::try_read_vectored`], with a system call even if the runtime has no readiness event: for a
    /// caller that polls because bytes are about to come, and does not wait.
    ///
    /// # Errors
    /// As [`ByteStream::try_read`].
    fn look(&self, buffers: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        self.try_read_vectored(buffers)
    }

    /// As [`ByteStream::try_read`], filling several buffers in order with one system call.
    ///
    /// # Errors
    /// As [`ByteStream::try_read`].
    fn try_read_vectored(&self, buffers: &mut [IoSliceMut<'_>]) -> io::Result<usize>;

    /// Ready when a write may make progress.
    ///
    /// # Errors
    /// The runtime is shutting down.
    fn poll_writable(&self, context: &mut Context<'_>) -> Poll<io::Result<()>>;

    /// Hands bytes to the connection with one system call; returns how many it took. At most 1024 slices count.
    ///
    /// # Errors
    /// `WouldBlock` when the connection takes no byte now; that of [`is_memory_gone`] when the first bytes are of a
    /// file that became shorter; others when the connection is broken.
    fn try_write(&self, buffers: &[IoSlice<'_>], follow: Follow) -> io::Result<usize>;

    /// Hands `len` bytes of `file` at `offset` to the connection without copying them through user space;
    /// returns how many it took, 0 when the file ends at or before `offset`.
    ///
    /// # Errors
    /// `WouldBlock` as above, `Unsupported` when this stream or this file cannot do it.
    fn try_send_file(&self, file: &dyn FileSource, offset: u64, len: usize) -> io::Result<usize>;

    /// Ends this side's half of the connection behind the written bytes; the peer reads an end of stream.
    fn shutdown_write(&self);

    /// Breaks the connection at once; the peer sees a reset.
    fn abort(&self);

    /// Sets the traffic class of packets that this side sends from now on.
    ///
    /// # Errors
    /// `Unsupported` when the stream has no traffic classes, as by default.
    fn set_traffic_class(&self, _class: Dscp) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

/// A traffic class: the differentiated services code point of packets (RFC 2474), by which networks sort them.
/// 0 is the default of all packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, PartialOrd, Ord, Hash)]
pub struct Dscp(u8);

impl Dscp {
    /// The largest: there are six bits.
    pub const MAX: Dscp = Dscp(63);

    /// The code point `value`; `None` above [`Dscp::MAX`].
    pub fn new(value: u8) -> Option<Dscp> {
        (value <= Dscp::MAX.0).then_some(Dscp(value))
    }

    /// The code point as a number, 0 to 63.
    pub fn get(self) -> u8 {
        self.0
    }

    /// The byte with the code point in its upper six bits: TOS of IPv4, traffic class of IPv6. The kernel sets the
    /// other two (ECN).
    pub fn to_byte(self) -> u8 {
        self.0 << 2
    }
}

/// Whether more bytes follow at once, so that a partial segment should wait for them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Follow {
    /// This is the end of a batch: send what there is.
    Nothing,
    /// More follows (MSG_MORE).
    More,
    /// Bytes that are not taken are offered again at once. Some are those of a [`crate::FileWindow`] and may not exist
    /// any more, so that fewer taken than offered do not mean that the connection is full. The next call shows it.
    Rest,
}

/// Accepts byte streams on this core.
pub trait Listener {
    /// The address it listens at, with the port that was picked.
    fn local_address(&self) -> SocketAddr;

    /// Waits for the next connection. Errors of a single connection are not reported.
    fn accept(&mut self) -> LocalFuture<io::Result<Stream>>;
}

/// Waits until `stream` may be read.
///
/// # Errors
/// As [`ByteStream::poll_readable`].
pub async fn readable(stream: &dyn ByteStream) -> io::Result<()> {
    std::future::poll_fn(|context| stream.poll_readable(context)).await
}

/// Waits until `stream` may be written.
///
/// # Errors
/// As [`ByteStream::poll_writable`].
pub async fn writable(stream: &dyn ByteStream) -> io::Result<()> {
    std::future::poll_fn(|context| stream.poll_writable(context)).await
}

/// True when an error of [`ByteStream::try_send_file`] means that the connection is broken. All others but `WouldBlock`
/// are errors of the file, whose bytes can perhaps be read and written.
pub fn is_connection_error(kind: io::ErrorKind) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, NotConnected, TimedOut};
    matches!(
        kind,
        BrokenPipe | ConnectionReset | ConnectionAborted | NotConnected | TimedOut
    )
}

/// True when an error of [`ByteStream::try_write`] means that bytes of a [`crate::FileWindow`] do not exist any more.
pub fn is_memory_gone(error: &io::Error) -> bool {
    error.raw_os_error() == Some(rustix::io::Errno::FAULT.raw_os_error())
}
