//! The metadata of a volume, which one process at a time may have.

use super::{METADATA_CACHE, Volume, VolumeError};
use gannet_meta::{JournaledStore, MetaStore};
use gannet_volume::host::{self, ServersCountError};

/// The store of a volume's names, locked against others.
///
/// # Errors
/// It is missing, another process has it, or it is damaged.
pub fn open_metadata(volume: &Volume) -> Result<JournaledStore, VolumeError> {
    let path = volume.metadata();
    // The store would make an empty one.
    if !path.is_file() {
        return Err(VolumeError::NoMetadata(path));
    }
    let opened = JournaledStore::open(&path, METADATA_CACHE, volume.description.identity);
    opened.map_err(|error| {
        if error.is_open_elsewhere() {
            VolumeError::ServedElsewhere
        } else {
            VolumeError::Metadata(error)
        }
    })
}

/// Sees that the description names as many I/O servers as the volume ever had: files lie on all of them.
pub(super) fn check_servers_count(metadata: &dyn MetaStore, count: u32) -> Result<(), VolumeError> {
    host::check_servers_count(metadata, count).map_err(|error| match error {
        ServersCountError::Fewer { noted, named } => VolumeError::FewerIoServers { noted, named },
        ServersCountError::Store(error) => VolumeError::Note(error),
        error => VolumeError::Start(std::io::Error::other(error)),
    })
}
