//! Reads whose refusal does not end the connection: requests with a capability, and exceptions
//! (docs/formats/exceptions.md).

use super::outgoing::{Answer, LeavingSource};
use super::receive::{InboundRead, InboundSource};
use super::violation::Violation;
use super::{Engine, ReadSource};
use crate::limits::BATCHES_MAX;
use gannet_fabric::{
    AccessError, AccessKey, CapabilityKey, Completion, PostError, Reference, RemoteAddress,
    RemoteKey, Span, WorkError, WorkId, limits::OPTIMISTIC_READ_MAX,
};
use gannet_runtime::{Buffer, push_lean};
use gannet_softrdma::OptimisticRead;
use gannet_wire::ddp::{DdpHeader, MessageOffset, QueueNumber, TAGGED_HEADER_LEN, Untagged};
use gannet_wire::rdmap::{
    AUTHENTICATED_READ_REQUEST_LEN, AuthenticatedReadRequest, ExceptionReason, MAC_LEN, Opcode,
    READ_EXCEPTION_LEN, ReadException, ReadRequest, TerminateCode,
};

impl Engine {
    /// See [`gannet_fabric::Endpoint::authenticate`].
    pub(crate) fn authenticate(&mut self, key: CapabilityKey) {
        self.authenticator.get_or_insert_default().set_key(key);
    }

    /// See [`gannet_fabric::Endpoint::post_optimistic_read`].
    pub(crate) fn post_optimistic_read(
        &mut self,
        id: WorkId,
        sink: Span,
        source: Reference,
    ) -> Result<(), PostError> {
        if !self.agreement.exceptions || self.authenticator.is_none() {
            return Err(PostError::Invalid(
                "no optimistic read was agreed for this connection",
            ));
        }
        if sink.len > OPTIMISTIC_READ_MAX {
            return Err(PostError::Invalid("an optimistic read of more than 64 KiB"));
        }
        self.post_read_of(id, sink, ReadSource::Exported(source))
    }

    /// Frames a request for an exported object.
    pub(super) fn push_authenticated(&mut self, read: ReadRequest, access_key: AccessKey) {
        let mut request = AuthenticatedReadRequest {
            read,
            access_key: access_key.0,
            timestamp: 0,
            mac: [0; MAC_LEN],
        };
        // There is a key: `post_optimistic_read` refuses without one. Timestamps are taken when requests are framed,
        // so they grow in stream order; the peer refuses a request whose timestamp does not.
        if let Some(authenticator) = &mut self.authenticator {
            request.timestamp = authenticator.next_timestamp();
            request.mac = authenticator.code(&request.claim());
        }
        let mut payload = [0; AUTHENTICATED_READ_REQUEST_LEN];
        request.emit(&mut payload);
        let opcode = Opcode::AuthenticatedReadRequest;
        self.tx
            .push_control_message(opcode, 0, &payload, &self.agreement);
    }

    /// Takes a request for an exported object. Its code and timestamp are checked now, in the order in which requests
    /// come; the object is looked up when the answer begins, because it may be revoked until then.
    pub(super) fn receive_authenticated_read_request(
        &mut self,
        header: &Untagged,
        payload: &[u8],
    ) -> Result<(), Violation> {
        self.check_untagged(header, QueueNumber::READ_REQUEST)?;
        if header.offset != MessageOffset(0) || !header.last {
            return Err(TerminateCode::UNTAGGED_OFFSET.into());
        }
        let bytes = payload
            .try_into()
            .map_err(|_| Violation::from(TerminateCode::UNTAGGED_TOO_LONG))?;
        let request = AuthenticatedReadRequest::from_bytes(bytes);
        self.check_read_depth()?;
        let (claim, timestamp) = (request.claim(), request.timestamp);
        let checked = match &mut self.authenticator {
            Some(authenticator) => authenticator.check(&claim, timestamp, &request.mac),
            None => Err(AccessError::Capability),
        };
        let source = match checked {
            Ok(()) => InboundSource::Exported(AccessKey(request.access_key)),
            Err(error) => InboundSource::Refused(error),
        };
        push_lean(
            &mut self.rx.requests,
            InboundRead {
                header: DdpHeader::Untagged(*header),
                request: request.read,
                source,
            },
        );
        self.next_message(QueueNumber::READ_REQUEST)
    }

