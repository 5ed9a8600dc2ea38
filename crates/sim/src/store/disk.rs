//! A file system in memory: inodes and directories, every operation done in one step.

use super::file::{FileBytes, disk_use};
use crate::limits::{DISK_BYTES, DISK_INODES, LINK_MAX};
use crate::random::Random;
use gannet_vfs::limits::{NAME_MAX, SYMLINK_MAX};
use gannet_vfs::{
    Attributes, CreateMode, Credentials, FileHandle, FileKind, FileSystemUsage, NodeKind,
    SetAttributes, SetTime, Status, Time, Verifier, Wcc,
};
use std::collections::BTreeMap;
use std::sync::Arc;

pub(super) const FSID: u64 = 0x5e_ed;
pub(super) const ROOT: u64 = 1;
/// Cookies of `.` and `..`; names come after them.
const COOKIE_SELF: u64 = 1;
const COOKIE_PARENT: u64 = 2;

/// The content of a simulated disk.
pub(super) struct FileSystem {
    inodes: BTreeMap<u64, Inode>,
    next_inode: u64,
    /// Now, set before each operation.
    pub(super) now: Time,
}

struct Inode {
    kind: FileKind,
    mode: u32,
    uid: u32,
    gid: u32,
    device: (u32, u32),
    links: u32,
    access_time: Time,
    modify_time: Time,
    change_time: Time,
    /// The verifier of the exclusive CREATE that made it.
    verifier: Option<Verifier>,
    content: Content,
}

impl Inode {
    /// Sets the time of change to `now`. Open files report the inode's times as well.
    fn change(&mut self, now: Time) {
        self.change_time = now;
        if let Content::File(bytes) = &self.content {
            bytes.note_times(self.modify_time, now);
        }
    }
}

pub(super) enum Content {
    File(Arc<FileBytes>),
    Directory(Directory),
    Symlink(Vec<u8>),
    Nothing,
}

pub(super) struct Directory {
    parent: u64,
    next_cookie: u64,
    /// Inode and cookie.
    names: BTreeMap<Vec<u8>, (u64, u64)>,
    order: BTreeMap<u64, Vec<u8>>,
}

impl Directory {
    fn new(parent: u64) -> Directory {
        Directory {
            parent,
            next_cookie: COOKIE_PARENT + 1,
            names: BTreeMap::new(),
            order: BTreeMap::new(),
        }
    }

    fn insert(&mut self, name: &[u8], inode: u64) {
        self.remove(name);
        let cookie = self.next_cookie;
        self.next_cookie += 1;
        self.names.insert(name.to_vec(), (inode, cookie));
        self.order.insert(cookie, name.to_vec());
    }

    fn remove(&mut self, name: &[u8]) -> Option<u64> {
        let (inode, cookie) = self.names.remove(name)?;
        self.order.remove(&cookie);
        Some(inode)
    }
}

/// One entry of a listing.
pub(super) struct Listed {
    pub(super) cookie: u64,
    pub(super) name: Vec<u8>,
    pub(super) inode: u64,
}

pub(super) fn handle_of(inode: u64) -> FileHandle {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&FSID.to_be_bytes());
    bytes[8..].copy_from_slice(&inode.to_be_bytes());
    FileHandle::new(&bytes).expect("sixteen bytes are a legal handle")
}

impl FileSystem {
    pub(super) fn new() -> FileSystem {
        let mut system = FileSystem {
            inodes: BTreeMap::new(),
            next_inode: ROOT,
            now: Time::default(),
        };
        let content = Content::Directory(Directory::new(ROOT));
        let owner = Credentials::new(0, 0, &[]);
        let root = system.add(FileKind::Directory, &owner, content);
        system.set(
            root,
            &SetAttributes {
                mode: Some(0o777),
                ..SetAttributes::default()
            },
        );
        system
    }

    /// The inode a handle names.
    pub(super) fn find(&self, handle: &FileHandle) -> Result<u64, Status> {
        let bytes: [u8; 16] = handle
            .as_bytes()
            .try_into()
            .map_err(|_| Status::Badhandle)?;
        let value = u128::from_be_bytes(bytes);
        if u64::try_from(value >> 64) != Ok(FSID) {
            return Err(Status::Badhandle);
        }
        let inode = u64::try_from(value & u128::from(u64::MAX)).map_err(|_| Status::Badhandle)?;
        self.inodes.get(&inode).map(|_| inode).ok_or(Status::Stale)
    }

