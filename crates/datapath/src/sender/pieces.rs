//! A range, cut into the pieces of single work requests.

use super::{Destination, SendError};
use gannet_fabric::RemoteAddress;

/// The bytes of one work request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Piece {
    /// Bytes of the range before it.
    pub(super) offset: u64,
    /// Length of the piece in bytes.
    pub(super) len: u32,
    /// Its first byte in the peer's memory; `None` for a message.
    pub(super) target: Option<RemoteAddress>,
}

/// The pieces of a range, in order. None lies in two segments of the peer.
pub(super) struct Pieces<'a> {
    destination: Destination<'a>,
    /// Bytes of the range.
    len: u64,
    /// Most bytes of a piece.
    piece_len: u32,
    /// Bytes of the range that are in pieces handed out.
    cut: u64,
}

impl<'a> Pieces<'a> {
    /// The pieces of `len` bytes, none of them longer than `piece_len`.
    ///
    /// # Errors
    /// [`SendError::Room`]: the destination is too small.
    pub(super) fn new(
        len: usize,
        destination: Destination<'a>,
        piece_len: usize,
    ) -> Result<Pieces<'a>, SendError> {
        let len = len as u64;
        let piece_len = u32::try_from(piece_len).unwrap_or(u32::MAX).max(1);
        let room = match destination {
            Destination::Memory(segments) => {
                segments.iter().map(|(_, bytes)| u64::from(*bytes)).sum()
            }
            Destination::Messages { receives } => {
                u64::from(piece_len).saturating_mul(receives as u64)
            }
        };
        if len > room {
            return Err(SendError::Room { room, len });
        }
        Ok(Pieces {
            destination,
            len,
            piece_len,
            cut: 0,
        })
    }

    /// Goes back, so that `piece` and all behind it are returned again.
    pub(super) fn go_back_to(&mut self, piece: Piece) {
        self.cut = piece.offset;
    }

    /// True when the last piece was returned.
    pub(super) fn are_done(&self) -> bool {
        self.cut == self.len
    }

    /// The peer's memory for the byte at `offset` of the range, and bytes from there to the end of its segment.
    fn place(&self, offset: u64) -> (Option<RemoteAddress>, u32) {
        let Destination::Memory(segments) = self.destination else {
            return (None, self.piece_len);
        };
        let mut before = 0;
        for (address, bytes) in segments {
            let within = offset - before;
            if within < u64::from(*bytes) {
                let target = RemoteAddress {
                    key: address.key,
                    offset: address.offset.wrapping_add(within),
                };
                let rest = u64::from(*bytes) - within;
                return (Some(target), u32::try_from(rest).unwrap_or(u32::MAX));
            }
            before += u64::from(*bytes);
        }
        (None, 0)
    }
}

impl Iterator for Pieces<'_> {
    type Item = Piece;

    fn next(&mut self) -> Option<Piece> {
        let offset = self.cut;
        let rest = u32::try_from(self.len - offset).unwrap_or(u32::MAX);
        let (target, room) = self.place(offset);
        let len = rest.min(room).min(self.piece_len);
        if len == 0 {
            return None;
        }
        self.cut += u64::from(len);
        Some(Piece {
            offset,
            len,
            target,
        })
    }
}
