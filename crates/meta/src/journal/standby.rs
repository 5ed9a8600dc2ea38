//! A manager beside the active one: it follows the journal in an engine, and can take it over.

use super::engine::{Engine, EngineJournal, ManagerName, RowState, base_hash};
use super::store::{JournaledStore, MARK, mark_of, put_down, put_down_in_parts};
use super::{EngineJournalError, Mark};
use crate::redb_store::RedbStore;
use crate::{MetaStore, StoreError};
use gannet_wire::volume::Token;
use std::path::Path;
use std::sync::Arc;

/// A store that gets what another manager appends to the journal in an engine.
pub struct Standby {
    base: Arc<dyn MetaStore>,
    journal: EngineJournal,
    /// The last record that the engine knows to be here.
    noted: Option<u64>,
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
        })
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
        if self.noted != Some(has) {
            self.journal.note(has)?;
            self.noted = Some(has);
        }
        Ok(self.journal.row_state())
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

/// Whether an error of a store is an engine that does not answer.
pub fn is_engine_unavailable(error: &StoreError) -> bool {
    let error = error.0.downcast_ref::<EngineJournalError>();
    matches!(
        error,
        Some(EngineJournalError::Engine(super::EngineError::Unavailable(
            _
        )))
    )
}
