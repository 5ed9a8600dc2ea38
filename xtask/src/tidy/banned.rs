//! Calls that break the determinism of the simulator, memory safety, or a reader's trust.

use super::Finding;
use super::source::Source;
use std::path::Path;

/// One ban: what may not stand in the code, where it may nevertheless, and what to use.
struct Ban {
    word: &'static str,
    /// Path prefixes of the exceptions.
    allowed: &'static [&'static str],
    instead: &'static str,
}

/// The plug of the runtime seam, the binary and the developer's tools run outside the simulator, and so does the thread
/// that speaks with PostgreSQL.
const OUTSIDE: &[&str] = &[
    "crates/engines/src/postgresql/",
    "crates/runtime/src/tokio_plug/",
    "crates/gannet/",
    "crates/capi/",
    "crates/cli/",
    "crates/lab/src/bench/",
    "xtask/",
    "fuzz/",
];
/// As [`OUTSIDE`], with the store, whose business are files, the mount front end where it asks the kernel about
/// processes and mounts, the files of the metadata's journal and of a copy of a store, and the command lines of
/// simulations.
const FILES: &[&str] = &[
    "crates/runtime/src/tokio_plug/",
    "crates/gannet/",
    "crates/capi/",
    "crates/cli/",
    "crates/lab/src/bench/",
    "crates/localfs/src/",
    "crates/fuse/src/callers.rs",
    "crates/fuse/src/session.rs",
    "crates/meta/src/journal/copy.rs",
    "crates/meta/src/journal/disk.rs",
    "crates/meta/src/redb_store/file.rs",
    "crates/meta/src/redb_store/reserve.rs",
    "crates/dst/src/main.rs",
    "crates/lab/src/papers/command.rs",
    "crates/testing/",
    "xtask/",
    "fuzz/",
];
/// The store of a directory is the real world behind the vfs seam: file times, threads and their identities are its
/// business. The mount front end has the kernel's file times, and a thread that reads its device. An engine of another
/// program is waited for by threads that do nothing else. A study of a paper simulates worlds side by side.
const CLOCKS: &[&str] = &[
    "crates/lab/src/papers/study.rs",
    "crates/engines/src/",
    "crates/fuse/src/",
    "crates/runtime/src/tokio_plug/",
    "crates/localfs/src/",
    "crates/gannet/",
    "crates/cli/",
    "crates/lab/src/bench/",
    "crates/dst/src/main.rs",
    "crates/verbs/src/sys/manager.rs",
    "crates/testing/",
    "xtask/",
    "fuzz/",
];
/// System calls of the store, what the allocator is asked for, windows onto files, pointers of C, and rdma-core.
const UNSAFE: &[&str] = &[
    "fuzz/src/memory.rs",
    "crates/capi/src/",
    "crates/localfs/src/sys.rs",
    "crates/runtime/src/tokio_plug/descriptor.rs",
    "crates/runtime/src/tokio_plug/memory.rs",
    "crates/runtime/src/windows.rs",
    "crates/verbs/src/sys/",
];

const BANS: &[Ban] = &[
    ban(
        "std::time::Instant",
        CLOCKS,
        "runtime::Instant and the runtime's `now`",
    ),
    ban(
        "std::time::SystemTime",
        CLOCKS,
        "the runtime's `wall_clock`",
    ),
    ban("std::net::TcpStream", OUTSIDE, "the runtime's `connect`"),
    ban("std::net::TcpListener", OUTSIDE, "the runtime's `listen`"),
    ban("std::net::UdpSocket", OUTSIDE, "a seam"),
    ban("std::fs", FILES, "the vfs seam"),
    ban(
        "std::thread",
        CLOCKS,
        "the runtime's `spawn` or `submit_blocking`",
    ),
    ban("rand", OUTSIDE, "the runtime's `random`"),
    ban("getrandom", OUTSIDE, "the runtime's `random`"),
    ban("tokio::net", OUTSIDE, "the runtime seam"),
    ban("tokio::time", OUTSIDE, "the runtime seam"),
    ban("tokio::task", OUTSIDE, "the runtime seam"),
    ban("tokio::runtime", OUTSIDE, "the runtime seam"),
    ban("tokio::spawn", OUTSIDE, "the runtime seam"),
    ban("tokio::io", OUTSIDE, "the runtime seam"),
    ban("tokio::fs", OUTSIDE, "the vfs seam"),
    ban(
        "tokio::select",
        OUTSIDE,
        "a poll function, which the simulator can replay",
    ),
    ban("unsafe", UNSAFE, "a crate with a safe interface"),
    ban("static mut", &[], "state owned by a value"),
    ban("transmute", &[], "explicit conversion"),
];

