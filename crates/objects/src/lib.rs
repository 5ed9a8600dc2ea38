//! The objects of an I/O server, without its connections.
//!
//! [`Objects`] decides who may change them and in which order. It knows what was removed, revoked or lost. Above it
//! are front ends, which know the peers and the shapes of their requests. Below it is an [`ObjectStore`], which
//! decides nothing.
//!
//! This crate refuses connections and peers' memory.
//!
//! First type to read: [`Objects`].

mod copies;
mod double_note;
mod failing_disk;
mod folder;
mod folder_list;
mod groups;
mod lease;
pub mod limits;
mod put;
mod range_lock;
mod revocations;
mod store;
mod term;
#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
mod tombstones;
mod write_intents;

use copies::Copies;
use failing_disk::FailingDisk;
use gannet_metrics::{Counter, Exposition, Family, Latency, Source};
use gannet_runtime::Handle;
use gannet_vfs::{FileHandle, Status};
use gannet_wire::volume::{
    Capability, ObjectChange, ObjectId, ObjectPage, ObjectRange, ObjectState, Status as WireStatus,
    Timestamp,
};
use groups::Groups;
use lease::Leases;
use limits::HANDLES_MAX;
use range_lock::RangeLocks;
use revocations::Revocations;
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::future::poll_fn;
use std::ops::Range;
use std::pin::pin;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::time::Duration;
use term::Terms;
use tombstones::Tombstones;
use write_intents::WriteIntents;

pub use copies::{PassedOn, PeerFailure, Peers, PutBytes};
pub use folder::{FolderStore, timestamp_of};
pub use folder_list::object_at;
pub use groups::{GROUPS_FILE, Standing};
pub use put::{Target, copy_of};
pub use range_lock::Write;
pub use store::{ObjectStore, Opened, Room};
pub use term::TERM_FILE;
pub use write_intents::INTENTS_FILE;

/// The file beside the objects' folders that says which volume and server they belong to.
pub const OWNER_FILE: &str = "io-server.toml";

/// Whether a capability gives rights now.
pub type Allow = dyn Fn(&Capability, u32) -> bool;

/// The rights that capabilities give. Their keys belong to connections, so a front end brings them.
pub struct Rights {
    /// Whether a capability is genuine and gives these rights now ([`Capability::READ`], [`Capability::WRITE`]).
    pub allow: Box<Allow>,
    /// The age after which no capability gives any right.
    pub age_max: Duration,
}

/// Learns at once what happens to objects. No call may wait, or call back.
pub trait ObjectWatcher {
    /// An object exists; told before anything is written to a new one.
    fn found(&self, object: ObjectId);

    /// An object was removed: what capabilities gave to it ends.
    fn ended(&self, object: ObjectId);

    /// A right to a file was taken back: what its capabilities gave to any of its objects ends.
    fn revoked(&self, file: u64);

    /// A term began: what was given by earlier capabilities ends.
    fn term_began(&self);
}

/// The objects of a server, in a store that belongs to it alone.
pub struct Objects<S> {
    runtime: Handle,
    store: S,
    rights: Rights,
    watcher: Rc<dyn ObjectWatcher>,
    /// Handles of recently used objects.
    handles: RefCell<HashMap<ObjectId, FileHandle>>,
    revocations: RefCell<Revocations>,
    tombstones: RefCell<Tombstones>,
    range_locks: RangeLocks,
    terms: Terms,
    groups: Groups,
    leases: Leases,
    failing_disk: FailingDisk,
    copies: Copies<S>,
    intents: WriteIntents,
    /// Files with numbers below this may have had an object on an earlier disk, which was lost.
    lost_below: Cell<u64>,
    /// The failures of the disk, for other threads.
    disk: RefCell<Arc<DiskCounters>>,
}

/// The failures and the times of the disks of I/O servers.
#[derive(Debug, Default)]
pub struct DiskCounters {
    /// Requests that failed because the disk did.
    pub errors: Counter,
    /// Requests that failed for want of room.
    pub full: Counter,
    /// Reads of bytes that were not in memory.
    pub reads: Latency,
    /// Writes, of which most end in memory.
    pub writes: Latency,
    /// Syncs of objects (fdatasync), for COMMITs and other changes that must be durable.
    pub syncs: Latency,
}

impl DiskCounters {
    fn count(&self, status: WireStatus) {
        match status {
            WireStatus::Io => self.errors.add(1),
            WireStatus::Nospc => self.full.add(1),
            _ => {}
        }
    }
}

