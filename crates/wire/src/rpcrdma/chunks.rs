//! Segments, chunks and the three lists of a header (RFC 8166 sections 3.4 and 4.3).

use crate::xdr::{Decoder, Encoder, XdrError};
use alloc::vec::Vec;
use core::fmt;

/// A segment of a chunk: a piece of the requester's registered memory (`xdr_rdma_segment`, RFC 8166 section 4.1).
///
/// ```text
///  0                   1                   2                   3
///  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// |                            handle                             |
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// |                            length                             |
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// |                            offset                             |
/// +                                                               +
/// |                                                               |
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// ```
///
/// It prints as `handle+length@offset`, handle and offset hexadecimal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Segment {
    /// The key of the registered memory: iWARP's STag.
    pub handle: u32,
    /// Bytes of the segment; in a reply, the bytes that the responder wrote.
    pub length: u32,
    /// The position of the segment's first byte under that key: iWARP's TO.
    pub offset: u64,
}

/// Bytes of an XDR word.
const WORD: usize = 4;
/// Bytes of an encoded [`Segment`].
const SEGMENT_LEN: usize = 4 * WORD;

impl fmt::Display for Segment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:08x}+{}@{:x}", self.handle, self.length, self.offset)
    }
}

impl Segment {
    #[inline]
    fn parse(decoder: &mut Decoder<'_>) -> Result<Segment, XdrError> {
        Ok(Segment {
            handle: decoder.u32()?,
            length: decoder.u32()?,
            offset: decoder.u64()?,
        })
    }

    #[inline]
    fn emit(&self, encoder: &mut Encoder<'_>) {
        encoder.u32(self.handle);
        encoder.u32(self.length);
        encoder.u64(self.offset);
    }
}

/// A segment of the Read list (`xdr_read_chunk`, RFC 8166 section 4.3.1): memory for the responder to read. It prints
/// as `position:segment`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ReadSegment {
    /// The place of the segment's bytes in the unreduced RPC message, in bytes from its start. The segments of one
    /// chunk have the same position; 0 stands for a chunk that holds the whole message.
    pub position: u32,
    /// The memory.
    pub segment: Segment,
}

impl fmt::Display for ReadSegment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.position, self.segment)
    }
}

/// Prints the segments of a Write or Reply chunk: in brackets, a single one without.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Chunk<'a>(pub &'a [Segment]);

impl fmt::Display for Chunk<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let [only] = self.0 {
            return write!(f, "{only}");
        }
        f.write_str("[")?;
        separated(f, self.0)?;
        f.write_str("]")
    }
}

/// Prints `items` with commas between them.
fn separated<T: fmt::Display>(
    f: &mut fmt::Formatter<'_>,
    items: impl IntoIterator<Item = T>,
) -> fmt::Result {
    for (index, item) in items.into_iter().enumerate() {
        let comma = if index > 0 { "," } else { "" };
        write!(f, "{comma}{item}")?;
    }
    Ok(())
}

/// A chunk of the Write list, as a range of [`ChunkLists::write_segments`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct WriteChunk {
    /// Index of its first segment.
    first: usize,
    /// The number of its segments; 0 asks for the result inline.
    count: usize,
}

/// The largest lists that a receiver takes. A message beyond them is refused, not truncated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChunkLimits {
    /// Most segments of the Read list, of all chunks of the Write list together, and of the Reply chunk.
    pub segments_max: usize,
    /// Most chunks of the Write list.
    pub write_chunks_max: usize,
}

/// The three chunk lists of a header (`rpc_rdma_header`, RFC 8166 section 4.3), each as XDR has it:
///
/// ```text
/// Read list:   ( 1 position handle length offset )* 0
/// Write list:  ( 1 count ( handle length offset )* )* 0
/// Reply chunk: 0, or 1 count ( handle length offset )*
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ChunkLists {
    reads: Vec<ReadSegment>,
    write_chunks: Vec<WriteChunk>,
    write_segments: Vec<Segment>,
    has_reply: bool,
    reply_segments: Vec<Segment>,
}

impl ChunkLists {
    /// Three empty lists.
    pub fn new() -> ChunkLists {
        ChunkLists::default()
    }

