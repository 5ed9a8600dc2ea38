//! `cargo xtask failover`: managers of a volume over an engine of several machines, while the active one is killed,
//! stopped and asked to end. The tests do the work, and are left out where FUSE or the engine is missing.

use crate::ci::left_out;
use crate::command::Step;
use crate::release_binary;
use anyhow::Result;
use clap::{Args, ValueEnum};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Journals in the engine, and programs on mounts. Other runs of the program ignore them.
const TEST: &str = "test --locked --quiet -p gannet-cli --test all failover:: -- --ignored --nocapture --test-threads=1";

/// An engine that the tests start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum EngineKind {
    Etcd,
}

/// `cargo xtask failover`.
#[derive(Args)]
pub(crate) struct Options {
    /// The engine
    #[arg(long, value_enum, default_value = "etcd")]
    engine: EngineKind,
    /// Faults of the active manager: killed, stopped and asked to end in turn
    #[arg(long, default_value_t = 3)]
    rounds: u32,
    /// Test this binary instead of building one
    #[arg(long, value_name = "FILE")]
    binary: Option<PathBuf>,
}

/// Runs the tests on the release binary, in the folder that TMPDIR names.
///
/// # Errors
/// A program sees an error or waits for long, an acknowledged change is lost or done twice, or a lock has two holders.
pub(crate) fn run(root: &Path, options: &Options) -> Result<()> {
    match options.engine {
        EngineKind::Etcd => {
            if Command::new("etcd").arg("--version").output().is_err() {
                return left_out("failover over etcd", "no etcd here (package etcd-server)");
            }
        }
    }
    let binary = release_binary(root, options.binary.as_deref())?;
    Step::cargo(TEST)
        .with_path("GANNET_BINARY", &binary)
        .with_variable("GANNET_FAILOVER_ROUNDS", &options.rounds.to_string())
        .run(root)
}
