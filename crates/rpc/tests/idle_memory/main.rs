//! The memory that idle connections cost a server, and the memory that is left after they end.

#![allow(clippy::unwrap_used)]

#[path = "../../../iwarp/tests/support/mod.rs"]
mod bare;
#[path = "../all/common/mod.rs"]
mod common;
mod peer;

use bare::idle::{LOOPBACK, check, check_within, served_by};
use common::{Bench, NULL, raw};
use gannet_session::limits::STREAM_BYTES;
use peer::Peer;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::mpsc;

const CONNECTIONS: u64 = 1000;

#[test]
fn idle_connections_cost_8_kib_at_most_and_leave_nothing() {
    if gannet_testing::waits_elsewhere() {
        return;
    }
    let (rdma, tcp) = both_served();
    let connect = |_| Peer::connect(rdma);
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
    // In this test and not in one of its own: memory of the process is measured.
    let connect = |_| TcpStream::connect(tcp).unwrap();
    let (bound, call) = (STREAM_BYTES as u64 * 9 / 10, call_over_tcp);
    check_within(bound, "one call over tcp", CONNECTIONS, connect, call, call);
}

/// A server on a core of its own; its addresses for RDMA and for TCP.
fn both_served() -> (SocketAddr, SocketAddr) {
    let (sender, addresses) = mpsc::channel();
    let rdma = served_by(move |runtime, provider, rdma| async move {
        let bench = Bench::new(&runtime);
        sender.send(bench.listen_tcp()).unwrap();
        rdma.send(bench.listen_rdma(&provider, LOOPBACK.into()))
            .unwrap();
        std::future::pending::<()>().await;
    });
    (rdma, addresses.recv().unwrap())
}

/// A call with its record mark, and its reply.
fn call_over_tcp(stream: &mut TcpStream) {
    let call = raw::call_bytes(1, NULL, |_| {});
    let mark = 1 << 31 | u32::try_from(call.len()).unwrap();
    stream.write_all(&mark.to_be_bytes()).unwrap();
    stream.write_all(&call).unwrap();
    let mut mark = [0; 4];
    stream.read_exact(&mut mark).unwrap();
    let len = u32::from_be_bytes(mark) & !(1 << 31);
    let mut reply = vec![0; len as usize];
    stream.read_exact(&mut reply).unwrap();
}
