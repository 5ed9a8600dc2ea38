//! `gannet volume list`.

use crate::cli::ListOptions;
use crate::failure::{Explain, Failure};
use crate::output;
use gannet::volume::{DESCRIPTION_FILE, identity_text};
use serde::Serialize;
use std::path::{Path, PathBuf};

/// The output of `--json` for a volume.
#[derive(Serialize)]
struct ListedJson {
    name: String,
    path: String,
    identity: String,
    io_servers: usize,
}

/// Lists the volumes that are named, and those in folders that are named.
///
/// # Errors
/// A folder cannot be looked into, or a volume not be understood.
pub(super) fn run(options: &ListOptions) -> Result<(), Failure> {
    for path in &options.paths {
        for path in volumes_at(path)? {
            let volume = super::open(&path)?;
            let listed = ListedJson {
                name: volume.description.name.clone(),
                path: path.display().to_string(),
                identity: identity_text(&volume.description.identity),
                io_servers: volume.description.io_server.len(),
            };
            if options.json {
                output::json(&listed)?;
            } else {
                output::line(&format!(
                    "{} {:>3} I/O servers  {} at {}",
                    listed.identity, listed.io_servers, listed.name, listed.path
                ))?;
            }
        }
    }
    Ok(())
}

/// The volume at `path`, or those in the folder `path`, sorted.
fn volumes_at(path: &Path) -> Result<Vec<PathBuf>, Failure> {
    let is_volume = |path: &PathBuf| path.join(DESCRIPTION_FILE).is_file();
    let this = path.to_path_buf();
    if is_volume(&this) {
        return Ok(vec![this]);
    }
    let what = || format!("cannot look for volumes in {}", path.display());
    let entries = std::fs::read_dir(path).explain(what)?;
    let paths = entries.map(|entry| entry.map(|entry| entry.path()));
    let paths: Result<Vec<PathBuf>, _> = paths.collect();
    let mut found: Vec<PathBuf> = paths.explain(what)?.into_iter().filter(is_volume).collect();
    found.sort();
    Ok(found)
}
