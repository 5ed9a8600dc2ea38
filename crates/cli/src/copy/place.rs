//! A file or directory on either side of a copy.

use super::at::At;
use super::content::Source;
use super::local;
use crate::failure::{Explain, Failure};
use crate::session::Session;
use crate::tree::Identity;
use gannet::url::Url;
use gannet_client::{Error, Transfer};
use gannet_runtime::{Handle, run_blocking};
use gannet_vfs::{
    Attributes, FileHandle, FileKind, NodeKind, SetAttributes, SetTime, Status, Time,
};
use gannet_wire::printable;
use rustix::fs::FileType;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// The type of the object that a name stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    File,
    Directory,
    Symlink,
    /// A device, socket or FIFO.
    Special(NodeKind),
}

/// The properties of an object that a copy keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Node {
    pub(crate) kind: Kind,
    /// The numbers of its file system and of itself; `None` for what is no object of a file system.
    pub(crate) identity: Option<Identity>,
    /// Permission bits.
    pub(crate) mode: u32,
    /// Bytes.
    pub(crate) size: u64,
    /// Bytes of disk; fewer than `size` when there are holes.
    pub(crate) used: u64,
    pub(crate) modify_time: Time,
}

impl Node {
    /// Reads the properties from a local file system's.
    pub(crate) fn of_stat(stat: &rustix::fs::Stat) -> Node {
        let device = (
            rustix::fs::major(stat.st_rdev),
            rustix::fs::minor(stat.st_rdev),
        );
        Node {
            kind: match FileType::from_raw_mode(stat.st_mode) {
                FileType::Directory => Kind::Directory,
                FileType::Symlink => Kind::Symlink,
                FileType::Fifo => Kind::Special(NodeKind::Fifo),
                FileType::Socket => Kind::Special(NodeKind::Socket),
                FileType::BlockDevice => Kind::Special(NodeKind::BlockDevice {
                    major: device.0,
                    minor: device.1,
                }),
                FileType::CharacterDevice => Kind::Special(NodeKind::CharacterDevice {
                    major: device.0,
                    minor: device.1,
                }),
                _ => Kind::File,
            },
            identity: Some((stat.st_dev, stat.st_ino)),
            mode: stat.st_mode & 0o7777,
            size: u64::try_from(stat.st_size).unwrap_or(0),
            used: u64::try_from(stat.st_blocks)
                .unwrap_or(0)
                .saturating_mul(512),
            modify_time: Time {
                seconds: stat.st_mtime,
                nanoseconds: u32::try_from(stat.st_mtime_nsec).unwrap_or(0),
            },
        }
    }

    pub(crate) fn of(attributes: &Attributes) -> Node {
        let (major, minor) = attributes.device;
        Node {
            kind: match attributes.kind {
                FileKind::Regular => Kind::File,
                FileKind::Directory => Kind::Directory,
                FileKind::Symlink => Kind::Symlink,
                FileKind::Fifo => Kind::Special(NodeKind::Fifo),
                FileKind::Socket => Kind::Special(NodeKind::Socket),
                FileKind::BlockDevice => Kind::Special(NodeKind::BlockDevice { major, minor }),
                FileKind::CharacterDevice => {
                    Kind::Special(NodeKind::CharacterDevice { major, minor })
                }
            },
            identity: Some((attributes.fsid, attributes.fileid)),
            mode: attributes.mode,
            size: attributes.size,
            used: attributes.used,
            modify_time: attributes.modify_time,
        }
    }

    /// Bytes that a copy moves.
    pub(crate) fn size_to_move(&self) -> u64 {
        match self.kind {
            Kind::File => self.size,
            _ => 0,
        }
    }

    /// The permission bits of a copy. It belongs to the user who copies, so set-user-ID and set-group-ID bits would
    /// give away that user's rights. A device keeps the bits of its owner alone, since a server chooses the device
    /// that it names.
    pub(crate) fn copied_mode(&self) -> u32 {
        match self.kind {
            Kind::Special(NodeKind::BlockDevice { .. } | NodeKind::CharacterDevice { .. }) => {
                self.mode & 0o700
            }
            _ => self.mode & 0o1777,
        }
    }
}

