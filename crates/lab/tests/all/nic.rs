//! The machines of the testbeds: primitive operations cost what their papers say, and all of it replays.
#![allow(clippy::unwrap_used)]

use crate::pair;

use gannet_fabric::registration::{Registration, StrategyKind, Trust};
use gannet_fabric::{Access, Backing, Done, PostError, Scope, Signal, Source, Span, WorkId};
use gannet_lab::experiment::nfs::{Operation, Outcome, Workload, run};
use gannet_lab::experiment::{Failure, Transport};
use gannet_lab::profiles::{ALL, OPENSOLARIS, SANDIA_IB, SANDIA_IB_UD, SANDIA_IWARP, SANDIA_TOE};
use gannet_runtime::Buffer;
use gannet_runtime::stream::{Follow, readable, writable};
use gannet_sim::World;
use gannet_sim::nic::{Activity, Constant, FITTED_MAX, Host, Profile, Source as ConstantSource};
use pair::{PAGE, WORK, address_of, half_ping_pong, read_rate, with_pair, write_rate};
use std::collections::BTreeSet;
use std::io::IoSlice;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

fn constant(value: u64) -> Constant {
    let source = ConstantSource::Assumed("a test");
    Constant { value, source }
}

/// The cost of waking a thread that slept until a command was done.
fn waking(profile: &Profile) -> u64 {
    profile.machine.interrupt_ns.value + profile.machine.context_switch_ns.value
}

#[test]
fn half_a_ping_pong_takes_less_than_4_us() {
    let polled = half_ping_pong(&OPENSOLARIS.bare_verbs());
    assert!((3_500..4_800).contains(&polled), "{polled} ns");
    let machine = OPENSOLARIS.machine;
    let slept = half_ping_pong(&OPENSOLARIS);
    let more = machine.interrupt_ns.value + machine.context_switch_ns.value;
    assert!(
        slept >= polled + more,
        "{slept} ns with interrupts, {polled} without"
    );
}

#[test]
fn a_link_carries_900_mb_per_s_in_one_direction() {
    let rate = write_rate(&OPENSOLARIS, 1 << 20, 100, 4);
    assert!((890.0..=900.0).contains(&rate), "{rate} MB/s");
    let small = write_rate(&OPENSOLARIS, 4096, 100, 1);
    assert!(
        small < 300.0,
        "{small} MB/s of small writes one after the other"
    );
}

#[test]
fn the_way_to_memory_may_be_narrower_than_the_link() {
    let mut profile = OPENSOLARIS;
    profile.adapter.dma_bytes_per_s = constant(500_000_000);
    let rate = write_rate(&profile, 1 << 20, 100, 4);
    assert!((490.0..=500.0).contains(&rate), "{rate} MB/s");
}

#[test]
fn registering_costs_what_the_profile_says() {
    let costs = OPENSOLARIS.adapter;
    with_pair(&OPENSOLARIS, move |near, _far| async move {
        for pages in [1, 32, 256] {
            let starts = near.now();
            let region = near.register(pages, Access::RemoteWrite);
            let took = near.now() - starts;
            let fixed = costs.register_ns.value + costs.register_command_ns.value;
            let page = costs.register_page_ns.value + costs.register_entry_ns.value;
            assert_eq!(took, fixed + pages * page + waking(&OPENSOLARIS));
            let starts = near.now();
            drop(region.deregister());
            let took = near.now() - starts;
            let ending = costs.deregister_ns.value + costs.deregister_command_ns.value;
            assert_eq!(took, ending + waking(&OPENSOLARIS));
        }
        let usage = near.host.usage();
        let spent = usage.of(Activity::Deregistration);
        let ending = costs.deregister_ns.value + costs.deregister_command_ns.value;
        assert_eq!(spent.busy_ns, 3 * (ending + waking(&OPENSOLARIS)));
    });
}

