//! Peers that make the server hold what they do not take, or do not end.

use crate::memory::{HELD_MAX, Seen, is_thorough, lasting, watch};
use crate::peer::{Peer, begun_write, readdirplus};
use crate::support::{Place, Server};
use std::fs;
use std::io::Read;
use std::net::TcpListener;
use std::thread;
use std::time::Instant;

/// Connections of an attacker.
const CONNECTIONS: usize = 300;

/// A server of a directory with many names.
pub(crate) fn serve(place: &Place) -> Server {
    for name in 0..2000 {
        fs::write(place.path("share").join(format!("file-{name:04}")), b"").unwrap();
    }
    Server::of(&place.path("share"), &place.path("state"))
}

/// Sends `call` over many connections for a while, as often as it is taken; replies are not read. Connections that the
/// server ends are made anew.
fn attack(target: &str, call: &[u8]) {
    let began = Instant::now();
    let mut peers: Vec<Peer> = Vec::new();
    while began.elapsed() < lasting() {
        peers.retain(Peer::lasts);
        while peers.len() < CONNECTIONS
            && let Ok(peer) = Peer::connect_from([127, 0, 0, 1].into(), target)
        {
            peer.stream.set_nonblocking(true).unwrap();
            peers.push(peer);
        }
        for peer in &mut peers {
            peer.stuff(call);
        }
        thread::sleep(std::time::Duration::from_millis(50));
    }
}

/// A server that takes what comes and throws it away; where it listens.
fn discard() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            thread::spawn(move || {
                let mut sink = vec![0; 1 << 16];
                while matches!(stream.read(&mut sink), Ok(1..)) {}
            });
        }
    });
    address
}

fn check(server: &Server, call: &[u8]) {
    let seen = watch(server, || attack(&server.tcp, call));
    assert!(seen.held < HELD_MAX && seen.is_served(), "{seen:?}");
    if is_thorough() {
        let beside: Seen = watch(server, || attack(&discard(), call));
        eprintln!("attacked {seen:?}, beside {beside:?}");
        assert!(seen.p99 < 3 * beside.p99, "{seen:?}, beside it {beside:?}");
    }
}

#[test]
fn memory_for_unread_replies_is_bounded() {
    let place = Place::new();
    let server = serve(&place);
    let handle = Peer::connect(&server.tcp).mount();
    // Two hundred calls in one go: connections take them only as far as their replies are taken.
    check(&server, &readdirplus(&handle).repeat(200));
}

#[test]
fn records_that_do_not_end_are_bounded() {
    let place = Place::new();
    let server = serve(&place);
    let handle = Peer::connect(&server.tcp).mount();
    let begun = begun_write(&handle, 700_000);
    let seen = watch(&server, || {
        let began = Instant::now();
        let mut peers: Vec<Peer> = Vec::new();
        while began.elapsed() < lasting() {
            if peers.len() < CONNECTIONS {
                let mut peer = Peer::connect(&server.tcp);
                peer.stream.set_nonblocking(true).unwrap();
                // Once: the record goes on, and never ends.
                let _ = std::io::Write::write(&mut peer.stream, &begun);
                peers.push(peer);
                continue;
            }
            thread::sleep(std::time::Duration::from_millis(50));
            peers.retain(Peer::lasts);
        }
    });
    assert!(seen.held < HELD_MAX, "{seen:?}");
}
