//! Bounds of the reply cache: how many replies the metadata keep, and for how long.
//!
//! A client that makes up identities could fill the metadata with replies that nobody asks for. So their number is
//! bounded. The oldest go first, and none goes that a client may still ask for: then new slots wait. Those under NFS
//! calls, which are for the case that a server's address moves, have a bound of their own: above it no more are kept.

use super::{Manager, look};
use crate::limits::{
    FORGET_AT_A_TIME, FORGET_EVERY, REPLIES_CROWDED, REPLIES_MAX, REPLY_AGE, REPLY_AGE_MIN,
    REQUEST_AGE, REQUESTS_MAX,
};
use gannet_meta::MetaStore;
use gannet_meta::namespace::{Failure, Outcome};
use gannet_meta::reply_cache::{self, AllKept, Forgotten, RequestKey, Stay};
use gannet_runtime::sleep;
use gannet_wire::volume::{CallRecord, Caller, SlotSequence, Status};
use std::cell::Cell;
use std::ops::RangeInclusive;
use std::rc::Rc;

/// How many replies are kept.
pub(super) struct Replies {
    slots: Cell<usize>,
    requests: Cell<usize>,
}

/// How many replies may be kept where none was before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct RoomForReplies {
    /// Under slots.
    pub(super) slots: usize,
    /// Under NFS calls.
    pub(super) requests: usize,
}

impl Replies {
    pub(super) fn new(all: &AllKept) -> Replies {
        Replies {
            slots: Cell::new(all.slots.len()),
            requests: Cell::new(all.requests),
        }
    }

    pub(super) fn room(&self) -> RoomForReplies {
        RoomForReplies {
            slots: REPLIES_MAX.saturating_sub(self.slots.get()),
            requests: REQUESTS_MAX.saturating_sub(self.requests.get()),
        }
    }

    /// So much of the room was taken.
    pub(super) fn add(&self, taken: RoomForReplies) {
        self.slots.update(|before| before + taken.slots);
        self.requests.update(|before| before + taken.requests);
    }

    fn forgotten(&self, forgotten: &Forgotten) {
        let slots = forgotten.slots;
        self.slots.update(|before| before.saturating_sub(slots));
        let requests = forgotten.requests;
        self.requests
            .update(|before| before.saturating_sub(requests));
    }
}

/// The key of a change that an NFS server asks for.
pub(super) fn request_key(asked: &CallRecord) -> Option<RequestKey> {
    let id = asked.request?;
    // Another server asks in another slot, and may know other groups of the caller.
    let caller = Caller::new(asked.caller.uid, asked.caller.gid, &[]);
    let body = asked.call.to_body(&caller, &SlotSequence::default());
    let mut hasher = blake3::Hasher::new_derive_key("gannet: a change for an NFS call");
    hasher
        .update(&id.xid.to_be_bytes())
        .update(&(asked.call.operation() as u16).to_be_bytes())
        .update(&body);
    let mut digest = [0; 8];
    hasher.finalize_xof().fill(&mut digest);
    Some(RequestKey {
        id,
        digest: u64::from_be_bytes(digest),
    })
}

/// The times, in seconds since the Unix epoch, of replies to NFS calls that may come again. A time that is too late is
/// that of a clock which was wrong.
pub(super) fn requests_stay(now: u64) -> RangeInclusive<u64> {
    let age = REQUEST_AGE.as_secs();
    now.saturating_sub(age)..=now.saturating_add(age)
}

impl Manager {
    /// Removes old replies from the reply cache, now and then, until the runtime ends.
    pub(super) async fn forget_replies(self: Rc<Self>) {
        loop {
            sleep(&self.runtime, FORGET_EVERY).await;
            if let Err(status) = self.forget_old_replies().await {
                tracing::warn!(%status, "old replies to changes are kept: the store failed");
            }
        }
    }

    /// Removes the replies of slots that are older than [`REPLY_AGE`]. If there are more than [`REPLIES_CROWDED`], the
    /// oldest go too, but none younger than [`REPLY_AGE_MIN`]. Those of NFS calls go at [`REQUEST_AGE`].
    ///
    /// # Errors
    /// `Io`: the store failed, or has a damaged value.
    pub(super) async fn forget_old_replies(&self) -> Result<(), Status> {
        let now = self.runtime.wall_clock();
        let (old, young) = (
            now.saturating_sub(REPLY_AGE),
            now.saturating_sub(REPLY_AGE_MIN),
        );
        let excess = self.replies.slots.get().saturating_sub(REPLIES_CROWDED);
        let slots = if excess == 0 {
            old.as_secs()
        } else {
            let all = self.beside(|store| look(store, reply_cache::all));
            after_oldest(all.await?.slots, excess).clamp(old.as_secs(), young.as_secs())
        };
        let stay = Stay {
            slots,
            requests: requests_stay(now.as_secs()),
        };
        let mut from = Some(Vec::new());
        while let Some(key) = from {
            let stay = stay.clone();
            let forgetting = self.beside(move |store| forget_part(store, &key, &stay));
            let (forgotten, next) = forgetting.await?;
            self.replies.forgotten(&forgotten);
            from = next;
        }
        Ok(())
    }
}

