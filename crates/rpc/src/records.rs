//! Incoming records of a byte stream, calls and replies alike: small ones are parsed where they were received,
//! and the opaque of a large one is received straight into memory of its own.

use crate::limits::{
    FRAGMENTS_MAX, HEADER_PREFIX_MAX, LARGE_RECORD, LOOKAHEAD_LEN, PAYLOAD_MAX, RECORD_MAX,
};
use gannet_runtime::Buffer;
use gannet_runtime::stream::ByteStream;
use gannet_wire::rpc::{
    RECORD_MARK_LEN, RecordError, RecordEvent, RecordMark, RecordReader, WholeRecord,
};
use gannet_wire::xdr::pad_len;
use std::io::{self, IoSliceMut};

/// Small records after which a connection that received a large one is read in full stages again. In between, reading
/// stops shortly behind each header, so that a payload is not copied out of the stage.
const LARGE_MEMORY: u32 = 32;
/// Bytes behind a payload; a record with more comes in one piece.
const TAIL_MAX: usize = 1024;

/// The receiving half of a connection; `T` is the call whose payload is being received.
pub(crate) struct Records<T> {
    reader: RecordReader,
    pub(crate) state: State<T>,
    /// The beginning of a record that is not complete, or records that a bound holds back.
    pub(crate) partial: Vec<u8>,
    /// Counts down small records since a large one.
    large: u32,
}

pub(crate) enum State<T> {
    Between,
    /// A record in several fragments, or a large one without payload, is put together.
    Assembling(Vec<u8>),
    /// Such a record is complete, and was not taken yet.
    Assembled(Vec<u8>),
    Placing(Box<Placing<T>>),
}

/// A record whose payload is being received apart.
pub(crate) struct Placing<T> {
    pub(crate) owner: T,
    /// The argument or result bytes before the payload and behind it, without the RPC header.
    pub(crate) around: Vec<u8>,
    pub(crate) buffer: Buffer,
    /// Bytes of the payload, which has room in `buffer`.
    pub(crate) len: usize,
    filled: usize,
    pad: usize,
    /// Bytes behind the pad.
    tail: usize,
}

