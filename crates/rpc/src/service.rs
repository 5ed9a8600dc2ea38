//! The interface of programs, the same for both transports: calls in, replies out.

use crate::calls::CallBack;
use crate::limits::{PAYLOAD_MAX, RECORD_MAX};
use bytes::Bytes;
use gannet_datapath::FileRange;
use gannet_runtime::Buffer;
use gannet_runtime::stages::Parts;
use gannet_wire::rpc::{AcceptStatus, AuthStat, Groups, Rejection, ReplyHeader};
use gannet_wire::xdr::{Decoder, Encoder, XdrError, pad_len, padded};
use std::cell::{Cell, RefCell};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

/// One or more RPC programs, executed on the core that received the call.
///
/// A server polls the future of [`Service::call`] at once, in place; one that is ready then costs no task and no
/// allocation. Whatever may block must go to the blocking pool and be awaited. A call is never cancelled: when its
/// connection goes away its future still runs to the end, and only the reply is lost.
#[allow(async_fn_in_trait)] // Used generically only, and its futures are local to a core on purpose.
pub trait Service: 'static {
    /// The programs and versions that exist. Calls of others are answered without asking the service.
    fn programs(&self) -> &[Program];

    /// True for procedures that must not be executed twice: their replies go to the duplicate request cache.
    fn is_cached(&self, program: u32, procedure: u32) -> bool;

    /// Where the eligible opaque (RFC 8267: WRITE data, SYMLINK path) of a call begins: the number of argument
    /// bytes up to and including its length word. `prefix` is the beginning of the arguments, at least
    /// [`PLACEMENT_PREFIX_LEN`] bytes or all of them. `None` when the procedure has none, or the prefix does not
    /// reach it: then the arguments come in one piece.
    ///
    /// Lets a transport receive the opaque straight into a [`Buffer`].
    fn locate_payload(&self, program: u32, procedure: u32, prefix: &[u8]) -> Option<usize>;

    /// Whether the service has anything for a peer at this address. Other peers are refused when they connect.
    fn admits(&self, _peer: IpAddr) -> bool {
        true
    }

    /// Whether `call`, which was executed, authenticates its peer: an export admits it. Until such a call the
    /// connection is evicted first when others need its place.
    fn establishes(&self, _call: &Call) -> bool {
        true
    }

    /// The most bytes of memory that the reply to `call` may take. The call waits until its peer may make the server
    /// hold as many.
    fn reply_bytes_max(&self, _call: &Call) -> usize {
        RECORD_MAX
    }

    /// Learns that `call` was executed with this `reply`, and how long that took. What the duplicate request cache
    /// answers is not executed.
    fn observe(&self, _call: &Call, _reply: &Reply, _took: Duration) {}

    /// Whether the times of calls are to be taken apart from now on, for [`Service::took_apart`]. It is asked for each
    /// call.
    fn takes_apart(&self) -> bool {
        false
    }

    /// Learns where the time of `call` went, from its arrival until the transport below took its whole reply; see
    /// [`TakenApart`]. A call that ends without a reply is not told.
    fn took_apart(&self, _call: &Call, _taken: &TakenApart) {}

    /// Learns that calls are about to be executed, or to go on, which came before this moment: bytes came from the
    /// network, or a connection has its turn. Whatever is read behind it is not older than any of them, and several may
    /// share it until the next time. A service that wraps another one must tell it.
    fn moment(&self) {}

    /// Learns that the server refused `peer`, before this service executed a call.
    fn observe_refusal(&self, _peer: SocketAddr, _refused: Refused) {}

    /// Executes `call` and fills `reply`.
    async fn call(&self, call: &Call, reply: &mut Reply);
}

/// Where the time of a call went, at the server.
#[derive(Debug, Clone, Copy, Default)]
pub struct TakenApart {
    /// Its parts.
    pub parts: Parts,
    /// The end of its way, since the Unix epoch.
    pub ended: Duration,
    /// As [`Reply::first_word`] of its reply.
    pub first_word: Option<u32>,
}

/// Bytes of the arguments that [`Service::locate_payload`] gets at least, if there are as many.
pub const PLACEMENT_PREFIX_LEN: usize = 256;

/// A program that a service executes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Program {
    /// Its number.
    pub number: u32,
    /// Lowest version.
    pub low: u32,
    /// Highest version; all between exist.
    pub high: u32,
    /// Procedures 0 up to and not including this one exist.
    pub procedures: u32,
}

