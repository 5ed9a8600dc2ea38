//! Outgoing messages: chosen, cut into FPDUs, and placed in batches (RFC 5041 section 4, RFC 5044
//! section 5).
//!
//! Messages never interleave. Answers to the peer's Reads and our own work take turns, message by
//! message. The CRC of memory is computed when the FPDU is framed: an application that changes a region while
//! the peer reads it breaks the connection, as with an RNIC.

use super::batch::{Batch, BatchPool, Piece};
use super::frame::{crc_of, frame_head, frame_of, pad_of};
use super::outgoing::{Answer, Awaited, Leaving, LeavingSource, LeavingWork};
use super::payload::{Framing, Payload};
use super::receive::InboundSource;
use super::{
    Engine, FIRST_MSNS, Operation, OutstandingRead, Phase, QUEUES, ReadSource, Work,
    invalidate_stag,
};
use crate::crc;
use crate::limits::{BATCH_LEN, BATCHES_MAX, INLINE_PAYLOAD_MAX, SLICES_MAX};
use crate::startup::{Agreement, Role};
use gannet_fabric::{AccessError, Done, MemoryRegion, SendOptions, Source, WorkError, WorkId};
use gannet_runtime::{Buffer, push_lean};
use gannet_softrdma::TableRegion;
use gannet_wire::ddp::{
    DdpHeader, MessageOffset, Msn, QueueNumber, STag, Tagged, TaggedOffset, Untagged,
};
use gannet_wire::mpa::{CRC_LEN, MARKER_INTERVAL, MARKER_LEN, Markers, fpdu_len};
use gannet_wire::rdmap::{Opcode, READ_REQUEST_LEN, ReadRequest, TERMINATE_LEN_MAX, Terminate};
use std::collections::VecDeque;

/// The STag of zero-length tagged messages. Any is legal (RFC 5041 section 5.2.1), but some hardware refuses STag 0.
const STAG_OF_NOTHING: STag = STag(1);

/// The outgoing half of a connection.
pub(super) struct Transmitter {
    /// False while a responder waits for the initiator's first FPDU.
    enabled: bool,
    pub(super) ulpdu_max: usize,
    /// Bytes of the longest FPDU, markers counted.
    frame_max: usize,
    /// The number of the next message on each untagged queue.
    msns: [Msn; QUEUES],
    /// Posted work not begun, oldest first.
    pub(super) queue: VecDeque<Work>,
    /// The message being cut into FPDUs; its source is the youngest of `leaving`.
    pub(super) framing: Option<Framing>,
    /// Messages of which bytes may still have to leave, oldest first.
    pub(super) leaving: VecDeque<Leaving>,
    /// The number of the oldest of `leaving`.
    pub(super) leaving_base: u64,
    /// Framed bytes that have not left, oldest first; at most [`BATCHES_MAX`], which is the back-pressure of a stream
    /// that takes nothing.
    pub(super) batches: VecDeque<Batch>,
    pub(super) pool: BatchPool,
    /// Bytes framed so far, which is the stream position of the next FPDU. Markers and the end of each message in
    /// `leaving` are counted in it.
    position: u64,
    /// Bytes the stream took so far.
    pub(super) sent: u64,
    /// The youngest message answers a Read: our own work is next, if there is any.
    pub(super) last_was_response: bool,
    /// File bytes wanted before anything else can be framed: messages do not overtake each other.
    pub(super) fetch: Option<Awaited>,
    /// The fetched bytes, for the next segments.
    pub(super) fetched: Option<Vec<u8>>,
}

impl Transmitter {
    pub(super) fn new(role: Role, ulpdu_max: usize, markers: bool, pool: BatchPool) -> Transmitter {
        let plain = fpdu_len(ulpdu_max);
        let markers_max = if markers {
            plain / (MARKER_INTERVAL - MARKER_LEN) + 1
        } else {
            0
        };
        Transmitter {
            enabled: role == Role::Initiator,
            ulpdu_max,
            frame_max: plain + markers_max * MARKER_LEN,
            msns: FIRST_MSNS,
            queue: VecDeque::new(),
            framing: None,
            leaving: VecDeque::new(),
            leaving_base: 0,
            batches: VecDeque::new(),
            pool,
            position: 0,
            sent: 0,
            last_was_response: false,
            fetch: None,
            fetched: None,
        }
    }