/// Why a file does not take the place of a device, socket or FIFO.
pub(super) const NO_REGULAR_FILE: &str =
    "it is there, and no regular file (`gannet cat` writes to a pipe)";

/// The name of a file until it is complete.
pub(super) fn temporary_name(random: u64) -> Vec<u8> {
    format!(".gannet-cp-{random:016x}").into_bytes()
}

/// Where an object is.
#[derive(Clone)]
pub(crate) enum Place {
    Local(Local),
    Remote(Session, FileHandle, Url),
}

/// Where a local object is.
#[derive(Clone)]
pub(crate) struct Local {
    pub(super) runtime: Handle,
    pub(super) at: At,
    /// The path that messages show.
    shown: PathBuf,
}

impl Local {
    /// A name in this directory.
    ///
    /// # Errors
    /// It cannot be one of a file.
    pub(super) fn child(&self, name: &OsStr) -> io::Result<Local> {
        Ok(Local {
            runtime: Rc::clone(&self.runtime),
            at: self.at.child(name)?,
            shown: self.shown.join(name),
        })
    }

    /// Does something that may block with it.
    pub(super) async fn with<T: Send + 'static>(
        &self,
        job: impl FnOnce(&At) -> io::Result<T> + Send + 'static,
    ) -> io::Result<T> {
        let at = self.at.clone();
        locally(&self.runtime, move || job(&at)).await
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Local(local) => printable(local.shown.as_os_str().as_bytes()).fmt(f),
            Place::Remote(_, _, url) => url.fmt(f),
        }
    }
}

/// An entry of a directory.
pub(crate) struct Entry {
    pub(crate) name: OsString,
    pub(crate) place: Place,
    pub(crate) node: Node,
}

/// A directory that is there now.
pub(crate) struct Made {
    pub(crate) place: Place,
    /// The directory is empty.
    pub(crate) is_new: bool,
}

/// Directories and files belong to their owner alone until they are complete.
const DIRECTORY_MODE: u32 = 0o700;
pub(super) const FILE_MODE: u32 = 0o600;

/// The object that a name in a directory of a server stands for, if there is one.
pub(super) async fn lookup(
    session: &Session,
    directory: &FileHandle,
    name: &OsStr,
) -> Result<Option<(FileHandle, Attributes)>, Error> {
    match session.objects().lookup(directory, name.as_bytes()).await {
        Err(Error::Status(Status::Noent)) => Ok(None),
        found => found.map(|found| Some((found.handle, found.attributes))),
    }
}

/// Whether a local path may name the file of a server that `look` finds. Servers identify files by the numbers that
/// local file systems give them. Where the numbers are equal, the files differ only if their times differ and stand
/// still.
async fn is_seen_at(
    local: &Local,
    look: impl AsyncFn() -> Result<Option<Attributes>, Error>,
) -> io::Result<bool> {
    let see = || local.with(local::identity);
    let Some(before) = see().await? else {
        return Ok(false);
    };
    let Some(there) = look().await.map_err(io::Error::other)? else {
        return Ok(false);
    };
    if before.number != there.fileid {
        return Ok(false);
    }
    let stands_still = see().await? == Some(before);
    let differs = before.changed.is_some_and(|here| here != there.change_time);
    Ok(!stands_still || !differs)
}

/// Runs local work on the blocking pool.
pub(super) async fn locally<T: Send + 'static>(
    runtime: &Handle,
    job: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    run_blocking(runtime, job)
        .await
        .map_err(|_| io::Error::other("shutting down"))?
}

impl Place {
    /// The object at the user's own path, symbolic links followed.
    pub(crate) async fn local(runtime: &Handle, path: &Path) -> io::Result<(Place, Node)> {
        let looked = path.to_path_buf();
        let (at, node) = locally(runtime, move || local::find(&looked)).await?;
        let place = Place::Local(Local {
            runtime: Rc::clone(runtime),
            at,
            shown: path.to_path_buf(),
        });
        Ok((place, node))
    }

