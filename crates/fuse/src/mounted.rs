//! A mounted store on its core: the state that all requests share.

mod ahead;
mod data;
mod files;
mod follow;
mod names;
mod shared;

use crate::ahead::Ahead;
use crate::callers::{Asker, Callers, is_killed};
use crate::convert::file_attr;
use crate::inodes::{Epoch, Fetched, Inode, Inodes};
use crate::limits::{
    ASKED_AGAIN_MAX, AWAY_DEADLINE, BUFFERS_MAX, KeptBounds, LIFE_CHECK_AGE, REQUEST_BYTES_MAX,
    REQUESTS_MAX,
};
use crate::open::OpenTable;
use crate::pages::Pages;
use crate::requests::{Kind, Requests};
use crate::session::{Caching, MountOptions};
use crate::status::errno;
use crate::takings::Takings;
use crate::waiting::Waiting;
use follow::Following;
use fuser::{Errno, FileAttr, Generation};
use gannet_client::write_behind::{FileWrites, Turns, WriteBehind};
use gannet_runtime::stages::{self, Stage, Stopwatch};
use gannet_runtime::{Arena, Handle, IdleWatch, LocalFuture, timeout};
use gannet_vfs::{Attributes, Credentials, FileHandle, Status, Vfs};
use std::cell::{Cell, OnceCell, RefCell};
use std::collections::HashMap;
use std::future::Future;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Semaphore, mpsc};

pub(crate) use data::Data;
pub(crate) use files::{FileUse, Setting};
pub(crate) use names::IfThere;
use names::LettingGo;

/// A request of the kernel, ready to be done on the core.
pub(crate) type Job<V> = Box<dyn FnOnce(Rc<Mounted<V>>) -> LocalFuture<()> + Send>;

/// A mounted store, which stays on one core.
pub(crate) struct Mounted<V> {
    pub(crate) vfs: Rc<V>,
    pub(crate) runtime: Handle,
    pub(crate) options: MountOptions,
    pub(crate) inodes: Rc<RefCell<Inodes>>,
    /// The kernel's pages of files.
    pub(crate) pages: Rc<Pages>,
    /// The writes that the store has not seen or not confirmed.
    pub(crate) writes: Rc<WriteBehind<V, Pages>>,
    pub(crate) open: OpenTable,
    pub(crate) ahead: RefCell<Ahead>,
    callers: Callers,
    /// REMOVE and RENAME hold it shared; the lookup of a process whose open failed with `ESTALE` holds it alone.
    /// Without it a removal under way could delete the file that this lookup reports, and the repeated open would fail
    /// too.
    taking_names: tokio::sync::RwLock<()>,
    takings: Takings,
    /// Directories with hidden names whose removal is under way, one entry each.
    unhiding: RefCell<Vec<FileHandle>>,
    /// Wakes removals of directories that wait for hidden names to go.
    unhidden: tokio::sync::Notify,
    /// Files of removals that failed or were dropped, each with a task: they are let go when they are not in use.
    letting_go: RefCell<HashMap<FileHandle, LettingGo>>,
    /// Removals under way whose files the store is asked to keep, by file.
    keeping: RefCell<HashMap<FileHandle, usize>>,
    /// Open files that were followed, and whose pages the kernel drops now. A lock waits for that.
    following: Following,
    /// Programs that wait for file locks.
    lock_waits: Cell<usize>,
    /// An operation ran into its deadline, and none has ended in time since.
    is_away: Cell<bool>,
    /// The requests so far.
    pub(crate) requests: Arc<Requests>,
    /// Requests under way, without those that wait for file locks.
    pub(crate) waiting: Waiting,
    /// The memory that WRITEs come in, if the kernel sends them.
    pub(crate) copies: OnceCell<Rc<Arena>>,
    copies_idle: IdleWatch,
}

/// An object as a reply reports it to the kernel.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Entry {
    pub(crate) attr: FileAttr,
    pub(crate) generation: Generation,
    /// How long the kernel may trust it.
    pub(crate) age: Duration,
}

