//! Calls of commands to the file system of a session beyond [`gannet_vfs::Vfs`].

use crate::failure::{Explain, Failure};
use gannet::local::Remote;
use gannet_vfs::{Credentials, EntryName, FileHandle, SetAttributes, Status};
use gannet_volume::client::{Striping, VolumeFs};
use gannet_wire::volume::{Chosen, Stripes};
use std::collections::BTreeSet;
use std::time::Duration;

/// Asks the server, or a volume's manager, for a reply.
///
/// # Errors
/// There is no reply, or it is an error.
pub(super) async fn ping(remote: &Remote) -> Result<(), Failure> {
    let what = || String::from("a null call failed");
    match remote {
        Remote::Nfs(export) => export.client().null().await.explain(what),
        Remote::Volume(volume) => volume.volume().await.map(|_| ()).explain(what),
    }
}

/// The I/O servers of a volume that do not reply within `max`, with the reasons; `None` when all do.
pub(super) async fn away(volume: &VolumeFs, max: Duration) -> Option<String> {
    let away = volume.away(max).await;
    let away: Vec<String> = away
        .into_iter()
        .map(|(number, why)| format!("I/O server {number} is away: {why}"))
        .collect();
    (!away.is_empty()).then(|| away.join("; "))
}

/// Makes an empty file `entry` on a volume, striped as `replaced` is.
pub(super) async fn create_like(
    volume: &VolumeFs,
    caller: &Credentials,
    replaced: &FileHandle,
    entry: EntryName<'_>,
    mode: u32,
) -> Result<FileHandle, Status> {
    let Striping::File(layout) = volume.striping(caller, replaced).await? else {
        return Err(Status::Inval);
    };
    let servers = volume.servers_of(&layout).await;
    let servers = servers.map_err(|_| Status::Jukebox)?;
    let servers = servers.ok_or(Status::Jukebox)?;
    let distinct: BTreeSet<&u32> = servers.iter().collect();
    let stripes = Stripes {
        unit: layout.unit,
        on: if distinct.len() == servers.len() {
            Chosen::Listed(servers)
        } else {
            // A server stands in for another one, with the other copy. Bounded by WIDTH_MAX.
            Chosen::InTurn(layout.groups.len() as u32)
        },
        copies: volume.chosen_copies(caller, &layout).await?,
    };
    let attributes = SetAttributes {
        mode: Some(mode),
        ..SetAttributes::default()
    };
    let EntryName { directory, name } = entry;
    let made = volume.create_striped(caller, directory, name, &attributes, stripes);
    made.await
}
