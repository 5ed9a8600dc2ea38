//! Groups for directories that choose how many I/O servers keep each byte.
//!
//! They are opened when the first directory or file wishes for so many copies. `gannet volume copies` leaves them as
//! they are, so that what a directory chose stays.

use super::Manager;
use gannet_meta::copies_setting::copies_setting;
use gannet_meta::groups::{groups_to_choose, note_chosen};
use gannet_meta::namespace;
use gannet_wire::volume::{Call, Caller, Copies, Status};
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
        let (known, servers) = (self.servers.groups(), self.servers.count());
        let zones = self.zones(self.look(copies_setting)?.same_host);
        let new = groups_to_choose(&known, servers, copies, &zones).map_err(|error| {
            tracing::warn!(%error, copies = copies.number(), "no groups for the copies of a directory");
            Status::Notsupp
        })?;
        self.describe_groups().await?;
        let noted = new.clone();
        self.note_groups(&new, move |transaction| note_chosen(transaction, &noted))
            .await?;
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

    fn has_groups_for(&self, copies: Copies) -> bool {
        let groups = self.servers.groups();
        groups.for_choice(Some(copies)).next().is_some()
    }
}