impl<V: Vfs> Mounted<V> {
    pub(crate) fn new(
        runtime: Handle,
        vfs: Rc<V>,
        root: FileHandle,
        options: MountOptions,
        bounds: KeptBounds,
    ) -> Mounted<V> {
        let turns = match options.caching {
            Caching::Cached => Turns::ordered(&runtime),
            Caching::Direct => Turns::unordered(),
        };
        let inodes = Inodes::new(root);
        let files = inodes.written();
        let pages = Rc::new(Pages::new(&runtime, options.caching, inodes));
        let (clock, store) = (Handle::clone(&runtime), Rc::clone(&vfs));
        let writes = WriteBehind::new(clock, store, Rc::clone(&pages), files, turns, bounds);
        Mounted {
            inodes: Rc::clone(&pages.inodes),
            requests: Arc::clone(&pages.requests),
            pages,
            writes: Rc::new(writes),
            open: OpenTable::default(),
            ahead: RefCell::default(),
            callers: Callers::default(),
            taking_names: tokio::sync::RwLock::new(()),
            takings: Takings::default(),
            unhiding: RefCell::default(),
            unhidden: tokio::sync::Notify::new(),
            letting_go: RefCell::default(),
            keeping: RefCell::default(),
            following: Following::default(),
            lock_waits: Cell::new(0),
            is_away: Cell::new(false),
            waiting: Waiting::default(),
            copies: OnceCell::new(),
            copies_idle: IdleWatch::default(),
            vfs,
            runtime,
            options,
        }
    }

    /// Does requests until the session with the kernel is over and the last of them is answered.
    pub(crate) async fn serve(self: Rc<Self>, mut jobs: mpsc::Receiver<Job<V>>) {
        let places = Arc::new(Semaphore::new(REQUESTS_MAX));
        while let Some(job) = jobs.recv().await {
            // The place is taken before the task starts, so tasks are bounded. Further requests wait in the queue,
            // whose bound blocks the session's thread, and then in the kernel.
            let Ok(place) = Arc::clone(&places).acquire_owned().await else {
                return;
            };
            let request = job(Rc::clone(&self));
            let answered = Box::pin(async move {
                request.await;
                // After the reply: `serve` takes all places back to learn that no request is unanswered.
                drop(place);
            });
            self.runtime.spawn("fuse request", answered);
        }
        // Holding all places at once means that no request is under way.
        let all = u32::try_from(REQUESTS_MAX).unwrap_or(u32::MAX);
        let _ = places.acquire_many(all).await;
    }

    /// Counts a request of a process with its outcome and its time.
    pub(crate) async fn counted<T>(
        &self,
        kind: Kind,
        process: Option<u32>,
        request: impl Future<Output = Result<T, Errno>>,
    ) -> Result<T, Errno> {
        let begun = self.runtime.now();
        let wait = self.waiting.begin(kind, begun);
        let watch = (self.requests.slow.is_on())
            .then(|| Stopwatch::start(&self.runtime, Stage::Protocol, begun));
        let outcome = match &watch {
            Some(watch) => stages::watched(watch, request).await,
            None => request.await,
        };
        drop(wait);
        let now = self.runtime.now();
        let took = now.duration_since(begun);
        let last_reply = self.writes.last_reply();
        (self.waiting).ended(&self.requests, kind, begun, now, last_reply);
        // Before the reply: a program that asks for the numbers after its system call finds it counted.
        let failure = outcome.as_ref().err().copied();
        self.requests.note(kind, failure, took);
        if let Some(watch) = watch {
            self.requests.note_parts(kind, failure, process, &watch);
        }
        outcome
    }

    /// The credentials that an operation is sent with: the mount's own, or those of the asking process.
    pub(crate) fn caller(&self, asker: Asker) -> Credentials {
        match &self.options.caller {
            Some(caller) => caller.clone(),
            None => self.callers.credentials(asker, self.runtime.now()),
        }
    }

    /// Bounds `operation` by the mount's deadline, or by [`AWAY_DEADLINE`] while the server does not answer. An
    /// operation that runs out of time is dropped, so its guards release what they hold, and the result is `EIO`.
    pub(crate) async fn within<T>(
        &self,
        operation: impl Future<Output = Result<T, Errno>>,
    ) -> Result<T, Errno> {
        self.bounded_wait(operation, None).await
    }

