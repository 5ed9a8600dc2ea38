//! What PVFS over InfiniBand found, in a coarse form, and how a volume grows. The numbers are in `gannet papers`.
#![allow(clippy::unwrap_used)]

use gannet_dst::volume::{Bed, Carrier};
use gannet_lab::experiment::Transport;
use gannet_lab::experiment::volume::{Access, End, Load, Rows, VolumeOutcome, run};
use gannet_lab::profiles::PVFS_IB;
use gannet_runtime::Buffer;
use gannet_sim::World;
use gannet_sim::fabric::{FabricProfile, SimFabric};
use gannet_sim::nic::Host;
use gannet_vfs::{CreateMode, Credentials, SetAttributes, Stability, Vfs};
use gannet_volume::client::{File, TransferPolicy};
use gannet_volume::io_server::ServerPolicy;
use std::rc::Rc;
use std::time::Duration;

fn on_testbed(load: &Load) -> VolumeOutcome {
    run(&PVFS_IB, load).unwrap()
}

fn contiguous(transport: Transport, writes: bool) -> Load {
    Load {
        transport,
        writes,
        compute_nodes: 4,
        time: Duration::from_millis(20),
        ..Load::default()
    }
}

#[test]
fn rdma_outdoes_tcp_and_spares_the_processor() {
    for writes in [false, true] {
        let rdma = on_testbed(&contiguous(Transport::Rdma, writes));
        let tcp = on_testbed(&contiguous(Transport::Tcp, writes));
        assert!(rdma.mib_per_s > 2.0 * tcp.mib_per_s, "{rdma:?}, {tcp:?}");
        // Memory that servers read stays registered. Memory that they write is registered for each transfer.
        let spared = if writes { 0.05 } else { 0.5 };
        assert!(
            rdma.client_cpu < spared && tcp.client_cpu > 0.5,
            "{rdma:?}, {tcp:?}"
        );
    }
}

#[test]
fn reads_are_ahead_of_writes_but_for_the_registration_of_each() {
    let free = [
        "register_ns",
        "register_page_ns",
        "register_command_ns",
        "register_entry_ns",
        "deregister_ns",
        "deregister_command_ns",
    ];
    let free = (free.iter()).fold(PVFS_IB, |profile, name| profile.with(name, 0).unwrap());
    let [paid, spared] = [PVFS_IB, free].map(|profile| {
        let [read, write] = [false, true].map(|writes| {
            let load = contiguous(Transport::Rdma, writes);
            run(&profile, &load).unwrap().mib_per_s
        });
        read / write
    });
    assert!(paid < 1.0 && spared > 1.0, "{paid}, {spared}");
}

/// Microseconds of a write.
fn small_write(len: u32, inline_max: u32, fast_max: u32, registered: bool) -> f64 {
    let load = Load {
        io_nodes: 1,
        writes: true,
        access: Access::Contiguous(len),
        policy: TransferPolicy {
            inline_max,
            eager_max: fast_max,
            client_driven: false,
        },
        registered,
        warm_up: 20,
        time: Duration::from_millis(5),
        ..Load::default()
    };
    on_testbed(&load).latency_ns / 1e3
}

/// Eager buffers are registered once, whatever memory the bytes come from.
#[test]
fn small_writes_want_memory_that_is_registered_already_or_none() {
    const ALL: u32 = u32::MAX;
    for len in [128, 4096, 65_536] {
        let fast = [true, false].map(|registered| small_write(len, 0, ALL, registered));
        let server = [true, false].map(|registered| small_write(len, 0, 0, registered));
        assert!(
            fast[0] < 1.05 * server[0] && fast[1] < 1.3 * fast[0],
            "{len}: {fast:?}, {server:?}"
        );
        assert!(1.2 * fast[1] < server[1], "{len}: {fast:?}, {server:?}");
        assert!(1.2 * server[0] < server[1], "{len}: {server:?}");
    }
    let (inline, server) = (
        small_write(2048, ALL, 0, false),
        small_write(2048, 0, 0, false),
    );
    assert!(1.2 * inline < server, "{inline}, {server}");
}

/// The outcome of long transfers that servers or clients drive.
fn long(len: u32, writes: bool, compute_nodes: usize, client_based: bool) -> VolumeOutcome {
    let load = Load {
        compute_nodes,
        writes,
        access: Access::Contiguous(len),
        policy: TransferPolicy {
            client_driven: client_based,
            ..TransferPolicy::default()
        },
        warm_up: 5,
        time: Duration::from_millis(20),
        ..Load::default()
    };
    on_testbed(&load)
}

/// docs/decisions/0013-transfers.md has what this prints.
#[test]
fn long_transfers_are_for_the_servers_to_move() {
    for writes in [true, false] {
        for len in [512 << 10, 1 << 20, 4 << 20] {
            let ratios = [1, 8].map(|compute_nodes| {
                let [server, client] =
                    [false, true].map(|by_client| long(len, writes, compute_nodes, by_client));
                let ratio = client.mib_per_s / server.mib_per_s;
                println!(
                    "writes {writes}, {} KiB, {compute_nodes} clients: {:.0} MiB/s by servers, {:.0} by clients: {ratio:.2}",
                    len >> 10,
                    server.mib_per_s,
                    client.mib_per_s,
                );
                ratio
            });
            let slower = |ratio: &f64| (0.3..0.95).contains(ratio);
            assert!(ratios.iter().all(slower), "{ratios:?}");
        }
    }
}

