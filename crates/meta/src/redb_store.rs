//! A [`MetaStore`] in one file, by redb.
//!
//! Opening a store verifies the whole file by redb's checksums of its pages. Later redb trusts the pages that it
//! reads, and panics on one that has been damaged since. Every call is therefore guarded, and each value has a
//! checksum of its own (`sealed`). Damage is an error and never an answer.
//!
//! Redb also stops working after a write for which the disk had no room. The file therefore has blocks in reserve, for
//! commits of [`MetaStore::pairs_at_once`] pairs.

mod file;
mod reserve;
mod sealed;

use super::{MetaStore, OtherFormat, StoreError, StoreLengths, Table, Transaction, View};
use crate::limits::RESERVE_PAIRS;
use file::ReservedFile;
use redb::{Database, DatabaseError, ReadableDatabase, ReadableTable, StorageError, TableHandle};
use redb::{TableDefinition, TableError};
use reserve::Reserve;
pub use sealed::DamagedValue;
use sealed::{seal, unseal};
use std::cell::{Cell, OnceCell};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};
use std::path::Path;
use std::sync::{Arc, Once};
use thiserror::Error;

/// Most damaged values in a list; a file with more is lost.
const DAMAGE_SHOWN_MAX: usize = 10_000;

/// The version of the file format: of the tables and of their values.
const FORMAT: u32 = 3;
/// The table with the file's format.
const FORMATS: TableDefinition<'static, (), u32> = TableDefinition::new("format");

/// The format of a file; `None` for an empty file.
fn format_of(database: &impl ReadableDatabase) -> Result<Option<u32>, StoreError> {
    let transaction = database.begin_read().map_err(failed)?;
    let tables = transaction.list_tables().map_err(failed)?;
    let names: Vec<String> = tables.map(|it| it.name().to_owned()).collect();
    if names.iter().any(|name| name == FORMATS.name()) {
        let formats = transaction.open_table(FORMATS).map_err(failed)?;
        let said = formats.get(()).map_err(failed)?;
        return Ok(Some(said.map_or(0, |it| it.value())));
    }
    // Files of formats 1 and 2 do not record their format; values of format 1 had no checksums.
    Ok(if names.iter().any(|name| name.starts_with("checked ")) {
        Some(2)
    } else if names.is_empty() {
        None
    } else {
        Some(1)
    })
}

/// Refuses a file of another format before it is opened for writing, because redb writes to every file that it opens
/// so. The opening itself reports all other faults.
fn refuse_other_format(path: &Path) -> Result<(), StoreError> {
    let found = guarded(|| {
        let opened = Database::builder().open_read_only(path).map_err(failed)?;
        format_of(&opened)
    });
    match found {
        Ok(Some(found)) => OtherFormat::check(found, FORMAT).map_err(failed),
        _ => Ok(()),
    }
}

type Pairs = TableDefinition<'static, &'static [u8], &'static [u8]>;

/// A file with a volume's metadata. A second opening fails while the first one exists.
pub struct RedbStore {
    /// `Some` until the store is dropped.
    database: Option<Database>,
    reserve: Arc<Reserve>,
}

impl RedbStore {
    /// Opens or creates the file at `path`, and verifies all of it. Keeps up to `cache_len` bytes of it in memory. On
    /// its disk the file takes some 17 MiB more than it needs, if there is room.
    ///
    /// # Errors
    /// The file:
    ///
    /// - cannot be opened, or is not such a file;
    /// - is damaged ([`StoreError::is_damage`]);
    /// - is open elsewhere ([`StoreError::is_open_elsewhere`]);
    /// - is of another format ([`OtherFormat`]), and stays as it is then.
    pub fn open(path: &Path, cache_len: usize) -> Result<RedbStore, StoreError> {
        refuse_other_format(path)?;
        let store = RedbStore::open_file(path, cache_len, true)?;
        store.check_format()?;
        // Readers find no table that was never written: the deletions create all tables.
        store.commit(&mut |transaction| {
            Table::ALL
                .into_iter()
                .try_for_each(|table| transaction.delete(table, b""))
        })?;
        Ok(store)
    }

