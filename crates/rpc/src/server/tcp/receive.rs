//! From received bytes to calls: small records in place, large ones into memory of their own.

use super::{Connection, End, finish};
use crate::limits::{
    FRAGMENTS_MAX, HEADER_PREFIX_MAX, LARGE_RECORD, LOOKAHEAD_LEN, PAYLOAD_MAX, RECORD_MAX,
    STAGE_LEN,
};
use crate::server::admit::{Admission, admit};
use crate::server::worker::Job;
use crate::service::{Placed, Service, Transport};
use gannet_runtime::Buffer;
use gannet_wire::rpc::{
    AcceptStatus, RECORD_MARK_LEN, RecordEvent, RecordMark, RecordReader, WholeRecord,
};
use gannet_wire::xdr::pad_len;
use std::io::{self, IoSliceMut};

/// Small records after which a connection that sent a large one is read in full stages again. In between, reading
/// stops shortly behind each header, so that a payload is not copied out of the stage.
const LARGE_MEMORY: u32 = 32;
/// Arguments behind a payload; a call with more comes in one piece.
const TAIL_MAX: usize = 1024;

/// What one attempt to receive brought.
pub(super) enum Received {
    Nothing,
    /// The socket was not readable after all: wait for it anew, or nobody will wake us.
    Spurious,
    End,
    Bytes(usize),
}

/// The receiving half of a connection.
pub(super) struct Inbound {
    reader: RecordReader,
    state: State,
    /// The beginning of a record that is not complete, or records that a bound holds back.
    partial: Vec<u8>,
    /// `partial` holds records that a bound held back.
    backlog: bool,
    /// A payload waits for memory.
    short_of_memory: bool,
    /// Counts down small records since a large one.
    large: u32,
    /// A record was completed since the last look.
    completed: bool,
}

enum State {
    Between,
    /// A record in several fragments, or a large one without payload, is put together.
    Assembling(Vec<u8>),
    /// It is complete, and waits for the bounds to allow its call.
    Assembled(Vec<u8>),
    Placing(Box<Placing>),
}

/// A call whose payload is being received.
struct Placing {
    job: Box<Job>,
    buffer: Buffer,
    len: usize,
    filled: usize,
    pad: usize,
    /// Bytes of arguments behind the pad.
    tail: usize,
}

impl Placing {
    /// Takes what is there of the record; says how much.
    fn feed(&mut self, input: &[u8]) -> usize {
        let mut used = 0;
        if let Some(target) = self.buffer.get_mut(self.filled..self.len) {
            let count = target.len().min(input.len());
            target
                .iter_mut()
                .zip(input)
                .for_each(|(to, from)| *to = *from);
            self.filled += count;
            used += count;
        }
        let pad = self.pad.min(input.len() - used);
        self.pad -= pad;
        used += pad;
        let (_, rest) = input.split_at(used);
        let (tail, _) = rest.split_at(self.tail.min(rest.len()));
        self.job.call.arguments.extend_from_slice(tail);
        self.tail -= tail.len();
        used + tail.len()
    }

    fn is_complete(&self) -> bool {
        self.filled == self.len && self.pad == 0 && self.tail == 0
    }

    fn into_job(self) -> Box<Job> {
        let Placing {
            mut job,
            buffer,
            len,
            ..
        } = self;
        let position = job.tag;
        *job.call.placed.get_mut() = Some(Placed {
            buffer,
            len,
            position,
        });
        job
    }
}

/// How a large record goes on.
enum Large {
    Placing(Box<Placing>, usize),
    Assembling,
    NoMemory,
}

impl Inbound {
    pub(super) fn new() -> Inbound {
        // Bounded by its type: RECORD_MAX is far below 2^31.
        let record_max = u32::try_from(RECORD_MAX).unwrap_or(u32::MAX);
        Inbound {
            reader: RecordReader::new(record_max, FRAGMENTS_MAX),
            state: State::Between,
            partial: Vec::new(),
            backlog: false,
            short_of_memory: false,
            large: 0,
            completed: false,
        }
    }

    /// True when no byte of a next record is here.
    pub(super) fn at_boundary(&self) -> bool {
        matches!(self.state, State::Between) && self.partial.is_empty()
    }

    pub(super) fn has_backlog(&self) -> bool {
        self.backlog
    }

    pub(super) fn is_short_of_memory(&self) -> bool {
        self.short_of_memory
    }

    /// Bytes of memory that incomplete and held back records take.
    pub(super) fn memory(&self) -> usize {
        let record = match &self.state {
            State::Between => 0,
            State::Assembling(message) | State::Assembled(message) => message.capacity(),
            State::Placing(placing) => placing.buffer.len() + placing.job.kept(),
        };
        self.partial.capacity() + record
    }

