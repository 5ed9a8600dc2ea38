//! The number of copies of a volume's data and the active manager, which its owner may change.

use super::VolumeFs;
use gannet_vfs::{Credentials, Status};
use gannet_wire::volume::{
    Call, Copies, CopiesAnswer, CopiesWanted, LayoutRecord, ManagersAnswer, ManagersWanted,
    StaleGroups,
};
use gannet_wire::xdr::from_bytes;

impl VolumeFs {
    /// Has the manager give each group of I/O servers as many members as is wanted. Those that come are filled
    /// afterwards. Every caller may ask for the state alone.
    ///
    /// # Errors
    /// `Perm`: the caller is neither root nor the owner of the root directory. `Jukebox`: the manager is away, or may
    /// not decide now.
    pub async fn set_copies(
        &self,
        caller: &Credentials,
        wanted: CopiesWanted,
    ) -> Result<CopiesAnswer, Status> {
        let answer = self.ask(caller, Call::Copies { wanted }).await?;
        from_bytes(answer.body()).map_err(|_| Status::Serverfault)
    }

    /// The groups whose only member with all data is gone, while the other one has older data; at most
    /// [`STALE_GROUPS_MAX`](gannet_wire::volume::STALE_GROUPS_MAX). With `accept`, the manager gives up what the first
    /// member alone had: the other one counts from then on.
    ///
    /// # Errors
    /// `Perm`: the caller may not accept. `Jukebox`: the manager is away, or may not decide now.
    pub async fn stale_groups(
        &self,
        caller: &Credentials,
        accept: Vec<u32>,
    ) -> Result<Vec<u32>, Status> {
        let accept = StaleGroups { groups: accept };
        let answer = self.ask(caller, Call::StaleGroups { accept }).await?;
        let stale: StaleGroups = from_bytes(answer.body()).map_err(|_| Status::Serverfault)?;
        Ok(stale.groups)
    }

    /// The managers of the volume. If `ended` is the term of the active one, another one takes over. Every caller may
    /// ask with 0.
    ///
    /// # Errors
    /// `Perm`: the caller is neither root nor the owner of the root directory. `Jukebox`: the manager is away.
    pub async fn managers(
        &self,
        caller: &Credentials,
        ended: u64,
    ) -> Result<ManagersAnswer, Status> {
        let wanted = ManagersWanted { ended };
        let answer = self.ask(caller, Call::Managers { wanted }).await?;
        from_bytes(answer.body()).map_err(|_| Status::Serverfault)
    }

    /// The copies that a file with this layout has by choice; `None`: it has as many as the volume says.
    ///
    /// # Errors
    /// `Jukebox`: the manager is away.
    pub async fn chosen_copies(
        &self,
        caller: &Credentials,
        layout: &LayoutRecord,
    ) -> Result<Option<Copies>, Status> {
        let state = self.set_copies(caller, CopiesWanted::NOTHING).await?;
        let groups = self.servers.groups_of(layout).await;
        let groups = groups.map_err(|_| Status::Jukebox)?;
        let first = layout.groups.first();
        let first = first.filter(|group| state.chosen.contains(group));
        let record = first.and_then(|group| groups.get(*group));
        // Bounded by MEMBERS_MAX.
        Ok(record.and_then(|it| Copies::of(it.members.len() as u32)))
    }
}
