//! The Terminate message, RFC 5040 section 4.8.

use super::{READ_REQUEST_LEN, ReadRequest};
use crate::ddp::{self, UNTAGGED_HEADER_LEN};
use core::fmt;

/// Bytes of the longest Terminate payload: control word, length, untagged header, Read Request.
pub const TERMINATE_LEN_MAX: usize =
    CONTROL_LEN + SEGMENT_LEN_LEN + UNTAGGED_HEADER_LEN + READ_REQUEST_LEN;

/// Bytes of the Terminate Control Field.
const CONTROL_LEN: usize = 4;
/// Bytes of DDP Segment Length.
const SEGMENT_LEN_LEN: usize = 2;

/// M: DDP Segment Length is valid.
const LENGTH_VALID: u8 = 0x80;
/// D: the DDP header is included.
const DDP_HEADER: u8 = 0x40;
/// R: the RDMAP header is included.
const RDMAP_HEADER: u8 = 0x20;
const RFC_FLAGS: u8 = LENGTH_VALID | DDP_HEADER | RDMAP_HEADER;

/// The same flags as Linux siw places them on little-endian machines.
const SIW_LENGTH_VALID: u8 = 0x01;
const SIW_DDP_HEADER: u8 = 0x02;
const SIW_RDMAP_HEADER: u8 = 0x04;
const SIW_FLAGS: u8 = SIW_LENGTH_VALID | SIW_DDP_HEADER | SIW_RDMAP_HEADER;

/// Layer, error type and error code of a Terminate (RFC 5040 section 4.8): why the connection ends.
///
/// `Debug` prints the numbers (`1/1/01`, the code in hexadecimal), `Display` their meaning too.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct TerminateCode {
    /// Layer: 0 RDMAP, 1 DDP, 2 MPA; 4 bits.
    pub layer: u8,
    /// EType: the error type within the layer; 4 bits.
    pub error_type: u8,
    /// Error Code: the error within the type.
    pub code: u8,
}

