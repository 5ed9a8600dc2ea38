//! Faults that end a connection: what the peer did wrong, or which work failed.

use gannet_fabric::{PostError, WorkError};
use gannet_session::Exceeded;
use gannet_wire::volume::{MessageHeaderError, Operation};
use gannet_wire::xdr::XdrError;
use thiserror::Error;

/// A fault of the peer or of the endpoint. The connection ends with it, and its text is the reason.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub(super) enum Fault {
    /// Posted work failed.
    #[error(transparent)]
    Work(#[from] WorkError),
    /// A receive could not be posted.
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
}
