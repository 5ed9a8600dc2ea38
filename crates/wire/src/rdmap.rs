//! Remote Direct Memory Access Protocol, RFC 5040: what a DDP message means.
//!
//! Every segment has RDMAP's control field ([`Opcode`]). [`ReadRequest`] and [`Terminate`] are the payloads of their
//! messages. Gannet does not speak the extensions of RFC 7306 (atomics, immediate data). It speaks that of
//! docs/formats/exceptions.md, which has opcodes of its own.

mod exception;
mod terminate;

pub use exception::{
    AUTHENTICATED_READ_REQUEST_LEN, AuthenticatedReadRequest, EXCEPTIONS_OFFER, ExceptionReason,
    MAC_LEN, READ_EXCEPTION_LEN, ReadException, ReadExceptionError, split_exceptions_offer,
};
pub use terminate::{
    BitOrder, TERMINATE_LEN_MAX, Terminate, TerminateCode, TerminateContext, TerminateError,
};

use crate::ddp::{QueueNumber, STag, TaggedLocation, TaggedOffset};
use crate::field::{put, u32_of, u64_of};
use core::fmt;
use core::ops::Range;

/// Bytes of a Read Request's payload ([`ReadRequest`]).
pub const READ_REQUEST_LEN: usize = field::SRC_TO.end;

/// Fields of a Read Request.
mod field {
    use super::Range;
    pub(super) const SINK_STAG: Range<usize> = 0..4;
    pub(super) const SINK_TO: Range<usize> = 4..12;
    pub(super) const RDMARDSZ: Range<usize> = 12..16;
    pub(super) const SRC_STAG: Range<usize> = 16..20;
    pub(super) const SRC_TO: Range<usize> = 20..28;
}

/// RV, the version, is above this bit.
const VERSION_SHIFT: u32 = 6;
const VERSION: u8 = 1;
/// Rsv: zero on transmit.
pub const CONTROL_RESERVED: u8 = 0x30;
const OPCODE_MASK: u8 = 0x0f;

/// The operation of a message: the opcode in the RDMAP control field (RFC 5040 section 4.1), which is the byte behind
/// DDP's control field in every segment:
///
/// ```text
///  0 1 2 3 4 5 6 7
/// +-+-+-+-+-+-+-+-+
/// | RV|Rsv|Opcode |
/// +-+-+-+-+-+-+-+-+
/// ```
///
/// RV is 1. Opcodes 8 to 11 are those of RFC 7306; a segment with one of them is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Opcode {
    /// 0, tagged: places the payload into the receiver's tagged memory.
    Write,
    /// 1, untagged: asks for memory of the receiver; see [`ReadRequest`].
    ReadRequest,
    /// 2, tagged: places the memory that a Read Request asked for.
    ReadResponse,
    /// 3, untagged: a message for the next receive buffer.
    Send,
    /// 4, untagged: a Send, after which the receiver invalidates the STag in the header.
    SendWithInvalidate,
    /// 5, untagged: a Send that asks for an event at the receiver.
    SendWithSolicitedEvent,
    /// 6, untagged: a Send that asks for both.
    SendWithSolicitedEventAndInvalidate,
    /// 7, untagged: the sender found an error and ends the connection; see [`Terminate`].
    Terminate,
    /// 14, untagged: a Read Request with the bearer's right to it; see [`AuthenticatedReadRequest`].
    AuthenticatedReadRequest,
    /// 15, untagged: the oldest Read is refused, and the connection goes on; see [`ReadException`].
    ReadException,
}

impl Opcode {
    /// Reads the control field of a segment.
    ///
    /// # Errors
    /// - [`ControlError::Version`]: RV is not 1.
    /// - [`ControlError::Opcode`]: the opcode is not one of [`Opcode`].
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

    /// The control field with this opcode and the version spoken here.
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

    /// The queue of an untagged operation; `None` for a tagged one.
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

impl fmt::Display for Opcode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Opcode::Write => "RDMA Write",
            Opcode::ReadRequest => "RDMA Read Request",
            Opcode::ReadResponse => "RDMA Read Response",
            Opcode::Send => "Send",
            Opcode::SendWithInvalidate => "Send with Invalidate",
            Opcode::SendWithSolicitedEvent => "Send with SE",
            Opcode::SendWithSolicitedEventAndInvalidate => "Send with SE and Invalidate",
            Opcode::Terminate => "Terminate",
            Opcode::AuthenticatedReadRequest => "Authenticated Read Request",
            Opcode::ReadException => "Read Exception",
        })
    }
}

