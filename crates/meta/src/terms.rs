//! Terms that this metadata has lived through, and how many changes it has seen: I/O servers know the same of the last
//! manager, which tells a copy of the metadata from the one that was served last.

use super::namespace::{Failure, Outcome};
use super::{StoreError, Table, Transaction, View};
use crate::limits::TERMS_KEPT;
use gannet_wire::volume::{ROOT, TERM_LEN, Term};
use gannet_wire::xdr::{Encode, Encoder, from_bytes};

const TERMS: &[u8] = b"terms";
const CHANGES: &[u8] = b"changes";
const SETTLED_SINCE: &[u8] = b"settled since";
const SERVERS: &[u8] = b"servers of the last term";

/// The last terms that were begun with this metadata, the latest last. Some may never have been accepted.
///
/// # Errors
/// `Failure::Store`: the store failed. `Failure::Damaged`: one of its values cannot be decoded.
pub fn own_terms(view: &dyn View) -> Outcome<Vec<Term>> {
    let bytes = view.get(Table::Volume, TERMS)?.unwrap_or_default();
    let (terms, rest) = bytes.as_chunks::<TERM_LEN>();
    let terms = terms.iter().map(|term| from_bytes::<Term>(term));
    match (terms.collect::<Result<_, _>>(), rest) {
        (Ok(terms), []) => Ok(terms),
        _ => Err(Failure::Damaged(ROOT)),
    }
}

/// Notes that a term is begun.
///
/// # Errors
/// `Failure::Store`: the store failed. `Failure::Damaged`: one of its values cannot be decoded.
pub fn begin_term(transaction: &mut dyn Transaction, term: Term) -> Outcome<()> {
    let mut terms = own_terms(transaction)?;
    terms.push(term);
    let first = terms.len().saturating_sub(TERMS_KEPT);
    let mut bytes = Vec::new();
    let mut encoder = Encoder::new(&mut bytes);
    (terms.iter().skip(first)).for_each(|term| term.encode(&mut encoder));
    Ok(transaction.put(Table::Volume, TERMS, &bytes)?)
}

/// The first term whose settled sizes hold: 0 unless an older copy of the metadata was served by force.
///
/// # Errors
/// `Failure::Store`: the store failed. `Failure::Damaged`: its value cannot be decoded.
pub fn settled_since(view: &dyn View) -> Outcome<u64> {
    let Some(bytes) = view.get(Table::Volume, SETTLED_SINCE)? else {
        return Ok(0);
    };
    let number = bytes.try_into().map(u64::from_be_bytes);
    number.map_err(|_| Failure::Damaged(ROOT))
}

/// Notes that sizes do not hold that were settled before a term: this metadata lacks changes that a later copy had.
///
/// # Errors
/// `Failure::Store`: the store failed.
pub fn distrust_settled(transaction: &mut dyn Transaction, before: Term) -> Outcome<()> {
    let number = before.number.to_be_bytes();
    Ok(transaction.put(Table::Volume, SETTLED_SINCE, &number)?)
}

/// The number of I/O servers of the last term that a majority of them accepted; `None` if it was not noted.
///
/// # Errors
/// `Failure::Store`: the store failed. `Failure::Damaged`: its value cannot be decoded.
pub fn servers_of_last_term(view: &dyn View) -> Outcome<Option<u32>> {
    let Some(bytes) = view.get(Table::Volume, SERVERS)? else {
        return Ok(None);
    };
    let number = bytes.try_into().map(u32::from_be_bytes);
    number.map(Some).map_err(|_| Failure::Damaged(ROOT))
}

/// Notes the number of I/O servers of a term that a majority of them has accepted.
///
/// # Errors
/// The store failed.
pub fn note_servers_of_term(
    transaction: &mut dyn Transaction,
    count: u32,
) -> Result<(), StoreError> {
    transaction.put(Table::Volume, SERVERS, &count.to_be_bytes())
}

/// The number of the last change.
///
/// # Errors
/// `Failure::Store`: the store failed. `Failure::Damaged`: one of its values cannot be decoded.
pub fn last_change(view: &dyn View) -> Result<u64, StoreError> {
    let Some(bytes) = view.get(Table::Volume, CHANGES)? else {
        return Ok(0);
    };
    let number = bytes.try_into().map(u64::from_be_bytes);
    number.map_err(|_| StoreError("the number of its last change is none".into()))
}

/// Counts one more change; its number.
///
/// # Errors
/// `Failure::Store`: the store failed. `Failure::Damaged`: one of its values cannot be decoded.
pub fn next_change(transaction: &mut dyn Transaction) -> Result<u64, StoreError> {
    let number = last_change(transaction)?.saturating_add(1);
    transaction.put(Table::Volume, CHANGES, &number.to_be_bytes())?;
    Ok(number)
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{change, formatted, seen};
    use super::*;

    #[test]
    fn the_last_terms_are_kept_and_changes_are_counted() {
        let store = formatted(|_, _| {});
        let term = |number| Term {
            number,
            token: [number as u8; 16],
        };
        for number in 1..100 {
            change(&store, |it| {
                begin_term(it, term(number)).unwrap();
                assert_eq!(next_change(it).unwrap(), number);
                Ok(())
            });
        }
        let terms = seen(&store, |view| own_terms(view).unwrap());
        assert_eq!(terms.len(), TERMS_KEPT);
        assert_eq!(terms.last(), Some(&term(99)));
        assert_eq!(seen(&store, |view| last_change(view).unwrap()), 99);
        change(&store, |it| it.put(Table::Volume, TERMS, &[1]));
        assert!(seen(&store, |view| own_terms(view).is_err()));
    }
}
