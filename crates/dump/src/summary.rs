//! The lines around the others: the start of the capture, and the counts of its other contents.

use crate::connection::ConnectionErrors;
use crate::line::Part;
use jiff::Timestamp;

/// Counts of a capture.
#[derive(Debug, Default)]
pub(crate) struct Summary {
    /// Nanoseconds since the epoch: the first packet.
    pub(crate) start: u64,
    pub(crate) packets: u64,
    /// Connections that were shown.
    pub(crate) connections: u32,
    other_connections: u64,
    retransmitted_segments: u64,
    out_of_order_segments: u64,
    missing_bytes: u64,
    /// Packets that the snap length cut.
    pub(crate) cut: u64,
    /// Packets that it cut within their headers.
    pub(crate) headers_cut: u64,
    pub(crate) roce: u64,
    pub(crate) fragments: u64,
    /// Packets of other protocols than TCP.
    pub(crate) other: u64,
    unknown_link_packets: u64,
    /// The link type of the first of those.
    unknown_link_type: Option<i32>,
}

impl Summary {
    /// Counts a connection that is over; `None` stands for one of no interest.
    pub(crate) fn count_connection(&mut self, errors: Option<ConnectionErrors>) {
        let Some(errors) = errors else {
            self.other_connections += 1;
            return;
        };
        self.retransmitted_segments += errors.retransmitted;
        self.out_of_order_segments += errors.out_of_order;
        self.missing_bytes += errors.missing;
    }

    /// Counts a packet of a link type that is not known.
    pub(crate) fn unknown_link(&mut self, link_type: i32) {
        self.unknown_link_packets += 1;
        self.unknown_link_type.get_or_insert(link_type);
    }

    /// The line before the others.
    pub(crate) fn heading(&self) -> String {
        let (seconds, rest) = (self.start / 1_000_000_000, self.start % 1_000_000_000);
        // A time beyond the years of `Timestamp` is shown as the epoch.
        let seconds = i64::try_from(seconds).unwrap_or(0);
        let first = Timestamp::from_second(seconds).unwrap_or_default();
        let shown = first.strftime("%Y-%m-%d %H:%M:%S");
        format!("# first packet {shown}.{:06} UTC", rest / 1000)
    }

    /// The line after the others: the counts that are not 0.
    pub(crate) fn part(&self) -> Part {
        let mut part = Part::new("summary");
        part.pair("packets", self.packets);
        part.pair("connections", self.connections);
        let counts = [
            ("other_connections", self.other_connections),
            ("retransmitted_segments", self.retransmitted_segments),
            ("out_of_order_segments", self.out_of_order_segments),
            ("missing_bytes", self.missing_bytes),
            ("cut_packets", self.cut),
            ("cut_headers", self.headers_cut),
            ("roce_packets_not_decoded", self.roce),
            ("ip_fragments_not_decoded", self.fragments),
            ("other_packets", self.other),
            ("unknown_link_packets", self.unknown_link_packets),
        ];
        for (key, count) in counts.into_iter().filter(|(_, count)| *count > 0) {
            part.pair(key, count);
        }
        if let Some(link_type) = self.unknown_link_type {
            part.pair("link_type", link_type.to_string());
        }
        part
    }
}
