//! Incoming bytes: cut into FPDUs, checked, placed (RFC 5041 section 5, RFC 5040 section 5).

use super::direct::Direct;
use super::violation::{Violation, invalidate_refused, read_refused, write_refused};
use super::{Engine, FIRST_MSNS, Phase, QUEUES};
use crate::crc;
use crate::limits::{DIRECT_MIN, RECEIVE_AHEAD};
use crate::startup::ReadyToReceive;
use gannet_fabric::{
    AccessError, AccessKey, Completion, Disconnected, Done, MemoryRegion, RemoteKey,
    SoftwareRegion, WorkId,
};
use gannet_runtime::{Buffer, push_lean};
use gannet_softrdma::{AccessKind, TableRegion};
use gannet_wire::ddp::{
    DdpHeader, MessageOffset, Msn, QueueNumber, STag, Tagged, TaggedOffset, Untagged,
};
use gannet_wire::mpa::Fpdu;
use gannet_wire::rdmap::{Opcode, ReadRequest, Terminate, TerminateCode};
use std::collections::VecDeque;
use std::rc::Rc;

/// The incoming half of a connection.
pub(super) struct Receiver {
    pub(super) has_received: bool,
    /// The next message expected on each untagged queue.
    msns: [Msn; QUEUES],
    /// The message of the Send family whose last segment is still to come.
    current: Option<CurrentSend>,
    /// The tagged message whose last segment is still to come.
    tagged: Option<CurrentTagged>,
    /// Reads of the peer to be answered, oldest first; with those being answered never more than
    /// IRD.
    pub(super) requests: VecDeque<InboundRead>,
    /// The opening Send of a peer-to-peer initiator was taken.
    opened_by_send: bool,
    /// The FPDU whose payload goes straight into place.
    pub(super) direct: Option<Direct>,
    /// The place of its payload, during one receive only: another receive looks it up again, because the key may
    /// have been revoked meanwhile (test `a_key_that_is_revoked_meanwhile_takes_no_more`).
    pub(super) target: Option<Place>,
    /// The last FPDU was long.
    pub(super) is_bulk: bool,
}

/// Checked memory for a payload. It is valid within one call: no application code runs between check and use.
pub(super) struct Place {
    pub(super) region: Rc<TableRegion>,
    pub(super) offset: u64,
}

impl Place {
    /// True when `len` bytes of it can be borrowed: it is no file range, and its memory was not moved out.
    pub(super) fn is_there(&self, len: usize) -> bool {
        self.region.bytes(self.offset, len).is_some()
    }

    /// Copies bytes there; false when the region is a file range or its memory was taken back.
    pub(super) fn fill(&self, payload: &[u8]) -> bool {
        let Some(mut target) = self.region.bytes_mut(self.offset, payload.len()) else {
            return false;
        };
        target.copy_from_slice(payload);
        true
    }
}

struct CurrentSend {
    id: WorkId,
    buffer: Buffer,
    filled: usize,
    ulp_control: u8,
    ulp_word: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CurrentTagged {
    Write { stag: STag, next: TaggedOffset },
    ReadResponse,
}

/// A Read Request of the peer that passed all checks, or that waits for its exception. Refusals wait in the same queue,
/// because the peer matches answers to its Reads by their order.
pub(super) struct InboundRead {
    pub(super) header: DdpHeader,
    pub(super) request: ReadRequest,
    pub(super) source: InboundSource,
}

/// The source of a Read of the peer.
pub(super) enum InboundSource {
    /// A Read of zero bytes, which names no memory.
    Nothing,
    /// A region, and the offset of the bytes in it.
    Region(Rc<TableRegion>, u64),
    /// An exported object, looked up when the answer begins.
    Exported(AccessKey),
    /// None: the Read is answered with an exception.
    Refused(AccessError),
}

impl Receiver {
    pub(super) fn new() -> Receiver {
        Receiver {
            has_received: false,
            msns: FIRST_MSNS,
            current: None,
            tagged: None,
            requests: VecDeque::new(),
            opened_by_send: false,
            direct: None,
            target: None,
            is_bulk: false,
        }
    }

