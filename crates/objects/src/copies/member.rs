//! The other member of a group takes the changes that the primary passes on. Nobody else may change its objects, and it
//! serves nobody.

use super::super::Objects;
use super::super::groups::Standing;
use super::super::limits::LEVELLED_AT_A_TIME;
use super::super::store::ObjectStore;
use gannet_runtime::Buffer;
use gannet_vfs::{FileHandle, Stability, Status};
use gannet_wire::volume::{
    ObjectChange, ObjectId, Placement, Replicated, Replication, Shape, Stability as WireStability,
    UNIT_MAX,
};
use std::ops::Range;

/// The bytes of a put: a range of a buffer.
pub type PutBytes = (Buffer, Range<usize>);

/// An object by itself: its bytes are those of a file on one server.
pub(super) const ALONE: Placement = Placement {
    unit: UNIT_MAX,
    width: 1,
    index: 0,
};

/// The bytes of the object that a change changes.
fn changed(change: &Replication, bytes: &Option<PutBytes>) -> Option<Range<u64>> {
    match change.change {
        ObjectChange::Greet
        | ObjectChange::Revoke { .. }
        | ObjectChange::Sync
        | ObjectChange::Settled { .. } => None,
        ObjectChange::Put { offset, .. } => {
            let len = bytes.as_ref().map_or(0, |(_, data)| data.len() as u64);
            Some(offset..offset.saturating_add(len))
        }
        ObjectChange::Zeros { offset, len } => Some(offset..offset.saturating_add(len.into())),
        ObjectChange::Cut { .. }
        | ObjectChange::Remove
        | ObjectChange::Discard
        | ObjectChange::Stamp { .. } => Some(0..u64::MAX),
    }
}

impl<S: ObjectStore> Objects<S> {
    /// Whether a change comes from the primary of the group, in the epoch that is known here.
    ///
    /// # Errors
    /// `Stale`: it does not, or the server is not the other member. `Jukebox`: the server does not know its groups yet.
    pub fn check_primary(&self, change: &Replication) -> Result<(), Status> {
        let Replication { primary, epoch, .. } = *change;
        match self.groups.standing(change.object.group)? {
            Standing::Second {
                epoch: known,
                primary: said,
                ..
            } if (known, said) == (epoch, primary) => Ok(()),
            _ => Err(Status::Stale),
        }
    }

    /// Takes a change from the primary, with the bytes of a put.
    ///
    /// # Errors
    /// As [`Objects::check_primary`]; `Stale`: the file was removed. Others: those of the store.
    pub async fn take_over(
        &self,
        change: &Replication,
        bytes: Option<PutBytes>,
    ) -> Result<Replicated, Status> {
        self.check_primary(change)?;
        let taken = self.take(change, bytes).await;
        taken.map_err(|status| self.own_failure(change.object.group, status))
    }

    async fn take(
        &self,
        change: &Replication,
        bytes: Option<PutBytes>,
    ) -> Result<Replicated, Status> {
        // From before: if the store restarts meanwhile, only the earlier verifier shows that bytes may be lost.
        let verifier = self.verifier();
        let object = change.object;
        let replicated = self.intents.replicated(object.group, verifier);
        if let ObjectChange::Settled { first, mask, count } = change.change {
            self.take_settled(object.group, first, mask, count).await?;
            return Ok(self.intents.replicated(object.group, verifier));
        }
        let Replication {
            epoch, begun, over, ..
        } = *change;
        self.copies.are_over(object.group, epoch, begun, over);
        (self.copies).note(object.group, |it| it.latest = it.latest.max(change.time));
        let _change = match changed(change, &bytes) {
            Some(changed) => {
                self.copies.become_dirty(object, changed, begun);
                self.begin_change(object).await?
            }
            None => None,
        };
        // Again: another record may have come while the mark became durable.
        self.check_primary(change)?;
        match change.change {
            ObjectChange::Greet | ObjectChange::Settled { .. } => {}
            ObjectChange::Put {
                offset, stability, ..
            } => {
                let bytes = bytes.ok_or(Status::Inval)?;
                self.take_put(change, offset, stability, bytes).await?;
            }
            ObjectChange::Zeros { offset, len } => self.take_zeros(change, offset, len).await?,
            ObjectChange::Cut { size } => self.take_cut(change, size).await?,
            ObjectChange::Remove => {
                let truncation = self.range_locks.truncate(object);
                let _guard = truncation.lock().await;
                self.forget(object);
                self.store.remove(object).await?;
            }
            ObjectChange::Discard => {
                let truncation = self.range_locks.truncate(object);
                let _guard = truncation.lock().await;
                self.check_primary(change)?;
                self.handles.borrow_mut().remove(&object);
                self.store.remove(object).await?;
            }
            ObjectChange::Stamp { time } => {
                if let Some(handle) = self.find_any(object).await? {
                    self.store.stamp(&handle, time).await?;
                }
            }
            ObjectChange::Revoke { fence } => self.revoke_here(object.file, fence),
            ObjectChange::Sync => {
                if let Some(handle) = self.find_any(object).await? {
                    self.sync(&handle).await?;
                }
            }
        }
        Ok(replicated)
    }

