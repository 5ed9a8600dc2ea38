//! The answering side: the state that all connections of a core share, and the listeners that begin connections.

pub(crate) mod admit;
mod departing;
mod payloads;
mod rdma;
mod tcp;
pub(crate) mod worker;

use crate::counters::{Counters, RefusedConnection};
use crate::limits::{
    BATCH_LEN, IDLE_BATCHES_MAX, IDLE_JOB_BYTES_MAX, IDLE_JOBS_MAX, IDLE_WORKERS_MAX,
    JOB_BYTES_KEPT, STAGE_LEN,
};
use crate::reply_cache::ReplyCache;
use crate::service::{CredentialFault, Refused, Service, TakenApart, Transport};
use gannet_datapath::{Datapath, Engine};
use gannet_fabric::registration::{self, Registration};
use gannet_fabric::{Completion, Provider, RegisterError};
use gannet_runtime::stages::{Stage, Stopwatch};
use gannet_runtime::{Buffer, Handle, Instant, Listener, LogLimit, Stream};
use gannet_session::limits::LOG_INTERVAL;
use gannet_session::{Activities, Activity, Budget, ConnectionLimits, Gate};
use gannet_wire::rpcrdma::{ChunkLists, Design};
use payloads::PayloadMemory;
use std::cell::{Cell, RefCell};
use std::fmt::Display;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use worker::{Job, Worker};

/// Answers calls on one core, over any number of connections of either transport. Clones share everything.
///
/// The service belongs to the core; the reply cache and the counters may be shared with the servers of other cores.
pub struct Server<S: Service> {
    core: Rc<Core<S>>,
}

impl<S: Service> Clone for Server<S> {
    fn clone(&self) -> Server<S> {
        Server {
            core: Rc::clone(&self.core),
        }
    }
}

impl<S: Service> Server<S> {
    /// A server without connections, with a budget of its own.
    pub fn new(
        runtime: Handle,
        service: Rc<S>,
        cache: Arc<ReplyCache>,
        counters: Arc<Counters>,
    ) -> Server<S> {
        Server::within(Budget::default(), runtime, service, cache, counters)
    }

    /// A server without connections, whose peers share `budget` with those of other cores and servers.
    pub fn within(
        budget: Budget,
        runtime: Handle,
        service: Rc<S>,
        cache: Arc<ReplyCache>,
        counters: Arc<Counters>,
    ) -> Server<S> {
        let core = Core {
            payloads: PayloadMemory::new(Handle::clone(&runtime), budget.kept()),
            latest: Cell::new(runtime.now()),
            runtime,
            service,
            cache,
            counters,
            stage: Cell::default(),
            scratch: Cell::default(),
            completions: Cell::default(),
            idle_lists: RefCell::default(),
            idle_workers: RefCell::default(),
            idle_jobs: RefCell::default(),
            idle_job_bytes: Cell::default(),
            idle_batches: RefCell::default(),
            activities: Activities::new(budget),
            unreadable_log: LogLimit::new(LOG_INTERVAL),
            refused_log: LogLimit::new(LOG_INTERVAL),
            dropped_log: LogLimit::new(LOG_INTERVAL),
            region_log: LogLimit::new(LOG_INTERVAL),
        };
        Server {
            core: Rc::new(core),
        }
    }

    /// Sets how many connections this core holds from now on; those it has already may stay.
    pub fn limit_connections(&self, limits: ConnectionLimits) {
        self.core.activities.limit(limits);
    }

    /// Takes connections from `listener` and answers them until [`Server::stop`].
    ///
    /// # Errors
    /// The listener is broken.
    pub async fn serve_tcp(&self, listener: Box<dyn Listener>) -> io::Result<()> {
        let mut listener = self.admitting(listener);
        let activity = self.core.activities.listener();
        tracing::debug!(address = %listener.local_address(), "answering rpc over tcp");
        while let Some(stream) = activity.unless_stopped(listener.accept()).await {
            let (core, stream) = (Rc::clone(&self.core), stream?);
            let task = Box::pin(async move {
                let memory = Rc::clone(&core.payloads);
                tcp::serve(core, stream).await;
                memory.note_freed();
            });
            self.core.runtime.spawn("rpc over tcp", task);
        }
        Ok(())
    }

