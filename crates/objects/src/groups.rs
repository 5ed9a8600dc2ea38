//! The groups that the server is a member of, as the manager told it last. They are kept in a file beside the objects'
//! folders, so that a server that restarts need not wait for the manager.

use super::Objects;
use super::double_note::{DoubleNote, Loaded, NoteForm};
use super::store::ObjectStore;
use gannet_vfs::{Stability, Status};
use gannet_wire::volume::{
    GROUPS_OF_SERVER_MAX, GroupRecord, MEMBERS_MAX, Membership, Memberships,
};
use gannet_wire::xdr::{Decode, Decoder, Encode, Encoder};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

/// The name of the file in the root of the store. `gannet volume check` does not report it as foreign.
pub const GROUPS_FILE: &str = "groups";

const FORM: NoteForm = NoteForm {
    name: GROUPS_FILE,
    magic: b"gannet-g",
    // The term, a count, and the longest memberships: number, epoch and members.
    payload_len: 8 + 4 + GROUPS_OF_SERVER_MAX * (4 + 8 + 4 + MEMBERS_MAX * 8),
    damage: "it serves no group until the manager has told them again",
};

/// The groups of the server, in memory and in its file.
pub(super) struct Groups {
    /// The group with the server's own number.
    own: u32,
    pub(super) known: RefCell<Known>,
    is_loaded: Cell<bool>,
    /// The file has what is known.
    is_noted: Cell<bool>,
    note: DoubleNote,
}

/// The groups that a server knows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Known {
    /// The manager has never told them. In a volume without records of groups, each server is one.
    Never,
    /// They were told, and the note of them is damaged.
    Lost,
    Told {
        /// The term of the manager.
        term: u64,
        records: BTreeMap<u32, GroupRecord>,
    },
}

impl Known {
    /// The groups that are known once the manager of `term` has told these. Within a term, an earlier record of a group
    /// does not replace a later one: messages of an earlier connection may come late. A later manager may have metadata
    /// from a backup.
    fn after(&self, told: Memberships, term: u64) -> Known {
        let before = match self {
            Known::Told {
                term: before,
                records,
            } if *before >= term => Some(records),
            _ => None,
        };
        let latest = told.groups.into_iter().map(|told| {
            let known = before.and_then(|known| known.get(&told.group));
            let later = known.filter(|it| it.epoch > told.record.epoch);
            (told.group, later.cloned().unwrap_or(told.record))
        });
        Known::Told {
            term,
            records: latest.collect(),
        }
    }

    fn payload(&self) -> Vec<u8> {
        let mut payload = Vec::with_capacity(FORM.payload_len);
        if let Known::Told { term, records } = self {
            let mut encoder = Encoder::new(&mut payload);
            encoder.u64(*term);
            memberships(records).encode(&mut encoder);
        }
        payload.resize(FORM.payload_len, 0);
        payload
    }

    fn of_payload(payload: &[u8]) -> Option<Known> {
        let mut decoder = Decoder::new(payload);
        let term = decoder.u64().ok()?;
        let told = Memberships::decode(&mut decoder).ok()?;
        Some(Known::Never.after(told, term))
    }
}

impl Groups {
    pub(super) fn new(own: u32) -> Groups {
        Groups {
            own,
            known: RefCell::new(Known::Never),
            is_loaded: Cell::default(),
            is_noted: Cell::default(),
            note: DoubleNote::new(FORM),
        }
    }

    /// Whether the server has objects of a group.
    ///
    /// # Errors
    /// `Stale`: it is no member. `Jukebox`: the manager has not told it yet.
    pub(super) fn check(&self, group: u32) -> Result<(), Status> {
        match &*self.known.borrow() {
            Known::Told { records, .. } if records.contains_key(&group) => Ok(()),
            Known::Told { .. } => Err(Status::Stale),
            Known::Never if group == self.own => Ok(()),
            Known::Never | Known::Lost => Err(Status::Jukebox),
        }
    }
}

fn memberships(known: &BTreeMap<u32, GroupRecord>) -> Memberships {
    let groups = known.iter().map(|(group, record)| Membership {
        group: *group,
        record: record.clone(),
    });
    Memberships {
        groups: groups.collect(),
    }
}

impl<S: ObjectStore> Objects<S> {
    /// Reads the groups that an earlier incarnation was told.
    ///
    /// # Errors
    /// The note cannot be read.
    pub(super) async fn load_groups(&self) -> Result<(), Status> {
        if self.groups.is_loaded.get() {
            return Ok(());
        }
        let alone = self.groups.note.alone().await;
        if self.groups.is_loaded.get() {
            return Ok(());
        }
        let known = match self.groups.note.load(&self.store, &alone).await? {
            Loaded::Never => Known::Never,
            Loaded::Damaged => Known::Lost,
            Loaded::Payload(payload) => Known::of_payload(&payload).unwrap_or(Known::Lost),
        };
        let is_told = matches!(known, Known::Told { .. });
        self.groups.is_noted.set(is_told);
        self.groups.known.replace(known);
        self.groups.is_loaded.set(true);
        Ok(())
    }

    /// Learns from the manager of the present term which groups the server is a member of. They count at once. When it
    /// returns, they outlive a restart.
    ///
    /// # Errors
    /// Any of the store: the manager tells them again.
    pub async fn learn_groups(&self, told: Memberships) -> Result<(), Status> {
        let alone = self.groups.note.alone().await;
        let now = self.groups.known.borrow().after(told, self.term_number());
        let is_noted = self.groups.is_noted.get();
        if is_noted && *self.groups.known.borrow() == now {
            return Ok(());
        }
        self.groups.is_noted.set(false);
        let payload = now.payload();
        self.groups.known.replace(now);
        let note = &self.groups.note;
        let written = note.write(&self.store, &payload, Stability::FileSync, &alone);
        written.await?;
        self.groups.is_noted.set(true);
        Ok(())
    }
}
