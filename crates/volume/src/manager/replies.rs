//! Bounds of the reply cache: how many replies the metadata keep, and for how long.
//!
//! A client that makes up identities could fill the metadata with replies that nobody asks for. So their number is
//! bounded. The oldest go first, and none goes that a client may still ask for: then new slots wait.

use super::{Manager, look};
use crate::limits::{
    FORGET_AT_A_TIME, FORGET_EVERY, REPLIES_CROWDED, REPLIES_MAX, REPLY_AGE, REPLY_AGE_MIN,
};
use gannet_meta::namespace::Failure;
use gannet_meta::reply_cache;
use gannet_runtime::sleep;
use gannet_wire::volume::Status;
use std::cell::Cell;
use std::rc::Rc;

/// How many replies are kept.
pub(super) struct Replies {
    count: Cell<usize>,
}

impl Replies {
    pub(super) fn new(count: usize) -> Replies {
        Replies {
            count: Cell::new(count),
        }
    }

    /// How many slots without a reply may get one.
    pub(super) fn room(&self) -> usize {
        REPLIES_MAX.saturating_sub(self.count.get())
    }

    /// Slots without a reply got one.
    pub(super) fn add(&self, count: usize) {
        self.count.update(|before| before + count);
    }

    fn forgotten(&self, count: usize) {
        self.count.update(|before| before.saturating_sub(count));
    }
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

    /// Removes the replies older than [`REPLY_AGE`]. If there are more than [`REPLIES_CROWDED`], the oldest go too, but
    /// none younger than [`REPLY_AGE_MIN`].
    ///
    /// # Errors
    /// `Io`: the store failed, or has a damaged value.
    pub(super) async fn forget_old_replies(&self) -> Result<(), Status> {
        let now = self.runtime.wall_clock();
        let (old, young) = (
            now.saturating_sub(REPLY_AGE),
            now.saturating_sub(REPLY_AGE_MIN),
        );
        let excess = self.replies.count.get().saturating_sub(REPLIES_CROWDED);
        let before = if excess == 0 {
            old.as_secs()
        } else {
            let times = self.beside(|store| look(store, reply_cache::times));
            after_oldest(times.await?, excess).clamp(old.as_secs(), young.as_secs())
        };
        loop {
            let forgetting = self.beside(move |store| {
                let mut forgotten = Ok(0);
                let committed = store.commit(&mut |transaction| {
                    forgotten = reply_cache::forget(transaction, before, FORGET_AT_A_TIME);
                    Ok(())
                });
                committed.map_err(Failure::from).and(forgotten)
            });
            let count = forgetting.await?;
            self.replies.forgotten(count);
            if count < FORGET_AT_A_TIME {
                return Ok(());
            }
        }
    }
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
    use gannet_meta::reply_cache::{Done, keep};
    use gannet_meta::{MemoryStore, MetaStore};
    use gannet_sim::World;
    use gannet_wire::volume::{SlotSequence, Stripes};
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
                })
            });
            filled.unwrap();
            sleep(&runtime, std::time::Duration::from_secs(10_000)).await;
            let keys = ServerKeys::new(Secret::new([5; 16]));
            let stripes = Stripes::everywhere(4096);
            let manager = Manager::open(runtime, kept, keys, Rc::new(Mute), stripes).unwrap();
            assert_eq!(manager.replies.count.get() as u64, count);
            manager.forget_old_replies().await.unwrap();
            manager.replies.count.get()
        });
        assert_eq!(left.unwrap(), REPLIES_CROWDED - 500);
    }
}
