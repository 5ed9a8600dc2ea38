//! A file system in memory, with faults to order.

use gannet_fabric::Buffer;
use gannet_runtime::FileSource;
use gannet_vfs::*;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::rc::Rc;
use std::sync::{Arc, Mutex};

const PAGE: u64 = 4096;
pub(crate) const FILE_SIZE_MAX: u64 = (1 << 63) - 1;

/// The content of a file: pages that were written, and what of it would survive a crash.
#[derive(Default)]
pub(crate) struct Content {
    state: Mutex<ContentState>,
    /// Reads that must not wait find nothing.
    cold: std::sync::atomic::AtomicBool,
}

#[derive(Default, Clone)]
struct ContentState {
    size: u64,
    pages: BTreeMap<u64, Vec<u8>>,
    durable: Option<Box<ContentState>>,
}

impl ContentState {
    fn read(&self, offset: u64, target: &mut [u8]) -> usize {
        let count = self.size.saturating_sub(offset).min(target.len() as u64) as usize;
        let mut done = 0;
        while done < count {
            let at = offset + done as u64;
            let start = (at % PAGE) as usize;
            let len = (PAGE as usize - start).min(count - done);
            match self.pages.get(&(at / PAGE)) {
                Some(page) => target[done..done + len].copy_from_slice(&page[start..start + len]),
                None => target[done..done + len].fill(0),
            }
            done += len;
        }
        count
    }

    fn write(&mut self, offset: u64, data: &[u8]) {
        let mut done = 0;
        while done < data.len() {
            let at = offset + done as u64;
            let start = (at % PAGE) as usize;
            let len = (PAGE as usize - start).min(data.len() - done);
            let page = self.pages.entry(at / PAGE);
            let page = page.or_insert_with(|| vec![0; PAGE as usize]);
            page[start..start + len].copy_from_slice(&data[done..done + len]);
            done += len;
        }
        if !data.is_empty() {
            self.size = self.size.max(offset + data.len() as u64);
        }
    }

    fn resize(&mut self, size: u64) {
        self.pages.retain(|page, _| page * PAGE < size);
        if let Some(page) = self.pages.get_mut(&(size / PAGE)) {
            page[(size % PAGE) as usize..].fill(0);
        }
        self.size = size;
    }

    fn settle(&mut self) {
        self.durable = None;
        self.durable = Some(Box::new(self.clone()));
    }
}

impl FileSource for Content {
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    fn try_read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        if self.cold.load(std::sync::atomic::Ordering::Relaxed) {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        self.read_at(offset, buffer)
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        Ok(self.state.lock().unwrap().read(offset, buffer))
    }

    fn is_resident(&self, _: u64, _: u64) -> bool {
        !self.cold.load(std::sync::atomic::Ordering::Relaxed)
    }
}

enum Body {
    File(Arc<Content>),
    Directory(Names),
    Symlink(Vec<u8>),
    Other,
}

/// Entries by cookie, and cookies by name.
#[derive(Default)]
struct Names {
    entries: BTreeMap<u64, (Vec<u8>, u64)>,
    cookies: BTreeMap<Vec<u8>, u64>,
}

struct Inode {
    attributes: Attributes,
    body: Body,
    parent: u64,
    exclusive: Option<Verifier>,
}

/// Faults to be met, each until it is switched off or used up.
#[derive(Default)]
pub(crate) struct Faults {
    /// So many operations are put off.
    pub(crate) busy: Cell<u32>,
    /// READs and WRITEs move at most so much.
    pub(crate) transfer_max: Cell<Option<u32>>,
    /// Listings beyond this cookie find it stale, once.
    pub(crate) stale_cookie: Cell<Option<u64>>,
    /// READDIRPLUS gives neither handles nor attributes.
    pub(crate) bare_listings: Cell<bool>,
    /// So many COMMITs find that the server has crashed just before.
    pub(crate) crash_before_commits: Cell<u32>,
}

struct State {
    salt: u32,
    inodes: RefCell<BTreeMap<u64, Inode>>,
    next: Cell<u64>,
    clock: Cell<u32>,
    verifier: Cell<u64>,
    faults: Faults,
    /// Whom the last operation was done for.
    last: RefCell<Option<Credentials>>,
}

