//! The calling side: calls of many tasks over one connection, kept up as long as there are calls.
//!
//! [`Client::call`] leaves its request in the table of [`Calls`] and waits; the client's one task (the
//! driver) connects, sends and receives. After a lost connection it sends each call without an answer again, with the
//! same XID, so that the server's duplicate request cache recognises it.
//!
//! Callers and the driver share the table in a `RefCell`. Each borrows it within one poll, never across an await.

mod backward;
mod rdma;
mod tcp;
mod timer;
mod types;

pub use types::{
    ArgumentPayload, CallError, CallerCredential, ClientConfig, Persistence, Request, Response,
    Sink, Target,
};

use crate::calls::Calls;
use crate::limits::CLIENT_CALLS_MAX;
use crate::service::Service;
use backward::{AnyService, NoService};
use gannet_fabric::registration::{Counters, ProgramMemory, Strategy};
use gannet_fabric::{DeregisterError, Disconnected, Provider, RegisterError};
use gannet_runtime::{Buffer, Handle, SlotId, sleep, timeout};
use gannet_wire::rpcrdma::Design;
use std::cell::Cell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

/// Makes calls over one connection to one server. Clones share it; it closes when the last of them is dropped.
#[derive(Clone)]
pub struct Client {
    owner: Rc<Owner>,
}

/// Closes the connection when the last clone of the client is dropped. The driver holds [`Shared`] and not this, else
/// the count would never reach zero.
struct Owner {
    shared: Rc<Shared>,
}

impl Drop for Owner {
    fn drop(&mut self) {
        self.shared.calls.close();
    }
}

/// The transport and address of the server.
enum Route {
    Tcp(SocketAddr),
    /// The strategy outlives connections, so that the memory that it keeps registered serves the next one.
    Rdma(Rc<dyn Provider>, SocketAddr, Rc<ProgramMemory>),
}

impl Route {
    fn new(target: Target, config: &ClientConfig, runtime: &Handle) -> Route {
        match target {
            Target::Tcp(address) => Route::Tcp(address),
            Target::Rdma(provider, address) => {
                let domain = provider.domain();
                let strategy = (config.registration).over(domain, Handle::clone(runtime));
                let runtime = Handle::clone(runtime);
                let memory = ProgramMemory::over(strategy, provider.domain(), runtime);
                Route::Rdma(provider, address, memory)
            }
        }
    }

    fn address(&self) -> SocketAddr {
        match self {
            Route::Tcp(address) | Route::Rdma(_, address, _) => *address,
        }
    }

    /// The memory that stays registered; `None` on TCP.
    fn memory(&self) -> Option<&Rc<ProgramMemory>> {
        match self {
            Route::Tcp(_) => None,
            Route::Rdma(_, _, memory) => Some(memory),
        }
    }
}

/// How long a client waits for replies, and repeats calls.
#[derive(Clone, Copy)]
struct Patience {
    reply_timeout: Duration,
    persistence: Persistence,
}

/// The state that callers and the driver share.
struct Shared {
    calls: Calls,
    route: Route,
    config: ClientConfig,
    /// How long the client waits and repeats now; the configuration says with what it begins.
    patience: Cell<Patience>,
    /// Answers the calls that the server makes over our connection.
    service: Rc<dyn AnyService>,
    /// The driver runs; the first call starts it.
    started: Cell<bool>,
    /// The sum of the times in which a call waited for a credit.
    credit_starved: Cell<Duration>,
    /// The design of the newest connection.
    design: Cell<Design>,
}

impl Client {
    /// A client that connects to `target` when the first call is made. The server may call nothing here.
    pub fn new(runtime: Handle, target: Target, config: ClientConfig) -> Client {
        Client::answering(runtime, target, config, Rc::new(NoService))
    }

    /// The same, whose server may call `service` over the connection that the client has made. Such calls are executed
    /// as they come, and their replies leave on that connection or not at all: their payloads must be in memory, and
    /// over RDMA a reply must fit an inline message.
    pub fn answering<S: Service>(
        runtime: Handle,
        target: Target,
        config: ClientConfig,
        service: Rc<S>,
    ) -> Client {
        // The low half: an XID has 32 bits.
        let first_xid = (runtime.random() & u64::from(u32::MAX)) as u32;
        let route = Route::new(target, &config, &runtime);
        let shared = Rc::new(Shared {
            calls: Calls::new(&runtime, first_xid, CLIENT_CALLS_MAX),
            route,
            patience: Cell::new(Patience {
                reply_timeout: config.reply_timeout,
                persistence: config.persistence,
            }),
            config,
            service,
            started: Cell::new(false),
            credit_starved: Cell::new(Duration::ZERO),
            design: Cell::default(),
        });
        Client {
            owner: Rc::new(Owner { shared }),
        }
    }

    /// Makes a call and waits for its results. Many may be under way at a time; replies come in any order.
    ///
    /// Dropping the future gives the call up; the server may execute it nevertheless.
    ///
    /// # Errors
    /// Any [`CallError`]; the request's memory is dropped then.
    pub async fn call(&self, request: Request) -> Result<Response, CallError> {
        let shared = &self.owner.shared;
        let driven = || {
            if !shared.started.replace(true) {
                let driver = Box::pin(drive(Rc::clone(shared)));
                shared.calls.runtime.spawn("rpc client", driver);
            }
        };
        shared.calls.call(request, driven).await
    }

    /// Waits for replies and repeats calls as `config` says, from now on, over the connection that there is. Nothing
    /// else of the configuration changes. So a client that had little patience with an unknown server becomes one of
    /// a server that has answered.
    pub fn be_patient(&self, config: &ClientConfig) {
        self.owner.shared.patience.set(Patience {
            reply_timeout: config.reply_timeout,
            persistence: config.persistence,
        });
    }

