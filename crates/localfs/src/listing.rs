//! Directory listings in memory.
//!
//! A listing is the kernel's own sequence of entries, from the start or from some position, with the kernel's cookies:
//! these outlive the listing, removals and the server. It stays good while the directory's change time does. Pages
//! after the first are served from it a little longer, so that a client that removes what it lists does not make the
//! server read the directory again for each page: entries that stay are neither lost nor repeated, entries that come
//! and go meanwhile may or may not be seen, as with readdir(3).
//!
//! Handles and attributes are taken when first wanted, many at a time, and attributes again when they are older than
//! a second or the object was changed through this server.

use super::access::is_settled;
use super::attributes::Facts;
use super::clock_map::lock;
use super::object::Object;
use super::tree::LocalTree;
use crate::limits::{
    LISTING_ATTRIBUTES_AGE, LISTING_CONTINUED_AGE, LISTING_FILL, LISTING_WINDOWS_MAX,
    LISTINGS_BYTES_MAX,
};
use gannet_vfs::{Attributes, DirectoryEntry, Entries, FileHandle, Time};
use std::collections::{HashMap, VecDeque};
use std::ffi::CStr;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock, Weak};
use std::time::Instant;

/// Entries in a row that may have been removed since an earlier listing without its order being lost.
const GONE_TOGETHER: usize = 4;
/// Entries that are not found in an earlier listing's order, before they are looked for elsewhere in it.
const MISSED_MAX: usize = 8;

/// The entries of a directory, or of a window of a large one.
pub(crate) struct Listing {
    /// The cookie after which the listing begins; 0 at the start of the directory.
    pub(crate) start: u64,
    /// Whether the listing reaches the end of the directory.
    pub(crate) complete: bool,
    /// The names of the entries, one after the other, each with a NUL behind it for system calls.
    pub(crate) names: Vec<u8>,
    pub(crate) entries: Vec<Entry>,
    /// The change time of the directory before it was read, if that can validate the listing.
    pub(crate) valid_at: Option<Time>,
    pub(crate) read_at: Instant,
    /// One slot for each entry; empty until a page wants objects or an earlier listing is taken over.
    pub(crate) slots: RwLock<Vec<Slot>>,
    /// A lock that a thread holds while it looks at objects of the listing, so that no two look at the same ones.
    pub(crate) filling: Mutex<()>,
    /// Number of pages that wait for the lock `filling`. A thread that looks ahead stops for them, since a client waits
    /// for each.
    pub(crate) pages_waiting: AtomicUsize,
    /// The index at which the last page ended and the next one probably begins.
    last_end: AtomicUsize,
}

/// One entry of a directory.
pub(crate) struct Entry {
    pub(crate) fileid: u64,
    /// The kernel's position after the entry.
    pub(crate) cookie: u64,
    /// The index of the name's first byte in [`Listing::names`].
    pub(crate) name_at: u32,
    /// Bytes of the name without its NUL.
    pub(crate) name_len: u16,
}

/// The handle and attributes of an entry's object, as far as they are known.
#[derive(Clone, Copy)]
pub(crate) enum Slot {
    /// No thread has looked at the entry.
    Unknown,
    /// The object that an inode with this number had in an earlier listing. A look at the entry shows whether it is the
    /// same.
    Earlier(KnownObject),
    /// The name was removed after the directory was read.
    Gone,
    /// An entry without a handle: `..`, a mount point, an object that cannot be looked at.
    Foreign,
    /// The object's handle and attributes.
    Known(KnownObject),
}

/// Handle and attributes of an object, with the time and the change counter at which they were taken.
#[derive(Clone, Copy)]
pub(crate) struct KnownObject {
    pub(crate) handle: FileHandle,
    /// The inode's time of birth in nanoseconds since 1970; 0 unless number and birth together belong to this inode
    /// alone.
    pub(crate) birth: u64,
    pub(crate) attributes: Attributes,
    /// The time at which the attributes were taken.
    pub(crate) taken: Instant,
    /// The object's change counter before the attributes were taken.
    pub(crate) change_count: u32,
}

/// The result of serving a page from a listing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Served {
    /// The client's page is full.
    Full,
    /// All entries were taken, and nothing follows.
    End,
    /// All entries were taken; the next window begins after this cookie.
    Window(u64),
    /// The objects from this entry on must be looked at first.
    Wanting(usize),
}

impl Listing {
    /// A listing that has just been read; its objects are unknown.
    pub(crate) fn new(
        start: u64,
        complete: bool,
        names: Vec<u8>,
        entries: Vec<Entry>,
        valid_at: Option<Time>,
    ) -> Listing {
        Listing {
            start,
            complete,
            names,
            entries,
            valid_at,
            read_at: Instant::now(),
            slots: RwLock::default(),
            filling: Mutex::default(),
            pages_waiting: AtomicUsize::new(0),
            last_end: AtomicUsize::new(0),
        }
    }

