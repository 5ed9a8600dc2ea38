//! Paper 001: PVFS over InfiniBand, eight machines.
//!
//! Its MB are 2^20 bytes. All constants here follow from its tables 2 and 3, from section 5's two registrations,
//! from section 6.1's list of parts, or are assumed. No constant was chosen by the results of its system rows. The
//! costs of TCP were cut so that a stream carries the rate that ttcp measured, and one byte takes as long.

use gannet_sim::nic::{Adapter, FileSystem, Link, Machine, Profile, Tcp};
use gannet_sim::nic::{assumed, derived, given};

const BOARD: &str = "001 section 6.1: dual Xeon 2.4 GHz, front side bus of 400 MHz, PCI-X 133";
const KERNEL: &str = "a Linux kernel of 2002 on a processor of 2.4 GHz";
const RAMFS: &str = "001 table 3: ramfs reads 1057 and writes 556 MB/s (2^20 bytes)";
const DISK: &str =
    "001 table 3: ext3 writes 25 and reads 20 MB/s (2^20 bytes); one rate serves both";
const TAVOR: &str = "InfiniHost, the first generation";
const VERBS: &str =
    "001 table 2: one way of 4 bytes takes 9.2 us by Send, 6.0 by Write, 12.4 by Read";
const REGISTER: &str = "001 section 5: 100 registrations and deregistrations of 4 kB take 12400 us, one of 400 kB \
    530 us. That is 120 us and 4.1 us a page. The split between adapter and processor is assumed";
const NO_FMR: &str = "VAPI of 2003 had no fast registration";
const USER: &str = "000 section 3.2: the one key is for kernels, and PVFS works in user space";
const TTCP: &str = "001 table 2: TCP over IBNice carries 185 MB/s (2^20 bytes) and takes 40.1 us for 4 bytes, one way";

/// Four of them were I/O nodes, four compute nodes; ramfs.
pub const PVFS_IB: Profile = Profile {
    name: "pvfs-ib",
    about: "PVFS over InfiniBand 2003: dual Xeon 2.4 GHz, InfiniHost 4x on PCI-X, TCP over IBNice, ramfs",
    machine: MACHINE,
    adapter: ADAPTER,
    link: Link {
        bytes_per_s: derived(
            867_172_352,
            "001 table 2: RDMA Write carries 827 MB/s (2^20 bytes)",
        ),
        latency_ns: derived(5_500, VERBS),
    },
    tcp: IBNICE,
    file_system: RAMFS_COSTS,
};

/// The same with files on a disk of each I/O node.
pub const PVFS_IB_DISK: Profile = Profile {
    name: "pvfs-ib-disk",
    about: "PVFS over InfiniBand 2003: the same with ext3 on one ATA disk",
    file_system: FileSystem {
        cache_bytes: assumed(
            6 << 20,
            "less than the experiments write: they are short, as if much had been written \
                before",
        ),
        block_bytes: assumed(1 << 20, "a kernel writes back in long runs"),
        read_ahead_bytes: assumed(128 << 10, KERNEL),
        seek_ns: assumed(9_000_000, "an ATA disk of 7200 rotations a minute"),
        disk_bytes_per_s: given(26_214_400, DISK),
        ..RAMFS_COSTS
    },
    ..PVFS_IB
};

const MACHINE: Machine = Machine {
    cpus: given(2, BOARD),
    client_cpus: assumed(
        1,
        "the library is part of the application and has no thread of its own; a stream's packets are handled where it \
         runs",
    ),
    interrupt_ns: assumed(3_000, KERNEL),
    context_switch_ns: assumed(4_000, KERNEL),
    copy_bytes_per_s: derived(1_108_344_832, RAMFS),
    memory_bytes_per_s: derived(
        3_325_034_496,
        "three times the copied bytes, as 000; the front side bus has 3.2 GB/s (001 section \
            6.1)",
    ),
    client_operation_ns: assumed(5_000, "a call of the PVFS library, whatever it moves"),
    send_message_ns: assumed(2_000, KERNEL),
    receive_message_ns: assumed(2_000, KERNEL),
    transfer_bytes: given(2 << 20, "001 section 3.3.2: the largest zone"),
};

const ADAPTER: Adapter = Adapter {
    post_ns: assumed(500, TAVOR),
    completion_ns: assumed(600, TAVOR),
    match_receive_ns: derived(2_100, VERBS),
    read_depth: assumed(8, "as the next generation, of 000"),
    read_turnaround_ns: derived(300, VERBS),
    dma_bytes_per_s: derived(
        1_064_000_000,
        "001 section 6.1: 64 bits at 133 MHz, both directions together",
    ),
    dma_shared: given(1, BOARD),
    file_pages: given(
        0,
        "001 section 3.2.1: data is staged in buffers between file and network",
    ),
    remote_invalidation: assumed(0, TAVOR),
    immediates: given(1, "001 section 4.1.2: RDMA Write with Immediate"),
    all_physical: derived(0, USER),
    fast_maps: derived(0, NO_FMR),
    optimistic_reads: derived(
        0,
        "003 section IV-B: existing networks tear the connection down",
    ),
    register_ns: derived(40_000, REGISTER),
    register_page_ns: derived(3_600, REGISTER),
    register_file_page_ns: derived(3_600, REGISTER),
    register_command_ns: derived(35_000, REGISTER),
    register_entry_ns: derived(500, REGISTER),
    command_spins: assumed(1, "the first drivers waited for their commands in place"),
    deregister_ns: derived(10_000, REGISTER),
    deregister_command_ns: derived(35_000, REGISTER),
    fast_map_ns: assumed(0, NO_FMR),
    fast_map_page_ns: assumed(0, NO_FMR),
    fast_unmap_ns: assumed(0, NO_FMR),
    fast_unmap_command_ns: assumed(0, NO_FMR),
    table_pages: assumed(1 << 20, TAVOR),
};

const IBNICE: Tcp = Tcp {
    write_call_ns: derived(8_800, TTCP),
    read_call_ns: derived(8_800, TTCP),
    packet_bytes: assumed(1_992, "IP over InfiniBand: an MTU of 2048, less headers"),
    queues: assumed(1, "adapters of the time had one"),
    send_packet_ns: derived(5_000, TTCP),
    receive_packet_ns: derived(5_000, TTCP),
    stack_bytes_per_s: derived(650_000_000, TTCP),
    interrupt_packets: assumed(4, KERNEL),
    copy_stream_bytes_per_s: derived(1_108_344_832, RAMFS),
};

const RAMFS_COSTS: FileSystem = FileSystem {
    operation_ns: assumed(
        5_000,
        "a system call of a 2.4 GHz processor, and ramfs behind it",
    ),
    read_bytes_per_s: derived(1_108_344_832, RAMFS),
    write_bytes_per_s: derived(583_008_256, RAMFS),
    threads: given(
        1,
        "001 section 3.3.2: \"the server is a single thread and all file operations are blocking\"",
    ),
    cache_bytes: given(0, "001 section 6.3: a file system in memory"),
    block_bytes: given(0, "001 section 6.3: a file system in memory"),
    read_ahead_bytes: given(0, "001 section 6.3: a file system in memory"),
    seek_ns: given(0, "001 section 6.3: a file system in memory"),
    disk_bytes_per_s: given(0, "001 section 6.3: a file system in memory"),
};
