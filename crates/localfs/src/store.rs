//! One core's front of the tree.

use super::access::Rights;
use super::attributes::status;
use super::change::failed;
use super::durable::Target;
use super::group_commit::GroupCommit;
use super::lanes::Lanes;
use super::listing::{Served, current, validity};
use super::lookup::Wait;
use super::namespace::{Made, Make};
use super::object::Object;
use super::snapshots::{Look, Snapshots};
use super::tree::LocalTree;
use crate::limits::{SYMLINK_INLINE_MAX, WRITE_DESCRIPTOR_IDLE};
use gannet_runtime::{Buffer, FileSource, Handle};
use gannet_vfs::limits::NAME_MAX;
use gannet_vfs::{
    AccessMask, Attributes, BytesRead, Changed, Commit, CreateMode, Created, Credentials,
    DirectoryPage, Entries, EntryName, FileHandle, FileKind, FileSystemLimits, FileSystemUsage,
    NodeKind, ReadReply, SetAttributes, Stability, Status, Time, Verifier, Vfs, Wcc, WriteDone,
};
use rustix::fs::AtFlags;
use rustix::io::Errno;
use std::ops::Range;
use std::rc::Rc;
use std::sync::{Arc, Weak};
use std::time::Instant;

/// One core's front of a [`LocalTree`].
pub struct LocalStore {
    tree: Arc<LocalTree>,
    lanes: Rc<Lanes>,
    pub(super) syncs: Rc<GroupCommit>,
    snapshots: Snapshots,
}

impl LocalStore {
    /// A front for the core that `runtime` runs. Starts a task there that closes unused descriptors.
    pub fn new(tree: Arc<LocalTree>, runtime: Handle) -> LocalStore {
        runtime.spawn(
            "descriptor sweep",
            Box::pin(sweep(Arc::downgrade(&tree), Handle::clone(&runtime))),
        );
        let lanes = Rc::new(Lanes::new(Arc::clone(&tree), Handle::clone(&runtime)));
        LocalStore {
            syncs: GroupCommit::new(runtime, Rc::clone(&lanes)),
            lanes,
            tree,
            snapshots: Snapshots::default(),
        }
    }

    /// The object with this handle: open already, or opened on the pool.
    async fn object(&self, handle: &FileHandle) -> Result<Arc<Object>, Status> {
        if let Some(object) = self.tree.known(handle)
            && !self.tree.must_be_checked(&object)
        {
            return Ok(object);
        }
        self.tree.minter.open(handle)?;
        let handle = *handle;
        let found = self.lanes.look_up(move |tree| tree.resolve(&handle));
        match found.await?? {
            Some(object) => Ok(object),
            None => self.lanes.search(move |tree| tree.search(&handle)).await?,
        }
    }

