//! Outgoing messages: chosen, cut into FPDUs, and placed in batches (RFC 5041 section 4, RFC 5044
//! section 5).
//!
//! Messages never interleave. Answers to the peer's Reads and our own work take turns, message by
//! message. The CRC of memory is computed when the FPDU is framed: whoever changes a region that
//! the peer is just reading breaks the connection, as with an RNIC.

use super::batch::{Batch, ChunkPool, Piece};
use super::frame::{crc_of, frame_head, frame_of, pad_of};
use super::outgoing::{Answer, Awaited, Leaving, LeavingSource};
use super::{Engine, FIRST_MSNS, Operation, OutstandingRead, Phase, Work, invalidate_stag};
use crate::crc;
use crate::limits::{
    BATCH_LEN, BATCHES_MAX, FILE_PAGE_LEN, INLINE_PAYLOAD_MAX, RESIDENCY_STEP, SEND_FILE_MAX,
    SEND_FILE_MIN, SLICES_MAX,
};
use crate::startup::{Agreement, Role};
use gannet_fabric::{
    AccessError, Done, MemoryRegion, SendOptions, Signal, Source, WorkError, WorkId,
};
use gannet_runtime::{Buffer, FileRef};
use gannet_softrdma::TableRegion;
use gannet_wire::ddp::{
    DdpHeader, MessageOffset, Msn, QueueNumber, STag, Tagged, TaggedOffset, Untagged,
};
use gannet_wire::mpa::{CRC_LEN, Markers, fpdu_len};
use gannet_wire::rdmap::{Opcode, READ_REQUEST_LEN, ReadRequest, TERMINATE_LEN_MAX, Terminate};
use std::collections::VecDeque;
use std::io;

/// What peers put into zero-length tagged messages: some hardware refuses STag 0 even there.
const STAG_OF_NOTHING: STag = STag(1);

/// The outgoing half of a connection.
pub(super) struct Transmitter {
    /// False while a responder waits for the initiator's first FPDU.
    enabled: bool,
    ulpdu_max: usize,
    /// The number of the next message on each untagged queue.
    msns: [Msn; 3],
    /// Posted work not begun, oldest first.
    pub(super) queue: VecDeque<Work>,
    /// The message being cut into FPDUs; its source is the youngest of `leaving`.
    framing: Option<Framing>,
    /// Messages of which bytes may still have to leave, oldest first.
    pub(super) leaving: VecDeque<Leaving>,
    /// The number of the oldest of `leaving`.
    pub(super) leaving_base: u64,
    pub(super) batches: VecDeque<Batch>,
    pub(super) chunks: ChunkPool,
    /// Bytes framed so far, which is the stream position of the next FPDU.
    position: u64,
    /// Bytes the stream took so far.
    pub(super) sent: u64,
    last_was_response: bool,
    /// File bytes wanted before anything else can be framed.
    pub(super) fetch: Option<Awaited>,
    /// Bytes wanted in place of the file range at the front of the first batch.
    pub(super) front_fetch: Option<Awaited>,
    /// They have come: exactly the next segment's payload.
    pub(super) fetched: Option<Vec<u8>>,
    /// Up to where the file being framed was found in the page cache.
    resident_until: u64,
    /// The stream cannot send files by itself.
    pub(super) send_file_unsupported: bool,
}

/// A message on its way into FPDUs.
#[derive(Debug, Clone, Copy)]
struct Framing {
    header: DdpHeader,
    size: usize,
    framed: usize,
    /// Where its bytes start in its buffer, region or file.
    source_start: u64,
}

/// Where the payload of one segment is.
enum Payload {
    None,
    /// In the memory of the message, from this offset.
    Memory(usize),
    /// In its file, from this offset; leaves by sendfile.
    File(u64),
    /// Read from its file.
    Chunk(Vec<u8>),
}

impl Transmitter {
    pub(super) fn new(role: Role, ulpdu_max: usize, chunks: ChunkPool) -> Transmitter {
        Transmitter {
            enabled: role == Role::Initiator,
            ulpdu_max,
            msns: FIRST_MSNS,
            queue: VecDeque::new(),
            framing: None,
            leaving: VecDeque::new(),
            leaving_base: 0,
            batches: VecDeque::new(),
            chunks,
            position: 0,
            sent: 0,
            last_was_response: false,
            fetch: None,
            front_fetch: None,
            fetched: None,
            resident_until: 0,
            send_file_unsupported: false,
        }
    }

