//! The call of a received Send: header, Read chunks, the message.

use super::{Connection, End, Work};
use crate::chunks::{ReadChunk, read_chunks, unreduce};
use crate::client::CallError;
use crate::counters::CallForm;
use crate::limits::{CALLBACKS_MAX, PAYLOAD_SHARE_MAX, RECORD_MAX, SEGMENTS_MAX, WRITE_CHUNKS_MAX};
use crate::server::admit::{Admission, admit};
use crate::server::worker::Job;
use crate::service::{Placed, Service, Transport};
use gannet_fabric::registration::Registered;
use gannet_fabric::{RemoteAddress, RemoteKey};
use gannet_runtime::stages::{self, Stage, Stopwatch};
use gannet_runtime::{Buffer, push_lean};
use gannet_session::Exceeded;
use gannet_wire::rpc::CallHeaderError;
use gannet_wire::rpcrdma::{
    ChunkLimits, ChunkLists, RDMA_VERSION, TransportError, TransportHeader, TransportHeaderError,
    TransportProcedure,
};
use gannet_wire::xdr::Decoder;
use std::future::Future;
use std::ops::Range;
use std::pin::Pin;
use std::rc::Rc;
use std::task::Poll;

const LIMITS: ChunkLimits = ChunkLimits {
    segments_max: SEGMENTS_MAX,
    write_chunks_max: WRITE_CHUNKS_MAX,
};

/// A call from its arrival to its reply.
pub(super) struct Context {
    pub(super) xid: u32,
    pub(super) lists: ChunkLists,
    /// The received Send, until the reply is queued.
    pub(super) receive: Option<Buffer>,
    /// Credits that the client asks for.
    pub(super) asked: u32,
    /// Start and end of the RPC message in the receive.
    message: (usize, usize),
    /// The whole message is in the chunk at position zero.
    long: bool,
    chunks: Vec<ReadChunk>,
    /// The memory that the chunks are read into; see [`pulled_into`].
    pulled: Pulled,
    pulls_left: usize,
    /// Bytes of memory that it has for its chunks.
    held: usize,
    /// Bytes that its reply may take.
    pub(super) reserved: usize,
    /// Bytes of a file that its reply has in memory.
    pub(super) reply_bytes: usize,
    /// Takes its time apart until it is executed, where the service wants to know that.
    watch: Option<Rc<Stopwatch>>,
}

/// The memory of a call's Read chunks.
enum Pulled {
    /// The call has no Read chunks.
    Nothing,
    /// RDMA Reads fill it; it is registered.
    Reading(Registered),
    /// It is complete and deregistered, so no late access can change it; `None` when the provider has lost it.
    Here(Option<Buffer>),
}

impl<S: Service> Connection<S> {
    /// Takes a received Send apart.
    pub(super) fn receive(&mut self, buffer: Buffer, len: usize) -> Result<(), End> {
        let mut lists = self.core.take_lists();
        let bytes = buffer.get(..len).unwrap_or(&buffer);
        let mut decoder = Decoder::new(bytes);
        let header = match TransportHeader::parse(&mut decoder, &mut lists, LIMITS) {
            Ok(header) => header,
            Err(error) => {
                tracing::debug!(peer = %self.peer, %error, "call refused");
                self.core.put_lists(lists);
                return self.refuse_header(buffer, error);
            }
        };
        let answers = self.back.answered_by(decoder.remaining()) == Some(header.xid);
        let long = match header.procedure {
            TransportProcedure::Msg if !answers => false,
            TransportProcedure::Nomsg => true,
            TransportProcedure::Done => {
                self.core.put_lists(lists);
                self.done(header.xid);
                return self.without_credit(buffer);
            }
            TransportProcedure::Msg | TransportProcedure::Error(_) => {
                self.called_back(&header, &lists, decoder.remaining());
                self.core.put_lists(lists);
                return self.without_credit(buffer);
            }
        };
        // Counted before anything can fail: a call without a credit ends the connection, however it is malformed.
        self.request_came()?;
        let chunks = read_chunks(lists.reads(), RECORD_MAX);
        let mut call = Context {
            xid: header.xid,
            lists,
            message: (decoder.position(), bytes.len()),
            receive: Some(buffer),
            asked: header.credits,
            long,
            chunks: Vec::new(),
            pulled: Pulled::Nothing,
            pulls_left: 0,
            held: 0,
            reserved: 0,
            reply_bytes: 0,
            watch: (self.core).stopwatch(Stage::Protocol, self.deadlines.now()),
        };
        let poisoned =
            (self.core.cache.poisoned).contains(self.peer.ip(), header.xid, self.deadlines.now());
        match chunks {
            // A whole message in chunks begins at position zero, and only such a message does.
            Some(chunks) if start_at_zero(&chunks) == long && !poisoned => call.chunks = chunks,
            _ => {
                let place = self.admit_context(call);
                return self.refuse(place, TransportError::Chunk);
            }
        }
        let pulls = !call.chunks.is_empty();
        self.core.counters.rdma.call(CallForm::of(long, pulls));
        let place = self.admit_context(call);
        if !pulls {
            return self.assemble(place);
        }
        if self.endpoint.attributes().ord == 0 {
            return self.refuse(place, TransportError::Chunk);
        }
        self.pull(place)
    }

