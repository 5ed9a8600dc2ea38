//! Connections and the work posted to them.

use crate::export::{CapabilityKey, Reference};
use crate::region::{Capabilities, Domain, EndpointId, Region, RemoteKey, Span};
use crate::{
    ConnectError, Disconnected, PostError, Receives, SharedReceiveQueue, SharedReceives, WorkError,
};
use gannet_runtime::{Buffer, Dscp, FileRef, LocalFuture};
use std::net::SocketAddr;
use std::rc::Rc;
use std::task::{Context, Poll};

/// The poster's number of a piece of work; comes back in its completion. The provider does not interpret it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct WorkId(pub u64);

/// An address in the peer's memory: a key that the peer sent, and an offset in the terms of that key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RemoteAddress {
    /// The region.
    pub key: RemoteKey,
    /// The first byte, in the peer's tagged offsets.
    pub offset: u64,
}

/// The source of a Send or RDMA Write.
pub enum Source {
    /// The first `len` bytes of memory owned by the operation until it is done; a signalled completion gives it back.
    Buffer {
        /// The memory.
        buffer: Buffer,
        /// How many of its bytes to send.
        len: u32,
    },
    /// Part of a registered region; its bytes must not change before the completion.
    Span(Span),
    /// A range of a file, taken from the page cache on the way out. Bytes past the end of the file go out as zeros.
    File {
        /// The file.
        file: FileRef,
        /// Bytes from the start of the file.
        offset: u64,
        /// Bytes to send.
        len: u32,
    },
}

impl Source {
    /// Its length in bytes.
    pub fn len(&self) -> u32 {
        match self {
            Source::Buffer { len, .. } | Source::File { len, .. } => *len,
            Source::Span(span) => span.len,
        }
    }

    /// True when it has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Whether success is reported. Failure always is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signal {
    /// A completion for every outcome.
    Always,
    /// A completion on failure only; the completion of ordered work behind it implies success.
    OnError,
}

/// Whether a Send revokes one of the peer's keys when it is delivered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Invalidate {
    /// It revokes no key.
    None,
    /// This key, before the peer gets the completion of the message (RFC 5040 section 5.3).
    Key(RemoteKey),
}

/// Options of a Send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SendOptions {
    /// Whether success is reported.
    pub signal: Signal,
    /// Key of the peer to revoke.
    pub invalidate: Invalidate,
    /// Marks the message as one that wakes a peer which waits for solicited events.
    pub solicited: bool,
}

impl Default for SendOptions {
    fn default() -> SendOptions {
        SendOptions {
            signal: Signal::OnError,
            invalidate: Invalidate::None,
            solicited: false,
        }
    }
}

/// The kind of work that completed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Done {
    /// A message arrived in the posted buffer.
    Received {
        /// Its length in bytes.
        len: u32,
        /// The key of this end that the message revoked.
        invalidated: Option<RemoteKey>,
        /// The sender marked the message as solicited.
        solicited: bool,
    },
    /// The peer has written memory here by an RDMA Write with Immediate, and took a receive. Nothing is in its buffer.
    /// With [`ConnectOptions::immediates`] alone.
    ReceivedImmediate {
        /// The number that came with it.
        immediate: u32,
        /// Bytes that were written.
        len: u32,
    },
    /// A Send left (the peer need not have seen it).
    Sent,
    /// An RDMA Write left.
    Written,
    /// An RDMA Read's bytes are all in place.
    Read,
}

impl Done {
    /// True when the peer's work took one of our receives.
    pub fn has_taken_receive(&self) -> bool {
        matches!(self, Done::Received { .. } | Done::ReceivedImmediate { .. })
    }
}

/// The outcome of one piece of work.
#[derive(Debug)]
pub struct Completion {
    /// The id of the work as posted.
    pub id: WorkId,
    /// The kind of the work, or its error.
    pub outcome: Result<Done, WorkError>,
    /// The memory that was handed over with the work, if any.
    pub buffer: Option<Buffer>,
}

/// The negotiated attributes of a connection; constant while it lasts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EndpointAttributes {
    /// RDMA Reads that may be outstanding from here; the endpoint queues more by itself. 0 means no Read is possible.
    pub ord: u16,
    /// RDMA Reads the peer may have outstanding here.
    pub ird: u16,
    /// Work requests that the send queue takes before [`PostError::QueueFull`].
    pub send_queue_max: u32,
    /// Receives that may be posted at once.
    pub receive_queue_max: u32,
    /// Pieces of memory that one Send or RDMA Write gathers from (verbs: max_send_sge).
    pub send_sge_max: u32,
    /// Pieces of memory that one RDMA Read scatters to (verbs: max_sge_rd); one in iWARP.
    pub read_sge_max: u32,
    /// Both ends asked for it: a refused Read fails alone, and optimistic reads are possible.
    pub exceptions: bool,
    /// The peer may write with immediates. Elsewhere one ends the connection: no protocol meets what it does not know.
    pub immediates: bool,
}

