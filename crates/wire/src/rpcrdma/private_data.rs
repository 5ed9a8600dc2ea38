//! The private data that two ends exchange while connecting (RFC 8797).

use crate::field::put;
use core::fmt;
use core::ops::Range;

/// Bytes of the encoded private data ([`PrivateData`]).
pub const PRIVATE_DATA_LEN: usize = 8;
/// The inline threshold in bytes of a peer that sends no private data (RFC 8166 section 3.3.2).
pub const INLINE_DEFAULT: u32 = 1024;
/// The smallest size in bytes that a field can state.
pub const INLINE_MIN: u32 = SIZE_UNIT;
/// The largest size in bytes that a field can state.
pub const INLINE_MAX: u32 = 256 * SIZE_UNIT;

/// The format identifier.
const MAGIC: [u8; 4] = [0xf6, 0xab, 0x0e, 0x18];
const VERSION: u8 = 1;
/// R.
const REMOTE_INVALIDATION: u8 = 1;
/// Bytes that a size field counts, less one: 0 stands for one unit.
const SIZE_UNIT: u32 = 1024;

/// Fields of the block.
mod field {
    use super::Range;
    pub(super) const MAGIC: Range<usize> = 0..4;
    pub(super) const VERSION: usize = 4;
    pub(super) const FLAGS: usize = 5;
    pub(super) const SEND_SIZE: usize = 6;
    pub(super) const RECEIVE_SIZE: usize = 7;
}

/// The inline sizes and abilities of one end (RFC 8797 section 4), [`PRIVATE_DATA_LEN`] bytes:
///
/// ```text
///  0                   1                   2                   3
///  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// |                 format identifier (0xf6ab0e18)                |
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// |  version = 1  |  reserved   |R|   send size   | receive size  |
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// ```
///
/// A size field holds the size in units of 1024 bytes, less one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PrivateData {
    /// R: this end lets the peer revoke its keys with Send with Invalidate.
    pub remote_invalidation: bool,
    /// Bytes of the largest message that this end sends: a multiple of 1024 from [`INLINE_MIN`] to [`INLINE_MAX`].
    pub send_size: u32,
    /// Bytes of the largest message that this end can receive, in the same range.
    pub receive_size: u32,
}

impl Default for PrivateData {
    /// The values of a peer that sends no private data.
    fn default() -> PrivateData {
        PrivateData {
            remote_invalidation: false,
            send_size: INLINE_DEFAULT,
            receive_size: INLINE_DEFAULT,
        }
    }
}

impl fmt::Display for PrivateData {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "RPC/RDMA private data R={} inline_send={} inline_receive={}",
            u8::from(self.remote_invalidation),
            self.send_size,
            self.receive_size
        )
    }
}

impl PrivateData {
    /// Finds the block anywhere in the private data of the peer, because other layers may have put theirs around it
    /// (RFC 8797 section 4). `None` when it is absent or of an unknown version; then [`PrivateData::default`] holds.
    pub fn find(bytes: &[u8]) -> Option<PrivateData> {
        let mut windows = bytes.windows(PRIVATE_DATA_LEN);
        let block = windows
            .find(|block| block[field::MAGIC] == MAGIC && block[field::VERSION] == VERSION)?;
        Some(PrivateData {
            remote_invalidation: block[field::FLAGS] & REMOTE_INVALIDATION != 0,
            send_size: decode_size(block[field::SEND_SIZE]),
            receive_size: decode_size(block[field::RECEIVE_SIZE]),
        })
    }

    /// Writes the block. Sizes are rounded down to whole units.
    pub fn to_bytes(self) -> [u8; PRIVATE_DATA_LEN] {
        let mut block = [0; PRIVATE_DATA_LEN];
        put(&mut block, field::MAGIC, MAGIC);
        block[field::VERSION] = VERSION;
        if self.remote_invalidation {
            block[field::FLAGS] |= REMOTE_INVALIDATION;
        }
        block[field::SEND_SIZE] = encode_size(self.send_size);
        block[field::RECEIVE_SIZE] = encode_size(self.receive_size);
        block
    }

    /// The inline threshold for messages from this end to `peer`, in bytes.
    pub fn threshold_to(&self, peer: &PrivateData) -> u32 {
        self.send_size.min(peer.receive_size)
    }
}

fn decode_size(byte: u8) -> u32 {
    (u32::from(byte) + 1) * SIZE_UNIT
}

fn encode_size(size: u32) -> u8 {
    u8::try_from((size.clamp(INLINE_MIN, INLINE_MAX) / SIZE_UNIT) - 1).unwrap_or(u8::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn private_data_prints_on_a_line() {
        let block = b"\xf6\xab\x0e\x18\x01\x01\x03\x07";
        let data = PrivateData::find(block).unwrap();
        assert_eq!(
            data.to_string(),
            "RPC/RDMA private data R=1 inline_send=4096 inline_receive=8192"
        );
    }
}
