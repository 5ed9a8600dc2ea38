//! Reading directories and looking at their entries, on the blocking pool.

use super::attributes::{Facts, from_statx, status};
use super::clock_map::lock;
use super::handle::Name;
use super::lanes::Answer;
use super::listing::{Entry, KnownObject, Listing, Slot, validity};
use super::object::Object;
use super::places::open_path;
use super::tree::{LocalTree, SUBVOLUME_ROOT, statx};
use crate::sys;
use gannet_vfs::{FileHandle, Status};
use rustix::fd::AsFd;
use rustix::fs::{Mode, OFlags, RawDir, SeekFrom};
use std::ffi::CStr;
use std::ops::Range;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Bytes of directory entries read at a time.
const DIRECTORY_BUFFER: usize = 64 << 10;
/// Entries that are looked at with one reading of the clock, and stored together.
const FILL_STEP: usize = 32;
/// Age of an inode after which the next inode with its number has another time of birth.
const BIRTH_SETTLED: Duration = Duration::from_secs(1);

impl LocalTree {
    /// Reads the entries after `cookie` and keeps them with the directory. A job that began as the server; it blocks.
    /// The caller's right to read the directory was checked before.
    ///
    /// # Errors
    /// `BadCookie`: the file system does not know the position. Other errors are those of opendir(3).
    pub(crate) fn list(
        &self,
        directory: &Arc<Object>,
        cookie: u64,
    ) -> Result<Arc<Listing>, Status> {
        debug_assert!(self.identities.is_server());
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let opened = rustix::fs::openat(directory.descriptor(), ".", flags, Mode::empty())
            .map_err(status)?;
        let valid_at = validity(&directory.attributes(self)?);
        if cookie != 0 {
            rustix::fs::seek(&opened, SeekFrom::Start(cookie)).map_err(|_| Status::BadCookie)?;
        }
        let mut names = Vec::new();
        let mut entries = Vec::new();
        let mut complete = true;
        let mut buffer = Vec::with_capacity(DIRECTORY_BUFFER);
        let mut raw = RawDir::new(&opened, buffer.spare_capacity_mut());
        while let Some(entry) = raw.next() {
            let entry = entry.map_err(status)?;
            if entries.len() == self.listing_entries_max {
                complete = false;
                break;
            }
            let name = entry.file_name().to_bytes();
            let above_root = name == b".." && directory.handle == self.root_object.handle;
            let name_at = u32::try_from(names.len()).map_err(|_| Status::Serverfault)?;
            let name_len = u16::try_from(name.len()).map_err(|_| Status::Serverfault)?;
            names.extend_from_slice(entry.file_name().to_bytes_with_nul());
            entries.push(Entry {
                fileid: if above_root {
                    directory.fileid
                } else {
                    entry.ino()
                },
                cookie: entry.next_entry_cookie(),
                name_at,
                name_len,
            });
        }
        names.shrink_to_fit();
        entries.shrink_to_fit();
        let listing = Arc::new(Listing::new(cookie, complete, names, entries, valid_at));
        // Where handles are made from the results of statx(2), known ones save nothing.
        if self.places.is_none() {
            let windows = lock(&directory.windows);
            let earlier = windows
                .iter()
                .find(|window| window.start == cookie)
                .cloned();
            drop(windows);
            if let Some(earlier) = earlier {
                listing.take_over(&earlier);
            }
        }
        self.listings.keep(directory, &listing);
        Ok(listing)
    }

    /// Reads the entries after `cookie` for a page, with the objects of as many as it has room for if it wants any, and
    /// goes on with the next ones when the page has been answered. It blocks.
    pub(crate) fn list_page(
        &self,
        directory: &Arc<Object>,
        cookie: u64,
        room: Option<usize>,
        answer: Answer<Arc<Listing>>,
    ) {
        match (self.list(directory, cookie), room) {
            (Ok(listing), Some(room)) => self.fill_page(directory, listing, 0, room, answer),
            (listing, _) => answer.give(listing),
        }
    }