#[test]
fn fast_mappings_are_cheap_and_revoked_at_the_price_of_one() {
    let costs = OPENSOLARIS.adapter;
    with_pair(&OPENSOLARIS, move |near, _far| async move {
        let domain = near.provider.domain();
        let mut regions = Vec::new();
        let starts = near.now();
        for _ in 0..8 {
            let backing = Backing::Buffer(Buffer::zeroed(32 * 4096));
            let region = domain.register_fast(backing, Access::RemoteWrite, Scope::Domain);
            regions.push(region.unwrap());
        }
        let each = costs.fast_map_ns.value + 32 * costs.fast_map_page_ns.value;
        assert_eq!(near.now() - starts, 8 * each);
        let starts = near.now();
        domain.revoke_all(&mut regions);
        let took = near.now() - starts;
        let ending = costs.fast_unmap_ns.value + costs.fast_unmap_command_ns.value;
        assert_eq!(took, ending + waking(&OPENSOLARIS));
        assert_eq!(domain.stats().deregistrations, 8);
    });
}

#[test]
fn a_strategy_measures_what_it_is_charged() {
    let costs = OPENSOLARIS.adapter;
    with_pair(&OPENSOLARIS, move |near, _far| async move {
        let dynamic = Registration::default();
        let strategy = dynamic.over(near.provider.domain(), near.runtime.clone());
        for _ in 0..3 {
            let buffer = Buffer::zeroed(8 * 4096);
            let registered =
                Rc::clone(&strategy).register(buffer, Access::RemoteWrite, Scope::Domain);
            drop(registered.unwrap().release(0));
        }
        let waking = waking(&OPENSOLARIS);
        let fixed = costs.register_ns.value + costs.register_command_ns.value + waking;
        let page = costs.register_page_ns.value + costs.register_entry_ns.value;
        let ending = costs.deregister_ns.value + costs.deregister_command_ns.value + waking;
        let counters = strategy.counters();
        let registering = Duration::from_nanos(3 * (fixed + 8 * page));
        assert_eq!(counters.register_time, registering);
        assert_eq!(counters.deregister_time, Duration::from_nanos(3 * ending));
    });
}

#[test]
fn an_adapter_translates_so_many_pages_and_no_more() {
    let mut profile = OPENSOLARIS;
    profile.adapter.table_pages = constant(40);
    with_pair(&profile, move |near, _far| async move {
        let domain = near.provider.domain();
        let register = || {
            let backing = Backing::Buffer(Buffer::zeroed(32 * 4096));
            domain.register_now(backing, Access::Local, Scope::Domain)
        };
        let first = register().unwrap();
        assert!(register().is_err());
        drop(first.invalidate());
        register().unwrap();
        assert_eq!(domain.stats().registrations, 3);
        near.now();
        // The one that was refused had no price.
        let spent = near.host.usage().of(Activity::Registration);
        let adapter = near.host.profile().adapter;
        let fixed = adapter.register_ns.value + adapter.register_command_ns.value;
        let page = adapter.register_page_ns.value + adapter.register_entry_ns.value;
        assert_eq!(spent.busy_ns, 2 * (fixed + 32 * page + waking(&profile)));
    });
}

#[test]
fn memory_that_nobody_registered_is_no_source_of_a_write() {
    with_pair(&OPENSOLARIS, move |near, far| async move {
        let target = far.register(32, Access::RemoteWrite);
        let buffer = Buffer::zeroed(32 * 4096);
        let len = 32 * 4096;
        let source = Source::Buffer { buffer, len };
        let address = address_of(&target, 0);
        let posted = (near.endpoint).post_write(WORK, source, address, Signal::Always);
        assert!(matches!(posted, Err(PostError::Invalid(_))), "{posted:?}");
        assert_eq!(near.host.usage().of(Activity::Registration).busy_ns, 0);
    });
}

