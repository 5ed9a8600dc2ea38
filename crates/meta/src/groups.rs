//! The groups of I/O servers in a volume's metadata: who is in each.
//!
//! A volume that was made before there were groups has no records of them. There, group `n` is I/O server `n` alone.

use super::group_placement::{PlacementError, Zones, second_for};
use super::namespace::{Failure, Outcome};
use super::{StoreError, Table, Transaction, View};
use gannet_wire::volume::{
    Copies, GROUPS_MAX, GROUPS_OF_SERVER_MAX, GroupRecord, LayoutRecord, Member, MemberState,
    Membership, Memberships, ROOT,
};
use gannet_wire::xdr::{from_bytes, to_bytes};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// The prefix of the number of a group, before its record.
const GROUP: &[u8] = b"group ";

/// The prefix of the number of a group for directories that choose their copies.
const CHOSEN: &[u8] = b"chosen group ";

/// Groups that each new server brings. With several, its load can go to several others when it is away or leaves.
pub const GROUPS_OF_NEW_SERVER: u32 = 4;

/// Groups that a server brings for directories that choose so many copies. With those of the volume it is in fewer than
/// [`GROUPS_OF_SERVER_MAX`] then, also if the volume has two copies.
fn groups_for_choice(copies: Copies) -> u32 {
    match copies {
        Copies::One => 1,
        Copies::Two => 2,
    }
}

fn key(number: u32) -> Vec<u8> {
    [GROUP, &number.to_be_bytes()].concat()
}

/// The groups of a volume, by their numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Groups {
    records: Vec<GroupRecord>,
    /// The groups for directories that choose their copies. The others are for all other files.
    chosen: BTreeSet<u32>,
}

impl Groups {
    /// Groups with these records, in the order of their numbers. None is for directories that choose their copies.
    pub fn new(records: Vec<GroupRecord>) -> Groups {
        Groups {
            records,
            chosen: BTreeSet::new(),
        }
    }

    /// The groups of `servers` I/O servers without records: each server alone.
    pub fn of_servers(servers: u32) -> Groups {
        Groups::new((0..servers).map(GroupRecord::of).collect())
    }

    /// How many there are; their numbers are 0, 1, 2 ...
    pub fn count(&self) -> u32 {
        // Bounded by GROUPS_MAX.
        self.records.len() as u32
    }

    /// The records, by number.
    pub fn records(&self) -> &[GroupRecord] {
        &self.records
    }

    /// The same, of which these are for directories that choose their copies.
    #[must_use]
    pub fn choosing(mut self, chosen: impl IntoIterator<Item = u32>) -> Groups {
        self.chosen = chosen.into_iter().collect();
        self
    }

    /// The groups for directories that choose their copies. Clients that have not asked for them know of none.
    pub fn chosen(&self) -> &BTreeSet<u32> {
        &self.chosen
    }

    /// The groups for files with this choice of copies, or without one, each with its number.
    pub fn for_choice(&self, choice: Option<Copies>) -> impl Iterator<Item = (u32, &GroupRecord)> {
        let groups = (0..).zip(&self.records);
        groups.filter(move |(number, record)| {
            let is_chosen = self.chosen.contains(number);
            match choice {
                None => !is_chosen,
                Some(copies) => is_chosen && record.members.len() as u32 == copies.number(),
            }
        })
    }

    /// The same with further groups, which are for directories that choose their copies, or for all other files.
    #[must_use]
    pub fn with_new(&self, records: &[(u32, GroupRecord)], are_chosen: bool) -> Groups {
        let mut groups = self.clone();
        for (number, record) in records {
            debug_assert_eq!(*number, groups.count(), "numbers follow each other");
            groups.records.push(record.clone());
            if are_chosen {
                groups.chosen.insert(*number);
            }
        }
        groups
    }

    /// Keeps the later records of groups of several members that are known in `before`: an answer of a former manager
    /// may come late, or a backup of the metadata may not know them yet.
    pub fn keep_later(&mut self, before: &Groups) {
        for (record, known) in self.records.iter_mut().zip(&before.records) {
            if known.members.len() > 1 && known.epoch > record.epoch {
                *record = known.clone();
            }
        }
    }

    /// The same with another record of a group.
    #[must_use]
    pub fn with(&self, number: u32, record: GroupRecord) -> Groups {
        self.with_all(&[(number, record)])
    }

