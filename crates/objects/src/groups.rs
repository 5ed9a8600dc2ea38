//! The groups that the server is a member of, as the manager told it last. They are kept in a file beside the objects'
//! folders, so that a server that restarts need not wait for the manager.

use super::Objects;
use super::double_note::{DoubleNote, Loaded, NoteForm};
use super::store::ObjectStore;
use gannet_vfs::{Stability, Status};
use gannet_wire::volume::{
    GROUPS_OF_SERVER_MAX, GroupRecord, MEMBERS_MAX, MemberState, Membership, Memberships,
};
use gannet_wire::xdr::{Decode, Decoder, Encode, Encoder};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use tokio::sync::Notify;

/// The name of the file in the root of the store. `gannet volume check` does not report it as foreign.
pub const GROUPS_FILE: &str = "groups";

const FORM: NoteForm = NoteForm {
    name: GROUPS_FILE,
    magic: b"gannet-g",
    // The term, a count, and the longest memberships: number, epoch and members.
    payload_len: 8 + 4 + GROUPS_OF_SERVER_MAX * (4 + 8 + 4 + MEMBERS_MAX * 8),
    place_len: 4096,
    damage: "it serves no group until the manager has told them again",
};

/// The epoch of a group when it is made.
const FIRST_EPOCH: u64 = 1;

/// The part of the server in a group that it is a member of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// It is the only member.
    Single,
    /// It is the primary, and the other member is out.
    Alone {
        /// The epoch of the group.
        epoch: u64,
    },
    /// It is the primary, and passes each change on.
    Primary {
        /// The epoch of the group.
        epoch: u64,
        /// The server of the other member.
        other: u32,
        /// The other member does not have everything yet.
        is_filling: bool,
    },
    /// It gets the changes of the primary.
    Second {
        /// The epoch of the group.
        epoch: u64,
        /// The server of the primary.
        primary: u32,
        /// It does not have everything yet.
        is_filling: bool,
    },
    /// It gets no changes.
    Out,
    /// It was in, and may have lost what was not durable: it serves in a later epoch alone.
    Restarted,
    /// It was in, and has lost its disk.
    Lost,
    /// Nobody serves the group.
    Unserved,
}

impl Standing {
    /// The part of server `own` in a group with this record, as far as the record says.
    fn of(own: u32, record: &GroupRecord) -> Standing {
        let epoch = record.epoch;
        if record.members.len() == 1 && record.primary() == Some(own) {
            return Standing::Single;
        }
        let state_of = |server| {
            let mut members = record.members.iter();
            members.find(|it| it.server == server).map(|it| it.state)
        };
        let Some(primary) = record.primary() else {
            return Standing::Unserved;
        };
        if primary != own {
            return match state_of(own) {
                Some(state @ (MemberState::In | MemberState::Filling)) => Standing::Second {
                    epoch,
                    primary,
                    is_filling: state == MemberState::Filling,
                },
                _ => Standing::Out,
            };
        }
        let mut others = record.members.iter().filter(|it| it.server != own);
        match others.find(|it| matches!(it.state, MemberState::In | MemberState::Filling)) {
            Some(other) => Standing::Primary {
                epoch,
                other: other.server,
                is_filling: other.state == MemberState::Filling,
            },
            None => Standing::Alone { epoch },
        }
    }

    /// Whether the server has all bytes of the group, as far as the record says.
    fn has_everything(self) -> bool {
        match self {
            Standing::Single | Standing::Alone { .. } | Standing::Primary { .. } => true,
            Standing::Second { is_filling, .. } => !is_filling,
            Standing::Out | Standing::Restarted | Standing::Lost | Standing::Unserved => false,
        }
    }

    /// Whether the server is being filled.
    fn is_filled(self) -> bool {
        match self {
            Standing::Second { is_filling, .. } => is_filling,
            _ => false,
        }
    }

    /// Whether the server has to do with changes of the group's objects.
    fn gets_changes(self) -> bool {
        matches!(
            self,
            Standing::Alone { .. } | Standing::Primary { .. } | Standing::Second { .. }
        )
    }
}

