//! The manager's term at an I/O server: the latest one that it knows, kept in a file beside the objects' folders.
//!
//! A term is durable before the server accepts it. From then on the server refuses capabilities of earlier terms,
//! which a paused manager or a copy of it may still issue.
//!
//! The server also keeps the number of the manager's last change: in memory at once, and in the file a second later.
//! The number distinguishes a manager from a restored copy of its metadata.

use super::Objects;
use super::store::ObjectStore;
use crate::limits::TERM_WRITE_PAUSE;
use gannet_runtime::sleep;
use gannet_vfs::{Stability, Status};
use gannet_wire::volume::{Capability, Term, TermAnswer, TermCall, TermStage};
use gannet_wire::xdr::{Decode, Decoder, Encoder};
use siphasher::sip::SipHasher13;
use std::cell::Cell;
use std::hash::Hasher;
use std::rc::Rc;
use tokio::sync::Mutex;

/// The name of the file in the root of the store. `gannet volume check` does not report it as foreign.
pub const TERM_FILE: &str = "manager-term";

/// Offsets of the two records. The newest durable record stays until a later one is durable at the other offset:
/// writes that may be torn go there. The first record goes to the second offset.
const PLACES: [u64; 2] = [0, 4096];
const MAGIC: &[u8; 8] = b"gannet-t";
/// The length of the note.
const NOTE_LEN: usize = 4096 + RECORD_LEN;
const RECORD_LEN: usize = 8 + 8 + gannet_wire::volume::TERM_LEN + 8 + 8;

/// The manager's term at this server, in memory and in its file.
#[derive(Default)]
pub(super) struct Terms {
    known: Cell<Option<Known>>,
    /// The index in [`PLACES`] of the newest durable record.
    durable: Cell<usize>,
    /// Held while the file is written or first read. Without it an earlier write could end last and hide the latest
    /// term.
    writing: Mutex<()>,
    /// A write of the last change is scheduled.
    is_due: Cell<bool>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Known {
    term: Term,
    change: u64,
    /// The sequence of the record in the file; the highest one is the newest.
    sequence: u64,
}

impl Terms {
    pub(super) fn is_loaded(&self) -> bool {
        self.known.get().is_some()
    }

    fn known(&self) -> Known {
        self.known.get().unwrap_or_default()
    }

    /// The number of the latest term.
    pub(super) fn number(&self) -> u64 {
        self.known().term.number
    }

    /// Whether a capability is of the present term, or of a later one that this server has not heard of yet.
    pub(super) fn allows(&self, capability: &Capability) -> bool {
        capability.term >= self.number()
    }
}

impl<S: ObjectStore> Objects<S> {
    /// Reads the term that an earlier incarnation knew.
    ///
    /// # Errors
    /// The note cannot be read, or is damaged (`Io`). The server then accepts no manager.
    pub async fn load_term(&self) -> Result<(), Status> {
        // Asked before each request, which must not wait while a term is written.
        if self.terms.is_loaded() {
            return Ok(());
        }
        let _alone = self.terms.writing.lock().await;
        if self.terms.is_loaded() {
            return Ok(());
        }
        let known = match self.store.note(TERM_FILE, NOTE_LEN).await? {
            // The server ended between the note's creation and its first record: no term was accepted.
            None => Known::default(),
            Some(note) if note.is_empty() => Known::default(),
            Some(note) => self.newest_in(&note)?,
        };
        self.terms.known.set(Some(known));
        Ok(())
    }

    /// The newest record of the note.
    fn newest_in(&self, note: &[u8]) -> Result<Known, Status> {
        let records = PLACES.map(|place| {
            let mut record = [0; RECORD_LEN];
            let there = usize::try_from(place).ok().and_then(|at| note.get(at..));
            for (to, from) in record.iter_mut().zip(there.unwrap_or_default()) {
                *to = *from;
            }
            record
        });
        let all_known = records.iter().map(known_in).enumerate();
        let newest = all_known
            .filter_map(|(place, known)| Some((place, known?)))
            .max_by_key(|(_, known)| known.sequence);
        match newest {
            Some((place, known)) => {
                self.terms.durable.set(place);
                Ok(known)
            }
            // The first record was torn, at the second offset: its term was not accepted.
            None if records.first() == Some(&[0; RECORD_LEN]) => Ok(Known::default()),
            None => Err(unreadable()),
        }
    }

