//! Errors of connections: why there is none, why one ended, why a call has no usable reply.

use crate::limits::{CALL_DEADLINE, READ_DEADLINE};
use gannet_fabric::{ConnectError, Disconnected, PostError, RegisterError, WorkError};
use gannet_session::Exceeded;
use gannet_wire::volume::{MessageHeaderError, Operation, Refusal, Status, VERSION, version_in};
use gannet_wire::xdr::XdrError;
use std::io;
use std::net::SocketAddr;
use thiserror::Error;

/// Why a call has no usable reply. Unless it was refused, the caller does not know whether it was done.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum LinkError {
    /// There is no connection to the server, and none could be made.
    #[error(transparent)]
    Unreachable(#[from] Unreachable),
    /// The connection has ended.
    #[error(transparent)]
    Ended(#[from] EndReason),
    /// The peer refuses the request.
    #[error("it refuses: {0}")]
    Refused(Status),
    /// The peer's reply cannot be decoded.
    #[error("its answer cannot be decoded")]
    Undecodable,
    /// The peer has not replied within the time that the caller waits; the connection goes on.
    #[error("it does not answer in time")]
    Silent,
    /// The peer owed an answer, or bytes of an RDMA Read, for too long; the connection was ended for that.
    #[error("no answer within {} s, or no bytes within {} s", CALL_DEADLINE.as_secs(), READ_DEADLINE.as_secs())]
    TimedOut,
    /// The message is longer than messages may be.
    #[error("the request is longer than a message may be")]
    TooLong,
    /// Memory could not be registered.
    #[error("memory could not be registered: {0}")]
    Memory(#[from] RegisterError),
}

/// Why a connection ended: a fault of the peer or of the endpoint, or a decision of this side.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum EndReason {
    /// The endpoint has ended.
    #[error(transparent)]
    Disconnected(#[from] Disconnected),
    /// Posted work failed.
    #[error(transparent)]
    Work(#[from] WorkError),
    /// Work could not be posted.
    #[error(transparent)]
    Post(#[from] PostError),
    /// A message has no valid header.
    #[error(transparent)]
    Header(#[from] MessageHeaderError),
    /// The peer sent a request without a credit.
    #[error(transparent)]
    Credits(#[from] Exceeded),
    /// The peer reported eager buffers in a body that cannot be decoded.
    #[error(transparent)]
    Buffers(#[from] XdrError),
    /// The peer reported eager buffers twice, or before this side did.
    #[error("buffers that were not asked for")]
    UnexpectedBuffers,
    /// An RDMA Write with Immediate that leaves no message behind data in an eager buffer of ours.
    #[error("an immediate without a message")]
    UnexpectedImmediate,
    /// The memory of a reply cannot be registered.
    #[error("no memory for a reply can be registered")]
    NoMemory,
    /// A control message of an operation that has none, or data outside a transfer.
    #[error("an unexpected {0:?}")]
    Unexpected(Operation),
    /// A request came to a side that answers none.
    #[error("a request to a client")]
    RequestToClient,
    /// The peer is a manager whose term is over: it may have been paused, and its replies may be old.
    #[error("the manager's term {term} is over: term {later} has begun")]
    TermOver {
        /// The peer's term.
        term: u64,
        /// The latest term that this side has heard of.
        later: u64,
    },
    /// A call had no reply by its deadline. The peer may still use the call's memory; only the end stops that.
    #[error("no answer in time")]
    NoReply,
    /// An RDMA Read brought no bytes by its deadline.
    #[error("no bytes in time")]
    NoBytes,
    /// An RDMA Read of an I/O server brought no bytes, and other peers wait for the memory.
    #[error("no bytes, and others need the memory for them")]
    MemoryForBytes,
    /// The peer does not take its replies, and other peers wait for the memory of the connection's messages.
    #[error("the peer keeps memory that others wait for")]
    MemoryForMessages,
    /// The connection was idle, and its place was given to another peer.
    #[error("idle, and others need the room")]
    Evicted,
    /// The clients' key has changed.
    #[error("the volume has a new key for clients")]
    KeyChanged,
    /// This server does not have the lease of its number any more.
    #[error("the manager does not renew the lease of this server's number")]
    NoLease,
    /// The peer was silent, and another server is the primary of its groups.
    #[error("another server has taken over from the peer")]
    TakenOver,
    /// The same session has connected again.
    #[error("the peer has connected again")]
    Replaced,
    /// Requests of an earlier connection of the session were still under way after the time given to them.
    #[error("what was asked on an earlier connection has not come to an end")]
    EarlierUnderWay,
    /// Requests of an earlier connection of the session ended only now; the peer may have died meanwhile.
    #[error("requests of an earlier connection have ended just now")]
    EarlierEnded,
    /// This side is closing the connection, when all queued work has left.
    #[error("the connection is being closed")]
    Closing,
    /// This side has closed the connection, in good order.
    #[error("closed")]
    Closed,
    /// The connection's task has ended and left no reason.
    #[error("the connection has ended")]
    Unknown,
}

/// Why a connection was not set up.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum HandshakeError {
    /// The peer speaks another version of the native protocol.
    #[error(
        "the {peer} speaks version {version} of the native protocol and this program version {VERSION}: use the same release of gannet everywhere"
    )]
    OtherVersion {
        /// "server" or "peer": the part that the peer has.
        peer: &'static str,
        /// The version of the peer.
        version: u8,
    },
    /// The server rejected the connection and gave no reason.
    #[error("the peer rejected the connection (it is another server, or of an earlier version)")]
    Rejected,
    /// The server refuses the connection for this reason.
    #[error("{0}")]
    Refused(Refusal),
    /// The peer does not speak the transport's protocol, or not a version of it that this end has.
    #[error("the peer's set-up message is not understood: {0}")]
    Incompatible(&'static str),
    /// The provider cannot do what the connection needs.
    #[error("not possible here: {0}")]
    Unsupported(&'static str),
    /// The transport had no answer by its own deadline.
    #[error("the peer did not answer in time")]
    NoAnswer,
    /// The network below failed.
    #[error(transparent)]
    System(SystemError),
    /// The server did not prove that it knows the volume's key.
    #[error(
        "wrong key, or an impostor: the server does not prove that it knows this key of the volume"
    )]
    NotOfVolume,
    /// The server takes fewer requests at a time than the protocol needs.
    #[error("the server takes {offered} requests at a time, and {needed} are needed")]
    TooFewCredits {
        /// The server's credits.
        offered: u32,
        /// The least number of credits.
        needed: u32,
    },
    /// The connection was not set up by its deadline.
    #[error("it does not answer in time")]
    TimedOut,
    /// This server has no receives for another connection.
    #[error("out of receives")]
    OutOfReceives,
    /// The transport's part of the set-up did not end by its deadline.
    #[error("the peer did not finish connecting")]
    Unfinished,
    /// The peer did not authenticate itself by the deadline.
    #[error("the peer did not say who it is")]
    Unidentified,
    /// The place of the unauthenticated peer was given to another one.
    #[error("others came before the peer had said who it is")]
    Evicted,
    /// The peer's proof of the volume's key is wrong.
    #[error("the peer does not know the volume's key")]
    WrongKey,
    /// The private data names another volume, or is none of the native protocol.
    #[error("the peer does not mean this volume, or does not speak its protocol")]
    OtherVolume,
    /// The first message is shorter than its header.
    #[error("a message shorter than its header")]
    Short,
    /// The first message does not fit its memory.
    #[error("the first message is longer than a message may be")]
    TooLong,
    /// The connection ended before the peer was authenticated.
    #[error(transparent)]
    Ended(#[from] EndReason),
}

impl From<ConnectError> for HandshakeError {
    fn from(error: ConnectError) -> Self {
        match error {
            ConnectError::Rejected { private_data } => match version_in(&private_data) {
                Some(version) if version != VERSION => HandshakeError::OtherVersion {
                    peer: "server",
                    version,
                },
                _ => match Refusal::find(&private_data) {
                    Some(why) => HandshakeError::Refused(why),
                    None => HandshakeError::Rejected,
                },
            },
            ConnectError::Incompatible(why) => HandshakeError::Incompatible(why),
            ConnectError::TimedOut => HandshakeError::NoAnswer,
            ConnectError::Unsupported(why) => HandshakeError::Unsupported(why),
            ConnectError::Io(error) => HandshakeError::System(error.into()),
        }
    }
}

/// Why a server of a volume cannot be reached.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Unreachable {
    /// The client has the addresses of I/O servers alone.
    #[error("there is no manager to connect to")]
    NoManager,
    /// The number is none of the volume's I/O servers.
    #[error("the volume has no such I/O server")]
    NoSuchServer,
    /// No member of the group serves it, or the volume has no such group.
    #[error("no I/O server serves group {group} of the volume")]
    NoPrimary {
        /// The number of the group.
        group: u32,
    },
    /// The manager, which reports the addresses of I/O servers, gives no usable reply.
    #[error("the manager does not report where it is: {0}")]
    NotReported(Box<LinkError>),
    /// The manager's record of the volume cannot be decoded.
    #[error("the manager's answer makes no sense: {0}")]
    BadRecord(XdrError),
    /// The manager's record of the volume has no servers, or no groups.
    #[error("the manager's answer makes no sense: no servers, or no groups of them")]
    EmptyRecord,
    /// The I/O server has not registered with the manager since the manager began.
    #[error("it has not registered with the manager")]
    NotRegistered,
    /// The name of the server's host has no address.
    #[error("it is at {host}: {error}")]
    Lookup {
        /// The name.
        host: String,
        /// Why its address is not known.
        error: LookupError,
    },
    /// The address of the manager is not known.
    #[error("{0}")]
    NoAddress(SystemError),
    /// No connection could be made.
    #[error("{address}: {error}")]
    Connect {
        /// The server's address.
        address: SocketAddr,
        /// Why.
        error: HandshakeError,
    },
}

/// Why the address of a host is not known.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum LookupError {
    /// The resolver failed.
    #[error("{0}")]
    Failed(SystemError),
    /// The resolver did not reply in time.
    #[error("its address is not found in time")]
    TimedOut,
    /// This client has no resolver.
    #[error("names of hosts cannot be looked up here")]
    NoResolver,
}

/// An error of the operating system or of a resolver, of which tasks that wait for one connection each get a copy.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{text}")]
pub struct SystemError {
    /// Its kind.
    pub kind: io::ErrorKind,
    /// Its text for people.
    pub text: String,
}

impl From<io::Error> for SystemError {
    fn from(error: io::Error) -> Self {
        SystemError {
            kind: error.kind(),
            text: error.to_string(),
        }
    }
}
