//! The table as its two users see it: exporters, and peers whose reads were let through to it.

#![allow(clippy::unwrap_used)]

use super::*;
use crate::ProtectionTable;
use gannet_fabric::{Access, Backing, Domain, FILE_STATUS_LEN, Scope, file_status_in};
use gannet_runtime::{
    BlockingJob, Buffer, FileRef, FileStatus, Listener, LocalFuture, Runtime, Stream as ByteStream,
};
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Enough of a runtime for a table: a clock that tests set, and numbers that never repeat.
#[derive(Default)]
struct Clock {
    now: Cell<Instant>,
    last: Cell<u64>,
}

impl Runtime for Clock {
    fn now(&self) -> Instant {
        self.now.get()
    }

    fn wall_clock(&self) -> Duration {
        Duration::ZERO
    }

    fn sleep_until(&self, _deadline: Instant) -> LocalFuture<()> {
        unreachable!("a table does not wait")
    }

    fn spawn(&self, _name: &'static str, _task: LocalFuture<()>) {
        unreachable!("a table starts no tasks")
    }

    fn random(&self) -> u64 {
        let next = self.last.get().wrapping_add(0x9e37_79b9_7f4a_7c15);
        self.last.set(next);
        // Both halves of a number must look random: keys come from the low one.
        let mixed = (next ^ (next >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed ^ (mixed >> 27)
    }

    fn submit_blocking(&self, _job: BlockingJob) {
        unreachable!("a table does not block")
    }

    fn connect(&self, _address: SocketAddr) -> LocalFuture<io::Result<ByteStream>> {
        unreachable!("a table does not connect")
    }

    fn listen(&self, _address: SocketAddr) -> io::Result<Box<dyn Listener>> {
        unreachable!("a table does not listen")
    }
}

/// A file whose pages are all in memory or none.
struct Pages {
    content: Mutex<Vec<u8>>,
    resident: AtomicBool,
    /// The pages leave memory between the check of residency and the read.
    leave_when_asked: AtomicBool,
    /// Reads that found no page, for which the kernel would have started to read from the disk.
    disk_reads: AtomicUsize,
}

impl FileSource for Pages {
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    fn try_read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        if !self.resident.load(Ordering::Relaxed) {
            self.disk_reads.fetch_add(1, Ordering::Relaxed);
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let content = self.content.lock().unwrap();
        let start = usize::try_from(offset).unwrap().min(content.len());
        // Never more than a page at once, as a kernel that was interrupted.
        let count = (content.len() - start).min(buffer.len()).min(4096);
        buffer[..count].copy_from_slice(&content[start..start + count]);
        Ok(count)
    }

    fn read_at(&self, _offset: u64, _buffer: &mut [u8]) -> io::Result<usize> {
        unreachable!("a table does not wait for the disk")
    }

    fn status(&self) -> io::Result<FileStatus> {
        Ok(FileStatus {
            size: self.content.lock().unwrap().len() as u64,
            ..FileStatus::default()
        })
    }

    fn is_resident(&self, _offset: u64, _len: u64) -> bool {
        if self.leave_when_asked.load(Ordering::Relaxed) {
            self.resident.swap(false, Ordering::Relaxed)
        } else {
            self.resident.load(Ordering::Relaxed)
        }
    }
}

fn pages(content: &[u8]) -> Arc<Pages> {
    Arc::new(Pages {
        content: Mutex::new(content.to_vec()),
        resident: AtomicBool::new(true),
        leave_when_asked: AtomicBool::new(false),
        disk_reads: AtomicUsize::new(0),
    })
}

fn file(content: &[u8]) -> Exported {
    Exported::File(pages(content))
}

const NEAR: EndpointId = EndpointId(3);
const OTHER: EndpointId = EndpointId(4);
const FOREVER: Instant = Instant::from_nanos(u64::MAX);

/// A table, and what its exporters have open.
#[derive(Default)]
struct Bed {
    clock: Rc<Clock>,
    exports: Rc<RefCell<Exports>>,
    open: Rc<RefCell<BTreeMap<u128, Exported>>>,
}

impl Bed {
    fn bounded(entries: usize, loaded: usize) -> Bed {
        let bed = Bed::default();
        bed.exports.borrow_mut().bounds = Some((entries, loaded));
        bed
    }

    /// One more exporter, who finds what is open.
    fn exporter(&self) -> OwnExports {
        let open = Rc::clone(&self.open);
        self.exporter_finding(Rc::new(move |object| open.borrow().get(&object).cloned()))
    }

    fn exporter_finding(&self, find: FindExported) -> OwnExports {
        let (clock, exports) = (Rc::clone(&self.clock), Rc::clone(&self.exports));
        let fresh_key = move || loop {
            let key = RemoteKey(clock.random() as u32);
            if !exports.borrow().has_key(key) {
                return key;
            }
        };
        let runtime: Handle = Rc::clone(&self.clock) as Handle;
        OwnExports::new(runtime, Rc::clone(&self.exports), find, Box::new(fresh_key))
    }

    /// Opens and exports a file with the object's number in every byte.
    fn enter_bytes(&self, exporter: &OwnExports, object: u128, bytes: Exported) -> Reference {
        exporter.enter(export(object, bytes))
    }

    fn enter(&self, exporter: &OwnExports, object: u128) -> Reference {
        let bytes = file(&[object as u8; 100]);
        self.open.borrow_mut().insert(object, bytes.clone());
        exporter.enter(export(object, bytes))
    }

    fn read_by(
        &self,
        endpoint: EndpointId,
        source: Reference,
        len: usize,
    ) -> Result<Vec<u8>, AccessError> {
        let mut target = vec![0xa5; len];
        let request = OptimisticRead { endpoint, source };
        read(&self.exports, &request, self.clock.now(), &mut target)?;
        Ok(target)
    }

    fn read(&self, source: Reference, len: usize) -> Result<Vec<u8>, AccessError> {
        self.read_by(NEAR, source, len)
    }

    fn at(&self, nanoseconds: u64) {
        self.clock.now.set(Instant::from_nanos(nanoseconds));
    }

    /// Checks that the indexes of the table agree with its entries and with its bounds.
    fn assert_sound(&self) {
        let exports = self.exports.borrow();
        let entries: Vec<(usize, &Entry)> = (exports.slots.iter().enumerate())
            .filter_map(|(slot, entry)| Some((slot, entry.as_ref()?)))
            .collect();
        let loaded = entries.iter().filter(|(_, entry)| entry.bytes.is_some());
        assert_eq!(loaded.count(), exports.loaded);
        let (entries_max, loaded_max) = exports.bounds();
        assert!(entries.len() <= entries_max && exports.loaded <= loaded_max.max(1));
        assert_eq!(entries.len(), exports.by_key.len());
        assert_eq!(entries.len(), exports.by_name.len());
        assert_eq!(entries.len() + exports.free.len(), exports.slots.len());
        let free: BTreeSet<usize> = exports.free.iter().copied().collect();
        assert_eq!(free.len(), exports.free.len());
        for (slot, entry) in entries {
            assert_eq!(exports.by_key.get(&entry.key), Some(&slot));
            assert_eq!(exports.by_name.get(&entry.name), Some(&slot));
            assert!(!free.contains(&slot));
        }
    }
}

fn export(object: u128, bytes: Exported) -> Export {
    Export {
        object,
        endpoint: NEAR,
        until: FOREVER,
        bytes,
    }
}

/// Bytes that do not repeat at a page.
fn counting(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at % 251) as u8).collect()
}

