//! Exports: objects that clients read without a call (paper 003), for one client each and for a limited time.
//!
//! The server gives a reference for a capability. The reference ends with the capability, so its holder could have
//! read by a call as well. It names an open file. The bytes come from the page cache at the moment of the access. A
//! read that begins after the reply to a WRITE or TRUNCATE therefore sees the change. The server removes references
//! before it answers UNLINK or accepts a new term.
//!
//! A second table exports the states of objects: length, disk use and times at the moment of the access. Every client
//! of the volume may read them, as it may send GETATTR to the manager. An object that does not exist is exported as
//! zeros until the server makes it.

use super::{IoServer, parse};
use crate::limits::{
    ATTRIBUTES_EXPORTED_FOR, MISSING_OBJECTS_MAX, OPEN_OBJECTS_MAX, RESIDENT_PROBES_MAX,
    RESIDENT_STEP_MIN,
};
use crate::link::Link;
use gannet_fabric::{
    Access, Backing, Export, ExportStats, ExportTable, Exported, FILE_STATUS_LEN, FindExported,
    Reference, Region, Scope,
};
use gannet_objects::ObjectWatcher;
use gannet_runtime::{Buffer, FileRef, FileSource, Handle};
use gannet_vfs::{FileHandle, Status, Vfs};
use gannet_wire::volume::{
    Capability, OBJECTS_MAX, ObjectId, ObjectList, ObjectReference, ObjectRight, RUNS_MAX,
    ReferenceAnswer, ReferenceAnswers, ReferenceRequest, ResidentRun,
};
use gannet_wire::xdr::to_bytes;
use std::cell::{Cell, OnceCell, RefCell};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::rc::Rc;
use std::sync::{Arc, Weak};
use std::time::Duration;

/// Files that are open on this core, by object. The export table finds a file here after it has let go of it.
type OpenFiles = Rc<RefCell<HashMap<u128, Weak<dyn FileSource>>>>;

/// The state of an object that may be missing.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Missing {
    /// A search for it has begun and has not found it so far.
    Searched,
    /// Some peer has a reference to zeros as its state.
    Exported,
}

/// The exported states of objects.
struct StateTable {
    exports: Rc<dyn ExportTable>,
    /// The state of an object that does not exist.
    zeros: Region,
}

/// The number of an object in export tables.
fn exported(ObjectId { group, file }: ObjectId) -> u128 {
    u128::from(group) << 64 | u128::from(file)
}

/// The exports of an I/O server.
pub(super) struct Exports {
    runtime: Handle,
    /// The export table of bytes in the domain of the connections, made for the first connection that survives
    /// exceptions.
    table: OnceCell<Option<Rc<dyn ExportTable>>>,
    /// The same for states.
    states: OnceCell<Option<StateTable>>,
    /// Objects that may be missing.
    missing: RefCell<BTreeMap<ObjectId, Missing>>,
    open: OpenFiles,
    /// Groups with objects that were ever exported.
    groups: RefCell<BTreeSet<u32>>,
    /// READs of a thousand whose bytes were in memory, as a moving average.
    cached: Cell<u32>,
}

impl Exports {
    pub(super) fn new(runtime: Handle) -> Exports {
        Exports {
            runtime,
            table: OnceCell::new(),
            states: OnceCell::new(),
            missing: RefCell::default(),
            open: OpenFiles::default(),
            groups: RefCell::default(),
            cached: Cell::new(1000),
        }
    }

    /// The table, if the peer of `link` can use it.
    fn table(&self, link: &Link) -> Option<&Rc<dyn ExportTable>> {
        if !link.has_exceptions() {
            return None;
        }
        let make = || {
            let find = self.find_open(Exported::OpenFile);
            link.endpoint().domain().exports(find)
        };
        self.table.get_or_init(make).as_ref()
    }

    /// The table of states, if the peer of `link` can use it.
    fn states(&self, link: &Link) -> Option<&StateTable> {
        if !link.has_exceptions() {
            return None;
        }
        let make = || {
            let domain = link.endpoint().domain();
            let zeros = Backing::Buffer(Buffer::zeroed(FILE_STATUS_LEN));
            // `Local`: peers reach the region only by the keys of the export table.
            let zeros = domain
                .register_now(zeros, Access::Local, Scope::Domain)
                .ok()?;
            let find = self.find_open(Exported::OpenFileStatus);
            let exports = domain.exports(find)?;
            Some(StateTable { exports, zeros })
        };
        self.states.get_or_init(make).as_ref()
    }

