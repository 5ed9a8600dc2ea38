//! The way to the manager that is active, of several.
//!
//! Managers that stand by do not listen, so they refuse connections at once. One that was paused accepts, perhaps, and
//! says nothing. So all are tried at the same time, and the first that proves the volume's key is it.

use super::{HandshakeError, Identity, Link, LinkError, Pool, ServerPlace, Session, Unreachable};
use crate::limits::{CONNECT_AGAIN_AFTER, HELLO_DEADLINE};
use gannet_fabric::Provider;
use gannet_runtime::{Handle, first, sleep, timeout};
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::pin::Pin;
use std::rc::Rc;

/// The parts that connections of one peer are made with.
pub(crate) struct Connector<'a> {
    pub(crate) runtime: &'a Handle,
    pub(crate) provider: &'a Rc<dyn Provider>,
    pub(crate) pool: &'a Pool,
    pub(crate) identity: &'a Identity,
    pub(crate) session: Session,
}

type Attempt<'a> = Pin<Box<dyn Future<Output = Result<(SocketAddr, Link), LinkError>> + 'a>>;

impl Connector<'_> {
    /// Connects to a server, within [`HELLO_DEADLINE`].
    ///
    /// # Errors
    /// `Unreachable`, with the reason.
    pub(crate) async fn connect(&self, place: ServerPlace) -> Result<Link, LinkError> {
        let (runtime, pool, identity) = (self.runtime, self.pool, self.identity.clone());
        let connecting =
            super::connect(runtime, self.provider, pool, place, identity, self.session);
        let connected = timeout(runtime, HELLO_DEADLINE, connecting).await;
        let connected = connected.unwrap_or(Err(HandshakeError::TimedOut));
        let address = place.address;
        connected.map_err(|error| Unreachable::Connect { address, error }.into())
    }

    /// Connects to the first manager of these that answers. Fails when all have refused; while one of them is silent,
    /// the others are tried again.
    ///
    /// # Errors
    /// `Unreachable`: the reason of one of them.
    pub(crate) async fn connect_to_active(
        &self,
        managers: &[SocketAddr],
    ) -> Result<(SocketAddr, Link), LinkError> {
        let refused = RefCell::new(BTreeSet::new());
        let attempts = managers.iter().map(|address| {
            let refused = &refused;
            let attempt: Attempt<'_> = Box::pin(async move {
                loop {
                    let connected = self.connect(ServerPlace::manager(*address)).await;
                    let error = match connected {
                        Ok(link) => return Ok((*address, link)),
                        Err(error) => error,
                    };
                    refused.borrow_mut().insert(*address);
                    if managers.iter().all(|it| refused.borrow().contains(it)) {
                        return Err(error);
                    }
                    sleep(self.runtime, CONNECT_AGAIN_AFTER).await;
                }
            });
            attempt
        });
        if managers.is_empty() {
            return Err(Unreachable::NoManager.into());
        }
        first(attempts).await
    }
}
