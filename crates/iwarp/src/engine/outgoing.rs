//! Framed bytes leave: what the stream should be given next, and what becomes of it.

use super::Engine;
use super::batch::{Batch, Piece};
use super::transmit::Transmitter;
use crate::limits::{SLICES_FEW, SLICES_MAX};
use gannet_fabric::{
    AccessError, Completion, Done, MemoryRegion, Signal, SoftwareRegion, WorkError, WorkId,
};
use gannet_runtime::stream::Follow;
use gannet_runtime::{Buffer, FileRef};
use gannet_softrdma::TableRegion;
use gannet_wire::ddp::DdpHeader;
use gannet_wire::rdmap::ReadRequest;
use std::cell::Ref;
use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::ops::Deref;
use std::rc::Rc;

/// What stands behind the end of a file, as far as one slice goes.
static ZEROS: [u8; 16 * 1024] = [0; 16 * 1024];

/// What the stream should be given next.
pub(crate) enum Outgoing<'a> {
    /// Nothing is framed, or it waits for file bytes.
    Nothing,
    /// These bytes, with one call.
    Bytes(&'a [IoSlice<'a>], Follow),
    /// The memory of a message was taken away while it was leaving: call [`Engine::cut_broken`].
    Broken,
}

/// A range of a file to be read on the blocking pool.
pub(crate) struct FileFetch {
    pub(crate) file: FileRef,
    pub(crate) offset: u64,
    pub(crate) len: usize,
}

/// File bytes without which something cannot go on.
pub(super) struct Awaited {
    file: FileRef,
    offset: u64,
    len: usize,
    /// The shell has been asked for them.
    is_asked: bool,
}

impl Awaited {
    pub(super) fn new(file: FileRef, offset: u64, len: usize) -> Awaited {
        Awaited {
            file,
            offset,
            len,
            is_asked: false,
        }
    }

    fn ask(&mut self) -> Option<FileFetch> {
        if std::mem::replace(&mut self.is_asked, true) {
            return None;
        }
        Some(FileFetch {
            file: FileRef::clone(&self.file),
            offset: self.offset,
            len: self.len,
        })
    }

    /// What was read, of which the given number of bytes are of the file, with zeros behind.
    fn filled_up(&self, (mut bytes, filled): (Vec<u8>, usize)) -> Vec<u8> {
        bytes.truncate(filled);
        bytes.resize(self.len, 0);
        bytes
    }
}

/// A message of which bytes may still have to leave.
pub(super) struct Leaving {
    pub(super) source: LeavingSource,
    pub(super) work: Option<(WorkId, Done, Signal)>,
    /// The stream position behind it, once it is framed to its end.
    pub(super) end: Option<u64>,
    /// The Read Request it answers.
    pub(super) answer: Option<Answer>,
}

/// What a Read Response answers.
#[derive(Clone, Copy)]
pub(super) struct Answer {
    pub(super) header: DdpHeader,
    pub(super) request: ReadRequest,
}

pub(super) enum LeavingSource {
    Nothing,
    Buffer(Buffer),
    /// A region that our own work sends.
    Region(Rc<TableRegion>),
    /// A region that the peer reads: not a byte more once its key is revoked.
    Exposed(Rc<TableRegion>),
    File {
        file: FileRef,
        /// The region by which the peer reads it; as above.
        exposed: Option<Rc<TableRegion>>,
    },
}

enum Memory<'a> {
    Slice(&'a [u8]),
    Guard(Ref<'a, [u8]>),
}

impl Deref for Memory<'_> {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        match self {
            Memory::Slice(bytes) => bytes,
            Memory::Guard(bytes) => bytes,
        }
    }
}

/// `len` bytes at `offset`, if they are all there.
fn part(bytes: &[u8], offset: usize, len: usize) -> Option<Memory<'_>> {
    bytes
        .get(offset..offset.checked_add(len)?)
        .map(Memory::Slice)
}

