//! Which clients have file locks: a manager that starts again waits for these to lock their bytes anew.

use super::{StoreError, Table, Transaction, View};
use gannet_wire::volume::Token;
use std::collections::BTreeSet;

/// The prefix of the session of a client that has locks, or had some lately.
const PREFIX: &[u8] = b"lock session ";

fn key(session: &Token) -> Vec<u8> {
    [PREFIX, session].concat()
}

/// Notes that a client has locks, before it hears of the first.
///
/// # Errors
/// The store failed.
pub fn note(transaction: &mut dyn Transaction, session: &Token) -> Result<(), StoreError> {
    transaction.put(Table::Volume, &key(session), &[1])
}

/// Forgets clients that have none any more.
///
/// # Errors
/// The store failed.
pub fn forget(transaction: &mut dyn Transaction, sessions: &[Token]) -> Result<(), StoreError> {
    sessions
        .iter()
        .try_for_each(|session| transaction.delete(Table::Volume, &key(session)))
}

/// The clients that were noted.
///
/// # Errors
/// The store failed.
pub fn noted(view: &dyn View) -> Result<BTreeSet<Token>, StoreError> {
    let mut sessions = BTreeSet::new();
    view.scan(Table::Volume, PREFIX, &mut |key, _| {
        let session = key.strip_prefix(PREFIX).map(Token::try_from);
        match session {
            Some(Ok(session)) => sessions.insert(session),
            _ => false,
        }
    })?;
    Ok(sessions)
}

#[cfg(test)]
mod tests {
    use super::super::{MemoryStore, MetaStore};
    use super::*;

    #[test]
    fn sessions_are_noted_until_they_are_forgotten() {
        let store = MemoryStore::default();
        let seen = || {
            let mut seen = BTreeSet::new();
            store.read(&mut |view| seen = noted(view).unwrap()).unwrap();
            seen
        };
        let committed = store.commit(&mut |transaction| {
            transaction.put(Table::Volume, b"lock sessions, but none", &[1])?;
            transaction.put(Table::Volume, b"lock", &[1])?;
            note(transaction, &[1; 16])?;
            note(transaction, &[2; 16])
        });
        committed.unwrap();
        assert_eq!(seen(), BTreeSet::from([[1; 16], [2; 16]]));
        store
            .commit(&mut |transaction| forget(transaction, &[[1; 16]]))
            .unwrap();
        assert_eq!(seen(), BTreeSet::from([[2; 16]]));
    }
}
