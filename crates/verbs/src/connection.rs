//! One queue pair in operation.

mod files;
mod memory;
mod windows;

use self::memory::Memory;
use crate::core::{Core, IdWatch, Reservation, is_done};
use crate::limits::{
    CLOSE_TIME_MAX, IDLE_TIME_MAX, PROBE_TIME_MAX, REASON_TIME_MAX, SEND_QUEUE_OWN,
    SLOW_BYTES_PER_SECOND, UNSIGNALED_MAX,
};
use crate::receives::{ReceiveSide, VerbsReceiveQueue};
use crate::region::Entry;
use crate::sys::{
    CmId, QueuePair, ReceiveWork, SendWork, WC_RECV_RDMA_WITH_IMM, WC_WITH_INV, Wc, WorkKind,
    status,
};
use crate::work::{
    distance, name_of_own, name_of_sent, reason_of_received, reason_of_sent, work_error,
};
use gannet_fabric::{
    Completion, Disconnected, Done, EndpointAttributes, EndpointId, PostError, RemoteKey, Signal,
    Source, WorkError, WorkId,
};
use gannet_runtime::{Buffer, Instant};
use std::cell::{Cell, RefCell};
use std::collections::{HashMap, VecDeque};
use std::io::ErrorKind;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

/// One queue pair, from its creation until it is destroyed.
pub(crate) struct Connection {
    id: EndpointId,
    core: Rc<Core>,
    attributes: Cell<EndpointAttributes>,
    device: RefCell<Option<InDevice>>,
    state: RefCell<State>,
    waker: Cell<Option<Waker>>,
    /// Memory whose window is bound to the pair, by its key.
    bound: RefCell<HashMap<u32, Weak<Entry>>>,
    /// Memory whose window is to be unbound.
    unbinding: RefCell<Vec<Rc<Entry>>>,
}

/// The parts of a connection in the device. The pair is destroyed before its room for completions is given back.
pub(crate) struct InDevice {
    pub(crate) pair: QueuePair,
    pub(crate) _reservation: Reservation,
    pub(crate) watch: IdWatch,
}

struct State {
    phase: Phase,
    /// Posted work that waits for a flush.
    queued: Vec<Work>,
    /// Work in the device, oldest first.
    started: VecDeque<Work>,
    /// The number of the oldest work in the device.
    oldest: u64,
    /// Work of the user that is queued or started.
    occupied: u32,
    /// Work since the last one that completes by itself.
    unsignaled: u32,
    receives: ReceiveSide,
    completions: VecDeque<Completion>,
    last_traffic: Instant,
    probed: Option<Instant>,
    /// Sends or RDMA were flushed for a reason that the device does not name.
    cut_off: bool,
    /// Work is queued for which the device had no room.
    is_held_back: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Phase {
    Connecting,
    Open,
    /// This end closes: posted work goes on.
    Closing(Instant),
    /// The device broke the pair, and the connection manager may yet say why.
    Broken(Instant),
    /// The pair is about to be destroyed.
    Ending(Disconnected),
    Ended(Disconnected),
}

/// One piece of work.
struct Work {
    id: WorkId,
    done: Done,
    signal: Signal,
    kind: WorkKind,
    /// Work of the provider's own: nobody hears of it.
    is_own: bool,
    /// It has a completion of its own.
    signaled: bool,
    /// The outcome of work that waits for earlier work: iWARP sends on while an RDMA Read is under way.
    outcome: Option<Result<Done, WorkError>>,
    memory: Memory,
}

impl Work {
    /// Its completion says that the peer is there.
    fn is_probe(&self) -> bool {
        self.is_own && matches!(self.kind, WorkKind::Write { .. })
    }

