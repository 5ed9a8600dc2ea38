//! Whole servers in a simulated world: bytes into a connection, and then another client that must not notice.

use gannet_fabric::registration::Registration;
use gannet_iwarp::{IwarpConfig, IwarpProvider};
use gannet_nfs::client::Client as NfsClient;
use gannet_nfs::server::{Export, Server, Squash};
use gannet_rpc::{CacheLimits, Client, ClientConfig, Counters, Persistence, ReplyCache, Target};
use gannet_runtime::{Handle, Stream, stream, timeout};
use gannet_sim::store::{Disk, SimStore};
use gannet_sim::{Node, World};
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

pub(crate) const TCP_PORT: u16 = 2049;
pub(crate) const RDMA_PORT: u16 = 20049;
/// Longer than any deadline of the server, in virtual time.
pub(crate) const PATIENCE: Duration = Duration::from_secs(3600);

/// Bytes into a connection of NFS over TCP.
pub(crate) fn server_tcp(data: &[u8]) {
    attack(TCP_PORT, data);
}

/// Bytes into a connection of NFS over RDMA: the software RNIC, RPC-over-RDMA, NFS.
pub(crate) fn server_rdma(data: &[u8]) {
    attack(RDMA_PORT, data);
}

fn attack(port: u16, data: &[u8]) {
    let world = World::new(1);
    let (client, server) = (world.add_node("client"), world.add_node("server"));
    start(&world, &server);
    let address = SocketAddr::new(server.ip(), port);
    let mount_at = SocketAddr::new(server.ip(), TCP_PORT);
    let (runtime, data) = (client.runtime(), data.to_vec());
    let ended = world.run(async move {
        send_all(&runtime, address, &data).await;
        mount(&runtime, mount_at).await
    });
    match ended {
        Ok(root) => assert!(root.is_some(), "another client was not served"),
        Err(stopped) => panic!("{stopped}"),
    }
}

/// The root's handle as every such server gives it.
pub(crate) fn root_handle() -> Option<Vec<u8>> {
    let world = World::new(1);
    let (client, server) = (world.add_node("client"), world.add_node("server"));
    start(&world, &server);
    let address = SocketAddr::new(server.ip(), TCP_PORT);
    let runtime = client.runtime();
    world
        .run(async move { mount(&runtime, address).await })
        .ok()
        .flatten()
}

async fn mount(runtime: &Handle, address: SocketAddr) -> Option<Vec<u8>> {
    let config = ClientConfig {
        persistence: Persistence::Soft { attempts: 1 },
        ..ClientConfig::default()
    };
    let rpc = Client::new(Rc::clone(runtime), Target::Tcp(address), config);
    let root = NfsClient::new(Rc::clone(runtime), rpc).mount(b"/").await;
    root.ok().map(|root| root.as_bytes().to_vec())
}

/// Starts a server of an empty file system on both ports.
pub(crate) fn start(world: &World, node: &Node) {
    let runtime = node.runtime();
    let store = SimStore::open(&Disk::new(world), Rc::clone(&runtime));
    let mut export = Export::new("/").expect("the root is an absolute path");
    export.rules.squash = Squash::None;
    let service = Server::new([(export, store)]).expect("one export is neither none nor many");
    let rpc = gannet_rpc::Server::new(
        Rc::clone(&runtime),
        Rc::new(service),
        Arc::new(ReplyCache::new(CacheLimits::default())),
        Arc::<Counters>::default(),
    );
    let at = |port| SocketAddr::new(node.ip(), port);
    let listen = |port| {
        runtime
            .listen(at(port))
            .expect("the ports of a new node are free")
    };
    // Without CRCs, so that a mutated frame is more than a frame with a wrong CRC.
    let config = IwarpConfig {
        crc: false,
        ..IwarpConfig::default()
    };
    let provider = IwarpProvider::new(Rc::clone(&runtime), config);
    let rdma = Box::new(provider.listen_on(listen(RDMA_PORT)));
    let (tcp, over_tcp) = (listen(TCP_PORT), rpc.clone());
    let serve_tcp = async move {
        let ended = over_tcp.serve_tcp(tcp).await;
        ended.expect("simulated listeners do not break");
    };
    let serve_rdma = async move {
        let ended = rpc
            .serve_rdma(provider, Registration::default(), rdma)
            .await;
        ended.expect("simulated listeners do not break");
    };
    runtime.spawn("tcp server", Box::pin(serve_tcp));
    runtime.spawn("rdma server", Box::pin(serve_rdma));
}

/// Sends everything, then reads what comes until the server closes or has said all it will.
async fn send_all(runtime: &Handle, address: SocketAddr, data: &[u8]) {
    let peer = runtime.connect(address).await.expect("the server listens");
    let talk = async {
        write_all(&peer, data).await?;
        peer.shutdown_write();
        read_to_end(&peer).await
    };
    let ended = timeout(runtime, PATIENCE, talk).await;
    assert!(ended.is_ok(), "the server neither answers nor closes");
}

pub(crate) async fn write_all(peer: &Stream, data: &[u8]) -> io::Result<()> {
    let mut rest = data;
    while !rest.is_empty() {
        match peer.try_write(&[IoSlice::new(rest)], stream::Follow::Nothing) {
            Ok(count) => rest = rest.get(count..).unwrap_or_default(),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                stream::writable(&**peer).await?
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

pub(crate) async fn read_to_end(peer: &Stream) -> io::Result<()> {
    let mut buffer = [0; 4096];
    loop {
        match peer.try_read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                stream::readable(&**peer).await?
            }
            Err(error) => return Err(error),
        }
    }
}
