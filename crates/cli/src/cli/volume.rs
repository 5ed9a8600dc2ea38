//! The command line of `gannet volume`.

use super::{AdminPlace, ClientOptions, location_parser, url_parser};
use crate::size;
use clap::builder::TypedValueParser;
use clap::{ArgGroup, Args, Subcommand};
use gannet::url::{Location, Url};
use gannet::volume::{Place, PostgresqlUrl, Zone};
use gannet_volume::limits::UNIT_DEFAULT;
use gannet_wire::volume::WIDTH_MAX;
use gannet_wire::volume::{UNIT_MAX, UNIT_MIN};
use std::path::PathBuf;

/// `gannet volume`.
#[derive(Debug, Args)]
pub struct VolumeOptions {
    /// The command.
    #[command(subcommand)]
    pub what: VolumeWhat,
}

/// `gannet volume ...`.
#[derive(Debug, Subcommand)]
pub enum VolumeWhat {
    /// Make a volume in a folder
    ///
    /// The folder gets the volume's description (volume.toml), its secret, its metadata, and the folders of its I/O
    /// servers unless --io-server names others. The command uses only new or empty folders, and removes everything it
    /// made when it fails.
    Create(CreateOptions),
    /// Show a volume's servers, stripes, identity and space
    ///
    /// With a PATH, the command looks at the folders on this host, whether the volume is served or not. With a URL, it
    /// asks the manager and all I/O servers. The exit status is 1 if one of them does not answer.
    Show(ShowOptions),
    /// Show the state of a volume's servers, and what is wrong
    ///
    /// Asks the manager and all I/O servers of a volume that is served. Each finding has the command or the step that
    /// goes on. The exit status is 1 if there is a finding. A line that begins with `note:` reports a fault of the
    /// past, and is no finding.
    Status(StatusOptions),
    /// List volumes, and the volumes in folders
    List(ListOptions),
    /// Add I/O servers to a volume that is not being served
    ///
    /// New files are striped over the new servers too; existing files keep their layout.
    Extend(ExtendOptions),
    /// Check that the names, attributes and objects of a volume agree
    ///
    /// Prints a line for each finding. A line that begins with `note:` reports something that may be in order. The exit
    /// status is 1 if a finding is not repaired.
    ///
    /// With a PATH, the volume must not be served: the command checks all metadata, and the objects on this host. With
    /// a URL, the volume must be served: the command checks that all servers can be reached, the names and attributes
    /// that the caller can read, and, unless the URL has a path, the objects of all I/O servers.
    Check(CheckOptions),
    /// Show or set how files are striped
    ///
    /// On a directory, --unit, --width, --first and --servers set the stripes of files that are made in it later. With
    /// a name that does not exist, they make an empty file with these stripes. An existing file keeps its stripes.
    Stripes(StripesOptions),
    /// Show or set how many I/O servers keep each byte
    ///
    /// With 2, each group of I/O servers gets a second member, which is filled while the volume is served. With 1, the
    /// second members are taken away again; `gannet volume check --repair` then frees their space. Only root and the
    /// volume's owner may set the number. The two members of a group are in different zones, which volume.toml names
    /// (`zone`), or else on different hosts.
    Copies(CopiesOptions),
    /// Have another manager take over from the active one
    ///
    /// The active manager ends with exit status 1, so that its supervisor starts it again: it stands by then. Programs
    /// wait about a second, and see no error. Only root and the volume's owner may switch.
    Switch(SwitchOptions),
    /// Show which data lack a copy, and why
    ///
    /// Prints a line for each group of I/O servers that lacks a copy, and the files that have data there. A member that
    /// comes back is filled by itself: nothing has to be asked for. The exit status is 1 if a group lacks a copy.
    ///
    /// If the only I/O server with all data of a group is gone for good, --accept-stale has the older copy of the other
    /// one count. Only root and the volume's owner may do that.
    Heal(HealOptions),
    /// Make a new client key for a volume
    ///
    /// Writes the key to the file `client-key` of the volume's folder. After a restart, servers accept the new key and
    /// refuse the old one; copy the new `secret` to servers on other hosts first. NFS mounts are not affected.
    Key(NewKeyOptions),
}

