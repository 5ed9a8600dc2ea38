//! A simulated queue pair: one transmitter per end, one handler per arriving segment.

use super::domain::Reach;
use super::segment::{Fetched, MessageEnd, Proof, Segment, fetch, fetch_region};
use super::{EndSetup, PeerIdentity, SimDomain, SimFabric};
use crate::network::{Breakable, Channel};
use crate::nic::{Activity, Adapter, Host, Machine};
use crate::world::NodeId;
use gannet_fabric::{
    AccessError, AccessKey, Completion, ConnectError, Disconnected, Done, EndpointAttributes,
    EndpointId, PostError, Reference, RemoteAddress, Signal, Source, Span, WorkError, WorkId,
};
use gannet_runtime::{Buffer, FileRef, Handle};
use gannet_softrdma::{AccessKind, Authenticator, EndpointReceives, OptimisticRead};
use std::cell::{Cell, RefCell, RefMut};
use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::rc::{Rc, Weak};
use std::task::Waker;

/// How long a peer waits for a node that lost its power.
pub(super) const SILENCE_NS: u64 = 5_000_000_000;

/// One end of a connection.
pub(super) struct End {
    pub(super) fabric: Rc<SimFabric>,
    pub(super) node: NodeId,
    pub(super) runtime: Handle,
    pub(super) domain: Rc<SimDomain>,
    pub(super) host: Option<Rc<Host>>,
    pub(super) id: EndpointId,
    pub(super) peer_address: SocketAddr,
    pub(super) private_data: Vec<u8>,
    pub(super) attributes: EndpointAttributes,
    pub(super) channel: Rc<Channel>,
    pub(super) peer: RefCell<Weak<End>>,
    pub(super) state: RefCell<EndState>,
    pub(super) waker: RefCell<Option<Waker>>,
    /// Its owner was woken by an interrupt and has not polled since.
    pub(super) interrupted: Cell<bool>,
    pub(super) next_read: Cell<u64>,
}

pub(super) struct EndState {
    /// Work that is posted and not flushed yet.
    pub(super) posted: VecDeque<Work>,
    /// Flushed; the head is being transmitted.
    pub(super) queue: VecDeque<Work>,
    /// Reads that reached the head of the queue, in order; the first `reads_asked` are with the peer.
    pub(super) reads: VecDeque<PendingRead>,
    pub(super) reads_asked: u16,
    /// Work that has left; the adapter waits for the peer's acknowledgement.
    pub(super) unacknowledged: VecDeque<Work>,
    /// Responses to the peer's reads that are not complete, in the order of its requests.
    pub(super) answers: VecDeque<Answer>,
    pub(super) authenticator: Authenticator,
    pub(super) receives: EndpointReceives,
    /// The receive of the message whose last segment is still to come.
    pub(super) receiving: Option<(WorkId, Buffer)>,
    pub(super) completions: VecDeque<Completion>,
    /// Work accepted and not completed.
    pub(super) outstanding: u32,
    /// A segment is leaving, or waits for its bytes from the disk. No other segment starts meanwhile, or it would
    /// overtake.
    pub(super) transmitting: bool,
    /// The disk's bytes for the segment that waits for them, taken by the next segment of that sender.
    pub(super) fetched: Option<(Sender, Result<Vec<u8>, io::ErrorKind>)>,
    pub(super) closing: bool,
    pub(super) ended: Option<Disconnected>,
}

pub(super) struct Work {
    pub(super) posted_at: u64,
    pub(super) id: WorkId,
    pub(super) signal: Signal,
    /// Bytes that have left.
    pub(super) sent: u32,
    pub(super) kind: WorkKind,
}

pub(super) enum WorkKind {
    Send {
        source: Source,
        end: MessageEnd,
    },
    Write {
        source: Source,
        target: RemoteAddress,
        immediate: Option<u32>,
    },
    Read {
        sink: Span,
        source: RemoteAddress,
        /// The access key of an optimistic read.
        access_key: Option<AccessKey>,
    },
}

pub(super) struct PendingRead {
    pub(super) number: u64,
    pub(super) id: WorkId,
    pub(super) sink: Span,
    pub(super) source: RemoteAddress,
    access_key: Option<AccessKey>,
}

pub(super) struct Answer {
    pub(super) read: u64,
    pub(super) source: RemoteAddress,
    pub(super) len: u32,
    pub(super) sent: u32,
    /// The time at which the adapter has its first byte, in nanoseconds.
    pub(super) ready_at: u64,
    pub(super) refused: Option<AccessError>,
    /// The access key of an optimistic read.
    pub(super) access_key: Option<AccessKey>,
    /// All of its bytes, once they were copied.
    pub(super) taken: Option<Vec<u8>>,
}

