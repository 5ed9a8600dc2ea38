//! Open files follow the server, also where the kernel asks nobody: a read inside the length that it knows is answered
//! from its pages, whatever their age.

use super::Mounted;
use crate::inodes::Fetched;
use crate::limits::{FOLLOW_EVERY_MIN, FOLLOWED_AT_A_TIME, FOLLOWED_MAX};
use gannet_runtime::{all, sleep};
use gannet_vfs::Vfs;
use std::collections::BTreeSet;
use std::rc::Weak;

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
        let (before, behind) = (numbers.range(..=last), numbers.range(last + 1..));
        behind.chain(before).copied().take(FOLLOWED_MAX).collect()
    }

    /// Asks for the attributes of an open file, and has its pages dropped if they are of another state. A file with own
    /// writes under way is judged by their replies.
    async fn follow(&self, number: u64) {
        let written = self.known_unstable(number).ok().flatten();
        if written.is_some_and(|file| !file.is_answered()) {
            return;
        }
        let asked = self.within(async {
            let handle = self.handle(number)?;
            let newest = self.newest(&handle, None).await?;
            self.inodes.borrow_mut().learn(number, &newest);
            Ok(newest)
        });
        let Ok(newest) = asked.await else {
            return;
        };
        self.drop_other_content(number, &newest).await;
        self.pages.drop_stale(number).await;
    }

    /// Has the kernel drop its pages of a file that may have other bytes by now, although its length and times are the
    /// same; true if it may. A volume's file has the latest of its servers' clocks: a write at a server that is behind
    /// moves none. Its change id moves.
    ///
    /// Change ids of other stores come from their times, which tell no more.
    pub(super) async fn drop_other_content(&self, number: u64, newest: &Fetched) -> bool {
        let change_id = newest.attributes.change_id;
        let is_other =
            self.vfs.is_coordinated() && self.inodes.borrow().has_other_pages(number, change_id);
        if is_other {
            self.pages.drop_from(number, 0).await;
            // Not before: another open meanwhile must find that the pages are of another state.
            self.inodes.borrow_mut().checked(number, change_id);
        }
        is_other
    }
}