    /// The same with other records of the groups with these numbers.
    #[must_use]
    pub fn with_all(&self, records: &[(u32, GroupRecord)]) -> Groups {
        let mut groups = self.clone();
        for (number, record) in records {
            if let Some(known) = groups.records.get_mut(*number as usize) {
                known.clone_from(record);
            }
        }
        groups
    }

    /// The record of a group.
    pub fn get(&self, number: u32) -> Option<&GroupRecord> {
        self.records.get(number as usize)
    }

    /// The server to which clients of a group write; `None` if there is no such group, or nobody serves it.
    pub fn primary(&self, number: u32) -> Option<u32> {
        self.get(number)?.primary()
    }

    /// The groups that a server is a member of. There are at most [`GROUPS_OF_SERVER_MAX`]: see [`groups`].
    pub fn memberships(&self, server: u32) -> Memberships {
        let groups = (0..).zip(&self.records);
        let groups = groups.filter(|(_, record)| record.has(server));
        let groups = groups.map(|(group, record)| Membership {
            group,
            record: record.clone(),
        });
        Memberships {
            groups: groups.collect(),
        }
    }

    /// How many copies there are of files whose directories choose none: two if any group has two members.
    pub fn copies(&self) -> Copies {
        let mut groups = self.for_choice(None);
        if groups.any(|(_, record)| record.members.len() > 1) {
            Copies::Two
        } else {
            Copies::One
        }
    }

    /// Whether any group has several members.
    pub fn has_several(&self) -> bool {
        self.records.iter().any(|record| record.members.len() > 1)
    }

    /// The servers among these that are in no group.
    pub fn in_none(&self, servers: Range<u32>) -> Vec<u32> {
        let is_in_none = |server: &u32| !self.records.iter().any(|record| record.has(*server));
        servers.filter(is_in_none).collect()
    }

    /// Whether a server is a member of a group.
    pub fn is_member(&self, group: u32, server: u32) -> bool {
        self.get(group).is_some_and(|record| record.has(server))
    }

    /// Whether a server is to have the object of a group for a file with this layout.
    pub fn has_object(&self, layout: &LayoutRecord, group: u32, server: u32) -> bool {
        layout.groups.contains(&group) && self.is_member(group, server)
    }

    /// The groups of a layout that a server is a member of, each with its index in the layout.
    pub fn on_server(
        &self,
        layout: &LayoutRecord,
        server: u32,
    ) -> impl Iterator<Item = (usize, u32)> {
        let groups = layout.groups.iter().copied().enumerate();
        groups.filter(move |(_, group)| self.is_member(*group, server))
    }

    /// The groups for files with this choice of copies on each of `servers` I/O servers, in ascending order: those of
    /// which it is the primary. A server that is the primary of none takes some of which it is the other member. Each
    /// group is one server's.
    pub fn by_server(&self, servers: u32, choice: Option<Copies>) -> Vec<Vec<u32>> {
        let mut of_servers = vec![Vec::new(); servers as usize];
        for (number, record) in self.for_choice(choice) {
            let primary = record.primary().map(|server| server as usize);
            if let Some(groups) = primary.and_then(|server| of_servers.get_mut(server)) {
                groups.push(number);
            }
        }
        for server in 0..servers {
            while let Some((from, group)) = self.group_to_spare(&of_servers, server) {
                if let Some(groups) = of_servers.get_mut(from) {
                    groups.retain(|it| *it != group);
                }
                if let Some(groups) = of_servers.get_mut(server as usize) {
                    groups.push(group);
                }
            }
        }
        of_servers
    }

    /// A group for a server that has none, and who has it now: the server with the most of them.
    fn group_to_spare(&self, of_servers: &[Vec<u32>], server: u32) -> Option<(usize, u32)> {
        if !of_servers.get(server as usize)?.is_empty() {
            return None;
        }
        let candidates = of_servers.iter().enumerate().filter(|(_, it)| it.len() > 1);
        let candidates = candidates.filter_map(|(from, groups)| {
            let group = groups.iter().find(|it| self.is_member(**it, server))?;
            Some((groups.len(), from, *group))
        });
        let (_, from, group) = candidates.max()?;
        Some((from, group))
    }
}