    /// The call in `place`, which is not executed yet, is in `stage` now.
    fn enter(&mut self, place: usize, stage: Stage) {
        if let Some(watch) = self.context(place).and_then(|call| call.watch.as_ref()) {
            watch.enter(stage);
        }
    }

    /// Takes the client's reply to a call of this server; ignores a reply to no call under way.
    fn called_back(&mut self, header: &TransportHeader, lists: &ChunkLists, message: &[u8]) {
        let mut pending = self.back.pending();
        if !pending.is_under_way(header.xid) {
            return;
        }
        self.back_credits = (header.credits as usize).clamp(1, CALLBACKS_MAX);
        let taken = match header.procedure {
            TransportProcedure::Error(_) => Err(CallError::TransportRefused),
            // Replies in the reverse direction are inline (RFC 8167 section 5).
            _ if !lists.is_empty() => Err(CallError::Malformed("chunks of a reply")),
            _ => pending.take_reply(message).map_err(CallError::Malformed),
        };
        if let Err(error) = taken {
            pending.finish(header.xid, Err(error));
        }
    }

    fn admit_context(&mut self, call: Context) -> usize {
        let place = self.free.pop().unwrap_or(self.contexts.len());
        if place == self.contexts.len() {
            self.contexts.push(None);
        }
        if let Some(slot) = self.contexts.get_mut(place) {
            *slot = Some(call);
        }
        place
    }

    fn refuse_header(&mut self, buffer: Buffer, error: TransportHeaderError) -> Result<(), End> {
        let (xid, version, error) = match error {
            TransportHeaderError::Short => return self.without_credit(buffer),
            TransportHeaderError::Version { xid, version } => {
                let range = TransportError::Version {
                    low: RDMA_VERSION,
                    high: RDMA_VERSION,
                };
                (xid, version, range)
            }
            TransportHeaderError::Procedure { xid, .. }
            | TransportHeaderError::Chunk { xid, .. } => (xid, RDMA_VERSION, TransportError::Chunk),
        };
        drop(buffer);
        self.request_came()?;
        self.send_error(xid, version, error, u32::MAX)
    }

    /// Starts reading the chunks of a call, after the calls that wait for that already.
    fn pull(&mut self, place: usize) -> Result<(), End> {
        self.enter(place, Stage::Queue);
        if !self.pulls_waiting.is_empty() || !self.start_pull(place)? {
            push_lean(&mut self.pulls_waiting, place);
        }
        Ok(())
    }

