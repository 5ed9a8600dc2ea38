//! The machines of a testbed in a world: a server with its files, and clients that have mounted them.

use super::Transport;
use super::copies::Copies;
use super::nfs::Workload;
use gannet_fabric::Provider;
use gannet_nfs::client::Client;
use gannet_nfs::server::{Export, Server, Squash};
use gannet_rpc::{
    CacheLimits, CallerCredential, ClientConfig, Counters, Persistence, RdmaOptions, ReplyCache,
    Target,
};
use gannet_runtime::Handle;
use gannet_sim::World;
use gannet_sim::fabric::{FabricProfile, SimFabric};
use gannet_sim::nic::{Host, PAGE_LEN, Profile};
use gannet_sim::store::{Disk, SimStore};
use gannet_sim::{Node, PoolProfile};
use gannet_wire::rpc::Groups;
use std::cell::RefCell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;

const TCP_PORT: u16 = 2049;
const RDMA_PORT: u16 = 20049;
/// Bytes that an adapter moves for one connection before another one's turn comes: few, since connections whose turns
/// are long fall into step, and then all of them wait or none does.
const SEGMENT_LEN: usize = 4 << 10;

/// A machine with an adapter.
pub(super) struct Machine {
    pub(super) node: Node,
    pub(super) host: Rc<Host>,
    pub(super) provider: Rc<dyn Provider>,
}

/// A server and its clients.
pub(super) struct Testbed {
    pub(super) server: Machine,
    pub(super) service: gannet_rpc::Server<Server<SimStore>>,
    pub(super) clients: Vec<Machine>,
    /// Counters of copies of the server and of all mounts.
    copies: RefCell<Vec<Rc<Copies>>>,
}

impl Testbed {
    /// The machines, and a server running on the first.
    pub(super) fn build(world: &World, profile: &Profile, workload: &Workload) -> Testbed {
        let fabric = SimFabric::new(
            world,
            FabricProfile {
                segment_len: SEGMENT_LEN,
                physical_segment_len: u32::try_from(PAGE_LEN).ok(),
                ..FabricProfile::default()
            },
        );
        let server = Machine::add(world, &fabric, "server", profile);
        let options = RdmaOptions {
            registration: workload.server,
            design: workload.design,
            ..RdmaOptions::default()
        };
        let service = server.serve(&Disk::new(world), options);
        let of_server = {
            let service = service.clone();
            Copies::charge(&server.host, move || {
                let strategies = service.registrations().into_iter();
                strategies.map(|counters| counters.copied_bytes).sum()
            })
        };
        Testbed {
            server,
            service,
            copies: RefCell::new(vec![of_server]),
            clients: (0..workload.clients)
                .map(|_| Machine::add(world, &fabric, "client", &profile.of_client()))
                .collect(),
        }
    }

    /// A mount of the server on one of the clients: one connection, which all its threads share.
    pub(super) fn mount(&self, machine: &Machine, workload: &Workload) -> Client {
        let config = ClientConfig {
            credential: CallerCredential::Sys {
                machine_name: String::from("client"),
                uid: 1000,
                gid: 1000,
                groups: Groups::new(&[]),
            },
            persistence: Persistence::Hard,
            registration: workload.client,
            design: workload.design,
            ..ClientConfig::default()
        };
        let runtime = machine.node.runtime();
        let target = match workload.transport {
            Transport::Rdma => {
                Target::Rdma(Rc::clone(&machine.provider), self.server.address(RDMA_PORT))
            }
            Transport::Tcp => Target::Tcp(self.server.address(TCP_PORT)),
        };
        let rpc = gannet_rpc::Client::new(Handle::clone(&runtime), target, config);
        let counted = rpc.clone();
        let copies = Copies::charge(&machine.host, move || {
            let counters = counted.registration();
            counters.map_or(0, |counters| counters.copied_bytes)
        });
        self.copies.borrow_mut().push(copies);
        Client::new(runtime, rpc)
    }
}

impl Machine {
    /// A node of `world` with an adapter of `fabric`, which cost what `profile` says.
    pub(super) fn add(
        world: &World,
        fabric: &Rc<SimFabric>,
        name: &'static str,
        profile: &Profile,
    ) -> Machine {
        let node = world.add_node(name);
        let host = Host::install(&node, profile);
        // The work of such threads is charged where it is done.
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
    }

    pub(super) fn address(&self, port: u16) -> SocketAddr {
        SocketAddr::new(self.node.ip(), port)
    }

    fn serve(&self, disk: &Rc<Disk>, options: RdmaOptions) -> gannet_rpc::Server<Server<SimStore>> {
        let runtime = self.node.runtime();
        let store = SimStore::open(disk, Handle::clone(&runtime)).charged_to(&self.host);
        let mut export = Export::new("/").expect("the root is an absolute path");
        export.rules.squash = Squash::None;
        let service = Server::new([(export, store)]).expect("one export is neither none nor many");
        let cache = Arc::new(ReplyCache::new(CacheLimits::default()));
        let counters = Arc::<Counters>::default();
        let rpc =
            gannet_rpc::Server::new(Handle::clone(&runtime), Rc::new(service), cache, counters);
        let free = "nobody listens on a new node";
        let listener = runtime.listen(self.address(TCP_PORT)).expect(free);
        let over_tcp = rpc.clone();
        let task = async move {
            let served = over_tcp.serve_tcp(listener).await;
            served.expect("simulated listeners do not break");
        };
        runtime.spawn("tcp server", Box::pin(task));
        let provider = Rc::clone(&self.provider);
        let listener = provider.listen(self.address(RDMA_PORT)).expect(free);
        let over_rdma = rpc.clone();
        let task = async move {
            let served = over_rdma.serve_rdma(provider, options, listener).await;
            served.expect("simulated listeners do not break");
        };
        runtime.spawn("rdma server", Box::pin(task));
        rpc
    }
}
