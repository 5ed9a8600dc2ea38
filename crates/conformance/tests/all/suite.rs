//! The suite on the simulator's adapter as a device, and requirements on such a provider alone.

#![allow(clippy::unwrap_used)]

use crate::device::{Devices, Faults};
use gannet_conformance::{Harness, Power, Report, run_all};
use gannet_fabric::registration::{Registration, Strategy, StrategyKind, Trust};
use gannet_fabric::{
    Access, Backing, ConnectOptions, Connected, DeregisterError, Done, Provider, Region,
    RemoteAddress, Scope, SendOptions, Signal, Source, Span, WorkId, next_completions,
};
use gannet_runtime::{Arena, Buffer, Handle, both, sleep};
use gannet_sim::World;
use gannet_sim::fabric::Reached;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

struct Bench {
    runtime: Handle,
    near: Rc<dyn Provider>,
    far: Rc<dyn Provider>,
    address: SocketAddr,
    devices: Rc<Devices>,
}

impl Harness for Bench {
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
        gannet_sim::fabric::look(region)
    }
}

fn bench(world: &World, faults: Faults) -> Bench {
    let devices = Rc::new(Devices::new(world, faults));
    let (near, far) = (world.add_node("near"), world.add_node("far"));
    Bench {
        runtime: near.runtime(),
        near: devices.adapter(&near),
        far: devices.adapter(&far),
        address: SocketAddr::new(far.ip(), 0),
        devices,
    }
}

#[test]
fn the_suite_holds_without_files_and_exceptions() {
    for seed in 0..4 {
        let world = World::new(seed);
        let faults = Faults {
            registration_failures_per_mille: [0, 20, 100, 200][seed as usize],
            ..Faults::slow([1, 10, 100, 1000][seed as usize])
        };
        let harness = bench(&world, faults.with_windows(seed % 2 == 0));
        let report: Report = world.run(async move { run_all(&harness).await }).unwrap();
        let failures: Vec<String> = report.failures.iter().map(ToString::to_string).collect();
        assert!(failures.is_empty(), "seed {seed}: {failures:#?}");
        let left_out: Vec<&str> = report.left_out.iter().map(|(name, _)| *name).collect();
        assert_eq!(
            left_out,
            [
                "messages::a_file_is_a_source",
                "writes::a_file_is_a_source",
                "writes::a_cold_file_is_written",
                "writes::past_the_end_of_a_file_come_zeros",
                "writes::a_failing_file_fails_the_work",
                "reads::a_file_region_is_read",
                "reads::a_file_region_ends_where_files_do",
                "survivable_exceptions::exceptions_are_agreed_when_both_ask",
                "survivable_exceptions::private_data_stands_beside_the_offer",
                "survivable_exceptions::a_rejection_brings_its_private_data",
                "survivable_exceptions::too_much_private_data_is_refused_at_home",
                "survivable_exceptions::every_size_is_read",
                "survivable_exceptions::the_status_of_an_open_file_is_read",
                "survivable_exceptions::many_are_in_flight_in_both_directions",
                "survivable_exceptions::a_refusal_fails_its_read_alone",
                "survivable_exceptions::ordinary_reads_survive_refusals_too",
                "survivable_exceptions::a_reference_serves_its_connection_alone",
                "survivable_exceptions::a_peer_with_another_key_reads_nothing",
                "survivable_exceptions::an_object_removed_meanwhile_is_read_whole_or_not_at_all",
                "survivable_exceptions::a_cold_file_is_refused_and_stays_cold",
                "survivable_exceptions::impossible_reads_are_refused_at_home",
                "survivable_exceptions::a_sink_taken_away_fails_the_read",
                "survivable_exceptions::reads_beyond_the_depth_wait_their_turn",
                "survivable_exceptions::a_write_seen_by_its_writer_is_seen_by_readers",
            ]
        );
        for (name, power) in report.left_out {
            let expected = if name.starts_with("survivable_exceptions::") {
                power == Power::OptimisticReads
            } else {
                matches!(power, Power::FileSources | Power::FileRegions)
            };
            assert!(expected, "{name}: {power:?}");
        }
    }
}

/// Both ends of a connection.
struct Ends {
    near: Connected,
    far: Connected,
}

