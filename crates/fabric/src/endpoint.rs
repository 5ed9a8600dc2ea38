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

/// What the poster calls a piece of work; comes back in its completion. The provider does not look at it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct WorkId(pub u64);

/// A place in the peer's memory: a key it told us, and an offset in that key's own terms.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RemoteAddress {
    /// The region.
    pub key: RemoteKey,
    /// The first byte, in the peer's tagged offsets.
    pub offset: u64,
}

/// Where the bytes of a Send or RDMA Write come from.
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
    /// Bytes it will send.
    pub fn len(&self) -> u32 {
        match self {
            Source::Buffer { len, .. } | Source::File { len, .. } => *len,
            Source::Span(span) => span.len,
        }
    }

    /// True when it will send none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Whether the poster wants to hear of success. Failure is always reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signal {
    /// A completion for every outcome.
    Always,
    /// A completion on failure only; ordered work behind it tells of success.
    OnError,
}

/// Whether a Send revokes one of the peer's keys when it is delivered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Invalidate {
    /// No.
    None,
    /// This key, before the peer hears of the message (RFC 5040 section 5.3).
    Key(RemoteKey),
}

/// How to send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SendOptions {
    /// Completion wanted.
    pub signal: Signal,
    /// Key of the peer to revoke.
    pub invalidate: Invalidate,
    /// Marks the message as one the peer should be woken for.
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

/// What was done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Done {
    /// A message arrived in the posted buffer.
    Received {
        /// Its length in bytes.
        len: u32,
        /// The key of ours that the message revoked.
        invalidated: Option<RemoteKey>,
        /// The sender asked for attention.
        solicited: bool,
    },
    /// A Send left (the peer need not have seen it).
    Sent,
    /// An RDMA Write left.
    Written,
    /// An RDMA Read's bytes are all in place.
    Read,
}

/// The outcome of one piece of work.
#[derive(Debug)]
pub struct Completion {
    /// As posted.
    pub id: WorkId,
    /// What happened.
    pub outcome: Result<Done, WorkError>,
    /// The memory that was handed over with the work, if any.
    pub buffer: Option<Buffer>,
}

/// What was agreed for a connection; constant while it lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EndpointAttributes {
    /// RDMA Reads that may be outstanding from here; the endpoint queues more by itself. 0 means no Read is possible.
    pub ord: u16,
    /// RDMA Reads the peer may have outstanding here.
    pub ird: u16,
    /// Work requests that the send queue takes before it says [`PostError::QueueFull`].
    pub send_queue_max: u32,
    /// Receives that may be posted at once.
    pub receive_queue_max: u32,
    /// Pieces of memory that one Send or RDMA Write gathers from (verbs: max_send_sge).
    pub send_sge_max: u32,
    /// Pieces of memory that one RDMA Read scatters to (verbs: max_sge_rd); one in iWARP.
    pub read_sge_max: u32,
    /// Both ends asked for it: a refused Read fails alone, and optimistic reads are possible.
    pub exceptions: bool,
}

/// A connected, reliable, ordered queue pair. Shared by the tasks of one core.
///
/// Work completes in posting order (Reads among Reads). A Send that was delivered says that all earlier Writes and
/// Sends of its direction are in place. A Send may overtake the answer to an earlier Read: wait for the Read first.
/// Posting only queues: call [`Endpoint::flush`] after a batch.
pub trait Endpoint {
    /// Its identity; the scope for keys told to this peer alone.
    fn id(&self) -> EndpointId;

    /// The other end.
    fn peer_address(&self) -> SocketAddr;

    /// What was agreed.
    fn attributes(&self) -> EndpointAttributes;

    /// The private data that the peer sent when connecting.
    fn private_data(&self) -> &[u8];

    /// The domain whose regions this endpoint's peer may reach.
    fn domain(&self) -> Rc<dyn Domain>;

    /// Offers memory for one incoming message. A message with no memory waiting ends the connection.
    ///
    /// # Errors
    /// See [`PostError`]; the buffer is dropped then. An endpoint of a shared queue takes none.
    fn post_receive(&self, id: WorkId, buffer: Buffer) -> Result<(), PostError>;

