//! Attribute records: attributes of files in memory that the manager's clients read without a call (paper 003, section
//! III-B).
//!
//! There are two kinds of records:
//!
//! - A whole record, while the manager could answer GETATTR from its own knowledge. The record equals that answer.
//! - A record of the inode alone, while some client may write the file. The client reads the states of the objects from
//!   the I/O servers, and then the record once more. A file has no record while a truncation is under way, so an
//!   unchanged record shows that none happened meanwhile.
//!
//! The manager removes a record before its content may change:
//!
//! - before a transaction that may change the inode ([`Records::begin_changes`]);
//! - with its knowledge of the sizes of objects ([`Records::remove`] from [`super::sizes`]), which a grant to write, a
//!   truncation and a removal end.
//!
//! Records lie in the slots of one table. The use by calls decides which record makes room for another, because the
//! manager does not see reads without a call.

use super::{Manager, look};
use crate::convert::{attributes_of, record_of, whole_of};
use crate::limits::{ATTRIBUTES_EXPORTED_FOR, RECORDS_SWEEP};
use crate::link::Link;
use gannet_fabric::{
    Access, Backing, Domain, Export, ExportStats, ExportTable, Exported, Reference, Region, Scope,
    with_memory,
};
use gannet_meta::namespace;
use gannet_runtime::{Buffer, Handle, Instant, sleep};
use gannet_wire::volume::{
    ATTRIBUTE_RECORD_LEN, AttributeRecord, AttributeReferences, Body, FileId, Found, Inode,
    Referenced,
};
use gannet_wire::xdr::{Encode, to_bytes};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeSet, HashMap};
use std::rc::Rc;

/// The table's object number in the export table.
const TABLE: u128 = 0;
/// Bytes of a record.
const LEN: u64 = ATTRIBUTE_RECORD_LEN as u64;

/// The attribute records of a manager, and the files of the transaction under way.
pub(super) struct Records {
    runtime: Handle,
    slots_max: usize,
    /// `None` until the first client wants references.
    table: RefCell<Option<Table>>,
    changing: RefCell<Changing>,
    /// No file gets a record now.
    is_suspended: Cell<bool>,
    removals: Cell<u64>,
}

/// The files that a transaction under way may change.
#[derive(Default)]
enum Changing {
    #[default]
    None,
    These(BTreeSet<FileId>),
    /// Any file: the transaction does not say which.
    All,
}

/// The records and their exported memory.
struct Table {
    domain: Rc<dyn Domain>,
    exports: Rc<dyn ExportTable>,
    region: Region,
    slots: Vec<Slot>,
    /// Slots that had a record once and have none now.
    free: Vec<u32>,
    by_file: HashMap<FileId, u32>,
    /// The slot at which the next search for room begins.
    hand: usize,
}

/// The manager's view of one slot.
struct Slot {
    file: Option<FileId>,
    /// The version in the record: even, and greater with each change of the slot.
    version: u64,
    /// The end of the record; `None`: it ends only with a change.
    until: Option<Instant>,
    /// The record has all attributes, not those of the inode alone.
    is_whole: bool,
    /// A call has reported the record since the hand last passed.
    used: bool,
}

impl Slot {
    /// A slot without a record.
    fn free(version: u64) -> Slot {
        Slot {
            file: None,
            version,
            until: None,
            is_whole: false,
            used: false,
        }
    }
}

impl Records {
    /// An empty table of at most `slots_max` records, allocated when a client first wants references.
    pub(super) fn new(runtime: Handle, slots_max: usize) -> Rc<Records> {
        Rc::new(Records {
            runtime,
            slots_max,
            table: RefCell::default(),
            changing: RefCell::default(),
            is_suspended: Cell::default(),
            removals: Cell::default(),
        })
    }

    /// Whether the peer of `link` can read the table; allocates the table if there is none.
    fn are_for(&self, link: &Link) -> bool {
        if !link.has_exceptions() {
            return false;
        }
        let (domain, mut table) = (link.endpoint().domain(), self.table.borrow_mut());
        if table.is_none() {
            *table = Table::new(Rc::clone(&domain), self.slots_max);
        }
        // A connection of another adapter cannot reach the table's memory.
        let is_same = |it: &Table| std::ptr::addr_eq(Rc::as_ptr(&it.domain), Rc::as_ptr(&domain));
        table.as_ref().is_some_and(is_same)
    }

