//! Subjects of commits: `area: imperative verb object`.

use super::Finding;
use anyhow::{Context, Result};
use std::path::Path;
use std::process::Command;

/// Older commits are as they are: subjects are checked from the one after this on.
const LAST_UNCHECKED: &str = "71fcad063f2533463f35b8ec78152dcf2b68fdb2";
/// Characters of a subject, at most.
const SUBJECT_LEN_MAX: usize = 64;
/// Imperatives that end as other forms of verbs do.
const IMPERATIVES: &[&str] = &["bring", "embed", "feed", "need", "ping", "seed", "speed"];

/// Checks the commits of the branch that is checked out; a tree without git, as that of a package, has none.
///
/// # Errors
/// Git cannot be run.
pub(super) fn check(root: &Path, findings: &mut Vec<Finding>) -> Result<()> {
    if !root.join(".git").exists() {
        return Ok(());
    }
    // A shallow clone has no old commits, and a commit that is not there cannot be excluded.
    let is_there = git(root, &["cat-file", "-e", LAST_UNCHECKED])?.is_some();
    let since = format!("^{LAST_UNCHECKED}");
    let mut arguments = vec!["log", "--no-merges", "--format=%h %s"];
    arguments.push(if is_there { &since } else { "-1" });
    arguments.push("HEAD");
    let log = git(root, &arguments)?.context("git log fails (is this a clone with commits?)")?;
    for line in log.lines() {
        let (commit, subject) = line.split_once(' ').unwrap_or((line, ""));
        if let Some(what) = fault_of(subject) {
            findings.push(Finding::new(Path::new(commit), 1, what));
        }
    }
    Ok(())
}

/// The output of git; `None` if it fails.
fn git(root: &Path, arguments: &[&str]) -> Result<Option<String>> {
    let mut command = Command::new("git");
    let output = command.current_dir(root).args(arguments).output();
    let output = output.context("git cannot be run (install it)")?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    Ok(output.status.success().then_some(text))
}

/// The fault of a subject, if it has one.
fn fault_of(subject: &str) -> Option<String> {
    let count = subject.chars().count();
    if count > SUBJECT_LEN_MAX {
        return Some(format!(
            "{count} characters in \"{subject}\": {SUBJECT_LEN_MAX} at most"
        ));
    }
    let what = |why: &str| Some(format!("\"{subject}\": {why}"));
    let Some((area, action)) = subject.split_once(": ") else {
        return what("a subject is `area: imperative verb object`");
    };
    let is_area = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || " ,-./_".contains(c);
    if area.is_empty() || !area.chars().all(is_area) {
        return what("the area is the name of a crate or folder");
    }
    let Some((verb, _)) = action.split_once(' ') else {
        return what("the verb needs an object");
    };
    let is_other_form = (verb.ends_with('s') && !verb.ends_with("ss"))
        || verb.ends_with("ed")
        || verb.ends_with("ing");
    let is_verb = verb.chars().all(|c| c.is_ascii_lowercase() || c == '-');
    if !is_verb || (is_other_form && !IMPERATIVES.contains(&verb)) {
        return what("it starts with a verb in the imperative: add, reject, keep");
    }
    if matches!(
        verb,
        "a" | "an" | "the" | "no" | "what" | "who" | "each" | "all"
    ) {
        return what("it starts with a verb in the imperative, not with its object");
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subjects_are_an_area_and_an_imperative() {
        for good in [
            "volume: reject truncation beyond the largest file size",
            "fuse, nfs: pass errors on",
            "xtask: bring back the list",
        ] {
            assert_eq!(fault_of(good), None);
        }
        for bad in [
            "fix things",
            "volume: fixed the truncation",
            "volume: fixes the truncation",
            "volume: who gives a change up keeps its lock",
            "Volume: reject truncation",
            "volume: truncation",
            "volume: reject truncation beyond the largest size that a file can have here",
        ] {
            assert!(fault_of(bad).is_some(), "{bad}");
        }
    }
}
