//! One TCP connection: the reassembly of its two directions, and the detection of their protocol.

use crate::cutter::Framing;
use crate::iwarp::{Fpdus, Iwarp};
use crate::limits::DETECT_MAX;
use crate::line::{Direction, Line, Part};
use crate::packet::Segment;
use crate::records::{Fragments, Records};
use crate::tcp::{Gap, GapCause, Piece, Reassembly};
use gannet_wire::mpa::{FrameKind, StartupError, StartupFrame};
use std::net::SocketAddr;

/// Ports whose owner is the server, for connections whose beginning is not in the capture.
const SERVER_PORTS: [u16; 3] = [2049, 20049, 111];

/// The protocol of a connection.
#[derive(Debug)]
enum Protocol {
    /// The protocol is not clear yet; the bytes of both directions so far.
    Undecided([Vec<u8>; 2]),
    Iwarp(Box<Iwarp>),
    Rpc(Box<Records>),
    /// Another protocol, which is not shown.
    Other,
}

/// One connection.
#[derive(Debug)]
pub(crate) struct Connection {
    client: SocketAddr,
    server: SocketAddr,
    /// The client's first sequence number, if its SYN was seen.
    first_sequence: Option<u32>,
    /// The time of its first segment in the capture, in nanoseconds since the epoch.
    opened: u64,
    streams: [Reassembly; 2],
    content: Content,
    /// Whether the end of each direction was printed.
    is_closed: [bool; 2],
}

/// The bytes of a connection.
#[derive(Debug)]
struct Content {
    protocol: Protocol,
    /// The first bytes of both directions are in the capture.
    from_start: bool,
    /// Bytes examined while the protocol was not clear.
    examined: usize,
    missing: u64,
    verbose: bool,
}

/// Counts of the errors in the streams of a connection.
#[derive(Debug, Default)]
pub(crate) struct ConnectionErrors {
    pub(crate) retransmitted: u64,
    pub(crate) out_of_order: u64,
    pub(crate) missing: u64,
}

impl Connection {
    /// The connection to which a first segment belongs.
    pub(crate) fn new(time: u64, segment: &Segment<'_>, verbose: bool) -> Connection {
        let from_start = segment.syn;
        let (client, server) = if is_from_client(segment) {
            (segment.source, segment.target)
        } else {
            (segment.target, segment.source)
        };
        Connection {
            client,
            server,
            first_sequence: None,
            opened: time,
            streams: Default::default(),
            content: Content {
                protocol: Protocol::Undecided(Default::default()),
                from_start,
                examined: 0,
                missing: 0,
                verbose,
            },
            is_closed: [false; 2],
        }
    }

    /// True if `segment` opens another connection between the same ends.
    pub(crate) fn is_replaced_by(&self, segment: &Segment<'_>) -> bool {
        let opens = segment.syn && segment.acknowledged.is_none();
        opens && self.first_sequence != Some(segment.sequence)
    }

