//! The adapter's queue pairs: work runs in order, one piece after the other, each some time after it was started.

use super::memory::{NicDomain, NicRegion};
use gannet_fabric::{
    AccessError, Completion, Disconnected, Domain, Done, Endpoint, EndpointAttributes, EndpointId,
    Invalidate, PostError, RemoteAddress, SendOptions, Signal, Source, Span, WorkError, WorkId,
};
use gannet_runtime::{Buffer, Handle, sleep};
use gannet_softrdma::EndpointReceives;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::rc::{Rc, Weak};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

/// How long a piece of work takes.
const WORK_TIME: Duration = Duration::from_micros(3);

/// One end of a connection.
pub(crate) struct End {
    pub(crate) id: EndpointId,
    pub(crate) runtime: Handle,
    pub(crate) domain: Rc<NicDomain>,
    pub(crate) peer_address: SocketAddr,
    pub(crate) private_data: Vec<u8>,
    pub(crate) attributes: EndpointAttributes,
    pub(crate) peer: RefCell<Weak<End>>,
    state: RefCell<EndState>,
    waker: Cell<Option<Waker>>,
}

struct EndState {
    posted: VecDeque<Work>,
    started: VecDeque<Work>,
    receives: EndpointReceives,
    completions: VecDeque<Completion>,
    running: bool,
    closing: bool,
    ended: Option<Disconnected>,
}

struct Work {
    id: WorkId,
    signal: Signal,
    kind: Kind,
}

enum Kind {
    Send(Source, SendOptions),
    Write(Source, RemoteAddress),
    Read(Span, RemoteAddress),
}

/// The reason why work failed, and the end of the connection that broke a rule.
enum Failed {
    Here(WorkError),
    There(WorkError, String),
}

impl Work {
    fn into_buffer(self) -> Option<Buffer> {
        match self.kind {
            Kind::Send(Source::Buffer { buffer, .. }, _) => Some(buffer),
            _ => None,
        }
    }
}

impl End {
    pub(crate) fn new(
        id: EndpointId,
        runtime: Handle,
        domain: Rc<NicDomain>,
        peer_address: SocketAddr,
        private_data: Vec<u8>,
        attributes: EndpointAttributes,
        receives: EndpointReceives,
    ) -> Rc<End> {
        Rc::new(End {
            id,
            runtime,
            domain,
            peer_address,
            private_data,
            attributes,
            peer: RefCell::default(),
            state: RefCell::new(EndState {
                posted: VecDeque::new(),
                started: VecDeque::new(),
                receives,
                completions: VecDeque::new(),
                running: false,
                closing: false,
                ended: None,
            }),
            waker: Cell::default(),
        })
    }

    fn post(&self, id: WorkId, signal: Signal, kind: Kind) -> Result<(), PostError> {
        let mut state = self.state.borrow_mut();
        if state.closing || state.ended.is_some() {
            return Err(PostError::Closed);
        }
        if state.posted.len() + state.started.len() >= self.attributes.send_queue_max as usize {
            return Err(PostError::QueueFull);
        }
        state.posted.push_back(Work { id, signal, kind });
        Ok(())
    }

    fn start(self: &Rc<Self>) {
        let mut guard = self.state.borrow_mut();
        let state = &mut *guard;
        state.started.append(&mut state.posted);
        let idle = state.started.is_empty() && !state.closing;
        if idle || state.ended.is_some() || std::mem::replace(&mut state.running, true) {
            return;
        }
        let end = Rc::clone(self);
        let running = async move { while end.step().await {} };
        self.runtime.spawn("nic work", Box::pin(running));
    }