async fn pair(bench: &Bench) -> Ends {
    let mut listener = bench.far.listen(bench.address).unwrap();
    let options = || ConnectOptions {
        ord: 8,
        ird: 8,
        ..ConnectOptions::default()
    };
    let connecting = bench.near.connect(listener.local_address(), options());
    let accepting = async { listener.accept().await.unwrap().accept(options()).await };
    let (near, far) = both(connecting, accepting).await;
    Ends {
        near: near.unwrap(),
        far: far.unwrap(),
    }
}

/// Writes `byte` to the start of `target`, with a message behind it; true if the write was admitted, and so the
/// message.
async fn write(ends: &Ends, target: &Region, byte: u8) -> bool {
    let Ends { near, far } = ends;
    let backing = Backing::Buffer(Buffer::from_vec(vec![byte; 8]));
    let scope = Scope::Endpoint(near.id());
    let source = near.domain().register_now(backing, Access::Local, scope);
    let address = RemoteAddress {
        key: target.remote_key(),
        offset: target.base(),
    };
    let source = Source::Span(Span::whole(&source.unwrap()).unwrap());
    far.post_receive(WorkId(2), Buffer::zeroed(1)).unwrap();
    near.post_write(WorkId(1), source, address, Signal::OnError)
        .unwrap();
    let (buffer, len) = (Buffer::zeroed(1), 1);
    let message = Source::Buffer { buffer, len };
    near.post_send(WorkId(1), message, SendOptions::default())
        .unwrap();
    near.flush();
    let mut completions = Vec::new();
    next_completions(&**far, &mut completions).await.unwrap();
    matches!(completions[0].outcome, Ok(Done::Received { .. }))
}

#[test]
fn a_peer_gets_in_until_the_revocation_is_done_and_not_after() {
    let world = World::new(1);
    let bench = bench(&world, Faults::slow(1000));
    world
        .run(async move {
            let ends = pair(&bench).await;
            let (mut in_time, mut rounds) = (0, 0);
            while in_time < 3 {
                rounds += 1;
                assert!(rounds < 50, "no revocation takes any time");
                let memory = Backing::Buffer(Buffer::zeroed(8));
                let scope = Scope::Endpoint(ends.far.id());
                let region = ends
                    .far
                    .domain()
                    .register_now(memory, Access::RemoteWrite, scope);
                let region = region.unwrap();
                let mut returning = region.deregister().now().unwrap_err();
                assert!(!region.is_valid());
                // The key still works, so the memory must not be returned yet.
                if !write(&ends, &region, 7).await {
                    break;
                }
                in_time += 1;
                let memory = (&mut returning).await.unwrap().unwrap();
                assert_eq!(*memory, [7; 8]);
            }
            assert!(in_time > 0);
            let ends = pair(&bench).await;
            let memory = Backing::Buffer(Buffer::zeroed(8));
            let scope = Scope::Endpoint(ends.far.id());
            let region = ends
                .far
                .domain()
                .register_now(memory, Access::RemoteWrite, scope);
            let region = region.unwrap();
            let memory = region.deregister().await.unwrap().unwrap();
            assert!(!write(&ends, &region, 7).await);
            assert_eq!(*memory, [0; 8]);
        })
        .unwrap();
}

#[test]
fn memory_that_cannot_be_deregistered_is_not_used_again() {
    let world = World::new(2);
    let mut faults = Faults::slow(10);
    faults.device.deregistration_failures_per_mille = 1000;
    let bench = bench(&world, faults);
    world
        .run(async move {
            let ends = pair(&bench).await;
            let arena = Arena::new(64, 10);
            let memory = Backing::Buffer(arena.take().unwrap());
            let scope = Scope::Endpoint(ends.far.id());
            let region = ends
                .far
                .domain()
                .register_now(memory, Access::RemoteWrite, scope);
            let region = region.unwrap();
            let lost = region.deregister().await;
            assert!(matches!(lost, Err(DeregisterError::Adapter)));
            // The key may stay valid for ever, so the adapter keeps the memory for ever too.
            assert!(write(&ends, &region, 7).await);
            drop(region);
            // Those that deregister memory after one use by a peer.
            let kinds = [
                StrategyKind::Dynamic,
                StrategyKind::ServerCache,
                StrategyKind::AllPhysical,
            ];
            for kind in kinds {
                let strategy = Registration::new(kind, Trust::Trusted).unwrap();
                let runtime = Rc::clone(&bench.runtime);
                let strategy = strategy.over(ends.far.domain(), runtime);
                let memory = arena.take().unwrap();
                let registered = Rc::clone(&strategy).register(memory, Access::RemoteWrite, scope);
                assert!(registered.unwrap().release(64).await.is_none(), "{kind}");
                let counters = strategy.counters();
                assert_eq!((counters.lost, counters.deregistrations), (1, 0), "{kind}");
                assert_eq!((counters.in_use, counters.bytes), (0, 64), "{kind}");
            }
            assert_eq!(arena.in_use(), 1 + kinds.len());
        })
        .unwrap();
}

