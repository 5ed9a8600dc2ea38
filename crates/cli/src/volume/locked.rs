//! What one process at a time may have: the metadata of a volume, and the folders of its I/O servers.

use super::{METADATA_CACHE, Volume};
use crate::failure::Failure;
use gannet_meta::{JournaledStore, MetaStore};
use gannet_volume::host::{self, ServersCountError};
use rustix::fs::{FlockOperation, flock};
use std::fs::File;
use std::path::Path;

/// The store of a volume's names, locked against others.
///
/// # Errors
/// It is missing, another process has it, or it is damaged.
pub(super) fn open_metadata(volume: &Volume) -> Result<JournaledStore, Failure> {
    let path = volume.metadata();
    let what = || format!("cannot open the volume {}", volume.path.display());
    // The store would make an empty one.
    if !path.is_file() {
        let wrong = if path.exists() { "no file" } else { "missing" };
        let why = format!("its metadata {} is {wrong}", path.display());
        return Err(Failure::new(what(), why)
            .hint("put it and metadata.journal back from a backup, both of the same time"));
    }
    JournaledStore::open(&path, METADATA_CACHE, volume.description.identity).map_err(|error| {
        if error.is_open_elsewhere() {
            return Failure::new(what(), "another process serves this volume").hint("stop it first");
        }
        if error.is_other_format() {
            return Failure::new(what(), &error);
        }
        let way_out = match error.is_disk_full() {
            true => "make room on its disk: nothing is lost",
            false if error.is_damage() => {
                "`gannet volume check` lists what is damaged; put metadata and metadata.journal back from a backup, both of the same time"
            }
            false => {
                "if it is damaged or lost, put metadata and metadata.journal back from a backup, both of the same time"
            }
        };
        Failure::new(what(), &error).hint(way_out)
    })
}

/// Sees that the description names as many I/O servers as the volume ever had: files lie on all of them.
pub(super) fn check_servers_count(
    volume: &Volume,
    metadata: &dyn MetaStore,
    count: u32,
) -> Result<(), Failure> {
    let what = || format!("cannot serve the volume {}", volume.path.display());
    host::check_servers_count(metadata, count).map_err(|error| match error {
        ServersCountError::Fewer { noted, named } => {
            let why = format!("it has had {noted} I/O servers, and volume.toml names {named}");
            Failure::new(what(), why).hint("put the missing [[io_server]] back")
        }
        error => Failure::new(what(), error),
    })
}

/// Locks a folder against other processes, until the file is closed.
///
/// # Errors
/// `WouldBlock` when another process has locked it.
pub(super) fn lock_folder(folder: &Path) -> std::io::Result<File> {
    let file = File::open(folder)?;
    flock(&file, FlockOperation::NonBlockingLockExclusive)?;
    Ok(file)
}
