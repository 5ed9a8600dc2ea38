//! Values as they lie in the file: each with a check, so that a changed bit is an error and not an answer.

use crate::Table;
use siphasher::sip::SipHasher13;
use std::hash::Hasher;
use thiserror::Error;

/// Bytes of a check, which follow the value.
const CHECK_LEN: usize = 8;

/// A value of the metadata is not the one that was written under its key. The error names the object and the cure.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error(
    "{} is damaged in the file (stop the manager, see `gannet volume check`, and put metadata and metadata.journal back from a backup, both of the same time)",
    object(*.table, .key)
)]
pub struct DamagedValue {
    /// Where it lies.
    pub table: Table,
    /// Under which key.
    pub key: Vec<u8>,
}

/// A value with its check. The check covers table and key too: a value that turns up under another key is damage.
pub(super) fn seal(table: Table, key: &[u8], value: &[u8]) -> Vec<u8> {
    let mut stored = Vec::with_capacity(value.len() + CHECK_LEN);
    stored.extend_from_slice(value);
    stored.extend_from_slice(&check(table, key, value).to_be_bytes());
    stored
}

/// The value in what is stored under a key.
///
/// # Errors
/// It is not what was stored there.
pub(super) fn unseal<'a>(
    table: Table,
    key: &[u8],
    stored: &'a [u8],
) -> Result<&'a [u8], DamagedValue> {
    match stored.split_last_chunk::<CHECK_LEN>() {
        Some((value, said)) if u64::from_be_bytes(*said) == check(table, key, value) => Ok(value),
        _ => Err(DamagedValue {
            table,
            key: key.to_vec(),
        }),
    }
}

/// Tells damage, and is no proof against anybody: its key is known.
fn check(table: Table, key: &[u8], value: &[u8]) -> u64 {
    let mut hasher = SipHasher13::new();
    hasher.write(&table.number().to_be_bytes());
    hasher.write(&(key.len() as u64).to_be_bytes());
    hasher.write(key);
    hasher.write(value);
    hasher.finish()
}

/// A pair of the metadata in words.
fn object(table: Table, key: &[u8]) -> String {
    let number = |bytes: &[u8]| bytes.first_chunk().map_or(0, |it| u64::from_be_bytes(*it));
    let file = number(key);
    let rest = key.get(8..).unwrap_or_default();
    match table {
        Table::Inodes => format!("the inode of file {file}"),
        Table::Names => format!(
            "the name {:?} in directory {file}",
            String::from_utf8_lossy(rest)
        ),
        Table::Listing => format!("entry {} of directory {file}", number(rest)),
        Table::Pending => format!("pending operation {file} at an I/O server"),
        Table::Replies => String::from("a kept answer to a client"),
        Table::Volume => format!("{:?} of the volume", String::from_utf8_lossy(key)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_changed_bit_anywhere_or_another_key_is_damage() {
        let stored = seal(Table::Inodes, b"key", b"value");
        assert_eq!(unseal(Table::Inodes, b"key", &stored), Ok(&b"value"[..]));
        for bit in 0..stored.len() * 8 {
            let mut flipped = stored.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(unseal(Table::Inodes, b"key", &flipped).is_err(), "{bit}");
        }
        assert!(unseal(Table::Names, b"key", &stored).is_err());
        assert!(unseal(Table::Inodes, b"kez", &stored).is_err());
        assert!(unseal(Table::Inodes, b"keyv", &stored[1..]).is_err());
        for len in 0..stored.len() {
            assert!(unseal(Table::Inodes, b"key", &stored[..len]).is_err());
        }
    }

    #[test]
    fn damage_names_the_object() {
        let said = |table, key: &[u8]| {
            let key = key.to_vec();
            DamagedValue { table, key }.to_string()
        };
        let inode = said(Table::Inodes, &7_u64.to_be_bytes());
        assert!(
            inode.starts_with("the inode of file 7 is damaged"),
            "{inode}"
        );
        let name = said(Table::Names, b"\0\0\0\0\0\0\0\x09a name");
        assert!(
            name.starts_with("the name \"a name\" in directory 9"),
            "{name}"
        );
        assert!(said(Table::Volume, b"next file").starts_with("\"next file\""));
    }
}