    fn inode(&self, inode: u64) -> Result<&Inode, Status> {
        self.inodes.get(&inode).ok_or(Status::Stale)
    }

    fn inode_mut(&mut self, inode: u64) -> Result<&mut Inode, Status> {
        self.inodes.get_mut(&inode).ok_or(Status::Stale)
    }

    pub(super) fn content(&self, inode: u64) -> Result<&Content, Status> {
        Ok(&self.inode(inode)?.content)
    }

    fn directory(&self, inode: u64) -> Result<&Directory, Status> {
        match self.content(inode)? {
            Content::Directory(directory) => Ok(directory),
            _ => Err(Status::Notdir),
        }
    }

    /// The directory, its times set to now because its names are about to change.
    fn change_directory(&mut self, inode: u64) -> Result<&mut Directory, Status> {
        let now = self.now;
        let inode = self.inode_mut(inode)?;
        match &mut inode.content {
            Content::Directory(directory) => {
                inode.modify_time = now;
                inode.change_time = now;
                Ok(directory)
            }
            _ => Err(Status::Notdir),
        }
    }

    pub(super) fn attributes(&self, number: u64) -> Result<Attributes, Status> {
        let inode = self.inode(number)?;
        let size = match &inode.content {
            Content::File(bytes) => bytes.len(),
            Content::Symlink(target) => target.len() as u64,
            Content::Directory(_) => 4096,
            Content::Nothing => 0,
        };
        Ok(Attributes {
            kind: inode.kind,
            mode: inode.mode,
            link_count: inode.links,
            uid: inode.uid,
            gid: inode.gid,
            size,
            used: disk_use(size),
            device: inode.device,
            fsid: FSID,
            fileid: number,
            access_time: inode.access_time,
            modify_time: inode.modify_time,
            change_time: inode.change_time,
            change_id: inode.change_time.change_id(),
        })
    }

    /// Consistency data around `change` of the object.
    pub(super) fn around<T>(
        &mut self,
        inode: Result<u64, Status>,
        change: impl FnOnce(&mut FileSystem, u64) -> Result<T, Status>,
    ) -> (Result<T, Status>, Wcc) {
        let before = inode.and_then(|inode| self.attributes(inode)).ok();
        let result = inode.and_then(|inode| change(self, inode));
        let after = inode.and_then(|inode| self.attributes(inode)).ok();
        let before = before.as_ref().map(Attributes::wcc);
        (result, Wcc { before, after })
    }

    fn add(&mut self, kind: FileKind, owner: &Credentials, content: Content) -> u64 {
        let number = self.next_inode;
        self.next_inode += 1;
        let is_directory = kind == FileKind::Directory;
        let mut inode = Inode {
            kind,
            mode: if is_directory { 0o755 } else { 0o644 },
            uid: owner.uid,
            gid: owner.gid,
            device: (0, 0),
            links: if is_directory { 2 } else { 1 },
            access_time: self.now,
            modify_time: self.now,
            change_time: self.now,
            verifier: None,
            content,
        };
        inode.change(self.now);
        self.inodes.insert(number, inode);
        number
    }

    fn set(&mut self, inode: u64, change: &SetAttributes) {
        let now = self.now;
        let Ok(inode) = self.inode_mut(inode) else {
            return;
        };
        inode.mode = change.mode.map_or(inode.mode, |mode| mode & 0o7777);
        inode.uid = change.uid.unwrap_or(inode.uid);
        inode.gid = change.gid.unwrap_or(inode.gid);
        let time = |old, new| match new {
            SetTime::Keep => old,
            SetTime::Now => now,
            SetTime::To(time) => time,
        };
        inode.access_time = time(inode.access_time, change.access_time);
        inode.modify_time = time(inode.modify_time, change.modify_time);
        inode.change(now);
    }

