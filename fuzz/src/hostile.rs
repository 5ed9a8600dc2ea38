//! Clients whose servers lie. A [`proxy`] between a client and an honest server changes what the server sends as the
//! input says ([`edits`]); the client does all that a file system can ([`operations`]). Each operation must end, well
//! or not, and the client must not panic.

pub(crate) mod edits;
mod operations;
mod proxy;

use crate::native;
use crate::server::{self, PATIENCE, RDMA_PORT, TCP_PORT};
use edits::Edits;
use gannet_dst::volume::{Bed, Carrier, identity};
use gannet_iwarp::{IwarpConfig, IwarpProvider};
use gannet_nfs::client::{Client as NfsClient, NfsFs};
use gannet_rpc::{Client, ClientConfig, Persistence, Target};
use gannet_runtime::{Handle, timeout};
use gannet_sim::{Node, World};
use gannet_volume::client::{Addresses, Siblings, VolumeFs};
use gannet_wire::volume::Role;
use proxy::{Framing, Proxy};
use std::cell::RefCell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

/// How long a client of a volume tries an operation.
const PATIENCE_OF_CLIENT: Duration = Duration::from_secs(2);

/// A client of NFS over TCP; edits are of records.
pub(crate) fn nfs_client_tcp(data: &[u8]) {
    nfs_client(Framing::Records, data);
}

/// A client of NFS over RDMA; edits are of FPDUs.
pub(crate) fn nfs_client_rdma(data: &[u8]) {
    nfs_client(Framing::Fpdus, data);
}

/// A client of a volume; edits are of FPDUs that its manager and its I/O servers send.
pub(crate) fn native_client(data: &[u8]) {
    let world = World::new(1);
    let bed = Bed::new(&world, Carrier::Iwarp(no_crc()), 2, native::UNIT);
    bed.start();
    let (client, between) = (world.add_node("client"), world.add_node("proxy"));
    let edits = Rc::new(RefCell::new(Edits::new(data)));
    let proxy = |port, node: &Node| {
        let proxy = Proxy {
            framing: Framing::Fpdus,
            at: SocketAddr::new(between.ip(), port),
            server: SocketAddr::new(node.ip(), native::PORT),
            edits: Rc::clone(&edits),
        };
        proxy.start(&between.runtime())
    };
    let addresses = Addresses {
        managers: vec![proxy(1, &bed.manager)],
        io_servers: (2..)
            .zip(&bed.io_servers)
            .map(|(port, server)| proxy(port, &server.node))
            .collect(),
    };
    let runtime = client.runtime();
    let done = world.run(async move {
        let fs = VolumeFs::new(
            Handle::clone(&runtime),
            bed.provider(&client),
            identity(Role::Client),
            addresses,
            Siblings::new(runtime.random()),
        );
        // A client that has heard too much tries each operation for as long.
        let fs = fs.patient(PATIENCE_OF_CLIENT);
        operations::run(&runtime, &fs).await;
    });
    if let Err(stopped) = done {
        panic!("{stopped}");
    }
}

/// Without CRCs, so that a changed frame is more than a frame with a wrong CRC.
fn no_crc() -> IwarpConfig {
    IwarpConfig {
        crc: false,
        ..IwarpConfig::default()
    }
}

fn nfs_client(framing: Framing, data: &[u8]) {
    let world = World::new(1);
    let [client, between, server] = ["client", "proxy", "server"].map(|name| world.add_node(name));
    server::start(&world, &server);
    let port = match framing {
        Framing::Records => TCP_PORT,
        Framing::Fpdus => RDMA_PORT,
    };
    let proxy = Proxy {
        framing,
        at: SocketAddr::new(between.ip(), port),
        server: SocketAddr::new(server.ip(), port),
        edits: Rc::new(RefCell::new(Edits::new(data))),
    };
    let address = proxy.start(&between.runtime());
    let runtime = client.runtime();
    let target = match framing {
        Framing::Records => Target::Tcp(address),
        Framing::Fpdus => {
            let provider = IwarpProvider::new(Handle::clone(&runtime), no_crc());
            Target::Rdma(provider, address)
        }
    };
    let done = world.run(async move {
        let config = ClientConfig {
            persistence: Persistence::Soft { attempts: 2 },
            ..ClientConfig::default()
        };
        let rpc = Client::new(Handle::clone(&runtime), target, config);
        let client = NfsClient::new(Handle::clone(&runtime), rpc);
        let opening = async {
            let root = client.mount(b"/").await?;
            NfsFs::open(client, root, "test".to_owned()).await
        };
        let opened = timeout(&runtime, PATIENCE, opening).await;
        if let Ok(fs) = opened.expect("a mount ends") {
            operations::run(&runtime, &fs).await;
        }
    });
    if let Err(stopped) = done {
        panic!("{stopped}");
    }
}