    /// Ends the work; gives its completion, if the poster wants one.
    fn end(self, outcome: Result<Done, WorkError>) -> Option<Completion> {
        let Memory {
            registration,
            region,
            slot,
            entry,
            file,
            buffer,
            ..
        } = self.memory;
        drop((registration, region, slot, file));
        if let (WorkKind::Unbind { .. }, Some(entry)) = (self.kind, entry) {
            entry.unbound(outcome.is_ok());
        }
        let is_wanted = outcome.is_err() || self.signal == Signal::Always;
        (is_wanted && !self.is_own).then_some(Completion {
            id: self.id,
            outcome,
            buffer,
        })
    }
}

impl Connection {
    pub(crate) fn new(
        core: &Rc<Core>,
        device: InDevice,
        receives: ReceiveSide,
        attributes: EndpointAttributes,
    ) -> Rc<Connection> {
        let number = device.pair.number();
        let events = Rc::clone(&device.watch.events);
        let connection = Rc::new(Connection {
            id: core.next_id(),
            core: Rc::clone(core),
            attributes: Cell::new(attributes),
            device: RefCell::new(Some(device)),
            state: RefCell::new(State {
                phase: Phase::Connecting,
                queued: Vec::new(),
                started: VecDeque::new(),
                oldest: 0,
                occupied: 0,
                unsignaled: 0,
                receives,
                completions: VecDeque::new(),
                last_traffic: core.now(),
                probed: None,
                cut_off: false,
                is_held_back: false,
            }),
            waker: Cell::default(),
            bound: RefCell::default(),
            unbinding: RefCell::default(),
        });
        *events.connection.borrow_mut() = Rc::downgrade(&connection);
        core.add_connection(&connection, number);
        connection
    }

    pub(crate) fn id(&self) -> EndpointId {
        self.id
    }

    pub(crate) fn core(&self) -> &Rc<Core> {
        &self.core
    }

    pub(crate) fn attributes(&self) -> EndpointAttributes {
        self.attributes.get()
    }

    /// The connection stands, with this many RDMA Reads from here at once.
    ///
    /// # Errors
    /// It has ended meanwhile.
    pub(crate) fn open(&self, ord: u16) -> Result<(), Disconnected> {
        let mut state = self.state.borrow_mut();
        match &state.phase {
            Phase::Ending(reason) | Phase::Ended(reason) => return Err(reason.clone()),
            Phase::Connecting => state.phase = Phase::Open,
            Phase::Open | Phase::Closing(_) | Phase::Broken(_) => {}
        }
        state.last_traffic = self.core.now();
        self.attributes.set(EndpointAttributes {
            ord,
            ..self.attributes.get()
        });
        Ok(())
    }

    /// Offers memory for one message.
    ///
    /// # Errors
    /// See [`gannet_fabric::Endpoint::post_receive`].
    pub(crate) fn post_receive(&self, id: WorkId, buffer: Buffer) -> Result<(), PostError> {
        let device = self.device.borrow();
        let mut guard = self.state.borrow_mut();
        let state = &mut *guard;
        if !matches!(state.phase, Phase::Connecting | Phase::Open) {
            return Err(PostError::Closed);
        }
        let ReceiveSide::Own(receives) = &mut state.receives else {
            return Err(PostError::Invalid("the endpoint shares its receives"));
        };
        if receives.len() >= self.attributes.get().receive_queue_max as usize {
            return Err(PostError::QueueFull);
        }
        let pair = &device.as_ref().ok_or(PostError::Closed)?.pair;
        let added = receives.add(id, buffer, &self.core.messages, &self.core.domain);
        let (number, piece) = added.map_err(|error| {
            tracing::warn!(%error, "the memory of a receive could not be registered");
            PostError::Invalid("the memory cannot be registered")
        })?;
        let work = ReceiveWork {
            id: name_of_own(self.id.0, number),
            piece,
        };
        if pair.post_receives(&[work]).is_err() {
            tracing::warn!("the device refused a receive");
            receives.take_last();
            return Err(PostError::QueueFull);
        }
        Ok(())
    }

    /// Lets the peer take `count` more receives of the shared queue.
    ///
    /// # Errors
    /// See [`gannet_fabric::Endpoint::grant_receives`].
    pub(crate) fn grant(&self, count: u32) -> Result<(), PostError> {
        let mut state = self.state.borrow_mut();
        if !matches!(state.phase, Phase::Connecting | Phase::Open) {
            return Err(PostError::Closed);
        }
        match &mut state.receives {
            ReceiveSide::Own(_) => Err(PostError::Invalid("the endpoint has receives of its own")),
            ReceiveSide::Shared { granted, .. } => {
                *granted = granted.saturating_add(count);
                Ok(())
            }
        }
    }

