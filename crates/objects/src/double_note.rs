//! A small note that is replaced as a whole, and of which a power failure leaves one of the last two versions.

use super::store::ObjectStore;
use gannet_vfs::{Stability, Status};
use siphasher::sip::SipHasher13;
use std::cell::Cell;
use std::hash::Hasher;
use tokio::sync::{Mutex, MutexGuard};

const MAGIC_LEN: usize = 8;
/// Bytes of a record besides its payload: magic, sequence and check.
const FRAME_LEN: usize = MAGIC_LEN + 8 + 8;

/// The name and the layout of a note.
pub(super) struct NoteForm {
    /// The name of its file.
    pub(super) name: &'static str,
    /// The first bytes of each record.
    pub(super) magic: &'static [u8; MAGIC_LEN],
    /// Bytes of each payload.
    pub(super) payload_len: usize,
    /// Bytes that a record may have: the second one begins there.
    pub(super) place_len: usize,
    /// The consequence of its damage, and what to do.
    pub(super) damage: &'static str,
}

impl NoteForm {
    /// Offsets of the two records. The newest durable record stays until a later one is durable at the other offset:
    /// writes that may be torn go there. The first record goes to the second offset.
    fn places(&self) -> [usize; 2] {
        [0, self.place_len]
    }
}

/// The note's records in the store. One writer or reader at a time has it: an earlier write could else end last and
/// hide the latest payload.
pub(super) struct DoubleNote {
    form: NoteForm,
    /// The index in [`NoteForm::places`] of the newest durable record.
    durable: Cell<usize>,
    /// The sequence of the newest record; the highest one is the newest.
    sequence: Cell<u64>,
    alone: Mutex<()>,
}

/// The newest payload of a note.
pub(super) enum Loaded {
    /// None was ever written.
    Never,
    /// No record is whole.
    Damaged,
    Payload(Vec<u8>),
}

impl DoubleNote {
    pub(super) const fn new(form: NoteForm) -> DoubleNote {
        assert!(FRAME_LEN + form.payload_len <= form.place_len);
        DoubleNote {
            form,
            durable: Cell::new(0),
            sequence: Cell::new(0),
            alone: Mutex::const_new(()),
        }
    }

    /// Waits for those who read or write it.
    pub(super) async fn alone(&self) -> MutexGuard<'_, ()> {
        self.alone.lock().await
    }

    /// The newest payload. The caller is alone. Damage is logged.
    ///
    /// # Errors
    /// The note cannot be read.
    pub(super) async fn load(
        &self,
        store: &impl ObjectStore,
        _alone: &MutexGuard<'_, ()>,
    ) -> Result<Loaded, Status> {
        let len = self.form.place_len + FRAME_LEN + self.form.payload_len;
        // The server ended between the note's creation and its first record: it is empty.
        let note = store.note(self.form.name, len).await?;
        let Some(note) = note.filter(|note| !note.is_empty()) else {
            return Ok(Loaded::Never);
        };
        let records = self.form.places().map(|place| {
            let mut record = note.get(place..).unwrap_or_default().to_vec();
            record.resize(FRAME_LEN + self.form.payload_len, 0);
            record
        });
        let all = records.iter().enumerate();
        let whole = all.filter_map(|(place, record)| {
            let (sequence, payload) = self.payload_in(record)?;
            Some((sequence, place, payload))
        });
        match whole.max_by_key(|(sequence, ..)| *sequence) {
            Some((sequence, place, payload)) => {
                self.sequence.set(sequence);
                self.durable.set(place);
                Ok(Loaded::Payload(payload.to_vec()))
            }
            // The first record was torn, at the second offset: nobody was told that it is there.
            None if records[0].iter().all(|byte| *byte == 0) => Ok(Loaded::Never),
            None => {
                let NoteForm { name, damage, .. } = self.form;
                tracing::error!("{name} in the folder of an I/O server is damaged, so {damage}");
                Ok(Loaded::Damaged)
            }
        }
    }

    /// Writes a payload. The caller is alone.
    pub(super) async fn write(
        &self,
        store: &impl ObjectStore,
        payload: &[u8],
        stability: Stability,
        _alone: &MutexGuard<'_, ()>,
    ) -> Result<(), Status> {
        debug_assert_eq!(payload.len(), self.form.payload_len);
        let sequence = self.sequence.get() + 1;
        let place = 1 - self.durable.get();
        let record = self.record_of(sequence, payload);
        let offset = self.form.places()[place] as u64;
        let written = store.write_note(self.form.name, offset, record, stability);
        written.await?;
        if stability == Stability::FileSync {
            self.durable.set(place);
        }
        self.sequence.set(sequence);
        Ok(())
    }

    fn record_of(&self, sequence: u64, payload: &[u8]) -> Vec<u8> {
        let mut record = [&self.form.magic[..], &sequence.to_be_bytes(), payload].concat();
        record.extend(check(&record).to_be_bytes());
        record
    }

    /// The sequence and the payload of a record that is whole.
    fn payload_in<'a>(&self, record: &'a [u8]) -> Option<(u64, &'a [u8])> {
        let (said, check_said) = record.split_last_chunk::<8>()?;
        let (magic, rest) = said.split_first_chunk::<MAGIC_LEN>()?;
        let is_whole = magic == self.form.magic && u64::from_be_bytes(*check_said) == check(said);
        is_whole.then_some(())?;
        let (sequence, payload) = rest.split_first_chunk::<8>()?;
        Some((u64::from_be_bytes(*sequence), payload))
    }
}

fn check(bytes: &[u8]) -> u64 {
    let mut hasher = SipHasher13::new();
    hasher.write(bytes);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_read_as_it_was_written_and_not_otherwise() {
        let note = DoubleNote::new(NoteForm {
            name: "a note",
            magic: b"gannet-x",
            payload_len: 3,
            place_len: 4096,
            damage: "nothing is lost",
        });
        let record = note.record_of(9, b"abc");
        assert_eq!(note.payload_in(&record), Some((9, &b"abc"[..])));
        for bit in 0..record.len() * 8 {
            let mut flipped = record.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(note.payload_in(&flipped), None);
        }
        assert_eq!(note.payload_in(&[0; 27]), None);
        assert_eq!(note.payload_in(&[]), None);
    }
}
