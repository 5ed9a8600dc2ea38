//! A mounted store on its core: what all requests share.

mod data;
mod files;
mod names;
mod shared;

use crate::callers::{Asker, Callers};
use crate::convert::file_attr;
use crate::inodes::{Epoch, Inode, Inodes};
use crate::limits::{
    ASKED_AGAIN_MAX, AWAY_DEADLINE, BUFFERS_MAX, KeptBounds, REQUEST_BYTES_MAX, REQUESTS_MAX,
};
use crate::open::OpenTable;
use crate::session::{Caching, MountOptions};
use crate::status::errno;
use crate::takings::Takings;
use crate::turns::Turns;
use fuser::{Errno, FileAttr, Generation, INodeNo};
use gannet_runtime::{Arena, Handle, LocalFuture, timeout};
use gannet_vfs::{Attributes, Credentials, FileHandle, Status, Vfs};
use std::cell::{Cell, RefCell};
use std::future::Future;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Semaphore, mpsc};

pub(crate) use data::Data;
pub(crate) use files::Setting;
pub(crate) use names::IfThere;

/// A request of the kernel, ready to be done on the core.
pub(crate) type Job<V> = Box<dyn FnOnce(Rc<Mounted<V>>) -> LocalFuture<()> + Send>;

/// A mounted store. Lives on one core.
pub(crate) struct Mounted<V> {
    pub(crate) vfs: Rc<V>,
    pub(crate) runtime: Handle,
    pub(crate) options: MountOptions,
    pub(crate) inodes: RefCell<Inodes>,
    pub(crate) open: OpenTable,
    callers: Callers,
    turns: Turns,
    /// Held shared by whatever takes names away, and alone by the lookup of a process that was refused with `ESTALE`:
    /// what it is told of is kept for it, also where its name is being taken away at this moment.
    taking_names: tokio::sync::RwLock<()>,
    takings: Takings,
    /// Tells the kernel of files that others have changed; none without a kernel.
    pub(crate) notifier: RefCell<Option<fuser::Notifier>>,
    /// Programs that wait for file locks.
    lock_waits: Cell<usize>,
    /// A file was closed.
    closed: tokio::sync::Notify,
    bounds: KeptBounds,
    /// Bytes kept until a COMMIT, of all files.
    kept: Cell<u64>,
    /// An operation has waited in vain, and none has ended well since.
    is_away: Cell<bool>,
}

/// An object as the kernel is told of it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Entry {
    /// With the number that stands for it, whatever programs see.
    pub(crate) attr: FileAttr,
    pub(crate) generation: Generation,
    /// Programs see another number: the kernel must ask for the attributes once more, by the one that stands for it.
    pub(crate) is_alias: bool,
}

impl Entry {
    /// How long the kernel may believe its attributes, if all others are good for `age`.
    pub(crate) fn attr_age(&self, age: Duration) -> Duration {
        match self.is_alias {
            true => Duration::ZERO,
            false => age,
        }
    }
}

impl<V: Vfs> Mounted<V> {
    pub(crate) fn new(
        runtime: Handle,
        (vfs, root): (Rc<V>, FileHandle),
        options: MountOptions,
    ) -> Mounted<V> {
        let kernel_caches = options.caching == Caching::Writeback;
        Mounted {
            inodes: RefCell::new(Inodes::new(root, kernel_caches)),
            open: OpenTable::default(),
            callers: Callers::default(),
            turns: Turns::new(options.caching),
            taking_names: tokio::sync::RwLock::new(()),
            takings: Takings::default(),
            notifier: RefCell::default(),
            lock_waits: Cell::new(0),
            closed: tokio::sync::Notify::new(),
            bounds: KeptBounds::default(),
            kept: Cell::new(0),
            is_away: Cell::new(false),
            vfs,
            runtime,
            options,
        }
    }

    /// Keeps other amounts than usual.
    pub(crate) fn bounded(self, bounds: KeptBounds) -> Mounted<V> {
        Mounted { bounds, ..self }
    }

    /// Does requests until the session with the kernel is over and the last of them is answered.
    pub(crate) async fn serve(self: Rc<Self>, mut jobs: mpsc::Receiver<Job<V>>) {
        let places = Arc::new(Semaphore::new(REQUESTS_MAX));
        while let Some(job) = jobs.recv().await {
            let Ok(place) = Arc::clone(&places).acquire_owned().await else {
                return;
            };
            let request = job(Rc::clone(&self));
            let answered = Box::pin(async move {
                request.await;
                drop(place);
            });
            self.runtime.spawn("fuse request", answered);
        }
        // All places together: nothing is under way any more.
        let all = u32::try_from(REQUESTS_MAX).unwrap_or(u32::MAX);
        let _ = places.acquire_many(all).await;
    }

