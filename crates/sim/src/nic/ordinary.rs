//! A machine whose work takes time and that is modelled on no published testbed.

use super::profile::assumed;
use super::{Adapter, Constant, FileSystem, Link, Machine, Profile, Tcp};

/// A machine of 2006 from no paper, with two processors and files in memory, for tests of rules that hold on every
/// machine with costs.
pub const ORDINARY: Profile = Profile {
    name: "ordinary",
    about: "a machine of 2006: two processors, 900 MB/s, files in memory",
    machine: Machine {
        cpus: usual(2),
        client_cpus: usual(2),
        interrupt_ns: usual(3_000),
        context_switch_ns: usual(3_000),
        copy_bytes_per_s: usual(1_057_000_000),
        memory_bytes_per_s: usual(3_171_000_000),
        client_operation_ns: usual(4_000),
        send_message_ns: usual(2_000),
        receive_message_ns: usual(2_000),
        transfer_bytes: usual(1 << 20),
    },
    adapter: Adapter {
        post_ns: usual(500),
        completion_ns: usual(300),
        match_receive_ns: usual(0),
        read_depth: usual(8),
        read_turnaround_ns: usual(1_000),
        dma_bytes_per_s: usual(1_500_000_000),
        dma_shared: usual(0),
        file_pages: usual(0),
        remote_invalidation: usual(0),
        immediates: usual(1),
        all_physical: usual(1),
        fast_maps: usual(1),
        optimistic_reads: usual(0),
        register_ns: usual(3_000),
        register_page_ns: usual(100),
        register_file_page_ns: usual(100),
        register_command_ns: usual(29_300),
        register_entry_ns: usual(250),
        command_spins: usual(0),
        deregister_ns: usual(2_000),
        deregister_command_ns: usual(14_700),
        fast_map_ns: usual(4_000),
        fast_map_page_ns: usual(350),
        fast_unmap_ns: usual(8_000),
        fast_unmap_command_ns: usual(14_700),
        table_pages: usual(1 << 20),
    },
    link: Link {
        bytes_per_s: usual(900_000_000),
        latency_ns: usual(3_000),
    },
    tcp: Tcp {
        write_call_ns: usual(2_000),
        read_call_ns: usual(2_000),
        packet_bytes: usual(1_992),
        queues: usual(1),
        send_packet_ns: usual(2_000),
        receive_packet_ns: usual(2_500),
        stack_bytes_per_s: usual(1_200_000_000),
        interrupt_packets: usual(4),
        copy_stream_bytes_per_s: usual(1_057_000_000),
    },
    file_system: FileSystem {
        operation_ns: usual(44_000),
        read_bytes_per_s: usual(1_057_000_000),
        write_bytes_per_s: usual(556_000_000),
        threads: usual(0),
        cache_bytes: usual(0),
        block_bytes: usual(0),
        read_ahead_bytes: usual(0),
        seek_ns: usual(0),
        disk_bytes_per_s: usual(0),
    },
};

const fn usual(value: u64) -> Constant {
    assumed(value, "usual in 2006")
}