    /// Looks at the objects of a page of `listing` that begins at `index`, and then goes on and blocks as
    /// [`LocalTree::list_page`] does.
    pub(crate) fn fill_page(
        &self,
        directory: &Arc<Object>,
        listing: Arc<Listing>,
        index: usize,
        room: usize,
        answer: Answer<Arc<Listing>>,
    ) {
        let (page, ahead) = listing.wanted(index, room);
        listing.pages_waiting.fetch_add(1, Ordering::Relaxed);
        let filling = lock(&listing.filling);
        listing.pages_waiting.fetch_sub(1, Ordering::Relaxed);
        self.fill(directory, &listing, page);
        drop(filling);
        answer.give(Ok(Arc::clone(&listing)));
        self.fill_ahead(directory, &listing, ahead);
    }

    /// Looks at objects ahead of the page that was answered, and stops as soon as a page waits.
    fn fill_ahead(&self, directory: &Arc<Object>, listing: &Listing, range: Range<usize>) {
        let mut filled = Vec::new();
        for step in steps(range) {
            let is_wanted = listing.pages_waiting.load(Ordering::Relaxed) > 0;
            let Some(_filling) = listing.filling.try_lock().ok().filter(|_| !is_wanted) else {
                return;
            };
            self.fill_step(directory, listing, step, &mut filled);
        }
    }

    /// Looks at the objects of the entries in `range`. A job that began as the server; it blocks.
    pub(crate) fn fill(&self, directory: &Arc<Object>, listing: &Listing, range: Range<usize>) {
        let mut filled = Vec::new();
        for step in steps(range) {
            self.fill_step(directory, listing, step, &mut filled);
        }
    }

    fn fill_step(
        &self,
        directory: &Arc<Object>,
        listing: &Listing,
        range: Range<usize>,
        filled: &mut Vec<Slot>,
    ) {
        let entries = listing.entries.get(range.clone()).unwrap_or_default();
        filled.clear();
        {
            let slots = listing.slots.read().unwrap_or_else(PoisonError::into_inner);
            filled.extend_from_slice(slots.get(range.clone()).unwrap_or_default());
        }
        filled.resize(entries.len(), Slot::Unknown);
        // One time for the whole step: its last objects then seem a little older than they are, which is safe.
        let now = Looking::begin();
        for (entry, slot) in entries.iter().zip(filled.iter_mut()) {
            let earlier = match slot {
                Slot::Known(known) if known.is_fresh(self, now.taken) => continue,
                Slot::Known(known) | Slot::Earlier(known) => Some(&*known),
                _ => None,
            };
            *slot = match listing.name_with_nul(entry) {
                Some(name) => self.look_at(directory, name, entry, earlier, &now),
                None => Slot::Foreign,
            };
        }
        let mut slots = listing
            .slots
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        if slots.is_empty() {
            slots.resize(listing.entries.len(), Slot::Unknown);
        }
        if let Some(to) = slots.get_mut(range) {
            to.copy_from_slice(filled);
        }
    }

    fn look_at(
        &self,
        directory: &Arc<Object>,
        name: &CStr,
        entry: &Entry,
        earlier: Option<&KnownObject>,
        now: &Looking,
    ) -> Slot {
        match name.to_bytes() {
            b".." => return Slot::Foreign,
            b"." => return self.look_at_itself(directory, now),
            _ => {}
        }
        // Before the object is looked at: a change that comes meanwhile must make these attributes stale.
        let change_count = self.change_count(entry.fileid);
        let (facts, handle) = match self.identify(directory, name, earlier) {
            Ok(identified) => identified,
            Err(Status::Noent) => return Slot::Gone,
            Err(_) => return Slot::Foreign,
        };
        Slot::Known(KnownObject {
            handle,
            birth: settled_birth(facts.birth, now.wall_clock),
            attributes: facts.attributes,
            taken: now.taken,
            change_count: if facts.attributes.fileid == entry.fileid {
                change_count
            } else {
                // The name has another object than when the listing was read, whose counter was not read before the
                // look.
                self.change_count(facts.attributes.fileid)
            },
        })
    }

    /// The result of statx(2) for the object that has a name now, and its handle.
    fn identify(
        &self,
        directory: &Arc<Object>,
        name: &CStr,
        earlier: Option<&KnownObject>,
    ) -> Result<(Facts, FileHandle), Status> {
        if earlier.is_some() || self.places.is_some() {
            let facts = self.facts_of_name(directory, name)?;
            if let Some(earlier) = earlier.filter(|earlier| earlier.is_of(&facts)) {
                return Ok((facts, earlier.handle));
            }
            if let Some(places) = &self.places {
                let number = self.number_of(&facts.attributes);
                places.learn(number, directory.number, name.to_bytes());
                let handle = self.minter.mint(&self.inode_name(&facts))?;
                return Ok((facts, handle));
            }
        }
        // The handle is taken before and after the attributes: if both are the same, the attributes are of its object.
        let kernel_handle = || sys::name_to_handle(directory.descriptor(), name).map_err(status);
        let first = kernel_handle()?;
        let facts = self.facts_of_name(directory, name)?;
        if kernel_handle()? != first {
            return Err(Status::Stale);
        }
        Ok((facts, self.minter.mint(&Name::Kernel(first))?))
    }

