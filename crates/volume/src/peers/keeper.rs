//! The keeper of an I/O server's groups of several members: it renews the right to serve, notes who is silent, and has
//! the manager change the records.
//!
//! | what the server is in a group | what the keeper does |
//! |---|---|
//! | primary | asks the other member for the right to serve, every half second; drops one that is silent |
//! | primary, second, the own disk fails | wishes to be out, unless the other one is silent |
//! | primary, the other has everything | settles what has not changed for a while |
//! | primary, the other is being filled | fills it, and says so |
//! | second | drops a primary that does not ask any more |
//! | out | wishes to be filled, unless the own disk fails |
//! | restarted, or without its former disk | says so |

use super::PeerLinks;
use crate::limits::{
    KEEP_EVERY, MEMBER_AWAY_AFTER, MEMBER_SILENT_AFTER, NUMBERS_RETURN, PAUSED_AFTER, RENEW_EVERY,
    SETTLE_GROUPS_EVERY, WISH_EVERY,
};
use crate::link::LinkError;
use gannet_objects::{FolderStore, Objects, Standing};
use gannet_runtime::{Handle, Instant, sleep};
use gannet_vfs::Vfs;
use gannet_wire::volume::{GroupRecord, GroupWish, Renewal, Renewals, Wish};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

struct Keeper<V: Vfs> {
    runtime: Handle,
    number: u32,
    objects: Rc<Objects<FolderStore<V>>>,
    peers: Rc<PeerLinks>,
    groups: RefCell<BTreeMap<u32, Watch>>,
    others: RefCell<BTreeMap<u32, Other>>,
}

/// A group in an epoch, as the keeper knows it.
#[derive(Debug, Clone, Copy, Default)]
struct Watch {
    epoch: u64,
    /// The last sign of life of the other member, or the beginning of the epoch.
    heard: Instant,
    /// The other member has given the right to serve in this epoch.
    is_renewed: bool,
    /// When the manager was last asked.
    wished: Option<Instant>,
    is_wishing: bool,
    is_filling: bool,
    /// When the primary last began to settle what has changed.
    settled: Option<Instant>,
    is_settling: bool,
}

/// Another server, as the keeper knows it.
#[derive(Debug, Clone, Copy, Default)]
struct Other {
    asked: Option<Instant>,
    is_asked: bool,
    /// It could not be reached the last time.
    is_away: bool,
}

/// Keeps the groups of I/O server `number`, for ever.
pub(crate) async fn keep<V: Vfs>(
    runtime: Handle,
    number: u32,
    objects: Rc<Objects<FolderStore<V>>>,
    peers: Rc<PeerLinks>,
) {
    let keeper = Rc::new(Keeper {
        runtime,
        number,
        objects,
        peers,
        groups: RefCell::default(),
        others: RefCell::default(),
    });
    let (mut last, mut had_lease) = (keeper.runtime.now(), false);
    loop {
        keeper.objects.has_groups_of_several().await;
        if !keeper.peers.lease.lasts() {
            keeper.peers.lease.begins().await;
            // Others get theirs at other moments. This process seems to have stood still, so none was silent.
            if std::mem::replace(&mut had_lease, true) {
                sleep(&keeper.runtime, NUMBERS_RETURN).await;
            }
        }
        had_lease = true;
        let now = keeper.runtime.now();
        if now >= last + PAUSED_AFTER {
            // This process stood still: nobody else was silent.
            let mut groups = keeper.groups.borrow_mut();
            groups.values_mut().for_each(|watch| watch.heard = now);
        }
        last = now;
        keeper.objects.look_at_disk();
        keeper.look(now);
        sleep(&keeper.runtime, KEEP_EVERY).await;
    }
}

