//! Payload memory: what a call takes and registers of it, and when it goes back to the system.

#![allow(clippy::unwrap_used)]

#[path = "all/common/mod.rs"]
mod common;

use common::*;
use gannet_fabric::Provider;
use gannet_fabric::registration::{Registration, StrategyKind, Trust};
use gannet_rpc::limits::PAYLOAD_IDLE_MAX;
use gannet_rpc::{Client, Target};
use gannet_runtime::{Handle, sleep};
use gannet_sim::World;
use gannet_sim::fabric::{FabricProfile, SimFabric};
use std::net::SocketAddr;
use std::rc::Rc;

struct Lab {
    runtime: Handle,
    bench: Bench,
    client: Client,
    over_tcp: Client,
}

impl Lab {
    fn in_use(&self) -> usize {
        self.bench.server.memory_in_use().payloads
    }
}

/// A server of this strategy, and a client that reaches it either way.
fn lab<F: Future<Output = ()> + 'static>(kind: StrategyKind, test: impl FnOnce(Lab) -> F) {
    let world = World::new(5);
    let (near, far) = (world.add_node("client"), world.add_node("server"));
    let fabric = SimFabric::new(&world, FabricProfile::default());
    let bench = Bench::new(&far.runtime());
    let provider: Rc<dyn Provider> = fabric.provider(&far);
    let listener = provider.listen(SocketAddr::new(far.ip(), 20049)).unwrap();
    let target = Target::Rdma(fabric.provider(&near), listener.local_address());
    let registration = Registration::new(kind, Trust::Trusted).unwrap();
    let server = bench.server.clone();
    let task = async move {
        let served = server.serve_rdma(provider, registration, listener).await;
        served.unwrap();
    };
    far.runtime().spawn("server", Box::pin(task));
    let tcp = bench.listen_tcp_at(SocketAddr::new(far.ip(), 2049));
    let client = Client::new(near.runtime(), target, config());
    let over_tcp = Client::new(near.runtime(), Target::Tcp(tcp), config());
    let lab = Lab {
        runtime: near.runtime(),
        bench,
        client,
        over_tcp,
    };
    world.run(test(lab)).unwrap();
}

#[test]
fn a_call_registers_the_class_of_its_payload_and_not_the_longest() {
    for (len, class) in [
        (5000, 8 << 10),
        (128 << 10, 128 << 10),
        (200_000, 256 << 10),
    ] {
        lab(StrategyKind::Dynamic, move |lab| async move {
            assert!(write(&lab.client, len).await);
            let counters = lab.bench.server.registrations()[0];
            assert_eq!((counters.bytes_peak, counters.registrations), (class, 1));
            assert_eq!((counters.bytes, counters.in_use), (0, 0));
        });
    }
}

#[test]
fn unused_memory_is_freed_with_its_registrations() {
    lab(StrategyKind::ServerCache, |lab| async move {
        for len in [5000, 100_000, 1 << 20] {
            assert!(write(&lab.client, len).await);
            assert!(write(&lab.over_tcp, len.max(20_000)).await);
        }
        let kept = lab.bench.server.memory_kept();
        assert_eq!(lab.in_use(), 0);
        assert!(kept > 1 << 20, "{kept} bytes kept for the next calls");
        assert!(lab.bench.server.registrations()[0].bytes > 1 << 20);
        sleep(&lab.runtime, PAYLOAD_IDLE_MAX / 2).await;
        assert_eq!(lab.bench.server.memory_kept(), kept, "given back too early");
        sleep(&lab.runtime, 2 * PAYLOAD_IDLE_MAX).await;
        assert_eq!(lab.bench.server.memory_kept(), 0);
        assert_eq!(lab.bench.server.registrations()[0].bytes, 0);
        // And it comes again.
        assert!(write(&lab.client, 1 << 20).await);
        assert!(lab.bench.server.memory_kept() >= 1 << 20);
    });
}
