//! One RPC/RDMA connection of a client (RFC 8166).
//!
//! Each call chooses its message form by size: inline, a chunk for its opaque, or all of it in a chunk. The
//! registration strategy registers memory just before the call leaves, for this connection alone. The memory is
//! deregistered before the caller sees the data: the server could change it otherwise while the caller checks it.
//! Credits bound the calls under way: one until the first reply grants more.
//!
//! In the Read-Read design the client offers no memory for results: the server exposes results that fit no Send, and
//! the client reads them ([`pull`]).

mod pull;
mod withdrawal;

use super::backward::Backward;
use super::timer::ReplyTimer;
use super::types::{CallError, Sink};
use super::{Lost, Shared};
use crate::calls::{Entry, check_reply, fill_sink, is_call, opaque_len};
use crate::limits::{
    CALLBACKS_MAX, CLIENT_RECEIVES_SPARE, CREDITS, INLINE_THRESHOLD, SEGMENTS_MAX, WRITE_CHUNKS_MAX,
};
use crate::rounds;
use crate::service::Transport;
use gannet_fabric::registration::{Registered, Strategy};
use gannet_fabric::{
    Access, Completion, ConnectError, ConnectOptions, Connected, Done, PostError, Provider,
    RegisterError, RemoteAddress, RemoteKey, Scope, SendOptions, Signal, Source, WorkError, WorkId,
};
use gannet_runtime::stages::{self, Stage, Stopwatch};
use gannet_runtime::{Arena, Buffer, Instant};
use gannet_wire::rpc::AcceptStatus;
use gannet_wire::rpcrdma::{
    ChunkLimits, ChunkLists, Design, PrivateData, RDMA_VERSION, Segment, TransportError,
    TransportHeader, TransportHeaderError, TransportProcedure,
};
use gannet_wire::xdr::{Decoder, Encoder, pad_len};
use pull::{Pull, Pulls};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;
use withdrawal::{Late, LateReply, Returned, Withdrawal};

const LIMITS: ChunkLimits = ChunkLimits {
    segments_max: SEGMENTS_MAX,
    write_chunks_max: WRITE_CHUNKS_MAX,
};
const RECEIVES: u32 = CREDITS + CALLBACKS_MAX as u32 + CLIENT_RECEIVES_SPARE;
/// Work ids of receives and of sends. All of a kind share one, because completions carry what the client needs.
const RECEIVE: WorkId = WorkId(0);
const SEND: WorkId = WorkId(1);
/// Bytes of a transport header without chunks, of one Read segment, of a Write chunk of one segment, and of a Reply
/// chunk of one segment.
const HEADER_LEN: usize = 28;
const READ_LEN: usize = 24;
const WRITE_LEN: usize = 24;
/// One more segment of a Write or Reply chunk.
const SEGMENT_LEN: usize = 16;
const REPLY_HEADER_LEN: usize = 24;

impl From<PostError> for Lost {
    fn from(error: PostError) -> Lost {
        Lost::Protocol(error.to_string())
    }
}

/// Why a call was not sent.
enum Unsent {
    /// No form of message fits it.
    TooLarge,
    /// Its memory could not be registered, and was dropped.
    Memory,
    /// The connection is over.
    Lost(Lost),
}

impl From<RegisterError> for Unsent {
    fn from(error: RegisterError) -> Unsent {
        tracing::info!(%error, "memory of a call cannot be registered");
        Unsent::Memory
    }
}

impl From<Lost> for Unsent {
    fn from(lost: Lost) -> Unsent {
        Unsent::Lost(lost)
    }
}

/// A connection that was made.
pub(super) struct RdmaLink {
    endpoint: Connected,
    strategy: Rc<dyn Strategy>,
    own: PrivateData,
    design: Design,
    inline: Arena,
}