    /// Does the next piece of work; false when there is none.
    async fn step(self: &Rc<Self>) -> bool {
        sleep(&self.runtime, WORK_TIME).await;
        let work = {
            let mut state = self.state.borrow_mut();
            let work = state.started.pop_front();
            state.running = work.is_some() && state.ended.is_none();
            work
        };
        let Some(work) = work else {
            if self.state.borrow().closing {
                self.finish(Disconnected::Local);
                self.finish_peer(Disconnected::Peer);
            }
            return false;
        };
        let peer = self.peer.borrow().upgrade();
        let Some(peer) = peer.filter(|peer| peer.state.borrow().ended.is_none()) else {
            self.state.borrow_mut().started.push_front(work);
            self.finish(Disconnected::Lost(ErrorKind::ConnectionReset));
            return false;
        };
        match self.execute(&peer, &work.kind) {
            Ok(done) => {
                if work.signal == Signal::Always {
                    self.complete(work, Ok(done));
                }
                true
            }
            Err(Failed::Here(error)) => {
                self.complete(work, Err(error));
                self.finish(Disconnected::Local);
                self.finish_peer(Disconnected::Lost(ErrorKind::ConnectionReset));
                false
            }
            Err(Failed::There(error, why)) => {
                self.complete(work, Err(error));
                self.finish(Disconnected::PeerTerminated(why.clone()));
                self.finish_peer(Disconnected::PeerMisbehaved(why));
                false
            }
        }
    }

    fn execute(&self, peer: &End, kind: &Kind) -> Result<Done, Failed> {
        let local = |error| Failed::Here(WorkError::Local(error));
        let refused = |error: AccessError| {
            Failed::There(WorkError::Remote(error), format!("access refused: {error}"))
        };
        match kind {
            Kind::Send(source, options) => {
                let bytes = self.fetch(source).map_err(local)?;
                peer.take_message(&bytes, *options)
                    .map_err(|why| Failed::There(WorkError::Flushed, why))?;
                Ok(Done::Sent)
            }
            Kind::Write(source, target) => {
                let bytes = self.fetch(source).map_err(local)?;
                (peer.domain)
                    .write(peer.id, target.key, target.offset, &bytes)
                    .map_err(refused)?;
                Ok(Done::Written)
            }
            Kind::Read(sink, source) => {
                let bytes = (peer.domain)
                    .read(peer.id, source.key, source.offset, sink.len)
                    .map_err(refused)?;
                let region = region_of(sink).ok_or_else(|| local(AccessError::InvalidKey))?;
                region.write(sink.offset, &bytes).map_err(local)?;
                Ok(Done::Read)
            }
        }
    }

    fn fetch(&self, source: &Source) -> Result<Vec<u8>, AccessError> {
        match source {
            Source::Buffer { buffer, len } => Ok(buffer[..*len as usize].to_vec()),
            Source::Span(span) => {
                let region = region_of(span).ok_or(AccessError::InvalidKey)?;
                region.read(span.offset, span.len)
            }
            Source::File { .. } => Err(AccessError::InvalidKey),
        }
    }

    /// Takes a message of the peer into the next receive.
    fn take_message(&self, bytes: &[u8], options: SendOptions) -> Result<(), String> {
        let mut state = self.state.borrow_mut();
        let taken = state.receives.take();
        let (id, mut buffer) = taken.ok_or("a message and no receive for it")?;
        if bytes.len() > buffer.len() {
            return Err(String::from("a message longer than its receive"));
        }
        buffer[..bytes.len()].copy_from_slice(bytes);
        let mut invalidated = None;
        if let Invalidate::Key(key) = options.invalidate {
            (self.domain)
                .invalidate(self.id, key)
                .map_err(|error| format!("invalidate refused: {error}"))?;
            invalidated = Some(key);
        }
        let done = Done::Received {
            len: bytes.len() as u32,
            invalidated,
            solicited: options.solicited,
        };
        state.completions.push_back(Completion {
            id,
            outcome: Ok(done),
            buffer: Some(buffer),
        });
        drop(state);
        self.wake();
        Ok(())
    }

    fn complete(&self, work: Work, outcome: Result<Done, WorkError>) {
        let (id, buffer) = (work.id, work.into_buffer());
        self.state.borrow_mut().completions.push_back(Completion {
            id,
            outcome,
            buffer,
        });
        self.wake();
    }

    fn finish(&self, reason: Disconnected) {
        let mut guard = self.state.borrow_mut();
        let state = &mut *guard;
        if state.ended.is_some() {
            return;
        }
        state.ended = Some(reason);
        let work = state.started.drain(..).chain(state.posted.drain(..));
        let work = work.map(|work| (work.id, work.into_buffer()));
        let receives = state.receives.drain().into_iter();
        let receives = receives.map(|(id, buffer)| (id, Some(buffer)));
        let flushed = work.chain(receives).map(|(id, buffer)| Completion {
            id,
            outcome: Err(WorkError::Flushed),
            buffer,
        });
        state.completions.extend(flushed);
        drop(guard);
        self.wake();
    }

