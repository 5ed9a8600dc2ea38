//! Record marking on byte streams (RFC 5531 section 11).

use core::fmt;

/// Bytes of a record mark.
pub const RECORD_MARK_LEN: usize = 4;
/// Most bytes of a fragment that a record mark can announce.
pub const FRAGMENT_MAX: u32 = 0x7fff_ffff;
/// The bit of the last fragment.
const LAST_FRAGMENT: u32 = !FRAGMENT_MAX;

/// The record mark, which is the header of each fragment (RFC 5531 section 11):
///
/// ```text
///  0                   1                   2                   3
///  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// |L|                      fragment length                        |
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordMark {
    /// L: the record ends with this fragment.
    pub last: bool,
    /// Bytes of the fragment behind the mark, at most [`FRAGMENT_MAX`].
    pub length: u32,
}

impl fmt::Display for RecordMark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let last = u8::from(self.last);
        write!(f, "RPC record mark last={last} length={}", self.length)
    }
}

impl RecordMark {
    /// The mark of a record sent as one fragment.
    #[inline]
    pub const fn single(length: u32) -> RecordMark {
        RecordMark {
            last: true,
            length: length & FRAGMENT_MAX,
        }
    }

    /// Reads a mark. Every word is one.
    #[inline]
    pub const fn from_bytes(bytes: [u8; RECORD_MARK_LEN]) -> RecordMark {
        let word = u32::from_be_bytes(bytes);
        RecordMark {
            last: word & LAST_FRAGMENT != 0,
            length: word & FRAGMENT_MAX,
        }
    }

    /// Writes the mark.
    #[inline]
    pub const fn to_bytes(self) -> [u8; RECORD_MARK_LEN] {
        let last = if self.last { LAST_FRAGMENT } else { 0 };
        (last | (self.length & FRAGMENT_MAX)).to_be_bytes()
    }
}

/// The reason why a stream cannot be cut into records any further. The caller closes the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RecordError {
    /// The record's fragments together exceed the reader's limit.
    #[error("record of {length} bytes or more")]
    TooLong {
        /// Bytes that the fragments' marks announce so far.
        length: u64,
    },
    /// The record has more fragments than any sender needs for so few bytes.
    #[error("more than {limit} fragments in a record")]
    TooManyFragments {
        /// The reader's limit of fragments in a record.
        limit: u32,
    },
}

/// The meaning of the next bytes of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecordEvent<'b> {
    /// A fragment begins. [`RecordReader::fragment_left`] is its length now.
    Fragment(RecordMark),
    /// Content of the current record.
    Piece {
        /// The content, of one fragment.
        bytes: &'b [u8],
        /// The record ends behind `bytes`.
        ends: bool,
    },
    /// The input ends within a mark, or where content should be.
    NeedMore,
}

/// A record at the front of an input, and the rest of that input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WholeRecord<'b> {
    /// The record without its mark.
    pub record: &'b [u8],
    /// The bytes behind the record.
    pub rest: &'b [u8],
}

/// Cuts a byte stream into records, wherever the stream was sliced.
///
/// The reader holds counters and no bytes: the caller keeps what an event did not consume.
#[derive(Debug, Clone)]
pub struct RecordReader {
    /// Most bytes of a record.
    record_max: u64,
    /// Most fragments of a record.
    fragments_max: u32,
    /// Bytes of the current record that its marks have announced.
    announced: u64,
    /// Fragments of the current record so far.
    fragments: u32,
    /// Bytes of the current fragment still to come.
    left: u32,
    /// The current fragment is the record's last.
    last: bool,
    /// The stream is within a record.
    inside: bool,
}

impl RecordReader {
    /// A reader for records of at most `record_max` bytes in at most `fragments_max` fragments.
    pub const fn new(record_max: u32, fragments_max: u32) -> RecordReader {
        RecordReader {
            record_max: record_max as u64,
            fragments_max,
            announced: 0,
            fragments: 0,
            left: 0,
            last: false,
            inside: false,
        }
    }