impl Source for DiskCounters {
    fn collect(&self, into: &mut Exposition) {
        const ERRORS: Family = Family::counter(
            "gannet_disk_errors",
            "Requests that I/O servers of this process failed because their disk did.",
        );
        const FULL: Family = Family::counter(
            "gannet_disk_full_errors",
            "Requests that I/O servers of this process failed for want of room.",
        );
        into.counter(&ERRORS, &[], &self.errors);
        const READS: Family = Family::latency(
            "gannet_disk_read_seconds",
            "Time of reads of I/O servers whose bytes were not in memory.",
        );
        const WRITES: Family = Family::latency(
            "gannet_disk_write_seconds",
            "Time of writes of I/O servers, of which most end in memory.",
        );
        const SYNCS: Family = Family::latency(
            "gannet_disk_sync_seconds",
            "Time of syncs of I/O servers' objects.",
        );
        into.counter(&FULL, &[], &self.full);
        into.whole_latency(&READS, &[], &self.reads);
        into.whole_latency(&WRITES, &[], &self.writes);
        into.whole_latency(&SYNCS, &[], &self.syncs);
    }
}

impl<S: ObjectStore> Objects<S> {
    /// The objects of I/O server `number`, in `store`. Their rights are what `rights` says, as far as nothing newer is
    /// known here.
    pub fn new(
        runtime: Handle,
        store: S,
        number: u32,
        rights: Rights,
        watcher: Rc<dyn ObjectWatcher>,
    ) -> Rc<Objects<S>> {
        Rc::new_cyclic(|me| Objects {
            copies: Copies::new(Weak::clone(me)),
            intents: WriteIntents::default(),
            store,
            watcher,
            handles: RefCell::default(),
            revocations: RefCell::new(Revocations::new(rights.age_max)),
            tombstones: RefCell::new(Tombstones::new(rights.age_max)),
            rights,
            range_locks: RangeLocks::default(),
            terms: Terms::default(),
            groups: Groups::new(number),
            failing_disk: FailingDisk::default(),
            leases: Leases::new(runtime.now_with_suspend()),
            lost_below: Cell::default(),
            disk: RefCell::default(),
            runtime,
        })
    }

    /// Objects of files with numbers below `below` may have been lost with an earlier disk.
    pub fn note_lost(&self, below: u64) {
        self.lost_below.set(below);
        self.groups.has_lost_disk.set(below > 0);
    }

    /// The number below which files may have had objects on an earlier disk, which was lost; 0 if none was.
    pub fn lost_below(&self) -> u64 {
        self.lost_below.get()
    }

    /// There is no manager: the group with the server's number has the server as its only member.
    pub fn be_unmanaged(&self) {
        self.groups.is_unmanaged.set(true);
    }

    /// Counts failures and times in `counters` from now on.
    pub fn count_in(&self, counters: Arc<DiskCounters>) {
        self.disk.replace(counters);
    }

    /// Counts the failure of a request, if the disk is the reason.
    pub fn count_failure(&self, status: WireStatus) {
        self.disk.borrow().count(status);
    }

    /// The number of the latest term that is known; 0 before [`Objects::load_notes`].
    pub fn term_number(&self) -> u64 {
        self.terms.number()
    }

    /// Awaits a read of an object, and counts its time if it had to wait for the disk.
    pub async fn timing_disk<T>(&self, read: impl Future<Output = T>) -> T {
        let begun = self.runtime.now();
        let (mut read, mut waited) = (pin!(read), false);
        let done = poll_fn(|context| {
            let polled = read.as_mut().poll(context);
            waited |= polled.is_pending();
            polled
        });
        let done = done.await;
        if waited {
            let took = self.runtime.now().duration_since(begun);
            self.disk.borrow().reads.add(took);
        }
        done
    }

    /// `Nxio` if a missing object may have been lost. A group of several members has all its objects, also when the
    /// server had another disk.
    pub fn may_be_lost(&self, object: ObjectId) -> Result<(), Status> {
        let standing = self.groups.standing(object.group);
        let is_of_several = standing.is_ok_and(|standing| standing != Standing::Single);
        if object.file < self.lost_below.get() && !is_of_several {
            Err(Status::Nxio)
        } else {
            Ok(())
        }
    }

    /// Whether the server is the only member of a group.
    pub fn is_single(&self, group: u32) -> bool {
        self.groups.standing(group) == Ok(Standing::Single)
    }

    /// Checks a capability to read or write.
    pub fn check(&self, capability: &Capability, rights: u32) -> Result<(), Status> {
        if self.revocations.borrow().covers(capability) {
            return Err(Status::Stale);
        }
        self.check_genuine(capability, rights)
    }

    /// Checks a capability for what may be done also by one that was revoked: making bytes durable, and the manager's
    /// own requests.
    pub fn check_genuine(&self, capability: &Capability, rights: u32) -> Result<(), Status> {
        if (self.rights.allow)(capability, rights) && self.terms.allows(capability) {
            Ok(())
        } else {
            Err(Status::Stale)
        }
    }

