//! Outgoing bytes of framed messages: the slices for the next write, and the messages that a write completes.

use super::Engine;
use super::batch::{Batch, Piece};
use super::transmit::Transmitter;
use crate::limits::{SLICES_FEW, SLICES_MAX};
use gannet_fabric::{
    AccessError, Completion, Done, MemoryRegion, Signal, SoftwareRegion, WorkError, WorkId,
};
use gannet_runtime::stream::Follow;
use gannet_runtime::{Buffer, FileRef, push_lean};
use gannet_softrdma::TableRegion;
use gannet_wire::ddp::DdpHeader;
use gannet_wire::rdmap::ReadRequest;
use std::cell::Ref;
use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::ops::Deref;
use std::rc::Rc;

/// The zeros behind the end of a file, as many as one slice takes.
static ZEROS: [u8; 16 * 1024] = [0; 16 * 1024];

/// The next bytes for the stream.
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
    /// The shell has taken the request; a second one would read the range twice.
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

    /// The bytes that were read, cut to the `filled` ones of the file, with zeros behind them. The message keeps its
    /// length when the file became shorter: its header has left.
    fn filled_up(&self, mut bytes: Vec<u8>, filled: usize) -> Vec<u8> {
        bytes.truncate(filled);
        bytes.resize(self.len, 0);
        bytes
    }
}

/// A message of which bytes may still have to leave.
pub(super) struct Leaving {
    pub(super) source: LeavingSource,
    pub(super) work: Option<LeavingWork>,
    /// The stream position behind it, once it is framed to its end.
    pub(super) end: Option<u64>,
    /// The Read Request it answers.
    pub(super) answer: Option<Answer>,
}

/// The work that a message belongs to.
pub(super) struct LeavingWork {
    pub(super) id: WorkId,
    /// The outcome of its completion.
    pub(super) done: Done,
    pub(super) signal: Signal,
}

/// The request that a Read Response answers, for the Terminate that quotes it.
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
    /// A region that the peer reads. No byte of it leaves once its key is revoked: its owner writes other data there
    /// (test `a_revoked_region_leaks_nothing_and_the_reader_gets_the_reason`).
    Exposed(Rc<TableRegion>),
    File {
        file: FileRef,
        /// The region by which the peer reads the file, if it does; no byte leaves once its key is revoked.
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

    /// Passes the next bytes for the stream to `body`. Report to [`Engine::sent`] how many the stream took.
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
        // At once after each write: the key may be revoked before the next one.
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
            let signaled = |work: &LeavingWork| work.signal == Signal::Always;
            let Some(work) = leaving.work.filter(signaled) else {
                continue;
            };
            let buffer = match leaving.source {
                LeavingSource::Buffer(buffer) => Some(buffer),
                _ => None,
            };
            push_lean(
                &mut self.completions,
                Completion {
                    id: work.id,
                    outcome: Ok(work.done),
                    buffer,
                },
            );
        }
    }

    /// Drops the FPDUs whose memory was taken away, and those behind them, and ends the connection. The error goes to
    /// the message of that memory, which need not be the youngest.
    pub(crate) fn cut_broken(&mut self) {
        let Some((batch, piece, message)) = self.tx.first_broken() else {
            return;
        };
        self.tx.cut(batch, piece);
        self.fail_message(message, WorkError::Local(AccessError::InvalidKey));
    }

    /// Handles a write that failed because a mapped file became shorter: replaces all that is mapped by bytes read from
    /// the files, with zeros behind their ends. The read may wait for the disk, which only a file that shrinks and
    /// grows again at once can cause.
    pub(crate) fn memory_gone(&mut self) {
        let Some((message, kind)) = self.tx.unmap() else {
            return;
        };
        self.fail_message(message, WorkError::File(kind));
    }

    /// A range to be read on the blocking pool now, once for each range; the result goes to [`Engine::file_fetched`].
    pub(crate) fn fetch_wanted(&mut self) -> Option<FileFetch> {
        self.tx.fetch.as_mut().and_then(Awaited::ask)
    }

    /// Takes the bytes of the range that was wanted and the number of them that the file has; zeros follow these.
    pub(crate) fn file_fetched(&mut self, fetched: io::Result<(Vec<u8>, usize)>) {
        // The connection may have ended while the pool read.
        let Some(awaited) = self.tx.fetch.take() else {
            return;
        };
        match fetched {
            Ok((bytes, filled)) => self.tx.fetched = Some(awaited.filled_up(bytes, filled)),
            Err(error) => self.fail_locally(WorkError::File(error.kind())),
        }
    }
}

impl Transmitter {
    /// The pieces that have not left, in stream order.
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
            // Zeros are shown one slice at a time; the next piece must not follow a part of this one.
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

    /// The framed bytes if they are one run of control bytes, as those of short messages are.
    fn only_control(&self) -> Option<&[u8]> {
        let (Some(batch), None) = (self.batches.front(), self.batches.get(1)) else {
            return None;
        };
        match (batch.pieces.front(), batch.pieces.get(1)) {
            (Some(Piece::Control { start, end }), None) => batch.control.get(*start..*end),
            _ => None,
        }
    }

    /// Copies the rest of the payload when an FPDU of a region that the peer reads has begun to leave. Its CRC is
    /// computed, and the key may be revoked before the stream takes more: other bytes would fail the peer's check.
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

    /// The first payload whose memory was taken away: batch, piece, message.
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

    /// Replaces mapped pieces by bytes read from their files. If a file cannot be read, drops everything from that
    /// piece on and returns the message of the file.
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

    /// Drops a payload and everything behind it. An FPDU that has begun to leave is filled up with zeros, so that the
    /// Terminate behind it starts on an FPDU boundary.
    fn cut(&mut self, batch: usize, piece: usize) {
        if let Some(batch) = self.batches.get_mut(batch) {
            batch.cut(piece);
        }
        self.batches.truncate(batch + 1);
        self.framing_dropped();
    }

    /// The number of the youngest message.
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
    /// Offset and length of its next bytes within its memory.
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