/// The groups of a volume with `servers` I/O servers.
///
/// # Errors
/// `Failure::Store`: the store failed. `Failure::Damaged`: a record cannot be decoded, has no number that a group may
/// have, or is missing; or a server is in more than [`GROUPS_OF_SERVER_MAX`] groups.
pub fn groups(view: &dyn View, servers: u32) -> Outcome<Groups> {
    let (mut records, mut is_damaged) = (BTreeMap::new(), false);
    view.scan(Table::Volume, GROUP, &mut |key, value| {
        let Some(number) = key.strip_prefix(GROUP) else {
            return false;
        };
        let number = <[u8; 4]>::try_from(number).map(u32::from_be_bytes);
        match (number, from_bytes::<GroupRecord>(value)) {
            (Ok(number), Ok(record)) if (number as usize) < GROUPS_MAX => {
                records.insert(number, record);
            }
            _ => is_damaged = true,
        }
        !is_damaged
    })?;
    let last = records.last_key_value().map(|(number, _)| *number);
    // A group without a record is the server with its number, as all were when there were none.
    let count = last.map_or(0, |last| last + 1).max(servers);
    let mut whole = Vec::with_capacity(count as usize);
    for number in 0..count {
        match records.remove(&number) {
            Some(record) => whole.push(record),
            None if number < servers => whole.push(GroupRecord::of(number)),
            None => is_damaged = true,
        }
    }
    let mut counts = BTreeMap::new();
    for member in whole.iter().flat_map(|record| &record.members) {
        let count: &mut usize = counts.entry(member.server).or_default();
        *count += 1;
        is_damaged |= *count > GROUPS_OF_SERVER_MAX;
    }
    let (chosen, are_right) = chosen_groups(view)?;
    is_damaged |= !are_right || chosen.last().is_some_and(|it| *it >= count);
    if is_damaged {
        Err(Failure::Damaged(ROOT))
    } else {
        Ok(Groups {
            records: whole,
            chosen,
        })
    }
}

/// The groups for directories that choose their copies, and whether all numbers can be decoded.
fn chosen_groups(view: &dyn View) -> Result<(BTreeSet<u32>, bool), StoreError> {
    let (mut chosen, mut are_right) = (BTreeSet::new(), true);
    view.scan(Table::Volume, CHOSEN, &mut |key, _| {
        let Some(number) = key.strip_prefix(CHOSEN) else {
            return false;
        };
        match <[u8; 4]>::try_from(number) {
            Ok(number) => are_right = chosen.insert(u32::from_be_bytes(number)),
            Err(_) => are_right = false,
        }
        are_right
    })?;
    Ok((chosen, are_right))
}

/// The groups of several members that a server is in.
///
/// # Errors
/// The store failed.
pub fn several_of(view: &dyn View, server: u32) -> Result<Vec<u32>, StoreError> {
    let mut several = Vec::new();
    view.scan(Table::Volume, GROUP, &mut |key, value| {
        let number = key.strip_prefix(GROUP).map(<[u8; 4]>::try_from);
        if let (Some(Ok(number)), Ok(record)) = (number, from_bytes::<GroupRecord>(value))
            && record.members.len() > 1
            && record.has(server)
        {
            several.push(u32::from_be_bytes(number));
        }
        true
    })?;
    Ok(several)
}

/// Groups of so many members for these new I/O servers, behind those that the volume has. A server that is in a group
/// already, by an attempt that did not end, gets no more. Each group of two has another second member, as far as there
/// are others: the load of a server goes to several.
///
/// # Errors
/// `NoSecond`: a group would have two members, and there is no I/O server for the second one.
pub fn new_groups(
    known: &Groups,
    servers: Range<u32>,
    copies: Copies,
    zones: &Zones,
) -> Result<Vec<(u32, GroupRecord)>, PlacementError> {
    let all = servers.end;
    let new = Bringing {
        servers: known.in_none(servers),
        each: GROUPS_OF_NEW_SERVER,
    };
    new.groups(known, all, copies, zones)
}

