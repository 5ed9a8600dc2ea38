//! Direct Data Placement, RFC 5041: the header in front of every segment.
//!
//! A segment is *tagged* (it names the memory it goes to) or *untagged* (it belongs to a message on a queue, and goes
//! into the buffer that the message took there). This module knows the two headers; [`crate::rdmap`] gives the bytes
//! reserved for the upper layer their meaning.

use crate::field::{put, u32_of, u64_of};
use core::fmt;
use core::ops::Range;

/// Bytes of a tagged header ([`Tagged`]).
pub const TAGGED_HEADER_LEN: usize = tagged_field::TO.end;
/// Bytes of an untagged header ([`Untagged`]).
pub const UNTAGGED_HEADER_LEN: usize = untagged_field::MO.end;

/// The DDP control field, the first byte of both headers (RFC 5041 section 4.1).
const CONTROL: usize = 0;
/// The byte behind it, reserved for the upper layer in both headers.
const RSVDULP: usize = 1;

/// T: the segment is tagged.
const TAGGED_FLAG: u8 = 0x80;
/// L: the segment is the last of its message.
const LAST_FLAG: u8 = 0x40;
/// Rsvd: zero on transmit.
pub const CONTROL_RESERVED: u8 = 0x3c;
/// DV, the version.
const VERSION_MASK: u8 = 0x03;
const VERSION: u8 = 1;

/// Fields of a tagged header behind the control field and RsvdULP.
mod tagged_field {
    use super::Range;
    pub(super) const STAG: Range<usize> = 2..6;
    pub(super) const TO: Range<usize> = 6..14;
}

/// Fields of an untagged header behind the control field and the first byte of RsvdULP.
mod untagged_field {
    use super::Range;
    pub(super) const RSVDULP_WORD: Range<usize> = 2..6;
    pub(super) const QN: Range<usize> = 6..10;
    pub(super) const MSN: Range<usize> = 10..14;
    pub(super) const MO: Range<usize> = 14..18;
}

/// A steering tag: the 32-bit name of a tagged buffer (RFC 5041 section 2.2).
///
/// Verbs call it rkey, RPC-over-RDMA a handle. It prints as eight hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct STag(pub u32);

impl fmt::Debug for STag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "STag({:08x})", self.0)
    }
}

impl fmt::Display for STag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:08x}", self.0)
    }
}

/// A tagged offset (TO): a position in a tagged buffer, in bytes. The buffer's first byte may have any offset.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct TaggedOffset(pub u64);

impl TaggedOffset {
    /// The offset `count` bytes further on, modulo 2^64 as the wire counts.
    #[must_use]
    pub fn advanced_by(self, count: u64) -> TaggedOffset {
        TaggedOffset(self.0.wrapping_add(count))
    }
}

/// A position in one tagged buffer. It prints as `STag@TO`, both hexadecimal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TaggedLocation {
    /// The buffer.
    pub stag: STag,
    /// The position in it.
    pub offset: TaggedOffset,
}

impl fmt::Display for TaggedLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{:x}", self.stag, self.offset.0)
    }
}

/// A message sequence number: counts the messages of one queue in one direction, from 1 on, modulo 2^32.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Msn(pub u32);

impl Msn {
    /// The number of the first message of every queue (RFC 5041 section 5.1).
    pub const FIRST: Msn = Msn(1);

    /// The number of the message after this one.
    #[must_use]
    pub fn next(self) -> Msn {
        Msn(self.0.wrapping_add(1))
    }
}

/// The number of an untagged queue (QN).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct QueueNumber(pub u32);

impl QueueNumber {
    /// Queue 0: the Send family (RFC 5040 section 4.2).
    pub const SEND: QueueNumber = QueueNumber(0);
    /// Queue 1: Read Requests (RFC 5040 section 4.2).
    pub const READ_REQUEST: QueueNumber = QueueNumber(1);
    /// Queue 2: Terminates (RFC 5040 section 4.2).
    pub const TERMINATE: QueueNumber = QueueNumber(2);
    /// Queue 4: Read Exceptions, on connections that have agreed on them (docs/formats/exceptions.md). RFC 7306 uses
    /// queue 3 for atomics.
    pub const READ_EXCEPTION: QueueNumber = QueueNumber(4);
}

/// A message offset (MO): the position of a segment's payload in its untagged message, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct MessageOffset(pub u32);

