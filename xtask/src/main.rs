//! Gannet's own chores, run as `cargo xtask CHORE`.
//!
//! `tidy` checks what the compiler cannot: the arrows between crates, lengths, banned calls, documents. `test` runs the
//! tests that need this process alone. `ci` is everything `.ci/run` does, in the same commands a developer types.
//! `disks` runs tests on the file systems that users have. `copies` kills servers of a volume under fio, `failover` its
//! managers under programs. `sim` and `fuzz` start the simulator and the fuzz targets. `mutants` breaks rules, and sees
//! that tests find it. `kernel-lab` runs scenarios with a Linux kernel as client and server. `generate` makes the man
//! pages and shell completions, `package` the Debian package; `licences` checks those of all dependencies. `alerts`
//! checks the alert rules and the dashboard.
//!
//! First module to read: [`tidy`].

mod alerts;
mod ci;
mod command;
mod copies;
mod disks;
mod failover;
mod fuzz;
mod generate;
mod kernel_lab;
mod licences;
mod mutants;
mod package;
mod quick;
mod tidy;

use anyhow::{Context, Result};
use clap::{Parser, Subcommand};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

#[derive(Parser)]
#[command(name = "cargo xtask", about = "Gannet's own chores")]
struct Arguments {
    #[command(subcommand)]
    chore: Chore,
}

#[derive(Subcommand)]
enum Chore {
    /// Check arrows between crates, lengths, banned calls and documents
    Tidy,
    /// The tests to run after each step of work: units, properties, simulation
    Test,
    /// Everything that must be green before a change lands, with the processor seconds of each step
    Ci,
    /// Run tests, the demo and copies on ext4 with a journal, XFS and btrfs, in loop images; needs root
    Disks(disks::Options),
    /// Run fio on a mounted volume with two copies, while its I/O servers are killed, stopped, and lose a disk
    Copies(copies::Options),
    /// Run programs on mounts of a volume with three managers, while the active one is killed, stopped, or ends
    Failover(failover::Options),
    /// Run the simulator: one seed, or many fresh ones
    Sim {
        /// The seed to replay
        seed: Option<u64>,
        /// How many fresh seeds to run when none is given
        #[arg(long)]
        count: Option<u32>,
        /// Only clients of a volume against their model
        #[arg(long)]
        volume: bool,
        /// Only volumes that keep all data twice
        #[arg(long, conflicts_with = "volume")]
        copies: bool,
    },
    /// Fuzz every decoder and server, guided by coverage, for SECONDS in all
    Fuzz {
        /// Time to spend, divided over the targets by their weights
        #[arg(required_unless_present = "minimise")]
        seconds: Option<u32>,
        /// Only the targets whose name contains this
        #[arg(long, default_value = "")]
        target: String,
        /// Replace the committed inputs by as few as cover what they and the found ones cover
        #[arg(long, conflicts_with = "seconds")]
        minimise: bool,
    },
    /// Break rules of the system one by one, in a copy of the tree, and see that tests find it
    Mutants {
        /// Only these of xtask/mutants.toml
        names: Vec<String>,
    },
    /// Run scenarios with a Linux kernel as NFS/RDMA client and server, in an emulated machine
    KernelLab(kernel_lab::Options),
    /// Make the man pages and shell completions in target/generated, and check them
    Generate,
    /// Check the licences of the crates in the binary, by the list of deny.toml
    Licences,
    /// Check the alert rules for Prometheus, their tests, and the Grafana dashboard's expressions
    Alerts,
    /// Make the Debian package in target/deb
    Package(package::Options),
}

fn main() -> ExitCode {
    match run(Arguments::parse().chore) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(chore: Chore) -> Result<()> {
    let root = workspace_root();
    match chore {
        Chore::Tidy => tidy::run(&root),
        Chore::Test => quick::run(&root),
        Chore::Ci => ci::run(&root),
        Chore::Disks(options) => disks::run(&root, &options),
        Chore::Copies(options) => copies::run(&root, &options),
        Chore::Failover(options) => failover::run(&root, &options),
        Chore::Sim {
            seed,
            count,
            volume,
            copies,
        } => ci::simulate(&root, seed, count, volume, copies),
        Chore::Fuzz {
            minimise: true,
            target,
            ..
        } => fuzz::minimise(&root, &target),
        Chore::Fuzz {
            seconds, target, ..
        } => fuzz::run(&root, seconds.unwrap_or_default(), &target),
        Chore::Mutants { names } => mutants::run(&root, &names),
        Chore::KernelLab(options) => kernel_lab::run(&root, &options),
        Chore::Generate => generate::check(&root, None),
        Chore::Licences => licences::check(&root),
        Chore::Alerts => alerts::run(&root),
        Chore::Package(options) => package::run(&root, &options),
    }
}

/// The workspace this binary was built from.
fn workspace_root() -> PathBuf {
    let own = Path::new(env!("CARGO_MANIFEST_DIR"));
    own.parent().unwrap_or(own).to_path_buf()
}

/// The release binary of `gannet`: `given`, or built now.
///
/// # Errors
/// `given` does not exist, or the build fails.
fn release_binary(root: &Path, given: Option<&Path>) -> Result<PathBuf> {
    if let Some(given) = given {
        return fs::canonicalize(given).context("no such binary");
    }
    command::Step::cargo("build --release --locked -p gannet-cli").run(root)?;
    Ok(target_folder()?.join("release/gannet"))
}

/// Cargo's target folder: this program is in `debug` there.
fn target_folder() -> Result<PathBuf> {
    let own = std::env::current_exe().context("cannot tell where this program is")?;
    let target = own.parent().and_then(Path::parent);
    Ok(target
        .context("this program is not in a target folder")?
        .to_path_buf())
}
