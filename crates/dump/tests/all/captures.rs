//! Common parts of the dump's tests: captures taken apart and put together again in other ways.

#![allow(dead_code)] // each test file uses its part

use gannet_dump::{DumpError, Style, decode};
use std::fs;
use std::path::PathBuf;

/// A packet, from its IP header on.
#[derive(Debug, Clone)]
pub(crate) struct Packet {
    /// Microseconds since the epoch.
    pub(crate) time: u64,
    pub(crate) ip: Vec<u8>,
    /// Bytes it had on the wire, from its IP header on.
    pub(crate) original_len: usize,
}

/// Bytes of an IPv4 and a TCP header without options.
const IPV4_LEN: usize = 20;
const IPV6_LEN: usize = 40;

impl Packet {
    fn payload_at(&self) -> usize {
        let ip = usize::from(self.ip[0] & 15) * 4;
        ip + usize::from(self.ip[ip + 12] >> 4) * 4
    }

    /// Bytes of TCP payload that it carries.
    pub(crate) fn payload_len(&self) -> usize {
        self.ip.len() - self.payload_at()
    }

    /// Addresses and ports, which identify connection and direction.
    pub(crate) fn flow(&self) -> Vec<u8> {
        let ip = usize::from(self.ip[0] & 15) * 4;
        [&self.ip[12..20], &self.ip[ip..ip + 4]].concat()
    }

    /// As [`Packet::flow`], and that of the other direction.
    pub(crate) fn both_flows(&self) -> (Vec<u8>, Vec<u8>) {
        let flow = self.flow();
        let back = [&flow[4..8], &flow[..4], &flow[10..12], &flow[8..10]].concat();
        (flow, back)
    }

    pub(crate) fn is_syn(&self) -> bool {
        let ip = usize::from(self.ip[0] & 15) * 4;
        self.ip[ip + 13] & 2 != 0
    }

    /// A segment of a connection between 10.0.0.1:1000 and 10.0.0.2:2000, without a SYN or ACK.
    pub(crate) fn of_bytes(from_first: bool, sequence: u32, payload: &[u8]) -> Packet {
        let (near, far) = (
            [
                10,
                0,
                0,
                1,
                1000u16.to_be_bytes()[0],
                1000u16.to_be_bytes()[1],
            ],
            [
                10,
                0,
                0,
                2,
                2000u16.to_be_bytes()[0],
                2000u16.to_be_bytes()[1],
            ],
        );
        let (source, target) = if from_first { (near, far) } else { (far, near) };
        let length = u16::try_from(IPV4_LEN + 20 + payload.len()).unwrap();
        let mut ip = vec![0x45, 0];
        ip.extend(length.to_be_bytes());
        ip.extend([0, 0, 0, 0, 64, 6, 0, 0]);
        ip.extend(&source[..4]);
        ip.extend(&target[..4]);
        ip.extend(&source[4..]);
        ip.extend(&target[4..]);
        ip.extend(sequence.to_be_bytes());
        ip.extend([0, 0, 0, 0, 0x50, 0x08, 0xff, 0xff, 0, 0, 0, 0]);
        ip.extend(payload);
        Packet {
            time: 1_700_000_000_000_000,
            original_len: ip.len(),
            ip,
        }
    }

    /// The same with an IPv6 header.
    fn ip6(&self) -> Vec<u8> {
        let ip = usize::from(self.ip[0] & 15) * 4;
        let mut bytes = vec![0x60, 0, 0, 0];
        bytes.extend(u16::try_from(self.ip.len() - ip).unwrap().to_be_bytes());
        bytes.extend([6, 64]);
        for address in [&self.ip[12..16], &self.ip[16..20]] {
            bytes.extend([0xfd; 12]);
            bytes.extend(address);
        }
        assert_eq!(bytes.len(), IPV6_LEN);
        bytes.extend(&self.ip[ip..]);
        bytes
    }
}

/// The header in front of the IP header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Link {
    Ethernet,
    Vlan,
    TwoVlans,
    Cooked,
    Cooked2,
    Raw,
    RawBsd,
    Null,
    Loop,
    /// Ethernet, with IPv6 behind it.
    Ethernet6,
}

