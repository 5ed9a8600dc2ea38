//! Whole listings, made of a file system's pages.

use super::{Error, Node, Objects};
use crate::limits::{LISTING_BYTES_MAX, LISTING_PAGE_ENTRIES, LISTING_RESTARTS_MAX};
use gannet_vfs::{DirectoryEntry, Entries, FileHandle, Status, Verifier, Vfs};

/// Bytes that the allocator needs for a name beside the name itself, about.
const ALLOCATION_BYTES: usize = 16;

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
    /// See [`Error`]. [`Error::Malformed`] also if a name comes twice in every attempt, because a copy of the directory
    /// would write both objects to one file; and if the cookies of pages stand still or go round, because the listing
    /// would not end.
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
        let mut taken = Taken::new(objects);
        let (mut cookies, mut verifier, mut restarts) =
            (Cookies::default(), Verifier::default(), 0);
        loop {
            let (fs, caller, cookie) = (self.file_system(), self.caller(), taken.last);
            let page = fs.read_directory(caller, directory, cookie, verifier, &mut taken);
            match self.wait(page).await {
                Ok(page) => {
                    if taken.bytes > LISTING_BYTES_MAX {
                        return Err(Error::DirectoryTooLarge);
                    }
                    if page.eof {
                        return Ok(taken.items);
                    }
                    if taken.room == LISTING_PAGE_ENTRIES {
                        return Err(Error::Malformed("an empty page that is not the last"));
                    }
                    cookies.turn(taken.last)?;
                    (taken.room, verifier) = (LISTING_PAGE_ENTRIES, page.verifier);
                }
                Err(Status::BadCookie) if restarts < LISTING_RESTARTS_MAX => {
                    restarts += 1;
                    taken = Taken::new(objects);
                    (cookies, verifier) = (Cookies::default(), Verifier::default());
                }
                Err(status) => return Err(self.error(status)),
            }
        }
    }
}

/// Finds out that the pages of a listing come again, from their cookies alone (Brent 1980). Each cookie is compared
/// with one that is kept, which is replaced after 1, 2, 4, 8 pages and so on.
struct Cookies {
    kept: u64,
    /// Pages since it was kept, and until the next one is.
    pages: u64,
    until: u64,
}

impl Default for Cookies {
    fn default() -> Cookies {
        // The first page begins at 0.
        let (kept, pages, until) = (0, 0, 1);
        Cookies { kept, pages, until }
    }
}

impl Cookies {
    /// Notes that a page has ended at `cookie`, where the next one begins.
    fn turn(&mut self, cookie: u64) -> Result<(), Error> {
        if cookie == self.kept {
            return Err(Error::Malformed("a listing that never ends"));
        }
        self.pages += 1;
        if self.pages == self.until {
            (self.kept, self.pages, self.until) = (cookie, 0, self.until.saturating_mul(2));
        }
        Ok(())
    }
}

/// Collects the entries of a directory, page by page.
struct Taken {
    items: Vec<Item>,
    /// Bytes of memory of the items.
    bytes: usize,
    /// The position after the last of them.
    last: u64,
    /// Entries that this page may still have.
    room: usize,
    objects: bool,
}

impl Taken {
    fn new(objects: bool) -> Taken {
        Taken {
            items: Vec::new(),
            bytes: 0,
            last: 0,
            room: LISTING_PAGE_ENTRIES,
            objects,
        }
    }
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
            self.bytes += size_of::<Item>() + entry.name.len() + ALLOCATION_BYTES;
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Pages with these cookies, again and again; gives how many pages were read until the end.
    fn pages_until_refused(cookies: impl IntoIterator<Item = u64>) -> Option<usize> {
        let mut seen = Cookies::default();
        let mut cookies = cookies.into_iter();
        cookies.position(|cookie| seen.turn(cookie).is_err())
    }

    #[test]
    fn a_listing_whose_cookies_stand_still_or_go_round_is_refused() {
        assert_eq!(pages_until_refused([0; 9]), Some(0));
        assert_eq!(pages_until_refused([5; 9]), Some(1));
        for length in [2, 3, 7, 100, 1000] {
            let round = (0..length).map(|at| at * 31 + 1).cycle();
            let way_in = (0..50).map(|at| u64::MAX - at);
            let refused = pages_until_refused(way_in.chain(round).take(10_000));
            assert!(
                refused.is_some_and(|page| page < 4000),
                "{length} {refused:?}"
            );
        }
        let good = (1..100_000u64).map(|at| at.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        assert_eq!(pages_until_refused(good), None);
    }

    #[test]
    fn the_bytes_of_a_listing_are_counted() {
        let mut taken = Taken::new(true);
        let entry = |name| DirectoryEntry {
            name,
            fileid: 1,
            cookie: 2,
            object: None,
        };
        assert!(taken.push(&entry(b".")));
        assert_eq!(taken.bytes, 0);
        assert!(taken.push(&entry(&[b'x'; 200])));
        let least = size_of::<Item>() + 200;
        assert!((least..least + 50).contains(&taken.bytes));
    }
}
