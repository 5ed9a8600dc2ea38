//! Operations of a file system by path.

use super::walk::{split_last, twice_if_stale};
use super::{Error, Follow, Item, Objects, Reader, Transfer, Writer, Zeros};
use crate::limits::PIPELINE_DEPTH_MAX;
use gannet_runtime::Handle;
use gannet_vfs::{
    Attributes, CreateMode, Created, Credentials, EntryName, FileHandle, FileKind, FileSystemUsage,
    SetAttributes, Status, TransferSizes, Vfs,
};
use std::ops::Range;

/// An object with its attributes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Node {
    /// The object.
    pub handle: FileHandle,
    /// Its attributes.
    pub attributes: Attributes,
}

/// The entries of a directory.
#[derive(Debug, Default)]
pub struct Listed {
    /// Names with their objects.
    pub known: Vec<(Item, Node)>,
    /// Names whose objects are not available, with the error of the last of them that was looked up.
    pub unknown: Option<(Vec<Item>, Error)>,
}

/// How [`Files::create`] treats an existing file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Existing {
    /// Empties it.
    Truncate,
    /// Takes it as it is.
    Keep,
    /// Fails with `Exist`.
    Refuse,
}

/// A file system for one caller, by path. Clones share it. Paths start at its root, with or without a leading slash.
pub struct Files<V> {
    objects: Objects<V>,
    root: FileHandle,
    sizes: TransferSizes,
}

impl<V> Clone for Files<V> {
    fn clone(&self) -> Files<V> {
        Files {
            objects: self.objects.clone(),
            ..*self
        }
    }
}

impl<V: Vfs> Files<V> {
    /// The files of `file_system` with the rights of `caller`, on the core of `runtime`.
    pub fn new(runtime: Handle, file_system: V, caller: Credentials) -> Files<V> {
        Files {
            root: file_system.root(),
            sizes: file_system.transfer_sizes(),
            objects: Objects::new(runtime, file_system, caller),
        }
    }

    /// The same file system by handle.
    pub fn objects(&self) -> &Objects<V> {
        &self.objects
    }

    /// The directory that paths begin in.
    pub fn root(&self) -> FileHandle {
        self.root
    }

    pub(super) async fn root_node(&self) -> Result<Node, Error> {
        let attributes = self.objects.attributes(&self.root).await?;
        let handle = self.root;
        Ok(Node { handle, attributes })
    }

    /// The object at `path`, symbolic links followed to their end.
    ///
    /// # Errors
    /// See [`Error`]; so for all that follow.
    pub async fn stat(&self, path: &[u8]) -> Result<Node, Error> {
        self.walk(path, Follow::Yes).await
    }

    /// Everything in the directory at `path`, each with handle and attributes; names that vanish meanwhile are left
    /// out.
    pub async fn list(&self, path: &[u8]) -> Result<Vec<(Item, Node)>, Error> {
        twice_if_stale(async || {
            let directory = self.walk(path, Follow::Yes).await?;
            self.list_directory(&directory.handle).await
        })
        .await
    }

    /// Everything in a directory, as [`Files::list`].
    pub async fn list_directory(&self, directory: &FileHandle) -> Result<Vec<(Item, Node)>, Error> {
        let Listed { known, unknown } = self.list_known(directory).await?;
        match unknown {
            None => Ok(known),
            Some((_, why)) => Err(why),
        }
    }

    /// Everything in a directory, also the names whose objects are not available.
    ///
    /// # Errors
    /// The directory cannot be read.
    pub async fn list_known(&self, directory: &FileHandle) -> Result<Listed, Error> {
        let items = self.objects.list(directory).await?;
        let mut listed = Listed::default();
        for item in items {
            if let Some(node) = item.node {
                listed.known.push((item, node));
                continue;
            }
            if let Some((names, why)) = &mut listed.unknown
                && !matches!(why, Error::Status(status) if *status != Status::Jukebox)
            {
                // One lookup has already waited for a server that does not answer: the rest of the names are not tried,
                // as each would wait as long.
                names.push(item);
                continue;
            }
            let found = self.objects.lookup(directory, &item.name).await;
            match (found, &mut listed.unknown) {
                (Ok(node), _) => listed.known.push((item, node)),
                // The object was removed since the listing.
                (Err(Error::Status(Status::Noent | Status::Stale)), _) => {}
                (Err(error), Some((names, why))) => {
                    names.push(item);
                    *why = error;
                }
                (Err(why), none) => *none = Some((vec![item], why)),
            }
        }
        Ok(listed)
    }

