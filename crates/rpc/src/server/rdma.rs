//! One RPC/RDMA connection in the Read-Write design (RFC 8166): the server alone moves bulk data.
//!
//! A call passes these steps:
//!
//! 1. its Send arrives in a receive;
//! 2. its Read chunks are pulled, and the message is put together ([`inbound`]);
//! 3. the service executes it in a worker, as over TCP;
//! 4. the reply's payload is written to the Write chunk, or the whole reply to the Reply chunk, and one Send ends the
//!    call ([`reply`]).
//!
//! Where both ends agreed on the Read-Read design, replies that fit no Send are exposed instead ([`exposed`]).
//!
//! The connections of a core share receives; [`gannet_session::Credits`] bounds the use of each. A call's receive
//! is free again when its reply is queued, because the peer may use the credit as soon as it has the reply. But the
//! call counts as under way until its reply has *left*, and so do the reply's bytes in the budget. A peer that
//! exceeds its credits, or takes no replies and goes on calling, ends its own connection.

mod exposed;
mod inbound;
mod reply;

use super::Core;
use super::worker::{CallTable, Job};
use crate::calls::CallsBack;
use crate::counters::{OpenConnection, RefusedConnection};
use crate::limits::{
    CREDITS, CREDITS_FIRST, CREDITS_IDLE, CREDITS_INITIAL, CREDITS_READ_READ, CREDITS_STEP,
    INLINE_THRESHOLD, MESSAGES_SPARE, RECEIVES_MAX, RECEIVES_RESERVED,
};
use crate::rounds;
use crate::service::Service;
use exposed::{Exposed, Part};
use gannet_datapath::Datapath;
use gannet_fabric::{
    Completion, ConnectOptions, Connected, Disconnected, Done, Incoming, PostError, Provider,
    Revocation, SharedReceives, WorkError, WorkId,
};
use gannet_metrics::{ClientConnection, Reach};
use gannet_runtime::{Buffer, LocalFuture};
use gannet_session::limits::{CONNECTION_BYTES, CONNECTIONS_MAX};
use gannet_session::{
    Activity, Charge, CreditLimits, Credits, Deadlines, Exceeded, Grant, Overdue, PoolLimits,
    ReceivePool, Share, Timer, Waits,
};
use gannet_wire::rpcrdma::{Design, PrivateData};
use inbound::Context as CallContext;
use reply::{Departure, Held};
use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::task::{Context, Poll};
use thiserror::Error;

const POOL: PoolLimits = PoolLimits {
    receives_max: RECEIVES_MAX,
    reserve: RECEIVES_RESERVED,
    connections_max: CONNECTIONS_MAX as u32,
};
const _: () = assert!(POOL.hold());

/// The purpose of a piece of work, packed into its [`WorkId`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Work {
    /// A receive.
    Receive,
    /// A Read chunk's segment of the call in this place.
    Pull(usize),
    /// An RDMA Write for the call with this XID.
    Write(u32),
    /// The Send that ends this many pieces of work.
    Send(u32),
}

impl Work {
    fn id(self) -> WorkId {
        let (kind, value) = match self {
            Work::Receive => (0, 0),
            Work::Pull(place) => (1, place as u64),
            Work::Write(xid) => (2, u64::from(xid)),
            Work::Send(count) => (3, u64::from(count)),
        };
        WorkId(kind << 32 | value)
    }

    fn of(id: WorkId) -> Work {
        let value = (id.0 & u64::from(u32::MAX)) as u32;
        match id.0 >> 32 {
            1 => Work::Pull(value as usize),
            2 => Work::Write(value),
            3 => Work::Send(value),
            _ => Work::Receive,
        }
    }
}