/// A connected, reliable, ordered queue pair. Shared by the tasks of one core.
///
/// Work completes in posting order (Reads among Reads). The delivery of a Send implies that all earlier Writes and
/// Sends of its direction are in place. A Send may overtake the answer to an earlier Read: wait for the Read first.
/// Posting only queues: call [`Endpoint::flush`] after a batch.
pub trait Endpoint {
    /// Its identity; the scope of keys for this peer alone.
    fn id(&self) -> EndpointId;

    /// The other end.
    fn peer_address(&self) -> SocketAddr;

    /// The negotiated attributes.
    fn attributes(&self) -> EndpointAttributes;

    /// The private data that the peer sent when connecting; zeros may follow it ([`Capabilities::private_data`]).
    fn private_data(&self) -> &[u8];

    /// The domain whose regions this endpoint's peer may reach.
    fn domain(&self) -> Rc<dyn Domain>;

    /// Offers memory for one incoming message. [`Capabilities::no_receive`] says what becomes of a message with no
    /// memory waiting.
    ///
    /// # Errors
    /// [`PostError::QueueFull`], [`PostError::Closed`], [`PostError::Invalid`] for an endpoint of a shared queue. The
    /// buffer is dropped then.
    fn post_receive(&self, id: WorkId, buffer: Buffer) -> Result<(), PostError>;

    /// Lets `count` more messages of the peer take receives of the shared queue that this endpoint was connected with.
    /// The grant of an endpoint that has ended is void. Grants must not exceed the posted receives: a connection whose
    /// message finds no receive ends.
    ///
    /// # Errors
    /// [`PostError::Closed`]; [`PostError::Invalid`] for an endpoint with receives of its own.
    fn grant_receives(&self, count: u32) -> Result<(), PostError>;

    /// Sends a message.
    ///
    /// # Errors
    /// See [`PostError`]; the source is dropped then.
    fn post_send(&self, id: WorkId, source: Source, options: SendOptions) -> Result<(), PostError>;

    /// Writes to the peer's memory (RDMA Write).
    ///
    /// # Errors
    /// See [`PostError`]; the source is dropped then.
    fn post_write(
        &self,
        id: WorkId,
        source: Source,
        target: RemoteAddress,
        signal: Signal,
    ) -> Result<(), PostError>;

    /// As [`Endpoint::post_write`]; when the bytes are in place, the peer hears `immediate` by one of its receives
    /// ([`Done::ReceivedImmediate`]), as if by a Send (InfiniBand: RDMA Write with Immediate). With
    /// [`Capabilities::immediates`] alone, to a peer that takes them ([`ConnectOptions::immediates`]).
    ///
    /// # Errors
    /// See [`PostError`]; the source is dropped then.
    fn post_write_with_immediate(
        &self,
        _id: WorkId,
        _source: Source,
        _target: RemoteAddress,
        _immediate: u32,
        _signal: Signal,
    ) -> Result<(), PostError> {
        Err(PostError::Invalid("the provider has no immediates"))
    }

    /// Reads from the peer's memory into `sink` (RDMA Read); always signalled. Reads beyond the ORD wait their turn.
    ///
    /// # Errors
    /// See [`PostError`].
    fn post_read(&self, id: WorkId, sink: Span, source: RemoteAddress) -> Result<(), PostError>;

    /// Authenticates optimistic reads of both directions from now on. Without it the peer's are refused.
    fn authenticate(&self, _key: CapabilityKey) {}

    /// As [`Endpoint::post_read`], of an object that the peer exports, at most
    /// [`crate::limits::OPTIMISTIC_READ_MAX`] bytes: all of them, or an error of this work alone, such as
    /// [`crate::AccessError::NotResident`]. With [`EndpointAttributes::exceptions`] and after
    /// [`Endpoint::authenticate`] alone.
    ///
    /// # Errors
    /// See [`PostError`].
    fn post_optimistic_read(
        &self,
        _id: WorkId,
        _sink: Span,
        _source: Reference,
    ) -> Result<(), PostError> {
        Err(PostError::Invalid("the provider has no optimistic reads"))
    }

    /// Starts posted work. Cheap when there is none.
    fn flush(&self);

    /// Appends all completions to `completions`; pending when there are none. When the endpoint ends, all outstanding
    /// work comes back as `WorkError::Flushed`, and after that only the error. At most one task may wait: a second one
    /// replaces its waker.
    ///
    /// # Errors
    /// Why the endpoint has ended; no completion will follow.
    fn poll_completions(
        &self,
        context: &mut Context<'_>,
        completions: &mut Vec<Completion>,
    ) -> Poll<Result<(), Disconnected>>;

