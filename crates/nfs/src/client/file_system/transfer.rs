//! READ and WRITE of ranges that may be longer than one call of the server takes: their parts run concurrently.

use super::NfsFs;
use crate::client::{Client, Error, WriteOutcome};
use gannet_runtime::{Buffer, LocalFuture, all};
use gannet_vfs::{Attributes, BytesRead, FileHandle, ReadReply, Stability, WriteDone, in_memory};
use std::ops::Range;

/// READs of this many bytes and more use buffers of the arena.
const KEPT_MIN: usize = 64 << 10;

impl NfsFs {
    pub(super) async fn read_range(
        &self,
        client: &Client,
        file: &FileHandle,
        offset: u64,
        count: u32,
    ) -> Result<ReadReply, Error> {
        let block = self.sizes.read_preferred;
        let (read, buffer) = if count <= block {
            let buffer = self.buffer(count as usize);
            read_block(client, file, offset, count, buffer).await?
        } else {
            self.read_parts(client, file, offset, count, block).await?
        };
        let attributes = match read.attributes {
            Some(attributes) => attributes,
            None => client.getattr(file).await?,
        };
        Ok(ReadReply {
            file: in_memory(offset, buffer, read.count as usize),
            count: read.count,
            eof: read.eof,
            attributes,
        })
    }

    /// Memory for `len` bytes: a slot of the arena if it fits exactly.
    fn buffer(&self, len: usize) -> Buffer {
        let fits = len >= KEPT_MIN && len == self.arena.slot_len();
        let slot = fits.then(|| self.arena.take()).flatten();
        slot.unwrap_or_else(|| Buffer::zeroed(len))
    }

    async fn read_parts(
        &self,
        client: &Client,
        file: &FileHandle,
        offset: u64,
        count: u32,
        block: u32,
    ) -> Result<(BytesRead, Buffer), Error> {
        let starts = (0..count).step_by(block as usize);
        let reads = starts.map(|start| {
            let part_len = block.min(count - start);
            let at = offset.saturating_add(u64::from(start));
            let buffer = self.buffer(part_len as usize);
            Box::pin(read_block(client, file, at, part_len, buffer))
        });
        let mut bytes = Vec::with_capacity(count as usize);
        let mut whole = BytesRead {
            count: 0,
            eof: false,
            attributes: None,
        };
        for part in all(reads).await {
            let (part, buffer) = part?;
            if !whole.eof {
                bytes.extend_from_slice(buffer.get(..part.count as usize).unwrap_or_default());
                whole = BytesRead {
                    count: whole.count + part.count,
                    ..part
                };
            }
        }
        Ok((whole, Buffer::from_vec(bytes)))
    }

    pub(super) async fn write_range(
        &self,
        client: &Client,
        file: &FileHandle,
        offset: u64,
        data: Buffer,
        range: Range<usize>,
        stability: Stability,
    ) -> Result<(WriteDone, Option<Attributes>, Buffer), Error> {
        let block = self.sizes.write_max;
        let len = u32::try_from(range.len()).unwrap_or(u32::MAX);
        if range.start == 0 && len <= block {
            let done = client.write(file, offset, data, len, stability).await?;
            return Ok((outcome(&done), done.attributes, done.buffer));
        }
        let bytes = data.get(range).unwrap_or_default();
        let starts = (0..).step_by(block as usize);
        let writes = bytes
            .chunks(block as usize)
            .zip(starts)
            .map(|(part, start)| {
                let (client, file, part) = (client.clone(), *file, Buffer::from_vec(part.to_vec()));
                let part_len = u32::try_from(part.len()).unwrap_or(u32::MAX);
                let written: LocalFuture<Result<WriteOutcome, Error>> = Box::pin(async move {
                    let at = offset.saturating_add(start);
                    client.write(&file, at, part, part_len, stability).await
                });
                written
            });
        let (done, attributes) = joined(all(writes).await, block)?;
        Ok((done, attributes, data))
    }
}

/// Reads until `count` bytes are there or the file ends; servers may return fewer at a time.
pub(super) async fn read_block(
    client: &Client,
    file: &FileHandle,
    offset: u64,
    count: u32,
    buffer: Buffer,
) -> Result<(BytesRead, Buffer), Error> {
    let count = count.min(u32::try_from(buffer.len()).unwrap_or(u32::MAX));
    let first = client.read(file, offset, count, buffer).await?;
    let mut buffer = first.buffer;
    let mut read = BytesRead {
        count: first.count,
        eof: first.eof,
        attributes: first.attributes,
    };
    while read.count < count && !read.eof {
        let rest = count - read.count;
        let at = offset + u64::from(read.count);
        let memory = Buffer::zeroed(rest as usize);
        let more = client.read(file, at, rest, memory).await?;
        if more.count == 0 && !more.eof {
            return Err(Error::Malformed("READ of nothing before the end"));
        }
        let start = read.count as usize;
        let room = buffer.get_mut(start..start + more.count as usize);
        if let (Some(room), Some(data)) = (room, more.buffer.get(..more.count as usize)) {
            room.copy_from_slice(data);
        }
        (read.count, read.eof) = (read.count + more.count, more.eof);
    }
    Ok((read, buffer))
}

fn outcome(done: &WriteOutcome) -> WriteDone {
    WriteDone {
        count: done.count,
        committed: done.committed,
        verifier: done.verifier,
    }
}

/// The joint outcome of WRITEs of adjacent blocks: the bytes up to the first gap, with the least durability.
fn joined(
    parts: Vec<Result<WriteOutcome, Error>>,
    block: u32,
) -> Result<(WriteDone, Option<Attributes>), Error> {
    let mut parts = parts.into_iter();
    let first = parts.next().ok_or(Error::Malformed("WRITE of nothing"))??;
    let (mut whole, mut known, mut last) = (outcome(&first), first.attributes, first.count);
    for part in parts {
        if last < block {
            break;
        }
        let part = part?;
        last = part.count;
        whole.count += part.count;
        whole.committed = whole.committed.min(part.committed);
        known = part.attributes;
        if part.verifier != whole.verifier {
            // Two incarnations of the server wrote parts, and the first part may be lost. The verifier is one of
            // neither, so that no COMMIT confirms it and the caller writes again.
            whole.verifier = part.verifier.map(|byte| !byte);
            break;
        }
    }
    Ok((whole, known))
}
