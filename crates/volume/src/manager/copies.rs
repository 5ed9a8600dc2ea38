//! How many I/O servers keep each byte, which the volume's owner may change while it is served.
//!
//! All groups change in one transaction. A second member that comes is *out*: it has nothing yet, and asks to be filled
//! like a member that was away. The primary serves its group all the time.

use super::{Manager, VolumeState, status};
use crate::layout::GroupsForFiles;
use gannet_meta::copies_setting::{CopiesSetting, copies_setting, note_copies_setting};
use gannet_meta::empty_members::note_empty;
use gannet_meta::group_placement::{
    PlacementError, Zones, with_second_members, without_second_members,
};
use gannet_meta::groups::{Groups, put_groups};
use gannet_meta::{StoreError, Transaction, claims, terms};
use gannet_runtime::{all, run_blocking};
use gannet_wire::volume::{
    Address, Caller, Copies, CopiesAnswer, CopiesOutcome, CopiesWanted, GROUPS_OF_SERVER_MAX,
    GroupRecord, GroupWish, Memberships, Status, ToldGroups,
};
use gannet_wire::xdr::to_bytes;
use std::collections::BTreeSet;
use std::io;
use std::rc::Rc;
use std::sync::Arc;

/// Prepares the description of a volume for records of groups, durably: an earlier release must refuse the volume.
pub type DescribeGroups = Arc<dyn Fn() -> io::Result<()> + Send + Sync>;

/// The parts of a volume's description that groups need.
#[derive(Default)]
pub struct GroupsDescription {
    /// The zones of I/O servers by their numbers, where the description names them.
    pub zones: Vec<Option<String>>,
    /// Prepares the description for records of groups; `None` where it is in no file.
    pub prepare: Option<DescribeGroups>,
}

impl GroupsDescription {
    /// The zones of I/O servers at these addresses. A server without one is in the zone of its host.
    pub(crate) fn zones(&self, addresses: &[Option<Address>], may_share: bool) -> Zones {
        let described = self.zones.iter().cloned().chain(std::iter::repeat(None));
        let names = addresses.iter().zip(described).map(|(address, described)| {
            // No name of a zone has a colon in it.
            let host = address.as_ref().map(|it| format!("host:{}", it.host));
            described.or(host)
        });
        Zones::new(names.collect(), may_share)
    }
}

/// The message that tells an I/O server these groups.
pub(super) fn told_groups(volume: &VolumeState, memberships: Memberships) -> Vec<u8> {
    to_bytes(&ToldGroups {
        memberships,
        min_copies: volume.min_copies(),
    })
}

/// An outcome, and the number that belongs to it.
type Outcome = (CopiesOutcome, u32);

impl Manager {
    /// Uses this description and this setting from now on.
    pub fn describe_groups_with(&self, description: GroupsDescription, setting: CopiesSetting) {
        self.state.need_copies(setting.min_copies);
        // Called once, by the start of the manager.
        let _ = self.wishes.began.set(self.runtime.now());
        let _ = self.wishes.description.set(description);
    }

    /// Gives each group as many members as is wanted, and tells the state that came of it.
    ///
    /// # Errors
    /// `Perm`: the caller may not. `Jukebox`: the manager may not decide now. Others: those of the store.
    pub(super) async fn set_copies(
        self: &Rc<Self>,
        caller: &Caller,
        wanted: CopiesWanted,
    ) -> Result<Vec<u8>, Status> {
        let (mut outcome, mut number) = (CopiesOutcome::Done, 0);
        if wanted.copies > 0 {
            self.may_administer(caller)?;
            // Wishes of members change the records too.
            let _alone = self.wishes.alone.lock().await;
            (outcome, number) = self.change_copies(wanted).await?;
        }
        let CopiesSetting {
            same_host,
            min_copies,
        } = self.look(copies_setting)?;
        Ok(to_bytes(&CopiesAnswer {
            outcome,
            number,
            same_host,
            min_copies,
            in_one_zone: self.zones(same_host).groups_in_one(&self.servers.groups()),
            chosen: self.servers.groups().chosen().iter().copied().collect(),
        }))
    }

