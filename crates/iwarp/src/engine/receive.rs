//! Incoming bytes: cut into FPDUs, checked, placed (RFC 5041 section 5, RFC 5040 section 5).

use super::violation::{Violation, invalidate_refused, read_refused, write_refused};
use super::{Engine, FIRST_MSNS, Phase};
use crate::crc;
use crate::startup::ReadyToReceive;
use gannet_fabric::{
    Completion, Disconnected, Done, MemoryRegion, RemoteKey, SoftwareRegion, WorkId,
};
use gannet_runtime::Buffer;
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
    msns: [Msn; 3],
    /// The message of the Send family whose last segment is still to come.
    current: Option<CurrentSend>,
    /// The tagged message whose last segment is still to come.
    tagged: Option<CurrentTagged>,
    /// Reads of the peer to be answered, oldest first; with those being answered never more than
    /// IRD.
    pub(super) requests: VecDeque<InboundRead>,
    /// The opening Send of a peer-to-peer initiator was taken.
    opened_by_send: bool,
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

/// A Read Request of the peer that passed all checks.
pub(super) struct InboundRead {
    pub(super) header: DdpHeader,
    pub(super) request: ReadRequest,
    /// The region to read and where in it the bytes start; `None` for a read of nothing.
    pub(super) source: Option<(Rc<TableRegion>, u64)>,
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
        }
    }

    /// Gives up the receive that was being filled.
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
            let taken = match Fpdu::parse(rest) {
                Ok(None) => return used,
                Ok(Some((fpdu, len))) => {
                    used += len;
                    self.receive_fpdu(&fpdu)
                }
                Err(error) => Err(error.into()),
            };
            if let Err(violation) = taken {
                let reason = Disconnected::PeerMisbehaved(violation.code.to_string());
                self.terminate(&violation.terminate(), reason);
            }
        }
        bytes.len()
    }

    fn receive_fpdu(&mut self, fpdu: &Fpdu<'_>) -> Result<(), Violation> {
        if self.agreement.crc && crc::field_of(fpdu.covered) != fpdu.crc {
            return Err(TerminateCode::MPA_CRC.into());
        }
        let (header, payload) = DdpHeader::parse(fpdu.ulpdu)?;
        let opcode = Opcode::parse(header.ulp_control())
            .map_err(|error| Violation::from(error).in_segment(header, fpdu.ulpdu.len()))?;
        let taken = match (header, opcode) {
            (DdpHeader::Tagged(tagged), Opcode::Write) => self.receive_write(&tagged, payload),
            (DdpHeader::Tagged(tagged), Opcode::ReadResponse) => {
                self.receive_read_response(&tagged, payload)
            }
            (DdpHeader::Untagged(untagged), opcode) => match opcode {
                Opcode::ReadRequest => self.receive_read_request(&untagged, payload),
                Opcode::Terminate => self.receive_terminate(&untagged, payload),
                Opcode::Write | Opcode::ReadResponse => {
                    Err(TerminateCode::UNEXPECTED_OPCODE.into())
                }
                _ => self.receive_send(opcode, &untagged, payload),
            },
            (DdpHeader::Tagged(_), _) => Err(TerminateCode::UNEXPECTED_OPCODE.into()),
        };
        taken.map_err(|violation| violation.in_segment(header, fpdu.ulpdu.len()))?;
        if !self.rx.has_received {
            self.rx.has_received = true;
            self.tx.enable();
        }
        Ok(())
    }

    fn receive_write(&mut self, header: &Tagged, payload: &[u8]) -> Result<(), Violation> {
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
        if !payload.is_empty() {
            let key = RemoteKey(header.stag.0);
            let len = payload.len() as u64;
            let kind = AccessKind::RemoteWrite;
            let (region, offset) = self
                .table
                .check(self.id, key, header.offset.0, len, kind)
                .map_err(|error| Violation::from(write_refused(error)))?;
            if !place(&region, offset, payload) {
                return Err(TerminateCode::TAGGED_INVALID_STAG.into());
            }
        }
        self.rx.tagged = (!header.last).then(|| CurrentTagged::Write {
            stag: header.stag,
            next: header.offset.advanced_by(payload.len() as u64),
        });
        Ok(())
    }

    fn receive_read_response(&mut self, header: &Tagged, payload: &[u8]) -> Result<(), Violation> {
        if matches!(self.rx.tagged, Some(CurrentTagged::Write { .. })) {
            return Err(TerminateCode::TAGGED_INVALID_STAG.into());
        }
        let Some(read) = self.reads.front_mut() else {
            return Err(TerminateCode::TAGGED_INVALID_STAG.into());
        };
        if header.stag != read.stag {
            return Err(TerminateCode::TAGGED_INVALID_STAG.into());
        }
        let len = u32::try_from(payload.len()).unwrap_or(u32::MAX);
        let received = read
            .received
            .checked_add(len)
            .filter(|received| *received <= read.size);
        let in_sequence = header.offset == read.offset.advanced_by(u64::from(read.received));
        let (Some(received), true) = (received, in_sequence) else {
            return Err(TerminateCode::TAGGED_BOUNDS.into());
        };
        if header.last && received != read.size {
            return Err(TerminateCode::TAGGED_BOUNDS.into());
        }
        if let Some((_, sink)) = &read.work
            && len > 0
            && !TableRegion::of(&*sink.region).is_some_and(|region| {
                let offset = sink.offset + u64::from(read.received);
                region.is_valid() && place(region, offset, payload)
            })
        {
            // The application took its sink away while the answer was on its way.
            return Err(TerminateCode::TAGGED_INVALID_STAG.into());
        }
        read.received = received;
        self.rx.tagged = (!header.last).then_some(CurrentTagged::ReadResponse);
        if header.last
            && let Some((id, _)) = self.reads.pop_front().and_then(|read| read.work)
        {
            self.completions.push_back(Completion {
                id,
                outcome: Ok(Done::Read),
                buffer: None,
            });
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
            self.rx.current = Some(current);
            return placed;
        }
        let mut invalidated = None;
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
        self.completions.push_back(Completion {
            id: current.id,
            outcome: Ok(done),
            buffer,
        });
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
        if self.rx.requests.len() + self.tx.responses_leaving() >= self.reads_allowed() {
            return Err(TerminateCode::STREAM_CATASTROPHIC.into());
        }
        let source = if request.size == 0 {
            None
        } else {
            let key = RemoteKey(request.source_stag.0);
            let (offset, len) = (request.source_offset.0, u64::from(request.size));
            let checked = self
                .table
                .check(self.id, key, offset, len, AccessKind::RemoteRead);
            Some(
                checked
                    .map_err(|error| Violation::from(read_refused(error)).in_request(request))?,
            )
        };
        let header = DdpHeader::Untagged(*header);
        self.rx.requests.push_back(InboundRead {
            header,
            request,
            source,
        });
        self.next_message(QueueNumber::READ_REQUEST)
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
                tracing::debug!(code = %terminate.code, ?order, "terminate received");
                self.terminated(&terminate);
            }
            Err(error) => {
                tracing::debug!(%error, "terminate received that cannot be read");
                self.disconnect(Disconnected::PeerTerminated(error.to_string()));
            }
        }
        Ok(())
    }

    fn check_untagged(&mut self, header: &Untagged, queue: QueueNumber) -> Result<(), Violation> {
        if header.queue != queue {
            return Err(TerminateCode::UNTAGGED_QUEUE.into());
        }
        match self.rx.msn(queue) {
            Some(expected) if *expected == header.msn => Ok(()),
            _ => Err(TerminateCode::UNTAGGED_MSN_RANGE.into()),
        }
    }

    fn next_message(&mut self, queue: QueueNumber) -> Result<(), Violation> {
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

/// Copies bytes into a region; false when its memory is not there (a file range, or memory that was
/// taken back).
fn place(region: &TableRegion, offset: u64, payload: &[u8]) -> bool {
    let Some(mut target) = region.bytes_mut(offset, payload.len()) else {
        return false;
    };
    target.copy_from_slice(payload);
    true
}