    /// Runs a change of an object in its lane, and waits until what it names is durable.
    async fn changing<T: Send + 'static>(
        &self,
        caller: &Credentials,
        handle: &FileHandle,
        change: impl FnOnce(&LocalTree, &Arc<Object>, &Credentials) -> (Changed<T>, Vec<Target>)
        + Send
        + 'static,
    ) -> Changed<T> {
        let object = match self.object(handle).await {
            Ok(object) => object,
            Err(reason) => return failed(reason),
        };
        let run = self
            .lanes
            .run(object.fileid, caller, move |tree, caller| {
                change(tree, &object, caller)
            })
            .await;
        match run {
            Ok((changed, targets)) => self.syncs.settle(caller, changed, targets).await,
            Err(reason) => failed(reason),
        }
    }

    /// Makes a name and an object for it.
    async fn making(
        &self,
        caller: &Credentials,
        directory: &FileHandle,
        make: impl FnOnce(&LocalTree, &Arc<Object>, &Credentials) -> Changed<Made> + Send + 'static,
    ) -> Changed<Created> {
        self.changing(caller, directory, move |tree, directory, caller| {
            let Changed { result, wcc } = make(tree, directory, caller);
            let targets = match &result {
                Ok(made) => tree.new_targets(directory, &made.object, made.is_altered),
                Err(_) => Vec::new(),
            };
            let result = result.map(|made| made.created());
            (Changed { result, wcc }, targets)
        })
        .await
    }

    async fn make(
        &self,
        caller: &Credentials,
        directory: &FileHandle,
        name: &[u8],
        make: Make,
        attributes: &SetAttributes,
    ) -> Changed<Created> {
        let (name, attributes) = (name.to_vec(), *attributes);
        self.making(caller, directory, move |tree, directory, caller| {
            tree.make(directory, caller, &name, &make, &attributes)
        })
        .await
    }

    async fn removing(
        &self,
        caller: &Credentials,
        directory: &FileHandle,
        name: &[u8],
        flags: AtFlags,
    ) -> Changed<()> {
        let name = name.to_vec();
        self.changing(caller, directory, move |tree, directory, caller| {
            let removed = tree.remove(directory, caller, &name, flags);
            (removed, tree.names_targets(&[directory]))
        })
        .await
    }

    fn may_commit(&self, caller: &Credentials, object: &Object) -> Result<(), Status> {
        object.require_regular()?;
        let attributes = object.attributes(&self.tree)?;
        object.require_write(&self.tree, caller, &attributes)
    }

    /// LOOKUP in a directory that was looked at.
    async fn lookup_object(
        &self,
        caller: &Credentials,
        directory: &Arc<Object>,
        looked: &Look,
        name: &[u8],
    ) -> Result<(FileHandle, Attributes), Status> {
        directory.require_directory()?;
        let now = &looked.attributes;
        match name {
            b"." => return Ok((directory.handle, *now)),
            b".." => {
                let (caller, directory) = (caller.clone(), Arc::clone(directory));
                let (parent, attributes) = self
                    .lanes
                    .look_up(move |tree| tree.lookup_parent(&directory, &caller))
                    .await??;
                return Ok((parent.handle, attributes));
            }
            name => super::lookup::check_name(name)?,
        }
        if let Some(child) = self.tree.lookup_known(directory, now, caller, name)?
            && let Ok(look) = (self.snapshots).look_behind(looked.number, &child, &self.tree)
        {
            return Ok((child.handle, look.attributes));
        }
        let valid_at = validity(now);
        let found = match (self.tree).lookup(directory, caller, name, valid_at, Wait::No)? {
            Some(found) => Some(found),
            None => {
                let (caller, directory, name) =
                    (caller.clone(), Arc::clone(directory), name.to_vec());
                self.lanes
                    .look_up(move |tree| {
                        tree.lookup(&directory, &caller, &name, valid_at, Wait::Yes)
                    })
                    .await??
            }
        };
        self.lanes.drop_beside(self.tree.overdue_retired());
        let (object, attributes) = found.ok_or(Status::Jukebox)?;
        Ok((object.handle, attributes))
    }
}

/// Closes unused descriptors for writing, so that local programs can execute the files, and objects whose last name
/// local programs removed, so that their space is freed.
async fn sweep(tree: Weak<LocalTree>, runtime: Handle) {
    loop {
        gannet_runtime::sleep(&runtime, WRITE_DESCRIPTOR_IDLE).await;
        let Some(tree) = tree.upgrade() else {
            return;
        };
        let swept = gannet_runtime::run_blocking(&runtime, move || tree.sweep()).await;
        if swept.is_err() {
            return;
        }
    }
}

/// Reads until `room` is full or the file ends; bytes read.
fn fill(file: &dyn FileSource, offset: u64, room: &mut [u8]) -> Result<u32, Status> {
    let mut filled = 0;
    while let Some(rest) = room.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        match file.read_at(offset + filled as u64, rest) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(error) => return Err(status(Errno::from_io_error(&error).unwrap_or(Errno::IO))),
        }
    }
    Ok(u32::try_from(filled).unwrap_or(u32::MAX))
}

/// The result of a read of `filled` bytes; fewer than in `reply` if the file became shorter meanwhile.
fn brought(reply: &ReadReply, filled: u32) -> BytesRead {
    BytesRead {
        count: filled,
        eof: reply.eof || filled < reply.count,
        attributes: Some(reply.attributes),
    }
}

impl Vfs for LocalStore {
    fn root(&self) -> FileHandle {
        self.tree.root_object.handle
    }

    fn label(&self, file: &FileHandle) -> Option<Vec<u8>> {
        self.tree.path_of(file)
    }

    fn requested_before(&self, moment: u64) {
        self.snapshots.requested_before(moment);
    }

    async fn resolve(&self, cred: &Credentials, path: &[&[u8]]) -> Result<FileHandle, Status> {
        let mut handle = self.root();
        let mut kind = FileKind::Directory;
        for name in path {
            let directory = self.object(&handle).await?;
            let looked = self.snapshots.look_behind(0, &directory, &self.tree)?;
            let found = self.lookup_object(cred, &directory, &looked, name).await;
            let (found, attributes) = found?;
            (handle, kind) = (found, attributes.kind);
        }
        match kind {
            FileKind::Directory => Ok(handle),
            _ => Err(Status::Notdir),
        }
    }

