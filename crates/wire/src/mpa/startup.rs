//! The request and reply frames of the startup phase (RFC 5044 section 7.1.1, RFC 6581 section 9).

use crate::field::{put, u16_of};
use core::fmt;
use core::ops::Range;

/// Bytes of a startup frame in front of its private data.
pub const STARTUP_HEADER_LEN: usize = field::PD_LENGTH.end;
/// Most bytes of private data, the enhanced block included (RFC 5044 section 7.1.1).
pub const PRIVATE_DATA_MAX: usize = 512;
/// The largest read depth (IRD or ORD) that can be stated.
pub const READ_DEPTH_MAX: u16 = 0x3ffe;
/// The IRD or ORD of a frame that does not negotiate this depth (RFC 6581 section 9).
pub const NOT_NEGOTIATED: u16 = 0x3fff;

const REQUEST_KEY: &[u8; 16] = b"MPA ID Req Frame";
const REPLY_KEY: &[u8; 16] = b"MPA ID Rep Frame";

/// Fields of the header.
mod field {
    use super::Range;
    pub(super) const KEY: Range<usize> = 0..16;
    pub(super) const FLAGS: usize = 16;
    pub(super) const REV: usize = 17;
    pub(super) const PD_LENGTH: Range<usize> = 18..20;
}

/// M.
const MARKERS: u8 = 0x80;
/// C.
const CRC: u8 = 0x40;
/// R.
const REJECTED: u8 = 0x20;
/// S.
const ENHANCED: u8 = 0x10;
/// Res.
const RESERVED: u8 = 0x0f;

const ENHANCED_LEN: usize = enhanced_field::ORD.end;

/// Fields of the enhanced block.
mod enhanced_field {
    use super::Range;
    /// A, B and IRD.
    pub(super) const IRD: Range<usize> = 0..2;
    /// C, D and ORD.
    pub(super) const ORD: Range<usize> = 2..4;
}

/// A or C.
const WORD_FLAG_HIGH: u16 = 0x8000;
/// B or D.
const WORD_FLAG_LOW: u16 = 0x4000;
const DEPTH_MASK: u16 = 0x3fff;

/// The kind of a startup frame, given by its key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FrameKind {
    /// The frame of the initiator.
    Request,
    /// The frame of the responder.
    Reply,
}

impl fmt::Display for FrameKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            FrameKind::Request => "MPA Request",
            FrameKind::Reply => "MPA Reply",
        })
    }
}

/// The MPA revision of a frame (Rev).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Revision(pub u8);

impl Revision {
    /// The revision of RFC 5044.
    pub const ONE: Revision = Revision(1);
    /// The revision of RFC 6581: a frame may have the enhanced block.
    pub const TWO: Revision = Revision(2);
}

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// The enhanced block of RFC 6581 section 9: read depths, and the first message of a peer-to-peer initiator. It is the
/// first four bytes of the private data when S is set:
///
/// ```text
///  0                   1                   2                   3
///  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// |A|B|            IRD            |C|D|            ORD            |
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Enhanced {
    /// A: the initiator opens full operation with a ready-to-receive message (RTR).
    pub peer_to_peer: bool,
    /// B: the RTR may be a zero-length Send.
    pub send_rtr: bool,
    /// C: the RTR may be a zero-length RDMA Write.
    pub write_rtr: bool,
    /// D: the RTR may be a zero-length RDMA Read.
    pub read_rtr: bool,
    /// IRD: Reads that the sender of the frame can answer at a time, 0 to [`READ_DEPTH_MAX`], or [`NOT_NEGOTIATED`].
    pub ird: u16,
    /// ORD: Reads that the sender of the frame will have outstanding, 0 to [`READ_DEPTH_MAX`], or [`NOT_NEGOTIATED`].
    pub ord: u16,
}

impl Enhanced {
    /// The block of a client-server connection: A, B, C and D are 0.
    pub fn client_server(ird: u16, ord: u16) -> Enhanced {
        Enhanced {
            peer_to_peer: false,
            send_rtr: false,
            write_rtr: false,
            read_rtr: false,
            ird,
            ord,
        }
    }

