//! The inventory of files and objects, for checks that compare them.

use super::VolumeFs;
use crate::link::LinkError;
use gannet_vfs::{Credentials, Status};
use gannet_wire::volume::{
    Call, Class, FileId, FilePage, OBJECTS_MAX, ObjectId, ObjectPage, ObjectPosition, Operation,
    OrphanStatus, OrphanStatuses,
};
use gannet_wire::xdr::{from_bytes, to_bytes};

impl VolumeFs {
    /// The objects of an I/O server from a position on: pages until [`gannet_wire::volume::FOLDERS`].
    ///
    /// # Errors
    /// `Refused`: the server cannot read its folder. Others: those of [`Link::call`](crate::link::Link::call).
    pub async fn objects(
        &self,
        number: u32,
        from: ObjectPosition,
    ) -> Result<ObjectPage, LinkError> {
        let link = self.servers.io_server(number).await?;
        let body = to_bytes(&from);
        let answer = link.call(Operation::Objects, Class::Background, &body, &[]);
        let answer = answer.await?;
        answer.header.status.map_err(LinkError::Refused)?;
        let page = from_bytes(answer.body());
        page.map_err(|_| LinkError::Undecodable)
    }

    /// The volume's regular files from this number on, and where they lie.
    ///
    /// # Errors
    /// `Jukebox` when the manager is away.
    pub async fn files(&self, caller: &Credentials, from: FileId) -> Result<FilePage, Status> {
        let answer = self.ask(caller, Call::Files { from }).await?;
        from_bytes(answer.body()).map_err(|_| Status::Serverfault)
    }

    /// The statuses of objects of an I/O server whose files were not found, in their order; at most [`OBJECTS_MAX`].
    /// Orphans are removed, if `remove` is set.
    ///
    /// # Errors
    /// `Inval` for too many, `Perm` for a caller that may not remove, `Jukebox` when a server is away.
    pub async fn orphans(
        &self,
        caller: &Credentials,
        server: u32,
        remove: bool,
        objects: &[ObjectId],
    ) -> Result<Vec<OrphanStatus>, Status> {
        if objects.len() > OBJECTS_MAX {
            return Err(Status::Inval);
        }
        let call = Call::Orphans {
            server,
            remove,
            objects: objects.to_vec(),
        };
        let answer = self.ask(caller, call).await?;
        let found: OrphanStatuses = from_bytes(answer.body()).map_err(|_| Status::Serverfault)?;
        if found.statuses.len() == objects.len() {
            Ok(found.statuses)
        } else {
            Err(Status::Serverfault)
        }
    }
}
