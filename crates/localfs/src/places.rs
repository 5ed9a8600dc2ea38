//! The places of inodes in the tree, for handles that the kernel cannot open by itself.
//!
//! A table leads from an inode's number in the tree to a directory and a name in it, as last seen. It is filled by
//! lookups, listings, creations and renames, and by a search of the tree when a handle leads nowhere (after a restart,
//! or after local programs renamed files). An entry is only a hint: the object found there must have the handle's
//! number and time of birth.
//!
//! The search goes on where the last one stopped, so that many handles cost one pass over the tree together.

use super::attributes::status;
use super::clock_map::{ClockMap, lock};
use super::handle::Name;
use super::object::{Base, Object};
use super::tree::{BENEATH, LocalTree, SUBVOLUME_ROOT};
use crate::limits::{
    ABSENT_MAX, DEPTH_MAX, PLACES_MAX, SEARCH_ENTRIES_MAX, SEARCH_PATH_MAX, SEARCH_QUEUE_MAX,
};
use gannet_vfs::{FileHandle, Status};
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{FileType, Mode, OFlags, RawDir};
use std::hash::RandomState;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// A finished search is trusted for this many times as long as it took.
const SEARCH_REST: u32 = 10;
/// Bytes of directory entries read at a time.
const DIRECTORY_BUFFER: usize = 32 << 10;

/// The directory and the name of an inode when it was last seen.
struct Place {
    parent: u64,
    name: Box<[u8]>,
}

/// The table, and the search that fills it.
pub(crate) struct Places {
    table: ClockMap<u64, Arc<Place>, RandomState>,
    /// Handles of objects whose last name was removed, or that a whole search did not find.
    absent: ClockMap<FileHandle, (), RandomState>,
    search: Mutex<Search>,
}

#[derive(Default)]
struct Search {
    /// Directories still to be read, as paths from the root.
    queue: Vec<Vec<u8>>,
    entries: usize,
    started: Option<Instant>,
    /// The time at which the last whole pass ended, and its duration.
    last: Option<(Instant, Duration)>,
    /// Whether this pass, or the last one, could not read everything.
    incomplete: bool,
}

/// An inode to search for.
#[derive(Clone, Copy)]
pub(crate) struct Wanted {
    /// Its number in the tree.
    pub(crate) number: u64,
    /// Its inode number.
    fileid: u64,
}

impl Wanted {
    /// The inode with this name.
    ///
    /// # Errors
    /// `Stale` for a handle of the kernel: the server runs with other rights than the one that gave it out.
    pub(crate) fn of(tree: &LocalTree, name: Name) -> Result<Wanted, Status> {
        match name {
            Name::Inode {
                fileid, subvolume, ..
            } => Ok(Wanted {
                number: tree.minter.number(subvolume, fileid),
                fileid,
            }),
            Name::Kernel(_) => Err(Status::Stale),
        }
    }
}

/// The end of a pass of the search.
enum Pass {
    Found(OwnedFd),
    /// The directories that were left to read do not have the object.
    Exhausted,
}

impl Places {
    pub(crate) fn new() -> Places {
        Places {
            table: ClockMap::new(PLACES_MAX, RandomState::new()),
            absent: ClockMap::new(ABSENT_MAX, RandomState::new()),
            search: Mutex::default(),
        }
    }

    /// Remembers where an inode is.
    pub(crate) fn learn(&self, number: u64, parent: u64, name: &[u8]) {
        if let Some(known) = self.table.get(&number)
            && known.parent == parent
            && *known.name == *name
        {
            return;
        }
        let name = name.into();
        self.table.insert(number, Arc::new(Place { parent, name }));
    }

    /// Forgets a place that an inode had.
    pub(crate) fn unlearn(&self, number: u64, parent: u64, name: &[u8]) {
        if let Some(known) = self.table.get(&number)
            && known.parent == parent
            && *known.name == *name
        {
            self.table.remove(&number);
        }
    }

    /// The last name of an object was removed: no need to search for it.
    pub(crate) fn departed(&self, handle: &FileHandle) {
        self.absent.insert(*handle, ());
    }

    /// Notes that the object of a handle exists.
    pub(crate) fn returned(&self, handle: &FileHandle) {
        self.absent.remove(handle);
    }

