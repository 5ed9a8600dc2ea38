//! The unreduced RPC message from its inline part and its Read chunks (RFC 8166 section 3.4.5). Pure values.

use gannet_wire::rpcrdma::ReadSegment;
use gannet_wire::xdr::pad_len;

/// A Read chunk: the segments that share a position.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ReadChunk {
    /// The offset of its bytes in the unreduced message.
    pub(crate) position: usize,
    /// The index of its first segment in the Read list, and the number of its segments.
    pub(crate) first: usize,
    pub(crate) count: usize,
    /// Bytes in all of them.
    pub(crate) len: usize,
}

/// Groups a Read list into chunks, in the order of their positions.
///
/// `None` for an illegal list: a position that is no multiple of four, more than `len_max` bytes in all, or a chunk
/// whose segments are not together.
pub(crate) fn read_chunks(reads: &[ReadSegment], len_max: usize) -> Option<Vec<ReadChunk>> {
    let mut chunks: Vec<ReadChunk> = Vec::new();
    let mut total = 0usize;
    for (index, read) in reads.iter().enumerate() {
        let position = usize::try_from(read.position).ok()?;
        let len = usize::try_from(read.segment.length).ok()?;
        total = total.checked_add(len).filter(|total| *total <= len_max)?;
        if position % 4 != 0 {
            return None;
        }
        match chunks.last_mut() {
            Some(chunk) if chunk.position == position => {
                chunk.count += 1;
                chunk.len += len;
            }
            _ => chunks.push(ReadChunk {
                position,
                first: index,
                count: 1,
                len,
            }),
        }
    }
    chunks.sort_by_key(|chunk| chunk.position);
    let distinct = chunks.windows(2).all(|pair| match pair {
        [one, other] => one.position != other.position,
        _ => true,
    });
    distinct.then_some(chunks)
}

/// Puts `chunks` (position and bytes, in order of position) into `base` at their positions, each padded to four
/// bytes; a chunk may bring its pad along. `None` when a position lies inside another chunk or past the end.
pub(crate) fn unreduce(base: &[u8], chunks: &[(usize, &[u8])]) -> Option<Vec<u8>> {
    let len = chunks
        .iter()
        .map(|(_, bytes)| bytes.len() + 3)
        .sum::<usize>()
        + base.len();
    let mut message = Vec::with_capacity(len);
    let mut base = base;
    for (position, bytes) in chunks {
        let (before, rest) = base.split_at_checked(position.checked_sub(message.len())?)?;
        message.extend_from_slice(before);
        message.extend_from_slice(bytes);
        message.extend_from_slice([0; 3].get(..pad_len(bytes.len()))?);
        base = rest;
    }
    message.extend_from_slice(base);
    Some(message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use gannet_wire::rpcrdma::Segment;

    fn read(position: u32, length: u32) -> ReadSegment {
        ReadSegment {
            position,
            segment: Segment {
                handle: 1,
                length,
                offset: 0,
            },
        }
    }

    #[test]
    fn segments_of_one_position_are_one_chunk() {
        let reads = [read(0, 100), read(0, 20), read(64, 5)];
        let chunks = read_chunks(&reads, 125).unwrap();
        assert_eq!(
            chunks,
            [
                ReadChunk {
                    position: 0,
                    first: 0,
                    count: 2,
                    len: 120
                },
                ReadChunk {
                    position: 64,
                    first: 2,
                    count: 1,
                    len: 5
                },
            ]
        );
        assert_eq!(read_chunks(&reads, 124), None, "too long");
        assert_eq!(read_chunks(&[read(2, 1)], 100), None, "position");
        assert_eq!(
            read_chunks(&[read(4, 1), read(8, 1), read(4, 1)], 100),
            None,
            "torn"
        );
        assert_eq!(
            read_chunks(&[read(4, u32::MAX), read(4, u32::MAX)], usize::MAX).unwrap()[0].count,
            2
        );
    }

    #[test]
    fn chunks_go_to_their_positions_with_or_without_pad() {
        let base = *b"headtail";
        assert_eq!(
            unreduce(&base, &[(4, b"data1")]).unwrap(),
            b"headdata1\0\0\0tail"
        );
        assert_eq!(
            unreduce(&base, &[(4, b"data1\0\0\0")]).unwrap(),
            b"headdata1\0\0\0tail"
        );
        let two = unreduce(&base, &[(4, b"one\0"), (12, b"two")]);
        assert_eq!(two.unwrap(), b"headone\0tailtwo\0");
        assert_eq!(unreduce(&base, &[]).unwrap(), base);
        assert_eq!(unreduce(&base, &[(12, b"x")]), None, "past the end");
        assert_eq!(
            unreduce(&base, &[(4, b"12345678"), (8, b"x")]),
            None,
            "inside"
        );
    }
}
