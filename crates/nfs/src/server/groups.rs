//! Groups of users, looked up at the server in place of those that calls carry: the primary one, and the supplementary
//! ones, of which AUTH_SYS has room for sixteen.
//!
//! A lookup may ask a name service over the network. It runs on the blocking pool, at most [`GROUPS_LOOKUPS_MAX`] at a
//! time, and its result is used for [`GROUPS_AGE`]. A call that waits longer than [`GROUPS_DEADLINE`] is answered
//! JUKEBOX, and the client tries again.

use crate::limits::{
    GROUPS_AGE, GROUPS_DEADLINE, GROUPS_LOOKUPS_MAX, GROUPS_USERS_MAX, MOUNT_LOG_INTERVAL,
};
use gannet_runtime::{Handle, Instant, LogLimit, run_blocking, timeout};
use gannet_vfs::Status;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use tokio::sync::oneshot;

/// A source of users' groups, such as the name service of the host.
pub trait UserGroups: Send + Sync {
    /// The groups of a user, its primary group first; empty for a user that the source does not know. May block.
    ///
    /// # Errors
    /// The source failed, so that the groups are unknown.
    fn groups_of(&self, uid: u32) -> io::Result<Vec<u32>>;
}

/// The groups of users that one core has looked up. The table is borrowed within one poll, never across an await.
pub(super) struct Groups {
    runtime: Handle,
    source: Arc<dyn UserGroups>,
    users: RefCell<BTreeMap<u32, User>>,
    /// Lookups under way, at most [`GROUPS_LOOKUPS_MAX`].
    lookups: Cell<usize>,
    failures: LogLimit,
}

enum User {
    /// The groups, and the time until which they are used.
    Known(Arc<[u32]>, Instant),
    /// A lookup is under way; the senders are those of calls that wait. One lookup serves all: calls of one user come
    /// in bursts, and the pool is shared with files.
    Asked(Vec<oneshot::Sender<Arc<[u32]>>>),
}

impl Groups {
    pub(super) fn new(runtime: Handle, source: Arc<dyn UserGroups>) -> Rc<Groups> {
        Rc::new(Groups {
            runtime,
            source,
            users: RefCell::default(),
            lookups: Cell::new(0),
            failures: LogLimit::new(MOUNT_LOG_INTERVAL),
        })
    }

    /// The groups of a user.
    ///
    /// # Errors
    /// `Jukebox`: they are not known yet.
    pub(super) async fn of(self: &Rc<Self>, uid: u32) -> Result<Arc<[u32]>, Status> {
        let asked = match self.known_or_asked(uid)? {
            Ok(known) => return Ok(known),
            Err(asked) => asked,
        };
        match timeout(&self.runtime, GROUPS_DEADLINE, asked).await {
            Ok(Ok(groups)) => Ok(groups),
            // The lookup failed, or takes long. It is not dropped: its result serves the client's next attempt.
            Ok(Err(_)) | Err(_) => Err(Status::Jukebox),
        }
    }

    /// The groups of a user that was looked up before, however old they are.
    pub(super) fn known(&self, uid: u32) -> Option<Arc<[u32]>> {
        match self.users.borrow().get(&uid)? {
            User::Known(groups, _) => Some(Arc::clone(groups)),
            User::Asked(_) => None,
        }
    }

    /// The groups, or the receiver for them. Begins a lookup unless one is under way.
    #[allow(clippy::type_complexity)] // known, or a receiver
    fn known_or_asked(
        self: &Rc<Self>,
        uid: u32,
    ) -> Result<Result<Arc<[u32]>, oneshot::Receiver<Arc<[u32]>>>, Status> {
        let now = self.runtime.now();
        let mut users = self.users.borrow_mut();
        let (sender, receiver) = oneshot::channel();
        match users.get_mut(&uid) {
            Some(User::Known(groups, until)) if now < *until => return Ok(Ok(Arc::clone(groups))),
            Some(User::Asked(waiting)) => {
                waiting.retain(|sender| !sender.is_closed());
                waiting.push(sender);
                return Ok(Err(receiver));
            }
            Some(User::Known(..)) | None => {}
        }
        // A client can make up users at any rate: their lookups must not take the pool from file operations (test
        // `made_up_users_take_neither_the_pool_nor_memory`).
        if self.lookups.get() >= GROUPS_LOOKUPS_MAX {
            return Err(Status::Jukebox);
        }
        make_room(&mut users, now);
        users.insert(uid, User::Asked(vec![sender]));
        self.lookups.set(self.lookups.get() + 1);
        let groups = Rc::clone(self);
        // In a task of its own: the lookup of a call whose connection ends must still answer the others.
        let lookup = async move { groups.look_up(uid).await };
        self.runtime.spawn("groups", Box::pin(lookup));
        Ok(Err(receiver))
    }

