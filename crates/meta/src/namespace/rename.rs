//! Moving a name.

use super::change::{check_empty, delete_inode, drop_link};
use super::{
    Outcome, Request, add_entry, check_sticky, directory_to_change, find_entry, inode,
    is_directory, parent_of, remove_entry, require, touch, write_inode,
};
use crate::limits::{DEPTH_MAX, LINKS_MAX};
use crate::permissions::Rights;
use crate::{Transaction, View};
use gannet_wire::volume::{Body, FileId, Inode, ROOT, Status};

/// Moves a name, atomically replacing what the other name stands for (RFC 1813 section 3.3.14).
///
/// # Errors
/// `Noent`, `Exist`, `Notdir`, `Notempty` for a target of another kind or with names in it, `Inval` for a directory
/// that would come to lie in itself, `Mlink`, `Perm` and those of [`super::lookup`].
pub fn rename(
    transaction: &mut dyn Transaction,
    request: Request<'_>,
    (from, old): (FileId, &[u8]),
    (to, new): (FileId, &[u8]),
) -> Outcome<()> {
    let Request { caller, now, .. } = request;
    let mut source = directory_to_change(transaction, caller, from, old)?;
    let mut target = directory_to_change(transaction, caller, to, new)?;
    let (file, cookie) = find_entry(transaction, from, old)?.ok_or(Status::Noent)?;
    let mut moved = inode(transaction, file)?;
    check_sticky(caller, &source, &moved)?;
    let replaced = match find_entry(transaction, to, new)? {
        Some((id, cookie)) => Some((id, cookie, inode(transaction, id)?)),
        None => None,
    };
    if replaced.as_ref().is_some_and(|(id, ..)| *id == file) {
        return Ok(());
    }
    let directory = is_directory(&moved);
    if let Some((_, _, other)) = &replaced {
        check_sticky(caller, &target, other)?;
        check_replaceable(directory, other)?;
    }
    if directory && from != to {
        check_not_inside(transaction, file, to)?;
        // Its `..` changes: that takes the right to write to it.
        require(&moved, caller, Rights::WRITE)?;
        let stays = replaced.is_some();
        if !stays && target.links >= LINKS_MAX {
            return Err(Status::Mlink.into());
        }
    }

    // All is checked: from here on nothing but the store can fail.
    touch(&mut source, now);
    touch(&mut target, now);
    moved.change_time = now;
    if from == to {
        let mut both = source;
        remove_entry(transaction, (from, &mut both), old, cookie)?;
        replace(transaction, request, (to, &mut both), new, replaced)?;
        add_entry(transaction, (to, &mut both), new, file)?;
        write_inode(transaction, to, &both)?;
    } else {
        remove_entry(transaction, (from, &mut source), old, cookie)?;
        replace(transaction, request, (to, &mut target), new, replaced)?;
        add_entry(transaction, (to, &mut target), new, file)?;
        if let Body::Directory { parent, .. } = &mut moved.body {
            *parent = to;
            source.links = source.links.saturating_sub(1);
            target.links += 1;
        }
        write_inode(transaction, from, &source)?;
        write_inode(transaction, to, &target)?;
    }
    write_inode(transaction, file, &moved)
}

/// That something of the kind may take the place of `other`.
fn check_replaceable(directory: bool, other: &Inode) -> Result<(), Status> {
    match (directory, is_directory(other)) {
        (true, true) => check_empty(other),
        (true, false) => Err(Status::Notdir),
        (false, true) => Err(Status::Isdir),
        (false, false) => Ok(()),
    }
}

/// Takes away what `name` stood for.
fn replace(
    transaction: &mut dyn Transaction,
    request: Request<'_>,
    (at, inside): (FileId, &mut Inode),
    name: &[u8],
    replaced: Option<(FileId, u64, Inode)>,
) -> Outcome<()> {
    let Some((id, cookie, other)) = replaced else {
        return Ok(());
    };
    remove_entry(transaction, (at, inside), name, cookie)?;
    if is_directory(&other) {
        inside.links = inside.links.saturating_sub(1);
        return delete_inode(transaction, id);
    }
    drop_link(transaction, request, (id, other))
}

/// That directory `at` is not `moved`, nor anywhere below it.
fn check_not_inside(view: &dyn View, moved: FileId, at: FileId) -> Outcome<()> {
    let mut at = at;
    for _ in 0..DEPTH_MAX {
        if at == moved {
            return Err(Status::Inval.into());
        }
        if at == ROOT {
            return Ok(());
        }
        at = parent_of(&inode(view, at)?)?;
    }
    Err(Status::Nametoolong.into())
}