/// A group of several members, as far as this process has heard of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Heard {
    /// It serves nothing up to this epoch, because it restarted in that.
    restarted: u64,
    /// It has lost its disk, and is not out yet: it serves nothing, whatever the epoch.
    is_lost: bool,
}

/// The groups that an earlier process has noted.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Noted {
    /// These. Of others the server has nothing yet, or has lost it.
    Groups(BTreeSet<u32>),
    /// The note is damaged.
    Unknown,
}

/// The groups of the server, in memory and in its file.
pub(super) struct Groups {
    /// The number of the server, and of the group of that number.
    pub(super) own: u32,
    pub(super) known: RefCell<Known>,
    /// The groups of `known` with the server as their only member: looked at for each request.
    singles: RefCell<Vec<u32>>,
    is_loaded: Cell<bool>,
    /// The file has what is known.
    is_noted: Cell<bool>,
    note: DoubleNote,
    noted: RefCell<Noted>,
    /// The server had another disk, which is lost.
    pub(super) has_lost_disk: Cell<bool>,
    /// No manager tells it groups: the one with its own number is its own.
    pub(super) is_unmanaged: Cell<bool>,
    heard: RefCell<BTreeMap<u32, Heard>>,
    /// Groups of several members that the manager has told, and that are not durable yet.
    pending: RefCell<BTreeSet<u32>>,
    /// How many members of a group of several must have a write before it is answered.
    min_copies: Cell<u32>,
    /// The manager has told something.
    changed: Notify,
}