    /// Finds objects that are open, and exports them as `exported` says.
    fn find_open(&self, exported: fn(Weak<dyn FileSource>) -> Exported) -> FindExported {
        let open = Rc::clone(&self.open);
        Rc::new(move |object| {
            let open = open.borrow();
            let file = open.get(&object).filter(|file| file.strong_count() > 0);
            file.map(|file| exported(Weak::clone(file)))
        })
    }

    /// The tables that were made.
    fn known(&self) -> impl Iterator<Item = &Rc<dyn ExportTable>> {
        let bytes = self.table.get().and_then(Option::as_ref);
        let states = self.states.get().and_then(Option::as_ref);
        bytes.into_iter().chain(states.map(|it| &it.exports))
    }

    /// Lets the peer of `link` read an open object until `capability` ends.
    fn enter(&self, link: &Link, right: &ObjectRight, file: &FileRef) -> Option<ObjectReference> {
        let (object, capability) = (right.object(), &right.capability);
        let table = self.table(link)?;
        let lasts = Duration::from_secs(capability.expires);
        let lasts = lasts.saturating_sub(self.runtime.wall_clock());
        self.note_open(object, file);
        let reference = table.enter(Export {
            object: exported(object),
            endpoint: link.endpoint().id(),
            until: self.runtime.now() + lasts,
            bytes: Exported::OpenFile(Arc::downgrade(file)),
        });
        Some(self.sent(reference))
    }

    /// Lets the peer of `link` read the state of an object; `None` for `file`: the object does not exist.
    fn enter_state(
        &self,
        link: &Link,
        object: ObjectId,
        file: Option<&FileRef>,
    ) -> Option<ObjectReference> {
        let StateTable { exports, zeros } = self.states(link)?;
        let bytes = match file {
            // A file of a store without times has no state to export.
            Some(file) if file.status().is_err() => return None,
            Some(file) => {
                self.note_open(object, file);
                Exported::OpenFileStatus(Arc::downgrade(file))
            }
            None => {
                self.missing.borrow_mut().insert(object, Missing::Exported);
                Exported::Memory {
                    region: Region::clone(zeros),
                    offset: 0,
                    len: zeros.len(),
                }
            }
        };
        let reference = exports.enter(Export {
            object: exported(object),
            endpoint: link.endpoint().id(),
            until: self.runtime.now() + ATTRIBUTES_EXPORTED_FOR,
            bytes,
        });
        Some(self.sent(reference))
    }

    /// The form in which a reference is sent.
    fn sent(&self, reference: Reference) -> ObjectReference {
        ObjectReference {
            key: reference.address.key.0,
            offset: reference.address.offset,
            access_key: reference.access_key.0,
            cached_per_mille: self.cached.get(),
        }
    }

    /// Notes that a search for an object begins.
    fn begin_search(&self, object: ObjectId) {
        let mut missing = self.missing.borrow_mut();
        if missing.len() >= MISSING_OBJECTS_MAX {
            let all = std::mem::take(&mut *missing);
            all.into_iter()
                .for_each(|(object, _)| self.end_state(object));
        }
        missing.entry(object).or_insert(Missing::Searched);
    }

    /// Whether an object was not found since its search began.
    fn is_missing(&self, object: ObjectId) -> bool {
        self.missing.borrow().contains_key(&object)
    }

    fn end_state(&self, object: ObjectId) {
        if let Some(Some(states)) = self.states.get() {
            states.exports.remove(exported(object));
        }
    }

    /// Notes that the store has the object open, so that references find it. The table keeps no file open, because
    /// descriptors are scarce and the store shares them out.
    fn note_open(&self, object: ObjectId, file: &FileRef) {
        self.groups.borrow_mut().insert(object.group);
        let mut open = self.open.borrow_mut();
        if open.len() >= OPEN_OBJECTS_MAX {
            open.retain(|_, file| file.strong_count() > 0);
        }
        open.insert(exported(object), Arc::downgrade(file));
    }

    pub(super) fn stats(&self) -> ExportStats {
        let stats = self.known().map(|table| table.stats());
        stats.fold(ExportStats::default(), |all, one| all + one)
    }

    /// Notes whether a READ found its bytes in memory; the average covers about the last hundred READs.
    fn note_read(&self, was_cached: bool) {
        let target = if was_cached { 1000 } else { 0 };
        self.cached
            .set((self.cached.get() * 127 + target + 64) / 128);
    }
}

impl ObjectWatcher for Exports {
    /// References to zeros as the object's state end: without this, a client would read a length of 0 after an
    /// acknowledged write.
    fn found(&self, object: ObjectId) {
        if self.missing.borrow_mut().remove(&object) == Some(Missing::Exported) {
            self.end_state(object);
        }
    }

