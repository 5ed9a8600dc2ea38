//! Paper 000: NFS/RDMA on OpenSolaris build 33.
//!
//! What the constants mean together, for one READ of 128 KiB with registration on every use: the server's processor is
//! the bottleneck. It needs some 370 us: half of that to copy out of tmpfs, a third to allocate and map the memory,
//! the rest to register and to speak RPC. The paper's own breakdown asks for the allocation: registration is 16 to 24 %
//! of the time, and yet memory that is kept registered doubles the rate. What is kept in that cache is the memory too.

use super::tcp;
use crate::nic::profile::{assumed, derived, fitted, given};
use crate::nic::{Adapter, FileSystem, Link, Machine, Profile};

const MACHINE: &str = "000 section 6: x2100, a server with one socket for an Opteron at 2.2 GHz";
const TAVOR: &str = "000 section 6: InfiniHost III on PCI Express x8, SDR";
const KERNEL: &str = "a kernel of 2006 on a processor of 2.2 GHz";
pub(super) const REGISTER: &str = "004 section 2: 1 MB at 900 MB/s without and 600 MB/s with registration, so \
     582 us for 256 pages; split as 001 section 5 splits (100 registrations of 4 kB 12400 us, one \
     of 400 kB 530 us: the fixed part is that of 29 pages), so 58 us fixed, which the adapter's \
     command dominates (004 section 5.5)";
const PAGES: &str = "a kernel registers its own pages without the walk through page tables that \
     dominates large registrations from user space (004 section 5.5)";
const FAST: &str = "000 section 8: entries and keys are allocated before; translations are written \
     without waiting for the adapter, as pages of a registration are";

/// One server, one client, InfiniBand SDR, tmpfs.
pub const OPENSOLARIS: Profile = Profile {
    name: "opensolaris",
    about: "NFS/RDMA 2007, OpenSolaris b33: two x2100, InfiniBand SDR, tmpfs",
    machine: Machine {
        cpus: derived(1, MACHINE),
        interrupt_ns: assumed(3_000, KERNEL),
        context_switch_ns: assumed(3_000, KERNEL),
        copy_bytes_per_s: derived(
            1_057_000_000,
            "001 table 3: reading a file system in memory",
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
        read_depth: given(8, "000 section 4.4: IRD and ORD"),
        read_turnaround_ns: derived(
            1_000,
            "001 table 2: a Read of 4 bytes takes 12.4 us, two Writes 12.0, of which the posting of \
             the second is not in the Read",
        ),
        dma_bytes_per_s: assumed(1_500_000_000, "PCI Express x8 of the first generation"),
        dma_shared: given(0, TAVOR),
        file_pages: given(
            0,
            "000 section 7: time in tmpfs grows with the record: it copies",
        ),
        remote_invalidation: assumed(0, TAVOR),
        register_ns: derived(3_000, REGISTER),
        register_page_ns: derived(100, PAGES),
        register_command_ns: derived(50_000, REGISTER),
        register_entry_ns: derived(250, PAGES),
        command_spins: derived(
            1,
            "000 section 8: with the processor saturated, registering without commands (FMR) is \
             faster, so commands take processor time",
        ),
        allocate_page_ns: fitted(
            4_000,
            "000 section 8: READ of 128 KiB, dynamic, about 350 MB/s",
        ),
        deregister_ns: derived(2_000, REGISTER),
        deregister_command_ns: derived(3_000, REGISTER),
        fast_map_ns: derived(4_000, FAST),
        fast_map_page_ns: derived(350, FAST),
        fast_unmap_ns: derived(8_000, FAST),
        fast_unmap_command_ns: derived(45_000, FAST),
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
        read_bytes_per_s: fitted(
            850_000_000,
            "000 section 8: READ of 128 KiB, server cache, 730 MB/s",
        ),
        write_bytes_per_s: derived(556_000_000, "001 table 3: writing a file system in memory"),
        cache_bytes: given(0, "000 section 6: tmpfs"),
        block_bytes: given(0, "000 section 6: tmpfs"),
        read_ahead_bytes: given(0, "000 section 6: tmpfs"),
        seek_ns: given(0, "000 section 6: tmpfs"),
        disk_bytes_per_s: given(0, "000 section 6: tmpfs"),
    },
};
