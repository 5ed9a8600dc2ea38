//! Changes of the records of groups, which their members wish for.
//!
//! A record that replaces another is durable in the metadata, and the manager still holds its lease afterwards, before
//! a member or a client hears of it. So of two managers only one decides.

use super::{GroupsDescription, Manager};
use crate::limits::RESTARTED_ALONE_AFTER;
use crate::link::{Link, Message};
use gannet_meta::empty_members::note_filled;
use gannet_meta::group_wishes::wished;
use gannet_runtime::Instant;
use gannet_wire::volume::{GroupRecord, GroupWish, MemberState, Role, Status, Wish};
use gannet_wire::xdr::{from_bytes, to_bytes};
use std::cell::{OnceCell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use tokio::sync::Mutex;

/// The wishes of members of groups.
#[derive(Default)]
pub(super) struct Wishes {
    /// One wish at a time is granted.
    pub(super) alone: Mutex<()>,
    /// The last epoch of groups that their primaries have noted before any other member heard of it.
    confirmed: RefCell<BTreeMap<u32, u64>>,
    /// The members of groups that have restarted in an epoch.
    restarted: RefCell<BTreeMap<u32, Restarted>>,
    /// The members of groups that have lost their disks, in an epoch in which no other one is in.
    lost: RefCell<BTreeMap<u32, (u64, u32)>>,
    /// The parts of the volume's description that groups need.
    pub(super) description: OnceCell<GroupsDescription>,
    /// When this manager began.
    pub(super) began: OnceCell<Instant>,
}

/// The members of a group that have restarted in an epoch.
#[derive(Default)]
struct Restarted {
    epoch: u64,
    /// When each said so first.
    since: BTreeMap<u32, Instant>,
}

impl Wishes {
    /// The members of a group that have restarted in this epoch, and since when that is known of each.
    pub(super) fn restarted(&self, group: u32, epoch: u64) -> BTreeMap<u32, Instant> {
        match self.restarted.borrow().get(&group) {
            Some(known) if known.epoch == epoch => known.since.clone(),
            _ => BTreeMap::new(),
        }
    }

    fn has_lost(&self, group: u32, epoch: u64, server: u32) {
        self.lost.borrow_mut().insert(group, (epoch, server));
    }

    /// The member of a group that has lost its disk in this epoch.
    pub(super) fn lost(&self, group: u32, epoch: u64) -> Option<u32> {
        let lost = self.lost.borrow().get(&group).copied();
        lost.filter(|(at, _)| *at == epoch)
            .map(|(_, server)| server)
    }

    fn has_restarted(&self, group: u32, epoch: u64, server: u32, now: Instant) {
        let mut restarted = self.restarted.borrow_mut();
        let known = restarted.entry(group).or_default();
        if known.epoch != epoch {
            *known = Restarted {
                epoch,
                since: BTreeMap::new(),
            };
        }
        known.since.entry(server).or_insert(now);
    }
}

/// The record as it counts for a member that restarted a while ago: one that has said nothing since is out. Were that
/// one there, it would have had this one dropped. All that is durable is here, and what is not is written again.
fn without_silent(
    record: &GroupRecord,
    restarted: &BTreeMap<u32, Instant>,
    now: Instant,
) -> GroupRecord {
    let mut record = record.clone();
    let is_over = restarted
        .values()
        .any(|since| now >= *since + RESTARTED_ALONE_AFTER);
    let silent = record
        .members
        .iter_mut()
        .filter(|it| !restarted.contains_key(&it.server));
    if is_over {
        silent.for_each(|member| member.state = MemberState::Out);
    }
    record
}

impl Manager {
    /// Answers the wish of a member of a group with the record that counts now.
    ///
    /// # Errors
    /// `Perm`: the peer is no I/O server. `Inval`: there is no such group, or the server is no member. `Jukebox`: the
    /// manager may not decide now. Others: those of the store.
    pub(super) async fn hear_wish(
        self: &Rc<Self>,
        link: &Link,
        request: &Message,
    ) -> Result<Vec<u8>, Status> {
        if link.peer() != Role::IoServer {
            return Err(Status::Perm);
        }
        let wish: GroupWish = from_bytes(request.body()).map_err(|_| Status::Inval)?;
        let _alone = self.wishes.alone.lock().await;
        let known = self.servers.groups().get(wish.group).cloned();
        let known = known.filter(|it| it.has(wish.server));
        let known = known.ok_or(Status::Inval)?;
        if wish.record.epoch < known.epoch {
            return Ok(to_bytes(&known));
        }
        // A later one: the metadata is a backup from before it.
        let is_known = wish.record.epoch == known.epoch;
        if !self.has_its_members(&wish, &known) {
            return Err(Status::Inval);
        }
        let base = if is_known { known } else { wish.record.clone() };
        let now = self.runtime.now();
        if wish.wish == Wish::Lost {
            self.wishes.has_lost(wish.group, base.epoch, wish.server);
        }
        if wish.wish == Wish::Restarted {
            (self.wishes).has_restarted(wish.group, base.epoch, wish.server, now);
        }
        let restarted = self.wishes.restarted(wish.group, base.epoch);
        if wish.wish == Wish::Broken && !self.other_answers(&base, wish.server) {
            return Ok(to_bytes(&base));
        }
        let confirmed = self.wishes.confirmed.borrow().get(&wish.group).copied();
        let what = match wish.wish {
            // The primary has noted this record: it believes in no earlier one.
            Wish::DropRestarted if confirmed == Some(base.epoch) => Wish::Drop,
            what => what,
        };
        let (members, said) = (
            restarted.keys().copied().collect(),
            match what {
                Wish::Restarted => &without_silent(&base, &restarted, now),
                _ => &base,
            },
        );
        let next = match wished(said, wish.server, what, &members) {
            None => self.without_restarted(&base, &wish, &members).await,
            next => next,
        };
        let Some(next) = next else {
            if !is_known {
                self.replace_group(&wish, &base).await?;
            }
            return Ok(to_bytes(&base));
        };
        if !self.has_noted_the_first(&base, &next, wish.server).await {
            return Ok(to_bytes(&base));
        }
        self.replace_group(&wish, &next).await?;
        if matches!(wish.wish, Wish::Drop | Wish::DropRestarted) {
            let others = next.members.iter().filter(|it| it.server != wish.server);
            others.for_each(|other| self.office.is_out(other.server));
        }
        tracing::info!(group = wish.group, server = wish.server, wish = %wish.wish, record = %next, "a group changes");
        Ok(to_bytes(&next))
    }

    /// Whether the primary of the next record has surely noted the group's first one, if that is this one: else the
    /// next one would tell it that it has lost the group. A server that wishes has noted the record.
    async fn has_noted_the_first(
        &self,
        record: &GroupRecord,
        next: &GroupRecord,
        wishing: u32,
    ) -> bool {
        let primary = next.primary().filter(|it| *it != wishing);
        let Some(primary) = primary.filter(|_| record.epoch <= 1) else {
            return true;
        };
        let memberships = self.servers.groups().memberships(primary);
        self.office.tell(primary, &memberships).await
    }

    /// The record without a member that has restarted, if the other one has not and is there: it would wish for that
    /// once it has waited for the member.
    async fn without_restarted(
        &self,
        record: &GroupRecord,
        wish: &GroupWish,
        restarted: &BTreeSet<u32>,
    ) -> Option<GroupRecord> {
        if wish.wish != Wish::Restarted || !self.other_answers(record, wish.server) {
            return None;
        }
        let mut others = record.members.iter().filter(|it| it.server != wish.server);
        let other = others.next()?.server;
        let next = wished(record, other, Wish::Drop, restarted)?;
        // It answers now: it could have died just after its last answer.
        let memberships = self.servers.groups().memberships(other);
        self.office.tell(other, &memberships).await.then_some(next)
    }

    /// Whether the other members of a group have answered this manager a short while ago.
    fn other_answers(&self, record: &GroupRecord, server: u32) -> bool {
        let mut others = record.members.iter().filter(|it| it.server != server);
        others.all(|it| self.office.answers(it.server))
    }

    async fn replace_group(
        self: &Rc<Self>,
        wish: &GroupWish,
        record: &GroupRecord,
    ) -> Result<(), Status> {
        let group = wish.group;
        let is_filled = wish.wish == Wish::Filled;
        let servers: Vec<u32> = record.members.iter().map(|it| it.server).collect();
        let noted = [(group, record.clone())];
        let noting = self.note_groups(&noted, move |transaction| {
            let mut filled = servers.iter().filter(|_| is_filled);
            filled.try_for_each(|server| note_filled(transaction, *server, group))
        });
        noting.await?;
        if is_filled {
            // The primary first: the other member may then take over from it at any time.
            let groups = self.servers.groups().with(group, record.clone());
            let memberships = groups.memberships(wish.server);
            if self.office.tell(wish.server, &memberships).await {
                let mut confirmed = self.wishes.confirmed.borrow_mut();
                confirmed.insert(group, record.epoch);
            }
            // Again: it may have taken a while.
            self.office.within_lease(Ok(()), false).await?;
        }
        self.use_groups(self.servers.groups().with_all(&noted));
        for member in &record.members {
            self.office.tell_again(member.server);
        }
        Ok(())
    }
}
