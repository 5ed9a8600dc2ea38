//! From a name to the object.
//!
//! A name found once is remembered with the change time its directory had. While that is the same, and was old enough
//! that no later change could carry it too, the name still means the same object. Then looks at both, by fstat(2) on
//! open descriptors, and the remembered rights of the caller answer a LOOKUP. Otherwise the kernel looks the name up:
//! first in its own cache alone, which never waits, then on the blocking pool.

use super::access::Rights;
use super::attributes::status;
use super::object::{Base, Object};
use super::tree::{BENEATH, LocalTree};
use gannet_vfs::limits::NAME_MAX;
use gannet_vfs::{Attributes, Credentials, Status, Time};
use rustix::fd::AsFd;
use rustix::fs::{Mode, OFlags, ResolveFlags};
use rustix::io::Errno;
use std::sync::{Arc, Weak};

/// A remembered name.
#[derive(Clone)]
pub(crate) struct Known {
    child: Weak<Object>,
    /// The change time of the directory when the name was looked up, if it can validate the name.
    valid_at: Option<Time>,
}

/// Whether the kernel may wait for the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wait {
    No,
    Yes,
}

/// Directory and name in one piece, so that looking it up allocates nothing.
pub(crate) struct NameKey {
    bytes: [u8; 8 + NAME_MAX],
    len: usize,
}

impl NameKey {
    /// `None` when the name is too long.
    pub(crate) fn new(directory: &Object, name: &[u8]) -> Option<NameKey> {
        let mut key = NameKey {
            bytes: [0; 8 + NAME_MAX],
            len: 8 + name.len(),
        };
        key.bytes[..8].copy_from_slice(&directory.number.to_ne_bytes());
        key.bytes.get_mut(8..key.len)?.copy_from_slice(name);
        Some(key)
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

/// Checks that `name` can be an entry's: one component, not `.` or `..`.
///
/// # Errors
/// `Nametoolong`; `Acces` for an empty name, `Inval` for `.` and `..` and for names with `/` or NUL.
pub(crate) fn check_name(name: &[u8]) -> Result<(), Status> {
    match name {
        [] => Err(Status::Acces),
        b"." | b".." => Err(Status::Inval),
        name if name.len() > NAME_MAX => Err(Status::Nametoolong),
        name if name.iter().any(|byte| matches!(byte, b'/' | 0)) => Err(Status::Inval),
        _ => Ok(()),
    }
}

impl LocalTree {
    /// The object from memory, if the name is known and still means the same in a directory whose attributes are `now`.
    ///
    /// # Errors
    /// `Acces` when the caller may not search the directory.
    pub(crate) fn lookup_known(
        &self,
        directory: &Object,
        now: &Attributes,
        caller: &Credentials,
        name: &[u8],
    ) -> Result<Option<Arc<Object>>, Status> {
        let Some(key) = NameKey::new(directory, name) else {
            return Err(Status::Nametoolong);
        };
        let Some(Known {
            child,
            valid_at: Some(valid_at),
        }) = self.names.get(key.as_bytes())
        else {
            return Ok(None);
        };
        if now.change_time != valid_at {
            return Ok(None);
        }
        let Some(child) = child.upgrade() else {
            return Ok(None);
        };
        let rights = directory.rights(self, caller, now, Rights::EXECUTE)?;
        if !rights.has(Rights::EXECUTE) {
            return Err(Status::Acces);
        }
        Ok(Some(child))
    }

    /// Asks the kernel; `None` when it would have to wait and may not. `valid_at` is the change time that the directory
    /// had just before, if the answer may be remembered with it.
    ///
    /// # Errors
    /// As LOOKUP.
    pub(crate) fn lookup(
        &self,
        directory: &Object,
        caller: &Credentials,
        name: &[u8],
        valid_at: Option<Time>,
        wait: Wait,
    ) -> Result<Option<(Arc<Object>, Attributes)>, Status> {
        self.identities.assume(caller)?;
        let resolve = match wait {
            Wait::No => BENEATH | ResolveFlags::CACHED,
            Wait::Yes => BENEATH,
        };
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let opened =
            rustix::fs::openat2(directory.descriptor(), name, flags, Mode::empty(), resolve);
        let descriptor = match opened {
            Ok(descriptor) => descriptor,
            Err(Errno::AGAIN) if wait == Wait::No => return Ok(None),
            // Another file system is mounted there, which is not served.
            Err(Errno::XDEV) => {
                self.note_mount(directory, name);
                return Err(Status::Acces);
            }
            Err(errno) => return Err(status(errno)),
        };
        let (object, attributes) = self.adopt(descriptor, Base::Path)?;
        self.remember(directory, name, &object, valid_at);
        Ok(Some((object, attributes)))
    }

    /// Remembers what a name means.
    pub(crate) fn remember(
        &self,
        directory: &Object,
        name: &[u8],
        child: &Arc<Object>,
        valid_at: Option<Time>,
    ) {
        if let Some(places) = &self.places {
            places.learn(child.number, directory.number, name);
        }
        // Not the present time: the directory may have left the tree since it was checked, and with each step down
        // from there a client would gain as much time again.
        let is_root = directory.handle == self.root_object.handle;
        child.was_below(if is_root {
            self.clock()
        } else {
            directory.below_at()
        });
        if let Some(key) = NameKey::new(directory, name) {
            let known = Known {
                child: Arc::downgrade(child),
                valid_at,
            };
            drop(self.names.insert(key.as_bytes().into(), known));
        }
    }

    /// Forgets a name; gives the object it meant, if that is open.
    pub(crate) fn forget_name(&self, directory: &Object, name: &[u8]) -> Option<Arc<Object>> {
        let key = NameKey::new(directory, name)?;
        let child = self.names.remove(key.as_bytes())?.child.upgrade()?;
        if let Some(places) = &self.places {
            places.unlearn(child.number, directory.number, name);
        }
        Some(child)
    }

    /// The directory above, or the root itself above the root. Blocks.
    ///
    /// # Errors
    /// As LOOKUP; `Stale` when the directory was moved out of the tree.
    pub(crate) fn lookup_parent(
        &self,
        directory: &Arc<Object>,
        caller: &Credentials,
    ) -> Result<(Arc<Object>, Attributes), Status> {
        if directory.handle == self.root_object.handle {
            let attributes = directory.attributes(self)?;
            return Ok((Arc::clone(directory), attributes));
        }
        self.identities.assume(caller)?;
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let parent = rustix::fs::openat(directory.descriptor(), "..", flags, Mode::empty())
            .map_err(status)?;
        let now = self.clock();
        self.identities.as_server(|| {
            self.require_below(parent.as_fd())?;
            let (parent, attributes) = self.adopt(parent, Base::Path)?;
            parent.was_below(now);
            Ok((parent, attributes))
        })
    }
}