    fn ended(&self, object: ObjectId) {
        let object = exported(object);
        self.open.borrow_mut().remove(&object);
        self.known().for_each(|table| table.remove(object));
    }

    fn revoked(&self, file: u64) {
        for group in self.groups.borrow().iter().copied() {
            self.ended(ObjectId { group, file });
        }
    }

    fn term_began(&self) {
        self.known().for_each(|table| table.remove_all());
    }
}

impl<V: Vfs> IoServer<V> {
    /// Counters of exports and of reads by references.
    pub fn export_stats(&self) -> ExportStats {
        self.exports.stats()
    }

    /// A reference to an object for the holder of `right`, which the caller has checked. The holder is about to
    /// read the range `first` (offset and length).
    pub(super) async fn reference(
        &self,
        link: &Link,
        right: &ObjectRight,
        object: &FileHandle,
        first: Option<(u64, u64)>,
    ) -> Result<Option<ObjectReference>, Status> {
        if self.exports.table(link).is_none() {
            return Ok(None);
        }
        let file = self.objects.open(object, 0, 0).await?.file;
        if let Some((offset, len)) = first {
            self.exports.note_read(file.is_resident(offset, len));
        }
        Ok(self.export(link, right, &file))
    }

    /// Exports a file. The function has no await: an object that was removed, or a term that began, since the checks
    /// would else get a reference.
    fn export(&self, link: &Link, right: &ObjectRight, file: &FileRef) -> Option<ObjectReference> {
        let checked = self.objects.check(&right.capability, Capability::READ);
        // Nobody could end a reference in time when another member takes over.
        let is_single = self.objects.is_single(right.group);
        if self.objects.is_removed(right.object()) || checked.is_err() || !is_single {
            return None;
        }
        self.exports.enter(link, right, file)
    }

    /// Answers a request for references to objects, with their runs that are in memory.
    pub(super) async fn references(&self, link: &Link, body: &[u8]) -> Result<Vec<u8>, Status> {
        let ReferenceRequest { objects } = parse(body)?;
        let mut answers = Vec::with_capacity(objects.len().min(OBJECTS_MAX));
        let mut left = Left {
            runs: RUNS_MAX,
            probes: RESIDENT_PROBES_MAX,
        };
        for right in &objects {
            let answer = self.reference_answer(link, right, &mut left).await;
            answers.push(answer.unwrap_or_else(|status| ReferenceAnswer {
                outcome: Err(crate::convert::status_of(status)),
                resident: Vec::new(),
            }));
        }
        Ok(to_bytes(&ReferenceAnswers { answers }))
    }

    async fn reference_answer(
        &self,
        link: &Link,
        right: &ObjectRight,
        left: &mut Left,
    ) -> Result<ReferenceAnswer, Status> {
        self.objects.check(&right.capability, Capability::READ)?;
        let object = self.objects.find(right.object()).await?;
        let object = object.ok_or(Status::Noent)?;
        let opened = self.objects.open(&object, 0, 0).await?;
        let reference = self.export(link, right, &opened.file);
        let resident = match reference {
            Some(_) => resident_runs(&*opened.file, opened.state.size, left),
            None => Vec::new(),
        };
        Ok(ReferenceAnswer {
            outcome: Ok(reference),
            resident,
        })
    }
}

impl<V: Vfs> IoServer<V> {
    /// Answers a request for references to the states of objects.
    pub(super) async fn state_references(
        &self,
        link: &Link,
        body: &[u8],
    ) -> Result<Vec<u8>, Status> {
        let ObjectList { objects } = parse(body)?;
        let mut answers = Vec::with_capacity(objects.len());
        for object in objects {
            let outcome = self.state_reference(link, object).await;
            answers.push(ReferenceAnswer {
                outcome: outcome.map_err(crate::convert::status_of),
                resident: Vec::new(),
            });
        }
        Ok(to_bytes(&ReferenceAnswers { answers }))
    }

