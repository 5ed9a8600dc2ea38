//! One table over servers of any kind: the same cells, by the same client, in turns.
//!
//! A machine's speed changes while it is measured. In each round all servers are measured forwards and then backwards
//! (A B B A), so that a drift falls on all of them, and ratios are those of one round.

mod cell;
mod journal;
mod row;

use crate::cli::{PeerServer, PeersOptions};
pub(crate) use cell::{CELLS, Cell};
use gannet::url::Url;
use gannet_cli::bench::load::{Load, LoadEnd, Measured};
use gannet_cli::bench::measure::{Interrupt, in_folder};
use gannet_cli::bench::prepare::Prepared;
use gannet_cli::cli::BenchOp;
use gannet_cli::failure::{Explain, Failure};
use gannet_cli::{output, process};
use journal::Journal;
use row::{Row, Samples};
use std::path::Path;

/// Names that getattr takes in turns, on all connections together: each connection looks its own up first.
const HANDLES_MAX: u32 = 64;
/// Names of a connection, at least.
const HANDLES_MIN: u32 = 4;

/// A server, with what was made on it.
struct Peer {
    name: String,
    folder: Url,
    pid: Option<u32>,
    journal: Journal,
    /// Whether the file with data is there, and the names; an error if they cannot be made.
    data: Option<Result<(), String>>,
    names: Option<Result<(), String>>,
}

/// One run of the command.
struct Run<'a> {
    options: &'a PeersOptions,
    cells: Vec<Cell>,
    interrupt: Interrupt,
}

/// Measures what the options say.
///
/// # Errors
/// A server cannot be reached at the start, the options contradict each other, or a signal came.
pub(super) fn run(options: &PeersOptions) -> Result<(), Failure> {
    check(options)?;
    let is_asked = |cell: &&Cell| options.cell.is_empty() || options.cell.contains(&cell.name);
    let run = Run {
        options,
        cells: CELLS.iter().filter(is_asked).copied().collect(),
        interrupt: Interrupt::install()?,
    };
    run.in_folders(&options.servers, &mut Vec::new())
}

/// Checks that every name is one server's.
fn check(options: &PeersOptions) -> Result<(), Failure> {
    let what = || String::from("wrong usage");
    let names: Vec<&str> = options.servers.iter().map(|it| it.name.as_str()).collect();
    let is_twice = |(at, name): &(usize, &&str)| names.iter().take(*at).any(|it| it == *name);
    if let Some((_, name)) = names.iter().enumerate().find(is_twice) {
        let why = format!("two servers are called `{name}`");
        return Err(Failure::usage(what(), why).hint("give each a name of its own"));
    }
    let of_pids = options.pid.iter().map(|it| it.name.as_str());
    let of_directories = options.directory.iter().map(|it| it.name.as_str());
    for name in of_pids.chain(of_directories) {
        if !names.contains(&name) {
            let why = format!("no server is called `{name}`");
            let hint = format!("the servers are {}", names.join(", "));
            return Err(Failure::usage(what(), why).hint(hint));
        }
    }
    for pid in &options.pid {
        process::Usage::of(pid.pid)
            .explain(|| format!("{}: cannot look at process {}", pid.name, pid.pid))?;
    }
    Ok(())
}