/// Removes the replies of the next rows that do not stay; gives their number, and the key from which to go on.
fn forget_part(
    store: &dyn MetaStore,
    from: &[u8],
    stay: &Stay,
) -> Outcome<(Forgotten, Option<Vec<u8>>)> {
    let old = look(store, |view| {
        reply_cache::old(view, from, FORGET_AT_A_TIME, stay)
    })?;
    if old.is_empty() {
        return Ok((Forgotten::default(), old.next));
    }
    let mut forgotten = Ok(Forgotten::default());
    store.commit(&mut |transaction| {
        forgotten = match reply_cache::forget(transaction, &old) {
            Err(Failure::Store(error)) => return Err(error),
            outcome => outcome,
        };
        Ok(())
    })?;
    Ok((forgotten?, old.next))
}

/// The time right after the `count` oldest of `times`, in seconds; 0 for none.
fn after_oldest(mut times: Vec<u64>, count: usize) -> u64 {
    let last = count.min(times.len());
    match last.checked_sub(1) {
        Some(place) => times.select_nth_unstable(place).1.saturating_add(1),
        None => 0,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::manager::sizes::tests::Mute;
    use crate::secret::{Secret, ServerKeys};
    use gannet_meta::MemoryStore;
    use gannet_meta::limits::REQUEST_ROWS;
    use gannet_meta::reply_cache::{Done, keep, keep_request};
    use gannet_sim::World;
    use gannet_wire::volume::{Call, Entry, ROOT, RequestId, Stripes};
    use std::sync::Arc;

    fn of_client(number: u64) -> SlotSequence {
        let mut client = [0; 16];
        client[..8].copy_from_slice(&number.to_be_bytes());
        SlotSequence {
            client,
            slot: 0,
            sequence: 1,
        }
    }

    /// XIDs of a row follow each other, and those of an earlier time come again.
    #[test]
    fn a_request_is_known_by_all_of_it_but_the_slot_and_the_groups() {
        let asked = |xid, uid, groups: &[u32], name: &[u8], slot| {
            let entry = Entry {
                directory: ROOT,
                name: name.to_vec(),
            };
            let id = RequestId {
                client: [1; 16],
                xid,
            };
            CallRecord {
                caller: Caller::new(uid, 0, groups),
                slot_sequence: of_client(slot),
                call: Call::Remove { entry },
                request: Some(id),
            }
        };
        let first = request_key(&asked(7, 0, &[], b"a", 1));
        assert_eq!(request_key(&asked(7, 0, &[3, 4], b"a", 2)), first);
        let mut rmdir = asked(7, 0, &[], b"a", 1);
        if let Call::Remove { entry } = rmdir.call {
            rmdir.call = Call::Rmdir { entry };
        }
        for other in [
            asked(7 + REQUEST_ROWS, 0, &[], b"a", 1),
            asked(7, 1, &[], b"a", 1),
            CallRecord {
                caller: Caller::new(0, 1, &[]),
                ..asked(7, 0, &[], b"a", 1)
            },
            asked(7, 0, &[], b"b", 1),
            rmdir,
        ] {
            let other = request_key(&other).unwrap();
            assert_ne!(other.digest, first.unwrap().digest, "{other:?}");
        }
        let none = CallRecord {
            request: None,
            ..asked(7, 0, &[], b"a", 1)
        };
        assert_eq!(request_key(&none), None);
    }

    #[test]
    fn the_time_after_the_oldest_is_later_than_all_of_them() {
        assert_eq!(after_oldest(vec![5, 3, 9, 3], 0), 0);
        assert_eq!(after_oldest(vec![5, 3, 9, 3], 1), 4);
        assert_eq!(after_oldest(vec![5, 3, 9, 3], 3), 6);
        assert_eq!(after_oldest(vec![5, 3, 9, 3], 100), 10);
    }

    /// Clients that made up identities have filled the reply cache within a day.
    #[test]
    fn replies_of_made_up_clients_go_before_they_are_a_day_old() {
        let world = World::new(1);
        let node = world.add_node("manager");
        let (count, store) = (
            REPLIES_CROWDED as u64 + 1000,
            Arc::new(MemoryStore::default()),
        );
        let kept = Arc::clone(&store) as Arc<dyn MetaStore>;
        let left = world.run(async move {
            let runtime = node.runtime();
            let now = runtime.wall_clock().as_secs();
            let filled = kept.commit(&mut |it| {
                // The last 500 are new, and the others are an hour old.
                (0..count).try_for_each(|number| {
                    let age = if number < count - 500 { 3600 } else { 0 };
                    let since = now + 10_000 - age - u64::from(number < 1500);
                    keep(it, &of_client(number), since, &Done::default())
                })?;
                // Of NFS calls: too old when they are looked for, young, and of a clock that was ahead.
                (0..6).try_for_each(|xid| {
                    let client = [7; 16];
                    let request = RequestKey {
                        id: RequestId { client, xid },
                        digest: 1,
                    };
                    let age = REQUEST_AGE.as_secs();
                    let since = now + 10_000 + [0, 0, age, age, age, 3 * age][xid as usize] - age;
                    keep_request(it, &request, since.saturating_sub(1), &Done::default())
                })
            });
            filled.unwrap();
            sleep(&runtime, std::time::Duration::from_secs(10_000)).await;
            let keys = ServerKeys::new(Secret::new([5; 16]));
            let stripes = Stripes::everywhere(4096);
            let manager = Manager::open(runtime, kept, keys, Rc::new(Mute), stripes).unwrap();
            assert_eq!(manager.replies.slots.get() as u64, count);
            assert_eq!(manager.replies.requests.get(), 6);
            manager.forget_old_replies().await.unwrap();
            assert_eq!(manager.replies.requests.get(), 3);
            manager.replies.slots.get()
        });
        assert_eq!(left.unwrap(), REPLIES_CROWDED - 500);
    }
}
