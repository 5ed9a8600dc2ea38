//! From a handle to the object, when it is not open: on the blocking pool.

use super::attributes::status;
use super::handle::Name;
use super::object::{Base, Object};
use super::places::Wanted;
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
            return self.recheck(object).map(Some);
        }
        debug_assert!(self.identities.is_server());
        match (name, &self.places) {
            (Name::Kernel(kernel), None) => {
                let descriptor = self.reopen(&kernel).map_err(status)?;
                let now = self.clock();
                self.require_below(descriptor.as_fd())?;
                let (object, _) = self.adopt(descriptor, Base::Path)?;
                if object.handle != *handle {
                    return Err(Status::Stale);
                }
                object.was_below(now);
                Ok(Some(object))
            }
            (name @ Name::Inode { .. }, Some(places)) => {
                places.open(self, handle, Wanted::of(self, name)?.number)
            }
            // The server runs with other rights than the one that gave the handle out.
            _ => Err(Status::Stale),
        }
    }

    /// Checks again that an open directory lies below the root, if that is due, and closes it if it does not. A job
    /// that began as the server; it blocks.
    ///
    /// # Errors
    /// `Stale`: the directory was moved out of the tree. Otherwise as openat(2).
    fn recheck(&self, object: Arc<Object>) -> Result<Arc<Object>, Status> {
        if !self.must_be_checked(&object) {
            return Ok(object);
        }
        let now = self.clock();
        let below = match (self.require_below(object.descriptor()), &self.places) {
            // The server's user may not search it, and so not go up from it. The way down decides.
            (Err(Status::Acces), Some(places)) => {
                let found = places.open(self, &object.handle, object.number)?;
                found.map(|_| ()).ok_or(Status::Stale)
            }
            (below, _) => below,
        };
        match below {
            Ok(()) => object.was_below(now),
            Err(Status::Stale) => {
                self.close(&object.handle);
                return Err(Status::Stale);
            }
            Err(reason) => return Err(reason),
        }
        Ok(object)
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
        let name = self.minter.open(handle)?;
        let places = self.places.as_ref().ok_or(Status::Stale)?;
        places.search(self, handle, Wanted::of(self, name)?)
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
            let facts = self.facts(at)?;
            if facts.attributes.kind != FileKind::Directory || self.is_root(&facts) {
                return Ok(());
            }
            // The roots of all subvolumes have one number.
            let number = self.number_of(&facts.attributes);
            if below == Some(number) {
                break;
            }
            below = Some(number);
            parent = Some(rustix::fs::openat(at, "..", flags, Mode::empty()).map_err(status)?);
        }
        Err(Status::Stale)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::DIRECTORY_CHECKED_AGE;
    use crate::lookup::Wait;
    use crate::{HandleScheme, LocalOptions};
    use gannet_vfs::Credentials;

    fn look_up(tree: &LocalTree, directory: &Object, name: &[u8]) -> Arc<Object> {
        let me = Credentials::new(0, 0, &[]);
        let found = tree.lookup(directory, &me, name, None, Wait::Yes);
        found.unwrap().unwrap().0
    }

    /// A client that steps down from one directory to the next gains no time either.
    #[test]
    fn a_directory_that_left_the_tree_is_closed_when_its_time_is_over() {
        for handles in [HandleScheme::Automatic, HandleScheme::Inode] {
            let scratch = tempfile::tempdir().unwrap();
            let (export, outside) = (scratch.path().join("export"), scratch.path().join("moved"));
            std::fs::create_dir_all(export.join("a/b/c")).unwrap();
            std::fs::create_dir_all(export.join("stays/d")).unwrap();
            let options = LocalOptions {
                state_dir: Some(scratch.path().join("state")),
                handles,
                ..LocalOptions::default()
            };
            let mut tree = LocalTree::open(&export, &options).unwrap();
            let a = look_up(&tree, &tree.root_object, b"a");
            let b = look_up(&tree, &a, b"b");
            let stays = look_up(&tree, &look_up(&tree, &tree.root_object, b"stays"), b"d");
            std::fs::rename(export.join("a"), &outside).unwrap();
            let c = look_up(&tree, &b, b"c");
            let resolve = |tree: &LocalTree, object: &Object| {
                tree.identities.as_server(|| tree.resolve(&object.handle))
            };
            resolve(&tree, &c).unwrap();
            Arc::get_mut(&mut tree).unwrap().opened -= 2 * DIRECTORY_CHECKED_AGE;
            for left in [c, a, b] {
                assert!(tree.must_be_checked(&left));
                assert!(
                    resolve(&tree, &left).is_err_and(|it| it == Status::Stale),
                    "{handles:?}"
                );
                assert!(tree.known(&left.handle).is_none());
            }
            let found = resolve(&tree, &stays).unwrap().unwrap();
            assert!(found.handle == stays.handle && !tree.must_be_checked(&stays));
        }
    }
}
