//! A correct line for each fault of a configuration file, out of the example that the package installs.

use crate::generate::EXAMPLE;

/// A line of the example, without its comment.
struct Line {
    /// The name of its section: `listen`, `server`, `export` or `export.rule`.
    section: &'static str,
    /// Its key; none for the header of the section.
    key: Option<&'static str>,
    text: &'static str,
}

/// The lines of the example, headers and keys.
fn lines() -> impl Iterator<Item = Line> {
    let mut section = "";
    EXAMPLE.lines().filter_map(move |line| {
        // A key of volumes alone is a comment.
        let line = line.strip_prefix("# ").unwrap_or(line);
        let text = line.split(" #").next().unwrap_or_default().trim_end();
        if let Some(header) = header(text) {
            section = header;
        }
        let key = text.split_once(" = ").map(|(key, _)| key);
        (!text.is_empty()).then_some(Line { section, key, text })
    })
}

/// The name in the header of a section, which may be unfinished.
fn header(line: &str) -> Option<&str> {
    let name = line.trim().strip_prefix('[')?;
    let name = name.strip_prefix('[').unwrap_or(name);
    Some(name.split([']', '#']).next().unwrap_or_default().trim())
}

/// The example's line for a key of a section; if the key is unknown, for the key that is most like it.
pub(super) fn of_key(section: &str, key: &str) -> &'static str {
    let keys = lines().filter(|line| line.section == section);
    let keys = keys.filter_map(|line| Some((line.key?, line.text)));
    most_like(key, keys).unwrap_or("[[export]]")
}

/// The example's line for the fault in the line of a file with this number, counted from 1.
pub(super) fn of_line(file: &str, number: usize) -> &'static str {
    let above = file.lines().take(number);
    let Some(line) = above.clone().last() else {
        return "[[export]]";
    };
    let section = above.filter_map(header).last().unwrap_or_default();
    let headers = || lines().filter(|line| line.key.is_none());
    let is_known = headers().any(|line| line.section == section);
    match (header(line), is_known) {
        // A key is missing below the header, and the first one is the most needed.
        (Some(_), true) if headers().any(|it| it.text == line.trim()) => of_key(section, ""),
        (Some(_), _) | (None, false) => {
            let headers = headers().map(|line| (line.section, line.text));
            most_like(section, headers).unwrap_or("[[export]]")
        }
        (None, true) => {
            let key = line.split('=').next().unwrap_or_default();
            of_key(section, key.trim())
        }
    }
}

/// The text beside the name that has the most letters of `wanted` in its order; the first of several.
fn most_like(
    wanted: &str,
    named: impl Iterator<Item = (&'static str, &'static str)>,
) -> Option<&'static str> {
    let mut best: Option<(usize, &'static str)> = None;
    for (name, text) in named {
        let distance = distance(wanted, name);
        if best.is_none_or(|(least, _)| distance < least) {
            best = Some((distance, text));
        }
    }
    best.map(|(_, text)| text)
}

/// The letters to insert, remove or replace to make `other` of `one`. An empty `one` is as far from every other.
fn distance(one: &str, other: &str) -> usize {
    if one.is_empty() {
        return 0;
    }
    let mut row: Vec<usize> = (0..=other.chars().count()).collect();
    for (line, letter) in one.chars().enumerate() {
        let mut diagonal = line;
        let mut left = line + 1;
        for (cell, wanted) in row.iter_mut().skip(1).zip(other.chars()) {
            let replaced = diagonal + usize::from(letter != wanted);
            diagonal = *cell;
            left = replaced.min(*cell + 1).min(left + 1);
            *cell = left;
        }
        if let Some(first) = row.first_mut() {
            *first = line + 1;
        }
    }
    row.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_count_the_letters_that_differ() {
        for (one, other, letters) in [
            ("path", "path", 0),
            ("pth", "path", 1),
            ("squash", "secure", 5),
            ("", "path", 0),
            ("nfstcp", "nfs_tcp", 1),
        ] {
            assert_eq!(distance(one, other), letters, "{one} {other}");
        }
    }

    #[test]
    fn the_nearest_line_of_the_same_section_is_the_example() {
        for (file, number, expected) in [
            ("[server]\ncors = 2\n", 2, "cores = 2"),
            ("[listen]\nnative = 5\n", 2, "native = \"0.0.0.0:20050\""),
            ("[[export]]\nclients = 1\n", 2, "clients = [\"10.0.0.0/8\"]"),
            (
                "[[export.rule]]\nclients = 1\n",
                2,
                "clients = [\"10.1.0.0/16\"]",
            ),
            ("[serve]\ncores = 2\n", 1, "[server]"),
            ("[[export]]\n", 1, "path = \"/srv/projects\""),
            ("[[export]\n", 1, "[[export]]"),
            ("cores = 2\n", 1, "[listen]"),
            ("", 1, "[[export]]"),
        ] {
            assert_eq!(of_line(file, number), expected, "{file:?}");
        }
    }
}
