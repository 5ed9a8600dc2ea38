//! What Read chunks may cost the server: memory, room in the send queue, and time.

#![allow(clippy::unwrap_used)]

mod common;

use common::raw::{Raw, call_bytes, linux, part};
use common::*;
use gannet_fabric::{Access, Provider};
use gannet_runtime::{Handle, sleep};
use gannet_sim::fabric::{FabricProfile, SimFabric};
use gannet_sim::{Faults, NodeId, World};
use gannet_wire::rpcrdma::{ChunkLists, Procedure};
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

struct Lab {
    runtime: Handle,
    provider: Rc<dyn Provider>,
    address: SocketAddr,
    bench: Rc<Bench>,
    faults: Faults,
    nodes: (NodeId, NodeId),
}

impl Lab {
    async fn connect(&self) -> Raw {
        Raw::connect(
            &self.runtime,
            &self.provider,
            self.address,
            &linux().to_bytes(),
        )
        .await
    }
}

fn lab<F: Future<Output = ()> + 'static>(test: impl FnOnce(Lab) -> F) {
    let world = World::new(12);
    let (near, far) = (world.add_node("client"), world.add_node("server"));
    let fabric = SimFabric::new(&world, FabricProfile::default());
    let (provider, far_provider) = (fabric.provider(&near), fabric.provider(&far));
    let bench = Rc::new(Bench::new(&far.runtime()));
    let address = bench.listen_rdma(&far_provider, SocketAddr::new(far.ip(), 20049));
    world
        .run(test(Lab {
            runtime: near.runtime(),
            provider,
            address,
            bench,
            faults: world.faults(),
            nodes: (near.id(), far.id()),
        }))
        .unwrap();
}

/// The reduced arguments of WRITE, and where the opaque belongs in the message.
fn reduced_write(xid: u32, len: usize) -> (Vec<u8>, u32) {
    let bytes = call_bytes(xid, WRITE, |encoder| {
        encoder.u32(0x3333_3333);
        encoder.u32(len as u32);
        encoder.u32(0x4444_4444);
    });
    let position = bytes.len() as u32 - 4;
    (bytes, position)
}

#[test]
fn a_peer_that_never_answers_its_reads_is_dropped() {
    lab(|lab| async move {
        let raw = lab.connect().await;
        let len = 100_000;
        let region = raw.register(pattern(len), Access::RemoteRead);
        let (message, position) = reduced_write(1, len);
        let mut lists = ChunkLists::new();
        lists.push_read(position, part(&region, 0, len));
        raw.send(1, Procedure::Msg, &lists, &message);
        let counters = Arc::clone(&lab.bench.counters);
        while counters.bytes_in.total() < len as u64 {
            sleep(&lab.runtime, Duration::from_micros(1)).await;
        }
        // The Read is on its way, and its answer will never come.
        lab.faults.partition(lab.nodes.0, lab.nodes.1);
        sleep(&lab.runtime, Duration::from_secs(14)).await;
        assert_eq!(counters.drops.total(), 0, "dropped too early");
        sleep(&lab.runtime, Duration::from_secs(2)).await;
        assert_eq!(counters.drops.total(), 1, "it still waits");
        assert_eq!(lab.bench.service.executions(WRITE), 0);
    });
}