macro_rules! terminate_codes {
    ($($(#[$doc:meta])* $name:ident = $layer:literal / $type:literal / $code:literal, $text:literal;)*) => {
        impl TerminateCode {
            $($(#[$doc])* pub const $name: TerminateCode =
                TerminateCode { layer: $layer, error_type: $type, code: $code };)*

            /// The meaning of the code; `None` when no RFC defines it.
            pub const fn meaning(self) -> Option<&'static str> {
                match (self.layer, self.error_type, self.code) {
                    $(($layer, $type, $code) => Some($text),)*
                    _ => None,
                }
            }
        }
    };
}

terminate_codes! {
    /// Something failed here that the peer did not cause.
    LOCAL_CATASTROPHIC = 0/0/0x00, "local catastrophic error";
    /// A Read Request names an STag that does not exist.
    READ_INVALID_STAG = 0/1/0x00, "remote protection: invalid STag";
    /// A Read Request leaves its region.
    READ_BOUNDS = 0/1/0x01, "remote protection: base or bounds";
    /// A Read Request without the right to read.
    READ_ACCESS = 0/1/0x02, "remote protection: access rights";
    /// A Read Request for a region of another domain or connection.
    READ_ASSOCIATION = 0/1/0x03, "remote protection: STag not associated with the stream";
    /// A Read Request wraps past 2^64.
    READ_WRAP = 0/1/0x04, "remote protection: offset wraps";
    /// A Send asks to invalidate a region of another domain or connection.
    INVALIDATE_ASSOCIATION = 0/1/0x09, "remote protection: STag cannot be invalidated";
    /// Any other protection error.
    PROTECTION_UNSPECIFIED = 0/1/0xff, "remote protection: unspecified";
    /// The RDMAP version is not 1.
    RDMAP_VERSION = 0/2/0x05, "remote operation: bad RDMAP version";
    /// The opcode is unknown or does not belong here.
    UNEXPECTED_OPCODE = 0/2/0x06, "remote operation: unexpected opcode";
    /// This stream cannot go on; also more Read Requests than IRD.
    STREAM_CATASTROPHIC = 0/2/0x07, "remote operation: catastrophic, this stream";
    /// The whole device cannot go on.
    GLOBAL_CATASTROPHIC = 0/2/0x08, "remote operation: catastrophic, global";
    /// A Send asks to invalidate what may not be.
    CANNOT_INVALIDATE = 0/2/0x09, "remote operation: STag cannot be invalidated";
    /// Any other operation error.
    OPERATION_UNSPECIFIED = 0/2/0xff, "remote operation: unspecified";
    /// DDP failed locally.
    DDP_CATASTROPHIC = 1/0/0x00, "DDP: local catastrophic error";
    /// A tagged segment names an STag that does not exist, or may not be written.
    TAGGED_INVALID_STAG = 1/1/0x00, "DDP tagged: invalid STag";
    /// A tagged segment leaves its region.
    TAGGED_BOUNDS = 1/1/0x01, "DDP tagged: base or bounds";
    /// A tagged segment for a region of another domain or connection.
    TAGGED_ASSOCIATION = 1/1/0x02, "DDP tagged: STag not associated with the stream";
    /// A tagged segment wraps past 2^64.
    TAGGED_WRAP = 1/1/0x03, "DDP tagged: offset wraps";
    /// A tagged segment of another DDP version.
    TAGGED_VERSION = 1/1/0x04, "DDP tagged: bad version";
    /// An untagged segment for a queue that does not exist or does not fit its opcode.
    UNTAGGED_QUEUE = 1/2/0x01, "DDP untagged: invalid queue";
    /// An untagged message without a buffer for it.
    UNTAGGED_NO_BUFFER = 1/2/0x02, "DDP untagged: no buffer available";
    /// An untagged message out of sequence.
    UNTAGGED_MSN_RANGE = 1/2/0x03, "DDP untagged: sequence number out of range";
    /// An untagged segment that does not continue its message.
    UNTAGGED_OFFSET = 1/2/0x04, "DDP untagged: invalid message offset";
    /// An untagged message longer than its buffer.
    UNTAGGED_TOO_LONG = 1/2/0x05, "DDP untagged: message too long for its buffer";
    /// An untagged segment of another DDP version.
    UNTAGGED_VERSION = 1/2/0x06, "DDP untagged: bad version";
    /// The TCP connection has ended.
    MPA_CONNECTION_LOST = 2/0/0x01, "MPA: connection closed or lost";
    /// A CRC does not match.
    MPA_CRC = 2/0/0x02, "MPA: CRC mismatch";
    /// No FPDU can start here.
    MPA_FRAMING = 2/0/0x03, "MPA: marker and length disagree, or bad FPDU start";
    /// A startup frame cannot be used.
    MPA_STARTUP = 2/0/0x04, "MPA: bad request or reply frame";
    /// A local failure during enhanced setup (RFC 6581).
    MPA_CATASTROPHIC = 2/0/0x05, "MPA: local catastrophic error";
    /// The peer's outbound reads do not fit (RFC 6581).
    MPA_INSUFFICIENT_IRD = 2/0/0x06, "MPA: insufficient IRD";
    /// No ready-to-receive message both can use (RFC 6581).
    MPA_NO_MATCHING_RTR = 2/0/0x07, "MPA: no matching RTR";
}

impl TerminateCode {
    /// The code with layer and error type exchanged: the other reading of an ambiguous Terminate ([`BitOrder`]).
    #[must_use]
    pub const fn with_swapped_nibbles(self) -> TerminateCode {
        TerminateCode {
            layer: self.error_type,
            error_type: self.layer,
            code: self.code,
        }
    }
}

impl fmt::Debug for TerminateCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{:02x}", self.layer, self.error_type, self.code)
    }
}

impl fmt::Display for TerminateCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let meaning = self.meaning().unwrap_or("unknown");
        write!(f, "{self:?} ({meaning})")
    }
}

/// The headers of the offending segment that a Terminate quotes. A Read Request is quoted with its payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TerminateContext {
    /// DDP Segment Length, in bytes; `None` when M is 0. It is a hint: RFC 5040 does not say whether it includes the
    /// DDP header, and Linux siw counts the payload only.
    pub segment_len: Option<u16>,
    /// Terminated DDP Header.
    pub header: ddp::DdpHeader,
    /// Terminated RDMA Header: the payload of a Read Request; `None` when R is 0.
    pub read_request: Option<ReadRequest>,
}

