//! The journal in an engine that several machines run: one row, and numbered records.
//!
//! The row names the last record and the manager that may append the next one. An append replaces the row and adds the
//! record in one transaction, if the row is the one that this manager has written last. So of two managers one appends.
//! Each record has the hash of the one before: a journal that has lost records, or got others, is noticed.

use super::changes::Changes;
use super::record;
use super::store::failed;
use super::{Appended, Journal, Mark, Unapplied};
use crate::limits::{
    ENGINE_GENERATION_LEN, ENGINE_LEASE, ENGINE_TAIL_MAX, MANAGER_NAME_LEN_MAX, RECORDS_AT_A_TIME,
};
use crate::{MetaStore, StoreError, Table};
use gannet_wire::volume::Token;
use gannet_wire::xdr::{Decoder, Encoder, XdrError};
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;
use thiserror::Error;

/// The version of rows and records.
const FORMAT: u32 = 1;
/// A manager that has seen the row since so many renewals is there.
const RENEWALS_KNOWN: usize = 4;
/// The owner of a row that no manager has.
const NOBODY: Token = [0; 16];

/// A hash of a record, and by that of all records before it.
pub type RecordHash = [u8; 32];

/// A row, and the version that the engine has given to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// Different for each write of the row.
    pub version: u64,
    /// The bytes that were written.
    pub bytes: Vec<u8>,
}

/// Why an engine does not do what it is asked for.
#[derive(Debug, Error)]
pub enum EngineError {
    /// It does not answer, or has no quorum: what was asked for may have been done.
    #[error("{0}")]
    Unavailable(String),
    /// It says that it does not do it.
    #[error("{0}")]
    Refused(String),
}

/// An engine that keeps one row and numbered records of a volume durably, on several machines.
///
/// Each call waits for the engine, for a few seconds at most.
pub trait Engine: Send + 'static {
    /// Its name for people.
    fn name(&self) -> &'static str;

    /// The row as it is now at a majority of the engine's machines; `None` if it was never written.
    ///
    /// # Errors
    /// See [`EngineError`].
    fn row(&mut self) -> Result<Option<Row>, EngineError>;

    /// Replaces the row if it is still `old` (`None`: if there is none), and adds a record, in one transaction that is
    /// durable at a majority. Returns the new version; `None` if the row was another one.
    ///
    /// # Errors
    /// See [`EngineError`].
    fn replace(
        &mut self,
        old: Option<&Row>,
        row: &[u8],
        record: Option<(u64, &[u8])>,
    ) -> Result<Option<u64>, EngineError>;

    /// The first records behind this number, at most `count`, in the order of their numbers.
    ///
    /// # Errors
    /// See [`EngineError`].
    fn records(&mut self, after: u64, count: usize) -> Result<Vec<(u64, Vec<u8>)>, EngineError>;

    /// Removes the records up to this number.
    ///
    /// # Errors
    /// See [`EngineError`].
    fn remove(&mut self, up_to: u64) -> Result<(), EngineError>;

    /// Replaces the note of the manager of this name.
    ///
    /// # Errors
    /// See [`EngineError`].
    fn note(&mut self, name: &str, note: FollowerNote) -> Result<(), EngineError>;

    /// The notes of managers by their names.
    ///
    /// # Errors
    /// See [`EngineError`].
    fn notes(&mut self) -> Result<BTreeMap<String, FollowerNote>, EngineError>;

    /// Waits a little after an attempt that was [`Unavailable`](EngineError::Unavailable), the first or a later one
    /// of the same request. False: it is time to give up.
    fn wait(&mut self, attempt: u32) -> bool;
}

/// The progress of a manager that stands by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FollowerNote {
    /// It has all records up to this number.
    pub has: u64,
    /// The version of the row that it has seen last. The active manager replaces the row every second, so this tells
    /// whether the other one is there.
    pub seen: u64,
}

/// A manager in the eyes of the others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ManagerName {
    /// Where it is, for people and in [`Engine::note`]; at most 255 bytes.
    pub name: String,
    /// A random number of its start.
    pub owner: Token,
}

/// A journal in an engine, and the managers that were ever there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Followers {
    /// The name of the engine.
    pub engine: &'static str,
    /// The manager that appends.
    pub manager: String,
    /// The last record.
    pub last: u64,
    /// The others.
    pub followers: Vec<Follower>,
}

/// A manager that stands by, or did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Follower {
    /// Its name.
    pub name: String,
    /// The last record that it has.
    pub has: u64,
    /// It has looked at the row in the last seconds.
    pub is_there: bool,
}