    fn open_file(path: &Path, cache_len: usize, verify: bool) -> Result<RedbStore, StoreError> {
        let backend = ReservedFile::open(path).map_err(failed)?;
        let reserve = backend.reserve();
        let mut builder = Database::builder();
        builder
            .set_cache_size(cache_len)
            .set_check_integrity_on_open(verify);
        let database = guarded(|| builder.create_with_backend(backend).map_err(failed))?;
        reserve.renew();
        Ok(RedbStore {
            database: Some(database),
            reserve,
        })
    }

    /// The damaged values of a file: those that differ from the written ones.
    ///
    /// # Errors
    /// The damage is too large to find the single values.
    pub fn damaged_values(path: &Path, cache_len: usize) -> Result<Vec<DamagedValue>, StoreError> {
        let store = RedbStore::open_file(path, cache_len, false)?;
        let transaction = guarded(|| store.database()?.begin_read().map_err(failed))?;
        let view = Open::new(&transaction);
        let mut damaged = Vec::new();
        for table in Table::ALL {
            view.scan_stored(table, b"", &mut |key, stored| {
                damaged.extend(unseal(table, key, stored).err());
                Ok(damaged.len() < DAMAGE_SHOWN_MAX)
            })?;
        }
        Ok(damaged)
    }

    /// Checks that the file is of the present format, and records it in a new file.
    fn check_format(&self) -> Result<(), StoreError> {
        if let Some(found) = guarded(|| format_of(self.database()?))? {
            return OtherFormat::check(found, FORMAT).map_err(failed);
        }
        guarded(|| {
            let transaction = self.database()?.begin_write().map_err(failed)?;
            let mut formats = transaction.open_table(FORMATS).map_err(failed)?;
            formats.insert((), FORMAT).map_err(failed)?;
            drop(formats);
            transaction.commit().map_err(failed)
        })
    }

    fn database(&self) -> Result<&Database, StoreError> {
        let closed = || StoreError("it is closed".into());
        self.database.as_ref().ok_or_else(closed)
    }
}

impl Drop for RedbStore {
    fn drop(&mut self) {
        let database = self.database.take();
        let closed = guarded(|| {
            drop(database);
            Ok(())
        });
        if let Err(error) = closed {
            tracing::error!(%error, "the metadata was not closed in order");
        }
    }
}

thread_local! {
    /// Redb is at work on this thread, so the hook logs its panic instead of printing it.
    static GUARDED: Cell<bool> = const { Cell::new(false) };
}

/// Runs redb, and returns its panic as an error: the file is damaged. `work` must call no code of Gannet, because a
/// panic of that is not redb's.
fn guarded<T>(work: impl FnOnce() -> Result<T, StoreError>) -> Result<T, StoreError> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let told = take_hook();
        set_hook(Box::new(move |panic| {
            if GUARDED.get() {
                tracing::debug!(%panic, "redb does not understand its file")
            } else {
                told(panic)
            }
        }));
    });
    let before = GUARDED.replace(true);
    // Unwinding is safe: a transaction that is dropped in a panic has changed nothing, and nothing else outlasts it.
    let done = catch_unwind(AssertUnwindSafe(work));
    GUARDED.set(before);
    done.unwrap_or_else(|panic| {
        let told = panic.downcast_ref::<String>().map(String::as_str);
        let told = told.or_else(|| panic.downcast_ref::<&str>().copied());
        let told = told.unwrap_or("it does not say where");
        Err(failed(Damage(String::from(told))))
    })
}

/// Redb cannot read its file.
#[derive(Debug, Error)]
#[error("its file is damaged: {0}")]
struct Damage(String);

impl StoreError {
    /// Whether a store was not opened because another process or store has it open.
    pub fn is_open_elsewhere(&self) -> bool {
        let opening = self.0.downcast_ref::<DatabaseError>();
        matches!(opening, Some(DatabaseError::DatabaseAlreadyOpen))
    }

    /// Whether something in the file differs from what was written.
    pub fn is_damage(&self) -> bool {
        let opening = self.0.downcast_ref::<DatabaseError>();
        let corrupted = matches!(
            opening,
            Some(DatabaseError::Storage(StorageError::Corrupted(_)))
        );
        corrupted || self.0.is::<Damage>() || self.is_damaged_value()
    }

