//! Who may hold capabilities of a file, and how a change of owner or mode takes them back.
//!
//! A capability is good for 60 s, also when its holder has lost the right meanwhile. So a change that takes a right
//! from a user who may hold one is not answered before the file's I/O servers refuse the capabilities from before it.
//! Owners and root lose nothing by a mode, so tar(1) and cp(1), which set the mode of every file, cost no message.

use super::Manager;
use crate::limits::{
    CAPABILITY_AGE, CLOCK_SKEW_MAX, GRANT_AGE, HOLDERS_MAX, INTENT_RETRY, REVOKED_AHEAD_MAX,
    SIZE_DEADLINE,
};
use gannet_meta::namespace;
use gannet_runtime::{Instant, LocalFuture, all, sleep, timeout};
use gannet_wire::volume::{Body, Call, FileId, Inode, LayoutRecord, Status};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::rc::Rc;
use std::time::Duration;

/// The users who may hold capabilities, and the fences of files.
#[derive(Default)]
pub(super) struct Holders {
    files: BTreeMap<FileId, Held>,
    /// Files by the time at which their last capability ends, the earliest first.
    order: VecDeque<(Instant, FileId)>,
    /// Until then anybody may hold one of any file: there was no room to note who.
    anybody_until: Instant,
}

#[derive(Default)]
struct Held {
    /// Users other than root.
    users: Vec<u32>,
    /// Until when the last of them may use one.
    until: Instant,
    /// The time of expiry, in seconds since the Unix epoch, up to which capabilities are revoked.
    fence: u64,
}

impl Holders {
    /// Notes that a user gets a capability.
    fn note(&mut self, file: FileId, uid: u32, now: Instant) {
        self.forget(now);
        let until = now + GRANT_AGE;
        if self.order.len() >= HOLDERS_MAX {
            self.anybody_until = until;
            return;
        }
        let held = self.files.entry(file).or_default();
        if uid != 0 && !held.users.contains(&uid) {
            held.users.push(uid);
        }
        held.until = until;
        self.order.push_back((until, file));
    }

    /// Forgets files of which all capabilities have ended.
    fn forget(&mut self, now: Instant) {
        while let Some((until, file)) = self.order.front().copied()
            && until <= now
        {
            self.order.pop_front();
            if self.files.get(&file).is_some_and(|held| held.until <= now) {
                self.files.remove(&file);
            }
        }
    }

    /// The number of files of which somebody may hold a capability.
    pub(super) fn count(&mut self, now: Instant) -> usize {
        self.forget(now);
        self.files.len()
    }

    /// Whether a change of a file's inode takes a right from somebody who may hold a capability.
    fn lose(&self, file: FileId, before: &Inode, after: &Inode, now: Instant) -> bool {
        let less_mode = before.mode & !after.mode & 0o077 != 0;
        let is_less = less_mode || before.gid != after.gid;
        let loses = |user: &u32| {
            let was_owner = *user == before.uid && *user != after.uid;
            was_owner || (*user != after.uid && is_less)
        };
        let is_changed = is_less || before.uid != after.uid;
        let held = self.files.get(&file).filter(|held| now < held.until);
        (is_changed && now < self.anybody_until)
            || held.is_some_and(|held| held.users.iter().any(loses))
    }
}

impl Manager {
    /// Notes the holder of a capability that is about to be given; gives the time at which it is to expire, since the
    /// Unix epoch.
    ///
    /// # Errors
    /// `Jukebox`: capabilities of the file were revoked again and again in this second.
    pub(super) fn note_holder(&self, file: FileId, uid: u32) -> Result<Duration, Status> {
        let mut holders = self.holders.borrow_mut();
        holders.note(file, uid, self.runtime.now());
        let expires = self.runtime.wall_clock() + CAPABILITY_AGE + CLOCK_SKEW_MAX;
        let fence = holders.files.get(&file).map_or(0, |held| held.fence);
        let after_fence = Duration::from_secs(fence.saturating_add(1));
        if fence == 0 || after_fence <= expires {
            return Ok(expires);
        }
        if after_fence > expires + REVOKED_AHEAD_MAX {
            return Err(Status::Jukebox);
        }
        Ok(after_fence)
    }

    /// The inode that a change of owner or mode is about, as it is before the change.
    pub(super) fn before_loss(&self, call: &Call) -> Option<(FileId, Inode)> {
        let Call::Setattr {
            file,
            attributes: change,
            ..
        } = call
        else {
            return None;
        };
        if change.mode.is_none() && change.uid.is_none() && change.gid.is_none() {
            return None;
        }
        let inode = self.look(|view| namespace::inode(view, *file)).ok()?;
        Some((*file, inode))
    }