    /// Starts reading the chunks of a call. Returns false, and does nothing, while memory or room in the send queue is
    /// missing.
    fn start_pull(&mut self, place: usize) -> Result<bool, End> {
        let (reads, total) = self
            .context(place)
            .map_or((0, 0), |call| (call.reads(), pulled_len(&call.chunks)));
        if !self.has_room_for_reads(reads) {
            return Ok(false);
        }
        // One piece of memory per call, taken only when there is room for all of it. Calls that held a part each and
        // waited for the rest would wait for each other.
        let Some(memory) = self.take_memory(total) else {
            return Ok(false);
        };
        let held = memory.len();
        let watch = self.context(place).and_then(|call| call.watch.clone());
        let register = || self.memory.path.register(&*self.endpoint, memory);
        let sinks = match stages::within(watch.as_ref(), register) {
            Ok(sinks) => sinks,
            Err(error) => {
                self.core.note_no_region(self.peer, &error);
                self.refuse(place, TransportError::Chunk)?;
                return Ok(true);
            }
        };
        let Some(call) = self.contexts.get_mut(place).and_then(Option::as_mut) else {
            return Ok(true);
        };
        for (chunk, memory) in pulled_into(&call.chunks) {
            let mut offset = memory.start as u64;
            let segments = call.lists.reads().iter().skip(chunk.first);
            for read in segments.take(chunk.count) {
                let segment = read.segment;
                if segment.length > 0 {
                    let sink = sinks.span(offset, segment.length);
                    let source = RemoteAddress {
                        key: RemoteKey(segment.handle),
                        offset: segment.offset,
                    };
                    self.endpoint
                        .post_read(Work::Pull(place).id(), sink, source)?;
                    if self.pulls == 0 {
                        self.deadlines.record_begins();
                    }
                    self.pulls += 1;
                    call.pulls_left += 1;
                }
                offset += u64::from(segment.length);
            }
        }
        self.core.counters.bytes_in.add(total as u64);
        self.client.received(total as u64);
        if let Some(watch) = watch {
            watch.enter(Stage::Wire);
        }
        call.pulled = Pulled::Reading(sinks);
        call.held = held;
        self.holding += held;
        if call.pulls_left == 0 {
            self.take_pulled(place)?;
        }
        Ok(true)
    }

    /// Memory for the `len` bytes of a call's Read chunks. `None` while this connection holds [`PAYLOAD_SHARE_MAX`] or
    /// the budget has no room.
    fn take_memory(&mut self, len: usize) -> Option<Buffer> {
        let may = self.holding < PAYLOAD_SHARE_MAX && self.has_room_for(len);
        may.then(|| self.core.payloads.take(len))
    }

    /// True when the send queue takes `reads` more Reads.
    fn has_room_for_reads(&self, reads: u32) -> bool {
        // Reads get half of the queue. If they filled it, no reply could leave, and no call would end.
        let pulls = self.pulls.saturating_add(reads);
        (self.pulls == 0 || pulls <= self.posted_max / 2)
            && (self.pulls + self.posted == 0
                || pulls.saturating_add(self.posted) <= self.posted_max)
    }

    /// Looks again for memory and room for the calls that wait for them, in their order.
    pub(super) fn retry_pulls(&mut self) -> Result<(), End> {
        while let Some(place) = self.pulls_waiting.front() {
            if !self.start_pull(*place)? {
                break;
            }
            self.pulls_waiting.pop_front();
        }
        Ok(())
    }

    /// Notes that one Read of a call is done.
    pub(super) fn pulled(&mut self, place: usize) -> Result<(), End> {
        self.pulls = self.pulls.saturating_sub(1);
        self.deadlines.bytes_received();
        let Some(call) = self.context(place) else {
            return Ok(());
        };
        call.pulls_left = call.pulls_left.saturating_sub(1);
        if call.pulls_left == 0 {
            let held = call.held as u64;
            self.moved += held;
            // Reads complete in order, so the deadline starts anew for the Reads of the next call.
            self.deadlines.no_record_under_way();
            self.take_pulled(place)
        } else {
            Ok(())
        }
    }

    /// Deregisters the memory of a call whose Read chunks are complete, and goes on with the call after that.
    fn take_pulled(&mut self, place: usize) -> Result<(), End> {
        self.enter(place, Stage::Registration);
        let Some(call) = self.context(place) else {
            return Ok(());
        };
        if let Pulled::Reading(sinks) = std::mem::replace(&mut call.pulled, Pulled::Nothing) {
            match sinks.release(pulled_len(&call.chunks)).now() {
                Ok(memory) => call.pulled = Pulled::Here(memory),
                Err(later) => {
                    self.revoking.push((place, later));
                    return Ok(());
                }
            }
        }
        self.assemble(place)
    }