    /// The entries of a directory, sorted by name.
    pub(crate) async fn list(&self) -> Result<Vec<Entry>, Failure> {
        let what = || format!("cannot list {self}");
        match self {
            Place::Local(local) => {
                let found = local.with(local::list).await.explain(what)?;
                let entry = |(name, node): (OsString, Node)| {
                    let place = Place::Local(local.child(&name)?);
                    Ok(Entry { name, place, node })
                };
                found
                    .into_iter()
                    .map(entry)
                    .collect::<io::Result<_>>()
                    .explain(what)
            }
            Place::Remote(session, handle, url) => {
                let mut found = session.files().list_directory(handle).await.explain(what)?;
                found.sort_by(|left, right| left.0.name.cmp(&right.0.name));
                let entries = found.into_iter().map(|(item, node)| Entry {
                    place: Place::Remote(session.clone(), node.handle, url.child(&item.name)),
                    name: OsString::from_vec(item.name),
                    node: Node::of(&node.attributes),
                });
                Ok(entries.collect())
            }
        }
    }

    /// The text of a symbolic link.
    pub(crate) async fn read_link(&self) -> Result<Vec<u8>, Failure> {
        let what = || format!("cannot read the link {self}");
        match self {
            Place::Local(local) => local.with(local::read_link).await.explain(what),
            Place::Remote(session, handle, _) => {
                session.objects().read_link(handle).await.explain(what)
            }
        }
    }

    /// Makes a directory in this one, or takes the one that is there. Of a local one, a symbolic link gives way to it.
    pub(crate) async fn make_directory(&self, name: &OsStr) -> Result<Made, Failure> {
        let shown = printable(name.as_bytes());
        let what = || format!("cannot make the directory {shown} in {self}");
        match self {
            Place::Local(local) => {
                let made = local.child(name).explain(what)?;
                let is_new = made.with(local::make_directory).await.explain(what)?;
                let place = Place::Local(made);
                Ok(Made { place, is_new })
            }
            Place::Remote(session, handle, url) => {
                let files = session.files();
                let made = files
                    .make_directory_in(handle, name.as_bytes(), DIRECTORY_MODE)
                    .await;
                let (handle, is_new) = match made {
                    Ok(node) => (node.handle, true),
                    // There already, or made by a call whose answer was lost with the server.
                    Err(Error::Status(Status::Exist)) => {
                        let found = lookup(session, handle, name).await.explain(what)?;
                        match found {
                            Some((found, there)) if there.kind == FileKind::Directory => {
                                (found, false)
                            }
                            _ => return Err(Failure::new(what(), Status::Notdir)),
                        }
                    }
                    Err(error) => return Err(Failure::new(what(), error)),
                };
                let place = Place::Remote(session.clone(), handle, url.child(name.as_bytes()));
                Ok(Made { place, is_new })
            }
        }
    }

    /// Makes a symbolic link in this directory, in place of another file of that name.
    pub(crate) async fn make_symlink(&self, name: &OsStr, target: &[u8]) -> Result<Place, Failure> {
        let shown = printable(name.as_bytes());
        let what = || format!("cannot make the link {shown} in {self}");
        match self {
            Place::Local(local) => {
                let made = local.child(name).explain(what)?;
                let target = OsStr::from_bytes(target).to_os_string();
                let making = made.with(move |at| local::make_symlink(at, &target));
                making.await.explain(what)?;
                Ok(Place::Local(made))
            }
            Place::Remote(session, handle, url) => {
                let objects = session.objects();
                let (bytes, plain) = (name.as_bytes(), SetAttributes::default());
                let made = match objects.make_symlink(handle, bytes, target, &plain).await {
                    Err(Error::Status(Status::Exist)) => {
                        objects.remove(handle, bytes).await.explain(what)?;
                        objects.make_symlink(handle, bytes, target, &plain).await
                    }
                    made => made,
                };
                let made = made.explain(what)?.handle;
                Ok(Place::Remote(session.clone(), made, url.child(bytes)))
            }
        }
    }

