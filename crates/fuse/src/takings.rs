//! Removals of names under way, of files that no program here had in use when the removal began.
//!
//! An open that begins meanwhile waits for them. The server may answer that open before it removes the file, and later
//! reads would fail with `ESTALE`. A removal that begins after the open finds it under way, and keeps a hidden name.

use gannet_vfs::FileHandle;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use tokio::sync::Notify;

/// The removals under way. A removal lasts until its [`Taking`] is dropped.
#[derive(Default)]
pub(crate) struct Takings {
    last: Cell<u64>,
    /// The file of each; `None` if it is not known.
    under_way: RefCell<BTreeMap<u64, Option<FileHandle>>>,
    ended: Notify,
}

/// A guard of one removal. Its drop ends the removal also when a deadline drops the request, so that opens do not wait
/// for ever.
pub(crate) struct Taking<'a> {
    takings: &'a Takings,
    number: u64,
}

impl Takings {
    /// Begins the removal of a name of this file; `None` if it may be any file.
    pub(crate) fn begin(&self, handle: Option<FileHandle>) -> Taking<'_> {
        let number = self.last.get();
        self.last.set(number + 1);
        self.under_way.borrow_mut().insert(number, handle);
        Taking {
            takings: self,
            number,
        }
    }

    /// Waits until the removals are over that are under way now and may be of this file. Later ones do not count, or an
    /// open beside constant removals would never end.
    pub(crate) async fn over(&self, handle: &FileHandle) {
        let end = self.last.get();
        loop {
            // The wake-up is registered before the look: an end between the two would be missed, and the open would
            // wait for ever.
            let ended = self.ended.notified();
            // The block ends the borrow before the await: `begin` and the drop of a guard borrow the map mutably.
            let is_awaited = {
                let under_way = self.under_way.borrow();
                let mut earlier = under_way.range(..end).map(|(_, taken)| taken);
                earlier.any(|taken| taken.is_none_or(|taken| taken == *handle))
            };
            if !is_awaited {
                return;
            }
            ended.await;
        }
    }
}

impl Drop for Taking<'_> {
    fn drop(&mut self) {
        // The entry is removed before the wake-up, since the woken opens look at the map again.
        self.takings.under_way.borrow_mut().remove(&self.number);
        self.takings.ended.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::Future;
    use std::pin::{Pin, pin};
    use std::task::{Context, Waker};

    fn is_over(wait: Pin<&mut impl Future<Output = ()>>) -> bool {
        let mut context = Context::from_waker(Waker::noop());
        wait.poll(&mut context).is_ready()
    }

    #[test]
    fn an_open_waits_for_removals_that_began_before_it() {
        let takings = Takings::default();
        let [file, other] = [[1], [2]].map(|name| FileHandle::new(&name).unwrap());
        assert!(is_over(pin!(takings.over(&file))));
        let of_other = takings.begin(Some(other));
        assert!(is_over(pin!(takings.over(&file))));
        let (of_file, of_any) = (takings.begin(Some(file)), takings.begin(None));
        let mut open = pin!(takings.over(&file));
        assert!(!is_over(open.as_mut()));
        let later = takings.begin(Some(file));
        drop(of_file);
        assert!(!is_over(open.as_mut()));
        drop(of_any);
        assert!(is_over(open.as_mut()), "later ones find the open");
        drop((later, of_other));
    }
}