    /// A reference to the table for the peer of `link`, valid for [`ATTRIBUTES_EXPORTED_FOR`].
    fn reference(&self, link: &Link) -> Option<Reference> {
        let table = self.table.borrow();
        let table = table.as_ref()?;
        Some(table.exports.enter(Export {
            object: TABLE,
            endpoint: link.endpoint().id(),
            until: self.runtime.now() + ATTRIBUTES_EXPORTED_FOR,
            bytes: exported(&table.region),
        }))
    }

    /// The slot of a file's record; marks the slot as used.
    fn slot(&self, file: FileId) -> Option<u32> {
        let mut table = self.table.borrow_mut();
        let table = table.as_mut()?;
        let number = *table.by_file.get(&file)?;
        table.slots.get_mut(number as usize)?.used = true;
        Some(number)
    }

    /// Whether a file has a record of its inode alone.
    fn lacks_sizes(&self, file: FileId) -> bool {
        let table = self.table.borrow();
        let slot = table.as_ref().and_then(|table| {
            let number = *table.by_file.get(&file)?;
            table.slots.get(number as usize)
        });
        slot.is_some_and(|slot| !slot.is_whole)
    }

    /// Writes a record of `file` that ends at `until`, or earlier with a change. Returns its slot, or `None` if the
    /// file gets none.
    fn put(&self, file: FileId, record: &AttributeRecord, until: Option<Instant>) -> Option<u32> {
        // Attributes from before the transaction would be readable after its commit.
        if self.may_change(file) {
            return None;
        }
        let mut table = self.table.borrow_mut();
        table.as_mut()?.put(file, record, until, self.slots_max)
    }

    /// Whether a transaction under way may change a file.
    fn may_change(&self, file: FileId) -> bool {
        self.is_suspended.get()
            || match &*self.changing.borrow() {
                Changing::None => false,
                Changing::These(files) => files.contains(&file),
                Changing::All => true,
            }
    }

    /// Removes the record of a file: no read that begins after the return sees it. Returns whether there was one.
    pub(super) fn remove(&self, file: FileId) -> bool {
        let mut table = self.table.borrow_mut();
        let had_record = table.as_mut().is_some_and(|table| table.remove(file));
        self.removals
            .set(self.removals.get() + u64::from(had_record));
        had_record
    }

    /// Removes all records and lets no file get another one, or allows records again.
    pub(super) fn suspend(&self, is_suspended: bool) {
        self.is_suspended.set(is_suspended);
        if is_suspended {
            self.remove_all();
        }
    }

    /// Removes all records.
    pub(super) fn remove_all(&self) {
        if let Some(table) = self.table.borrow_mut().as_mut() {
            // Slots become free in this order and are given away again in it: the simulator must be able to repeat it.
            let mut files: Vec<FileId> = table.by_file.keys().copied().collect();
            files.sort_unstable();
            files.into_iter().for_each(|file| _ = table.remove(file));
        }
    }

    /// Removes the records of these files, or of all, before a transaction that may change them. The files get no new
    /// record until [`Records::end_changes`].
    pub(super) fn begin_changes(&self, files: Option<BTreeSet<FileId>>) {
        match &files {
            Some(files) => files.iter().for_each(|file| _ = self.remove(*file)),
            None => self.remove_all(),
        }
        self.changing
            .replace(files.map_or(Changing::All, Changing::These));
    }

    /// Allows records again after the transaction, which has changed these files.
    pub(super) fn end_changes(&self, changed: &BTreeSet<FileId>) {
        for file in changed {
            // New files have no record yet.
            let had_record = self.remove(*file);
            debug_assert!(!had_record, "a change of {file:?} was not foreseen");
        }
        self.changing.take();
    }

    /// Removes the records that would end before the next sweep.
    fn expire(&self, now: Instant) {
        let mut table = self.table.borrow_mut();
        let Some(table) = table.as_mut() else {
            return;
        };
        let ends = |slot: &&Slot| slot.until.is_some_and(|until| until <= now + RECORDS_SWEEP);
        let over = table.slots.iter().filter(ends);
        let over: Vec<FileId> = over.filter_map(|slot| slot.file).collect();
        over.into_iter().for_each(|file| _ = table.remove(file));
    }

