//! The configuration file of `gannet serve`: several exports, addresses, settings. Its man page shows every key.

use crate::cli::{Listen, Switch};
use crate::failure::{Explain, Failure};
use gannet_nfs::server::Network;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};

/// Largest configuration file, in bytes.
const CONFIG_MAX: u64 = 1 << 20;
/// Most exports of one server.
pub const EXPORTS_MAX: usize = 256;
/// Who squashed callers become when nothing else is said: nobody.
pub const ANONYMOUS_ID: u32 = 65534;

/// A configuration file.
#[derive(Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Where to listen.
    #[serde(default)]
    pub listen: ListenConfig,
    /// The process.
    #[serde(default)]
    pub server: ServerConfig,
    /// What to serve.
    #[serde(default)]
    pub export: Vec<ExportConfig>,
}

/// Where to listen.
#[derive(Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ListenConfig {
    /// NFS over TCP.
    #[serde(default, deserialize_with = "parsed")]
    pub nfs_tcp: Option<Listen>,
    /// NFS over RPC/RDMA.
    #[serde(default, deserialize_with = "parsed")]
    pub nfs_rdma: Option<Listen>,
}

/// The process.
#[derive(Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServerConfig {
    /// Threads that serve.
    pub cores: Option<u16>,
    /// Whether to insist on MPA CRCs.
    pub crc: Option<Switch>,
    /// Where to keep what must outlive a restart.
    pub state_dir: Option<PathBuf>,
    /// Durable directory operations.
    #[serde(default)]
    pub sync_metadata: bool,
    /// Connections at a time, over both transports and all cores.
    pub max_connections: Option<NonZeroU32>,
    /// The same from one address.
    pub max_connections_per_client: Option<NonZeroU32>,
}

/// One directory to serve.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExportConfig {
    /// The directory on this machine.
    pub path: PathBuf,
    /// What clients mount.
    #[serde(default = "root_name")]
    pub name: String,
    /// Refuse everything that changes files.
    #[serde(default)]
    pub read_only: bool,
    /// Which callers become the anonymous user.
    #[serde(default)]
    pub squash: SquashConfig,
    /// The anonymous user.
    #[serde(default = "anonymous_id")]
    pub anonuid: u32,
    /// The anonymous user's group.
    #[serde(default = "anonymous_id")]
    pub anongid: u32,
    /// Who may mount it; nobody listed means everybody.
    #[serde(default, deserialize_with = "all_parsed")]
    pub clients: Vec<Network>,
}

/// Which callers become the anonymous user.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SquashConfig {
    /// Root only.
    #[default]
    Root,
    /// Everybody.
    All,
    /// Nobody.
    None,
}

fn root_name() -> String {
    String::from("/")
}

fn anonymous_id() -> u32 {
    ANONYMOUS_ID
}

fn parsed<'de, D: Deserializer<'de>>(source: D) -> Result<Option<Listen>, D::Error> {
    String::deserialize(source)?
        .parse()
        .map(Some)
        .map_err(D::Error::custom)
}

fn all_parsed<'de, D: Deserializer<'de>>(source: D) -> Result<Vec<Network>, D::Error> {
    Vec::<String>::deserialize(source)?
        .iter()
        .map(|text| text.parse().map_err(D::Error::custom))
        .collect()
}

impl Config {
    /// The configuration that `gannet serve PATH` stands for: one export called `/`.
    pub fn of_directory(path: &Path) -> Config {
        let export = ExportConfig {
            path: path.to_path_buf(),
            name: root_name(),
            read_only: false,
            squash: SquashConfig::Root,
            anonuid: ANONYMOUS_ID,
            anongid: ANONYMOUS_ID,
            clients: Vec::new(),
        };
        Config {
            export: vec![export],
            ..Config::default()
        }
    }

    /// Reads and checks a file; `root` is exported as `/` besides.
    ///
    /// # Errors
    /// It cannot be read, or says something that makes no sense; names the line.
    pub fn load(path: &Path, root: Option<&Path>) -> Result<Config, Failure> {
        let what = || format!("cannot read the configuration {}", path.display());
        let length = std::fs::metadata(path).explain(what)?.len();
        if length > CONFIG_MAX {
            return Err(Failure::new(
                what(),
                format!("it is larger than {CONFIG_MAX} bytes"),
            ));
        }
        let text = std::fs::read_to_string(path).explain(what)?;
        Config::parse_with_root(&text, root).map_err(|error| {
            Failure::usage(format!("{}:{}", path.display(), error.line), error.what)
        })
    }

    /// Parses and checks the text of a file.
    ///
    /// # Errors
    /// The line, counted from 1, and what is wrong there.
    pub fn parse(text: &str) -> Result<Config, ConfigError> {
        Config::parse_with_root(text, None)
    }