/// The store. Clones share it.
#[derive(Clone)]
pub(crate) struct MemoryStore {
    state: Rc<State>,
}

const ROOT: u64 = 2;

impl MemoryStore {
    /// An empty root directory that anybody may write to; handles of stores with another `salt` are foreign.
    pub(crate) fn new(salt: u32) -> MemoryStore {
        let state = State {
            salt,
            inodes: RefCell::default(),
            next: Cell::new(ROOT),
            clock: Cell::new(1),
            verifier: Cell::new(1),
            faults: Faults::default(),
            last: RefCell::default(),
        };
        let store = MemoryStore {
            state: Rc::new(state),
        };
        let root = Credentials::new(0, 0, &[]);
        store.add(
            &root,
            ROOT,
            FileKind::Directory,
            0o777,
            Body::Directory(Names::default()),
        );
        store
    }

    pub(crate) fn faults(&self) -> &Faults {
        &self.state.faults
    }

    pub(crate) fn last_caller(&self) -> Credentials {
        self.state.last.borrow().clone().unwrap()
    }

    /// Loses what is not durable, and starts another life.
    pub(crate) fn crash(&self) {
        for inode in self.state.inodes.borrow_mut().values_mut() {
            if let Body::File(content) = &inode.body {
                let mut state = content.state.lock().unwrap();
                *state = state
                    .durable
                    .take()
                    .map_or_else(ContentState::default, |kept| *kept);
                state.settle();
                inode.attributes.size = state.size;
            }
        }
        self.state.verifier.set(self.state.verifier.get() + 1);
    }

    /// Lets reads that must not wait fail, or not.
    pub(crate) fn set_cold(&self, cold: bool) {
        for inode in self.state.inodes.borrow().values() {
            if let Body::File(content) = &inode.body {
                content
                    .cold
                    .store(cold, std::sync::atomic::Ordering::Relaxed);
            }
        }
    }

    /// Pages that exist of a file, by its number.
    pub(crate) fn pages(&self, fileid: u64) -> usize {
        match &self.state.inodes.borrow()[&fileid].body {
            Body::File(content) => content.state.lock().unwrap().pages.len(),
            _ => 0,
        }
    }

    fn now(&self) -> Time {
        self.state.clock.set(self.state.clock.get() + 1);
        Time {
            seconds: self.state.clock.get(),
            nanoseconds: 0,
        }
    }

    fn add(
        &self,
        cred: &Credentials,
        parent: u64,
        kind: FileKind,
        mode: u32,
        body: Body,
    ) -> (FileHandle, Attributes) {
        let fileid = self.state.next.get();
        self.state.next.set(fileid + 1);
        let now = self.now();
        let attributes = Attributes {
            kind,
            mode,
            link_count: 1,
            uid: cred.uid,
            gid: cred.gid,
            size: 0,
            used: 0,
            device: (0, 0),
            fsid: u64::from(self.state.salt),
            fileid,
            access_time: now,
            modify_time: now,
            change_time: now,
        };
        let inode = Inode {
            attributes,
            body,
            parent,
            exclusive: None,
        };
        self.state.inodes.borrow_mut().insert(fileid, inode);
        (self.handle(fileid), attributes)
    }

    fn handle(&self, fileid: u64) -> FileHandle {
        let mut bytes = self.state.salt.to_be_bytes().to_vec();
        bytes.extend(fileid.to_be_bytes());
        FileHandle::new(&bytes).unwrap()
    }

    fn number(&self, handle: &FileHandle) -> Result<u64, Status> {
        let (salt, fileid) = handle
            .as_bytes()
            .split_first_chunk::<4>()
            .ok_or(Status::Badhandle)?;
        let fileid: [u8; 8] = fileid.try_into().map_err(|_| Status::Badhandle)?;
        if u32::from_be_bytes(*salt) != self.state.salt {
            return Err(Status::Badhandle);
        }
        let fileid = u64::from_be_bytes(fileid);
        if !self.state.inodes.borrow().contains_key(&fileid) {
            return Err(Status::Stale);
        }
        Ok(fileid)
    }

