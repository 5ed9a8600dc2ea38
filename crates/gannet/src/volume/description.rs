//! `volume.toml`.

mod journal;

pub use journal::{JournalDescription, PostgresqlUrl};

use super::IO_SERVERS_MAX;
use super::error::{DescriptionError, VolumeError};
use super::place::Place;
use crate::url::MANAGERS_MAX;
use gannet_meta::OtherFormat;
use gannet_volume::link::TrafficClasses;
use gannet_wire::volume::{NAME_MAX, Token, UNIT_MAX, UNIT_MIN};
use serde::Deserialize;
use serde::de::Error as _;
use std::path::PathBuf;
use std::str::FromStr;
use thiserror::Error;

/// The version of volumes that this program makes.
pub(super) const FORMAT: u32 = 3;
/// The version before, of which volumes are served too: their metadata have no records of groups.
pub(super) const FORMAT_WITHOUT_GROUPS: u32 = 2;

/// Most bytes of the name of a zone.
const ZONE_MAX: usize = 64;

/// The name of a description in its volume's folder.
pub const DESCRIPTION_FILE: &str = "volume.toml";
pub(super) const SECRET_FILE: &str = "secret";
pub(super) const METADATA_FILE: &str = "metadata";
/// The password for the engine of the journal, if that wants one.
#[cfg(any(feature = "etcd", feature = "postgresql"))]
pub(super) const JOURNAL_PASSWORD_FILE: &str = "journal-password";

/// The description of a volume: the content of `volume.toml`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Description {
    /// The version of all that is in the volume's folder.
    pub format: u32,
    /// The name for people.
    pub name: String,
    /// The identity that servers and clients compare.
    #[serde(deserialize_with = "crate::token")]
    pub identity: Token,
    /// How what its servers send is marked.
    #[serde(default, deserialize_with = "dscp")]
    pub dscp: Option<TrafficClasses>,
    /// Where the manager is, for those that run apart from it.
    #[serde(default)]
    pub manager: ManagerDescription,
    /// The engine that has the journal of the metadata; without one, that is in a file beside them.
    #[serde(default)]
    pub journal: Option<JournalDescription>,
    /// How files are striped.
    pub stripes: StripesDescription,
    /// The I/O servers; their numbers are their places in this list, for ever.
    pub io_server: Vec<IoServerDescription>,
}

/// How files are striped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StripesDescription {
    /// Bytes of a stripe.
    pub unit: u32,
    /// I/O servers of a file; 0 stands for all.
    pub width: u32,
}

/// The manager.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ManagerDescription {
    /// Where I/O servers that run apart reach it, and the port that it listens on.
    pub address: Option<Place>,
    /// The same of several managers, of which one is active at a time.
    #[serde(default)]
    pub addresses: Vec<Place>,
}

impl ManagerDescription {
    /// The description of managers at these places.
    pub(super) fn of(places: &[Place]) -> ManagerDescription {
        match places {
            [one] => ManagerDescription {
                address: Some(one.clone()),
                addresses: Vec::new(),
            },
            several => ManagerDescription {
                address: None,
                addresses: several.to_vec(),
            },
        }
    }

    /// Where managers are.
    pub fn places(&self) -> impl Iterator<Item = &Place> {
        self.address.iter().chain(&self.addresses)
    }

    fn to_text(&self) -> String {
        let mut text = String::new();
        if let Some(address) = &self.address {
            text.push_str(&format!("address = \"{address}\"\n"));
        }
        if !self.addresses.is_empty() {
            let addresses = self.addresses.iter().map(|it| format!("\"{it}\""));
            let addresses: Vec<String> = addresses.collect();
            text.push_str(&format!("addresses = [{}]\n", addresses.join(", ")));
        }
        if text.is_empty() {
            return text;
        }
        format!("[manager]\n{text}\n")
    }
}

/// An I/O server.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IoServerDescription {
    /// Where it keeps its objects; a relative path starts at the volume's folder.
    pub folder: PathBuf,
    /// The address for clients, and the port to listen on. Without it the system picks a port, and the server
    /// reports it to the manager.
    pub address: Option<Place>,
    /// The zone: servers of one may fail together, for example those of a rack. Without it, the zone is the host of the
    /// server's address.
    #[serde(default, deserialize_with = "zone")]
    pub zone: Option<Zone>,
}

