//! Bytes on their way out: pieces in stream order, most of them named rather than held.
//!
//! Headers, pads and CRCs of a batch stand in one `control` buffer, so that what lies between two
//! payloads (the CRC of one FPDU, the header of the next) is a single slice. Payloads stay where
//! they are until the stream takes them.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

use crate::limits::SPARE_CHUNKS_MAX;

/// Buffers for file ranges that must be read, shared by the connections of a core.
#[derive(Clone, Default)]
pub(crate) struct ChunkPool {
    spare: Rc<RefCell<Vec<Vec<u8>>>>,
}

impl ChunkPool {
    /// A buffer of `len` bytes, with whatever its last user left.
    pub(super) fn take(&self, len: usize) -> Vec<u8> {
        let mut bytes = self.spare.borrow_mut().pop().unwrap_or_default();
        bytes.resize(len, 0);
        bytes
    }

    /// Takes a buffer that is free again.
    pub(super) fn give_back(&self, bytes: Vec<u8>) {
        let mut spare = self.spare.borrow_mut();
        if spare.len() < SPARE_CHUNKS_MAX {
            spare.push(bytes);
        }
    }
}

/// A stretch of the outgoing stream.
#[derive(Debug)]
pub(super) enum Piece {
    /// Bytes `start..end` of the batch's control buffer.
    Control { start: usize, end: usize },
    /// Bytes at `offset` of the memory of message `message`.
    Memory {
        message: u64,
        offset: usize,
        len: usize,
        frame: Frame,
    },
    /// Bytes at `offset` of the file of message `message`; they leave by sendfile.
    File {
        message: u64,
        offset: u64,
        len: usize,
        frame: Frame,
    },
    /// Bytes `start..` of a buffer of their own.
    Chunk { bytes: Vec<u8>, start: usize },
    /// This many zeros: a file ended before its range did.
    Zeros { len: usize },
}

/// How much of the control bytes around a payload belongs to its FPDU.
#[derive(Debug, Clone, Copy)]
pub(super) struct Frame {
    /// Length field and header, right before it.
    pub(super) head: usize,
    /// Pad and CRC, right behind it.
    pub(super) tail: usize,
}

impl Piece {
    pub(super) fn len(&self) -> usize {
        match self {
            Piece::Control { start, end } => end - start,
            Piece::Memory { len, .. } | Piece::File { len, .. } | Piece::Zeros { len } => *len,
            Piece::Chunk { bytes, start } => bytes.len() - start,
        }
    }

    fn advance(&mut self, count: usize) {
        match self {
            Piece::Control { start, .. } | Piece::Chunk { start, .. } => *start += count,
            Piece::Memory { offset, len, .. } => {
                *offset += count;
                *len -= count;
            }
            Piece::File { offset, len, .. } => {
                *offset += count as u64;
                *len -= count;
            }
            Piece::Zeros { len } => *len -= count,
        }
    }
}

/// What one call should give to the stream.
#[derive(Debug, Default)]
pub(super) struct Batch {
    pub(super) control: Vec<u8>,
    pub(super) pieces: VecDeque<Piece>,
    /// Bytes of all pieces.
    pub(super) len: usize,
}

impl Batch {
    /// Appends to the control buffer, joined to what stands there when nothing came between.
    pub(super) fn push_control(&mut self, bytes: &[u8]) {
        let start = self.control.len();
        self.control.extend_from_slice(bytes);
        let end = self.control.len();
        self.len += bytes.len();
        if let Some(Piece::Control { end: last, .. }) = self.pieces.back_mut()
            && *last == start
        {
            *last = end;
            return;
        }
        self.pieces.push_back(Piece::Control { start, end });
    }

    /// Appends a payload.
    pub(super) fn push(&mut self, piece: Piece) {
        let len = piece.len();
        if len > 0 {
            self.len += len;
            self.pieces.push_back(piece);
        }
    }

    /// Takes `count` bytes off the front; buffers that are free again go to `chunks`.
    pub(super) fn take(&mut self, count: usize, chunks: &ChunkPool) {
        let mut count = count.min(self.len);
        self.len -= count;
        while let Some(piece) = self.pieces.front_mut() {
            let len = piece.len();
            if count < len {
                piece.advance(count);
                return;
            }
            count -= len;
            if let Some(Piece::Chunk { bytes, .. }) = self.pieces.pop_front() {
                chunks.give_back(bytes);
            }
        }
        self.control.clear();
    }

    /// The payload of an FPDU that has begun to leave, when it is the next one to.
    pub(super) fn begun_payload(&mut self) -> Option<&mut Piece> {
        let index = match self.pieces.front()? {
            Piece::Control { start, end } => match self.pieces.get(1)? {
                Piece::Memory { frame, .. } if end - start < frame.head => 1,
                _ => return None,
            },
            _ => 0,
        };
        self.pieces.get_mut(index)
    }

