//! The groups of I/O servers in a volume's metadata: who is in each.
//!
//! A volume that was made before there were groups has no records of them. There, group `n` is I/O server `n` alone.

use super::namespace::{Failure, Outcome};
use super::{StoreError, Table, Transaction, View};
use gannet_wire::volume::{
    GROUPS_MAX, GROUPS_OF_SERVER_MAX, GroupRecord, LayoutRecord, Membership, Memberships, ROOT,
};
use gannet_wire::xdr::{from_bytes, to_bytes};
use std::collections::BTreeMap;
use std::ops::Range;

/// The prefix of the number of a group, before its record.
const GROUP: &[u8] = b"group ";

/// Groups that each new server brings. With several, its load can go to several others when it is away or leaves.
pub const GROUPS_OF_NEW_SERVER: u32 = 4;

fn key(number: u32) -> Vec<u8> {
    [GROUP, &number.to_be_bytes()].concat()
}

/// The groups of a volume, by their numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Groups(Vec<GroupRecord>);

impl Groups {
    /// Groups with these records, in the order of their numbers.
    pub fn new(records: Vec<GroupRecord>) -> Groups {
        Groups(records)
    }

    /// The groups of `servers` I/O servers without records: each server alone.
    pub fn of_servers(servers: u32) -> Groups {
        Groups((0..servers).map(GroupRecord::of).collect())
    }

    /// How many there are; their numbers are 0, 1, 2 ...
    pub fn count(&self) -> u32 {
        // Bounded by GROUPS_MAX.
        self.0.len() as u32
    }

    /// The records, by number.
    pub fn records(&self) -> &[GroupRecord] {
        &self.0
    }

    /// The record of a group.
    pub fn get(&self, number: u32) -> Option<&GroupRecord> {
        self.0.get(number as usize)
    }

    /// The server to which clients of a group write; `None` if there is no such group, or nobody serves it.
    pub fn primary(&self, number: u32) -> Option<u32> {
        self.get(number)?.primary()
    }

    /// The groups that a server is a member of. There are at most [`GROUPS_OF_SERVER_MAX`]: see [`groups`].
    pub fn memberships(&self, server: u32) -> Memberships {
        let groups = (0..).zip(&self.0).filter(|(_, record)| record.has(server));
        let groups = groups.map(|(group, record)| Membership {
            group,
            record: record.clone(),
        });
        Memberships {
            groups: groups.collect(),
        }
    }

    /// The servers among these that are in no group.
    pub fn in_none(&self, servers: Range<u32>) -> Vec<u32> {
        let is_in_none = |server: &u32| !self.0.iter().any(|record| record.has(*server));
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

    /// The groups of which each of `servers` I/O servers is the primary, in ascending order.
    pub fn by_primary(&self, servers: u32) -> Vec<Vec<u32>> {
        let mut of_servers = vec![Vec::new(); servers as usize];
        for (number, record) in (0..).zip(&self.0) {
            let primary = record.primary().map(|server| server as usize);
            if let Some(groups) = primary.and_then(|server| of_servers.get_mut(server)) {
                groups.push(number);
            }
        }
        of_servers
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
    if is_damaged {
        Err(Failure::Damaged(ROOT))
    } else {
        Ok(Groups(whole))
    }
}

/// Gives each of these new I/O servers groups of its own, of which it is the only member, behind those that the volume
/// has. A server that is in a group already, by an attempt that did not end, gets no more.
///
/// # Errors
/// The store failed.
pub fn begin_groups(
    transaction: &mut dyn Transaction,
    known: &Groups,
    servers: Range<u32>,
) -> Result<(), StoreError> {
    let servers = known.in_none(servers);
    let count = servers.len() * GROUPS_OF_NEW_SERVER as usize;
    for (number, server) in (known.count()..).zip(servers.into_iter().cycle().take(count)) {
        transaction.put(
            Table::Volume,
            &key(number),
            &to_bytes(&GroupRecord::of(server)),
        )?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{change, formatted, seen};
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
        change(&store, |it| begin_groups(it, &before, 3..4));
        assert_eq!(members(&known(4)), [0, 1, 2, 3, 3, 3, 3]);
        let before = known(4);
        change(&store, |it| begin_groups(it, &before, 3..6));
        let groups = known(6);
        assert_eq!(members(&groups)[7..], [4, 5, 4, 5, 4, 5, 4, 5]);
        assert_eq!(groups.by_primary(6)[3], [3, 4, 5, 6]);
        assert_eq!(groups.primary(15), None);
    }

    #[test]
    fn the_groups_of_a_new_volume_go_round_over_its_servers() {
        let store = formatted(|_, _| {});
        change(&store, |it| begin_groups(it, &Groups::new(vec![]), 0..2));
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
        change(&store, |it| begin_groups(it, &Groups::new(vec![]), 0..2));
        let known = seen(&store, |view| groups(view, 3)).unwrap();
        assert_eq!(known.in_none(0..3), [2]);
        change(&store, |it| begin_groups(it, &known, 0..3));
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
        change(&store, |it| begin_groups(it, &Groups::of_servers(3), 3..4));
        assert!(seen(&store, |view| groups(view, 2)).is_err());
    }
}
