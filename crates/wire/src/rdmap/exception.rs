//! Reads that may be refused without the end of the connection: an extension of RDMAP between two ends of Gannet, used
//! once both have offered it. docs/formats/exceptions.md describes it byte by byte.

use super::{READ_REQUEST_LEN, ReadRequest};
use crate::ddp::{STag, TaggedLocation, TaggedOffset};
use crate::field::{bytes_of, put, u32_of, u64_of};
use core::fmt;
use core::ops::Range;

/// Bytes of the message authentication code of a request.
pub const MAC_LEN: usize = 16;
/// Bytes of an Authenticated Read Request's payload ([`AuthenticatedReadRequest`]).
pub const AUTHENTICATED_READ_REQUEST_LEN: usize = field::CODE.end;
/// Bytes of a Read Exception's payload ([`ReadException`]).
pub const READ_EXCEPTION_LEN: usize = exception_field::REASON.end;

/// Fields of an Authenticated Read Request.
mod field {
    use super::{MAC_LEN, READ_REQUEST_LEN, Range};
    pub(super) const READ: Range<usize> = 0..READ_REQUEST_LEN;
    pub(super) const ACCESS_KEY: Range<usize> = 28..36;
    pub(super) const TIMESTAMP: Range<usize> = 36..44;
    pub(super) const CODE: Range<usize> = 44..44 + MAC_LEN;
}

/// Fields of a Read Exception.
mod exception_field {
    use super::Range;
    pub(super) const SINK_STAG: Range<usize> = 0..4;
    pub(super) const SINK_TO: Range<usize> = 4..12;
    /// The reason in the first byte, then three reserved bytes.
    pub(super) const REASON: Range<usize> = 12..16;
}

/// The offer of this extension, and the agreement to it: the first bytes of the upper layer's private data in an MPA
/// startup frame. The last byte is the version.
pub const EXCEPTIONS_OFFER: [u8; 8] = *b"gannet\x01\x01";

/// Takes the offer off private data: whether there was one, and the upper layer's bytes.
pub fn split_exceptions_offer(private_data: &[u8]) -> (bool, &[u8]) {
    match private_data.strip_prefix(&EXCEPTIONS_OFFER) {
        Some(rest) => (true, rest),
        None => (false, private_data),
    }
}

/// Bytes that the code authenticates: all in front of it.
const CLAIM_LEN: usize = field::CODE.start;

/// The payload of an Authenticated Read Request: a Read Request and the bearer's right to it (paper 003, section IV-C),
/// [`AUTHENTICATED_READ_REQUEST_LEN`] bytes:
///
/// ```text
///  0                   1                   2                   3
///  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// ~              Read Request (28 bytes, RFC 5040)                ~
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// |                          access key                           |
/// +                                                               +
/// |                                                               |
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// |                           timestamp                           |
/// +                                                               +
/// |                                                               |
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// ~                        code (16 bytes)                        ~
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// ```
///
/// The printer leaves access key and code out: a log must not carry rights.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AuthenticatedReadRequest {
    /// The range to read, at most 65,536 bytes, and its destination.
    pub read: ReadRequest,
    /// The number that the exporter gives its peers with the STag of the memory.
    pub access_key: u64,
    /// Greater than that of every request before it in this direction of the connection. Gannet counts from 1.
    pub timestamp: u64,
    /// The code: keyed hash of [`AuthenticatedReadRequest::claim`].
    pub mac: [u8; MAC_LEN],
}

impl AuthenticatedReadRequest {
    /// Reads the payload. Whether the code is right is for the caller to check.
    pub fn from_bytes(bytes: &[u8; AUTHENTICATED_READ_REQUEST_LEN]) -> AuthenticatedReadRequest {
        AuthenticatedReadRequest {
            read: ReadRequest::from_bytes(&bytes_of(bytes, field::READ)),
            access_key: u64_of(bytes, field::ACCESS_KEY),
            timestamp: u64_of(bytes, field::TIMESTAMP),
            mac: bytes_of(bytes, field::CODE),
        }
    }

    /// The bytes that the code authenticates: the payload in front of the code.
    pub fn claim(&self) -> [u8; CLAIM_LEN] {
        let mut read = [0; READ_REQUEST_LEN];
        self.read.emit(&mut read);
        let mut out = [0; CLAIM_LEN];
        put(&mut out, field::READ, read);
        put(&mut out, field::ACCESS_KEY, self.access_key.to_be_bytes());
        put(&mut out, field::TIMESTAMP, self.timestamp.to_be_bytes());
        out
    }

