//! Changes of names: all of it blocks and belongs on the pool.

use super::attributes::status;
use super::change::failed;
use super::identity::has_empty_umask;
use super::listing::validity;
use super::lookup::{Wait, check_name};
use super::object::{Base, Object, ProcPath};
use super::places::open_path;
use super::tree::LocalTree;
use gannet_vfs::limits::SYMLINK_MAX;
use gannet_vfs::{
    Attributes, Changed, CreateMode, Created, Credentials, FileKind, NodeKind, SetAttributes,
    SetTime, Status, Time, Verifier, Wcc,
};
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, makedev};
use rustix::io::Errno;
use std::sync::Arc;

/// The mode of a file when the client names none.
const FILE_MODE: u32 = 0o644;
/// The mode of a directory when the client names none.
const DIRECTORY_MODE: u32 = 0o755;

/// An object that a name was made for, or found by CREATE.
pub(crate) struct Made {
    pub(crate) object: Arc<Object>,
    attributes: Attributes,
    /// Whether the object was changed after its name was made.
    pub(crate) is_altered: bool,
}

impl Made {
    /// The object's handle and attributes for the reply.
    pub(crate) fn created(&self) -> Created {
        Created {
            handle: self.object.handle,
            attributes: Some(self.attributes),
        }
    }
}

/// An object that a creating call has just made.
struct Opened {
    descriptor: OwnedFd,
    base: Base,
    /// Whether it has been given a size.
    is_sized: bool,
}

/// A new object other than a regular file.
pub(crate) enum Make {
    Directory,
    Symlink(Vec<u8>),
    Node(NodeKind),
}

impl LocalTree {
    /// A change of one directory's names: checks, weak cache consistency data.
    fn change_names<T>(
        &self,
        directory: &Object,
        caller: &Credentials,
        operation: impl FnOnce() -> Result<T, Status>,
    ) -> Changed<T> {
        if let Err(reason) = directory.require_directory() {
            return failed(reason);
        }
        self.change(directory, caller, |_| operation())
    }

    /// CREATE.
    pub(crate) fn create(
        &self,
        directory: &Object,
        caller: &Credentials,
        name: &[u8],
        mode: &CreateMode,
    ) -> Changed<Made> {
        self.change_names(directory, caller, || {
            check_new_name(name)?;
            match mode {
                CreateMode::Guarded(attributes) => {
                    self.create_new(directory, caller, name, attributes)
                }
                CreateMode::Unchecked(attributes) => {
                    match self.create_new(directory, caller, name, attributes) {
                        Err(Status::Exist) => {
                            self.take_existing(directory, caller, name, attributes)
                        }
                        result => result,
                    }
                }
                CreateMode::Exclusive(verifier) => {
                    let attributes = stamps_of(verifier);
                    match self.create_new(directory, caller, name, &attributes) {
                        Err(Status::Exist) => self.recognise(directory, caller, name, &attributes),
                        result => result,
                    }
                }
            }
        })
    }

    fn create_new(
        &self,
        directory: &Object,
        caller: &Credentials,
        name: &[u8],
        attributes: &SetAttributes,
    ) -> Result<Made, Status> {
        let exact = has_empty_umask();
        let mode = Mode::from_bits_truncate(attributes.mode.unwrap_or(FILE_MODE) & 0o7777);
        let flags = OFlags::CREATE
            | OFlags::EXCL
            | OFlags::RDWR
            | OFlags::NOFOLLOW
            | OFlags::CLOEXEC
            | OFlags::NOCTTY;
        let descriptor =
            rustix::fs::openat(directory.descriptor(), name, flags, mode).map_err(status)?;
        let size = attributes.size.filter(|size| *size > 0);
        if let Some(size) = size {
            rustix::fs::ftruncate(&descriptor, size).map_err(status)?;
        }
        let rest = SetAttributes {
            // Setting the size clears setuid.
            mode: attributes.mode.filter(|_| !exact || size.is_some()),
            size: None,
            ..*attributes
        };
        let opened = Opened {
            descriptor,
            base: Base::Data,
            is_sized: size.is_some(),
        };
        self.finish(directory, caller, name, opened, &rest)
    }

