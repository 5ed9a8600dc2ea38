//! The sync that makes a change of names or attributes durable (RFC 1813 section 3.3 demands that before the reply).
//!
//! fsync(2) of a regular file writes its data as well, which may be gigabytes that another client sent; syncfs(2)
//! writes all data. A change of names or attributes must wait for neither, so the file system decides:
//!
//! - **One ordered journal** (XFS; ext3 and ext4 with a journal). All changes of names and attributes enter the
//!   journal in their order, and a commit writes no data for them. fsync(2) of an unnamed file whose times were just
//!   set commits everything before it. One such sync covers any number of changes of any objects.
//! - **All others.** The changed directory is synced, or the object whose attributes changed, with its data if it is a
//!   regular file. A name on the disk implies the inode that it leads to, so a new object needs no sync of its own;
//!   except on ext2 and on ext4 without a journal, whose inodes and directories reach the disk independently.
//! - Symbolic links, devices and sockets cannot be opened for a sync. Where there is no ordered journal, a change of
//!   their attributes takes syncfs(2).

use super::object::Object;
use super::sync::{Extent, Subject};
use super::tree::LocalTree;
use gannet_vfs::{FileHandle, FileKind, Stability, Status};
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{Mode, OFlags, Timespec, Timestamps, UTIME_NOW};
use std::path::Path;
use std::sync::Arc;

/// Magic number of ext2, ext3 and ext4.
const EXT: i64 = 0xef53;
/// Magic number of XFS.
const XFS: i64 = 0x5846_5342;

/// The way in which changes of names and attributes become durable.
pub(crate) enum MetadataSync {
    /// The file system's own writeback does it, usually within seconds.
    Later,
    /// The next commit of the file system's one journal does it. The file has no name and no data.
    Journal(OwnedFd),
    /// Object by object; new inodes too where a durable name does not imply a durable inode.
    Objects { new_inodes: bool },
}

/// The target of a sync.
#[derive(Clone)]
pub(crate) enum Target {
    /// The object, or everything if it cannot be opened.
    Object(Arc<Object>),
    /// All changes of names and attributes.
    Journal,
}

/// The identity of a [`Target`], without its object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum TargetKey {
    Object(FileHandle),
    Journal,
}

impl Target {
    pub(crate) fn key(&self) -> TargetKey {
        match self {
            Target::Object(object) => TargetKey::Object(object.handle),
            Target::Journal => TargetKey::Journal,
        }
    }
}

impl MetadataSync {
    /// Later if the owner of the export wants that; otherwise as [`MetadataSync::probe`].
    pub(crate) fn of(root: &OwnedFd, is_async: bool) -> MetadataSync {
        if is_async {
            MetadataSync::Later
        } else {
            MetadataSync::probe(root)
        }
    }

    /// The cheapest way that is right for the file system below `root`.
    fn probe(root: &OwnedFd) -> MetadataSync {
        let kind = rustix::fs::fstatfs(root).map_or(0, |volume| volume.f_type);
        let is_ordered = match kind {
            XFS => true,
            EXT => ext_has_journal(root).unwrap_or(false),
            _ => false,
        };
        let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
        let mode = Mode::RUSR | Mode::WUSR;
        match rustix::fs::openat(root, ".", flags, mode) {
            Ok(unnamed) if is_ordered => MetadataSync::Journal(unnamed),
            _ => MetadataSync::Objects {
                new_inodes: kind == EXT,
            },
        }
    }
}

/// Whether an ext file system has a journal; `None` when sysfs does not say.
fn ext_has_journal(root: &OwnedFd) -> Option<bool> {
    let device = rustix::fs::fstat(root).ok()?.st_dev;
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    let link = std::fs::read_link(format!("/sys/dev/block/{major}:{minor}")).ok()?;
    let name = Path::new(link.file_name()?);
    let task = Path::new("/sys/fs/ext4").join(name).join("journal_task");
    Some(std::fs::read_to_string(task).ok()?.trim() != "<none>")
}

impl LocalTree {
    /// The targets that make changes of the names in `directories` durable.
    pub(crate) fn names_targets(&self, directories: &[&Arc<Object>]) -> Vec<Target> {
        match self.metadata_sync {
            MetadataSync::Later => Vec::new(),
            MetadataSync::Journal(_) => vec![Target::Journal],
            MetadataSync::Objects { .. } => {
                let directories = directories.iter();
                directories
                    .map(|it| Target::Object(Arc::clone(it)))
                    .collect()
            }
        }
    }

    /// The targets that make a new name and its object durable; `is_altered` when the object was changed after the name
    /// was made.
    pub(crate) fn new_targets(
        &self,
        directory: &Arc<Object>,
        new: &Arc<Object>,
        is_altered: bool,
    ) -> Vec<Target> {
        let mut targets = self.names_targets(&[directory]);
        let wants_inode = match self.metadata_sync {
            MetadataSync::Later | MetadataSync::Journal(_) => false,
            // An object that cannot be opened is left to the file system's check rather than to syncfs(2) each time.
            MetadataSync::Objects { new_inodes } => is_altered || new_inodes && new.can_be_synced(),
        };
        if wants_inode {
            targets.push(Target::Object(Arc::clone(new)));
        }
        targets
    }

    /// The targets that make a change of an object's attributes durable.
    pub(crate) fn attributes_targets(&self, object: &Arc<Object>) -> Vec<Target> {
        self.names_targets(&[object])
    }

    /// Makes a target durable. A job that began as the server; it blocks.
    ///
    /// # Errors
    /// As fsync(2).
    pub(crate) fn sync_target(&self, target: &Target, stability: Stability) -> Result<(), Status> {
        debug_assert!(self.identities.is_server());
        match target {
            Target::Object(object) => match object.kind {
                FileKind::Regular => self.sync(object, stability),
                FileKind::Directory => self.sync_directory(object),
                _ => self.sync_everything(),
            },
            Target::Journal => self.sync_journal(),
        }
    }

    fn sync_directory(&self, directory: &Object) -> Result<(), Status> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let opened = rustix::fs::openat(directory.descriptor(), ".", flags, Mode::empty());
        let Ok(opened) = opened else {
            // For lack of descriptors, for instance. The change was made, and must not be reported as failed.
            return self.sync_everything();
        };
        let subject = Subject::Directory(directory.fileid, directory.handle);
        (self.durability).sync(subject, opened.as_fd(), Extent::File, || Ok(()))
    }

    fn sync_journal(&self) -> Result<(), Status> {
        let MetadataSync::Journal(unnamed) = &self.metadata_sync else {
            return self.sync_everything();
        };
        let now = Timespec {
            tv_sec: 0,
            tv_nsec: UTIME_NOW,
        };
        let times = Timestamps {
            last_access: now,
            last_modification: now,
        };
        // This sync waits for the commit with the change of these times, or a later one. The times must be set after
        // all changes that the sync covers, so within the turn.
        let touch = || rustix::fs::futimens(unnamed, &times);
        (self.durability).sync(Subject::Journal, unnamed.as_fd(), Extent::File, touch)
    }

    fn sync_everything(&self) -> Result<(), Status> {
        let (subject, extent) = (Subject::FileSystem, Extent::FileSystem);
        (self.durability).sync(subject, self.root.as_fd(), extent, || Ok(()))
    }
}

impl Object {
    fn can_be_synced(&self) -> bool {
        matches!(self.kind, FileKind::Regular | FileKind::Directory)
    }
}