    /// Writes the payload.
    pub fn emit(&self, out: &mut [u8; AUTHENTICATED_READ_REQUEST_LEN]) {
        put(out, 0..CLAIM_LEN, self.claim());
        put(out, field::CODE, self.mac);
    }
}

impl fmt::Display for AuthenticatedReadRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RDMAP Authenticated Read Request ")?;
        self.read.print(f)?;
        write!(f, " timestamp={}", self.timestamp)
    }
}

/// The reason of a refused Read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ExceptionReason {
    /// 1: the bytes are not in memory now.
    NotResident,
    /// 2: no such key, or one that was revoked or has expired.
    StaleKey,
    /// 3: the memory ends before the range does, or the range is longer than one code covers.
    Bounds,
    /// 4: the key is another connection's, or does not grant reading.
    Rights,
    /// 5: the access key or the code is wrong, or no key for codes was agreed.
    BadCapability,
    /// 6: the timestamp is not greater than the last one.
    Replay,
}

impl ExceptionReason {
    /// All reasons, in the order of their codes.
    pub const ALL: [ExceptionReason; 6] = [
        ExceptionReason::NotResident,
        ExceptionReason::StaleKey,
        ExceptionReason::Bounds,
        ExceptionReason::Rights,
        ExceptionReason::BadCapability,
        ExceptionReason::Replay,
    ];

    /// The number of the reason on the wire, 1 to 6.
    pub const fn code(self) -> u8 {
        match self {
            ExceptionReason::NotResident => 1,
            ExceptionReason::StaleKey => 2,
            ExceptionReason::Bounds => 3,
            ExceptionReason::Rights => 4,
            ExceptionReason::BadCapability => 5,
            ExceptionReason::Replay => 6,
        }
    }

    fn of_code(code: u8) -> Option<ExceptionReason> {
        let mut all = ExceptionReason::ALL.into_iter();
        all.find(|reason| reason.code() == code)
    }
}

impl fmt::Display for ExceptionReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ExceptionReason::NotResident => "not_resident",
            ExceptionReason::StaleKey => "stale_key",
            ExceptionReason::Bounds => "bounds",
            ExceptionReason::Rights => "rights",
            ExceptionReason::BadCapability => "bad_capability",
            ExceptionReason::Replay => "replay",
        })
    }
}

/// The payload of a Read Exception: the oldest Read of the receiver is refused, and nothing was placed.
/// [`READ_EXCEPTION_LEN`] bytes:
///
/// ```text
///  0                   1                   2                   3
///  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// |                           sink STag                           |
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// |                            sink TO                            |
/// +                                                               +
/// |                                                               |
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// |    reason     |                 reserved (0)                  |
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReadException {
    /// The SinkSTag of the request.
    pub sink_stag: STag,
    /// The SinkTO of the request.
    pub sink_offset: TaggedOffset,
    /// The reason of the refusal.
    pub reason: ExceptionReason,
}

/// The reason why a payload is no Read Exception. The receiver answers with DDP error 2/05.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ReadExceptionError {
    /// The payload has another length.
    #[error("a Read Exception of {found} bytes instead of {READ_EXCEPTION_LEN}")]
    Length {
        /// Bytes of the payload.
        found: usize,
    },
    /// The reason is not known, or the reserved bytes are not zero.
    #[error("a Read Exception with the unknown reason {found:#010x}")]
    Reason {
        /// Reason and reserved bytes, as one big-endian number.
        found: u32,
    },
}

impl ReadException {
    /// The destination of the refused Read, by which its requester finds it.
    pub fn sink(&self) -> TaggedLocation {
        TaggedLocation {
            stag: self.sink_stag,
            offset: self.sink_offset,
        }
    }

