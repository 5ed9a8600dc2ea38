//! Stores bytes of a write, in the order of the writes of its object.

use super::Objects;
use super::groups::Standing;
use super::range_lock::Write;
use super::store::ObjectStore;
use gannet_runtime::{Buffer, both};
use gannet_vfs::{FileHandle, Stability, Status};
use gannet_wire::volume::{
    Capability, ObjectChange, ObjectId, Placement, Shape, Stability as WireStability,
};
use std::ops::Range;
use std::pin::pin;

/// Where a WRITE stores its bytes, and by which right.
#[derive(Clone, Copy)]
pub struct Target<'a> {
    /// The name of the object.
    pub object: ObjectId,
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

    /// Stores the bytes `data` of a buffer at `offset`, but for those that a later write has stored; in a group of
    /// several members, at the other one first. `permit` is dropped at the end, or when the other member is slow.
    ///
    /// # Errors
    /// `Stale`: the capability is not good any more, or the server is not the primary any more. `Jukebox`: the object
    /// was cut meanwhile, there is no memory, or the other member does not answer. Others: those of the store, here or
    /// there.
    pub async fn store(
        &self,
        target: Target<'_>,
        offset: u64,
        buffer: Buffer,
        data: Range<usize>,
        permit: impl Sized,
    ) -> Result<(), Status> {
        let Target {
            object,
            handle,
            write,
            capability,
            stability,
        } = target;
        let bytes = offset..offset + data.len() as u64;
        let (way, mut permit) = (self.way(object.group, data.len())?, Some(permit));
        let locking = pin!(write.lock(bytes.clone()));
        let guard = self.on_the_way(&way, &mut permit, locking).await;
        let guard = guard.ok_or(Status::Jukebox)?;
        // Checked again: the bytes may have come after the grant had ended, and the manager may have reported the size
        // of the file since.
        self.check(capability, Capability::WRITE)?;
        let left = guard.left();
        if left[..] == [bytes] {
            let putting = pin!(self.put_everywhere(target, offset, buffer, data));
            self.on_the_way(&way, &mut permit, putting).await?;
        } else {
            for Range { start, end } in left {
                // Lies in `data`.
                let at = data.start + (start - offset) as usize;
                let part = copy_of(&buffer, at..at + (end - start) as usize)?;
                let range = 0..part.len();
                let putting = pin!(self.put_everywhere(target, start, part, range));
                self.on_the_way(&way, &mut permit, putting).await?;
            }
            if stability != Stability::Unstable {
                // Later writes have stored the other bytes, perhaps less durably than this one asks for.
                self.sync_everywhere(object, handle).await?;
            }
        }
        guard.stored();
        Ok(())
    }

    /// Makes an object durable at each member of its group.
    pub(super) async fn sync_everywhere(
        &self,
        object: ObjectId,
        handle: &FileHandle,
    ) -> Result<(), Status> {
        let other = self.pass_on(object, ObjectChange::Sync);
        let (own, other) = both(self.sync(handle), other).await;
        let own = own.map_err(|status| self.own_failure(object.group, status));
        own.and(other)
    }

    /// Stores bytes at the other member of the group, and then here.
    async fn put_everywhere(
        &self,
        target: Target<'_>,
        offset: u64,
        buffer: Buffer,
        data: Range<usize>,
    ) -> Result<(), Status> {
        let Target {
            object,
            handle,
            capability,
            stability,
            ..
        } = target;
        if self.groups.standing(object.group)? == Standing::Single {
            return self.put(handle, offset, buffer, data, stability).await;
        }
        let _change = self.begin_change(object).await?;
        let change = ObjectChange::Put {
            offset,
            stability: match stability {
                Stability::Unstable => WireStability::Unstable,
                Stability::DataSync => WireStability::DataSync,
                Stability::FileSync => WireStability::FileSync,
            },
            memory: None,
        };
        let end = offset + data.len() as u64;
        let bytes = (buffer, data.clone());
        let buffer = self.pass_put_on(object, change, bytes).await?;
        // The right may have ended while the other member stored: the manager may have reported the size since.
        let stored = match self.check(capability, Capability::WRITE) {
            Ok(()) => {
                let put = self.put(handle, offset, buffer, data, stability).await;
                let put = match put {
                    Ok(()) => self.stamp_change(object.group, handle).await,
                    failed => failed,
                };
                put.map_err(|status| self.own_failure(object.group, status))
            }
            Err(status) => Err(status),
        };
        stored.inspect_err(|_| self.note_uneven(object, offset..end))
    }

    /// Stores bytes here.
    pub(super) async fn put(
        &self,
        handle: &FileHandle,
        offset: u64,
        buffer: Buffer,
        data: Range<usize>,
        stability: Stability,
    ) -> Result<(), Status> {
        let (mut offset, mut buffer, mut data) = (offset, buffer, data);
        loop {
            let (range, begun) = (data.clone(), self.runtime.now());
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
