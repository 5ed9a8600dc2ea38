//! Sentences of the documents: how long they are, how they start, and words that have a standard name.

use super::Finding;
use std::path::Path;

/// Words of a sentence, at most.
const SENTENCE_WORDS_MAX: usize = 25;
/// Sentences that start so have a clause as their subject, unless they are questions.
const STARTS: &[&str] = &["Who", "Whoever", "What", "Whatever"];
/// First words of doc comments without a noun: the reader would have to guess it.
const COMMENT_STARTS: &[&str] = &["Of", "Those", "That", "Past", "Who", "What"];
/// Words that documents do not use, and what they say instead (docs/glossary.md).
const WORDS: &[(&str, &str)] = &[
    ("he", "it, or the noun"),
    ("him", "it, or the noun"),
    ("his", "its, or the noun"),
    ("whoever", "the noun: client, peer, caller"),
    ("somebody", "the noun: client, user, process"),
    ("anybody", "the noun: client, user, process"),
    (
        "nobody",
        "the noun with no: no client, no process; the user is in `code`",
    ),
    ("trouble", "error"),
    ("ticket", "session slot"),
    ("tickets", "session slots"),
    ("doubt", "fence, or epoch"),
    ("doubts", "fences"),
    ("lent", "client-driven buffer"),
    ("strangers", "unauthenticated peers"),
    ("stranger", "unauthenticated peer"),
    ("gathering", "group commit"),
    ("tormented", "under faults"),
];

/// Checks the sentences of a Markdown document.
pub(super) fn check(file: &Path, text: &str, findings: &mut Vec<Finding>) {
    for Passage { line, words } in passages(text) {
        for sentence in words.split_inclusive(|word| ends_sentence(word)) {
            if let Some(what) = fault_of(sentence) {
                findings.push(Finding::new(file, line, what));
            }
        }
    }
}

/// Checks the first words of doc comments and of their sections in a Rust file.
pub(super) fn check_comments(file: &Path, text: &str, findings: &mut Vec<Finding>) {
    let mut starts = true;
    for (index, line) in text.lines().enumerate() {
        let Some(comment) = line.trim_start().strip_prefix("///") else {
            starts = true;
            continue;
        };
        let first = comment.split_whitespace().next().unwrap_or_default();
        if starts && COMMENT_STARTS.contains(&first) {
            let what = format!("a doc comment starts with {first:?}: name what it describes");
            findings.push(Finding::new(file, index + 1, what));
        }
        // A section such as `# Errors` starts anew.
        starts = comment.trim().is_empty() || comment.trim_start().starts_with('#');
    }
}

/// Text that belongs together: a paragraph, an item of a list, or a part of a table's cell between semicolons.
struct Passage {
    /// Where it starts.
    line: usize,
    words: Vec<String>,
}

/// The passages of a document, without blocks of code and headings.
fn passages(text: &str) -> Vec<Passage> {
    let mut found: Vec<Passage> = Vec::new();
    let (mut is_fenced, mut goes_on) = (false, false);
    for (index, line) in text.lines().enumerate() {
        let content = line.trim();
        if content.starts_with("```") {
            is_fenced = !is_fenced;
            goes_on = false;
            continue;
        }
        let is_code = is_fenced || (line.starts_with("    ") && !goes_on);
        if is_code || content.is_empty() || content.starts_with('#') {
            goes_on = false;
            continue;
        }
        let content = without_code(content);
        let is_row = content.starts_with('|');
        let cells: Vec<&str> = if is_row {
            content.split(['|', ';']).collect()
        } else {
            vec![&content]
        };
        for cell in cells {
            let starts_item = starts_item(cell);
            let words = cell.split_whitespace().map(String::from);
            match found.last_mut() {
                Some(last) if goes_on && !is_row && !starts_item => last.words.extend(words),
                _ => found.push(Passage {
                    line: index + 1,
                    words: words.collect(),
                }),
            }
        }
        goes_on = !is_row;
    }
    found
}

/// A line with one word for each span of code.
fn without_code(line: &str) -> String {
    let mut text = String::with_capacity(line.len());
    for (index, part) in line.split('`').enumerate() {
        let is_code = index % 2 == 1;
        text.push_str(if is_code { "`code`" } else { part });
    }
    text
}

