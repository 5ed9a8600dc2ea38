//! From received bytes to calls: small records in place, large ones into memory of their own.

use super::{Connection, End, finish};
use crate::limits::{LARGE_RECORD, LOOKAHEAD_LEN, STAGE_LEN};
use crate::records::{Event, Placing, Records, State};
use crate::server::admit::{Admission, admit};
use crate::server::worker::Job;
use crate::service::{Placed, Service, Transport};
use gannet_runtime::Instant;
use gannet_runtime::stages::Stage;
use gannet_wire::rpc::{AcceptStatus, RECORD_MARK_LEN};
use std::io;

/// The result of one attempt to receive.
pub(super) enum Received {
    /// A bound holds back the records that are here.
    Nothing,
    /// The socket was not readable after all. Another round must wait for it anew: only that registers the waker (test
    /// `readiness_that_is_none_is_waited_for_anew`).
    Spurious,
    /// The peer closed its side.
    End,
    /// So many bytes came; 0 for records that a bound held back before.
    Bytes(usize),
}

/// The receiving half of a connection.
pub(super) struct Inbound {
    records: Records<Box<Job>>,
    /// Complete records are kept because a bound holds them back. They go on before the socket is read.
    backlog: bool,
    /// The time since which they are.
    backlog_since: Option<Instant>,
    /// A payload waits for room in the budget.
    short_of_memory: bool,
    /// A record was completed since the last [`Inbound::take_completed`].
    completed: bool,
}

/// How a large record goes on.
enum Large {
    Placing(Box<Placing<Box<Job>>>, usize),
    Assembling,
    NoMemory,
}

impl Inbound {
    pub(super) fn new() -> Inbound {
        Inbound {
            records: Records::new(),
            backlog: false,
            backlog_since: None,
            short_of_memory: false,
            completed: false,
        }
    }

    /// True when no byte of a next record is here.
    pub(super) fn at_boundary(&self) -> bool {
        self.records.is_between() && self.records.partial.is_empty()
    }

    pub(super) fn has_backlog(&self) -> bool {
        self.backlog
    }

    pub(super) fn is_short_of_memory(&self) -> bool {
        self.short_of_memory
    }

    /// Bytes of memory that incomplete and held back records take.
    pub(super) fn memory(&self) -> usize {
        let record = match &self.records.state {
            State::Between => 0,
            State::Assembling(message) | State::Assembled(message) => message.capacity(),
            State::Placing(placing) => {
                placing.buffer.len() + placing.around.capacity() + placing.owner.kept()
            }
        };
        self.records.partial.capacity() + record
    }

    /// The part of [`Inbound::memory`] that waits for the peer: 0 while a bound of this server holds the record back.
    pub(super) fn owed(&self) -> usize {
        if self.backlog || matches!(self.records.state, State::Assembled(_)) {
            0
        } else {
            self.memory()
        }
    }

    /// Frees the memory of partial records if it is empty and large.
    pub(super) fn rest(&mut self) {
        let partial = &mut self.records.partial;
        if partial.is_empty() && partial.capacity() > LOOKAHEAD_LEN {
            *partial = Vec::new();
        }
    }

    /// Whether a record was completed since the last call of this.
    pub(super) fn take_completed(&mut self) -> bool {
        std::mem::take(&mut self.completed)
    }
}

impl<S: Service> Connection<S> {
    /// True when the budget allows a receive. The rest of a payload goes to memory that is charged already, so it is
    /// always received: a writer that has begun ends, and frees its memory (test
    /// `slow_writers_finish_their_calls_while_no_client_waits`).
    pub(super) fn has_room_to_receive(&mut self) -> bool {
        match &self.inbound.records.state {
            State::Placing(_) => true,
            State::Assembling(message) => {
                // A vector that grows doubles its memory.
                let more = message.capacity().max(LARGE_RECORD);
                self.has_room_for(more)
            }
            State::Between | State::Assembled(_) => {
                self.is_tight = !self.activity.account().has_room_for(STAGE_LEN);
                let is_little = self.inbound.records.partial.len() < LOOKAHEAD_LEN;
                !self.is_tight || is_little || self.has_room_for(LOOKAHEAD_LEN)
            }
        }
    }

    /// True when the bounds allow to start the call in `job`.
    fn may_start(&mut self, job: &Job) -> bool {
        let reply = self.core.service.reply_bytes_max(&job.call);
        self.may_receive() && self.has_room_for(reply)
    }