    /// The result of statx(2) for the object that has a name in a directory.
    ///
    /// # Errors
    /// `Xdev`: a file system is mounted there. Otherwise as statx(2).
    pub(crate) fn facts_of_name(
        &self,
        directory: &Arc<Object>,
        name: &CStr,
    ) -> Result<Facts, Status> {
        let raw = statx(directory.descriptor(), name).map_err(status)?;
        let mut facts = from_statx(&raw, self.fsid);
        if !self.is_ours(&facts) {
            self.note_mount(directory, name.to_bytes());
            return Err(Status::Xdev);
        }
        if self.is_in_subvolume(&facts) {
            if facts.attributes.fileid == SUBVOLUME_ROOT {
                let opened = open_path(directory.descriptor(), name.to_bytes());
                return self.facts(opened.map_err(status)?.as_fd());
            }
            facts.attributes.fsid = directory.fsid;
        }
        Ok(facts)
    }

    fn look_at_itself(&self, directory: &Arc<Object>, now: &Looking) -> Slot {
        let change_count = self.change_count(directory.fileid);
        match directory.attributes(self) {
            Ok(attributes) => Slot::Known(KnownObject {
                handle: directory.handle,
                birth: 0,
                attributes,
                taken: now.taken,
                change_count,
            }),
            Err(_) => Slot::Gone,
        }
    }
}

/// A range in steps of up to [`FILL_STEP`].
fn steps(range: Range<usize>) -> impl Iterator<Item = Range<usize>> {
    let end = range.end;
    range
        .step_by(FILL_STEP)
        .map(move |start| start..end.min(start + FILL_STEP))
}

/// The time at which a thread began to look at some objects, no later than its look at each of them.
struct Looking {
    taken: Instant,
    /// Time since 1970.
    wall_clock: Duration,
}

impl Looking {
    fn begin() -> Looking {
        Looking {
            taken: Instant::now(),
            wall_clock: SystemTime::now()
                .duration_since(UNIX_EPOCH)
                .unwrap_or_default(),
        }
    }
}

