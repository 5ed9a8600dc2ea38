//! READDIR, READDIRPLUS, and whole listings made of their pages.

use super::{Client, Error, good, results};
use crate::convert::attributes_from_wire;
use crate::limits::{LISTING_ENTRIES_MAX, LISTING_PAGE, LISTING_RESTARTS_MAX};
use gannet_vfs::{Attributes, FileHandle, Status, Verifier};
use gannet_wire::nfs3::{
    DirectoryListing, Entry, EntryPlus, FileHandle as WireHandle, Procedure, ReaddirArgs,
    ReaddirResult, ReaddirplusArgs, ReaddirplusResult,
};

/// One name in a directory; never `.` or `..`, never with a slash or a NUL in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Item {
    /// The name: bytes, in no particular encoding.
    pub name: Vec<u8>,
    /// The object's number.
    pub fileid: u64,
    /// Its handle, if the server sent it along.
    pub handle: Option<FileHandle>,
    /// Its attributes, if the server sent them along.
    pub attributes: Option<Attributes>,
}

/// Where a page begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Position {
    pub(super) cookie: u64,
    pub(super) verifier: Verifier,
}

/// Part of a listing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page {
    /// Names in the order of the server.
    pub items: Vec<Item>,
    /// Where the next page begins; `None` at the end.
    pub next: Option<Position>,
}

impl Client {
    /// READDIRPLUS from `position` on (the default is the start), about `bytes` of it.
    ///
    /// # Errors
    /// See [`Error`]. `BadCookie`: the position has become meaningless; start over.
    pub async fn readdirplus(
        &self,
        directory: &FileHandle,
        position: Position,
        bytes: u32,
    ) -> Result<Page, Error> {
        let reply = self.readdirplus_reply(directory, position, bytes).await?;
        let listing = readdirplus_listing(&reply)?;
        page(listing.entries.iter(), listing.verifier, listing.eof)
    }

    /// READDIRPLUS, not decoded yet: see [`readdirplus_listing`].
    pub(super) async fn readdirplus_reply(
        &self,
        directory: &FileHandle,
        position: Position,
        bytes: u32,
    ) -> Result<Vec<u8>, Error> {
        let arguments = ReaddirplusArgs {
            directory: WireHandle(directory.as_bytes()),
            cookie: position.cookie,
            verifier: position.verifier,
            directory_count: bytes,
            max_count: bytes,
        };
        self.exchange(Procedure::Readdirplus, &arguments, bytes)
            .await
    }

    /// READDIR from `position` on, about `bytes` of it.
    ///
    /// # Errors
    /// As [`Client::readdirplus`].
    pub async fn readdir(
        &self,
        directory: &FileHandle,
        position: Position,
        bytes: u32,
    ) -> Result<Page, Error> {
        let reply = self.readdir_reply(directory, position, bytes).await?;
        let listing = readdir_listing(&reply)?;
        let entries = listing.entries.iter().map(without_object);
        page(entries, listing.verifier, listing.eof)
    }

    /// READDIR, not decoded yet: see [`readdir_listing`].
    pub(super) async fn readdir_reply(
        &self,
        directory: &FileHandle,
        position: Position,
        bytes: u32,
    ) -> Result<Vec<u8>, Error> {
        let arguments = ReaddirArgs {
            directory: WireHandle(directory.as_bytes()),
            cookie: position.cookie,
            verifier: position.verifier,
            count: bytes,
        };
        self.exchange(Procedure::Readdir, &arguments, bytes).await
    }

    /// Everything in a directory. Names whose attributes the server kept to itself come without.
    ///
    /// A server without READDIRPLUS is asked by READDIR. When its cookies go stale on the way the listing starts
    /// over, a few times; so it does when a name comes twice, as one may that is given anew meanwhile.
    ///
    /// # Errors
    /// See [`Error`]. A server that says a name twice again and again is not believed: what the name stands for would
    /// depend on who looks first, and the two would take each other's place in a copy.
    pub async fn list(&self, directory: &FileHandle) -> Result<Vec<Item>, Error> {
        self.list_by(directory, true).await
    }