    /// The initiator's first FPDU has come: sending may begin.
    pub(super) fn enable(&mut self) {
        self.enabled = true;
    }

    /// Nothing is posted, and all bytes have left.
    pub(super) fn is_idle(&self) -> bool {
        self.queue.is_empty() && self.framing.is_none() && self.batches.is_empty()
    }

    /// Read Responses of which bytes may still have to leave.
    pub(super) fn responses_leaving(&self) -> usize {
        self.leaving
            .iter()
            .filter(|leaving| leaving.answer.is_some())
            .count()
    }

    /// Ends all messages where they are; returns the work they belong to, and its memory unless
    /// bytes of it may still leave.
    pub(super) fn abandon_leaving(&mut self) -> Vec<(WorkId, Done, Option<Buffer>)> {
        self.framing = None;
        self.fetch = None;
        let position = self.position;
        let has_bytes_left = !self.batches.is_empty();
        let mut abandoned = Vec::new();
        for leaving in &mut self.leaving {
            leaving.end = Some(leaving.end.map_or(position, |end| end.min(position)));
            let Some((id, done, _)) = leaving.work.take() else {
                continue;
            };
            let buffer = match &mut leaving.source {
                LeavingSource::Buffer(buffer) if !has_bytes_left => {
                    Some(std::mem::replace(buffer, Buffer::zeroed(0)))
                }
                _ => None,
            };
            abandoned.push((id, done, buffer));
        }
        abandoned
    }

    /// Forgets bytes that have not left.
    pub(super) fn drop_unsent(&mut self) {
        self.batches.clear();
        self.front_fetch = None;
        self.framing_dropped();
    }

    /// Framed bytes were dropped: nothing more is framed, and the position is that of what is left.
    pub(super) fn framing_dropped(&mut self) {
        self.framing = None;
        self.position = self.sent
            + self
                .batches
                .iter()
                .map(|batch| batch.len as u64)
                .sum::<u64>();
    }

    /// Frames a Terminate behind what is framed already.
    pub(super) fn queue_terminate(&mut self, terminate: &Terminate, agreement: &Agreement) {
        let mut payload = [0; TERMINATE_LEN_MAX];
        let len = terminate.emit(&mut payload);
        let payload = payload.get(..len).unwrap_or_default();
        self.push_control_message(Opcode::Terminate, 0, payload, agreement);
    }

    fn has_room(&self) -> bool {
        self.batches.len() < BATCHES_MAX || self.batches.back().is_some_and(|b| self.fits(b))
    }

    fn fits(&self, batch: &Batch) -> bool {
        batch.len + fpdu_len(self.ulpdu_max) <= BATCH_LEN && batch.pieces.len() + 3 <= SLICES_MAX
    }

    /// The batch the next FPDU goes to.
    fn batch(&mut self) -> &mut Batch {
        if self.batches.back().is_none_or(|batch| !self.fits(batch)) {
            self.batches.push_back(Batch::default());
        }
        let last = self.batches.len() - 1;
        &mut self.batches[last]
    }

    fn take_msn(&mut self, queue: QueueNumber) -> Msn {
        let next = usize::try_from(queue.0)
            .ok()
            .and_then(|index| self.msns.get_mut(index));
        next.map_or(Msn::FIRST, |next| std::mem::replace(next, next.next()))
    }

    fn untagged(&mut self, opcode: Opcode, ulp_word: u32) -> DdpHeader {
        let queue = opcode.queue().unwrap_or(QueueNumber::SEND);
        DdpHeader::Untagged(Untagged {
            last: true,
            ulp_control: opcode.control(),
            ulp_word,
            queue,
            msn: self.take_msn(queue),
            offset: MessageOffset(0),
        })
    }

    /// Frames a message of one short segment that has no source of its own.
    fn push_control_message(
        &mut self,
        opcode: Opcode,
        ulp_word: u32,
        payload: &[u8],
        agreement: &Agreement,
    ) {
        let header = self.untagged(opcode, ulp_word);
        self.push_short_frame(&header, payload, agreement);
    }