fn with_read_depth(depth: u64) -> Profile {
    let mut profile = OPENSOLARIS.bare_verbs();
    profile.adapter.read_depth = constant(depth);
    // Its processor would be the next bound.
    profile.adapter.post_ns = constant(0);
    profile.adapter.completion_ns = constant(0);
    profile
}

#[test]
fn reads_outstanding_bound_the_rate_of_small_reads() {
    let rates = [1, 8, 16].map(|depth| read_rate(&with_read_depth(depth), 256));
    // One Read of 256 bytes: there, turnaround, back.
    let (link, adapter) = (OPENSOLARIS.link, OPENSOLARIS.adapter);
    let round_trip = 2 * link.latency_ns.value + adapter.read_turnaround_ns.value + 284;
    let alone = 256.0 * 1e3 / round_trip as f64;
    for (rate, depth) in rates.into_iter().zip([1.0, 8.0, 16.0]) {
        let bound = depth * alone;
        assert!(
            (0.85 * bound..=bound).contains(&rate),
            "{rate} MB/s at depth {depth}, not {bound}"
        );
    }
    let large = read_rate(&with_read_depth(8), 64 << 10);
    assert!(
        (850.0..=900.0).contains(&large),
        "{large} MB/s of large reads"
    );
}

#[test]
fn a_read_beyond_the_depth_holds_up_what_is_posted_behind_it() {
    with_pair(&with_read_depth(1), |near, far| async move {
        let sink = near.register(16, Access::Local);
        let source = far.register(16, Access::RemoteRead);
        for id in [1, 2] {
            let sink = Span::whole(&sink).unwrap();
            near.endpoint
                .post_read(WorkId(id), sink, address_of(&source, 0))
                .unwrap();
        }
        near.send(b"behind");
        let message = far.completions().await;
        assert!(matches!(message[0].outcome, Ok(Done::Received { .. })));
        // The first Read had to come back before the second could leave, and the message behind it.
        let one_read = (16 * PAGE) * 1_000_000_000 / OPENSOLARIS.link.bytes_per_s.value;
        let sent = far.host.usage().of(Activity::Wire).busy_ns;
        assert!(sent >= one_read - 10, "{sent} of {one_read} ns");
    });
}

#[test]
fn an_experiment_replays() {
    let workload = Workload {
        operation: Operation::RandomRead,
        threads: 4,
        record_len: 64 << 10,
        time: Duration::from_millis(20),
        ..Workload::default()
    };
    let outcome = run(&OPENSOLARIS, &workload).unwrap();
    assert!(outcome.operations > 10, "{outcome:?}");
    assert_eq!(run(&OPENSOLARIS, &workload).unwrap(), outcome);
}

#[test]
fn an_outcome_adds_up() {
    for operation in [
        Operation::Read,
        Operation::Write,
        Operation::RandomRead,
        Operation::RandomWrite,
    ] {
        let one = Workload {
            operation,
            ..Workload::default()
        };
        let alone = run(&OPENSOLARIS, &one).unwrap();
        let busy = run(&OPENSOLARIS, &Workload { threads: 8, ..one }).unwrap();
        for outcome in [&alone, &busy] {
            let bytes = outcome.operations_per_s * f64::from(one.record_len);
            assert!((bytes / 1e6 - outcome.mb_per_s).abs() < 0.1);
            assert!(outcome.p50_latency_ns > 0 && outcome.p50_latency_ns <= outcome.p99_latency_ns);
            assert!(outcome.client_cpu > 0.0 && outcome.client_cpu < 1.0);
            assert!(outcome.server_cpu > 0.0 && outcome.server_cpu < 1.05);
            let (file_system, _) =
                outcome.per_operation(&outcome.server_usage, Activity::FileSystem);
            assert!(file_system > 0.0);
        }
        // One thread never waits for another; eight wait for the server's processor.
        let mean = alone.mean_latency_ns * alone.operations_per_s / 1e9;
        assert!((0.95..=1.05).contains(&mean), "{operation:?}: {mean}");
        assert!(busy.mb_per_s > alone.mb_per_s, "{operation:?}");
        assert!(busy.server_usage.queueing_ns() > alone.server_usage.queueing_ns());
    }
}