    /// As [`Client::list`], without attributes: by READDIR, which waits for nobody who knows them.
    ///
    /// # Errors
    /// As [`Client::list`].
    pub async fn names(&self, directory: &FileHandle) -> Result<Vec<Item>, Error> {
        self.list_by(directory, false).await
    }

    async fn list_by(&self, directory: &FileHandle, plus: bool) -> Result<Vec<Item>, Error> {
        for _ in 0..=LISTING_RESTARTS_MAX {
            let items = match (self.direct(), plus) {
                (Some(direct), true) => direct.list(directory).await?,
                (Some(direct), false) => direct.names(directory).await?,
                (None, _) => self.list_pages(directory, plus).await?,
            };
            items.iter().try_for_each(|item| check_name(&item.name))?;
            if !has_twins(&items) {
                return Ok(items);
            }
        }
        Err(Error::Malformed("a name twice in a directory"))
    }

    async fn list_pages(&self, directory: &FileHandle, mut plus: bool) -> Result<Vec<Item>, Error> {
        let (mut items, mut position, mut restarts) = (Vec::new(), Position::default(), 0);
        loop {
            let page = if plus {
                self.readdirplus(directory, position, LISTING_PAGE).await
            } else {
                self.readdir(directory, position, LISTING_PAGE).await
            };
            match page {
                Ok(page) => {
                    items.extend(page.items);
                    if items.len() > LISTING_ENTRIES_MAX {
                        return Err(Error::DirectoryTooLarge);
                    }
                    match page.next {
                        Some(next) => position = next,
                        None => return Ok(items),
                    }
                }
                Err(Error::Status(Status::Notsupp)) if plus => plus = false,
                Err(Error::Status(Status::BadCookie)) if restarts < LISTING_RESTARTS_MAX => {
                    restarts += 1;
                    items.clear();
                    position = Position::default();
                }
                Err(error) => return Err(error),
            }
        }
    }
}

/// What a READDIRPLUS brought.
pub(super) fn readdirplus_listing(
    reply: &[u8],
) -> Result<DirectoryListing<'_, EntryPlus<'_>>, Error> {
    good(results::<ReaddirplusResult<'_>>(reply)?)
}

/// What a READDIR brought.
pub(super) fn readdir_listing(reply: &[u8]) -> Result<DirectoryListing<'_, Entry<'_>>, Error> {
    good(results::<ReaddirResult<'_>>(reply)?)
}

/// An entry of READDIR as one of READDIRPLUS whose server keeps the rest to itself.
pub(super) fn without_object(entry: Entry<'_>) -> EntryPlus<'_> {
    EntryPlus {
        fileid: entry.fileid,
        name: entry.name,
        cookie: entry.cookie,
        attributes: None,
        handle: None,
    }
}

/// Refuses a name that would not stay where it is put: what is listed may become a local path.
pub(super) fn check_name(name: &[u8]) -> Result<(), Error> {
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

fn page<'a>(
    entries: impl Iterator<Item = EntryPlus<'a>>,
    verifier: Verifier,
    eof: bool,
) -> Result<Page, Error> {
    let (mut items, mut last) = (Vec::new(), None);
    for entry in entries {
        last = Some(entry.cookie);
        let name = entry.name.0;
        if matches!(name, b"." | b"..") {
            continue;
        }
        check_name(name)?;
        items.push(Item {
            name: name.to_vec(),
            fileid: entry.fileid,
            handle: entry.handle.and_then(|handle| FileHandle::new(handle.0)),
            attributes: entry.attributes.as_ref().map(attributes_from_wire),
        });
    }
    let next = match (eof, last) {
        (true, _) => None,
        (false, Some(cookie)) => Some(Position { cookie, verifier }),
        (false, None) => return Err(Error::Malformed("an empty page that is not the last")),
    };
    Ok(Page { items, next })
}
