//! The command line of `gannet volume`.

use super::{ClientOptions, location_parser, url_parser};
use crate::size;
use clap::builder::TypedValueParser;
use clap::{ArgGroup, Args, Subcommand};
use gannet::url::{Location, Url};
use gannet_volume::limits::UNIT_DEFAULT;
use gannet_wire::volume::WIDTH_MAX;
use gannet_wire::volume::{UNIT_MAX, UNIT_MIN};
use std::path::PathBuf;

/// `gannet volume`.
#[derive(Debug, Args)]
pub struct VolumeOptions {
    /// What to do.
    #[command(subcommand)]
    pub what: VolumeWhat,
}

/// `gannet volume ...`.
#[derive(Debug, Subcommand)]
pub enum VolumeWhat {
    /// Make a volume in a folder
    ///
    /// The folder gets the volume's description (volume.toml), its secret, its metadata, and the folders of its I/O
    /// servers unless others are named. Nothing that holds something already is used, and nothing is left behind on an
    /// error.
    Create(CreateOptions),
    /// Show a volume's servers, stripes, identity and space
    Show(ShowOptions),
    /// List volumes: those named, and those in folders that are named
    List(ListOptions),
    /// Add I/O servers to a volume that nobody serves
    ///
    /// New files are striped over the new servers too; files that are there keep their layout.
    Extend(ExtendOptions),
    /// Check a volume: names, attributes and objects against each other
    ///
    /// One line for each finding; lines that begin with `note:` tell what may be as it should. Exits with 1 if there
    /// was a finding that is not repaired.
    ///
    /// By its PATH, while nobody serves it, all metadata is looked at, and objects on this host. By URL, while it is
    /// served: whether all servers can be reached, what the caller can see of names and attributes, and, unless the
    /// URL has a path, the objects of all I/O servers.
    Check(CheckOptions),
    /// Show how a file is striped, or new files of a directory will be; set the latter; make a file striped so
    ///
    /// Of a directory, --unit, --width and --first or --servers say how files are striped that will be made in it.
    /// Where nothing is yet, they make an empty file with these stripes, to be written later. A file keeps its stripes
    /// for ever.
    Stripes(StripesOptions),
    /// Make a new client key for a volume
    ///
    /// Puts it into the file `client-key` of the volume's folder. The servers take it, and refuse clients with the old
    /// one, once they are restarted; those on other hosts must be given the new `secret` first. Mounts over NFS do not
    /// notice.
    Key(NewKeyOptions),
}

/// `gannet volume create`.
#[derive(Debug, Args)]
pub struct CreateOptions {
    /// The folder of the volume: one that does not exist, or is empty
    pub path: PathBuf,
    /// How many I/O servers the volume has, in folders of its own below PATH
    #[arg(
        long,
        value_name = "N",
        default_value_t = 1,
        conflicts_with = "io_server"
    )]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=WIDTH_MAX as i64))]
    pub io_servers: u32,
    /// An I/O server in this folder, on a disk of its own for instance (repeat); one that does not exist, or is empty
    #[arg(long, value_name = "DIR")]
    pub io_server: Vec<PathBuf>,
    /// Bytes of a file that go to one I/O server before the next one's turn
    #[arg(long, value_name = "SIZE", default_value = "64K", value_parser = unit_parser())]
    pub stripe_unit: u32,
    /// I/O servers that a file is striped over [default: all]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=WIDTH_MAX as i64))]
    pub stripe_width: Option<u32>,
}

/// `gannet volume show`.
#[derive(Debug, Args)]
pub struct ShowOptions {
    /// The folder of the volume
    pub path: PathBuf,
    /// One JSON object
    #[arg(long)]
    pub json: bool,
}

/// `gannet volume list`.
#[derive(Debug, Args)]
pub struct ListOptions {
    /// Volumes, or folders with volumes in them
    #[arg(value_name = "PATH", default_value = ".")]
    pub paths: Vec<PathBuf>,
    /// One JSON object per volume
    #[arg(long)]
    pub json: bool,
}

/// `gannet volume extend`.
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("servers").required(true))]
pub struct ExtendOptions {
    /// The folder of the volume
    pub path: PathBuf,
    /// So many more, in folders of its own below PATH
    #[arg(long, value_name = "N", group = "servers")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=WIDTH_MAX as i64))]
    pub io_servers: Option<u32>,
    /// One more in this folder (repeat); one that does not exist, or is empty
    #[arg(long, value_name = "DIR", group = "servers")]
    pub io_server: Vec<PathBuf>,
}

/// `gannet volume check`.
#[derive(Debug, Args)]
pub struct CheckOptions {
    /// The folder of a volume that nobody serves, or the URL of one that is served
    #[arg(value_name = "PATH|URL", value_parser = location_parser())]
    pub volume: Location,
    /// Remove objects that belong to no file; by URL for root and the volume's owner
    #[arg(long)]
    pub repair: bool,
    /// Only list the files that have lost bytes with the disk of an I/O server; exits with 1 if there are any
    #[arg(long, conflicts_with = "repair")]
    pub lost: bool,
    /// Talking to the server.
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
    /// A file or directory on a volume, or a file that is to be made
    #[arg(value_name = "URL", value_parser = url_parser())]
    pub url: Url,
    /// Bytes of a new file that go to one I/O server before the next one's turn
    #[arg(long, value_name = "SIZE", value_parser = unit_parser())]
    pub unit: Option<u32>,
    /// I/O servers that a new file is striped over; 0 for all
    #[arg(long, visible_alias = "count", value_name = "N")]
    #[arg(value_parser = clap::value_parser!(u32).range(0..=WIDTH_MAX as i64))]
    pub width: Option<u32>,
    /// The I/O server with the first stripe of each new file; without it they take turns
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(0..WIDTH_MAX as i64))]
    pub first: Option<u32>,
    /// The I/O servers of a new file themselves, by their numbers, in the order of its stripes: 3,0,2
    #[arg(long, value_name = "N,...", value_delimiter = ',', num_args = 1)]
    #[arg(conflicts_with_all = ["width", "first"])]
    #[arg(value_parser = clap::value_parser!(u32).range(0..WIDTH_MAX as i64))]
    pub servers: Vec<u32>,
    /// Leave it to the volume again
    #[arg(long, conflicts_with_all = ["unit", "width", "first", "servers"])]
    pub default: bool,
    /// One JSON object
    #[arg(long)]
    pub json: bool,
    /// Talking to the server.
    #[command(flatten)]
    pub client: ClientOptions,
}

impl StripesOptions {
    /// Whether stripes are chosen.
    pub fn changes(&self) -> bool {
        let any = [self.unit, self.width, self.first];
        any.iter().any(Option::is_some) || !self.servers.is_empty()
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
