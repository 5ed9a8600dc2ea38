//! The move of a name.

use super::change::{check_empty, delete_inode, drop_link};
use super::{
    Outcome, Request, add_entry, check_sticky, directory_to_change, enter, find_entry, inode,
    is_directory, name_key, parent_of, remove_entry, require, touch, write_inode,
};
use crate::limits::{DEPTH_MAX, LINKS_MAX};
use crate::permissions::Rights;
use crate::{Table, Transaction, View};
use gannet_wire::volume::{Body, FileId, Inode, ROOT, Status};

/// Moves a name, and atomically replaces the file that the new name stood for (RFC 1813 section 3.3.14). Nothing
/// changes if both names are of one file.
///
/// # Errors
/// - `Noent`: there is no name `old`.
/// - `Notdir`, `Isdir`: only one of the two files is a directory.
/// - `Notempty`: the target is a directory with names in it.
/// - `Inval`: a name is not valid, or a directory would come to lie in itself.
/// - `Nametoolong`: a name is too long, or the target lies too deep to rule that out.
/// - `Mlink`: the target directory has too many links.
/// - `Perm` and those of [`super::lookup`].
pub fn rename(
    transaction: &mut dyn Transaction,
    request: Request<'_>,
    from: FileId,
    old: &[u8],
    to: FileId,
    new: &[u8],
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
        // The directory's `..` changes, which takes the right to write to it.
        require(&moved, caller, Rights::WRITE)?;
        let stays = replaced.is_some();
        if !stays && target.links >= LINKS_MAX {
            return Err(Status::Mlink.into());
        }
    }

    // All checks are done: from here on only the store can fail.
    touch(&mut source, now);
    touch(&mut target, now);
    moved.change_time = now;
    if from == to {
        let mut both = source;
        transaction.delete(Table::Names, &name_key(from, old))?;
        replace(transaction, request, to, &mut both, new, replaced)?;
        // At its former place of the listing. Behind all others, a program that renames what it lists would meet the
        // file again, without end.
        enter(transaction, to, new, file, cookie)?;
        write_inode(transaction, to, &both)?;
    } else {
        remove_entry(transaction, from, &mut source, old, cookie)?;
        replace(transaction, request, to, &mut target, new, replaced)?;
        add_entry(transaction, to, &mut target, new, file)?;
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

/// Checks that a file, or a directory, may replace `other`.
fn check_replaceable(directory: bool, other: &Inode) -> Result<(), Status> {
    if directory {
        // `Notdir` for another kind of file.
        check_empty(other)
    } else if is_directory(other) {
        Err(Status::Isdir)
    } else {
        Ok(())
    }
}

/// Removes the name's old file, if it had one.
fn replace(
    transaction: &mut dyn Transaction,
    request: Request<'_>,
    at: FileId,
    inside: &mut Inode,
    name: &[u8],
    replaced: Option<(FileId, u64, Inode)>,
) -> Outcome<()> {
    let Some((id, cookie, other)) = replaced else {
        return Ok(());
    };
    remove_entry(transaction, at, inside, name, cookie)?;
    if is_directory(&other) {
        inside.links = inside.links.saturating_sub(1);
        return delete_inode(transaction, id);
    }
    drop_link(transaction, request, id, other)
}

/// Checks that directory `at` is neither `moved` nor below it: the move would cut both off from the root.
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
