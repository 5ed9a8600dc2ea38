//! Checks of the tree that no compiler makes. Each finding is one line, `file:line: what is wrong`.

mod arrows;
mod banned;
mod commits;
mod documents;
mod lengths;
mod logs;
mod manifests;
mod names;
mod packaging;
mod parameters;
mod prose;
mod source;
#[cfg(test)]
mod tests;

use crate::mutants;
use anyhow::{Context, Result, bail};
use std::fmt;
use std::path::{Path, PathBuf};

use names::Names;
use source::Source;

/// Folders that hold nothing of ours.
const SKIPPED: &[&str] = &["target", ".git", "corpus", "node_modules"];

/// One thing that is wrong.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Finding {
    file: PathBuf,
    /// Counted from 1.
    line: usize,
    what: String,
}

impl Finding {
    fn new(file: &Path, line: usize, what: impl Into<String>) -> Finding {
        Finding {
            file: file.to_path_buf(),
            line,
            what: what.into(),
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.file.display(), self.line, self.what)
    }
}

/// Checks the tree at `root` and prints what it finds.
///
/// # Errors
/// There are findings, or a file cannot be read.
pub(crate) fn run(root: &Path) -> Result<()> {
    let findings = check(root)?;
    for finding in &findings {
        println!("{finding}");
    }
    match findings.len() {
        0 => Ok(()),
        count => bail!("tidy: {count} findings"),
    }
}

/// All findings of the tree at `root`, in order of file and line.
fn check(root: &Path) -> Result<Vec<Finding>> {
    let mut findings = arrows::check(root)?;
    let files = files_below(root)?;
    let mut names = Names::default();
    for file in &files {
        let full = root.join(file);
        match file.extension().and_then(|extension| extension.to_str()) {
            Some("rs") => {
                let text = read(&full)?;
                prose::check_comments(file, &text, &mut findings);
                let source = Source::new(file, text);
                lengths::check(&source, &mut findings);
                parameters::check(&source, &mut findings);
                banned::check(&source, &mut findings);
                logs::check(&source, &mut findings);
                names.check(&source, &mut findings);
            }
            Some("md") => prose::check(file, &read(&full)?, &mut findings),
            Some("toml" | "sh") => banned::check_promises(file, &read(&full)?, &mut findings),
            _ => {}
        }
    }
    documents::check(root, &files, &mut findings)?;
    commits::check(root, &mut findings)?;
    manifests::check(root, &files, &mut findings)?;
    packaging::check(root, &files, &mut findings)?;
    // Here too, since the mutants are tried at night.
    for misfit in mutants::misfits(root)? {
        findings.push(Finding::new(Path::new(mutants::LIST), 1, misfit));
    }
    findings.sort();
    Ok(findings)
}

fn read(path: &Path) -> Result<String> {
    std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
}

/// Every file below `root`, as paths from there, sorted.
fn files_below(root: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    let mut folders = vec![PathBuf::new()];
    while let Some(folder) = folders.pop() {
        let full = root.join(&folder);
        let entries =
            std::fs::read_dir(&full).with_context(|| format!("cannot list {}", full.display()))?;
        for entry in entries {
            let entry = entry?;
            let name = entry.file_name();
            let kind = entry.file_type()?;
            if kind.is_dir() && !SKIPPED.iter().any(|skipped| name == *skipped) {
                folders.push(folder.join(name));
            } else if kind.is_file() {
                files.push(folder.join(name));
            }
        }
    }
    files.sort();
    Ok(files)
}