    /// Posts work with memory that `prepare` finds.
    ///
    /// # Errors
    /// See [`PostError`].
    pub(crate) fn post(
        self: &Rc<Self>,
        id: WorkId,
        signal: Signal,
        kind: WorkKind,
        source: Source,
    ) -> Result<(), PostError> {
        if self.is_full() {
            // A poster that never waits finds here that its work is done.
            self.core.advance();
        }
        if self.state.borrow().phase != Phase::Open {
            return Err(PostError::Closed);
        }
        if self.is_full() {
            return Err(PostError::QueueFull);
        }
        let done = match kind {
            WorkKind::Send { .. } | WorkKind::SendAndInvalidate { .. } => Done::Sent,
            WorkKind::Write { .. }
            | WorkKind::WriteWithImmediate { .. }
            | WorkKind::Bind(_)
            | WorkKind::Unbind { .. } => Done::Written,
            WorkKind::Read { .. } => Done::Read,
        };
        let memory = self.prepare(source, signal, done == Done::Sent)?;
        let mut state = self.state.borrow_mut();
        state.occupied += 1;
        state.queued.push(Work {
            id,
            done,
            signal,
            kind,
            is_own: false,
            signaled: false,
            outcome: None,
            memory,
        });
        Ok(())
    }

    fn is_full(&self) -> bool {
        self.state.borrow().occupied >= self.attributes.get().send_queue_max
    }

    /// Gives queued work to the device.
    pub(crate) fn start(self: &Rc<Self>) {
        if let Some(reason) = self.start_queued() {
            self.core.end(self, reason);
            self.core.advance();
        }
    }

    /// As [`Connection::start`]; gives the reason when the device refused work.
    pub(crate) fn start_queued(&self) -> Option<Disconnected> {
        let device = self.device.borrow();
        let pair = &device.as_ref()?.pair;
        let mut guard = self.state.borrow_mut();
        let state = &mut *guard;
        if !matches!(state.phase, Phase::Open | Phase::Closing(_)) {
            return None;
        }
        self.queue_unbinds(state);
        let ready = match Connection::gather(state) {
            Ok(ready) => ready,
            Err(reason) => return Some(reason),
        };
        // Binds come on top of the user's work, which has its bound.
        let capacity = (self.attributes.get().send_queue_max + SEND_QUEUE_OWN) as usize;
        let count = ready.min(capacity.saturating_sub(state.started.len()));
        state.is_held_back = count < ready;
        if count == 0 {
            return None;
        }
        let first = state.oldest + state.started.len() as u64;
        let mut requests = Vec::with_capacity(count);
        for (number, work) in (first..).zip(state.queued.iter_mut().take(count)) {
            // A completion says that all work before it is done too.
            state.unsignaled += 1;
            let is_last = state.is_held_back && requests.len() + 1 == count;
            let signaled =
                work.signal == Signal::Always || state.unsignaled >= UNSIGNALED_MAX || is_last;
            if signaled {
                state.unsignaled = 0;
            }
            work.signaled = signaled;
            requests.push(SendWork {
                id: name_of_sent(self.id.0, number),
                kind: work.kind,
                piece: work.memory.piece,
                inline: work.memory.inline,
                signaled,
            });
        }
        let posted = pair.post_send(&requests);
        for mut work in state.queued.drain(..count) {
            if work.memory.inline && work.signal == Signal::OnError {
                // The post has copied it.
                work.memory.buffer = None;
            }
            state.started.push_back(work);
        }
        state.last_traffic = self.core.now();
        posted.err().map(|index| {
            tracing::error!(index, "the device refused a work request");
            Disconnected::Lost(ErrorKind::Other)
        })
    }

    /// Posts work of the provider's own, an RDMA Write of nothing, which completes after all work before it.
    fn post_own(&self) {
        let kind = WorkKind::Write { address: 0, key: 0 };
        self.state.borrow_mut().queued.push(Work {
            id: WorkId(0),
            done: Done::Written,
            signal: Signal::Always,
            kind,
            is_own: true,
            signaled: false,
            outcome: None,
            memory: Memory::default(),
        });
    }

