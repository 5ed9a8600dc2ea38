//! Rights of callers on files, and the effect of a change of attributes on an inode.

use gannet_wire::volume::{
    AccessMask, AttributeChanges, Body, Caller, FileKind, Inode, SetTimestamp, Timestamp,
};

/// A program with this bit runs as its owner.
const SET_USER_ID: u32 = 0o4000;
/// A program with this bit runs as its group; new files of a directory with it belong to the directory's.
pub(super) const SET_GROUP_ID: u32 = 0o2000;
/// The members of its group may execute it.
const GROUP_EXECUTES: u32 = 0o010;

/// Rights as permission bits: 4 read, 2 write, 1 execute or search.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Rights(pub(super) u32);

impl Rights {
    pub(super) const READ: u32 = 4;
    pub(super) const WRITE: u32 = 2;
    pub(super) const EXECUTE: u32 = 1;
}

/// The rights of `caller` to a file (POSIX.1-2017 section 4.5).
pub(super) fn rights(inode: &Inode, caller: &Caller) -> Rights {
    if caller.uid == 0 {
        let runs = inode.kind() == FileKind::Directory || inode.mode & 0o111 != 0;
        return Rights(Rights::READ | Rights::WRITE | u32::from(runs));
    }
    let shift = if caller.uid == inode.uid {
        6
    } else if is_member(caller, inode.gid) {
        3
    } else {
        0
    };
    Rights(inode.mode >> shift & 7)
}

/// Whether `caller` may give a file another name, by the rule of Linux's fs.protected_hardlinks. Others than the owner
/// and root need a regular file that they may read and write and that gives no rights when it runs. Without the rule,
/// a name that a user made would keep another's file from being removed, or wait for a program to write to it.
pub(super) fn may_link(inode: &Inode, caller: &Caller) -> bool {
    if caller.uid == 0 || caller.uid == inode.uid {
        return true;
    }
    let group_program = SET_GROUP_ID | GROUP_EXECUTES;
    let gives_rights = inode.mode & SET_USER_ID != 0 || inode.mode & group_program == group_program;
    let both = Rights::READ | Rights::WRITE;
    inode.kind() == FileKind::Regular && !gives_rights && rights(inode, caller).0 & both == both
}

/// The mode of a file without what a write, a truncation or a change of owner by `caller` takes away, as Linux does:
/// the set-user-ID bit; and the set-group-ID bit where the group may execute, or is none of the caller's. A directory
/// keeps both.
pub(super) fn unprivileged_mode(inode: &Inode, caller: &Caller) -> u32 {
    if inode.kind() == FileKind::Directory {
        return inode.mode;
    }
    let mode = inode.mode & !SET_USER_ID;
    let in_group = caller.uid == 0 || is_member(caller, inode.gid);
    if inode.mode & GROUP_EXECUTES != 0 || !in_group {
        return mode & !SET_GROUP_ID;
    }
    mode
}

/// The subset of `wanted` that `caller` has (RFC 1813 section 3.3.4).
pub(super) fn access(inode: &Inode, caller: &Caller, wanted: AccessMask) -> AccessMask {
    let Rights(rights) = rights(inode, caller);
    let directory = inode.kind() == FileKind::Directory;
    let mut granted = 0;
    if rights & Rights::READ != 0 {
        granted |= AccessMask::READ;
    }
    if rights & Rights::WRITE != 0 {
        granted |= AccessMask::MODIFY | AccessMask::EXTEND;
    }
    if rights & Rights::EXECUTE != 0 {
        granted |= if directory {
            AccessMask::LOOKUP
        } else {
            AccessMask::EXECUTE
        };
        if directory && rights & Rights::WRITE != 0 {
            granted |= AccessMask::DELETE;
        }
    }
    AccessMask(granted & wanted.0)
}

/// Gives a file the attributes that `change` names, rights being checked. `last_write` is what its objects tell of.
pub(super) fn set(
    inode: &mut Inode,
    change: &AttributeChanges,
    now: Timestamp,
    last_write: Timestamp,
) {
    let AttributeChanges {
        mode,
        uid,
        gid,
        size,
        access_time,
        modify_time,
    } = change;
    if let Some(mode) = mode {
        inode.mode = mode & 0o7777;
    }
    inode.uid = uid.unwrap_or(inode.uid);
    inode.gid = gid.unwrap_or(inode.gid);
    if size.is_some() {
        inode.modify_time = now;
    }
    for (time, change) in [
        (&mut inode.access_time, access_time),
        (&mut inode.modify_time, modify_time),
    ] {
        match change {
            SetTimestamp::Keep => {}
            SetTimestamp::Now => *time = now,
            SetTimestamp::To(other) => *time = *other,
        }
    }
    if let Body::Regular { written, .. } = &mut inode.body {
        *written = match modify_time {
            SetTimestamp::To(_) => Some(last_write),
            SetTimestamp::Keep if size.is_none() => *written,
            SetTimestamp::Keep | SetTimestamp::Now => None,
        };
    }
    inode.change_time = now;
}
/// Whether a change may give a file set-user-ID or set-group-ID bits.
pub fn gives_privileges(change: &AttributeChanges) -> bool {
    let bits = SET_USER_ID | SET_GROUP_ID;
    change.mode.is_some_and(|mode| mode & bits != 0)
}

/// Whether `gid` is one of the caller's groups.
pub(super) fn is_member(caller: &Caller, gid: u32) -> bool {
    caller.gid == gid || caller.groups().contains(&gid)
}

#[cfg(test)]
mod tests {
    use super::*;
    use gannet_wire::volume::NodeKind;

    #[test]
    fn rights_are_those_of_the_first_class_that_fits() {
        let file = Inode {
            mode: 0o604,
            uid: 10,
            gid: 20,
            links: 1,
            access_time: Timestamp::default(),
            modify_time: Timestamp::default(),
            change_time: Timestamp::default(),
            body: Body::Node(NodeKind::Fifo),
        };
        let rights = |uid, gid, groups: &[u32]| rights(&file, &Caller::new(uid, gid, groups)).0;
        assert_eq!(rights(10, 99, &[]), 6, "the owner");
        assert_eq!(rights(11, 20, &[]), 0, "the group has less than others");
        assert_eq!(rights(11, 99, &[5, 20]), 0, "also as a supplementary group");
        assert_eq!(rights(11, 99, &[]), 4, "others");
        assert_eq!(
            rights(0, 0, &[]),
            6,
            "root may do all but execute what nobody may"
        );
    }
}
