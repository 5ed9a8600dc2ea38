//! Making, changing and removing files.

use super::{
    Intent, Outcome, Request, add_entry, add_intent, check_sticky, directory_to_change, find,
    find_entry, inode, is_directory, read_inode, remove_entry, require, touch, unnamed_key,
    write_inode,
};
use crate::limits::{FILE_SIZE_MAX, LINKS_MAX};
use crate::permissions::{self, Rights, SET_GROUP_ID, is_member, unprivileged_mode};
use crate::{Table, Transaction, View, inode_allocator};
use gannet_wire::volume::{
    AttributeChanges, Body, Caller, CreateMode, DeviceNumbers, FileId, Inode, LayoutRecord,
    NodeKind, SYMLINK_MAX, SetTimestamp, Settled, Status, Stripes, Timestamp,
};

/// The verifier of a file that no exclusive creation made.
const NO_VERIFIER: [u8; 8] = [0; 8];
/// The largest numbers of a device: Linux keeps 12 and 20 bits.
const DEVICE_MAX: DeviceNumbers = DeviceNumbers {
    major: (1 << 12) - 1,
    minor: (1 << 20) - 1,
};

/// The kind of a new file, other than a regular one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Make<'a> {
    /// A directory.
    Directory,
    /// A symbolic link to this.
    Symlink(&'a [u8]),
    /// A device, socket or FIFO.
    Node(NodeKind),
}

/// The result of a CREATE.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Opened {
    /// The file.
    pub id: FileId,
    /// The inode of the file after the CREATE.
    pub inode: Inode,
    /// Whether the CREATE made the file.
    pub made: bool,
    /// The intent to make a new one as long as was asked for.
    pub intent: Option<u64>,
}

/// Makes a regular file, or takes the one that is there, as `mode` says (RFC 1813 section 3.3.8). `place` chooses the
/// servers.
///
/// # Errors
/// `Inval` for a size that may be of a file that is there: cutting one is asked for by its number. `Exist`, `Isdir`,
/// `Acces`, `Perm`, `Nospc` and those of [`super::lookup`].
pub fn create(
    transaction: &mut dyn Transaction,
    request: Request<'_>,
    directory: FileId,
    name: &[u8],
    mode: &CreateMode,
    place: &mut dyn FnMut(Option<&Stripes>) -> LayoutRecord,
) -> Outcome<Opened> {
    if let CreateMode::Unchecked(AttributeChanges { size: Some(_), .. }) = mode {
        return Err(Status::Inval.into());
    }
    if let Some(found) = existing(transaction, request.caller, directory, name)? {
        let (id, inode) = found;
        return open_existing(id, inode, mode);
    }
    let inside = directory_to_change(transaction, request.caller, directory, name)?;
    let (attributes, verifier) = match mode {
        CreateMode::Unchecked(attributes) | CreateMode::Guarded(attributes) => {
            (*attributes, NO_VERIFIER)
        }
        CreateMode::Exclusive(verifier) => {
            (AttributeChanges::default(), verifier_to_keep(*verifier))
        }
    };
    let size = attributes.size.filter(|size| *size > 0);
    check_size(size)?;
    let Body::Directory { stripes, .. } = &inside.body else {
        return Err(Status::Notdir.into());
    };
    let layout = place(stripes.as_ref());
    let body = Body::Regular {
        layout: layout.clone(),
        verifier,
        written: None,
        settled: None,
    };
    let (id, inode) = add(
        transaction,
        request,
        directory,
        inside,
        name,
        body,
        &attributes,
    )?;
    let intent = match size {
        Some(size) => Some(add_intent(
            transaction,
            request,
            Intent::Truncate {
                file: id,
                layout,
                size,
            },
        )?),
        None => None,
    };
    Ok(Opened {
        id,
        inode,
        made: true,
        intent,
    })
}

/// The file that a name stands for already, if the caller may look.
fn existing(
    view: &dyn View,
    caller: &Caller,
    directory: FileId,
    name: &[u8],
) -> Outcome<Option<(FileId, Inode)>> {
    let inside = inode(view, directory)?;
    super::parent_of(&inside)?;
    super::check_name(name)?;
    require(&inside, caller, Rights::EXECUTE)?;
    match find(view, directory, name)? {
        Some(id) => Ok(Some((id, inode(view, id)?))),
        None => Ok(None),
    }
}

