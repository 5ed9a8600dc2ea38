//! The reply of a finished call: RDMA Writes and one Send.

use super::exposed::{Part, part_of};
use super::{Connection, End, Work};
use crate::client::{CallError, CallerCredential};
use crate::counters::ReplyForm;
use crate::limits::{CALLBACKS_MAX, DEPARTING_LEN, INLINE_THRESHOLD, OUTGOING_BYTES_MAX};
use crate::server::worker::Job;
use crate::service::{Payload, Reply, Service};
use gannet_datapath::{Datapath, Engine, Part as SourcePart, Ready, Writes};
use gannet_fabric::registration::Registered;
use gannet_fabric::{Invalidate, PostError, RemoteAddress, RemoteKey, SendOptions, Signal, Source};
use gannet_runtime::stages::{self, Stage};
use gannet_runtime::{Buffer, push_lean};
use gannet_session::Grant;
use gannet_wire::rpcrdma::{
    ChunkLists, Design, RDMA_VERSION, Segment, TransportError, TransportHeader, TransportProcedure,
};
use gannet_wire::xdr::{Encoder, pad_len};
use std::io;
use std::time::Duration;

/// Bytes of a transport header before its lists.
pub(super) const FIXED_LEN: usize = 16;

/// A reply ready to leave: the work requests that make it up.
pub(super) struct Departure {
    xid: u32,
    writes: Writes,
    send: Buffer,
    send_len: u32,
    options: SendOptions,
    /// The total of calls that the peer may have sent once it has this reply; see [`gannet_session::Credits`].
    limit: u64,
    /// Bytes of memory that it takes.
    held: usize,
    /// Its call, where the service wants to know where the time goes.
    call: Option<Box<Job>>,
}

/// The resources of a reply in the send queue.
#[derive(Default)]
pub(super) struct Held {
    /// Bytes of memory.
    pub(super) bytes: usize,
    /// The total of calls that the peer may have sent once it has this reply.
    pub(super) limit: u64,
    /// The registered sources of its Writes. They are dropped when the Send is done: work completes in order, so the
    /// Writes before it no longer read them.
    _sources: Vec<Registered>,
    /// As [`Departure::call`].
    pub(super) call: Option<Box<Job>>,
}

/// How a reply travels.
pub(super) struct Plan {
    /// Bytes of the payload that go to the Write chunk.
    placed: u64,
    /// Bytes of RPC message that go to the Reply chunk; `None` when it is sent inline.
    reply_chunk: Option<u64>,
    /// The part that the peer reads itself, in the Read-Read design.
    exposed: Option<Part>,
}

impl Plan {
    /// The plan of a reply of which the peer reads `part`.
    pub(super) fn exposing(part: Part) -> Plan {
        Plan {
            placed: 0,
            reply_chunk: None,
            exposed: Some(part),
        }
    }

    /// The Send has no RPC message.
    fn is_long(&self) -> bool {
        self.reply_chunk.is_some() || self.exposed == Some(Part::Whole)
    }

    fn form(&self) -> ReplyForm {
        match (self.exposed, self.reply_chunk, self.placed) {
            (Some(_), ..) => ReplyForm::Exposed,
            (None, Some(_), _) => ReplyForm::ReplyChunk,
            (None, None, 1..) => ReplyForm::WriteChunk,
            (None, None, 0) => ReplyForm::Inline,
        }
    }

    /// The payload does not travel with the RPC message.
    fn is_reduced(&self) -> bool {
        self.placed > 0 || self.exposed == Some(Part::Payload)
    }
}

impl<S: Service> Connection<S> {
    /// Sends the reply of a call that is finished.
    pub(super) fn finish(&mut self, mut job: Box<Job>) -> Result<(), End> {
        let place = job.tag;
        if !self.activity.is_established() && self.core.service.establishes(&job.call) {
            self.activity.establish();
        }
        if job.call.dropped.get() {
            self.core.put_job(job);
            return self.forget(place);
        }
        let Some(call) = self.context(place) else {
            return Ok(());
        };
        let to_chunk = call
            .lists
            .writes()
            .next()
            .is_some_and(|segments| !segments.is_empty());
        let Some((Payload::File(range), _)) = &job.reply.payload else {
            return self.leave(job, to_chunk);
        };
        let engine = self.memory.path.engine(range.len);
        if to_chunk && engine == Engine::Sendfile {
            self.core.counters.rdma.file(engine, range.len);
            return self.leave(job, to_chunk);
        }
        if !self.reserve(place, range.len) {
            job.enter(Stage::Queue);
            push_lean(&mut self.unread, job);
            return Ok(());
        }
        let engine = if to_chunk { engine } else { Engine::Static };
        self.core.counters.rdma.file(engine, range.len);
        let (runtime, memory) = (&self.core.runtime, |len| self.core.payloads.take(len));
        let ready = if to_chunk {
            self.memory.path.ready(range, runtime, memory)
        } else {
            Datapath::inline(range, runtime, memory)
        };
        match ready {
            Ready::File => {}
            Ready::Memory(buffer) => put_bytes(&mut job.reply, buffer),
            Ready::Cold(read) => {
                job.enter(Stage::FileSystem);
                self.cold.push((job, read));
                return Ok(());
            }
        }
        self.leave(job, to_chunk)
    }

