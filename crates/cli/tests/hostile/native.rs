//! Clients of a volume, with its key, that ask for more than they take.

use crate::memory::{HELD_MAX, lasting, watch};
use crate::support::{Place, Server, succeed};
use crate::volume_io;
use gannet::ClientKey;
use gannet_fabric::{Provider, SendOptions, Source, WorkId};
use gannet_iwarp::{IwarpConfig, IwarpProvider};
use gannet_runtime::tokio_plug::block_on;
use gannet_runtime::{Buffer, Handle};
use gannet_volume::link::{self, Link, Pool, ServerPlace, Session};
use gannet_wire::volume::{Call, Caller, Class, Kind, MessageHeader, ROOT, SlotSequence};
use std::net::SocketAddr;
use std::path::Path;
use std::rc::Rc;
use std::thread;
use std::time::{Duration, Instant};

/// Connections of an attacker.
const CONNECTIONS: usize = 40;
/// Requests that each sends at once, whatever the server grants.
const REQUESTS: u64 = 2000;
/// Names in the directory that is listed: a page of them is a message's whole length.
const FILES: usize = 150;
/// How long replies stay untaken.
const REST: Duration = Duration::from_millis(300);

/// A request for a page of the root's names and all that is known of them.
fn list(id: u64) -> Source {
    let call = Call::Readdirplus {
        directory: ROOT,
        cookie: 0,
        wants_files: true,
        wants_references: false,
    };
    let body = call.to_body(&Caller::new(0, 0, &[]), &SlotSequence::default());
    let header = MessageHeader {
        kind: Kind::Request,
        operation: call.operation(),
        class: Class::Metadata,
        status: Ok(()),
        credits: 0,
        id,
        term: 0,
        body_len: body.len() as u32,
        data_len: 0,
    };
    let bytes = [&header.to_bytes()[..], &body].concat();
    let len = bytes.len() as u32;
    let buffer = Buffer::from_vec(bytes);
    Source::Buffer { buffer, len }
}

async fn connected(runtime: &Handle, manager: SocketAddr, key: &ClientKey) -> Option<Link> {
    let provider = IwarpProvider::new(Rc::clone(runtime), IwarpConfig::default());
    let provider = provider as Rc<dyn Provider>;
    let identity = key.client(Default::default());
    let (manager, session) = (ServerPlace::manager(manager), Session::new(runtime));
    let link = link::connect(runtime, &provider, &Pool::new(), manager, identity, session).await;
    link.ok()
}

/// Asks over many connections for far more than is granted, and then has nothing run that could take what comes; again
/// and again with new connections. How many were made.
async fn attack(runtime: Handle, manager: SocketAddr, key: ClientKey) -> usize {
    let (began, mut made) = (Instant::now(), 0);
    while began.elapsed() < lasting() {
        let mut links = Vec::new();
        for _ in 0..CONNECTIONS {
            let Some(link) = connected(&runtime, manager, &key).await else {
                continue;
            };
            for id in 1..=REQUESTS {
                // The server may have ended the connection.
                let sent = link
                    .endpoint()
                    .post_send(WorkId(1), list(id), SendOptions::default());
                if sent.is_err() {
                    break;
                }
            }
            link.endpoint().flush();
            links.push(link);
        }
        made += links.len();
        gannet_runtime::sleep(&runtime, Duration::from_millis(20)).await;
        // The whole thread stands still: sockets are not read.
        thread::sleep(REST);
    }
    made
}

fn serve(place: &Place) -> Server {
    let volume = place.text("volume");
    succeed(&["volume", "create", &volume, "--io-servers", "1"]);
    let native = ["--volume", &volume, "--native", "127.0.0.1:0"];
    let nfs = ["--nfs-tcp", "127.0.0.1:0", "--nfs-rdma", "127.0.0.1:0"];
    Server::with(&[&native[..], &nfs].concat())
}

async fn fill(runtime: &Handle, manager: SocketAddr, key: &Path) {
    let fs = Rc::new(volume_io::connect(runtime, manager, key).unwrap());
    for number in 0..FILES {
        volume_io::create(&fs, &format!("a-name-of-some-length-{number:04}"))
            .await
            .unwrap();
    }
}

#[test]
fn a_client_with_the_key_that_takes_no_replies_is_bounded() {
    let place = Place::new();
    let server = serve(&place);
    let manager: SocketAddr = server.native.parse().unwrap();
    let path = place.path("volume/client-key");
    let key = ClientKey::load(&path).unwrap();
    block_on(|runtime| async move { fill(&runtime, manager, &path).await }).unwrap();
    let seen = watch(&server, || {
        let made = block_on(|runtime| attack(runtime, manager, key)).unwrap();
        assert!(made >= CONNECTIONS, "only {made} connections were made");
    });
    assert!(seen.held < HELD_MAX, "{seen:?}");
    assert!(seen.is_served(), "{seen:?}");
}