    /// A reference to the state of an object.
    ///
    /// # Errors
    /// - [`Status::Stale`]: the object was removed.
    /// - [`Status::Nxio`]: the object may have been lost with an earlier disk, so its state is not known.
    /// - [`Status::Jukebox`]: an object was made during the search.
    /// - Others: those of the store.
    async fn state_reference(
        &self,
        link: &Link,
        name: ObjectId,
    ) -> Result<Option<ObjectReference>, Status> {
        if self.exports.states(link).is_none() {
            return Ok(None);
        }
        self.exports.begin_search(name);
        let opened = match self.objects.find(name).await? {
            Some(object) => {
                self.exports.found(name);
                Some(self.objects.open(&object, 0, 0).await?.file)
            }
            None => {
                self.objects.may_be_lost(name)?;
                None
            }
        };
        // No await from here on: the object could be removed or made before it is exported.
        if self.objects.is_removed(name) {
            return Err(Status::Stale);
        }
        if opened.is_none() && !self.exports.is_missing(name) {
            return Err(Status::Jukebox);
        }
        if !self.objects.is_single(name.group) {
            return Ok(None);
        }
        Ok(self.exports.enter_state(link, name, opened.as_ref()))
    }
}

/// The runs and probes that an answer may still spend, over all its objects.
struct Left {
    runs: usize,
    probes: u32,
}

/// Runs of the first `size` bytes that are in memory, within the budget `left`. The search halves ranges that are not
/// in memory. It reports only a part of a long object of which little is in memory.
fn resident_runs(file: &dyn FileSource, size: u64, left: &mut Left) -> Vec<ResidentRun> {
    let mut runs: Vec<ResidentRun> = Vec::new();
    let mut parts = vec![(0, size)];
    while let Some((offset, len)) = parts.pop() {
        if len == 0 {
            continue;
        }
        if left.probes == 0 || (left.runs == 0 && runs.is_empty()) {
            break;
        }
        left.probes -= 1;
        if file.is_resident(offset, len) {
            match runs.last_mut() {
                Some(last) if last.offset + last.len == offset => last.len += len,
                _ if left.runs == 0 => break,
                _ => {
                    left.runs -= 1;
                    runs.push(ResidentRun { offset, len });
                }
            }
        } else if len > RESIDENT_STEP_MIN {
            let half = (len / 2).next_multiple_of(RESIDENT_STEP_MIN).min(len);
            parts.push((offset + half, len - half));
            parts.push((offset, half));
        }
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io;
    use std::os::fd::BorrowedFd;

    /// A file of which these runs are in memory.
    struct Cached(Vec<(u64, u64)>);

    impl FileSource for Cached {
        fn descriptor(&self) -> Option<BorrowedFd<'_>> {
            None
        }

        fn try_read_at(&self, _offset: u64, _buffer: &mut [u8]) -> io::Result<usize> {
            Err(io::ErrorKind::WouldBlock.into())
        }

        fn read_at(&self, _offset: u64, _buffer: &mut [u8]) -> io::Result<usize> {
            Err(io::ErrorKind::Unsupported.into())
        }

        fn is_resident(&self, offset: u64, len: u64) -> bool {
            let within = |(start, end): &(u64, u64)| *start <= offset && offset + len <= *end;
            self.0.iter().any(within)
        }
    }

    fn runs(cached: &[(u64, u64)], size: u64, room: usize) -> Vec<(u64, u64)> {
        let mut left = Left {
            runs: room,
            probes: RESIDENT_PROBES_MAX,
        };
        let found = resident_runs(&Cached(cached.to_vec()), size, &mut left);
        found.iter().map(|run| (run.offset, run.len)).collect()
    }

    #[test]
    fn resident_memory_is_reported_in_runs() {
        const MIB: u64 = 1 << 20;
        assert_eq!(runs(&[(0, 10 * MIB)], 10 * MIB, 8), [(0, 10 * MIB)]);
        assert_eq!(runs(&[], 10 * MIB, 8), []);
        assert_eq!(runs(&[], 0, 8), []);
        let halves = [(0, 2 * MIB), (5 * MIB, 8 * MIB)];
        assert_eq!(
            runs(&halves, 10 * MIB, 8),
            [(0, 2 * MIB), (5 * MIB, 3 * MIB)]
        );
        assert_eq!(runs(&halves, 10 * MIB, 1), [(0, 2 * MIB)]);
        assert_eq!(runs(&[(0, 5000)], 5000, 8), [(0, 5000)]);
    }

    #[test]
    fn objects_of_one_request_share_its_bounds_of_runs_and_probes() {
        const MIB: u64 = 1 << 20;
        let file = Cached(vec![(0, MIB), (2 * MIB, 3 * MIB)]);
        let mut left = Left {
            runs: 8,
            probes: 20,
        };
        let whole = resident_runs(&file, 4 * MIB, &mut left);
        assert_eq!((whole.len(), left.runs), (2, 6));
        assert!(left.probes < 20);
        while left.probes > 0 {
            resident_runs(&file, 4 * MIB, &mut left);
        }
        assert_eq!(resident_runs(&file, 4 * MIB, &mut left), []);
    }
}
