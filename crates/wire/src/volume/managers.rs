//! The managers of a volume, of which one is active (docs/formats/volume.md, "Managers").

use super::registry::text;
use crate::xdr::{
    Count, Decode, Decoder, Encode, Encoder, Quoted, XdrError, enumeration, printed, record,
};
use alloc::string::String;
use alloc::vec::Vec;

/// Most bytes of the name of a manager.
pub const MANAGER_NAME_MAX: usize = 255;
/// Most bytes of the name of an engine.
pub const ENGINE_NAME_MAX: usize = 32;
/// Most managers of a [`ManagersAnswer`] beside the active one.
pub const STANDBYS_MAX: usize = 16;

record! {
    /// The question for the managers, and the wish that another one be active (`managers_wanted`).
    #[derive(Default)]
    ManagersWanted = "managers_wanted" {
        /// The term that is to end, if it is the present one: so a request that is sent twice moves the role once. 0
        /// asks alone.
        ended: u64,
    }
}

enumeration! {
    /// The outcome of a [`ManagersWanted`].
    ManagersOutcome {
        /// Nothing was to change.
        Told = 0 => "told",
        /// The manager ends, and another one takes over.
        Switches = 1 => "switches",
        /// The journal is in a file, so no other manager can be active.
        NoEngine = 2 => "no_engine",
        /// No manager stands by.
        NoStandby = 3 => "no_standby",
        /// The present term is another one.
        OtherTerm = 4 => "other_term",
    }
}

/// A manager that stands by (`standby`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StandbyRecord {
    /// Its name, at most [`MANAGER_NAME_MAX`] bytes.
    pub name: String,
    /// The last record of the journal that it has.
    pub has: u64,
    /// It has been heard of in the last seconds.
    pub is_there: bool,
}

/// The managers of a volume (`managers`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ManagersAnswer {
    /// The result of the wish.
    pub outcome: ManagersOutcome,
    /// The term of the active one.
    pub term: u64,
    /// For how many milliseconds it may still answer, if nothing is heard of its engine and the I/O servers.
    pub lease_ms: u32,
    /// The engine that has the journal, at most [`ENGINE_NAME_MAX`] bytes; empty for a file.
    pub engine: String,
    /// The last record of the journal.
    pub record: u64,
    /// The name of the active one, at most [`MANAGER_NAME_MAX`] bytes; empty without an engine.
    pub active: String,
    /// The others that were ever there, at most [`STANDBYS_MAX`].
    pub standbys: Vec<StandbyRecord>,
}

printed! {
    StandbyRecord = "standby" { name as "name" via Quoted, has, is_there as "there", }
}

impl Encode for StandbyRecord {
    fn encode(&self, encoder: &mut Encoder<'_>) {
        encoder.opaque(self.name.as_bytes());
        encoder.u64(self.has);
        encoder.bool(self.is_there);
    }
}

impl Decode<'_> for StandbyRecord {
    fn decode(decoder: &mut Decoder<'_>) -> Result<StandbyRecord, XdrError> {
        Ok(StandbyRecord {
            name: text(decoder, MANAGER_NAME_MAX)?,
            has: decoder.u64()?,
            is_there: decoder.bool()?,
        })
    }
}

printed! {
    ManagersAnswer = "managers" {
        outcome as "outcome",
        term,
        lease_ms as "lease_ms",
        engine as "engine" via Quoted,
        record,
        active as "active" via Quoted,
        standbys as "standbys" via Count,
    }
}

impl Encode for ManagersAnswer {
    fn encode(&self, encoder: &mut Encoder<'_>) {
        self.outcome.encode(encoder);
        encoder.u64(self.term);
        encoder.u32(self.lease_ms);
        encoder.opaque(self.engine.as_bytes());
        encoder.u64(self.record);
        encoder.opaque(self.active.as_bytes());
        // Bounded by STANDBYS_MAX.
        encoder.u32(self.standbys.len() as u32);
        self.standbys.iter().for_each(|it| it.encode(encoder));
    }
}

impl Decode<'_> for ManagersAnswer {
    fn decode(decoder: &mut Decoder<'_>) -> Result<ManagersAnswer, XdrError> {
        Ok(ManagersAnswer {
            outcome: ManagersOutcome::decode(decoder)?,
            term: decoder.u64()?,
            lease_ms: decoder.u32()?,
            engine: text(decoder, ENGINE_NAME_MAX)?,
            record: decoder.u64()?,
            active: text(decoder, MANAGER_NAME_MAX)?,
            standbys: (0..decoder.length(STANDBYS_MAX)?)
                .map(|_| StandbyRecord::decode(decoder))
                .collect::<Result<_, _>>()?,
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
    fn managers_go_there_and_back_within_their_bounds() {
        let wanted = ManagersWanted { ended: 7 };
        assert_eq!(to_bytes(&wanted), b"\0\0\0\0\0\0\0\x07");
        assert_eq!(wanted.to_string(), "managers_wanted ended=7");
        let standby = |name: &str| StandbyRecord {
            name: String::from(name),
            has: 41,
            is_there: true,
        };
        let answer = |standbys| ManagersAnswer {
            outcome: ManagersOutcome::NoStandby,
            term: 7,
            lease_ms: 1900,
            engine: String::from("etcd"),
            record: 42,
            active: String::from("m0:20050"),
            standbys,
        };
        let told = answer(vec![standby("m1:20050")]);
        assert_eq!(
            to_bytes(&told),
            b"\0\0\0\x03\0\0\0\0\0\0\0\x07\0\0\x07\x6c\0\0\0\x04etcd\0\0\0\0\0\0\0\x2a\0\0\0\x08m0:20050\
              \0\0\0\x01\0\0\0\x08m1:20050\0\0\0\0\0\0\0\x29\0\0\0\x01"
        );
        assert_eq!(from_bytes(&to_bytes(&told)).as_ref(), Ok(&told));
        assert_eq!(
            told.to_string(),
            "managers outcome=no_standby term=7 lease_ms=1900 engine=\"etcd\" record=42 active=\"m0:20050\" standbys=1"
        );
        assert_eq!(
            standby("a").to_string(),
            "standby name=\"a\" has=41 there=true"
        );
        let longest = "n".repeat(MANAGER_NAME_MAX);
        let most = to_bytes(&answer(vec![standby(&longest); STANDBYS_MAX]));
        assert!(most.len() <= super::super::BODY_MAX);
        assert!(from_bytes::<ManagersAnswer>(&most).is_ok());
        let more = answer(vec![standby("a"); STANDBYS_MAX + 1]);
        assert!(from_bytes::<ManagersAnswer>(&to_bytes(&more)).is_err());
    }
}
