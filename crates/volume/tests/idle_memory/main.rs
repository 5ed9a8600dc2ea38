//! What connections of the native protocol cost a server that have nothing to do, and what is left when they are gone.

#![allow(clippy::unwrap_used)]

#[path = "../../../iwarp/tests/support/mod.rs"]
mod bare;
mod peer;

use bare::idle::{LOOPBACK, check, served_by};
use gannet_runtime::LocalFuture;
use gannet_volume::limits::{CREDITS, EAGER_BUFFERS, EAGER_BUFFERS_HELD_MAX};
use gannet_volume::link::{Answer, Handler, Link, Message};
use gannet_volume::secret::{Secret, ServerKeys};
use gannet_volume::serve::Server;
use gannet_wire::volume::Token;
use peer::Peer;
use std::rc::Rc;

const VOLUME: Token = *b"a volume's token";
/// Below what one address may have.
const CONNECTIONS: u64 = 400;

/// Answers everything at once, with nothing.
struct Done;

impl Handler for Done {
    fn answer(self: Rc<Self>, _: Link, request: Message) -> LocalFuture<Answer> {
        Box::pin(async move {
            drop(request);
            Answer::of(Ok(Vec::new()))
        })
    }
}

fn keys() -> ServerKeys {
    ServerKeys::new(Secret::new([5; 16]))
}

#[test]
fn idle_connections_cost_8_kib_at_most_and_leave_nothing() {
    if gannet_testing::waits_elsewhere() {
        return;
    }
    let address = served_by(|runtime, provider, told| async move {
        let listener = provider.listen(LOOPBACK.into()).unwrap();
        told.send(listener.local_address()).unwrap();
        let server = Server::new(runtime, VOLUME, keys(), Rc::new(Done));
        server.serve(provider, listener).await.unwrap();
    });
    let connect = |number: u64| {
        let session = u128::from(number).to_be_bytes();
        let mut peer = Peer::connect(address, VOLUME, keys(), session);
        // It has been let in when this is answered.
        peer.work(1, 1);
        peer
    };
    // What the process makes once for all connections is there before.
    let mut first: Vec<Peer> = (CONNECTIONS..CONNECTIONS + 8).map(connect).collect();
    first.iter_mut().for_each(|peer| peer.work(4, CREDITS));
    drop(first);
    let call = |peer: &mut Peer| peer.work(1, 1);
    check("one request", CONNECTIONS, connect, |_| {}, call);
    let busy = |peer: &mut Peer| peer.work(4, CREDITS);
    check("a busy time", CONNECTIONS, connect, busy, call);
    // Nothing was written to them: only their registrations cost.
    let count = EAGER_BUFFERS_HELD_MAX as u64 / u64::from(EAGER_BUFFERS);
    check("buffers", count, connect, Peer::ask_for_buffers, call);
}