    async fn look_up(self: Rc<Self>, uid: u32) {
        let source = Arc::clone(&self.source);
        let found = run_blocking(&self.runtime, move || source.groups_of(uid)).await;
        self.lookups.set(self.lookups.get() - 1);
        let found = found.unwrap_or_else(|_| Err(io::Error::other("the server ends")));
        let mut users = self.users.borrow_mut();
        // Removed also after a failure: the senders are dropped, which answers the calls, and the next one tries again.
        let waiting = match users.remove(&uid) {
            Some(User::Asked(waiting)) => waiting,
            Some(User::Known(..)) | None => Vec::new(),
        };
        let groups: Arc<[u32]> = match found {
            Ok(groups) => groups.into(),
            Err(error) => {
                if let Some(left_out) = self.failures.admit(self.runtime.now()) {
                    tracing::warn!(uid, %error, left_out, "cannot look up the groups of a user");
                }
                return;
            }
        };
        let until = self.runtime.now() + GROUPS_AGE;
        users.insert(uid, User::Known(Arc::clone(&groups), until));
        for sender in waiting {
            // The send fails only if the call does not wait any more.
            let _ = sender.send(Arc::clone(&groups));
        }
    }
}

/// Makes room for another user in a full table: removes those whose time is over, or else all that are known. Lookups
/// under way stay, because calls wait for them.
fn make_room(users: &mut BTreeMap<u32, User>, now: Instant) {
    for holds in [true, false] {
        if users.len() < GROUPS_USERS_MAX {
            return;
        }
        users.retain(|_, user| match user {
            User::Known(_, until) => holds && now < *until,
            User::Asked(_) => true,
        });
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use gannet_runtime::{all, sleep};
    use gannet_sim::World;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    /// Every user is in the groups from its number on, and user 7 cannot be looked up.
    #[derive(Default)]
    struct Counted(AtomicUsize);

    impl UserGroups for Counted {
        fn groups_of(&self, uid: u32) -> io::Result<Vec<u32>> {
            self.0.fetch_add(1, Ordering::Relaxed);
            match uid {
                7 => Err(io::Error::other("no answer")),
                _ => Ok((uid..uid + 40).collect()),
            }
        }
    }

    fn run<F: Future<Output = ()> + 'static>(
        story: impl FnOnce(Rc<Groups>, Arc<Counted>, Handle) -> F,
    ) {
        let world = World::new(1);
        let runtime = world.add_node("server").runtime();
        let source = Arc::<Counted>::default();
        let groups = Groups::new(runtime.clone(), Arc::clone(&source) as _);
        world.run(story(groups, source, runtime)).unwrap();
    }

    #[test]
    fn a_user_is_looked_up_once_for_all_calls_until_its_groups_are_old() {
        run(|groups, source, runtime| async move {
            let lookups = || source.0.load(Ordering::Relaxed);
            let calls = (0..10).map(|_| Box::pin(groups.of(1000)));
            for found in all(calls).await {
                assert_eq!(*found.unwrap(), *(1000..1040).collect::<Vec<_>>());
            }
            groups.of(1000).await.unwrap();
            assert_eq!(lookups(), 1);
            sleep(&runtime, GROUPS_AGE + Duration::from_secs(1)).await;
            groups.of(1000).await.unwrap();
            assert_eq!(lookups(), 2);
        });
    }

    #[test]
    fn a_lookup_that_fails_is_tried_again_by_the_next_call() {
        run(|groups, source, _| async move {
            for tries in 1..3 {
                assert_eq!(groups.of(7).await, Err(Status::Jukebox));
                assert_eq!(source.0.load(Ordering::Relaxed), tries);
            }
        });
    }

    #[test]
    fn made_up_users_take_neither_the_pool_nor_memory() {
        run(|groups, _, _| async move {
            let calls = (1000..2000).map(|uid| Box::pin(groups.of(uid)));
            let refused = all(calls).await.into_iter().filter(Result::is_err);
            assert_eq!(refused.count(), 1000 - GROUPS_LOOKUPS_MAX);
            for uid in 10_000..10_000 + 2 * GROUPS_USERS_MAX as u32 {
                groups.of(uid).await.unwrap();
                assert!(groups.users.borrow().len() <= GROUPS_USERS_MAX);
            }
        });
    }
}
