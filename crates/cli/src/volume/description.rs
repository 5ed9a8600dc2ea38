//! What `volume.toml` says, and opening the folder of a volume.

use super::IO_SERVERS_MAX;
use super::place::Place;
use crate::failure::{Explain, Failure};
use gannet_meta::OtherFormat;
use gannet_volume::link::TrafficClasses;
use gannet_volume::secret::{Secret, ServerKeys};
use gannet_wire::volume::{NAME_MAX, Token, UNIT_MAX, UNIT_MIN};
use serde::Deserialize;
use serde::de::Error as _;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The version of volumes that this program makes and serves.
pub(super) const FORMAT: u32 = 2;
/// Largest description, in bytes.
const DESCRIPTION_MAX: u64 = 1 << 20;

pub(super) const DESCRIPTION_FILE: &str = "volume.toml";
pub(super) const SECRET_FILE: &str = "secret";
pub(super) const METADATA_FILE: &str = "metadata";

/// What a volume is: the content of `volume.toml`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Description {
    /// The version of all that is in the volume's folder.
    pub format: u32,
    /// What people call it.
    pub name: String,
    /// What its servers and clients know it by.
    #[serde(deserialize_with = "gannet::token")]
    pub identity: Token,
    /// How what its servers send is marked.
    #[serde(default, deserialize_with = "dscp")]
    pub dscp: Option<TrafficClasses>,
    /// Where the manager is, for those that run apart from it.
    #[serde(default)]
    pub manager: ManagerDescription,
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
}

/// An I/O server.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IoServerDescription {
    /// Where it keeps its objects; a relative path starts at the volume's folder.
    pub folder: PathBuf,
    /// Where clients reach it, and the port that it listens on. Without it the system picks a port, and the server
    /// tells the manager.
    pub address: Option<Place>,
}

fn dscp<'de, D: serde::Deserializer<'de>>(source: D) -> Result<Option<TrafficClasses>, D::Error> {
    let text = String::deserialize(source)?;
    text.parse().map(Some).map_err(D::Error::custom)
}

/// An identity as people read it.
pub(super) fn identity_text(identity: &Token) -> String {
    format!("{:032x}", u128::from_be_bytes(*identity))
}