    fn enter(&self, cred: &Credentials, handle: &FileHandle) -> Result<u64, Status> {
        *self.state.last.borrow_mut() = Some(cred.clone());
        let busy = &self.state.faults.busy;
        if busy.get() > 0 {
            busy.set(busy.get() - 1);
            return Err(Status::Jukebox);
        }
        self.number(handle)
    }

    fn attributes_of(&self, fileid: u64) -> Attributes {
        self.state.inodes.borrow()[&fileid].attributes
    }

    /// Rights as bits of a mode: 4 read, 2 write, 1 execute.
    fn rights(cred: &Credentials, attributes: &Attributes) -> u32 {
        if cred.uid == 0 {
            return 7;
        }
        let shift = if cred.uid == attributes.uid {
            6
        } else if cred.gid == attributes.gid || cred.groups().contains(&attributes.gid) {
            3
        } else {
            0
        };
        attributes.mode >> shift & 7
    }

    fn directory(
        &self,
        cred: &Credentials,
        handle: &FileHandle,
        right: u32,
    ) -> Result<u64, Status> {
        let fileid = self.enter(cred, handle)?;
        let attributes = self.attributes_of(fileid);
        if attributes.kind != FileKind::Directory {
            return Err(Status::Notdir);
        }
        if Self::rights(cred, &attributes) & right != right {
            return Err(Status::Acces);
        }
        Ok(fileid)
    }

    fn child(&self, directory: u64, name: &[u8]) -> Result<(u64, u64), Status> {
        let inodes = self.state.inodes.borrow();
        let Body::Directory(names) = &inodes[&directory].body else {
            return Err(Status::Notdir);
        };
        let cookie = names.cookies.get(name).ok_or(Status::Noent)?;
        Ok((*cookie, names.entries[cookie].1))
    }

    fn insert(&self, directory: u64, name: &[u8], fileid: u64) {
        let now = self.now();
        let mut inodes = self.state.inodes.borrow_mut();
        let inode = inodes.get_mut(&directory).unwrap();
        if let Body::Directory(names) = &mut inode.body {
            let last = names.entries.last_key_value();
            let cookie = last.map_or(3, |(last, _)| last + 1);
            names.entries.insert(cookie, (name.to_vec(), fileid));
            names.cookies.insert(name.to_vec(), cookie);
            inode.attributes.modify_time = now;
            inode.attributes.change_time = now;
        }
    }

    fn take(&self, directory: u64, cookie: u64) {
        let now = self.now();
        let mut inodes = self.state.inodes.borrow_mut();
        let inode = inodes.get_mut(&directory).unwrap();
        if let Body::Directory(names) = &mut inode.body {
            let (name, _) = names.entries.remove(&cookie).unwrap();
            names.cookies.remove(&name);
            inode.attributes.modify_time = now;
            inode.attributes.change_time = now;
        }
    }

    fn unlink(&self, fileid: u64) {
        let mut inodes = self.state.inodes.borrow_mut();
        let inode = inodes.get_mut(&fileid).unwrap();
        inode.attributes.link_count -= 1;
        if inode.attributes.link_count == 0 {
            inodes.remove(&fileid);
        }
    }

    fn is_empty(&self, fileid: u64) -> bool {
        match &self.state.inodes.borrow()[&fileid].body {
            Body::Directory(names) => names.entries.is_empty(),
            _ => true,
        }
    }

    fn check_name(name: &[u8]) -> Result<(), Status> {
        match name {
            b"" => Err(Status::Acces),
            b"." | b".." => Err(Status::Exist),
            _ if name.len() > limits::NAME_MAX => Err(Status::Nametoolong),
            _ if name.contains(&b'/') || name.contains(&0) => Err(Status::Acces),
            _ => Ok(()),
        }
    }

    fn wcc(&self, before: Option<Attributes>, handle: &FileHandle) -> Wcc {
        let after = self
            .number(handle)
            .ok()
            .map(|fileid| self.attributes_of(fileid));
        Wcc {
            before: before.map(|attributes| attributes.wcc()),
            after,
        }
    }

