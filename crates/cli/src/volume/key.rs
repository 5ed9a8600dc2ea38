//! `gannet volume key`, and reading the clients' key of a volume.

use super::explain;
use crate::cli::NewKeyOptions;
use crate::failure::Failure;
use crate::output;
use gannet::volume::VolumeError;
use gannet::{ClientKey, KeyError};
use std::path::Path;

/// Reads a key file.
///
/// # Errors
/// There is none, it is no key, or every user can read it.
pub fn load(path: &Path) -> Result<ClientKey, Failure> {
    ClientKey::load(path).map_err(|error| {
        let hint = match error {
            KeyError::Public => format!("run `chmod 600 {}`", path.display()),
            _ => String::from("copy `client-key` from the volume's folder, readable by you alone"),
        };
        Failure::new(
            format!("cannot use the volume key {}", path.display()),
            error,
        )
        .hint(hint)
    })
}

/// Makes another key for the clients of a volume.
///
/// # Errors
/// This is not the folder of its manager, or the key cannot be changed.
pub(super) fn run(options: &NewKeyOptions) -> Result<(), Failure> {
    let volume = super::open(&options.path)?;
    let file = volume.change_client_key().map_err(|error| match error {
        VolumeError::NoMetadata(path) => {
            let folder = path.parent().unwrap_or(&path).display();
            let what = format!("cannot change the client key in {folder}");
            let hint = "run this on the host of the manager, and copy `secret` here";
            Failure::new(what, "the volume's metadata is not in the folder").hint(hint)
        }
        error => explain(&options.path, error),
    })?;
    output::line(&format!("made a new client key: {}", file.display()))?;
    output::line(
        "reload the servers of the volume, by SIGHUP or `gannet reload`: from then on they refuse the old key, and every client needs the new one",
    )?;
    let apart = volume.description.manager.places().next().is_some();
    if apart {
        output::line(
            "copy `secret` to the other hosts of the volume before that: managers, I/O servers and NFS servers",
        )
    } else {
        Ok(())
    }
}
