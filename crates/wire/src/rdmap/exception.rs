//! Reads that may be refused without the end of the connection: an extension of RDMAP between two ends of Gannet, used
//! once both have offered it. Byte by byte in docs/formats/exceptions.md.

use super::{READ_REQUEST_LEN, ReadRequest};
use crate::ddp::{STag, TaggedOffset};

/// Bytes of the code that authenticates a request.
pub const MAC_LEN: usize = 16;
/// Bytes of an Authenticated Read Request's payload.
pub const AUTHENTICATED_READ_REQUEST_LEN: usize = READ_REQUEST_LEN + 8 + 8 + MAC_LEN;
/// Bytes of a Read Exception's payload.
pub const READ_EXCEPTION_LEN: usize = 16;

/// What stands in front of the private data of an MPA startup frame whose sender offers, or agrees to, this extension.
pub const EXCEPTIONS_OFFER: [u8; 8] = *b"gannet\x01\x01";

/// Takes the offer off private data: whether there was one, and what is the upper layer's.
pub fn split_exceptions_offer(private_data: &[u8]) -> (bool, &[u8]) {
    match private_data.strip_prefix(&EXCEPTIONS_OFFER) {
        Some(rest) => (true, rest),
        None => (false, private_data),
    }
}

const CLAIM_LEN: usize = AUTHENTICATED_READ_REQUEST_LEN - MAC_LEN;

/// The payload of an Authenticated Read Request: a Read Request and the bearer's right to it (paper 003, section IV-C).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AuthenticatedReadRequest {
    /// What is to be read, and where it goes.
    pub read: ReadRequest,
    /// What the exporter told its peers of the memory besides the STag.
    pub access_key: u64,
    /// Greater than that of every request before it on the connection.
    pub timestamp: u64,
    /// Keyed hash of [`AuthenticatedReadRequest::claim`].
    pub mac: [u8; MAC_LEN],
}

impl AuthenticatedReadRequest {
    /// Reads the payload.
    pub fn from_bytes(bytes: &[u8; AUTHENTICATED_READ_REQUEST_LEN]) -> AuthenticatedReadRequest {
        let mut read = [0; READ_REQUEST_LEN];
        read.copy_from_slice(&bytes[..READ_REQUEST_LEN]);
        let long = |at: usize| {
            let mut value = [0; 8];
            value.copy_from_slice(&bytes[at..at + 8]);
            u64::from_be_bytes(value)
        };
        let mut mac = [0; MAC_LEN];
        mac.copy_from_slice(&bytes[CLAIM_LEN..]);
        AuthenticatedReadRequest {
            read: ReadRequest::from_bytes(&read),
            access_key: long(READ_REQUEST_LEN),
            timestamp: long(READ_REQUEST_LEN + 8),
            mac,
        }
    }

    /// What is authenticated: all of the payload before the code.
    pub fn claim(&self) -> [u8; CLAIM_LEN] {
        let mut read = [0; READ_REQUEST_LEN];
        self.read.emit(&mut read);
        let mut out = [0; CLAIM_LEN];
        out[..READ_REQUEST_LEN].copy_from_slice(&read);
        out[READ_REQUEST_LEN..READ_REQUEST_LEN + 8].copy_from_slice(&self.access_key.to_be_bytes());
        out[READ_REQUEST_LEN + 8..].copy_from_slice(&self.timestamp.to_be_bytes());
        out
    }

    /// Writes the payload.
    pub fn emit(&self, out: &mut [u8; AUTHENTICATED_READ_REQUEST_LEN]) {
        out[..CLAIM_LEN].copy_from_slice(&self.claim());
        out[CLAIM_LEN..].copy_from_slice(&self.mac);
    }
}

/// Why a Read was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ExceptionReason {
    /// The bytes are not in memory now.
    NotResident,
    /// No such key, or one that was revoked or has expired.
    StaleKey,
    /// The memory ends before the range does, or the range is longer than one check covers.
    Bounds,
    /// The key belongs to others, or does not grant reading.
    Rights,
    /// The access key or the code is wrong, or no key was agreed for codes.
    BadCapability,
    /// The timestamp is not greater than the last one.
    Replay,
}

impl ExceptionReason {
    /// All of them, in the order of their codes.
    pub const ALL: [ExceptionReason; 6] = [
        ExceptionReason::NotResident,
        ExceptionReason::StaleKey,
        ExceptionReason::Bounds,
        ExceptionReason::Rights,
        ExceptionReason::BadCapability,
        ExceptionReason::Replay,
    ];

    /// Its code on the wire.
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

/// The payload of a Read Exception: the oldest Read of the receiver was refused, and nothing was placed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReadException {
    /// As the request had it.
    pub sink_stag: STag,
    /// As the request had it.
    pub sink_offset: TaggedOffset,
    /// Why.
    pub reason: ExceptionReason,
}

/// What came is no Read Exception.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ReadExceptionError {
    /// It has another length.
    #[error("a Read Exception of {found} bytes instead of {READ_EXCEPTION_LEN}")]
    Length {
        /// The length found.
        found: usize,
    },
    /// The reason is not known, or the reserved bytes are not zero.
    #[error("a Read Exception with the unknown reason {found:#010x}")]
    Reason {
        /// Reason and reserved bytes.
        found: u32,
    },
}

impl ReadException {
    /// Reads the payload.
    ///
    /// # Errors
    /// [`ReadExceptionError::Length`] and [`ReadExceptionError::Reason`].
    pub fn parse(bytes: &[u8]) -> Result<ReadException, ReadExceptionError> {
        let bytes: &[u8; READ_EXCEPTION_LEN] = bytes
            .try_into()
            .map_err(|_| ReadExceptionError::Length { found: bytes.len() })?;
        let word = |at: usize| {
            let mut value = [0; 4];
            value.copy_from_slice(&bytes[at..at + 4]);
            u32::from_be_bytes(value)
        };
        let found = word(12);
        let reason = match found.to_be_bytes() {
            [code, 0, 0, 0] => ExceptionReason::of_code(code),
            _ => None,
        };
        Ok(ReadException {
            sink_stag: STag(word(0)),
            sink_offset: TaggedOffset(u64::from(word(4)) << 32 | u64::from(word(8))),
            reason: reason.ok_or(ReadExceptionError::Reason { found })?,
        })
    }

    /// Writes the payload.
    pub fn emit(&self, out: &mut [u8; READ_EXCEPTION_LEN]) {
        out[0..4].copy_from_slice(&self.sink_stag.0.to_be_bytes());
        out[4..12].copy_from_slice(&self.sink_offset.0.to_be_bytes());
        out[12..16].copy_from_slice(&[self.reason.code(), 0, 0, 0]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
    }

    #[test]
    fn an_exception_says_which_read_and_why() {
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
    fn what_is_no_exception_is_refused() {
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