/// Connects to `address`, in the `wanted` design if the server agrees.
pub(super) async fn connect(
    provider: &dyn Provider,
    address: SocketAddr,
    strategy: Rc<dyn Strategy>,
    wanted: Design,
) -> Result<RdmaLink, ConnectError> {
    let capabilities = provider.capabilities();
    let own = PrivateData {
        remote_invalidation: capabilities.keys_invalidated && strategy.kind().keys_are_single_use(),
        send_size: INLINE_THRESHOLD,
        receive_size: INLINE_THRESHOLD,
    };
    let slots = (RECEIVES + CREDITS) as usize;
    let inline = Arena::new(INLINE_THRESHOLD as usize, slots);
    let mut private_data = own.to_bytes().to_vec();
    private_data.extend(wanted.to_bytes().into_iter().flatten());
    let options = ConnectOptions {
        private_data,
        ord: match wanted {
            // The server alone reads.
            Design::ReadWrite => 0,
            Design::ReadRead => capabilities.read_depth_max,
        },
        ird: capabilities.read_depth_max,
        receives: (0..RECEIVES).map_while(|_| inline.take()).collect(),
        ..ConnectOptions::default()
    };
    let endpoint = provider.connect(address, options).await?;
    let agreed = Design::find(endpoint.private_data()) == wanted;
    let possible = wanted == Design::ReadWrite || (agreed && endpoint.attributes().ord > 0);
    let design = if possible { wanted } else { Design::ReadWrite };
    if design != wanted {
        tracing::info!(%address, %wanted, %design, "the server does not offer the design that is wanted");
    }
    Ok(RdmaLink {
        endpoint,
        strategy,
        own,
        design,
        inline,
    })
}

impl RdmaLink {
    /// Makes calls until the connection ends.
    pub(super) async fn run(self, shared: &Rc<Shared>) -> Lost {
        let mut link = Link::new(Rc::clone(shared), self);
        let lost = rounds::run(|context| link.round(context)).await;
        match &lost {
            Lost::Closed | Lost::Peer => link.endpoint.close(),
            other => link.endpoint.abort(&other.to_string()),
        }
        link.take_memory_back().await;
        link.strategy.reclaim();
        lost
    }
}

struct Link {
    shared: Rc<Shared>,
    endpoint: Connected,
    strategy: Rc<dyn Strategy>,
    inline: Arena,
    /// Bytes of the longest inline call and of the longest inline reply.
    call_max: usize,
    reply_max: usize,
    /// Calls that may be under way.
    credits: usize,
    /// The time since which a call waits for a credit.
    starved_since: Option<Instant>,
    /// The calls under way, by XID. An entry stays until the reply comes, also when the caller gives the call up: its
    /// credit is used and its memory exposed until then.
    sent: BTreeMap<u32, MemoryOfCall>,
    /// Replies that wait until their calls' memory is deregistered.
    late: Vec<Late>,
    design: Design,
    pulls: Pulls,
    backward: Backward,
    lists: ChunkLists,
    scratch: Vec<u8>,
    /// The RPC message of the call that is being sent.
    call: Vec<u8>,
    completions: Vec<Completion>,
    timer: ReplyTimer,
}

/// `None` for the usual call, which has exposed none. A map of larger values moves a KiB with each call.
type MemoryOfCall = Option<Box<Sent>>;

/// The memory that a call under way has exposed.
#[derive(Default)]
struct Sent {
    /// Holds the opaque argument, or the whole call.
    source: Option<Registered>,
    /// The opaque's place in the arguments and its length, when `source` holds it.
    payload: Option<(usize, usize)>,
    /// The caller's sink.
    sink: Option<ExposedSink>,
    /// Takes the whole reply.
    reply: Option<Registered>,
    /// The RDMA Reads of a reply that is here and was exposed.
    pull: Option<Pull>,
}

struct ExposedSink {
    memory: Registered,
    locate: fn(&[u8]) -> Option<usize>,
}

impl Sent {
    fn boxed(self) -> MemoryOfCall {
        let has_some = self.exposed().next().is_some() || self.pull.is_some();
        has_some.then(|| Box::new(self))
    }

    fn exposed(&self) -> impl Iterator<Item = &Registered> {
        let sink = self.sink.as_ref().map(|sink| &sink.memory);
        [self.source.as_ref(), sink, self.reply.as_ref()]
            .into_iter()
            .flatten()
    }
}

