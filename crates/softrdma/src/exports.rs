//! The translation and protection table of exported objects (paper 003, section IV-A).
//!
//! An entry is one object for one connection. It names an open file and not a path or a number: a new object under
//! the same name has another entry. Entries and their loaded bytes have separate bounds. Both are replaced by the
//! second-chance algorithm: an entry that was used since the clock hand last passed it stays.
//!
//! The table is borrowed within one step and never while the exporter's [`FindExported`] runs, which may enter and
//! remove entries. Everything that was looked up before it is checked again after it.

use crate::limits::{EXPORTS_LOADED_MAX, EXPORTS_MAX};
use crate::region::{FindRegion, TableRegion};
use gannet_fabric::limits::OPTIMISTIC_READ_MAX;
use gannet_fabric::{
    AccessError, AccessKey, EndpointId, Export, ExportStats, ExportTable, Exported, FindExported,
    MemoryRegion, Reference, RemoteAddress, RemoteKey, SoftwareRegion, file_status_bytes,
};
use gannet_runtime::{FileSource, Handle, Instant};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io;
use std::rc::Rc;

/// The exporter, the object, the connection.
type Name = (u32, u128, EndpointId);

struct Entry {
    name: Name,
    key: RemoteKey,
    /// The tagged offset of the object's first byte.
    base: u64,
    access_key: AccessKey,
    /// The end of the right to read.
    until: Instant,
    /// `None` while the entry is unloaded: the exporter finds the bytes again.
    bytes: Option<Exported>,
    /// Used since the clock hand passed.
    used: bool,
}

/// All entries of a domain.
#[derive(Default)]
pub(crate) struct Exports {
    /// Finds the table's region behind a provider's own; `None` where those are the table's.
    pub(crate) behind: Option<FindRegion>,
    slots: Vec<Option<Entry>>,
    free: Vec<usize>,
    by_key: HashMap<RemoteKey, usize>,
    by_name: BTreeMap<Name, usize>,
    by_endpoint: BTreeSet<(EndpointId, usize)>,
    /// Entries with loaded bytes.
    loaded: usize,
    /// The clock hands for evicting entries and for unloading bytes.
    entry_hand: usize,
    loaded_hand: usize,
    owners: HashMap<u32, Owner>,
    next_owner: u32,
    /// Another bound, for tests.
    #[cfg(test)]
    bounds: Option<(usize, usize)>,
}

struct Owner {
    find: FindExported,
    stats: Rc<Cell<ExportStats>>,
}

/// An optimistic read of a peer, authenticated already.
#[derive(Debug, Clone, Copy)]
pub struct OptimisticRead {
    /// The connection that it came on.
    pub endpoint: EndpointId,
    /// The object and the offset in it.
    pub source: Reference,
}

impl Exports {
    fn bounds(&self) -> (usize, usize) {
        #[cfg(test)]
        if let Some(bounds) = self.bounds {
            return bounds;
        }
        (EXPORTS_MAX, EXPORTS_LOADED_MAX)
    }

    pub(crate) fn has_key(&self, key: RemoteKey) -> bool {
        self.by_key.contains_key(&key)
    }

    fn at(&mut self, slot: usize) -> Option<&mut Entry> {
        self.slots.get_mut(slot)?.as_mut()
    }

    fn enter(&mut self, entry: Entry) {
        if self.by_key.len() >= self.bounds().0 {
            self.evict();
        }
        let (key, name) = (entry.key, entry.name);
        self.loaded += usize::from(entry.bytes.is_some());
        let slot = match self.free.pop() {
            Some(slot) => slot,
            None => {
                self.slots.push(None);
                self.slots.len() - 1
            }
        };
        if let Some(place) = self.slots.get_mut(slot) {
            *place = Some(entry);
        }
        self.by_key.insert(key, slot);
        self.by_name.insert(name, slot);
        self.by_endpoint.insert((name.2, slot));
        self.unload(slot);
    }