    fn changing<T>(
        &self,
        handle: &FileHandle,
        change: impl FnOnce() -> Result<T, Status>,
    ) -> Changed<T> {
        let before = self
            .number(handle)
            .ok()
            .map(|fileid| self.attributes_of(fileid));
        let result = change();
        let wcc = self.wcc(before, handle);
        Changed { result, wcc }
    }

    fn apply(&self, fileid: u64, change: &SetAttributes) {
        let now = self.now();
        let mut inodes = self.state.inodes.borrow_mut();
        let inode = inodes.get_mut(&fileid).unwrap();
        if let (Some(size), Body::File(content)) = (change.size, &inode.body) {
            let mut state = content.state.lock().unwrap();
            state.resize(size);
            state.settle();
            inode.attributes.size = size;
            inode.attributes.modify_time = now;
        }
        let attributes = &mut inode.attributes;
        attributes.mode = change.mode.unwrap_or(attributes.mode);
        attributes.uid = change.uid.unwrap_or(attributes.uid);
        attributes.gid = change.gid.unwrap_or(attributes.gid);
        let time = |set, old| match set {
            SetTime::Keep => old,
            SetTime::Now => now,
            SetTime::To(time) => time,
        };
        attributes.access_time = time(change.access_time, attributes.access_time);
        attributes.modify_time = time(change.modify_time, attributes.modify_time);
        attributes.change_time = now;
    }

    fn make(
        &self,
        cred: &Credentials,
        directory: &FileHandle,
        name: &[u8],
        kind: FileKind,
        body: Body,
        attributes: &SetAttributes,
    ) -> Changed<Created> {
        self.changing(directory, || {
            let parent = self.directory(cred, directory, 3)?;
            Self::check_name(name)?;
            if self.child(parent, name).is_ok() {
                return Err(Status::Exist);
            }
            let (handle, made) = self.add(cred, parent, kind, 0o644, body);
            self.apply(made.fileid, attributes);
            self.insert(parent, name, made.fileid);
            let attributes = Some(self.attributes_of(made.fileid));
            Ok(Created { handle, attributes })
        })
    }
}

impl Vfs for MemoryStore {
    fn root(&self) -> FileHandle {
        self.handle(ROOT)
    }

    async fn resolve(&self, _: &Credentials, path: &[&[u8]]) -> Result<FileHandle, Status> {
        let mut at = ROOT;
        for name in path {
            at = self.child(at, name)?.1;
            if self.attributes_of(at).kind != FileKind::Directory {
                return Err(Status::Notdir);
            }
        }
        Ok(self.handle(at))
    }

    async fn attributes(&self, file: &FileHandle) -> Result<Attributes, Status> {
        Ok(self.attributes_of(self.number(file)?))
    }

    async fn set_attributes(
        &self,
        cred: &Credentials,
        file: &FileHandle,
        change: &SetAttributes,
        guard: Option<Time>,
    ) -> Changed<()> {
        self.changing(file, || {
            let fileid = self.enter(cred, file)?;
            let attributes = self.attributes_of(fileid);
            if guard.is_some_and(|guard| guard != attributes.change_time) {
                return Err(Status::NotSync);
            }
            if cred.uid != 0 && cred.uid != attributes.uid {
                return Err(Status::Perm);
            }
            if change.size.is_some() && attributes.kind != FileKind::Regular {
                return Err(Status::Isdir);
            }
            self.apply(fileid, change);
            Ok(())
        })
    }

    async fn lookup(
        &self,
        cred: &Credentials,
        directory: &FileHandle,
        name: &[u8],
    ) -> Result<(FileHandle, Attributes), Status> {
        let parent = self.directory(cred, directory, 1)?;
        let fileid = match name {
            b"." => parent,
            b".." => self.state.inodes.borrow()[&parent].parent,
            _ if name.len() > limits::NAME_MAX => return Err(Status::Nametoolong),
            _ => self.child(parent, name)?.1,
        };
        Ok((self.handle(fileid), self.attributes_of(fileid)))
    }