    pub(super) fn set_attributes(
        &mut self,
        inode: u64,
        change: &SetAttributes,
        guard: Option<Time>,
    ) -> Result<(), Status> {
        if guard.is_some_and(|guard| self.inode(inode).is_ok_and(|of| of.change_time != guard)) {
            return Err(Status::NotSync);
        }
        if let Some(size) = change.size {
            self.regular(inode)?.set_len(size)?;
            let now = self.now;
            self.inode_mut(inode)?.modify_time = now;
        }
        self.set(inode, change);
        Ok(())
    }

    /// The content of a regular file, for reading and writing.
    pub(super) fn regular(&self, inode: u64) -> Result<Arc<FileBytes>, Status> {
        match self.content(inode)? {
            Content::File(bytes) => Ok(Arc::clone(bytes)),
            Content::Directory(_) => Err(Status::Isdir),
            _ => Err(Status::Inval),
        }
    }

    pub(super) fn write(&mut self, inode: u64, offset: u64, data: &[u8]) -> Result<(), Status> {
        self.regular(inode)?.write(offset, data)?;
        let now = self.now;
        let inode = self.inode_mut(inode)?;
        inode.modify_time = now;
        inode.change(now);
        Ok(())
    }

    pub(super) fn lookup(&self, directory: u64, name: &[u8]) -> Result<u64, Status> {
        let entries = self.directory(directory)?;
        match name {
            b"." => Ok(directory),
            b".." => Ok(entries.parent),
            _ if name.is_empty() => Err(Status::Inval),
            _ if name.len() > NAME_MAX => Err(Status::Nametoolong),
            _ => entries
                .names
                .get(name)
                .map(|entry| entry.0)
                .ok_or(Status::Noent),
        }
    }

    pub(super) fn create(
        &mut self,
        owner: &Credentials,
        directory: u64,
        name: &[u8],
        mode: &CreateMode,
    ) -> Result<u64, Status> {
        check_new_name(name)?;
        let existing = match self.lookup(directory, name) {
            Err(Status::Noent) => None,
            other => Some(other?),
        };
        let Some(existing) = existing else {
            let content = Content::File(Arc::default());
            let made = self.enter(owner, directory, name, FileKind::Regular, content)?;
            match mode {
                CreateMode::Unchecked(change) | CreateMode::Guarded(change) => {
                    self.set_attributes(made, change, None)?;
                }
                CreateMode::Exclusive(verifier) => {
                    self.inode_mut(made)?.verifier = Some(*verifier);
                }
            }
            return Ok(made);
        };
        let inode = self.inode(existing)?;
        match mode {
            CreateMode::Unchecked(change) if inode.kind == FileKind::Regular => {
                let size = SetAttributes {
                    size: change.size,
                    ..SetAttributes::default()
                };
                if change.size.is_some() {
                    self.set_attributes(existing, &size, None)?;
                }
                Ok(existing)
            }
            CreateMode::Exclusive(verifier) if inode.verifier == Some(*verifier) => Ok(existing),
            _ => Err(Status::Exist),
        }
    }

    /// Makes an object that must not exist yet.
    pub(super) fn make(
        &mut self,
        owner: &Credentials,
        directory: u64,
        name: &[u8],
        what: Make<'_>,
        change: &SetAttributes,
    ) -> Result<u64, Status> {
        check_new_name(name)?;
        match self.lookup(directory, name) {
            Err(Status::Noent) => {}
            Err(other) => return Err(other),
            Ok(_) => return Err(Status::Exist),
        }
        let (kind, content, device) = what.parts(directory)?;
        let made = self.enter(owner, directory, name, kind, content)?;
        self.inode_mut(made)?.device = device;
        if kind == FileKind::Directory {
            self.inode_mut(directory)?.links += 1;
        }
        self.set(
            made,
            &SetAttributes {
                size: None,
                ..*change
            },
        );
        Ok(made)
    }

    fn enter(
        &mut self,
        owner: &Credentials,
        directory: u64,
        name: &[u8],
        kind: FileKind,
        content: Content,
    ) -> Result<u64, Status> {
        if self.inodes.len() as u64 >= DISK_INODES {
            return Err(Status::Nospc);
        }
        self.directory(directory)?;
        let made = self.add(kind, owner, content);
        self.change_directory(directory)?.insert(name, made);
        Ok(made)
    }

    pub(super) fn remove(&mut self, directory: u64, name: &[u8]) -> Result<(), Status> {
        check_old_name(name)?;
        let victim = self.lookup(directory, name)?;
        if self.inode(victim)?.kind == FileKind::Directory {
            return Err(Status::Isdir);
        }
        self.change_directory(directory)?.remove(name);
        self.unlink(victim)
    }

