//! A store, its journal, and what is in the journal alone.

use super::changes::{ChangedPair, Changes, Layered};
use super::disk::DiskFile;
use super::file::FileJournal;
use super::record::Header;
use super::{
    Appended, EngineJournalError, Followers, Journal, JournalError, JournalFile, Mark, RecordHash,
};
use crate::limits::{JOURNAL_HALF_LEN, PAGE_VALUE_MAX};
use crate::redb_store::RedbStore;
use crate::{MetaStore, StoreError, StoreLengths, Table, Transaction, View};
use gannet_wire::volume::Token;
use gannet_wire::xdr::{Decoder, Encoder, XdrError};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Duration;

/// A store with a journal before it. Locks are taken in this order: the writer's, the checkpoint's, what is recent.
pub struct JournaledStore {
    base: Arc<dyn MetaStore>,
    writer: Mutex<Writer>,
    checkpointing: Mutex<()>,
    recent: RwLock<Recent>,
    lengths: HalfLengths,
    lease: Option<Duration>,
    follows_release: bool,
}

/// Used bytes of the halves, as of the last commit and checkpoint.
#[derive(Default)]
struct HalfLengths {
    active: AtomicU64,
    /// Bytes of the full half, while its checkpoint is not done.
    full: AtomicU64,
}

struct Writer {
    journal: Box<dyn Journal>,
    /// Why an append failed. Another record would follow one that may not be there, and be lost at the next start.
    failed: Option<String>,
}

/// Changes that are durable in the journal and not in the store below.
#[derive(Default)]
struct Recent {
    active: Changes,
    /// The changes of the full half.
    full: Arc<Changes>,
    /// The mark that the store below gets with those, while their checkpoint is not done.
    checkpoint: Option<Mark>,
    /// The last record whose changes are here or in the store below, of a journal in an engine.
    last: Option<(u64, RecordHash)>,
}

/// Where the store below keeps its [`Mark`].
pub(super) const MARK: &[u8] = b"journal";

impl JournaledStore {
    /// Opens the redb file at `path`, or makes it, with its journal beside it, that of volume `identity`. Up to
    /// `cache_len` bytes of the file stay in memory.
    ///
    /// # Errors
    /// One of them cannot be opened or read, or the file is open elsewhere, or they do not belong together; see
    /// [`JournalError`].
    pub fn open(
        path: &Path,
        cache_len: usize,
        identity: Token,
    ) -> Result<JournaledStore, StoreError> {
        let base = RedbStore::open(path, cache_len)?;
        let journal = path.with_extension("journal");
        let file = match DiskFile::open(&journal).map_err(failed)? {
            Some(file) => file,
            None if mark_of(&base)?.is_some() => return Err(failed(JournalError::Missing)),
            None => {
                let header = Header {
                    identity,
                    half_len: JOURNAL_HALF_LEN,
                };
                DiskFile::make(&journal, header).map_err(failed)?
            }
        };
        JournaledStore::over(Arc::new(base), Box::new(file), identity)
    }

    /// Puts the journal in `file`, that of volume `identity`, before `base`, which gets what it does not have yet.
    ///
    /// # Errors
    /// One of them fails, or they do not belong together.
    pub fn over(
        base: Arc<dyn MetaStore>,
        file: Box<dyn JournalFile>,
        identity: Token,
    ) -> Result<JournaledStore, StoreError> {
        let journal = FileJournal::open(file, &identity)?;
        JournaledStore::with(base, Box::new(journal))
    }

    pub(super) fn with(
        base: Arc<dyn MetaStore>,
        mut journal: Box<dyn Journal>,
    ) -> Result<JournaledStore, StoreError> {
        let mark = mark_of(&*base)?.unwrap_or_default();
        let unapplied = journal.recover(mark)?;
        put_down_in_parts(&*base, &unapplied.changes, unapplied.mark)?;
        let mark = journal.begin()?;
        put_down(&*base, &[], Some(mark))?;
        let (lease, follows_release) = (journal.lease(), journal.follows_release());
        let writer = Writer {
            journal,
            failed: None,
        };
        Ok(JournaledStore {
            base,
            writer: Mutex::new(writer),
            checkpointing: Mutex::default(),
            recent: RwLock::new(Recent {
                last: mark.chain.map(|hash| (mark.applied, hash)),
                ..Recent::default()
            }),
            lengths: HalfLengths::default(),
            lease,
            follows_release,
        })
    }

    /// Lets another manager have a journal in an engine at once, and refuses changes from then on. A journal in a file
    /// is left as it is.
    ///
    /// # Errors
    /// The engine fails: another manager waits for the end of the lease.
    pub fn release(&self) -> Result<(), StoreError> {
        let mut writer = self.writer();
        if writer.failed.is_some() || self.lease.is_none() {
            return Ok(());
        }
        writer.failed = Some(EngineJournalError::Released.to_string());
        writer.journal.release()
    }