    /// The object, which is made if there is none.
    async fn object_of_member(&self, object: ObjectId) -> Result<FileHandle, Status> {
        if let Some(handle) = self.find_any(object).await? {
            return Ok(handle);
        }
        if self.is_removed(object) {
            return Err(Status::Stale);
        }
        self.make(object).await
    }

    async fn take_put(
        &self,
        change: &Replication,
        offset: u64,
        stability: WireStability,
        bytes: PutBytes,
    ) -> Result<(), Status> {
        let (buffer, data) = bytes;
        let len = u32::try_from(data.len()).map_err(|_| Status::Inval)?;
        let shape = Shape::contiguous(offset, len).map_err(|_| Status::Inval)?;
        let write = self.range_locks.write(change.object, &shape, ALONE)?;
        let handle = self.object_of_member(change.object).await?;
        let guard = write.lock(offset..offset + u64::from(len)).await;
        let guard = guard.ok_or(Status::Jukebox)?;
        // Again: another record may have come meanwhile.
        self.check_primary(change)?;
        // The primary sends no two puts of the same bytes at a time.
        debug_assert_eq!(
            guard.left().len(),
            1,
            "a later put of these bytes came first"
        );
        let stability = match stability {
            WireStability::Unstable => Stability::Unstable,
            WireStability::DataSync => Stability::DataSync,
            WireStability::FileSync => Stability::FileSync,
        };
        self.put(&handle, offset, buffer, data, stability).await?;
        guard.stored();
        self.stamp_change(change.object.group, &handle).await
    }

    /// Writes zeros, unless the object has zeros or nothing there: an object with holes is to stay small.
    async fn take_zeros(&self, change: &Replication, offset: u64, len: u32) -> Result<(), Status> {
        if u64::from(len) > LEVELLED_AT_A_TIME {
            return Err(Status::Inval);
        }
        // The primary has the lock of these bytes.
        let Some(handle) = self.find_any(change.object).await? else {
            return Ok(());
        };
        let (mut bytes, count) = self.own_bytes(&handle, offset, len).await?;
        bytes.truncate(count);
        if bytes.iter().all(|byte| *byte == 0) {
            return Ok(());
        }
        bytes.fill(0);
        let data = (Buffer::from_vec(bytes), 0..count);
        self.take_put(change, offset, WireStability::Unstable, data)
            .await
    }

    async fn take_cut(&self, change: &Replication, size: u64) -> Result<(), Status> {
        let truncation = self.range_locks.truncate(change.object);
        let _guard = truncation.lock().await;
        self.check_primary(change)?;
        let handle = match size {
            0 => match self.find_any(change.object).await? {
                Some(handle) => handle,
                None => return Ok(()),
            },
            _ => self.object_of_member(change.object).await?,
        };
        self.store.cut(&handle, size).await?;
        self.stamp_change(change.object.group, &handle).await
    }
}