    pub(super) fn remove_directory(&mut self, directory: u64, name: &[u8]) -> Result<(), Status> {
        check_old_name(name)?;
        let victim = self.lookup(directory, name)?;
        if !self.directory(victim)?.names.is_empty() {
            return Err(Status::Notempty);
        }
        self.change_directory(directory)?.remove(name);
        self.inode_mut(directory)?.links -= 1;
        self.inodes.remove(&victim);
        Ok(())
    }

    fn unlink(&mut self, victim: u64) -> Result<(), Status> {
        let now = self.now;
        let inode = self.inode_mut(victim)?;
        inode.links -= 1;
        inode.change(now);
        if inode.links == 0 {
            self.inodes.remove(&victim);
        }
        Ok(())
    }

    pub(super) fn rename(
        &mut self,
        from: u64,
        old: &[u8],
        to: u64,
        new: &[u8],
    ) -> Result<(), Status> {
        check_old_name(old)?;
        check_new_name(new)?;
        let moved = self.lookup(from, old)?;
        let moves_directory = self.inode(moved)?.kind == FileKind::Directory;
        let target = match self.lookup(to, new) {
            Err(Status::Noent) => None,
            other => Some(other?),
        };
        if target == Some(moved) {
            return Ok(());
        }
        if moves_directory && self.is_below(to, moved) {
            return Err(Status::Inval);
        }
        if let Some(target) = target {
            let target_is_directory = self.inode(target)?.kind == FileKind::Directory;
            if moves_directory && !target_is_directory {
                return Err(Status::Notdir);
            }
            if !moves_directory && target_is_directory {
                return Err(Status::Isdir);
            }
            if target_is_directory {
                self.remove_directory(to, new)?;
            } else {
                self.unlink(target)?;
            }
        }
        self.change_directory(from)?.remove(old);
        self.change_directory(to)?.insert(new, moved);
        let now = self.now;
        let inode = self.inode_mut(moved)?;
        inode.change(now);
        if let Content::Directory(directory) = &mut inode.content {
            directory.parent = to;
            self.inode_mut(from)?.links -= 1;
            self.inode_mut(to)?.links += 1;
        }
        Ok(())
    }

    /// True when `directory` is `ancestor` or lies somewhere below it.
    fn is_below(&self, directory: u64, ancestor: u64) -> bool {
        let mut at = directory;
        while at != ancestor {
            match self.directory(at) {
                Ok(of) if of.parent != at => at = of.parent,
                _ => return false,
            }
        }
        true
    }

    pub(super) fn link(&mut self, file: u64, directory: u64, name: &[u8]) -> Result<(), Status> {
        check_new_name(name)?;
        if self.inode(file)?.kind == FileKind::Directory {
            return Err(Status::Perm);
        }
        match self.lookup(directory, name) {
            Err(Status::Noent) => {}
            Err(other) => return Err(other),
            Ok(_) => return Err(Status::Exist),
        }
        if self.inode(file)?.links >= LINK_MAX {
            return Err(Status::Mlink);
        }
        self.change_directory(directory)?.insert(name, file);
        let now = self.now;
        let inode = self.inode_mut(file)?;
        inode.links += 1;
        inode.change(now);
        Ok(())
    }

    /// The entries after `cookie`, `.` and `..` first.
    pub(super) fn list(&self, inode: u64, cookie: u64) -> Result<Vec<Listed>, Status> {
        let directory = self.directory(inode)?;
        let own = |cookie, name: &[u8], inode| Listed {
            cookie,
            name: name.to_vec(),
            inode,
        };
        let dots = [
            own(COOKIE_SELF, b".", inode),
            own(COOKIE_PARENT, b"..", directory.parent),
        ];
        let names = directory.order.iter().filter_map(|(cookie, name)| {
            directory
                .names
                .get(name)
                .map(|entry| own(*cookie, name, entry.0))
        });
        Ok(dots
            .into_iter()
            .chain(names)
            .filter(|entry| entry.cookie > cookie)
            .collect())
    }

