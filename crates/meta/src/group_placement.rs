//! The members of groups: which I/O server gets a second copy, and which copies are taken away again.

use super::groups::Groups;
use gannet_wire::volume::{GROUPS_OF_SERVER_MAX, GroupRecord, Member, MemberState};
use thiserror::Error;

/// The zones of I/O servers by their numbers. Servers of one zone may fail together: those of a host, or of a rack.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Zones {
    /// The name of each zone; `None` where it is not known.
    names: Vec<Option<String>>,
    /// Both members of a group may be in one zone.
    may_share: bool,
}

impl Zones {
    /// Zones with these names. Both members of a group may be in one zone if `may_share` is set.
    pub fn new(names: Vec<Option<String>>, may_share: bool) -> Zones {
        Zones { names, may_share }
    }

    /// No zones: both members of a group may be anywhere.
    pub fn any() -> Zones {
        Zones::new(Vec::new(), true)
    }

    /// Whether two servers are in different zones, as far as is known.
    fn are_apart(&self, one: u32, other: u32) -> bool {
        let name = |server: u32| self.names.get(server as usize).and_then(Option::as_ref);
        matches!((name(one), name(other)), (Some(one), Some(other)) if one != other)
    }

    /// How many groups have members that are in one zone, or whose zones are not known.
    pub fn groups_in_one(&self, groups: &Groups) -> u32 {
        let are_in_one = |record: &&GroupRecord| match record.members[..] {
            [one, other] => !self.are_apart(one.server, other.server),
            _ => false,
        };
        // Bounded by GROUPS_MAX.
        groups.records().iter().filter(are_in_one).count() as u32
    }
}

/// The reason why groups cannot get or lose a second member.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum PlacementError {
    /// There is no I/O server that could be the second member of a group.
    #[error("no I/O server can be the second member of group {group}")]
    NoSecond {
        /// The number of the group.
        group: u32,
    },
    /// A server is in as many groups as may be.
    #[error("I/O server {server} is in {GROUPS_OF_SERVER_MAX} groups already")]
    Full {
        /// The number of the server.
        server: u32,
    },
    /// No member of a group is in, so none is known to have everything.
    #[error("no member of group {group} has all of its data")]
    Unserved {
        /// The number of the group.
        group: u32,
    },
}

/// The later records of all groups with one member, each of which gets a second one of `servers` I/O servers. That one
/// is out: it has nothing yet, and asks to be filled. Groups for directories that choose their copies stay as they are.
///
/// # Errors
/// `NoSecond`: all other servers are in as many groups as may be, or in the same zone.
pub fn with_second_members(
    known: &Groups,
    servers: u32,
    zones: &Zones,
) -> Result<Vec<(u32, GroupRecord)>, PlacementError> {
    let (mut records, mut changed) = (known.records().to_vec(), Vec::new());
    for (group, single) in known.for_choice(None) {
        let [first] = single.members[..] else {
            continue;
        };
        let second = second_for(&records, first.server, servers, zones, |_| 0);
        let server = second.ok_or(PlacementError::NoSecond { group })?;
        let second = Member {
            server,
            state: MemberState::Out,
        };
        let record = GroupRecord {
            epoch: single.epoch.saturating_add(1),
            members: vec![first, second],
        };
        if let Some(of_group) = records.get_mut(group as usize) {
            *of_group = record.clone();
        }
        changed.push((group, record));
    }
    Ok(changed)
}

/// The later records of all groups with two members, each of which keeps its primary alone. Groups for directories that
/// choose their copies stay as they are.
///
/// # Errors
/// `Unserved`: a group has no primary.
pub fn without_second_members(known: &Groups) -> Result<Vec<(u32, GroupRecord)>, PlacementError> {
    let of_several = known.for_choice(None);
    let of_several = of_several.filter(|(_, record)| record.members.len() > 1);
    let changed = of_several.map(|(group, record)| {
        let mut members = record.members.iter().copied();
        let primary = members.find(|member| member.state == MemberState::In);
        let primary = primary.ok_or(PlacementError::Unserved { group })?;
        let single = GroupRecord {
            epoch: record.epoch.saturating_add(1),
            members: vec![primary],
        };
        Ok((group, single))
    });
    changed.collect()
}

