//! The `Endpoint` of a simulated provider.

use super::device::DeviceRegion;
use super::domain::SimDomain;
use super::endpoint::{End, SILENCE_NS, WorkKind};
use super::segment::{MessageEnd, Segment};
use crate::executor::Wait;
use gannet_fabric::limits::OPTIMISTIC_READ_MAX;
use gannet_fabric::{
    CapabilityKey, Completion, Disconnected, Domain, Endpoint, EndpointAttributes, EndpointId,
    Invalidate, PostError, Reference, RemoteAddress, SendOptions, Signal, Source, Span, WorkId,
};
use gannet_runtime::Buffer;
use gannet_softrdma::TableRegion;
use std::net::SocketAddr;
use std::rc::Rc;
use std::task::{Context, Poll};

/// The owner's handle of an end; its drop breaks the connection.
pub(super) struct SimEndpoint {
    end: Rc<End>,
}

impl SimEndpoint {
    pub(super) fn new(end: Rc<End>) -> SimEndpoint {
        SimEndpoint { end }
    }

    fn post_write(
        &self,
        id: WorkId,
        source: Source,
        target: RemoteAddress,
        immediate: Option<u32>,
        signal: Signal,
    ) -> Result<(), PostError> {
        check_source(&self.end.domain, &source)?;
        if self.end.domain.device.is_some() && matches!(source, Source::Buffer { .. }) {
            return Err(PostError::Invalid("the source is not registered"));
        }
        let kind = WorkKind::Write {
            source,
            target,
            immediate,
        };
        self.end.post(id, signal, kind)
    }
}

impl Endpoint for SimEndpoint {
    fn id(&self) -> EndpointId {
        self.end.id
    }

    fn peer_address(&self) -> SocketAddr {
        self.end.peer_address
    }

    fn attributes(&self) -> EndpointAttributes {
        self.end.attributes
    }

    fn private_data(&self) -> &[u8] {
        &self.end.private_data
    }

    fn domain(&self) -> Rc<dyn Domain> {
        Rc::<super::SimDomain>::clone(&self.end.domain)
    }

    fn post_receive(&self, id: WorkId, buffer: Buffer) -> Result<(), PostError> {
        let mut state = self.end.state.borrow_mut();
        if state.closing || state.ended.is_some() {
            return Err(PostError::Closed);
        }
        let max = self.end.attributes.receive_queue_max as usize;
        state.receives.post(id, buffer, max)?;
        drop(state);
        self.end.charge(|_, adapter| adapter.post_ns.value);
        Ok(())
    }

    fn grant_receives(&self, count: u32) -> Result<(), PostError> {
        let mut state = self.end.state.borrow_mut();
        if state.closing || state.ended.is_some() {
            return Err(PostError::Closed);
        }
        state.receives.grant(count)?;
        drop(state);
        self.end
            .charge(|_, adapter| adapter.post_ns.value * u64::from(count));
        Ok(())
    }

    fn post_send(&self, id: WorkId, source: Source, options: SendOptions) -> Result<(), PostError> {
        check_source(&self.end.domain, &source)?;
        let end = MessageEnd {
            invalidate: match options.invalidate {
                Invalidate::None => None,
                Invalidate::Key(key) => Some(key),
            },
            solicited: options.solicited,
        };
        self.end.charge(|machine, _| machine.send_message_ns.value);
        self.end
            .post(id, options.signal, WorkKind::Send { source, end })
    }

    fn post_write(
        &self,
        id: WorkId,
        source: Source,
        target: RemoteAddress,
        signal: Signal,
    ) -> Result<(), PostError> {
        SimEndpoint::post_write(self, id, source, target, None, signal)
    }

    fn post_write_with_immediate(
        &self,
        id: WorkId,
        source: Source,
        target: RemoteAddress,
        immediate: u32,
        signal: Signal,
    ) -> Result<(), PostError> {
        let device = self.end.domain.device.as_ref();
        if !device.is_some_and(|device| device.powers.immediates) {
            return Err(PostError::Invalid("the adapter has no immediates"));
        }
        // It stands for a message of the protocol above.
        self.end.charge(|machine, _| machine.send_message_ns.value);
        SimEndpoint::post_write(self, id, source, target, Some(immediate), signal)
    }

