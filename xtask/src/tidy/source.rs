//! A Rust file with its comments and literals blanked out, so that a search sees code alone.

use std::ops::Range;
use std::path::{Path, PathBuf};

/// One Rust file.
pub(crate) struct Source {
    /// Its path from the root of the workspace.
    pub(crate) file: PathBuf,
    /// As it is on disk.
    pub(crate) text: String,
    /// Comments and literals replaced by spaces; byte positions and line ends are those of `text`.
    pub(crate) code: Vec<u8>,
    line_starts: Vec<usize>,
    tests: Vec<Range<usize>>,
}

impl Source {
    /// Scans `text`.
    pub(crate) fn new(file: &Path, text: String) -> Source {
        let code = blank(text.as_bytes());
        let line_starts = std::iter::once(0)
            .chain(memchr_all(b'\n', text.as_bytes()).map(|position| position + 1))
            .collect();
        let tests = test_items(&code);
        Source {
            file: file.to_path_buf(),
            text,
            code,
            line_starts,
            tests,
        }
    }

    /// Line of a byte position, from 1.
    pub(crate) fn line_of(&self, position: usize) -> usize {
        self.line_starts.partition_point(|start| *start <= position)
    }

    /// True for files that exist only for tests, benches and examples.
    pub(crate) fn is_test_file(&self) -> bool {
        let folder = |name: &str| self.file.components().any(|part| part.as_os_str() == name);
        folder("tests")
            || folder("benches")
            || folder("examples")
            || self.file.file_stem().is_some_and(|stem| stem == "tests")
    }

    /// True when a byte position lies in an item under `#[cfg(test)]`.
    pub(crate) fn is_test(&self, position: usize) -> bool {
        self.is_test_file() || self.tests.iter().any(|range| range.contains(&position))
    }

    /// Lines that are not tests.
    pub(crate) fn production_lines(&self) -> usize {
        let tests: usize = self
            .tests
            .iter()
            .map(|range| self.line_of(range.end) - self.line_of(range.start) + 1)
            .sum();
        self.text.lines().count().saturating_sub(tests)
    }

    /// Byte positions where `word` stands in the code as a path or identifier of its own.
    pub(crate) fn find_word<'a>(&'a self, word: &'a str) -> impl Iterator<Item = usize> + 'a {
        let needle = word.as_bytes();
        (0..self.code.len().saturating_sub(needle.len())).filter(move |&at| {
            let end = at + needle.len();
            self.code[at..end] == *needle
                && !at
                    .checked_sub(1)
                    .is_some_and(|before| is_identifier(self.code[before]))
                && !(needle.last().copied().is_some_and(is_identifier)
                    && self.code.get(end).copied().is_some_and(is_identifier))
        })
    }
}

/// Part of an identifier.
pub(crate) fn is_identifier(byte: u8) -> bool {
    byte == b'_' || byte.is_ascii_alphanumeric()
}

/// The position just after the brace that closes the one at `open`; the end of the code when none does.
pub(crate) fn closing(code: &[u8], open: usize) -> usize {
    let mut depth = 0usize;
    for (position, byte) in code.iter().enumerate().skip(open) {
        match byte {
            b'{' => depth += 1,
            b'}' => {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    return position + 1;
                }
            }
            _ => {}
        }
    }
    code.len()
}

/// The first brace or semicolon at or after `from` that is not inside brackets: where an item's head ends.
pub(crate) fn head_end(code: &[u8], from: usize) -> Option<usize> {
    let mut depth = 0i32;
    for (position, byte) in code.iter().enumerate().skip(from) {
        match byte {
            b'(' | b'[' => depth += 1,
            b')' | b']' => depth -= 1,
            b'{' | b';' if depth <= 0 => return Some(position),
            _ => {}
        }
    }
    None
}

fn memchr_all(byte: u8, text: &[u8]) -> impl Iterator<Item = usize> + '_ {
    text.iter()
        .enumerate()
        .filter(move |(_, found)| **found == byte)
        .map(|(position, _)| position)
}