/// The name of a zone of I/O servers: 1 to 64 letters, digits, dots, underscores and hyphens.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Zone(String);

/// The text, which is not the name of a zone.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("`{0}` is not a zone: 1 to {ZONE_MAX} letters, digits, and any of `._-`")]
pub struct ZoneError(pub String);

impl Zone {
    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for Zone {
    type Err = ZoneError;

    fn from_str(text: &str) -> Result<Zone, ZoneError> {
        let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "._-".contains(letter);
        if text.is_empty() || text.len() > ZONE_MAX || !text.chars().all(is_plain) {
            return Err(ZoneError(text.to_owned()));
        }
        Ok(Zone(text.to_owned()))
    }
}

fn zone<'de, D: serde::Deserializer<'de>>(source: D) -> Result<Option<Zone>, D::Error> {
    let text = String::deserialize(source)?;
    text.parse().map(Some).map_err(D::Error::custom)
}

fn dscp<'de, D: serde::Deserializer<'de>>(source: D) -> Result<Option<TrafficClasses>, D::Error> {
    let text = String::deserialize(source)?;
    text.parse().map(Some).map_err(D::Error::custom)
}

/// An identity as people read it.
pub fn identity_text(identity: &Token) -> String {
    format!("{:032x}", u128::from_be_bytes(*identity))
}

impl Description {
    /// The text of `volume.toml`.
    ///
    /// # Errors
    /// A folder's path cannot be written as text.
    pub fn to_text(&self) -> Result<String, VolumeError> {
        let mut text = format!(
            "# A volume of Gannet. Its secret is in `{SECRET_FILE}`, its names and attributes are in `{METADATA_FILE}`.\n\
             format = {}\nname = {}\nidentity = \"{}\"\n{}\n\
             {}{}[stripes]\nunit = {}    # bytes\nwidth = {}    # I/O servers of a file; 0: all\n",
            self.format,
            quoted(&self.name)?,
            identity_text(&self.identity),
            match &self.dscp {
                Some(classes) => format!("dscp = \"{classes}\"\n"),
                None => String::new(),
            },
            self.manager.to_text(),
            match &self.journal {
                Some(journal) => journal.to_text()?,
                None => String::new(),
            },
            self.stripes.unit,
            self.stripes.width,
        );
        for server in &self.io_server {
            text.push_str(&server.to_text()?);
        }
        Ok(text)
    }

    /// Reads and checks the text of `volume.toml`.
    ///
    /// # Errors
    /// The first fault of the text.
    pub fn parse(text: &str) -> Result<Description, DescriptionError> {
        let description: Description =
            toml::from_str(text).map_err(|error| DescriptionError::Text(error.to_string()))?;
        let Description {
            format,
            name,
            stripes,
            io_server,
            ..
        } = &description;
        if *format != FORMAT_WITHOUT_GROUPS {
            OtherFormat::check(*format, FORMAT)?;
        }
        if io_server.is_empty() || io_server.len() > IO_SERVERS_MAX {
            return Err(DescriptionError::IoServers);
        }
        if name.len() > NAME_MAX {
            return Err(DescriptionError::Name);
        }
        if !(UNIT_MIN..=UNIT_MAX).contains(&stripes.unit) {
            return Err(DescriptionError::Unit);
        }
        if stripes.width as usize > io_server.len() {
            return Err(DescriptionError::Width);
        }
        let managers = description.manager.places().count();
        if managers > MANAGERS_MAX || managers > 1 && description.journal.is_none() {
            return Err(DescriptionError::Managers);
        }
        if let Some(journal) = &description.journal {
            journal.check()?;
        }
        let mut folders = io_server.iter().map(|server| &server.folder);
        match folders.position(|folder| folder.as_os_str().is_empty()) {
            Some(number) => Err(DescriptionError::Folder(number)),
            None => Ok(description),
        }
    }
}

impl IoServerDescription {
    /// The name of its zone: the one that is described, or the host of its address.
    pub(super) fn zone_name(&self) -> Option<String> {
        let host = self
            .address
            .as_ref()
            .map(|it| format!("host:{}", it.0.host));
        self.zone.as_ref().map(|zone| zone.0.clone()).or(host)
    }

