//! `cargo xtask kernel-lab`: scenarios with a real Linux kernel as NFS/RDMA client and server, in QEMU on this machine.
//!
//! [`prepare`] makes the files that a guest is booted from. [`machine`] is a guest, and [`host`] has the services of
//! this side for its scenario. kernel-lab/README.md explains how to write a scenario.

mod host;
mod initramfs;
mod machine;
mod prepare;
mod process;
mod program;
mod proxy;
mod run;
mod scenario;
mod server;

use crate::command::Step;
use crate::{package, target_folder};
use anyhow::{Context, Result, bail};
use clap::Args;
use host::Tested;
use scenario::{Program, Scenario};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// `cargo xtask kernel-lab`.
#[derive(Args)]
pub(crate) struct Options {
    /// Scenarios to run: whole names, or names without the variant behind the dot [default: all that need not be named]
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
    /// Run this program in guests that run a program of the workspace, instead of building that
    #[arg(long, value_name = "FILE")]
    program: Option<PathBuf>,
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
            program: None,
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
    let scenarios = scenario::load(&lab.join("scenarios"))?;
    if options.list && options.names.is_empty() {
        return list(&scenarios);
    }
    let scenarios = scenario::select(scenarios, &options.names)?;
    if options.list {
        return list(&scenarios);
    }
    let kernels = scenarios.iter().map(|scenario| scenario.kernel).collect();
    let kit = prepare::prepare(&kernels)?;
    if options.prepare {
        return Ok(());
    }
    let target = target_folder()?;
    let tested = tested(root, &target, options, &scenarios)?;
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

/// Builds the programs that the scenarios test.
fn tested(root: &Path, target: &Path, options: &Options, scenarios: &[Scenario]) -> Result<Tested> {
    let given = |file: &Path| {
        fs::canonicalize(file).with_context(|| format!("no such program: {}", file.display()))
    };
    let gannet = match &options.binary {
        Some(file) => given(file)?,
        None => {
            Step::cargo("build --release --locked -p gannet-cli").run(root)?;
            target.join("release/gannet")
        }
    };
    let mut package = None;
    if scenarios.iter().any(|scenario| scenario.package) {
        package = Some(package::make(root, &gannet)?);
    }
    let wanted = scenarios
        .iter()
        .filter_map(|scenario| scenario.program.clone());
    let wanted: BTreeSet<Program> = wanted.collect();
    let built = wanted.into_iter().map(|program| {
        let file = match &options.program {
            Some(file) => given(file)?,
            None => program::build(root, &program)?,
        };
        Ok((program, file))
    });
    let programs = built.collect::<Result<_>>()?;
    Ok(Tested {
        gannet,
        package,
        programs,
    })
}

fn list(scenarios: &[Scenario]) -> Result<()> {
    for scenario in scenarios {
        let note = if scenario.named {
            " [runs only when it is named]"
        } else {
            ""
        };
        println!("{:28} {}{note}", scenario.name, scenario.title);
    }
    Ok(())
}