/// The items that follow `#[cfg(test)]`.
fn test_items(code: &[u8]) -> Vec<Range<usize>> {
    const MARK: &[u8] = b"#[cfg(test)]";
    let mut items = Vec::new();
    let mut from = 0;
    while let Some(found) = code
        .get(from..)
        .and_then(|rest| rest.windows(MARK.len()).position(|window| window == MARK))
    {
        let start = from + found;
        let head = head_end(code, start + MARK.len());
        let end = match head {
            Some(open) if code[open] == b'{' => closing(code, open),
            Some(semicolon) => semicolon + 1,
            None => code.len(),
        };
        items.push(start..end.min(code.len().saturating_sub(1)).max(start));
        from = end.max(start + MARK.len());
    }
    items
}

/// Replaces comments, strings and character literals by spaces, keeping line ends and byte positions.
fn blank(text: &[u8]) -> Vec<u8> {
    let mut code = text.to_vec();
    let mut at = 0;
    while at < text.len() {
        let end = literal_end(text, at);
        if end > at {
            for byte in &mut code[at..end.min(text.len())] {
                if *byte != b'\n' {
                    *byte = b' ';
                }
            }
            at = end;
        } else {
            at += 1;
        }
    }
    code
}

/// Where the comment or literal that starts at `at` ends; `at` when none does.
fn literal_end(text: &[u8], at: usize) -> usize {
    let rest = &text[at..];
    let after_identifier = at
        .checked_sub(1)
        .is_some_and(|before| is_identifier(text[before]));
    match rest {
        [b'/', b'/', ..] => {
            at + rest
                .iter()
                .position(|byte| *byte == b'\n')
                .unwrap_or(rest.len())
        }
        [b'/', b'*', ..] => at + block_comment_len(rest),
        [b'"', ..] => at + string_len(rest),
        [b'r', b'"' | b'#', ..] if !after_identifier => at + raw_string_len(rest),
        [b'b' | b'c', b'r', b'"' | b'#', ..] if !after_identifier => {
            let len = raw_string_len(&rest[1..]);
            if len == 0 { at } else { at + 1 + len }
        }
        [b'\'', b'\\', ..] => {
            // An escape: the closing quote is the first one after the escaped character.
            let close = rest.iter().skip(3).position(|byte| *byte == b'\'');
            at + close.map_or(rest.len(), |close| close + 4)
        }
        [b'\'', ..] => at + character_len(rest),
        _ => at,
    }
}

fn block_comment_len(rest: &[u8]) -> usize {
    let mut depth = 0usize;
    let mut at = 0;
    while at < rest.len() {
        match &rest[at..] {
            [b'/', b'*', ..] => {
                depth += 1;
                at += 2;
            }
            [b'*', b'/', ..] => {
                depth -= 1;
                at += 2;
                if depth == 0 {
                    return at;
                }
            }
            _ => at += 1,
        }
    }
    rest.len()
}

fn string_len(rest: &[u8]) -> usize {
    let mut at = 1;
    while at < rest.len() {
        match rest[at] {
            b'\\' => at += 2,
            b'"' => return at + 1,
            _ => at += 1,
        }
    }
    rest.len()
}

/// Length of a raw string at the start of `rest`; 0 when it is something else (a raw identifier).
fn raw_string_len(rest: &[u8]) -> usize {
    let hashes = rest[1..].iter().take_while(|byte| **byte == b'#').count();
    if rest.get(1 + hashes) != Some(&b'"') {
        return 0;
    }
    let mut close = vec![b'"'];
    close.resize(1 + hashes, b'#');
    let body = 2 + hashes;
    rest[body..]
        .windows(close.len())
        .position(|window| window == close)
        .map_or(rest.len(), |found| body + found + close.len())
}

/// Length of a character literal at the start of `rest`; 0 for a lifetime.
fn character_len(rest: &[u8]) -> usize {
    let width = match rest.get(1) {
        Some(0xf0..) => 4,
        Some(0xe0..) => 3,
        Some(0xc0..) => 2,
        _ => 1,
    };
    if rest.get(1 + width) == Some(&b'\'') {
        width + 2
    } else {
        0
    }
}
