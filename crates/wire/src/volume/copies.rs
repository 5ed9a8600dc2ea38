//! The number of copies that a volume keeps of each byte, which its owner may change (docs/formats/volume.md, "Groups").

use super::group::{Memberships, group_number};
use crate::xdr::{Decode, Decoder, Encode, Encoder, Items, XdrError, enumeration, printed};
use alloc::vec::Vec;

/// How many I/O servers keep each byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Copies {
    /// One.
    One,
    /// Two, of which one may die.
    Two,
}

impl Copies {
    /// So many copies; `None`: no volume keeps so many.
    pub fn of(number: u32) -> Option<Copies> {
        match number {
            1 => Some(Copies::One),
            2 => Some(Copies::Two),
            _ => None,
        }
    }

    /// How many.
    pub fn number(self) -> u32 {
        match self {
            Copies::One => 1,
            Copies::Two => 2,
        }
    }
}

/// The wish for another number of copies (`copies_wanted`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CopiesWanted {
    /// How many I/O servers are to keep each byte, at most [`MEMBERS_MAX`](super::MEMBERS_MAX); 0 changes nothing, and
    /// asks for the state alone.
    pub copies: u32,
    /// Both copies of a byte may be in one zone, for example on one host.
    pub same_host: bool,
    /// How many I/O servers must have a write before it is answered, from 1 to [`MEMBERS_MAX`](super::MEMBERS_MAX).
    pub min_copies: u32,
}

impl CopiesWanted {
    /// Changes nothing, and asks for the state.
    pub const NOTHING: CopiesWanted = CopiesWanted {
        copies: 0,
        same_host: false,
        min_copies: 1,
    };
}

printed! {
    CopiesWanted = "copies_wanted" {
        copies,
        same_host as "same_host",
        min_copies as "min_copies",
    }
}

impl Encode for CopiesWanted {
    fn encode(&self, encoder: &mut Encoder<'_>) {
        encoder.u32(self.copies);
        encoder.bool(self.same_host);
        encoder.u32(self.min_copies);
    }
}

impl Decode<'_> for CopiesWanted {
    fn decode(decoder: &mut Decoder<'_>) -> Result<CopiesWanted, XdrError> {
        let copies = decoder.u32()?;
        if copies as usize > super::MEMBERS_MAX {
            return Err(XdrError::Value);
        }
        Ok(CopiesWanted {
            copies,
            same_host: bool::decode(decoder)?,
            min_copies: min_copies(decoder)?,
        })
    }
}

/// The number of copies that a write needs.
fn min_copies(decoder: &mut Decoder<'_>) -> Result<u32, XdrError> {
    let copies = decoder.u32()?;
    if copies == 0 || copies as usize > super::MEMBERS_MAX {
        return Err(XdrError::Value);
    }
    Ok(copies)
}

enumeration! {
    /// The outcome of a [`CopiesWanted`].
    CopiesOutcome {
        /// All groups have as many members as was wanted. So many had another number before.
        Done = 0 => "done",
        /// Nothing was changed: the volume has one I/O server.
        OneServer = 1 => "one_server",
        /// Nothing was changed: no I/O server can be the second member of the group with this number.
        NoSecond = 2 => "no_second",
        /// Nothing was changed: no member of the group with this number has everything.
        Unserved = 3 => "unserved",
        /// Nothing was changed: the I/O server with this number is away, and has data that no other one has.
        Away = 4 => "away",
        /// Nothing was changed: the I/O server with this number has lost a disk. What its groups lost is an error while
        /// they have one member, and would not be one with two.
        LostDisk = 5 => "lost_disk",
    }
}

/// The reply to a [`CopiesWanted`] (`copies_answer`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CopiesAnswer {
    /// The outcome.
    pub outcome: CopiesOutcome,
    /// The number that belongs to the outcome, or 0.
    pub number: u32,
    /// Both copies of a byte may be in one zone.
    pub same_host: bool,
    /// The number of groups of two whose members are in one zone, or in zones that are not known.
    pub in_one_zone: u32,
    /// How many I/O servers must have a write before it is answered.
    pub min_copies: u32,
    /// The groups for directories that choose their copies, at most [`CHOSEN_GROUPS_MAX`].
    pub chosen: Vec<u32>,
}

/// Most groups for directories that choose their copies: three for each server.
pub const CHOSEN_GROUPS_MAX: usize = 3 * super::WIDTH_MAX;

printed! {
    CopiesAnswer = "copies_answer" {
        outcome,
        number,
        same_host as "same_host",
        in_one_zone as "in_one_zone",
        min_copies as "min_copies",
        chosen as "chosen" via Items,
    }
}

impl Encode for CopiesAnswer {
    fn encode(&self, encoder: &mut Encoder<'_>) {
        self.outcome.encode(encoder);
        encoder.u32(self.number);
        encoder.bool(self.same_host);
        encoder.u32(self.in_one_zone);
        encoder.u32(self.min_copies);
        encoder.u32_array(&self.chosen);
    }
}