    async fn access(
        &self,
        cred: &Credentials,
        file: &FileHandle,
        wanted: AccessMask,
    ) -> Result<(AccessMask, Attributes), Status> {
        let attributes = self.attributes_of(self.enter(cred, file)?);
        let rights = Self::rights(cred, &attributes);
        let is_directory = attributes.kind == FileKind::Directory;
        let mut granted = 0;
        if rights & 4 != 0 {
            granted |= AccessMask::READ;
        }
        if rights & 2 != 0 {
            granted |= AccessMask::MODIFY | AccessMask::EXTEND;
            granted |= if is_directory { AccessMask::DELETE } else { 0 };
        }
        if rights & 1 != 0 {
            granted |= if is_directory {
                AccessMask::LOOKUP
            } else {
                AccessMask::EXECUTE
            };
        }
        Ok((AccessMask(granted & wanted.0), attributes))
    }

    async fn read_link(
        &self,
        cred: &Credentials,
        file: &FileHandle,
    ) -> Result<(Vec<u8>, Attributes), Status> {
        let fileid = self.enter(cred, file)?;
        match &self.state.inodes.borrow()[&fileid].body {
            Body::Symlink(target) => Ok((target.clone(), self.attributes_of(fileid))),
            _ => Err(Status::Inval),
        }
    }

    async fn read(
        &self,
        cred: &Credentials,
        file: &FileHandle,
        offset: u64,
        count: u32,
    ) -> Result<ReadReply, Status> {
        let fileid = self.enter(cred, file)?;
        let attributes = self.attributes_of(fileid);
        if Self::rights(cred, &attributes) & 5 == 0 && cred.uid != attributes.uid {
            return Err(Status::Acces);
        }
        let inodes = self.state.inodes.borrow();
        let content = match &inodes[&fileid].body {
            Body::File(content) => Arc::clone(content),
            Body::Directory(_) => return Err(Status::Isdir),
            _ => return Err(Status::Inval),
        };
        let most = self.state.faults.transfer_max.get().unwrap_or(u32::MAX);
        let left = attributes.size.saturating_sub(offset);
        let count = u64::from(count.min(most)).min(left) as u32;
        Ok(ReadReply {
            file: content,
            count,
            eof: offset + u64::from(count) >= attributes.size,
            attributes,
        })
    }

    async fn write(
        &self,
        cred: &Credentials,
        file: &FileHandle,
        offset: u64,
        data: Buffer,
        range: Range<usize>,
        stability: Stability,
    ) -> Changed<WriteDone> {
        self.changing(file, || {
            let fileid = self.enter(cred, file)?;
            let attributes = self.attributes_of(fileid);
            if Self::rights(cred, &attributes) & 2 == 0 && cred.uid != attributes.uid {
                return Err(Status::Acces);
            }
            let most = self.state.faults.transfer_max.get().unwrap_or(u32::MAX);
            let count = (range.len() as u32).min(most);
            let data = &data[range.start..range.start + count as usize];
            let now = self.now();
            let mut inodes = self.state.inodes.borrow_mut();
            let inode = inodes.get_mut(&fileid).unwrap();
            let Body::File(content) = &inode.body else {
                return Err(Status::Inval);
            };
            let mut state = content.state.lock().unwrap();
            state.write(offset, data);
            if stability != Stability::Unstable {
                state.settle();
            }
            inode.attributes.size = state.size;
            inode.attributes.used = state.pages.len() as u64 * PAGE;
            if count > 0 {
                inode.attributes.modify_time = now;
                inode.attributes.change_time = now;
            }
            let verifier = self.write_verifier();
            Ok(WriteDone {
                count,
                committed: stability,
                verifier,
            })
        })
    }

    async fn commit(
        &self,
        cred: &Credentials,
        file: &FileHandle,
        _: u64,
        _: u32,
    ) -> Changed<Commit> {
        let crashes = &self.state.faults.crash_before_commits;
        if crashes.get() > 0 {
            crashes.set(crashes.get() - 1);
            self.crash();
        }
        self.changing(file, || {
            let fileid = self.enter(cred, file)?;
            if let Body::File(content) = &self.state.inodes.borrow()[&fileid].body {
                content.state.lock().unwrap().settle();
            }
            let verifier = self.write_verifier();
            Ok(Commit { verifier })
        })
    }