/// Why a connection ends.
#[derive(Debug, Error)]
enum End {
    #[error("{0}")]
    Disconnected(#[from] Disconnected),
    #[error("work failed: {0}")]
    Work(#[from] WorkError),
    #[error("work refused: {0}")]
    Post(#[from] PostError),
    #[error(transparent)]
    Credits(#[from] Exceeded),
    #[error(transparent)]
    Overdue(#[from] Overdue),
    #[error("out of receives")]
    Memory,
    #[error("the server stops")]
    Stopped,
    #[error("idle or without a call so far, and others need the room")]
    Evicted,
}

impl End {
    fn of_receives(error: PostError) -> End {
        match error {
            PostError::QueueFull => End::Memory,
            other => End::Post(other),
        }
    }

    fn is_offence(&self) -> bool {
        matches!(
            self,
            End::Credits(_)
                | End::Overdue(_)
                | End::Work(WorkError::Remote(_) | WorkError::Refused)
                | End::Disconnected(Disconnected::PeerMisbehaved(_))
        )
    }
}

/// The registration of a connection's payloads, and the provider's capabilities for it.
#[derive(Clone)]
pub(super) struct Memory {
    path: Datapath,
    sends_invalidate: bool,
    read_depth_max: u16,
    /// For a listener the design that clients may ask for, for a connection the agreed one.
    design: Design,
    receives: Rc<ReceivePool>,
}

/// The receives of a listener's connections on this core; `None` when the provider's cannot be shared.
pub(super) fn receive_pool(provider: &dyn Provider) -> Option<Rc<ReceivePool>> {
    let queue = provider.shared_receives(SharedReceives {
        id: Work::Receive.id(),
        len: INLINE_THRESHOLD as usize,
        receives_max: POOL.receives_max,
    });
    queue.map(|queue| ReceivePool::new(queue, POOL))
}

impl Memory {
    pub(super) fn new(
        provider: &dyn Provider,
        path: &Datapath,
        design: Design,
        receives: Rc<ReceivePool>,
    ) -> Memory {
        let capabilities = provider.capabilities();
        Memory {
            receives,
            design,
            path: path.clone(),
            sends_invalidate: capabilities.sends_invalidate,
            read_depth_max: capabilities.read_depth_max,
        }
    }

    /// The private data that the server sends when it accepts a connection.
    fn private_data(&self) -> PrivateData {
        PrivateData {
            remote_invalidation: self.sends_invalidate,
            send_size: INLINE_THRESHOLD,
            receive_size: INLINE_THRESHOLD,
        }
    }

    /// The design of a connection: the one that the peer asks for, if the listener allows it and the peer can read.
    fn agree(&self, incoming: &dyn Incoming) -> Design {
        let can_read = incoming.read_depths().is_none_or(|(_, ord)| ord > 0);
        if self.design == Design::ReadRead && self.read_depth_max > 0 && can_read {
            Design::find(incoming.private_data())
        } else {
            Design::ReadWrite
        }
    }
}

/// Accepts `incoming` and answers it until it ends.
pub(super) async fn serve<S: Service>(
    core: Rc<Core<S>>,
    memory: Memory,
    incoming: Box<dyn Incoming>,
) {
    let peer = incoming.peer_address();
    let admitted = core
        .admits(peer)
        .then(|| core.admit(peer, CONNECTION_BYTES));
    let Some(activity) = admitted.flatten() else {
        return incoming.reject(Vec::new()).await;
    };
    let Some(share) = memory.receives.join(peer.ip().into()) else {
        core.note_refused(peer, RefusedConnection::OutOfReceives);
        return incoming.reject(Vec::new()).await;
    };
    let design = memory.agree(&*incoming);
    let mut private_data = memory.private_data().to_bytes().to_vec();
    private_data.extend(design.to_bytes().into_iter().flatten());
    let options = ConnectOptions {
        private_data,
        ord: memory.read_depth_max,
        ird: match design {
            Design::ReadWrite => 0,
            Design::ReadRead => memory.read_depth_max,
        },
        receives: share.receives(),
        ..ConnectOptions::default()
    };
    let memory = Memory { design, ..memory };
    match activity.unless_over(incoming.accept(options)).await {
        Some(Ok(endpoint)) => answer(core, activity, memory, endpoint, share).await,
        Some(Err(error)) => tracing::debug!(%peer, %error, "rdma connection not made"),
        None => {}
    }
}

/// Answers a connection until it ends. It is no `async fn`, whose future would hold the arguments beside the connection
/// that they have become: idle connections would need more memory.
fn answer<S: Service>(
    core: Rc<Core<S>>,
    activity: Activity,
    memory: Memory,
    endpoint: Connected,
    share: Share,
) -> impl Future<Output = ()> {
    let peer = endpoint.peer_address();
    let theirs = PrivateData::find(endpoint.private_data()).unwrap_or_default();
    tracing::debug!(%peer, %theirs, design = %memory.design, "rdma connection");
    let mut connection = Connection::new(core, activity, memory, endpoint, share, theirs);
    async move {
        let end = rounds::run(|context| connection.round(context)).await;
        let Connection {
            core,
            peer,
            endpoint,
            calls,
            held,
            ..
        } = connection;
        if matches!(end, End::Memory) {
            core.note_refused(peer, RefusedConnection::OutOfReceives);
        }
        if matches!(end, End::Overdue(Overdue::Done)) {
            core.counters.overdue.add(1);
        }
        if end.is_offence() {
            core.note_dropped(peer, &end);
        } else {
            tracing::debug!(%peer, why = %end, "rdma connection ended");
        }
        match end {
            End::Stopped | End::Evicted => endpoint.close(),
            End::Disconnected(_) => {}
            other => endpoint.abort(&other.to_string()),
        }
        calls.finish_beside(&core, held);
    }
}

fn credit_limits(design: Design) -> CreditLimits {
    CreditLimits {
        initial: CREDITS_INITIAL,
        first: CREDITS_FIRST,
        step: CREDITS_STEP,
        max: match design {
            Design::ReadWrite => CREDITS,
            Design::ReadRead => CREDITS_READ_READ,
        },
        spare: MESSAGES_SPARE,
        idle: CREDITS_IDLE,
    }
}

/// A file range that must come from the disk before its reply can be built.
type ColdRead = (Box<Job>, LocalFuture<io::Result<Buffer>>);

struct Connection<S: Service> {
    core: Rc<Core<S>>,
    activity: Activity,
    memory: Memory,
    endpoint: Connected,
    peer: SocketAddr,
    client: ClientConnection,
    /// Largest message we may send.
    send_max: usize,
    /// The peer lets us revoke its keys.
    invalidates: bool,
    calls: CallTable,
    /// Calls from their arrival to their reply, by place.
    contexts: Vec<Option<CallContext>>,
    free: Vec<usize>,
    /// Calls that wait until the budget has room for their replies, in their order.
    waiting: VecDeque<Box<Job>>,
    /// Calls whose Read chunks wait for memory or for room in the send queue, in their order: a stream of small WRITEs
    /// must not overtake a long call for ever.
    pulls_waiting: VecDeque<usize>,
    /// Memory of calls whose Read chunks are complete, until the provider has revoked its key. The service must not
    /// see bytes that the peer can still change.
    revoking: Vec<(usize, Revocation<Option<Buffer>>)>,
    /// Bytes of memory that calls under way hold for their Read chunks.
    holding: usize,
    cold: Vec<ColdRead>,
    /// Replies that wait for room in the send queue.
    departures: VecDeque<Departure>,
    /// The memory of replies in the send queue, oldest first, each until its Send is done. Sends complete in order, so
    /// each completion frees the front.
    leaving: VecDeque<Held>,
    /// Finished calls whose files are read into memory once other replies have left it.
    unread: VecDeque<Box<Job>>,
    /// Replies that the peer may read.
    exposed: Exposed,
    /// Finished calls that wait until the peer has released exposed replies.
    unexposed: VecDeque<(Box<Job>, Part)>,
    credits: Credits,
    open: OpenConnection,
    /// Calls that this server makes to the client.
    back: CallsBack,
    /// The number of them that may be under way.
    back_credits: usize,
    /// Bytes that the replies of calls under way may take.
    reserved: usize,
    /// Bytes of memory of replies that are complete, until they have left, and of files for others.
    reply_bytes: usize,
    /// The charge of the peer's memory to the budget; see [`Connection::count_held`].
    held: Charge,
    /// Bytes that the peer sent or took so far.
    moved: u64,
    /// The budget had no room in this round. It wakes no task when it has room again, so the timer looks again.
    short_of_budget: bool,
    /// Writes and Sends in the send queue.
    posted: u32,
    posted_max: u32,
    /// RDMA Reads in the send queue.
    pulls: u32,
    deadlines: Deadlines,
    timer: Timer,
}

impl<S: Service> Connection<S> {
    fn new(
        core: Rc<Core<S>>,
        activity: Activity,
        memory: Memory,
        endpoint: Connected,
        share: Share,
        theirs: PrivateData,
    ) -> Connection<S> {
        let own = memory.private_data();
        let deadlines = Deadlines::new(core.runtime.now());
        let timer = Timer::new(&core.runtime, &deadlines);
        let credits = credit_limits(memory.design);
        let peer = endpoint.peer_address();
        Connection {
            peer,
            open: OpenConnection::new(&core.counters, Reach::Rdma),
            client: core.counters.clients.connected(peer.ip(), Reach::Rdma),
            send_max: own.threshold_to(&theirs) as usize,
            invalidates: own.remote_invalidation && theirs.remote_invalidation,
            posted_max: endpoint.attributes().send_queue_max,
            endpoint,
            calls: CallTable::new(activity.id()),
            held: activity.account().charge(0),
            activity,
            memory,
            contexts: Vec::new(),
            free: Vec::new(),
            waiting: VecDeque::new(),
            pulls_waiting: VecDeque::new(),
            revoking: Vec::new(),
            holding: 0,
            cold: Vec::new(),
            departures: VecDeque::new(),
            leaving: VecDeque::new(),
            unread: VecDeque::new(),
            exposed: Exposed::default(),
            unexposed: VecDeque::new(),
            credits: Credits::new(share, credits, core.runtime.now()),
            back: CallsBack::new(&core.runtime),
            core,
            // As for the calls of a client: one, until a reply grants more (RFC 8166 section 3.3.1).
            back_credits: 1,
            reserved: 0,
            reply_bytes: 0,
            moved: 0,
            short_of_budget: false,
            posted: 0,
            pulls: 0,
            deadlines,
            timer,
        }
    }

    /// Does what it can; returns true if there may be more to do, false once a waker is registered for each wait.
    fn round(&mut self, context: &mut Context<'_>) -> Result<bool, End> {
        self.deadlines.at(self.core.now());
        self.short_of_budget = false;
        if self.posted == 0 {
            self.deadlines.nothing_to_send();
        }
        self.core.service.moment();
        self.calls.register(context);
        let mut done = Vec::new();
        self.calls.poll_woken(&self.core, |job| done.push(job));
        let mut progress = !done.is_empty();
        for job in done {
            self.finish(job)?;
        }
        progress |= self.poll_cold(context)?;
        progress |= self.poll_endpoint(context)?;
        self.retry_pulls()?;
        // Behind all steps that revoke memory: a revocation that began later in the round would have no waker, and the
        // connection would sleep for ever.
        progress |= self.poll_revoking(context)?;
        self.start_waiting()?;
        self.read_on()?;
        progress |= self.back.poll_made(context);
        self.call_back()?;
        self.endpoint.flush();
        if progress {
            self.activity.note(self.deadlines.now());
            return Ok(true);
        }
        self.count_held();
        self.activity.account().set_waiting(self.short_of_budget);
        // Registered before the checks: an eviction after them wakes this task.
        self.activity.register(context);
        if self.activity.is_evicted() {
            return Err(End::Evicted);
        }
        if self.activity.is_stopping() && self.is_quiet() {
            return Err(End::Stopped);
        }
        self.poll_timer(context)
    }

    /// Charges all memory that this connection holds for its peer: Read chunks, replies to come, replies that have not
    /// left, exposed replies.
    fn count_held(&mut self) {
        let bytes = self.holding + self.reserved + self.reply_bytes + self.exposed.bytes();
        self.held.set(bytes);
    }

    /// True when the budget has room for `bytes` more; otherwise notes that the timer must look again.
    fn has_room_for(&mut self, bytes: usize) -> bool {
        self.count_held();
        let has_room = self.activity.account().has_room_for(bytes);
        self.short_of_budget |= !has_room;
        has_room
    }

    /// Bytes held until the peer sends or takes some.
    fn kept(&self) -> usize {
        let pulled = if self.pulls > 0 { self.holding } else { 0 };
        pulled + self.reply_bytes + self.exposed.bytes()
    }

    fn is_quiet(&self) -> bool {
        self.posted == 0 && self.free.len() == self.contexts.len() && self.exposed.is_empty()
    }

    fn poll_endpoint(&mut self, context: &mut Context<'_>) -> Result<bool, End> {
        let mut completions = self.core.completions.take();
        let polled = self.endpoint.poll_completions(context, &mut completions);
        if !completions.is_empty() {
            self.core.service.moment();
        }
        let outcome = completions
            .drain(..)
            .try_for_each(|completion| self.complete(completion));
        self.core.completions.set(completions);
        outcome?;
        match polled {
            Poll::Ready(Ok(())) => Ok(true),
            Poll::Ready(Err(reason)) => Err(reason.into()),
            Poll::Pending => Ok(false),
        }
    }

    fn complete(&mut self, completion: Completion) -> Result<(), End> {
        let work = Work::of(completion.id);
        let done = match completion.outcome {
            Ok(done) => done,
            Err(WorkError::Flushed) => return Ok(()),
            Err(error) => {
                self.poison(work, error);
                return Err(error.into());
            }
        };
        match (work, done) {
            (_, Done::Received { len, .. }) => {
                self.deadlines.bytes_received();
                let Some(buffer) = completion.buffer else {
                    return Ok(());
                };
                self.core.counters.bytes_in.add(u64::from(len));
                self.client.received(u64::from(len));
                self.core.payloads.look_after();
                self.receive(buffer, len as usize)
            }
            (Work::Pull(place), _) => self.pulled(place),
            (Work::Send(count), _) => {
                self.posted = self.posted.saturating_sub(count);
                // Only now do the bytes and the credit come back: a peer that takes no replies and goes on calling
                // must run out of them.
                let mut held = self.leaving.pop_front().unwrap_or_default();
                if let Some(call) = held.call.take() {
                    self.core.left(call);
                }
                self.reply_bytes -= held.bytes;
                self.moved += held.bytes as u64;
                self.credits.left(held.limit);
                drop(held);
                self.deadlines.bytes_sent();
                // Reads leave in turn behind replies.
                self.deadlines.record_goes_on();
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Counts a call against the credits of the peer.
    fn request_came(&mut self) -> Result<(), Exceeded> {
        self.credits.request_came(self.deadlines.now())?;
        if self.credits.are_exhausted() {
            self.core.counters.rdma.exhausted.add(1);
        }
        Ok(())
    }

    /// The credits that a reply grants to a peer that asks for `asked`.
    fn grant(&mut self, asked: u32) -> Result<Grant, End> {
        let owed = self.owed();
        let grant = self.credits.answer(&*self.endpoint, asked, owed);
        let grant = grant.map_err(End::of_receives)?;
        self.open.grants(grant.window, asked);
        Ok(grant)
    }

    /// Messages that may come without a credit: an RDMA_DONE for each exposed reply, and a reply to each call of this
    /// server. Each needs a receive beside those of the credits.
    fn owed(&self) -> u32 {
        let replies = u32::try_from(self.back.pending().under_way()).unwrap_or(u32::MAX);
        self.exposed.len().saturating_add(replies)
    }

    /// Ends the handling of a message that no credit covers.
    fn without_credit(&mut self, message: Buffer) -> Result<(), End> {
        // Before the pool is asked for a receive in its place.
        drop(message);
        self.credits.message_came();
        let covered = self.credits.cover(&*self.endpoint, self.owed());
        covered.map_err(End::of_receives)
    }

    /// Notes the call whose transfer failed, so that its duplicate on the next connection is refused: it would fail
    /// again and end that connection too.
    fn poison(&mut self, work: Work, error: WorkError) {
        let xid = match work {
            Work::Write(xid) => Some(xid),
            Work::Pull(place) => self.context(place).map(|call| call.xid),
            _ => None,
        };
        if let Some(xid) = xid {
            let now = self.deadlines.now();
            self.core.cache.poisoned.add(self.peer.ip(), xid, now);
            if let WorkError::File(error) = error {
                self.core.note_unreadable(self.peer, xid, error);
            }
        }
    }

    fn context(&mut self, place: usize) -> Option<&mut CallContext> {
        self.contexts.get_mut(place).and_then(Option::as_mut)
    }

    /// Takes file ranges that have come from the disk.
    fn poll_cold(&mut self, context: &mut Context<'_>) -> Result<bool, End> {
        let (mut at, mut progress) = (0, false);
        while let Some((_, read)) = self.cold.get_mut(at) {
            let Poll::Ready(read) = read.as_mut().poll(context) else {
                at += 1;
                continue;
            };
            let (job, _) = self.cold.swap_remove(at);
            progress = true;
            self.warmed(job, read)?;
        }
        Ok(progress)
    }

    fn poll_timer(&mut self, context: &mut Context<'_>) -> Result<bool, End> {
        self.deadlines.bytes_kept(self.kept(), self.moved);
        let waits = Waits {
            established: self.activity.is_established(),
            in_record: self.pulls > 0,
            to_send: self.posted > 0,
            busy: self.free.len() < self.contexts.len(),
            short_of_memory: self.short_of_budget || !self.pulls_waiting.is_empty(),
            exposed_since: self.exposed.oldest(),
            scarce: self.activity.account().is_scarce(),
            grown: self.is_grown(),
        };
        let Connection {
            core,
            deadlines,
            timer,
            ..
        } = self;
        let due = timer.poll(context, &core.runtime, deadlines, waits)?;
        if due && waits.grown && self.deadlines.are_resting() {
            self.rest();
        }
        Ok(due)
    }

    /// True when it keeps memory that only a busy connection needs.
    fn is_grown(&self) -> bool {
        self.is_quiet() && self.contexts.capacity() + self.leaving.capacity() > 0
    }

    /// Frees that memory. Nothing is under way.
    fn rest(&mut self) {
        self.contexts = Vec::new();
        self.free = Vec::new();
        self.waiting = VecDeque::new();
        self.pulls_waiting = VecDeque::new();
        self.revoking = Vec::new();
        self.cold = Vec::new();
        self.departures = VecDeque::new();
        self.leaving = VecDeque::new();
        self.unread = VecDeque::new();
        self.unexposed = VecDeque::new();
        self.calls.rest();
        self.core.payloads.note_freed();
    }
}