    /// Takes a segment.
    pub(crate) fn push(&mut self, time: u64, segment: &Segment<'_>, lines: &mut Vec<Line>) {
        if self.is_closed == [true; 2] {
            // The segment was under way when the connection broke, and its receiver drops it.
            return;
        }
        let direction = if segment.source == self.client {
            Direction::ToServer
        } else {
            Direction::ToClient
        };
        let mut sequence = segment.sequence;
        if segment.syn {
            sequence = sequence.wrapping_add(1);
            if direction == Direction::ToServer {
                self.first_sequence = Some(segment.sequence);
            }
            if !self.streams[direction.index()].is_started() {
                self.streams[direction.index()].start(sequence);
            }
        }
        let content = &mut self.content;
        let mut pieces = |direction, piece: Piece<'_>| {
            content.piece(time, direction, piece, lines);
        };
        if let Some(acknowledged) = segment.acknowledged {
            let back = direction.opposite();
            self.streams[back.index()].acknowledge(acknowledged, &mut |piece| pieces(back, piece));
        }
        let stream = &mut self.streams[direction.index()];
        let (payload, missing) = (segment.payload, segment.missing);
        stream.push(sequence, payload, missing, &mut |piece| {
            pieces(direction, piece);
        });
        if segment.fin {
            let length = payload.len() + missing;
            stream.push_fin(sequence.wrapping_add(u32::try_from(length).unwrap_or(0)));
        }
        self.show_ends(time, direction, segment.rst, lines);
    }

    /// Ends both directions: the connection was replaced, or the capture is over.
    pub(crate) fn finish(&mut self, time: u64, lines: &mut Vec<Line>) {
        for direction in Direction::BOTH {
            self.finish_direction(time, direction, lines);
        }
    }

    /// The counts of errors in its streams; `None` unless it carries a known protocol.
    pub(crate) fn errors(&self) -> Option<ConnectionErrors> {
        if matches!(
            self.content.protocol,
            Protocol::Undecided(_) | Protocol::Other
        ) {
            return None;
        }
        let sum = |count: fn(&Reassembly) -> u64| self.streams.iter().map(count).sum();
        Some(ConnectionErrors {
            retransmitted: sum(|stream| stream.retransmitted),
            out_of_order: sum(|stream| stream.out_of_order),
            missing: self.content.missing,
        })
    }

    /// The line that introduces the connection; `None` until it carries a known protocol.
    pub(crate) fn introduction(&self) -> Option<Line> {
        let (protocol, is_midway) = match self.content.protocol {
            Protocol::Iwarp(_) => ("iWARP", !self.content.from_start),
            Protocol::Rpc(_) => ("RPC over TCP", !self.content.from_start),
            Protocol::Undecided(_) | Protocol::Other => return None,
        };
        let mut part = Part::new("open");
        part.pair("client", self.client.to_string());
        part.pair("server", self.server.to_string());
        part.word("protocol", protocol);
        part.flag("midway", is_midway);
        Some(Line {
            parts: vec![part],
            ..Line::new(self.opened, "open")
        })
    }

    fn show_ends(
        &mut self,
        time: u64,
        direction: Direction,
        is_reset: bool,
        lines: &mut Vec<Line>,
    ) {
        let is_shown = self.errors().is_some();
        let ends = |direction, operation| Line {
            direction: Some(direction),
            ..Line::new(time, operation)
        };
        if is_reset && self.is_closed != [true; 2] {
            self.finish(time, lines);
            self.is_closed = [true; 2];
            if is_shown {
                lines.push(ends(direction, "reset"));
            }
        }
        for direction in Direction::BOTH {
            let index = direction.index();
            if self.streams[index].is_ended() && !self.is_closed[index] {
                self.finish_direction(time, direction, lines);
                self.is_closed[index] = true;
                if is_shown {
                    lines.push(ends(direction, "end"));
                }
            }
        }
    }

    fn finish_direction(&mut self, time: u64, direction: Direction, lines: &mut Vec<Line>) {
        let content = &mut self.content;
        self.streams[direction.index()].finish(&mut |piece| {
            content.piece(time, direction, piece, lines);
        });
        match &mut content.protocol {
            Protocol::Iwarp(iwarp) => iwarp.end(time, direction, lines),
            Protocol::Rpc(records) => records.end(time, direction, lines),
            Protocol::Undecided(_) | Protocol::Other => {}
        }
    }
}

impl Content {
    fn piece(&mut self, time: u64, direction: Direction, piece: Piece<'_>, lines: &mut Vec<Line>) {
        match piece {
            Piece::Bytes(bytes) => self.bytes(time, direction, bytes, lines),
            Piece::Gap(gap) => self.gap(time, direction, gap, lines),
        }
    }

    fn bytes(&mut self, time: u64, direction: Direction, bytes: &[u8], lines: &mut Vec<Line>) {
        match &mut self.protocol {
            Protocol::Iwarp(iwarp) => iwarp.push(time, direction, bytes, lines),
            Protocol::Rpc(records) => records.push(time, direction, bytes, lines),
            Protocol::Other => {}
            Protocol::Undecided(held) => {
                held[direction.index()].extend_from_slice(bytes);
                self.examined += bytes.len();
                self.decide(time, direction, lines);
            }
        }
    }