/// Why the journal of a volume cannot be used in an engine.
#[derive(Debug, Error)]
pub enum EngineJournalError {
    /// The engine fails.
    #[error("the engine of its journal fails: {0}")]
    Engine(#[from] EngineError),
    /// The row is of another version of this program.
    #[error("the row of its journal has format {0}, and this release knows {FORMAT}")]
    Format(u32),
    /// The row or a record cannot be decoded.
    #[error("its journal is damaged in the engine")]
    Damaged,
    /// Another volume has its journal there.
    #[error("the engine has the journal of another volume there")]
    Foreign,
    /// The engine lacks records that the metadata here have: it was restored from a backup.
    #[error(
        "the engine has records up to {engine}, and the metadata here have {here}: it was restored from a backup, or is a new one (--force-term begins a journal there from the metadata here)"
    )]
    Behind {
        /// The last record of the engine.
        engine: u64,
        /// The last one that is applied here.
        here: u64,
    },
    /// The metadata here are older than the oldest record, or have other ones.
    #[error(
        "the metadata here do not belong to the journal in the engine: record {0} does not follow them (move `metadata` away, and start while another manager is active: it is copied from there)"
    )]
    Apart(u64),
    /// Another manager has begun.
    #[error("another manager has taken the journal over: {0}")]
    Fenced(String),
    /// The row is an older one of this manager.
    #[error(
        "the engine of the journal has lost changes that it had confirmed: it goes on behind record {0}"
    )]
    Undone(u64),
    /// An append failed earlier, for this reason. Another manager sees whether its record is there.
    #[error("the journal could not be written earlier: {0}")]
    Lost(String),
    /// It was given up for another manager.
    #[error("the journal was given up for another manager")]
    Released,
    /// This host lacks what it takes to ask the engine; the text says what, and what to do.
    #[error("{0}")]
    SetUp(String),
    /// A change is longer than a record may be.
    #[error("a change of {0} bytes is longer than a record of the engine")]
    TooLong(usize),
}

/// The content of the row.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Head {
    /// The number of openings.
    term: u64,
    /// The manager that may append.
    manager: ManagerName,
    /// The number of the last record.
    last: u64,
    hash: RecordHash,
}

impl Head {
    fn to_bytes(&self, identity: &Token) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut encoder = Encoder::new(&mut bytes);
        encoder.u32(FORMAT);
        encoder.fixed(identity);
        encoder.u64(self.term);
        encoder.fixed(&self.manager.owner);
        encoder.opaque(self.manager.name.as_bytes());
        encoder.u64(self.last);
        encoder.fixed(&self.hash);
        bytes
    }

    fn of_bytes(bytes: &[u8], identity: &Token) -> Result<Head, EngineJournalError> {
        let mut decoder = Decoder::new(bytes);
        let damaged = |_: XdrError| EngineJournalError::Damaged;
        let format = decoder.u32().map_err(damaged)?;
        if format != FORMAT {
            return Err(EngineJournalError::Format(format));
        }
        if *decoder.fixed::<16>().map_err(damaged)? != *identity {
            return Err(EngineJournalError::Foreign);
        }
        let term = decoder.u64().map_err(damaged)?;
        let owner = *decoder.fixed().map_err(damaged)?;
        let name = decoder.opaque(MANAGER_NAME_LEN_MAX).map_err(damaged)?;
        let name = String::from_utf8_lossy(name).into_owned();
        let head = Head {
            term,
            manager: ManagerName { name, owner },
            last: decoder.u64().map_err(damaged)?,
            hash: *decoder.fixed().map_err(damaged)?,
        };
        decoder.finish().map_err(damaged)?;
        // Both grow by one at a time.
        if head.term.max(head.last) == u64::MAX {
            return Err(EngineJournalError::Damaged);
        }
        Ok(head)
    }
}

/// The state of a row, for a manager that does not have it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RowState {
    /// The version of the row. While it stays the same, its manager has not been heard of.
    pub version: u64,
    /// The number of openings.
    pub term: u64,
    /// The name of the manager that may append; `None` if it has given the row up.
    pub manager: Option<String>,
    /// The number of the last record.
    pub last: u64,
}