    /// Handles the completion of work; gives the reason when it ends the connection.
    pub(crate) fn sent(&self, sequence: u32, code: u32) -> Option<Disconnected> {
        let mut guard = self.state.borrow_mut();
        let state = &mut *guard;
        let behind = distance(state.oldest, sequence);
        if behind >= state.started.len() {
            return None;
        }
        state.last_traffic = self.core.now();
        // Earlier work without a completion of its own is done; other work may still be under way.
        for work in state.started.iter_mut().take(behind) {
            if !work.signaled {
                work.outcome = Some(Ok(work.done));
            }
        }
        if let Some(work) = state.started.get_mut(behind) {
            let failed = code != status::SUCCESS;
            work.outcome = Some(if failed {
                Err(work_error(code))
            } else {
                Ok(work.done)
            });
        }
        while let Some(outcome) = state.started.front().and_then(|work| work.outcome) {
            let work = state.started.pop_front()?;
            state.oldest += 1;
            state.occupied -= u32::from(!work.is_own);
            state.probed = state.probed.filter(|_| !work.is_probe());
            state.completions.extend(work.end(outcome));
        }
        if code != status::SUCCESS {
            tracing::debug!(id = self.id.0, code, "work failed");
        }
        let reason = match code {
            status::SUCCESS => state.reason_of_idle(),
            _ => state.reason_of_failure(reason_of_sent(code), self.core.now(), true),
        };
        drop(guard);
        self.wake();
        reason
    }

    /// As [`Connection::sent`], of a receive of its own.
    pub(crate) fn received_own(&self, completion: &Wc) -> Option<Disconnected> {
        let mut guard = self.state.borrow_mut();
        let state = &mut *guard;
        let ReceiveSide::Own(receives) = &mut state.receives else {
            return None;
        };
        let (id, buffer) = receives.take(bytes_in_receive(completion))?;
        let is_too_long =
            is_done(completion) && bytes_in_receive(completion) as usize > buffer.len();
        let mut completion = *completion;
        if is_too_long {
            completion.status = status::LOC_LEN_ERR;
        }
        if self.is_unasked(&completion) {
            return Some(unasked_immediate());
        }
        let reason = state.receive(id, buffer, &completion, self.core.now());
        drop(guard);
        let reason = self.note_invalidation(&completion).or(reason);
        self.wake();
        reason
    }

    /// As [`Connection::sent`], of a receive of a shared queue.
    pub(crate) fn received_shared(
        &self,
        completion: &Wc,
        queue: &VerbsReceiveQueue,
        index: u32,
    ) -> Option<Disconnected> {
        let mut guard = self.state.borrow_mut();
        let state = &mut *guard;
        if !is_done(completion) {
            queue.post_again(index);
            let reason = reason_of_received(completion.status);
            return state.reason_of_failure(reason, self.core.now(), false);
        }
        if matches!(state.phase, Phase::Ended(_)) {
            queue.post_again(index);
            return None;
        }
        if self.is_unasked(completion) {
            queue.post_again(index);
            return Some(unasked_immediate());
        }
        if !state.receives.use_grant() {
            queue.post_again(index);
            let why = "it sent more messages than it was granted".to_owned();
            return Some(Disconnected::PeerMisbehaved(why));
        }
        let (id, buffer) = queue.take(index)?;
        let reason = state.receive(id, buffer, completion, self.core.now());
        drop(guard);
        let reason = self.note_invalidation(completion).or(reason);
        self.wake();
        reason
    }

    /// An immediate that the owner does not take. Its receive has bytes of earlier messages, which are of other peers.
    fn is_unasked(&self, completion: &Wc) -> bool {
        has_written(completion) && !self.attributes.get().immediates
    }

    /// Adds all completions; pending when there are none.
    pub(crate) fn poll_completions(
        &self,
        context: &mut Context<'_>,
        completions: &mut Vec<Completion>,
    ) -> Poll<Result<(), Disconnected>> {
        if self.take_completions(completions) > 0 {
            return Poll::Ready(Ok(()));
        }
        self.core.advance();
        if self.take_completions(completions) > 0 {
            return Poll::Ready(Ok(()));
        }
        if let Phase::Ended(reason) = &self.state.borrow().phase {
            return Poll::Ready(Err(reason.clone()));
        }
        self.waker.set(Some(context.waker().clone()));
        Poll::Pending
    }

