//! Attribute references: attributes that a client reads from the manager's memory without a call (paper 003).
//!
//! Replies of the manager report the slots of attribute records. By the time of the read, a slot may have no record or
//! that of another file. A record names its file, and the manager removes it before any of its content changes. A
//! whole record therefore equals the reply of a GETATTR at that moment. The client sends a GETATTR if the slot has no
//! record of the file. Every user of the volume may read attributes, by either way.
//!
//! While some client may write a file, its record has the attributes of the inode alone. The client then reads the
//! states of the objects from the I/O servers ([`super::object_states`]), and the record again. If the record is the
//! same one, no truncation and no change of the inode happened in between, and the two parts belong together.

use super::VolumeFs;
use crate::client::servers::Peer;
use crate::convert::{add_state, attributes_in};
use crate::limits::{ATTRIBUTE_RECORDS_MAX, RECORD_SINKS_MAX, TORN_RETRIES};
use crate::link::{ExportedRead, Link, Message};
use gannet_fabric::{Access, Backing, Reference, Region, Scope, Span, with_memory};
use gannet_runtime::Buffer;
use gannet_vfs::{Attributes, Credentials, Status};
use gannet_wire::volume::{
    ATTRIBUTE_RECORD_LEN, AttributeRecord, AttributeReferences, Body, Call, FileAttributes, FileId,
    Found, FoundFiles, Page, Referenced, Timestamp,
};
use gannet_wire::xdr::from_bytes;
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;

/// Counters of attribute references.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct AttributeCounters {
    /// Attributes that reads of records returned, with reads of objects' states where the record has none.
    pub hits: u64,
    /// Hits that needed the states of objects.
    pub by_objects: u64,
    /// References that were not valid any more; a call to the manager followed.
    pub stale: u64,
    /// Records that the manager was writing during the read.
    pub torn: u64,
}

impl std::ops::Add for AttributeCounters {
    type Output = AttributeCounters;

    fn add(self, other: AttributeCounters) -> AttributeCounters {
        AttributeCounters {
            hits: self.hits + other.hits,
            by_objects: self.by_objects + other.by_objects,
            stale: self.stale + other.stale,
            torn: self.torn + other.torn,
        }
    }
}

/// The attribute references of a client.
pub(super) struct ReferencedAttributes {
    is_on: bool,
    table: RefCell<Option<Table>>,
    pub(super) counters: Rc<Cell<AttributeCounters>>,
}

/// The manager's table of records as one connection reaches it.
struct Table {
    link: Link,
    /// The manager's term that reported them.
    term: u64,
    start: Reference,
    slots: Slots,
    /// Memory for records; no read uses it at present.
    sinks: Vec<Region>,
}

/// The reported slots of files' records. A slot has one file, because a later report shows that an earlier one is old.
///
/// An entry takes at most 55 bytes. The hash table is 7/16 full or more, and takes 16 bytes and one byte for a pair.
/// The vector takes a number for each slot, and may have twice its length.
#[derive(Default)]
struct Slots {
    by_file: HashMap<FileId, u32>,
    by_slot: Vec<FileId>,
}

/// The number of no file.
const NONE: FileId = FileId(0);

impl Slots {
    fn learn(&mut self, file: FileId, slot: u32) {
        let at = slot as usize;
        if at >= ATTRIBUTE_RECORDS_MAX || file == NONE {
            return;
        }
        if self.by_slot.len() <= at {
            self.by_slot.resize(at + 1, NONE);
        }
        if let Some(before) = self.by_file.insert(file, slot)
            && before != slot
            && let Some(place) = self.by_slot.get_mut(before as usize)
        {
            *place = NONE;
        }
        if let Some(place) = self.by_slot.get_mut(at) {
            let other = std::mem::replace(place, file);
            if other != file {
                self.by_file.remove(&other);
            }
        }
    }

    /// Forgets the slot of a file, which turned out to be old, unless a reply has reported another slot since.
    fn forget(&mut self, file: FileId, slot: u32) {
        if self.by_file.get(&file) == Some(&slot) {
            self.by_file.remove(&file);
            if let Some(place) = self.by_slot.get_mut(slot as usize) {
                *place = NONE;
            }
        }
    }
}

