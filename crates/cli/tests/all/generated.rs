//! The committed man pages and completions are those of the command line's definition.

#![allow(clippy::unwrap_used)]

use crate::support;

#[test]
fn man_pages_and_completions_are_up_to_date() {
    support::succeed(&["generate", "all", env!("CARGO_MANIFEST_DIR"), "--check"]);
    assert!(support::succeed(&["generate", "completions", "bash"]).contains("gannet"));
}