#[test]
fn an_object_is_read_by_its_reference() {
    let bed = Bed::default();
    let exporter = bed.exporter();
    let content = counting(200_000);
    let reference = exporter.enter(export(7, file(&content)));
    for (offset, len) in [(0, 0), (0, 1), (4095, 2), (100_000, 65_536), (199_999, 1)] {
        let found = bed.read(reference.at(offset as u64), len);
        assert_eq!(found, Ok(content[offset..offset + len].to_vec()));
    }
    let long = bed.read(reference, 65_537);
    assert_eq!(long, Err(AccessError::Bounds));
    let expected = ExportStats {
        entries: 1,
        reads: 5,
        refused: 1,
        ..ExportStats::default()
    };
    assert_eq!(exporter.stats(), expected);
}

#[test]
fn a_key_is_of_use_to_its_connection_with_its_access_key_alone() {
    let bed = Bed::default();
    let exporter = bed.exporter();
    let reference = bed.enter(&exporter, 1);
    let stolen = bed.read_by(OTHER, reference, 10);
    assert_eq!(stolen, Err(AccessError::WrongEndpoint));
    let guessed = Reference {
        access_key: AccessKey(reference.access_key.0 ^ 1),
        ..reference
    };
    assert_eq!(bed.read(guessed, 10), Err(AccessError::Capability));
    let mut unknown = reference;
    unknown.address.key.0 ^= 1;
    assert_eq!(bed.read(unknown, 10), Err(AccessError::InvalidKey));
    // Nor does it help to ask for nothing.
    assert_eq!(bed.read(guessed, 0), Err(AccessError::Capability));
    assert_eq!(bed.read(reference, 10), Ok(vec![1; 10]));
    // The unknown key counts for no exporter.
    let stats = exporter.stats();
    assert_eq!((stats.reads, stats.refused, stats.faults), (1, 3, 0));
}

