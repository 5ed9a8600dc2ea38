//! The table "Who sees what, and when" of docs/mounting.md. The script that tries its cells is the kernel lab's, which
//! compares the same cells with Linux's own client.

use super::consistency::Faces;
use super::support::Place;
use super::support::mount::is_left_out;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};

/// The script; its expectations lie beside it.
const SCRIPT: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../kernel-lab/scenarios/sight.py"
);

/// Runs the script on a directory as two hosts see it, with the expectations of a kind of file system. `None` where
/// Python is missing.
fn tried(kind: &str, here: &Path, elsewhere: &Path) -> Option<Output> {
    let mut python = Command::new("python3");
    python.args(["-S", SCRIPT, "--expect", kind]);
    let output = python.arg(here).arg(elsewhere).output();
    if output.is_err() {
        gannet_testing::left_out("it needs python3");
    }
    output.ok()
}

/// Fails with the wrong cells.
fn check(kind: &str, here: &Path, elsewhere: &Path) {
    let Some(output) = tried(kind, here, elsewhere) else {
        return;
    };
    let (said, error) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    assert!(
        output.status.success(),
        "{kind} at {here:?}:\n{said}{error}"
    );
}

#[test]
fn a_local_file_system_shows_changes_as_the_table_says() {
    let place = Place::new();
    fs::set_permissions(place.path(""), Permissions::from_mode(0o755)).unwrap();
    check("local", &place.path(""), &place.path(""));
}

/// The cells of a local file system are not those of a mount: what the test above compares can differ.
#[test]
fn a_wrong_cell_is_named_with_what_was_expected_and_seen() {
    let place = Place::new();
    fs::set_permissions(place.path(""), Permissions::from_mode(0o755)).unwrap();
    let Some(output) = tried("nfs", &place.path(""), &place.path("")) else {
        return;
    };
    let said = String::from_utf8_lossy(&output.stdout);
    let wrong = "wrong: replace, seen by host, on nfs: expected ESTALE, saw the old";
    assert!(said.contains(wrong), "{said}");
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn mounts_of_two_hosts_show_changes_as_the_table_says() {
    if is_left_out() {
        return;
    }
    Faces::new().with_each(|hosts| {
        let kind = match (hosts.is_volume, hosts.is_direct) {
            (false, false) => "nfs",
            (false, true) => "nfs-direct",
            (true, false) => "volume",
            (true, true) => "volume-direct",
        };
        let (one, other) = (hosts.one.path(""), hosts.other.path(""));
        std::thread::scope(|scope| {
            // An export is mounted over RDMA here and over TCP there, so changes travel both ways.
            scope.spawn(|| check(kind, &one, &other));
            scope.spawn(|| check(kind, &other, &one));
        });
    });
}