/// The birth of an inode that was seen no earlier than `seen`, both in nanoseconds since 1970; 0 unless number and
/// birth together belong to this inode alone.
fn settled_birth(birth: u64, seen: Duration) -> u64 {
    if Duration::from_nanos(birth) + BIRTH_SETTLED < seen {
        birth
    } else {
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::LocalOptions;
    use crate::limits::LISTING_ATTRIBUTES_AGE;
    use crate::listing::Served;
    use gannet_vfs::{DirectoryEntry, Entries};
    use std::path::Path;

    /// A served directory with a file `f`; the listing of it, filled; and where `f` is in that.
    fn listed(path: &Path) -> (Arc<LocalTree>, Arc<Listing>, usize) {
        let export = path.join("export");
        std::fs::create_dir(&export).unwrap();
        std::fs::write(export.join("f"), "").unwrap();
        let options = LocalOptions {
            state_dir: Some(path.join("state")),
            ..LocalOptions::default()
        };
        let tree = LocalTree::open(&export, &options).unwrap();
        let listing = tree.list(&tree.root_object, 0).unwrap();
        let all = 0..listing.entries.len();
        tree.fill(&tree.root_object, &listing, all);
        let is_f = |entry: &Entry| listing.name(entry) == b"f";
        let index = listing.entries.iter().position(is_f).unwrap();
        (tree, listing, index)
    }

    fn known(listing: &Listing, index: usize) -> KnownObject {
        match listing.slots.read().unwrap()[index] {
            Slot::Known(known) => known,
            _ => panic!("not looked at"),
        }
    }

    /// Takes everything.
    #[derive(Default)]
    struct Names(usize);

    impl Entries for Names {
        fn wants_objects(&self) -> bool {
            true
        }

        fn push(&mut self, _entry: &DirectoryEntry<'_>) -> bool {
            self.0 += 1;
            true
        }
    }

    #[test]
    fn a_page_ends_however_slow_the_disk() {
        let directory = tempfile::tempdir().unwrap();
        let (tree, listing, index) = listed(directory.path());
        let (taken, now) = (known(&listing, index).taken, Instant::now());
        let long_after = taken + 10 * LISTING_ATTRIBUTES_AGE;
        let serve = |asked| listing.serve(&tree, index, true, asked, &mut Names::default());
        assert!(
            !matches!(serve(taken), Served::Wanting(_)),
            "asked before it was looked at"
        );
        assert!(
            !matches!(serve(now), Served::Wanting(_)),
            "asked soon after"
        );
        assert!(
            matches!(serve(long_after), Served::Wanting(at) if at == index),
            "asked later"
        );
    }

    #[test]
    fn an_earlier_handle_is_used_for_the_same_number_and_birth_alone() {
        let directory = tempfile::tempdir().unwrap();
        let (tree, listing, index) = listed(directory.path());
        let root = &tree.root_object;
        let right = known(&listing, index);
        let birth = tree.facts_of_name(root, c"f").unwrap().birth;
        let fsid = right.attributes.fsid;
        let looked_at = |birth, fileid, fsid| {
            // The root's handle stands for one that is not the file's.
            let mut earlier = right;
            earlier.handle = root.handle;
            earlier.birth = birth;
            earlier.attributes.fileid = fileid;
            earlier.attributes.fsid = fsid;
            let entry = &listing.entries[index];
            match tree.look_at(root, c"f", entry, Some(&earlier), &Looking::begin()) {
                Slot::Known(known) => known.handle,
                _ => panic!("not looked at"),
            }
        };
        let fileid = right.attributes.fileid;
        assert_eq!(
            looked_at(birth + 1, fileid, fsid),
            right.handle,
            "inode reused"
        );
        assert_eq!(
            looked_at(birth, fileid + 1, fsid),
            right.handle,
            "name replaced"
        );
        assert_eq!(
            looked_at(0, fileid, fsid),
            right.handle,
            "birth not settled"
        );
        if birth != 0 {
            let moved = looked_at(birth, fileid, fsid + 1);
            assert_eq!(moved, right.handle, "another snapshot");
            assert_eq!(
                looked_at(birth, fileid, fsid),
                root.handle,
                "the same inode"
            );
        }
    }

    #[test]
    fn a_listing_takes_over_what_is_settled_and_looks_again() {
        let directory = tempfile::tempdir().unwrap();
        let (tree, listing, index) = listed(directory.path());
        if !tree.has_kernel_handles() {
            return;
        }
        let export = directory.path().join("export");
        let mut wrong = known(&listing, index);
        wrong.handle = tree.root_object.handle;
        for (birth, taken_over) in [(0, false), (1, true)] {
            wrong.birth = birth;
            listing.slots.write().unwrap()[index] = Slot::Known(wrong);
            tree.listings.keep(&tree.root_object, &listing);
            // Renamed in place: the number stays.
            let names = [export.join("f"), export.join("g")];
            let from = names.iter().find(|name| name.exists()).unwrap();
            let to = names.iter().find(|name| !name.exists()).unwrap();
            std::fs::rename(from, to).unwrap();
            let next = tree.list(&tree.root_object, 0).unwrap();
            let fileid = wrong.attributes.fileid;
            let at = (next.entries.iter().position(|entry| entry.fileid == fileid)).unwrap();
            let slot = next.slots.read().unwrap().get(at).copied();
            assert_eq!(matches!(slot, Some(Slot::Earlier(_))), taken_over);
            let all = 0..next.entries.len();
            tree.fill(&tree.root_object, &next, all);
            assert_ne!(known(&next, at).handle, wrong.handle, "another birth");
        }
    }

    #[test]
    fn a_birth_names_an_inode_once_it_is_past() {
        let birth = 5_000_000_000;
        let settled = |nanoseconds| settled_birth(birth, Duration::from_nanos(nanoseconds));
        assert_eq!(settled(birth - 1), 0);
        assert_eq!(settled(birth + 1_000_000_000), 0);
        assert_eq!(settled(birth + 1_000_000_001), birth);
        assert_eq!(settled_birth(u64::MAX, Duration::ZERO), 0);
    }
}
