//! The machines of a testbed in a world: a server with its files, and clients that have mounted them.

use super::{Host, Profile};
use crate::fabric::{FabricProfile, SimFabric};
use crate::node::{Node, PoolProfile};
use crate::store::{Disk, SimStore};
use crate::world::World;
use gannet_fabric::Provider;
use gannet_fabric::registration::Registration;
use gannet_nfs::client::Client;
use gannet_nfs::server::{Export, Server, Squash};
use gannet_rpc::{
    CacheLimits, CallerCredential, ClientConfig, Counters, Persistence, ReplyCache, Target,
};
use gannet_runtime::Handle;
use gannet_wire::rpc::Groups;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;

const PORT: u16 = 20049;
/// Bytes that an adapter moves for one connection before another one's turn comes.
const SEGMENT_LEN: usize = 32 << 10;

/// A machine with an adapter.
pub(super) struct Machine {
    pub(super) node: Node,
    pub(super) host: Rc<Host>,
    pub(super) provider: Rc<dyn Provider>,
}

/// A server and its clients.
pub(super) struct Testbed {
    pub(super) server: Machine,
    pub(super) clients: Vec<Machine>,
}

impl Testbed {
    /// The machines, and a server running on the first.
    pub(super) fn build(
        world: &World,
        profile: &Profile,
        clients: usize,
        registration: Registration,
    ) -> Testbed {
        let fabric = SimFabric::new(
            world,
            FabricProfile {
                segment_len: SEGMENT_LEN,
                ..FabricProfile::default()
            },
        );
        let machine = |name| {
            let node = world.add_node(name);
            let host = Host::install(&node, profile);
            // What such threads do is charged for where they do it.
            node.set_pool(PoolProfile {
                delay_min_ns: 0,
                delay_max_ns: 0,
            });
            let provider = fabric.provider(&node);
            Machine {
                node,
                host,
                provider,
            }
        };
        let server = machine("server");
        let disk = Disk::new(world);
        server.serve(&disk, registration);
        Testbed {
            server,
            clients: (0..clients).map(|_| machine("client")).collect(),
        }
    }
}

impl Machine {
    fn serve(&self, disk: &Rc<Disk>, registration: Registration) {
        let runtime = self.node.runtime();
        let store = SimStore::open(disk, Handle::clone(&runtime)).charged_to(&self.host);
        let mut export = Export::new("/").expect("the root is an absolute path");
        export.squash = Squash::None;
        let service = Server::new([(export, store)]).expect("one export is neither none nor many");
        let cache = Arc::new(ReplyCache::new(CacheLimits::default()));
        let counters = Arc::<Counters>::default();
        let rpc =
            gannet_rpc::Server::new(Handle::clone(&runtime), Rc::new(service), cache, counters);
        let provider = Rc::clone(&self.provider);
        let listener = provider
            .listen(SocketAddr::new(self.node.ip(), PORT))
            .expect("nobody listens on a new node");
        let task = async move {
            let served = rpc.serve_rdma(provider, registration, listener).await;
            served.expect("simulated listeners do not break");
        };
        runtime.spawn("rdma server", Box::pin(task));
    }

    /// A mount of `server` on this machine: one connection, which all threads share.
    pub(super) fn mount(&self, server: &Machine, registration: Registration) -> Client {
        let address = SocketAddr::new(server.node.ip(), PORT);
        let config = ClientConfig {
            credential: CallerCredential::Sys {
                machine_name: String::from("client"),
                uid: 1000,
                gid: 1000,
                groups: Groups::new(&[]),
            },
            persistence: Persistence::Hard,
            registration,
            ..ClientConfig::default()
        };
        let runtime = self.node.runtime();
        let target = Target::Rdma(Rc::clone(&self.provider), address);
        let rpc = gannet_rpc::Client::new(Handle::clone(&runtime), target, config);
        Client::new(runtime, rpc)
    }
}