    /// Lets `count` more messages of the peer take receives of the shared queue that this endpoint was connected with.
    /// The grant of an endpoint that has ended is void. Grants beyond the receives posted are the caller's fault: the
    /// connection whose message finds none ends.
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

    /// Starts what was posted. Cheap when there is nothing.
    fn flush(&self);

    /// Appends all completions there are to `completions`; pending when there are none. Once the endpoint is gone,
    /// everything outstanding comes back as `WorkError::Flushed`, and then only the error is left.
    ///
    /// # Errors
    /// Why the endpoint is gone; no completion will follow.
    fn poll_completions(
        &self,
        context: &mut Context<'_>,
        completions: &mut Vec<Completion>,
    ) -> Poll<Result<(), Disconnected>>;

    /// Takes what has come from the peer by now and appends the completions there are, without asking to be woken; how
    /// many. For who polls because an answer is about to come. 0 where the provider cannot, as by default.
    fn look(&self, _completions: &mut Vec<Completion>) -> usize {
        0
    }

    /// Takes no new work, lets posted Sends and Writes leave, then closes in good order.
    fn close(&self);

    /// Ends the connection at once because the peer broke a rule of the protocol above (`why` is for the log).
    fn abort(&self, why: &str);
}

/// Waits for completions; see [`Endpoint::poll_completions`].
///
/// # Errors
/// Why the endpoint is gone.
pub async fn next_completions(
    endpoint: &dyn Endpoint,
    completions: &mut Vec<Completion>,
) -> Result<(), Disconnected> {
    std::future::poll_fn(|context| endpoint.poll_completions(context, completions)).await
}

/// What each side brings to a connection.
#[derive(Debug, Default)]
pub struct ConnectOptions {
    /// Bytes for the peer's upper layer, at most [`crate::limits::PRIVATE_DATA_MAX`].
    pub private_data: Vec<u8>,
    /// Outbound RDMA Reads wanted (ORD); the agreement may be less.
    pub ord: u16,
    /// Inbound RDMA Reads offered (IRD).
    pub ird: u16,
    /// Receives to have in place before the peer can send.
    pub receives: Receives,
    /// Marks all that this side sends; what stands for nothing leaves it to the system. A provider that has no traffic
    /// classes refuses any other with [`ConnectError::Unsupported`].
    pub traffic_class: Dscp,
    /// Asks for Reads that can be refused without the end of the connection. Agreed when both ends ask and their
    /// providers can ([`Capabilities::optimistic_reads`]); see [`EndpointAttributes::exceptions`].
    pub exceptions: bool,
}

/// A connection made.
pub type Connected = Rc<dyn Endpoint>;

/// What [`Provider::connect`] will give.
pub type Outgoing = LocalFuture<Result<Connected, ConnectError>>;

/// Makes connections of one kind of fabric on one core.
pub trait Provider {
    /// What it can do.
    fn capabilities(&self) -> Capabilities;

    /// Its memory.
    fn domain(&self) -> Rc<dyn Domain>;

    /// Receives for connections of this provider to share. `None` without [`Capabilities::shared_receives`].
    fn shared_receives(&self, options: SharedReceives) -> Option<Rc<dyn SharedReceiveQueue>>;

    /// Connects to `address`. The provider bounds the wait.
    fn connect(&self, address: SocketAddr, options: ConnectOptions) -> Outgoing;

    /// Listens at `address` on this core; port 0 picks a free one.
    ///
    /// # Errors
    /// The address cannot be used.
    fn listen(&self, address: SocketAddr) -> std::io::Result<Box<dyn Listener>>;
}

/// Waits for peers.
pub trait Listener {
    /// Where it listens.
    fn local_address(&self) -> SocketAddr;

    /// The next peer that asked properly for a connection. Peers that did not are dropped and logged by the provider,
    /// and many can be in set-up at a time without holding each other up.
    fn accept(&mut self) -> LocalFuture<std::io::Result<Box<dyn Incoming>>>;
}

/// A peer that asks for a connection.
pub trait Incoming {
    /// Who.
    fn peer_address(&self) -> SocketAddr;

    /// What its upper layer sent along.
    fn private_data(&self) -> &[u8];

    /// Its IRD and ORD, where the provider's set-up carries them.
    fn read_depths(&self) -> Option<(u16, u16)>;

    /// Accepts: receives are in place before the peer hears of it.
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