    /// Counts `len` bytes of a file as in memory for the reply of the call in `place`. Returns false, and counts
    /// nothing, while other replies hold [`OUTGOING_BYTES_MAX`]: ten connections that read nothing held 1.3 GB of files
    /// (test `a_slow_reader_has_few_files_in_memory`).
    fn reserve(&mut self, place: usize, len: usize) -> bool {
        if self.reply_bytes > 0 && self.reply_bytes + len > OUTGOING_BYTES_MAX {
            return false;
        }
        if let Some(call) = self.context(place) {
            let reserved = std::mem::take(&mut call.reserved);
            call.reply_bytes += len;
            self.reserved -= reserved;
            self.reply_bytes += len;
        }
        true
    }

    /// Queues a reply that is complete.
    fn leave(&mut self, job: Box<Job>, to_chunk: bool) -> Result<(), End> {
        let place = job.tag;
        let send_max = self.send_max;
        let plan = (self.context(place))
            .and_then(|call| plan(&job.reply, &call.lists, to_chunk, send_max));
        if plan.is_none()
            && let Some(part) = self.part_to_expose(&job)
        {
            job.enter(Stage::Queue);
            push_lean(&mut self.unexposed, (job, part));
            return self.expose_more();
        }
        let Some(plan) = plan else {
            tracing::debug!(peer = %self.peer, xid = job.call.xid, "reply larger than its chunks");
            self.core.put_job(job);
            return self.refuse(place, TransportError::Chunk);
        };
        self.send_off(job, plan)
    }

    /// Queues a reply that travels as planned.
    pub(super) fn send_off(&mut self, mut job: Box<Job>, plan: Plan) -> Result<(), End> {
        let place = job.tag;
        job.enter(Stage::Protocol);
        let watch = job.watch.clone();
        let departure = stages::within(watch.as_ref(), || self.build(&mut job, plan))?;
        let call = match (watch, &departure) {
            (Some(_), Some(_)) => Some(job),
            _ => {
                self.core.put_job(job);
                None
            }
        };
        match departure {
            Some(mut departure) => {
                if let Some(mut job) = call {
                    job.depart();
                    job.enter(Stage::Queue);
                    departure.call = Some(job);
                    departure.held += DEPARTING_LEN;
                    self.reply_bytes += DEPARTING_LEN;
                }
                push_lean(&mut self.departures, departure);
                self.depart()
            }
            None => self.refuse(place, TransportError::Chunk),
        }
    }

    /// The part of a reply that the peer may read itself, in the Read-Read design. A call that offers chunks for
    /// its results is answered there or not at all.
    fn part_to_expose(&mut self, job: &Job) -> Option<Part> {
        let lists = &self.context(job.tag)?.lists;
        let chunks = lists.writes().len() > 0 || lists.reply().is_some();
        let allowed = self.memory.design == Design::ReadRead && !chunks;
        allowed.then(|| part_of(&job.reply, self.send_max, &**self.memory.path.strategy()))?
    }

    /// Goes on with finished calls that had to wait for memory.
    pub(super) fn read_on(&mut self) -> Result<(), End> {
        self.expose_more()?;
        for _ in 0..self.unread.len() {
            if self.reply_bytes >= OUTGOING_BYTES_MAX {
                break;
            }
            let Some(job) = self.unread.pop_front() else {
                break;
            };
            self.finish(job)?;
        }
        Ok(())
    }

    /// Goes on with a finished call whose file was read from the disk, or could not be read.
    pub(super) fn warmed(
        &mut self,
        mut job: Box<Job>,
        read: io::Result<Buffer>,
    ) -> Result<(), End> {
        match read {
            Ok(buffer) => put_bytes(&mut job.reply, buffer),
            Err(error) => {
                self.core
                    .note_unreadable(self.peer, job.call.xid, error.kind());
                job.reply.fail_unreadable();
            }
        }
        self.finish(job)
    }