#[test]
fn two_connections_have_references_of_their_own() {
    let bed = Bed::default();
    let exporter = bed.exporter();
    let near = bed.enter(&exporter, 1);
    let other = exporter.enter(Export {
        endpoint: OTHER,
        ..export(1, file(&[1; 100]))
    });
    assert_ne!(near.address.key, other.address.key);
    assert_ne!(near.access_key, other.access_key);
    assert_eq!(bed.read_by(OTHER, other, 10), Ok(vec![1; 10]));
    let mixed = Reference {
        access_key: near.access_key,
        ..other
    };
    assert_eq!(bed.read_by(OTHER, mixed, 10), Err(AccessError::Capability));
}

#[test]
fn ranges_outside_the_object_are_refused() {
    let bed = Bed::default();
    let exporter = bed.exporter();
    let reference = bed.enter(&exporter, 1);
    let refused = |offset: u64, len| bed.read(reference.at(offset), len).unwrap_err();
    assert_eq!(refused(1u64.wrapping_neg(), 10), AccessError::Bounds);
    assert_eq!(refused(91, 10), AccessError::Bounds);
    assert_eq!(refused(100, 1), AccessError::Bounds);
    assert_eq!(refused(1 << 40, 10), AccessError::Bounds);
    let mut wrapping = reference;
    wrapping.address.offset = u64::MAX - 5;
    assert_eq!(bed.read(wrapping, 6), Err(AccessError::Wrap));
    assert_eq!(bed.read(reference.at(90), 10), Ok(vec![1; 10]));
}

#[test]
fn a_right_ends_at_its_time() {
    let bed = Bed::default();
    let exporter = bed.exporter();
    let reference = exporter.enter(Export {
        until: Instant::from_nanos(10),
        ..export(1, file(&[1; 100]))
    });
    bed.at(9);
    assert_eq!(bed.read(reference, 1), Ok(vec![1]));
    bed.at(10);
    assert_eq!(bed.read(reference, 1), Err(AccessError::InvalidKey));
    let key = reference.address.key;
    assert!(exporter.protect(key, Instant::from_nanos(20)));
    assert_eq!(bed.read(reference, 1), Ok(vec![1]));
    assert!(exporter.protect(key, Instant::from_nanos(5)));
    assert_eq!(bed.read(reference, 1), Err(AccessError::InvalidKey));
    // Another exporter cannot change the right.
    let other = bed.exporter();
    assert!(!other.protect(key, FOREVER));
    assert!(!exporter.protect(RemoteKey(key.0 ^ 1), FOREVER));
    assert_eq!(bed.read(reference, 1), Err(AccessError::InvalidKey));
}

