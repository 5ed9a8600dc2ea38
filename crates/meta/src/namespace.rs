//! A file system's names and attributes, as POSIX has them, over a [`MetaStore`](super::MetaStore).
//!
//! Functions that change something check everything first: many of them share a transaction.

mod change;
mod rename;

pub use change::{
    Make, Opened, check_stripes, create, forget_unnamed, link, make, may_set, must_prepare_write,
    prepare_write, remove, remove_directory, set_attributes, set_stripes, settle,
};
pub use rename::rename;

use super::permissions::{self, Rights, rights};
use super::{StoreError, Table, Transaction, View, inode_allocator};
use gannet_wire::volume::{
    AccessMask, Body, Caller, FILE_NAME_MAX, FileId, FileKind, Inode, LayoutRecord, ROOT, Status,
    Timestamp,
};
use gannet_wire::xdr::{Decode, Decoder, Encode, Encoder, XdrError, from_bytes};
use std::cell::RefCell;
use std::collections::BTreeSet;
use thiserror::Error;

/// Why an operation did nothing.
#[derive(Debug, Error)]
pub enum Failure {
    /// It is not possible, or not allowed.
    #[error("{0}")]
    Status(Status),
    /// The store failed; so has the whole transaction.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A value of the store is not valid.
    #[error("metadata of file {0:?} is damaged")]
    Damaged(FileId),
    /// A file is of a kind that only a later version of this program knows.
    #[error("file {file:?} has {error}")]
    Unknown {
        /// The file.
        file: FileId,
        /// The value that is not known.
        error: XdrError,
    },
}

impl From<Status> for Failure {
    fn from(status: Status) -> Failure {
        Failure::Status(status)
    }
}

/// The result of an operation.
pub type Outcome<T> = Result<T, Failure>;

/// The context of a change.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    /// The caller, whose rights are checked.
    pub caller: &'a Caller,
    /// The time that goes into what is changed.
    pub now: Timestamp,
    /// Takes the intents of the changes, with their numbers.
    pub intents: &'a RefCell<Vec<(u64, Intent)>>,
    /// Whether the store may grow: if not, whatever makes a file or gives one another name is `Nospc`.
    pub has_room: bool,
    /// Files that clients keep open: with their last name they do not go.
    pub kept: &'a KeptFiles,
}

/// The files that clients keep open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeptFiles {
    /// These.
    These(BTreeSet<FileId>),
    /// Any file, perhaps: the manager has restarted, and not all clients have come back.
    Any,
}

impl KeptFiles {
    /// Whether a client keeps a file, or may keep it.
    pub fn contains(&self, file: FileId) -> bool {
        match self {
            KeptFiles::These(files) => files.contains(&file),
            KeptFiles::Any => true,
        }
    }
}

impl Default for KeptFiles {
    fn default() -> KeptFiles {
        KeptFiles::These(BTreeSet::new())
    }
}

impl Request<'_> {
    fn must_have_room(&self) -> Result<(), Status> {
        if self.has_room {
            Ok(())
        } else {
            Err(Status::Nospc)
        }
    }
}

/// Makes the root directory, if there is none: owned by root, writable by root alone.
///
/// # Errors
/// The store failed.
pub fn format(transaction: &mut dyn Transaction, now: Timestamp) -> Outcome<()> {
    if read_inode(transaction, ROOT)?.is_some() {
        return Ok(());
    }
    let root = Inode {
        mode: 0o755,
        uid: 0,
        gid: 0,
        links: 2,
        access_time: now,
        modify_time: now,
        change_time: now,
        body: Body::Directory {
            parent: ROOT,
            entries: 0,
            next_cookie: FIRST_COOKIE,
            stripes: None,
        },
    };
    write_inode(transaction, ROOT, &root)?;
    inode_allocator::format(transaction)
}

/// The inode of a file.
///
/// # Errors
/// `Stale` when there is no such file any more.
pub fn inode(view: &dyn View, id: FileId) -> Outcome<Inode> {
    Ok(read_inode(view, id)?.ok_or(Status::Stale)?)
}

