//! Paper 000: NFS/RDMA on OpenSolaris build 33.
//!
//! The constants together have these effects, for one READ of 128 KiB. Copying it out of tmpfs takes 124 us of a
//! processor, and
//! with the adapter's own traffic 165 us of the memory: so 794 MB/s, and the memory is the bottleneck. Registering it
//! and taking it back takes 52 us of the adapter, one command after the other, while the driver sleeps, and 11 us of a
//! processor. Each call's memory is registered and revoked for itself: its pages are the kernel's and lie anywhere, so
//! the adapter stores a translation for each.
//!
//! The paper's server also gets that memory for each call (section 8), unless it has the cache of registrations,
//! which gets it from a slab. No paper gives the cost of that, so it costs nothing here.

use super::tcp;
use gannet_sim::nic::{Adapter, FileSystem, Link, Machine, Profile};
use gannet_sim::nic::{assumed, derived, given};

const MACHINE: &str = "000 section 6: \"dual Opteron x2100\" at 2.2 GHz: that machine has one socket, \
     so one chip of two processors";
const TAVOR: &str = "000 section 6: InfiniHost III on PCI Express x8, SDR";
const KERNEL: &str = "a kernel of 2006 on a processor of 2.2 GHz";
const REGISTER: &str = "004 section 2: 1 MB at 900 MB/s without and 600 MB/s with registration, so 582 us for 256 \
    pages. 001 section 5 gives the split. There 100 registrations of 4 kB take 12400 us, one of \
    400 kB 530 us, so the fixed part is that of 29 pages. That is 58 us fixed to register and \
    deregister. The adapter's commands dominate it (004 section 5.5). Subtract 5 us of the \
    driver and, on that Linux, 9 us of two interrupts with their switches. The rest is 14.7 us \
    for each of three commands: two register (translations, entry), one deregisters";
const PAGES: &str = "a kernel registers its own pages without the walk through page tables that \
     dominates large registrations from user space (004 section 5.5)";
const FAST: &str = "000 section 8: entries and keys are allocated before; translations are written \
     without waiting for the adapter, as pages of a registration are";
const NO_EXCEPTIONS: &str = "003 section IV-B: existing networks tear the connection down";
const RAMFS: &str = "001 table 3: a file system in memory reads 1057 and writes 556 MB/s";

/// One server, one client, InfiniBand SDR, tmpfs.
pub const OPENSOLARIS: Profile = Profile {
    name: "opensolaris",
    about: "NFS/RDMA 2007, OpenSolaris b33: two x2100, InfiniBand SDR, tmpfs",
    machine: Machine {
        cpus: derived(2, MACHINE),
        client_cpus: derived(2, MACHINE),
        interrupt_ns: assumed(3_000, KERNEL),
        context_switch_ns: assumed(3_000, KERNEL),
        copy_bytes_per_s: derived(1_057_000_000, RAMFS),
        memory_bytes_per_s: derived(
            3_171_000_000,
            "001 table 3, three times the copied bytes: one copy keeps the memory busy (004 \
                section 5.1: copies are bounded by the memory bus)",
        ),
        client_operation_ns: assumed(4_000, KERNEL),
        send_message_ns: assumed(2_000, KERNEL),
        receive_message_ns: assumed(2_000, KERNEL),
        transfer_bytes: given(
            1 << 20,
            "000 section 6: records are not fragmented; at most 1 MB",
        ),
    },
    adapter: Adapter {
        post_ns: assumed(500, TAVOR),
        completion_ns: assumed(300, TAVOR),
        match_receive_ns: derived(0, "it is in the latency, which was measured with messages"),
        read_depth: given(8, "000 section 4.4: IRD and ORD"),
        read_turnaround_ns: derived(
            1_000,
            "001 table 2: a Read of 4 bytes takes 12.4 us, two Writes 12.0; the Read lacks \
                the posting of the second",
        ),
        dma_bytes_per_s: assumed(1_500_000_000, "PCI Express x8 of the first generation"),
        dma_shared: given(0, TAVOR),
        file_pages: given(
            0,
            "000 section 7: time in tmpfs grows with the record: it copies",
        ),
        remote_invalidation: assumed(0, TAVOR),
        immediates: derived(1, "InfiniBand has them; NFS makes no use of them"),
        all_physical: given(
            1,
            "000 section 3.2: the Global Steering Tag of privileged consumers",
        ),
        fast_maps: given(
            1,
            "000 section 3.2: the Mellanox implementation of FMR, for kernels",
        ),
        optimistic_reads: given(0, NO_EXCEPTIONS),
        register_ns: derived(3_000, REGISTER),
        register_page_ns: assumed(100, PAGES),
        register_file_page_ns: assumed(100, PAGES),
        register_command_ns: derived(29_300, REGISTER),
        register_entry_ns: assumed(250, PAGES),
        command_spins: assumed(
            0,
            "a driver that may sleep waits for the event of a command's end (000 section 3.2: the \
             response time may be quite high)",
        ),
        deregister_ns: derived(2_000, REGISTER),
        deregister_command_ns: derived(14_700, REGISTER),
        fast_map_ns: assumed(4_000, FAST),
        fast_map_page_ns: assumed(350, FAST),
        fast_unmap_ns: assumed(8_000, FAST),
        fast_unmap_command_ns: derived(14_700, REGISTER),
        table_pages: assumed(1 << 20, TAVOR),
    },
    link: Link {
        bytes_per_s: given(900_000_000, "000 section 1: 900 MB/s unidirectional"),
        latency_ns: given(
            3_000,
            "000 section 1: half a ping-pong takes less than 4 us, posting and completing included",
        ),
    },
    tcp: tcp::IPOIB_UD,
    file_system: FileSystem {
        operation_ns: assumed(8_000, KERNEL),
        read_bytes_per_s: derived(1_057_000_000, RAMFS),
        write_bytes_per_s: derived(556_000_000, RAMFS),
        threads: assumed(0, "a server of NFS has many threads"),
        cache_bytes: given(0, "000 section 6: tmpfs"),
        block_bytes: given(0, "000 section 6: tmpfs"),
        read_ahead_bytes: given(0, "000 section 6: tmpfs"),
        seek_ns: given(0, "000 section 6: tmpfs"),
        disk_bytes_per_s: given(0, "000 section 6: tmpfs"),
    },
};