    /// Removes an entry that was not used for long. Two turns of the hand find one: the first clears all `used` flags.
    fn evict(&mut self) {
        for _ in 0..=2 * self.slots.len() {
            let slot = self.entry_hand;
            self.entry_hand = (slot + 1) % self.slots.len().max(1);
            let Some(entry) = self.at(slot) else {
                continue;
            };
            if !std::mem::take(&mut entry.used) {
                let owner = entry.name.0;
                self.remove(slot);
                self.count(owner, |stats| stats.evicted += 1);
                return;
            }
        }
    }

    /// Unloads bytes beyond the bound, but not those of `kept`, which the caller is about to use.
    fn unload(&mut self, kept: usize) {
        for _ in 0..=2 * self.slots.len() {
            if self.loaded <= self.bounds().1 {
                return;
            }
            let slot = self.loaded_hand;
            self.loaded_hand = (slot + 1) % self.slots.len().max(1);
            let Some(entry) = self.at(slot).filter(|_| slot != kept) else {
                continue;
            };
            if !std::mem::take(&mut entry.used) && entry.bytes.take().is_some() {
                self.loaded -= 1;
            }
        }
    }

    fn remove(&mut self, slot: usize) {
        let Some(entry) = self.slots.get_mut(slot).and_then(Option::take) else {
            return;
        };
        self.loaded -= usize::from(entry.bytes.is_some());
        self.by_key.remove(&entry.key);
        self.by_name.remove(&entry.name);
        self.by_endpoint.remove(&(entry.name.2, slot));
        self.free.push(slot);
    }

    fn remove_range(&mut self, from: Name, to: Name) {
        let slots: Vec<usize> = self
            .by_name
            .range(from..=to)
            .map(|(_, slot)| *slot)
            .collect();
        slots.into_iter().for_each(|slot| self.remove(slot));
    }

    /// Removes the entries of a connection that has ended.
    pub(crate) fn remove_endpoint(&mut self, endpoint: EndpointId) {
        let of_it = self
            .by_endpoint
            .range((endpoint, 0)..=(endpoint, usize::MAX));
        let slots: Vec<usize> = of_it.map(|(_, slot)| *slot).collect();
        slots.into_iter().for_each(|slot| self.remove(slot));
    }

    fn count(&self, owner: u32, change: impl FnOnce(&mut ExportStats)) {
        if let Some(owner) = self.owners.get(&owner) {
            let mut stats = owner.stats.get();
            change(&mut stats);
            owner.stats.set(stats);
        }
    }

    /// The entry that a read may use, and the offset of the read in its object. The connection is checked before the
    /// access key, so that a peer cannot try keys of references that were made for others.
    fn check(&self, read: &OptimisticRead, len: usize, now: Instant) -> Checked {
        let RemoteAddress { key, offset } = read.source.address;
        let slot = *self
            .by_key
            .get(&key)
            .ok_or((AccessError::InvalidKey, None))?;
        let entry = self.slots.get(slot).and_then(Option::as_ref);
        let entry = entry.ok_or((AccessError::InvalidKey, None))?;
        let owner = Some(entry.name.0);
        let refused = |error| Err((error, owner));
        if entry.name.2 != read.endpoint {
            return refused(AccessError::WrongEndpoint);
        }
        if entry.access_key != read.source.access_key {
            return refused(AccessError::Capability);
        }
        if entry.until <= now {
            return refused(AccessError::InvalidKey);
        }
        if offset.checked_add(len as u64).is_none() {
            return refused(AccessError::Wrap);
        }
        match offset.checked_sub(entry.base) {
            Some(start) if len <= OPTIMISTIC_READ_MAX as usize => Ok((slot, start)),
            _ => refused(AccessError::Bounds),
        }
    }
}

/// Slot and start; or the reason of a refusal, with the exporter whose entry refuses.
type Checked = Result<(usize, u64), (AccessError, Option<u32>)>;

