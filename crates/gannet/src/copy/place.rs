//! A file or directory on either side of a copy.

use super::content::{Sink, Source};
use super::local;
use crate::failure::{Explain, Failure};
use crate::session::Session;
use crate::url::Url;
use gannet_nfs::client::{Error, Existing, Transfer};
use gannet_runtime::{Handle, run_blocking};
use gannet_vfs::{
    Attributes, FileHandle, FileKind, NodeKind, SetAttributes, SetTime, Status, Time,
};
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs::Metadata;
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// What a name is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    File,
    Directory,
    Symlink,
    /// A device, socket or FIFO.
    Special(NodeKind),
}

/// What a copy keeps of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Node {
    pub(crate) kind: Kind,
    /// Permission bits.
    pub(crate) mode: u32,
    /// Bytes.
    pub(crate) size: u64,
    /// Bytes of disk; fewer than `size` when there are holes.
    pub(crate) used: u64,
    pub(crate) modify_time: Time,
}

impl Node {
    /// What a local file system says.
    pub(crate) fn of_local(metadata: &Metadata) -> Node {
        let kind = metadata.file_type();
        let device = (
            rustix::fs::major(metadata.rdev()),
            rustix::fs::minor(metadata.rdev()),
        );
        Node {
            kind: if kind.is_dir() {
                Kind::Directory
            } else if kind.is_symlink() {
                Kind::Symlink
            } else if kind.is_fifo() {
                Kind::Special(NodeKind::Fifo)
            } else if kind.is_socket() {
                Kind::Special(NodeKind::Socket)
            } else if kind.is_block_device() {
                Kind::Special(NodeKind::BlockDevice(device.0, device.1))
            } else if kind.is_char_device() {
                Kind::Special(NodeKind::CharacterDevice(device.0, device.1))
            } else {
                Kind::File
            },
            mode: metadata.mode() & 0o7777,
            size: metadata.len(),
            used: metadata.blocks().saturating_mul(512),
            modify_time: Time {
                // NFSv3 counts seconds in 32 bits without a sign; times outside are clipped.
                seconds: u32::try_from(metadata.mtime().max(0)).unwrap_or(u32::MAX),
                nanoseconds: u32::try_from(metadata.mtime_nsec()).unwrap_or(0),
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
                FileKind::BlockDevice => Kind::Special(NodeKind::BlockDevice(major, minor)),
                FileKind::CharacterDevice => Kind::Special(NodeKind::CharacterDevice(major, minor)),
            },
            mode: attributes.mode,
            size: attributes.size,
            used: attributes.used,
            modify_time: attributes.modify_time,
        }
    }
}

