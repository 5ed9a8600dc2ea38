//! The types for callers of remote procedures, the same for both transports: requests, responses, settings, errors.

use crate::limits::{CALL_HEADER_MAX, PAYLOAD_MAX, RECORD_MAX};
use gannet_fabric::Provider;
use gannet_fabric::registration::Registration;
use gannet_runtime::Buffer;
use gannet_wire::rpc::{AcceptStatus, AuthSys, Groups, MACHINE_NAME_MAX, OpaqueAuth, Rejection};
use gannet_wire::rpc::{AuthFlavor, ReplyHeaderError};
use gannet_wire::rpcrdma::Design;
use gannet_wire::xdr::{Encoder, XdrError};
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;
use thiserror::Error;

/// The server that a client connects to, and connects to again after each lost connection.
#[derive(Clone)]
pub enum Target {
    /// A byte stream of the runtime with record marks.
    Tcp(SocketAddr),
    /// RPC-over-RDMA version 1 through a fabric provider.
    Rdma(Rc<dyn Provider>, SocketAddr),
}

impl Target {
    /// The server's address.
    pub fn address(&self) -> SocketAddr {
        match self {
            Target::Tcp(address) | Target::Rdma(_, address) => *address,
        }
    }
}

/// How long a call without an answer is repeated: NFS's `hard` and `soft` mounts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Persistence {
    /// Calls wait until the server answers, however long it takes.
    Hard,
    /// A call fails with [`CallError::TimedOut`] after `attempts` transmissions without an answer.
    Soft {
        /// Transmissions, and connections that could not be made; 0 counts as 1.
        attempts: u32,
    },
}

/// The settings of a client.
#[derive(Debug, Clone)]
pub struct ClientConfig {
    /// The credential of calls without one of their own.
    pub credential: CallerCredential,
    /// How long a call waits for its reply before the client breaks the connection and makes another.
    pub reply_timeout: Duration,
    /// How long one attempt to connect may take.
    pub connect_timeout: Duration,
    /// Pause before the second attempt to connect; doubles up to `backoff_max`.
    pub backoff_min: Duration,
    /// Longest pause between two attempts to connect.
    pub backoff_max: Duration,
    /// How long calls without an answer are repeated.
    pub persistence: Persistence,
    /// How memory is registered for the server, on RDMA.
    pub registration: Registration,
    /// The end that moves bulk results, on RDMA. With a server that does not offer this design it is Read-Write.
    pub design: Design,
}

impl Default for ClientConfig {
    fn default() -> ClientConfig {
        ClientConfig {
            credential: CallerCredential::None,
            reply_timeout: Duration::from_secs(60),
            connect_timeout: Duration::from_secs(10),
            backoff_min: Duration::from_millis(100),
            backoff_max: Duration::from_secs(10),
            persistence: Persistence::Soft { attempts: 3 },
            registration: Registration::default(),
            design: Design::default(),
        }
    }
}

/// The credential of a caller, which the server does not verify.
#[derive(Debug, Clone, Default)]
pub enum CallerCredential {
    /// AUTH_NONE.
    #[default]
    None,
    /// AUTH_SYS.
    Sys {
        /// This machine's name; cut after [`MACHINE_NAME_MAX`] bytes.
        machine_name: String,
        /// Effective user.
        uid: u32,
        /// Effective group.
        gid: u32,
        /// Supplementary groups.
        groups: Groups,
    },
}

impl CallerCredential {
    /// Appends the credential and an AUTH_NONE verifier.
    pub(crate) fn emit(&self, encoder: &mut Encoder<'_>) {
        match self {
            CallerCredential::None => OpaqueAuth::NONE.emit(encoder),
            CallerCredential::Sys {
                machine_name,
                uid,
                gid,
                groups,
            } => {
                let name = machine_name.as_bytes();
                let machine_name = name.get(..MACHINE_NAME_MAX).unwrap_or(name);
                let (uid, gid, groups) = (*uid, *gid, *groups);
                let mut body = Vec::new();
                AuthSys {
                    stamp: 0,
                    machine_name,
                    uid,
                    gid,
                    groups,
                }
                .emit(&mut Encoder::new(&mut body));
                OpaqueAuth {
                    flavor: AuthFlavor::SYS,
                    body: &body,
                }
                .emit(encoder);
            }
        }
        OpaqueAuth::NONE.emit(encoder);
    }
}

/// An eligible opaque argument (RFC 8267: WRITE data, SYMLINK path) that travels by itself.
#[derive(Debug)]
pub struct ArgumentPayload {
    /// The memory; comes back with the response, or is dropped with a failed call.
    pub buffer: Buffer,
    /// The first `len` bytes of it are the opaque.
    pub len: usize,
    /// The offset in [`Request::arguments`] at which they belong: just behind the opaque's length word, which is in
    /// the arguments already.
    pub position: usize,
}

/// Memory for the eligible opaque of the results (READ data, READLINK path).
#[derive(Debug)]
pub struct Sink {
    /// The memory; comes back with the response, or is dropped with a failed call. Over RDMA all of it is exposed
    /// to the server while the call is under way.
    pub buffer: Buffer,
    /// Finds the opaque in the results: the number of bytes up to and including its length word; `None` when there
    /// is none (the call failed), or the prefix does not reach it. Gets the beginning of the results, at least
    /// [`crate::PLACEMENT_PREFIX_LEN`] bytes or all of them.
    pub locate: fn(&[u8]) -> Option<usize>,
}