    /// Takes out the receive that was being filled, to flush it.
    pub(super) fn take_current(&mut self) -> Option<(WorkId, Buffer)> {
        self.current
            .take()
            .map(|current| (current.id, current.buffer))
    }

    fn msn(&mut self, queue: QueueNumber) -> Option<&mut Msn> {
        usize::try_from(queue.0)
            .ok()
            .and_then(|index| self.msns.get_mut(index))
    }
}

impl Engine {
    /// Takes whole FPDUs off the front of `bytes`, which stand at the front of the incoming stream;
    /// returns how many bytes were used up. Once the connection has ended everything is used up and
    /// ignored.
    pub(crate) fn receive(&mut self, bytes: &[u8]) -> usize {
        let mut used = 0;
        while self.phase != Phase::Ended {
            let rest = bytes.get(used..).unwrap_or_default();
            match self.receive_next(rest) {
                Ok(0) => return used,
                Ok(taken) => used += taken,
                Err(violation) => {
                    let reason = Disconnected::PeerMisbehaved(violation.code.to_string());
                    self.terminate(&violation.terminate(), reason);
                }
            }
        }
        bytes.len()
    }

    /// Takes what it can off the front of `bytes`: an FPDU, the rest of one, or the beginning of a long one.
    fn receive_next(&mut self, bytes: &[u8]) -> Result<usize, Violation> {
        if self.is_within_fpdu() {
            return self.finish_direct(bytes);
        }
        match Fpdu::parse(bytes)? {
            Some((fpdu, len)) => {
                // Short FPDUs end the bulk mode only once they fill what is received ahead: one reply between two
                // long FPDUs must not move the next payload to the staging buffer.
                self.rx.is_bulk &= len > DIRECT_MIN || bytes.len() < RECEIVE_AHEAD;
                self.receive_fpdu(&fpdu).map(|()| len)
            }
            None if self.begin_direct(bytes) => Ok(bytes.len()),
            None => {
                self.rx.is_bulk &= bytes.len() < RECEIVE_AHEAD;
                Ok(0)
            }
        }
    }

    fn receive_fpdu(&mut self, fpdu: &Fpdu<'_>) -> Result<(), Violation> {
        // Before the header is parsed: a damaged header would place bytes into the wrong memory.
        if self.agreement.crc && crc::field_of(fpdu.covered) != fpdu.crc {
            return Err(TerminateCode::MPA_CRC.into());
        }
        let (header, payload) = DdpHeader::parse(fpdu.ulpdu)?;
        let opcode = Opcode::parse(header.ulp_control())
            .map_err(|error| Violation::from(error).in_segment(header, fpdu.ulpdu.len()))?;
        let taken = match (header, opcode) {
            (DdpHeader::Tagged(tagged), opcode @ (Opcode::Write | Opcode::ReadResponse)) => {
                self.receive_tagged(opcode, &tagged, payload)
            }
            (DdpHeader::Untagged(untagged), opcode) => match opcode {
                Opcode::ReadRequest => self.receive_read_request(&untagged, payload),
                Opcode::AuthenticatedReadRequest | Opcode::ReadException
                    if !self.agreement.exceptions =>
                {
                    Err(TerminateCode::UNEXPECTED_OPCODE.into())
                }
                Opcode::AuthenticatedReadRequest => {
                    self.receive_authenticated_read_request(&untagged, payload)
                }
                Opcode::ReadException => self.receive_read_exception(&untagged, payload),
                Opcode::Terminate => self.receive_terminate(&untagged, payload),
                Opcode::Write | Opcode::ReadResponse => {
                    Err(TerminateCode::UNEXPECTED_OPCODE.into())
                }
                _ => self.receive_send(opcode, &untagged, payload),
            },
            (DdpHeader::Tagged(_), _) => Err(TerminateCode::UNEXPECTED_OPCODE.into()),
        };
        taken.map_err(|violation| violation.in_segment(header, fpdu.ulpdu.len()))?;
        self.note_received();
        Ok(())
    }