    /// Moves all completions, and returns their number.
    pub(crate) fn take_completions(&self, completions: &mut Vec<Completion>) -> usize {
        let mut state = self.state.borrow_mut();
        let count = state.completions.len();
        completions.extend(state.completions.drain(..));
        count
    }

    /// Refuses new work, and ends the connection after the posted work.
    pub(crate) fn close(self: &Rc<Self>) {
        let is_idle = {
            let mut state = self.state.borrow_mut();
            if state.phase != Phase::Open {
                return;
            }
            state.phase = Phase::Closing(self.core.now());
            state.queued.is_empty() && state.started.is_empty()
        };
        if is_idle {
            self.core.end(self, Disconnected::Local);
            self.core.advance();
            return;
        }
        self.post_own();
        self.start();
    }

    /// Ends the connection now.
    pub(crate) fn abort(self: &Rc<Self>, reason: Disconnected) {
        self.core.end(self, reason);
        self.core.advance();
    }

    /// Drops completions that no one will take, so that their memory goes home.
    pub(crate) fn discard(&self) {
        let completions = std::mem::take(&mut self.state.borrow_mut().completions);
        drop(completions);
    }

    /// The reason for an end that the peer began.
    pub(crate) fn reason_of_peer(&self) -> Disconnected {
        let state = self.state.borrow();
        match state.phase {
            Phase::Closing(_) => Disconnected::Local,
            _ if state.cut_off => Disconnected::Lost(ErrorKind::ConnectionReset),
            _ => Disconnected::Peer,
        }
    }

    /// Notes why the connection ends; false when its end has begun before.
    pub(crate) fn begin_end(&self, reason: Disconnected) -> bool {
        let mut state = self.state.borrow_mut();
        if matches!(state.phase, Phase::Ending(_) | Phase::Ended(_)) {
            return false;
        }
        state.phase = Phase::Ending(reason);
        true
    }

    /// Tells the peer and breaks the pair, so that its work is flushed.
    pub(crate) fn break_pair(&self) {
        let device = self.device.borrow();
        if let Some(InDevice { pair, .. }) = &*device {
            if let Err(error) = pair.id().disconnect() {
                tracing::debug!(%error, "the connection had ended");
            }
            pair.break_now();
        }
    }

    /// Destroys the pair and flushes all work. Gives the pair's number and id.
    pub(crate) fn finish(&self) -> Option<(u32, Arc<CmId>)> {
        self.drop_windows();
        let device = self.device.borrow_mut().take();
        let gone = device.map(|device| {
            let names = (device.pair.number(), Arc::clone(device.pair.id()));
            // The device reaches no memory of the work below after this.
            drop(device);
            names
        });
        let mut guard = self.state.borrow_mut();
        let state = &mut *guard;
        let queued = std::mem::take(&mut state.queued);
        let work = state.started.drain(..).chain(queued);
        let flushed = work.filter_map(|work| {
            let outcome = work.outcome.unwrap_or(Err(WorkError::Flushed));
            work.end(outcome)
        });
        state.completions.extend(flushed);
        state.occupied = 0;
        match &mut state.receives {
            ReceiveSide::Own(receives) => {
                let receives = receives.drain().into_iter();
                let flushed = receives.map(|(id, buffer)| Completion {
                    id,
                    outcome: Err(WorkError::Flushed),
                    buffer: Some(buffer),
                });
                state.completions.extend(flushed);
            }
            ReceiveSide::Shared { granted, .. } => *granted = 0,
        }
        if let Phase::Ending(reason) = &state.phase {
            tracing::debug!(id = self.id.0, %reason, "connection ended");
            state.phase = Phase::Ended(reason.clone());
        }
        drop(guard);
        self.wake();
        gone
    }