    /// As [`Mounted::within`], for a thread that a fatal signal may end meanwhile. The kernel waits for the reply even
    /// then, so the thread would stay until the deadline.
    ///
    /// # Errors
    /// `EINTR`: the thread is killed. The operation is dropped, as at the deadline.
    pub(crate) async fn within_life<T>(
        &self,
        thread: u32,
        operation: impl Future<Output = Result<T, Errno>>,
    ) -> Result<T, Errno> {
        self.bounded_wait(operation, Some(thread)).await
    }

    async fn bounded_wait<T>(
        &self,
        operation: impl Future<Output = Result<T, Errno>>,
        thread: Option<u32>,
    ) -> Result<T, Errno> {
        let deadline = if self.is_away.get() {
            self.options.deadline.min(AWAY_DEADLINE)
        } else {
            self.options.deadline
        };
        let mut operation = std::pin::pin!(operation);
        let mut left = deadline;
        while !left.is_zero() {
            let wait = match thread {
                Some(_) => left.min(LIFE_CHECK_AGE),
                None => left,
            };
            if let Ok(outcome) = timeout(&self.runtime, wait, operation.as_mut()).await {
                self.is_away.set(false);
                return outcome;
            }
            left -= wait;
            if thread.is_some_and(is_killed) {
                return Err(Errno::EINTR);
            }
        }
        if !self.is_away.replace(true) {
            let why = self.vfs.cause(Status::Jukebox);
            tracing::warn!(
                source = self.options.source,
                why = why.as_deref().unwrap_or("no reply"),
                seconds = deadline.as_secs_f64(),
                "the server does not answer: operations fail with EIO until it does"
            );
        }
        Err(Errno::EIO)
    }

    /// The store's handle of the object with the kernel's number.
    ///
    /// # Errors
    /// `ESTALE`: the kernel has forgotten the object.
    pub(crate) fn handle(&self, number: u64) -> Result<FileHandle, Errno> {
        self.with_inode(number, |inode| inode.handle)
    }

    /// Takes back lookups of an object that the kernel has forgotten, and gives memory of many such objects back.
    pub(crate) fn forget(&self, number: u64, lookups: u64) {
        let mut inodes = self.inodes.borrow_mut();
        inodes.forget(number, lookups);
        if inodes.shrink() {
            self.runtime.release_memory();
        }
    }

    /// A WRITE has come: has its memory given back once no more of them come.
    pub(crate) fn look_after_copies(&self) {
        if let Some(copies) = self.copies.get() {
            self.copies_idle.look_after(&self.runtime, copies);
        }
    }

    /// The writes of a file.
    ///
    /// # Errors
    /// `ESTALE`: the kernel has forgotten the file.
    pub(crate) fn unstable(&self, number: u64) -> Result<Rc<FileWrites>, Errno> {
        (self.inodes.borrow_mut().unstable(number)).ok_or(Errno::ESTALE)
    }

    /// As [`Mounted::unstable`]; `None` for a file without any.
    pub(crate) fn known_unstable(&self, number: u64) -> Result<Option<Rc<FileWrites>>, Errno> {
        self.with_inode(number, |inode| inode.unstable().map(Rc::clone))
    }

    /// Runs `look` on an object of the table. It takes a closure and gives no reference, so that no borrow of the table
    /// lasts across an await: another task that changes the table would panic.
    pub(crate) fn with_inode<T>(
        &self,
        number: u64,
        look: impl FnOnce(&Inode) -> T,
    ) -> Result<T, Errno> {
        let inodes = self.inodes.borrow();
        inodes.inode(number).map(look).ok_or(Errno::ESTALE)
    }

    /// The reply for an object that a process asked for by name. It counts as one lookup, so the caller must either
    /// send it to the kernel or forget it.
    pub(crate) fn report(&self, handle: &FileHandle, fetched: &Fetched, process: u32) -> Entry {
        let now = self.runtime.now();
        let reported = (self.inodes.borrow_mut()).report(handle, fetched, process, now);
        let (number, generation) = reported;
        Entry {
            attr: self.attr(number, &fetched.attributes),
            generation: Generation(generation),
            age: self.options.cache_age,
        }
    }