    /// Takes over the known objects of an earlier listing of the directory, for inodes that both have under any name.
    pub(crate) fn take_over(&self, earlier: &Listing) {
        let slots = earlier.slots.read().unwrap_or_else(PoisonError::into_inner);
        if slots.is_empty() {
            return;
        }
        let mut known = Earlier::new(&earlier.entries, &slots);
        let slots = self.entries.iter().map(|entry| known.slot(entry.fileid));
        let taken_over = slots.collect();
        *self.slots.write().unwrap_or_else(PoisonError::into_inner) = taken_over;
    }

    /// The name of an entry.
    pub(crate) fn name(&self, entry: &Entry) -> &[u8] {
        let start = entry.name_at as usize;
        self.names
            .get(start..start + usize::from(entry.name_len))
            .unwrap_or_default()
    }

    /// The name of an entry, for a system call.
    pub(crate) fn name_with_nul(&self, entry: &Entry) -> Option<&CStr> {
        let start = entry.name_at as usize;
        let name = self
            .names
            .get(start..=start + usize::from(entry.name_len))?;
        CStr::from_bytes_with_nul(name).ok()
    }

    /// Whether the listing can serve the page after `cookie`, with the directory's present change time.
    fn is_good(&self, cookie: u64, change_time: Time) -> bool {
        let continued = cookie != 0 && self.read_at.elapsed() < LISTING_CONTINUED_AGE;
        self.valid_at == Some(change_time) || continued
    }

    /// The index of the first entry after `cookie`, if the listing begins or the last page ended there.
    fn expected_position(&self, cookie: u64) -> Option<usize> {
        if cookie == self.start {
            return Some(0);
        }
        let last_end = self.last_end.load(Ordering::Relaxed);
        let last = self.entries.get(last_end.checked_sub(1)?)?;
        (last.cookie == cookie).then_some(last_end)
    }

    /// The index of the first entry after `cookie`.
    pub(crate) fn position(&self, cookie: u64) -> Option<usize> {
        self.expected_position(cookie).or_else(|| {
            let found = self.entries.iter().position(|entry| entry.cookie == cookie);
            found.map(|index| index + 1)
        })
    }

    /// Whether the listing can answer from this position on. Entries behind a full window are in another listing.
    fn has_more(&self, position: usize) -> bool {
        self.complete || position < self.entries.len()
    }

    /// Pushes entries from `index` on, with handles and attributes if `with_objects`, for a call that came at `asked`.
    /// Attributes that were fresh at that time are used: on a slow disk a page takes longer than attributes stay fresh,
    /// and the page would never end.
    pub(crate) fn serve(
        &self,
        tree: &LocalTree,
        mut index: usize,
        with_objects: bool,
        asked: Instant,
        to: &mut dyn Entries,
    ) -> Served {
        let slots = self.slots.read().unwrap_or_else(PoisonError::into_inner);
        while let Some(entry) = self.entries.get(index) {
            let object = if with_objects {
                match slots.get(index) {
                    Some(Slot::Gone) => {
                        index += 1;
                        continue;
                    }
                    Some(Slot::Foreign) => None,
                    Some(Slot::Known(known)) if known.is_fresh(tree, asked) => {
                        Some((known.handle, known.attributes))
                    }
                    _ => return Served::Wanting(index),
                }
            } else {
                None
            };
            let taken = to.push(&DirectoryEntry {
                fileid: object.map_or(entry.fileid, |(_, attributes)| attributes.fileid),
                name: self.name(entry),
                cookie: entry.cookie,
                object,
            });
            if !taken {
                self.last_end.store(index, Ordering::Relaxed);
                return Served::Full;
            }
            index += 1;
        }
        self.last_end.store(index, Ordering::Relaxed);
        match self.entries.last() {
            Some(last) if !self.complete => Served::Window(last.cookie),
            _ => Served::End,
        }
    }

    /// The entries whose objects a page with `room` for so many wants from `index` on, and those that are looked at
    /// ahead for the pages behind it.
    pub(crate) fn wanted(&self, index: usize, room: usize) -> (Range<usize>, Range<usize>) {
        let end = self.entries.len().min(index.saturating_add(LISTING_FILL));
        let page = end.min(index.saturating_add(room));
        (index..page, page..end)
    }

    /// Bytes that the listing takes once its slots are filled.
    fn bytes(&self) -> usize {
        size_of::<Listing>()
            + self.names.capacity()
            + self.entries.capacity() * (size_of::<Entry>() + size_of::<Slot>())
    }
}

