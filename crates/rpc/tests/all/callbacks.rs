//! A server calls its client back over the connection that the client has made.

#![allow(clippy::unwrap_used)]

use crate::common;

use common::raw::{Raw, call_bytes, linux, part};
use common::stream::{exchange, receive_record, record, send};
use common::*;
use gannet_fabric::{Access, Provider};
use gannet_iwarp::{IwarpConfig, IwarpProvider};
use gannet_rpc::limits::CALLBACKS_MAX;
use gannet_rpc::{CallBack, CallError, Client, Request, Target};
use gannet_runtime::{Handle, sleep, timeout};
use gannet_sim::fabric::{FabricProfile, SimFabric};
use gannet_sim::{Node, World};
use gannet_wire::rpc::{AcceptStatus, CallHeader, ReplyHeader};
use gannet_wire::rpcrdma::{ChunkLists, TransportHeader, TransportProcedure};
use gannet_wire::xdr::{Decoder, Encoder};
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(5);

/// A server that listens by both transports, over RDMA on two fabrics, and the machine of its client.
struct Ends {
    bench: Rc<Bench>,
    near: Node,
    runtime: Handle,
    provider: Rc<dyn Provider>,
    tcp: SocketAddr,
    rdma: SocketAddr,
    iwarp: SocketAddr,
}

fn run<F: Future<Output = ()> + 'static>(test: impl FnOnce(Ends) -> F) {
    let world = World::new(3);
    let (near, far) = (world.add_node("client"), world.add_node("server"));
    let fabric = SimFabric::new(&world, FabricProfile::default());
    let bench = Rc::new(Bench::new(&far.runtime()));
    let at = |port| SocketAddr::new(far.ip(), port);
    let iwarp: Rc<dyn Provider> = IwarpProvider::new(far.runtime(), IwarpConfig::default());
    let ends = Ends {
        iwarp: bench.listen_rdma(&iwarp, at(20050)),
        tcp: bench.listen_tcp_at(at(2049)),
        rdma: bench.listen_rdma(&fabric.provider(&far), at(20049)),
        bench,
        runtime: near.runtime(),
        provider: fabric.provider(&near),
        near,
    };
    world.run(in_time(&world, test(ends))).unwrap();
}

impl Ends {
    fn targets(&self) -> [Target; 3] {
        let iwarp = IwarpProvider::new(self.near.runtime(), IwarpConfig::default());
        [
            Target::Tcp(self.tcp),
            Target::Rdma(Rc::clone(&self.provider), self.rdma),
            Target::Rdma(iwarp, self.iwarp),
        ]
    }

    fn answering(&self, target: Target) -> (Client, Rc<TestService>) {
        let (runtime, service) = (
            Handle::clone(&self.runtime),
            TestService::new(&self.runtime),
        );
        let client = Client::answering(runtime, target, config(), Rc::clone(&service));
        (client, service)
    }

    /// The server's handle to call its last caller.
    fn back(&self) -> CallBack {
        self.bench.service.back.borrow().clone().unwrap()
    }

    async fn raw(&self) -> Raw {
        self.raw_over(&self.provider, self.rdma).await
    }

    async fn raw_over(&self, provider: &Rc<dyn Provider>, address: SocketAddr) -> Raw {
        let private_data = linux().to_bytes();
        let raw = Raw::connect(&self.runtime, provider, address, &private_data).await;
        let call = call_bytes(7, NULL, |_| {});
        raw.exchange(7, TransportProcedure::Msg, &ChunkLists::new(), &call)
            .await;
        raw
    }
}

async fn echo_back(back: &CallBack, bytes: &[u8]) -> Result<Vec<u8>, CallError> {
    let mut call = request(ECHO, 4 + bytes.len() + 3);
    call.arguments().opaque(bytes);
    let response = back.call(call, PATIENCE).await?;
    assert!(!response.resent);
    Ok(Decoder::new(&response.results)
        .opaque(bytes.len())?
        .to_vec())
}

/// The reply to a call without results.
fn success(xid: u32) -> Vec<u8> {
    let mut bytes = Vec::new();
    ReplyHeader::accepted(xid, AcceptStatus::Success).emit(&mut Encoder::new(&mut bytes));
    bytes
}