    /// Lets a responder send, after the initiator's first FPDU.
    pub(super) fn enable(&mut self) {
        self.enabled = true;
    }

    /// True when nothing is posted and all bytes have left.
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
        // A read on the blocking pool goes on; its bytes find nothing that waits for them and are dropped (test
        // `a_file_that_cannot_be_read_after_the_end_changes_nothing`).
        self.fetch = None;
        let position = self.position;
        let has_bytes_left = !self.batches.is_empty();
        let mut abandoned = Vec::new();
        for leaving in &mut self.leaving {
            // Messages that will never be framed to their end leave with the last framed byte, else they would hold
            // their regions until the engine is dropped.
            leaving.end = Some(leaving.end.map_or(position, |end| end.min(position)));
            let Some(work) = leaving.work.take() else {
                continue;
            };
            let buffer = match &mut leaving.source {
                LeavingSource::Buffer(buffer) if !has_bytes_left => {
                    Some(std::mem::replace(buffer, Buffer::zeroed(0)))
                }
                _ => None,
            };
            abandoned.push((work.id, work.done, buffer));
        }
        abandoned
    }

    /// Forgets bytes that have not left.
    pub(super) fn drop_unsent(&mut self) {
        self.batches.clear();
        self.framing_dropped();
    }

    /// Stops framing after framed bytes were dropped, and moves the position back to the end of the others. A Terminate
    /// that is framed next must get the stream position at which it leaves, for its markers.
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
        self.segments_room(batch) > 0
    }

    /// How many more FPDUs fit a batch.
    fn segments_room(&self, batch: &Batch) -> usize {
        if batch.is_full {
            return 0;
        }
        // By the length with markers: an FPDU that spilled into the next batch would find other file bytes in its data
        // buffer, or none (test `bytes_at_hand_in_a_batch_stay_with_it_when_markers_fill_it_up`).
        let by_len = BATCH_LEN.saturating_sub(batch.len) / self.frame_max;
        // The first adds up to three pieces, each later one a payload and the control bytes behind it.
        let by_pieces = (SLICES_MAX - 1).saturating_sub(batch.pieces.len()) / 2;
        by_len.min(by_pieces)
    }

    /// How many bytes an empty batch takes in whole segments of `payload_max`, whatever its data buffer holds.
    pub(super) fn batch_room_max(&self, payload_max: usize) -> usize {
        self.segments_room(&Batch::default()) * payload_max
    }

    /// The batch the next FPDU goes to.
    pub(super) fn batch(&mut self) -> &mut Batch {
        if self.batches.back().is_none_or(|batch| !self.fits(batch)) {
            push_lean(&mut self.batches, self.pool.take());
        }
        let last = self.batches.len() - 1;
        &mut self.batches[last]
    }

    /// How many file bytes the youngest batch takes of `remaining`: whole segments of `payload_max`, and perhaps the
    /// last. None when it does not even take the next segment, and there may not be one more batch.
    pub(super) fn data_room(&mut self, payload_max: usize, remaining: usize) -> Option<usize> {
        loop {
            self.batch();
            let segments = self.batches.back().map(|batch| self.segments_room(batch))?;
            let wanted = remaining.min(segments.saturating_mul(payload_max));
            let batch = self.batches.back_mut()?;
            let room = batch.data_room(wanted, &self.pool.chunks);
            let whole = room - room % payload_max;
            let room = if room < remaining { whole } else { room };
            if room > 0 {
                return Some(room);
            }
            batch.is_full = true;
            if self.batches.len() >= BATCHES_MAX {
                return None;
            }
        }
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
    pub(super) fn push_control_message(
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
        self.batch().push_control(&bytes);
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
    /// command or event: without it, work posted while the batches were full would never be framed.
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
        // A Read beyond ORD waits at the front of the queue, and the work behind it waits too: work of one queue pair
        // is done in the order in which it was posted.
        let has_work = match self.tx.queue.front() {
            Some(Work {
                operation: Operation::Read { .. },
                ..
            }) => self.reads.len() < usize::from(self.agreement.ord),
            Some(_) => true,
            None => false,
        };
        let has_response = !self.rx.requests.is_empty();
        // In turn: a peer that always has a Read outstanding would otherwise hold back our replies for ever (test
        // `reads_and_sends_take_turns`).
        if has_response && (!has_work || !self.tx.last_was_response) {
            return Ok(self.begin_response());
        }
        if has_work && let Some(work) = self.tx.queue.pop_front() {
            self.tx.last_was_response = false;
            self.begin_work(work)?;
            return Ok(true);
        }
        Ok(false)
    }

    /// Begins the answer to the peer's oldest Read; false when there is no room for it yet.
    fn begin_response(&mut self) -> bool {
        let Some(read) = self.rx.requests.pop_front() else {
            return false;
        };
        let (source, start) = match read.source {
            InboundSource::Exported(access_key) => {
                return self.begin_exported(read.header, &read.request, access_key);
            }
            InboundSource::Refused(error) => {
                self.push_exception(&read.request, error);
                return true;
            }
            InboundSource::Nothing => (LeavingSource::Nothing, 0),
            // Revoked between request and turn: no byte has left, so an exception is still possible.
            InboundSource::Region(region, _) if self.agreement.exceptions && !region.is_valid() => {
                self.push_exception(&read.request, AccessError::InvalidKey);
                return true;
            }
            InboundSource::Region(region, offset) => match region.file() {
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
        self.begin_answer(answer, source, start);
        true
    }

    /// Begins a Read Response.
    pub(super) fn begin_answer(&mut self, answer: Answer, source: LeavingSource, start: u64) {
        self.tx.last_was_response = true;
        let request = answer.request;
        let header = tagged(Opcode::ReadResponse, request.sink_stag, request.sink_offset);
        let leaving = Leaving {
            source,
            work: None,
            end: None,
            answer: Some(answer),
        };
        self.begin_framing(header, request.size, start, leaving);
    }

    fn begin_work(&mut self, work: Work) -> Result<(), WorkError> {
        let Work { id, operation } = work;
        match operation {
            Operation::Send { source, options } => {
                let stag = invalidate_stag(&options).map_or(0, |stag| stag.0);
                let header = self.tx.untagged(send_opcode(&options), stag);
                let work = LeavingWork {
                    id,
                    done: Done::Sent,
                    signal: options.signal,
                };
                self.begin_source(header, source, work)
            }
            Operation::Write {
                source,
                target,
                signal,
            } => {
                let offset = TaggedOffset(target.offset);
                let header = tagged(Opcode::Write, STag(target.key.0), offset);
                let work = LeavingWork {
                    id,
                    done: Done::Written,
                    signal,
                };
                self.begin_source(header, source, work)
            }
            Operation::Read { sink, source } => {
                let address = match source {
                    ReadSource::Registered(address) => address,
                    ReadSource::Exported(reference) => reference.address,
                };
                let request = ReadRequest {
                    sink_stag: STag(sink.region.remote_key().0),
                    sink_offset: TaggedOffset(sink.region.base()).advanced_by(sink.offset),
                    size: sink.len,
                    source_stag: STag(address.key.0),
                    source_offset: TaggedOffset(address.offset),
                };
                self.note_read(&request, Some((id, sink)));
                match source {
                    ReadSource::Registered(_) => self.push_read_request(&request),
                    ReadSource::Exported(reference) => {
                        self.push_authenticated(request, reference.access_key);
                    }
                }
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
                self.note_read(&request, None);
                self.push_read_request(&request);
                Ok(())
            }
        }
    }

    /// Notes a Read whose request is framed next, so that its answer finds it.
    fn note_read(&mut self, request: &ReadRequest, work: Option<(WorkId, gannet_fabric::Span)>) {
        push_lean(
            &mut self.reads,
            OutstandingRead {
                work,
                stag: request.sink_stag,
                offset: request.sink_offset,
                size: request.size,
                received: 0,
            },
        );
    }

    fn push_read_request(&mut self, request: &ReadRequest) {
        let mut payload = [0; READ_REQUEST_LEN];
        request.emit(&mut payload);
        self.tx
            .push_control_message(Opcode::ReadRequest, 0, &payload, &self.agreement);
    }

    fn begin_source(
        &mut self,
        header: DdpHeader,
        source: Source,
        work: LeavingWork,
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
                // Unreachable: `check_span` refuses regions of other providers when the work is posted.
                None => (LeavingSource::Nothing, 0),
            },
        };
        // The application may have deregistered the region while the work waited in the queue. The message begins
        // nevertheless, because `fail_locally` completes the youngest message.
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
        push_lean(&mut self.tx.leaving, leaving);
        let size = usize::try_from(size).unwrap_or(usize::MAX);
        self.tx.framing = Some(Framing {
            header,
            size,
            framed: 0,
            source_start,
            ahead: 0,
            ahead_start: 0,
            resident_until: 0,
        });
    }

    /// Frames the next segment of the current message, or asks for the file bytes it needs.
    fn frame_segment(&mut self) -> Result<(), WorkError> {
        let Some(mut framing) = self.tx.framing else {
            return Ok(());
        };
        let payload_max = self.tx.ulpdu_max - framing.header.encoded_len();
        let len = payload_max.min(framing.size - framing.framed);
        let last = framing.framed + len == framing.size;
        let header = segment_header(&framing, last);
        let Some(payload) = self.payload(&mut framing, payload_max, len)? else {
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
            Payload::Mapped(window, offset) => {
                let piece = Piece::Mapped {
                    message,
                    window,
                    offset,
                    len,
                    frame,
                };
                tx.push_frame(header, piece, len, [0; CRC_LEN]);
            }
            Payload::Data(start) if is_short => {
                return self.push_copied(header, len, |tx, target| {
                    let bytes = tx.batches.back()?.data(start, len)?;
                    target.copy_from_slice(bytes);
                    Some(())
                });
            }
            Payload::Data(start) => {
                let bytes = tx.batches.back().and_then(|batch| batch.data(start, len));
                let crc = crc_of(header, bytes.unwrap_or_default(), &agreement);
                let end = start + len;
                tx.push_frame(header, Piece::Data { start, end }, len, crc);
            }
            Payload::Memory(offset) if is_short => {
                return self.push_copied(header, len, |tx, target| {
                    let source = &tx.leaving.back()?.source;
                    source.with_memory(offset, len, |from| target.copy_from_slice(from))
                });
            }
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

    /// Frames a segment whose payload `copy` fills in. Short payloads are copied on the stack; long ones, which are
    /// copied for markers only, on the heap.
    fn push_copied(
        &mut self,
        header: &DdpHeader,
        len: usize,
        copy: impl FnOnce(&Transmitter, &mut [u8]) -> Option<()>,
    ) -> Result<(), WorkError> {
        let mut short = [0; INLINE_PAYLOAD_MAX];
        let mut long = Vec::new();
        let target = if let Some(target) = short.get_mut(..len) {
            target
        } else {
            long.resize(len, 0);
            &mut long[..]
        };
        copy(&self.tx, target).ok_or(WorkError::Local(AccessError::InvalidKey))?;
        self.tx.push_short_frame(header, target, &self.agreement);
        Ok(())
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
    let invalidates = invalidate_stag(options).is_some();
    if invalidates && options.solicited {
        Opcode::SendWithSolicitedEventAndInvalidate
    } else if invalidates {
        Opcode::SendWithInvalidate
    } else if options.solicited {
        Opcode::SendWithSolicitedEvent
    } else {
        Opcode::Send
    }
}