/// The transport of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Transport {
    /// A byte stream with record marks.
    Tcp,
    /// RPC-over-RDMA version 1.
    Rdma,
}

/// The caller's identity as the client states it; RPC does not verify it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Credential {
    /// AUTH_NONE.
    #[default]
    None,
    /// AUTH_SYS.
    Sys {
        /// Effective user.
        uid: u32,
        /// Effective group.
        gid: u32,
        /// Supplementary groups.
        groups: Groups,
    },
}

/// A fault of a call's credential.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CredentialFault {
    /// Its bytes are no credential of its flavor.
    Malformed,
    /// AUTH_SYS with more groups than its 16 (RFC 5531 appendix A).
    TooManyGroups {
        /// The user that it states.
        uid: u32,
        /// The primary group that it states.
        gid: u32,
    },
    /// Its flavor, by number, is neither AUTH_NONE nor AUTH_SYS.
    Flavor(u32),
}

/// A connection or a call that came to no service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refused {
    /// A connection: [`Service::admits`] is false for its peer's address.
    Address,
    /// A call, because of its credential.
    Credential {
        /// The transport that brought it.
        transport: Transport,
        /// The reason.
        fault: CredentialFault,
    },
}

/// An opaque argument whose bytes did not come with the others.
#[derive(Debug)]
pub struct Placed {
    /// Holds the bytes, from its start.
    pub buffer: Buffer,
    /// Bytes of the opaque, with or without its pad.
    pub len: usize,
    /// The offset in [`Call::arguments`] at which they belong: just behind the opaque's length word.
    pub position: usize,
}

/// An eligible opaque argument, inline or in a buffer of its own.
#[derive(Debug)]
pub enum OpaqueArgument<'a> {
    /// Among the other arguments.
    Inline(&'a [u8]),
    /// The payload is the first bytes of a buffer of its own.
    Placed(Buffer, usize),
}

impl OpaqueArgument<'_> {
    /// The opaque without its pad.
    pub fn as_slice(&self) -> &[u8] {
        match self {
            OpaqueArgument::Inline(bytes) => bytes,
            OpaqueArgument::Placed(buffer, len) => buffer.get(..*len).unwrap_or(buffer),
        }
    }
}

/// A call as received, with its header taken apart.
#[derive(Debug)]
pub struct Call {
    /// Chosen by the client.
    pub xid: u32,
    /// The program.
    pub program: u32,
    /// Its version; one that the service has.
    pub version: u32,
    /// Its procedure; one that the service has.
    pub procedure: u32,
    /// The caller's identity as the client states it.
    pub credential: Credential,
    /// The client's address and port.
    pub peer: SocketAddr,
    /// The transport that brought the call.
    pub transport: Transport,
    pub(crate) arguments: Vec<u8>,
    pub(crate) placed: RefCell<Option<Placed>>,
    pub(crate) dropped: Cell<bool>,
    /// See [`Call::vouch`].
    vouched: Cell<bool>,
    /// See [`Call::note`].
    note: Cell<u8>,
    /// See [`Call::call_back`].
    pub(crate) back: Option<CallBack>,
}

