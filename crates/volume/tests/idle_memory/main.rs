//! What connections of the native protocol cost a server that have nothing to do, and what is left when they are gone.
//! A process of its own: its peers are bare sockets, so its memory is the server's.

#![allow(clippy::unwrap_used)]

#[path = "all/iwarp_peer.rs"]
mod iwarp_peer;

use gannet_fabric::Provider;
use gannet_iwarp::{IwarpConfig, IwarpProvider};
use gannet_runtime::LocalFuture;
use gannet_runtime::tokio_plug::block_on;
use gannet_volume::limits::{FAST_SLOTS, FAST_SLOTS_HELD_MAX};
use gannet_volume::link::{Answer, Handler, Link, Message};
use gannet_volume::secret::{Secret, ServerKeys};
use gannet_volume::serve::Server;
use gannet_wire::volume::Token;
use iwarp_peer::Peer;
use std::fs;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::mpsc;
use std::time::{Duration, Instant};

const VOLUME: Token = *b"a volume's token";
/// Below what one address may have.
const CONNECTIONS: u64 = 400;
/// What one of them may cost beside its socket.
const IDLE_BYTES_MAX: u64 = 8 << 10;
/// What the process may keep of each when all are gone: pieces that its allocator cannot give back.
const LEFT_BYTES_MAX: u64 = 1 << 10;
/// All credits.
const ALL: u32 = 32;

/// Answers everything at once, with nothing.
struct Done;

impl Handler for Done {
    fn answer(self: Rc<Self>, _: Link, request: Message) -> LocalFuture<Answer> {
        Box::pin(async move {
            drop(request);
            Answer::default()
        })
    }
}

fn keys() -> ServerKeys {
    ServerKeys::new(Secret::new([5; 16]))
}

/// Bytes of this process that are of no file.
fn anonymous() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("RssAnon:"));
    let words = line.unwrap().split_whitespace().nth(1).unwrap();
    words.parse::<u64>().unwrap() * 1024
}

/// Waits until no more than `max` is in memory, for a while; what is in the end.
fn settled(max: u64) -> u64 {
    let patience = Instant::now() + Duration::from_secs(60);
    while anonymous() > max && Instant::now() < patience {
        std::thread::sleep(Duration::from_millis(100));
    }
    anonymous()
}

/// Serves on a core of its own, for ever.
fn serve() -> SocketAddr {
    let (told, address) = mpsc::channel();
    std::thread::spawn(move || {
        block_on(|runtime| async move {
            let config = IwarpConfig {
                crc: false,
                ..IwarpConfig::default()
            };
            let provider: Rc<dyn Provider> = IwarpProvider::new(Rc::clone(&runtime), config);
            let loopback = SocketAddr::from(([127, 0, 0, 1], 0));
            let listener = provider.listen(loopback).unwrap();
            told.send(listener.local_address()).unwrap();
            let server = Server::new(runtime, VOLUME, keys(), Rc::new(Done));
            server.serve(provider, listener).await.unwrap();
        })
        .unwrap();
    });
    address.recv().unwrap()
}

fn connect(address: SocketAddr, number: u64) -> Peer {
    let session = u128::from(number).to_be_bytes();
    let mut peer = Peer::connect(address, VOLUME, keys(), session);
    // It has been let in when this is answered.
    peer.work(1, 1);
    peer
}

/// Has as many connections do `work`; checks what they cost when they rest, and when they are gone.
fn check(address: SocketAddr, story: &str, count: u64, work: fn(&mut Peer)) {
    let start = anonymous();
    let mut peers: Vec<Peer> = (0..count).map(|number| connect(address, number)).collect();
    peers.iter_mut().for_each(work);
    let busy = anonymous();
    let bound = start + count * IDLE_BYTES_MAX;
    let idle = settled(bound);
    let each = |bytes: u64| bytes.saturating_sub(start) / count;
    eprintln!("{story}: {} bytes each at first", each(busy));
    assert!(idle <= bound, "{story}: {} bytes each at rest", each(idle));
    // They are no less alive for it.
    for peer in &mut peers {
        peer.work(1, 1);
    }
    drop(peers);
    let left = settled(start + count * LEFT_BYTES_MAX);
    eprintln!(
        "{story}: {} bytes each at rest, {} left",
        each(idle),
        each(left)
    );
    assert!(
        each(left) <= LEFT_BYTES_MAX,
        "{story}: {} of each are left",
        each(left)
    );
}

#[test]
fn idle_connections_cost_8_kib_at_most_and_leave_nothing() {
    let address = serve();
    // What the process makes once for all connections is there before.
    let mut first: Vec<Peer> = (0..8)
        .map(|number| connect(address, CONNECTIONS + number))
        .collect();
    first.iter_mut().for_each(|peer| peer.work(4, ALL));
    drop(first);
    check(address, "one request", CONNECTIONS, |_| {});
    check(address, "a busy time", CONNECTIONS, |peer| {
        peer.work(4, ALL)
    });
    // Nothing was written to them: only their registrations cost.
    let count = FAST_SLOTS_HELD_MAX as u64 / u64::from(FAST_SLOTS);
    check(address, "buffers", count, Peer::ask_for_buffers);
}