    /// Bytes of them that wait for the peer to go on.
    pub(super) fn owed(&self) -> usize {
        match (self.backlog, &self.state) {
            (true, _) | (_, State::Assembled(_)) => 0,
            _ => self.memory(),
        }
    }

    /// Keeps no memory that nothing is in.
    pub(super) fn rest(&mut self) {
        if self.partial.is_empty() && self.partial.capacity() > LOOKAHEAD_LEN {
            self.partial = Vec::new();
        }
    }

    /// Whether a record was completed since the last question.
    pub(super) fn take_completed(&mut self) -> bool {
        std::mem::take(&mut self.completed)
    }
}

impl<S: Service> Connection<S> {
    /// True when the budget allows to receive. What is left of a payload goes to memory that is charged already.
    pub(super) fn has_room_to_receive(&mut self) -> bool {
        match &self.inbound.state {
            State::Placing(_) => true,
            State::Assembling(message) => {
                // Twice as much when it grows.
                let more = message.capacity().max(LARGE_RECORD);
                self.has_room_for(more)
            }
            State::Between | State::Assembled(_) => {
                self.is_tight = !self.activity.account().has_room_for(STAGE_LEN);
                let is_little = self.inbound.partial.len() < LOOKAHEAD_LEN;
                !self.is_tight || is_little || self.has_room_for(LOOKAHEAD_LEN)
            }
        }
    }

    /// True when the bounds allow to start the call in `job`.
    fn may_start(&mut self, job: &Job) -> bool {
        let reply = self.core.service.reply_bytes_max(&job.call);
        self.may_receive() && self.has_room_for(reply)
    }

