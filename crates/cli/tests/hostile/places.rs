//! Peers that take the places of others.

use crate::memory::resident;
use crate::peer::{Peer, getattr, null};
use crate::support::{Place, Server};
use std::fs;
use std::net::Ipv4Addr;

/// A server of few connections; `clients` as in its configuration.
fn serve(place: &Place, clients: &str) -> Server {
    let (file, share) = (place.path("gannet.toml"), place.text("share"));
    let config = format!(
        "[server]\ncores = 1\nmax_connections = 64\n\n[[export]]\npath = {share:?}\nclients = [{clients}]\n"
    );
    fs::write(&file, config).unwrap();
    Server::start(&place.path("state"), &["--config", file.to_str().unwrap()])
}

const OTHERS: [Ipv4Addr; 2] = [Ipv4Addr::new(127, 0, 0, 2), Ipv4Addr::new(127, 0, 0, 3)];

#[test]
fn connections_of_hosts_without_an_export_are_refused() {
    let place = Place::new();
    let server = serve(&place, "\"127.0.0.1\"");
    let mut honest = Peer::connect(&server.tcp);
    let call = getattr(&honest.mount());
    let before = resident(&server);
    for round in 0..1000 {
        // Reset at once, perhaps before the call has left.
        if let Ok(mut peer) = Peer::connect_from(OTHERS[round % 2], &server.tcp) {
            assert!(peer.exchange(&null()).is_err());
        }
    }
    honest.exchange(&call).unwrap();
    Peer::connect(&server.tcp).mount();
    assert!(resident(&server) - before < 16 << 20);
}

#[test]
fn connections_with_only_null_calls_do_not_crowd_out_others() {
    let place = Place::new();
    let server = serve(&place, "\"127.0.0.0/8\"");
    let mut honest = Peer::connect(&server.tcp);
    let call = getattr(&honest.mount());
    let mut crowd = Vec::new();
    for round in 0..200 {
        let mut peer = Peer::connect_from(OTHERS[round % 2], &server.tcp).unwrap();
        peer.exchange(&null()).unwrap();
        crowd.push(peer);
    }
    // The one that was there before is still served, and more come in.
    honest.exchange(&call).unwrap();
    let mut more: Vec<Peer> = (0..20).map(|_| Peer::connect(&server.tcp)).collect();
    for peer in &mut more {
        peer.mount();
    }
    for peer in &mut more {
        peer.exchange(&call).unwrap();
    }
    honest.exchange(&call).unwrap();
}