/// The queue that a segment comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sender {
    Work,
    Answer,
}

/// The transmitter's next step.
enum Next {
    Nothing,
    ReadRequest,
    Send(Sender),
    End,
}

impl End {
    /// Two connected ends.
    pub(super) fn pair(near: EndSetup, far: EndSetup) -> Result<(Rc<End>, Rc<End>), ConnectError> {
        let (near_identity, far_identity) = (near.identity(), far.identity());
        let near = End::build(near, far_identity)?;
        let far = End::build(far, near_identity)?;
        *near.peer.borrow_mut() = Rc::downgrade(&far);
        *far.peer.borrow_mut() = Rc::downgrade(&near);
        let network = &near.fabric.core.network;
        let weak = Rc::downgrade(&near);
        network.register(weak);
        Ok((near, far))
    }

    fn build(setup: EndSetup, peer: PeerIdentity) -> Result<Rc<End>, ConnectError> {
        let EndSetup {
            side,
            options,
            attributes,
        } = setup;
        let core = &side.fabric.core;
        let receives = EndpointReceives::new(options.receives)
            .ok_or(ConnectError::Unsupported("receives of another provider"))?;
        Ok(Rc::new(End {
            id: EndpointId(core.network.take_id()),
            channel: Channel::new(core, side.node, peer.node),
            fabric: side.fabric,
            node: side.node,
            runtime: side.runtime,
            domain: side.domain,
            host: side.host,
            peer_address: peer.address,
            private_data: peer.private_data,
            attributes,
            peer: RefCell::default(),
            state: RefCell::new(EndState::new(receives)),
            waker: RefCell::default(),
            interrupted: Cell::new(false),
            next_read: Cell::new(0),
        }))
    }

    /// Sends a segment; gives the time at which it has left.
    pub(super) fn transmit(&self, segment: Segment) -> u64 {
        let core = &self.fabric.core;
        let (len, id) = (segment.len(), self.id.0);
        core.trace(format_args!("endpoint {id} sends {} {len}", segment.name()));
        let peer = self.peer.borrow().clone();
        self.channel.send(len, move || {
            if let Some(peer) = peer.upgrade() {
                peer.arrived(segment);
            }
        })
    }

    /// Transmits the next segment, if there is one and the last has left.
    pub(super) fn pump(self: &Rc<Self>) {
        loop {
            let next = self.choose();
            let segment = match next {
                Next::Nothing => return,
                Next::End => {
                    self.transmit(Segment::End);
                    self.finish(Disconnected::Local);
                    return;
                }
                Next::ReadRequest => self.read_request().map(|segment| (segment, false)),
                Next::Send(Sender::Answer) => self.answer_segment().map(|segment| (segment, false)),
                Next::Send(Sender::Work) => self.work_segment(),
            };
            // Without a segment the head has failed, moved or waits for the disk: choose again.
            let Some((segment, completes)) = segment else {
                continue;
            };
            if self.fabric.random.below(1_000_000) < self.fabric.profile.get().resets_per_million {
                self.break_now();
                return;
            }
            // Set before the segment is sent: the delivery may pump this end again.
            self.state.borrow_mut().transmitting = true;
            let left_at = self.transmit(segment);
            let end = Rc::clone(self);
            let core = &self.fabric.core;
            core.executor.schedule(left_at, Some(self.node), move || {
                end.state.borrow_mut().transmitting = false;
                if completes {
                    end.complete_head();
                }
                end.pump();
            });
            return;
        }
    }

    fn choose(&self) -> Next {
        let state = self.state.borrow();
        if state.transmitting || state.ended.is_some() {
            return Next::Nothing;
        }
        let may_ask = state.reads_asked < self.attributes.ord
            && usize::from(state.reads_asked) < state.reads.len();
        let is_over = state.posted.is_empty() && state.unacknowledged.is_empty();
        let now = self.fabric.core.executor.now();
        let may_answer = state
            .answers
            .front()
            .is_some_and(|answer| answer.ready_at <= now);
        let may_work = !state.queue.is_empty() && !self.is_head_held_up(&state);
        if let Some((sender, _)) = &state.fetched {
            return Next::Send(*sender);
        }
        if may_ask && !state.closing {
            return Next::ReadRequest;
        }
        // A random number is drawn only when both may send, or the draws after this one would change.
        if may_answer && (!may_work || self.fabric.random.chance(500)) {
            Next::Send(Sender::Answer)
        } else if may_work {
            Next::Send(Sender::Work)
        } else if is_over && state.closing && state.has_nothing_to_send() {
            Next::End
        } else {
            Next::Nothing
        }
    }

