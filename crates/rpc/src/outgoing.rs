//! Messages on their way out of a byte stream, in order, in as few system calls as possible.

use crate::limits::{BATCH_LEN, COPY_FILE_MAX, FILE_CHUNK_LEN, SEND_FILE_MIN, SPARE_BATCHES_MAX};
use crate::service::{Payload, Reply};
use bytes::Bytes;
use gannet_fabric::Buffer;
use gannet_runtime::stream::{ByteStream, Follow, is_connection_error};
use gannet_runtime::{FileRef, FileSource};
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
    File {
        file: FileRef,
        offset: u64,
        len: usize,
    },
}

impl Piece {
    fn as_slice(&self) -> &[u8] {
        match self {
            Piece::Batch(bytes) => bytes,
            Piece::Buffer(buffer, len) => buffer.get(..*len).unwrap_or(buffer),
            Piece::Shared(buffer, len) => buffer.get(..*len).unwrap_or(buffer),
            Piece::Bytes(bytes) => bytes,
            Piece::File { .. } => &[],
        }
    }

    fn len(&self) -> usize {
        match self {
            Piece::File { len, .. } => *len,
            other => other.as_slice().len(),
        }
    }
}

/// Where sending stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Progress {
    /// Everything is handed over.
    Done,
    /// The connection takes no more now.
    Blocked,
    /// The next bytes are a file's that are not in memory: read them ([`Outgoing::cold_range`]) first.
    Cold,
}

/// The bytes of a file that sending waits for.
pub(crate) struct ColdRange {
    pub(crate) file: FileRef,
    pub(crate) offset: u64,
    pub(crate) len: usize,
}

/// Messages not yet taken by the connection.
#[derive(Default)]
pub(crate) struct Outgoing {
    pieces: VecDeque<Piece>,
    /// What follows the pieces: the batch that grows.
    tail: Vec<u8>,
    /// Bytes of the first piece (of the tail, when there is none) that are gone already.
    sent: usize,
    /// Bytes that are not gone.
    waiting: usize,
    spare: Vec<Vec<u8>>,
    /// This stream or its files cannot do sendfile(2).
    send_file_unsupported: bool,
}

/// What came of a sendfile(2).
enum Sent {
    Some,
    /// The connection takes no more now.
    Blocked,
    /// It is not the way for these bytes.
    Nothing,
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