#[test]
fn an_object_entered_again_keeps_its_reference_and_the_longer_right() {
    let bed = Bed::default();
    let exporter = bed.exporter();
    let enter = |until, content: &[u8]| {
        exporter.enter(Export {
            until: Instant::from_nanos(until),
            ..export(1, file(content))
        })
    };
    let first = enter(20, b"old");
    assert_eq!(enter(10, b"new"), first);
    bed.at(15);
    assert_eq!(bed.read(first, 3), Ok(b"new".to_vec()));
    bed.at(25);
    assert_eq!(bed.read(first, 3), Err(AccessError::InvalidKey));
    assert_eq!(enter(30, b"new"), first);
    assert_eq!(bed.read(first, 3), Ok(b"new".to_vec()));
    assert_eq!(exporter.stats().entries, 1);
    bed.assert_sound();
}

#[test]
fn removing_an_object_removes_it_for_all_connections_and_no_other_object() {
    let bed = Bed::default();
    let (exporter, neighbour) = (bed.exporter(), bed.exporter());
    let enter = |exporter: &OwnExports, object, endpoint| {
        let bytes = file(&[object as u8; 100]);
        let reference = exporter.enter(Export {
            endpoint,
            ..export(object, bytes)
        });
        (endpoint, reference)
    };
    let last = EndpointId(u64::MAX);
    let all = [NEAR, OTHER, EndpointId(0), last];
    let removed = all.map(|endpoint| enter(&exporter, 5, endpoint));
    let beside = [4, 6, 0, u128::MAX].map(|object| enter(&exporter, object, last));
    let of_others = all.map(|endpoint| enter(&neighbour, 5, endpoint));
    exporter.remove(5);
    for (endpoint, reference) in removed {
        let refused = bed.read_by(endpoint, reference, 1);
        assert_eq!(refused, Err(AccessError::InvalidKey));
        assert!(!exporter.protect(reference.address.key, FOREVER));
    }
    for (endpoint, reference) in beside.into_iter().chain(of_others) {
        assert!(bed.read_by(endpoint, reference, 1).is_ok());
    }
    // The object's next entry has another key: the old reference stays invalid.
    let (_, anew) = enter(&exporter, 5, NEAR);
    assert_ne!(anew.address.key, removed[0].1.address.key);
    assert_eq!(bed.read(removed[0].1, 1), Err(AccessError::InvalidKey));
    bed.assert_sound();
    exporter.remove_all();
    assert_eq!(bed.read(anew, 1), Err(AccessError::InvalidKey));
    assert_eq!(
        (exporter.stats().entries, neighbour.stats().entries),
        (0, 4)
    );
    bed.assert_sound();
}

#[test]
fn dropping_an_exporter_removes_its_entries() {
    let bed = Bed::default();
    let (exporter, neighbour) = (bed.exporter(), bed.exporter());
    let (removed, stays) = (bed.enter(&exporter, 1), bed.enter(&neighbour, 1));
    let holders = Rc::strong_count(&bed.open);
    drop(exporter);
    assert_eq!(Rc::strong_count(&bed.open), holders - 1);
    assert_eq!(bed.read(removed, 1), Err(AccessError::InvalidKey));
    assert_eq!(bed.read(stays, 1), Ok(vec![1]));
    bed.assert_sound();
}