/// The next thing at the front of the input.
pub(crate) enum Event<'a, T> {
    /// Some bytes were taken, and no record is complete.
    More,
    /// A small record, where it was received.
    Small(&'a [u8]),
    /// A record that was put together.
    Assembled(Vec<u8>),
    /// A record with its payload apart.
    Placed(Box<Placing<T>>),
    /// A large record of `length` bytes, of which `body` is the beginning: to be placed or assembled.
    Large { length: usize, body: &'a [u8] },
}

/// Bytes that one system call brought.
pub(crate) struct Arrived {
    pub(crate) placed: usize,
    pub(crate) staged: usize,
}

impl<T> Placing<T> {
    /// The number of bytes behind a payload of `len` bytes and its pad, in a record of `length` bytes whose first
    /// `used` bytes end with the payload's length word. `None` when the record must be received in one piece.
    pub(crate) fn tail_of(length: usize, used: usize, len: usize) -> Option<usize> {
        let tail = length.checked_sub(used + len + pad_len(len));
        tail.filter(|tail| *tail <= TAIL_MAX && len <= PAYLOAD_MAX)
    }

    /// A record whose payload of `len` bytes goes to `buffer`. `around` holds the bytes before the payload, and `tail`
    /// is the result of [`Placing::tail_of`].
    pub(crate) fn new(
        owner: T,
        buffer: Buffer,
        len: usize,
        around: Vec<u8>,
        tail: usize,
    ) -> Placing<T> {
        Placing {
            owner,
            around,
            buffer,
            len,
            filled: 0,
            pad: pad_len(len),
            tail,
        }
    }

    /// Takes the bytes of the record off `input`; returns their number.
    fn feed(&mut self, input: &[u8]) -> usize {
        let mut used = 0;
        if let Some(target) = self.buffer.get_mut(self.filled..self.len) {
            let count = target.len().min(input.len());
            let (target, _) = target.split_at_mut(count);
            target.copy_from_slice(input.get(..count).unwrap_or(&[]));
            self.filled += count;
            used += count;
        }
        let pad = self.pad.min(input.len() - used);
        self.pad -= pad;
        used += pad;
        let (_, rest) = input.split_at(used);
        let (tail, _) = rest.split_at(self.tail.min(rest.len()));
        self.around.extend_from_slice(tail);
        self.tail -= tail.len();
        used + tail.len()
    }

    fn is_complete(&self) -> bool {
        self.filled == self.len && self.pad == 0 && self.tail == 0
    }
}

impl<T> Records<T> {
    pub(crate) fn new() -> Records<T> {
        // Bounded by its type: RECORD_MAX is far below 2^31.
        let record_max = u32::try_from(RECORD_MAX).unwrap_or(u32::MAX);
        Records {
            reader: RecordReader::new(record_max, FRAGMENTS_MAX),
            state: State::Between,
            partial: Vec::new(),
            large: 0,
        }
    }

    /// True when the next byte begins a record.
    pub(crate) fn is_between(&self) -> bool {
        matches!(self.state, State::Between)
    }

    /// Notes that a small record was taken.
    pub(crate) fn took_small(&mut self) {
        self.large = self.large.saturating_sub(1);
    }

    /// One system call: behind the first `kept` bytes of `stage`, or into the payload being received. `None` at the end
    /// of the stream; with `is_tight` little is staged.
    pub(crate) fn read(
        &mut self,
        stream: &dyn ByteStream,
        stage: &mut [u8],
        kept: usize,
        is_tight: bool,
    ) -> io::Result<Option<Arrived>> {
        if let State::Placing(placing) = &mut self.state
            && placing.filled < placing.len
        {
            let ahead = stage.get_mut(..LOOKAHEAD_LEN).unwrap_or(&mut []);
            let target = placing.buffer.get_mut(placing.filled..placing.len);
            let target = target.unwrap_or(&mut []);
            let wanted = target.len();
            let mut slices = [IoSliceMut::new(target), IoSliceMut::new(ahead)];
            let count = stream.try_read_vectored(&mut slices)?;
            let placed = count.min(wanted);
            placing.filled += placed;
            return Ok((count > 0).then_some(Arrived {
                placed,
                staged: count - placed,
            }));
        }
        // More kept bytes than LOOKAHEAD_LEN are a part of a small record: the rest of it comes with one call.
        let window = if is_tight {
            stage.len().min(kept + LOOKAHEAD_LEN)
        } else if self.large > 0 && kept < LOOKAHEAD_LEN {
            LOOKAHEAD_LEN
        } else {
            stage.len()
        };
        let count = stream.try_read(stage.get_mut(kept..window).unwrap_or(&mut []))?;
        Ok((count > 0).then_some(Arrived {
            placed: 0,
            staged: count,
        }))
    }

    /// Takes one event off `input` with the number of its bytes; `None` when more bytes are needed. A caller that does
    /// not use up the bytes of an [`Event::Small`] gets it again.
    pub(crate) fn next<'a>(
        &mut self,
        input: &'a [u8],
    ) -> Result<Option<(usize, Event<'a, T>)>, RecordError> {
        match &mut self.state {
            State::Between => return self.next_record(input),
            State::Assembling(message) => {
                let (event, used) = self.reader.next(input)?;
                match event {
                    RecordEvent::NeedMore => return Ok(None),
                    RecordEvent::Fragment(_) => {}
                    RecordEvent::Piece { bytes, ends } => {
                        message.extend_from_slice(bytes);
                        if ends {
                            self.state = State::Assembled(std::mem::take(message));
                        }
                    }
                }
                return Ok(Some((used, Event::More)));
            }
            State::Assembled(_) => {}
            State::Placing(placing) => {
                let used = placing.feed(input);
                if !placing.is_complete() {
                    return Ok((used > 0).then_some((used, Event::More)));
                }
                if let State::Placing(placing) = std::mem::replace(&mut self.state, State::Between)
                {
                    return Ok(Some((used, Event::Placed(placing))));
                }
            }
        }
        match std::mem::replace(&mut self.state, State::Between) {
            State::Assembled(message) => Ok(Some((0, Event::Assembled(message)))),
            _ => Ok(None),
        }
    }

    fn next_record<'a>(
        &mut self,
        input: &'a [u8],
    ) -> Result<Option<(usize, Event<'a, T>)>, RecordError> {
        if let Some(WholeRecord { record, rest }) = self.reader.whole(input)?
            && record.len() <= LARGE_RECORD
        {
            return Ok(Some((input.len() - rest.len(), Event::Small(record))));
        }
        let Some((mark, body)) = input.split_first_chunk::<RECORD_MARK_LEN>() else {
            return Ok(None);
        };
        let mark = RecordMark::from_bytes(*mark);
        let length = mark.length as usize;
        if !mark.last {
            self.state = State::Assembling(Vec::new());
            return Ok(Some((0, Event::More)));
        }
        if length <= LARGE_RECORD {
            return Ok(None);
        }
        self.large = LARGE_MEMORY;
        let begins = body.len() >= HEADER_PREFIX_MAX;
        Ok(begins.then_some((0, Event::Large { length, body })))
    }
}
