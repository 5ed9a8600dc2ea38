//! The bounds of FPDUs, also in a stream whose beginning was not seen, and the bytes that their CRCs cover.

use crate::cutter::{Frame, FrameError, Framing};
use crate::line::Crc;
use gannet_wire::ddp::{self, DdpHeader};
use gannet_wire::mpa::{CRC_LEN, Fpdu, LENGTH_LEN, MARKER_INTERVAL, MARKER_LEN, Markers};
use gannet_wire::rdmap::{self, Opcode};

/// Bytes from an FPDU's start to the end of the longest DDP header.
const HEADERS_LEN: usize = LENGTH_LEN + ddp::UNTAGGED_HEADER_LEN;

/// Cuts a stream into FPDUs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Fpdus {
    /// The connection uses CRCs; `None` while the capture has no startup frame.
    pub(crate) crc: Option<bool>,
}

impl Framing for Fpdus {
    fn frame_len(&self, bytes: &[u8]) -> Result<Option<usize>, FrameError> {
        Ok(Fpdu::required_len(bytes)?)
    }

    /// A frame counts as found when another one follows it, or when it ends with what has come so far and has the
    /// zeros that stand for an unused CRC there. A computed CRC is no evidence here: trying one at each position would
    /// let a crafted capture keep a core busy.
    fn starts_frame(&self, bytes: &[u8]) -> Option<bool> {
        if !is_likely_header(bytes)? {
            return Some(false);
        }
        let total = Fpdu::required_len(bytes).ok()??;
        match bytes.get(total..)? {
            [] if bytes.ends_with(&[0; CRC_LEN]) && self.crc != Some(true) => Some(true),
            [] if self.crc == Some(false) => Some(false),
            behind => is_likely_header(behind),
        }
    }
}

impl Fpdus {
    /// Checks the CRC of a frame; `is_marked` is true if its stream has markers.
    pub(crate) fn check(&self, frame: &Frame<'_>, is_marked: bool) -> Crc {
        let stored = match frame.bytes.split_last_chunk::<CRC_LEN>() {
            Some((_, stored)) if frame.is_whole => *stored,
            _ if self.crc == Some(false) => return Crc::Off,
            _ => return Crc::Unknown,
        };
        match self.crc {
            Some(false) => return Crc::Off,
            None if stored == [0; CRC_LEN] => return Crc::Off,
            _ => {}
        }
        let covered = &frame.bytes[..frame.bytes.len() - CRC_LEN];
        let computed = if is_marked {
            crc_with_markers(frame.offset, covered)
        } else {
            crc_fast::crc32_iscsi(covered)
        };
        if computed.to_le_bytes() == stored {
            Crc::Ok
        } else {
            Crc::Bad
        }
    }
}

/// True if an FPDU's length and headers may stand at the front of `bytes`; `None` when there are too few.
fn is_likely_header(bytes: &[u8]) -> Option<bool> {
    let front = bytes.get(..HEADERS_LEN.min(bytes.len()))?;
    if front.len() < LENGTH_LEN + ddp::TAGGED_HEADER_LEN {
        return None;
    }
    if Fpdu::required_len(front).is_err() {
        return Some(false);
    }
    let ulpdu = front.get(LENGTH_LEN..)?;
    let header = match DdpHeader::parse(ulpdu) {
        Ok((header, _)) => header,
        Err(ddp::DdpHeaderError::Truncated { .. }) if front.len() < HEADERS_LEN => return None,
        Err(_) => return Some(false),
    };
    let control = ulpdu.first().copied().unwrap_or_default();
    // Senders leave reserved bits zero.
    let is_clean =
        control & ddp::CONTROL_RESERVED == 0 && header.ulp_control() & rdmap::CONTROL_RESERVED == 0;
    let fits = match (Opcode::parse(header.ulp_control()), &header) {
        (Ok(opcode), DdpHeader::Tagged(_)) => opcode.queue().is_none(),
        (Ok(opcode), DdpHeader::Untagged(header)) => opcode.queue() == Some(header.queue),
        (Err(_), _) => false,
    };
    Some(is_clean && fits)
}

/// Bytes that are not markers among the first `position` bytes of a stream with markers.
pub(super) fn unmarked(position: u64) -> u64 {
    let (interval, marker) = (MARKER_INTERVAL as u64, MARKER_LEN as u64);
    position - position / interval * marker - (position % interval).min(marker)
}

/// The CRC of a frame that starts at `offset` of a stream with markers (both counted without them); it covers the
/// markers too (RFC 5044 section 4.4).
fn crc_with_markers(offset: u64, covered: &[u8]) -> u32 {
    let between = (MARKER_INTERVAL - MARKER_LEN) as u64;
    let (intervals, rest) = (offset / between, offset % between);
    // A marker that stands exactly in front of the frame belongs to it.
    let marker = if rest > 0 { MARKER_LEN as u64 } else { 0 };
    let position = intervals * MARKER_INTERVAL as u64 + rest + marker;
    let mut digest = crc_fast::Digest::new(crc_fast::CrcAlgorithm::Crc32Iscsi);
    let mut from = 0;
    for marker in Markers::new(position, ulpdu_len(covered)) {
        let upto = marker.after.min(covered.len());
        digest.update(covered.get(from..upto).unwrap_or_default());
        digest.update(&marker.bytes());
        from = upto;
    }
    digest.update(covered.get(from..).unwrap_or_default());
    #[allow(clippy::cast_possible_truncation)] // a 32-bit CRC in a 64-bit result
    let crc = digest.finalize() as u32;
    crc
}

/// The length field at the front of an FPDU.
pub(super) fn ulpdu_len(fpdu: &[u8]) -> usize {
    fpdu.first_chunk::<LENGTH_LEN>()
        .map_or(0, |length| usize::from(u16::from_be_bytes(*length)))
}
