//! What RDMA connections cost a server that have nothing to do, and what is left when they are gone. A process of its
//! own: its peers are bare sockets, so its memory is the server's.

#![allow(clippy::unwrap_used)]

#[path = "all/common/mod.rs"]
mod common;

use common::Bench;
use common::iwarp_peer::Peer;
use gannet_fabric::Provider;
use gannet_iwarp::{IwarpConfig, IwarpProvider};
use gannet_runtime::tokio_plug::block_on;
use std::fs;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::mpsc;
use std::time::{Duration, Instant};

const CONNECTIONS: u64 = 1000;
/// What one of them may cost beside its socket.
const IDLE_BYTES_MAX: u64 = 8 << 10;
/// What the process may keep of each when all are gone: pieces that its allocator cannot give back.
const LEFT_BYTES_MAX: u64 = 1 << 10;

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
            let bench = Bench::new(&runtime);
            let loopback = SocketAddr::from(([127, 0, 0, 1], 0));
            told.send(bench.listen_rdma(&provider, loopback)).unwrap();
            std::future::pending::<()>().await;
        })
        .unwrap();
    });
    address.recv().unwrap()
}

/// Has as many connections do `work`; checks what they cost when they rest, and when they are gone.
fn check(address: SocketAddr, story: &str, work: fn(&mut Peer)) {
    let start = anonymous();
    let mut peers: Vec<Peer> = (0..CONNECTIONS).map(|_| Peer::connect(address)).collect();
    peers.iter_mut().for_each(work);
    let busy = anonymous();
    let bound = start + CONNECTIONS * IDLE_BYTES_MAX;
    let idle = settled(bound);
    let each = |bytes: u64| bytes.saturating_sub(start) / CONNECTIONS;
    eprintln!("{story}: {} bytes each at first", each(busy));
    assert!(idle <= bound, "{story}: {} bytes each at rest", each(idle));
    // They are no less alive for it.
    for peer in &mut peers {
        assert!(peer.work(1) >= 1, "{story}");
    }
    drop(peers);
    let left = settled(start + CONNECTIONS * LEFT_BYTES_MAX);
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
    let mut first: Vec<Peer> = (0..8).map(|_| Peer::connect(address)).collect();
    for peer in &mut first {
        assert_eq!(peer.work(4), 128);
    }
    drop(first);
    check(address, "one call", |peer| {
        peer.work(1);
    });
    check(address, "a busy time", |peer| {
        peer.work(4);
    });
}
