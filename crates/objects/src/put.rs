//! Stores bytes of a write, in the order of the writes of its object.

use super::Objects;
use super::range_lock::Write;
use super::store::ObjectStore;
use gannet_runtime::Buffer;
use gannet_vfs::{FileHandle, Stability, Status};
use gannet_wire::volume::{Capability, ObjectId, Placement, Shape};
use std::ops::Range;

/// Where a WRITE stores its bytes, and by which right.
#[derive(Clone, Copy)]
pub struct Target<'a> {
    /// The object.
    pub handle: &'a FileHandle,
    /// The place of the WRITE in the order of writes.
    pub write: &'a Write<'a>,
    /// The right to write, checked again at the store.
    pub capability: &'a Capability,
    /// How durable the bytes are at the reply.
    pub stability: Stability,
}

impl<S: ObjectStore> Objects<S> {
    /// Accepts a write of the bytes of `shape` that this object, the one of `placement`, has. The order of writes is
    /// that of these calls.
    ///
    /// # Errors
    /// `Jukebox`: too many changes of the object are under way.
    pub fn accept_write(
        &self,
        object: ObjectId,
        shape: &Shape,
        placement: Placement,
    ) -> Result<Write<'_>, Status> {
        self.range_locks.write(object, shape, placement)
    }

    /// Makes an object durable.
    pub(super) async fn sync(&self, object: &FileHandle) -> Result<(), Status> {
        let begun = self.runtime.now();
        let synced = self.store.sync(object).await;
        let took = self.runtime.now().duration_since(begun);
        self.disk.borrow().syncs.add(took);
        synced
    }

    /// Stores the bytes `data` of a buffer at `offset`, but for those that a later write has stored.
    ///
    /// # Errors
    /// `Stale`: the capability is not good any more. `Jukebox`: the object was cut meanwhile, or there is no memory.
    /// Others: those of the store.
    pub async fn store(
        &self,
        target: Target<'_>,
        offset: u64,
        buffer: Buffer,
        data: Range<usize>,
    ) -> Result<(), Status> {
        let Target {
            handle,
            write,
            capability,
            stability,
        } = target;
        let bytes = offset..offset + data.len() as u64;
        let guard = write.lock(bytes.clone()).await;
        let guard = guard.ok_or(Status::Jukebox)?;
        // Checked again: the bytes may have come after the grant had ended, and the manager may have reported the size
        // of the file since.
        self.check(capability, Capability::WRITE)?;
        let left = guard.left();
        if left[..] == [bytes] {
            self.put(target, offset, buffer, data).await?;
        } else {
            for Range { start, end } in left {
                // Lies in `data`.
                let at = data.start + (start - offset) as usize;
                let part = copy_of(&buffer, at..at + (end - start) as usize)?;
                let range = 0..part.len();
                self.put(target, start, part, range).await?;
            }
            if stability != Stability::Unstable {
                // Later writes have stored the other bytes, perhaps less durably than this one asks for.
                self.sync(handle).await?;
            }
        }
        guard.stored();
        Ok(())
    }

    async fn put(
        &self,
        target: Target<'_>,
        offset: u64,
        buffer: Buffer,
        data: Range<usize>,
    ) -> Result<(), Status> {
        let (mut offset, mut buffer, mut data) = (offset, buffer, data);
        loop {
            let (handle, stability, range) = (target.handle, target.stability, data.clone());
            let begun = self.runtime.now();
            let put = (self.store)
                .put(handle, offset, buffer, range, stability)
                .await;
            let took = self.runtime.now().duration_since(begun);
            self.disk.borrow().writes.add(took);
            let (count, memory) = put?;
            data.start += count as usize;
            if data.is_empty() {
                return Ok(());
            }
            // The disk took a part. The rest is tried alone, so that the store gives the reason: all of it once more
            // would be cut short again.
            buffer = memory.filter(|_| count > 0).ok_or(Status::Jukebox)?;
            offset += u64::from(count);
        }
    }
}

/// Some bytes of a buffer.
pub fn copy_of(buffer: &[u8], range: Range<usize>) -> Result<Buffer, Status> {
    let bytes = buffer.get(range).ok_or(Status::Inval)?;
    Ok(Buffer::from_vec(bytes.to_vec()))
}
