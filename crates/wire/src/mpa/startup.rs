//! The request and reply frames of the startup phase (RFC 5044 section 7.1, RFC 6581 section 9).

use core::fmt;

/// Bytes of a startup frame in front of its private data.
pub const STARTUP_HEADER_LEN: usize = 20;
/// Most private data, the enhanced block included.
pub const PRIVATE_DATA_MAX: usize = 512;
/// The largest read depth (IRD or ORD) that can be stated.
pub const READ_DEPTH_MAX: u16 = 0x3ffe;
/// The IRD or ORD that says: this depth is not negotiated here.
pub const NOT_NEGOTIATED: u16 = 0x3fff;

const REQUEST_KEY: &[u8; 16] = b"MPA ID Req Frame";
const REPLY_KEY: &[u8; 16] = b"MPA ID Rep Frame";

const MARKERS: u8 = 0x80;
const CRC: u8 = 0x40;
const REJECTED: u8 = 0x20;
const ENHANCED: u8 = 0x10;
const RESERVED: u8 = 0x0f;

const ENHANCED_LEN: usize = 4;
const WORD_FLAG_HIGH: u16 = 0x8000;
const WORD_FLAG_LOW: u16 = 0x4000;
const DEPTH_MASK: u16 = 0x3fff;

/// Which of the two frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FrameKind {
    /// The initiator's.
    Request,
    /// The responder's.
    Reply,
}

/// The MPA revision of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Revision(pub u8);

impl Revision {
    /// RFC 5044.
    pub const ONE: Revision = Revision(1);
    /// RFC 6581: the enhanced block may be there.
    pub const TWO: Revision = Revision(2);
}

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// The enhanced block of RFC 6581: read depths and the first message of a peer-to-peer initiator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Enhanced {
    /// A: the initiator opens full operation with a ready-to-receive message.
    pub peer_to_peer: bool,
    /// B: that message may be a zero-length Send.
    pub send_rtr: bool,
    /// C: it may be a zero-length RDMA Write.
    pub write_rtr: bool,
    /// D: it may be a zero-length RDMA Read.
    pub read_rtr: bool,
    /// Reads the sender of the frame can answer at a time; 14 bits, [`NOT_NEGOTIATED`] leaves it
    /// open.
    pub ird: u16,
    /// Reads the sender of the frame will have outstanding; 14 bits, as above.
    pub ord: u16,
}

impl Enhanced {
    /// The block of a client-server connection.
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

    fn from_bytes(bytes: [u8; ENHANCED_LEN]) -> Enhanced {
        let [i0, i1, o0, o1] = bytes;
        let inbound = u16::from_be_bytes([i0, i1]);
        let outbound = u16::from_be_bytes([o0, o1]);
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
        let [i0, i1] = word(self.ird, self.peer_to_peer, self.send_rtr).to_be_bytes();
        let [o0, o1] = word(self.ord, self.write_rtr, self.read_rtr).to_be_bytes();
        [i0, i1, o0, o1]
    }
}

/// A request or reply frame of the startup phase.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StartupFrame<'a> {
    /// Request or reply.
    pub kind: FrameKind,
    /// M: the sender wants markers in what it receives.
    pub markers: bool,
    /// C: the sender wants CRCs. They are used both ways when either side does.
    pub crc: bool,
    /// R: the connection is refused (reply only; without meaning in a request).
    pub rejected: bool,
    /// Reserved flag bits (low nibble): zero on transmit, ignored on receive. Linux siw puts a hint
    /// of its own into 0x08.
    pub reserved: u8,
    /// The revision.
    pub revision: Revision,
    /// The enhanced block; its presence is the S flag.
    pub enhanced: Option<Enhanced>,
    /// The upper layer's private data, without the enhanced block.
    pub private_data: &'a [u8],
}

impl<'a> StartupFrame<'a> {
    /// The frame at the start of `stream`; `None` until all of it is there.
    ///
    /// Returns it together with its length; bytes behind it are the peer's error during startup. A
    /// wrong key is found as soon as its first wrong byte is there.
    ///
    /// # Errors
    /// [`StartupError`]: close the connection, there is no answer to a stranger.
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
        let [.., flags, revision, len_high, len_low] = *header;
        let private_len = usize::from(u16::from_be_bytes([len_high, len_low]));
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
            Some((block, data)) if is_enhanced => (Some(Enhanced::from_bytes(*block)), data),
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
    /// [`StartupError::PrivateDataLength`] when the private data is longer than
    /// [`PRIVATE_DATA_MAX`] allows, [`StartupError::Buffer`] when `out` is shorter than
    /// [`StartupFrame::encoded_len`].
    pub fn emit(&self, out: &mut [u8]) -> Result<usize, StartupError> {
        let private_len = self.private_len();
        let too_long = StartupError::PrivateDataLength { len: private_len };
        if private_len > PRIVATE_DATA_MAX {
            return Err(too_long);
        }
        let len_field = u16::try_from(private_len).map_err(|_| too_long)?;
        let total = self.encoded_len();
        let out = out
            .get_mut(..total)
            .ok_or(StartupError::Buffer { needed: total })?;
        let (key, rest) = out.split_at_mut(REQUEST_KEY.len());
        key.copy_from_slice(key_of(self.kind));
        let (fields, rest) = rest.split_at_mut(STARTUP_HEADER_LEN - REQUEST_KEY.len());
        let [len_high, len_low] = len_field.to_be_bytes();
        fields.copy_from_slice(&[self.flags(), self.revision.0, len_high, len_low]);
        let (block, data) = rest.split_at_mut(private_len - self.private_data.len());
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

fn key_of(kind: FrameKind) -> &'static [u8; 16] {
    match kind {
        FrameKind::Request => REQUEST_KEY,
        FrameKind::Reply => REPLY_KEY,
    }
}

/// Why a startup frame cannot be read or written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum StartupError {
    /// The key is not the expected one: not MPA, or both ends are initiators.
    #[error("the key of the startup frame is wrong")]
    Key,
    /// More private data than RFC 5044 allows, or too little for the enhanced block.
    #[error("{len} bytes of private data are not possible")]
    PrivateDataLength {
        /// The length stated.
        len: usize,
    },
    /// The S flag in a revision that does not know it.
    #[error("an enhanced block in revision {revision}")]
    EnhancedInRevision {
        /// The revision stated.
        revision: Revision,
    },
    /// The caller's buffer is too small.
    #[error("the frame needs {needed} bytes")]
    Buffer {
        /// Bytes needed.
        needed: usize,
    },
}
