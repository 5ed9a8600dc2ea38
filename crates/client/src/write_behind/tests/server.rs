//! A store that only writes, with faults.

use gannet_runtime::{Buffer, yield_now};
use gannet_vfs::{
    AccessMask, Attributes, BytesRead, Changed, Commit, CreateMode, Created, Credentials,
    DirectoryPage, Entries, EntryName, FileHandle, FileSystemLimits, FileSystemUsage, NodeKind,
    ReadReply, SetAttributes, Stability, Status, Time, Verifier, Vfs, Wcc, WriteDone,
};
use std::cell::{Cell, RefCell};
use std::collections::{HashMap, HashSet};
use std::ops::Range;
use tokio::sync::Notify;

/// A WRITE or COMMIT that the server got.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Request {
    pub(super) file: FileHandle,
    pub(super) uid: u32,
    /// The bytes and their offset; `None` for a COMMIT.
    pub(super) written: Option<(u64, Vec<u8>)>,
    /// When the request came and when it was answered, as counts of events; `None` before the answer.
    pub(super) came: u64,
    pub(super) answered: Option<u64>,
}

/// The content of a file.
#[derive(Default, Clone)]
struct Content {
    now: Vec<u8>,
    durable: Vec<u8>,
}

/// Files that hold what is written, from the first WRITE on.
#[derive(Default)]
pub(super) struct Server {
    files: RefCell<HashMap<FileHandle, Content>>,
    incarnation: Cell<u8>,
    events: Cell<u64>,
    requests: RefCell<Vec<Request>>,
    /// Files whose requests get no answer.
    silent: RefCell<HashSet<FileHandle>>,
    spoke: Notify,
    /// Why the server refuses the WRITEs of users, by their numbers.
    refusals: RefCell<HashMap<u32, Status>>,
    /// Why it refuses their COMMITs.
    refused_commits: RefCell<HashMap<u32, Status>>,
    /// True to answer later requests earlier.
    is_shuffled: Cell<bool>,
}

impl Server {
    pub(super) fn set_silent(&self, file: &FileHandle, is_silent: bool) {
        let mut silent = self.silent.borrow_mut();
        if is_silent {
            silent.insert(*file);
        } else {
            silent.remove(file);
            self.spoke.notify_waiters();
        }
    }

    /// Refuses the WRITEs of a user, or does not any more.
    pub(super) fn refuse(&self, uid: u32, status: Option<Status>) {
        let mut refusals = self.refusals.borrow_mut();
        refusals.remove(&uid);
        refusals.extend(status.map(|status| (uid, status)));
    }

    /// Refuses the COMMITs of a user, or does not any more.
    pub(super) fn refuse_commits(&self, uid: u32, status: Option<Status>) {
        let mut refusals = self.refused_commits.borrow_mut();
        refusals.remove(&uid);
        refusals.extend(status.map(|status| (uid, status)));
    }

    pub(super) fn shuffle(&self) {
        self.is_shuffled.set(true);
    }

    /// Loses what is not durable.
    pub(super) fn restart(&self) {
        self.incarnation.set(self.incarnation.get() + 1);
        for content in self.files.borrow_mut().values_mut() {
            content.now = content.durable.clone();
        }
    }

    pub(super) fn content(&self, file: &FileHandle) -> Vec<u8> {
        let files = self.files.borrow();
        files.get(file).map(|it| it.now.clone()).unwrap_or_default()
    }

    pub(super) fn requests(&self) -> Vec<Request> {
        self.requests.borrow().clone()
    }

    fn event(&self) -> u64 {
        self.events.set(self.events.get() + 1);
        self.events.get()
    }

    /// Notes a request, and waits until it may be answered; gives its place in the list.
    async fn take(&self, request: Request) -> usize {
        let (file, index) = (request.file, self.requests.borrow().len());
        self.requests.borrow_mut().push(request);
        for _ in 0..if self.is_shuffled.get() {
            20 - index % 20
        } else {
            1
        } {
            yield_now().await;
        }
        loop {
            let spoke = self.spoke.notified();
            if !self.silent.borrow().contains(&file) {
                return index;
            }
            spoke.await;
        }
    }

    fn answer(&self, index: usize) {
        let now = self.event();
        if let Some(request) = self.requests.borrow_mut().get_mut(index) {
            request.answered = Some(now);
        }
    }

    async fn do_write(
        &self,
        cred: &Credentials,
        file: &FileHandle,
        offset: u64,
        bytes: &[u8],
        stability: Stability,
    ) -> Result<WriteDone, Status> {
        let request = Request {
            file: *file,
            uid: cred.uid,
            written: Some((offset, bytes.to_vec())),
            came: self.event(),
            answered: None,
        };
        let index = self.take(request).await;
        self.answer(index);
        if let Some(status) = self.refusals.borrow().get(&cred.uid) {
            return Err(*status);
        }
        let mut files = self.files.borrow_mut();
        let content = files.entry(*file).or_default();
        let end = offset as usize + bytes.len();
        if content.now.len() < end {
            content.now.resize(end, 0);
        }
        content.now[offset as usize..end].copy_from_slice(bytes);
        if stability != Stability::Unstable {
            content.durable = content.now.clone();
        }
        Ok(WriteDone {
            count: bytes.len() as u32,
            committed: stability,
            verifier: self.write_verifier(),
        })
    }
}