    /// Sets the attributes that the creating call could not, and gives the new object out.
    fn finish(
        &self,
        directory: &Object,
        caller: &Credentials,
        name: &[u8],
        opened: Opened,
        rest: &SetAttributes,
    ) -> Result<Made, Status> {
        let (object, attributes) = self.adopt(opened.descriptor, opened.base)?;
        self.remember(directory, name, &object, None);
        let mut rest = *rest;
        // Like knfsd: only root gives files away, others' wish is ignored rather than refused after the creation.
        if self.identities.deciding(caller).map(|caller| caller.uid) != Some(0) {
            rest.uid = rest.uid.filter(|_| false);
            rest.gid = rest.gid.filter(|gid| caller_has_group(caller, *gid));
        }
        if self.identities.deciding(caller).is_none() {
            rest.gid = None;
        }
        if rest == SetAttributes::default() {
            return Ok(Made {
                object,
                attributes,
                is_altered: opened.is_sized,
            });
        }
        self.apply(&object, caller, &attributes, &rest)?;
        let attributes = object.attributes(self)?;
        Ok(Made {
            object,
            attributes,
            is_altered: true,
        })
    }

    /// CREATE UNCHECKED of a name that exists: of the attributes only a size counts.
    fn take_existing(
        &self,
        directory: &Object,
        caller: &Credentials,
        name: &[u8],
        attributes: &SetAttributes,
    ) -> Result<Made, Status> {
        let (object, found) = self.existing(directory, caller, name)?;
        let only_size = SetAttributes {
            size: attributes.size,
            ..SetAttributes::default()
        };
        if only_size.size.is_none() {
            return Ok(Made {
                object,
                attributes: found,
                is_altered: false,
            });
        }
        self.set_attributes(&object, caller, &only_size, None)
            .result?;
        let attributes = object.attributes(self)?;
        Ok(Made {
            object,
            attributes,
            is_altered: true,
        })
    }

    /// CREATE EXCLUSIVE of a name that exists: ours if it still is what the first call left.
    fn recognise(
        &self,
        directory: &Object,
        caller: &Credentials,
        name: &[u8],
        stamps: &SetAttributes,
    ) -> Result<Made, Status> {
        let (object, found) = self.existing(directory, caller, name)?;
        let same = found.size == 0
            && stamps.access_time == SetTime::To(found.access_time)
            && stamps.modify_time == SetTime::To(found.modify_time);
        // The call that made it may have failed at its sync.
        same.then_some(Made {
            object,
            attributes: found,
            is_altered: true,
        })
        .ok_or(Status::Exist)
    }

    fn existing(
        &self,
        directory: &Object,
        caller: &Credentials,
        name: &[u8],
    ) -> Result<(Arc<Object>, Attributes), Status> {
        let valid_at = validity(&directory.attributes(self)?);
        let found = self.lookup(directory, caller, name, valid_at, Wait::Yes)?;
        let (object, attributes) = found.ok_or(Status::Jukebox)?;
        if object.kind != FileKind::Regular {
            return Err(Status::Exist);
        }
        Ok((object, attributes))
    }

    /// MKDIR, SYMLINK, MKNOD.
    pub(crate) fn make(
        &self,
        directory: &Object,
        caller: &Credentials,
        name: &[u8],
        make: &Make,
        attributes: &SetAttributes,
    ) -> Changed<Made> {
        self.change_names(directory, caller, || {
            check_new_name(name)?;
            let exact = has_empty_umask();
            let at = directory.descriptor();
            let default = match make {
                Make::Directory => DIRECTORY_MODE,
                _ => FILE_MODE,
            };
            let mode = Mode::from_bits_truncate(attributes.mode.unwrap_or(default) & 0o7777);
            match make {
                Make::Directory => rustix::fs::mkdirat(at, name, mode),
                Make::Symlink(target) if target.is_empty() => Err(Errno::INVAL),
                Make::Symlink(target) if target.len() > SYMLINK_MAX => Err(Errno::NAMETOOLONG),
                Make::Symlink(target) => rustix::fs::symlinkat(target.as_slice(), at, name),
                Make::Node(node) => {
                    let (file_type, device) = node_type(*node)?;
                    rustix::fs::mknodat(at, name, file_type, mode, device)
                }
            }
            .map_err(status)?;
            let descriptor = open_path(at, name).map_err(status)?;
            // mkdir(2) takes no setuid, setgid and sticky bits; a link takes no mode at all.
            let special = matches!(make, Make::Directory) && mode.as_raw_mode() & 0o7000 != 0;
            let rest = SetAttributes {
                mode: attributes.mode.filter(|_| special || !exact),
                size: None,
                ..*attributes
            };
            let opened = Opened {
                descriptor,
                base: Base::Path,
                is_sized: false,
            };
            self.finish(directory, caller, name, opened, &rest)
        })
    }