    fn writer(&self) -> MutexGuard<'_, Writer> {
        self.writer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn recent(&self) -> RwLockReadGuard<'_, Recent> {
        self.recent.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn recent_mut(&self) -> RwLockWriteGuard<'_, Recent> {
        self.recent.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs `work` over the present pairs; gives its changes, which no reader sees yet.
    fn perform(
        &self,
        work: &mut dyn FnMut(&mut dyn Transaction) -> Result<(), StoreError>,
    ) -> Result<Changes, StoreError> {
        let recent = self.recent();
        let mut outcome = Ok(Changes::default());
        self.base.read(&mut |base| {
            let mut changing = Changing {
                own: Changes::default(),
                before: [&recent.active, &recent.full],
                base,
            };
            outcome = work(&mut changing).map(|()| changing.own);
        })?;
        outcome
    }

    /// Makes room for commits: a checkpoint moves the older records down, and those of now become the older ones.
    fn turn(&self, journal: &mut dyn Journal) -> Result<(), StoreError> {
        self.checkpoint()?;
        let mut recent = self.recent_mut();
        recent.full = Arc::new(std::mem::take(&mut recent.active));
        recent.checkpoint = Some(journal.mark());
        // An engine takes its time, and readers must not wait for it.
        drop(recent);
        let lengths = &self.lengths;
        lengths.full.store(journal.used(), Ordering::Relaxed);
        journal.trim();
        lengths.active.store(journal.used(), Ordering::Relaxed);
        Ok(())
    }
}

impl Writer {
    /// Checks that records can follow the last one. With a lease, other processes may append them.
    fn must_work(&self, lease: Option<Duration>) -> Result<(), StoreError> {
        match (self.failed.clone(), lease) {
            (None, _) => Ok(()),
            (Some(why), None) => Err(failed(JournalError::Failed(why))),
            (Some(why), Some(_)) => Err(failed(EngineJournalError::Lost(why))),
        }
    }
}

/// Whether another manager would take the journal over.
fn has_standby(journal: &mut dyn Journal) -> bool {
    let known = journal.followers().ok().flatten();
    known.is_some_and(|known| known.followers.iter().any(|it| it.is_there))
}

impl MetaStore for JournaledStore {
    fn read(&self, look: &mut dyn FnMut(&dyn View)) -> Result<(), StoreError> {
        // The journal's changes are read before the base: a checkpoint between the two adds them to the base, and reads
        // find them twice. In the other order they would be missed.
        let recent = self.recent();
        let layers = [&recent.active, &*recent.full];
        self.base.read(&mut |base| look(&Layered { layers, base }))
    }

    fn commit(
        &self,
        work: &mut dyn FnMut(&mut dyn Transaction) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let mut writer = self.writer();
        writer.must_work(self.lease)?;
        let Writer {
            journal,
            failed: broken,
        } = &mut *writer;
        let journal = &mut **journal;
        let changes = self.perform(work)?;
        if changes.is_empty() {
            return Ok(());
        }
        let append = |journal: &mut dyn Journal, broken: &mut Option<String>| {
            let appended = journal.append(&changes);
            appended.inspect_err(|error| *broken = Some(error.to_string()))
        };
        let mut appended = append(journal, broken)?;
        if appended == Appended::Full {
            let turned = self.turn(journal);
            if let Err(error) = &turned
                && has_standby(journal)
            {
                // The disk here does not work. That of the other manager may, which takes over when the lease ends.
                *broken = Some(error.to_string());
            }
            turned?;
            appended = append(journal, broken)?;
        }
        debug_assert_ne!(
            appended,
            Appended::Full,
            "a generation has room for a record"
        );
        if let Appended::TooLong(len) = appended {
            if journal.mark().chain.is_some() {
                // Another manager would not see it.
                return Err(failed(EngineJournalError::TooLong(len)));
            }
            // Changes of both generations are older, so their checkpoints come first.
            self.turn(journal)?;
            self.checkpoint()?;
            let pairs: Vec<_> = changes.iter().collect();
            return put_down(&*self.base, &pairs, Some(journal.mark()));
        }
        self.lengths.active.store(journal.used(), Ordering::Relaxed);
        let last = journal.mark();
        let mut recent = self.recent_mut();
        recent.active.absorb(changes);
        recent.last = last.chain.map(|hash| (last.applied, hash));
        Ok(())
    }

    fn has_room(&self) -> bool {
        self.base.has_room()
    }

    fn needs_checkpoint(&self) -> bool {
        self.recent().checkpoint.is_some()
    }

    fn checkpoint(&self) -> Result<(), StoreError> {
        let _alone = self
            .checkpointing
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let (full, mark) = {
            let recent = self.recent();
            let Some(mark) = recent.checkpoint else {
                return Ok(());
            };
            (Arc::clone(&recent.full), mark)
        };
        put_down_in_parts(&*self.base, &full, mark)?;
        let mut recent = self.recent_mut();
        recent.checkpoint = None;
        recent.full = Arc::default();
        self.lengths.full.store(0, Ordering::Relaxed);
        // Freed after the lock: with many pairs, readers would wait.
        drop(recent);
        drop(full);
        Ok(())
    }