#[test]
fn workloads_that_make_no_sense_are_refused() {
    let usual = Workload::default();
    for workload in [
        Workload {
            threads: 0,
            ..usual
        },
        Workload {
            clients: usize::MAX,
            ..usual
        },
        Workload {
            record_len: 0,
            ..usual
        },
        Workload {
            file_len: 1,
            ..usual
        },
        Workload {
            time: Duration::ZERO,
            ..usual
        },
    ] {
        let refused = run(&OPENSOLARIS, &workload);
        assert!(matches!(refused, Err(Failure::Workload(_))), "{workload:?}");
    }
}

#[test]
fn registering_nothing_per_operation_pays() {
    let with = |kind| Workload {
        server: Registration::new(kind, Trust::Untrusted).unwrap(),
        ..Workload::default()
    };
    let [dynamic, fmr, cached] = [
        StrategyKind::Dynamic,
        StrategyKind::Fmr,
        StrategyKind::ServerCache,
    ]
    .map(|kind| run(&OPENSOLARIS, &with(kind)).unwrap());
    assert!(cached.mb_per_s > fmr.mb_per_s && fmr.mb_per_s > dynamic.mb_per_s);
    let registering = |outcome: &Outcome| {
        let (busy, _) = outcome.per_operation(&outcome.server_usage, Activity::Registration);
        busy
    };
    assert!(registering(&fmr) < registering(&dynamic));
    assert!(registering(&cached) < 1_000.0);
    assert!(cached.server_registration.hit_rate() > 0.95);
    assert_eq!(dynamic.server_registration.hits, 0);
    assert!(fmr.server_registration.batches > 0);
}

#[test]
fn rdma_outdoes_tcp_most_on_infiniband() {
    let rate = |profile: &Profile, transport| {
        let workload = Workload {
            transport,
            threads: 4,
            client: Registration::new(StrategyKind::Fmr, Trust::Untrusted).unwrap(),
            server: Registration::new(StrategyKind::AllPhysical, Trust::Trusted).unwrap(),
            time: Duration::from_millis(30),
            ..Workload::default()
        };
        let outcome = run(profile, &workload).unwrap();
        let cpu_ns = outcome.client_usage.cpu_ns + outcome.server_usage.cpu_ns;
        (outcome.mb_per_s, cpu_ns as f64 / outcome.operations as f64)
    };
    let (rdma, rdma_cpu) = rate(&SANDIA_IB, Transport::Rdma);
    let (connected, connected_cpu) = rate(&SANDIA_IB, Transport::Tcp);
    let (datagrams, datagrams_cpu) = rate(&SANDIA_IB_UD, Transport::Tcp);
    // The client waits for the revocation of each fast mapping.
    assert!(
        rdma > 1.2 * connected && connected > 1.5 * datagrams,
        "{rdma}, {connected}, {datagrams}"
    );
    assert!(2.0 * rdma_cpu < connected_cpu && connected_cpu < datagrams_cpu);
    let gain = rdma / connected;
    let (rdma, rdma_cpu) = rate(&SANDIA_IWARP, Transport::Rdma);
    let (host, host_cpu) = rate(&SANDIA_IWARP, Transport::Tcp);
    let (_, offloaded_cpu) = rate(&SANDIA_TOE, Transport::Tcp);
    assert!(rdma > host && rdma / host < gain, "{rdma}, {host}, {gain}");
    assert!(rdma_cpu < offloaded_cpu && offloaded_cpu < host_cpu);
}