impl<V: Vfs> Keeper<V> {
    /// Does what is due now.
    fn look(self: &Rc<Self>, now: Instant) {
        let mut asked: BTreeMap<u32, Vec<Renewal>> = BTreeMap::new();
        for (group, record, standing) in self.objects.groups_of_several() {
            let watch = self.watch(group, record.epoch, now);
            match standing {
                Standing::Primary {
                    epoch,
                    other,
                    is_filling,
                } => {
                    let renewals = asked.entry(other).or_default();
                    renewals.push(self.objects.renewal(group, epoch));
                    if is_filling {
                        self.fill(group, &record, watch);
                    } else {
                        self.settle(group, watch, now);
                    }
                    let is_broken = self.objects.is_other_broken(group, epoch);
                    if is_broken || now >= watch.heard + self.patience_with(other) {
                        self.wish(group, record, Wish::Drop, now);
                    } else if !is_filling && self.objects.has_failing_disk() {
                        // Only to a member that answers: nobody else has everything.
                        self.wish(group, record, Wish::Broken, now);
                    }
                }
                Standing::Second {
                    epoch,
                    primary,
                    is_filling,
                } => {
                    // Nothing, to see whether it can be reached.
                    asked.entry(primary).or_default();
                    let renewed = self.objects.last_renewal(group, epoch);
                    let heard = renewed.unwrap_or_default().max(watch.heard);
                    let wish = match renewed {
                        Some(_) => Wish::Drop,
                        None => Wish::DropRestarted,
                    };
                    if !is_filling && now >= heard + self.patience_with(primary) {
                        self.wish(group, record, wish, now);
                    } else if self.objects.has_failing_disk() {
                        self.wish(group, record, Wish::Broken, now);
                    }
                }
                // It would be out again soon.
                Standing::Out if self.objects.has_failing_disk() => {}
                Standing::Out => self.wish(group, record, Wish::Join, now),
                Standing::Restarted => self.wish(group, record, Wish::Restarted, now),
                Standing::Lost => self.wish(group, record, Wish::Lost, now),
                Standing::Single | Standing::Alone { .. } | Standing::Unserved => {}
            }
        }
        asked
            .into_iter()
            .for_each(|(other, groups)| self.renew(other, groups, now));
    }

    /// The state of a group, from now on in this epoch.
    fn watch(&self, group: u32, epoch: u64, now: Instant) -> Watch {
        let mut groups = self.groups.borrow_mut();
        let watch = groups.entry(group).or_default();
        if watch.epoch != epoch {
            *watch = Watch {
                epoch,
                heard: now,
                is_wishing: watch.is_wishing,
                is_filling: watch.is_filling,
                is_settling: watch.is_settling,
                ..Watch::default()
            };
        }
        *watch
    }

    fn note(&self, group: u32, note: impl FnOnce(&mut Watch)) {
        if let Some(watch) = self.groups.borrow_mut().get_mut(&group) {
            note(watch);
        }
    }

    /// After which silence a member is dropped.
    fn patience_with(&self, other: u32) -> std::time::Duration {
        let is_away = self
            .others
            .borrow()
            .get(&other)
            .is_some_and(|it| it.is_away);
        if is_away {
            MEMBER_AWAY_AFTER
        } else {
            MEMBER_SILENT_AFTER
        }
    }

    /// Asks another server for the right to serve these groups, unless it was asked just now.
    fn renew(self: &Rc<Self>, other: u32, groups: Vec<Renewal>, now: Instant) {
        {
            let mut others = self.others.borrow_mut();
            let known = others.entry(other).or_default();
            let pause = if known.is_away || !self.peers.is_connected(other) {
                KEEP_EVERY
            } else {
                RENEW_EVERY
            };
            let is_new = groups.iter().any(|it| !self.has_right(it, now));
            let is_due = is_new || known.asked.is_none_or(|asked| now >= asked + pause);
            if known.is_asked || !is_due {
                return;
            }
            (known.asked, known.is_asked) = (Some(now), true);
        }
        let keeper = Rc::clone(self);
        let renewing = async move {
            let renewals = Renewals {
                primary: keeper.number,
                groups,
            };
            // From before the request: the right may begin there as soon as it leaves.
            let asked = keeper.runtime.now_with_suspend();
            let renewed = keeper.peers.renew(other, &renewals).await;
            keeper.note_renewed(other, &renewals, renewed, asked);
        };
        self.runtime
            .spawn("right to serve groups", Box::pin(renewing));
    }

    fn has_right(&self, renewal: &Renewal, now: Instant) -> bool {
        let groups = self.groups.borrow();
        let watch = groups.get(&renewal.group);
        let watch = watch.filter(|it| it.epoch == renewal.epoch && it.is_renewed);
        watch.is_some_and(|it| now < it.heard + RENEW_EVERY)
    }