const fn ban(word: &'static str, allowed: &'static [&'static str], instead: &'static str) -> Ban {
    Ban {
        word,
        allowed,
        instead,
    }
}

pub(super) fn check(source: &Source, findings: &mut Vec<Finding>) {
    let uses = imports(source);
    for ban in BANS {
        if ban
            .allowed
            .iter()
            .any(|prefix| source.file.starts_with_text(prefix))
        {
            continue;
        }
        let spelled = source
            .find_word(ban.word)
            .filter(|at| is_path_start(source, *at, ban.word));
        let imported = uses
            .iter()
            .filter(|(_, path)| is_below(path, ban.word))
            .map(|(at, _)| *at);
        let mut lines: Vec<usize> = spelled
            .chain(imported)
            .filter(|at| !source.is_test(*at))
            .map(|at| source.line_of(at))
            .collect();
        lines.sort_unstable();
        lines.dedup();
        for line in lines {
            let what = format!("`{}` is banned here: use {}", ban.word, ban.instead);
            findings.push(Finding::new(&source.file, line, what));
        }
    }
    check_promises(&source.file, &source.text, findings);
}

/// Marks of unfinished work, in code and in comments.
pub(super) fn check_promises(file: &Path, text: &str, findings: &mut Vec<Finding>) {
    // Spelled in two parts, so that this file does not find itself.
    let marks = [
        concat!("TO", "DO"),
        concat!("FIX", "ME"),
        concat!("X", "XX"),
        concat!("unimple", "mented!"),
        concat!("to", "do!"),
    ];
    for (index, line) in text.lines().enumerate() {
        for mark in marks {
            let found = line
                .split(mark)
                .next()
                .filter(|before| before.len() < line.len());
            if found.is_some_and(|before| !before.ends_with(|end: char| end.is_alphanumeric())) {
                let what = format!("`{mark}`: finish it, or write down where users can see it");
                findings.push(Finding::new(file, index + 1, what));
            }
        }
    }
}

/// Rust paths compare as text here: they start at the workspace's root and use `/`.
trait StartsWithText {
    fn starts_with_text(&self, prefix: &str) -> bool;
}

impl StartsWithText for Path {
    fn starts_with_text(&self, prefix: &str) -> bool {
        self.to_str().is_some_and(|path| path.starts_with(prefix))
    }
}

/// False where a one-word crate name (`rand`) is a field, a method or part of another path.
fn is_path_start(source: &Source, at: usize, word: &str) -> bool {
    if word.contains("::") || word.contains(' ') || matches!(word, "unsafe" | "transmute") {
        return true;
    }
    let after = source.code.get(at + word.len()..at + word.len() + 2);
    let before = source.code[..at]
        .iter()
        .rev()
        .find(|byte| !byte.is_ascii_whitespace());
    after == Some(b"::") && !matches!(before, Some(b'.' | b':'))
}

fn is_below(path: &str, word: &str) -> bool {
    path.strip_prefix(word)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
}

/// Every path that a `use` brings in, groups expanded, with the position of the `use`.
fn imports(source: &Source) -> Vec<(usize, String)> {
    let mut imports = Vec::new();
    for at in source.find_word("use") {
        let body = source.code[at + 3..]
            .split(|byte| *byte == b';')
            .next()
            .unwrap_or_default();
        let text: String = String::from_utf8_lossy(body)
            .chars()
            .filter(|character| !character.is_whitespace())
            .collect();
        let mut paths = Vec::new();
        expand("", &text, &mut paths);
        imports.extend(paths.into_iter().map(|path| (at, path)));
    }
    imports
}

/// Expands `a::{b, c::{d, e}}` below `prefix`.
fn expand(prefix: &str, tree: &str, paths: &mut Vec<String>) {
    let Some((head, group)) = tree.split_once('{') else {
        paths.push(format!("{prefix}{tree}"));
        return;
    };
    let group = group.strip_suffix('}').unwrap_or(group);
    let prefix = format!("{prefix}{head}");
    let mut depth = 0;
    let mut start = 0;
    for (at, character) in group.char_indices() {
        match character {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                expand(&prefix, &group[start..at], paths);
                start = at + 1;
            }
            _ => {}
        }
    }
    if start < group.len() {
        expand(&prefix, &group[start..], paths);
    }
}