    /// Whether the object was removed a short while ago.
    pub fn is_removed(&self, object: ObjectId) -> bool {
        let now = self.runtime.now();
        self.tombstones.borrow_mut().contains(object, now)
    }

    /// The object with this name, if it is here.
    ///
    /// # Errors
    /// As [`Objects::may_serve`]; others: those of the store.
    pub async fn find(&self, object: ObjectId) -> Result<Option<FileHandle>, Status> {
        self.may_serve(object.group)?;
        self.find_any(object).await
    }

    /// As [`Objects::find`], to read these bytes of the object: see [`Objects::may_read`].
    ///
    /// # Errors
    /// As [`Objects::may_read`]; others: those of the store.
    pub async fn find_to_read(
        &self,
        object: ObjectId,
        bytes: impl FnOnce() -> Range<u64>,
    ) -> Result<Option<FileHandle>, Status> {
        self.may_read(object, bytes)?;
        self.find_any(object).await
    }

    /// As [`Objects::find`], also of a group that the server does not serve.
    async fn find_any(&self, object: ObjectId) -> Result<Option<FileHandle>, Status> {
        if let Some(handle) = self.handles.borrow().get(&object) {
            return Ok(Some(*handle));
        }
        let found = self.store.find(object).await;
        let found = found.map_err(|status| self.own_failure(object.group, status))?;
        if let Some(handle) = found {
            self.remember(object, handle);
        }
        Ok(found)
    }

    /// Notes that an object exists: every way to one leads through here.
    fn remember(&self, object: ObjectId, handle: FileHandle) {
        self.watcher.found(object);
        // It was removed while it was looked for: its handle would be one of nothing for good.
        if self.is_removed(object) {
            return;
        }
        let mut handles = self.handles.borrow_mut();
        if handles.len() >= HANDLES_MAX {
            handles.clear();
        }
        handles.insert(object, handle);
    }

    /// The object with this name; makes it if there is none.
    ///
    /// # Errors
    /// `Stale`: the file was removed. `Nxio`: the object may have been lost. Others: those of the store.
    pub async fn find_or_make(&self, object: ObjectId) -> Result<FileHandle, Status> {
        if let Some(handle) = self.find(object).await? {
            return Ok(handle);
        }
        // Without the tombstone, a WRITE that was under way when its file was removed would leave an orphan.
        if self.is_removed(object) {
            return Err(Status::Stale);
        }
        self.may_be_lost(object)?;
        let _change = self.begin_change(object).await?;
        self.make(object).await
    }

    /// Makes an object that does not exist.
    async fn make(&self, object: ObjectId) -> Result<FileHandle, Status> {
        let handle = self.store.make(object).await;
        let handle = handle.map_err(|status| self.own_failure(object.group, status))?;
        self.remember(object, handle);
        Ok(handle)
    }

    /// Opens an object to read `count` bytes from `offset` on.
    ///
    /// # Errors
    /// Any failure of the store.
    pub async fn open(
        &self,
        object: &FileHandle,
        offset: u64,
        count: u32,
    ) -> Result<Opened, Status> {
        self.store.open(object, offset, count).await
    }

    /// Changes when bytes that are not durable may have been lost.
    pub fn verifier(&self) -> u64 {
        self.store.verifier()
    }

    /// The state of a missing object.
    pub fn nothing(&self) -> ObjectState {
        ObjectState {
            size: 0,
            used: 0,
            modified: Timestamp::default(),
            version: 0,
            verifier: self.verifier(),
        }
    }

    /// The state of an object; a missing one is empty. It is that of this server's store: see [`Objects::as_told`].
    ///
    /// # Errors
    /// Any failure of the store.
    pub async fn state_of(&self, object: Option<&FileHandle>) -> Result<ObjectState, Status> {
        match object {
            Some(handle) => self.store.state(handle).await,
            None => Ok(self.nothing()),
        }
    }

    /// The state of the object with this name, also of a group that the server is not in.
    ///
    /// # Errors
    /// `Nxio`: the object may have been lost. Of a group of several members those of [`Objects::may_serve`]. Others:
    /// those of the store.
    pub async fn state_of_named(&self, name: ObjectId) -> Result<ObjectState, Status> {
        self.may_tell(name)?;
        let object = self.find_any(name).await?;
        if object.is_none() {
            self.may_be_lost(name)?;
        }
        let state = self.state_of(object.as_ref()).await?;
        // Again: the right to serve may have ended meanwhile.
        self.may_tell(name)?;
        Ok(self.as_told(name.group, state))
    }

    /// Whether the server may tell the manager of an object: it is no member of the group, or may serve it.
    fn may_tell(&self, object: ObjectId) -> Result<(), Status> {
        match self.groups.standing(object.group) {
            Ok(Standing::Single) | Err(Status::Stale) => Ok(()),
            // That another server is the primary says nothing of the file.
            _ => {
                let may_read = self.may_read(object, || 0..u64::MAX);
                may_read.map_err(|_| Status::Jukebox)
            }
        }
    }

