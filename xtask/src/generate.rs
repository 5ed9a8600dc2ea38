//! Man pages and shell completions, made from the command line's definition. They are in packages and not in the tree.

use crate::ci::left_out;
use crate::command::Step;
use anyhow::{Context, Result, bail};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Where they go, below cargo's target folder.
const FOLDER: &str = "target/generated";
/// Programs that read a shell's script without running it.
const SHELLS: [(&str, &str); 3] = [
    ("bash", "gannet.bash"),
    ("zsh", "_gannet"),
    ("fish", "gannet.fish"),
];

/// Makes them all anew, by a release build or by `binary`. The folder has `man` and `completions`.
///
/// # Errors
/// They cannot be made.
pub(crate) fn make(root: &Path, binary: Option<&Path>) -> Result<PathBuf> {
    let folder = root.join(FOLDER);
    if folder.exists() {
        fs::remove_dir_all(&folder).context("cannot remove what was generated before")?;
    }
    let step = match binary {
        Some(binary) => Step::program(binary),
        None => Step::cargo("run --release --locked -p gannet-cli --"),
    };
    step.with("generate").with("all").with(FOLDER).run(root)?;
    Ok(folder)
}

/// Makes them, and has those programs read them that users' systems read them with.
///
/// # Errors
/// One is empty, a program complains, or one is missing and `CI=true`.
pub(crate) fn check(root: &Path, binary: Option<&Path>) -> Result<()> {
    let folder = make(root, binary)?;
    for kind in ["man", "completions"] {
        let files = files_in(&folder.join(kind))?;
        for file in &files {
            if fs::metadata(file)?.len() == 0 {
                bail!("{} is empty", file.display());
            }
        }
        println!("{}: {} files", kind, files.len());
    }
    if is_there("man") {
        for page in files_in(&folder.join("man"))? {
            check_page(&page)?;
        }
    } else {
        left_out(
            "man pages",
            "man is not installed (package man-db), which reads them",
        )?;
    }
    for (shell, script) in SHELLS {
        if !is_there(shell) {
            let reason = format!("{shell} is not installed, which reads {script}");
            left_out("completions", &reason)?;
            continue;
        }
        let script = folder.join("completions").join(script);
        silent(Command::new(shell).arg("-n").arg(script))?;
    }
    Ok(())
}

/// Has a page formatted, as lintian does.
fn check_page(page: &Path) -> Result<()> {
    let mut man = Command::new("man");
    man.args(["--warnings", "-E", "UTF-8", "-l", "-Tutf8", "-Z"]);
    silent(
        man.arg(page)
            .env("MANWIDTH", "120")
            .env("LC_ALL", "C.UTF-8"),
    )
}

/// Runs a program that must not complain.
fn silent(command: &mut Command) -> Result<()> {
    let output = command.stdin(Stdio::null()).output();
    let output = output.with_context(|| format!("{command:?} cannot be started"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() || !said.is_empty() {
        bail!("{command:?}: {}: {said}", output.status);
    }
    Ok(())
}

fn is_there(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}

fn files_in(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries =
        fs::read_dir(folder).with_context(|| format!("cannot list {}", folder.display()))?;
    let mut files = entries
        .map(|entry| Ok(entry?.path()))
        .collect::<Result<Vec<_>>>()?;
    files.sort();
    Ok(files)
}
