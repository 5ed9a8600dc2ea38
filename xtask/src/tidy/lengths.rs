//! Bounds on lines, functions and files.

use super::Finding;
use super::source::{Source, closing, head_end, is_identifier};

/// Lines of a file, tests apart.
const FILE_LINES_MAX: usize = 800;
/// Lines of a function from its `fn` to its closing brace, tests apart.
const FUNCTION_LINES_MAX: usize = 70;
/// Columns of a line of code.
const CODE_WIDTH_MAX: usize = 100;
/// Columns of a comment or of a macro's definition: rustfmt leaves these alone, and the project's prose is 120 wide.
const FREE_WIDTH_MAX: usize = 120;

pub(super) fn check(source: &Source, findings: &mut Vec<Finding>) {
    check_width(source, findings);
    let lines = source.production_lines();
    if lines > FILE_LINES_MAX && !source.is_test_file() {
        let what = format!("{lines} lines without tests, {FILE_LINES_MAX} are allowed: split it");
        findings.push(Finding::new(&source.file, 1, what));
    }
    check_functions(source, findings);
}

fn check_width(source: &Source, findings: &mut Vec<Finding>) {
    for (index, line) in source.text.lines().enumerate() {
        let is_free = line.contains("//") || line.contains('$');
        let max = if is_free {
            FREE_WIDTH_MAX
        } else {
            CODE_WIDTH_MAX
        };
        let width = line.chars().count();
        // A link or a literal cannot be broken.
        if width > max && !line.contains("://") && !line.contains('"') {
            let what = format!("{width} columns, {max} are allowed");
            findings.push(Finding::new(&source.file, index + 1, what));
        }
    }
}

fn check_functions(source: &Source, findings: &mut Vec<Finding>) {
    for start in source.find_word("fn") {
        let name: String = source.code[start + 2..]
            .iter()
            .skip_while(|byte| byte.is_ascii_whitespace())
            .take_while(|byte| is_identifier(**byte))
            .map(|byte| char::from(*byte))
            .collect();
        let Some(open) = head_end(&source.code, start) else {
            continue;
        };
        if name.is_empty() || source.code[open] != b'{' || source.is_test(start) {
            continue;
        }
        let first = source.line_of(start);
        let lines = source.line_of(closing(&source.code, open) - 1) - first + 1;
        if lines > FUNCTION_LINES_MAX {
            let what =
                format!("function `{name}` has {lines} lines, {FUNCTION_LINES_MAX} are allowed");
            findings.push(Finding::new(&source.file, first, what));
        }
    }
}
