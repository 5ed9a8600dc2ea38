//! The manager's term at an I/O server: the latest one that it knows, kept in a file beside the objects' folders.
//!
//! A term is durable before the server accepts it. From then on the server refuses capabilities of earlier terms,
//! which a paused manager or a copy of it may still issue.
//!
//! The server also keeps the number of the manager's last change: in memory at once, and in the file a second later.
//! The number distinguishes a manager from a restored copy of its metadata.

use super::Objects;
use super::double_note::{DoubleNote, Loaded, NoteForm};
use super::limits::TERM_WRITE_PAUSE;
use super::store::ObjectStore;
use gannet_runtime::sleep;
use gannet_vfs::{Stability, Status};
use gannet_wire::volume::{Capability, TERM_LEN, Term, TermAnswer, TermCall, TermStage};
use gannet_wire::xdr::{Decode, Decoder, Encoder};
use std::cell::Cell;
use std::rc::Rc;

/// The name of the file in the root of the store. `gannet volume check` does not report it as foreign.
pub const TERM_FILE: &str = "manager-term";

const FORM: NoteForm = NoteForm {
    name: TERM_FILE,
    magic: b"gannet-t",
    payload_len: TERM_LEN + 8,
    place_len: 4096,
    damage: "it does not know its manager: remove the file if no second manager of the volume can be running",
};

/// The manager's term at this server, in memory and in its file.
pub(super) struct Terms {
    known: Cell<Option<Known>>,
    note: DoubleNote,
    /// A write of the last change is scheduled.
    is_due: Cell<bool>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Known {
    term: Term,
    change: u64,
}

impl Default for Terms {
    fn default() -> Terms {
        Terms {
            known: Cell::default(),
            note: DoubleNote::new(FORM),
            is_due: Cell::default(),
        }
    }
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
    /// Reads what an earlier incarnation knew: the manager's term, the server's groups and their write intents.
    ///
    /// # Errors
    /// A note cannot be read, or that of the term is damaged (`Io`). The server then accepts no manager.
    pub async fn load_notes(&self) -> Result<(), Status> {
        self.load_intents().await?;
        self.load_groups().await?;
        self.load_term().await
    }

    async fn load_term(&self) -> Result<(), Status> {
        // Asked before each request, which must not wait while a term is written.
        if self.terms.is_loaded() {
            return Ok(());
        }
        let alone = self.terms.note.alone().await;
        if self.terms.is_loaded() {
            return Ok(());
        }
        let known = match self.terms.note.load(&self.store, &alone).await? {
            Loaded::Never => Some(Known::default()),
            Loaded::Damaged => None,
            Loaded::Payload(payload) => known_in(&payload),
        };
        self.terms.known.set(Some(known.ok_or(Status::Io)?));
        Ok(())
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
        let alone = self.terms.note.alone().await;
        // The term or the change may be later by then: the call that changed it writes next.
        let payload = payload_of(&self.terms.known());
        let note = &self.terms.note;
        note.write(&self.store, &payload, stability, &alone).await
    }
}

fn payload_of(known: &Known) -> Vec<u8> {
    let mut payload = Vec::with_capacity(TERM_LEN + 8);
    let mut encoder = Encoder::new(&mut payload);
    encoder.u64(known.term.number);
    encoder.fixed(&known.term.token);
    encoder.u64(known.change);
    payload
}

fn known_in(payload: &[u8]) -> Option<Known> {
    let mut decoder = Decoder::new(payload);
    Some(Known {
        term: Term::decode(&mut decoder).ok()?,
        change: decoder.u64().ok()?,
    })
}