/// A journal in an engine.
pub(super) struct EngineJournal {
    engine: Box<dyn Engine>,
    identity: Token,
    manager: ManagerName,
    /// The row that this manager has read or written last.
    row: Option<Row>,
    head: Head,
    /// The last record of the older generation.
    older: u64,
    /// The last records of generations that may still be in the engine.
    generations: VecDeque<u64>,
    /// Bytes of the present generation.
    used: u64,
    /// The last versions of the row that this manager has written without a record, once a second: one that looks at
    /// the row sees some of them.
    renewed: VecDeque<u64>,
    /// The manager before this one has given the row up, and so answers nobody any more.
    follows_release: bool,
    /// [`EngineJournal::row`] is the last that another manager may have written.
    is_held_to: bool,
    /// See [`EngineJournal::force`].
    is_forced: bool,
    /// How many records are asked for together: fewer where these do not come in time.
    at_a_time: usize,
}

impl EngineJournal {
    /// The journal of volume `identity`, for a manager.
    pub(super) fn new(
        engine: Box<dyn Engine>,
        identity: Token,
        manager: ManagerName,
    ) -> EngineJournal {
        debug_assert!(manager.owner != NOBODY && manager.name.len() <= MANAGER_NAME_LEN_MAX);
        EngineJournal {
            engine,
            identity,
            head: Head {
                term: 0,
                manager: manager.clone(),
                last: 0,
                hash: RecordHash::default(),
            },
            manager,
            row: None,
            older: 0,
            generations: VecDeque::new(),
            used: 0,
            renewed: VecDeque::new(),
            follows_release: false,
            is_held_to: false,
            is_forced: false,
            at_a_time: RECORDS_AT_A_TIME,
        }
    }

    /// The state of the row, if there is one.
    pub(super) fn row_state(&self) -> Option<RowState> {
        let version = self.row.as_ref()?.version;
        let Head {
            term,
            manager,
            last,
            ..
        } = self.head.clone();
        Some(RowState {
            version,
            term,
            manager: (manager.owner != NOBODY).then_some(manager.name),
            last,
        })
    }

    /// Reads the row, and gives the changes of all records behind those of a store to `down`, with the store's next
    /// mark.
    pub(super) fn follow(
        &mut self,
        mark: Mark,
        down: &mut dyn FnMut(Changes, Mark) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let row = self.engine.row().map_err(engine_failed)?;
        if self.is_held_to && row != self.row {
            let by = row.and_then(|row| Head::of_bytes(&row.bytes, &self.identity).ok());
            let by = by.map(|head| head.manager.name).unwrap_or_default();
            return Err(failed(EngineJournalError::Fenced(by)));
        }
        if let Some(row) = row {
            self.head = Head::of_bytes(&row.bytes, &self.identity).map_err(failed)?;
            self.row = Some(row);
        } else if self.row.take().is_some() {
            self.head.last = 0;
        }
        // A store that had its journal in a file has its own bytes for the record before the first.
        let (number, hash) = (mark.applied, mark.chain.unwrap_or_default());
        let number = if mark.chain.is_some() { number } else { 0 };
        if self.head.last < number {
            let (engine, here) = (self.head.last, number);
            if !self.is_forced {
                return Err(failed(EngineJournalError::Behind { engine, here }));
            }
            tracing::warn!(engine, here, "the journal goes on from the metadata here");
            self.head.last = number;
            self.head.hash = mark.chain.unwrap_or_default();
        }
        if self.row.is_none() {
            self.head.hash = hash;
        }
        let (mut last, mut hash) = (number, hash);
        while last < self.head.last {
            let records = self.engine.records(last, self.at_a_time);
            self.at_a_time = match &records {
                Ok(_) => RECORDS_AT_A_TIME.min(2 * self.at_a_time),
                // A slow way, or an answer that is too long for the engine.
                Err(_) => (self.at_a_time / 2).max(1),
            };
            let records = records.map_err(engine_failed)?;
            if records.is_empty() {
                return Err(failed(EngineJournalError::Apart(last + 1)));
            }
            let mut changes = Changes::default();
            for (number, bytes) in records {
                let record = record::decode_chained(&bytes, number, &hash);
                let record = record.filter(|_| number == last + 1);
                let apart = || failed(EngineJournalError::Apart(last + 1));
                changes.absorb(record.ok_or_else(apart)?);
                (last, hash) = (number, hash_of(&bytes));
                if last == self.head.last {
                    break;
                }
            }
            if last == self.head.last && hash != self.head.hash {
                break;
            }
            let mark = Mark {
                epoch: self.head.term,
                applied: last,
                chain: Some(hash),
            };
            down(changes, mark)?;
        }
        if hash != self.head.hash {
            return Err(failed(EngineJournalError::Apart(last + 1)));
        }
        Ok(())
    }