/// A call to make.
#[derive(Debug)]
pub struct Request {
    /// The program.
    pub program: u32,
    /// Its version.
    pub version: u32,
    /// The procedure.
    pub procedure: u32,
    /// The encoded arguments, without the bytes and the pad of `payload`.
    pub arguments: Vec<u8>,
    /// An opaque argument kept apart, of at most [`crate::limits::PAYLOAD_MAX`] bytes.
    pub payload: Option<ArgumentPayload>,
    /// Most bytes that the results can have, without those for the sink. Decides whether RDMA offers a Reply
    /// chunk; a longer reply fails the call.
    pub results_max: usize,
    /// The memory for the opaque result.
    pub sink: Option<Sink>,
    /// The credential in place of [`ClientConfig::credential`], for clients that serve many callers.
    pub credential: Option<Rc<CallerCredential>>,
}

/// Bytes of the arguments of most calls: a handle, a name, some numbers. More make the memory grow.
const ARGUMENTS_USUAL: usize = 128;

impl Request {
    /// A call with small arguments and small results.
    pub fn new(program: u32, version: u32, procedure: u32, results_max: usize) -> Request {
        Request {
            program,
            version,
            procedure,
            arguments: Vec::with_capacity(ARGUMENTS_USUAL),
            payload: None,
            results_max,
            sink: None,
            credential: None,
        }
    }

    /// Checks the lengths against the bounds of the RPC layer.
    pub(crate) fn check(&self) -> Result<(), CallError> {
        let payload = self.payload.as_ref().map_or(0, |payload| payload.len);
        let sink = self.sink.as_ref().map_or(0, |sink| sink.buffer.len());
        let too_long = self.arguments.len() + payload > RECORD_MAX - CALL_HEADER_MAX
            || payload > PAYLOAD_MAX
            || sink > PAYLOAD_MAX
            || self.results_max > RECORD_MAX;
        if too_long {
            Err(CallError::TooLarge)
        } else {
            Ok(())
        }
    }

    /// Appends to the arguments.
    pub fn arguments(&mut self) -> Encoder<'_> {
        Encoder::new(&mut self.arguments)
    }

    /// Appends an opaque argument that travels by itself: its length word now, its bytes from the first `len` of
    /// `buffer`. At most one per call; lengths are cut to the buffer and to `u32::MAX`.
    pub fn put_payload(&mut self, buffer: Buffer, len: usize) {
        let len = len.min(buffer.len()).min(u32::MAX as usize);
        self.arguments().u32(u32::try_from(len).unwrap_or(u32::MAX));
        let position = self.arguments.len();
        self.payload = Some(ArgumentPayload {
            buffer,
            len,
            position,
        });
    }
}

/// A successful call's results.
#[derive(Debug)]
pub struct Response {
    /// The encoded results, without the bytes and the pad of the opaque in the sink.
    pub results: Vec<u8>,
    /// The sink, and the number of bytes placed in it. They match the length word in the results.
    pub sink: Option<(Buffer, usize)>,
    /// The argument payload's memory.
    pub payload: Option<Buffer>,
    /// The call was sent more than once, because a connection was lost before its reply. A server without the first
    /// reply (it restarted, or its duplicate request cache was full) has executed the call again.
    pub resent: bool,
}

/// Why a call gave no results.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum CallError {
    /// The server refused the caller or the RPC version.
    #[error("the server denied the call: {0:?}")]
    Denied(Rejection),
    /// The server cannot execute such a call.
    #[error("the server did not execute the call: {0:?}")]
    NotExecuted(AcceptStatus),
    /// The server's transport refused the call's chunks (ERR_CHUNK, ERR_VERS). Whether it was executed is unknown.
    #[error("the server's transport refused the call")]
    TransportRefused,
    /// The reply does not follow the protocol.
    #[error("the reply is malformed: {0}")]
    Malformed(&'static str),
    /// The call or its results are larger than the transport can carry.
    #[error("the call is too large for the transport")]
    TooLarge,
    /// The call's memory could not be registered, or the adapter has lost it. The argument cannot be sent again, or the
    /// results have no place. Whether the call was executed is unknown.
    #[error("the call's memory could not be registered, or is lost to the adapter")]
    Memory,
    /// All transmissions that [`Persistence::Soft`] allows had no answer.
    #[error("no answer in time")]
    TimedOut,
    /// All attempts that [`Persistence::Soft`] allows to connect failed; the text is the last failure.
    #[error("no connection: {0}")]
    NotConnected(String),
    /// The client was closed.
    #[error("the client is closed")]
    Closed,
}

impl From<ReplyHeaderError> for CallError {
    fn from(_: ReplyHeaderError) -> CallError {
        CallError::Malformed("rpc header")
    }
}

impl From<XdrError> for CallError {
    fn from(_: XdrError) -> CallError {
        CallError::Malformed("results")
    }
}
