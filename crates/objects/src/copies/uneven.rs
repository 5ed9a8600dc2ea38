//! Ranges that the other member of a group may have otherwise than the primary, after a write that failed on the way.
//! The primary copies its own bytes there again, under the lock of the object.
//!
//! They are in memory: a primary that restarts makes equal what was being written.

use super::super::Objects;
use super::super::groups::Standing;
use super::super::limits::{LEVEL_PAUSE, LEVELLED_AT_A_TIME, UNEVEN_OBJECTS_MAX};
use super::super::store::ObjectStore;
use super::PassedOn;
use gannet_runtime::{Buffer, sleep};
use gannet_vfs::Status;
use gannet_wire::volume::{ObjectChange, ObjectId, Stability};
use std::collections::BTreeMap;
use std::ops::Range;

/// Uneven objects, each with one range that has all uneven bytes.
#[derive(Default)]
pub(super) struct Uneven {
    objects: BTreeMap<ObjectId, Range<u64>>,
    /// The object that was tried last: others have their turn next.
    last: Option<ObjectId>,
    /// The object that is being copied.
    levelled: Option<ObjectId>,
}

impl Uneven {
    /// Whether a write of a group may fail without harm.
    pub(super) fn has_room(&self, group: u32) -> bool {
        let of_group = ObjectId { group, file: 0 }..=ObjectId {
            group,
            file: u64::MAX,
        };
        self.objects.len() < UNEVEN_OBJECTS_MAX
            || self.objects.range(of_group).count() < UNEVEN_OBJECTS_MAX
    }

    /// Whether a group has some.
    pub(super) fn has(&self, group: u32) -> bool {
        let is_levelled = self.levelled.is_some_and(|it| it.group == group);
        is_levelled || self.objects.keys().any(|it| it.group == group)
    }

    fn note(&mut self, object: ObjectId, bytes: Range<u64>) {
        let known = self.objects.entry(object).or_insert(bytes.clone());
        *known = known.start.min(bytes.start)..known.end.max(bytes.end);
    }

    fn next(&mut self) -> Option<(ObjectId, Range<u64>)> {
        let behind = self.last.and_then(|last| {
            let mut behind = self.objects.range(last..).skip_while(|it| *it.0 == last);
            behind.next()
        });
        let (object, bytes) = behind.or_else(|| self.objects.iter().next())?;
        let next = (*object, bytes.clone());
        self.last = Some(next.0);
        Some(next)
    }
}

impl<S: ObjectStore> Objects<S> {
    /// Notes that the other member may have these bytes, or the length of the object, otherwise than the primary.
    pub(in super::super) fn note_uneven(&self, object: ObjectId, bytes: Range<u64>) {
        self.copies.uneven.borrow_mut().note(object, bytes);
        let Some(objects) = self.copies.objects.upgrade() else {
            return;
        };
        if self.copies.is_levelling.replace(true) {
            return;
        }
        let levelling = async move {
            while !objects.copies.uneven.borrow().objects.is_empty() {
                objects.forget_uneven();
                if !objects.level().await {
                    sleep(&objects.runtime, LEVEL_PAUSE).await;
                }
            }
            objects.copies.is_levelling.set(false);
        };
        self.runtime
            .spawn("level the members of groups", Box::pin(levelling));
    }

    /// Whether the members of a group may differ.
    pub fn has_uneven(&self) -> bool {
        self.copies.is_levelling.get()
    }

    /// Whether the members of this group may differ.
    pub(super) fn is_uneven(&self, group: u32) -> bool {
        self.copies.uneven.borrow().has(group)
    }

    /// Forgets what differs in groups without another member: that one gets everything when it is back.
    fn forget_uneven(&self) {
        let mut uneven = self.copies.uneven.borrow_mut();
        let is_primary = |group| {
            let standing = self.groups.standing(group);
            matches!(standing, Ok(Standing::Primary { .. }))
        };
        uneven.objects.retain(|object, _| is_primary(object.group));
    }

    /// Levels some bytes of one object; false if that cannot be now.
    async fn level(&self) -> bool {
        let Some((object, bytes)) = self.copies.uneven.borrow_mut().next() else {
            return true;
        };
        let size = match self.find_any(object).await {
            Ok(Some(handle)) => self.store.state(&handle).await.map_or(0, |it| it.size),
            _ => 0,
        };
        let end = bytes.end.min(bytes.start + LEVELLED_AT_A_TIME);
        // Behind its end there is the length alone.
        let is_last = end >= bytes.end.min(size);
        // Taken out before: a write that fails meanwhile notes its range anew.
        {
            let mut uneven = self.copies.uneven.borrow_mut();
            uneven.objects.remove(&object);
            uneven.levelled = Some(object);
        }
        let levelled = self.level_part(object, bytes.start..end, is_last).await;
        self.copies.uneven.borrow_mut().levelled = None;
        match levelled {
            Ok(()) if is_last => {}
            Ok(()) => (self.copies.uneven.borrow_mut()).note(object, end..bytes.end),
            Err(status) => {
                tracing::debug!(%object, %status, "the members of a group still differ");
                self.copies.uneven.borrow_mut().note(object, bytes);
                return false;
            }
        }
        true
    }

    /// Copies these bytes to the other member, durably; with the last ones the length. Writes under way are refused,
    /// and come again.
    async fn level_part(
        &self,
        object: ObjectId,
        bytes: Range<u64>,
        is_last: bool,
    ) -> Result<(), Status> {
        let truncation = self.range_locks.truncate(object);
        let _guard = truncation.lock().await;
        let Ok(Standing::Primary { .. }) = self.groups.standing(object.group) else {
            // There is no other member any more, or the other one decides.
            return Ok(());
        };
        // A removal is passed on as well.
        let Some(handle) = self.find(object).await? else {
            return Ok(());
        };
        let size = self.store.state(&handle).await?.size;
        let (offset, end) = (bytes.start, bytes.end.min(size));
        if offset < end {
            // Bounded by LEVELLED_AT_A_TIME.
            let len = (end - offset) as u32;
            let (bytes, count) = self.own_bytes(&handle, offset, len).await?;
            if count < len as usize {
                return Err(Status::Io);
            }
            let put = ObjectChange::Put {
                offset,
                stability: Stability::FileSync,
                memory: None,
            };
            let bytes = (Buffer::from_vec(bytes), 0..count);
            let PassedOn { answer, .. } = self.pass_once(object, put, Some(bytes)).await;
            answer.map_err(|_| Status::Jukebox)?;
        }
        if is_last {
            for change in [ObjectChange::Cut { size }, ObjectChange::Sync] {
                let PassedOn { answer, .. } = self.pass_once(object, change, None).await;
                answer.map_err(|_| Status::Jukebox)?;
            }
        }
        Ok(())
    }
}