    fn stats(&self) -> RecordStats {
        let table = self.table.borrow();
        RecordStats {
            records: table.as_ref().map_or(0, |table| table.by_file.len() as u64),
            removals: self.removals.get(),
            exports: table
                .as_ref()
                .map(|table| table.exports.stats())
                .unwrap_or_default(),
        }
    }
}

impl Table {
    /// A table in memory that the adapter of `domain` can reach; `None` if the adapter exports none.
    fn new(domain: Rc<dyn Domain>, slots_max: usize) -> Option<Table> {
        let memory = Buffer::zeroed(slots_max * ATTRIBUTE_RECORD_LEN);
        // `Local`: peers reach the region only by the keys of the export table, which authenticates each Read.
        let region = domain
            .register_now(Backing::Buffer(memory), Access::Local, Scope::Domain)
            .ok()?;
        let found = Region::clone(&region);
        let exports = domain.exports(Rc::new(move |_| Some(exported(&found))))?;
        Some(Table {
            domain,
            exports,
            region,
            slots: Vec::new(),
            free: Vec::new(),
            by_file: HashMap::new(),
            hand: 0,
        })
    }

    fn put(
        &mut self,
        file: FileId,
        record: &AttributeRecord,
        until: Option<Instant>,
        slots_max: usize,
    ) -> Option<u32> {
        let number = match self.by_file.get(&file) {
            Some(number) => *number,
            None => self.take_slot(slots_max)?,
        };
        let slot = self.slots.get_mut(number as usize)?;
        let version = slot.version + 2;
        *slot = Slot {
            file: Some(file),
            version,
            until,
            is_whole: matches!(record, AttributeRecord::Whole { .. }),
            used: true,
        };
        self.by_file.insert(file, number);
        self.write(number, record, version);
        Some(number)
    }

    /// A free slot, or the slot of a file that no call has reported since the hand last passed.
    fn take_slot(&mut self, slots_max: usize) -> Option<u32> {
        if let Some(number) = self.free.pop() {
            return Some(number);
        }
        if self.slots.len() < slots_max {
            self.slots.push(Slot::free(0));
            return u32::try_from(self.slots.len() - 1).ok();
        }
        // The first round may do no more than clear the marks of use; the second one finds a slot.
        for _ in 0..=2 * self.slots.len() {
            let at = self.hand;
            self.hand = (at + 1) % self.slots.len().max(1);
            let slot = self.slots.get_mut(at)?;
            if !std::mem::take(&mut slot.used) {
                let file = slot.file.take();
                file.inspect(|file| _ = self.by_file.remove(file));
                return u32::try_from(at).ok();
            }
        }
        None
    }

    fn remove(&mut self, file: FileId) -> bool {
        let Some(number) = self.by_file.remove(&file) else {
            return false;
        };
        if let Some(slot) = self.slots.get_mut(number as usize) {
            let version = slot.version + 2;
            *slot = Slot::free(version);
            self.write(number, &AttributeRecord::Free, version);
        }
        self.free.push(number);
        true
    }

    /// Writes a slot: the odd version first, the even one last. An adapter that reads meanwhile sees a torn record.
    fn write(&self, number: u32, record: &AttributeRecord, version: u64) {
        let start = number as usize * LEN as usize;
        let written = with_memory(&self.region, |memory| {
            let Some(slot) = memory.get_mut(start..start + LEN as usize) else {
                return;
            };
            let bytes = record.to_bytes(version);
            let (begin, rest) = (8, bytes.get(8..).unwrap_or_default());
            let odd = (version - 1).to_be_bytes();
            put(slot, 0, &odd);
            put(slot, begin, rest);
            put(slot, 0, &version.to_be_bytes());
        });
        debug_assert!(written.is_some(), "nobody revokes the table's region");
    }
}

fn put(slot: &mut [u8], at: usize, bytes: &[u8]) {
    let places = slot.iter_mut().skip(at);
    places.zip(bytes).for_each(|(to, byte)| *to = *byte);
}

fn exported(region: &Region) -> Exported {
    Exported::Memory {
        region: Region::clone(region),
        offset: 0,
        len: region.len(),
    }
}

