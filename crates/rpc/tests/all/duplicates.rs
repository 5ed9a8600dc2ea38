//! The duplicate request cache: executed once, answered as often as asked, whatever the transport.

#![allow(clippy::unwrap_used)]

use crate::common;

use common::raw::{Raw, call_bytes, call_bytes_as, linux};
use common::stream::{receive_record, record};
use common::*;
use gannet_fabric::Provider;
use gannet_metrics::{Exposition, Source};
use gannet_rpc::{CacheLimits, ReplyCache, Server};
use gannet_runtime::{Handle, Stream};
use gannet_sim::World;
use gannet_sim::fabric::{FabricProfile, SimFabric};
use gannet_wire::rpc::{AuthFlavor, AuthSys, Groups, OpaqueAuth};
use gannet_wire::rpcrdma::{ChunkLists, TransportProcedure};
use gannet_wire::xdr::{Decoder, Encoder};
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

struct Lab {
    runtime: Handle,
    /// The runtime of a second client host.
    other: Handle,
    tcp: SocketAddr,
    rdma: SocketAddr,
    provider: Rc<dyn Provider>,
    bench: Bench,
}

fn lab<F: Future<Output = ()> + 'static>(limits: CacheLimits, test: impl FnOnce(Lab) -> F) {
    let world = World::new(5);
    let (near, far) = (world.add_node("client"), world.add_node("server"));
    let other = world.add_node("other client").runtime();
    let fabric = SimFabric::new(&world, FabricProfile::default());
    let (provider, far_provider) = (fabric.provider(&near), fabric.provider(&far));
    let mut bench = Bench::new(&far.runtime());
    bench.cache = Arc::new(ReplyCache::new(limits));
    bench.server = Server::new(
        far.runtime(),
        Rc::clone(&bench.service),
        Arc::clone(&bench.cache),
        Arc::clone(&bench.counters),
    );
    let rdma = bench.listen_rdma(&far_provider, SocketAddr::new(far.ip(), 20049));
    let listener = far
        .runtime()
        .listen(SocketAddr::new(far.ip(), 2049))
        .unwrap();
    let tcp = listener.local_address();
    let server = bench.server.clone();
    let serve = Box::pin(async move { server.serve_tcp(listener).await.unwrap() });
    far.runtime().spawn("server", serve);
    world
        .run(in_time(
            &world,
            test(Lab {
                runtime: near.runtime(),
                other,
                tcp,
                rdma,
                provider,
                bench,
            }),
        ))
        .unwrap();
}

impl Lab {
    async fn connect_rdma(&self) -> Raw {
        Raw::connect(
            &self.runtime,
            &self.provider,
            self.rdma,
            &linux().to_bytes(),
        )
        .await
    }

    async fn connect_tcp(&self) -> Stream {
        self.runtime.connect(self.tcp).await.unwrap()
    }
}

fn count_call(xid: u32, milliseconds: u32) -> Vec<u8> {
    call_bytes(xid, COUNT, |encoder| encoder.u32(milliseconds))
}

async fn send(stream: &Stream, message: &[u8]) {
    common::stream::send(stream, &record(message))
        .await
        .unwrap();
}

/// The word in the next reply, which has 24 bytes of header before it.
async fn receive(stream: &Stream) -> u32 {
    let reply = receive_record(stream).await.unwrap();
    Decoder::new(&reply[24..]).u32().unwrap()
}

async fn count_tcp(stream: &Stream, xid: u32) -> u32 {
    send(stream, &count_call(xid, 0)).await;
    receive(stream).await
}

async fn count_rdma(raw: &Raw, xid: u32) -> u32 {
    let call = count_call(xid, 0);
    let answer = raw
        .exchange(xid, TransportProcedure::Msg, &ChunkLists::new(), &call)
        .await;
    Decoder::new(&answer.message[24..]).u32().unwrap()
}

#[test]
fn a_duplicate_is_answered_from_the_cache_on_any_connection_and_transport() {
    lab(CacheLimits::default(), |lab| async move {
        let (one, two, raw) = (
            lab.connect_tcp().await,
            lab.connect_tcp().await,
            lab.connect_rdma().await,
        );
        assert_eq!(count_tcp(&one, 7).await, 1);
        assert_eq!(count_tcp(&one, 7).await, 1);
        assert_eq!(count_tcp(&two, 7).await, 1);
        assert_eq!(count_rdma(&raw, 7).await, 1);
        assert_eq!(count_rdma(&raw, 8).await, 2);
        assert_eq!(count_tcp(&two, 8).await, 2);
        // The same XID with other arguments is another call.
        send(&one, &count_call(7, 1)).await;
        assert_eq!(receive(&one).await, 3);
        assert_eq!(lab.bench.counters.replays.total(), 4);
        assert_eq!(lab.bench.cache.len(), 3);
    });
}

