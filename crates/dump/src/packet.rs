//! From a packet's first header to its TCP segment.
//!
//! etherparse parses the headers in its lax mode. That mode accepts packets that the snap length cut, and packets that
//! a network card has yet to segment, whose IP length may be 0.

use crate::capture::Packet;
use etherparse::{EtherType, LaxNetSlice, LaxSlicedPacket, LenSource, TcpSlice, TransportSlice};
use pcap_parser::Linktype;
use std::net::{IpAddr, SocketAddr};

/// The UDP port of RoCE version 2.
const ROCE_PORT: u16 = 4791;
/// `LINKTYPE_RAW` as some BSDs number it.
const RAW_BSD: [Linktype; 2] = [Linktype(12), Linktype(14)];
/// The layout of a Linux cooked header.
#[derive(Clone, Copy)]
struct CookedHeader {
    /// Bytes of the header.
    len: usize,
    /// The position of the EtherType in it.
    ether_type_at: usize,
}

/// Version 1.
const COOKED: CookedHeader = CookedHeader {
    len: 16,
    ether_type_at: 14,
};
/// Version 2.
const COOKED_2: CookedHeader = CookedHeader {
    len: 20,
    ether_type_at: 0,
};
/// Bytes of the address family in front of a BSD loopback packet.
const LOOPBACK_LEN: usize = 4;

/// A TCP segment.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Segment<'a> {
    pub(crate) source: SocketAddr,
    pub(crate) target: SocketAddr,
    pub(crate) sequence: u32,
    /// The sequence number of the next byte that its sender expects; `None` without ACK.
    pub(crate) acknowledged: Option<u32>,
    pub(crate) syn: bool,
    pub(crate) fin: bool,
    pub(crate) rst: bool,
    pub(crate) payload: &'a [u8],
    /// Bytes of payload behind these that were not captured.
    pub(crate) missing: usize,
}

/// The content of a packet.
#[derive(Debug)]
pub(crate) enum Content<'a> {
    /// A segment of a TCP connection.
    Tcp(Segment<'a>),
    /// InfiniBand transport in UDP.
    Roce,
    /// A piece of an IP packet.
    Fragment,
    /// The snap length cut its headers.
    Cut,
    /// The link type is not known here.
    UnknownLink,
    /// Another protocol.
    Other,
}

/// Looks into a packet.
pub(crate) fn content<'a>(packet: &Packet<'a>) -> Content<'a> {
    let data = packet.data;
    let sliced = match packet.link {
        Linktype::ETHERNET => LaxSlicedPacket::from_ethernet(data).ok(),
        Linktype::LINUX_SLL => cooked(data, COOKED),
        Linktype::LINUX_SLL2 => cooked(data, COOKED_2),
        Linktype::NULL | Linktype::LOOP => data.get(LOOPBACK_LEN..).and_then(from_ip),
        Linktype::RAW | Linktype::IPV4 | Linktype::IPV6 => from_ip(data),
        link if RAW_BSD.contains(&link) => from_ip(data),
        _ => return Content::UnknownLink,
    };
    match sliced {
        Some(sliced) => of_sliced(packet, &sliced),
        None if data.len() < packet.original_len => Content::Cut,
        None => Content::Other,
    }
}

fn cooked(data: &[u8], header: CookedHeader) -> Option<LaxSlicedPacket<'_>> {
    let ether_type = data.get(header.ether_type_at..)?.first_chunk::<2>()?;
    let ether_type = EtherType(u16::from_be_bytes(*ether_type));
    let content = data.get(header.len..)?;
    Some(LaxSlicedPacket::from_ether_type(ether_type, content))
}

fn from_ip(data: &[u8]) -> Option<LaxSlicedPacket<'_>> {
    LaxSlicedPacket::from_ip(data).ok()
}

fn of_sliced<'a>(packet: &Packet<'a>, sliced: &LaxSlicedPacket<'a>) -> Content<'a> {
    let is_fragment = sliced.ip_payload().is_some_and(|it| it.fragmented);
    match &sliced.transport {
        Some(TransportSlice::Tcp(tcp)) => {
            tcp_segment(packet, sliced, tcp).map_or(Content::Other, Content::Tcp)
        }
        Some(TransportSlice::Udp(udp))
            if udp.destination_port() == ROCE_PORT || udp.source_port() == ROCE_PORT =>
        {
            Content::Roce
        }
        None if is_fragment => Content::Fragment,
        None if sliced.stop_err.is_some() && packet.data.len() < packet.original_len => {
            Content::Cut
        }
        _ => Content::Other,
    }
}

fn tcp_segment<'a>(
    packet: &Packet<'a>,
    sliced: &LaxSlicedPacket<'a>,
    tcp: &TcpSlice<'a>,
) -> Option<Segment<'a>> {
    let (source, target): (IpAddr, IpAddr) = match sliced.net.as_ref()? {
        LaxNetSlice::Ipv4(ip) => {
            let header = ip.header();
            (
                header.source_addr().into(),
                header.destination_addr().into(),
            )
        }
        LaxNetSlice::Ipv6(ip) => {
            let header = ip.header();
            (
                header.source_addr().into(),
                header.destination_addr().into(),
            )
        }
        LaxNetSlice::Arp(_) => return None,
    };
    Some(Segment {
        source: SocketAddr::new(source, tcp.source_port()),
        target: SocketAddr::new(target, tcp.destination_port()),
        sequence: tcp.sequence_number(),
        acknowledged: tcp.ack().then(|| tcp.acknowledgment_number()),
        syn: tcp.syn(),
        fin: tcp.fin(),
        rst: tcp.rst(),
        payload: tcp.payload(),
        missing: missing(packet, sliced),
    })
}

/// Bytes at the packet's end that the capture does not have.
fn missing(packet: &Packet<'_>, sliced: &LaxSlicedPacket<'_>) -> usize {
    let (declared, captured) = match &sliced.net {
        Some(LaxNetSlice::Ipv4(ip)) => {
            let header = ip.header();
            let extensions = ip
                .extensions()
                .auth
                .as_ref()
                .map_or(0, |auth| auth.slice().len());
            (
                usize::from(header.total_len()),
                header.slice().len() + extensions + ip.payload().payload.len(),
            )
        }
        Some(LaxNetSlice::Ipv6(ip)) => (
            usize::from(ip.header().payload_length()),
            ip.extensions().slice().len() + ip.payload().payload.len(),
        ),
        _ => return 0,
    };
    match sliced.ip_payload() {
        Some(payload) if payload.incomplete => declared.saturating_sub(captured),
        // No length in the IP header: the packet is as long as it was on the wire.
        Some(payload) if payload.len_source == LenSource::Slice => {
            packet.original_len - packet.data.len()
        }
        _ => 0,
    }
}
