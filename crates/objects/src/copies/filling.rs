//! The primary of a group copies everything to a member that was out, while both go on.
//!
//! From the beginning that member gets each change. So what is copied need not be copied again, and an object that is
//! made meanwhile needs no copy. A part of an object is copied under the lock of its range.

use super::super::Objects;
use super::super::groups::Standing;
use super::super::limits::{COPY_RETRY, LEVELLED_AT_A_TIME, LEVELLED_BESIDE_CLIENTS};
use super::super::store::ObjectStore;
use super::super::write_intents::Buckets;
use super::member::ALONE;
use gannet_runtime::file::read_cold;
use gannet_runtime::{Buffer, sleep};
use gannet_vfs::{FileHandle, Status};
use gannet_wire::volume::{
    FOLDERS, ObjectChange, ObjectId, ObjectPage, ObjectPosition, Shape, Stability,
};
use std::ops::Range;

/// How often an object is begun again that is cut while it is copied.
const ATTEMPTS_MAX: usize = 100;

pub(super) fn first_page() -> ObjectPage {
    page_from(BEGINNING)
}

fn page_from(next: ObjectPosition) -> ObjectPage {
    ObjectPage {
        next,
        foreign_files: 0,
        lost_below: 0,
        objects: Vec::new(),
    }
}

const BEGINNING: ObjectPosition = ObjectPosition {
    folder: 0,
    cookie: 0,
    verifier: 0,
};

impl<S: ObjectStore> Objects<S> {
    /// Copies the objects of a group that its other member may lack, durably, and removes what that one has beside
    /// them. If the member had everything before, these are the objects in marked buckets.
    ///
    /// # Errors
    /// `Stale`: another record has come. `Jukebox`: the member does not answer, or has yet to get some bytes. Others:
    /// those of the stores.
    pub async fn fill(&self, group: u32, epoch: u64) -> Result<(), Status> {
        let fences = self.revocations.borrow().fences();
        for (file, fence) in fences {
            let revocation = ObjectChange::Revoke { fence };
            self.pass_on(ObjectId { group, file }, revocation).await?;
        }
        let begun = self.runtime.now();
        let wanted = self.wanted(group, epoch).await?;
        self.intents.begin_copy(group, &wanted, begun);
        self.discard_all(group, epoch, &wanted).await?;
        let mut page = first_page();
        while page.next.folder < FOLDERS {
            self.store.list(&mut page).await?;
            for entry in std::mem::take(&mut page.objects) {
                if entry.object.group == group && wanted.has(entry.object.file) {
                    self.check_filling(group, epoch)?;
                    let copied = self.copy(entry.object).await;
                    // If it was removed meanwhile, the member refuses it.
                    if copied.is_err() && self.find_any(entry.object).await?.is_some() {
                        copied?;
                    }
                }
            }
        }
        // Writes that failed meanwhile are copied again.
        while self.is_uneven(group) {
            self.check_filling(group, epoch)?;
            sleep(&self.runtime, COPY_RETRY).await;
        }
        self.check_filling(group, epoch)?;
        self.intents.are_copied(group, &wanted, begun);
        Ok(())
    }

    /// The buckets that the other member of a group needs a copy of.
    async fn wanted(&self, group: u32, epoch: u64) -> Result<Buckets, Status> {
        self.pass_on(ObjectId { group, file: 0 }, ObjectChange::Greet)
            .await?;
        Ok(self.intents.to_copy(group, self.copies.said(group, epoch)))
    }

    /// Whether the server is the primary of a group, in this epoch, whose other member is being filled.
    pub fn is_filling(&self, group: u32, epoch: u64) -> bool {
        self.check_filling(group, epoch).is_ok()
    }

    fn check_filling(&self, group: u32, epoch: u64) -> Result<(), Status> {
        match self.groups.standing(group)? {
            Standing::Primary {
                epoch: known,
                is_filling: true,
                ..
            } if known == epoch => Ok(()),
            _ => Err(Status::Stale),
        }
    }