/// The header of a tagged segment (RFC 5041 section 4.2), [`TAGGED_HEADER_LEN`] bytes:
///
/// ```text
///  0                   1                   2                   3
///  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// |T|L| Rsvd  | DV|    RsvdULP    |          STag                 |
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// |          STag (end)           |           TO                  |
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+                               +
/// |                                                               |
/// +                               +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// |           TO (end)            |         payload ...
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// ```
///
/// T is 1, DV is 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tagged {
    /// L: this segment ends its message.
    pub last: bool,
    /// RsvdULP, the byte reserved for the upper layer: RDMAP's control field.
    pub ulp_control: u8,
    /// STag: the buffer that the payload goes to.
    pub stag: STag,
    /// TO: the position of the payload's first byte in that buffer.
    pub offset: TaggedOffset,
}

impl Tagged {
    /// The buffer and the position in it that the payload goes to.
    pub fn location(&self) -> TaggedLocation {
        TaggedLocation {
            stag: self.stag,
            offset: self.offset,
        }
    }

    /// Writes the header.
    pub fn emit(&self, out: &mut [u8; TAGGED_HEADER_LEN]) {
        out[CONTROL] = control(TAGGED_FLAG, self.last);
        out[RSVDULP] = self.ulp_control;
        put(out, tagged_field::STAG, self.stag.0.to_be_bytes());
        put(out, tagged_field::TO, self.offset.0.to_be_bytes());
    }

    #[inline(always)]
    fn from_bytes(bytes: &[u8; TAGGED_HEADER_LEN]) -> Tagged {
        Tagged {
            last: bytes[CONTROL] & LAST_FLAG != 0,
            ulp_control: bytes[RSVDULP],
            stag: STag(u32_of(bytes, tagged_field::STAG)),
            offset: TaggedOffset(u64_of(bytes, tagged_field::TO)),
        }
    }
}

impl fmt::Display for Tagged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Tagged { last, .. } = self;
        write!(
            f,
            "DDP Tagged L={} STag={} TO={:#x}",
            u8::from(*last),
            self.stag,
            self.offset.0
        )
    }
}

/// The header of an untagged segment (RFC 5041 section 4.3), [`UNTAGGED_HEADER_LEN`] bytes:
///
/// ```text
///  0                   1                   2                   3
///  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// |T|L| Rsvd  | DV|    RsvdULP    |       RsvdULP (word)          |
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// |     RsvdULP (word, end)       |           QN                  |
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// |           QN (end)            |           MSN                 |
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// |           MSN (end)           |           MO                  |
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// |           MO (end)            |         payload ...
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// ```
///
/// T is 0, DV is 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Untagged {
    /// L: this segment ends its message.
    pub last: bool,
    /// The first byte of RsvdULP, which is reserved for the upper layer: RDMAP's control field.
    pub ulp_control: u8,
    /// The other four bytes of RsvdULP: RDMAP's Invalidate STag, 0 in messages that have none.
    pub ulp_word: u32,
    /// QN: the queue of the message.
    pub queue: QueueNumber,
    /// MSN: the number of the message on that queue.
    pub msn: Msn,
    /// MO: the position of the payload's first byte in the message.
    pub offset: MessageOffset,
}

impl Untagged {
    /// Writes the header.
    pub fn emit(&self, out: &mut [u8; UNTAGGED_HEADER_LEN]) {
        out[CONTROL] = control(0, self.last);
        out[RSVDULP] = self.ulp_control;
        put(
            out,
            untagged_field::RSVDULP_WORD,
            self.ulp_word.to_be_bytes(),
        );
        put(out, untagged_field::QN, self.queue.0.to_be_bytes());
        put(out, untagged_field::MSN, self.msn.0.to_be_bytes());
        put(out, untagged_field::MO, self.offset.0.to_be_bytes());
    }

    #[inline(always)]
    fn from_bytes(bytes: &[u8; UNTAGGED_HEADER_LEN]) -> Untagged {
        Untagged {
            last: bytes[CONTROL] & LAST_FLAG != 0,
            ulp_control: bytes[RSVDULP],
            ulp_word: u32_of(bytes, untagged_field::RSVDULP_WORD),
            queue: QueueNumber(u32_of(bytes, untagged_field::QN)),
            msn: Msn(u32_of(bytes, untagged_field::MSN)),
            offset: MessageOffset(u32_of(bytes, untagged_field::MO)),
        }
    }
}

impl fmt::Display for Untagged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "DDP Untagged L={} QN={} MSN={} MO={}",
            u8::from(self.last),
            self.queue.0,
            self.msn.0,
            self.offset.0
        )?;
        if self.ulp_word != 0 {
            write!(f, " RsvdULP={:08x}", self.ulp_word)?;
        }
        Ok(())
    }
}

/// The header of a segment, of either kind. The T bit distinguishes them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DdpHeader {
    /// T is 1: the segment names its memory.
    Tagged(Tagged),
    /// T is 0: the segment belongs to a message of a queue.
    Untagged(Untagged),
}

