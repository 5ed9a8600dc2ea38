//! Changes that the primary of a group passes on to the other member (docs/formats/volume.md, "Groups").

use super::group::ObjectId;
use super::{RegionPiece, Stability, Timestamp};
use crate::xdr::{
    Decode, Decoder, Encode, Encoder, Printed, XdrError, print_as_display, printed, record,
};
use core::fmt;

/// A change that the primary of a group has ordered, for the other member (`replication`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Replication {
    /// The number of the primary's server.
    pub primary: u32,
    /// The epoch of the group in which it is the primary.
    pub epoch: u64,
    /// The object.
    pub object: ObjectId,
    /// The primary's clock: the object's time of modification is not earlier.
    pub time: Timestamp,
    /// Changes of the group that the primary had begun, this one among them.
    pub begun: u64,
    /// As many of them, the first ones, are over: the members are equal in what they changed.
    pub over: u64,
    /// The change.
    pub change: ObjectChange,
}

printed! { Replication = "replication" { primary, epoch, object, time, begun, over, change, } }

/// A change of an object (`object_change`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ObjectChange {
    /// 0: none. The primary asks for the verifier.
    Greet,
    /// 1: bytes of the object. They are in the message, or in memory of the primary that the member reads by RDMA.
    Put {
        /// Where the first one goes.
        offset: u64,
        /// How durable they must be before the reply.
        stability: Stability,
        /// The primary's memory; `None`: the bytes are in the message.
        memory: Option<RegionPiece>,
    },
    /// 2: another length, in bytes.
    Cut {
        /// The length.
        size: u64,
    },
    /// 3: the object is removed, durably.
    Remove,
    /// 4: the object is made durable.
    Sync,
    /// 5: the primary has no such object.
    Discard,
    /// 6: capabilities of the file are not good any more that expire at this time or earlier.
    Revoke {
        /// The time, in seconds since the Unix epoch.
        fence: u64,
    },
    /// 7: the object gets this time of modification.
    Stamp {
        /// The time.
        time: Timestamp,
    },
    /// 8: the members are equal, durably, in buckets of objects of the group (docs/formats/volume.md). The object does
    /// not count.
    Settled {
        /// The first bucket, of 64.
        first: u32,
        /// The buckets that it is said of: bit 0 is the first.
        mask: u64,
        /// How often buckets have settled, with the last message about some; 0 before. The member makes it durable.
        count: u64,
    },
    /// 9: these bytes are zeros. The member writes those that it has otherwise: holes stay holes.
    Zeros {
        /// Where the first one is.
        offset: u64,
        /// How many.
        len: u32,
    },
}

impl fmt::Display for ObjectChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ObjectChange::Greet => f.write_str("greet"),
            ObjectChange::Put {
                offset,
                stability,
                memory,
            } => {
                write!(f, "put({offset} {}", Printed(stability))?;
                match memory {
                    Some(memory) => write!(f, " {memory})"),
                    None => f.write_str(" inline)"),
                }
            }
            ObjectChange::Cut { size } => write!(f, "cut({size})"),
            ObjectChange::Remove => f.write_str("remove"),
            ObjectChange::Sync => f.write_str("sync"),
            ObjectChange::Discard => f.write_str("discard"),
            ObjectChange::Revoke { fence } => write!(f, "revoke({fence})"),
            ObjectChange::Stamp { time } => write!(f, "stamp({time})"),
            ObjectChange::Settled { first, mask, count } => {
                write!(f, "settled({first} {mask:016x} {count})")
            }
            ObjectChange::Zeros { offset, len } => write!(f, "zeros({offset}+{len})"),
        }
    }
}

print_as_display!(ObjectChange);

/// The numbers of [`ObjectChange`].
mod change {
    pub(super) const GREET: u32 = 0;
    pub(super) const PUT: u32 = 1;
    pub(super) const CUT: u32 = 2;
    pub(super) const REMOVE: u32 = 3;
    pub(super) const SYNC: u32 = 4;
    pub(super) const DISCARD: u32 = 5;
    pub(super) const REVOKE: u32 = 6;
    pub(super) const STAMP: u32 = 7;
    pub(super) const SETTLED: u32 = 8;
    pub(super) const ZEROS: u32 = 9;
}

impl Encode for ObjectChange {
    fn encode(&self, encoder: &mut Encoder<'_>) {
        match self {
            ObjectChange::Greet => encoder.u32(change::GREET),
            ObjectChange::Put {
                offset,
                stability,
                memory,
            } => {
                encoder.u32(change::PUT);
                encoder.u64(*offset);
                stability.encode(encoder);
                memory.encode(encoder);
            }
            ObjectChange::Cut { size } => {
                encoder.u32(change::CUT);
                encoder.u64(*size);
            }
            ObjectChange::Remove => encoder.u32(change::REMOVE),
            ObjectChange::Sync => encoder.u32(change::SYNC),
            ObjectChange::Discard => encoder.u32(change::DISCARD),
            ObjectChange::Revoke { fence } => {
                encoder.u32(change::REVOKE);
                encoder.u64(*fence);
            }
            ObjectChange::Stamp { time } => {
                encoder.u32(change::STAMP);
                time.encode(encoder);
            }
            ObjectChange::Settled { first, mask, count } => {
                encoder.u32(change::SETTLED);
                encoder.u32(*first);
                encoder.u64(*mask);
                encoder.u64(*count);
            }
            ObjectChange::Zeros { offset, len } => {
                encoder.u32(change::ZEROS);
                encoder.u64(*offset);
                encoder.u32(*len);
            }
        }
    }
}