    /// Receives once into `stage` and starts the calls that are complete. Bytes of an incomplete record are copied out
    /// of `stage`, which belongs to the core.
    pub(super) fn receive_into(&mut self, stage: &mut [u8]) -> Result<Received, End> {
        let kept = self.inbound.records.partial.len();
        if self.inbound.backlog {
            let partial = std::mem::take(&mut self.inbound.records.partial);
            let used = self.consume(&partial)?;
            self.inbound.records.partial = partial;
            self.inbound.records.partial.drain(..used);
            // A backlog that went on is progress without bytes. If only half a record is left, it is no backlog any
            // more, and the next round waits for the socket.
            return Ok(if used > 0 {
                Received::Bytes(0)
            } else if self.inbound.backlog {
                Received::Nothing
            } else {
                Received::Spurious
            });
        }
        stage
            .iter_mut()
            .zip(&self.inbound.records.partial)
            .for_each(|(to, from)| *to = *from);
        let read = (self.inbound.records).read(&*self.stream, stage, kept, self.is_tight);
        let count = match read {
            Ok(None) => return Ok(Received::End),
            Ok(Some(count)) => count,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                return Ok(Received::Spurious);
            }
            Err(error) => return Err(error.into()),
        };
        self.core.service.moment();
        let available = kept + count.staged;
        let input = stage.get(..available).unwrap_or(stage);
        self.inbound.records.partial.clear();
        let used = self.consume(input)?;
        self.inbound
            .records
            .partial
            .extend_from_slice(input.get(used..).unwrap_or(&[]));
        Ok(Received::Bytes(count.staged + count.placed))
    }

    /// Starts all calls that are complete in `input`; returns the number of bytes used up.
    fn consume(&mut self, input: &[u8]) -> Result<usize, End> {
        let mut rest = input;
        let mut calls = 0;
        self.inbound.backlog = false;
        self.inbound.short_of_memory = false;
        while let Some(used) = self.step(rest, &mut calls)? {
            rest = rest.get(used..).unwrap_or(&[]);
        }
        self.core.counters.calls.add(calls);
        self.client.operations(calls);
        self.inbound.completed |= calls > 0;
        let since = self.inbound.backlog_since.unwrap_or(self.deadlines.now());
        self.inbound.backlog_since = self.inbound.backlog.then_some(since);
        Ok(input.len() - rest.len())
    }

    /// Takes one record, or one part of a long record, off `input`; returns its bytes. `None` when more bytes are
    /// needed or a bound holds the record back.
    fn step(&mut self, input: &[u8], calls: &mut u64) -> Result<Option<usize>, End> {
        if self.inbound.records.is_between() && !input.is_empty() && !self.may_receive() {
            self.inbound.backlog = true;
            return Ok(None);
        }
        let Some((used, event)) = self.inbound.records.next(input)? else {
            return Ok(None);
        };
        match event {
            Event::More => {}
            Event::Small(record) => {
                if !self.dispatch(record, calls)? {
                    self.inbound.backlog = true;
                    return Ok(None);
                }
                self.inbound.records.took_small();
            }
            Event::Assembled(message) => {
                if !self.dispatch(&message, calls)? {
                    self.inbound.records.state = State::Assembled(message);
                    self.inbound.backlog = true;
                    return Ok(None);
                }
            }
            Event::Placed(placing) => {
                *calls += 1;
                self.start(into_job(*placing));
            }
            Event::Large { length, body } => match self.begin_large(length, body)? {
                Large::Placing(placing, used) => {
                    self.inbound.records.state = State::Placing(placing);
                    return Ok(Some(RECORD_MARK_LEN + used));
                }
                Large::Assembling => {
                    self.inbound.records.state = State::Assembling(Vec::new());
                }
                Large::NoMemory => {
                    self.inbound.backlog = true;
                    self.inbound.short_of_memory = true;
                    return Ok(None);
                }
            },
        }
        Ok(Some(used))
    }

    /// Begins a record of `length` bytes whose beginning is `body`: its payload goes to memory of its own, unless it
    /// has none.
    fn begin_large(&mut self, length: usize, body: &[u8]) -> Result<Large, End> {
        let mut job = self.core.take_job();
        let admission = match admit(&*self.core.service, &mut job, body) {
            Err(_) if self.back.answered_by(body).is_some() => Admission::Answer(None),
            admission => admission?,
        };
        let Admission::Execute { arguments_at } = admission else {
            self.core.put_job(job);
            return Ok(Large::Assembling);
        };
        let arguments = body.get(arguments_at..).unwrap_or(&[]);
        let call = &mut job.call;
        let located = self
            .core
            .service
            .locate_payload(call.program, call.procedure, arguments)
            .and_then(|position| arguments.get(..position))
            .and_then(|head| Some((head, u32::from_be_bytes(*head.last_chunk::<4>()?) as usize)));
        let Some((head, len)) = located else {
            self.core.put_job(job);
            return Ok(Large::Assembling);
        };
        let used = arguments_at + head.len();
        let Some(tail) = Placing::<Box<Job>>::tail_of(length, used, len) else {
            self.core.put_job(job);
            return Ok(Large::Assembling);
        };
        if !self.has_room_for(len) {
            self.core.put_job(job);
            return Ok(Large::NoMemory);
        }
        let since = self.inbound.backlog_since.unwrap_or(self.deadlines.now());
        job.watch = self.core.stopwatch(Stage::Queue, since);
        job.enter(Stage::Wire);
        let buffer = self.core.payloads.take(len);
        let mut around = std::mem::take(&mut job.call.arguments);
        around.clear();
        around.extend_from_slice(head);
        job.tag = head.len();
        let placing = Placing::new(job, buffer, len, around, tail);
        Ok(Large::Placing(Box::new(placing), used))
    }

    /// Starts the call in a complete record and counts it; returns false, and does nothing, while the bounds do not
    /// allow it. A record may also be the client's reply to a call of this server.
    fn dispatch(&mut self, record: &[u8], calls: &mut u64) -> Result<bool, End> {
        let mut job = self.core.take_job();
        let admission = match admit(&*self.core.service, &mut job, record) {
            Err(_) if self.back.answered_by(record).is_some() => {
                self.core.put_job(job);
                self.inbound.completed = true;
                let taken = self.back.pending().take_reply(record);
                return taken.map(|()| true).map_err(End::Reply);
            }
            admission => admission?,
        };
        match admission {
            Admission::Execute { arguments_at } => {
                job.call.arguments.clear();
                job.call
                    .arguments
                    .extend_from_slice(record.get(arguments_at..).unwrap_or(&[]));
                if !self.may_start(&job) {
                    self.core.put_job(job);
                    return Ok(false);
                }
                *calls += 1;
                self.start(job);
            }
            Admission::Answer(fault) => {
                self.core.note_fault(self.peer, Transport::Tcp, fault);
                *calls += 1;
                self.outgoing.push_reply(job.call.xid, &mut job.reply);
                self.core.put_job(job);
            }
        }
        Ok(true)
    }

    fn start(&mut self, mut job: Box<Job>) {
        job.call.peer = self.peer;
        job.call.transport = Transport::Tcp;
        job.call.back = Some(self.back.handle());
        let placed = job
            .call
            .placed
            .get_mut()
            .as_ref()
            .map_or(0, |placed| placed.buffer.len());
        job.tag = job.call.arguments.len() + placed;
        job.reserved = self.core.service.reply_bytes_max(&job.call);
        let (bytes, reserved) = (job.tag, job.reserved);
        if job.watch.is_none() {
            let since = self.inbound.backlog_since.unwrap_or(self.deadlines.now());
            job.watch = self.core.stopwatch(Stage::Queue, since);
        }
        let (ip, now) = (self.peer.ip(), self.deadlines.now());
        // Its first reply broke a connection half sent; executed again, it would break this one.
        if self.core.cache.poisoned.contains(ip, job.call.xid, now) {
            job.reply.fail(AcceptStatus::SystemErr);
            self.finish(job);
        } else {
            match self.calls.start(&self.core, job) {
                Some(job) => self.finish(job),
                None => {
                    self.call_bytes += bytes;
                    self.reserved += reserved;
                }
            }
        }
    }

    fn finish(&mut self, mut job: Box<Job>) {
        finish(&self.core, &self.activity, &mut self.outgoing, &mut job);
        self.departing.push(&self.core, self.outgoing.len(), job);
    }
}

/// The call of a record whose payload is complete.
fn into_job(placing: Placing<Box<Job>>) -> Box<Job> {
    let Placing {
        owner: mut job,
        around,
        buffer,
        len,
        ..
    } = placing;
    job.call.arguments = around;
    let position = job.tag;
    *job.call.placed.get_mut() = Some(Placed {
        buffer,
        len,
        position,
    });
    job
}
