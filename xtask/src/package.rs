//! The Debian package: cargo-deb puts together what `[package.metadata.deb]` of the binary's manifest lists, out of a
//! folder that is filled here.

use crate::command::Step;
use crate::{generate, licences, target_folder};
use anyhow::{Context, Result, bail};
use clap::Args;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The release of cargo-deb that is installed where there is none.
const CARGO_DEB: &str = "3.8.0";
/// Where it is installed, below the workspace.
const TOOLS: &str = "target/tools";
/// Where the parts of the package are put, and the package; the manifest names it as well.
const FOLDER: &str = "target/deb";

/// `cargo xtask package`.
#[derive(Args)]
pub(crate) struct Options {
    /// Package this binary instead of building one
    #[arg(long, value_name = "FILE")]
    binary: Option<PathBuf>,
}

/// Makes the package, and prints where it is.
///
/// # Errors
/// A part cannot be made, or cargo-deb cannot be installed or refuses.
pub(crate) fn run(root: &Path, options: &Options) -> Result<()> {
    let binary = match &options.binary {
        Some(binary) => binary.clone(),
        None => build(root)?,
    };
    let package = make(root, &binary)?;
    println!("package: {}", package.display());
    Ok(())
}

/// Builds what is installed, which says its commit.
fn build(root: &Path) -> Result<PathBuf> {
    let mut step = Step::cargo("build --profile dist --locked -p gannet-cli");
    let version = commit(root).map(|commit| format!("{} ({commit})", env!("CARGO_PKG_VERSION")));
    if let Some(version) = &version {
        step = step.with_variable("GANNET_VERSION", version);
    }
    step.run(root)?;
    Ok(target_folder()?.join("dist/gannet"))
}

/// The commit that is checked out, in short; nothing without git.
fn commit(root: &Path) -> Option<String> {
    let mut git = Command::new("git");
    let output = git
        .current_dir(root)
        .args(["rev-parse", "--short=12", "HEAD"])
        .output()
        .ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}

/// Makes the package around `binary`; its path.
///
/// # Errors
/// See [`run`].
pub(crate) fn make(root: &Path, binary: &Path) -> Result<PathBuf> {
    let binary =
        fs::canonicalize(binary).with_context(|| format!("no binary {}", binary.display()))?;
    let folder = root.join(FOLDER);
    if folder.exists() {
        fs::remove_dir_all(&folder).context("cannot remove the last package")?;
    }
    fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    fs::copy(&binary, folder.join("gannet")).context("cannot take the binary")?;
    symlink("../bin/gannet", folder.join("mount.gannet"))?;
    symlink("../bin/gannet", folder.join("mount.fuse.gannet"))?;
    let generated = generate::make(root, Some(&binary))?;
    for kind in ["man", "completions"] {
        fs::rename(generated.join(kind), folder.join(kind))
            .context("cannot take what was generated")?;
    }
    licences::write_notices(root, &folder.join("third-party.txt"))?;
    Step::program(cargo_deb(root)?)
        .with("deb")
        .with("--no-build")
        .with("--no-strip")
        .with("--quiet")
        .with("--manifest-path=crates/cli/Cargo.toml")
        .with(format!("--output={FOLDER}"))
        .run(root)?;
    package_in(&folder)
}

/// The only package in a folder.
fn package_in(folder: &Path) -> Result<PathBuf> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.extension().is_some_and(|end| end == "deb") {
            return Ok(path);
        }
    }
    bail!("cargo-deb left no package in {}", folder.display())
}

/// The program cargo-deb, which is installed below `target` where this machine has none. That takes a minute once.
fn cargo_deb(root: &Path) -> Result<PathBuf> {
    let own = root.join(TOOLS).join("bin/cargo-deb");
    let is_there = |program: &Path| {
        let mut command = Command::new(program);
        let asked = command
            .arg("--version")
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
        asked.is_ok_and(|status| status.success())
    };
    let installed = PathBuf::from("cargo-deb");
    if let Some(program) = [installed, own.clone()].into_iter().find(|it| is_there(it)) {
        return Ok(program);
    }
    println!("package: cargo-deb is not installed: installing it into {TOOLS}");
    Step::cargo("install cargo-deb --locked --quiet --version")
        .with(CARGO_DEB)
        .with("--root")
        .with(TOOLS)
        .run(root)?;
    Ok(own)
}