impl DdpHeader {
    /// Splits a ULPDU into its header and its payload.
    ///
    /// # Errors
    /// - [`DdpHeaderError::Version`]: DV is not 1.
    /// - [`DdpHeaderError::Truncated`]: the bytes end within the header that T announces.
    pub fn parse(ulpdu: &[u8]) -> Result<(DdpHeader, &[u8]), DdpHeaderError> {
        let Some(&control) = ulpdu.first() else {
            return Err(DdpHeaderError::Truncated { len: 0 });
        };
        let tagged = control & TAGGED_FLAG != 0;
        if control & VERSION_MASK != VERSION {
            return Err(DdpHeaderError::Version {
                tagged,
                found: control & VERSION_MASK,
            });
        }
        let truncated = DdpHeaderError::Truncated { len: ulpdu.len() };
        if tagged {
            let (bytes, payload) = ulpdu.split_first_chunk().ok_or(truncated)?;
            return Ok((DdpHeader::Tagged(Tagged::from_bytes(bytes)), payload));
        }
        let (bytes, payload) = ulpdu.split_first_chunk().ok_or(truncated)?;
        Ok((DdpHeader::Untagged(Untagged::from_bytes(bytes)), payload))
    }

    /// True for a tagged header.
    pub fn is_tagged(&self) -> bool {
        matches!(self, DdpHeader::Tagged(_))
    }

    /// True when the segment ends its message (L).
    pub fn is_last(&self) -> bool {
        match self {
            DdpHeader::Tagged(header) => header.last,
            DdpHeader::Untagged(header) => header.last,
        }
    }

    /// The first byte reserved for the upper layer: RDMAP's control field.
    pub fn ulp_control(&self) -> u8 {
        match self {
            DdpHeader::Tagged(header) => header.ulp_control,
            DdpHeader::Untagged(header) => header.ulp_control,
        }
    }

    /// Bytes that [`DdpHeader::emit`] writes: [`TAGGED_HEADER_LEN`] or [`UNTAGGED_HEADER_LEN`].
    pub fn encoded_len(&self) -> usize {
        match self {
            DdpHeader::Tagged(_) => TAGGED_HEADER_LEN,
            DdpHeader::Untagged(_) => UNTAGGED_HEADER_LEN,
        }
    }

    /// Writes the header at the start of `out` and returns its length.
    pub fn emit(&self, out: &mut [u8; UNTAGGED_HEADER_LEN]) -> usize {
        match self {
            DdpHeader::Tagged(header) => {
                if let Some(front) = out.first_chunk_mut::<TAGGED_HEADER_LEN>() {
                    header.emit(front);
                }
            }
            DdpHeader::Untagged(header) => header.emit(out),
        }
        self.encoded_len()
    }
}

impl fmt::Display for DdpHeader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DdpHeader::Tagged(header) => write!(f, "{header}"),
            DdpHeader::Untagged(header) => write!(f, "{header}"),
        }
    }
}

/// The reason why a segment's header cannot be used. The receiver answers with a Terminate of the DDP layer (RFC 5041
/// section 7).
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum DdpHeaderError {
    /// The ULPDU ends within its header.
    #[error("a ULPDU of {len} bytes ends within its DDP header")]
    Truncated {
        /// Bytes of the ULPDU.
        len: usize,
    },
    /// DV is not 1.
    #[error("DDP version {found} instead of 1")]
    Version {
        /// The T bit, which decides the error type of the Terminate.
        tagged: bool,
        /// The version found, 0 to 3.
        found: u8,
    },
}

fn control(tagged: u8, last: bool) -> u8 {
    tagged | if last { LAST_FLAG } else { 0 } | VERSION
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn headers_print_on_a_line() {
        let tagged = b"\xc1\x40\0\0\x12\x34\0\0\0\0\0\0\x10\0payload";
        let (header, payload) = DdpHeader::parse(tagged).unwrap();
        assert_eq!(payload, b"payload");
        assert_eq!(header.to_string(), "DDP Tagged L=1 STag=00001234 TO=0x1000");
        let untagged = b"\x01\x44\0\0\0\x88\0\0\0\0\0\0\0\x05\0\0\x05\xa0";
        let (header, _) = DdpHeader::parse(untagged).unwrap();
        assert_eq!(
            header.to_string(),
            "DDP Untagged L=0 QN=0 MSN=5 MO=1440 RsvdULP=00000088"
        );
    }

    #[test]
    fn a_location_prints_as_stag_at_offset() {
        let location = TaggedLocation {
            stag: STag(0x1234),
            offset: TaggedOffset(0xffff_0000_1000),
        };
        assert_eq!(location.to_string(), "00001234@ffff00001000");
    }
}