    /// Answers a manager's call about its term.
    pub async fn term(self: &Rc<Self>, call: TermCall) -> Result<TermAnswer, Status> {
        let known = self.terms.known();
        let is_later = call.term.number > known.term.number;
        let is_same = call.term == known.term;
        let accepted = match call.stage {
            TermStage::Ask => true,
            TermStage::Propose => is_later || is_same,
            // A majority has accepted the term, so another term of the same number cannot have one.
            TermStage::Hold => call.term.number >= known.term.number,
        };
        if accepted && call.stage != TermStage::Ask {
            self.obey(&call, is_same).await?;
        }
        let known = self.terms.known();
        Ok(TermAnswer {
            accepted: accepted && (call.stage == TermStage::Ask || known.term == call.term),
            known: known.term,
            change: known.change,
        })
    }

    /// Adopts a term; a new term is durable before the return.
    async fn obey(self: &Rc<Self>, call: &TermCall, is_same: bool) -> Result<(), Status> {
        let known = self.terms.known();
        let change = if is_same {
            call.change.max(known.change)
        } else {
            call.change
        };
        // Before the term is durable: a capability of the earlier manager would else be admitted during the write.
        self.terms.known.set(Some(Known {
            term: call.term,
            change,
            ..known
        }));
        if !is_same {
            // Clients hold references by capabilities of the earlier term.
            self.watcher.term_began();
            tracing::info!(
                term = call.term.number,
                "the volume's manager begins a term"
            );
            return self.write_term(Stability::FileSync).await;
        }
        if change != known.change && !self.terms.is_due.replace(true) {
            let objects = Rc::clone(self);
            let writing = async move {
                sleep(&objects.runtime, TERM_WRITE_PAUSE).await;
                objects.terms.is_due.set(false);
                if let Err(status) = objects.write_term(Stability::Unstable).await {
                    tracing::warn!(%status, "{TERM_FILE} cannot be written");
                }
            };
            self.runtime.spawn("manager's term", Box::pin(writing));
        }
        Ok(())
    }

    async fn write_term(&self, stability: Stability) -> Result<(), Status> {
        let _alone = self.terms.writing.lock().await;
        let mut known = self.terms.known();
        known.sequence += 1;
        let place = 1 - self.terms.durable.get();
        let record = record_of(&known);
        let written = (self.store).write_note(TERM_FILE, PLACES[place], record, stability);
        written.await?;
        if stability == Stability::FileSync {
            self.terms.durable.set(place);
        }
        // The term or the change may be later by now: the call that changed it writes next.
        let now = self.terms.known();
        self.terms.known.set(Some(Known {
            sequence: known.sequence,
            ..now
        }));
        Ok(())
    }
}

fn unreadable() -> Status {
    tracing::error!(
        "{TERM_FILE} in the folder of an I/O server is damaged, so it does not know its manager: remove the file if no second manager of the volume can be running"
    );
    Status::Io
}

fn record_of(known: &Known) -> Vec<u8> {
    let mut record = Vec::with_capacity(RECORD_LEN);
    let mut encoder = Encoder::new(&mut record);
    encoder.fixed(MAGIC);
    encoder.u64(known.sequence);
    encoder.u64(known.term.number);
    encoder.fixed(&known.term.token);
    encoder.u64(known.change);
    let check = check(&record);
    Encoder::new(&mut record).u64(check);
    record
}

fn known_in(record: &[u8; RECORD_LEN]) -> Option<Known> {
    let (said, check_said) = record.split_last_chunk::<8>()?;
    let mut decoder = Decoder::new(said);
    let magic = *decoder.fixed::<8>().ok()?;
    let is_whole = magic == *MAGIC && u64::from_be_bytes(*check_said) == check(said);
    is_whole.then_some(())?;
    let sequence = decoder.u64().ok()?;
    Some(Known {
        sequence,
        term: Term::decode(&mut decoder).ok()?,
        change: decoder.u64().ok()?,
    })
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
        let known = Known {
            term: Term {
                number: 3,
                token: [7; 16],
            },
            change: 1 << 40,
            sequence: 9,
        };
        let record = record_of(&known);
        let whole = <[u8; RECORD_LEN]>::try_from(&record[..]).unwrap();
        assert_eq!(known_in(&whole), Some(known));
        for bit in 0..RECORD_LEN * 8 {
            let mut flipped = whole;
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(known_in(&flipped), None);
        }
        assert_eq!(known_in(&[0; RECORD_LEN]), None);
    }
}
