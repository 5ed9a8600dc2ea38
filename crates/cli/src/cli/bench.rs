//! The command line of `gannet bench`.

use super::{ClientOptions, parse_seconds, url_parser};
use crate::size;
use clap::{Args, Subcommand, ValueEnum};
use gannet::url::Url;
use gannet_volume::limits::EAGER_LEN;
use gannet_wire::volume::INLINE_DATA_MAX;
use serde::Serialize;
use std::time::Duration;

/// `gannet bench`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct BenchOptions {
    /// Something else than operations of a server.
    #[command(subcommand)]
    pub what: Option<BenchWhat>,
    /// A directory on the server, in which the bench makes and removes files of its own
    #[arg(value_name = "URL", required = true, value_parser = url_parser())]
    pub url: Option<Url>,
    /// Concurrent streams, one connection each; several numbers make several rows
    #[arg(
        long,
        value_name = "N,..",
        value_delimiter = ',',
        default_value = "1,4,16"
    )]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub threads: Vec<u16>,
    /// Operations in flight on each stream
    #[arg(long, value_name = "N", default_value_t = 1)]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=256))]
    pub in_flight: u16,
    /// Bytes per operation, at most 1M, on a volume 64M; several sizes make several rows
    #[arg(
        long,
        value_name = "SIZE,..",
        value_delimiter = ',',
        default_value = "1M"
    )]
    #[arg(value_parser = parse_record)]
    pub record: Vec<u64>,
    /// Bytes of the file that is read or written; for stat, every 64 KiB stand for one file
    #[arg(long, value_name = "SIZE", default_value = "256M", value_parser = size::parse_nonzero)]
    pub size: u64,
    /// What to measure; several make several rows
    #[arg(
        long,
        value_name = "OP,..",
        value_delimiter = ',',
        default_value = "write,read"
    )]
    pub op: Vec<BenchOp>,
    /// Time per row
    #[arg(long, value_name = "SECONDS", default_value = "2", value_parser = parse_seconds)]
    pub seconds: Duration,
    /// One JSON object per row
    #[arg(long)]
    pub json: bool,
    /// Talking to the server.
    #[command(flatten)]
    pub client: ClientOptions,
    /// How bytes travel, for gannet:// URLs.
    #[command(flatten)]
    pub transfers: TransferOptions,
}

/// Which way bytes of volumes travel.
#[derive(Debug, Clone, Default, Args)]
pub struct TransferOptions {
    /// gannet://: a server's share of an operation travels in the message up to this length [default: 4K, the most]
    #[arg(long, value_name = "SIZE", value_parser = share_up_to(INLINE_DATA_MAX as u32))]
    pub inline_max: Option<u32>,
    /// gannet://: longer ones up to this length through buffers that both sides keep registered [default: 64K, the
    /// most]; the server moves what is longer
    #[arg(long, value_name = "SIZE", value_parser = share_up_to(EAGER_LEN))]
    pub fast_max: Option<u32>,
    /// gannet://: the client moves what is longer, up to 1M, to and from memory that the server lends it
    #[arg(long)]
    pub client_based: bool,
}

/// A length up to `max`.
fn share_up_to(max: u32) -> impl Fn(&str) -> Result<u32, String> + Clone + Send + Sync {
    move |text| {
        let len = u32::try_from(size::parse(text)?).ok();
        len.filter(|len| *len <= max)
            .ok_or_else(|| format!("at most {max} bytes can travel so"))
    }
}

/// `gannet bench ...`.
#[derive(Debug, Subcommand)]
pub enum BenchWhat {
    /// Measure ranks that read or write tiles of one file of a volume: rows between each other's, and rows apart
    ///
    /// Each rank has a connection and a thread, and moves the rows of its tile again and again. Interleaved, a row of
    /// each rank comes before the next row of each; apart, the same rows lie in a part of the file of the rank's own.
    /// Both are measured in turns, and `of_apart` is the median of their ratios: what ranks lose that share a file.
    Tile(Box<TileOptions>),
}

