//! `gannet volume create`.

use super::explain;
use crate::cli::CreateOptions;
use crate::failure::Failure;
use crate::output;
use gannet::volume::{Copies, JournalDescription, NewIoServers, Volume, identity_text};
use std::path::{Path, PathBuf};

/// Makes a volume, or nothing.
///
/// # Errors
/// It cannot be made at this place.
pub(super) fn run(options: &CreateOptions) -> Result<(), Failure> {
    if options.min_copies > options.copies {
        let what = format!("cannot make {}", options.path.display());
        let hint = "add --copies 2: with one copy there is nothing to wait for";
        return Err(Failure::new(what, "--min-copies is more than the copies").hint(hint));
    }
    let wanted = gannet::volume::CreateOptions {
        io_servers: if options.io_server.is_empty() {
            NewIoServers::Inside(options.io_servers as usize)
        } else {
            NewIoServers::Folders(options.io_server.clone())
        },
        stripe_unit: options.stripe_unit,
        stripe_width: options.stripe_width.unwrap_or(0),
        copies: match options.copies {
            1 => Copies::One,
            _ => Copies::Two,
        },
        same_host: options.same_host,
        needs_both: options.min_copies > 1,
        zones: options.zones.clone(),
        managers: options.managers.clone(),
        journal: journal(options),
    };
    let volume = Volume::create(&options.path, &wanted);
    let volume = volume.map_err(|error| explain(&options.path, error))?;
    output::line(&format!(
        "made volume {} at {}: I/O servers: {}, identity {}",
        volume.description.name,
        volume.path.display(),
        volume.description.io_server.len(),
        identity_text(&volume.description.identity)
    ))
}

/// The engine of the journal, if there is one.
fn journal(options: &CreateOptions) -> Option<JournalDescription> {
    let has_engine = !options.etcd.is_empty() || options.postgresql.is_some();
    has_engine.then(|| JournalDescription {
        etcd: options.etcd.clone(),
        postgresql: options.postgresql.clone(),
        user: options.journal_user.clone(),
        ca: options.journal_ca.as_deref().map(absolute),
        certificate: options.journal_certificate.as_deref().map(absolute),
        key: options.journal_key.as_deref().map(absolute),
    })
}

/// The path as other working directories need it.
fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}
