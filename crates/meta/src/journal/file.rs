//! The journal in a file: two halves, the place of the next record, and the recovery of records after a crash.

use super::changes::Changes;
use super::record::{self, BLOCK_LEN, Header, Record, RecordNumber};
use super::store::failed;
use super::{Appended, Journal, JournalError, JournalFile, Mark, Unapplied};
use crate::StoreError;
use gannet_wire::volume::Token;
use std::collections::BTreeMap;
use std::io;

/// The number of the first record of each epoch, which changes nothing.
const OPENING: u64 = 1;

/// A journal in a file of fixed length.
pub(super) struct FileJournal {
    file: Box<dyn JournalFile>,
    header: Header,
    epoch: u64,
    /// The number of the last record.
    last: u64,
    /// The half under write, and its used bytes.
    half: u64,
    used: u64,
    /// The bytes of the next record.
    staged: Vec<u8>,
}

/// The records found in a half.
#[derive(Default)]
struct Half {
    records: Vec<Record>,
    /// The latest record behind a gap. It is from before the half was written again, or the gap is damage.
    beyond: Option<RecordNumber>,
}

impl FileJournal {
    /// The journal of volume `identity` in a file.
    ///
    /// # Errors
    /// The file fails, or has no journal of that volume.
    pub(super) fn open(
        file: Box<dyn JournalFile>,
        identity: &Token,
    ) -> Result<FileJournal, StoreError> {
        FileJournal::with_header(file, identity)
            .map_err(failed)?
            .map_err(failed)
    }

    fn with_header(
        file: Box<dyn JournalFile>,
        identity: &Token,
    ) -> io::Result<Result<FileJournal, JournalError>> {
        // The file may have a record that is not durable. Its changes are applied below, so a power failure must not
        // remove it.
        file.sync()?;
        let length = file.length()?;
        let mut block = vec![0; BLOCK_LEN];
        if length < BLOCK_LEN as u64 {
            return Ok(Err(JournalError::Damaged));
        }
        file.read(0, &mut block)?;
        let header = match Header::from_block(&block, identity, length) {
            Ok(header) => header,
            Err(error) => return Ok(Err(error)),
        };
        Ok(Ok(FileJournal {
            file,
            header,
            epoch: 0,
            last: 0,
            half: 0,
            used: 0,
            staged: Vec::new(),
        }))
    }

    /// The records that follow each other from the start of a half, and the latest one behind a gap.
    fn half(&self, half: u64) -> io::Result<Half> {
        // `open` has checked the length of a half against that of the file.
        let mut bytes = vec![0; self.header.half_len as usize];
        self.file.read(self.start_of(half), &mut bytes)?;
        let mut found = Half::default();
        let mut rest = &bytes[..];
        while let Some((record, len)) = record::decode(rest, &self.header.identity) {
            let follows = found.records.last().is_none_or(|last| {
                last.epoch == record.epoch && last.sequence.checked_add(1) == Some(record.sequence)
            });
            if !follows {
                break;
            }
            found.records.push(record);
            rest = rest.get(len..).unwrap_or_default();
        }
        while !rest.is_empty() {
            let number = record::number(rest).filter(|number| Some(*number) > found.beyond);
            if number.is_some() && record::decode(rest, &self.header.identity).is_some() {
                found.beyond = number;
            }
            rest = rest.get(BLOCK_LEN..).unwrap_or_default();
        }
        Ok(found)
    }

    /// Checks the records found: they must follow the last one of the store below without a gap.
    fn take_over(&mut self, found: [Half; 2], mark: Mark) -> Result<Unapplied, JournalError> {
        let ends = [0, 1].map(|half: usize| {
            let last = found[half].records.last();
            last.map(Record::number)
        });
        let unapplied = |changes, applied| {
            let mark = Mark { applied, ..mark };
            Unapplied { changes, mark }
        };
        let newest = ends.into_iter().max().flatten();
        if (found.iter()).any(|half| half.beyond > newest) {
            return Err(JournalError::Damaged);
        }
        let Some(RecordNumber {
            epoch,
            sequence: last,
        }) = newest
        else {
            // The journal was never used.
            return match mark.epoch {
                0 => Ok(unapplied(Changes::default(), 0)),
                _ => Err(JournalError::Apart),
            };
        };
        // Writes go to the half without the newest record. They must not touch that one before the next epoch begins.
        self.half = u64::from(ends[1] < ends[0]);
        let records = found.into_iter().flat_map(|half| half.records);
        let missing: BTreeMap<u64, Changes> = records
            .filter(|it| it.epoch == mark.epoch && it.sequence > mark.applied)
            .map(|it| (it.sequence, it.changes))
            .collect();
        let next_epoch = mark.epoch.checked_add(1).ok_or(JournalError::Damaged)?;
        if (epoch, last) == (next_epoch, OPENING) && missing.is_empty() {
            // The next epoch was about to begin, after the checkpoint of all records of this one.
            return Ok(unapplied(Changes::default(), mark.applied));
        }
        if epoch != mark.epoch || last < mark.applied {
            return Err(JournalError::Apart);
        }
        // Without a gap, there are as many missing records as the last one is ahead.
        if missing.len() as u64 != last - mark.applied {
            return Err(JournalError::Damaged);
        }
        let mut changes = Changes::default();
        missing
            .into_values()
            .for_each(|later| changes.absorb(later));
        Ok(unapplied(changes, last))
    }

    fn stage(&mut self, changes: &Changes) {
        let (identity, sequence) = (&self.header.identity, self.last + 1);
        record::encode(&mut self.staged, identity, self.epoch, sequence, changes);
    }

    /// Makes the staged record durable at the present place, which must have room for it.
    fn write(&mut self) -> io::Result<()> {
        let at = self.start_of(self.half) + self.used;
        self.file.write(at, &self.staged)?;
        self.file.sync()?;
        self.used += self.staged.len() as u64;
        self.last += 1;
        Ok(())
    }

    fn start_of(&self, half: u64) -> u64 {
        BLOCK_LEN as u64 + half * self.header.half_len
    }
}

impl Journal for FileJournal {
    fn recover(&mut self, mark: Mark) -> Result<Unapplied, StoreError> {
        if mark.chain.is_some() {
            return Err(failed(JournalError::InEngine));
        }
        (self.epoch, self.last) = (mark.epoch, mark.applied);
        let found = [self.half(0).map_err(failed)?, self.half(1).map_err(failed)?];
        self.take_over(found, mark).map_err(failed)
    }

    fn begin(&mut self) -> Result<Mark, StoreError> {
        self.epoch += 1;
        (self.last, self.used) = (OPENING - 1, 0);
        self.stage(&Changes::default());
        self.write().map_err(failed)?;
        Ok(self.mark())
    }

    fn append(&mut self, changes: &Changes) -> Result<Appended, StoreError> {
        self.stage(changes);
        let len = self.staged.len() as u64;
        if len > self.header.half_len {
            return Ok(Appended::TooLong(self.staged.len()));
        }
        if len > self.header.half_len - self.used {
            return Ok(Appended::Full);
        }
        self.write().map_err(failed)?;
        Ok(Appended::Durable)
    }

    /// Turns to the other half, whose records the next ones overwrite.
    fn trim(&mut self) {
        self.half = 1 - self.half;
        self.used = 0;
    }

    fn mark(&self) -> Mark {
        Mark {
            epoch: self.epoch,
            applied: self.last,
            chain: None,
        }
    }

    fn used(&self) -> u64 {
        self.used
    }
}
