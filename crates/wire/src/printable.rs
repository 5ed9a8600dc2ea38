//! Foreign bytes for a terminal or a log: names with escapes, opaque bytes as hexadecimal digits.

use alloc::format;
use alloc::string::String;
use core::fmt;

/// A name for a terminal. Control characters and bytes that are not UTF-8 are escaped, so that a name cannot move the
/// cursor or change colours.
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

/// Prints opaque bytes as hexadecimal digits, two per byte, without separators.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hex<'a>(pub &'a [u8]);

impl fmt::Display for Hex<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn names_cannot_control_a_terminal() {
        assert_eq!(
            printable(b"a\x1b[2Jb\xff\xc3\xa9"),
            "a\\u{1b}[2Jb\\xff\u{e9}"
        );
    }

    #[test]
    fn opaque_bytes_print_as_digits() {
        assert_eq!(Hex(&[0x00, 0x0a, 0xff]).to_string(), "000aff");
        assert_eq!(Hex(&[]).to_string(), "");
    }
}