    /// True if a Read beyond the depth is at the head and holds up the work after it, since hardware takes work in
    /// order.
    fn is_head_held_up(&self, state: &EndState) -> bool {
        let is_read = |work: &Work| matches!(work.kind, WorkKind::Read { .. });
        self.host.is_some()
            && state.queue.front().is_some_and(is_read)
            && state.reads.len() >= usize::from(self.attributes.ord)
    }

    fn read_request(&self) -> Option<Segment> {
        let mut guard = self.state.borrow_mut();
        let state = &mut *guard;
        let read = state.reads.get(usize::from(state.reads_asked))?;
        let (source, len) = (read.source, read.sink.len);
        let proof = read.access_key.map(|access_key| {
            let timestamp = state.authenticator.next_timestamp();
            Proof::new(&state.authenticator, source, len, access_key, timestamp)
        });
        let segment = Segment::ReadRequest {
            read: read.number,
            source,
            len,
            proof,
        };
        state.reads_asked += 1;
        Some(segment)
    }

    /// The next segment of the head of the queue, and whether it is the last.
    fn work_segment(self: &Rc<Self>) -> Option<(Segment, bool)> {
        let mut guard = self.state.borrow_mut();
        let state = &mut *guard;
        if matches!(state.queue.front()?.kind, WorkKind::Read { .. }) {
            let number = self.next_read.replace(self.next_read.get() + 1);
            let read = state.queue.pop_front()?.into_read(number)?;
            state.reads.push_back(read);
            return None;
        }
        let fetched = state.take_fetched();
        let work = state.queue.front_mut()?;
        let (WorkKind::Send { source, .. } | WorkKind::Write { source, .. }) = &work.kind else {
            return None;
        };
        let at = work.sent;
        let left = (source.len() - at) as usize;
        let len = left.min(self.fabric.profile.get().segment_len);
        let fetched = fetched.unwrap_or_else(|| fetch(source, u64::from(at), len));
        let bytes = match fetched {
            Fetched::Bytes(bytes) => bytes,
            Fetched::Cold { file, offset } => {
                drop(guard);
                self.bring(Sender::Work, file, offset, len);
                return None;
            }
            Fetched::Failed(error) => {
                drop(guard);
                self.fail_head(error);
                return None;
            }
        };
        work.sent += u32::try_from(len).unwrap_or(u32::MAX);
        let last = len == left;
        let segment = match &work.kind {
            WorkKind::Write {
                target, immediate, ..
            } => Segment::Write {
                target: RemoteAddress {
                    key: target.key,
                    offset: target.offset.wrapping_add(u64::from(at)),
                },
                bytes,
                immediate: immediate.filter(|_| last).map(|word| (word, work.sent)),
            },
            WorkKind::Send { end, .. } => Segment::Message {
                offset: at as usize,
                bytes,
                last: last.then_some(*end),
            },
            WorkKind::Read { .. } => return None,
        };
        Some((segment, last))
    }

    /// The next segment of the response to the peer's oldest read.
    fn answer_segment(self: &Rc<Self>) -> Option<Segment> {
        let mut guard = self.state.borrow_mut();
        let state = &mut *guard;
        let fetched = state.take_fetched();
        let answer = state.answers.front_mut()?;
        let (read, at) = (answer.read, answer.sent);
        if let Some(why) = answer.refused {
            state.answers.pop_front();
            return Some(Segment::ReadRefused { read, why });
        }
        let left = (answer.len - at) as usize;
        let len = left.min(self.fabric.profile.get().segment_len);
        if let Some(access_key) = answer.access_key {
            return self.exported_segment(guard, access_key, len);
        }
        let mut source = answer.source;
        source.offset += u64::from(at);
        let kind = AccessKind::RemoteRead;
        let granted = self.domain.check(self.id, source, len as u64, kind);
        granted
            .iter()
            .for_each(|reach| self.domain.note(reach, kind));
        let fetched = match (granted, fetched) {
            (Ok(_), Some(fetched)) => fetched,
            (Ok(Reach::Registered { region, at, .. }), None) => fetch_region(&region, at, len),
            (Ok(Reach::Anything), None) => Fetched::Bytes(vec![0; len]),
            (Err(error), _) => {
                answer.refused = Some(error);
                drop(guard);
                self.refuse_read(read, error);
                return None;
            }
        };
        match fetched {
            Fetched::Bytes(bytes) => {
                answer.sent += u32::try_from(len).unwrap_or(u32::MAX);
                let last = len == left;
                if last {
                    state.answers.pop_front();
                }
                let offset = u64::from(at);
                Some(Segment::ReadResponse {
                    read,
                    offset,
                    bytes,
                    last,
                })
            }
            Fetched::Cold { file, offset } => {
                drop(guard);
                self.bring(Sender::Answer, file, offset, len);
                None
            }
            Fetched::Failed(error) => {
                drop(guard);
                tracing::debug!(endpoint = self.id.0, %error, "a read cannot be answered");
                self.break_now();
                None
            }
        }
    }