impl Run<'_> {
    /// Makes a folder on each server, measures, and removes the folders.
    fn in_folders(&self, left: &[PeerServer], peers: &mut Vec<Peer>) -> Result<(), Failure> {
        let Some((server, left)) = left.split_first() else {
            return self.measure_all(peers);
        };
        let journal = self.journal(server)?;
        let pids = &self.options.pid;
        let mut done = Ok(());
        let own = in_folder(
            &server.url,
            &self.options.client,
            &self.interrupt,
            |folder| {
                peers.push(Peer {
                    name: server.name.clone(),
                    folder: folder.clone(),
                    pid: pids
                        .iter()
                        .find(|it| it.name == server.name)
                        .map(|it| it.pid),
                    journal,
                    data: None,
                    names: None,
                });
                done = self.in_folders(left, peers);
                // Errors of other servers are not this one's.
                Ok(())
            },
        );
        let own = own.map_err(|failure| failure.within(&server.name));
        if let (Err(_), Err(failure)) = (&done, &own) {
            // This server has the folder still, whatever ended the measurement.
            failure.report();
        }
        done?;
        own
    }

    /// The file system of a server's directory, as far as that is known and matters.
    fn journal(&self, server: &PeerServer) -> Result<Journal, Failure> {
        let of_server = |it: &&crate::cli::PeerDirectory| it.name == server.name;
        let Some(directory) = self.options.directory.iter().find(of_server) else {
            return Ok(Journal::Unknown);
        };
        let path: &Path = &directory.path;
        Journal::of(path).explain(|| format!("{}: cannot look at {}", server.name, path.display()))
    }

    fn measure_all(&self, peers: &mut [Peer]) -> Result<(), Failure> {
        let has_create = self.cells.iter().any(|cell| cell.op == BenchOp::Create);
        let unknown = peers.iter().filter(|it| it.journal == Journal::Unknown);
        let unknown: Vec<&str> = unknown.map(|it| it.name.as_str()).collect();
        if has_create && !unknown.is_empty() {
            output::report(&format!(
                "gannet: creates on {}: compare them on tmpfs or on a file system with a journal alone, since ext4 \
                 without a journal scans what was freed (--directory NAME=PATH has that checked)",
                unknown.join(", ")
            ));
        }
        let mut rows = Vec::new();
        for cell in &self.cells {
            let measured = self.measure(cell, peers)?;
            if self.options.json {
                measured.iter().try_for_each(output::json)?;
            }
            rows.extend(measured);
        }
        if self.options.json {
            return Ok(());
        }
        row::show(&rows)
    }

    /// Measures a cell on all servers; a row for each.
    ///
    /// # Errors
    /// A signal came.
    fn measure(&self, cell: &Cell, peers: &mut [Peer]) -> Result<Vec<Row>, Failure> {
        let mut taken: Vec<Result<Samples, String>> = Vec::new();
        for peer in &mut *peers {
            taken.push(match self.prepare(cell, peer) {
                Ok(()) => Ok(Samples::new()?),
                Err(error) => Err(error),
            });
            self.interrupt.check()?;
        }
        for round in 0..usize::from(self.options.rounds) {
            for at in (0..peers.len()).chain((0..peers.len()).rev()) {
                let (Some(peer), Some(samples)) = (peers.get(at), taken.get_mut(at)) else {
                    continue;
                };
                // A server that failed once has no figures: it is not asked again in this cell.
                let Ok(own) = samples else { continue };
                let sample = self.sample(cell, peer);
                self.interrupt.check()?;
                match sample {
                    Ok(sample) => own.add(round, &sample)?,
                    Err(failure) => *samples = Err(advise(failure)),
                }
            }
        }
        let names = self.options.names;
        let first = taken.first().and_then(|it| it.as_ref().ok());
        let rows = peers
            .iter()
            .zip(&taken)
            .enumerate()
            .map(|(at, (peer, own))| match own {
                Ok(own) => {
                    let first = first.filter(|_| at > 0);
                    Row::of(cell, names, &peer.name, own, first)
                }
                Err(error) => Row::failed(cell, &peer.name, error.clone()),
            });
        Ok(rows.collect())
    }

    fn prepared<'a>(&'a self, folder: &'a Url) -> Prepared<'a> {
        Prepared {
            folder,
            size: self.options.size,
            files: u64::from(self.options.names),
            client: &self.options.client,
        }
    }

    /// Makes what a cell uses, unless it is there.
    ///
    /// # Errors
    /// The reason why the cell cannot be measured.
    fn prepare(&self, cell: &Cell, peer: &mut Peer) -> Result<(), String> {
        if cell.op == BenchOp::Create && peer.journal == Journal::Missing {
            return Err(String::from(
                "not measured: its directory is on ext4 without a journal, which scans what was freed \
                 (serve a directory on tmpfs, or on an image with a journal)",
            ));
        }
        let make = || self.prepared(&peer.folder).make(cell.op, &self.interrupt);
        let made = if cell.op.has_records() {
            &mut peer.data
        } else if cell.op.has_files() {
            &mut peer.names
        } else {
            return Ok(());
        };
        made.get_or_insert_with(|| make().map_err(advise)).clone()
    }

    /// Measures a cell of one server once.
    fn sample(&self, cell: &Cell, peer: &Peer) -> Result<Measured, Failure> {
        let (options, interrupt) = (self.options, &self.interrupt);
        if cell.op == BenchOp::Create {
            // A directory of its own: in one that has the names already, a create would open files.
            let load = |folder: &Url| self.load(cell, peer, folder).run();
            return in_folder(&peer.folder, &options.client, interrupt, load);
        }
        if cell.is_read() {
            // Each time: the files of other servers may have taken its place in memory.
            self.prepared(&peer.folder).warm(interrupt)?;
        }
        self.load(cell, peer, &peer.folder).run()
    }

    fn load(&self, cell: &Cell, peer: &Peer, folder: &Url) -> Load {
        let options = self.options;
        let files = match cell.op {
            BenchOp::Stat => {
                let each = HANDLES_MAX / u32::from(cell.connections.max(1));
                options.names.min(each.max(HANDLES_MIN))
            }
            _ => options.names,
        };
        Load {
            folder: folder.clone(),
            op: cell.op,
            record: cell.record,
            streams: cell.connections,
            threads: options.client_threads,
            size: options.size,
            files: u64::from(files),
            end: LoadEnd::Time(options.seconds),
            client: options.client.clone(),
            in_flight: cell.in_flight,
            server: peer.pid,
            interrupt: self.interrupt.clone(),
        }
    }
}

/// A failure as a row has it, with what to do.
fn advise(failure: Failure) -> String {
    failure
        .or_hint("see the server's log; `gannet doctor URL` diagnoses a server")
        .to_string()
}
