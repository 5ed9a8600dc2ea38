//! Messages on their way out of a byte stream, in order, in as few system calls as possible.

use crate::limits::{BATCH_LEN, SPARE_BATCHES_MAX};
use crate::service::{Payload, Reply};
use bytes::Bytes;
use gannet_datapath::limits::COPY_FILE_MAX;
use gannet_datapath::{FileRange, Sent, StreamPath};
use gannet_runtime::Buffer;
use gannet_runtime::stream::{ByteStream, Follow};
use gannet_wire::rpc::{FRAGMENT_MAX, RECORD_MARK_LEN, RecordMark};
use gannet_wire::xdr::{Encoder, pad_len};
use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::rc::Rc;

/// Most pieces handed over with one system call.
const SLICES_MAX: usize = 32;
/// Replies whose head is longer than this are handed over where they are; shorter ones are copied into a batch.
const COPY_MAX: usize = 4096;

/// Something to send.
enum Piece {
    /// Many small replies, or one long head.
    Batch(Vec<u8>),
    Buffer(Buffer, usize),
    Shared(Rc<Buffer>, usize),
    Bytes(Bytes),
    /// Behind a piece with the beginning of its record and nothing else: see [`Outgoing::fail_cold`].
    File(FilePiece),
}

/// A reply's file range, with the values for the error that takes its place if it cannot be read.
struct FilePiece {
    range: FileRange,
    /// Bytes of memory that it takes.
    memory: usize,
    xid: u32,
    /// Bytes of the record behind the range.
    behind: usize,
    /// See [`Reply::answer_if_unreadable`].
    unreadable: Option<&'static [u8]>,
}

impl Piece {
    fn as_slice(&self) -> &[u8] {
        match self {
            Piece::Batch(bytes) => bytes,
            Piece::Buffer(buffer, len) => buffer.get(..*len).unwrap_or(buffer),
            Piece::Shared(buffer, len) => buffer.get(..*len).unwrap_or(buffer),
            Piece::Bytes(bytes) => bytes,
            Piece::File(_) => &[],
        }
    }

    fn len(&self) -> usize {
        match self {
            Piece::File(file) => file.range.len,
            other => other.as_slice().len(),
        }
    }

    fn memory(&self) -> usize {
        match self {
            Piece::Batch(bytes) => bytes.len(),
            Piece::Buffer(buffer, _) => buffer.len(),
            // The memory is the caller's, and charged to the call.
            Piece::Shared(..) => 0,
            Piece::Bytes(bytes) => bytes.len(),
            Piece::File(file) => file.memory,
        }
    }
}

/// The result of [`Outgoing::flush`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Progress {
    /// Everything is handed over.
    Done,
    /// The connection takes no more now.
    Blocked,
    /// The next bytes are a file's that must be read from the disk first ([`Outgoing::cold_range`]). No other bytes
    /// leave before them: a stream keeps its order.
    Cold,
}

/// The result of [`Outgoing::fail_cold`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Failed {
    /// An error reply to the call with this XID takes its place.
    Answered(u32),
    /// The beginning of the reply to the call with this XID has left. A stream cannot take it back, so the connection
    /// must end.
    Begun(u32),
}

/// Messages not yet taken by the connection.
#[derive(Default)]
pub(crate) struct Outgoing {
    pieces: VecDeque<Piece>,
    /// The batch behind the pieces, to which small replies are appended.
    tail: Vec<u8>,
    /// Bytes of the first piece (of the tail, when there is none) that have left.
    sent: usize,
    /// Bytes that have not left.
    waiting: usize,
    /// Bytes of memory of the pieces.
    memory: usize,
    spare: Vec<Vec<u8>>,
    path: StreamPath,
    /// Bytes that sendfile(2) has sent, until they are counted.
    sent_by_file: u64,
}

impl Outgoing {
    /// Bytes waiting.
    pub(crate) fn len(&self) -> usize {
        self.waiting
    }