    fn parse_with_root(text: &str, root: Option<&Path>) -> Result<Config, ConfigError> {
        let mut config: Config = toml::from_str(text).map_err(|error| ConfigError {
            line: error.span().map_or(1, |span| line_at(text, span.start)),
            what: error.message().to_owned(),
        })?;
        if let Some(root) = root {
            if let Some(index) = config.export.iter().position(|export| export.name == "/") {
                return Err(ConfigError {
                    line: nth_export_line(text, index),
                    what: String::from("`name` = \"/\" is the PATH of the command line already"),
                });
            }
            config.export.append(&mut Config::of_directory(root).export);
        }
        config.check().map_err(|(index, what)| ConfigError {
            line: nth_export_line(text, index),
            what,
        })?;
        Ok(config)
    }

    /// The number of the export that is wrong, and why.
    fn check(&self) -> Result<(), (usize, String)> {
        if self.export.is_empty() {
            return Err((0, String::from("there is no [[export]] with a `path`")));
        }
        if self.export.len() > EXPORTS_MAX {
            return Err((EXPORTS_MAX, format!("more than {EXPORTS_MAX} exports")));
        }
        if self.server.cores == Some(0) {
            return Err((0, String::from("`cores` must be at least 1")));
        }
        for (index, export) in self.export.iter().enumerate() {
            if !is_export_name(&export.name) {
                let what = format!("`name` = {:?}: write it like \"/projects\"", export.name);
                return Err((index, what));
            }
            if self
                .export
                .iter()
                .take(index)
                .any(|other| other.name == export.name)
            {
                return Err((index, format!("`name` = {:?} is used twice", export.name)));
            }
        }
        Ok(())
    }
}

/// Absolute, no empty or dotted components, at most 1024 bytes (RFC 1813 MNTPATHLEN).
fn is_export_name(name: &str) -> bool {
    name == "/"
        || (name.len() <= 1024
            && name.strip_prefix('/').is_some_and(|rest| {
                rest.split('/')
                    .all(|part| !matches!(part, "" | "." | "..") && !part.contains('\0'))
            }))
}

/// What is wrong with a configuration, and where.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {what}")]
pub struct ConfigError {
    /// Counted from 1.
    pub line: usize,
    /// A sentence.
    pub what: String,
}

fn line_at(text: &str, position: usize) -> usize {
    text.bytes()
        .take(position)
        .filter(|byte| *byte == b'\n')
        .count()
        + 1
}

fn nth_export_line(text: &str, index: usize) -> usize {
    text.lines()
        .enumerate()
        .filter(|(_, line)| line.trim_start().starts_with("[[export]]"))
        .nth(index)
        .map_or(1, |(line, _)| line + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_of_the_manual_is_understood() {
        let roff = include_str!("generate/serve.roff");
        let (_, after) = roff.split_once(".nf\n").unwrap();
        let (example, _) = after.split_once("\n.fi").unwrap();
        let config = Config::parse(example).unwrap();
        assert_eq!(config.listen.nfs_tcp, Some("0.0.0.0:2049".parse().unwrap()));
        assert_eq!(config.server.cores, Some(2));
        assert_eq!(config.server.max_connections, NonZeroU32::new(8192));
        assert_eq!(config.export[0].clients, ["10.0.0.0/8".parse().unwrap()]);
    }

    #[test]
    fn an_export_needs_nothing_but_a_path() {
        let config = Config::parse("[[export]]\npath = \"/srv\"\n").unwrap();
        let export = &config.export[0];
        assert_eq!(
            (export.name.as_str(), export.squash, export.anonuid),
            ("/", SquashConfig::Root, 65534)
        );
    }

    #[test]
    fn a_directory_of_the_command_line_is_the_root_beside_the_files_exports() {
        let root = Some(Path::new("/srv"));
        let text = "[[export]]\npath = \"/a\"\nname = \"/a\"\n";
        let config = Config::parse_with_root(text, root).unwrap();
        let names: Vec<_> = config
            .export
            .iter()
            .map(|export| export.name.as_str())
            .collect();
        assert_eq!(names, ["/a", "/"]);
        assert_eq!(Config::parse_with_root("", root).unwrap().export.len(), 1);
        let twice = Config::parse_with_root("\n[[export]]\npath = \"/a\"\n", root).unwrap_err();
        assert!(
            twice.line == 2 && twice.what.contains("command line"),
            "{twice}"
        );
    }

    #[test]
    fn errors_name_the_line_and_the_key() {
        let cases = [
            ("", 1, "no [[export]]"),
            ("[[export]]\npth = \"/srv\"\n", 2, "pth"),
            ("[listen]\n\nnfs_tcp = \"here\"\n", 3, "ADDRESS:PORT"),
            ("[[export]]\npath = \"/a\"\nsquash = \"some\"\n", 3, "some"),
            (
                "[[export]]\npath = \"/a\"\nclients = [\"10.0.0.0/99\"]\n",
                3,
                "prefix length",
            ),
            (
                "[[export]]\npath = \"/a\"\n[[export]]\npath = \"/b\"\n",
                3,
                "used twice",
            ),
            ("[[export]]\npath = \"/a\"\nname = \"a\"\n", 1, "\"a\""),
            ("[[export]\n", 1, ""),
        ];
        for (text, line, part) in cases {
            let error = Config::parse(text).unwrap_err();
            assert!(
                error.line == line && error.what.contains(part),
                "{text:?}: {error}"
            );
        }
    }
}