    async fn create(
        &self,
        cred: &Credentials,
        directory: &FileHandle,
        name: &[u8],
        mode: &CreateMode,
    ) -> Changed<Created> {
        let old = self
            .number(directory)
            .and_then(|parent| self.child(parent, name));
        if let Ok((_, fileid)) = old {
            return self.changing(directory, || {
                self.directory(cred, directory, 1)?;
                let is_regular = self.attributes_of(fileid).kind == FileKind::Regular;
                let exclusive = self.state.inodes.borrow()[&fileid].exclusive;
                match mode {
                    CreateMode::Unchecked(set) if is_regular => {
                        let size = set.size;
                        self.apply(
                            fileid,
                            &SetAttributes {
                                size,
                                ..SetAttributes::default()
                            },
                        );
                    }
                    CreateMode::Exclusive(verifier) if exclusive == Some(*verifier) => {}
                    _ => return Err(Status::Exist),
                }
                let attributes = Some(self.attributes_of(fileid));
                let handle = self.handle(fileid);
                Ok(Created { handle, attributes })
            });
        }
        let (attributes, exclusive) = match mode {
            CreateMode::Unchecked(set) | CreateMode::Guarded(set) => (*set, None),
            CreateMode::Exclusive(verifier) => (SetAttributes::default(), Some(*verifier)),
        };
        let body = Body::File(Arc::default());
        let made = self.make(cred, directory, name, FileKind::Regular, body, &attributes);
        if let Ok(created) = &made.result {
            let fileid = self.number(&created.handle).unwrap();
            self.state
                .inodes
                .borrow_mut()
                .get_mut(&fileid)
                .unwrap()
                .exclusive = exclusive;
        }
        made
    }

    async fn make_directory(
        &self,
        cred: &Credentials,
        directory: &FileHandle,
        name: &[u8],
        attributes: &SetAttributes,
    ) -> Changed<Created> {
        let body = Body::Directory(Names::default());
        self.make(cred, directory, name, FileKind::Directory, body, attributes)
    }

    async fn make_symlink(
        &self,
        cred: &Credentials,
        directory: &FileHandle,
        name: &[u8],
        target: &[u8],
        attributes: &SetAttributes,
    ) -> Changed<Created> {
        let body = Body::Symlink(target.to_vec());
        self.make(cred, directory, name, FileKind::Symlink, body, attributes)
    }

    async fn make_node(
        &self,
        cred: &Credentials,
        directory: &FileHandle,
        name: &[u8],
        kind: NodeKind,
        attributes: &SetAttributes,
    ) -> Changed<Created> {
        let kind = match kind {
            NodeKind::BlockDevice(..) => FileKind::BlockDevice,
            NodeKind::CharacterDevice(..) => FileKind::CharacterDevice,
            NodeKind::Socket => FileKind::Socket,
            NodeKind::Fifo => FileKind::Fifo,
        };
        self.make(cred, directory, name, kind, Body::Other, attributes)
    }

    async fn remove(&self, cred: &Credentials, directory: &FileHandle, name: &[u8]) -> Changed<()> {
        self.changing(directory, || {
            let parent = self.directory(cred, directory, 3)?;
            let (cookie, fileid) = self.child(parent, name)?;
            if self.attributes_of(fileid).kind == FileKind::Directory {
                return Err(Status::Isdir);
            }
            self.take(parent, cookie);
            self.unlink(fileid);
            Ok(())
        })
    }

    async fn remove_directory(
        &self,
        cred: &Credentials,
        directory: &FileHandle,
        name: &[u8],
    ) -> Changed<()> {
        self.changing(directory, || {
            let parent = self.directory(cred, directory, 3)?;
            let (cookie, fileid) = self.child(parent, name)?;
            if self.attributes_of(fileid).kind != FileKind::Directory {
                return Err(Status::Notdir);
            }
            if !self.is_empty(fileid) {
                return Err(Status::Notempty);
            }
            self.take(parent, cookie);
            self.unlink(fileid);
            Ok(())
        })
    }