    /// The names of the ready-to-receive messages that the block allows.
    pub fn rtr_names(&self) -> impl Iterator<Item = &'static str> {
        let allowed = [
            ("send", self.send_rtr),
            ("write", self.write_rtr),
            ("read", self.read_rtr),
        ];
        let allowed = allowed.into_iter().filter(|(_, is_allowed)| *is_allowed);
        allowed.map(|(name, _)| name)
    }

    fn from_bytes(bytes: &[u8; ENHANCED_LEN]) -> Enhanced {
        let inbound = u16_of(bytes, enhanced_field::IRD);
        let outbound = u16_of(bytes, enhanced_field::ORD);
        Enhanced {
            peer_to_peer: inbound & WORD_FLAG_HIGH != 0,
            send_rtr: inbound & WORD_FLAG_LOW != 0,
            write_rtr: outbound & WORD_FLAG_HIGH != 0,
            read_rtr: outbound & WORD_FLAG_LOW != 0,
            ird: inbound & DEPTH_MASK,
            ord: outbound & DEPTH_MASK,
        }
    }

    fn bytes(self) -> [u8; ENHANCED_LEN] {
        let word = |depth: u16, high: bool, low: bool| {
            (depth & DEPTH_MASK)
                | if high { WORD_FLAG_HIGH } else { 0 }
                | if low { WORD_FLAG_LOW } else { 0 }
        };
        let inbound = word(self.ird, self.peer_to_peer, self.send_rtr);
        let outbound = word(self.ord, self.write_rtr, self.read_rtr);
        let mut bytes = [0; ENHANCED_LEN];
        put(&mut bytes, enhanced_field::IRD, inbound.to_be_bytes());
        put(&mut bytes, enhanced_field::ORD, outbound.to_be_bytes());
        bytes
    }
}

impl fmt::Display for Enhanced {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "IRD={} ORD={}", self.ird, self.ord)?;
        if self.peer_to_peer {
            f.write_str(" A=1 RTR=")?;
            for (index, name) in self.rtr_names().enumerate() {
                let comma = if index > 0 { "," } else { "" };
                write!(f, "{comma}{name}")?;
            }
        }
        Ok(())
    }
}

/// A request or reply frame of the startup phase (RFC 5044 section 7.1.1), [`STARTUP_HEADER_LEN`] bytes and the private
/// data:
///
/// ```text
///  0                   1                   2                   3
///  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// |                                                               |
/// +                         Key (16 bytes)                        +
/// |                                                               |
/// +              "MPA ID Req Frame" or "MPA ID Rep Frame"         +
/// |                                                               |
/// +                                                               +
/// |                                                               |
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// |M|C|R|S|  Res  |      Rev      |           PD_Length           |
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// |           enhanced block (4 bytes, if S is set)               |
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// ~                         Private Data                          ~
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// ```
///
/// PD_Length counts the enhanced block (RFC 6581 section 9).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StartupFrame<'a> {
    /// The key: request or reply.
    pub kind: FrameKind,
    /// M: the sender wants markers in what it receives.
    pub markers: bool,
    /// C: the sender wants CRCs. They are used both ways when either side does.
    pub crc: bool,
    /// R: the responder refuses the connection. Without meaning in a request.
    pub rejected: bool,
    /// Res: the low four bits of the flags, zero on transmit, ignored on receive. Linux siw puts a hint of its own into
    /// 0x08.
    pub reserved: u8,
    /// Rev: the revision.
    pub revision: Revision,
    /// The enhanced block, if S is set.
    pub enhanced: Option<Enhanced>,
    /// The upper layer's private data, without the enhanced block. Both together have at most [`PRIVATE_DATA_MAX`]
    /// bytes.
    pub private_data: &'a [u8],
}

impl<'a> StartupFrame<'a> {
    /// The frame at the start of `stream`; `None` until all of it is there.
    ///
    /// Returns it together with its length; bytes behind it are the peer's error during startup. A wrong key is found
    /// as soon as its first wrong byte is there.
    ///
    /// # Errors
    /// The caller closes the connection and sends no answer after each of them.
    ///
    /// - [`StartupError::Key`]: the bytes are not a frame of this kind.
    /// - [`StartupError::PrivateDataLength`]: PD_Length is above [`PRIVATE_DATA_MAX`], or below the enhanced block's
    ///   length with S set.
    /// - [`StartupError::EnhancedInRevision`]: S is set in a revision before 2.
    pub fn parse(
        kind: FrameKind,
        stream: &'a [u8],
    ) -> Result<Option<(StartupFrame<'a>, usize)>, StartupError> {
        let key = key_of(kind);
        if !key
            .iter()
            .zip(stream)
            .all(|(expected, found)| expected == found)
        {
            return Err(StartupError::Key);
        }
        let Some((header, rest)) = stream.split_first_chunk::<STARTUP_HEADER_LEN>() else {
            return Ok(None);
        };
        let (flags, revision) = (header[field::FLAGS], header[field::REV]);
        let private_len = usize::from(u16_of(header, field::PD_LENGTH));
        let is_enhanced = flags & ENHANCED != 0;
        if private_len > PRIVATE_DATA_MAX || (is_enhanced && private_len < ENHANCED_LEN) {
            return Err(StartupError::PrivateDataLength { len: private_len });
        }
        if is_enhanced && Revision(revision) < Revision::TWO {
            return Err(StartupError::EnhancedInRevision {
                revision: Revision(revision),
            });
        }
        let Some(private) = rest.get(..private_len) else {
            return Ok(None);
        };
        let (enhanced, private_data) = match private.split_first_chunk::<ENHANCED_LEN>() {
            Some((block, data)) if is_enhanced => (Some(Enhanced::from_bytes(block)), data),
            _ => (None, private),
        };
        let frame = StartupFrame {
            kind,
            markers: flags & MARKERS != 0,
            crc: flags & CRC != 0,
            rejected: flags & REJECTED != 0,
            reserved: flags & RESERVED,
            revision: Revision(revision),
            enhanced,
            private_data,
        };
        Ok(Some((frame, STARTUP_HEADER_LEN + private_len)))
    }