    /// Whether a single value is damaged, so that others can be used.
    pub fn is_damaged_value(&self) -> bool {
        self.0.is::<DamagedValue>()
    }

    /// Whether the disk had no room for the operation.
    pub fn is_disk_full(&self) -> bool {
        let opening = match self.0.downcast_ref() {
            Some(DatabaseError::Storage(error)) => Some(error),
            _ => None,
        };
        let committing = match self.0.downcast_ref() {
            Some(redb::CommitError::Storage(error)) => Some(error),
            _ => None,
        };
        let storage = opening.or(committing).or_else(|| self.0.downcast_ref());
        let disk = match storage {
            Some(StorageError::Io(error)) => Some(error),
            _ => self.0.downcast_ref(),
        };
        disk.is_some_and(|error: &io::Error| error.kind() == io::ErrorKind::StorageFull)
    }
}

impl Table {
    fn definition(self) -> Pairs {
        TableDefinition::new(match self {
            Table::Inodes => "checked inodes",
            Table::Names => "checked names",
            Table::Listing => "checked listing",
            Table::Pending => "checked pending",
            Table::Replies => "checked answers",
            Table::Volume => "checked volume",
        })
    }
}

fn failed(error: impl std::error::Error + Send + Sync + 'static) -> StoreError {
    StoreError(Box::new(error))
}

/// A transaction's tables, each opened at its first use.
struct Open<S: Source> {
    source: S,
    tables: [OnceCell<S::Table>; Table::ALL.len()],
}

/// The source of tables: a read or a write transaction.
trait Source {
    type Table: ReadableTable<&'static [u8], &'static [u8]>;

    fn open(&self, table: Pairs) -> Result<Self::Table, TableError>;
}

impl Source for &redb::ReadTransaction {
    type Table = redb::ReadOnlyTable<&'static [u8], &'static [u8]>;

    fn open(&self, table: Pairs) -> Result<Self::Table, TableError> {
        self.open_table(table)
    }
}

impl<'a> Source for &'a redb::WriteTransaction {
    type Table = redb::Table<'a, &'static [u8], &'static [u8]>;

    fn open(&self, table: Pairs) -> Result<Self::Table, TableError> {
        self.open_table(table)
    }
}

impl<S: Source> Open<S> {
    fn new(source: S) -> Open<S> {
        Open {
            source,
            tables: Default::default(),
        }
    }

    fn table(&self, table: Table) -> Result<&S::Table, StoreError> {
        let cell = self.tables.get(table as usize).ok_or_else(no_table)?;
        if cell.get().is_none() {
            let opened = guarded(|| self.source.open(table.definition()).map_err(failed))?;
            // The cell was empty a moment ago, and one thread uses it.
            let _ = cell.set(opened);
        }
        cell.get().ok_or_else(no_table)
    }

    fn table_mut(&mut self, table: Table) -> Result<&mut S::Table, StoreError> {
        self.table(table)?;
        let cell = self.tables.get_mut(table as usize);
        cell.and_then(OnceCell::get_mut).ok_or_else(no_table)
    }
}

fn no_table() -> StoreError {
    StoreError("a table is not there".into())
}

/// Takes a pair as it is stored; returns false to end the scan.
type Look<'a> = dyn FnMut(&[u8], &[u8]) -> Result<bool, StoreError> + 'a;

impl<S: Source> Open<S> {
    /// Passes pairs to `look` as they are stored: values with their checksums.
    fn scan_stored(
        &self,
        table: Table,
        from: &[u8],
        each: &mut Look<'_>,
    ) -> Result<(), StoreError> {
        let table = self.table(table)?;
        let mut pairs = guarded(|| table.range::<&[u8]>(from..).map_err(failed))?;
        while let Some((key, value)) = guarded(|| pairs.next().transpose().map_err(failed))? {
            let (key, value) = guarded(|| Ok((key.value(), value.value())))?;
            if !each(key, value)? {
                break;
            }
        }
        Ok(())
    }
}