    /// REMOVE, or RMDIR when `flags` say so.
    pub(crate) fn remove(
        &self,
        directory: &Object,
        caller: &Credentials,
        name: &[u8],
        flags: AtFlags,
    ) -> Changed<()> {
        let mut child = None;
        let changed = self.change_names(directory, caller, || {
            check_name(name)?;
            rustix::fs::unlinkat(directory.descriptor(), name, flags).map_err(|errno| {
                match status(errno) {
                    // Some file systems say so of a directory that is not empty.
                    Status::Exist => Status::Notempty,
                    other => other,
                }
            })?;
            child = self.forget_name(directory, name);
            Ok(())
        });
        if let Some(child) = child {
            self.changed(child.fileid);
            if child.is_gone() {
                self.forget(&child.handle);
            }
        }
        changed
    }

    /// Moves the name `old` of the directory `from` to `new` of the directory `to` (RENAME).
    pub(crate) fn rename(
        &self,
        caller: &Credentials,
        from: &Object,
        old: &[u8],
        to: &Object,
        new: &[u8],
    ) -> (Result<(), Status>, Wcc, Wcc) {
        let checks = [
            from.require_directory(),
            to.require_directory(),
            check_name(old),
            check_new_name(new),
        ];
        if let Some(reason) = checks.into_iter().find_map(Result::err) {
            return (Err(reason), Wcc::default(), Wcc::default());
        }
        let renamed = || {
            rustix::fs::renameat(from.descriptor(), old, to.descriptor(), new).map_err(
                |errno| match status(errno) {
                    Status::Exist => Status::Notempty,
                    other => other,
                },
            )?;
            self.renamed(from, old, to, new);
            Ok(())
        };
        if from.handle == to.handle {
            let changed = self.change_names(from, caller, renamed);
            return (changed.result, changed.wcc, changed.wcc);
        }
        if is_locked_first(from, to) {
            self.change_two(from, to, caller, renamed)
        } else {
            let (result, to, from) = self.change_two(to, from, caller, renamed);
            (result, from, to)
        }
    }

    fn change_two(
        &self,
        first: &Object,
        second: &Object,
        caller: &Credentials,
        operation: impl FnOnce() -> Result<(), Status>,
    ) -> (Result<(), Status>, Wcc, Wcc) {
        let mut inner = Wcc::default();
        let outer = self.change_names(first, caller, || {
            let changed = self.change_names(second, caller, operation);
            inner = changed.wcc;
            changed.result
        });
        (outer.result, outer.wcc, inner)
    }

    /// Keeps what is remembered of names in step with a rename.
    fn renamed(&self, from: &Object, old: &[u8], to: &Object, new: &[u8]) {
        let replaced = self.forget_name(to, new);
        let moved = self.forget_name(from, old);
        if let Some(moved) = &moved {
            self.changed(moved.fileid);
            // Renaming one name of an object to another name of it does nothing, and both stay.
            if replaced
                .as_ref()
                .is_none_or(|replaced| replaced.handle != moved.handle)
            {
                self.remember(to, new, moved, None);
            }
        } else if let (Some(places), Ok(descriptor)) =
            (&self.places, open_path(to.descriptor(), new))
            && let Ok(facts) = self.facts(descriptor.as_fd())
        {
            places.learn(self.number_of(&facts.attributes), to.number, new);
        }
        if let Some(replaced) = replaced {
            self.changed(replaced.fileid);
            if replaced.is_gone() {
                self.forget(&replaced.handle);
            }
        }
    }

    /// LINK.
    pub(crate) fn link(
        &self,
        caller: &Credentials,
        file: &Arc<Object>,
        directory: &Object,
        name: &[u8],
    ) -> Changed<()> {
        if file.kind == FileKind::Directory {
            return failed(Status::Perm);
        }
        self.change_names(directory, caller, || {
            check_new_name(name)?;
            let path = ProcPath::new(file.descriptor());
            let linked = rustix::fs::linkat(
                CWD,
                path.as_c_str(),
                directory.descriptor(),
                name,
                AtFlags::SYMLINK_FOLLOW,
            );
            linked.map_err(|errno| match errno {
                // The name is new; what does not exist is the object.
                Errno::NOENT => Status::Stale,
                errno => status(errno),
            })?;
            self.changed(file.fileid);
            self.remember(directory, name, file, None);
            Ok(())
        })
    }
}