/// As a client's message in the reverse direction, which grants so many credits.
fn back_message(xid: u32, credits: u32, lists: &ChunkLists, message: &[u8]) -> Vec<u8> {
    let header = TransportHeader {
        xid,
        version: 1,
        credits,
        procedure: TransportProcedure::Msg,
    };
    let mut bytes = Vec::new();
    header.emit(&mut Encoder::new(&mut bytes), lists);
    bytes.extend_from_slice(message);
    bytes
}

#[test]
fn calls_go_both_ways_at_the_same_time() {
    run(|ends| async move {
        for target in ends.targets() {
            let (client, service) = ends.answering(target);
            echo(&client, b"first").await.unwrap();
            let back = ends.back();
            let there = all((0..40).map(|n| {
                let client = client.clone();
                async move {
                    assert_eq!(
                        echo(&client, &pattern(n * 50)).await.unwrap(),
                        pattern(n * 50)
                    )
                }
            }));
            let here = all((0..40).map(|n| {
                let back = back.clone();
                async move {
                    assert_eq!(
                        echo_back(&back, &pattern(n * 50)).await.unwrap(),
                        pattern(n * 50)
                    )
                }
            }));
            gannet_runtime::both(there, here).await;
            assert_eq!(service.executions(ECHO), 40);
            // A quick call does not wait for a slow one.
            let mut call = request(SLOW, 4);
            call.arguments().u32(100);
            let (slow, quick) =
                gannet_runtime::both(back.call(call, PATIENCE), echo_back(&back, b"quick")).await;
            assert_eq!(slow.unwrap().results, [0, 0, 0, 100]);
            assert_eq!(quick.unwrap(), b"quick");
        }
    });
}

#[test]
fn long_calls_go_back_where_a_message_has_room() {
    run(|ends| async move {
        let [tcp, rdma, _] = ends.targets();
        let (client, _) = ends.answering(tcp);
        echo(&client, b"").await.unwrap();
        for len in [16_380, 16_385, 300_001, 1 << 20] {
            assert!(
                echo_back(&ends.back(), &pattern(len)).await.unwrap() == pattern(len),
                "{len}"
            );
        }
        let (client, service) = ends.answering(rdma);
        echo(&client, b"").await.unwrap();
        assert_eq!(
            echo_back(&ends.back(), &pattern(3900)).await.unwrap(),
            pattern(3900)
        );
        let long = echo_back(&ends.back(), &pattern(4096)).await;
        assert_eq!(long, Err(CallError::TooLarge));
        let mut call = request(LONG, 5000);
        call.arguments().u32(4096);
        let long = ends.back().call(call, PATIENCE).await.map(|_| ());
        assert_eq!(long, Err(CallError::NotExecuted(AcceptStatus::SystemErr)));
        assert_eq!(service.executions(LONG), 1);
        assert_eq!(echo_back(&ends.back(), b"on").await.unwrap(), b"on");
    });
}

#[test]
fn calls_back_that_a_client_cannot_execute_are_refused() {
    run(|ends| async move {
        for target in ends.targets() {
            let refused = |status| Err(CallError::NotExecuted(status));
            let client = Client::new(Handle::clone(&ends.runtime), target.clone(), config());
            echo(&client, b"").await.unwrap();
            let none = echo_back(&ends.back(), b"").await;
            assert_eq!(none, refused(AcceptStatus::ProgUnavail));
            let (client, _) = ends.answering(target);
            echo(&client, b"").await.unwrap();
            let call = Request::new(PROGRAM, 9, NULL, 0);
            let mismatch = AcceptStatus::ProgMismatch { low: 1, high: 2 };
            let called = ends.back().call(call, PATIENCE).await.map(|_| Vec::new());
            assert_eq!(called, refused(mismatch));
            let called = ends.back().call(request(GARBAGE, 0), PATIENCE).await;
            assert_eq!(
                called.map(|_| Vec::new()),
                refused(AcceptStatus::GarbageArgs)
            );
        }
    });
}

