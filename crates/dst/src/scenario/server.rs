//! A server machine: its processes after each start, and how clients call it.

use super::plan::{Plan, Transport};
use gannet_fabric::Provider;
use gannet_iwarp::{IwarpConfig, IwarpProvider};
use gannet_nfs::server::{Export, Server, Squash};
use gannet_rpc::{
    CacheLimits, CallerCredential, ClientConfig, Counters, Persistence, RdmaOptions, ReplyCache,
    Target,
};
use gannet_runtime::Handle;
use gannet_sim::Node;
use gannet_sim::fabric::SimFabric;
use gannet_sim::store::{Disk, SimStore};
use gannet_sim::{NodeId, World};
use gannet_vfs::Vfs;
use gannet_wire::rpc::Groups;
use std::net::SocketAddr;
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

const TCP_PORT: u16 = 2049;
/// The ports of NFS over TCP, one for each core. A flipped bit would reach the files, because nothing there has a
/// checksum of its own.
pub(super) const TCP_PORTS: Range<u16> = TCP_PORT..TCP_PORT + CORES_MAX;
/// Cores of a server, at most.
const CORES_MAX: u16 = 16;
const RDMA_PORT: u16 = 20049;
/// The machine name in clients' credentials.
pub(super) const CLIENT_NAME: &str = "client";

/// The machine that serves.
pub(super) struct Machine {
    node: Node,
    transport: Transport,
    fabric: Rc<SimFabric>,
    iwarp: IwarpConfig,
    options: RdmaOptions,
}

impl Machine {
    pub(super) fn new(world: &World, node: Node, plan: &Plan) -> Machine {
        Machine {
            node,
            transport: plan.transport,
            fabric: SimFabric::new(world, plan.fabric),
            options: RdmaOptions {
                registration: plan.registration,
                design: plan.designs.0,
                ..RdmaOptions::default()
            },
            iwarp: IwarpConfig {
                crc: plan.crc,
                ulpdu_max: plan.ulpdu_max,
                ..IwarpConfig::default()
            },
        }
    }

    /// Ends the failures by chance of its fabric.
    pub(super) fn heal_fabric(&self) {
        self.fabric.heal();
    }

    pub(super) fn id(&self) -> NodeId {
        self.node.id()
    }

    /// How `provider`, or TCP without one, reaches it.
    pub(super) fn target(&self, provider: Option<Rc<dyn Provider>>) -> Target {
        target(&self.node, 0, provider)
    }

    /// The provider of the run's RDMA transport on `node`, if it has one.
    pub(super) fn provider(&self, node: &Node) -> Option<Rc<dyn Provider>> {
        match self.transport {
            Transport::Tcp => None,
            Transport::Memory => Some(self.fabric.provider(node)),
            Transport::Iwarp | Transport::Mixed => {
                Some(IwarpProvider::new(node.runtime(), self.iwarp.clone()))
            }
        }
    }

    /// Starts the server process.
    pub(super) fn start(&self, disk: &Rc<Disk>) {
        let store = SimStore::open(disk, self.node.runtime());
        let provider = || self.provider(&self.node).map(|it| (it, self.options));
        serve(&self.node, [store], provider);
    }
}

/// Starts a process on `node` that serves `stores`, which are all the same files, by NFS: each on a core of its own,
/// over TCP, and over RDMA where there are providers.
pub(super) fn serve<V: Vfs>(
    node: &Node,
    stores: impl IntoIterator<Item = V>,
    provider: impl Fn() -> Option<(Rc<dyn Provider>, RdmaOptions)>,
) {
    let cache = Arc::new(ReplyCache::new(CacheLimits::default()));
    for (store, core) in stores.into_iter().zip(0..) {
        serve_on_core(node, core, store, Arc::clone(&cache), provider());
    }
}

fn serve_on_core<V: Vfs>(
    node: &Node,
    core: u16,
    store: V,
    cache: Arc<ReplyCache>,
    provider: Option<(Rc<dyn Provider>, RdmaOptions)>,
) {
    let runtime = node.runtime();
    let mut export = Export::new("/").expect("the root is an absolute path");
    export.rules.squash = Squash::None;
    let service = Server::new([(export, store)]).expect("one export is neither none nor many");
    let counters = Arc::<Counters>::default();
    let rpc = gannet_rpc::Server::new(Handle::clone(&runtime), Rc::new(service), cache, counters);
    let listener = runtime
        .listen(address(node, TCP_PORT, core))
        .expect("the last incarnation's listener is gone");
    let serving = rpc.clone();
    let task = async move {
        let served = serving.serve_tcp(listener).await;
        served.expect("simulated listeners do not break");
    };
    runtime.spawn("tcp server", Box::pin(task));
    let Some((provider, options)) = provider else {
        return;
    };
    let listener = provider
        .listen(address(node, RDMA_PORT, core))
        .expect("the last incarnation's listener is gone");
    let task = async move {
        let served = rpc.serve_rdma(provider, options, listener).await;
        served.expect("simulated listeners do not break");
    };
    runtime.spawn("rdma server", Box::pin(task));
}

/// The target of calls to a core of `server`: by RDMA where its client has a provider.
pub(super) fn target(server: &Node, core: u16, provider: Option<Rc<dyn Provider>>) -> Target {
    match provider {
        Some(provider) => Target::Rdma(provider, address(server, RDMA_PORT, core)),
        None => Target::Tcp(address(server, TCP_PORT, core)),
    }
}

fn address(node: &Node, port: u16, core: u16) -> SocketAddr {
    SocketAddr::new(node.ip(), port + core)
}

/// The settings of clients that retry a call until it has a reply.
pub(super) fn calling(uid: u32, gid: u32) -> ClientConfig {
    ClientConfig {
        credential: CallerCredential::Sys {
            machine_name: String::from(CLIENT_NAME),
            uid,
            gid,
            groups: Groups::new(&[]),
        },
        reply_timeout: Duration::from_secs(15),
        connect_timeout: Duration::from_secs(5),
        backoff_max: Duration::from_secs(2),
        persistence: Persistence::Hard,
        ..ClientConfig::default()
    }
}
