//! Writes a whole file with several writes in flight, durable at its end.

use super::pipeline::InOrder;
use super::reader::is_zero;
use super::{Error, Objects};
use crate::limits::{RESENDS_MAX, UNCOMMITTED_BYTES_MAX};
use gannet_runtime::Buffer;
use gannet_vfs::{FileHandle, SetAttributes, Stability, Verifier, Vfs};

/// How a writer treats blocks of zeros.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Zeros {
    /// Writes them like others.
    Write,
    /// Leaves them out, so that they become holes. Only for a file that was empty before.
    Skip,
}

/// The totals of a writer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Written {
    /// The offset behind the last byte, holes included.
    pub end: u64,
    /// Bytes sent to the server; resent ones count once.
    pub sent: u64,
}

/// Writes a file with several unstable writes in flight, and makes it durable with a commit.
///
/// Take memory from [`Writer::buffer`], fill it, pass it to [`Writer::write`]; end with [`Writer::finish`]. Unstable
/// blocks are kept until a commit replies with the same verifier, and resent if the server restarted in between. A
/// commit is also made whenever [`UNCOMMITTED_BYTES_MAX`] bytes are kept.
pub struct Writer<V> {
    objects: Objects<V>,
    file: FileHandle,
    zeros: Zeros,
    block: u32,
    depth: usize,
    in_flight: InOrder<Result<Kept, Error>>,
    kept: Vec<Kept>,
    kept_bytes: u64,
    free: Vec<Buffer>,
    written: Written,
    /// The end of the last block that was not left out.
    data_end: u64,
    resends: u32,
}

/// A block that the server has, perhaps only in memory.
struct Kept {
    offset: u64,
    buffer: Buffer,
    len: u32,
    /// The server's incarnation in which it was written; `None` if it was written in two of them.
    verifier: Option<Verifier>,
    committed: Stability,
}

impl<V: Vfs> Writer<V> {
    pub(super) fn new(
        objects: Objects<V>,
        file: FileHandle,
        zeros: Zeros,
        block: u32,
        depth: usize,
    ) -> Writer<V> {
        Writer {
            objects,
            file,
            zeros,
            block,
            depth,
            in_flight: InOrder::new(),
            kept: Vec::new(),
            kept_bytes: 0,
            free: Vec::new(),
            written: Written { end: 0, sent: 0 },
            data_end: 0,
            resends: 0,
        }
    }

    /// Memory of one block, with the bytes of its last use.
    pub fn buffer(&mut self) -> Buffer {
        self.free
            .pop()
            .unwrap_or_else(|| Buffer::zeroed(self.block as usize))
    }

    /// Writes the first `len` bytes of `buffer` at `offset`; waits when enough writes are in flight. Blocks may come
    /// in any order, but not twice. A block longer than those that [`Writer::buffer`] gives is copied into such.
    ///
    /// # Errors
    /// This or an earlier write failed; the writer cannot be used further.
    pub async fn write(&mut self, offset: u64, buffer: Buffer, len: usize) -> Result<(), Error> {
        let data = buffer.get(..len).unwrap_or(&buffer);
        if data.len() <= self.block as usize {
            let len = data.len();
            return self.write_block(offset, buffer, len).await;
        }
        let mut offset = offset;
        for piece in data.chunks(self.block as usize) {
            let mut copy = self.buffer();
            if let Some(target) = copy.get_mut(..piece.len()) {
                target.copy_from_slice(piece);
            }
            self.write_block(offset, copy, piece.len()).await?;
            offset += piece.len() as u64;
        }
        Ok(())
    }

    async fn write_block(&mut self, offset: u64, buffer: Buffer, len: usize) -> Result<(), Error> {
        let len = u32::try_from(len).unwrap_or(u32::MAX).min(self.block);
        let end = offset.saturating_add(u64::from(len));
        self.written.end = self.written.end.max(end);
        let data = buffer.get(..len as usize).unwrap_or_default();
        if len == 0 || (self.zeros == Zeros::Skip && is_zero(data)) {
            self.recycle(buffer);
            return Ok(());
        }
        self.data_end = self.data_end.max(end);
        self.written.sent += u64::from(len);
        self.send(offset, buffer, len).await?;
        if self.kept_bytes >= UNCOMMITTED_BYTES_MAX {
            self.commit().await?;
        }
        Ok(())
    }

