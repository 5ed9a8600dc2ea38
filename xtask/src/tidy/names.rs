//! One public type of a name in a crate, so that the name identifies it.

use super::Finding;
use super::source::Source;
use std::collections::HashMap;
use std::path::PathBuf;

const KINDS: [&str; 5] = ["struct ", "enum ", "trait ", "type ", "union "];

/// The public types of the crates looked at so far.
#[derive(Default)]
pub(super) struct Names {
    /// Where each is defined first, by crate and name.
    known: HashMap<(String, String), PathBuf>,
}

impl Names {
    /// Takes down the public types of a file, and finds those that its crate has already.
    pub(super) fn check(&mut self, source: &Source, findings: &mut Vec<Finding>) {
        let mut parts = source.file.components().map(|part| part.as_os_str());
        let (Some(above), Some(name), Some(folder)) = (parts.next(), parts.next(), parts.next())
        else {
            return;
        };
        if above != "crates" || folder != "src" {
            return;
        }
        let krate = name.to_string_lossy().into_owned();
        for at in source.find_word("pub") {
            if source.is_test(at) {
                continue;
            }
            let Some(defined) = defined_at(source, at) else {
                continue;
            };
            let place = (krate.clone(), defined.clone());
            match self.known.get(&place) {
                None => {
                    self.known.insert(place, source.file.clone());
                }
                Some(first) => {
                    let what = format!(
                        "the public type `{defined}` is in {} already: give it a name of its own",
                        first.display()
                    );
                    findings.push(Finding::new(&source.file, source.line_of(at), what));
                }
            }
        }
    }
}

/// The type that is defined behind the `pub` at this byte, if one is at the start of an item.
fn defined_at(source: &Source, at: usize) -> Option<String> {
    let line_start = source.code.get(..at)?;
    let before = line_start.rsplit(|byte| *byte == b'\n').next()?;
    if !before.iter().all(|byte| *byte == b' ') {
        return None;
    }
    let rest = std::str::from_utf8(source.code.get(at..)?).ok()?;
    let rest = rest.strip_prefix("pub ")?;
    // A type within an implementation is its trait's.
    let rest = KINDS.iter().find_map(|kind| rest.strip_prefix(kind))?;
    let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_')?;
    // A type of a macro has its name from the macro's caller.
    rest.get(..end)
        .filter(|name| !name.is_empty())
        .map(String::from)
}