    /// Whether the root directory has this name.
    pub(super) fn has_in_root(&self, name: &[u8]) -> bool {
        match self.inodes.get(&ROOT).map(|root| &root.content) {
            Some(Content::Directory(root)) => root.names.contains_key(name),
            _ => false,
        }
    }

    /// The number of regular files that are not in the root directory.
    pub(super) fn files_in_folders(&self) -> usize {
        let is_file = |inode: &&Inode| matches!(inode.content, Content::File(_));
        let all = self.inodes.values().filter(is_file).count();
        let top = match self.inodes.get(&ROOT).map(|root| &root.content) {
            Some(Content::Directory(root)) => {
                let inside = root.names.values();
                let inside = inside.filter_map(|(inode, _)| self.inodes.get(inode));
                inside.filter(is_file).count()
            }
            _ => 0,
        };
        all - top
    }

    pub(super) fn usage(&self) -> FileSystemUsage {
        let used: u64 = self
            .inodes
            .keys()
            .filter_map(|inode| self.attributes(*inode).ok())
            .map(|attributes| attributes.used)
            .sum();
        let bytes_free = DISK_BYTES.saturating_sub(used);
        let files_free = DISK_INODES.saturating_sub(self.inodes.len() as u64);
        FileSystemUsage {
            bytes_total: DISK_BYTES,
            bytes_free,
            bytes_available: bytes_free,
            files_total: DISK_INODES,
            files_free,
            files_available: files_free,
        }
    }

    /// Loses unsynced bytes as [`FileBytes::crash`] does. Names and attributes were durable before the reply.
    pub(super) fn crash(&self, random: &Random) {
        for inode in self.inodes.values() {
            if let Content::File(bytes) = &inode.content {
                bytes.crash(random);
            }
        }
    }

    /// Evicts `per_mille` of a thousand pages of each file from the page cache, as the seed says.
    pub(super) fn evict_pages(&self, random: &Random, per_mille: u64) {
        for inode in self.inodes.values() {
            if let Content::File(bytes) = &inode.content {
                bytes.evict_pages(random, per_mille);
            }
        }
    }

    /// Evicts `per_mille` of a thousand files from the page cache, as the seed says.
    pub(super) fn evict(&self, random: &Random, per_mille: u64) {
        for inode in self.inodes.values() {
            if let Content::File(bytes) = &inode.content
                && random.chance(per_mille)
            {
                bytes.evict();
            }
        }
    }
}

/// The kind of object for [`FileSystem::make`].
pub(super) enum Make<'a> {
    Directory,
    Symlink(&'a [u8]),
    Node(NodeKind),
}

impl Make<'_> {
    fn parts(self, parent: u64) -> Result<(FileKind, Content, (u32, u32)), Status> {
        Ok(match self {
            Make::Directory => {
                let content = Content::Directory(Directory::new(parent));
                (FileKind::Directory, content, (0, 0))
            }
            Make::Symlink(target) if target.len() > SYMLINK_MAX => return Err(Status::Nametoolong),
            Make::Symlink(target) => (FileKind::Symlink, Content::Symlink(target.to_vec()), (0, 0)),
            Make::Node(kind) => {
                let (kind, device) = match kind {
                    NodeKind::BlockDevice { major, minor } => {
                        (FileKind::BlockDevice, (major, minor))
                    }
                    NodeKind::CharacterDevice { major, minor } => {
                        (FileKind::CharacterDevice, (major, minor))
                    }
                    NodeKind::Socket => (FileKind::Socket, (0, 0)),
                    NodeKind::Fifo => (FileKind::Fifo, (0, 0)),
                };
                (kind, Content::Nothing, device)
            }
        })
    }
}

fn check_new_name(name: &[u8]) -> Result<(), Status> {
    match name {
        b"" => Err(Status::Inval),
        b"." | b".." => Err(Status::Exist),
        _ if name.len() > NAME_MAX => Err(Status::Nametoolong),
        _ if name.contains(&b'/') || name.contains(&0) => Err(Status::Inval),
        _ => Ok(()),
    }
}

fn check_old_name(name: &[u8]) -> Result<(), Status> {
    match name {
        b"" | b"." | b".." => Err(Status::Inval),
        _ if name.len() > NAME_MAX => Err(Status::Nametoolong),
        _ => Ok(()),
    }
}