    /// Opens the object with this handle where it was last seen; `None` when it is not there any more. Blocks.
    ///
    /// # Errors
    /// `Stale` when it is known to be removed.
    pub(crate) fn open(
        &self,
        tree: &LocalTree,
        handle: &FileHandle,
        number: u64,
    ) -> Result<Option<Arc<Object>>, Status> {
        if self.absent.get(handle).is_some() {
            return Err(Status::Stale);
        }
        Ok(self.follow(tree, handle, number))
    }

    /// Opens the object with this handle wherever it is. Blocks, for as long as reading all directories takes.
    ///
    /// # Errors
    /// `Stale` when it is nowhere in the tree, `Serverfault` when it may be where the search did not get to.
    pub(crate) fn search(
        &self,
        tree: &LocalTree,
        handle: &FileHandle,
        wanted: Wanted,
    ) -> Result<Arc<Object>, Status> {
        let mut search = lock(&self.search);
        let now = tree.clock();
        // After the wait for the lock: the search of another caller may have seen the object.
        if let Some(object) = self.open(tree, handle, wanted.number)? {
            return Ok(object);
        }
        if search.is_recent() && self.table.get(&wanted.number).is_none() {
            return Err(search.verdict());
        }
        loop {
            let whole = search.queue.is_empty();
            if whole {
                search.start();
            }
            match self.pass(tree, &mut search, handle, wanted)? {
                Pass::Found(descriptor) => {
                    let (object, _) = tree.adopt(descriptor, Base::Path)?;
                    object.was_below(now);
                    return Ok(object);
                }
                Pass::Exhausted if whole => {
                    let verdict = search.verdict();
                    if verdict == Status::Stale {
                        self.absent.insert(*handle, ());
                    }
                    return Err(verdict);
                }
                Pass::Exhausted => {}
            }
        }
    }

    /// Opens what is at the remembered place, if that is the handle's object.
    fn follow(&self, tree: &LocalTree, handle: &FileHandle, number: u64) -> Option<Arc<Object>> {
        let root = tree.root_object.number;
        let mut path = Vec::new();
        let mut at = number;
        while at != root {
            if path.len() == DEPTH_MAX {
                return None;
            }
            let place = self.table.get(&at)?;
            at = place.parent;
            path.push(place);
        }
        let now = tree.clock();
        let mut directory: Option<OwnedFd> = None;
        for place in path.iter().rev() {
            let from = directory.as_ref().map_or(tree.root.as_fd(), AsFd::as_fd);
            directory = Some(open_path(from, &place.name).ok()?);
        }
        let (object, _) = tree.adopt(directory?, Base::Path).ok()?;
        if object.handle != *handle {
            return None;
        }
        object.was_below(now);
        Some(object)
    }

    fn pass(
        &self,
        tree: &LocalTree,
        search: &mut Search,
        handle: &FileHandle,
        wanted: Wanted,
    ) -> Result<Pass, Status> {
        while let Some(path) = search.queue.pop() {
            let found = self.read_directory(tree, search, &path, handle, wanted);
            match found {
                Ok(Some(descriptor)) => return Ok(Pass::Found(descriptor)),
                Ok(None) => {}
                Err(Status::Jukebox) => return Err(Status::Jukebox),
                Err(Status::Io) => search.incomplete = true,
                // Removed or closed to us meanwhile: nothing to be found there.
                Err(reason) => tracing::debug!(%reason, "directory skipped in search"),
            }
            if search.entries > SEARCH_ENTRIES_MAX {
                search.queue.clear();
                search.incomplete = true;
            }
        }
        search.finish();
        Ok(Pass::Exhausted)
    }

