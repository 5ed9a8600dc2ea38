//! Peers of different versions of the native protocol: both sides report that, and the remedy.
#![allow(clippy::unwrap_used)]

use gannet_dst::volume::{VOLUME, identity, keys};
use gannet_fabric::{ConnectError, ConnectOptions, Provider};
use gannet_runtime::LocalFuture;
use gannet_sim::fabric::{FabricProfile, SimFabric};
use gannet_sim::{Node, World};
use gannet_volume::link::{self, Answer, Handler, Link, Message, Pool, ServerPlace, Session};
use gannet_volume::serve::Server;
use gannet_wire::volume::{Hello, Role, VERSION, version_in};
use std::net::SocketAddr;
use std::rc::Rc;

/// The offset of the version in private data.
const VERSION_AT: usize = 4;

struct Nobody;

impl Handler for Nobody {
    fn answer(self: Rc<Self>, _: Link, _: Message) -> LocalFuture<Answer> {
        Box::pin(async { panic!("nobody is let in") })
    }
}

/// Runs a test with a client's node and a server that `serve` starts.
fn run(
    serve: impl FnOnce(&Node, Rc<dyn Provider>, SocketAddr),
    story: impl AsyncFnOnce(Node, Rc<dyn Provider>, SocketAddr) + 'static,
) {
    let world = World::new(5);
    let fabric = SimFabric::new(&world, FabricProfile::default());
    let (server, client) = (world.add_node("server"), world.add_node("client"));
    let address = SocketAddr::new(server.ip(), 20050);
    serve(&server, fabric.provider(&server), address);
    let provider: Rc<dyn Provider> = fabric.provider(&client);
    let done = world.run(async move { story(client, provider, address).await });
    done.unwrap();
}

#[test]
fn a_server_tells_its_version_to_peers_of_others() {
    let serve = |node: &Node, provider: Rc<dyn Provider>, address| {
        let serving = Server::new(node.runtime(), VOLUME, keys(), Rc::new(Nobody));
        let listener = provider.listen(address).unwrap();
        let serving = async move { serving.serve(provider, listener).await.unwrap() };
        node.runtime().spawn("server", Box::pin(serving));
    };
    run(serve, async |_, provider, address| {
        for version in [1, 2, VERSION + 1] {
            let hello = Hello {
                role: Role::Client,
                server: Hello::io_server(0),
                volume: VOLUME,
                nonce: [1; 16],
                credits: 32,
            };
            let mut private_data = hello.to_bytes().to_vec();
            private_data[VERSION_AT] = version;
            let options = ConnectOptions {
                private_data,
                ..ConnectOptions::default()
            };
            let Err(ConnectError::Rejected { private_data }) =
                provider.connect(address, options).await
            else {
                panic!("version {version} is not rejected");
            };
            assert_eq!(version_in(&private_data), Some(VERSION));
        }
    });
}

#[test]
fn a_client_says_which_version_its_server_speaks_and_what_to_do() {
    let serve = |node: &Node, provider: Rc<dyn Provider>, address| {
        let mut listener = provider.listen(address).unwrap();
        let rejecting = async move {
            for version in [2, VERSION + 1] {
                let incoming = listener.accept().await.unwrap();
                let refusal = [&b"gvol"[..], &[version, 0, 0, 0]].concat();
                incoming.reject(refusal).await;
            }
        };
        node.runtime().spawn("server", Box::pin(rejecting));
    };
    run(serve, async |node, provider, address| {
        let runtime = node.runtime();
        for version in [2, VERSION + 1] {
            let (identity, session) = (identity(Role::Client), Session::new(&runtime));
            let place = ServerPlace::manager(address);
            let connected =
                link::connect(&runtime, &provider, &Pool::new(), place, identity, session).await;
            let said = connected.unwrap_err().to_string();
            let versions = format!("version {version} of the native protocol");
            assert!(said.contains(&versions), "{said}");
            assert!(
                said.contains("use the same release of gannet everywhere"),
                "{said}"
            );
        }
    });
}