    /// Turns a reply into work requests; `None` when memory cannot be registered.
    fn build(&mut self, job: &mut Job, plan: Plan) -> Result<Option<Departure>, End> {
        let place = job.tag;
        let xid = job.call.xid;
        let Some(mut call) = self.contexts.get_mut(place).and_then(Option::take) else {
            return Ok(None);
        };
        let mut echo = self.core.take_lists();
        call.lists
            .echo_into(&mut echo, &[plan.placed], plan.reply_chunk.unwrap_or(0));
        let mut writes = Writes::default();
        let payload = if plan.placed > 0 {
            job.reply.payload.take()
        } else {
            None
        };
        let built = payload.is_none_or(|(payload, _)| {
            let segments = call.lists.writes().next().unwrap_or(&[]);
            self.write_payload(payload, segments, &mut writes).is_some()
        });
        let built = built && self.expose_part(xid, &mut job.reply, &plan, &mut echo);
        let built = built
            && plan.reply_chunk.is_none_or(|len| {
                let stream = stream(xid, &mut job.reply, plan.placed > 0);
                let segments = call.lists.reply().unwrap_or(&[]);
                self.write_memory(Buffer::from_vec(stream), len, segments, &mut writes)
                    .is_some()
            });
        if !built {
            self.core.put_lists(echo);
            if let Some(empty) = self.contexts.get_mut(place) {
                *empty = Some(call);
            }
            return Ok(None);
        }
        self.core.counters.rdma.reply(plan.form());
        // Before the grant, which asks the pool for receives: this one is free now.
        drop(call.receive.take());
        let grant = self.grant(call.asked)?;
        let (send, send_len) = self.message(xid, &grant, &mut job.reply, &echo, &plan);
        // Only if the call has one key: Send with Invalidate carries one, and the client revokes the others itself.
        let handle = call.lists.sole_handle().filter(|_| self.invalidates);
        let invalidate = handle.map_or(Invalidate::None, |handle| {
            Invalidate::Key(RemoteKey(handle))
        });
        self.core.put_lists(echo);
        let file_bytes = call.reply_bytes;
        self.release(place, call);
        let held = file_bytes.max(writes.memory + send.len());
        self.reply_bytes += held;
        let options = SendOptions {
            signal: Signal::Always,
            invalidate,
            solicited: false,
        };
        Ok(Some(Departure {
            xid,
            writes,
            send,
            send_len,
            options,
            limit: grant.limit,
            held,
            call: None,
        }))
    }

    /// Exposes the part that the plan names, if any; false when memory cannot be registered.
    fn expose_part(
        &mut self,
        xid: u32,
        reply: &mut Reply,
        plan: &Plan,
        lists: &mut ChunkLists,
    ) -> bool {
        let Some(part) = plan.exposed else {
            return true;
        };
        let exposed = self.expose(xid, reply, part, lists);
        exposed
            .inspect_err(|error| self.core.note_no_region(self.peer, error))
            .is_ok()
    }

    /// The Send: transport header and, unless it goes to the Reply chunk, the RPC message.
    fn message(
        &self,
        xid: u32,
        grant: &Grant,
        reply: &mut Reply,
        echo: &ChunkLists,
        plan: &Plan,
    ) -> (Buffer, u32) {
        let mut bytes = self.core.scratch.take();
        bytes.clear();
        let long = plan.is_long();
        let procedure = if long {
            TransportProcedure::Nomsg
        } else {
            TransportProcedure::Msg
        };
        let header = TransportHeader {
            xid,
            version: RDMA_VERSION,
            credits: grant.window,
            procedure,
        };
        header.emit(&mut Encoder::new(&mut bytes), echo);
        if !long {
            reply.emit_message(xid, !plan.is_reduced(), &mut bytes);
        }
        let message = self.inline_buffer(&bytes);
        self.core.scratch.set(bytes);
        message
    }

    /// A copy of `bytes` in memory that can be sent.
    fn inline_buffer(&self, bytes: &[u8]) -> (Buffer, u32) {
        // Bounded by the inline threshold, which fits a slot; memory of its own when all slots are in use.
        let mut buffer = self
            .core
            .payloads
            .inline
            .take()
            .filter(|buffer| buffer.len() >= bytes.len())
            .unwrap_or_else(|| Buffer::zeroed(bytes.len()));
        if let Some(target) = buffer.get_mut(..bytes.len()) {
            target.copy_from_slice(bytes);
        }
        (
            buffer,
            u32::try_from(bytes.len()).unwrap_or(INLINE_THRESHOLD),
        )
    }