#[test]
fn the_same_xid_from_another_host_is_another_call() {
    lab(CacheLimits::default(), |lab| async move {
        let here = lab.connect_tcp().await;
        let there = lab.other.connect(lab.tcp).await.unwrap();
        assert_eq!(count_tcp(&here, 7).await, 1);
        assert_eq!(count_tcp(&there, 7).await, 2);
        // Each host gets its own reply again, by any of its connections.
        assert_eq!(count_tcp(&here, 7).await, 1);
        assert_eq!(count_rdma(&lab.connect_rdma().await, 7).await, 1);
        let again = lab.other.connect(lab.tcp).await.unwrap();
        assert_eq!(count_tcp(&again, 7).await, 2);
        assert_eq!(lab.bench.service.executions(COUNT), 2);
    });
}

/// The body of an AUTH_SYS credential; the stamp may differ from call to call of the same user.
fn user(stamp: u32, uid: u32, gid: u32, groups: &[u32]) -> Vec<u8> {
    let mut body = Vec::new();
    AuthSys {
        stamp,
        machine_name: b"client",
        uid,
        gid,
        groups: Groups::new(groups),
    }
    .emit(&mut Encoder::new(&mut body));
    body
}

#[test]
fn a_duplicate_is_the_same_callers() {
    lab(CacheLimits::default(), |lab| async move {
        let (one, two) = (lab.connect_tcp().await, lab.connect_tcp().await);
        // The same call by callers with different credentials.
        let users = [
            user(1, 1000, 100, &[]),
            user(1, 1001, 100, &[]),
            user(1, 1000, 101, &[]),
            user(1, 1000, 100, &[7]),
            user(1, 1000, 100, &[7, 8]),
        ];
        for stream in [&one, &two] {
            for (expected, body) in (1..).zip(&users) {
                assert_eq!(count_as(stream, body).await, expected);
            }
            assert_eq!(count_as(stream, &user(2, 1001, 100, &[])).await, 2);
            assert_eq!(count_tcp(stream, 7).await, 6);
        }
        assert_eq!(lab.bench.service.executions(COUNT), 6);
    });
}

async fn count_as(stream: &Stream, body: &[u8]) -> u32 {
    let flavor = AuthFlavor::SYS;
    let call = call_bytes_as(OpaqueAuth { flavor, body }, 7, COUNT, |encoder| {
        encoder.u32(0);
    });
    send(stream, &call).await;
    receive(stream).await
}

#[test]
fn a_duplicate_of_a_call_under_way_waits_for_its_result() {
    lab(CacheLimits::default(), |lab| async move {
        let first = lab.connect_tcp().await;
        send(&first, &count_call(9, 500)).await;
        let service = Rc::clone(&lab.bench.service);
        eventually(&lab.runtime, || service.in_call.get() == 1).await;
        // The connection ends, and the execution goes on.
        first.abort();
        let (second, raw) = (lab.connect_tcp().await, lab.connect_rdma().await);
        send(&second, &count_call(9, 500)).await;
        raw.send(
            9,
            TransportProcedure::Msg,
            &ChunkLists::new(),
            &count_call(9, 500),
        );
        assert_eq!(receive(&second).await, 1);
        let answer = raw.receive().await.unwrap();
        assert_eq!(Decoder::new(&answer.message[24..]).u32(), Ok(1));
        assert_eq!(lab.bench.service.executions(COUNT), 1);
        assert_eq!(lab.bench.counters.replays.total(), 2);
    });
}

#[test]
fn replies_are_forgotten_after_two_minutes() {
    lab(CacheLimits::default(), |lab| async move {
        let stream = lab.connect_tcp().await;
        assert_eq!(count_tcp(&stream, 1).await, 1);
        gannet_runtime::sleep(&lab.runtime, Duration::from_secs(119)).await;
        assert_eq!(count_tcp(&stream, 1).await, 1);
        gannet_runtime::sleep(&lab.runtime, Duration::from_secs(2)).await;
        assert_eq!(count_tcp(&stream, 1).await, 2);
    });
}

#[test]
fn the_cache_is_bounded_in_entries_and_bytes() {
    for limits in [
        CacheLimits {
            entries_max: 64,
            bytes_max: usize::MAX,
        },
        CacheLimits {
            entries_max: usize::MAX,
            bytes_max: 64 * 200,
        },
    ] {
        lab(limits, |lab| async move {
            let stream = lab.connect_tcp().await;
            for xid in 0..1000 {
                assert_eq!(count_tcp(&stream, xid).await, xid + 1);
            }
            let kept = lab.bench.cache.len();
            assert!((32..=80).contains(&kept), "{kept}");
            let mut read = Exposition::default();
            lab.bench.cache.collect(&mut read);
            let evicted = format!("gannet_rpc_evicted_replies_total {}.0", 1000 - kept);
            let text = read.into_text();
            assert!(text.contains(&evicted), "{evicted}: {text}");
            // The newest is still there, the oldest is not.
            assert_eq!(count_tcp(&stream, 999).await, 1000);
            assert_eq!(count_tcp(&stream, 0).await, 1001);
        });
    }
}