    /// The next `len` bytes of an exported object. All bytes are copied when the first ones leave. Otherwise a change
    /// of the object during the transfer could give the peer parts of two states.
    fn exported_segment(
        self: &Rc<Self>,
        mut state: RefMut<'_, EndState>,
        access_key: AccessKey,
        len: usize,
    ) -> Option<Segment> {
        let answer = state.answers.front_mut()?;
        if answer.taken.is_none() {
            let read = OptimisticRead {
                endpoint: self.id,
                source: Reference {
                    address: answer.source,
                    access_key,
                },
            };
            let mut bytes = vec![0; answer.len as usize];
            match self.domain.table.read_exported(&read, &mut bytes) {
                Ok(()) => answer.taken = Some(bytes),
                Err(error) => answer.refused = Some(error),
            }
            // The next call sends the first of them, or the refusal.
            return None;
        }
        let at = answer.sent as usize;
        let taken = answer.taken.as_ref()?;
        let bytes = taken.get(at..at + len)?.to_vec();
        let last = at + len == taken.len();
        let (read, offset) = (answer.read, u64::from(answer.sent));
        answer.sent += u32::try_from(len).unwrap_or(u32::MAX);
        if last {
            state.answers.pop_front();
        }
        Some(Segment::ReadResponse {
            read,
            offset,
            bytes,
            last,
        })
    }

    /// Reads a segment's bytes from the disk in a task; no other segment leaves meanwhile.
    fn bring(self: &Rc<Self>, sender: Sender, file: FileRef, offset: u64, len: usize) {
        self.state.borrow_mut().transmitting = true;
        let (end, runtime) = (Rc::clone(self), Rc::clone(&self.runtime));
        let task = async move {
            let brought = gannet_runtime::file::read_cold(&runtime, file, offset, vec![0; len]);
            // Bytes past the end of the file stay zero.
            let brought = brought.await.map(|(bytes, _)| bytes);
            let mut state = end.state.borrow_mut();
            state.fetched = Some((sender, brought.map_err(|error| error.kind())));
            state.transmitting = false;
            drop(state);
            end.pump();
        };
        self.runtime.spawn("fabric disk", Box::pin(task));
    }

    /// Moves the head of the queue to the unacknowledged work, since its last byte has left.
    fn complete_head(self: &Rc<Self>) {
        let mut state = self.state.borrow_mut();
        // The queue is empty if the connection ended meanwhile.
        let Some(work) = state.queue.pop_front() else {
            return;
        };
        state.unacknowledged.push_back(work);
        drop(state);
        let Some(host) = &self.host else {
            return self.acknowledged();
        };
        let (end, core) = (Rc::clone(self), &self.fabric.core);
        let at = core.executor.now() + host.acknowledgement_ns();
        core.executor.schedule(at, Some(self.node), move || {
            end.acknowledged();
            end.pump();
        });
    }

    /// Completes the oldest work that has left.
    fn acknowledged(&self) {
        let mut state = self.state.borrow_mut();
        let Some(work) = state.unacknowledged.pop_front() else {
            return;
        };
        state.outstanding -= 1;
        if let Some(source) = work.unregistered() {
            self.domain.deregister_in_passing(source);
        }
        if work.signal == Signal::Always {
            let done = match work.kind {
                WorkKind::Send { .. } => Done::Sent,
                _ => Done::Written,
            };
            let (id, outcome, buffer) = (work.id, Ok(done), work.into_buffer());
            state.completions.push_back(Completion {
                id,
                outcome,
                buffer,
            });
            drop(state);
            self.notify();
        }
    }

