//! Paper 003: a DAFS server, a client, and a prototype adapter with a processor of 66 MHz.
//!
//! Table II and the text beside it are the constants. A call without its data takes 12 us until the request is in
//! memory, and 15 until the host is notified. It takes 10 to switch to a thread, 25 in the file system, and 8 to
//! post the reply; so T_NullRPC is 45 and a call 70. An optimistic read is two interactions of adapter and host of
//! 15 us. The rest, the network and the client that polls, is 50 to 100 us. It is charged as the link's latency,
//! half of it each way.

use gannet_sim::nic::{Adapter, Constant, FileSystem, Link, Machine, Profile, Tcp};
use gannet_sim::nic::{assumed, derived, given};

const HOST: &str = "003 section VI-B: Pentium III, 800 MHz, FreeBSD 4.3";
const DATA: &str =
    "003 figure 5: the transfer of the data takes as long in all ways, and is left out";
const ALL: &str = "table II and the text beside it are all that costs here";
const CHEAPEST: &str = "003 section VI-B.3: 50 us of network and client, assumed there from another adapter's figures; \
     half each way";
const DEAREST: &str = "003 section VI-B.3: 100 us of network and client, assumed there from another adapter's figures; \
     half each way";

/// The machines of Optimistic DAFS with 50 us of network and client.
pub const ODAFS_50: Profile = Profile {
    name: "odafs-50",
    about: "Optimistic DAFS 2002: prototype adapter, table II, 50 us of network and client",
    machine: Machine {
        cpus: given(1, HOST),
        client_cpus: given(1, HOST),
        interrupt_ns: derived(
            15_000,
            "003 table II: T_exc, one interaction of adapter and host",
        ),
        context_switch_ns: given(
            10_000,
            "003 section VI-B.1: about 10 us of T_NullRPC are the switch to the server's thread",
        ),
        copy_bytes_per_s: NO_DATA,
        memory_bytes_per_s: NO_DATA,
        client_operation_ns: LEFT_OUT,
        send_message_ns: LEFT_OUT,
        receive_message_ns: LEFT_OUT,
        transfer_bytes: LEFT_OUT,
    },
    adapter: Adapter {
        post_ns: derived(
            8_000,
            "003 table II: the rest of the 45 us of T_NullRPC, less 12 for the request's DMA, \
                15 for the interrupt, 10 for the switch",
        ),
        completion_ns: LEFT_OUT,
        match_receive_ns: given(
            12_000,
            "003 section VI-B.1: 12 us of T_NullRPC are the DMA of the request from the adapter to memory",
        ),
        read_depth: assumed(8, "one is under way at a time"),
        read_turnaround_ns: derived(
            30_000,
            "003 section VI-B.2: T2 = 2 * (T_exc + T_VM), T_exc = 15 us of table II, T_VM ignored there",
        ),
        dma_bytes_per_s: NO_DATA,
        dma_shared: LEFT_OUT,
        file_pages: LEFT_OUT,
        remote_invalidation: LEFT_OUT,
        immediates: LEFT_OUT,
        all_physical: LEFT_OUT,
        fast_maps: LEFT_OUT,
        optimistic_reads: given(
            1,
            "003 section IV-B: its adapter reports exceptions to the initiator",
        ),
        register_ns: LEFT_OUT,
        register_page_ns: LEFT_OUT,
        register_file_page_ns: LEFT_OUT,
        register_command_ns: LEFT_OUT,
        register_entry_ns: LEFT_OUT,
        command_spins: LEFT_OUT,
        deregister_ns: LEFT_OUT,
        deregister_command_ns: LEFT_OUT,
        fast_map_ns: LEFT_OUT,
        fast_map_page_ns: LEFT_OUT,
        fast_unmap_ns: LEFT_OUT,
        fast_unmap_command_ns: LEFT_OUT,
        table_pages: assumed(1 << 20, "the table is never full"),
    },
    link: Link {
        bytes_per_s: NO_DATA,
        latency_ns: assumed(25_000, CHEAPEST),
    },
    tcp: Tcp {
        write_call_ns: LEFT_OUT,
        read_call_ns: LEFT_OUT,
        packet_bytes: LEFT_OUT,
        queues: LEFT_OUT,
        send_packet_ns: LEFT_OUT,
        receive_packet_ns: LEFT_OUT,
        stack_bytes_per_s: LEFT_OUT,
        interrupt_packets: LEFT_OUT,
        copy_stream_bytes_per_s: NO_DATA,
    },
    file_system: FileSystem {
        operation_ns: given(25_000, "003 table II: T_FS"),
        read_bytes_per_s: NO_DATA,
        write_bytes_per_s: NO_DATA,
        threads: LEFT_OUT,
        cache_bytes: LEFT_OUT,
        block_bytes: LEFT_OUT,
        read_ahead_bytes: LEFT_OUT,
        seek_ns: LEFT_OUT,
        disk_bytes_per_s: LEFT_OUT,
    },
};

/// The machines of Optimistic DAFS with 100 us of network and client.
pub const ODAFS_100: Profile = Profile {
    name: "odafs-100",
    about: "Optimistic DAFS 2002: prototype adapter, table II, 100 us of network and client",
    link: Link {
        latency_ns: assumed(50_000, DEAREST),
        ..ODAFS_50.link
    },
    ..ODAFS_50
};

const NO_DATA: Constant = given(0, DATA);
const LEFT_OUT: Constant = assumed(0, ALL);
