//! The command lines of `gannet ls`, `cat`, `stat`, `cp`, `mkdir`, `rm`, `mv` and `df`.

use super::{ClientOptions, location_parser, url_parser};
use clap::{ArgAction, Args};
use gannet::url::{Location, Url};

/// `gannet ls`.
#[derive(Debug, Args)]
pub struct LsOptions {
    /// What to list
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
    /// Names that start with a dot too
    #[arg(short, long)]
    pub all: bool,
    /// Directories below too
    #[arg(short = 'R', long)]
    pub recursive: bool,
    /// One JSON object per entry
    #[arg(long)]
    pub json: bool,
    /// Print help
    #[arg(long, action = ArgAction::Help)]
    pub help: Option<bool>,
    /// Talking to the server.
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
    /// What to write out
    #[arg(required = true, value_name = "URL", value_parser = url_parser())]
    pub urls: Vec<Url>,
    /// Talking to the server.
    #[command(flatten)]
    pub client: ClientOptions,
}

/// `gannet stat`.
#[derive(Debug, Args)]
pub struct StatOptions {
    /// What to look at
    #[arg(required = true, value_name = "URL", value_parser = url_parser())]
    pub urls: Vec<Url>,
    /// One JSON object per file
    #[arg(long)]
    pub json: bool,
    /// Talking to the server.
    #[command(flatten)]
    pub client: ClientOptions,
}

/// `gannet cp`.
#[derive(Debug, Args)]
pub struct CpOptions {
    /// What to copy: URLs or local paths; `-` is standard input
    #[arg(required = true, value_name = "SOURCE", value_parser = location_parser())]
    pub sources: Vec<Location>,
    /// Where to: a URL or a local path, into it if it is a directory; `-` is standard output
    #[arg(value_name = "TARGET", value_parser = location_parser())]
    pub target: Location,
    /// Directories with everything in them
    #[arg(short, long, visible_short_alias = 'R')]
    pub recursive: bool,
    /// Read everything back and compare every byte with the source
    #[arg(long)]
    pub verify: bool,
    /// Files under way at a time, and parts of one file
    #[arg(short, long, value_name = "N", default_value_t = 16)]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=256))]
    pub jobs: u16,
    /// No progress on a terminal, and no line at the end
    #[arg(short, long)]
    pub quiet: bool,
    /// Talking to the server.
    #[command(flatten)]
    pub client: ClientOptions,
}

/// `gannet mkdir`.
#[derive(Debug, Args)]
pub struct MkdirOptions {
    /// What to make
    #[arg(required = true, value_name = "URL", value_parser = url_parser())]
    pub urls: Vec<Url>,
    /// Make what is missing above too, and do not mind what exists
    #[arg(short, long)]
    pub parents: bool,
    /// Talking to the server.
    #[command(flatten)]
    pub client: ClientOptions,
}

/// `gannet rm`.
#[derive(Debug, Args)]
pub struct RmOptions {
    /// What to remove
    #[arg(required = true, value_name = "URL", value_parser = url_parser())]
    pub urls: Vec<Url>,
    /// Directories with everything in them
    #[arg(short, long, visible_short_alias = 'R')]
    pub recursive: bool,
    /// Do not mind what does not exist
    #[arg(short, long)]
    pub force: bool,
    /// Names that are removed at a time, with -r
    #[arg(short, long, value_name = "N", default_value_t = 16)]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=256))]
    pub jobs: u16,
    /// With -r: no progress on a terminal, and no line at the end
    #[arg(short, long)]
    pub quiet: bool,
    /// Talking to the server.
    #[command(flatten)]
    pub client: ClientOptions,
}

/// `gannet mv`.
#[derive(Debug, Args)]
pub struct MvOptions {
    /// What to move
    #[arg(required = true, value_name = "SOURCE", value_parser = url_parser())]
    pub sources: Vec<Url>,
    /// Where to, on the same server; into it, if it is a directory
    #[arg(value_name = "TARGET", value_parser = url_parser())]
    pub target: Url,
    /// Talking to the server.
    #[command(flatten)]
    pub client: ClientOptions,
}

/// `gannet df`.
#[derive(Debug, Args)]
pub struct DfOptions {
    /// Where to look
    #[arg(required = true, value_name = "URL", value_parser = url_parser())]
    pub urls: Vec<Url>,
    /// One JSON object per file system
    #[arg(long)]
    pub json: bool,
    /// Talking to the server.
    #[command(flatten)]
    pub client: ClientOptions,
}
