//! Segments, chunks and the three lists of a header (RFC 8166 section 3.4 and 4.3).

use crate::xdr::{Decoder, Encoder, XdrError};
use alloc::vec::Vec;

/// A piece of the requester's registered memory (`xdr_rdma_segment`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Segment {
    /// The key (STag) it was registered under.
    pub handle: u32,
    /// Bytes; in a reply, the bytes that were written.
    pub length: u32,
    /// Where it starts, in the key's own terms.
    pub offset: u64,
}

/// Bytes of an encoded [`Segment`].
const SEGMENT_LEN: usize = 16;

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

/// A segment of the Read list: memory that the responder shall read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ReadSegment {
    /// Where its bytes belong, in bytes from the start of the unreduced RPC message; segments of one chunk share it.
    pub position: u32,
    /// The memory.
    pub segment: Segment,
}

/// A chunk of the Write list, as a range of [`ChunkLists::write_segments`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct WriteChunk {
    /// Index of its first segment.
    pub first: usize,
    /// How many segments it has; 0 asks for the result inline.
    pub count: usize,
}

/// How many of everything a header may have. A message beyond them is refused, not truncated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChunkLimits {
    /// Segments in the Read list, in the Write list over all chunks, and in the Reply chunk: each at most this.
    pub segments_max: usize,
    /// Chunks in the Write list.
    pub write_chunks_max: usize,
}

/// The three chunk lists of a header.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ChunkLists {
    reads: Vec<ReadSegment>,
    write_chunks: Vec<WriteChunk>,
    write_segments: Vec<Segment>,
    reply: Option<()>,
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
        self.reply = None;
        self.reply_segments.clear();
    }

    /// True when there is no chunk at all.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.reads.is_empty() && self.write_chunks.is_empty() && self.reply.is_none()
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

    /// The Reply chunk's segments.
    #[inline]
    pub fn reply(&self) -> Option<&[Segment]> {
        self.reply.map(|()| self.reply_segments.as_slice())
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
        self.reply = Some(());
        self.reply_segments.clear();
        self.reply_segments.extend_from_slice(segments);
    }

    /// Prepares the reply's lists in `echo`: no Read list, the Write list and the Reply chunk copied segment by
    /// segment, with the lengths that say how much was written. `written` gives the bytes that went into each
    /// Write chunk (0 behind its end), `reply_written` those in the Reply chunk; both fill segments in order
    /// (RFC 8166 sections 3.4.6.2 and 4.4).
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
        if self.reply.is_some() {
            let mut left = reply_written;
            echo.reply = Some(());
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

    /// Bytes of their encoding.
    pub fn encoded_len(&self) -> usize {
        let reads = self.reads.len() * (8 + SEGMENT_LEN);
        let writes = self.write_chunks.len() * 8 + self.write_segments.len() * SEGMENT_LEN;
        let reply = self
            .reply
            .map_or(0, |()| 4 + self.reply_segments.len() * SEGMENT_LEN);
        12 + reads + writes + reply
    }

    /// Takes the three lists off the front of `decoder`, in place of what was held.
    ///
    /// # Errors
    /// A list runs past the end or past `limits`; the lists then hold a part of it.
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
            self.reply = Some(());
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
        encoder.bool(self.reply.is_some());
        if let Some(segments) = self.reply() {
            emit_chunk(encoder, segments);
        }
    }
}

/// A copy of `segment` whose length says how many of `left` bytes it took.
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
    // Counts come from headers within ChunkLimits or from our own few segments.
    encoder.u32(u32::try_from(segments.len()).unwrap_or(0));
    for segment in segments {
        segment.emit(encoder);
    }
}