/// Copies the bytes of `read` into `target`. After an error the content of `target` is undefined.
pub(crate) fn read(
    exports: &RefCell<Exports>,
    read: &OptimisticRead,
    now: Instant,
    target: &mut [u8],
) -> Result<(), AccessError> {
    let checked = exports.borrow().check(read, target.len(), now);
    let (slot, start) = match checked {
        Ok(found) => found,
        Err((error, owner)) => {
            if let Some(owner) = owner {
                exports
                    .borrow()
                    .count(owner, |stats| stats.note(Err(error)));
            }
            return Err(error);
        }
    };
    let Some((owner, bytes)) = at_hand(exports, slot) else {
        return Err(AccessError::InvalidKey);
    };
    let taken = match bytes {
        Some(bytes) => {
            let behind = exports.borrow().behind.unwrap_or(TableRegion::of);
            take(&bytes, start, target, behind)
        }
        None => Err(AccessError::NotResident),
    };
    exports.borrow().count(owner, |stats| stats.note(taken));
    taken
}

/// The exporter of an entry and its bytes, which the exporter finds again if they were unloaded.
fn at_hand(exports: &RefCell<Exports>, slot: usize) -> Option<(u32, Option<Exported>)> {
    let (owner, object, key) = {
        let mut exports = exports.borrow_mut();
        let entry = exports.at(slot)?;
        entry.used = true;
        let (owner, object, _) = entry.name;
        if let Some(bytes) = entry.bytes.as_ref().filter(|bytes| is_there(bytes)) {
            return Some((owner, Some(bytes.clone())));
        }
        (owner, object, entry.key)
    };
    // Nothing is borrowed while the exporter runs: it may enter and remove entries.
    let find = exports
        .borrow()
        .owners
        .get(&owner)
        .map(|owner| Rc::clone(&owner.find));
    let Some(found) = find.and_then(|find| find(object)) else {
        return Some((owner, None));
    };
    let mut exports = exports.borrow_mut();
    // The slot may hold another entry now, even one of the same object: the key decides. The object that the old key
    // named was removed, and its reference must not read the new one.
    let entry = exports.at(slot).filter(|entry| entry.key == key)?;
    if let Some(entered) = entry.bytes.as_ref().filter(|bytes| is_there(bytes)) {
        return Some((owner, Some(entered.clone())));
    }
    let had_bytes = entry.bytes.replace(found.clone()).is_some();
    exports.loaded += usize::from(!had_bytes);
    exports.count(owner, |stats| stats.faults += 1);
    exports.unload(slot);
    Some((owner, Some(found)))
}

/// False for a file that is not open any more.
fn is_there(bytes: &Exported) -> bool {
    match bytes {
        Exported::OpenFile(file) | Exported::OpenFileStatus(file) => file.strong_count() > 0,
        Exported::File(_) | Exported::Memory { .. } => true,
    }
}

/// Copies bytes of an object, if all are in memory now.
fn take(
    bytes: &Exported,
    start: u64,
    target: &mut [u8],
    behind: FindRegion,
) -> Result<(), AccessError> {
    match bytes {
        Exported::File(file) => take_resident(&**file, start, target),
        Exported::OpenFile(file) => match file.upgrade() {
            Some(file) => take_resident(&*file, start, target),
            None => Err(AccessError::NotResident),
        },
        Exported::OpenFileStatus(file) => {
            let status = file.upgrade().and_then(|file| file.status().ok());
            let bytes = file_status_bytes(&status.ok_or(AccessError::NotResident)?);
            let start = usize::try_from(start).map_err(|_| AccessError::Bounds)?;
            let range = bytes.get(start..).and_then(|rest| rest.get(..target.len()));
            target.copy_from_slice(range.ok_or(AccessError::Bounds)?);
            Ok(())
        }
        Exported::Memory {
            region,
            offset,
            len,
        } => {
            let end = start.checked_add(target.len() as u64);
            if end.is_none_or(|end| end > *len) {
                return Err(AccessError::Bounds);
            }
            let region = behind(&**region).filter(|region| region.is_valid());
            let bytes = region.and_then(|it| it.bytes(offset.checked_add(start)?, target.len()));
            target.copy_from_slice(&bytes.ok_or(AccessError::InvalidKey)?);
            Ok(())
        }
    }
}

