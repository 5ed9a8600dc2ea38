//! Parameters of functions: each has a name of its own, or is a field of a struct.

use super::Finding;
use super::source::{Source, is_identifier};

/// Finds parameters that are tuples, tests apart: a caller tells the parts apart by their order alone.
pub(super) fn check(source: &Source, findings: &mut Vec<Finding>) {
    for start in source.find_word("fn") {
        if source.is_test(start) {
            continue;
        }
        let Some(list) = parameter_list(&source.code, start + 2) else {
            continue;
        };
        for parameter in split(list) {
            if is_tuple(parameter) {
                let text = String::from_utf8_lossy(parameter);
                let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
                let what = format!("parameter `{text}` is a tuple: name its parts");
                let line = source.line_of(start);
                findings.push(Finding::new(&source.file, line, what));
            }
        }
    }
}

/// The text between the parentheses of the function whose `fn` ends at `at`; `None` for a type (`fn(u8)`).
fn parameter_list(code: &[u8], at: usize) -> Option<&[u8]> {
    let rest = code.get(at..)?;
    let name = rest.iter().position(|byte| !byte.is_ascii_whitespace())?;
    let rest = rest.get(name..)?;
    let behind = rest.iter().position(|byte| !is_identifier(*byte))?;
    if behind == 0 {
        return None;
    }
    let rest = rest.get(behind..)?;
    let open = match rest.first()? {
        b'<' => ends(rest).find(|end| end.depth == 0)?.position + 1,
        _ => 0,
    };
    let list = rest.get(open..).filter(|list| list.starts_with(b"("))?;
    let close = ends(list).find(|end| end.depth == 0)?.position;
    list.get(1..close)
}

/// The parameters of a list: its commas outside of brackets end them.
fn split(list: &[u8]) -> Vec<&[u8]> {
    let mut starts = vec![0];
    starts.extend(outside(list, b',').map(|comma| comma + 1));
    let ends = starts.iter().skip(1).map(|start| start - 1);
    let ends: Vec<_> = ends.chain([list.len()]).collect();
    let parameters = starts.iter().zip(ends);
    parameters
        .filter_map(|(start, end)| list.get(*start..end))
        .map(<[u8]>::trim_ascii)
        .collect()
}

/// Whether the pattern or the type of a parameter is a tuple.
fn is_tuple(parameter: &[u8]) -> bool {
    let is_path = |at: usize| {
        parameter.get(at + 1) == Some(&b':') || at > 0 && parameter.get(at - 1) == Some(&b':')
    };
    let Some(colon) = outside(parameter, b':').find(|at| !is_path(*at)) else {
        return false;
    };
    let (pattern, rest) = parameter.split_at(colon);
    let mut kind = rest.get(1..).unwrap_or_default().trim_ascii();
    if let Some(referent) = kind.strip_prefix(b"&") {
        kind = referent.trim_ascii();
        if kind.starts_with(b"'") {
            let behind = kind.iter().position(|byte| byte.is_ascii_whitespace());
            kind = kind.get(behind.unwrap_or(0)..).unwrap_or_default();
        }
        kind = kind.trim_ascii();
        kind = kind.strip_prefix(b"mut ").unwrap_or(kind).trim_ascii();
    }
    let is_pair = |text: &[u8]| {
        let inside = text.strip_prefix(b"(").and_then(|it| it.strip_suffix(b")"));
        inside.is_some_and(|it| outside(it, b',').next().is_some())
    };
    is_pair(pattern.trim_ascii()) || is_pair(kind)
}

/// The positions of `wanted` outside of all brackets.
fn outside(text: &[u8], wanted: u8) -> impl Iterator<Item = usize> + '_ {
    let mut depth = 0;
    text.iter().enumerate().filter_map(move |(position, byte)| {
        depth += step(text, position);
        (*byte == wanted && depth == 0).then_some(position)
    })
}

/// A closing bracket, and the number of brackets that are still open behind it.
struct End {
    position: usize,
    depth: i32,
}

fn ends(text: &[u8]) -> impl Iterator<Item = End> + '_ {
    let mut depth = 0;
    (0..text.len()).filter_map(move |position| {
        let change = step(text, position);
        depth += change;
        (change < 0).then_some(End { position, depth })
    })
}

/// The change of depth by the byte at `position`. The `>` of `->` and `=>` closes nothing.
fn step(text: &[u8], position: usize) -> i32 {
    let before = position.checked_sub(1).and_then(|at| text.get(at));
    match text.get(position) {
        Some(b'(' | b'[' | b'{' | b'<') => 1,
        Some(b'>') if matches!(before, Some(b'-' | b'=')) => 0,
        Some(b')' | b']' | b'}' | b'>') => -1,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn lines(text: &str) -> Vec<usize> {
        let mut findings = Vec::new();
        let source = Source::new(Path::new("crates/rpc/src/x.rs"), text.to_owned());
        check(&source, &mut findings);
        findings.iter().map(|finding| finding.line).collect()
    }

    #[test]
    fn tuples_are_found_in_patterns_and_in_types() {
        let text = "fn a((x, y): (u8, u8)) {}\nfn b<T: Fn(u8) -> u8>(t: T, p: &'a mut (u8, T)) {}\n\
                    fn c(\n    p: Pair,\n    (q, r): Pair,\n) {}\n";
        assert_eq!(lines(text), [1, 2, 3]);
    }

    #[test]
    fn tuples_elsewhere_are_none() {
        let text = "fn a(x: u8, f: impl Fn(u8, u8) -> (u8, u8), g: &(dyn Fn() + 'a)) -> (u8, u8) {}\n\
                    fn b(list: &[(u8, u8)], unit: (), f: fn((u8, u8))) {}\n\
                    fn c(x: std::io::Result<(u8, u8)>, y: Vec<(u8, u8)>) {}\n\
                    #[cfg(test)]\nmod tests { fn d((x, y): (u8, u8)) {} }\n";
        assert_eq!(lines(text), Vec::<usize>::new());
    }
}