/// Groups for directories that choose so many copies, behind those that the volume has. Each of `all` I/O servers that
/// is in no such group brings some.
///
/// # Errors
/// `NoSecond`: a group would have two members, and there is no I/O server for the second one. `Full`: a server is in as
/// many groups as may be.
pub fn groups_to_choose(
    known: &Groups,
    all: u32,
    copies: Copies,
    zones: &Zones,
) -> Result<Vec<(u32, GroupRecord)>, PlacementError> {
    let is_in_none = |server: &u32| {
        let mut groups = known.for_choice(Some(copies));
        !groups.any(|(_, record)| record.has(*server))
    };
    let new = Bringing {
        servers: (0..all).filter(is_in_none).collect(),
        each: groups_for_choice(copies),
    };
    new.groups(known, all, copies, zones)
}

/// Further groups for directories that choose their copies: of the kinds that there are, for I/O servers that are in
/// none.
///
/// # Errors
/// See [`groups_to_choose`].
pub fn further_to_choose(
    known: &Groups,
    all: u32,
    zones: &Zones,
) -> Result<Vec<(u32, GroupRecord)>, PlacementError> {
    let mut added = Vec::new();
    for copies in [Copies::One, Copies::Two] {
        if known.for_choice(Some(copies)).next().is_some() {
            let known = known.with_new(&added, true);
            added.extend(groups_to_choose(&known, all, copies, zones)?);
        }
    }
    Ok(added)
}

/// I/O servers, each of which brings so many groups.
struct Bringing {
    servers: Vec<u32>,
    each: u32,
}

impl Bringing {
    fn groups(
        self,
        known: &Groups,
        all: u32,
        copies: Copies,
        zones: &Zones,
    ) -> Result<Vec<(u32, GroupRecord)>, PlacementError> {
        let (new, each) = (self.servers, self.each as usize);
        let count = new.len() * each;
        let (mut records, mut added) = (known.records.clone(), Vec::with_capacity(count));
        // A server must have room for the groups of its own that are still to come.
        let mut coming: BTreeMap<u32, usize> = new.iter().map(|it| (*it, each)).collect();
        for (group, server) in (known.count()..).zip(new.into_iter().cycle().take(count)) {
            let count = records.iter().filter(|it| it.has(server)).count();
            if count >= GROUPS_OF_SERVER_MAX {
                return Err(PlacementError::Full { server });
            }
            let mut record = GroupRecord::of(server);
            if copies == Copies::Two {
                let to_come = |server| coming.get(&server).copied().unwrap_or_default();
                let other = second_for(&records, server, all, zones, to_come);
                record.members.push(Member {
                    server: other.ok_or(PlacementError::NoSecond { group })?,
                    state: MemberState::In,
                });
            }
            coming.entry(server).and_modify(|it| *it -= 1);
            added.push((group, record.clone()));
            records.push(record);
        }
        Ok(added)
    }
}

/// Gives each of these new I/O servers groups of its own ([`begin_groups_in`]), with second members in any zone.
///
/// # Errors
/// The store failed.
pub fn begin_groups(
    transaction: &mut dyn Transaction,
    known: &Groups,
    servers: Range<u32>,
    copies: Copies,
) -> Result<(), StoreError> {
    begin_groups_in(transaction, known, servers, copies, &Zones::any())
}

/// Gives each of these new I/O servers groups of its own ([`new_groups`]). Where there can be no second member, the
/// groups have one.
///
/// # Errors
/// The store failed.
pub fn begin_groups_in(
    transaction: &mut dyn Transaction,
    known: &Groups,
    servers: Range<u32>,
    copies: Copies,
    zones: &Zones,
) -> Result<(), StoreError> {
    let of = |copies| new_groups(known, servers.clone(), copies, zones);
    // Groups with one member need no place.
    let added = of(copies).or_else(|_| of(Copies::One)).unwrap_or_default();
    put_groups(transaction, &added)?;
    let known = known.with_new(&added, false);
    // Without them, files that choose their copies do not lie there.
    let chosen = further_to_choose(&known, servers.end, zones).unwrap_or_default();
    put_groups(transaction, &chosen)?;
    note_chosen(transaction, &chosen)
}

/// Notes that the groups with these records are for directories that choose their copies.
///
/// # Errors
/// The store failed.
pub fn note_chosen(
    transaction: &mut dyn Transaction,
    records: &[(u32, GroupRecord)],
) -> Result<(), StoreError> {
    let mut numbers = records.iter().map(|(number, _)| number.to_be_bytes());
    numbers.try_for_each(|number| transaction.put(Table::Volume, &[CHOSEN, &number].concat(), &[1]))
}

