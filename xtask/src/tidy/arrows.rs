//! Which crate may use which: the arrows of ARCHITECTURE.md.

use super::{Finding, read};
use anyhow::{Context, Result};
use std::path::{Path, PathBuf};
use toml::{Table, Value};

/// For each crate, the crates of the workspace it may use. Tests may use any but the binary. Never: `cli` a laboratory
/// (`sim`, `dst`, `lab`), and `sim` a protocol (`rpc`, `nfs`, `volume`, `fuse`).
const ARROWS: &[(&str, &[&str])] = &[
    ("wire", &[]),
    ("runtime", &[]),
    ("metrics", &["runtime"]),
    ("fabric", &["runtime"]),
    ("softrdma", &["runtime", "fabric"]),
    ("conformance", &["runtime", "fabric", "testing"]),
    ("iwarp", &["wire", "runtime", "fabric", "softrdma"]),
    ("dump", &["wire"]),
    ("verbs", &["runtime", "fabric"]),
    ("session", &["runtime", "fabric"]),
    ("datapath", &["runtime", "fabric"]),
    (
        "rpc",
        &[
            "wire", "metrics", "runtime", "fabric", "session", "datapath",
        ],
    ),
    ("vfs", &["runtime"]),
    ("localfs", &["metrics", "runtime", "vfs"]),
    (
        "nfs",
        &[
            "wire", "metrics", "runtime", "fabric", "session", "rpc", "vfs",
        ],
    ),
    ("objects", &["wire", "metrics", "runtime", "vfs"]),
    ("meta", &["wire"]),
    ("engines", &["meta"]),
    (
        "volume",
        &[
            "wire", "metrics", "runtime", "fabric", "session", "datapath", "rpc", "vfs", "objects",
            "meta",
        ],
    ),
    ("client", &["runtime", "vfs"]),
    ("fuse", &["metrics", "runtime", "vfs", "client"]),
    (
        "gannet",
        &[
            "wire", "metrics", "runtime", "fabric", "session", "datapath", "iwarp", "verbs", "rpc",
            "vfs", "localfs", "nfs", "meta", "engines", "volume", "client", "fuse",
        ],
    ),
    ("capi", &["gannet"]),
    ("testing", &[]),
    (
        "cli",
        &[
            "wire", "metrics", "runtime", "fabric", "session", "iwarp", "verbs", "rpc", "vfs",
            "localfs", "nfs", "meta", "volume", "client", "dump", "gannet",
        ],
    ),
    ("sim", &["runtime", "fabric", "softrdma", "vfs"]),
    (
        "dst",
        &[
            "wire", "runtime", "fabric", "session", "iwarp", "rpc", "vfs", "nfs", "meta", "volume",
            "fuse", "sim",
        ],
    ),
    (
        "lab",
        &[
            "wire", "metrics", "runtime", "fabric", "datapath", "iwarp", "verbs", "rpc", "vfs",
            "nfs", "meta", "volume", "client", "localfs", "gannet", "cli", "sim", "dst",
        ],
    ),
    (
        "fuzz",
        &[
            "wire", "runtime", "fabric", "softrdma", "session", "iwarp", "rpc", "vfs", "localfs",
            "nfs", "meta", "volume", "sim", "dst", "dump", "gannet", "cli",
        ],
    ),
];

/// Crates that may use the binary's library.
const BINARY_USERS: &[&str] = &["lab", "fuzz"];
/// Crates that may use more of tokio than its runtime-free primitives.
const TOKIO_USERS: &[&str] = &[
    "capi", "engines", "runtime", "gannet", "cli", "lab", "fuzz", "testing",
];

pub(super) fn check(root: &Path) -> Result<Vec<Finding>> {
    let mut findings = Vec::new();
    for (manifest, name) in manifests(root)? {
        let text = read(&root.join(&manifest))?;
        let table: Table = text
            .parse()
            .with_context(|| format!("{} is not TOML", manifest.display()))?;
        check_manifest(&manifest, &name, &text, &table, &mut findings);
    }
    Ok(findings)
}

/// The manifests of the crates with arrows, and the crates' short names.
fn manifests(root: &Path) -> Result<Vec<(PathBuf, String)>> {
    let mut found = vec![(PathBuf::from("fuzz/Cargo.toml"), String::from("fuzz"))];
    for entry in std::fs::read_dir(root.join("crates")).context("cannot list crates/")? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        found.push((Path::new("crates").join(&name).join("Cargo.toml"), name));
    }
    found.retain(|(manifest, _)| root.join(manifest).exists());
    found.sort();
    Ok(found)
}

fn check_manifest(
    manifest: &Path,
    name: &str,
    text: &str,
    table: &Table,
    findings: &mut Vec<Finding>,
) {
    let Some((_, allowed)) = ARROWS.iter().find(|(from, _)| *from == name) else {
        let what = format!("crate `{name}` has no row in xtask's table of arrows");
        findings.push(Finding::new(manifest, 1, what));
        return;
    };
    for section in ["dependencies", "build-dependencies", "dev-dependencies"] {
        let Some(Value::Table(dependencies)) = table.get(section) else {
            continue;
        };
        for (dependency, value) in dependencies {
            let line = line_of(text, section, dependency);
            if let Some(to) = own_crate(dependency) {
                let is_allowed = allowed.contains(&to) || section == "dev-dependencies";
                if !is_allowed || (to == "cli" && !BINARY_USERS.contains(&name)) {
                    let what =
                        format!("`{name}` must not use `{to}` (ARCHITECTURE.md, the arrows)");
                    findings.push(Finding::new(manifest, line, what));
                }
            }
            if dependency == "tokio" && section == "dependencies" && !TOKIO_USERS.contains(&name) {
                check_tokio(manifest, line, value, findings);
            }
        }
    }
}

fn check_tokio(manifest: &Path, line: usize, value: &Value, findings: &mut Vec<Finding>) {
    let features = value.get("features").and_then(Value::as_array);
    for feature in features.into_iter().flatten().filter_map(Value::as_str) {
        if feature != "sync" {
            let what =
                format!("only tokio's `sync` is allowed outside the runtime, not `{feature}`");
            findings.push(Finding::new(manifest, line, what));
        }
    }
}

/// The short name of a crate of this workspace.
fn own_crate(dependency: &str) -> Option<&str> {
    match dependency {
        "gannet" => Some("gannet"),
        other => other.strip_prefix("gannet-"),
    }
}

/// Where a dependency stands in a manifest, from 1.
fn line_of(text: &str, section: &str, dependency: &str) -> usize {
    let header = format!("[{section}]");
    text.lines()
        .enumerate()
        .skip_while(|(_, line)| line.trim() != header)
        .find(|(_, line)| {
            line.strip_prefix(dependency)
                .is_some_and(|rest| rest.starts_with([' ', '.', '=']))
        })
        .map_or(1, |(index, _)| index + 1)
}
