//! Claims: which I/O servers may have data. A server whose folder is empty must know whether it should be.

use super::empty_members::note_empty;
use super::namespace::{Failure, Outcome};
use super::{StoreError, Table, Transaction, View};
use gannet_wire::volume::{Body, Claimant, FileId, Inode, ROOT};
use gannet_wire::xdr::{Decode, Decoder, Encode, Encoder, XdrError, from_bytes, to_bytes};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// The prefix of the number of a server that was never served. Files may lie on it, but none has data there.
const NEW: &[u8] = b"new I/O server ";

fn key(number: u32) -> Vec<u8> {
    [NEW, &number.to_be_bytes()].concat()
}

/// The note that a volume has had such notes from its beginning on. A server without one was served.
const NOTED: &[u8] = b"new I/O servers are noted";

/// Notes that all I/O servers of a volume that is being made are new.
///
/// # Errors
/// The store failed.
pub fn note_all_new(transaction: &mut dyn Transaction, count: u32) -> Result<(), StoreError> {
    only_noted_are_new(transaction)?;
    note_new(transaction, 0..count)
}

/// Notes that all I/O servers that come new are noted: the others may have data, wherever files lie.
///
/// # Errors
/// The store failed.
pub fn only_noted_are_new(transaction: &mut dyn Transaction) -> Result<(), StoreError> {
    transaction.put(Table::Volume, NOTED, &[1])
}

/// Notes that these I/O servers come new to the volume.
///
/// # Errors
/// The store failed.
pub fn note_new(
    transaction: &mut dyn Transaction,
    mut numbers: Range<u32>,
) -> Result<(), StoreError> {
    numbers.try_for_each(|number| transaction.put(Table::Volume, &key(number), &[1]))
}

/// How many I/O servers the volume was ever served with.
const COUNT: &[u8] = b"I/O servers";

/// How many I/O servers the volume was ever served with; 0 if that was not noted yet.
///
/// # Errors
/// The store failed.
pub fn servers_count(view: &dyn View) -> Result<u32, StoreError> {
    let noted = view.get(Table::Volume, COUNT)?;
    let noted = noted.and_then(|bytes| <[u8; 4]>::try_from(bytes).ok());
    Ok(noted.map_or(0, u32::from_be_bytes))
}

/// Notes that the volume is served with so many.
///
/// # Errors
/// The store failed.
pub fn note_servers_count(transaction: &mut dyn Transaction, count: u32) -> Result<(), StoreError> {
    transaction.put(Table::Volume, COUNT, &count.to_be_bytes())
}

/// Notes that an I/O server has a folder from now on.
///
/// # Errors
/// The store failed.
pub fn note_served(transaction: &mut dyn Transaction, number: u32) -> Result<(), StoreError> {
    transaction.delete(Table::Volume, &key(number))
}

/// The prefix of the number of a server whose disk was lost.
const LOST: &[u8] = b"lost I/O server ";

/// Notes that the disk of an I/O server was lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Loss {
    /// Seconds since the Unix epoch.
    pub since: u64,
    /// Files with numbers below this may have had bytes there.
    pub below: u64,
}

/// Notes that the disk of an I/O server is lost, and that it has another one from now on. What it has of groups of
/// several members never counts before it was filled.
///
/// # Errors
/// `Failure::Store`: the store failed. `Failure::Damaged`: one of its values cannot be decoded.
pub fn note_lost(transaction: &mut dyn Transaction, number: u32, since: u64) -> Outcome<Loss> {
    let below = super::inode_allocator::next_number(transaction)?;
    let loss = Loss { since, below };
    let value = [loss.since.to_be_bytes(), loss.below.to_be_bytes()].concat();
    let key = [LOST, &number.to_be_bytes()].concat();
    transaction.put(Table::Volume, &key, &value)?;
    note_served(transaction, number)?;
    let groups = super::groups::several_of(transaction, number)?;
    note_empty(transaction, number, &groups)?;
    Ok(loss)
}