    /// Removes the member's objects of a group that the primary does not have.
    async fn discard_all(&self, group: u32, epoch: u64, wanted: &Buckets) -> Result<(), Status> {
        let mut next = BEGINNING;
        while next.folder < FOLDERS {
            self.check_filling(group, epoch)?;
            let peers = self.copies.peers.borrow().clone();
            let (Some(peers), Ok(Standing::Primary { other, .. })) =
                (peers, self.groups.standing(group))
            else {
                return Err(Status::Jukebox);
            };
            let page = peers.list(other, next).await.ok_or(Status::Jukebox)?;
            // Each page gets on: a member cannot hold the primary up.
            if (page.next.folder, page.next.cookie) == (next.folder, next.cookie) {
                return Err(Status::Io);
            }
            next = page.next;
            for entry in page.objects {
                let object = entry.object;
                let is_wanted = object.group == group && wanted.has(object.file);
                if is_wanted && self.find_any(object).await?.is_none() {
                    let truncation = self.range_locks.truncate(object);
                    let _guard = truncation.lock().await;
                    // Again: it may have been made meanwhile, and then the member has it by that.
                    if self.find_any(object).await?.is_none() {
                        self.pass_on(object, ObjectChange::Discard).await?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Copies an object, durably.
    async fn copy(&self, object: ObjectId) -> Result<(), Status> {
        for _ in 0..ATTEMPTS_MAX {
            let size = {
                let truncation = self.range_locks.truncate(object);
                let _guard = truncation.lock().await;
                let Some(handle) = self.find_any(object).await? else {
                    return Ok(());
                };
                let size = self.store.state(&handle).await?.size;
                self.pass_on(object, ObjectChange::Cut { size }).await?;
                size
            };
            if self.copy_bytes(object, size).await? {
                return self.copy_time(object).await;
            }
        }
        Err(Status::Jukebox)
    }

    /// Gives the member's object the time of the primary's, and makes both durable.
    async fn copy_time(&self, object: ObjectId) -> Result<(), Status> {
        let truncation = self.range_locks.truncate(object);
        let _guard = truncation.lock().await;
        if let Some(handle) = self.find_any(object).await? {
            let time = self.store.state(&handle).await?.modified;
            self.pass_on(object, ObjectChange::Stamp { time }).await?;
            self.sync_everywhere(object, &handle).await?;
        }
        Ok(())
    }

    /// Copies the bytes that an object had when its length was set at the member; false if it was cut meanwhile.
    async fn copy_bytes(&self, object: ObjectId, size: u64) -> Result<bool, Status> {
        let mut at = 0;
        while at < size {
            let len = if self.copies.clients_ask.get() {
                LEVELLED_BESIDE_CLIENTS
            } else {
                LEVELLED_AT_A_TIME
            };
            let end = size.min(at + len);
            let (begun, requests) = (self.runtime.now(), self.copies.requests.get());
            let copied = {
                let _turn = self.copies.filling.lock().await;
                self.copy_part(object, at..end).await?
            };
            if !copied {
                return Ok(false);
            }
            let clients_ask = requests != self.copies.requests.get();
            self.copies.clients_ask.set(clients_ask);
            if clients_ask {
                // Clients get every other moment.
                let took = self.runtime.now().duration_since(begun);
                sleep(&self.runtime, took.min(COPY_RETRY)).await;
            }
            at = end;
        }
        Ok(true)
    }

    /// Copies a part of an object, as far as it has these bytes; false if it was cut meanwhile.
    async fn copy_part(&self, object: ObjectId, part: Range<u64>) -> Result<bool, Status> {
        // At most LEVELLED_AT_A_TIME.
        let (offset, len) = (part.start, (part.end - part.start) as u32);
        let shape = Shape::contiguous(offset, len).map_err(|_| Status::Inval)?;
        let write = self.range_locks.write(object, &shape, ALONE)?;
        // Not noted as stored: earlier writes have yet to store theirs.
        let Some(_guard) = write.lock(part).await else {
            return Ok(false);
        };
        let Some(handle) = self.find_any(object).await? else {
            return Ok(true);
        };
        let (bytes, count) = self.own_bytes(&handle, offset, len).await?;
        if bytes.iter().take(count).all(|byte| *byte == 0) {
            let len = count as u32;
            let zeros = ObjectChange::Zeros { offset, len };
            self.pass_on(object, zeros).await?;
        } else {
            let put = ObjectChange::Put {
                offset,
                stability: Stability::Unstable,
                memory: None,
            };
            let bytes = Some((Buffer::from_vec(bytes), 0..count));
            self.pass_on_bytes(object, put, bytes).await?;
        }
        Ok(true)
    }

    /// Bytes of an object, and how many of those that were asked for it has.
    pub(super) async fn own_bytes(
        &self,
        handle: &FileHandle,
        offset: u64,
        len: u32,
    ) -> Result<(Vec<u8>, usize), Status> {
        let opened = self.store.open(handle, offset, len).await?;
        let bytes = vec![0; opened.count as usize];
        let read = read_cold(&self.runtime, opened.file, offset, bytes).await;
        read.map_err(|error| {
            tracing::warn!(%error, "an object cannot be read");
            Status::Io
        })
    }
}
