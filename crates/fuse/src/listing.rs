//! Listings: pages of the store, handed to the kernel in the portions it asks for.

use crate::convert::{file_type, unknown_attr};
use crate::inodes::{Epoch, Fetched, NOBODY, OWN, ROOT};
use crate::limits::{LISTED_DEADLINE, LISTING_NAMES_MAX};
use crate::mounted::{Entry, Mounted};
use crate::open::OpenDirectory;
use crate::status::errno;
use fuser::{Errno, FileType, Generation};
use gannet_runtime::timeout;
use gannet_vfs::{
    Attributes, Credentials, DirectoryEntry, Entries, FileHandle, Status, Verifier, Vfs,
};
use std::time::Duration;

/// The positions behind `.` and `..`, which are made here since not all stores list them. Any other position is a
/// cookie of the store; no known store has cookies of these values.
const BEHIND_DOTS: u64 = 0x6761_6e6e_6574_0002;
const BEHIND_DOT: u64 = BEHIND_DOTS - 1;
/// Numbers that stand for no object have both bits. Numbers of the inode table count up from [`OWN`] and stay below.
const UNKNOWN: u64 = OWN | 1 << 62;

/// A name in a directory.
struct Listed {
    name: Vec<u8>,
    fileid: u64,
    /// The position behind it.
    next: u64,
    object: Option<(FileHandle, Attributes)>,
}

/// The start of a page in the store.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PagePlace {
    cookie: u64,
    verifier: Verifier,
}

/// A name with its object.
pub(crate) type ListedObject = (Vec<u8>, FileHandle, Fetched);

/// The page of an open directory that was read last.
#[derive(Default)]
pub(crate) struct Listing {
    verifier: Verifier,
    /// A page of the store.
    page: Vec<Listed>,
    /// The epoch before the store was asked for the page.
    asked: Epoch,
    /// The position at which the page starts.
    start: u64,
    /// The position behind the page.
    end: u64,
    /// Whether the page is the last one.
    is_last: bool,
    /// Whether a lookup of a listed name ran into its deadline. Further ones are not tried: each would wait as long.
    gave_up: bool,
}

impl Listing {
    /// The objects of the page whose attributes the store gave, by their names; and where the next page starts, unless
    /// this is the last one.
    pub(crate) fn into_objects(self) -> (Vec<ListedObject>, Option<PagePlace>) {
        let next = (!self.is_last).then_some(self.end);
        let asked = self.asked;
        let objects = self.page.into_iter().filter_map(|listed| {
            let (handle, attributes) = listed.object?;
            let fetched = Fetched { attributes, asked };
            Some((listed.name, handle, fetched))
        });
        let verifier = self.verifier;
        let next = next.map(|cookie| PagePlace { cookie, verifier });
        (objects.collect(), next)
    }

    /// The names of the page behind `position`, if it is in the page.
    fn behind(&self, position: u64) -> Option<&[Listed]> {
        if position == self.start {
            return Some(&self.page);
        }
        let index = self
            .page
            .iter()
            .position(|listed| listed.next == position)?;
        self.page.get(index + 1..)
    }
}

/// Collects a page of the store, at most [`LISTING_NAMES_MAX`] names.
struct Page {
    names: Vec<Listed>,
}

impl Entries for Page {
    fn wants_objects(&self) -> bool {
        true
    }

    fn push(&mut self, entry: &DirectoryEntry<'_>) -> bool {
        if self.names.len() >= LISTING_NAMES_MAX {
            return false;
        }
        self.names.push(Listed {
            name: entry.name.to_vec(),
            fileid: entry.fileid,
            next: entry.cookie,
            object: entry.object,
        });
        true
    }
}

/// Takes entries for the kernel until there is no room for more.
pub(crate) trait Portion {
    /// Takes a name; true when it does not fit, nor would any other.
    fn add(&mut self, number: u64, next: u64, kind: FileType, name: &[u8]) -> bool;
}

/// As [`Portion`], with attributes. The kernel counts each name that was taken as looked up.
pub(crate) trait PortionPlus {
    /// Takes a name; true when it does not fit, nor would any other.
    fn add(&mut self, entry: &Entry, next: u64, name: &[u8]) -> bool;
}

/// The object of a listed name.
enum What<'a> {
    /// The directory that is listed.
    Itself(&'a Entry),
    /// An object with its attributes.
    Object {
        handle: &'a FileHandle,
        fetched: &'a Fetched,
    },
    /// A file with this fileid whose attributes are not available, because one of its servers does not answer.
    Unknown(u64),
}

/// The kernel's number, until it looks the name up, for a file with this fileid and without attributes.
fn unknown_number(fileid: u64) -> u64 {
    fileid.max(ROOT) | UNKNOWN
}

/// True for the number of a name that was listed without attributes.
pub(crate) fn is_unknown(number: u64) -> bool {
    number & UNKNOWN == UNKNOWN
}

