//! More connections than there is room for, and who gets it.

#![allow(clippy::unwrap_used)]

use crate::common;

use common::raw::{Raw, call_bytes, linux};
use common::stream::{exchange, receive};
use common::*;
use gannet_fabric::{ConnectError, Provider};
use gannet_rpc::ConnectionLimits;
use gannet_runtime::{Handle, Stream, timeout};
use gannet_session::limits::{BUDGET_BYTES, CONNECTION_BYTES, CONNECTIONS_PART};
use gannet_sim::World;
use gannet_sim::fabric::{FabricProfile, SimFabric};
use gannet_wire::rpcrdma::{ChunkLists, TransportProcedure};
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::time::Duration;

const LIMITS: ConnectionLimits = ConnectionLimits {
    total_max: 6,
    per_origin_max: 4,
    unauthenticated_max: 6,
};

/// One of two hosts.
struct Host {
    runtime: Handle,
    address: IpAddr,
    provider: Rc<dyn Provider>,
    tcp: SocketAddr,
    rdma: SocketAddr,
}

impl Host {
    async fn connect(&self) -> Stream {
        self.runtime.connect(self.tcp).await.unwrap()
    }

    async fn connect_and_call(&self) -> Stream {
        let stream = self.connect().await;
        assert!(is_answered(&stream).await, "no room");
        stream
    }

    /// With a call that is not NULL.
    async fn connect_and_count(&self) -> Stream {
        let stream = self.connect().await;
        let call = call_bytes(1, COUNT, |encoder| encoder.u32(0));
        exchange(&stream, &call).await.unwrap();
        stream
    }

    async fn connect_rdma(&self) -> Result<Raw, ConnectError> {
        let private_data = linux().to_bytes();
        Raw::try_connect(&self.runtime, &self.provider, self.rdma, &private_data).await
    }
}

async fn is_answered(stream: &Stream) -> bool {
    let call = call_bytes(1, NULL, |_| {});
    exchange(stream, &call).await.is_ok()
}

fn lab<F: Future<Output = ()> + 'static>(test: impl FnOnce(Bench, Host, Host) -> F) {
    let world = World::new(8);
    let server = world.add_node("server");
    let fabric = SimFabric::new(&world, FabricProfile::default());
    let bench = Bench::new(&server.runtime());
    bench.server.limit_connections(LIMITS);
    let tcp = bench.listen_tcp_at(SocketAddr::new(server.ip(), 2049));
    let rdma_at = SocketAddr::new(server.ip(), 20049);
    let rdma = bench.listen_rdma(&fabric.provider(&server), rdma_at);
    let host = |name| {
        let node = world.add_node(name);
        Host {
            runtime: node.runtime(),
            address: node.ip(),
            provider: fabric.provider(&node),
            tcp,
            rdma,
        }
    };
    let (one, other) = (host("one"), host("other"));
    world.run(in_time(&world, test(bench, one, other))).unwrap();
}

#[test]
fn an_address_that_has_its_share_makes_room_for_itself_and_the_one_with_most_for_others() {
    lab(|bench, one, other| async move {
        let mut crowd = Vec::new();
        for _ in 0..4 {
            crowd.push(one.connect_and_call().await);
        }
        assert!(is_answered(&crowd[0]).await);
        let _fifth = one.connect_and_call().await;
        assert_eq!(receive(&crowd[1], 1).await, Err(vec![]), "the idlest");
        let _of_other = [
            other.connect_and_call().await,
            other.connect_and_call().await,
        ];
        let _seventh = other.connect_and_call().await;
        assert_eq!(receive(&crowd[2], 1).await, Err(vec![]), "the idlest now");
        assert!(is_answered(&crowd[0]).await && is_answered(&crowd[3]).await);
        assert_eq!(bench.counters.refused.total(), 2);
        assert_eq!(bench.counters.drops.total(), 0);
        // A connection that ends makes room as well.
        crowd.pop();
        eventually(&one.runtime, || bench.counters.connections.total() == 8).await;
        one.connect_and_call().await;
        assert!(is_answered(&crowd[0]).await);
    });
}

#[test]
fn unauthenticated_connections_make_room_the_oldest_first() {
    lab(|bench, one, other| async move {
        let established = one.connect_and_call().await;
        let mut unauthenticated = Vec::new();
        for _ in 0..3 {
            unauthenticated.push(one.connect().await);
        }
        let fifth = one.connect_and_call().await;
        assert_eq!(
            receive(&unauthenticated[0], 1).await,
            Err(vec![]),
            "the oldest"
        );
        assert!(is_answered(&unauthenticated[1]).await);
        let sixth = one.connect_and_call().await;
        assert_eq!(
            receive(&unauthenticated[2], 1).await,
            Err(vec![]),
            "the next"
        );
        // Now all four have called. An unauthenticated connection of another address makes room when all together are
        // too many.
        let silent = [other.connect().await, other.connect().await];
        let last = other.connect_and_call().await;
        assert_eq!(receive(&silent[0], 1).await, Err(vec![]));
        let all = [
            &established,
            &unauthenticated[1],
            &fifth,
            &sixth,
            &silent[1],
            &last,
        ];
        for stream in all {
            assert!(is_answered(stream).await);
        }
        assert_eq!(bench.counters.refused.total(), 3);
    });
}