#[test]
fn a_full_table_evicts_entries_that_were_not_used_for_long() {
    let bed = Bed::bounded(4, 4);
    let exporter = bed.exporter();
    let references: Vec<Reference> = (0..4).map(|object| bed.enter(&exporter, object)).collect();
    let is_there = |object: usize| {
        let outcome = bed.read(references[object], 1);
        assert!(matches!(outcome, Ok(_) | Err(AccessError::InvalidKey)));
        outcome.is_ok()
    };
    // All are new; the oldest goes, and none of the others was used since.
    bed.enter(&exporter, 10);
    assert!(!is_there(0));
    // The next would be 1: it is used, and gets its second chance.
    assert!(is_there(1));
    bed.enter(&exporter, 11);
    bed.enter(&exporter, 12);
    let left: Vec<bool> = [1, 2, 3].map(is_there).to_vec();
    assert_eq!(left, [true, false, false]);
    let stats = exporter.stats();
    assert_eq!((stats.entries, stats.evicted), (4, 3));
    bed.assert_sound();
}

#[test]
fn a_full_table_counts_evictions_for_the_exporter_of_the_entry() {
    let bed = Bed::bounded(2, 2);
    let (exporter, greedy) = (bed.exporter(), bed.exporter());
    bed.enter(&exporter, 1);
    for object in 0..5 {
        bed.enter(&greedy, object);
    }
    let (modest, greedy) = (exporter.stats(), greedy.stats());
    assert_eq!((modest.entries, modest.evicted), (0, 1));
    assert_eq!((greedy.entries, greedy.evicted), (2, 3));
}

#[test]
fn unloaded_bytes_are_found_again_and_counted() {
    let bed = Bed::bounded(10, 2);
    let exporter = bed.exporter();
    let references: Vec<Reference> = (0..5).map(|object| bed.enter(&exporter, object)).collect();
    bed.assert_sound();
    for round in 0..3u8 {
        for (object, reference) in references.iter().enumerate() {
            assert_eq!(
                bed.read(*reference, 2),
                Ok(vec![object as u8; 2]),
                "{round}"
            );
            bed.assert_sound();
        }
    }
    let stats = exporter.stats();
    assert_eq!((stats.entries, stats.evicted, stats.reads), (5, 0, 15));
    assert!((13..=15).contains(&stats.faults), "{stats:?}");
}

#[test]
fn bytes_that_are_used_all_the_time_stay_loaded() {
    let bed = Bed::bounded(10, 3);
    let exporter = bed.exporter();
    let references: Vec<Reference> = (0..6).map(|object| bed.enter(&exporter, object)).collect();
    assert!(bed.read(references[0], 1).is_ok());
    let before = exporter.stats().faults;
    for _ in 0..4 {
        for reference in &references[1..] {
            assert!(bed.read(*reference, 1).is_ok());
            assert!(bed.read(references[0], 1).is_ok());
        }
    }
    // The five others take turns in two places, so that each of their reads is a fault. Of the first's reads two are,
    // at the beginning, when all were used; replaced in turn, it would have seven.
    let faults = exporter.stats().faults - before;
    assert!((20..=23).contains(&faults), "{faults}");
}

#[test]
fn objects_that_their_exporter_has_closed_are_not_found_again() {
    let bed = Bed::bounded(10, 1);
    let exporter = bed.exporter();
    let references = [1, 2].map(|object| bed.enter(&exporter, object));
    bed.open.borrow_mut().clear();
    // The one at hand is a file that is open still.
    assert_eq!(bed.read(references[1], 1), Ok(vec![2]));
    assert_eq!(bed.read(references[0], 1), Err(AccessError::NotResident));
    let stats = exporter.stats();
    assert_eq!((stats.reads, stats.not_resident, stats.faults), (1, 1, 0));
}