fn no<T>() -> Changed<T> {
    Changed {
        result: Err(Status::Notsupp),
        wcc: Wcc::default(),
    }
}

impl Vfs for Server {
    async fn write_and_return(
        &self,
        cred: &Credentials,
        file: &FileHandle,
        offset: u64,
        data: Buffer,
        range: Range<usize>,
        stability: Stability,
    ) -> (Changed<WriteDone>, Option<Buffer>) {
        let done = self.do_write(cred, file, offset, &data[range], stability);
        let changed = Changed {
            result: done.await,
            wcc: Wcc::default(),
        };
        (changed, Some(data))
    }

    async fn commit(
        &self,
        cred: &Credentials,
        file: &FileHandle,
        _offset: u64,
        _count: u32,
    ) -> Changed<Commit> {
        let request = Request {
            file: *file,
            uid: cred.uid,
            written: None,
            came: self.event(),
            answered: None,
        };
        let index = self.take(request).await;
        self.answer(index);
        if let Some(content) = self.files.borrow_mut().get_mut(file) {
            content.durable = content.now.clone();
        }
        let refused = self.refused_commits.borrow().get(&cred.uid).copied();
        let done = Commit {
            verifier: self.write_verifier(),
        };
        Changed {
            result: refused.map_or(Ok(done), Err),
            wcc: Wcc::default(),
        }
    }

    fn write_verifier(&self) -> Verifier {
        [self.incarnation.get(); 8]
    }

    // Write-behind asks for nothing else.

    fn root(&self) -> FileHandle {
        FileHandle::new(b"root").unwrap()
    }

    async fn resolve(&self, _: &Credentials, _: &[&[u8]]) -> Result<FileHandle, Status> {
        Err(Status::Notsupp)
    }

    async fn attributes(&self, _: &FileHandle) -> Result<Attributes, Status> {
        Err(Status::Notsupp)
    }

    async fn set_attributes(
        &self,
        _: &Credentials,
        _: &FileHandle,
        _: &SetAttributes,
        _: Option<Time>,
    ) -> Changed<()> {
        no()
    }

    async fn lookup(
        &self,
        _: &Credentials,
        _: &FileHandle,
        _: &[u8],
    ) -> (Result<(FileHandle, Attributes), Status>, Option<Attributes>) {
        (Err(Status::Notsupp), None)
    }

    async fn access(
        &self,
        _: &Credentials,
        _: &FileHandle,
        _: AccessMask,
    ) -> Result<(AccessMask, Attributes), Status> {
        Err(Status::Notsupp)
    }

    async fn read_link(
        &self,
        _: &Credentials,
        _: &FileHandle,
    ) -> Result<(Vec<u8>, Attributes), Status> {
        Err(Status::Notsupp)
    }

    async fn read(
        &self,
        _: &Credentials,
        _: &FileHandle,
        _: u64,
        _: u32,
    ) -> Result<ReadReply, Status> {
        Err(Status::Notsupp)
    }

    async fn read_into(
        &self,
        _: &Credentials,
        _: &FileHandle,
        _: u64,
        _: u32,
        buffer: Buffer,
    ) -> (Result<BytesRead, Status>, Option<Buffer>) {
        (Err(Status::Notsupp), Some(buffer))
    }

    async fn create(
        &self,
        _: &Credentials,
        _: &FileHandle,
        _: &[u8],
        _: &CreateMode,
    ) -> Changed<Created> {
        no()
    }

    async fn make_directory(
        &self,
        _: &Credentials,
        _: &FileHandle,
        _: &[u8],
        _: &SetAttributes,
    ) -> Changed<Created> {
        no()
    }

    async fn make_symlink(
        &self,
        _: &Credentials,
        _: &FileHandle,
        _: &[u8],
        _: &[u8],
        _: &SetAttributes,
    ) -> Changed<Created> {
        no()
    }

    async fn make_node(
        &self,
        _: &Credentials,
        _: &FileHandle,
        _: &[u8],
        _: NodeKind,
        _: &SetAttributes,
    ) -> Changed<Created> {
        no()
    }

    async fn remove(&self, _: &Credentials, _: &FileHandle, _: &[u8]) -> Changed<()> {
        no()
    }

    async fn remove_directory(&self, _: &Credentials, _: &FileHandle, _: &[u8]) -> Changed<()> {
        no()
    }

    async fn rename(
        &self,
        _: &Credentials,
        _: EntryName<'_>,
        _: EntryName<'_>,
    ) -> (Result<(), Status>, Wcc, Wcc) {
        (Err(Status::Notsupp), Wcc::default(), Wcc::default())
    }

    async fn link(
        &self,
        _: &Credentials,
        _: &FileHandle,
        _: &FileHandle,
        _: &[u8],
    ) -> (Changed<()>, Option<Attributes>) {
        (no(), None)
    }

    async fn read_directory(
        &self,
        _: &Credentials,
        _: &FileHandle,
        _: u64,
        _: Verifier,
        _: &mut dyn Entries,
    ) -> Result<DirectoryPage, Status> {
        Err(Status::Notsupp)
    }

    async fn usage(&self, _: &FileHandle) -> Result<FileSystemUsage, Status> {
        Err(Status::Notsupp)
    }

    fn limits(&self) -> FileSystemLimits {
        unreachable!("write-behind does not ask for it")
    }
}
