//! `gannet volume extend`.

use super::explain;
use crate::cli::ExtendOptions;
use crate::failure::Failure;
use crate::output;
use gannet::volume::{IO_SERVERS_MAX, NewIoServers, VolumeError};

/// Adds I/O servers to a volume that is not being served.
///
/// # Errors
/// It is served, or they cannot be added.
pub(super) fn run(options: &ExtendOptions) -> Result<(), Failure> {
    let mut volume = super::open(&options.path)?;
    let before = volume.description.io_server.len();
    let more = if options.io_server.is_empty() {
        NewIoServers::Inside(options.io_servers.unwrap_or(0) as usize)
    } else {
        NewIoServers::Folders(options.io_server.clone())
    };
    let what = "cannot extend this volume";
    volume
        .extend(&more, &options.zones)
        .map_err(|error| match error {
            VolumeError::IoServersCount(_) => {
                let why = format!(
                    "it has {before}, and a volume has at most {IO_SERVERS_MAX} I/O servers"
                );
                Failure::usage(what, why)
            }
            VolumeError::Note(error) => Failure::new(what, error),
            error => explain(&options.path, error),
        })?;
    output::line(&format!(
        "volume {} has {} I/O servers now; new files use the new ones",
        volume.description.name,
        volume.description.io_server.len()
    ))
}