    fn post_read(&self, id: WorkId, sink: Span, source: RemoteAddress) -> Result<(), PostError> {
        if !check_span(&self.end.domain, &sink)?.is_memory() {
            return Err(PostError::Invalid("a file is no sink"));
        }
        if self.end.attributes.ord == 0 {
            return Err(PostError::Invalid("no read depth was agreed"));
        }
        let kind = WorkKind::Read {
            sink,
            source,
            access_key: None,
        };
        self.end.post(id, Signal::Always, kind)
    }

    fn authenticate(&self, key: CapabilityKey) {
        self.end.state.borrow_mut().authenticator.set_key(key);
    }

    fn post_optimistic_read(
        &self,
        id: WorkId,
        sink: Span,
        source: Reference,
    ) -> Result<(), PostError> {
        if !check_span(&self.end.domain, &sink)?.is_memory() {
            return Err(PostError::Invalid("a file is no sink"));
        }
        let has_key = self.end.state.borrow().authenticator.has_key();
        if !self.end.attributes.exceptions || !has_key || self.end.attributes.ord == 0 {
            return Err(PostError::Invalid("no optimistic read was agreed"));
        }
        if sink.len > OPTIMISTIC_READ_MAX {
            return Err(PostError::Invalid("an optimistic read of more than 64 KiB"));
        }
        let kind = WorkKind::Read {
            sink,
            source: source.address,
            access_key: Some(source.access_key),
        };
        self.end.post(id, Signal::Always, kind)
    }

    fn flush(&self) {
        self.end.flush();
    }

    fn poll_completions(
        &self,
        context: &mut Context<'_>,
        completions: &mut Vec<Completion>,
    ) -> Poll<Result<(), Disconnected>> {
        let mut state = self.end.state.borrow_mut();
        if !state.completions.is_empty() {
            let first = completions.len();
            completions.extend(state.completions.drain(..));
            drop(state);
            self.end.charge_completions(&completions[first..]);
            return Poll::Ready(Ok(()));
        }
        if let Some(reason) = &state.ended {
            return Poll::Ready(Err(reason.clone()));
        }
        let executor = &self.end.fabric.core.executor;
        executor.note_wait(Wait::Completions(self.end.id.0));
        *self.end.waker.borrow_mut() = Some(context.waker().clone());
        Poll::Pending
    }

    fn close(&self) {
        self.end.flush();
        self.end.state.borrow_mut().closing = true;
        self.end.pump();
    }

    fn abort(&self, why: &str) {
        if self.end.state.borrow().ended.is_none() {
            self.end.terminate(why.to_string(), None);
        }
    }
}

impl Drop for SimEndpoint {
    fn drop(&mut self) {
        let end = &self.end;
        if end.state.borrow().ended.is_none() {
            let core = &end.fabric.core;
            if core.is_up(end.node) {
                end.transmit(Segment::Reset);
            } else if let Some(peer) = end.peer.borrow().upgrade() {
                // Without power no segment leaves; the peer times out after [`SILENCE_NS`].
                let at = core.executor.now() + SILENCE_NS;
                core.executor
                    .schedule(at, None, move || peer.finish(Disconnected::TimedOut));
            }
            end.finish(Disconnected::Local);
        }
        // No owner will poll for them. Cleared here, so that their buffers return to their pools now.
        end.state.borrow_mut().completions.clear();
    }
}

fn check_source(domain: &SimDomain, source: &Source) -> Result<(), PostError> {
    match source {
        Source::Buffer { buffer, len } if *len as usize > buffer.len() => {
            Err(PostError::Invalid("longer than its buffer"))
        }
        Source::Span(span) => check_span(domain, span).map(drop),
        Source::File { .. }
            if domain
                .device
                .as_ref()
                .is_some_and(|device| !device.powers.file_pages) =>
        {
            Err(PostError::Invalid("no file is a source"))
        }
        Source::File { offset, len, .. } => offset
            .checked_add(u64::from(*len))
            .map(|_| ())
            .ok_or(PostError::Invalid("a file does not go on for ever")),
        Source::Buffer { .. } => Ok(()),
    }
}

/// The region of a span, checked to lie inside it.
fn check_span<'a>(domain: &SimDomain, span: &'a Span) -> Result<&'a TableRegion, PostError> {
    let region = match &domain.device {
        Some(device) => DeviceRegion::of(&*span.region).and_then(|region| region.for_post(device)),
        None => TableRegion::of(&*span.region),
    };
    let region = region.ok_or(PostError::Invalid("not a span of memory registered here"))?;
    match region.check_local(span.offset, u64::from(span.len)) {
        Ok(()) => Ok(region),
        Err(_) => Err(PostError::Invalid("a span outside its region")),
    }
}
