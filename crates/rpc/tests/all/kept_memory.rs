//! Memory of a program that stays registered for many calls, on adapters with memory windows and without.

#![allow(clippy::unwrap_used)]

use crate::common;

use common::*;
use gannet_fabric::registration::{Registration, StrategyKind, Trust};
use gannet_rpc::{CallError, Client, ClientConfig, Design, Persistence, RdmaOptions, Sink, Target};
use gannet_runtime::{Buffer, Handle, ProgramSlot, sleep, timeout};
use gannet_sim::World;
use gannet_sim::fabric::{DeviceProfile, FabricProfile, Reached, SimFabric};
use gannet_wire::xdr::Decoder;
use std::net::SocketAddr;
use std::time::Duration;

/// Bytes of the memory.
const LEN: usize = 300_000;
/// Reads, and writes.
const ROUNDS: u64 = 20;

#[derive(Clone, Copy)]
struct Setting {
    strategy: StrategyKind,
    design: Design,
    /// `None`: software.
    device: Option<DeviceProfile>,
    resets_per_million: u64,
}

impl Setting {
    fn of(design: Design, device: DeviceProfile) -> Setting {
        Setting {
            strategy: StrategyKind::Dynamic,
            design,
            device: Some(device),
            resets_per_million: 0,
        }
    }
}

struct Program {
    runtime: Handle,
    client: Client,
    slot: ProgramSlot,
}

/// Runs a story of one client; gives what peers reached of memory that was with its user.
fn run(setting: Setting, tell: impl AsyncFnOnce(&Program) + 'static) -> Reached {
    let world = World::new(11);
    let (near, far) = (world.add_node("client"), world.add_node("server"));
    let profile = FabricProfile {
        device: setting.device,
        resets_per_million: setting.resets_per_million,
        ..FabricProfile::default()
    };
    let fabric = SimFabric::new(&world, profile);
    let served = fabric.provider(&far);
    let bench = Bench::new(&far.runtime());
    let listener = served.listen(SocketAddr::new(far.ip(), 20049)).unwrap();
    let target = Target::Rdma(fabric.provider(&near), listener.local_address());
    let options = RdmaOptions {
        design: setting.design,
        ..RdmaOptions::default()
    };
    let serving = async move {
        let served = bench.server.serve_rdma(served, options, listener);
        served.await.unwrap();
    };
    far.runtime().spawn("server", Box::pin(serving));
    let config = ClientConfig {
        persistence: Persistence::Hard,
        registration: Registration::new(setting.strategy, Trust::Trusted).unwrap(),
        design: setting.design,
        ..config()
    };
    let story = async move {
        let program = Program {
            runtime: near.runtime(),
            client: Client::new(near.runtime(), target, config),
            slot: ProgramSlot::new(Buffer::from_vec(vec![0; LEN])),
        };
        let buffer = program.slot.take().unwrap();
        program.client.keep(buffer).await.unwrap();
        tell(&program).await;
    };
    let story = in_time(&world, story);
    world.run(story).unwrap();
    fabric.reached()
}

impl Program {
    /// Reads into the memory, and checks what came.
    async fn read(&self) -> Result<(), CallError> {
        let mut call = read_request(READ, 0);
        let Sink { locate, .. } = call.sink.take().unwrap();
        let mut buffer = self.slot.take().ok_or(CallError::Memory)?;
        buffer.fill(0);
        call.sink = Some(Sink { buffer, locate });
        call.arguments().u32(LEN as u32);
        check_read(self.client.call(call).await?, &pattern(LEN));
        Ok(())
    }

    /// Writes the memory, and checks what the server got.
    async fn write(&self) -> Result<(), CallError> {
        let buffer = self.slot.take().ok_or(CallError::Memory)?;
        let sum = checksum(&buffer);
        let mut call = request(WRITE, 12);
        call.arguments().u32(0x3333_3333);
        call.put_payload(buffer, LEN);
        call.arguments().u32(0x4444_4444);
        let response = self.client.call(call).await?;
        let mut results = Decoder::new(&response.results);
        assert_eq!((results.u32(), results.u32()), (Ok(LEN as u32), Ok(sum)));
        Ok(())
    }

    async fn rounds(&self) {
        for _ in 0..ROUNDS {
            self.read().await.unwrap();
            self.write().await.unwrap();
        }
    }
}

fn slow() -> DeviceProfile {
    DeviceProfile {
        revocation_us_max: 200,
        ..DeviceProfile::PLAIN
    }
}

