//! Groups whose only member with all data is gone. Their owner may give up what that one alone had.

use super::{Manager, listed};
use crate::limits::GONE_AFTER;
use gannet_meta::empty_members::empty_members;
use gannet_meta::group_placement::with_stale_member;
use gannet_meta::groups::Groups;
use gannet_wire::volume::{Caller, GroupRecord, STALE_GROUPS_MAX, StaleGroups, Status};
use gannet_wire::xdr::to_bytes;
use std::collections::BTreeSet;
use std::rc::Rc;

impl Manager {
    /// The groups whose only member with all data has not answered for a while, or has lost its disk. Of those that
    /// are named, the other member counts from now on.
    ///
    /// # Errors
    /// `Perm`: the caller may not accept. `Jukebox`: the manager may not decide now. Others: those of the store.
    pub(super) async fn stale_groups(
        self: &Rc<Self>,
        caller: &Caller,
        accept: StaleGroups,
    ) -> Result<Vec<u8>, Status> {
        let StaleGroups { groups: accepted } = accept;
        let _alone = if accepted.is_empty() {
            None
        } else {
            self.may_administer(caller)?;
            // No wish of a member comes between the question who is there and the next record.
            Some(self.wishes.alone.lock().await)
        };
        let known = self.servers.groups();
        let empty = self.look(|view| Ok(empty_members(view)?))?;
        let mut stale = self.stale_among(&known, &empty).await;
        if !accepted.is_empty() {
            stale.retain(|(group, _)| accepted.contains(group));
        }
        let groups: Vec<u32> = stale.iter().map(|(group, _)| *group).collect();
        if !accepted.is_empty() && !stale.is_empty() {
            self.replace_groups(&known, &stale, None).await?;
            tracing::warn!(
                groups = listed(&groups),
                "older data of groups count: what another member alone had is given up"
            );
        }
        Ok(to_bytes(&StaleGroups { groups }))
    }

    /// Stale groups, each with the record that would replace its own. A member of `empty` has nothing that could count.
    async fn stale_among(
        &self,
        known: &Groups,
        empty: &BTreeSet<(u32, u32)>,
    ) -> Vec<(u32, GroupRecord)> {
        let mut stale: Vec<(u32, GroupRecord)> = (0..)
            .zip(known.records())
            .filter_map(|(group, record)| Some((group, with_stale_member(record)?)))
            .collect();
        let members = stale.iter().flat_map(|(_, record)| &record.members);
        let members: BTreeSet<u32> = members.map(|member| member.server).collect();
        let away = self.silent(known, &members).await;
        stale.retain(|(group, next)| {
            let [stale, gone] = &next.members[..] else {
                return false;
            };
            let lost = known
                .get(*group)
                .and_then(|it| self.wishes.lost(*group, it.epoch));
            // One that is slow, or cannot note its groups, has all data.
            let is_away = away.contains(&gone.server) && self.is_gone(gone.server);
            let is_gone = is_away || lost == Some(gone.server);
            is_gone && !away.contains(&stale.server) && !empty.contains(&(*group, stale.server))
        });
        stale.truncate(STALE_GROUPS_MAX);
        stale
    }

    /// Whether an I/O server has not answered this manager for [`GONE_AFTER`].
    fn is_gone(&self, server: u32) -> bool {
        let began = self.wishes.began.get().copied();
        let runs = began.map(|began| self.runtime.now().duration_since(began));
        let silent = self.office.silent_for(server).into_iter().chain(runs).min();
        silent.is_some_and(|silent| silent >= GONE_AFTER)
    }
}
