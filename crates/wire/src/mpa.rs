//! Marker PDU Aligned framing, RFC 5044, with the enhanced connection setup of RFC 6581.
//!
//! A TCP stream has two phases: one [`StartupFrame`] each way, then FPDUs ([`Fpdu`]). This module knows where the CRC
//! stands and what it covers. The provider computes it, because it has the hardware instruction.

mod marker;
mod startup;

pub use marker::{MARKER_INTERVAL, MARKER_LEN, Marker, Markers, strip_markers};
pub use startup::{
    Enhanced, FrameKind, NOT_NEGOTIATED, PRIVATE_DATA_MAX, READ_DEPTH_MAX, Revision,
    STARTUP_HEADER_LEN, StartupError, StartupFrame,
};

use crate::ddp::TAGGED_HEADER_LEN;
use core::fmt;

/// Bytes of ULPDU_Length, the field in front of a ULPDU.
pub const LENGTH_LEN: usize = 2;
/// Bytes of the CRC field; present, and zero, when CRCs are off.
pub const CRC_LEN: usize = 4;
/// Most pad bytes behind a ULPDU.
pub const PAD_MAX: usize = 3;
/// Bytes of the largest ULPDU that MPA takes (RFC 5044 section 4.5).
pub const ULPDU_MAX: usize = 64_768;
/// Bytes of the smallest MULPDU (RFC 5044 section 4.5).
pub const MULPDU_MIN: usize = 128;

/// Pad bytes behind a ULPDU of `ulpdu_len` bytes (0 to [`PAD_MAX`]), so that length field, ULPDU and pad fill whole
/// words of four bytes.
pub const fn pad_len(ulpdu_len: usize) -> usize {
    (CRC_LEN - (LENGTH_LEN + ulpdu_len) % CRC_LEN) % CRC_LEN
}

/// Bytes of the FPDU around a ULPDU of `ulpdu_len` bytes, markers not counted.
pub const fn fpdu_len(ulpdu_len: usize) -> usize {
    LENGTH_LEN + ulpdu_len + pad_len(ulpdu_len) + CRC_LEN
}

/// Bytes of the largest ULPDU whose FPDU fits one TCP segment of `emss` bytes (MULPDU, RFC 5044 section 4.5); from
/// [`MULPDU_MIN`] to [`ULPDU_MAX`]. `markers` is true if the receiver asked for markers.
pub fn mulpdu(emss: usize, markers: bool) -> usize {
    let marker_bytes = if markers {
        MARKER_LEN * emss.div_ceil(MARKER_INTERVAL)
    } else {
        0
    };
    let overhead = LENGTH_LEN + CRC_LEN + marker_bytes + emss % CRC_LEN;
    emss.saturating_sub(overhead).clamp(MULPDU_MIN, ULPDU_MAX)
}

/// One FPDU of a stream without markers (RFC 5044 section 4.1), borrowed from the receive buffer:
///
/// ```text
///  0                   1                   2                   3
///  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// |         ULPDU_Length          |                               |
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+                               +
/// |                            ULPDU                              |
/// ~                                                               ~
/// +                               +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// |                               |     PAD (0 to 3 bytes)        |
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// |                             CRC                               |
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fpdu<'a> {
    /// The DDP segment, ULPDU_Length bytes.
    pub ulpdu: &'a [u8],
    /// The bytes that the CRC covers: length field, ULPDU and pad.
    pub covered: &'a [u8],
    /// The CRC field as it stood on the wire: CRC-32C, least significant byte first (RFC 5044 section 4.4).
    pub crc: [u8; CRC_LEN],
}

impl<'a> Fpdu<'a> {
    /// The first FPDU of `stream`; `None` until all of it is there.
    ///
    /// Returns it together with its length, after which the next one starts.
    ///
    /// # Errors
    /// [`FpduError::TooShort`] as soon as the length field shows that no DDP header can be inside.
    pub fn parse(stream: &'a [u8]) -> Result<Option<(Fpdu<'a>, usize)>, FpduError> {
        let Some(total) = Fpdu::required_len(stream)? else {
            return Ok(None);
        };
        let Some((covered, rest)) = stream.split_at_checked(total - CRC_LEN) else {
            return Ok(None);
        };
        let Some(crc) = rest.first_chunk::<CRC_LEN>() else {
            return Ok(None);
        };
        let ulpdu_len = ulpdu_len(stream).unwrap_or(0);
        let Some(ulpdu) = covered.get(LENGTH_LEN..LENGTH_LEN + ulpdu_len) else {
            return Ok(None);
        };
        Ok(Some((
            Fpdu {
                ulpdu,
                covered,
                crc: *crc,
            },
            total,
        )))
    }

    /// Bytes of the first FPDU of `stream`, from its length field to its CRC; `None` until the length field is there.
    ///
    /// # Errors
    /// [`FpduError::TooShort`], as from [`Fpdu::parse`].
    pub fn required_len(stream: &[u8]) -> Result<Option<usize>, FpduError> {
        let Some(len) = ulpdu_len(stream) else {
            return Ok(None);
        };
        if len < TAGGED_HEADER_LEN {
            return Err(FpduError::TooShort { len });
        }
        Ok(Some(fpdu_len(len)))
    }
}

impl fmt::Display for Fpdu<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let crc = u32::from_le_bytes(self.crc);
        write!(
            f,
            "MPA FPDU ULPDU_Length={} CRC={crc:08x}",
            self.ulpdu.len()
        )
    }
}

fn ulpdu_len(stream: &[u8]) -> Option<usize> {
    stream
        .first_chunk::<LENGTH_LEN>()
        .map(|bytes| usize::from(u16::from_be_bytes(*bytes)))
}

/// The reason why the stream cannot be cut into FPDUs any further. The receiver answers with MPA error 3 (RFC 5044
/// section 8).
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FpduError {
    /// The length field is smaller than any DDP header.
    #[error("an FPDU of {len} bytes has no room for a DDP header")]
    TooShort {
        /// The value of the length field, in bytes.
        len: usize,
    },
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn an_fpdu_prints_on_a_line() {
        let stream = b"\0\x0e\xc1\x40\0\0\x12\x34\0\0\0\0\0\0\0\0\x83\x92\x06\xe3";
        let (fpdu, len) = Fpdu::parse(stream).unwrap().unwrap();
        assert_eq!(len, stream.len());
        assert_eq!(fpdu.to_string(), "MPA FPDU ULPDU_Length=14 CRC=e3069283");
    }
}
