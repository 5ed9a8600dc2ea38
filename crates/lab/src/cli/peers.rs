//! The command line of `gannet-lab bench peers`.

use crate::bench::CELLS;
use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use gannet::url::Url;
use gannet_cli::cli::{ClientOptions, parse_seconds};
use gannet_cli::size;
use std::path::PathBuf;
use std::time::Duration;

/// `gannet-lab bench peers`.
#[derive(Debug, Clone, Args)]
pub struct PeersOptions {
    /// Servers to measure, each with a name of your choice and the URL of a directory
    #[arg(required = true, value_name = "NAME=URL", value_parser = server_parser())]
    pub servers: Vec<PeerServer>,
    /// Measure these cells alone [default: all]
    #[arg(long, value_name = "CELL,..", value_delimiter = ',', value_parser = cell_parser())]
    pub cell: Vec<&'static str>,
    /// Number of rounds, in each of which every server is measured twice; with fewer than six, the interval holds the
    /// median with less than 95 %
    #[arg(long, value_name = "N", default_value_t = 7)]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub rounds: u16,
    /// Time of a measurement; a round has two of them for each cell and server
    #[arg(long, value_name = "SECONDS", default_value = "0.5", value_parser = parse_seconds)]
    pub seconds: Duration,
    /// Bytes of the file that is read and written, at least 1M
    #[arg(long, value_name = "SIZE", default_value = "64M", value_parser = parse_size)]
    pub size: u64,
    /// Number of names in the directory of getattr, lookup and READDIRPLUS
    #[arg(long, value_name = "N", default_value_t = 1000)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub names: u32,
    /// Number of threads of the client, which the connections share
    #[arg(long, value_name = "N", default_value_t = 1)]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=64))]
    pub client_threads: u16,
    /// Measure the processor time of process PID too, which is the server NAME on this machine
    #[arg(long, value_name = "NAME=PID", value_parser = parse_pid)]
    pub pid: Vec<PeerPid>,
    /// Directory of this machine that the server NAME exports: creates are refused where its file system is ext4
    /// without a journal
    #[arg(long, value_name = "NAME=PATH", value_parser = parse_directory)]
    pub directory: Vec<PeerDirectory>,
    /// One JSON object per row
    #[arg(long)]
    pub json: bool,
    /// Options of the connections.
    #[command(flatten)]
    pub client: ClientOptions,
}

/// A server that is measured.
#[derive(Debug, Clone)]
pub struct PeerServer {
    /// Its name in the table.
    pub name: String,
    /// The directory in which the benchmark makes its own.
    pub url: Url,
}

/// The process of a server.
#[derive(Debug, Clone)]
pub struct PeerPid {
    /// The server's name.
    pub name: String,
    /// Its process.
    pub pid: u32,
}

/// The directory of a server.
#[derive(Debug, Clone)]
pub struct PeerDirectory {
    /// The server's name.
    pub name: String,
    /// Its directory, on this machine.
    pub path: PathBuf,
}

/// The name and the value of `NAME=VALUE`.
fn split<'a>(text: &'a str, value: &str) -> Result<(String, &'a str), String> {
    match text.split_once('=') {
        Some((name, rest)) if !name.is_empty() && !name.contains('/') => Ok((name.into(), rest)),
        _ => Err(format!("`{text}`: write NAME={value}")),
    }
}

fn parse_server(text: &str) -> Result<PeerServer, String> {
    let (name, url) = split(text, "URL, as in ganesha=nfs://127.0.0.1/export")?;
    let url = Url::parse(url).map_err(|error| error.to_string())?;
    Ok(PeerServer { name, url })
}

fn server_parser() -> impl TypedValueParser<Value = PeerServer> {
    clap::builder::NonEmptyStringValueParser::new().try_map(|text| parse_server(&text))
}

fn parse_pid(text: &str) -> Result<PeerPid, String> {
    let (name, pid) = split(text, "PID")?;
    let pid = pid.parse().map_err(|_| format!("`{pid}` is no process"))?;
    Ok(PeerPid { name, pid })
}

fn parse_directory(text: &str) -> Result<PeerDirectory, String> {
    let (name, path) = split(text, "PATH")?;
    let path = PathBuf::from(path);
    Ok(PeerDirectory { name, path })
}

/// Parses bytes of the file, which holds a record of each cell.
fn parse_size(text: &str) -> Result<u64, String> {
    match size::parse(text)? {
        size if size < 1 << 20 => Err(format!("`{text}`: at least 1M")),
        size => Ok(size),
    }
}

fn cell_parser() -> impl TypedValueParser<Value = &'static str> {
    let names = || CELLS.iter().map(|cell| cell.name);
    PossibleValuesParser::new(names()).map(move |name| {
        let mut names = CELLS.iter().map(|cell| cell.name);
        names.find(|known| *known == name).unwrap_or_default()
    })
}
