//! Whole listings, made of a file system's pages.

use super::{Error, Node, Objects};
use crate::limits::{LISTING_ENTRIES_MAX, LISTING_PAGE_ENTRIES, LISTING_RESTARTS_MAX};
use gannet_vfs::{DirectoryEntry, Entries, FileHandle, Status, Verifier, Vfs};

/// One name in a directory; never `.` or `..`, never with a slash or a NUL in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Item {
    /// The name: bytes, in no particular encoding.
    pub name: Vec<u8>,
    /// The object's number.
    pub fileid: u64,
    /// The object, if the listing had it.
    pub node: Option<Node>,
}

impl<V: Vfs> Objects<V> {
    /// Everything in a directory. Names whose objects the file system does not list come without.
    ///
    /// The listing starts over when its cookies become stale. It also does when a name comes twice, as a name can that
    /// is removed and made again meanwhile. It starts over [`LISTING_RESTARTS_MAX`] times.
    ///
    /// # Errors
    /// See [`Error`]. [`Error::Malformed`] also if a name comes twice in every attempt: a copy of the directory would
    /// write both objects to one file.
    pub async fn list(&self, directory: &FileHandle) -> Result<Vec<Item>, Error> {
        self.list_by(directory, true).await
    }

    /// As [`Objects::list`], without objects. It may take less time, since no server is asked for them.
    ///
    /// # Errors
    /// As [`Objects::list`].
    pub async fn names(&self, directory: &FileHandle) -> Result<Vec<Item>, Error> {
        self.list_by(directory, false).await
    }

    async fn list_by(&self, directory: &FileHandle, objects: bool) -> Result<Vec<Item>, Error> {
        for _ in 0..=LISTING_RESTARTS_MAX {
            let items = self.list_pages(directory, objects).await?;
            items.iter().try_for_each(|item| check_name(&item.name))?;
            if !has_twins(&items) {
                return Ok(items);
            }
        }
        Err(Error::Malformed("a name twice in a directory"))
    }

    async fn list_pages(&self, directory: &FileHandle, objects: bool) -> Result<Vec<Item>, Error> {
        let mut taken = Taken {
            items: Vec::new(),
            last: 0,
            room: LISTING_PAGE_ENTRIES,
            objects,
        };
        let (mut verifier, mut restarts) = (Verifier::default(), 0);
        loop {
            let (fs, caller, cookie) = (self.file_system(), self.caller(), taken.last);
            let page = fs.read_directory(caller, directory, cookie, verifier, &mut taken);
            match self.wait(page).await {
                Ok(page) => {
                    if taken.items.len() > LISTING_ENTRIES_MAX {
                        return Err(Error::DirectoryTooLarge);
                    }
                    if page.eof {
                        return Ok(taken.items);
                    }
                    if taken.room == LISTING_PAGE_ENTRIES {
                        return Err(Error::Malformed("an empty page that is not the last"));
                    }
                    (taken.room, verifier) = (LISTING_PAGE_ENTRIES, page.verifier);
                }
                Err(Status::BadCookie) if restarts < LISTING_RESTARTS_MAX => {
                    restarts += 1;
                    taken.items.clear();
                    (taken.last, taken.room) = (0, LISTING_PAGE_ENTRIES);
                    verifier = Verifier::default();
                }
                Err(status) => return Err(self.error(status)),
            }
        }
    }
}

/// Collects the entries of a directory, page by page.
struct Taken {
    items: Vec<Item>,
    /// The position after the last of them.
    last: u64,
    /// Entries that this page may still have.
    room: usize,
    objects: bool,
}

impl Entries for Taken {
    fn wants_objects(&self) -> bool {
        self.objects
    }

    fn room(&self) -> usize {
        self.room.max(1)
    }

    fn push(&mut self, entry: &DirectoryEntry<'_>) -> bool {
        if self.room == 0 {
            return false;
        }
        self.room -= 1;
        self.last = entry.cookie;
        if !matches!(entry.name, b"." | b"..") {
            self.items.push(Item {
                name: entry.name.to_vec(),
                fileid: entry.fileid,
                node: entry
                    .object
                    .map(|(handle, attributes)| Node { handle, attributes }),
            });
        }
        true
    }
}

/// Refuses a name that would leave its directory: a caller may use it as part of a local path.
fn check_name(name: &[u8]) -> Result<(), Error> {
    if name.is_empty() || name.contains(&b'/') || name.contains(&0) {
        return Err(Error::Malformed(
            "a name with a slash or a NUL in a directory",
        ));
    }
    Ok(())
}

/// True if a name is there more than once.
fn has_twins(items: &[Item]) -> bool {
    let mut names: Vec<&[u8]> = items.iter().map(|item| &item.name[..]).collect();
    names.sort_unstable();
    names.windows(2).any(|pair| pair.first() == pair.last())
}
