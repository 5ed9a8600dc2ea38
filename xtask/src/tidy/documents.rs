//! Documents that would otherwise drift: commands that no longer exist, decisions without date, status or row in the
//! index.

use super::{Finding, read};
use anyhow::Result;
use std::path::{Path, PathBuf};

/// Chores of `cargo xtask`.
const CHORES: &[&str] = &[
    "tidy",
    "test",
    "ci",
    "sim",
    "fuzz",
    "mutants",
    "kernel-lab",
    "generate",
    "licences",
    "alerts",
    "package",
];
/// Cargo's own commands (and cargo-fuzz) that the documents use.
const CARGO: &[&str] = &[
    "build",
    "run",
    "test",
    "fmt",
    "clippy",
    "doc",
    "install",
    "bench",
    "xtask",
    "tree",
    "update",
    "fuzz",
    "bloat",
    "flamegraph",
];
/// Where the command line is defined.
const COMMAND_LINE: &str = "crates/cli/src/cli";
/// The definition of the binary's subcommands there.
const COMMANDS: &str = "pub enum Command {\n";
/// The index of the decisions, which links each of them.
const DECISION_INDEX: &str = "docs/decisions/README.md";

pub(super) fn check(root: &Path, files: &[PathBuf], findings: &mut Vec<Finding>) -> Result<()> {
    let subcommands = subcommands(root, files)?;
    if subcommands.is_empty() {
        let what = format!(
            "`{}` is not found: commands cannot be checked",
            COMMANDS.trim_end()
        );
        findings.push(Finding::new(Path::new(COMMAND_LINE), 1, what));
    }
    let (mut decisions, mut decision_index) = (Vec::new(), String::new());
    for file in files
        .iter()
        .filter(|file| file.extension().is_some_and(|end| end == "md"))
    {
        let text = read(&root.join(file))?;
        for (line, command) in commands(&text) {
            if let Some(what) = check_command(&command, &subcommands) {
                findings.push(Finding::new(file, line, what));
            }
        }
        if file == Path::new(DECISION_INDEX) {
            decision_index = text;
        } else if file.starts_with("docs/decisions") {
            decisions.push((file, text));
        }
    }
    for (index, (file, text)) in decisions.iter().enumerate() {
        check_decision(file, index + 1, text, findings);
        if !is_indexed(file, &decision_index) {
            let what = format!("no row links it in {DECISION_INDEX}");
            findings.push(Finding::new(file, 1, what));
        }
    }
    Ok(())
}

/// Whether a row of the index links this decision.
pub(super) fn is_indexed(file: &Path, index: &str) -> bool {
    let name = file.file_name().and_then(|name| name.to_str());
    let link = format!("]({})", name.unwrap_or_default());
    let mut rows = index.lines().filter(|line| line.starts_with('|'));
    rows.any(|row| row.contains(&link))
}

/// The binary's subcommands, without those below them.
fn subcommands(root: &Path, files: &[PathBuf]) -> Result<Vec<String>> {
    let is_definition = |file: &&PathBuf| {
        let file = file.to_str().unwrap_or_default();
        file.starts_with(COMMAND_LINE) && file.ends_with(".rs")
    };
    for file in files.iter().filter(is_definition) {
        let text = read(&root.join(file))?;
        if let Some((_, variants)) = text.split_once(COMMANDS) {
            return Ok(commands_of(variants));
        }
    }
    Ok(Vec::new())
}

/// The names of an enum's variants, as clap makes them of single words.
pub(super) fn commands_of(variants: &str) -> Vec<String> {
    let lines = variants.lines().take_while(|line| *line != "}");
    let names = lines.filter_map(|line| line.strip_prefix("    ")?.split_once('('));
    let is_name = |name: &&str| !name.is_empty() && name.chars().all(char::is_alphanumeric);
    let names = names.map(|(name, _)| name).filter(is_name);
    names.map(str::to_lowercase).collect()
}

/// Lines of fenced blocks that are commands, with their line numbers; a leading `$` or `#` prompt is taken off.
fn commands(text: &str) -> Vec<(usize, String)> {
    let mut fenced = false;
    let mut found = Vec::new();
    for (index, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
            continue;
        }
        let command = line.trim_start().trim_start_matches(['$', '#']).trim();
        let first = command.split_whitespace().next().unwrap_or_default();
        if fenced && matches!(first, "cargo" | "gannet" | ".ci/run" | "./.ci/run") {
            found.push((index + 1, command.to_owned()));
        }
    }
    found
}

/// The fault of a command in a document, if it has one.
pub(super) fn check_command(command: &str, subcommands: &[String]) -> Option<String> {
    let mut words = command.split_whitespace();
    let program = words.next()?;
    match program {
        "gannet" => unknown_subcommand(words, subcommands),
        "cargo" => {
            let cargo = words.find(|word| !word.starts_with('+'))?;
            match cargo {
                "xtask" => {
                    let chore = words.next()?;
                    (!CHORES.contains(&chore)).then(|| format!("no chore `cargo xtask {chore}`"))
                }
                // The binary is the workspace's default member: `cargo run -- COMMAND`.
                "run" if !command.contains(" -p ") && !command.contains("--example") => {
                    let rest = command.split_once(" -- ")?.1;
                    unknown_subcommand(rest.split_whitespace(), subcommands)
                }
                other => (!CARGO.contains(&other)).then(|| format!("no command `cargo {other}`")),
            }
        }
        _ => None,
    }
}

fn unknown_subcommand<'a>(
    words: impl Iterator<Item = &'a str>,
    subcommands: &[String],
) -> Option<String> {
    let word = words.into_iter().find(|word| !word.starts_with('-'))?;
    // `ls|cat|stat` names several; `COMMAND` and `...` stand for any.
    let is_name = |name: &str| name.chars().all(|letter| letter.is_ascii_lowercase());
    word.split('|')
        .filter(|name| !name.is_empty() && is_name(name) && !subcommands.is_empty())
        .find(|name| *name != "help" && !subcommands.iter().any(|known| known == name))
        .map(|name| format!("no command `gannet {name}`"))
}

/// A decision is `NNNN-slug.md`, starts `# NNNN: title`, and says its date and status on the third line.
fn check_decision(file: &Path, number: usize, text: &str, findings: &mut Vec<Finding>) {
    let name = file
        .file_name()
        .and_then(|name| name.to_str())
        .unwrap_or_default();
    if !name.starts_with(&format!("{number:04}-")) {
        let what = format!("decisions are numbered without gaps: expected {number:04}-...");
        findings.push(Finding::new(file, 1, what));
        return;
    }
    let mut lines = text.lines();
    let title = lines.next().unwrap_or_default();
    if title
        .strip_prefix(&format!("# {number:04}: "))
        .is_none_or(str::is_empty)
    {
        let what = format!("the first line must be `# {number:04}: title`");
        findings.push(Finding::new(file, 1, what));
    }
    let status = lines.nth(1).unwrap_or_default();
    if !is_dated_status(status) {
        let what =
            "the third line must be `YYYY-MM-DD. In force.` or `YYYY-MM-DD. Superseded by NNNN.`";
        findings.push(Finding::new(file, 3, what));
    }
}

fn is_dated_status(line: &str) -> bool {
    let Some((date, status)) = line.split_once(". ") else {
        return false;
    };
    let shape: Vec<usize> = date.split('-').map(str::len).collect();
    let digits = date
        .chars()
        .all(|letter| letter == '-' || letter.is_ascii_digit());
    digits
        && shape == [4, 2, 2]
        && (status.starts_with("In force") || status.starts_with("Superseded by "))
}