fn open_existing(id: FileId, found: Inode, mode: &CreateMode) -> Outcome<Opened> {
    match (mode, &found.body) {
        (CreateMode::Unchecked(_), Body::Regular { .. }) => {}
        (CreateMode::Unchecked(_), Body::Directory { .. }) => return Err(Status::Isdir.into()),
        (CreateMode::Exclusive(ours), Body::Regular { verifier, .. })
            if verifier_to_keep(*ours) == *verifier => {}
        _ => return Err(Status::Exist.into()),
    }
    Ok(Opened {
        id,
        inode: found,
        made: false,
        intent: None,
    })
}

/// The verifier that a file made by an exclusive creation keeps. It is never zero, which files have that were made in
/// another way: an exclusive creation with a verifier of zeros would take any of them for its own.
fn verifier_to_keep(verifier: [u8; 8]) -> [u8; 8] {
    match verifier {
        NO_VERIFIER => [0xff; 8],
        verifier => verifier,
    }
}

/// Makes something that has no data.
///
/// # Errors
/// `Inval` for a link without text or with a NUL in it, and for device numbers that Linux does not have. `Exist`,
/// `Acces`, `Perm`, `Nametoolong`, `Nospc` and those of [`super::lookup`].
pub fn make(
    transaction: &mut dyn Transaction,
    request: Request<'_>,
    directory: FileId,
    name: &[u8],
    what: Make<'_>,
    attributes: &AttributeChanges,
) -> Outcome<(FileId, Inode)> {
    if existing(transaction, request.caller, directory, name)?.is_some() {
        return Err(Status::Exist.into());
    }
    let inside = directory_to_change(transaction, request.caller, directory, name)?;
    let body = match what {
        Make::Directory if inside.links >= LINKS_MAX => return Err(Status::Mlink.into()),
        Make::Directory => Body::Directory {
            parent: directory,
            entries: 0,
            next_cookie: super::FIRST_COOKIE,
            stripes: match &inside.body {
                Body::Directory { stripes, .. } => stripes.clone(),
                _ => None,
            },
        },
        Make::Symlink(target) if target.len() > SYMLINK_MAX => {
            return Err(Status::Nametoolong.into());
        }
        Make::Symlink(target) if target.is_empty() || target.contains(&0) => {
            return Err(Status::Inval.into());
        }
        Make::Symlink(target) => Body::Symlink(target.to_vec()),
        Make::Node(NodeKind::BlockDevice(..) | NodeKind::CharacterDevice(..))
            if request.caller.uid != 0 =>
        {
            return Err(Status::Perm.into());
        }
        Make::Node(NodeKind::BlockDevice(numbers) | NodeKind::CharacterDevice(numbers))
            if numbers.major > DEVICE_MAX.major || numbers.minor > DEVICE_MAX.minor =>
        {
            return Err(Status::Inval.into());
        }
        Make::Node(kind) => Body::Node(kind),
    };
    add(
        transaction,
        request,
        directory,
        inside,
        name,
        body,
        attributes,
    )
}

/// Puts a new file into a directory that may be changed and does not have the name.
fn add(
    transaction: &mut dyn Transaction,
    request: Request<'_>,
    directory: FileId,
    mut inside: Inode,
    name: &[u8],
    body: Body,
    attributes: &AttributeChanges,
) -> Outcome<(FileId, Inode)> {
    let Request { caller, now, .. } = request;
    check_values(attributes)?;
    request.must_have_room()?;
    let id = inode_allocator::next_file(transaction)?;
    let is_directory = matches!(body, Body::Directory { .. });
    // In a directory with this bit, files belong to its group, and directories pass it on (POSIX leaves it open).
    let inherits = inside.mode & SET_GROUP_ID != 0;
    let default = match body {
        Body::Directory { .. } => 0o755,
        // What Linux shows of every symbolic link; it has no meaning.
        Body::Symlink(_) => 0o777,
        _ => 0o644,
    };
    let mut mode = attributes.mode.unwrap_or(default) & 0o7777;
    if inherits && is_directory {
        mode |= SET_GROUP_ID;
    }
    let given = AttributeChanges {
        mode: Some(mode),
        size: None,
        uid: attributes.uid.filter(|_| caller.uid == 0),
        gid: attributes
            .gid
            .filter(|gid| caller.uid == 0 || is_member(caller, *gid)),
        ..*attributes
    };
    let mut inode = Inode {
        mode,
        uid: caller.uid,
        gid: if inherits { inside.gid } else { caller.gid },
        links: if is_directory { 2 } else { 1 },
        access_time: now,
        modify_time: now,
        change_time: now,
        body,
    };
    permissions::set(&mut inode, &given, now, Timestamp::default());
    // Only a member of a group may make a program that runs with its rights.
    if !is_directory && caller.uid != 0 && !is_member(caller, inode.gid) {
        inode.mode &= !SET_GROUP_ID;
    }
    if is_directory {
        inside.links += 1;
    }
    touch(&mut inside, now);
    add_entry(transaction, directory, &mut inside, name, id)?;
    write_inode(transaction, directory, &inside)?;
    write_inode(transaction, id, &inode)?;
    Ok((id, inode))
}