impl Decode<'_> for ObjectChange {
    fn decode(decoder: &mut Decoder<'_>) -> Result<ObjectChange, XdrError> {
        match decoder.u32()? {
            change::GREET => Ok(ObjectChange::Greet),
            change::PUT => Ok(ObjectChange::Put {
                offset: decoder.u64()?,
                stability: Stability::decode(decoder)?,
                memory: Option::decode(decoder)?,
            }),
            change::CUT => Ok(ObjectChange::Cut {
                size: decoder.u64()?,
            }),
            change::REMOVE => Ok(ObjectChange::Remove),
            change::SYNC => Ok(ObjectChange::Sync),
            change::DISCARD => Ok(ObjectChange::Discard),
            change::REVOKE => Ok(ObjectChange::Revoke {
                fence: decoder.u64()?,
            }),
            change::STAMP => Ok(ObjectChange::Stamp {
                time: Timestamp::decode(decoder)?,
            }),
            change::SETTLED => Ok(ObjectChange::Settled {
                first: decoder.u32()?,
                mask: decoder.u64()?,
                count: decoder.u64()?,
            }),
            change::ZEROS => Ok(ObjectChange::Zeros {
                offset: decoder.u64()?,
                len: decoder.u32()?,
            }),
            _ => Err(XdrError::Value),
        }
    }
}

impl Encode for Replication {
    fn encode(&self, encoder: &mut Encoder<'_>) {
        encoder.u32(self.primary);
        encoder.u64(self.epoch);
        self.object.encode(encoder);
        self.time.encode(encoder);
        encoder.u64(self.begun);
        encoder.u64(self.over);
        self.change.encode(encoder);
    }
}

impl Decode<'_> for Replication {
    fn decode(decoder: &mut Decoder<'_>) -> Result<Replication, XdrError> {
        Ok(Replication {
            primary: decoder.u32()?,
            epoch: decoder.u64()?,
            object: ObjectId::decode(decoder)?,
            time: Timestamp::decode(decoder)?,
            begun: decoder.u64()?,
            over: decoder.u64()?,
            change: ObjectChange::decode(decoder)?,
        })
    }
}

record! {
    /// The reply to a [`Replication`] (`replicated`).
    Replicated = "replicated" {
        /// The write verifier of the member: another one after data that was not durable may have been lost.
        verifier: u64,
        /// The last epoch in which the member had everything, as far as it knows; 0 if it has lost that.
        kept_in: u64,
        /// How often buckets have settled, as far as it knows.
        settled: u64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::volume::Piece;
    use crate::xdr::{from_bytes, to_bytes};
    use alloc::string::ToString;

    fn replication(change: ObjectChange) -> Replication {
        Replication {
            primary: 3,
            epoch: 7,
            object: ObjectId { group: 5, file: 9 },
            time: Timestamp {
                seconds: 1,
                nanoseconds: 2,
            },
            begun: 4,
            over: 3,
            change,
        }
    }

    #[test]
    fn changes_go_there_and_back() {
        let memory = Some(RegionPiece {
            key: 0xabc,
            piece: Piece {
                offset: 16,
                len: 4096,
            },
        });
        let put = |memory| ObjectChange::Put {
            offset: 8,
            stability: Stability::Unstable,
            memory,
        };
        for change in [
            ObjectChange::Greet,
            put(memory),
            put(None),
            ObjectChange::Cut { size: 11 },
            ObjectChange::Remove,
            ObjectChange::Sync,
            ObjectChange::Discard,
            ObjectChange::Revoke { fence: 12 },
            ObjectChange::Stamp {
                time: Timestamp::default(),
            },
            ObjectChange::Settled {
                first: 64,
                mask: 5,
                count: 6,
            },
            ObjectChange::Zeros { offset: 9, len: 7 },
        ] {
            let sent = replication(change);
            assert_eq!(from_bytes(&to_bytes(&sent)), Ok(sent));
        }
        assert_eq!(
            replication(put(memory)).to_string(),
            "replication primary=3 epoch=7 object=(group=5 file=9) time=1.000000002 \
             begun=4 over=3 change=put(8 unstable 00000abc+4096@10)"
        );
    }

    #[test]
    fn changes_that_cannot_be_are_refused() {
        let mut sent = to_bytes(&replication(ObjectChange::Sync));
        let last = sent.len() - 1;
        sent[last] = 10;
        assert_eq!(from_bytes::<Replication>(&sent), Err(XdrError::Value));
        assert!(from_bytes::<Replication>(&sent[..last - 3]).is_err());
    }
}