    /// Frames a segment whose payload is copied.
    fn push_short_frame(&mut self, header: &DdpHeader, payload: &[u8], agreement: &Agreement) {
        if agreement.markers {
            return self.push_marked_frame(header, payload, agreement);
        }
        let batch = self.batch();
        let start = batch.control.len();
        batch.push_control(frame_head(header, payload.len()).bytes());
        batch.push_control(payload);
        batch.push_control(pad_of(header, payload.len()));
        let crc = match batch.control.get(start..) {
            Some(covered) if agreement.crc => crc::field_of(covered),
            _ => [0; CRC_LEN],
        };
        batch.push_control(&crc);
        self.position += fpdu_len(header.encoded_len() + payload.len()) as u64;
    }

    /// Frames a segment with markers in it. Only old hardware wants them: everything is copied.
    fn push_marked_frame(&mut self, header: &DdpHeader, payload: &[u8], agreement: &Agreement) {
        let mut plain = frame_head(header, payload.len()).bytes().to_vec();
        plain.extend_from_slice(payload);
        plain.extend_from_slice(pad_of(header, payload.len()));
        let ulpdu_len = header.encoded_len() + payload.len();
        let mut bytes = Vec::with_capacity(Markers::stream_len(self.position, ulpdu_len));
        let mut copied = 0;
        for marker in Markers::new(self.position, ulpdu_len) {
            bytes.extend_from_slice(plain.get(copied..marker.after).unwrap_or_default());
            bytes.extend_from_slice(&marker.bytes());
            copied = marker.after;
        }
        bytes.extend_from_slice(plain.get(copied..).unwrap_or_default());
        let crc = if agreement.crc {
            crc::field_of(&bytes)
        } else {
            [0; CRC_LEN]
        };
        bytes.extend_from_slice(&crc);
        self.position += bytes.len() as u64;
        self.batch().push(Piece::Chunk { bytes, start: 0 });
    }

    /// Frames a segment around a payload that stays where it is.
    fn push_frame(&mut self, header: &DdpHeader, piece: Piece, len: usize, crc: [u8; CRC_LEN]) {
        let head = frame_head(header, len);
        let batch = self.batch();
        batch.push_control(head.bytes());
        batch.push(piece);
        batch.push_control(pad_of(header, len));
        batch.push_control(&crc);
        self.position += fpdu_len(header.encoded_len() + len) as u64;
    }
}

impl Engine {
    /// Frames as much as the batches take. Call it before [`Engine::outgoing`] and after every
    /// command or event.
    pub(crate) fn prepare(&mut self) {
        while self.phase != Phase::Ended
            && self.tx.enabled
            && self.tx.fetch.is_none()
            && self.tx.has_room()
        {
            let framed = if self.tx.framing.is_some() {
                self.frame_segment()
            } else {
                match self.begin_message() {
                    Ok(true) => continue,
                    Ok(false) => return,
                    Err(error) => Err(error),
                }
            };
            if let Err(error) = framed {
                self.fail_locally(error);
            }
        }
    }

    /// Picks the next message: answers and own work in turn. False when there is none that may
    /// begin.
    fn begin_message(&mut self) -> Result<bool, WorkError> {
        let has_work = match self.tx.queue.front() {
            Some(Work {
                operation: Operation::Read { .. },
                ..
            }) => self.reads.len() < usize::from(self.agreement.ord),
            Some(_) => true,
            None => false,
        };
        let has_response = !self.rx.requests.is_empty();
        if has_response && (!has_work || !self.tx.last_was_response) {
            self.begin_response();
            return Ok(true);
        }
        if has_work && let Some(work) = self.tx.queue.pop_front() {
            self.tx.last_was_response = false;
            self.begin_work(work)?;
            return Ok(true);
        }
        Ok(false)
    }