/// The reason why a control field cannot be used. The receiver answers with RDMAP error 2/05 or 2/06 (RFC 5040 section
/// 4.8).
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ControlError {
    /// RV is not 1.
    #[error("RDMAP version {found} instead of 1")]
    Version {
        /// The version found, 0 to 3.
        found: u8,
    },
    /// The opcode is unassigned, or one of RFC 7306.
    #[error("RDMAP opcode {found} is not known")]
    Opcode {
        /// The opcode found, 0 to 15.
        found: u8,
    },
}

/// The payload of a Read Request (RFC 5040 section 4.4), [`READ_REQUEST_LEN`] bytes:
///
/// ```text
///  0                   1                   2                   3
///  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// |                           SinkSTag                            |
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// |                            SinkTO                             |
/// +                                                               +
/// |                                                               |
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// |                           RDMARDSZ                            |
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// |                            SrcSTag                            |
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// |                             SrcTO                             |
/// +                                                               +
/// |                                                               |
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReadRequest {
    /// SinkSTag: the requester's buffer. The responder only echoes it.
    pub sink_stag: STag,
    /// SinkTO: the position in that buffer of the first byte read.
    pub sink_offset: TaggedOffset,
    /// RDMARDSZ: bytes to read, from 0 on.
    pub size: u32,
    /// SrcSTag: the responder's buffer. Without meaning when `size` is 0.
    pub source_stag: STag,
    /// SrcTO: the position in that buffer of the first byte to read.
    pub source_offset: TaggedOffset,
}

impl ReadRequest {
    /// The position in the requester's memory that the data goes to.
    pub fn sink(&self) -> TaggedLocation {
        TaggedLocation {
            stag: self.sink_stag,
            offset: self.sink_offset,
        }
    }

    /// The position in the responder's memory that the data comes from.
    pub fn source(&self) -> TaggedLocation {
        TaggedLocation {
            stag: self.source_stag,
            offset: self.source_offset,
        }
    }

    /// Reads the payload. Every value of its fields is valid.
    pub fn from_bytes(bytes: &[u8; READ_REQUEST_LEN]) -> ReadRequest {
        ReadRequest {
            sink_stag: STag(u32_of(bytes, field::SINK_STAG)),
            sink_offset: TaggedOffset(u64_of(bytes, field::SINK_TO)),
            size: u32_of(bytes, field::RDMARDSZ),
            source_stag: STag(u32_of(bytes, field::SRC_STAG)),
            source_offset: TaggedOffset(u64_of(bytes, field::SRC_TO)),
        }
    }

    /// Writes the payload.
    pub fn emit(&self, out: &mut [u8; READ_REQUEST_LEN]) {
        put(out, field::SINK_STAG, self.sink_stag.0.to_be_bytes());
        put(out, field::SINK_TO, self.sink_offset.0.to_be_bytes());
        put(out, field::RDMARDSZ, self.size.to_be_bytes());
        put(out, field::SRC_STAG, self.source_stag.0.to_be_bytes());
        put(out, field::SRC_TO, self.source_offset.0.to_be_bytes());
    }

    /// Writes source, sink and length, which the printers of both kinds of Read share.
    fn print(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "sink={} source={} len={}",
            self.sink(),
            self.source(),
            self.size
        )
    }
}

impl fmt::Display for ReadRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RDMAP Read Request ")?;
        self.print(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn a_read_request_prints_on_a_line() {
        let bytes = b"\0\0\x12\x34\0\0\0\0\0\0\0\0\0\0\x20\0\0\0\0\x88\0\0\0\0\0\0\x10\0";
        assert_eq!(
            ReadRequest::from_bytes(bytes).to_string(),
            "RDMAP Read Request sink=00001234@0 source=00000088@1000 len=8192"
        );
    }

    #[test]
    fn opcodes_print_as_the_rfc_names_them() {
        for (control, name) in [
            (0x41, "RDMA Read Request"),
            (0x46, "Send with SE and Invalidate"),
            (0x4f, "Read Exception"),
        ] {
            assert_eq!(Opcode::parse(control).unwrap().to_string(), name);
        }
    }
}
