//! What one process at a time may have: the metadata of a volume, and the folders of its I/O servers.

use super::{METADATA_CACHE, Volume};
use crate::failure::{Explain, Failure};
use gannet_meta::{JournaledStore, MetaStore, claims};
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
    let mut noted = Ok(0);
    let read = metadata.read(&mut |view| noted = claims::servers_count(view));
    let noted = read.and(noted).explain(what)?;
    if count < noted {
        let why = format!("it has had {noted} I/O servers, and volume.toml names {count}");
        return Err(Failure::new(what(), why).hint("put the missing [[io_server]] back"));
    }
    if count > noted {
        let note = metadata.commit(&mut |store| claims::note_servers_count(store, count));
        note.explain(what)?;
    }
    Ok(())
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