    async fn attributes(&self, file: &FileHandle) -> Result<Attributes, Status> {
        self.snapshots.of(&self.object(file).await?, &self.tree)
    }

    async fn set_attributes(
        &self,
        cred: &Credentials,
        file: &FileHandle,
        change: &SetAttributes,
        guard: Option<Time>,
    ) -> Changed<()> {
        let change = *change;
        self.changing(cred, file, move |tree, object, caller| {
            let set = tree.set_attributes(object, caller, &change, guard);
            (set, tree.attributes_targets(object))
        })
        .await
    }

    async fn lookup(
        &self,
        cred: &Credentials,
        directory: &FileHandle,
        name: &[u8],
    ) -> (Result<(FileHandle, Attributes), Status>, Option<Attributes>) {
        let directory = match self.object(directory).await {
            Ok(directory) => directory,
            Err(reason) => return (Err(reason), None),
        };
        match self.snapshots.look_behind(0, &directory, &self.tree) {
            Ok(looked) => {
                let found = self.lookup_object(cred, &directory, &looked, name).await;
                (found, Some(looked.attributes))
            }
            Err(reason) => (Err(reason), None),
        }
    }

    async fn access(
        &self,
        cred: &Credentials,
        file: &FileHandle,
        wanted: AccessMask,
    ) -> Result<(AccessMask, Attributes), Status> {
        let object = self.object(file).await?;
        let attributes = self.snapshots.of(&object, &self.tree)?;
        let bits = Rights::for_mask(object.kind, wanted);
        let rights = object.rights(&self.tree, cred, &attributes, bits)?;
        Ok((rights.mask(object.kind, wanted), attributes))
    }

    async fn read_link(
        &self,
        _cred: &Credentials,
        file: &FileHandle,
    ) -> Result<(Vec<u8>, Attributes), Status> {
        let object = self.object(file).await?;
        if object.kind != FileKind::Symlink {
            return Err(Status::Inval);
        }
        let attributes = self.snapshots.of(&object, &self.tree)?;
        let read = |object: &Object| {
            let text = rustix::fs::readlinkat(object.descriptor(), "", Vec::new());
            text.map(std::ffi::CString::into_bytes).map_err(status)
        };
        let text = if attributes.size < SYMLINK_INLINE_MAX {
            read(&object)?
        } else {
            self.lanes.run_beside(move |_| read(&object)).await??
        };
        Ok((text, attributes))
    }

    async fn read(
        &self,
        cred: &Credentials,
        file: &FileHandle,
        offset: u64,
        count: u32,
    ) -> Result<ReadReply, Status> {
        let object = self.object(file).await?;
        object.require_regular()?;
        let attributes = self.snapshots.of(&object, &self.tree)?;
        object.require_read(&self.tree, cred, &attributes)?;
        let file = match object.open_for_reading() {
            Some(file) => file,
            None => {
                let file = self.tree.readable(&object, cred)?;
                self.lanes.drop_beside(self.tree.overdue_retired());
                file
            }
        };
        let left = attributes.size.saturating_sub(offset);
        let count = count.min(u32::try_from(left).unwrap_or(u32::MAX));
        Ok(ReadReply {
            file,
            count,
            eof: u64::from(count) == left,
            attributes,
        })
    }

    async fn read_into(
        &self,
        cred: &Credentials,
        file: &FileHandle,
        offset: u64,
        count: u32,
        mut buffer: Buffer,
    ) -> (Result<BytesRead, Status>, Option<Buffer>) {
        let count = count.min(u32::try_from(buffer.len()).unwrap_or(u32::MAX));
        let reply = match self.read(cred, file, offset, count).await {
            Ok(reply) => reply,
            Err(reason) => return (Err(reason), Some(buffer)),
        };
        let room = buffer.get_mut(..reply.count as usize).unwrap_or_default();
        // Bytes in the page cache are copied without another thread.
        if reply.file.try_read_at(offset, room).ok() == Some(room.len()) {
            return (Ok(brought(&reply, reply.count)), Some(buffer));
        }
        let read = self.lanes.run_beside(move |_| {
            let room = buffer.get_mut(..reply.count as usize).unwrap_or_default();
            let filled = fill(&*reply.file, offset, room);
            (filled.map(|filled| brought(&reply, filled)), Some(buffer))
        });
        read.await.unwrap_or_else(|reason| (Err(reason), None))
    }

