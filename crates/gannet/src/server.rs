//! Serving directories, or a volume, over NFS.
//!
//! [`Server`] is for programs that serve a directory. Below it are the parts that the command line settles by itself:
//! [`Serving`] runs what [`Parts`] say on cores of its own.

mod builder;
mod core;
mod fabric;
mod numbers;
mod pressure;
mod stores;

pub use builder::{Builder, Server, ServerError};
#[cfg(feature = "volumes")]
pub(crate) use fabric::CoreFabric;
pub use fabric::{FabricError, FabricListener};

use gannet_fabric::{RegionStats, registration};
use gannet_localfs::LocalTree;
use gannet_metrics::{Exposition, Family, Pools, Registry, SlowOperations, Source};
use gannet_nfs::server::{Audit, Export, MountList, UserGroups};
use gannet_rpc::{CacheLimits, ConnectionLimits, Counters, RdmaOptions, ReplyCache};
use gannet_runtime::tokio_plug::{Cores, SharedListener};
use gannet_session::Budget;
use gannet_session::limits::BUDGET_BYTES;
#[cfg(feature = "volumes")]
use gannet_verbs::VerbsError;
#[cfg(feature = "volumes")]
use gannet_volume::client::VolumeFs;
use numbers::CoreNumbers;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;

/// How long calls under way may take to end after a stop.
const DRAIN_MAX: Duration = Duration::from_secs(5);

/// The file systems that a server exports.
pub enum Content {
    /// Directories of this machine.
    Directories(Vec<(Export, Arc<LocalTree>)>),
    /// A volume, of which each core has a client.
    #[cfg(feature = "volumes")]
    Volume(Vec<Export>, VolumeClients),
    /// Nothing: the listeners refuse every client.
    Nothing,
}

/// Makes a client of a volume for a core.
#[cfg(feature = "volumes")]
pub type VolumeClients =
    Arc<dyn Fn(gannet_runtime::Handle) -> Result<VolumeFs, VerbsError> + Send + Sync>;

/// The settings of a server, all of them given.
pub struct Parts {
    /// The exported file systems.
    pub content: Content,
    /// The number of threads that serve, which the listeners must match.
    pub cores: usize,
    /// Where NFS over TCP listens, if it does.
    pub tcp: Option<SharedListener>,
    /// Where NFS over RDMA listens, if it does.
    pub rdma: Option<FabricListener>,
    /// The bound of the memory that peers may make this process hold.
    pub budget: Budget,
    /// Limits of the connections of each core.
    pub connections: ConnectionLimits,
    /// How memory is registered, and which end moves bulk results.
    pub rdma_options: RdmaOptions,
    /// Where groups of callers are looked up, if they are.
    pub user_groups: Option<Arc<dyn UserGroups>>,
    /// Notes calls that take long.
    pub slow: Arc<SlowOperations>,
    /// Learns who mounts, who is refused and who changes something.
    pub audit: Option<Arc<dyn Audit>>,
}

/// The default bound of the memory that peers may make a process hold: a fixed amount, or an eighth of a small host.
pub fn default_budget() -> Budget {
    let system = rustix::system::sysinfo();
    let memory = u64::from(system.mem_unit).saturating_mul(system.totalram);
    let bytes = (memory / 8).min(BUDGET_BYTES as u64);
    Budget::new(usize::try_from(bytes).unwrap_or(usize::MAX))
}

/// The state that all cores share.
struct Shared {
    parts: Parts,
    cache: Arc<ReplyCache>,
    mounts: Arc<MountList>,
    /// The numbers of each core.
    cores: Vec<Arc<CoreNumbers>>,
    /// All that readers see: the cores, and what the program adds.
    registry: Registry,
    /// The blocking pools of the cores.
    pools: Arc<Pools>,
    /// Counts the times at which memory was short.
    pressure: watch::Receiver<u64>,
    /// Becomes true when the server shall end.
    stop: watch::Receiver<bool>,
}

/// The counters of a server; complete when it has ended.
#[derive(Clone)]
pub struct Tally(Arc<Shared>);

/// A server at work. It ends by its [`Stop`], and with it.
pub struct Serving {
    cores: Cores,
    stop: watch::Sender<bool>,
    shared: Arc<Shared>,
}

/// Changes the exports of a server at work.
#[derive(Clone)]
pub struct Reloader(Arc<Shared>);

/// Ends a server.
pub struct Stop(watch::Sender<bool>);

impl Serving {
    /// Starts the cores. The sockets listen already, so clients that know the addresses can connect.
    ///
    /// # Errors
    /// The operating system refuses a thread.
    pub fn start(parts: Parts) -> io::Result<Serving> {
        let (stop, stopped) = watch::channel(false);
        let count = parts.cores;
        let cores: Vec<_> = (0..count).map(|_| CoreNumbers::new()).collect();
        let registry = Registry::default();
        let sources = cores.iter().map(|core| Arc::clone(core) as Arc<dyn Source>);
        sources.for_each(|source| registry.add(source));
        let cache = Arc::new(ReplyCache::new(CacheLimits::default()));
        registry.add(Arc::clone(&cache) as _);
        let pools = Arc::new(Pools::default());
        registry.add(Arc::clone(&pools) as _);
        let shared = Arc::new(Shared {
            parts,
            cache,
            mounts: Arc::default(),
            cores,
            registry,
            pools,
            pressure: pressure::watch_memory(),
            stop: stopped,
        });
        let for_cores = Arc::clone(&shared);
        let cores = Cores::start(count, move |index, runtime| {
            core::serve(index, runtime, Arc::clone(&for_cores))
        })?;
        Ok(Serving {
            cores,
            stop,
            shared,
        })
    }

