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
    /// What it stands for, if that came along.
    pub node: Option<Node>,
}

impl<V: Vfs> Objects<V> {
    /// Everything in a directory. Names whose objects the file system kept to itself come without.
    ///
    /// When its cookies go stale on the way the listing starts over, a few times; so it does when a name comes twice,
    /// as one may that is given anew meanwhile.
    ///
    /// # Errors
    /// See [`Error`]. A file system that says a name twice again and again is not believed: what the name stands for
    /// would depend on who looks first, and the two would take each other's place in a copy.
    pub async fn list(&self, directory: &FileHandle) -> Result<Vec<Item>, Error> {
        self.list_by(directory, true).await
    }

    /// As [`Objects::list`], without objects, which may take less time: nobody who knows them is waited for.
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

/// Keeps what a directory lists.
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

/// Refuses a name that would not stay where it is put: what is listed may become a local path.
fn check_name(name: &[u8]) -> Result<(), Error> {
    match name.is_empty() || name.contains(&b'/') || name.contains(&0) {
        true => Err(Error::Malformed(
            "a name with a slash or a NUL in a directory",
        )),
        false => Ok(()),
    }
}

/// Whether a name is there more than once.
fn has_twins(items: &[Item]) -> bool {
    let mut names: Vec<&[u8]> = items.iter().map(|item| &item.name[..]).collect();
    names.sort_unstable();
    names.windows(2).any(|pair| pair.first() == pair.last())
}
