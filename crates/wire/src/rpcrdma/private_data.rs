//! What two ends tell each other while connecting (RFC 8797).

/// Bytes of the encoded private data.
pub const PRIVATE_DATA_LEN: usize = 8;
/// The inline threshold of a peer that says nothing (RFC 8166 section 3.3.2).
pub const INLINE_DEFAULT: u32 = 1024;
/// Smallest size that can be told.
pub const INLINE_MIN: u32 = 1024;
/// Largest size that can be told.
pub const INLINE_MAX: u32 = 262_144;

const MAGIC: [u8; 4] = [0xf6, 0xab, 0x0e, 0x18];
const VERSION: u8 = 1;
const REMOTE_INVALIDATION: u8 = 1;

/// The inline sizes and abilities of one end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PrivateData {
    /// This end lets the peer revoke its keys with Send with Invalidate (the R bit).
    pub remote_invalidation: bool,
    /// Largest message it sends, in bytes: a multiple of 1024 from [`INLINE_MIN`] to [`INLINE_MAX`].
    pub send_size: u32,
    /// Largest message it can receive, likewise.
    pub receive_size: u32,
}

impl Default for PrivateData {
    /// What holds for a peer that says nothing.
    fn default() -> PrivateData {
        PrivateData {
            remote_invalidation: false,
            send_size: INLINE_DEFAULT,
            receive_size: INLINE_DEFAULT,
        }
    }
}

impl PrivateData {
    /// Finds the block anywhere in what the peer sent (RFC 8797 section 4: other layers may have put theirs
    /// around it). `None` when it is absent or of an unknown version; then the defaults hold.
    pub fn find(bytes: &[u8]) -> Option<PrivateData> {
        bytes
            .windows(PRIVATE_DATA_LEN)
            .find_map(|window| match *window {
                [m0, m1, m2, m3, VERSION, flags, send, receive] if [m0, m1, m2, m3] == MAGIC => {
                    Some(PrivateData {
                        remote_invalidation: flags & REMOTE_INVALIDATION != 0,
                        send_size: decode_size(send),
                        receive_size: decode_size(receive),
                    })
                }
                _ => None,
            })
    }

    /// Writes the block. Sizes are rounded down to what can be told.
    pub fn to_bytes(self) -> [u8; PRIVATE_DATA_LEN] {
        let [m0, m1, m2, m3] = MAGIC;
        let flags = if self.remote_invalidation {
            REMOTE_INVALIDATION
        } else {
            0
        };
        let (send, receive) = (encode_size(self.send_size), encode_size(self.receive_size));
        [m0, m1, m2, m3, VERSION, flags, send, receive]
    }

    /// The inline threshold for messages from this end to `peer`.
    pub fn threshold_to(&self, peer: &PrivateData) -> u32 {
        self.send_size.min(peer.receive_size)
    }
}

fn decode_size(byte: u8) -> u32 {
    (u32::from(byte) + 1) * 1024
}

fn encode_size(size: u32) -> u8 {
    u8::try_from((size.clamp(INLINE_MIN, INLINE_MAX) / 1024) - 1).unwrap_or(u8::MAX)
}