    /// As [`Mounted::report`], with attributes that no later event of the object has overtaken.
    async fn report_newest(
        &self,
        handle: &FileHandle,
        known: Option<Fetched>,
        process: u32,
    ) -> Result<Entry, Errno> {
        let newest = self.newest(handle, known).await?;
        self.learn_first(handle, &newest).await;
        Ok(self.report(handle, &newest, process))
    }

    /// Learns attributes before a reply shows them, and has the kernel drop pages that are of another state.
    pub(crate) async fn learn_first(&self, handle: &FileHandle, fetched: &Fetched) {
        let number = self.inodes.borrow().number(handle);
        if let Some(number) = number {
            self.inodes.borrow_mut().learn(number, fetched);
            self.drop_readable(number).await;
        }
    }

    /// Has the kernel drop the pages of an open file that are of another state than a reply is about to show.
    ///
    /// Nobody reads the pages of a file that is not open, and its next open drops them. A notification would have the
    /// kernel ignore the attributes of that very reply: the program that opens the file next, and reads behind the
    /// former end, would depend on one more request.
    async fn drop_readable(&self, number: u64) {
        let is_open = (self.inodes.borrow().inode(number)).is_some_and(Inode::is_open);
        if is_open {
            self.pages.drop_stale(number).await;
        }
    }

    /// Attributes of an object: the known ones, or fetched ones if a later event has overtaken those. After
    /// [`ASKED_AGAIN_MAX`] attempts it gives the last ones, which may be overtaken: a file with constant writes would
    /// otherwise never be answered.
    pub(crate) async fn newest(
        &self,
        handle: &FileHandle,
        known: Option<Fetched>,
    ) -> Result<Fetched, Errno> {
        self.ask_newest(handle, known).await.map_err(errno)
    }

    /// As [`Mounted::newest`], with the status of the store.
    async fn ask_newest(
        &self,
        handle: &FileHandle,
        mut known: Option<Fetched>,
    ) -> Result<Fetched, Status> {
        for _ in 0..ASKED_AGAIN_MAX {
            let good = known.filter(|known| !self.knows_better(handle, known.asked));
            if let Some(good) = good {
                return Ok(good);
            }
            // The epoch is read before the request: an event during the wait must count as later than the reply.
            let asked = self.epoch();
            let attributes = self.vfs.attributes(handle).await?;
            known = Some(Fetched { attributes, asked });
        }
        known.ok_or(Status::Io)
    }

    /// True when attributes asked for at `asked` may be older than the table's, as [`Inodes::knows_better`].
    pub(crate) fn knows_better(&self, handle: &FileHandle, asked: Epoch) -> bool {
        self.inodes.borrow().knows_better(handle, asked)
    }

    /// The present epoch, to be read before a request for attributes is sent.
    pub(crate) fn epoch(&self) -> Epoch {
        self.inodes.borrow().epoch()
    }

    /// Attributes as programs see them. The link count leaves out the hidden name of a file that was removed while
    /// open; the size counts the bytes that the store has not seen yet, since the kernel would cut its pages there.
    pub(crate) fn attr(&self, number: u64, attributes: &Attributes) -> FileAttr {
        let mut inodes = self.inodes.borrow_mut();
        if inodes.note_mode(number, attributes) {
            self.pages.windows.set(number, false);
        }
        let inode = inodes.inode(number);
        let mut attr = file_attr(number, attributes);
        if inode.is_some_and(|inode| inode.hidden.is_some()) {
            attr.nlink = attr.nlink.saturating_sub(1);
        }
        let unstable = inode.and_then(Inode::unstable);
        let end = unstable.map_or(0, |file| file.end());
        attr.size = attr.size.max(end);
        attr
    }

    pub(crate) async fn attributes(&self, handle: &FileHandle) -> Result<Attributes, Errno> {
        self.vfs.attributes(handle).await.map_err(errno)
    }
}

/// Memory for WRITEs, shared by the thread that reads the kernel's requests and the core.
pub(crate) fn write_arena() -> Arena {
    Arena::new(REQUEST_BYTES_MAX as usize, BUFFERS_MAX)
}