impl Call {
    pub(crate) fn empty() -> Call {
        Call {
            xid: 0,
            program: 0,
            version: 0,
            procedure: 0,
            credential: Credential::None,
            peer: SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0),
            transport: Transport::Tcp,
            arguments: Vec::new(),
            placed: RefCell::new(None),
            dropped: Cell::new(false),
            vouched: Cell::new(false),
            note: Cell::new(0),
            back: None,
        }
    }

    /// A handle to call the client over the connection of this call, as long as it lasts. `None` for a call from a
    /// server to its client: the client calls the server over its own connection.
    pub fn call_back(&self) -> Option<CallBack> {
        self.back.clone()
    }

    /// Notes that the peer may use what the call is about, for [`Service::establishes`].
    pub fn vouch(&self) {
        self.vouched.set(true);
    }

    /// Whether [`Call::vouch`] was called.
    pub fn is_vouched(&self) -> bool {
        self.vouched.get()
    }

    /// Notes a number about the call, for [`Service::observe`]: a service may execute many calls at a time.
    pub fn note(&self, number: u8) {
        self.note.set(number);
    }

    /// The number that [`Call::note`] noted last; 0 at the start.
    pub fn noted(&self) -> u8 {
        self.note.get()
    }

    /// Makes room for another call.
    pub(crate) fn clear(&mut self) {
        self.placed.replace(None);
        self.dropped.set(false);
        self.vouched.set(false);
        self.note.set(0);
        self.back = None;
    }

    /// The argument bytes, without those of a placed opaque and its pad.
    pub fn arguments(&self) -> &[u8] {
        &self.arguments
    }

    /// A decoder at the start of the arguments.
    pub fn decoder(&self) -> Decoder<'_> {
        Decoder::new(&self.arguments)
    }

    /// Takes the opaque at `decoder`'s position (length word, bytes, pad), of at most `max` bytes, whether it
    /// came among the arguments or was placed in a buffer. `decoder` must be one of this call's.
    ///
    /// # Errors
    /// Too long, too short, or the placed bytes do not match the length word: answer GARBAGE_ARGS.
    pub fn take_opaque<'a>(
        &'a self,
        decoder: &mut Decoder<'a>,
        max: usize,
    ) -> Result<OpaqueArgument<'a>, XdrError> {
        let length = decoder.length(max)?;
        let here = self
            .placed
            .borrow_mut()
            .take_if(|placed| placed.position == decoder.position());
        let Some(placed) = here else {
            return Ok(OpaqueArgument::Inline(decoder.bytes(length)?));
        };
        // A Read chunk may hold the item with or without its pad (RFC 8166 section 3.4.5.2).
        if placed.len != length && Some(placed.len) != padded(length) {
            return Err(XdrError::Value);
        }
        Ok(OpaqueArgument::Placed(placed.buffer, length))
    }

    /// Ends the call without any reply, for a duplicate whose first execution has no known result.
    pub(crate) fn drop_reply(&self) {
        self.dropped.set(true);
    }
}

/// An opaque result that the transport may send apart from the other results.
pub enum Payload {
    /// The first `len` bytes of a buffer.
    Buffer {
        /// The memory.
        buffer: Buffer,
        /// Bytes of it that are the payload.
        len: usize,
    },
    /// Shared bytes.
    Bytes(Bytes),
    /// A range of a file, taken from the page cache on the way out. If the file shrinks meanwhile the missing
    /// bytes go out as zeros; for one that cannot be read see [`Reply::answer_if_unreadable`].
    File(FileRange),
}

impl Payload {
    /// Bytes of the payload, without a pad.
    pub fn len(&self) -> usize {
        match self {
            Payload::Buffer { buffer, len } => (*len).min(buffer.len()),
            Payload::Bytes(bytes) => bytes.len(),
            Payload::File(range) => range.len,
        }
    }

    /// True when there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl std::fmt::Debug for Payload {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let kind = match self {
            Payload::Buffer { .. } => "buffer",
            Payload::Bytes(_) => "bytes",
            Payload::File(_) => "file",
        };
        f.debug_struct("Payload")
            .field("kind", &kind)
            .field("len", &self.len())
            .finish()
    }
}

/// The status of a reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    Accepted(AcceptStatus),
    Denied(Rejection),
}

/// The answer to a call: results, at most one of them an opaque that travels by itself.
///
/// Starts as SUCCESS with empty results.
#[derive(Debug)]
pub struct Reply {
    pub(crate) verdict: Verdict,
    pub(crate) head: Vec<u8>,
    pub(crate) payload: Option<(Payload, usize)>,
    /// The results to send instead when the payload cannot be read.
    pub(crate) unreadable: Option<&'static [u8]>,
}

impl Reply {
    pub(crate) fn empty() -> Reply {
        Reply {
            verdict: Verdict::Accepted(AcceptStatus::Success),
            head: Vec::new(),
            payload: None,
            unreadable: None,
        }
    }