impl Link {
    fn new(shared: Rc<Shared>, made: RdmaLink) -> Link {
        let RdmaLink {
            endpoint,
            strategy,
            own,
            design,
            inline,
        } = made;
        let theirs = PrivateData::find(endpoint.private_data()).unwrap_or_default();
        shared.design.set(design);
        Link {
            timer: ReplyTimer::new(&shared),
            backward: Backward::new(&shared, Transport::Rdma, endpoint.peer_address()),
            shared,
            strategy,
            endpoint,
            inline,
            call_max: own.threshold_to(&theirs) as usize,
            reply_max: theirs.threshold_to(&own) as usize,
            credits: 1,
            starved_since: None,
            sent: BTreeMap::new(),
            late: Vec::new(),
            design,
            pulls: Pulls::default(),
            lists: ChunkLists::new(),
            scratch: Vec::new(),
            call: Vec::new(),
            completions: Vec::new(),
        }
    }

    fn round(&mut self, context: &mut Context<'_>) -> Result<bool, Lost> {
        if self.shared.calls.is_closed() {
            return Err(Lost::Closed);
        }
        let mut completions = std::mem::take(&mut self.completions);
        let polled = self.endpoint.poll_completions(context, &mut completions);
        let outcome = completions
            .drain(..)
            .try_for_each(|completion| self.complete(completion));
        self.completions = completions;
        outcome?;
        if let Poll::Ready(Err(reason)) = &polled {
            return Err(Lost::Gone(reason.clone()));
        }
        // Before the calls are sent: one that is made after that sets the notification again.
        let woken = self.shared.calls.work.poll_notified(context).is_ready();
        self.send_replies()?;
        self.send_calls()?;
        self.post_pulls()?;
        // Behind all steps that revoke memory: a revocation that began later in the round would have no waker, and the
        // connection would sleep for ever.
        let settled = self.poll_late(context)?;
        self.endpoint.flush();
        if settled || woken || polled.is_ready() {
            return Ok(true);
        }
        self.timer.poll(&self.shared, context)?;
        Ok(false)
    }

    fn complete(&mut self, completion: Completion) -> Result<(), Lost> {
        match completion.outcome {
            Ok(Done::Received {
                len, invalidated, ..
            }) => {
                let Some(buffer) = completion.buffer else {
                    return Ok(());
                };
                let outcome =
                    self.take_message(buffer.get(..len as usize).unwrap_or(&buffer), invalidated);
                self.endpoint.post_receive(RECEIVE, buffer)?;
                outcome
            }
            Ok(Done::Read) => self.pulled(completion.id),
            Ok(_) | Err(WorkError::Flushed) => Ok(()),
            Err(error) => Err(Lost::Protocol(error.to_string())),
        }
    }

    /// Sends what credits and the send queue allow.
    fn send_calls(&mut self) -> Result<(), Lost> {
        let shared = Rc::clone(&self.shared);
        let mut pending = shared.calls.pending.borrow_mut();
        if !pending.has_unsent() && self.starved_since.is_none() {
            return Ok(());
        }
        // A part of the send queue is for replies to calls of the server.
        let queue = self.endpoint.attributes().send_queue_max as usize;
        let queue = queue.saturating_sub(CALLBACKS_MAX);
        let calls_max = match self.design {
            Design::ReadWrite => queue,
            // Half of the queue is for Reads, and each call may have an RDMA_DONE behind it.
            Design::ReadRead => queue / 4,
        };
        let now = shared.calls.runtime.now();
        while self.sent.len() < self.credits.min(calls_max)
            && let Some((xid, entry)) =
                pending.next_unsent(now, shared.patience.get().reply_timeout)
        {
            let mut sent = Sent::default();
            let watch = entry.watch().cloned();
            match stages::within(watch.as_ref(), || self.send(xid, entry, &mut sent)) {
                Ok(()) => {
                    self.sent.insert(xid, sent.boxed());
                }
                Err(Unsent::TooLarge) => pending.finish(xid, Err(CallError::TooLarge)),
                Err(Unsent::Memory) => pending.finish(xid, Err(CallError::Memory)),
                Err(Unsent::Lost(lost)) => {
                    // The call is sent again on the next connection: its memory must come back with that of the others.
                    self.sent.insert(xid, sent.boxed());
                    return Err(lost);
                }
            }
        }
        let starved = pending.has_unsent() && self.sent.len() >= self.credits;
        if let (true, None) | (false, Some(_)) = (starved, self.starved_since) {
            let since = std::mem::replace(&mut self.starved_since, starved.then_some(now));
            let waited = since.map_or(Duration::ZERO, |since| now.duration_since(since));
            shared
                .credit_starved
                .set(shared.credit_starved.get() + waited);
        }
        Ok(())
    }

