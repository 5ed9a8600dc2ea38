//! A volume in the simulator, and what several tests need of it.
#![allow(dead_code)] // each test uses a part

use gannet_fabric::Provider;
use gannet_sim::fabric::{FabricProfile, SimFabric};
use gannet_sim::store::{Disk, SimStore};
use gannet_sim::{Crash, Faults, Node, World};
use gannet_vfs::{Credentials, Vfs};
use gannet_volume::client::{Addresses, VolumeFs, WriteVerifier, io_servers};
use gannet_volume::io_server::IoServer;
use gannet_volume::link::Identity;
use gannet_volume::manager::Manager;
use gannet_volume::meta::{MemoryStore, MetaStore, Stripes, View, namespace};
use gannet_volume::secret::{Secret, ServerKeys};
use gannet_volume::serve::Server;
use gannet_wire::volume::{Role, Token};
use std::net::SocketAddr;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;

pub(crate) const VOLUME: Token = *b"a volume's token";
const PORT: u16 = 20050;
/// Bytes of a stripe.
pub(crate) const VOLUME_UNIT: u32 = 4096;

pub(crate) fn keys() -> ServerKeys {
    ServerKeys::new(Secret::new([5; 16]))
}

pub(crate) fn identity(role: Role) -> Identity {
    Identity {
        role,
        volume: VOLUME,
        key: keys().between(role),
    }
}

pub(crate) fn root() -> Credentials {
    Credentials::new(0, 0, &[])
}

/// A manager with its store, I/O servers with their disks, all of which outlive their processes.
pub(crate) struct Bed {
    pub(crate) faults: Faults,
    pub(crate) fabric: Rc<SimFabric>,
    pub(crate) manager: Node,
    pub(crate) metadata: Arc<MemoryStore>,
    pub(crate) servers: Vec<(Node, Rc<Disk>)>,
    pub(crate) client: Node,
}

impl Bed {
    pub(crate) fn new(world: &World, servers: usize) -> Rc<Bed> {
        let fabric = SimFabric::new(world, FabricProfile::default());
        let bed = Bed {
            faults: world.faults(),
            fabric,
            manager: world.add_node("manager"),
            metadata: Arc::default(),
            servers: (0..servers)
                .map(|_| (world.add_node("io server"), Disk::new(world)))
                .collect(),
            client: world.add_node("client"),
        };
        (0..servers).for_each(|number| bed.start_io_server(number));
        bed.start_manager();
        Rc::new(bed)
    }

    fn address(node: &Node) -> SocketAddr {
        SocketAddr::new(node.ip(), PORT)
    }

    pub(crate) fn start_io_server(&self, number: usize) {
        let (node, disk) = &self.servers[number];
        let store = SimStore::open(disk, node.runtime());
        let handler = IoServer::new(node.runtime(), store, keys());
        self.start(node, Server::new(node.runtime(), VOLUME, keys(), handler));
    }

    /// Kills the process of an I/O server, and the power of its machine.
    pub(crate) fn kill_io_server(&self, number: usize) {
        let (node, disk) = &self.servers[number];
        self.faults.crash(node.id(), Crash::Process);
        disk.crash();
    }

    /// Files and folders on the disks of all I/O servers.
    pub(crate) async fn used(&self) -> u64 {
        let mut used = 0;
        for (node, disk) in &self.servers {
            let store = SimStore::open(disk, node.runtime());
            let usage = store.usage(&store.root()).await.unwrap();
            used += usage.files_total - usage.files_free;
        }
        used
    }

    /// How many promises of the manager's are open.
    pub(crate) fn promises(&self) -> usize {
        let mut open = usize::MAX;
        let look =
            &mut |view: &dyn View| open = namespace::promises(view).map_or(open, |it| it.len());
        let _ = self.metadata.read(look);
        open
    }

    pub(crate) fn start_manager(&self) {
        let runtime = self.manager.runtime();
        let provider: Rc<dyn Provider> = self.fabric.provider(&self.manager);
        let addresses = self
            .servers
            .iter()
            .map(|(node, _)| Bed::address(node))
            .collect();
        let servers = io_servers(
            self.manager.runtime(),
            provider,
            identity(Role::Manager),
            addresses,
        );
        let stripes = Stripes {
            unit: VOLUME_UNIT,
            width: 0,
            first: None,
        };
        let store = Arc::clone(&self.metadata);
        let manager =
            Manager::open(self.manager.runtime(), store, keys(), servers, stripes).unwrap();
        runtime.spawn("promises", Box::pin(Rc::clone(&manager).keep_house()));
        self.start(&self.manager, Server::new(runtime, VOLUME, keys(), manager));
    }

    fn start(&self, node: &Node, server: Rc<Server>) {
        let provider: Rc<dyn Provider> = self.fabric.provider(node);
        let listener = provider.listen(Bed::address(node)).unwrap();
        let task = async move { server.serve(provider, listener).await.unwrap() };
        node.runtime().spawn("server", Box::pin(task));
    }

    pub(crate) fn mount(&self) -> VolumeFs {
        self.mount_with(WriteVerifier::new(self.client.runtime().random()))
    }

    /// One of several clients that stand for one server.
    pub(crate) fn mount_with(&self, verifier: Arc<WriteVerifier>) -> VolumeFs {
        let addresses = Addresses {
            manager: Some(Bed::address(&self.manager)),
            io_servers: self
                .servers
                .iter()
                .map(|(node, _)| Bed::address(node))
                .collect(),
        };
        let provider: Rc<dyn Provider> = self.fabric.provider(&self.client);
        VolumeFs::new(
            self.client.runtime(),
            provider,
            identity(Role::Client),
            addresses,
            verifier,
        )
    }
}

pub(crate) fn noise(len: usize, salt: u8) -> Vec<u8> {
    (0..len)
        .map(|at| (at as u8).wrapping_mul(31).wrapping_add((at >> 8) as u8) ^ salt)
        .collect()
}

/// Runs `story` to its end, with `beside` going on until then.
pub(crate) async fn until<T>(
    story: impl Future<Output = T>,
    beside: impl Future<Output = ()>,
) -> T {
    let (mut story, mut beside) = (pin!(story), pin!(beside));
    let mut over = false;
    std::future::poll_fn(move |context| {
        if !over {
            over = beside.as_mut().poll(context).is_ready();
        }
        story.as_mut().poll(context)
    })
    .await
}