    /// Bytes of the frame.
    pub fn encoded_len(&self) -> usize {
        STARTUP_HEADER_LEN + self.private_len()
    }

    /// Writes the frame at the start of `out` and returns its length.
    ///
    /// # Errors
    /// - [`StartupError::PrivateDataLength`]: enhanced block and private data are longer than [`PRIVATE_DATA_MAX`].
    /// - [`StartupError::Buffer`]: `out` is shorter than [`StartupFrame::encoded_len`].
    pub fn emit(&self, out: &mut [u8]) -> Result<usize, StartupError> {
        let private_len = self.private_len();
        let too_long = StartupError::PrivateDataLength { len: private_len };
        if private_len > PRIVATE_DATA_MAX {
            return Err(too_long);
        }
        let len_field = u16::try_from(private_len).map_err(|_| too_long)?;
        let total = self.encoded_len();
        let (header, private) = out
            .get_mut(..total)
            .and_then(<[u8]>::split_first_chunk_mut::<STARTUP_HEADER_LEN>)
            .ok_or(StartupError::Buffer { needed: total })?;
        put(header, field::KEY, *key_of(self.kind));
        header[field::FLAGS] = self.flags();
        header[field::REV] = self.revision.0;
        put(header, field::PD_LENGTH, len_field.to_be_bytes());
        let (block, data) = private.split_at_mut(private_len - self.private_data.len());
        if let Some(enhanced) = self.enhanced {
            block.copy_from_slice(&enhanced.bytes());
        }
        data.copy_from_slice(self.private_data);
        Ok(total)
    }

    fn private_len(&self) -> usize {
        let block = if self.enhanced.is_some() {
            ENHANCED_LEN
        } else {
            0
        };
        block + self.private_data.len()
    }

    fn flags(&self) -> u8 {
        let bit = |set: bool, mask: u8| if set { mask } else { 0 };
        bit(self.markers, MARKERS)
            | bit(self.crc, CRC)
            | bit(self.rejected, REJECTED)
            | bit(self.enhanced.is_some(), ENHANCED)
            | (self.reserved & RESERVED)
    }
}

impl fmt::Display for StartupFrame<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} M={} C={} R={} Rev={} PD_Length={}",
            self.kind,
            u8::from(self.markers),
            u8::from(self.crc),
            u8::from(self.rejected),
            self.revision,
            self.private_len()
        )?;
        if let Some(enhanced) = &self.enhanced {
            write!(f, " {enhanced}")?;
        }
        Ok(())
    }
}

fn key_of(kind: FrameKind) -> &'static [u8; 16] {
    match kind {
        FrameKind::Request => REQUEST_KEY,
        FrameKind::Reply => REPLY_KEY,
    }
}

/// The reason why a startup frame cannot be read or written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum StartupError {
    /// The key is not the expected one: not MPA, or both ends are initiators.
    #[error("the key of the startup frame is wrong")]
    Key,
    /// More private data than RFC 5044 allows, or too little for the enhanced block.
    #[error("{len} bytes of private data are not possible")]
    PrivateDataLength {
        /// Bytes of private data that the frame states or has.
        len: usize,
    },
    /// S is set in a revision that does not know it.
    #[error("an enhanced block in revision {revision}")]
    EnhancedInRevision {
        /// Rev of the frame.
        revision: Revision,
    },
    /// The caller's buffer is too small.
    #[error("the frame needs {needed} bytes")]
    Buffer {
        /// Bytes of the frame.
        needed: usize,
    },
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    fn printed(kind: FrameKind, bytes: &[u8]) -> alloc::string::String {
        let (frame, len) = StartupFrame::parse(kind, bytes).unwrap().unwrap();
        assert_eq!(len, bytes.len());
        frame.to_string()
    }

    #[test]
    fn a_frame_prints_on_a_line() {
        let request = b"MPA ID Req Frame\x50\x02\x00\x06\x80\x20\xc0\x10hi";
        assert_eq!(
            printed(FrameKind::Request, request),
            "MPA Request M=0 C=1 R=0 Rev=2 PD_Length=6 IRD=32 ORD=16 A=1 RTR=write,read"
        );
        let reply = b"MPA ID Rep Frame\x20\x01\x00\x00";
        assert_eq!(
            printed(FrameKind::Reply, reply),
            "MPA Reply M=0 C=0 R=1 Rev=1 PD_Length=0"
        );
    }
}
