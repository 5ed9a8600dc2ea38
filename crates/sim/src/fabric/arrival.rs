//! The processing of segments that arrive at an endpoint.

use super::domain::Reach;
use super::endpoint::{Answer, End};
use super::segment::{MessageEnd, Proof, Segment, region_for_work};
use gannet_fabric::limits::OPTIMISTIC_READ_MAX;
use gannet_fabric::{
    AccessError, Completion, Disconnected, Done, MemoryRegion, RemoteAddress, SoftwareRegion, Span,
    WorkError,
};
use gannet_softrdma::AccessKind;
use std::io;
use std::rc::Rc;

impl End {
    /// Processes a segment of the peer; segments after the connection's end are dropped.
    pub(super) fn arrived(self: &Rc<Self>, segment: Segment) {
        if self.state.borrow().ended.is_some() {
            return;
        }
        match segment {
            Segment::Message {
                offset,
                bytes,
                last,
            } => self.message_arrived(offset, &bytes, last),
            Segment::Write {
                target,
                bytes,
                immediate,
            } => self.write_arrived(target, &bytes, immediate),
            Segment::ReadRequest {
                read,
                source,
                len,
                proof,
            } => self.request_arrived(read, source, len, proof),
            Segment::ReadResponse {
                read,
                offset,
                bytes,
                last,
            } => {
                self.response_arrived(read, offset, &bytes, last);
            }
            Segment::ReadRefused { read, why } => {
                self.complete_read(read, Err(WorkError::Remote(why)));
            }
            Segment::Terminate { why, read } => {
                if let Some((read, error)) = read {
                    self.complete_read(read, Err(WorkError::Remote(error)));
                }
                self.finish(Disconnected::PeerTerminated(why));
            }
            Segment::End => self.finish(Disconnected::Peer),
            Segment::Reset => {
                self.finish(Disconnected::Lost(io::ErrorKind::ConnectionReset));
            }
        }
        self.pump();
    }

    fn message_arrived(&self, offset: usize, bytes: &[u8], last: Option<MessageEnd>) {
        let mut state = self.state.borrow_mut();
        if state.receiving.is_none() {
            state.receiving = state.receives.take();
        }
        let Some((_, buffer)) = &mut state.receiving else {
            drop(state);
            return self.terminate(String::from("a message and no receive for it"), None);
        };
        let len = offset + bytes.len();
        let Some(place) = buffer.get_mut(offset..len) else {
            drop(state);
            return self.terminate(String::from("a message longer than its receive"), None);
        };
        place.copy_from_slice(bytes);
        let Some(end) = last else {
            return;
        };
        if let Some(key) = end.invalidate {
            let table = &self.domain.table;
            match table.check(self.id, key, 0, 0, AccessKind::Invalidate) {
                Ok((region, _)) => {
                    drop(region.invalidate());
                    // The adapter alone invalidates, so the processor is not charged.
                    self.domain.forgive(1);
                }
                Err(error) => {
                    drop(state);
                    return self.terminate(format!("invalidate refused: {error}"), None);
                }
            }
        }
        let Some((id, buffer)) = state.receiving.take() else {
            return;
        };
        let done = Done::Received {
            len: u32::try_from(len).unwrap_or(u32::MAX),
            invalidated: end.invalidate,
            solicited: end.solicited,
        };
        state.completions.push_back(Completion {
            id,
            outcome: Ok(done),
            buffer: Some(buffer),
        });
        // The wake-up comes after the completion is queued and the borrow has ended.
        drop(state);
        self.notify();
    }

    fn write_arrived(&self, target: RemoteAddress, bytes: &[u8], immediate: Option<(u32, u32)>) {
        let len = bytes.len() as u64;
        let kind = AccessKind::RemoteWrite;
        let checked = self.domain.check(self.id, target, len, kind);
        (checked.iter()).for_each(|reach| self.domain.note(reach, kind));
        match checked {
            Ok(Reach::Registered { region, at, .. }) => {
                // The table has just checked the range, so the bytes exist.
                if let Some(mut place) = region.bytes_mut(at, bytes.len()) {
                    place.copy_from_slice(bytes);
                }
            }
            Ok(Reach::Anything) => {}
            Err(error) if self.fabric.profile.get().survivable_exceptions => {
                tracing::debug!(endpoint = self.id.0, %error, "a write was refused");
            }
            Err(error) => return self.terminate(format!("write refused: {error}"), None),
        }
        if let Some((immediate, len)) = immediate {
            self.immediate_arrived(immediate, len);
        }
    }