/// Counters of attribute records.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RecordStats {
    /// Records now.
    pub records: u64,
    /// Records that the manager removed because their content was about to change.
    pub removals: u64,
    /// Reads of the table.
    pub exports: ExportStats,
}

impl Manager {
    /// Counters of attribute records and of the reads of their table.
    pub fn attribute_stats(&self) -> RecordStats {
        self.records.stats()
    }

    /// The body of an answer that reports files, with references to their records if the peer wants some.
    pub(super) fn referenced<T: Encode>(
        &self,
        link: &Link,
        wants: bool,
        files: for<'a> fn(&'a T) -> Vec<&'a Found>,
        answer: T,
    ) -> Vec<u8> {
        let references = if wants && self.records.are_for(link) {
            self.references(link, &files(&answer))
        } else {
            None
        };
        to_bytes(&Referenced { answer, references })
    }

    /// References to the records of files. A file without a record gets one, unless it is being truncated. A record of
    /// an inode becomes whole when the manager knows all attributes of the file.
    fn references(&self, link: &Link, files: &[&Found]) -> Option<AttributeReferences> {
        let slot = |file: &&Found| self.records.slot(file.id);
        let lacks = |file: &&&Found| {
            let is_missing = slot(file).is_none();
            is_missing || (self.records.lacks_sizes(file.id) && self.knows(file))
        };
        let lack: Vec<FileId> = files.iter().filter(lacks).map(|file| file.id).collect();
        if !lack.is_empty() {
            // No await from here on: a change in between would leave a record of the state before it. The answer's own
            // attributes may be older.
            let looked = look(&*self.store, |view| {
                for file in &lack {
                    // A file that was removed, or whose inode is damaged, gets no record.
                    let inode = namespace::inode(view, *file).ok();
                    inode.and_then(|inode| self.put_record(*file, inode));
                }
                Ok(())
            });
            looked.ok()?;
        }
        let slots: Vec<_> = files.iter().map(slot).collect();
        if slots.iter().all(Option::is_none) {
            return None;
        }
        let Reference {
            address,
            access_key,
        } = self.records.reference(link)?;
        Some(AttributeReferences {
            key: address.key.0,
            offset: address.offset,
            access_key: access_key.0,
            slots,
        })
    }

    /// Whether the manager knows the attributes of a file without asking an I/O server.
    fn knows(&self, file: &Found) -> bool {
        match &file.inode.body {
            Body::Regular { layout, .. } => self.sizes.known_until(file.id, layout).is_some(),
            _ => true,
        }
    }

    /// Gives a file a record: a whole one if the manager knows all of its attributes, else one of its inode. A regular
    /// file that is being truncated gets none: its sizes are those before and after at the same time.
    fn put_record(&self, id: FileId, inode: Inode) -> Option<u32> {
        let (mut state, mut until) = (self.settled(&inode), None);
        if let (
            Body::Regular {
                layout, written, ..
            },
            None,
        ) = (&inode.body, state)
        {
            if let Some((known, holds_until)) = self.sizes.known_until(id, layout) {
                (state, until) = (Some(known), Some(holds_until));
            } else if self.sizes.is_to_be_cut(id) || self.intents.cuts_to(id).is_some() {
                return None;
            } else {
                let record = AttributeRecord::Inode {
                    file: id,
                    attributes: record_of(inode.kind(), &attributes_of(&inode, id, 0)),
                    written: *written,
                };
                return self.records.put(id, &record, None);
            }
        }
        let found = Found { id, inode, state };
        let record = AttributeRecord::Whole {
            file: id,
            attributes: record_of(found.inode.kind(), &whole_of(&found, 0)?),
        };
        self.records.put(id, &record, until)
    }

    /// Removes records that are about to end, at intervals, until the runtime ends.
    pub(super) async fn expire_records(self: Rc<Self>) {
        loop {
            sleep(&self.runtime, RECORDS_SWEEP).await;
            self.records.expire(self.runtime.now());
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use gannet_sim::World;
    use gannet_sim::fabric::{FabricProfile, SimFabric};
    use gannet_wire::volume::{FileAttributes, FileKind, Timestamp};
    use std::time::Duration;

    const SLOTS: usize = 3;

    fn run(story: impl FnOnce(Rc<Records>) + 'static) {
        let world = World::new(1);
        let node = world.add_node("manager");
        let fabric = SimFabric::new(&world, FabricProfile::default());
        let told = async move {
            let records = Records::new(node.runtime(), SLOTS);
            let table = Table::new(fabric.provider(&node).domain(), SLOTS);
            assert!(table.is_some());
            records.table.replace(table);
            story(records);
        };
        world.run(told).unwrap();
    }

    fn sized(size: u64) -> FileAttributes {
        let time = Timestamp::default();
        FileAttributes {
            kind: FileKind::Regular,
            mode: 0o644,
            links: 1,
            uid: 1,
            gid: 2,
            major: 0,
            minor: 0,
            size,
            used: 0,
            access_time: time,
            modify_time: time,
            change_time: time,
            change_id: 9,
        }
    }

    fn whole(file: u64) -> AttributeRecord {
        AttributeRecord::Whole {
            file: FileId(file),
            attributes: sized(file * 10),
        }
    }

    fn put(records: &Records, file: u64) -> Option<u32> {
        records.put(FileId(file), &whole(file), None)
    }

    /// The record that a client reads from a slot, and its version.
    fn seen(records: &Records, slot: u32) -> (AttributeRecord, u64) {
        let table = records.table.borrow();
        let region = &table.as_ref().unwrap().region;
        let start = slot as usize * LEN as usize;
        let slot = |memory: &mut [u8]| memory[start..start + LEN as usize].to_vec();
        let bytes = with_memory(region, slot).unwrap();
        let version = u64::from_be_bytes(*bytes.first_chunk().unwrap());
        (AttributeRecord::from_bytes(&bytes).unwrap(), version)
    }

    #[test]
    fn a_record_is_removed_for_a_change_and_returns_with_a_higher_version() {
        run(|records| {
            let slot = put(&records, 7).unwrap();
            assert_eq!(seen(&records, slot), (whole(7), 2));
            records.begin_changes(Some([FileId(7)].into()));
            assert_eq!(seen(&records, slot), (AttributeRecord::Free, 4));
            assert_eq!(put(&records, 7), None, "it may be old already");
            assert!(put(&records, 8).is_some(), "others are not concerned");
            records.end_changes(&[FileId(7)].into());
            assert!(put(&records, 7).is_some());
            records.begin_changes(None);
            assert_eq!((records.slot(FileId(8)), put(&records, 9)), (None, None));
            records.end_changes(&BTreeSet::new());
            assert_eq!(records.stats().removals, 1);
        });
    }

    #[test]
    fn a_full_table_reuses_a_slot_that_no_call_reported_in_the_last_round() {
        run(|records| {
            let slots = [1, 2, 3].map(|file| put(&records, file).unwrap());
            assert_eq!(slots, [0, 1, 2]);
            // All slots were used: the first round clears their marks, and the second one takes the first slot.
            assert_eq!(put(&records, 4), Some(0));
            assert_eq!(records.slot(FileId(1)), None);
            assert_eq!(records.slot(FileId(2)), Some(1));
            assert_eq!(put(&records, 5), Some(2), "a call reported file 2");
            let (record, version) = seen(&records, 2);
            assert_eq!(record, whole(5));
            assert_eq!(version, 4);
            // A free slot is taken before any other.
            records.remove(FileId(2));
            assert_eq!(put(&records, 6), Some(1));
            assert_eq!(records.stats().records, 3);
        });
    }

    #[test]
    fn a_record_that_ends_before_the_next_sweep_is_removed() {
        run(|records| {
            let now = records.runtime.now();
            let until = now + RECORDS_SWEEP + Duration::from_secs(1);
            let slot = records.put(FileId(7), &whole(7), Some(until)).unwrap();
            let stays = put(&records, 8).unwrap();
            records.expire(now);
            assert_eq!(records.slot(FileId(7)), Some(slot));
            records.expire(now + Duration::from_secs(1));
            assert_eq!(seen(&records, slot).0, AttributeRecord::Free);
            assert_eq!(records.slot(FileId(8)), Some(stays));
            records.remove_all();
            assert_eq!(seen(&records, stays).0, AttributeRecord::Free);
        });
    }
}