    /// The zones of the I/O servers, as far as they are known now.
    pub(super) fn zones(&self, may_share: bool) -> Zones {
        let addresses = self.state.addresses();
        let described = self.wishes.description.get();
        let zones = described.map(|it| it.zones(&addresses, may_share));
        zones.unwrap_or_else(|| GroupsDescription::default().zones(&addresses, may_share))
    }

    async fn change_copies(self: &Rc<Self>, wanted: CopiesWanted) -> Result<Outcome, Status> {
        let (known, servers) = (self.servers.groups(), self.servers.count());
        let changed = match wanted.copies {
            1 => without_second_members(&known),
            _ if servers < 2 => return Ok((CopiesOutcome::OneServer, 0)),
            _ => with_second_members(&known, servers, &self.zones(wanted.same_host)),
        };
        let changed = match changed {
            Ok(changed) => changed,
            Err(PlacementError::Unserved { group }) => {
                return Ok((CopiesOutcome::Unserved, group));
            }
            Err(PlacementError::NoSecond { group }) => {
                return Ok((CopiesOutcome::NoSecond, group));
            }
            // A reason that this release does not know.
            Err(_) => return Err(Status::Serverfault),
        };
        let kept = changed.iter().filter_map(|(_, record)| record.primary());
        if let Some(refusal) = self.may_keep_alone(&known, &kept.collect()).await? {
            return Ok(refusal);
        }
        if let Some(server) = self.restarted_among(&changed) {
            return Ok((CopiesOutcome::Away, server));
        }
        if let Some(server) = self.lost_among(&changed) {
            return Ok((CopiesOutcome::LostDisk, server));
        }
        let mut chosen = known.for_choice(Some(Copies::Two));
        let directories_have_two = chosen.next().is_some();
        let setting = CopiesSetting {
            same_host: wanted.same_host,
            min_copies: wanted.min_copies.min(if directories_have_two {
                2
            } else {
                wanted.copies
            }),
        };
        let needed = self.state.min_copies();
        // Told with the records: what is written to a group with one copy from then on waits.
        self.state.need_copies(setting.min_copies);
        let replacing = self.replace_groups(&known, &changed, Some(setting)).await;
        replacing.inspect_err(|_| self.state.need_copies(needed))?;
        if needed != setting.min_copies {
            (0..servers).for_each(|server| self.office.tell_again(server));
        }
        tracing::info!(
            copies = wanted.copies,
            groups = changed.len(),
            "the groups change"
        );
        // Bounded by GROUPS_MAX.
        Ok((CopiesOutcome::Done, changed.len() as u32))
    }

    /// A server that is to be the only member of a group, and has just restarted in that: the other one may have more.
    fn restarted_among(&self, changed: &[(u32, GroupRecord)]) -> Option<u32> {
        let mut single = changed.iter().filter(|(_, it)| it.members.len() == 1);
        let has_restarted = single.find(|(group, record)| {
            let epoch = record.epoch.saturating_sub(1);
            let restarted = self.wishes.restarted(*group, epoch);
            record
                .primary()
                .is_some_and(|it| restarted.contains_key(&it))
        });
        has_restarted.and_then(|(_, record)| record.primary())
    }

    /// A server that is to be the only member of a group, and says that it has lost what it had of it.
    fn lost_among(&self, changed: &[(u32, GroupRecord)]) -> Option<u32> {
        let single = changed.iter().filter(|(_, it)| it.members.len() == 1);
        let mut kept = single.filter_map(|(group, record)| {
            let lost = self.wishes.lost(*group, record.epoch.saturating_sub(1))?;
            (record.primary() == Some(lost)).then_some(lost)
        });
        kept.next()
    }

    /// Why these servers cannot be the only ones with all data of their groups, if one cannot.
    async fn may_keep_alone(
        &self,
        known: &Groups,
        servers: &BTreeSet<u32>,
    ) -> Result<Option<Outcome>, Status> {
        if let Some(server) = self.silent(known, servers).await.first() {
            return Ok(Some((CopiesOutcome::Away, *server)));
        }
        // A group of two takes no missing object for a lost one.
        let losses = self.look(claims::losses)?;
        let lost = losses.keys().find(|it| servers.contains(it));
        Ok(lost.map(|server| (CopiesOutcome::LostDisk, *server)))
    }

