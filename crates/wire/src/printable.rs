//! Bytes from elsewhere on a terminal.

use alloc::format;
use alloc::string::String;

/// A name for a terminal: what could control it is escaped.
pub fn printable(name: &[u8]) -> String {
    let mut shown = String::with_capacity(name.len());
    for chunk in name.utf8_chunks() {
        for letter in chunk.valid().chars() {
            if letter.is_control() {
                shown.extend(letter.escape_default());
            } else {
                shown.push(letter);
            }
        }
        for byte in chunk.invalid() {
            shown.push_str(&format!("\\x{byte:02x}"));
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_cannot_control_a_terminal() {
        assert_eq!(
            printable(b"a\x1b[2Jb\xff\xc3\xa9"),
            "a\\u{1b}[2Jb\\xff\u{e9}"
        );
    }
}
