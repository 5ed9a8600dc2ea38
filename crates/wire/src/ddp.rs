//! Direct Data Placement, RFC 5041: the header in front of every segment.
//!
//! A segment is *tagged* (it names the memory it goes to) or *untagged* (it belongs to a message on
//! a queue, and goes into the buffer that message took there). This module knows the two headers;
//! what the bytes reserved for the upper layer mean is [`crate::rdmap`]'s business.

use core::fmt;

/// Bytes of a tagged header.
pub const TAGGED_HEADER_LEN: usize = 14;
/// Bytes of an untagged header.
pub const UNTAGGED_HEADER_LEN: usize = 18;

const TAGGED_FLAG: u8 = 0x80;
const LAST_FLAG: u8 = 0x40;
const VERSION_MASK: u8 = 0x03;
const VERSION: u8 = 1;

/// A steering tag: the 32-bit name of a memory region on the wire.
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

/// Where in a tagged region, in bytes from the region's own zero (TO).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct TaggedOffset(pub u64);

impl TaggedOffset {
    /// The offset `count` bytes further on, modulo 2^64 as the wire counts.
    #[must_use]
    pub fn advanced_by(self, count: u64) -> TaggedOffset {
        TaggedOffset(self.0.wrapping_add(count))
    }
}

/// The sequence number of a message on one queue in one direction; starts at 1 and wraps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Msn(pub u32);

impl Msn {
    /// What every queue starts with.
    pub const FIRST: Msn = Msn(1);

    /// The number of the message after this one.
    #[must_use]
    pub fn next(self) -> Msn {
        Msn(self.0.wrapping_add(1))
    }
}

/// An untagged queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct QueueNumber(pub u32);

impl QueueNumber {
    /// Queue 0: the Send family.
    pub const SEND: QueueNumber = QueueNumber(0);
    /// Queue 1: Read Requests.
    pub const READ_REQUEST: QueueNumber = QueueNumber(1);
    /// Queue 2: Terminate.
    pub const TERMINATE: QueueNumber = QueueNumber(2);
    /// Queue 4: Read Exceptions, of connections that have agreed on them. RFC 7306 uses queue 3.
    pub const READ_EXCEPTION: QueueNumber = QueueNumber(4);
}

/// Where a segment's payload starts within its untagged message, in bytes (MO).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct MessageOffset(pub u32);

/// The header of a tagged segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tagged {
    /// This segment ends its message.
    pub last: bool,
    /// The byte reserved for the upper layer (RDMAP's control byte).
    pub ulp_control: u8,
    /// The region the payload goes to.
    pub stag: STag,
    /// Where in the region it goes.
    pub offset: TaggedOffset,
}

impl Tagged {
    /// Writes the header.
    pub fn emit(&self, out: &mut [u8; TAGGED_HEADER_LEN]) {
        out[0] = control(TAGGED_FLAG, self.last);
        out[1] = self.ulp_control;
        out[2..6].copy_from_slice(&self.stag.0.to_be_bytes());
        out[6..14].copy_from_slice(&self.offset.0.to_be_bytes());
    }
}

/// The header of an untagged segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Untagged {
    /// This segment ends its message.
    pub last: bool,
    /// The first byte reserved for the upper layer (RDMAP's control byte).
    pub ulp_control: u8,
    /// The other four (RDMAP's Invalidate STag).
    pub ulp_word: u32,
    /// The queue of the message.
    pub queue: QueueNumber,
    /// The number of the message on that queue.
    pub msn: Msn,
    /// Where the payload starts within the message.
    pub offset: MessageOffset,
}

impl Untagged {
    /// Writes the header.
    pub fn emit(&self, out: &mut [u8; UNTAGGED_HEADER_LEN]) {
        out[0] = control(0, self.last);
        out[1] = self.ulp_control;
        out[2..6].copy_from_slice(&self.ulp_word.to_be_bytes());
        out[6..10].copy_from_slice(&self.queue.0.to_be_bytes());
        out[10..14].copy_from_slice(&self.msn.0.to_be_bytes());
        out[14..18].copy_from_slice(&self.offset.0.to_be_bytes());
    }
}

