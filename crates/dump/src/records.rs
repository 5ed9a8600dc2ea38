//! One connection of RPC over TCP: records, and the messages in them.

use crate::calls::Calls;
use crate::cutter::{Cut, Cutter, Frame, FrameError, Framing};
use crate::limits::{MESSAGE_KEPT_MAX, RPC_RECORD_MAX};
use crate::line::{Direction, Line, Part};
use crate::nfs::Reading;
use crate::rpc::{self, Described, Message};
use gannet_wire::rpc::{
    CallHeader, CallHeaderError, HEADER_LEN_MAX, RECORD_MARK_LEN, RecordMark, ReplyHeader,
    ReplyHeaderError,
};
use gannet_wire::rpcrdma::ChunkLists;
use gannet_wire::xdr::{Decoder, XdrError};

/// Program numbers in use, of those that IANA gives out (RFC 5531 section 13).
const PROGRAMS: std::ops::Range<u32> = 100_000..500_000;

/// Cuts a stream into fragments of records.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Fragments;

impl Framing for Fragments {
    fn frame_len(&self, bytes: &[u8]) -> Result<Option<usize>, FrameError> {
        let Some(mark) = bytes.first_chunk::<RECORD_MARK_LEN>() else {
            return Ok(None);
        };
        match RecordMark::from_bytes(*mark).length {
            length if length > RPC_RECORD_MAX => Err(FrameError::RecordTooLong { length }),
            length => Ok(Some(RECORD_MARK_LEN + length as usize)),
        }
    }

    /// A record counts as found when its header is that of a call or reply.
    fn starts_frame(&self, bytes: &[u8]) -> Option<bool> {
        let (mark, record) = bytes.split_first_chunk::<RECORD_MARK_LEN>()?;
        let mark = RecordMark::from_bytes(*mark);
        if mark.length > RPC_RECORD_MAX || !mark.length.is_multiple_of(4) {
            return Some(false);
        }
        let length = mark.length as usize;
        let header = record.get(..length.min(HEADER_LEN_MAX)).unwrap_or(record);
        let may_grow = header.len() < length.min(HEADER_LEN_MAX);
        let call = CallHeader::parse(&mut Decoder::new(header));
        let reply = ReplyHeader::parse(&mut Decoder::new(header));
        match (call, reply) {
            (Ok(call), _) => Some(PROGRAMS.contains(&call.program)),
            (_, Ok(_)) => Some(true),
            (
                Err(
                    CallHeaderError::Malformed(XdrError::Short)
                    | CallHeaderError::BadAuth {
                        error: XdrError::Short,
                        ..
                    },
                ),
                _,
            )
            | (_, Err(ReplyHeaderError::Malformed(XdrError::Short)))
                if may_grow =>
            {
                None
            }
            _ => Some(false),
        }
    }
}

/// The record that the fragments so far belong to.
#[derive(Debug, Default)]
struct Record {
    kept: Vec<u8>,
    bytes: u64,
    fragments: u64,
    is_cut: bool,
}

/// One connection.
#[derive(Debug)]
pub(crate) struct Records {
    cutters: [Cutter; 2],
    records: [Record; 2],
    /// Calls by the direction in which they went.
    calls: [Calls; 2],
    verbose: bool,
}

impl Records {
    /// A connection; `from_start` is true if the capture has its beginning.
    pub(crate) fn new(from_start: bool, verbose: bool) -> Records {
        let cutter = || {
            if from_start {
                Cutter::default()
            } else {
                Cutter::lost()
            }
        };
        Records {
            cutters: [cutter(), cutter()],
            records: Default::default(),
            calls: Default::default(),
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
        self.cut(time, direction, lines, |cutter, take| {
            cutter.push(&Fragments, bytes, take);
        });
    }

    /// Bytes of a direction are missing.
    pub(crate) fn push_gap(
        &mut self,
        time: u64,
        direction: Direction,
        bytes: u64,
        lines: &mut Vec<Line>,
    ) {
        self.cut(time, direction, lines, |cutter, take| {
            cutter.push_gap(bytes, take);
        });
    }

    /// A direction is over.
    pub(crate) fn end(&mut self, time: u64, direction: Direction, lines: &mut Vec<Line>) {
        self.cut(time, direction, lines, Cutter::end);
    }

    fn cut(
        &mut self,
        time: u64,
        direction: Direction,
        lines: &mut Vec<Line>,
        push: impl FnOnce(&mut Cutter, &mut dyn FnMut(Cut<'_>)),
    ) {
        let mut cutter = std::mem::take(&mut self.cutters[direction.index()]);
        push(&mut cutter, &mut |cut| match cut {
            Cut::Frame(frame) => self.fragment(time, direction, &frame, lines),
            other => {
                self.records[direction.index()] = Record::default();
                lines.extend(other.remark(time, direction));
            }
        });
        self.cutters[direction.index()] = cutter;
    }

    fn fragment(
        &mut self,
        time: u64,
        direction: Direction,
        frame: &Frame<'_>,
        lines: &mut Vec<Line>,
    ) {
        let Some((mark, bytes)) = frame.bytes.split_first_chunk::<RECORD_MARK_LEN>() else {
            return;
        };
        let record = &mut self.records[direction.index()];
        let length = (frame.total - RECORD_MARK_LEN) as u64;
        let room = MESSAGE_KEPT_MAX.saturating_sub(record.kept.len());
        let kept = bytes.get(..room).unwrap_or(bytes);
        if !record.is_cut {
            record.kept.extend_from_slice(kept);
        }
        record.is_cut |= (kept.len() as u64) < length;
        record.bytes += length;
        record.fragments += 1;
        if RecordMark::from_bytes(*mark).last {
            let record = std::mem::take(record);
            lines.push(self.message(time, direction, &record));
        }
    }

    fn message(&mut self, time: u64, direction: Direction, record: &Record) -> Line {
        let message = Message {
            bytes: &record.kept,
            is_whole: !record.is_cut,
            reading: Reading {
                is_reduced: false,
                verbose: self.verbose,
            },
        };
        let Described { mut parts, latency } = if message.is_reply() {
            rpc::answered(&mut self.calls[direction.opposite().index()], time, message)
        } else {
            let calls = &mut self.calls[direction.index()];
            rpc::called(calls, time, message, &ChunkLists::new())
        };
        parts.extend(latency);
        if record.fragments > 1 {
            let mut part = Part::new("record");
            part.pair("fragments", record.fragments);
            parts.push(part);
        }
        Line {
            direction: Some(direction),
            bytes: Some(record.bytes),
            parts,
            ..Line::new(time, "RPC")
        }
    }
}
