//! Values of log lines: words and numbers for an operator, and no structures of Rust.

use super::Finding;
use super::source::Source;

/// Finds values of `tracing` macros that print by `Debug` (`?value`), tests apart.
pub(super) fn check(source: &Source, findings: &mut Vec<Finding>) {
    for start in source.find_word("tracing") {
        if source.is_test(start) {
            continue;
        }
        let Some(arguments) = arguments(&source.code, start) else {
            continue;
        };
        for at in debug_values(arguments.text) {
            let line = source.line_of(arguments.start + at);
            let what = "a log line prints a value by `Debug`: give it a `Display` with plain words";
            findings.push(Finding::new(&source.file, line, what));
        }
    }
}

/// The text between the parentheses of a macro, and its place in the code.
struct Arguments<'a> {
    start: usize,
    text: &'a [u8],
}

/// The arguments of the macro whose path starts with `tracing` at `at`; `None` for another use of the crate.
fn arguments(code: &[u8], at: usize) -> Option<Arguments<'_>> {
    let path = code.get(at..)?.strip_prefix(b"tracing::")?;
    let name = path.iter().position(|byte| !byte.is_ascii_lowercase())?;
    let open = path.get(name..)?.strip_prefix(b"!(")?;
    let start = code.len() - open.len();
    let mut depth = 1;
    for (position, byte) in open.iter().enumerate() {
        match byte {
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            let text = open.get(..position)?;
            return Some(Arguments { start, text });
        }
    }
    None
}

/// The places of question marks that begin a value. Those of the operator `?` come behind one.
fn debug_values(arguments: &[u8]) -> impl Iterator<Item = usize> {
    let begins = |at: usize| {
        let before = arguments.get(..at).unwrap_or_default();
        let last = before.iter().rev().find(|byte| !byte.is_ascii_whitespace());
        matches!(last, None | Some(b',' | b'='))
    };
    let marks = arguments.iter().enumerate();
    let marks = marks.filter(|(_, byte)| **byte == b'?');
    marks.map(|(at, _)| at).filter(move |at| begins(*at))
}