    /// Receives once and starts what is complete. `stage` is only lent.
    pub(super) fn receive_into(&mut self, stage: &mut [u8]) -> Result<Received, End> {
        let kept = self.inbound.partial.len();
        if self.inbound.backlog {
            let partial = std::mem::take(&mut self.inbound.partial);
            let used = self.consume(&partial)?;
            let progress = used > 0;
            self.inbound.partial = partial;
            self.inbound.partial.drain(..used);
            // A backlog is progress without bytes. Half a record is none any more: it waits for the socket.
            return Ok(match (progress, self.inbound.backlog) {
                (true, _) => Received::Bytes(0),
                (false, true) => Received::Nothing,
                (false, false) => Received::Spurious,
            });
        }
        stage
            .iter_mut()
            .zip(&self.inbound.partial)
            .for_each(|(to, from)| *to = *from);
        let count = match self.read(stage, kept) {
            Ok(None) => return Ok(Received::End),
            Ok(Some(count)) => count,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                return Ok(Received::Spurious);
            }
            Err(error) => return Err(error.into()),
        };
        let available = kept + count.staged;
        let input = stage.get(..available).unwrap_or(stage);
        self.inbound.partial.clear();
        let used = self.consume(input)?;
        self.inbound
            .partial
            .extend_from_slice(input.get(used..).unwrap_or(&[]));
        Ok(Received::Bytes(count.staged + count.placed))
    }

    /// One system call: behind the `kept` bytes of `stage`, or into the payload being received.
    fn read(&mut self, stage: &mut [u8], kept: usize) -> io::Result<Option<Arrived>> {
        if let State::Placing(placing) = &mut self.inbound.state
            && placing.filled < placing.len
        {
            let ahead = stage.get_mut(..LOOKAHEAD_LEN).unwrap_or(&mut []);
            let target = placing
                .buffer
                .get_mut(placing.filled..placing.len)
                .unwrap_or(&mut []);
            let wanted = target.len();
            let mut slices = [IoSliceMut::new(target), IoSliceMut::new(ahead)];
            let count = self.stream.try_read_vectored(&mut slices)?;
            let placed = count.min(wanted);
            placing.filled += placed;
            return Ok((count > 0).then_some(Arrived {
                placed,
                staged: count - placed,
            }));
        }
        // What is kept beyond that is part of a small record: its rest comes in one go.
        let window = if self.is_tight {
            stage.len().min(kept + LOOKAHEAD_LEN)
        } else if self.inbound.large > 0 && kept < LOOKAHEAD_LEN {
            LOOKAHEAD_LEN
        } else {
            stage.len()
        };
        let target = stage.get_mut(kept..window).unwrap_or(&mut []);
        let count = self.stream.try_read(target)?;
        Ok((count > 0).then_some(Arrived {
            placed: 0,
            staged: count,
        }))
    }

    /// Starts all calls that are complete in `input`; says how many bytes are used up.
    fn consume(&mut self, input: &[u8]) -> Result<usize, End> {
        let mut rest = input;
        let mut calls = 0;
        self.inbound.backlog = false;
        self.inbound.short_of_memory = false;
        while let Some(used) = self.step(rest, &mut calls)? {
            rest = rest.get(used..).unwrap_or(&[]);
        }
        self.core.counters.calls.add(calls);
        self.inbound.completed |= calls > 0;
        Ok(input.len() - rest.len())
    }

    /// Takes one bite of `input`; `None` when there is nothing to bite off.
    fn step(&mut self, input: &[u8], calls: &mut u64) -> Result<Option<usize>, End> {
        match &mut self.inbound.state {
            State::Between => {}
            State::Assembling(message) => {
                let (event, used) = self.inbound.reader.next(input)?;
                match event {
                    RecordEvent::NeedMore => return Ok(None),
                    RecordEvent::Fragment(_) => {}
                    RecordEvent::Piece { bytes, ends } => {
                        message.extend_from_slice(bytes);
                        if ends {
                            self.inbound.state = State::Assembled(std::mem::take(message));
                        }
                    }
                }
                return Ok(Some(used));
            }
            State::Assembled(message) => {
                let message = std::mem::take(message);
                if !self.dispatch(&message, calls)? {
                    self.inbound.state = State::Assembled(message);
                    self.inbound.backlog = true;
                    return Ok(None);
                }
                self.inbound.state = State::Between;
                return Ok(Some(0));
            }
            State::Placing(placing) => {
                let used = placing.feed(input);
                if !placing.is_complete() {
                    return Ok((used > 0).then_some(used));
                }
                if let State::Placing(placing) =
                    std::mem::replace(&mut self.inbound.state, State::Between)
                {
                    *calls += 1;
                    self.start(placing.into_job());
                }
                return Ok(Some(used));
            }
        }
        if input.is_empty() {
            return Ok(None);
        }
        if !self.may_receive() {
            self.inbound.backlog = true;
            return Ok(None);
        }
        if let Some(WholeRecord { record, rest }) = self.inbound.reader.whole(input)?
            && record.len() <= LARGE_RECORD
        {
            if !self.dispatch(record, calls)? {
                self.inbound.backlog = true;
                return Ok(None);
            }
            self.inbound.large = self.inbound.large.saturating_sub(1);
            return Ok(Some(input.len() - rest.len()));
        }
        self.step_into_record(input)
    }

    /// The record at the front of `input` is not complete: decides how to receive the rest of it.
    fn step_into_record(&mut self, input: &[u8]) -> Result<Option<usize>, End> {
        let Some((mark, body)) = input.split_first_chunk::<RECORD_MARK_LEN>() else {
            return Ok(None);
        };
        let mark = RecordMark::from_bytes(*mark);
        let length = mark.length as usize;
        if !mark.last {
            self.inbound.state = State::Assembling(Vec::new());
            return Ok(Some(0));
        }
        if length <= LARGE_RECORD {
            return Ok(None);
        }
        self.inbound.large = LARGE_MEMORY;
        if body.len() < HEADER_PREFIX_MAX {
            return Ok(None);
        }
        match self.begin_large(length, body)? {
            Large::Placing(placing, used) => {
                self.inbound.state = State::Placing(placing);
                Ok(Some(RECORD_MARK_LEN + used))
            }
            Large::Assembling => {
                self.inbound.state = State::Assembling(Vec::new());
                Ok(Some(0))
            }
            Large::NoMemory => {
                self.inbound.backlog = true;
                self.inbound.short_of_memory = true;
                Ok(None)
            }
        }
    }

    /// Looks for a payload in a record of `length` bytes whose beginning is `body`.
    fn begin_large(&mut self, length: usize, body: &[u8]) -> Result<Large, End> {
        let mut job = self.core.take_job();
        let admission = match admit(&*self.core.service, &mut job, body) {
            Err(_) if self.back.answered_by(body).is_some() => Admission::Answer,
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
        let behind = length.saturating_sub(arguments_at + head.len());
        let tail = behind
            .checked_sub(len + pad_len(len))
            .filter(|tail| *tail <= TAIL_MAX);
        let (Some(tail), true) = (tail, len <= PAYLOAD_MAX) else {
            self.core.put_job(job);
            return Ok(Large::Assembling);
        };
        if !self.has_room_for(len) {
            self.core.put_job(job);
            return Ok(Large::NoMemory);
        }
        let buffer = self.core.payloads.take(len);
        let call = &mut job.call;
        call.arguments.clear();
        call.arguments.extend_from_slice(head);
        job.tag = head.len();
        let used = arguments_at + head.len();
        let placing = Placing {
            job,
            buffer,
            len,
            filled: 0,
            pad: pad_len(len),
            tail,
        };
        Ok(Large::Placing(Box::new(placing), used))
    }

    /// Starts the call in a complete record, and counts it; false, and nothing done, while the bounds do not allow it.
    /// A record may be the reply to a call of ours as well.
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
            Admission::Answer => {
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
        let (ip, now) = (self.peer.ip(), self.deadlines.now());
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
        self.core.put_job(job);
    }
}

/// Bytes that one system call brought.
struct Arrived {
    placed: usize,
    staged: usize,
}
