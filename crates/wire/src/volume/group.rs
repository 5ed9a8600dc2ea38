//! Groups of I/O servers: which servers have the objects of a layout (docs/formats/volume.md, "Groups").
//!
//! A layout names groups, and the volume says who is in each. So copies, moves and replacements of servers change no
//! inode. In a volume of an earlier release, group `n` is I/O server `n`.

use crate::xdr::{
    Decode, Decoder, Encode, Encoder, Items, UnknownItem, XdrError, enumeration, print_as_display,
    printed,
};
use alloc::vec::Vec;
use core::fmt;

/// Most groups that a server is in.
pub const GROUPS_OF_SERVER_MAX: usize = 16;
/// Most groups of a volume.
pub const GROUPS_MAX: usize = super::WIDTH_MAX * GROUPS_OF_SERVER_MAX;
/// Most members of a group.
pub const MEMBERS_MAX: usize = 2;

/// The name of an object (`object`): what a group has of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ObjectId {
    /// The number of the group, below [`GROUPS_MAX`].
    pub group: u32,
    /// The number of the file.
    pub file: u64,
}

printed! { ObjectId = "object" { group, file, } }

impl Encode for ObjectId {
    fn encode(&self, encoder: &mut Encoder<'_>) {
        encoder.u32(self.group);
        encoder.u64(self.file);
    }
}

impl Decode<'_> for ObjectId {
    fn decode(decoder: &mut Decoder<'_>) -> Result<ObjectId, XdrError> {
        Ok(ObjectId {
            group: group_number(decoder)?,
            file: decoder.u64()?,
        })
    }
}

/// The number of a group.
pub(super) fn group_number(decoder: &mut Decoder<'_>) -> Result<u32, XdrError> {
    let number = decoder.u32()?;
    if number as usize >= GROUPS_MAX {
        return Err(XdrError::Value);
    }
    Ok(number)
}

enumeration! {
    /// The state of a member of a group.
    MemberState {
        /// It has every object, and serves.
        In = 0 => "in",
        /// It has every object, and is away: nobody serves the group.
        Last = 1 => "last",
        /// It has what it had when it left.
        Out = 2 => "out",
        /// It gets every write, and what it missed is copied to it.
        Filling = 3 => "filling",
    }
}

impl MemberState {
    /// Whether a member in this state has every object of the group.
    pub fn is_complete(self) -> bool {
        matches!(self, MemberState::In | MemberState::Last)
    }
}

/// A member of a group. It prints as `server:state`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Member {
    /// The number of the I/O server.
    pub server: u32,
    /// Its state.
    pub state: MemberState,
}

impl fmt::Display for Member {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.server, self.state)
    }
}

print_as_display!(Member);

/// A group of I/O servers (`group`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupRecord {
    /// The number of this record among those of the group, from 1 on; a later one replaces it.
    pub epoch: u64,
    /// The members, from 1 to [`MEMBERS_MAX`]. The first one that is in is the primary, to which clients write.
    pub members: Vec<Member>,
}

printed! { GroupRecord = "group" { epoch, members as "members" via Items, } }

impl GroupRecord {
    /// The first record of a group with one member.
    pub fn of(server: u32) -> GroupRecord {
        let state = MemberState::In;
        GroupRecord {
            epoch: 1,
            members: alloc::vec![Member { server, state }],
        }
    }

    /// The server to which clients write; `None` if no member is in.
    pub fn primary(&self) -> Option<u32> {
        let mut members = self.members.iter();
        let primary = members.find(|member| member.state == MemberState::In)?;
        Some(primary.server)
    }

    /// Whether a server is a member, in or out.
    pub fn has(&self, server: u32) -> bool {
        self.members.iter().any(|member| member.server == server)
    }
}

impl Encode for GroupRecord {
    fn encode(&self, encoder: &mut Encoder<'_>) {
        encoder.u64(self.epoch);
        // At most MEMBERS_MAX.
        encoder.u32(self.members.len() as u32);
        for member in &self.members {
            encoder.u32(member.server);
            member.state.encode(encoder);
        }
    }
}

impl Decode<'_> for GroupRecord {
    fn decode(decoder: &mut Decoder<'_>) -> Result<GroupRecord, XdrError> {
        let epoch = decoder.u64()?;
        let count = decoder.length(MEMBERS_MAX)?;
        let members = (0..count).map(|_| {
            Ok(Member {
                server: decoder.u32()?,
                state: MemberState::decode(decoder)?,
            })
        });
        let members: Vec<Member> = members.collect::<Result<_, XdrError>>()?;
        let are_distinct = match members[..] {
            [] => false,
            [first, ref others @ ..] => others.iter().all(|it| it.server != first.server),
        };
        if epoch == 0 || !are_distinct {
            return Err(XdrError::Value);
        }
        Ok(GroupRecord { epoch, members })
    }
}

