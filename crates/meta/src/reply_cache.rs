//! The reply cache (RFC 8881 section 2.10.6.1): replies to changes, durable in the transactions of the changes. A
//! change that is sent again gets its reply and is not repeated.
//!
//! An NFS client whose server is gone sends its calls again to the one that has its address now, which asks for the
//! changes in slots of its own. So replies are also kept under the NFS calls, each client's in a ring of
//! [`REQUEST_ROWS`].

use super::namespace::{Failure, Outcome};
use super::{StoreError, Table, Transaction, View};
use crate::limits::REQUEST_ROWS;
use gannet_wire::volume::{FileId, Inode, ROOT, RequestId, SlotSequence, Status};
use gannet_wire::xdr::{Decode, Decoder, Encode, Encoder, XdrError, from_bytes};
use std::ops::RangeInclusive;

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

/// The row of an NFS call is that of a slot from here on. Sessions have a few slots.
const REQUEST_SLOTS: u32 = 1 << 31;

fn key_of(slot_sequence: &SlotSequence) -> Vec<u8> {
    [&slot_sequence.client[..], &slot_sequence.slot.to_be_bytes()].concat()
}

/// A change that an NFS call asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RequestKey {
    /// The call.
    pub id: RequestId,
    /// A digest of the XID, the caller and the change. Calls with one digest are the same.
    pub digest: u64,
}

impl RequestKey {
    /// Its row, with the digest in place of the sequence. XIDs of a connection follow each other, so most of the calls
    /// that it has under way have rows of their own.
    fn row(&self) -> SlotSequence {
        SlotSequence {
            client: self.id.client,
            slot: REQUEST_SLOTS | (self.id.xid % REQUEST_ROWS),
            sequence: self.digest,
        }
    }
}

