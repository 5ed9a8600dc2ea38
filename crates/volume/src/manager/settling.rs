//! Settled sizes: the state of a file's objects in its inode, while nobody may change them.
//!
//! | state of a size | in the inode | who knows it | becomes |
//! |---|---|---|---|
//! | open | nothing | the objects | settling, [`SETTLE_AFTER`] after the last grant to write |
//! | settling | nothing yet; its transaction is under way | the objects | settled; open if the transaction fails |
//! | settled | the state | the metadata | open, by a durable change before a grant or with a truncation |
//!
//! A file is settled or has grants to write, never both. So a settled state needs no I/O server, and holds over
//! restarts of the manager and of the servers. All bytes that it counts are durable: clients give grants back only
//! then, and after a grant that ran out the manager sends COMMIT first.

use super::Manager;
use super::change::{Task, Work};
use super::sizes::Known;
use crate::limits::{
    GRANTS_SWEEP, SETTLE_AFTER, SETTLE_AGAIN_AFTER, SETTLE_EVERY, SETTLED_AT_A_TIME,
    SETTLED_BY_A_CHANGE, SETTLING_MAX,
};
use gannet_meta::namespace;
use gannet_runtime::{Instant, LocalFuture, all, sleep};
use gannet_wire::volume::{
    Body, Caller, FileId, FileState, Inode, LayoutRecord, Settled, Timestamp,
};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use tokio::sync::Notify;

/// The files whose sizes wait to be settled, and those whose transaction is under way.
#[derive(Default)]
pub(super) struct Settling {
    waiting: RefCell<Waiting>,
    /// Files whose transaction is under way. No grant to write them may be made meanwhile.
    committing: RefCell<BTreeSet<FileId>>,
    committed: Notify,
}

/// Files by the time at which they are due.
#[derive(Default)]
struct Waiting {
    due: BTreeSet<(Instant, FileId)>,
    by_file: BTreeMap<FileId, Instant>,
}

impl Waiting {
    fn add(&mut self, file: FileId, due: Instant) {
        if self.by_file.len() >= SETTLING_MAX && !self.by_file.contains_key(&file) {
            return;
        }
        if let Some(before) = self.by_file.insert(file, due) {
            self.due.remove(&(before, file));
        }
        self.due.insert((due, file));
    }

    fn take_due(&mut self, now: Instant) -> Vec<FileId> {
        let mut files = Vec::new();
        while let Some((due, file)) = self.due.first().copied()
            && due <= now
        {
            self.due.pop_first();
            self.by_file.remove(&file);
            files.push(file);
        }
        files
    }
}

impl Settling {
    /// The sizes of files may be settled soon. Each is due anew if it waits already.
    pub(super) fn add(&self, files: impl IntoIterator<Item = FileId>, now: Instant) {
        let mut waiting = self.waiting.borrow_mut();
        for file in files {
            waiting.add(file, now + SETTLE_AFTER);
        }
    }

    fn add_later(&self, file: FileId, now: Instant) {
        let mut waiting = self.waiting.borrow_mut();
        waiting.add(file, now + SETTLE_AGAIN_AFTER);
    }

    /// Whether the transaction is under way that settles a file's size.
    pub(super) fn is_committing(&self, file: FileId) -> bool {
        self.committing.borrow().contains(&file)
    }

    /// Waits while that transaction is under way.
    pub(super) async fn committed(&self, file: FileId) {
        loop {
            // Registered before the look, so that no wake-up is missed.
            let committed = self.committed.notified();
            if !self.is_committing(file) {
                return;
            }
            committed.await;
        }
    }

    fn begin(&self, file: FileId) {
        self.committing.borrow_mut().insert(file);
    }

    fn end(&self, files: impl Iterator<Item = FileId>) {
        let mut committing = self.committing.borrow_mut();
        files.for_each(|file| _ = committing.remove(&file));
        drop(committing);
        self.committed.notify_waiters();
    }
}

/// The result of an attempt to learn a size that may be settled.
enum Learned {
    Size {
        known: Known,
        layout: LayoutRecord,
    },
    /// The file is gone, is settled, or may be written: it comes again if need be.
    No,
    /// An I/O server is away.
    Away,
}

impl Manager {
    /// The settled state of a file, if it has one that holds.
    pub(super) fn settled(&self, inode: &Inode) -> Option<FileState> {
        match &inode.body {
            Body::Regular {
                settled: Some(settled),
                ..
            } if settled.term >= self.settled_since.get() => Some(settled.state),
            _ => None,
        }
    }

