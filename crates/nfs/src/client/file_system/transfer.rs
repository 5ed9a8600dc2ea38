//! READ and WRITE of ranges that may be longer than the server takes at a time: the parts go side by side.

use super::NfsFs;
use crate::client::reader::{Part, read_block};
use crate::client::{Client, Error, WriteOutcome};
use gannet_runtime::{Buffer, LocalFuture, all};
use gannet_vfs::{Attributes, FileHandle, ReadReply, Stability, WriteDone, in_memory};
use std::ops::Range;

/// READs of this many bytes and more use memory that is kept.
const KEPT_MIN: usize = 64 << 10;

impl NfsFs {
    pub(super) async fn read_range(
        &self,
        client: &Client,
        file: &FileHandle,
        offset: u64,
        count: u32,
    ) -> Result<ReadReply, Error> {
        let (block, _) = self.files.blocks();
        let (buffer, len, eof, known) = if count <= block {
            let buffer = self.buffer(count as usize);
            let part = read_block(client.clone(), *file, offset, count, buffer).await?;
            (part.block.buffer, part.block.len, part.eof, part.attributes)
        } else {
            self.read_parts(client, file, offset, count, block).await?
        };
        let attributes = match known {
            Some(attributes) => attributes,
            None => client.getattr(file).await?,
        };
        Ok(ReadReply {
            file: in_memory(offset, buffer, len),
            count: u32::try_from(len).unwrap_or(count),
            eof,
            attributes,
        })
    }

    /// Memory for `len` bytes: a slot of the arena if it pays.
    fn buffer(&self, len: usize) -> Buffer {
        let slot = match len >= KEPT_MIN && len == self.arena.slot_len() {
            true => self.arena.take(),
            false => None,
        };
        slot.unwrap_or_else(|| Buffer::zeroed(len))
    }

    async fn read_parts(
        &self,
        client: &Client,
        file: &FileHandle,
        offset: u64,
        count: u32,
        block: u32,
    ) -> Result<(Buffer, usize, bool, Option<Attributes>), Error> {
        let starts = (0..count).step_by(block as usize);
        let reads = starts.map(|start| {
            let part_len = block.min(count - start);
            let at = offset.saturating_add(u64::from(start));
            let buffer = self.buffer(part_len as usize);
            let part: LocalFuture<Result<Part, Error>> =
                Box::pin(read_block(client.clone(), *file, at, part_len, buffer));
            part
        });
        let (mut bytes, mut eof, mut known) = (Vec::with_capacity(count as usize), false, None);
        for part in all(reads).await {
            let part = part?;
            if !eof {
                bytes.extend_from_slice(part.block.data());
                (eof, known) = (part.eof, part.attributes);
            }
        }
        let len = bytes.len();
        Ok((Buffer::from_vec(bytes), len, eof, known))
    }

    pub(super) async fn write_range(
        &self,
        client: &Client,
        file: &FileHandle,
        offset: u64,
        (data, range): (Buffer, Range<usize>),
        stability: Stability,
    ) -> Result<(WriteDone, Option<Attributes>, Buffer), Error> {
        let (_, block) = self.files.blocks();
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

fn outcome(done: &WriteOutcome) -> WriteDone {
    WriteDone {
        count: done.count,
        committed: done.committed,
        verifier: done.verifier,
    }
}

/// What WRITEs of adjacent blocks came to together: as far as they went without a gap.
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
            // Written in two lives of the server: no COMMIT may confirm it, so it shows a verifier of neither.
            whole.verifier = part.verifier.map(|byte| !byte);
            break;
        }
    }
    Ok((whole, known))
}