    /// True when nothing waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.waiting == 0
    }

    /// Bytes of memory that the waiting messages take.
    pub(crate) fn memory(&self) -> usize {
        self.memory + self.tail.len()
    }

    /// Takes memory for small replies, if it has none.
    pub(crate) fn lend(&mut self, batch: impl FnOnce() -> Option<Vec<u8>>) {
        if self.tail.capacity() == 0
            && let Some(batch) = batch()
        {
            self.tail = batch;
        }
    }

    /// Gives the memory that it keeps for replies back, if nothing waits.
    pub(crate) fn give_back(&mut self, mut to: impl FnMut(Vec<u8>)) {
        if self.is_empty() && self.tail.capacity() > 0 {
            to(std::mem::take(&mut self.tail));
            self.spare.drain(..).for_each(to);
        }
    }

    fn push_back(&mut self, piece: Piece) {
        self.memory += piece.memory();
        self.pieces.push_back(piece);
    }

    fn pop_front(&mut self) -> Option<Piece> {
        let piece = self.pieces.pop_front()?;
        self.memory -= piece.memory();
        Some(piece)
    }

    /// Bytes that sendfile(2) has sent since the last call of this.
    pub(crate) fn take_sent_by_file(&mut self) -> u64 {
        std::mem::take(&mut self.sent_by_file)
    }

    /// Queues a reply as one record of one fragment; takes its payload and, if it is long, its head.
    pub(crate) fn push_reply(&mut self, xid: u32, reply: &mut Reply) {
        let before = self.tail.len();
        emit_front(xid, reply, &mut self.tail);
        let Some((payload, position)) = reply.payload.take() else {
            return self.push_head(before, &mut reply.head);
        };
        let (head, rest) = reply
            .head
            .split_at_checked(position)
            .unwrap_or((&reply.head, &[]));
        self.tail.extend_from_slice(head);
        self.waiting += self.tail.len() - before;
        let pad = pad_len(payload.len());
        match payload {
            Payload::Buffer { buffer, len } => self.push(Piece::Buffer(buffer, len)),
            Payload::Bytes(bytes) => self.push(Piece::Bytes(bytes)),
            Payload::File(range) => {
                if range.len > COPY_FILE_MAX || !self.copy_file(&range) {
                    self.split_tail(before);
                    self.push(Piece::File(FilePiece {
                        memory: range.memory(),
                        range,
                        xid,
                        behind: pad + rest.len(),
                        unreadable: reply.unreadable,
                    }));
                }
            }
        }
        self.tail
            .extend_from_slice([0; 3].get(..pad).unwrap_or(&[]));
        self.tail.extend_from_slice(rest);
        self.waiting += pad + rest.len();
    }

    /// Queues a call as one record of one fragment: `emit` writes its header and the arguments up to a payload;
    /// `behind` are the arguments after it.
    pub(crate) fn push_call(
        &mut self,
        emit: impl FnOnce(&mut Encoder<'_>),
        payload: Option<(Rc<Buffer>, usize)>,
        behind: &[u8],
    ) {
        let before = self.tail.len();
        self.tail.extend_from_slice(&[0; RECORD_MARK_LEN]);
        emit(&mut Encoder::new(&mut self.tail));
        let payload_len = payload.as_ref().map_or(0, |(_, len)| *len);
        let pad = pad_len(payload_len);
        let total = self.tail.len() - before - RECORD_MARK_LEN + payload_len + pad + behind.len();
        // Bounded by the caller with RECORD_MAX.
        let mark = RecordMark::single(u32::try_from(total).unwrap_or(FRAGMENT_MAX));
        if let Some(place) = self
            .tail
            .get_mut(before..)
            .and_then(<[u8]>::first_chunk_mut)
        {
            *place = mark.to_bytes();
        }
        self.waiting += self.tail.len() - before;
        if let Some((buffer, len)) = payload {
            self.push(Piece::Shared(buffer, len));
        }
        self.tail
            .extend_from_slice([0; 3].get(..pad).unwrap_or(&[]));
        self.tail.extend_from_slice(behind);
        self.waiting += pad + behind.len();
        if self.tail.len() >= BATCH_LEN {
            self.seal_tail();
        }
    }

    fn push_head(&mut self, before: usize, head: &mut Vec<u8>) {
        if head.len() <= COPY_MAX {
            self.tail.extend_from_slice(head);
            self.waiting += self.tail.len() - before;
            if self.tail.len() >= BATCH_LEN {
                self.seal_tail();
            }
        } else {
            self.waiting += self.tail.len() - before;
            let spare = self.spare.pop().unwrap_or_default();
            self.push(Piece::Batch(std::mem::replace(head, spare)));
        }
    }

    /// Copies a short file range into the batch of small replies, so that many leave together. Returns false, and does
    /// nothing, when it is not all in the page cache.
    fn copy_file(&mut self, range: &FileRange) -> bool {
        let start = self.tail.len();
        self.tail.resize(start + range.len, 0);
        let target = self.tail.get_mut(start..).unwrap_or_default();
        if range.copy(target).is_err() {
            self.tail.truncate(start);
            return false;
        }
        self.waiting += range.len;
        if self.tail.len() >= BATCH_LEN {
            self.seal_tail();
        }
        true
    }

    fn seal_tail(&mut self) {
        if !self.tail.is_empty() {
            let spare = self.spare.pop().unwrap_or_default();
            let batch = std::mem::replace(&mut self.tail, spare);
            self.push_back(Piece::Batch(batch));
        }
    }

    /// Makes the tail's bytes from `start` on a piece of their own.
    fn split_tail(&mut self, start: usize) {
        if start > 0 {
            let mut own = self.spare.pop().unwrap_or_default();
            own.extend_from_slice(self.tail.get(start..).unwrap_or(&[]));
            self.tail.truncate(start);
            let others = std::mem::replace(&mut self.tail, own);
            self.push_back(Piece::Batch(others));
        }
    }

    fn push(&mut self, piece: Piece) {
        self.seal_tail();
        self.waiting += piece.len();
        self.push_back(piece);
    }

    /// Writes as much as the stream takes. `scratch` is memory through which file ranges are copied.
    ///
    /// # Errors
    /// The errors of [`ByteStream::try_write`] but `WouldBlock`: the connection is broken.
    pub(crate) fn flush(
        &mut self,
        stream: &dyn ByteStream,
        scratch: &mut [u8],
    ) -> io::Result<Progress> {
        while self.waiting > 0 {
            let file_at = self
                .pieces
                .iter()
                .take(SLICES_MAX)
                .position(|piece| matches!(piece, Piece::File(_)));
            let range = file_at.and_then(|at| self.file_range(at));
            let by_send_file = (range.as_ref()).is_some_and(|it| self.path.uses_send_file(it));
            if let (true, Some(0), Some(range)) = (by_send_file, file_at, &range) {
                match self.path.send_file(stream, range)? {
                    Sent::Some(count) => {
                        self.sent_by_file += count as u64;
                        self.advance(count);
                        continue;
                    }
                    Sent::Blocked => return Ok(Progress::Blocked),
                    Sent::Nothing => {}
                }
            }
            let fill = |scratch: &mut [u8]| match &range {
                Some(range) => self.path.copy(range, scratch),
                None => Ok(0),
            };
            let written = match file_at {
                None => self.write_once(stream, self.pieces.len(), None, Follow::More),
                Some(at) if by_send_file && at > 0 => {
                    self.write_once(stream, at, Some(&[]), Follow::More)
                }
                Some(at) => match fill(scratch) {
                    Ok(filled) => {
                        let bytes = scratch.get(..filled).unwrap_or(&[]);
                        self.write_once(stream, at, Some(bytes), Follow::More)
                    }
                    // The bytes need the disk, or cannot be read: the read that waits for the disk reports that too.
                    Err(_) => match self.pieces_before_reply(at) {
                        0 => return Ok(Progress::Cold),
                        others => self.write_once(stream, others, Some(&[]), Follow::Nothing),
                    },
                },
            };
            match written {
                Ok((taken, offered)) if taken < offered => return Ok(Progress::Blocked),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    return Ok(Progress::Blocked);
                }
                Err(error) => return Err(error),
            }
        }
        Ok(Progress::Done)
    }

    /// Pieces that leave while the reply whose file range is at `at` waits: all before its record. The beginning of its
    /// record waits too: once a byte of it has left, a file that cannot be read costs the connection and not one call
    /// (test `over_tcp_the_call_alone_is_answered_with_an_error`).
    fn pieces_before_reply(&self, at: usize) -> usize {
        if self.is_begun(at) {
            at
        } else {
            at.saturating_sub(1)
        }
    }

    /// True when a byte of the record whose file range is at `at` has left.
    fn is_begun(&self, at: usize) -> bool {
        at == 0 || (at == 1 && self.sent > 0)
    }

    /// The part of the file range at `at` that has not left.
    fn file_range(&self, at: usize) -> Option<FileRange> {
        let Some(Piece::File(file)) = self.pieces.get(at) else {
            return None;
        };
        Some(file.range.rest(if at == 0 { self.sent } else { 0 }))
    }

    /// One system call: the first `pieces` pieces and then `from_file`, or the tail if there is no file and all pieces
    /// go. `follow` applies if more bytes wait. Returns the numbers of bytes taken and offered.
    fn write_once(
        &mut self,
        stream: &dyn ByteStream,
        pieces: usize,
        from_file: Option<&[u8]>,
        follow: Follow,
    ) -> io::Result<(usize, usize)> {
        let mut slices = [IoSlice::new(&[]); SLICES_MAX];
        let (mut count, mut offered, mut skip) = (0, 0, self.sent);
        let pieces = pieces.min(SLICES_MAX - 1);
        let last = match from_file {
            // The bytes of a file were copied from its first byte that has not left.
            Some(bytes) if pieces == 0 => {
                skip = 0;
                bytes
            }
            Some(bytes) => bytes,
            None if pieces == self.pieces.len() => self.tail.as_slice(),
            None => &[],
        };
        let whole = self.pieces.iter().take(pieces).map(Piece::as_slice);
        for (bytes, place) in whole.chain([last]).zip(&mut slices) {
            let bytes = bytes.get(skip..).unwrap_or(&[]);
            skip = 0;
            count += 1;
            offered += bytes.len();
            *place = IoSlice::new(bytes);
        }
        let follow = if offered < self.waiting {
            follow
        } else {
            Follow::Nothing
        };
        let taken = stream.try_write(slices.get(..count).unwrap_or(&slices), follow)?;
        self.advance(taken);
        Ok((taken, offered))
    }

    fn advance(&mut self, taken: usize) {
        self.waiting = self.waiting.saturating_sub(taken);
        self.sent += taken;
        while let Some(piece) = self.pieces.front() {
            let len = piece.len();
            if self.sent < len {
                return;
            }
            self.sent -= len;
            if let Some(Piece::Batch(mut batch)) = self.pop_front()
                && self.spare.len() < SPARE_BATCHES_MAX
                && batch.capacity() <= 2 * BATCH_LEN
            {
                batch.clear();
                self.spare.push(batch);
            }
        }
        if self.waiting == 0 {
            self.tail.clear();
            self.sent = 0;
        }
    }

    /// The range that [`Progress::Cold`] waits for: the rest of one payload.
    pub(crate) fn cold_range(&self) -> Option<FileRange> {
        self.file_range(self.cold_at()?)
    }

    /// The index of the file range that sending waits for: the front, or behind its record's beginning.
    fn cold_at(&self) -> Option<usize> {
        let mut first = self.pieces.iter().take(2);
        first.position(|piece| matches!(piece, Piece::File(_)))
    }

    /// Replaces the file range by `bytes`, which were read for [`Outgoing::cold_range`].
    pub(crate) fn warm(&mut self, bytes: Buffer) {
        let Some(at) = self.cold_at() else { return };
        if at == 0 {
            self.sent = 0;
        }
        if let Some(piece) = self.pieces.get_mut(at) {
            self.memory -= piece.memory();
            let len = bytes.len();
            *piece = Piece::Buffer(bytes, len);
            self.memory += piece.memory();
        }
    }

    /// Answers the call whose [`Outgoing::cold_range`] cannot be read with an error, unless its reply has begun to
    /// leave. `None` when nothing waits for a file.
    pub(crate) fn fail_cold(&mut self) -> Option<Failed> {
        let at = self.cold_at()?;
        let Some(Piece::File(file)) = self.pieces.get(at) else {
            return None;
        };
        let (xid, behind, unreadable) = (file.xid, file.behind, file.unreadable);
        if self.is_begun(at) {
            return Some(Failed::Begun(xid));
        }
        let mut reply = Reply::empty();
        reply.unreadable = unreadable;
        reply.fail_unreadable();
        let mut record = Vec::new();
        emit_front(xid, &reply, &mut record);
        record.extend_from_slice(&reply.head);
        self.waiting += record.len();
        // Removes the record's beginning, the range, and then its end, which is at the start of the next piece.
        for _ in 0..=at {
            let removed = self.pop_front();
            self.waiting -= removed.map_or(0, |piece| piece.len());
        }
        self.waiting -= behind;
        match self.pieces.front_mut() {
            Some(Piece::Batch(next)) => {
                let behind = behind.min(next.len());
                next.drain(..behind);
                self.memory -= behind;
            }
            _ => {
                self.tail.drain(..behind.min(self.tail.len()));
            }
        }
        self.memory += record.len();
        self.pieces.push_front(Piece::Batch(record));
        Some(Failed::Answered(xid))
    }
}

/// Appends the record mark and the header of a reply in one fragment.
fn emit_front(xid: u32, reply: &Reply, out: &mut Vec<u8>) {
    // Heads are bounded by their services and payloads by PAYLOAD_MAX: both far from a mark's 2^31.
    let total = reply.header_len() + reply.stream_len();
    let mark = RecordMark::single(u32::try_from(total).unwrap_or(FRAGMENT_MAX));
    out.extend_from_slice(&mark.to_bytes());
    reply.emit_header(xid, &mut Encoder::new(out));
}
