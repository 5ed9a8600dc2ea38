//! A file from its start to its end, with several reads in flight.

use super::pipeline::InOrder;
use super::{Error, Objects};
use gannet_runtime::Buffer;
use gannet_vfs::{BytesRead, FileHandle, Vfs};
use std::ops::Range;

/// Part of a file.
#[derive(Debug)]
pub struct Block {
    /// The position of the block, in bytes from the start of the file.
    pub offset: u64,
    /// Memory whose first `len` bytes are the block's; [`Reader::recycle`] takes it back.
    pub buffer: Buffer,
    /// Bytes of the block; never 0.
    pub len: usize,
}

impl Block {
    /// The bytes of the file, without the rest of the buffer.
    pub fn data(&self) -> &[u8] {
        self.buffer.get(..self.len).unwrap_or(&self.buffer)
    }

    /// True when all bytes are zero, as in a hole.
    pub fn is_zero(&self) -> bool {
        is_zero(self.data())
    }
}

/// True when all bytes of `data` are zero. It compares `data` with itself, shifted by one byte, at memcmp's speed.
pub(super) fn is_zero(data: &[u8]) -> bool {
    match data.split_first() {
        None => true,
        Some((first, rest)) => *first == 0 && data.get(..rest.len()) == Some(rest),
    }
}

/// Reads a file block by block, in order, while the reads of the following blocks are under way.
///
/// A range up to `u64::MAX` ends with the file. Call [`Reader::next`] until it gives `None`. Dropping it abandons the
/// reads in flight.
pub struct Reader<V> {
    objects: Objects<V>,
    file: FileHandle,
    /// The bytes that no read was sent for yet.
    ahead: Range<u64>,
    block: u32,
    depth: usize,
    /// Reads that may be in flight now. Where the end of the file is not known it doubles with each block, up to
    /// `depth`: most reads of a full window could lie behind the end.
    window: usize,
    in_flight: InOrder<Result<(BytesRead, Block), Error>>,
    /// The file's length, as it was known last.
    size: Option<u64>,
    free: Vec<Buffer>,
    is_over: bool,
}

impl<V: Vfs> Reader<V> {
    pub(super) fn new(
        objects: Objects<V>,
        file: FileHandle,
        range: Range<u64>,
        block: u32,
        depth: usize,
    ) -> Reader<V> {
        let window = if range.end == u64::MAX { 1 } else { depth };
        Reader {
            objects,
            file,
            ahead: range,
            block,
            depth,
            window,
            in_flight: InOrder::new(),
            size: None,
            free: Vec::new(),
            is_over: false,
        }
    }

    /// The next block; `None` at the end of the range or of the file.
    ///
    /// # Errors
    /// A read failed; the reader is over then.
    pub async fn next(&mut self) -> Result<Option<Block>, Error> {
        if self.is_over {
            return Ok(None);
        }
        while self.in_flight.len() < self.window && !self.ahead.is_empty() && self.may_be_there() {
            let offset = self.ahead.start;
            let count = u64::from(self.block).min(self.ahead.end - offset);
            self.ahead.start = offset.saturating_add(count);
            let count = u32::try_from(count).unwrap_or(self.block);
            let buffer = self
                .free
                .pop()
                .unwrap_or_else(|| Buffer::zeroed(self.block as usize));
            let read = read_block(self.objects.clone(), self.file, offset, count, buffer);
            self.in_flight.start(Box::pin(read)).await;
        }
        match self.in_flight.next().await {
            None => {
                self.is_over = true;
                Ok(None)
            }
            Some(Err(error)) => {
                self.is_over = true;
                Err(error)
            }
            Some(Ok((read, block))) => {
                // Reads behind the end have no use; they end with this reader.
                self.is_over = read.eof;
                self.size = read.attributes.map(|it| it.size).or(self.size);
                self.window = self.depth.min(2 * self.window);
                Ok((block.len > 0).then_some(block))
            }
        }
    }

    /// True if the next read may be sent. Behind the last known end only one is, to see whether the file has grown.
    fn may_be_there(&self) -> bool {
        self.in_flight.len() == 0 || self.size.is_none_or(|size| self.ahead.start < size)
    }

    /// Takes a block's memory back for another read; at most `depth` buffers are kept.
    pub fn recycle(&mut self, buffer: Buffer) {
        if buffer.len() == self.block as usize && self.free.len() < self.depth {
            self.free.push(buffer);
        }
    }
}

async fn read_block<V: Vfs>(
    objects: Objects<V>,
    file: FileHandle,
    offset: u64,
    count: u32,
    buffer: Buffer,
) -> Result<(BytesRead, Block), Error> {
    let (read, buffer) = objects.read_into(&file, offset, count, buffer).await?;
    if read.count > count || (read.count < count && !read.eof) {
        return Err(Error::Malformed("a read of another length"));
    }
    let len = read.count as usize;
    let block = Block {
        offset,
        buffer,
        len,
    };
    Ok((read, block))
}

#[cfg(test)]
mod tests {
    use super::is_zero;

    #[test]
    fn zeros_are_recognised_and_nothing_else() {
        assert!(is_zero(&[]) && is_zero(&[0]) && is_zero(&[0; 4096]));
        assert!(!is_zero(&[1]) && !is_zero(&[7; 4096]));
        for at in [0, 1, 2047, 4095] {
            let mut data = [0; 4096];
            data[at] = 1;
            assert!(!is_zero(&data));
        }
    }
}