    async fn write_and_return(
        &self,
        cred: &Credentials,
        file: &FileHandle,
        offset: u64,
        data: Buffer,
        range: Range<usize>,
        stability: Stability,
    ) -> (Changed<WriteDone>, Option<Buffer>) {
        let object = match self.object(file).await {
            Ok(object) => object,
            Err(reason) => return (failed(reason), None),
        };
        if data.get(range.clone()).is_none() {
            return (failed(Status::Inval), None);
        }
        let written = Arc::clone(&object);
        let (mut changed, data) = self
            .lanes
            .run(object.fileid, cred, move |tree, caller| {
                let bytes = data.get(range).unwrap_or_default();
                (tree.write(&written, caller, offset, bytes), Some(data))
            })
            .await
            .unwrap_or_else(|reason| (failed(reason), None));
        if stability == Stability::Unstable {
            return (changed, data);
        }
        if let Ok(mut done) = changed.result {
            // Beside the lane: other writes need not wait for the disk.
            let synced = self.syncs.sync(cred, Target::Object(object), stability);
            let kept = synced.await.and_then(|()| self.tree.require_kept(&done));
            done.committed = stability;
            changed.result = kept.map(|()| done);
        }
        (changed, data)
    }

    async fn commit(
        &self,
        cred: &Credentials,
        file: &FileHandle,
        _offset: u64,
        _count: u32,
    ) -> Changed<Commit> {
        let object = match self.object(file).await {
            Ok(object) => object,
            Err(reason) => return failed(reason),
        };
        let result = match self.may_commit(cred, &object) {
            Ok(()) => {
                let target = Target::Object(Arc::clone(&object));
                let synced = self.syncs.sync(cred, target, Stability::FileSync);
                // Read after the sync: one that fails changes it.
                synced.await.map(|()| Commit {
                    verifier: self.write_verifier(),
                })
            }
            Err(reason) => Err(reason),
        };
        Changed {
            result,
            wcc: Wcc {
                before: None,
                after: object.attributes(&self.tree).ok(),
            },
        }
    }

    async fn create(
        &self,
        cred: &Credentials,
        directory: &FileHandle,
        name: &[u8],
        mode: &CreateMode,
    ) -> Changed<Created> {
        let (name, mode) = (name.to_vec(), *mode);
        self.making(cred, directory, move |tree, directory, caller| {
            tree.create(directory, caller, &name, &mode)
        })
        .await
    }

    async fn make_directory(
        &self,
        cred: &Credentials,
        directory: &FileHandle,
        name: &[u8],
        attributes: &SetAttributes,
    ) -> Changed<Created> {
        self.make(cred, directory, name, Make::Directory, attributes)
            .await
    }

    async fn make_symlink(
        &self,
        cred: &Credentials,
        directory: &FileHandle,
        name: &[u8],
        target: &[u8],
        attributes: &SetAttributes,
    ) -> Changed<Created> {
        let make = Make::Symlink(target.to_vec());
        self.make(cred, directory, name, make, attributes).await
    }

    async fn make_node(
        &self,
        cred: &Credentials,
        directory: &FileHandle,
        name: &[u8],
        kind: NodeKind,
        attributes: &SetAttributes,
    ) -> Changed<Created> {
        self.make(cred, directory, name, Make::Node(kind), attributes)
            .await
    }

    async fn remove(&self, cred: &Credentials, directory: &FileHandle, name: &[u8]) -> Changed<()> {
        self.removing(cred, directory, name, AtFlags::empty()).await
    }

    async fn remove_directory(
        &self,
        cred: &Credentials,
        directory: &FileHandle,
        name: &[u8],
    ) -> Changed<()> {
        self.removing(cred, directory, name, AtFlags::REMOVEDIR)
            .await
    }

