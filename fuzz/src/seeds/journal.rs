//! Seeds of journals, as a manager leaves them and as it does not.

use crate::journal::{BLOCK_LEN, FOREIGN, MENDED, Witness, squeeze};
use anyhow::Result;
use gannet_meta::{JournalMemory, JournaledStore, MetaStore, Table};
use std::sync::Arc;

const VOLUME: [u8; 16] = [7; 16];
/// Halves so short that a few commits turn.
const HALF_BLOCKS: u32 = 4;

/// A store, its journal, and how far the store had come before it was opened last.
struct Bed {
    base: Arc<Witness>,
    journal: JournalMemory,
}

impl Bed {
    fn new() -> Bed {
        Bed {
            base: Arc::new(Witness::new(vec![0; 16])),
            journal: JournalMemory::new(VOLUME, HALF_BLOCKS),
        }
    }

    fn open(&self) -> Result<JournaledStore> {
        let (base, file) = (Arc::clone(&self.base), Box::new(self.journal.clone()));
        Ok(JournaledStore::over(base, file, VOLUME)?)
    }

    /// Opened, and changed so often.
    fn after(commits: u32) -> Result<Bed> {
        let bed = Bed::new();
        let store = bed.open()?;
        for number in 0..commits {
            store.commit(&mut |transaction| {
                transaction.put(Table::Names, &number.to_be_bytes(), b"value")?;
                transaction.put(Table::Inodes, b"same", &[number as u8; 20])?;
                transaction.delete(Table::Names, &number.wrapping_sub(2).to_be_bytes())
            })?;
        }
        Ok(bed)
    }

    fn input(&self, how: u8) -> Vec<u8> {
        input(&self.base.mark(), how, &self.journal.bytes())
    }
}

fn input(mark: &[u8], how: u8, file: &[u8]) -> Vec<u8> {
    [mark, &[how], &squeeze(file)].concat()
}

/// Target, kind and bytes of each.
pub(super) fn by_hand() -> Result<Vec<(&'static str, &'static str, Vec<u8>)>> {
    let target = "volume_journal";
    let mut seeds = vec![
        (target, "unused", Bed::new().input(0)),
        (target, "foreign", Bed::after(1)?.input(FOREIGN)),
        (target, "none", vec![0; 19]),
    ];
    for (kind, commits) in [("opened", 0), ("changed", 2), ("turned", 5), ("again", 9)] {
        let bed = Bed::after(commits)?;
        seeds.push((target, kind, bed.input(0)));
        seeds.push((target, kind, bed.input(MENDED)));
    }
    // The record before the last is damaged.
    let bed = Bed::after(2)?;
    let mut file = bed.journal.bytes();
    file[2 * BLOCK_LEN + 40] ^= 1;
    seeds.push((target, "gap", input(&bed.base.mark(), 0, &file)));
    // Several blocks, and a pair for each table.
    let bed = Bed::new();
    bed.open()?.commit(&mut |transaction| {
        let mut put = |table| transaction.put(table, b"key", b"value");
        Table::ALL.into_iter().try_for_each(&mut put)?;
        transaction.put(Table::Volume, b"long", &[0; 5000])
    })?;
    seeds.push((target, "long", bed.input(MENDED)));
    // A file without halves.
    let first = &Bed::new().journal.bytes()[..BLOCK_LEN];
    seeds.push((target, "first-block", input(&[0; 16], MENDED, first)));
    // Metadata that was opened as often as can be counted.
    let bed = Bed::after(0)?;
    let (mut file, mut mark) = (bed.journal.bytes(), bed.base.mark());
    mark[..8].fill(0xff);
    file[BLOCK_LEN + 8..BLOCK_LEN + 16].fill(0xff);
    seeds.push((target, "last-epoch", input(&mark, MENDED, &file)));
    Ok(seeds)
}
