//! Decodes captures of NFS over iWARP or TCP, and prints a line per message.
//!
//! Captured packets go through five steps, each in a module of its own: `capture` takes them out of the file, `packet`
//! finds the TCP segment in them, [`tcp`] puts streams together again, `cutter` cuts those into frames, and `iwarp` or
//! `records` makes messages of the frames and describes them. `gannet-wire` decodes the protocols, and its printers
//! give the words of most fields.
//!
//! This crate opens no files and knows no terminals: it reads and writes streams.
//!
//! A capture is untrusted input, often cut short and with holes. Only a damaged file stops the dump. A line reports
//! missing bytes where they are missing, and decoding goes on behind them.
//!
//! First function to read: [`decode`].

mod calls;
mod capture;
mod connection;
mod cutter;
mod iwarp;
mod limits;
mod line;
mod nfs;
mod packet;
mod records;
mod rpc;
mod rpcrdma;
mod summary;
pub mod tcp;

use capture::Capture;
pub use capture::CaptureError;
use connection::Connection;
use limits::CONNECTIONS_MAX;
use line::{HEADING, Line};
use packet::{Content, Segment};
use serde::Serialize;
use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::net::SocketAddr;
use summary::Summary;

/// The form of the output.
#[derive(Debug, Clone, Copy, Default)]
pub struct Style {
    /// Shows every segment, and lists in full.
    pub verbose: bool,
    /// Prints one JSON object per line.
    pub json: bool,
}

/// The reason why a dump ended early. The output written before is valid.
#[derive(Debug, thiserror::Error)]
pub enum DumpError {
    /// The capture cannot be read any further.
    #[error(transparent)]
    Capture(#[from] CaptureError),
    /// The output cannot be written.
    #[error("{0}")]
    Output(io::Error),
}

/// Writes the messages of the capture `input` to `output`. It flushes whenever it needs more input, so that a capture
/// can be watched while it is made.
///
/// # Errors
/// - [`DumpError::Capture`]: the capture cannot be read to its end. All that could be read is written.
/// - [`DumpError::Output`]: the output cannot be written.
pub fn decode(input: impl Read, style: Style, output: &mut impl Write) -> Result<(), DumpError> {
    let mut capture = Capture::new(input);
    let mut dump = Dump::new(style, output);
    let ended = loop {
        match capture.next_buffered() {
            Ok(Some(packet)) => dump.packet(&packet)?,
            Ok(None) => {
                dump.flush()?;
                match capture.refill() {
                    Ok(true) => {}
                    Ok(false) => break Ok(()),
                    Err(error) => break Err(error),
                }
            }
            Err(error) => break Err(error),
        }
    };
    if capture.is_recognized() {
        dump.finish()?;
    }
    Ok(ended?)
}

/// The two ends of a connection, in an order that does not depend on the sender.
type Ends = (SocketAddr, SocketAddr);

/// A connection that is followed.
struct Followed {
    connection: Connection,
    /// The connection's number on the lines; `None` until it carries a known protocol.
    number: Option<u32>,
    /// The connection's place in the order of their opening.
    serial: u64,
}

struct Dump<'a, W> {
    style: Style,
    output: &'a mut W,
    /// The time of the first packet, in nanoseconds since the epoch.
    start: Option<u64>,
    /// The time of the latest packet, in nanoseconds since the epoch.
    now: u64,
    connections: BTreeMap<Ends, Followed>,
    /// Connections by the order in which they were opened.
    order: BTreeMap<u64, Ends>,
    opened: u64,
    summary: Summary,
}