    /// Receives the bytes that have come from the peer by now, appends the completions and returns their number. It
    /// registers no waker: it is for callers that poll because an answer is about to come. By default it does nothing
    /// and returns 0.
    fn look(&self, _completions: &mut Vec<Completion>) -> usize {
        0
    }

    /// Refuses new work, lets posted Sends and Writes leave, then closes in good order.
    fn close(&self);

    /// Ends the connection at once because the peer broke the protocol above (`why` is for the log).
    fn abort(&self, why: &str);
}

/// Waits for completions; see [`Endpoint::poll_completions`].
///
/// # Errors
/// Why the endpoint has ended.
pub async fn next_completions(
    endpoint: &dyn Endpoint,
    completions: &mut Vec<Completion>,
) -> Result<(), Disconnected> {
    std::future::poll_fn(|context| endpoint.poll_completions(context, completions)).await
}

/// The options of one side of a connection.
#[derive(Debug, Default)]
pub struct ConnectOptions {
    /// Bytes for the peer's upper layer, within [`Capabilities::private_data`].
    pub private_data: Vec<u8>,
    /// Outbound RDMA Reads wanted (ORD); the agreement may be less.
    pub ord: u16,
    /// Inbound RDMA Reads offered (IRD).
    pub ird: u16,
    /// Receives to have in place before the peer can send.
    pub receives: Receives,
    /// The traffic class of all packets of this side; the default leaves it to the system. A provider without traffic
    /// classes refuses any other with [`ConnectError::Unsupported`].
    pub traffic_class: Dscp,
    /// Offers exceptions: a refused Read does not end the connection. Agreed when both ends offer them and their
    /// providers can ([`Capabilities::optimistic_reads`]); see [`EndpointAttributes::exceptions`].
    pub exceptions: bool,
    /// Takes RDMA Writes with Immediate of the peer, where the provider can ([`Capabilities::immediates`]).
    pub immediates: bool,
}

/// A connection made.
pub type Connected = Rc<dyn Endpoint>;

/// The result of [`Provider::connect`].
pub type Outgoing = LocalFuture<Result<Connected, ConnectError>>;

/// Makes connections of one kind of fabric on one core.
pub trait Provider {
    /// The limits and abilities of the provider.
    fn capabilities(&self) -> Capabilities;

    /// The domain in which its connections' memory is registered.
    fn domain(&self) -> Rc<dyn Domain>;

    /// Receives for connections of this provider to share. `None` without [`Capabilities::shared_receives`].
    fn shared_receives(&self, options: SharedReceives) -> Option<Rc<dyn SharedReceiveQueue>>;

    /// Connects to `address`. The provider bounds the wait.
    fn connect(&self, address: SocketAddr, options: ConnectOptions) -> Outgoing;

    /// Listens at `address` on this core; port 0 picks a free one.
    ///
    /// # Errors
    /// As bind(2) and listen(2).
    fn listen(&self, address: SocketAddr) -> std::io::Result<Box<dyn Listener>>;
}

/// Waits for peers.
pub trait Listener {
    /// The address it listens at, with the port that was picked.
    fn local_address(&self) -> SocketAddr;

    /// The next peer with a well-formed request. The provider drops and logs other peers. Many can be in set-up at a
    /// time, and none delays another.
    fn accept(&mut self) -> LocalFuture<std::io::Result<Box<dyn Incoming>>>;
}

/// A peer that asks for a connection.
pub trait Incoming {
    /// The peer's address.
    fn peer_address(&self) -> SocketAddr;

    /// The private data of the request; zeros may follow it ([`Capabilities::private_data`]).
    fn private_data(&self) -> &[u8];

    /// Its IRD and ORD, where the provider's set-up carries them.
    fn read_depths(&self) -> Option<(u16, u16)>;

    /// Accepts the connection. The receives are in place before the peer gets the reply and may send.
    fn accept(self: Box<Self>, options: ConnectOptions) -> Outgoing;

    /// Refuses, with private data that may say why.
    fn reject(self: Box<Self>, private_data: Vec<u8>) -> LocalFuture<()>;
}

impl Span {
    /// The whole region.
    ///
    /// # Errors
    /// The region is longer than one operation may be (2^32 - 1).
    pub fn whole(region: &Region) -> Result<Span, PostError> {
        let len = u32::try_from(region.len())
            .map_err(|_| PostError::Invalid("a span is at most 2^32 - 1 bytes"))?;
        Ok(Span {
            region: region.clone(),
            offset: 0,
            len,
        })
    }
}
