//! The example of the README is the one that the crate's documentation runs.

use std::fs;
use std::path::Path;

/// The lines of the first example in Rust, without those that are hidden.
fn example<'a>(text: &'a str, fence: &str) -> Vec<&'a str> {
    let after = text.split_once(fence).unwrap().1;
    let example = after.split_once("```").unwrap().0;
    let lines = example
        .lines()
        .map(|line| line.trim_start_matches("//!").trim());
    lines
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .collect()
}

#[test]
fn the_readme_shows_what_the_documentation_runs() {
    let place = Path::new(env!("CARGO_MANIFEST_DIR"));
    let readme = fs::read_to_string(place.join("../../README.md")).unwrap();
    let documented = fs::read_to_string(place.join("src/lib.rs")).unwrap();
    let shown = example(&readme, "```rust\n");
    assert_eq!(shown, example(&documented, "//! ```\n"));
    assert!(shown.len() > 3, "{shown:?}");
}
