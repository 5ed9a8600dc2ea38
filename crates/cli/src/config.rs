//! The configuration file of `gannet serve`: several exports, addresses, settings. docs/configuration.md lists every
//! key.

mod examples;

use crate::cli::{Listen, Switch, parse_time};
use crate::failure::{Explain, Failure};
use gannet::ProviderKind;
use gannet::admin::AdminAddress;
use gannet_nfs::server::Network;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use std::collections::BTreeSet;
use std::fmt::Display;
use std::num::{NonZeroU8, NonZeroU32};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

/// Largest configuration file, in bytes.
const CONFIG_MAX: u64 = 1 << 20;
/// Most exports of one server.
pub const EXPORTS_MAX: usize = 256;
/// The default user and group of squashed callers.
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
    /// Answers to administrators.
    #[serde(default)]
    pub admin: AdminConfig,
    /// The audit log.
    #[serde(default)]
    pub audit: AuditConfig,
    /// The exports.
    #[serde(default)]
    pub export: Vec<ExportConfig>,
}

/// The audit log.
#[derive(Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AuditConfig {
    /// The file; without one there is no audit log.
    pub file: Option<PathBuf>,
    /// Bytes of the file, after which it is rotated.
    #[serde(default, deserialize_with = "size")]
    pub max_size: Option<u64>,
    /// Older files that are kept.
    pub keep: Option<NonZeroU8>,
    /// Most lines in a second.
    pub lines_per_second: Option<NonZeroU32>,
}

/// Answers to administrators.
#[derive(Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AdminConfig {
    /// Where they are given: ADDRESS:PORT, or the path of a Unix socket.
    #[serde(default, deserialize_with = "parsed")]
    pub listen: Option<AdminAddress>,
    /// Networks whose hosts may ask over TCP, beside this host.
    #[serde(default, deserialize_with = "all_parsed")]
    pub clients: Vec<Network>,
    /// The least time of a call that is slow.
    #[serde(default, deserialize_with = "time")]
    pub slow: Option<Duration>,
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
    /// The native protocol of the volume that the command line names.
    #[serde(default, deserialize_with = "parsed")]
    pub native: Option<Listen>,
}

/// The process.
#[derive(Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServerConfig {
    /// Threads that serve.
    pub cores: Option<u16>,
    /// Whether to insist on MPA CRCs.
    pub crc: Option<Switch>,
    /// The provider of RDMA connections.
    #[serde(default, deserialize_with = "parsed")]
    pub provider: Option<ProviderKind>,
    /// An RDMA device does not pin the memory of transfers.
    #[serde(default)]
    pub on_demand_paging: bool,
    /// Where to keep what must outlive a restart.
    pub state_dir: Option<PathBuf>,
    /// Replies to creates, removes, renames and attribute changes do not wait until these are durable.
    #[serde(default)]
    pub async_metadata: bool,
    /// Long WRITEs leave the page cache behind the disk.
    #[serde(default)]
    pub uncached_writes: bool,
    /// The default now; refused with a word on that.
    #[serde(default, deserialize_with = "sync_metadata")]
    pub sync_metadata: (),
    /// Look groups of callers up here.
    #[serde(default)]
    pub manage_gids: bool,
    /// Connections at a time, over both transports and all cores.
    pub max_connections: Option<NonZeroU32>,
    /// The same from one address.
    pub max_connections_per_client: Option<NonZeroU32>,
    /// Bytes that clients may make the process hold.
    #[serde(default, deserialize_with = "size")]
    pub max_peer_memory: Option<u64>,
}

/// One directory to serve, or the volume that the command line names.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExportConfig {
    /// The directory on this machine; empty for the volume.
    #[serde(default)]
    pub path: PathBuf,
    /// The path that clients mount.
    #[serde(default = "root_name")]
    pub name: String,
    /// Refuse everything that changes files.
    #[serde(default)]
    pub read_only: bool,
    /// Which callers become the anonymous user.
    #[serde(default)]
    pub squash: SquashConfig,
    /// Serve connections from ports below 1024 alone.
    #[serde(default)]
    pub secure: bool,
    /// The anonymous user.
    #[serde(default = "anonymous_id")]
    pub anonuid: u32,
    /// The anonymous user's group.
    #[serde(default = "anonymous_id")]
    pub anongid: u32,
    /// Networks whose clients may mount it. Without any, and without rules, nothing but loopback may be listened at.
    #[serde(default, deserialize_with = "all_parsed")]
    pub clients: Vec<Network>,
    /// Other rules for some networks.
    #[serde(default)]
    pub rule: Vec<RuleConfig>,
}

