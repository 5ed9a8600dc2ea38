//! `cargo xtask failover`: managers of a volume over an engine of several machines, while the active one is killed,
//! stopped and asked to end. The tests do the work, and are left out where FUSE or the engine is missing.

use crate::ci::left_out;
use crate::command::Step;
use crate::release_binary;
use anyhow::Result;
use clap::{Args, ValueEnum};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Journals in an engine, and programs on mounts. Other runs of the program ignore them.
const TEST: &str =
    "test --locked --quiet -p gannet-cli --test all -- --ignored --nocapture --test-threads=1";

/// With so many rounds, a clone by git is struck too, which takes half a minute.
const LONG_ROUNDS: u32 = 20;

/// An engine that the tests start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum EngineKind {
    Etcd,
    Postgresql,
}

impl EngineKind {
    /// A part of the names of its tests.
    fn tests(self) -> &'static str {
        match self {
            EngineKind::Etcd => "over_etcd",
            EngineKind::Postgresql => "over_postgresql",
        }
    }

    fn is_here(self) -> bool {
        match self {
            EngineKind::Etcd => Command::new("etcd").arg("--version").output().is_ok(),
            // Debian keeps its programs out of the path.
            EngineKind::Postgresql => {
                Path::new("/usr/lib/postgresql").is_dir()
                    || Command::new("initdb").arg("--version").output().is_ok()
            }
        }
    }
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
    let engine = options.engine;
    if !engine.is_here() {
        return left_out(
            &format!("failover {}", engine.tests()),
            "the engine is missing (packages etcd-server, postgresql)",
        );
    }
    let binary = release_binary(root, options.binary.as_deref())?;
    let mut test = Step::cargo(TEST).with(engine.tests());
    if options.rounds < LONG_ROUNDS {
        test = test.with("--skip=a_clone_outlives");
    }
    test.with_path("GANNET_BINARY", &binary)
        .with_variable("GANNET_FAILOVER_ROUNDS", &options.rounds.to_string())
        .run(root)
}