impl LeavingSource {
    /// `len` bytes at `offset`; `None` when they are not there any more.
    fn memory(&self, offset: usize, len: usize) -> Option<Memory<'_>> {
        let region = match self {
            LeavingSource::Buffer(buffer) => return part(buffer, offset, len),
            LeavingSource::Region(region) => region,
            LeavingSource::Exposed(region) if region.is_valid() => region,
            LeavingSource::Exposed(_) | LeavingSource::File { .. } | LeavingSource::Nothing => {
                return None;
            }
        };
        region.bytes(offset as u64, len).map(Memory::Guard)
    }

    /// The file, unless its key was revoked.
    pub(super) fn file(&self) -> Option<&FileRef> {
        match self {
            LeavingSource::File {
                exposed: Some(region),
                ..
            } if !region.is_valid() => None,
            LeavingSource::File { file, .. } => Some(file),
            _ => None,
        }
    }

    /// Runs `body` on `len` bytes at `offset`; `None` when they are not there any more.
    pub(super) fn with_memory<T>(
        &self,
        offset: usize,
        len: usize,
        body: impl FnOnce(&[u8]) -> T,
    ) -> Option<T> {
        self.memory(offset, len).map(|bytes| body(&bytes))
    }
}

impl Engine {
    /// True when framed bytes can be given to the stream.
    pub(crate) fn has_outgoing(&self) -> bool {
        self.has_unsent()
    }

    /// True while framed bytes have not left, whether or not they wait for a file.
    pub(crate) fn has_unsent(&self) -> bool {
        self.tx.batches.iter().any(|batch| batch.len > 0)
    }

    /// Shows `body` what the stream should be given next. Tell [`Engine::sent`] how much it took.
    pub(crate) fn outgoing<T>(&self, body: impl FnOnce(Outgoing<'_>) -> T) -> T {
        let tx = &self.tx;
        if let Some(bytes) = tx.only_control() {
            return body(Outgoing::Bytes(&[IoSlice::new(bytes)], Follow::Nothing));
        }
        if tx.pieces().nth(SLICES_FEW).is_none() {
            tx.gather::<SLICES_FEW, T>(body)
        } else {
            tx.gather::<SLICES_MAX, T>(body)
        }
    }

    /// The stream took `count` of the bytes shown; completes the messages that have left.
    pub(crate) fn sent(&mut self, count: usize) {
        let tx = &mut self.tx;
        tx.sent += count as u64;
        let mut count = count;
        while let Some(batch) = tx.batches.front_mut() {
            let taken = count.min(batch.len);
            batch.take(taken);
            count -= taken;
            if batch.len > 0 {
                break;
            }
            if let Some(batch) = tx.batches.pop_front() {
                tx.pool.give_back(batch);
            }
        }
        if self.agreement.crc {
            tx.keep_begun();
        }
        let sent = tx.sent;
        let has_left = |leaving: &Leaving| leaving.end.is_some_and(|end| end <= sent);
        while tx.leaving.front().is_some_and(has_left) {
            let Some(leaving) = tx.leaving.pop_front() else {
                break;
            };
            tx.leaving_base += 1;
            let Some((id, done, Signal::Always)) = leaving.work else {
                continue;
            };
            let buffer = match leaving.source {
                LeavingSource::Buffer(buffer) => Some(buffer),
                _ => None,
            };
            self.completions.push_back(Completion {
                id,
                outcome: Ok(done),
                buffer,
            });
        }
    }

    /// Drops the FPDUs whose memory is not there any more and ends the connection.
    pub(crate) fn cut_broken(&mut self) {
        let Some((batch, piece, message)) = self.tx.first_broken() else {
            return;
        };
        self.tx.cut(batch, piece);
        self.fail_message(message, WorkError::Local(AccessError::InvalidKey));
    }

    /// The stream found bytes of a file gone: reads what is there instead of all that is mapped, with zeros behind its
    /// end. Waits for the disk if it must: whoever cuts a file short and lets it grow again at once is rare.
    pub(crate) fn memory_gone(&mut self) {
        let Some((message, kind)) = self.tx.unmap() else {
            return;
        };
        self.fail_message(message, WorkError::File(kind));
    }

    /// A range to be read on the blocking pool now; the answer goes to [`Engine::file_fetched`].
    pub(crate) fn fetch_wanted(&mut self) -> Option<FileFetch> {
        self.tx.fetch.as_mut().and_then(Awaited::ask)
    }

    /// The bytes of a range that was wanted, of which the given number are of the file; what follows are zeros.
    pub(crate) fn file_fetched(&mut self, fetched: io::Result<(Vec<u8>, usize)>) {
        // The connection may have ended meanwhile.
        let Some(awaited) = self.tx.fetch.take() else {
            return;
        };
        match fetched {
            Ok(fetched) => self.tx.fetched = Some(awaited.filled_up(fetched)),
            Err(error) => self.fail_locally(WorkError::File(error.kind())),
        }
    }
}

impl Transmitter {
    /// What has not left, in stream order.
    fn pieces(&self) -> impl Iterator<Item = (&Batch, &Piece)> {
        let batches = self.batches.iter();
        batches.flat_map(|batch| batch.pieces.iter().map(move |piece| (batch, piece)))
    }