    /// True between two records.
    #[inline]
    pub const fn at_boundary(&self) -> bool {
        !self.inside
    }

    /// Bytes of the current fragment still to come.
    #[inline]
    pub const fn fragment_left(&self) -> u32 {
        self.left
    }

    /// True when the current fragment is the record's last.
    #[inline]
    pub const fn in_last_fragment(&self) -> bool {
        self.inside && self.last
    }

    /// The record at the front of `input` if it is there completely and in one fragment. This is the common case, kept
    /// short. `None` at any other time: the caller goes on with [`RecordReader::next`].
    ///
    /// # Errors
    /// [`RecordError::TooLong`]: the fragment is longer than a record may be.
    #[inline]
    pub fn whole<'b>(&self, input: &'b [u8]) -> Result<Option<WholeRecord<'b>>, RecordError> {
        let Some((mark, rest)) = input.split_first_chunk::<RECORD_MARK_LEN>() else {
            return Ok(None);
        };
        if self.inside {
            return Ok(None);
        }
        let mark = RecordMark::from_bytes(*mark);
        if u64::from(mark.length) > self.record_max {
            return Err(RecordError::TooLong {
                length: u64::from(mark.length),
            });
        }
        if !mark.last {
            return Ok(None);
        }
        let split = usize::try_from(mark.length)
            .ok()
            .and_then(|length| rest.split_at_checked(length));
        Ok(split.map(|(record, rest)| WholeRecord { record, rest }))
    }

    /// Takes the next event off the front of `input`; returns it and the bytes that it takes.
    ///
    /// # Errors
    /// - [`RecordError::TooLong`]: the fragments of the record are longer than a record may be.
    /// - [`RecordError::TooManyFragments`]: the record has more fragments than it may have.
    pub fn next<'b>(&mut self, input: &'b [u8]) -> Result<(RecordEvent<'b>, usize), RecordError> {
        if self.inside && (self.left > 0 || self.last) {
            let count = usize::try_from(self.left)
                .unwrap_or(usize::MAX)
                .min(input.len());
            let (bytes, _) = input.split_at_checked(count).unwrap_or((input, &[]));
            if bytes.is_empty() && self.left > 0 {
                return Ok((RecordEvent::NeedMore, 0));
            }
            let ends = self.advance(bytes.len());
            return Ok((RecordEvent::Piece { bytes, ends }, bytes.len()));
        }
        let Some(mark) = input.first_chunk::<RECORD_MARK_LEN>() else {
            return Ok((RecordEvent::NeedMore, 0));
        };
        let mark = RecordMark::from_bytes(*mark);
        self.begin(mark)?;
        Ok((RecordEvent::Fragment(mark), RECORD_MARK_LEN))
    }

    /// Counts `count` bytes of the current fragment that went elsewhere (received straight into their place);
    /// never more than [`RecordReader::fragment_left`]. True when the record ends behind them.
    pub fn advance(&mut self, count: usize) -> bool {
        let count = u32::try_from(count).unwrap_or(u32::MAX).min(self.left);
        self.left -= count;
        let ends = self.inside && self.last && self.left == 0;
        if ends {
            self.inside = false;
            self.announced = 0;
            self.fragments = 0;
        }
        ends
    }

    fn begin(&mut self, mark: RecordMark) -> Result<(), RecordError> {
        self.announced += u64::from(mark.length);
        self.fragments += 1;
        if self.announced > self.record_max {
            return Err(RecordError::TooLong {
                length: self.announced,
            });
        }
        if self.fragments > self.fragments_max {
            return Err(RecordError::TooManyFragments {
                limit: self.fragments_max,
            });
        }
        self.inside = true;
        self.left = mark.length;
        self.last = mark.last;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn a_mark_prints_on_a_line() {
        let mark = RecordMark::from_bytes([0x80, 0, 0, 0x28]);
        assert_eq!(mark.to_string(), "RPC record mark last=1 length=40");
    }
}