    /// Adds objects to a page, as [`ObjectStore::list`] does.
    pub async fn list(&self, page: &mut ObjectPage) -> Result<(), Status> {
        self.store.list(page).await
    }

    /// Room on the disk.
    pub async fn usage(&self) -> Result<Room, Status> {
        self.store.usage().await
    }

    /// Makes an object durable, whose state it gives.
    ///
    /// # Errors
    /// `Stale`: the capability is not good. Others: those of the store.
    pub async fn commit(&self, range: &ObjectRange) -> Result<ObjectState, Status> {
        self.check_genuine(&range.capability, 0)?;
        let name = range.object();
        let object = self.find(name).await?;
        if let Some(handle) = &object {
            self.sync_everywhere(name, handle).await?;
        }
        let state = self.state_of(object.as_ref()).await?;
        Ok(self.as_told(name.group, state))
    }

    /// Sets the length of an object to `range.size`, durably. It waits for writes that are being stored, and refuses
    /// the rest of earlier ones.
    ///
    /// # Errors
    /// `Stale`: the capability is not good, or the file was removed. `Nxio`: the object may have been lost, and the
    /// size is not 0. Others: those of the store.
    pub async fn truncate(&self, range: &ObjectRange) -> Result<ObjectState, Status> {
        self.check_genuine(&range.capability, Capability::WRITE)?;
        let (name, size) = (range.object(), range.size);
        self.may_serve(name.group)?;
        // As a write: the other members would miss it.
        if self.groups.lacks_copies(self.groups.standing(name.group)?) {
            return Err(Status::Jukebox);
        }
        let _change = self.begin_change(name).await?;
        let truncation = self.range_locks.truncate(name);
        let guard = truncation.lock().await;
        let object = match size {
            // The lost bytes are cut off: an empty object notes that the file has none here any more.
            0 => match self.find(name).await? {
                None if self.may_be_lost(name).is_err() => Some(self.make(name).await?),
                found => found,
            },
            _ => Some(self.find_or_make(name).await?),
        };
        if let Some(handle) = &object {
            let passed = self.pass_on(name, ObjectChange::Cut { size }).await;
            // The other member may be cut.
            passed.inspect_err(|_| self.note_uneven(name, size..u64::MAX))?;
            let cut = match self.store.cut(handle, size).await {
                Ok(()) => self.stamp_change(name.group, handle).await,
                failed => failed,
            };
            cut.map_err(|status| {
                self.note_uneven(name, size..u64::MAX);
                self.own_failure(name.group, status)
            })?;
            drop(guard);
            self.sync_everywhere(name, handle).await?;
        }
        let state = self.state_of(object.as_ref()).await?;
        Ok(self.as_told(name.group, state))
    }

    /// Removes an object, durably. No object: that is well.
    ///
    /// # Errors
    /// `Stale`: the capability is not good. Others: those of the store.
    pub async fn unlink(&self, range: &ObjectRange) -> Result<(), Status> {
        self.check_genuine(&range.capability, Capability::WRITE)?;
        let object = range.object();
        let _change = match self.groups.standing(object.group) {
            Ok(Standing::Primary { .. } | Standing::Alone { .. }) => {
                self.begin_change(object).await?
            }
            _ => None,
        };
        match self.groups.standing(object.group) {
            Ok(Standing::Primary { .. }) => {
                self.forget(object);
                self.pass_on(object, ObjectChange::Remove).await?;
            }
            // The other member would keep it.
            Ok(Standing::Restarted | Standing::Lost | Standing::Unserved)
            | Err(Status::Jukebox) => return Err(Status::Jukebox),
            _ => self.forget(object),
        }
        let removed = self.store.remove(object).await;
        removed.map_err(|status| self.own_failure(object.group, status))
    }

    /// Nothing is written to an object from now on, which is about to be removed.
    fn forget(&self, object: ObjectId) {
        self.handles.borrow_mut().remove(&object);
        self.tombstones
            .borrow_mut()
            .insert(object, self.runtime.now());
        self.watcher.ended(object);
    }

    /// Refuses capabilities of a file from now on that expire at `fence` or earlier, and ends what they gave.
    ///
    /// # Errors
    /// `Stale`: the capability is not good.
    pub fn revoke(&self, capability: &Capability, fence: u64) -> Result<(), Status> {
        self.check_genuine(capability, Capability::WRITE)?;
        self.revoke_here(capability.file, fence);
        Ok(())
    }

    fn revoke_here(&self, file: u64, fence: u64) {
        let now = self.runtime.now();
        self.revocations.borrow_mut().insert(file, fence, now);
        self.watcher.revoked(file);
    }
}
