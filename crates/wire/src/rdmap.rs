//! Remote Direct Memory Access Protocol, RFC 5040: what a DDP message means.
//!
//! The control byte ([`Opcode`]) stands in every segment; [`ReadRequest`] and [`Terminate`] are the
//! payloads of their messages. The extensions of RFC 7306 (atomics, immediate data) are not spoken;
//! that of docs/formats/exceptions.md is, and has operations of its own.

mod exception;
mod terminate;

pub use exception::{
    AUTHENTICATED_READ_REQUEST_LEN, AuthenticatedReadRequest, EXCEPTIONS_OFFER, ExceptionReason,
    MAC_LEN, READ_EXCEPTION_LEN, ReadException, ReadExceptionError, split_exceptions_offer,
};
pub use terminate::{
    BitOrder, TERMINATE_LEN_MAX, Terminate, TerminateCode, TerminateContext, TerminateError,
};

use crate::ddp::{QueueNumber, STag, TaggedOffset};

/// Bytes of a Read Request's payload.
pub const READ_REQUEST_LEN: usize = 28;

const VERSION_SHIFT: u32 = 6;
const VERSION: u8 = 1;
const OPCODE_MASK: u8 = 0x0f;

/// What a message asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Opcode {
    /// Place the payload into the receiver's tagged memory.
    Write,
    /// Send back memory of the receiver.
    ReadRequest,
    /// The memory that was asked for.
    ReadResponse,
    /// A message into the next receive buffer.
    Send,
    /// As Send; then the receiver's region of the given STag becomes invalid.
    SendWithInvalidate,
    /// As Send, and the receiver is to be woken.
    SendWithSolicitedEvent,
    /// Both.
    SendWithSolicitedEventAndInvalidate,
    /// The sender found an error and gives up the connection.
    Terminate,
    /// As ReadRequest, with the right to it; see [`AuthenticatedReadRequest`].
    AuthenticatedReadRequest,
    /// The oldest Read is refused, and the connection goes on; see [`ReadException`].
    ReadException,
}

impl Opcode {
    /// Reads the control byte of a segment.
    ///
    /// # Errors
    /// [`ControlError`] for another version or an operation that is not known here.
    pub fn parse(control: u8) -> Result<Opcode, ControlError> {
        let version = control >> VERSION_SHIFT;
        if version != VERSION {
            return Err(ControlError::Version { found: version });
        }
        Ok(match control & OPCODE_MASK {
            0 => Opcode::Write,
            1 => Opcode::ReadRequest,
            2 => Opcode::ReadResponse,
            3 => Opcode::Send,
            4 => Opcode::SendWithInvalidate,
            5 => Opcode::SendWithSolicitedEvent,
            6 => Opcode::SendWithSolicitedEventAndInvalidate,
            7 => Opcode::Terminate,
            14 => Opcode::AuthenticatedReadRequest,
            15 => Opcode::ReadException,
            found => return Err(ControlError::Opcode { found }),
        })
    }

    /// The control byte.
    pub const fn control(self) -> u8 {
        let code = match self {
            Opcode::Write => 0,
            Opcode::ReadRequest => 1,
            Opcode::ReadResponse => 2,
            Opcode::Send => 3,
            Opcode::SendWithInvalidate => 4,
            Opcode::SendWithSolicitedEvent => 5,
            Opcode::SendWithSolicitedEventAndInvalidate => 6,
            Opcode::Terminate => 7,
            Opcode::AuthenticatedReadRequest => 14,
            Opcode::ReadException => 15,
        };
        VERSION << VERSION_SHIFT | code
    }

    /// The queue an untagged operation uses; `None` for a tagged one.
    pub const fn queue(self) -> Option<QueueNumber> {
        match self {
            Opcode::Write | Opcode::ReadResponse => None,
            Opcode::ReadRequest | Opcode::AuthenticatedReadRequest => {
                Some(QueueNumber::READ_REQUEST)
            }
            Opcode::ReadException => Some(QueueNumber::READ_EXCEPTION),
            Opcode::Terminate => Some(QueueNumber::TERMINATE),
            Opcode::Send
            | Opcode::SendWithInvalidate
            | Opcode::SendWithSolicitedEvent
            | Opcode::SendWithSolicitedEventAndInvalidate => Some(QueueNumber::SEND),
        }
    }

    /// True when the message asks the receiver to invalidate a region.
    pub const fn invalidates(self) -> bool {
        matches!(
            self,
            Opcode::SendWithInvalidate | Opcode::SendWithSolicitedEventAndInvalidate
        )
    }

    /// True when the message asks for an event at the receiver.
    pub const fn is_solicited(self) -> bool {
        matches!(
            self,
            Opcode::SendWithSolicitedEvent | Opcode::SendWithSolicitedEventAndInvalidate
        )
    }
}

/// Why a control byte cannot be used. The receiver answers with RDMAP error 2/05 or 2/06.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ControlError {
    /// Another RDMAP version.
    #[error("RDMAP version {found} instead of 1")]
    Version {
        /// The version found.
        found: u8,
    },
    /// An operation not spoken here.
    #[error("RDMAP opcode {found} is not known")]
    Opcode {
        /// The opcode found.
        found: u8,
    },
}

/// The payload of a Read Request (RFC 5040 section 4.4).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReadRequest {
    /// The requester's region; the responder only echoes it.
    pub sink_stag: STag,
    /// Where in it the data goes.
    pub sink_offset: TaggedOffset,
    /// Bytes to read; may be zero.
    pub size: u32,
    /// The responder's region.
    pub source_stag: STag,
    /// Where in it the data starts.
    pub source_offset: TaggedOffset,
}

impl ReadRequest {
    /// Reads the payload; exactly [`READ_REQUEST_LEN`] bytes, so no parse can fail.
    pub fn from_bytes(bytes: &[u8; READ_REQUEST_LEN]) -> ReadRequest {
        let word = |at: usize| {
            let mut value = [0; 4];
            value.copy_from_slice(&bytes[at..at + 4]);
            u32::from_be_bytes(value)
        };
        let long = |at: usize| u64::from(word(at)) << 32 | u64::from(word(at + 4));
        ReadRequest {
            sink_stag: STag(word(0)),
            sink_offset: TaggedOffset(long(4)),
            size: word(12),
            source_stag: STag(word(16)),
            source_offset: TaggedOffset(long(20)),
        }
    }

    /// Writes the payload.
    pub fn emit(&self, out: &mut [u8; READ_REQUEST_LEN]) {
        out[0..4].copy_from_slice(&self.sink_stag.0.to_be_bytes());
        out[4..12].copy_from_slice(&self.sink_offset.0.to_be_bytes());
        out[12..16].copy_from_slice(&self.size.to_be_bytes());
        out[16..20].copy_from_slice(&self.source_stag.0.to_be_bytes());
        out[20..28].copy_from_slice(&self.source_offset.0.to_be_bytes());
    }
}
