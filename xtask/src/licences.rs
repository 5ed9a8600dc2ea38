//! Licences of the crates that are linked into the binary: whether they are allowed, and the notices that go with it.

use anyhow::{Context, Result, bail};
use serde::Deserialize;
use spdx::{Expression, ParseMode};
use std::collections::{BTreeSet, HashMap};
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The crate of the binary.
const BINARY: &str = "gannet-cli";
/// Starts of the names of files that hold a licence or a notice.
const NOTICES: &[&str] = &[
    "license",
    "licence",
    "copying",
    "copyright",
    "notice",
    "unlicense",
];

/// Code of others in the tree that is in the binary, and is no crate.
struct Bundled {
    name: &'static str,
    /// The release, as the file itself has it.
    version: &'static str,
    licence: &'static str,
    file: &'static str,
    notice: &'static str,
}

const BUNDLED: &[Bundled] = &[Bundled {
    name: "uPlot",
    version: "1.6.32",
    licence: "MIT",
    file: "crates/gannet/src/admin/page/uPlot.iife.min.js",
    notice: "crates/gannet/src/admin/page/uPlot.LICENSE",
}];

/// The output of `cargo metadata`.
#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
    resolve: Resolve,
}

#[derive(Deserialize)]
struct Package {
    id: String,
    name: String,
    version: String,
    license: Option<String>,
    manifest_path: PathBuf,
    /// `None` for crates of this workspace.
    source: Option<String>,
}

#[derive(Deserialize)]
struct Resolve {
    nodes: Vec<Node>,
}

#[derive(Deserialize)]
struct Node {
    id: String,
    deps: Vec<Dependency>,
}

#[derive(Deserialize)]
struct Dependency {
    pkg: String,
    dep_kinds: Vec<Kind>,
}

#[derive(Deserialize)]
struct Kind {
    /// `None` for what is linked, `build` or `dev` for the rest.
    kind: Option<String>,
}

/// The part of `deny.toml` that is used here.
#[derive(Deserialize)]
struct Deny {
    licenses: Licenses,
}

#[derive(Deserialize)]
struct Licenses {
    allow: Vec<String>,
}

/// Checks that every crate that is linked into the binary has a licence that `deny.toml` allows.
///
/// # Errors
/// A crate has another one, or none that can be read.
pub(crate) fn check(root: &Path) -> Result<()> {
    let text = fs::read_to_string(root.join("deny.toml")).context("cannot read deny.toml")?;
    let deny: Deny = toml::from_str(&text).context("deny.toml")?;
    let packages = linked(root)?;
    let mut wrong = Vec::new();
    for package in &packages {
        let licence = package.license.as_deref().unwrap_or_default();
        if !is_allowed(licence, &deny.licenses.allow) {
            wrong.push(format!("{} {}: {licence:?}", package.name, package.version));
        }
    }
    for Bundled {
        name,
        version,
        licence,
        file,
        notice,
    } in BUNDLED
    {
        if !is_allowed(licence, &deny.licenses.allow) {
            wrong.push(format!("{name} {version}: {licence:?}"));
        }
        for (path, text) in [(file, version), (notice, &"Copyright")] {
            let content = fs::read_to_string(root.join(path));
            if !content
                .with_context(|| format!("cannot read {path}"))?
                .contains(text)
            {
                bail!("{path}: this file of {name} does not say {text:?}");
            }
        }
    }
    if !wrong.is_empty() {
        bail!(
            "deny.toml does not allow these licences:\n{}",
            wrong.join("\n")
        );
    }
    println!(
        "licences of {} crates and {} bundled files are allowed by deny.toml",
        packages.len(),
        BUNDLED.len()
    );
    Ok(())
}

/// Whether the allowed licences, as the expression combines them, are enough. Old manifests write `/` for OR.
fn is_allowed(licence: &str, allowed: &[String]) -> bool {
    let Ok(expression) = Expression::parse_mode(licence, ParseMode::LAX) else {
        return false;
    };
    expression.evaluate(|requirement| allowed.contains(&requirement.to_string()))
}

/// Writes the notices of all crates that are linked into the binary to one file.
///
/// # Errors
/// A crate's files cannot be read, or the file cannot be written.
pub(crate) fn write_notices(root: &Path, file: &Path) -> Result<()> {
    let mut text =
        String::from("Code of others in gannet: crates and files, their licences and notices.\n");
    for package in linked(root)? {
        let (name, version) = (&package.name, &package.version);
        let licence = package.license.as_deref().unwrap_or("see below");
        writeln!(text, "\n==== {name} {version}: {licence}")?;
        let folder = package
            .manifest_path
            .parent()
            .context("a manifest lies in no folder")?;
        let notices = notices_in(folder)?;
        if notices.is_empty() {
            writeln!(
                text,
                "\nThe crate has no file of its licence, which its manifest names."
            )?;
        }
        for notice in notices {
            let content = fs::read_to_string(&notice)
                .with_context(|| format!("cannot read {}", notice.display()))?;
            let shown = notice.file_name().unwrap_or_default().to_string_lossy();
            writeln!(text, "\n---- {shown}\n\n{}", content.trim_end())?;
        }
    }
    for Bundled {
        name,
        version,
        licence,
        notice,
        ..
    } in BUNDLED
    {
        let content = fs::read_to_string(root.join(notice))
            .with_context(|| format!("cannot read {notice}"))?;
        writeln!(
            text,
            "\n==== {name} {version}: {licence}\n\n{}",
            content.trim_end()
        )?;
    }
    fs::write(file, text).with_context(|| format!("cannot write {}", file.display()))
}