    async fn rename(
        &self,
        cred: &Credentials,
        from: EntryName<'_>,
        to: EntryName<'_>,
    ) -> (Result<(), Status>, Wcc, Wcc) {
        let objects = match (
            self.object(from.directory).await,
            self.object(to.directory).await,
        ) {
            (Ok(from), Ok(to)) => (from, to),
            (Err(reason), _) | (_, Err(reason)) => {
                return (Err(reason), Wcc::default(), Wcc::default());
            }
        };
        let (old, new) = (from.name.to_vec(), to.name.to_vec());
        let run = self
            .lanes
            .run(objects.0.fileid, cred, move |tree, caller| {
                let (from, to) = &objects;
                let renamed = tree.rename(caller, from, &old, to, &new);
                let targets = if from.handle == to.handle {
                    tree.names_targets(&[to])
                } else {
                    tree.names_targets(&[to, from])
                };
                (renamed, targets)
            })
            .await;
        match run {
            Ok(((Ok(()), from, to), targets)) => {
                (self.syncs.sync_all(cred, targets).await, from, to)
            }
            Ok((failed, _)) => failed,
            Err(reason) => (Err(reason), Wcc::default(), Wcc::default()),
        }
    }

    async fn link(
        &self,
        cred: &Credentials,
        file: &FileHandle,
        directory: &FileHandle,
        name: &[u8],
    ) -> (Changed<()>, Option<Attributes>) {
        let file = match self.object(file).await {
            Ok(file) => file,
            Err(reason) => return (failed(reason), None),
        };
        let (name, linked) = (name.to_vec(), Arc::clone(&file));
        let changed = self
            .changing(cred, directory, move |tree, directory, caller| {
                let changed = tree.link(caller, &linked, directory, &name);
                (changed, tree.names_targets(&[directory]))
            })
            .await;
        (changed, file.attributes(&self.tree).ok())
    }

    async fn read_directory(
        &self,
        cred: &Credentials,
        directory: &FileHandle,
        cookie: u64,
        _verifier: Verifier,
        entries: &mut dyn Entries,
    ) -> Result<DirectoryPage, Status> {
        let directory = self.object(directory).await?;
        directory.require_directory()?;
        let attributes = directory.attributes(&self.tree)?;
        let may = |bits| {
            let rights = directory.rights(&self.tree, cred, &attributes, bits)?;
            Ok(rights.has(bits))
        };
        if !may(Rights::READ)? {
            return Err(Status::Acces);
        }
        let objects = entries.wants_objects() && may(Rights::EXECUTE)?;
        let asked = Instant::now();
        let mut after = cookie;
        let eof = 'windows: loop {
            let listing = match current(&directory, after, attributes.change_time) {
                Some(listing) => listing,
                None => {
                    let directory = Arc::clone(&directory);
                    let room = objects.then(|| entries.room());
                    self.lanes
                        .run_ahead(move |tree, answer| {
                            tree.list_page(&directory, after, room, answer);
                        })
                        .await?
                }
            };
            let mut index = listing.position(after).ok_or(Status::BadCookie)?;
            loop {
                match listing.serve(&self.tree, index, objects, asked, entries) {
                    Served::Full => break 'windows false,
                    Served::End => break 'windows true,
                    Served::Window(cookie) => {
                        after = cookie;
                        continue 'windows;
                    }
                    Served::Wanting(from) => {
                        index = from;
                        let (directory, listing) = (Arc::clone(&directory), Arc::clone(&listing));
                        let room = entries.room();
                        self.lanes
                            .run_ahead(move |tree, answer| {
                                tree.fill_page(&directory, listing, from, room, answer);
                            })
                            .await?;
                    }
                }
            }
        };
        Ok(DirectoryPage {
            attributes,
            eof,
            // Cookies are the kernel's and never go stale.
            verifier: Verifier::default(),
        })
    }

    async fn usage(&self, file: &FileHandle) -> Result<FileSystemUsage, Status> {
        let object = self.object(file).await?;
        let volume = self
            .lanes
            .run_beside(move |_| rustix::fs::fstatvfs(object.descriptor()))
            .await?
            .map_err(status)?;
        let bytes = |blocks: u64| blocks.saturating_mul(volume.f_frsize);
        Ok(FileSystemUsage {
            bytes_total: bytes(volume.f_blocks),
            bytes_free: bytes(volume.f_bfree),
            bytes_available: bytes(volume.f_bavail),
            files_total: volume.f_files,
            files_free: volume.f_ffree,
            files_available: volume.f_favail,
        })
    }

    fn limits(&self) -> FileSystemLimits {
        FileSystemLimits {
            file_size_max: self.tree.file_size_max,
            // Fewer than any common file system allows; clients only show it.
            link_max: 32_000,
            name_max: NAME_MAX as u32,
            time_delta: Time {
                seconds: 0,
                nanoseconds: 1,
            },
        }
    }

    fn write_verifier(&self) -> Verifier {
        self.tree.write_verifier()
    }
}