/// Finds the known objects of an earlier listing for the entries of a later one, in their order.
///
/// Most entries come in the same order in both, so a look at the next few is enough. Hashing all numbers anew for each
/// listing took a quarter of the time of a listing of a changed directory.
struct Earlier<'a> {
    entries: &'a [Entry],
    slots: &'a [Slot],
    /// The index of the first entry that was not passed.
    at: usize,
    /// Numbers that were not found there, because they were added or moved. A few are simply looked at anew.
    missed: usize,
    /// The index of each number, filled once more than [`MISSED_MAX`] numbers were missed.
    places: Option<HashMap<u64, usize>>,
}

impl<'a> Earlier<'a> {
    fn new(entries: &'a [Entry], slots: &'a [Slot]) -> Earlier<'a> {
        Earlier {
            entries,
            slots,
            at: 0,
            missed: 0,
            places: None,
        }
    }

    /// The known object of the inode with this number.
    fn slot(&mut self, fileid: u64) -> Slot {
        let Some(place) = self.place(fileid) else {
            return Slot::Unknown;
        };
        self.at = place + 1;
        match self.slots.get(place) {
            Some(Slot::Known(known) | Slot::Earlier(known))
                if known.birth != 0 && known.attributes.fileid == fileid =>
            {
                Slot::Earlier(*known)
            }
            _ => Slot::Unknown,
        }
    }

    fn place(&mut self, fileid: u64) -> Option<usize> {
        let entries = self.entries;
        let mut ahead = entries.get(self.at..).unwrap_or_default().iter();
        if let Some(removed) =
            (ahead.by_ref().take(1 + GONE_TOGETHER)).position(|entry| entry.fileid == fileid)
        {
            return Some(self.at + removed);
        }
        if self.missed < MISSED_MAX {
            self.missed += 1;
            return None;
        }
        let places = self.places.get_or_insert_with(|| {
            let numbers = entries.iter().map(|entry| entry.fileid);
            numbers.zip(0..).collect()
        });
        places.get(&fileid).copied()
    }
}

impl KnownObject {
    pub(crate) fn is_fresh(&self, tree: &LocalTree, now: Instant) -> bool {
        // A sum and not a difference of times, which costs three times as much, for each entry of a page.
        self.taken + LISTING_ATTRIBUTES_AGE > now
            && self.change_count == tree.change_count(self.attributes.fileid)
    }

    /// Whether `facts` are of the inode that the handle was taken of.
    pub(crate) fn is_of(&self, facts: &Facts) -> bool {
        self.birth != 0
            && self.birth == facts.birth
            && self.attributes.fileid == facts.attributes.fileid
            && self.attributes.fsid == facts.attributes.fsid
    }
}

/// All listings in memory, oldest first.
#[derive(Default)]
pub(crate) struct Listings {
    state: Mutex<ListingsState>,
}

#[derive(Default)]
struct ListingsState {
    bytes: usize,
    ring: VecDeque<(Weak<Object>, Weak<Listing>, usize)>,
    /// Number of listings in the ring above which the replaced ones are taken out of its middle.
    ring_max: usize,
}

impl Listings {
    /// Keeps a listing with its directory, and drops the oldest ones when all take too much memory.
    pub(crate) fn keep(&self, directory: &Arc<Object>, listing: &Arc<Listing>) {
        let mut windows = lock(&directory.windows);
        windows.retain(|window| window.start != listing.start);
        if windows.len() == LISTING_WINDOWS_MAX {
            windows.remove(0);
        }
        windows.push(Arc::clone(listing));
        drop(windows);
        let bytes = listing.bytes();
        let mut state = lock(&self.state);
        state.bytes += bytes;
        let kept = (Arc::downgrade(directory), Arc::downgrade(listing), bytes);
        state.ring.push_back(kept);
        state.drop_replaced();
        loop {
            let crowded = state.bytes > LISTINGS_BYTES_MAX && state.ring.len() > 1;
            let replaced = (state.ring.front()).is_some_and(|(_, old, _)| old.strong_count() == 0);
            if !crowded && !replaced {
                return;
            }
            let Some((directory, old, bytes)) = state.ring.pop_front() else {
                return;
            };
            state.bytes -= bytes;
            if let (Some(directory), Some(old)) = (directory.upgrade(), old.upgrade()) {
                lock(&directory.windows).retain(|window| !Arc::ptr_eq(window, &old));
            }
        }
    }
}

impl ListingsState {
    /// Takes the replaced listings out of the ring, each time its length has doubled, so that it costs little per
    /// listing.
    fn drop_replaced(&mut self) {
        if self.ring.len() <= self.ring_max {
            return;
        }
        let bytes = &mut self.bytes;
        self.ring.retain(|(_, listing, size)| {
            let kept = listing.strong_count() > 0;
            if !kept {
                *bytes -= size;
            }
            kept
        });
        self.ring_max = 2 * self.ring.len() + 64;
    }
}

