//! The server of a core: the accept loop of the manager and of the I/O servers.

use crate::limits::{
    BUSY_WITHIN, CONNECTION_MEMORY, CONNECTIONS_MAX, NUMBER_PATIENCE, ORIGIN_PART,
    REPLACE_DEADLINE, UNAUTHENTICATED_MAX,
};
use crate::link::{self, AcceptOptions, EndReason, Handler, Link, Pool, TrafficClasses};
use crate::number_lease::NumberLease;
use crate::secret::{CurrentKeys, ServerKeys};
use gannet_fabric::{Incoming, Listener, Provider};
use gannet_metrics::{Clients, Counter, Exposition, Family, Label};
use gannet_runtime::{Handle, LogLimit, timeout};
use gannet_session::limits::{BUDGET_BYTES, CONNECTION_BYTES, LOG_INTERVAL};
use gannet_session::{Activities, Activity, Budget, ConnectionLimits, Shortage};
use gannet_wire::volume::{Abilities, Hello, Refusal, Role, Token};
use std::cell::{Cell, RefCell};
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;
use tokio::sync::watch;

/// The connections of a core by the memory that peers may make the process hold.
fn connection_limits(budget: &Budget) -> ConnectionLimits {
    let bytes = budget.bytes_max();
    let of_memory = |connections: usize| connections.saturating_mul(bytes) / BUDGET_BYTES;
    let total_max = (bytes / CONNECTION_MEMORY).min(CONNECTIONS_MAX);
    ConnectionLimits {
        total_max,
        per_origin_max: total_max / ORIGIN_PART,
        unauthenticated_max: of_memory(UNAUTHENTICATED_MAX).min(total_max),
    }
}

/// The places of a core, and their bounds.
struct Places {
    activities: Rc<Activities>,
    limits: ConnectionLimits,
}

impl Places {
    fn new(budget: Budget) -> Places {
        let limits = connection_limits(&budget);
        let activities = Activities::new(budget);
        activities.limit(limits);
        activities.keep_busy(BUSY_WITHIN);
        Places { activities, limits }
    }
}

/// The bound that a refusal names.
fn full(shortage: Option<Shortage>) -> Refusal {
    match shortage {
        Some(Shortage::Origin) => Refusal::OfAddress,
        Some(Shortage::Memory) | None => Refusal::Memory,
        Some(Shortage::Unauthenticated | Shortage::Total) => Refusal::Connections,
    }
}

/// The work of servers of a volume, over all their connections and cores.
#[derive(Debug, Default)]
pub struct ServerCounters {
    /// Connections that came and found room.
    pub connections: Counter,
    /// Connections that found no room.
    pub refused: Counter,
    /// Requests that came.
    pub requests: Counter,
    /// Bytes of requests, and those fetched by RDMA Read.
    pub bytes_in: Counter,
    /// Bytes of replies, and those delivered by RDMA Write.
    pub bytes_out: Counter,
    /// The work of each client. Servers of the volume are clients of each other.
    pub clients: Clients,
}

impl ServerCounters {
    /// Adds the counters of servers of one role: `manager` or `io-server`.
    pub fn collect(&self, role: &'static str, into: &mut Exposition) {
        for (name, help, counter) in [
            (
                "gannet_volume_connections",
                "Connections of a volume's servers that found room.",
                &self.connections,
            ),
            (
                "gannet_volume_refused_connections",
                "Connections of a volume's servers that found no room.",
                &self.refused,
            ),
            (
                "gannet_volume_requests",
                "Requests that came to a volume's servers.",
                &self.requests,
            ),
            (
                "gannet_volume_received_bytes",
                "Bytes of requests, and those fetched by RDMA Read.",
                &self.bytes_in,
            ),
            (
                "gannet_volume_sent_bytes",
                "Bytes of replies, and those delivered by RDMA Write.",
                &self.bytes_out,
            ),
        ] {
            into.counter(
                &Family::counter(name, help),
                &[Label::word("role", role)],
                counter,
            );
        }
    }
}

/// A server of one volume on one core.
pub struct Server {
    runtime: Handle,
    volume: Token,
    keys: ServerKeys,
    /// Keys that change, in place of these.
    current: RefCell<Option<CurrentKeys>>,
    handler: Rc<dyn Handler>,
    /// The lease of the number under which it serves; `None` if it needs none.
    lease: RefCell<Option<Rc<NumberLease>>>,
    /// Its name in [`Hello::server`]; `None` accepts peers that name any server.
    named: Cell<Option<u16>>,
    classes: Cell<TrafficClasses>,
    pool: Pool,
    places: RefCell<Places>,
    full_log: LogLimit,
    stray_log: LogLimit,
    refused_log: LogLimit,
}

impl Server {
    /// A server whose `handler` answers the peers of `volume`.
    pub fn new(
        runtime: Handle,
        volume: Token,
        keys: ServerKeys,
        handler: Rc<dyn Handler>,
    ) -> Rc<Server> {
        Rc::new(Server {
            runtime,
            volume,
            keys,
            current: RefCell::default(),
            handler,
            lease: RefCell::default(),
            named: Cell::new(None),
            classes: Cell::default(),
            pool: Pool::new(),
            places: RefCell::new(Places::new(Budget::default())),
            full_log: LogLimit::new(LOG_INTERVAL),
            stray_log: LogLimit::new(LOG_INTERVAL),
            refused_log: LogLimit::new(LOG_INTERVAL),
        })
    }