impl<S: Source> View for Open<S> {
    fn get(&self, table: Table, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        let pairs = self.table(table)?;
        guarded(|| {
            let Some(stored) = pairs.get(key).map_err(failed)? else {
                return Ok(None);
            };
            let value = unseal(table, key, stored.value()).map_err(failed)?;
            Ok(Some(value.to_vec()))
        })
    }

    fn scan(
        &self,
        table: Table,
        from: &[u8],
        each: &mut dyn FnMut(&[u8], &[u8]) -> bool,
    ) -> Result<(), StoreError> {
        self.scan_stored(table, from, &mut |key, stored| {
            Ok(each(key, unseal(table, key, stored).map_err(failed)?))
        })
    }
}

impl Transaction for Open<&redb::WriteTransaction> {
    fn put(&mut self, table: Table, key: &[u8], value: &[u8]) -> Result<(), StoreError> {
        let stored = seal(table, key, value);
        let table = self.table_mut(table)?;
        guarded(|| table.insert(key, &stored[..]).map(drop).map_err(failed))
    }

    fn delete(&mut self, table: Table, key: &[u8]) -> Result<(), StoreError> {
        let table = self.table_mut(table)?;
        guarded(|| table.remove(key).map(drop).map_err(failed))
    }
}

impl MetaStore for RedbStore {
    fn read(&self, look: &mut dyn FnMut(&dyn View)) -> Result<(), StoreError> {
        let transaction = guarded(|| self.database()?.begin_read().map_err(failed))?;
        look(&Open::new(&transaction));
        Ok(())
    }

    fn commit(
        &self,
        work: &mut dyn FnMut(&mut dyn Transaction) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let transaction = guarded(|| self.database()?.begin_write().map_err(failed))?;
        let worked = work(&mut Open::new(&transaction));
        // A transaction that is dropped without a commit has changed nothing.
        let committed = guarded(|| {
            worked?;
            transaction.commit().map_err(failed)
        });
        self.reserve.renew();
        committed
    }

    fn has_room(&self) -> bool {
        self.reserve.renew()
    }

    fn pairs_at_once(&self) -> usize {
        RESERVE_PAIRS
    }