    /// Notes that the peer is in full operation. A responder may send from here on, and not before (RFC 5044
    /// section 7; test `a_responder_waits_until_it_was_spoken_to`).
    pub(super) fn note_received(&mut self) {
        if !self.rx.has_received {
            self.rx.has_received = true;
            self.tx.enable();
        }
    }

    fn receive_tagged(
        &mut self,
        opcode: Opcode,
        header: &Tagged,
        payload: &[u8],
    ) -> Result<(), Violation> {
        let place = self.place_of(opcode, header, payload.len())?;
        if place.is_some_and(|place| !place.fill(payload)) {
            return Err(TerminateCode::TAGGED_INVALID_STAG.into());
        }
        self.tagged_placed(opcode, header, payload.len())
    }

    /// The memory for the `len` bytes of a tagged segment, checked for bounds and rights. `None` when `len` is 0, or
    /// for the Read that only opened the connection.
    pub(super) fn place_of(
        &self,
        opcode: Opcode,
        header: &Tagged,
        len: usize,
    ) -> Result<Option<Place>, Violation> {
        match opcode {
            Opcode::Write => self.place_of_write(header, len),
            Opcode::ReadResponse => self.place_of_read_response(header, len),
            _ => Err(TerminateCode::UNEXPECTED_OPCODE.into()),
        }
    }

    fn place_of_write(&self, header: &Tagged, len: usize) -> Result<Option<Place>, Violation> {
        match self.rx.tagged {
            None => {}
            Some(CurrentTagged::Write { stag, .. }) if stag != header.stag => {
                return Err(TerminateCode::TAGGED_INVALID_STAG.into());
            }
            Some(CurrentTagged::Write { next, .. }) if next != header.offset => {
                return Err(TerminateCode::TAGGED_BOUNDS.into());
            }
            Some(CurrentTagged::Write { .. }) => {}
            Some(CurrentTagged::ReadResponse) => {
                return Err(TerminateCode::TAGGED_INVALID_STAG.into());
            }
        }
        // A write of nothing names no memory (RFC 5041 section 5.2.1).
        if len == 0 {
            return Ok(None);
        }
        let key = RemoteKey(header.stag.0);
        let kind = AccessKind::RemoteWrite;
        let (region, offset) = self
            .table
            .check(self.id, key, header.offset.0, len as u64, kind)
            .map_err(|error| Violation::from(write_refused(error)))?;
        Ok(Some(Place { region, offset }))
    }

    fn place_of_read_response(
        &self,
        header: &Tagged,
        len: usize,
    ) -> Result<Option<Place>, Violation> {
        if matches!(self.rx.tagged, Some(CurrentTagged::Write { .. })) {
            return Err(TerminateCode::TAGGED_INVALID_STAG.into());
        }
        let Some(read) = self.reads.front() else {
            return Err(TerminateCode::TAGGED_INVALID_STAG.into());
        };
        if header.stag != read.stag {
            return Err(TerminateCode::TAGGED_INVALID_STAG.into());
        }
        let received = u32::try_from(len)
            .ok()
            .and_then(|len| read.received.checked_add(len))
            .filter(|received| *received <= read.size);
        let in_sequence = header.offset == read.offset.advanced_by(u64::from(read.received));
        let (Some(received), true) = (received, in_sequence) else {
            return Err(TerminateCode::TAGGED_BOUNDS.into());
        };
        if header.last && received != read.size {
            return Err(TerminateCode::TAGGED_BOUNDS.into());
        }
        let Some((_, sink)) = read.work.as_ref().filter(|_| len > 0) else {
            return Ok(None);
        };
        // The application may have deregistered the sink while the answer was on its way.
        let region =
            TableRegion::shared(Rc::clone(&sink.region)).filter(|region| region.is_valid());
        let region = region.ok_or(Violation::from(TerminateCode::TAGGED_INVALID_STAG))?;
        let offset = sink.offset + u64::from(read.received);
        Ok(Some(Place { region, offset }))
    }