    /// Learns all names of one directory; gives the object if it is among them.
    fn read_directory(
        &self,
        tree: &LocalTree,
        search: &mut Search,
        path: &[u8],
        handle: &FileHandle,
        wanted: Wanted,
    ) -> Result<Option<OwnedFd>, Status> {
        let at: &[u8] = if path.is_empty() { b"." } else { path };
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory =
            rustix::fs::openat2(&tree.root, at, flags, Mode::empty(), BENEATH).map_err(status)?;
        let facts = tree.facts(directory.as_fd())?;
        let parent = tree.number_of(&facts.attributes);
        let subvolume = tree.subvolume_of(facts.attributes.fsid);
        let mut found = None;
        if subvolume != 0 && facts.attributes.fileid == SUBVOLUME_ROOT {
            // The entry that led here has the number of the subvolume, and not that of its root.
            self.learn_root(tree, &directory, parent, path);
            if parent == wanted.number {
                found = open_path(directory.as_fd(), b".").ok();
            }
        }
        let mut buffer = Vec::with_capacity(DIRECTORY_BUFFER);
        let mut entries = RawDir::new(&directory, buffer.spare_capacity_mut());
        while let Some(entry) = entries.next() {
            let entry = entry.map_err(status)?;
            let name = entry.file_name().to_bytes();
            if matches!(name, b"." | b"..") {
                continue;
            }
            search.entries += 1;
            let number = tree.minter.number(subvolume, entry.ino());
            self.learn(number, parent, name);
            // The directory's subvolume may be another than that of the wanted inode: the handle tells.
            if entry.ino() == wanted.fileid && found.is_none() {
                found = open_path(directory.as_fd(), name)
                    .ok()
                    .filter(|descriptor| tree.has_handle(descriptor, handle));
            }
            if matches!(entry.file_type(), FileType::Directory | FileType::Unknown) {
                search.enqueue(path, name);
            }
        }
        Ok(found)
    }

    /// Remembers where the root of a subvolume is, which was opened at `path`.
    fn learn_root(&self, tree: &LocalTree, root: &OwnedFd, number: u64, path: &[u8]) {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let above = rustix::fs::openat(root, "..", flags, Mode::empty()).map_err(status);
        let facts = above.and_then(|above| tree.facts(above.as_fd()));
        // Otherwise it is moved or removed at this moment.
        if let (Ok(facts), Some(name)) = (facts, path.rsplit(|byte| *byte == b'/').next()) {
            self.learn(number, tree.number_of(&facts.attributes), name);
        }
    }
}

impl Search {
    fn start(&mut self) {
        self.queue.push(Vec::new());
        self.entries = 0;
        self.incomplete = false;
        self.started = Some(Instant::now());
    }

    fn enqueue(&mut self, path: &[u8], name: &[u8]) {
        let len = path.len() + usize::from(!path.is_empty()) + name.len();
        if self.queue.len() >= SEARCH_QUEUE_MAX || len > SEARCH_PATH_MAX {
            self.incomplete = true;
            return;
        }
        let mut below = Vec::with_capacity(len);
        below.extend_from_slice(path);
        if !path.is_empty() {
            below.push(b'/');
        }
        below.extend_from_slice(name);
        self.queue.push(below);
    }

    fn finish(&mut self) {
        let now = Instant::now();
        let took = self
            .started
            .take()
            .map_or(Duration::ZERO, |start| now - start);
        self.last = Some((now, took));
        tracing::debug!(
            entries = self.entries,
            took_ms = took.as_millis(),
            "tree searched for a handle"
        );
        if self.incomplete {
            tracing::warn!(
                entries = self.entries,
                "the tree cannot be searched whole for handles (too large, too deep, or the disk fails); some cannot \
                 be used after a restart: serve it as root"
            );
        }
    }

    /// The status of a handle that the last whole pass did not find.
    fn verdict(&self) -> Status {
        if self.incomplete {
            Status::Serverfault
        } else {
            Status::Stale
        }
    }

    /// Whether all names were seen so lately that another pass is too much to ask.
    fn is_recent(&self) -> bool {
        self.queue.is_empty()
            && self
                .last
                .is_some_and(|(ended, took)| ended.elapsed() < took * SEARCH_REST)
    }
}

/// Opens a name to find out what it is.
pub(crate) fn open_path(
    directory: rustix::fd::BorrowedFd<'_>,
    name: &[u8],
) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::openat2(directory, name, flags, Mode::empty(), BENEATH)
}

impl LocalTree {
    /// Whether an open descriptor is of the object with this handle.
    fn has_handle(&self, descriptor: &OwnedFd, handle: &FileHandle) -> bool {
        let Ok(facts) = self.facts(descriptor.as_fd()) else {
            return false;
        };
        self.minter.open(handle) == Ok(self.inode_name(&facts))
    }
}