    fn lengths(&self) -> StoreLengths {
        StoreLengths {
            journal: 0,
            file: self.reserve.end(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value_of(store: &RedbStore, key: &[u8]) -> Option<Vec<u8>> {
        let mut value = None;
        store
            .read(&mut |view| value = view.get(Table::Names, key).unwrap())
            .unwrap();
        value
    }

    #[test]
    fn committed_values_survive_a_restart_and_failed_changes_leave_none() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("metadata");
        let store = RedbStore::open(&path, 1 << 20).unwrap();
        store
            .commit(&mut |it| it.put(Table::Names, b"a", b"1"))
            .unwrap();
        let failure = store.commit(&mut |it| {
            it.put(Table::Names, b"b", b"2")?;
            assert_eq!(it.get(Table::Names, b"b")?.as_deref(), Some(&b"2"[..]));
            Err(failed(std::io::Error::other("no")))
        });
        assert!(failure.is_err());
        let twice = RedbStore::open(&path, 1 << 20).err();
        assert!(twice.is_some_and(|error| error.is_open_elsewhere()));
        drop(store);
        let store = RedbStore::open(&path, 1 << 20).unwrap();
        assert_eq!(value_of(&store, b"a").as_deref(), Some(&b"1"[..]));
        assert_eq!(value_of(&store, b"b"), None);
    }

    /// Uses every operation of a store.
    fn use_all(path: &Path) -> Result<(), StoreError> {
        let store = RedbStore::open(path, 1 << 20)?;
        let (mut found, mut failed) = (Vec::new(), None);
        store.read(&mut |view| {
            for table in Table::ALL {
                let mut take = |key: &[u8], _: &[u8]| {
                    found.push((table, key.to_vec()));
                    true
                };
                failed = failed.take().or(view.scan(table, b"", &mut take).err());
            }
            for (table, key) in &found {
                failed = failed.take().or(view.get(*table, key).err());
            }
        })?;
        failed.map_or(Ok(()), Err)?;
        store.commit(&mut |it| {
            let mut found = found.iter();
            found.try_for_each(|(table, key)| match key.len() % 2 {
                0 => it.delete(*table, key),
                _ => it.put(*table, key, b"changed"),
            })
        })
    }

    #[test]
    fn a_file_with_any_page_overwritten_is_an_error_and_no_panic() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("metadata");
        let store = RedbStore::open(&path, 1 << 20).unwrap();
        for round in 0..4 {
            let fill = |it: &mut dyn Transaction| {
                (0..400_u32).try_for_each(|number| {
                    let key = (number * 7 + round).to_string().into_bytes();
                    it.put(Table::ALL[number as usize % 6], &key, &[7; 60])
                })
            };
            store.commit(&mut |it| fill(it)).unwrap();
        }
        drop(store);
        let sound = std::fs::read(&path).unwrap();
        let (mut damaged, mut seed) = (0, 1_u64);
        let mut random = || {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (seed >> 32) as usize
        };
        for _ in 0..150 {
            let mut bytes = sound.clone();
            for _ in 0..=random() % 3 {
                let start = random() % (bytes.len() / 4096) * 4096;
                (bytes[start..start + 4096]).fill_with(|| random() as u8);
            }
            std::fs::write(&path, &bytes).unwrap();
            damaged += u32::from(use_all(&path).is_err());
        }
        assert!(damaged > 20, "{damaged}");
        std::fs::write(&path, &sound).unwrap();
        use_all(&path).unwrap();
    }

    /// A closed store with two tables whose values are far longer than their keys. The value of number N is made of N.
    fn filled(path: &Path) -> Vec<u8> {
        let store = RedbStore::open(path, 1 << 20).unwrap();
        let fill = |it: &mut dyn Transaction| {
            (0..200_u64).try_for_each(|number| {
                it.put(Table::Inodes, &number.to_be_bytes(), &[number as u8; 100])?;
                it.put(Table::Names, &number.to_be_bytes(), &[number as u8; 30])
            })
        };
        store.commit(&mut |it| fill(it)).unwrap();
        drop(store);
        std::fs::read(path).unwrap()
    }

    #[test]
    fn a_flipped_bit_is_found_at_the_start_wherever_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("metadata");
        let sound = filled(&path);
        let (mut refused, mut harmless) = (0, 0);
        // An odd step, so that it reaches all parts of pages.
        for at in (0..sound.len()).step_by((sound.len() / 120) | 1) {
            let mut bytes = sound.clone();
            bytes[at] ^= 1 << (at % 8);
            std::fs::write(&path, &bytes).unwrap();
            let store = match RedbStore::open(&path, 1 << 20) {
                Ok(store) => store,
                Err(error) => {
                    assert!(error.is_damage() || at < 4096, "{at}: {error}");
                    refused += 1;
                    continue;
                }
            };
            // The flipped bit is in unused space: no value may have changed.
            harmless += 1;
            let look = |view: &dyn View| {
                for number in 0..200_u64 {
                    let key = number.to_be_bytes();
                    let inode = view.get(Table::Inodes, &key).unwrap().unwrap();
                    assert_eq!(inode, [number as u8; 100], "{at}");
                    let name = view.get(Table::Names, &key).unwrap().unwrap();
                    assert_eq!(name, [number as u8; 30], "{at}");
                }
            };
            store.read(&mut |view| look(view)).unwrap();
        }
        assert!(refused > 3, "{refused} refused, {harmless} harmless");
    }