/// A record that is about to be read.
struct Reading {
    link: Link,
    term: u64,
    slot: u32,
    source: Reference,
    sink: Region,
}

/// The outcome of a read of a record.
#[derive(Clone, Copy)]
enum Seen {
    Record(Record),
    Torn,
    /// The slot has no record of the file.
    Stale,
    /// The table cannot be read by this reference any more.
    Unreadable,
}

/// A record of a file.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Record {
    Whole(FileAttributes),
    Inode(InodeRecord),
}

/// A record of an inode whose objects some client may write.
#[derive(Clone, Copy, PartialEq, Eq)]
struct InodeRecord {
    slot: u32,
    /// The version of the slot, which grows with each change.
    version: u64,
    attributes: FileAttributes,
    /// The time of the last write when the modification time was last set.
    written: Option<Timestamp>,
}

impl ReferencedAttributes {
    pub(super) fn new(is_on: bool) -> ReferencedAttributes {
        ReferencedAttributes {
            is_on,
            table: RefCell::default(),
            counters: Rc::default(),
        }
    }

    /// Whether replies should report the slots of records.
    pub(super) fn are_wanted(&self) -> bool {
        self.is_on
    }

    fn count(&self, change: impl FnOnce(&mut AttributeCounters)) {
        let mut counters = self.counters.get();
        change(&mut counters);
        self.counters.set(counters);
    }

    /// Notes the slots that a reply reports for these files, on the present connection. The key of a reply that came
    /// by an earlier connection is not valid on this one; its first use shows that.
    fn learn(
        &self,
        link: &Link,
        term: u64,
        reported: &AttributeReferences,
        files: impl Iterator<Item = FileId>,
    ) {
        let start = Reference::new(reported.key, reported.offset, reported.access_key);
        let mut known = self.table.borrow_mut();
        let same = known
            .as_ref()
            .is_some_and(|it| it.link.is(link) && it.start == start && it.term == term);
        if !same {
            *known = Some(Table {
                link: link.clone(),
                term,
                start,
                slots: Slots::default(),
                sinks: Vec::new(),
            });
        }
        if let Some(table) = known.as_mut() {
            for (file, slot) in files.zip(&reported.slots) {
                slot.inspect(|slot| table.slots.learn(file, *slot));
            }
        }
    }

    /// Prepares a read of a file's record, if a slot is known.
    fn begin(&self, file: FileId) -> Option<Reading> {
        let mut known = self.table.borrow_mut();
        let table = known.as_mut().filter(|_| self.is_on)?;
        if table.link.is_over() {
            *known = None;
            return None;
        }
        let slot = *table.slots.by_file.get(&file)?;
        let sink = table.sinks.pop();
        let sink = sink.or_else(|| self::sink(&table.link, ATTRIBUTE_RECORD_LEN))?;
        Some(Reading {
            link: table.link.clone(),
            term: table.term,
            slot,
            source: table
                .start
                .at(u64::from(slot) * ATTRIBUTE_RECORD_LEN as u64),
            sink,
        })
    }

    /// The record of a file, if it is in the slot that was reported last.
    async fn read(&self, file: FileId) -> Option<Record> {
        let mut retries = TORN_RETRIES;
        loop {
            let reading = self.begin(file)?;
            let seen = reading.read(file).await;
            match self.end(file, reading, seen) {
                Seen::Record(record) => return Some(record),
                Seen::Torn if retries > 0 => retries -= 1,
                _ => return None,
            }
        }
    }

