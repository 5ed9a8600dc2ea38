//! The reply cache (RFC 8881 section 2.10.6.1): replies to changes, durable in the transactions of the changes. A
//! change that is sent again gets its reply and is not repeated.

use super::namespace::{Failure, Outcome};
use super::{StoreError, Table, Transaction, View};
use gannet_wire::volume::{FileId, Inode, ROOT, SlotSequence, Status};
use gannet_wire::xdr::{Decode, Decoder, Encode, Encoder, XdrError, from_bytes};

/// The result of a change.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Done {
    /// The inodes of its reply, made or changed: at most two.
    pub inodes: Vec<(FileId, Inode)>,
    /// The intent that must be done before the caller is answered.
    pub intent: Option<u64>,
}

/// The most inodes of a reply.
const INODES_MAX: usize = 2;

impl Encode for Done {
    fn encode(&self, encoder: &mut Encoder<'_>) {
        // At most INODES_MAX.
        encoder.u32(self.inodes.len() as u32);
        for (id, inode) in &self.inodes {
            encoder.u64(id.0);
            inode.encode(encoder);
        }
        encoder.bool(self.intent.is_some());
        self.intent.iter().for_each(|number| encoder.u64(*number));
    }
}

impl Decode<'_> for Done {
    fn decode(decoder: &mut Decoder<'_>) -> Result<Done, XdrError> {
        let count = decoder.length(INODES_MAX)?;
        let inodes = (0..count).map(|_| Ok((FileId(decoder.u64()?), Inode::decode(decoder)?)));
        Ok(Done {
            inodes: inodes.collect::<Result<_, _>>()?,
            intent: if decoder.bool()? {
                Some(decoder.u64()?)
            } else {
                None
            },
        })
    }
}

/// The last reply of a slot.
struct Kept {
    sequence: u64,
    /// Seconds since the epoch.
    since: u64,
    done: Done,
}

impl Encode for Kept {
    fn encode(&self, encoder: &mut Encoder<'_>) {
        encoder.u64(self.sequence);
        encoder.u64(self.since);
        self.done.encode(encoder);
    }
}

impl Decode<'_> for Kept {
    fn decode(decoder: &mut Decoder<'_>) -> Result<Kept, XdrError> {
        Ok(Kept {
            sequence: decoder.u64()?,
            since: decoder.u64()?,
            done: Done::decode(decoder)?,
        })
    }
}

fn key_of(slot_sequence: &SlotSequence) -> Vec<u8> {
    [&slot_sequence.client[..], &slot_sequence.slot.to_be_bytes()].concat()
}

fn parse(value: &[u8]) -> Outcome<Kept> {
    from_bytes(value).map_err(|_| Failure::Damaged(ROOT))
}

/// The state of a slot, for a change of it.
#[derive(Debug, PartialEq, Eq)]
pub enum Slot {
    /// Nothing: it has no reply yet.
    New,
    /// The reply to an earlier change, which this one replaces.
    Used,
    /// The reply to this change, which was done before.
    Answered(Done),
}

/// Looks up the slot of a change.
///
/// # Errors
/// `Inval`: the slot has a later sequence, so no caller waits for this one. `Failure::Store`: the store failed.
/// `Failure::Damaged`: its value cannot be decoded.
pub fn slot(view: &dyn View, slot_sequence: &SlotSequence) -> Outcome<Slot> {
    let Some(value) = view.get(Table::Replies, &key_of(slot_sequence))? else {
        return Ok(Slot::New);
    };
    let kept = parse(&value)?;
    match slot_sequence.sequence.cmp(&kept.sequence) {
        std::cmp::Ordering::Greater => Ok(Slot::Used),
        std::cmp::Ordering::Equal => Ok(Slot::Answered(kept.done)),
        std::cmp::Ordering::Less => Err(Status::Inval.into()),
    }
}

/// Keeps the reply to a change; `now` in seconds since the Unix epoch.
///
/// # Errors
/// The store failed.
pub fn keep(
    transaction: &mut dyn Transaction,
    slot_sequence: &SlotSequence,
    now: u64,
    done: &Done,
) -> Result<(), StoreError> {
    let kept = Kept {
        sequence: slot_sequence.sequence,
        since: now,
        done: done.clone(),
    };
    let mut value = Vec::new();
    kept.encode(&mut Encoder::new(&mut value));
    transaction.put(Table::Replies, &key_of(slot_sequence), &value)
}

/// The times of all replies, in seconds since the Unix epoch, in no order.
///
/// # Errors
/// `Failure::Store`: the store failed. `Failure::Damaged`: one of its values cannot be decoded.
pub fn times(view: &dyn View) -> Outcome<Vec<u64>> {
    let mut times = Ok(Vec::new());
    view.scan(Table::Replies, &[], &mut |_, value| {
        match (parse(value), &mut times) {
            (Ok(kept), Ok(times)) => times.push(kept.since),
            (Err(error), _) => times = Err(error),
            (Ok(_), Err(_)) => {}
        }
        times.is_ok()
    })?;
    times
}

/// Removes up to `max` replies from before `time` (seconds since the Unix epoch); gives their number.
///
/// # Errors
/// `Failure::Store`: the store failed. `Failure::Damaged`: one of its values cannot be decoded.
pub fn forget(transaction: &mut dyn Transaction, time: u64, max: usize) -> Outcome<usize> {
    let (mut old, mut failure) = (Vec::new(), None);
    transaction.scan(Table::Replies, &[], &mut |key, value| {
        match parse(value) {
            Ok(kept) if kept.since < time => old.push(key.to_vec()),
            Ok(_) => {}
            Err(error) => failure = Some(error),
        }
        failure.is_none() && old.len() < max
    })?;
    if let Some(error) = failure {
        return Err(error);
    }
    old.iter()
        .try_for_each(|key| transaction.delete(Table::Replies, key))?;
    Ok(old.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{MemoryStore, MetaStore};

    #[test]
    fn a_reply_is_there_until_its_slot_goes_on_or_it_is_old() {
        let store = MemoryStore::default();
        let slot_sequence = |sequence| SlotSequence {
            client: [1; 16],
            slot: 2,
            sequence,
        };
        let done = Done {
            inodes: Vec::new(),
            intent: Some(9),
        };
        store
            .commit(&mut |it| {
                assert!(matches!(slot(it, &slot_sequence(5)), Ok(Slot::New)));
                keep(it, &slot_sequence(5), 100, &done)?;
                let answered = slot(it, &slot_sequence(5));
                assert!(matches!(answered, Ok(Slot::Answered(found)) if found == done));
                assert!(matches!(slot(it, &slot_sequence(6)), Ok(Slot::Used)));
                let old = slot(it, &slot_sequence(4));
                assert!(matches!(old, Err(Failure::Status(Status::Inval))));
                assert!(matches!(times(it), Ok(times) if times == [100]));
                assert!(matches!(forget(it, 100, 10), Ok(0)));
                assert!(matches!(forget(it, 101, 10), Ok(1)));
                assert!(matches!(slot(it, &slot_sequence(5)), Ok(Slot::New)));
                assert!(matches!(times(it), Ok(times) if times.is_empty()));
                Ok(())
            })
            .expect("memory does not fail");
    }
}
