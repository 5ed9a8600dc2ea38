//! Journals of a volume's metadata (docs/formats/journal.md): whole files of any bytes, opened as a manager does.

use gannet_meta::{
    JournalFile, JournalMemory, JournaledStore, MetaStore, StoreError, Table, Transaction, View,
};
use siphasher::sip::SipHasher13;
use std::collections::BTreeMap;
use std::hash::Hasher;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

pub(crate) const BLOCK_LEN: usize = 4096;
/// Blocks of a file: inputs say how many they want.
const BLOCKS_MAX: usize = 129;
/// Bytes of a record before its pairs.
const HEAD_LEN: usize = 32;
/// Where the store below keeps how far it has come.
const MARK: &[u8] = b"journal";

/// Puts the checks right, and what the first block says of the file's length: mutations get behind them.
pub(crate) const MENDED: u8 = 1;
/// The volume is another one than the first block says.
pub(crate) const FOREIGN: u8 = 2;

/// An input is how far the store below has come (16 bytes, zeros: it never had a journal), what to do with the file,
/// and the file, squeezed.
pub(crate) fn volume_journal(data: &[u8]) {
    let Some((mark, rest)) = data.split_first_chunk::<16>() else {
        return;
    };
    let Some((how, squeezed)) = rest.split_first() else {
        return;
    };
    let mut bytes = unsqueeze(squeezed);
    if how & MENDED != 0 {
        mend(&mut bytes);
    }
    let mut identity = identity_of(&bytes);
    if how & FOREIGN != 0 {
        identity[0] ^= 1;
    }
    let base = Arc::new(Witness::new(mark.to_vec()));
    let has_long = has_long(&bytes);
    let journal = JournalMemory::holding(bytes);
    if open(&base, &journal, identity).is_err() {
        assert_eq!(base.pairs().changed, Changed::new(), "refused, and used");
        return;
    }
    // After the last epoch there is none.
    let is_last = base.mark().starts_with(&[0xff; 8]);
    // A second open moves no value down that the first one has moved.
    let brought = std::mem::take(&mut base.pairs().changed);
    let again = open(&base, &journal, identity);
    assert!(
        again.is_ok() || has_long || is_last,
        "opened once, and not again"
    );
    assert_eq!(base.pairs().changed, Changed::new(), "brought again");
    // Encoded anew it takes no more room, and is decoded to the same.
    let half_blocks = journal.bytes().len() / BLOCK_LEN + 1;
    let journal = JournalMemory::new(identity, half_blocks as u32);
    let base = Arc::new(Witness::new(vec![0; 16]));
    let written = open(&base, &journal, identity)
        .and_then(|store| store.commit(&mut |transaction| change(transaction, &brought)));
    assert!(written.is_ok(), "not written again: {written:?}");
    assert_eq!(base.pairs().changed, Changed::new(), "not in the journal");
    assert!(open(&base, &journal, identity).is_ok());
    assert_eq!(base.pairs().changed, brought);
}

fn change(transaction: &mut dyn Transaction, changed: &Changed) -> Result<(), StoreError> {
    for ((table, key), value) in changed {
        match value {
            Some(value) => transaction.put(*table, key, value)?,
            None => transaction.delete(*table, key)?,
        }
    }
    Ok(())
}

fn open(
    base: &Arc<Witness>,
    journal: &JournalMemory,
    identity: [u8; 16],
) -> Result<JournaledStore, StoreError> {
    let base = Arc::clone(base);
    JournaledStore::over(base, Box::new(Bounded(journal.clone())), identity)
}

/// The volume that a first block names.
pub(crate) fn identity_of(bytes: &[u8]) -> [u8; 16] {
    let named = bytes.get(24..).and_then(<[u8]>::first_chunk);
    named.copied().unwrap_or_default()
}

/// Blocks without the zeros at their ends, each behind its length: files are mostly zeros.
pub(crate) fn squeeze(bytes: &[u8]) -> Vec<u8> {
    let blocks = bytes.chunks(BLOCK_LEN).map(|block| {
        let zeros = block.iter().rev().take_while(|byte| **byte == 0).count();
        let kept = block.get(..block.len() - zeros).unwrap_or_default();
        [&(kept.len() as u16).to_be_bytes()[..], kept].concat()
    });
    blocks.collect::<Vec<_>>().concat()
}

fn unsqueeze(mut squeezed: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    while let Some((len, rest)) = squeezed.split_first_chunk::<2>()
        && bytes.len() < BLOCKS_MAX * BLOCK_LEN
    {
        let len = usize::from(u16::from_be_bytes(*len)).min(BLOCK_LEN);
        let (kept, rest) = rest.split_at(len.min(rest.len()));
        bytes.extend_from_slice(kept);
        bytes.resize(bytes.len().next_multiple_of(BLOCK_LEN), 0);
        // A block of nothing is one of zeros.
        if kept.is_empty() {
            bytes.resize(bytes.len() + BLOCK_LEN, 0);
        }
        squeezed = rest;
    }
    bytes
}