/// Finds `name` in a directory; `.` and `..` work, and `..` of the root is the root.
///
/// # Errors
/// `Notdir`, `Acces`, `Noent`, `Nametoolong`.
pub fn lookup(
    view: &dyn View,
    caller: &Caller,
    directory: FileId,
    name: &[u8],
) -> Outcome<(FileId, Inode)> {
    let inside = inode(view, directory)?;
    let parent = parent_of(&inside)?;
    require(&inside, caller, Rights::EXECUTE)?;
    let id = match name {
        b"." => directory,
        b".." => parent,
        _ => {
            check_name(name)?;
            find(view, directory, name)?.ok_or(Status::Noent)?
        }
    };
    Ok((id, inode(view, id)?))
}

/// The subset of `wanted` that the caller has, with the inode.
///
/// # Errors
/// `Stale`.
pub fn access(
    view: &dyn View,
    caller: &Caller,
    file: FileId,
    wanted: AccessMask,
) -> Outcome<(AccessMask, Inode)> {
    let inode = inode(view, file)?;
    Ok((permissions::access(&inode, caller, wanted), inode))
}

/// One name of a listing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    /// The name.
    pub name: Vec<u8>,
    /// The position after it.
    pub cookie: u64,
    /// The file.
    pub id: FileId,
}

/// Cookies of `.` and `..`; names come after them.
const SELF_COOKIE: u64 = 1;
const PARENT_COOKIE: u64 = 2;
const FIRST_COOKIE: u64 = 3;

/// The names of a directory after `cookie` (0: from the start), shown to `each` until it wants no more; then false.
///
/// # Errors
/// `Notdir`, `Acces`.
pub fn list(
    view: &dyn View,
    caller: &Caller,
    directory: FileId,
    cookie: u64,
    each: &mut dyn FnMut(Listed) -> bool,
) -> Outcome<bool> {
    let inside = inode(view, directory)?;
    let parent = parent_of(&inside)?;
    require(&inside, caller, Rights::READ)?;
    for (dots, at, id) in [
        (&b"."[..], SELF_COOKIE, directory),
        (b"..", PARENT_COOKIE, parent),
    ] {
        let listed = Listed {
            name: dots.to_vec(),
            cookie: at,
            id,
        };
        if cookie < at && !each(listed) {
            return Ok(false);
        }
    }
    let from = listing_key(directory, cookie.saturating_add(1).max(FIRST_COOKIE));
    let (mut damaged, mut complete) = (false, true);
    view.scan(Table::Listing, &from, &mut |key, value| {
        let Some((at, cookie)) = split_listing_key(key) else {
            damaged = true;
            return false;
        };
        if at != directory {
            return false;
        }
        let Some((id, name)) = value.split_first_chunk() else {
            damaged = true;
            return false;
        };
        complete = each(Listed {
            name: name.to_vec(),
            cookie,
            id: FileId(u64::from_be_bytes(*id)),
        });
        complete
    })?;
    if damaged {
        return Err(Failure::Damaged(directory));
    }
    Ok(complete)
}

/// A pending operation at I/O servers, durable with the change that needs it. It may be done more than once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Intent {
    /// The objects of a removed file are to be removed.
    Unlink {
        /// The removed file.
        file: FileId,
        /// The layout of its objects.
        layout: LayoutRecord,
    },
    /// The objects of a file are to be cut, or extended, to this size of the file.
    Truncate {
        /// The file.
        file: FileId,
        /// The layout of its objects.
        layout: LayoutRecord,
        /// The new size of the file in bytes.
        size: u64,
    },
}

impl Encode for Intent {
    fn encode(&self, encoder: &mut Encoder<'_>) {
        let (file, layout, size) = match self {
            Intent::Unlink { file, layout } => (file, layout, None),
            Intent::Truncate { file, layout, size } => (file, layout, Some(*size)),
        };
        encoder.u64(file.0);
        layout.encode(encoder);
        encoder.bool(size.is_some());
        size.iter().for_each(|size| encoder.u64(*size));
    }
}

impl Decode<'_> for Intent {
    fn decode(decoder: &mut Decoder<'_>) -> Result<Intent, XdrError> {
        let file = FileId(decoder.u64()?);
        let layout = LayoutRecord::decode(decoder)?;
        Ok(if decoder.bool()? {
            let size = decoder.u64()?;
            Intent::Truncate { file, layout, size }
        } else {
            Intent::Unlink { file, layout }
        })
    }
}

impl Intent {
    /// The file it is about.
    pub fn file(&self) -> FileId {
        match self {
            Intent::Unlink { file, .. } | Intent::Truncate { file, .. } => *file,
        }
    }
}

