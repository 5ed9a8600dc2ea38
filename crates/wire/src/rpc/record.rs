//! Record marking on byte streams (RFC 5531 section 11).

/// Bytes of a fragment's header.
pub const RECORD_MARK_LEN: usize = 4;
/// Longest fragment that a header can announce.
pub const FRAGMENT_MAX: u32 = 0x7fff_ffff;

/// The header of one fragment: whether it is the record's last, and how many bytes follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordMark {
    /// The record ends with this fragment.
    pub last: bool,
    /// Bytes in the fragment, at most [`FRAGMENT_MAX`].
    pub length: u32,
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

    /// Reads it.
    #[inline]
    pub const fn from_bytes(bytes: [u8; 4]) -> RecordMark {
        let word = u32::from_be_bytes(bytes);
        RecordMark {
            last: word & !FRAGMENT_MAX != 0,
            length: word & FRAGMENT_MAX,
        }
    }

    /// Writes it.
    #[inline]
    pub const fn to_bytes(self) -> [u8; 4] {
        let last = if self.last { !FRAGMENT_MAX } else { 0 };
        (last | (self.length & FRAGMENT_MAX)).to_be_bytes()
    }
}

/// Why a stream cannot be cut into records any further; the connection is lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RecordError {
    /// The record's fragments together exceed the limit.
    #[error("record of {length} bytes or more")]
    TooLong {
        /// Bytes announced so far.
        length: u64,
    },
    /// More fragments than any sender needs for so few bytes.
    #[error("more than {limit} fragments in a record")]
    TooManyFragments {
        /// The limit.
        limit: u32,
    },
}

/// What the next bytes of a stream are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecordEvent<'b> {
    /// A fragment begins. The reader now knows how much is left of it.
    Fragment(RecordMark),
    /// Bytes of the current record.
    Piece {
        /// The bytes.
        bytes: &'b [u8],
        /// The record ends behind them.
        ends: bool,
    },
    /// Nothing more can be said without more bytes.
    NeedMore,
}

/// A record at the front of some bytes, and what lies behind it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WholeRecord<'b> {
    /// The record, without its mark.
    pub record: &'b [u8],
    /// The bytes behind it.
    pub rest: &'b [u8],
}

/// Cuts a byte stream into records, wherever the stream was sliced.
///
/// The reader holds counters and no bytes: the caller keeps what an event did not consume.
#[derive(Debug, Clone)]
pub struct RecordReader {
    record_max: u64,
    fragments_max: u32,
    announced: u64,
    fragments: u32,
    left: u32,
    last: bool,
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

    /// The record at the front of `input` if it is there completely and in one fragment.
    /// `None` at any other time: then use [`RecordReader::next`]. The common case, kept short.
    ///
    /// # Errors
    /// The record is too long.
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

    /// Looks at the front of `input` and says what is there and how many bytes it takes.
    ///
    /// # Errors
    /// The record is too long or in too many pieces; close the connection.
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