    async fn rename(
        &self,
        cred: &Credentials,
        from: (&FileHandle, &[u8]),
        to: (&FileHandle, &[u8]),
    ) -> (Result<(), Status>, Wcc, Wcc) {
        let before = |handle| {
            self.number(handle)
                .ok()
                .map(|fileid| self.attributes_of(fileid))
        };
        let (before_from, before_to) = (before(from.0), before(to.0));
        let rename = || {
            let source = self.directory(cred, from.0, 3)?;
            let target = self.directory(cred, to.0, 3)?;
            Self::check_name(to.1)?;
            let (cookie, fileid) = self.child(source, from.1)?;
            if let Ok((old_cookie, old)) = self.child(target, to.1) {
                if old == fileid {
                    return Ok(());
                }
                if !self.is_empty(old) {
                    return Err(Status::Notempty);
                }
                self.take(target, old_cookie);
                self.unlink(old);
            }
            self.take(source, cookie);
            self.insert(target, to.1, fileid);
            self.state
                .inodes
                .borrow_mut()
                .get_mut(&fileid)
                .unwrap()
                .parent = target;
            Ok(())
        };
        let result = rename();
        (
            result,
            self.wcc(before_from, from.0),
            self.wcc(before_to, to.0),
        )
    }

    async fn link(
        &self,
        cred: &Credentials,
        file: &FileHandle,
        directory: &FileHandle,
        name: &[u8],
    ) -> (Changed<()>, Option<Attributes>) {
        let linked = self.changing(directory, || {
            let fileid = self.enter(cred, file)?;
            let parent = self.directory(cred, directory, 3)?;
            Self::check_name(name)?;
            if self.attributes_of(fileid).kind == FileKind::Directory {
                return Err(Status::Perm);
            }
            if self.child(parent, name).is_ok() {
                return Err(Status::Exist);
            }
            let mut inodes = self.state.inodes.borrow_mut();
            inodes.get_mut(&fileid).unwrap().attributes.link_count += 1;
            drop(inodes);
            self.insert(parent, name, fileid);
            Ok(())
        });
        let attributes = self
            .number(file)
            .ok()
            .map(|fileid| self.attributes_of(fileid));
        (linked, attributes)
    }

    async fn read_directory(
        &self,
        cred: &Credentials,
        directory: &FileHandle,
        cookie: u64,
        _: Verifier,
        entries: &mut dyn Entries,
    ) -> Result<DirectoryPage, Status> {
        let fileid = self.directory(cred, directory, 4)?;
        let faults = &self.state.faults;
        if faults
            .stale_cookie
            .get()
            .is_some_and(|stale| cookie >= stale)
        {
            faults.stale_cookie.set(None);
            return Err(Status::BadCookie);
        }
        let inodes = self.state.inodes.borrow();
        let inode = &inodes[&fileid];
        let Body::Directory(names) = &inode.body else {
            return Err(Status::Notdir);
        };
        let dots = [
            (1, (b".".to_vec(), fileid)),
            (2, (b"..".to_vec(), inode.parent)),
        ];
        let all = dots
            .iter()
            .map(|(at, entry)| (at, entry))
            .chain(&names.entries);
        let mut eof = true;
        for (at, (name, child)) in all.filter(|(at, _)| **at > cookie) {
            let attributes = inodes[child].attributes;
            let wanted = entries.wants_objects() && !faults.bare_listings.get();
            let entry = DirectoryEntry {
                fileid: *child,
                name,
                cookie: *at,
                object: wanted.then(|| (self.handle(*child), attributes)),
            };
            if !entries.push(&entry) {
                eof = false;
                break;
            }
        }
        Ok(DirectoryPage {
            attributes: inode.attributes,
            eof,
            verifier: [0; 8],
        })
    }

    async fn usage(&self, file: &FileHandle) -> Result<FileSystemUsage, Status> {
        self.number(file)?;
        Ok(FileSystemUsage {
            bytes_total: 1 << 40,
            bytes_free: 1 << 39,
            bytes_available: 1 << 38,
            files_total: 1000,
            files_free: 900,
            files_available: 800,
        })
    }

    fn limits(&self) -> FileSystemLimits {
        FileSystemLimits {
            file_size_max: FILE_SIZE_MAX,
            link_max: 32000,
            name_max: 255,
            time_delta: Time {
                seconds: 0,
                nanoseconds: 1,
            },
        }
    }

    fn write_verifier(&self) -> Verifier {
        self.state.verifier.get().to_be_bytes()
    }
}
