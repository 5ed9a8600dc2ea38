//! Unauthenticated peers that connect and stay silent: other clients connect all the same.
#![allow(clippy::unwrap_used)]

use crate::servers as common;

use common::{Bed, identity};
use gannet_dst::volume::{VOLUME, keys};
use gannet_fabric::{ConnectOptions, Connected, Provider};
use gannet_runtime::{Buffer, sleep, timeout};
use gannet_volume::limits::{BUSY_WITHIN, HELLO_DEADLINE, UNAUTHENTICATED_MAX};
use gannet_volume::link::{self, HandshakeError, Link, LinkError, Pool, ServerPlace, Session};
use gannet_wire::volume::{Class, Hello, Operation, Refusal, Role};
use std::future::poll_fn;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

/// Connects to an I/O server, and sends no proof.
async fn connect_without_proof(provider: &Rc<dyn Provider>, server: SocketAddr) -> Connected {
    let hello = Hello {
        role: Role::Client,
        server: Hello::io_server(0),
        volume: VOLUME,
        nonce: [1; 16],
        credits: 32,
    };
    let options = ConnectOptions {
        private_data: hello.to_bytes().to_vec(),
        receives: vec![Buffer::zeroed(1024)].into(),
        ..ConnectOptions::default()
    };
    provider.connect(server, options).await.unwrap()
}

async fn is_gone(endpoint: &Connected) {
    let mut completions = Vec::new();
    while poll_fn(|context| endpoint.poll_completions(context, &mut completions))
        .await
        .is_ok()
    {}
}

async fn ask(link: &Link) -> Result<(), LinkError> {
    let asked = link.call(Operation::Usage, Class::Metadata, &[], &[]);
    asked.await.map(|_| ())
}

#[test]
fn the_oldest_stranger_makes_room_for_the_next() {
    let bed = Bed::new(3, 1);
    let (node, fabric, server) = (
        bed.client.clone(),
        Rc::clone(&bed.fabric),
        bed.addresses()[0],
    );
    let done = bed.world.run(async move {
        let (runtime, provider) = (node.runtime(), fabric.provider(&node) as Rc<dyn Provider>);
        let connect = async || {
            let place = ServerPlace::io_server(server, 0);
            let (identity, session) = (identity(keys()), Session::new(&runtime));
            link::connect(&runtime, &provider, &Pool::new(), place, identity, session).await
        };
        let known = connect().await.unwrap();
        ask(&known).await.unwrap();
        let mut peers = Vec::new();
        for _ in 0..UNAUTHENTICATED_MAX {
            peers.push(connect_without_proof(&provider, server).await);
        }
        let soon = Duration::from_millis(10);
        assert!(soon < HELLO_DEADLINE);
        let first_goes = timeout(&runtime, soon, is_gone(&peers[0]));
        assert!(first_goes.await.is_err(), "there is room");
        let late = connect().await.unwrap();
        timeout(&runtime, soon, ask(&late)).await.unwrap().unwrap();
        timeout(&runtime, soon, is_gone(&peers[0])).await.unwrap();
        let second_goes = timeout(&runtime, soon, is_gone(&peers[1]));
        assert!(second_goes.await.is_err(), "one was enough");
        ask(&known).await.unwrap();
    });
    done.unwrap();
}

#[test]
fn unauthenticated_peers_of_one_host_take_no_place_of_another() {
    let bed = Bed::new(3, 1);
    let other = bed.world.add_node("other host");
    let (node, fabric, server) = (
        bed.client.clone(),
        Rc::clone(&bed.fabric),
        bed.addresses()[0],
    );
    let done = bed.world.run(async move {
        let runtime = node.runtime();
        let one = fabric.provider(&node) as Rc<dyn Provider>;
        let other = fabric.provider(&other) as Rc<dyn Provider>;
        let oldest = connect_without_proof(&other, server).await;
        let mut crowd = Vec::new();
        for _ in 0..UNAUTHENTICATED_MAX + 8 {
            crowd.push(connect_without_proof(&one, server).await);
        }
        let soon = Duration::from_millis(10);
        for own in &crowd[..8] {
            timeout(&runtime, soon, is_gone(own)).await.unwrap();
        }
        assert!(timeout(&runtime, soon, is_gone(&oldest)).await.is_err());
    });
    done.unwrap();
}

/// The default budget has room for 1024 connections, half of them from one address.
#[test]
fn a_peer_beyond_the_bound_of_its_address_is_told_the_bound() {
    let bed = Bed::new(3, 1);
    let other = bed.world.add_node("other host");
    let (node, fabric, server) = (
        bed.client.clone(),
        Rc::clone(&bed.fabric),
        bed.addresses()[0],
    );
    let done = bed.world.run(async move {
        let runtime = node.runtime();
        let connect = async |provider: &Rc<dyn Provider>| {
            let place = ServerPlace::io_server(server, 0);
            let (identity, session) = (identity(keys()), Session::new(&runtime));
            link::connect(&runtime, provider, &Pool::new(), place, identity, session).await
        };
        let one = fabric.provider(&node) as Rc<dyn Provider>;
        let mut links = Vec::new();
        for _ in 0..512 {
            let link = connect(&one).await.unwrap();
            ask(&link).await.unwrap();
            links.push(link);
        }
        let refused = connect(&one).await.map(drop);
        assert_eq!(refused, Err(HandshakeError::Refused(Refusal::OfAddress)));
        for link in &links {
            ask(link).await.unwrap();
        }
        let other = fabric.provider(&other) as Rc<dyn Provider>;
        ask(&connect(&other).await.unwrap()).await.unwrap();
        // The idlest makes room once it has been idle.
        sleep(&runtime, BUSY_WITHIN).await;
        ask(&connect(&one).await.unwrap()).await.unwrap();
        assert!(ask(&links[0]).await.is_err());
    });
    done.unwrap();
}