impl fmt::Display for TerminateContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.header)?;
        if let Some(len) = self.segment_len {
            write!(f, " Length={len}")?;
        }
        if let Some(request) = &self.read_request {
            write!(f, ", {request}")?;
        }
        Ok(())
    }
}

/// The order of the bits in a received Terminate Control Field.
///
/// Linux siw on little-endian machines swaps the nibbles of the first byte and puts the flags at the other end of the
/// third byte. With no flag set, both readings are possible.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BitOrder {
    /// The order of RFC 5040.
    Rfc,
    /// The order of Linux siw.
    Siw,
    /// No flag is set. [`Terminate::code`] is the reading with a meaning, and that of RFC 5040 when both have one.
    Ambiguous,
}

impl fmt::Display for BitOrder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            BitOrder::Rfc => "of RFC 5040",
            BitOrder::Siw => "of Linux siw",
            BitOrder::Ambiguous => "unknown",
        })
    }
}

/// The payload of a Terminate message (RFC 5040 section 4.8), at most [`TERMINATE_LEN_MAX`] bytes:
///
/// ```text
///  0                   1                   2                   3
///  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// | Layer | EType |  Error Code   |M|D|R|        Reserved         |
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// |  DDP Segment Length (if D)    |                               |
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+                               +
/// ~       Terminated DDP Header (14 or 18 bytes, if D)            ~
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// ~       Terminated RDMA Header (28 bytes, if R)                 ~
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Terminate {
    /// The reason.
    pub code: TerminateCode,
    /// The headers of the offending segment; `None` when D is 0.
    pub context: Option<TerminateContext>,
}

impl fmt::Display for Terminate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RDMAP Terminate {}", self.code)?;
        if let Some(context) = &self.context {
            write!(f, " about {context}")?;
        }
        Ok(())
    }
}

impl Terminate {
    /// A Terminate that quotes no headers.
    pub fn bare(code: TerminateCode) -> Terminate {
        Terminate {
            code,
            context: None,
        }
    }

    /// Reads a payload in either bit order. The receiver logs it and closes the connection; nothing else may depend on
    /// its content, because the order is a guess.
    ///
    /// # Errors
    /// - [`TerminateError::Truncated`]: it ends within the headers that its flags announce.
    /// - [`TerminateError::Header`]: the quoted DDP header cannot be read.
    pub fn parse(payload: &[u8]) -> Result<(Terminate, BitOrder), TerminateError> {
        let truncated = TerminateError::Truncated { len: payload.len() };
        let ([first, code, flags, _reserved], rest) = payload
            .split_first_chunk::<CONTROL_LEN>()
            .ok_or(truncated)?;
        let (order, flags) = match (flags & RFC_FLAGS, flags & SIW_FLAGS) {
            (0, 0) => (BitOrder::Ambiguous, 0),
            (0, siw) => (BitOrder::Siw, flags_from_siw(siw)),
            (rfc, _) => (BitOrder::Rfc, rfc),
        };
        let high_first = TerminateCode {
            layer: first >> 4,
            error_type: first & 0x0f,
            code: *code,
        };
        let low_first = high_first.with_swapped_nibbles();
        let code = match order {
            BitOrder::Rfc => high_first,
            BitOrder::Siw => low_first,
            BitOrder::Ambiguous if high_first.meaning().is_some() => high_first,
            BitOrder::Ambiguous if low_first.meaning().is_some() => low_first,
            BitOrder::Ambiguous => high_first,
        };
        let context = if flags & DDP_HEADER != 0 {
            Some(context_from(flags, rest, truncated)?)
        } else {
            None
        };
        Ok((Terminate { code, context }, order))
    }

    /// Bytes of the payload, 4 to [`TERMINATE_LEN_MAX`].
    pub fn encoded_len(&self) -> usize {
        let context = self.context.map_or(0, |context| {
            let request = if context.read_request.is_some() {
                READ_REQUEST_LEN
            } else {
                0
            };
            SEGMENT_LEN_LEN + context.header.encoded_len() + request
        });
        CONTROL_LEN + context
    }

