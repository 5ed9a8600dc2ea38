//! Paper 004: data serving with RDMA, two machines.
//!
//! The constants together have these effects, for 1 MiB of a file. Its passage takes 1165 us of the link. A program's
//! memory takes 582 us to register and deregister. Of these, 58 us do not depend on the length (the adapter's commands,
//! and the driver that sleeps for each). A page takes 2.05 us, of which the adapter's entry takes 0.25 and the walk
//! through page tables the rest. The kernel that registers pages of its own cache spares the walk: 58 us and 0.45 us a
//! page. A copy takes 992 us. So one transfer after the other reaches some 600 MB/s by registration and 490 by copying.
//! Work that overlaps with the link costs nothing while it is shorter.
//!
//! The paper's words give none of this by itself: the pair 900 / 600 MB/s is one that it cites from another testbed.

use super::linux::LINUX;
use super::tcp;
use gannet_sim::nic::{Adapter, Link, Machine, Profile};
use gannet_sim::nic::{assumed, derived, given};

const BOARD: &str = "004 section 5: dual Opteron 250, 2 GB";
const KERNEL: &str = "Linux 2.6.20 on a processor of 2.4 GHz";
const ADAPTER: &str = "004 section 5: InfiniBand 4X SDR, mem-free; as the adapters of 000";
const COPIES: &str = "as the Opterons of 000 and 002; 001 table 3 measured it on a Xeon of 2.4 GHz";
const REGISTER: &str = "004 section 2, cited there from another testbed: 1 MB at 900 MB/s without and 600 MB/s with \
    registration, so 582 us for 256 pages. 001 section 5 gives the split. There 100 \
    registrations of 4 kB take 12400 us, one of 400 kB 530 us, so the fixed part is that of 29 \
    pages. That is 58 us fixed to register and deregister. The adapter's commands dominate it \
    (004 section 5.5). Subtract 5 us of the driver and 9 us of two interrupts with their \
    switches. The rest is 14.7 us for each of three commands: two register (translations, \
    entry), one deregisters";
const USER: &str = "000 section 3.2: for kernels alone, and the server of 004 is a program";
const WALK: &str = "of the 582 us for 256 pages (004 section 2) the part that is not fixed, 2.05 us a page, less \
    the adapter's entry";

/// InfiniBand SDR; files in the page cache.
pub const SENDFILE_IB: Profile = Profile {
    name: "sendfile-ib",
    about: "Data serving with RDMA 2007: dual Opteron 250, InfiniBand SDR, files in the page cache",
    machine: Machine {
        cpus: given(2, BOARD),
        client_cpus: given(2, BOARD),
        interrupt_ns: assumed(2_500, KERNEL),
        context_switch_ns: assumed(2_000, KERNEL),
        copy_bytes_per_s: assumed(1_057_000_000, COPIES),
        memory_bytes_per_s: assumed(
            6_342_000_000,
            "three times the copied bytes, and each of the two sockets has memory of its own; \
                as 002",
        ),
        ..LINUX.machine
    },
    adapter: Adapter {
        post_ns: assumed(500, ADAPTER),
        completion_ns: assumed(300, ADAPTER),
        dma_bytes_per_s: assumed(1_500_000_000, "PCI Express x8 of the first generation"),
        dma_shared: given(0, "mem-free adapters of that generation are PCI Express"),
        file_pages: given(
            1,
            "004 section 3.3: the kernel registers pages of its cache for the program",
        ),
        all_physical: derived(0, USER),
        fast_maps: derived(0, USER),
        register_ns: derived(3_000, REGISTER),
        register_page_ns: derived(1_800, WALK),
        register_file_page_ns: assumed(
            200,
            "looking a page of the cache up, with a call back for each, and pinning it: comparatively small (004 \
             section 5.5)",
        ),
        register_command_ns: derived(29_300, REGISTER),
        register_entry_ns: assumed(250, ADAPTER),
        deregister_ns: derived(2_000, REGISTER),
        deregister_command_ns: derived(14_700, REGISTER),
        table_pages: assumed(1 << 20, ADAPTER),
        ..LINUX.adapter
    },
    link: Link {
        bytes_per_s: given(
            900_000_000,
            "004 section 2: 1 MB messages at roughly 900 MB/s, cited there from another testbed",
        ),
        latency_ns: assumed(3_000, ADAPTER),
    },
    tcp: tcp::IPOIB_UD,
    file_system: LINUX.file_system,
};

const FASTER: &str = "004 section 5.6 expects more of sendfile on faster links; the way to memory grows with the link";

/// The same with a link of twice the rate.
pub const SENDFILE_IB_2X: Profile = Profile {
    name: "sendfile-ib-2x",
    about: "Data serving with RDMA 2007: the same machines, a link and a bus of twice the rate",
    adapter: Adapter {
        dma_bytes_per_s: assumed(3_000_000_000, FASTER),
        ..SENDFILE_IB.adapter
    },
    link: Link {
        bytes_per_s: assumed(1_800_000_000, FASTER),
        ..SENDFILE_IB.link
    },
    ..SENDFILE_IB
};

/// The same with a link of four times the rate.
pub const SENDFILE_IB_4X: Profile = Profile {
    name: "sendfile-ib-4x",
    about: "Data serving with RDMA 2007: the same machines, a link and a bus of four times the rate",
    adapter: Adapter {
        dma_bytes_per_s: assumed(6_000_000_000, FASTER),
        ..SENDFILE_IB.adapter
    },
    link: Link {
        bytes_per_s: assumed(3_600_000_000, FASTER),
        ..SENDFILE_IB.link
    },
    ..SENDFILE_IB
};