/// The position behind a page that starts at `start`.
///
/// # Errors
/// EIO for a page that ends where it starts, and is not the last: all further pages would be the same.
fn end_of(page: &[Listed], start: u64, is_last: bool) -> Result<u64, Errno> {
    let end = page.last().map_or(start, |listed| listed.next);
    if end == start && !is_last {
        tracing::debug!(start, "the listing of a directory stands still");
        return Err(Errno::EIO);
    }
    Ok(end)
}

impl<V: Vfs> Mounted<V> {
    pub(crate) fn open_directory(&self, caller: &Credentials, number: u64) -> Result<u64, Errno> {
        self.handle(number)?;
        let directory = OpenDirectory {
            number,
            caller: caller.clone(),
            listing: tokio::sync::Mutex::default(),
        };
        Ok(self.open.borrow_mut().add_directory(directory))
    }

    /// Lists a directory from `position` on.
    pub(crate) async fn list(
        &self,
        key: u64,
        position: u64,
        portion: &mut (impl Portion + ?Sized),
    ) -> Result<(), Errno> {
        let take = &mut |name: &[u8], next, what: What<'_>| match what {
            What::Itself(own) => portion.add(own.attr.ino.0, next, FileType::Directory, name),
            What::Object { handle, fetched } => {
                let attributes = &fetched.attributes;
                let inodes = self.inodes.borrow();
                let known = inodes.number(handle);
                // For programs 0 means a removed entry.
                let number = known.unwrap_or(attributes.fileid.max(ROOT));
                portion.add(number, next, file_type(attributes.kind), name)
            }
            What::Unknown(fileid) => {
                portion.add(fileid.max(ROOT), next, FileType::RegularFile, name)
            }
        };
        self.each(key, position, take).await
    }

    /// Lists a directory with attributes from `position` on.
    pub(crate) async fn list_plus(
        &self,
        key: u64,
        position: u64,
        portion: &mut (impl PortionPlus + ?Sized),
    ) -> Result<(), Errno> {
        let take = &mut |name: &[u8], next, what: What<'_>| match what {
            What::Itself(own) => portion.add(own, next, name),
            What::Object { handle, fetched } => {
                // Attributes that a later event has overtaken are not kept.
                let is_old = self.knows_better(handle, fetched.asked);
                let mut entry = self.report(handle, fetched, NOBODY);
                if is_old {
                    entry.age = Duration::ZERO;
                }
                let is_full = portion.add(&entry, next, name);
                if is_full {
                    // The kernel does not get this entry and will not forget it, so its lookup is taken back here.
                    self.inodes.borrow_mut().forget(entry.attr.ino.0, 1);
                }
                is_full
            }
            What::Unknown(fileid) => {
                // With age 0: a program that wants more than the name causes a lookup, and gets that lookup's error.
                let entry = Entry {
                    attr: unknown_attr(unknown_number(fileid)),
                    generation: Generation(0),
                    age: Duration::ZERO,
                };
                portion.add(&entry, next, name)
            }
        };
        self.each(key, position, take).await
    }

    /// Passes the entries of a directory from `position` on to `take`, each with the position behind it. It ends when
    /// `take` returns true, or at the end of a page.
    async fn each(
        &self,
        key: u64,
        position: u64,
        take: &mut dyn FnMut(&[u8], u64, What<'_>) -> bool,
    ) -> Result<(), Errno> {
        let directory = self.open.borrow().directory(key).ok_or(Errno::EBADF)?;
        // The lock is held over the awaits below: another request would replace the page during a lookup.
        let mut listing = directory.listing.lock().await;
        let (mut position, mut any) = (position, false);
        if DOTS.iter().any(|(_, from, _)| *from == position) {
            let own = self.itself(directory.number).await?;
            for (name, from, next) in DOTS {
                if position == from {
                    if take(name, next, What::Itself(&own)) {
                        return Ok(());
                    }
                    (position, any) = (next, true);
                }
            }
        }
        loop {
            match self.turn_to(&directory, &mut listing, position).await {
                // Entries that were taken count in the kernel: an error would lose them. It will ask for the rest.
                Err(_) if any => return Ok(()),
                turned => turned?,
            }
            let (asked, mut gave_up) = (listing.asked, listing.gave_up);
            for listed in listing.behind(position).unwrap_or_default() {
                let object = if let Some(object) = listed.object {
                    Ok(Some(object))
                } else if gave_up {
                    Err(Errno::EIO)
                } else {
                    let looking = self.look_up(&directory, listed);
                    let looked = timeout(&self.runtime, LISTED_DEADLINE, looking).await;
                    gave_up = looked.is_err();
                    looked.unwrap_or(Err(Errno::EIO))
                };
                let is_full = match object {
                    Ok(Some((handle, attributes))) => {
                        let listed_then = Fetched { attributes, asked };
                        let fetched = &self.not_overtaken(&handle, listed_then).await;
                        let handle = &handle;
                        take(&listed.name, listed.next, What::Object { handle, fetched })
                    }
                    Ok(None) => continue,
                    // Its name is listed without attributes.
                    Err(errno) if errno == Errno::EIO => {
                        take(&listed.name, listed.next, What::Unknown(listed.fileid))
                    }
                    Err(_) if any => return Ok(()),
                    Err(errno) => return Err(errno),
                };
                if is_full {
                    listing.gave_up = gave_up;
                    return Ok(());
                }
                any = true;
            }
            listing.gave_up = gave_up;
            // The names so far are enough for a reply; the next page may take long.
            if listing.is_last || any {
                return Ok(());
            }
            position = listing.end;
        }
    }

    /// The attributes of a listed object, or newer ones: a page may be older than writes of this mount, and the kernel
    /// would cut its own pages.
    async fn not_overtaken(&self, handle: &FileHandle, listed: Fetched) -> Fetched {
        let newest = self.newest(handle, Some(listed)).await;
        let fetched = newest.unwrap_or(listed);
        self.learn_first(handle, &fetched).await;
        fetched
    }

    /// Reads the page that goes on at `position`, unless the listing holds it.
    async fn turn_to(
        &self,
        directory: &OpenDirectory,
        listing: &mut Listing,
        position: u64,
    ) -> Result<(), Errno> {
        let is_new = position == BEHIND_DOTS;
        if !is_new
            && let Some(rest) = listing.behind(position)
            && (!rest.is_empty() || listing.is_last)
        {
            return Ok(());
        }
        let handle = self.handle(directory.number)?;
        let (cookie, verifier) = if is_new {
            (0, Verifier::default())
        } else {
            (position, listing.verifier)
        };
        let place = PagePlace { cookie, verifier };
        let read = self
            .read_page(&directory.caller, &handle, place, position)
            .await?;
        let (names, number) = (read.page.len(), directory.number);
        (self.ahead.borrow_mut()).listed(number, &directory.caller, names, is_new);
        *listing = Listing {
            gave_up: listing.gave_up,
            ..read
        };
        Ok(())
    }

    /// Reads the page of a directory that starts at `position`, which is at `place` in the store.
    pub(crate) async fn read_page(
        &self,
        caller: &Credentials,
        directory: &FileHandle,
        place: PagePlace,
        position: u64,
    ) -> Result<Listing, Errno> {
        let mut page = Page { names: Vec::new() };
        let asked = self.epoch();
        let read =
            self.vfs
                .read_directory(caller, directory, place.cookie, place.verifier, &mut page);
        let read = read.await.map_err(errno)?;
        // Before the dots are left out: a page may have nothing else.
        let end = end_of(&page.names, place.cookie, read.eof)?;
        page.names
            .retain(|listed| !matches!(listed.name.as_slice(), b"." | b".."));
        Ok(Listing {
            verifier: read.verifier,
            page: page.names,
            asked,
            start: position,
            end,
            is_last: read.eof,
            gave_up: false,
        })
    }

    /// The directory itself, as its own entry.
    async fn itself(&self, number: u64) -> Result<Entry, Errno> {
        let attributes = self.attributes(&self.handle(number)?).await?;
        Ok(Entry {
            attr: self.attr(number, &attributes),
            generation: Generation(0),
            age: Duration::ZERO,
        })
    }

    /// The object of a name that the store listed without one. `None` if the name was removed since.
    async fn look_up(
        &self,
        directory: &OpenDirectory,
        listed: &Listed,
    ) -> Result<Option<(FileHandle, Attributes)>, Errno> {
        let handle = self.handle(directory.number)?;
        let found = self.vfs.lookup(&directory.caller, &handle, &listed.name);
        match found.await.0 {
            Ok(object) => Ok(Some(object)),
            Err(Status::Noent | Status::Stale) => Ok(None),
            Err(status) => Err(errno(status)),
        }
    }
}

const DOTS: [(&[u8], u64, u64); 2] = [(b".", 0, BEHIND_DOT), (b"..", BEHIND_DOT, BEHIND_DOTS)];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_that_ends_where_it_starts_is_an_error_unless_it_is_the_last() {
        let page = |next| {
            let name = b"name".to_vec();
            let (fileid, object) = (1, None);
            [Listed {
                name,
                fileid,
                next,
                object,
            }]
        };
        assert_eq!(end_of(&page(8), 7, false).map_err(i32::from), Ok(8));
        assert_eq!(end_of(&page(7), 7, true).map_err(i32::from), Ok(7));
        assert_eq!(end_of(&[], 7, true).map_err(i32::from), Ok(7));
        for still in [&page(7)[..], &[]] {
            let refused = end_of(still, 7, false).map_err(i32::from);
            assert_eq!(refused, Err(i32::from(Errno::EIO)));
        }
    }
}