/// A device has no check but the key. So memory is with its user and within a peer's reach by no strategy, but for the
/// slabs that the client's cache keeps for itself. Windows close these, too.
#[test]
fn no_peer_reaches_memory_that_its_user_has_but_the_slabs_of_the_client_cache() {
    for (kind, windows) in StrategyKind::ALL
        .into_iter()
        .flat_map(|kind| [(kind, false), (kind, true)])
    {
        let world = World::new(5);
        let bench = bench(&world, Faults::slow(100).with_windows(windows));
        let devices = Rc::clone(&bench.devices);
        let late = world.run(async move {
            let arena = Arena::new(64, 100);
            let strategy = Registration::new(kind, Trust::Trusted).unwrap();
            let strategy = strategy.over(bench.far.domain(), Rc::clone(&bench.runtime));
            let mut late = 0;
            for _ in 0..10 {
                let ends = pair(&bench).await;
                let scope = Scope::Endpoint(ends.far.id());
                let memory = arena.take().unwrap();
                let registered = Rc::clone(&strategy).register(memory, Access::RemoteWrite, scope);
                let registered = registered.unwrap();
                let region = registered.span(0, 64).region;
                assert!(write(&ends, &region, 7).await, "{kind}");
                let memory = registered.release(64).await.unwrap();
                late += u64::from(write(&ends, &region, 9).await);
                assert_eq!(memory[..8], [7; 8], "{kind}");
            }
            late
        });
        let leaves_open = kind == StrategyKind::ClientCache && !windows;
        let expected = if leaves_open { 10 } else { 0 };
        let reached = devices.0.reached();
        assert_eq!(reached.reads, 0, "{kind}");
        assert_eq!(reached.writes, late.unwrap(), "{kind}");
        assert!(reached.writes <= expected, "{kind}");
        assert!(!leaves_open || reached.writes > 0);
    }
}

#[test]
fn a_slab_serves_the_connection_alone_that_has_its_key() {
    slab_in_turns(false);
    slab_in_turns(true);
}

/// Uses of slabs by two connections in turns, on a device with or without memory windows.
fn slab_in_turns(windows: bool) {
    let world = World::new(7);
    let bench = bench(&world, Faults::slow(100).with_windows(windows));
    world
        .run(async move {
            let strategy = Registration::new(StrategyKind::ClientCache, Trust::Untrusted).unwrap();
            let strategy = strategy.over(bench.far.domain(), Rc::clone(&bench.runtime));
            let pairs = [pair(&bench).await, pair(&bench).await];
            // The first two uses measure both ways; a slab is cheaper then.
            for round in 0..20 {
                let ends = &pairs[round % 2];
                let scope = Scope::Endpoint(ends.far.id());
                let memory = Buffer::zeroed(64);
                let registered = Rc::clone(&strategy).register(memory, Access::RemoteWrite, scope);
                let registered = registered.unwrap();
                let region = registered.span(0, 64).region;
                assert!(write(ends, &region, round as u8).await, "round {round}");
                let memory = registered.release(64).await.unwrap();
                assert_eq!(memory[..8], [round as u8; 8]);
            }
            let counters = strategy.counters();
            assert!(counters.hits > 10, "{counters:?}");
        })
        .unwrap();
}

/// On a device, too, a server registers a slot once for all work of its own, whoever it serves.
#[test]
fn a_slot_for_own_work_is_registered_once_and_never_with_rights_for_peers() {
    // A window over the registration spares one for the peer's use.
    slot_in_turns(true, |rounds| (1, 2 * rounds - 1, 0));
    slot_in_turns(false, |rounds| (1 + rounds, rounds - 1, rounds));
}