/// Rules for the clients of some networks, which may mount the export too. The export gives the values that they omit.
/// Where several networks hold a client, that with the longest prefix decides.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RuleConfig {
    /// The networks.
    #[serde(deserialize_with = "all_parsed")]
    pub clients: Vec<Network>,
    /// Refuse everything that changes files.
    pub read_only: Option<bool>,
    /// Which callers become the anonymous user.
    pub squash: Option<SquashConfig>,
    /// Serve connections from ports below 1024 alone.
    pub secure: Option<bool>,
}

impl ExportConfig {
    /// The directory, or volume, as `/`, with the rules that hold when nothing is said.
    fn of(path: &Path) -> ExportConfig {
        ExportConfig {
            path: path.to_path_buf(),
            name: root_name(),
            read_only: false,
            squash: SquashConfig::Root,
            secure: false,
            anonuid: ANONYMOUS_ID,
            anongid: ANONYMOUS_ID,
            clients: Vec::new(),
            rule: Vec::new(),
        }
    }

    /// All networks whose clients may mount it.
    pub fn networks(&self) -> impl Iterator<Item = Network> {
        let rules = self.rule.iter().flat_map(|rule| &rule.clients);
        self.clients.iter().chain(rules).copied()
    }
}

/// The export that a server has beside those of a file, or the volume that holds them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Root<'a> {
    /// Directories alone, which the file names.
    None,
    /// This directory is exported as `/` besides.
    Directory(&'a Path),
    /// This volume holds all exports; it is exported as `/` if the file has none.
    Volume(&'a Path),
}

/// Which callers become the anonymous user.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SquashConfig {
    /// Root only.
    #[default]
    Root,
    /// Every caller.
    All,
    /// No caller.
    None,
}

impl SquashConfig {
    /// Its name in the configuration file and in logs.
    pub fn name(self) -> &'static str {
        match self {
            SquashConfig::Root => "root",
            SquashConfig::All => "all",
            SquashConfig::None => "none",
        }
    }
}

fn root_name() -> String {
    String::from("/")
}

fn anonymous_id() -> u32 {
    ANONYMOUS_ID
}

fn parsed<'de, D: Deserializer<'de>, T: FromStr<Err: Display>>(
    source: D,
) -> Result<Option<T>, D::Error> {
    String::deserialize(source)?
        .parse()
        .map(Some)
        .map_err(D::Error::custom)
}

fn time<'de, D: Deserializer<'de>>(source: D) -> Result<Option<Duration>, D::Error> {
    let text = String::deserialize(source)?;
    parse_time(&text).map(Some).map_err(D::Error::custom)
}

fn sync_metadata<'de, D: Deserializer<'de>>(source: D) -> Result<(), D::Error> {
    bool::deserialize(source)?;
    Err(D::Error::custom(
        "`sync_metadata` is not a key any more, metadata is durable before the reply by default: remove it, or write \
         `async_metadata = true` to give durability up for speed",
    ))
}