    fn finish_peer(&self, reason: Disconnected) {
        if let Some(peer) = self.peer.borrow().upgrade() {
            peer.finish(reason);
        }
    }

    fn wake(&self) {
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }

    fn check_span(&self, span: &Span) -> Result<(), PostError> {
        NicRegion::of(span, &self.domain)
            .map(drop)
            .ok_or(PostError::Invalid("not a span of memory registered here"))
    }
}

/// The region of work that was posted before.
fn region_of(span: &Span) -> Option<&NicRegion> {
    let region: &dyn std::any::Any = &*span.region;
    region.downcast_ref()
}

/// The owner's handle of an end; its drop breaks the connection.
pub(crate) struct NicEndpoint(pub(crate) Rc<End>);

impl Endpoint for NicEndpoint {
    fn id(&self) -> EndpointId {
        self.0.id
    }

    fn peer_address(&self) -> SocketAddr {
        self.0.peer_address
    }

    fn attributes(&self) -> EndpointAttributes {
        self.0.attributes
    }

    fn private_data(&self) -> &[u8] {
        &self.0.private_data
    }

    fn domain(&self) -> Rc<dyn Domain> {
        Rc::<NicDomain>::clone(&self.0.domain)
    }

    fn post_receive(&self, id: WorkId, buffer: Buffer) -> Result<(), PostError> {
        let mut state = self.0.state.borrow_mut();
        if state.closing || state.ended.is_some() {
            return Err(PostError::Closed);
        }
        let max = self.0.attributes.receive_queue_max as usize;
        state.receives.post(id, buffer, max)
    }

    fn grant_receives(&self, count: u32) -> Result<(), PostError> {
        let mut state = self.0.state.borrow_mut();
        if state.closing || state.ended.is_some() {
            return Err(PostError::Closed);
        }
        state.receives.grant(count)
    }

    fn post_send(&self, id: WorkId, source: Source, options: SendOptions) -> Result<(), PostError> {
        match &source {
            // Messages have a pool of registered memory.
            Source::Buffer { buffer, len } if *len as usize <= buffer.len() => {}
            Source::Span(span) => self.0.check_span(span)?,
            _ => return Err(PostError::Invalid("no such source")),
        }
        self.0.post(id, options.signal, Kind::Send(source, options))
    }

    fn post_write(
        &self,
        id: WorkId,
        source: Source,
        target: RemoteAddress,
        signal: Signal,
    ) -> Result<(), PostError> {
        let Source::Span(span) = &source else {
            return Err(PostError::Invalid("the source is not registered"));
        };
        self.0.check_span(span)?;
        self.0.post(id, signal, Kind::Write(source, target))
    }

    fn post_read(&self, id: WorkId, sink: Span, source: RemoteAddress) -> Result<(), PostError> {
        self.0.check_span(&sink)?;
        if self.0.attributes.ord == 0 {
            return Err(PostError::Invalid("no read depth was agreed"));
        }
        self.0.post(id, Signal::Always, Kind::Read(sink, source))
    }

    fn flush(&self) {
        self.0.start();
    }

    fn poll_completions(
        &self,
        context: &mut Context<'_>,
        completions: &mut Vec<Completion>,
    ) -> Poll<Result<(), Disconnected>> {
        let mut state = self.0.state.borrow_mut();
        if !state.completions.is_empty() {
            completions.extend(state.completions.drain(..));
            return Poll::Ready(Ok(()));
        }
        if let Some(reason) = &state.ended {
            return Poll::Ready(Err(reason.clone()));
        }
        self.0.waker.set(Some(context.waker().clone()));
        Poll::Pending
    }

    fn close(&self) {
        self.0.state.borrow_mut().closing = true;
        self.0.start();
    }

    fn abort(&self, why: &str) {
        self.0.finish(Disconnected::PeerMisbehaved(why.to_owned()));
        self.0
            .finish_peer(Disconnected::PeerTerminated(why.to_owned()));
    }
}

impl Drop for NicEndpoint {
    fn drop(&mut self) {
        self.0.finish(Disconnected::Local);
        self.0
            .finish_peer(Disconnected::Lost(ErrorKind::ConnectionReset));
        // No owner will poll for them. Cleared here, so that their buffers return to their pools now.
        self.0.state.borrow_mut().completions.clear();
    }
}