    /// Whom an operation is done for.
    pub(crate) fn caller(&self, asker: Asker) -> Credentials {
        match &self.options.caller {
            Some(caller) => caller.clone(),
            None => self.callers.credentials(asker, self.runtime.now()),
        }
    }

    /// Lets `operation` take as long as the mount's deadline allows; less while the server seems to be away.
    pub(crate) async fn within<T>(
        &self,
        operation: impl Future<Output = Result<T, Errno>>,
    ) -> Result<T, Errno> {
        let deadline = match self.is_away.get() {
            true => self.options.deadline.min(AWAY_DEADLINE),
            false => self.options.deadline,
        };
        match timeout(&self.runtime, deadline, operation).await {
            Ok(outcome) => {
                self.is_away.set(false);
                outcome
            }
            Err(_) => {
                if !self.is_away.replace(true) {
                    tracing::warn!(
                        seconds = deadline.as_secs_f64(),
                        "the server does not answer: operations fail with EIO until it does"
                    );
                }
                Err(Errno::EIO)
            }
        }
    }

    /// The object that the kernel calls so.
    pub(crate) fn handle(&self, number: u64) -> Result<FileHandle, Errno> {
        self.with_inode(number, |inode| inode.handle)
    }

    pub(crate) fn with_inode<T>(
        &self,
        number: u64,
        look: impl FnOnce(&Inode) -> T,
    ) -> Result<T, Errno> {
        let inodes = self.inodes.borrow();
        inodes.inode(number).map(look).ok_or(Errno::ESTALE)
    }

    /// Tells the kernel of an object that a process asked for by name, and that had these attributes.
    pub(crate) fn report(
        &self,
        handle: &FileHandle,
        known: (&Attributes, Epoch),
        process: u32,
    ) -> Entry {
        let asker = (process, self.runtime.now());
        let (number, generation) = self.inodes.borrow_mut().report(handle, known, asker);
        let mut attr = self.attr(number, known.0);
        let shown = std::mem::replace(&mut attr.ino, INodeNo(number));
        Entry {
            attr,
            generation: Generation(generation),
            is_alias: shown != attr.ino,
        }
    }

    /// As [`Mounted::tell`], with attributes that nothing has overtaken.
    async fn tell_newest(
        &self,
        handle: &FileHandle,
        known: Option<(Attributes, Epoch)>,
        process: u32,
    ) -> Result<Entry, Errno> {
        let (attributes, asked) = self.newest(handle, known).await?;
        Ok(self.report(handle, (&attributes, asked), process))
    }

    /// The attributes of an object, if they are not known yet, or something has overtaken them. They may be old all the
    /// same where it is written to all the time.
    async fn newest(
        &self,
        handle: &FileHandle,
        mut known: Option<(Attributes, Epoch)>,
    ) -> Result<(Attributes, Epoch), Errno> {
        for _ in 0..ASKED_AGAIN_MAX {
            let good = known.filter(|(_, asked)| !self.knows_better(handle, *asked));
            if let Some(good) = good {
                return Ok(good);
            }
            let asked = self.epoch();
            known = Some((self.attributes(handle).await?, asked));
        }
        known.ok_or(Errno::EIO)
    }

    /// See [`Inodes::knows_better`].
    pub(crate) fn knows_better(&self, handle: &FileHandle, asked: Epoch) -> bool {
        self.inodes.borrow().knows_better(handle, asked)
    }

    /// See [`Inodes::epoch`].
    pub(crate) fn epoch(&self) -> Epoch {
        self.inodes.borrow().epoch()
    }

    /// Attributes as programs see them. A file that was removed while open has a name that does not count.
    pub(crate) fn attr(&self, number: u64, attributes: &Attributes) -> FileAttr {
        let inodes = self.inodes.borrow();
        let inode = inodes.inode(number);
        let mut attr = file_attr(inode.map_or(number, |inode| inode.shown), attributes);
        if inode.is_some_and(|inode| inode.hidden.is_some()) {
            attr.nlink = attr.nlink.saturating_sub(1);
        }
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

/// True when nothing but the caller's rights stands against it.
pub(crate) fn is_refused(status: Status) -> bool {
    matches!(status, Status::Perm | Status::Acces)
}