    /// Its part of `volume.toml`.
    ///
    /// # Errors
    /// The folder's path cannot be written as text.
    pub(super) fn to_text(&self) -> Result<String, VolumeError> {
        let folder = self.folder.to_str();
        let folder = folder.ok_or_else(|| unwritable(&self.folder.to_string_lossy()))?;
        let address = match &self.address {
            Some(address) => format!("address = \"{address}\"\n"),
            None => String::new(),
        };
        let zone = match &self.zone {
            Some(zone) => format!("zone = \"{}\"\n", zone.as_str()),
            None => String::new(),
        };
        Ok(format!(
            "\n[[io_server]]\nfolder = {}\n{address}{zone}",
            quoted(folder)?
        ))
    }
}

/// A string of TOML: JSON's are among them.
fn quoted(text: &str) -> Result<String, VolumeError> {
    if text.contains(char::is_control) {
        Err(unwritable(text))
    } else {
        serde_json::to_string(text).map_err(|_| unwritable(text))
    }
}

fn unwritable(text: &str) -> VolumeError {
    VolumeError::Unwritable(text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn description() -> Description {
        let folder = |path: &str, address: Option<&str>| IoServerDescription {
            folder: PathBuf::from(path),
            address: address.map(|it| it.parse().unwrap()),
            zone: address.map(|_| "rack-1".parse().unwrap()),
        };
        Description {
            format: FORMAT,
            name: String::from("a \"volume\" \\ é"),
            identity: [0xab; 16],
            dscp: Some("metadata=24,data=10".parse().unwrap()),
            manager: ManagerDescription {
                address: Some("[::1]:20050".parse().unwrap()),
                addresses: vec!["m2:20050".parse().unwrap(), "m3:20050".parse().unwrap()],
            },
            journal: Some(JournalDescription {
                etcd: vec![
                    String::from("https://a:2379"),
                    String::from("https://b:2379"),
                ],
                user: Some(String::from("gannet")),
                ca: Some(PathBuf::from("journal-ca.pem")),
                ..JournalDescription::default()
            }),
            stripes: StripesDescription {
                unit: 4096,
                width: 2,
            },
            io_server: vec![
                folder("io/0", None),
                folder("/disks/a b", Some("io1:20051")),
            ],
        }
    }

    #[test]
    fn a_description_is_read_as_it_was_written() {
        let text = description().to_text().unwrap();
        assert_eq!(Description::parse(&text), Ok(description()));
    }

    #[test]
    fn descriptions_with_wrong_values_or_formats_are_refused() {
        let text = description().to_text().unwrap();
        for (from, to, part) in [
            ("format = 3", "format = 1", "into a new volume"),
            ("format = 3", "format = 4", "a later one"),
            ("unit = 4096", "unit = 1", "`unit`"),
            ("width = 2", "width = 3", "`width`"),
            ("abab", "ab", "32 hexadecimal digits"),
            ("[stripes]", "[stripes]\nmore = 1", "more"),
            ("io1:20051", "io1", "HOST:PORT"),
            ("rack-1", "rack 1", "is not a zone"),
            ("data=10", "data=100", "0 to 63"),
            ("etcd =", "zookeeper =", "zookeeper"),
            ("https://a:2379", "http://a:2379", "no address of etcd"),
            ("https://a:2379", "https://a:2379/", "no address of etcd"),
            (
                "etcd = [",
                "postgresql = \"postgresql://g@a/b\"\netcd = [",
                "either etcd or postgresql",
            ),
            (
                "[journal]\netcd = [\"https://a:2379\", \"https://b:2379\"]\nuser = \"gannet\"\nca = \"journal-ca.pem\"",
                "",
                "several managers",
            ),
            ("\"io/0\"", "\"\"", "I/O server 0 is empty"),
        ] {
            assert!(text.contains(from));
            let error = Description::parse(&text.replacen(from, to, 1)).unwrap_err();
            let error = error.to_string();
            assert!(error.contains(part), "{error}");
        }
        // Without groups.
        assert!(Description::parse(&text.replacen("format = 3", "format = 2", 1)).is_ok());
        let mut other = description();
        other.io_server[0].folder = PathBuf::from("a\nb");
        assert!(other.to_text().is_err());
    }
}
