//! Foreign values for a terminal or a log: names with escapes, opaque bytes as hexadecimal digits, bits by their names.

use alloc::format;
use alloc::string::String;
use core::fmt::{self, Write};

/// A name for a terminal. Control characters, characters without a shape and bytes that are not UTF-8 are escaped. So a
/// name cannot move the cursor, change colours, turn the order of letters round, or look like another one.
pub fn printable(name: &[u8]) -> String {
    let mut shown = String::with_capacity(name.len());
    for chunk in name.utf8_chunks() {
        for letter in chunk.valid().chars() {
            if letter.is_control() || has_no_shape(letter) {
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

/// Whether a character shows nothing itself. These are the property Default_Ignorable_Code_Point of Unicode 16, with
/// the marks that change the direction of text; separators of lines and paragraphs; and the marks of annotations.
fn has_no_shape(letter: char) -> bool {
    matches!(letter,
        '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}'..='\u{1160}' | '\u{17b4}'..='\u{17b5}'
        | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}'
        | '\u{fff0}'..='\u{fffb}' | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}'
        | '\u{e0000}'..='\u{e0fff}')
}

/// A name for a line of a log, as [`printable`] shows it, with a backslash before `"` and `\`. So the name cannot end
/// the quotes around it, and different names look different.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Escaped<'a>(pub &'a [u8]);

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for chunk in self.0.utf8_chunks() {
            for letter in chunk.valid().chars() {
                if letter.is_control() || has_no_shape(letter) || matches!(letter, '"' | '\\') {
                    write!(f, "{}", letter.escape_default())?;
                } else {
                    f.write_char(letter)?;
                }
            }
            for byte in chunk.invalid() {
                write!(f, "\\x{byte:02x}")?;
            }
        }
        Ok(())
    }
}

/// Prints opaque bytes as hexadecimal digits, two per byte, without separators.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hex<'a>(pub &'a [u8]);

impl fmt::Display for Hex<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// The bits of a word, by name. It prints the names of those that are set, with commas.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NamedBits {
    bits: u32,
    /// The names, from the least significant bit on.
    names: &'static [&'static str],
}

/// Bits of a [`NamedBits`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BitName {
    /// One bit, by its name.
    Named(&'static str),
    /// All bits without a name, as a hexadecimal number.
    Unnamed(u32),
}

impl NamedBits {
    /// The bits of a word, whose names begin with that of the least significant bit; at most 31.
    pub(crate) const fn new(bits: u32, names: &'static [&'static str]) -> NamedBits {
        NamedBits { bits, names }
    }

    /// The bits that are set: those with a name, the least significant first, then the others as one.
    pub fn iter(self) -> impl Iterator<Item = BitName> {
        let NamedBits { bits, names } = self;
        let named = names
            .iter()
            .enumerate()
            .filter(move |(bit, _)| bits & 1 << bit != 0)
            .map(|(_, name)| BitName::Named(name));
        let unnamed = bits >> names.len() << names.len();
        named.chain((unnamed != 0).then_some(BitName::Unnamed(unnamed)))
    }
}

impl fmt::Display for BitName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BitName::Named(name) => f.write_str(name),
            BitName::Unnamed(bits) => write!(f, "{bits:#x}"),
        }
    }
}

impl fmt::Display for NamedBits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, bit) in self.iter().enumerate() {
            let comma = if index > 0 { "," } else { "" };
            write!(f, "{comma}{bit}")?;
        }
        Ok(())
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
    fn escaped_names_end_no_quotes_and_stay_different() {
        let escaped = |name: &[u8]| Escaped(name).to_string();
        assert_eq!(escaped(b"a\" b\\"), "a\\\" b\\\\");
        assert_eq!(escaped(b"\n\xff\xc3\xa9"), "\\n\\xff\u{e9}");
        assert_ne!(escaped(b"\x1b"), escaped(b"\\u{1b}"));
    }

    #[test]
    fn names_hide_nothing_and_turn_no_letters_round() {
        // The last letters would be shown as "exe.txt".
        assert_eq!(
            printable("a\u{202e}txt.exe".as_bytes()),
            "a\\u{202e}txt.exe"
        );
        assert_eq!(printable("a\u{200b}b".as_bytes()), "a\\u{200b}b");
        for hidden in [
            '\u{ad}',
            '\u{2066}',
            '\u{2069}',
            '\u{feff}',
            '\u{e0041}',
            '\u{2028}',
        ] {
            let shown = printable(hidden.encode_utf8(&mut [0; 4]).as_bytes());
            assert!(shown.is_ascii(), "{shown}");
        }
        for plain in ["größe", "名前", "שלום", "سلام", "e\u{301}", "a b"] {
            assert_eq!(printable(plain.as_bytes()), plain);
        }
    }

    #[test]
    fn bits_print_by_name() {
        let bits = |bits| NamedBits::new(bits, &["read", "write"]).to_string();
        assert_eq!(bits(0), "");
        assert_eq!(bits(3), "read,write");
        assert_eq!(bits(0x8000_0012), "write,0x80000010");
    }

    #[test]
    fn opaque_bytes_print_as_digits() {
        assert_eq!(Hex(&[0x00, 0x0a, 0xff]).to_string(), "000aff");
        assert_eq!(Hex(&[]).to_string(), "");
    }
}
