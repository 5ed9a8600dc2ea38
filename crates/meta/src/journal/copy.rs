//! A copy of a store while changes go on, for a manager that begins to stand by.
//!
//! The pairs are read one after the other, each as it is then. The copy has all changes up to the record that was the
//! last one before the first pair was read, and some of later ones. A record has whole values: the records behind that
//! one make all of it right.

use super::Mark;
use super::changes::ChangedPair;
use super::engine::RecordHash;
use super::store::{MARK, put_down};
use crate::redb_store::RedbStore;
use crate::{StoreError, Table, View};
use gannet_wire::volume::{BODY_MAX, MetadataPair, MetadataRequest};
use std::io;
use std::path::{Path, PathBuf};

/// Bytes of a page beside the bytes of its pairs: record, hash, count.
const PAGE_HEAD_LEN: usize = 8 + 32 + 4;
/// Bytes of a pair beside those of its key and value, with what pads both.
const PAIR_HEAD_LEN: usize = 5 * 4 + 3 + 3;
/// Fewer bytes of a value are left to the next page.
const PART_LEN_MIN: usize = 512;
/// Bytes of pairs that are written at a time.
const WRITE_LEN: usize = 1 << 20;

/// The pairs from a place on, as many as a message holds; the last one may be a part of a value.
///
/// # Errors
/// The store fails.
pub fn pairs_from(
    view: &dyn View,
    wanted: &MetadataRequest,
) -> Result<Vec<MetadataPair>, StoreError> {
    let mut room = BODY_MAX - PAGE_HEAD_LEN;
    let (mut pairs, mut is_full) = (Vec::new(), false);
    for table in Table::ALL {
        if is_full || table.number() < wanted.table {
            continue;
        }
        let is_first = table.number() == wanted.table;
        let from = if is_first { &wanted.key[..] } else { &[] };
        view.scan(table, from, &mut |key, value| {
            if table == Table::Volume && key == MARK {
                return true;
            }
            let is_cut = is_first && key == wanted.key;
            let offset = if is_cut { wanted.offset as usize } else { 0 };
            let rest = value.get(offset..).unwrap_or_default();
            let head = PAIR_HEAD_LEN + key.len();
            let fits = room.saturating_sub(head).min(rest.len());
            if fits < rest.len() && fits < PART_LEN_MIN || room < head {
                is_full = true;
                return false;
            }
            pairs.push(MetadataPair {
                table: table.number(),
                key: key.to_vec(),
                // Values are far shorter than 4 GiB.
                value_len: value.len() as u32,
                offset: offset.min(value.len()) as u32,
                bytes: rest[..fits].to_vec(),
            });
            room -= head + fits;
            is_full = fits < rest.len();
            !is_full
        })?;
    }
    Ok(pairs)
}

/// A store in the making, in a file of its own until it is whole.
pub struct StoreCopy {
    store: RedbStore,
    file: PathBuf,
    path: PathBuf,
    whole: Vec<(Table, Vec<u8>, Vec<u8>)>,
    whole_len: usize,
    /// A pair of which the first bytes are here.
    part: Option<MetadataPair>,
}

impl StoreCopy {
    /// Begins a copy for `path`, where there is no store. What an earlier attempt left is removed.
    ///
    /// # Errors
    /// The disk fails.
    pub fn begin(path: &Path, cache_len: usize) -> Result<StoreCopy, StoreError> {
        let file = path.with_extension("copy");
        match std::fs::remove_file(&file) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(disk(error)),
            _ => {}
        }
        Ok(StoreCopy {
            store: RedbStore::open(&file, cache_len)?,
            file,
            path: path.to_owned(),
            whole: Vec::new(),
            whole_len: 0,
            part: None,
        })
    }

    /// Takes the next pairs; returns what to ask for behind them.
    ///
    /// # Errors
    /// The disk fails, or a pair is of a table that this release does not know.
    pub fn take(&mut self, pairs: Vec<MetadataPair>) -> Result<MetadataRequest, StoreError> {
        let mut next = MetadataRequest::default();
        for pair in pairs {
            let pair = match self.part.take() {
                Some(mut part) if is_continued(&part, &pair) => {
                    part.bytes.extend(pair.bytes);
                    part
                }
                // The rest of a value that has changed meanwhile: a later record has all of it.
                _ if pair.offset > 0 => MetadataPair {
                    offset: 0,
                    value_len: pair.bytes.len() as u32,
                    ..pair
                },
                _ => pair,
            };
            next.table = pair.table;
            next.key.clone_from(&pair.key);
            if pair.bytes.len() < pair.value_len as usize {
                next.offset = pair.bytes.len() as u32;
                self.part = Some(pair);
                continue;
            }
            // The first key behind this one.
            next.key.push(0);
            next.offset = 0;
            let table = Table::from_number(pair.table).ok_or_else(unknown_table)?;
            self.whole_len += pair.key.len() + pair.bytes.len();
            self.whole.push((table, pair.key, pair.bytes));
        }
        if self.whole_len >= WRITE_LEN {
            self.write(None)?;
        }
        Ok(next)
    }

    /// Puts the store into its place, durably. It has all changes up to this record, and the records behind it are to
    /// be applied.
    ///
    /// # Errors
    /// The disk fails.
    pub fn finish(mut self, record: u64, hash: RecordHash) -> Result<(), StoreError> {
        self.write(Some(Mark {
            epoch: 0,
            applied: record,
            chain: Some(hash),
        }))?;
        let StoreCopy {
            store, file, path, ..
        } = self;
        drop(store);
        std::fs::rename(file, &path).map_err(disk)?;
        let folder = path.parent().unwrap_or(Path::new("."));
        let folder = std::fs::File::open(folder).and_then(|it| it.sync_all());
        folder.map_err(disk)
    }

    fn write(&mut self, mark: Option<Mark>) -> Result<(), StoreError> {
        let pairs: Vec<ChangedPair<'_>> = self
            .whole
            .iter()
            .map(|(table, key, value)| ChangedPair {
                table: *table,
                key,
                value: Some(value.as_slice()),
            })
            .collect();
        put_down(&self.store, &pairs, mark)?;
        (self.whole, self.whole_len) = (Vec::new(), 0);
        Ok(())
    }
}

fn is_continued(part: &MetadataPair, next: &MetadataPair) -> bool {
    let same = |it: &MetadataPair| (it.table, it.value_len);
    same(part) == same(next) && part.key == next.key && part.bytes.len() == next.offset as usize
}

fn disk(error: io::Error) -> StoreError {
    StoreError(Box::new(error))
}

fn unknown_table() -> StoreError {
    StoreError("the active manager has a table that this release does not know".into())
}
