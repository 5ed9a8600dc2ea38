//! Errors of a fabric, sorted by the party at fault.

use crate::region::AccessError;
use std::io;
use thiserror::Error;

/// A connection could not be made.
#[derive(Debug, Error)]
pub enum ConnectError {
    /// The peer answered and refused; its private data may say why.
    #[error("the peer rejected the connection")]
    Rejected {
        /// The private data of the rejection.
        private_data: Vec<u8>,
    },
    /// The peer does not speak the provider's protocol, or not a version of it that this end has.
    #[error("the peer's set-up message is not understood: {0}")]
    Incompatible(&'static str),
    /// The peer did not answer in time.
    #[error("the peer did not answer in time")]
    TimedOut,
    /// The caller asked for something the provider cannot do.
    #[error("not possible here: {0}")]
    Unsupported(&'static str),
    /// The network below failed.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// Memory could not be registered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum RegisterError {
    /// The domain holds as many regions as it may.
    #[error("the protection table is full")]
    TableFull,
    /// The system does not let this process lock so much memory.
    #[error("the system refuses to lock more memory (raise the limit: `ulimit -l unlimited`)")]
    LockedMemory,
    /// The access asked for does not fit the backing (a file range can only be read).
    #[error("the backing does not allow this access")]
    Access,
    /// The file range ends behind the last offset that a file can have, [`crate::limits::FILE_OFFSET_MAX`].
    #[error("the file range ends behind the last offset of a file")]
    Range,
    /// The provider has no regions of this kind: file ranges and maps are asked for by capability.
    #[error("the provider cannot register this kind of memory")]
    Unsupported,
}

/// A registration could not be revoked. Its memory stays with the provider for good.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum DeregisterError {
    /// The adapter refused or did not answer.
    #[error("the adapter failed to take a registration back")]
    Adapter,
}

/// Work was not accepted, and had no effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum PostError {
    /// The queue is full: try again after a completion.
    #[error("the queue is full")]
    QueueFull,
    /// The endpoint is closed or closing.
    #[error("the endpoint is closed")]
    Closed,
    /// The work is larger than the endpoint's attributes allow, or names memory that does not exist.
    #[error("the work request is not valid: {0}")]
    Invalid(&'static str),
}

/// A posted work request failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum WorkError {
    /// The connection ended before the work was done; it may have reached the peer.
    #[error("flushed: the connection ended")]
    Flushed,
    /// The peer refused the access to its memory, by its Terminate or an exception. On a provider with
    /// `survivable_exceptions` the connection lasts.
    #[error("remote access refused: {0}")]
    Remote(AccessError),
    /// The peer's adapter refused the access to its memory, and does not say why ([`crate::Refusals::Unnamed`]).
    #[error("remote access refused")]
    Refused,
    /// Memory of this end did not allow the access.
    #[error("local access refused: {0}")]
    Local(AccessError),
    /// A file behind a region could not be read.
    #[error("the file behind the region failed: {0}")]
    File(io::ErrorKind),
}

/// Why an endpoint has ended.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Disconnected {
    /// This end closed it.
    #[error("closed by this end")]
    Local,
    /// The peer closed it in good order.
    #[error("closed by the peer")]
    Peer,
    /// The peer ended it with a Terminate, whose reason is the text.
    #[error("terminated by the peer: {0}")]
    PeerTerminated(String),
    /// This end ended it because the peer broke the protocol.
    #[error("terminated: the peer broke the protocol: {0}")]
    PeerMisbehaved(String),
    /// The peer sent or took no byte for too long.
    #[error("the peer went silent")]
    TimedOut,
    /// The network below failed.
    #[error("connection lost: {0}")]
    Lost(io::ErrorKind),
}