/// The header of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DdpHeader {
    /// The segment names its memory.
    Tagged(Tagged),
    /// The segment belongs to a queue.
    Untagged(Untagged),
}

impl DdpHeader {
    /// Splits a ULPDU into its header and its payload.
    ///
    /// # Errors
    /// [`DdpHeaderError`] when the version is not 1 or the bytes end within the header.
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
        let last = control & LAST_FLAG != 0;
        if tagged {
            let (bytes, payload) = ulpdu
                .split_first_chunk::<TAGGED_HEADER_LEN>()
                .ok_or(truncated)?;
            return Ok((DdpHeader::Tagged(tagged_from(last, bytes)), payload));
        }
        let (bytes, payload) = ulpdu
            .split_first_chunk::<UNTAGGED_HEADER_LEN>()
            .ok_or(truncated)?;
        Ok((DdpHeader::Untagged(untagged_from(last, bytes)), payload))
    }

    /// True for a tagged header.
    pub fn is_tagged(&self) -> bool {
        matches!(self, DdpHeader::Tagged(_))
    }

    /// True when the segment ends its message.
    pub fn is_last(&self) -> bool {
        match self {
            DdpHeader::Tagged(header) => header.last,
            DdpHeader::Untagged(header) => header.last,
        }
    }

    /// The first byte reserved for the upper layer.
    pub fn ulp_control(&self) -> u8 {
        match self {
            DdpHeader::Tagged(header) => header.ulp_control,
            DdpHeader::Untagged(header) => header.ulp_control,
        }
    }

    /// How many bytes [`DdpHeader::emit`] writes.
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

/// Why a segment's header cannot be used. The receiver answers with a Terminate of the DDP layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum DdpHeaderError {
    /// The ULPDU ends within its header.
    #[error("a ULPDU of {len} bytes ends within its DDP header")]
    Truncated {
        /// Bytes there were.
        len: usize,
    },
    /// Another DDP version.
    #[error("DDP version {found} instead of 1")]
    Version {
        /// Whether the T bit is set: it decides the error type of the Terminate.
        tagged: bool,
        /// The version found.
        found: u8,
    },
}

fn control(tagged: u8, last: bool) -> u8 {
    tagged | if last { LAST_FLAG } else { 0 } | VERSION
}

fn tagged_from(last: bool, bytes: &[u8; TAGGED_HEADER_LEN]) -> Tagged {
    let [
        _,
        ulp_control,
        s0,
        s1,
        s2,
        s3,
        o0,
        o1,
        o2,
        o3,
        o4,
        o5,
        o6,
        o7,
    ] = *bytes;
    Tagged {
        last,
        ulp_control,
        stag: STag(u32::from_be_bytes([s0, s1, s2, s3])),
        offset: TaggedOffset(u64::from_be_bytes([o0, o1, o2, o3, o4, o5, o6, o7])),
    }
}

fn untagged_from(last: bool, bytes: &[u8; UNTAGGED_HEADER_LEN]) -> Untagged {
    let [
        _,
        ulp_control,
        u0,
        u1,
        u2,
        u3,
        q0,
        q1,
        q2,
        q3,
        m0,
        m1,
        m2,
        m3,
        o0,
        o1,
        o2,
        o3,
    ] = *bytes;
    Untagged {
        last,
        ulp_control,
        ulp_word: u32::from_be_bytes([u0, u1, u2, u3]),
        queue: QueueNumber(u32::from_be_bytes([q0, q1, q2, q3])),
        msn: Msn(u32::from_be_bytes([m0, m1, m2, m3])),
        offset: MessageOffset(u32::from_be_bytes([o0, o1, o2, o3])),
    }
}