    /// Takes connections of `provider` from `listener` and answers them until [`Server::stop`]. Their payloads move
    /// as `options` say; a [`Registration`] alone means the Read-Write design.
    ///
    /// # Errors
    /// The listener is broken, the provider's connections cannot share receives, or it does not have the engine.
    pub async fn serve_rdma(
        &self,
        provider: Rc<dyn Provider>,
        options: impl Into<RdmaOptions>,
        mut listener: Box<dyn gannet_fabric::Listener>,
    ) -> io::Result<()> {
        let activity = self.core.activities.listener();
        let runtime = Handle::clone(&self.core.runtime);
        let RdmaOptions {
            registration,
            design,
            engine,
        } = options.into();
        let strategy = registration.over(provider.domain(), runtime);
        self.core.payloads.add_strategy(&strategy);
        let path = Datapath::new(&provider.capabilities(), strategy);
        let path = match engine {
            Some(engine) => path.with_engine(engine).map_err(io::Error::other)?,
            None => path,
        };
        let receives = rdma::receive_pool(&*provider).ok_or(io::ErrorKind::Unsupported)?;
        self.core.payloads.add_receives(&receives);
        tracing::debug!(address = %listener.local_address(), "answering rpc over rdma");
        while let Some(incoming) = activity.unless_stopped(listener.accept()).await {
            let (core, incoming) = (Rc::clone(&self.core), incoming?);
            let memory = rdma::Memory::new(&*provider, &path, design, Rc::clone(&receives));
            let task = Box::pin(async move {
                let payloads = Rc::clone(&core.payloads);
                rdma::serve(core, memory, incoming).await;
                payloads.note_freed();
            });
            self.core.runtime.spawn("rpc over rdma", task);
        }
        Ok(())
    }

    /// `streams`, but for those of peers that the service does not admit: they are aborted at once. For what providers
    /// of RDMA connections listen on; [`Server::serve_tcp`] does so by itself.
    pub fn admitting(&self, streams: Box<dyn Listener>) -> Box<dyn Listener> {
        let core = Rc::clone(&self.core);
        Box::new(Gate::new(streams, move |peer| core.admits(peer)))
    }

    /// Answers one connection until it ends.
    pub async fn serve_stream(&self, stream: Stream) {
        tcp::serve(Rc::clone(&self.core), stream).await;
    }

    /// Counters of the registration strategies of this core, one for each RDMA listener.
    pub fn registrations(&self) -> Vec<registration::Counters> {
        self.core.payloads.registrations()
    }

    /// Gives up unused registrations and unused payload memory, because memory is short. The core does so by
    /// itself when unused slots of other lengths use up its bound, and when no call used any for
    /// [`crate::limits::PAYLOAD_IDLE_MAX`].
    pub fn reclaim(&self) {
        self.core.payloads.reclaim();
    }

    /// Bytes of payload memory that are kept and unused; see [`Server::reclaim`].
    pub fn memory_kept(&self) -> usize {
        self.core.payloads.idle()
    }

    /// Takes no new connections and no new calls; calls under way are still answered.
    pub fn stop(&self) {
        self.core.activities.stop();
    }

    /// Waits until all connections have ended after [`Server::stop`]. The caller bounds the wait. At most one task may
    /// wait at a time: a second one would take the wake-up of the first.
    pub async fn drained(&self) {
        self.core.activities.drained().await;
    }

    /// Memory that the connections of this core hold now.
    pub fn memory_in_use(&self) -> MemoryInUse {
        self.core.payloads.in_use()
    }

    /// The counters, over all connections so far.
    pub fn counters(&self) -> &Counters {
        &self.core.counters
    }
}

/// How the RDMA connections of a listener move payloads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RdmaOptions {
    /// How memory is registered.
    pub registration: Registration,
    /// The design for clients that ask for it; all others get Read-Write. Read-Read opens payload memory to them: each
    /// connection to its own replies, until RDMA_DONE.
    pub design: Design,
    /// How file ranges leave; `None` chooses by provider and length.
    pub engine: Option<Engine>,
}