/// A size as people write it: `"96M"`.
fn size<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    let text = String::deserialize(deserializer)?;
    crate::size::parse_nonzero(&text)
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
    /// The configuration that the command line alone stands for.
    pub fn of_root(root: Root<'_>) -> Config {
        let export = match root {
            Root::None => Vec::new(),
            Root::Directory(path) | Root::Volume(path) => vec![ExportConfig::of(path)],
        };
        Config {
            export,
            ..Config::default()
        }
    }

    /// Reads and checks a file.
    ///
    /// # Errors
    /// It cannot be read, or says something that makes no sense; names the line.
    pub fn load(path: &Path, root: Root<'_>) -> Result<Config, Failure> {
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
                .hint(format!("for example: {}", error.example))
        })
    }

    /// Parses and checks the text of a file.
    ///
    /// # Errors
    /// The line, counted from 1, and its fault.
    pub fn parse(text: &str) -> Result<Config, ConfigError> {
        Config::parse_with_root(text, Root::None)
    }

    fn parse_with_root(text: &str, root: Root<'_>) -> Result<Config, ConfigError> {
        let mut config: Config = toml::from_str(text).map_err(|error| {
            let line = error.span().map_or(1, |span| line_at(text, span.start));
            ConfigError {
                line,
                what: error.message().to_owned(),
                example: examples::of_line(text, line),
            }
        })?;
        let checked = config.take_root(root).and_then(|()| config.check());
        checked.map_err(|fault| ConfigError {
            line: nth_export_line(text, fault.export),
            what: fault.what,
            example: fault.example,
        })?;
        Ok(config)
    }

    /// Gives every export its path.
    fn take_root(&mut self, root: Root<'_>) -> Result<(), Fault> {
        let position = |is_wrong: fn(&ExportConfig) -> bool| self.export.iter().position(is_wrong);
        let has_path = |export: &ExportConfig| !export.path.as_os_str().is_empty();
        if let Root::Volume(path) = root {
            if let Some(index) = position(has_path) {
                let what = "`path`: with --volume, exports have no path";
                return Err(Fault::of_export(index, what, "name"));
            }
            for export in &mut self.export {
                export.path = path.to_path_buf();
            }
            if self.export.is_empty() {
                self.export.push(ExportConfig::of(path));
            }
            return Ok(());
        }
        if let Some(index) = position(|export| export.path.as_os_str().is_empty()) {
            return Err(Fault::of_export(index, "`path` is missing", "path"));
        }
        if self.listen.native.is_some() {
            let what = "`native` is for volumes: give --volume PATH";
            return Err(Fault {
                example: examples::of_key("listen", "nfs_tcp"),
                ..Fault::of_export(0, what, "path")
            });
        }
        if let Root::Directory(path) = root {
            if let Some(index) = position(|export| export.name == "/") {
                let what = "`name` = \"/\" is taken by the PATH of the command line";
                return Err(Fault::of_export(index, what, "name"));
            }
            self.export.push(ExportConfig::of(path));
        }
        Ok(())
    }

    /// Checks the values beside each other.
    fn check(&self) -> Result<(), Fault> {
        if self.export.is_empty() {
            return Err(Fault {
                example: NO_EXPORT,
                ..Fault::of_export(0, "there is no [[export]] with a `path`", "path")
            });
        }
        if self.export.len() > EXPORTS_MAX {
            let what = format!("more than {EXPORTS_MAX} exports: export the directory above them");
            return Err(Fault::of_export(EXPORTS_MAX, what, "path"));
        }
        if self.server.cores == Some(0) {
            return Err(Fault {
                example: examples::of_key("server", "cores"),
                ..Fault::of_export(0, "`cores` must be at least 1", "path")
            });
        }
        for (index, export) in self.export.iter().enumerate() {
            if !is_export_name(&export.name) {
                let what = format!("`name` = {:?} is no absolute path", export.name);
                return Err(Fault::of_export(index, what, "name"));
            }
            if self
                .export
                .iter()
                .take(index)
                .any(|other| other.name == export.name)
            {
                let what = format!("`name` = {:?} is used twice", export.name);
                return Err(Fault::of_export(index, what, "name"));
            }
            if export.rule.iter().any(|rule| rule.clients.is_empty()) {
                let what = "[[export.rule]] needs `clients`, the networks it applies to";
                return Err(Fault {
                    example: examples::of_key("export.rule", "clients"),
                    ..Fault::of_export(index, what, "path")
                });
            }
            let mut seen = BTreeSet::new();
            if let Some(twice) = export.networks().find(|network| !seen.insert(*network)) {
                let what = format!("`clients`: {twice} is listed twice");
                return Err(Fault::of_export(index, what, "clients"));
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

/// The example for a file without exports.
const NO_EXPORT: &str = "[[export]] and path = \"/srv/projects\" in the line below";

/// A fault of values that are correct alone.
struct Fault {
    /// The number of the export that is wrong, from 0; 0 for a fault of no export.
    export: usize,
    what: String,
    example: &'static str,
}

impl Fault {
    /// A fault of the export with this number; the example is a line for this key.
    fn of_export(export: usize, what: impl Into<String>, key: &str) -> Fault {
        Fault {
            export,
            what: what.into(),
            example: examples::of_key("export", key),
        }
    }
}

/// A fault of a configuration, and its line.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {what} (for example: {example})")]
pub struct ConfigError {
    /// Counted from 1.
    pub line: usize,
    /// A sentence.
    pub what: String,
    /// A correct line for that place.
    pub example: &'static str,
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
    use gannet::volume::Description;

    /// The page that lists every key.
    const PAGE: &str = include_str!("../../../docs/configuration.md");

    /// The keys that the parser expects, as it says itself about one that it does not know.
    fn expected_keys(message: &str) -> Vec<String> {
        let (_, list) = message.split_once("expected ").unwrap();
        list.split('`')
            .skip(1)
            .step_by(2)
            .map(str::to_owned)
            .collect()
    }

    /// The section of the page below a heading.
    fn section(heading: &str) -> &'static str {
        let (_, rest) = PAGE.split_once(&format!("\n{heading}\n")).unwrap();
        rest.split("\n#").next().unwrap()
    }

    /// The blocks of TOML in a part of the page.
    fn examples(part: &'static str) -> impl Iterator<Item = &'static str> {
        let blocks = part.split("```toml\n").skip(1);
        blocks.map(|block| block.split("```").next().unwrap())
    }

    #[test]
    fn the_page_lists_every_key_and_no_other() {
        for (heading, table) in [
            ("## `[listen]`", "[listen]\n"),
            ("## `[server]`", "[server]\n"),
            ("## `[[export]]`", "[[export]]\n"),
            ("### `[[export.rule]]`", "[[export]]\n[[export.rule]]\n"),
        ] {
            let unknown = Config::parse(&format!("{table}no_such_key = 1\n")).unwrap_err();
            let mut expected = expected_keys(&unknown.what);
            // Refused, with a word on what to write; and a section of its own.
            expected.retain(|key| !["sync_metadata", "rule"].contains(&key.as_str()));
            let rows = section(heading).lines();
            let listed = rows.filter_map(|row| row.strip_prefix("| `")?.split_once('`'));
            let mut listed: Vec<_> = listed.map(|(key, _)| key.to_owned()).collect();
            expected.sort();
            listed.sort();
            assert_eq!(listed, expected, "{heading}");
        }
    }

    #[test]
    fn the_page_lists_every_key_of_a_volume() {
        let text = examples(section("## `volume.toml`")).next().unwrap();
        Description::parse(text).unwrap();
        for (line, above) in [
            ("format = 3\n", ""),
            ("[manager]\n", "manager."),
            ("[journal]\n", "journal."),
            ("[stripes]\n", "stripes."),
            ("[[io_server]]\n", "io_server."),
        ] {
            let with_unknown = text.replacen(line, &format!("{line}no_such_key = 1\n"), 1);
            let unknown = Description::parse(&with_unknown).unwrap_err().to_string();
            for key in expected_keys(&unknown) {
                let tables = ["manager", "journal", "stripes", "io_server"];
                let is_table = tables.contains(&key.as_str());
                let row = format!("\n| `{above}{key}` |");
                assert!(is_table || PAGE.contains(&row), "{row}: {unknown}");
            }
        }
    }

    #[test]
    fn the_example_has_every_key_and_is_valid() {
        let example = crate::generate::EXAMPLE;
        assert_eq!(examples(PAGE).next(), Some(example), "that of the page");
        let volume = example
            .replace("# native", "native")
            .replace("path =", "# path =");
        let root = Root::Volume(Path::new("/volume"));
        let of_volume = Config::parse_with_root(&volume, root).unwrap();
        assert_eq!(
            of_volume.listen.native,
            Some("0.0.0.0:20050".parse().unwrap())
        );
        let config = Config::parse(example).unwrap();
        assert_eq!(config.listen.nfs_tcp, Some("0.0.0.0:2049".parse().unwrap()));
        assert_eq!(config.server.cores, Some(2));
        assert_eq!(config.server.max_connections, NonZeroU32::new(8192));
        assert_eq!(config.server.max_peer_memory, Some(1 << 30));
        let export = &config.export[0];
        assert_eq!(export.clients, ["10.0.0.0/8".parse().unwrap()]);
        assert_eq!(export.rule[0].squash, Some(SquashConfig::None));
        assert_eq!(export.networks().count(), 2);
        for (heading, _) in PAGE
            .match_indices("\n## `[")
            .chain(PAGE.match_indices("\n### `["))
        {
            let rows = PAGE[heading + 3..].split("\n#").next().unwrap().lines();
            let keys = rows.filter_map(|row| row.strip_prefix("| `")?.split_once('`'));
            for (key, _) in keys {
                assert!(example.contains(&format!("{key} = ")), "{key}");
            }
        }
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
        let root = Root::Directory(Path::new("/srv"));
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
    fn the_exports_of_a_volume_are_of_it_alone() {
        let root = Root::Volume(Path::new("/volume"));
        let text = "[listen]\nnative = \"off\"\n[[export]]\nread_only = true\n";
        let config = Config::parse_with_root(text, root).unwrap();
        assert_eq!(config.listen.native, Some(Listen::Off));
        assert_eq!(config.export[0].path, Path::new("/volume"));
        assert!(config.export[0].read_only);
        assert_eq!(Config::parse_with_root("", root).unwrap().export.len(), 1);
        let path = Config::parse_with_root("[[export]]\npath = \"/a\"\n", root).unwrap_err();
        assert!(path.line == 1 && path.what.contains("`path`"), "{path}");
        let alone = Config::parse("[listen]\nnative = \"off\"\n").unwrap_err();
        assert!(alone.what.contains("--volume"), "{alone}");
    }

    #[test]
    fn errors_name_the_line_and_the_key_and_a_correct_line() {
        let cases = [
            ("", 1, "no [[export]]", "path = \"/srv/projects\""),
            (
                "[[export]]\npth = \"/srv\"\n",
                2,
                "pth",
                "path = \"/srv/projects\"",
            ),
            ("[exports]\npath = \"/srv\"\n", 1, "exports", "[[export]]"),
            (
                "[[export]]\npath = 5\n",
                2,
                "string",
                "path = \"/srv/projects\"",
            ),
            ("[server]\ncores = \"two\"\n", 2, "u16", "cores = 2"),
            (
                "[server]\ncores = 0\n[[export]]\npath = \"/a\"\n",
                3,
                "at least 1",
                "cores = 2",
            ),
            (
                "[server]\nmax_peer_memory = \"1X\"\n",
                2,
                "",
                "max_peer_memory = \"1G\"",
            ),
            (
                "[server]\nmax_connections = -1\n",
                2,
                "",
                "max_connections = 8192",
            ),
            ("[server]\ncrc = true\n", 2, "", "crc = \"off\""),
            (
                "[listen]\n\nnfs_tcp = \"here\"\n",
                3,
                "ADDRESS:PORT",
                "nfs_tcp = \"0.0.0.0:2049\"",
            ),
            (
                "[[export]]\npath = \"/a\"\nsquash = \"some\"\n",
                3,
                "some",
                "squash = \"root\"",
            ),
            (
                "[server]\ncores = 2\nsync_metadata = true\n",
                3,
                "async_metadata",
                "async_metadata = false",
            ),
            (
                "[[export]]\npath = \"/a\"\nclients = [\"10.0.0.0/99\"]\n",
                3,
                "prefix length",
                "clients = [\"10.0.0.0/8\"]",
            ),
            (
                "[[export]]\npath = \"/a\"\n[[export]]\npath = \"/b\"\n",
                3,
                "used twice",
                "name = \"/projects\"",
            ),
            (
                "[[export]]\npath = \"/a\"\nname = \"a\"\n",
                1,
                "\"a\"",
                "name = \"/projects\"",
            ),
            ("[[export]\n", 1, "", "[[export]]"),
            (
                "[[export]]\nname = \"/a\"\n",
                1,
                "`path` is missing",
                "path = \"/srv/projects\"",
            ),
            (
                "[[export]]\npath = \"/a\"\n[[export.rule]]\nsquash = \"all\"\n",
                3,
                "clients",
                "clients = [\"10.1.0.0/16\"]",
            ),
            (
                "[[export]]\npath = \"/a\"\n[[export.rule]]\nclients = []\n",
                1,
                "needs `clients`",
                "clients = [\"10.1.0.0/16\"]",
            ),
            (
                "[[export]]\npath = \"/a\"\nclients = [\"10.0.0.0/8\"]\n\
                 [[export.rule]]\nclients = [\"10.9.9.9/8\"]\n",
                1,
                "10.0.0.0/8 is listed twice",
                "clients = [\"10.0.0.0/8\"]",
            ),
        ];
        for (text, line, part, example) in cases {
            let error = Config::parse(text).unwrap_err();
            assert!(
                error.line == line && error.what.contains(part),
                "{text:?}: {error}"
            );
            assert!(error.example.contains(example), "{text:?}: {error}");
            assert!(
                error
                    .to_string()
                    .ends_with(&format!("(for example: {})", error.example))
            );
        }
    }
}