    fn lease(&self) -> Option<Duration> {
        self.lease
    }

    fn follows_release(&self) -> bool {
        self.follows_release
    }

    fn followers(&self) -> Result<Option<Followers>, StoreError> {
        self.writer().journal.followers()
    }

    fn last_record(&self) -> Option<(u64, RecordHash)> {
        self.recent().last
    }

    fn renew(&self) -> Result<(), StoreError> {
        let mut writer = self.writer();
        writer.must_work(self.lease)?;
        let renewed = writer.journal.renew();
        renewed.inspect_err(|error| writer.failed = Some(error.to_string()))
    }

    fn lengths(&self) -> StoreLengths {
        let [active, full] = [&self.lengths.active, &self.lengths.full];
        StoreLengths {
            journal: active.load(Ordering::Relaxed) + full.load(Ordering::Relaxed),
            ..self.base.lengths()
        }
    }
}

/// A transaction: its changes over those of the journal, over the base.
struct Changing<'a> {
    own: Changes,
    before: [&'a Changes; 2],
    base: &'a dyn View,
}

impl Changing<'_> {
    fn view(&self) -> Layered<'_, 3> {
        let [active, full] = self.before;
        Layered {
            layers: [&self.own, active, full],
            base: self.base,
        }
    }
}

impl View for Changing<'_> {
    fn get(&self, table: Table, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        self.view().get(table, key)
    }

    fn scan(
        &self,
        table: Table,
        from: &[u8],
        each: &mut dyn FnMut(&[u8], &[u8]) -> bool,
    ) -> Result<(), StoreError> {
        self.view().scan(table, from, each)
    }
}

impl Transaction for Changing<'_> {
    fn put(&mut self, table: Table, key: &[u8], value: &[u8]) -> Result<(), StoreError> {
        self.own.set(table, key.to_vec(), Some(value.to_vec()));
        Ok(())
    }

    fn delete(&mut self, table: Table, key: &[u8]) -> Result<(), StoreError> {
        self.own.set(table, key.to_vec(), None);
        Ok(())
    }
}

pub(super) fn failed(error: impl std::error::Error + Send + Sync + 'static) -> StoreError {
    StoreError(Box::new(error))
}

/// The mark of the last checkpoint of a store, if it ever had a journal.
pub(super) fn mark_of(base: &dyn MetaStore) -> Result<Option<Mark>, StoreError> {
    let mut found = Ok(None);
    base.read(&mut |view| found = view.get(Table::Volume, MARK))?;
    let Some(value) = found? else {
        return Ok(None);
    };
    let mut decoder = Decoder::new(&value);
    let mut decode = || {
        let (epoch, applied) = (decoder.u64()?, decoder.u64()?);
        let chain = match decoder.remaining() {
            [] => None,
            _ => Some(*decoder.fixed()?),
        };
        decoder.finish()?;
        Ok(Mark {
            epoch,
            applied,
            chain,
        })
    };
    let mark = decode().map_err(|_: XdrError| failed(JournalError::Damaged));
    mark.map(Some)
}

/// Writes changes that are durable in the journal into a store, in commits for which it has room, and the mark in the
/// last of them. Until then the journal's changes hide those in the store, so no reader sees a part.
pub(super) fn put_down_in_parts(
    base: &dyn MetaStore,
    changes: &Changes,
    mark: Mark,
) -> Result<(), StoreError> {
    let mut pairs = changes.iter().peekable();
    loop {
        let (mut part, mut room) = (Vec::new(), base.pairs_at_once());
        while let Some(pair) = pairs.next_if(|it| part.is_empty() || pages_of(it) <= room) {
            room = room.saturating_sub(pages_of(&pair));
            part.push(pair);
        }
        let mark = pairs.peek().is_none().then_some(mark);
        put_down(base, &part, mark)?;
        if mark.is_some() {
            return Ok(());
        }
    }
}

/// The number of pages that a pair may take.
fn pages_of(pair: &ChangedPair<'_>) -> usize {
    1 + pair.value.map_or(0, <[u8]>::len) / PAGE_VALUE_MAX
}

/// Writes changes into a store in one commit, with the mark if there is one.
pub(super) fn put_down(
    base: &dyn MetaStore,
    pairs: &[ChangedPair<'_>],
    mark: Option<Mark>,
) -> Result<(), StoreError> {
    base.commit(&mut |transaction| {
        for ChangedPair { table, key, value } in pairs {
            match value {
                Some(value) => transaction.put(*table, key, value)?,
                None => transaction.delete(*table, key)?,
            }
        }
        let Some(mark) = mark else {
            return Ok(());
        };
        let mut value = Vec::new();
        let mut encoder = Encoder::new(&mut value);
        encoder.u64(mark.epoch);
        encoder.u64(mark.applied);
        mark.chain.iter().for_each(|hash| encoder.fixed(hash));
        transaction.put(Table::Volume, MARK, &value)
    })
}