impl Link {
    pub(crate) const ALL: [Link; 10] = [
        Link::Ethernet,
        Link::Vlan,
        Link::TwoVlans,
        Link::Cooked,
        Link::Cooked2,
        Link::Raw,
        Link::RawBsd,
        Link::Null,
        Link::Loop,
        Link::Ethernet6,
    ];

    fn number(self) -> u32 {
        match self {
            Link::Null => 0,
            Link::Ethernet | Link::Vlan | Link::TwoVlans | Link::Ethernet6 => 1,
            Link::RawBsd => 12,
            Link::Raw => 101,
            Link::Loop => 108,
            Link::Cooked => 113,
            Link::Cooked2 => 276,
        }
    }

    fn header(self) -> Vec<u8> {
        let macs = [2; 12];
        match self {
            Link::Ethernet => [&macs[..], &[8, 0]].concat(),
            Link::Vlan => [&macs[..], &[0x81, 0, 0, 7, 8, 0]].concat(),
            Link::TwoVlans => [&macs[..], &[0x88, 0xa8, 0, 7, 0x81, 0, 0, 8, 8, 0]].concat(),
            Link::Ethernet6 => [&macs[..], &[0x86, 0xdd]].concat(),
            Link::Cooked => [&[0, 0, 0, 1, 0, 6][..], &[2; 8], &[8, 0]].concat(),
            Link::Cooked2 => [&[8, 0, 0, 0, 0, 0, 0, 1, 0, 1, 0, 6][..], &[2; 8]].concat(),
            Link::Raw | Link::RawBsd => Vec::new(),
            Link::Null => vec![2, 0, 0, 0],
            Link::Loop => vec![0, 0, 0, 2],
        }
    }

    fn frame(self, packet: &Packet) -> (Vec<u8>, usize) {
        let mut frame = self.header();
        if self == Link::Ethernet6 {
            frame.extend(packet.ip6());
        } else {
            frame.extend(&packet.ip);
        }
        let missing = packet.original_len - packet.ip.len();
        let length = frame.len();
        (frame, length + missing)
    }
}

/// The format of a capture file.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Container {
    Pcap { big_endian: bool, nanoseconds: bool },
    PcapNg { big_endian: bool, nanoseconds: bool },
}

impl Container {
    pub(crate) const ALL: [Container; 8] = [
        Container::pcap(false, false),
        Container::pcap(false, true),
        Container::pcap(true, false),
        Container::pcap(true, true),
        Container::pcap_ng(false, false),
        Container::pcap_ng(false, true),
        Container::pcap_ng(true, false),
        Container::pcap_ng(true, true),
    ];

    pub(crate) const fn pcap(big_endian: bool, nanoseconds: bool) -> Container {
        Container::Pcap {
            big_endian,
            nanoseconds,
        }
    }

    const fn pcap_ng(big_endian: bool, nanoseconds: bool) -> Container {
        Container::PcapNg {
            big_endian,
            nanoseconds,
        }
    }
}

/// Writes numbers in one byte order.
struct Writer {
    bytes: Vec<u8>,
    big_endian: bool,
}

impl Writer {
    fn u16(&mut self, value: u16) {
        self.bytes.extend(if self.big_endian {
            value.to_be_bytes()
        } else {
            value.to_le_bytes()
        });
    }

    fn u32(&mut self, value: u32) {
        self.bytes.extend(if self.big_endian {
            value.to_be_bytes()
        } else {
            value.to_le_bytes()
        });
    }

    /// A pcapng block with this body.
    fn block(&mut self, kind: u32, body: impl FnOnce(&mut Writer)) {
        let mut inner = Writer {
            bytes: Vec::new(),
            big_endian: self.big_endian,
        };
        body(&mut inner);
        inner.bytes.resize(inner.bytes.len().next_multiple_of(4), 0);
        let length = u32::try_from(inner.bytes.len() + 12).unwrap();
        self.u32(kind);
        self.u32(length);
        self.bytes.extend(inner.bytes);
        self.u32(length);
    }
}

/// A capture file of these packets.
pub(crate) fn file(packets: &[Packet], container: Container, link: Link) -> Vec<u8> {
    match container {
        Container::Pcap {
            big_endian,
            nanoseconds,
        } => pcap(packets, big_endian, nanoseconds, link),
        Container::PcapNg {
            big_endian,
            nanoseconds,
        } => pcap_ng(packets, big_endian, nanoseconds, link),
    }
}

