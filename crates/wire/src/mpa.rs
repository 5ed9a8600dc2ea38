//! Marker PDU Aligned framing, RFC 5044 with the enhanced connection setup of RFC 6581.
//!
//! Two phases of one TCP stream: a [`StartupFrame`] each way, then FPDUs (length, one ULPDU, pad,
//! CRC). The CRC's place and coverage are known here; computing it is the provider's task, which
//! has the hardware instruction for it.

mod marker;
mod startup;

pub use marker::{MARKER_INTERVAL, MARKER_LEN, Marker, Markers, strip_markers};
pub use startup::{
    Enhanced, FrameKind, NOT_NEGOTIATED, PRIVATE_DATA_MAX, READ_DEPTH_MAX, Revision,
    STARTUP_HEADER_LEN, StartupError, StartupFrame,
};

use crate::ddp::TAGGED_HEADER_LEN;

/// Bytes of the length field in front of a ULPDU.
pub const LENGTH_LEN: usize = 2;
/// Bytes of the CRC field; present, and zero, when CRCs are off.
pub const CRC_LEN: usize = 4;
/// Most pad bytes behind a ULPDU.
pub const PAD_MAX: usize = 3;
/// The largest ULPDU that may be given to MPA (RFC 5044 section 5: FPDUPTR has 16 bits).
pub const ULPDU_MAX: usize = 64_768;
/// The smallest MULPDU (RFC 5044 section 4).
pub const MULPDU_MIN: usize = 128;

/// Pad bytes behind a ULPDU of `ulpdu_len` bytes, so that length field, ULPDU and pad fill whole
/// words.
pub const fn pad_len(ulpdu_len: usize) -> usize {
    (CRC_LEN - (LENGTH_LEN + ulpdu_len) % CRC_LEN) % CRC_LEN
}

/// Bytes of the whole FPDU around a ULPDU of `ulpdu_len` bytes, markers not counted.
pub const fn fpdu_len(ulpdu_len: usize) -> usize {
    LENGTH_LEN + ulpdu_len + pad_len(ulpdu_len) + CRC_LEN
}

/// The largest ULPDU whose FPDU fits one TCP segment of `emss` bytes (RFC 5044 section 4.1).
pub fn mulpdu(emss: usize, markers: bool) -> usize {
    let marker_bytes = if markers {
        MARKER_LEN * emss.div_ceil(MARKER_INTERVAL)
    } else {
        0
    };
    let overhead = LENGTH_LEN + CRC_LEN + marker_bytes + emss % CRC_LEN;
    emss.saturating_sub(overhead).clamp(MULPDU_MIN, ULPDU_MAX)
}

/// One FPDU of a stream without markers, borrowed from where it was received.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fpdu<'a> {
    /// The DDP segment.
    pub ulpdu: &'a [u8],
    /// What the CRC covers: length field, ULPDU and pad.
    pub covered: &'a [u8],
    /// The CRC field as it stood on the wire: CRC-32C, least significant byte first.
    pub crc: [u8; CRC_LEN],
}

impl<'a> Fpdu<'a> {
    /// The first FPDU of `stream`; `None` until all of it is there.
    ///
    /// Returns it together with its length, after which the next one starts.
    ///
    /// # Errors
    /// [`FpduError`] as soon as the length field shows that no DDP header can be inside.
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

    /// How many bytes the first FPDU of `stream` takes; `None` until its length field is there.
    ///
    /// # Errors
    /// As [`Fpdu::parse`].
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

fn ulpdu_len(stream: &[u8]) -> Option<usize> {
    stream
        .first_chunk::<LENGTH_LEN>()
        .map(|bytes| usize::from(u16::from_be_bytes(*bytes)))
}

/// Why the stream cannot be cut into FPDUs any further. The receiver answers with MPA error 3.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FpduError {
    /// The length field is smaller than any DDP header.
    #[error("an FPDU of {len} bytes has no room for a DDP header")]
    TooShort {
        /// The length field.
        len: usize,
    },
}
