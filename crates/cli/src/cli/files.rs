//! The command lines of `gannet ls`, `cat`, `stat`, `cp`, `mkdir`, `rm`, `mv` and `df`.

use super::{ClientOptions, location_parser, url_parser};
use clap::{ArgAction, Args};
use gannet::url::{Location, Url};

/// `gannet ls`.
#[derive(Debug, Args)]
pub struct LsOptions {
    /// Directories or files to list
    #[arg(required = true, value_name = "URL", value_parser = url_parser())]
    pub urls: Vec<Url>,
    /// Show type, mode, links, owner, group, size and time of modification (UTC)
    ///
    /// Owners and groups have their names on this host, or numbers if they have none here.
    #[arg(short, long)]
    pub long: bool,
    /// As -l, with the numbers of owners and groups
    #[arg(short, long)]
    pub numeric_ids: bool,
    /// With -l, show sizes in KiB, MiB and so on
    #[arg(short, long)]
    pub human_readable: bool,
    /// Sort by time of modification, newest first
    #[arg(short = 't', long, overrides_with = "sort_by_size")]
    pub sort_by_time: bool,
    /// Sort by size, largest first
    #[arg(short = 'S', long, overrides_with = "sort_by_time")]
    pub sort_by_size: bool,
    /// Reverse the order
    #[arg(short, long)]
    pub reverse: bool,
    /// Include names that start with a dot
    #[arg(short, long)]
    pub all: bool,
    /// List directories recursively
    #[arg(short = 'R', long)]
    pub recursive: bool,
    /// Print one JSON object per entry
    #[arg(long, help_heading = "Output")]
    pub json: bool,
    /// Print help
    #[arg(long, action = ArgAction::Help)]
    pub help: Option<bool>,
    /// Options of the connection.
    #[command(flatten)]
    pub client: ClientOptions,
}

impl LsOptions {
    /// Whether more than names is shown.
    pub fn is_long(&self) -> bool {
        self.long || self.numeric_ids
    }
}

/// `gannet cat`.
#[derive(Debug, Args)]
pub struct CatOptions {
    /// Files to write out
    #[arg(required = true, value_name = "URL", value_parser = url_parser())]
    pub urls: Vec<Url>,
    /// Options of the connection.
    #[command(flatten)]
    pub client: ClientOptions,
}

/// `gannet stat`.
#[derive(Debug, Args)]
pub struct StatOptions {
    /// Files or directories to show
    #[arg(required = true, value_name = "URL", value_parser = url_parser())]
    pub urls: Vec<Url>,
    /// Print one JSON object per file
    #[arg(long, help_heading = "Output")]
    pub json: bool,
    /// Options of the connection.
    #[command(flatten)]
    pub client: ClientOptions,
}

/// Options of commands that work on whole trees: `gannet cp` and `gannet rm`.
#[derive(Debug, Args)]
pub struct TreeOptions {
    /// Include directories with everything in them
    #[arg(short, long, visible_short_alias = 'R')]
    pub recursive: bool,
    /// Work on N names at a time
    #[arg(short, long, value_name = "N", default_value_t = 16)]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=256))]
    pub jobs: u16,
    /// Print no progress and no summary
    #[arg(short, long, help_heading = "Output")]
    pub quiet: bool,
}

/// `gannet cp`.
#[derive(Debug, Args)]
#[command(mut_arg("jobs", |jobs| jobs.help("Copy N files at a time, and N blocks of each")))]
pub struct CpOptions {
    /// Files to copy: URLs or local paths; `-` is standard input
    #[arg(required = true, value_name = "SOURCE", value_parser = location_parser())]
    pub sources: Vec<Location>,
    /// A file, or a directory to copy into: a URL or a local path; `-` is standard output
    #[arg(value_name = "TARGET", value_parser = location_parser())]
    pub target: Location,
    /// Options of the work on trees.
    #[command(flatten)]
    pub tree: TreeOptions,
    /// Read each copy back and compare every byte with the source
    #[arg(long)]
    pub verify: bool,
    /// Options of the connection.
    #[command(flatten)]
    pub client: ClientOptions,
}

/// `gannet mkdir`.
#[derive(Debug, Args)]
pub struct MkdirOptions {
    /// Directories to make
    #[arg(required = true, value_name = "URL", value_parser = url_parser())]
    pub urls: Vec<Url>,
    /// Make missing parent directories, and accept directories that exist
    #[arg(short, long)]
    pub parents: bool,
    /// Options of the connection.
    #[command(flatten)]
    pub client: ClientOptions,
}

/// `gannet rm`.
#[derive(Debug, Args)]
pub struct RmOptions {
    /// Files or directories to remove
    #[arg(required = true, value_name = "URL", value_parser = url_parser())]
    pub urls: Vec<Url>,
    /// Options of the work on trees.
    #[command(flatten)]
    pub tree: TreeOptions,
    /// Ignore names that do not exist
    #[arg(short, long)]
    pub force: bool,
    /// Options of the connection.
    #[command(flatten)]
    pub client: ClientOptions,
}

/// `gannet mv`.
#[derive(Debug, Args)]
pub struct MvOptions {
    /// Files or directories to move
    #[arg(required = true, value_name = "SOURCE", value_parser = url_parser())]
    pub sources: Vec<Url>,
    /// The new name on the same server, or a directory to move into
    #[arg(value_name = "TARGET", value_parser = url_parser())]
    pub target: Url,
    /// Options of the connection.
    #[command(flatten)]
    pub client: ClientOptions,
}

/// `gannet df`.
#[derive(Debug, Args)]
pub struct DfOptions {
    /// A file or directory of each file system
    #[arg(required = true, value_name = "URL", value_parser = url_parser())]
    pub urls: Vec<Url>,
    /// Print one JSON object per file system
    #[arg(long, help_heading = "Output")]
    pub json: bool,
    /// Options of the connection.
    #[command(flatten)]
    pub client: ClientOptions,
}