    /// Fails the head of the queue at this end. Later work must not overtake it, so the connection ends.
    fn fail_head(&self, error: WorkError) {
        let mut state = self.state.borrow_mut();
        if let Some(work) = state.queue.pop_front() {
            let (id, outcome, buffer) = (work.id, Err(error), work.into_buffer());
            state.completions.push_back(Completion {
                id,
                outcome,
                buffer,
            });
        }
        drop(state);
        self.transmit(Segment::Reset);
        self.finish(Disconnected::Local);
    }

    /// Ends the connection after a protocol error of the peer, with a Terminate message.
    pub(super) fn terminate(&self, why: String, read: Option<(u64, AccessError)>) {
        self.transmit(Segment::Terminate {
            why: why.clone(),
            read,
        });
        self.finish(Disconnected::PeerMisbehaved(why));
    }

    pub(super) fn survives_refused_reads(&self) -> bool {
        self.fabric.profile.get().survivable_exceptions || self.attributes.exceptions
    }

    pub(super) fn refuse_read(&self, read: u64, error: AccessError) {
        if !self.survives_refused_reads() {
            self.terminate(format!("read refused: {error}"), Some((read, error)));
        }
    }

    /// Ends the connection at this end: all posted work completes as flushed, with its buffers. Only the first call
    /// counts.
    pub(super) fn finish(&self, reason: Disconnected) {
        let mut guard = self.state.borrow_mut();
        let state = &mut *guard;
        if state.ended.is_some() {
            return;
        }
        self.fabric
            .core
            .trace(format_args!("endpoint {} ends: {reason}", self.id.0));
        state.ended = Some(reason);
        self.domain.table.endpoint_ended(self.id);
        let flushed = |id, buffer| Completion {
            id,
            outcome: Err(WorkError::Flushed),
            buffer,
        };
        for read in state.reads.drain(..) {
            state.completions.push_back(flushed(read.id, None));
        }
        let left = state.unacknowledged.drain(..);
        let unsent = state.queue.drain(..).chain(state.posted.drain(..));
        for work in left.chain(unsent) {
            state
                .completions
                .push_back(flushed(work.id, work.into_buffer()));
        }
        let receiving = state.receiving.take().into_iter();
        for (id, buffer) in receiving.chain(state.receives.drain()) {
            state.completions.push_back(flushed(id, Some(buffer)));
        }
        state.outstanding = 0;
        state.fetched = None;
        state.answers.clear();
        drop(guard);
        self.notify();
    }

    /// Queues a piece of work until the next flush.
    ///
    /// # Errors
    /// [`PostError::Closed`] after the end, [`PostError::QueueFull`] beyond the depth of the send queue.
    pub(super) fn post(&self, id: WorkId, signal: Signal, kind: WorkKind) -> Result<(), PostError> {
        let mut work = Work {
            posted_at: 0,
            id,
            signal,
            sent: 0,
            kind,
        };
        if let Some(source) = work.unregistered() {
            self.domain.register_in_passing(source);
        }
        if let Some(host) = &self.host {
            host.count(|events| match work.kind {
                WorkKind::Send { .. } => events.messages += 1,
                WorkKind::Write { .. } => events.writes += 1,
                WorkKind::Read { .. } => events.reads += 1,
            });
        }
        self.charge(|_, adapter| adapter.post_ns.value);
        work.posted_at = self.fabric.core.executor.now();
        let mut state = self.state.borrow_mut();
        if state.closing || state.ended.is_some() {
            return Err(PostError::Closed);
        }
        if state.outstanding >= self.attributes.send_queue_max {
            return Err(PostError::QueueFull);
        }
        state.outstanding += 1;
        state.posted.push_back(work);
        Ok(())
    }

    /// Starts posted work: now, or at the clock of the posting task, if that is ahead.
    pub(super) fn flush(self: &Rc<Self>) {
        let executor = &self.fabric.core.executor;
        let at = executor.now();
        if at == executor.clock() {
            return self.start();
        }
        if !self.state.borrow().posted.is_empty() {
            let end = Rc::clone(self);
            executor.schedule(at, Some(self.node), move || end.start());
        }
    }

    fn start(self: &Rc<Self>) {
        let now = self.fabric.core.executor.now();
        let mut guard = self.state.borrow_mut();
        let state = &mut *guard;
        let due = state.posted.iter().take_while(|work| work.posted_at <= now);
        let due = due.count();
        state.queue.extend(state.posted.drain(..due));
        drop(guard);
        self.pump();
    }