/// `gannet bench tile`.
#[derive(Debug, Clone, Args)]
pub struct TileOptions {
    /// A directory of a volume, in which the bench makes and removes files of its own
    #[arg(value_name = "URL", value_parser = url_parser())]
    pub url: Url,
    /// What the ranks do with their tiles; both make several rows
    #[arg(
        long,
        value_name = "OP,..",
        value_delimiter = ',',
        default_value = "write"
    )]
    pub op: Vec<TileOp>,
    /// How a tile is asked for; several make several rows
    #[arg(
        long,
        value_name = "HOW,..",
        value_delimiter = ',',
        default_value = "rows,lists,nested"
    )]
    pub how: Vec<TileHow>,
    /// Whether one registration serves all rows, as allocation hints make it; both make several rows
    ///
    /// With hints the client knows that the rows are parts of one allocation, and registers that one; without, each row
    /// is an allocation of its own to it, is registered for itself, and `lists` name up to 128 of them in a request.
    /// `nested` and `sieve` have one allocation by nature, and are measured with hints alone.
    #[arg(
        long,
        value_name = "HINTS,..",
        value_delimiter = ',',
        default_value = "on"
    )]
    pub hints: Vec<TileHints>,
    /// Bytes that data sieving moves at a time, as ROMIO's hint ind_rd_buffer_size
    #[arg(long, value_name = "SIZE", default_value = "4M", value_parser = parse_row)]
    pub sieve_buffer: u32,
    /// Ranks that work at the same time
    #[arg(long, value_name = "N", default_value_t = 30)]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=256))]
    pub ranks: u16,
    /// Rows of a tile
    #[arg(long, value_name = "N", default_value_t = 256)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1 << 20))]
    pub rows: u32,
    /// Bytes of a row
    #[arg(long, value_name = "SIZE", default_value = "4K", value_parser = parse_row)]
    pub row: u32,
    /// Time per layout and round
    #[arg(long, value_name = "SECONDS", default_value = "0.5", value_parser = parse_seconds)]
    pub seconds: Duration,
    /// Rounds, of which the median counts
    #[arg(long, value_name = "N", default_value_t = 5)]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub rounds: u16,
    /// One JSON object per row
    #[arg(long)]
    pub json: bool,
    /// Talking to the servers.
    #[command(flatten)]
    pub client: ClientOptions,
}

/// How `gannet bench tile` asks for a tile.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum TileHow {
    /// A request for each row, one after the other.
    Rows,
    /// Requests with lists of 128 rows.
    Lists,
    /// One request for all: a row that repeats.
    Nested,
    /// Data sieving: all from the first row to the last, in parts; a write locks, reads, patches and writes back.
    Sieve,
}

/// What the client of `gannet bench tile` knows of the memory of a tile.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum TileHints {
    /// The rows are parts of one allocation, which is registered once.
    On,
    /// Nothing: each row is registered for itself.
    Off,
}

impl TileHints {
    /// Its name on the command line and in tables.
    pub fn name(self) -> &'static str {
        match self {
            TileHints::On => "on",
            TileHints::Off => "off",
        }
    }
}

/// What `gannet bench tile` does with tiles.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum TileOp {
    /// Read them.
    Read,
    /// Write them, not durably.
    Write,
}

impl TileOp {
    /// Its name on the command line and in tables.
    pub fn name(self) -> &'static str {
        match self {
            TileOp::Read => "read",
            TileOp::Write => "write",
        }
    }
}

impl TileHow {
    /// Its name on the command line and in tables.
    pub fn name(self) -> &'static str {
        match self {
            TileHow::Rows => "rows",
            TileHow::Lists => "lists",
            TileHow::Nested => "nested",
            TileHow::Sieve => "sieve",
        }
    }
}

/// What `gannet bench` measures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum BenchOp {
    /// Sequential READ.
    Read,
    /// Sequential WRITE, unstable, with one COMMIT at the end.
    Write,
    /// READ at random offsets.
    Randread,
    /// GETATTR.
    Stat,
    /// CREATE of empty files.
    Create,
}

/// Parses bytes of one operation, with a unit.
///
/// # Errors
/// A sentence that says what is wrong.
pub fn parse_record(text: &str) -> Result<u64, String> {
    let max = gannet_wire::volume::TRANSFER_MAX;
    match size::parse_nonzero(text)? {
        size if size > max => Err(format!("`{text}`: an operation moves at most {max} bytes")),
        size => Ok(size),
    }
}

fn parse_row(text: &str) -> Result<u32, String> {
    u32::try_from(parse_record(text)?)
        .map_err(|_| format!("`{text}` is more than a part of a tile can have"))
}