    fn immediate_arrived(&self, immediate: u32, len: u32) {
        if !self.attributes.immediates {
            return self.terminate(String::from("an immediate that nobody takes"), None);
        }
        let mut state = self.state.borrow_mut();
        let Some((id, buffer)) = state.receives.take() else {
            drop(state);
            return self.terminate(String::from("an immediate and no receive for it"), None);
        };
        state.completions.push_back(Completion {
            id,
            outcome: Ok(Done::ReceivedImmediate { immediate, len }),
            buffer: Some(buffer),
        });
        drop(state);
        self.notify();
    }

    fn request_arrived(
        self: &Rc<Self>,
        read: u64,
        source: RemoteAddress,
        len: u32,
        proof: Option<Proof>,
    ) {
        let executor = &self.fabric.core.executor;
        let turnaround = self
            .host
            .as_ref()
            .map_or(0, |host| host.read_turnaround_ns());
        let ready_at = executor.now() + turnaround;
        if turnaround > 0 {
            let end = Rc::clone(self);
            executor.schedule(ready_at, Some(self.node), move || end.pump());
        }
        let mut state = self.state.borrow_mut();
        if state.answers.len() >= usize::from(self.attributes.ird) {
            drop(state);
            return self.terminate(String::from("more reads than agreed"), None);
        }
        let granted = match proof {
            Some(_) if len > OPTIMISTIC_READ_MAX => Err(AccessError::Bounds),
            Some(proof) => proof.check(&mut state.authenticator, source, len),
            None => {
                let kind = AccessKind::RemoteRead;
                let checked = self.domain.check(self.id, source, u64::from(len), kind);
                checked.map(drop)
            }
        };
        state.answers.push_back(Answer {
            read,
            source,
            len,
            sent: 0,
            ready_at,
            refused: granted.err(),
            access_key: proof.map(|proof| proof.access_key),
            taken: None,
        });
        drop(state);
        if let Err(error) = granted {
            self.refuse_read(read, error);
        }
    }

    fn response_arrived(&self, read: u64, offset: u64, bytes: &[u8], last: bool) {
        let placed = {
            let state = self.state.borrow();
            // Without survivable exceptions a read that failed here has ended the connection.
            let Some(pending) = state.reads.front().filter(|pending| pending.number == read) else {
                return;
            };
            place(&pending.sink, offset, bytes)
        };
        match placed {
            Ok(()) if last => self.complete_read(read, Ok(Done::Read)),
            Ok(()) => {}
            Err(error) => {
                self.complete_read(read, Err(WorkError::Local(error)));
                if !self.survives_refused_reads() {
                    self.transmit(Segment::Reset);
                    self.finish(Disconnected::Local);
                }
            }
        }
    }

    /// Completes the oldest read, if it is this one. Reads complete in the order of their posting.
    fn complete_read(&self, read: u64, outcome: Result<Done, WorkError>) {
        let mut state = self.state.borrow_mut();
        if state
            .reads
            .front()
            .is_none_or(|pending| pending.number != read)
        {
            return;
        }
        let Some(pending) = state.reads.pop_front() else {
            return;
        };
        state.reads_asked -= 1;
        state.outstanding -= 1;
        state.completions.push_back(Completion {
            id: pending.id,
            outcome,
            buffer: None,
        });
        drop(state);
        self.notify();
    }
}

/// Copies `bytes` to `sink`, `offset` from its start.
fn place(sink: &Span, offset: u64, bytes: &[u8]) -> Result<(), AccessError> {
    let region = region_for_work(&*sink.region).ok_or(AccessError::InvalidKey)?;
    let at = sink.offset + offset;
    region.check_local(at, bytes.len() as u64)?;
    let mut target = region
        .bytes_mut(at, bytes.len())
        .ok_or(AccessError::InvalidKey)?;
    target.copy_from_slice(bytes);
    Ok(())
}