    /// Notes the outcome. An abandoned read never gets here: its sink stays with the RDMA Read under way. A reused
    /// sink would mix that Read's bytes with another record.
    fn end(&self, file: FileId, reading: Reading, seen: Seen) -> Seen {
        self.count(|counters| match seen {
            Seen::Record(Record::Whole(_)) => counters.hits += 1,
            // Counts once the objects' states are known as well.
            Seen::Record(Record::Inode(_)) => {}
            Seen::Torn => counters.torn += 1,
            Seen::Stale | Seen::Unreadable => counters.stale += 1,
        });
        let mut known = self.table.borrow_mut();
        let Some(table) = known.as_mut().filter(|it| it.link.is(&reading.link)) else {
            return seen;
        };
        match seen {
            Seen::Stale => table.slots.forget(file, reading.slot),
            // A later reply may have reported another table since; that one stays.
            Seen::Unreadable if table.is_at(&reading) => {
                *known = None;
                return seen;
            }
            Seen::Unreadable | Seen::Record(_) | Seen::Torn => {}
        }
        if table.sinks.len() < RECORD_SINKS_MAX {
            table.sinks.push(reading.sink);
        }
        seen
    }
}

impl Table {
    /// Whether a record was read in this table, and not in an earlier one.
    fn is_at(&self, reading: &Reading) -> bool {
        let slot = u64::from(reading.slot) * ATTRIBUTE_RECORD_LEN as u64;
        self.start.at(slot) == reading.source
    }
}

/// Memory for `len` bytes, which only this client's own Reads reach.
pub(super) fn sink(link: &Link, len: usize) -> Option<Region> {
    let memory = Backing::Buffer(Buffer::from_vec(vec![0; len]));
    let endpoint = link.endpoint();
    let scope = Scope::Endpoint(endpoint.id());
    let region = endpoint.domain().register_now(memory, Access::Local, scope);
    region.ok()
}

impl Reading {
    async fn read(&self, file: FileId) -> Seen {
        let read = ExportedRead {
            sink: Span {
                region: Region::clone(&self.sink),
                offset: 0,
                len: ATTRIBUTE_RECORD_LEN as u32,
            },
            source: self.source,
        };
        match self.link.read_exported(read, self.link.now()).await {
            Ok(Ok(())) => {}
            Ok(Err(_)) | Err(_) => return Seen::Unreadable,
        }
        // The manager of an earlier term may have been paused, so its record may be old. Its replies would not count
        // either.
        if self.link.is_of_earlier_term(self.term) {
            return Seen::Unreadable;
        }
        let seen = |memory: &mut [u8]| {
            let record = memory.get(..ATTRIBUTE_RECORD_LEN);
            record.map(|record| self.seen(file, record))
        };
        with_memory(&self.sink, seen)
            .flatten()
            .unwrap_or(Seen::Stale)
    }

    fn seen(&self, expected: FileId, bytes: &[u8]) -> Seen {
        match AttributeRecord::from_bytes(bytes) {
            Ok(AttributeRecord::Torn) => Seen::Torn,
            Ok(AttributeRecord::Whole { file, attributes }) if file == expected => {
                Seen::Record(Record::Whole(attributes))
            }
            Ok(AttributeRecord::Inode {
                file,
                attributes,
                written,
            }) if file == expected => Seen::Record(Record::Inode(InodeRecord {
                slot: self.slot,
                version: AttributeRecord::version_in(bytes),
                attributes,
                written,
            })),
            _ => Seen::Stale,
        }
    }
}

impl VolumeFs {
    /// The same client with attributes read by references where the manager has reported them, or always by calls.
    /// References are on by default.
    #[must_use]
    pub fn with_attribute_references(self, is_on: bool) -> VolumeFs {
        VolumeFs {
            referenced: ReferencedAttributes::new(is_on),
            ..self
        }
    }

    /// The counters of attribute references.
    pub fn attribute_counters(&self) -> AttributeCounters {
        self.referenced.counters.get()
    }

    /// The attributes of a file at this moment, by its record or else by a GETATTR.
    pub(super) async fn stat(&self, id: FileId) -> Result<Attributes, Status> {
        let record = self.referenced.read(id).await;
        let attributes = match record {
            Some(Record::Whole(found)) => Some(attributes_in(&found, id, self.fsid)),
            Some(Record::Inode(inode)) => self.combine(id, inode).await,
            None => None,
        };
        if let Some(attributes) = attributes {
            self.note_seen(&attributes);
            return Ok(attributes);
        }
        // Attributes are readable for every user, so the call needs no particular caller.
        let anyone = Credentials::new(0, 0, &[]);
        let [found] = self.get_attributes(&anyone, id).await?;
        if let (Some(Record::Inode(_)), Body::Regular { layout, .. }) = (record, &found.inode.body)
        {
            self.object_states.want(&self.servers, id, layout);
        }
        self.all_attributes_of(&found)
    }