/// Sets attributes (RFC 1813 section 3.3.2). A size becomes an intent, whose number comes back. A
/// modification time holds until the objects tell of a later write than `last_write`.
///
/// # Errors
/// `Perm`, `Acces`, `NotSync` when `guard` is not the change time, `Isdir`, `Inval`, `Fbig`.
pub fn set_attributes(
    transaction: &mut dyn Transaction,
    request: Request<'_>,
    file: FileId,
    change: &AttributeChanges,
    guard: Option<Timestamp>,
    last_write: Timestamp,
) -> Outcome<(Inode, Option<u64>)> {
    let Request { caller, now, .. } = request;
    let mut found = inode(transaction, file)?;
    if guard.is_some_and(|guard| guard != found.change_time) {
        return Err(Status::NotSync.into());
    }
    check_change(&found, caller, change)?;
    check_size(change.size)?;
    let target = match (&found.body, change.size) {
        (_, None) => None,
        (Body::Regular { layout, .. }, Some(size)) => Some(Intent::Truncate {
            file,
            layout: layout.clone(),
            size,
        }),
        (Body::Directory { .. }, Some(_)) => return Err(Status::Isdir.into()),
        (_, Some(_)) => return Err(Status::Inval.into()),
    };
    let owner_changes = change.uid.is_some() || change.gid.is_some();
    let is_written = change.size.is_some() && caller.uid != 0;
    if owner_changes || is_written {
        // A mode that is given at the same time holds: owner and bytes change first.
        found.mode = unprivileged_mode(&found, caller);
    }
    if let (Body::Regular { settled, .. }, Some(_)) = (&mut found.body, change.size) {
        // The objects change until the truncation is done.
        *settled = None;
    }
    permissions::set(&mut found, change, now, last_write);
    if change.mode.is_some() && caller.uid != 0 && !is_member(caller, found.gid) {
        found.mode &= !SET_GROUP_ID;
    }
    write_inode(transaction, file, &found)?;
    let number = match target {
        Some(target) => Some(add_intent(transaction, request, target)?),
        None => None,
    };
    Ok((found, number))
}

/// Whether a file has set-user-ID or set-group-ID bits that a write by `caller` takes away. Root's takes none.
fn has_privileges(inode: &Inode, caller: &Caller) -> bool {
    caller.uid != 0 && unprivileged_mode(inode, caller) != inode.mode
}

/// Whether [`prepare_write`] must come before a write by `caller`.
///
/// # Errors
/// `Stale`.
pub fn must_prepare_write(view: &dyn View, caller: &Caller, file: FileId) -> Outcome<bool> {
    let found = inode(view, file)?;
    Ok(has_privileges(&found, caller) || is_settled(&found))
}

/// Takes away what must not outlive a write by the caller: the settled state, and set-ID bits unless it is root.
///
/// # Errors
/// `Stale`.
pub fn prepare_write(
    transaction: &mut dyn Transaction,
    request: Request<'_>,
    file: FileId,
) -> Outcome<()> {
    let mut found = inode(transaction, file)?;
    if has_privileges(&found, request.caller) {
        found.mode = unprivileged_mode(&found, request.caller);
        found.change_time = request.now;
    }
    if let Body::Regular { settled, .. } = &mut found.body {
        *settled = None;
    }
    write_inode(transaction, file, &found)
}

/// Notes the state of a file's objects, which nobody may change. A file that is gone is left alone.
///
/// # Errors
/// `Failure::Store`, `Failure::Damaged`.
pub fn settle(transaction: &mut dyn Transaction, file: FileId, state: Settled) -> Outcome<()> {
    let Some(mut found) = read_inode(transaction, file)? else {
        return Ok(());
    };
    if let Body::Regular { settled, .. } = &mut found.body {
        *settled = Some(state);
        write_inode(transaction, file, &found)?;
    }
    Ok(())
}

fn is_settled(inode: &Inode) -> bool {
    matches!(
        inode.body,
        Body::Regular {
            settled: Some(_),
            ..
        }
    )
}

