//! The server machine: what runs on it after each start.

use super::plan::{Plan, Transport};
use crate::fabric::SimFabric;
use crate::node::Node;
use crate::store::{Disk, SimStore};
use crate::world::{NodeId, World};
use gannet_fabric::Provider;
use gannet_iwarp::{IwarpConfig, IwarpProvider};
use gannet_nfs::server::{Export, Server, Squash};
use gannet_rpc::{CacheLimits, Counters, RdmaOptions, ReplyCache};
use gannet_runtime::Handle;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;

const TCP_PORT: u16 = 2049;
const RDMA_PORT: u16 = 20049;

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
            },
            iwarp: IwarpConfig {
                crc: plan.crc,
                ulpdu_max: plan.ulpdu_max,
                ..IwarpConfig::default()
            },
        }
    }

    pub(super) fn id(&self) -> NodeId {
        self.node.id()
    }

    pub(super) fn tcp_address(&self) -> SocketAddr {
        SocketAddr::new(self.node.ip(), TCP_PORT)
    }

    pub(super) fn rdma_address(&self) -> SocketAddr {
        SocketAddr::new(self.node.ip(), RDMA_PORT)
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
        let runtime = self.node.runtime();
        let store = SimStore::open(disk, Handle::clone(&runtime));
        let mut export = Export::new("/").expect("the root is an absolute path");
        export.squash = Squash::None;
        let service = Server::new([(export, store)]).expect("one export is neither none nor many");
        let cache = Arc::new(ReplyCache::new(CacheLimits::default()));
        let counters = Arc::<Counters>::default();
        let rpc =
            gannet_rpc::Server::new(Handle::clone(&runtime), Rc::new(service), cache, counters);
        let listener = runtime
            .listen(self.tcp_address())
            .expect("the last life's listener is gone");
        let serving = rpc.clone();
        let task = async move {
            let served = serving.serve_tcp(listener).await;
            served.expect("simulated listeners do not break");
        };
        runtime.spawn("tcp server", Box::pin(task));
        let Some(provider) = self.provider(&self.node) else {
            return;
        };
        let listener = provider
            .listen(self.rdma_address())
            .expect("the last life's listener is gone");
        let options = self.options;
        let task = async move {
            let served = rpc.serve_rdma(provider, options, listener).await;
            served.expect("simulated listeners do not break");
        };
        runtime.spawn("rdma server", Box::pin(task));
    }
}