    /// An engine with fewer records than the metadata here have gets the journal anew from these.
    pub(super) fn force(&mut self) {
        self.is_forced = true;
    }

    /// From now on, a row that another manager writes is not followed.
    pub(super) fn hold_to_row(&mut self) {
        self.is_held_to = true;
    }

    /// Notes in the engine that the store of this manager has all records up to a number.
    pub(super) fn note(&mut self, has: u64) -> Result<(), StoreError> {
        let seen = self.row.as_ref().map_or(0, |row| row.version);
        let noted = self
            .engine
            .note(&self.manager.name, FollowerNote { has, seen });
        noted.map_err(engine_failed)
    }

    /// Waits after an attempt of [`EngineJournal::follow`] that failed.
    pub(super) fn wait(&mut self, attempt: u32) -> bool {
        self.engine.wait(attempt)
    }

    /// Replaces the row, and adds a record. An attempt without an answer may have done it: the next one shows.
    fn replace(
        &mut self,
        head: Head,
        record: Option<(u64, &[u8])>,
    ) -> Result<(), EngineJournalError> {
        let row = head.to_bytes(&self.identity);
        let mut attempt = 0;
        let version = loop {
            match self.try_replace(&row, record) {
                Ok(version) => break version,
                Err(EngineJournalError::Engine(EngineError::Unavailable(why))) => {
                    if attempt == 0 {
                        tracing::warn!(%why, "changes wait for the engine of the journal");
                    }
                    if !self.engine.wait(attempt) {
                        return Err(EngineError::Unavailable(why).into());
                    }
                    attempt += 1;
                }
                Err(error) => return Err(error),
            }
        };
        self.row = Some(Row {
            version,
            bytes: row,
        });
        self.head = head;
        if record.is_none() {
            self.renewed.push_back(version);
            while self.renewed.len() > RENEWALS_KNOWN {
                self.renewed.pop_front();
            }
        }
        Ok(())
    }

    fn try_replace(
        &mut self,
        row: &[u8],
        record: Option<(u64, &[u8])>,
    ) -> Result<u64, EngineJournalError> {
        if let Some(version) = self.engine.replace(self.row.as_ref(), row, record)? {
            return Ok(version);
        }
        // An attempt before this one, perhaps, whose answer was lost. A renewal is not told from the one before it,
        // which is as good.
        let found = self.engine.row()?;
        if let Some(found) = found.as_ref().filter(|found| found.bytes == row) {
            return Ok(found.version);
        }
        // Whoever wrote it, or removed it.
        let by = found.and_then(|found| Head::of_bytes(&found.bytes, &self.identity).ok());
        if let Some(head) = by.as_ref().filter(|head| head.manager == self.manager) {
            return Err(EngineJournalError::Undone(head.last));
        }
        let by = by.map_or(String::from("by unknown hands"), |head| head.manager.name);
        Err(EngineJournalError::Fenced(by))
    }
}

fn engine_failed(error: EngineError) -> StoreError {
    failed(EngineJournalError::Engine(error))
}

/// The hash that stands for all pairs of a store before the first record: of the pairs themselves, so that copies of a
/// store have the same one. An empty store has zeros.
pub(super) fn base_hash(base: &dyn MetaStore, but: &[u8]) -> Result<RecordHash, StoreError> {
    let mut hasher = blake3::Hasher::new();
    let (mut is_empty, mut scanned) = (true, Ok(()));
    base.read(&mut |view| {
        for table in Table::ALL {
            let each = &mut |key: &[u8], value: &[u8]| {
                if table == Table::Volume && key == but {
                    return true;
                }
                is_empty = false;
                hasher.update(&[table as u8]);
                for part in [key, value] {
                    hasher.update(&(part.len() as u64).to_be_bytes());
                    hasher.update(part);
                }
                true
            };
            scanned = view.scan(table, &[], each);
            if scanned.is_err() {
                return;
            }
        }
    })?;
    scanned?;
    if is_empty {
        return Ok(RecordHash::default());
    }
    Ok(*hasher.finalize().as_bytes())
}

fn hash_of(record: &[u8]) -> RecordHash {
    *blake3::hash(record).as_bytes()
}

