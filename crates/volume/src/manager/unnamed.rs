//! Files without a name: their last name went while a client kept them.
//!
//! A client that removes or replaces the last name of a file that a program has open asks to keep the file first. The
//! removal then leaves the inode, with no link, and notes it durably. Keeping is part of the client's session of file
//! locks ([`super::locks`]): it ends with the lease, and is asked for anew when the manager has restarted.
//!
//! | state | on | becomes |
//! |---|---|---|
//! | named | its last name goes, a client keeps it or has not come back since the start | unnamed |
//! | named | its last name goes, nobody keeps it | gone, with an intent to remove its objects |
//! | unnamed | the last client lets go, or its lease is over | gone, with the same intent |
//! | unnamed | the manager starts | unnamed until the clients of then had time to come back |

use super::Manager;
use super::change::{Task, Work};
use gannet_meta::namespace::{self, KeptFiles};
use gannet_wire::volume::{Caller, FileId, Timestamp};
use std::collections::BTreeSet;
use std::rc::Rc;

impl Manager {
    /// Learns which of the kept files have lost their last name in a transaction, which changed `changed`.
    pub(super) fn learn_unnamed(self: &Rc<Self>, kept: &KeptFiles, changed: &BTreeSet<FileId>) {
        let mut new = BTreeSet::new();
        for file in changed.iter().filter(|file| kept.contains(**file)) {
            let inode = self.look(|view| namespace::inode(view, *file));
            if inode.is_ok_and(|inode| inode.links == 0) {
                new.insert(*file);
            }
        }
        self.unnamed.borrow_mut().extend(new.iter().copied());
        // A client may have let go while the transaction was under way.
        self.forget_unkept(new);
    }

    /// Removes those of these files that have no name and that no client keeps, in tasks of their own.
    pub(super) fn forget_unkept(self: &Rc<Self>, files: BTreeSet<FileId>) {
        for file in files {
            let manager = Rc::clone(self);
            let forgetting = async move { manager.forget_if_unkept(file).await };
            self.runtime.spawn("unnamed file", Box::pin(forgetting));
        }
    }

    /// Removes a file if it has no name and no client keeps it. The reply to the client that lets it go waits for that:
    /// a program that opens the file meanwhile would find it, and lose it.
    pub(super) async fn forget_if_unkept(self: &Rc<Self>, file: FileId) {
        if self.locks.may_be_kept(file) || !self.unnamed.borrow_mut().remove(&file) {
            return;
        }
        let work = Work {
            caller: Caller::new(0, 0, &[]),
            task: Task::Forget(file),
            last_write: Timestamp::default(),
        };
        if let Err(status) = self.change(work, None).await {
            tracing::debug!(file = file.0, %status, "a file without a name is not removed yet");
            self.unnamed.borrow_mut().insert(file);
        }
    }
}