    /// Copies all bytes of an exported object at this instant and begins the answer, or refuses it. Returns false when
    /// there is no room for them yet. A part must not wait for the next batch: an answer that has begun can no longer
    /// be refused, and the object may change meanwhile.
    pub(super) fn begin_exported(
        &mut self,
        header: DdpHeader,
        request: &ReadRequest,
        access_key: AccessKey,
    ) -> bool {
        let size = request.size as usize;
        if size > OPTIMISTIC_READ_MAX as usize {
            self.push_exception(request, AccessError::Bounds);
            return true;
        }
        let room = self.room_for(size);
        if room == Room::Later {
            self.rx.requests.push_front(InboundRead {
                header,
                request: *request,
                source: InboundSource::Exported(access_key),
            });
            return false;
        }
        let read = OptimisticRead {
            endpoint: self.id,
            source: Reference {
                address: RemoteAddress {
                    key: RemoteKey(request.source_stag.0),
                    offset: request.source_offset.0,
                },
                access_key,
            },
        };
        let answer = Answer {
            header,
            request: *request,
        };
        if room == Room::Own {
            let mut bytes = Buffer::zeroed(size);
            match self.table.read_exported(&read, &mut bytes) {
                Ok(()) => self.begin_answer(answer, LeavingSource::Buffer(bytes), 0),
                Err(error) => self.push_exception(request, error),
            }
            return true;
        }
        let space = self.tx.batch().data_space(size);
        if let Err(error) = self.table.read_exported(&read, space) {
            self.push_exception(request, error);
            return true;
        }
        let start = self.tx.batch().data_filled(size);
        self.begin_answer(answer, LeavingSource::Nothing, 0);
        if let Some(framing) = &mut self.tx.framing {
            (framing.ahead, framing.ahead_start) = (size, start);
        }
        true
    }

    /// Whether the youngest batch takes `size` bytes in whole segments, or else a new one.
    fn room_for(&mut self, size: usize) -> Room {
        let payload_max = self.tx.ulpdu_max - TAGGED_HEADER_LEN;
        if size > self.tx.batch_room_max(payload_max) {
            return Room::Own;
        }
        if size == 0 {
            return Room::Here;
        }
        loop {
            match self.tx.data_room(payload_max, size) {
                None => return Room::Later,
                Some(room) if room == size => return Room::Here,
                // A new one takes all of it, if there may be one.
                Some(_) => self.tx.batch().is_full = true,
            }
            if self.tx.batches.len() >= BATCHES_MAX {
                return Room::Later;
            }
        }
    }

    /// Frames the answer to a Read that is refused.
    pub(super) fn push_exception(&mut self, request: &ReadRequest, error: AccessError) {
        self.tx.last_was_response = true;
        let exception = ReadException {
            sink_stag: request.sink_stag,
            sink_offset: request.sink_offset,
            reason: reason_of(error),
        };
        let mut payload = [0; READ_EXCEPTION_LEN];
        exception.emit(&mut payload);
        self.tx
            .push_control_message(Opcode::ReadException, 0, &payload, &self.agreement);
    }

    /// Fails the oldest of our Reads with an exception. An exception for another Read, or for one of which bytes have
    /// come, is a violation: an exception says that the sink is untouched.
    pub(super) fn receive_read_exception(
        &mut self,
        header: &Untagged,
        payload: &[u8],
    ) -> Result<(), Violation> {
        self.check_untagged(header, QueueNumber::READ_EXCEPTION)?;
        if header.offset != MessageOffset(0) || !header.last {
            return Err(TerminateCode::UNTAGGED_OFFSET.into());
        }
        let exception = ReadException::parse(payload)
            .map_err(|_| Violation::from(TerminateCode::UNTAGGED_TOO_LONG))?;
        let is_due = self.is_between_tagged()
            && self.reads.front().is_some_and(|read| {
                read.stag == exception.sink_stag
                    && read.offset == exception.sink_offset
                    && read.received == 0
            });
        if !is_due {
            // The Read stays in the queue until the end of the connection flushes it; a Read that was taken out here
            // never completed (found by the tests of hostile peers).
            return Err(TerminateCode::UNEXPECTED_OPCODE.into());
        }
        let read = self.reads.pop_front();
        let read = read.ok_or(Violation::from(TerminateCode::UNEXPECTED_OPCODE))?;
        if let Some((id, _)) = read.work {
            push_lean(
                &mut self.completions,
                Completion {
                    id,
                    outcome: Err(WorkError::Remote(error_of(exception.reason))),
                    buffer: None,
                },
            );
        }
        self.next_message(QueueNumber::READ_EXCEPTION)
    }
}

/// The room for the bytes of an answer.
#[derive(PartialEq, Eq)]
enum Room {
    /// The data buffer of the youngest batch.
    Here,
    /// None until the stream has taken more.
    Later,
    /// A buffer of their own: segments are so short that one batch does not take them all.
    Own,
}

fn reason_of(error: AccessError) -> ExceptionReason {
    match error {
        AccessError::NotResident => ExceptionReason::NotResident,
        AccessError::InvalidKey => ExceptionReason::StaleKey,
        AccessError::Bounds | AccessError::Wrap => ExceptionReason::Bounds,
        AccessError::Rights | AccessError::WrongEndpoint => ExceptionReason::Rights,
        AccessError::Capability => ExceptionReason::BadCapability,
        AccessError::Replay => ExceptionReason::Replay,
    }
}

fn error_of(reason: ExceptionReason) -> AccessError {
    match reason {
        ExceptionReason::NotResident => AccessError::NotResident,
        ExceptionReason::StaleKey => AccessError::InvalidKey,
        ExceptionReason::Bounds => AccessError::Bounds,
        ExceptionReason::Rights => AccessError::Rights,
        ExceptionReason::BadCapability => AccessError::Capability,
        ExceptionReason::Replay => AccessError::Replay,
    }
}
