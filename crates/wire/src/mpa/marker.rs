//! Markers (RFC 5044 sections 4.2 and 4.3): a pointer back to the FPDU's start every 512 bytes of the stream.
//!
//! Gannet never asks for markers. It transmits them when a hardware peer asks.

use super::{CRC_LEN, fpdu_len};
use alloc::vec::Vec;
use core::fmt;

/// Distance between markers, in bytes of the stream, markers included.
pub const MARKER_INTERVAL: usize = 512;
/// Bytes of a marker.
pub const MARKER_LEN: usize = 4;

/// One marker of an FPDU (RFC 5044 section 4.2), [`MARKER_LEN`] bytes:
///
/// ```text
///  0                   1                   2                   3
///  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// |           RESERVED            |            FPDUPTR            |
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Marker {
    /// Bytes of the FPDU in front of the marker, other markers not counted. The marker precedes the length field when
    /// this is 0.
    pub after: usize,
    /// FPDUPTR: bytes of the stream from the FPDU's length field to the marker, other markers counted.
    pub fpdu_pointer: u16,
}

impl Marker {
    /// The marker as it stands on the wire: RESERVED is 0.
    pub fn bytes(&self) -> [u8; MARKER_LEN] {
        let [high, low] = self.fpdu_pointer.to_be_bytes();
        [0, 0, high, low]
    }
}

impl fmt::Display for Marker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MPA Marker FPDUPTR={}", self.fpdu_pointer)
    }
}

/// The markers of one FPDU, in order.
///
/// A marker that would stand exactly behind the CRC belongs to the next FPDU.
#[derive(Debug, Clone)]
pub struct Markers {
    /// Stream position of the next byte to be placed, counted from the start of full operation.
    position: u64,
    /// Bytes of the FPDU placed so far, markers not counted.
    placed: usize,
    /// Stream position of the length field, once it is known.
    start: u64,
    /// Bytes of the FPDU in front of its CRC field; markers stand at or before this point.
    crc_at: usize,
}

impl Markers {
    /// The markers of an FPDU with a ULPDU of `ulpdu_len` bytes that starts at `position` of the
    /// stream.
    pub fn new(position: u64, ulpdu_len: usize) -> Markers {
        let crc_at = fpdu_len(ulpdu_len) - CRC_LEN;
        Markers {
            position,
            placed: 0,
            start: position,
            crc_at,
        }
    }

    /// Bytes of the stream that the FPDU takes, markers counted.
    pub fn stream_len(position: u64, ulpdu_len: usize) -> usize {
        fpdu_len(ulpdu_len) + Markers::new(position, ulpdu_len).count() * MARKER_LEN
    }
}

impl Iterator for Markers {
    type Item = Marker;

    fn next(&mut self) -> Option<Marker> {
        let until = until_marker(self.position);
        let after = self.placed.checked_add(until)?;
        if after > self.crc_at {
            return None;
        }
        let at = self.position + until as u64;
        if after == 0 {
            self.start = at + MARKER_LEN as u64;
        }
        self.placed = after;
        self.position = at + MARKER_LEN as u64;
        let fpdu_pointer = u16::try_from(at.saturating_sub(self.start)).ok()?;
        Some(Marker {
            after,
            fpdu_pointer,
        })
    }
}

/// Appends `bytes`, which start at `position` of a stream with markers, to `out` without the
/// markers.
///
/// The end of `bytes` may cut a marker: call again with the rest and its position.
pub fn strip_markers(position: u64, bytes: &[u8], out: &mut Vec<u8>) {
    let mut position = position;
    let mut rest = bytes;
    while !rest.is_empty() {
        let phase = phase(position);
        let marked = phase < MARKER_LEN;
        let run = if marked {
            MARKER_LEN - phase
        } else {
            MARKER_INTERVAL - phase
        };
        let (piece, tail) = rest.split_at(run.min(rest.len()));
        if !marked {
            out.extend_from_slice(piece);
        }
        position = position.wrapping_add(piece.len() as u64);
        rest = tail;
    }
}

fn phase(position: u64) -> usize {
    (position % MARKER_INTERVAL as u64) as usize
}

fn until_marker(position: u64) -> usize {
    (MARKER_INTERVAL - phase(position)) % MARKER_INTERVAL
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn a_marker_prints_on_a_line() {
        // The FPDU begins 12 bytes before the second marker of the stream.
        let marker = Markers::new(500, 46).next().unwrap();
        assert_eq!((marker.after, marker.bytes()), (12, [0, 0, 0, 12]));
        assert_eq!(marker.to_string(), "MPA Marker FPDUPTR=12");
    }
}
