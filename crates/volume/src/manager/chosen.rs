//! Groups for directories that choose how many I/O servers keep each byte.
//!
//! They are opened when the first directory or file wishes for so many copies. `gannet volume copies` leaves them as
//! they are, so that what a directory chose stays.

use super::Manager;
use gannet_meta::claims::only_noted_are_new;
use gannet_meta::copies_setting::copies_setting;
use gannet_meta::empty_members::note_empty;
use gannet_meta::groups::{groups_to_choose, note_chosen};
use gannet_meta::namespace;
use gannet_wire::volume::{Call, Caller, Copies, GroupRecord, Member, MemberState, Status};
use std::collections::BTreeSet;
use std::rc::Rc;

impl Manager {
    /// Opens the groups that the files of a change will lie in, if it chooses copies and there are none.
    ///
    /// # Errors
    /// - `Perm`: there are none, and the caller may not administer the volume: earlier releases refuse it afterwards.
    /// - `Inval`: the volume cannot have such stripes.
    /// - `Notsupp`: no I/O server can keep the second copy, or one is in too many groups.
    /// - `Jukebox`: the manager may not decide now.
    /// - Others: those of the store.
    pub(super) async fn open_groups_for(
        self: &Rc<Self>,
        caller: &Caller,
        change: &Call,
    ) -> Result<(), Status> {
        let (Call::Stripes {
            stripes: Some(stripes),
            ..
        }
        | Call::CreateStriped { stripes, .. }) = change
        else {
            return Ok(());
        };
        let Some(copies) = stripes.copies.filter(|it| !self.has_groups_for(*it)) else {
            return Ok(());
        };
        namespace::check_stripes(stripes, self.servers.count())?;
        self.may_administer(caller)?;
        // Wishes of members change the records too.
        let _alone = self.wishes.alone.lock().await;
        if self.has_groups_for(copies) {
            return Ok(());
        }
        let has_first_records = {
            let groups = self.servers.groups();
            groups.for_choice(Some(copies)).next().is_some()
        };
        if !has_first_records {
            self.open_groups(copies).await?;
        }
        // A file that lay there with a first record could be taken for nothing.
        self.replace_noted_firsts().await?;
        if self.has_groups_for(copies) {
            Ok(())
        } else {
            Err(Status::Jukebox)
        }
    }

    /// Opens groups for files with this choice.
    async fn open_groups(self: &Rc<Self>, copies: Copies) -> Result<(), Status> {
        let (known, servers) = (self.servers.groups(), self.servers.count());
        if self.lacks_zones() {
            return Err(Status::Jukebox);
        }
        let zones = self.zones(self.look(copies_setting)?.same_host);
        let new = groups_to_choose(&known, servers, copies, &zones).map_err(|error| {
            tracing::warn!(%error, copies = copies.number(), "no groups for the copies of a directory");
            Status::Notsupp
        })?;
        let away = self.silent(&known, &(0..servers).collect()).await;
        let new: Option<Vec<_>> = (new.into_iter())
            .map(|(group, record)| Some((group, to_begin_with(record, &away)?)))
            .collect();
        let new = new.ok_or(Status::Jukebox)?;
        self.describe_groups().await?;
        let noted = new.clone();
        let noting = self.note_groups(&new, move |transaction| {
            for (group, record) in &noted {
                let others = record.members.iter().skip(1);
                // They have nothing yet: that must not pass for an older copy.
                others
                    .clone()
                    .try_for_each(|it| note_empty(transaction, it.server, &[*group]))?;
            }
            // Layouts will name groups that are no numbers of servers.
            only_noted_are_new(transaction)?;
            note_chosen(transaction, &noted)
        });
        noting.await?;
        self.use_groups(known.with_new(&new, true));
        let members = new.iter().flat_map(|(_, record)| &record.members);
        let members: BTreeSet<u32> = members.map(|member| member.server).collect();
        members
            .into_iter()
            .for_each(|it| self.office.tell_again(it));
        tracing::info!(
            copies = copies.number(),
            groups = new.len(),
            "groups for directories"
        );
        Ok(())
    }

    /// Whether the zone of a server is not known yet: it has not said where it is.
    fn lacks_zones(&self) -> bool {
        let described = self.wishes.description.get();
        let zones = described.map_or(&[][..], |it| &it.zones);
        let addresses = self.state.addresses();
        let mut addresses = addresses.iter().enumerate();
        addresses.any(|(number, address)| {
            let zone = zones.get(number).and_then(Option::as_ref);
            address.is_none() && zone.is_none()
        })
    }

    /// Whether there are groups for files with this choice, which their members have noted.
    fn has_groups_for(&self, copies: Copies) -> bool {
        let groups = self.servers.groups();
        let mut of_choice = groups.for_choice(Some(copies)).peekable();
        of_choice.peek().is_some()
            && of_choice.all(|(_, record)| record.members.len() < 2 || record.epoch > 1)
    }
}

/// The first record of a new group, while these servers are away; `None` if all of its members are. One member is in,
/// and the other one joins: by the next record, the first one has surely heard of the group. So a server that has no
/// note of a group with a later record has lost it.
fn to_begin_with(mut record: GroupRecord, away: &BTreeSet<u32>) -> Option<GroupRecord> {
    let is_there = |member: &Member| !away.contains(&member.server);
    if record.members.len() > 1 {
        record.members.sort_by_key(|member| !is_there(member));
        if !is_there(record.members.first()?) {
            return None;
        }
        let others = record.members.iter_mut().skip(1);
        others.for_each(|member| member.state = MemberState::Out);
    }
    Some(record)
}