    /// Charges the memory that peers make it hold to `budget`, which it may share with other servers.
    #[must_use]
    pub fn drawing_on(self: Rc<Self>, budget: Budget) -> Rc<Server> {
        self.places.replace(Places::new(budget));
        self
    }

    /// Takes its keys from `keys` at each connection. When that of the clients changes, their connections end.
    #[must_use]
    pub fn following(self: Rc<Self>, keys: CurrentKeys) -> Rc<Server> {
        self.current.replace(Some(keys));
        self
    }

    fn keys(&self) -> ServerKeys {
        let current = self.current.borrow();
        current.as_ref().map_or(self.keys, CurrentKeys::now)
    }

    /// The next connection; meanwhile ends those of clients when their key changes.
    async fn accept(
        &self,
        listener: &mut dyn Listener,
        changes: &mut Option<watch::Receiver<ServerKeys>>,
    ) -> io::Result<Box<dyn Incoming>> {
        let mut accepting = listener.accept();
        let Some(changes) = changes else {
            return accepting.await;
        };
        loop {
            let mut changed = std::pin::pin!(changes.changed());
            let next = std::future::poll_fn(|context| {
                // Never an error: this server has the keys.
                if let Poll::Ready(Ok(())) = changed.as_mut().poll(context) {
                    return Poll::Ready(None);
                }
                accepting.as_mut().poll(context).map(Some)
            });
            match next.await {
                None => self.end_clients(),
                Some(incoming) => return incoming,
            }
        }
    }

    fn end_clients(&self) {
        for link in self.pool.accepted.links() {
            if link.peer() == Role::Client {
                link.abort(EndReason::KeyChanged);
            }
        }
    }

    /// Serves clients and I/O servers only while `lease` lasts.
    #[must_use]
    pub fn leased(self: Rc<Self>, lease: Rc<NumberLease>) -> Rc<Server> {
        self.lease.replace(Some(lease));
        self
    }

    /// Whether a peer with this private data may connect now. A lease that is about to begin is waited for; managers
    /// need none, because one that begins needs this server for its term.
    async fn has_lease_for(&self, private_data: &[u8]) -> bool {
        let lease = self.lease.borrow().clone();
        let role = Hello::from_bytes(private_data).map_or(Role::Client, |hello| hello.role);
        match lease {
            Some(lease) if !lease.admits(role) => {
                let begins = timeout(&self.runtime, NUMBER_PATIENCE, lease.begins());
                begins.await.is_ok()
            }
            _ => true,
        }
    }

    fn is_leased_for(&self, peer: Role) -> bool {
        let lease = self.lease.borrow();
        lease.as_ref().is_none_or(|lease| lease.admits(peer))
    }

    /// Ends the connections of clients and I/O servers each time when the lease is over: they could still read memory.
    pub(crate) async fn end_unleased(&self, lease: &NumberLease) {
        loop {
            lease.begins().await;
            lease.is_over().await;
            for link in self.pool.accepted.links() {
                if link.peer() != Role::Manager {
                    link.abort(EndReason::NoLease);
                }
            }
        }
    }

    /// Ends all connections, and waits until no request is under way.
    pub(crate) async fn end_all(&self) {
        let links = self.pool.accepted.links();
        for link in &links {
            link.abort(EndReason::NoLease);
        }
        for link in &links {
            link.idle().await;
        }
    }

    /// Refuses peers that name another server than `name` in [`Hello::server`]: after a restart, another server may
    /// have the port.
    #[must_use]
    pub fn named(self: Rc<Self>, name: u16) -> Rc<Server> {
        self.named.set(Some(name));
        self
    }

    /// Counts its work in `counters`, which it may share with other servers.
    #[must_use]
    pub fn counting(self: Rc<Self>, counters: Arc<ServerCounters>) -> Rc<Server> {
        self.pool.accepted.count_in(counters);
        self
    }

    /// Sends with these traffic classes.
    #[must_use]
    pub fn marking(self: Rc<Self>, classes: TrafficClasses) -> Rc<Server> {
        self.classes.set(classes);
        self
    }

    /// A place for a connection from `peer`, perhaps by evicting another; otherwise the bound that leaves none.
    fn place(&self, peer: SocketAddr) -> Result<Activity, Refusal> {
        let now = self.runtime.now();
        let activities = Rc::clone(&self.places.borrow().activities);
        let (activity, shortage) = activities.connection(peer.ip(), CONNECTION_BYTES, now);
        if let Some(why) = shortage.map(Shortage::why)
            && let Some(left_out) = self.full_log.admit(now)
        {
            tracing::warn!(%peer, why, left_out, "no room for a connection");
        }
        let counters = self.pool.accepted.counters();
        match activity {
            Some(_) => counters.connections.add(1),
            None => counters.refused.add(1),
        }
        activity.ok_or(full(shortage))
    }