impl Decode<'_> for CopiesAnswer {
    fn decode(decoder: &mut Decoder<'_>) -> Result<CopiesAnswer, XdrError> {
        Ok(CopiesAnswer {
            outcome: CopiesOutcome::decode(decoder)?,
            number: decoder.u32()?,
            same_host: bool::decode(decoder)?,
            in_one_zone: decoder.u32()?,
            min_copies: min_copies(decoder)?,
            chosen: group_numbers(decoder, CHOSEN_GROUPS_MAX)?,
        })
    }
}

/// The groups of an I/O server as the manager tells them (`told_groups`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToldGroups {
    /// The groups that it is a member of.
    pub memberships: Memberships,
    /// How many members of a group must have a write before it is answered, in groups of several.
    pub min_copies: u32,
}

printed! { ToldGroups = "told_groups" { memberships, min_copies as "min_copies", } }

impl Encode for ToldGroups {
    fn encode(&self, encoder: &mut Encoder<'_>) {
        self.memberships.encode(encoder);
        encoder.u32(self.min_copies);
    }
}

impl Decode<'_> for ToldGroups {
    fn decode(decoder: &mut Decoder<'_>) -> Result<ToldGroups, XdrError> {
        Ok(ToldGroups {
            memberships: Memberships::decode(decoder)?,
            min_copies: min_copies(decoder)?,
        })
    }
}

/// Most groups of a [`StaleGroups`].
pub const STALE_GROUPS_MAX: usize = 1024;

/// Groups whose only member with all data is gone, while the other one has older data (`stale_groups`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StaleGroups {
    /// The lowest numbers of such groups, at most [`STALE_GROUPS_MAX`].
    pub groups: Vec<u32>,
}

printed! { StaleGroups = "stale_groups" { groups as "groups" via Items, } }

impl Encode for StaleGroups {
    fn encode(&self, encoder: &mut Encoder<'_>) {
        encoder.u32_array(&self.groups);
    }
}

impl Decode<'_> for StaleGroups {
    fn decode(decoder: &mut Decoder<'_>) -> Result<StaleGroups, XdrError> {
        Ok(StaleGroups {
            groups: group_numbers(decoder, STALE_GROUPS_MAX)?,
        })
    }
}

fn group_numbers(decoder: &mut Decoder<'_>, max: usize) -> Result<Vec<u32>, XdrError> {
    let count = decoder.length(max)?;
    (0..count).map(|_| group_number(decoder)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::xdr::{from_bytes, to_bytes};
    use alloc::string::ToString;
    use alloc::vec;

    #[test]
    fn wishes_for_copies_go_there_and_back_within_their_bound() {
        let wanted = |copies| CopiesWanted {
            copies,
            same_host: true,
            min_copies: 2,
        };
        assert_eq!(to_bytes(&wanted(2)), b"\0\0\0\x02\0\0\0\x01\0\0\0\x02");
        assert_eq!(from_bytes(&to_bytes(&wanted(2))), Ok(wanted(2)));
        assert_eq!(
            wanted(1).to_string(),
            "copies_wanted copies=1 same_host=true min_copies=2"
        );
        let refused = from_bytes::<CopiesWanted>(&to_bytes(&wanted(3)));
        assert_eq!(refused, Err(XdrError::Value));
        let answer = CopiesAnswer {
            outcome: CopiesOutcome::Away,
            number: 3,
            same_host: false,
            in_one_zone: 4,
            min_copies: 1,
            chosen: vec![8, 9],
        };
        assert_eq!(from_bytes(&to_bytes(&answer)).as_ref(), Ok(&answer));
        assert_eq!(
            answer.to_string(),
            "copies_answer outcome=away number=3 same_host=false in_one_zone=4 min_copies=1 chosen=[8,9]"
        );
    }

    #[test]
    fn told_groups_have_a_number_of_copies() {
        let told = |min_copies| ToldGroups {
            memberships: Memberships::default(),
            min_copies,
        };
        assert_eq!(from_bytes(&to_bytes(&told(2))), Ok(told(2)));
        assert!(from_bytes::<ToldGroups>(&to_bytes(&told(0))).is_err());
        assert!(told(1).to_string().ends_with("min_copies=1"));
    }

    #[test]
    fn stale_groups_go_there_and_back_within_their_bound() {
        let stale = |count| StaleGroups {
            groups: (0..count).collect(),
        };
        let most = to_bytes(&stale(STALE_GROUPS_MAX as u32));
        assert!(most.len() <= super::super::BODY_MAX);
        assert_eq!(from_bytes(&most), Ok(stale(STALE_GROUPS_MAX as u32)));
        let more = to_bytes(&stale(STALE_GROUPS_MAX as u32 + 1));
        assert!(from_bytes::<StaleGroups>(&more).is_err());
        assert_eq!(stale(2).to_string(), "stale_groups groups=[0,1]");
    }
}
