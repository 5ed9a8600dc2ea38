//! Marks the buckets of objects that change, and takes the marks back once both members are equal.

use super::super::Objects;
use super::super::double_note::Loaded;
use super::super::groups::Standing;
use super::super::limits::COPY_PATIENCE;
use super::super::store::ObjectStore;
use super::super::write_intents::{Begun, Idle};
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
    pub(super) fn take_settled(&self, group: u32, first: u32, mask: u64) -> Result<(), Status> {
        // At once: changes that come later must find no mark. The note gets it with the next one: until then it has
        // more marks than are needed, which does no harm.
        if self.intents.are_settled(group, first, mask) {
            Ok(())
        } else {
            Err(Status::Inval)
        }
    }

    /// Takes back the marks of buckets that have not changed for a while, once both members are durably equal there.
    /// Only a primary does that, whose other member has everything.
    ///
    /// # Errors
    /// `Jukebox`, `Stale`: the member does not answer, or has another primary. Others: those of the stores.
    pub async fn settle(&self, group: u32) -> Result<(), Status> {
        if !self.may_settle(group) {
            return Ok(());
        }
        let idle = self.intents.idle(group, self.runtime.now());
        if idle.buckets.is_empty() {
            return Ok(());
        }
        self.sync_idle(group, &idle).await?;
        // Again: a write may have failed on the way, or the member may have gone.
        if !self.may_settle(group) {
            return Ok(());
        }
        let clearing = self.intents.begin_clearing(group, &idle);
        let mut told = Ok(());
        for (first, mask) in clearing.messages() {
            let (name, settled) = (
                ObjectId { group, file: 0 },
                ObjectChange::Settled { first, mask },
            );
            // Until it is known: a change that begins now could else come to the member before this.
            while told.is_ok() {
                match self.pass_on(name, settled).await {
                    Err(Status::Jukebox) => {}
                    answer => {
                        told = answer;
                        break;
                    }
                }
            }
        }
        self.intents.end_clearing(group);
        told?;
        self.note_all_intents().await
    }

    fn may_settle(&self, group: u32) -> bool {
        let standing = self.groups.standing(group);
        let is_primary = matches!(
            standing,
            Ok(Standing::Primary {
                is_filling: false,
                ..
            })
        );
        is_primary && !self.is_uneven(group)
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