    fn begin_response(&mut self) {
        let Some(read) = self.rx.requests.pop_front() else {
            return;
        };
        self.tx.last_was_response = true;
        let header = tagged(
            Opcode::ReadResponse,
            read.request.sink_stag,
            read.request.sink_offset,
        );
        let (source, start) = match read.source {
            None => (LeavingSource::Nothing, 0),
            Some((region, offset)) => match region.file() {
                Some((file, start)) => (
                    LeavingSource::File {
                        file,
                        exposed: Some(region),
                    },
                    start + offset,
                ),
                None => (LeavingSource::Exposed(region), offset),
            },
        };
        let answer = Answer {
            header: read.header,
            request: read.request,
        };
        let leaving = Leaving {
            source,
            work: None,
            end: None,
            answer: Some(answer),
        };
        self.begin_framing(header, read.request.size, start, leaving);
    }

    fn begin_work(&mut self, work: Work) -> Result<(), WorkError> {
        let Work { id, operation } = work;
        match operation {
            Operation::Send { source, options } => {
                let stag = invalidate_stag(&options).map_or(0, |stag| stag.0);
                let header = self.tx.untagged(send_opcode(&options), stag);
                self.begin_source(header, source, (id, Done::Sent, options.signal))
            }
            Operation::Write {
                source,
                target,
                signal,
            } => {
                let offset = TaggedOffset(target.offset);
                let header = tagged(Opcode::Write, STag(target.key.0), offset);
                self.begin_source(header, source, (id, Done::Written, signal))
            }
            Operation::Read { sink, source } => {
                let request = ReadRequest {
                    sink_stag: STag(sink.region.remote_key().0),
                    sink_offset: TaggedOffset(sink.region.base()).advanced_by(sink.offset),
                    size: sink.len,
                    source_stag: STag(source.key.0),
                    source_offset: TaggedOffset(source.offset),
                };
                self.send_read_request(&request, Some((id, sink)));
                Ok(())
            }
            Operation::Ping => {
                let header = tagged(Opcode::Write, STAG_OF_NOTHING, TaggedOffset(0));
                self.tx.push_short_frame(&header, &[], &self.agreement);
                Ok(())
            }
            Operation::OpeningRead => {
                let nothing = TaggedOffset(0);
                let request = ReadRequest {
                    sink_stag: STAG_OF_NOTHING,
                    sink_offset: nothing,
                    size: 0,
                    source_stag: STAG_OF_NOTHING,
                    source_offset: nothing,
                };
                self.send_read_request(&request, None);
                Ok(())
            }
        }
    }

    fn send_read_request(
        &mut self,
        request: &ReadRequest,
        work: Option<(WorkId, gannet_fabric::Span)>,
    ) {
        self.reads.push_back(OutstandingRead {
            work,
            stag: request.sink_stag,
            offset: request.sink_offset,
            size: request.size,
            received: 0,
        });
        let mut payload = [0; READ_REQUEST_LEN];
        request.emit(&mut payload);
        self.tx
            .push_control_message(Opcode::ReadRequest, 0, &payload, &self.agreement);
    }

    fn begin_source(
        &mut self,
        header: DdpHeader,
        source: Source,
        work: (WorkId, Done, Signal),
    ) -> Result<(), WorkError> {
        let size = source.len();
        let (source, start) = match source {
            Source::Buffer { buffer, .. } => (LeavingSource::Buffer(buffer), 0),
            Source::File { file, offset, .. } => (
                LeavingSource::File {
                    file,
                    exposed: None,
                },
                offset,
            ),
            Source::Span(span) => match TableRegion::shared(span.region) {
                Some(region) => match region.file() {
                    Some((file, start)) => (
                        LeavingSource::File {
                            file,
                            exposed: None,
                        },
                        start + span.offset,
                    ),
                    None => (LeavingSource::Region(region), span.offset),
                },
                // Posting has refused it.
                None => (LeavingSource::Nothing, 0),
            },
        };
        let is_taken = matches!(&source, LeavingSource::Region(region) if !region.is_valid());
        let leaving = Leaving {
            source,
            work: Some(work),
            end: None,
            answer: None,
        };
        self.begin_framing(header, size, start, leaving);
        if is_taken {
            Err(WorkError::Local(AccessError::InvalidKey))
        } else {
            Ok(())
        }
    }

