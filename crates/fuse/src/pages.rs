//! The kernel's pages of files, and the files whose short writes are answered before the core has them.

use crate::inodes::Inodes;
use crate::requests::Requests;
use crate::session::Caching;
use crate::window::Windows;
use fuser::INodeNo;
use gannet_client::write_behind::{FileWrites, FrontEnd};
use gannet_runtime::{Handle, LocalFuture, run_blocking};
use gannet_vfs::Wcc;
use std::cell::RefCell;
use std::io;
use std::rc::Rc;
use std::sync::Arc;

/// The kernel's cache of files, as far as a mount has parts of it dropped.
pub(crate) trait Kernel {
    /// Drops the attributes of the object with this number, and its pages from byte `start` on; no pages with `None`.
    /// It ends when they are dropped, which may take until every READ and WRITE that holds such a page has its reply.
    ///
    /// # Errors
    /// `NotFound`: the kernel has forgotten the object. Others are those of the kernel's device.
    fn drop_cached(&self, number: u64, start: Option<u64>) -> LocalFuture<io::Result<()>>;
}

/// The kernel behind a session's device.
pub(crate) struct Notified {
    runtime: Handle,
    notifier: fuser::Notifier,
}

impl Notified {
    pub(crate) fn new(runtime: &Handle, notifier: fuser::Notifier) -> Notified {
        Notified {
            runtime: Handle::clone(runtime),
            notifier,
        }
    }
}

impl Kernel for Notified {
    fn drop_cached(&self, number: u64, start: Option<u64>) -> LocalFuture<io::Result<()>> {
        let (runtime, notifier) = (Handle::clone(&self.runtime), self.notifier.clone());
        // A negative offset drops no pages.
        let offset = start.map_or(-1, u64::cast_signed);
        Box::pin(async move {
            // On another thread: the kernel may block the notification until this core has answered a READ or WRITE.
            let dropped = run_blocking(&runtime, move || {
                notifier.inval_inode(INodeNo(number), offset, 0)
            });
            // The pool is closed at the end of the process alone, when nothing is cached any more.
            dropped.await.unwrap_or(Ok(()))
        })
    }
}

/// The part of a mount that a kernel caches, which hears of the mount's writes. A clone is the same part.
#[derive(Clone)]
pub(crate) struct Pages {
    runtime: Handle,
    caching: Caching,
    pub(crate) inodes: Rc<RefCell<Inodes>>,
    /// Files whose short writes are answered before they get here.
    pub(crate) windows: Arc<Windows>,
    /// The kernel; `None` until it is there, and where it caches nothing.
    pub(crate) kernel: Rc<RefCell<Option<Rc<dyn Kernel>>>>,
    pub(crate) requests: Arc<Requests>,
}

impl Pages {
    pub(crate) fn new(runtime: &Handle, caching: Caching, inodes: Inodes) -> Pages {
        Pages {
            runtime: Handle::clone(runtime),
            caching,
            inodes: Rc::new(RefCell::new(inodes)),
            windows: Arc::default(),
            kernel: Rc::default(),
            requests: Arc::default(),
        }
    }

    /// Drops the kernel's pages of a file, and its attributes, if they may be of an older state than the replies show.
    /// No request may wait for this that holds pages: the kernel waits for those.
    pub(crate) async fn drop_stale(&self, number: u64) {
        let stale = self.inodes.borrow().stale(number);
        if let Some(stale) = stale {
            self.drop_from(number, 0).await;
            self.inodes.borrow_mut().dropped(number, stale);
        }
    }

    /// Drops the kernel's attributes of a file, and no pages.
    pub(crate) async fn drop_attributes(&self, number: u64) {
        self.tell_kernel(number, None).await;
    }

    /// Drops the kernel's pages of a file from `start` on, in bytes, and its attributes.
    pub(crate) async fn drop_from(&self, number: u64, start: u64) {
        self.tell_kernel(number, Some(start)).await;
    }

    /// Has the kernel drop attributes, and pages as [`Kernel::drop_cached`] does.
    async fn tell_kernel(&self, number: u64, start: Option<u64>) {
        let Some(kernel) = self.kernel.borrow().clone() else {
            return;
        };
        if start.is_some() {
            self.requests.dropped_pages.add(1);
        }
        // An error is harmless if the kernel has forgotten the file: it caches nothing of it then.
        if let Err(error) = kernel.drop_cached(number, start).await {
            tracing::debug!(%error, "the kernel did not drop its pages of a file");
        }
    }
}

impl FrontEnd for Pages {
    fn changed(&self, file: &FileWrites, wcc: &Wcc) {
        self.inodes.borrow_mut().own_change(file.number(), wcc);
    }

    /// The kernel's pages have bytes that the file will never have.
    fn refused(&self, file: &FileWrites) {
        let number = file.number();
        self.windows.set(number, false);
        self.inodes.borrow_mut().set_stale(number);
        // A task of its own: a READ that holds pages may wait for the refused bytes.
        let pages = self.clone();
        let dropping = async move { pages.drop_stale(number).await };
        self.runtime.spawn("pages of a refusal", Box::pin(dropping));
    }

    /// Opens or closes the window of a file, as [`Windows`] has it.
    fn room_changed(&self, file: &FileWrites, has_room: bool) {
        let number = file.number();
        let is_open = self.caching == Caching::Cached
            && has_room
            && (self.inodes.borrow().inode(number))
                .is_some_and(|inode| inode.is_open() && !inode.sets_id);
        self.windows.set(number, is_open);
    }
}