    /// Charges the host, if there is one, for `time` of processor time.
    pub(super) fn charge(&self, time: impl FnOnce(&Machine, &Adapter) -> u64) {
        if let Some(host) = &self.host {
            let profile = host.profile();
            let time = time(&profile.machine, &profile.adapter);
            // Charges of earlier ends come first.
            host.settle();
            host.charge(Activity::Protocol, time);
        }
    }

    /// Charges the host for completions that its owner takes.
    pub(super) fn charge_completions(&self, completions: &[Completion]) {
        let is_message = |completion: &&Completion| {
            (completion.outcome).is_ok_and(|done| done.has_taken_receive())
        };
        let messages = completions.iter().filter(is_message).count() as u64;
        let was_asleep = self.interrupted.replace(false);
        if let Some(host) = &self.host {
            host.count(|events| events.completions += completions.len() as u64);
        }
        self.charge(|machine, adapter| {
            let switch = machine.context_switch_ns.value * u64::from(was_asleep);
            let taking = adapter.completion_ns.value * completions.len() as u64;
            switch + taking + machine.receive_message_ns.value * messages
        });
        if let Some(host) = self.host.as_ref().filter(|_| messages > 0) {
            // The adapter works on several at once, so an owner that takes several waits only for one.
            let found_at = host.now() + host.profile().adapter.match_receive_ns.value;
            self.fabric.core.executor.spend_until(found_at);
        }
    }

    /// Wakes the owner if it waits for completions: on a machine of a testbed by an interrupt. The caller holds no
    /// borrow of the state.
    pub(super) fn notify(&self) {
        let Some(waker) = self.waker.borrow_mut().take() else {
            return;
        };
        let Some(host) = &self.host else {
            return waker.wake();
        };
        self.interrupted.set(true);
        let at = host.interrupt();
        let executor = &self.fabric.core.executor;
        executor.schedule(at, Some(self.node), move || waker.wake());
    }
}

impl Breakable for End {
    fn nodes(&self) -> (NodeId, NodeId) {
        let peer = self.peer.borrow().upgrade();
        (self.node, peer.map_or(self.node, |peer| peer.node))
    }

    fn is_alive(&self) -> bool {
        self.state.borrow().ended.is_none()
    }

    fn break_now(&self) {
        let peer = self.peer.borrow().upgrade();
        let ends = [Some(self), peer.as_deref()];
        for end in ends.into_iter().flatten() {
            end.channel.close();
            end.finish(Disconnected::Lost(io::ErrorKind::ConnectionReset));
        }
    }
}

impl EndState {
    fn new(receives: EndpointReceives) -> EndState {
        EndState {
            posted: VecDeque::new(),
            queue: VecDeque::new(),
            reads: VecDeque::new(),
            reads_asked: 0,
            unacknowledged: VecDeque::new(),
            answers: VecDeque::new(),
            authenticator: Authenticator::default(),
            receives,
            receiving: None,
            completions: VecDeque::new(),
            outstanding: 0,
            transmitting: false,
            fetched: None,
            closing: false,
            ended: None,
        }
    }

    fn take_fetched(&mut self) -> Option<Fetched> {
        self.fetched.take().map(|(_, outcome)| match outcome {
            Ok(bytes) => Fetched::Bytes(bytes),
            Err(kind) => Fetched::Failed(WorkError::File(kind)),
        })
    }

    fn has_nothing_to_send(&self) -> bool {
        self.queue.is_empty() && self.answers.is_empty()
    }
}

impl Work {
    /// The file that is the source of an RDMA Write. Messages have a pool of registered memory.
    fn unregistered(&self) -> Option<&Source> {
        match &self.kind {
            WorkKind::Write { source, .. } if matches!(source, Source::File { .. }) => Some(source),
            _ => None,
        }
    }

    fn into_buffer(self) -> Option<Buffer> {
        match self.kind {
            WorkKind::Send {
                source: Source::Buffer { buffer, .. },
                ..
            }
            | WorkKind::Write {
                source: Source::Buffer { buffer, .. },
                ..
            } => Some(buffer),
            _ => None,
        }
    }

    fn into_read(self, number: u64) -> Option<PendingRead> {
        match self.kind {
            WorkKind::Read {
                sink,
                source,
                access_key,
            } => Some(PendingRead {
                number,
                id: self.id,
                sink,
                source,
                access_key,
            }),
            _ => None,
        }
    }
}