    /// Looks at the deadlines; gives the reason when one has passed.
    pub(crate) fn tick(self: &Rc<Self>, now: Instant) -> Option<Disconnected> {
        let needs_probe = {
            let mut state = self.state.borrow_mut();
            match state.phase {
                Phase::Closing(since) if now - since > CLOSE_TIME_MAX => {
                    return Some(Disconnected::Local);
                }
                Phase::Broken(since) if now - since > REASON_TIME_MAX => {
                    return Some(Disconnected::Lost(ErrorKind::ConnectionReset));
                }
                Phase::Open => {}
                _ => return None,
            }
            match state.probed {
                Some(since) if now - since.max(state.last_traffic) > state.probe_time_max() => {
                    return Some(Disconnected::TimedOut);
                }
                Some(_) => false,
                None if now - state.last_traffic > IDLE_TIME_MAX => {
                    state.probed = Some(now);
                    true
                }
                None => false,
            }
        };
        if needs_probe {
            self.post_own();
            self.start();
        }
        None
    }

    fn wake(&self) {
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }
}

impl State {
    /// How long the answer to a probe may take behind the work that is posted.
    fn probe_time_max(&self) -> Duration {
        let pieces = self.started.iter().filter_map(|work| work.memory.piece);
        let bytes: u64 = pieces.map(|piece| u64::from(piece.len())).sum();
        PROBE_TIME_MAX + Duration::from_secs(bytes / SLOW_BYTES_PER_SECOND)
    }

    /// The end of a connection that closes, when all its work is done.
    fn reason_of_idle(&self) -> Option<Disconnected> {
        let is_closing = matches!(self.phase, Phase::Closing(_));
        (is_closing && self.started.is_empty() && self.queued.is_empty())
            .then_some(Disconnected::Local)
    }

    /// Notes that work failed. Gives the reason if the device names one; the connection manager may name one later.
    fn reason_of_failure(
        &mut self,
        named: Option<Disconnected>,
        now: Instant,
        is_send: bool,
    ) -> Option<Disconnected> {
        match self.phase {
            Phase::Closing(_) => return Some(Disconnected::Local),
            Phase::Open | Phase::Broken(_) => {}
            Phase::Connecting | Phase::Ending(_) | Phase::Ended(_) => return None,
        }
        if named.is_none() {
            self.cut_off |= is_send;
            if self.phase == Phase::Open {
                self.phase = Phase::Broken(now);
            }
        }
        named
    }

    /// Adds the completion of a receive; gives the reason when it ends the connection.
    fn receive(
        &mut self,
        id: WorkId,
        buffer: Buffer,
        completion: &Wc,
        now: Instant,
    ) -> Option<Disconnected> {
        let buffer = Some(buffer);
        if !is_done(completion) {
            let outcome = Err(WorkError::Flushed);
            self.completions.push_back(Completion {
                id,
                outcome,
                buffer,
            });
            let reason = reason_of_received(completion.status);
            return self.reason_of_failure(reason, now, false);
        }
        self.last_traffic = now;
        let invalidated = completion.wc_flags & WC_WITH_INV != 0;
        let done = if has_written(completion) {
            Done::ReceivedImmediate {
                immediate: u32::from_be(completion.invalidated_rkey),
                len: completion.byte_len,
            }
        } else {
            Done::Received {
                len: completion.byte_len,
                invalidated: invalidated.then_some(RemoteKey(completion.invalidated_rkey)),
                // Devices do not report it.
                solicited: false,
            }
        };
        let outcome = Ok(done);
        self.completions.push_back(Completion {
            id,
            outcome,
            buffer,
        });
        None
    }
}

fn unasked_immediate() -> Disconnected {
    let why = "an RDMA Write with Immediate, which nobody takes here";
    Disconnected::PeerMisbehaved(why.to_owned())
}

/// True for the receive of an RDMA Write with Immediate, whose bytes are elsewhere.
fn has_written(completion: &Wc) -> bool {
    is_done(completion) && completion.opcode == WC_RECV_RDMA_WITH_IMM
}

/// Bytes that the device has put into the receive.
fn bytes_in_receive(completion: &Wc) -> u32 {
    if has_written(completion) {
        0
    } else {
        completion.byte_len
    }
}
