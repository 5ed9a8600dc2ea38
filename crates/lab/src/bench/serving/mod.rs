//! `gannet-lab bench serving`: files sent by one call, with each engine, on the software RNIC and on simulated
//! testbeds.

mod real;
mod row;
mod simulated;

use crate::cli::ServingOptions;
use crate::limits::SENT_MAX;
use gannet_cli::failure::Failure;
use gannet_cli::{output, size};
use gannet_datapath::Engine;
use row::Row;

/// The variables of a row, apart from its target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Case {
    engine: Engine,
    pipes: usize,
    /// Bytes of a pipe.
    depth: usize,
    connections: usize,
    /// Bytes of a file.
    size: usize,
}

/// Measures what the command line says.
///
/// # Errors
/// The options make no sense, or something cannot be sent.
pub(super) fn run(options: &ServingOptions) -> Result<(), Failure> {
    check(options)?;
    let mut rows = Vec::new();
    let mut report = |row: Row| {
        if options.json {
            output::json(&row)?;
        }
        rows.push(row);
        Ok(())
    };
    let cases = cases(options);
    match options.profile[..] {
        [] => real::measure(&cases, options, &mut report)?,
        ref profiles => {
            for profile in profiles {
                simulated::measure(profile, &cases, &mut report)?;
            }
        }
    }
    if options.json {
        Ok(())
    } else {
        row::show(&rows)
    }
}

/// Where rows go as they are measured.
type Report<'a> = &'a mut dyn FnMut(Row) -> Result<(), Failure>;

fn check(options: &ServingOptions) -> Result<(), Failure> {
    let pipes = options.pipes.iter().copied().max().unwrap_or(1);
    let depth = options.depth.iter().copied().max().unwrap_or(1);
    if u64::from(pipes) * depth > SENT_MAX as u64 {
        let most = size::human(SENT_MAX as u64);
        let why = format!("all pipes of a connection together have at most {most}");
        return Err(Failure::usage("--pipes and --depth are too large", why)
            .hint("make one of them smaller"));
    }
    Ok(())
}

/// All cells of the matrix, those of one number of connections together.
fn cases(options: &ServingOptions) -> Vec<Case> {
    let in_memory = |bytes: u64| usize::try_from(bytes).unwrap_or(usize::MAX);
    let mut cases = Vec::new();
    for connections in &options.connections {
        for engine in &options.engine {
            for pipes in &options.pipes {
                for depth in &options.depth {
                    let case = Case {
                        engine: *engine,
                        pipes: match engine {
                            Engine::Dynamic => 1,
                            _ => usize::from(*pipes),
                        },
                        depth: in_memory(*depth),
                        connections: usize::from(*connections),
                        size: in_memory(options.size),
                    };
                    // One pipe of *dynamic* is as good as many.
                    if !cases.contains(&case) {
                        cases.push(case);
                    }
                }
            }
        }
    }
    cases
}