    /// Writes the payload, in the order of RFC 5040, at the start of `out` and returns its length.
    pub fn emit(&self, out: &mut [u8; TERMINATE_LEN_MAX]) -> usize {
        let nibbles = self.code.layer << 4 | self.code.error_type & 0x0f;
        out[..CONTROL_LEN].copy_from_slice(&[nibbles, self.code.code, self.flags(), 0]);
        let Some(context) = self.context else {
            return CONTROL_LEN;
        };
        let mut at = CONTROL_LEN;
        let segment_len = context.segment_len.unwrap_or(0).to_be_bytes();
        out[at..at + SEGMENT_LEN_LEN].copy_from_slice(&segment_len);
        at += SEGMENT_LEN_LEN;
        let mut header = [0; UNTAGGED_HEADER_LEN];
        let header_len = context.header.emit(&mut header);
        out[at..at + header_len].copy_from_slice(&header[..header_len]);
        at += header_len;
        if let Some(request) = context.read_request {
            let mut bytes = [0; READ_REQUEST_LEN];
            request.emit(&mut bytes);
            out[at..at + READ_REQUEST_LEN].copy_from_slice(&bytes);
            at += READ_REQUEST_LEN;
        }
        at
    }

    fn flags(&self) -> u8 {
        let Some(context) = self.context else {
            return 0;
        };
        let length = if context.segment_len.is_some() {
            LENGTH_VALID
        } else {
            0
        };
        let request = if context.read_request.is_some() {
            RDMAP_HEADER
        } else {
            0
        };
        DDP_HEADER | length | request
    }
}

fn flags_from_siw(flags: u8) -> u8 {
    let map = |siw: u8, rfc: u8| if flags & siw != 0 { rfc } else { 0 };
    map(SIW_LENGTH_VALID, LENGTH_VALID)
        | map(SIW_DDP_HEADER, DDP_HEADER)
        | map(SIW_RDMAP_HEADER, RDMAP_HEADER)
}

fn context_from(
    flags: u8,
    bytes: &[u8],
    truncated: TerminateError,
) -> Result<TerminateContext, TerminateError> {
    let (len, rest) = bytes
        .split_first_chunk::<SEGMENT_LEN_LEN>()
        .ok_or(truncated)?;
    let (header, rest) = ddp::DdpHeader::parse(rest)?;
    let read_request = if flags & RDMAP_HEADER != 0 {
        Some(ReadRequest::from_bytes(
            rest.first_chunk().ok_or(truncated)?,
        ))
    } else {
        None
    };
    let segment_len = (flags & LENGTH_VALID != 0).then(|| u16::from_be_bytes(*len));
    Ok(TerminateContext {
        segment_len,
        header,
        read_request,
    })
}

/// The reason why a Terminate cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TerminateError {
    /// The payload ends within the headers that its flags announce.
    #[error("a Terminate of {len} bytes is cut short")]
    Truncated {
        /// Bytes of the payload.
        len: usize,
    },
    /// The quoted DDP header cannot be read.
    #[error("the quoted DDP header cannot be read: {0}")]
    Header(#[from] ddp::DdpHeaderError),
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    fn printed(payload: &[u8]) -> alloc::string::String {
        Terminate::parse(payload).unwrap().0.to_string()
    }

    #[test]
    fn a_terminate_prints_on_a_line() {
        assert_eq!(
            printed(b"\x20\x02\0\0"),
            "RDMAP Terminate 2/0/02 (MPA: CRC mismatch)"
        );
        let tagged = b"\x11\x01\xc0\0\x05\xa0\xc1\x40\0\0\x12\x34\0\0\0\0\0\0\x10\0";
        assert_eq!(
            printed(tagged),
            "RDMAP Terminate 1/1/01 (DDP tagged: base or bounds) \
             about DDP Tagged L=1 STag=00001234 TO=0x1000 Length=1440"
        );
    }

    #[test]
    fn a_terminate_about_a_read_prints_the_request() {
        let payload = b"\x01\x00\xe0\0\0\x2e\x41\x41\0\0\0\0\0\0\0\x01\0\0\0\x05\0\0\0\0\
            \0\0\x12\x34\0\0\0\0\0\0\0\0\0\0\x20\0\0\0\0\x88\0\0\0\0\0\0\x10\0";
        assert_eq!(
            printed(payload),
            "RDMAP Terminate 0/1/00 (remote protection: invalid STag) \
             about DDP Untagged L=1 QN=1 MSN=5 MO=0 Length=46, \
             RDMAP Read Request sink=00001234@0 source=00000088@1000 len=8192"
        );
    }
}