    /// Makes or takes the regular file at `path`; a symbolic link at its end is followed.
    pub async fn create(&self, path: &[u8], mode: u32, existing: Existing) -> Result<Node, Error> {
        twice_if_stale(async || {
            if existing != Existing::Refuse {
                match self.walk(path, Follow::Yes).await {
                    Ok(node) => return self.take(node, existing).await,
                    Err(Error::Status(Status::Noent)) => {}
                    Err(error) => return Err(error),
                }
            }
            let (directory, name) = self.walk_to_parent(path).await?;
            let node = self
                .create_in(&directory.handle, name, mode, existing)
                .await?;
            Ok(node)
        })
        .await
    }

    /// Makes or takes the regular file `name` in a directory.
    pub async fn create_in(
        &self,
        directory: &FileHandle,
        name: &[u8],
        mode: u32,
        existing: Existing,
    ) -> Result<Node, Error> {
        let attributes = SetAttributes {
            mode: Some(mode),
            size: (existing == Existing::Truncate).then_some(0),
            ..SetAttributes::default()
        };
        let how = match existing {
            Existing::Refuse => CreateMode::Guarded(attributes),
            Existing::Truncate | Existing::Keep => CreateMode::Unchecked(attributes),
        };
        let made = self.objects.create(directory, name, &how).await?;
        self.objects.node(made).await
    }

    async fn take(&self, node: Node, existing: Existing) -> Result<Node, Error> {
        match node.attributes.kind {
            FileKind::Directory => return Err(Error::Status(Status::Isdir)),
            FileKind::Regular => {}
            _ => return Err(Error::Status(Status::Inval)),
        }
        if existing == Existing::Keep || node.attributes.size == 0 {
            return Ok(node);
        }
        let handle = node.handle;
        let empty = SetAttributes {
            size: Some(0),
            ..SetAttributes::default()
        };
        let attributes = self.objects.set_attributes(&handle, &empty).await?;
        self.objects.node(Created { handle, attributes }).await
    }

    /// Changes attributes of the object at `path`.
    pub async fn set_attributes(&self, path: &[u8], change: &SetAttributes) -> Result<(), Error> {
        twice_if_stale(async || {
            let node = self.walk(path, Follow::Yes).await?;
            let changed = self.objects.set_attributes(&node.handle, change);
            changed.await.map(|_| ())
        })
        .await
    }

    /// Makes a directory.
    pub async fn make_directory(&self, path: &[u8], mode: u32) -> Result<Node, Error> {
        twice_if_stale(async || {
            let (directory, name) = self.walk_to_parent(path).await?;
            self.make_directory_in(&directory.handle, name, mode).await
        })
        .await
    }

    /// Makes a directory in a directory.
    pub async fn make_directory_in(
        &self,
        directory: &FileHandle,
        name: &[u8],
        mode: u32,
    ) -> Result<Node, Error> {
        let attributes = SetAttributes {
            mode: Some(mode),
            ..SetAttributes::default()
        };
        let made = self.objects.make_directory(directory, name, &attributes);
        self.objects.node(made.await?).await
    }

    /// Makes a directory and those above it, as far as they are missing; takes it if it is there.
    pub async fn make_directories(&self, path: &[u8], mode: u32) -> Result<Node, Error> {
        let mut ends = path.iter().enumerate().filter(|(_, byte)| **byte == b'/');
        loop {
            let end = ends.next().map_or(path.len(), |(slash, _)| slash);
            let so_far = path.get(..end).unwrap_or_default();
            let node = match self.walk(so_far, Follow::Yes).await {
                Ok(node) => node,
                Err(Error::Status(Status::Noent)) => {
                    match self.make_directory(so_far, mode).await {
                        // Another client made it in between.
                        Err(Error::Status(Status::Exist)) => self.walk(so_far, Follow::Yes).await?,
                        made => made?,
                    }
                }
                Err(error) => return Err(error),
            };
            if node.attributes.kind != FileKind::Directory {
                return Err(Error::Status(Status::Notdir));
            }
            if end == path.len() {
                return Ok(node);
            }
        }
    }