    /// Makes a device, socket or FIFO in this directory, in place of another file of that name.
    pub(crate) async fn make_special(
        &self,
        name: &OsStr,
        kind: NodeKind,
    ) -> Result<Place, Failure> {
        let shown = printable(name.as_bytes());
        let what = || format!("cannot make {shown} in {self}");
        match self {
            Place::Local(local) => {
                let made = local.child(name).explain(what)?;
                let making = made.with(move |at| local::make_special(at, kind));
                making.await.explain(what)?;
                Ok(Place::Local(made))
            }
            Place::Remote(session, handle, url) => {
                let objects = session.objects();
                let bytes = name.as_bytes();
                let private = SetAttributes {
                    mode: Some(FILE_MODE),
                    ..SetAttributes::default()
                };
                let made = match objects.make_node(handle, bytes, kind, &private).await {
                    Err(Error::Status(Status::Exist)) => {
                        objects.remove(handle, bytes).await.explain(what)?;
                        objects.make_node(handle, bytes, kind, &private).await
                    }
                    made => made,
                };
                let made = made.explain(what)?.handle;
                Ok(Place::Remote(session.clone(), made, url.child(bytes)))
            }
        }
    }

    /// Checks that `name` in this directory is not the file at `source`, which its own copy would replace. The two may
    /// have other names or hosts, or meet in a mount on this machine or in the directory that is served.
    ///
    /// # Errors
    /// They are the same file, or the check failed.
    pub(super) async fn check_apart(&self, name: &OsStr, source: &Place) -> Result<(), Failure> {
        let what = || format!("cannot copy {source}");
        let same = match (self, source) {
            (Place::Remote(session, directory, _), Place::Remote(_, file, _)) => {
                let found = lookup(session, directory, name).await.explain(what)?;
                found.is_some_and(|(handle, _)| handle == *file)
            }
            (Place::Remote(session, directory, _), Place::Local(local)) => {
                let look = async || {
                    let found = lookup(session, directory, name).await?;
                    Ok(found.map(|(_, attributes)| attributes))
                };
                is_seen_at(local, look).await.explain(what)?
            }
            (Place::Local(local), Place::Remote(session, file, _)) => {
                let look = async || session.objects().attributes(file).await.map(Some);
                let target = local.child(name).explain(what)?;
                is_seen_at(&target, look).await.explain(what)?
            }
            // cp(1) copies local files.
            (Place::Local(..), Place::Local(..)) => false,
        };
        if same {
            let failure = Failure::new(what(), "source and target seem to be the same file");
            return Err(failure.hint("if they are not, remove the target first"));
        }
        Ok(())
    }

    /// Opens a file of `size` bytes to be read by `transfer`.
    pub(crate) async fn open(&self, size: u64, transfer: Transfer) -> Result<Source, Failure> {
        match self {
            Place::Local(local) => {
                let file = local.with(move |at| local::open_sized(at, size)).await;
                let file = file.explain(|| format!("cannot open {self}"))?;
                Ok(Source::local(&local.runtime, file, size, transfer))
            }
            Place::Remote(session, handle, _) => {
                Ok(Source::remote(session, handle, size, transfer))
            }
        }
    }

    /// Gives a directory, a link, a device, socket or FIFO the mode and the modification time of `node`.
    pub(crate) async fn set_attributes(&self, node: &Node) -> Result<(), Failure> {
        let what = || format!("cannot set mode and time of {self}");
        match self {
            Place::Local(local) => {
                let node = *node;
                let set = local.with(move |at| local::set_attributes(at, &node));
                set.await.explain(what)
            }
            Place::Remote(session, handle, _) => {
                let change = SetAttributes {
                    mode: (node.kind != Kind::Symlink).then_some(node.copied_mode()),
                    modify_time: SetTime::To(node.modify_time),
                    ..SetAttributes::default()
                };
                let changed = session.objects().set_attributes(handle, &change).await;
                changed.map(|_| ()).explain(what)
            }
        }
    }
}