    fn is_meant(&self, private_data: &[u8]) -> bool {
        let hello = Hello::from_bytes(private_data);
        let name = self.named.get();
        hello.is_none_or(|hello| name.is_none_or(|name| name == hello.server))
    }

    /// Notes a connection; gives the connections that it replaces.
    fn replaced_by(&self, link: &Link) -> Vec<Link> {
        let mut before = self.pool.accepted.add(link);
        // Several managers connect to the active one. An I/O server has one manager.
        let is_manager = self.named.get() == Some(Hello::MANAGER);
        let is_same =
            |other: &Link| link.peer() == other.peer() && link.session() == other.session();
        before.retain(|other| {
            if is_manager {
                is_same(other)
            } else {
                link.replaces(other)
            }
        });
        before
    }

    /// Admits a peer if no request of its earlier connections is under way: a write that is sent again must not be done
    /// a second time after others have written the same bytes. Otherwise waits for their end, and refuses: the peer may
    /// have died meanwhile, and its requests on this connection may be older than those of others. A live one connects
    /// again.
    async fn admit(&self, link: &Link) -> Result<(), EndReason> {
        let mut has_waited = false;
        let replaced = self.replaced_by(link);
        for other in &replaced {
            other.abort(EndReason::Replaced);
        }
        for other in &replaced {
            has_waited |= other.is_busy();
            let idle = timeout(&self.runtime, REPLACE_DEADLINE, other.idle()).await;
            if idle.is_err() {
                return Err(EndReason::EarlierUnderWay);
            }
        }
        if link.is_over() {
            Err(EndReason::Replaced)
        } else if has_waited {
            Err(EndReason::EarlierEnded)
        } else {
            Ok(())
        }
    }

    /// Accepts connections of `provider` from `listener` and answers them, until the listener fails.
    ///
    /// # Errors
    /// The error of the listener, or of a provider whose connections cannot share receives.
    pub async fn serve(
        self: Rc<Self>,
        provider: Rc<dyn Provider>,
        mut listener: Box<dyn Listener>,
    ) -> io::Result<()> {
        let capabilities = provider.capabilities();
        let read_depth = capabilities.read_depth_max;
        let abilities = Abilities {
            immediates: capabilities.immediates,
            number_leases: self.named.get() == Some(Hello::MANAGER),
            request_ids: self.named.get() == Some(Hello::MANAGER),
        };
        self.pool.serve(&*provider, &self.runtime);
        let connections_max = self.places.borrow().limits.total_max;
        self.pool.accepted.serve(&*provider, connections_max)?;
        let mut changes = self.current.borrow().as_ref().map(CurrentKeys::changes);
        loop {
            let incoming = self.accept(&mut *listener, &mut changes).await?;
            self.pool.accepted.forget_gone();
            let peer = incoming.peer_address();
            if !self.is_meant(incoming.private_data()) {
                if let Some(left_out) = self.stray_log.admit(self.runtime.now()) {
                    tracing::info!(%peer, left_out, "the peer means another server");
                }
                let why = Refusal::OtherServer;
                incoming.reject(why.to_bytes().to_vec()).await;
                continue;
            }
            let activity = match self.place(peer) {
                Ok(activity) => activity,
                Err(why) => {
                    incoming.reject(why.to_bytes().to_vec()).await;
                    continue;
                }
            };
            let receiving = Rc::clone(&self).receive(incoming, activity, read_depth, abilities);
            self.runtime
                .spawn("volume connection set-up", Box::pin(receiving));
        }
    }

    /// Lets a peer connect if it has the key, and if this server has its number.
    async fn receive(
        self: Rc<Self>,
        incoming: Box<dyn Incoming>,
        activity: Activity,
        read_depth: u16,
        abilities: Abilities,
    ) {
        let (peer, keys) = (incoming.peer_address(), self.keys());
        if !self.has_lease_for(incoming.private_data()).await {
            incoming.reject(Refusal::NoLease.to_bytes().to_vec()).await;
            return;
        }
        let options = AcceptOptions {
            volume: self.volume,
            keys,
            classes: self.classes.get(),
            read_depth,
            abilities,
        };
        let handler = Rc::clone(&self.handler);
        let (runtime, pool) = (&self.runtime, &self.pool);
        let admit = async |link: &Link| {
            // After this, a change finds the connection among the accepted ones.
            if link.peer() == Role::Client && self.keys() != keys {
                return Err(EndReason::KeyChanged);
            }
            let admitted = self.admit(link).await;
            // Also after the wait for earlier connections.
            if !self.is_leased_for(link.peer()) {
                return Err(EndReason::NoLease);
            }
            admitted
        };
        let accepting = link::accept(runtime, pool, options, incoming, activity, handler, admit);
        let Err(error) = accepting.await else {
            return;
        };
        // Its messages took memory as well.
        pool.accepted.note_freed(runtime);
        if let Some(left_out) = self.refused_log.admit(runtime.now()) {
            tracing::info!(%peer, %error, left_out, "connection refused");
        }
    }
}