    /// Drops the FPDU around the payload at `index` and everything behind it. When the FPDU has
    /// begun to leave, zeros take the place of its payload instead.
    pub(super) fn cut(&mut self, index: usize) {
        let (len, frame) = match self.pieces.get(index) {
            Some(Piece::Memory { len, frame, .. } | Piece::File { len, frame, .. }) => {
                (*len, *frame)
            }
            _ => return,
        };
        let before = index
            .checked_sub(1)
            .and_then(|before| self.pieces.get_mut(before));
        let keep = match before {
            Some(Piece::Control { start, end }) if *end - *start >= frame.head => {
                *end -= frame.head;
                index
            }
            _ => {
                if let Some(payload) = self.pieces.get_mut(index) {
                    *payload = Piece::Zeros { len };
                }
                if let Some(Piece::Control { start, end }) = self.pieces.get_mut(index + 1) {
                    *end = *start + frame.tail;
                }
                index + 2
            }
        };
        self.pieces.truncate(keep);
        if let Some(Piece::Control { end, .. }) = self.pieces.back() {
            self.control.truncate(*end);
        }
        self.pieces.retain(|piece| piece.len() > 0);
        self.len = self.pieces.iter().map(Piece::len).sum();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_bytes_join_unless_a_payload_stands_between() {
        let mut batch = Batch::default();
        batch.push_control(b"ab");
        batch.push_control(b"cd");
        let frame = Frame { head: 2, tail: 1 };
        batch.push(Piece::Memory {
            message: 0,
            offset: 10,
            len: 5,
            frame,
        });
        batch.push(Piece::Zeros { len: 0 });
        batch.push_control(b"ef");
        assert_eq!((batch.pieces.len(), batch.len), (3, 11));
        let chunks = ChunkPool::default();
        batch.take(6, &chunks);
        assert!(matches!(
            batch.pieces[0],
            Piece::Memory {
                offset: 12,
                len: 3,
                ..
            }
        ));
        batch.take(4, &chunks);
        assert!(matches!(
            batch.pieces[0],
            Piece::Control { start: 5, end: 6 }
        ));
        batch.take(1, &chunks);
        assert!(batch.control.is_empty() && batch.pieces.is_empty() && batch.len == 0);
    }

    /// Two FPDUs, of which the stream took `taken` bytes.
    fn two_frames(taken: usize) -> Batch {
        let frame = Frame { head: 4, tail: 2 };
        let mut batch = Batch::default();
        for message in 0..2 {
            batch.push_control(b"head");
            batch.push(Piece::Memory {
                message,
                offset: 0,
                len: 10,
                frame,
            });
            batch.push_control(b"ta");
        }
        batch.take(taken, &ChunkPool::default());
        batch
    }

    #[test]
    fn an_fpdu_that_has_not_begun_is_cut_off() {
        let mut batch = two_frames(12);
        assert!(matches!(
            batch.begun_payload(),
            Some(Piece::Memory { message: 0, .. })
        ));
        batch.cut(2);
        assert_eq!((batch.len, batch.pieces.len()), (2 + 2, 2));
        let mut batch = two_frames(0);
        assert!(batch.begun_payload().is_none());
        batch.cut(1);
        assert_eq!((batch.len, batch.pieces.len()), (0, 0));
    }

    #[test]
    fn an_fpdu_that_has_begun_is_filled_up() {
        for taken in [1, 4, 9] {
            let mut batch = two_frames(taken);
            assert!(matches!(
                batch.begun_payload(),
                Some(Piece::Memory { message: 0, .. })
            ));
            let index = batch.pieces.len() - 4;
            batch.cut(index);
            assert_eq!(batch.len, 16 - taken);
            assert!(
                batch
                    .pieces
                    .iter()
                    .any(|piece| matches!(piece, Piece::Zeros { .. }))
            );
            batch.push_control(b"more");
            assert_eq!((batch.len, batch.pieces.len()), (20 - taken, index + 2));
        }
    }

    #[test]
    fn a_chunk_comes_back_when_it_has_left() {
        let mut batch = Batch::default();
        batch.push(Piece::Chunk {
            bytes: vec![1, 2, 3],
            start: 0,
        });
        let chunks = ChunkPool::default();
        batch.take(2, &chunks);
        assert!(chunks.spare.borrow().is_empty());
        batch.take(1, &chunks);
        assert_eq!(*chunks.spare.borrow(), [vec![1, 2, 3]]);
    }
}