    /// Shows `body` the first `N` pieces.
    fn gather<const N: usize, T>(&self, body: impl FnOnce(Outgoing<'_>) -> T) -> T {
        let mut memories = [const { Memory::Slice(&[]) }; N];
        let mut count = 0;
        let mut follow = Follow::Nothing;
        for ((batch, piece), slot) in self.pieces().zip(&mut memories) {
            let Some(memory) = self.memory_of(batch, piece) else {
                return body(Outgoing::Broken);
            };
            if matches!(piece, Piece::Mapped { .. }) {
                follow = Follow::Rest;
            }
            let is_whole = memory.len() == piece.len();
            *slot = memory;
            count += 1;
            if !is_whole {
                break;
            }
        }
        let mut slices = [IoSlice::new(&[]); N];
        for (slot, memory) in slices.iter_mut().zip(&memories) {
            *slot = IoSlice::new(memory);
        }
        match slices.get(..count) {
            Some(slices) if count > 0 => body(Outgoing::Bytes(slices, follow)),
            _ => body(Outgoing::Nothing),
        }
    }

    /// What is framed, when it is one run of control bytes: short messages are.
    fn only_control(&self) -> Option<&[u8]> {
        let (Some(batch), None) = (self.batches.front(), self.batches.get(1)) else {
            return None;
        };
        match (batch.pieces.front(), batch.pieces.get(1)) {
            (Some(Piece::Control { start, end }), None) => batch.control.get(*start..*end),
            _ => None,
        }
    }

    /// An FPDU of a region that the peer reads has begun to leave: keeps the rest of its payload,
    /// because its CRC is on the way, and the key may be revoked before the stream takes more.
    fn keep_begun(&mut self) {
        let (base, leaving) = (self.leaving_base, &self.leaving);
        let Some(piece) = self.batches.front_mut().and_then(Batch::begun_payload) else {
            return;
        };
        let Piece::Memory {
            message,
            offset,
            len,
            ..
        } = *piece
        else {
            return;
        };
        let Some(leaving) = entry(leaving, base, message) else {
            return;
        };
        if !matches!(leaving.source, LeavingSource::Exposed(_)) {
            return;
        }
        let mut bytes = self.pool.chunks.take(0);
        if leaving
            .source
            .with_memory(offset, len, |memory| bytes[..len].copy_from_slice(memory))
            .is_some()
        {
            *piece = Piece::Kept {
                bytes,
                start: 0,
                end: len,
            };
        }
    }

    /// The first payload that is not there any more: batch, piece, message.
    fn first_broken(&self) -> Option<(usize, usize, u64)> {
        self.batches.iter().enumerate().find_map(|(at, batch)| {
            batch
                .pieces
                .iter()
                .enumerate()
                .find_map(|(index, piece)| match piece {
                    Piece::Memory {
                        message,
                        offset,
                        len,
                        ..
                    } => {
                        let source = self.source(*message);
                        let is_there =
                            source.and_then(|source| source.with_memory(*offset, *len, |_| ()));
                        is_there.is_none().then_some((at, index, *message))
                    }
                    Piece::Mapped { message, .. } => {
                        let file = self.source(*message).and_then(LeavingSource::file);
                        file.is_none().then_some((at, index, *message))
                    }
                    _ => None,
                })
        })
    }

    /// Replaces what is mapped by what can be read; the message whose file cannot, from which on all is dropped.
    fn unmap(&mut self) -> Option<(u64, io::ErrorKind)> {
        let mut failed = None;
        let (base, leaving) = (self.leaving_base, &self.leaving);
        'all: for (at, batch) in self.batches.iter_mut().enumerate() {
            for (index, piece) in batch.pieces.iter_mut().enumerate() {
                let &mut Piece::Mapped {
                    message,
                    offset,
                    len,
                    ..
                } = piece
                else {
                    continue;
                };
                let source = entry(leaving, base, message).map(|leaving| &leaving.source);
                let Some(file) = source.and_then(LeavingSource::file) else {
                    continue;
                };
                let mut bytes = self.pool.chunks.take(0);
                match read_now(file, offset, bytes.get_mut(..len).unwrap_or_default()) {
                    Ok(()) => {
                        *piece = Piece::Kept {
                            bytes,
                            start: 0,
                            end: len,
                        }
                    }
                    Err(error) => {
                        failed = Some((at, index, message, error.kind()));
                        break 'all;
                    }
                }
            }
        }
        let (batch, piece, message, kind) = failed?;
        self.cut(batch, piece);
        Some((message, kind))
    }