impl From<Registration> for RdmaOptions {
    fn from(registration: Registration) -> RdmaOptions {
        RdmaOptions {
            registration,
            ..RdmaOptions::default()
        }
    }
}

/// Bytes of a core's bounded memory that are in use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MemoryInUse {
    /// Payloads of calls, being received or under execution.
    pub payloads: usize,
    /// Messages and Sends of RDMA connections.
    pub inline: usize,
}

/// The state that all connections of a core share.
///
/// Each buffer in a `Cell` is taken, used within one poll and put back, never across an await. Another connection that
/// ran meanwhile would find it empty and allocate its own, and one of the two would be dropped.
pub(crate) struct Core<S> {
    runtime: Handle,
    /// The time that was read last in the turn of a connection. A call begins then: with its turn, or at the end of the
    /// call that ended last. One look at the clock a call is enough; what calls between them did before they began to
    /// wait counts too.
    latest: Cell<Instant>,
    service: Rc<S>,
    cache: Arc<ReplyCache>,
    counters: Arc<Counters>,
    payloads: Rc<PayloadMemory>,
    /// The memory into which every connection of the core receives, so that it stays in the CPU's cache. File ranges
    /// pass through it on their way out.
    stage: Cell<Buffer>,
    /// The memory in which messages are put together before they go to memory that can be sent.
    scratch: Cell<Vec<u8>>,
    /// The completions of the connection that is being polled.
    completions: Cell<Vec<Completion>>,
    idle_lists: RefCell<Vec<ChunkLists>>,
    /// Used last in first out: the same few are in the CPU's cache.
    idle_workers: RefCell<Vec<Worker>>,
    #[allow(clippy::vec_box)] // They travel boxed: this way none is allocated again.
    idle_jobs: RefCell<Vec<Box<Job>>>,
    /// Bytes of memory that the idle jobs keep, at most [`IDLE_JOB_BYTES_MAX`].
    idle_job_bytes: Cell<usize>,
    /// Memory for small replies.
    idle_batches: RefCell<Vec<Vec<u8>>>,
    activities: Rc<Activities>,
    unreadable_log: LogLimit,
    refused_log: LogLimit,
    dropped_log: LogLimit,
    region_log: LogLimit,
}

impl<S: Service> Core<S> {
    /// Reads the clock.
    fn now(&self) -> Instant {
        let now = self.runtime.now();
        self.latest.set(now);
        now
    }

    fn take_worker(self: &Rc<Self>) -> Worker {
        let idle = self.idle_workers.borrow_mut().pop();
        idle.unwrap_or_else(|| Worker::new(self))
    }

    fn put_worker(&self, worker: Worker) {
        let mut idle = self.idle_workers.borrow_mut();
        if idle.len() < IDLE_WORKERS_MAX {
            idle.push(worker);
        }
    }

    fn take_job(&self) -> Box<Job> {
        let Some(job) = self.idle_jobs.borrow_mut().pop() else {
            return Box::new(Job::empty());
        };
        self.idle_job_bytes
            .set(self.idle_job_bytes.get() - job.kept());
        job
    }

    /// A stopwatch for a call that is in `stage` since then, if the service wants to know where its time goes.
    fn stopwatch(&self, stage: Stage, since: Instant) -> Option<Rc<Stopwatch>> {
        let wanted = self.service.takes_apart();
        wanted.then(|| Stopwatch::start(&self.runtime, stage, since))
    }

    /// Ends the way of a call whose reply has left.
    fn left(&self, job: Box<Job>) {
        if let Some(watch) = &job.watch {
            let taken = TakenApart {
                parts: watch.parts(),
                ended: self.runtime.wall_clock(),
                first_word: job.first_word,
            };
            self.service.took_apart(&job.call, &taken);
        }
        self.put_job(job);
    }