/// `gannet volume create`.
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("places").multiple(true))]
pub struct CreateOptions {
    /// The folder of the volume, which must be empty or not exist
    pub path: PathBuf,
    /// Make N I/O servers, in folders below PATH
    #[arg(
        long,
        value_name = "N",
        default_value_t = 1,
        conflicts_with = "io_server"
    )]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=WIDTH_MAX as i64))]
    pub io_servers: u32,
    /// Make an I/O server in this folder, which must be empty or not exist (repeat); a disk for each is usual
    #[arg(long, value_name = "DIR")]
    pub io_server: Vec<PathBuf>,
    /// Write SIZE bytes of a file to one I/O server before the next
    #[arg(long, value_name = "SIZE", default_value = "64K", value_parser = unit_parser())]
    pub stripe_unit: u32,
    /// Stripe each file over N I/O servers [default: all]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=WIDTH_MAX as i64))]
    pub stripe_width: Option<u32>,
    /// Keep each byte on N I/O servers, so that one of them may die: 1 or 2
    #[arg(
        long,
        value_name = "N",
        default_value_t = 1,
        requires_if("2", "places")
    )]
    #[arg(value_parser = clap::value_parser!(u8).range(1..=2))]
    pub copies: u8,
    /// Both copies of a byte may be in one zone or on one host: only a disk or a process may die
    #[arg(long, group = "places")]
    pub same_host: bool,
    /// The zone of each I/O server in turn, for example its rack: copies of a byte are in two of them
    #[arg(long, value_name = "ZONE,...", group = "places")]
    #[arg(value_delimiter = ',', num_args = 1)]
    pub zones: Vec<Zone>,
    /// Answer a write when N I/O servers have it: with 2, writes wait while a copy is missing
    #[arg(long, value_name = "N", default_value_t = 1)]
    #[arg(value_parser = clap::value_parser!(u8).range(1..=2))]
    pub min_copies: u8,
    /// Where the managers are, of which one is active at a time
    #[arg(
        long,
        value_name = "HOST:PORT,...",
        value_delimiter = ',',
        num_args = 1
    )]
    pub managers: Vec<Place>,
    /// Keep the journal of the names in the etcd of these members, so that another manager can take over
    #[arg(long, value_name = "URL,...", value_delimiter = ',', num_args = 1)]
    #[arg(requires = "managers", group = "engine")]
    pub etcd: Vec<String>,
    /// Keep it in this database: `postgresql://USER@HOST,HOST,HOST/DATABASE`
    #[arg(long, value_name = "URL", requires = "managers", group = "engine")]
    pub postgresql: Option<PostgresqlUrl>,
    /// Connect to the engine of the journal with TLS, and trust the authorities of this file (PEM) alone
    #[arg(long, value_name = "FILE", requires = "engine")]
    pub journal_ca: Option<PathBuf>,
    /// Show the engine this certificate (PEM)
    #[arg(
        long,
        value_name = "FILE",
        requires = "journal_key",
        requires = "journal_ca"
    )]
    pub journal_certificate: Option<PathBuf>,
    /// The key of that certificate (PEM)
    #[arg(long, value_name = "FILE", requires = "journal_certificate")]
    pub journal_key: Option<PathBuf>,
    /// Connect to etcd as this user; its password is read from the file `journal-password` of the volume's folder
    #[arg(long, value_name = "NAME", requires = "etcd")]
    pub journal_user: Option<String>,
}

/// `gannet volume show`.
#[derive(Debug, Args)]
pub struct ShowOptions {
    /// The folder of a volume, or the URL of one that is served
    #[arg(value_name = "PATH|URL", value_parser = location_parser())]
    pub volume: Location,
    /// Print one JSON object
    #[arg(long, help_heading = "Output")]
    pub json: bool,
    /// Options of the connection.
    #[command(flatten)]
    pub client: ClientOptions,
}

/// `gannet volume status`.
#[derive(Debug, Args)]
pub struct StatusOptions {
    /// The URL of a volume
    #[arg(value_name = "URL", value_parser = url_parser())]
    pub url: Url,
    /// Ask the manager's admin address too: since when servers are in their state, and what the manager sees of them
    #[arg(long, value_name = "ADDR")]
    pub admin: Option<AdminPlace>,
    /// Print one JSON object
    #[arg(long, help_heading = "Output")]
    pub json: bool,
    /// Options of the connection.
    #[command(flatten)]
    pub client: ClientOptions,
}

/// `gannet volume switch`.
#[derive(Debug, Args)]
pub struct SwitchOptions {
    /// The URL of a volume, with all its managers: `gannet://HOST,HOST,HOST/`
    #[arg(value_name = "URL", value_parser = url_parser())]
    pub url: Url,
    /// Options of the connection.
    #[command(flatten)]
    pub client: ClientOptions,
}

/// `gannet volume list`.
#[derive(Debug, Args)]
pub struct ListOptions {
    /// Volumes, or folders with volumes in them
    #[arg(value_name = "PATH", default_value = ".")]
    pub paths: Vec<PathBuf>,
    /// Print one JSON object per volume
    #[arg(long, help_heading = "Output")]
    pub json: bool,
}

/// `gannet volume extend`.
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("servers").required(true))]
pub struct ExtendOptions {
    /// The folder of the volume
    pub path: PathBuf,
    /// Add N I/O servers, in folders below PATH
    #[arg(long, value_name = "N", group = "servers")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=WIDTH_MAX as i64))]
    pub io_servers: Option<u32>,
    /// Add an I/O server in this folder, which must be empty or not exist (repeat)
    #[arg(long, value_name = "DIR", group = "servers")]
    pub io_server: Vec<PathBuf>,
    /// The zone of each new I/O server in turn
    #[arg(long, value_name = "ZONE,...", value_delimiter = ',', num_args = 1)]
    pub zones: Vec<Zone>,
}