/// Uses of one slot in turns, for own work and for a peer. `expected` has the registrations, hits and fallbacks after
/// some rounds.
fn slot_in_turns(windows: bool, expected: fn(u64) -> (u64, u64, u64)) {
    let world = World::new(6);
    let bench = bench(&world, Faults::default().with_windows(windows));
    world
        .run(async move {
            let arena = Arena::new(64, 1);
            let strategy = Registration::new(StrategyKind::ServerCache, Trust::Untrusted).unwrap();
            let strategy = strategy.over(bench.far.domain(), Rc::clone(&bench.runtime));
            for round in 0..10 {
                // Between two uses of the slot for own work a peer may read it.
                for access in [Access::Local, Access::RemoteRead] {
                    let ends = pair(&bench).await;
                    let scope = Scope::Endpoint(ends.far.id());
                    let memory = arena.take().unwrap();
                    let registered = Rc::clone(&strategy).register(memory, access, scope);
                    let registered = registered.unwrap();
                    let region = registered.span(0, 64).region;
                    assert!(!write(&ends, &region, 7).await, "a peer writes to it");
                    drop(registered.release(64).await.unwrap());
                    let next = pair(&bench).await;
                    assert!(!write(&next, &region, 7).await);
                }
                let counters = strategy.counters();
                let rounds = round + 1;
                let seen = (counters.registrations, counters.hits, counters.fallbacks);
                assert_eq!(seen, expected(rounds), "windows: {windows}");
            }
            assert_eq!(bench.devices.0.reached(), Reached::default());
        })
        .unwrap();
}

#[test]
fn a_release_that_is_dropped_gives_nothing_back_before_its_end() {
    let world = World::new(3);
    let bench = bench(&world, Faults::slow(500));
    world
        .run(async move {
            let ends = pair(&bench).await;
            let arena = Arena::new(64, 100);
            let strategy = Registration::new(StrategyKind::Dynamic, Trust::Untrusted).unwrap();
            let strategy = strategy.over(ends.far.domain(), Rc::clone(&bench.runtime));
            let scope = Scope::Endpoint(ends.far.id());
            for _ in 0..20 {
                let memory = arena.take().unwrap();
                let registered = Rc::clone(&strategy).register(memory, Access::RemoteWrite, scope);
                drop(registered.unwrap().release(64));
                assert_eq!(arena.in_use(), 1, "handed out before it was revoked");
                sleep(&bench.runtime, Duration::from_micros(600)).await;
                assert_eq!(arena.in_use(), 0);
            }
        })
        .unwrap();
}

/// Until a batch of fast mappings is full, its revocation would begin after 100 ms.
#[test]
fn a_user_that_waits_for_a_fast_mapping_does_not_wait_for_its_batch_to_fill() {
    let world = World::new(8);
    let bench = bench(&world, Faults::slow(100));
    world
        .run(async move {
            let ends = pair(&bench).await;
            let strategy = Registration::new(StrategyKind::Fmr, Trust::Untrusted).unwrap();
            let strategy = strategy.over(ends.far.domain(), Rc::clone(&bench.runtime));
            let scope = Scope::Endpoint(ends.far.id());
            let mapped = |strategy: &Rc<dyn Strategy>| {
                let memory = Buffer::zeroed(64);
                let registered = Rc::clone(strategy).register(memory, Access::RemoteWrite, scope);
                registered.unwrap()
            };
            // Nobody waits for these: they are revoked with the next one.
            (0..10).for_each(|_| drop(mapped(&strategy).release(0)));
            let begun = bench.runtime.now();
            assert!(mapped(&strategy).release(0).await.is_some());
            assert!(bench.runtime.now() - begun < Duration::from_millis(1));
            let counters = strategy.counters();
            assert_eq!((counters.batches, counters.deregistrations), (1, 11));
        })
        .unwrap();
}

#[test]
fn sources_of_rdma_must_be_registered() {
    let world = World::new(4);
    let bench = bench(&world, Faults::default());
    world
        .run(async move {
            let ends = pair(&bench).await;
            let memory = Backing::Buffer(Buffer::zeroed(8));
            let scope = Scope::Endpoint(ends.far.id());
            let region = ends
                .far
                .domain()
                .register_now(memory, Access::RemoteWrite, scope);
            let region = region.unwrap();
            let address = RemoteAddress {
                key: region.remote_key(),
                offset: region.base(),
            };
            let source = || Source::Buffer {
                buffer: Buffer::zeroed(8),
                len: 8,
            };
            let written = ends
                .near
                .post_write(WorkId(1), source(), address, Signal::Always);
            assert!(written.is_err());
            let sent = ends
                .near
                .post_send(WorkId(1), source(), SendOptions::default());
            assert!(sent.is_ok());
        })
        .unwrap();
}