    /// Empties the lists and keeps their memory.
    #[inline]
    pub fn clear(&mut self) {
        self.reads.clear();
        self.write_chunks.clear();
        self.write_segments.clear();
        self.has_reply = false;
        self.reply_segments.clear();
    }

    /// True when there is no chunk at all.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.reads.is_empty() && self.write_chunks.is_empty() && !self.has_reply
    }

    /// The Read list, in order.
    #[inline]
    pub fn reads(&self) -> &[ReadSegment] {
        &self.reads
    }

    /// The chunks of the Write list, in order, each as its segments.
    #[inline]
    pub fn writes(&self) -> impl ExactSizeIterator<Item = &[Segment]> {
        self.write_chunks.iter().map(|chunk| {
            let end = chunk.first.saturating_add(chunk.count);
            self.write_segments.get(chunk.first..end).unwrap_or(&[])
        })
    }

    /// The segments of all Write chunks, one after the other.
    #[inline]
    pub fn write_segments(&self) -> &[Segment] {
        &self.write_segments
    }

    /// The Reply chunk's segments; `None` without a Reply chunk.
    #[inline]
    pub fn reply(&self) -> Option<&[Segment]> {
        self.has_reply.then_some(self.reply_segments.as_slice())
    }

    /// Appends a segment to the Read list.
    pub fn push_read(&mut self, position: u32, segment: Segment) {
        self.reads.push(ReadSegment { position, segment });
    }

    /// Appends a chunk to the Write list.
    pub fn push_write(&mut self, segments: &[Segment]) {
        let first = self.write_segments.len();
        self.write_segments.extend_from_slice(segments);
        self.write_chunks.push(WriteChunk {
            first,
            count: segments.len(),
        });
    }

    /// Sets the Reply chunk.
    pub fn set_reply(&mut self, segments: &[Segment]) {
        self.has_reply = true;
        self.reply_segments.clear();
        self.reply_segments.extend_from_slice(segments);
    }

    /// Prepares the reply's lists in `echo`: no Read list, and copies of the Write list and the Reply chunk whose
    /// segments have the lengths written (RFC 8166 sections 3.4.6.2 and 4.4). `written` has the bytes that went into
    /// each Write chunk (0 behind its end), `reply_written` those in the Reply chunk; both fill segments in order.
    pub fn echo_into(&self, echo: &mut ChunkLists, written: &[u64], reply_written: u64) {
        echo.clear();
        for (index, chunk) in self.write_chunks.iter().enumerate() {
            let mut left = written.get(index).copied().unwrap_or(0);
            let segments = self
                .write_segments
                .iter()
                .skip(chunk.first)
                .take(chunk.count);
            echo.write_segments
                .extend(segments.map(|segment| consume(segment, &mut left)));
            echo.write_chunks.push(*chunk);
        }
        if self.has_reply {
            let mut left = reply_written;
            echo.has_reply = true;
            echo.reply_segments.extend(
                self.reply_segments
                    .iter()
                    .map(|segment| consume(segment, &mut left)),
            );
        }
    }

    /// The one key that all segments share; `None` when there are none or several.
    pub fn sole_handle(&self) -> Option<u32> {
        let reads = self.reads.iter().map(|read| &read.segment);
        let mut handles = reads
            .chain(&self.write_segments)
            .chain(&self.reply_segments)
            .map(|it| it.handle);
        let first = handles.next()?;
        handles.all(|handle| handle == first).then_some(first)
    }

    /// Bytes of the three lists in a header.
    pub fn encoded_len(&self) -> usize {
        let reads = self.reads.len() * (2 * WORD + SEGMENT_LEN);
        let write_segments = self.write_segments.len() * SEGMENT_LEN;
        let writes = self.write_chunks.len() * 2 * WORD + write_segments;
        let reply = if self.has_reply {
            WORD + self.reply_segments.len() * SEGMENT_LEN
        } else {
            0
        };
        // Each list ends with a word.
        3 * WORD + reads + writes + reply
    }

    /// Takes the three lists off the front of `decoder`, in place of what was held.
    ///
    /// # Errors
    /// The lists then hold a part of what was there.
    ///
    /// - [`XdrError::Short`]: a list ends early.
    /// - [`XdrError::TooLong`]: a list exceeds `limits`.
    /// - [`XdrError::Bool`]: the word in front of an element is neither 0 nor 1.
    pub(super) fn parse(
        &mut self,
        decoder: &mut Decoder<'_>,
        limits: ChunkLimits,
    ) -> Result<(), XdrError> {
        self.clear();
        while decoder.bool()? {
            if self.reads.len() == limits.segments_max {
                return Err(XdrError::TooLong);
            }
            let position = decoder.u32()?;
            self.reads.push(ReadSegment {
                position,
                segment: Segment::parse(decoder)?,
            });
        }
        while decoder.bool()? {
            if self.write_chunks.len() == limits.write_chunks_max {
                return Err(XdrError::TooLong);
            }
            let first = self.write_segments.len();
            let count = parse_chunk(decoder, &mut self.write_segments, limits)?;
            self.write_chunks.push(WriteChunk { first, count });
        }
        if decoder.bool()? {
            self.has_reply = true;
            parse_chunk(decoder, &mut self.reply_segments, limits)?;
        }
        Ok(())
    }

    /// Appends the three lists.
    pub(super) fn emit(&self, encoder: &mut Encoder<'_>) {
        for read in &self.reads {
            encoder.bool(true);
            encoder.u32(read.position);
            read.segment.emit(encoder);
        }
        encoder.bool(false);
        for segments in self.writes() {
            encoder.bool(true);
            emit_chunk(encoder, segments);
        }
        encoder.bool(false);
        encoder.bool(self.has_reply);
        if let Some(segments) = self.reply() {
            emit_chunk(encoder, segments);
        }
    }
}