/// Says how new files of a directory, and of directories made in it, are striped; `None`: as those of the volume, which
/// has `servers` I/O servers. Files that are there stay as they are.
///
/// # Errors
/// `Notdir`, `Perm` when the caller does not own it, `Inval` for stripes that cannot be.
pub fn set_stripes(
    transaction: &mut dyn Transaction,
    request: Request<'_>,
    directory: FileId,
    chosen: Option<Stripes>,
    servers: u32,
) -> Outcome<Inode> {
    let mut found = inode(transaction, directory)?;
    if ![0, found.uid].contains(&request.caller.uid) {
        return Err(Status::Perm.into());
    }
    if let Some(chosen) = &chosen {
        check_stripes(chosen, servers)?;
    }
    let Body::Directory { stripes, .. } = &mut found.body else {
        return Err(Status::Notdir.into());
    };
    *stripes = chosen;
    found.change_time = request.now;
    write_inode(transaction, directory, &found)?;
    Ok(found)
}

/// Checks that files of a volume with `servers` I/O servers can have these stripes.
///
/// # Errors
/// `Inval`: the stripes do not pass [`Stripes::check`].
pub fn check_stripes(stripes: &Stripes, servers: u32) -> Result<(), Status> {
    stripes.check(servers).map_err(|_| Status::Inval)
}

/// Checks that `caller` may set these attributes of a file, as far as this is known before the change.
///
/// # Errors
/// The errors are those of [`set_attributes`].
pub fn may_set(
    view: &dyn View,
    caller: &Caller,
    file: FileId,
    change: &AttributeChanges,
) -> Outcome<()> {
    Ok(check_change(&inode(view, file)?, caller, change)?)
}

/// Checks that no file gets the user or group 2^32-1, by which system calls mean "no change", or a time with 10^9
/// nanoseconds or more, which no client could show.
fn check_values(change: &AttributeChanges) -> Result<(), Status> {
    let is_time = |time: SetTimestamp| match time {
        SetTimestamp::To(time) => time.nanoseconds < 1_000_000_000,
        SetTimestamp::Keep | SetTimestamp::Now => true,
    };
    if [change.uid, change.gid].contains(&Some(u32::MAX))
        || !is_time(change.access_time)
        || !is_time(change.modify_time)
    {
        Err(Status::Inval)
    } else {
        Ok(())
    }
}

/// Checks that `caller` may make this change.
fn check_change(file: &Inode, caller: &Caller, change: &AttributeChanges) -> Result<(), Status> {
    check_values(change)?;
    if caller.uid == 0 {
        return Ok(());
    }
    let owner = caller.uid == file.uid;
    let new_owner = change.uid.is_some_and(|uid| uid != file.uid);
    let foreign_group = change
        .gid
        .is_some_and(|gid| gid != file.gid && !is_member(caller, gid));
    let times = [change.access_time, change.modify_time];
    let set_times = times.iter().any(|time| matches!(time, SetTimestamp::To(_)));
    let only_owner =
        change.mode.is_some() || change.uid.is_some() || change.gid.is_some() || set_times;
    if new_owner || foreign_group || (only_owner && !owner) {
        return Err(Status::Perm);
    }
    let touches = times.contains(&SetTimestamp::Now);
    if (touches || change.size.is_some()) && !owner {
        require(file, caller, Rights::WRITE)?;
    }
    Ok(())
}

fn check_size(size: Option<u64>) -> Result<(), Status> {
    if size.is_some_and(|size| size > FILE_SIZE_MAX) {
        Err(Status::Fbig)
    } else {
        Ok(())
    }
}

/// Gives a file another name. The caller owns the file, or may read and write it (`permissions::may_link`).
///
/// # Errors
/// `Isdir`, `Exist`, `Perm`, `Mlink`, `Nospc` and those of [`super::lookup`].
pub fn link(
    transaction: &mut dyn Transaction,
    request: Request<'_>,
    file: FileId,
    directory: FileId,
    name: &[u8],
) -> Outcome<Inode> {
    let Request { caller, now, .. } = request;
    let mut found = inode(transaction, file)?;
    let mut inside = directory_to_change(transaction, caller, directory, name)?;
    if is_directory(&found) {
        return Err(Status::Isdir.into());
    }
    if found.links == 0 {
        return Err(Status::Noent.into());
    }
    if find(transaction, directory, name)?.is_some() {
        return Err(Status::Exist.into());
    }
    if !permissions::may_link(&found, caller) {
        return Err(Status::Perm.into());
    }
    if found.links >= LINKS_MAX {
        return Err(Status::Mlink.into());
    }
    request.must_have_room()?;
    found.links += 1;
    found.change_time = now;
    touch(&mut inside, now);
    add_entry(transaction, directory, &mut inside, name, file)?;
    write_inode(transaction, directory, &inside)?;
    write_inode(transaction, file, &found)?;
    Ok(found)
}