    /// Chooses the form of a call and sends it.
    fn send(&mut self, xid: u32, entry: &mut Entry, sent: &mut Sent) -> Result<(), Unsent> {
        let mut lists = std::mem::take(&mut self.lists);
        let mut message = std::mem::take(&mut self.scratch);
        let mut call = std::mem::take(&mut self.call);
        lists.clear();
        message.clear();
        call.clear();
        let outcome = self
            .offer_result_memory(entry, sent, &mut lists)
            .and_then(|()| self.build_call(xid, entry, sent, &mut lists, &mut call));
        let outcome = outcome.map(|procedure| {
            let header = TransportHeader {
                xid,
                version: RDMA_VERSION,
                credits: CREDITS,
                procedure,
            };
            header.emit(&mut Encoder::new(&mut message), &lists);
            message.extend_from_slice(&call);
        });
        self.lists = lists;
        // A call that was too large must not keep its memory.
        if call.capacity() <= INLINE_THRESHOLD as usize {
            self.call = call;
        }
        let outcome = outcome.and_then(|()| Ok(self.post(&message)?));
        self.scratch = message;
        outcome
    }

    fn post(&self, message: &[u8]) -> Result<(), Lost> {
        let Ok(len) = u32::try_from(message.len()) else {
            return Err(Lost::Protocol("too long".into()));
        };
        let slot = self
            .inline
            .take()
            .filter(|slot| slot.len() >= message.len());
        let mut buffer = slot.unwrap_or_else(|| Buffer::zeroed(message.len()));
        if let Some(target) = buffer.get_mut(..message.len()) {
            target.copy_from_slice(message);
        }
        let options = SendOptions {
            signal: Signal::OnError,
            ..SendOptions::default()
        };
        Ok(self
            .endpoint
            .post_send(SEND, Source::Buffer { buffer, len }, options)?)
    }

    /// A Write chunk for the opaque result, a Reply chunk for a long reply, or nothing.
    fn offer_result_memory(
        &self,
        entry: &mut Entry,
        sent: &mut Sent,
        lists: &mut ChunkLists,
    ) -> Result<(), Unsent> {
        if self.design == Design::ReadRead {
            return Ok(());
        }
        let inline = HEADER_LEN + REPLY_HEADER_LEN + entry.results_max;
        let sink_len = entry.sink.as_ref().map_or(0, |sink| sink.buffer.len());
        let sink_len = sink_len + pad_len(sink_len);
        if inline + sink_len <= self.reply_max {
            return Ok(());
        }
        let write_len = WRITE_LEN + SEGMENT_LEN * (self.strategy.segments(sink_len) - 1);
        if inline + write_len <= self.reply_max
            && let Some(Sink { buffer, locate }) = entry.sink.take()
        {
            let memory = self.register(buffer, Access::RemoteWrite)?;
            lists.push_write(&segments(&memory, memory.len()));
            sent.sink = Some(ExposedSink { memory, locate });
            return Ok(());
        }
        let len = REPLY_HEADER_LEN + entry.results_max + sink_len;
        let memory = self.register(Buffer::zeroed(len + pad_len(len)), Access::RemoteWrite)?;
        lists.set_reply(&segments(&memory, memory.len()));
        sent.reply = Some(memory);
        Ok(())
    }