    /// Goes on with calls whose memory is deregistered now; true when there were some.
    pub(super) fn poll_revoking(
        &mut self,
        context: &mut std::task::Context<'_>,
    ) -> Result<bool, End> {
        let (mut at, mut progress) = (0, false);
        while let Some((place, later)) = self.revoking.get_mut(at) {
            let place = *place;
            let Poll::Ready(memory) = Pin::new(later).poll(context) else {
                at += 1;
                continue;
            };
            drop(self.revoking.swap_remove(at));
            progress = true;
            if let Some(call) = self.context(place) {
                call.pulled = Pulled::Here(memory);
            }
            self.assemble(place)?;
        }
        Ok(progress)
    }

    /// Puts the message of a complete call together and executes it.
    fn assemble(&mut self, place: usize) -> Result<(), End> {
        let mut job = self.core.take_job();
        job.tag = place;
        let core = Rc::clone(&self.core);
        let Some(call) = self.context(place) else {
            return Ok(());
        };
        let admission = call.admit(&*core.service, &mut job);
        job.watch = call.watch.take();
        let xid = call.xid;
        match admission {
            Some(Ok(_)) if job.call.xid != xid => {
                self.core.put_job(job);
                self.refuse(place, TransportError::Chunk)
            }
            Some(Ok(Admission::Execute { .. })) => {
                self.core.counters.calls.add(1);
                self.client.operations(1);
                job.call.peer = self.peer;
                job.call.transport = Transport::Rdma;
                job.call.back = Some(self.back.handle());
                job.enter(Stage::Queue);
                push_lean(&mut self.waiting, job);
                self.start_waiting()
            }
            Some(Ok(Admission::Answer(fault))) => {
                self.core.note_fault(self.peer, Transport::Rdma, fault);
                self.core.counters.calls.add(1);
                self.client.operations(1);
                self.finish(job)
            }
            Some(Err(CallHeaderError::NotACall { .. })) => {
                // A reply in the reverse direction (RFC 8167) to no call of this server.
                self.core.put_job(job);
                self.forget(place)
            }
            Some(Err(_)) | None => {
                self.core.put_job(job);
                self.refuse(place, TransportError::Chunk)
            }
        }
    }

    /// Executes the complete calls for whose replies the budget has room.
    pub(super) fn start_waiting(&mut self) -> Result<(), End> {
        let mut at = 0;
        while let Some(job) = self.waiting.get(at) {
            let (place, reply) = (job.tag, self.core.service.reply_bytes_max(&job.call));
            if !self.may_start(place, reply) {
                // The calls behind it may hold the memory that it waits for.
                at += 1;
                continue;
            }
            let Some(job) = self.waiting.remove(at) else {
                return Ok(());
            };
            if self.calls.is_full() {
                return Err(Exceeded.into());
            }
            if let Some(call) = self.context(place) {
                call.reserved = reply;
                self.reserved += reply;
            }
            if let Some(job) = self.calls.start(&self.core, job) {
                self.finish(job)?;
            }
        }
        Ok(())
    }

    /// Whether the call in `place`, whose reply may take `reply` bytes, may be executed now. Without the two
    /// exceptions a connection at its bound would wait for itself (test
    /// `a_connection_holds_its_share_of_payload_memory`).
    fn may_start(&mut self, place: usize, reply: usize) -> bool {
        // The call holds at least as much for its chunks, and gives that back.
        let is_paid = (self.context(place)).is_some_and(|call| call.held >= reply);
        let is_next = self.calls.is_empty() && self.reply_bytes == 0 && self.holding >= reply;
        is_paid || is_next || self.has_room_for(reply)
    }

    /// Ends a call without an answer, and returns its credit: no reply would.
    pub(super) fn forget(&mut self, place: usize) -> Result<(), End> {
        let Some(mut call) = self.contexts.get_mut(place).and_then(Option::take) else {
            return Ok(());
        };
        drop(call.receive.take());
        self.release(place, call);
        Ok(self.credits.give_up(&*self.endpoint)?)
    }