/// Whether a record may be longer than a block, so that another one may lie in its pairs: when its first block is
/// written again, that one comes to light, and is damage.
fn has_long(bytes: &[u8]) -> bool {
    let lens = (bytes.chunks(BLOCK_LEN)).filter_map(|block| block.get(24..)?.first_chunk());
    let mut lens = lens.map(|len| u32::from_be_bytes(*len) as usize);
    lens.any(|len| (BLOCK_LEN - HEAD_LEN + 1..bytes.len()).contains(&len))
}

/// Makes the first block fit its file, and gives it and whatever may be a record the check that belongs there.
fn mend(bytes: &mut Vec<u8>) {
    let identity = identity_of(bytes);
    let half_len = bytes.len().saturating_sub(BLOCK_LEN) / (2 * BLOCK_LEN) * BLOCK_LEN;
    bytes.resize(BLOCK_LEN + 2 * half_len, 0);
    let (first, rest) = bytes.split_at_mut(BLOCK_LEN);
    first[16..24].copy_from_slice(&(half_len as u64).to_be_bytes());
    let check = check(&identity, &first[..40]);
    first[40..48].copy_from_slice(&check);
    for half in rest.chunks_mut(half_len.max(1)) {
        let mut at = 0;
        while let Some(record) = half.get_mut(at..).filter(|rest| !rest.is_empty()) {
            at += mend_record(record, &identity).next_multiple_of(BLOCK_LEN);
        }
    }
}

/// Bytes of what may be a record at the start of `bytes`, of which there is a block at least.
fn mend_record(bytes: &mut [u8], identity: &[u8; 16]) -> usize {
    let said = bytes[24..28].first_chunk().copied().unwrap_or_default();
    let len = HEAD_LEN + u32::from_be_bytes(said) as usize;
    let is_empty = bytes[..HEAD_LEN].iter().all(|byte| *byte == 0);
    if is_empty || len > bytes.len() {
        return BLOCK_LEN;
    }
    let check = check(identity, &bytes[8..len]);
    bytes[..8].copy_from_slice(&check);
    len
}

fn check(identity: &[u8; 16], bytes: &[u8]) -> [u8; 8] {
    let mut hasher = SipHasher13::new_with_key(identity);
    hasher.write(bytes);
    hasher.finish().to_be_bytes()
}

/// A file that is asked for no more than it has, and does not grow: so the journal allocates no room beyond it.
struct Bounded(JournalMemory);

impl JournalFile for Bounded {
    fn length(&self) -> io::Result<u64> {
        self.0.length()
    }

    fn read(&self, offset: u64, into: &mut [u8]) -> io::Result<()> {
        assert!(
            offset + into.len() as u64 <= self.0.length()?,
            "past the end"
        );
        self.0.read(offset, into)
    }

    fn write(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        assert!(
            offset + bytes.len() as u64 <= self.0.length()?,
            "past the end"
        );
        self.0.write(offset, bytes)
    }

    fn sync(&self) -> io::Result<()> {
        self.0.sync()
    }
}

type Changed = BTreeMap<(Table, Vec<u8>), Option<Vec<u8>>>;

/// A store below a journal that has nothing but its mark, and records the changes that it receives.
pub(crate) struct Witness(Mutex<Pairs>);

struct Pairs {
    mark: Vec<u8>,
    changed: Changed,
}

impl Witness {
    pub(crate) fn new(mark: Vec<u8>) -> Witness {
        let changed = Changed::new();
        Witness(Mutex::new(Pairs { mark, changed }))
    }

    /// How far it has come.
    pub(crate) fn mark(&self) -> Vec<u8> {
        self.pairs().mark.clone()
    }

    fn pairs(&self) -> MutexGuard<'_, Pairs> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl MetaStore for Witness {
    fn read(&self, look: &mut dyn FnMut(&dyn View)) -> Result<(), StoreError> {
        look(&*self.pairs());
        Ok(())
    }

    fn commit(
        &self,
        work: &mut dyn FnMut(&mut dyn Transaction) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        work(&mut *self.pairs())
    }
}

impl View for Pairs {
    fn get(&self, table: Table, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        let has_mark = self.mark.iter().any(|byte| *byte != 0);
        Ok(((table, key) == (Table::Volume, MARK) && has_mark).then(|| self.mark.clone()))
    }

    fn scan(
        &self,
        _: Table,
        _: &[u8],
        _: &mut dyn FnMut(&[u8], &[u8]) -> bool,
    ) -> Result<(), StoreError> {
        Ok(())
    }
}

impl Transaction for Pairs {
    fn put(&mut self, table: Table, key: &[u8], value: &[u8]) -> Result<(), StoreError> {
        match (table, key) == (Table::Volume, MARK) {
            true => self.mark = value.to_vec(),
            false => {
                let pair = (table, key.to_vec());
                self.changed.insert(pair, Some(value.to_vec()));
            }
        }
        Ok(())
    }

    fn delete(&mut self, table: Table, key: &[u8]) -> Result<(), StoreError> {
        if (table, key) != (Table::Volume, MARK) {
            self.changed.insert((table, key.to_vec()), None);
        }
        Ok(())
    }
}