    /// Makes a symbolic link with the text `target`.
    pub async fn make_symlink(&self, path: &[u8], target: &[u8]) -> Result<Node, Error> {
        twice_if_stale(async || {
            let (directory, name) = self.walk_to_parent(path).await?;
            let attributes = SetAttributes {
                mode: Some(0o777),
                ..SetAttributes::default()
            };
            let directory = &directory.handle;
            let made = (self.objects).make_symlink(directory, name, target, &attributes);
            self.objects.node(made.await?).await
        })
        .await
    }

    /// Removes the object at `path`: a file, a symbolic link (not its target), or an empty directory.
    pub async fn remove(&self, path: &[u8]) -> Result<(), Error> {
        split_last(path)?;
        twice_if_stale(async || self.remove_once(path).await).await
    }

    async fn remove_once(&self, path: &[u8]) -> Result<(), Error> {
        let (directory, name) = self.walk_to_parent(path).await?;
        let node = self.objects.lookup(&directory.handle, name).await?;
        if node.attributes.kind == FileKind::Directory {
            self.objects.remove_directory(&directory.handle, name).await
        } else {
            self.objects.remove(&directory.handle, name).await
        }
    }

    /// Moves the object at `from` to `to`, and replaces the object there. If `to` is a directory, the object moves
    /// into it.
    pub async fn rename(&self, from: &[u8], to: &[u8]) -> Result<(), Error> {
        twice_if_stale(async || {
            let (source, name) = self.walk_to_parent(from).await?;
            let into = match self.walk(to, Follow::Yes).await {
                Ok(node) if node.attributes.kind == FileKind::Directory => Some(node),
                Ok(_) | Err(Error::Status(Status::Noent)) => None,
                Err(error) => return Err(error),
            };
            let (target, new_name) = match into {
                Some(directory) => (directory, name),
                None => self.walk_to_parent(to).await?,
            };
            let (source, target) = (&source.handle, &target.handle);
            self.objects
                .rename(
                    EntryName::new(source, name),
                    EntryName::new(target, new_name),
                )
                .await
        })
        .await
    }

    /// Space of the file system that `path` is in.
    pub async fn usage(&self, path: &[u8]) -> Result<FileSystemUsage, Error> {
        twice_if_stale(async || {
            let node = self.walk(path, Follow::Yes).await?;
            self.objects.usage(&node.handle).await
        })
        .await
    }

    /// Reads `range` of a file, in order, with several reads in flight. Give `0..u64::MAX` for all of it.
    pub fn read_file(&self, file: &FileHandle, range: Range<u64>, transfer: Transfer) -> Reader<V> {
        let block = transfer.block.unwrap_or(self.sizes.read_preferred);
        let block = block.clamp(1, self.sizes.read_max);
        let depth = transfer.depth.clamp(1, PIPELINE_DEPTH_MAX);
        Reader::new(self.objects.clone(), *file, range, block, depth)
    }

    /// Writes a file with several writes in flight; see [`Writer`].
    pub fn write_file(&self, file: &FileHandle, zeros: Zeros, transfer: Transfer) -> Writer<V> {
        let block = transfer.block.unwrap_or(self.sizes.write_preferred);
        let block = block.clamp(1, self.sizes.write_max);
        let depth = transfer.depth.clamp(1, PIPELINE_DEPTH_MAX);
        Writer::new(self.objects.clone(), *file, zeros, block, depth)
    }

    /// Copies the file `from` of `source` into the file `to` of this file system, at the same offsets, with several
    /// reads and writes in flight. Gives the number of bytes, which are durable when this returns. Bytes of `to` behind
    /// them stay.
    pub async fn copy_from<S: Vfs>(
        &self,
        to: &FileHandle,
        source: &Files<S>,
        from: &FileHandle,
        transfer: Transfer,
    ) -> Result<u64, Error> {
        let common = source.sizes.read_preferred.min(self.sizes.write_preferred);
        let block = Some(transfer.block.unwrap_or(common).min(self.sizes.write_max));
        let transfer = Transfer { block, ..transfer };
        let mut reader = source.read_file(from, 0..u64::MAX, transfer);
        let mut writer = self.write_file(to, Zeros::Write, transfer);
        let mut copied = 0;
        while let Some(block) = reader.next().await? {
            copied += block.len as u64;
            writer.write(block.offset, block.buffer, block.len).await?;
            reader.recycle(writer.buffer());
        }
        writer.finish().await.map(|_| copied)
    }
}