#[test]
fn calls_back_end_with_their_connection() {
    run(|ends| async move {
        for target in ends.targets() {
            let (client, service) = ends.answering(target);
            echo(&client, b"").await.unwrap();
            let back = ends.back();
            let mut call = request(SLOW, 4);
            call.arguments().u32(1000);
            let began = ends.runtime.now();
            let closing = async {
                eventually(&ends.runtime, || service.in_call.get() == 1).await;
                client.close();
            };
            let (called, ()) = gannet_runtime::both(back.call(call, PATIENCE), closing).await;
            assert_eq!(called.map(|_| ()), Err(CallError::Closed));
            assert!(ends.runtime.now() - began < Duration::from_millis(500));
            assert!(back.is_closed());
            assert_eq!(echo_back(&back, b"").await, Err(CallError::Closed));
            // It is never cancelled.
            eventually(&ends.runtime, || service.executions(SLOW) == 1).await;
        }
    });
}

/// Makes more calls back than there may be under way, none of which is answered in time.
async fn overdue(ends: &Ends) {
    let back = ends.back();
    let began = ends.runtime.now();
    let calls = (0..2 * CALLBACKS_MAX).map(|_| back.call(request(NULL, 0), PATIENCE));
    for called in all(calls).await {
        assert_eq!(called.map(|_| ()), Err(CallError::TimedOut));
    }
    assert_eq!((ends.runtime.now() - began).as_secs(), PATIENCE.as_secs());
}

#[test]
fn a_stream_that_answers_nothing_has_few_calls_to_answer() {
    run(|ends| async move {
        let stream = ends.runtime.connect(ends.tcp).await.unwrap();
        exchange(&stream, &call_bytes(7, NULL, |_| {}))
            .await
            .unwrap();
        for _ in 0..2 {
            overdue(&ends).await;
        }
        let mut xids = Vec::new();
        for _ in 0..CALLBACKS_MAX {
            let call = receive_record(&stream).await.unwrap();
            xids.push(CallHeader::parse(&mut Decoder::new(&call)).unwrap().xid);
        }
        let pause = Duration::from_secs(1);
        let more = timeout(&ends.runtime, pause, receive_record(&stream)).await;
        assert!(more.is_err(), "more calls than may be under way");
        // Late answers end no call, and make room.
        let late: Vec<u8> = xids.iter().flat_map(|xid| record(&success(*xid))).collect();
        send(&stream, &late).await.unwrap();
        let next = async {
            let call = receive_record(&stream).await.unwrap();
            let xid = CallHeader::parse(&mut Decoder::new(&call)).unwrap().xid;
            send(&stream, &record(&success(xid))).await.unwrap();
        };
        let back = ends.back();
        let calling = back.call(request(NULL, 0), PATIENCE);
        let (called, ()) = gannet_runtime::both(calling, next).await;
        assert_eq!(called.unwrap().results, []);
        // The same connection still answers its client.
        exchange(&stream, &call_bytes(8, NULL, |_| {}))
            .await
            .unwrap();
        assert_eq!(ends.bench.counters.drops.total(), 0);
        assert_eq!(ends.bench.counters.calls.total(), 2);
    });
}

#[test]
fn a_peer_that_answers_nothing_keeps_its_credits_used() {
    run(|ends| async move {
        let raw = ends.raw().await;
        let none = ChunkLists::new();
        for _ in 0..2 {
            overdue(&ends).await;
        }
        // One, as long as it has granted no more.
        let first = raw.receive().await.unwrap();
        let pause = Duration::from_secs(1);
        let more = timeout(&ends.runtime, pause, raw.next()).await;
        assert!(more.is_err(), "more calls than there are credits");
        raw.send_bytes(back_message(
            first.header.xid,
            3,
            &none,
            &success(first.header.xid),
        ));
        let back = ends.back();
        let calls = all((0..5).map(|_| back.call(request(NULL, 0), PATIENCE)));
        let answers = async {
            let mut came = Vec::new();
            for _ in 0..3 {
                came.push(raw.receive().await.unwrap().header.xid);
            }
            let more = timeout(&ends.runtime, pause, raw.next()).await;
            assert!(more.is_err(), "more calls than there are credits");
            for xid in came {
                raw.send_bytes(back_message(xid, 3, &none, &success(xid)));
            }
            for _ in 0..2 {
                let xid = raw.receive().await.unwrap().header.xid;
                raw.send_bytes(back_message(xid, 3, &none, &success(xid)));
            }
        };
        let (called, ()) = gannet_runtime::both(calls, answers).await;
        assert!(called.iter().all(Result::is_ok));
        // Its own credits were not touched.
        raw.earn(64).await;
        assert_eq!(ends.bench.counters.drops.total(), 0);
    });
}