/// The prefix of the key of a regular file without a name.
const UNNAMED: &[u8] = b"unnamed ";

fn unnamed_key(file: FileId) -> Vec<u8> {
    [UNNAMED, &file.0.to_be_bytes()].concat()
}

/// The files that lost their last name while a client kept them.
///
/// # Errors
/// `Failure::Store`: the store failed. `Failure::Damaged`: one of the keys cannot be decoded.
pub fn unnamed(view: &dyn View) -> Outcome<BTreeSet<FileId>> {
    let (mut files, mut damaged) = (BTreeSet::new(), false);
    view.scan(Table::Volume, UNNAMED, &mut |key, _| {
        let Some(number) = key.strip_prefix(UNNAMED) else {
            return false;
        };
        match number.try_into().map(u64::from_be_bytes) {
            Ok(number) => _ = files.insert(FileId(number)),
            Err(_) => damaged = true,
        }
        !damaged
    })?;
    if damaged {
        return Err(Failure::Damaged(ROOT));
    }
    Ok(files)
}

/// All intents that are open, with their numbers, in the order in which they were made.
///
/// # Errors
/// `Failure::Store`: the store failed. `Failure::Damaged`: one of its values cannot be decoded.
pub fn intents(view: &dyn View) -> Outcome<Vec<(u64, Intent)>> {
    let mut found = Vec::new();
    let mut damaged = false;
    view.scan(Table::Pending, &[], &mut |key, value| {
        let number = key.try_into().map(u64::from_be_bytes);
        match (number, from_bytes::<Intent>(value)) {
            (Ok(number), Ok(intent)) => found.push((number, intent)),
            _ => damaged = true,
        }
        !damaged
    })?;
    if damaged {
        return Err(Failure::Damaged(ROOT));
    }
    Ok(found)
}

/// Removes an intent that is done.
///
/// # Errors
/// The store failed.
pub fn complete_intent(transaction: &mut dyn Transaction, number: u64) -> Outcome<()> {
    Ok(transaction.delete(Table::Pending, &number.to_be_bytes())?)
}

fn add_intent(
    transaction: &mut dyn Transaction,
    request: Request<'_>,
    intent: Intent,
) -> Outcome<u64> {
    let number = inode_allocator::next(transaction, NEXT_INTENT)?;
    let mut value = Vec::new();
    intent.encode(&mut Encoder::new(&mut value));
    transaction.put(Table::Pending, &number.to_be_bytes(), &value)?;
    request.intents.borrow_mut().push((number, intent));
    Ok(number)
}

const NEXT_INTENT: &[u8] = b"next promise";

fn read_inode(view: &dyn View, id: FileId) -> Outcome<Option<Inode>> {
    let value = view.get(Table::Inodes, &id.0.to_be_bytes())?;
    let inode = value.map(|value| from_bytes(&value));
    inode.transpose().map_err(|error| match error {
        XdrError::Unknown { .. } => Failure::Unknown { file: id, error },
        _ => Failure::Damaged(id),
    })
}

fn write_inode(transaction: &mut dyn Transaction, id: FileId, inode: &Inode) -> Outcome<()> {
    let mut value = Vec::new();
    inode.encode(&mut Encoder::new(&mut value));
    Ok(transaction.put(Table::Inodes, &id.0.to_be_bytes(), &value)?)
}

pub(super) fn name_key(directory: FileId, name: &[u8]) -> Vec<u8> {
    [&directory.0.to_be_bytes(), name].concat()
}

pub(super) fn listing_key(directory: FileId, cookie: u64) -> [u8; 16] {
    let key = u128::from(directory.0) << 64 | u128::from(cookie);
    key.to_be_bytes()
}

pub(super) fn split_listing_key(key: &[u8]) -> Option<(FileId, u64)> {
    let (directory, cookie) = key.split_first_chunk()?;
    let cookie = cookie.try_into().ok()?;
    Some((
        FileId(u64::from_be_bytes(*directory)),
        u64::from_be_bytes(cookie),
    ))
}

