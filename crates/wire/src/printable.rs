//! Foreign values for a terminal or a log: names with escapes, opaque bytes as hexadecimal digits, bits by their names.

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