    /// How long calls have waited, in all, because the server had granted no more credits (RPC/RDMA only: a TCP
    /// connection has none).
    pub fn credit_starved(&self) -> Duration {
        self.owner.shared.credit_starved.get()
    }

    /// The counters of the registration strategy and of kept memory, over all connections; `None` on TCP.
    pub fn registration(&self) -> Option<Counters> {
        let memory = self.owner.shared.route.memory();
        memory.map(|memory| memory.counters())
    }

    /// Registers memory of a slot for many calls, until [`Client::take_back`] or [`Client::forget`], by any strategy.
    /// Over TCP there is nothing to register. A device without memory windows registers it for each call nevertheless,
    /// and a log line says so.
    ///
    /// # Errors
    /// Any [`RegisterError`].
    pub async fn keep(&self, buffer: Buffer) -> Result<(), RegisterError> {
        let Some(memory) = self.owner.shared.route.memory() else {
            return Ok(());
        };
        if !memory.serves_peers() {
            tracing::info!("the device has no memory windows: memory is registered for each call");
        }
        memory.keep(buffer).await
    }

    /// Ends the registration of a slot's memory, and returns the memory.
    ///
    /// # Errors
    /// The adapter could not end it, and keeps the memory.
    pub async fn take_back(&self, buffer: Buffer) -> Result<Buffer, DeregisterError> {
        match self.owner.shared.route.memory() {
            Some(memory) => memory.take_back(buffer).await,
            None => Ok(buffer),
        }
    }

    /// Ends the registration of memory that its program has dropped.
    pub fn forget(&self, slot: SlotId) {
        if let Some(memory) = self.owner.shared.route.memory() {
            memory.forget(slot);
        }
    }

    /// The design that the server agreed to on the newest connection. Read-Write before there was one, and on TCP.
    pub fn design(&self) -> Design {
        self.owner.shared.design.get()
    }

    /// Closes the connection; calls under way fail with [`CallError::Closed`].
    pub fn close(&self) {
        self.owner.shared.calls.close();
    }
}

/// Why a connection is over.
#[derive(Debug, thiserror::Error)]
enum Lost {
    #[error("the client is closed")]
    Closed,
    #[error("the server closed it")]
    Peer,
    #[error("no reply in time")]
    Overdue,
    #[error("the server broke the protocol: {0}")]
    Protocol(String),
    #[error("{0}")]
    Gone(Disconnected),
    #[error(transparent)]
    Io(#[from] std::io::Error),
}

/// The client's task: connects when there are calls, serves the connection until it ends, and starts over.
async fn drive(shared: Rc<Shared>) {
    let mut backoff = Duration::ZERO;
    while !shared.calls.is_closed() {
        if shared.calls.pending.borrow().is_empty() {
            shared.calls.work.notified().await;
            continue;
        }
        if !backoff.is_zero() {
            // New calls wait too: a connection for each of them would burden a server that is overloaded.
            sleep(&shared.calls.runtime, backoff).await;
        }
        let address = shared.route.address();
        match connect(&shared).await {
            Ok(link) => {
                let lost = link.run(&shared).await;
                if matches!(lost, Lost::Closed) {
                    break;
                }
                tracing::info!(%address, why = %lost, "rpc connection lost");
                shared
                    .calls
                    .pending
                    .borrow_mut()
                    .connection_lost(shared.patience.get().persistence);
            }
            Err(why) => {
                tracing::info!(%address, %why, "no rpc connection");
                shared
                    .calls
                    .pending
                    .borrow_mut()
                    .connect_failed(shared.patience.get().persistence, &why);
            }
        }
        // No pause after a connection that answered a call; otherwise twice the last one. A server that accepts and
        // breaks each connection would otherwise be called in a tight loop.
        backoff = if shared.calls.pending.borrow_mut().take_progress() {
            Duration::ZERO
        } else {
            (backoff * 2).clamp(shared.config.backoff_min, shared.config.backoff_max)
        };
    }
    shared
        .calls
        .pending
        .borrow_mut()
        .fail_all(&CallError::Closed);
}

/// A connection that was made.
enum Link {
    Tcp(gannet_runtime::Stream),
    Rdma(rdma::RdmaLink),
}

impl Link {
    async fn run(self, shared: &Rc<Shared>) -> Lost {
        match self {
            Link::Tcp(stream) => tcp::run(shared, stream).await,
            Link::Rdma(link) => link.run(shared).await,
        }
    }
}

async fn connect(shared: &Shared) -> Result<Link, String> {
    let patience = shared.config.connect_timeout;
    match &shared.route {
        Route::Rdma(provider, address, memory) => {
            let connecting = rdma::connect(
                &**provider,
                *address,
                Rc::<ProgramMemory>::clone(memory),
                shared.config.design,
            );
            match timeout(&shared.calls.runtime, patience, connecting).await {
                Ok(Ok(link)) => Ok(Link::Rdma(link)),
                Ok(Err(error)) => Err(error.to_string()),
                Err(elapsed) => Err(elapsed.to_string()),
            }
        }
        Route::Tcp(address) => {
            let connecting = shared.calls.runtime.connect(*address);
            match timeout(&shared.calls.runtime, patience, connecting).await {
                Ok(Ok(stream)) => Ok(Link::Tcp(stream)),
                Ok(Err(error)) => Err(error.to_string()),
                Err(elapsed) => Err(elapsed.to_string()),
            }
        }
    }
}
