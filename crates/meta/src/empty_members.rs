//! Members of groups that have lost their disks, and have not been filled since: what they have must never count.

use super::{StoreError, Table, Transaction, View};
use std::collections::BTreeSet;

/// The prefix of the numbers of a group and of its member.
const EMPTY: &[u8] = b"empty member ";

fn key(group: u32, server: u32) -> Vec<u8> {
    [EMPTY, &group.to_be_bytes(), &server.to_be_bytes()].concat()
}

/// Notes that an I/O server has lost what it had of these groups.
///
/// # Errors
/// The store failed.
pub fn note_empty(
    transaction: &mut dyn Transaction,
    server: u32,
    groups: &[u32],
) -> Result<(), StoreError> {
    let mut groups = groups.iter();
    groups.try_for_each(|group| transaction.put(Table::Volume, &key(*group, server), &[1]))
}

/// Notes that an I/O server has everything of a group.
///
/// # Errors
/// The store failed.
pub fn note_filled(
    transaction: &mut dyn Transaction,
    server: u32,
    group: u32,
) -> Result<(), StoreError> {
    transaction.delete(Table::Volume, &key(group, server))
}

/// The members that have lost their disks and have not been filled since: groups with servers. A pair of a group that
/// the server has left says nothing.
///
/// # Errors
/// The store failed.
pub fn empty_members(view: &dyn View) -> Result<BTreeSet<(u32, u32)>, StoreError> {
    let mut empty = BTreeSet::new();
    view.scan(Table::Volume, EMPTY, &mut |key, _| {
        let numbers = key.strip_prefix(EMPTY).map(<[u8]>::as_chunks::<4>);
        match numbers {
            Some(([group, server], [])) => {
                empty.insert((u32::from_be_bytes(*group), u32::from_be_bytes(*server)))
            }
            _ => false,
        }
    })?;
    Ok(empty)
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{change, formatted, seen};
    use super::super::namespace::Failure;
    use super::*;

    #[test]
    fn a_member_is_empty_until_it_is_filled() {
        let store = formatted(|_, _| {});
        change(&store, |it| note_empty(it, 3, &[0, 7]));
        change(&store, |it| note_empty(it, 4, &[7]));
        change(&store, |it| note_filled(it, 3, 7));
        let look = |view: &dyn View| empty_members(view).map_err(Failure::Store);
        let empty = seen(&store, look).unwrap();
        assert_eq!(empty, BTreeSet::from([(0, 3), (7, 4)]));
    }
}