/// Whether `one` of two directories is locked before `other`, whichever of them a rename leaves. Numbers would not do:
/// the layers of an overlay have equal ones.
fn is_locked_first(one: &Object, other: &Object) -> bool {
    one.handle.as_bytes() < other.handle.as_bytes()
}

/// As [`check_name`], of a name to make: `.` and `..` exist.
fn check_new_name(name: &[u8]) -> Result<(), Status> {
    match name {
        b"." | b".." => Err(Status::Exist),
        name => check_name(name),
    }
}

fn caller_has_group(caller: &Credentials, gid: u32) -> bool {
    caller.gid == gid || caller.groups().contains(&gid)
}

/// An exclusive creation's verifier, kept in the times of the file until the client sets real ones. The top bits are
/// left out, because not every file system keeps times after 2038 (as knfsd does).
fn stamps_of(verifier: &Verifier) -> SetAttributes {
    let [a, b, c, d, e, f, g, h] = *verifier;
    let stamp = |bytes| {
        SetTime::To(Time {
            seconds: i64::from(u32::from_be_bytes(bytes) & 0x7fff_ffff),
            nanoseconds: 0,
        })
    };
    SetAttributes {
        mode: Some(0),
        access_time: stamp([e, f, g, h]),
        modify_time: stamp([a, b, c, d]),
        ..SetAttributes::default()
    }
}

/// The type and the device number of a node to make.
///
/// # Errors
/// `Inval`: mknod(2) takes 12 and 20 bits, and would make another device.
fn node_type(node: NodeKind) -> Result<(FileType, u64), Status> {
    let (file_type, major, minor) = match node {
        NodeKind::BlockDevice { major, minor } => (FileType::BlockDevice, major, minor),
        NodeKind::CharacterDevice { major, minor } => (FileType::CharacterDevice, major, minor),
        NodeKind::Socket => (FileType::Socket, 0, 0),
        NodeKind::Fifo => (FileType::Fifo, 0, 0),
    };
    if major >= 1 << 12 || minor >= 1 << 20 {
        return Err(Status::Inval);
    }
    Ok((file_type, makedev(major, minor)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::LocalOptions;
    use crate::object::OpenFile;
    use std::path::Path;

    fn served(directory: &Path) -> Arc<LocalTree> {
        let options = LocalOptions {
            state_dir: Some(directory.join("state")),
            ..LocalOptions::default()
        };
        LocalTree::open(directory, &options).unwrap()
    }

    /// A directory of the tree with the number of the root, as a layer of an overlay may have it.
    fn with_the_number_of_the_root(tree: &LocalTree, name: &str) -> Arc<Object> {
        let descriptor = open_path(tree.root.as_fd(), name.as_bytes()).unwrap();
        let (object, mut attributes) = tree.adopt(descriptor, Base::Path).unwrap();
        attributes.fileid = tree.root_object.fileid;
        let descriptor = object.descriptor().try_clone_to_owned().unwrap();
        let file = OpenFile::new(descriptor, &tree.open);
        Arc::new(Object::new(
            object.handle,
            object.number,
            &attributes,
            file,
            None,
        ))
    }

    #[test]
    fn directories_with_equal_numbers_are_locked_in_one_order() {
        let scratch = tempfile::tempdir().unwrap();
        let tree = served(scratch.path());
        std::fs::create_dir(scratch.path().join("one")).unwrap();
        std::fs::create_dir(scratch.path().join("other")).unwrap();
        let one = with_the_number_of_the_root(&tree, "one");
        let other = with_the_number_of_the_root(&tree, "other");
        assert_eq!(one.fileid, other.fileid);
        assert_ne!(is_locked_first(&one, &other), is_locked_first(&other, &one));

        let me = Credentials::new(0, 0, &[]);
        std::fs::write(scratch.path().join("one/f"), "").unwrap();
        let (there, _, _) = tree.rename(&me, &one, b"f", &other, b"g");
        let (back, left, entered) = tree.rename(&me, &other, b"g", &one, b"h");
        assert_eq!((there, back), (Ok(()), Ok(())));
        assert!(scratch.path().join("one/h").exists());
        let fileid = |wcc: Wcc| wcc.after.map(|after| after.fileid);
        let real = |object: &Object| object.attributes(&tree).unwrap().fileid;
        assert_eq!(
            (fileid(left), fileid(entered)),
            (Some(real(&other)), Some(real(&one)))
        );
    }
}
