//! The state that the accepted connections of a core share: receives, and the task that frees memory which none uses.

use super::queue::Work;
use super::{Link, Shared};
use crate::limits::{RECEIVES_RESERVED, RECEIVES_SPARE};
use crate::serve::ServerCounters;
use gannet_fabric::{Provider, SharedReceives};
use gannet_runtime::{Arena, Handle, sleep};
use gannet_session::limits::REST_AFTER;
use gannet_session::{Freed, PoolLimits, ReceivePool, Share};
use gannet_wire::volume::MESSAGE_MAX;
use std::cell::{Cell, OnceCell, Ref, RefCell};
use std::io;
use std::net::IpAddr;
use std::rc::{Rc, Weak};
use std::sync::Arc;

/// The receives of so many connections, each of which has its reserve.
fn pool_limits(connections_max: usize) -> PoolLimits {
    let connections_max = u32::try_from(connections_max).unwrap_or(u32::MAX);
    PoolLimits {
        receives_max: RECEIVES_RESERVED
            .saturating_mul(connections_max.saturating_add(RECEIVES_SPARE)),
        reserve: RECEIVES_RESERVED,
        connections_max,
    }
}

/// The accepted connections of a core.
pub(crate) struct AcceptedLinks {
    /// Made with the first listener.
    receives: OnceCell<Rc<ReceivePool>>,
    /// Memory of messages that leave.
    messages: Arena,
    /// Connections that last, or have requests under way, and some that have ended.
    links: RefCell<Vec<Weak<Shared>>>,
    /// Messages that came.
    uses: Cell<u64>,
    freed: Freed,
    counters: RefCell<Arc<ServerCounters>>,
    /// The task that frees idle memory is running.
    watched: Cell<bool>,
}

impl AcceptedLinks {
    pub(super) fn new(messages: Arena) -> Rc<AcceptedLinks> {
        Rc::new(AcceptedLinks {
            receives: OnceCell::new(),
            messages,
            links: RefCell::default(),
            uses: Cell::new(0),
            freed: Freed::default(),
            counters: RefCell::default(),
            watched: Cell::new(false),
        })
    }

    /// Counts in `counters` from now on.
    pub(crate) fn count_in(&self, counters: Arc<ServerCounters>) {
        self.counters.replace(counters);
    }

    /// The counters of the connections.
    pub(crate) fn counters(&self) -> Ref<'_, ServerCounters> {
        Ref::map(self.counters.borrow(), |counters| &**counters)
    }

    /// Makes the shared receives, of `provider`, for so many connections.
    ///
    /// # Errors
    /// The provider's connections cannot share receives.
    pub(crate) fn serve(&self, provider: &dyn Provider, connections_max: usize) -> io::Result<()> {
        if self.receives.get().is_none() {
            let limits = pool_limits(connections_max);
            let queue = provider.shared_receives(SharedReceives {
                id: Work::Receive.id(),
                len: MESSAGE_MAX,
                receives_max: limits.receives_max,
            });
            let queue = queue.ok_or(io::ErrorKind::Unsupported)?;
            // Set here alone.
            let _ = self.receives.set(ReceivePool::new(queue, limits));
        }
        Ok(())
    }

    /// The receives of a new connection from `peer`; `None` when too few are left.
    pub(super) fn join(&self, peer: IpAddr) -> Option<Share> {
        self.receives.get()?.join(peer.into())
    }

    /// Notes a connection; gives the earlier ones that last, or have requests under way.
    pub(crate) fn add(&self, link: &Link) -> Vec<Link> {
        let before = self.links();
        self.links.borrow_mut().push(Rc::downgrade(&link.shared));
        before
    }

    /// The connections that have not ended, and some that have.
    pub(crate) fn links(&self) -> Vec<Link> {
        let links = self.links.borrow();
        let links = links.iter().filter_map(Weak::upgrade);
        links.map(|shared| Link { shared }).collect()
    }

    /// Forgets connections that have ended.
    pub(crate) fn forget_gone(&self) {
        let mut links = self.links.borrow_mut();
        let before = links.len();
        links.retain(|link| {
            let link = link.upgrade().map(|shared| Link { shared });
            link.is_some_and(|link| !link.is_over() || link.is_busy())
        });
        if links.len() < before {
            links.shrink_to_fit();
        }
    }

    /// A message has come.
    pub(super) fn note_use(self: &Rc<Self>, runtime: &Handle) {
        self.uses.set(self.uses.get().wrapping_add(1));
        self.look_after(runtime);
    }

    /// Notes that a connection has ended, or freed its tables.
    pub(crate) fn note_freed(self: &Rc<Self>, runtime: &Handle) {
        self.freed.note();
        self.look_after(runtime);
    }

    /// Notes that memory is in use: a task frees it when it is idle, until all is free.
    fn look_after(self: &Rc<Self>, runtime: &Handle) {
        if !self.watched.replace(true) {
            let watch = watch(Rc::downgrade(self), Handle::clone(runtime));
            runtime.spawn("reclaim message memory", Box::pin(watch));
        }
    }

    /// Frees memory of messages that was not used for a while.
    fn trim(&self) {
        self.messages.trim_unused();
        if let Some(receives) = self.receives.get() {
            receives.trim_unused();
        }
    }

    fn is_unused(&self) -> bool {
        let received = self.receives.get().map_or(0, |it| it.in_use());
        received == 0 && self.messages.in_use() == 0
    }
}

/// Frees memory that was not used for a while; ends when all is free, until the next use.
async fn watch(accepted: Weak<AcceptedLinks>, runtime: Handle) {
    let mut seen = None;
    loop {
        sleep(&runtime, REST_AFTER).await;
        let Some(accepted) = accepted.upgrade() else {
            return;
        };
        accepted.forget_gone();
        accepted.trim();
        let uses = accepted.uses.get();
        let is_idle = seen.replace(uses) == Some(uses);
        if is_idle && !accepted.freed.has_new() && accepted.is_unused() {
            accepted.freed.look_idle(&runtime);
            // Twice: a slot counts as idle if it was unused between two trims, and this round may be the first of them.
            accepted.trim();
            accepted.watched.set(false);
            return;
        }
        accepted.freed.look(&runtime);
    }
}
