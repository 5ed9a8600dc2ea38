//! A manager beside the active one: it follows the journal in an engine, and can take it over.

use super::engine::{Engine, EngineJournal, ManagerName, RowState, base_hash};
use super::store::{JournaledStore, MARK, mark_of, put_down, put_down_in_parts};
use super::{EngineError, EngineJournalError, Mark};
use crate::limits::ENGINE_LEASE_OVER;
use crate::redb_store::RedbStore;
use crate::{MetaStore, StoreError};
use gannet_wire::volume::Token;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// The sight of the active manager, by the row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Sight {
    /// No manager has the row, or the one that had it was not heard of for longer than its lease.
    Free,
    /// This manager has written the row since it was last seen, or before it was first seen.
    Active(String),
    /// Its manager has not written the row since it was last seen.
    Silent,
}

/// The row over time, as one that stands by sees it.
#[derive(Debug, Default)]
pub struct RowWatch {
    /// The version of the row.
    version: Option<u64>,
    /// How long the row was seen with this version.
    seen_for: Duration,
    /// The time of the last look, if the engine answered. The manager cannot be heard of while it does not.
    last: Option<Duration>,
    /// How many versions were seen.
    versions: u32,
}

impl RowWatch {
    /// Sees the row at a time of any clock.
    pub fn see(&mut self, row: Option<&RowState>, now: Duration) -> Sight {
        let Some((row, manager)) = row.and_then(|row| Some((row, row.manager.clone()?))) else {
            return Sight::Free;
        };
        let last = self.last.replace(now);
        if self.version != Some(row.version) {
            self.version = Some(row.version);
            self.seen_for = Duration::ZERO;
            self.versions += 1;
            return Sight::Active(manager);
        }
        self.seen_for += last.map_or(Duration::ZERO, |last| now.saturating_sub(last));
        if self.seen_for >= ENGINE_LEASE_OVER {
            Sight::Free
        } else {
            Sight::Silent
        }
    }

    /// The engine does not answer: its manager cannot be heard of either. The time until the next look does not count.
    pub fn lose(&mut self) {
        self.last = None;
    }

    /// Whether the manager writes the row again and again. One that was killed may have one write that comes late.
    pub fn is_renewed(&self) -> bool {
        self.versions > 2
    }

    /// Whether the manager has written the row while it was watched.
    pub fn was_heard(&self) -> bool {
        self.versions > 1
    }
}

/// A store that gets what another manager appends to the journal in an engine.
pub struct Standby {
    base: Arc<dyn MetaStore>,
    journal: EngineJournal,
    /// The last record that the engine knows to be here, and the row that was seen with it.
    noted: Option<(u64, Option<RowState>)>,
    is_silent: bool,
}

impl Standby {
    /// Opens the redb file at `path`, whose journal is in an engine: that of volume `identity`. Up to `cache_len` bytes
    /// of the file stay in memory. What a journal in a file has goes down first, and then the engine has the only
    /// journal.
    ///
    /// # Errors
    /// A file cannot be opened or read, or the file is open elsewhere.
    pub fn open(
        path: &Path,
        cache_len: usize,
        engine: Box<dyn Engine>,
        identity: Token,
        manager: ManagerName,
    ) -> Result<Standby, StoreError> {
        let base = RedbStore::open(path, cache_len)?;
        let has_file = match mark_of(&base)? {
            Some(mark) => mark.chain.is_none(),
            None => path.with_extension("journal").exists(),
        };
        let base = if has_file {
            drop(base);
            drop(JournaledStore::open(path, cache_len, identity)?);
            RedbStore::open(path, cache_len)?
        } else {
            base
        };
        Standby::over(Arc::new(base), engine, identity, manager)
    }

    /// As [`Standby::open`], with a store that has no journal in a file.
    ///
    /// # Errors
    /// The store fails.
    pub fn over(
        base: Arc<dyn MetaStore>,
        engine: Box<dyn Engine>,
        identity: Token,
        manager: ManagerName,
    ) -> Result<Standby, StoreError> {
        let mark = mark_of(&*base)?.unwrap_or_default();
        if mark.chain.is_none() {
            // Before the first record: a copy of other metadata is noticed by it.
            let chain = Some(base_hash(&*base, MARK)?);
            let mark = Mark {
                epoch: mark.epoch,
                applied: 0,
                chain,
            };
            put_down(&*base, &[], Some(mark))?;
        }
        Ok(Standby {
            base,
            journal: EngineJournal::new(engine, identity, manager),
            noted: None,
            is_silent: false,
        })
    }