    /// The RPC message of a Send: inline, with a Read chunk for the opaque argument, or with the call in a chunk.
    fn build_call(
        &self,
        xid: u32,
        entry: &mut Entry,
        sent: &mut Sent,
        lists: &mut ChunkLists,
        call: &mut Vec<u8>,
    ) -> Result<TransportProcedure, Unsent> {
        entry.emit_header(xid, &self.shared.config.credential, &mut Encoder::new(call));
        let header_len = call.len();
        let payload_len = entry.payload.as_ref().map_or(0, |payload| payload.len);
        let padded = payload_len + pad_len(payload_len);
        let transport = HEADER_LEN - 12 + lists.encoded_len();
        let reduced = header_len + entry.arguments.len();
        if transport + reduced + padded <= self.call_max {
            entry.emit_arguments(&mut Encoder::new(call));
            Ok(TransportProcedure::Msg)
        } else if payload_len > 0
            && transport + self.read_list_len(payload_len) + reduced <= self.call_max
        {
            let Some(payload) = entry.payload.take() else {
                return Err(Unsent::TooLarge);
            };
            let position = payload.position;
            call.extend_from_slice(&entry.arguments);
            // Cannot fail: only a connection that sends the call shares the buffer, and the last one has ended.
            let Ok(buffer) = Rc::try_unwrap(payload.buffer) else {
                return Err(Unsent::TooLarge);
            };
            let memory = self.register(buffer, Access::RemoteRead)?;
            let place = u32::try_from(header_len + position).unwrap_or(u32::MAX);
            for segment in segments(&memory, payload_len) {
                lists.push_read(place, segment);
            }
            sent.source = Some(memory);
            sent.payload = Some((position, payload_len));
            Ok(TransportProcedure::Msg)
        } else {
            entry.emit_arguments(&mut Encoder::new(call));
            if transport + self.read_list_len(call.len()) > self.call_max {
                return Err(Unsent::TooLarge);
            }
            let memory =
                self.register(Buffer::from_vec(std::mem::take(call)), Access::RemoteRead)?;
            for segment in segments(&memory, memory.len()) {
                lists.push_read(0, segment);
            }
            sent.source = Some(memory);
            Ok(TransportProcedure::Nomsg)
        }
    }

    /// Bytes of a Read chunk for memory of `len` bytes.
    fn read_list_len(&self, len: usize) -> usize {
        READ_LEN * self.strategy.segments(len)
    }

    fn register(&self, buffer: Buffer, access: Access) -> Result<Registered, RegisterError> {
        let scope = Scope::Endpoint(self.endpoint.id());
        Rc::clone(&self.strategy).register(buffer, access, scope)
    }

    /// Takes a call of the server, which must be inline (RFC 8167 section 5); refuses one with chunks.
    fn called(&mut self, xid: u32, lists: &ChunkLists, message: &[u8]) -> Result<(), Lost> {
        if lists.is_empty() {
            return self.backward.begin(message);
        }
        self.reply_with(
            xid,
            TransportProcedure::Error(TransportError::Chunk),
            |_| {},
        )
    }

    /// Answers calls of the server.
    fn send_replies(&mut self) -> Result<(), Lost> {
        while let Some(mut job) = self.backward.next_reply() {
            let xid = job.call.xid;
            let len = HEADER_LEN + job.reply.header_len() + job.reply.stream_len();
            if len > self.call_max {
                job.reply.fail(AcceptStatus::SystemErr);
            }
            self.reply_with(xid, TransportProcedure::Msg, |out| {
                job.reply.emit_message(xid, true, out);
            })?;
        }
        Ok(())
    }

    fn reply_with(
        &mut self,
        xid: u32,
        procedure: TransportProcedure,
        emit: impl FnOnce(&mut Vec<u8>),
    ) -> Result<(), Lost> {
        let mut message = std::mem::take(&mut self.scratch);
        message.clear();
        let header = TransportHeader {
            xid,
            version: RDMA_VERSION,
            // Each credit has a receive, which `complete` posts again before the reply to its call leaves.
            credits: CALLBACKS_MAX as u32,
            procedure,
        };
        header.emit(&mut Encoder::new(&mut message), &ChunkLists::new());
        emit(&mut message);
        let posted = self.post(&message);
        self.scratch = message;
        posted
    }