    /// RDMA Writes of a payload into a Write chunk.
    fn write_payload(
        &self,
        payload: Payload,
        segments: &[Segment],
        writes: &mut Writes,
    ) -> Option<()> {
        match payload {
            Payload::File(range) => {
                let parts = slices(range.len as u64, segments);
                writes.put_file(&range, parts);
                Some(())
            }
            Payload::Buffer { buffer, len } => {
                let len = len.min(buffer.len()) as u64;
                self.write_memory(buffer, len, segments, writes)
            }
            Payload::Bytes(bytes) => {
                let len = bytes.len() as u64;
                // Without a copy if this is the only reference to the bytes.
                self.write_memory(Buffer::from_vec(bytes.into()), len, segments, writes)
            }
        }
    }

    /// RDMA Writes of the first `len` bytes of a buffer.
    fn write_memory(
        &self,
        buffer: Buffer,
        len: u64,
        segments: &[Segment],
        writes: &mut Writes,
    ) -> Option<()> {
        let parts: Vec<SourcePart> = slices(len, segments).collect();
        let (path, endpoint) = (&self.memory.path, &*self.endpoint);
        let put = writes.put_buffer(path, endpoint, buffer, &parts);
        put.inspect_err(|error| self.core.note_no_region(self.peer, error))
            .ok()
    }

    /// Posts the replies that the send queue has room for, in their order. A reply is posted as a whole: its Send must
    /// not be separated from the Writes before it, which it announces.
    pub(super) fn depart(&mut self) -> Result<(), End> {
        while let Some(departure) = self.departures.front() {
            let count = u32::try_from(departure.writes.work.len() + 1).unwrap_or(u32::MAX);
            let used = self.posted.saturating_add(self.pulls);
            // A reply larger than the queue goes alone; it would wait for ever otherwise.
            if used > 0 && used.saturating_add(count) > self.posted_max {
                return Ok(());
            }
            let Some(departure) = self.departures.pop_front() else {
                return Ok(());
            };
            let mut bytes = u64::from(departure.send_len);
            let Writes { work, sources, .. } = departure.writes;
            for (source, target) in work {
                bytes += u64::from(source.len());
                let id = Work::Write(departure.xid).id();
                self.endpoint
                    .post_write(id, source, target, Signal::OnError)?;
            }
            self.core.counters.bytes_out.add(bytes);
            self.client.sent(bytes);
            let source = Source::Buffer {
                buffer: departure.send,
                len: departure.send_len,
            };
            self.endpoint
                .post_send(Work::Send(count).id(), source, departure.options)?;
            push_lean(
                &mut self.leaving,
                Held {
                    call: departure.call.inspect(|job| job.enter(Stage::Wire)),
                    bytes: departure.held,
                    limit: departure.limit,
                    _sources: sources,
                },
            );
            self.posted += count;
        }
        Ok(())
    }

    /// Answers a call with a transport error and forgets it.
    pub(super) fn refuse(&mut self, place: usize, error: TransportError) -> Result<(), End> {
        let Some(mut call) = self.contexts.get_mut(place).and_then(Option::take) else {
            return Ok(());
        };
        drop(call.receive.take());
        let (xid, asked) = (call.xid, call.asked);
        self.release(place, call);
        self.send_error(xid, RDMA_VERSION, error, asked)
    }

    /// Queues a transport error. It invalidates no key: the client takes its memory back itself.
    pub(super) fn send_error(
        &mut self,
        xid: u32,
        version: u32,
        error: TransportError,
        asked: u32,
    ) -> Result<(), End> {
        self.core.counters.transport_errors.add(1);
        let grant = self.grant(asked)?;
        let header = TransportHeader {
            xid,
            version,
            credits: grant.window,
            procedure: TransportProcedure::Error(error),
        };
        let mut bytes = Vec::with_capacity(28);
        header.emit(&mut Encoder::new(&mut bytes), &ChunkLists::new());
        self.send_off_message(xid, &bytes, grant.limit);
        self.depart()
    }

    /// Queues a message without Writes; `limit` is the total of calls that the peer may have sent once it has it.
    fn send_off_message(&mut self, xid: u32, bytes: &[u8], limit: u64) {
        let (send, send_len) = self.inline_buffer(bytes);
        let options = SendOptions {
            signal: Signal::Always,
            ..SendOptions::default()
        };
        let (writes, held) = (Writes::default(), send.len());
        self.reply_bytes += held;
        push_lean(
            &mut self.departures,
            Departure {
                xid,
                writes,
                send,
                send_len,
                options,
                limit,
                held,
                call: None,
            },
        );
    }