/// The usual kind.
pub(crate) fn plain(packets: &[Packet]) -> Vec<u8> {
    file(packets, Container::pcap(false, false), Link::Ethernet)
}

fn pcap(packets: &[Packet], big_endian: bool, nanoseconds: bool, link: Link) -> Vec<u8> {
    let mut out = Writer {
        bytes: Vec::new(),
        big_endian,
    };
    out.u32(if nanoseconds {
        0xa1b2_3c4d
    } else {
        0xa1b2_c3d4
    });
    out.u16(2);
    out.u16(4);
    for word in [0, 0, 262_144, link.number()] {
        out.u32(word);
    }
    for packet in packets {
        let (frame, original_len) = link.frame(packet);
        let unit = if nanoseconds { 1000 } else { 1 };
        out.u32(u32::try_from(packet.time / 1_000_000).unwrap());
        out.u32(u32::try_from(packet.time % 1_000_000 * unit).unwrap());
        out.u32(u32::try_from(frame.len()).unwrap());
        out.u32(u32::try_from(original_len).unwrap());
        out.bytes.extend(frame);
    }
    out.bytes
}

fn pcap_ng(packets: &[Packet], big_endian: bool, nanoseconds: bool, link: Link) -> Vec<u8> {
    let mut out = Writer {
        bytes: Vec::new(),
        big_endian,
    };
    out.block(0x0a0d_0d0a, |body| {
        body.u32(0x1a2b_3c4d);
        body.u16(1);
        body.u16(0);
        body.u32(u32::MAX);
        body.u32(u32::MAX);
    });
    // A first interface of another kind, which no packet uses.
    for (number, resolution) in [(147, 6), (link.number(), if nanoseconds { 9 } else { 6 })] {
        out.block(1, |body| {
            body.u16(u16::try_from(number).unwrap());
            body.u16(0);
            body.u32(0);
            body.u16(9);
            body.u16(1);
            body.bytes.extend([resolution, 0, 0, 0]);
            body.u32(0);
        });
    }
    // A block of a kind that is left aside.
    out.block(5, |body| body.bytes.extend([0; 12]));
    for packet in packets {
        let (frame, original_len) = link.frame(packet);
        let ticks = packet.time * if nanoseconds { 1000 } else { 1 };
        out.block(6, |body| {
            body.u32(1);
            body.u32(u32::try_from(ticks >> 32).unwrap());
            body.u32(u32::try_from(ticks & 0xffff_ffff).unwrap());
            body.u32(u32::try_from(frame.len()).unwrap());
            body.u32(u32::try_from(original_len).unwrap());
            body.bytes.extend(frame);
        });
    }
    out.bytes
}

/// A file of `vectors/`.
pub(crate) fn vector(name: &str) -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../vectors")).join(name)
}

/// The packets of a capture in `vectors/`: little-endian, microseconds, Ethernet, IPv4.
pub(crate) fn packets(name: &str) -> Vec<Packet> {
    const ETHERNET_LEN: usize = 14;
    let bytes = fs::read(vector(name)).unwrap();
    let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
    assert_eq!((word(0), word(20)), (0xa1b2_c3d4, 1), "{name}");
    let mut packets = Vec::new();
    let mut at = 24;
    while at < bytes.len() {
        let frame = &bytes[at + 16..][..word(at + 8) as usize];
        let ip = &frame[ETHERNET_LEN..];
        // Short frames are padded; what counts is the length in the IP header.
        let length = usize::from(u16::from_be_bytes([ip[2], ip[3]]));
        packets.push(Packet {
            time: u64::from(word(at)) * 1_000_000 + u64::from(word(at + 4)),
            ip: ip[..length].to_vec(),
            original_len: length,
        });
        at += 16 + frame.len();
    }
    packets
}

/// The output of `gannet dump`, and the reason why it ended early.
pub(crate) fn shown(capture: &[u8], style: Style) -> (String, Result<(), DumpError>) {
    let mut output = Vec::new();
    let ended = decode(capture, style, &mut output);
    (String::from_utf8(output).unwrap(), ended)
}

/// The output of `gannet dump` for a good capture.
pub(crate) fn text(capture: &[u8]) -> String {
    let (text, ended) = shown(capture, Style::default());
    ended.unwrap();
    text
}
