//! What members of groups say to the manager and to each other (docs/formats/volume.md, "Groups").

use super::group::{GROUPS_OF_SERVER_MAX, GroupRecord, group_number};
use crate::xdr::{Decode, Decoder, Encode, Encoder, Items, XdrError, enumeration, printed, record};
use alloc::vec::Vec;

enumeration! {
    /// The change of a group's record that a member wishes.
    Wish {
        /// The other member is to be out: it does not answer.
        Drop = 0 => "drop",
        /// As `Drop`, of a primary that has not renewed the member's right in this epoch. It may believe in an earlier
        /// one, in which it is alone: so it must have restarted.
        DropRestarted = 1 => "drop-restarted",
        /// The member was out, and is to be filled.
        Join = 2 => "join",
        /// The other member has been filled.
        Filled = 3 => "filled",
        /// The member has restarted: it serves in a later epoch alone.
        Restarted = 4 => "restarted",
        /// The member has lost its disk.
        Lost = 5 => "lost",
        /// The member's disk fails.
        Broken = 6 => "broken",
    }
}

/// The wish of an I/O server for a group (`group_wish`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupWish {
    /// The number of the server.
    pub server: u32,
    /// The number of the group.
    pub group: u32,
    /// The record that the server knows. The wish counts in its epoch alone.
    pub record: GroupRecord,
    /// The wish.
    pub wish: Wish,
}

printed! { GroupWish = "group_wish" { server, group, record, wish, } }

impl Encode for GroupWish {
    fn encode(&self, encoder: &mut Encoder<'_>) {
        encoder.u32(self.server);
        encoder.u32(self.group);
        self.record.encode(encoder);
        self.wish.encode(encoder);
    }
}

impl Decode<'_> for GroupWish {
    fn decode(decoder: &mut Decoder<'_>) -> Result<GroupWish, XdrError> {
        Ok(GroupWish {
            server: decoder.u32()?,
            group: group_number(decoder)?,
            record: GroupRecord::decode(decoder)?,
            wish: Wish::decode(decoder)?,
        })
    }
}

record! {
    /// A group whose primary asks for the right to serve it (`renewal`).
    Renewal = "renewal" {
        /// The number of the group.
        group: u32,
        /// The epoch in which the server is its primary.
        epoch: u64,
        /// Changes of the group that it had begun: see [`Replication`](super::Replication).
        begun: u64,
        /// As many of them, the first ones, are over.
        over: u64,
    }
}

/// The request of a primary for the right to serve its groups a while longer (`renewals`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Renewals {
    /// The number of the primary's server.
    pub primary: u32,
    /// The groups, at most [`GROUPS_OF_SERVER_MAX`].
    pub groups: Vec<Renewal>,
}

printed! { Renewals = "renewals" { primary, groups as "groups" via Items, } }

impl Encode for Renewals {
    fn encode(&self, encoder: &mut Encoder<'_>) {
        encoder.u32(self.primary);
        // At most GROUPS_OF_SERVER_MAX.
        encoder.u32(self.groups.len() as u32);
        self.groups.iter().for_each(|it| it.encode(encoder));
    }
}

impl Decode<'_> for Renewals {
    fn decode(decoder: &mut Decoder<'_>) -> Result<Renewals, XdrError> {
        let primary = decoder.u32()?;
        let count = decoder.length(GROUPS_OF_SERVER_MAX)?;
        let groups = (0..count).map(|_| Renewal::decode(decoder));
        Ok(Renewals {
            primary,
            groups: groups.collect::<Result<_, _>>()?,
        })
    }
}

/// The reply to [`Renewals`] (`renewed`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Renewed {
    /// The groups whose right lasts on, of those that were asked for.
    pub groups: Vec<u32>,
}

printed! { Renewed = "renewed" { groups as "groups" via Items, } }

impl Encode for Renewed {
    fn encode(&self, encoder: &mut Encoder<'_>) {
        encoder.u32_array(&self.groups);
    }
}

impl Decode<'_> for Renewed {
    fn decode(decoder: &mut Decoder<'_>) -> Result<Renewed, XdrError> {
        let count = decoder.length(GROUPS_OF_SERVER_MAX)?;
        let groups = (0..count).map(|_| decoder.u32());
        Ok(Renewed {
            groups: groups.collect::<Result<_, _>>()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::xdr::{from_bytes, to_bytes};
    use alloc::string::ToString;
    use alloc::vec;

    #[test]
    fn wishes_and_renewals_go_there_and_back() {
        let wish = GroupWish {
            server: 3,
            group: 9,
            record: GroupRecord::of(3),
            wish: Wish::Join,
        };
        assert_eq!(from_bytes(&to_bytes(&wish)), Ok(wish.clone()));
        assert_eq!(
            wish.to_string(),
            "group_wish server=3 group=9 record=(epoch=1 members=[3:in]) wish=join"
        );
        let renewals = |count| Renewals {
            primary: 3,
            groups: vec![
                Renewal {
                    group: 9,
                    epoch: 2,
                    begun: 2,
                    over: 1
                };
                count
            ],
        };
        assert_eq!(from_bytes(&to_bytes(&renewals(16))), Ok(renewals(16)));
        assert!(from_bytes::<Renewals>(&to_bytes(&renewals(17))).is_err());
        let renewed = Renewed { groups: vec![1, 9] };
        assert_eq!(from_bytes(&to_bytes(&renewed)), Ok(renewed));
    }
}