#[test]
fn the_table_keeps_no_file_open_and_finds_it_when_it_is_opened_again() {
    let bed = Bed::default();
    let exporter = bed.exporter();
    let first = pages(&counting(100));
    let watched: Arc<dyn FileSource> = first.clone();
    let reference = bed.enter_bytes(&exporter, 1, Exported::OpenFile(Arc::downgrade(&watched)));
    assert_eq!(bed.read(reference, 100), Ok(counting(100)));
    drop((first, watched));
    assert_eq!(bed.read(reference, 100), Err(AccessError::NotResident));
    let again: Arc<dyn FileSource> = pages(&counting(100));
    let opened = Exported::OpenFile(Arc::downgrade(&again));
    bed.open.borrow_mut().insert(1, opened);
    assert_eq!(bed.read(reference, 100), Ok(counting(100)));
    assert_eq!(exporter.stats().faults, 1);
    bed.assert_sound();
}

#[test]
fn bytes_not_in_memory_are_refused_and_no_disk_is_read() {
    let bed = Bed::default();
    let exporter = bed.exporter();
    let pages = pages(&[1; 100]);
    let reference = exporter.enter(export(1, Exported::File(Arc::clone(&pages) as FileRef)));
    pages.resident.store(false, Ordering::Relaxed);
    for _ in 0..3 {
        assert_eq!(bed.read(reference, 1), Err(AccessError::NotResident));
    }
    assert_eq!(pages.disk_reads.load(Ordering::Relaxed), 0);
    pages.resident.store(true, Ordering::Relaxed);
    assert_eq!(bed.read(reference, 1), Ok(vec![1]));
    // They may go between the question and the read; then nothing of them counts.
    pages.leave_when_asked.store(true, Ordering::Relaxed);
    assert_eq!(bed.read(reference, 1), Err(AccessError::NotResident));
    let stats = exporter.stats();
    assert_eq!((stats.reads, stats.not_resident), (1, 4));
}

#[test]
fn a_file_is_read_as_far_as_it_goes_at_that_moment() {
    let bed = Bed::default();
    let exporter = bed.exporter();
    let pages = pages(&counting(10_000));
    let reference = exporter.enter(export(1, Exported::File(Arc::clone(&pages) as FileRef)));
    assert_eq!(bed.read(reference, 10_001), Err(AccessError::Bounds));
    assert_eq!(bed.read(reference, 10_000), Ok(counting(10_000)));
    pages.content.lock().unwrap().truncate(5000);
    assert_eq!(bed.read(reference, 10_000), Err(AccessError::Bounds));
    assert_eq!(bed.read(reference.at(5000), 1), Err(AccessError::Bounds));
    assert_eq!(bed.read(reference, 5000), Ok(counting(5000)));
    // Extended again it has a hole, which is zeros and no old bytes.
    pages.content.lock().unwrap().resize(10_000, 0);
    assert_eq!(bed.read(reference.at(5000), 5000), Ok(vec![0; 5000]));
}

#[test]
fn registered_memory_is_an_object() {
    let bed = Bed::default();
    let exporter = bed.exporter();
    let table = ProtectionTable::new(Rc::clone(&bed.clock) as Handle);
    let backing = Backing::Buffer(Buffer::from_vec(counting(1000)));
    let region = table.register_now(backing, Access::Local, Scope::Domain);
    let region = region.unwrap();
    let reference = exporter.enter(export(
        1,
        Exported::Memory {
            region: Rc::clone(&region),
            offset: 100,
            len: 50,
        },
    ));
    let content = counting(1000);
    assert_eq!(bed.read(reference, 50), Ok(content[100..150].to_vec()));
    assert_eq!(bed.read(reference.at(49), 1), Ok(vec![content[149]]));
    for (offset, len) in [(0, 51), (49, 2), (50, 1), (1u64.wrapping_neg(), 1)] {
        let refused = bed.read(reference.at(offset), len);
        assert_eq!(refused, Err(AccessError::Bounds), "{offset} {len}");
    }
    // A change of the memory is seen at once.
    let software = region.software().unwrap();
    software.bytes_mut(100, 1).unwrap()[0] = 0xee;
    assert_eq!(bed.read(reference, 1), Ok(vec![0xee]));
    drop(region.deregister());
    assert_eq!(bed.read(reference, 1), Err(AccessError::InvalidKey));
}