    /// Notes that the `len` bytes of a tagged segment are in place, and completes the Read that they end.
    pub(super) fn tagged_placed(
        &mut self,
        opcode: Opcode,
        header: &Tagged,
        len: usize,
    ) -> Result<(), Violation> {
        let current = match opcode {
            Opcode::Write => CurrentTagged::Write {
                stag: header.stag,
                next: header.offset.advanced_by(len as u64),
            },
            _ => CurrentTagged::ReadResponse,
        };
        self.rx.tagged = (!header.last).then_some(current);
        if current != CurrentTagged::ReadResponse {
            return Ok(());
        }
        // The end of the connection has flushed our Reads if it came between the parts of a direct payload.
        let read = self.reads.front_mut();
        let read = read.ok_or(Violation::from(TerminateCode::TAGGED_INVALID_STAG))?;
        read.received = read
            .received
            .saturating_add(u32::try_from(len).unwrap_or(u32::MAX));
        if header.last
            && let Some((id, _)) = self.reads.pop_front().and_then(|read| read.work)
        {
            push_lean(
                &mut self.completions,
                Completion {
                    id,
                    outcome: Ok(Done::Read),
                    buffer: None,
                },
            );
        }
        Ok(())
    }

    fn receive_send(
        &mut self,
        opcode: Opcode,
        header: &Untagged,
        payload: &[u8],
    ) -> Result<(), Violation> {
        self.check_untagged(header, QueueNumber::SEND)?;
        if self.is_opening_send(header, payload) {
            self.rx.opened_by_send = true;
            return self.next_message(QueueNumber::SEND);
        }
        let mut current = match self.rx.current.take() {
            Some(current) => current,
            None => self.begin_receive(header)?,
        };
        let placed = fill(&mut current, header, payload);
        if placed.is_err() || !header.last {
            // Also after a violation: the flush returns the buffer from here.
            self.rx.current = Some(current);
            return placed;
        }
        let mut invalidated = None;
        // The key ends before the completion, so the application may use the memory as soon as it sees the message.
        if opcode.invalidates() {
            let key = RemoteKey(header.ulp_word);
            match self.table.check(self.id, key, 0, 0, AccessKind::Invalidate) {
                Ok((region, _)) => drop(region.invalidate()),
                Err(error) => {
                    self.rx.current = Some(current);
                    return Err(invalidate_refused(error).into());
                }
            }
            invalidated = Some(key);
        }
        let done = Done::Received {
            len: u32::try_from(current.filled).unwrap_or(u32::MAX),
            invalidated,
            solicited: opcode.is_solicited(),
        };
        let buffer = Some(current.buffer);
        push_lean(
            &mut self.completions,
            Completion {
                id: current.id,
                outcome: Ok(done),
                buffer,
            },
        );
        self.next_message(QueueNumber::SEND)
    }

    /// True for the zero-length Send by which a peer-to-peer initiator says that it is ready (RFC
    /// 6581 section 8); it is between the two MPA layers and takes no buffer of the application.
    fn is_opening_send(&self, header: &Untagged, payload: &[u8]) -> bool {
        self.agreement.ready == ReadyToReceive::Send
            && !self.rx.opened_by_send
            && !self.rx.has_received
            && header.last
            && payload.is_empty()
    }

    fn begin_receive(&mut self, header: &Untagged) -> Result<CurrentSend, Violation> {
        let (id, buffer) = self
            .receives
            .take()
            .ok_or_else(|| Violation::from(TerminateCode::UNTAGGED_NO_BUFFER))?;
        Ok(CurrentSend {
            id,
            buffer,
            filled: 0,
            ulp_control: header.ulp_control,
            ulp_word: header.ulp_word,
        })
    }

