//! Paper 002: one server and up to four clients, DDR InfiniBand and 10 Gigabit Ethernet, READ from the server's cache.

use super::linux::LINUX;
use super::tcp;
use gannet_sim::nic::{Adapter, FileSystem, Link, Machine, Profile};
use gannet_sim::nic::{assumed, derived, given};

const BOARD: &str = "002 key testbed hardware: two sockets, two cores each, 2.4 GHz, dual channel";
const COPIES: &str = "as OpenSolaris: 001 table 3; each of the two sockets has memory of its own";
const CACHED: &str = "002 test configuration: read from the server's cache";

const MACHINE: Machine = Machine {
    cpus: given(4, BOARD),
    client_cpus: given(4, BOARD),
    copy_bytes_per_s: derived(1_057_000_000, COPIES),
    memory_bytes_per_s: derived(6_342_000_000, COPIES),
    ..LINUX.machine
};

const FILE_SYSTEM: FileSystem = FileSystem {
    cache_bytes: given(0, CACHED),
    ..LINUX.file_system
};

/// InfiniBand DDR; TCP over it in connected mode.
pub const SANDIA_IB: Profile = Profile {
    name: "sandia-ib",
    about: "NFS over IB and iWARP 2007: InfiniBand DDR, TCP over IPoIB-CM",
    machine: MACHINE,
    adapter: Adapter {
        dma_bytes_per_s: assumed(1_500_000_000, "PCI Express x8 of the first generation"),
        ..LINUX.adapter
    },
    link: Link {
        bytes_per_s: given(2_000_000_000, "002 throughput summary: IB DDR, 2.0 GB/s"),
        ..LINUX.link
    },
    tcp: tcp::IPOIB_CM,
    file_system: FILE_SYSTEM,
};

/// The same with TCP over datagrams.
pub const SANDIA_IB_UD: Profile = Profile {
    name: "sandia-ib-ud",
    about: "NFS over IB and iWARP 2007: InfiniBand DDR, TCP over IPoIB-UD",
    tcp: tcp::IPOIB_UD,
    ..SANDIA_IB
};

/// 10 Gigabit Ethernet: iWARP, TCP by the host.
pub const SANDIA_IWARP: Profile = Profile {
    name: "sandia-iwarp",
    about: "NFS over IB and iWARP 2007: 10 GbE, iWARP by the adapter, TCP by the host",
    link: Link {
        bytes_per_s: given(1_250_000_000, "002 throughput summary: 10 GbE, 1.25 GB/s"),
        latency_ns: assumed(
            6_000,
            "adapters of 10 GbE and iWARP in 2007: 7 to 8 us in all",
        ),
    },
    adapter: Adapter {
        remote_invalidation: derived(1, "RFC 5040 section 5.3: every RNIC has it"),
        immediates: derived(0, "RFC 7306 adds them to iWARP in 2014"),
        ..SANDIA_IB.adapter
    },
    tcp: tcp::ETHERNET,
    ..SANDIA_IB
};

/// The same with TCP by the adapter.
pub const SANDIA_TOE: Profile = Profile {
    name: "sandia-toe",
    about: "NFS over IB and iWARP 2007: 10 GbE, iWARP and TCP by the adapter",
    tcp: tcp::OFFLOADED,
    ..SANDIA_IWARP
};
