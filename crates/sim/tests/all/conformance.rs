//! The conformance suite in virtual time, over many seeds. It runs on the fabric in memory with both ways to refuse an
//! access, as adapters that check nothing but the key, and between machines where everything costs time. It also runs
//! on the software RNIC over simulated byte streams that are cut anywhere.

#![allow(clippy::unwrap_used)]

use gannet_conformance::{Case, Harness, Power, Verdict, cases, run_case};
use gannet_fabric::{Provider, Region};
use gannet_iwarp::{IwarpConfig, IwarpProvider, Revision};
use gannet_runtime::Handle;
use gannet_sim::fabric::{DeviceProfile, FabricProfile, SimFabric, look};
use gannet_sim::nic::{Host, ORDINARY};
use gannet_sim::{LinkProfile, Random, World};
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

    fn look(&self, region: &Region) -> Option<Vec<u8>> {
        look(region)
    }
}

#[derive(Debug, Clone, Copy)]
enum Kind {
    Memory,
    MemorySurvivable,
    Device,
    Testbed,
    Iwarp,
}

/// A world whose links, segments and settings are drawn from the seed.
fn build(seed: u64, kind: Kind) -> (World, SimHarness) {
    let world = World::new(seed);
    let random = world.random("profile");
    world.set_links(LinkProfile {
        latency_ns: random.between(100, 1_000_000),
        jitter_ns: random.between(0, 500_000),
        kibibyte_ns: random.between(10, 20_000),
        window: 1 << random.between(12, 20),
        reslice_per_mille: random.between(0, 1000),
    });
    let (near, far) = (world.add_node("near"), world.add_node("far"));
    let address = SocketAddr::new(far.ip(), 0);
    let (near_provider, far_provider): (Rc<dyn Provider>, Rc<dyn Provider>) = match kind {
        Kind::Iwarp => {
            let config = iwarp_config(&random);
            let near_provider = IwarpProvider::new(near.runtime(), config.clone());
            (near_provider, IwarpProvider::new(far.runtime(), config))
        }
        Kind::Memory | Kind::MemorySurvivable | Kind::Device | Kind::Testbed => {
            if matches!(kind, Kind::Testbed) {
                let profile = ORDINARY.with("optimistic_reads", 1).unwrap();
                Host::install(&near, &profile);
                Host::install(&far, &profile);
            }
            let segments = [100, 1448, 16 << 10, 64 << 10];
            let profile = FabricProfile {
                survivable_exceptions: matches!(kind, Kind::MemorySurvivable),
                segment_len: segments[random.index(segments.len())],
                device: matches!(kind, Kind::Device).then(|| device(&random)),
                ..FabricProfile::default()
            };
            let fabric = SimFabric::new(&world, profile);
            (fabric.provider(&near), fabric.provider(&far))
        }
    };
    let harness = SimHarness {
        runtime: near.runtime(),
        near: near_provider,
        far: far_provider,
        address,
    };
    (world, harness)
}

/// An adapter with all powers but perhaps the key to all memory.
fn device(random: &Random) -> DeviceProfile {
    DeviceProfile {
        all_physical: random.chance(500),
        file_pages: true,
        windows: random.chance(500),
        remote_invalidation: true,
        immediates: random.chance(500),
        optimistic_reads: true,
        revocation_us_max: [0, 1, 100, 2000][random.index(4)],
        deregistration_failures_per_mille: 0,
    }
}

fn iwarp_config(random: &Random) -> IwarpConfig {
    let peer_to_peer = random.chance(500);
    IwarpConfig {
        revision: Revision::TWO,
        crc: random.chance(500),
        peer_to_peer,
        ulpdu_max: usize::try_from(random.between(128, 64_768)).unwrap(),
        ..IwarpConfig::default()
    }
}

/// The capabilities whose cases may be left out.
fn lacks(kind: Kind) -> &'static [Power] {
    match kind {
        // Software, as the software RNIC, has none.
        Kind::Memory | Kind::MemorySurvivable | Kind::Iwarp => &[Power::Immediates],
        // Some adapters have none.
        Kind::Device => &[Power::Immediates],
        // The adapters of 2007 have neither.
        Kind::Testbed => &[
            Power::FileSources,
            Power::FileRegions,
            Power::RemoteInvalidation,
        ],
    }
}

fn run(seed: u64, kind: Kind, case: Case) -> Option<String> {
    let (world, harness) = build(seed, kind);
    let outcome = world.run(async move { run_case(&harness, &case).await });
    match outcome {
        Ok(Ok(Verdict::LeftOut(power))) if lacks(kind).contains(&power) => None,
        Ok(Ok(Verdict::LeftOut(power))) => Some(format!("{} left out: {power:?}", case.name)),
        Ok(Ok(Verdict::Held)) => None,
        Ok(Err(failure)) => Some(format!("seed {seed}, {kind:?}: {failure}")),
        Err(stopped) => Some(format!("{} {kind:?}: {stopped}", case.name)),
    }
}

fn every_case_holds(kind: Kind, seeds: std::ops::Range<u64>) {
    let failures: Vec<String> = seeds
        .flat_map(|seed| {
            let cases = cases().into_iter();
            cases.filter_map(move |case| run(seed, kind, case))
        })
        .collect();
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn the_fabric_in_memory_passes() {
    every_case_holds(Kind::Memory, 0..6);
}

#[test]
fn the_fabric_in_memory_passes_with_survivable_exceptions() {
    every_case_holds(Kind::MemorySurvivable, 100..106);
}

#[test]
fn adapters_without_the_powers_of_software_pass() {
    every_case_holds(Kind::Device, 400..412);
}

#[test]
fn the_adapters_of_a_testbed_pass() {
    every_case_holds(Kind::Testbed, 300..306);
}

#[test]
fn the_software_rnic_passes_over_simulated_streams() {
    every_case_holds(Kind::Iwarp, 200..206);
}

#[test]
fn the_whole_suite_replays() {
    for kind in [Kind::Memory, Kind::Device, Kind::Testbed, Kind::Iwarp] {
        let digest = || {
            let (world, harness) = build(99, kind);
            let failures = world
                .run(async move { gannet_conformance::run_all(&harness).await.failures.len() });
            assert_eq!(failures, Ok(0));
            world.trace_digest()
        };
        assert_eq!(digest(), digest());
    }
}
