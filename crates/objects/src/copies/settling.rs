//! Marks the buckets of objects that change, and takes the marks back once both members are equal.

use super::super::Objects;
use super::super::double_note::Loaded;
use super::super::groups::Standing;
use super::super::limits::COPY_PATIENCE;
use super::super::store::ObjectStore;
use super::super::write_intents::{Begun, Buckets, Idle};
use gannet_runtime::timeout;
use gannet_vfs::{Stability, Status};
use gannet_wire::volume::{FOLDERS, ObjectChange, ObjectId};

/// A change of an object that is under way.
pub(in super::super) struct Change<'a, S: ObjectStore> {
    objects: &'a Objects<S>,
    object: ObjectId,
    number: u64,
}

impl<S: ObjectStore> Drop for Change<'_, S> {
    fn drop(&mut self) {
        let now = self.objects.runtime.now();
        self.objects.intents.end(self.object, now);
        self.objects.copies.end(self.object.group, self.number);
    }
}

impl<S: ObjectStore> Objects<S> {
    /// Reads the bitmaps that an earlier incarnation has noted.
    ///
    /// # Errors
    /// The note cannot be read.
    pub(in super::super) async fn load_intents(&self) -> Result<(), Status> {
        if self.intents.is_loaded.get() {
            return Ok(());
        }
        let alone = self.intents.note.alone().await;
        if self.intents.is_loaded.get() {
            return Ok(());
        }
        if let Loaded::Payload(payload) = self.intents.note.load(&self.store, &alone).await?
            && self.intents.load(&payload).is_none()
        {
            tracing::error!("the write intents of an I/O server cannot be understood");
        }
        self.intents.is_loaded.set(true);
        Ok(())
    }

