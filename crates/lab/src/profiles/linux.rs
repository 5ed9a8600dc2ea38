//! Paper 000: NFS/RDMA on Linux, on the same hardware as OpenSolaris.
//!
//! The client registers for every transfer. The server does not: a kernel may use the adapter's key for all its
//! memory locally, and takes the data of READ from the pages of its cache. A call moves 32 KiB, and its client's
//! commands to the adapter take some 60 us with their interrupts: that is the bottleneck of READ. No paper explains
//! the slowness of WRITE.

use super::opensolaris::OPENSOLARIS;
use super::tcp;
use gannet_sim::nic::{Adapter, FileSystem, Machine, Profile};
use gannet_sim::nic::{assumed, derived, given};

const KERNEL: &str = "a Linux kernel of 2006 on a processor of 2.2 GHz";

/// One server, one client, InfiniBand SDR, a file system in memory.
pub const LINUX: Profile = Profile {
    name: "linux",
    about: "NFS/RDMA 2007, Linux: two x2100, InfiniBand SDR, a file system in memory",
    machine: Machine {
        interrupt_ns: assumed(2_500, KERNEL),
        context_switch_ns: assumed(2_000, KERNEL),
        client_operation_ns: assumed(3_000, KERNEL),
        transfer_bytes: assumed(
            32 << 10,
            "the client of 2007 had lists of eight pages, and so rsize and wsize of 32 KiB",
        ),
        ..OPENSOLARIS.machine
    },
    adapter: Adapter {
        file_pages: given(
            1,
            "000 section 8: close to the link's rate at 10 % of the processor",
        ),
        all_physical: given(
            1,
            "000 section 8: Linux registers all physical pages in one operation",
        ),
        ..OPENSOLARIS.adapter
    },
    link: OPENSOLARIS.link,
    tcp: tcp::IPOIB_UD,
    file_system: FileSystem {
        operation_ns: assumed(8_000, KERNEL),
        read_bytes_per_s: derived(0, "nothing is copied that the adapter takes from the cache"),
        ..OPENSOLARIS.file_system
    },
};
