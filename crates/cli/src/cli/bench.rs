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
    /// Another benchmark than that of a server's operations.
    #[command(subcommand)]
    pub what: Option<BenchWhat>,
    /// A directory on the server; the benchmark makes a directory in it, and removes that at its end
    #[arg(value_name = "URL", required = true, value_parser = url_parser())]
    pub url: Option<Url>,
    /// Run N streams, each with a connection and a thread; each value makes a row
    #[arg(
        long,
        value_name = "N,..",
        value_delimiter = ',',
        default_value = "1,4,16"
    )]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub threads: Vec<u16>,
    /// Keep N operations in flight on each stream
    #[arg(long, value_name = "N", default_value_t = 1)]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=256))]
    pub in_flight: u16,
    /// Move SIZE bytes with each operation, at most 1M, on a volume 64M; each value makes a row
    #[arg(
        long,
        value_name = "SIZE,..",
        value_delimiter = ',',
        default_value = "1M"
    )]
    #[arg(value_parser = parse_record)]
    pub record: Vec<u64>,
    /// Read or write a file of SIZE bytes; stat, lookup and list use a file for each 64 KiB of it
    #[arg(long, value_name = "SIZE", default_value = "256M", value_parser = size::parse_nonzero)]
    pub size: u64,
    /// Measure this operation; each value makes a row
    #[arg(
        long,
        value_name = "OP,..",
        value_delimiter = ',',
        default_value = "write,read"
    )]
    pub op: Vec<BenchOp>,
    /// Measure each row for this long
    #[arg(long, value_name = "SECONDS", default_value = "2", value_parser = parse_seconds)]
    pub seconds: Duration,
    /// Measure N operations of each row, in place of a time
    #[arg(long, value_name = "N", conflicts_with = "seconds")]
    #[arg(value_parser = clap::value_parser!(u64).range(1..))]
    pub operations: Option<u64>,
    /// Print one JSON object per row
    #[arg(long, help_heading = "Output")]
    pub json: bool,
    /// Options of the connection.
    #[command(flatten)]
    pub client: ClientOptions,
    /// How the data of volumes is transferred.
    #[command(flatten)]
    pub transfers: TransferOptions,
}

/// How the data of volumes is transferred.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Volume (gannet:// URLs)")]
pub struct TransferOptions {
    /// Send up to SIZE bytes for one I/O server within the message [default: 4K, the maximum]
    #[arg(long, value_name = "SIZE", value_parser = share_up_to(INLINE_DATA_MAX as u32))]
    pub inline_max: Option<u32>,
    /// Send up to SIZE bytes through eager buffers, which stay registered [default: 64K, the maximum]
    ///
    /// The server moves longer data by RDMA Read and RDMA Write.
    #[arg(long, value_name = "SIZE", value_parser = share_up_to(EAGER_LEN))]
    pub fast_max: Option<u32>,
    /// Let the client move longer data, up to 1M, to and from a client-driven buffer of the server
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
    /// Measure ranks that read or write tiles of one shared file of a volume
    ///
    /// Each rank has a connection and a thread, and moves the rows of its tile again and again. In the layout
    /// `interleaved`, a row of each rank precedes the next row of each; in the layout `apart`, each rank's rows lie in
    /// a part of the file of its own. Both are measured in turns. `of apart` is the median of their ratios: the share
    /// of the rate that remains when ranks share a file.
    Tile(Box<TileOptions>),
}

/// `gannet bench tile`.
#[derive(Debug, Clone, Args)]
pub struct TileOptions {
    /// A directory of a volume; the benchmark makes a directory in it, and removes that at its end
    #[arg(value_name = "URL", value_parser = url_parser())]
    pub url: Url,
    /// Read or write tiles; each value makes a row
    #[arg(
        long,
        value_name = "OP,..",
        value_delimiter = ',',
        default_value = "write"
    )]
    pub op: Vec<TileOp>,
    /// Request a tile this way; each value makes a row
    #[arg(
        long,
        value_name = "HOW,..",
        value_delimiter = ',',
        default_value = "rows,lists,nested"
    )]
    pub how: Vec<TileHow>,
    /// Register the rows of a tile at once (on) or each by itself (off); each value makes a row
    ///
    /// With allocation hints the client knows that the rows are parts of one allocation, and registers the allocation.
    /// Without, it registers each row, and `lists` name up to 128 of them in a request. `nested` and `sieve` have one
    /// allocation by nature, and are measured with hints alone.
    #[arg(
        long,
        value_name = "HINTS,..",
        value_delimiter = ',',
        default_value = "on"
    )]
    pub hints: Vec<TileHints>,
    /// Move SIZE bytes at a time by data sieving, as ROMIO's hint ind_rd_buffer_size
    #[arg(long, value_name = "SIZE", default_value = "4M", value_parser = parse_row)]
    pub sieve_buffer: u32,
    /// Run N ranks at the same time
    #[arg(long, value_name = "N", default_value_t = 30)]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=256))]
    pub ranks: u16,
    /// Give each tile N rows
    #[arg(long, value_name = "N", default_value_t = 256)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1 << 20))]
    pub rows: u32,
    /// Give each row SIZE bytes
    #[arg(long, value_name = "SIZE", default_value = "4K", value_parser = parse_row)]
    pub row: u32,
    /// Measure each layout for this long in each round
    #[arg(long, value_name = "SECONDS", default_value = "0.5", value_parser = parse_seconds)]
    pub seconds: Duration,
    /// Measure N rounds, and report their median
    #[arg(long, value_name = "N", default_value_t = 5)]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub rounds: u16,
    /// Print one JSON object per row
    #[arg(long, help_heading = "Output")]
    pub json: bool,
    /// Options of the connections.
    #[command(flatten)]
    pub client: ClientOptions,
}

/// How `gannet bench tile` asks for a tile.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum TileHow {
    /// A request for each row, one after the other
    Rows,
    /// Requests with lists of 128 rows
    Lists,
    /// One request for all rows, as a repeated pattern
    Nested,
    /// Data sieving: whole parts of the file; a write locks, reads, patches and writes back
    Sieve,
}

/// The knowledge that the client of `gannet bench tile` has of the memory of a tile.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum TileHints {
    /// The rows are parts of one allocation, which is registered once
    On,
    /// Each row is registered by itself
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

/// The operation of `gannet bench tile` on tiles.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum TileOp {
    /// Read tiles
    Read,
    /// Write tiles, without COMMIT
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

/// The operation that `gannet bench` measures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum BenchOp {
    /// Sequential READ
    Read,
    /// Sequential unstable WRITE, with one COMMIT at the end
    Write,
    /// READ at random offsets
    Randread,
    /// NULL; on a volume, a question to the manager
    Null,
    /// GETATTR
    Stat,
    /// LOOKUP
    Lookup,
    /// READDIRPLUS of a directory with the files of stat, from its start to its end
    List,
    /// CREATE of empty files
    Create,
}

impl BenchOp {
    /// Whether it moves bytes of a file.
    pub fn has_records(self) -> bool {
        matches!(self, BenchOp::Read | BenchOp::Write | BenchOp::Randread)
    }

    /// Whether it uses the small files of a directory.
    pub fn has_files(self) -> bool {
        matches!(self, BenchOp::Stat | BenchOp::Lookup | BenchOp::List)
    }
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
