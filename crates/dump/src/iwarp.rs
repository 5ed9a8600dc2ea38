//! One iWARP connection: startup frames, FPDUs, the RDMAP messages that they make, and the RPC messages in those.

mod assembly;
mod framing;
mod words;

use crate::cutter::{Cut, Cutter, Frame};
use crate::limits::READS_MAX;
use crate::line::{Direction, Line, Part};
use crate::rpc::Described;
use crate::rpcrdma::RpcRdma;
use assembly::{Assembly, Segment};
pub(crate) use framing::Fpdus;
use gannet_wire::Hex;
use gannet_wire::ddp::{DdpHeader, DdpHeaderError, STag, Tagged, TaggedLocation, Untagged};
use gannet_wire::mpa::{FrameKind, LENGTH_LEN, StartupError, StartupFrame, strip_markers};
use gannet_wire::rdmap::{
    AuthenticatedReadRequest, ControlError, Opcode, READ_REQUEST_LEN, ReadException, ReadRequest,
};
use gannet_wire::rpcrdma::PrivateData;
use std::collections::VecDeque;
use words::PAYLOAD_SHOWN;

/// The error of a message of which the capture has only the front.
const NOT_CAPTURED: &str = "not captured";
/// The error of an answer to a Read Request that the capture does not have.
const READ_REQUEST_NOT_SEEN: &str = "its Read Request was not seen";

/// A Read Request that waits for its answer.
#[derive(Debug)]
struct OutstandingRead {
    msn: u32,
    request: ReadRequest,
}

/// The state of one direction.
#[derive(Debug, Default)]
struct Stream {
    /// The bytes so far of an incomplete startup frame; `None` in full operation.
    startup: Option<Vec<u8>>,
    cutter: Cutter,
    /// Position in full operation, markers counted; `None` when the direction has no markers.
    marked: Option<u64>,
    tagged: Option<Assembly>,
    untagged: Option<Assembly>,
    reads: VecDeque<OutstandingRead>,
}

/// One connection.
#[derive(Debug)]
pub(crate) struct Iwarp {
    streams: [Stream; 2],
    crc: Option<bool>,
    rpc: RpcRdma,
    verbose: bool,
}

impl Iwarp {
    /// A connection; `from_start` is true if the capture has its beginning.
    pub(crate) fn new(from_start: bool, verbose: bool) -> Iwarp {
        let stream = || Stream {
            startup: from_start.then(Vec::new),
            cutter: if from_start {
                Cutter::default()
            } else {
                Cutter::lost()
            },
            ..Stream::default()
        };
        Iwarp {
            streams: [stream(), stream()],
            crc: None,
            rpc: RpcRdma::new(verbose),
            verbose,
        }
    }

    /// The next bytes of a direction, of which the last were captured at `time`.
    pub(crate) fn push(
        &mut self,
        time: u64,
        direction: Direction,
        bytes: &[u8],
        lines: &mut Vec<Line>,
    ) {
        if self.streams[direction.index()].startup.is_none() {
            return self.push_full(time, direction, bytes, lines);
        }
        let rest = self.push_startup(time, direction, bytes, lines);
        if !rest.is_empty() {
            self.push_full(time, direction, &rest, lines);
        }
    }

    /// Bytes of a direction are missing.
    pub(crate) fn push_gap(
        &mut self,
        time: u64,
        direction: Direction,
        bytes: u64,
        lines: &mut Vec<Line>,
    ) {
        let stream = &mut self.streams[direction.index()];
        if stream.startup.take().is_some() {
            stream.cutter = Cutter::lost();
        }
        let missing = match &mut stream.marked {
            None => bytes,
            Some(position) => {
                let end = position.saturating_add(bytes);
                let missing = framing::unmarked(end) - framing::unmarked(*position);
                *position = end;
                missing
            }
        };
        self.cut(time, direction, lines, |cutter, _, take| {
            cutter.push_gap(missing, take);
        });
    }

    /// A direction is over.
    pub(crate) fn end(&mut self, time: u64, direction: Direction, lines: &mut Vec<Line>) {
        self.cut(time, direction, lines, |cutter, _, take| cutter.end(take));
        let stream = &mut self.streams[direction.index()];
        let unfinished = [stream.tagged.take(), stream.untagged.take()];
        for assembly in unfinished.iter().flatten() {
            self.unfinished(time, direction, assembly, lines);
        }
    }