    fn begin_framing(&mut self, header: DdpHeader, size: u32, source_start: u64, leaving: Leaving) {
        self.tx.leaving.push_back(leaving);
        self.tx.resident_until = 0;
        let size = usize::try_from(size).unwrap_or(usize::MAX);
        self.tx.framing = Some(Framing {
            header,
            size,
            framed: 0,
            source_start,
        });
    }

    /// Frames the next segment of the current message, or asks for the file bytes it needs.
    fn frame_segment(&mut self) -> Result<(), WorkError> {
        let Some(mut framing) = self.tx.framing else {
            return Ok(());
        };
        let len = self.segment_len(&framing);
        let last = framing.framed + len == framing.size;
        let header = segment_header(&framing, last);
        let Some(payload) = self.payload(&framing, len)? else {
            return Ok(());
        };
        self.push_segment(&header, payload, len)?;
        framing.framed += len;
        self.tx.framing = if last { None } else { Some(framing) };
        if last && let Some(leaving) = self.tx.leaving.back_mut() {
            leaving.end = Some(self.tx.position);
        }
        Ok(())
    }

    /// Bytes of the next segment: as many as fit, or up to a page's end when they leave by sendfile.
    fn segment_len(&self, framing: &Framing) -> usize {
        if let Some(fetched) = &self.tx.fetched {
            return fetched.len();
        }
        let payload_max = self.tx.ulpdu_max - framing.header.encoded_len();
        let len = payload_max.min(framing.size - framing.framed);
        let file = self
            .tx
            .leaving
            .back()
            .and_then(|leaving| leaving.source.file());
        if file.is_none_or(|file| !self.may_send_file(file, len)) {
            return len;
        }
        let offset = framing.source_start.saturating_add(framing.framed as u64);
        let aligned = SEND_FILE_MAX - offset % FILE_PAGE_LEN;
        len.min(usize::try_from(aligned).unwrap_or(len))
    }

    fn push_segment(
        &mut self,
        header: &DdpHeader,
        payload: Payload,
        len: usize,
    ) -> Result<(), WorkError> {
        let tx = &mut self.tx;
        let message = tx.youngest();
        let frame = frame_of(header, len);
        let agreement = self.agreement;
        let is_short = len <= INLINE_PAYLOAD_MAX || agreement.markers;
        match payload {
            Payload::None => tx.push_short_frame(header, &[], &agreement),
            Payload::File(offset) => {
                tx.push_frame(
                    header,
                    Piece::File {
                        message,
                        offset,
                        len,
                        frame,
                    },
                    len,
                    [0; CRC_LEN],
                );
            }
            Payload::Chunk(bytes) if is_short => {
                tx.push_short_frame(header, &bytes, &agreement);
                tx.chunks.give_back(bytes);
            }
            Payload::Chunk(bytes) => {
                let crc = crc_of(header, &bytes, &agreement);
                tx.push_frame(header, Piece::Chunk { bytes, start: 0 }, len, crc);
            }
            Payload::Memory(offset) if is_short => return self.push_copied(header, offset, len),
            Payload::Memory(offset) => {
                let source = tx.leaving.back().map(|leaving| &leaving.source);
                let crc = source
                    .and_then(|source| {
                        source.with_memory(offset, len, |bytes| crc_of(header, bytes, &agreement))
                    })
                    .ok_or(WorkError::Local(AccessError::InvalidKey))?;
                tx.push_frame(
                    header,
                    Piece::Memory {
                        message,
                        offset,
                        len,
                        frame,
                    },
                    len,
                    crc,
                );
            }
        }
        Ok(())
    }

    /// Frames a segment of memory that is copied: a short one on the stack, a long one for markers.
    fn push_copied(
        &mut self,
        header: &DdpHeader,
        offset: usize,
        len: usize,
    ) -> Result<(), WorkError> {
        let mut short = [0; INLINE_PAYLOAD_MAX];
        let mut long = Vec::new();
        let target = if let Some(target) = short.get_mut(..len) {
            target
        } else {
            long.resize(len, 0);
            &mut long[..]
        };
        let source = self.tx.leaving.back().map(|leaving| &leaving.source);
        source
            .and_then(|source| source.with_memory(offset, len, |from| target.copy_from_slice(from)))
            .ok_or(WorkError::Local(AccessError::InvalidKey))?;
        self.tx.push_short_frame(header, target, &self.agreement);
        Ok(())
    }