    fn receive_read_request(&mut self, header: &Untagged, payload: &[u8]) -> Result<(), Violation> {
        self.check_untagged(header, QueueNumber::READ_REQUEST)?;
        if header.offset != MessageOffset(0) || !header.last {
            return Err(TerminateCode::UNTAGGED_OFFSET.into());
        }
        let bytes = payload
            .try_into()
            .map_err(|_| Violation::from(TerminateCode::UNTAGGED_TOO_LONG))?;
        let request = ReadRequest::from_bytes(bytes);
        self.check_read_depth()?;
        // Checked now and again when the answer begins: the peer may have named memory that is revoked meanwhile.
        let source = if request.size == 0 {
            InboundSource::Nothing
        } else {
            let key = RemoteKey(request.source_stag.0);
            let (offset, len) = (request.source_offset.0, u64::from(request.size));
            let checked = self
                .table
                .check(self.id, key, offset, len, AccessKind::RemoteRead);
            match checked {
                Ok((region, start)) => InboundSource::Region(region, start),
                Err(error) if self.agreement.exceptions => InboundSource::Refused(error),
                Err(error) => {
                    return Err(Violation::from(read_refused(error)).in_request(request));
                }
            }
        };
        let header = DdpHeader::Untagged(*header);
        push_lean(
            &mut self.rx.requests,
            InboundRead {
                header,
                request,
                source,
            },
        );
        self.next_message(QueueNumber::READ_REQUEST)
    }

    /// Checks that the peer may have one more Read outstanding. Answers that are being sent count, so a peer that
    /// takes nothing cannot make the queue of requests grow.
    pub(super) fn check_read_depth(&self) -> Result<(), Violation> {
        if self.rx.requests.len() + self.tx.responses_leaving() >= self.reads_allowed() {
            return Err(TerminateCode::STREAM_CATASTROPHIC.into());
        }
        Ok(())
    }

    /// IRD, and room for the Read that opens a peer-to-peer connection.
    fn reads_allowed(&self) -> usize {
        let opening = usize::from(self.agreement.ready == ReadyToReceive::Read);
        usize::from(self.agreement.ird).max(opening)
    }

    fn receive_terminate(&mut self, header: &Untagged, payload: &[u8]) -> Result<(), Violation> {
        self.check_untagged(header, QueueNumber::TERMINATE)?;
        match Terminate::parse(payload) {
            Ok((terminate, order)) => {
                tracing::debug!(%terminate, %order, "terminate received");
                self.terminated(&terminate);
            }
            Err(error) => {
                tracing::debug!(%error, "terminate received that cannot be read");
                self.disconnect(Disconnected::PeerTerminated(error.to_string()));
            }
        }
        Ok(())
    }

    /// True when no tagged message of the peer's stands unfinished.
    pub(super) fn is_between_tagged(&self) -> bool {
        self.rx.tagged.is_none()
    }

    pub(super) fn check_untagged(
        &mut self,
        header: &Untagged,
        queue: QueueNumber,
    ) -> Result<(), Violation> {
        if header.queue != queue {
            return Err(TerminateCode::UNTAGGED_QUEUE.into());
        }
        match self.rx.msn(queue) {
            Some(expected) if *expected == header.msn => Ok(()),
            _ => Err(TerminateCode::UNTAGGED_MSN_RANGE.into()),
        }
    }

    pub(super) fn next_message(&mut self, queue: QueueNumber) -> Result<(), Violation> {
        if let Some(msn) = self.rx.msn(queue) {
            *msn = msn.next();
        }
        Ok(())
    }

    /// The peer closed its side; `within_fpdu` when part of an FPDU stands unfinished.
    pub(crate) fn end_of_stream(&mut self, within_fpdu: bool) {
        let reason = if within_fpdu {
            Disconnected::Lost(std::io::ErrorKind::UnexpectedEof)
        } else {
            Disconnected::Peer
        };
        self.disconnect(reason);
    }
}

/// Copies a segment of a Send into its receive buffer.
fn fill(current: &mut CurrentSend, header: &Untagged, payload: &[u8]) -> Result<(), Violation> {
    if (current.ulp_control, current.ulp_word) != (header.ulp_control, header.ulp_word) {
        return Err(TerminateCode::UNEXPECTED_OPCODE.into());
    }
    if usize::try_from(header.offset.0) != Ok(current.filled) {
        return Err(TerminateCode::UNTAGGED_OFFSET.into());
    }
    let end = current.filled.saturating_add(payload.len());
    let Some(target) = current.buffer.get_mut(current.filled..end) else {
        return Err(TerminateCode::UNTAGGED_TOO_LONG.into());
    };
    target.copy_from_slice(payload);
    current.filled = end;
    Ok(())
}