/// The groups that a server knows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Known {
    /// The manager has never told them.
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
            } => Some((*before >= term, records)),
            _ => None,
        };
        let latest = told.groups.into_iter().map(|told| {
            let known = before.and_then(|(is_same_term, known)| {
                let known = known.get(&told.group)?;
                // Of several members, the later record says who has all bytes: the manager hears of it from here.
                (is_same_term || known.members.len() > 1).then_some(known)
            });
            let later = known.filter(|it| it.epoch > told.record.epoch);
            (told.group, later.cloned().unwrap_or(told.record))
        });
        Known::Told {
            term,
            records: latest.collect(),
        }
    }

    /// The groups of several members.
    fn several(&self) -> BTreeSet<u32> {
        let Known::Told { records, .. } = self else {
            return BTreeSet::new();
        };
        let several = records.iter().filter(|(_, it)| it.members.len() > 1);
        several.map(|(group, _)| *group).collect()
    }

    /// Whether a group with one member has several in `now`.
    fn gets_members(&self, now: &Known) -> bool {
        let (
            Known::Told {
                records: before, ..
            },
            Known::Told { records, .. },
        ) = (self, now)
        else {
            return false;
        };
        records.iter().any(|(group, record)| {
            let before = before.get(group).map(|it| it.members.len());
            record.members.len() > 1 && before == Some(1)
        })
    }

    /// The groups that are known with another record of one, unless a later one is known.
    fn with(&self, group: u32, record: GroupRecord) -> Known {
        let mut known = self.clone();
        if let Known::Told { records, .. } = &mut known
            && let Some(before) = records.get_mut(&group)
            && before.epoch < record.epoch
        {
            *before = record;
        }
        known
    }

    /// The part of `now` that counts before it is durable: that of groups with one member.
    fn with_single_of(&self, now: &Known) -> Known {
        let (Known::Told { term, records }, before) = (now, self) else {
            return self.clone();
        };
        let mut at_once = records.clone();
        at_once.retain(|_, record| record.members.len() == 1);
        if let Known::Told { records, .. } = before {
            let several = records.iter().filter(|(_, it)| it.members.len() > 1);
            at_once.extend(several.map(|(group, record)| (*group, record.clone())));
        }
        Known::Told {
            term: *term,
            records: at_once,
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
            singles: RefCell::default(),
            is_loaded: Cell::default(),
            is_noted: Cell::default(),
            note: DoubleNote::new(FORM),
            noted: RefCell::new(Noted::Groups(BTreeSet::new())),
            has_lost_disk: Cell::new(false),
            is_unmanaged: Cell::new(false),
            heard: RefCell::default(),
            pending: RefCell::default(),
            min_copies: Cell::new(1),
            changed: Notify::new(),
        }
    }

    /// Knows these groups from now on.
    fn know(&self, known: Known) {
        let mut singles = Vec::new();
        if let Known::Told { records, .. } = &known {
            let own = records
                .iter()
                .filter(|(_, it)| Standing::of(self.own, it) == Standing::Single);
            singles.extend(own.map(|(group, _)| *group));
        }
        self.singles.replace(singles);
        self.known.replace(known);
    }

    /// Whether the server is the only member of a group.
    pub(super) fn is_single(&self, group: u32) -> bool {
        self.singles.borrow().contains(&group)
    }

    /// The part of the server in a group.
    ///
    /// # Errors
    /// `Stale`: it is no member. `Jukebox`: the manager has not told it yet.
    pub(super) fn standing(&self, group: u32) -> Result<Standing, Status> {
        if self.is_single(group) {
            return Ok(Standing::Single);
        }
        match &*self.known.borrow() {
            Known::Told { records, .. } => match records.get(&group) {
                Some(record) => self.standing_by(group, record),
                None if self.pending.borrow().contains(&group) => Err(Status::Jukebox),
                None => Err(Status::Stale),
            },
            Known::Never if group == self.own && self.is_unmanaged.get() => Ok(Standing::Single),
            // What it changed now would reach no other member.
            Known::Never | Known::Lost => Err(Status::Jukebox),
        }
    }

    fn standing_by(&self, group: u32, record: &GroupRecord) -> Result<Standing, Status> {
        let standing = Standing::of(self.own, record);
        if !standing.gets_changes() {
            return Ok(standing);
        }
        match self.heard.borrow().get(&group) {
            None => Err(Status::Jukebox),
            Some(heard) if heard.is_lost => Ok(Standing::Lost),
            Some(heard) if record.epoch > heard.restarted => Ok(standing),
            Some(_) => Ok(Standing::Restarted),
        }
    }

    /// Notes what this process hears of groups: of all, or of one.
    fn hear(&self, known: &Known, only: Option<u32>) {
        let Known::Told { records, .. } = known else {
            return;
        };
        let wanted = records
            .iter()
            .filter(|(group, _)| only.is_none_or(|it| it == **group));
        for (group, record) in wanted {
            let first = self.first_heard(*group, record);
            let mut heard = self.heard.borrow_mut();
            let heard = heard.entry(*group).or_insert(first);
            if record.members.len() < 2 {
                continue;
            }
            let is_out = Standing::of(self.own, record) == Standing::Out;
            if heard.is_lost && is_out {
                // It will be filled.
                (heard.is_lost, heard.restarted) = (false, 0);
            }
            // No wish leads from a restart to this: the manager has not heard of it yet.
            let all_in = record.members.iter().all(|it| it.state == MemberState::In);
            let before = self.epoch_before(*group);
            let is_open = before.is_some_and(|epoch| epoch <= heard.restarted);
            if is_open && all_in {
                heard.restarted = heard.restarted.max(record.epoch);
            }
        }
    }

    /// A group that this process hears of with this record for the first time.
    ///
    /// | noted | record | the server |
    /// |---|---|---|
    /// | yes | gets changes | has restarted |
    /// | no | gets changes, later than the first | has lost it, or has an older image of its disk |
    /// | no | the first, both members in | has nothing yet; has lost it if a disk was lost |
    /// | no | the first, the other member out | has nothing yet: nobody else has more |
    fn first_heard(&self, group: u32, record: &GroupRecord) -> Heard {
        let standing = Standing::of(self.own, record);
        let is_first = record.epoch <= FIRST_EPOCH;
        let is_alone = matches!(standing, Standing::Alone { .. });
        let (is_returning, is_lost) = match &*self.noted.borrow() {
            Noted::Groups(groups) if groups.contains(&group) => (true, false),
            Noted::Groups(_) if is_first => (false, self.has_lost_disk.get() && !is_alone),
            Noted::Groups(_) => (false, true),
            Noted::Unknown => (true, self.has_lost_disk.get()),
        };
        let gets_changes = standing.gets_changes();
        Heard {
            restarted: if is_returning && gets_changes {
                record.epoch
            } else {
                0
            },
            is_lost: is_lost && gets_changes,
        }
    }

    /// The epoch of the record of a group that counts so far.
    fn epoch_before(&self, group: u32) -> Option<u64> {
        match &*self.known.borrow() {
            Known::Told { records, .. } => records.get(&group).map(|it| it.epoch),
            Known::Never | Known::Lost => None,
        }
    }

    /// Whether this process began as a member that had restarted.
    pub(super) fn has_restarted(&self, group: u32) -> bool {
        let heard = self.heard.borrow();
        heard.get(&group).is_some_and(|it| it.restarted > 0)
    }

    /// The part of `known` that a later process is to find. A group whose objects are lost is noted when the server is
    /// out. Until then it must know that it has nothing of it.
    fn to_note(&self, known: &Known) -> Known {
        let mut known = known.clone();
        if let Known::Told { records, .. } = &mut known {
            let heard = self.heard.borrow();
            records.retain(|group, _| !heard.get(group).is_some_and(|it| it.is_lost));
        }
        known
    }

    /// Whether a group has too few copies for a write, by this part of the server in it.
    pub(super) fn lacks_copies(&self, standing: Standing) -> bool {
        let copies = match standing {
            Standing::Alone { .. } => 1,
            Standing::Primary { is_filling, .. } if is_filling => 1,
            _ => return false,
        };
        copies < self.min_copies.get()
    }

    /// The servers to which this one passes changes on.
    fn others(&self) -> BTreeSet<u32> {
        let several = self.of_several().into_iter();
        let others = several.filter_map(|(_, _, standing)| match standing {
            Standing::Primary { other, .. } => Some(other),
            _ => None,
        });
        others.collect()
    }

    /// The groups of several members, and what the server is in each.
    pub(super) fn of_several(&self) -> Vec<(u32, GroupRecord, Standing)> {
        let known = self.known.borrow();
        let Known::Told { records, .. } = &*known else {
            return Vec::new();
        };
        let several = records.iter().filter(|(_, it)| it.members.len() > 1);
        let several = several.filter_map(|(group, record)| {
            let standing = self.standing_by(*group, record).ok()?;
            Some((*group, record.clone(), standing))
        });
        several.collect()
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
        self.groups.noted.replace(match &known {
            Known::Lost => Noted::Unknown,
            Known::Never => Noted::Groups(BTreeSet::new()),
            Known::Told { records, .. } => Noted::Groups(records.keys().copied().collect()),
        });
        self.groups.know(known);
        self.groups.is_loaded.set(true);
        Ok(())
    }

    /// Learns from the manager of the present term which groups the server is a member of. Those with one member count
    /// at once, the others once they outlive a restart: a server that restarts must know that it was in.
    ///
    /// # Errors
    /// Any of the store: the manager tells them again.
    pub async fn learn_groups(&self, told: Memberships) -> Result<(), Status> {
        let term = self.term_number();
        self.learn(None, |known| known.after(told, term)).await
    }

    /// From now on, a write to a group of several members waits until so many have it.
    pub fn need_copies(&self, min_copies: u32) {
        self.groups.min_copies.set(min_copies);
    }

    /// Learns a later record of a group, which the manager gave for a wish.
    ///
    /// # Errors
    /// Any of the store: the record does not count.
    pub async fn learn_group(&self, group: u32, record: GroupRecord) -> Result<(), Status> {
        self.learn(Some(group), |known| known.with(group, record))
            .await
    }

    async fn learn(
        &self,
        only: Option<u32>,
        change: impl FnOnce(&Known) -> Known,
    ) -> Result<(), Status> {
        let alone = self.groups.note.alone().await;
        let before = self.groups.known.borrow().clone();
        let now = change(&before);
        self.groups.hear(&now, only);
        if self.groups.is_noted.get() && before == now {
            self.groups.changed.notify_waiters();
            return Ok(());
        }
        self.groups.is_noted.set(false);
        self.note_turns(&before, &now).await?;
        if before.gets_members(&now) {
            // References to objects are for groups with one member alone.
            self.watcher.term_began();
        }
        let payload = self.groups.to_note(&now).payload();
        self.groups.pending.replace(now.several());
        self.groups.know(before.with_single_of(&now));
        let note = &self.groups.note;
        let written = note.write(&self.store, &payload, Stability::FileSync, &alone);
        written.await?;
        let left = self.groups.others();
        self.keep_rights(&now);
        self.groups.know(now);
        self.groups.is_noted.set(true);
        self.groups.changed.notify_waiters();
        let others = self.groups.others();
        self.leave(left.difference(&others).copied());
        self.note_kept().await;
        Ok(())
    }

    /// The right to serve a group outlives a record that changes no member, or has the other one filled: that one has
    /// promised by time, and not by epoch. Else this server would serve nothing until it has heard of the record, too.
    fn keep_rights(&self, now: &Known) {
        let Known::Told { records, .. } = now else {
            return;
        };
        for (group, record) in records {
            let (
                Ok(Standing::Primary {
                    epoch: before,
                    other: before_it,
                    ..
                }),
                Standing::Primary {
                    epoch,
                    other,
                    is_filling: false,
                },
            ) = (
                self.groups.standing(*group),
                Standing::of(self.groups.own, record),
            )
            else {
                continue;
            };
            if epoch == before + 1 && other == before_it {
                self.leases.keep(*group, before, epoch);
            }
        }
    }

    /// Notes what this server can say of its objects after a change of records. If it takes a group over without
    /// everything, any object may differ from that of the other member. If it was alone, and another one serves now
    /// that it has not filled, it may have what that one lacks.
    async fn note_turns(&self, before: &Known, now: &Known) -> Result<(), Status> {
        let (
            Known::Told { records, .. },
            Known::Told {
                records: before, ..
            },
        ) = (now, before)
        else {
            return Ok(());
        };
        let own = self.groups.own;
        let mut has_turned = false;
        for (group, record) in records {
            let Some(before) = before.get(group).map(|it| Standing::of(own, it)) else {
                continue;
            };
            let now = Standing::of(own, record);
            match (before.has_everything(), now.has_everything()) {
                (false, true) if !matches!(now, Standing::Second { .. }) => {
                    self.intents.mark_all(*group);
                    has_turned = true;
                }
                (true, false) if matches!(before, Standing::Alone { .. }) => {
                    self.intents.taint(*group);
                    has_turned = true;
                }
                _ => {}
            }
            if before == Standing::Single && now != Standing::Single {
                // It has marked nothing since: what an earlier second member had says nothing.
                self.intents.forget(*group);
                has_turned = true;
            }
            if before != now && now.is_filled() {
                self.intents.is_filled(*group);
            }
        }
        if has_turned {
            self.note_all_intents().await?;
        }
        Ok(())
    }

    /// Notes of which groups the server has everything. If that is not durable, more than is needed is copied later.
    async fn note_kept(&self) {
        let several = self.groups.of_several();
        let groups = several.iter().map(|(group, ..)| *group);
        self.intents.retain(&groups.collect());
        for (group, _, standing) in several {
            if let Standing::Primary {
                epoch,
                is_filling: false,
                ..
            }
            | Standing::Second {
                epoch,
                is_filling: false,
                ..
            } = standing
            {
                self.intents.has_all(group, epoch);
            }
        }
        if let Err(status) = self.note_all_intents().await {
            tracing::warn!(%status, "an I/O server cannot note of which groups it has everything");
        }
    }

    /// Waits until the server is in a group of several members.
    pub async fn has_groups_of_several(&self) {
        loop {
            let changed = self.groups.changed.notified();
            if !self.groups.of_several().is_empty() {
                return;
            }
            changed.await;
        }
    }

    /// The groups of several members that the server is in, with their records, and what it is in each.
    pub fn groups_of_several(&self) -> Vec<(u32, GroupRecord, Standing)> {
        self.groups.of_several()
    }
}
