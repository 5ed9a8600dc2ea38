//! The manager's hold of its metadata, where another process may take them over: it renews a lease of their store, and
//! ends when it has lost them, or when another manager may reach the I/O servers.

use super::{Office, State, TermError};
use crate::limits::YIELD_AFTER;
use gannet_meta::limits::ENGINE_RENEW_EVERY;
use gannet_meta::{Followers, MetaStore};
use gannet_runtime::{Instant, run_blocking, sleep};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

impl Office {
    /// Whether the store is this process's alone, as far as others may take it over.
    pub(super) fn has_store(&self) -> bool {
        let renewed = self.store_renewed.get();
        renewed.is_none_or(|(lasts, renewed)| self.now() < renewed + lasts)
    }

    /// Keeps the store, where another process may take it over.
    ///
    /// # Errors
    /// `Store`: another one has.
    pub(super) async fn begin_store(
        self: &Rc<Self>,
        store: &Arc<dyn MetaStore>,
    ) -> Result<(), TermError> {
        let Some(lasts) = store.lease() else {
            return Ok(());
        };
        let renewed = self.renew(store).await?;
        self.look_for_followers(store).await;
        self.store_renewed.set(Some((lasts, renewed)));
        let renewing = Rc::clone(self).keep_store(Arc::clone(store), lasts);
        self.runtime
            .spawn("lease of the metadata", Box::pin(renewing));
        Ok(())
    }

    /// Renews the lease of the store; returns when it began to.
    async fn renew(&self, store: &Arc<dyn MetaStore>) -> Result<Instant, TermError> {
        let (began, store) = (self.now(), Arc::clone(store));
        let renewed = run_blocking(&self.runtime, move || store.renew()).await;
        let renewed = renewed.map_err(|_| TermError::Stopping)?;
        renewed.map_err(|error| TermError::JournalLost(error.0.to_string()))?;
        Ok(began)
    }

    /// Looks for the managers that would take over.
    async fn look_for_followers(&self, store: &Arc<dyn MetaStore>) {
        let store = Arc::clone(store);
        let found = run_blocking(&self.runtime, move || store.followers()).await;
        if let Ok(Ok(found)) = found {
            self.followers.replace(found);
        }
    }

    /// Whether another manager would take over, as of the last look.
    fn has_standby(&self) -> bool {
        let known = self.followers.borrow();
        let followers = known.iter().flat_map(|all| &all.followers);
        followers.into_iter().any(|it| it.is_there)
    }

    /// The other managers, as of a second ago: a question must not wait for the engine, nor keep changes from it.
    pub(in crate::manager) fn followers(&self) -> Option<Followers> {
        self.followers.borrow().clone()
    }

    /// How long this manager may still answer.
    pub(in crate::manager) fn lease_left(&self) -> Duration {
        let until = self.lease.borrow().until();
        until.map_or(Duration::ZERO, |until| until.duration_since(self.now()))
    }

    /// Renews the lease of the store at intervals. The term ends when that fails.
    async fn keep_store(self: Rc<Self>, store: Arc<dyn MetaStore>, lasts: Duration) {
        let (mut is_late, mut confirmed, mut is_held) = (false, self.now(), false);
        loop {
            sleep(&self.runtime, ENGINE_RENEW_EVERY).await;
            if matches!(*self.state.borrow(), State::Ended(_)) {
                return;
            }
            let now = self.now();
            // To begin a term takes a silent server's deadlines.
            let begins = !std::mem::replace(&mut is_held, self.is_held());
            let patience = if is_held {
                YIELD_AFTER
            } else {
                3 * YIELD_AFTER
            };
            if self.lease.borrow().is_confirmed(now) || (begins && is_held) {
                confirmed = now;
            } else if now >= confirmed + patience
                // An operator has chosen this manager.
                && !self.may_lack_majority.get()
                && self.has_standby()
            {
                return self.end(TermError::Yields);
            }
            let renewed = match self.renew(&store).await {
                Ok(renewed) => renewed,
                Err(error) => return self.end(error),
            };
            let took = self.now().duration_since(renewed);
            if took >= lasts / 2 && !std::mem::replace(&mut is_late, true) {
                let took_ms = took.as_millis() as u64;
                tracing::warn!(
                    took_ms,
                    "the engine of the journal is slow: the lease may end"
                );
            } else if took < lasts / 4 {
                is_late = false;
                self.look_for_followers(&store).await;
            }
            self.store_renewed.set(Some((lasts, renewed)));
            self.lease.set_if(|lease| {
                lease.renew_store(lasts, renewed);
                true
            });
        }
    }
}
