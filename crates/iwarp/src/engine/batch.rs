//! Bytes on their way out: pieces in stream order, most of them named rather than held.
//!
//! Headers, pads and CRCs of a batch stand in one `control` buffer, so that the control bytes between two
//! payloads (the CRC of one FPDU, the header of the next) are a single slice. File bytes stand in one
//! `data` buffer, so that one read brings those of several FPDUs. Payloads of other memory stay where
//! they are until the stream takes them.

use crate::chunks::{Chunk, ChunkPool};
use crate::limits::BATCHES_SPARE_MAX;
use gannet_runtime::{FileWindow, FileWindows};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

/// Parts of batches, shared by the connections of a core: empty batches whose queues have grown already, buffers,
/// windows onto files.
#[derive(Clone, Default)]
pub(crate) struct BatchPool {
    spare: Rc<RefCell<Vec<Batch>>>,
    pub(super) chunks: ChunkPool,
    pub(super) windows: Rc<FileWindows>,
}

impl BatchPool {
    /// Unmaps the windows of files that are not open any more.
    pub(crate) fn sweep(&self) {
        self.windows.sweep();
    }

    /// Gives back what hardly anything used since the last call; returns the bytes that the allocator has now.
    pub(crate) fn trim_unused(&self) -> usize {
        self.windows.trim_unused();
        self.chunks.trim_unused()
    }

    /// Gives back all that is not in use; returns the bytes that the allocator has now.
    pub(crate) fn trim(&self) -> usize {
        self.windows.clear();
        self.spare.take();
        self.chunks.trim()
    }

    /// An empty batch.
    pub(super) fn take(&self) -> Batch {
        self.spare.borrow_mut().pop().unwrap_or_default()
    }

    /// Takes a batch that has left.
    pub(super) fn give_back(&self, mut batch: Batch) {
        batch.clear();
        let mut spare = self.spare.borrow_mut();
        if spare.len() < BATCHES_SPARE_MAX {
            spare.push(batch);
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
    /// Bytes at `offset` of the file of message `message`, which the kernel copies from a window.
    Mapped {
        message: u64,
        window: Rc<FileWindow>,
        offset: u64,
        len: usize,
        frame: Frame,
    },
    /// Bytes `start..end` of the batch's data buffer.
    Data { start: usize, end: usize },
    /// Bytes `start..end` of a buffer of their own.
    Kept {
        bytes: Chunk,
        start: usize,
        end: usize,
    },
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
            Piece::Control { start, end }
            | Piece::Data { start, end }
            | Piece::Kept { start, end, .. } => end - start,
            Piece::Memory { len, .. } | Piece::Mapped { len, .. } | Piece::Zeros { len } => *len,
        }
    }

    fn advance(&mut self, count: usize) {
        match self {
            Piece::Control { start, .. }
            | Piece::Data { start, .. }
            | Piece::Kept { start, .. } => *start += count,
            Piece::Memory { offset, len, .. } => {
                *offset += count;
                *len -= count;
            }
            Piece::Mapped { offset, len, .. } => {
                *offset += count as u64;
                *len -= count;
            }
            Piece::Zeros { len } => *len -= count,
        }
    }
}

/// The bytes of one write to the stream.
#[derive(Debug, Default)]
pub(super) struct Batch {
    pub(super) control: Vec<u8>,
    /// File bytes, of which the first `data_used` are taken. Never replaced while a piece refers to it.
    data: Option<Chunk>,
    data_used: usize,
    pub(super) pieces: VecDeque<Piece>,
    /// Bytes of all pieces.
    pub(super) len: usize,
    /// No FPDU is added any more, because its data buffer is used up.
    pub(super) is_full: bool,
}

impl Batch {
    /// Bytes of file that still go in, of `wanted`. Takes a buffer from `chunks` if there is none yet.
    pub(super) fn data_room(&mut self, wanted: usize, chunks: &ChunkPool) -> usize {
        let data = self.data.get_or_insert_with(|| chunks.take(wanted));
        wanted.min(data.len() - self.data_used)
    }

    /// The next `len` bytes of the data buffer, to be filled; no more than there is room for.
    pub(super) fn data_space(&mut self, len: usize) -> &mut [u8] {
        let (start, end) = (self.data_used, self.data_used + len);
        let data = self.data.as_mut();
        data.and_then(|data| data.get_mut(start..end))
            .unwrap_or_default()
    }

    /// Notes that the next `len` bytes of the data buffer were filled; returns their offset.
    pub(super) fn data_filled(&mut self, len: usize) -> usize {
        let start = self.data_used;
        self.data_used += len;
        start
    }

    /// `len` bytes of the data buffer from `start` on.
    pub(super) fn data(&self, start: usize, len: usize) -> Option<&[u8]> {
        self.data.as_ref()?.get(start..start.checked_add(len)?)
    }

    /// Appends to the control buffer. Bytes that follow the last control bytes directly join their piece.
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

    /// Takes `count` bytes off the front.
    pub(super) fn take(&mut self, count: usize) {
        let mut count = count.min(self.len);
        self.len -= count;
        while let Some(piece) = self.pieces.front_mut() {
            let len = piece.len();
            if count < len {
                piece.advance(count);
                return;
            }
            count -= len;
            self.pieces.pop_front();
        }
        self.control.clear();
    }

    /// Empties the batch and keeps the capacity of its queues.
    pub(super) fn clear(&mut self) {
        self.control.clear();
        self.pieces.clear();
        (self.data, self.data_used) = (None, 0);
        (self.len, self.is_full) = (0, false);
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
            Some(Piece::Memory { len, frame, .. } | Piece::Mapped { len, frame, .. }) => {
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
        batch.take(6);
        assert!(matches!(
            batch.pieces[0],
            Piece::Memory {
                offset: 12,
                len: 3,
                ..
            }
        ));
        batch.take(4);
        assert!(matches!(
            batch.pieces[0],
            Piece::Control { start: 5, end: 6 }
        ));
        batch.take(1);
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
        batch.take(taken);
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
    fn file_bytes_of_several_fpdus_stand_in_one_buffer_that_comes_back() {
        let chunks = ChunkPool::default();
        let mut batch = Batch::default();
        assert_eq!(batch.data_room(300, &chunks), 300);
        batch.data_space(300).fill(7);
        let start = batch.data_filled(300);
        for at in [start, start + 150] {
            batch.push_control(b"head");
            let end = at + 150;
            batch.push(Piece::Data { start: at, end });
        }
        batch.take(4 + 149);
        assert_eq!(batch.data(299, 1), Some(&[7][..]));
        assert_eq!(batch.data(usize::MAX, 1), None);
        batch.take(1 + 4 + 150);
        assert_eq!((batch.len, chunks.spare()), (0, 0));
        batch.clear();
        assert_eq!(chunks.spare(), 1);
    }
}
