//! `cargo xtask kernel-lab`: scenarios with a real Linux kernel as NFS/RDMA client and server, in QEMU on this machine.
//!
//! [`prepare`] makes the files that a guest is booted from. [`machine`] is a guest, and [`host`] has the services of
//! this side for its scenario. kernel-lab/README.md explains how to write a scenario.

mod host;
mod initramfs;
mod machine;
mod prepare;
mod process;
mod proxy;
mod run;
mod scenario;
mod server;

use crate::command::Step;
use crate::{package, target_folder};
use anyhow::{Context, Result, bail};
use clap::Args;
use host::Tested;
use scenario::Scenario;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// `cargo xtask kernel-lab`.
#[derive(Args)]
pub(crate) struct Options {
    /// Scenarios to run: whole names, or names without the variant behind the dot [default: all]
    #[arg(value_name = "TEST")]
    names: Vec<String>,
    /// Show the scenarios instead
    #[arg(long)]
    list: bool,
    /// Keep logs and captures of scenarios that pass too
    #[arg(long)]
    capture: bool,
    /// Test this binary instead of building one
    #[arg(long, value_name = "FILE")]
    binary: Option<PathBuf>,
    /// Make the kernels and the folders that the scenarios' guests are booted from, and stop
    #[arg(long, conflicts_with = "list")]
    prepare: bool,
}

impl Options {
    /// To run these scenarios with this binary.
    pub(crate) fn of(names: &[&str], binary: &Path) -> Options {
        Options {
            names: names.iter().map(|name| (*name).to_owned()).collect(),
            list: false,
            capture: false,
            binary: Some(binary.to_owned()),
            prepare: false,
        }
    }
}

/// Runs scenarios and prints their results.
///
/// # Errors
/// A scenario failed, or the lab cannot be prepared.
pub(crate) fn run(root: &Path, options: &Options) -> Result<()> {
    let lab = root.join("kernel-lab");
    let scenarios = scenario::select(scenario::load(&lab.join("scenarios"))?, &options.names)?;
    if options.list {
        return list(&scenarios);
    }
    let kernels = scenarios.iter().map(|scenario| scenario.kernel).collect();
    let kit = prepare::prepare(&kernels)?;
    if options.prepare {
        return Ok(());
    }
    let target = target_folder()?;
    let gannet = match &options.binary {
        Some(file) => fs::canonicalize(file).context("no such binary")?,
        None => {
            Step::cargo("build --release --locked -p gannet-cli").run(root)?;
            target.join("release/gannet")
        }
    };
    let mut package = None;
    if scenarios.iter().any(|scenario| scenario.package) {
        package = Some(package::make(root, &gannet)?);
    }
    let folder = target.join("kernel-lab");
    fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let _lock = process::lock(&folder)?;
    let recipe = machine::Recipe {
        kit,
        lab,
        shared: folder.join("out"),
        boots: folder.join("boots"),
        first: folder,
    };
    for kernel in kernels {
        println!("kernel-lab: kernel {}", recipe.kit.image(kernel)?.abi);
        let init = recipe.lab.join("guest/init");
        initramfs::write(&recipe.kit, kernel, &init, &recipe.initramfs(kernel))?;
    }
    let started = Instant::now();
    let count = scenarios.len();
    let tested = Tested { gannet, package };
    let failed = run::all(recipe, &tested, &scenarios, options.capture)?;
    println!(
        "kernel-lab: {} passed, {failed} failed in {:.0} s",
        count - failed,
        started.elapsed().as_secs_f64()
    );
    match failed {
        0 => Ok(()),
        _ => bail!("{failed} of {count} scenarios failed"),
    }
}

fn list(scenarios: &[Scenario]) -> Result<()> {
    for scenario in scenarios {
        println!("{:28} {}", scenario.name, scenario.title);
    }
    Ok(())
}
