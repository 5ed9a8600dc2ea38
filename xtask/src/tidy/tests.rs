//! The tree itself is tidy, and the checks find what they are for.

use super::names::Names;
use super::source::Source;
use super::{Finding, banned, check, documents, lengths, logs, manifests, packaging};
use std::path::Path;

fn lines_of(findings: &[Finding]) -> Vec<usize> {
    findings.iter().map(|finding| finding.line).collect()
}

fn banned_lines(file: &str, text: &str) -> Vec<usize> {
    let mut findings = Vec::new();
    banned::check(
        &Source::new(Path::new(file), text.to_owned()),
        &mut findings,
    );
    findings.sort();
    lines_of(&findings)
}

fn length_lines(text: &str) -> Vec<usize> {
    let mut findings = Vec::new();
    lengths::check(
        &Source::new(Path::new("crates/rpc/src/x.rs"), text.to_owned()),
        &mut findings,
    );
    lines_of(&findings)
}

#[test]
fn the_tree_is_tidy() {
    let findings = check(&crate::workspace_root()).unwrap();
    let text: Vec<String> = findings.iter().map(ToString::to_string).collect();
    assert!(text.is_empty(), "{}", text.join("\n"));
}

#[test]
fn a_log_line_prints_no_structure_of_rust() {
    let found = |text: &str| {
        let source = Source::new(Path::new("crates/rpc/src/a.rs"), text.to_owned());
        let mut findings = Vec::new();
        logs::check(&source, &mut findings);
        lines_of(&findings)
    };
    let bad = "fn f() {\n    tracing::warn!(?kind, \"no\");\n    tracing::debug!(\n        file,\n        kind = ?it.kind,\n        \"no\"\n    );\n}\n";
    assert_eq!(found(bad), [2, 5]);
    let good = "use tracing::Level;\nfn f() {\n    tracing::warn!(%kind, file = file(1)?, \"why ?kind\");\n}\n";
    assert_eq!(found(good), Vec::<usize>::new());
    let test = "#[cfg(test)]\nmod tests {\n    fn f() {\n        tracing::warn!(?kind, \"no\");\n    }\n}\n";
    assert_eq!(found(test), Vec::<usize>::new());
}

#[test]
fn a_public_type_has_a_name_of_its_own_in_its_crate() {
    let mut names = Names::default();
    let mut found = |file: &str, text: &str| {
        let mut findings = Vec::new();
        names.check(
            &Source::new(Path::new(file), text.to_owned()),
            &mut findings,
        );
        lines_of(&findings)
    };
    let text = "pub struct One;\npub(crate) enum Two {}\n// pub enum One {}\n#[cfg(test)]\nmod tests { pub struct One; }\n";
    assert_eq!(found("crates/rpc/src/a.rs", text), Vec::<usize>::new());
    assert_eq!(
        found(
            "crates/rpc/src/b.rs",
            "\npub enum One<T> {}\npub enum Two {}\n"
        ),
        [2]
    );
    assert_eq!(
        found("crates/nfs/src/b.rs", "pub enum One {}\n"),
        Vec::<usize>::new()
    );
}

#[test]
fn banned_calls_are_found_spelled_out_and_imported() {
    let text = "use std::{io, fs::{self, File}};\nfn f() { std::thread::sleep(d); }\nlet x = rand::random();\n";
    assert_eq!(banned_lines("crates/rpc/src/x.rs", text), [1, 2, 3]);
    assert_eq!(
        banned_lines("crates/cli/src/x.rs", text),
        Vec::<usize>::new()
    );
}

#[test]
fn comments_literals_and_tests_are_not_code() {
    let text = r##"
// std::fs is banned
const A: &str = "std::fs \" std::thread"; const B: &str = r#"unsafe " {"#; const C: char = '"'; fn l<'a>() {}
/* unsafe /* nested */ std::fs */
#[cfg(test)]
mod tests { use std::fs; }
"##;
    assert_eq!(
        banned_lines("crates/rpc/src/x.rs", text),
        Vec::<usize>::new()
    );
    let after = format!("{text}\nuse std::fs;\n");
    assert_eq!(banned_lines("crates/rpc/src/x.rs", &after), [8]);
}

#[test]
fn words_inside_other_words_are_not_banned() {
    let text = "let operand = self.rand; brand::x(); my_unsafe(); is_unsafe_now();\n";
    assert_eq!(
        banned_lines("crates/rpc/src/x.rs", text),
        Vec::<usize>::new()
    );
}