/// `gannet volume check`.
#[derive(Debug, Args)]
pub struct CheckOptions {
    /// The folder of a volume that is not served, or the URL of one that is
    #[arg(value_name = "PATH|URL", value_parser = location_parser())]
    pub volume: Location,
    /// Remove objects that belong to no file; with a URL, only root and the volume's owner may
    #[arg(long)]
    pub repair: bool,
    /// Only list the files that lost bytes with the disk of an I/O server; the exit status is 1 if there are any
    #[arg(long, conflicts_with = "repair")]
    pub lost: bool,
    /// Options of the connection.
    #[command(flatten)]
    pub client: ClientOptions,
}

/// `gannet volume copies`.
#[derive(Debug, Args)]
pub struct CopiesOptions {
    /// The URL of a volume that is served
    #[arg(value_name = "URL", value_parser = url_parser())]
    pub url: Url,
    /// Keep each byte on N I/O servers: 1 or 2
    #[arg(value_name = "N")]
    #[arg(value_parser = clap::value_parser!(u8).range(1..=2))]
    pub copies: Option<u8>,
    /// Both copies of a byte may be in one zone or on one host from now on: only a disk or a process may die
    #[arg(long, requires = "copies")]
    pub same_host: bool,
    /// Answer a write when N I/O servers have it: with 2, writes wait while a copy is missing [default: as before]
    #[arg(long, value_name = "N", requires = "copies")]
    #[arg(value_parser = clap::value_parser!(u8).range(1..=2))]
    pub min_copies: Option<u8>,
    /// Print one JSON object
    #[arg(long, help_heading = "Output")]
    pub json: bool,
    /// Options of the connection.
    #[command(flatten)]
    pub client: ClientOptions,
}

/// `gannet volume heal`.
#[derive(Debug, Args)]
pub struct HealOptions {
    /// The URL of a volume that is served, or of a directory on it, below which files are listed
    #[arg(value_name = "URL", value_parser = url_parser())]
    pub url: Url,
    /// Give up data that an I/O server alone had which is gone for good: the older copies count
    #[arg(long)]
    pub accept_stale: bool,
    /// Print one JSON object
    #[arg(long, help_heading = "Output")]
    pub json: bool,
    /// Options of the connection.
    #[command(flatten)]
    pub client: ClientOptions,
}

/// `gannet volume key`.
#[derive(Debug, Args)]
pub struct NewKeyOptions {
    /// The folder of the volume, where its manager runs
    pub path: PathBuf,
}

/// `gannet volume stripes`.
#[derive(Debug, Args)]
pub struct StripesOptions {
    /// A file or directory on a volume, or the name of a file to make
    #[arg(value_name = "URL", value_parser = url_parser())]
    pub url: Url,
    /// Write SIZE bytes of a new file to one I/O server before the next
    #[arg(long, value_name = "SIZE", value_parser = unit_parser())]
    pub unit: Option<u32>,
    /// Stripe each new file over N I/O servers; 0 is all
    #[arg(long, visible_alias = "count", value_name = "N")]
    #[arg(value_parser = clap::value_parser!(u32).range(0..=WIDTH_MAX as i64))]
    pub width: Option<u32>,
    /// Begin each new file on I/O server N [default: each in turn]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(0..WIDTH_MAX as i64))]
    pub first: Option<u32>,
    /// Stripe new files over these I/O servers, in this order: 3,0,2
    #[arg(long, value_name = "N,...", value_delimiter = ',', num_args = 1)]
    #[arg(conflicts_with_all = ["width", "first"])]
    #[arg(value_parser = clap::value_parser!(u32).range(0..WIDTH_MAX as i64))]
    pub servers: Vec<u32>,
    /// Keep N copies of each new file, whatever the volume keeps: 1 or 2
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=2))]
    pub copies: Option<u8>,
    /// Use the volume's stripes and copies again for new files of the directory
    #[arg(long, conflicts_with_all = ["unit", "width", "first", "servers", "copies"])]
    pub default: bool,
    /// Print one JSON object
    #[arg(long, help_heading = "Output")]
    pub json: bool,
    /// Options of the connection.
    #[command(flatten)]
    pub client: ClientOptions,
}

impl StripesOptions {
    /// Whether stripes are chosen.
    pub fn changes(&self) -> bool {
        let any = [self.unit, self.width, self.first];
        any.iter().any(Option::is_some) || !self.servers.is_empty() || self.copies.is_some()
    }
}

const _: () = assert!(UNIT_DEFAULT == 64 << 10, "the default value above says so");

fn unit_parser() -> impl TypedValueParser<Value = u32> {
    clap::builder::NonEmptyStringValueParser::new().try_map(|text| {
        let unit = size::parse(&text)?;
        u32::try_from(unit)
            .ok()
            .filter(|unit| (UNIT_MIN..=UNIT_MAX).contains(unit))
            .ok_or_else(|| format!("a stripe unit is from {UNIT_MIN} to {UNIT_MAX} bytes"))
    })
}
