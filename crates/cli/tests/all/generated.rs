//! Man pages and completions come out of the command line's definition, whole.

#![allow(clippy::unwrap_used)]

use crate::support;
use std::fs;
use std::process::Command;

#[test]
fn every_command_has_a_man_page_and_shells_take_their_scripts() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path().to_str().unwrap();
    support::succeed(&["generate", "all", folder]);
    let help = support::succeed(&["--help"]);
    let commands = help.split_once("Commands:").unwrap().1.lines();
    let commands = commands.skip(1).take_while(|line| !line.is_empty());
    let names = commands.filter_map(|line| line.strip_prefix("  ")?.split(' ').next());
    // The page of `help` would say what the others say.
    let names = names.filter(|name| !matches!(*name, "" | "help"));
    let names: Vec<&str> = names.collect();
    assert!(names.contains(&"serve") && names.len() > 10, "{names:?}");
    for name in names {
        let page = place.path().join(format!("man/gannet-{name}.1"));
        let page = fs::read_to_string(page).unwrap();
        assert!(page.contains(".SH DESCRIPTION"), "{name}: {page}");
    }
    let helper = fs::read_to_string(place.path().join("man/mount.gannet.8")).unwrap();
    assert!(helper.contains(".TH mount.gannet 8"), "{helper}");
    let script = place.path().join("completions/gannet.bash");
    let checked = Command::new("bash").arg("-n").arg(&script).status();
    assert!(checked.unwrap().success());
    let printed = support::succeed(&["generate", "completions", "bash"]);
    assert_eq!(printed, fs::read_to_string(script).unwrap());
}