/// The listing that serves the page after `cookie`, if there is one.
pub(crate) fn current(directory: &Object, cookie: u64, now: Time) -> Option<Arc<Listing>> {
    let windows = lock(&directory.windows);
    let good = || {
        windows
            .iter()
            .filter(|listing| listing.is_good(cookie, now))
    };
    let at = |listing: &Listing, position: Option<usize>| {
        position.is_some_and(|position| listing.has_more(position))
    };
    good()
        .find(|listing| at(listing, listing.expected_position(cookie)))
        .or_else(|| good().find(|listing| at(listing, listing.position(cookie))))
        .cloned()
}

/// The change time that validates a listing of a directory which is read after these attributes were taken.
pub(crate) fn validity(attributes: &Attributes) -> Option<Time> {
    is_settled(attributes.change_time).then_some(attributes.change_time)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{LocalOptions, LocalTree};

    #[test]
    fn replaced_listings_leave_nothing_behind() {
        let directory = tempfile::tempdir().unwrap();
        let options = LocalOptions {
            state_dir: Some(directory.path().join("state")),
            ..LocalOptions::default()
        };
        let tree = LocalTree::open(directory.path(), &options).unwrap();
        let other = directory.path().join("other");
        std::fs::create_dir(&other).unwrap();
        let other = LocalTree::open(&other, &options).unwrap();
        let empty = |start| Arc::new(Listing::new(start, true, Vec::new(), Vec::new(), None));
        // One that stays, in front of all that follow.
        tree.listings.keep(&other.root_object, &empty(0));
        for start in 0..10_000 {
            tree.listings.keep(&tree.root_object, &empty(start));
        }
        let state = lock(&tree.listings.state);
        assert!(state.ring.len() <= 2 * LISTING_WINDOWS_MAX + 100);
        assert!(state.bytes <= state.ring.len() * size_of::<Listing>());
    }

    /// Whether each entry of a later listing takes over the cached attributes of an earlier one.
    fn taken_over(earlier: &[u64], later: &[u64]) -> Vec<bool> {
        let stat = rustix::fs::stat("/").unwrap();
        let attributes = crate::attributes::from_stat(&stat, 0);
        let listing = |numbers: &[u64]| {
            let entry = |fileid: &u64| Entry {
                fileid: *fileid,
                cookie: 0,
                name_at: 0,
                name_len: 0,
            };
            let entries = numbers.iter().map(entry).collect();
            Listing::new(0, true, Vec::new(), entries, None)
        };
        let known = |fileid: &u64| {
            Slot::Known(KnownObject {
                handle: FileHandle::new(&fileid.to_be_bytes()).unwrap(),
                birth: 1,
                attributes: Attributes {
                    fileid: *fileid,
                    ..attributes
                },
                taken: Instant::now(),
                change_count: 0,
            })
        };
        let (from, to) = (listing(earlier), listing(later));
        *from.slots.write().unwrap() = earlier.iter().map(known).collect();
        to.take_over(&from);
        let slots = to.slots.read().unwrap();
        let pairs = later.iter().zip(slots.iter());
        pairs
            .map(|(fileid, slot)| match slot {
                Slot::Earlier(known) => {
                    assert_eq!(known.handle.as_bytes(), fileid.to_be_bytes());
                    true
                }
                _ => false,
            })
            .collect()
    }

    #[test]
    fn known_objects_are_found_at_any_place_of_the_earlier_listing() {
        let before: Vec<u64> = (1..=100).collect();
        let looked_at = |later: &[u64]| {
            let taken = taken_over(&before, later);
            taken.iter().filter(|taken| !**taken).count()
        };
        assert_eq!(looked_at(&before), 0);
        let reversed: Vec<u64> = before.iter().rev().copied().collect();
        assert_eq!(looked_at(&reversed), MISSED_MAX);
        for start in 0..=100 {
            for removed in 0..=100 - start {
                let (front, back) = (&before[..start], &before[start + removed..]);
                let most = if removed > GONE_TOGETHER {
                    MISSED_MAX
                } else {
                    0
                };
                let remaining = [front, back].concat();
                assert!(
                    looked_at(&remaining) <= most,
                    "{removed} removed at {start}"
                );
            }
            let moved = [&before[..start], &[50], &before[start..]].concat();
            assert!(looked_at(&moved) <= GONE_TOGETHER + 1, "moved to {start}");
            for added in [1, 2, 20] {
                let new: Vec<u64> = (200..200 + added).collect();
                let later = [&before[..start], &new, &before[start..]].concat();
                let taken = taken_over(&before, &later);
                let expected = later.iter().map(|fileid| *fileid < 200);
                assert!(expected.eq(taken), "{added} added at {start}");
            }
        }
        assert_eq!(taken_over(&before, &[101, 102]), [false, false]);
        assert!(taken_over(&before, &[]).is_empty());
    }
}
