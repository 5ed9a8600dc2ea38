//! The kernel's pages of files, and the files whose short writes are answered before the core has them.

use crate::inodes::Inodes;
use crate::session::Caching;
use crate::window::Windows;
use fuser::INodeNo;
use gannet_client::write_behind::{FileWrites, FrontEnd};
use gannet_runtime::{Handle, run_blocking};
use gannet_vfs::Wcc;
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

/// The part of a mount that a kernel caches, which hears of the mount's writes. A clone is the same part.
#[derive(Clone)]
pub(crate) struct Pages {
    runtime: Handle,
    caching: Caching,
    pub(crate) inodes: Rc<RefCell<Inodes>>,
    /// Files whose short writes are answered before they get here.
    pub(crate) windows: Arc<Windows>,
    /// Drops pages of the kernel's cache; `None` without a kernel.
    pub(crate) notifier: Rc<RefCell<Option<fuser::Notifier>>>,
}

impl Pages {
    pub(crate) fn new(runtime: &Handle, caching: Caching, inodes: Inodes) -> Pages {
        Pages {
            runtime: Handle::clone(runtime),
            caching,
            inodes: Rc::new(RefCell::new(inodes)),
            windows: Arc::default(),
            notifier: Rc::default(),
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
        self.tell_kernel(number, -1).await;
    }

    /// Drops the kernel's pages of a file from `start` on, in bytes, and its attributes.
    pub(crate) async fn drop_from(&self, number: u64, start: u64) {
        self.tell_kernel(number, start.cast_signed()).await;
    }

    /// Has the kernel drop attributes, and pages from `start` on unless that is negative.
    async fn tell_kernel(&self, number: u64, start: i64) {
        let Some(notifier) = self.notifier.borrow().clone() else {
            return;
        };
        // On another thread: the kernel may block the notification until this core has answered a READ or WRITE.
        let dropped = run_blocking(&self.runtime, move || {
            notifier.inval_inode(INodeNo(number), start, 0)
        });
        // An error is harmless if the kernel has forgotten the file: it caches nothing of it then.
        if let Ok(Err(error)) = dropped.await {
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