#[test]
fn promises_are_found_in_comments() {
    let text = format!("fn f() {{}} // {}: later\n", concat!("TO", "DO"));
    assert_eq!(banned_lines("crates/cli/src/x.rs", &text), [1]);
}

#[test]
fn long_functions_lines_and_files_are_found_and_tests_are_not() {
    let body = "    g();\n".repeat(70);
    let long = format!("fn f(a: [u8; 4]) {{\n{body}}}\n");
    assert_eq!(length_lines(&long), [1]);
    assert_eq!(
        length_lines(&format!("#[cfg(test)]\nmod tests {{\n{long}}}\n")),
        [0; 0]
    );
    assert_eq!(
        length_lines(&format!("let a = {};\n", "b".repeat(100))),
        [1]
    );
    assert_eq!(length_lines(&"\n".repeat(801)), [1]);
}

#[test]
fn documents_name_existing_commands_only() {
    let known = [
        String::from("serve"),
        String::from("bench"),
        String::from("bench tile"),
    ];
    let wrong = |command| documents::check_command(command, &known);
    assert_eq!(wrong("gannet serve /data --read-only"), None);
    assert_eq!(wrong("gannet bench tile --json"), None);
    assert_eq!(wrong("cargo run --release -- serve /data"), None);
    assert!(wrong("gannet server /data").is_some());
    assert!(wrong("cargo run --release -- server").is_some());
    assert!(wrong("cargo xtask tidyup").is_some());
    assert!(wrong("cargo frobnicate").is_some());
}

#[test]
fn a_decision_needs_a_row_in_the_index() {
    let index = "# Decisions\n\nSee [a note](0002-other.md).\n\n| [0001](0001-first.md) | a choice | in force |\n";
    let is_indexed = |name: &str| documents::is_indexed(Path::new(name), index);
    assert!(is_indexed("docs/decisions/0001-first.md"));
    // A link outside the table is no row.
    assert!(!is_indexed("docs/decisions/0002-other.md"));
    assert!(!is_indexed("docs/decisions/0003-third.md"));
}

#[test]
fn the_oldest_rust_is_the_one_that_compiles_every_change() {
    let check = |promised: &str, pinned: &str| {
        let workspace = format!("[workspace.package]\nrust-version = {promised:?}\n");
        let toolchain = format!("[toolchain]\nchannel = {pinned:?}\n");
        manifests::check_versions(&workspace.parse().unwrap(), &toolchain.parse().unwrap())
    };
    assert_eq!(check("1.95", "1.95.0"), None);
    assert_eq!(check("1.95.1", "1.95.1"), None);
    assert!(check("1.9", "1.95.0").is_some() && check("1.90", "1.95.0").is_some());
    assert!(check("", "1.95.0").is_some());
}

#[test]
fn a_crate_that_can_be_published_says_what_registries_show() {
    let missing = |text: &str| manifests::missing_keys(&text.parse().unwrap()).collect::<Vec<_>>();
    let own = "[package]\ndescription = \"it\"\nlicense.workspace = true\nrepository = \"r\"\n";
    let version = "rust-version.workspace = true\n";
    assert_eq!(
        missing(&format!("{own}{version}publish = false\n")),
        [""; 0]
    );
    assert_eq!(
        missing(&format!("{own}publish = false\n")),
        ["rust-version"]
    );
    let published = missing(&format!("{own}{version}"));
    assert_eq!(published, ["readme", "keywords", "categories"]);
}

#[test]
fn the_commands_are_those_of_the_definition() {
    let variants = "    /// Copies (it).\n    #[command(hide = true)]\n    Cp(CpOptions),\n    Ls(LsOptions),\n}\nfn f(\n    No(i)";
    assert_eq!(documents::commands_of(variants), ["cp", "ls"]);
}

#[test]
fn what_a_container_copies_out_of_the_tree_is_found() {
    let text = "FROM a\nCOPY --chown=1 b c/d /e/\nCOPY --from=a f g\nRUN COPY\n";
    assert_eq!(packaging::copied(text), [(2, "b"), (2, "c/d")]);
}

#[test]
fn a_packaged_default_that_serves_everybody_is_found() {
    let text =
        "# --allow 0.0.0.0/0\nCMD [\"--allow\", \"0.0.0.0/0\"]\nclients = [\"::/0\"]\nCMD []\n";
    assert_eq!(packaging::served_to_everybody(text), [2, 3]);
}