/// The record that replaces `record` when its owner gives up what the only complete member alone has; `None` if there
/// is no such member, or no other one.
///
/// | the one that is gone | the other one | makes |
/// |---|---|---|
/// | in | out, filling | the other one in, the first one out |
pub fn with_stale_member(record: &GroupRecord) -> Option<GroupRecord> {
    use MemberState::{Filling, In, Out};
    let [one, other] = record.members[..] else {
        return None;
    };
    let (gone, stale) = match (one.state, other.state) {
        (In, Out | Filling) => (one, other),
        (Out | Filling, In) => (other, one),
        _ => return None,
    };
    Some(GroupRecord {
        epoch: record.epoch.saturating_add(1),
        members: vec![Member { state: In, ..stale }, Member { state: Out, ..gone }],
    })
}

/// The second member for a group of `server`, of `all` servers: one in another zone, of these the one with which it has
/// the fewest groups together, of these the one in the fewest groups, of these the next one behind it. A server will be
/// in `coming` more groups of its own. `None`: all others are in as many groups as may be, or in the same zone where
/// that may not be.
pub(super) fn second_for(
    records: &[GroupRecord],
    server: u32,
    all: u32,
    zones: &Zones,
    coming: impl Fn(u32) -> usize,
) -> Option<u32> {
    let others = (1..all).map(|step| (server + step) % all);
    let used = |other: u32| {
        let groups = || records.iter().filter(|record| record.has(other));
        let together = groups().filter(|record| record.has(server)).count();
        (together, groups().count())
    };
    let are_apart = |other: u32| zones.are_apart(server, other);
    let free = others.filter(|other| used(*other).1 + coming(*other) < GROUPS_OF_SERVER_MAX);
    let free = free.filter(|other| zones.may_share || are_apart(*other));
    free.min_by_key(|other| (!are_apart(*other), used(*other)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn alone(servers: u32, rounds: u32) -> Groups {
        let all = (0..servers * rounds).map(|number| GroupRecord::of(number % servers));
        Groups::new(all.collect())
    }

    fn changed(known: &Groups, records: Vec<(u32, GroupRecord)>) -> Groups {
        let changed = records.into_iter();
        changed.fold(known.clone(), |groups, (number, record)| {
            groups.with(number, record)
        })
    }

    #[test]
    fn second_members_go_round_over_the_other_servers_and_away_again() {
        for (servers, rounds) in [(2, 1), (3, 1), (2, 4), (4, 4), (5, 8)] {
            let known = alone(servers, rounds);
            let two = with_second_members(&known, servers, &Zones::any()).unwrap();
            let two = changed(&known, two);
            for server in 0..servers {
                let groups = two.memberships(server).groups;
                assert_eq!(groups.len() as u32, 2 * rounds, "of {servers}");
                let own = groups
                    .iter()
                    .filter(|it| it.record.primary() == Some(server));
                let others: BTreeSet<u32> = own.map(|it| it.record.members[1].server).collect();
                let least = rounds.min(servers - 1).min(2) as usize;
                assert!(others.len() >= least && !others.contains(&server));
            }
            let of_two = |it: &GroupRecord| {
                it.epoch == 2 && it.members[1].state == MemberState::Out && it.members.len() == 2
            };
            assert!(two.records().iter().all(of_two));
            assert_eq!(
                with_second_members(&two, servers, &Zones::any()),
                Ok(vec![])
            );
            let one = changed(&two, without_second_members(&two).unwrap());
            assert!(one.records().iter().all(|it| it.epoch == 3));
            assert_eq!(one.by_server(servers, None), known.by_server(servers, None));
        }
    }

    #[test]
    fn the_member_that_has_everything_stays() {
        let of = |states: [MemberState; 2]| {
            let members = (0..).zip(states);
            let members = members.map(|(server, state)| Member { server, state });
            Groups::new(vec![GroupRecord {
                epoch: 7,
                members: members.collect(),
            }])
        };
        use MemberState::{Filling, In, Last, Out};
        for (states, kept) in [([In, Filling], 0), ([Out, In], 1), ([In, In], 0)] {
            let records = without_second_members(&of(states)).unwrap();
            let [(0, GroupRecord { epoch: 8, members })] = &records[..] else {
                panic!("{records:?}");
            };
            assert_eq!(
                members[..],
                [Member {
                    server: kept,
                    state: In
                }]
            );
        }
        let refused = without_second_members(&of([Last, Out]));
        assert_eq!(refused, Err(PlacementError::Unserved { group: 0 }));
    }

    #[test]
    fn a_server_gets_no_more_groups_than_it_may_be_in() {
        let refused = with_second_members(&alone(2, 9), 2, &Zones::any());
        assert_eq!(refused, Err(PlacementError::NoSecond { group: 14 }));
        let refused = with_second_members(&alone(1, 4), 1, &Zones::any());
        assert_eq!(refused, Err(PlacementError::NoSecond { group: 0 }));
    }

    fn zones(names: &str, may_share: bool) -> Zones {
        let names = names.chars().map(|it| (it != '?').then(|| it.to_string()));
        Zones::new(names.collect(), may_share)
    }

    #[test]
    fn second_members_are_in_other_zones() {
        for (servers, names) in [(4, "aabb"), (3, "aab"), (6, "aabbcc"), (5, "aaaab")] {
            let (known, zones) = (alone(servers, 4), zones(names, false));
            let two = with_second_members(&known, servers, &zones);
            if names == "aaaab" {
                // Server 4 alone would be the second member of all groups of the others.
                assert_eq!(two, Err(PlacementError::NoSecond { group: 15 }));
                continue;
            }
            let two = changed(&known, two.unwrap());
            assert_eq!(zones.groups_in_one(&two), 0, "{names}");
            for server in 0..servers {
                let groups = two.memberships(server).groups.len();
                assert!((6..=16).contains(&groups), "{names}: {groups}");
            }
        }
        let refused = |names| with_second_members(&alone(2, 1), 2, &zones(names, false));
        assert_eq!(refused("aa"), Err(PlacementError::NoSecond { group: 0 }));
        assert_eq!(refused("a?"), Err(PlacementError::NoSecond { group: 0 }));
    }

    #[test]
    fn zones_that_may_share_are_apart_where_that_is_possible() {
        let (known, zones) = (alone(3, 1), zones("aa?", true));
        let two = with_second_members(&known, 3, &zones).unwrap();
        assert_eq!(zones.groups_in_one(&changed(&known, two)), 3);
        let zones = self::zones("aab", true);
        let two = with_second_members(&known, 3, &zones).unwrap();
        assert_eq!(zones.groups_in_one(&changed(&known, two)), 0);
        assert_eq!(zones.groups_in_one(&known), 0);
    }

    #[test]
    fn a_stale_member_counts_where_no_other_one_can() {
        use MemberState::{Filling, In, Last, Out};
        let states = [In, Last, Out, Filling];
        let pairs = (states.iter()).flat_map(|one| states.iter().map(move |other| (*one, *other)));
        let mut seen = Vec::new();
        for (one, other) in pairs {
            let members = [(1, one), (2, other)].map(|(server, state)| Member { server, state });
            let record = GroupRecord {
                epoch: 7,
                members: members.to_vec(),
            };
            if let Some(next) = with_stale_member(&record) {
                assert_eq!(
                    (next.epoch, next.primary()),
                    (8, Some(next.members[0].server))
                );
                assert_ne!(next.primary(), record.primary());
                assert_eq!(next.members[1].state, Out);
                seen.push((one, other));
            }
        }
        assert_eq!(seen, [(In, Out), (In, Filling), (Out, In), (Filling, In)]);
        assert_eq!(with_stale_member(&GroupRecord::of(1)), None);
    }
}
