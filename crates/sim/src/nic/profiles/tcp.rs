//! TCP as paper 002 had it: over IPoIB in two modes, over 10 GbE by the host's stack and by the adapter's.
//!
//! The paper gives packet lengths and who does the work; what a packet costs is what such kernels are known for. All
//! that is claimed of these is their order.

use crate::nic::Tcp;
use crate::nic::profile::{Constant, assumed, derived};

const CALL: &str = "a system call and a socket in a kernel of 2006 on a processor of 2.4 GHz";
const PACKET: &str = "what a kernel of 2006 on a processor of 2.4 GHz spends on a packet";
const STACK: &str = "without help by the adapter every byte is summed up and every page of a packet \
     is allocated and mapped";
const OFFLOAD: &str = "the adapter sums up and cuts";
const COPIED: &str = "a copy of every byte, by one processor of 2.4 GHz";

const CALL_NS: Constant = assumed(2_000, CALL);

/// IP over InfiniBand, unreliable datagrams.
pub(super) const IPOIB_UD: Tcp = Tcp {
    write_call_ns: CALL_NS,
    read_call_ns: CALL_NS,
    packet_bytes: derived(1_992, "002 test configuration: MTU 2048, less headers"),
    queues: assumed(1, "adapters of the time had one"),
    send_packet_ns: assumed(2_000, PACKET),
    receive_packet_ns: assumed(2_500, PACKET),
    stack_bytes_per_s: assumed(1_200_000_000, STACK),
    interrupt_packets: assumed(4, PACKET),
    copy_stream_bytes_per_s: assumed(1_500_000_000, COPIED),
};

/// IP over InfiniBand, connected mode.
pub(super) const IPOIB_CM: Tcp = Tcp {
    packet_bytes: derived(65_464, "002 test configuration: MTU 65520, less headers"),
    send_packet_ns: assumed(4_000, PACKET),
    receive_packet_ns: assumed(5_000, PACKET),
    interrupt_packets: assumed(1, PACKET),
    ..IPOIB_UD
};

/// 10 Gigabit Ethernet, the host's stack.
pub(super) const ETHERNET: Tcp = Tcp {
    packet_bytes: derived(8_948, "002 test configuration: MTU 9000, less headers"),
    send_packet_ns: assumed(1_500, PACKET),
    receive_packet_ns: assumed(2_500, PACKET),
    stack_bytes_per_s: assumed(0, OFFLOAD),
    interrupt_packets: assumed(8, PACKET),
    ..IPOIB_UD
};

/// 10 Gigabit Ethernet, the adapter's stack (TOE).
pub(super) const OFFLOADED: Tcp = Tcp {
    packet_bytes: assumed(65_536, "the adapter hands over what it has put together"),
    send_packet_ns: assumed(2_500, PACKET),
    receive_packet_ns: assumed(4_000, PACKET),
    interrupt_packets: assumed(1, PACKET),
    ..ETHERNET
};