#[test]
fn memory_that_is_not_all_in_its_region_is_refused() {
    let bed = Bed::default();
    let exporter = bed.exporter();
    let table = ProtectionTable::new(Rc::clone(&bed.clock) as Handle);
    let backing = Backing::Buffer(Buffer::from_vec(vec![1; 100]));
    let region = table.register_now(backing, Access::Local, Scope::Domain);
    let region = region.unwrap();
    for (object, (offset, len)) in [(90, 20), (u64::MAX, 20), (200, 20)]
        .into_iter()
        .enumerate()
    {
        let region = Rc::clone(&region);
        let bytes = Exported::Memory {
            region,
            offset,
            len,
        };
        let reference = exporter.enter(export(object as u128, bytes));
        let refused = bed.read(reference.at(1), 19);
        assert_eq!(refused, Err(AccessError::InvalidKey), "{offset}");
    }
}

#[test]
fn an_exporter_may_do_as_it_likes_while_it_is_asked() {
    let bed = Bed::bounded(3, 1);
    let own = Rc::new(RefCell::new(None::<Rc<OwnExports>>));
    let asked = Rc::clone(&own);
    let exporter = Rc::new(bed.exporter_finding(Rc::new(move |object| {
        let exporter = asked.borrow().clone().unwrap();
        exporter.enter(export(object + 100, file(&[9; 100])));
        exporter.stats();
        match object {
            1 => exporter.remove(1),
            2 => exporter.remove_all(),
            _ => {}
        }
        Some(file(&[object as u8; 100]))
    })));
    *own.borrow_mut() = Some(Rc::clone(&exporter));
    let references = [1, 2, 3].map(|object| bed.enter(&exporter, object));
    for reference in references {
        // Removed before it could be given: no byte of it.
        let outcome = bed.read(reference, 1);
        assert!(outcome != Ok(vec![1]) && outcome != Ok(vec![2]));
        bed.assert_sound();
    }
    own.borrow_mut().take();
}

/// While an exporter looks for an object's bytes it makes it anew: the old reference does not lead to the new entry.
#[test]
fn an_object_made_anew_while_it_is_looked_for_is_another_one() {
    let bed = Bed::bounded(10, 1);
    let own = Rc::new(RefCell::new(None::<Rc<OwnExports>>));
    let asked = Rc::clone(&own);
    let exporter = Rc::new(bed.exporter_finding(Rc::new(move |object| {
        let exporter = asked.borrow().clone().unwrap();
        exporter.remove(object);
        exporter.enter(export(object, file(b"new")));
        Some(file(b"old"))
    })));
    *own.borrow_mut() = Some(Rc::clone(&exporter));
    let reference = bed.enter(&exporter, 1);
    bed.enter(&exporter, 2);
    assert_eq!(bed.read(reference, 3), Err(AccessError::InvalidKey));
    bed.assert_sound();
    own.borrow_mut().take();
}

#[test]
fn bytes_entered_while_they_are_looked_for_are_the_newer_ones() {
    let bed = Bed::bounded(10, 1);
    let own = Rc::new(RefCell::new(None::<Rc<OwnExports>>));
    let asked = Rc::clone(&own);
    let exporter = Rc::new(bed.exporter_finding(Rc::new(move |object| {
        let exporter = asked.borrow().clone().unwrap();
        exporter.enter(export(object, file(b"new")));
        Some(file(b"old"))
    })));
    *own.borrow_mut() = Some(Rc::clone(&exporter));
    let reference = bed.enter(&exporter, 1);
    bed.enter(&exporter, 2);
    for _ in 0..2 {
        assert_eq!(bed.read(reference, 3), Ok(b"new".to_vec()));
        bed.assert_sound();
    }
    own.borrow_mut().take();
}