/// Where an object is.
#[derive(Clone)]
pub(crate) enum Place {
    Local(Handle, PathBuf),
    Remote(Session, FileHandle, Url),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Local(_, path) => path.display().fmt(f),
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

/// Directories and files belong to their owner alone until they are complete.
const DIRECTORY_MODE: u32 = 0o700;
const FILE_MODE: u32 = 0o600;

/// What a name in a directory of a server stands for, if it is there.
async fn lookup(
    session: &Session,
    directory: &FileHandle,
    name: &OsStr,
) -> Result<Option<(FileHandle, Attributes)>, Error> {
    let client = session.files().client();
    let found = match client.lookup(directory, name.as_bytes()).await {
        Err(Error::Status(Status::Noent)) => return Ok(None),
        found => found?,
    };
    let attributes = match found.attributes {
        Some(attributes) => attributes,
        None => client.getattr(&found.handle).await?,
    };
    Ok(Some((found.handle, attributes)))
}

/// Whether a local path may name the file of a server that `look` finds: servers know files by the numbers that local
/// file systems give them. Where the numbers are equal, only times that stand still tell them apart.
async fn is_seen_at(
    runtime: &Handle,
    path: &Path,
    look: impl AsyncFn() -> Result<Option<Attributes>, Error>,
) -> io::Result<bool> {
    let see = || {
        let path = path.to_path_buf();
        locally(runtime, move || local::identity(&path))
    };
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
    /// What is in a directory, sorted by name.
    pub(crate) async fn list(&self) -> Result<Vec<Entry>, Failure> {
        let what = || format!("cannot list {self}");
        match self {
            Place::Local(runtime, path) => {
                let folder = path.clone();
                let found = locally(runtime, move || local::list(&folder))
                    .await
                    .explain(what)?;
                let entry = |(name, node): (OsString, Node)| Entry {
                    place: Place::Local(Rc::clone(runtime), path.join(&name)),
                    name,
                    node,
                };
                Ok(found.into_iter().map(entry).collect())
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
            Place::Local(runtime, path) => {
                let path = path.clone();
                let target = locally(runtime, move || std::fs::read_link(path)).await;
                target
                    .map(|target| target.into_os_string().into_vec())
                    .explain(what)
            }
            Place::Remote(session, handle, _) => session
                .files()
                .client()
                .readlink(handle)
                .await
                .explain(what),
        }
    }

    /// Makes a directory in this one, or takes the one that is there.
    pub(crate) async fn make_directory(&self, name: &OsStr) -> Result<Place, Failure> {
        let what = || format!("cannot make the directory {} in {self}", name.display());
        match self {
            Place::Local(runtime, path) => {
                let path = path.join(name);
                let made = path.clone();
                locally(runtime, move || local::make_directory(&made))
                    .await
                    .explain(what)?;
                Ok(Place::Local(Rc::clone(runtime), path))
            }
            Place::Remote(session, handle, url) => {
                let files = session.files();
                let made = files
                    .make_directory_in(handle, name.as_bytes(), DIRECTORY_MODE)
                    .await;
                let handle = match made {
                    Ok(node) => node.handle,
                    // There already, or made by a call whose answer was lost with the server.
                    Err(Error::Status(Status::Exist)) => {
                        let found = files
                            .client()
                            .lookup(handle, name.as_bytes())
                            .await
                            .explain(what)?;
                        let attributes =
                            files.client().getattr(&found.handle).await.explain(what)?;
                        if attributes.kind != FileKind::Directory {
                            return Err(Failure::new(what(), Status::Notdir));
                        }
                        found.handle
                    }
                    Err(error) => return Err(Failure::new(what(), error)),
                };
                Ok(Place::Remote(
                    session.clone(),
                    handle,
                    url.child(name.as_bytes()),
                ))
            }
        }
    }

    /// Makes a symbolic link in this directory, in place of another file of that name.
    pub(crate) async fn make_symlink(&self, name: &OsStr, target: &[u8]) -> Result<Place, Failure> {
        let what = || format!("cannot make the link {} in {self}", name.display());
        match self {
            Place::Local(runtime, path) => {
                let path = path.join(name);
                let (made, target) = (path.clone(), PathBuf::from(OsStr::from_bytes(target)));
                locally(runtime, move || local::make_symlink(&made, &target))
                    .await
                    .explain(what)?;
                Ok(Place::Local(Rc::clone(runtime), path))
            }
            Place::Remote(session, handle, url) => {
                let client = session.files().client();
                let (bytes, plain) = (name.as_bytes(), SetAttributes::default());
                let made = match client.symlink(handle, bytes, target, &plain).await {
                    Err(Error::Status(Status::Exist)) => {
                        client.remove(handle, bytes).await.explain(what)?;
                        client.symlink(handle, bytes, target, &plain).await
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
        let what = || format!("cannot make {} in {self}", name.display());
        match self {
            Place::Local(runtime, path) => {
                let path = path.join(name);
                let made = path.clone();
                locally(runtime, move || local::make_special(&made, kind))
                    .await
                    .explain(what)?;
                Ok(Place::Local(Rc::clone(runtime), path))
            }
            Place::Remote(session, handle, url) => {
                let client = session.files().client();
                let bytes = name.as_bytes();
                let private = SetAttributes {
                    mode: Some(FILE_MODE),
                    ..SetAttributes::default()
                };
                let made = match client.mknod(handle, bytes, kind, &private).await {
                    Err(Error::Status(Status::Exist)) => {
                        client.remove(handle, bytes).await.explain(what)?;
                        client.mknod(handle, bytes, kind, &private).await
                    }
                    made => made,
                };
                let made = made.explain(what)?.handle;
                Ok(Place::Remote(session.clone(), made, url.child(bytes)))
            }
        }
    }

    /// Makes or empties a file in this directory, to be written by `transfer`.
    pub(crate) async fn create(
        &self,
        name: &OsStr,
        source: &Place,
        transfer: Transfer,
    ) -> Result<(Place, Sink), Failure> {
        let what = || format!("cannot create {} in {self}", name.display());
        match self {
            Place::Local(runtime, path) => {
                self.check_apart(name, source).await?;
                let path = path.join(name);
                let made = path.clone();
                let file = locally(runtime, move || local::create(&made))
                    .await
                    .explain(what)?;
                let place = Place::Local(Rc::clone(runtime), path);
                Ok((place, Sink::local(runtime, file, transfer)))
            }
            Place::Remote(session, handle, url) => {
                let (files, bytes) = (session.files(), name.as_bytes());
                let create =
                    async |existing| files.create_in(handle, bytes, FILE_MODE, existing).await;
                let made = match create(Existing::Refuse).await {
                    Err(Error::Status(Status::Exist)) => {
                        self.check_apart(name, source).await?;
                        create(Existing::Truncate).await
                    }
                    made => made,
                };
                let made = made.explain(what)?.handle;
                let sink = Sink::remote(session, &made, transfer);
                Ok((Place::Remote(session.clone(), made, url.child(bytes)), sink))
            }
        }
    }

    /// That `name` in this directory is not the file at `source`, which would be emptied: by another name or host, or
    /// seen on this machine, in a mount or in the very directory that is served.
    ///
    /// # Errors
    /// It is, or that cannot be told.
    async fn check_apart(&self, name: &OsStr, source: &Place) -> Result<(), Failure> {
        let what = || format!("cannot copy {source}");
        let same = match (self, source) {
            (Place::Remote(session, directory, _), Place::Remote(_, file, _)) => {
                let found = lookup(session, directory, name).await.explain(what)?;
                found.is_some_and(|(handle, _)| handle == *file)
            }
            (Place::Remote(session, directory, _), Place::Local(runtime, path)) => {
                let look = async || {
                    let found = lookup(session, directory, name).await?;
                    Ok(found.map(|(_, attributes)| attributes))
                };
                is_seen_at(runtime, path, look).await.explain(what)?
            }
            (Place::Local(runtime, path), Place::Remote(session, file, _)) => {
                let look = async || session.files().client().getattr(file).await.map(Some);
                let path = path.join(name);
                is_seen_at(runtime, &path, look).await.explain(what)?
            }
            // cp(1) copies local files.
            (Place::Local(..), Place::Local(..)) => false,
        };
        match same {
            true => {
                let failure = Failure::new(what(), "source and target seem to be the same file");
                Err(failure.hint("if they are not, remove the target first"))
            }
            false => Ok(()),
        }
    }

    /// Opens a file of `size` bytes to be read by `transfer`.
    pub(crate) async fn open(&self, size: u64, transfer: Transfer) -> Result<Source, Failure> {
        match self {
            Place::Local(runtime, path) => {
                let path = path.clone();
                let file = locally(runtime, move || local::open_sized(&path, size)).await;
                let file = file.explain(|| format!("cannot open {self}"))?;
                Ok(Source::local(runtime, file, size, transfer))
            }
            Place::Remote(session, handle, _) => {
                Ok(Source::remote(session, handle, size, transfer))
            }
        }
    }

    /// Gives it the mode and the modification time of `node`, and a file its length.
    pub(crate) async fn set_attributes(&self, node: &Node) -> Result<(), Failure> {
        let what = || format!("cannot set mode and time of {self}");
        match self {
            Place::Local(runtime, path) => {
                let (path, node) = (path.clone(), *node);
                locally(runtime, move || local::set_attributes(&path, &node))
                    .await
                    .explain(what)
            }
            Place::Remote(session, handle, _) => {
                let change = SetAttributes {
                    mode: (node.kind != Kind::Symlink).then_some(node.mode),
                    // Only where the end is a hole, which was not written.
                    size: (node.kind == Kind::File && node.used < node.size).then_some(node.size),
                    modify_time: SetTime::To(node.modify_time),
                    ..SetAttributes::default()
                };
                let changed = session
                    .files()
                    .client()
                    .setattr(handle, &change, None)
                    .await;
                changed.map(|_| ()).explain(what)
            }
        }
    }
}