    /// Adds to the startup frame of a direction; returns the bytes behind it.
    fn push_startup(
        &mut self,
        time: u64,
        direction: Direction,
        bytes: &[u8],
        lines: &mut Vec<Line>,
    ) -> Vec<u8> {
        let (kind, operation) = match direction {
            Direction::ToServer => (FrameKind::Request, "MPA request"),
            Direction::ToClient => (FrameKind::Reply, "MPA reply"),
        };
        let stream = &mut self.streams[direction.index()];
        let mut held = stream.startup.take().unwrap_or_default();
        held.extend_from_slice(bytes);
        let mut line = Line::new(time, operation);
        line.direction = Some(direction);
        match StartupFrame::parse(kind, &held) {
            Ok(None) => {
                stream.startup = Some(held);
                Vec::new()
            }
            Ok(Some((frame, used))) => {
                line.bytes = Some(used as u64);
                line.parts = words::startup(&frame);
                lines.push(line);
                self.take_startup(&frame);
                held.split_off(used)
            }
            Err(error) => {
                stream.cutter = Cutter::lost();
                let mut part = Part::new("mpa");
                part.word("error", error.to_string());
                if error == StartupError::Key {
                    let begins = held.get(..PAYLOAD_SHOWN).unwrap_or(&held);
                    part.pair("begins", Hex(begins).to_string());
                }
                line.parts = vec![part];
                lines.push(line);
                Vec::new()
            }
        }
    }

    fn take_startup(&mut self, frame: &StartupFrame<'_>) {
        if PrivateData::find(frame.private_data).is_some() {
            self.rpc.announce();
        }
        // CRCs are used both ways when either side wants them; markers in what the side that wants them receives.
        self.crc = Some(self.crc == Some(true) || frame.crc);
        let received = match frame.kind {
            FrameKind::Request => Direction::ToClient,
            FrameKind::Reply => Direction::ToServer,
        };
        if frame.markers && !frame.rejected {
            self.streams[received.index()].marked = Some(0);
        }
    }

    /// Takes bytes of full operation.
    fn push_full(&mut self, time: u64, direction: Direction, bytes: &[u8], lines: &mut Vec<Line>) {
        let stream = &mut self.streams[direction.index()];
        let mut stripped = Vec::new();
        let bytes = match &mut stream.marked {
            None => bytes,
            Some(position) => {
                strip_markers(*position, bytes, &mut stripped);
                *position = position.wrapping_add(bytes.len() as u64);
                &stripped
            }
        };
        self.cut(time, direction, lines, |cutter, framing, take| {
            cutter.push(framing, bytes, take);
        });
    }

