//! Client and server back to back over RPC/RDMA: on the fabric in memory, and on the software RNIC over simulated
//! and real TCP.

#![allow(clippy::unwrap_used)]

use crate::common;

use common::*;
use gannet_fabric::Provider;
use gannet_iwarp::{IwarpConfig, IwarpProvider};
use gannet_rpc::{CallError, Client, ClientConfig, Persistence, Request, Target, Transport};
use gannet_runtime::{Handle, timeout, tokio_plug};
use gannet_sim::World;
use gannet_sim::fabric::{FabricProfile, SimFabric};
use gannet_wire::rpc::AcceptStatus;
use gannet_wire::xdr::Decoder;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// A server and a client on two simulated nodes.
struct Pair {
    world: World,
    bench: Rc<Bench>,
    client: Client,
    client_provider: Rc<dyn Provider>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Memory,
    Iwarp,
}

fn pair(seed: u64, kind: Kind, profile: FabricProfile) -> Pair {
    let world = World::new(seed);
    let (near, far) = (world.add_node("client"), world.add_node("server"));
    let (near_provider, far_provider): (Rc<dyn Provider>, Rc<dyn Provider>) = match kind {
        Kind::Memory => {
            let fabric = SimFabric::new(&world, profile);
            (fabric.provider(&near), fabric.provider(&far))
        }
        Kind::Iwarp => (
            IwarpProvider::new(near.runtime(), IwarpConfig::default()),
            IwarpProvider::new(far.runtime(), IwarpConfig::default()),
        ),
    };
    let bench = Rc::new(Bench::new(&far.runtime()));
    let address = bench.listen_rdma(&far_provider, SocketAddr::new(far.ip(), 20049));
    let target = Target::Rdma(Rc::clone(&near_provider), address);
    let config = ClientConfig {
        persistence: Persistence::Hard,
        ..config()
    };
    let client = Client::new(near.runtime(), target, config);
    Pair {
        world,
        bench,
        client,
        client_provider: near_provider,
    }
}

async fn all_sizes(bench: Rc<Bench>, client: Client) {
    for len in [
        0,
        1,
        3,
        4,
        5,
        3800,
        3900,
        4000,
        4096,
        16_385,
        300_001,
        1 << 20,
    ] {
        assert!(
            echo(&client, &pattern(len)).await.unwrap() == pattern(len),
            "echo {len}"
        );
        read(&client, len).await;
        // Whatever does not fit the Send comes by a Read chunk, straight into memory of its own.
        assert_eq!(write(&client, len).await, len > 4010, "write {len}");
    }
    let transports = bench.service.transports.borrow();
    assert!(
        transports
            .iter()
            .all(|transport| *transport == Transport::Rdma)
    );
    assert_eq!(bench.counters.transport_errors.total(), 0);
}

#[test]
fn calls_and_payloads_of_all_sizes() {
    for kind in [Kind::Memory, Kind::Iwarp] {
        let Pair {
            world,
            bench,
            client,
            client_provider,
        } = pair(1, kind, FabricProfile::default());
        world
            .run(in_time(&world, all_sizes(bench, client)))
            .unwrap();
        // Nothing stays exposed.
        let stats = client_provider.domain().stats();
        assert_eq!(stats.registrations, stats.deregistrations, "{kind:?}");
        assert_eq!(stats.bytes_registered, 0, "{kind:?}");
    }
}

#[test]
fn over_the_software_rnic_on_loopback() {
    tokio_plug::block_on(|runtime| async move {
        let provider = IwarpProvider::new(Handle::clone(&runtime), IwarpConfig::default());
        let provider = provider as Rc<dyn Provider>;
        let bench = Rc::new(Bench::new(&runtime));
        let address = bench.listen_rdma(&provider, "127.0.0.1:0".parse().unwrap());
        let client = bench.client(Target::Rdma(provider, address));
        all_sizes(bench, client).await;
    })
    .unwrap();
}

#[test]
fn more_calls_than_credits_wait_their_turn() {
    for kind in [Kind::Memory, Kind::Iwarp] {
        let Pair {
            world,
            bench,
            client,
            ..
        } = pair(2, kind, FabricProfile::default());
        world
            .run(in_time(&world, async move {
                let calls = all((0..300).map(|index| {
                    let client = client.clone();
                    async move {
                        match index % 4 {
                            0 => read(&client, 70_000 + index).await,
                            1 => assert!(write(&client, 70_000 + index).await),
                            2 => assert_eq!(echo(&client, b"small").await.unwrap(), b"small"),
                            _ => {
                                let mut call = request(SLOW, 4);
                                call.arguments().u32(index as u32);
                                client.call(call).await.unwrap();
                            }
                        }
                    }
                }));
                // A client that exceeds its credits loses its connection, and calls again on its next one.
                let answered = timeout(&bench.runtime, Duration::from_secs(10), calls).await;
                answered.expect("all are answered on one connection");
                assert_eq!(bench.counters.calls.total(), 300);
                // The first call goes alone until the server has granted more.
                let starved = client.credit_starved();
                assert!(starved > Duration::ZERO && starved < Duration::from_secs(1));
                assert_eq!(echo(&client, b"alone").await.unwrap(), b"alone");
                assert_eq!(client.credit_starved(), starved);
            }))
            .unwrap();
    }
}