impl Journal for EngineJournal {
    fn recover(&mut self, mark: Mark) -> Result<Unapplied, StoreError> {
        let mut unapplied = Unapplied {
            changes: Changes::default(),
            mark,
        };
        self.follow(mark, &mut |changes, mark| {
            unapplied.changes.absorb(changes);
            unapplied.mark = mark;
            Ok(())
        })?;
        self.older = self.head.last;
        // Of what earlier managers have left, a part goes with each generation of this one.
        let first = self.engine.records(0, 1).map_err(engine_failed)?;
        let first = first.first().map_or(self.older, |(number, _)| *number);
        let parts = ENGINE_TAIL_MAX as u64;
        let left = self.older.saturating_sub(first);
        self.generations = (1..=parts)
            .map(|part| first + left / parts * part)
            .collect();
        self.generations.push_back(self.older);
        Ok(unapplied)
    }

    /// Takes the row over: from then on, no other manager appends.
    fn begin(&mut self) -> Result<Mark, StoreError> {
        self.follows_release = self.row.is_some() && self.head.manager.owner == NOBODY;
        let head = Head {
            term: self.head.term + 1,
            manager: self.manager.clone(),
            ..self.head.clone()
        };
        self.replace(head, None).map_err(failed)?;
        Ok(Journal::mark(self))
    }

    fn append(&mut self, changes: &Changes) -> Result<Appended, StoreError> {
        let (number, previous) = (self.head.last + 1, &self.head.hash);
        let (record, len) = match record::encode_chained(number, previous, changes) {
            Ok(encoded) => encoded,
            Err(len) => return Ok(Appended::TooLong(len)),
        };
        if self.used > 0 && self.used + len as u64 > ENGINE_GENERATION_LEN {
            return Ok(Appended::Full);
        }
        debug_assert_eq!(self.head.manager, self.manager, "the row is this manager's");
        let head = Head {
            last: number,
            hash: hash_of(&record),
            ..self.head.clone()
        };
        self.replace(head, Some((number, &record)))
            .map_err(failed)?;
        self.used += len as u64;
        Ok(Appended::Durable)
    }

    /// Records go when this manager's store and those of all that follow have them. One that was away for long gets a
    /// copy of a store.
    fn trim(&mut self) {
        let trimmed = self.engine.notes().and_then(|notes| {
            let others = notes.iter().filter(|(name, _)| **name != self.manager.name);
            let all_have = others.map(|(_, it)| it.has).min().unwrap_or(u64::MAX);
            let too_many = self.generations.len().saturating_sub(ENGINE_TAIL_MAX);
            let too_old = too_many
                .checked_sub(1)
                .and_then(|at| self.generations.get(at));
            let up_to = self.older.min(all_have.max(too_old.copied().unwrap_or(0)));
            self.engine.remove(up_to)?;
            self.generations.retain(|end| *end > up_to);
            Ok(())
        });
        // What stays there is removed the next time.
        if let Err(error) = trimmed {
            tracing::warn!(%error, "records that the metadata have stay in the engine of their journal");
        }
        (self.older, self.used) = (self.head.last, 0);
        self.generations.push_back(self.older);
    }

    fn lease(&self) -> Option<Duration> {
        Some(ENGINE_LEASE)
    }

    fn follows_release(&self) -> bool {
        self.follows_release
    }

    fn followers(&mut self) -> Result<Option<Followers>, StoreError> {
        let notes = self.engine.notes().map_err(engine_failed)?;
        let oldest = self.renewed.front().copied();
        let others = notes
            .into_iter()
            .filter(|(name, _)| *name != self.manager.name);
        let followers = others.map(|(name, note)| Follower {
            name,
            has: note.has,
            is_there: oldest.is_some_and(|oldest| note.seen >= oldest),
        });
        Ok(Some(Followers {
            engine: self.engine.name(),
            manager: self.manager.name.clone(),
            last: self.head.last,
            followers: followers.collect(),
        }))
    }

    fn renew(&mut self) -> Result<(), StoreError> {
        let head = self.head.clone();
        self.replace(head, None).map_err(failed)
    }

    fn release(&mut self) -> Result<(), StoreError> {
        let manager = ManagerName {
            name: String::new(),
            owner: NOBODY,
        };
        let head = Head {
            manager,
            ..self.head.clone()
        };
        self.replace(head, None).map_err(failed)
    }

    fn mark(&self) -> Mark {
        Mark {
            epoch: self.head.term,
            applied: self.head.last,
            chain: Some(self.head.hash),
        }
    }

    fn used(&self) -> u64 {
        self.used
    }
}