    /// An engine with fewer records than the store has gets the journal anew from this store: all other managers get
    /// copies of it then.
    pub fn force(&mut self) {
        self.journal.force();
    }

    /// The engine does not hear of this process: it does not stand by.
    pub fn be_silent(&mut self) {
        self.is_silent = true;
    }

    /// Gets the records that have come, and says what the row is; `None` if no manager was ever active.
    ///
    /// # Errors
    /// The store fails; [`EngineJournalError`] for all others. Only after
    /// [`Engine`](EngineJournalError::Engine) it makes sense to try again.
    pub fn follow(&mut self) -> Result<Option<RowState>, StoreError> {
        let mark = mark_of(&*self.base)?.unwrap_or_default();
        let (base, mut has) = (&*self.base, mark.applied);
        self.journal.follow(mark, &mut |changes, mark| {
            has = mark.applied;
            put_down_in_parts(base, &changes, mark)
        })?;
        let row = self.journal.row_state();
        let note = (has, row.clone());
        if !self.is_silent && self.noted.as_ref() != Some(&note) {
            self.journal.note(has)?;
            self.noted = Some(note);
        }
        Ok(row)
    }

    /// Waits a little after an attempt that failed.
    pub fn wait(&mut self) {
        self.journal.wait(0);
    }

    /// Takes the journal over: from then on, no other manager appends. Another one must not have done it since the last
    /// [`Standby::follow`].
    ///
    /// # Errors
    /// The store fails, or see [`EngineJournalError`].
    pub fn take_over(mut self) -> Result<JournaledStore, StoreError> {
        self.journal.hold_to_row();
        JournaledStore::with(self.base, Box::new(self.journal))
    }
}

impl StoreError {
    fn of_engine(&self) -> Option<&EngineJournalError> {
        self.0.downcast_ref()
    }

    /// Whether the journal is not, or may not be, this process's any more. The next one knows the outcome of a change.
    pub fn is_journal_lost(&self) -> bool {
        matches!(
            self.of_engine(),
            Some(
                EngineJournalError::Engine(_)
                    | EngineJournalError::Fenced(_)
                    | EngineJournalError::Undone(_)
                    | EngineJournalError::Lost(_)
                    | EngineJournalError::Released
            )
        )
    }

    /// Whether it is about a journal in an engine.
    pub fn is_of_engine(&self) -> bool {
        self.of_engine().is_some()
    }

    /// Whether another manager has begun.
    pub fn is_fenced(&self) -> bool {
        matches!(self.of_engine(), Some(EngineJournalError::Fenced(_)))
    }

    /// Whether the engine of the journal does not answer.
    pub fn is_engine_unavailable(&self) -> bool {
        let unavailable = |error: &EngineError| matches!(error, EngineError::Unavailable(_));
        matches!(self.of_engine(), Some(EngineJournalError::Engine(error)) if unavailable(error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manager_that_is_silent_for_longer_than_its_lease_is_gone() {
        let row = |version, manager: Option<&str>| RowState {
            version,
            term: 1,
            manager: manager.map(str::to_owned),
            last: 0,
        };
        let active = || Sight::Active(String::from("a"));
        let mut watch = RowWatch::default();
        let mut see =
            |row: Option<RowState>, ms| watch.see(row.as_ref(), Duration::from_millis(ms));
        assert_eq!(see(None, 0), Sight::Free);
        assert_eq!(see(Some(row(1, Some("a"))), 1000), active());
        assert_eq!(see(Some(row(1, Some("a"))), 5100), Sight::Silent);
        assert_eq!(see(Some(row(2, Some("a"))), 5150), active());
        assert_eq!(see(Some(row(2, Some("a"))), 9300), Sight::Silent);
        assert_eq!(see(Some(row(2, Some("a"))), 9350), Sight::Free);
        assert_eq!(see(Some(row(3, None)), 9350), Sight::Free, "given up");
        assert!(watch.was_heard());
        let mut see = |ms| watch.see(Some(&row(4, Some("a"))), Duration::from_millis(ms));
        assert_eq!(see(10_000), active());
        assert_eq!(see(14_000), Sight::Silent);
        watch.lose();
        // The engine was away, and so was the manager's way to it.
        let mut see = |ms| watch.see(Some(&row(4, Some("a"))), Duration::from_millis(ms));
        assert_eq!(see(60_000), Sight::Silent);
        assert_eq!(see(60_150), Sight::Silent);
        assert_eq!(see(60_250), Sight::Free);
    }
}
