//! The metrics that the dashboard, the alert rules and docs/operating.md name are metrics that servers have.

#![allow(clippy::unwrap_used)]

use crate::support;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use support::mount::{Mount, is_left_out};
use support::{FREE_PORT, Place, Server, succeed};

/// Suffixes that Prometheus adds to the name of a family, by its type.
const SUFFIXES: &[(&str, &[&str])] = &[
    ("counter", &["_total"]),
    ("gauge", &[""]),
    ("histogram", &["_bucket", "_sum", "_count"]),
];

/// The types of the families that a server shows, by their names; each has a line of help.
fn families(admin: &str) -> BTreeMap<String, String> {
    let text = super::admin::get_at(admin, "/metrics").2;
    let types = text.lines().filter_map(|line| line.strip_prefix("# TYPE "));
    let families = types.map(|line| {
        let (name, kind) = line.split_once(' ').unwrap();
        assert!(text.contains(&format!("# HELP {name} ")), "{name}: {text}");
        (name.to_owned(), kind.to_owned())
    });
    let families: BTreeMap<_, _> = families.collect();
    // Every process with cores has pools.
    assert!(families.contains_key("gannet_pool_jobs"), "{text}");
    families
}

/// The words of a text that are names of metrics.
fn names(text: &str) -> Vec<&str> {
    let words = text.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
    let mut names: Vec<_> = words.filter(|word| word.starts_with("gannet_")).collect();
    names.sort_unstable();
    names.dedup();
    names
}

/// Families of a server of a directory, of a server of a volume, and of a mount where there may be one.
fn all_families(place: &Place) -> BTreeMap<String, String> {
    let share = place.text("share");
    // Calls are taken apart, which some numbers are for.
    let audit = place.text("audit");
    let watched = ["--admin", FREE_PORT, "--slow", "3600s"];
    let options = [&[&*share, "--audit-log", &audit], &watched[..]].concat();
    let directory = Server::start(&place.path("state"), &options);
    succeed(&["ls", &directory.urls()[0]]);
    let volume = place.text("volume");
    succeed(&["volume", "create", &volume, "--io-servers", "2"]);
    let state = place.text("out");
    let served = ["--volume", &volume, "--state-dir", &state];
    let addresses = ["--native", FREE_PORT, "--admin", FREE_PORT];
    let volume = Server::with(&[served, addresses].concat());
    let mut all = families(&directory.admin);
    all.extend(families(&volume.admin));
    if !is_left_out() {
        let mount = Mount::of(
            &directory.urls()[1],
            &place.path("mnt"),
            &["--admin", FREE_PORT],
        );
        fs::metadata(&mount.directory).unwrap();
        all.extend(families(&mount.admin));
        mount.unmount();
    }
    all
}

#[test]
fn the_metrics_that_are_shown_and_alerted_about_exist() {
    let place = Place::new();
    let families = all_families(&place);
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    for file in [
        "packaging/grafana/gannet.json",
        "packaging/prometheus/gannet.rules.yml",
        "packaging/prometheus/gannet.rules.test.yml",
    ] {
        let text = fs::read_to_string(root.join(file)).unwrap();
        let found = names(&text);
        assert!(found.len() > 5, "{file}: {found:?}");
        for name in found {
            let is_it = |(family, kind): (&String, &String)| {
                let suffixes = SUFFIXES.iter().find(|(of, _)| of == kind).unwrap().1;
                let rest = name.strip_prefix(family.as_str());
                rest.is_some_and(|rest| suffixes.contains(&rest))
            };
            assert!(families.iter().any(is_it), "{file}: no server has {name}");
        }
    }
    let guide = fs::read_to_string(root.join("docs/operating.md")).unwrap();
    let (_, guide) = guide.split_once("## The numbers\n").unwrap();
    let rows = guide.lines().filter(|line| line.starts_with("| `gannet_"));
    // The first column has the names of families; text for Prometheus adds to them.
    let columns: String = rows.map(|row| row.split('|').nth(1).unwrap()).collect();
    let named = names(&columns);
    assert!(named.len() > 15, "{named:?}");
    for name in named {
        if is_left_out() && name.starts_with("gannet_mount_") {
            continue;
        }
        assert!(
            families.contains_key(name),
            "docs/operating.md: no server has {name}"
        );
    }
}