    /// Begins a change of an object of a group that may have several members. Its bucket is marked durably.
    ///
    /// # Errors
    /// `Jukebox`: marks are being taken back, and that takes long. Others: those of the store.
    pub(in super::super) async fn begin_change(
        &self,
        object: ObjectId,
    ) -> Result<Option<Change<'_, S>>, Status> {
        if self.groups.standing(object.group)? == Standing::Single {
            return Ok(None);
        }
        loop {
            let cleared = self.intents.cleared.notified();
            let begun = self.intents.begin(object, self.runtime.now());
            if let Begun::Clearing = begun {
                let waited = timeout(&self.runtime, COPY_PATIENCE, cleared).await;
                waited.map_err(|_| Status::Jukebox)?;
                continue;
            }
            let change = Change {
                objects: self,
                object,
                number: self.copies.begin(object.group),
            };
            if let Begun::Marking(version) = begun {
                let noted = self.note_intents(version).await;
                noted.map_err(|status| self.own_failure(object.group, status))?;
            }
            return Ok(Some(change));
        }
    }

    /// Makes a version of the bitmaps durable.
    async fn note_intents(&self, version: u64) -> Result<(), Status> {
        let alone = self.intents.note.alone().await;
        // One write is for all who waited for the one before.
        if self.intents.is_durable(version) {
            return Ok(());
        }
        let (version, payload, marks) = self.intents.payload();
        let note = &self.intents.note;
        let written = note.write(&self.store, &payload, Stability::FileSync, &alone);
        written.await?;
        self.intents.note_durable(version, marks);
        Ok(())
    }

    /// Makes the bitmaps durable, if they are not.
    pub(in super::super) async fn note_all_intents(&self) -> Result<(), Status> {
        match self.intents.version_to_note() {
            Some(version) => self.note_intents(version).await,
            None => Ok(()),
        }
    }

    /// The primary says that buckets are equal at both members, durably.
    pub(super) async fn take_settled(
        &self,
        group: u32,
        first: u32,
        mask: u64,
        count: u64,
    ) -> Result<(), Status> {
        // At once: changes that come later must find no mark.
        if !self.intents.are_settled(group, first, mask) {
            return Err(Status::Inval);
        }
        if count == 0 {
            return Ok(());
        }
        self.intents.have_settled(group, count);
        self.note_all_intents().await
    }

    /// Takes back the marks of buckets that have not changed for a while, once both members are durably equal there.
    /// Only a primary does that, whose other member has everything.
    ///
    /// # Errors
    /// `Jukebox`, `Stale`: the member does not answer, or has another primary. Others: those of the stores.
    pub async fn settle(&self, group: u32) -> Result<(), Status> {
        let Some(epoch) = self.may_settle(group) else {
            return Ok(());
        };
        let idle = self.intents.idle(group, self.runtime.now());
        if idle.buckets.is_empty() {
            return self.tell_count(group, epoch).await;
        }
        self.sync_idle(group, &idle).await?;
        // Again: a write may have failed on the way, or the member may have gone.
        if self.may_settle(group) != Some(epoch) {
            return Ok(());
        }
        let clearing = self.intents.begin_clearing(group, &idle);
        let told = self.tell_settled(group, &clearing).await;
        self.intents.end_clearing(group);
        told
    }

    /// Says which marks have been taken back, until that is known: a change that begins later could else come to the
    /// member before.
    async fn tell_settled(&self, group: u32, clearing: &Buckets) -> Result<(), Status> {
        // Before: an older image of the member's disk must not pass for the disk.
        self.note_all_intents().await?;
        let mut messages = clearing.messages();
        if messages.is_empty() {
            messages.push((0, 0));
        }
        let (name, last) = (ObjectId { group, file: 0 }, messages.len() - 1);
        for (at, (first, mask)) in messages.into_iter().enumerate() {
            let is_last = at == last;
            let count = if is_last {
                self.intents.settled(group)
            } else {
                0
            };
            let settled = ObjectChange::Settled { first, mask, count };
            loop {
                match self.pass_on(name, settled).await {
                    Err(Status::Jukebox) => {}
                    Err(status) => return Err(status),
                    Ok(()) => break,
                }
            }
        }
        Ok(())
    }

    /// Says how often marks have been taken back, to a member that does not know: it was filled since.
    async fn tell_count(&self, group: u32, epoch: u64) -> Result<(), Status> {
        let count = self.intents.settled(group);
        let said = self.copies.said(group, epoch);
        if said.is_some_and(|said| said.settled >= count) {
            return Ok(());
        }
        let (first, mask) = (0, 0);
        let settled = ObjectChange::Settled { first, mask, count };
        self.pass_on(ObjectId { group, file: 0 }, settled).await
    }

    /// The epoch of a group whose marks this server may take back now.
    fn may_settle(&self, group: u32) -> Option<u64> {
        let Ok(Standing::Primary {
            epoch,
            is_filling: false,
            ..
        }) = self.groups.standing(group)
        else {
            return None;
        };
        // A sync that failed may pass the next time, though its bytes are lost.
        let has_lost = self.intents.is_tainted(group) || self.is_other_broken(group, epoch);
        (!has_lost && !self.is_uneven(group)).then_some(epoch)
    }

    /// Makes objects durable at both members that may not be, in buckets that have not changed for a while.
    async fn sync_idle(&self, group: u32, idle: &Idle) -> Result<(), Status> {
        if let Some(files) = &idle.files {
            for file in files {
                self.sync_named(ObjectId { group, file: *file }).await?;
            }
            return Ok(());
        }
        let mut page = super::filling::first_page();
        while page.next.folder < FOLDERS {
            self.store.list(&mut page).await?;
            for entry in std::mem::take(&mut page.objects) {
                if entry.object.group == group && idle.buckets.has(entry.object.file) {
                    self.sync_named(entry.object).await?;
                }
            }
        }
        Ok(())
    }

    async fn sync_named(&self, object: ObjectId) -> Result<(), Status> {
        match self.find_any(object).await? {
            Some(handle) => self.sync_everywhere(object, &handle).await,
            None => Ok(()),
        }
    }
}