impl fmt::Display for ChunkLists {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut gap = "";
        if !self.reads.is_empty() {
            f.write_str("read=")?;
            separated(f, &self.reads)?;
            gap = " ";
        }
        if !self.write_chunks.is_empty() {
            write!(f, "{gap}write=")?;
            separated(f, self.writes().map(Chunk))?;
            gap = " ";
        }
        if self.has_reply {
            write!(f, "{gap}reply=")?;
            separated(f, &self.reply_segments)?;
        }
        Ok(())
    }
}

/// A copy of `segment` whose length is the part of `left` bytes that fits it; `left` keeps the rest.
fn consume(segment: &Segment, left: &mut u64) -> Segment {
    let length = u32::try_from(*left).unwrap_or(u32::MAX).min(segment.length);
    *left -= u64::from(length);
    Segment { length, ..*segment }
}

fn parse_chunk(
    decoder: &mut Decoder<'_>,
    segments: &mut Vec<Segment>,
    limits: ChunkLimits,
) -> Result<usize, XdrError> {
    let count = decoder.length(limits.segments_max.saturating_sub(segments.len()))?;
    for _ in 0..count {
        segments.push(Segment::parse(decoder)?);
    }
    Ok(count)
}

fn emit_chunk(encoder: &mut Encoder<'_>, segments: &[Segment]) {
    // The count fits: it comes from a header within ChunkLimits, or from the few segments that an endpoint registers.
    encoder.u32(u32::try_from(segments.len()).unwrap_or(0));
    for segment in segments {
        segment.emit(encoder);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn lists_print_on_a_line() {
        let segment = |handle, length| Segment {
            handle,
            length,
            offset: 0x1000,
        };
        let mut lists = ChunkLists::new();
        assert_eq!(lists.to_string(), "");
        lists.push_write(&[segment(1, 20), segment(2, 30)]);
        lists.push_write(&[segment(3, 40)]);
        assert_eq!(
            lists.to_string(),
            "write=[00000001+20@1000,00000002+30@1000],00000003+40@1000"
        );
        lists.push_read(108, segment(4, 50));
        lists.set_reply(&[segment(5, 60), segment(6, 70)]);
        assert_eq!(
            lists.to_string(),
            "read=108:00000004+50@1000 \
             write=[00000001+20@1000,00000002+30@1000],00000003+40@1000 \
             reply=00000005+60@1000,00000006+70@1000"
        );
    }
}