/// Files of a crate that hold its licences and notices, in order of their names.
fn notices_in(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries =
        fs::read_dir(folder).with_context(|| format!("cannot list {}", folder.display()))?;
    let mut found = Vec::new();
    for entry in entries {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().to_lowercase();
        if NOTICES.iter().any(|start| name.starts_with(start)) && entry.file_type()?.is_file() {
            found.push(entry.path());
        }
    }
    found.sort();
    Ok(found)
}

/// Crates of others that are linked into the binary on this machine, in order of their names.
fn linked(root: &Path) -> Result<Vec<Package>> {
    let output = Command::new("cargo")
        .args(["metadata", "--format-version", "1", "--locked"])
        .args(["--filter-platform", "x86_64-unknown-linux-gnu"])
        .current_dir(root)
        .output()
        .context("cargo cannot be started")?;
    if !output.status.success() {
        bail!(
            "cargo metadata: {}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
    let metadata = serde_json::from_slice(&output.stdout).context("cargo metadata")?;
    Ok(linked_into(metadata, BINARY))
}

fn linked_into(metadata: Metadata, binary: &str) -> Vec<Package> {
    let nodes: HashMap<_, _> = metadata
        .resolve
        .nodes
        .iter()
        .map(|node| (&node.id, node))
        .collect();
    let start = metadata
        .packages
        .iter()
        .find(|package| package.name == binary);
    let mut waiting: Vec<_> = start.map(|package| &package.id).into_iter().collect();
    let mut linked = BTreeSet::new();
    while let Some(id) = waiting.pop() {
        if !linked.insert(id.clone()) {
            continue;
        }
        let dependencies = nodes.get(id).into_iter().flat_map(|node| &node.deps);
        let is_linked = |one: &&Dependency| one.dep_kinds.iter().any(|kind| kind.kind.is_none());
        waiting.extend(dependencies.filter(is_linked).map(|one| &one.pkg));
    }
    let mut packages = metadata.packages;
    packages.retain(|package| linked.contains(&package.id) && package.source.is_some());
    packages.sort_by(|one, other| one.name.cmp(&other.name));
    packages
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_expression_is_allowed_when_what_it_asks_for_is() {
        let allowed = ["MIT", "Apache-2.0", "Apache-2.0 WITH LLVM-exception"].map(str::to_owned);
        for licence in [
            "MIT",
            "MIT OR GPL-3.0-only",
            "MIT/Apache-2.0",
            "GPL-2.0-only OR (MIT AND Apache-2.0)",
            "Apache-2.0 WITH LLVM-exception",
        ] {
            assert!(is_allowed(licence, &allowed), "{licence}");
        }
        for licence in ["", "GPL-3.0-only", "MIT AND Zlib", "no licence"] {
            assert!(!is_allowed(licence, &allowed), "{licence}");
        }
    }

    #[test]
    fn what_is_needed_to_build_or_to_test_is_not_linked() {
        let package = |name: &str| {
            format!(
                r#"{{"id":"{name}","name":"{name}","version":"1.0.0","license":"MIT","source":"r","manifest_path":"/{name}"}}"#
            )
        };
        let packages = ["a", "b", "c", "d", "e"].map(package).join(",");
        let metadata = format!(
            r#"{{"packages":[{packages}],"resolve":{{"nodes":[
                {{"id":"a","deps":[{{"pkg":"c","dep_kinds":[{{"kind":null}}]}},{{"pkg":"b","dep_kinds":[{{"kind":"build"}}]}},
                                   {{"pkg":"e","dep_kinds":[{{"kind":"dev"}}]}}]}},
                {{"id":"c","deps":[{{"pkg":"d","dep_kinds":[{{"kind":"dev"}},{{"kind":null}}]}},{{"pkg":"a","dep_kinds":[{{"kind":null}}]}}]}}
            ]}}}}"#
        );
        let linked = linked_into(serde_json::from_str(&metadata).unwrap(), "a");
        let names: Vec<_> = linked.iter().map(|package| package.name.as_str()).collect();
        assert_eq!(names, ["a", "c", "d"]);
    }
}