fn tile(element: u32, how: Rows, writes: bool) -> f64 {
    let load = Load {
        compute_nodes: 4,
        writes,
        access: Access::Rows {
            len: 1024 * element,
            count: 96,
            how,
        },
        time: Duration::from_millis(1),
        ..Load::default()
    };
    on_testbed(&load).mib_per_s
}

#[test]
fn lists_outdo_a_call_for_each_row_and_data_sieving() {
    let [each, lists, sieve] =
        [Rows::Each, Rows::Lists, Rows::Sieve].map(|how| tile(24, how, false));
    assert!(
        lists > 1.1 * each && lists > sieve,
        "{lists}, {each}, {sieve}"
    );
}

/// The parent is registered once for all writes. Reads come to memory of their length, which is registered for each.
#[test]
fn rows_of_one_parent_outdo_rows_that_are_registered_each() {
    let rates = [Rows::ListsInKeptParent, Rows::ListsOfRows];
    let [kept, each] = rates.map(|how| tile(64, how, true));
    assert!(kept > 1.5 * each, "{kept}, {each}");
    let [parent, each] = rates.map(|how| tile(64, how, false));
    assert!(parent > 1.1 * each, "{parent}, {each}");
}

#[test]
fn a_request_registers_each_of_its_allocations_once() {
    for writes in [false, true] {
        for (how, registrations) in [
            (Rows::ListsOfRows, 96.0),
            (Rows::ListsInThreeParents, 3.0),
            (Rows::ListsInParent, 1.0),
        ] {
            let load = Load {
                writes,
                access: Access::Rows {
                    len: 64 << 10,
                    count: 96,
                    how,
                },
                warm_up: 0,
                time: Duration::from_millis(1),
                ..Load::default()
            };
            let outcome = on_testbed(&load);
            // A read of a part of its allocations registers memory of the part's length, each time.
            let registrations = match how {
                Rows::ListsOfRows => registrations,
                _ if writes => registrations,
                _ => outcome.requests,
            };
            let counted = (outcome.requests, outcome.registrations);
            assert_eq!(counted, (6.0, registrations), "{how:?}, writes: {writes}");
        }
    }
}

#[test]
fn bandwidth_grows_with_a_few_io_nodes() {
    for writes in [false, true] {
        let rate = |nodes: usize| {
            let load = Load {
                io_nodes: nodes,
                compute_nodes: nodes,
                writes,
                processes: 2,
                time: Duration::from_millis(200),
                end: End::Time,
                ..Load::default()
            };
            on_testbed(&load).mib_per_s
        };
        let alone = rate(1);
        // docs/measurements/2026-11-25.md has the shares of up to 64 nodes.
        for nodes in [2, 4, 8] {
            let share = rate(nodes) / (nodes as f64 * alone);
            assert!(
                share >= 0.9,
                "{nodes} nodes, writes: {writes}: {share} of linear"
            );
        }
    }
}

#[test]
fn experiments_on_volumes_replay() {
    for transport in [Transport::Rdma, Transport::Tcp] {
        let load = contiguous(transport, true);
        assert_eq!(on_testbed(&load), on_testbed(&load));
    }
}

#[test]
fn bytes_pass_through_memory_that_is_registered_for_them() {
    let world = World::new(9);
    let fabric = SimFabric::new(&world, FabricProfile::default());
    let bed = Bed::new(&world, Carrier::Memory(fabric), 3, 64 << 10);
    let bed = bed.charged(&PVFS_IB.polling(), ServerPolicy::default());
    let node = world.add_node("compute node");
    Host::install(&node, &PVFS_IB);
    let done = world.run(async move {
        bed.start();
        let fs = Rc::new(bed.mount(&node));
        let caller = Credentials::new(0, 0, &[]);
        let mode = CreateMode::Unchecked(SetAttributes::default());
        let made = fs.create(&caller, &fs.root(), b"file", &mode).await;
        let file = File::new(Rc::clone(&fs), caller, made.result.unwrap().handle);
        let noise = |at: u64| (at.wrapping_mul(0x9e37_79b9) >> 13) as u8;
        let mut end = 0;
        // Inline, by Fast RDMA, and by the server in many pieces; with a hole before each.
        for len in [100u64, 50_000, 3_000_000] {
            let start = end + 10_000;
            end = start + len;
            let mut bytes = Buffer::from_vec((start..end).map(noise).collect());
            let writing = file.write_at(start, &mut bytes, len as usize, Stability::FileSync);
            writing.await.unwrap();
            let mut read = Buffer::zeroed(len as usize + 10_000);
            let reading = file.read_at(start - 10_000, &mut read, len as usize + 10_000);
            assert_eq!(reading.await.unwrap() as u64, len + 10_000);
            assert!(read[..10_000].iter().all(|byte| *byte == 0), "{len}");
            assert!(
                read[10_000..].iter().copied().eq((start..end).map(noise)),
                "{len}"
            );
        }
    });
    done.unwrap();
}