    /// Lets `push` work on the cutter of a direction, and takes the frames that it cuts.
    fn cut(
        &mut self,
        time: u64,
        direction: Direction,
        lines: &mut Vec<Line>,
        push: impl FnOnce(&mut Cutter, &Fpdus, &mut dyn FnMut(Cut<'_>)),
    ) {
        let mut cutter = std::mem::take(&mut self.streams[direction.index()].cutter);
        let framing = Fpdus { crc: self.crc };
        push(&mut cutter, &framing, &mut |cut| match cut {
            Cut::Frame(frame) => self.frame(time, direction, &frame, lines),
            other => lines.extend(other.remark(time, direction)),
        });
        self.streams[direction.index()].cutter = cutter;
    }

    /// An FPDU, or its front.
    fn frame(&mut self, time: u64, direction: Direction, frame: &Frame<'_>, lines: &mut Vec<Line>) {
        let is_marked = self.streams[direction.index()].marked.is_some();
        let crc = Fpdus { crc: self.crc }.check(frame, is_marked);
        let ulpdu_len = framing::ulpdu_len(frame.bytes);
        let end = frame.bytes.len().min(LENGTH_LEN + ulpdu_len);
        let ulpdu = frame.bytes.get(LENGTH_LEN..end).unwrap_or_default();
        let (header, payload, opcode) = match headers(ulpdu) {
            Ok(parsed) => parsed,
            Err(error) => {
                let mut part = Part::new("ddp");
                if frame.is_whole {
                    part.word("error", error.to_string());
                } else {
                    part.word("error", "headers not captured");
                }
                return lines.push(Line {
                    direction: Some(direction),
                    crc: Some(crc),
                    bytes: Some(ulpdu_len as u64),
                    parts: vec![part],
                    ..Line::new(time, "FPDU")
                });
            }
        };
        let segment = Segment {
            time,
            direction,
            header,
            opcode,
            payload,
            payload_len: ulpdu_len - header.encoded_len().min(ulpdu_len),
            crc,
        };
        self.segment(&segment, lines);
    }

    /// Adds a segment to its message.
    fn segment(&mut self, segment: &Segment<'_>, lines: &mut Vec<Line>) {
        let Segment {
            time,
            direction,
            header,
            opcode,
            ..
        } = *segment;
        let completed = self.place(segment);
        let stream = &mut self.streams[direction.index()];
        let slot = if header.is_tagged() {
            &mut stream.tagged
        } else {
            &mut stream.untagged
        };
        let mut assembly = match slot.take() {
            Some(assembly) if assembly.is_continued_by(opcode, &header) => assembly,
            interrupted => {
                if let Some(assembly) = interrupted {
                    self.unfinished(time, direction, &assembly, lines);
                }
                segment.begin()
            }
        };
        assembly.add(segment);
        if header.is_last() {
            self.deliver(time, direction, assembly, lines);
            lines.extend(completed);
            return;
        }
        if self.verbose {
            lines.push(segment.line());
        }
        let stream = &mut self.streams[direction.index()];
        if header.is_tagged() {
            stream.tagged = Some(assembly);
        } else {
            stream.untagged = Some(assembly);
        }
    }

    /// Hands the payload of a tagged segment to RPC, which may have offered the memory. Returns a line for the call
    /// that is complete with it.
    fn place(&mut self, segment: &Segment<'_>) -> Option<Line> {
        let DdpHeader::Tagged(header) = segment.header else {
            return None;
        };
        let (opposite, direction) = (segment.direction.opposite(), segment.direction);
        let (caller, memory) = match segment.opcode {
            Opcode::Write => (opposite, header.location()),
            _ => {
                let read =
                    &self.streams[opposite.index()].reads[self.read_for(direction, header)?];
                let done = header.offset.0.wrapping_sub(read.request.sink_offset.0);
                let source = TaggedLocation {
                    stag: read.request.source_stag,
                    offset: read.request.source_offset.advanced_by(done),
                };
                (direction, source)
            }
        };
        self.rpc
            .place(segment.time, caller, memory, segment.payload)
    }

    /// The index of the waiting Read whose sink a Read Response with `header` fills; the response goes in `direction`.
    /// Requests come in order, but the capture may not have all of them.
    fn read_for(&self, direction: Direction, header: Tagged) -> Option<usize> {
        let reads = &self.streams[direction.opposite().index()].reads;
        reads.iter().position(|read| {
            let request = &read.request;
            let at = header.offset.0.wrapping_sub(request.sink_offset.0);
            request.sink_stag == header.stag && (at == 0 || at < u64::from(request.size))
        })
    }

    /// Shows a message whose last segment has come.
    fn deliver(
        &mut self,
        time: u64,
        direction: Direction,
        assembly: Assembly,
        lines: &mut Vec<Line>,
    ) {
        let mut line = assembly.line(time, direction);
        match assembly.first {
            DdpHeader::Tagged(header) => {
                let mut part = words::tagged(&header);
                if assembly.segments > 1 {
                    part.pair("segments", assembly.segments);
                }
                if assembly.opcode == Opcode::ReadResponse {
                    self.answer_read(direction, &assembly, &mut part);
                }
                line.parts.push(part);
            }
            DdpHeader::Untagged(header) => {
                line.parts = self.untagged(time, direction, &header, &assembly);
            }
        }
        lines.push(line);
    }

    /// Takes the Read that a Read Response answers off its queue, and those before it, whose responses the capture does
    /// not have.
    fn answer_read(&mut self, direction: Direction, assembly: &Assembly, part: &mut Part) {
        let found = match assembly.first {
            DdpHeader::Tagged(header) => self.read_for(direction, header),
            DdpHeader::Untagged(_) => None,
        };
        let reads = &mut self.streams[direction.opposite().index()].reads;
        let Some(read) = found.and_then(|index| reads.drain(..=index).next_back()) else {
            part.word("error", READ_REQUEST_NOT_SEEN);
            return;
        };
        part.pair("for_read", u64::from(read.msn));
        if u64::from(read.request.size) != assembly.bytes {
            part.pair("asked", read.request.size);
        }
    }

    fn untagged(
        &mut self,
        time: u64,
        direction: Direction,
        header: &Untagged,
        assembly: &Assembly,
    ) -> Vec<Part> {
        let mut part = Part::new("rdmap");
        if assembly.opcode.invalidates() {
            part.pair("invalidates", STag(header.ulp_word).to_string());
        }
        if assembly.segments > 1 {
            part.pair("segments", assembly.segments);
        }
        if Some(header.queue) != assembly.opcode.queue() {
            part.pair("queue", header.queue.0);
        }
        if header.offset.0 > 0 {
            part.pair("offset", header.offset.0);
            part.word("error", "its first segment was not seen");
            return vec![part];
        }
        match assembly.opcode {
            Opcode::ReadRequest => {
                if let Some(bytes) = fields::<READ_REQUEST_LEN>(assembly, &mut part) {
                    let request = ReadRequest::from_bytes(bytes);
                    self.read_request(direction, header, request, &mut part);
                }
            }
            Opcode::AuthenticatedReadRequest => {
                if let Some(bytes) = fields(assembly, &mut part) {
                    let request = AuthenticatedReadRequest::from_bytes(bytes);
                    self.read_request(direction, header, request.read, &mut part);
                    part.pair("timestamp", request.timestamp);
                }
            }
            Opcode::ReadException => self.read_exception(direction, assembly, &mut part),
            Opcode::Terminate => words::terminate(&assembly.kept, &mut part),
            _ => {
                let (kept, is_whole) = (&assembly.kept, assembly.is_whole);
                let described = self.rpc.message(time, direction, kept, is_whole);
                let Described { mut parts, latency } = described.unwrap_or_else(|| {
                    let shown = kept.get(..PAYLOAD_SHOWN).unwrap_or(kept);
                    let mut payload = Part::new("payload");
                    payload.pair("begins", Hex(shown).to_string());
                    Described::untimed(vec![payload])
                });
                if !part.is_empty() {
                    parts.push(part);
                }
                parts.extend(latency);
                return parts;
            }
        }
        vec![part]
    }

    fn read_request(
        &mut self,
        direction: Direction,
        header: &Untagged,
        request: ReadRequest,
        part: &mut Part,
    ) {
        part.pair("size", request.size);
        part.pair("source", request.source().to_string());
        part.pair("sink", request.sink().to_string());
        let reads = &mut self.streams[direction.index()].reads;
        if reads.len() == READS_MAX {
            reads.pop_front();
        }
        reads.push_back(OutstandingRead {
            msn: header.msn.0,
            request,
        });
    }

    /// Takes the refused Read off its queue, by the sink that the exception names, and those before it.
    fn read_exception(&mut self, direction: Direction, assembly: &Assembly, part: &mut Part) {
        let exception = match ReadException::parse(&assembly.kept) {
            Ok(exception) => exception,
            Err(error) => {
                if assembly.is_whole {
                    part.word("error", error.to_string());
                } else {
                    part.word("error", NOT_CAPTURED);
                }
                return;
            }
        };
        let sink = exception.sink();
        part.word("reason", exception.reason.to_string());
        part.pair("sink", sink.to_string());
        let reads = &mut self.streams[direction.opposite().index()].reads;
        let found = reads.iter().position(|read| read.request.sink() == sink);
        match found.and_then(|index| reads.drain(..=index).next_back()) {
            Some(read) => part.pair("for_read", u64::from(read.msn)),
            None => part.word("error", READ_REQUEST_NOT_SEEN),
        };
    }

    /// Shows a message of which the capture does not have the end.
    fn unfinished(
        &self,
        time: u64,
        direction: Direction,
        assembly: &Assembly,
        lines: &mut Vec<Line>,
    ) {
        let mut line = assembly.line(time, direction);
        let mut part = match &assembly.first {
            DdpHeader::Tagged(header) => words::tagged(header),
            DdpHeader::Untagged(_) => Part::new("rdmap"),
        };
        part.pair("segments", assembly.segments);
        part.word("error", "its last segment was not seen");
        line.parts.push(part);
        lines.push(line);
    }
}

/// The front of a message with the fields of its kind; if they are missing, the error in `part`.
fn fields<'a, const LEN: usize>(assembly: &'a Assembly, part: &mut Part) -> Option<&'a [u8; LEN]> {
    let found = assembly.kept.first_chunk::<LEN>();
    if found.is_none() {
        if assembly.is_whole {
            part.word("error", "too short for a Read Request");
        } else {
            part.word("error", NOT_CAPTURED);
        }
    }
    found
}

/// The reason why a segment cannot be read.
#[derive(Debug, thiserror::Error)]
enum SegmentError {
    #[error(transparent)]
    Ddp(#[from] DdpHeaderError),
    #[error(transparent)]
    Rdmap(#[from] ControlError),
}

/// Splits a ULPDU into its header and payload, and reads the header's opcode.
fn headers(ulpdu: &[u8]) -> Result<(DdpHeader, &[u8], Opcode), SegmentError> {
    let (header, payload) = DdpHeader::parse(ulpdu)?;
    let opcode = Opcode::parse(header.ulp_control())?;
    Ok((header, payload, opcode))
}