impl<'a, W: Write> Dump<'a, W> {
    fn new(style: Style, output: &'a mut W) -> Dump<'a, W> {
        Dump {
            style,
            output,
            start: None,
            now: 0,
            connections: BTreeMap::new(),
            order: BTreeMap::new(),
            opened: 0,
            summary: Summary::default(),
        }
    }

    fn packet(&mut self, packet: &capture::Packet<'_>) -> Result<(), DumpError> {
        self.now = packet.time.unwrap_or(self.now);
        if self.start.is_none() {
            self.start = Some(self.now);
            self.summary.start = self.now;
            if !self.style.json {
                let heading = self.summary.heading();
                self.write(&format!("{heading}\n{HEADING}"))?;
            }
        }
        self.summary.packets += 1;
        if packet.data.len() < packet.original_len {
            self.summary.cut += 1;
        }
        match packet::content(packet) {
            Content::Tcp(segment) => self.segment(&segment)?,
            Content::Roce => self.roce(packet)?,
            Content::Fragment => self.summary.fragments += 1,
            Content::Cut => self.summary.headers_cut += 1,
            Content::UnknownLink => self.summary.unknown_link(packet.link.0),
            Content::Other => self.summary.other += 1,
        }
        Ok(())
    }

    fn segment(&mut self, segment: &Segment<'_>) -> Result<(), DumpError> {
        let ends = if segment.source <= segment.target {
            (segment.source, segment.target)
        } else {
            (segment.target, segment.source)
        };
        let known = self.connections.get(&ends);
        if known.is_some_and(|known| known.connection.is_replaced_by(segment)) {
            self.forget(ends)?;
        }
        if !self.connections.contains_key(&ends) {
            self.follow(ends, segment)?;
        }
        let mut lines = Vec::new();
        if let Some(followed) = self.connections.get_mut(&ends) {
            followed.connection.push(self.now, segment, &mut lines);
        }
        self.show(ends, lines)
    }

    /// Begins to follow a connection, and gives up the oldest if there are too many.
    fn follow(&mut self, ends: Ends, segment: &Segment<'_>) -> Result<(), DumpError> {
        if self.connections.len() >= CONNECTIONS_MAX
            && let Some((_, oldest)) = self.order.pop_first()
        {
            self.forget(oldest)?;
        }
        let followed = Followed {
            connection: Connection::new(self.now, segment, self.style.verbose),
            number: None,
            serial: self.opened,
        };
        self.order.insert(self.opened, ends);
        self.opened += 1;
        self.connections.insert(ends, followed);
        Ok(())
    }

    /// Ends a connection: it was replaced, or the capture is over.
    fn forget(&mut self, ends: Ends) -> Result<(), DumpError> {
        let mut lines = Vec::new();
        if let Some(followed) = self.connections.get_mut(&ends) {
            followed.connection.finish(self.now, &mut lines);
        }
        self.show(ends, lines)?;
        if let Some(followed) = self.connections.remove(&ends) {
            self.order.remove(&followed.serial);
            self.summary.count_connection(followed.connection.errors());
        }
        Ok(())
    }

    /// Shows the lines of a connection, behind its introduction.
    fn show(&mut self, ends: Ends, lines: Vec<Line>) -> Result<(), DumpError> {
        if lines.is_empty() {
            return Ok(());
        }
        let Some(followed) = self.connections.get_mut(&ends) else {
            return Ok(());
        };
        let number = followed.number;
        let introduction = followed
            .connection
            .introduction()
            .filter(|_| number.is_none());
        if introduction.is_some() {
            self.summary.connections += 1;
            followed.number = Some(self.summary.connections);
        }
        let connection = followed.number.unwrap_or(0);
        for line in introduction.into_iter().chain(lines) {
            self.write_line(&Line { connection, ..line })?;
        }
        Ok(())
    }

    fn roce(&mut self, packet: &capture::Packet<'_>) -> Result<(), DumpError> {
        self.summary.roce += 1;
        if !self.style.verbose {
            return Ok(());
        }
        let mut part = line::Part::new("note");
        part.word("note", "RoCE packet, not decoded");
        self.write_line(&Line {
            bytes: Some(packet.original_len as u64),
            parts: vec![part],
            ..Line::new(self.now, "RoCE")
        })
    }

    fn finish(mut self) -> Result<(), DumpError> {
        while let Some((_, ends)) = self.order.pop_first() {
            self.forget(ends)?;
        }
        let mut summary = self.summary.part();
        let text = if self.style.json {
            summary.pair("first_packet_ns", self.summary.start);
            json(&BTreeMap::from([("summary", &summary)]))
        } else {
            format!("# {summary}")
        };
        self.write(&text)?;
        self.flush()
    }

    fn write_line(&mut self, line: &Line) -> Result<(), DumpError> {
        let start = self.start.unwrap_or(self.now);
        let text = if self.style.json {
            json(&line.json(start))
        } else {
            line.text(start)
        };
        self.write(&text)
    }

    fn write(&mut self, text: &str) -> Result<(), DumpError> {
        writeln!(self.output, "{text}").map_err(DumpError::Output)
    }

    fn flush(&mut self) -> Result<(), DumpError> {
        self.output.flush().map_err(DumpError::Output)
    }
}

/// JSON of values that JSON can express without exception.
fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).unwrap_or_default()
}