    /// Drops everything from a payload on.
    fn cut(&mut self, batch: usize, piece: usize) {
        if let Some(batch) = self.batches.get_mut(batch) {
            batch.cut(piece);
        }
        self.batches.truncate(batch + 1);
        self.framing_dropped();
    }

    /// The youngest message.
    pub(super) fn youngest(&self) -> u64 {
        self.leaving_base + (self.leaving.len() as u64).saturating_sub(1)
    }

    pub(super) fn message_mut(&mut self, message: u64) -> Option<&mut Leaving> {
        let index = usize::try_from(message.checked_sub(self.leaving_base)?).ok()?;
        self.leaving.get_mut(index)
    }

    fn source(&self, message: u64) -> Option<&LeavingSource> {
        entry(&self.leaving, self.leaving_base, message).map(|leaving| &leaving.source)
    }

    fn memory_of<'a>(&'a self, batch: &'a Batch, piece: &'a Piece) -> Option<Memory<'a>> {
        let (offset, len) = piece.range();
        match piece {
            Piece::Control { .. } => part(&batch.control, offset, len),
            Piece::Mapped {
                message,
                window,
                offset,
                len,
                ..
            } => {
                self.source(*message)?.file()?;
                window.range(*offset, *len).map(Memory::Slice)
            }
            Piece::Data { start, .. } => batch.data(*start, len).map(Memory::Slice),
            Piece::Kept { bytes, .. } => part(bytes, offset, len),
            Piece::Zeros { .. } => part(&ZEROS, offset, len),
            Piece::Memory { message, .. } => self.source(*message)?.memory(offset, len),
        }
    }
}

/// Fills `target` from `offset` of a file on, and with zeros behind its end.
fn read_now(file: &FileRef, offset: u64, target: &mut [u8]) -> io::Result<()> {
    let mut filled = 0;
    while let Some(rest) = target.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        match file.read_at(offset + filled as u64, rest)? {
            0 => {
                rest.fill(0);
                break;
            }
            count => filled += count,
        }
    }
    Ok(())
}

fn entry(leaving: &VecDeque<Leaving>, base: u64, message: u64) -> Option<&Leaving> {
    leaving.get(usize::try_from(message.checked_sub(base)?).ok()?)
}

impl Piece {
    /// Which bytes of its memory to give now.
    fn range(&self) -> (usize, usize) {
        match self {
            Piece::Control { start, .. }
            | Piece::Data { start, .. }
            | Piece::Kept { start, .. } => (*start, self.len()),
            Piece::Memory { offset, len, .. } => (*offset, *len),
            Piece::Mapped { len, .. } => (0, *len),
            Piece::Zeros { len } => (0, (*len).min(ZEROS.len())),
        }
    }
}