    /// The server's counters, which stay usable after its end.
    pub fn tally(&self) -> Tally {
        Tally(Arc::clone(&self.shared))
    }

    /// How the server's exports are changed.
    pub fn reloader(&self) -> Reloader {
        Reloader(Arc::clone(&self.shared))
    }

    /// Returns the handle that ends the server, and a function that blocks until it has ended.
    pub fn split(self) -> (Stop, impl FnOnce() -> io::Result<()> + Send + 'static) {
        let Serving { cores, stop, .. } = self;
        (Stop(stop), move || cores.join())
    }
}

impl Reloader {
    /// The calls that took long, and the bound from which on they do.
    pub fn slow(&self) -> &SlowOperations {
        &self.0.parts.slow
    }

    /// Serves these exports from now on. An export of a directory that is served already keeps its open files, and
    /// connections stay. Content of another kind than at the start changes nothing.
    ///
    /// # Errors
    /// The cores that have not changed their exports within a second; they do when they work again.
    pub async fn change(&self, content: Content) -> Result<(), Vec<usize>> {
        let late = numbers::publish(&self.0.cores, Some(Arc::new(content))).await;
        if late.is_empty() { Ok(()) } else { Err(late) }
    }
}

impl Stop {
    /// Ends the server: calls under way are answered first, for some seconds.
    pub fn stop(&self) {
        // Without receivers all cores have ended by themselves.
        let _ = self.0.send(true);
    }

    /// Waits until every core has ended by itself.
    pub async fn ended_early(&self) {
        self.0.closed().await;
    }
}

impl Tally {
    /// Connections, calls, bytes of all cores.
    pub fn counters(&self) -> Vec<&Counters> {
        self.0.cores.iter().map(|core| &*core.rpc).collect()
    }

    /// The sum of the memory registrations of all cores: as of their end, or of the last [`Tally::read`].
    pub fn registrations(&self) -> registration::Counters {
        numbers::total(&self.0.cores, |core| core.registrations)
    }

    /// The sum of the counters of the registration domains of all cores, as [`Tally::registrations`]. They count file
    /// ranges too, which no strategy registers.
    pub fn regions(&self) -> RegionStats {
        numbers::total(&self.0.cores, |core| core.regions)
    }

    /// The number of cores that serve.
    pub fn cores(&self) -> usize {
        self.0.cores.len()
    }

    /// Where NFS over TCP listens.
    pub fn tcp_address(&self) -> Option<SocketAddr> {
        let listener = self.0.parts.tcp.as_ref();
        listener.map(SharedListener::local_address)
    }

    /// Where NFS over RDMA listens.
    pub fn rdma_address(&self) -> Option<SocketAddr> {
        let listener = self.0.parts.rdma.as_ref();
        listener.map(FabricListener::local_address)
    }

    /// The calls that took long.
    pub fn slow(&self) -> &SlowOperations {
        &self.0.parts.slow
    }

    /// The sources that readers see: the cores, and those that the program adds.
    pub fn registry(&self) -> &Registry {
        &self.0.registry
    }

    /// Reads everything that is counted, and tells what is wrong. Waits a second at most, for cores that do not answer.
    pub async fn read(&self) -> Reading {
        let stuck = numbers::publish(&self.0.cores, None).await;
        let health = if *self.0.stop.borrow() {
            Health::Stopping
        } else if !stuck.is_empty() {
            Health::Stuck(stuck)
        } else if let Some(waiting) = numbers::waits_for_manager(&self.0.cores) {
            Health::Waiting(waiting)
        } else {
            Health::Ready
        };
        let mut counted = self.0.registry.read();
        let budget = &self.0.parts.budget;
        for (family, number) in [
            (&BUDGET_TAKEN, budget.taken()),
            (&BUDGET, budget.bytes_max()),
            (&BUDGET_LARGEST, budget.largest_part()),
            (&PLACES, budget.connections_max()),
            (&PLACES_TAKEN, budget.connections()),
            (&WAITING, budget.waiting()),
        ] {
            counted.number(family, &[], number as u64);
        }
        Reading { health, counted }
    }
}

const BUDGET: Family = Family::gauge(
    "gannet_budget_bytes",
    "The bound of the memory that peers may make this process hold.",
);
const BUDGET_TAKEN: Family = Family::gauge(
    "gannet_budget_taken_bytes",
    "The part of it that is taken now.",
);

const BUDGET_LARGEST: Family = Family::gauge(
    "gannet_budget_largest_holder_bytes",
    "The part of it that the client with the most has taken.",
);
const PLACES: Family = Family::gauge(
    "gannet_budget_connections",
    "The most connections that the budget has room for.",
);
const PLACES_TAKEN: Family = Family::gauge(
    "gannet_budget_taken_connections",
    "Connections now, of all servers in this process.",
);
const WAITING: Family = Family::gauge(
    "gannet_budget_waiting_connections",
    "Connections that wait for room in the budget.",
);

/// Everything that a process counts, at one time.
#[derive(Debug)]
pub struct Reading {
    /// Whether it does its work.
    pub health: Health,
    /// The numbers.
    pub counted: Exposition,
}

/// Whether a process does its work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Health {
    /// It does.
    Ready,
    /// It answers calls under way, and takes no others.
    Stopping,
    /// These cores did not answer within a second: their clients wait too.
    Stuck(Vec<usize>),
    /// No manager of the volume that it exports has answered for so long: calls wait.
    Waiting(Duration),
}
