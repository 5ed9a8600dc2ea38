//! TCP as paper 002 had it: over IPoIB in two modes, over 10 GbE by the host's stack and by the adapter's.
//!
//! The paper gives packet lengths, and the machine that does the work. The costs of a packet follow a rule of the
//! time: TCP takes one hertz for each bit. So 300 MB/s of packets of 2 KiB take 2.4 GHz, or 6.8 us each. Of these,
//! the copy takes 1.9 us, the sum over its bytes 1.7 us, and its share of an interrupt 0.6 us. The rest, 2.5 us,
//! does not grow with the packet.

use gannet_sim::nic::Tcp;
use gannet_sim::nic::{Constant, assumed, derived};

const CALL: &str = "a system call and a socket in a kernel of 2006 on a processor of 2.4 GHz";
const PACKET: &str = "one hertz for each bit; see the module";
const SENDING: &str =
    "sending takes less than receiving: no demultiplexing, and the acknowledgement is short";
const STACK: &str = "without help by the adapter every byte is summed up and every page of a packet \
     is allocated and mapped";
const OFFLOAD: &str = "the adapter sums up and cuts";
const COPIED: &str = "a copy of every byte: 001 table 3";
const MANY_PAGES: &str = "one hertz for each bit, and 16 pages to chain";

const CALL_NS: Constant = assumed(2_000, CALL);

/// IP over InfiniBand, unreliable datagrams.
pub(super) const IPOIB_UD: Tcp = Tcp {
    write_call_ns: CALL_NS,
    read_call_ns: CALL_NS,
    packet_bytes: derived(1_992, "002 test configuration: MTU 2048, less headers"),
    queues: assumed(1, "adapters of the time had one"),
    send_packet_ns: assumed(2_000, SENDING),
    receive_packet_ns: assumed(2_500, PACKET),
    stack_bytes_per_s: assumed(1_200_000_000, STACK),
    interrupt_packets: assumed(4, PACKET),
    copy_stream_bytes_per_s: derived(1_057_000_000, COPIED),
};

/// IP over InfiniBand, connected mode.
pub(super) const IPOIB_CM: Tcp = Tcp {
    packet_bytes: derived(65_464, "002 test configuration: MTU 65520, less headers"),
    send_packet_ns: assumed(4_000, MANY_PAGES),
    receive_packet_ns: assumed(5_000, MANY_PAGES),
    interrupt_packets: assumed(1, PACKET),
    ..IPOIB_UD
};

/// 10 Gigabit Ethernet, the host's stack.
pub(super) const ETHERNET: Tcp = Tcp {
    packet_bytes: derived(8_948, "002 test configuration: MTU 9000, less headers"),
    send_packet_ns: assumed(1_500, SENDING),
    receive_packet_ns: assumed(2_500, PACKET),
    stack_bytes_per_s: assumed(0, OFFLOAD),
    interrupt_packets: assumed(8, PACKET),
    ..IPOIB_UD
};

/// 10 Gigabit Ethernet, the adapter's stack (TOE).
pub(super) const OFFLOADED: Tcp = Tcp {
    packet_bytes: assumed(65_536, "the adapter hands over reassembled data"),
    send_packet_ns: assumed(2_500, MANY_PAGES),
    receive_packet_ns: assumed(4_000, MANY_PAGES),
    interrupt_packets: assumed(1, PACKET),
    ..ETHERNET
};
