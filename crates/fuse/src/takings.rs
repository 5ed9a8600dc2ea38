//! Names that are being taken away, of files that nobody here had in use when that was decided.
//!
//! An open that begins in between must wait for them: the server may answer it before the file goes, and everything
//! that is read afterwards would be stale. Names that are taken later find the open under way, and leave the file a
//! hidden one.

use gannet_vfs::FileHandle;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use tokio::sync::Notify;

/// All that are under way.
#[derive(Default)]
pub(crate) struct Takings {
    last: Cell<u64>,
    /// The file of each, if it was looked for.
    under_way: RefCell<BTreeMap<u64, Option<FileHandle>>>,
    ended: Notify,
}

/// One of them, until it is dropped.
pub(crate) struct Taking<'a> {
    takings: &'a Takings,
    number: u64,
}

impl Takings {
    /// A name is about to be taken away, from this file; `None` where nobody knows which it is.
    pub(crate) fn begin(&self, handle: Option<FileHandle>) -> Taking<'_> {
        let number = self.last.get();
        self.last.set(number + 1);
        self.under_way.borrow_mut().insert(number, handle);
        Taking {
            takings: self,
            number,
        }
    }

    /// Waits until those are over that are under way now and may be of this file.
    pub(crate) async fn over(&self, handle: &FileHandle) {
        let end = self.last.get();
        loop {
            // Before the look, or an end between the two would go unnoticed.
            let ended = self.ended.notified();
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
    fn an_open_waits_for_what_may_take_its_file_and_began_before_it() {
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