/// Whether a line starts an item of a list.
fn starts_item(line: &str) -> bool {
    let first = line.split_whitespace().next().unwrap_or_default();
    let number = first.trim_end_matches(['.', ')']);
    let is_number = number.len() < first.len() && number.chars().all(|c| c.is_ascii_digit());
    matches!(first, "-" | "*" | "+") || is_number
}

/// Whether it counts as a word; a dash or a sign of percent does not.
fn is_word(word: &str) -> bool {
    word.chars().any(char::is_alphanumeric)
}

/// Whether a sentence ends with this word. A colon ends one too: what follows is a list or a sentence of its own.
fn ends_sentence(word: &str) -> bool {
    let bare = word.trim_end_matches([')', '"', '*', '_', '`', '\'', ']']);
    bare.ends_with(['.', '?', '!', ':']) && !matches!(bare, "e.g." | "i.e." | "vs." | "cf.")
}

/// The fault of a sentence, if it has one.
fn fault_of(sentence: &[String]) -> Option<String> {
    let first = sentence.iter().find(|word| is_word(word))?;
    let last = sentence.last()?;
    let start = sentence.get(..6).unwrap_or(sentence).join(" ");
    let count = sentence.iter().filter(|word| is_word(word)).count();
    if count > SENTENCE_WORDS_MAX {
        return Some(format!(
            "{count} words in \"{start} ...\": {SENTENCE_WORDS_MAX} at most"
        ));
    }
    if STARTS.contains(&first.as_str()) && !last.contains('?') {
        return Some(format!(
            "\"{start} ...\" has a clause as its subject: start with a noun"
        ));
    }
    let word_of = |word: &String| {
        let bare = word.trim_matches(|c: char| !c.is_alphanumeric() && c != '`');
        bare.to_lowercase()
    };
    let words: Vec<String> = sentence.iter().map(word_of).collect();
    let (word, instead) = WORDS
        .iter()
        .find(|(word, _)| words.iter().any(|found| found == word))?;
    Some(format!("\"{word}\" in \"{start} ...\": write {instead}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(text: &str) -> Vec<String> {
        let mut findings = Vec::new();
        check(Path::new("a.md"), text, &mut findings);
        findings.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_sentence_has_a_bounded_number_of_words_wherever_its_lines_end() {
        let words = |count: usize| vec!["word"; count].join(" ");
        assert_eq!(findings(&format!("{}.\n", words(25))), Vec::<String>::new());
        let two_lines = format!("First.\n{}\n{}.\n", words(20), words(6));
        assert_eq!(findings(&two_lines).len(), 1);
        assert!(findings(&two_lines)[0].starts_with("a.md:1: 26 words in \"word word"));
        // Items and cells stand for themselves, and code is none of it.
        let items = format!("- {}\n- {}\n", words(20), words(20));
        assert_eq!(findings(&items), Vec::<String>::new());
        let row = format!("| {} | {} |\n", words(20), words(20));
        assert_eq!(findings(&row), Vec::<String>::new());
        let code = format!("```\n{}\n```\n", words(40));
        assert_eq!(findings(&code), Vec::<String>::new());
    }

    #[test]
    fn a_doc_comment_starts_with_what_it_describes() {
        let text = "/// Of the file.\nsize: u64,\n/// The size\n/// Of it.\n///\n/// # Errors\n/// Those of it.\n";
        let mut found = Vec::new();
        check_comments(Path::new("lib.rs"), text, &mut found);
        let lines: Vec<usize> = found.iter().map(|finding| finding.line).collect();
        assert_eq!(lines, [1, 7]);
    }

    #[test]
    fn a_sentence_starts_with_a_noun() {
        assert_eq!(findings("What is served is safe.\n").len(), 1);
        assert_eq!(findings("What is served?\n"), Vec::<String>::new());
        assert_eq!(findings("The server is safe. Who asks, waits.\n").len(), 1);
    }

    #[test]
    fn words_with_a_standard_name_are_found_as_words_alone() {
        assert_eq!(findings("The server lent a buffer.\n").len(), 1);
        assert_eq!(
            findings("It is silent about the user `nobody`.\n"),
            Vec::<String>::new()
        );
    }
}
