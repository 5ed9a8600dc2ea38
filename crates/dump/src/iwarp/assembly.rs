//! Messages out of DDP segments.

use super::words;
use crate::limits::MESSAGE_KEPT_MAX;
use crate::line::{Crc, Direction, Line, Part};
use gannet_wire::ddp::DdpHeader;
use gannet_wire::rdmap::Opcode;

/// A DDP segment, perhaps without its end.
#[derive(Debug, Clone, Copy)]
pub(super) struct Segment<'a> {
    pub(super) time: u64,
    pub(super) direction: Direction,
    pub(super) header: DdpHeader,
    pub(super) opcode: Opcode,
    pub(super) payload: &'a [u8],
    /// Bytes of payload on the wire.
    pub(super) payload_len: usize,
    pub(super) crc: Crc,
}

impl Segment<'_> {
    /// The message it begins, or continues without the beginning.
    pub(super) fn begin(&self) -> Assembly {
        // If the segment does not start its message, the bytes before it are missing.
        let is_first = match self.header {
            DdpHeader::Tagged(_) => true,
            DdpHeader::Untagged(header) => header.offset.0 == 0,
        };
        Assembly {
            opcode: self.opcode,
            first: self.header,
            kept: Vec::new(),
            bytes: 0,
            segments: 0,
            crc: Crc::Ok,
            is_whole: is_first,
        }
    }

    /// A segment on a line of its own.
    pub(super) fn line(&self) -> Line {
        let mut assembly = self.begin();
        assembly.add(self);
        let mut line = assembly.line(self.time, self.direction);
        let mut part = match &self.header {
            DdpHeader::Tagged(header) => words::tagged(header),
            DdpHeader::Untagged(header) => {
                let mut part = Part::new("rdmap");
                part.pair("offset", header.offset.0);
                part
            }
        };
        part.flag("more", true);
        line.bytes = Some(self.payload_len as u64);
        line.parts.push(part);
        line
    }
}

/// A message of which segments have come.
#[derive(Debug)]
pub(super) struct Assembly {
    pub(super) opcode: Opcode,
    pub(super) first: DdpHeader,
    /// The front of the payload, up to what is missing.
    pub(super) kept: Vec<u8>,
    pub(super) bytes: u64,
    pub(super) segments: u64,
    crc: Crc,
    /// False when a piece of the payload is missing, or too long to be kept.
    pub(super) is_whole: bool,
}

impl Assembly {
    /// True if a segment with `header` continues this message.
    pub(super) fn is_continued_by(&self, opcode: Opcode, header: &DdpHeader) -> bool {
        let is_next = match (self.first, header) {
            (DdpHeader::Tagged(first), DdpHeader::Tagged(next)) => {
                first.stag == next.stag && first.offset.advanced_by(self.bytes) == next.offset
            }
            (DdpHeader::Untagged(first), DdpHeader::Untagged(next)) => {
                let end = u64::from(first.offset.0) + self.bytes;
                (first.queue, first.msn) == (next.queue, next.msn)
                    && u64::from(next.offset.0) == end
            }
            _ => false,
        };
        opcode == self.opcode && is_next
    }
}

impl Assembly {
    /// Adds a segment.
    pub(super) fn add(&mut self, segment: &Segment<'_>) {
        self.crc = match self.segments {
            0 => segment.crc,
            _ => self.crc.max(segment.crc),
        };
        self.segments += 1;
        self.bytes += segment.payload_len as u64;
        // Payload of a tagged segment goes to memory, not into a message.
        if self.is_whole && !segment.header.is_tagged() {
            let room = MESSAGE_KEPT_MAX.saturating_sub(self.kept.len());
            let count = segment.payload.len().min(room);
            self.kept.extend_from_slice(&segment.payload[..count]);
        }
        self.is_whole &=
            segment.payload.len() == segment.payload_len && self.kept.len() < MESSAGE_KEPT_MAX;
    }

    pub(super) fn line(&self, time: u64, direction: Direction) -> Line {
        let operation = match self.opcode {
            Opcode::Write => "Write",
            Opcode::ReadRequest => "ReadReq",
            Opcode::ReadResponse => "ReadResp",
            Opcode::Send => "Send",
            Opcode::SendWithInvalidate => "SendInv",
            Opcode::SendWithSolicitedEvent => "SendSE",
            Opcode::SendWithSolicitedEventAndInvalidate => "SendSEInv",
            Opcode::Terminate => "Terminate",
            Opcode::AuthenticatedReadRequest => "AuthRead",
            Opcode::ReadException => "ReadExc",
        };
        let msn = match self.first {
            DdpHeader::Tagged(_) => None,
            DdpHeader::Untagged(header) => Some(header.msn.0),
        };
        Line {
            direction: Some(direction),
            msn,
            crc: Some(self.crc),
            bytes: Some(self.bytes),
            ..Line::new(time, operation)
        }
    }
}