    /// Appends to the results. Items behind a payload may follow it.
    pub fn results(&mut self) -> Encoder<'_> {
        Encoder::new(&mut self.head)
    }

    /// The first four bytes of the results, which most procedures begin with their status. `None` for an answer without
    /// results, or with fewer.
    pub fn first_word(&self) -> Option<u32> {
        match self.verdict {
            Verdict::Accepted(AcceptStatus::Success) => self
                .head
                .first_chunk()
                .map(|word| u32::from_be_bytes(*word)),
            _ => None,
        }
    }

    /// True when the call was accepted and executed, whatever the status in its results.
    pub fn is_success(&self) -> bool {
        self.verdict == Verdict::Accepted(AcceptStatus::Success)
    }

    /// Bytes of results so far, without a payload.
    pub fn len(&self) -> usize {
        self.head.len()
    }

    /// True when there are no results yet.
    pub fn is_empty(&self) -> bool {
        self.head.is_empty()
    }

    /// Puts `payload` at the end of the results so far, with a length word before it; the transport adds the pad.
    /// A reply has at most one payload: a second call replaces the first and must not happen.
    ///
    /// A payload longer than [`PAYLOAD_MAX`] is the service's mistake; such a reply becomes SYSTEM_ERR.
    pub fn put_payload(&mut self, payload: Payload) {
        let length = u32::try_from(payload.len()).ok();
        let Some(length) = length.filter(|_| payload.len() <= PAYLOAD_MAX) else {
            return self.fail(AcceptStatus::SystemErr);
        };
        self.results().u32(length);
        if length > 0 {
            self.payload = Some((payload, self.head.len()));
        }
    }

    /// Gives the results to answer with when the file of the payload cannot be read. Without, and when the payload's
    /// beginning has left already, the call is answered with SYSTEM_ERR; in the latter case on another connection.
    pub fn answer_if_unreadable(&mut self, results: &'static [u8]) {
        self.unreadable = Some(results);
    }

    /// Throws the results away, for another attempt at them.
    pub fn clear(&mut self) {
        self.verdict = Verdict::Accepted(AcceptStatus::Success);
        self.head.clear();
        self.payload = None;
        self.unreadable = None;
    }

    /// Answers that the payload cannot be read.
    pub(crate) fn fail_unreadable(&mut self) {
        match self.unreadable {
            Some(results) => {
                self.clear();
                self.head.extend_from_slice(results);
            }
            None => self.fail(AcceptStatus::SystemErr),
        }
    }

    /// Answers with `status` and no results.
    pub fn fail(&mut self, status: AcceptStatus) {
        self.clear();
        self.verdict = Verdict::Accepted(status);
    }

    /// Refuses the caller's credential.
    pub fn deny(&mut self, status: AuthStat) {
        self.clear();
        self.verdict = Verdict::Denied(Rejection::AuthError(status));
    }

    /// Bytes of the results with payload and pad.
    pub fn stream_len(&self) -> usize {
        let payload = self
            .payload
            .as_ref()
            .map_or(0, |(payload, _)| payload.len());
        self.head.len() + payload + pad_len(payload)
    }

    /// Appends the header of this reply to the call `xid`; the verifier is always AUTH_NONE.
    pub(crate) fn emit_header(&self, xid: u32, encoder: &mut Encoder<'_>) {
        match self.verdict {
            Verdict::Accepted(status) => ReplyHeader::accepted(xid, status),
            Verdict::Denied(rejection) => ReplyHeader::denied(xid, rejection),
        }
        .emit(encoder);
    }

    /// Appends the RPC message: with its payload, or without when that travels apart.
    pub(crate) fn emit_message(&self, xid: u32, whole: bool, out: &mut Vec<u8>) {
        self.emit_header(xid, &mut Encoder::new(out));
        let Some((payload, position)) = self.payload.as_ref().filter(|_| whole) else {
            return out.extend_from_slice(&self.head);
        };
        let (head, rest) = self
            .head
            .split_at_checked(*position)
            .unwrap_or((&self.head, &[]));
        out.extend_from_slice(head);
        match payload {
            Payload::Buffer { buffer, len } => {
                out.extend_from_slice(buffer.get(..*len).unwrap_or(buffer));
            }
            Payload::Bytes(bytes) => out.extend_from_slice(bytes),
            // Unreachable: a file that is to be sent inline was read into memory before.
            Payload::File(range) => out.resize(out.len() + range.len, 0),
        }
        out.extend_from_slice([0; 3].get(..pad_len(payload.len())).unwrap_or(&[]));
        out.extend_from_slice(rest);
    }

    /// Bytes that [`Reply::emit_header`] appends.
    pub(crate) fn header_len(&self) -> usize {
        match self.verdict {
            Verdict::Accepted(AcceptStatus::ProgMismatch { .. }) => 32,
            Verdict::Accepted(_) | Verdict::Denied(Rejection::RpcMismatch { .. }) => 24,
            Verdict::Denied(Rejection::AuthError(_)) => 20,
        }
    }
}