/// The last loss of each I/O server that has lost a disk.
///
/// # Errors
/// `Failure::Store`: the store failed. `Failure::Damaged`: one of its values cannot be decoded.
pub fn losses(view: &dyn View) -> Outcome<BTreeMap<u32, Loss>> {
    by_number(view, LOST, |value| match value.as_chunks::<8>() {
        ([since, below], []) => Some(Loss {
            since: u64::from_be_bytes(*since),
            below: u64::from_be_bytes(*below),
        }),
        _ => None,
    })
}

/// The values of servers whose keys are this prefix and a number.
fn by_number<T>(
    view: &dyn View,
    prefix: &[u8],
    decode: impl Fn(&[u8]) -> Option<T>,
) -> Outcome<BTreeMap<u32, T>> {
    let (mut values, mut is_damaged) = (BTreeMap::new(), false);
    view.scan(Table::Volume, prefix, &mut |key, value| {
        let Some(number) = key.strip_prefix(prefix) else {
            return false;
        };
        match (<[u8; 4]>::try_from(number), decode(value)) {
            (Ok(number), Some(value)) => {
                values.insert(u32::from_be_bytes(number), value);
            }
            _ => is_damaged = true,
        }
        !is_damaged
    })?;
    if is_damaged {
        Err(Failure::Damaged(ROOT))
    } else {
        Ok(values)
    }
}

/// The prefix of the number of a server that was ever leased.
const LEASED: &[u8] = b"lease of I/O server ";

/// The process that got the number of an I/O server last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NumberLeaseNote {
    /// The process, as the manager sees it.
    pub claimant: Claimant,
    /// Counts the processes that had the number.
    pub generation: u64,
    /// It has given the number back.
    pub is_over: bool,
}

impl Encode for NumberLeaseNote {
    fn encode(&self, encoder: &mut Encoder<'_>) {
        self.claimant.encode(encoder);
        encoder.u64(self.generation);
        encoder.bool(self.is_over);
    }
}

impl Decode<'_> for NumberLeaseNote {
    fn decode(decoder: &mut Decoder<'_>) -> Result<NumberLeaseNote, XdrError> {
        Ok(NumberLeaseNote {
            claimant: Claimant::decode(decoder)?,
            generation: decoder.u64()?,
            is_over: decoder.bool()?,
        })
    }
}

fn leased_key(number: u32) -> Vec<u8> {
    [LEASED, &number.to_be_bytes()].concat()
}

/// Notes which process has got the number of an I/O server, or has given it back.
///
/// # Errors
/// The store failed.
pub fn note_leased(
    transaction: &mut dyn Transaction,
    number: u32,
    note: &NumberLeaseNote,
) -> Result<(), StoreError> {
    transaction.put(Table::Volume, &leased_key(number), &to_bytes(note))
}

/// The processes that got numbers last.
///
/// # Errors
/// `Failure::Store`: the store failed. `Failure::Damaged`: one of its values cannot be decoded.
pub fn leased(view: &dyn View) -> Outcome<BTreeMap<u32, NumberLeaseNote>> {
    by_number(view, LEASED, |value| from_bytes(value).ok())
}

/// The I/O servers that never had one.
///
/// # Errors
/// The store failed.
pub fn new_servers(view: &dyn View) -> Result<BTreeSet<u32>, StoreError> {
    let mut numbers = BTreeSet::new();
    view.scan(Table::Volume, NEW, &mut |key, _| {
        let number = key.strip_prefix(NEW).map(<[u8; 4]>::try_from);
        match number {
            Some(Ok(number)) => numbers.insert(u32::from_be_bytes(number)),
            _ => false,
        }
    })?;
    Ok(numbers)
}