    /// Takes capabilities back, if a change since `before` takes a right from somebody who may hold one. Returns when
    /// the I/O servers that answer refuse them. Others hear of it when they are back.
    pub(super) async fn end_lost_rights(self: &Rc<Self>, file: FileId, before: &Inode) {
        let Ok(after) = self.look(|view| namespace::inode(view, file)) else {
            return;
        };
        let now = self.runtime.now();
        let is_lost = self.holders.borrow().lose(file, before, &after, now);
        let Body::Regular { layout, .. } = after.body else {
            return;
        };
        if !is_lost {
            return;
        }
        let latest = self.runtime.wall_clock() + CAPABILITY_AGE + CLOCK_SKEW_MAX;
        let fence = {
            let mut holders = self.holders.borrow_mut();
            let held = holders.files.entry(file).or_default();
            held.fence =
                held.fence.max(latest.as_secs()) + u64::from(held.fence >= latest.as_secs());
            held.until = now + GRANT_AGE;
            let (fence, until) = (held.fence, held.until);
            holders.order.push_back((until, file));
            fence
        };
        self.revoke(file, &layout, fence).await;
    }

    async fn revoke(self: &Rc<Self>, file: FileId, layout: &LayoutRecord, fence: u64) {
        let groups = self.servers.groups();
        // All members: each may be the next primary.
        let records = layout.groups.iter().filter_map(|group| groups.get(*group));
        let members = records.flat_map(|record| &record.members);
        let servers: BTreeSet<u32> = members.map(|member| member.server).collect();
        let calls = servers.into_iter().map(|number| {
            let manager = Rc::clone(self);
            let call: LocalFuture<()> = Box::pin(async move {
                let revoked = manager.objects.revoke(number, file, fence);
                let revoked = timeout(&manager.runtime, SIZE_DEADLINE, revoked).await;
                if !matches!(revoked, Ok(Ok(()))) {
                    tracing::warn!(
                        number,
                        file = file.0,
                        "an I/O server that is away hears later who may not use a file any more"
                    );
                    manager.revoke_later(number, file, fence);
                }
            });
            call
        });
        all(calls).await;
    }

    /// Tells servers that were away, and may have restarted, of the revocations that still matter, until the runtime
    /// ends.
    pub(super) async fn revoke_again(self: Rc<Self>) {
        loop {
            let returned = self.office.returned().await;
            let now = self.runtime.now();
            let fences: Vec<(FileId, u64)> = {
                let holders = self.holders.borrow();
                let live =
                    (holders.files.iter()).filter(|(_, held)| held.fence > 0 && now < held.until);
                live.map(|(file, held)| (*file, held.fence)).collect()
            };
            for number in returned {
                for (file, fence) in &fences {
                    self.revoke_later(number, *file, *fence);
                }
            }
        }
    }

    /// Tells a server of a revocation, again and again until it answers or no capability is good any more.
    fn revoke_later(self: &Rc<Self>, number: u32, file: FileId, fence: u64) {
        let manager = Rc::clone(self);
        let until = self.runtime.now() + GRANT_AGE;
        let telling = async move {
            while manager.runtime.now() < until
                && manager.objects.revoke(number, file, fence).await.is_err()
            {
                sleep(&manager.runtime, INTENT_RETRY).await;
            }
        };
        self.runtime.spawn("revocation", Box::pin(telling));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gannet_wire::volume::{NodeKind, Timestamp};

    fn inode(uid: u32, gid: u32, mode: u32) -> Inode {
        Inode {
            mode,
            uid,
            gid,
            links: 1,
            access_time: Timestamp::default(),
            modify_time: Timestamp::default(),
            change_time: Timestamp::default(),
            body: Body::Node(NodeKind::Fifo),
        }
    }

    #[test]
    fn a_right_is_lost_by_a_holder_who_is_not_the_owner() {
        let (mut holders, now) = (Holders::default(), Instant::START);
        let file = FileId(7);
        let lose = |it: &Holders, before: &Inode, after: &Inode| it.lose(file, before, after, now);
        let open = inode(10, 20, 0o666);
        holders.note(file, 0, now);
        holders.note(file, 10, now);
        assert!(
            !lose(&holders, &open, &inode(10, 20, 0o600)),
            "owner and root"
        );
        assert!(
            lose(&holders, &open, &inode(11, 20, 0o666)),
            "the former owner"
        );
        holders.note(file, 12, now);
        for (after, loses) in [
            (inode(10, 20, 0o666), false),
            (inode(10, 20, 0o777), false),
            (inode(10, 20, 0o600), true),
            (inode(10, 20, 0o664), true),
            (inode(10, 21, 0o666), true),
            (inode(12, 20, 0o600), true),
        ] {
            assert_eq!(lose(&holders, &open, &after), loses, "{after:?}");
        }
        let later = now + GRANT_AGE;
        assert!(!holders.lose(file, &open, &inode(10, 20, 0), later));
        holders.note(FileId(8), 5, later);
        assert_eq!(holders.files.len(), 1);
    }

    #[test]
    fn without_room_anybody_may_hold_one() {
        let (mut holders, now) = (Holders::default(), Instant::START);
        (0..=HOLDERS_MAX as u64).for_each(|it| holders.note(FileId(it), 5, now));
        let (before, after) = (inode(10, 20, 0o666), inode(10, 20, 0o600));
        assert!(holders.lose(FileId(u64::MAX), &before, &after, now));
        assert!(!holders.lose(FileId(u64::MAX), &before, &before, now));
    }
}