    /// Gives back the resources of the call whose context was in `place`.
    pub(super) fn release(&mut self, place: usize, call: Context) {
        self.holding -= call.held;
        self.reserved -= call.reserved;
        self.reply_bytes -= call.reply_bytes;
        self.free.push(place);
        self.core.put_lists(call.lists);
    }
}

fn start_at_zero(chunks: &[ReadChunk]) -> bool {
    chunks.first().is_some_and(|chunk| chunk.position == 0)
}

impl Context {
    /// RDMA Reads that its Read chunks take.
    fn reads(&self) -> u32 {
        let reads = self.lists.reads().iter();
        let count = reads.filter(|read| read.segment.length > 0).count();
        u32::try_from(count).unwrap_or(u32::MAX)
    }

    /// Fills `job` from the message and its chunks; `None` when they do not fit together.
    fn admit<S: Service>(
        &mut self,
        service: &S,
        job: &mut Job,
    ) -> Option<Result<Admission, CallHeaderError>> {
        let memory = match std::mem::replace(&mut self.pulled, Pulled::Nothing) {
            Pulled::Nothing => None,
            Pulled::Here(memory) => Some(memory?),
            Pulled::Reading(_) => return None,
        };
        let pulled = memory.as_deref().unwrap_or(&[]);
        let receive = self.receive.as_ref()?;
        let inline = receive.get(self.message.0..self.message.1)?;
        let mut chunks: Vec<(&ReadChunk, Range<usize>)> = pulled_into(&self.chunks).collect();
        chunks.reverse();
        let (whole, rest) = chunks.split_at_checked(usize::from(self.long))?;
        let base = match whole {
            [(_, at)] => pulled.get(at.clone())?,
            _ => inline,
        };
        if rest.is_empty() {
            return Some(admit_message(service, job, base));
        }
        if let [(chunk, _)] = rest {
            let admission = match admit(service, job, base) {
                Ok(admission) => admission,
                Err(error) => return Some(Err(error)),
            };
            let Admission::Execute { arguments_at } = admission else {
                return Some(Ok(admission));
            };
            let arguments = base.get(arguments_at..)?;
            let call = &mut job.call;
            let located = service.locate_payload(call.program, call.procedure, arguments);
            if located.is_some_and(|located| arguments_at + located == chunk.position) {
                call.arguments.clear();
                call.arguments.extend_from_slice(arguments);
                *call.placed.get_mut() = Some(Placed {
                    len: chunk.len,
                    position: chunk.position - arguments_at,
                    buffer: memory?,
                });
                return Some(Ok(admission));
            }
        }
        let parts: Option<Vec<(usize, &[u8])>> = rest
            .iter()
            .map(|(chunk, at)| Some((chunk.position, pulled.get(at.clone())?)))
            .collect();
        let message = unreduce(base, &parts?)?;
        Some(admit_message(service, job, &message))
    }
}

/// Bytes of all chunks of a call.
fn pulled_len(chunks: &[ReadChunk]) -> usize {
    chunks.iter().map(|chunk| chunk.len).sum()
}

/// The range of each chunk in a call's memory. The last chunk comes first, because a payload, which is the last one,
/// must begin where its buffer does.
fn pulled_into(chunks: &[ReadChunk]) -> impl Iterator<Item = (&ReadChunk, Range<usize>)> {
    chunks.iter().rev().scan(0, |end, chunk| {
        let start = *end;
        *end += chunk.len;
        Some((chunk, start..*end))
    })
}

fn admit_message<S: Service>(
    service: &S,
    job: &mut Job,
    message: &[u8],
) -> Result<Admission, CallHeaderError> {
    let admission = admit(service, job, message)?;
    if let Admission::Execute { arguments_at } = admission {
        job.call.arguments.clear();
        job.call
            .arguments
            .extend_from_slice(message.get(arguments_at..).unwrap_or(&[]));
    }
    Ok(admission)
}