    /// Waits for the writes in flight, makes everything durable, and sets the length if the file ends in a hole.
    ///
    /// # Errors
    /// A write or the commit failed, or the server keeps restarting; the content of the file is unknown then.
    pub async fn finish(mut self) -> Result<Written, Error> {
        self.commit().await?;
        if self.written.end > self.data_end {
            let longer = SetAttributes {
                size: Some(self.written.end),
                ..SetAttributes::default()
            };
            self.objects.set_attributes(&self.file, &longer).await?;
        }
        Ok(self.written)
    }

    async fn send(&mut self, offset: u64, buffer: Buffer, len: u32) -> Result<(), Error> {
        while self.in_flight.len() >= self.depth {
            self.reap().await?;
        }
        let written = write_block(self.objects.clone(), self.file, offset, buffer, len);
        self.in_flight.start(Box::pin(written)).await;
        Ok(())
    }

    /// Waits for the oldest write; false when there is none.
    async fn reap(&mut self) -> Result<bool, Error> {
        let Some(written) = self.in_flight.next().await else {
            return Ok(false);
        };
        let written = written?;
        if written.committed == Stability::Unstable {
            self.kept_bytes += u64::from(written.len);
            self.kept.push(written);
        } else {
            self.recycle(written.buffer);
        }
        Ok(true)
    }

    async fn commit(&mut self) -> Result<(), Error> {
        loop {
            // All replies come before the COMMIT is sent: it need not cover a write that is still under way, which the
            // same verifier would then confirm.
            while self.reap().await? {}
            if self.kept.is_empty() {
                return Ok(());
            }
            let verifier = self.objects.commit(&self.file).await?.verifier;
            self.kept_bytes = 0;
            let mut lost = Vec::new();
            for kept in std::mem::take(&mut self.kept) {
                if kept.verifier == Some(verifier) {
                    self.recycle(kept.buffer);
                } else {
                    lost.push(kept);
                }
            }
            if lost.is_empty() {
                return Ok(());
            }
            self.resends += 1;
            if self.resends > RESENDS_MAX {
                return Err(Error::DataLost);
            }
            tracing::info!(
                blocks = lost.len(),
                "server lost unstable data: writing it again"
            );
            // Blocks do not overlap, so the order of resends does not matter, and the confirmed ones stay dropped.
            for kept in lost {
                self.send(kept.offset, kept.buffer, kept.len).await?;
            }
        }
    }

    /// Keeps a buffer for reuse, up to the memory that unconfirmed blocks take.
    fn recycle(&mut self, buffer: Buffer) {
        let kept_max = UNCOMMITTED_BYTES_MAX / u64::from(self.block);
        let wanted = self.free.len() < self.depth || (self.free.len() as u64) < kept_max;
        if buffer.len() == self.block as usize && wanted {
            self.free.push(buffer);
        }
    }
}

/// Writes until the whole block is there; servers may take less at a time.
async fn write_block<V: Vfs>(
    objects: Objects<V>,
    file: FileHandle,
    offset: u64,
    buffer: Buffer,
    len: u32,
) -> Result<Kept, Error> {
    let unstable = Stability::Unstable;
    let (first, buffer) = objects.write(&file, offset, buffer, len, unstable).await?;
    let mut done = first.count;
    let mut kept = Kept {
        offset,
        buffer,
        len,
        verifier: Some(first.verifier),
        committed: first.committed,
    };
    while done < len {
        let rest = kept
            .buffer
            .get(done as usize..len as usize)
            .unwrap_or_default();
        let rest = Buffer::from_vec(rest.to_vec());
        let at = offset.saturating_add(u64::from(done));
        let writing = objects.write(&file, at, rest, len - done, unstable);
        let (more, _) = writing.await?;
        if more.count == 0 {
            return Err(Error::Malformed("a write of nothing"));
        }
        // Parts from two incarnations: no commit can confirm the block, so it is resent.
        kept.verifier = kept.verifier.filter(|verifier| *verifier == more.verifier);
        kept.committed = kept.committed.min(more.committed);
        done += more.count;
    }
    Ok(kept)
}