/// Copies bytes of a file from the page cache. Checks residency first: a read with RWF_NOWAIT makes Linux start to read
/// from the disk when the bytes are not there, and the refused read would not use them.
fn take_resident(file: &dyn FileSource, start: u64, target: &mut [u8]) -> Result<(), AccessError> {
    if !file.is_resident(start, target.len() as u64) {
        return Err(AccessError::NotResident);
    }
    let mut filled = 0;
    while let Some(rest) = target.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        match file.try_read_at(start.saturating_add(filled as u64), rest) {
            // The file ends here. Zeros in place of the rest would not be bytes of the object.
            Ok(0) => return Err(AccessError::Bounds),
            Ok(count) => filled += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return Err(AccessError::NotResident),
        }
    }
    Ok(())
}

/// The entries of one exporter in a table. Dropping it removes them.
pub(crate) struct OwnExports {
    runtime: Handle,
    exports: Rc<RefCell<Exports>>,
    owner: u32,
    stats: Rc<Cell<ExportStats>>,
    fresh_key: Box<dyn Fn() -> RemoteKey>,
}

impl OwnExports {
    pub(crate) fn new(
        runtime: Handle,
        exports: Rc<RefCell<Exports>>,
        find: FindExported,
        fresh_key: Box<dyn Fn() -> RemoteKey>,
    ) -> OwnExports {
        let stats = Rc::<Cell<ExportStats>>::default();
        let owner = {
            let mut exports = exports.borrow_mut();
            let owner = exports.next_owner;
            exports.next_owner += 1;
            let stats = Rc::clone(&stats);
            exports.owners.insert(owner, Owner { find, stats });
            owner
        };
        OwnExports {
            runtime,
            exports,
            owner,
            stats,
            fresh_key,
        }
    }
}

const FIRST: EndpointId = EndpointId(0);
const LAST: EndpointId = EndpointId(u64::MAX);

impl ExportTable for OwnExports {
    fn enter(&self, export: Export) -> Reference {
        let Export {
            object,
            endpoint,
            until,
            bytes,
        } = export;
        let name = (self.owner, object, endpoint);
        let key = (self.fresh_key)();
        let mut exports = self.exports.borrow_mut();
        if let Some(slot) = exports.by_name.get(&name).copied()
            && let Some(entry) = exports.at(slot)
        {
            entry.until = entry.until.max(until);
            let had_bytes = entry.bytes.replace(bytes).is_some();
            let reference = reference_of(entry);
            exports.loaded += usize::from(!had_bytes);
            exports.unload(slot);
            return reference;
        }
        let entry = Entry {
            name,
            key,
            // A random base makes an offset taken from elsewhere useless here; 2^48 leaves room below 2^64.
            base: (self.runtime.random() >> 16) & !0xfff,
            access_key: AccessKey(self.runtime.random()),
            until,
            bytes: Some(bytes),
            used: true,
        };
        let reference = reference_of(&entry);
        exports.enter(entry);
        reference
    }

    fn remove(&self, object: u128) {
        let (from, to) = ((self.owner, object, FIRST), (self.owner, object, LAST));
        self.exports.borrow_mut().remove_range(from, to);
    }

    fn remove_all(&self) {
        let (from, to) = ((self.owner, 0, FIRST), (self.owner, u128::MAX, LAST));
        self.exports.borrow_mut().remove_range(from, to);
    }

    fn protect(&self, key: RemoteKey, until: Instant) -> bool {
        let mut exports = self.exports.borrow_mut();
        let slot = exports.by_key.get(&key).copied();
        let entry = slot.and_then(|slot| exports.at(slot));
        let Some(entry) = entry.filter(|entry| entry.name.0 == self.owner) else {
            return false;
        };
        entry.until = until;
        true
    }

    fn stats(&self) -> ExportStats {
        let exports = self.exports.borrow();
        let (from, to) = ((self.owner, 0, FIRST), (self.owner, u128::MAX, LAST));
        let entries = exports.by_name.range(from..=to).count() as u64;
        ExportStats {
            entries,
            ..self.stats.get()
        }
    }
}

impl Drop for OwnExports {
    fn drop(&mut self) {
        self.remove_all();
        self.exports.borrow_mut().owners.remove(&self.owner);
    }
}

fn reference_of(entry: &Entry) -> Reference {
    Reference {
        address: RemoteAddress {
            key: entry.key,
            offset: entry.base,
        },
        access_key: entry.access_key,
    }
}

#[cfg(test)]
mod tests;