    #[test]
    fn a_value_that_changes_while_its_store_is_open_is_never_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("metadata");
        let mut bytes = filled(&path);
        let value = [77; 100];
        let places = bytes.windows(value.len()).enumerate();
        let places = places.filter(|(_, it)| *it == value).map(|(at, _)| at);
        for at in places.collect::<Vec<_>>() {
            bytes[at + 50] ^= 4;
        }
        std::fs::write(&path, &bytes).unwrap();
        // As if the file had been damaged after the opening.
        let store = RedbStore::open_file(&path, 1 << 20, false).unwrap();
        let read = |number: u64| {
            let mut found = Ok(None);
            let key = number.to_be_bytes();
            let look = store.read(&mut |view| found = view.get(Table::Inodes, &key));
            look.and(found)
        };
        let error = read(77).unwrap_err();
        assert!(error.is_damaged_value() && error.is_damage());
        assert!(error.to_string().contains("inode of file 77"), "{error}");
        assert_eq!(read(78).unwrap(), Some(vec![78; 100]));
        let mut scanned = Ok(());
        let look = &mut |view: &dyn View| {
            scanned = view.scan(Table::Inodes, b"", &mut |key, _| {
                assert_ne!(key, 77_u64.to_be_bytes());
                true
            });
        };
        store.read(look).unwrap();
        assert!(scanned.is_err());
        drop(store);
        let damaged = RedbStore::damaged_values(&path, 1 << 20).unwrap();
        let expected = DamagedValue {
            table: Table::Inodes,
            key: 77_u64.to_be_bytes().to_vec(),
        };
        assert_eq!(damaged, [expected]);
        assert!(RedbStore::open(&path, 1 << 20).err().unwrap().is_damage());
    }

    #[test]
    fn files_of_other_formats_are_refused_with_a_cure_and_left_as_they_are() {
        let folder = tempfile::tempdir().unwrap();
        // The prefix of their tables, and the format that they record.
        for (prefix, says, found, cure) in [
            ("", None, 1, "copy the files out"),
            ("checked ", None, 2, "copy the files out"),
            ("checked ", Some(FORMAT + 1), FORMAT + 1, "a later one"),
        ] {
            let path = folder.path().join(found.to_string());
            let database = Database::create(&path).unwrap();
            let transaction = database.begin_write().unwrap();
            for name in ["inodes", "names", "volume"] {
                let name = format!("{prefix}{name}");
                let pairs = TableDefinition::<&[u8], &[u8]>::new(&name);
                let mut pairs = transaction.open_table(pairs).unwrap();
                pairs.insert(&b"a"[..], &b"as it was"[..]).unwrap();
            }
            if let Some(format) = says {
                let mut formats = transaction.open_table(FORMATS).unwrap();
                formats.insert((), format).unwrap();
            }
            transaction.commit().unwrap();
            drop(database);
            let before = std::fs::read(&path).unwrap();
            for _ in 0..2 {
                let error = RedbStore::open(&path, 1 << 20).err().unwrap();
                let other = error.0.downcast_ref::<OtherFormat>().unwrap();
                assert_eq!((other.found, other.known), (found, FORMAT));
                assert!(error.to_string().contains(cure), "{error}");
                assert!(error.is_other_format() && !error.is_damage(), "{error}");
                assert!(std::fs::read(&path).unwrap() == before, "format {found}");
            }
        }
    }

    #[test]
    fn a_fault_of_ours_is_not_taken_for_damage() {
        let folder = tempfile::tempdir().unwrap();
        let store = RedbStore::open(&folder.path().join("metadata"), 1 << 20).unwrap();
        let read = catch_unwind(AssertUnwindSafe(|| store.read(&mut |_| panic!("ours"))));
        assert!(read.is_err());
        let work = &mut |_: &mut dyn Transaction| panic!("ours");
        assert!(catch_unwind(AssertUnwindSafe(|| store.commit(work))).is_err());
        store
            .commit(&mut |it| it.put(Table::Names, b"a", b"1"))
            .unwrap();
        assert_eq!(value_of(&store, b"a").as_deref(), Some(&b"1"[..]));
    }

    #[test]
    fn a_scan_goes_on_from_its_key_in_order() {
        let folder = tempfile::tempdir().unwrap();
        let store = RedbStore::open(&folder.path().join("metadata"), 1 << 20).unwrap();
        store
            .commit(&mut |it| {
                [b"b", b"d", b"a", b"c"]
                    .iter()
                    .try_for_each(|key| it.put(Table::Listing, *key, b""))
            })
            .unwrap();
        let mut seen = Vec::new();
        store
            .read(&mut |view| {
                view.scan(Table::Listing, b"b", &mut |key, _| {
                    seen.push(key.to_vec());
                    seen.len() < 2
                })
                .unwrap();
            })
            .unwrap();
        assert_eq!(seen, [b"b", b"c"]);
    }
}
