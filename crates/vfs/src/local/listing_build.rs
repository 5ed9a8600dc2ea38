//! Reading directories and looking at their entries, on the blocking pool.

use super::attributes::{from_statx, status};
use super::handle::Name;
use super::listing::{Entry, KnownObject, Listing, Slot, validity};
use super::object::Object;
use super::tree::{LocalTree, statx};
use crate::{Status, sys};
use rustix::fs::{Mode, OFlags, RawDir, SeekFrom};
use std::ffi::CString;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

/// Bytes of directory entries read at a time.
const DIRECTORY_BUFFER: usize = 64 << 10;
/// An inode born this long ago or more cannot have been mistaken for another with the same number and birth.
const BIRTH_SETTLED: Duration = Duration::from_secs(1);

impl LocalTree {
    /// Reads the entries after `cookie` and keeps them with the directory. Blocks. The caller's right was checked.
    ///
    /// # Errors
    /// `BadCookie` for a position the file system does not know; as opendir(3).
    pub(crate) fn list(
        &self,
        directory: &Arc<Object>,
        cookie: u64,
    ) -> Result<Arc<Listing>, Status> {
        self.identities.assume_own()?;
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
            names.extend_from_slice(name);
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
        let listing = Arc::new(Listing::new(cookie, complete, (names, entries), valid_at));
        self.listings.keep(directory, &listing);
        Ok(listing)
    }

    /// Looks at the objects of some entries. Blocks.
    ///
    /// # Errors
    /// The server's identity cannot be assumed.
    pub(crate) fn fill(
        &self,
        directory: &Arc<Object>,
        listing: &Listing,
        range: std::ops::Range<usize>,
    ) -> Result<(), Status> {
        self.identities.assume_own()?;
        let old = {
            let slots = listing.slots.read().unwrap_or_else(PoisonError::into_inner);
            let old = slots.get(range.clone());
            old.map(<[Slot]>::to_vec)
        };
        let now = Instant::now();
        let entries = listing.entries.get(range.clone()).unwrap_or_default();
        let filled: Vec<Slot> = entries
            .iter()
            .enumerate()
            .map(
                |(index, entry)| match old.as_ref().and_then(|old| old.get(index)) {
                    Some(Slot::Known(known)) if known.is_fresh(self, now) => Slot::Known(*known),
                    Some(known) => self.look_at(directory, listing.name(entry), entry, *known),
                    None => self.look_at(directory, listing.name(entry), entry, Slot::Unknown),
                },
            )
            .collect();
        let mut slots = listing
            .slots
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        if slots.is_empty() {
            slots.resize(listing.entries.len(), Slot::Unknown);
        }
        if let Some(to) = slots.get_mut(range) {
            to.copy_from_slice(&filled);
        }
        Ok(())
    }

    fn look_at(&self, directory: &Arc<Object>, name: &[u8], entry: &Entry, known: Slot) -> Slot {
        match name {
            b".." => return Slot::Foreign,
            b"." => return self.look_at_itself(directory),
            _ => {}
        }
        let change_count = self.change_count(entry.fileid);
        let taken = Instant::now();
        let facts = match statx(directory.descriptor(), name) {
            Ok(raw) => from_statx(&raw, self.fsid),
            Err(rustix::io::Errno::NOENT) => return Slot::Gone,
            Err(_) => return Slot::Foreign,
        };
        if !self.is_ours(&facts) {
            return Slot::Foreign;
        }
        let mut object = KnownObject {
            handle: directory.handle,
            birth: facts.birth,
            attributes: facts.attributes,
            taken,
            change_count: if facts.attributes.fileid == entry.fileid {
                change_count
            } else {
                // Replaced since the listing was read: the counter of the new object was not asked in time.
                self.change_count(facts.attributes.fileid)
            },
        };
        if let Slot::Known(known) = known
            && known.attributes.fileid == facts.attributes.fileid
            && known.birth == facts.birth
            && is_old(facts.birth)
        {
            object.handle = known.handle;
            return Slot::Known(object);
        }
        self.name_entry(directory, name, object)
    }

    /// Gives a newly seen entry its handle.
    fn name_entry(&self, directory: &Arc<Object>, name: &[u8], mut object: KnownObject) -> Slot {
        if let Some(places) = &self.places {
            places.learn(object.attributes.fileid, directory.fileid, name);
            let name = Name::Inode {
                fileid: object.attributes.fileid,
                birth: object.birth,
            };
            return match self.minter.mint(&name) {
                Ok(handle) => {
                    object.handle = handle;
                    Slot::Known(object)
                }
                Err(_) => Slot::Foreign,
            };
        }
        let Ok(name) = CString::new(name) else {
            return Slot::Foreign;
        };
        // The handle is taken before and after the attributes: the same both times, it is theirs.
        let handle = || sys::name_to_handle(directory.descriptor(), &name);
        let Ok(first) = handle() else {
            return Slot::Foreign;
        };
        let facts = match statx(directory.descriptor(), name.as_c_str()) {
            Ok(raw) => from_statx(&raw, self.fsid),
            Err(_) => return Slot::Gone,
        };
        if handle() != Ok(first) || !self.is_ours(&facts) {
            return Slot::Foreign;
        }
        match self.minter.mint(&Name::Kernel(first)) {
            Ok(handle) => {
                object.handle = handle;
                object.birth = facts.birth;
                object.attributes = facts.attributes;
                Slot::Known(object)
            }
            Err(_) => Slot::Foreign,
        }
    }

    fn look_at_itself(&self, directory: &Arc<Object>) -> Slot {
        let change_count = self.change_count(directory.fileid);
        let taken = Instant::now();
        match directory.attributes(self) {
            Ok(attributes) => Slot::Known(KnownObject {
                handle: directory.handle,
                birth: 0,
                attributes,
                taken,
                change_count,
            }),
            Err(_) => Slot::Gone,
        }
    }
}

/// Whether an inode was born so long ago that number and birth together name it for sure.
fn is_old(birth: u64) -> bool {
    let now = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap_or_default();
    birth != 0 && Duration::from_nanos(birth) + BIRTH_SETTLED < now
}