/// The file that a name stands for, without a check of rights; not of `.` and `..`.
///
/// # Errors
/// `Failure::Store`: the store failed. `Failure::Damaged`: one of its values cannot be decoded.
pub fn find(view: &dyn View, directory: FileId, name: &[u8]) -> Outcome<Option<FileId>> {
    let entry = find_entry(view, directory, name)?;
    Ok(entry.map(|(id, _)| id))
}

/// The file and the cookie of a name.
fn find_entry(view: &dyn View, directory: FileId, name: &[u8]) -> Outcome<Option<(FileId, u64)>> {
    let Some(value) = view.get(Table::Names, &name_key(directory, name))? else {
        return Ok(None);
    };
    let entry = split_listing_key(&value).ok_or(Failure::Damaged(directory))?;
    Ok(Some(entry))
}

/// The parent of a directory.
fn parent_of(inode: &Inode) -> Result<FileId, Status> {
    match inode.body {
        Body::Directory { parent, .. } => Ok(parent),
        _ => Err(Status::Notdir),
    }
}

fn require(inode: &Inode, caller: &Caller, wanted: u32) -> Result<(), Status> {
    if rights(inode, caller).0 & wanted == wanted {
        Ok(())
    } else {
        Err(Status::Acces)
    }
}

/// A name for a new or existing entry: not `.`, `..`, not with `/` or NUL, of a bearable length.
fn check_name(name: &[u8]) -> Result<(), Status> {
    if name.len() > FILE_NAME_MAX {
        return Err(Status::Nametoolong);
    }
    let bad = name.is_empty() || matches!(name, b"." | b"..");
    if bad || name.iter().any(|byte| matches!(byte, 0 | b'/')) {
        return Err(Status::Inval);
    }
    Ok(())
}

/// A directory that the caller may change, for an entry called `name`.
fn directory_to_change(
    view: &dyn View,
    caller: &Caller,
    directory: FileId,
    name: &[u8],
) -> Outcome<Inode> {
    let inside = inode(view, directory)?;
    parent_of(&inside)?;
    check_name(name)?;
    require(&inside, caller, Rights::WRITE | Rights::EXECUTE)?;
    Ok(inside)
}

/// In a sticky directory only the owners of it and of the file, and root, may take a name away.
fn check_sticky(caller: &Caller, directory: &Inode, file: &Inode) -> Result<(), Status> {
    let sticky = directory.mode & 0o1000 != 0;
    let owner = [0, directory.uid, file.uid].contains(&caller.uid);
    if sticky && !owner {
        Err(Status::Perm)
    } else {
        Ok(())
    }
}

/// Puts a name into a directory; the caller has checked that it may be there.
fn add_entry(
    transaction: &mut dyn Transaction,
    directory: FileId,
    inode: &mut Inode,
    name: &[u8],
    id: FileId,
) -> Outcome<()> {
    let Body::Directory {
        entries,
        next_cookie,
        ..
    } = &mut inode.body
    else {
        return Err(Status::Notdir.into());
    };
    let cookie = *next_cookie;
    *next_cookie += 1;
    *entries += 1;
    enter(transaction, directory, name, id, cookie)
}

/// Puts a name into a directory, at the place `cookie` of its listing, which no other name has.
fn enter(
    transaction: &mut dyn Transaction,
    directory: FileId,
    name: &[u8],
    id: FileId,
    cookie: u64,
) -> Outcome<()> {
    let value = listing_key(id, cookie);
    transaction.put(Table::Names, &name_key(directory, name), &value)?;
    let value = [&id.0.to_be_bytes(), name].concat();
    transaction.put(Table::Listing, &listing_key(directory, cookie), &value)?;
    Ok(())
}

/// Takes a name out of a directory.
fn remove_entry(
    transaction: &mut dyn Transaction,
    directory: FileId,
    inode: &mut Inode,
    name: &[u8],
    cookie: u64,
) -> Outcome<()> {
    if let Body::Directory { entries, .. } = &mut inode.body {
        *entries = entries.saturating_sub(1);
    }
    transaction.delete(Table::Names, &name_key(directory, name))?;
    transaction.delete(Table::Listing, &listing_key(directory, cookie))?;
    Ok(())
}

/// Sets the times of a directory whose names changed.
fn touch(inode: &mut Inode, now: Timestamp) {
    inode.modify_time = now;
    inode.change_time = now;
}

/// Whether a file is a directory.
fn is_directory(inode: &Inode) -> bool {
    inode.kind() == FileKind::Directory
}