#[test]
fn memory_is_registered_once_for_many_calls_under_every_strategy() {
    for strategy in StrategyKind::ALL {
        for design in [Design::ReadWrite, Design::ReadRead] {
            let setting = Setting {
                strategy,
                ..Setting::of(design, slow())
            };
            let reached = run(setting, async move |program| {
                program.rounds().await;
                let seen = program.client.registration().unwrap();
                let found = (seen.registrations, seen.hits, seen.fallbacks);
                assert_eq!(found, (1, 2 * ROUNDS, 0), "{strategy} {design}");
                assert_eq!((seen.copied_bytes, seen.in_use), (0, 0));
                assert_eq!(seen.bytes, LEN as u64);
                let buffer = program.slot.take().unwrap();
                let buffer = program.client.take_back(buffer).await.unwrap();
                assert!(*buffer == pattern(LEN));
                let seen = program.client.registration().unwrap();
                assert_eq!((seen.deregistrations, seen.bytes), (1, 0));
            });
            assert_eq!(reached, Reached::default(), "{strategy} {design}");
        }
    }
}

/// An adapter without windows cannot narrow rights. So only what peers never reach stays registered.
#[test]
fn without_windows_no_peer_has_a_key_between_calls() {
    let device = DeviceProfile {
        windows: false,
        ..slow()
    };
    for (design, fallbacks) in [(Design::ReadWrite, 2 * ROUNDS), (Design::ReadRead, ROUNDS)] {
        let reached = run(Setting::of(design, device), async move |program| {
            program.rounds().await;
            let seen = program.client.registration().unwrap();
            assert_eq!(seen.fallbacks, fallbacks, "{design}");
            let kept = u64::from(design == Design::ReadRead);
            assert_eq!(seen.registrations, fallbacks + kept, "{design}");
            assert_eq!(seen.bytes, kept * LEN as u64);
        });
        assert_eq!(reached, Reached::default(), "{design}");
    }
}

#[test]
fn in_software_a_registration_costs_nothing_and_ends_with_its_call() {
    for design in [Design::ReadWrite, Design::ReadRead] {
        let setting = Setting {
            device: None,
            ..Setting::of(design, slow())
        };
        run(setting, async |program| {
            program.rounds().await;
            let seen = program.client.registration().unwrap();
            assert_eq!((seen.registrations, seen.fallbacks), (2 * ROUNDS, 0));
            assert_eq!((seen.bytes, seen.in_use), (0, 0));
        });
    }
}

#[test]
fn a_lost_connection_leaves_the_memory_registered() {
    let setting = Setting {
        resets_per_million: 5000,
        ..Setting::of(Design::ReadWrite, slow())
    };
    let reached = run(setting, async |program| {
        for _ in 0..5 {
            program.rounds().await;
        }
        let seen = program.client.registration().unwrap();
        assert_eq!((seen.registrations, seen.bytes), (1, LEN as u64));
        // Calls that were sent again found it, too.
        assert!(seen.hits > 10 * ROUNDS, "no connection was lost");
    });
    assert_eq!(reached, Reached::default());
}

/// A registration for one call that cannot be revoked costs the memory. No later call waits for it.
#[test]
fn memory_lost_to_an_adapter_is_an_error() {
    let device = DeviceProfile {
        deregistration_failures_per_mille: 200,
        // The server would revoke the key in place of the client.
        remote_invalidation: false,
        windows: false,
        ..slow()
    };
    run(Setting::of(Design::ReadWrite, device), async |program| {
        let mut lost = None;
        for round in 0..ROUNDS {
            if let Err(error) = program.read().await {
                lost.get_or_insert(round);
                assert_eq!(error, CallError::Memory);
            }
        }
        let lost = lost.expect("a revocation fails");
        assert!(lost > 0, "the first call fails");
        assert!(program.slot.take().is_none());
    });
}

/// A program that drops its memory while a call has it: the registration ends with the call.
#[test]
fn a_registration_that_is_forgotten_ends_with_its_last_call() {
    let reached = run(Setting::of(Design::ReadWrite, slow()), async |program| {
        let mut reading = Box::pin(program.read());
        let in_use = || program.client.registration().unwrap().in_use;
        while in_use() == 0 {
            let patience = Duration::from_micros(1);
            let early = timeout(&program.runtime, patience, &mut reading).await;
            early.expect_err("the call has begun");
        }
        program.client.forget(program.slot.id());
        assert_eq!(in_use(), 1);
        reading.await.unwrap();
        sleep(&program.runtime, Duration::from_millis(1)).await;
        let seen = program.client.registration().unwrap();
        assert_eq!((seen.registrations, seen.deregistrations), (1, 1));
        assert_eq!((seen.bytes, seen.in_use), (0, 0));
        // It is memory like any other now.
        program.read().await.unwrap();
        assert_eq!(program.client.registration().unwrap().registrations, 2);
    });
    assert_eq!(reached, Reached::default());
}
