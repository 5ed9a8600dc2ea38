//! `gannet volume extend`.

use super::description::{DESCRIPTION_FILE, Description, IoServerDescription};
use super::locked::open_metadata;
use super::made::{Made, absolute, named_folders, own_folders, replace};
use super::{IO_SERVERS_MAX, Volume};
use crate::cli::ExtendOptions;
use crate::failure::{Explain, Failure};
use crate::output;
use gannet_meta::{MetaStore, claims};
use std::path::Path;

/// Adds I/O servers to a volume that nobody serves.
///
/// # Errors
/// It is served, or they cannot be added.
pub(super) fn run(options: &ExtendOptions) -> Result<(), Failure> {
    let volume = Volume::open(&options.path)?;
    let path = absolute(&options.path)?;
    // Held until the end: whoever serves the volume has it.
    let metadata = open_metadata(&volume)?;
    let before = volume.description.io_server.len();
    let more = match options.io_server.len() {
        0 => options.io_servers.unwrap_or(0) as usize,
        named => named,
    };
    if before + more > IO_SERVERS_MAX {
        let why = format!("it has {before}, and a volume has at most {IO_SERVERS_MAX} I/O servers");
        return Err(Failure::usage("cannot extend this volume", why));
    }
    let mut made = Made::default();
    let added = match options.io_server.is_empty() {
        true => own_folders(&path, before..before + more, &mut made)?,
        false => {
            let existing: Vec<_> = volume.folders().iter().map(|it| path.join(it)).collect();
            named_folders(&path, &existing, &options.io_server, &mut made)?
        }
    };
    // First: notes of servers that then are not added harm nobody. At most IO_SERVERS_MAX.
    let new = before as u32..(before + added.len()) as u32;
    let noted = metadata.commit(&mut |transaction| claims::note_new(transaction, new.clone()));
    noted.explain(|| String::from("cannot extend this volume"))?;
    describe(&path, &added)?;
    made.keep();
    drop(metadata);
    output::line(&format!(
        "volume {} has {} I/O servers now; new files use the new ones",
        volume.description.name,
        before + added.len()
    ))
}

/// Adds the servers to `volume.toml`, whose other lines stay as they are, as a whole or not at all.
fn describe(path: &Path, added: &[IoServerDescription]) -> Result<(), Failure> {
    let file = path.join(DESCRIPTION_FILE);
    let what = || format!("cannot change {}", file.display());
    let mut text = std::fs::read_to_string(&file).explain(what)?;
    if !text.ends_with('\n') {
        text.push('\n');
    }
    for server in added {
        text.push_str(&server.to_text()?);
    }
    Description::parse(&text).map_err(|why| Failure::new(what(), why))?;
    replace(path, DESCRIPTION_FILE, text.as_bytes())
}