impl Description {
    /// The text of `volume.toml`.
    ///
    /// # Errors
    /// A folder's path cannot be written as text.
    pub fn to_text(&self) -> Result<String, Failure> {
        let mut text = format!(
            "# A volume of Gannet. Its secret is in `{SECRET_FILE}`, its names and attributes are in `{METADATA_FILE}`.\n\
             format = {}\nname = {}\nidentity = \"{}\"\n{}\n\
             {}[stripes]\nunit = {}    # bytes\nwidth = {}    # I/O servers of a file; 0: all\n",
            self.format,
            quoted(&self.name)?,
            identity_text(&self.identity),
            match &self.dscp {
                Some(classes) => format!("dscp = \"{classes}\"\n"),
                None => String::new(),
            },
            match &self.manager.address {
                Some(address) => format!("[manager]\naddress = \"{address}\"\n\n"),
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
    /// What is wrong with it.
    pub(super) fn parse(text: &str) -> Result<Description, String> {
        let description: Description = toml::from_str(text).map_err(|error| error.to_string())?;
        let Description {
            format,
            name,
            stripes,
            io_server,
            ..
        } = &description;
        OtherFormat::check(*format, FORMAT).map_err(|error| error.to_string())?;
        if io_server.is_empty() || io_server.len() > IO_SERVERS_MAX {
            return Err(format!("it must have 1 to {IO_SERVERS_MAX} I/O servers"));
        }
        if name.len() > NAME_MAX {
            return Err(format!("`name` is longer than {NAME_MAX} bytes"));
        }
        if !(UNIT_MIN..=UNIT_MAX).contains(&stripes.unit) {
            return Err(format!(
                "`unit` must be from {UNIT_MIN} to {UNIT_MAX} bytes"
            ));
        }
        if stripes.width as usize > io_server.len() {
            return Err(String::from("`width` is more than its I/O servers"));
        }
        let mut folders = io_server.iter().map(|server| &server.folder);
        if let Some(number) = folders.position(|folder| folder.as_os_str().is_empty()) {
            return Err(format!("the `folder` of I/O server {number} is empty"));
        }
        Ok(description)
    }
}

impl IoServerDescription {
    /// Its part of `volume.toml`.
    ///
    /// # Errors
    /// The folder's path cannot be written as text.
    pub(super) fn to_text(&self) -> Result<String, Failure> {
        let folder = self.folder.to_str();
        let folder = folder.ok_or_else(|| unwritable(&self.folder.to_string_lossy()))?;
        let address = match &self.address {
            Some(address) => format!("address = \"{address}\"\n"),
            None => String::new(),
        };
        Ok(format!(
            "\n[[io_server]]\nfolder = {}\n{address}",
            quoted(folder)?
        ))
    }
}

/// A string of TOML: JSON's are among them.
fn quoted(text: &str) -> Result<String, Failure> {
    match text.contains(char::is_control) {
        true => Err(unwritable(text)),
        false => serde_json::to_string(text).map_err(|_| unwritable(text)),
    }
}

fn unwritable(text: &str) -> Failure {
    let why = "it is not UTF-8, or has control characters in it";
    Failure::new(format!("cannot use the path {text:?}"), why).hint("choose another name")
}

/// The folder of a volume, opened.
#[derive(Debug)]
pub struct Volume {
    /// Where it is.
    pub path: PathBuf,
    /// What it says of itself.
    pub description: Description,
}

impl Volume {
    /// Reads the description of the volume at `path`.
    ///
    /// # Errors
    /// There is none, or this program does not understand it.
    pub fn open(path: &Path) -> Result<Volume, Failure> {
        let what = || format!("cannot open the volume {}", path.display());
        let file = path.join(DESCRIPTION_FILE);
        let opened = std::fs::File::open(&file).map_err(|error| {
            let why = format!("{}: {error}", file.display());
            match error.kind() {
                std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory => {
                    Failure::new(what(), why).hint("make one with `gannet volume create PATH`")
                }
                _ => Failure::new(what(), why),
            }
        })?;
        let mut text = String::new();
        let read = opened.take(DESCRIPTION_MAX).read_to_string(&mut text);
        read.map_err(|error| Failure::new(what(), format!("{}: {error}", file.display())))?;
        let description = Description::parse(&text)
            .map_err(|why| Failure::new(what(), format!("{}: {why}", file.display())))?;
        Ok(Volume {
            path: path.to_path_buf(),
            description,
        })
    }

    /// Its keys: sixteen secret bytes, and sixteen more after each change of the clients' key.
    ///
    /// # Errors
    /// They cannot be read, are none, or others can read them.
    pub fn keys(&self) -> Result<ServerKeys, Failure> {
        let (secret, salt) = self.secret()?;
        let keys = ServerKeys::new(Secret::new(secret));
        Ok(match salt {
            Some(salt) => keys.with_client_salt(&salt),
            None => keys,
        })
    }

    /// What is in the file of the secret: that, and what the clients' key depends on too.
    pub(super) fn secret(&self) -> Result<(Token, Option<Token>), Failure> {
        let file = self.path.join(SECRET_FILE);
        let what = || format!("cannot use the volume's secret {}", file.display());
        let hint = "put it back from a backup, or copy it from another host of the volume";
        let bytes = std::fs::read(&file).map_err(|error| Failure::new(what(), error).hint(hint))?;
        let mode = std::fs::metadata(&file).explain(what)?.mode();
        if mode & 0o077 != 0 {
            let hint = format!("run `chmod 600 {}`", file.display());
            return Err(Failure::new(what(), "others than its owner can read it").hint(hint));
        }
        let (secret, salt) = bytes
            .split_first_chunk()
            .ok_or_else(|| Failure::new(what(), "it is shorter than 16 bytes"))?;
        let salt = match salt.len() {
            0 => None,
            _ => {
                let salt = Token::try_from(salt);
                Some(salt.map_err(|_| Failure::new(what(), "it is not 16 or 32 bytes long"))?)
            }
        };
        Ok((*secret, salt))
    }

    /// Where its metadata is.
    pub fn metadata(&self) -> PathBuf {
        self.path.join(METADATA_FILE)
    }

    /// The folders of its I/O servers, in the order of their numbers.
    pub fn folders(&self) -> Vec<PathBuf> {
        let servers = self.description.io_server.iter();
        servers.map(|it| self.path.join(&it.folder)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn description() -> Description {
        let folder = |path: &str, address: Option<&str>| IoServerDescription {
            folder: PathBuf::from(path),
            address: address.map(|it| it.parse().unwrap()),
        };
        Description {
            format: FORMAT,
            name: String::from("a \"volume\" \\ é"),
            identity: [0xab; 16],
            dscp: Some("metadata=24,data=10".parse().unwrap()),
            manager: ManagerDescription {
                address: Some("[::1]:20050".parse().unwrap()),
            },
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
    fn what_this_program_does_not_understand_is_refused() {
        let text = description().to_text().unwrap();
        for (from, to, part) in [
            ("format = 2", "format = 1", "into a new volume"),
            ("format = 2", "format = 3", "a later one"),
            ("unit = 4096", "unit = 1", "`unit`"),
            ("width = 2", "width = 3", "`width`"),
            ("abab", "ab", "32 hexadecimal digits"),
            ("[stripes]", "[stripes]\nmore = 1", "more"),
            ("io1:20051", "io1", "HOST:PORT"),
            ("data=10", "data=100", "0 to 63"),
            ("\"io/0\"", "\"\"", "I/O server 0 is empty"),
        ] {
            assert!(text.contains(from));
            let error = Description::parse(&text.replacen(from, to, 1)).unwrap_err();
            assert!(error.contains(part), "{error}");
        }
        let mut other = description();
        other.io_server[0].folder = PathBuf::from("a\nb");
        assert!(other.to_text().is_err());
    }
}
