//! The table of wishes: which record replaces one because a member of the group wishes so.

use gannet_wire::volume::{GroupRecord, Member, MemberState, Wish};
use std::collections::BTreeSet;

/// The record that replaces `record` because a member wishes so; `None` if nothing changes. These of its members have
/// restarted in the epoch of the record.
///
/// | wish | of a member that is | while the other one is | makes |
/// |---|---|---|---|
/// | drop | in, not restarted | in, filling | the other one out |
/// | drop-restarted | in, not restarted | in, restarted | the other one out |
/// | join | out | in | the member filling |
/// | filled | in, the primary, not restarted | filling, not restarted | both in, the primary first |
/// | restarted | in | in, restarted | the second one filling |
/// | restarted | in | out, filling | the other one out |
/// | restarted | in | in, not restarted | nothing: the other one is to wish that it is dropped |
/// | restarted | filling | in | the member out |
/// | lost | in, filling | in | the member out |
/// | broken | in, filling | in, not restarted | the member out |
pub fn wished(
    record: &GroupRecord,
    server: u32,
    wish: Wish,
    restarted: &BTreeSet<u32>,
) -> Option<GroupRecord> {
    use MemberState::{Filling, In, Out};
    let [first, second] = record.members[..] else {
        return None;
    };
    let (own, other) = match server {
        _ if first.server == server => (first, second),
        _ if second.server == server => (second, first),
        _ => return None,
    };
    let has_restarted = |member: Member| restarted.contains(&member.server);
    let is_primary = record.primary() == Some(server);
    let (own_state, other_state) = match (wish, own.state, other.state) {
        // It may lack what it has lost by that: what it wishes next says so.
        (Wish::Drop | Wish::Filled, ..) if has_restarted(own) => return None,
        (Wish::Filled, ..) if has_restarted(other) => return None,
        (Wish::Drop, In, In | Filling) => (In, Out),
        (Wish::DropRestarted, In, In) if has_restarted(other) && !has_restarted(own) => (In, Out),
        (Wish::Join, Out, In) => (Filling, In),
        (Wish::Filled, In, Filling) if is_primary => (In, In),
        (Wish::Restarted, In, In) if has_restarted(other) && is_primary => (In, Filling),
        (Wish::Restarted, In, In) if has_restarted(other) => (Filling, In),
        (Wish::Restarted, In, Out | Filling) => (In, Out),
        (Wish::Restarted, Filling, In) => (Out, In),
        (Wish::Lost, In | Filling, In) => (Out, In),
        (Wish::Broken, In | Filling, In) if !has_restarted(other) => (Out, In),
        _ => return None,
    };
    let primary = record.primary();
    let mut members = vec![
        Member {
            state: own_state,
            ..own
        },
        Member {
            state: other_state,
            ..other
        },
    ];
    // The first one that is in is the primary: it stays that while it is in.
    members.sort_by_key(|member| Some(member.server) != primary);
    Some(GroupRecord {
        epoch: record.epoch.saturating_add(1),
        members,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_wish_has_its_place_in_the_table() {
        use MemberState::{Filling, In, Last, Out};
        let states = [In, Last, Out, Filling];
        let wishes = [
            Wish::Drop,
            Wish::DropRestarted,
            Wish::Join,
            Wish::Filled,
            Wish::Restarted,
            Wish::Lost,
            Wish::Broken,
        ];
        // Server 1 wishes; both lists are its state and that of the other one.
        let mut seen = Vec::new();
        for wish in wishes {
            for (own, other, order) in states.iter().flat_map(|own| {
                let others = states.iter();
                others.flat_map(move |other| [(*own, *other, true), (*own, *other, false)])
            }) {
                for restarted in [&[][..], &[1], &[2], &[1, 2]] {
                    let mut members = vec![
                        Member {
                            server: 1,
                            state: own,
                        },
                        Member {
                            server: 2,
                            state: other,
                        },
                    ];
                    if !order {
                        members.reverse();
                    }
                    let record = GroupRecord { epoch: 7, members };
                    let restarted: BTreeSet<u32> = restarted.iter().copied().collect();
                    let Some(next) = wished(&record, 1, wish, &restarted) else {
                        continue;
                    };
                    assert_eq!(next.epoch, 8);
                    let of = |server| {
                        let mut members = next.members.iter();
                        members.find(|it| it.server == server).unwrap().state
                    };
                    // Somebody has everything, and nobody becomes in who had not.
                    assert!(next.primary().is_some(), "{record} {wish}");
                    let is_filled = wish == Wish::Filled;
                    assert!(of(1) != In || own == In);
                    assert!(of(2) != In || other == In || is_filled);
                    if record.primary().is_some_and(|it| of(it) == In) {
                        assert_eq!(next.primary(), record.primary(), "{record} {wish}");
                    }
                    seen.push((wish, own, other));
                }
            }
        }
        seen.dedup();
        let expected = [
            (Wish::Drop, In, In),
            (Wish::Drop, In, Filling),
            (Wish::DropRestarted, In, In),
            (Wish::Join, Out, In),
            (Wish::Filled, In, Filling),
            (Wish::Restarted, In, In),
            (Wish::Restarted, In, Out),
            (Wish::Restarted, In, Filling),
            (Wish::Restarted, Filling, In),
            (Wish::Lost, In, In),
            (Wish::Lost, Filling, In),
            (Wish::Broken, In, In),
            (Wish::Broken, Filling, In),
        ];
        assert_eq!(seen, expected);
        assert!(wished(&GroupRecord::of(1), 1, Wish::Restarted, &BTreeSet::new()).is_none());
    }
}
