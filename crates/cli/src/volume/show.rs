//! `gannet volume show`.

use crate::cli::ShowOptions;
use crate::failure::{Explain, Failure};
use crate::output;
use crate::session;
use crate::size::human;
use crate::table;
use gannet::url::{Location, Url};
use gannet::volume::{Volume, identity_text};
use gannet_volume::client::{IoServerSpace, VolumeFs};
use rustix::fs::statvfs;
use serde::Serialize;
use std::collections::HashSet;
use std::io::ErrorKind;
use std::net::IpAddr;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// The output of `--json`.
#[derive(Serialize)]
struct VolumeJson {
    name: String,
    /// Missing with a URL, as the format is.
    #[serde(skip_serializing_if = "Option::is_none")]
    identity: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    format: Option<u32>,
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
    /// Missing with a URL.
    #[serde(skip_serializing_if = "Option::is_none")]
    folder: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    address: Option<String>,
    /// Missing when the folder is on another host, or the server is away.
    #[serde(flatten)]
    space: Option<SpaceJson>,
    /// Why a server that was asked gave no answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

#[derive(Serialize)]
struct SpaceJson {
    total_bytes: u64,
    available_bytes: u64,
    /// The file system that it is of.
    #[serde(skip)]
    device: Device,
}

/// A file system, by its host and its number there.
type Device = (Option<IpAddr>, u64);

/// Shows a volume, whether it is being served or not.
///
/// # Errors
/// It cannot be looked at, or a server that was asked does not answer.
pub(super) fn run(options: &ShowOptions) -> Result<(), Failure> {
    match &options.volume {
        Location::Local(path) => look(&super::open(path)?)?.print(options.json),
        Location::Remote(url) => session::run(async |runtime| {
            let (volume, _) = session::open_volume(&runtime, url, &options.client).await?;
            ask(url, &volume).await?.print(options.json)
        }),
    }
}

/// Asks the servers of a volume that is served.
async fn ask(url: &Url, volume: &VolumeFs) -> Result<VolumeJson, Failure> {
    let what = || format!("cannot show {url}");
    let record = volume.volume().await.explain(what)?;
    let spaces = volume.io_server_spaces().await.explain(what)?;
    let io_servers = spaces.into_iter().zip(&record.servers).enumerate();
    let io_servers = io_servers.map(|(number, (space, said))| {
        let said = said.is_known().then(|| said.to_string());
        let (address, space, error) = match space {
            Ok(IoServerSpace {
                address,
                device,
                usage,
            }) => {
                let space = SpaceJson {
                    total_bytes: usage.bytes_total,
                    available_bytes: usage.bytes_available,
                    device: (Some(address.ip()), device),
                };
                (Some(address.to_string()), Some(space), None)
            }
            Err(error) => (said, None, Some(error)),
        };
        IoServerJson {
            number,
            folder: None,
            address,
            space,
            error,
        }
    });
    let io_servers: Vec<IoServerJson> = io_servers.collect();
    let (total_bytes, available_bytes) = space_of(&io_servers);
    Ok(VolumeJson {
        name: record.name,
        identity: None,
        format: None,
        stripe_unit_bytes: record.unit,
        stripe_width: width_of(record.width, io_servers.len()),
        total_bytes,
        available_bytes,
        metadata_bytes: None,
        io_servers,
    })
}

/// The number of I/O servers of a file: `width`, where 0 stands for all.
fn width_of(width: u32, all: usize) -> usize {
    match width as usize {
        0 => all,
        width => width,
    }
}

/// Bytes of all file systems, and available bytes, each file system counted once.
fn space_of(io_servers: &[IoServerJson]) -> (u64, u64) {
    let mut seen = HashSet::new();
    let here = io_servers.iter().filter_map(|it| it.space.as_ref());
    let once = here.filter(|it| seen.insert(it.device));
    once.fold((0, 0), |(total, available): (u64, u64), space| {
        (
            total.saturating_add(space.total_bytes),
            available.saturating_add(space.available_bytes),
        )
    })
}

fn look(volume: &Volume) -> Result<VolumeJson, Failure> {
    let folders = volume.folders();
    let servers = folders.iter().enumerate();
    let said = volume.description.io_server.iter().map(|it| &it.address);
    let servers = servers.zip(said).map(|((number, folder), address)| {
        Ok(IoServerJson {
            number,
            folder: Some(folder.display().to_string()),
            address: address.as_ref().map(ToString::to_string),
            space: look_at_folder(number, folder)?,
            error: None,
        })
    });
    let io_servers = servers.collect::<Result<Vec<_>, Failure>>()?;
    let (total_bytes, available_bytes) = space_of(&io_servers);
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
        identity: Some(identity_text(&description.identity)),
        format: Some(description.format),
        stripe_unit_bytes: description.stripes.unit,
        stripe_width: width_of(description.stripes.width, io_servers.len()),
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
        device: (None, found.dev()),
    }))
}

impl VolumeJson {
    /// Prints it.
    ///
    /// # Errors
    /// A server that was asked did not answer.
    fn print(&self, as_json: bool) -> Result<(), Failure> {
        if as_json {
            output::json(self)?;
        } else {
            output::line(&self.text())?;
        }
        let errors = self.io_servers.iter().filter_map(|it| it.error.as_deref());
        let errors: Vec<&str> = errors.collect();
        if errors.is_empty() {
            return Ok(());
        }
        let (away, all) = (errors.len(), self.io_servers.len());
        let what = format!("{away} of {all} I/O servers do not answer");
        Err(Failure::new(what, errors.join("; ")))
    }

    fn text(&self) -> String {
        let mut lines = vec![format!("volume      {}", self.name)];
        if let Some(identity) = &self.identity {
            lines.push(format!("identity    {identity}"));
        }
        let metadata = self
            .metadata_bytes
            .map_or_else(|| String::from("on another host"), human);
        lines.extend([
            format!(
                "stripes     {} over {} of {} I/O servers",
                human(u64::from(self.stripe_unit_bytes)),
                self.stripe_width,
                self.io_servers.len()
            ),
            format!(
                "space       {} available of {}; metadata {metadata}",
                human(self.available_bytes),
                human(self.total_bytes),
            ),
            String::new(),
        ]);
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
        let folder = match (&self.folder, space) {
            (Some(folder), Some(_)) => folder.clone(),
            (Some(folder), None) => format!("{folder} (not on this host)"),
            (None, Some(_)) => String::new(),
            (None, None) => String::from("does not answer"),
        };
        [
            self.number.to_string(),
            or_none(space.map(|space| human(space.available_bytes))),
            or_none(space.map(|space| human(space.total_bytes))),
            or_none(self.address.clone()),
            folder,
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
            folder: Some(format!("/srv/volume/io-server-{number}")),
            address: address.map(str::to_owned),
            space,
            error: None,
        };
        let space = |total_bytes| SpaceJson {
            total_bytes,
            available_bytes: total_bytes / 2,
            device: (None, 1),
        };
        let mut volume = VolumeJson {
            name: String::from("volume"),
            identity: Some("0".repeat(32)),
            format: Some(1),
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