#[test]
fn calls_that_reach_nothing_hold_no_place() {
    lab(|bench, one, other| async move {
        bench.service.reaches_nothing.set(Some(NULL));
        let mut crowd = Vec::new();
        for _ in 0..4 {
            crowd.push(one.connect_and_call().await);
        }
        let welcome = [
            other.connect_and_count().await,
            other.connect_and_count().await,
        ];
        let _third = other.connect_and_count().await;
        assert_eq!(receive(&crowd[0], 1).await, Err(vec![]));
        for stream in &welcome {
            assert!(is_answered(stream).await);
        }
    });
}

#[test]
fn an_address_that_nothing_is_exported_to_is_turned_away_before_it_calls() {
    lab(|bench, one, other| async move {
        let own = one.connect_and_call().await;
        bench.service.refuses.set(Some(one.address));
        assert_eq!(receive(&one.connect().await, 1).await, Err(vec![]));
        let refused = one.connect_rdma().await;
        assert!(matches!(refused.err(), Some(ConnectError::Rejected { .. })));
        assert_eq!(bench.counters.refused.total(), 2);
        assert_eq!(bench.counters.connections.total(), 1, "nothing was begun");
        other.connect_and_call().await;
        assert!(is_answered(&own).await);
    });
}

#[test]
fn both_transports_count() {
    lab(|bench, one, other| async move {
        let mut crowd = Vec::new();
        for _ in 0..3 {
            crowd.push(one.connect_and_call().await);
        }
        let raw = one.connect_rdma().await.unwrap();
        let (none, call) = (ChunkLists::new(), call_bytes(1, NULL, |_| {}));
        raw.exchange(1, TransportProcedure::Msg, &none, &call).await;
        let _fifth = one.connect_rdma().await.unwrap();
        assert_eq!(receive(&crowd[0], 1).await, Err(vec![]), "the idlest");
        // Over RDMA unauthenticated connections make room as well.
        let silent = other.connect_rdma().await.unwrap();
        for stream in &crowd[1..] {
            assert!(is_answered(stream).await);
        }
        let _second = other.connect_and_call().await;
        let _third = other.connect_and_call().await;
        let _fourth = other.connect_and_call().await;
        assert!(silent.receive().await.is_err());
        raw.exchange(
            2,
            TransportProcedure::Msg,
            &none,
            &call_bytes(2, NULL, |_| {}),
        )
        .await;
        assert_eq!(bench.counters.refused.total(), 3);
    });
}

/// Two hosts open connections with one call each, until the memory for peers has no room for more.
#[test]
fn idle_connections_leave_room_for_new_mounts_and_for_large_writes() {
    let world = World::new(8);
    let server = world.add_node("server");
    let bench = Bench::new(&server.runtime());
    bench.server.limit_connections(ConnectionLimits {
        total_max: usize::MAX,
        per_origin_max: usize::MAX,
        unauthenticated_max: usize::MAX,
    });
    let tcp = bench.listen_tcp_at(SocketAddr::new(server.ip(), 2049));
    let hosts = ["one", "two", "old", "new"].map(|name| world.add_node(name).runtime());
    let story = async move {
        let [one, two, old, new] = &hosts;
        let connect = async |host: &Handle| {
            let stream = host.connect(tcp).await.unwrap();
            let is_answered = is_answered(&stream).await;
            (stream, is_answered)
        };
        let (first, is_answered_first) = connect(old).await;
        assert!(is_answered_first);
        let room = BUDGET_BYTES / CONNECTIONS_PART / CONNECTION_BYTES;
        let mut crowd = Vec::new();
        for number in 0..room + 100 {
            let host = if number % 2 == 0 { one } else { two };
            crowd.push(connect(host).await.0);
        }
        assert_eq!(bench.counters.refused.total(), 101);
        for _ in 0..20 {
            let (_mount, is_answered) = connect(new).await;
            assert!(is_answered);
        }
        // The first connection is the idlest of all, and of an address that has no other.
        let write = call_bytes(2, WRITE, |encoder| {
            encoder.u32(0x3333_3333);
            encoder.opaque(&pattern(1 << 20));
            encoder.u32(0x4444_4444);
        });
        let written = timeout(old, Duration::from_secs(1), exchange(&first, &write)).await;
        assert!(written.expect("it waits for memory").is_ok());
        assert_eq!(bench.service.executions(WRITE), 1);
    };
    world.run(in_time(&world, story)).unwrap();
}