    /// Reads the payload.
    ///
    /// # Errors
    /// - [`ReadExceptionError::Length`]: it has not [`READ_EXCEPTION_LEN`] bytes.
    /// - [`ReadExceptionError::Reason`]: the reason is not one of [`ExceptionReason`], or a reserved byte is not 0.
    pub fn parse(bytes: &[u8]) -> Result<ReadException, ReadExceptionError> {
        let bytes: &[u8; READ_EXCEPTION_LEN] = bytes
            .try_into()
            .map_err(|_| ReadExceptionError::Length { found: bytes.len() })?;
        let word = bytes_of(bytes, exception_field::REASON);
        let reason = match word {
            [code, 0, 0, 0] => ExceptionReason::of_code(code),
            _ => None,
        };
        let found = u32::from_be_bytes(word);
        Ok(ReadException {
            sink_stag: STag(u32_of(bytes, exception_field::SINK_STAG)),
            sink_offset: TaggedOffset(u64_of(bytes, exception_field::SINK_TO)),
            reason: reason.ok_or(ReadExceptionError::Reason { found })?,
        })
    }

    /// Writes the payload.
    pub fn emit(&self, out: &mut [u8; READ_EXCEPTION_LEN]) {
        use exception_field::{REASON, SINK_STAG, SINK_TO};
        put(out, SINK_STAG, self.sink_stag.0.to_be_bytes());
        put(out, SINK_TO, self.sink_offset.0.to_be_bytes());
        put(out, REASON, [self.reason.code(), 0, 0, 0]);
    }
}

impl fmt::Display for ReadException {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "RDMAP Read Exception sink={} reason={}",
            self.sink(),
            self.reason
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn an_authenticated_request_has_its_fields_in_order() {
        let request = AuthenticatedReadRequest {
            read: ReadRequest {
                sink_stag: STag(0x0102_0304),
                sink_offset: TaggedOffset(0x1112_1314_1516_1718),
                size: 4096,
                source_stag: STag(0x2122_2324),
                source_offset: TaggedOffset(0x3132_3334_3536_3738),
            },
            access_key: 0x4142_4344_4546_4748,
            timestamp: 0x5152_5354_5556_5758,
            mac: *b"sixteen bytes...",
        };
        let mut bytes = [0; AUTHENTICATED_READ_REQUEST_LEN];
        request.emit(&mut bytes);
        let expected =
            b"\x01\x02\x03\x04\x11\x12\x13\x14\x15\x16\x17\x18\x00\x00\x10\x00\x21\x22\x23\x24\
            \x31\x32\x33\x34\x35\x36\x37\x38ABCDEFGHQRSTUVWXsixteen bytes...";
        assert_eq!(&bytes, expected);
        assert_eq!(AuthenticatedReadRequest::from_bytes(&bytes), request);
        assert_eq!(request.claim(), bytes[..44]);
        assert_eq!(
            request.to_string(),
            "RDMAP Authenticated Read Request sink=01020304@1112131415161718 \
             source=21222324@3132333435363738 len=4096 timestamp=5859837686836516696"
        );
    }

    #[test]
    fn an_exception_names_its_read_and_the_reason() {
        for reason in ExceptionReason::ALL {
            let exception = ReadException {
                sink_stag: STag(7),
                sink_offset: TaggedOffset(0x0102_0304_0506_0708),
                reason,
            };
            let mut bytes = [0xff; READ_EXCEPTION_LEN];
            exception.emit(&mut bytes);
            assert_eq!(bytes[12..], [reason.code(), 0, 0, 0]);
            assert_eq!(ReadException::parse(&bytes), Ok(exception));
        }
    }

    #[test]
    fn an_exception_prints_on_a_line() {
        let bytes = b"\0\xab\xcd\x01\0\0\0\0\0\0\x10\0\x02\0\0\0";
        assert_eq!(
            ReadException::parse(bytes).unwrap().to_string(),
            "RDMAP Read Exception sink=00abcd01@1000 reason=stale_key"
        );
    }

    #[test]
    fn other_payloads_are_refused() {
        let mut bytes = [0; READ_EXCEPTION_LEN];
        assert_eq!(
            ReadException::parse(&bytes),
            Err(ReadExceptionError::Reason { found: 0 })
        );
        bytes[12..].copy_from_slice(&[1, 0, 0, 1]);
        assert_eq!(
            ReadException::parse(&bytes),
            Err(ReadExceptionError::Reason { found: 0x0100_0001 })
        );
        assert_eq!(
            ReadException::parse(&bytes[1..]),
            Err(ReadExceptionError::Length { found: 15 })
        );
    }
}