/// A group that a server is a member of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Membership {
    /// The number of the group.
    pub group: u32,
    /// Its record.
    pub record: GroupRecord,
}

printed! { Membership = "membership" { group, record, } }

/// The groups that a server is a member of (`memberships`), which the manager tells it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Memberships {
    /// The groups, at most [`GROUPS_OF_SERVER_MAX`].
    pub groups: Vec<Membership>,
}

printed! { Memberships = "memberships" { groups as "groups" via Items, } }

impl Encode for Memberships {
    fn encode(&self, encoder: &mut Encoder<'_>) {
        // At most GROUPS_OF_SERVER_MAX.
        encoder.u32(self.groups.len() as u32);
        for membership in &self.groups {
            encoder.u32(membership.group);
            membership.record.encode(encoder);
        }
    }
}

impl Decode<'_> for Memberships {
    fn decode(decoder: &mut Decoder<'_>) -> Result<Memberships, XdrError> {
        let count = decoder.length(GROUPS_OF_SERVER_MAX)?;
        let groups = (0..count).map(|_| {
            Ok(Membership {
                group: group_number(decoder)?,
                record: GroupRecord::decode(decoder)?,
            })
        });
        Ok(Memberships {
            groups: groups.collect::<Result<_, XdrError>>()?,
        })
    }
}

/// The form of a layout, 0: its numbers are those of groups. A decoder refuses others by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct LayoutForm;

impl Encode for LayoutForm {
    fn encode(&self, encoder: &mut Encoder<'_>) {
        encoder.u32(0);
    }
}

impl Decode<'_> for LayoutForm {
    fn decode(decoder: &mut Decoder<'_>) -> Result<LayoutForm, XdrError> {
        match decoder.u32()? {
            0 => Ok(LayoutForm),
            number => Err(XdrError::Unknown {
                item: UnknownItem::LayoutForm,
                number,
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::volume::LayoutRecord;
    use crate::xdr::{from_bytes, to_bytes};
    use alloc::string::ToString;
    use alloc::vec;

    #[test]
    fn another_form_of_layout_is_refused_and_named() {
        let layout = LayoutRecord {
            unit: 65536,
            groups: vec![1],
        };
        let mut bytes = to_bytes(&layout);
        bytes[3] = 7;
        let refused = from_bytes::<LayoutRecord>(&bytes).unwrap_err();
        let said = refused.to_string();
        assert!(said.starts_with("form of layout 7"), "{said}");
        assert!(said.contains("use the release of gannet"), "{said}");
    }

    #[test]
    fn the_first_member_that_is_in_is_the_primary() {
        let member = |server, state| Member { server, state };
        let mut group = GroupRecord {
            epoch: 3,
            members: vec![member(4, MemberState::Out), member(1, MemberState::In)],
        };
        assert_eq!(group.primary(), Some(1));
        assert!(group.has(4) && !group.has(2));
        assert_eq!(group.to_string(), "group epoch=3 members=[4:out,1:in]");
        assert_eq!(from_bytes(&to_bytes(&group)), Ok(group.clone()));
        group.members[1].state = MemberState::Out;
        assert_eq!(group.primary(), None);
        assert_eq!(GroupRecord::of(7).primary(), Some(7));
    }

    #[test]
    fn memberships_go_there_and_back_within_their_bound() {
        let of = |count: u32| Memberships {
            groups: (0..count)
                .map(|group| Membership {
                    group,
                    record: GroupRecord::of(7),
                })
                .collect(),
        };
        assert_eq!(from_bytes(&to_bytes(&of(16))), Ok(of(16)));
        assert!(from_bytes::<Memberships>(&to_bytes(&of(17))).is_err());
        let said = of(1).to_string();
        assert_eq!(
            said,
            "memberships groups=[(group=0 record=(epoch=1 members=[7:in]))]"
        );
    }

    #[test]
    fn groups_that_cannot_be_are_refused() {
        let refused = |epoch, servers: &[u32]| {
            let members = servers.iter().map(|server| Member {
                server: *server,
                state: MemberState::In,
            });
            let group = GroupRecord {
                epoch,
                members: members.collect(),
            };
            from_bytes::<GroupRecord>(&to_bytes(&group)).unwrap_err()
        };
        let object = |group| to_bytes(&ObjectId { group, file: 7 });
        assert!(from_bytes::<ObjectId>(&object(4095)).is_ok());
        assert_eq!(from_bytes::<ObjectId>(&object(4096)), Err(XdrError::Value));
        assert_eq!(refused(1, &[]), XdrError::Value);
        assert_eq!(refused(0, &[1]), XdrError::Value);
        assert_eq!(refused(1, &[1, 1]), XdrError::Value);
        refused(1, &[1, 2, 3]);
    }
}
