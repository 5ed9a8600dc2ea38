//! Our side of long transfers on hardware, which moves nothing to or from memory that is not registered: slots of zones
//! are registered once and stay so (the paper's section 3.3.2), and bytes of files are copied into them.

use super::{Link, LinkError, Outgoing, Pool};
use gannet_fabric::registration::{Registration, Strategy, StrategyKind, Trust};
use gannet_fabric::{
    Access, Backing, Provider, RegisterError, RemoteAddress, Revocation, Scope, Source, Span,
};
use gannet_runtime::{Buffer, Handle};
use std::cell::OnceCell;
use std::rc::Rc;

/// What registers memory; nothing where any memory will do.
pub(super) type Staging = Rc<OnceCell<Rc<dyn Strategy>>>;

impl Pool {
    /// Memory of this pool's connections is for `provider`'s adapter.
    pub(crate) fn serve(&self, provider: &dyn Provider, runtime: &Handle) {
        let capabilities = provider.capabilities();
        let kept = Registration::new(StrategyKind::ServerCache, Trust::Untrusted);
        let stages = capabilities.needs_local_registration || !capabilities.file_regions;
        if let (true, Ok(kept)) = (stages, kept) {
            self.staging
                .get_or_init(|| kept.over(provider.domain(), Handle::clone(runtime)));
        }
    }
}

/// Memory that this side's work may name.
pub(super) enum Sink {
    Kept(gannet_fabric::registration::Registered),
    Once(gannet_fabric::Region),
}

impl Sink {
    pub(super) fn span(&self, offset: u64, len: u32) -> Span {
        match self {
            Sink::Kept(registered) => registered.span(offset, len),
            Sink::Once(region) => Span {
                region: region.clone(),
                offset,
                len,
            },
        }
    }

    /// Takes the memory back, of which `written` bytes may have changed. `None`: it is lost.
    pub(super) fn release(self, written: usize) -> Revocation<Option<Buffer>> {
        match self {
            Sink::Kept(registered) => registered.release(written),
            Sink::Once(region) => region.deregister().map(Result::unwrap_or_default),
        }
    }
}

impl Link {
    /// Bytes of files must be copied to registered memory before they leave.
    pub(crate) fn stages(&self) -> bool {
        self.shared.pool.staging.get().is_some()
    }

    /// Makes `buffer` memory for Reads of ours.
    pub(super) fn sink(&self, buffer: Buffer) -> Result<Sink, RegisterError> {
        let endpoint = &self.shared.endpoint;
        let scope = Scope::Endpoint(endpoint.id());
        match self.shared.pool.staging.get() {
            Some(strategy) => {
                let registered = Rc::clone(strategy).register(buffer, Access::Local, scope)?;
                Ok(Sink::Kept(registered))
            }
            None => {
                let backing = Backing::Buffer(buffer);
                let region = endpoint.domain().register(backing, Access::Local, scope)?;
                Ok(Sink::Once(region))
            }
        }
    }

    /// Queues RDMA Writes of parts of `buffer`: offset, target, length. The memory and `hold` are given back when the
    /// last has left.
    ///
    /// # Errors
    /// [`LinkError::Memory`].
    pub(crate) async fn write_staged<T: 'static>(
        &self,
        buffer: Buffer,
        parts: &[(u64, RemoteAddress, u32)],
        hold: T,
    ) -> Result<(), LinkError> {
        let staged = Rc::new(self.sink(buffer)?);
        let mut left = parts.len();
        let mut hold = Some(hold);
        for &(offset, target, len) in parts {
            left -= 1;
            self.room().await;
            let source = Source::Span(staged.span(offset, len));
            let last = (left == 0).then(|| (Rc::clone(&staged), hold.take()));
            self.push(Outgoing::Write {
                source,
                target,
                hold: last.map(|held| Box::new(held) as super::Hold),
            });
        }
        Ok(())
    }
}