fn is_request(key: &[u8]) -> bool {
    let slot = key.last_chunk().map(|slot| u32::from_be_bytes(*slot));
    slot.is_some_and(|slot| slot >= REQUEST_SLOTS)
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

/// Looks up the row of a change that an NFS call asks for. A reply from a time that is not `valid` (seconds since the
/// Unix epoch) is taken for one to an earlier call.
///
/// # Errors
/// `Failure::Store`: the store failed. `Failure::Damaged`: its value cannot be decoded.
pub fn request(
    view: &dyn View,
    request: &RequestKey,
    valid: &RangeInclusive<u64>,
) -> Outcome<Slot> {
    let Some(value) = view.get(Table::Replies, &key_of(&request.row()))? else {
        return Ok(Slot::New);
    };
    let kept = parse(&value)?;
    if kept.sequence == request.digest && valid.contains(&kept.since) {
        return Ok(Slot::Answered(kept.done));
    }
    Ok(Slot::Used)
}

/// Keeps the reply to a change under the NFS call that asked for it, as [`keep`] does under its slot. Another call had
/// the row before, if any.
///
/// # Errors
/// The store failed.
pub fn keep_request(
    transaction: &mut dyn Transaction,
    request: &RequestKey,
    now: u64,
    done: &Done,
) -> Result<(), StoreError> {
    keep(transaction, &request.row(), now, done)
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

/// The replies that are kept.
#[derive(Debug, PartialEq, Eq, Default)]
pub struct AllKept {
    /// The times of those of slots, in seconds since the Unix epoch, in no order.
    pub slots: Vec<u64>,
    /// The number of those of NFS calls.
    pub requests: usize,
}

/// All replies.
///
/// # Errors
/// `Failure::Store`: the store failed. `Failure::Damaged`: one of its values cannot be decoded.
pub fn all(view: &dyn View) -> Outcome<AllKept> {
    let mut all = Ok(AllKept::default());
    view.scan(Table::Replies, &[], &mut |key, value| {
        match (parse(value), &mut all) {
            (Ok(_), Ok(all)) if is_request(key) => all.requests += 1,
            (Ok(kept), Ok(all)) => all.slots.push(kept.since),
            (Err(error), _) => all = Err(error),
            (Ok(_), Err(_)) => {}
        }
        all.is_ok()
    })?;
    all
}

/// The times from which replies stay, in seconds since the Unix epoch.
#[derive(Debug, Clone)]
pub struct Stay {
    /// Replies under slots: this time and later ones.
    pub slots: u64,
    /// Replies under NFS calls.
    pub requests: RangeInclusive<u64>,
}

impl Stay {
    fn keeps(&self, key: &[u8], since: u64) -> bool {
        if is_request(key) {
            self.requests.contains(&since)
        } else {
            self.slots <= since
        }
    }
}

/// How many replies were forgotten.
#[derive(Debug, PartialEq, Eq, Default)]
pub struct Forgotten {
    /// Replies under slots.
    pub slots: usize,
    /// Replies under NFS calls.
    pub requests: usize,
}

/// The replies of a part of the table that do not stay.
#[derive(Debug, PartialEq, Eq, Default)]
pub struct Old {
    /// Their keys and times.
    replies: Vec<(Vec<u8>, u64)>,
    /// The key from which the next part begins, if there is one.
    pub next: Option<Vec<u8>>,
}

impl Old {
    /// Whether all replies of the part stay.
    pub fn is_empty(&self) -> bool {
        self.replies.is_empty()
    }
}

/// Looks through `rows` rows of the table from the key `from` on: a look holds up all changes.
///
/// # Errors
/// `Failure::Store`: the store failed. `Failure::Damaged`: one of its values cannot be decoded.
pub fn old(view: &dyn View, from: &[u8], rows: usize, stay: &Stay) -> Outcome<Old> {
    let (mut old, mut failure, mut seen) = (Old::default(), None, 0);
    view.scan(Table::Replies, from, &mut |key, value| {
        if seen == rows {
            old.next = Some(key.to_vec());
            return false;
        }
        seen += 1;
        match parse(value) {
            Ok(kept) if stay.keeps(key, kept.since) => {}
            Ok(kept) => old.replies.push((key.to_vec(), kept.since)),
            Err(error) => failure = Some(error),
        }
        failure.is_none()
    })?;
    match failure {
        Some(error) => Err(error),
        None => Ok(old),
    }
}

/// Removes these replies, but for those that others have replaced meanwhile.
///
/// # Errors
/// `Failure::Damaged`: one of their values cannot be decoded; nothing was removed. `Failure::Store`: the store failed.
pub fn forget(transaction: &mut dyn Transaction, old: &Old) -> Outcome<Forgotten> {
    let mut same = Vec::new();
    for (key, since) in &old.replies {
        if let Some(value) = transaction.get(Table::Replies, key)?
            && parse(&value)?.since == *since
        {
            same.push(key);
        }
    }
    let mut forgotten = Forgotten::default();
    for key in same {
        transaction.delete(Table::Replies, key)?;
        if is_request(key) {
            forgotten.requests += 1;
        } else {
            forgotten.slots += 1;
        }
    }
    Ok(forgotten)
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
                let earlier = slot(it, &slot_sequence(4));
                assert!(matches!(earlier, Err(Failure::Status(Status::Inval))));
                assert!(matches!(all(it), Ok(all) if all.slots == [100] && all.requests == 0));
                let old = |it: &dyn View, slots| {
                    let requests = 0..=0;
                    old(it, &[], 10, &Stay { slots, requests })
                };
                assert!(matches!(old(it, 100), Ok(old) if old.is_empty()));
                let Ok(found) = old(it, 101) else {
                    unreachable!("memory does not fail");
                };
                assert_eq!((found.replies.len(), &found.next), (1, &None));
                // Another one replaces it, which stays.
                keep(it, &slot_sequence(6), 101, &done)?;
                let none = Forgotten::default();
                assert!(matches!(forget(it, &found), Ok(it) if it == none));
                keep(it, &slot_sequence(5), 100, &done)?;
                assert!(matches!(forget(it, &found), Ok(it) if it.slots == 1));
                assert!(matches!(forget(it, &found), Ok(it) if it == none));
                assert!(matches!(slot(it, &slot_sequence(5)), Ok(Slot::New)));
                assert!(matches!(all(it), Ok(all) if all == AllKept::default()));
                Ok(())
            })
            .expect("memory does not fail");
    }

    #[test]
    fn the_reply_to_an_nfs_call_is_there_until_its_row_is_anothers_or_it_is_old() {
        let store = MemoryStore::default();
        let of = |client, xid, digest| RequestKey {
            id: RequestId {
                client: [client; 16],
                xid,
            },
            digest,
        };
        let done = Done {
            inodes: Vec::new(),
            intent: Some(9),
        };
        let state = |it: &dyn View, key: RequestKey, valid| match request(it, &key, &valid) {
            Ok(Slot::Answered(found)) if found == done => "answered",
            Ok(Slot::Used) => "used",
            Ok(Slot::New) => "new",
            _ => "else",
        };
        store
            .commit(&mut |it| {
                assert_eq!(state(it, of(1, 7, 5), 0..=999), "new");
                keep_request(it, &of(1, 7, 5), 100, &done)?;
                for (key, valid, expected) in [
                    (of(1, 7, 5), 100..=100, "answered"),
                    // Too old, and from a clock that was ahead.
                    (of(1, 7, 5), 101..=200, "used"),
                    (of(1, 7, 5), 0..=99, "used"),
                    // Another call in the row.
                    (of(1, 7, 4), 0..=999, "used"),
                    (of(1, 7, 6), 0..=999, "used"),
                    (of(2, 7, 5), 0..=999, "new"),
                    (of(1, 8, 5), 0..=999, "new"),
                    (of(1, 7 + REQUEST_ROWS, 9), 0..=999, "used"),
                ] {
                    assert_eq!(state(it, key, valid), expected, "{key:?}");
                }
                keep_request(it, &of(1, 7 + REQUEST_ROWS, 9), 101, &done)?;
                assert_eq!(state(it, of(1, 7, 5), 0..=999), "used");
                keep_request(it, &of(1, 8, 9), 102, &done)?;
                assert!(matches!(all(it), Ok(all) if all.slots.is_empty() && all.requests == 2));
                for (requests, left) in [(0..=101, 1), (102..=999, 0)] {
                    let stay = Stay { slots: 0, requests };
                    let (mut from, mut parts, mut forgotten) = (Some(Vec::new()), 0, 0);
                    while let Some(key) = from {
                        let Ok(old) = old(it, &key, 1, &stay) else {
                            unreachable!("memory does not fail");
                        };
                        forgotten += forget(it, &old).map_or(9, |it| it.requests);
                        (from, parts) = (old.next, parts + 1);
                    }
                    assert_eq!((parts, forgotten), (left + 1, 1));
                    assert!(matches!(all(it), Ok(all) if all.requests == left));
                }
                Ok(())
            })
            .expect("memory does not fail");
    }
}
