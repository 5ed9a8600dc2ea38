//! The second record of a group, which says that its members have noted the first one.
//!
//! A server without a note of a group has nothing yet if the record is the first. With a later one it has lost the
//! group, or has an older image of its disk. So each group gets its second record as soon as its members have noted it:
//! those of new volumes and of added servers soon after a start, those for directories before a file lies there.

use super::Manager;
use gannet_meta::groups::Groups;
use gannet_runtime::sleep;
use gannet_wire::volume::{GroupRecord, MemberState, Status};
use std::collections::BTreeSet;
use std::rc::Rc;
use std::time::Duration;

/// The pause before members are asked again that did not answer.
const RETRY: Duration = Duration::from_secs(2);

impl Manager {
    /// Replaces the first records of all groups of two, until there is none.
    pub(super) async fn replace_first_records(self: Rc<Self>) {
        self.office.lease_begins().await;
        while !first_records(&self.servers.groups()).is_empty() {
            let alone = self.wishes.alone.lock().await;
            let replaced = self.replace_noted_firsts().await;
            drop(alone);
            if let Err(status) = replaced {
                tracing::debug!(%status, "first records of groups stay for a while");
            }
            sleep(&self.runtime, RETRY).await;
        }
    }

    /// Replaces those first records of groups of two that all members that are in have noted.
    pub(super) async fn replace_noted_firsts(self: &Rc<Self>) -> Result<(), Status> {
        let known = self.servers.groups();
        let firsts = first_records(&known);
        let servers: BTreeSet<u32> = firsts.iter().flat_map(|(_, it)| members_in(it)).collect();
        let silent = self.silent(&known, &servers).await;
        let noted = firsts.into_iter();
        let noted = noted.filter(|(_, it)| !members_in(it).any(|server| silent.contains(&server)));
        let later = noted.map(|(group, record)| {
            let epoch = record.epoch + 1;
            (group, GroupRecord { epoch, ..record })
        });
        let later: Vec<_> = later.collect();
        if later.is_empty() {
            return Ok(());
        }
        self.replace_groups(&known, &later, None).await
    }
}

fn members_in(record: &GroupRecord) -> impl Iterator<Item = u32> {
    let members = record.members.iter();
    let members = members.filter(|it| it.state == MemberState::In);
    members.map(|it| it.server)
}

/// The groups of several members that still have their first record.
pub(super) fn first_records(groups: &Groups) -> Vec<(u32, GroupRecord)> {
    let records = (0..).zip(groups.records());
    let firsts = records.filter(|(_, it)| it.epoch <= 1 && it.members.len() > 1);
    firsts
        .map(|(group, record)| (group, record.clone()))
        .collect()
}