    /// Finds the payload of the next segment; `None` when it must be fetched from a file first.
    fn payload(&mut self, framing: &Framing, len: usize) -> Result<Option<Payload>, WorkError> {
        if len == 0 {
            return Ok(Some(Payload::None));
        }
        let offset = framing.source_start.saturating_add(framing.framed as u64);
        let file = match self.tx.leaving.back().map(|leaving| &leaving.source) {
            Some(source @ LeavingSource::File { .. }) => match source.file() {
                Some(file) => FileRef::clone(file),
                None => return Err(WorkError::Local(AccessError::InvalidKey)),
            },
            _ => {
                let offset =
                    usize::try_from(offset).map_err(|_| WorkError::Local(AccessError::Bounds))?;
                return Ok(Some(Payload::Memory(offset)));
            }
        };
        if let Some(bytes) = self.tx.fetched.take() {
            return Ok(Some(Payload::Chunk(bytes)));
        }
        let remaining = (framing.size - framing.framed) as u64;
        if self.may_send_file(&file, len) {
            if self.tx.is_resident(&file, offset, len as u64, remaining) {
                return Ok(Some(Payload::File(offset)));
            }
        } else if let Some(bytes) = self.tx.read_cached(&file, offset, len)? {
            return Ok(Some(Payload::Chunk(bytes)));
        }
        self.tx.fetch = Some(Awaited::new(file, offset, len));
        Ok(None)
    }

    fn may_send_file(&self, file: &FileRef, len: usize) -> bool {
        len >= SEND_FILE_MIN
            && !self.agreement.crc
            && !self.agreement.markers
            && !self.tx.send_file_unsupported
            && file.descriptor().is_some()
    }
}

impl Transmitter {
    /// True when sendfile will not wait for the disk. Asks for more than one segment at a time.
    fn is_resident(&mut self, file: &FileRef, offset: u64, len: u64, remaining: u64) -> bool {
        if offset + len <= self.resident_until {
            return true;
        }
        let step = remaining.min(RESIDENCY_STEP).max(len);
        if file.is_resident(offset, step) {
            self.resident_until = offset + step;
            return true;
        }
        step > len && file.is_resident(offset, len)
    }

    /// A segment's bytes from the page cache, zeros behind the end of the file; `None` when the
    /// disk is needed.
    fn read_cached(
        &self,
        file: &FileRef,
        offset: u64,
        len: usize,
    ) -> Result<Option<Vec<u8>>, WorkError> {
        let mut bytes = self.chunks.take(len);
        let mut filled = 0;
        while let Some(rest) = bytes.get_mut(filled..).filter(|rest| !rest.is_empty()) {
            match file.try_read_at(offset + filled as u64, rest) {
                Ok(0) => {
                    rest.fill(0);
                    break;
                }
                Ok(count) => filled += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
                Err(error) => return Err(WorkError::File(error.kind())),
            }
        }
        Ok(Some(bytes))
    }
}

fn tagged(opcode: Opcode, stag: STag, offset: TaggedOffset) -> DdpHeader {
    DdpHeader::Tagged(Tagged {
        last: true,
        ulp_control: opcode.control(),
        stag,
        offset,
    })
}

/// The header of the message's next segment.
fn segment_header(framing: &Framing, last: bool) -> DdpHeader {
    match framing.header {
        DdpHeader::Tagged(header) => {
            let offset = header.offset.advanced_by(framing.framed as u64);
            DdpHeader::Tagged(Tagged {
                last,
                offset,
                ..header
            })
        }
        DdpHeader::Untagged(header) => {
            let offset = MessageOffset(u32::try_from(framing.framed).unwrap_or(u32::MAX));
            DdpHeader::Untagged(Untagged {
                last,
                offset,
                ..header
            })
        }
    }
}

fn send_opcode(options: &SendOptions) -> Opcode {
    match (invalidate_stag(options).is_some(), options.solicited) {
        (false, false) => Opcode::Send,
        (true, false) => Opcode::SendWithInvalidate,
        (false, true) => Opcode::SendWithSolicitedEvent,
        (true, true) => Opcode::SendWithSolicitedEventAndInvalidate,
    }
}
