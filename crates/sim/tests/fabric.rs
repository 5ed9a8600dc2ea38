//! The conformance suite on the fabric in memory: many seeds, both ways to refuse an access.

use gannet_fabric::conformance::{Case, Harness, cases, run_case};
use gannet_fabric::{Provider, conformance};
use gannet_runtime::Handle;
use gannet_sim::fabric::{FabricProfile, SimFabric};
use gannet_sim::{LinkProfile, World};
use std::net::SocketAddr;
use std::rc::Rc;

struct SimHarness {
    runtime: Handle,
    near: Rc<dyn Provider>,
    far: Rc<dyn Provider>,
    address: SocketAddr,
}

impl Harness for SimHarness {
    fn runtime(&self) -> Handle {
        Rc::clone(&self.runtime)
    }

    fn near(&self) -> Rc<dyn Provider> {
        Rc::clone(&self.near)
    }

    fn far(&self) -> Rc<dyn Provider> {
        Rc::clone(&self.far)
    }

    fn address(&self) -> SocketAddr {
        self.address
    }
}

/// A world whose links and segments are drawn from the seed.
fn build(seed: u64, survivable_exceptions: bool) -> (World, SimHarness) {
    let world = World::new(seed);
    let random = world.random("profile");
    world.set_links(LinkProfile {
        latency_ns: random.between(100, 1_000_000),
        jitter_ns: random.between(0, 500_000),
        kibibyte_ns: random.between(10, 20_000),
        ..LinkProfile::default()
    });
    let segments = [100, 1448, 16 << 10, 64 << 10];
    let profile = FabricProfile {
        survivable_exceptions,
        segment_len: segments[random.index(segments.len())],
        ..FabricProfile::default()
    };
    let fabric = SimFabric::new(&world, profile);
    let (near, far) = (world.add_node("near"), world.add_node("far"));
    let harness = SimHarness {
        runtime: near.runtime(),
        near: fabric.provider(&near),
        far: fabric.provider(&far),
        address: SocketAddr::new(far.ip(), 0),
    };
    (world, harness)
}

fn run(seed: u64, survivable: bool, case: Case) -> Option<String> {
    let (world, harness) = build(seed, survivable);
    let outcome = world.run(async move { run_case(&harness, &case).await });
    match outcome {
        Ok(Ok(())) => None,
        Ok(Err(failure)) => Some(format!("seed {seed}, survivable {survivable}: {failure}")),
        Err(stopped) => Some(format!("{} survivable {survivable}: {stopped}", case.name)),
    }
}

#[test]
fn every_case_holds_on_many_seeds() {
    let failures: Vec<String> = (0..8)
        .flat_map(|seed| [(seed, false), (seed, true)])
        .flat_map(|(seed, survivable)| {
            let cases = cases().into_iter();
            cases.filter_map(move |case| run(seed, survivable, case))
        })
        .collect();
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn the_whole_suite_replays() {
    let digest = || {
        let (world, harness) = build(99, false);
        let failures = world.run(async move { conformance::run_all(&harness).await.len() });
        assert_eq!(failures, Ok(0));
        world.trace_digest()
    };
    assert_eq!(digest(), digest());
}