    /// Sends this server's calls to the client, as the client's credits for them allow.
    pub(super) fn call_back(&mut self) -> Result<(), End> {
        while self.back.pending().has_unsent()
            && self.back.pending().under_way() < self.back_credits
        {
            // Before the call leaves: its reply takes a receive that no credit covers (test
            // `replies_to_calls_back_have_receives_of_their_own`).
            match self.credits.cover(&*self.endpoint, self.owed() + 1) {
                Ok(()) => {}
                Err(PostError::QueueFull) => break,
                Err(other) => return Err(other.into()),
            }
            let mut bytes = self.core.scratch.take();
            bytes.clear();
            let mut pending = self.back.pending();
            let next = pending.next_unsent(self.deadlines.now(), Duration::ZERO);
            let Some(xid) = next.map(|(xid, entry)| {
                let header = TransportHeader {
                    xid,
                    version: RDMA_VERSION,
                    credits: CALLBACKS_MAX as u32,
                    procedure: TransportProcedure::Msg,
                };
                let mut encoder = Encoder::new(&mut bytes);
                header.emit(&mut encoder, &ChunkLists::new());
                entry.emit_header(xid, &CallerCredential::None, &mut encoder);
                entry.emit_arguments(&mut encoder);
                xid
            }) else {
                self.core.scratch.set(bytes);
                break;
            };
            let fits = bytes.len() <= self.send_max;
            if !fits {
                pending.finish(xid, Err(CallError::TooLarge));
            }
            drop(pending);
            if fits {
                self.send_off_message(xid, &bytes, 0);
            }
            self.core.scratch.set(bytes);
        }
        self.depart()
    }
}

/// Decides how a reply travels; `None` when it fits nowhere.
fn plan(reply: &Reply, lists: &ChunkLists, to_chunk: bool, send_max: usize) -> Option<Plan> {
    let payload = reply
        .payload
        .as_ref()
        .map_or(0, |(payload, _)| payload.len());
    let placed = if to_chunk { payload } else { 0 };
    if placed as u64 > lists.writes().next().map_or(0, capacity) {
        return None;
    }
    let padded = if to_chunk {
        placed + pad_len(placed)
    } else {
        0
    };
    let stream = (reply.header_len() + reply.stream_len() - padded) as u64;
    // As Linux does: a Reply chunk that is offered is used.
    let reply_chunk = lists
        .reply()
        .filter(|segments| capacity(segments) >= stream);
    if reply_chunk.is_some() {
        return Some(Plan {
            placed: placed as u64,
            reply_chunk: Some(stream),
            exposed: None,
        });
    }
    // The echo has no Read list; the other lists are as long as in the call.
    let reads = lists.reads().len() * 24;
    let header = (FIXED_LEN + lists.encoded_len() - reads) as u64;
    let fits = header + stream <= send_max as u64;
    fits.then_some(Plan {
        placed: placed as u64,
        reply_chunk: None,
        exposed: None,
    })
}

fn capacity(segments: &[Segment]) -> u64 {
    segments
        .iter()
        .map(|segment| u64::from(segment.length))
        .sum()
}

/// Cuts `len` bytes to fit `segments` in order.
fn slices(len: u64, segments: &[Segment]) -> impl Iterator<Item = SourcePart> {
    let mut at = 0;
    let parts = segments.iter().map(move |segment| {
        let count = u32::try_from(len - at)
            .unwrap_or(u32::MAX)
            .min(segment.length);
        let part = SourcePart {
            offset: at,
            len: count,
            target: RemoteAddress {
                key: RemoteKey(segment.handle),
                offset: segment.offset,
            },
        };
        at += u64::from(count);
        part
    });
    parts.filter(|part| part.len > 0)
}

/// Replaces the file of a reply by its bytes in memory.
fn put_bytes(reply: &mut Reply, buffer: Buffer) {
    if let Some((payload, _)) = &mut reply.payload {
        let len = payload.len();
        *payload = Payload::Buffer { buffer, len };
    }
}

/// The RPC message in memory of its own.
pub(super) fn stream(xid: u32, reply: &mut Reply, placed: bool) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(reply.header_len() + reply.stream_len());
    reply.emit_message(xid, !placed, &mut bytes);
    bytes
}