    /// Takes a received message: a reply ends its call, a call of the server begins.
    fn take_message(&mut self, bytes: &[u8], invalidated: Option<RemoteKey>) -> Result<(), Lost> {
        let mut lists = std::mem::take(&mut self.lists);
        let mut decoder = Decoder::new(bytes);
        let parsed = TransportHeader::parse(&mut decoder, &mut lists, LIMITS);
        let message = decoder.remaining();
        let outcome = match &parsed {
            Ok(header) if header.procedure == TransportProcedure::Msg && is_call(message) => {
                self.called(header.xid, &lists, message)
            }
            _ => self.match_reply(parsed, &lists, message, invalidated),
        };
        self.lists = lists;
        outcome
    }

    fn match_reply(
        &mut self,
        parsed: Result<TransportHeader, TransportHeaderError>,
        lists: &ChunkLists,
        message: &[u8],
        invalidated: Option<RemoteKey>,
    ) -> Result<(), Lost> {
        let (xid, header) = match parsed {
            Ok(header) => (header.xid, Some(header)),
            Err(TransportHeaderError::Short) => return Ok(()),
            Err(
                TransportHeaderError::Version { xid, .. }
                | TransportHeaderError::Procedure { xid, .. }
                | TransportHeaderError::Chunk { xid, .. },
            ) => (xid, None),
        };
        let answered = self.pull_of(xid).is_some();
        let Some(sent) = (!answered).then(|| self.sent.remove(&xid)).flatten() else {
            tracing::debug!(xid, "reply to no call");
            return Ok(());
        };
        // The key that the reply revoked must be one of this call. A server that revoked another call's key would make
        // that memory come back while its own RDMA Write is still on the way.
        let exposes = |key| {
            let mut exposed = sent.iter().flat_map(|sent| sent.exposed());
            exposed.any(|memory| memory.address().key == key)
        };
        if invalidated.is_some_and(|key| !exposes(key)) {
            self.sent.insert(xid, sent);
            return Err(Lost::Protocol("revoked a key of another call".to_string()));
        }
        // A grant of 0 counts as 1: the client could never call again otherwise.
        if let Some(header) = &header {
            self.credits = header.credits.clamp(1, CREDITS) as usize;
        }
        let reply = Reply {
            header,
            lists,
            message,
            placed: 0,
        };
        match sent {
            Some(sent) => self.withdraw(xid, *sent, reply),
            None => self.conclude(xid, None, reply),
        }
    }

    /// Revokes the keys of a call before it is answered.
    fn withdraw(&mut self, xid: u32, sent: Sent, mut reply: Reply<'_>) -> Result<(), Lost> {
        let lists = reply.lists;
        if sent.sink.is_some() {
            reply.placed = lists.writes().next().map_or(0, total);
        }
        let placed = reply.placed;
        let watch = self.watch_of(xid);
        let written = lists.reply().map_or(0, total);
        let mut withdrawal = stages::within(watch.as_ref(), || sent.withdraw(placed, written));
        if withdrawal.is_done() {
            return self.conclude(xid, Some(withdrawal), reply);
        }
        if let Some(watch) = watch {
            watch.enter(Stage::Registration);
        }
        self.late.push(Late::Reply(Box::new(LateReply {
            xid,
            withdrawal,
            header: reply.header,
            lists: lists.clone(),
            message: reply.message.to_vec(),
            placed,
        })));
        Ok(())
    }

    /// The stopwatch of the operation that a call belongs to.
    fn watch_of(&self, xid: u32) -> Option<Rc<Stopwatch>> {
        let mut pending = self.shared.calls.pending.borrow_mut();
        pending.get_mut(xid)?.watch().cloned()
    }