/// Whether data of files may lie, or have lain, on an I/O server: it was served before. That no file lies there now is
/// no excuse: served from the folder that its disk should be mounted on, it would have two folders, each its own.
///
/// Volumes that were made before this was noted have a group for each server, and go by their files. How long those
/// are is for their servers to say, the one that asks among them, so empty ones count too. Looks at all inodes, up to
/// the first such file.
///
/// # Errors
/// The store failed, or an inode is damaged: then any server may have data.
pub fn may_have_data(view: &dyn View, number: u32) -> Outcome<bool> {
    if view.get(Table::Volume, &key(number))?.is_some() {
        return Ok(false);
    }
    if view.get(Table::Volume, NOTED)?.is_some() {
        return Ok(true);
    }
    let (mut found, mut damaged) = (false, None);
    view.scan(Table::Inodes, &[], &mut |key, value| {
        match from_bytes::<Inode>(value) {
            Ok(Inode {
                body: Body::Regular { layout, .. },
                ..
            }) => found = layout.groups.contains(&number),
            Ok(_) => {}
            Err(_) => damaged = Some(key.try_into().map_or(0, u64::from_be_bytes)),
        }
        !found && damaged.is_none()
    })?;
    match damaged {
        Some(file) => Err(Failure::Damaged(FileId(file))),
        None => Ok(found),
    }
}

#[cfg(test)]
mod tests {
    use super::super::MemoryStore;
    use super::super::fixture::{change, create, formatted, seen};
    use super::*;

    /// A root directory with a file on I/O servers 0 and 2.
    fn store() -> MemoryStore {
        formatted(|transaction, request| {
            create(transaction, request, ROOT, b"f", &[0, 2]);
        })
    }

    #[test]
    fn a_server_may_have_data_when_it_was_served_and_a_file_lies_there() {
        let store = store();
        let known = |number| seen(&store, |view| may_have_data(view, number)).unwrap();
        assert_eq!([0, 1, 2].map(known), [true, false, true]);
        change(&store, |it| note_new(it, 2..4));
        let new = seen(&store, new_servers).unwrap();
        assert_eq!(new.into_iter().collect::<Vec<_>>(), [2, 3]);
        assert_eq!([0, 1, 2].map(known), [true, false, false]);
        change(&store, |it| note_served(it, 2));
        assert_eq!([0, 1, 2].map(known), [true, false, true]);
        change(&store, only_noted_are_new);
        assert_eq!([0, 1, 2].map(known), [true; 3]);
        change(&store, |it| note_all_new(it, 2));
        assert_eq!([0, 1, 2].map(known), [false, false, true]);
        change(&store, |it| note_served(it, 1));
        assert_eq!(
            [0, 1, 2].map(known),
            [false, true, true],
            "no file is there"
        );
    }

    #[test]
    fn the_last_process_that_got_a_number_is_noted() {
        let (store, note) = (store(), |byte| NumberLeaseNote {
            claimant: Claimant {
                folder: [byte; 16],
                process: [byte + 1; 16],
            },
            generation: u64::from(byte),
            is_over: byte == 2,
        });
        assert_eq!(seen(&store, leased).unwrap(), BTreeMap::new());
        for (number, byte) in [(0, 1), (2, 2), (0, 3)] {
            change(&store, |it| note_leased(it, number, &note(byte)));
        }
        let noted = BTreeMap::from([(0, note(3)), (2, note(2))]);
        assert_eq!(seen(&store, leased).unwrap(), noted);
        change(&store, |it| it.put(Table::Volume, &leased_key(0), b"short"));
        assert!(matches!(seen(&store, leased), Err(Failure::Damaged(ROOT))));
    }

    #[test]
    fn a_damaged_inode_leaves_it_unknown_whether_a_server_has_data() {
        let store = store();
        let key = 9u64.to_be_bytes();
        change(&store, |it| it.put(Table::Inodes, &key, b"nonsense"));
        let known = |number| seen(&store, |view| may_have_data(view, number));
        assert!(matches!(known(0), Ok(true)));
        assert!(matches!(known(1), Err(Failure::Damaged(FileId(9)))));
    }
}