    fn gap(&mut self, time: u64, direction: Direction, gap: Gap, lines: &mut Vec<Line>) {
        self.missing += gap.bytes;
        let mut part = Part::new("gap");
        part.word(
            "cause",
            match gap.cause {
                GapCause::NotCaptured => "not captured",
                GapCause::SnapLength => "cut by the snap length",
            },
        );
        let line = Line {
            direction: Some(direction),
            bytes: Some(gap.bytes),
            parts: vec![part],
            ..Line::new(time, "gap")
        };
        match &mut self.protocol {
            Protocol::Iwarp(iwarp) => {
                lines.push(line);
                iwarp.push_gap(time, direction, gap.bytes, lines);
            }
            Protocol::Rpc(records) => {
                lines.push(line);
                records.push_gap(time, direction, gap.bytes, lines);
            }
            Protocol::Other => {}
            Protocol::Undecided(held) => {
                self.from_start = false;
                held[direction.index()].clear();
            }
        }
    }

    /// Tries to detect the protocol from the bytes of `direction`.
    fn decide(&mut self, time: u64, direction: Direction, lines: &mut Vec<Line>) {
        let Protocol::Undecided(held) = &mut self.protocol else {
            return;
        };
        let bytes = &mut held[direction.index()];
        let found = if self.from_start {
            protocol_at_start(direction, bytes)
        } else {
            protocol_midway(bytes)
        };
        let held = std::mem::take(held);
        self.protocol = match found {
            Guess::Iwarp => Protocol::Iwarp(Box::new(Iwarp::new(self.from_start, self.verbose))),
            Guess::Rpc => Protocol::Rpc(Box::new(Records::new(self.from_start, self.verbose))),
            Guess::Unclear if self.examined <= DETECT_MAX => {
                self.protocol = Protocol::Undecided(held);
                return;
            }
            Guess::Unclear | Guess::Other => Protocol::Other,
        };
        for direction in Direction::BOTH {
            self.bytes(time, direction, &held[direction.index()], lines);
        }
    }
}

/// The protocol that a connection seems to carry.
enum Guess {
    Unclear,
    Iwarp,
    Rpc,
    Other,
}

/// Guesses from the first bytes of a direction.
fn protocol_at_start(direction: Direction, bytes: &[u8]) -> Guess {
    let kind = match direction {
        Direction::ToServer => FrameKind::Request,
        Direction::ToClient => FrameKind::Reply,
    };
    match StartupFrame::parse(kind, bytes) {
        Ok(None) => Guess::Unclear,
        Ok(Some(_)) => Guess::Iwarp,
        Err(StartupError::Key) => match Fragments.starts_frame(bytes) {
            None => Guess::Unclear,
            Some(true) => Guess::Rpc,
            Some(false) => Guess::Other,
        },
        Err(_) => Guess::Iwarp,
    }
}

/// Guesses from a frame of either protocol in the bytes of a direction, and drops the bytes in front of it.
fn protocol_midway(bytes: &mut Vec<u8>) -> Guess {
    let fpdus = Fpdus { crc: None };
    for at in 0..bytes.len() {
        let rest = bytes.get(at..).unwrap_or_default();
        let guesses = (fpdus.starts_frame(rest), Fragments.starts_frame(rest));
        let guess = match guesses {
            (_, Some(true)) => Guess::Rpc,
            (Some(true), _) => Guess::Iwarp,
            (Some(false), Some(false)) => continue,
            _ => Guess::Unclear,
        };
        bytes.drain(..at);
        return guess;
    }
    bytes.clear();
    Guess::Unclear
}

/// True if the sender of a connection's first segment in the capture is the client.
fn is_from_client(segment: &Segment<'_>) -> bool {
    if segment.syn {
        return segment.acknowledged.is_none();
    }
    let (source, target) = (segment.source.port(), segment.target.port());
    let is_server = |port| SERVER_PORTS.contains(&port);
    if is_server(source) == is_server(target) {
        source > target
    } else {
        is_server(target)
    }
}