    /// The servers among these that do not answer now. An answer of a while ago says nothing of a disk.
    pub(super) async fn silent(&self, known: &Groups, servers: &BTreeSet<u32>) -> BTreeSet<u32> {
        // It is told what it knows already.
        let telling = servers.iter().map(|server| {
            Box::pin(async move { self.office.tell(*server, &known.memberships(*server)).await })
        });
        let told = all(telling).await;
        let silent = servers.iter().zip(told).filter(|(_, is_told)| !is_told);
        silent.map(|(server, _)| *server).collect()
    }

    /// Replaces the records of these groups, and the setting if there is one.
    pub(super) async fn replace_groups(
        self: &Rc<Self>,
        known: &Groups,
        changed: &[(u32, GroupRecord)],
        setting: Option<CopiesSetting>,
    ) -> Result<(), Status> {
        let new = changed.iter().flat_map(|(group, record)| {
            let had = move |server| known.get(*group).is_some_and(|it| it.has(server));
            let members = record.members.iter().map(|it| it.server);
            members
                .filter(move |it| !had(*it))
                .map(|server| (*group, server))
        });
        let new: Vec<(u32, u32)> = new.collect();
        self.describe_groups().await?;
        let noting = self.note_groups(changed, move |transaction| {
            // They have nothing yet: that must not pass for an older copy.
            for (group, server) in &new {
                note_empty(transaction, *server, &[*group])?;
            }
            setting.map_or(Ok(()), |it| note_copies_setting(transaction, it))
        });
        noting.await?;
        self.use_groups(known.with_all(changed));
        let members = |record: &GroupRecord| -> Vec<u32> {
            record.members.iter().map(|it| it.server).collect()
        };
        let before = changed.iter().filter_map(|(group, _)| known.get(*group));
        let after = changed.iter().map(|(_, record)| record);
        let told: BTreeSet<u32> = before.chain(after).flat_map(members).collect();
        told.into_iter().for_each(|it| self.office.tell_again(it));
        Ok(())
    }

    /// Prepares the description of the volume for records of groups, durably.
    pub(super) async fn describe_groups(&self) -> Result<(), Status> {
        let describing = self.wishes.description.get();
        let Some(describe) = describing.and_then(|it| it.prepare.clone()) else {
            return Ok(());
        };
        let described = run_blocking(&self.runtime, move || describe()).await;
        described.map_err(|_| Status::Io)?.map_err(|error| {
            tracing::error!(%error, "the description of the volume cannot be changed");
            Status::Io
        })
    }

    /// Makes records of groups durable, with what `more` notes. The manager still holds its lease afterwards: another
    /// one could have begun before they were durable.
    pub(super) async fn note_groups(
        &self,
        records: &[(u32, GroupRecord)],
        more: impl Fn(&mut dyn Transaction) -> Result<(), StoreError> + Send + 'static,
    ) -> Result<(), Status> {
        let (store, noted) = (Arc::clone(&self.store), records.to_vec());
        let noting = run_blocking(&self.runtime, move || {
            let mut change = Ok(0);
            store.commit(&mut |transaction| {
                put_groups(transaction, &noted)?;
                more(transaction)?;
                change = terms::next_change(transaction);
                Ok(())
            })?;
            Ok(change?)
        });
        let change = noting.await.map_err(|_| Status::Io)?.map_err(status)?;
        self.office.note_change(change);
        self.office.within_lease(Ok(()), false).await
    }

    /// These groups count from now on.
    pub(super) fn use_groups(&self, groups: Groups) {
        let for_files = GroupsForFiles::of(&groups, self.servers.count());
        self.servers.use_groups(Arc::new(groups));
        self.groups_for_files.replace(Arc::new(for_files));
    }

    /// Whether the record of a wish has the members of the group that is known. A later one may have one more: the
    /// metadata is a backup from before that came.
    pub(super) fn has_its_members(&self, wish: &GroupWish, known: &GroupRecord) -> bool {
        let has_all = known.members.iter().all(|it| wish.record.has(it.server));
        let groups = self.servers.groups();
        let mut more = (wish.record.members.iter()).filter(|it| !known.has(it.server));
        let has_room = |server| groups.memberships(server).groups.len() < GROUPS_OF_SERVER_MAX;
        let may_come = wish.record.epoch > known.epoch
            && more
                .clone()
                .all(|it| it.server < self.servers.count() && has_room(it.server));
        has_all && (more.next().is_none() || may_come)
    }
}