    /// The attributes of a file by the record of its inode and the states of its objects. `None` if these are not in
    /// reach, or if the record has changed meanwhile.
    async fn combine(&self, id: FileId, before: InodeRecord) -> Option<Attributes> {
        let state = self.object_states.read(id).await?;
        if self.referenced.read(id).await != Some(Record::Inode(before)) {
            return None;
        }
        self.referenced.count(|counters| {
            counters.hits += 1;
            counters.by_objects += 1;
        });
        let mut attributes = attributes_in(&before.attributes, id, self.fsid);
        add_state(&mut attributes, before.written, &state);
        Some(attributes)
    }

    /// Sends a GETATTR.
    pub(super) async fn get_attributes(
        &self,
        caller: &Credentials,
        file: FileId,
    ) -> Result<[Found; 1], Status> {
        let call = Call::Getattr {
            file,
            wants_references: self.referenced.are_wanted(),
        };
        self.find_referenced(caller, call).await
    }

    /// As [`VolumeFs::find`], for a reply that may report slots of records.
    pub(super) async fn find_referenced<const N: usize>(
        &self,
        caller: &Credentials,
        call: Call,
    ) -> Result<[Found; N], Status> {
        let answer = self.ask(caller, call).await?;
        let found: Option<Referenced<FoundFiles>> = from_bytes(answer.body()).ok();
        let Referenced {
            answer: found,
            references,
        } = found.ok_or(Status::Serverfault)?;
        let files = found.files.iter().map(|found| found.id);
        self.learn_references(&answer, references.as_ref(), files);
        found.files.try_into().map_err(|_| Status::Serverfault)
    }

    /// The page of a READDIRPLUS reply, which may report slots of records.
    pub(super) fn page_in(&self, answer: &Message) -> Result<Page, Status> {
        let page: Option<Referenced<Page>> = from_bytes(answer.body()).ok();
        let Referenced {
            answer: page,
            references,
        } = page.ok_or(Status::Serverfault)?;
        let reported = page.entries.iter().filter_map(|entry| entry.found.as_ref());
        let files = std::iter::once(&page.directory).chain(reported);
        self.learn_references(answer, references.as_ref(), files.map(|found| found.id));
        Ok(page)
    }

    fn learn_references(
        &self,
        answer: &Message,
        reported: Option<&AttributeReferences>,
        files: impl Iterator<Item = FileId>,
    ) {
        let Some(reported) = reported.filter(|_| self.referenced.is_on) else {
            return;
        };
        if let Some(link) = self.servers.connected(Peer::Manager) {
            let term = answer.header.term;
            self.referenced.learn(&link, term, reported, files);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_stands_for_the_file_that_was_heard_of_last() {
        let mut slots = Slots::default();
        let known = |slots: &Slots, file| slots.by_file.get(&FileId(file)).copied();
        slots.learn(FileId(1), 5);
        slots.learn(FileId(2), 6);
        slots.learn(FileId(3), 5);
        assert_eq!((known(&slots, 1), known(&slots, 3)), (None, Some(5)));
        slots.learn(FileId(3), 7);
        slots.learn(FileId(4), 5);
        assert_eq!((known(&slots, 3), known(&slots, 4)), (Some(7), Some(5)));
        // The file has another slot by now.
        slots.forget(FileId(3), 5);
        assert_eq!((known(&slots, 3), known(&slots, 4)), (Some(7), Some(5)));
        slots.forget(FileId(3), 7);
        assert_eq!(known(&slots, 3), None);
        slots.learn(FileId(9), ATTRIBUTE_RECORDS_MAX as u32);
        assert_eq!((known(&slots, 9), known(&slots, 2)), (None, Some(6)));
        assert!(slots.by_slot.len() <= ATTRIBUTE_RECORDS_MAX);
    }
}
