//! Open files follow the server, also where the kernel asks nobody: a read inside the length that it knows is answered
//! from its pages, whatever their age.

use super::Mounted;
use crate::inodes::Fetched;
use crate::limits::{
    FOLLOW_DEADLINE, FOLLOW_DELAY_MAX, FOLLOW_EVERY_MIN, FOLLOWED_AT_A_TIME, FOLLOWED_MAX,
};
use gannet_runtime::{all, sleep, timeout};
use gannet_vfs::Vfs;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::rc::Weak;
use tokio::sync::Notify;

/// The files whose pages the kernel drops now, because they were followed.
#[derive(Default)]
pub(super) struct Following {
    dropping: RefCell<BTreeSet<u64>>,
    ended: Notify,
    /// Requests for attributes that are under way, by file.
    asking: RefCell<BTreeMap<u64, usize>>,
    answered: Notify,
}

/// A guard of a request for a file's attributes.
pub(super) struct Asking<'a> {
    following: &'a Following,
    number: u64,
}

/// A guard of one of them.
struct Dropping<'a> {
    following: &'a Following,
    number: u64,
}

impl Following {
    fn begin(&self, number: u64) -> Dropping<'_> {
        self.dropping.borrow_mut().insert(number);
        Dropping {
            following: self,
            number,
        }
    }

    /// Begins a request for a file's attributes.
    pub(super) fn ask(&self, number: u64) -> Asking<'_> {
        *self.asking.borrow_mut().entry(number).or_default() += 1;
        Asking {
            following: self,
            number,
        }
    }

    /// Waits until no request for this file's attributes is under way.
    async fn quiet(&self, number: u64) {
        loop {
            // Registered before the look, so that no end is missed.
            let answered = self.answered.notified();
            if !self.asking.borrow().contains_key(&number) {
                return;
            }
            answered.await;
        }
    }

    /// Waits until no pages of this file are being dropped.
    pub(super) async fn over(&self, number: u64) {
        loop {
            // Registered before the look, so that no end is missed.
            let ended = self.ended.notified();
            if !self.dropping.borrow().contains(&number) {
                return;
            }
            ended.await;
        }
    }
}

impl Drop for Dropping<'_> {
    fn drop(&mut self) {
        self.following.dropping.borrow_mut().remove(&self.number);
        self.following.ended.notify_waiters();
    }
}

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        let mut asking = self.following.asking.borrow_mut();
        if let Some(count) = asking.get_mut(&self.number) {
            *count -= 1;
            if *count == 0 {
                asking.remove(&self.number);
                self.following.answered.notify_waiters();
            }
        }
    }
}

impl<V: Vfs> Mounted<V> {
    /// Has the kernel drop pages of open files that others change, until the mount ends.
    pub(crate) async fn follow_open_files(mounted: Weak<Mounted<V>>) {
        let mut last = 0;
        loop {
            let Some(it) = mounted.upgrade() else {
                return;
            };
            let every = it.options.cache_age.max(FOLLOW_EVERY_MIN);
            let asleep = sleep(&it.runtime, every);
            drop(it);
            asleep.await;
            let Some(it) = mounted.upgrade() else {
                return;
            };
            let files = it.files_to_follow(last);
            last = files.last().copied().unwrap_or(0);
            for files in files.chunks(FOLLOWED_AT_A_TIME) {
                // A program's request tells when the server answers again.
                if it.is_away.get() {
                    break;
                }
                all(files.iter().map(|number| Box::pin(it.follow(*number)))).await;
            }
        }
    }

    /// Up to [`FOLLOWED_MAX`] open files, behind the number `last` first.
    fn files_to_follow(&self, last: u64) -> Vec<u64> {
        let open = self.writes.descriptions.borrow();
        let numbers: BTreeSet<u64> = open.files().map(|file| file.number()).collect();
        let behind = numbers.range((Bound::Excluded(last), Bound::Unbounded));
        behind
            .chain(numbers.range(..=last))
            .copied()
            .take(FOLLOWED_MAX)
            .collect()
    }

    /// Asks for the attributes of an open file, and has its pages dropped if they are of another state. A file with own
    /// writes under way is judged by their replies.
    ///
    /// A server that is silent for [`FOLLOW_DEADLINE`] is no reason to fail programs sooner: they may not need it.
    async fn follow(&self, number: u64) {
        let written = self.known_unstable(number).ok().flatten();
        if written.is_some_and(|file| !file.is_answered()) {
            return;
        }
        let Ok(handle) = self.handle(number) else {
            return;
        };
        let asking = self.newest(&handle, None);
        let Ok(Ok(newest)) = timeout(&self.runtime, FOLLOW_DEADLINE, asking).await else {
            return;
        };
        // The kernel ignores the attributes of a request during which pages are dropped: a program that reads behind
        // the former end would find nothing. One that asks all the time must not keep its pages, though.
        let quiet = self.following.quiet(number);
        let _ = timeout(&self.runtime, FOLLOW_DELAY_MAX, quiet).await;
        // Its pages are renewed at each grant. The kernel ignores attributes of a request during which pages are
        // dropped: a holder that reads behind the former end would find nothing, and write the file anew.
        if self.open.borrow().is_locked(number) {
            return;
        }
        // No await since the look: a lock that is granted from here on waits for the end.
        let _dropping = self.following.begin(number);
        self.inodes.borrow_mut().learn(number, &newest);
        if self.is_other_content(number, &newest) {
            self.pages.drop_from(number, 0).await;
        }
        self.pages.drop_stale(number).await;
    }

    /// Whether a file may have other bytes than at the last call, although its length and times are the same: the
    /// caller has the kernel drop its pages. A volume's file has the latest of its servers' clocks: a write at a server
    /// that is behind moves none. Its change id moves.
    ///
    /// Change ids of other stores come from their times, which tell no more.
    pub(super) fn is_other_content(&self, number: u64, newest: &Fetched) -> bool {
        let change_id = newest.attributes.change_id;
        self.vfs.is_coordinated() && self.inodes.borrow_mut().check_change_id(number, change_id)
    }
}