#[test]
fn long_results_come_by_the_reply_chunk() {
    let Pair { world, client, .. } = pair(3, Kind::Memory, FabricProfile::default());
    world
        .run(in_time(&world, async move {
            for len in [100u32, 5000, 65_537] {
                let mut call = request(LONG, len as usize + 8);
                call.arguments().u32(len);
                let response = client.call(call).await.unwrap();
                let mut results = Decoder::new(&response.results);
                assert_eq!(results.opaque(1 << 20).unwrap(), pattern(len as usize));
            }
            // A longer reply than announced fits nowhere: the transport refuses it, and the connection lasts.
            let mut call = request(LONG, 100);
            call.arguments().u32(50_000);
            assert_eq!(
                client.call(call).await.unwrap_err(),
                CallError::TransportRefused
            );
            assert_eq!(echo(&client, b"alive").await.unwrap(), b"alive");
        }))
        .unwrap();
}

#[test]
fn calls_that_the_server_cannot_execute_are_refused() {
    let Pair { world, client, .. } = pair(4, Kind::Memory, FabricProfile::default());
    world
        .run(in_time(&world, async move {
            // NFSACL on the NFS connection, as a Linux client asks at mount.
            let acl = client.call(Request::new(100_227, 3, 0, 0)).await;
            let unavailable = CallError::NotExecuted(AcceptStatus::ProgUnavail);
            assert_eq!(acl.unwrap_err(), unavailable);
            let garbage = client.call(request(GARBAGE, 0)).await;
            assert_eq!(
                garbage.unwrap_err(),
                CallError::NotExecuted(AcceptStatus::GarbageArgs)
            );
        }))
        .unwrap();
}

#[test]
fn file_ranges_go_out_inline_by_chunk_and_from_cold() {
    for kind in [Kind::Memory, Kind::Iwarp] {
        let Pair {
            world,
            bench,
            client,
            ..
        } = pair(5, kind, FabricProfile::default());
        world
            .run(in_time(&world, async move {
                let len = 200_001;
                let file = tempfile::tempfile().unwrap();
                std::os::unix::fs::FileExt::write_all_at(&file, &pattern(len), 0).unwrap();
                for cold in [false, true] {
                    let file = file.try_clone().unwrap();
                    *bench.service.file.borrow_mut() = Some(Arc::new(TestFile { file, cold }));
                    for (offset, count) in [(1, 10), (0, len), (100_000, len)] {
                        let mut call = read_request(READ_FILE, count);
                        call.arguments().u64(offset as u64);
                        call.arguments().u32(count as u32);
                        let mut expected = pattern(len);
                        expected.resize(offset + count, 0);
                        check_read(
                            client.call(call).await.unwrap(),
                            &expected[offset..][..count],
                        );
                    }
                }
            }))
            .unwrap();
    }
}

#[test]
fn broken_connections_are_made_again_and_nothing_is_executed_twice() {
    for seed in 0..20 {
        let profile = FabricProfile {
            resets_per_million: 10_000,
            ..FabricProfile::default()
        };
        let Pair {
            world,
            bench,
            client,
            client_provider,
        } = pair(seed, Kind::Memory, profile);
        world
            .run(in_time(&world, async move {
                let counts = all((0..40).map(|index| {
                    let client = client.clone();
                    async move {
                        if index % 2 == 0 {
                            read(&client, 60_000 + index).await;
                        } else {
                            write(&client, 60_000 + index).await;
                        }
                        count(&client, 3).await.unwrap()
                    }
                }));
                let mut counts = counts.await;
                counts.sort_unstable();
                assert_eq!(counts, (1..=40).collect::<Vec<u32>>());
                assert_eq!(bench.service.executions(COUNT), 40);
            }))
            .unwrap();
        assert_eq!(client_provider.domain().stats().bytes_registered, 0);
    }
}

#[test]
fn a_stop_closes_idle_connections() {
    let Pair {
        world,
        bench,
        client,
        ..
    } = pair(6, Kind::Memory, FabricProfile::default());
    world
        .run(in_time(&world, async move {
            echo(&client, b"hello").await.unwrap();
            bench.server.stop();
            bench.server.drained().await;
        }))
        .unwrap();
}