    fn note_renewed(
        &self,
        other: u32,
        renewals: &Renewals,
        renewed: Result<gannet_wire::volume::Renewed, LinkError>,
        asked: Instant,
    ) {
        let now = self.runtime.now();
        if let Some(known) = self.others.borrow_mut().get_mut(&other) {
            known.is_asked = false;
            known.is_away = matches!(renewed, Err(LinkError::Unreachable(_)));
        }
        let Ok(renewed) = renewed else {
            return;
        };
        for renewal in &renewals.groups {
            let Renewal { group, epoch, .. } = *renewal;
            if renewed.groups.contains(&group) {
                self.objects.is_renewed(group, epoch, asked);
                self.note(group, |watch| {
                    if watch.epoch == epoch {
                        (watch.heard, watch.is_renewed) = (now, true);
                    }
                });
            }
        }
    }

    /// Asks the manager for another record, unless it was asked just now.
    fn wish(self: &Rc<Self>, group: u32, record: GroupRecord, wish: Wish, now: Instant) {
        let mut is_due = false;
        self.note(group, |watch| {
            let is_late = watch.wished.is_none_or(|at| now >= at + WISH_EVERY);
            is_due = is_late && !watch.is_wishing;
            if is_due {
                (watch.wished, watch.is_wishing) = (Some(now), true);
            }
        });
        if !is_due {
            return;
        }
        let keeper = Rc::clone(self);
        let wishing = async move {
            keeper.wish_now(group, record, wish).await;
            keeper.note(group, |watch| watch.is_wishing = false);
        };
        self.runtime.spawn("wish for a group", Box::pin(wishing));
    }

    async fn wish_now(self: &Rc<Self>, group: u32, record: GroupRecord, wish: Wish) {
        let asked = GroupWish {
            server: self.number,
            group,
            record,
            wish,
        };
        match self.peers.wish(&asked).await {
            Ok(record) if record.epoch > asked.record.epoch => {
                tracing::info!(group, %wish, %record, "a group changes");
                if let Err(status) = self.objects.learn_group(group, record).await {
                    tracing::warn!(group, %status, "an I/O server cannot note its groups");
                }
                // At once: a member that is in may take over when its primary has renewed the right in this epoch.
                self.look(self.runtime.now());
            }
            Ok(_) => {}
            Err(error) => tracing::debug!(group, %wish, %error, "the manager does not answer"),
        }
    }

    /// Makes durable at both members what has not changed for a while, unless that is under way.
    fn settle(self: &Rc<Self>, group: u32, watch: Watch, now: Instant) {
        let is_due = watch
            .settled
            .is_none_or(|at| now >= at + SETTLE_GROUPS_EVERY);
        if watch.is_settling || !is_due {
            return;
        }
        self.note(group, |watch| {
            (watch.settled, watch.is_settling) = (Some(now), true);
        });
        let keeper = Rc::clone(self);
        let settling = async move {
            if let Err(status) = keeper.objects.settle(group).await {
                tracing::debug!(group, %status, "the members of a group are not settled yet");
            }
            keeper.note(group, |watch| watch.is_settling = false);
        };
        self.runtime
            .spawn("settle the members of a group", Box::pin(settling));
    }

    /// Fills the other member of a group, unless that is under way.
    fn fill(self: &Rc<Self>, group: u32, record: &GroupRecord, watch: Watch) {
        if watch.is_filling {
            return;
        }
        self.note(group, |watch| watch.is_filling = true);
        let (keeper, record) = (Rc::clone(self), record.clone());
        let filling = async move {
            match keeper.objects.fill(group, record.epoch).await {
                Ok(()) => {
                    while keeper.objects.is_filling(group, record.epoch) {
                        keeper.wish_now(group, record.clone(), Wish::Filled).await;
                        sleep(&keeper.runtime, KEEP_EVERY).await;
                    }
                }
                Err(status) => {
                    tracing::debug!(group, %status, "a member of a group is not filled yet");
                    sleep(&keeper.runtime, WISH_EVERY).await;
                }
            }
            keeper.note(group, |watch| watch.is_filling = false);
        };
        self.runtime
            .spawn("fill a member of a group", Box::pin(filling));
    }
}
