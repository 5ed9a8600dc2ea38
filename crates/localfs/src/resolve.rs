//! From a handle to the object, when it is not open: on the blocking pool.

use super::attributes::status;
use super::handle::Name;
use super::object::{Base, Object};
use super::tree::LocalTree;
use crate::limits::{DEPTH_MAX, REOPENING_PAUSE, REOPENINGS_MAX};
use crate::sys::{self, KernelHandle};
use gannet_vfs::{FileHandle, FileKind, Status};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use std::sync::Arc;

impl LocalTree {
    /// Opens the object with this handle; `None` when the tree must be searched for it. A job that
    /// began as the server; it blocks.
    ///
    /// # Errors
    /// `Badhandle` for bytes that are no handle, `Stale` for an object that was removed or is not below the root, and
    /// for a forged handle.
    pub(crate) fn resolve(&self, handle: &FileHandle) -> Result<Option<Arc<Object>>, Status> {
        let name = self.minter.open(handle)?;
        if let Some(object) = self.known(handle) {
            return Ok(Some(object));
        }
        debug_assert!(self.identities.is_server());
        match (name, &self.places) {
            (Name::Kernel(kernel), None) => {
                let descriptor = self.reopen(&kernel).map_err(status)?;
                self.require_below(descriptor.as_fd())?;
                let (object, _) = self.adopt(descriptor, Base::Path)?;
                if object.handle != *handle {
                    return Err(Status::Stale);
                }
                Ok(Some(object))
            }
            (Name::Inode { fileid, .. }, Some(places)) => places.open(self, handle, fileid),
            // The server runs with other rights than the one that gave the handle out.
            _ => Err(Status::Stale),
        }
    }

    /// Opens a kernel's handle, whose object may have been removed.
    ///
    /// While another object is made with the number that this one had, the kernel returns `NOMEM`. Once that is made,
    /// mostly at once and never later than its journal's next write, it returns `STALE`. Blocks meanwhile.
    fn reopen(&self, kernel: &KernelHandle) -> rustix::io::Result<OwnedFd> {
        let mut tries = 1;
        loop {
            let opened = sys::open_by_handle(self.root.as_fd(), kernel, OFlags::PATH);
            if !matches!(opened, Err(Errno::NOMEM)) || tries == REOPENINGS_MAX {
                return opened;
            }
            tries += 1;
            std::thread::sleep(REOPENING_PAUSE);
        }
    }

    /// Searches the tree for the object with this handle. A job that began as the server; it blocks for long.
    ///
    /// # Errors
    /// As [`LocalTree::resolve`]; `Serverfault` when it may be where the search did not get to.
    pub(crate) fn search(&self, handle: &FileHandle) -> Result<Arc<Object>, Status> {
        let (Name::Inode { fileid, .. }, Some(places)) = (self.minter.open(handle)?, &self.places)
        else {
            return Err(Status::Stale);
        };
        places.search(self, handle, fileid)
    }

    /// Checks that a directory is in the tree: walks up from it. Other objects pass; they may have several parents,
    /// and a handle to one exists only because it was seen in the tree.
    ///
    /// # Errors
    /// `Stale` when the way up does not meet the root.
    pub(crate) fn require_below(&self, descriptor: BorrowedFd<'_>) -> Result<(), Status> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let mut parent: Option<OwnedFd> = None;
        let mut below = None;
        for _ in 0..DEPTH_MAX {
            let at = parent.as_ref().map_or(descriptor, AsFd::as_fd);
            let attributes = self.facts(at)?.attributes;
            if attributes.kind != FileKind::Directory
                || attributes.fileid == self.root_object.fileid
            {
                return Ok(());
            }
            if below == Some(attributes.fileid) {
                break;
            }
            below = Some(attributes.fileid);
            parent = Some(rustix::fs::openat(at, "..", flags, Mode::empty()).map_err(status)?);
        }
        Err(Status::Stale)
    }
}