#[test]
fn replies_to_calls_back_have_receives_of_their_own() {
    run(|ends| async move {
        // Whose messages come many at a time.
        let iwarp: Rc<dyn Provider> =
            IwarpProvider::new(ends.near.runtime(), IwarpConfig::default());
        let raw = ends.raw_over(&iwarp, ends.iwarp).await;
        let (none, back) = (ChunkLists::new(), ends.back());
        let granted = CALLBACKS_MAX as u32;
        let calls = all((0..=granted).map(|_| back.call(request(NULL, 0), PATIENCE)));
        let answers = async {
            let first = raw.receive().await.unwrap().header.xid;
            raw.send_bytes(back_message(first, granted, &none, &success(first)));
            let mut came = Vec::new();
            for _ in 0..granted {
                came.push(raw.receive().await.unwrap().header.xid);
            }
            // All that it may have under way, each of which keeps its receive, and then the replies.
            let call = call_bytes(8, NULL, |_| {});
            let own = raw.exchange(8, TransportProcedure::Msg, &none, &call).await;
            for xid in 100..100 + own.header.credits {
                let call = call_bytes(xid, SLOW, |encoder| encoder.u32(500));
                raw.send(xid, TransportProcedure::Msg, &none, &call);
            }
            for xid in came {
                raw.send_bytes(back_message(xid, granted, &none, &success(xid)));
            }
            for _ in 0..own.header.credits {
                raw.receive().await.unwrap();
            }
        };
        let (called, ()) = gannet_runtime::both(calls, answers).await;
        assert!(called.iter().all(Result::is_ok), "{called:?}");
        assert_eq!(ends.bench.counters.drops.total(), 0);
    });
}

#[test]
fn replies_to_no_call_are_ignored_over_rdma_and_end_a_stream() {
    run(|ends| async move {
        let raw = ends.raw().await;
        let none = ChunkLists::new();
        raw.send_bytes(back_message(1, 8, &none, &success(1)));
        let call = call_bytes(8, NULL, |_| {});
        raw.exchange(8, TransportProcedure::Msg, &none, &call).await;
        // With a chunk: that is against the rules, and the call has no answer.
        let back = ends.back();
        let answer = async {
            let xid = raw.receive().await.unwrap().header.xid;
            let region = raw.register(vec![0; 100], Access::RemoteRead);
            let mut lists = ChunkLists::new();
            lists.push_read(24, part(&region, 0, 100));
            raw.send_bytes(back_message(xid, 8, &lists, &success(xid)));
        };
        let calling = back.call(request(NULL, 0), PATIENCE);
        let (called, ()) = gannet_runtime::both(calling, answer).await;
        let malformed = CallError::Malformed("chunks of a reply");
        assert_eq!(called.map(|_| ()), Err(malformed));
        raw.earn(64).await;
        // A stream that goes on like that is not one of calls.
        let stream = ends.runtime.connect(ends.tcp).await.unwrap();
        exchange(&stream, &call_bytes(7, NULL, |_| {}))
            .await
            .unwrap();
        assert!(exchange(&stream, &success(1)).await.is_err());
        assert_eq!(ends.bench.counters.drops.total(), 1);
    });
}

#[test]
fn a_server_that_calls_without_end_is_left() {
    run(|ends| async move {
        let listener = SocketAddr::new(ends.near.ip(), 111);
        let mut listener = ends.runtime.listen(listener).unwrap();
        let target = Target::Tcp(listener.local_address());
        let (client, service) = ends.answering(target);
        let serving = async {
            let stream = listener.accept().await.unwrap();
            receive_record(&stream).await.unwrap();
            let slow = |xid| call_bytes(xid, SLOW, |encoder| encoder.u32(60_000));
            for xid in 0..=CALLBACKS_MAX as u32 {
                send(&stream, &record(&slow(xid))).await.unwrap();
            }
            // One too many.
            assert!(receive_record(&stream).await.is_err());
            client.close();
        };
        let calling = client.call(request(NULL, 0));
        let (called, ()) = gannet_runtime::both(calling, serving).await;
        assert_eq!(called.map(|_| ()), Err(CallError::Closed));
        assert_eq!(service.in_call.get() as usize, CALLBACKS_MAX);
        sleep(&ends.runtime, Duration::from_secs(61)).await;
        assert_eq!(service.in_call.get(), 0);
    });
}
