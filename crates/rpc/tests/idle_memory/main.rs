//! The memory that idle RDMA connections cost a server, and the memory that is left after they end.

#![allow(clippy::unwrap_used)]

#[path = "../../../iwarp/tests/support/mod.rs"]
mod bare;
#[path = "../all/common/mod.rs"]
mod common;
mod peer;

use bare::idle::{LOOPBACK, check, served_by};
use common::Bench;
use peer::Peer;

const CONNECTIONS: u64 = 1000;

#[test]
fn idle_connections_cost_8_kib_at_most_and_leave_nothing() {
    if gannet_testing::waits_elsewhere() {
        return;
    }
    let address = served_by(|runtime, provider, sender| async move {
        let bench = Bench::new(&runtime);
        sender
            .send(bench.listen_rdma(&provider, LOOPBACK.into()))
            .unwrap();
        std::future::pending::<()>().await;
    });
    let connect = |_| Peer::connect(address);
    // Memory that the process allocates once for all connections is allocated before the measurement.
    let mut first: Vec<Peer> = (0..8).map(connect).collect();
    for peer in &mut first {
        assert_eq!(peer.work(4), 128);
    }
    drop(first);
    let call = |peer: &mut Peer| assert!(peer.work(1) >= 1);
    check("one call", CONNECTIONS, connect, call, call);
    let busy = |peer: &mut Peer| _ = peer.work(4);
    check("a busy time", CONNECTIONS, connect, busy, call);
}