/// Exporters and readers at random; what is let through must be what a plain map says.
#[test]
fn random_use_keeps_to_the_bounds_and_gives_no_wrong_byte() {
    for (entries, loaded) in [(1, 1), (5, 2), (8, 8), (40, 3)] {
        let bed = Bed::bounded(entries, loaded);
        let exporters = [bed.exporter(), bed.exporter()];
        for object in 0..12u8 {
            let bytes = file(&[object; 100]);
            bed.open.borrow_mut().insert(u128::from(object), bytes);
        }
        let mut known: Vec<(usize, u128, EndpointId, Reference)> = Vec::new();
        let below = |bound: u64| bed.clock.random() % bound;
        for _ in 0..3000 {
            let (by, object) = (below(2) as usize, u128::from(below(12)));
            let endpoint = EndpointId(below(3));
            match below(10) {
                0..4 => {
                    let bytes = file(&[object as u8; 100]);
                    let reference = exporters[by].enter(Export {
                        endpoint,
                        ..export(object, bytes)
                    });
                    let same = |known: &(usize, u128, EndpointId, Reference)| {
                        (known.0, known.1, known.2) == (by, object, endpoint)
                    };
                    known.retain(|known| !same(known));
                    known.push((by, object, endpoint, reference));
                }
                4 if below(10) == 0 => {
                    exporters[by].remove(object);
                    let dead = known
                        .iter()
                        .filter(|known| (known.0, known.1) == (by, object));
                    for (_, _, endpoint, reference) in dead {
                        let refused = bed.read_by(*endpoint, *reference, 1);
                        assert_eq!(refused, Err(AccessError::InvalidKey));
                    }
                    known.retain(|known| (known.0, known.1) != (by, object));
                }
                _ if known.is_empty() => {}
                _ => {
                    let index = below(known.len() as u64) as usize;
                    let (_, object, endpoint, reference) = known[index];
                    match bed.read_by(endpoint, reference, 3) {
                        Ok(bytes) => assert_eq!(bytes, [object as u8; 3]),
                        // It made room for others.
                        Err(error) => assert_eq!(error, AccessError::InvalidKey),
                    }
                }
            }
            bed.assert_sound();
        }
        let stats = exporters.each_ref().map(|exporter| exporter.stats());
        assert!(
            stats
                .iter()
                .all(|stats| stats.reads > 0 && stats.not_resident == 0)
        );
        assert_eq!(stats.iter().any(|stats| stats.faults > 0), loaded < entries);
    }
}

#[test]
fn the_status_of_an_open_file_is_that_of_the_moment() {
    let bed = Bed::default();
    let exporter = bed.exporter();
    let file = pages(&[1; 100]);
    file.resident.store(false, Ordering::Relaxed);
    let watched: Arc<dyn FileSource> = Arc::<Pages>::clone(&file);
    let status = Exported::OpenFileStatus(Arc::downgrade(&watched));
    let reference = bed.enter_bytes(&exporter, 1, status);
    for len in [100, 5000] {
        file.content.lock().unwrap().resize(len, 1);
        let status = bed.read(reference, FILE_STATUS_LEN).unwrap();
        assert_eq!(
            file_status_in(status.first_chunk().unwrap()).size,
            len as u64
        );
    }
    assert_eq!(bed.read(reference.at(32), 8), Ok(vec![0; 8]));
    let past = bed.read(reference.at(33), 8);
    assert_eq!(past, Err(AccessError::Bounds));
    assert_eq!(file.disk_reads.load(Ordering::Relaxed), 0);
    drop((file, watched));
    let closed = bed.read(reference, FILE_STATUS_LEN);
    assert_eq!(closed, Err(AccessError::NotResident));
    bed.assert_sound();
}