    /// Queues a reply as one record of one fragment; takes its payload and, if it is long, its head.
    pub(crate) fn push_reply(&mut self, xid: u32, reply: &mut Reply) {
        let header_len = reply.header_len();
        // Heads are bounded by their services and payloads by PAYLOAD_MAX: both far from a mark's 2^31.
        let total = u32::try_from(header_len + reply.stream_len()).unwrap_or(FRAGMENT_MAX);
        let before = self.tail.len();
        self.tail
            .extend_from_slice(&RecordMark::single(total).to_bytes());
        reply.emit_header(xid, &mut Encoder::new(&mut self.tail));
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
        self.push_payload(payload);
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

    fn push_payload(&mut self, payload: Payload) {
        match payload {
            Payload::Buffer { buffer, len } => self.push(Piece::Buffer(buffer, len)),
            Payload::Bytes(bytes) => self.push(Piece::Bytes(bytes)),
            Payload::File { file, offset, len } => {
                if len > COPY_FILE_MAX || !self.copy_file(&*file, offset, len) {
                    self.push(Piece::File { file, offset, len });
                }
            }
        }
    }

    /// Puts a short file range among the small replies, so that many leave together. False, and nothing done, when
    /// it is not all in memory.
    fn copy_file(&mut self, file: &dyn FileSource, offset: u64, len: usize) -> bool {
        let start = self.tail.len();
        self.tail.resize(start + len, 0);
        let mut filled = 0;
        while filled < len {
            let Some(target) = self.tail.get_mut(start + filled..) else {
                break;
            };
            match file.try_read_at(offset + filled as u64, target) {
                // The file became shorter: zeros are there already.
                Ok(0) => break,
                Ok(count) => filled += count,
                Err(_) => {
                    self.tail.truncate(start);
                    return false;
                }
            }
        }
        self.waiting += len;
        if self.tail.len() >= BATCH_LEN {
            self.seal_tail();
        }
        true
    }

    fn seal_tail(&mut self) {
        if !self.tail.is_empty() {
            let spare = self.spare.pop().unwrap_or_default();
            self.pieces
                .push_back(Piece::Batch(std::mem::replace(&mut self.tail, spare)));
        }
    }

    fn push(&mut self, piece: Piece) {
        self.seal_tail();
        self.waiting += piece.len();
        self.pieces.push_back(piece);
    }

    /// Hands over as much as the connection takes. `scratch` is memory for file ranges to pass through.
    ///
    /// # Errors
    /// The connection is broken, or a file cannot be read.
    pub(crate) fn flush(
        &mut self,
        stream: &dyn ByteStream,
        scratch: &mut [u8],
    ) -> io::Result<Progress> {
        while self.waiting > 0 {
            let file_at = self
                .pieces
                .iter()
                .take(SLICES_MAX - 1)
                .position(|piece| matches!(piece, Piece::File { .. }));
            let by_send_file = self.leaves_by_send_file(file_at);
            if by_send_file && file_at == Some(0) {
                match self.send_file(stream)? {
                    Sent::Some => continue,
                    Sent::Blocked => return Ok(Progress::Blocked),
                    Sent::Nothing => {}
                }
            }
            let filled = match (by_send_file, file_at) {
                (true, Some(at)) if at > 0 => Ok(0),
                _ => self.fill_from_file(file_at, scratch),
            };
            let from_file = match filled {
                Ok(filled) => filled,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock && file_at == Some(0) => {
                    return Ok(Progress::Cold);
                }
                // What precedes the file can still go.
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => 0,
                Err(error) => return Err(error),
            };
            let scratch = scratch.get(..from_file).unwrap_or(&[]);
            match self.write_once(stream, file_at, scratch) {
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

    /// True when the file range at `file_at` is long enough for sendfile(2) and would not wait for the disk.
    fn leaves_by_send_file(&self, file_at: Option<usize>) -> bool {
        let Some((index, Piece::File { file, offset, len })) =
            file_at.and_then(|index| Some((index, self.pieces.get(index)?)))
        else {
            return false;
        };
        let gone = if index == 0 { self.sent.min(*len) } else { 0 };
        let left = len - gone;
        !self.send_file_unsupported
            && left >= SEND_FILE_MIN
            && file.is_resident(offset + gone as u64, left as u64)
    }

    /// One sendfile(2) of the file range in front.
    fn send_file(&mut self, stream: &dyn ByteStream) -> io::Result<Sent> {
        let Some(Piece::File { file, offset, len }) = self.pieces.front() else {
            return Ok(Sent::Nothing);
        };
        let gone = self.sent.min(*len);
        match stream.try_send_file(&**file, offset + gone as u64, len - gone) {
            // The file became shorter, and the promised length is made up elsewhere.
            Ok(0) => Ok(Sent::Nothing),
            Ok(count) => {
                self.advance(count);
                Ok(Sent::Some)
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(Sent::Blocked),
            Err(error) if is_connection_error(error.kind()) => Err(error),
            // Something with the file: reading it will do, or say what is wrong.
            Err(_) => {
                self.send_file_unsupported = true;
                Ok(Sent::Nothing)
            }
        }
    }

    /// One system call: the pieces up to the first file, that file's next bytes (`from_file`) or the tail. Says how
    /// many bytes were taken, and of how many.
    fn write_once(
        &mut self,
        stream: &dyn ByteStream,
        file_at: Option<usize>,
        from_file: &[u8],
    ) -> io::Result<(usize, usize)> {
        let mut slices = [IoSlice::new(&[]); SLICES_MAX];
        let (mut count, mut offered, mut skip) = (0, 0, self.sent);
        let whole_pieces = file_at.unwrap_or(self.pieces.len()).min(SLICES_MAX - 1);
        let pieces = self.pieces.iter().take(whole_pieces).map(Piece::as_slice);
        let last = match file_at {
            Some(_) => Some(from_file),
            None if whole_pieces == self.pieces.len() => Some(self.tail.as_slice()),
            None => None,
        };
        for (bytes, place) in pieces.chain(last).zip(&mut slices) {
            // The bytes of a file begin behind what is gone already.
            let gone = if count == whole_pieces && file_at.is_some() {
                0
            } else {
                skip
            };
            let bytes = bytes.get(gone..).unwrap_or(&[]);
            skip = 0;
            count += 1;
            offered += bytes.len();
            *place = IoSlice::new(bytes);
        }
        let follow = if offered < self.waiting {
            Follow::More
        } else {
            Follow::Nothing
        };
        let taken = stream.try_write(slices.get(..count).unwrap_or(&slices), follow)?;
        self.advance(taken);
        Ok((taken, offered))
    }

    /// The next bytes of the file at `file_at` into `scratch`; 0 when there is none.
    fn fill_from_file(&self, file_at: Option<usize>, scratch: &mut [u8]) -> io::Result<usize> {
        let Some(index) = file_at else { return Ok(0) };
        let Some(Piece::File { file, offset, len }) = self.pieces.get(index) else {
            return Ok(0);
        };
        let gone = if index == 0 { self.sent.min(*len) } else { 0 };
        let wanted = (len - gone).min(FILE_CHUNK_LEN).min(scratch.len());
        let Some(target) = scratch.get_mut(..wanted) else {
            return Ok(0);
        };
        match file.try_read_at(offset + gone as u64, target)? {
            // The file became shorter: the promised length is kept with zeros.
            0 => {
                target.fill(0);
                Ok(wanted)
            }
            count => Ok(count.min(wanted)),
        }
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
            if let Some(Piece::Batch(mut batch)) = self.pieces.pop_front()
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

    /// What [`Progress::Cold`] waits for: the rest of one payload.
    pub(crate) fn cold_range(&self) -> Option<ColdRange> {
        match self.pieces.front() {
            Some(Piece::File { file, offset, len }) => Some(ColdRange {
                file: FileRef::clone(file),
                offset: offset + self.sent as u64,
                len: len - self.sent.min(*len),
            }),
            _ => None,
        }
    }

    /// Puts the first `filled` of `bytes`, read for [`Outgoing::cold_range`], where the file range was. A file that
    /// ends early leaves zeros: the length was promised already.
    pub(crate) fn warm(&mut self, mut bytes: Vec<u8>, filled: usize) {
        if let Some(Piece::File { len, .. }) = self.pieces.front() {
            let left = len - self.sent.min(*len);
            bytes.truncate(filled);
            bytes.resize(left, 0);
            self.sent = 0;
            self.pieces.pop_front();
            self.pieces.push_front(Piece::Bytes(Bytes::from(bytes)));
        }
    }
}