/// Takes a name from something that is not a directory. With its last name a file goes, and so will its objects.
///
/// # Errors
/// `Noent`, `Isdir`, `Perm` and those of [`super::lookup`].
pub fn remove(
    transaction: &mut dyn Transaction,
    request: Request<'_>,
    directory: FileId,
    name: &[u8],
) -> Outcome<()> {
    let no_directory = |found: &Inode| {
        if is_directory(found) {
            Err(Status::Isdir)
        } else {
            Ok(())
        }
    };
    let (file, inode) = take_name(transaction, request, directory, name, no_directory)?;
    drop_link(transaction, request, file, inode)
}

/// Takes a name out of a directory, if `check` has nothing against what it stands for; gives that.
fn take_name(
    transaction: &mut dyn Transaction,
    request: Request<'_>,
    directory: FileId,
    name: &[u8],
    check: impl FnOnce(&Inode) -> Result<(), Status>,
) -> Outcome<(FileId, Inode)> {
    let Request { caller, now, .. } = request;
    let mut inside = directory_to_change(transaction, caller, directory, name)?;
    let (file, cookie) = find_entry(transaction, directory, name)?.ok_or(Status::Noent)?;
    let found = inode(transaction, file)?;
    check(&found)?;
    check_sticky(caller, &inside, &found)?;
    touch(&mut inside, now);
    if is_directory(&found) {
        inside.links = inside.links.saturating_sub(1);
    }
    remove_entry(transaction, directory, &mut inside, name, cookie)?;
    write_inode(transaction, directory, &inside)?;
    Ok((file, found))
}

/// One name less.
pub(super) fn drop_link(
    transaction: &mut dyn Transaction,
    request: Request<'_>,
    file: FileId,
    mut inode: Inode,
) -> Outcome<()> {
    inode.links = inode.links.saturating_sub(1);
    inode.change_time = request.now;
    if inode.links > 0 {
        return write_inode(transaction, file, &inode);
    }
    if request.kept.contains(file) && matches!(inode.body, Body::Regular { .. }) {
        transaction.put(Table::Volume, &unnamed_key(file), &[])?;
        return write_inode(transaction, file, &inode);
    }
    delete_file(transaction, request, file, inode)
}

/// Removes the inode of a file without names, and its objects soon.
fn delete_file(
    transaction: &mut dyn Transaction,
    request: Request<'_>,
    file: FileId,
    inode: Inode,
) -> Outcome<()> {
    delete_inode(transaction, file)?;
    if let Body::Regular { layout, .. } = inode.body {
        add_intent(transaction, request, Intent::Unlink { file, layout })?;
    }
    Ok(())
}

/// Removes a file that lost its last name while a client kept it. Nothing happens if it is gone.
///
/// # Errors
/// `Failure::Store`, `Failure::Damaged`.
pub fn forget_unnamed(
    transaction: &mut dyn Transaction,
    request: Request<'_>,
    file: FileId,
) -> Outcome<()> {
    let key = unnamed_key(file);
    if transaction.get(Table::Volume, &key)?.is_none() {
        return Ok(());
    }
    transaction.delete(Table::Volume, &key)?;
    match read_inode(transaction, file)? {
        Some(inode) => delete_file(transaction, request, file, inode),
        None => Ok(()),
    }
}

pub(super) fn delete_inode(transaction: &mut dyn Transaction, file: FileId) -> Outcome<()> {
    Ok(transaction.delete(Table::Inodes, &file.0.to_be_bytes())?)
}

/// Removes an empty directory.
///
/// # Errors
/// `Noent`, `Notdir`, `Notempty`, `Perm` and those of [`super::lookup`].
pub fn remove_directory(
    transaction: &mut dyn Transaction,
    request: Request<'_>,
    directory: FileId,
    name: &[u8],
) -> Outcome<()> {
    let (file, _) = take_name(transaction, request, directory, name, check_empty)?;
    delete_inode(transaction, file)
}

/// Checks that an inode is a directory without names.
pub(super) fn check_empty(inode: &Inode) -> Result<(), Status> {
    match inode.body {
        Body::Directory { entries: 0, .. } => Ok(()),
        Body::Directory { .. } => Err(Status::Notempty),
        _ => Err(Status::Notdir),
    }
}
