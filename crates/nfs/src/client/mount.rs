//! MOUNT: from an export's path to its root.

use super::{Client, Error, results};
use gannet_rpc::Request;
use gannet_vfs::FileHandle;
use gannet_wire::mount3::{
    DirPath, ExportResult, MNT_REPLY_MAX, MntResult, MountProcedure, PATH_MAX, PROGRAM, VERSION,
};
use gannet_wire::xdr::Encode;

/// Most bytes of an EXPORT listing.
const EXPORTS_BYTES_MAX: usize = 64 << 10;

/// An export of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExportedPath {
    /// Its path: bytes, in no particular encoding.
    pub path: Vec<u8>,
    /// Hosts, networks or groups that may mount it; empty for all clients.
    pub clients: Vec<Vec<u8>>,
}

impl Client {
    /// Mounts `path`, an export or a directory in one, by MOUNT on the connection of NFS itself.
    ///
    /// # Errors
    /// [`Error::Status`] with the server's reason: `Noent` for no such directory, `Acces` for a client that the export
    /// does not admit. [`Error::PathTooLong`], [`Error::Malformed`] and [`Error::Call`].
    pub async fn mount(&self, path: &[u8]) -> Result<FileHandle, Error> {
        let bytes = self
            .mount_call(MountProcedure::Mnt, &path_of(path)?, MNT_REPLY_MAX)
            .await?;
        let mounted = super::good(results::<MntResult<'_>>(&bytes)?)?;
        FileHandle::new(mounted.root.0).ok_or(Error::Malformed("empty handle"))
    }

    /// Removes this client's mount of `path` from the server's list.
    ///
    /// # Errors
    /// [`Error::PathTooLong`], [`Error::Malformed`] and [`Error::Call`].
    pub async fn unmount(&self, path: &[u8]) -> Result<(), Error> {
        let bytes = self
            .mount_call(MountProcedure::Umnt, &path_of(path)?, 0)
            .await?;
        results(&bytes)
    }

    /// The exports of the server.
    ///
    /// # Errors
    /// [`Error::Call`], also for a list of more than 64 KiB; [`Error::Malformed`].
    pub async fn exports(&self) -> Result<Vec<ExportedPath>, Error> {
        let bytes = self
            .mount_call(MountProcedure::Export, &(), EXPORTS_BYTES_MAX)
            .await?;
        let exports = results::<ExportResult<'_>>(&bytes)?
            .iter()
            .map(|export| ExportedPath {
                path: export.path.0.to_vec(),
                clients: export.groups.iter().map(|group| group.0.to_vec()).collect(),
            });
        Ok(exports.collect())
    }

    async fn mount_call(
        &self,
        procedure: MountProcedure,
        arguments: &impl Encode,
        results_max: usize,
    ) -> Result<Vec<u8>, Error> {
        let mut request = Request::new(PROGRAM, VERSION, procedure.number(), results_max);
        arguments.encode(&mut request.arguments());
        Ok(self.call(request).await?.results)
    }
}

fn path_of(path: &[u8]) -> Result<DirPath<'_>, Error> {
    if path.len() > PATH_MAX {
        return Err(Error::PathTooLong);
    }
    Ok(DirPath(path))
}