    /// Settles sizes until the runtime ends.
    pub(super) async fn settle_sizes(self: Rc<Self>) {
        let mut swept = self.runtime.now();
        loop {
            sleep(&self.runtime, SETTLE_EVERY).await;
            let now = self.runtime.now();
            if now >= swept + GRANTS_SWEEP {
                swept = now;
                self.sizes.settle_run_out();
            }
            let due = self.sizes.settling.waiting.borrow_mut().take_due(now);
            for files in due.chunks(SETTLED_AT_A_TIME) {
                self.settle_all(files).await;
            }
        }
    }

    async fn settle_all(self: &Rc<Self>, files: &[FileId]) {
        let learning = files.iter().map(|file| Box::pin(self.learn_size(*file)));
        let learned = all(learning).await;
        let mut states = Vec::new();
        let (now, term) = (self.runtime.now(), self.office.number());
        for (file, learned) in files.iter().zip(learned) {
            match learned {
                // Looked at again without an `await` before its transaction.
                Learned::Size { known, layout } if self.still_holds(*file, known, &layout) => {
                    self.sizes.settling.begin(*file);
                    let state = known.state;
                    states.push((*file, Settled { state, term }));
                }
                Learned::Size { .. } => self.sizes.settling.add([*file], now),
                Learned::Away => self.sizes.settling.add_later(*file, now),
                Learned::No => {}
            }
        }
        let changes = states.chunks(SETTLED_BY_A_CHANGE).map(|states| {
            let (manager, states) = (Rc::clone(self), states.to_vec());
            let change: LocalFuture<()> = Box::pin(async move {
                let files: Vec<FileId> = states.iter().map(|(file, _)| *file).collect();
                let work = Work {
                    caller: Caller::new(0, 0, &[]),
                    task: Task::Settle(states),
                    last_write: Timestamp::default(),
                };
                if let Err(status) = manager.change(work, None).await {
                    tracing::debug!(%status, "sizes are not settled");
                }
                manager.sizes.settling.end(files.into_iter());
            });
            change
        });
        all(changes).await;
    }

    /// Whether nobody may change the objects of a file.
    fn is_steady(&self, file: FileId) -> bool {
        let is_cut = self.sizes.is_to_be_cut(file) || self.intents.cuts_to(file).is_some();
        !is_cut && !self.sizes.is_writable(file) && !self.sizes.settling.is_committing(file)
    }

    /// Whether a size that was learned earlier is still the size of the file. The manager may have waited for the sizes
    /// of other files since. Meanwhile the file may have been written or cut, and the grant or the intent may have
    /// ended. Such a change has removed the size from the cache.
    fn still_holds(&self, file: FileId, learned: Known, layout: &LayoutRecord) -> bool {
        self.is_steady(file) && self.sizes.whole(file, layout) == Some(learned)
    }

    async fn learn_size(self: &Rc<Self>, file: FileId) -> Learned {
        let Some(layout) = self.unsettled_layout(file) else {
            return Learned::No;
        };
        if !self.is_steady(file) {
            return Learned::No;
        }
        if self.sizes.may_be_unstable(file) {
            if let Err(error) = Rc::clone(&self.objects).commit(file, &layout).await {
                tracing::debug!(file = file.0, %error, "bytes of a file whose writer went are not durable");
                return Learned::Away;
            }
            // A state from before the COMMIT may count bytes that a server has lost since.
            self.sizes.changes(file);
            self.sizes.is_durable(file);
        }
        match self.sizes.of(file, &layout, &self.intents).await {
            Err(_) => Learned::Away,
            // It is cached unless the objects may have changed meanwhile, or one of them is lost.
            Ok(_) => match self.sizes.whole(file, &layout) {
                Some(known) => Learned::Size { known, layout },
                None => Learned::No,
            },
        }
    }

    /// The layout of a regular file that is not settled.
    fn unsettled_layout(&self, file: FileId) -> Option<LayoutRecord> {
        let inode = self.look(|view| namespace::inode(view, file)).ok()?;
        match &inode.body {
            Body::Regular { layout, .. } if self.settled(&inode).is_none() => Some(layout.clone()),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_comes_again_is_due_later() {
        let (mut waiting, start) = (Waiting::default(), Instant::default());
        waiting.add(FileId(1), start + SETTLE_AFTER);
        waiting.add(FileId(2), start + SETTLE_AFTER);
        waiting.add(FileId(1), start + SETTLE_AFTER * 2);
        assert_eq!(waiting.take_due(start), []);
        assert_eq!(waiting.take_due(start + SETTLE_AFTER), [FileId(2)]);
        assert_eq!(waiting.take_due(start + SETTLE_AFTER * 2), [FileId(1)]);
        assert!(waiting.by_file.is_empty());
    }
}
