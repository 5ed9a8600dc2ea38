//! The groups that the server is a member of, as the manager told it last. They are kept in a file beside the objects'
//! folders, so that a server that restarts need not wait for the manager.

use super::Objects;
use super::double_note::{DoubleNote, NoteForm};
use super::store::ObjectStore;
use gannet_vfs::{Stability, Status};
use gannet_wire::volume::{
    GROUPS_OF_SERVER_MAX, GroupRecord, MEMBERS_MAX, Membership, Memberships,
};
use gannet_wire::xdr::{Decode, Decoder, to_bytes};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

/// The name of the file in the root of the store. `gannet volume check` does not report it as foreign.
pub const GROUPS_FILE: &str = "groups";

const FORM: NoteForm = NoteForm {
    name: GROUPS_FILE,
    magic: b"gannet-g",
    // A count, and the longest memberships: number, epoch and members.
    payload_len: 4 + GROUPS_OF_SERVER_MAX * (4 + 8 + 4 + MEMBERS_MAX * 8),
    damage: "it does not know its groups: remove the file, and the manager tells them again",
};

/// The groups of the server, in memory and in its file.
pub(super) struct Groups {
    /// The group with the server's own number.
    own: u32,
    /// `None`: the manager has never told them.
    pub(super) known: RefCell<Option<BTreeMap<u32, GroupRecord>>>,
    is_loaded: Cell<bool>,
    note: DoubleNote,
}

impl Groups {
    pub(super) fn new(own: u32) -> Groups {
        Groups {
            own,
            known: RefCell::default(),
            is_loaded: Cell::default(),
            note: DoubleNote::new(FORM),
        }
    }

    /// Whether the server has objects of a group.
    ///
    /// # Errors
    /// `Stale`: it is no member. `Jukebox`: the manager has not told it yet.
    pub(super) fn check(&self, group: u32) -> Result<(), Status> {
        match &*self.known.borrow() {
            Some(known) if known.contains_key(&group) => Ok(()),
            Some(_) => Err(Status::Stale),
            // A volume without records of groups, where each server is one.
            None if group == self.own => Ok(()),
            None => Err(Status::Jukebox),
        }
    }

    /// The groups that are known once the manager has told this. An earlier record of a group does not replace a later
    /// one: messages of an earlier connection may come late.
    fn after(&self, told: Memberships) -> BTreeMap<u32, GroupRecord> {
        let known = self.known.borrow();
        let latest = told.groups.into_iter().map(|told| {
            let known = known.as_ref().and_then(|known| known.get(&told.group));
            let later = known.filter(|it| it.epoch > told.record.epoch);
            (told.group, later.cloned().unwrap_or(told.record))
        });
        latest.collect()
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
    /// The note cannot be read, or is damaged (`Io`).
    pub(super) async fn load_groups(&self) -> Result<(), Status> {
        if self.groups.is_loaded.get() {
            return Ok(());
        }
        let alone = self.groups.note.alone().await;
        if self.groups.is_loaded.get() {
            return Ok(());
        }
        if let Some(payload) = self.groups.note.load(&self.store, &alone).await? {
            let told = Memberships::decode(&mut Decoder::new(&payload));
            // A record that is whole has groups.
            let known = self.groups.after(told.map_err(|_| Status::Io)?);
            self.groups.known.replace(Some(known));
        }
        self.groups.is_loaded.set(true);
        Ok(())
    }

    /// Learns from the manager which groups the server is a member of. They are durable before they count.
    ///
    /// # Errors
    /// Any of the store: the manager tells them again.
    pub async fn learn_groups(&self, told: Memberships) -> Result<(), Status> {
        let alone = self.groups.note.alone().await;
        let now = self.groups.after(told);
        if self.groups.known.borrow().as_ref() == Some(&now) {
            return Ok(());
        }
        let mut payload = to_bytes(&memberships(&now));
        payload.resize(FORM.payload_len, 0);
        let note = &self.groups.note;
        let written = note.write(&self.store, &payload, Stability::FileSync, &alone);
        written.await?;
        let groups = now
            .keys()
            .map(u32::to_string)
            .collect::<Vec<_>>()
            .join(", ");
        tracing::info!(groups, "the manager says which groups the server is in");
        self.groups.known.replace(Some(now));
        Ok(())
    }
}
