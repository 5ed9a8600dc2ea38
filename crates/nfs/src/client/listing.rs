//! READDIR and READDIRPLUS.

use super::procedures::wire;
use super::{Client, Error, good, results};
use crate::convert::attributes_from_wire;
use gannet_vfs::{Attributes, FileHandle, Verifier};
use gannet_wire::nfs3::{
    DirectoryListing, Entry, EntryPlus, NfsProcedure, ReaddirArgs, ReaddirResult, ReaddirplusArgs,
    ReaddirplusResult,
};

/// One name in a directory; never `.` or `..`, never with a slash or a NUL in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Item {
    /// The name: bytes, in no particular encoding.
    pub name: Vec<u8>,
    /// The object's number within its file system.
    pub fileid: u64,
    /// Its handle, if the server sent it along.
    pub handle: Option<FileHandle>,
    /// Its attributes, if the server sent them along.
    pub attributes: Option<Attributes>,
}

/// The start of a page: an opaque cookie of the server, with the verifier that it belongs to.
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
    /// The start of the next page; `None` at the end.
    pub next: Option<Position>,
}

impl Client {
    /// READDIRPLUS from `position` on (the default is the start), about `bytes` of it.
    ///
    /// # Errors
    /// Any [`Error`]. Status `BadCookie`: the directory changed, and the position is no longer valid; start over.
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
            directory: wire(directory)?,
            cookie: position.cookie,
            verifier: position.verifier,
            directory_count: bytes,
            max_count: bytes,
        };
        self.exchange(NfsProcedure::Readdirplus, &arguments, bytes)
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
            directory: wire(directory)?,
            cookie: position.cookie,
            verifier: position.verifier,
            count: bytes,
        };
        self.exchange(NfsProcedure::Readdir, &arguments, bytes)
            .await
    }
}

/// Decodes the reply to a READDIRPLUS.
pub(super) fn readdirplus_listing(
    reply: &[u8],
) -> Result<DirectoryListing<'_, EntryPlus<'_>>, Error> {
    good(results::<ReaddirplusResult<'_>>(reply)?)
}

/// Decodes the reply to a READDIR.
pub(super) fn readdir_listing(reply: &[u8]) -> Result<DirectoryListing<'_, Entry<'_>>, Error> {
    good(results::<ReaddirResult<'_>>(reply)?)
}

/// An entry of READDIR as one of READDIRPLUS without handle and attributes.
pub(super) fn without_object(entry: Entry<'_>) -> EntryPlus<'_> {
    EntryPlus {
        fileid: entry.fileid,
        name: entry.name,
        cookie: entry.cookie,
        attributes: None,
        handle: None,
    }
}

/// Refuses a name with a slash or a NUL: it may become a local path, and would name a file elsewhere.
pub(super) fn check_name(name: &[u8]) -> Result<(), Error> {
    if name.is_empty() || name.contains(&b'/') || name.contains(&0) {
        return Err(Error::Malformed(
            "a name with a slash or a NUL in a directory",
        ));
    }
    Ok(())
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
    let next = if eof {
        None
    } else if let Some(cookie) = last {
        Some(Position { cookie, verifier })
    } else {
        return Err(Error::Malformed("an empty page that is not the last"));
    };
    Ok(Page { items, next })
}