    fn put_job(&self, mut job: Box<Job>) {
        job.watch = None;
        job.call.clear();
        job.reply.clear();
        let kept = job.kept();
        let all = self.idle_job_bytes.get() + kept;
        let mut idle = self.idle_jobs.borrow_mut();
        if idle.len() < IDLE_JOBS_MAX && kept <= JOB_BYTES_KEPT && all <= IDLE_JOB_BYTES_MAX {
            self.idle_job_bytes.set(all);
            idle.push(job);
        }
    }

    fn take_batch(&self) -> Option<Vec<u8>> {
        self.idle_batches.borrow_mut().pop()
    }

    fn put_batch(&self, batch: Vec<u8>) {
        let mut idle = self.idle_batches.borrow_mut();
        if idle.len() < IDLE_BATCHES_MAX && batch.capacity() <= 2 * BATCH_LEN {
            idle.push(batch);
        }
    }

    fn take_lists(&self) -> ChunkLists {
        self.idle_lists.borrow_mut().pop().unwrap_or_default()
    }

    fn put_lists(&self, mut lists: ChunkLists) {
        lists.clear();
        let mut idle = self.idle_lists.borrow_mut();
        if idle.len() < IDLE_JOBS_MAX {
            idle.push(lists);
        }
    }

    /// Whether the service admits this peer's address. A refusal is counted.
    fn admits(&self, peer: SocketAddr) -> bool {
        let admits = self.service.admits(peer.ip());
        if !admits {
            self.note_refused(peer, RefusedConnection::NotAdmitted);
            self.service.observe_refusal(peer, Refused::Address);
        }
        admits
    }

    /// Tells the service about a call that was answered because of its credential.
    fn note_fault(&self, peer: SocketAddr, transport: Transport, fault: Option<CredentialFault>) {
        if let Some(fault) = fault {
            let refused = Refused::Credential { transport, fault };
            self.service.observe_refusal(peer, refused);
        }
    }

    /// A place for a connection from `peer`, for which another may be evicted; `None` without room. The connection
    /// costs `idle` bytes while it does nothing.
    fn admit(&self, peer: SocketAddr, idle: usize) -> Option<Activity> {
        let now = self.runtime.now();
        let (activity, shortage) = self.activities.connection(peer.ip(), idle, now);
        if let Some(shortage) = shortage {
            self.note_refused(peer, RefusedConnection::NoRoom(shortage));
        }
        activity
    }

    /// Counts a connection for which there is no room, and logs one at most every [`LOG_INTERVAL`].
    fn note_refused(&self, peer: SocketAddr, refused: RefusedConnection) {
        self.counters.refuse(refused);
        if let Some(left_out) = self.refused_log.admit(self.runtime.now()) {
            let connections = self.activities.connections();
            let why = refused.why();
            tracing::warn!(%peer, why, connections, left_out, "no room for a connection");
        }
    }

    /// Counts a connection whose peer broke a rule, and logs one at most every [`LOG_INTERVAL`].
    fn note_dropped(&self, peer: SocketAddr, why: &dyn Display) {
        self.counters.drops.add(1);
        if let Some(left_out) = self.dropped_log.admit(self.runtime.now()) {
            tracing::info!(%peer, %why, left_out, "connection dropped");
        }
    }

    /// Logs memory that could not be registered, at most every [`LOG_INTERVAL`].
    fn note_no_region(&self, peer: SocketAddr, error: &RegisterError) {
        if let Some(left_out) = self.region_log.admit(self.runtime.now()) {
            tracing::warn!(%peer, %error, left_out, "no region for a call or a reply");
        }
    }

    /// Counts a reply whose file cannot be read, and logs one at most every [`LOG_INTERVAL`].
    fn note_unreadable(&self, peer: SocketAddr, xid: u32, error: io::ErrorKind) {
        self.counters.unreadable.add(1);
        if let Some(left_out) = self.unreadable_log.admit(self.runtime.now()) {
            tracing::warn!(%peer, xid, %error, left_out, "the file of a reply cannot be read");
        }
    }

    fn take_stage(&self) -> Buffer {
        let mut stage = self.stage.take();
        if stage.len() != STAGE_LEN {
            stage = Buffer::zeroed(STAGE_LEN);
        }
        stage
    }
}