    /// Answers a call whose memory is deregistered, or begins the RDMA Reads of a reply that is exposed.
    fn conclude(
        &mut self,
        xid: u32,
        withdrawal: Option<Withdrawal>,
        reply: Reply<'_>,
    ) -> Result<(), Lost> {
        let Reply {
            header,
            lists,
            message,
            placed,
        } = reply;
        let mut pending = self.shared.calls.pending.borrow_mut();
        let Some(entry) = pending.get_mut(xid) else {
            return Ok(());
        };
        let returned = withdrawal.map_or_else(Returned::default, |it| it.give_back(entry));
        let is_long = header.is_some_and(|header| header.procedure == TransportProcedure::Nomsg);
        if returned.lost_sink || (returned.lost_reply && is_long) {
            pending.finish(xid, Err(CallError::Memory));
            return Ok(());
        }
        let reply = returned.reply;
        if let (Some(header), Design::ReadRead, false) =
            (header, self.design, lists.reads().is_empty())
        {
            drop(pending);
            let long = header.procedure == TransportProcedure::Nomsg;
            return self.pull(xid, lists, message, long);
        }
        let outcome = match header.map(|header| header.procedure) {
            None => Err(CallError::Malformed("transport header")),
            Some(TransportProcedure::Error(_)) => Err(CallError::TransportRefused),
            Some(_) if !lists.reads().is_empty() => {
                Err(CallError::Malformed("read list in a reply"))
            }
            Some(TransportProcedure::Done) => Err(CallError::Malformed("transport procedure")),
            Some(TransportProcedure::Nomsg) => whole_reply(lists, reply.as_ref())
                .and_then(|message| take_results(entry, message, 0)),
            Some(TransportProcedure::Msg) if lists.reply().is_some_and(|it| total(it) > 0) => Err(
                CallError::Malformed("reply chunk used with an inline reply"),
            ),
            Some(TransportProcedure::Msg) => {
                stages::within(entry.watch().cloned().as_ref(), || {
                    let _stage = stages::enter(Stage::Copy);
                    take_results(entry, message, placed)
                })
            }
        };
        match outcome {
            Ok((results, sink)) => pending.answer(xid, results, sink),
            Err(error) => pending.finish(xid, Err(error)),
        }
        Ok(())
    }
}

/// A received reply.
struct Reply<'a> {
    /// `None` when it cannot be parsed.
    header: Option<TransportHeader>,
    lists: &'a ChunkLists,
    message: &'a [u8],
    /// Bytes that the server wrote to the sink.
    placed: usize,
}

/// Names the first `len` bytes of exposed memory to the server.
fn segments(memory: &Registered, len: usize) -> Vec<Segment> {
    // Payloads and replies are far below 2^32.
    let named = memory.segments(u32::try_from(len).unwrap_or(u32::MAX));
    let segment = |(address, length): (RemoteAddress, u32)| Segment {
        handle: address.key.0,
        length,
        offset: address.offset,
    };
    named.map(segment).collect()
}

fn total(segments: &[Segment]) -> usize {
    let lengths = segments.iter().map(|segment| segment.length as usize);
    lengths.fold(0, usize::saturating_add)
}

/// The RPC message in the Reply chunk.
fn whole_reply<'a>(lists: &ChunkLists, reply: Option<&'a Buffer>) -> Result<&'a [u8], CallError> {
    let malformed = CallError::Malformed("reply chunk");
    let len = lists.reply().map(total);
    len.and_then(|len| reply?.get(..len)).ok_or(malformed)
}

type Results = (Vec<u8>, Option<(Buffer, usize)>);

/// The results in an RPC reply of which `placed` bytes are in the entry's sink already.
fn take_results(entry: &mut Entry, message: &[u8], placed: usize) -> Result<Results, CallError> {
    let results_at = check_reply(message)?;
    let results = message.get(results_at..).unwrap_or(&[]);
    let Some(mut sink) = entry.sink.take() else {
        return Ok((results.to_vec(), None));
    };
    if placed == 0 {
        let (results, len) = fill_sink(results, &mut sink)?;
        return Ok((results, Some((sink.buffer, len))));
    }
    let head = (sink.locate)(results).and_then(|position| results.get(..position));
    if head.and_then(opaque_len) != Some(placed) || placed > sink.buffer.len() {
        return Err(CallError::Malformed("opaque result and write chunk differ"));
    }
    Ok((results.to_vec(), Some((sink.buffer, placed))))
}