#[test]
fn a_stream_costs_calls_packets_and_copies() {
    const LEN: usize = 1 << 20;
    let world = World::new(5);
    let hosts = ["near", "far"].map(|name| {
        let node = world.add_node(name);
        (Host::install(&node, &SANDIA_IB_UD), node)
    });
    let [(near, near_node), (far, far_node)] = hosts;
    let address = SocketAddr::new(far_node.ip(), 1);
    let (runtime, far_runtime) = (near_node.runtime(), far_node.runtime());
    let sent: Vec<u8> = (0..LEN).map(|index| (index % 251) as u8).collect();
    let expected = sent.clone();
    let received = world.run(async move {
        let mut listener = far_runtime.listen(address).unwrap();
        let writes = async move {
            let stream = runtime.connect(address).await.unwrap();
            let mut rest = sent.as_slice();
            while !rest.is_empty() {
                writable(&*stream).await.unwrap();
                if let Ok(count) = stream.try_write(&[IoSlice::new(rest)], Follow::Nothing) {
                    rest = &rest[count..];
                }
            }
            stream.shutdown_write();
            std::future::pending::<()>().await;
        };
        near_node.runtime().spawn("writes", Box::pin(writes));
        let stream = listener.accept().await.unwrap();
        let (mut all, mut buffer) = (Vec::new(), vec![0; 64 << 10]);
        loop {
            readable(&*stream).await.unwrap();
            match stream.try_read(&mut buffer) {
                Ok(0) => return all,
                Ok(count) => all.extend_from_slice(&buffer[..count]),
                Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock),
            }
        }
    });
    // The end of the stream does not overtake packets that a processor is still busy with.
    assert!(received.unwrap() == expected);
    let tcp = SANDIA_IB_UD.tcp;
    let per_byte = |rate: Constant| LEN as u64 * 1_000_000_000 / rate.value;
    let packets = LEN as u64 / tcp.packet_bytes.value;
    let building = per_byte(tcp.stack_bytes_per_s);
    for (host, packet) in [(&near, tcp.send_packet_ns), (&far, tcp.receive_packet_ns)] {
        let copied = host.usage().of(Activity::Copy).busy_ns;
        let copying = per_byte(tcp.copy_stream_bytes_per_s);
        assert!(copied.abs_diff(copying) < 1_000, "{copied} of {copying} ns");
        let spent = host.usage().of(Activity::Protocol).busy_ns;
        let least = packets * packet.value + building;
        assert!(
            spent > least && spent < least + least / 2,
            "{spent} ns, {least}"
        );
    }
}

#[test]
fn copies_of_a_client_cost_its_processor() {
    let none = Workload::default();
    let two = Workload { copies: 2, ..none };
    let [none, two] = [none, two].map(|workload| run(&OPENSOLARIS, &workload).unwrap());
    let (copying, _) = two.per_operation(&two.client_usage, Activity::Copy);
    let copy = OPENSOLARIS.machine.copy_bytes_per_s.value as f64;
    let expected = 2.0 * f64::from(128 << 10) * 1e9 / copy;
    assert!((0.9..1.1).contains(&(copying / expected)), "{copying} ns");
    assert!(two.client_cpu > none.client_cpu + 0.08);
    assert_eq!(none.client_usage.of(Activity::Copy).busy_ns, 0);
}

#[test]
fn every_constant_has_a_source_and_few_are_fitted() {
    let mut names = BTreeSet::new();
    for profile in ALL {
        assert!(
            names.insert(profile.name),
            "two are called {}",
            profile.name
        );
        let is_fitted = |constant: &Constant| matches!(constant.source, ConstantSource::Fitted(_));
        let constants = profile.constants();
        let fitted = constants.iter().filter(|(_, it)| is_fitted(it)).count();
        assert!(fitted <= FITTED_MAX, "{}: {fitted} fitted", profile.name);
        let fields: BTreeSet<_> = constants.iter().map(|(name, _)| name).collect();
        assert_eq!(fields.len(), constants.len(), "a name is used twice");
        for (name, constant) in constants {
            let source = constant.source.to_string();
            assert!(source.len() > 15, "{}: {name}: {source}", profile.name);
        }
    }
}