/// Replaces the records of the groups with these numbers, or adds them.
///
/// # Errors
/// The store failed.
pub fn put_groups(
    transaction: &mut dyn Transaction,
    records: &[(u32, GroupRecord)],
) -> Result<(), StoreError> {
    let mut records = records.iter();
    records.try_for_each(|(number, record)| put_group(transaction, *number, record))
}

/// Replaces the record of a group.
///
/// # Errors
/// The store failed.
pub fn put_group(
    transaction: &mut dyn Transaction,
    number: u32,
    record: &GroupRecord,
) -> Result<(), StoreError> {
    transaction.put(Table::Volume, &key(number), &to_bytes(record))
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{change, formatted, seen};
    use super::super::group_placement::{with_second_members, without_second_members};
    use super::*;

    fn members(groups: &Groups) -> Vec<u32> {
        let numbers = 0..groups.count();
        numbers
            .filter_map(|number| groups.primary(number))
            .collect()
    }

    #[test]
    fn a_volume_without_records_has_a_group_for_each_server() {
        let store = formatted(|_, _| {});
        let known = |servers| seen(&store, |view| groups(view, servers)).unwrap();
        assert_eq!(known(3), Groups::of_servers(3));
        // It is extended by a release that knows groups.
        let before = known(3);
        change(&store, |it| begin_groups(it, &before, 3..4, Copies::One));
        assert_eq!(members(&known(4)), [0, 1, 2, 3, 3, 3, 3]);
        let before = known(4);
        change(&store, |it| begin_groups(it, &before, 3..6, Copies::One));
        let groups = known(6);
        assert_eq!(members(&groups)[7..], [4, 5, 4, 5, 4, 5, 4, 5]);
        assert_eq!(groups.by_server(6, None)[3], [3, 4, 5, 6]);
        assert_eq!(groups.primary(15), None);
    }

    #[test]
    fn the_groups_of_a_new_volume_go_round_over_its_servers() {
        let store = formatted(|_, _| {});
        change(&store, |it| {
            begin_groups(it, &Groups::new(vec![]), 0..2, Copies::One)
        });
        let groups = seen(&store, |view| groups(view, 2)).unwrap();
        assert_eq!(members(&groups), [0, 1, 0, 1, 0, 1, 0, 1]);
        let layout = LayoutRecord {
            unit: 4096,
            groups: vec![3, 4],
        };
        assert_eq!(groups.on_server(&layout, 0).collect::<Vec<_>>(), [(1, 4)]);
        assert!(groups.is_member(3, 1) && !groups.is_member(3, 0) && !groups.is_member(8, 0));
    }

    #[test]
    fn a_server_from_after_a_backup_is_in_no_group_until_it_gets_some() {
        let store = formatted(|_, _| {});
        change(&store, |it| {
            begin_groups(it, &Groups::new(vec![]), 0..2, Copies::One)
        });
        let known = seen(&store, |view| groups(view, 3)).unwrap();
        assert_eq!(known.in_none(0..3), [2]);
        change(&store, |it| begin_groups(it, &known, 0..3, Copies::One));
        let known = seen(&store, |view| groups(view, 3)).unwrap();
        assert_eq!(members(&known)[8..], [2, 2, 2, 2]);
        assert!(known.in_none(0..3).is_empty());
    }

    #[test]
    fn records_that_cannot_be_are_damage() {
        for (number, value) in [
            (0, &b"nonsense"[..]),
            (4096, &to_bytes(&GroupRecord::of(0))),
        ] {
            let store = formatted(|_, _| {});
            change(&store, |it| it.put(Table::Volume, &key(number), value));
            assert!(seen(&store, |view| groups(view, 1)).is_err());
        }
        // Group 2 of 5 is missing, and no server has its number.
        let store = formatted(|_, _| {});
        change(&store, |it| {
            begin_groups(it, &Groups::of_servers(3), 3..4, Copies::One)
        });
        assert!(seen(&store, |view| groups(view, 2)).is_err());
    }

    #[test]
    fn the_second_members_go_round_over_the_other_servers() {
        let store = formatted(|_, _| {});
        let none = Groups::new(vec![]);
        change(&store, |it| begin_groups(it, &none, 0..4, Copies::Two));
        let known = seen(&store, |view| groups(view, 4)).unwrap();
        for server in 0..4 {
            let of_server = known.memberships(server).groups;
            assert_eq!(of_server.len(), 8);
            let own = of_server
                .iter()
                .filter(|it| it.record.primary() == Some(server));
            let others = own.map(|it| it.record.members[1].server);
            let others: std::collections::BTreeSet<u32> = others.collect();
            assert!(others.len() > 1 && !others.contains(&server), "{others:?}");
        }
        // Of one server there can be no second copy.
        let store = formatted(|_, _| {});
        change(&store, |it| begin_groups(it, &none, 0..1, Copies::Two));
        let known = seen(&store, |view| groups(view, 1)).unwrap();
        assert!(known.records().iter().all(|it| it.members.len() == 1));
    }

    #[test]
    fn directories_that_choose_their_copies_get_groups_of_their_own() {
        for (servers, of_volume) in [(2, Copies::One), (2, Copies::Two), (5, Copies::Two)] {
            let store = formatted(|_, _| {});
            let none = Groups::new(vec![]);
            change(&store, |it| begin_groups(it, &none, 0..servers, of_volume));
            for copies in [Copies::Two, Copies::One] {
                let known = seen(&store, |view| groups(view, servers)).unwrap();
                let new = groups_to_choose(&known, servers, copies, &Zones::any()).unwrap();
                assert_eq!(new.len() as u32, servers * groups_for_choice(copies));
                change(&store, |it| {
                    put_groups(it, &new)?;
                    note_chosen(it, &new)
                });
                let known = seen(&store, |view| groups(view, servers)).unwrap();
                let again = groups_to_choose(&known, servers, copies, &Zones::any());
                assert_eq!(again, Ok(vec![]));
            }
            let known = seen(&store, |view| groups(view, servers)).unwrap();
            assert_eq!(known.copies(), of_volume);
            // They stay as they are when the volume gets another number, and there is room for that.
            let changed = match of_volume {
                Copies::One => with_second_members(&known, servers, &Zones::any()).unwrap(),
                Copies::Two => without_second_members(&known).unwrap(),
            };
            assert_eq!(changed.len() as u32, servers * GROUPS_OF_NEW_SERVER);
            change(&store, |it| put_groups(it, &changed));
            // A server that is added brings groups of each kind.
            let known = seen(&store, |view| groups(view, servers)).unwrap();
            assert_ne!(known.copies(), of_volume);
            let copies = known.copies();
            change(&store, |it| {
                begin_groups(it, &known, servers..servers + 1, copies)
            });
            let known = seen(&store, |view| groups(view, servers + 1)).unwrap();
            for choice in [None, Some(Copies::One), Some(Copies::Two)] {
                let of_servers = known.by_server(servers + 1, choice);
                assert!(of_servers.iter().all(|it| !it.is_empty()), "{choice:?}");
                let members = choice.unwrap_or(copies).number() as usize;
                let mut groups = known.for_choice(choice);
                assert!(groups.all(|(_, it)| it.members.len() == members));
            }
        }
    }

    #[test]
    fn a_server_without_room_brings_no_more_groups() {
        let full = (0..16).map(|number| GroupRecord::of(number / 16));
        let known = Groups::new(full.collect());
        let refused = groups_to_choose(&known, 1, Copies::One, &Zones::any());
        assert_eq!(refused, Err(PlacementError::Full { server: 0 }));
        // A number without a group is damage, and so is one that is none.
        for number in [&[0, 0, 0, 1][..], b"no number"] {
            let store = formatted(|_, _| {});
            let key = [CHOSEN, number].concat();
            change(&store, |it| it.put(Table::Volume, &key, &[1]));
            assert!(seen(&store, |view| groups(view, 1)).is_err());
        }
    }

    #[test]
    fn a_server_that_is_primary_of_none_takes_some_of_the_others() {
        let member = |server, state| Member { server, state };
        let record = |members: &[Member]| GroupRecord {
            epoch: 1,
            members: members.to_vec(),
        };
        use MemberState::{In, Out};
        let pair = |one, other| record(&[member(one, In), member(other, Out)]);
        let groups = Groups::new(vec![pair(0, 1), pair(0, 1), pair(0, 2), pair(2, 0)]);
        assert_eq!(
            groups.by_server(4, None),
            [vec![1, 2], vec![0], vec![3], vec![]]
        );
    }
}
