//! The managers of a volume, of which one is active: connections to that one, and away from one that is silent.

use super::{ManagerFinder, Servers};
use crate::limits::{HELLO_DEADLINE, MANAGER_SILENT_AFTER};
use crate::link::{Connector, EndReason, Link, LinkError, Unreachable};
use gannet_runtime::{sleep, timeout};
use gannet_wire::volume::Hello;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;

impl Servers {
    /// From now on, the managers are where this says.
    pub(in crate::client) fn find_managers_with(&self, finder: ManagerFinder) {
        self.find_manager.replace(Some(finder));
    }

    pub(super) async fn manager_addresses(&self) -> Result<Vec<SocketAddr>, Unreachable> {
        let find = self.find_manager.borrow().clone();
        if let Some(find) = find {
            let found = timeout(&self.runtime, HELLO_DEADLINE, find()).await;
            let found = found.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()));
            let found = found.map_err(|error| Unreachable::NoAddress(error.into()))?;
            self.managers.replace(found);
        }
        let managers = self.managers.borrow().clone();
        if managers.is_empty() {
            return Err(Unreachable::NoManager);
        }
        Ok(managers)
    }

    /// Connects to the one of these managers that is active.
    pub(super) async fn connect_to_manager(
        self: &Rc<Self>,
        addresses: &[SocketAddr],
    ) -> Result<Link, LinkError> {
        let (address, link) = self.connector().connect_to_active(addresses).await?;
        self.manager.set(Some(address));
        if self.managers.borrow().len() > 1 {
            let watching = Rc::clone(self).watch_manager(address, link.clone());
            self.runtime.spawn("active manager", Box::pin(watching));
        }
        Ok(link)
    }

    pub(super) fn connector(&self) -> Connector<'_> {
        Connector {
            runtime: &self.runtime,
            provider: &self.provider,
            pool: &self.pool,
            identity: &self.identity,
            session: self.session,
        }
    }

    /// Ends the connection to a manager that does not answer, once another one is active.
    async fn watch_manager(self: Rc<Self>, address: SocketAddr, link: Link) {
        let mut oldest = None;
        while !link.is_over() {
            sleep(&self.runtime, MANAGER_SILENT_AFTER).await;
            let before = std::mem::replace(&mut oldest, link.oldest_call());
            if oldest.is_none() || oldest != before {
                continue;
            }
            // Standbys refuse connections, so this costs little where a call takes long by right.
            let managers = self.managers.borrow().clone();
            let others: Vec<SocketAddr> =
                managers.into_iter().filter(|it| *it != address).collect();
            if let Ok(other) = self.connect_to_other(&others).await {
                other.close();
                tracing::warn!(%address, "the manager does not answer, and another one is active");
                link.abort(EndReason::TakenOver);
            }
        }
    }

    /// Connects to one of these managers, each of which is tried once.
    async fn connect_to_other(&self, addresses: &[SocketAddr]) -> Result<Link, LinkError> {
        let mut last = Err(Unreachable::NoManager.into());
        for address in addresses {
            last = self.connect(*address, Hello::MANAGER).await;
            if last.is_ok() {
                break;
            }
        }
        last
    }
}
