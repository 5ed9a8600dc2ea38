//! `gannet volume show`.

use crate::cli::ShowOptions;
use crate::failure::{Explain, Failure};
use crate::output;
use crate::size::human;
use crate::table;
use gannet::volume::{Place, Volume, identity_text};
use rustix::fs::statvfs;
use serde::Serialize;
use std::collections::HashSet;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// The output of `--json`.
#[derive(Serialize)]
struct VolumeJson {
    name: String,
    identity: String,
    format: u32,
    stripe_unit_bytes: u32,
    stripe_width: usize,
    /// Bytes of all file systems under the I/O servers, each counted once.
    total_bytes: u64,
    available_bytes: u64,
    /// Missing where the manager's metadata is on another host.
    #[serde(skip_serializing_if = "Option::is_none")]
    metadata_bytes: Option<u64>,
    io_servers: Vec<IoServerJson>,
}

#[derive(Serialize)]
struct IoServerJson {
    number: usize,
    folder: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    address: Option<String>,
    /// Missing when the folder is on another host.
    #[serde(flatten)]
    space: Option<SpaceJson>,
}

#[derive(Serialize)]
struct SpaceJson {
    total_bytes: u64,
    available_bytes: u64,
    #[serde(skip)]
    device: u64,
}

/// Shows a volume, whether it is being served or not.
///
/// # Errors
/// It cannot be looked at.
pub(super) fn run(options: &ShowOptions) -> Result<(), Failure> {
    let shown = look(&super::open(&options.path)?)?;
    if options.json {
        output::json(&shown)
    } else {
        output::line(&shown.text())
    }
}

fn look(volume: &Volume) -> Result<VolumeJson, Failure> {
    let folders = volume.folders();
    let servers = folders.iter().enumerate();
    let said = volume.description.io_server.iter().map(|it| &it.address);
    let servers = servers.zip(said).map(|((number, folder), address)| {
        Ok(IoServerJson {
            number,
            folder: folder.display().to_string(),
            address: address.as_ref().map(Place::to_string),
            space: look_at_folder(number, folder)?,
        })
    });
    let io_servers = servers.collect::<Result<Vec<_>, Failure>>()?;
    let mut seen = HashSet::new();
    let (mut total_bytes, mut available_bytes) = (0u64, 0u64);
    let here = io_servers.iter().filter_map(|it| it.space.as_ref());
    for space in here.filter(|it| seen.insert(it.device)) {
        total_bytes = total_bytes.saturating_add(space.total_bytes);
        available_bytes = available_bytes.saturating_add(space.available_bytes);
    }
    let metadata = volume.metadata();
    let metadata_bytes = match std::fs::metadata(&metadata) {
        Ok(found) => Some(found.len()),
        Err(error) if error.kind() == ErrorKind::NotFound => None,
        Err(error) => {
            return Err(Failure::new(
                format!("cannot look at {}", metadata.display()),
                error,
            ));
        }
    };
    let description = &volume.description;
    Ok(VolumeJson {
        name: description.name.clone(),
        identity: identity_text(&description.identity),
        format: description.format,
        stripe_unit_bytes: description.stripes.unit,
        stripe_width: match description.stripes.width as usize {
            0 => io_servers.len(),
            width => width,
        },
        total_bytes,
        available_bytes,
        metadata_bytes,
        io_servers,
    })
}

/// The space of an I/O server's folder, if it is on this host.
fn look_at_folder(number: usize, folder: &Path) -> Result<Option<SpaceJson>, Failure> {
    let what = || format!("cannot look at I/O server {number} in {}", folder.display());
    let found = match std::fs::metadata(folder) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        found => found.explain(what)?,
    };
    let space = statvfs(folder).explain(what)?;
    Ok(Some(SpaceJson {
        total_bytes: space.f_blocks.saturating_mul(space.f_frsize),
        available_bytes: space.f_bavail.saturating_mul(space.f_frsize),
        device: found.dev(),
    }))
}

impl VolumeJson {
    fn text(&self) -> String {
        let mut lines = vec![
            format!("volume      {}", self.name),
            format!("identity    {}", self.identity),
            format!(
                "stripes     {} over {} of {} I/O servers",
                human(u64::from(self.stripe_unit_bytes)),
                self.stripe_width,
                self.io_servers.len()
            ),
            format!(
                "space       {} available of {}; metadata {}",
                human(self.available_bytes),
                human(self.total_bytes),
                self.metadata_bytes
                    .map_or_else(|| String::from("on another host"), human)
            ),
        ];
        lines.push(String::new());
        let header = ["I/O server", "available", "size", "address", "folder"];
        let cells = self.io_servers.iter().map(IoServerJson::cells);
        lines.push(table::render(1, header, &cells.collect::<Vec<_>>()));
        lines.join("\n")
    }
}

impl IoServerJson {
    fn cells(&self) -> [String; 5] {
        let or_none = |text: Option<String>| text.unwrap_or_else(|| table::NONE.to_owned());
        let space = self.space.as_ref();
        let elsewhere = match space {
            Some(_) => "",
            None => " (not on this host)",
        };
        [
            self.number.to_string(),
            or_none(space.map(|space| human(space.available_bytes))),
            or_none(space.map(|space| human(space.total_bytes))),
            or_none(self.address.clone()),
            format!("{}{elsewhere}", self.folder),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_servers_of_a_volume_fit_a_terminal() {
        let server = |number, address: Option<&str>, space| IoServerJson {
            number,
            folder: format!("/srv/volume/io-server-{number}"),
            address: address.map(str::to_owned),
            space,
        };
        let space = |total_bytes| SpaceJson {
            total_bytes,
            available_bytes: total_bytes / 2,
            device: 1,
        };
        let mut volume = VolumeJson {
            name: String::from("volume"),
            identity: "0".repeat(32),
            format: 1,
            stripe_unit_bytes: 1 << 20,
            stripe_width: 256,
            total_bytes: u64::MAX,
            available_bytes: u64::MAX,
            metadata_bytes: None,
            io_servers: vec![server(0, None, Some(space(1 << 40)))],
        };
        let text = volume.text();
        assert!(!text.contains("address"), "{text}");
        volume.io_servers = vec![
            server(0, Some("192.0.2.100:20051"), Some(space(u64::MAX))),
            server(255, Some("192.0.2.101:20051"), None),
        ];
        let text = volume.text();
        assert!(text.lines().all(|line| line.len() <= 80), "{text}");
        assert!(text.contains("io-server-255 (not on this host)"), "{text}");
    }
}
